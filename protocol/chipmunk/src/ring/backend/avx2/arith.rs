//! Modular arithmetic on 8 residues.
//!
//! Source of the lazy ranges: Harvey 2014 (arXiv 1205.2926).

use crate::ring::modulus::Prime;
use std::arch::x86_64::*;

/// The modulus in every lane, and its double.
#[derive(Clone, Copy)]
pub(super) struct Modulus {
    pub q: __m256i,
    pub q2: __m256i,
}

impl Modulus {
    #[target_feature(enable = "avx2")]
    #[inline]
    pub fn new(prime: &Prime) -> Self {
        let q = _mm256_set1_epi32(prime.q().cast_signed());
        Self { q, q2: _mm256_add_epi32(q, q) }
    }
}

/// Constant factors, with the Shoup companions of the even lanes, and those of the odd lanes moved to even ones.
#[derive(Clone, Copy)]
pub(super) struct Factor {
    pub w: __m256i,
    pub even: __m256i,
    pub odd: __m256i,
}

impl Factor {
    /// One factor for every lane.
    #[target_feature(enable = "avx2")]
    #[inline]
    pub fn uniform(w: u32, companion: u32) -> Self {
        let companion = _mm256_set1_epi32(companion.cast_signed());
        Self { w: _mm256_set1_epi32(w.cast_signed()), even: companion, odd: companion }
    }
}

/// The high 32 bits of each 64-bit lane of `even`, and of `odd`, interleaved.
#[target_feature(enable = "avx2")]
#[inline]
pub(super) fn high_words(even: __m256i, odd: __m256i) -> __m256i {
    _mm256_blend_epi32::<0b1010_1010>(_mm256_shuffle_epi32::<0b11_11_01_01>(even), odd)
}

/// The high words of `y * c`, the constants of odd lanes given in even ones.
#[target_feature(enable = "avx2")]
#[inline]
pub(super) fn mul_high(y: __m256i, even: __m256i, odd: __m256i) -> __m256i {
    let even = _mm256_mul_epu32(y, even);
    let odd = _mm256_mul_epu32(_mm256_shuffle_epi32::<0b11_11_01_01>(y), odd);
    high_words(even, odd)
}

/// Like [`mul_high`] on signed words.
#[target_feature(enable = "avx2")]
#[inline]
pub(super) fn mul_high_signed(y: __m256i, even: __m256i, odd: __m256i) -> __m256i {
    let even = _mm256_mul_epi32(y, even);
    let odd = _mm256_mul_epi32(_mm256_shuffle_epi32::<0b11_11_01_01>(y), odd);
    high_words(even, odd)
}

/// `y * w` in `[0, 2q)`, for any u32 `y`.
#[target_feature(enable = "avx2")]
#[inline]
pub(super) fn mul_lazy(y: __m256i, f: Factor, q: __m256i) -> __m256i {
    let quotient = mul_high(y, f.even, f.odd);
    _mm256_sub_epi32(_mm256_mullo_epi32(y, f.w), _mm256_mullo_epi32(quotient, q))
}

/// `x - m`, or `x` where that would be negative.
#[target_feature(enable = "avx2")]
#[inline]
pub(super) fn once(x: __m256i, m: __m256i) -> __m256i {
    _mm256_min_epu32(x, _mm256_sub_epi32(x, m))
}

/// The low words of eight 64-bit lanes, in order, and the high words.
#[target_feature(enable = "avx2")]
#[inline]
pub(super) fn halves(first: __m256i, second: __m256i) -> (__m256i, __m256i) {
    // Within 128-bit lanes: low words of `first`, then of `second`; then both quarters of `first` to the front.
    let (first, second) = (_mm256_castsi256_ps(first), _mm256_castsi256_ps(second));
    let low = _mm256_castps_si256(_mm256_shuffle_ps::<0b10_00_10_00>(first, second));
    let high = _mm256_castps_si256(_mm256_shuffle_ps::<0b11_01_11_01>(first, second));
    (_mm256_permute4x64_epi64::<0b11_01_10_00>(low), _mm256_permute4x64_epi64::<0b11_01_10_00>(high))
}
