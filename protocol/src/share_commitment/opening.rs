//! Openings of a share commitment: the fresh path, running sums, and the summed form that a lane publishes.

use super::{DIGITS, ShareCommitmentParams, VerifiedShare};
use crate::ids::NodeId;
use crate::rs::Share;
use crate::wire::{DecodeError, DecodeWith, Reader};
use chipmunk::params::ParameterSet;
use chipmunk::ring::backend::Kernels;
use chipmunk::ring::pack::{ShortPacking, packed_len, short_width};
use chipmunk::ring::{Coeff, Lane, Poly, ShortPoly};
use chipmunk::tree::{Level, PATH_POLYS_PER_LEVEL, transport};

/// What a client tells a lane besides its share: one sibling a level, leaves first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharePath(Vec<Poly<Lane, Coeff>>);

impl SharePath {
    pub(super) const fn new(siblings: Vec<Poly<Lane, Coeff>>) -> Self {
        Self(siblings)
    }

    pub(super) fn siblings(&self) -> &[Poly<Lane, Coeff>] {
        &self.0
    }

    /// Appends the packed siblings.
    pub fn encode(&self, params: &ShareCommitmentParams, out: &mut Vec<u8>) {
        self.0.iter().for_each(|sibling| params.lattice.lane.pack(sibling, out));
    }
}

impl DecodeWith<ShareCommitmentParams> for SharePath {
    fn decode_with(params: &ShareCommitmentParams, reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let ring = &params.lattice.lane;
        let mut siblings = Vec::with_capacity(params.depth());
        for _ in 0..params.depth() {
            siblings.push(reader.field(ring.packed_len(), "sibling", |bytes| ring.unpack(bytes))?);
        }
        Ok(Self(siblings))
    }
}

/// Bounds and sizes of a lane's opening over a number of clients. Both sides derive it; none of it is on the wire.
#[derive(Clone, Copy, Debug)]
pub struct ShareLayout {
    kernels: &'static Kernels,
    pub(super) digit_bound: u32,
    pub(super) path_bound: u32,
    block: usize,
    depth: usize,
}

impl ShareLayout {
    /// The layout for shares of `block` polynomials, a tree of `depth` levels and `clients` summed shares, to be packed
    /// with `kernels`.
    pub const fn new(
        set: &ParameterSet,
        block: usize,
        depth: usize,
        clients: u32,
        kernels: &'static Kernels,
    ) -> Self {
        let (digit_bound, path_bound) = (set.share_digit() * clients, set.lane_digit() * clients);
        Self { kernels, digit_bound, path_bound, block, depth }
    }

    /// Bytes of the packed opening.
    pub const fn packed_len(&self) -> usize {
        DIGITS * self.block * packed_len(short_width(self.digit_bound))
            + self.depth * PATH_POLYS_PER_LEVEL * packed_len(short_width(self.path_bound))
    }
}

/// The sum of the shares of one lane, in transported form: the lane's whole answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AggregatedShare {
    pub(super) digits: Vec<ShortPoly>,
    pub(super) path: Vec<[ShortPoly; PATH_POLYS_PER_LEVEL]>,
}

impl AggregatedShare {
    /// Appends the packed opening: share digits, least significant first within a polynomial, then the path from the
    /// leaves, each at its tightest width.
    pub fn encode(&self, layout: ShareLayout, out: &mut Vec<u8>) {
        let mut packing = ShortPacking::new(layout.kernels, layout.digit_bound);
        self.digits.iter().for_each(|poly| packing.pack(poly, out));
        let mut packing = ShortPacking::new(layout.kernels, layout.path_bound);
        self.path.iter().flatten().for_each(|poly| packing.pack(poly, out));
    }

    /// All polynomials, for a test that needs a lie.
    #[cfg(any(test, feature = "test-util"))]
    pub fn polys_mut(&mut self) -> impl Iterator<Item = &mut ShortPoly> {
        self.digits.iter_mut().chain(self.path.iter_mut().flatten())
    }
}

impl DecodeWith<ShareLayout> for AggregatedShare {
    fn decode_with(layout: &ShareLayout, reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let mut row = |count: usize, bound, what| -> Result<Vec<ShortPoly>, DecodeError> {
            let mut packing = ShortPacking::new(layout.kernels, bound);
            let len = packing.packed_len();
            (0..count).map(|_| reader.field(len, what, |bytes| packing.unpack(bytes))).collect()
        };
        let digits = row(DIGITS * layout.block, layout.digit_bound, "share digit sum")?;
        let mut path = Vec::with_capacity(layout.depth);
        for _ in 0..layout.depth {
            let level = row(PATH_POLYS_PER_LEVEL, layout.path_bound, "path digit sum")?;
            path.push(level.try_into().expect("as many as asked for"));
        }
        Ok(Self { digits, path })
    }
}

/// A running sum of verified shares of one lane.
#[derive(Clone, Debug)]
pub struct ShareSum {
    digits: Vec<ShortPoly>,
    levels: Vec<Level>,
    root: Poly<Lane, Coeff>,
    count: u32,
}

impl ShareSum {
    /// The empty sum.
    pub fn new(params: &ShareCommitmentParams) -> Self {
        Self {
            digits: vec![ShortPoly::zero(); DIGITS * params.block],
            levels: vec![Level::zero(); params.depth()],
            root: Poly::zero(),
            count: 0,
        }
    }

    /// How many shares are in the sum.
    pub const fn count(&self) -> u32 {
        self.count
    }

    /// The sum of the committed roots.
    pub const fn root(&self) -> &Poly<Lane, Coeff> {
        &self.root
    }

    /// Another root sum, for a test of what a miscount leads to.
    #[cfg(test)]
    pub(crate) fn set_root(&mut self, root: Poly<Lane, Coeff>) {
        self.root = root;
    }

    /// Adds a share.
    pub fn add(&mut self, params: &ShareCommitmentParams, share: &VerifiedShare) {
        self.zip_digits(params, &share.share, ShortPoly::add_assign);
        self.levels.iter_mut().zip(&share.levels).for_each(|(sum, level)| sum.add_assign(level));
        params.lattice.lane.add_assign(&mut self.root, &share.root);
        self.count += 1;
    }

    /// Takes off a share that was added before.
    pub fn subtract(&mut self, params: &ShareCommitmentParams, share: &VerifiedShare) {
        self.zip_digits(params, &share.share, ShortPoly::sub_assign);
        self.levels.iter_mut().zip(&share.levels).for_each(|(sum, level)| sum.sub_assign(level));
        params.lattice.lane.sub_assign(&mut self.root, &share.root);
        self.count -= 1;
    }

    /// The digits of a share are a quarter of its size to compute again and four times its size to keep.
    fn zip_digits(
        &mut self,
        params: &ShareCommitmentParams,
        share: &Share,
        combine: impl Fn(&mut ShortPoly, &ShortPoly),
    ) {
        let mut sums = self.digits.iter_mut();
        params.each_digit(share, |digit| {
            combine(sums.next().expect("a verified share has as many digits as the sum"), digit);
        });
    }

    /// The transported form of the sum at `lane`.
    pub fn finish(&self, lane: NodeId) -> AggregatedShare {
        AggregatedShare { digits: self.digits.clone(), path: transport(&self.levels, lane.0.into()) }
    }
}
