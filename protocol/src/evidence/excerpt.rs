//! A piece of a body whose BLAKE3 digest somebody signed, with the hashes that prove it is a piece of that body.
//!
//! BLAKE3 is a tree over chunks of 1024 bytes, so a few hashes stand for all the rest: to show that one polynomial of a
//! ciphertext of megabytes is out of range takes that polynomial. Bytes are proven at their place, whatever total length
//! is stated; the length is proven by an excerpt that reaches the end.

use crate::wire::{DecodeError, DecodeErrorKind, Reader};
use blake3::hazmat::{ChainingValue, HasherExt as _, Mode, left_subtree_len, merge_subtrees_non_root};
use blake3::{CHUNK_LEN, Hasher};
use std::ops::Range;

const CHUNK: u64 = 1024;

/// Whole chunks of a body, and the hashes of the subtrees beside them, in the order of the body.
#[derive(Clone, PartialEq, Eq)]
pub struct Excerpt {
    total: u64,
    start: u64,
    bytes: Vec<u8>,
    hashes: Vec<ChainingValue>,
}

/// A subtree: what lies in the excerpt, what beside it, what has to be split.
enum Part {
    Beside,
    Inside,
    Split(Range<u64>, Range<u64>),
}

fn part(excerpt: &Range<u64>, tree: &Range<u64>) -> Part {
    if tree.end <= excerpt.start || excerpt.end <= tree.start {
        Part::Beside
    } else if excerpt.start <= tree.start && tree.end <= excerpt.end {
        Part::Inside
    } else {
        let middle = tree.start + left_subtree_len(tree.end - tree.start);
        Part::Split(tree.start..middle, middle..tree.end)
    }
}

fn chaining_value(bytes: &[u8], offset: u64) -> ChainingValue {
    let mut hasher = Hasher::new();
    hasher.set_input_offset(offset);
    hasher.update_rayon(bytes).finalize_non_root()
}

/// Where a value lies in a slice: both ends are within it, so they fit.
fn within(range: &Range<u64>, offset: u64) -> Range<usize> {
    let at = |place: u64| usize::try_from(place - offset).expect("a place within a slice");
    at(range.start)..at(range.end)
}

impl Excerpt {
    /// The chunks of `body` that `range` lies in. Nothing of an empty body.
    ///
    /// # Panics
    /// If the range is empty or reaches beyond the body.
    pub(super) fn of(body: &[u8], range: Range<usize>) -> Self {
        assert!(range.start < range.end && range.end <= body.len(), "a range of the body");
        let start = range.start / CHUNK_LEN * CHUNK_LEN;
        let end = range.end.next_multiple_of(CHUNK_LEN).min(body.len());
        let place = |at: usize| u64::try_from(at).expect("a length fits 64 bits");
        let mut excerpt = Self {
            total: place(body.len()),
            start: place(start),
            bytes: body[start..end].to_vec(),
            hashes: Vec::new(),
        };
        let own = excerpt.range();
        let mut trees = Vec::from([Range { start: 0, end: excerpt.total }]);
        while let Some(tree) = trees.pop() {
            match part(&own, &tree) {
                Part::Beside => {
                    excerpt.hashes.push(chaining_value(&body[within(&tree, 0)], tree.start));
                }
                Part::Inside => {}
                Part::Split(left, right) => trees.extend([right, left]),
            }
        }
        excerpt
    }

    fn range(&self) -> Range<u64> {
        self.start..self.start + u64::try_from(self.bytes.len()).expect("a length fits 64 bits")
    }

    /// The digest of the body that this is a piece of.
    pub(super) fn digest(&self) -> [u8; blake3::OUT_LEN] {
        let mut hashes = self.hashes.iter();
        match part(&self.range(), &(0..self.total)) {
            Part::Split(left, right) => {
                let left = self.subtree(left, &mut hashes);
                let right = self.subtree(right, &mut hashes);
                *blake3::hazmat::merge_subtrees_root(&left, &right, Mode::Hash).as_bytes()
            }
            _ => *blake3::hash(&self.bytes).as_bytes(),
        }
    }

    fn subtree(&self, tree: Range<u64>, hashes: &mut std::slice::Iter<'_, ChainingValue>) -> ChainingValue {
        match part(&self.range(), &tree) {
            Part::Beside => {
                *hashes.next().expect("as many hashes as subtrees beside: counted when it was read")
            }
            Part::Inside => chaining_value(&self.bytes[within(&tree, self.start)], tree.start),
            Part::Split(left, right) => {
                let left = self.subtree(left, hashes);
                let right = self.subtree(right, hashes);
                merge_subtrees_non_root(&left, &right, Mode::Hash)
            }
        }
    }

    /// Bytes of the body, proven only if this reaches its end.
    pub(super) const fn total(&self) -> u64 {
        self.total
    }

    /// Whether it holds the body's last byte.
    pub(super) fn reaches_end(&self) -> bool {
        self.range().end == self.total
    }

    /// The bytes of the body at this place, if they are all here.
    pub(super) fn piece(&self, range: Range<u64>) -> Option<&[u8]> {
        let own = self.range();
        let inside = own.start <= range.start && range.start <= range.end && range.end <= own.end;
        inside.then(|| &self.bytes[within(&range, self.start)])
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.total.to_le_bytes());
        out.extend_from_slice(&self.start.to_le_bytes());
        super::charge::encode_bytes(&self.bytes, out);
        self.hashes.iter().for_each(|hash| out.extend_from_slice(hash));
    }

    pub(super) fn encoded_len(&self) -> usize {
        8 + 8 + 4 + self.bytes.len() + blake3::OUT_LEN * self.hashes.len()
    }

    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let refused = reader.fault("place of an excerpt", DecodeErrorKind::OutOfRange);
        let (total, start) = (reader.u64("length of a body")?, reader.u64("start of an excerpt")?);
        let bytes = super::charge::take_bytes(reader, "excerpt")?;
        let end = u64::try_from(bytes.len()).ok().and_then(|len| start.checked_add(len)).ok_or(refused)?;
        // Empty ones too: of them, any hash could be made the digest.
        if end == start || end > total || start % CHUNK != 0 || (end % CHUNK != 0 && end != total) {
            return Err(refused);
        }
        let own = start..end;
        let mut hashes = Vec::new();
        let mut trees = Vec::from([Range { start: 0, end: total }]);
        while let Some(tree) = trees.pop() {
            match part(&own, &tree) {
                Part::Beside => hashes.push(reader.array("hash beside an excerpt")?),
                Part::Inside => {}
                Part::Split(left, right) => trees.extend([right, left]),
            }
        }
        Ok(Self { total, start, bytes: bytes.to_vec(), hashes })
    }
}

impl std::fmt::Debug for Excerpt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Excerpt({} bytes from {} of {})", self.bytes.len(), self.start, self.total)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(len: usize) -> Vec<u8> {
        (0..len).map(|at| u8::try_from(at * at % 251).expect("below 251")).collect()
    }

    fn decode(bytes: &[u8]) -> Result<Excerpt, DecodeError> {
        let mut reader = Reader::new(bytes);
        let excerpt = Excerpt::decode(&mut reader)?;
        reader.finish()?;
        Ok(excerpt)
    }

    #[test]
    fn every_excerpt_has_the_digest_of_its_body() {
        for len in [1, 1023, 1024, 1025, 2048, 3000, 4096, 5000, 10_752, 17 * 1024 + 1] {
            let body = body(len);
            let expected = *blake3::hash(&body).as_bytes();
            for start in (0..len).step_by(997) {
                for end in [start + 1, start + 1024, start + 5000].map(|end| end.min(len)) {
                    let excerpt = Excerpt::of(&body, start..end);
                    assert_eq!(excerpt.digest(), expected, "{start}..{end} of {len}");
                    let mut bytes = Vec::new();
                    excerpt.encode(&mut bytes);
                    assert_eq!(bytes.len(), excerpt.encoded_len());
                    assert!(decode(&bytes).as_ref() == Ok(&excerpt));
                    let range = u64::try_from(start).unwrap()..u64::try_from(end).unwrap();
                    assert_eq!(excerpt.piece(range), Some(&body[start..end]));
                    assert_eq!(excerpt.reaches_end(), end.next_multiple_of(1024) >= len);
                    assert!(excerpt.piece(0..u64::try_from(len).unwrap() + 1).is_none());
                }
            }
        }
    }

    #[test]
    fn a_changed_byte_hash_or_place_has_another_digest_or_does_not_parse() {
        let body = body(9 * 1024 + 100);
        let expected = *blake3::hash(&body).as_bytes();
        let mut bytes = Vec::new();
        Excerpt::of(&body, 3000..4000).encode(&mut bytes);
        for at in 0..bytes.len() {
            let mut edited = bytes.clone();
            edited[at] ^= 1;
            let Ok(excerpt) = decode(&edited) else { continue };
            // The stated length alone may be another in the last chunk: it is not proven here, and not relied on.
            let only_length = at < 8;
            assert!(only_length || excerpt.digest() != expected, "byte {at}");
        }
        let mut end = Vec::new();
        Excerpt::of(&body, body.len() - 1..body.len()).encode(&mut end);
        for total in 1..12 * 1024u64 {
            let mut edited = end.clone();
            edited[..8].copy_from_slice(&total.to_le_bytes());
            let lie =
                decode(&edited).is_ok_and(|excerpt| excerpt.reaches_end() && excerpt.digest() == expected);
            assert_eq!(lie, total == 9 * 1024 + 100, "a length of {total}");
        }
    }
}
