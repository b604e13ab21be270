//! The cumulative table, searched in registers.
//!
//! A scan of the whole table counts the entries at or below a word. Here the table is cut into 32 buckets; five comparisons with their last entries find the bucket that a word falls into, and the comparisons with
//! the rest of that bucket finish the count. The entries to compare with come out of registers by `vpermq` and
//! `vpermi2q`, whose index is register data: every word takes the same instructions, and no address depends on it.

use super::mem::{load_bytes, load_u64, store_narrow};
use crate::ring::backend::{registers, registers_mut};
use crate::ring::cumulative::CumulativeTable;
use std::arch::x86_64::*;

/// Registers of words that advance together.
const LOCKSTEP: usize = 4;

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
pub(super) fn gaussian(table: &CumulativeTable, words: &[[u8; 8]], out: &mut [i32]) {
    let (words, out) = (registers::<8, _>(words), registers_mut::<8, _>(out));
    let (shared, rest) = words.as_chunks::<LOCKSTEP>();
    let (shared_out, rest_out) = out.as_chunks_mut::<LOCKSTEP>();
    for (words, out) in shared.iter().zip(shared_out) {
        search(table, words, out);
    }
    for (words, out) in rest.iter().zip(rest_out) {
        search(table, std::array::from_ref(words), std::array::from_mut(out));
    }
}

/// Counts, for each word, the entries at or below its low 63 bits, and applies its top bit as the sign.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
#[inline]
fn search<const R: usize>(table: &CumulativeTable, words: &[[[u8; 8]; 8]; R], out: &mut [[i32; 8]; R]) {
    let buckets = &table.by_32;
    let size = i64::try_from(buckets.size).expect("a small bucket");
    let words: [__m512i; R] = std::array::from_fn(|i| load_bytes(&words[i]));
    let uniform = words.map(|word| _mm512_and_si512(word, _mm512_set1_epi64(i64::MAX)));
    let zero = _mm512_setzero_si512();
    let (mut place, mut count, mut reached) = ([zero; R], [zero; R], [0; R]);
    for level in 0..5 {
        let bit = _mm512_set1_epi64(1 << level);
        let entries = _mm512_set1_epi64(size << (4 - level));
        let candidates = Candidates::load(&buckets.first, level);
        for i in 0..R {
            let pivot = candidates.select(place[i], reached[i]);
            reached[i] = _mm512_cmpge_epu64_mask(uniform[i], pivot);
            place[i] = _mm512_mask_or_epi64(place[i], reached[i], place[i], bit);
            count[i] = _mm512_mask_add_epi64(count[i], reached[i], count[i], entries);
        }
    }
    // A one that the compiler does not know: else it replaces the masked addition by two instructions.
    let one = _mm512_set1_epi64(std::hint::black_box(1));
    for rest in &buckets.rest[..buckets.size - 1] {
        let [t0, t1, t2, t3] = quarters(rest);
        for i in 0..R {
            let low = _mm512_permutex2var_epi64(t0, place[i], t1);
            let high = _mm512_permutex2var_epi64(t2, place[i], t3);
            // `reached` is that of the fifth level: the highest bit of the place.
            let entry = _mm512_mask_blend_epi64(reached[i], low, high);
            let below = _mm512_cmpge_epu64_mask(uniform[i], entry);
            count[i] = _mm512_mask_add_epi64(count[i], below, count[i], one);
        }
    }
    let length = _mm512_set1_epi64(i64::try_from(table.entries().len()).expect("a short table"));
    for i in 0..R {
        let magnitude = _mm512_min_epu32(count[i], length);
        let sign = _mm512_srai_epi64::<63>(words[i]);
        store_narrow(&mut out[i], _mm512_sub_epi64(_mm512_xor_si512(magnitude, sign), sign));
    }
}

#[target_feature(enable = "avx512f")]
#[inline]
fn quarters(table: &[u64; 32]) -> [__m512i; 4] {
    let (quarters, _) = table.as_chunks::<8>();
    std::array::from_fn(|k| load_u64(&quarters[k]))
}

/// The candidates of one level of the search: entries `2^level` to `2^(level + 1)` of `Buckets::first`.
enum Candidates {
    /// The same for all words.
    One(__m512i),
    /// One of two, by the last comparison.
    Two(__m512i, __m512i),
    /// One of up to eight, by place.
    Eight(__m512i),
    /// One of sixteen, by place.
    Sixteen(__m512i, __m512i),
}

impl Candidates {
    #[target_feature(enable = "avx512f")]
    #[inline]
    fn load(first: &[u64; 32], level: u32) -> Self {
        let splat = |i: usize| _mm512_set1_epi64(first[i].cast_signed());
        let eight = |start: usize| load_u64(first[start..start + 8].as_array().expect("eight entries"));
        match level {
            0 => Self::One(splat(1)),
            1 => Self::Two(splat(2), splat(3)),
            2 => Self::Eight(eight(4)),
            3 => Self::Eight(eight(8)),
            _ => Self::Sixteen(eight(16), eight(24)),
        }
    }

    #[target_feature(enable = "avx512f")]
    #[inline]
    fn select(&self, place: __m512i, reached: __mmask8) -> __m512i {
        match *self {
            Self::One(entry) => entry,
            Self::Two(below, above) => _mm512_mask_blend_epi64(reached, below, above),
            Self::Eight(entries) => _mm512_permutexvar_epi64(place, entries),
            Self::Sixteen(low, high) => _mm512_permutex2var_epi64(low, place, high),
        }
    }
}
