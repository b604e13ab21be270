//! The bulletin's own leaves: a round opens, stops taking posts, closes, or is called off.
//!
//! None of them is signed but by the log: where they stand is what they say.

use panetiere::ids::{
    ClientId, CrsDigest, DeploymentId, EpochDigest, PostsDigest, ScheduleDigest, SessionId, SetDigest,
};
use panetiere::wire::{Decode, DecodeError, DecodeErrorKind, Encode, HEADER_LEN, ObjectType, Reader};
use std::fmt;
use std::str::FromStr;

/// Number of a round, dense per log, starting at 1. Wire: u64 little-endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RoundId(pub u64);

impl RoundId {
    /// Bytes on the wire.
    pub const LEN: usize = 8;

    /// The first round of a log.
    pub const FIRST: Self = Self(1);
}

impl fmt::Display for RoundId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A round's number could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a round is written as a decimal number from 1")]
pub struct ParseRoundError;

impl FromStr for RoundId {
    type Err = ParseRoundError;

    fn from_str(text: &str) -> Result<Self, ParseRoundError> {
        // The one text form: no sign, no leading zero, no blanks.
        let number = text.parse::<u64>().ok().filter(|number| *number > 0 && number.to_string() == text);
        number.map(Self).ok_or(ParseRoundError)
    }
}

/// What a round carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RoundKind {
    /// Messages, in an encoding without slots.
    Messages,
    /// Requests for slots.
    Tickets,
    /// Messages in slots: those that the tickets' round `tickets` has given out.
    Slots {
        /// The round with the requests.
        tickets: RoundId,
        /// Digest of the slots.
        schedule: ScheduleDigest,
    },
}

impl RoundKind {
    /// A stable name.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Messages => "messages",
            Self::Tickets => "tickets",
            Self::Slots { .. } => "slots",
        }
    }

    const fn encoded_len(&self) -> usize {
        match self {
            Self::Messages | Self::Tickets => 1,
            Self::Slots { .. } => 1 + RoundId::LEN + ScheduleDigest::LEN,
        }
    }
}

/// Opens a round. The session's id is derived from where this leaf stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoundOpen {
    /// The deployment.
    pub deployment: DeploymentId,
    /// The epoch's document.
    pub epoch: EpochDigest,
    /// The public parameters.
    pub crs: CrsDigest,
    /// The round's number.
    pub round: RoundId,
    /// What it carries.
    pub kind: RoundKind,
    /// How long posts are taken, in milliseconds from when the leaf is seen. A plan, no rule: where `PostsEnd` stands
    /// decides.
    pub collect_ms: u32,
    /// How long servers have to check after that, in milliseconds. A plan, no rule.
    pub check_ms: u32,
    /// How long clients have to answer after that, in milliseconds. A plan, no rule.
    pub answer_ms: u32,
}

impl Encode for RoundOpen {
    fn encode(&self, out: &mut Vec<u8>) {
        ObjectType::RoundOpen.encode_header(out);
        self.deployment.encode(out);
        self.epoch.encode(out);
        self.crs.encode(out);
        out.extend_from_slice(&self.round.0.to_le_bytes());
        match &self.kind {
            RoundKind::Messages => out.push(1),
            RoundKind::Tickets => out.push(2),
            RoundKind::Slots { tickets, schedule } => {
                out.push(3);
                out.extend_from_slice(&tickets.0.to_le_bytes());
                schedule.encode(out);
            }
        }
        out.extend_from_slice(&self.collect_ms.to_le_bytes());
        out.extend_from_slice(&self.check_ms.to_le_bytes());
        out.extend_from_slice(&self.answer_ms.to_le_bytes());
    }

    fn encoded_len(&self) -> usize {
        HEADER_LEN + 3 * 32 + RoundId::LEN + self.kind.encoded_len() + 3 * 4
    }
}

impl Decode for RoundOpen {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        reader.header(ObjectType::RoundOpen)?;
        let deployment = DeploymentId::decode(reader)?;
        let epoch = EpochDigest::decode(reader)?;
        let crs = CrsDigest::decode(reader)?;
        let round = read_round(reader)?;
        let unknown = reader.fault("kind of round", DecodeErrorKind::OutOfRange);
        let kind = match reader.u8("kind of round")? {
            1 => RoundKind::Messages,
            2 => RoundKind::Tickets,
            3 => RoundKind::Slots { tickets: read_round(reader)?, schedule: ScheduleDigest::decode(reader)? },
            _ => return Err(unknown),
        };
        let (collect_ms, check_ms) = (reader.u32("collect window")?, reader.u32("check window")?);
        let answer_ms = reader.u32("answer window")?;
        Ok(Self { deployment, epoch, crs, round, kind, collect_ms, check_ms, answer_ms })
    }
}

fn read_round(reader: &mut Reader<'_>) -> Result<RoundId, DecodeError> {
    let zero = reader.fault("round", DecodeErrorKind::OutOfRange);
    match reader.u64("round")? {
        0 => Err(zero),
        round => Ok(RoundId(round)),
    }
}

/// No post of the session counts behind this leaf: servers now say what they found wrong with the envelopes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PostsEnd {
    /// The session.
    pub session: SessionId,
}

impl Encode for PostsEnd {
    fn encode(&self, out: &mut Vec<u8>) {
        ObjectType::PostsEnd.encode_header(out);
        self.session.encode(out);
    }

    fn encoded_len(&self) -> usize {
        HEADER_LEN + SessionId::LEN
    }
}

impl Decode for PostsEnd {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        reader.header(ObjectType::PostsEnd)?;
        Ok(Self { session: SessionId::decode(reader)? })
    }
}

/// Closes a round. The set follows from the leaves before; what this one says of it is a checksum and no authority.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoundClose {
    /// The session.
    pub session: SessionId,
    /// Digest of the canonical set.
    pub set: SetDigest,
    /// Digest of the posts in it.
    pub posts: PostsDigest,
    /// Clients in it.
    pub clients: u32,
}

impl Encode for RoundClose {
    fn encode(&self, out: &mut Vec<u8>) {
        ObjectType::RoundClose.encode_header(out);
        self.session.encode(out);
        self.set.encode(out);
        self.posts.encode(out);
        out.extend_from_slice(&self.clients.to_le_bytes());
    }

    fn encoded_len(&self) -> usize {
        HEADER_LEN + SessionId::LEN + SetDigest::LEN + PostsDigest::LEN + 4
    }
}

impl Decode for RoundClose {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        reader.header(ObjectType::RoundClose)?;
        Ok(Self {
            session: SessionId::decode(reader)?,
            set: SetDigest::decode(reader)?,
            posts: PostsDigest::decode(reader)?,
            clients: reader.u32("number of clients")?,
        })
    }
}

/// Why a round is called off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[non_exhaustive]
pub enum AbortReason {
    /// Fewer clients than the epoch's floor are left.
    TooFewClients = 1,
    /// Fewer servers than the threshold have checked by the deadline.
    TooFewServers = 2,
    /// The operator said so.
    Operator = 3,
}

impl fmt::Display for AbortReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TooFewClients => "too few clients",
            Self::TooFewServers => "too few servers have checked",
            Self::Operator => "called off by the operator",
        })
    }
}

/// Calls a round off that is not closed. Behind `RoundClose` it is void: some server may have released its sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoundAbort {
    /// The session.
    pub session: SessionId,
    /// Why.
    pub reason: AbortReason,
}

impl Encode for RoundAbort {
    fn encode(&self, out: &mut Vec<u8>) {
        ObjectType::RoundAbort.encode_header(out);
        self.session.encode(out);
        out.push(self.reason as u8);
    }

    fn encoded_len(&self) -> usize {
        HEADER_LEN + SessionId::LEN + 1
    }
}

impl Decode for RoundAbort {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        reader.header(ObjectType::RoundAbort)?;
        let session = SessionId::decode(reader)?;
        let unknown = reader.fault("reason", DecodeErrorKind::OutOfRange);
        let reason = match reader.u8("reason")? {
            1 => AbortReason::TooFewClients,
            2 => AbortReason::TooFewServers,
            3 => AbortReason::Operator,
            _ => return Err(unknown),
        };
        Ok(Self { session, reason })
    }
}

/// Takes a client out of a round that is not closed: evidence shows that it broke the protocol in this session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expulsion {
    /// The session.
    pub session: SessionId,
    /// The client.
    pub client: ClientId,
    /// BLAKE3 digest of the evidence, a [`panetiere::evidence::Evidence`].
    pub evidence: [u8; 32],
    /// Its bytes.
    pub len: u64,
}

impl Encode for Expulsion {
    fn encode(&self, out: &mut Vec<u8>) {
        ObjectType::Expulsion.encode_header(out);
        self.session.encode(out);
        self.client.encode(out);
        out.extend_from_slice(&self.evidence);
        out.extend_from_slice(&self.len.to_le_bytes());
    }

    fn encoded_len(&self) -> usize {
        HEADER_LEN + SessionId::LEN + ClientId::LEN + 32 + 8
    }
}

impl Decode for Expulsion {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        reader.header(ObjectType::Expulsion)?;
        Ok(Self {
            session: SessionId::decode(reader)?,
            client: ClientId::decode(reader)?,
            evidence: reader.array("digest of the evidence")?,
            len: reader.u64("length of the evidence")?,
        })
    }
}
