//! The payload layer's field on AVX2: 4 words a register.
//!
//! Native words are doubles that hold integers, balanced around 0. A product of two is exact as a pair of doubles, by
//! fused multiplication; so is what remains after subtracting the nearest multiple of p.
//!
//! What the encoder needs stays with integers.

mod products;

use super::mem::{load_u64, store_u64};
use crate::ring::backend::field::scalar::multiply_canonical;
use crate::ring::backend::field::{Factor, PRIME as P, field_kernels, field_transform};
use std::arch::x86_64::*;

field_kernels!();

const LANES: usize = 4;

/// p and its inverse as doubles; p is exact.
const FLOAT_P: f64 = 34_380_709_889.0;
const FLOAT_P_INVERSE: f64 = 1.0 / FLOAT_P;

/// 2^52: the bits of this plus an integer in `[0, 2^52)` are those of this plus, as integers, the integer.
const SHIFT: f64 = 4_503_599_627_370_496.0;

/// The nearest integer.
#[target_feature(enable = "avx2,fma")]
#[inline]
fn round(x: __m256d) -> __m256d {
    _mm256_round_pd::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(x)
}

/// `x` minus the multiple of p next to it, given the quotient up to rounding.
#[target_feature(enable = "avx2,fma")]
#[inline]
fn minus_multiple(x: __m256d, quotient: __m256d) -> __m256d {
    _mm256_fnmadd_pd(round(quotient), _mm256_set1_pd(FLOAT_P), x)
}

/// `xy` modulo p, of magnitude below 0.57 p, given the quotient `xy / p` up to rounding. Range: `|xy| < 2^83`.
///
/// The quotient is below 2^48 and thus off by less than 2^-4 before it is rounded. The high part of the product, less
/// the multiple of p, is an integer below 2^36, and the low part one below 2^30.
#[target_feature(enable = "avx2,fma")]
#[inline]
fn reduced(x: __m256d, y: __m256d, quotient: impl FnOnce(__m256d) -> __m256d) -> __m256d {
    let high = _mm256_mul_pd(x, y);
    let low = _mm256_fmsub_pd(x, y, high);
    _mm256_add_pd(minus_multiple(high, quotient(high)), low)
}

#[target_feature(enable = "avx2,fma")]
#[inline]
fn load(x: &[u64; 4]) -> __m256d {
    _mm256_castsi256_pd(load_u64(x))
}

#[target_feature(enable = "avx2,fma")]
#[inline]
fn store(x: &mut [u64; 4], value: __m256d) {
    store_u64(x, _mm256_castpd_si256(value));
}

#[target_feature(enable = "avx2,fma")]
#[inline]
fn splat(word: u64) -> __m256d {
    _mm256_set1_pd(f64::from_bits(word))
}

/// Columns to rows.
#[target_feature(enable = "avx2,fma")]
#[inline]
fn transpose([a, b, c, d]: [__m256d; 4]) -> [__m256d; 4] {
    let (ab, ab_odd) = (_mm256_unpacklo_pd(a, b), _mm256_unpackhi_pd(a, b));
    let (cd, cd_odd) = (_mm256_unpacklo_pd(c, d), _mm256_unpackhi_pd(c, d));
    [
        _mm256_permute2f128_pd::<0x20>(ab, cd),
        _mm256_permute2f128_pd::<0x20>(ab_odd, cd_odd),
        _mm256_permute2f128_pd::<0x31>(ab, cd),
        _mm256_permute2f128_pd::<0x31>(ab_odd, cd_odd),
    ]
}

/// The double of an integer in `[0, 2^52)`.
#[target_feature(enable = "avx2,fma")]
#[inline]
fn enter_register(x: __m256d) -> __m256d {
    let shift = _mm256_set1_pd(SHIFT);
    _mm256_sub_pd(_mm256_or_pd(x, shift), shift)
}

#[target_feature(enable = "avx2,fma")]
#[inline]
fn leave_register(x: __m256d) -> __m256d {
    let rest = minus_multiple(x, _mm256_mul_pd(x, _mm256_set1_pd(FLOAT_P_INVERSE)));
    let negative = _mm256_cmp_pd::<_CMP_LT_OQ>(rest, _mm256_setzero_pd());
    let shift = _mm256_set1_pd(SHIFT);
    let canonical = _mm256_add_pd(rest, _mm256_and_pd(negative, _mm256_set1_pd(FLOAT_P)));
    _mm256_xor_pd(_mm256_add_pd(canonical, shift), shift)
}

#[target_feature(enable = "avx2,fma")]
#[inline]
fn sum(x: __m256d, y: __m256d) -> __m256d {
    _mm256_add_pd(x, y)
}

#[target_feature(enable = "avx2,fma")]
#[inline]
fn product(x: __m256d, y: __m256d) -> __m256d {
    reduced(x, y, |high| _mm256_mul_pd(high, _mm256_set1_pd(FLOAT_P_INVERSE)))
}

/// The companion is the factor divided by p.
#[target_feature(enable = "avx2,fma")]
#[inline]
fn scaled(x: __m256d, [w, companion]: [__m256d; 2]) -> __m256d {
    reduced(x, w, |_| _mm256_mul_pd(x, companion))
}

/// Adds at most 0.57 p to the larger of both magnitudes: 13 stages end below 10 p.
#[target_feature(enable = "avx2,fma")]
#[inline]
fn butterfly(x: __m256d, y: __m256d, w: [__m256d; 2]) -> (__m256d, __m256d) {
    let t = scaled(y, w);
    (_mm256_add_pd(x, t), _mm256_sub_pd(x, t))
}

/// Doubles the magnitude of the sum: 13 stages from 2p end below 2^49, which a factor takes to less than 2^83.
#[target_feature(enable = "avx2,fma")]
#[inline]
fn butterfly_inverse(x: __m256d, y: __m256d, w: [__m256d; 2], _bound: __m256d) -> (__m256d, __m256d) {
    (_mm256_add_pd(x, y), scaled(_mm256_sub_pd(x, y), w))
}

/// Signed words need no bound.
#[target_feature(enable = "avx2,fma")]
#[inline]
fn first_bound() -> __m256d {
    _mm256_setzero_pd()
}

field_transform!(
    #[target_feature(enable = "avx2,fma")]
    __m256d
);

/// The balanced representative of a canonical word, as a double.
fn balanced(canonical: u64) -> f64 {
    let value = canonical.cast_signed();
    let p = P.cast_signed();
    let value = if value > p / 2 { value - p } else { value };
    #[expect(clippy::cast_precision_loss, reason = "less than 2^35")]
    let float = value as f64;
    float
}

fn factor(canonical: u64) -> Factor {
    let w = balanced(canonical);
    [w.to_bits(), (w / FLOAT_P).to_bits()]
}

/// The reduction of [`multiply_add`] divides by this: 2^40.
const RADIX: u64 = multiply_canonical(1 << 20, 1 << 20);

/// Both operands are cut into 20 low and 16 high bits; as p = c * 2^20 + 1, taking `m * p` from a number with the low
/// bits m and dropping the 20 zeros leaves its high bits minus `m * c`. Done twice, that divides by 2^40.
#[target_feature(enable = "avx2,fma")]
fn multiply_add(out: &mut [u64], words: &[u64], scalar: u64) {
    assert_eq!(out.len(), words.len());
    debug_assert!(scalar < P && out.iter().chain(words).all(|&x| x < P));
    let scalar = _mm256_set1_epi64x(scalar.cast_signed());
    let scalar = [_mm256_and_si256(scalar, low_mask()), _mm256_srli_epi64::<20>(scalar)];
    let ((out, out_rest), (words, words_rest)) = (out.as_chunks_mut(), words.as_chunks());
    for (out, word) in out.iter_mut().zip(words) {
        store_u64(out, multiply_add_register(load_u64(out), load_u64(word), scalar));
    }
    if !out_rest.is_empty() {
        let [mut last, mut word] = [[0; 4]; 2];
        last[..out_rest.len()].copy_from_slice(out_rest);
        word[..out_rest.len()].copy_from_slice(words_rest);
        let total = multiply_add_register(load_u64(&last), load_u64(&word), scalar);
        store_u64(&mut last, total);
        out_rest.copy_from_slice(&last[..out_rest.len()]);
    }
}

#[target_feature(enable = "avx2,fma")]
#[inline]
fn low_mask() -> __m256i {
    _mm256_set1_epi64x((1 << 20) - 1)
}

#[target_feature(enable = "avx2,fma")]
#[inline]
fn multiply_add_register(out: __m256i, word: __m256i, [s0, s1]: [__m256i; 2]) -> __m256i {
    let multiplier = _mm256_set1_epi64x(((P - 1) >> 20).cast_signed());
    let (w0, w1) = (_mm256_and_si256(word, low_mask()), _mm256_srli_epi64::<20>(word));
    // Below 2^40, 2^36.1 and 2^30.1.
    let low = _mm256_mul_epu32(w0, s0);
    let middle = _mm256_add_epi64(_mm256_mul_epu32(w1, s0), _mm256_mul_epu32(w0, s1));
    let high = _mm256_mul_epu32(w1, s1);
    // Adding 2^36, a multiple of 2^20 above p, keeps it positive.
    let middle = _mm256_add_epi64(middle, _mm256_set1_epi64x(1 << 36));
    let middle = _mm256_add_epi64(middle, _mm256_srli_epi64::<20>(low));
    let middle = _mm256_sub_epi64(middle, _mm256_mul_epu32(_mm256_and_si256(low, low_mask()), multiplier));
    let high = _mm256_add_epi64(high, _mm256_srli_epi64::<20>(middle));
    let high = _mm256_sub_epi64(high, _mm256_mul_epu32(_mm256_and_si256(middle, low_mask()), multiplier));
    // Now 2^16 too large (that is 2^36 / 2^20), else in (-p, 2^31). With `out` and minus p: in (-2p, 2^31).
    let p = _mm256_set1_epi64x(P.cast_signed());
    let total = _mm256_add_epi64(out, high);
    let total = _mm256_sub_epi64(total, _mm256_set1_epi64x((1 << 16) + P.cast_signed()));
    plus_if_negative(plus_if_negative(total, p), p)
}

/// `x + m` where x is negative.
#[target_feature(enable = "avx2,fma")]
#[inline]
fn plus_if_negative(x: __m256i, m: __m256i) -> __m256i {
    let more = _mm256_castsi256_pd(_mm256_add_epi64(x, m));
    let x = _mm256_castsi256_pd(x);
    _mm256_castpd_si256(_mm256_blendv_pd(x, more, x))
}
