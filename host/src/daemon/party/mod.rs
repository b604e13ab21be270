//! What the daemons of the parties share: the connection to the bulletin, the reading of its log, what they publish, and
//! what they fetch of others.
//!
//! A party is one task that owns its role's state machine ([`Seat`]) and nothing waits in it: what has to be fetched or
//! published is done by tasks beside it, which report back. Arithmetic is done in the pool of
//! [`Compute`](crate::net::compute::Compute).

mod bodies;
mod desk;
mod error;
mod feed;
mod intake;
mod planes;
mod publisher;
mod reading;
mod setup;
mod shelf;
mod upstream;

pub use bodies::RemoteBodies;
pub use desk::{Desk, identities};
pub use error::UpstreamError;
pub use feed::{Batch, Fed, Feed};
pub use intake::{Door, Intake, Use};
pub use planes::{Listener, Table, room};
pub use publisher::Publisher;
pub use reading::{Evidences, NotRead, Reading, Reads, Seat};
pub use setup::{Beside, data_disk, tls_identity};
pub use shelf::{Shelf, Standing};
pub use upstream::{Backoff, Upstream};

pub(crate) use setup::directory;
use setup::reach;
