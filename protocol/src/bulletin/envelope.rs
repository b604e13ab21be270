//! One sealed opening on its way to one server.

use super::Mode;
use super::delivery::{self, Side};
use crate::ids::{ClientId, EnvelopeKeyDigest, EnvelopeRoot, ServerId};
use crate::merkle;
use crate::pke;
use crate::protocol::ProtocolParams;
use crate::wire::{DecodeError, DecodeErrorKind, DecodeWith, Encode, HEADER_LEN, ObjectType, Reader};

/// A sealed opening with its inclusion path under the client's `env_root`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// Who sealed it.
    pub client: ClientId,
    /// Whom it is for.
    pub server: ServerId,
    /// The encapsulation key it was sealed to.
    pub key: EnvelopeKeyDigest,
    /// The sealed bytes: 18,800 for eight servers under P300.
    pub sealed: Vec<u8>,
    /// The inclusion path: RFC 6962 among the servers, then in erasure mode the root over the lane items.
    pub path: Vec<[u8; 32]>,
}

fn leaf(server: ServerId, key: &EnvelopeKeyDigest, sealed: &[u8]) -> [u8; 32] {
    let mut bytes = Vec::with_capacity(ServerId::LEN + EnvelopeKeyDigest::LEN + sealed.len());
    server.encode(&mut bytes);
    key.encode(&mut bytes);
    bytes.extend_from_slice(sealed);
    merkle::leaf_hash(&bytes)
}

/// Hashes in the inclusion path of this server's envelope.
///
/// # Errors
/// `IndexOutOfRange` if there is no such server.
fn path_len(server: ServerId, params: &ProtocolParams) -> Result<usize, merkle::MerkleError> {
    delivery::path_len(params.mode(), server.0.into(), params.servers().into())
}

/// Addresses sealed openings, in server order, and computes the root over them: what the client signs, unless it
/// also delivers lane items.
pub fn env_root(
    client: ClientId,
    sealed: impl IntoIterator<Item = (EnvelopeKeyDigest, Vec<u8>)>,
) -> (EnvelopeRoot, Vec<Envelope>) {
    // With its end: a range that is open at the top overflows when it is asked for what comes after the last id.
    let mut envelopes: Vec<Envelope> = (0..=u16::MAX)
        .map(ServerId)
        .zip(sealed)
        .map(|(server, (key, sealed))| Envelope { client, server, key, sealed, path: Vec::new() })
        .collect();
    let leaves: Vec<[u8; 32]> = envelopes.iter().map(|e| leaf(e.server, &e.key, &e.sealed)).collect();
    for (envelope, path) in envelopes.iter_mut().zip(merkle::inclusion_paths(&leaves)) {
        envelope.path = path;
    }
    (EnvelopeRoot::from_digest(merkle::root(&leaves)), envelopes)
}

impl Envelope {
    /// Bytes of the framed envelope for this server in a round.
    ///
    /// # Errors
    /// `IndexOutOfRange` if there is no such server.
    pub fn packed_len(params: &ProtocolParams, server: ServerId) -> Result<usize, merkle::MerkleError> {
        let sealed = params.cs().fresh_opening_len() + pke::OVERHEAD;
        Ok(Self::framed_len(sealed, path_len(server, params)?))
    }

    /// Bytes of the framed envelope.
    pub fn framed_len(sealed_len: usize, path_len: usize) -> usize {
        HEADER_LEN + ClientId::LEN + ServerId::LEN + EnvelopeKeyDigest::LEN + sealed_len + 32 * path_len
    }

    /// Whether these bytes are what `root` has for this server, one of `servers`, in a round of this mode.
    pub fn is_under(&self, root: &EnvelopeRoot, mode: Mode, servers: u16) -> bool {
        let leaf = leaf(self.server, &self.key, &self.sealed);
        let place = (self.server.0.into(), servers.into());
        delivery::is_under(root, mode, Side::Envelopes, &leaf, place, &self.path)
    }
}

impl Encode for Envelope {
    fn encode(&self, out: &mut Vec<u8>) {
        ObjectType::Envelope.encode_header(out);
        self.client.encode(out);
        self.server.encode(out);
        self.key.encode(out);
        out.extend_from_slice(&self.sealed);
        self.path.iter().for_each(|hash| out.extend_from_slice(hash));
    }

    fn encoded_len(&self) -> usize {
        Self::framed_len(self.sealed.len(), self.path.len())
    }
}

impl DecodeWith<ProtocolParams> for Envelope {
    fn decode_with(params: &ProtocolParams, reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        use crate::wire::Decode;
        reader.header(ObjectType::Envelope)?;
        let client = ClientId::decode(reader)?;
        let unknown = reader.fault("server id", DecodeErrorKind::OutOfRange);
        let server = ServerId::decode(reader)?;
        let path_len = path_len(server, params).map_err(|_| unknown)?;
        let key = EnvelopeKeyDigest::decode(reader)?;
        let sealed_len = params.cs().fresh_opening_len() + pke::OVERHEAD;
        let sealed = reader.take(sealed_len, "sealed opening")?.to_vec();
        let path = reader.take(32 * path_len, "inclusion path")?.as_chunks().0.to_vec();
        Ok(Self { client, server, key, sealed, path })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_envelopes_as_there_are_server_ids() {
        let key = EnvelopeKeyDigest::from_digest([1; 32]);
        let sealed = (0..u16::MAX).map(|server| (key, server.to_le_bytes().to_vec()));
        let (root, envelopes) = env_root(ClientId(7), sealed);
        assert_eq!(envelopes.len(), 65_535);
        for server in [0, 1, 32_767, 32_768, 65_533, 65_534] {
            let envelope = &envelopes[usize::from(server)];
            assert_eq!(envelope.server, ServerId(server));
            assert!(envelope.is_under(&root, Mode::Direct, u16::MAX));
        }
    }
}
