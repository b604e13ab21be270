//! A disk in memory that behaves as badly as a real one may.
//!
//! Every file has two contents: what a reader sees, and what is durable. A crash ([`MemoryDisk::crashed`]) keeps the
//! durable part and, of everything after it, what its [`Crash`] says: all, nothing, or a seeded choice that may tear a
//! write at every sector. Names are durable once their directory is synced; of the changes after that a crash keeps a
//! beginning. Any effect can be told to fail ([`MemoryDisk::fail`]), done or not done.

mod content;
#[cfg(test)]
mod tests;

use super::{Access, Disk, DiskFile, Kind, Name};
use content::{Change, Content};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What happens to an effect that fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The machine stops after this effect: it and all later ones fail, this one after it was done.
    Crash,
    /// The effect is done, and reported as failed.
    Done,
    /// The effect is done in part (a write: its first half) and reported as failed for want of space.
    NoSpace,
    /// The effect is not done. A sync: what was not durable is no longer going to be, though readers see it.
    NotDone,
}

/// What a crash leaves of what was never synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crash {
    /// Everything, as if the kernel had written it back in time.
    KeepAll,
    /// Nothing.
    LoseAll,
    /// Every write, growth and new name is kept, lost or torn, by this seed.
    Seeded(u64),
}

/// What changes a disk. Each call counts as one effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Effect {
    /// A file came to be.
    Create,
    /// A directory came to be.
    CreateDir,
    /// A name of a file went.
    Remove,
    /// A directory went.
    RemoveDir,
    /// A file got another name.
    Rename,
    /// A file was cut or extended.
    SetLen,
    /// Bytes of a file were synced.
    SyncData,
    /// Names of a directory were synced.
    SyncDir,
    /// Bytes were written.
    Write,
}

/// Counts of what was done to a disk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Calls by effect.
    pub effects: BTreeMap<Effect, u64>,
    /// Bytes given to writes.
    pub bytes_written: u64,
}

/// A change of names in one directory.
#[derive(Clone, Debug)]
enum NameChange {
    Link(String, u64),
    Unlink(String),
    Rename(String, String),
    MakeDir(String),
    RemoveDir(String),
}

/// Names below one directory, by full path.
#[derive(Clone, Debug, Default)]
struct Names {
    files: BTreeMap<String, u64>,
    directories: BTreeSet<String>,
}

impl Names {
    fn apply(&mut self, change: &NameChange) {
        match change {
            NameChange::Link(path, file) => drop(self.files.insert(path.clone(), *file)),
            NameChange::Unlink(path) => drop(self.files.remove(path)),
            NameChange::Rename(from, to) => {
                if let Some(file) = self.files.remove(from) {
                    self.files.insert(to.clone(), file);
                }
            }
            NameChange::MakeDir(path) => drop(self.directories.insert(path.clone())),
            NameChange::RemoveDir(path) => drop(self.directories.remove(path)),
        }
    }
}

#[derive(Clone, Debug, Default)]
struct FileState {
    seen: Content,
    durable: Content,
    unsynced: Vec<Change>,
}

#[derive(Clone, Debug, Default)]
struct State {
    files: BTreeMap<u64, FileState>,
    next_file: u64,
    seen: Names,
    durable: Names,
    /// Unsynced changes of names by directory.
    unsynced: BTreeMap<String, Vec<NameChange>>,
    locked: BTreeSet<u64>,
    effects: u64,
    reads: u64,
    failures: BTreeMap<u64, Failure>,
    failing_reads: BTreeSet<u64>,
    capacity: Option<u64>,
    gone: bool,
    usage: Usage,
}

/// A disk in memory. Clones are the same disk.
#[derive(Clone, Debug, Default)]
pub struct MemoryDisk(Arc<Mutex<State>>);

fn other(text: &str) -> io::Error {
    io::Error::other(text.to_owned())
}

fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(directory, _)| directory)
}

/// SplitMix64: choices of a seeded crash or test, nothing that has to be unpredictable.
#[derive(Clone, Debug)]
pub struct Choices(u64);

impl Choices {
    /// The choices of a seed.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number below `bound`, which is not zero.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (word ^ (word >> 31)) % bound
    }
}

impl MemoryDisk {
    /// An empty disk.
    pub fn new() -> Self {
        Self::default()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets effect `number` fail, counted from 0 at the disk's creation or its last crash.
    pub fn fail(&self, number: u64, failure: Failure) {
        self.state().failures.insert(number, failure);
    }

    /// Lets read `number` fail, counted likewise.
    pub fn fail_read(&self, number: u64) {
        self.state().failing_reads.insert(number);
    }

    /// Bytes that all files together may have. None: no limit.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.state().capacity = bytes;
    }

    /// Effects so far.
    pub fn effects(&self) -> u64 {
        self.state().effects
    }

    /// Reads so far.
    pub fn reads(&self) -> u64 {
        self.state().reads
    }

    /// What was done so far.
    pub fn usage(&self) -> Usage {
        self.state().usage.clone()
    }

    /// The disk that a machine finds when it starts after a crash now. This one is as it was, with its locks.
    pub fn crashed(&self, crash: Crash) -> Self {
        let state = self.state();
        let mut choices = match crash {
            Crash::Seeded(seed) => Some(Choices(seed)),
            _ => None,
        };
        let mut names = state.durable.clone();
        for changes in state.unsynced.values() {
            let kept = match (crash, &mut choices) {
                (_, Some(choices)) => {
                    let len = u64::try_from(changes.len()).expect("a count fits 64 bits");
                    usize::try_from(choices.below(len + 1)).expect("at most the count")
                }
                (Crash::KeepAll, _) => changes.len(),
                _ => 0,
            };
            changes[..kept].iter().for_each(|change| names.apply(change));
        }
        // A name below a directory that was lost is lost with it.
        let directories = names.directories.clone();
        let reachable = |path: &String| {
            let mut directory = parent(path);
            while !directory.is_empty() && directories.contains(directory) {
                directory = parent(directory);
            }
            directory.is_empty()
        };
        names.files.retain(|path, _| reachable(path));
        names.directories.retain(reachable);
        let mut files = BTreeMap::new();
        for (number, file) in &state.files {
            if !names.files.values().any(|named| named == number) {
                continue;
            }
            let mut content = file.durable.clone();
            for change in &file.unsynced {
                match (crash, &mut choices) {
                    (_, Some(choices)) => content.apply_torn(change, |bound| choices.below(bound)),
                    (Crash::KeepAll, _) => content.apply(change),
                    _ => {}
                }
            }
            files
                .insert(*number, FileState { seen: content.clone(), durable: content, unsynced: Vec::new() });
        }
        Self(Arc::new(Mutex::new(State {
            files,
            next_file: state.next_file,
            seen: names.clone(),
            durable: names,
            capacity: state.capacity,
            ..State::default()
        })))
    }

    /// A copy of the disk as readers see it now, all durable and without locks: an atomic backup.
    pub fn snapshot(&self) -> Self {
        let state = self.state();
        let files = state.files.iter().map(|(number, file)| {
            let content = file.seen.clone();
            (*number, FileState { seen: content.clone(), durable: content, unsynced: Vec::new() })
        });
        Self(Arc::new(Mutex::new(State {
            files: files.collect(),
            next_file: state.next_file,
            seen: state.seen.clone(),
            durable: state.seen.clone(),
            capacity: state.capacity,
            ..State::default()
        })))
    }
}

impl State {
    fn total(&self) -> u64 {
        self.files.values().map(|file| file.seen.len()).sum()
    }

    /// Counts an effect and says how it fails, if it does.
    fn begin(&mut self, effect: Effect) -> io::Result<Option<Failure>> {
        if self.gone {
            return Err(other("the machine has stopped"));
        }
        let number = self.effects;
        self.effects += 1;
        *self.usage.effects.entry(effect).or_default() += 1;
        let failure = self.failures.remove(&number);
        self.gone = failure == Some(Failure::Crash);
        Ok(failure)
    }

    fn end(failure: Option<Failure>) -> io::Result<()> {
        match failure {
            None => Ok(()),
            Some(Failure::Crash) => Err(other("the machine stops")),
            Some(Failure::NoSpace) => Err(io::Error::from(io::ErrorKind::StorageFull)),
            Some(Failure::Done) => Err(other("failed, but done")),
            Some(Failure::NotDone) => Err(other("failed, not done")),
        }
    }

    fn rename_effect(&mut self, effect: Effect, change: NameChange, path: &str) -> io::Result<()> {
        let failure = self.begin(effect)?;
        if !matches!(failure, Some(Failure::NotDone | Failure::NoSpace)) {
            self.seen.apply(&change);
            self.unsynced.entry(parent(path).to_owned()).or_default().push(change);
        }
        Self::end(failure)
    }

    fn directory(&self, path: &str) -> io::Result<()> {
        if path.is_empty() || self.seen.directories.contains(path) {
            return Ok(());
        }
        Err(io::Error::new(io::ErrorKind::NotFound, format!("no directory {path:?}")))
    }
}

fn missing(path: &str) -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, format!("no file {path:?}"))
}

impl Disk for MemoryDisk {
    fn open(&self, path: &str, access: Access) -> io::Result<Arc<dyn DiskFile>> {
        let mut state = self.state();
        if state.gone {
            return Err(other("the machine has stopped"));
        }
        state.directory(parent(path))?;
        let number = match state.seen.files.get(path) {
            Some(number) => *number,
            None if access == Access::Create => {
                let number = state.next_file;
                state.next_file += 1;
                state.files.insert(number, FileState::default());
                state.rename_effect(Effect::Create, NameChange::Link(path.to_owned(), number), path)?;
                number
            }
            None => return Err(missing(path)),
        };
        drop(state);
        Ok(Arc::new(MemoryFile { disk: self.clone(), number, locked: Mutex::new(false) }))
    }

    fn create_dir(&self, path: &str) -> io::Result<()> {
        let mut state = self.state();
        state.directory(parent(path))?;
        if state.seen.directories.contains(path) {
            return Ok(());
        }
        state.rename_effect(Effect::CreateDir, NameChange::MakeDir(path.to_owned()), path)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        assert_eq!(parent(from), parent(to), "a file keeps its directory");
        let mut state = self.state();
        if !state.seen.files.contains_key(from) {
            return Err(missing(from));
        }
        state.rename_effect(Effect::Rename, NameChange::Rename(from.to_owned(), to.to_owned()), from)
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        let mut state = self.state();
        if !state.seen.files.contains_key(path) {
            return Err(missing(path));
        }
        state.rename_effect(Effect::Remove, NameChange::Unlink(path.to_owned()), path)
    }

    fn remove_dir(&self, path: &str) -> io::Result<()> {
        if !self.list(path)?.is_empty() {
            return Err(io::Error::from(io::ErrorKind::DirectoryNotEmpty));
        }
        self.state().rename_effect(Effect::RemoveDir, NameChange::RemoveDir(path.to_owned()), path)
    }

    fn sync_dir(&self, path: &str) -> io::Result<()> {
        let mut state = self.state();
        state.directory(path)?;
        let failure = state.begin(Effect::SyncDir)?;
        let changes = state.unsynced.remove(path).unwrap_or_default();
        if !matches!(failure, Some(Failure::NotDone | Failure::NoSpace)) {
            changes.iter().for_each(|change| state.durable.apply(change));
        }
        State::end(failure)
    }

    fn list(&self, path: &str) -> io::Result<Vec<Name>> {
        let state = self.state();
        state.directory(path)?;
        let prefix = if path.is_empty() { String::new() } else { format!("{path}/") };
        let below = |full: &str| {
            let rest = full.strip_prefix(&prefix)?;
            (!rest.is_empty() && !rest.contains('/')).then(|| rest.to_owned())
        };
        let files = state.seen.files.keys().filter_map(|full| below(full)).map(|name| (name, Kind::File));
        let directories =
            state.seen.directories.iter().filter_map(|full| below(full)).map(|name| (name, Kind::Directory));
        let mut names: Vec<Name> = files.chain(directories).map(|(name, kind)| Name { name, kind }).collect();
        names.sort();
        Ok(names)
    }
}

#[derive(Debug)]
struct MemoryFile {
    disk: MemoryDisk,
    number: u64,
    locked: Mutex<bool>,
}

impl MemoryFile {
    fn change(&self, effect: Effect, change: Change) -> io::Result<()> {
        let mut state = self.disk.state();
        let mut failure = state.begin(effect)?;
        let len = state.files[&self.number].seen.len();
        let grown = change.end().saturating_sub(len);
        if failure.is_none() && state.capacity.is_some_and(|capacity| state.total() + grown > capacity) {
            failure = Some(Failure::NoSpace);
        }
        let done = match failure {
            Some(Failure::NotDone) => None,
            Some(Failure::NoSpace) => change.first_half(),
            _ => Some(change),
        };
        if let Some(change) = done {
            if let Change::Write { bytes, .. } = &change {
                state.usage.bytes_written += u64::try_from(bytes.len()).expect("a length fits 64 bits");
            }
            let file = state.files.get_mut(&self.number).expect("open files stay");
            file.seen.apply(&change);
            file.unsynced.push(change);
        }
        State::end(failure)
    }

    fn locked(&self) -> MutexGuard<'_, bool> {
        self.locked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl DiskFile for MemoryFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.disk.state().files[&self.number].seen.len())
    }

    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        let mut state = self.disk.state();
        let number = state.reads;
        state.reads += 1;
        if state.gone || state.failing_reads.remove(&number) {
            return Err(other("failed to read"));
        }
        if state.files[&self.number].seen.read(offset, bytes) {
            return Ok(());
        }
        Err(io::Error::from(io::ErrorKind::UnexpectedEof))
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.change(Effect::Write, Change::Write { offset, bytes: bytes.into() })
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.change(Effect::SetLen, Change::SetLen(len))
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut state = self.disk.state();
        let failure = state.begin(Effect::SyncData)?;
        let file = state.files.get_mut(&self.number).expect("open files stay");
        let changes = std::mem::take(&mut file.unsynced);
        if !matches!(failure, Some(Failure::NotDone | Failure::NoSpace)) {
            changes.iter().for_each(|change| file.durable.apply(change));
        }
        State::end(failure)
    }

    fn try_lock(&self) -> io::Result<bool> {
        let taken = self.disk.state().locked.insert(self.number);
        *self.locked() |= taken;
        Ok(taken)
    }

    fn unlock(&self) -> io::Result<()> {
        if std::mem::take(&mut *self.locked()) {
            self.disk.state().locked.remove(&self.number);
        }
        Ok(())
    }
}

impl Drop for MemoryFile {
    fn drop(&mut self) {
        // Cannot fail on this disk.
        let _ = self.unlock();
    }
}
