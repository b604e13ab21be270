//! `panetiere bench`: what a round costs each role, and what the arithmetic under it costs.

mod frames;
mod kernels;
mod machine;
mod round;
mod store;
mod worker;
mod yardsticks;

use crate::cli::Exit;
use crate::cli::terminal;
use anyhow::Context;
use chipmunk::ring::backend::Simd;
use panetiere::channel::Encoding;
use panetiere::protocol::LaneShape;

/// What to measure.
#[derive(clap::Subcommand, Clone, Debug)]
pub(crate) enum Command {
    /// Run one whole round, each role in a process of its own, and time every phase
    Round(RoundArgs),
    /// Time each arithmetic kernel next to a dependent addition
    Kernels(KernelArgs),
    /// Write posts durably, next to a plain file that is synced as often
    Store(store::Args),
    /// One role of `bench round`, driven by its parent over stdin and stdout
    #[command(hide = true)]
    Worker(worker::Args),
}

/// The shape of the round to measure.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct RoundArgs {
    /// Clients in the round, each sending a message of full length
    #[arg(long, value_name = "N", default_value_t = 300)]
    clients: u32,

    /// Length of every message, in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 16_384)]
    bytes: usize,

    /// Servers that share the key
    #[arg(long, value_name = "S", default_value_t = 8)]
    servers: u16,

    /// Have the ciphertexts travel as coded shares, any K of N lanes [default: on the bulletin]
    #[arg(long, value_name = "KxN", value_parser = crate::cli::lanes::parse)]
    lanes: Option<LaneShape>,

    /// How messages become a vector that can be summed: sketch or peeling
    #[arg(long, value_name = "NAME", default_value_t = Encoding::Sketch)]
    encoding: Encoding,

    /// Threads of each process
    #[arg(long, value_name = "N", default_value_t = 1)]
    threads: u16,

    /// Arithmetic back-end [default: $PANETIERE_SIMD, or the fastest of this CPU]
    #[arg(long, value_name = "NAME")]
    simd: Option<Simd>,

    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

/// How to measure the kernels.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct KernelArgs {
    /// Arithmetic back-end [default: $PANETIERE_SIMD, or the fastest of this CPU]
    #[arg(long, value_name = "NAME")]
    simd: Option<Simd>,

    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

/// Runs the command; `simd` is what a bench measures that names no back-end.
pub(crate) fn execute(command: &Command, simd: Simd) -> Exit {
    let outcome = match command {
        Command::Round(args) => round::execute(args, args.simd.unwrap_or(simd)),
        Command::Kernels(args) => kernels::execute(args, args.simd.unwrap_or(simd)),
        Command::Store(args) => store::execute(args),
        Command::Worker(args) => worker::execute(args).map(|()| Exit::Ok),
    };
    outcome.unwrap_or_else(|error| {
        terminal::print_error(&format!("{error:#}"));
        Exit::Failed
    })
}

/// Prints a result as one line of JSON, or as one line a number.
fn print(report: &serde_json::Value, json: bool) -> anyhow::Result<()> {
    let text = if json {
        serde_json::to_string(report)?
    } else {
        let mut lines = Vec::new();
        flatten("", report, &mut lines);
        lines.join("\n")
    };
    terminal::print_stdout(&text).context("cannot write to stdout")
}

/// One line per leaf of the object: its path and its value.
fn flatten(path: &str, value: &serde_json::Value, lines: &mut Vec<String>) {
    match value {
        serde_json::Value::Object(fields) => {
            for (name, value) in fields {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                flatten(&path, value, lines);
            }
        }
        value => lines.push(format!("{path:<44} {value}")),
    }
}

/// The middle of the samples, in milliseconds to the tenth of a microsecond; 0 without samples.
fn median_ms(samples: &[std::time::Duration]) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_unstable();
    let middle = sorted.get(sorted.len() / 2).copied().unwrap_or_default();
    (middle.as_secs_f64() * 1e7).round() / 1e4
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::time::Duration;

    #[test]
    fn median_is_the_middle_sample() {
        let samples = [5u64, 1, 9].map(Duration::from_millis);
        assert!((median_ms(&samples) - 5.0).abs() < 1e-9);
        assert!(median_ms(&[]) < 1e-9);
    }

    #[test]
    fn text_names_every_number_once() {
        let mut lines = Vec::new();
        flatten("", &json!({"client": {"total_ms": 1.5}, "threads": 2}), &mut lines);
        let words: Vec<Vec<&str>> = lines.iter().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(words, [["client.total_ms", "1.5"], ["threads", "2"]]);
    }
}
