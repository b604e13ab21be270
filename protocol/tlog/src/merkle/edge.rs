//! The right edge of a growing tree: all that appending and the root need.

use super::{Span, empty_root, node_hash};
use crate::MAX_SIZE;

/// Why parts make no edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EdgeError {
    /// The size has another number of perfect subtrees.
    #[error("the edge of {size} leaves has {expected} hashes, found {found}")]
    PeakCount {
        /// Leaves.
        size: u64,
        /// One-bits of the size.
        expected: usize,
        /// Hashes given.
        found: usize,
    },
    /// More leaves than a log can have.
    #[error("{size} leaves are too many for a log")]
    TooLarge {
        /// Leaves.
        size: u64,
    },
}

impl EdgeError {
    /// A stable snake_case name, for metrics and problem documents.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::PeakCount { .. } => "edge_peak_count",
            Self::TooLarge { .. } => "edge_too_large",
        }
    }
}

/// A tree without its inside: the size and the roots of its perfect subtrees, largest first.
///
/// One subtree for each one-bit of the size, so at most 63 hashes. Appending costs one hash of two nodes on average
/// and 63 at most.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Edge {
    size: u64,
    peaks: Vec<[u8; 32]>,
}

impl Edge {
    /// The tree without leaves.
    pub const fn new() -> Self {
        Self { size: 0, peaks: Vec::new() }
    }

    /// An edge from what [`Edge::size`] and [`Edge::peaks`] gave. Compare [`Edge::root`] with a root you trust.
    ///
    /// # Errors
    /// `TooLarge` above [`MAX_SIZE`]; `PeakCount` unless there is one hash per one-bit of the size.
    pub fn from_parts(size: u64, peaks: Vec<[u8; 32]>) -> Result<Self, EdgeError> {
        if size > MAX_SIZE {
            return Err(EdgeError::TooLarge { size });
        }
        let expected = size.count_ones() as usize;
        if peaks.len() != expected {
            return Err(EdgeError::PeakCount { size, expected, found: peaks.len() });
        }
        Ok(Self { size, peaks })
    }

    /// Number of leaves.
    pub const fn size(&self) -> u64 {
        self.size
    }

    /// Roots of the perfect subtrees, largest first.
    pub fn peaks(&self) -> &[[u8; 32]] {
        &self.peaks
    }

    /// Appends a leaf by its hash and returns its index.
    ///
    /// # Errors
    /// `TooLarge` if the tree has [`MAX_SIZE`] leaves.
    pub fn append(&mut self, leaf: [u8; 32]) -> Result<u64, EdgeError> {
        if self.size >= MAX_SIZE {
            return Err(EdgeError::TooLarge { size: self.size });
        }
        let index = self.size;
        let mut hash = leaf;
        // Each trailing one-bit of the size is a subtree as large as what `hash` stands for by then.
        for _ in 0..index.trailing_ones() {
            let left = self.peaks.pop().expect("one peak per one-bit of the size");
            hash = node_hash(&left, &hash);
        }
        self.peaks.push(hash);
        self.size += 1;
        Ok(index)
    }

    /// Root of the tree. No leaves: [`empty_root`].
    pub fn root(&self) -> [u8; 32] {
        if self.peaks.is_empty() { empty_root() } else { Span::fold(&self.peaks) }
    }
}
