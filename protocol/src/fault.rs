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
