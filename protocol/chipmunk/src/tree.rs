//! The homomorphic Merkle tree over ring elements.
//!
//! `node = <h_L, digits(left)> + <h_R, digits(right)>`, labels padded with zero elements to a power of two. The sum of
//! trees is no tree of sums, because digits do not add; but the *digit sums* of a path satisfy the same linear
//! equations as a path does, with larger digits. That is what a summed opening transports.

use crate::digits::{DIGITS, DigitBase};
use crate::hash::{HashMemory, RingHash};
use crate::ring::expand::Expander;
use crate::ring::{Coeff, NttRing, Poly, RingContext, ShortPoly};
use zeroize::Zeroize;

/// Short polynomials that a summed path keeps per level: both children's digits, less the on-path child's last.
pub const PATH_POLYS_PER_LEVEL: usize = 2 * DIGITS - 1;

/// A path did not lead to the root. Who is at fault depends on who sent it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PathError {
    /// A digit is larger than the roster allows.
    #[error("level {level}: a path digit of magnitude {norm}, at most {bound} is allowed")]
    Norm {
        /// Level, counted from the leaves.
        level: usize,
        /// Largest magnitude found.
        norm: u32,
        /// Largest magnitude allowed.
        bound: u32,
    },
    /// The path has the wrong number of levels.
    #[error("a path of {found} levels where the tree has {expected}")]
    Shape {
        /// Levels of the tree.
        expected: usize,
        /// Levels of the path.
        found: usize,
    },
}

/// The digits of both children of one node on a path.
#[derive(Clone, Debug, Zeroize)]
pub struct Level {
    /// Digits of the left child, least significant first.
    pub left: [ShortPoly; DIGITS],
    /// Digits of the right child.
    pub right: [ShortPoly; DIGITS],
}

impl Level {
    /// All digits zero.
    pub fn zero() -> Self {
        let zero = || std::array::from_fn(|_| ShortPoly::zero());
        Self { left: zero(), right: zero() }
    }

    /// Adds digit-wise.
    pub fn add_assign(&mut self, other: &Self) {
        self.zip(other, ShortPoly::add_assign);
    }

    /// Subtracts digit-wise.
    pub fn sub_assign(&mut self, other: &Self) {
        self.zip(other, ShortPoly::sub_assign);
    }

    fn zip(&mut self, other: &Self, combine: impl Fn(&mut ShortPoly, &ShortPoly)) {
        let mine = self.left.iter_mut().chain(&mut self.right);
        mine.zip(other.left.iter().chain(&other.right)).for_each(|(a, b)| combine(a, b));
    }

    /// The digits that travel: left then right, without the last digit of the child on the path.
    pub fn transported(&self, on_path_is_right: bool) -> impl Iterator<Item = &ShortPoly> {
        let dropped = if on_path_is_right { 2 * DIGITS - 1 } else { DIGITS - 1 };
        self.left
            .iter()
            .chain(&self.right)
            .enumerate()
            .filter(move |(i, _)| *i != dropped)
            .map(|(_, poly)| poly)
    }
}

/// The transported form of the summed digits along the path of leaf `index`, leaves first.
pub fn transport(levels: &[Level], index: usize) -> Vec<[ShortPoly; PATH_POLYS_PER_LEVEL]> {
    let sent = |(height, level): (usize, &Level)| {
        let mut sent = level.transported(index >> height & 1 == 1).cloned();
        std::array::from_fn(|_| sent.next().expect("a level transports five polynomials"))
    };
    levels.iter().enumerate().map(sent).collect()
}

/// The hash of a tree: public parameters, ring, digit base.
#[derive(Debug)]
pub struct TreeHash<R: NttRing> {
    row: RingHash<R>,
    base: DigitBase,
}

/// All labels of one tree, leaves first.
#[derive(Debug)]
pub struct Tree<R: NttRing> {
    levels: Vec<Vec<Poly<R, Coeff>>>,
}

/// What a fresh path leads to.
#[derive(Debug)]
pub struct Walk<R: NttRing> {
    /// The root the path leads to.
    pub root: Poly<R, Coeff>,
    /// The digits of every level, leaves first.
    pub levels: Vec<Level>,
}

/// Levels of a tree over `leaves` labels: ceil(log2(leaves)).
pub const fn depth(leaves: usize) -> usize {
    leaves.next_power_of_two().trailing_zeros() as usize
}

impl<R: NttRing> TreeHash<R> {
    /// Expands the six columns of the node hash.
    pub fn expand(ring: &RingContext<R>, expander: &Expander, base: DigitBase) -> Self {
        Self { row: RingHash::expand(ring, expander, 2 * DIGITS), base }
    }

    /// The digit base of the tree.
    pub const fn base(&self) -> &DigitBase {
        &self.base
    }

    /// The node over two children, whose digits go to `level`.
    fn node(
        &self,
        ring: &RingContext<R>,
        [left, right]: [&Poly<R, Coeff>; 2],
        level: &mut Level,
        memory: &mut HashMemory<R>,
    ) -> Poly<R, Coeff> {
        self.base.decompose_into(ring, left, &mut level.left);
        self.base.decompose_into(ring, right, &mut level.right);
        self.row.hash_in(ring, level.left.iter().chain(&level.right), memory)
    }

    /// The tree over these labels, at least one.
    ///
    /// # Panics
    /// Without labels.
    pub fn build(&self, ring: &RingContext<R>, mut labels: Vec<Poly<R, Coeff>>) -> Tree<R> {
        assert!(!labels.is_empty(), "a tree has at least one leaf");
        labels.resize_with(labels.len().next_power_of_two(), Poly::zero);
        let mut levels = vec![labels];
        let (mut digits, mut memory) = (Level::zero(), HashMemory::default());
        while let Some(last) = levels.last().filter(|last| last.len() > 1) {
            let pairs = last.chunks_exact(2).map(|pair| [&pair[0], &pair[1]]);
            let parents = pairs.map(|pair| self.node(ring, pair, &mut digits, &mut memory)).collect();
            levels.push(parents);
        }
        Tree { levels }
    }

    /// Walks from leaf `index` with this label past one sibling per level to the root.
    pub fn walk(
        &self,
        ring: &RingContext<R>,
        index: usize,
        label: Poly<R, Coeff>,
        siblings: &[Poly<R, Coeff>],
    ) -> Walk<R> {
        let mut levels = Vec::new();
        let root = self.walk_in(ring, (index, label), siblings, &mut levels, &mut HashMemory::default());
        Walk { root, levels }
    }

    /// [`walk`](Self::walk) to the root in memory that the caller keeps; the digits go to `levels`, one a sibling.
    pub fn walk_in(
        &self,
        ring: &RingContext<R>,
        (index, label): (usize, Poly<R, Coeff>),
        siblings: &[Poly<R, Coeff>],
        levels: &mut Vec<Level>,
        memory: &mut HashMemory<R>,
    ) -> Poly<R, Coeff> {
        levels.resize_with(siblings.len(), Level::zero);
        let mut node = label;
        for ((height, sibling), level) in siblings.iter().enumerate().zip(levels) {
            let children = if index >> height & 1 == 1 { [sibling, &node] } else { [&node, sibling] };
            node = self.node(ring, children, level, memory);
        }
        node
    }

    /// Walks from the sum of the labels at `index` along summed digits to the sum of the roots.
    ///
    /// `path` holds, per level and leaves first, the [`PATH_POLYS_PER_LEVEL`] polynomials of
    /// [`Level::transported`]; the missing digit is recovered from the label below it.
    ///
    /// # Errors
    /// `Shape` unless there is one entry a level; `Norm` if any digit, sent or recovered, exceeds `bound`.
    pub fn walk_sum(
        &self,
        ring: &RingContext<R>,
        (index, leaves): (usize, usize),
        label_sum: Poly<R, Coeff>,
        path: &[[ShortPoly; PATH_POLYS_PER_LEVEL]],
        bound: u32,
    ) -> Result<Poly<R, Coeff>, PathError> {
        if path.len() != depth(leaves) {
            return Err(PathError::Shape { expected: depth(leaves), found: path.len() });
        }
        let most = ring.primes().iter().map(|prime| prime.q() - 1).fold(u32::MAX >> 2, u32::min);
        let mut node = label_sum;
        for (height, sent) in path.iter().enumerate() {
            let right = index >> height & 1 == 1;
            let refused = |norm| PathError::Norm { level: height, norm, bound };
            // Nothing is recovered from digits that are no residues.
            if !sent.iter().all(|digit| digit.is_within(bound.min(most))) {
                return Err(refused(sent.iter().map(ShortPoly::norm).fold(0, u32::max)));
            }
            let [a, b, c, d, e] = sent;
            let (first, second) = if right { (d, e) } else { (a, b) };
            let last = self.base.last_digit(ring, &node, first, second);
            let level: [&ShortPoly; 2 * DIGITS] =
                if right { [a, b, c, d, e, &last] } else { [a, b, &last, c, d, e] };
            if !last.is_within(bound) {
                return Err(refused(last.norm()));
            }
            node = self.row.hash(ring, level);
        }
        Ok(node)
    }
}

impl<R: NttRing> Tree<R> {
    /// The root.
    pub fn root(&self) -> &Poly<R, Coeff> {
        &self.levels[self.levels.len() - 1][0]
    }

    /// The sibling of every node on the way from leaf `index` to the root, leaves first.
    pub fn siblings(&self, index: usize) -> Vec<Poly<R, Coeff>> {
        let below_root = &self.levels[..self.levels.len() - 1];
        below_root.iter().enumerate().map(|(height, labels)| labels[index >> height ^ 1].clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::N;
    use crate::params::P300;
    use crate::ring::{Hvc, backend, sample};

    fn setup() -> (RingContext<Hvc>, TreeHash<Hvc>) {
        let ring = RingContext::<Hvc>::new(&[P300.hvc], backend::under_test());
        let tree = TreeHash::expand(&ring, &Expander::new(&[1; 32], b"tree"), DigitBase::new(P300.hvc_base));
        (ring, tree)
    }

    fn labels(ring: &RingContext<Hvc>, seed: u8, count: u32) -> Vec<Poly<Hvc, Coeff>> {
        let expander = Expander::new(&[seed; 32], b"labels");
        (0..count).map(|index| sample::uniform_coeff(ring, &expander, index)).collect()
    }

    #[test]
    fn every_leaf_walks_to_the_root_and_no_other_does() {
        let (ring, hash) = setup();
        for count in [1u32, 2, 3, 5, 8] {
            let leaves = labels(&ring, 2, count);
            let tree = hash.build(&ring, leaves.clone());
            for (index, label) in leaves.iter().enumerate() {
                let siblings = tree.siblings(index);
                assert_eq!(siblings.len(), depth(leaves.len()));
                assert_eq!(&hash.walk(&ring, index, label.clone(), &siblings).root, tree.root());
                if count > 1 {
                    assert_ne!(&hash.walk(&ring, index ^ 1, label.clone(), &siblings).root, tree.root());
                    assert_ne!(&hash.walk(&ring, index, Poly::zero(), &siblings).root, tree.root());
                }
            }
        }
    }

    #[test]
    fn summed_paths_walk_to_the_sum_of_the_roots() {
        let (ring, hash) = setup();
        let (count, clients) = (5usize, 4u8);
        for index in 0..count {
            let mut root_sum = Poly::zero();
            let mut label_sum = Poly::zero();
            let mut levels = vec![Level::zero(); depth(count)];
            for client in 0..clients {
                let leaves = labels(&ring, 10 + client, 5);
                let tree = hash.build(&ring, leaves.clone());
                ring.add_assign(&mut root_sum, tree.root());
                ring.add_assign(&mut label_sum, &leaves[index]);
                let walk = hash.walk(&ring, index, leaves[index].clone(), &tree.siblings(index));
                levels.iter_mut().zip(&walk.levels).for_each(|(sum, level)| sum.add_assign(level));
            }
            let path = transport(&levels, index);
            let bound = P300.hvc_base / 2 * u32::from(clients);
            let walked = hash.walk_sum(&ring, (index, count), label_sum.clone(), &path, bound);
            assert_eq!(walked, Ok(root_sum.clone()));

            // One digit off by one, and one digit shifted by q: a different root, and a refused norm.
            for (shift, at) in [(1, 0), (i32::try_from(P300.hvc).unwrap(), 3)] {
                let mut bad = path.clone();
                bad[1][at].coefficients_mut()[N - 1] += shift;
                let walked = hash.walk_sum(&ring, (index, count), label_sum.clone(), &bad, bound);
                assert_ne!(walked, Ok(root_sum.clone()));
            }
            let short = hash.walk_sum(&ring, (index, count), label_sum.clone(), &path[1..], bound);
            assert_eq!(short, Err(PathError::Shape { expected: 3, found: 2 }));
        }
    }
}
