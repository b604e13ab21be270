//! What the handle, the sequencer and the writers of bodies share.

use super::blob::{BlobName, BlobStore, BlobWriter, Class, Location, SegmentId};
use super::disk::{Disk, Kind};
use super::fail_point::fail_point;
use super::segment::{SegmentWriter, Segments};
use super::sequencer::{Submission, Synced};
use super::tables::{self, BLOBS, CHECKPOINTS, DELETED, GONE, HEADS, OWN_LOG, SEGMENTS};
use super::tiles::{PublishedTiles, StoredTiles};
use super::{StoreError, meta, publish};
use crate::chain::chain;
use redb::{Database, ReadableDatabase as _, ReadableTable as _, TableError};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::ops::{Bound, Range};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};
use tlog::checkpoint::{Checkpoint, TreeHead};
use tlog::entry;
use tlog::note::Note;
use tlog::proof::Proof;
use tlog::prove;

/// A key and its value.
pub type Row = (Vec<u8>, Vec<u8>);

/// The store as everyone but the sequencer has it: bodies in and out, metadata and proofs out. Clones are the same
/// store.
#[derive(Clone, Debug)]
pub struct Store(pub(super) Arc<Shared>);

/// See [`Store`].
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) disk: Arc<dyn Disk>,
    pub(super) database: Arc<Database>,
    pub(super) segments: Arc<Segments>,
    /// Durable bodies by digest, in every round that has them.
    pub(super) live: RwLock<HashMap<[u8; 32], Vec<Location>>>,
    /// Held by whoever changes files and database together.
    pub(super) changing: Mutex<()>,
    pub(super) failure: OnceLock<Arc<StoreError>>,
    /// Never dropped before the store: it has the lock.
    pub(super) _lock: Arc<dyn super::disk::DiskFile>,
}

impl Shared {
    /// Fails once something that had to be durable did.
    pub(super) fn check(&self) -> Result<(), StoreError> {
        match self.failure.get() {
            None => Ok(()),
            Some(cause) => Err(StoreError::Poisoned { cause: Arc::clone(cause) }),
        }
    }

    /// Ends the store's life: nothing is acknowledged after this.
    pub(super) fn poison(&self, error: StoreError) -> StoreError {
        let cause = Arc::clone(self.failure.get_or_init(|| Arc::new(error)));
        StoreError::Poisoned { cause }
    }

    /// Step 1 of a tick: makes the bodies of a batch durable. Poisons the store if that fails.
    ///
    /// May run beside the later steps of the batch before: nothing of this batch is in the record yet, and what is in
    /// there of that one was synced before.
    pub(super) fn sync<B: AsRef<[Submission]>>(&self, batch: B) -> Result<Synced<B>, StoreError> {
        self.check()?;
        let blobs = batch.as_ref().iter().flat_map(|submission| &submission.blobs);
        let segments: BTreeSet<_> = blobs.map(|blob| blob.location.segment).collect();
        self.segments.sync(&segments).map_err(|error| self.poison(error))?;
        fail_point("after_segment_sync");
        Ok(Synced(batch))
    }

    pub(super) fn changing(&self) -> MutexGuard<'_, ()> {
        // The mutex guards no data; whoever panicked in it left a store that says so or is whole.
        self.changing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn live(&self, digest: &[u8; 32]) -> Option<Location> {
        let live = self.live.read().unwrap_or_else(PoisonError::into_inner);
        live.get(digest).and_then(|places| places.last()).copied()
    }

    pub(super) fn add_live(&self, blobs: impl IntoIterator<Item = ([u8; 32], Location)>) {
        let mut live = self.live.write().unwrap_or_else(PoisonError::into_inner);
        for (digest, location) in blobs {
            live.entry(digest).or_default().push(location);
        }
    }

    fn locate(&self, digest: &[u8; 32]) -> Result<Location, StoreError> {
        if let Some(location) = self.live(digest) {
            return Ok(location);
        }
        let transaction = self.database.begin_read().map_err(StoreError::meta)?;
        let gone = match transaction.open_table(GONE) {
            Err(TableError::TableDoesNotExist(_)) => return Err(StoreError::NotFound),
            table => table.map_err(StoreError::meta)?.get(digest).map_err(StoreError::meta)?,
        };
        gone.map_or(Err(StoreError::NotFound), |round| Err(StoreError::Deleted { round: round.value() }))
    }

    /// The database's half of [`BlobStore::delete_round`].
    fn mark_deleted(&self, round: u64) -> Result<Vec<[u8; 32]>, StoreError> {
        let transaction = meta::begin(&self.database).map_err(|error| StoreError::meta(*error))?;
        let mut digests = Vec::new();
        {
            let (first, last) = (tables::blob_key(round, &[0; 32]), tables::blob_key(round, &[255; 32]));
            let mut blobs = transaction.open_table(BLOBS).map_err(StoreError::meta)?;
            let mut gone = transaction.open_table(GONE).map_err(StoreError::meta)?;
            for row in blobs.range::<&[u8; 40]>(&first..=&last).map_err(StoreError::meta)? {
                digests.push(tables::read_blob_key(row.map_err(StoreError::meta)?.0.value()).1);
            }
            for digest in &digests {
                blobs.remove(&tables::blob_key(round, digest)).map_err(StoreError::meta)?;
                gone.insert(digest, round).map_err(StoreError::meta)?;
            }
            let mut segments = transaction.open_table(SEGMENTS).map_err(StoreError::meta)?;
            let of_round = |class, number| tables::segment_key(SegmentId { round, class, number });
            for class in Class::ALL {
                let (first, last) = (of_round(class, 0), of_round(class, u32::MAX));
                segments.retain_in::<&[u8; 13], _>(&first..=&last, |_, _| false).map_err(StoreError::meta)?;
            }
            let mut deleted = transaction.open_table(DELETED).map_err(StoreError::meta)?;
            deleted.insert(round, ()).map_err(StoreError::meta)?;
        }
        transaction.commit().map_err(StoreError::meta)?;
        Ok(digests)
    }
}

/// Removes what is left of a round's files.
pub(super) fn remove_round_files(disk: &dyn Disk, round: u64) -> Result<(), StoreError> {
    let directory = SegmentId::directory(round);
    let names = match disk.list(&directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        names => names.map_err(StoreError::disk("list", &directory))?,
    };
    for name in names.iter().filter(|name| name.kind == Kind::File) {
        let path = format!("{directory}/{}", name.name);
        disk.remove(&path).map_err(StoreError::disk("remove", &path))?;
    }
    disk.remove_dir(&directory).map_err(StoreError::disk("remove", &directory))
}

impl BlobStore for Store {
    fn put(&self, round: u64, class: Class, expected: BlobName) -> Result<Box<dyn BlobWriter>, StoreError> {
        self.0.check()?;
        Ok(Box::new(SegmentWriter::new(Arc::clone(&self.0.segments), round, class, expected)?))
    }

    fn len(&self, digest: &[u8; 32]) -> Result<u64, StoreError> {
        self.0.locate(digest).map(|location| location.len)
    }

    fn get(&self, digest: &[u8; 32], range: Range<u64>) -> Result<Vec<u8>, StoreError> {
        let location = self.0.locate(digest)?;
        let Range { start, end } = range;
        let len = end.checked_sub(start).filter(|_| end <= location.len);
        let Some(len) = len.and_then(|len| usize::try_from(len).ok()) else {
            return Err(StoreError::Range { start, end, len: location.len });
        };
        let mut bytes = vec![0; len];
        match self.0.segments.read(location.segment, location.offset + start, &mut bytes) {
            // Deleted since it was found.
            Err(StoreError::NotFound) => Err(StoreError::Deleted { round: location.segment.round }),
            read => read.map(|()| bytes),
        }
    }

    fn delete_round(&self, round: u64) -> Result<(), StoreError> {
        let shared = &self.0;
        let _changing = shared.changing();
        shared.check()?;
        if shared.segments.is_closed(round) {
            return Ok(());
        }
        let digests = shared.mark_deleted(round).map_err(|error| shared.poison(error))?;
        shared.segments.close(round);
        {
            let mut live = shared.live.write().unwrap_or_else(PoisonError::into_inner);
            for digest in digests {
                if let Some(places) = live.get_mut(&digest) {
                    places.retain(|place| place.segment.round != round);
                    if places.is_empty() {
                        live.remove(&digest);
                    }
                }
            }
        }
        // What is left of them is removed at the next start.
        shared.segments.remove(round)
    }
}

impl Store {
    /// Why the store takes nothing any more, if so. The process is to end then, without another answer.
    pub fn failure(&self) -> Option<Arc<StoreError>> {
        self.0.failure.get().cloned()
    }

    /// A value of a namespace.
    ///
    /// # Errors
    /// `Namespace`; `Meta`.
    pub fn value(&self, namespace: &str, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        let range = (Bound::Included(key), Bound::Included(key));
        Ok(self.values(namespace, range, 1)?.into_iter().next().map(|(_, value)| value))
    }

    /// The first `most` keys and values of a namespace in a range of keys, in ascending order.
    ///
    /// # Errors
    /// `Namespace`; `Meta`.
    pub fn values(
        &self,
        namespace: &str,
        range: (Bound<&[u8]>, Bound<&[u8]>),
        most: usize,
    ) -> Result<Vec<Row>, StoreError> {
        values(&self.0.database, namespace, range, most)
    }

    /// The last signed checkpoint, with the cosignatures that are known.
    ///
    /// # Errors
    /// `Log`; `Meta`.
    pub fn checkpoint(&self) -> Result<Note, StoreError> {
        let transaction = self.0.database.begin_read().map_err(StoreError::meta)?;
        let heads = transaction.open_table(HEADS).map_err(StoreError::meta)?;
        let text = heads.get(OWN_LOG).map_err(StoreError::meta)?;
        parse_note(text.expect("written at the first start").value())
    }

    /// The checkpoint of a size with its cosignatures. None: no longer kept, or there never was one of that size.
    ///
    /// # Errors
    /// `Log`; `Meta`.
    pub fn checkpoint_of(&self, size: u64) -> Result<Option<Note>, StoreError> {
        let transaction = self.0.database.begin_read().map_err(StoreError::meta)?;
        let table = transaction.open_table(CHECKPOINTS).map_err(StoreError::meta)?;
        table.get(size).map_err(StoreError::meta)?.map(|text| parse_note(text.value())).transpose()
    }

    /// The newest checkpoints that are kept, at most `most`, newest first; those below a size if one is given.
    ///
    /// # Errors
    /// `Log`; `Meta`.
    pub fn checkpoints(&self, below: Option<u64>, most: usize) -> Result<Vec<(u64, Note)>, StoreError> {
        let transaction = self.0.database.begin_read().map_err(StoreError::meta)?;
        let table = transaction.open_table(CHECKPOINTS).map_err(StoreError::meta)?;
        let range = (Bound::Unbounded, below.map_or(Bound::Unbounded, Bound::Excluded));
        let rows = table.range::<u64>(range).map_err(StoreError::meta)?.rev().take(most);
        rows.map(|row| {
            let (size, text) = row.map_err(StoreError::meta)?;
            Ok((size.value(), parse_note(text.value())?))
        })
        .collect()
    }

    /// The largest checkpoint that is kept with more than `after` leaves and at most `at_most`.
    ///
    /// # Errors
    /// `Log`; `Meta`.
    pub fn checkpoint_between(&self, after: u64, at_most: u64) -> Result<Option<Note>, StoreError> {
        if after >= at_most {
            return Ok(None);
        }
        let transaction = self.0.database.begin_read().map_err(StoreError::meta)?;
        let table = transaction.open_table(CHECKPOINTS).map_err(StoreError::meta)?;
        let mut range = table.range(after + 1..=at_most).map_err(StoreError::meta)?;
        let last = range.next_back().transpose().map_err(StoreError::meta)?;
        last.map(|(_, text)| parse_note(text.value())).transpose()
    }

    /// The leaves of a range, each with its length in front (u16, big-endian), as in a C2SP entry bundle.
    ///
    /// # Errors
    /// `Log` unless all of them are there; `Meta`.
    pub fn entries(&self, from: u64, to: u64) -> Result<Vec<u8>, StoreError> {
        let transaction = self.0.database.begin_read().map_err(StoreError::meta)?;
        let mut bytes = Vec::new();
        StoredTiles::new(&transaction)
            .and_then(|tiles| {
                tiles.leaves_between(from, to, |leaf| {
                    entry::push(&mut bytes, leaf).expect("it was short enough to be appended");
                })
            })
            .map_err(log_error)?;
        Ok(bytes)
    }

    /// The bytes of a published file of the log.
    ///
    /// # Errors
    /// `NotFound` if there is none of this name yet; `Disk`.
    pub fn published(&self, resource: tlog::tile::Resource) -> Result<Vec<u8>, StoreError> {
        let tiles = PublishedTiles::new(Arc::clone(&self.0.disk), publish::DIRECTORY);
        tiles.resource(resource).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => StoreError::NotFound,
            _ => StoreError::disk("read", "a tile")(error),
        })
    }

    /// A leaf.
    ///
    /// # Errors
    /// `Log` if there is none of this index; `Meta`.
    pub fn leaf(&self, index: u64) -> Result<Vec<u8>, StoreError> {
        let transaction = self.0.database.begin_read().map_err(StoreError::meta)?;
        let tiles = StoredTiles::new(&transaction).map_err(log_error)?;
        tiles.leaf(index).map_err(log_error)
    }

    /// A receipt for the leaf at `index` under the last checkpoint.
    ///
    /// # Errors
    /// `Log` if there is no such leaf, or the published tiles are not the log's; `Meta`.
    pub fn receipt(&self, index: u64) -> Result<Proof, StoreError> {
        let note = self.checkpoint()?;
        let TreeHead { size, root } = head_of(&note)?;
        // The published files may be a moment behind the database.
        let published = PublishedTiles::new(Arc::clone(&self.0.disk), publish::DIRECTORY);
        let inclusion = prove::inclusion(index, size, &root, &published).or_else(|_| {
            let transaction = self.0.database.begin_read().map_err(StoreError::meta)?;
            let tiles = StoredTiles::new(&transaction).map_err(log_error)?;
            prove::inclusion(index, size, &root, &tiles).map_err(log_error)
        })?;
        Proof::new(index, inclusion.path, note).map_err(log_error)
    }

    /// The proof that the tree of `new` leaves extends the one of `old`: what a witness asks for. A witness may be at a
    /// size whose checkpoint is not kept any more, so only that of `new` has to be.
    ///
    /// # Errors
    /// `UnknownCheckpoint` if no checkpoint of the size `new` is kept; `Log`; `Meta`.
    pub fn consistency(&self, old: u64, new: u64) -> Result<Vec<[u8; 32]>, StoreError> {
        let note = self.checkpoint_of(new)?.ok_or(StoreError::UnknownCheckpoint { size: new })?;
        let new = head_of(&note)?;
        let transaction = self.0.database.begin_read().map_err(StoreError::meta)?;
        let tiles = StoredTiles::new(&transaction).map_err(log_error)?;
        let root = prove::root_of_first(old, new.size, &tiles).map_err(log_error)?;
        prove::consistency(old, &root, new.size, &new.root, &tiles).map_err(log_error)
    }

    /// Rounds that have segments, in ascending order, without those that were deleted.
    ///
    /// # Errors
    /// `Meta`.
    pub fn rounds(&self) -> Result<Vec<u64>, StoreError> {
        let transaction = self.0.database.begin_read().map_err(StoreError::meta)?;
        let mut rounds = BTreeMap::new();
        for row in
            transaction.open_table(SEGMENTS).map_err(StoreError::meta)?.iter().map_err(StoreError::meta)?
        {
            let (key, _) = row.map_err(StoreError::meta)?;
            if let Some(id) = tables::read_segment_key(key.value()) {
                rounds.insert(id.round, ());
            }
        }
        Ok(rounds.into_keys().collect())
    }
}

/// See [`Store::values`].
pub(super) fn values(
    database: &Database,
    namespace: &str,
    range: (Bound<&[u8]>, Bound<&[u8]>),
    most: usize,
) -> Result<Vec<Row>, StoreError> {
    let name = tables::namespace(namespace)?;
    let transaction = database.begin_read().map_err(StoreError::meta)?;
    let table = match transaction.open_table(tables::kv(&name)) {
        Err(TableError::TableDoesNotExist(_)) => return Ok(Vec::new()),
        table => table.map_err(StoreError::meta)?,
    };
    let rows = table.range::<&[u8]>(range).map_err(StoreError::meta)?.take(most);
    rows.map(|row| {
        let (key, value) = row.map_err(StoreError::meta)?;
        Ok((key.value().to_vec(), value.value().to_vec()))
    })
    .collect()
}

pub(super) fn log_error(error: impl std::error::Error) -> StoreError {
    StoreError::Log { what: chain(&error) }
}

pub(super) fn parse_note(text: &str) -> Result<Note, StoreError> {
    Note::parse(text.as_bytes()).map_err(log_error)
}

/// Size and root in a checkpoint that this store signed.
pub(crate) fn head_of(note: &Note) -> Result<TreeHead, StoreError> {
    note.text().parse::<Checkpoint>().map(|checkpoint| checkpoint.head()).map_err(log_error)
}
