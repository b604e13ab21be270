//! The rule by which a server releases its sum over a round, as a pure function: [`decide`].
//!
//! What the server knows goes in; a [`Release`] comes out, or the first reason why not. Nothing else makes a `Release`,
//! and the durable guard ([`crate::state::ReleaseGuard`]) takes down a sum only against one, before the sum is computed
//! and signed. docs/release.md says why each step is there; the test module `model` checks the rule exhaustively for
//! small deployments.

use panetiere::fault::{Attribution, Fault, Retry};
use panetiere::ids::{ClientId, PostsDigest, SessionId, SetDigest};
use tlog::checkpoint::{Origin, TreeHead};
use tlog::quorum::QuorumError;

#[cfg(test)]
mod model;
#[cfg(test)]
pub(crate) mod scene;
#[cfg(test)]
mod tests;

/// A leaf that this server has read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlacedLeaf {
    /// Its number in the log, from 0.
    pub index: u64,
    /// RFC 6962 hash of its bytes.
    pub hash: [u8; 32],
}

/// A set of clients with their posts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SummedSet {
    /// Digest of the clients.
    pub set: SetDigest,
    /// Digest of their posts.
    pub posts: PostsDigest,
    /// Number of clients.
    pub clients: u32,
}

/// What this server has derived from the leaves it read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Derived {
    /// Number of the first close of this session among them, by the rule of the set.
    pub first_close: Option<u64>,
    /// The set between open and close, and the posts that count.
    pub summed: SummedSet,
    /// Distinct platforms that the clients of the set run on, by their admissions.
    pub platforms: u32,
    /// The first client of the set without an admission that satisfies this server's own policy.
    pub not_admitted: Option<ClientId>,
    /// The first client of the set whose opening this server has not verified, or has verified for another post.
    pub not_verified: Option<ClientId>,
}

/// What this server asks of every set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Fewest clients.
    pub min_clients: u32,
    /// Most clients.
    pub max_clients: u32,
    /// Fewest platforms.
    pub min_platforms: u32,
}

/// What the durable guard says of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// Size of the log up to which this process knows the server's own past answers. None: nothing was read yet.
    pub imported: Option<u64>,
    /// What this session was answered with.
    pub answered: Option<SummedSet>,
}

/// What a server knows of a session that it is asked to release.
#[derive(Clone, Debug)]
pub struct Closing<'a> {
    /// The session.
    pub session: SessionId,
    /// The log.
    pub origin: &'a Origin,
    /// Head of the closing checkpoint: what [`tlog::quorum::Quorum::open`] said of its note.
    pub checkpoint: Result<TreeHead, QuorumError>,
    /// The head that this server computed itself, at the size of the checkpoint, from all leaves from the first. None if it
    /// has not read as far, or too long ago to tell. With it no inclusion needs a proof.
    pub read: Option<TreeHead>,
    /// Whether this server holds two checkpoints that the log signed and that contradict each other.
    pub split_view: bool,
    /// The leaf that opened the session.
    pub open: PlacedLeaf,
    /// The leaf that closed it.
    pub close: PlacedLeaf,
    /// Digest and number of the clients, as the closing leaf states them.
    pub stated: (SetDigest, u32),
    /// What follows from the leaves between the two.
    pub derived: Derived,
    /// What this server asks of a set.
    pub limits: Limits,
    /// What the guard says.
    pub record: Record,
}

/// Why a sum is not released.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// More clients than a round may have.
    #[error("a set of {clients} clients, at most {max} are allowed")]
    AboveMax {
        /// Clients in the set.
        clients: u32,
        /// Most clients.
        max: u32,
    },
    /// Fewer clients than this server's anonymity floor.
    #[error("a set of {clients} clients, the floor is {floor}")]
    BelowFloor {
        /// Clients in the set.
        clients: u32,
        /// Fewest clients.
        floor: u32,
    },
    /// The clients run on fewer platforms than this server asks for.
    #[error("a set on {platforms} platforms, the floor is {floor}")]
    BelowPlatforms {
        /// Platforms.
        platforms: u32,
        /// Fewest platforms.
        floor: u32,
    },
    /// The closing checkpoint is not the log's, or no quorum has cosigned it.
    #[error("the closing checkpoint does not count")]
    Checkpoint(#[source] QuorumError),
    /// The guard does not know this server's past up to the closing checkpoint: the log has to be folded first.
    #[error("own answers are known up to log size {imported:?}, the closing checkpoint has {needed}")]
    GuardBehind {
        /// What is known.
        imported: Option<u64>,
        /// Size of the closing checkpoint.
        needed: u64,
    },
    /// A client of the set is not admitted under this server's own policy.
    #[error("client {client} is in the set without an admission that this server accepts")]
    NotAdmitted {
        /// The client.
        client: ClientId,
    },
    /// The session was closed before: the first close is the one that counts.
    #[error("leaf {close} is not the first close of the session, {first:?} is")]
    NotFirstClose {
        /// The close.
        close: u64,
        /// The first one.
        first: Option<u64>,
    },
    /// The opening leaf does not stand before the closing one, or that one not under the checkpoint.
    #[error("the session opens at leaf {open} and closes at leaf {close} of {size}")]
    Order {
        /// The opening leaf.
        open: u64,
        /// The closing leaf.
        close: u64,
        /// Leaves of the checkpoint.
        size: u64,
    },
    /// The session was answered with another sum. A second one would reveal the difference.
    #[error("answered over {answered:?}, not to be answered over {asked:?}")]
    OtherAnswer {
        /// What was answered.
        answered: SummedSet,
        /// What is asked for.
        asked: SummedSet,
    },
    /// The opening leaf opens another session.
    #[error("leaf {open} opens session {opened}, not {session}")]
    OtherSession {
        /// The opening leaf.
        open: u64,
        /// The session that it opens.
        opened: SessionId,
        /// The session in question.
        session: SessionId,
    },
    /// The closing leaf states another set than the leaves give.
    #[error(
        "the close states {stated_clients} clients with digest {stated}, the log gives {clients} with {derived}"
    )]
    OtherSet {
        /// Stated digest.
        stated: SetDigest,
        /// Stated number.
        stated_clients: u32,
        /// Digest that the leaves give.
        derived: SetDigest,
        /// Number that the leaves give.
        clients: u32,
    },
    /// The log has shown two histories.
    #[error("the log has signed two histories")]
    SplitView,
    /// The checkpoint is not over the leaves that this server has read: it has not read as far, or was shown others.
    #[error("the closing checkpoint is of {} leaves, and this server has not read those", .checkpoint.size)]
    Unread {
        /// The checkpoint.
        checkpoint: TreeHead,
        /// What was read at its size.
        read: Option<TreeHead>,
    },
    /// A client's opening is not here or not verified.
    #[error("the opening of client {client} is not verified")]
    Unverified {
        /// The client.
        client: ClientId,
    },
}

impl Fault for Refusal {
    fn code(&self) -> &'static str {
        match self {
            Self::AboveMax { .. } => "release_above_max",
            Self::BelowFloor { .. } => "release_below_floor",
            Self::BelowPlatforms { .. } => "release_below_platforms",
            Self::Checkpoint(error) => error.code(),
            Self::GuardBehind { .. } => "release_guard_behind",
            Self::NotAdmitted { .. } => "release_not_admitted",
            Self::NotFirstClose { .. } => "release_not_first_close",
            Self::Order { .. } => "release_order",
            Self::OtherAnswer { .. } => "release_other_answer",
            Self::OtherSession { .. } => "release_other_session",
            Self::OtherSet { .. } => "release_other_set",
            Self::SplitView => "release_split_view",
            Self::Unread { .. } => "release_unread",
            Self::Unverified { .. } => "release_unverified",
        }
    }

    /// The operator of the log for what its own signed leaves show; nobody for what may have been spoilt on the way or
    /// is this server's own policy.
    fn attribution(&self) -> Attribution {
        match self {
            Self::OtherSet { .. } | Self::SplitView => Attribution::Operator,
            _ => Attribution::Nobody,
        }
    }

    fn retry(&self) -> Retry {
        match self {
            Self::Checkpoint(QuorumError::TooFew { .. })
            | Self::GuardBehind { .. }
            | Self::Unread { .. }
            | Self::Unverified { .. } => Retry::SameRequest,
            _ => Retry::Never,
        }
    }
}

/// Leave to sum a set and sign the sum, once: it cannot be copied, and only [`decide`] makes one.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "the guard takes it"]
pub struct Release {
    session: SessionId,
    summed: SummedSet,
    close: u64,
    close_hash: [u8; 32],
    head: TreeHead,
}

impl Release {
    /// The session.
    pub const fn session(&self) -> SessionId {
        self.session
    }

    /// What may be summed.
    pub const fn summed(&self) -> SummedSet {
        self.summed
    }

    /// Number and hash of the closing leaf.
    pub const fn close(&self) -> (u64, [u8; 32]) {
        (self.close, self.close_hash)
    }

    /// Head of the closing checkpoint.
    pub const fn head(&self) -> TreeHead {
        self.head
    }
}

/// Whether a server may release its sum over a session: steps 1 to 5 of the rule. Step 5 ends when the guard has taken
/// the [`Release`] down durably; step 6 is to sum, sign and publish.
///
/// # Errors
/// The first step that fails. (1) `SplitView`, `Checkpoint`. (2) `Unread`, `Order`, `OtherSession`. (3)
/// `NotFirstClose`, `OtherSet`. (4) `BelowFloor`, `AboveMax`, `BelowPlatforms`, `NotAdmitted`, `Unverified`. (5)
/// `GuardBehind`, `OtherAnswer`.
pub fn decide(closing: &Closing<'_>) -> Result<Release, Refusal> {
    let Closing { session, origin, split_view, open, close, derived, limits, record, .. } = closing;
    // 1. A log with one history, and a checkpoint of it that no other history can have.
    if *split_view {
        return Err(Refusal::SplitView);
    }
    let head = closing.checkpoint.clone().map_err(Refusal::Checkpoint)?;
    // 2. The checkpoint is over the very leaves that were read, and the session is the one that was opened and closed there.
    if closing.read != Some(head) {
        return Err(Refusal::Unread { checkpoint: head, read: closing.read });
    }
    if !(open.index < close.index && close.index < head.size) {
        return Err(Refusal::Order { open: open.index, close: close.index, size: head.size });
    }
    let opened = SessionId::derive(origin.as_str(), open.index, &open.hash);
    if opened != *session {
        return Err(Refusal::OtherSession { open: open.index, opened, session: *session });
    }
    // 3. The set follows from the leaves.
    if derived.first_close != Some(close.index) {
        return Err(Refusal::NotFirstClose { close: close.index, first: derived.first_close });
    }
    let summed = derived.summed;
    let (stated, stated_clients) = closing.stated;
    if (stated, stated_clients) != (summed.set, summed.clients) {
        let (derived, clients) = (summed.set, summed.clients);
        return Err(Refusal::OtherSet { stated, stated_clients, derived, clients });
    }
    // 4. It hides each of its clients, by this server's own standard, and every opening is good.
    let (clients, platforms) = (summed.clients, derived.platforms);
    if clients < limits.min_clients {
        return Err(Refusal::BelowFloor { clients, floor: limits.min_clients });
    }
    if clients > limits.max_clients {
        return Err(Refusal::AboveMax { clients, max: limits.max_clients });
    }
    if platforms < limits.min_platforms {
        return Err(Refusal::BelowPlatforms { platforms, floor: limits.min_platforms });
    }
    if let Some(client) = derived.not_admitted {
        return Err(Refusal::NotAdmitted { client });
    }
    if let Some(client) = derived.not_verified {
        return Err(Refusal::Unverified { client });
    }
    // 5. Nothing else was ever answered for this session, as far as disk and log can tell.
    if record.imported.is_none_or(|imported| imported < head.size) {
        return Err(Refusal::GuardBehind { imported: record.imported, needed: head.size });
    }
    match record.answered {
        Some(answered) if answered != summed => Err(Refusal::OtherAnswer { answered, asked: summed }),
        _ => {
            let (close, close_hash) = (close.index, close.hash);
            Ok(Release { session: *session, summed, close, close_hash, head })
        }
    }
}
