//! The memory of a witness: the last head it cosigned of each log, stored before the cosignature exists.
//!
//! A cosigner that forgets can cosign a second history, and then it is one of the faulty witnesses that a quorum is
//! counted against. So a key signs only where its whole past is known: it is [enrolled](WitnessState::enrol) once, when it
//! is made, and a database that does not know it refuses to sign with it. A database restored from a backup knows the key
//! and not its latest heads; that cannot be seen from within, except where the log shows a cosignature of this key beyond
//! the record ([`WitnessState::observe`]). Then the key is retired: a new one has to take its place in the next epoch.

use super::guard::{head_bytes, read_head};
use super::{Change, State, StateError, Table, Writer, read};
use panetiere::fault::{Attribution, Fault, Retry};
use panetiere::wire::{DecodeErrorKind, Reader};
use redb::TableDefinition;
use std::sync::Arc;
use tlog::checkpoint::{CheckpointError, Log, Origin, TreeHead};
use tlog::key::{Cosigner, KeyError, KeyRing, VerifierKey};
use tlog::note::{Note, NoteError, Signature};
use tlog::witness::{Accepted, Refusal, Request, check};

const HEADS: Table = TableDefinition::new("cosigned heads");
const SPLIT_VIEWS: Table = TableDefinition::new("split views");
const COSIGNERS: Table = TableDefinition::new("cosigners");

const ENROLLED: &[u8] = &[1];
const RETIRED: &[u8] = &[2];

/// Two checkpoints that one log signed and that cannot both be true: same size, different roots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SplitView {
    /// The one that was cosigned, with the log's signatures.
    pub first: Note,
    /// The other one, as it came.
    pub second: Note,
}

impl SplitView {
    fn to_bytes(&self) -> Vec<u8> {
        let (first, second) = (self.first.to_string(), self.second.to_string());
        let len = u32::try_from(first.len()).expect("a note has at most MAX_NOTE_BYTES");
        [&len.to_le_bytes()[..], first.as_bytes(), second.as_bytes()].concat()
    }

    fn from_bytes(bytes: &[u8]) -> Result<Self, StateError> {
        read("split view", bytes, |reader| {
            let len = usize::try_from(reader.u32("first note")?).expect("usize has at least 32 bits");
            let first = reader.field(len, "first note", Note::parse)?;
            let second = reader.field(reader.remaining(), "second note", Note::parse)?;
            Ok(Self { first, second })
        })
    }
}

/// A checkpoint was not cosigned.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WitnessError {
    /// The cosigner's key is known, and its past is not: it must never sign again.
    #[error("the cosigner key {key} is retired: it has signed what this state does not know")]
    KeyRetired {
        /// Name of the key.
        key: String,
    },
    /// This state has not been with this key from the start. If the key was just made, it has to be enrolled.
    #[error("the cosigner key {key} is not enrolled here: what it has signed before is unknown")]
    KeyUnknown {
        /// Name of the key.
        key: String,
    },
    /// A note was not readable, or not the log's.
    #[error("unusable checkpoint")]
    Note(#[source] CheckpointError),
    /// The rule does not let it.
    #[error(transparent)]
    Refused(Refusal),
    /// It cannot be signed.
    #[error("the cosignature was not made")]
    Sign(#[source] KeyError),
    /// The log signed two histories; here are both.
    #[error("the log has signed two histories")]
    SplitView {
        /// The refusal, with its HTTP status.
        #[source]
        refusal: Refusal,
        /// The evidence. It is kept, too.
        evidence: Box<SplitView>,
    },
    /// The state cannot be used.
    #[error(transparent)]
    State(#[from] StateError),
}

impl Fault for WitnessError {
    fn code(&self) -> &'static str {
        match self {
            Self::KeyRetired { .. } => "witness_key_retired",
            Self::KeyUnknown { .. } => "witness_key_unknown",
            Self::Note(error) => error.code(),
            Self::Refused(refusal) | Self::SplitView { refusal, .. } => refusal.code(),
            Self::Sign(error) => error.code(),
            Self::State(error) => error.code(),
        }
    }

    fn attribution(&self) -> Attribution {
        match self {
            Self::KeyRetired { .. } | Self::KeyUnknown { .. } => Attribution::Operator,
            Self::Note(_) | Self::Sign(_) => Attribution::Nobody,
            Self::Refused(refusal) | Self::SplitView { refusal, .. } => refusal.attribution(),
            Self::State(error) => error.attribution(),
        }
    }

    fn retry(&self) -> Retry {
        match self {
            Self::Refused(refusal) => refusal.retry(),
            _ => Retry::Never,
        }
    }
}

/// What is remembered of a log.
struct Head {
    head: TreeHead,
    /// The checkpoint that was cosigned, with the log's signatures only.
    note: Note,
}

impl Head {
    fn to_bytes(&self) -> Vec<u8> {
        [&head_bytes(self.head)[..], self.note.to_string().as_bytes()].concat()
    }

    fn from_bytes(bytes: &[u8]) -> Result<Self, StateError> {
        read("cosigned head", bytes, |reader| {
            let head = read_head(reader)?;
            let note = reader.field(reader.remaining(), "note", Note::parse)?;
            Ok(Self { head, note })
        })
    }
}

/// A note without the signatures that are not the log's: they have been verified to be there.
fn trimmed(log: &Log, note: &Note) -> Result<Note, NoteError> {
    let of_log = |signature: &&Signature| {
        log.keys().iter().any(|key| key.name() == signature.name() && key.id() == signature.id())
    };
    Note::new(note.text().to_owned(), note.signatures().iter().filter(of_log).cloned().collect())
}

fn read_state(bytes: &[u8]) -> Result<bool, StateError> {
    let byte = |reader: &mut Reader<'_>| {
        let unknown = reader.fault("cosigner", DecodeErrorKind::OutOfRange);
        match reader.array("cosigner")? {
            [1] => Ok(true),
            [2] => Ok(false),
            _ => Err(unknown),
        }
    };
    read("cosigner", bytes, byte)
}

/// The cosigner's memory over a state. Any number of threads may use it at once.
#[derive(Clone, Debug)]
pub struct WitnessState {
    state: Arc<State>,
}

impl WitnessState {
    /// The memory in a state.
    pub const fn new(state: Arc<State>) -> Self {
        Self { state }
    }

    /// Begins the memory of a key that was just made and has signed nothing yet. Called again for a key that is enrolled,
    /// it does nothing.
    ///
    /// # Errors
    /// `KeyRetired` for one that must not come back; `State`.
    pub fn enrol(&self, key: &VerifierKey) -> Result<(), WitnessError> {
        let id = key.to_string();
        self.state.update(|writer| match writer.get(COSIGNERS, id.as_bytes())? {
            None => {
                writer.put(COSIGNERS, id.as_bytes(), ENROLLED)?;
                Ok(Change::Commit(()))
            }
            Some(bytes) if read_state(&bytes)? => Ok(Change::Nothing(())),
            Some(_) => Err(WitnessError::KeyRetired { key: key.name().to_string() }),
        })
    }

    fn may_sign(key: &VerifierKey, record: Option<&[u8]>) -> Result<(), WitnessError> {
        match record.map(read_state).transpose()? {
            Some(true) => Ok(()),
            Some(false) => Err(WitnessError::KeyRetired { key: key.name().to_string() }),
            None => Err(WitnessError::KeyUnknown { key: key.name().to_string() }),
        }
    }

    /// The last head that was cosigned of a log.
    ///
    /// # Errors
    /// If the state cannot be used.
    pub fn head(&self, origin: &Origin) -> Result<Option<TreeHead>, StateError> {
        let bytes = self.state.get(HEADS, origin.as_str().as_bytes())?;
        Ok(bytes.map(|bytes| Head::from_bytes(&bytes)).transpose()?.map(|head| head.head))
    }

    /// The first split view of a log that this witness has seen: evidence, and a reason to release nothing.
    ///
    /// # Errors
    /// If the state cannot be used.
    pub fn split_view(&self, origin: &Origin) -> Result<Option<SplitView>, StateError> {
        let bytes = self.state.get(SPLIT_VIEWS, origin.as_str().as_bytes())?;
        bytes.map(|bytes| SplitView::from_bytes(&bytes)).transpose()
    }

    /// Answers a request: reads the last head, asks the rule, stores the new head durably, and only then cosigns, at
    /// `time` in seconds since the epoch. One at a time for all that change something; what is refused and what repeats
    /// the last head waits for nobody.
    ///
    /// # Errors
    /// `Refused`, with HTTP status and body in the [`Refusal`]; `SplitView`; `KeyUnknown`, `KeyRetired`, `Sign`,
    /// `State`.
    pub fn add_checkpoint(
        &self,
        log: &Log,
        request: &Request,
        cosigner: &Cosigner,
        time: u64,
    ) -> Result<Signature, WitnessError> {
        let key = cosigner.verifier();
        let (place, id) = (log.origin().as_str().as_bytes(), key.to_string());
        Self::may_sign(key, self.state.get(COSIGNERS, id.as_bytes())?.as_deref())?;
        let last = self.state.get(HEADS, place)?;
        let last = last.map(|bytes| Head::from_bytes(&bytes)).transpose()?;
        let accepted = match check(log, last.as_ref().map(|last| last.head), request) {
            Ok(accepted) if last.is_some_and(|last| last.head == accepted.head()) => accepted,
            Ok(_) => self.advance(log, request, key)?,
            Err(refusal) => return Err(self.refuse(refusal, log, request)),
        };
        // The head is stored, and nothing but a later head of the same log can have taken its place since.
        accepted.cosign(cosigner, time).map_err(WitnessError::Sign)
    }

    fn advance(&self, log: &Log, request: &Request, key: &VerifierKey) -> Result<Accepted, WitnessError> {
        let (place, id) = (log.origin().as_str().as_bytes(), key.to_string());
        let outcome = self.state.update(|writer| {
            Self::may_sign(key, writer.get(COSIGNERS, id.as_bytes())?.as_deref())?;
            let last = last_head(writer, place)?;
            match check(log, last.map(|last| last.head), request) {
                Ok(accepted) => {
                    let note = trimmed(log, request.note());
                    let note = note.map_err(|error| WitnessError::Note(CheckpointError::Note(error)))?;
                    writer.put(HEADS, place, &Head { head: accepted.head(), note }.to_bytes())?;
                    Ok::<_, WitnessError>(Change::Commit(Ok(accepted)))
                }
                Err(refusal) => Ok(Change::Nothing(Err(refusal))),
            }
        })?;
        outcome.map_err(|refusal| self.refuse(refusal, log, request))
    }

    /// Keeps the evidence of a split view.
    fn refuse(&self, refusal: Refusal, log: &Log, request: &Request) -> WitnessError {
        if !matches!(refusal, Refusal::SplitView { .. }) {
            return WitnessError::Refused(refusal);
        }
        let place = log.origin().as_str().as_bytes();
        let evidence = self.state.update(|writer| {
            let Some(first) = last_head(writer, place)? else { return Ok(Change::Nothing(None)) };
            let evidence = SplitView { first: first.note, second: request.note().clone() };
            if writer.get(SPLIT_VIEWS, place)?.is_some() {
                return Ok(Change::Nothing(Some(evidence)));
            }
            writer.put(SPLIT_VIEWS, place, &evidence.to_bytes())?;
            Ok::<_, StateError>(Change::Commit(Some(evidence)))
        });
        match evidence {
            Ok(Some(evidence)) => WitnessError::SplitView { refusal, evidence: Box::new(evidence) },
            // Nothing was cosigned yet: the request contradicts the empty tree, which needs no second note.
            Ok(None) => WitnessError::Refused(refusal),
            Err(error) => WitnessError::State(error),
        }
    }

    /// Looks at a note that was seen anywhere: if this key has cosigned in it what this state does not know of, the state
    /// is an old backup or somebody else has the key. The key is retired then, durably, and never signs again.
    ///
    /// # Errors
    /// `KeyRetired` then; `Note` for a note that is not the log's, or with a wrong signature of the log or of this key;
    /// `State`.
    pub fn observe(&self, log: &Log, note: &Note, key: &VerifierKey) -> Result<(), WitnessError> {
        let checkpoint = log.open(note).map_err(WitnessError::Note)?;
        let ring = KeyRing::new(key.algorithm(), vec![key.clone()]).map_err(WitnessError::Sign)?;
        let signed = note.verify(&ring).map_err(|error| WitnessError::Note(CheckpointError::Note(error)))?;
        if signed.is_empty() {
            return Ok(());
        }
        let (place, id, seen) = (log.origin().as_str().as_bytes(), key.to_string(), checkpoint.head());
        let known = |last: Option<TreeHead>| match last {
            // Of a smaller size one cannot tell.
            Some(last) => seen.size < last.size || seen == last,
            None => false,
        };
        if known(self.head(log.origin())?) {
            return Ok(());
        }
        self.state.update(|writer| {
            if known(last_head(writer, place)?.map(|last| last.head)) {
                return Ok(Change::Nothing(()));
            }
            writer.put(COSIGNERS, id.as_bytes(), RETIRED)?;
            Ok::<_, WitnessError>(Change::Commit(()))
        })?;
        Self::may_sign(key, self.state.get(COSIGNERS, id.as_bytes())?.as_deref())
    }
}

fn last_head(writer: &Writer<'_>, place: &[u8]) -> Result<Option<Head>, StateError> {
    writer.get(HEADS, place)?.map(|bytes| Head::from_bytes(&bytes)).transpose()
}

#[cfg(test)]
mod tests;
