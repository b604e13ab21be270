//! `panetiere demo`: a whole round in one process, then the same round with a lying server.

pub mod args;
pub mod messages;
mod render;
pub mod report;
mod round;
pub mod usage;

use crate::cli::Exit;
use crate::cli::progress::Progress;
use crate::cli::terminal::{self, Style};
use crate::seed::Seed;
use anyhow::Context;
use args::{Args, DemoConfig};
use chipmunk::ring::backend::Simd;
use report::DemoReport;

/// Runs the round that `config` describes and its tampered twin.
///
/// # Errors
/// If the round cannot be carried out. A round that ends with the wrong messages, or blames the wrong party, is a
/// report that says so ([`DemoReport::failures`]).
pub fn run(config: &DemoConfig, progress: &Progress) -> anyhow::Result<DemoReport> {
    round::run(config, progress)
}

/// Runs the command and prints its result.
pub(crate) fn execute(args: &Args, simd: Simd) -> Exit {
    match try_execute(args, simd) {
        Ok(exit) => exit,
        Err(error) => {
            terminal::print_error(&format!("{error:#}"));
            Exit::Failed
        }
    }
}

fn try_execute(args: &Args, simd: Simd) -> anyhow::Result<Exit> {
    let seed = match &args.seed {
        Some(seed) => seed.clone(),
        None => Seed::from_os()?,
    };
    let config = match DemoConfig::from_args(args, seed, simd, messages::load) {
        Ok(config) => config,
        Err(error) => {
            terminal::print_error(&format!("{:#}", anyhow::Error::from(error)));
            return Ok(Exit::Usage);
        }
    };
    let progress = Progress::on_stderr(args.json);
    if let Some(note) = config.note(args) {
        progress.note(&note);
    }
    let report = run(&config, &progress)?;
    let text = if args.json { serde_json::to_string(&report)? } else { report.render(Style::of_stdout()) };
    terminal::print_stdout(&text).context("cannot write to stdout")?;
    let failures = report.failures();
    for failure in &failures {
        terminal::print_error(failure);
    }
    Ok(if failures.is_empty() { Exit::Ok } else { Exit::Failed })
}
