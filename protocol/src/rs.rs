//! Systematic Reed-Solomon coding of ciphertexts: any k of n shares carry one. protocol.md, section 6.
//!
//! A ciphertext of mu polynomials is cut into k blocks of ceil(mu / k), the last one padded with zeros. Per WIRE limb
//! and coefficient, the blocks are the values at 1..k of a polynomial of degree k - 1; share j is its value at j + 1.
//! So share j < k is block j itself. The code is linear: sums of shares are the shares of the sum.
//!
//! Ciphertexts and their shares are public; nothing here is constant time.

use crate::fault::{Attribution, Fault};
use crate::ids::NodeId;
use crate::lattice::Lattice;
use chipmunk::N;
use chipmunk::ring::modulus::Prime;
use chipmunk::ring::pack::{PackError, packed_len};
use rayon::prelude::*;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

/// Residue limbs of a WIRE coefficient.
const LIMBS: usize = 2;

/// Shares or bytes were refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RsError {
    /// Two shares of one lane.
    #[error("two shares of lane {lane}")]
    Duplicate {
        /// The lane.
        lane: NodeId,
    },
    /// A share of another length.
    #[error("the share of lane {lane} has {found} polynomials, a block has {expected}")]
    Length {
        /// The lane.
        lane: NodeId,
        /// Polynomials of a block.
        expected: usize,
        /// Polynomials given.
        found: usize,
    },
    /// Packed bytes are no ciphertext or share of this code.
    #[error("limb {limb} of polynomial {poly} does not parse")]
    Malformed {
        /// The first such polynomial.
        poly: usize,
        /// Its limb.
        limb: usize,
        /// What is wrong with it.
        #[source]
        source: PackError,
    },
    /// The shares lie on no polynomial of degree k - 1. If every one of them was verified against a commitment, some
    /// client committed to no codeword; which one cannot be seen from a sum.
    #[error("the {shares} shares are no codeword of degree {degree}")]
    NotACodeword {
        /// How many shares were given.
        shares: usize,
        /// The degree they should have.
        degree: u16,
    },
    /// A lane that does not exist.
    #[error("lane {lane} is out of range: there are {lanes}")]
    OutOfRange {
        /// The lane.
        lane: NodeId,
        /// Lanes of the code, n.
        lanes: u16,
    },
    /// Fewer shares than k.
    #[error("{have} shares where {need} are needed")]
    TooFew {
        /// Shares given.
        have: usize,
        /// k.
        need: u16,
    },
}

impl Fault for RsError {
    fn code(&self) -> &'static str {
        match self {
            Self::Duplicate { .. } => "rs_duplicate",
            Self::Length { .. } => "rs_length",
            Self::Malformed { .. } => "rs_malformed",
            Self::NotACodeword { .. } => "rs_not_a_codeword",
            Self::OutOfRange { .. } => "rs_out_of_range",
            Self::TooFew { .. } => "rs_too_few",
        }
    }

    fn attribution(&self) -> Attribution {
        match self {
            Self::Duplicate { .. } | Self::Length { .. } | Self::OutOfRange { .. } => Attribution::Caller,
            Self::Malformed { .. } | Self::NotACodeword { .. } | Self::TooFew { .. } => Attribution::Nobody,
        }
    }
}

/// One coded share, or a sum of shares of one lane: one block of polynomials, canonical WIRE residues. Public.
///
/// Shape: per polynomial two limbs of 2048 residues, limb-major.
#[derive(Clone, PartialEq, Eq)]
pub struct Share(Vec<u32>);

impl Share {
    /// The zero share of `polys` polynomials: the empty sum.
    pub fn zero(polys: usize) -> Self {
        Self(vec![0; polys * LIMBS * N])
    }

    /// Polynomials of the share.
    pub const fn polys(&self) -> usize {
        self.0.len() / (LIMBS * N)
    }

    /// All residues.
    pub fn words(&self) -> &[u32] {
        &self.0
    }

    /// Both limbs of each polynomial.
    pub(crate) fn limbs(&self) -> impl Iterator<Item = [&[u32]; LIMBS]> {
        self.0.chunks_exact(LIMBS * N).map(|poly| {
            let (first, second) = poly.split_at(N);
            [first, second]
        })
    }

    /// Both limbs of each polynomial, for writing.
    pub(crate) fn limbs_mut(&mut self) -> impl Iterator<Item = [&mut [u32]; LIMBS]> {
        self.0.chunks_exact_mut(LIMBS * N).map(|poly| {
            let (first, second) = poly.split_at_mut(N);
            [first, second]
        })
    }
}

impl fmt::Debug for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Share({} polynomials)", self.polys())
    }
}

/// A row of factors per limb: the value at one point as a combination of the values at k others.
type Row = [Vec<u32>; LIMBS];

/// A (k, n) code for ciphertexts of one length, with its constant factors.
#[derive(Debug)]
pub struct RsParams {
    lattice: Arc<Lattice>,
    needed: u16,
    lanes: u16,
    polys: usize,
    block: usize,
    /// How each of the n - k parity shares follows from the k blocks, when somebody first encodes.
    parity: OnceLock<Vec<Row>>,
}

impl RsParams {
    /// The code in which any `needed` of `lanes` shares carry a ciphertext of `polys` polynomials.
    ///
    /// # Panics
    /// Unless `1 <= needed <= lanes` and there is at least one polynomial: setup has refused anything else.
    pub fn new(lattice: Arc<Lattice>, needed: u16, lanes: u16, polys: usize) -> Self {
        assert!((1..=lanes).contains(&needed), "between 1 and {lanes} lanes are needed, got {needed}");
        assert!(polys > 0, "a ciphertext has polynomials");
        let block = polys.div_ceil(needed.into());
        Self { lattice, needed, lanes, polys, block, parity: OnceLock::new() }
    }

    fn parity(&self) -> &[Row] {
        self.parity.get_or_init(|| {
            let systematic: Vec<NodeId> = (0..self.needed).map(NodeId).collect();
            (self.needed..self.lanes).map(|lane| self.row(&systematic, NodeId(lane))).collect()
        })
    }

    /// Shares that suffice, k.
    pub const fn needed(&self) -> u16 {
        self.needed
    }

    /// Shares there are, n.
    pub const fn lanes(&self) -> u16 {
        self.lanes
    }

    /// Polynomials of one share: ceil(mu / k).
    pub const fn block_polys(&self) -> usize {
        self.block
    }

    /// Bytes of one packed share.
    pub fn share_len(&self) -> usize {
        self.block * self.lattice.wire_poly_len()
    }

    /// Codes a packed ciphertext into its n shares, in lane order.
    ///
    /// # Errors
    /// `Malformed` for a wrong length or a coefficient at or above its prime.
    pub fn encode(&self, ciphertext: &[u8]) -> Result<Vec<Share>, RsError> {
        self.check_len(ciphertext, self.polys)?;
        let len = self.share_len();
        let block = |lane: usize| {
            let packed =
                &ciphertext[ciphertext.len().min(lane * len)..ciphertext.len().min((lane + 1) * len)];
            let mut words = vec![0; self.block * LIMBS * N];
            match self.unpack_into(packed, &mut words) {
                Ok(()) => Ok(Share(words)),
                Err((at, source)) => {
                    let at = lane * self.block * LIMBS + at;
                    Err(RsError::Malformed { poly: at / LIMBS, limb: at % LIMBS, source })
                }
            }
        };
        let blocks: Vec<Result<Share, RsError>> =
            (0..usize::from(self.needed)).into_par_iter().map(block).collect();
        let blocks: Vec<Share> = blocks.into_iter().collect::<Result<_, _>>()?;
        let references: Vec<&Share> = blocks.iter().collect();
        let parity: Vec<Share> = self.parity().iter().map(|row| self.combine(row, &references)).collect();
        Ok(blocks.into_iter().chain(parity).collect())
    }

    /// Codes some neighbouring polynomials of every share at once: `words` gets those of the first lane, then those of
    /// the second, and so on, both limbs of each. What is done with them is done while they are in the cache.
    ///
    /// # Errors
    /// As [`encode`](Self::encode), for these polynomials only: the first of the first share that has any.
    ///
    /// # Panics
    /// If a block does not have these polynomials.
    pub(crate) fn encode_strip(
        &self,
        ciphertext: &[u8],
        polys: Range<usize>,
        words: &mut Vec<u32>,
    ) -> Result<(), RsError> {
        self.check_len(ciphertext, self.polys)?;
        assert!(polys.end <= self.block, "polynomials {polys:?} of {}", self.block);
        let strip = polys.len() * LIMBS * N;
        words.resize(usize::from(self.lanes) * strip, 0);
        let (systematic, parity) = words.split_at_mut(usize::from(self.needed) * strip);
        for (lane, words) in systematic.chunks_exact_mut(strip).enumerate() {
            let packed = self.strip(ciphertext, lane, &polys);
            let present = packed.len() / self.lattice.wire_poly_len() * LIMBS * N;
            let (words, padding) = words.split_at_mut(present);
            padding.fill(0);
            self.unpack_into(packed, words).map_err(|(at, source)| {
                let poly = lane * self.block + polys.start + at / LIMBS;
                RsError::Malformed { poly, limb: at % LIMBS, source }
            })?;
        }
        for (row, out) in self.parity().iter().zip(parity.chunks_exact_mut(strip)) {
            let blocks: Vec<&[u32]> = systematic.chunks_exact(strip).collect();
            out.chunks_exact_mut(N)
                .enumerate()
                .for_each(|(at, out)| self.combine_limb(row, &blocks, at, out));
        }
        Ok(())
    }

    /// Puts the packed form of what [`encode_strip`](Self::encode_strip) made of one lane's polynomials into `out`: cut
    /// out of the packed ciphertext where it stands there.
    pub(crate) fn pack_strip(
        &self,
        ciphertext: &[u8],
        lane: usize,
        polys: &Range<usize>,
        words: &[u32],
        out: &mut [u8],
    ) {
        if lane < usize::from(self.needed) {
            let packed = self.strip(ciphertext, lane, polys);
            let (out, padding) = out.split_at_mut(packed.len());
            out.copy_from_slice(packed);
            // Zero residues pack to zero bytes.
            padding.fill(0);
            return;
        }
        let (width, strip) = (self.lattice.wire.limb_width(), polys.len() * LIMBS * N);
        let limbs =
            words[lane * strip..][..strip].chunks_exact(N).zip(out.chunks_exact_mut(packed_len(width)));
        limbs.for_each(|(limb, out)| (self.lattice.kernels().pack)(width, limb, out));
    }

    /// Where some polynomials of a systematic share stand in the packed ciphertext, as far as they are not padding.
    fn strip<'a>(&self, ciphertext: &'a [u8], lane: usize, polys: &Range<usize>) -> &'a [u8] {
        let at = |poly| ciphertext.len().min((lane * self.block + poly) * self.lattice.wire_poly_len());
        &ciphertext[at(polys.start)..at(polys.end)]
    }

    /// The packed form of a share: its polynomials as a packed ciphertext has them.
    pub fn pack(&self, share: &Share, out: &mut Vec<u8>) {
        let width = self.lattice.wire.limb_width();
        let (start, len) = (out.len(), packed_len(width));
        out.resize(start + self.share_len(), 0);
        let limbs = share.0.chunks_exact(N).zip(out[start..].chunks_exact_mut(len));
        limbs.for_each(|(limb, out)| (self.lattice.kernels().pack)(width, limb, out));
    }

    /// Reads a packed share.
    ///
    /// # Errors
    /// `Malformed` for a wrong length or a coefficient at or above its prime.
    pub fn unpack_share(&self, bytes: &[u8]) -> Result<Share, RsError> {
        self.check_len(bytes, self.block)?;
        let mut words = vec![0; self.block * LIMBS * N];
        match self.unpack_into(bytes, &mut words) {
            Ok(()) => Ok(Share(words)),
            Err((at, source)) => Err(RsError::Malformed { poly: at / LIMBS, limb: at % LIMBS, source }),
        }
    }

    fn check_len(&self, bytes: &[u8], polys: usize) -> Result<(), RsError> {
        let poly = self.lattice.wire_poly_len();
        let (expected, found) = (polys * poly, bytes.len());
        let source = PackError::Length { expected, found };
        if found == expected {
            Ok(())
        } else {
            Err(RsError::Malformed { poly: found / poly, limb: 0, source })
        }
    }

    /// Reads packed limbs into as many of `words`; the first that does not parse is named by its number.
    fn unpack_into(&self, bytes: &[u8], words: &mut [u32]) -> Result<(), (usize, PackError)> {
        let wire = &self.lattice.wire;
        let width = wire.limb_width();
        let bad = words.chunks_exact_mut(N).zip(bytes.chunks_exact(packed_len(width))).enumerate().find_map(
            |(at, (words, bytes))| {
                let max = wire.primes()[at % LIMBS].q() - 1;
                let largest = (self.lattice.kernels().unpack)(width, bytes, words);
                (largest > max).then_some((at, PackError::OutOfRange { max }))
            },
        );
        bad.map_or(Ok(()), Err)
    }

    /// Adds a share of the same lane.
    pub fn add_assign(&self, sum: &mut Share, share: &Share) {
        self.zip(sum, share, self.lattice.kernels().add);
    }

    /// Takes a share of the same lane off again.
    pub fn sub_assign(&self, sum: &mut Share, share: &Share) {
        self.zip(sum, share, self.lattice.kernels().sub);
    }

    fn zip(&self, a: &mut Share, b: &Share, combine: fn(&Prime, &mut [u32], &[u32])) {
        debug_assert_eq!(a.0.len(), b.0.len());
        let limbs = a.0.chunks_exact_mut(N).zip(b.0.chunks_exact(N)).enumerate();
        limbs.for_each(|(at, (a, b))| combine(&self.lattice.wire.primes()[at % LIMBS], a, b));
    }

    /// The ciphertext behind at least k shares, as the limbs of its mu polynomials; every share beyond k is checked
    /// against the others. Systematic shares are preferred, so with all of them nothing is interpolated.
    ///
    /// The result does not depend on the order of the shares.
    ///
    /// # Errors
    /// `OutOfRange`, `Duplicate`, `Length` or `TooFew` for a bad selection; `NotACodeword` if more than k shares lie
    /// on no polynomial of degree k - 1. With exactly k shares that cannot be seen.
    pub fn reconstruct(&self, shares: &[(NodeId, &Share)]) -> Result<Vec<u32>, RsError> {
        let basis = self.checked_basis(shares)?;
        let mut limbs = Vec::with_capacity(usize::from(self.needed) * self.block * LIMBS * N);
        for lane in (0..self.needed).map(NodeId) {
            self.push_share(&basis, lane, &mut limbs);
        }
        limbs.truncate(self.polys * LIMBS * N);
        Ok(limbs)
    }

    /// All n shares, from at least k.
    ///
    /// # Errors
    /// As [`reconstruct`](Self::reconstruct).
    pub fn complete(&self, shares: &[(NodeId, &Share)]) -> Result<Vec<Share>, RsError> {
        let basis = self.checked_basis(shares)?;
        let share = |lane| {
            let mut words = Vec::with_capacity(self.block * LIMBS * N);
            self.push_share(&basis, NodeId(lane), &mut words);
            Share(words)
        };
        Ok((0..self.lanes).map(share).collect())
    }

    /// Whether more than k shares are consistent. With exactly k this says nothing: any k shares are a codeword's.
    ///
    /// # Errors
    /// As [`reconstruct`](Self::reconstruct).
    pub fn check_codeword(&self, shares: &[(NodeId, &Share)]) -> Result<(), RsError> {
        self.checked_basis(shares).map(|_| ())
    }

    /// The k lowest shares by lane, once the others agree with them.
    fn checked_basis<'a>(&self, shares: &[(NodeId, &'a Share)]) -> Result<Vec<(NodeId, &'a Share)>, RsError> {
        let mut shares = shares.to_vec();
        shares.sort_unstable_by_key(|(lane, _)| *lane);
        if let Some((lane, _)) = shares.last().filter(|(lane, _)| lane.0 >= self.lanes) {
            return Err(RsError::OutOfRange { lane: *lane, lanes: self.lanes });
        }
        if let Some(pair) = shares.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            return Err(RsError::Duplicate { lane: pair[0].0 });
        }
        if let Some((lane, share)) = shares.iter().find(|(_, share)| share.polys() != self.block) {
            return Err(RsError::Length { lane: *lane, expected: self.block, found: share.polys() });
        }
        let (have, needed) = (shares.len(), usize::from(self.needed));
        if have < needed {
            return Err(RsError::TooFew { have, need: self.needed });
        }
        let surplus = shares.split_off(needed);
        for (lane, share) in surplus {
            if self.interpolate(&shares, lane) != *share {
                return Err(RsError::NotACodeword { shares: have, degree: self.needed - 1 });
            }
        }
        Ok(shares)
    }

    fn push_share(&self, basis: &[(NodeId, &Share)], lane: NodeId, out: &mut Vec<u32>) {
        match basis.binary_search_by_key(&lane, |(lane, _)| *lane) {
            Ok(at) => out.extend_from_slice(&basis[at].1.0),
            Err(_) => out.extend_from_slice(&self.interpolate(basis, lane).0),
        }
    }

    /// The share of `lane` that k other shares determine.
    fn interpolate(&self, basis: &[(NodeId, &Share)], lane: NodeId) -> Share {
        let lanes: Vec<NodeId> = basis.iter().map(|(lane, _)| *lane).collect();
        let shares: Vec<&Share> = basis.iter().map(|(_, share)| *share).collect();
        self.combine(&self.row(&lanes, lane), &shares)
    }

    /// The Lagrange factors of the values at `lanes` for the value at `lane`.
    fn row(&self, lanes: &[NodeId], lane: NodeId) -> Row {
        let point = |lane: NodeId| u32::from(lane.0) + 1;
        let limb = |limb: usize| {
            let prime = &self.lattice.wire.primes()[limb];
            let factor = |at: &NodeId| {
                let (mut numerator, mut denominator) = (1, 1);
                for other in lanes.iter().filter(|other| *other != at) {
                    numerator = prime.mul(numerator, prime.sub(point(lane), point(*other)));
                    denominator = prime.mul(denominator, prime.sub(point(*at), point(*other)));
                }
                prime.mul(numerator, prime.inverse(denominator))
            };
            lanes.iter().map(factor).collect()
        };
        [limb(0), limb(1)]
    }

    /// The combination of shares by a row of factors.
    fn combine(&self, row: &Row, shares: &[&Share]) -> Share {
        let mut out = vec![0; self.block * LIMBS * N];
        let shares: Vec<&[u32]> = shares.iter().map(|share| share.words()).collect();
        let limbs = out.par_chunks_exact_mut(N).enumerate();
        limbs.for_each(|(at, out)| self.combine_limb(row, &shares, at, out));
        Share(out)
    }

    /// Limb number `at` of that.
    fn combine_limb(&self, row: &Row, shares: &[&[u32]], at: usize, out: &mut [u32]) {
        let rows = shares.iter().map(|words| &words[at * N..][..N]);
        let terms: Vec<(u32, &[u32])> = row[at % LIMBS].iter().copied().zip(rows).collect();
        out.fill(0);
        (self.lattice.kernels().combine)(&self.lattice.wire.primes()[at % LIMBS], &terms, out);
    }
}

#[cfg(test)]
mod tests;
