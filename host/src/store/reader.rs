//! A store that nobody has open, read without a key and without changing anything.

use super::blob::BlobName;
use super::disk::{Access, Disk, DiskFile};
use super::shared::{self, Row, log_error, parse_note};
use super::tables::{self, BLOBS, DELETED, HEADS, LOCK, META, OWN_LOG};
use super::tiles::StoredTiles;
use super::{StoreError, meta, publish};
use crate::chain::chain;
use redb::{Database, ReadableDatabase as _};
use std::io;
use std::ops::Bound;
use std::sync::Arc;
use tlog::checkpoint::TreeHead;
use tlog::note::Note;
use tlog::tile::Resource;

/// The store as it lies on disk. While this is there, no bulletin starts on it.
pub struct Reader {
    disk: Arc<dyn Disk>,
    database: Database,
    /// Whoever drops it gives the lock back.
    _lock: Option<Arc<dyn DiskFile>>,
}

impl std::fmt::Debug for Reader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Reader({:?})", self.disk)
    }
}

impl Reader {
    /// Opens what is on a disk. None: another process has it open.
    ///
    /// # Errors
    /// `Log` if there is no database that can be read; `Disk`.
    pub fn open(disk: Arc<dyn Disk>) -> Result<Option<Self>, StoreError> {
        let lock = match disk.open(LOCK, Access::Read) {
            Ok(lock) => Some(lock),
            // A copy without its lock file is nobody's.
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(StoreError::disk("open", LOCK)(error)),
        };
        if let Some(lock) = &lock
            && !lock.try_lock().map_err(StoreError::disk("lock", LOCK))?
        {
            return Ok(None);
        }
        let database =
            meta::open_unchanged(&*disk, META).map_err(|error| StoreError::Log { what: chain(&error) })?;
        Ok(Some(Self { disk, database, _lock: lock }))
    }

    /// The last signed checkpoint, with the cosignatures that are known.
    ///
    /// # Errors
    /// `Log` if there is none; `Meta`.
    pub fn checkpoint(&self) -> Result<Note, StoreError> {
        let transaction = self.database.begin_read().map_err(StoreError::meta)?;
        let heads = transaction.open_table(HEADS).map_err(StoreError::meta)?;
        let text = heads.get(OWN_LOG).map_err(StoreError::meta)?;
        parse_note(
            text.ok_or_else(|| StoreError::Log { what: "no checkpoint is stored".to_owned() })?.value(),
        )
    }

    /// Hands over every file of the published log but the checkpoint, made again from the leaves.
    ///
    /// # Errors
    /// Those of `each`; `Log`; `Meta`.
    pub fn each_resource(
        &self,
        mut each: impl FnMut(Resource, Vec<u8>) -> Result<(), StoreError>,
    ) -> Result<TreeHead, StoreError> {
        let head = shared::head_of(&self.checkpoint()?)?;
        let transaction = self.database.begin_read().map_err(StoreError::meta)?;
        let tiles = StoredTiles::new(&transaction).map_err(log_error)?;
        for resource in publish::resources(0, head.size) {
            each(resource, tiles.resource(resource).map_err(log_error)?)?;
        }
        Ok(head)
    }

    /// As [`Store::values`](super::Store::values).
    ///
    /// # Errors
    /// `Namespace`; `Meta`.
    pub fn values(
        &self,
        namespace: &str,
        range: (Bound<&[u8]>, Bound<&[u8]>),
        most: usize,
    ) -> Result<Vec<Row>, StoreError> {
        shared::values(&self.database, namespace, range, most)
    }

    /// Names of the bodies of a round.
    ///
    /// # Errors
    /// `Meta`.
    pub fn blobs(&self, round: u64) -> Result<Vec<BlobName>, StoreError> {
        let transaction = self.database.begin_read().map_err(StoreError::meta)?;
        let blobs = transaction.open_table(BLOBS).map_err(StoreError::meta)?;
        let (first, last) = (tables::blob_key(round, &[0; 32]), tables::blob_key(round, &[255; 32]));
        let mut names = Vec::new();
        for row in blobs.range::<&[u8; 40]>(&first..=&last).map_err(StoreError::meta)? {
            let (key, row) = row.map_err(StoreError::meta)?;
            let (round, digest) = tables::read_blob_key(key.value());
            names
                .extend(tables::read_blob_row(round, row.value()).map(|at| BlobName { digest, len: at.len }));
        }
        Ok(names)
    }

    /// A whole body of a round. That the bytes are those of its name is the caller's to check.
    ///
    /// # Errors
    /// `Deleted` with its round; `NotFound`; `Disk`; `Meta`.
    pub fn get(&self, round: u64, name: &BlobName) -> Result<Vec<u8>, StoreError> {
        let transaction = self.database.begin_read().map_err(StoreError::meta)?;
        let blobs = transaction.open_table(BLOBS).map_err(StoreError::meta)?;
        let row = blobs.get(&tables::blob_key(round, &name.digest)).map_err(StoreError::meta)?;
        let at = row.and_then(|row| tables::read_blob_row(round, row.value()));
        let Some(at) = at.filter(|at| at.len == name.len) else {
            let deleted = transaction.open_table(DELETED).map_err(StoreError::meta)?;
            let gone = deleted.get(round).map_err(StoreError::meta)?.is_some();
            return Err(if gone { StoreError::Deleted { round } } else { StoreError::NotFound });
        };
        let path = at.segment.path();
        let file = self.disk.open(&path, Access::Read).map_err(StoreError::disk("open", &path))?;
        // The index is as untrusted as the file: no more is allocated than is there.
        let found = file.len().map_err(StoreError::disk("read", &path))?;
        let whole = at.offset.checked_add(at.len).is_some_and(|end| end <= found);
        let len = usize::try_from(at.len).ok().filter(|_| whole);
        let len = len.ok_or(StoreError::Range { start: at.offset, end: at.len, len: found })?;
        let mut bytes = vec![0; len];
        file.read_at(at.offset, &mut bytes).map_err(StoreError::disk("read", &path))?;
        Ok(bytes)
    }
}
