//! What came out of a round.

use super::Statement;
use panetiere::channel::Missing;
use panetiere::ids::{CrsDigest, DeploymentId, EpochDigest, PostsDigest, SessionId, SetDigest};
use panetiere::wire::{Decode, DecodeError, DecodeErrorKind, Encode, HEADER_LEN, ObjectType, Reader};
use tlog::merkle;

/// What a recipient says of a round, signed by it. Anybody can compute it again from what the round's parties have
/// published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoundResult {
    /// The deployment.
    pub deployment: DeploymentId,
    /// The epoch's document.
    pub epoch: EpochDigest,
    /// The session.
    pub session: SessionId,
    /// The public parameters.
    pub crs: CrsDigest,
    /// Digest of the canonical set.
    pub set: SetDigest,
    /// Digest of the posts in it.
    pub posts: PostsDigest,
    /// Messages delivered.
    pub messages: u32,
    /// RFC 6962 root over them, sorted by their bytes. A client that looks for its own fetches the hashes of all of them:
    /// to ask for one would tell whose it is.
    pub root: [u8; 32],
    /// What did not come out.
    pub undelivered: Undelivered,
}

/// What did not come out of a sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Undelivered {
    /// Everything came out.
    Nothing,
    /// So many messages did not.
    Messages(u64),
    /// What so many slots hold did not.
    Slots(u64),
    /// Something did not.
    Unknown,
    /// The sum is no sum of vectors of this encoding: nothing came out.
    Everything,
}

impl Undelivered {
    /// What the channel says is missing.
    pub fn of(missing: &Missing) -> Self {
        match missing {
            Missing::Nothing => Self::Nothing,
            Missing::Messages(count) => Self::Messages(*count),
            Missing::Slots(slots) => Self::Slots(u64::try_from(slots.len()).expect("a length fits 64 bits")),
            _ => Self::Unknown,
        }
    }

    const fn parts(self) -> (u8, u64) {
        match self {
            Self::Nothing => (0, 0),
            Self::Messages(count) => (1, count),
            Self::Slots(count) => (2, count),
            Self::Unknown => (3, 0),
            Self::Everything => (4, 0),
        }
    }
}

/// The root over a round's messages, sorted by their bytes.
pub fn messages_root<'a>(messages: impl IntoIterator<Item = &'a [u8]>) -> [u8; 32] {
    let mut sorted: Vec<&[u8]> = messages.into_iter().collect();
    sorted.sort_unstable();
    let hashes: Vec<[u8; 32]> = sorted.into_iter().map(merkle::leaf_hash).collect();
    merkle::root(&hashes)
}

impl Statement for RoundResult {
    const DOMAIN: &'static str = "panetiere/result/v1";
}

impl Encode for RoundResult {
    fn encode(&self, out: &mut Vec<u8>) {
        ObjectType::Result.encode_header(out);
        self.deployment.encode(out);
        self.epoch.encode(out);
        self.session.encode(out);
        self.crs.encode(out);
        self.set.encode(out);
        self.posts.encode(out);
        out.extend_from_slice(&self.messages.to_le_bytes());
        out.extend_from_slice(&self.root);
        let (kind, count) = self.undelivered.parts();
        out.push(kind);
        out.extend_from_slice(&count.to_le_bytes());
    }

    fn encoded_len(&self) -> usize {
        HEADER_LEN + 6 * 32 + 4 + 32 + 1 + 8
    }
}

impl Decode for RoundResult {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        reader.header(ObjectType::Result)?;
        Ok(Self {
            deployment: DeploymentId::decode(reader)?,
            epoch: EpochDigest::decode(reader)?,
            session: SessionId::decode(reader)?,
            crs: CrsDigest::decode(reader)?,
            set: SetDigest::decode(reader)?,
            posts: PostsDigest::decode(reader)?,
            messages: reader.u32("number of messages")?,
            root: reader.array("root of the messages")?,
            undelivered: {
                let refused = reader.fault("what is undelivered", DecodeErrorKind::OutOfRange);
                match (reader.u8("what is undelivered")?, reader.u64("how much is undelivered")?) {
                    (0, 0) => Undelivered::Nothing,
                    (1, count) => Undelivered::Messages(count),
                    (2, count) => Undelivered::Slots(count),
                    (3, 0) => Undelivered::Unknown,
                    (4, 0) => Undelivered::Everything,
                    _ => return Err(refused),
                }
            },
        })
    }
}
