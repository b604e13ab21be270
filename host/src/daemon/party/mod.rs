//! What the daemons of the parties share: the connection to the bulletin, the reading of its log, what they publish, and
//! what they fetch of others.
//!
//! A party is one task that owns its role's state machine ([`Seat`]) and nothing waits in it: what has to be fetched or
//! published is done by tasks beside it, which report back. Arithmetic is done in the pool of
//! [`Compute`](crate::net::compute::Compute).

mod bodies;
mod error;
mod feed;
mod publisher;
mod reading;
mod setup;
mod upstream;

pub use bodies::RemoteBodies;
pub use error::UpstreamError;
pub use feed::{Batch, Fed, Feed};
pub use publisher::Publisher;
pub use reading::{Evidences, Reading, Reads, Seat};
pub use setup::{Beside, data_disk, tls_identity};
pub use upstream::{Backoff, Upstream};

pub(in crate::daemon) use setup::{directory, reach};
