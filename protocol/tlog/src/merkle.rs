//! Merkle trees over byte leaves: hashes, inclusion and consistency. RFC 6962 section 2.1, with SHA-256.
//!
//! A leaf hashes as `SHA-256(0x00 || bytes)` and a node as `SHA-256(0x01 || left || right)`, so no leaf passes for a
//! node. Of n > 1 leaves the left subtree holds the largest power of two below n; any number of leaves has a root.
//! That recursion, read level by level from the leaves: neighbours are paired from the left and an odd last node
//! moves up as it is. Everything here is public; nothing is constant time.
//!
//! The tree fixes neither its size nor what a leaf is: whoever checks an inclusion takes the size from a source it
//! trusts (the epoch's server list, a checkpoint), never from the prover.

mod consistency;
mod edge;
mod span;

pub use consistency::{
    ConsistencyError, consistency_len, consistency_proof, consistency_spans, verify_consistency,
};
pub use edge::{Edge, EdgeError};
pub use span::{Node, Span, inclusion_spans};

use sha2::{Digest, Sha256};

/// Why a leaf is not shown to be in the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MerkleError {
    /// The index lies outside the tree.
    #[error("leaf {index} of a tree of {size} leaves")]
    IndexOutOfRange {
        /// The index asked for, from 0.
        index: u64,
        /// Leaves of the tree.
        size: u64,
    },
    /// The path has another length than this leaf's position demands.
    #[error("the inclusion path needs {expected} hashes, found {found}")]
    PathLength {
        /// Hashes that the position demands.
        expected: usize,
        /// Hashes given.
        found: usize,
    },
    /// Leaf and path lead to another root.
    #[error("the inclusion path of leaf {index} of {size} does not lead to the root")]
    RootMismatch {
        /// Index of the leaf, from 0.
        index: u64,
        /// Leaves of the tree.
        size: u64,
    },
}

impl MerkleError {
    /// A stable snake_case name, for metrics and problem documents.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::IndexOutOfRange { .. } => "merkle_index_out_of_range",
            Self::PathLength { .. } => "merkle_path_length",
            Self::RootMismatch { .. } => "merkle_root_mismatch",
        }
    }
}

/// Hash of a leaf: `SHA-256(0x00 || bytes)`.
pub fn leaf_hash(bytes: &[u8]) -> [u8; 32] {
    Sha256::new().chain_update([0x00]).chain_update(bytes).finalize().into()
}

/// Hash of a node: `SHA-256(0x01 || left || right)`.
pub fn node_hash(left: &[u8; 32], right: &[u8; 32]) -> [u8; 32] {
    Sha256::new().chain_update([0x01]).chain_update(left).chain_update(right).finalize().into()
}

/// The next level: pairs from the left, an odd last node unchanged.
fn parents(level: &[[u8; 32]]) -> Vec<[u8; 32]> {
    level
        .chunks(2)
        .map(|pair| match pair {
            [left, right] => node_hash(left, right),
            rest => rest[0],
        })
        .collect()
}

/// Root of the tree without leaves: `SHA-256("")`, as the RFC has it.
pub fn empty_root() -> [u8; 32] {
    Sha256::digest([]).into()
}

/// Root over leaf hashes, in leaf order. No leaves: [`empty_root`].
pub fn root(leaf_hashes: &[[u8; 32]]) -> [u8; 32] {
    if leaf_hashes.is_empty() {
        return empty_root();
    }
    let mut level = leaf_hashes.to_vec();
    while level.len() > 1 {
        level = parents(&level);
    }
    level[0]
}

/// Number of hashes in the inclusion path of leaf `index` (from 0) in a tree of `size` leaves: at most 64.
///
/// Known before a single hash is read, so a parser bounds its allocation with it.
///
/// # Errors
/// `IndexOutOfRange` unless `index < size`.
pub fn path_len(index: u64, size: u64) -> Result<usize, MerkleError> {
    if index >= size {
        return Err(MerkleError::IndexOutOfRange { index, size });
    }
    Ok(Climb::from_leaf(index, size).filter(|step| *step != Step::Alone).count())
}

/// Inclusion path of leaf `index` (from 0): the sibling of each node from the leaf to below the root, where there is
/// one. [`path_len`] says how many.
///
/// # Panics
/// If `index` is not below the number of leaves.
pub fn inclusion_path(leaf_hashes: &[[u8; 32]], index: usize) -> Vec<[u8; 32]> {
    assert!(index < leaf_hashes.len(), "leaf {index} of a tree of {} leaves", leaf_hashes.len());
    let mut path = Vec::new();
    let mut level = leaf_hashes.to_vec();
    let mut position = index;
    while level.len() > 1 {
        path.extend(level.get(position ^ 1));
        level = parents(&level);
        position /= 2;
    }
    path
}

/// The inclusion paths of all leaves, in leaf order: each level is hashed once.
pub fn inclusion_paths(leaf_hashes: &[[u8; 32]]) -> Vec<Vec<[u8; 32]>> {
    let mut levels = vec![leaf_hashes.to_vec()];
    while let Some(level) = levels.last().filter(|level| level.len() > 1) {
        levels.push(parents(level));
    }
    let sibling =
        |(height, level): (usize, &Vec<[u8; 32]>), index: usize| level.get(index >> height ^ 1).copied();
    (0..leaf_hashes.len())
        .map(|index| levels.iter().enumerate().filter_map(|level| sibling(level, index)).collect())
        .collect()
}

/// Verifies that the leaf with hash `leaf` is number `index` (from 0) of the `size` leaves under `root`.
///
/// # Errors
/// `IndexOutOfRange` unless `index < size`; `PathLength` if the path is not [`path_len`] long; `RootMismatch` if it
/// leads elsewhere.
pub fn verify_inclusion(
    root: &[u8; 32],
    leaf: &[u8; 32],
    index: u64,
    size: u64,
    path: &[[u8; 32]],
) -> Result<(), MerkleError> {
    let reached = root_of_path(leaf, index, size, path)?;
    if reached == *root { Ok(()) } else { Err(MerkleError::RootMismatch { index, size }) }
}

/// The root that a path leads to from the leaf with hash `leaf`, number `index` (from 0) of `size` leaves.
///
/// # Errors
/// `IndexOutOfRange` unless `index < size`; `PathLength` if the path is not [`path_len`] long.
pub fn root_of_path(
    leaf: &[u8; 32],
    index: u64,
    size: u64,
    path: &[[u8; 32]],
) -> Result<[u8; 32], MerkleError> {
    let expected = path_len(index, size)?;
    if path.len() != expected {
        return Err(MerkleError::PathLength { expected, found: path.len() });
    }
    let mut siblings = path.iter();
    let mut hash = *leaf;
    for step in Climb::from_leaf(index, size).filter(|step| *step != Step::Alone) {
        let sibling = siblings.next().expect("the path has one hash per sibling, checked above");
        hash = if step == Step::SiblingLeft { node_hash(sibling, &hash) } else { node_hash(&hash, sibling) };
    }
    Ok(hash)
}

/// What a node meets on the way up one level.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    /// It is the odd last node of its level and moves up as it is.
    Alone,
    /// Its sibling is on the left.
    SiblingLeft,
    /// Its sibling is on the right.
    SiblingRight,
}

/// The steps from a node to the root.
struct Climb {
    position: u64,
    last: u64,
}

impl Climb {
    /// Starts at leaf `index < size`.
    const fn from_leaf(index: u64, size: u64) -> Self {
        Self { position: index, last: size - 1 }
    }

    /// Starts at a node that stands within a tree of `size` leaves.
    const fn from_node(node: Node, size: u64) -> Self {
        Self { position: node.index, last: (size - 1) >> node.height }
    }
}

impl Iterator for Climb {
    type Item = Step;

    fn next(&mut self) -> Option<Step> {
        if self.last == 0 {
            return None;
        }
        let step = if self.position & 1 == 1 {
            Step::SiblingLeft
        } else if self.position < self.last {
            Step::SiblingRight
        } else {
            Step::Alone
        };
        self.position >>= 1;
        self.last >>= 1;
        Some(step)
    }
}

#[cfg(test)]
mod tests;
