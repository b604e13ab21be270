//! The leaves of the bulletin's log: typed, small, one encoding each.
//!
//! A leaf holds no time and no address. Bodies of megabytes lie beside the log; the leaf names them by digest. Every leaf
//! but the bulletin's own ([`RoundOpen`], [`PostsEnd`], [`Expulsion`], [`RoundClose`], [`RoundAbort`]) carries the signature of whom it
//! speaks for. What a leaf says counts only by where it stands: `host::round` has the rule.

mod epoch;
mod keys;
mod member;
mod messages;
mod result;
mod round;
mod signed;

pub use epoch::{AdmissionPolicy, EpochPlan, Witnesses};
pub use keys::{KeyRotation, NewKey};
pub use member::{Admission, Credential, Revocation};
pub use messages::{messages_from_bytes, messages_to_bytes};
pub use result::{RoundResult, Undelivered, messages_root};
pub use round::{
    AbortReason, Expulsion, ParseRoundError, PostsEnd, RoundAbort, RoundClose, RoundId, RoundKind, RoundOpen,
};
pub use signed::{Signed, Statement};

use panetiere::bulletin::{SignedGroupClaim, SignedLaneClaim, SignedPost, SignedSumClaim, StatementContext};
use panetiere::fault::{Attribution, Fault};
use panetiere::ids::SessionId;
use panetiere::wire::{Decode, DecodeError, DecodeErrorKind, Encode, HEADER_LEN, ObjectType, Reader};
use std::str::FromStr;

/// Bytes of a leaf at most: the log's format has 16 bits for the length of an entry.
pub const MAX_LEAF: usize = tlog::entry::MAX_ENTRY_BYTES;

/// A leaf is too long for the log. Only an epoch of very many servers, lanes or witnesses can be, or an answer of as many
/// servers: what an operator asks for has to be smaller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a leaf of kind {kind} of {found} bytes, the log takes at most {limit}")]
pub struct LeafTooLong {
    /// [`Leaf::kind`].
    pub kind: &'static str,
    /// Its bytes.
    pub found: usize,
    /// [`MAX_LEAF`].
    pub limit: usize,
}

impl Fault for LeafTooLong {
    fn code(&self) -> &'static str {
        "leaf_too_long"
    }

    fn attribution(&self) -> Attribution {
        Attribution::Caller
    }
}

/// A leaf that is read under the parameters of the round that it names: what it is and which round, and its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unread {
    /// The round.
    pub context: StatementContext,
    /// The whole leaf.
    pub bytes: Vec<u8>,
}

impl Unread {
    fn split(object: ObjectType, bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(bytes);
        reader.header(object)?;
        Ok(Self { context: StatementContext::decode(&mut reader)?, bytes: bytes.to_vec() })
    }
}

/// One entry of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Leaf {
    /// A client is admitted.
    Admission(Signed<Admission>),
    /// A client answers a complaint: a [`panetiere::bulletin::Answer`].
    Answer(Unread),
    /// A server has checked its envelopes: a [`panetiere::bulletin::Checked`].
    Checked(Unread),
    /// An epoch begins.
    Epoch(Box<Signed<EpochPlan>>),
    /// A client is taken out of a round.
    Expulsion(Expulsion),
    /// An aggregator has summed its group.
    GroupSum(SignedGroupClaim),
    /// A key is replaced.
    KeyRotation(KeyRotation),
    /// A lane has summed its shares.
    LaneSum(SignedLaneClaim),
    /// A client has posted.
    Post(SignedPost),
    /// A round takes no more posts.
    PostsEnd(PostsEnd),
    /// What came out of a round.
    Result(Signed<RoundResult>),
    /// A client is admitted no more.
    Revocation(Signed<Revocation>),
    /// A round is called off.
    RoundAbort(RoundAbort),
    /// A round is closed.
    RoundClose(RoundClose),
    /// A round is opened.
    RoundOpen(RoundOpen),
    /// A server has summed its key shares.
    ServerSum(SignedSumClaim),
}

impl Leaf {
    /// Reads an entry. What it says is not checked.
    ///
    /// # Errors
    /// Where and why the bytes are no leaf.
    pub fn parse(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(bytes);
        let object = reader.u16("object type")?;
        let known = |object: ObjectType| object as u16;
        match object {
            x if x == known(ObjectType::Admission) => Signed::from_bytes(bytes).map(Self::Admission),
            x if x == known(ObjectType::Answer) => Unread::split(ObjectType::Answer, bytes).map(Self::Answer),
            x if x == known(ObjectType::Checked) => {
                Unread::split(ObjectType::Checked, bytes).map(Self::Checked)
            }
            x if x == known(ObjectType::EpochLeaf) => {
                Signed::from_bytes(bytes).map(Box::new).map(Self::Epoch)
            }
            x if x == known(ObjectType::Expulsion) => Expulsion::from_bytes(bytes).map(Self::Expulsion),
            x if x == known(ObjectType::GroupSumLeaf) => {
                wrapped(ObjectType::GroupSumLeaf, bytes).map(Self::GroupSum)
            }
            x if x == known(ObjectType::KeyRotation) => KeyRotation::from_bytes(bytes).map(Self::KeyRotation),
            x if x == known(ObjectType::LaneSumLeaf) => {
                wrapped(ObjectType::LaneSumLeaf, bytes).map(Self::LaneSum)
            }
            x if x == known(ObjectType::PostStatement) => SignedPost::from_bytes(bytes).map(Self::Post),
            x if x == known(ObjectType::PostsEnd) => PostsEnd::from_bytes(bytes).map(Self::PostsEnd),
            x if x == known(ObjectType::Result) => Signed::from_bytes(bytes).map(Self::Result),
            x if x == known(ObjectType::Revocation) => Signed::from_bytes(bytes).map(Self::Revocation),
            x if x == known(ObjectType::RoundAbort) => RoundAbort::from_bytes(bytes).map(Self::RoundAbort),
            x if x == known(ObjectType::RoundClose) => RoundClose::from_bytes(bytes).map(Self::RoundClose),
            x if x == known(ObjectType::RoundOpen) => RoundOpen::from_bytes(bytes).map(Self::RoundOpen),
            x if x == known(ObjectType::ServerSumLeaf) => {
                wrapped(ObjectType::ServerSumLeaf, bytes).map(Self::ServerSum)
            }
            _ => Err(DecodeError { offset: 0, what: "type of leaf", kind: DecodeErrorKind::OutOfRange }),
        }
    }

    /// What kind of leaf it is, in snake_case: for logs, metrics and people.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Admission(_) => "admission",
            Self::Answer(_) => "answer",
            Self::Checked(_) => "checked",
            Self::Epoch(_) => "epoch",
            Self::Expulsion(_) => "expulsion",
            Self::GroupSum(_) => "group_sum",
            Self::KeyRotation(_) => "key_rotation",
            Self::LaneSum(_) => "lane_sum",
            Self::Post(_) => "post",
            Self::PostsEnd(_) => "posts_end",
            Self::Result(_) => "result",
            Self::Revocation(_) => "revocation",
            Self::RoundAbort(_) => "round_abort",
            Self::RoundClose(_) => "round_close",
            Self::RoundOpen(_) => "round_open",
            Self::ServerSum(_) => "server_sum",
        }
    }

    /// The session that it speaks of; none for a leaf that is not about one, or opens it.
    pub const fn session(&self) -> Option<SessionId> {
        Some(match self {
            Self::Answer(leaf) | Self::Checked(leaf) => leaf.context.session,
            Self::Expulsion(leaf) => leaf.session,
            Self::GroupSum(sum) => sum.claim().session,
            Self::LaneSum(sum) => sum.claim().session,
            Self::Post(post) => post.claim().session,
            Self::PostsEnd(leaf) => leaf.session,
            Self::Result(result) => result.claim().session,
            Self::RoundAbort(leaf) => leaf.session,
            Self::RoundClose(leaf) => leaf.session,
            Self::ServerSum(sum) => sum.claim().session,
            Self::Admission(_)
            | Self::Epoch(_)
            | Self::KeyRotation(_)
            | Self::Revocation(_)
            | Self::RoundOpen(_) => return None,
        })
    }

    /// The entry's bytes, for whoever makes a leaf that a log is to take.
    ///
    /// # Errors
    /// [`LeafTooLong`] if no log takes it.
    pub fn to_entry(&self) -> Result<Vec<u8>, LeafTooLong> {
        let (bytes, limit) = (self.to_bytes(), MAX_LEAF);
        if bytes.len() > limit {
            return Err(LeafTooLong { kind: self.kind(), found: bytes.len(), limit });
        }
        Ok(bytes)
    }

    /// The bytes, however many.
    pub fn to_bytes(&self) -> Vec<u8> {
        match self {
            Self::Admission(leaf) => leaf.to_bytes(),
            Self::Answer(leaf) | Self::Checked(leaf) => leaf.bytes.clone(),
            Self::Epoch(leaf) => leaf.to_bytes(),
            Self::Expulsion(leaf) => leaf.to_bytes(),
            Self::GroupSum(claim) => wrap(ObjectType::GroupSumLeaf, claim),
            Self::KeyRotation(leaf) => leaf.to_bytes(),
            Self::LaneSum(claim) => wrap(ObjectType::LaneSumLeaf, claim),
            Self::Post(leaf) => leaf.to_bytes(),
            Self::PostsEnd(leaf) => leaf.to_bytes(),
            Self::Result(leaf) => leaf.to_bytes(),
            Self::Revocation(leaf) => leaf.to_bytes(),
            Self::RoundAbort(leaf) => leaf.to_bytes(),
            Self::RoundClose(leaf) => leaf.to_bytes(),
            Self::RoundOpen(leaf) => leaf.to_bytes(),
            Self::ServerSum(claim) => wrap(ObjectType::ServerSumLeaf, claim),
        }
    }
}

/// A signed claim as a top-level object: what a sum's leaf is.
fn wrap(object: ObjectType, claim: &impl Encode) -> Vec<u8> {
    let mut out = Vec::with_capacity(HEADER_LEN + claim.encoded_len());
    object.encode_header(&mut out);
    claim.encode(&mut out);
    out
}

fn wrapped<T: Decode>(object: ObjectType, bytes: &[u8]) -> Result<T, DecodeError> {
    let mut reader = Reader::new(bytes);
    reader.header(object)?;
    let claim = T::decode(&mut reader)?;
    reader.finish()?;
    Ok(claim)
}

/// A text with its length: u16, then so many bytes.
fn write_text(text: &str, out: &mut Vec<u8>) {
    let len = u16::try_from(text.len()).expect("names of keys are short");
    out.extend_from_slice(&len.to_le_bytes());
    out.extend_from_slice(text.as_bytes());
}

/// A value in its text form, of which there is one per value.
fn read_text<T: FromStr>(reader: &mut Reader<'_>, what: &'static str) -> Result<T, DecodeError> {
    let len = reader.u16(what)?;
    reader.field(len.into(), what, |bytes| {
        std::str::from_utf8(bytes).ok().and_then(|text| text.parse().ok()).ok_or(())
    })
}
