//! `panetiere bulletin|server|lane|aggregator|recipient|witness run --config FILE`.

use super::{Exit, terminal};
use crate::config::{
    AggregatorConfig, BulletinConfig, ConfigError, LaneConfig, RecipientConfig, Role, ServerConfig,
    WitnessConfig,
};
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

/// Runs a daemon of a role.
pub fn execute(role: Role, Command::Run(Run { config: path }): &Command, simd: Simd) -> Exit {
    macro_rules! run {
        ($config:ident, $module:ident) => {
            match read(|| $config::read(path)) {
                Ok(config) => ended(daemon::run(config.admin, simd, |process| {
                    daemon::$module::run(process, path, config)
                })),
                Err(exit) => exit,
            }
        };
    }
    match role {
        Role::Aggregator => run!(AggregatorConfig, aggregator),
        Role::Bulletin => run!(BulletinConfig, bulletin),
        Role::Lane => run!(LaneConfig, lane),
        Role::Recipient => run!(RecipientConfig, recipient),
        Role::Server => run!(ServerConfig, server),
        Role::Witness => run!(WitnessConfig, witness),
    }
}
