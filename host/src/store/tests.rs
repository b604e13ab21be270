//! The store against a model that knows nothing of files: what was acknowledged is there, what was not is there whole
//! or not at all.

mod faults;
mod model;
mod ordinary;
mod refusals;
mod threads;

use super::disk::Disk;
use super::disk::memory::MemoryDisk;
use super::{Options, Sequencer, StartError, Started, Store};
use sha2::{Digest as _, Sha256};
use std::sync::Arc;
use tlog::checkpoint::{Log, Origin};
use tlog::key::NoteSigner;
use tlog::note::Signature;

/// Seconds since the epoch at which the tests' clocks begin.
const NOW: u64 = 1_800_000_000;

fn origin() -> Origin {
    "bulletin.example/test".parse().unwrap()
}

fn key() -> NoteSigner {
    NoteSigner::from_seed("bulletin.example/test".parse().unwrap(), &[7; 32])
}

fn log() -> Log {
    Log::new(origin(), vec![key().verifier().clone()]).unwrap()
}

fn options() -> Options {
    // Small segments, so that a round has several.
    Options { segment_bytes: 3000, keep_checkpoints: 3, ..Options::new(origin(), key()) }
}

fn open(disk: &MemoryDisk) -> Result<(Store, Sequencer, Started), StartError> {
    open_with(disk, options())
}

fn open_with(disk: &MemoryDisk, options: Options) -> Result<(Store, Sequencer, Started), StartError> {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    Store::open(disk, options, NOW)
}

/// A line as a witness answers with; the store does not verify it.
fn witness_line() -> Signature {
    let encoded = data_encoding::BASE64.encode(&[5; 76]);
    Signature::parse_lines(&format!("\u{2014} witness.example {encoded}\n")).unwrap().remove(0)
}

/// RFC 6962's MTH, as it stands there.
fn root(leaves: &[Vec<u8>]) -> [u8; 32] {
    match leaves {
        [] => Sha256::digest([]).into(),
        [leaf] => Sha256::new().chain_update([0]).chain_update(leaf).finalize().into(),
        _ => {
            let (left, right) = leaves.split_at(leaves.len().next_power_of_two() / 2);
            Sha256::new()
                .chain_update([1])
                .chain_update(root(left))
                .chain_update(root(right))
                .finalize()
                .into()
        }
    }
}
