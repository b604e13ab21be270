//! The seed that a demo's randomness comes from.

use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng;
use sha2::{Digest, Sha256};
use std::fmt;
use std::str::FromStr;
use zeroize::Zeroizing;

/// 32 bytes that everything random in one demo is derived from: its messages, keys and noise.
///
/// Text form: 64 hex digits, either case. Whoever knows the seed knows every secret of that demo.
#[derive(Clone)]
pub struct Seed(Zeroizing<[u8; 32]>);

/// The text is no seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SeedError {
    /// Something other than a hex digit.
    #[error("a seed is hex digits only, character {position} is none")]
    Digit {
        /// Position in the text, counted from 1.
        position: usize,
    },
    /// Too short or too long.
    #[error("a seed is exactly 64 hex digits, this has {found} characters")]
    Length {
        /// Characters found.
        found: usize,
    },
}

impl Seed {
    /// The seed with these bytes.
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(Zeroizing::new(bytes))
    }

    /// A fresh seed from the operating system.
    ///
    /// # Errors
    /// If the operating system has no randomness to give.
    pub fn from_os() -> Result<Self, getrandom::Error> {
        let mut bytes = Zeroizing::new([0; 32]);
        getrandom::fill(bytes.as_mut_slice())?;
        Ok(Self(bytes))
    }

    /// The stream of random bytes for the purpose that `label` names. Streams of different labels are independent.
    pub fn stream(&self, label: &str) -> ChaCha20Rng {
        let mut hash = Sha256::new();
        hash.update(b"panetiere/demo/v1");
        hash.update(self.0.as_slice());
        // Last and of any length: everything before it is of fixed length.
        hash.update(label.as_bytes());
        ChaCha20Rng::from_seed(*Zeroizing::new(hash.finalize().into()))
    }
}

impl FromStr for Seed {
    type Err = SeedError;

    fn from_str(text: &str) -> Result<Self, SeedError> {
        if let Some(position) = text.chars().position(|c| !c.is_ascii_hexdigit()) {
            return Err(SeedError::Digit { position: position + 1 });
        }
        let wrong_length = SeedError::Length { found: text.len() };
        let bytes = data_encoding::HEXLOWER_PERMISSIVE.decode(text.as_bytes()).map_err(|_| wrong_length)?;
        let bytes = Zeroizing::new(bytes);
        Ok(Self::from_bytes(bytes.as_slice().try_into().map_err(|_| wrong_length)?))
    }
}

impl fmt::Debug for Seed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Seed(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_core::Rng;

    fn first_bytes(seed: &Seed, label: &str) -> [u8; 16] {
        let mut bytes = [0; 16];
        seed.stream(label).fill_bytes(&mut bytes);
        bytes
    }

    #[test]
    fn text_form_is_64_hex_digits_of_either_case() {
        let lower: Seed = "ab".repeat(32).parse().unwrap();
        let upper: Seed = "AB".repeat(32).parse().unwrap();
        assert_eq!(*lower.0, [0xab; 32]);
        assert_eq!(*lower.0, *upper.0);
        for (text, expected) in [
            (String::new(), SeedError::Length { found: 0 }),
            ("a".repeat(63), SeedError::Length { found: 63 }),
            ("a".repeat(65), SeedError::Length { found: 65 }),
            ("a".repeat(66), SeedError::Length { found: 66 }),
            (format!("0x{}", "a".repeat(62)), SeedError::Digit { position: 2 }),
            (format!("{}é", "a".repeat(62)), SeedError::Digit { position: 63 }),
        ] {
            assert_eq!(text.parse::<Seed>().err(), Some(expected), "{text}");
        }
    }

    #[test]
    fn streams_depend_on_seed_and_label() {
        let (one, two) = (Seed::from_bytes([1; 32]), Seed::from_bytes([2; 32]));
        assert_eq!(first_bytes(&one, "a"), first_bytes(&one, "a"));
        assert_ne!(first_bytes(&one, "a"), first_bytes(&one, "b"));
        assert_ne!(first_bytes(&one, "a"), first_bytes(&two, "a"));
    }

    #[test]
    fn debug_shows_nothing_and_the_system_gives_fresh_seeds() {
        assert_eq!(format!("{:?}", Seed::from_bytes([7; 32])), "Seed(..)");
        assert_ne!(*Seed::from_os().unwrap().0, *Seed::from_os().unwrap().0);
    }
}
