//! Why a peeling encoding could not be made or read.

use super::{MAX_ROWS, MIN_ROWS, MSE_MODULUS};
use crate::fault::{Attribution, Fault};

/// Why a peeling encoding could not be made or read. Names no message content.
///
/// A stall is no error: [`Peeled`](super::Peeled) says what came out and what did not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MseError {
    /// The capacity asked for is 0 or beyond the table.
    #[error("a peeling encoding holds 1 to {max} messages, {found} asked for")]
    CapacityOutOfRange {
        /// What was asked for.
        found: usize,
        /// The largest capacity.
        max: usize,
    },
    /// Rows without buckets.
    #[error("a row has at least 1 bucket, 0 asked for")]
    NoBuckets,
    /// Messages of 0 symbols.
    #[error("a message has at least 1 symbol, 0 asked for")]
    NoSymbols,
    /// Two encodings of different shapes.
    #[error("the encodings have different shapes")]
    ParameterMismatch,
    /// A vector of the wrong length.
    #[error("expected {expected} polynomials, got {found}")]
    PolyCount {
        /// What the parameters say.
        expected: usize,
        /// What came.
        found: usize,
    },
    /// Too few or too many rows.
    #[error("a peeling encoding has {MIN_ROWS} to {MAX_ROWS} rows, {found} asked for")]
    RowsOutOfRange {
        /// What was asked for.
        found: usize,
    },
    /// A coefficient that no summed vector has.
    #[error("scalar {index} is {value}, expected less than {MSE_MODULUS}")]
    ScalarOutOfRange {
        /// Which scalar, counted over all polynomials.
        index: usize,
        /// Its value.
        value: u64,
    },
    /// A message with the wrong number of symbols.
    #[error("expected a message of {expected} symbols, got {found}")]
    SymbolCount {
        /// What the parameters say.
        expected: usize,
        /// What came.
        found: usize,
    },
    /// Some symbol of the message has more than 35 bits. Which one stays unsaid: symbols are secret.
    #[error("a symbol of the message is not less than {MSE_MODULUS}")]
    SymbolOutOfRange,
    /// The encoding would be larger than this library ever makes one.
    #[error("an encoding of this shape has more than {max} scalars")]
    TooManyScalars {
        /// The limit.
        max: usize,
    },
}

impl Fault for MseError {
    fn code(&self) -> &'static str {
        match self {
            Self::CapacityOutOfRange { .. } => "peeling_capacity_out_of_range",
            Self::NoBuckets => "peeling_no_buckets",
            Self::NoSymbols => "peeling_no_symbols",
            Self::ParameterMismatch => "peeling_parameter_mismatch",
            Self::PolyCount { .. } => "peeling_poly_count",
            Self::RowsOutOfRange { .. } => "peeling_rows_out_of_range",
            Self::ScalarOutOfRange { .. } => "peeling_scalar_out_of_range",
            Self::SymbolCount { .. } => "peeling_symbol_count",
            Self::SymbolOutOfRange => "peeling_symbol_out_of_range",
            Self::TooManyScalars { .. } => "peeling_too_many_scalars",
        }
    }

    fn attribution(&self) -> Attribution {
        // Shapes and vectors come from this process; what clients do wrong shows in what peeling gives.
        Attribution::Caller
    }
}
