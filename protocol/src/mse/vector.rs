//! The cells: insert, add, to and from polynomials.

use super::columns::{ColumnKey, Label};
use super::error::MseError;
use super::{MSE_MODULUS, MseParams};
use crate::plaintext::PlainPoly;
use chipmunk::N;
use std::fmt;
use subtle::{ConditionallySelectable, ConstantTimeEq};
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

/// The cells of one client's vector, or the sum of many.
///
/// Layout: row by row, bucket by bucket; a cell is its count, the two label symbols and the symbols of the
/// message, one after the other. Every scalar is in `[0, 2^35)`. Wiped on drop.
#[derive(Zeroize, ZeroizeOnDrop)]
pub struct Mse {
    #[zeroize(skip)]
    pub(super) params: MseParams,
    pub(super) scalars: Vec<u64>,
    /// Something other than 0 stands behind the last cell.
    pub(super) stray: bool,
}

impl fmt::Debug for Mse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mse").field("params", &self.params).finish_non_exhaustive()
    }
}

impl Mse {
    /// The encoding of no message: cover.
    pub fn empty(params: MseParams) -> Self {
        Self { params, scalars: vec![0; params.scalars()], stray: false }
    }

    /// Reads a summed plaintext.
    ///
    /// # Errors
    /// `PolyCount` for another number of polynomials; `ScalarOutOfRange` for a coefficient of more than 35
    /// bits.
    pub fn from_polys(params: MseParams, polys: &[PlainPoly]) -> Result<Self, MseError> {
        if polys.len() != params.n_polys() {
            return Err(MseError::PolyCount { expected: params.n_polys(), found: polys.len() });
        }
        let mut sum = Self { params, scalars: Vec::with_capacity(polys.len() * N), stray: false };
        for poly in polys {
            sum.scalars.extend_from_slice(poly.coefficients());
        }
        let out_of_range = sum.scalars.iter().enumerate().find(|&(_, &scalar)| scalar >= MSE_MODULUS);
        if let Some((index, &value)) = out_of_range {
            return Err(MseError::ScalarOutOfRange { index, value });
        }
        sum.stray = sum.scalars[params.scalars()..].iter().any(|&scalar| scalar != 0);
        sum.scalars.truncate(params.scalars());
        Ok(sum)
    }

    /// The plaintext polynomials: [`MseParams::n_polys`] of them, coefficients in `[0, 2^35)`.
    pub fn to_polys(&self) -> Vec<PlainPoly> {
        PlainPoly::from_scalars(&self.scalars)
    }

    /// The shape.
    pub const fn params(&self) -> &MseParams {
        &self.params
    }

    /// Adds one message. Constant time in label and symbols.
    ///
    /// # Errors
    /// `SymbolCount` and `SymbolOutOfRange` if the message does not have the parameters' shape.
    pub fn insert(&mut self, label: &Label, symbols: &[u64], key: &ColumnKey) -> Result<(), MseError> {
        if symbols.len() != self.params.symbols {
            return Err(MseError::SymbolCount { expected: self.params.symbols, found: symbols.len() });
        }
        // Nothing says which symbol it was.
        if symbols.iter().fold(0, |bits, &symbol| bits | symbol) >= MSE_MODULUS {
            return Err(MseError::SymbolOutOfRange);
        }
        self.insert_in_range(label, symbols, key);
        Ok(())
    }

    /// Adds one message whose symbols have 35 bits by construction: no branch on a symbol at all.
    pub(crate) fn insert_in_range(&mut self, label: &Label, symbols: &[u64], key: &ColumnKey) {
        let content = content(&self.params, label, symbols);
        let cells = self.scalars.chunks_exact_mut(self.params.width());
        for (mask, cell) in masks(&self.params, label, key).zip(cells) {
            for (scalar, &value) in cell.iter_mut().zip(content.iter()) {
                *scalar = scalar.wrapping_add(value & mask) & (MSE_MODULUS - 1);
            }
        }
    }

    /// Adds another vector: the result is the encoding of both sets of messages together. Constant time.
    ///
    /// # Errors
    /// `ParameterMismatch` if the shapes differ.
    pub fn merge(&mut self, other: &Self) -> Result<(), MseError> {
        if self.params != other.params {
            return Err(MseError::ParameterMismatch);
        }
        for (cell, &scalar) in self.scalars.iter_mut().zip(&other.scalars) {
            *cell = cell.wrapping_add(scalar) & (MSE_MODULUS - 1);
        }
        self.stray |= other.stray;
        Ok(())
    }
}

/// The vector of one message whose symbols have 35 bits by construction: what [`Mse::to_polys`] gives after one insert,
/// without the memory for a second copy. Constant time in label and symbols.
pub(crate) fn vector_in_range(
    params: &MseParams,
    label: &Label,
    symbols: &[u64],
    key: &ColumnKey,
) -> Vec<PlainPoly> {
    let content = content(params, label, symbols);
    let mut polys: Vec<PlainPoly> = (0..params.n_polys()).map(|_| PlainPoly::zero()).collect();
    let mut at = 0;
    for mask in masks(params, label, key) {
        let mut rest = &content[..];
        while !rest.is_empty() {
            // Where a cell crosses into the next polynomial is the same for every message.
            let room = &mut polys[at / N].coefficients_mut()[at % N..];
            let (here, behind) = rest.split_at(rest.len().min(room.len()));
            for (scalar, &value) in room.iter_mut().zip(here) {
                *scalar = value & mask;
            }
            at += here.len();
            rest = behind;
        }
    }
    polys
}

/// What a message puts into each of its cells: count, label, symbols.
fn content(params: &MseParams, label: &Label, symbols: &[u64]) -> Zeroizing<Vec<u64>> {
    debug_assert_eq!(symbols.len(), params.symbols);
    let mut content = Zeroizing::new(Vec::with_capacity(params.width()));
    content.push(1);
    content.extend_from_slice(label.symbols());
    content.extend_from_slice(symbols);
    content
}

/// For each cell, all ones if the label's message goes there, else 0.
///
/// Where a message went is secret, so whoever inserts one writes to every cell under its mask.
fn masks(params: &MseParams, label: &Label, key: &ColumnKey) -> impl Iterator<Item = u64> {
    let (rows, buckets) = (params.rows as u64, params.buckets as u64);
    (0..rows).flat_map(move |row| {
        let mine = key.bucket(row, label.symbols(), buckets);
        (0..buckets).map(move |bucket| u64::conditional_select(&0, &u64::MAX, bucket.ct_eq(&mine)))
    })
}
