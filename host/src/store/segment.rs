//! Segment files: where in them bodies go, and which of them are not synced.
//!
//! A segment has no header and is never scanned. The database's index says where bodies begin and where the last one
//! ends; what lies past that was never acknowledged and is cut off at the start.

use super::StoreError;
use super::blob::{BlobName, BlobWriter, Class, Location, SegmentId, StoredBlob};
use super::disk::{Access, Disk, DiskFile};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Segments of all rounds.
#[derive(Debug)]
pub struct Segments {
    disk: Arc<dyn Disk>,
    limit: u64,
    state: Mutex<State>,
    /// Held while files are synced or removed: a directory that is removed cannot be synced.
    syncing: Mutex<()>,
}

#[derive(Debug, Default)]
struct State {
    files: BTreeMap<SegmentId, Arc<dyn DiskFile>>,
    /// The segment that bodies of a round and class go to, and where the next one begins.
    open: BTreeMap<(u64, Class), (u32, u64)>,
    unsynced_directories: BTreeSet<String>,
    deleted: BTreeSet<u64>,
}

impl Segments {
    /// None yet. A segment takes no body once it has `limit` bytes.
    pub fn new(disk: Arc<dyn Disk>, limit: u64) -> Self {
        Self { disk, limit, state: Mutex::default(), syncing: Mutex::default() }
    }

    fn syncing(&self) -> MutexGuard<'_, ()> {
        // It guards no data.
        self.syncing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing in here panics between two changes that belong together.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a segment that was there before, with `end` indexed bytes; in ascending order.
    pub fn add(&self, id: SegmentId, file: Arc<dyn DiskFile>, end: u64) {
        let mut state = self.state();
        state.files.insert(id, file);
        state.open.insert((id.round, id.class), (id.number, end));
    }

    /// Reserves the place of a body.
    pub fn reserve(
        &self,
        round: u64,
        class: Class,
        len: u64,
    ) -> Result<(Location, Arc<dyn DiskFile>), StoreError> {
        let mut state = self.state();
        if state.deleted.contains(&round) {
            return Err(StoreError::Deleted { round });
        }
        let (number, offset) = match state.open.get(&(round, class)) {
            None => (0, 0),
            Some((number, end)) if *end >= self.limit => (number + 1, 0),
            Some(place) => *place,
        };
        let end = offset.checked_add(len).ok_or(StoreError::Range { start: offset, end: u64::MAX, len })?;
        let segment = SegmentId { round, class, number };
        let file = match state.files.get(&segment) {
            Some(file) => Arc::clone(file),
            None => {
                let (directory, path) = (SegmentId::directory(round), segment.path());
                self.disk.create_dir("rounds").map_err(StoreError::disk("create", "rounds"))?;
                state.unsynced_directories.insert(String::new());
                self.disk.create_dir(&directory).map_err(StoreError::disk("create", &directory))?;
                state.unsynced_directories.insert("rounds".to_owned());
                let file =
                    self.disk.open(&path, Access::Create).map_err(StoreError::disk("create", &path))?;
                state.unsynced_directories.insert(directory);
                state.files.insert(segment, Arc::clone(&file));
                file
            }
        };
        state.open.insert((round, class), (number, end));
        Ok((Location { segment, offset, len }, file))
    }

    /// Gives back the place of a body that did not come, if nothing was reserved after it; else it stays a hole.
    fn release(&self, location: Location) {
        let SegmentId { round, class, number } = location.segment;
        let mut state = self.state();
        if let Some((open, end)) = state.open.get_mut(&(round, class))
            && *open == number
            && *end == location.offset + location.len
        {
            *end = location.offset;
        }
    }

    /// Makes everything durable that was written to these segments before.
    pub fn sync(&self, segments: &BTreeSet<SegmentId>) -> Result<(), StoreError> {
        let _syncing = self.syncing();
        let (files, directories) = {
            let mut state = self.state();
            let files: Vec<_> =
                segments.iter().filter_map(|id| Some((*id, Arc::clone(state.files.get(id)?)))).collect();
            (files, std::mem::take(&mut state.unsynced_directories))
        };
        for (id, file) in files {
            file.sync_data().map_err(StoreError::disk("sync", &id.path()))?;
        }
        for directory in &directories {
            self.disk.sync_dir(directory).map_err(StoreError::disk("sync", directory))?;
        }
        Ok(())
    }

    /// Fills `bytes` from a segment.
    pub fn read(&self, segment: SegmentId, offset: u64, bytes: &mut [u8]) -> Result<(), StoreError> {
        let file = self.state().files.get(&segment).cloned().ok_or(StoreError::NotFound)?;
        file.read_at(offset, bytes).map_err(StoreError::disk("read", &segment.path()))
    }

    /// Takes no more bodies of a round.
    pub fn close(&self, round: u64) {
        self.state().deleted.insert(round);
    }

    /// Whether a round takes no more bodies.
    pub fn is_closed(&self, round: u64) -> bool {
        self.state().deleted.contains(&round)
    }

    /// Forgets a closed round and removes its files.
    pub fn remove(&self, round: u64) -> Result<(), StoreError> {
        let _syncing = self.syncing();
        let ids = {
            let mut state = self.state();
            state.open.retain(|(of, _), _| *of != round);
            let ids: Vec<_> = state.files.keys().filter(|id| id.round == round).copied().collect();
            state.files.retain(|id, _| id.round != round);
            state.unsynced_directories.remove(&SegmentId::directory(round));
            ids
        };
        for id in &ids {
            let path = id.path();
            self.disk.remove(&path).map_err(StoreError::disk("remove", &path))?;
        }
        if !ids.is_empty() {
            let directory = SegmentId::directory(round);
            self.disk.remove_dir(&directory).map_err(StoreError::disk("remove", &directory))?;
        }
        Ok(())
    }
}

/// A body on its way into a segment.
pub struct SegmentWriter {
    segments: Arc<Segments>,
    file: Arc<dyn DiskFile>,
    location: Location,
    expected: BlobName,
    hasher: blake3::Hasher,
    written: u64,
    finished: bool,
}

impl SegmentWriter {
    pub fn new(
        segments: Arc<Segments>,
        round: u64,
        class: Class,
        expected: BlobName,
    ) -> Result<Self, StoreError> {
        let (location, file) = segments.reserve(round, class, expected.len)?;
        let (hasher, written) = (blake3::Hasher::new(), 0);
        Ok(Self { segments, file, location, expected, hasher, written, finished: false })
    }

    fn mismatch(&self) -> StoreError {
        let found = BlobName { digest: *self.hasher.finalize().as_bytes(), len: self.written };
        StoreError::BlobMismatch { expected: self.expected, found }
    }
}

impl BlobWriter for SegmentWriter {
    fn write(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        let left = self.expected.len - self.written.min(self.expected.len);
        let len = u64::try_from(bytes.len()).expect("a length fits 64 bits");
        if len > left {
            // Nothing is written past the reservation: the next body lies there.
            let one_more = usize::try_from(left + 1).unwrap_or(usize::MAX).min(bytes.len());
            self.hasher.update(&bytes[..one_more]);
            self.written += left + 1;
            return Err(self.mismatch());
        }
        self.file
            .write_at(self.location.offset + self.written, bytes)
            .map_err(StoreError::disk("write", &self.location.segment.path()))?;
        self.hasher.update(bytes);
        self.written += len;
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<StoredBlob, StoreError> {
        if self.written != self.expected.len || *self.hasher.finalize().as_bytes() != self.expected.digest {
            return Err(self.mismatch());
        }
        self.finished = true;
        Ok(StoredBlob { digest: self.expected.digest, location: self.location })
    }
}

impl Drop for SegmentWriter {
    fn drop(&mut self) {
        if !self.finished {
            self.segments.release(self.location);
        }
    }
}
