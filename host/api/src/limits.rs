//! How long bodies are, exactly, and how long a peer may take.

use panetiere::bulletin::{
    Answer, ClientBulletinEntry, GroupSum, LaneItem, Mode, PostHead, PostStatement, RsClientBulletinEntry,
};
use panetiere::ids::NodeId;
use panetiere::protocol::{ProtocolParams, lane_wire_sizes};
use panetiere::sig::Signature;

/// Bytes of a request's head at most: line and headers.
pub const MAX_HEAD_BYTES: usize = 16 << 10;
/// Headers of a request at most.
pub const MAX_HEADERS: usize = 64;
/// Milliseconds in which a connection has to complete its handshake, and a request its head.
pub const HEADER_MS: u64 = 10_000;
/// Milliseconds that a connection may be open with no request under way.
pub const IDLE_MS: u64 = 10_000;
/// Bytes a second that a body, or the reading of an answer, may not fall below, counted only while we wait for the peer.
pub const FLOOR_BYTES_PER_S: u64 = 64 << 10;
/// Milliseconds that a peer may be behind that floor.
pub const FLOOR_GRACE_MS: u64 = 5_000;
/// Bytes of the largest small document: an admission, a server's word on its envelopes.
pub const MAX_SMALL_BYTES: u64 = 16 << 10;
/// Bytes of an operator's request at most, and of a result without its payloads.
pub const MAX_OPERATOR_BYTES: u64 = 64 << 10;
/// Milliseconds that a reader may wait for the next checkpoint.
pub const MAX_WAIT_MS: u64 = 30_000;
/// Bytes above which the client asks before it sends (`Expect: 100-continue`).
pub const EXPECT_ABOVE_BYTES: u64 = 64 << 10;

/// Entries of the log in one answer at most.
pub const MAX_LEAVES: u64 = 4096;
/// Bytes of the largest evidence: two posts of the largest parameters.
pub const MAX_EVIDENCE_BYTES: u64 = 64 << 20;

/// Exact lengths of the bodies of one epoch's rounds, in bytes. An equality, not a bound: every body has one length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RoundLimits {
    /// A client's answer to a complaint.
    pub answer: u64,
    /// A client's post on the bulletin: whole, its head alone with aggregators, the two roots with lanes.
    pub post: u64,
    /// A client's post at an aggregator; `None` unless there are aggregators.
    pub aggregated_post: Option<u64>,
    /// A client's signed statement and all its envelopes.
    pub openings: u64,
}

fn bytes(len: usize) -> u64 {
    u64::try_from(len).expect("usize has at most 64 bits")
}

impl From<&ProtocolParams> for RoundLimits {
    fn from(params: &ProtocolParams) -> Self {
        // What a client sends has one size, however many clients there are.
        let sizes = params.wire_sizes(params.max_clients());
        let statement = PostStatement::len(params.mode()) + Signature::LEN;
        let (post, aggregated) = match params.mode() {
            Mode::Aggregated => (PostHead::packed_len(params), Some(ClientBulletinEntry::packed_len(params))),
            Mode::Erasure => (RsClientBulletinEntry::packed_len(params.set()), None),
            // Direct; another mode would need its own body.
            _ => (ClientBulletinEntry::packed_len(params), None),
        };
        Self {
            answer: bytes(Answer::packed_len(params)),
            post: bytes(post),
            aggregated_post: aggregated.map(bytes),
            openings: bytes(statement + sizes.envelopes),
        }
    }
}

impl RoundLimits {
    /// Length of a server's sum over `clients`.
    pub fn server_sum(params: &ProtocolParams, clients: u32) -> u64 {
        bytes(params.wire_sizes(clients).server_sum)
    }

    /// Length of a lane's sum over `clients`; `None` unless there are lanes.
    pub fn lane_sum(params: &ProtocolParams, clients: u32) -> Option<u64> {
        let shape = params.lanes()?;
        let sizes = lane_wire_sizes(params.set(), params.dimensions(), shape, clients);
        Some(bytes(sizes.lane_sum))
    }

    /// Length of a client's item for a lane; `None` if there is no such lane.
    pub fn lane_item(params: &ProtocolParams, lane: NodeId) -> Option<u64> {
        LaneItem::packed_len(params, lane).map(bytes)
    }

    /// Length of the sum of a group of `members`.
    pub fn group_sum(params: &ProtocolParams, members: usize) -> u64 {
        bytes(GroupSum::packed_len(params, members))
    }
}
