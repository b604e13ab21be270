//! Why a sketch could not be made or read.

use crate::fault::{Attribution, Fault};

/// Why a sketch could not be made or read. Names no message content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PronyError {
    /// More messages than the sketch was sized for, or a malformed vector among the summed ones.
    #[error("the sum counts {elements} messages, the sketch holds at most {capacity}")]
    CapacityExceeded {
        /// The count, `S_0`.
        elements: u64,
        /// The capacity.
        capacity: usize,
    },
    /// The capacity asked for is 0 or too large.
    #[error("a sketch holds 1 to {max} messages, {found} asked for")]
    CapacityOutOfRange {
        /// What was asked for.
        found: usize,
        /// The largest capacity.
        max: usize,
    },
    /// The columns contradict each other: no multiset of messages gives this sum.
    #[error("the sum is not the sketch of any set of messages")]
    CheckFailed,
    /// Without slack nothing would be checked.
    #[error("a sketch needs at least 1 column of slack, 0 asked for")]
    NoSlack,
    /// Messages of 0 symbols.
    #[error("a message has at least 1 symbol, 0 asked for")]
    NoSymbols,
    /// The power sums do not belong to distinct points: two clients drew the same one, or a vector is
    /// malformed.
    #[error("the power sums are not those of distinct points")]
    NotSplit,
    /// Two sketches of different shapes.
    #[error("the sketches have different shapes")]
    ParameterMismatch,
    /// A vector of the wrong length.
    #[error("expected {expected} polynomials, got {found}")]
    PolyCount {
        /// What the parameters say.
        expected: usize,
        /// What came.
        found: usize,
    },
    /// A coefficient that no summed vector has.
    #[error("scalar {index} is {value}, expected less than {modulus}", modulus = super::PRONY_PRIME)]
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
    /// Some symbol of the message is no field element. Which one stays unsaid: symbols are secret.
    #[error("a symbol of the message is not less than {modulus}", modulus = super::PRONY_PRIME)]
    SymbolOutOfRange,
    /// The sketch would be larger than this library ever makes one.
    #[error("a sketch of this shape has more than {max} scalars")]
    TooManyScalars {
        /// The limit.
        max: usize,
    },
}

impl Fault for PronyError {
    fn code(&self) -> &'static str {
        match self {
            Self::CapacityExceeded { .. } => "sketch_capacity_exceeded",
            Self::CapacityOutOfRange { .. } => "sketch_capacity_out_of_range",
            Self::CheckFailed => "sketch_check_failed",
            Self::NoSlack => "sketch_no_slack",
            Self::NoSymbols => "sketch_no_symbols",
            Self::NotSplit => "sketch_not_split",
            Self::ParameterMismatch => "sketch_parameter_mismatch",
            Self::PolyCount { .. } => "sketch_poly_count",
            Self::ScalarOutOfRange { .. } => "sketch_scalar_out_of_range",
            Self::SymbolCount { .. } => "sketch_symbol_count",
            Self::SymbolOutOfRange => "sketch_symbol_out_of_range",
            Self::TooManyScalars { .. } => "sketch_too_many_scalars",
        }
    }

    fn attribution(&self) -> Attribution {
        match self {
            // One of the summed vectors is bad, or chance; the sum does not say whose.
            Self::CapacityExceeded { .. } | Self::CheckFailed | Self::NotSplit => Attribution::Nobody,
            Self::CapacityOutOfRange { .. }
            | Self::NoSlack
            | Self::NoSymbols
            | Self::ParameterMismatch
            | Self::PolyCount { .. }
            | Self::ScalarOutOfRange { .. }
            | Self::SymbolCount { .. }
            | Self::SymbolOutOfRange
            | Self::TooManyScalars { .. } => Attribution::Caller,
        }
    }
}
