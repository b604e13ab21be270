//! The scan of the cumulative table.

use super::mem::{load_u64, store_narrow};
use crate::ring::backend::{registers, registers_mut};
use std::arch::x86_64::*;

/// Registers of words that share one pass over the table.
const SHARED: usize = 8;

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
pub(super) fn gaussian(table: &[u64], words: &[u64], out: &mut [i32]) {
    let (words, out) = (registers::<8, _>(words), registers_mut::<8, _>(out));
    let (shared, rest) = words.as_chunks::<SHARED>();
    let (shared_out, rest_out) = out.as_chunks_mut::<SHARED>();
    for (words, out) in shared.iter().zip(shared_out) {
        scan(table, words, out);
    }
    for (words, out) in rest.iter().zip(rest_out) {
        scan(table, std::array::from_ref(words), std::array::from_mut(out));
    }
}

/// Counts, for each word, the entries at or below its low 63 bits, and applies its top bit as the sign.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
#[inline]
fn scan<const R: usize>(table: &[u64], words: &[[u64; 8]; R], out: &mut [[i32; 8]; R]) {
    let words: [__m512i; R] = std::array::from_fn(|r| load_u64(&words[r]));
    let low = _mm512_set1_epi64(i64::MAX);
    let uniform = words.map(|word| _mm512_and_si512(word, low));
    let mut magnitude = [_mm512_setzero_si512(); R];
    // A one that the compiler does not know: else it replaces the masked addition by two instructions.
    let one = _mm512_set1_epi64(std::hint::black_box(1));
    for &entry in table {
        let entry = _mm512_set1_epi64(entry.cast_signed());
        for (magnitude, &uniform) in magnitude.iter_mut().zip(&uniform) {
            let reached = _mm512_cmpge_epu64_mask(uniform, entry);
            *magnitude = _mm512_mask_add_epi64(*magnitude, reached, *magnitude, one);
        }
    }
    for ((out, word), magnitude) in out.iter_mut().zip(words).zip(magnitude) {
        let sign = _mm512_srai_epi64::<63>(word);
        let signed = _mm512_sub_epi64(_mm512_xor_si512(magnitude, sign), sign);
        store_narrow(out, signed);
    }
}
