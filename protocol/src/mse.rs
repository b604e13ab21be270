//! The peeling encoding: a multiset of messages in an array of cells, added up by plain addition modulo 2^35.
//!
//! The cells form `rows` rows of `buckets` buckets. A client draws a random label of two symbols (70 bits) and
//! adds one content to one bucket of each row: a count of 1, the label, the symbols of its message. Which
//! bucket, a keyed hash of the label says ([`ColumnKey`]). Cover is all zeros. In the sum of all vectors a
//! cell with count 1 shows the label and message that it holds; these are taken out of their other cells,
//! which uncovers further ones.
//!
//! Peeling stops short if and only if some messages form a *stopping set*: no cell holds exactly one of them.
//! Rows and buckets come from a table by capacity, for which the expected number of stopping sets, a bound on
//! the probability that there is one, is at most 2^-20 (`params/peeling.py`). A stall is no failure of the
//! rest: every message that came out is returned, with the number of those that did not ([`Peeled`]).
//!
//! The encoder is constant time in label and message: a client's cells are secret, since the cells of every
//! message become public with the sum. It goes through all cells with masks. The decoder is not constant
//! time: what it works on is that sum.
//!
//! A malicious client can put anything into its vector. It can spoil messages and add its own, but what comes
//! out has passed the caller's check (the check symbol of [`crate::channel`]), and the work is bounded: see
//! [`Mse::peel`].

mod columns;
mod error;
mod peel;
mod table;
#[cfg(test)]
mod tests;
mod vector;

pub use columns::{ColumnKey, Label};
pub use error::MseError;
pub use peel::{Element, Peeled, Rest};
pub use vector::Mse;
pub(crate) use vector::vector_in_range;

use crate::codec::pack::SYMBOL_LIMIT;
use chipmunk::N;
use table::TABLE;

/// The modulus t = 2^35: cells are added up in it. Every symbol is below it.
pub const MSE_MODULUS: u64 = SYMBOL_LIMIT;

/// Symbols of a label.
pub const LABEL_SYMBOLS: usize = 2;

/// Scalars of a cell besides the symbols of the message: count and label.
const HEAD: usize = 1 + LABEL_SYMBOLS;

/// Fewest rows.
pub const MIN_ROWS: usize = 4;

/// Most rows.
pub const MAX_ROWS: usize = 8;

/// Largest encoding, in scalars of 8 bytes in memory (1 GiB).
pub const MAX_SCALARS: usize = 1 << 27;

/// Shape of a peeling encoding. Both sides hold the same one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MseParams {
    rows: usize,
    buckets: usize,
    symbols: usize,
}

impl MseParams {
    /// The smallest shape that stalls with probability at most 2^-20 when the sum holds up to `capacity`
    /// messages of `symbols` symbols.
    ///
    /// # Errors
    /// `CapacityOutOfRange` outside `1..=1000`, what the table covers; otherwise as [`new`](Self::new).
    pub fn for_capacity(capacity: usize, symbols: usize) -> Result<Self, MseError> {
        let shape = TABLE.iter().find(|entry| capacity <= entry.capacity).filter(|_| capacity > 0);
        let shape = shape.ok_or(MseError::CapacityOutOfRange {
            found: capacity,
            max: TABLE.last().map_or(0, |entry| entry.capacity),
        })?;
        Self::new(shape.rows, shape.buckets, symbols)
    }

    /// `rows` rows of `buckets` buckets for messages of `symbols` symbols. Says nothing about stalls.
    ///
    /// # Errors
    /// `RowsOutOfRange` outside `MIN_ROWS..=MAX_ROWS`; `NoBuckets` and `NoSymbols` for 0; `TooManyScalars`
    /// above [`MAX_SCALARS`]. Nothing is allocated here.
    pub fn new(rows: usize, buckets: usize, symbols: usize) -> Result<Self, MseError> {
        if !(MIN_ROWS..=MAX_ROWS).contains(&rows) {
            return Err(MseError::RowsOutOfRange { found: rows });
        }
        if buckets == 0 {
            return Err(MseError::NoBuckets);
        }
        if symbols == 0 {
            return Err(MseError::NoSymbols);
        }
        let scalars = (|| symbols.checked_add(HEAD)?.checked_mul(rows)?.checked_mul(buckets))();
        match scalars {
            Some(scalars) if scalars <= MAX_SCALARS => Ok(Self { rows, buckets, symbols }),
            _ => Err(MseError::TooManyScalars { max: MAX_SCALARS }),
        }
    }

    /// Rows: cells that one message goes into.
    pub const fn rows(&self) -> usize {
        self.rows
    }

    /// Buckets of a row.
    pub const fn buckets(&self) -> usize {
        self.buckets
    }

    /// Symbols of one message.
    pub const fn symbols(&self) -> usize {
        self.symbols
    }

    /// Cells of all rows together.
    pub const fn cells(&self) -> usize {
        self.rows * self.buckets
    }

    /// Scalars of all cells.
    pub const fn scalars(&self) -> usize {
        self.cells() * self.width()
    }

    /// Plaintext polynomials that hold the scalars, the last one padded with zeros.
    pub const fn n_polys(&self) -> usize {
        self.scalars().div_ceil(N)
    }

    /// Scalars of a cell.
    const fn width(&self) -> usize {
        HEAD + self.symbols
    }
}
