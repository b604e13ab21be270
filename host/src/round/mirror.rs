//! A copy of a published log with its bodies in plain files, as anybody may hold it: docs/audit.md has the layout.

use super::library::{EVIDENCE_ROUND, Item, Library};
use super::recover::{Bodies, Body};
use super::{Blobs, Unavailable};
use crate::store::disk::{self, Access, Disk};
use crate::store::{Reader, StoreError};
use panetiere_api::leaf::RoundId;
use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;

/// Bytes of a file that are read at most: a guard against a file that is something else. A post of the largest parameters
/// has 20 MB.
pub const MAX_FILE: u64 = 256 << 20;

/// Rows of a store that are held at a time.
const PAGE: usize = 1024;

/// The path of an item, from the copy's root.
pub fn path(round: RoundId, item: Item) -> String {
    match item {
        Item::Body(Body::Post(client)) => format!("rounds/{round}/posts/{client}"),
        Item::Body(Body::GroupSum(aggregator)) => format!("rounds/{round}/group-sums/{aggregator}"),
        Item::Body(Body::LaneSum(lane)) => format!("rounds/{round}/lane-sums/{lane}"),
        Item::Body(Body::ServerSum(server)) => format!("rounds/{round}/server-sums/{server}"),
        Item::Ciphertext(client) => format!("rounds/{round}/ciphertexts/{client}"),
        Item::Closing => format!("rounds/{round}/closing"),
        Item::Openings(client) => format!("rounds/{round}/openings/{client}"),
        Item::Messages => format!("rounds/{round}/messages"),
    }
}

/// The path of a piece of evidence that an expulsion names, from the copy's root.
pub fn evidence_path(digest: &[u8; 32]) -> String {
    format!("evidence/{}", data_encoding::HEXLOWER.encode(digest))
}

/// The bodies of a copy.
#[derive(Clone, Debug)]
pub struct Mirror {
    disk: Arc<dyn Disk>,
}

impl Mirror {
    /// The copy below the disk's root.
    pub const fn new(disk: Arc<dyn Disk>) -> Self {
        Self { disk }
    }
}

impl Bodies for Mirror {
    fn item(&self, round: RoundId, item: Item) -> io::Result<Option<Vec<u8>>> {
        match disk::read(&*self.disk, &path(round, item), MAX_FILE) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            read => read.map(Some),
        }
    }
}

impl Blobs for Mirror {
    fn get(&self, digest: &[u8; 32], len: u64) -> Result<Vec<u8>, Unavailable> {
        let unavailable = |reason| Unavailable { digest: *digest, len, reason };
        let bytes = disk::read(&*self.disk, &evidence_path(digest), len.min(MAX_FILE));
        let bytes = bytes.map_err(|error| unavailable(error.to_string()))?;
        if u64::try_from(bytes.len()).ok() != Some(len) {
            return Err(unavailable(format!("the file has {} bytes", bytes.len())));
        }
        Ok(bytes)
    }
}

/// What was copied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exported {
    /// Entries of the log.
    pub entries: u64,
    /// Bodies, messages, checkpoints and evidence.
    pub bodies: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Bodies that were deleted with their rounds.
    pub deleted: u64,
}

/// Copies a store that nobody has open to plain files; what is there already is written again. The checkpoint comes last,
/// so that a copy that was cut short is not taken for a whole one.
///
/// # Errors
/// The store's, and `Disk` of the copy.
pub fn export(reader: &Reader, out: &dyn Disk) -> Result<Exported, StoreError> {
    let mut files = Files { out, directories: BTreeSet::new() };
    let mut exported = Exported::default();
    let head = reader.each_resource(|resource, bytes| files.write(&resource.to_string(), &bytes))?;
    exported.entries = head.size;
    let library = Library(reader);
    let unreadable = |source| StoreError::Disk { action: "read", path: "a body".to_owned(), source };
    let mut after = None;
    loop {
        let page = library.items(after, PAGE).map_err(unreadable)?;
        let Some(&last) = page.last() else { break };
        after = Some(last);
        for (round, item) in page {
            if let Item::Ciphertext(_) | Item::Openings(_) = item {
                // Part of its post; and what was sealed to the servers is not published.
                continue;
            }
            match library.item(round, item) {
                Ok(Some(bytes)) => files.body(&path(round, item), &bytes, &mut exported)?,
                Ok(None) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => exported.deleted += 1,
                Err(error) => return Err(unreadable(error)),
            }
        }
    }
    for name in reader.blobs(EVIDENCE_ROUND)? {
        let bytes = reader.get(EVIDENCE_ROUND, &name)?;
        files.body(&evidence_path(&name.digest), &bytes, &mut exported)?;
    }
    files.write("checkpoint", reader.checkpoint()?.to_string().as_bytes())?;
    Ok(exported)
}

struct Files<'d> {
    out: &'d dyn Disk,
    directories: BTreeSet<String>,
}

impl Files<'_> {
    fn body(&mut self, path: &str, bytes: &[u8], exported: &mut Exported) -> Result<(), StoreError> {
        exported.bodies += 1;
        exported.bytes += u64::try_from(bytes.len()).expect("a length fits 64 bits");
        self.write(path, bytes)
    }

    fn write(&mut self, path: &str, bytes: &[u8]) -> Result<(), StoreError> {
        for (at, _) in path.match_indices('/') {
            let directory = &path[..at];
            if self.directories.insert(directory.to_owned()) {
                self.out.create_dir(directory).map_err(StoreError::disk("create", directory))?;
            }
        }
        let unfinished = format!("{path}.new");
        let write = || -> io::Result<()> {
            let file = self.out.open(&unfinished, Access::Create)?;
            file.set_len(0)?;
            file.write_at(0, bytes)?;
            self.out.rename(&unfinished, path)
        };
        write().map_err(StoreError::disk("write", path))
    }
}
