//! Fixed-width bit packing: little-endian bit stream, least significant bit first, one encoding per value.
//!
//! 2048 values of any width fill whole bytes, so every polynomial starts and ends on a byte.

use super::{Coeff, Poly, Ring, RingContext, ShortPoly, backend};
use crate::N;

/// Packed bytes were not the encoding of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PackError {
    /// The number of bytes is not the one the width gives.
    #[error("{found} packed bytes where {expected} are needed")]
    Length {
        /// Bytes the value takes.
        expected: usize,
        /// Bytes given.
        found: usize,
    },
    /// A field holds a value outside its range.
    #[error("a packed coefficient is out of range: at most {max} is allowed")]
    OutOfRange {
        /// Largest allowed field value.
        max: u32,
    },
}

/// Bytes of 2048 values of `width` bits.
pub const fn packed_len(width: u32) -> usize {
    N * width as usize / 8
}

/// Bits that hold `0..=2*bound`: the width of a coefficient in `[-bound, bound]`.
pub const fn short_width(bound: u32) -> u32 {
    u32::BITS - (2 * bound).leading_zeros()
}

/// Appends 2048 values, each below `2^width`, `width` at most 32.
pub fn pack_words(words: &[u32], width: u32, out: &mut Vec<u8>) {
    let start = out.len();
    out.resize(start + packed_len(width), 0);
    (backend::scalar().pack)(width, words, &mut out[start..]);
}

/// Reads 2048 values of `width` bits, `width` at most 32, each at most `max`.
///
/// # Errors
/// `Length` unless exactly [`packed_len`] bytes are given; `OutOfRange` if any value is above `max`.
pub fn unpack_words(bytes: &[u8], width: u32, max: u32, out: &mut [u32]) -> Result<(), PackError> {
    unpack_with(backend::scalar().unpack, bytes, width, max, out)
}

/// Whether `bytes` hold 2048 values of `width` bits, each at most `max`; they are put into `scratch` on the way.
///
/// # Errors
/// As [`unpack_words`].
pub fn check_words(
    kernels: &backend::Kernels,
    bytes: &[u8],
    width: u32,
    max: u32,
    scratch: &mut [u32],
) -> Result<(), PackError> {
    unpack_with(kernels.unpack, bytes, width, max, scratch)
}

fn unpack_with(
    kernel: fn(u32, &[u8], &mut [u32]) -> u32,
    bytes: &[u8],
    width: u32,
    max: u32,
    out: &mut [u32],
) -> Result<(), PackError> {
    if bytes.len() != packed_len(width) {
        return Err(PackError::Length { expected: packed_len(width), found: bytes.len() });
    }
    if kernel(width, bytes, out) <= max { Ok(()) } else { Err(PackError::OutOfRange { max }) }
}

impl<R: Ring> RingContext<R> {
    /// Bits of one residue: enough for the largest prime of the ring.
    pub fn limb_width(&self) -> u32 {
        self.primes().iter().map(|prime| u32::BITS - (prime.q() - 1).leading_zeros()).max().unwrap_or(0)
    }

    /// Bytes of one packed element: every limb at [`limb_width`](Self::limb_width), limb-major.
    pub fn packed_len(&self) -> usize {
        R::LIMBS * packed_len(self.limb_width())
    }

    /// Appends the packed element.
    pub fn pack(&self, poly: &Poly<R, Coeff>, out: &mut Vec<u8>) {
        let start = out.len();
        out.resize(start + self.packed_len(), 0);
        self.pack_into(poly, &mut out[start..]);
    }

    /// Puts the packed element into `out`.
    ///
    /// # Panics
    /// Unless `out` is [`packed_len`](Self::packed_len) bytes long.
    pub fn pack_into(&self, poly: &Poly<R, Coeff>, out: &mut [u8]) {
        assert_eq!(out.len(), self.packed_len(), "room for one element of {}", R::NAME);
        let width = self.limb_width();
        for (limb, out) in out.chunks_exact_mut(packed_len(width)).enumerate() {
            (self.kernels().pack)(width, poly.limb(limb), out);
        }
    }

    /// Reads a packed element.
    ///
    /// # Errors
    /// `Length` for a wrong number of bytes; `OutOfRange` for a residue at or above its prime.
    pub fn unpack(&self, bytes: &[u8]) -> Result<Poly<R, Coeff>, PackError> {
        if bytes.len() != self.packed_len() {
            return Err(PackError::Length { expected: self.packed_len(), found: bytes.len() });
        }
        let mut poly = Poly::zero();
        let width = self.limb_width();
        for (limb, (prime, bytes)) in
            self.primes().iter().zip(bytes.chunks_exact(packed_len(width))).enumerate()
        {
            unpack_with(self.kernels().unpack, bytes, width, prime.q() - 1, poly.limb_mut(limb))?;
        }
        Ok(poly)
    }

    /// Adds the residues of one packed limb to 2048 sums, modulo 2^32.
    ///
    /// # Errors
    /// `Length` for a wrong number of bytes, and nothing is added; `OutOfRange` for a residue at or above the prime,
    /// after all were added: [`sub_packed_limb`](Self::sub_packed_limb) with the same bytes restores the sums.
    pub fn add_packed_limb(&self, limb: usize, bytes: &[u8], sums: &mut [u32]) -> Result<(), PackError> {
        unpack_with(self.kernels().add_packed, bytes, self.limb_width(), self.primes()[limb].q() - 1, sums)
    }

    /// Subtracts the residues of one packed limb from 2048 sums, modulo 2^32.
    ///
    /// # Errors
    /// As [`add_packed_limb`](Self::add_packed_limb), with subtraction for addition.
    pub fn sub_packed_limb(&self, limb: usize, bytes: &[u8], sums: &mut [u32]) -> Result<(), PackError> {
        unpack_with(self.kernels().sub_packed, bytes, self.limb_width(), self.primes()[limb].q() - 1, sums)
    }
}

impl ShortPoly {
    /// Appends the coefficients, offset by `bound`, at [`short_width`]`(bound)` bits. All are in `[-bound, bound]`.
    pub fn pack(&self, bound: u32, out: &mut Vec<u8>) {
        ShortPacking::new(backend::scalar(), bound).pack(self, out);
    }

    /// Reads coefficients in `[-bound, bound]`.
    ///
    /// # Errors
    /// `Length` for a wrong number of bytes; `OutOfRange` for a coefficient beyond the bound.
    pub fn unpack(bytes: &[u8], bound: u32) -> Result<Self, PackError> {
        ShortPacking::new(backend::scalar(), bound).unpack(bytes)
    }
}

/// Packs and reads many short polynomials of one bound.
#[derive(Debug)]
pub struct ShortPacking {
    kernels: &'static backend::Kernels,
    bound: u32,
    /// The polynomial at hand, offset; allocated for the first and wiped once for all of them.
    words: zeroize::Zeroizing<Vec<u32>>,
}

impl ShortPacking {
    /// For coefficients in `[-bound, bound]`, with these kernels.
    pub fn new(kernels: &'static backend::Kernels, bound: u32) -> Self {
        Self { kernels, bound, words: zeroize::Zeroizing::default() }
    }

    /// Bytes of one polynomial.
    pub const fn packed_len(&self) -> usize {
        packed_len(short_width(self.bound))
    }

    /// As [`ShortPoly::pack`].
    pub fn pack(&mut self, poly: &ShortPoly, out: &mut Vec<u8>) {
        debug_assert!(poly.norm() <= self.bound);
        self.words.resize(N, 0);
        for (word, &c) in self.words.iter_mut().zip(poly.coefficients()) {
            *word = self.bound.wrapping_add_signed(c);
        }
        let start = out.len();
        out.resize(start + self.packed_len(), 0);
        (self.kernels.pack)(short_width(self.bound), &self.words, &mut out[start..]);
    }

    /// As [`ShortPoly::unpack`].
    ///
    /// # Errors
    /// `Length` for a wrong number of bytes; `OutOfRange` for a coefficient beyond the bound.
    pub fn unpack(&mut self, bytes: &[u8]) -> Result<ShortPoly, PackError> {
        let (width, max) = (short_width(self.bound), 2 * self.bound);
        self.words.resize(N, 0);
        unpack_with(self.kernels.unpack, bytes, width, max, &mut self.words)?;
        let mut poly = ShortPoly::zero();
        for (out, &word) in poly.coefficients_mut().iter_mut().zip(self.words.iter()) {
            *out = word.cast_signed().wrapping_sub_unsigned(self.bound);
        }
        Ok(poly)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Cs, Hvc, Wire};
    use super::*;
    use crate::params::{P300, P1000, ParameterSet};
    use proptest::prelude::*;

    #[test]
    fn packed_sizes_are_those_of_the_protocol_page() {
        let len = |set: &ParameterSet| {
            (
                RingContext::<Hvc>::new(&[set.hvc], backend::under_test()).packed_len(),
                RingContext::<Cs>::new(&[set.cs], backend::under_test()).packed_len(),
                RingContext::<Wire>::new(&set.wire, backend::under_test()).packed_len(),
            )
        };
        assert_eq!(len(&P300), (4352, 4608, 10_752));
        assert_eq!(len(&P1000), (4864, 5120, 11_264));
    }

    /// The definition of the format, bit by bit.
    fn naive_pack(values: &[u32], width: u32) -> Vec<u8> {
        let mut bits = Vec::new();
        for &value in values {
            bits.extend((0..width).map(|bit| value >> bit & 1));
        }
        bits.chunks(8)
            .map(|byte| byte.iter().rev().fold(0, |acc, &bit| acc << 1 | u8::try_from(bit).unwrap()))
            .collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]
        #[test]
        fn packing_is_the_bit_stream_and_inverts(width in 1u32..=32, seed in any::<u64>()) {
            let mut state = seed;
            let values: Vec<u32> = (0..N).map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                u32::try_from(state >> 32).unwrap() >> (32 - width)
            }).collect();
            let mut bytes = Vec::new();
            pack_words(&values, width, &mut bytes);
            prop_assert_eq!(&bytes, &naive_pack(&values, width));
            let mut back = vec![0; N];
            let max = u32::MAX >> (32 - width);
            prop_assert_eq!(unpack_words(&bytes, width, max, &mut back), Ok(()));
            prop_assert_eq!(&back, &values);
            let largest = *values.iter().max().unwrap();
            if largest > 0 {
                let refused = unpack_words(&bytes, width, largest - 1, &mut back);
                prop_assert_eq!(refused, Err(PackError::OutOfRange { max: largest - 1 }));
            }
            bytes.push(0);
            prop_assert!(unpack_words(&bytes, width, max, &mut back).is_err());
        }

        #[test]
        fn short_polys_round_trip_within_their_bound(bound in 1u32..40_000, at in 0usize..N) {
            let mut poly = ShortPoly::zero();
            let signed = i32::try_from(bound).unwrap();
            poly.coefficients_mut()[at] = -signed;
            poly.coefficients_mut()[(at + 1) % N] = signed;
            let mut bytes = Vec::new();
            poly.pack(bound, &mut bytes);
            prop_assert_eq!(bytes.len(), packed_len(short_width(bound)));
            prop_assert_eq!(ShortPoly::unpack(&bytes, bound), Ok(poly));
        }
    }

    #[test]
    fn residues_at_the_prime_are_refused() {
        let ring = RingContext::<Hvc>::new(&[P300.hvc], backend::under_test());
        let mut words = vec![P300.hvc - 1; N];
        let mut bytes = Vec::new();
        pack_words(&words, 17, &mut bytes);
        assert!(ring.unpack(&bytes).is_ok());
        words[1000] = P300.hvc;
        bytes.clear();
        pack_words(&words, 17, &mut bytes);
        assert_eq!(ring.unpack(&bytes), Err(PackError::OutOfRange { max: P300.hvc - 1 }));
    }
}
