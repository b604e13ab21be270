//! The payload layer's front: messages of up to n bytes from up to rho clients, in one summable vector.
//!
//! A message travels as symbols of 35 bits: its length in bytes, its bytes packed tightly, and a check
//! symbol. What comes back is exactly what went in; an empty message is a message, not cover.
//!
//! The check symbol is a keyed hash (the key comes from the session id) over encoding, point, length and
//! data. It is not linear, so no client can shift somebody else's message and its check together. A wrong
//! message passes with probability 2^-35. It does not say who sent a bad vector, and it does not stop a
//! malicious client from spoiling the round.
//!
//! The encodings differ in what a damaged sum still gives: the sketch nothing, peeling and slots every message
//! that passes its check ([`deliver`]).
//!
//! Slots take two rounds: tickets through a channel of their own, then messages. See [`ChannelParams::ticket_channel`].
//!
//! Messages come back sorted by their bytes: the order says nothing of the senders.

mod delivery;
mod encoding;
mod error;
mod params;
mod peeling;
mod sketch;
mod slots;
#[cfg(test)]
mod tests;

pub use delivery::{Delivery, Missing, deliver};
pub use encoding::{Encoding, ParseEncodingError};
pub use error::{ChannelError, Recovered};
pub use params::ChannelParams;
pub use slots::Placed;

use crate::codec::pack::{self, SYMBOL_LIMIT};
use crate::codec::slots::Ticket;
use crate::ids::SessionId;
use crate::mse::Label;
use crate::plaintext::PlainPoly;
use crate::prony::Point;
use params::Shape;
use rand_chacha::ChaCha20Rng;
use rand_core::{CryptoRng, SeedableRng};
use std::hint::black_box;
use zeroize::{Zeroize, Zeroizing};

/// The vector of a client that sends `payload`: `n_polys` polynomials, coefficients below the plaintext
/// modulus.
///
/// Constant time in the payload's bytes and in the randomness, which includes the cells that peeling writes to. The
/// payload's length shows only in the copy of its bytes into a buffer of the maximal length; everything after that
/// works on the whole buffer.
///
/// # Errors
/// `MessageTooLong` if the payload does not fit; `TicketNeeded` for slots, which [`encode_in_slot`] fills.
pub fn encode_message(
    rng: &mut (impl CryptoRng + ?Sized),
    params: &ChannelParams,
    session: &SessionId,
    payload: &[u8],
) -> Result<Vec<PlainPoly>, ChannelError> {
    let vector = match params.shape() {
        Shape::Peeling(peeling) => peeling::encode_at(&Label::random(rng), peeling, params, session, payload),
        Shape::Sketch(sketch) => sketch::encode_at(&Point::random(rng), sketch, params, session, payload),
        Shape::Slots { .. } => Err(ChannelError::TicketNeeded),
    }?;
    Ok(keep(vector, black_box(u64::MAX)))
}

/// The vector of a client that wants to send `payload` in the slot that its ticket reserved, and whether the payload is
/// in it. If not, the vector is cover, to be posted all the same: who got no slot is nobody else's business.
///
/// Constant time in ticket, slot and bytes, and in whether there is a slot; the payload's length shows as in
/// [`encode_message`].
///
/// # Errors
/// `MessageTooLong` if the payload is longer than any slot; `NoSchedule` before [`ChannelParams::with_tickets`];
/// `NotSlots` for another encoding.
pub fn encode_in_slot(
    ticket: &Ticket,
    params: &ChannelParams,
    session: &SessionId,
    payload: &[u8],
) -> Result<(Vec<PlainPoly>, Placed), ChannelError> {
    match params.shape() {
        Shape::Slots { schedule: Some(schedule), .. } => {
            let slots::Filled { vector, mask, placed } =
                slots::encode(ticket, schedule, params, session, payload)?;
            Ok((keep(vector, black_box(mask)), placed))
        }
        Shape::Slots { schedule: None, .. } => Err(ChannelError::NoSchedule),
        Shape::Peeling(_) | Shape::Sketch(_) => Err(ChannelError::NotSlots { encoding: params.encoding() }),
    }
}

/// The vector of a client that sends nothing: all zeros.
///
/// It is made like a message, of which nothing is kept: a vector that is there at once, while a large message takes
/// milliseconds, would tell whoever times the posts who has sent something. So a client of a slots' round needs the
/// schedule for its cover too: without one, there are only the zeros.
pub fn cover(params: &ChannelParams) -> Vec<PlainPoly> {
    let session = SessionId::derive("nowhere", 0, &[0; 32]);
    let mut rng = ChaCha20Rng::from_seed([0; 32]);
    let vector = match params.shape() {
        Shape::Peeling(peeling) => {
            peeling::encode_at(&Label::random(&mut rng), peeling, params, &session, &[])
        }
        Shape::Sketch(sketch) => sketch::encode_at(&Point::random(&mut rng), sketch, params, &session, &[]),
        Shape::Slots { schedule: Some(schedule), .. } => {
            slots::encode(&Ticket::new(0), schedule, params, &session, &[]).map(|filled| filled.vector)
        }
        Shape::Slots { schedule: None, .. } => Ok(vec![PlainPoly::zero(); params.n_polys()]),
    };
    // The compiler must not see that the vector goes unused.
    keep(vector.expect("an empty message fits every channel"), black_box(0))
}

/// The vector with `mask` over every coefficient.
fn keep(mut vector: Vec<PlainPoly>, mask: u64) -> Vec<PlainPoly> {
    vector.iter_mut().flat_map(PlainPoly::coefficients_mut).for_each(|cell| *cell &= mask);
    vector
}

/// The messages of a round from the sum of all vectors, sorted by their bytes.
///
/// `expected` is the number of messages, if the caller knows it.
///
/// # Errors
/// Sketch, all or nothing: `SketchFailed` if the sum does not decode; `CheckFailed`, `LengthOutOfRange`,
/// `NonzeroPadding` if a message is not what `encode_message` writes in this session. Peeling: `PeelStalled`
/// with the messages that came out; `PeelingFailed` for polynomials of another shape. Slots: `SlotsDamaged`
/// with the messages of the other slots; `SlotsFailed` for polynomials of another shape; `NoSchedule` before
/// [`ChannelParams::with_tickets`]. All: `CountMismatch` if every message came out but they are not as many
/// as expected.
pub fn decode_messages(
    params: &ChannelParams,
    session: &SessionId,
    plaintext: &[PlainPoly],
    expected: Option<usize>,
) -> Result<Vec<Vec<u8>>, ChannelError> {
    let mut messages = match params.shape() {
        Shape::Peeling(peeling) => peeling::decode(peeling, params, session, plaintext),
        Shape::Sketch(sketch) => sketch::decode(sketch, params, session, plaintext),
        Shape::Slots { schedule: Some(schedule), .. } => slots::decode(schedule, params, session, plaintext),
        Shape::Slots { schedule: None, .. } => Err(ChannelError::NoSchedule),
    }?;
    if let Some(expected) = expected.filter(|&expected| expected != messages.len()) {
        return Err(ChannelError::CountMismatch { expected, found: messages.len() });
    }
    messages.sort_unstable();
    Ok(messages)
}

/// Length and data of a message: the whole buffer of `max` bytes, zeros behind the payload, so that nothing
/// after this depends on the length. There is room for one symbol more: a vector that grows leaves copies of
/// the message behind.
fn message_symbols(payload: &[u8], max: usize) -> Result<Zeroizing<Vec<u64>>, ChannelError> {
    if payload.len() > max {
        return Err(ChannelError::MessageTooLong { len: payload.len(), max });
    }
    let mut bytes = Zeroizing::new(vec![0; max]);
    bytes[..payload.len()].copy_from_slice(payload);
    let data = pack::symbols_for(max).expect("params keep the number of bits small");
    let mut symbols = Zeroizing::new(Vec::with_capacity(1 + data + 1));
    symbols.push(u64::try_from(payload.len()).expect("params keep lengths below 2^35"));
    pack::pack(&bytes, |symbol| symbols.push(symbol));
    Ok(symbols)
}

/// The bytes of a message whose check symbol is right.
fn read(message: &[u64], max: usize) -> Result<Vec<u8>, ChannelError> {
    let (&length, data) = message.split_first().ok_or(ChannelError::CheckFailed)?;
    let len = usize::try_from(length)
        .ok()
        .filter(|&len| len <= max)
        .ok_or(ChannelError::LengthOutOfRange { found: length, max })?;
    let mut bytes = vec![0; len];
    if !pack::unpack(data.iter().copied(), &mut bytes) {
        return Err(ChannelError::NonzeroPadding);
    }
    Ok(bytes)
}

/// Key of the check symbols of one session.
struct CheckKey([u8; blake3::KEY_LEN]);

impl CheckKey {
    const CONTEXT: &'static str = "panetiere 2026-11 channel check v1";

    fn new(session: &SessionId) -> Self {
        Self(blake3::derive_key(Self::CONTEXT, session.as_bytes()))
    }

    /// The check symbol of a message: the low 35 bits of the keyed hash, read little-endian.
    ///
    /// Hashed: the encoding's byte, the label, then length and data, one u64 little-endian each. The label is
    /// what the encoding tells messages apart by: the point (sketch), the two label symbols (peeling), the
    /// slot's first coefficient and size in bytes (slots). The encoding says how many words it has and the
    /// length of the input how many follow, so the input is injective.
    fn symbol(&self, encoding: Encoding, label: &[u64], message: &[u64]) -> u64 {
        self.hash(&mut Zeroizing::new(Vec::new()), encoding, label, message)
    }

    /// [`symbol`](Self::symbol) of a message that nobody has to hide any more: nothing is wiped but the hasher.
    fn public_symbol(&self, encoding: Encoding, label: &[u64], message: &[u64]) -> u64 {
        self.hash(&mut Vec::new(), encoding, label, message)
    }

    /// The symbol, by way of an empty buffer for what is hashed.
    fn hash(&self, input: &mut Vec<u8>, encoding: Encoding, label: &[u64], message: &[u64]) -> u64 {
        // Allocated once: a vector that grows leaves copies of the message behind.
        let len = 1 + 8 * (label.len() + message.len());
        input.reserve_exact(len);
        input.push(encoding.tag());
        input.resize(len, 0);
        for (bytes, word) in input[1..].as_chunks_mut().0.iter_mut().zip(label.iter().chain(message)) {
            *bytes = word.to_le_bytes();
        }
        let mut hasher = blake3::Hasher::new_keyed(&self.0);
        hasher.update(input);
        let hash = hasher.finalize();
        hasher.zeroize();
        let [b0, b1, b2, b3, b4, ..] = *hash.as_bytes();
        u64::from_le_bytes([b0, b1, b2, b3, b4, 0, 0, 0]) & (SYMBOL_LIMIT - 1)
    }
}
