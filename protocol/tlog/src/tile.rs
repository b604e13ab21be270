//! Tiles: which there are, where they are served and what is in them. C2SP tlog-tiles.
//!
//! A tile is up to 256 hashes of one level, side by side: leaf hashes at level 0, roots of full tiles of the level
//! below at every other. A tile that is not full is partial and belongs to one tree size only.

use crate::MAX_SIZE;
use crate::merkle::Node;
use std::fmt;
use std::str::FromStr;

/// Hashes in a full tile, entries in a full bundle.
pub const WIDTH: u16 = 256;

/// Levels of the tree in one level of tiles: `2^HEIGHT` is [`WIDTH`].
pub const HEIGHT: u32 = 8;

/// Levels of tiles that a log of at most [`MAX_SIZE`] leaves has.
pub const LEVELS: u8 = 8;

/// Why a path names no tile, or why bytes are not a tile.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TileError {
    /// The bytes have another length than the tile's width demands.
    #[error("{tile} has {expected} bytes, found {found}")]
    Length {
        /// The tile.
        tile: Tile,
        /// Bytes that its width demands.
        expected: usize,
        /// Bytes given.
        found: usize,
    },
    /// No tile stands there in any log.
    #[error("no log has a tile of width {width} at level {level}, index {index}")]
    OutOfRange {
        /// Level of the tile.
        level: u8,
        /// Index within the level.
        index: u64,
        /// Hashes.
        width: u16,
    },
    /// The text is not the path of a tile or bundle.
    #[error("not the path of a tile or an entry bundle")]
    Path,
}

impl TileError {
    /// A stable snake_case name, for metrics and problem documents.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Length { .. } => "tile_length",
            Self::OutOfRange { .. } => "tile_out_of_range",
            Self::Path => "tile_path",
        }
    }
}

/// Name of a Merkle tile: level, index, width. It stands in some tree of at most [`MAX_SIZE`] leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tile {
    level: u8,
    index: u64,
    width: u16,
}

impl Tile {
    /// The tile at `level` (from 0), `index` (from 0) with `width` hashes.
    ///
    /// # Errors
    /// `OutOfRange` unless `width` is in `1..=WIDTH` and a tree of at most [`MAX_SIZE`] leaves reaches so far.
    pub fn new(level: u8, index: u64, width: u16) -> Result<Self, TileError> {
        let refused = TileError::OutOfRange { level, index, width };
        if level >= LEVELS || !(1..=WIDTH).contains(&width) {
            return Err(refused);
        }
        let hashes = u128::from(index) * u128::from(WIDTH) + u128::from(width);
        let end = hashes << (HEIGHT * u32::from(level));
        if index > MAX_SIZE || end > u128::from(MAX_SIZE) {
            Err(refused)
        } else {
            Ok(Self { level, index, width })
        }
    }

    /// Level, below [`LEVELS`].
    pub const fn level(self) -> u8 {
        self.level
    }

    /// Index within the level, from 0.
    pub const fn index(self) -> u64 {
        self.index
    }

    /// Hashes, in `1..=WIDTH`.
    pub const fn width(self) -> u16 {
        self.width
    }

    /// Whether the tile is not full, so that a larger tree replaces it.
    pub const fn is_partial(self) -> bool {
        self.width < WIDTH
    }

    /// The tile of a tree of `size` leaves that has the hashes under `node`, and where in it they stand.
    ///
    /// # Panics
    /// If the node reaches past the tree, or the tree is no log's.
    pub(crate) fn of_node(node: Node, size: u64) -> (Self, std::ops::Range<usize>) {
        let (level, rise) = (node.height / HEIGHT, node.height % HEIGHT);
        let first = node.index << rise;
        let index = first / u64::from(WIDTH);
        let on_level = size >> (HEIGHT * level);
        let width = (on_level - index * u64::from(WIDTH)).min(WIDTH.into());
        let offset = usize::try_from(first % u64::from(WIDTH)).expect("below 256");
        let tile = Self {
            level: u8::try_from(level).expect("a height below 64 is at a level below 8"),
            index,
            width: u16::try_from(width).expect("at most 256"),
        };
        (tile, offset..offset + (1 << rise))
    }

    /// Reads the hashes of this tile.
    ///
    /// # Errors
    /// `Length` unless there are exactly 32 bytes for each hash.
    pub fn parse(self, bytes: &[u8]) -> Result<Vec<[u8; 32]>, TileError> {
        let expected = usize::from(self.width) * 32;
        if bytes.len() != expected {
            return Err(TileError::Length { tile: self, expected, found: bytes.len() });
        }
        Ok(bytes.as_chunks::<32>().0.to_vec())
    }
}

/// The path below the log's prefix, without a slash in front: `tile/1/x001/x234/067.p/12`.
impl fmt::Display for Tile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "tile/{}/", self.level)?;
        write_place(f, self.index, self.width)
    }
}

/// Name of an entry bundle: index and width. Its entries hash to the level-0 tile of the same index and width.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bundle {
    index: u64,
    width: u16,
}

impl Bundle {
    /// The bundle at `index` (from 0) with `width` entries.
    ///
    /// # Errors
    /// `OutOfRange` unless `width` is in `1..=WIDTH` and a tree of at most [`MAX_SIZE`] leaves reaches so far.
    pub fn new(index: u64, width: u16) -> Result<Self, TileError> {
        Tile::new(0, index, width).map(|tile| Self { index: tile.index, width: tile.width })
    }

    /// The bundle of a tree of `size` leaves that holds the entry at `index`.
    ///
    /// # Errors
    /// `OutOfRange` unless `index < size <= MAX_SIZE`.
    pub fn of_entry(index: u64, size: u64) -> Result<Self, TileError> {
        if index >= size || size > MAX_SIZE {
            return Err(TileError::OutOfRange { level: 0, index: index / u64::from(WIDTH), width: 0 });
        }
        let (tile, _) = Tile::of_node(Node { height: 0, index }, size);
        Ok(Self { index: tile.index, width: tile.width })
    }

    /// Index, from 0.
    pub const fn index(self) -> u64 {
        self.index
    }

    /// Entries, in `1..=WIDTH`.
    pub const fn width(self) -> u16 {
        self.width
    }

    /// The tile that has the hashes of these entries.
    pub const fn tile(self) -> Tile {
        Tile { level: 0, index: self.index, width: self.width }
    }
}

/// The path below the log's prefix, without a slash in front: `tile/entries/x001/x234/067.p/12`.
impl fmt::Display for Bundle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("tile/entries/")?;
        write_place(f, self.index, self.width)
    }
}

/// What a log serves besides its checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Resource {
    /// Entries.
    Bundle(Bundle),
    /// Hashes.
    Tile(Tile),
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bundle(bundle) => bundle.fmt(f),
            Self::Tile(tile) => tile.fmt(f),
        }
    }
}

/// Reads a path as [`Tile`] and [`Bundle`] write it; every tile has one path.
impl FromStr for Resource {
    type Err = TileError;

    fn from_str(path: &str) -> Result<Self, TileError> {
        let rest = path.strip_prefix("tile/").ok_or(TileError::Path)?;
        let (level, place) = rest.split_once('/').ok_or(TileError::Path)?;
        let (index, width) = read_place(place).ok_or(TileError::Path)?;
        if level == "entries" {
            return Bundle::new(index, width).map(Self::Bundle);
        }
        let level = crate::text::decimal(level).and_then(|level| u8::try_from(level).ok());
        Tile::new(level.ok_or(TileError::Path)?, index, width).map(Self::Tile)
    }
}

fn write_place(f: &mut fmt::Formatter<'_>, index: u64, width: u16) -> fmt::Result {
    let digits = index.to_string();
    let digits = format!("{:0>1$}", digits, digits.len().next_multiple_of(3));
    for (start, digit) in digits.chars().enumerate() {
        if start % 3 == 0 {
            // A group that another one follows is marked, so that no name is both a file and a directory.
            let followed = start + 3 < digits.len();
            f.write_str(match (start, followed) {
                (0, true) => "x",
                (0, false) => "",
                (_, true) => "/x",
                (_, false) => "/",
            })?;
        }
        write!(f, "{digit}")?;
    }
    if width < WIDTH { write!(f, ".p/{width}") } else { Ok(()) }
}

fn read_place(text: &str) -> Option<(u64, u16)> {
    let (index, width) = match text.split_once(".p/") {
        Some((index, width)) => {
            let width = crate::text::decimal(width).and_then(|width| u16::try_from(width).ok())?;
            (index, (1..WIDTH).contains(&width).then_some(width)?)
        }
        None => (text, WIDTH),
    };
    let (marked, last) = index.rsplit_once('/').map_or((None, index), |(marked, last)| (Some(marked), last));
    let mut value = 0_u64;
    let groups = marked.into_iter().flat_map(|marked| marked.split('/')).map(|group| group.strip_prefix('x'));
    for (position, group) in groups.chain([Some(last)]).enumerate() {
        let group =
            group.filter(|group| group.len() == 3 && group.bytes().all(|byte| byte.is_ascii_digit()))?;
        let leading_zeros = position == 0 && marked.is_some() && group == "000";
        if leading_zeros {
            return None;
        }
        value = value.checked_mul(1000)?.checked_add(group.parse().ok()?)?;
    }
    Some((value, width))
}

/// The tiles that a tree of `new` leaves has and its first `old` leaves had not, level by level from the leaves and
/// from the left. The last of a level may be partial.
///
/// Lazy: a large step costs no memory.
///
/// # Errors
/// `OutOfRange` if `new` is above [`MAX_SIZE`].
pub fn new_tiles(old: u64, new: u64) -> Result<impl Iterator<Item = Tile>, TileError> {
    if new > MAX_SIZE {
        return Err(TileError::OutOfRange { level: 0, index: new / u64::from(WIDTH), width: 0 });
    }
    let width = u64::from(WIDTH);
    Ok((0..LEVELS).flat_map(move |level| {
        let shift = HEIGHT * u32::from(level);
        let (had, has) = (old >> shift, new >> shift);
        // The tile at `had / width` is partial or missing in the old tree; all before it are full.
        let range = if has > had { had / width..has.div_ceil(width) } else { 0..0 };
        range.map(move |index| {
            let hashes = (has - index * width).min(width);
            Tile { level, index, width: u16::try_from(hashes).expect("at most 256") }
        })
    }))
}
