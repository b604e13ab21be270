//! The kernels that all ring arithmetic goes through, and the choice between their implementations.
//!
//! A back-end is one table of function pointers. Every back-end returns identical bits; the scalar one is the oracle
//! of the others. The choice is the caller's and is made once.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
pub mod field;
#[cfg(target_arch = "x86_64")]
mod packing;
mod scalar;
pub mod secrecy;
#[cfg(target_arch = "x86_64")]
pub(super) use {avx2::Tables as Avx2Tables, avx512::Tables as Avx512Tables};
#[cfg(test)]
mod tests;

use super::crt::PairReduction;
use super::cumulative::CumulativeTable;
use super::modulus::Prime;
use super::switch::ModulusSwitch;
use crate::digits::{DigitBase, PairDigits};
use std::fmt;
use std::str::FromStr;

/// The arithmetic of one back-end. All slices are 2048 long; residues are canonical in `[0, q)`, before and after,
/// where nothing else is said.
/// Every kernel is constant time in its data.
#[expect(clippy::type_complexity, reason = "this table is where the signatures are spelled out")]
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
    /// The sum of the products `a * b`, slot by slot: `(terms, out)`.
    pub dot: fn(&Prime, &[[&[u32]; 2]], &mut [u32]),
    /// `a *= scalar`, the scalar in `[0, q)`.
    pub scale: fn(&Prime, &mut [u32], u32),
    /// Residues of integers of magnitude below q.
    pub from_signed: fn(&Prime, &mut [u32], &[i32]),
    /// The representatives in `[-(q-1)/2, (q-1)/2]`.
    pub centred: fn(&Prime, &[u32], &mut [i32]),
    /// The three balanced digits of the centred representatives, least significant first; q is at most the base cubed.
    pub decompose: fn(&Prime, &DigitBase, &[u32], [&mut [i32]; 3]),
    /// The four balanced digits of the centred lifts of residues of a pair, least significant first:
    /// `(digits, residues, out)`.
    pub decompose_pair: fn(&PairDigits, [&[u32]; 2], [&mut [i32]; 4]),
    /// Residues of a pair of primes to residues of the target: `(pair, residues, out)`.
    pub reduce_pair: fn(&PairReduction, [&[u32]; 2], &mut [u32]),
    /// Gaussian samples from uniform little-endian words: the magnitude is the number of table entries at or below the
    /// low 63 bits, the top bit is the sign. `(table, words, out)`, the latter equally long, a multiple of 8.
    pub gaussian: fn(&CumulativeTable, &[[u8; 8]], &mut [i32]),
    /// [`ModulusSwitch::encrypt`] with limbs `(mask, error, message, out)`.
    pub encrypt: fn(&ModulusSwitch, [&[u32]; 2], &[i32], &[u64], [&mut [u32]; 2]),
    /// [`ModulusSwitch::decrypt`] with limbs `(sum, mask, out)`; the words of `sum` are any.
    pub decrypt: fn(&ModulusSwitch, [&[u32]; 2], [&[u32]; 2], &mut [u64]) -> u64,
    /// Packs words below `2^width`, `width` in `1..=32`, into exactly `2048 * width / 8` bytes: `(width, words, out)`.
    pub pack: fn(u32, &[u32], &mut [u8]),
    /// Inverse of `pack`: `(width, bytes, out)`. Returns the largest word.
    pub unpack: fn(u32, &[u8], &mut [u32]) -> u32,
    /// Like `unpack`, adding to `out` modulo 2^32. Returns the largest word added.
    pub add_packed: fn(u32, &[u8], &mut [u32]) -> u32,
    /// Like `unpack`, subtracting from `out` modulo 2^32. Returns the largest word subtracted.
    pub sub_packed: fn(u32, &[u8], &mut [u32]) -> u32,
    /// The prime field of the payload layer.
    pub field: &'static field::FieldKernels,
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
    /// x86-64 with AVX2 and FMA (2013 and later).
    Avx2,
    /// x86-64 with AVX-512 F, BW, DQ, VL, IFMA and VBMI (Ice Lake, Zen 4 and later).
    Avx512,
}

impl Simd {
    /// Its name, as it is asked for.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Scalar => "scalar",
            Self::Avx2 => "avx2",
            Self::Avx512 => "avx512",
        }
    }
}

impl fmt::Display for Simd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A back-end was asked for by name that does not exist or that this CPU cannot run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no SIMD back-end `{asked}` here; available: {available}")]
pub struct UnavailableSimd {
    asked: String,
    available: String,
}

impl FromStr for Simd {
    type Err = UnavailableSimd;

    /// The back-end of this name, if this CPU runs it. Another one is never put in its place.
    fn from_str(name: &str) -> Result<Self, UnavailableSimd> {
        Self::available().find(|simd| simd.to_string() == name).ok_or_else(|| UnavailableSimd {
            asked: name.to_owned(),
            available: Self::available().map(|simd| simd.to_string()).collect::<Vec<_>>().join(", "),
        })
    }
}

impl Simd {
    /// Every back-end, slowest first.
    const ALL: [Self; 3] = [Self::Scalar, Self::Avx2, Self::Avx512];

    /// The kernels of this back-end.
    ///
    /// # Panics
    /// If this CPU cannot run them: [`detect`](Self::detect), [`available`](Self::available) and `from_str` never
    /// return such a value.
    pub fn kernels(self) -> &'static Kernels {
        self.table().unwrap_or_else(|| panic!("this CPU does not run the back-end `{self}`"))
    }

    /// The kernels, if this CPU runs them: the only way to the tables of the vector back-ends, and the detection that
    /// their dispatch relies on.
    fn table(self) -> Option<&'static Kernels> {
        match self {
            Self::Scalar => Some(scalar()),
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => avx2::detected().then_some(&avx2::KERNELS),
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => avx512::detected().then_some(&avx512::KERNELS),
            #[cfg(not(target_arch = "x86_64"))]
            Self::Avx2 | Self::Avx512 => None,
        }
    }

    /// The back-ends that this CPU runs, slowest first.
    pub fn available() -> impl DoubleEndedIterator<Item = Self> {
        Self::ALL.into_iter().filter(|simd| simd.table().is_some())
    }

    /// The back-end that a test suite runs on: the one that `PANETIERE_SIMD` names, or the fastest.
    ///
    /// # Panics
    /// If this CPU does not run the one that is named.
    #[cfg(any(test, feature = "test-util"))]
    pub fn under_test() -> Self {
        std::env::var("PANETIERE_SIMD").map_or_else(
            |_| Self::detect(),
            |name| name.parse().unwrap_or_else(|error: UnavailableSimd| panic!("PANETIERE_SIMD: {error}")),
        )
    }

    /// The fastest back-end of this CPU.
    pub fn detect() -> Self {
        Self::available().next_back().expect("the portable back-end runs everywhere")
    }
}

/// Products of two residues of a prime below 2^30 that fit a u64 together with one more residue.
const MAX_UNREDUCED: usize = 15;

/// `x / d` of public constants, where it fits a word.
#[cfg(target_arch = "x86_64")]
fn quotient(x: u64, d: u32) -> u32 {
    u32::try_from(x / u64::from(d)).expect("a quotient of constants of the parameter set")
}

/// `x mod d` of public constants.
#[cfg(target_arch = "x86_64")]
fn remainder(x: u64, d: u32) -> u32 {
    u32::try_from(x % u64::from(d)).expect("a remainder by a word")
}

/// A slice cut into registers.
///
/// # Panics
/// If something is left over: kernels take whole registers.
fn registers<const LANES: usize, T>(x: &[T]) -> &[[T; LANES]] {
    let (registers, rest) = x.as_chunks();
    assert!(rest.is_empty(), "{} is no multiple of {LANES}", x.len());
    registers
}

/// Like [`registers`], for writing.
fn registers_mut<const LANES: usize, T>(x: &mut [T]) -> &mut [[T; LANES]] {
    assert!(x.len().is_multiple_of(LANES), "{} is no multiple of {LANES}", x.len());
    x.as_chunks_mut().0
}

/// The kernels of [`Simd::under_test`].
#[cfg(any(test, feature = "test-util"))]
pub fn under_test() -> &'static Kernels {
    Simd::under_test().kernels()
}

/// The portable back-end.
pub const fn scalar() -> &'static Kernels {
    &scalar::KERNELS
}
