//! What the log has of this party's own answers, and why it is not taken over.

use crate::state::StateError;
use panetiere::bulletin::{Checked, LaneClaim, LanePurpose, SumClaim};
use panetiere::fault::{Attribution, Fault};
use panetiere::ids::SessionId;
use panetiere::protocol::{AnswerKind, AnswerSlot};
use panetiere::wire::{Decode as _, Encode as _};
use sha2::{Digest as _, Sha256};
use std::fmt;
use tlog::checkpoint::TreeHead;

/// One of this party's own answers, as a leaf of the log has it.
///
/// Whoever makes one has verified the signature under this party's key, and that the leaf is in the log: a bulletin can
/// write leaves in anybody's name, and one that is not signed means nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Published {
    pub(super) leaf: u64,
    pub(super) slot: AnswerSlot,
    pub(super) answer: Vec<u8>,
}

impl Published {
    fn new(leaf: u64, session: SessionId, kind: AnswerKind, answer: Vec<u8>) -> Self {
        Self { leaf, slot: AnswerSlot { session, kind }, answer }
    }

    /// A sum of this server.
    pub fn server_sum(leaf: u64, claim: &SumClaim) -> Self {
        Self::new(leaf, claim.session, AnswerKind::ServerSum, claim.to_bytes())
    }

    /// Complaints of this server.
    pub fn checked(leaf: u64, checked: &Checked) -> Self {
        Self::new(leaf, checked.context().session, AnswerKind::Checked, checked.to_bytes())
    }

    /// A lane's answer to the round. None for a sum that it was asked to check: those are many.
    pub fn lane_sum(leaf: u64, claim: &LaneClaim) -> Option<Self> {
        let close = claim.purpose == LanePurpose::Close;
        close.then(|| Self::new(leaf, claim.session, AnswerKind::LaneSum, claim.to_bytes()))
    }
}

/// Own answers of the past were not taken over from the log.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImportError {
    /// The log has another answer of this party than its record. Somebody else signs with its key, or an old backup of
    /// its state has answered: it must not run.
    #[error(
        "the {kind} of session {session} was {recorded} here, but leaf {leaf} of the log has {published}, signed by this party"
    )]
    Contradiction {
        /// What was answered twice.
        kind: AnswerKind,
        /// The round.
        session: SessionId,
        /// The answer on record.
        recorded: String,
        /// The other answer.
        published: String,
        /// Where the log has it.
        leaf: u64,
    },
    /// An answer was not found among the leaves that were read.
    #[error("an answer at leaf {leaf}, read were leaves {from} up to {to}")]
    LeafOutside {
        /// The leaf.
        leaf: u64,
        /// First leaf read.
        from: u64,
        /// Size of the log that was read.
        to: u64,
    },
    /// The log is shorter than what was imported from it before, or another one.
    #[error("the log has size {found}, but it was read up to {expected} before")]
    LogShrank {
        /// Size that was read.
        expected: u64,
        /// Size found.
        found: u64,
    },
    /// The leaves read do not begin where the last import ended.
    #[error("imported so far up to {expected:?}, the leaves given start at {found:?}")]
    NotFromPosition {
        /// Where the last import ended.
        expected: Option<TreeHead>,
        /// Where this one starts.
        found: Option<TreeHead>,
    },
    /// The log has another root at the size that was read before.
    #[error("the log has another root at size {size} than when it was read")]
    OtherRoot {
        /// The size.
        size: u64,
    },
    /// The state cannot be used.
    #[error(transparent)]
    State(#[from] StateError),
}

impl Fault for ImportError {
    fn code(&self) -> &'static str {
        match self {
            Self::Contradiction { .. } => "import_contradiction",
            Self::LeafOutside { .. } => "import_leaf_outside",
            Self::LogShrank { .. } => "import_log_shrank",
            Self::NotFromPosition { .. } => "import_not_from_position",
            Self::OtherRoot { .. } => "import_other_root",
            Self::State(error) => error.code(),
        }
    }

    fn attribution(&self) -> Attribution {
        match self {
            Self::Contradiction { .. } => Attribution::Operator,
            Self::LeafOutside { .. } | Self::NotFromPosition { .. } => Attribution::Caller,
            Self::LogShrank { .. } | Self::OtherRoot { .. } => Attribution::Nobody,
            Self::State(error) => error.attribution(),
        }
    }
}

/// An answer in words: what it sums, or a digest of it.
pub(super) fn describe(kind: AnswerKind, answer: &[u8]) -> String {
    let over = |set: &dyn fmt::Display, posts: &dyn fmt::Display| format!("over set {set} and posts {posts}");
    match (kind, SumClaim::from_bytes(answer), LaneClaim::from_bytes(answer)) {
        (AnswerKind::ServerSum, Ok(claim), _) => over(&claim.set, &claim.posts),
        (AnswerKind::LaneSum, _, Ok(claim)) => over(&claim.set, &claim.posts),
        _ => format!("that of SHA-256 {}", data_encoding::HEXLOWER.encode(&Sha256::digest(answer))),
    }
}
