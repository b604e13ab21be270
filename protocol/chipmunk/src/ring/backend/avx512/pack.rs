//! Bit packing, 16 words at a time: `2 * width` bytes, so every register starts and ends on a byte.

use super::mem::{load, load_array, load_prefix, load_u64, store, store_prefix};
use crate::ring::backend::packing::Layout;
use crate::ring::backend::{registers, registers_mut, scalar};
use std::arch::x86_64::*;

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,bmi2")]
pub(super) fn pack(width: u32, words: &[u32], out: &mut [u8]) {
    let Some(layout) = Layout::of(width) else { return (scalar().pack)(width, words, out) };
    let (words, bytes) = (registers(words), 2 * width as usize);
    assert_eq!(out.len(), bytes * words.len(), "as many bytes as the words fill");
    let (last, before) = (load_array(&layout.last), load_array(&layout.before));
    let present = _mm512_movepi8_mask(_mm512_xor_si512(before, _mm512_set1_epi8(-1)));
    let phases = load_u64(&layout.phases);
    // The second word of a pair comes down next to the first.
    let down = _mm512_set1_epi64(i64::from(u32::BITS - width));
    let first = _mm512_set1_epi64((1 << width) - 1);
    for (words, out) in words.iter().zip(out.chunks_exact_mut(bytes)) {
        let words = load(words);
        // Bits of the first word where `first` is set, else bits of the second.
        let pairs = _mm512_ternarylogic_epi64::<0xCA>(first, words, _mm512_srlv_epi64(words, down));
        let pairs = _mm512_sllv_epi64(pairs, phases);
        let before = _mm512_maskz_permutexvar_epi8(present, before, pairs);
        store_prefix(out, _mm512_or_si512(before, _mm512_permutexvar_epi8(last, pairs)));
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,bmi2")]
pub(super) fn unpack(width: u32, bytes: &[u8], out: &mut [u32]) -> u32 {
    let Some(layout) = Layout::of(width) else { return (scalar().unpack)(width, bytes, out) };
    each_packed(layout, width, bytes, out, |_, words| words)
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,bmi2")]
pub(super) fn add_packed(width: u32, bytes: &[u8], out: &mut [u32]) -> u32 {
    let Some(layout) = Layout::of(width) else { return (scalar().add_packed)(width, bytes, out) };
    each_packed(layout, width, bytes, out, |sums, words| _mm512_add_epi32(sums, words))
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,bmi2")]
pub(super) fn sub_packed(width: u32, bytes: &[u8], out: &mut [u32]) -> u32 {
    let Some(layout) = Layout::of(width) else { return (scalar().sub_packed)(width, bytes, out) };
    each_packed(layout, width, bytes, out, |sums, words| _mm512_sub_epi32(sums, words))
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,bmi2")]
#[inline]
fn each_packed(
    layout: &Layout,
    width: u32,
    bytes: &[u8],
    out: &mut [u32],
    combine: impl Fn(__m512i, __m512i) -> __m512i,
) -> u32 {
    let (out, length) = (registers_mut(out), 2 * width as usize);
    assert_eq!(bytes.len(), length * out.len(), "as many bytes as the words fill");
    let (windows, starts) = (load_array(&layout.windows), load(&layout.starts));
    let mask = _mm512_set1_epi32((1 << width) - 1);
    let mut largest = _mm512_setzero_si512();
    for (bytes, out) in bytes.chunks_exact(length).zip(out) {
        let windows = _mm512_permutexvar_epi8(windows, load_prefix(bytes));
        let words = _mm512_and_si512(_mm512_srlv_epi32(windows, starts), mask);
        largest = _mm512_max_epu32(largest, words);
        store(out, combine(load(out), words));
    }
    _mm512_reduce_max_epu32(largest)
}
