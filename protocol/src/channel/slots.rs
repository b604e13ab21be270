//! Slots as a channel.
//!
//! A slot holds the check symbol, the length and the data. The check symbol comes first: its place is the same
//! in every slot, and a client fills a slot without its length showing. It is computed over as much data as
//! the longest slot holds, zeros behind the end of a shorter one, for the same reason. It is bound to the
//! session and to the slot's place and size.

use super::{ChannelError, ChannelParams, CheckKey, Encoding, Recovered, message_symbols, read};
use crate::codec::CodecError;
use crate::codec::slots::{Schedule, Slot, Ticket, decode_ranges};
use crate::ids::SessionId;
use crate::plaintext::PlainPoly;
use chipmunk::ring::backend::secrecy::public;
use subtle::{ConditionallySelectable, ConstantTimeGreater};
use zeroize::Zeroizing;

/// Whether a message is in the vector that was made for it. The vector is posted in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a message that is not in the vector was not sent"]
pub enum Placed {
    /// The ticket has no slot: its request was refused, or did not come through. Try again in another round.
    NoSlot,
    /// The message is in its slot.
    Sent,
    /// The message is longer than what the ticket reserved.
    TooLong,
}

/// A vector with a message in a slot.
pub(super) struct Filled {
    pub vector: Vec<PlainPoly>,
    /// What has yet to be put over every coefficient: all ones, or 0 if the message was not placed.
    pub mask: u64,
    pub placed: Placed,
}

/// The vector of a message in the slot of a ticket. One path, whether there is such a slot or not.
pub(super) fn encode(
    ticket: &Ticket,
    schedule: &Schedule,
    params: &ChannelParams,
    session: &SessionId,
    payload: &[u8],
) -> Result<Filled, ChannelError> {
    let message = message_symbols(payload, params.max_message_bytes())?;
    let claim = schedule.find(ticket);
    let too_long = (payload.len() as u64).ct_gt(&claim.bytes());
    let label = Zeroizing::new([claim.start(), claim.bytes()]);
    let mut frame = Zeroizing::new(Vec::with_capacity(1 + message.len()));
    frame.push(CheckKey::new(session).symbol(Encoding::Slots, &*label, &message));
    frame.extend_from_slice(&message);
    // Only a message that is too long leaves anything behind the end of its slot.
    let (vector, _, found) = schedule.place(&claim, &frame);
    let mask = u64::conditional_select(&0, &u64::MAX, found & !too_long);
    // The vector is made; what became of the message is for its sender only.
    let placed = match (public(found.into()), public(too_long.into())) {
        (false, _) => Placed::NoSlot,
        (true, false) => Placed::Sent,
        (true, true) => Placed::TooLong,
    };
    Ok(Filled { vector, mask, placed })
}

/// The messages of a sum; with an error, those of the undamaged slots.
///
/// A slot of zeros was reserved and not used: no message, and no damage. What lies outside all slots is
/// nobody's and not looked at.
pub(super) fn decode(
    schedule: &Schedule,
    params: &ChannelParams,
    session: &SessionId,
    plaintext: &[PlainPoly],
) -> Result<Vec<Vec<u8>>, ChannelError> {
    let expected = schedule.layout().n_polys();
    if plaintext.len() != expected {
        return Err(CodecError::PolyCount { expected, found: plaintext.len() }.into());
    }
    let ranges: Vec<_> = schedule.slots().iter().map(|slot| slot.coefficients.clone()).collect();
    let frames = decode_ranges(plaintext, &ranges)?;
    let key = CheckKey::new(session);
    let (mut messages, mut damaged) = (Vec::with_capacity(frames.len()), Vec::new());
    let used = schedule
        .slots()
        .iter()
        .zip(&frames)
        .enumerate()
        .filter(|(_, (_, frame))| frame.iter().any(|&x| x != 0));
    for (index, (slot, frame)) in used {
        match open(slot, frame, params, &key) {
            Ok(message) => messages.push(message),
            Err(_) => damaged.push(index),
        }
    }
    if damaged.is_empty() {
        return Ok(messages);
    }
    Err(ChannelError::SlotsDamaged { recovered: Recovered::new(messages), damaged })
}

/// The bytes in one slot, if they are a message of this session and slot.
fn open(slot: &Slot, frame: &[u64], params: &ChannelParams, key: &CheckKey) -> Result<Vec<u8>, ChannelError> {
    let (&check, message) = frame.split_first().ok_or(ChannelError::CheckFailed)?;
    let mut padded = message_symbols(&[], params.max_message_bytes())?;
    padded[..message.len()].copy_from_slice(message);
    let label = [slot.coefficients.start as u64, slot.bytes as u64];
    if check != key.symbol(Encoding::Slots, &label, &padded) {
        return Err(ChannelError::CheckFailed);
    }
    read(message, slot.bytes)
}
