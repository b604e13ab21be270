//! Which checkpoint is to be cosigned, and what its quorum settles.
//!
//! Servers release on a checkpoint that covers the close of their round and has a quorum. They have no inbound port, so
//! they ask which one it is; it stays the same until it has its quorum, or for so long that whoever cosigns has had the
//! time to: then it is the latest. It follows from what is stored, so a bulletin that starts again asks again.

use super::{Bulletin, Refused, State};
use crate::round::Session;
use crate::round::conductor::Millis;
use crate::round::cosigning;
use crate::round::library::{self, Item};
use crate::store::StoreError;
use panetiere::fault::{Attribution, Fault, Retry};
use panetiere_api::leaf::RoundId;
use std::collections::BTreeSet;
use tlog::note::{Note, Signature};
use tlog::quorum::Quorum;
use tlog::witness::Request;

/// How long a checkpoint waits for its quorum before a later one takes its place.
const PATIENCE: Millis = 2_000;

/// Cosignatures were not taken.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CosignError {
    /// The closing checkpoint could not be kept.
    #[error(transparent)]
    Keep(#[from] Refused),
    /// None of the lines is that of a witness of the epoch.
    #[error("no cosignature of a witness of this epoch verifies")]
    NoWitness,
    /// The store refuses them.
    #[error("the cosignatures are not kept")]
    Store(#[source] StoreError),
}

impl Fault for CosignError {
    fn code(&self) -> &'static str {
        match self {
            Self::Keep(error) => error.code(),
            Self::NoWitness => "cosign_no_witness",
            Self::Store(error) => error.code(),
        }
    }

    fn attribution(&self) -> Attribution {
        match self {
            Self::Keep(error) => error.attribution(),
            Self::NoWitness => Attribution::Caller,
            Self::Store(error) => error.attribution(),
        }
    }

    fn retry(&self) -> Retry {
        match self {
            Self::Keep(error) => error.retry(),
            Self::NoWitness => Retry::Never,
            Self::Store(error) => error.retry(),
        }
    }
}

/// The checkpoint that is to be cosigned now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CosignTarget {
    /// Its size.
    pub size: u64,
    /// Since when.
    since: Millis,
}

/// What is known of it.
#[derive(Debug)]
pub(super) struct Cosigning {
    /// Closed rounds that have their checkpoint.
    sealed: BTreeSet<RoundId>,
    target: Option<CosignTarget>,
    /// Who has cosigned it, by what the caller calls them.
    delivered: BTreeSet<[u8; 32]>,
    /// The largest size that a witness said it has cosigned while the log had less; 0 for none.
    ahead: u64,
}

impl Cosigning {
    pub(super) fn new(sealed: impl IntoIterator<Item = RoundId>) -> Self {
        Self { sealed: sealed.into_iter().collect(), target: None, delivered: BTreeSet::new(), ahead: 0 }
    }
}

impl Bulletin {
    /// The checkpoint that is to be cosigned at `now`. None: every closed round has its own.
    pub fn cosign_target(&self, now: Millis) -> Option<CosignTarget> {
        let durable = *self.durable.borrow();
        let mut state = self.state();
        let closes = unsealed(&state).filter_map(|session| session.closed().map(|closed| closed.at));
        let first = closes.filter(|at| *at < durable).min()?;
        let stands = |target: &CosignTarget| {
            first < target.size && (now < target.since + PATIENCE || target.size == durable)
        };
        if let Some(target) = state.cosigning.target.filter(stands) {
            return Some(target);
        }
        let target = CosignTarget { size: durable, since: now };
        state.cosigning.target = Some(target);
        state.cosigning.delivered.clear();
        drop(state);
        self.changed();
        Some(target)
    }

    /// What a witness that has cosigned `size` leaves before is to be asked now. None: nothing.
    ///
    /// # Errors
    /// `WitnessAhead` if it says that it has cosigned more than the log has; `Store` if the proof cannot be made.
    pub fn ask_to_cosign(&self, who: &[u8; 32], size: u64, now: Millis) -> Result<Option<Request>, Refused> {
        let stored = *self.durable.borrow();
        if size > stored {
            let mut state = self.state();
            state.cosigning.ahead = state.cosigning.ahead.max(size);
            return Err(Refused::WitnessAhead { size, stored });
        }
        let Some(target) = self.cosign_target(now) else { return Ok(None) };
        let again = target.size == size && !self.state().cosigning.delivered.contains(who);
        if target.size <= size && !again {
            return Ok(None);
        }
        let Some(note) = self.store().checkpoint_of(target.size).map_err(Refused::Store)? else {
            return Ok(None);
        };
        let proof = self.store().consistency(size, target.size).map_err(Refused::Store)?;
        // A witness takes a proof of hashes and the note: both are within its bounds.
        Ok(Request::new(size, proof, note).ok())
    }

    /// The largest size that a witness said it has cosigned while the log had less: either it lies, or this is a restored
    /// backup, and the log must not go on.
    pub fn witness_ahead(&self) -> Option<u64> {
        Some(self.state().cosigning.ahead).filter(|size| *size > 0)
    }

    /// Takes cosignatures of the checkpoint of a size. Blocks until they are durable. Returns the rounds whose close it
    /// settles now.
    ///
    /// # Errors
    /// `NoWitness`, `Store`, `Keep`.
    pub fn take_cosignatures(
        &self,
        who: &[u8; 32],
        size: u64,
        lines: &[Signature],
    ) -> Result<Vec<RoundId>, CosignError> {
        let stored = self.store().checkpoint_of(size).map_err(CosignError::Store)?;
        let mut note = stored.ok_or(CosignError::Store(StoreError::UnknownCheckpoint { size }))?;
        let quorums = self.quorums(size);
        // Only lines of witnesses are kept, each checked by itself.
        let witnesses = quorums.iter().flat_map(|(_, quorum)| quorum.witnesses());
        let mut new = cosigning::genuine(&note, witnesses, lines.iter().cloned());
        if new.is_empty() && !quorums.is_empty() {
            return Err(CosignError::NoWitness);
        }
        new.retain(|line| !cosigning::has(note.signatures(), line));
        if !new.is_empty() {
            note = self.log.add_cosignatures(size, new).map_err(CosignError::Store)?;
        }
        {
            let mut state = self.state();
            if state.cosigning.target.is_some_and(|target| target.size == size) {
                state.cosigning.delivered.insert(*who);
            }
        }
        let settled = quorums.into_iter().filter(|(_, quorum)| quorum.open(&note).is_ok());
        self.seal(&settled.map(|(round, _)| round).collect::<Vec<_>>(), &note)
    }

    /// The closed rounds that have no checkpoint yet and that one of this size covers, with the quorums of their epochs.
    fn quorums(&self, size: u64) -> Vec<(RoundId, Quorum)> {
        let state = self.state();
        let covered =
            unsealed(&state).filter(|session| session.closed().is_some_and(|closed| closed.at < size));
        let quorum = |session: &Session| {
            let epoch = state.record.epoch_of(session.epoch())?;
            Some((session.round(), state.record.quorum(epoch).ok()?))
        };
        covered.filter_map(quorum).collect()
    }

    /// Keeps a checkpoint with its quorum for rounds whose close it covers.
    fn seal(&self, rounds: &[RoundId], note: &Note) -> Result<Vec<RoundId>, CosignError> {
        let text = note.to_string();
        let mut waits = Vec::new();
        for round in rounds {
            let (blob, row) = library::keep(self.store(), *round, Item::Closing, text.as_bytes())
                .map_err(Refused::Store)?;
            waits.push((*round, self.keep(vec![blob], vec![row])?));
        }
        for (round, kept) in waits {
            let outcome = kept.map(|kept| kept.blocking_recv().unwrap_or(Err(StoreError::Stopped)));
            match outcome {
                // Somebody else was quicker with the same.
                None | Some(Ok(_) | Err(StoreError::KeyExists { .. })) => {
                    self.state().cosigning.sealed.insert(round);
                }
                Some(Err(error)) => return Err(CosignError::Store(error)),
            }
        }
        if !rounds.is_empty() {
            let mut state = self.state();
            let State { record, cosigning, .. } = &mut *state;
            cosigning.sealed.retain(|round| record.round(*round).is_some());
            cosigning.target = None;
            drop(state);
            self.changed();
        }
        Ok(rounds.to_vec())
    }
}

/// The closed rounds that have no checkpoint yet.
fn unsealed(state: &State) -> impl Iterator<Item = &Session> {
    let closed = state.record.rounds().filter(|session| session.closed().is_some());
    closed.filter(|session| !state.cosigning.sealed.contains(&session.round()))
}
