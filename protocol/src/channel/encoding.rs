//! Names of the payload encodings.

use std::fmt;
use std::str::FromStr;

/// How messages become a summable vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Encoding {
    /// Cells modulo 2^35 ([`crate::mse`]): twice the size, fast to read, and what comes out of a damaged sum
    /// still counts.
    Peeling,
    /// Power sums over a prime field ([`crate::prony`]): smallest, all or nothing.
    Sketch,
    /// A slot for each message ([`crate::codec::slots`]): reserved in a round of its own, each slot read by
    /// itself.
    Slots,
}

impl Encoding {
    /// Every encoding.
    pub const ALL: [Self; 3] = [Self::Sketch, Self::Peeling, Self::Slots];

    const fn name(self) -> &'static str {
        match self {
            Self::Peeling => "peeling",
            Self::Sketch => "sketch",
            Self::Slots => "slots",
        }
    }

    /// The byte that stands for this encoding in the check symbol. Never reused.
    pub(crate) const fn tag(self) -> u8 {
        match self {
            Self::Sketch => 1,
            Self::Peeling => 2,
            Self::Slots => 3,
        }
    }
}

impl fmt::Display for Encoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A name that no encoding has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no such payload encoding, expected one of: {}", Encoding::ALL.map(Encoding::name).join(", "))]
pub struct ParseEncodingError;

impl FromStr for Encoding {
    type Err = ParseEncodingError;

    fn from_str(text: &str) -> Result<Self, ParseEncodingError> {
        Self::ALL.into_iter().find(|encoding| encoding.name() == text).ok_or(ParseEncodingError)
    }
}
