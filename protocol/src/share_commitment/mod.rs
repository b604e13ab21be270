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
use chipmunk::digits::{DigitBase, PairDigits};
use chipmunk::hash::{HashMemory, Hashing, RingHash};
use chipmunk::params::ParameterSet;
use chipmunk::ring::pack::{PackError, packed_len};
use chipmunk::ring::{Coeff, Lane, Poly, ShortPoly, backend};
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

/// Memory for one label after another.
#[derive(Debug)]
pub(crate) struct LabelMemory {
    hash: HashMemory<Lane>,
    digits: [ShortPoly; DIGITS],
}

impl Default for LabelMemory {
    fn default() -> Self {
        Self { hash: HashMemory::default(), digits: std::array::from_fn(|_| ShortPoly::zero()) }
    }
}

/// The label of a share in the making.
#[derive(Debug)]
pub(crate) struct LabelHashing<'a> {
    base: &'a PairDigits,
    hashing: Hashing<'a, Lane>,
    digits: &'a mut [ShortPoly; DIGITS],
}

impl LabelHashing<'_> {
    /// Takes both limbs of the next polynomial.
    pub fn poly(&mut self, limbs: [&[u32]; 2]) {
        self.base.decompose_into(limbs, self.digits);
        self.digits.iter().for_each(|digit| self.hashing.column(digit));
    }

    /// The label, when all polynomials of the share were taken.
    pub fn finish(self) -> Poly<Lane, Coeff> {
        self.hashing.finish()
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
        Self { lanes, block, leaf, tree, base: PairDigits::new(&lattice.wire, set.share_base), lattice }
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

    /// The label of a share whose polynomials come one after another.
    pub(crate) fn begin_label<'a>(&'a self, memory: &'a mut LabelMemory) -> LabelHashing<'a> {
        let LabelMemory { hash, digits } = memory;
        LabelHashing { base: &self.base, hashing: self.leaf.begin(&self.lattice.lane, hash), digits }
    }

    /// Hands over the digits of a share in turn, four a polynomial.
    fn each_digit(&self, share: &Share, mut take: impl FnMut(&ShortPoly)) {
        debug_assert_eq!(share.polys(), self.block);
        let mut digits = std::array::from_fn(|_| ShortPoly::zero());
        for limbs in share.limbs() {
            self.base.decompose_into(limbs, &mut digits);
            digits.iter().for_each(&mut take);
        }
    }

    fn label(&self, share: &Share, memory: &mut LabelMemory) -> Poly<Lane, Coeff> {
        debug_assert_eq!(share.polys(), self.block);
        let mut label = self.begin_label(memory);
        share.limbs().for_each(|limbs| label.poly(limbs));
        label.finish()
    }

    /// The labels of n shares, in lane order.
    pub(crate) fn labels(&self, shares: &[Share]) -> Vec<Poly<Lane, Coeff>> {
        shares.par_iter().map_init(LabelMemory::default, |memory, share| self.label(share, memory)).collect()
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
        let label = self.label(&share, &mut LabelMemory::default());
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
        // Gated, hashed and put together while they are in the cache: an opening is larger than that.
        let mut memory = HashMemory::default();
        let mut hashing = self.leaf.begin(ring, &mut memory);
        let mut share = Share::zero(self.block);
        for (digits, poly) in opening.digits.as_chunks::<DIGITS>().0.iter().zip(share.limbs_mut()) {
            // The norm that is told is that of the whole opening.
            gate("share digits", digits, layout.digit_bound)
                .or_else(|_| gate("share digits", &opening.digits, layout.digit_bound))?;
            digits.iter().for_each(|digit| hashing.column(digit));
            for (limb, prime) in poly.into_iter().zip(self.lattice.wire.primes()) {
                self.base.base().recompose_limb(prime, self.lattice.kernels(), digits, limb);
            }
        }
        let label = hashing.finish();
        let leaf = (usize::from(lane.0), usize::from(self.lanes));
        let root = self
            .tree
            .walk_sum(ring, leaf, label, &opening.path, layout.path_bound)
            .map_err(OpeningError::Path)?;
        if root == *root_sum { Ok(share) } else { Err(OpeningError::Root) }
    }
}
