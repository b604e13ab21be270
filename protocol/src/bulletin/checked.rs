//! A server's one statement on the envelopes of a session: it has checked them, and complains about these clients.

use super::Mode;
use super::context::StatementContext;
use super::envelope::{leaf_is_under, path_len};
use crate::ids::{ClientId, EnvelopeDigest, EnvelopeRoot, ServerId};
use crate::protocol::ProtocolParams;
use crate::sig::{SigError, Signature, SigningKey, VerifyingKey};
use crate::wire::{Decode, DecodeError, DecodeErrorKind, DecodeWith, Encode, HEADER_LEN, ObjectType, Reader};
use std::collections::BTreeMap;

const DOMAIN: &str = "panetiere/checked/v1";

/// A complaint about one client: what it sealed to this server does not open, or opens nothing. The path shows that the
/// client signed the envelope; its bytes are not needed for that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Complaint {
    /// The envelope.
    pub envelope: EnvelopeDigest,
    /// Its RFC 6962 inclusion path under the client's `env_root`.
    pub path: Vec<[u8; 32]>,
}

impl Complaint {
    /// Whether the envelope complained about is that of `server` under a client's `env_root`.
    pub fn is_under(&self, server: ServerId, root: &EnvelopeRoot, mode: Mode, servers: u16) -> bool {
        leaf_is_under(&self.envelope, server, &self.path, root, mode, servers)
    }
}

/// A server's `Checked` leaf: its complaints in one session, by client. Without complaints it says that every envelope
/// that has arrived is good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checked {
    context: StatementContext,
    server: ServerId,
    complaints: BTreeMap<ClientId, Complaint>,
    signature: Signature,
}

impl Checked {
    /// Signs a server's complaints. Every path has to be as long as this server's place demands, or nobody can read it.
    pub fn sign(
        context: StatementContext,
        server: ServerId,
        complaints: BTreeMap<ClientId, Complaint>,
        key: &SigningKey,
    ) -> Self {
        let signature = key.sign(DOMAIN, &signed_bytes(&context, server, &complaints));
        Self { context, server, complaints, signature }
    }

    /// The round.
    pub const fn context(&self) -> &StatementContext {
        &self.context
    }

    /// Who claims to have checked.
    pub const fn server(&self) -> ServerId {
        self.server
    }

    /// The complaints, by client.
    pub const fn complaints(&self) -> &BTreeMap<ClientId, Complaint> {
        &self.complaints
    }

    /// Whether both are one statement: what is signed, not the signature.
    pub fn says_the_same(&self, other: &Self) -> bool {
        (&self.context, self.server, &self.complaints) == (&other.context, other.server, &other.complaints)
    }

    /// Checks the signature under the identity key of the server it names.
    ///
    /// # Errors
    /// If that server did not sign these bytes.
    pub fn verify_signature(&self, key: &VerifyingKey) -> Result<(), SigError> {
        let signed = signed_bytes(&self.context, self.server, &self.complaints);
        key.verify(DOMAIN, &signed, &self.signature)
    }
}

fn signed_bytes(
    context: &StatementContext,
    server: ServerId,
    complaints: &BTreeMap<ClientId, Complaint>,
) -> Vec<u8> {
    let mut out = Vec::new();
    ObjectType::Checked.encode_header(&mut out);
    context.encode(&mut out);
    server.encode(&mut out);
    let count = u32::try_from(complaints.len()).expect("clients of a round fit 32 bits");
    out.extend_from_slice(&count.to_le_bytes());
    for (client, Complaint { envelope, path }) in complaints {
        client.encode(&mut out);
        envelope.encode(&mut out);
        path.iter().for_each(|hash| out.extend_from_slice(hash));
    }
    out
}

impl Encode for Checked {
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&signed_bytes(&self.context, self.server, &self.complaints));
        self.signature.encode(out);
    }

    fn encoded_len(&self) -> usize {
        let complaint =
            |complaint: &Complaint| ClientId::LEN + EnvelopeDigest::LEN + 32 * complaint.path.len();
        let complaints: usize = self.complaints.values().map(complaint).sum();
        HEADER_LEN + StatementContext::LEN + ServerId::LEN + 4 + complaints + Signature::LEN
    }
}

impl DecodeWith<ProtocolParams> for Checked {
    fn decode_with(params: &ProtocolParams, reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        reader.header(ObjectType::Checked)?;
        let context = StatementContext::decode(reader)?;
        let unknown = reader.fault("server id", DecodeErrorKind::OutOfRange);
        let server = ServerId::decode(reader)?;
        let path = path_len(server, params).map_err(|_| unknown)?;
        let refused = reader.fault("number of complaints", DecodeErrorKind::OutOfRange);
        let count = reader.u32("number of complaints")?;
        if count > params.max_clients() {
            return Err(refused);
        }
        let len = ClientId::LEN + EnvelopeDigest::LEN + 32 * path;
        let need = len * usize::try_from(count).expect("usize has at least 32 bits");
        let unsorted = reader.fault("complaints", DecodeErrorKind::NotCanonical);
        let mut complaints = BTreeMap::new();
        for bytes in reader.take(need, "complaints")?.chunks_exact(len) {
            let mut bytes = Reader::new(bytes);
            let (client, envelope) = (ClientId::decode(&mut bytes)?, EnvelopeDigest::decode(&mut bytes)?);
            if complaints.last_key_value().is_some_and(|(last, _)| *last >= client) {
                return Err(unsorted);
            }
            let path = bytes.take(32 * path, "inclusion path")?.as_chunks().0.to_vec();
            complaints.insert(client, Complaint { envelope, path });
        }
        let signature = Signature::decode(reader)?;
        Ok(Self { context, server, complaints, signature })
    }
}
