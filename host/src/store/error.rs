//! What goes wrong with a store: at its start, and while it runs.

use super::blob::BlobName;
use super::meta::MetaError;
use panetiere::fault::{Attribution, Fault, Retry};
use std::io;
use std::sync::Arc;

/// Why the store does not do what it was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// Other bytes came than were announced.
    #[error("expected a body with {expected}, found {found}")]
    BlobMismatch {
        /// The name announced.
        expected: BlobName,
        /// The name of what came; its digest is over no more than one byte above the length announced.
        found: BlobName,
    },
    /// Too many submissions wait already.
    #[error("{waiting} submissions wait already")]
    Busy {
        /// How many.
        waiting: usize,
    },
    /// The store's checkpoint is not the one that was to be replaced.
    #[error("the stored checkpoint is another one than the one to replace")]
    CheckpointMoved,
    /// The body was there, and its round was deleted.
    #[error("round {round} was deleted")]
    Deleted {
        /// The round.
        round: u64,
    },
    /// The disk failed.
    #[error("cannot {action} {path}")]
    Disk {
        /// What was tried, a verb.
        action: &'static str,
        /// On what.
        path: String,
        /// The disk's error.
        #[source]
        source: io::Error,
    },
    /// A leaf is longer than a log's entry can be.
    #[error("a leaf has at most {max} bytes, found {found}", max = tlog::entry::MAX_ENTRY_BYTES)]
    EntryTooLong {
        /// Its bytes.
        found: usize,
    },
    /// A key that was to be new is there already.
    #[error("{namespace} has the key {key} already")]
    KeyExists {
        /// The namespace.
        namespace: String,
        /// The key, in hexadecimal.
        key: String,
    },
    /// The tree refuses, or its files do not belong to it.
    #[error("the log cannot go on: {what}")]
    Log {
        /// What is wrong.
        what: String,
    },
    /// The database failed.
    #[error("the database failed")]
    Meta(#[source] Box<redb::Error>),
    /// The name of a namespace is malformed.
    #[error("{name:?} is no namespace: 1 to 32 of a-z, 0-9 and _")]
    Namespace {
        /// The name.
        name: String,
    },
    /// No such body.
    #[error("no body of this digest")]
    NotFound,
    /// An effect that had to be durable failed; nothing is acknowledged any more. The process ends and starts again.
    #[error("the store failed and has to be opened again")]
    Poisoned {
        /// What failed.
        #[source]
        cause: Arc<StoreError>,
    },
    /// A body has fewer bytes than were asked for.
    #[error("bytes {start}..{end} of a body of {len}")]
    Range {
        /// First byte asked for.
        start: u64,
        /// Byte after the last.
        end: u64,
        /// Bytes of the body.
        len: u64,
    },
    /// The store was shut down before this was durable.
    #[error("the store was shut down")]
    Stopped,
    /// No checkpoint of this size is kept.
    #[error("no checkpoint of size {size} is kept")]
    UnknownCheckpoint {
        /// The size.
        size: u64,
    },
}

impl StoreError {
    pub(crate) fn disk(action: &'static str, path: &str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Disk { action, path: path.to_owned(), source }
    }

    pub(super) fn meta(error: impl Into<redb::Error>) -> Self {
        Self::Meta(Box::new(error.into()))
    }
}

impl Fault for StoreError {
    fn code(&self) -> &'static str {
        match self {
            Self::BlobMismatch { .. } => "blob_mismatch",
            Self::Busy { .. } => "store_busy",
            Self::CheckpointMoved => "checkpoint_moved",
            Self::Deleted { .. } => "round_deleted",
            Self::Disk { .. } => "disk",
            Self::EntryTooLong { .. } => "leaf_too_long",
            Self::KeyExists { .. } => "key_exists",
            Self::Log { .. } => "log",
            Self::Meta(_) => "meta",
            Self::Namespace { .. } => "namespace",
            Self::NotFound => "blob_not_found",
            Self::Poisoned { .. } => "store_poisoned",
            Self::Range { .. } => "blob_range",
            Self::Stopped => "store_stopped",
            Self::UnknownCheckpoint { .. } => "unknown_checkpoint",
        }
    }

    fn attribution(&self) -> Attribution {
        match self {
            Self::BlobMismatch { .. } | Self::EntryTooLong { .. } | Self::Namespace { .. } => {
                Attribution::Caller
            }
            Self::Disk { .. } | Self::Meta(_) | Self::Log { .. } | Self::Poisoned { .. } => {
                Attribution::Operator
            }
            _ => Attribution::Nobody,
        }
    }

    fn retry(&self) -> Retry {
        match self {
            Self::Busy { .. } | Self::Disk { .. } | Self::Poisoned { .. } | Self::Stopped => {
                Retry::SameRequest
            }
            _ => Retry::Never,
        }
    }
}

/// Why a store is not opened. Each text says what was found, what was expected and what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The clock runs behind.
    #[error(
        "the clock says {now} s, the last checkpoint was made at {last} s, at most {bound} s behind is taken: \
         set the clock"
    )]
    ClockBehind {
        /// The clock, in seconds since the epoch.
        now: u64,
        /// When the last checkpoint was made, likewise.
        last: u64,
        /// Seconds that the clock may be behind.
        bound: u64,
    },
    /// The disk failed.
    #[error("the store cannot be read: check the disk and the permissions of its directory")]
    Disk(#[source] StoreError),
    /// Leaves, hashes and checkpoint do not belong together.
    #[error(
        "the stored leaves do not hash to the stored checkpoint of size {size}: {what}; restore a backup that no \
         witness is ahead of, and keep this directory as evidence"
    )]
    Leaves {
        /// Size of the checkpoint.
        size: u64,
        /// What does not fit.
        what: String,
    },
    /// Another process has the directory.
    #[error("another process has the lock of this directory; stop it, two writers would fork the log")]
    Locked,
    /// The database cannot be opened.
    #[error("the database cannot be opened: restore a backup that no witness is ahead of")]
    Meta(#[source] MetaError),
    /// There is no database beside what belongs to one.
    #[error(
        "there is no {expected}, but there is {found}: put the database back; to begin a new log use an empty directory"
    )]
    MetaMissing {
        /// The database.
        expected: &'static str,
        /// What is there.
        found: String,
    },
    /// The store has another log's key.
    #[error(
        "the store belongs to the key {found}, the configuration has {expected}: give the key back its place"
    )]
    OtherKey {
        /// The configured key.
        expected: String,
        /// The stored key.
        found: String,
    },
    /// The store has another log's origin.
    #[error("the store belongs to the log {found}, the configuration has {expected}: correct one of them")]
    OtherOrigin {
        /// The configured origin.
        expected: String,
        /// The stored origin.
        found: String,
    },
    /// What was published is ahead of what is stored.
    #[error(
        "the published checkpoint has size {published}, the stored one {stored}: the database is older than what was \
         published; restore the newer one, going on would fork the log"
    )]
    PublishedAhead {
        /// Size published.
        published: u64,
        /// Size stored.
        stored: u64,
    },
    /// What was published is of another tree.
    #[error(
        "the published checkpoint of size {size} is of another tree than the stored leaves: this is a fork; keep both \
         as evidence, restore the directory that was published"
    )]
    PublishedDiffers {
        /// Size published.
        size: u64,
    },
    /// Another version of this program wrote the store.
    #[error(
        "the store has schema version {found}, this program reads {expected}: use the program that wrote it"
    )]
    Schema {
        /// Version that this program reads.
        expected: u32,
        /// Version found, or the text in its place.
        found: String,
    },
    /// A segment lacks bytes that are indexed.
    #[error(
        "{path} has {found} bytes, {expected} are indexed: acknowledged bodies are gone; restore the file from a backup"
    )]
    SegmentShort {
        /// The file.
        path: String,
        /// Bytes that it has to have.
        expected: u64,
        /// Bytes that it has; none if it is missing.
        found: u64,
    },
    /// A witness has seen a larger tree.
    #[error(
        "witness {witness} has cosigned size {size}, the store has {stored}: this is a restored backup; restore a newer \
         one, going on would fork the log"
    )]
    WitnessAhead {
        /// The witness.
        witness: String,
        /// Size that it cosigned.
        size: u64,
        /// Size stored.
        stored: u64,
    },
}

impl Fault for StartError {
    fn code(&self) -> &'static str {
        match self {
            Self::ClockBehind { .. } => "start_clock_behind",
            Self::Disk(error) => error.code(),
            Self::Leaves { .. } => "start_leaves",
            Self::Locked => "start_locked",
            Self::Meta(error) => error.code(),
            Self::MetaMissing { .. } => "start_meta_missing",
            Self::OtherKey { .. } => "start_other_key",
            Self::OtherOrigin { .. } => "start_other_origin",
            Self::PublishedAhead { .. } => "start_published_ahead",
            Self::PublishedDiffers { .. } => "start_published_differs",
            Self::Schema { .. } => "start_schema",
            Self::SegmentShort { .. } => "start_segment_short",
            Self::WitnessAhead { .. } => "start_witness_ahead",
        }
    }

    fn attribution(&self) -> Attribution {
        Attribution::Operator
    }
}
