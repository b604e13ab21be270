//! Names of the payload encodings.

use std::fmt;
use std::str::FromStr;

/// How messages become a summable vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Encoding {
    /// Power sums over a prime field ([`crate::prony`]): smallest, all or nothing.
    Sketch,
}

impl Encoding {
    /// Every encoding.
    pub const ALL: [Self; 1] = [Self::Sketch];

    const fn name(self) -> &'static str {
        match self {
            Self::Sketch => "sketch",
        }
    }

    /// The byte that stands for this encoding in the check symbol. Never reused.
    pub(crate) const fn tag(self) -> u8 {
        match self {
            Self::Sketch => 1,
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
