//! Consistency of two sizes of one tree: RFC 6962 section 2.1.2.
//!
//! The right-most perfect subtree of the old tree is a node of the new one too. From it the climb to the new root
//! meets, on the left, subtrees that both trees have, and on the right, what was appended: one walk computes both
//! roots. The proof starts with that subtree's hash unless it is the whole old tree, whose root the verifier has.

use super::span::siblings;
use super::{Climb, Node, Span, Step, empty_root, node_hash};
use crate::MAX_SIZE;

/// Why a tree is not shown to be an extension of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConsistencyError {
    /// The proof leads to another root of the larger tree.
    #[error("the consistency proof from {old} to {new} leaves does not lead to the new root")]
    NewRootMismatch {
        /// Leaves of the smaller tree.
        old: u64,
        /// Leaves of the larger tree.
        new: u64,
    },
    /// The proof leads to another root of the smaller tree.
    #[error("the consistency proof from {old} to {new} leaves does not lead to the old root")]
    OldRootMismatch {
        /// Leaves of the smaller tree.
        old: u64,
        /// Leaves of the larger tree.
        new: u64,
    },
    /// The proof has another length than the two sizes demand.
    #[error("the consistency proof needs {expected} hashes, found {found}")]
    ProofLength {
        /// Hashes that the sizes demand.
        expected: usize,
        /// Hashes given.
        found: usize,
    },
    /// The sizes are in the wrong order or too large for a log.
    #[error("no log grows from {old} to {new} leaves")]
    SizesOutOfRange {
        /// Leaves of what should be the smaller tree.
        old: u64,
        /// Leaves of what should be the larger tree.
        new: u64,
    },
}

impl ConsistencyError {
    /// A stable snake_case name, for metrics and problem documents.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::NewRootMismatch { .. } => "consistency_new_root_mismatch",
            Self::OldRootMismatch { .. } => "consistency_old_root_mismatch",
            Self::ProofLength { .. } => "consistency_proof_length",
            Self::SizesOutOfRange { .. } => "consistency_sizes_out_of_range",
        }
    }
}

/// The right-most perfect subtree of a tree of `size > 0` leaves.
const fn last_peak(size: u64) -> Node {
    let height = size.trailing_zeros();
    Node { height, index: (size >> height) - 1 }
}

const fn check_sizes(old: u64, new: u64) -> Result<(), ConsistencyError> {
    if old > new || new > MAX_SIZE { Err(ConsistencyError::SizesOutOfRange { old, new }) } else { Ok(()) }
}

/// The spans that the proof from `old` to `new` leaves has the hashes of, in the proof's order. None if the sizes are
/// equal or `old` is 0.
///
/// # Errors
/// `SizesOutOfRange` unless `old <= new <= MAX_SIZE`.
pub fn consistency_spans(old: u64, new: u64) -> Result<Vec<Span>, ConsistencyError> {
    check_sizes(old, new)?;
    if old == 0 || old == new {
        return Ok(Vec::new());
    }
    let seed = last_peak(old);
    let own = (seed.index > 0).then(|| Span { start: seed.index << seed.height, end: old });
    Ok(own.into_iter().chain(siblings(seed, new)).collect())
}

/// Number of hashes in the consistency proof from `old` to `new` leaves: at most 64.
///
/// # Errors
/// `SizesOutOfRange` unless `old <= new <= MAX_SIZE`.
pub fn consistency_len(old: u64, new: u64) -> Result<usize, ConsistencyError> {
    check_sizes(old, new)?;
    if old == 0 || old == new {
        return Ok(0);
    }
    let seed = last_peak(old);
    let climb = Climb::from_node(seed, new).filter(|step| *step != Step::Alone).count();
    Ok(usize::from(seed.index > 0) + climb)
}

/// The consistency proof from the first `old` of the leaves to all of them.
///
/// # Errors
/// `SizesOutOfRange` if `old` is above the number of leaves.
pub fn consistency_proof(leaf_hashes: &[[u8; 32]], old: u64) -> Result<Vec<[u8; 32]>, ConsistencyError> {
    let at = |leaf: u64| usize::try_from(leaf).expect("a span lies within the slice");
    let spans = consistency_spans(old, leaf_hashes.len() as u64)?;
    Ok(spans.iter().map(|span| super::root(&leaf_hashes[at(span.start)..at(span.end)])).collect())
}

/// Verifies that the tree of `new` leaves under `new_root` begins with the `old` leaves under `old_root`.
///
/// An empty old tree has [`empty_root`] and no proof; equal sizes have equal roots and no proof.
///
/// # Errors
/// `SizesOutOfRange` unless `old <= new <= MAX_SIZE`; `ProofLength` if the proof is not [`consistency_len`] long;
/// `OldRootMismatch`, then `NewRootMismatch`, if it leads elsewhere.
pub fn verify_consistency(
    old: u64,
    old_root: &[u8; 32],
    new: u64,
    new_root: &[u8; 32],
    proof: &[[u8; 32]],
) -> Result<(), ConsistencyError> {
    let expected = consistency_len(old, new)?;
    if proof.len() != expected {
        return Err(ConsistencyError::ProofLength { expected, found: proof.len() });
    }
    if old == 0 && *old_root != empty_root() {
        return Err(ConsistencyError::OldRootMismatch { old, new });
    }
    if old == new {
        return if old_root == new_root {
            Ok(())
        } else {
            Err(ConsistencyError::NewRootMismatch { old, new })
        };
    }
    if old == 0 {
        return Ok(());
    }
    let seed = last_peak(old);
    let mut hashes = proof.iter();
    let first = if seed.index > 0 { hashes.next().expect("the length is checked above") } else { old_root };
    let (mut to_old, mut to_new) = (*first, *first);
    for step in Climb::from_node(seed, new).filter(|step| *step != Step::Alone) {
        let sibling = hashes.next().expect("the length is checked above");
        if step == Step::SiblingLeft {
            to_old = node_hash(sibling, &to_old);
            to_new = node_hash(sibling, &to_new);
        } else {
            to_new = node_hash(&to_new, sibling);
        }
    }
    if to_old != *old_root {
        return Err(ConsistencyError::OldRootMismatch { old, new });
    }
    if to_new != *new_root {
        return Err(ConsistencyError::NewRootMismatch { old, new });
    }
    Ok(())
}
