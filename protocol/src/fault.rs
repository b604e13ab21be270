//! What every error of this workspace can answer: a stable code, who is at fault, whether to try again.

use crate::ids::{AggregatorId, ClientId, NodeId, ServerId};

/// The party whose fault an error proves. Nobody is named without proof in hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Attribution {
    /// This aggregator broke the protocol.
    Aggregator(AggregatorId),
    /// A programming error in this workspace.
    Bug,
    /// Whoever called this function passed something it must not.
    Caller,
    /// This client broke the protocol.
    Client(ClientId),
    /// This lane broke the protocol.
    Lane(NodeId),
    /// Nobody can be named from what is at hand.
    Nobody,
    /// The operator of the deployment: configuration, bulletin or storage.
    Operator,
    /// This server broke the protocol.
    Server(ServerId),
}

/// Whether the same request can succeed later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Retry {
    /// The same input fails the same way.
    Never,
    /// The same request may succeed once more input has arrived.
    SameRequest,
}

/// The questions a log line, a metric or an operator asks of an error.
pub trait Fault: std::error::Error {
    /// A stable snake_case name, for metrics and problem documents.
    fn code(&self) -> &'static str;
    /// Who is at fault.
    fn attribution(&self) -> Attribution;
    /// Whether to try again.
    fn retry(&self) -> Retry {
        Retry::Never
    }
}

/// The log's errors name nobody: a path, a proof or a note that does not verify was perhaps spoilt by whoever relayed
/// it. Evidence against a log is two checkpoints that both carry its signature.
macro_rules! nobody_is_named {
    ($($error:ty),+ $(,)?) => {$(
        impl Fault for $error {
            fn code(&self) -> &'static str {
                // The inherent method of the same name.
                Self::code(self)
            }

            fn attribution(&self) -> Attribution {
                Attribution::Nobody
            }
        }
    )+};
}

nobody_is_named!(
    tlog::builder::AppendError,
    tlog::checkpoint::CheckpointError,
    tlog::entry::EntryError,
    tlog::key::KeyError,
    tlog::merkle::ConsistencyError,
    tlog::merkle::EdgeError,
    tlog::merkle::MerkleError,
    tlog::note::NoteError,
    tlog::proof::ProofError,
    tlog::quorum::QuorumError,
    tlog::tile::TileError,
    tlog::witness::RequestError,
);

impl Fault for tlog::witness::Refusal {
    fn code(&self) -> &'static str {
        Self::code(self)
    }

    /// The operator of the log for a split view: the request holds its signature over the other root.
    fn attribution(&self) -> Attribution {
        match self {
            Self::SplitView { .. } => Attribution::Operator,
            _ => Attribution::Nobody,
        }
    }
}
