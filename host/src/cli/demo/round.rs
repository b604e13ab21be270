//! The round behind `panetiere demo`.

use super::args::DemoConfig;
use super::report::DemoReport;
use crate::cli::progress::Progress;

/// Runs the round and its tampered twin.
pub(super) fn run(_config: &DemoConfig, _progress: &Progress) -> anyhow::Result<DemoReport> {
    anyhow::bail!("the round is not built yet")
}
