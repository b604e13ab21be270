//! Tiles and bundles, from the database and from the published files.

use super::disk::{self, Disk};
use super::tables::{LEAVES, NODES};
use redb::{ReadOnlyTable, ReadTransaction, TableError};
use std::io;
use std::sync::Arc;
use tlog::entry;
use tlog::merkle::leaf_hash;
use tlog::prove::ReadTiles;
use tlog::tile::{Bundle, Resource, Tile, WIDTH};

/// Bytes of the longest file of a log: a bundle of entries of the greatest length.
pub const MAX_FILE_BYTES: u64 = 256 * (2 + 65_535);

/// Why a tile cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TilesError {
    /// The database failed.
    #[error("the database failed")]
    Database(#[source] Box<redb::Error>),
    /// The file cannot be read.
    #[error("{path} cannot be read")]
    File {
        /// Its path.
        path: String,
        /// The disk's error.
        #[source]
        source: io::Error,
    },
    /// A row is not there.
    #[error("the database has no {what}")]
    Missing {
        /// Which.
        what: String,
    },
}

fn database(error: impl Into<redb::Error>) -> TilesError {
    TilesError::Database(Box::new(error.into()))
}

/// Tiles of the leaves in the database.
pub struct StoredTiles {
    leaves: Option<ReadOnlyTable<u64, &'static [u8]>>,
    nodes: Option<ReadOnlyTable<(u8, u64), [u8; 32]>>,
}

impl StoredTiles {
    /// The tiles as a transaction sees them.
    pub fn new(transaction: &ReadTransaction) -> Result<Self, TilesError> {
        let leaves = match transaction.open_table(LEAVES) {
            Ok(table) => Some(table),
            Err(TableError::TableDoesNotExist(_)) => None,
            Err(error) => return Err(database(error)),
        };
        let nodes = match transaction.open_table(NODES) {
            Ok(table) => Some(table),
            Err(TableError::TableDoesNotExist(_)) => None,
            Err(error) => return Err(database(error)),
        };
        Ok(Self { leaves, nodes })
    }

    /// A leaf.
    pub fn leaf(&self, index: u64) -> Result<Vec<u8>, TilesError> {
        let missing = || TilesError::Missing { what: format!("leaf {index}") };
        let table = self.leaves.as_ref().ok_or_else(missing)?;
        Ok(table.get(index).map_err(database)?.ok_or_else(missing)?.value().to_vec())
    }

    fn leaves(&self, index: u64, width: u16, each: impl FnMut(&[u8])) -> Result<(), TilesError> {
        let first = index * u64::from(WIDTH);
        self.leaves_between(first, first + u64::from(width), each)
    }

    /// Calls `each` with the leaves of `first..end`, in their order.
    pub fn leaves_between(
        &self,
        first: u64,
        end: u64,
        mut each: impl FnMut(&[u8]),
    ) -> Result<(), TilesError> {
        let missing = |index| TilesError::Missing { what: format!("leaf {index}") };
        let table = self.leaves.as_ref().ok_or_else(|| missing(first))?;
        let mut next = first;
        for row in table.range(first..end).map_err(database)? {
            let (found, leaf) = row.map_err(database)?;
            if found.value() != next {
                break;
            }
            each(leaf.value());
            next += 1;
        }
        if next == end { Ok(()) } else { Err(missing(next)) }
    }

    /// The bytes of a file of the log.
    pub fn resource(&self, resource: Resource) -> Result<Vec<u8>, TilesError> {
        match resource {
            Resource::Bundle(bundle) => self.bundle(bundle),
            Resource::Tile(tile) => self.tile(tile),
        }
    }
}

impl ReadTiles for StoredTiles {
    type Error = TilesError;

    fn bundle(&self, bundle: Bundle) -> Result<Vec<u8>, TilesError> {
        let mut bytes = Vec::new();
        self.leaves(bundle.index(), bundle.width(), |leaf| {
            entry::push(&mut bytes, leaf).expect("it was short enough to be appended");
        })?;
        Ok(bytes)
    }

    fn tile(&self, tile: Tile) -> Result<Vec<u8>, TilesError> {
        let mut bytes = Vec::with_capacity(usize::from(tile.width()) * 32);
        if tile.level() == 0 {
            self.leaves(tile.index(), tile.width(), |leaf| bytes.extend(leaf_hash(leaf)))?;
            return Ok(bytes);
        }
        let missing = || TilesError::Missing { what: format!("all hashes of {tile}") };
        let table = self.nodes.as_ref().ok_or_else(missing)?;
        let first = tile.index() * u64::from(WIDTH);
        let range = (tile.level(), first)..(tile.level(), first + u64::from(tile.width()));
        for row in table.range(range).map_err(database)? {
            bytes.extend(row.map_err(database)?.1.value());
        }
        if bytes.len() == usize::from(tile.width()) * 32 { Ok(bytes) } else { Err(missing()) }
    }
}

/// Tiles in published files below a directory.
#[derive(Clone, Debug)]
pub struct PublishedTiles {
    disk: Arc<dyn Disk>,
    /// Ends with a slash, or is empty.
    prefix: String,
}

impl PublishedTiles {
    /// The files below `directory`; empty: the disk's root.
    pub fn new(disk: Arc<dyn Disk>, directory: &str) -> Self {
        let prefix = if directory.is_empty() { String::new() } else { format!("{directory}/") };
        Self { disk, prefix }
    }

    /// The published checkpoint's bytes.
    pub fn checkpoint(&self) -> io::Result<Vec<u8>> {
        let limit = u64::try_from(tlog::note::MAX_NOTE_BYTES).expect("a small constant");
        disk::read(&*self.disk, &format!("{}checkpoint", self.prefix), limit)
    }

    /// The bytes of a file of the log.
    pub fn resource(&self, resource: Resource) -> io::Result<Vec<u8>> {
        disk::read(&*self.disk, &format!("{}{resource}", self.prefix), MAX_FILE_BYTES)
    }

    fn read(&self, resource: Resource) -> Result<Vec<u8>, TilesError> {
        let path = format!("{}{resource}", self.prefix);
        self.resource(resource).map_err(|source| TilesError::File { path, source })
    }
}

/// A partial tile that a full one replaced is read from that one.
impl ReadTiles for PublishedTiles {
    type Error = TilesError;

    fn bundle(&self, bundle: Bundle) -> Result<Vec<u8>, TilesError> {
        self.read(Resource::Bundle(bundle)).or_else(|error| {
            let full = Bundle::new(bundle.index(), WIDTH).map_err(|_| error)?;
            let bytes = self.read(Resource::Bundle(full))?;
            // Its first entries are this bundle; what does not parse is judged by whoever asked.
            let Ok(entries) = full.parse(&bytes) else { return Ok(bytes) };
            let kept = entries[..usize::from(bundle.width())].iter().map(|entry| 2 + entry.len()).sum();
            Ok(bytes[..kept].to_vec())
        })
    }

    fn tile(&self, tile: Tile) -> Result<Vec<u8>, TilesError> {
        self.read(Resource::Tile(tile)).or_else(|error| {
            let full = Tile::new(tile.level(), tile.index(), WIDTH).map_err(|_| error)?;
            let mut bytes = self.read(Resource::Tile(full))?;
            bytes.truncate(usize::from(tile.width()) * 32);
            Ok(bytes)
        })
    }
}
