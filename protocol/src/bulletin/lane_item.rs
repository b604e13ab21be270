//! One coded share on its way to one lane.

use super::delivery::{self, Side};
use crate::ids::{ClientId, EnvelopeRoot, NodeId};
use crate::merkle;
use crate::protocol::ProtocolParams;
use crate::wire::{Decode, DecodeError, DecodeErrorKind, DecodeWith, Encode, HEADER_LEN, ObjectType, Reader};
use rayon::prelude::*;

/// A coded share with its commitment path, and the inclusion path under what the client signed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaneItem {
    /// Who sends it.
    pub client: ClientId,
    /// Whom it is for.
    pub lane: NodeId,
    /// The packed share, then the packed siblings, leaves first: 451,584 bytes for 553 polynomials, 14 of 16 lanes and
    /// P300. Not parsed here: a bad body is the client's if the client signed it.
    pub body: Vec<u8>,
    /// The inclusion path: RFC 6962 among the lanes, then the root over the envelopes.
    pub path: Vec<[u8; 32]>,
}

/// Leaf hashes of the bodies, in lane order: RFC 6962 over lane id and BLAKE3 digest of the body.
pub(super) fn leaves(bodies: &[Vec<u8>]) -> Vec<[u8; 32]> {
    let lanes: Vec<(NodeId, &Vec<u8>)> = (0..=u16::MAX).map(NodeId).zip(bodies).collect();
    lanes.into_par_iter().map(|(lane, body)| leaf(lane, body)).collect()
}

fn leaf(lane: NodeId, body: &[u8]) -> [u8; 32] {
    let mut bytes = Vec::with_capacity(NodeId::LEN + blake3::OUT_LEN);
    lane.encode(&mut bytes);
    bytes.extend_from_slice(blake3::hash(body).as_bytes());
    merkle::leaf_hash(&bytes)
}

pub(super) fn item(
    client: ClientId,
    lane: NodeId,
    body: Vec<u8>,
    leaves: &[[u8; 32]],
    envelopes: [u8; 32],
) -> LaneItem {
    let mut path = merkle::inclusion_path(leaves, lane.0.into());
    path.push(envelopes);
    LaneItem { client, lane, body, path }
}

pub(super) fn address(
    client: ClientId,
    bodies: Vec<Vec<u8>>,
    leaves: &[[u8; 32]],
    envelopes: [u8; 32],
) -> Vec<LaneItem> {
    let lanes = (0..=u16::MAX).map(NodeId).zip(bodies);
    lanes.map(|(lane, body)| item(client, lane, body, leaves, envelopes)).collect()
}

impl LaneItem {
    /// Bytes of the framed item for this lane in a round; None if there is no such lane.
    pub fn packed_len(params: &ProtocolParams, lane: NodeId) -> Option<usize> {
        let code = params.lane_code()?;
        let path = delivery::path_len(params.mode(), lane.0.into(), code.shape().lanes.into()).ok()?;
        Some(Self::framed_len(code.body_len(), path))
    }

    /// Bytes of the framed item.
    pub const fn framed_len(body_len: usize, path_len: usize) -> usize {
        HEADER_LEN + ClientId::LEN + NodeId::LEN + body_len + 32 * path_len
    }

    /// Whether these bytes are what `root` has for this lane. Never in a round without lanes.
    pub fn is_under(&self, root: &EnvelopeRoot, params: &ProtocolParams) -> bool {
        params.lanes().is_some_and(|shape| {
            let leaf = leaf(self.lane, &self.body);
            let place = (self.lane.0.into(), shape.lanes.into());
            delivery::is_under(root, params.mode(), Side::Items, &leaf, place, &self.path)
        })
    }
}

impl Encode for LaneItem {
    fn encode(&self, out: &mut Vec<u8>) {
        ObjectType::LaneItem.encode_header(out);
        self.client.encode(out);
        self.lane.encode(out);
        out.extend_from_slice(&self.body);
        self.path.iter().for_each(|hash| out.extend_from_slice(hash));
    }

    fn encoded_len(&self) -> usize {
        Self::framed_len(self.body.len(), self.path.len())
    }
}

impl DecodeWith<ProtocolParams> for LaneItem {
    fn decode_with(params: &ProtocolParams, reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        reader.header(ObjectType::LaneItem)?;
        let client = ClientId::decode(reader)?;
        let unknown = reader.fault("lane id", DecodeErrorKind::OutOfRange);
        let lane = NodeId::decode(reader)?;
        let code = params.lane_code().ok_or(unknown)?;
        let path_len = delivery::path_len(params.mode(), lane.0.into(), code.shape().lanes.into());
        let path_len = path_len.map_err(|_| unknown)?;
        let body = reader.take(code.body_len(), "lane item body")?.to_vec();
        let path = reader.take(32 * path_len, "inclusion path")?.as_chunks().0.to_vec();
        Ok(Self { client, lane, body, path })
    }
}
