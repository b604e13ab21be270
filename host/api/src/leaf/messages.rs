//! The messages of a round, as they are published beside the log.

use panetiere::wire::{DecodeError, DecodeErrorKind, HEADER_LEN, ObjectType, Reader};

/// The published form of a round's messages: sorted by their bytes, each behind its length (u32). One byte string for what
/// came out of a round, whoever recovered it. Nobody signs it: the `Result` leaf has the root.
///
/// # Panics
/// With a message of 4 GiB.
pub fn messages_to_bytes<'a>(messages: impl IntoIterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut sorted: Vec<&[u8]> = messages.into_iter().collect();
    sorted.sort_unstable();
    let mut out =
        Vec::with_capacity(HEADER_LEN + sorted.iter().map(|message| 4 + message.len()).sum::<usize>());
    ObjectType::Messages.encode_header(&mut out);
    for message in sorted {
        let len = u32::try_from(message.len()).expect("messages are shorter than 4 GiB");
        out.extend_from_slice(&len.to_le_bytes());
        out.extend_from_slice(message);
    }
    out
}

/// The messages in their published form.
///
/// # Errors
/// Where the bytes are none: cut short, or not in ascending order.
pub fn messages_from_bytes(bytes: &[u8]) -> Result<Vec<Vec<u8>>, DecodeError> {
    let mut reader = Reader::new(bytes);
    reader.header(ObjectType::Messages)?;
    let mut messages: Vec<Vec<u8>> = Vec::new();
    while reader.remaining() > 0 {
        let unsorted = reader.fault("message", DecodeErrorKind::NotCanonical);
        let len = reader.u32("length of a message")?;
        let len = usize::try_from(len).expect("usize has at least 32 bits");
        let message = reader.take(len, "message")?;
        if messages.last().is_some_and(|last| last.as_slice() > message) {
            return Err(unsorted);
        }
        messages.push(message.to_vec());
    }
    Ok(messages)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_have_one_encoding() {
        let sent: [&[u8]; 4] = [b"b", b"", b"a longer one", b"b"];
        let bytes = messages_to_bytes(sent);
        let mut sorted = sent.map(<[u8]>::to_vec).to_vec();
        sorted.sort();
        assert_eq!(messages_from_bytes(&bytes), Ok(sorted));
        assert_eq!(messages_to_bytes([]), bytes[..4]);
        for cut in (0..bytes.len()).filter(|cut| ![4, 8, 24, 29].contains(cut)) {
            assert!(messages_from_bytes(&bytes[..cut]).is_err(), "cut to {cut}");
        }
        // b and then nothing, by hand: every field is right and the order is not.
        let swapped = [&bytes[..4], &[1, 0, 0, 0], b"b", &[0, 0, 0, 0]].concat();
        let error = messages_from_bytes(&swapped).unwrap_err();
        assert_eq!(error.kind, DecodeErrorKind::NotCanonical);
        let huge = [&bytes[..4], &[255; 4]].concat();
        assert!(matches!(messages_from_bytes(&huge).unwrap_err().kind, DecodeErrorKind::Truncated { .. }));
    }
}
