//! The commitment to a ciphertext's n coded shares, one leaf a lane. protocol.md, section 6.
//!
//! Every WIRE coefficient of share j, lifted centred, has four balanced digits in the set's share base;
//! `leaf_j = <g, digits of share j>` in R_lane, four columns a polynomial. The commitment is the root of the
//! homomorphic tree over the n leaves. It binds and does not hide: ciphertext shares are public.
//!
//! A *fresh* opening is (share, siblings): the rest is recomputed. A *summed* opening transports the sums of the share's
//! digits and of the path digits; recomposed, the digit sums are the share sum. Short digits are what binds: a vector in
//! the kernel of the leaf hash changes a sum without changing its hash, and only the bound at the actual number of
//! clients refuses it.

mod opening;
#[cfg(test)]
mod tests;

pub use opening::{AggregatedShare, ShareLayout, SharePath, ShareSum};

use crate::cs::{OpeningError, gate};
use crate::ids::{NodeId, RootDigest};
use crate::lattice::{CrsSeed, Lattice};
use crate::rs::Share;
use chipmunk::N;
use chipmunk::digits::{DigitBase, PairDigits};
use chipmunk::hash::{HashMemory, RingHash};
use chipmunk::params::ParameterSet;
use chipmunk::ring::pack::{PackError, packed_len, short_width};
use chipmunk::ring::{Coeff, Lane, Ntt, Poly, ShortPoly, backend};
use chipmunk::tree::{Level, TreeHash, depth};
use rayon::prelude::*;
use sha2::{Digest, Sha256};
use std::sync::Arc;

/// Digit polynomials of one share polynomial.
pub(crate) const DIGITS: usize = ParameterSet::SHARE_DIGITS;

/// Bytes of the siblings that a client sends to a lane with its share, `lanes` lanes in all.
pub const fn fresh_path_packed_len(set: &ParameterSet, lanes: u16) -> usize {
    depth(lanes as usize) * packed_len(set.lane_bits)
}

/// Bytes of a lane's summed opening over `clients`, without framing: share digits and path.
pub const fn lane_post_packed_len(set: &ParameterSet, block_polys: usize, lanes: u16, clients: u32) -> usize {
    ShareLayout::new(set, block_polys, depth(lanes as usize), clients, backend::scalar()).packed_len()
}

/// A commitment to n shares: the root of the tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShareCommitment(Poly<Lane, Coeff>);

impl ShareCommitment {
    /// The root.
    pub const fn root(&self) -> &Poly<Lane, Coeff> {
        &self.0
    }

    /// The packed root: 5376 bytes under P300.
    pub fn to_bytes(&self, lattice: &Lattice) -> Vec<u8> {
        let mut out = Vec::with_capacity(lattice.lane.packed_len());
        lattice.lane.pack(&self.0, &mut out);
        out
    }

    /// Reads a packed root.
    ///
    /// # Errors
    /// For a wrong length or a coefficient at or above q_lane.
    pub fn from_bytes(lattice: &Lattice, bytes: &[u8]) -> Result<Self, PackError> {
        lattice.lane.unpack(bytes).map(Self)
    }

    /// SHA-256 of the packed root.
    pub fn digest(&self, lattice: &Lattice) -> RootDigest {
        RootDigest::from_digest(Sha256::digest(self.to_bytes(lattice)).into())
    }
}

/// The public parameters for one number of lanes and one share length.
#[derive(Debug)]
pub struct ShareCommitmentParams {
    lattice: Arc<Lattice>,
    lanes: u16,
    block: usize,
    leaf: RingHash<Lane>,
    /// The hash of ones everywhere: what digits that were increased by one each have too much of.
    ones: Poly<Lane, Coeff>,
    tree: TreeHash<Lane>,
    base: PairDigits,
}

/// A share that was walked to its root, ready to be added.
#[derive(Debug)]
pub struct VerifiedShare {
    share: Share,
    levels: Vec<Level>,
    root: Poly<Lane, Coeff>,
}

impl VerifiedShare {
    /// The share.
    pub const fn share(&self) -> &Share {
        &self.share
    }

    /// The committed root that the share belongs to.
    pub const fn root(&self) -> &Poly<Lane, Coeff> {
        &self.root
    }
}

/// Polynomials of a share that are hashed at once: few enough that their digits stay in the cache.
pub(crate) const AT_ONCE: usize = 2;

/// The labels of n shares in the making, all of them polynomial by polynomial.
///
/// What several threads took different polynomials of adds up.
#[derive(Debug)]
pub(crate) struct LabelSums<'a> {
    params: &'a ShareCommitmentParams,
    memory: HashMemory<Lane>,
    sums: Vec<Poly<Lane, Ntt>>,
}

impl LabelSums<'_> {
    /// Takes both limbs of some neighbouring polynomials of one share, limb after limb: at most [`AT_ONCE`] of them.
    pub fn take(&mut self, lane: usize, first: usize, limbs: &[u32]) {
        let polys = limbs.as_chunks::<{ 2 * N }>().0;
        let Self { params, memory, sums } = self;
        let groups = first..first + polys.len();
        params.leaf.add_groups(&params.lattice.lane, groups, memory, &mut sums[lane], |at, digits| {
            let (low, high) = polys[at - first].split_at(N);
            params.base.decompose([low, high], digits);
        });
    }

    /// Adds what was taken elsewhere.
    pub fn add(mut self, other: &Self) -> Self {
        let ring = &self.params.lattice.lane;
        self.sums.iter_mut().zip(&other.sums).for_each(|(sum, other)| ring.add_assign(sum, other));
        self
    }

    /// The labels, once all polynomials of all shares were taken.
    pub fn finish(self) -> Vec<Poly<Lane, Coeff>> {
        let bound = self.params.base.base().bound();
        self.sums.into_iter().map(|sum| self.params.label(sum, bound)).collect()
    }
}

impl ShareCommitmentParams {
    /// Expands the public parameters for `lanes` leaves and shares of `block` polynomials.
    pub fn new(lattice: Arc<Lattice>, seed: &CrsSeed, lanes: u16, block: usize) -> Self {
        let set = lattice.set;
        let leaf =
            RingHash::expand(&lattice.lane, &seed.expander("panetiere/lanes/leaf-hash/v1"), DIGITS * block);
        let tree = TreeHash::expand(
            &lattice.lane,
            &seed.expander("panetiere/lanes/tree-hash/v1"),
            DigitBase::new(set.lane_base),
        );
        let mut sum = Poly::zero();
        let mut memory = HashMemory::default();
        for poly in 0..block {
            let ones = |_, digits: [&mut [u32]; DIGITS]| digits.into_iter().for_each(|digit| digit.fill(1));
            leaf.add_groups(&lattice.lane, poly..poly + 1, &mut memory, &mut sum, ones);
        }
        let ones = lattice.lane.inverse(sum);
        Self { lanes, block, leaf, ones, tree, base: PairDigits::new(&lattice.wire, set.share_base), lattice }
    }

    /// Number of lanes, that is of leaves.
    pub const fn lanes(&self) -> u16 {
        self.lanes
    }

    /// Levels of the tree.
    pub fn depth(&self) -> usize {
        depth(self.lanes.into())
    }

    /// Bytes of the siblings of one leaf.
    pub fn path_len(&self) -> usize {
        self.depth() * self.lattice.lane.packed_len()
    }

    /// The sizes and bounds of an opening summed over `clients`.
    pub fn summed_layout(&self, clients: u32) -> ShareLayout {
        ShareLayout::new(self.lattice.set, self.block, self.depth(), clients, self.lattice.kernels())
    }

    /// Labels in the making.
    pub(crate) fn begin_labels(&self) -> LabelSums<'_> {
        let sums = (0..self.lanes).map(|_| Poly::zero()).collect();
        LabelSums { params: self, memory: HashMemory::default(), sums }
    }

    /// The hash of digits, from that of digits increased by `offset` each.
    fn label(&self, increased: Poly<Lane, Ntt>, offset: u32) -> Poly<Lane, Coeff> {
        let ring = &self.lattice.lane;
        let (mut label, mut excess) = (ring.inverse(increased), self.ones.clone());
        ring.scale_assign(&mut excess, offset);
        ring.sub_assign(&mut label, &excess);
        label
    }

    /// The label of one share.
    fn label_of(&self, share: &Share, memory: &mut HashMemory<Lane>) -> Poly<Lane, Coeff> {
        debug_assert_eq!(share.polys(), self.block);
        let mut sum = Poly::zero();
        let polys: Vec<[&[u32]; 2]> = share.limbs().collect();
        for first in (0..self.block).step_by(AT_ONCE) {
            let groups = first..self.block.min(first + AT_ONCE);
            self.leaf.add_groups(&self.lattice.lane, groups, memory, &mut sum, |at, digits| {
                self.base.decompose(polys[at], digits);
            });
        }
        self.label(sum, self.base.base().bound())
    }

    /// The labels of n shares, in lane order.
    pub(crate) fn labels(&self, shares: &[Share]) -> Vec<Poly<Lane, Coeff>> {
        shares
            .par_iter()
            .map_init(HashMemory::default, |memory, share| self.label_of(share, memory))
            .collect()
    }

    /// Commits to n shares; the paths come back in lane order.
    ///
    /// # Panics
    /// Unless there is one share of the right length a lane: both come from this crate.
    pub fn commit(&self, shares: &[Share]) -> (ShareCommitment, Vec<SharePath>) {
        assert!(shares.iter().all(|share| share.polys() == self.block), "{} polynomials a share", self.block);
        self.commit_labels(self.labels(shares))
    }

    /// The commitment over the labels of n shares, in lane order, and the paths.
    ///
    /// # Panics
    /// Unless there is one label a lane.
    pub(crate) fn commit_labels(&self, labels: Vec<Poly<Lane, Coeff>>) -> (ShareCommitment, Vec<SharePath>) {
        assert_eq!(labels.len(), usize::from(self.lanes), "one share a lane");
        let tree = self.tree.build(&self.lattice.lane, labels);
        let paths = (0..self.lanes.into()).map(|lane| SharePath::new(tree.siblings(lane))).collect();
        (ShareCommitment(tree.root().clone()), paths)
    }

    /// Checks the share of `lane` against the digest of the committed root.
    ///
    /// # Errors
    /// `Root` if it leads elsewhere.
    ///
    /// # Panics
    /// If there is no such lane or the share has another length: callers have both from their own parameters.
    pub fn verify_share(
        &self,
        lane: NodeId,
        share: Share,
        path: &SharePath,
        root: &RootDigest,
    ) -> Result<VerifiedShare, OpeningError> {
        assert!(lane.0 < self.lanes, "lane {lane} of {}", self.lanes);
        assert_eq!(share.polys(), self.block, "polynomials of a share");
        let ring = &self.lattice.lane;
        let label = self.label_of(&share, &mut HashMemory::default());
        let walk = self.tree.walk(ring, lane.0.into(), label, path.siblings());
        let reached = ShareCommitment(walk.root);
        if reached.digest(&self.lattice) != *root {
            return Err(OpeningError::Root);
        }
        Ok(VerifiedShare { share, levels: walk.levels, root: reached.0 })
    }

    /// Checks a summed opening of `lane` over `clients` commitments against the sum of their roots, and returns the sum
    /// of the shares.
    ///
    /// # Errors
    /// `Norm` for a digit beyond the bounds of `clients` fresh shares; `Path` if a path digit is; `Root` if it does not
    /// open the sum.
    ///
    /// # Panics
    /// If there is no such lane or the opening has another length: decoding has refused anything else.
    pub fn verify_aggregated(
        &self,
        lane: NodeId,
        clients: u32,
        opening: &AggregatedShare,
        root_sum: &Poly<Lane, Coeff>,
    ) -> Result<Share, OpeningError> {
        assert!(lane.0 < self.lanes, "lane {lane} of {}", self.lanes);
        let ring = &self.lattice.lane;
        let layout = self.summed_layout(clients);
        let (label, share) = match opening.packed_at(layout.digit_bound) {
            Some(packed) if self.takes(layout.digit_bound) => self.open_packed(packed, layout)?,
            _ => self.open_any(&opening.digits(), layout)?,
        };
        let leaf = (usize::from(lane.0), usize::from(self.lanes));
        let root = self
            .tree
            .walk_sum(ring, leaf, label, &opening.path, layout.path_bound)
            .map_err(OpeningError::Path)?;
        if root == *root_sum { Ok(share) } else { Err(OpeningError::Root) }
    }

    /// Whether digit sums up to `bound`, increased by it, are residues and can be put together.
    fn takes(&self, bound: u32) -> bool {
        self.lattice.lane.primes().iter().all(|prime| 2 * bound < prime.q()) && self.base.holds(bound)
    }

    /// The label of a packed sum and the share, read, gated, hashed and put together while they are in the cache: an
    /// opening is larger than that.
    fn open_packed(
        &self,
        packed: &[u8],
        layout: ShareLayout,
    ) -> Result<(Poly<Lane, Coeff>, Share), OpeningError> {
        let (bound, kernels) = (layout.digit_bound, self.lattice.kernels());
        let width = short_width(bound);
        let (mut sum, mut memory, mut share) = (Poly::zero(), HashMemory::default(), Share::zero(self.block));
        let mut limbs = share.limbs_mut();
        let mut bytes = packed.chunks_exact(packed_len(width));
        let mut largest = 0;
        for first in (0..self.block).step_by(AT_ONCE) {
            let groups = first..self.block.min(first + AT_ONCE);
            self.leaf.add_groups(&self.lattice.lane, groups, &mut memory, &mut sum, |_, mut digits| {
                for (digit, bytes) in digits.iter_mut().zip(bytes.by_ref()) {
                    largest = (kernels.unpack)(width, bytes, digit).max(largest);
                }
                let limbs = limbs.next().expect("as many polynomials as a block has");
                self.base.recompose(bound, digits.each_ref().map(|digit| &**digit), limbs);
            });
        }
        drop(limbs);
        if largest > 2 * bound {
            return Err(OpeningError::Norm { part: "share digits", norm: largest - bound, bound });
        }
        Ok((self.label(sum, bound), share))
    }

    /// The same of digits that were packed for another number of clients than asked for, or for more than a deployment
    /// may have.
    fn open_any(
        &self,
        digits: &[ShortPoly],
        layout: ShareLayout,
    ) -> Result<(Poly<Lane, Coeff>, Share), OpeningError> {
        gate("share digits", digits, layout.digit_bound)?;
        let mut share = Share::zero(self.block);
        for (digits, limbs) in digits.as_chunks::<DIGITS>().0.iter().zip(share.limbs_mut()) {
            let element = self.base.base().recompose(&self.lattice.wire, digits);
            for (limb, out) in limbs.into_iter().enumerate() {
                out.copy_from_slice(element.limb(limb));
            }
        }
        Ok((self.leaf.hash(&self.lattice.lane, digits), share))
    }
}
