//! Exact arithmetic on eight integers below 2^52, by the 52-bit multiplier.
//!
//! `low(a, x, y)` and `high(a, x, y)` below are `a + (x y mod 2^52)` and `a + floor(x y / 2^52)` on the low 52 bits of
//! x and y.

#![expect(clippy::cast_possible_truncation, reason = "quotients that fit 52 bits, as asserted or commented")]

use crate::ring::rescale::Rescale;
use std::arch::x86_64::*;

const BITS: u32 = 52;
const MASK: u64 = (1 << BITS) - 1;

#[target_feature(enable = "avx512f,avx512ifma")]
#[inline]
pub(super) fn low(a: __m512i, x: __m512i, y: __m512i) -> __m512i {
    _mm512_madd52lo_epu64(a, x, y)
}

#[target_feature(enable = "avx512f,avx512ifma")]
#[inline]
pub(super) fn high(a: __m512i, x: __m512i, y: __m512i) -> __m512i {
    _mm512_madd52hi_epu64(a, x, y)
}

#[target_feature(enable = "avx512f")]
#[inline]
pub(super) fn zero() -> __m512i {
    _mm512_setzero_si512()
}

/// The same integer in every lane.
#[target_feature(enable = "avx512f")]
#[inline]
pub(super) fn splat(x: u64) -> __m512i {
    _mm512_set1_epi64(x.cast_signed())
}

/// The low 52 bits.
#[target_feature(enable = "avx512f")]
#[inline]
fn truncate(x: __m512i) -> __m512i {
    _mm512_and_si512(x, splat(MASK))
}

/// `-x mod 2^52`, for subtracting by [`low`].
const fn negative(x: u64) -> u64 {
    x.wrapping_neg() & MASK
}

/// Multiplication by a constant modulo a prime below 2^26, in Montgomery's way: with P = y W, the low 52 bits of
/// `P / q` times q have P's low 52 bits, so P less that product is a multiple of 2^52, and while P < 2^52 it is just
/// minus the product's upper half. That half is below q.
///
/// Source: Montgomery 1985, with the signed view of Seiler 2018 (eprint 2018/039).
#[derive(Clone, Copy)]
pub(super) struct Montgomery {
    q: u64,
    /// q^-1 mod 2^52.
    inverse: u64,
}

impl Montgomery {
    pub(super) fn new(q: u32) -> Self {
        let q = u64::from(q);
        // Newton: q is its own inverse modulo 8, and every step doubles the valid bits.
        let inverse = (0..5).fold(q, |x, _| x.wrapping_mul(2u64.wrapping_sub(q.wrapping_mul(x))));
        Self { q, inverse: inverse & MASK }
    }

    /// The constant of the factor `w`, in `[0, q)`: `high(0, low(0, y, c), q)` is `y w mod q`, in `[0, q)`,
    /// for all y with `y q <= 2^52`.
    pub(super) fn constant(&self, w: u32) -> u64 {
        // W = -w 2^52 mod q undoes the division by 2^52 and the sign.
        let wide = ((u128::from(w) << BITS) % u128::from(self.q)) as u64;
        ((self.q - wide) % self.q).wrapping_mul(self.inverse) & MASK
    }
}

/// Multiplication of integers below 2^34 by a constant modulo a prime below 2^26, by Shoup's companion.
#[derive(Clone, Copy)]
pub(super) struct Factor {
    w: __m512i,
    companion: __m512i,
    minus_q: __m512i,
}

impl Factor {
    /// The factor `w`, in `[0, q)`.
    #[target_feature(enable = "avx512f")]
    pub(super) fn new(w: u32, q: u32) -> Self {
        let companion = (u128::from(w) << BITS) / u128::from(q);
        Self { w: splat(w.into()), companion: splat(companion as u64), minus_q: splat(negative(q.into())) }
    }

    /// A residue of `y w` in `[0, q]`: the estimate of the quotient is short by less than y / 2^52 + 1.
    #[target_feature(enable = "avx512f,avx512ifma")]
    #[inline]
    pub(super) fn mul(&self, y: __m512i) -> __m512i {
        let product = low(zero(), y, self.w);
        truncate(low(product, high(zero(), y, self.companion), self.minus_q))
    }
}

/// [`Rescale`] on eight integers below 2^51: an estimate of the quotient that is short by at most one, corrected by the
/// exact remainder.
#[derive(Clone, Copy)]
pub(super) struct Scale {
    shift: __m512i,
    reciprocal: __m512i,
    numerator: __m512i,
    denominator: __m512i,
    minus_denominator: __m512i,
    half: __m512i,
    one: __m512i,
}

/// A rounded quotient with what `x * numerator + floor(denominator / 2)` leaves above its multiple of the denominator.
pub(super) struct Scaled {
    pub quotient: __m512i,
    pub remainder: __m512i,
}

impl Scale {
    /// For x below `2^x_bits`.
    #[target_feature(enable = "avx512f")]
    pub(super) fn new(rescale: &Rescale, x_bits: u32) -> Self {
        let (numerator, denominator) = (rescale.numerator(), rescale.denominator());
        // x moves up to 51 bits. With X = x numerator / denominator, the estimate is the floor of a number between
        // X - 1/2 and X, as x 2^shift < 2^51; the rounded quotient is the floor of X + 1/2.
        let shift = BITS - 1 - x_bits;
        let reciprocal = (u128::from(numerator) << (BITS - shift)) / u128::from(denominator);
        assert!(
            reciprocal <= MASK.into() && numerator <= MASK && denominator <= MASK >> 1,
            "52-bit constants"
        );
        Self {
            shift: splat(shift.into()),
            reciprocal: splat(reciprocal as u64),
            numerator: splat(numerator),
            denominator: splat(denominator),
            minus_denominator: splat(negative(denominator)),
            half: splat(denominator >> 1),
            // A one that the compiler does not know: else it turns masked additions into two instructions.
            one: splat(std::hint::black_box(1)),
        }
    }

    #[target_feature(enable = "avx512f,avx512ifma")]
    #[inline]
    pub(super) fn apply(&self, x: __m512i) -> Scaled {
        self.finish(x, high(zero(), _mm512_sllv_epi64(x, self.shift), self.reciprocal))
    }

    /// Like [`apply`](Self::apply) where `x_bits` is 51.
    #[target_feature(enable = "avx512f,avx512ifma")]
    #[inline]
    pub(super) fn apply_unshifted(&self, x: __m512i) -> Scaled {
        self.finish(x, high(zero(), x, self.reciprocal))
    }

    #[target_feature(enable = "avx512f,avx512ifma")]
    #[inline]
    fn finish(&self, x: __m512i, estimate: __m512i) -> Scaled {
        let dividend = low(self.half, x, self.numerator);
        // Below twice the denominator, so below 2^52: the low bits are all of it.
        let remainder = truncate(low(dividend, estimate, self.minus_denominator));
        let short = _mm512_cmpge_epu64_mask(remainder, self.denominator);
        Scaled {
            quotient: _mm512_mask_add_epi64(estimate, short, estimate, self.one),
            remainder: _mm512_mask_sub_epi64(remainder, short, remainder, self.denominator),
        }
    }
}

/// The residues of integers below 2^52 modulo a prime below 2^30, lazily.
#[derive(Clone, Copy)]
pub(super) struct Residue {
    reciprocal: __m512i,
    minus_q: __m512i,
}

impl Residue {
    #[target_feature(enable = "avx512f")]
    pub(super) fn new(q: u32) -> Self {
        let q = u64::from(q);
        Self { reciprocal: splat((1 << BITS) / q), minus_q: splat(negative(q)) }
    }

    /// In `[0, 2q)` in the low half of every lane; the high half is garbage.
    #[target_feature(enable = "avx512f,avx512ifma")]
    #[inline]
    pub(super) fn of(&self, x: __m512i) -> __m512i {
        // The estimate is short by less than x / 2^52 + 1 < 2.
        low(x, high(zero(), x, self.reciprocal), self.minus_q)
    }
}
