//! Balanced digits: the short vectors that the ring-SIS hash takes.
//!
//! In odd base b, an integer in `[-(b^k - 1)/2, (b^k - 1)/2]` has exactly one expansion `sum b^i d_i` with k digits in
//! `[-(b-1)/2, (b-1)/2]`. Recomposing is linear over the ring, decomposing is not.

use crate::N;
use crate::ring::{Coeff, Poly, Ring, RingContext, ShortPoly};

/// Digits per ring element in the hashes of one-limb rings.
pub const DIGITS: usize = 3;

/// A base in which `K` digits hold one coefficient.
#[derive(Clone, Copy, Debug)]
pub struct DigitBase<const K: usize = DIGITS> {
    base: u32,
    /// (b^K - 1)/2: the largest magnitude with an expansion.
    reach: u64,
    /// floor(2^64 / b) + 1: the high word of a product with it is the quotient by b, for any value below 2^64 / b.
    reciprocal: u64,
}

impl<const K: usize> DigitBase<K> {
    /// The odd base `base`.
    ///
    /// # Panics
    /// If `base` is even or below 3, or b^(K+1) does not fit 62 bits: bases are compiled in with their parameter set.
    pub fn new(base: u32) -> Self {
        let power = u32::try_from(K).ok().and_then(|k| u64::from(base).checked_pow(k));
        let fits = |power: &u64| power.checked_mul(base.into()).is_some_and(|p| p >> 62 == 0);
        let power = power.filter(fits).filter(|_| base % 2 == 1 && base > 1);
        let power = power.unwrap_or_else(|| panic!("an odd base whose {K} digits fit a word, got {base}"));
        Self { base, reach: power >> 1, reciprocal: u64::MAX / u64::from(base) + 1 }
    }

    /// The base.
    pub const fn base(&self) -> u32 {
        self.base
    }

    /// Largest digit magnitude, (b-1)/2.
    pub const fn bound(&self) -> u32 {
        self.base >> 1
    }

    /// Largest magnitude of an integer that has an expansion, (b^K - 1)/2.
    pub const fn reach(&self) -> u64 {
        self.reach
    }

    /// The `K` balanced digits of 2048 integers of magnitude at most [`reach`](Self::reach), least significant first.
    /// Constant time.
    pub fn decompose_integers(&self, values: impl IntoIterator<Item = i64>) -> [ShortPoly; K] {
        let mut digits: [ShortPoly; K] = std::array::from_fn(|_| ShortPoly::zero());
        let mut columns = digits.each_mut().map(|digit| digit.coefficients_mut());
        let bound = self.bound().cast_signed();
        for (i, value) in values.into_iter().take(N).enumerate() {
            debug_assert!(value.unsigned_abs() <= self.reach);
            // Shifting by (b^K - 1)/2 turns balanced digits into plain ones, each shifted by (b-1)/2.
            let mut rest = self.reach.wrapping_add_signed(value);
            for column in &mut columns {
                // rest < b^K and reciprocal * b - 2^64 <= b, so the product's error stays below 2^64 / b: exact.
                let quotient = high_word(rest, self.reciprocal);
                column[i] = low_word(rest - quotient * u64::from(self.base)).cast_signed() - bound;
                rest = quotient;
            }
        }
        digits
    }

    /// The integers `sum b^i d_i`, coefficient by coefficient. Digits may be sums of digits, of magnitude below 2^31.
    pub fn recompose_integers<'a>(&'a self, digits: &'a [ShortPoly; K]) -> impl Iterator<Item = i64> + 'a {
        let base = i64::from(self.base);
        let at =
            move |i: usize| digits.iter().rev().fold(0, |sum, d| sum * base + i64::from(d.coefficients()[i]));
        (0..N).map(at)
    }

    /// The balanced digits of each centred coefficient of a one-limb element. Constant time.
    pub fn decompose<R: Ring>(&self, ring: &RingContext<R>, poly: &Poly<R, Coeff>) -> [ShortPoly; K] {
        assert_eq!(R::LIMBS, 1, "an element of several limbs is lifted by its caller");
        let prime = &ring.primes()[0];
        debug_assert!(u64::from(prime.half()) <= self.reach);
        self.decompose_integers(poly.limb(0).iter().map(|&residue| prime.centred(residue).into()))
    }

    /// `sum b^i d_i` in the ring, limb by limb.
    pub fn recompose<R: Ring>(&self, ring: &RingContext<R>, digits: &[ShortPoly; K]) -> Poly<R, Coeff> {
        let mut out = Poly::zero();
        for (limb, prime) in ring.primes().iter().enumerate() {
            let values = self.recompose_integers(digits);
            out.limb_mut(limb).iter_mut().zip(values).for_each(|(out, value)| *out = prime.from_i64(value));
        }
        out
    }
}

/// The upper half of a product.
#[inline(always)]
fn high_word(a: u64, b: u64) -> u64 {
    u64::try_from((u128::from(a) * u128::from(b)) >> 64).expect("the upper 64 of 128 bits")
}

/// A remainder by a 32-bit base, as a u32: masked, so that no check of a secret is left.
#[inline(always)]
fn low_word(remainder: u64) -> u32 {
    u32::try_from(remainder & u64::from(u32::MAX)).expect("the lower 32 bits")
}

impl DigitBase<DIGITS> {
    /// The third digits, given the element and the other two: `(value - d_0 - b d_1) / b^2`, centred.
    ///
    /// Any element and digits have such a result; it is short only if the element was made of short digits, so the
    /// caller checks its norm.
    pub fn last_digit<R: Ring>(
        &self,
        ring: &RingContext<R>,
        value: &Poly<R, Coeff>,
        first: &ShortPoly,
        second: &ShortPoly,
    ) -> ShortPoly {
        let prime = &ring.primes()[0];
        let inverse = prime.inverse(prime.reduce(u64::from(self.base) * u64::from(self.base)));
        let base = i64::from(self.base);
        let mut out = ShortPoly::zero();
        for (i, out) in out.coefficients_mut().iter_mut().enumerate() {
            let known = i64::from(first.coefficients()[i]) + base * i64::from(second.coefficients()[i]);
            let rest = prime.sub(value.limb(0)[i], prime.from_i64(known));
            *out = prime.centred(prime.mul(rest, inverse));
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::params::{P300, P1000};
    use crate::ring::{Cs, Hvc, Lane, Wire, backend};
    use proptest::prelude::*;

    /// Every residue of every ring, in steps of 2048 coefficients.
    fn exhaustive<R: Ring>(q: u32, base: u32) {
        let ring = RingContext::<R>::new(&[q], backend::scalar());
        let base = DigitBase::<DIGITS>::new(base);
        for start in (0..q).step_by(N) {
            let words: Box<[u32]> = (start..).take(N).map(|r| r % q).collect();
            let poly = Poly::<R, Coeff>::from_words(words);
            let digits = base.decompose(&ring, &poly);
            assert!(digits.iter().all(|d| d.norm() <= base.bound()));
            assert_eq!(base.recompose(&ring, &digits), poly);
            assert_eq!(base.last_digit(&ring, &poly, &digits[0], &digits[1]), digits[2]);
            // Independent: the expansion as plain integers.
            let b = i64::from(base.base());
            for i in 0..N {
                let [d0, d1, d2] = [0, 1, 2].map(|k| i64::from(digits[k].coefficients()[i]));
                let value = i64::from(poly.limb(0)[i]);
                let centred = if value > i64::from(q / 2) { value - i64::from(q) } else { value };
                assert_eq!(d0 + b * d1 + b * b * d2, centred);
            }
        }
    }

    #[test]
    fn every_residue_has_its_balanced_digits() {
        for set in [&P300, &P1000] {
            exhaustive::<Hvc>(set.hvc, set.hvc_base);
            exhaustive::<Cs>(set.cs, set.cs_base);
            exhaustive::<Lane>(set.lane, set.lane_base);
        }
    }

    /// Balanced digits by their definition, with remainders.
    fn by_definition(mut value: i64, base: i64, count: usize) -> Vec<i64> {
        let digit = |value: &mut i64| {
            let d = (*value + base / 2).rem_euclid(base) - base / 2;
            *value = (*value - d) / base;
            d
        };
        let digits = (0..count).map(|_| digit(&mut value)).collect();
        assert_eq!(value, 0, "the value is within reach");
        digits
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn four_digits_hold_every_coefficient_in_transit(raw in prop::collection::vec(any::<u64>(), N)) {
            for set in [&P300, &P1000] {
                let base = DigitBase::<4>::new(set.share_base);
                let half = set.wire_modulus() / 2;
                prop_assert!(half <= base.reach());
                // Anywhere, and at both ends of what the modulus and the base allow.
                let edges = [half, base.reach(), 0, 1];
                let values: Vec<i64> = raw.iter().enumerate().map(|(i, &x)| {
                    let magnitude = edges.get(i / 2).copied().unwrap_or(x % (half + 1)).cast_signed();
                    if i % 2 == 0 { magnitude } else { -magnitude }
                }).collect();
                let digits = base.decompose_integers(values.iter().copied());
                for (i, &value) in values.iter().enumerate() {
                    let got: Vec<i64> = digits.iter().map(|d| d.coefficients()[i].into()).collect();
                    prop_assert_eq!(got, by_definition(value, set.share_base.into(), 4));
                }
                prop_assert!(base.recompose_integers(&digits).eq(values.iter().copied()));
                let ring = RingContext::<Wire>::new(&set.wire, backend::scalar());
                let element = base.recompose(&ring, &digits);
                for (limb, q) in set.wire.into_iter().enumerate() {
                    let residues = values.iter().map(|v| u32::try_from(v.rem_euclid(q.into())).unwrap());
                    prop_assert!(residues.eq(element.limb(limb).iter().copied()));
                }
            }
        }
    }

    #[test]
    fn unusable_bases_are_refused() {
        for bad in [0, 1, 2, 46, 1 << 20] {
            assert!(std::panic::catch_unwind(|| DigitBase::<DIGITS>::new(bad)).is_err(), "{bad}");
        }
        assert!(std::panic::catch_unwind(|| DigitBase::<4>::new(6001)).is_err(), "6001^5 is above 2^62");
    }
}
