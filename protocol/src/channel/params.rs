//! Sizes of a channel.

use super::encoding::Encoding;
use super::error::ChannelError;
use crate::codec::pack;
use crate::codec::slots::{
    RESERVATION_BYTES, Reservation, SLOT_FRAME_SYMBOLS, Schedule, SlotLayout, allocate,
};
use crate::ids::ScheduleDigest;
use crate::mse::{MSE_MODULUS, MseParams};
use crate::prony::{DEFAULT_SLACK, PRONY_PRIME, PronyParams};
use crate::wire::Decode;
use chipmunk::ring::backend::Kernels;
use std::sync::Arc;

/// Symbols of a message besides its data: length and check.
const FRAME_SYMBOLS: usize = 2;
const _: () = assert!(FRAME_SYMBOLS == SLOT_FRAME_SYMBOLS, "every encoding frames a message the same way");

/// An encoding, sized for a number of clients and a message length. Both sides hold the same one; the kernels that it
/// is computed with are everyone's own choice and no part of equality.
///
/// Slots are sized like every other encoding, so that the length of a vector is known before anybody reserves.
/// They take two rounds, each with parameters of its own. In the first, clients that have a message send
/// [`Ticket::request`](crate::codec::slots::Ticket::request) through the [`ticket_channel`](Self::ticket_channel), the
/// others cover. What comes out of it gives the schedule, which is announced with the second round; for that one
/// everybody holds the channel [`with_agreed_tickets`](Self::with_agreed_tickets). Then clients that have a message use
/// [`encode_in_slot`](super::encode_in_slot), the others cover.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChannelParams {
    shape: Shape,
    rho: usize,
    max_message_bytes: usize,
}

/// The encoding's own parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    Peeling(MseParams),
    Sketch(PronyParams),
    Slots { layout: SlotLayout, schedule: Option<Arc<Schedule>> },
}

impl ChannelParams {
    /// A channel for `rho` clients that send up to `message_bytes` bytes each.
    ///
    /// # Errors
    /// `NoClients` and `NoMessageBytes` for 0; `TooLarge` for sizes that no encoding has. Nothing is
    /// allocated here.
    pub fn for_messages(encoding: Encoding, rho: usize, message_bytes: usize) -> Result<Self, ChannelError> {
        let symbols =
            pack::symbols_for(message_bytes).ok_or(ChannelError::TooLarge { rho, symbols: usize::MAX })?;
        Self::sized(encoding, rho, symbols, message_bytes)
    }

    /// A channel for `rho` clients whose messages have `symbols` data symbols of 35 bits: as many whole bytes
    /// as fit.
    ///
    /// # Errors
    /// As [`for_messages`](Self::for_messages); `NoMessageBytes` for 0 symbols.
    pub fn for_symbols(encoding: Encoding, rho: usize, symbols: usize) -> Result<Self, ChannelError> {
        let message_bytes = pack::bytes_in(symbols).ok_or(ChannelError::TooLarge { rho, symbols })?;
        Self::sized(encoding, rho, symbols, message_bytes)
    }

    /// [`for_messages`](Self::for_messages) with the sketch.
    ///
    /// # Errors
    /// The same.
    pub fn prony_for_messages(rho: usize, message_bytes: usize) -> Result<Self, ChannelError> {
        Self::for_messages(Encoding::Sketch, rho, message_bytes)
    }

    /// [`for_symbols`](Self::for_symbols) with the sketch.
    ///
    /// # Errors
    /// The same.
    pub fn prony_for_symbols(rho: usize, symbols: usize) -> Result<Self, ChannelError> {
        Self::for_symbols(Encoding::Sketch, rho, symbols)
    }

    fn sized(
        encoding: Encoding,
        rho: usize,
        symbols: usize,
        max_message_bytes: usize,
    ) -> Result<Self, ChannelError> {
        if rho == 0 {
            return Err(ChannelError::NoClients);
        }
        if max_message_bytes == 0 {
            return Err(ChannelError::NoMessageBytes);
        }
        let too_large = ChannelError::TooLarge { rho, symbols };
        let frame = symbols.checked_add(FRAME_SYMBOLS);
        let shape = match encoding {
            Encoding::Peeling => {
                frame.and_then(|frame| MseParams::for_capacity(rho, frame).ok()).map(Shape::Peeling)
            }
            Encoding::Sketch => {
                frame.and_then(|frame| PronyParams::new(rho, frame, DEFAULT_SLACK).ok()).map(Shape::Sketch)
            }
            Encoding::Slots => frame
                .and_then(|frame| frame.checked_mul(rho))
                .and_then(|capacity| SlotLayout::new(capacity, max_message_bytes).ok())
                .map(|layout| Shape::Slots { layout, schedule: None }),
        };
        Ok(Self { shape: shape.ok_or(too_large)?, rho, max_message_bytes })
    }

    /// The channel for the tickets of these slots: peeling, in which a few lost tickets do not cost the others theirs,
    /// for messages of [`RESERVATION_BYTES`].
    ///
    /// # Errors
    /// `NotSlots` if this is another encoding; `TooLarge` for more clients than peeling has shapes for.
    pub fn ticket_channel(&self) -> Result<Self, ChannelError> {
        match self.shape {
            Shape::Slots { .. } => Self::for_messages(Encoding::Peeling, self.rho, RESERVATION_BYTES),
            Shape::Peeling(_) | Shape::Sketch(_) => Err(ChannelError::NotSlots { encoding: self.encoding() }),
        }
    }

    /// This channel with its slots allocated, for whoever announces the messages' round or reads its sum; a client takes
    /// [`with_agreed_tickets`](Self::with_agreed_tickets). `messages` is what came out of the tickets' round, in any order
    /// and whole or in part, as long as everybody takes the same; what is no request does not count.
    ///
    /// # Errors
    /// `NotSlots` if this is another encoding.
    pub fn with_tickets(&self, messages: &[Vec<u8>]) -> Result<Self, ChannelError> {
        let Shape::Slots { layout, .. } = self.shape else {
            return Err(ChannelError::NotSlots { encoding: self.encoding() });
        };
        let requests: Vec<Reservation> =
            messages.iter().filter_map(|message| Reservation::from_bytes(message).ok()).collect();
        let schedule = Some(Arc::new(allocate(&requests, layout)));
        Ok(Self { shape: Shape::Slots { layout, schedule }, ..*self })
    }

    /// [`with_tickets`](Self::with_tickets) for a client: only the slots that everybody has agreed on. `agreed` comes
    /// from where no two clients are shown different things, as the announcement of the messages' round in the log.
    ///
    /// # Errors
    /// `OtherSchedule` if these messages give another schedule: the client then sends nothing at all; `NotSlots` if
    /// this is another encoding.
    pub fn with_agreed_tickets(
        &self,
        messages: &[Vec<u8>],
        agreed: &ScheduleDigest,
    ) -> Result<Self, ChannelError> {
        let scheduled = self.with_tickets(messages)?;
        match scheduled.schedule().map(Schedule::digest) {
            Some(found) if found == *agreed => Ok(scheduled),
            _ => Err(ChannelError::OtherSchedule { agreed: *agreed }),
        }
    }

    /// Who may write where, once that is settled. `None` for the encodings without slots.
    pub fn schedule(&self) -> Option<&Schedule> {
        match &self.shape {
            Shape::Slots { schedule, .. } => schedule.as_deref(),
            Shape::Peeling(_) | Shape::Sketch(_) => None,
        }
    }

    /// The same channel, computed with `kernels` where there are any for its encoding: for the sketch. Without this it
    /// is computed with portable ones.
    #[must_use]
    pub fn with_kernels(self, kernels: &'static Kernels) -> Self {
        let shape = match self.shape {
            Shape::Sketch(sketch) => Shape::Sketch(sketch.with_kernels(kernels)),
            other => other,
        };
        Self { shape, ..self }
    }

    /// The encoding.
    pub const fn encoding(&self) -> Encoding {
        match self.shape {
            Shape::Peeling(_) => Encoding::Peeling,
            Shape::Sketch(_) => Encoding::Sketch,
            Shape::Slots { .. } => Encoding::Slots,
        }
    }

    /// Messages that a sum may hold. Cover takes no capacity.
    ///
    /// The sketch refuses more; peeling may stall; slots are refused when the room is used up.
    pub const fn capacity(&self) -> usize {
        self.rho
    }

    /// Bytes of the longest message.
    pub const fn max_message_bytes(&self) -> usize {
        self.max_message_bytes
    }

    /// Polynomials of every client's vector, message or cover.
    pub const fn n_polys(&self) -> usize {
        match &self.shape {
            Shape::Peeling(peeling) => peeling.n_polys(),
            Shape::Sketch(sketch) => sketch.n_polys(),
            Shape::Slots { layout, .. } => layout.n_polys(),
        }
    }

    /// The modulus in which vectors are added up; coefficients are below it.
    pub const fn plaintext_modulus(&self) -> u64 {
        match self.shape {
            Shape::Peeling(_) | Shape::Slots { .. } => MSE_MODULUS,
            Shape::Sketch(_) => PRONY_PRIME,
        }
    }

    pub(super) const fn shape(&self) -> &Shape {
        &self.shape
    }
}
