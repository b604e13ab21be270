//! Rounds as a pure function of the log.
//!
//! [`Record`] folds leaves, one after the other. What a round is, who is in its set and whose sums count follows from
//! a prefix of the log and nothing else: no clock, no network, no choice. Every leaf either counts or is [`Void`], with a
//! reason that every reader finds alike.

mod epoch;
mod record;
mod session;
mod void;

pub use epoch::{EpochState, Member};
#[cfg(feature = "test-util")]
pub use record::Missing;
pub use record::{
    Anchor, Blobs, Event, MAX_EVIDENCE, NoBlobs, RECENT_EPOCHS, RECENT_ROUNDS, Record, Unavailable,
};
pub use session::{Closed, Derived, OpenComplaint, Out, Phase, Session};
pub use void::Void;
