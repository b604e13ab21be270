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
//! Messages come back sorted by their bytes: the order says nothing of the senders.

mod encoding;
mod error;
mod params;
#[cfg(test)]
mod tests;

pub use encoding::{Encoding, ParseEncodingError};
pub use error::ChannelError;
pub use params::ChannelParams;

use crate::codec::pack::{self, SYMBOL_LIMIT};
use crate::ids::SessionId;
use crate::plaintext::PlainPoly;
use crate::prony::{self, Element, Point, Sketch};
use rand_chacha::ChaCha20Rng;
use rand_core::{CryptoRng, SeedableRng};
use rayon::prelude::*;
use zeroize::{Zeroize, Zeroizing};

/// The vector of a client that sends `payload`: `n_polys` polynomials, coefficients below the plaintext
/// modulus.
///
/// Constant time in the payload's bytes and in the randomness. The payload's length shows only in the copy of
/// its bytes into a buffer of the maximal length; everything after that works on the whole buffer.
///
/// # Errors
/// `MessageTooLong` if the payload does not fit.
pub fn encode_message(
    rng: &mut (impl CryptoRng + ?Sized),
    params: &ChannelParams,
    session: &SessionId,
    payload: &[u8],
) -> Result<Vec<PlainPoly>, ChannelError> {
    let vector = encode_at(Point::random(rng), params, session, payload)?;
    Ok(keep(vector, u64::MAX))
}

/// The vector of a client that sends nothing: all zeros.
///
/// It is made like a message, of which nothing is kept: a vector that is there at once, while a large message takes
/// milliseconds, would tell whoever times the posts who has sent something.
pub fn cover(params: &ChannelParams) -> Vec<PlainPoly> {
    let session = SessionId::derive("nowhere", 0, &[0; 32]);
    let point = Point::random(&mut ChaCha20Rng::from_seed([0; 32]));
    let vector = encode_at(point, params, &session, &[]).expect("an empty message fits every channel");
    // The compiler must not see that the vector goes unused.
    keep(vector, std::hint::black_box(0))
}

/// The vector with `mask` over every coefficient.
fn keep(mut vector: Vec<PlainPoly>, mask: u64) -> Vec<PlainPoly> {
    vector.iter_mut().flat_map(PlainPoly::coefficients_mut).for_each(|cell| *cell &= mask);
    vector
}

/// The messages of a round from the sum of all vectors, sorted by their bytes. All or nothing.
///
/// `expected` is the number of messages, if the caller knows it.
///
/// # Errors
/// `SketchFailed` if the sum does not decode; `CountMismatch` if it holds another number of messages than
/// expected; `CheckFailed`, `LengthOutOfRange`, `NonzeroPadding` if a message is not what `encode_message`
/// writes in this session.
pub fn decode_messages(
    params: &ChannelParams,
    session: &SessionId,
    plaintext: &[PlainPoly],
    expected: Option<usize>,
) -> Result<Vec<Vec<u8>>, ChannelError> {
    let elements = Sketch::from_polys(*params.sketch(), plaintext)?.decode()?;
    if let Some(expected) = expected.filter(|&expected| expected != elements.len()) {
        return Err(ChannelError::CountMismatch { expected, found: elements.len() });
    }
    let key = CheckKey::new(session);
    // Collected before looking for errors, so that the first bad message is the same one at every thread
    // count.
    let messages: Vec<Result<Vec<u8>, ChannelError>> =
        elements.par_iter().map(|element| open(element, params, &key)).collect();
    let mut messages = messages.into_iter().collect::<Result<Vec<_>, _>>()?;
    messages.sort_unstable();
    Ok(messages)
}

/// [`encode_message`] at a given point.
fn encode_at(
    point: Point,
    params: &ChannelParams,
    session: &SessionId,
    payload: &[u8],
) -> Result<Vec<PlainPoly>, ChannelError> {
    let max = params.max_message_bytes();
    if payload.len() > max {
        return Err(ChannelError::MessageTooLong { len: payload.len(), max });
    }
    let mut bytes = Zeroizing::new(vec![0; max]);
    bytes[..payload.len()].copy_from_slice(payload);

    // Length, all data symbols (the whole buffer fills exactly those), check. Exact capacity: a vector that
    // grows leaves copies of the message behind.
    let mut symbols = Zeroizing::new(Vec::with_capacity(params.sketch().symbols()));
    symbols.push(u64::try_from(payload.len()).expect("params keep lengths below 2^35"));
    pack::pack(&bytes, |symbol| symbols.push(symbol));
    let check = CheckKey::new(session).symbol(params.encoding(), point.value(), &symbols);
    symbols.push(check);

    Ok(prony::vector(params.sketch(), &point, &symbols))
}

/// The bytes of one decoded element, if it is a message of this session.
fn open(element: &Element, params: &ChannelParams, key: &CheckKey) -> Result<Vec<u8>, ChannelError> {
    let Element { symbols, point } = element;
    let (&check, message) = symbols.split_last().ok_or(ChannelError::CheckFailed)?;
    let (&length, data) = message.split_first().ok_or(ChannelError::CheckFailed)?;
    // 35-bit symbols are less than the whole field.
    let in_range = symbols.iter().fold(0, |bits, symbol| bits | symbol) < SYMBOL_LIMIT;
    if !in_range || check != key.public_symbol(params.encoding(), *point, message) {
        return Err(ChannelError::CheckFailed);
    }
    let max = params.max_message_bytes();
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
    /// Hashed: the encoding's byte, the point, then length and data, one u64 little-endian each. The number
    /// of symbols follows from the length of the input, so it is injective.
    fn symbol(&self, encoding: Encoding, point: u64, message: &[u64]) -> u64 {
        self.hash(&mut Zeroizing::new(Vec::new()), encoding, point, message)
    }

    /// [`symbol`](Self::symbol) of a message that nobody has to hide any more: nothing is wiped but the hasher.
    fn public_symbol(&self, encoding: Encoding, point: u64, message: &[u64]) -> u64 {
        self.hash(&mut Vec::new(), encoding, point, message)
    }

    /// The symbol, by way of an empty buffer for what is hashed.
    fn hash(&self, input: &mut Vec<u8>, encoding: Encoding, point: u64, message: &[u64]) -> u64 {
        // Allocated once: a vector that grows leaves copies of the message behind.
        input.reserve_exact(1 + 8 * (1 + message.len()));
        input.push(encoding.tag());
        input.extend_from_slice(&point.to_le_bytes());
        input.resize(1 + 8 * (1 + message.len()), 0);
        for (bytes, symbol) in input[9..].as_chunks_mut().0.iter_mut().zip(message) {
            *bytes = symbol.to_le_bytes();
        }
        let mut hasher = blake3::Hasher::new_keyed(&self.0);
        hasher.update(input);
        let hash = hasher.finalize();
        hasher.zeroize();
        let [b0, b1, b2, b3, b4, ..] = *hash.as_bytes();
        u64::from_le_bytes([b0, b1, b2, b3, b4, 0, 0, 0]) & (SYMBOL_LIMIT - 1)
    }
}
