//! Exact arithmetic on four integers, in floating point.
//!
//! Every value is an integer below 2^53 in magnitude, which a double holds exactly. An operation either has such a
//! result, so that it does not round, or estimates a quotient k of x by d, which the exact remainder then corrects:
//! `x - k d` is an integer below 2^53 whenever k is right to within one or two, so the fused multiply-add computes it
//! exactly. No denormal, infinity or NaN occurs, so timing does not depend on the data.

#![expect(clippy::cast_precision_loss, reason = "integers below 2^53")]

use crate::ring::rescale::Rescale;
use std::arch::x86_64::*;

/// Added to a number below 2^51 in magnitude it leaves the nearest integer in the low bits; subtracted again, that
/// integer.
const ROUND: f64 = 1.5 * TWO_52;

/// Added to a number in `[0, 2^52)` it leaves that in the low bits.
const TWO_52: f64 = (1u64 << 52) as f64;

/// The same number in every lane.
#[target_feature(enable = "avx2")]
#[inline]
pub(super) fn splat(x: f64) -> __m256d {
    _mm256_set1_pd(x)
}

/// The nearest integer of `x factor`, of magnitude below 2^51.
#[target_feature(enable = "avx2,fma")]
#[inline]
fn round_product(x: __m256d, factor: __m256d) -> __m256d {
    _mm256_sub_pd(_mm256_fmadd_pd(x, factor, splat(ROUND)), splat(ROUND))
}

/// Integers in `[0, 2^52)` as doubles.
#[target_feature(enable = "avx2")]
#[inline]
pub(super) fn from_u64(x: __m256i) -> __m256d {
    let exponent = splat(TWO_52);
    _mm256_sub_pd(_mm256_or_pd(_mm256_castsi256_pd(x), exponent), exponent)
}

/// Doubles in `[0, 2^52)` as integers.
#[target_feature(enable = "avx2")]
#[inline]
pub(super) fn to_u64(x: __m256d) -> __m256i {
    let exponent = splat(TWO_52);
    _mm256_castpd_si256(_mm256_xor_pd(_mm256_add_pd(x, exponent), exponent))
}

/// `x`, and `m` more where x is negative.
#[target_feature(enable = "avx2")]
#[inline]
pub(super) fn wrap(x: __m256d, m: __m256d) -> __m256d {
    let negative = _mm256_cmp_pd::<_CMP_LT_OQ>(x, _mm256_setzero_pd());
    _mm256_add_pd(x, _mm256_and_pd(negative, m))
}

/// A modulus of at most 50 bits.
#[derive(Clone, Copy)]
pub(super) struct Divisor {
    d: __m256d,
    reciprocal: __m256d,
}

impl Divisor {
    #[target_feature(enable = "avx2")]
    #[inline]
    pub(super) fn new(d: u64) -> Self {
        Self { d: splat(d as f64), reciprocal: splat(1.0 / d as f64) }
    }

    /// The centred residue of an integer below 2^51 d; where the quotient is next to a tie, its neighbour.
    #[target_feature(enable = "avx2,fma")]
    #[inline]
    pub(super) fn residue(&self, x: __m256d) -> __m256d {
        _mm256_fnmadd_pd(round_product(x, self.reciprocal), self.d, x)
    }
}

/// [`Rescale`] on four integers below 2^51 in magnitude, with quotients below 2^50.
#[derive(Clone, Copy)]
pub(super) struct Scale {
    ratio: __m256d,
    numerator: __m256d,
    denominator: __m256d,
    /// The least and the first excluded remainder.
    low: __m256d,
    high: __m256d,
}

/// A rounded quotient with `x * numerator - quotient * denominator`.
pub(super) struct Scaled {
    pub quotient: __m256d,
    pub residual: __m256d,
}

impl Scale {
    #[target_feature(enable = "avx2")]
    #[inline]
    pub(super) fn new(rescale: &Rescale) -> Self {
        let (numerator, denominator) = (rescale.numerator(), rescale.denominator());
        Self {
            ratio: splat(numerator as f64 / denominator as f64),
            numerator: splat(numerator as f64),
            denominator: splat(denominator as f64),
            low: splat(-((denominator >> 1) as f64)),
            high: splat((denominator - (denominator >> 1)) as f64),
        }
    }

    #[target_feature(enable = "avx2,fma")]
    #[inline]
    pub(super) fn apply(&self, x: __m256d) -> Scaled {
        // The estimate is off by at most 1/2 for rounding and 1/8 for the ratio's error.
        let estimate = round_product(x, self.ratio);
        let product = _mm256_mul_pd(x, self.numerator);
        let error = _mm256_fmsub_pd(x, self.numerator, product);
        let rest = _mm256_add_pd(_mm256_fnmadd_pd(estimate, self.denominator, product), error);
        let above = _mm256_cmp_pd::<_CMP_GE_OQ>(rest, self.high);
        let below = _mm256_cmp_pd::<_CMP_LT_OQ>(rest, self.low);
        let correct =
            |x, step| _mm256_add_pd(_mm256_sub_pd(x, _mm256_and_pd(above, step)), _mm256_and_pd(below, step));
        Scaled { quotient: correct(estimate, splat(-1.0)), residual: correct(rest, self.denominator) }
    }
}
