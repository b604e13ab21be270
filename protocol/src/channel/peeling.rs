//! Peeling as a channel.

use super::{ChannelError, ChannelParams, CheckKey, Recovered, message_symbols, read};
use crate::ids::SessionId;
use crate::mse::{self, ColumnKey, Element, Label, Mse, MseParams, Peeled, Rest};
use crate::plaintext::PlainPoly;

/// The vector of a message under a label. Symbols: length, data, check.
pub(super) fn encode_at(
    label: &Label,
    shape: &MseParams,
    params: &ChannelParams,
    session: &SessionId,
    payload: &[u8],
) -> Result<Vec<PlainPoly>, ChannelError> {
    let mut symbols = message_symbols(payload, params.max_message_bytes())?;
    let check = CheckKey::new(session).symbol(params.encoding(), label.symbols(), &symbols);
    symbols.push(check);
    Ok(mse::vector_in_range(shape, label, &symbols, &ColumnKey::new(session)))
}

/// The messages of a sum; with an error, those that came out.
pub(super) fn decode(
    shape: &MseParams,
    params: &ChannelParams,
    session: &SessionId,
    plaintext: &[PlainPoly],
) -> Result<Vec<Vec<u8>>, ChannelError> {
    let key = CheckKey::new(session);
    let passes = |element: &Element| {
        element
            .symbols
            .split_last()
            .is_some_and(|(&check, message)| check == key.symbol(params.encoding(), &element.label, message))
    };
    let Peeled { elements, rest } =
        Mse::from_polys(*shape, plaintext)?.peel(&ColumnKey::new(session), passes);
    let mut messages = Vec::with_capacity(elements.len());
    let mut malformed = 0;
    for Element { symbols, .. } in elements {
        // The check symbol is right, so this is what somebody sent: it had to be peeled, message or not.
        match symbols.split_last().map(|(_, message)| read(message, params.max_message_bytes())) {
            Some(Ok(message)) => messages.push(message),
            Some(Err(_)) | None => malformed += 1,
        }
    }
    let missing = match rest {
        Rest::Nothing if malformed == 0 => return Ok(messages),
        Rest::Nothing => Some(malformed),
        Rest::Stalled { missing } => Some(missing + malformed),
        Rest::Garbage => None,
    };
    Err(ChannelError::PeelStalled { recovered: Recovered::new(messages), missing })
}
