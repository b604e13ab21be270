//! Modular arithmetic on 16 residues.
//!
//! Source of the lazy ranges: Harvey 2014 (arXiv 1205.2926).

use crate::ring::modulus::Prime;
use std::arch::x86_64::*;

/// The modulus in every lane, and its double.
#[derive(Clone, Copy)]
pub(super) struct Modulus {
    pub q: __m512i,
    pub q2: __m512i,
}

impl Modulus {
    #[target_feature(enable = "avx512f,avx512bw,avx512dq")]
    #[inline]
    pub fn new(prime: &Prime) -> Self {
        let q = _mm512_set1_epi32(prime.q().cast_signed());
        Self { q, q2: _mm512_add_epi32(q, q) }
    }
}

/// Constant factors, with the Shoup companions of the even lanes, and those of the odd lanes moved to even ones.
#[derive(Clone, Copy)]
pub(super) struct Factor {
    pub w: __m512i,
    pub even: __m512i,
    pub odd: __m512i,
}

impl Factor {
    /// One factor for every lane.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq")]
    #[inline]
    pub fn uniform(w: u32, companion: u32) -> Self {
        let companion = _mm512_set1_epi32(companion.cast_signed());
        Self { w: _mm512_set1_epi32(w.cast_signed()), even: companion, odd: companion }
    }
}

/// The high words of `y * c`, the constants of odd lanes given in even ones.
#[target_feature(enable = "avx512f,avx512bw,avx512dq")]
#[inline]
pub(super) fn mul_high(y: __m512i, even: __m512i, odd: __m512i) -> __m512i {
    let even = _mm512_mul_epu32(y, even);
    let odd = _mm512_mul_epu32(_mm512_srli_epi64::<32>(y), odd);
    // Those of odd lanes are in place, those of even lanes come down from above.
    _mm512_mask_shuffle_epi32::<0b11_11_01_01>(odd, 0x5555, even)
}

/// `y * w` in `[0, 2q)`, for any u32 `y`.
#[target_feature(enable = "avx512f,avx512bw,avx512dq")]
#[inline]
pub(super) fn mul_lazy(y: __m512i, f: Factor, q: __m512i) -> __m512i {
    let quotient = mul_high(y, f.even, f.odd);
    _mm512_sub_epi32(_mm512_mullo_epi32(y, f.w), _mm512_mullo_epi32(quotient, q))
}

/// `x - m`, or `x` where that would be negative.
#[target_feature(enable = "avx512f,avx512bw,avx512dq")]
#[inline]
pub(super) fn once(x: __m512i, m: __m512i) -> __m512i {
    _mm512_min_epu32(x, _mm512_sub_epi32(x, m))
}

/// The low words of sixteen 64-bit lanes, in order.
#[target_feature(enable = "avx512f")]
#[inline]
pub(super) fn low_words(first: __m512i, second: __m512i) -> __m512i {
    let even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    _mm512_permutex2var_epi32(first, even, second)
}

/// The low words of the 64-bit lanes of `even` and `odd`, alternating.
#[target_feature(enable = "avx512f")]
#[inline]
pub(super) fn pack_interleaved(even: __m512i, odd: __m512i) -> __m512i {
    _mm512_mask_shuffle_epi32::<0b10_10_00_00>(even, 0xAAAA, odd)
}
