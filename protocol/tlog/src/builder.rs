//! Building a log: entries in, root and changed files out.

use crate::MAX_SIZE;
use crate::entry::{self, EntryError};
use crate::merkle::{self, Edge, EdgeError, Span, leaf_hash};
use crate::prove::{self, ProveError, ReadTiles};
use crate::tile::{self, Bundle, HEIGHT, LEVELS, Resource, Tile, WIDTH};

/// Why an entry is not appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AppendError {
    /// The entry fits no bundle.
    #[error("unusable entry")]
    Entry(#[source] EntryError),
    /// The log has all the leaves it can have.
    #[error("the log is full")]
    Full(#[source] EdgeError),
}

impl AppendError {
    /// A stable snake_case name, for metrics and problem documents.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Entry(error) => error.code(),
            Self::Full(error) => error.code(),
        }
    }
}

/// Why a log cannot be continued from what is stored.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ResumeError<E: std::error::Error + 'static> {
    /// The bytes of the last bundle are no bundle.
    #[error("unusable bundle")]
    Bundle(#[source] EntryError),
    /// The last bundle holds other entries than the last tile has the hashes of.
    #[error("the entries of {bundle} do not hash to the tile beside it")]
    BundleMismatch {
        /// The bundle.
        bundle: Bundle,
    },
    /// The last bundle could not be read.
    #[error("{bundle} could not be read")]
    BundleUnreadable {
        /// The bundle.
        bundle: Bundle,
        /// The reader's error.
        #[source]
        source: E,
    },
    /// The tiles are missing or lead to another root.
    #[error("unusable tiles")]
    Tiles(#[source] ProveError<E>),
}

impl<E: std::error::Error + 'static> ResumeError<E> {
    /// A stable snake_case name, for metrics and problem documents.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Bundle(error) => error.code(),
            Self::BundleMismatch { .. } => "resume_bundle_mismatch",
            Self::BundleUnreadable { .. } => "resume_bundle_unreadable",
            Self::Tiles(error) => error.code(),
        }
    }
}

/// A file of the log that is new or replaces nothing: a path and its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// Where it is served.
    pub resource: Resource,
    /// What is in it.
    pub bytes: Vec<u8>,
}

/// A log that grows.
///
/// Holds the right edge, the last tile of each level and the last bundle: 64 KiB of hashes and at most 16 MiB of
/// entries, besides what was completed since [`Builder::take_changes`].
#[derive(Clone, Debug, Default)]
pub struct Builder {
    edge: Edge,
    /// Hashes of the last tile of each level, fewer than [`WIDTH`]; level 0 first.
    levels: Vec<Vec<[u8; 32]>>,
    /// Bytes of the last bundle, which has as many entries as `levels[0]` has hashes.
    bundle: Vec<u8>,
    completed: Vec<Written>,
    /// Size at the last [`Builder::take_changes`].
    taken: u64,
}

impl Builder {
    /// A log without entries.
    pub fn new() -> Self {
        Self { levels: vec![Vec::new(); LEVELS.into()], ..Self::default() }
    }

    /// Continues the log of `size` leaves under `root` from its stored files: one partial tile a level and one partial
    /// bundle at most.
    ///
    /// # Errors
    /// `Tiles` if a tile is missing, malformed or of another tree; `BundleUnreadable`, `Bundle` or `BundleMismatch` if
    /// the last bundle is missing, malformed or of other entries.
    pub fn resume<R: ReadTiles>(
        size: u64,
        root: &[u8; 32],
        reader: &R,
    ) -> Result<Self, ResumeError<R::Error>> {
        let refused = |error| Err(ResumeError::Tiles(error));
        if size > MAX_SIZE {
            return refused(ProveError::TooLarge { size });
        }
        let mut builder = Self { taken: size, ..Self::new() };
        let mut peaks = Vec::new();
        for level in (0..LEVELS).rev() {
            let on_level = size >> (HEIGHT * u32::from(level));
            let (index, width) = (on_level / u64::from(WIDTH), on_level % u64::from(WIDTH));
            if width == 0 {
                continue;
            }
            let width = u16::try_from(width).expect("below 256");
            let tile = Tile::new(level, index, width).expect("a tile of a tree of this size");
            let hashes = prove::read_tile(tile, reader).map_err(ResumeError::Tiles)?;
            let mut rest = hashes.as_slice();
            for node in (Span { start: 0, end: width.into() }).nodes() {
                let (subtree, after) = rest.split_at(1 << node.height);
                peaks.push(merkle::root(subtree));
                rest = after;
            }
            builder.levels[usize::from(level)] = hashes;
        }
        builder.edge = Edge::from_parts(size, peaks).expect("one subtree per one-bit of a size in range");
        if builder.root() != *root {
            return refused(ProveError::RootMismatch { size });
        }
        if !builder.levels[0].is_empty() {
            builder.bundle = builder.read_bundle(reader)?;
        }
        Ok(builder)
    }

    fn read_bundle<R: ReadTiles>(&self, reader: &R) -> Result<Vec<u8>, ResumeError<R::Error>> {
        let bundle = Bundle::of_entry(self.size() - 1, self.size()).expect("the last entry of a log");
        let bytes =
            reader.bundle(bundle).map_err(|source| ResumeError::BundleUnreadable { bundle, source })?;
        let entries = bundle.parse(&bytes).map_err(ResumeError::Bundle)?;
        let same = entries.iter().map(|entry| leaf_hash(entry)).eq(self.levels[0].iter().copied());
        if same { Ok(bytes) } else { Err(ResumeError::BundleMismatch { bundle }) }
    }

    /// Number of entries.
    pub const fn size(&self) -> u64 {
        self.edge.size()
    }

    /// Root over all entries.
    pub fn root(&self) -> [u8; 32] {
        self.edge.root()
    }

    /// The right edge.
    pub const fn edge(&self) -> &Edge {
        &self.edge
    }

    /// Appends an entry and returns its index.
    ///
    /// # Errors
    /// `Entry` above [`entry::MAX_ENTRY_BYTES`]; `Full` at [`crate::MAX_SIZE`]. The log is unchanged then.
    pub fn append(&mut self, entry: &[u8]) -> Result<u64, AppendError> {
        if entry.len() > entry::MAX_ENTRY_BYTES {
            return Err(AppendError::Entry(EntryError::TooLong { found: entry.len() }));
        }
        let leaf = leaf_hash(entry);
        let index = self.edge.append(leaf).map_err(AppendError::Full)?;
        entry::push(&mut self.bundle, entry).map_err(AppendError::Entry)?;
        self.levels[0].push(leaf);
        let mut number = index / u64::from(WIDTH);
        for level in 0..LEVELS {
            let hashes = &mut self.levels[usize::from(level)];
            if hashes.len() < WIDTH.into() {
                break;
            }
            let full = std::mem::take(hashes);
            if level == 0 {
                let bundle = Bundle::new(number, WIDTH).expect("the log has these entries");
                let bytes = std::mem::take(&mut self.bundle);
                self.completed.push(Written { resource: Resource::Bundle(bundle), bytes });
            }
            let tile = Tile::new(level, number, WIDTH).expect("the log has these leaves");
            let bytes = full.as_flattened().to_vec();
            self.completed.push(Written { resource: Resource::Tile(tile), bytes });
            // A full tile of the top level would need more leaves than MAX_SIZE.
            self.levels[usize::from(level) + 1].push(merkle::root(&full));
            number /= u64::from(WIDTH);
        }
        Ok(index)
    }

    /// The files that changed since the last call: completed ones first, in the order of their completion, then the
    /// partial ones that belong to the present size.
    ///
    /// Store them before a checkpoint of this size is shown to anyone.
    pub fn take_changes(&mut self) -> Vec<Written> {
        let mut changes = std::mem::take(&mut self.completed);
        let partial = tile::new_tiles(self.taken, self.size())
            .expect("the size of a log")
            .filter(|tile| tile.is_partial());
        for tile in partial {
            if tile.level() == 0 {
                let bundle = Bundle::new(tile.index(), tile.width()).expect("the bundle beside a tile");
                changes.push(Written { resource: Resource::Bundle(bundle), bytes: self.bundle.clone() });
            }
            let bytes = self.levels[usize::from(tile.level())].as_flattened().to_vec();
            changes.push(Written { resource: Resource::Tile(tile), bytes });
        }
        self.taken = self.size();
        changes
    }
}
