//! What a bulletin asks of its witnesses, and the last checkpoint that a quorum of them has cosigned.
//!
//! Servers release under a cosigned checkpoint and nothing else (docs/release.md), so every reader is handed the last
//! one. All of this follows from what the store has: a bulletin that starts again takes it up from there. It would ask
//! in vain otherwise, for a witness whose cosignature is stored is not asked again.

use crate::store::{Store, StoreError};
use std::sync::Arc;
use tlog::checkpoint::TreeHead;
use tlog::key::VerifierKey;
use tlog::note::{Note, Signature};
use tlog::quorum::Quorum;
use tlog::witness::Request;

/// Checkpoints that are read from the store at a time.
const PAGE: usize = 64;

/// A witness says that it has cosigned more than the log has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "witness {witness} says that it has cosigned size {size}, the log has {stored}: either it lies, or this is a restored \
     backup, and going on would fork the log"
)]
pub struct WitnessAhead {
    /// The witness.
    pub witness: String,
    /// Size that it says it has cosigned.
    pub size: u64,
    /// Size of the log.
    pub stored: u64,
}

/// Who of an epoch's witnesses has cosigned what.
#[derive(Clone, Debug)]
pub struct Cosigning {
    quorum: Quorum,
    /// Sizes that the witnesses are at, as far as is known, in the order of the quorum's witnesses.
    at: Vec<u64>,
    cosigned: Option<(TreeHead, Arc<Note>)>,
}

impl Cosigning {
    /// What the store knows of these witnesses. For the witnesses of another epoch, resume again.
    ///
    /// # Errors
    /// `Log`; `Meta`.
    pub fn resume(store: &Store, quorum: Quorum) -> Result<Self, StoreError> {
        let at = vec![0; quorum.witnesses().len()];
        let mut cosigning = Self { quorum, at, cosigned: None };
        let mut below = None;
        loop {
            let page = store.checkpoints(below, PAGE)?;
            for (size, note) in &page {
                cosigning.stored(note);
                if cosigning.cosigned.is_some() {
                    return Ok(cosigning);
                }
                below = Some(*size);
            }
            if page.len() < PAGE {
                return Ok(cosigning);
            }
        }
    }

    /// The rule by which a checkpoint counts as cosigned.
    pub const fn quorum(&self) -> &Quorum {
        &self.quorum
    }

    /// The last checkpoint that a quorum has cosigned. None: there was none yet.
    pub fn cosigned(&self) -> Option<Arc<Note>> {
        self.cosigned.as_ref().map(|(_, note)| Arc::clone(note))
    }

    /// Whom to ask now to cosign the last checkpoint: every witness whose cosignature it lacks.
    ///
    /// # Errors
    /// `Log`; `Meta`.
    pub fn requests(&self, store: &Store) -> Result<Vec<(VerifierKey, Request)>, StoreError> {
        let note = store.checkpoint()?;
        let TreeHead { size, .. } = crate::store::head_of(&note)?;
        let mut requests = Vec::new();
        for (witness, &at) in self.quorum.witnesses().iter().zip(&self.at) {
            // Nothing is to be said of an empty log.
            if size == 0 || carries(&note, witness) {
                continue;
            }
            let proof = if at == 0 { Vec::new() } else { store.consistency(at, size)? };
            let request = Request::new(at, proof, note.clone());
            let request = request.map_err(|error| StoreError::Log { what: error.to_string() })?;
            requests.push((witness.clone(), request));
        }
        Ok(requests)
    }

    /// Takes down where a witness says it is: its answer 409.
    ///
    /// # Errors
    /// If that is more than the log has. A restored backup must not go on; whether it is one, or the witness lies, only
    /// the operator can find out.
    pub fn witness_at(
        &mut self,
        witness: &VerifierKey,
        size: u64,
        log: TreeHead,
    ) -> Result<(), WitnessAhead> {
        if size > log.size {
            return Err(WitnessAhead { witness: witness.name().to_string(), size, stored: log.size });
        }
        if let Some(place) = self.quorum.witnesses().iter().position(|known| known == witness) {
            self.at[place] = size;
        }
        Ok(())
    }

    /// Those of the lines that are cosignatures of these witnesses under the checkpoint of a size, and that it lacks:
    /// for [`Log::add_cosignatures`](crate::store::Log::add_cosignatures). A wrong line is dropped, for a checkpoint with
    /// one counts for nobody. None at all if no checkpoint of that size is kept.
    ///
    /// # Errors
    /// `Log`; `Meta`.
    pub fn lacking(
        &self,
        store: &Store,
        size: u64,
        lines: impl IntoIterator<Item = Signature>,
    ) -> Result<Vec<Signature>, StoreError> {
        let Some(note) = store.checkpoint_of(size)? else { return Ok(Vec::new()) };
        let mut new = genuine(&note, self.quorum.witnesses(), lines);
        new.retain(|line| !has(note.signatures(), line));
        Ok(new)
    }

    /// Takes down a checkpoint with its cosignatures once it is stored with them.
    pub fn stored(&mut self, note: &Note) {
        let Ok(head) = crate::store::head_of(note) else { return };
        for (witness, at) in self.quorum.witnesses().iter().zip(&mut self.at) {
            if carries(note, witness) {
                *at = head.size.max(*at);
            }
        }
        let newer = self.cosigned.as_ref().is_none_or(|(old, _)| old.size <= head.size);
        if newer && self.quorum.open(note).is_ok() {
            self.cosigned = Some((head, Arc::new(note.clone())));
        }
    }
}

/// Those of the lines that are cosignatures of some of these witnesses under a checkpoint, of each the first.
pub fn genuine<'k>(
    note: &Note,
    witnesses: impl IntoIterator<Item = &'k VerifierKey> + Clone,
    lines: impl IntoIterator<Item = Signature>,
) -> Vec<Signature> {
    let mut good: Vec<Signature> = Vec::new();
    for line in lines {
        let mut known = witnesses.clone().into_iter().filter(|key| signed_by(&line, key));
        if !has(&good, &line) && known.any(|key| key.verify(note.text(), line.bytes()).is_ok()) {
            good.push(line);
        }
    }
    good
}

/// Whether a line of the same key is among these.
pub fn has(lines: &[Signature], line: &Signature) -> bool {
    lines.iter().any(|other| (other.name(), other.id()) == (line.name(), line.id()))
}

fn signed_by(line: &Signature, key: &VerifierKey) -> bool {
    (line.name(), line.id()) == (key.name(), key.id())
}

fn carries(note: &Note, witness: &VerifierKey) -> bool {
    note.signatures().iter().any(|line| signed_by(line, witness))
}

#[cfg(test)]
#[path = "cosigning_tests.rs"]
mod tests;
