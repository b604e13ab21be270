//! Between plaintext, KAHE and WIRE moduli: what turns a masked message into a ciphertext and a summed ciphertext into
//! the summed message, one pass over the coefficients each.
//!
//! Encryption of coefficient m under mask value y = (a s) and error e: `c = y + e + round(q m / t) mod q`, then
//! `round(c Q / q) mod Q`, in WIRE limbs. Decryption of a sum C: `x = round(C q / Q) - y mod q`, then
//! `round(x t / q) mod t` and the residual `x t - q round(x t / q)`. Everything is exact.

use super::backend::Kernels;
use super::rescale::{PrimePair, Rescale};
use super::{Coeff, Kahe, Poly, RingContext, ShortPoly, Wire};
use crate::N;

/// The maps of one parameter set and plaintext modulus.
#[derive(Debug)]
pub struct ModulusSwitch {
    kernels: &'static Kernels,
    pub(super) kahe: PrimePair,
    pub(super) wire: PrimePair,
    pub(super) t: u64,
    pub(super) message_to_kahe: Rescale,
    pub(super) kahe_to_wire: Rescale,
    pub(super) wire_to_kahe: Rescale,
    pub(super) kahe_to_message: Rescale,
}

/// Errors of an encryption are below this in magnitude.
pub const MAX_ERROR: u32 = 1 << 15;

/// Above every plaintext modulus.
const MAX_PLAINTEXT: u64 = 1 << 36;

impl ModulusSwitch {
    /// Precomputes the maps for the plaintext modulus `t`.
    ///
    /// # Panics
    /// If `t` is not below 2^36, the KAHE modulus not of 49 bits or the WIRE modulus not of 35 to 44: both are compiled in.
    pub fn new(kahe: &RingContext<Kahe>, wire: &RingContext<Wire>, t: u64) -> Self {
        let (kahe_pair, wire_pair) = (PrimePair::new(kahe), PrimePair::new(wire));
        let (q, wire_q) = (kahe_pair.lift.modulus(), wire_pair.lift.modulus());
        assert!(
            t < MAX_PLAINTEXT && wire_q < 1 << 44 && (1 << 48..1 << 49).contains(&q),
            "moduli of the set"
        );
        Self {
            kernels: kahe.kernels(),
            t,
            message_to_kahe: Rescale::new(q, t),
            kahe_to_wire: Rescale::new(wire_q, q),
            wire_to_kahe: Rescale::new(q, wire_q),
            kahe_to_message: Rescale::new(t, q),
            kahe: kahe_pair,
            wire: wire_pair,
        }
    }

    /// Puts the ciphertext of `message` into `out`. Constant time.
    ///
    /// `mask` is a s; `error` has magnitudes below [`MAX_ERROR`]; `message` is 2048 coefficients in `[0, t)`.
    pub fn encrypt(
        &self,
        mask: &Poly<Kahe, Coeff>,
        error: &ShortPoly,
        message: &[u64],
        out: &mut Poly<Wire, Coeff>,
    ) {
        assert_eq!(message.len(), N, "a message polynomial has 2048 coefficients");
        debug_assert!(error.norm() < MAX_ERROR && message.iter().all(|&m| m < self.t));
        let mask = [mask.limb(0), mask.limb(1)];
        (self.kernels.encrypt)(self, mask, error.coefficients(), message, out.limbs_mut());
    }

    /// Puts the message of a sum of ciphertexts into `out`, 2048 coefficients in `[0, t)`, and returns the largest
    /// magnitude of a residual, in units of 1/q of a plaintext step: a whole half-range is q/2. Constant time.
    ///
    /// `sum` is the unreduced sums of the WIRE limbs, limb-major; `mask` is a s for the summed key s.
    pub fn decrypt(&self, sum: &[u32], mask: &Poly<Kahe, Coeff>, out: &mut [u64]) -> u64 {
        assert_eq!((sum.len(), out.len()), (2 * N, N), "one polynomial");
        let (first, second) = sum.split_at(N);
        (self.kernels.decrypt)(self, [first, second], [mask.limb(0), mask.limb(1)], out)
    }

    /// The KAHE modulus q.
    pub const fn modulus(&self) -> u64 {
        self.kahe.lift.modulus()
    }
}

#[cfg(test)]
mod tests {
    use super::super::backend;
    use super::*;
    use crate::params::{P300, P1000};
    use proptest::prelude::*;

    /// Nearest integer to `n / d`, ties up, by the definition.
    fn round(n: i128, d: i128) -> i128 {
        (2 * n + d).div_euclid(2 * d)
    }

    /// The integer in `[0, q0 q1)` with these residues, with Fermat's inverse.
    fn garner(pair: [u32; 2], residues: [u32; 2]) -> i128 {
        let [q0, q1] = pair.map(i128::from);
        let [r0, r1] = residues.map(i128::from);
        let bits = (0..32).rev().map(|bit| (q1 - 2) >> bit & 1);
        let inverse = bits.fold(1, |x, bit| x * x % q1 * if bit == 1 { q0 } else { 1 } % q1);
        assert_eq!(inverse * q0 % q1, 1);
        r0 + q0 * ((r1 - r0) * inverse).rem_euclid(q1)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn both_ways_are_the_definition(m in any::<u64>(), y in any::<[u32; 2]>(), c in any::<[u32; 2]>(), e in -144i32..=144) {
            for set in [&P300, &P1000] {
                let kahe = RingContext::<Kahe>::new(&set.kahe, backend::under_test());
                let wire = RingContext::<Wire>::new(&set.wire, backend::under_test());
                let [q, wire_q] = [set.kahe, set.wire].map(|pair| pair.map(i128::from).iter().product::<i128>());
                for t in [set.plaintext_power, set.plaintext_prime] {
                    let switch = ModulusSwitch::new(&kahe, &wire, t);
                    for m in [m % t, 0, t - 1, t / 2] {
                        let y = [y[0] % set.kahe[0], y[1] % set.kahe[1]];
                        let mut mask = Poly::<Kahe, Coeff>::zero();
                        let mut error = ShortPoly::zero();
                        let (mut message, mut sum) = (vec![0; N], vec![0; 2 * N]);
                        // One coefficient, at a place of its own; the others are zero.
                        let at = usize::try_from(m % 2048).unwrap();
                        (mask.limb_mut(0)[at], mask.limb_mut(1)[at]) = (y[0], y[1]);
                        error.coefficients_mut()[at] = e;
                        message[at] = m;
                        (sum[at], sum[N + at]) = (c[0], c[1]);

                        let lifted = garner(set.kahe, y);
                        let t = i128::from(t);
                        let masked = (lifted + i128::from(e) + round(q * i128::from(m), t)).rem_euclid(q);
                        let expected = round(masked * wire_q, q).rem_euclid(wire_q);
                        let mut out = Poly::zero();
                        switch.encrypt(&mask, &error, &message, &mut out);
                        for limb in 0..2 {
                            let residue = expected % i128::from(set.wire[limb]);
                            prop_assert_eq!(i128::from(out.limb(limb)[at]), residue);
                        }

                        let residues = [c[0] % set.wire[0], c[1] % set.wire[1]];
                        let x = (round(garner(set.wire, residues) * q, wire_q) - lifted).rem_euclid(q);
                        let k = round(x * t, q);
                        let mut opened = vec![0; N];
                        let largest = switch.decrypt(&sum, &mask, &mut opened);
                        prop_assert_eq!(i128::from(opened[at]), k.rem_euclid(t));
                        // The zero coefficients leave no residual.
                        prop_assert_eq!(i128::from(largest), (x * t - k * q).abs());
                    }
                }
            }
        }
    }
}
