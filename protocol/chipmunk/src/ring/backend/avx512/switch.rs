//! Between plaintext, KAHE and WIRE moduli, eight coefficients at a time.

use super::arith::{Modulus, low_words, once};
use super::fixed::{Factor, Montgomery, Residue, Scale, Scaled, high, low, splat, zero};
use super::mem::{load_u64, store, store_u64, widen, widen_i32};
use crate::ring::backend::{registers, registers_mut};
use crate::ring::rescale::PrimePair;
use crate::ring::switch::ModulusSwitch;
use std::arch::x86_64::*;

/// The lift from two KAHE residues: `r0 + q0 ((r1 - r0) / q0 mod q1)`.
#[derive(Clone, Copy)]
struct KaheLift {
    q0: __m512i,
    q1: __m512i,
    /// A multiple of q1 at or above q0.
    offset: __m512i,
    q0_inverse: __m512i,
}

impl KaheLift {
    #[target_feature(enable = "avx512f")]
    fn new(pair: &PrimePair) -> Self {
        let [q0, q1] = pair.primes.each_ref().map(|prime| u64::from(prime.q()));
        let offset = q0.next_multiple_of(q1);
        assert!((offset + q1) * q1 < 1 << 52, "primes of 25 bits");
        let montgomery = Montgomery::new(pair.primes[1].q());
        Self {
            q0: splat(q0),
            q1: splat(q1),
            offset: splat(offset),
            q0_inverse: splat(montgomery.constant(pair.lift.q0_inverse())),
        }
    }

    #[target_feature(enable = "avx512f,avx512ifma")]
    #[inline]
    fn lift(&self, r0: __m512i, r1: __m512i) -> __m512i {
        let difference = _mm512_sub_epi64(_mm512_add_epi64(r1, self.offset), r0);
        let digit = high(zero(), low(zero(), difference, self.q0_inverse), self.q1);
        low(r0, self.q0, digit)
    }
}

/// A lift from any two words, taken as residues of the WIRE primes: below `Q + q0 + 2^32`.
#[derive(Clone, Copy)]
struct WireLift {
    q0: __m512i,
    /// A multiple of q1 at or above 2^32.
    offset: __m512i,
    q0_inverse: Factor,
}

impl WireLift {
    #[target_feature(enable = "avx512f")]
    fn new(pair: &PrimePair) -> Self {
        let [q0, q1] = pair.primes.each_ref().map(|prime| u64::from(prime.q()));
        Self {
            q0: splat(q0),
            offset: splat((1u64 << 32).next_multiple_of(q1)),
            q0_inverse: Factor::new(pair.lift.q0_inverse(), pair.primes[1].q()),
        }
    }

    #[target_feature(enable = "avx512f,avx512ifma")]
    #[inline]
    fn lift(&self, w0: __m512i, w1: __m512i) -> __m512i {
        let difference = _mm512_sub_epi64(_mm512_add_epi64(w1, self.offset), w0);
        low(w0, self.q0, self.q0_inverse.mul(difference))
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512ifma")]
pub(super) fn encrypt(
    s: &ModulusSwitch,
    mask: [&[u32]; 2],
    error: &[i32],
    message: &[u64],
    out: [&mut [u32]; 2],
) {
    let lift = KaheLift::new(&s.kahe);
    // A lift, an error made positive by q, and a scaled message that may be q itself: below 3q < 2^51.
    let (scale, switch) = (Scale::new(&s.message_to_kahe, 36), Scale::new(&s.kahe_to_wire, 51));
    let q = splat(s.kahe.lift.modulus());
    let wire = s.wire.primes.each_ref().map(|prime| (Residue::new(prime.q()), Modulus::new(prime).q));

    let ciphertext = |r0, r1, error, message| {
        let masked = _mm512_add_epi64(lift.lift(widen(r0), widen(r1)), widen_i32(error));
        let scaled = scale.apply(load_u64(message)).quotient;
        // A quotient of Q or more stands for the same residues.
        switch.apply_unshifted(_mm512_add_epi64(_mm512_add_epi64(masked, scaled), q)).quotient
    };

    let [out_0, out_1] = out.map(registers_mut::<16, _>);
    let [r0, r1] = mask.map(|limb| registers::<2, _>(registers::<8, _>(limb)));
    let error = registers::<2, _>(registers::<8, _>(error));
    let message = registers::<2, _>(registers::<8, _>(message));
    for (((((out_0, out_1), r0), r1), error), message) in
        out_0.iter_mut().zip(out_1).zip(r0).zip(r1).zip(error).zip(message)
    {
        let c = [0, 1].map(|half| ciphertext(&r0[half], &r1[half], &error[half], &message[half]));
        for (out, (residue, q)) in [out_0, out_1].into_iter().zip(wire) {
            store(out, once(low_words(residue.of(c[0]), residue.of(c[1])), q));
        }
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512ifma")]
pub(super) fn decrypt(s: &ModulusSwitch, sum: [&[u32]; 2], mask: [&[u32]; 2], out: &mut [u64]) -> u64 {
    let (wire, kahe) = (WireLift::new(&s.wire), KaheLift::new(&s.kahe));
    let wire_bits = u64::BITS - (s.wire.lift.modulus() + (1 << 33)).leading_zeros();
    let (switch, scale) = (Scale::new(&s.wire_to_kahe, wire_bits), Scale::new(&s.kahe_to_message, 51));
    let (q, t) = (splat(s.kahe.lift.modulus()), splat(s.t));
    let half = splat(s.kahe.lift.modulus() >> 1);
    let mut largest = _mm512_setzero_si512();
    let [w0, w1] = sum.map(registers);
    let [r0, r1] = mask.map(registers);
    for ((((out, w0), w1), r0), r1) in registers_mut(out).iter_mut().zip(w0).zip(w1).zip(r0).zip(r1) {
        let c = switch.apply(wire.lift(widen(w0), widen(w1))).quotient;
        // Above 0 and below 2q + q (q0 + 2^32) / Q + 1 < 2^51: congruent to what the scalar code reduces.
        let x = _mm512_sub_epi64(_mm512_add_epi64(c, q), kahe.lift(widen(r0), widen(r1)));
        let Scaled { quotient, remainder } = scale.apply_unshifted(x);
        let residual = _mm512_abs_epi64(_mm512_sub_epi64(remainder, half));
        largest = _mm512_max_epu64(largest, residual);
        // At most 2t + t (q0 + 2^32) / Q + 2, which is below 3t.
        let m = _mm512_min_epu64(quotient, _mm512_sub_epi64(quotient, t));
        store_u64(out, _mm512_min_epu64(m, _mm512_sub_epi64(m, t)));
    }
    _mm512_reduce_max_epu64(largest)
}
