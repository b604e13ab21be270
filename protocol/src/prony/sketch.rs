//! The sketch itself: insert, add, read.

use super::error::PronyError;
use super::field::{Fp, PRONY_PRIME};
use super::residue::Residues;
use super::roots::Splitting;
use super::{PronyParams, locator, payload};
use crate::plaintext::PlainPoly;
use chipmunk::N;
use chipmunk::ring::backend::field::word::add_canonical;
use chipmunk::ring::backend::secrecy::public;
use rand_core::CryptoRng;
use rayon::prelude::*;
use std::fmt;
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

/// The point of one message: a secret field element in `[1, p)`. Fresh for each message; wiped on drop.
#[derive(Zeroize, ZeroizeOnDrop)]
pub struct Point(u64);

impl Point {
    /// A uniform point. Range: `[1, p)`, by mask-and-reject; only rejected draws decide how many draws there
    /// are.
    pub fn random(rng: &mut (impl CryptoRng + ?Sized)) -> Self {
        const MASK: u64 = PRONY_PRIME.next_power_of_two() - 1;
        loop {
            let candidate = rng.next_u64() & MASK;
            // A rejected draw says nothing about the one that is kept.
            if public((1..PRONY_PRIME).contains(&candidate)) {
                return Self(candidate);
            }
        }
    }

    /// The point with this value, if it is in `[1, p)`.
    pub fn new(value: u64) -> Option<Self> {
        (1..PRONY_PRIME).contains(&value).then_some(Self(value))
    }

    pub(crate) const fn value(&self) -> u64 {
        self.0
    }
}

/// The vector of one message whose symbols are in `[0, p)` by construction: no branch on a symbol at all.
///
/// Result: [`PronyParams::n_polys`] polynomials. Constant time in point and symbols.
pub(crate) fn vector(params: &PronyParams, point: &Point, symbols: &[u64]) -> Vec<PlainPoly> {
    let contribution = Contribution::new(params, point, symbols);
    (0..params.n_polys())
        .into_par_iter()
        .with_min_len(POLYS_PER_TASK)
        .map(|index| {
            let mut poly = PlainPoly::zero();
            contribution.add_to(index * N, poly.coefficients_mut());
            poly
        })
        .collect()
}

/// Polynomials a task of the encoder works on, at least: a few microseconds each.
const POLYS_PER_TASK: usize = 16;

/// What one message adds to a sketch.
struct Contribution<'a> {
    params: &'a PronyParams,
    /// `z^j` for `j = 0..=cols`, times the radix of the kernels; canonical.
    powers: Zeroizing<Vec<u64>>,
    symbols: &'a [u64],
}

impl<'a> Contribution<'a> {
    fn new(params: &'a PronyParams, point: &Point, symbols: &'a [u64]) -> Self {
        debug_assert_eq!(symbols.len(), params.symbols);
        let z = Zeroizing::new(Fp::from_canonical(point.value()));
        let mut powers = Zeroizing::new(vec![0; params.cols() + 1]);
        let mut power = Zeroizing::new(params.kernels.field.radix);
        for cell in powers.iter_mut() {
            *cell = *power;
            *power = z.mul_canonical(*power);
        }
        Self { params, powers, symbols }
    }

    /// Adds the scalars from index `start` on to `out`; nothing to what is behind the last one.
    fn add_to(&self, start: usize, out: &mut [u64]) {
        let cols = self.params.cols();
        let multiply_add = self.params.kernels.field.multiply_add;
        let mut at = start;
        let end = self.params.scalars().min(start + out.len());
        let mut out = &mut out[..end.saturating_sub(start)];
        while at < end {
            // The power sums are those of a symbol 1, and have a column more than the symbols.
            let (symbol, column, columns) = match at.checked_sub(cols + 1) {
                None => (1, at, cols + 1),
                Some(at) => (self.symbols[at / cols], at % cols, cols),
            };
            let (part, rest) = out.split_at_mut(out.len().min(columns - column));
            multiply_add(part, &self.powers[column..column + part.len()], symbol);
            at += part.len();
            out = rest;
        }
    }
}

/// One message read from a sketch. Ordered by symbols, then point, which says nothing of the sender.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Element {
    /// The message: as many canonical field elements as the parameters say.
    pub symbols: Vec<u64>,
    /// Its point, in `[1, p)`.
    pub point: u64,
}

impl fmt::Debug for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Element(..)")
    }
}

/// A sketch: the scalars of one client's vector, or the sum of many.
///
/// Layout: power sums `S_0..=S_cols`, then `cols` entries for each symbol. Every scalar is in `[0, p)`. Wiped
/// on drop.
#[derive(Zeroize, ZeroizeOnDrop)]
pub struct Sketch {
    #[zeroize(skip)]
    params: PronyParams,
    scalars: Vec<u64>,
}

impl fmt::Debug for Sketch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sketch").field("params", &self.params).finish_non_exhaustive()
    }
}

impl Sketch {
    /// The sketch of no message: cover.
    pub fn empty(params: PronyParams) -> Self {
        Self { params, scalars: vec![0; params.scalars()] }
    }

    /// Reads a summed plaintext.
    ///
    /// # Errors
    /// `PolyCount` for another number of polynomials; `ScalarOutOfRange` for a coefficient outside `[0, p)`;
    /// `CheckFailed` for a nonzero coefficient behind the last scalar, where every client writes 0.
    pub fn from_polys(params: PronyParams, polys: &[PlainPoly]) -> Result<Self, PronyError> {
        if polys.len() != params.n_polys() {
            return Err(PronyError::PolyCount { expected: params.n_polys(), found: polys.len() });
        }
        // In the owner before any early return, so that it is wiped on every path.
        let mut sketch = Self { params, scalars: Vec::with_capacity(polys.len() * N) };
        for poly in polys {
            let coefficients = poly.coefficients();
            if coefficients.iter().fold(false, |found, &scalar| found | (scalar >= PRONY_PRIME)) {
                let index = coefficients.iter().take_while(|&&scalar| scalar < PRONY_PRIME).count();
                return Err(PronyError::ScalarOutOfRange {
                    index: sketch.scalars.len() + index,
                    value: coefficients[index],
                });
            }
            sketch.scalars.extend_from_slice(coefficients);
        }
        if sketch.scalars[params.scalars()..].iter().any(|&scalar| scalar != 0) {
            return Err(PronyError::CheckFailed);
        }
        sketch.scalars.truncate(params.scalars());
        Ok(sketch)
    }

    /// The plaintext polynomials of this sketch: [`PronyParams::n_polys`] of them, coefficients in `[0, p)`.
    pub fn to_polys(&self) -> Vec<PlainPoly> {
        PlainPoly::from_scalars(&self.scalars)
    }

    /// The shape.
    pub const fn params(&self) -> &PronyParams {
        &self.params
    }

    /// Adds one message. Constant time in point and symbols.
    ///
    /// # Errors
    /// `SymbolCount` and `SymbolOutOfRange` if the message does not have the parameters' shape.
    pub fn insert(&mut self, point: &Point, symbols: &[u64]) -> Result<(), PronyError> {
        if symbols.len() != self.params.symbols {
            return Err(PronyError::SymbolCount { expected: self.params.symbols, found: symbols.len() });
        }
        // The top bit of either word is set exactly if x >= p; nothing says which symbol it was.
        let out_of_range =
            symbols.iter().fold(0, |bits, &x| bits | (PRONY_PRIME - 1).wrapping_sub(x) | x) >> 63;
        if out_of_range != 0 {
            return Err(PronyError::SymbolOutOfRange);
        }
        Contribution::new(&self.params, point, symbols).add_to(0, &mut self.scalars);
        Ok(())
    }

    /// Adds another sketch: the result is the sketch of both sets of messages together. Constant time.
    ///
    /// # Errors
    /// `ParameterMismatch` if the shapes differ.
    pub fn merge(&mut self, other: &Self) -> Result<(), PronyError> {
        if self.params != other.params {
            return Err(PronyError::ParameterMismatch);
        }
        for (cell, &scalar) in self.scalars.iter_mut().zip(&other.scalars) {
            *cell = add_canonical(*cell, scalar);
        }
        Ok(())
    }

    /// The messages, sorted. All or nothing; the same at every thread count.
    ///
    /// # Errors
    /// `CapacityExceeded` if the count is above the capacity; `NotSplit` if the power sums are not those of
    /// distinct points other than 0; `CheckFailed` if any other scalar disagrees with the solution, or the
    /// count is 0 and some scalar is not.
    pub fn decode(&self) -> Result<Vec<Element>, PronyError> {
        let PronyParams { capacity, .. } = self.params;
        let cols = self.params.cols();
        let (sums, columns) = self.scalars.split_at(cols + 1);
        let k = match usize::try_from(sums[0]) {
            Ok(k) if k <= capacity => k,
            _ => return Err(PronyError::CapacityExceeded { elements: sums[0], capacity }),
        };
        if k == 0 {
            let clean = self.scalars.iter().all(|&scalar| scalar == 0);
            return if clean { Ok(Vec::new()) } else { Err(PronyError::CheckFailed) };
        }
        let locator = locator::from_power_sums(&sums[1..=k]);
        let residues = Residues::new(self.params.kernels);
        let splitting = Splitting::new(&residues, &locator)?;
        // S_0..=S_k agree with the locator by construction, so the recurrence checks S_{k+1}..=S_cols.
        if !locator::satisfies_recurrence(&locator, sums) {
            return Err(PronyError::CheckFailed);
        }
        let roots = splitting.roots(&residues)?;
        let messages = payload::recover(&residues, columns, cols, &locator, &roots)?;
        let mut elements: Vec<Element> = messages
            .into_iter()
            .zip(&roots)
            .map(|(symbols, root)| Element { symbols, point: root.to_canonical() })
            .collect();
        elements.sort_unstable();
        Ok(elements)
    }
}
