//! The kernels that all ring arithmetic goes through, and the choice between their implementations.
//!
//! A back-end is one table of function pointers. Every back-end returns identical bits; the scalar one is the oracle
//! of the others. The choice is the caller's and is made once.

mod scalar;

use super::modulus::Prime;
use std::fmt;
use std::str::FromStr;

/// The arithmetic of one back-end. All slices are 2048 long; residues are canonical in `[0, q)`, before and after.
/// Every kernel is constant time in its data.
pub struct Kernels {
    /// Which back-end this is.
    pub simd: Simd,
    /// Negacyclic transform in place: natural order in; slot i out is the value at psi^(2*bitrev(i)+1).
    pub ntt_forward: fn(&Prime, &mut [u32]),
    /// Inverse of `ntt_forward`, with the factor 1/2048.
    pub ntt_inverse: fn(&Prime, &mut [u32]),
    /// `a += b`.
    pub add: fn(&Prime, &mut [u32], &[u32]),
    /// `a -= b`.
    pub sub: fn(&Prime, &mut [u32], &[u32]),
    /// `out = a * b`, slot by slot.
    pub mul: fn(&Prime, &mut [u32], &[u32], &[u32]),
    /// `acc += a * b`, slot by slot, unreduced.
    pub mul_acc: fn(&mut [u64], &[u32], &[u32]),
    /// `out = acc mod q`.
    pub reduce: fn(&Prime, &mut [u32], &[u64]),
    /// `a *= scalar`, the scalar in `[0, q)`.
    pub scale: fn(&Prime, &mut [u32], u32),
    /// Residues of integers of magnitude below q.
    pub from_signed: fn(&Prime, &mut [u32], &[i32]),
    /// Gaussian samples from uniform words: the low 63 bits are compared with every entry of the cumulative table,
    /// the top bit is the sign. `(table, words, out)`, the table of any length, the others equally long.
    pub gaussian: fn(&[u64], &[u64], &mut [i32]),
}

impl fmt::Debug for Kernels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Kernels({})", self.simd)
    }
}

/// The instruction sets a back-end is written for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Simd {
    /// Portable code.
    Scalar,
}

impl fmt::Display for Simd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Scalar => "scalar",
        })
    }
}

/// A back-end was asked for by name that does not exist or that this CPU cannot run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no SIMD back-end `{asked}` here; available: {available}")]
pub struct UnavailableSimd {
    asked: String,
    available: &'static str,
}

impl FromStr for Simd {
    type Err = UnavailableSimd;
    fn from_str(name: &str) -> Result<Self, UnavailableSimd> {
        match name {
            "scalar" => Ok(Self::Scalar),
            _ => Err(UnavailableSimd { asked: name.to_owned(), available: "scalar" }),
        }
    }
}

impl Simd {
    /// The kernels of this back-end.
    pub const fn kernels(self) -> &'static Kernels {
        match self {
            Self::Scalar => scalar(),
        }
    }

    /// The fastest back-end of this CPU.
    pub const fn detect() -> Self {
        Self::Scalar
    }
}

/// The portable back-end.
pub const fn scalar() -> &'static Kernels {
    &scalar::KERNELS
}
