//! The canonical set: which clients a round sums.

use crate::fault::{Attribution, Fault};
use crate::ids::{ClientId, PostsDigest, RootDigest, SetDigest, tagged_sha256};
use crate::wire::{Decode, DecodeError, DecodeErrorKind, Encode, HEADER_LEN, ObjectType, Reader};

/// Ids do not form a canonical set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SetError {
    /// One client twice.
    #[error("client {client} stands in the set twice")]
    Duplicate {
        /// The client.
        client: ClientId,
    },
    /// No client at all.
    #[error("a canonical set has at least one client")]
    Empty,
}

impl Fault for SetError {
    fn code(&self) -> &'static str {
        match self {
            Self::Duplicate { .. } => "set_duplicate",
            Self::Empty => "set_empty",
        }
    }

    fn attribution(&self) -> Attribution {
        Attribution::Caller
    }
}

/// The clients of one round: sorted, unique, not empty. All parties sum over exactly these.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CanonicalSet(Box<[ClientId]>);

impl CanonicalSet {
    /// Sorts the ids into a set.
    ///
    /// # Errors
    /// `Duplicate` if an id stands twice; `Empty` without ids.
    pub fn new(clients: impl IntoIterator<Item = ClientId>) -> Result<Self, SetError> {
        let mut clients: Vec<ClientId> = clients.into_iter().collect();
        clients.sort_unstable();
        if let Some(pair) = clients.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(SetError::Duplicate { client: pair[0] });
        }
        if clients.is_empty() { Err(SetError::Empty) } else { Ok(Self(clients.into_boxed_slice())) }
    }

    /// The clients, ascending.
    pub fn clients(&self) -> &[ClientId] {
        &self.0
    }

    /// Number of clients.
    pub fn count(&self) -> u32 {
        u32::try_from(self.0.len()).expect("ids are distinct u32 values; 2^32 of them do not fit a round")
    }

    /// Whether `client` is in the set.
    pub fn contains(&self, client: ClientId) -> bool {
        self.0.binary_search(&client).is_ok()
    }

    /// SHA-256 over the sorted ids: what sums are signed over.
    pub fn digest(&self) -> SetDigest {
        let ids: Vec<u8> = self.0.iter().flat_map(|client| client.0.to_le_bytes()).collect();
        SetDigest::from_digest(tagged_sha256("panetiere/set/v1", &[&ids]))
    }
}

/// SHA-256 over the clients, ascending, each with the root that its post commits to.
///
/// A set says whose posts are summed; this says which. A client may have signed two for one session.
pub fn posts_digest<'a>(roots: impl IntoIterator<Item = (&'a ClientId, &'a RootDigest)>) -> PostsDigest {
    let mut posts = Vec::new();
    for (client, root) in roots {
        client.encode(&mut posts);
        root.encode(&mut posts);
    }
    PostsDigest::from_digest(tagged_sha256("panetiere/posts/v1", &[&posts]))
}

impl Encode for CanonicalSet {
    fn encode(&self, out: &mut Vec<u8>) {
        ObjectType::CanonicalSet.encode_header(out);
        out.extend_from_slice(&self.count().to_le_bytes());
        self.0.iter().for_each(|client| client.encode(out));
    }

    fn encoded_len(&self) -> usize {
        HEADER_LEN + 4 + ClientId::LEN * self.0.len()
    }
}

impl Decode for CanonicalSet {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        reader.header(ObjectType::CanonicalSet)?;
        let empty = reader.fault("number of clients", DecodeErrorKind::OutOfRange);
        let count = usize::try_from(reader.u32("number of clients")?).expect("usize has at least 32 bits");
        let need = ClientId::LEN.saturating_mul(count);
        let unsorted = reader.fault("client ids", DecodeErrorKind::NotCanonical);
        let bytes = reader.take(need, "client ids")?;
        let ids: Box<[ClientId]> =
            bytes.as_chunks().0.iter().map(|id| ClientId(u32::from_le_bytes(*id))).collect();
        if ids.is_empty() {
            return Err(empty);
        }
        if ids.is_sorted_by(|a, b| a < b) { Ok(Self(ids)) } else { Err(unsorted) }
    }
}
