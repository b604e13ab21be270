//! Centred representatives: digits, and the way from the auxiliary pair to the ring it computes for.

use super::arith::{Factor, Modulus, mul_high, mul_lazy, once};
use super::mem::{load, store, store_i32};
use crate::digits::DigitBase;
use crate::ring::backend::{registers, registers_mut};
use crate::ring::crt::PairReduction;
use crate::ring::modulus::Prime;
use std::arch::x86_64::*;

#[target_feature(enable = "avx2")]
#[inline]
fn splat(x: u32) -> __m256i {
    _mm256_set1_epi32(x.cast_signed())
}

#[target_feature(enable = "avx2")]
pub(super) fn centred(prime: &Prime, residues: &[u32], out: &mut [i32]) {
    let (q, half) = (splat(prime.q()), splat(prime.half()));
    for (out, residues) in registers_mut(out).iter_mut().zip(registers(residues)) {
        let x = load(residues);
        // Below 2^30, so that a signed comparison serves.
        store_i32(out, _mm256_sub_epi32(x, _mm256_and_si256(_mm256_cmpgt_epi32(x, half), q)));
    }
}

/// As the portable code: plain digits of the value shifted by (b^3 - 1)/2, each shifted back by (b-1)/2.
#[target_feature(enable = "avx2")]
pub(super) fn decompose(prime: &Prime, base: &DigitBase, residues: &[u32], out: [&mut [i32]; 3]) {
    let (q, half, shift) = (splat(prime.q()), splat(prime.half()), splat(base.base().pow(3) >> 1));
    let (b, bound, reciprocal) = (splat(base.base()), splat(base.bound()), splat(base.reciprocal()));
    let [out_0, out_1, out_2] = out.map(registers_mut);
    for (((out_0, out_1), out_2), residues) in out_0.iter_mut().zip(out_1).zip(out_2).zip(registers(residues))
    {
        let x = load(residues);
        let shifted = _mm256_add_epi32(x, shift);
        let value = _mm256_sub_epi32(shifted, _mm256_and_si256(_mm256_cmpgt_epi32(x, half), q));
        let high = mul_high(value, reciprocal, reciprocal);
        let top = mul_high(high, reciprocal, reciprocal);
        let digit = |value, quotient| {
            let rest = _mm256_sub_epi32(value, _mm256_mullo_epi32(quotient, b));
            _mm256_sub_epi32(rest, bound)
        };
        store_i32(out_0, digit(value, high));
        store_i32(out_1, digit(high, top));
        store_i32(out_2, _mm256_sub_epi32(top, bound));
    }
}

/// With `a = (r1 - r0) / q0 mod q1` the lift is `r0 + q0 a`, and it is above half of `q0 q1` just when `(a, r0)` is
/// above `((q1-1)/2, (q0-1)/2)` in lexicographic order.
#[target_feature(enable = "avx2")]
pub(super) fn reduce_pair(s: &PairReduction, residues: [&[u32]; 2], out: &mut [u32]) {
    let [p0, p1] = &s.pair;
    let factor = |prime: &Prime, w| Factor::uniform(w, prime.shoup(w));
    let (q1, target) = (splat(p1.q()), Modulus::new(&s.target));
    let target_4 = _mm256_add_epi32(target.q2, target.q2);
    let [half_0, half_1] = [p0, p1].map(|prime| splat(prime.half()));
    let inverse = factor(p1, s.lift.q0_inverse());
    let (one, weight) = (factor(&s.target, 1), factor(&s.target, s.target.reduce(p0.q().into())));
    let wrap = splat(s.target.q() - s.wrap);
    let [r0, r1] = residues.map(registers);
    for ((out, r0), r1) in registers_mut(out).iter_mut().zip(r0).zip(r1) {
        let (r0, r1) = (load(r0), load(r1));
        // The first prime is below twice the second.
        let difference = _mm256_sub_epi32(r1, once(r0, q1));
        let difference = _mm256_min_epu32(difference, _mm256_add_epi32(difference, q1));
        let a = once(mul_lazy(difference, inverse, q1), q1);
        let level = _mm256_and_si256(_mm256_cmpeq_epi32(a, half_1), _mm256_cmpgt_epi32(r0, half_0));
        let negative = _mm256_or_si256(_mm256_cmpgt_epi32(a, half_1), level);
        let sum = _mm256_add_epi32(mul_lazy(r0, one, target.q), mul_lazy(a, weight, target.q));
        let sum = _mm256_add_epi32(sum, _mm256_and_si256(negative, wrap));
        store(out, once(once(once(sum, target_4), target.q2), target.q));
    }
}
