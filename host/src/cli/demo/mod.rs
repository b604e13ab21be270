//! `panetiere demo`: a whole round in one process, then the same round with somebody who lies.

mod aggregated;
pub mod args;
mod client;
mod collect;
pub mod config;
mod direct;
mod erasure;
mod ingress;
pub mod lie;
pub mod messages;
mod render;
pub mod report;
mod round;
mod spool;
pub mod usage;

use crate::cli::Exit;
use crate::cli::progress::Progress;
use crate::cli::terminal::{self, Style};
use crate::seed::Seed;
use anyhow::Context;
use args::Args;
use chipmunk::ring::backend::Simd;
use config::DemoConfig;
use panetiere::bulletin::Mode;
use panetiere::wire::Encode;
use report::DemoReport;
use std::path::Path;

/// Runs the rounds that `config` describes, one a mode, each with its tampered twin.
///
/// # Errors
/// If the round cannot be carried out. A round that ends with the wrong messages, or blames the wrong party, is a
/// report that says so ([`DemoReport::failures`]).
pub fn run(config: &DemoConfig, progress: &Progress) -> anyhow::Result<Vec<DemoReport>> {
    let one = |mode: &Mode| {
        if config.listed {
            progress.note(&format!("{mode} mode"));
        }
        round::run(config, *mode, progress)
    };
    config.modes.iter().map(one).collect()
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

/// Writes what convicts those who were named.
fn write_evidence(directory: &Path, reports: &[DemoReport], progress: &Progress) -> anyhow::Result<()> {
    std::fs::create_dir_all(directory).with_context(|| format!("{}", directory.display()))?;
    for round in reports.iter().flat_map(|report| [&report.round, &report.tamper]) {
        for (party, evidence) in &round.evidence {
            let name = format!("{}-{}.evidence", round.mode, party).replace(' ', "-");
            let path = directory.join(name);
            std::fs::write(&path, evidence.to_bytes()).with_context(|| format!("{}", path.display()))?;
            progress.note(&format!("evidence against {party}: {}", path.display()));
        }
    }
    Ok(())
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
    let reports = run(&config, &progress)?;
    let text = match &*reports {
        [report] if args.json && !config.listed => serde_json::to_string(report)?,
        reports if args.json => serde_json::to_string(&serde_json::json!({ "rounds": reports }))?,
        reports => {
            let texts = reports.iter().enumerate();
            // Every mode recovers the same messages.
            let texts = texts.map(|(at, report)| report.render(Style::of_stdout(), at == 0));
            texts.collect::<Vec<_>>().join("\n\n")
        }
    };
    terminal::print_stdout(&text).context("cannot write to stdout")?;
    if let Some(directory) = &args.evidence {
        write_evidence(directory, &reports, &progress)?;
    }
    let failures: Vec<String> = reports.iter().flat_map(DemoReport::failures).collect();
    for failure in &failures {
        terminal::print_error(failure);
    }
    Ok(if failures.is_empty() { Exit::Ok } else { Exit::Failed })
}
