//! A server's one statement on the envelopes of a session: it has checked them, and complains about these clients.
//!
//! A complaint names a client and the statement it is about, 36 bytes. What the client sealed and where it stands under
//! the statement would prove nothing about the server: both are public, so whoever lies has them too. The statement is
//! what has to be told: a client may have signed two, and each server opened what came with the one it was shown.
//!
//! So the leaf of a server that complains about everybody fits the log's entries: 36,202 bytes for 1,000 clients.

use super::context::StatementContext;
use crate::ids::{ClientId, ServerId, StatementDigest};
use crate::protocol::ProtocolParams;
use crate::sig::{SigError, Signature, SigningKey, VerifyingKey};
use crate::wire::{Decode, DecodeError, DecodeErrorKind, DecodeWith, Encode, HEADER_LEN, ObjectType, Reader};
use std::collections::BTreeMap;
use tlog::entry::MAX_ENTRY_BYTES;

const DOMAIN: &str = "panetiere/checked/v1";

const COMPLAINT_LEN: usize = ClientId::LEN + StatementDigest::LEN;
/// Without complaints.
const EMPTY_LEN: usize = HEADER_LEN + StatementContext::LEN + ServerId::LEN + 4 + Signature::LEN;

/// A server's `Checked` leaf: its complaints in one session, by client. Without complaints it says that every envelope
/// that has arrived is good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checked {
    context: StatementContext,
    server: ServerId,
    complaints: BTreeMap<ClientId, StatementDigest>,
    signature: Signature,
}

impl Checked {
    /// Most complaints that fit an entry of the log, 65,535 bytes. No parameter set has rounds of so many clients.
    pub const MAX_COMPLAINTS: usize = (MAX_ENTRY_BYTES - EMPTY_LEN) / COMPLAINT_LEN;

    /// Signs a server's complaints: what the client it names sealed to this server, with the statement of this digest,
    /// does not open, or opens nothing. Nobody reads more of them than a round has clients.
    pub fn sign(
        context: StatementContext,
        server: ServerId,
        complaints: BTreeMap<ClientId, StatementDigest>,
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

    /// The complaints: clients, each with the statement that is complained about.
    pub const fn complaints(&self) -> &BTreeMap<ClientId, StatementDigest> {
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
    complaints: &BTreeMap<ClientId, StatementDigest>,
) -> Vec<u8> {
    let mut out = Vec::with_capacity(EMPTY_LEN + COMPLAINT_LEN * complaints.len());
    ObjectType::Checked.encode_header(&mut out);
    context.encode(&mut out);
    server.encode(&mut out);
    let count = u32::try_from(complaints.len()).expect("clients of a round fit 32 bits");
    out.extend_from_slice(&count.to_le_bytes());
    for (client, statement) in complaints {
        client.encode(&mut out);
        statement.encode(&mut out);
    }
    out
}

impl Encode for Checked {
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&signed_bytes(&self.context, self.server, &self.complaints));
        self.signature.encode(out);
    }

    fn encoded_len(&self) -> usize {
        EMPTY_LEN + COMPLAINT_LEN * self.complaints.len()
    }
}

impl DecodeWith<ProtocolParams> for Checked {
    fn decode_with(params: &ProtocolParams, reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        reader.header(ObjectType::Checked)?;
        let context = StatementContext::decode(reader)?;
        let unknown = reader.fault("server id", DecodeErrorKind::OutOfRange);
        let server = ServerId::decode(reader)?;
        if server.0 >= params.servers() {
            return Err(unknown);
        }
        let refused = reader.fault("number of complaints", DecodeErrorKind::OutOfRange);
        let count = reader.u32("number of complaints")?;
        if count > params.max_clients() {
            return Err(refused);
        }
        let need = COMPLAINT_LEN * usize::try_from(count).expect("usize has at least 32 bits");
        let unsorted = reader.fault("complaints", DecodeErrorKind::NotCanonical);
        let mut complaints = BTreeMap::new();
        for complaint in reader.take(need, "complaints")?.chunks_exact(COMPLAINT_LEN) {
            let mut complaint = Reader::new(complaint);
            let client = ClientId::decode(&mut complaint)?;
            if complaints.last_key_value().is_some_and(|(last, _)| *last >= client) {
                return Err(unsorted);
            }
            complaints.insert(client, StatementDigest::decode(&mut complaint)?);
        }
        let signature = Signature::decode(reader)?;
        Ok(Self { context, server, complaints, signature })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use chipmunk::params::{P300, P1000};

    #[test]
    fn complaints_about_every_client_fit_an_entry() {
        // 65,535 bytes; type, version, four digests, server, count, signature: 202.
        assert_eq!(Checked::MAX_COMPLAINTS, (65_535 - 202) / 36);
        for set in [&P300, &P1000] {
            assert!(usize::try_from(set.rho_max).unwrap() <= Checked::MAX_COMPLAINTS, "{}", set.name);
        }
    }
}
