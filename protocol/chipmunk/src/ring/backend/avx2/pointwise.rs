//! Slot-by-slot arithmetic.

use super::arith::{Factor, Modulus, high_words, mul_lazy, once};
use super::mem::{load, load_i32, store};
use crate::ring::backend::{MAX_UNREDUCED, registers, registers_mut};
use crate::ring::modulus::Prime;
use std::arch::x86_64::*;

#[target_feature(enable = "avx2")]
pub(super) fn add(prime: &Prime, a: &mut [u32], b: &[u32]) {
    let q = Modulus::new(prime).q;
    for (a, b) in registers_mut(a).iter_mut().zip(registers(b)) {
        let sum = _mm256_add_epi32(load(a), load(b));
        store(a, once(sum, q));
    }
}

#[target_feature(enable = "avx2")]
pub(super) fn sub(prime: &Prime, a: &mut [u32], b: &[u32]) {
    let q = Modulus::new(prime).q;
    for (a, b) in registers_mut(a).iter_mut().zip(registers(b)) {
        let difference = _mm256_sub_epi32(load(a), load(b));
        store(a, _mm256_min_epu32(difference, _mm256_add_epi32(difference, q)));
    }
}

/// Barrett: with n the bit length of q, the product's top n + 1 bits times floor(2^(n + 31) / q) estimate the quotient.
/// The dropped bits cost less than 2^(n-1) / q < 1, the constant's rounding at most 2^(n+1) / 2^32 <= 1/2, the last
/// rounding less than 1: the remainder is below 3q.
#[target_feature(enable = "avx2")]
pub(super) fn mul(prime: &Prime, out: &mut [u32], a: &[u32], b: &[u32]) {
    let m = Modulus::new(prime);
    let bits = u32::BITS - prime.q().leading_zeros();
    let shift = _mm256_set1_epi64x(i64::from(bits - 1));
    let reciprocal = _mm256_set1_epi64x(((1u64 << (bits + 31)) / u64::from(prime.q())).cast_signed());
    for ((out, a), b) in registers_mut(out).iter_mut().zip(registers(a)).zip(registers(b)) {
        let (a, b) = (load(a), load(b));
        let even = _mm256_mul_epu32(a, b);
        let odd = _mm256_mul_epu32(_mm256_srli_epi64::<32>(a), _mm256_srli_epi64::<32>(b));
        let even = _mm256_mul_epu32(_mm256_srlv_epi64(even, shift), reciprocal);
        let odd = _mm256_mul_epu32(_mm256_srlv_epi64(odd, shift), reciprocal);
        let quotient = high_words(even, odd);
        let rest = _mm256_sub_epi32(_mm256_mullo_epi32(a, b), _mm256_mullo_epi32(quotient, m.q));
        store(out, once(once(rest, m.q2), m.q));
    }
}

/// Registers of a row that advance together, so that finding a row's place is paid for once.
const TOGETHER: usize = 4;

/// Adds up products: `product` makes those of one term, of even and of odd slots, for each register of a group.
///
/// Sums of even and of odd slots in 64-bit lanes. A sum is its high words times 2^32 mod q and its low words times 1,
/// each in `[0, 2q)`.
#[target_feature(enable = "avx2")]
#[inline]
fn add_products<T>(
    prime: &Prime,
    terms: &[T],
    out: &mut [u32],
    product: impl Fn(&T, usize) -> [[__m256i; 2]; TOGETHER],
) {
    let m = Modulus::new(prime);
    let factor = |w| Factor::uniform(w, prime.shoup(w));
    let (one, power) = (factor(1), factor(prime.reduce(1 << 32)));
    let low_word = _mm256_set1_epi64x(0xFFFF_FFFF);
    for (group, out) in registers_mut::<{ 8 * TOGETHER }, _>(out).iter_mut().enumerate() {
        let out = registers_mut::<8, _>(out);
        let mut sums: [__m256i; TOGETHER] = std::array::from_fn(|r| load(&out[r]));
        for terms in terms.chunks(MAX_UNREDUCED) {
            let mut wide = [[_mm256_setzero_si256(); 2]; TOGETHER];
            for (wide, &sum) in wide.iter_mut().zip(&sums) {
                *wide = [_mm256_and_si256(sum, low_word), _mm256_srli_epi64::<32>(sum)];
            }
            for term in terms {
                for ([even, odd], products) in wide.iter_mut().zip(product(term, group)) {
                    *even = _mm256_add_epi64(*even, products[0]);
                    *odd = _mm256_add_epi64(*odd, products[1]);
                }
            }
            for (sum, [even, odd]) in sums.iter_mut().zip(wide) {
                // Low words of the sums and high words, each in the order of the slots.
                let low = _mm256_blend_epi32::<0b1010_1010>(even, _mm256_shuffle_epi32::<0b10_10_00_00>(odd));
                let high = high_words(even, odd);
                let lazy = _mm256_add_epi32(mul_lazy(low, one, m.q), mul_lazy(high, power, m.q));
                *sum = once(once(lazy, m.q2), m.q);
            }
        }
        out.iter_mut().zip(sums).for_each(|(out, sum)| store(out, sum));
    }
}

/// A group of registers of a row.
#[inline(always)]
fn group(row: &[u32], at: usize) -> &[[u32; 8]; TOGETHER] {
    let (registers, _) = row.as_chunks::<{ 8 * TOGETHER }>().0[at].as_chunks();
    registers.as_array().expect("a group of registers")
}

#[target_feature(enable = "avx2")]
pub(super) fn dot(prime: &Prime, terms: &[[&[u32]; 2]], out: &mut [u32]) {
    assert!(terms.iter().flatten().all(|row| row.len() == out.len()), "rows of one length");
    add_products(prime, terms, out, |term, at| {
        let (a, b) = (group(term[0], at), group(term[1], at));
        std::array::from_fn(|r| {
            let (a, b) = (load(&a[r]), load(&b[r]));
            [_mm256_mul_epu32(a, b), _mm256_mul_epu32(_mm256_srli_epi64::<32>(a), _mm256_srli_epi64::<32>(b))]
        })
    });
}

#[target_feature(enable = "avx2")]
pub(super) fn combine(prime: &Prime, terms: &[(u32, &[u32])], out: &mut [u32]) {
    assert!(terms.iter().all(|(_, row)| row.len() == out.len()), "rows of one length");
    add_products(prime, terms, out, |&(factor, row), at| {
        let (factor, row) = (_mm256_set1_epi32(factor.cast_signed()), group(row, at));
        std::array::from_fn(|r| {
            let x = load(&row[r]);
            [_mm256_mul_epu32(x, factor), _mm256_mul_epu32(_mm256_srli_epi64::<32>(x), factor)]
        })
    });
}

#[target_feature(enable = "avx2")]
pub(super) fn scale(prime: &Prime, a: &mut [u32], scalar: u32) {
    let q = Modulus::new(prime).q;
    let factor = Factor::uniform(scalar, prime.shoup(scalar));
    for a in registers_mut(a) {
        store(a, once(mul_lazy(load(a), factor, q), q));
    }
}

#[target_feature(enable = "avx2")]
pub(super) fn from_signed(prime: &Prime, out: &mut [u32], values: &[i32]) {
    debug_assert!(values.iter().all(|v| v.unsigned_abs() < prime.q()));
    let q = Modulus::new(prime).q;
    for (out, value) in registers_mut(out).iter_mut().zip(registers(values)) {
        // A negative value is a huge word, so the smaller word is the residue.
        let value = load_i32(value);
        store(out, _mm256_min_epu32(value, _mm256_add_epi32(value, q)));
    }
}
