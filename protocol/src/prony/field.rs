//! The field of the sketch: integers modulo p = 34380709889, Montgomery form with R = 2^64.
//!
//! No branch, no division and no index depends on a value. Sums of products are accumulated in 128 bits and
//! reduced once: up to 2^64 / p > 2^28 products of reduced operands fit below the reduction's limit p * 2^64.
//!
//! Everything wraps explicitly, so that the development profile's overflow checks add no branch on secret
//! data; the comments say why nothing overflows.
//!
//! Source: Montgomery 1985, "Modular multiplication without trial division", in the subtracting form.

use chipmunk::ring::backend::field::word::{
    R, R_SQUARED, add_canonical, add_modulus_if_negative, reduce, wide,
};
use zeroize::DefaultIsZeroes;

/// The modulus p = 34380709889 = 32788 * 2^20 + 1 of the sketch, a prime of 35.0009 bits.
///
/// The smallest prime of that form above 2^35: a 35-bit symbol is a field element, and 2^20 divides p - 1.
pub const PRONY_PRIME: u64 = chipmunk::ring::backend::field::PRIME;

const P: u64 = PRONY_PRIME;

/// An element of the field, in Montgomery form: the word holds `value * R mod p`, in `[0, p)`.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Fp(u64);

impl DefaultIsZeroes for Fp {}

impl Fp {
    pub(super) const ZERO: Self = Self(0);
    pub(super) const ONE: Self = Self(R);

    /// From a canonical value in `[0, p)`.
    #[inline(always)]
    pub(super) const fn from_canonical(value: u64) -> Self {
        Self(reduce(wide(value, R_SQUARED)))
    }

    /// The canonical value in `[0, p)`.
    #[inline(always)]
    pub(super) const fn to_canonical(self) -> u64 {
        reduce(self.0 as u128)
    }

    #[inline(always)]
    pub(super) const fn add(self, other: Self) -> Self {
        Self(add_canonical(self.0, other.0))
    }

    #[inline(always)]
    pub(super) const fn sub(self, other: Self) -> Self {
        Self(add_modulus_if_negative(self.0.wrapping_sub(other.0)))
    }

    #[inline(always)]
    pub(super) const fn neg(self) -> Self {
        Self::ZERO.sub(self)
    }

    #[inline(always)]
    pub(super) const fn mul(self, other: Self) -> Self {
        Self(reduce(wide(self.0, other.0)))
    }

    /// This element times a canonical value, as a canonical value: the two conversions cancel.
    #[inline(always)]
    pub(super) const fn mul_canonical(self, value: u64) -> u64 {
        reduce(wide(self.0, value))
    }

    /// `self^exponent`. The exponent is public, the base may be secret.
    pub(super) const fn pow(self, exponent: u64) -> Self {
        let mut power = Self::ONE;
        let mut bit = u64::BITS - exponent.leading_zeros();
        while bit > 0 {
            bit -= 1;
            power = power.mul(power);
            if (exponent >> bit) & 1 == 1 {
                power = power.mul(self);
            }
        }
        power
    }

    /// The inverse; 0 for 0.
    pub(super) const fn inverse(self) -> Self {
        self.pow(P - 2)
    }
}

/// Sum of `a[i] * b[i]` of two slices of equal length.
pub(super) fn dot(a: &[Fp], b: &[Fp]) -> Fp {
    debug_assert_eq!(a.len(), b.len());
    Fp(reduce(accumulate(a.iter().map(|a| a.0).zip(b.iter().map(|b| b.0)))))
}

/// Sum of `a[i] * b[n - 1 - i]` of two slices of equal length n: one coefficient of a product of polynomials.
pub(super) fn dot_reversed(a: &[Fp], b: &[Fp]) -> Fp {
    debug_assert_eq!(a.len(), b.len());
    Fp(reduce(accumulate(a.iter().map(|a| a.0).zip(b.iter().rev().map(|b| b.0)))))
}

/// Sum of `a[i] * values[i]`, the values canonical, the sum canonical.
pub(super) fn dot_canonical(a: &[Fp], values: &[u64]) -> u64 {
    debug_assert_eq!(a.len(), values.len());
    reduce(accumulate(a.iter().map(|a| a.0).zip(values.iter().copied())))
}

/// Sum of products of words below p. Range: at most 2^28 of them, so that the sum is below p * 2^64.
#[inline(always)]
fn accumulate(pairs: impl Iterator<Item = (u64, u64)>) -> u128 {
    pairs.fold(0, |sum, (a, b)| sum.wrapping_add(wide(a, b)))
}

/// Twice the sum of `a[i] * a[n - 1 - i]` over the first half, plus the middle square: one coefficient of a
/// square.
pub(super) fn square_coefficient(a: &[Fp]) -> Fp {
    let half = a.len() / 2;
    let sum = accumulate(a[..half].iter().map(|a| a.0).zip(a.iter().rev().map(|b| b.0)));
    let middle = if a.len() % 2 == 1 { wide(a[half].0, a[half].0) } else { 0 };
    Fp(reduce((sum << 1).wrapping_add(middle)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const WIDE_P: u128 = P as u128;

    fn canonical() -> impl Strategy<Value = u64> {
        prop_oneof![0..P, Just(0), Just(1), Just(P - 1), Just(P / 2), Just(1 << 35)]
    }

    fn fp(values: &[u64]) -> Vec<Fp> {
        values.iter().map(|&v| Fp::from_canonical(v)).collect()
    }

    #[test]
    fn the_modulus_is_prime_and_as_documented() {
        assert_eq!(P, 34_380_709_889);
        assert_eq!((P - 1) % (1 << 20), 0);
        let is_prime = |n: u64| (2..).take_while(|d| d * d <= n).all(|d| !n.is_multiple_of(d));
        assert!(is_prime(P));
        assert!((32_768..32_788).all(|k| !is_prime(k * (1 << 20) + 1)));
    }

    #[test]
    fn longest_sums_at_the_largest_values_are_exact() {
        // The longest dot product a sketch can ask for, every word at its maximum.
        let n = super::super::MAX_CAPACITY + 1;
        let a = vec![Fp(P - 1); n];
        let expected = u64::try_from((WIDE_P - 1) * (WIDE_P - 1) % WIDE_P * n as u128 % WIDE_P).unwrap();
        // Both words hold R times the value and one reduction divides by R: compare after multiplying by R.
        assert_eq!(Fp::from_canonical(dot_canonical(&a, &vec![P - 1; n])).0, expected);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn arithmetic_matches_the_remainder(a in canonical(), b in canonical()) {
            let (x, y) = (Fp::from_canonical(a), Fp::from_canonical(b));
            let (wa, wb) = (u128::from(a), u128::from(b));
            prop_assert_eq!(x.to_canonical(), a);
            prop_assert_eq!(u128::from(x.add(y).to_canonical()), (wa + wb) % WIDE_P);
            prop_assert_eq!(u128::from(add_canonical(a, b)), (wa + wb) % WIDE_P);
            prop_assert_eq!(u128::from(x.sub(y).to_canonical()), (wa + WIDE_P - wb) % WIDE_P);
            prop_assert_eq!(u128::from(x.neg().to_canonical()), (WIDE_P - wa) % WIDE_P);
            prop_assert_eq!(u128::from(x.mul(y).to_canonical()), wa * wb % WIDE_P);
            prop_assert_eq!(u128::from(x.mul_canonical(b)), wa * wb % WIDE_P);
        }

        #[test]
        fn powers_and_inverses_match_repeated_multiplication(a in canonical(), exponent in 0u64..50) {
            let expected = (0..exponent).fold(1u128, |power, _| power * u128::from(a) % WIDE_P);
            prop_assert_eq!(u128::from(Fp::from_canonical(a).pow(exponent).to_canonical()), expected);
            let inverse = u128::from(Fp::from_canonical(a).inverse().to_canonical());
            prop_assert_eq!(inverse * u128::from(a) % WIDE_P, u128::from(a != 0));
        }

        #[test]
        fn dot_products_match_term_by_term_remainders(pairs in prop::collection::vec((canonical(), canonical()), 0..40)) {
            let (a, b): (Vec<u64>, Vec<u64>) = pairs.into_iter().unzip();
            let sum = |b: &[u64]| a.iter().zip(b).fold(0, |s, (&a, &b)| (s + u128::from(a) * u128::from(b)) % WIDE_P);
            let reversed: Vec<u64> = b.iter().rev().copied().collect();
            let (x, y) = (fp(&a), fp(&b));
            prop_assert_eq!(u128::from(dot(&x, &y).to_canonical()), sum(&b));
            prop_assert_eq!(u128::from(dot_canonical(&x, &b)), sum(&b));
            prop_assert_eq!(u128::from(dot_reversed(&x, &y).to_canonical()), sum(&reversed));
            let palindrome: Vec<u64> = a.iter().rev().copied().collect();
            prop_assert_eq!(u128::from(square_coefficient(&x).to_canonical()), sum(&palindrome));
        }
    }
}
