//! Balanced digits: the short vectors that the ring-SIS hash takes.
//!
//! In odd base b, an integer in `[-(b^k - 1)/2, (b^k - 1)/2]` has exactly one expansion `sum b^i d_i` with k digits in
//! `[-(b-1)/2, (b-1)/2]`. Recomposing is linear over the ring, decomposing is not.

use crate::N;
use crate::ring::backend::Kernels;
use crate::ring::modulus::Prime;
use crate::ring::rescale::PrimePair;
use crate::ring::{Coeff, Poly, Ring, RingContext, ShortPoly};

/// Digits per element of a one-limb ring.
pub const DIGITS: usize = 3;

/// Digits per element of a two-limb ring.
pub const PAIR_DIGITS: usize = 4;

/// A base in which `K` digits hold a coefficient: three for one-limb rings, four for two-limb rings.
#[derive(Clone, Copy, Debug)]
pub struct DigitBase<const K: usize = DIGITS> {
    base: u32,
    reciprocal: u32,
}

impl<const K: usize> DigitBase<K> {
    /// The odd base `base`.
    ///
    /// # Panics
    /// If `base` is even or not in `3..256` for three digits, `5..2580` for four: bases are compiled in with their
    /// parameter set.
    pub fn new(base: u32) -> Self {
        let bases = match K {
            DIGITS => 3..256,
            PAIR_DIGITS => 5..2580,
            _ => panic!("three digits or four, not {K}"),
        };
        assert!(
            base % 2 == 1 && bases.contains(&base),
            "an odd base in {bases:?} for {K} digits, got {base}"
        );
        // The base is odd, so it does not divide a power of two and the floor of one less is the same.
        let reciprocal = ((1u64 << (u32::BITS + Self::EXTRA)) - 1) / u64::from(base) + 1;
        Self {
            base,
            reciprocal: u32::try_from(reciprocal).expect("bases above 4 where there are extra bits"),
        }
    }

    /// Bits beyond 32 that the reciprocal is scaled by.
    pub(crate) const EXTRA: u32 = if K == DIGITS { 0 } else { 2 };

    /// The base.
    pub const fn base(&self) -> u32 {
        self.base
    }

    /// floor(2^(32 + EXTRA) / base) + 1: multiplying by it and dropping as many bits divides any value whose product
    /// with the base is below 2^(32 + EXTRA), for the error of the product by the reciprocal is at most the value.
    /// Three digits: every value below b^3, as b^4 < 2^32. Four: every value below b^2, two digits at a time.
    pub(crate) const fn reciprocal(&self) -> u32 {
        self.reciprocal
    }

    /// Largest digit magnitude, (b-1)/2.
    pub const fn bound(&self) -> u32 {
        self.base >> 1
    }

    /// `sum b^i d_i` in the ring, limb by limb. Digits may be sums of digits, of magnitude below every prime; the base
    /// is below them too.
    pub fn recompose<R: Ring>(&self, ring: &RingContext<R>, digits: &[ShortPoly; K]) -> Poly<R, Coeff> {
        let (mut out, kernels) = (Poly::zero(), ring.kernels());
        let mut term = [0; N];
        let (most, rest) = digits.split_last().expect("a base has three digits or four");
        for (limb, prime) in ring.primes().iter().enumerate() {
            let out = out.limb_mut(limb);
            (kernels.from_signed)(prime, out, most.coefficients());
            for digit in rest.iter().rev() {
                (kernels.scale)(prime, out, self.base);
                (kernels.from_signed)(prime, &mut term, digit.coefficients());
                (kernels.add)(prime, out, &term);
            }
        }
        out
    }
}

impl DigitBase<DIGITS> {
    /// The three balanced digits of each centred coefficient, least significant first. Constant time.
    pub fn decompose<R: Ring>(&self, ring: &RingContext<R>, poly: &Poly<R, Coeff>) -> [ShortPoly; DIGITS] {
        let mut digits = std::array::from_fn(|_| ShortPoly::zero());
        self.decompose_into(ring, poly, &mut digits);
        digits
    }

    /// [`decompose`](Self::decompose) into digits that are there already.
    pub fn decompose_into<R: Ring>(
        &self,
        ring: &RingContext<R>,
        poly: &Poly<R, Coeff>,
        digits: &mut [ShortPoly; DIGITS],
    ) {
        let prime = &ring.primes()[0];
        assert!(
            R::LIMBS == 1 && self.base.pow(3) >= prime.q(),
            "three digits hold an element of {}",
            R::NAME
        );
        let out = digits.each_mut().map(ShortPoly::coefficients_mut);
        (ring.kernels().decompose)(prime, self, poly.limb(0), out);
    }

    /// The third digits, given the element and the other two: `(value - d_0 - b d_1) / b^2`, centred.
    ///
    /// Any element and digits of magnitude below the modulus have such a result; it is short only if the element was
    /// made of short digits, so the caller checks its norm.
    pub fn last_digit<R: Ring>(
        &self,
        ring: &RingContext<R>,
        value: &Poly<R, Coeff>,
        first: &ShortPoly,
        second: &ShortPoly,
    ) -> ShortPoly {
        let (prime, kernels) = (&ring.primes()[0], ring.kernels());
        let inverse = prime.inverse(prime.reduce(u64::from(self.base) * u64::from(self.base)));
        let (mut rest, mut known) = (value.clone(), [0; N]);
        let rest = rest.limb_mut(0);
        (kernels.from_signed)(prime, &mut known, second.coefficients());
        (kernels.scale)(prime, &mut known, prime.reduce(self.base.into()));
        (kernels.sub)(prime, rest, &known);
        (kernels.from_signed)(prime, &mut known, first.coefficients());
        (kernels.sub)(prime, rest, &known);
        (kernels.scale)(prime, rest, inverse);
        let mut out = ShortPoly::zero();
        (kernels.centred)(prime, rest, out.coefficients_mut());
        out
    }
}

/// A base for the elements of one two-limb ring, with what lifts them.
#[derive(Debug)]
pub struct PairDigits {
    kernels: &'static Kernels,
    pub(crate) base: DigitBase<PAIR_DIGITS>,
    pub(crate) pair: PrimePair,
}

impl PairDigits {
    /// The digits of `ring` in base `base`.
    ///
    /// # Panics
    /// If four digits do not hold a coefficient, or the first prime is not between the second and b^2, less than 2^16
    /// below the latter: moduli and bases are compiled in.
    pub fn new<R: Ring>(ring: &RingContext<R>, base: u32) -> Self {
        let (base, pair) = (DigitBase::new(base), PrimePair::new(ring));
        let [q0, q1] = pair.primes.each_ref().map(crate::ring::modulus::Prime::q);
        let square = base.base.pow(2);
        // The two most and the two least significant digits come from the lift written in base b^2, which the vector
        // kernels take from its form in base q0.
        assert!(
            q1 < q0 && (1..1 << 16).contains(&square.wrapping_sub(q0)),
            "a base just above the first prime's root"
        );
        Self { kernels: ring.kernels(), base, pair }
    }

    /// The base.
    pub const fn base(&self) -> &DigitBase<PAIR_DIGITS> {
        &self.base
    }

    /// The four balanced digits of each coefficient, lifted from both limbs and centred, least significant first, each
    /// increased by the base's [`bound`](DigitBase::bound), so that none is negative. Constant time.
    pub fn decompose(&self, limbs: [&[u32]; 2], digits: [&mut [u32]; PAIR_DIGITS]) {
        (self.kernels.decompose_pair)(self, limbs, digits);
    }

    /// Whether [`recompose`](Self::recompose) takes digits of magnitude up to `offset`, increased by it.
    pub fn holds(&self, offset: u32) -> bool {
        2 * u64::from(offset) * (u64::from(self.base.base) + 1) < 1 << u32::BITS
    }

    /// Both limbs of `sum b^i (d_i - offset)`. Constant time.
    ///
    /// Range: digits up to `2 * offset`, an offset that [`holds`](Self::holds).
    pub fn recompose(&self, offset: u32, digits: [&[u32]; PAIR_DIGITS], limbs: [&mut [u32]; 2]) {
        debug_assert!(self.holds(offset));
        (self.kernels.recompose_pair)(self, offset, digits, limbs);
    }

    /// What increasing all digits by `offset` adds: `offset (1 + b + b^2 + b^3)`.
    pub(crate) fn excess(&self, prime: &Prime, offset: u32) -> u32 {
        let b = prime.reduce(self.base.base.into());
        let sum = (1..PAIR_DIGITS).fold(1, |sum, _| prime.reduce(u64::from(sum) * u64::from(b) + 1));
        prime.mul(prime.reduce(offset.into()), sum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::N;
    use crate::params::{P300, P1000};
    use crate::ring::{Cs, Hvc, Lane, Wire, backend};
    use proptest::prelude::*;

    /// Every residue of every ring, in steps of 2048 coefficients.
    fn exhaustive<R: Ring>(q: u32, base: u32) {
        let ring = RingContext::<R>::new(&[q], backend::under_test());
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
    fn by_definition(mut value: i64, base: i64) -> [i64; PAIR_DIGITS] {
        let digits = std::array::from_fn(|_| {
            let digit = (value + base / 2).rem_euclid(base) - base / 2;
            value = (value - digit) / base;
            digit
        });
        assert_eq!(value, 0, "the value is within reach");
        digits
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn four_digits_hold_every_coefficient_in_transit(raw in prop::collection::vec(any::<u64>(), N)) {
            for set in [&P300, &P1000] {
                let ring = RingContext::<Wire>::new(&set.wire, backend::under_test());
                let digits = PairDigits::new(&ring, set.share_base);
                let half = (set.wire_modulus() / 2).cast_signed();
                // Anywhere, and at the ends of what the modulus allows.
                let edges = [half, -half, 0, 1, -1, half - 1, 1 - half];
                let value = |(i, &x): (usize, &u64)| {
                    edges.get(i).copied().unwrap_or((x % set.wire_modulus()).cast_signed() - half)
                };
                let values: Vec<i64> = raw.iter().enumerate().map(value).collect();
                let limbs = set.wire.map(|q| -> Vec<u32> {
                    values.iter().map(|v| u32::try_from(v.rem_euclid(q.into())).unwrap()).collect()
                });
                let mut split = [(); PAIR_DIGITS].map(|()| vec![0; N]);
                digits.decompose([&limbs[0], &limbs[1]], split.each_mut().map(Vec::as_mut_slice));
                let bound = digits.base().bound();
                for (i, &value) in values.iter().enumerate() {
                    let got = split.each_ref().map(|digit| i64::from(digit[i]) - i64::from(bound));
                    prop_assert_eq!(got, by_definition(value, set.share_base.into()));
                }
                let [mut first, mut second] = [vec![0; N], vec![0; N]];
                digits.recompose(bound, split.each_ref().map(Vec::as_slice), [&mut first, &mut second]);
                prop_assert_eq!(&[first, second], &limbs);
                let signed = split.each_ref().map(|digit| {
                    let mut poly = ShortPoly::zero();
                    let signed = digit.iter().map(|d| d.cast_signed() - bound.cast_signed());
                    poly.coefficients_mut().iter_mut().zip(signed).for_each(|(c, d)| *c = d);
                    poly
                });
                let element = digits.base().recompose(&ring, &signed);
                for (limb, words) in limbs.iter().enumerate() {
                    prop_assert_eq!(element.limb(limb), words);
                }
            }
        }
    }

    #[test]
    fn unusable_bases_are_refused() {
        for bad in [0, 1, 2, 46, 257] {
            assert!(std::panic::catch_unwind(|| DigitBase::<DIGITS>::new(bad)).is_err(), "{bad}");
        }
        for bad in [3, 1450, 2581] {
            assert!(std::panic::catch_unwind(|| DigitBase::<PAIR_DIGITS>::new(bad)).is_err(), "{bad}");
        }
        let ring = RingContext::<Wire>::new(&P300.wire, backend::under_test());
        for bad in [1447, 2049] {
            assert!(std::panic::catch_unwind(|| PairDigits::new(&ring, bad)).is_err(), "{bad}");
        }
    }
}
