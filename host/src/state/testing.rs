//! What the tests of the state have in common.

use super::{ReleaseGuard, State};
use crate::release::scene::{History, Leaf, origin};
use crate::release::{Record, Release, SummedSet, decide};
use crate::store::disk::memory::{Crash, Failure, MemoryDisk};
use panetiere::bulletin::SumClaim;
use panetiere::ids::{DeploymentId, ServerId, SessionId};
use panetiere::protocol::{AnswerKind, AnswerSlot};
use std::sync::Arc;

/// Every way in which an effect fails.
pub(super) const FAILURES: [Failure; 4] = [Failure::NotDone, Failure::Done, Failure::NoSpace, Failure::Crash];

/// Every way in which the machine stops.
pub(super) fn crashes(seed: u64) -> [Crash; 3] {
    [Crash::LoseAll, Crash::KeepAll, Crash::Seeded(seed)]
}

/// Two histories that one session is in, with different sets: to release over both would give a client away.
pub(super) fn fork() -> [History; 2] {
    let common = [Leaf::Other(0), Leaf::Open, Leaf::Post(1), Leaf::Post(2)];
    let long = [&common[..], &[Leaf::Post(3), Leaf::Close]].concat();
    [History::new(&[&common[..], &[Leaf::Close, Leaf::Other(1)]].concat()), History::new(&long)]
}

pub(super) fn session() -> SessionId {
    fork()[0].session()
}

pub(super) fn slot() -> AnswerSlot {
    AnswerSlot { session: session(), kind: AnswerKind::ServerSum }
}

/// The sum's claim over the first close of a history.
pub(super) fn claim(history: &History) -> SumClaim {
    let digest = "ab".repeat(32);
    let SummedSet { set, posts, clients } = history.set(history.closes()[0]);
    SumClaim {
        deployment: DeploymentId::from_name("test"),
        epoch: digest.parse().unwrap(),
        session: history.session(),
        crs: digest.parse().unwrap(),
        server: ServerId(1),
        set,
        posts,
        clients,
    }
}

/// Leave to release over a history, from the rule, for a server of this record.
pub(super) fn release(history: &History, record: Record) -> Option<Release> {
    let origin = origin();
    decide(&history.closing(&origin, history.closes()[0], Ok(history.head()), record)).ok()
}

/// Leave to release over a history, from the rule, for a server that remembers nothing: so that only the guard is
/// between it and a second answer.
pub(super) fn forgetful(history: &History) -> Release {
    release(history, Record { imported: Some(u64::MAX), answered: None }).expect("a good close")
}

pub(super) fn guard(disk: &MemoryDisk) -> ReleaseGuard {
    ReleaseGuard::new(State::open(disk).expect("opens after any crash"))
}

/// A guard that has read a log in which this server has said nothing.
pub(super) fn imported(disk: &MemoryDisk) -> ReleaseGuard {
    let guard = guard(disk);
    let position = guard.position().unwrap();
    guard.import(position, fork()[0].head(), &[]).unwrap();
    guard
}

pub(super) fn memory() -> (MemoryDisk, Arc<State>) {
    let disk = MemoryDisk::new();
    let state = State::open(&disk).unwrap();
    (disk, state)
}
