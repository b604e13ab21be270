//! Openings of a share commitment: the fresh path, running sums, and the summed form that a lane publishes.

use super::{DIGITS, ShareCommitmentParams, VerifiedShare};
use crate::ids::NodeId;
use crate::rs::Share;
use crate::wire::{DecodeError, DecodeWith, Reader};
use chipmunk::N;
use chipmunk::params::ParameterSet;
use chipmunk::ring::backend::Kernels;
use chipmunk::ring::pack::{ShortPacking, check_words, packed_len, short_width};
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
#[derive(Clone, Debug)]
pub struct AggregatedShare {
    /// Largest magnitude that a packed digit may have.
    bound: u32,
    /// Share digits, least significant first within a polynomial, packed at the bound's width: a third of their size
    /// unpacked, and read but once or twice.
    digits: Vec<u8>,
    pub(super) path: Vec<[ShortPoly; PATH_POLYS_PER_LEVEL]>,
}

/// Digit by digit, whatever the width that they are packed at.
impl PartialEq for AggregatedShare {
    fn eq(&self, other: &Self) -> bool {
        let digits = match other.packed_at(self.bound) {
            Some(packed) => self.digits == packed,
            None => self.digits() == other.digits(),
        };
        digits && self.path == other.path
    }
}

impl Eq for AggregatedShare {}

impl AggregatedShare {
    /// Appends the packed opening: share digits, least significant first within a polynomial, then the path from the
    /// leaves, each at its tightest width.
    pub fn encode(&self, layout: ShareLayout, out: &mut Vec<u8>) {
        match self.packed_at(layout.digit_bound) {
            Some(packed) => out.extend_from_slice(packed),
            None => pack(layout.kernels, layout.digit_bound, &self.digits(), out),
        }
        let mut packing = ShortPacking::new(layout.kernels, layout.path_bound);
        self.path.iter().flatten().for_each(|poly| packing.pack(poly, out));
    }

    /// The share digits as they travel, if they were packed for digits up to `bound`; each may be up to its width.
    pub(super) fn packed_at(&self, bound: u32) -> Option<&[u8]> {
        (self.bound == bound).then_some(&self.digits)
    }

    /// The share digits.
    pub(super) fn digits(&self) -> Vec<ShortPoly> {
        let polys = self.digits.chunks_exact(packed_len(short_width(self.bound)));
        polys.map(|bytes| ShortPoly::unpack(bytes, self.bound).expect("packed within the bound")).collect()
    }

    /// Edits the polynomials, share digits first, for a test that needs a lie.
    #[cfg(any(test, feature = "test-util"))]
    pub fn edit<T>(&mut self, edit: impl FnOnce(Vec<&mut ShortPoly>) -> T) -> T {
        let mut digits = self.digits();
        let out = edit(digits.iter_mut().chain(self.path.iter_mut().flatten()).collect());
        self.bound = digits.iter().map(ShortPoly::norm).fold(self.bound, u32::max);
        self.digits.clear();
        pack(chipmunk::ring::backend::scalar(), self.bound, &digits, &mut self.digits);
        out
    }
}

fn pack(kernels: &'static Kernels, bound: u32, polys: &[ShortPoly], out: &mut Vec<u8>) {
    let mut packing = ShortPacking::new(kernels, bound);
    polys.iter().for_each(|poly| packing.pack(poly, out));
}

impl DecodeWith<ShareLayout> for AggregatedShare {
    fn decode_with(layout: &ShareLayout, reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let (bound, count) = (layout.digit_bound, DIGITS * layout.block);
        let len = packed_len(short_width(bound));
        let (start, mut words) = (reader.offset(), Vec::new());
        for _ in 0..count {
            reader.field(len, "share digit sum", |bytes| {
                words.resize(N, 0);
                check_words(layout.kernels, bytes, short_width(bound), 2 * bound, &mut words)
            })?;
        }
        let digits = reader.since(start).to_vec();
        let mut packing = ShortPacking::new(layout.kernels, layout.path_bound);
        let len = packing.packed_len();
        let mut path = Vec::with_capacity(layout.depth);
        for _ in 0..layout.depth {
            let poly = |_| reader.field(len, "path digit sum", |bytes| packing.unpack(bytes));
            let level: Vec<ShortPoly> = (0..PATH_POLYS_PER_LEVEL).map(poly).collect::<Result<_, _>>()?;
            path.push(level.try_into().expect("as many as asked for"));
        }
        Ok(Self { bound, digits, path })
    }
}

/// A running sum of verified shares of one lane.
#[derive(Clone, Debug)]
pub struct ShareSum {
    kernels: &'static Kernels,
    /// The bound of one share's digits. Each was increased by it, so the sums are what is packed.
    bound: u32,
    digits: Vec<u32>,
    levels: Vec<Level>,
    root: Poly<Lane, Coeff>,
    count: u32,
}

impl ShareSum {
    /// The empty sum.
    pub fn new(params: &ShareCommitmentParams) -> Self {
        Self {
            kernels: params.lattice.kernels(),
            bound: params.lattice.set.share_digit(),
            digits: vec![0; DIGITS * params.block * N],
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
        self.zip_digits(params, &share.share, u32::wrapping_add);
        self.levels.iter_mut().zip(&share.levels).for_each(|(sum, level)| sum.add_assign(level));
        params.lattice.lane.add_assign(&mut self.root, &share.root);
        self.count += 1;
    }

    /// Takes off a share that was added before.
    pub fn subtract(&mut self, params: &ShareCommitmentParams, share: &VerifiedShare) {
        self.zip_digits(params, &share.share, u32::wrapping_sub);
        self.levels.iter_mut().zip(&share.levels).for_each(|(sum, level)| sum.sub_assign(level));
        params.lattice.lane.sub_assign(&mut self.root, &share.root);
        self.count -= 1;
    }

    /// The digits of a share are a quarter of its size to compute again and four times its size to keep.
    fn zip_digits(
        &mut self,
        params: &ShareCommitmentParams,
        share: &Share,
        combine: impl Fn(u32, u32) -> u32,
    ) {
        debug_assert_eq!(share.polys(), params.block);
        let mut digits = [(); DIGITS].map(|()| vec![0; N]);
        for (limbs, sums) in share.limbs().zip(self.digits.chunks_exact_mut(DIGITS * N)) {
            params.base.decompose(limbs, digits.each_mut().map(Vec::as_mut_slice));
            for (sums, digits) in sums.chunks_exact_mut(N).zip(&digits) {
                sums.iter_mut().zip(digits).for_each(|(sum, &digit)| *sum = combine(*sum, digit));
            }
        }
    }

    /// The transported form of the sum at `lane`.
    pub fn finish(&self, lane: NodeId) -> AggregatedShare {
        let bound = self.bound * self.count.max(1);
        let (width, len) = (short_width(bound), packed_len(short_width(bound)));
        let mut digits = vec![0; self.digits.len() / N * len];
        let polys = self.digits.chunks_exact(N).zip(digits.chunks_exact_mut(len));
        polys.for_each(|(poly, out)| (self.kernels.pack)(width, poly, out));
        AggregatedShare { bound, digits, path: transport(&self.levels, lane.0.into()) }
    }
}
