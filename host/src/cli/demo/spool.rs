//! What somebody keeps on disk in a demo: posts or coded shares that may be asked for again.
//!
//! All of it is public. The file has no name where the system allows that, so nothing stays behind.

use anyhow::Context;
use std::collections::BTreeMap;
use std::env;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

/// What is kept of all that arrives. A deployment keeps everything; a demo only what its lie makes somebody look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keep {
    /// Everything.
    Everything,
    /// What this client sent.
    Client(u32),
    /// Nothing.
    Nothing,
}

impl Keep {
    pub const fn covers(self, client: u32) -> bool {
        match self {
            Self::Everything => true,
            Self::Client(kept) => kept == client,
            Self::Nothing => false,
        }
    }
}

/// Pieces of bytes in a file, each by its client and number.
pub(super) struct Spool(Mutex<Inner>);

struct Inner {
    file: File,
    end: u64,
    places: BTreeMap<(u32, u16), (u64, usize)>,
}

impl Spool {
    /// An empty one in the system's directory for temporary files.
    pub fn new() -> anyhow::Result<Self> {
        let directory = env::temp_dir();
        let file = create(&directory).with_context(|| {
            format!("cannot keep anything in {}: give another by TMPDIR", directory.display())
        })?;
        Ok(Self(Mutex::new(Inner { file, end: 0, places: BTreeMap::new() })))
    }

    /// Keeps one piece.
    pub fn put(&self, client: u32, part: u16, bytes: &[u8]) -> anyhow::Result<()> {
        let mut inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let start = inner.end;
        inner.file.seek(SeekFrom::Start(start))?;
        inner.file.write_all(bytes).context("cannot keep what arrived")?;
        inner.end += u64::try_from(bytes.len())?;
        inner.places.insert((client, part), (start, bytes.len()));
        Ok(())
    }

    /// Gives one piece back, if it is here and can be read.
    pub fn get(&self, client: u32, part: u16) -> Option<Vec<u8>> {
        let mut inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (start, len) = *inner.places.get(&(client, part))?;
        let mut bytes = vec![0; len];
        inner.file.seek(SeekFrom::Start(start)).ok()?;
        inner.file.read_exact(&mut bytes).ok()?;
        Some(bytes)
    }
}

fn create(directory: &std::path::Path) -> io::Result<File> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    loop {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = directory.join(format!("panetiere-demo-{}-{number}", process::id()));
        match File::options().read(true).write(true).create_new(true).open(&path) {
            Ok(file) => {
                // Where an open file cannot be removed it stays until the system clears its directory.
                let _ = fs::remove_file(&path);
                return Ok(file);
            }
            // Left behind by a process of the same number.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_come_back_by_client_and_number() {
        let spool = Spool::new().unwrap();
        for client in 0..3u8 {
            for part in 0..2u8 {
                spool
                    .put(client.into(), part.into(), &vec![client * 2 + part; usize::from(client) * 100])
                    .unwrap();
            }
        }
        assert_eq!(spool.get(2, 1), Some(vec![5; 200]));
        assert_eq!(spool.get(0, 0), Some(Vec::new()));
        assert_eq!(spool.get(1, 0), Some(vec![2; 100]));
        assert_eq!(spool.get(1, 2), None);
        assert_eq!(spool.get(3, 0), None);
    }
}
