//! Unaligned loads and stores: the only memory accesses of this back-end by pointer.

#![allow(unsafe_code)]

use std::arch::x86_64::*;

macro_rules! access {
    ($($load:ident $(, $store:ident)?: [$element:ty; $lanes:literal];)*) => {$(
        #[target_feature(enable = "avx512f")]
        #[inline]
        pub(super) fn $load(x: &[$element; $lanes]) -> __m512i {
            // SAFETY: `x` is 64 readable bytes; loadu needs no alignment.
            unsafe { _mm512_loadu_si512(x.as_ptr().cast()) }
        }

        $(#[target_feature(enable = "avx512f")]
        #[inline]
        pub(super) fn $store(x: &mut [$element; $lanes], value: __m512i) {
            // SAFETY: `x` is 64 writable bytes; storeu needs no alignment.
            unsafe { _mm512_storeu_si512(x.as_mut_ptr().cast(), value) }
        })?
    )*};
}

access! {
    load, store: [u32; 16];
    load_i32, store_i32: [i32; 16];
    load_u64, store_u64: [u64; 8];
    load_bytes: [[u8; 8]; 8];
    load_array: [u8; 64];
}

/// Two words, repeated over the register.
#[target_feature(enable = "avx512f,avx512dq")]
#[inline]
pub(super) fn tile_2(x: &[u32; 2]) -> __m512i {
    // SAFETY: `x` is 8 readable bytes; loadl needs no alignment.
    _mm512_broadcast_i32x2(unsafe { _mm_loadl_epi64(x.as_ptr().cast()) })
}

/// Four words, repeated over the register.
#[target_feature(enable = "avx512f")]
#[inline]
pub(super) fn tile_4(x: &[u32; 4]) -> __m512i {
    // SAFETY: `x` is 16 readable bytes; loadu needs no alignment.
    _mm512_broadcast_i32x4(unsafe { _mm_loadu_si128(x.as_ptr().cast()) })
}

/// Eight words, repeated over the register.
#[target_feature(enable = "avx512f,avx512dq")]
#[inline]
pub(super) fn tile_8(x: &[u32; 8]) -> __m512i {
    // SAFETY: `x` is 32 readable bytes; loadu needs no alignment.
    _mm512_broadcast_i32x8(unsafe { _mm256_loadu_si256(x.as_ptr().cast()) })
}

/// Two integers, repeated over the register.
#[target_feature(enable = "avx512f,avx512dq")]
#[inline]
pub(super) fn tile_u64_2(x: &[u64; 2]) -> __m512i {
    // SAFETY: `x` is 16 readable bytes; loadu needs no alignment.
    _mm512_broadcast_i64x2(unsafe { _mm_loadu_si128(x.as_ptr().cast()) })
}

/// Four integers, repeated over the register.
#[target_feature(enable = "avx512f")]
#[inline]
pub(super) fn tile_u64_4(x: &[u64; 4]) -> __m512i {
    // SAFETY: `x` is 32 readable bytes; loadu needs no alignment.
    _mm512_broadcast_i64x4(unsafe { _mm256_loadu_si256(x.as_ptr().cast()) })
}

/// Eight words, each in a 64-bit lane.
#[target_feature(enable = "avx512f")]
#[inline]
pub(super) fn widen(x: &[u32; 8]) -> __m512i {
    // SAFETY: `x` is 32 readable bytes; loadu needs no alignment.
    _mm512_cvtepu32_epi64(unsafe { _mm256_loadu_si256(x.as_ptr().cast()) })
}

/// The low halves of eight 64-bit lanes.
#[target_feature(enable = "avx512f")]
#[inline]
pub(super) fn store_narrow(x: &mut [i32; 8], value: __m512i) {
    // SAFETY: `x` is 32 writable bytes; storeu needs no alignment.
    unsafe { _mm256_storeu_si256(x.as_mut_ptr().cast(), _mm512_cvtepi64_epi32(value)) }
}

/// Eight signed words, each in a 64-bit lane.
#[target_feature(enable = "avx512f")]
#[inline]
pub(super) fn widen_i32(x: &[i32; 8]) -> __m512i {
    // SAFETY: `x` is 32 readable bytes; loadu needs no alignment.
    _mm512_cvtepi32_epi64(unsafe { _mm256_loadu_si256(x.as_ptr().cast()) })
}

/// At most 64 bytes, followed by zeros.
#[target_feature(enable = "avx512f,avx512bw,bmi2")]
#[inline]
pub(super) fn load_prefix(x: &[u8]) -> __m512i {
    // SAFETY: the mask selects bytes of `x` only, and what it does not select is not accessed.
    unsafe { _mm512_maskz_loadu_epi8(prefix(x.len()), x.as_ptr().cast()) }
}

/// The first bytes, at most 64.
#[target_feature(enable = "avx512f,avx512bw,bmi2")]
#[inline]
pub(super) fn store_prefix(x: &mut [u8], value: __m512i) {
    // SAFETY: the mask selects bytes of `x` only, and what it does not select is not accessed.
    unsafe { _mm512_mask_storeu_epi8(x.as_mut_ptr().cast(), prefix(x.len()), value) }
}

/// The lowest `length` bits, all of them from 64 on.
#[target_feature(enable = "bmi2")]
#[inline]
fn prefix(length: usize) -> __mmask64 {
    _bzhi_u64(u64::MAX, u32::try_from(length).expect("a short slice"))
}
