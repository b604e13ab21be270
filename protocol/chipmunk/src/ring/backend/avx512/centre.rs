//! Centred representatives: digits, and the way from the auxiliary pair to the ring it computes for.

use super::arith::{Factor, Modulus, mul_high, mul_lazy, once};
use super::mem::{load, store, store_i32};
use crate::digits::{DigitBase, PAIR_DIGITS, PairDigits};
use crate::ring::backend::{quotient, registers, registers_mut, remainder};
use crate::ring::crt::PairReduction;
use crate::ring::modulus::Prime;
use std::arch::x86_64::*;

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
#[inline]
fn splat(x: u32) -> __m512i {
    _mm512_set1_epi32(x.cast_signed())
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
pub(super) fn centred(prime: &Prime, residues: &[u32], out: &mut [i32]) {
    let (q, half) = (splat(prime.q()), splat(prime.half()));
    for (out, residues) in registers_mut(out).iter_mut().zip(registers(residues)) {
        let x = load(residues);
        store_i32(out, _mm512_mask_sub_epi32(x, _mm512_cmpgt_epu32_mask(x, half), x, q));
    }
}

/// As the portable code: plain digits of the value shifted by (b^3 - 1)/2, each shifted back by (b-1)/2.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
pub(super) fn decompose(prime: &Prime, base: &DigitBase, residues: &[u32], out: [&mut [i32]; 3]) {
    let (q, half, shift) = (splat(prime.q()), splat(prime.half()), splat(base.base().pow(3) >> 1));
    let (b, bound, reciprocal) = (splat(base.base()), splat(base.bound()), splat(base.reciprocal()));
    let [out_0, out_1, out_2] = out.map(registers_mut);
    for (((out_0, out_1), out_2), residues) in out_0.iter_mut().zip(out_1).zip(out_2).zip(registers(residues))
    {
        let x = load(residues);
        let shifted = _mm512_add_epi32(x, shift);
        let value = _mm512_mask_sub_epi32(shifted, _mm512_cmpgt_epu32_mask(x, half), shifted, q);
        let high = mul_high(value, reciprocal, reciprocal);
        let top = mul_high(high, reciprocal, reciprocal);
        let digit = |value, quotient| {
            let rest = _mm512_sub_epi32(value, _mm512_mullo_epi32(quotient, b));
            _mm512_sub_epi32(rest, bound)
        };
        store_i32(out_0, digit(value, high));
        store_i32(out_1, digit(high, top));
        store_i32(out_2, _mm512_sub_epi32(top, bound));
    }
}

/// With `a = (r1 - r0) / q0 mod q1` the lift is `r0 + q0 a`, and it is above half of `q0 q1` just when `(a, r0)` is
/// above `((q1-1)/2, (q0-1)/2)` in lexicographic order.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
pub(super) fn reduce_pair(s: &PairReduction, residues: [&[u32]; 2], out: &mut [u32]) {
    let [p0, p1] = &s.pair;
    let factor = |prime: &Prime, w| Factor::uniform(w, prime.shoup(w));
    let (q1, target) = (splat(p1.q()), Modulus::new(&s.target));
    let target_4 = _mm512_add_epi32(target.q2, target.q2);
    let [half_0, half_1] = [p0, p1].map(|prime| splat(prime.half()));
    let inverse = factor(p1, s.lift.q0_inverse());
    let (one, weight) = (factor(&s.target, 1), factor(&s.target, s.target.reduce(p0.q().into())));
    let wrap = splat(s.target.q() - s.wrap);
    let [r0, r1] = residues.map(registers);
    for ((out, r0), r1) in registers_mut(out).iter_mut().zip(r0).zip(r1) {
        let (r0, r1) = (load(r0), load(r1));
        // The first prime is below twice the second.
        let difference = _mm512_sub_epi32(r1, once(r0, q1));
        let difference = _mm512_min_epu32(difference, _mm512_add_epi32(difference, q1));
        let a = once(mul_lazy(difference, inverse, q1), q1);
        let level = _mm512_cmpeq_epu32_mask(a, half_1);
        let negative = _mm512_cmpgt_epu32_mask(a, half_1) | _mm512_mask_cmpgt_epu32_mask(level, r0, half_0);
        let sum = _mm512_add_epi32(mul_lazy(r0, one, target.q), mul_lazy(a, weight, target.q));
        let sum = _mm512_mask_add_epi32(sum, negative, sum, wrap);
        store(out, once(once(once(sum, target_4), target.q2), target.q));
    }
}

/// The lift is `q0 a + r0` with `a` as in [`reduce_pair`], so with B = b^2 it is `B h + l` for `h = a - c` and
/// `l = r0 - (B - q0) a + B c`, where c is the quotient of `(B - q0) a` by B or one less. Two digits are in each.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
pub(super) fn decompose_pair(s: &PairDigits, residues: [&[u32]; 2], out: [&mut [u32]; 4]) {
    let [p0, p1] = &s.pair.primes;
    let square = s.base.base().pow(2);
    let excess = square - p0.q();
    let (q1, inverse) = (splat(p1.q()), s.pair.lift.q0_inverse());
    let inverse = Factor::uniform(inverse, p1.shoup(inverse));
    let [half_0, half_1] = [p0, p1].map(|prime| splat(prime.half()));
    let carry = splat(quotient(u64::from(excess) << 32, square));
    // The product of the primes in base B, taken off where the lift is centred below zero.
    let product = s.pair.lift.modulus();
    let product_high = splat(quotient(product, square));
    let product_low = splat(remainder(product, square));
    // (b^4 - 1)/2 has (B - 1)/2 in both places; l is between -1.6 B and 1.6 B then, so 2 B moves down to it.
    let (shift_high, shift_low) = (splat(square / 2 - 2), splat(square / 2 + 2 * square));
    let (square, square_2, excess) = (splat(square), splat(2 * square), splat(excess));
    let (one, two) = (splat(1), splat(2));
    let (b, reciprocal) = (splat(s.base.base()), splat(s.base.reciprocal()));
    let [out_0, out_1, out_2, out_3] = out.map(registers_mut);
    let out = out_0.iter_mut().zip(out_1).zip(out_2.iter_mut().zip(out_3));
    let [r0, r1] = residues.map(registers);
    for (((out_0, out_1), (out_2, out_3)), (r0, r1)) in out.zip(r0.iter().zip(r1)) {
        let (r0, r1) = (load(r0), load(r1));
        let difference = _mm512_sub_epi32(r1, once(r0, q1));
        let difference = _mm512_min_epu32(difference, _mm512_add_epi32(difference, q1));
        let a = once(mul_lazy(difference, inverse, q1), q1);
        let level = _mm512_cmpeq_epu32_mask(a, half_1);
        let negative = _mm512_cmpgt_epu32_mask(a, half_1) | _mm512_mask_cmpgt_epu32_mask(level, r0, half_0);
        let c = mul_high(a, carry, carry);
        let high = _mm512_add_epi32(_mm512_sub_epi32(a, c), shift_high);
        let low = _mm512_sub_epi32(_mm512_mullo_epi32(c, square), _mm512_mullo_epi32(a, excess));
        let low = _mm512_add_epi32(_mm512_add_epi32(low, r0), shift_low);
        let high = _mm512_mask_sub_epi32(high, negative, high, product_high);
        let low = _mm512_mask_sub_epi32(low, negative, low, product_low);
        let carries = _mm512_cmpge_epu32_mask(low, square_2);
        let low = _mm512_mask_sub_epi32(low, carries, low, square_2);
        let high = _mm512_mask_add_epi32(high, carries, high, two);
        let carries = _mm512_cmpge_epu32_mask(low, square);
        let low = _mm512_mask_sub_epi32(low, carries, low, square);
        let high = _mm512_mask_add_epi32(high, carries, high, one);
        let two_digits = |value| {
            let top = _mm512_srli_epi32::<{ DigitBase::<PAIR_DIGITS>::EXTRA }>(mul_high(
                value, reciprocal, reciprocal,
            ));
            (_mm512_sub_epi32(value, _mm512_mullo_epi32(top, b)), top)
        };
        let ((low_0, low_1), (high_0, high_1)) = (two_digits(low), two_digits(high));
        store(out_0, low_0);
        store(out_1, low_1);
        store(out_2, high_0);
        store(out_3, high_1);
    }
}

/// Two digits at a time, as `l + b^2 h`: each in `[0, 2q)` once its factor is in, and the excess makes it 5q.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
pub(super) fn recompose_pair(s: &PairDigits, offset: u32, digits: [&[u32]; 4], out: [&mut [u32]; 2]) {
    let b = splat(s.base.base());
    let [d0, d1, d2, d3] = digits.map(registers);
    let constants = s.pair.primes.each_ref().map(|prime| {
        let factor = |w| Factor::uniform(w, prime.shoup(w));
        let m = Modulus::new(prime);
        let square = factor(prime.reduce(u64::from(s.base.base()).pow(2)));
        (m, _mm512_add_epi32(m.q2, m.q2), factor(1), square, splat(prime.q() - s.excess(prime, offset)))
    });
    let [out_0, out_1] = out.map(registers_mut);
    for (i, outs) in out_0.iter_mut().zip(out_1).enumerate() {
        let (d0, d1, d2, d3) = (load(&d0[i]), load(&d1[i]), load(&d2[i]), load(&d3[i]));
        let low = _mm512_add_epi32(d0, _mm512_mullo_epi32(d1, b));
        let high = _mm512_add_epi32(d2, _mm512_mullo_epi32(d3, b));
        for (out, (m, q4, one, square, rest)) in [outs.0, outs.1].into_iter().zip(constants) {
            let sum = _mm512_add_epi32(mul_lazy(low, one, m.q), mul_lazy(high, square, m.q));
            store(out, once(once(once(_mm512_add_epi32(sum, rest), q4), m.q2), m.q));
        }
    }
}
