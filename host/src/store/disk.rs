//! The disk as the store uses it: a dozen effects behind two traits, so that the same code runs on files and, in tests
//! and in the simulator, on a disk in memory that crashes, tears and fails on demand.
//!
//! Paths are relative to the disk's root, with `/` between names. Nothing is durable before it is synced: bytes of a
//! file by [`DiskFile::sync_data`], names in a directory by [`Disk::sync_dir`].

#[cfg(any(test, feature = "sim"))]
pub mod memory;

use std::fmt::Debug;
use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// An open file. Reads and writes name their offset, so that threads share it.
pub trait DiskFile: Debug + Send + Sync {
    /// Bytes in the file.
    ///
    /// # Errors
    /// The system's.
    fn len(&self) -> io::Result<u64>;

    /// Whether the file has no bytes.
    ///
    /// # Errors
    /// The system's.
    fn is_empty(&self) -> io::Result<bool> {
        self.len().map(|len| len == 0)
    }

    /// Fills `bytes` from `offset` on.
    ///
    /// # Errors
    /// `UnexpectedEof` if the file ends before; the system's.
    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()>;

    /// Writes all of `bytes` at `offset`; the file grows as needed, with zeros between.
    ///
    /// # Errors
    /// The system's. Some of the bytes may be written then.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// Cuts the file, or appends zeros.
    ///
    /// # Errors
    /// The system's.
    fn set_len(&self, len: u64) -> io::Result<()>;

    /// Makes everything written so far durable.
    ///
    /// # Errors
    /// The system's. What was written before may be lost then even if a later call succeeds: Linux marks pages clean
    /// that it failed to write. So nothing that depended on it may be acknowledged, ever.
    fn sync_data(&self) -> io::Result<()>;

    /// Takes the exclusive lock of the file and keeps it until [`DiskFile::unlock`] or until the file is dropped.
    /// False: somebody else has it.
    ///
    /// # Errors
    /// The system's.
    fn try_lock(&self) -> io::Result<bool>;

    /// Gives the lock back.
    ///
    /// # Errors
    /// The system's.
    fn unlock(&self) -> io::Result<()>;
}

/// A name in a directory.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Name {
    /// The name, without a path.
    pub name: String,
    /// What it names.
    pub kind: Kind,
}

/// What a name names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A directory.
    Directory,
    /// A file, or anything else that is no directory.
    File,
}

/// What [`Disk::open`] does if there is no such file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Opens for reading only; fails with `NotFound`.
    Read,
    /// Opens for reading and writing; fails with `NotFound`.
    Write,
    /// Opens for reading and writing; creates an empty file.
    Create,
}

/// A tree of files below one root.
pub trait Disk: Debug + Send + Sync + 'static {
    /// Opens a file. Never cuts it.
    ///
    /// # Errors
    /// `NotFound` as [`Access`] says, and if its directory does not exist; the system's.
    fn open(&self, path: &str, access: Access) -> io::Result<Arc<dyn DiskFile>>;

    /// Creates a directory; its parent exists. No error if it is there already.
    ///
    /// # Errors
    /// The system's.
    fn create_dir(&self, path: &str) -> io::Result<()>;

    /// Gives a file another name in the same directory, in the place of the file that had it.
    ///
    /// # Errors
    /// `NotFound` without such a file; the system's.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Removes the name of a file.
    ///
    /// # Errors
    /// `NotFound` without such a file; the system's.
    fn remove(&self, path: &str) -> io::Result<()>;

    /// Removes an empty directory.
    ///
    /// # Errors
    /// `NotFound` without such a directory; `DirectoryNotEmpty`; the system's.
    fn remove_dir(&self, path: &str) -> io::Result<()>;

    /// Makes the names in a directory durable. The root is the empty path.
    ///
    /// # Errors
    /// The system's, as [`DiskFile::sync_data`].
    fn sync_dir(&self, path: &str) -> io::Result<()>;

    /// The names in a directory, sorted.
    ///
    /// # Errors
    /// `NotFound` without such a directory; the system's.
    fn list(&self, path: &str) -> io::Result<Vec<Name>>;
}

/// The whole of a file.
///
/// # Errors
/// `NotFound`; `InvalidData` above `limit` bytes, before anything is allocated; the system's.
pub fn read(disk: &dyn Disk, path: &str, limit: u64) -> io::Result<Vec<u8>> {
    let file = disk.open(path, Access::Read)?;
    let len = file.len()?;
    let fits = usize::try_from(len).ok().filter(|_| len <= limit);
    let Some(len) = fits else {
        let text = format!("{path} has {len} bytes, expected at most {limit}");
        return Err(io::Error::new(io::ErrorKind::InvalidData, text));
    };
    let mut bytes = vec![0; len];
    file.read_at(0, &mut bytes)?;
    Ok(bytes)
}

/// Files below a directory of the operating system.
#[derive(Debug)]
pub struct LocalDisk {
    root: PathBuf,
}

impl LocalDisk {
    /// The files below `root`, which exists.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// The directory.
    pub fn root(&self) -> &Path {
        &self.root
    }

    fn at(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }
}

impl Disk for LocalDisk {
    fn open(&self, path: &str, access: Access) -> io::Result<Arc<dyn DiskFile>> {
        let mut options = File::options();
        options.read(true).write(access != Access::Read).create(access == Access::Create).truncate(false);
        // What a daemon keeps is nobody else's business, whatever the umask; some of it are keys.
        options.mode(0o600);
        Ok(Arc::new(LocalFile(options.open(self.at(path))?)))
    }

    fn create_dir(&self, path: &str) -> io::Result<()> {
        let path = self.at(path);
        match fs::create_dir(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
            other => other,
        }
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.at(from), self.at(to))
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        fs::remove_file(self.at(path))
    }

    fn remove_dir(&self, path: &str) -> io::Result<()> {
        fs::remove_dir(self.at(path))
    }

    fn sync_dir(&self, path: &str) -> io::Result<()> {
        File::open(self.at(path))?.sync_all()
    }

    fn list(&self, path: &str) -> io::Result<Vec<Name>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(self.at(path))? {
            let entry = entry?;
            let kind = if entry.file_type()?.is_dir() { Kind::Directory } else { Kind::File };
            names.push(Name { name: entry.file_name().to_string_lossy().into_owned(), kind });
        }
        names.sort();
        Ok(names)
    }
}

#[derive(Debug)]
struct LocalFile(File);

impl DiskFile for LocalFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.0.read_exact_at(bytes, offset)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all_at(bytes, offset)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn try_lock(&self) -> io::Result<bool> {
        match self.0.try_lock() {
            Ok(()) => Ok(true),
            Err(TryLockError::WouldBlock) => Ok(false),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    fn unlock(&self) -> io::Result<()> {
        self.0.unlock()
    }
}
