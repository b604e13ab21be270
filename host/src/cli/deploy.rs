//! `panetiere deploy init` and `panetiere deploy check`.

use super::outcome::{Failure, Outcome, finish};
use super::{Exit, lanes};
use crate::config::Rounds;
use crate::daemon::unix_time;
use crate::deploy::{self, Plan};
use crate::local::{Route, Shape};
use anyhow::anyhow;
use chipmunk::params::P300;
use chipmunk::ring::backend::Simd;
use getrandom::SysRng;
use panetiere::channel::Encoding;
use panetiere::protocol::LaneShape;
use panetiere::sss::default_threshold;
use rand_core::UnwrapErr;
use serde_json::json;
use std::path::{Path, PathBuf};

/// What to do with a deployment's files.
#[derive(clap::Subcommand, Clone, Debug)]
pub enum Command {
    /// Make a deployment on this machine: keys, certificates, the first epoch, a configuration for every daemon, a script
    /// that starts them
    Init(Init),
    /// Look a deployment's directory over and say what is wrong
    Check(Check),
}

/// Arguments of `deploy init`.
#[derive(clap::Args, Clone, Debug)]
pub struct Init {
    /// Where to: a directory that does not exist, or is empty
    #[arg(long, value_name = "DIR")]
    pub dir: PathBuf,

    /// The deployment's name: the log's origin, and part of every key's name
    #[arg(long, value_name = "NAME", default_value = "panetiere.localhost")]
    pub name: String,

    /// Key servers
    #[arg(long, value_name = "S", default_value_t = 4)]
    pub servers: u16,

    /// Servers that suffice, more than half [default: max(S/2 + 1, S - 2)]
    #[arg(long, value_name = "T")]
    pub threshold: Option<u16>,

    /// Ciphertexts travel through lanes: N of them, or KxN of which any K suffice; at least as many as servers
    #[arg(long, value_name = "N|KxN", value_parser = lane_count, conflicts_with = "aggregators")]
    pub lanes: Option<Lanes>,

    /// Ciphertexts travel to so many aggregators
    #[arg(long, value_name = "N")]
    pub aggregators: Option<u16>,

    /// Witnesses besides the servers
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub witnesses: u16,

    /// Messages that a round has room for: as many as clients take part
    #[arg(long, value_name = "N", default_value_t = 16)]
    pub clients: u32,

    /// Fewest clients of a round that is summed, at least 2
    #[arg(long, value_name = "N", default_value_t = 2)]
    pub min_clients: u32,

    /// Longest message of a round, in bytes; longer ones are split
    #[arg(long, value_name = "N", default_value_t = 256)]
    pub bytes: usize,

    /// How messages become a vector: sketch or peeling
    #[arg(long, value_name = "NAME", default_value_t = Encoding::Sketch)]
    pub encoding: Encoding,

    /// Posts are taken for so long
    #[arg(long, value_name = "MS", default_value_t = 10_000)]
    pub collect_ms: u32,

    /// Rounds of the first epoch
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    pub rounds: u32,

    /// The first of the ports, which follow one another [default: any that are free]
    #[arg(long, value_name = "PORT")]
    pub first_port: Option<u16>,
}

/// As many lanes as there are, and how many of them suffice if that was said.
#[derive(Clone, Copy, Debug)]
pub struct Lanes {
    needed: Option<u16>,
    lanes: u16,
}

fn lane_count(text: &str) -> Result<Lanes, String> {
    if let Ok(lanes) = text.parse() {
        return Ok(Lanes { needed: None, lanes });
    }
    lanes::parse(text).map(|LaneShape { needed, lanes }| Lanes { needed: Some(needed), lanes })
}

/// Arguments of `deploy check`.
#[derive(clap::Args, Clone, Debug)]
pub struct Check {
    /// The deployment's directory
    #[arg(long, value_name = "DIR")]
    pub dir: PathBuf,

    /// One JSON object on stdout
    #[arg(long)]
    pub json: bool,
}

/// Runs a command.
pub fn execute(command: &Command, simd: Simd) -> Exit {
    match command {
        Command::Init(args) => finish(init(args, simd), ""),
        Command::Check(args) => finish(Ok(check(args)), ""),
    }
}

fn init(args: &Init, simd: Simd) -> Outcome {
    let threshold = args.threshold.unwrap_or_else(|| default_threshold(args.servers));
    if args.servers == 0 || threshold > args.servers || threshold <= args.servers / 2 {
        return Err(anyhow!(
            "of {} servers, more than half and at most all suffice, not {threshold}",
            args.servers
        )
        .into());
    }
    if args.min_clients < 2 {
        return Err(anyhow!("--min-clients: at least 2: the sum over one client is its message").into());
    }
    if args.encoding == Encoding::Slots {
        return Err(anyhow!("--encoding slots: the daemons have sketch and peeling").into());
    }
    let route = match (args.lanes, args.aggregators) {
        (Some(Lanes { lanes, .. }), _) if lanes < args.servers => {
            return Err(
                anyhow!("--lanes: {lanes} lanes for {} servers: at least as many", args.servers).into()
            );
        }
        (Some(Lanes { needed, lanes }), _) => {
            Route::Lanes(LaneShape { needed: needed.unwrap_or_else(|| default_threshold(lanes)), lanes })
        }
        (None, Some(0)) => return Err(anyhow!("--aggregators: at least 1").into()),
        (None, Some(aggregators)) => Route::Aggregated(aggregators),
        (None, None) => Route::Direct,
    };
    let shape = Shape {
        clients: args.clients,
        servers: args.servers,
        threshold,
        min_clients: args.min_clients,
        message_bytes: args.bytes,
        encoding: args.encoding,
        route,
        set: &P300,
        kernels: simd.kernels(),
    };
    let plan = Plan {
        dir: args.dir.clone(),
        name: args.name.clone(),
        shape,
        rounds: args.rounds,
        windows: Rounds { collect_window_ms: args.collect_ms, ..Rounds::default() },
        first_port: args.first_port,
        witnesses: args.witnesses,
    };
    let made = deploy::init(&plan, &mut UnwrapErr(SysRng), unix_time());
    let made =
        made.map_err(|error| Failure { exit: Exit::Usage, error: error.context("no deployment was made") })?;
    let shown = |path: &Path| path.display().to_string();
    let lines = [
        format!("{} daemons in {}", made.daemons.len(), shown(&args.dir)),
        format!("start:  {}", shown(&made.start)),
        format!("check:  panetiere deploy check --dir {}", shown(&args.dir)),
        format!("send:   panetiere client send --config {} MESSAGE", shown(&made.client)),
        "clients are admitted without attestation: for trials on this machine alone".to_owned(),
    ];
    Ok((lines.join("\n"), Exit::Ok))
}

fn check(args: &Check) -> (String, Exit) {
    let findings = deploy::check(&args.dir, unix_time());
    let wrong = findings.iter().filter(|finding| finding.wrong.is_some()).count();
    let exit = if wrong == 0 { Exit::Ok } else { Exit::Failed };
    if args.json {
        let list: Vec<_> =
            findings.iter().map(|finding| json!({"what": finding.what, "wrong": finding.wrong})).collect();
        return (json!({"findings": list, "wrong": wrong}).to_string(), exit);
    }
    let line = |finding: &deploy::Finding| match &finding.wrong {
        None => format!("ok    {}", finding.what),
        Some(wrong) => format!("WRONG {}: {wrong}", finding.what),
    };
    let mut lines: Vec<String> = findings.iter().map(line).collect();
    lines.push(format!("{} looked at, {wrong} wrong", findings.len()));
    (lines.join("\n"), exit)
}
