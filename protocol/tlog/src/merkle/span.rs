//! Which leaves a proof's hashes cover, and the perfect subtrees that such a range of leaves is made of.

use super::{Climb, MerkleError, Step, node_hash};
use crate::MAX_SIZE;

/// A perfect subtree: the `2^height` leaves from `index << height` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Node {
    /// Levels above the leaves, below 64.
    pub height: u32,
    /// Place among the nodes of its height, from the left and from 0.
    pub index: u64,
}

/// Leaves `start..end` that hang under one hash of some tree: what a proof has at one level.
///
/// `start` is a multiple of a power of two that is no smaller than `end - start`, so the hash over the span is the
/// RFC's `MTH(D[start:end])`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// First leaf, from 0.
    pub start: u64,
    /// The leaf after the last; above `start`.
    pub end: u64,
}

impl Span {
    /// The perfect subtrees from left to right, each smaller than the one before it.
    ///
    /// At most 64, by the bits of the length.
    pub fn nodes(self) -> impl DoubleEndedIterator<Item = Node> {
        let length = self.end - self.start;
        (0..u64::BITS).rev().filter(move |height| length >> height & 1 == 1).map(move |height| {
            // The bits of the length above this one have been covered by larger subtrees further left.
            let left = length >> height & !1;
            Node { height, index: (self.start >> height) + left }
        })
    }

    /// The hash over the span, from the hashes of its [`Span::nodes`] in their order.
    ///
    /// # Panics
    /// If there is no hash.
    pub fn fold(hashes: &[[u8; 32]]) -> [u8; 32] {
        let (last, rest) = hashes.split_last().expect("a span has a leaf, so it has a node");
        rest.iter().rfold(*last, |right, left| node_hash(left, &right))
    }
}

/// The spans that the inclusion path of leaf `index` (from 0) in a tree of `size` leaves has the hashes of, in the
/// path's order.
///
/// # Errors
/// `IndexOutOfRange` unless `index < size <= MAX_SIZE`.
pub fn inclusion_spans(index: u64, size: u64) -> Result<Vec<Span>, MerkleError> {
    if index >= size || size > MAX_SIZE {
        return Err(MerkleError::IndexOutOfRange { index, size });
    }
    Ok(siblings(Node { height: 0, index }, size))
}

/// The siblings that `node` meets on its way up a tree of `size` leaves, lowest first.
pub(super) fn siblings(node: Node, size: u64) -> Vec<Span> {
    debug_assert!(size <= MAX_SIZE, "the shifts below stay within 64 bits");
    let steps = Climb::from_node(node, size).enumerate();
    steps
        .filter_map(|(level, step)| {
            let height = u64::from(node.height) + level as u64;
            let position = node.index >> level;
            let start = match step {
                Step::Alone => return None,
                Step::SiblingLeft => (position - 1) << height,
                Step::SiblingRight => (position + 1) << height,
            };
            Some(Span { start, end: size.min(start + (1 << height)) })
        })
        .collect()
}
