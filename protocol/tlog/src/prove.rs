//! Roots and proofs from tiles, read through a trait.

use crate::MAX_SIZE;
use crate::merkle::{self, ConsistencyError, Edge, MerkleError, Node, Span};
use crate::tile::{Bundle, Tile, TileError};

/// Where tiles and bundles are read: a directory, a table, a log's web server.
///
/// The bytes are judged by whoever asked for them. A reader that finds only the full tile in place of a partial one
/// answers with that tile's beginning.
pub trait ReadTiles {
    /// Why something could not be read.
    type Error: std::error::Error + 'static;

    /// The bytes of an entry bundle.
    ///
    /// # Errors
    /// The reader's own.
    fn bundle(&self, bundle: Bundle) -> Result<Vec<u8>, Self::Error>;

    /// The bytes of a tile.
    ///
    /// # Errors
    /// The reader's own.
    fn tile(&self, tile: Tile) -> Result<Vec<u8>, Self::Error>;
}

/// Why there is no root or proof.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProveError<E: std::error::Error + 'static> {
    /// No such leaf.
    #[error("no inclusion path")]
    Inclusion(#[source] MerkleError),
    /// The tiles are not those of the tree: the proof they give leads to another root.
    #[error("the tiles of a tree of {size} leaves do not hash to its root")]
    RootMismatch {
        /// Leaves of the tree.
        size: u64,
    },
    /// No such pair of sizes.
    #[error("no consistency proof")]
    Sizes(#[source] ConsistencyError),
    /// Bytes that are not the tile.
    #[error("unusable tile")]
    Tile(#[source] TileError),
    /// More leaves than a log can have.
    #[error("{size} leaves are too many for a log")]
    TooLarge {
        /// Leaves.
        size: u64,
    },
    /// The reader failed.
    #[error("{tile} could not be read")]
    Unreadable {
        /// The tile.
        tile: Tile,
        /// The reader's error.
        #[source]
        source: E,
    },
}

impl<E: std::error::Error + 'static> ProveError<E> {
    /// A stable snake_case name, for metrics and problem documents.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Inclusion(error) => error.code(),
            Self::RootMismatch { .. } => "prove_root_mismatch",
            Self::Sizes(error) => error.code(),
            Self::Tile(error) => error.code(),
            Self::TooLarge { .. } => "prove_too_large",
            Self::Unreadable { .. } => "prove_unreadable",
        }
    }
}

/// Reads a tile and its hashes.
pub(crate) fn read_tile<R: ReadTiles>(tile: Tile, reader: &R) -> Result<Vec<[u8; 32]>, ProveError<R::Error>> {
    let bytes = reader.tile(tile).map_err(|source| ProveError::Unreadable { tile, source })?;
    tile.parse(&bytes).map_err(ProveError::Tile)
}

/// The tiles of one tree, each read once.
struct Tree<'a, R: ReadTiles> {
    reader: &'a R,
    size: u64,
    read: Vec<(Tile, Vec<[u8; 32]>)>,
}

impl<'a, R: ReadTiles> Tree<'a, R> {
    const fn new(reader: &'a R, size: u64) -> Self {
        Self { reader, size, read: Vec::new() }
    }

    fn node(&mut self, node: Node) -> Result<[u8; 32], ProveError<R::Error>> {
        let (tile, range) = Tile::of_node(node, self.size);
        let place = match self.read.iter().position(|(read, _)| *read == tile) {
            Some(place) => place,
            None => {
                self.read.push((tile, read_tile(tile, self.reader)?));
                self.read.len() - 1
            }
        };
        Ok(merkle::root(&self.read[place].1[range]))
    }

    fn nodes(&mut self, span: Span) -> Result<Vec<[u8; 32]>, ProveError<R::Error>> {
        span.nodes().map(|node| self.node(node)).collect()
    }

    fn hashes(&mut self, spans: &[Span]) -> Result<Vec<[u8; 32]>, ProveError<R::Error>> {
        spans.iter().map(|span| self.nodes(*span).map(|nodes| Span::fold(&nodes))).collect()
    }
}

/// The right edge of the tree of `size` leaves under `root`, from at most eight tiles.
///
/// # Errors
/// `TooLarge` above [`MAX_SIZE`]; `Unreadable` or `Tile` for a tile that is missing or malformed; `RootMismatch` if
/// the tiles lead to another root.
pub fn edge<R: ReadTiles>(size: u64, root: &[u8; 32], reader: &R) -> Result<Edge, ProveError<R::Error>> {
    if size > MAX_SIZE {
        return Err(ProveError::TooLarge { size });
    }
    let peaks = Tree::new(reader, size).nodes(Span { start: 0, end: size })?;
    let edge = Edge::from_parts(size, peaks).expect("one node per one-bit of a size in range");
    if edge.root() == *root { Ok(edge) } else { Err(ProveError::RootMismatch { size }) }
}

/// The root of the first `of` leaves of a tree of `size` leaves, from the tiles of that tree.
///
/// Nothing vouches for the tiles here: a consistency proof from this root to a known one does.
///
/// # Errors
/// `Sizes` unless `of <= size <= MAX_SIZE`; `Unreadable` or `Tile` for a tile that is missing or malformed.
pub fn root_of_first<R: ReadTiles>(of: u64, size: u64, reader: &R) -> Result<[u8; 32], ProveError<R::Error>> {
    merkle::consistency_spans(of, size).map_err(ProveError::Sizes)?;
    if of == 0 {
        return Ok(merkle::empty_root());
    }
    let nodes = Tree::new(reader, size).nodes(Span { start: 0, end: of })?;
    Ok(Span::fold(&nodes))
}

/// A leaf and its inclusion path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inclusion {
    /// Hash of the leaf.
    pub leaf: [u8; 32],
    /// Hashes from the leaf's sibling up.
    pub path: Vec<[u8; 32]>,
}

/// Leaf `index` (from 0) and its inclusion path in the tree of `size` leaves under `root`.
///
/// Verified before it is returned, so that a damaged store is noticed here and not by the receiver.
///
/// # Errors
/// `Inclusion` unless `index < size <= MAX_SIZE`; `Unreadable` or `Tile` for a tile that is missing or malformed;
/// `RootMismatch` if the tiles lead to another root.
pub fn inclusion<R: ReadTiles>(
    index: u64,
    size: u64,
    root: &[u8; 32],
    reader: &R,
) -> Result<Inclusion, ProveError<R::Error>> {
    let spans = merkle::inclusion_spans(index, size).map_err(ProveError::Inclusion)?;
    let mut tree = Tree::new(reader, size);
    let leaf = tree.node(Node { height: 0, index })?;
    let path = tree.hashes(&spans)?;
    match merkle::verify_inclusion(root, &leaf, index, size, &path) {
        Ok(()) => Ok(Inclusion { leaf, path }),
        Err(_) => Err(ProveError::RootMismatch { size }),
    }
}

/// The consistency proof from the `old` leaves under `old_root` to the `new` leaves under `new_root`, from the tiles
/// of the larger tree.
///
/// Verified before it is returned.
///
/// # Errors
/// `Sizes` unless `old <= new <= MAX_SIZE`; `Unreadable` or `Tile` for a tile that is missing or malformed;
/// `RootMismatch`, with the size whose root is not reached.
pub fn consistency<R: ReadTiles>(
    old: u64,
    old_root: &[u8; 32],
    new: u64,
    new_root: &[u8; 32],
    reader: &R,
) -> Result<Vec<[u8; 32]>, ProveError<R::Error>> {
    let spans = merkle::consistency_spans(old, new).map_err(ProveError::Sizes)?;
    let proof = Tree::new(reader, new).hashes(&spans)?;
    match merkle::verify_consistency(old, old_root, new, new_root, &proof) {
        Ok(()) => Ok(proof),
        Err(ConsistencyError::OldRootMismatch { .. }) => Err(ProveError::RootMismatch { size: old }),
        Err(_) => Err(ProveError::RootMismatch { size: new }),
    }
}
