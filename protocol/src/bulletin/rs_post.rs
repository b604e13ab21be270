//! A client's post in erasure mode: constant size, whatever the message.

use super::{Mode, PostStatement, SignedPost};
use crate::cs::Commitment;
use crate::protocol::ProtocolParams;
use crate::share_commitment::ShareCommitment;
use crate::sig::Signature;
use crate::wire::{Decode, DecodeError, DecodeWith, Encode, HEADER_LEN, ObjectType, Reader};
use chipmunk::params::ParameterSet;
use chipmunk::ring::pack::packed_len;

/// A client's post in erasure mode: the statement and the two roots it speaks of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RsClientBulletinEntry {
    /// The statement.
    pub signed: SignedPost,
    /// The commitment to the key shares.
    pub commitment: Commitment,
    /// The commitment to the coded shares.
    pub share_commitment: ShareCommitment,
}

impl RsClientBulletinEntry {
    /// Bytes of a post: framing, statement, signature, both roots.
    pub const fn packed_len(set: &ParameterSet) -> usize {
        HEADER_LEN
            + PostStatement::len(Mode::Erasure)
            + Signature::LEN
            + packed_len(set.hvc_bits)
            + packed_len(set.lane_bits)
    }

    /// The post's bytes.
    pub fn to_bytes(&self, params: &ProtocolParams) -> Vec<u8> {
        let mut out = Vec::with_capacity(Self::packed_len(params.set()));
        ObjectType::RsClientPost.encode_header(&mut out);
        self.signed.encode(&mut out);
        params.lattice().hvc.pack(self.commitment.root(), &mut out);
        params.lattice().lane.pack(self.share_commitment.root(), &mut out);
        out
    }
}

impl DecodeWith<ProtocolParams> for RsClientBulletinEntry {
    fn decode_with(params: &ProtocolParams, reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        reader.header(ObjectType::RsClientPost)?;
        let signed = SignedPost::decode(reader)?;
        let lattice = params.lattice();
        let commitment = reader.field(lattice.hvc.packed_len(), "commitment root", |bytes| {
            Commitment::from_bytes(lattice, bytes)
        })?;
        let share_commitment = reader.field(lattice.lane.packed_len(), "share commitment root", |bytes| {
            ShareCommitment::from_bytes(lattice, bytes)
        })?;
        Ok(Self { signed, commitment, share_commitment })
    }
}
