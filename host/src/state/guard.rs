//! The release guard: what this party has answered, durably, so that a session has one answer, ever.

use super::{Change, MARKS, State, StateError, Table, Writer, read};
use crate::release::{Record, Release, SummedSet};
use panetiere::bulletin::SumClaim;
use panetiere::ids::SessionId;
use panetiere::protocol::{AnswerKind, AnswerLog, AnswerLogError, AnswerSlot};
use panetiere::wire::{Decode as _, DecodeError, DecodeErrorKind, Encode as _, Reader};
use redb::TableDefinition;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tlog::checkpoint::TreeHead;

mod published;
#[cfg(test)]
mod round;
#[cfg(test)]
mod tests;

use published::describe;
pub use published::{ImportError, Published};

const ANSWERS: Table = TableDefinition::new("answers");
const POSITION_MARK: &[u8] = b"answers imported up to";

/// How an answer came to be recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    /// Taken down before it was given.
    Given,
    /// A sum, taken down before it was given, under this close and checkpoint.
    Released { close: u64, close_hash: [u8; 32], head: TreeHead },
    /// Found in the log.
    Imported { leaf: u64 },
}

/// What stands in a slot.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Stored {
    how: How,
    answer: Vec<u8>,
}

impl Stored {
    fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match self.how {
            How::Given => out.push(0),
            How::Released { close, close_hash, head } => {
                out.push(1);
                out.extend_from_slice(&close.to_le_bytes());
                out.extend_from_slice(&close_hash);
                out.extend_from_slice(&head_bytes(head));
            }
            How::Imported { leaf } => {
                out.push(2);
                out.extend_from_slice(&leaf.to_le_bytes());
            }
        }
        out.extend_from_slice(&self.answer);
        out
    }

    fn from_bytes(bytes: &[u8]) -> Result<Self, StateError> {
        read("answer", bytes, |reader| {
            let unknown = reader.fault("how", DecodeErrorKind::OutOfRange);
            let how = match reader.u8("how")? {
                0 => How::Given,
                1 => How::Released {
                    close: reader.u64("closing leaf")?,
                    close_hash: reader.array("closing leaf")?,
                    head: read_head(reader)?,
                },
                2 => How::Imported { leaf: reader.u64("leaf")? },
                _ => return Err(unknown),
            };
            let answer = reader.take(reader.remaining(), "answer")?.to_vec();
            Ok(Self { how, answer })
        })
    }
}

pub(super) fn head_bytes(head: TreeHead) -> [u8; 40] {
    let mut out = [0; 40];
    out[..8].copy_from_slice(&head.size.to_le_bytes());
    out[8..].copy_from_slice(&head.root);
    out
}

pub(super) fn read_head(reader: &mut Reader<'_>) -> Result<TreeHead, DecodeError> {
    Ok(TreeHead { size: reader.u64("log size")?, root: reader.array("log root")? })
}

fn key(slot: AnswerSlot) -> Vec<u8> {
    let mut key = slot.session.to_bytes();
    key.push(slot.kind as u8);
    key
}

fn stored(writer: &Writer<'_>, slot: AnswerSlot) -> Result<Option<Stored>, StateError> {
    writer.get(ANSWERS, &key(slot))?.map(|bytes| Stored::from_bytes(&bytes)).transpose()
}

fn summed(claim: &SumClaim) -> SummedSet {
    SummedSet { set: claim.set, posts: claim.posts, clients: claim.clients }
}

/// What only this process knows.
#[derive(Debug, Default)]
struct Memory {
    /// Size of the log up to which own answers were imported, by this process.
    imported: Option<u64>,
    /// Sums that may be taken down.
    released: BTreeMap<SessionId, Release>,
}

/// The durable [`AnswerLog`] of one party.
///
/// It takes nothing down before this process has imported the party's own past answers from the log
/// ([`import`](Self::import)), and no server's sum that was not [`authorise`](Self::authorise)d. So neither a state that
/// was lost nor one restored from a backup answers twice, as long as the log is read.
pub struct ReleaseGuard {
    state: Arc<State>,
    memory: Mutex<Memory>,
}

impl fmt::Debug for ReleaseGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ReleaseGuard({:?}, imported up to {:?})", self.state, self.memory().imported)
    }
}

impl ReleaseGuard {
    /// The guard over a state. One a process.
    pub fn new(state: Arc<State>) -> Self {
        Self { state, memory: Mutex::default() }
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        // What is in there stays true whoever panicked.
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Up to where own answers were imported, by this process or an earlier one: where the next import starts.
    ///
    /// # Errors
    /// If the state cannot be used.
    pub fn position(&self) -> Result<Option<TreeHead>, StateError> {
        let bytes = self.state.get(MARKS, POSITION_MARK)?;
        bytes.map(|bytes| read("position", &bytes, read_head)).transpose()
    }

    /// Takes over this party's own answers from the log's leaves `from` up to `to`: all of them, in any order. The caller
    /// has hashed the leaves to `to`, has verified that `to` extends `from`, and took as `to` the latest checkpoint there
    /// is: at the first import of a process it fetches one. Returns how many were missing.
    ///
    /// # Errors
    /// `Contradiction`: the state is then broken, for good while the log says so. `NotFromPosition` unless `from` is
    /// [`position`](Self::position). `LogShrank`, `OtherRoot`, `LeafOutside`. Nothing is taken over then.
    pub fn import(
        &self,
        from: Option<TreeHead>,
        to: TreeHead,
        published: &[Published],
    ) -> Result<usize, ImportError> {
        self.import_and_forget(from, to, published, &[])
    }

    /// [`import`](Self::import), and forgets what was answered in sessions that no leaf from `to` on can speak of any more.
    ///
    /// That is safe because position and answers go together: a process that finds this position says nothing before it
    /// has read a log that goes on from there, and in that one those sessions are over. The caller vouches that they are.
    ///
    /// # Errors
    /// As there.
    pub fn import_and_forget(
        &self,
        from: Option<TreeHead>,
        to: TreeHead,
        published: &[Published],
        forgotten: &[SessionId],
    ) -> Result<usize, ImportError> {
        let mut memory = self.memory();
        let imported = self.state.update(|writer| {
            let expected = writer.get(MARKS, POSITION_MARK)?;
            let expected = expected.map(|bytes| read("position", &bytes, read_head)).transpose()?;
            if from != expected {
                return Err(ImportError::NotFromPosition { expected, found: from });
            }
            let start = from.map_or(0, |from| from.size);
            if to.size < start {
                return Err(ImportError::LogShrank { expected: start, found: to.size });
            }
            if from.is_some_and(|from| from.size == to.size && from.root != to.root) {
                return Err(ImportError::OtherRoot { size: to.size });
            }
            let mut missing = 0;
            for Published { leaf, slot, answer } in published {
                if !(start..to.size).contains(leaf) {
                    return Err(ImportError::LeafOutside { leaf: *leaf, from: start, to: to.size });
                }
                match stored(writer, *slot)? {
                    Some(stored) if stored.answer == *answer => {}
                    Some(stored) => {
                        let kind = slot.kind;
                        let (recorded, published) = (describe(kind, &stored.answer), describe(kind, answer));
                        let (session, leaf) = (slot.session, *leaf);
                        return Err(ImportError::Contradiction { kind, session, recorded, published, leaf });
                    }
                    None => {
                        let stored = Stored { how: How::Imported { leaf: *leaf }, answer: answer.clone() };
                        writer.put(ANSWERS, &key(*slot), &stored.to_bytes())?;
                        missing += 1;
                    }
                }
            }
            for session in forgotten {
                writer.remove_all(ANSWERS, &session.to_bytes())?;
            }
            if from == Some(to) && missing == 0 && forgotten.is_empty() {
                return Ok(Change::Nothing(0));
            }
            writer.put(MARKS, POSITION_MARK, &head_bytes(to))?;
            Ok(Change::Commit(missing))
        });
        if let Err(error @ ImportError::Contradiction { .. }) = &imported {
            self.state.break_for(error.to_string());
        }
        let missing = imported?;
        memory.imported = Some(to.size);
        memory.released.retain(|session, _| !forgotten.contains(session));
        Ok(missing)
    }

    /// What [`crate::release::decide`] has to know of a session.
    ///
    /// # Errors
    /// If the state cannot be used.
    pub fn record(&self, session: SessionId) -> Result<Record, StateError> {
        let imported = self.memory().imported;
        let slot = AnswerSlot { session, kind: AnswerKind::ServerSum };
        let answered = match self.state.get(ANSWERS, &key(slot))? {
            None => None,
            Some(bytes) => {
                let claim = SumClaim::from_bytes(&Stored::from_bytes(&bytes)?.answer);
                Some(summed(&claim.map_err(|source| StateError::Malformed { what: "sum", source })?))
            }
        };
        Ok(Record { imported, answered })
    }

    /// Lets the sum that was released be taken down, once.
    pub fn authorise(&self, release: Release) {
        self.memory().released.insert(release.session(), release);
    }

    /// How a server's sum may be recorded, if it was released.
    fn released(memory: &Memory, slot: AnswerSlot, answer: &[u8]) -> Result<How, AnswerLogError> {
        let refused = AnswerLogError::NotReleased { kind: slot.kind, session: slot.session };
        let malformed = |source| AnswerLogError::Malformed { kind: slot.kind, source };
        let claim = SumClaim::from_bytes(answer).map_err(malformed)?;
        let release = memory.released.get(&slot.session).ok_or_else(|| refused.clone())?;
        if claim.session != slot.session || summed(&claim) != release.summed() {
            return Err(refused);
        }
        let (close, close_hash) = release.close();
        Ok(How::Released { close, close_hash, head: release.head() })
    }
}

impl AnswerLog for ReleaseGuard {
    fn answered(&self, slot: AnswerSlot) -> Result<Option<Vec<u8>>, AnswerLogError> {
        let stored = self.state.get(ANSWERS, &key(slot));
        let stored = stored.and_then(|bytes| bytes.map(|bytes| Stored::from_bytes(&bytes)).transpose());
        Ok(stored.map_err(failed)?.map(|stored| stored.answer))
    }

    fn commit(&self, slot: AnswerSlot, answer: &[u8]) -> Result<Option<Vec<u8>>, AnswerLogError> {
        let mut memory = self.memory();
        self.state.sound().map_err(failed)?;
        if memory.imported.is_none() {
            return Err(AnswerLogError::Behind);
        }
        let how = match slot.kind {
            AnswerKind::ServerSum => Self::released(&memory, slot, answer)?,
            _ => How::Given,
        };
        let standing = self.state.update(|writer| match stored(writer, slot)? {
            Some(stored) => Ok(Change::Nothing(Some(stored.answer))),
            None => {
                let stored = Stored { how, answer: answer.to_vec() };
                writer.put(ANSWERS, &key(slot), &stored.to_bytes())?;
                Ok(Change::Commit(None))
            }
        });
        let standing = standing.map_err(failed)?;
        if slot.kind == AnswerKind::ServerSum {
            memory.released.remove(&slot.session);
        }
        Ok(standing)
    }
}

fn failed(error: StateError) -> AnswerLogError {
    AnswerLogError::Failed { reason: crate::chain::chain(&error) }
}
