//! Plaintext polynomials: what the payload layer hands to the encryption and gets back from the decryption.

use chipmunk::N;
use std::fmt;
use zeroize::{Zeroize, ZeroizeOnDrop};

/// One plaintext polynomial: `N = 2048` coefficients in `[0, t)`, t the plaintext modulus.
///
/// A client's vector is a `Vec<PlainPoly>`; so is the sum of all vectors, coefficient-wise modulo t. Wiped on drop.
#[derive(Clone, PartialEq, Eq, Zeroize, ZeroizeOnDrop)]
pub struct PlainPoly(Box<[u64]>);

impl PlainPoly {
    /// The zero polynomial: one polynomial of the trivial cover.
    pub fn zero() -> Self {
        Self(vec![0; N].into_boxed_slice())
    }

    /// The coefficients, constant term first.
    pub fn coefficients(&self) -> &[u64] {
        &self.0
    }

    /// The coefficients, constant term first. Whoever writes here keeps them in `[0, t)`.
    pub fn coefficients_mut(&mut self) -> &mut [u64] {
        &mut self.0
    }

    /// Cuts a sequence of scalars in `[0, t)` into polynomials, the last one padded with zeros.
    ///
    /// Scalar `i` is coefficient `i mod 2048` of polynomial `i / 2048`.
    pub fn from_scalars(scalars: &[u64]) -> Vec<Self> {
        scalars
            .chunks(N)
            .map(|chunk| {
                let mut poly = Self::zero();
                poly.0[..chunk.len()].copy_from_slice(chunk);
                poly
            })
            .collect()
    }
}

impl fmt::Debug for PlainPoly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PlainPoly(..)")
    }
}
