//! The scan of the cumulative table.

use super::arith::halves;
use super::mem::{load_u64, store_i32};
use crate::ring::backend::{registers, registers_mut};
use std::arch::x86_64::*;

/// Registers of words that share one pass over the table: with as many counters they fill 12 of 16.
const SHARED: usize = 6;

#[target_feature(enable = "avx2")]
pub(super) fn gaussian(table: &[u64], words: &[u64], out: &mut [i32]) {
    const PAIRS: usize = SHARED / 2;
    let (words, out) = (registers::<2, _>(registers::<4, _>(words)), registers_mut::<8, _>(out));
    let (shared, rest) = words.as_chunks::<PAIRS>();
    let (shared_out, rest_out) = out.as_chunks_mut::<PAIRS>();
    for (words, out) in shared.iter().zip(shared_out) {
        scan(table, words, out);
    }
    for (words, out) in rest.iter().zip(rest_out) {
        scan(table, std::array::from_ref(words), std::array::from_mut(out));
    }
}

/// Counts, for each word, the entries at or below its low 63 bits, and applies its top bit as the sign.
#[target_feature(enable = "avx2")]
#[inline]
fn scan<const PAIRS: usize>(table: &[u64], words: &[[[u64; 4]; 2]; PAIRS], out: &mut [[i32; 8]; PAIRS]) {
    let low = _mm256_set1_epi64x(i64::MAX);
    let words = words.each_ref().map(|pair| pair.each_ref().map(|words| load_u64(words)));
    let uniform = words.map(|pair| pair.map(|word| _mm256_and_si256(word, low)));
    let mut magnitude = [[_mm256_set1_epi64x(i64::try_from(table.len()).expect("a short table")); 2]; PAIRS];
    for &entry in table {
        let entry = _mm256_set1_epi64x(entry.cast_signed());
        for (magnitude, uniform) in magnitude.iter_mut().zip(&uniform) {
            // Entries are below 2^63, so a signed comparison serves; it yields -1 where the entry is above.
            magnitude[0] = _mm256_add_epi64(magnitude[0], _mm256_cmpgt_epi64(entry, uniform[0]));
            magnitude[1] = _mm256_add_epi64(magnitude[1], _mm256_cmpgt_epi64(entry, uniform[1]));
        }
    }
    for ((out, words), magnitude) in out.iter_mut().zip(words).zip(magnitude) {
        let (_, top) = halves(words[0], words[1]);
        let (magnitude, _) = halves(magnitude[0], magnitude[1]);
        let sign = _mm256_srai_epi32::<31>(top);
        store_i32(out, _mm256_sub_epi32(_mm256_xor_si256(magnitude, sign), sign));
    }
}
