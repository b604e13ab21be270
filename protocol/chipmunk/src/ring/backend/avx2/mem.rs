//! Unaligned loads and stores: the only memory accesses of this back-end by pointer.

#![allow(unsafe_code)]

use std::arch::x86_64::*;

macro_rules! access {
    ($($load:ident $(, $store:ident)?: [$element:ty; $lanes:literal];)*) => {$(
        #[target_feature(enable = "avx2")]
        #[inline]
        pub(super) fn $load(x: &[$element; $lanes]) -> __m256i {
            // SAFETY: `x` is 32 readable bytes; loadu needs no alignment.
            unsafe { _mm256_loadu_si256(x.as_ptr().cast()) }
        }

        $(#[target_feature(enable = "avx2")]
        #[inline]
        pub(super) fn $store(x: &mut [$element; $lanes], value: __m256i) {
            // SAFETY: `x` is 32 writable bytes; storeu needs no alignment.
            unsafe { _mm256_storeu_si256(x.as_mut_ptr().cast(), value) }
        })?
    )*};
}

access! {
    load, store: [u32; 8];
    load_i32, store_i32: [i32; 8];
    load_u64, store_u64: [u64; 4];
    load_bytes: [[u8; 8]; 4];
    load_array: [u8; 32];
}

/// Four words, each in a 64-bit lane.
#[target_feature(enable = "avx2")]
#[inline]
pub(super) fn widen(x: &[u32; 4]) -> __m256i {
    // SAFETY: `x` is 16 readable bytes; loadu needs no alignment.
    _mm256_cvtepu32_epi64(unsafe { _mm_loadu_si128(x.as_ptr().cast()) })
}

/// Four words below 2^31, or signed ones, as doubles.
#[target_feature(enable = "avx2")]
#[inline]
pub(super) fn load_signed<T: Word>(x: &[T; 4]) -> __m256d {
    // SAFETY: `x` is 16 readable bytes, as a `Word` has 4; loadu needs no alignment.
    _mm256_cvtepi32_pd(unsafe { _mm_loadu_si128(x.as_ptr().cast()) })
}

/// A 32-bit integer.
pub(super) trait Word {}
impl Word for u32 {}
impl Word for i32 {}

#[target_feature(enable = "avx2")]
#[inline]
pub(super) fn load_128(x: &[u8; 16]) -> __m128i {
    // SAFETY: `x` is 16 readable bytes; loadu needs no alignment.
    unsafe { _mm_loadu_si128(x.as_ptr().cast()) }
}

#[target_feature(enable = "avx2")]
#[inline]
pub(super) fn store_128(x: &mut [u8; 16], value: __m128i) {
    // SAFETY: `x` is 16 writable bytes; storeu needs no alignment.
    unsafe { _mm_storeu_si128(x.as_mut_ptr().cast(), value) }
}

/// Two halves of a register.
#[target_feature(enable = "avx2")]
#[inline]
pub(super) fn load_halves(low: &[u32; 4], high: &[u32; 4]) -> __m256i {
    // SAFETY: `low` and `high` are 16 readable bytes each; loadu needs no alignment.
    unsafe { _mm256_loadu2_m128i(high.as_ptr().cast(), low.as_ptr().cast()) }
}

/// The halves of a register to two places.
#[target_feature(enable = "avx2")]
#[inline]
pub(super) fn store_halves(low: &mut [u32; 4], high: &mut [u32; 4], value: __m256i) {
    // SAFETY: `low` and `high` are 16 writable bytes each; storeu needs no alignment.
    unsafe { _mm256_storeu2_m128i(high.as_mut_ptr().cast(), low.as_mut_ptr().cast(), value) }
}
