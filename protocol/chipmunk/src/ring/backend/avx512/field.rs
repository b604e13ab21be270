//! The payload layer's field on AVX-512 with IFMA: 8 words a register.
//!
//! Native words are integers below 2^52, lazily reduced.

mod products;

use super::mem::{load_u64, store_u64};
use crate::ring::backend::field::scalar::companion;
use crate::ring::backend::field::word::P_INVERSE;
use crate::ring::backend::field::{Factor, PRIME as P, field_kernels, field_transform};
use std::arch::x86_64::*;

field_kernels!();

const LANES: usize = 8;

/// 2^52 modulo p: Montgomery reduction divides by this.
const RADIX: u64 = (1 << 52) % P;

const LOW_52: u64 = (1 << 52) - 1;

#[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
#[inline]
fn word(x: u64) -> __m512i {
    _mm512_set1_epi64(x.cast_signed())
}

#[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
#[inline]
fn load(x: &[u64; 8]) -> __m512i {
    load_u64(x)
}

#[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
#[inline]
fn store(x: &mut [u64; 8], value: __m512i) {
    store_u64(x, value);
}

#[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
#[inline]
fn splat(x: u64) -> __m512i {
    word(x)
}

/// Columns to rows: first words of neighbouring registers, then halves, are brought together.
#[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
#[inline]
fn transpose(x: [__m512i; 8]) -> [__m512i; 8] {
    // pairs[2i + h]: words of parity h of registers 2i and 2i + 1, interleaved.
    let pairs: [_; 8] = std::array::from_fn(|i| match i % 2 {
        0 => _mm512_unpacklo_epi64(x[i], x[i + 1]),
        _ => _mm512_unpackhi_epi64(x[i - 1], x[i]),
    });
    let even = |a, b| _mm512_shuffle_i64x2::<0b10_00_10_00>(a, b);
    let odd = |a, b| _mm512_shuffle_i64x2::<0b11_01_11_01>(a, b);
    // Registers 0 to 3 (`low`) and 4 to 7 (`high`): words h and h + 4, and words h + 2 and h + 6.
    let low = [
        even(pairs[0], pairs[2]),
        even(pairs[1], pairs[3]),
        odd(pairs[0], pairs[2]),
        odd(pairs[1], pairs[3]),
    ];
    let high = [
        even(pairs[4], pairs[6]),
        even(pairs[5], pairs[7]),
        odd(pairs[4], pairs[6]),
        odd(pairs[5], pairs[7]),
    ];
    std::array::from_fn(|i| match i {
        0..4 => even(low[i], high[i]),
        _ => odd(low[i - 4], high[i - 4]),
    })
}

#[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
#[inline]
fn enter_register(x: __m512i) -> __m512i {
    x
}

#[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
#[inline]
fn leave_register(x: __m512i) -> __m512i {
    let [one, companion] = const { factor(1) };
    smaller(scaled(x, [word(one), word(companion)]), word(P))
}

/// `x - m`, or `x` where that would be negative.
#[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
#[inline]
fn smaller(x: __m512i, m: __m512i) -> __m512i {
    _mm512_min_epu64(x, _mm512_sub_epi64(x, m))
}

#[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
#[inline]
fn sum(x: __m512i, y: __m512i) -> __m512i {
    _mm512_add_epi64(x, y)
}

/// `high - (low p^-1 mod 2^52) p / 2^52`, that is `(high * 2^52 + low) / 2^52` modulo p: in `(-p, high]`, two's
/// complement. The low words count modulo 2^52.
#[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
#[inline]
fn montgomery(high: __m512i, low: __m512i) -> __m512i {
    let zero = _mm512_setzero_si512();
    let m = _mm512_madd52lo_epu64(zero, low, word(P_INVERSE & LOW_52));
    _mm512_sub_epi64(high, _mm512_madd52hi_epu64(zero, m, word(P)))
}

/// In `[0, 2p)`. The factors are below 30p < 2^40, so the product's high part is below 2^28.
#[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
#[inline]
fn product(x: __m512i, y: __m512i) -> __m512i {
    let zero = _mm512_setzero_si512();
    let quotient = montgomery(_mm512_madd52hi_epu64(word(P), x, y), _mm512_madd52lo_epu64(zero, x, y));
    let [radix, companion] = const { factor(RADIX) };
    scaled(quotient, [word(radix), word(companion)])
}

/// In `[0, 2p)`, for any word below 2^52. The companion is `floor(w * 2^52 / p)`.
#[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
#[inline]
fn scaled(x: __m512i, [w, companion]: [__m512i; 2]) -> __m512i {
    let zero = _mm512_setzero_si512();
    let quotient = _mm512_madd52hi_epu64(zero, x, companion);
    // Minus quotient times p, modulo 2^52.
    let rest = _mm512_madd52lo_epu64(_mm512_madd52lo_epu64(zero, x, w), quotient, word((1 << 52) - P));
    _mm512_and_si512(rest, word(LOW_52))
}

/// Adds at most 2p to the larger of both bounds: 13 stages end below 30p < 2^40.
#[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
#[inline]
fn butterfly(x: __m512i, y: __m512i, w: [__m512i; 2]) -> (__m512i, __m512i) {
    let t = scaled(y, w);
    (_mm512_add_epi64(x, t), _mm512_sub_epi64(_mm512_add_epi64(x, word(2 * P)), t))
}

/// Doubles the bound of the sum: 13 stages from 4p end below 2^51.
#[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
#[inline]
fn butterfly_inverse(x: __m512i, y: __m512i, w: [__m512i; 2], bound: __m512i) -> (__m512i, __m512i) {
    (_mm512_add_epi64(x, y), scaled(_mm512_sub_epi64(_mm512_add_epi64(x, bound), y), w))
}

/// A multiple of p: two products or scaled words together.
#[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
#[inline]
fn first_bound() -> __m512i {
    word(4 * P)
}

field_transform!(
    #[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
    __m512i
);

const fn factor(canonical: u64) -> Factor {
    [canonical, companion(canonical, 52)]
}

#[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
fn multiply_add(out: &mut [u64], words: &[u64], scalar: u64) {
    assert_eq!(out.len(), words.len());
    debug_assert!(scalar < P && out.iter().chain(words).all(|&x| x < P));
    let scalar = word(scalar);
    let ((out, out_rest), (words, words_rest)) = (out.as_chunks_mut(), words.as_chunks());
    for (out, word) in out.iter_mut().zip(words) {
        store(out, multiply_add_register(load(out), load(word), scalar));
    }
    if !out_rest.is_empty() {
        let [mut last, mut word] = [[0; 8]; 2];
        last[..out_rest.len()].copy_from_slice(out_rest);
        word[..out_rest.len()].copy_from_slice(words_rest);
        let total = multiply_add_register(load(&last), load(&word), scalar);
        store(&mut last, total);
        out_rest.copy_from_slice(&last[..out_rest.len()]);
    }
}

#[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
#[inline]
fn multiply_add_register(out: __m512i, x: __m512i, scalar: __m512i) -> __m512i {
    let low = _mm512_madd52lo_epu64(_mm512_setzero_si512(), x, scalar);
    let total = montgomery(_mm512_madd52hi_epu64(out, x, scalar), low);
    // In (-p, p + 2^18): a negative word is a huge one.
    let positive = _mm512_min_epu64(total, _mm512_add_epi64(total, word(P)));
    smaller(positive, word(P))
}
