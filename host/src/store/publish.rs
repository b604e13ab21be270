//! The published files: the log's tiles, bundles and checkpoint, as any web server can serve them.
//!
//! Nothing here has to be durable: all of it can be made again from the database. Full tiles are synced behind the
//! log's back, so that a start needs to look only at those that were not.

use super::StoreError;
use super::disk::{Access, Disk};
use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use tlog::builder::Written;
use tlog::tile::{Bundle, LEVELS, Resource, Tile, WIDTH};

/// Directory of the published files.
pub const DIRECTORY: &str = "log";

/// Path of the published checkpoint.
pub const CHECKPOINT: &str = "log/checkpoint";

#[derive(Debug)]
pub struct Publisher {
    disk: Arc<dyn Disk>,
    /// Directories that are known to exist.
    directories: BTreeSet<String>,
    /// Full tiles and bundles that were not synced yet: the size of the log that they end, bundles before tiles, lower
    /// levels before higher ones.
    unsynced: BTreeSet<(u64, u8, Resource)>,
    /// Places whose partial files a full one has replaced.
    replaced: Vec<String>,
}

impl Publisher {
    pub fn new(disk: Arc<dyn Disk>) -> Self {
        let (directories, unsynced, replaced) = Default::default();
        Self { disk, directories, unsynced, replaced }
    }

    /// Puts bytes in the place of a file at once.
    fn replace(&mut self, path: &str, bytes: &[u8]) -> Result<(), StoreError> {
        let mut end = 0;
        while let Some(slash) = path[end..].find('/') {
            let directory = &path[..end + slash];
            if !self.directories.contains(directory) {
                self.disk.create_dir(directory).map_err(StoreError::disk("create", directory))?;
                self.directories.insert(directory.to_owned());
            }
            end += slash + 1;
        }
        let unfinished = format!("{path}.new");
        let write = || -> io::Result<()> {
            let file = self.disk.open(&unfinished, Access::Create)?;
            if !file.is_empty()? {
                file.set_len(0)?;
            }
            file.write_at(0, bytes)?;
            self.disk.rename(&unfinished, path)
        };
        write().map_err(StoreError::disk("publish", path))
    }

    /// Writes tiles and bundles.
    pub fn write(&mut self, files: &[Written]) -> Result<(), StoreError> {
        for Written { resource, bytes } in files {
            self.replace(&format!("{DIRECTORY}/{resource}"), bytes)?;
            self.note_full(*resource);
        }
        Ok(())
    }

    fn note_full(&mut self, resource: Resource) {
        let (rank, index, width) = match resource {
            Resource::Bundle(bundle) => (0, bundle.index(), bundle.width()),
            Resource::Tile(tile) => (tile.level() + 1, tile.index(), tile.width()),
        };
        if width == WIDTH {
            self.unsynced.insert(((index + 1) << (8 * u32::from(rank.max(1))), rank, resource));
            self.replaced.push(format!("{DIRECTORY}/{resource}.p"));
        }
    }

    /// Writes the checkpoint.
    pub fn checkpoint(&mut self, note: &str) -> Result<(), StoreError> {
        self.replace(CHECKPOINT, note.as_bytes())
    }

    /// Removes the partial files that full ones have replaced, which C2SP allows. To be called once a checkpoint is
    /// published that does not need them.
    pub fn remove_replaced(&mut self) -> Result<(), StoreError> {
        for directory in std::mem::take(&mut self.replaced) {
            let names = match self.disk.list(&directory) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                names => names.map_err(StoreError::disk("list", &directory))?,
            };
            for name in names {
                let path = format!("{directory}/{}", name.name);
                self.disk.remove(&path).map_err(StoreError::disk("remove", &path))?;
            }
            self.disk.remove_dir(&directory).map_err(StoreError::disk("remove", &directory))?;
            self.directories.remove(&directory);
        }
        Ok(())
    }

    /// Full files that wait to be synced.
    pub fn waiting(&self) -> usize {
        self.unsynced.len()
    }

    /// Syncs some of the oldest full files. Returns the size of the log up to which all are now, if that grew.
    pub fn sync_some(&mut self, most: usize) -> Result<Option<u64>, StoreError> {
        let mut directories = BTreeSet::new();
        let mut through = None;
        for _ in 0..most {
            let Some((end, rank, resource)) = self.unsynced.pop_first() else { break };
            let path = format!("{DIRECTORY}/{resource}");
            self.disk
                .open(&path, Access::Read)
                .and_then(|file| file.sync_data())
                .map_err(StoreError::disk("sync", &path))?;
            let mut directory = path.as_str();
            while let Some((parent, _)) = directory.rsplit_once('/') {
                directories.insert(parent.to_owned());
                directory = parent;
            }
            if self.unsynced.is_empty() {
                through = Some(end);
            } else if rank == 0 {
                // The first of what ends here: all that ends before is done.
                through = Some(end - u64::from(WIDTH));
            }
        }
        if !directories.is_empty() {
            directories.insert(String::new());
        }
        for directory in directories {
            self.disk.sync_dir(&directory).map_err(StoreError::disk("sync", &directory))?;
        }
        Ok(through.filter(|through| *through > 0))
    }

    /// Makes sure that a file is there with these bytes. True if it was not.
    pub fn ensure(&mut self, resource: Resource, bytes: &[u8]) -> Result<bool, StoreError> {
        let path = format!("{DIRECTORY}/{resource}");
        self.note_full(resource);
        let len = u64::try_from(bytes.len()).expect("a length fits 64 bits");
        match super::disk::read(&*self.disk, &path, len) {
            Ok(found) if found == bytes => return Ok(false),
            Ok(_) => {}
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::InvalidData) => {}
            Err(error) => return Err(StoreError::disk("read", &path)(error)),
        }
        self.replace(&path, bytes)?;
        Ok(true)
    }
}

/// The files of a log of `size` entries that are not full or that the log of its first `from` entries had not: level by
/// level, a bundle before its tile.
pub fn resources(from: u64, size: u64) -> impl Iterator<Item = Resource> {
    let grown = tlog::tile::new_tiles(from, size).expect("the size of a log");
    // Partial tiles of levels that did not grow since.
    let kept = (0..LEVELS).filter_map(move |level| {
        let (had, has) = (from >> (8 * u32::from(level)), size >> (8 * u32::from(level)));
        let width = u16::try_from(has % u64::from(WIDTH)).expect("below 256");
        let partial = had == has && width > 0;
        partial.then(|| Tile::new(level, has / u64::from(WIDTH), width).expect("a tile of this log"))
    });
    grown.chain(kept).flat_map(|tile| {
        let bundle = (tile.level() == 0)
            .then(|| Resource::Bundle(Bundle::new(tile.index(), tile.width()).expect("beside a tile")));
        bundle.into_iter().chain([Resource::Tile(tile)])
    })
}
