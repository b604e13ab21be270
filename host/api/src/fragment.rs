//! Messages in pieces that fit a round: what clients send as payloads, and how whoever receives them puts them together.
//!
//! ```text
//! version (1) = 1 ‖ message id (16) ‖ index (u16) ‖ count (u16) ‖ piece
//! ```
//! All pieces but the last fill their payload. The id is random: it says that pieces belong together, and nothing of who
//! sent them. A message that comes twice is one message.

use panetiere::fault::{Attribution, Fault};
use rand_core::CryptoRng;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Bytes in front of a piece.
pub const HEADER_LEN: usize = 1 + MessageId::LEN + 2 + 2;
const VERSION: u8 = 1;
/// Messages whose pieces are kept while others are awaited; beyond, the oldest are given up.
pub const MAX_OPEN: usize = 1024;
/// Ids of whole messages that are remembered, to know a second copy.
pub const MAX_SEEN: usize = 65_536;

/// A message does not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FragmentError {
    /// A payload has no room for a piece.
    #[error("payloads of {payload} bytes have no room for a piece: a header has {HEADER_LEN}")]
    NoRoom {
        /// Bytes of a payload.
        payload: usize,
    },
    /// More than 65,535 pieces.
    #[error("a message of {bytes} bytes makes {pieces} pieces, at most 65535 are counted")]
    TooLong {
        /// Its length.
        bytes: usize,
        /// Its pieces.
        pieces: usize,
    },
}

impl Fault for FragmentError {
    fn code(&self) -> &'static str {
        match self {
            Self::NoRoom { .. } => "fragment_no_room",
            Self::TooLong { .. } => "fragment_too_long",
        }
    }

    fn attribution(&self) -> Attribution {
        Attribution::Caller
    }
}

/// A message's name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageId([u8; Self::LEN]);

impl MessageId {
    /// Bytes of an id.
    pub const LEN: usize = 16;

    /// A new one.
    pub fn random(rng: &mut (impl CryptoRng + ?Sized)) -> Self {
        let mut id = [0; Self::LEN];
        rng.fill_bytes(&mut id);
        Self(id)
    }
}

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&data_encoding::HEXLOWER.encode(&self.0))
    }
}

impl std::str::FromStr for MessageId {
    type Err = ();

    /// Reads an id as it is displayed: 32 lower-case hex digits.
    fn from_str(text: &str) -> Result<Self, ()> {
        let bytes = data_encoding::HEXLOWER.decode(text.as_bytes()).map_err(drop)?;
        bytes.try_into().map(Self).map_err(drop)
    }
}

impl fmt::Debug for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// One piece, as it is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fragment {
    /// The message.
    pub id: MessageId,
    /// Which piece, from 0.
    pub index: u16,
    /// Of how many, at least 1.
    pub count: u16,
    /// Its bytes.
    pub piece: Vec<u8>,
}

impl Fragment {
    /// The payload.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEADER_LEN + self.piece.len());
        out.push(VERSION);
        out.extend_from_slice(&self.id.0);
        out.extend_from_slice(&self.index.to_le_bytes());
        out.extend_from_slice(&self.count.to_le_bytes());
        out.extend_from_slice(&self.piece);
        out
    }

    /// Reads a payload. None: it is no piece of a message, but something else that somebody sent.
    pub fn parse(payload: &[u8]) -> Option<Self> {
        let (&version, rest) = payload.split_first()?;
        let (id, rest) = rest.split_first_chunk()?;
        let (index, rest) = rest.split_first_chunk()?;
        let (count, piece) = rest.split_first_chunk()?;
        let (index, count) = (u16::from_le_bytes(*index), u16::from_le_bytes(*count));
        (version == VERSION && index < count).then(|| Self {
            id: MessageId(*id),
            index,
            count,
            piece: piece.to_vec(),
        })
    }
}

/// A message as payloads of at most `payload` bytes.
///
/// # Errors
/// `NoRoom`, `TooLong`.
pub fn split(id: MessageId, message: &[u8], payload: usize) -> Result<Vec<Fragment>, FragmentError> {
    let room =
        payload.checked_sub(HEADER_LEN).filter(|room| *room > 0).ok_or(FragmentError::NoRoom { payload })?;
    let pieces = message.len().div_ceil(room).max(1);
    let too_long = FragmentError::TooLong { bytes: message.len(), pieces };
    let count = u16::try_from(pieces).map_err(|_| too_long)?;
    let piece = |index: u16| {
        let start = usize::from(index) * room;
        let piece = message[start..message.len().min(start + room)].to_vec();
        Fragment { id, index, count, piece }
    };
    Ok((0..count).map(piece).collect())
}

/// Puts messages together.
#[derive(Debug, Default)]
pub struct Reassembly {
    open: BTreeMap<MessageId, (u64, BTreeMap<u16, Fragment>)>,
    seen: BTreeSet<MessageId>,
    order: std::collections::VecDeque<MessageId>,
    clock: u64,
}

impl Reassembly {
    /// Takes a payload. Returns the message that it completes: itself, if it is no piece. None if more is awaited, or the
    /// message came before.
    pub fn take(&mut self, payload: Vec<u8>) -> Option<Vec<u8>> {
        let Some(fragment) = Fragment::parse(&payload) else { return Some(payload) };
        let Fragment { id, index, count, .. } = fragment;
        if self.seen.contains(&id) {
            return None;
        }
        self.clock += 1;
        let (touched, pieces) = self.open.entry(id).or_default();
        *touched = self.clock;
        // Somebody else's pieces under the same id, or of another cut: what was first counts.
        if pieces.values().next().is_some_and(|first| first.count != count) {
            return None;
        }
        pieces.entry(index).or_insert(fragment);
        if pieces.len() == usize::from(count) {
            let (_, pieces) = self.open.remove(&id)?;
            self.remember(id);
            return Some(pieces.into_values().flat_map(|fragment| fragment.piece).collect());
        }
        if self.open.len() > MAX_OPEN {
            let oldest = self.open.iter().min_by_key(|(_, (touched, _))| *touched).map(|(id, _)| *id);
            oldest.map(|id| self.open.remove(&id));
        }
        None
    }

    /// Remembers that a message has come, whole.
    pub fn remember(&mut self, id: MessageId) {
        self.open.remove(&id);
        self.seen.insert(id);
        self.order.push_back(id);
        if self.order.len() > MAX_SEEN
            && let Some(first) = self.order.pop_front()
        {
            self.seen.remove(&first);
        }
    }

    /// Whether pieces of this message are awaited.
    pub fn awaits(&self, id: &MessageId) -> bool {
        self.open.contains_key(id)
    }

    /// Messages of which pieces are missing.
    pub fn open(&self) -> usize {
        self.open.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn id(byte: u8) -> MessageId {
        MessageId([byte; MessageId::LEN])
    }

    proptest! {
        #[test]
        fn what_is_split_comes_together_in_any_order(
            message in proptest::collection::vec(any::<u8>(), 0..300),
            room in 1_usize..40,
            seed in any::<u64>(),
        ) {
            let fragments = split(id(1), &message, HEADER_LEN + room).unwrap();
            prop_assert_eq!(fragments.len(), message.len().div_ceil(room).max(1));
            let mut payloads: Vec<Vec<u8>> = fragments.iter().map(Fragment::to_bytes).collect();
            prop_assert!(payloads.iter().all(|payload| payload.len() <= HEADER_LEN + room));
            payloads.sort_by_key(|payload| blake3::keyed_hash(blake3::hash(&seed.to_le_bytes()).as_bytes(), payload).as_bytes().to_vec());
            let mut reassembly = Reassembly::default();
            let last = payloads.pop().unwrap();
            for payload in payloads {
                prop_assert_eq!(reassembly.take(payload.clone()), None);
                prop_assert_eq!(reassembly.take(payload), None);
            }
            prop_assert_eq!(reassembly.take(last.clone()), Some(message));
            prop_assert_eq!(reassembly.take(last), None);
            prop_assert_eq!(reassembly.open(), 0);
        }
    }

    #[test]
    fn what_is_no_piece_is_itself_and_other_cuts_are_not_mixed() {
        let mut reassembly = Reassembly::default();
        for payload in [b"".to_vec(), b"\x01short".to_vec(), vec![2; HEADER_LEN], vec![1; HEADER_LEN]] {
            assert_eq!(reassembly.take(payload.clone()), Some(payload));
        }
        let two = split(id(7), b"abcdef", HEADER_LEN + 3).unwrap();
        let three = split(id(7), b"uvwxyz", HEADER_LEN + 2).unwrap();
        assert_eq!(reassembly.take(two[0].to_bytes()), None);
        assert_eq!(reassembly.take(three[1].to_bytes()), None);
        assert_eq!(reassembly.take(two[1].to_bytes()), Some(b"abcdef".to_vec()));
        assert_eq!(split(id(1), b"a", HEADER_LEN), Err(FragmentError::NoRoom { payload: HEADER_LEN }));
        let long = vec![0; 65_536];
        let too_long = FragmentError::TooLong { bytes: 65_536, pieces: 65_536 };
        assert_eq!(split(id(1), &long, HEADER_LEN + 1), Err(too_long));
    }
}
