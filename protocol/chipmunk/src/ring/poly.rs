//! Polynomials: residues with a ring and a domain in their type, and short integer polynomials.

use super::{Coeff, Domain, Ring};
use crate::N;
use std::fmt;
use std::marker::PhantomData;
use zeroize::Zeroize;

/// A ring element in domain `D`.
///
/// Shape: `R::LIMBS` limbs of 2048 residues, limb-major, each canonical in `[0, q_limb)`. The modulus lives in the
/// [`RingContext`](super::RingContext) that does the arithmetic.
pub struct Poly<R: Ring, D: Domain> {
    words: Box<[u32]>,
    kind: PhantomData<fn() -> (R, D)>,
}

impl<R: Ring, D: Domain> Poly<R, D> {
    /// The zero element.
    pub fn zero() -> Self {
        Self { words: vec![0; R::LIMBS * N].into_boxed_slice(), kind: PhantomData }
    }

    /// Takes residues the caller knows to be canonical: `R::LIMBS * 2048` of them, limb-major.
    pub(crate) fn from_words(words: Box<[u32]>) -> Self {
        assert_eq!(words.len(), R::LIMBS * N, "a polynomial of {} has {} limbs", R::NAME, R::LIMBS);
        Self { words, kind: PhantomData }
    }

    /// Residues of one limb.
    pub fn limb(&self, limb: usize) -> &[u32] {
        &self.words[limb * N..][..N]
    }

    /// Residues of one limb, for writing; they stay in `[0, q_limb)`.
    pub(crate) fn limb_mut(&mut self, limb: usize) -> &mut [u32] {
        &mut self.words[limb * N..][..N]
    }

    /// Residues of both limbs of a two-limb ring, for writing.
    pub(crate) fn limbs_mut(&mut self) -> [&mut [u32]; 2] {
        assert_eq!(R::LIMBS, 2, "{} has {} limbs", R::NAME, R::LIMBS);
        self.words.split_at_mut(N).into()
    }

    /// All residues, limb-major.
    pub fn words(&self) -> &[u32] {
        &self.words
    }

    pub(crate) fn into_words(self) -> Box<[u32]> {
        self.words
    }
}

impl<R: Ring> Poly<R, Coeff> {
    /// Whether every coefficient is zero. Constant time.
    pub fn is_zero(&self) -> bool {
        self.words.iter().fold(0, |acc, &word| acc | word) == 0
    }
}

impl<R: Ring, D: Domain> Clone for Poly<R, D> {
    fn clone(&self) -> Self {
        Self { words: self.words.clone(), kind: PhantomData }
    }
}

impl<R: Ring, D: Domain> PartialEq for Poly<R, D> {
    fn eq(&self, other: &Self) -> bool {
        self.words == other.words
    }
}

impl<R: Ring, D: Domain> Eq for Poly<R, D> {}

impl<R: Ring, D: Domain> Zeroize for Poly<R, D> {
    fn zeroize(&mut self) {
        self.words.zeroize();
    }
}

// A polynomial may be a key, so its coefficients are never printed.
impl<R: Ring, D: Domain> fmt::Debug for Poly<R, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Poly<{}>(..)", R::NAME)
    }
}

/// A polynomial over the integers with small coefficients: digits, commitment randomness, their sums.
///
/// Shape: 2048 signed coefficients. Sums of at most `rho_max` fresh ones stay far inside i32.
#[derive(Clone, PartialEq, Eq, Zeroize)]
pub struct ShortPoly(Box<[i32]>);

impl ShortPoly {
    /// The zero polynomial.
    pub fn zero() -> Self {
        Self(vec![0; N].into_boxed_slice())
    }

    /// The coefficients, constant term first.
    pub fn coefficients(&self) -> &[i32] {
        &self.0
    }

    /// The coefficients, for writing.
    pub fn coefficients_mut(&mut self) -> &mut [i32] {
        &mut self.0
    }

    /// Adds coefficient-wise.
    pub fn add_assign(&mut self, other: &Self) {
        self.0.iter_mut().zip(&other.0).for_each(|(a, b)| *a += b);
    }

    /// Subtracts coefficient-wise.
    pub fn sub_assign(&mut self, other: &Self) {
        self.0.iter_mut().zip(&other.0).for_each(|(a, b)| *a -= b);
    }

    /// Whether every coefficient is in `[-bound, bound]`, `bound` below 2^30. Constant time in the coefficients.
    pub fn is_within(&self, bound: u32) -> bool {
        let bound = bound.cast_signed();
        debug_assert!((0..1 << 30).contains(&bound));
        // Neither wraps round within the bound, and beyond either end one of the two is negative without wrapping.
        let signs = |all: i32, &c: &i32| all | bound.wrapping_sub(c) | bound.wrapping_add(c);
        self.0.iter().fold(0, signs) >= 0
    }

    /// Largest coefficient magnitude. Constant time in the coefficients.
    pub fn norm(&self) -> u32 {
        self.0.iter().fold(0, |max, c| max.max(c.unsigned_abs()))
    }
}

impl fmt::Debug for ShortPoly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ShortPoly(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn within_is_the_norm() {
        let edges = [i32::MIN, i32::MIN + 1, -1449, -1448, -1, 0, 1, 1448, 1449, i32::MAX - 1, i32::MAX];
        let bounds = [0, 1, 1448, 1449, (1 << 30) - 1];
        for (c, bound) in edges.into_iter().flat_map(|c| bounds.map(|bound| (c, bound))) {
            let mut poly = ShortPoly::zero();
            poly.coefficients_mut()[N - 1] = c;
            assert_eq!(poly.is_within(bound), poly.norm() <= bound, "{c} within {bound}");
        }
    }
}
