//! The few pieces that all the text formats are made of, each with one spelling per value.

use crate::MAX_SIZE;
use base64::{Engine, engine::general_purpose::STANDARD};

/// Characters of a hash in base64.
const HASH_CHARS: usize = 44;

/// Takes a line without its newline off the front of `rest`. None if no newline is left.
pub(crate) fn take_line<'a>(rest: &mut &'a str) -> Option<&'a str> {
    let (line, after) = rest.split_once('\n')?;
    *rest = after;
    Some(line)
}

/// Reads a decimal in `0..=MAX_SIZE` without sign or leading zeros.
pub(crate) fn decimal(text: &str) -> Option<u64> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits || text.is_empty() || (text.len() > 1 && text.starts_with('0')) {
        return None;
    }
    text.parse().ok().filter(|value| *value <= MAX_SIZE)
}

/// Reads base64 with padding and without stray bits, so that no two texts give the same bytes.
pub(crate) fn base64(text: &str) -> Option<Vec<u8>> {
    STANDARD.decode(text).ok()
}

/// Writes base64 with padding.
pub(crate) fn to_base64(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// Reads one hash in base64.
pub(crate) fn hash(text: &str) -> Option<[u8; 32]> {
    if text.len() != HASH_CHARS {
        return None;
    }
    base64(text)?.try_into().ok()
}

/// Reads the hashes of a proof, one a line, up to the empty line that ends it. None if a line is no hash or there are
/// more than `max`.
pub(crate) fn hashes_to_blank(rest: &mut &str, max: usize) -> Option<Vec<[u8; 32]>> {
    let mut hashes = Vec::new();
    loop {
        let line = take_line(rest)?;
        if line.is_empty() {
            return Some(hashes);
        }
        if hashes.len() == max {
            return None;
        }
        hashes.push(hash(line)?);
    }
}
