//! The command line of `panetiere`.
//!
//! Results go to stdout, for people or with `--json` for programs; progress and errors go to stderr only. An error
//! is at most three lines and says what to change. Exit codes: [`Exit`].

mod bench;
mod client;
mod daemon;
pub mod demo;
mod deploy;
mod evidence;
mod lanes;
mod log;
mod outcome;
pub mod progress;
mod round;
pub mod simd;
pub mod terminal;

use crate::config::Role;
use chipmunk::ring::backend::Simd;
use clap::Parser;
use clap::error::ErrorKind;
use std::io;
use std::process::ExitCode;

/// Anonymous broadcast: real messages in, the same messages out, unlinked from their senders. Not audited.
#[derive(Parser)]
#[command(name = "panetiere", version, after_help = simd::HELP)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Run a whole round in this process, check what comes out, then run it again with somebody who lies
    Demo(demo::args::Args),
    /// Measure a round or the arithmetic under it on this machine
    #[command(subcommand)]
    Bench(bench::Command),
    /// Run an aggregator: sums posts of its clients
    #[command(subcommand)]
    Aggregator(daemon::Command),
    /// Run the bulletin: log, bodies, rounds
    #[command(subcommand)]
    Bulletin(daemon::Command),
    /// Take part in rounds as a client
    #[command(subcommand)]
    Client(client::Command),
    /// Make a deployment, look it over
    #[command(subcommand)]
    Deploy(deploy::Command),
    /// Check evidence of a fault, offline
    #[command(subcommand)]
    Evidence(evidence::Command),
    /// Run a lane: sums shares of ciphertexts
    #[command(subcommand)]
    Lane(daemon::Command),
    /// Look at a log on disk: check all of it, show its end, print a receipt
    #[command(subcommand)]
    Log(log::Command),
    /// Run a recipient: recovers the messages
    #[command(subcommand)]
    Recipient(daemon::Command),
    /// Look at published rounds offline: audit one, list all, inspect one
    #[command(subcommand)]
    Round(round::Command),
    /// Run a key server: sums key shares, cosigns the log
    #[command(subcommand)]
    Server(daemon::Command),
    /// Run a witness: cosigns the log
    #[command(subcommand)]
    Witness(daemon::Command),
}

/// How a run of the program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// 0: everything held.
    Ok,
    /// 1: something failed, or the result is not what it must be.
    Failed,
    /// 2: the command line or an input file has to change.
    Usage,
    /// 3: verification found a fault, and it is named.
    Convicted,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        match exit {
            Exit::Ok => Self::from(0),
            Exit::Failed => Self::from(1),
            Exit::Usage => Self::from(2),
            Exit::Convicted => Self::from(3),
        }
    }
}

/// Runs the program with the process's arguments.
pub fn main() -> ExitCode {
    let exit = match Cli::try_parse() {
        Ok(Cli { command }) => with_simd(|simd| execute(&command, simd)),
        Err(error) => explain(&error),
    };
    exit.into()
}

/// Runs the program of one role, `panetiere-ROLE`: the same as `panetiere ROLE`.
pub fn role_main(role: Role) -> ExitCode {
    /// The program of one role.
    #[derive(Parser)]
    #[command(version, after_help = simd::HELP)]
    struct RoleCli {
        #[command(subcommand)]
        command: daemon::Command,
    }
    let exit = match RoleCli::try_parse() {
        Ok(RoleCli { command }) => with_simd(|simd| daemon::execute(role, &command, simd)),
        Err(error) => explain(&error),
    };
    exit.into()
}

/// Does something with the arithmetic that the environment names.
fn with_simd(work: impl FnOnce(Simd) -> Exit) -> Exit {
    match simd::from_environment() {
        Ok(simd) => work(simd),
        Err(error) => {
            terminal::print_error(&error.to_string());
            Exit::Usage
        }
    }
}

fn execute(command: &Command, simd: Simd) -> Exit {
    match command {
        Command::Demo(args) => demo::execute(args, simd),
        Command::Bench(command) => bench::execute(command, simd),
        Command::Aggregator(command) => daemon::execute(Role::Aggregator, command, simd),
        Command::Bulletin(command) => daemon::execute(Role::Bulletin, command, simd),
        Command::Client(command) => client::execute(command, simd),
        Command::Deploy(command) => deploy::execute(command, simd),
        Command::Evidence(command) => evidence::execute(command, simd),
        Command::Lane(command) => daemon::execute(Role::Lane, command, simd),
        Command::Log(command) => log::execute(command),
        Command::Recipient(command) => daemon::execute(Role::Recipient, command, simd),
        Command::Round(command) => round::execute(command, simd),
        Command::Server(command) => daemon::execute(Role::Server, command, simd),
        Command::Witness(command) => daemon::execute(Role::Witness, command, simd),
    }
}

/// Prints what clap has to say: help and version in full, an error in at most three lines.
fn explain(error: &clap::Error) -> Exit {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => match error.print() {
            // As with any result: a reader that has gone away is no error, a full disk is.
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                terminal::print_error(&format!("cannot write to stdout: {error}"));
                Exit::Failed
            }
            _ => Exit::Ok,
        },
        // Nobody is left to tell if stderr is closed.
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            let _ = error.print();
            Exit::Usage
        }
        _ => {
            terminal::print_stderr(&condense(&error.render().to_string()));
            Exit::Usage
        }
    }
}

/// The first two telling lines of clap's error text, and where to read on.
fn condense(rendered: &str) -> String {
    let mut lines: Vec<String> = rendered
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more information"))
        .take(2)
        .map(terminal::escape)
        .collect();
    lines.push("see: panetiere help [COMMAND]".to_owned());
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn clap_errors_are_three_lines_that_name_the_argument() {
        for (arguments, names) in [
            (vec!["demo", "--clients", "many"], "--clients"),
            (vec!["demo", "--clients", "-3"], "-3"),
            (vec!["demo", "--servers", "65536"], "--servers"),
            (vec!["demo", "--params", "p9"], "--params"),
            (vec!["demo", "--seed", "00"], "--seed"),
            (vec!["demo", "--colour"], "--colour"),
            (vec!["demo", "--messages", "a", "--messages-dir", "b"], "--messages-dir"),
            (vec!["demo", "--clients", "a\u{1b}[2J\nb\nc\nd\ne"], "'a"),
            (vec!["demo", "--bytes"], "--bytes"),
            (vec!["dmeo"], "dmeo"),
        ] {
            let error = Cli::try_parse_from(std::iter::once("panetiere").chain(arguments.iter().copied()))
                .err()
                .expect("no such command line");
            assert_ne!(error.kind(), ErrorKind::DisplayHelp);
            let text = condense(&error.render().to_string());
            assert!(text.lines().count() <= 3, "{arguments:?}: {text}");
            assert!(text.starts_with("error: ") && text.contains(names), "{arguments:?}: {text}");
            assert!(!text.contains('\u{1b}'), "{text}");
        }
    }
}
