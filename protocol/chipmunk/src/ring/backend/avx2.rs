//! Kernels for AVX2 with FMA: 8 residues a register.
//!
//! Everything below the dispatch is safe code inside `#[target_feature]` functions; `unsafe` is the dispatch itself,
//! here, and the loads and stores of [`mem`].

mod arith;
mod centre;
mod field;
mod float;
mod gaussian;
mod mem;
mod ntt;
mod pack;
mod pointwise;
mod switch;
mod twiddles;

use super::super::crt::PairReduction;
use super::super::cumulative::CumulativeTable;
use super::super::modulus::Prime;
use super::super::switch::ModulusSwitch;
use super::{Kernels, Simd};
use crate::digits::{DigitBase, PairDigits};

pub(in super::super) use twiddles::Tables;

/// Whether this CPU (and operating system) runs these kernels.
pub(super) fn detected() -> bool {
    is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma")
}

/// Reachable only through [`Simd::kernels`], which asks [`detected`] first.
pub(super) static KERNELS: Kernels = Kernels {
    simd: Simd::Avx2,
    ntt_forward,
    ntt_inverse,
    add,
    sub,
    mul,
    dot,
    combine,
    scale,
    from_signed,
    centred,
    decompose,
    decompose_pair,
    recompose_pair,
    reduce_pair,
    gaussian,
    encrypt,
    decrypt,
    pack,
    unpack,
    add_packed,
    sub_packed,
    field: &field::KERNELS,
};

macro_rules! dispatch {
    ($(fn $name:ident($($arg:ident: $kind:ty),*) $(-> $result:ty)? = $kernel:path;)*) => {$(
        #[allow(unsafe_code)]
        fn $name($($arg: $kind),*) $(-> $result)? {
            // SAFETY: `Simd::table` hands out `KERNELS`, the only path to this function, after `detected` found every
            // feature that the kernels enable.
            unsafe { $kernel($($arg),*) }
        }
    )*};
}

dispatch! {
    fn ntt_forward(prime: &Prime, a: &mut [u32]) = ntt::forward;
    fn ntt_inverse(prime: &Prime, a: &mut [u32]) = ntt::inverse;
    fn add(prime: &Prime, a: &mut [u32], b: &[u32]) = pointwise::add;
    fn sub(prime: &Prime, a: &mut [u32], b: &[u32]) = pointwise::sub;
    fn mul(prime: &Prime, out: &mut [u32], a: &[u32], b: &[u32]) = pointwise::mul;
    fn dot(prime: &Prime, terms: &[[&[u32]; 2]], out: &mut [u32]) = pointwise::dot;
    fn combine(prime: &Prime, terms: &[(u32, &[u32])], out: &mut [u32]) = pointwise::combine;
    fn scale(prime: &Prime, a: &mut [u32], scalar: u32) = pointwise::scale;
    fn from_signed(prime: &Prime, out: &mut [u32], values: &[i32]) = pointwise::from_signed;
    fn centred(prime: &Prime, residues: &[u32], out: &mut [i32]) = centre::centred;
    fn decompose(prime: &Prime, base: &DigitBase, residues: &[u32], out: [&mut [i32]; 3]) = centre::decompose;
    fn decompose_pair(s: &PairDigits, residues: [&[u32]; 2], out: [&mut [u32]; 4]) = centre::decompose_pair;
    fn recompose_pair(s: &PairDigits, offset: u32, digits: [&[u32]; 4], out: [&mut [u32]; 2])
        = centre::recompose_pair;
    fn reduce_pair(s: &PairReduction, residues: [&[u32]; 2], out: &mut [u32]) = centre::reduce_pair;
    fn gaussian(table: &CumulativeTable, words: &[[u8; 8]], out: &mut [i32]) = gaussian::gaussian;
    fn encrypt(s: &ModulusSwitch, mask: [&[u32]; 2], error: &[i32], message: &[u64], out: [&mut [u32]; 2])
        = switch::encrypt;
    fn decrypt(s: &ModulusSwitch, sum: [&[u32]; 2], mask: [&[u32]; 2], out: &mut [u64]) -> u64 = switch::decrypt;
    fn pack(width: u32, words: &[u32], out: &mut [u8]) = pack::pack;
    fn unpack(width: u32, bytes: &[u8], out: &mut [u32]) -> u32 = pack::unpack;
    fn add_packed(width: u32, bytes: &[u8], out: &mut [u32]) -> u32 = pack::add_packed;
    fn sub_packed(width: u32, bytes: &[u8], out: &mut [u32]) -> u32 = pack::sub_packed;
}
