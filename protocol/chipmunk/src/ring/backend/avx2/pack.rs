//! Bit packing, 8 words at a time: `width` bytes, so every register starts and ends on a byte. Four words are half of
//! that; where a half leaves half a byte over, the two halves share it.

use super::mem::{load, load_128, load_array, load_u64, store, store_128};
use crate::ring::backend::packing::{Layout, NOTHING};
use crate::ring::backend::{registers, registers_mut, scalar};
use std::arch::x86_64::*;

/// Bytes that a step reads or writes, of which it uses the first `width`.
const WINDOW: usize = 32;

#[target_feature(enable = "avx2")]
pub(super) fn pack(width: u32, words: &[u32], out: &mut [u8]) {
    let Some(layout) = Layout::of(width) else { return (scalar().pack)(width, words, out) };
    let (words, bytes) = (registers(words), width as usize);
    assert_eq!(out.len(), bytes * words.len(), "as many bytes as the words fill");
    let (last, before) = (load_array(&layout.halves.last), load_array(&layout.halves.before));
    let phases = load_u64(layout.phases.first_chunk().expect("eight pairs"));
    // The second word of a pair comes down next to the first.
    let down = _mm256_set1_epi64x(i64::from(u32::BITS - width));
    let first = _mm256_set1_epi64x((1 << width) - 1);
    let mut shared = [NOTHING; 16];
    shared[0] = (width / 2).try_into().expect("a small width");
    let shared = load_128(&shared);

    let mut rest = out;
    let mut end = [0; WINDOW];
    for words in words {
        let words = load(words);
        let second = _mm256_andnot_si256(first, _mm256_srlv_epi64(words, down));
        let pairs = _mm256_or_si256(_mm256_and_si256(words, first), second);
        let pairs = _mm256_sllv_epi64(pairs, phases);
        let halves = _mm256_or_si256(_mm256_shuffle_epi8(pairs, last), _mm256_shuffle_epi8(pairs, before));
        let low = _mm256_castsi256_si128(halves);
        let high = _mm_or_si128(_mm256_extracti128_si256::<1>(halves), _mm_shuffle_epi8(low, shared));
        // What is written beyond `width` bytes, the next step overwrites.
        let window =
            if rest.len() < WINDOW { &mut end } else { rest.first_chunk_mut().expect("enough bytes") };
        let (low_half, _) = window.split_first_chunk_mut().expect("a half");
        store_128(low_half, low);
        store_128(window[bytes / 2..].first_chunk_mut().expect("a half"), high);
        if rest.len() < WINDOW {
            rest[..bytes].copy_from_slice(&end[..bytes]);
        }
        rest = &mut rest[bytes..];
    }
}

#[target_feature(enable = "avx2")]
pub(super) fn unpack(width: u32, bytes: &[u8], out: &mut [u32]) -> u32 {
    let Some(layout) = Layout::of(width) else { return (scalar().unpack)(width, bytes, out) };
    each_packed(layout, width, bytes, out, |_, words| words)
}

#[target_feature(enable = "avx2")]
pub(super) fn add_packed(width: u32, bytes: &[u8], out: &mut [u32]) -> u32 {
    let Some(layout) = Layout::of(width) else { return (scalar().add_packed)(width, bytes, out) };
    each_packed(layout, width, bytes, out, |sums, words| _mm256_add_epi32(sums, words))
}

#[target_feature(enable = "avx2")]
pub(super) fn sub_packed(width: u32, bytes: &[u8], out: &mut [u32]) -> u32 {
    let Some(layout) = Layout::of(width) else { return (scalar().sub_packed)(width, bytes, out) };
    each_packed(layout, width, bytes, out, |sums, words| _mm256_sub_epi32(sums, words))
}

#[target_feature(enable = "avx2")]
#[inline]
fn each_packed(
    layout: &Layout,
    width: u32,
    bytes: &[u8],
    out: &mut [u32],
    combine: impl Fn(__m256i, __m256i) -> __m256i,
) -> u32 {
    let (out, length) = (registers_mut(out), width as usize);
    assert_eq!(bytes.len(), length * out.len(), "as many bytes as the words fill");
    let windows = load_array(&layout.halves.windows);
    let starts = load(layout.starts.first_chunk().expect("sixteen words"));
    let mask = _mm256_set1_epi32((1 << width) - 1);
    let mut largest = _mm256_setzero_si256();
    let mut rest = bytes;
    let mut end = [0; WINDOW];
    for out in out {
        let window = rest.first_chunk().unwrap_or_else(|| {
            end[..rest.len()].copy_from_slice(rest);
            &end
        });
        let low = load_128(window.first_chunk().expect("a half"));
        let high = load_128(window[length / 2..].first_chunk().expect("a half"));
        let windows = _mm256_shuffle_epi8(_mm256_set_m128i(high, low), windows);
        let words = _mm256_and_si256(_mm256_srlv_epi32(windows, starts), mask);
        largest = _mm256_max_epu32(largest, words);
        store(out, combine(load(out), words));
        rest = &rest[length..];
    }
    let mut lanes = [0; 8];
    store(&mut lanes, largest);
    lanes.into_iter().fold(0, u32::max)
}
