//! Exact rounding between moduli, and the lift from two residues, without a division and without a branch.

#![expect(
    clippy::cast_possible_truncation,
    reason = "halves of u128 products whose ranges the comments give"
)]

use super::modulus::Prime;
use super::{Ring, RingContext};

/// `x -> round(x * numerator / denominator)`, to nearest, ties up, in exact integer arithmetic.
///
/// Ranges: `x * numerator < 2^99` and the result below 2^62; denominator in `2^34..2^52`. Constant time in x.
#[derive(Clone, Copy, Debug)]
pub struct Rescale {
    numerator: u64,
    denominator: u64,
    /// floor(2^(bits + 63) / denominator), at most 2^64 - 1.
    reciprocal: u64,
    /// Bit length of the denominator.
    bits: u32,
}

impl Rescale {
    /// Precomputes the reciprocal.
    ///
    /// # Panics
    /// If the denominator is outside `2^34..2^52`: moduli are compiled in.
    pub fn new(numerator: u64, denominator: u64) -> Self {
        assert!((1 << 34..1 << 52).contains(&denominator), "a modulus of 35 to 52 bits");
        let bits = u64::BITS - denominator.leading_zeros();
        let reciprocal = (1u128 << (bits + 63)) / u128::from(denominator);
        // A power of two gives exactly 2^64; one less costs one more correction below.
        let reciprocal = u64::try_from(reciprocal).unwrap_or(u64::MAX);
        Self { numerator, denominator, reciprocal, bits }
    }

    /// The factor.
    pub const fn numerator(&self) -> u64 {
        self.numerator
    }

    /// The divisor.
    pub const fn denominator(&self) -> u64 {
        self.denominator
    }

    /// The rounded quotient.
    #[inline]
    pub const fn apply(&self, x: u64) -> u64 {
        self.apply_with_remainder(x).0
    }

    /// The rounded quotient, and by how much `x * numerator` lies above the quotient's multiple of the denominator:
    /// an integer in `[-floor(denominator / 2), ceil(denominator / 2))`.
    #[inline]
    pub const fn apply_with_remainder(&self, x: u64) -> (u64, i64) {
        let half = self.denominator >> 1;
        let y = x as u128 * self.numerator as u128 + half as u128;
        let high = (y >> (self.bits - 1)) as u64;
        let mut quotient = ((high as u128 * self.reciprocal as u128) >> 64) as u64;
        // Three roundings down (of y, of the reciprocal, of the product), so the estimate is short by at most three.
        let mut remainder = (y as u64).wrapping_sub(quotient.wrapping_mul(self.denominator));
        let mut step = 0;
        while step < 3 {
            let fits = (remainder.wrapping_sub(self.denominator) >> 63) ^ 1;
            quotient += fits;
            remainder -= self.denominator & fits.wrapping_neg();
            step += 1;
        }
        (quotient, remainder.cast_signed() - half.cast_signed())
    }
}

/// The lift from residues modulo two primes to `[0, q0 * q1)`.
#[derive(Clone, Copy, Debug)]
pub struct PairLift {
    /// q0^-1 mod q1.
    q0_inverse: u32,
    q0: u32,
    product: u64,
}

impl PairLift {
    /// Precomputes the lift of a two-limb ring.
    pub fn new(primes: &[Prime]) -> Self {
        let [p0, p1] = primes else { panic!("a pair of primes, got {}", primes.len()) };
        Self {
            q0_inverse: p1.inverse(p1.reduce(p0.q().into())),
            q0: p0.q(),
            product: u64::from(p0.q()) * u64::from(p1.q()),
        }
    }

    /// q0^-1 mod q1.
    pub const fn q0_inverse(&self) -> u32 {
        self.q0_inverse
    }

    /// q0 * q1.
    pub const fn modulus(&self) -> u64 {
        self.product
    }

    /// The integer in `[0, q0 * q1)` with residues `r0` and `r1`. `second` is the ring's second prime. Branch-free.
    #[inline]
    pub const fn lift(&self, second: &Prime, r0: u32, r1: u32) -> u64 {
        let difference = second.sub(r1, second.reduce(r0 as u64));
        r0 as u64 + self.q0 as u64 * second.mul(difference, self.q0_inverse) as u64
    }
}

/// The two primes of a ring and the lift to their product.
#[derive(Debug)]
pub(crate) struct PrimePair {
    pub primes: [Prime; 2],
    pub lift: PairLift,
}

impl PrimePair {
    /// Those of a two-limb ring.
    ///
    /// # Panics
    /// If it has another number of limbs.
    pub fn new<R: Ring>(ring: &RingContext<R>) -> Self {
        let [p0, p1] = ring.primes() else { panic!("{} has two limbs", R::NAME) };
        Self {
            primes: [p0, p1].map(|prime| Prime::without_transform(prime.q())),
            lift: PairLift::new(ring.primes()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::params::{P300, P1000};
    use proptest::prelude::*;

    fn product(pair: [u32; 2]) -> u64 {
        u64::from(pair[0]) * u64::from(pair[1])
    }

    /// Nearest integer, ties up, by the definition.
    fn round(x: u64, n: u64, d: u64) -> u64 {
        ((2 * u128::from(x) * u128::from(n) + u128::from(d)) / (2 * u128::from(d))) as u64
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        #[test]
        fn rounding_matches_the_definition(raw in any::<u64>(), near in -2i64..=2) {
            for set in [&P300, &P1000] {
                let (q, wire) = (product(set.kahe), product(set.wire));
                for t in [set.plaintext_power, set.plaintext_prime] {
                    for (from, to) in [(t, q), (q, wire), (wire, q), (q, t)] {
                        let rescale = Rescale::new(to, from);
                        // Anywhere, at the ends, and next to the points where the rounding flips.
                        let k = raw % to;
                        let tie = ((2 * u128::from(k) + 1) * u128::from(from) / (2 * u128::from(to))) as u64;
                        for x in [raw % from, 0, from - 1, tie.saturating_add_signed(near).min(from - 1)] {
                            let (quotient, remainder) = rescale.apply_with_remainder(x);
                            prop_assert_eq!(quotient, round(x, to, from));
                            let exact = i128::from(x) * i128::from(to) - i128::from(quotient) * i128::from(from);
                            prop_assert_eq!(i128::from(remainder), exact);
                        }
                    }
                }
            }
        }

        #[test]
        fn lift_has_the_residues(raw in any::<u64>()) {
            for pair in [P300.kahe, P300.wire, P1000.wire, P300.cs_aux] {
                let primes = pair.map(Prime::new);
                let lift = PairLift::new(&primes);
                for x in [raw % product(pair), 0, product(pair) - 1] {
                    let residues = pair.map(|q| (x % u64::from(q)) as u32);
                    prop_assert_eq!(lift.lift(&primes[1], residues[0], residues[1]), x);
                }
            }
        }
    }
}
