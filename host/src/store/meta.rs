//! redb on a [`Disk`]: what is small and must be durable, in one file, by transactions.
//!
//! A new database is made beside its place and renamed into it, because a crash within redb's own creation leaves a
//! file that redb does not open. Every transaction should be begun by [`begin`].

mod overlay;

use super::disk::{Access, Disk, DiskFile};
use overlay::Overlay;
use redb::{BackendError, Database, StorageBackend, WriteTransaction};
use std::fmt;
use std::io;
use std::ops::Bound;
use std::sync::Arc;

/// Bytes of pages that redb keeps in memory. Its own default is 1 GiB, and it uses it.
pub const CACHE_BYTES: usize = 32 << 20;

/// Why there is no database.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MetaError {
    /// The database cannot be made, repaired or read.
    #[error("{path} is no usable database")]
    Database {
        /// Its path on the disk.
        path: String,
        /// redb's error.
        #[source]
        source: Box<redb::DatabaseError>,
    },
    /// The file cannot be opened, or put in its place.
    #[error("{path} cannot be opened")]
    Open {
        /// Its path on the disk.
        path: String,
        /// The disk's error.
        #[source]
        source: io::Error,
    },
}

impl MetaError {
    /// A stable snake_case name, for metrics and problem documents.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Database { .. } => "meta_database",
            Self::Open { .. } => "meta_open",
        }
    }
}

/// Opens the database at `path`, and makes one if there is none. `path` has no directory: it lies in the disk's root.
///
/// # Errors
/// `Open` for the disk's; `Database` for redb's, which include that another process has it.
pub fn open(disk: &dyn Disk, path: &str) -> Result<Database, MetaError> {
    let failed = |source| MetaError::Open { path: path.to_owned(), source };
    match disk.open(path, Access::Write) {
        Ok(file) => database(file, path),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let unfinished = format!("{path}.new");
            let file = disk.open(&unfinished, Access::Create).map_err(failed)?;
            file.set_len(0).map_err(failed)?;
            drop(database(file.clone(), path)?);
            file.sync_data().map_err(failed)?;
            disk.rename(&unfinished, path).map_err(failed)?;
            disk.sync_dir("").map_err(failed)?;
            database(file, path)
        }
        Err(error) => Err(failed(error)),
    }
}

/// Opens the database at `path` only if there is one.
///
/// # Errors
/// As [`open`]; `Open` with `NotFound` if there is none.
pub fn open_existing(disk: &dyn Disk, path: &str) -> Result<Database, MetaError> {
    let failed = |source| MetaError::Open { path: path.to_owned(), source };
    database(disk.open(path, Access::Write).map_err(failed)?, path)
}

/// Opens the database at `path` for reading, and changes nothing: what redb repairs after a crash, it repairs in memory.
///
/// # Errors
/// As [`open_existing`].
pub fn open_unchanged(disk: &dyn Disk, path: &str) -> Result<Database, MetaError> {
    let failed = |source| MetaError::Open { path: path.to_owned(), source };
    let file = disk.open(path, Access::Read).map_err(failed)?;
    let overlay = Overlay::new(file).map_err(failed)?;
    database(Arc::new(overlay), path)
}

fn database(file: Arc<dyn DiskFile>, path: &str) -> Result<Database, MetaError> {
    let mut builder = Database::builder();
    builder.set_cache_size(CACHE_BYTES);
    builder
        .create_with_backend(Backend(file))
        .map_err(|source| MetaError::Database { path: path.to_owned(), source: Box::new(source) })
}

/// Begins a transaction that is durable once its commit returns.
///
/// In two phases, so that no crash depends on a checksum that is not cryptographic and over bytes that strangers
/// choose, and with the allocator's state stored, so that a start after a crash does not read the whole file.
///
/// # Errors
/// redb's.
pub fn begin(database: &Database) -> Result<WriteTransaction, Box<redb::TransactionError>> {
    let mut transaction = database.begin_write().map_err(Box::new)?;
    transaction.set_quick_repair(true);
    Ok(transaction)
}

struct Backend(Arc<dyn DiskFile>);

impl fmt::Debug for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl StorageBackend for Backend {
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.0.read_at(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.write_at(offset, data)
    }

    fn close(&self) -> io::Result<()> {
        self.0.unlock()
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        if whole(start, end) {
            return self.0.try_lock().map_err(BackendError::Io);
        }
        Err(BackendError::Unsupported)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        if whole(start, end) {
            return self.0.unlock().map_err(BackendError::Io);
        }
        Err(BackendError::Unsupported)
    }
}

/// Whether a range is the whole file: the one lock there is.
fn whole(start: Bound<u64>, end: Bound<u64>) -> bool {
    matches!(start, Bound::Unbounded | Bound::Included(0)) && end == Bound::Unbounded
}

#[cfg(test)]
mod tests;
