//! A recipient: follows the log, recovers a round once enough sums are published, and says what came out.
//!
//! Nothing of it is secret and nothing has to be remembered: what comes out is a function of what the parties published, so
//! a recipient that has lost everything does it again and says the same.

use super::Order;
use crate::round::recover::{Bodies, Named, RecoverError, Recovery, recover};
use panetiere::sig::SigningKey;
use panetiere_api::follow::{FollowError, Follower};
use panetiere_api::leaf::{Leaf, RoundId, Signed, messages_to_bytes};
use panetiere_api::round::{Blobs, Record, Session};
use std::collections::BTreeMap;
use std::sync::Arc;
use tlog::note::Note;

/// What came of an attempt.
#[derive(Debug)]
pub struct Attempt {
    /// What to do now.
    pub orders: Vec<Order>,
    /// Who lied, with or without evidence that needs no log.
    pub named: Vec<Named>,
    /// What came out, or why nothing did yet.
    pub outcome: Result<Recovery, RecoverError>,
}

/// How many sums of each kind there were.
type Sums = (usize, usize, usize);

fn sums(session: &Session) -> Sums {
    (session.server_sums().len(), session.lane_sums().len(), session.group_sums().len())
}

/// Where a round is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    /// These sums do not open it: more are needed.
    Tried(Sums),
    /// Something could not be had: the same sums may do the next time.
    Again,
    /// It is recovered, and its result not in the log yet.
    Recovered,
}

/// A recipient without its wires.
pub struct Recipient {
    key: Arc<SigningKey>,
    follower: Follower,
    rounds: BTreeMap<RoundId, Progress>,
}

impl std::fmt::Debug for Recipient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Recipient(log read to {}, {:?})", self.follower.size(), self.rounds)
    }
}

impl Recipient {
    /// A recipient that has read nothing yet and signs with `key`, one of those that the epochs name.
    pub fn new(key: Arc<SigningKey>, record: Record) -> Self {
        Self { key, follower: Follower::new(record), rounds: BTreeMap::new() }
    }

    /// What the log makes of the rounds.
    pub const fn record(&self) -> &Record {
        self.follower.record()
    }

    /// Reads the log on to a checkpoint.
    ///
    /// # Errors
    /// If the checkpoint does not extend what was read.
    pub fn advance(
        &mut self,
        note: &Note,
        entries: &[Vec<u8>],
        blobs: &dyn Blobs,
    ) -> Result<(), FollowError> {
        self.follower.advance(note, entries, blobs)?;
        let record = self.follower.record();
        self.rounds.retain(|round, _| record.round(*round).is_some_and(|session| session.result().is_none()));
        Ok(())
    }

    /// The rounds to recover now: enough sums, no result, and more to go on than the last time.
    pub fn due(&self) -> Vec<RoundId> {
        let due = |session: &&Session| {
            let news = match self.rounds.get(&session.round()) {
                None | Some(Progress::Again) => true,
                Some(Progress::Tried(before)) => *before != sums(session),
                Some(Progress::Recovered) => false,
            };
            news && session.recoverable() && session.result().is_none()
        };
        self.follower.record().rounds().filter(due).map(Session::round).collect()
    }

    /// Recovers a round from what is published. Parties whose sums are wrong are named, and the others' do if there are
    /// enough; if not, the round is due again when more sums come. None for a round that the record does not have.
    pub fn recover(&mut self, round: RoundId, bodies: &dyn Bodies) -> Option<Attempt> {
        let record = self.follower.record();
        let session = record.round(round)?;
        let epoch = record.epoch_of(session.epoch())?;
        let outcome = recover(session, epoch, bodies);
        let named = match &outcome {
            Ok(recovery) => recovery.named.clone(),
            Err(RecoverError::NotRecovered { named, .. }) => named.clone(),
            Err(_) => Vec::new(),
        };
        let accuse = named.iter().filter_map(|named| {
            let evidence = named.evidence.clone()?;
            Some(Order::Accuse { round, party: named.party, evidence })
        });
        let mut orders: Vec<Order> = accuse.collect();
        let progress = match &outcome {
            Ok(recovery) => {
                let leaf = Box::new(Leaf::Result(Signed::sign(recovery.result(session), &self.key)));
                let messages = messages_to_bytes(recovery.messages().iter().map(Vec::as_slice));
                orders.push(Order::Publish { round, leaf, body: Some(messages) });
                Progress::Recovered
            }
            Err(RecoverError::NotRecovered { .. }) => Progress::Tried(sums(session)),
            Err(_) => Progress::Again,
        };
        self.rounds.insert(round, progress);
        Some(Attempt { orders, named, outcome })
    }

    /// Makes a round due again whose result was handed over and has not reached the log.
    pub fn repeat(&mut self, round: RoundId) {
        self.rounds.remove(&round);
    }
}
