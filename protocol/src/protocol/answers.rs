//! What a party has answered, so that it answers one thing a session.
//!
//! A party asks an [`AnswerLog`] before it signs: what it is about to say is taken down first, and if something else was
//! said before, that stands and nothing is signed. The log of a daemon is durable when it returns ([`AnswerLog::commit`]),
//! so no crash between taking down and saying makes room for a second answer. [`MemoryAnswers`] is the log of a process
//! whose keys do not outlive it.

use crate::bulletin::{LaneClaim, SumClaim};
use crate::fault::{Attribution, Fault, Retry};
use crate::ids::{PostsDigest, SessionId, SetDigest};
use crate::wire::{Decode, DecodeError, Encode};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// What a party answers once a session. Not among these: a lane's sums for
/// [`Check`](crate::bulletin::LanePurpose::Check), and an aggregator's over its group. Whoever has the posts can compute
/// them, over any set, so they reveal nothing, and to sign two over different clients is no fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
#[non_exhaustive]
pub enum AnswerKind {
    /// A server's sum over the canonical set. The answer's bytes: its [`SumClaim`].
    ServerSum = 1,
    /// A server's complaints. The answer's bytes: the signed [`Checked`](crate::bulletin::Checked).
    Checked = 2,
    /// A lane's sum over the canonical set. The answer's bytes: its [`LaneClaim`].
    LaneSum = 3,
}

impl fmt::Display for AnswerKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ServerSum => "server sum",
            Self::Checked => "complaints",
            Self::LaneSum => "lane sum",
        })
    }
}

/// What has one answer. Whose it is does not stand here: a log belongs to one party, and if two use it by mistake, the
/// second one gets no answer out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AnswerSlot {
    /// The round.
    pub session: SessionId,
    /// What is answered.
    pub kind: AnswerKind,
}

/// An answer could not be taken down or looked up. Nothing is signed then.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AnswerLogError {
    /// The log has not seen yet what this party has published before.
    #[error("what this party has published before is not known yet: the bulletin's log has to be read first")]
    Behind,
    /// The log could not be written or read, or does not hold together. What is in it is not known any more: this
    /// process answers nothing again.
    #[error("the record of answers failed: {reason}")]
    Failed {
        /// What failed, with its causes.
        reason: String,
    },
    /// What was taken down is no answer.
    #[error("the recorded {kind} cannot be read")]
    Malformed {
        /// What was to be read.
        kind: AnswerKind,
        /// What is wrong with it.
        #[source]
        source: DecodeError,
    },
    /// Nobody has decided that this is to be answered.
    #[error("the {kind} of session {session} was not released")]
    NotReleased {
        /// What was to be answered.
        kind: AnswerKind,
        /// The round.
        session: SessionId,
    },
}

impl Fault for AnswerLogError {
    fn code(&self) -> &'static str {
        match self {
            Self::Behind => "answers_behind",
            Self::Failed { .. } => "answers_failed",
            Self::Malformed { .. } => "answers_malformed",
            Self::NotReleased { .. } => "answers_not_released",
        }
    }

    fn attribution(&self) -> Attribution {
        match self {
            Self::Behind => Attribution::Nobody,
            Self::Failed { .. } | Self::Malformed { .. } => Attribution::Operator,
            Self::NotReleased { .. } => Attribution::Caller,
        }
    }

    fn retry(&self) -> Retry {
        match self {
            Self::Behind => Retry::SameRequest,
            _ => Retry::Never,
        }
    }
}

/// Where a party takes down what it answers, before it answers.
///
/// Whoever implements it: one answer a slot, ever. Two calls at once are two calls after each other.
pub trait AnswerLog: fmt::Debug + Send + Sync {
    /// What stands in a slot, if anything.
    ///
    /// # Errors
    /// `Failed`.
    fn answered(&self, slot: AnswerSlot) -> Result<Option<Vec<u8>>, AnswerLogError>;

    /// Puts `answer` in its slot, durably on return, and returns None; or returns what has been standing there, and
    /// changes nothing.
    ///
    /// # Errors
    /// Any. The answer must not be given then: it may stand in the slot or not.
    fn commit(&self, slot: AnswerSlot, answer: &[u8]) -> Result<Option<Vec<u8>>, AnswerLogError>;
}

/// The answers of a process whose keys do not outlive it.
#[derive(Debug, Default)]
pub struct MemoryAnswers(Mutex<BTreeMap<AnswerSlot, Vec<u8>>>);

impl MemoryAnswers {
    /// An empty one, as an identity takes it.
    pub fn fresh() -> Arc<dyn AnswerLog> {
        Arc::new(Self::default())
    }
}

impl AnswerLog for MemoryAnswers {
    fn answered(&self, slot: AnswerSlot) -> Result<Option<Vec<u8>>, AnswerLogError> {
        // Nothing panics while the lock is held, and a poisoned map is still the truth about what was answered.
        Ok(self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&slot).cloned())
    }

    fn commit(&self, slot: AnswerSlot, answer: &[u8]) -> Result<Option<Vec<u8>>, AnswerLogError> {
        let mut answers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(standing) = answers.get(&slot) {
            return Ok(Some(standing.clone()));
        }
        answers.insert(slot, answer.to_vec());
        Ok(None)
    }
}

/// What a party signs over a canonical set.
pub(super) trait Claim: Encode + Decode + Eq {
    const KIND: AnswerKind;
    fn session(&self) -> SessionId;
    fn set(&self) -> SetDigest;
    fn posts(&self) -> PostsDigest;
}

macro_rules! claims {
    ($($claim:ty: $kind:ident),*) => {$(
        impl Claim for $claim {
            const KIND: AnswerKind = AnswerKind::$kind;

            fn session(&self) -> SessionId {
                self.session
            }

            fn set(&self) -> SetDigest {
                self.set
            }

            fn posts(&self) -> PostsDigest {
                self.posts
            }
        }
    )*};
}

claims!(LaneClaim: LaneSum, SumClaim: ServerSum);

/// Nothing may be signed for this session.
pub(super) enum NotAnswered {
    /// The log says nothing, or not yet.
    Log(AnswerLogError),
    /// The session was answered over other posts of the same clients.
    Posts { answered: PostsDigest, asked: PostsDigest },
    /// The session was answered over other clients.
    Set { answered: SetDigest, asked: SetDigest },
}

/// Takes down what is about to be answered, unless this session has another answer.
pub(super) fn commit<C: Claim>(log: &dyn AnswerLog, claim: &C) -> Result<(), NotAnswered> {
    let slot = AnswerSlot { session: claim.session(), kind: C::KIND };
    let Some(standing) = log.commit(slot, &claim.to_bytes()).map_err(NotAnswered::Log)? else {
        return Ok(());
    };
    let malformed = |source| NotAnswered::Log(AnswerLogError::Malformed { kind: C::KIND, source });
    let answered = C::from_bytes(&standing).map_err(malformed)?;
    if answered.set() != claim.set() {
        return Err(NotAnswered::Set { answered: answered.set(), asked: claim.set() });
    }
    if answered != *claim {
        return Err(NotAnswered::Posts { answered: answered.posts(), asked: claim.posts() });
    }
    Ok(())
}
