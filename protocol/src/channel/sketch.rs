//! The sketch as a channel.

use super::{ChannelError, ChannelParams, CheckKey, message_symbols, read};
use crate::codec::pack::SYMBOL_LIMIT;
use crate::ids::SessionId;
use crate::plaintext::PlainPoly;
use crate::prony::{self, Element, Point, PronyParams, Sketch};
use rayon::prelude::*;

/// The vector of a message at a point. Symbols: length, data, check.
pub(super) fn encode_at(
    point: &Point,
    sketch: &PronyParams,
    params: &ChannelParams,
    session: &SessionId,
    payload: &[u8],
) -> Result<Vec<PlainPoly>, ChannelError> {
    let mut symbols = message_symbols(payload, params.max_message_bytes())?;
    let check = CheckKey::new(session).symbol(params.encoding(), &[point.value()], &symbols);
    symbols.push(check);
    Ok(prony::vector(sketch, point, &symbols))
}

/// The messages of a sum, in the sketch's order.
pub(super) fn decode(
    sketch: &PronyParams,
    params: &ChannelParams,
    session: &SessionId,
    plaintext: &[PlainPoly],
) -> Result<Vec<Vec<u8>>, ChannelError> {
    let elements = Sketch::from_polys(*sketch, plaintext)?.decode()?;
    let key = CheckKey::new(session);
    // Collected before looking for errors, so that the first bad message is the same one at every thread
    // count.
    let messages: Vec<Result<Vec<u8>, ChannelError>> =
        elements.par_iter().map(|element| open(element, params, &key)).collect();
    messages.into_iter().collect()
}

/// The bytes of one decoded element, if it is a message of this session.
fn open(element: &Element, params: &ChannelParams, key: &CheckKey) -> Result<Vec<u8>, ChannelError> {
    let Element { symbols, point } = element;
    let (&check, message) = symbols.split_last().ok_or(ChannelError::CheckFailed)?;
    // 35-bit symbols are less than the whole field.
    let in_range = symbols.iter().fold(0, |bits, symbol| bits | symbol) < SYMBOL_LIMIT;
    if !in_range || check != key.public_symbol(params.encoding(), &[*point], message) {
        return Err(ChannelError::CheckFailed);
    }
    read(message, params.max_message_bytes())
}
