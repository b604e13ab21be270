//! Why messages could not be encoded or decoded.

use super::encoding::Encoding;
use crate::codec::CodecError;
use crate::fault::{Attribution, Fault};
use crate::ids::ScheduleDigest;
use crate::mse::MseError;
use crate::prony::PronyError;
use std::fmt;

/// The messages that a damaged sum still gave: each passed every check. Sorted by their bytes.
#[derive(Clone, PartialEq, Eq)]
pub struct Recovered(Vec<Vec<u8>>);

impl Recovered {
    pub(super) fn new(mut messages: Vec<Vec<u8>>) -> Self {
        messages.sort_unstable();
        Self(messages)
    }

    /// The messages.
    pub fn messages(&self) -> &[Vec<u8>] {
        &self.0
    }

    /// The messages, by value.
    pub fn into_messages(self) -> Vec<Vec<u8>> {
        self.0
    }
}

impl fmt::Debug for Recovered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Recovered({} messages)", self.0.len())
    }
}

/// Why messages could not be encoded or decoded. Shows no message content.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
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
    /// Slots can be neither filled nor read before they are allocated.
    #[error("no slots are allocated yet: the tickets' round comes first")]
    NoSchedule,
    /// A message with bits behind its end. Its sender computed the right check symbol for them.
    #[error("a message has nonzero bits behind its end")]
    NonzeroPadding,
    /// Tickets are for slots only.
    #[error("the encoding {encoding} has no slots")]
    NotSlots {
        /// The encoding.
        encoding: Encoding,
    },
    /// The tickets at hand give other slots than those announced. To fill one of these would tell who did.
    #[error("the tickets do not give the schedule {agreed}")]
    OtherSchedule {
        /// The announced schedule.
        agreed: ScheduleDigest,
    },
    /// Not every message came out of the sum: bad luck (once in 2^20 rounds), more messages than the channel
    /// is for, or a malformed vector. Those that came out are good.
    #[error(
        "{} messages came out of the sum, {} did not",
        recovered.messages().len(),
        missing.map_or("an unknown number".to_owned(), |missing| missing.to_string())
    )]
    PeelStalled {
        /// The messages that came out.
        recovered: Recovered,
        /// How many did not, by the counts of the sum, and those that came out malformed: their senders
        /// computed the right check symbol. `None` if the counts contradict each other.
        missing: Option<u64>,
    },
    /// The sum is not that of vectors of this shape.
    #[error("the sum has not the shape of this peeling encoding")]
    PeelingFailed(#[from] MseError),
    /// The sum is not the sketch of a set of messages.
    #[error("the sketch does not decode")]
    SketchFailed(#[from] PronyError),
    /// Some slots hold something other than a message: several clients wrote there, or one wrote nonsense. The
    /// messages of the other slots are good.
    #[error("{} slots are damaged, {} messages came out of the others", damaged.len(), recovered.messages().len())]
    SlotsDamaged {
        /// The messages of the other slots.
        recovered: Recovered,
        /// The damaged ones, by their place in the schedule.
        damaged: Vec<usize>,
    },
    /// The slots cannot be filled or read.
    #[error("the slots cannot be filled or read")]
    SlotsFailed(#[from] CodecError),
    /// A message goes into a slot by the ticket that reserved it.
    #[error("a message for a slot needs the ticket that reserved it")]
    TicketNeeded,
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
            Self::NoSchedule => "channel_no_schedule",
            Self::NonzeroPadding => "channel_nonzero_padding",
            Self::NotSlots { .. } => "channel_not_slots",
            Self::OtherSchedule { .. } => "channel_other_schedule",
            Self::PeelStalled { .. } => "channel_peel_stalled",
            Self::PeelingFailed(source) => source.code(),
            Self::SketchFailed(source) => source.code(),
            Self::SlotsDamaged { .. } => "channel_slots_damaged",
            Self::SlotsFailed(source) => source.code(),
            Self::TicketNeeded => "channel_ticket_needed",
            Self::TooLarge { .. } => "channel_too_large",
        }
    }

    fn attribution(&self) -> Attribution {
        match self {
            // One of the summed vectors is bad, or chance; the sum does not say whose.
            Self::CheckFailed
            | Self::CountMismatch { .. }
            | Self::LengthOutOfRange { .. }
            | Self::NonzeroPadding
            // Who altered which of the two, they do not say.
            | Self::OtherSchedule { .. }
            | Self::PeelStalled { .. }
            | Self::SlotsDamaged { .. } => Attribution::Nobody,
            Self::MessageTooLong { .. }
            | Self::NoClients
            | Self::NoMessageBytes
            | Self::NoSchedule
            | Self::NotSlots { .. }
            | Self::TicketNeeded
            | Self::TooLarge { .. } => Attribution::Caller,
            Self::PeelingFailed(source) => source.attribution(),
            Self::SketchFailed(source) => source.attribution(),
            Self::SlotsFailed(source) => source.attribution(),
        }
    }
}
