//! The bulletin: takes what parties send, keeps what has to be kept, and appends the leaves that count.
//!
//! A leaf is folded into the bulletin's own record before it is submitted ([`Record::propose`]), so one that would be void is
//! refused with the reason and never written. Both happen under one lock: what is proposed first stands first. No sockets
//! here; calls may come from many threads.

mod cosign;
mod places;
mod refused;
mod take;

pub use cosign::{CosignError, CosignTarget};
pub use places::Place;
pub use refused::Refused;
pub use take::IncomingPost;

use crate::round::conductor::{Conductor, Millis, Step, Windows};
use crate::round::library::{Item, Library};
use crate::round::{Event, Phase, Record};
use crate::store::log::Log;
use crate::store::{BlobStore as _, Change, Committed, Store, StoreError, StoredBlob, Submission, head_of};
use cosign::Cosigning;
use panetiere_api::leaf::RoundId;
use panetiere_api::limits::MAX_LEAVES;
use places::Places;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tlog::entry;
use tokio::sync::{oneshot, watch};

/// What is proposed and what is conducted, under one lock.
#[derive(Debug)]
struct State {
    record: Record,
    places: Places,
    conductor: Conductor,
    cosigning: Cosigning,
    /// When the last round was opened, by the conductor's clock.
    opened: Option<Millis>,
}

/// The bulletin without its wires.
#[derive(Debug)]
pub struct Bulletin {
    log: Log,
    state: Mutex<State>,
    /// Milliseconds between two rounds' openings, at least.
    interval: Millis,
    /// Leaves that are durable and under a published checkpoint.
    durable: watch::Sender<u64>,
    /// Counts what readers other than of leaves may wait for: closings, the checkpoint to be cosigned.
    changes: watch::Sender<u64>,
}

/// A leaf that counts and is on its way into the log.
#[derive(Debug)]
pub struct Accepted {
    /// What it brings about.
    pub event: Event,
    /// Where it will stand.
    pub index: u64,
    /// What became of it.
    pub committed: oneshot::Receiver<Result<Committed, StoreError>>,
}

/// What became of a request to take something.
#[derive(Debug)]
pub enum Taken {
    /// It is on its way into the log.
    Accepted(Accepted),
    /// The same stands in the log already, or will.
    Already {
        /// Where.
        index: u64,
    },
}

/// What is on its way to the disk, without a leaf. None: it is there already.
pub type Kept = Option<oneshot::Receiver<Result<Committed, StoreError>>>;

impl Bulletin {
    /// Takes over a log: folds all its leaves into `record`, which is empty.
    ///
    /// # Errors
    /// `Store` if a leaf cannot be read; `Unavailable` if evidence that one names is gone; `Read`.
    pub fn open(log: Log, mut record: Record, windows: Windows, interval: Millis) -> Result<Self, Refused> {
        let store = log.store();
        let note = store.checkpoint().map_err(Refused::Store)?;
        let size = head_of(&note).map_err(Refused::Store)?.size;
        let mut places = Places::default();
        while record.size() < size {
            let to = size.min(record.size() + MAX_LEAVES);
            let page = store.entries(record.size(), to).map_err(Refused::Store)?;
            let mut rest = &page[..];
            while let Some((leaf, after)) = entry::next(rest) {
                let index = record.size();
                let outcome = record.apply(leaf, &Library(store)).map_err(Refused::Unavailable)?;
                // What is void was written by an earlier program or by hand: readers pass over it, and so does this one.
                if let Ok(event) = outcome {
                    places.note(&event, index, &record);
                }
                rest = after;
            }
        }
        let mut sealed = Vec::new();
        for session in record.rounds().filter(|session| session.closed().is_some()) {
            if Library(store).name(session.round(), Item::Closing).map_err(Refused::Read)?.is_some() {
                sealed.push(session.round());
            }
        }
        let (conductor, cosigning) = (Conductor::new(windows), Cosigning::new(sealed));
        let state = Mutex::new(State { record, places, conductor, cosigning, opened: None });
        Ok(Self { state, log, interval, durable: watch::Sender::new(size), changes: watch::Sender::new(0) })
    }

    /// The log's store.
    pub const fn store(&self) -> &Store {
        self.log.store()
    }

    /// To wait for leaves: how many are durable.
    pub fn durable(&self) -> watch::Receiver<u64> {
        self.durable.subscribe()
    }

    /// To wait for closings and checkpoints to be cosigned.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    fn changed(&self) {
        self.changes.send_modify(|count| *count += 1);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A panic while it was held has at worst left a leaf out that was proposed: it is found when the next one does not
        // stand where it was proposed, and ends the process.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks at the record: with everything that was accepted, durable or not.
    pub fn with_record<T>(&self, look: impl FnOnce(&Record) -> T) -> T {
        look(&self.state().record)
    }

    /// Where something stands in the log, durable or not.
    pub fn place(&self, place: &Place) -> Option<u64> {
        self.state().places.get(place)
    }

    /// The posts of a round that count, by the index of their leaves, in a range of them.
    pub fn posts_between(&self, round: RoundId, from: u64, to: u64) -> Vec<panetiere::ids::ClientId> {
        self.state().places.posts_between(round, from, to)
    }

    /// Proposes a leaf, and submits it if it counts.
    fn append(
        &self,
        leaf: Vec<u8>,
        blobs: Vec<StoredBlob>,
        changes: Vec<Change>,
    ) -> Result<Accepted, Refused> {
        self.append_to(&mut self.state(), leaf, blobs, changes)
    }

    fn append_to(
        &self,
        state: &mut State,
        leaf: Vec<u8>,
        blobs: Vec<StoredBlob>,
        changes: Vec<Change>,
    ) -> Result<Accepted, Refused> {
        // A place in the queue first: what was proposed cannot be taken back.
        let place = self.log.reserve().map_err(Refused::Store)?;
        let index = state.record.size();
        let proposed = state.record.propose(&leaf, &Library(self.store())).map_err(Refused::Unavailable)?;
        let event = proposed.map_err(|void| Refused::Void(Box::new(void)))?;
        state.places.note(&event, index, &state.record);
        let (tell, committed) = oneshot::channel();
        let durable = self.durable.clone();
        let submission = Submission { leaf: Some(leaf), blobs, changes };
        let answer = move |outcome: Result<Committed, StoreError>| {
            match &outcome {
                Ok(committed) if committed.leaf.as_ref().is_some_and(|leaf| leaf.index() == index) => {
                    durable.send_modify(|size| *size = committed.head.size.max(*size));
                }
                // What is not where it was proposed makes the record of this process wrong: it ends, and the next one reads
                // the log.
                _ => durable.send_modify(|size| *size = u64::MAX),
            }
            // Whoever does not wait is gone.
            let _ = tell.send(outcome);
        };
        self.log.submit_at(place, submission, answer).map_err(Refused::Store)?;
        Ok(Accepted { event, index, committed })
    }

    /// Submits what has no leaf.
    fn keep(&self, blobs: Vec<StoredBlob>, changes: Vec<Change>) -> Result<Kept, Refused> {
        let (tell, committed) = oneshot::channel();
        let submission = Submission { leaf: None, blobs, changes };
        // Whoever does not wait is gone.
        self.log.submit(submission, move |outcome| drop(tell.send(outcome))).map_err(Refused::Store)?;
        Ok(Some(committed))
    }

    /// Why the bulletin takes nothing any more, if so: the process is to end.
    pub fn failure(&self) -> Option<String> {
        if let Some(cause) = self.store().failure() {
            return Some(crate::chain::chain(&*cause));
        }
        (*self.durable.borrow() == u64::MAX).then(|| "a leaf does not stand where it was proposed".to_owned())
    }

    /// Moves the rounds on: appends what is due at `now`. Returns what was appended, and when to ask again if nothing comes
    /// in before.
    ///
    /// # Errors
    /// `Store`; `Void` would be an error of the conductor.
    pub fn conduct(&self, now: Millis) -> Result<(Vec<Accepted>, Option<Millis>), Refused> {
        let mut state = self.state();
        let mut accepted = Vec::new();
        loop {
            let State { record, conductor, opened, .. } = &mut *state;
            match conductor.step(now, record) {
                Step::Append(leaf) => {
                    if let panetiere_api::leaf::Leaf::RoundOpen(_) = *leaf {
                        let due = opened.map_or(now, |at| at + self.interval);
                        if now < due {
                            return Ok((accepted, Some(due)));
                        }
                        *opened = Some(now);
                    }
                    let bytes = leaf.to_bytes();
                    accepted.push(self.append_to(&mut state, bytes, Vec::new(), Vec::new())?);
                }
                Step::Wait(until) => return Ok((accepted, Some(until))),
                Step::Idle => return Ok((accepted, None)),
            }
        }
    }

    /// Deletes bodies of rounds that are over, but for the latest `retain`. Returns how many rounds.
    ///
    /// # Errors
    /// `Store`.
    pub fn delete_old(&self, retain: u32) -> Result<usize, Refused> {
        let over: Vec<u64> = {
            let state = self.state();
            let next = state.record.next_round().0;
            let kept = next.saturating_sub(u64::from(retain));
            let busy = |round: u64| {
                let session = state.record.round(RoundId(round));
                session.is_some_and(|s| matches!(s.phase(), Phase::Collecting | Phase::Checking))
            };
            self.store()
                .rounds()
                .map_err(Refused::Store)?
                .into_iter()
                .filter(|round| {
                    *round != crate::round::library::EVIDENCE_ROUND && *round < kept && !busy(*round)
                })
                .collect()
        };
        for round in &over {
            self.store().delete_round(*round).map_err(Refused::Store)?;
        }
        Ok(over.len())
    }

    /// Ends the log's thread, with everything durable that was taken.
    pub fn shut_down(&self) {
        drop(self.log.shutdown());
    }
}

#[cfg(test)]
mod tests;
