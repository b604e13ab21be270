//! Openings: fresh, running sums of them, and the summed form that a server publishes.

use super::{CsParams, LEAF_DIGITS, LEAF_ELEMENTS, VerifiedOpening};
use crate::wire::{DecodeError, DecodeErrorKind, DecodeWith, Reader};
use chipmunk::digits::DigitBase;
use chipmunk::params::ParameterSet;
use chipmunk::ring::pack::{PackError, packed_len, short_width};
use chipmunk::ring::{Coeff, Cs, Hvc, Poly, RingContext, ShortPoly};
use chipmunk::tree::{Level, PATH_POLYS_PER_LEVEL};
use std::fmt;
use zeroize::{Zeroize, ZeroizeOnDrop};

/// What a client tells one server: the seed of the leaf's randomness, the key share, the path. Wiped on drop.
#[derive(Zeroize, ZeroizeOnDrop)]
pub struct FreshOpening {
    seed: [u8; 32],
    share: Poly<Cs, Coeff>,
    siblings: Vec<Poly<Hvc, Coeff>>,
}

impl FreshOpening {
    pub(super) const fn new(seed: [u8; 32], share: Poly<Cs, Coeff>, siblings: Vec<Poly<Hvc, Coeff>>) -> Self {
        Self { seed, share, siblings }
    }

    pub(super) const fn seed(&self) -> &[u8; 32] {
        &self.seed
    }

    pub(super) const fn share(&self) -> &Poly<Cs, Coeff> {
        &self.share
    }

    pub(super) fn siblings(&self) -> &[Poly<Hvc, Coeff>] {
        &self.siblings
    }

    /// The opening's bytes: seed ‖ packed share ‖ packed siblings, leaves first.
    pub fn to_bytes(&self, params: &CsParams) -> zeroize::Zeroizing<Vec<u8>> {
        let mut out = zeroize::Zeroizing::new(Vec::with_capacity(params.fresh_opening_len()));
        out.extend_from_slice(&self.seed);
        params.lattice.cs().pack(&self.share, &mut out);
        self.siblings.iter().for_each(|sibling| params.lattice.hvc.pack(sibling, &mut out));
        out
    }
}

impl fmt::Debug for FreshOpening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FreshOpening(..)")
    }
}

/// Reads one packed field; whatever is wrong with it is a fault where the field starts.
fn packed<T>(
    reader: &mut Reader<'_>,
    len: usize,
    what: &'static str,
    unpack: impl FnOnce(&[u8]) -> Result<T, PackError>,
) -> Result<T, DecodeError> {
    let refused = reader.fault(what, DecodeErrorKind::OutOfRange);
    unpack(reader.take(len, what)?).map_err(|_| refused)
}

impl DecodeWith<CsParams> for FreshOpening {
    fn decode_with(params: &CsParams, reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let (cs, hvc) = (params.lattice.cs(), &params.lattice.hvc);
        let seed = reader.array("opening seed")?;
        let share = packed(reader, cs.packed_len(), "key share", |bytes| cs.unpack(bytes))?;
        let mut siblings = Vec::with_capacity(params.depth());
        for _ in 0..params.depth() {
            siblings.push(packed(reader, hvc.packed_len(), "sibling", |bytes| hvc.unpack(bytes))?);
        }
        Ok(Self { seed, share, siblings })
    }
}

/// Bounds and sizes of an opening summed over a number of clients. Both sides derive it; none of it is on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SummedLayout {
    pub(super) r_bound: u32,
    pub(super) u_bound: u32,
    pub(super) path_bound: u32,
    kappa: usize,
    depth: usize,
}

impl SummedLayout {
    /// The layout for a tree of `depth` levels and `clients` summed openings.
    pub const fn new(set: &ParameterSet, depth: usize, clients: u32) -> Self {
        Self {
            r_bound: set.beta * clients,
            u_bound: set.cs_digit() * clients,
            path_bound: set.hvc_digit() * clients,
            kappa: set.kappa,
            depth,
        }
    }

    /// Bytes of the packed opening.
    pub const fn packed_len(&self) -> usize {
        self.kappa * packed_len(short_width(self.r_bound))
            + LEAF_DIGITS * packed_len(short_width(self.u_bound))
            + self.depth * PATH_POLYS_PER_LEVEL * packed_len(short_width(self.path_bound))
    }
}

/// The sum of fresh openings of one leaf, in transported form: the server's whole answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AggregatedOpening {
    pub(super) r: Vec<ShortPoly>,
    pub(super) u: Vec<ShortPoly>,
    pub(super) path: Vec<[ShortPoly; PATH_POLYS_PER_LEVEL]>,
}

impl AggregatedOpening {
    /// The two leaf elements that the digit sums recompose to.
    pub(super) fn u_elements(
        &self,
        base: &DigitBase,
        cs: &RingContext<Cs>,
    ) -> [Poly<Cs, Coeff>; LEAF_ELEMENTS] {
        [0, 1].map(|k| base.recompose(cs, &[0, 1, 2].map(|digit| self.u[3 * k + digit].clone())))
    }

    /// Appends the packed opening: r, u, then the path from the leaves, each at its tightest width.
    pub fn encode(&self, layout: SummedLayout, out: &mut Vec<u8>) {
        let r = self.r.iter().map(|poly| (poly, layout.r_bound));
        let u = self.u.iter().map(|poly| (poly, layout.u_bound));
        let path = self.path.iter().flatten().map(|poly| (poly, layout.path_bound));
        r.chain(u).chain(path).for_each(|(poly, bound)| poly.pack(bound, out));
    }

    /// All coefficients, for a test that needs a lie.
    #[cfg(any(test, feature = "test-util"))]
    pub fn polys_mut(&mut self) -> impl Iterator<Item = &mut ShortPoly> {
        self.r.iter_mut().chain(&mut self.u).chain(self.path.iter_mut().flatten())
    }
}

impl DecodeWith<SummedLayout> for AggregatedOpening {
    fn decode_with(layout: &SummedLayout, reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let mut poly = |bound, what| {
            let len = packed_len(short_width(bound));
            packed(reader, len, what, |bytes| ShortPoly::unpack(bytes, bound))
        };
        let mut row = |count: usize, bound, what| -> Result<Vec<ShortPoly>, DecodeError> {
            (0..count).map(|_| poly(bound, what)).collect()
        };
        let r = row(layout.kappa, layout.r_bound, "randomness sum")?;
        let u = row(LEAF_DIGITS, layout.u_bound, "leaf digit sum")?;
        let mut path = Vec::with_capacity(layout.depth);
        for _ in 0..layout.depth {
            let level = row(PATH_POLYS_PER_LEVEL, layout.path_bound, "path digit sum")?;
            path.push(level.try_into().expect("as many as asked for"));
        }
        Ok(Self { r, u, path })
    }
}

/// A running sum of verified openings of one leaf. Secret until the set is closed; wiped on drop.
#[derive(Zeroize, ZeroizeOnDrop)]
pub struct OpeningSum {
    /// The leaf, once there is an opening.
    index: Option<u16>,
    r: Vec<ShortPoly>,
    u: Vec<ShortPoly>,
    levels: Vec<Level>,
    count: u32,
}

impl OpeningSum {
    /// The empty sum.
    pub fn new(params: &CsParams) -> Self {
        Self {
            index: None,
            r: vec![ShortPoly::zero(); params.lattice.set.kappa],
            u: vec![ShortPoly::zero(); LEAF_DIGITS],
            levels: vec![Level::zero(); params.depth()],
            count: 0,
        }
    }

    /// How many openings are in the sum.
    pub const fn count(&self) -> u32 {
        self.count
    }

    /// Adds an opening.
    ///
    /// # Panics
    /// If it is of another leaf than those in the sum, or of a tree of another depth.
    pub fn add(&mut self, opening: &VerifiedOpening) {
        self.assert_addable(opening);
        self.index = Some(opening.index);
        self.combine(opening, ShortPoly::add_assign, Level::add_assign);
        self.count += 1;
    }

    /// Takes off an opening that was added before.
    ///
    /// # Panics
    /// If the sum is empty, or its leaf or depth another.
    pub fn subtract(&mut self, opening: &VerifiedOpening) {
        assert!(self.count > 0, "nothing was added");
        self.assert_addable(opening);
        self.combine(opening, ShortPoly::sub_assign, Level::sub_assign);
        self.count -= 1;
    }

    /// Only openings of one leaf of one tree add up to something that opens.
    fn assert_addable(&self, opening: &VerifiedOpening) {
        assert_eq!(opening.index, self.index.unwrap_or(opening.index), "a sum is over openings of one leaf");
        assert_eq!(opening.levels.len(), self.levels.len(), "a sum is over openings of one shape");
    }

    fn combine(
        &mut self,
        opening: &VerifiedOpening,
        polys: fn(&mut ShortPoly, &ShortPoly),
        levels: fn(&mut Level, &Level),
    ) {
        self.r.iter_mut().zip(&opening.r).for_each(|(sum, r)| polys(sum, r));
        self.u.iter_mut().zip(opening.u.as_flattened()).for_each(|(sum, u)| polys(sum, u));
        self.levels.iter_mut().zip(&opening.levels).for_each(|(sum, level)| levels(sum, level));
    }

    /// The transported form of the sum of leaf `index`.
    ///
    /// # Panics
    /// If the sum is empty or of another leaf.
    pub fn finish(&self, index: u16) -> AggregatedOpening {
        assert!(self.count > 0, "an empty sum opens nothing");
        assert_eq!(self.index, Some(index), "the leaf that was summed");
        let path = self.levels.iter().enumerate().map(|(height, level)| {
            let mut sent = level.transported(index >> height & 1 == 1).cloned();
            std::array::from_fn(|_| sent.next().expect("a level transports five polynomials"))
        });
        AggregatedOpening { r: self.r.clone(), u: self.u.clone(), path: path.collect() }
    }
}

impl fmt::Debug for OpeningSum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OpeningSum({} openings)", self.count)
    }
}
