//! Why messages could not be encoded or decoded.

use crate::fault::{Attribution, Fault};
use crate::prony::PronyError;

/// Why messages could not be encoded or decoded. Names no message content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ChannelError {
    /// A message's check symbol is wrong, or some symbol has more than 35 bits.
    #[error("a message does not carry the check symbol of this session")]
    CheckFailed,
    /// The sum holds another number of messages than the caller expects.
    #[error("expected {expected} messages, the sum holds {found}")]
    CountMismatch {
        /// What the caller expects.
        expected: usize,
        /// What the sum holds.
        found: usize,
    },
    /// A message claims a length that no message has. Its sender computed the right check symbol for it.
    #[error("a message claims {found} bytes, expected at most {max}")]
    LengthOutOfRange {
        /// The claim.
        found: u64,
        /// The most this channel carries.
        max: usize,
    },
    /// The payload does not fit.
    #[error("a payload of {len} bytes, the channel carries at most {max}")]
    MessageTooLong {
        /// Its length in bytes.
        len: usize,
        /// The most this channel carries.
        max: usize,
    },
    /// A channel for no clients.
    #[error("a channel needs at least 1 client, 0 asked for")]
    NoClients,
    /// A channel whose messages hold nothing.
    #[error("a channel's messages hold at least 1 byte, 0 asked for")]
    NoMessageBytes,
    /// A message with bits behind its end. Its sender computed the right check symbol for them.
    #[error("a message has nonzero bits behind its end")]
    NonzeroPadding,
    /// The sum is not the sketch of a set of messages.
    #[error("the sketch does not decode")]
    SketchFailed(#[from] PronyError),
    /// No encoding of this size is ever made.
    #[error("no encoding for {rho} clients with messages of {symbols} symbols")]
    TooLarge {
        /// Clients.
        rho: usize,
        /// Data symbols of 35 bits a message; the largest number if the true one does not fit.
        symbols: usize,
    },
}

impl Fault for ChannelError {
    fn code(&self) -> &'static str {
        match self {
            Self::CheckFailed => "channel_check_failed",
            Self::CountMismatch { .. } => "channel_count_mismatch",
            Self::LengthOutOfRange { .. } => "channel_length_out_of_range",
            Self::MessageTooLong { .. } => "channel_message_too_long",
            Self::NoClients => "channel_no_clients",
            Self::NoMessageBytes => "channel_no_message_bytes",
            Self::NonzeroPadding => "channel_nonzero_padding",
            Self::SketchFailed(source) => source.code(),
            Self::TooLarge { .. } => "channel_too_large",
        }
    }

    fn attribution(&self) -> Attribution {
        match self {
            // One of the summed vectors is bad; the sum does not say whose.
            Self::CheckFailed
            | Self::CountMismatch { .. }
            | Self::LengthOutOfRange { .. }
            | Self::NonzeroPadding => Attribution::Nobody,
            Self::MessageTooLong { .. } | Self::NoClients | Self::NoMessageBytes | Self::TooLarge { .. } => {
                Attribution::Caller
            }
            Self::SketchFailed(source) => source.attribution(),
        }
    }
}
