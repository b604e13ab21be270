//! Which stored blob is which party's body in which round.
//!
//! Namespace [`NAMESPACE`] of the store's metadata: round (u64, big-endian), kind (u8), id (u32, big-endian) to BLAKE3 digest
//! and length (u64, big-endian). Whoever submits a leaf puts this row into the same submission, so that a leaf in the log
//! always has its body, and a body never two parties.
//!
//! Bodies are deleted with their round. Evidence for an expulsion is not: without it nobody can fold the log any more, so
//! it lies under round [`EVIDENCE_ROUND`], which is never deleted.

use super::recover::{Bodies, Body};
use super::{Blobs, Unavailable};
use crate::store::{BlobName, BlobStore, Change, Class, Reader, Row, Store, StoreError, StoredBlob, What};
use panetiere::ids::{AggregatorId, ClientId, NodeId, ServerId};
use panetiere_api::leaf::{Expulsion, RoundId};
use std::io;
use std::ops::Bound;

/// The namespace.
pub const NAMESPACE: &str = "bodies";

/// Where evidence for expulsions lies: no round has this number.
pub const EVIDENCE_ROUND: u64 = 0;

/// What may be kept of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Item {
    /// A party's body.
    Body(Body),
    /// The ciphertext of a post, where the post's own blob is its head alone.
    Ciphertext(ClientId),
    /// A checkpoint with a quorum of cosignatures that covers the close.
    Closing,
    /// The messages, as [`messages_to_bytes`](panetiere_api::leaf::messages_to_bytes) spells them.
    Messages,
    /// What a client seals to the servers: its signed statement, then the envelopes in their order. For the servers
    /// alone.
    Openings(ClientId),
}

impl Item {
    const fn kind_and_id(self) -> (u8, u32) {
        match self {
            Self::Body(Body::Post(client)) => (1, client.0),
            Self::Body(Body::GroupSum(aggregator)) => (2, aggregator.0 as u32),
            Self::Body(Body::LaneSum(lane)) => (3, lane.0 as u32),
            Self::Body(Body::ServerSum(server)) => (4, server.0 as u32),
            Self::Messages => (5, 0),
            Self::Closing => (6, 0),
            Self::Ciphertext(client) => (7, client.0),
            Self::Openings(client) => (8, client.0),
        }
    }

    fn from_kind_and_id(kind: u8, id: u32) -> Option<Self> {
        let short = u16::try_from(id);
        match (kind, short, id) {
            (1, _, id) => Some(Self::Body(Body::Post(ClientId(id)))),
            (2, Ok(id), _) => Some(Self::Body(Body::GroupSum(AggregatorId(id)))),
            (3, Ok(id), _) => Some(Self::Body(Body::LaneSum(NodeId(id)))),
            (4, Ok(id), _) => Some(Self::Body(Body::ServerSum(ServerId(id)))),
            (5, Ok(0), _) => Some(Self::Messages),
            (6, Ok(0), _) => Some(Self::Closing),
            (7, _, id) => Some(Self::Ciphertext(ClientId(id))),
            (8, _, id) => Some(Self::Openings(ClientId(id))),
            _ => None,
        }
    }

    /// The file that it lies in.
    pub const fn class(self) -> Class {
        match self {
            Self::Body(Body::Post(_)) | Self::Ciphertext(_) => Class::Posts,
            Self::Openings(_) => Class::Openings,
            _ => Class::Other,
        }
    }

    fn key(self, round: RoundId) -> [u8; 13] {
        let (kind, id) = self.kind_and_id();
        let mut key = [0; 13];
        key[..8].copy_from_slice(&round.0.to_be_bytes());
        key[8] = kind;
        key[9..].copy_from_slice(&id.to_be_bytes());
        key
    }

    fn from_key(key: &[u8]) -> Option<(RoundId, Self)> {
        let (round, rest) = key.split_first_chunk::<8>()?;
        let (kind, id) = rest.split_first()?;
        let id = u32::from_be_bytes(id.try_into().ok()?);
        Some((RoundId(u64::from_be_bytes(*round)), Self::from_kind_and_id(*kind, id)?))
    }
}

/// The row that says which blob it is: for the submission of the leaf that it belongs to. A second body of one party is
/// refused with `KeyExists`.
pub fn row(round: RoundId, item: Item, name: &BlobName) -> Change {
    let value = [&name.digest[..], &name.len.to_be_bytes()].concat();
    Change { namespace: NAMESPACE.to_owned(), key: item.key(round).to_vec(), what: What::PutNew(value) }
}

fn read_row(value: &[u8]) -> Option<BlobName> {
    let (digest, len) = value.split_first_chunk::<32>()?;
    Some(BlobName { digest: *digest, len: u64::from_be_bytes(len.try_into().ok()?) })
}

/// Writes a body that is here whole. Durable once blob and row are submitted together.
///
/// # Errors
/// The store's.
pub fn keep(
    store: &dyn BlobStore,
    round: RoundId,
    item: Item,
    bytes: &[u8],
) -> Result<(StoredBlob, Change), StoreError> {
    let name = BlobName::of(bytes);
    let mut writer = store.put(round.0, item.class(), name)?;
    writer.write(bytes)?;
    Ok((writer.finish()?, row(round, item, &name)))
}

/// Writes the evidence of an expulsion. Durable once it is submitted, with the leaf that names it.
///
/// # Errors
/// The store's.
pub fn keep_evidence(store: &dyn BlobStore, bytes: &[u8]) -> Result<StoredBlob, StoreError> {
    let mut writer = store.put(EVIDENCE_ROUND, Class::Other, BlobName::of(bytes))?;
    writer.write(bytes)?;
    writer.finish()
}

/// The blob that an expulsion names.
pub const fn evidence_of(expulsion: &Expulsion) -> BlobName {
    BlobName { digest: expulsion.evidence, len: expulsion.len }
}

/// A store, open or not, as rows and blobs.
pub trait Shelf {
    /// The first `most` rows of [`NAMESPACE`] from a key on.
    ///
    /// # Errors
    /// The store's.
    fn rows(&self, from: &[u8], most: usize) -> Result<Vec<Row>, StoreError>;

    /// A blob of a round.
    ///
    /// # Errors
    /// The store's; `Deleted` with its round.
    fn blob(&self, round: u64, name: &BlobName) -> Result<Vec<u8>, StoreError>;
}

impl Shelf for Store {
    fn rows(&self, from: &[u8], most: usize) -> Result<Vec<Row>, StoreError> {
        self.values(NAMESPACE, (Bound::Included(from), Bound::Unbounded), most)
    }

    fn blob(&self, _: u64, name: &BlobName) -> Result<Vec<u8>, StoreError> {
        self.get(&name.digest, 0..name.len)
    }
}

impl Shelf for Reader {
    fn rows(&self, from: &[u8], most: usize) -> Result<Vec<Row>, StoreError> {
        self.values(NAMESPACE, (Bound::Included(from), Bound::Unbounded), most)
    }

    fn blob(&self, round: u64, name: &BlobName) -> Result<Vec<u8>, StoreError> {
        self.get(round, name)
    }
}

/// The bodies in a store.
#[derive(Debug)]
pub struct Library<'s, S>(pub &'s S);

fn other(error: StoreError) -> io::Error {
    let kind = match error {
        StoreError::Deleted { .. } | StoreError::NotFound => io::ErrorKind::NotFound,
        _ => io::ErrorKind::Other,
    };
    io::Error::new(kind, error)
}

impl<S: Shelf> Library<'_, S> {
    /// Which blob an item is: None if nothing of the kind was kept.
    ///
    /// # Errors
    /// The store's; `InvalidData` for a row that names none.
    pub fn name(&self, round: RoundId, item: Item) -> io::Result<Option<BlobName>> {
        let key = item.key(round);
        let row = self.0.rows(&key, 1).map_err(other)?.into_iter().next();
        let Some((_, value)) = row.filter(|(found, _)| *found == key) else { return Ok(None) };
        let malformed = || io::Error::new(io::ErrorKind::InvalidData, "the row is no name of a blob");
        read_row(&value).ok_or_else(malformed).map(Some)
    }

    /// Everything that was published, in ascending order of the rounds, without the bytes: at most `most` from `after` on,
    /// and none only if there are none. Rows of a kind that this version does not know are passed over.
    ///
    /// # Errors
    /// The store's.
    pub fn items(&self, after: Option<(RoundId, Item)>, most: usize) -> io::Result<Vec<(RoundId, Item)>> {
        // The least key above: the last byte of an id may be the highest, and a longer key comes right behind.
        let mut from = after.map_or_else(Vec::new, |(round, item)| [&item.key(round)[..], &[0]].concat());
        loop {
            let rows = self.0.rows(&from, most).map_err(other)?;
            let Some((last, _)) = rows.last() else { return Ok(Vec::new()) };
            let items: Vec<_> = rows.iter().filter_map(|(key, _)| Item::from_key(key)).collect();
            if !items.is_empty() {
                return Ok(items);
            }
            from = [&last[..], &[0]].concat();
        }
    }
}

impl<S: Shelf> Bodies for Library<'_, S> {
    /// `NotFound` if it was deleted. A post whose ciphertext lies for itself is put together.
    fn item(&self, round: RoundId, item: Item) -> io::Result<Option<Vec<u8>>> {
        let Some(name) = self.name(round, item)? else { return Ok(None) };
        let mut bytes = self.0.blob(round.0, &name).map_err(other)?;
        if let Item::Body(Body::Post(client)) = item
            && let Some(ciphertext) = self.item(round, Item::Ciphertext(client))?
        {
            bytes.extend_from_slice(&ciphertext);
        }
        Ok(Some(bytes))
    }
}

impl<S: Shelf> Blobs for Library<'_, S> {
    fn get(&self, digest: &[u8; 32], len: u64) -> Result<Vec<u8>, Unavailable> {
        let blob = self.0.blob(EVIDENCE_ROUND, &BlobName { digest: *digest, len });
        blob.map_err(|error| Unavailable { digest: *digest, len, reason: error.to_string() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// Rows alone.
    struct Rows(BTreeMap<Vec<u8>, Vec<u8>>);

    impl Shelf for Rows {
        fn rows(&self, from: &[u8], most: usize) -> Result<Vec<Row>, StoreError> {
            let rows = self.0.range(from.to_vec()..).take(most);
            Ok(rows.map(|(key, value)| (key.clone(), value.clone())).collect())
        }

        fn blob(&self, _: u64, _: &BlobName) -> Result<Vec<u8>, StoreError> {
            Err(StoreError::NotFound)
        }
    }

    #[test]
    fn rows_of_a_later_version_end_no_export() {
        let known: Vec<_> = [1, 2, 5]
            .into_iter()
            .flat_map(|round| {
                [Item::Body(Body::Post(ClientId(3))), Item::Messages].map(|item| (RoundId(round), item))
            })
            .collect();
        let mut rows: BTreeMap<Vec<u8>, Vec<u8>> =
            known.iter().map(|(round, item)| (item.key(*round).to_vec(), Vec::new())).collect();
        for round in 0..7_u64 {
            for id in 0..5_u32 {
                // A kind between those that are known, and one behind them; and a longer key.
                for kind in [0, 4, 200] {
                    let key =
                        [&round.to_be_bytes()[..], &[kind], &(id | 1 << 20).to_be_bytes(), &[9]].concat();
                    rows.insert(key, Vec::new());
                }
            }
        }
        let rows = Rows(rows);
        let library = Library(&rows);
        for most in 1..6 {
            let (mut found, mut after) = (Vec::new(), None);
            loop {
                let page = library.items(after, most).unwrap();
                assert!(page.len() <= most);
                let Some(last) = page.last() else { break };
                after = Some(*last);
                found.extend(page);
            }
            assert_eq!(found, known, "pages of {most}");
        }
    }
}
