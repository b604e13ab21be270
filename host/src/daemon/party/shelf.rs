//! What clients leave with a party, as files: `ROUND/CLIENT`, each written whole, durable before it is acknowledged.
//!
//! Anybody can leave anything under a client's name until the log says what the client has signed. So what does not hold
//! against that makes room for something else, and what does is never replaced.

use super::setup::directory;
use anyhow::Context as _;
use panetiere::ids::ClientId;
use panetiere_api::leaf::RoundId;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

const UNFINISHED: &str = "new-";

/// What is known of something that was left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It was not held against the log yet.
    New,
    /// It is not what the client signed.
    Refused,
    /// It is what the client signed.
    Taken,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    digest: [u8; 32],
    standing: Standing,
}

/// Something else stands there already, and it is what the client signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conflict;

/// The files.
#[derive(Debug)]
pub struct Shelf {
    directory: PathBuf,
    entries: Mutex<BTreeMap<(RoundId, ClientId), Entry>>,
    number: AtomicU64,
}

impl Shelf {
    /// The files below a directory. What a process before has left there is read once.
    ///
    /// # Errors
    /// The system's.
    pub fn open(path: PathBuf) -> anyhow::Result<Self> {
        directory(&path)?;
        let mut entries = BTreeMap::new();
        for round in fs::read_dir(&path)? {
            let round = round?;
            let Some(number) = round.file_name().to_str().and_then(|name| name.parse::<RoundId>().ok())
            else {
                continue;
            };
            for file in fs::read_dir(round.path())? {
                let file = file?;
                let name = file.file_name();
                match name.to_str().and_then(|name| name.parse::<ClientId>().ok()) {
                    Some(client) => {
                        let bytes =
                            fs::read(file.path()).with_context(|| format!("{}", file.path().display()))?;
                        let digest = *blake3::hash(&bytes).as_bytes();
                        entries.insert((number, client), Entry { digest, standing: Standing::New });
                    }
                    None => fs::remove_file(file.path())?,
                }
            }
        }
        Ok(Self { directory: path, entries: Mutex::new(entries), number: AtomicU64::new(0) })
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<(RoundId, ClientId), Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn round(&self, round: RoundId) -> PathBuf {
        self.directory.join(round.to_string())
    }

    fn file(&self, round: RoundId, client: ClientId) -> PathBuf {
        self.round(round).join(client.to_string())
    }

    /// Where something can be written before it is put in its place.
    ///
    /// # Errors
    /// The system's.
    pub fn unfinished(&self, round: RoundId) -> io::Result<PathBuf> {
        let path = self.round(round);
        if !path.exists() {
            fs::create_dir_all(&path)?;
            File::open(&self.directory)?.sync_all()?;
        }
        Ok(path.join(format!("{UNFINISHED}{}", self.number.fetch_add(1, Ordering::Relaxed))))
    }

    /// Puts what was written, synced and hashed in its place. Durable on return. The same again changes nothing.
    ///
    /// # Errors
    /// The system's; in it, `Conflict` if something else stands there that the client signed.
    pub fn put(
        &self,
        round: RoundId,
        client: ClientId,
        unfinished: &Path,
        digest: [u8; 32],
    ) -> io::Result<Result<(), Conflict>> {
        let mut entries = self.lock();
        if let Some(entry) = entries.get(&(round, client)) {
            if entry.digest == digest {
                fs::remove_file(unfinished)?;
                return Ok(Ok(()));
            }
            if entry.standing == Standing::Taken {
                fs::remove_file(unfinished)?;
                return Ok(Err(Conflict));
            }
        }
        fs::rename(unfinished, self.file(round, client))?;
        File::open(self.round(round))?.sync_all()?;
        entries.insert((round, client), Entry { digest, standing: Standing::New });
        Ok(Ok(()))
    }

    /// What was left and not held against the log yet.
    pub fn new_ones(&self) -> Vec<(RoundId, ClientId)> {
        let entries = self.lock();
        let new = entries.iter().filter(|(_, entry)| entry.standing == Standing::New);
        new.map(|(&place, _)| place).collect()
    }

    /// Whether something is there that was not refused.
    pub fn may_have(&self, round: RoundId, client: ClientId) -> bool {
        self.lock().get(&(round, client)).is_some_and(|entry| entry.standing != Standing::Refused)
    }

    /// Takes down what became of bytes that were read. Nothing if others have taken their place since.
    pub fn judge(&self, round: RoundId, client: ClientId, bytes: &[u8], standing: Standing) {
        if let Some(entry) = self.lock().get_mut(&(round, client))
            && blake3::hash(bytes) == entry.digest
        {
            entry.standing = standing;
        }
    }

    /// The bytes that were left; None if there are none.
    ///
    /// # Errors
    /// The system's.
    pub fn read(&self, round: RoundId, client: ClientId) -> io::Result<Option<Vec<u8>>> {
        match fs::read(self.file(round, client)) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Deletes what belongs to rounds that are over.
    ///
    /// # Errors
    /// The system's.
    pub fn keep(&self, mut under_way: impl FnMut(RoundId) -> bool) -> io::Result<()> {
        self.lock().retain(|(round, _), _| under_way(*round));
        for entry in fs::read_dir(&self.directory)? {
            let entry = entry?;
            let round = entry.file_name().to_str().and_then(|name| name.parse().ok());
            if round.is_some_and(|round| !under_way(round)) {
                match fs::remove_dir_all(entry.path()) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                    _ => {}
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(shelf: &Shelf, client: u32, bytes: &[u8]) -> Result<(), Conflict> {
        let round = RoundId(3);
        let path = shelf.unfinished(round).unwrap();
        fs::write(&path, bytes).unwrap();
        shelf.put(round, ClientId(client), &path, *blake3::hash(bytes).as_bytes()).unwrap()
    }

    #[test]
    fn what_a_client_signed_is_never_replaced_and_survives_the_process() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("items");
        let shelf = Shelf::open(path.clone()).unwrap();
        let (round, client) = (RoundId(3), ClientId(1));
        assert_eq!(put(&shelf, 1, b"somebody else's"), Ok(()));
        shelf.judge(round, client, b"somebody else's", Standing::Refused);
        assert!(!shelf.may_have(round, client));
        assert_eq!(put(&shelf, 1, b"the client's"), Ok(()));
        // What is known of bytes that were replaced says nothing of these.
        shelf.judge(round, client, b"somebody else's", Standing::Refused);
        assert_eq!(shelf.new_ones(), [(round, client)]);
        shelf.judge(round, client, b"the client's", Standing::Taken);
        assert_eq!(put(&shelf, 1, b"the client's"), Ok(()));
        assert_eq!(put(&shelf, 1, b"a third"), Err(Conflict));
        assert_eq!(shelf.read(round, client).unwrap().unwrap(), b"the client's");
        fs::write(shelf.unfinished(round).unwrap(), b"cut short").unwrap();
        drop(shelf);

        let shelf = Shelf::open(path).unwrap();
        assert_eq!(shelf.new_ones(), [(round, client)]);
        assert_eq!(shelf.read(round, client).unwrap().unwrap(), b"the client's");
        shelf.keep(|_| false).unwrap();
        assert_eq!((shelf.new_ones(), shelf.read(round, client).unwrap()), (Vec::new(), None));
    }
}
