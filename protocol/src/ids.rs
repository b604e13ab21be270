//! Identifiers. Each is a fixed-size newtype with one text form; none converts from `usize`.

use crate::wire::{Decode, DecodeError, Encode, Reader};
use sha2::{Digest, Sha256};
use std::fmt;
use std::str::FromStr;

/// An identifier's text form could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name} is written as {expected}")]
pub struct ParseIdError {
    name: &'static str,
    expected: String,
}

macro_rules! integer_id {
    ($(#[$doc:meta])* $name:ident($int:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub $int);

        impl $name {
            /// Bytes on the wire.
            pub const LEN: usize = size_of::<$int>();
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl FromStr for $name {
            type Err = ParseIdError;
            fn from_str(text: &str) -> Result<Self, ParseIdError> {
                // The one text form: no sign, no leading zero, no blanks.
                text.parse::<$int>().ok().filter(|value| value.to_string() == text).map(Self).ok_or_else(|| {
                    ParseIdError {
                        name: stringify!($name),
                        expected: format!("a decimal number, at most {}", <$int>::MAX),
                    }
                })
            }
        }

        impl Encode for $name {
            fn encode(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.0.to_le_bytes());
            }
            fn encoded_len(&self) -> usize {
                Self::LEN
            }
        }

        impl Decode for $name {
            fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
                Ok(Self(<$int>::from_le_bytes(reader.array(stringify!($name))?)))
            }
        }
    };
}

macro_rules! digest_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name([u8; 32]);

        impl $name {
            /// Bytes on the wire.
            pub const LEN: usize = 32;

            /// The bytes.
            pub const fn as_bytes(&self) -> &[u8; 32] {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&data_encoding::HEXLOWER.encode(&self.0))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self)
            }
        }

        impl FromStr for $name {
            type Err = ParseIdError;
            fn from_str(text: &str) -> Result<Self, ParseIdError> {
                data_encoding::HEXLOWER.decode(text.as_bytes()).ok().and_then(|v| v.try_into().ok()).map(Self).ok_or(
                    ParseIdError { name: stringify!($name), expected: "64 lower-case hex digits".to_owned() },
                )
            }
        }

        impl Encode for $name {
            fn encode(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.0);
            }
            fn encoded_len(&self) -> usize {
                Self::LEN
            }
        }

        impl Decode for $name {
            fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
                Ok(Self(reader.array(stringify!($name))?))
            }
        }
    };
}

integer_id! {
    /// A client of the epoch: the position of its admission. Wire: u32 little-endian.
    ClientId(u32)
}
integer_id! {
    /// Index of a server in the epoch's server list. Range: `0..n_servers`. Wire: u16 little-endian.
    ServerId(u16)
}
integer_id! {
    /// Index of an aggregator in the epoch's aggregator list. Range: `0..n_aggregators`. Wire: u16 little-endian.
    AggregatorId(u16)
}
integer_id! {
    /// Index of a lane in the epoch's lane list. Range: `0..n_lanes`. Wire: u16 little-endian.
    NodeId(u16)
}
integer_id! {
    /// Number of an epoch, counted from 0 in each deployment. Wire: u32 little-endian.
    EpochId(u32)
}
digest_id! {
    /// Names a deployment: SHA-256 of its name.
    DeploymentId
}
digest_id! {
    /// SHA-256 of the epoch's document: server list, keys, validity.
    EpochDigest
}
digest_id! {
    /// SHA-256 over parameter set, dimensions and seed: the public parameters a statement was made under.
    CrsDigest
}
digest_id! {
    /// Names one execution of the protocol. Derived from the log, never chosen.
    SessionId
}
digest_id! {
    /// SHA-256 over a round's slots: the room for them, and each one's ticket, place and size.
    ScheduleDigest
}
digest_id! {
    /// SHA-256 over the sorted client ids of a canonical set.
    SetDigest
}
digest_id! {
    /// SHA-256 over the sorted client ids of a canonical set, each with its commitment root: whose posts are summed, and
    /// which.
    PostsDigest
}
digest_id! {
    /// SHA-256 of a client's statement, without its signature: one statement has many valid signatures.
    StatementDigest
}
digest_id! {
    /// SHA-256 of a packed commitment root.
    RootDigest
}
digest_id! {
    /// RFC 6962 root over what one client delivers: the envelopes, and in erasure mode the lane items beside them.
    EnvelopeRoot
}
digest_id! {
    /// BLAKE3 digest of a packed ciphertext.
    CiphertextDigest
}
digest_id! {
    /// SHA-256 of a server's encapsulation key.
    EnvelopeKeyDigest
}

/// SHA-256 over a domain label and length-prefixed parts.
///
/// The length prefixes (u64 little-endian) make the concatenation injective: moving a byte from one part to the
/// next changes the digest.
pub(crate) fn tagged_sha256(label: &str, parts: &[&[u8]]) -> [u8; 32] {
    let mut hash = Sha256::new();
    for part in std::iter::once(label.as_bytes()).chain(parts.iter().copied()) {
        hash.update(u64::try_from(part.len()).expect("a slice is shorter than 2^64 bytes").to_le_bytes());
        hash.update(part);
    }
    hash.finalize().into()
}

impl DeploymentId {
    /// The id of the deployment called `name`.
    pub fn from_name(name: &str) -> Self {
        Self(tagged_sha256("panetiere/deployment/v1", &[name.as_bytes()]))
    }
}

impl SessionId {
    /// The session that the log's `RoundOpen` leaf opens. There is no other constructor: a session id is a position
    /// in a log, never a caller's choice, so no two executions can share one.
    ///
    /// `origin` is the log's origin line, `leaf_index` and `leaf_hash` (RFC 6962, SHA-256) those of the leaf.
    pub fn derive(origin: &str, leaf_index: u64, leaf_hash: &[u8; 32]) -> Self {
        Self(tagged_sha256(
            "panetiere/session/v1",
            &[origin.as_bytes(), &leaf_index.to_le_bytes(), leaf_hash],
        ))
    }
}

/// The only way a digest type gets its bytes inside this crate. `SessionId` is left out on purpose.
macro_rules! from_digest {
    ($($name:ident),*) => {$(
        impl $name {
            pub(crate) const fn from_digest(bytes: [u8; 32]) -> Self {
                Self(bytes)
            }
        }
    )*};
}
from_digest!(
    EpochDigest,
    CrsDigest,
    ScheduleDigest,
    SetDigest,
    PostsDigest,
    StatementDigest,
    RootDigest,
    EnvelopeRoot,
    CiphertextDigest,
    EnvelopeKeyDigest
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_forms_are_unique_and_round_trip() {
        assert_eq!("17".parse(), Ok(ServerId(17)));
        for bad in ["", "+1", "01", " 1", "65536", "-1", "0x1"] {
            assert!(bad.parse::<ServerId>().is_err(), "{bad:?}");
        }
        let id = DeploymentId::from_name("demo");
        assert_eq!(id.to_string().parse(), Ok(id));
        assert!(id.to_string().to_uppercase().parse::<DeploymentId>().is_err());
    }

    #[test]
    fn session_depends_on_every_input() {
        let base = SessionId::derive("log.example/a", 7, &[1; 32]);
        assert_ne!(base, SessionId::derive("log.example/b", 7, &[1; 32]));
        assert_ne!(base, SessionId::derive("log.example/a", 8, &[1; 32]));
        assert_ne!(base, SessionId::derive("log.example/a", 7, &[2; 32]));
    }
}
