//! `panetiere client send`.

use super::{Exit, terminal};
use crate::client::{self, News, Options};
use crate::config::ClientFile;
use chipmunk::ring::backend::Simd;
use serde_json::json;
use std::path::PathBuf;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// What a client does.
#[derive(clap::Subcommand, Clone, Debug)]
pub enum Command {
    /// Take part in every round, with messages or with cover
    #[command(
        after_help = "Without a MESSAGE it takes part with cover until it is told to stop (Ctrl-C, SIGTERM). With \
        messages it ends when all of them are in published results, held against the log by the client itself; what is not \
        out when it is stopped is kept in its data directory and sent by the next one.\n\n\
        Examples:\n  panetiere client send --config demo/client/client.toml --clients 3\n  \
        panetiere client send --config demo/client/client.toml 'the dam is unsafe'"
    )]
    Send(Send),
}

/// Arguments of `client send`.
#[derive(clap::Args, Clone, Debug)]
pub struct Send {
    /// Its configuration
    #[arg(long, value_name = "FILE")]
    pub config: PathBuf,

    /// What to send; a long message goes out in pieces, over several rounds
    #[arg(value_name = "MESSAGE")]
    pub messages: Vec<String>,

    /// Clients of this process, each with a key of its own
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub clients: u16,

    /// Give up after so many seconds
    #[arg(long, value_name = "S")]
    pub timeout_s: Option<u64>,

    /// One JSON object on stdout for everything that happens
    #[arg(long)]
    pub json: bool,
}

/// Runs a command.
pub fn execute(Command::Send(args): &Command, simd: Simd) -> Exit {
    match send(args, simd) {
        Ok(exit) => exit,
        Err(error) => {
            terminal::print_error(&format!("{error:#}"));
            Exit::Failed
        }
    }
}

fn send(args: &Send, simd: Simd) -> anyhow::Result<Exit> {
    let config = ClientFile::read(&args.config)?;
    if args.clients == 0 {
        terminal::print_error("--clients: at least 1");
        return Ok(Exit::Usage);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().worker_threads(2).build()?;
    let options =
        Options { clients: args.clients, until_sent: !args.messages.is_empty(), kernels: simd.kernels() };
    let messages: Vec<Vec<u8>> = args.messages.iter().map(|message| message.as_bytes().to_vec()).collect();
    let waiting = runtime.block_on(async {
        let stop = CancellationToken::new();
        let (mut terminate, mut interrupt) =
            (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        let told = stop.clone();
        let timeout = args.timeout_s.map_or(Duration::MAX, Duration::from_secs);
        tokio::spawn(async move {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
                () = tokio::time::sleep(timeout) => {}
            }
            told.cancel();
        });
        let mut tell = |news: News| print(&news, args.json);
        client::run(&args.config, &config, options, messages, stop, &mut tell).await
    })?;
    runtime.shutdown_timeout(Duration::from_secs(1));
    if waiting.is_empty() || args.messages.is_empty() {
        return Ok(Exit::Ok);
    }
    let left: Vec<String> = waiting.iter().map(ToString::to_string).collect();
    terminal::print_error(&format!("not out yet, and kept for the next time: {}", left.join(", ")));
    Ok(Exit::Failed)
}

fn print(news: &News, json: bool) {
    let text = match (news, json) {
        (News::Posted { round }, false) => format!("round {round}: posted"),
        (News::Missed { round, reason }, false) => format!("round {round}: missed: {reason}"),
        (News::Delivered { message, round, leaf }, false) => {
            format!("{message}: out with round {round}, in the result at leaf {leaf} of the log")
        }
        (News::Posted { round }, true) => json!({"event": "posted", "round": round.0}).to_string(),
        (News::Missed { round, reason }, true) => {
            json!({"event": "missed", "round": round.0, "reason": reason}).to_string()
        }
        (News::Delivered { message, round, leaf }, true) => {
            json!({"event": "delivered", "message": message.to_string(), "round": round.0, "leaf": leaf})
                .to_string()
        }
    };
    // A reader that has gone away changes nothing for what is being sent.
    let _gone = terminal::print_stdout(&text);
}
