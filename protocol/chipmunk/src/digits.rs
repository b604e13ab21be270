//! Balanced digits: the short vectors that the ring-SIS hash takes.
//!
//! In odd base b, an element with coefficients in `[-(b^k - 1)/2, (b^k - 1)/2]` has exactly one expansion
//! `sum b^i d_i` with k digits in `[-(b-1)/2, (b-1)/2]`. Recomposing is linear over the ring, decomposing is not.

use crate::ring::{Coeff, Poly, Ring, RingContext, ShortPoly};

/// Digits per ring element in the hashes.
pub const DIGITS: usize = 3;

/// A base for the elements of one ring.
#[derive(Clone, Copy, Debug)]
pub struct DigitBase {
    base: u32,
    reciprocal: u32,
}

impl DigitBase {
    /// The odd base `base`.
    ///
    /// # Panics
    /// If `base` is even, 1 or b^4 does not fit 32 bits: bases are compiled in with their parameter set.
    pub fn new(base: u32) -> Self {
        assert!(base % 2 == 1 && (3..256).contains(&base), "an odd base from 3 to 255, got {base}");
        // The base is odd, so it does not divide 2^32 and the floor of (2^32 - 1) / b is the same.
        Self { base, reciprocal: u32::MAX / base + 1 }
    }

    /// The base.
    pub const fn base(&self) -> u32 {
        self.base
    }

    /// floor(2^32 / base) + 1: multiplying by it and dropping 32 bits divides any value below b^3. For the product's
    /// error is at most the value over 2^32, and value < b^3 < 2^32 / b.
    pub(crate) const fn reciprocal(&self) -> u32 {
        self.reciprocal
    }

    /// Largest digit magnitude, (b-1)/2.
    pub const fn bound(&self) -> u32 {
        self.base >> 1
    }

    /// The three balanced digits of each centred coefficient, least significant first. Constant time.
    pub fn decompose<R: Ring>(&self, ring: &RingContext<R>, poly: &Poly<R, Coeff>) -> [ShortPoly; DIGITS] {
        let prime = &ring.primes()[0];
        assert!(
            R::LIMBS == 1 && self.base.pow(3) >= prime.q(),
            "three digits hold an element of {}",
            R::NAME
        );
        let mut digits = [ShortPoly::zero(), ShortPoly::zero(), ShortPoly::zero()];
        let out = digits.each_mut().map(ShortPoly::coefficients_mut);
        (ring.kernels().decompose)(prime, self, poly.limb(0), out);
        digits
    }

    /// `d_0 + b d_1 + b^2 d_2` in the ring.
    pub fn recompose<R: Ring>(&self, ring: &RingContext<R>, digits: &[ShortPoly; DIGITS]) -> Poly<R, Coeff> {
        let prime = &ring.primes()[0];
        let base = i64::from(self.base);
        let mut out = Poly::zero();
        for (i, out) in out.limb_mut(0).iter_mut().enumerate() {
            let [d0, d1, d2] = [0, 1, 2].map(|k| i64::from(digits[k].coefficients()[i]));
            *out = prime.from_i64(d0 + base * (d1 + base * d2));
        }
        out
    }

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
    use crate::N;
    use crate::params::{P300, P1000};
    use crate::ring::{Cs, Hvc, Lane, backend};

    /// Every residue of every ring, in steps of 2048 coefficients.
    fn exhaustive<R: Ring>(q: u32, base: u32) {
        let ring = RingContext::<R>::new(&[q], backend::scalar());
        let base = DigitBase::new(base);
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
}
