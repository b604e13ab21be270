//! What a bulletin keeps on disk: bodies, the log over them, and the metadata beside it.
//!
//! ```text
//! LOCK                     one process
//! meta.redb                leaves, hashes, signed checkpoints, places of bodies, callers' metadata
//! log/checkpoint, tile/…   published, made again from meta.redb if lost
//! rounds/R/CLASS-NNNN.seg  bodies, appended; deleted with their round
//! ```
//!
//! Everything becomes durable in one order, in [`sequencer`]; [`log`](mod@log) runs it in a thread; [`start`] opens
//! the directory and refuses what does not fit together; [`fsck`] hashes all of it again.

pub mod blob;
pub mod checkpoint;
pub mod disk;
mod error;
mod fail_point;
pub mod fsck;
mod grease;
pub mod log;
pub mod meta;
mod publish;
mod reader;
mod segment;
pub mod sequencer;
mod shared;
pub mod start;
mod tables;
#[cfg(test)]
mod tests;
pub mod tiles;

pub use blob::{BlobName, BlobStore, BlobWriter, Class, StoredBlob};
pub use error::{StartError, StoreError};
pub use log::Log;
pub use reader::Reader;
pub use sequencer::{Change, Committed, Receipt, Sequencer, Submission, What};
pub(crate) use shared::head_of;
pub use shared::{Row, Store};
pub use start::{Grease, Options, StartCheck, Started};
