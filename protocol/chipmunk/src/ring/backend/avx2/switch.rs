//! Between plaintext, KAHE and WIRE moduli, four coefficients at a time.

use super::arith::Modulus;
use super::float::{Divisor, Scale, Scaled, from_u64, splat, to_u64, wrap};
use super::mem::{load_signed, load_u64, store, store_u64, widen};
use crate::ring::backend::{registers, registers_mut};
use crate::ring::rescale::PrimePair;
use crate::ring::switch::ModulusSwitch;
use std::arch::x86_64::*;

/// The lift from two residues, `r0 + q0 ((r1 - r0) / q0 mod q1)` with the quotient centred: of magnitude at most
/// `q0 q1 / 2 + q0` above that of r0.
#[derive(Clone, Copy)]
struct Lift {
    q0: __m256d,
    q1: Divisor,
    q0_inverse: __m256d,
}

impl Lift {
    #[target_feature(enable = "avx2")]
    fn new(pair: &PrimePair) -> Self {
        let [q0, q1] = pair.primes.each_ref().map(|prime| prime.q());
        Self {
            q0: splat(q0.into()),
            q1: Divisor::new(q1.into()),
            q0_inverse: splat(pair.lift.q0_inverse().into()),
        }
    }

    /// Of canonical residues below 2^25: the product below is below 2^50.
    #[target_feature(enable = "avx2,fma")]
    #[inline]
    fn lift(&self, r0: __m256d, r1: __m256d) -> __m256d {
        let product = _mm256_mul_pd(_mm256_sub_pd(r1, r0), self.q0_inverse);
        _mm256_fmadd_pd(self.q0, self.q1.residue(product), r0)
    }

    /// Of any two words, taken as residues of primes below 2^22.
    #[target_feature(enable = "avx2,fma")]
    #[inline]
    fn lift_words(&self, r0: __m256d, r1: __m256d) -> __m256d {
        let difference = self.q1.residue(_mm256_sub_pd(r1, r0));
        let product = _mm256_mul_pd(difference, self.q0_inverse);
        _mm256_fmadd_pd(self.q0, self.q1.residue(product), r0)
    }
}

#[target_feature(enable = "avx2,fma")]
pub(super) fn encrypt(
    s: &ModulusSwitch,
    mask: [&[u32]; 2],
    error: &[i32],
    message: &[u64],
    out: [&mut [u32]; 2],
) {
    let lift = Lift::new(&s.kahe);
    let (scale, switch) = (Scale::new(&s.message_to_kahe), Scale::new(&s.kahe_to_wire));
    let wire = s.wire.primes.each_ref().map(|prime| (Divisor::new(prime.q().into()), Modulus::new(prime).q));

    let ciphertext = |r0, r1, error, message| {
        let masked = _mm256_add_pd(lift.lift(load_signed(r0), load_signed(r1)), load_signed(error));
        let scaled = scale.apply(from_u64(load_u64(message))).quotient;
        // Between -q and 2q; a quotient that is off by Q stands for the same residues.
        switch.apply(_mm256_add_pd(masked, scaled)).quotient
    };

    let [out_0, out_1] = out.map(registers_mut::<8, _>);
    let [r0, r1] = mask.map(pairs);
    for (((((out_0, out_1), r0), r1), error), message) in
        out_0.iter_mut().zip(out_1).zip(r0).zip(r1).zip(pairs(error)).zip(pairs(message))
    {
        let c = [0, 1].map(|half| ciphertext(&r0[half], &r1[half], &error[half], &message[half]));
        for (out, (divisor, q)) in [out_0, out_1].into_iter().zip(wire) {
            let [low, high] = c.map(|c| _mm256_cvtpd_epi32(divisor.residue(c)));
            // A negative word is huge, so the smaller one is the canonical residue.
            let residue = _mm256_set_m128i(high, low);
            store(out, _mm256_min_epu32(residue, _mm256_add_epi32(residue, q)));
        }
    }
}

#[target_feature(enable = "avx2,fma")]
pub(super) fn decrypt(s: &ModulusSwitch, sum: [&[u32]; 2], mask: [&[u32]; 2], out: &mut [u64]) -> u64 {
    let (wire, kahe) = (Lift::new(&s.wire), Lift::new(&s.kahe));
    let (switch, scale) = (Scale::new(&s.wire_to_kahe), Scale::new(&s.kahe_to_message));
    let q = Divisor::new(s.kahe.lift.modulus());
    let t = from_u64(_mm256_set1_epi64x(s.t.cast_signed()));
    let sign = splat(-0.0);
    let mut largest = _mm256_setzero_pd();
    let [w0, w1] = sum.map(registers);
    let [r0, r1] = mask.map(registers);
    for ((((out, w0), w1), r0), r1) in registers_mut(out).iter_mut().zip(w0).zip(w1).zip(r0).zip(r1) {
        let c = switch.apply(wire.lift_words(from_u64(widen(w0)), from_u64(widen(w1)))).quotient;
        let masked = _mm256_sub_pd(c, kahe.lift(load_signed(r0), load_signed(r1)));
        // Centred, so that the message is above -t.
        let Scaled { quotient, residual } = scale.apply(q.residue(masked));
        largest = _mm256_max_pd(largest, _mm256_andnot_pd(sign, residual));
        store_u64(out, to_u64(wrap(quotient, t)));
    }
    let mut lanes = [0; 4];
    store_u64(&mut lanes, to_u64(largest));
    lanes.into_iter().fold(0, u64::max)
}

/// A slice cut into pairs of quarter-registers.
fn pairs<T>(x: &[T]) -> &[[[T; 4]; 2]] {
    registers(registers(x))
}
