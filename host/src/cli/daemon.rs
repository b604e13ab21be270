//! `panetiere bulletin|server|lane|aggregator|recipient|witness run --config FILE`.

use super::{Exit, terminal};
use crate::config::{BulletinConfig, ConfigError};
use crate::daemon;
use chipmunk::ring::backend::Simd;
use panetiere::fault::Fault as _;
use std::path::PathBuf;

/// What to do with a daemon.
#[derive(clap::Subcommand, Clone, Debug)]
pub enum Command {
    /// Run it until SIGTERM or SIGINT; SIGHUP has it read again what may change
    Run(Run),
}

/// Arguments of `run`.
#[derive(clap::Args, Clone, Debug)]
pub struct Run {
    /// Its configuration
    #[arg(long, value_name = "FILE")]
    pub config: PathBuf,
}

fn read<T>(read: impl FnOnce() -> Result<T, ConfigError>) -> Result<T, Exit> {
    read().map_err(|error| {
        terminal::print_error(&format!("{} [{}]", crate::chain::chain(&error), error.code()));
        Exit::Usage
    })
}

fn ended(outcome: anyhow::Result<()>) -> Exit {
    match outcome {
        Ok(()) => Exit::Ok,
        Err(error) => {
            terminal::print_error(&format!("{error:#}"));
            Exit::Failed
        }
    }
}

/// Runs a bulletin.
pub fn bulletin(Command::Run(Run { config: path }): &Command, simd: Simd) -> Exit {
    let config = match read(|| BulletinConfig::read(path)) {
        Ok(config) => config,
        Err(exit) => return exit,
    };
    ended(daemon::run(config.admin, simd, |process| daemon::bulletin::run(process, path.clone(), config)))
}
