//! A client's answer to one server's complaint: the opening itself, for everybody.

use super::context::StatementContext;
use crate::cs::FreshOpening;
use crate::ids::{ClientId, ServerId};
use crate::protocol::ProtocolParams;
use crate::sig::{SigError, Signature, SigningKey, VerifyingKey};
use crate::wire::{Decode, DecodeError, DecodeErrorKind, DecodeWith, Encode, HEADER_LEN, ObjectType, Reader};

const DOMAIN: &str = "panetiere/answer/v1";

/// An opening that its client has published because a server complained. Signed, so that nobody answers in the client's
/// stead; no secret any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    context: StatementContext,
    client: ClientId,
    server: ServerId,
    /// The packed opening: it parses.
    opening: Vec<u8>,
    signature: Signature,
}

impl Answer {
    /// Publishes the opening of one server.
    pub fn sign(
        context: StatementContext,
        client: ClientId,
        server: ServerId,
        opening: &FreshOpening,
        params: &ProtocolParams,
        key: &SigningKey,
    ) -> Self {
        let opening = opening.to_bytes(params.cs()).to_vec();
        let signature = key.sign(DOMAIN, &signed_bytes(&context, client, server, &opening));
        Self { context, client, server, opening, signature }
    }

    /// The round.
    pub const fn context(&self) -> &StatementContext {
        &self.context
    }

    /// Who claims to answer.
    pub const fn client(&self) -> ClientId {
        self.client
    }

    /// Whose complaint is answered.
    pub const fn server(&self) -> ServerId {
        self.server
    }

    /// The opening.
    ///
    /// # Errors
    /// Under other parameters than those it was read under, it may not parse.
    pub fn opening(&self, params: &ProtocolParams) -> Result<FreshOpening, DecodeError> {
        FreshOpening::from_bytes_with(params.cs(), &self.opening)
    }

    /// Checks the signature under the admitted key of the client it names.
    ///
    /// # Errors
    /// If that client did not sign these bytes.
    pub fn verify_signature(&self, key: &VerifyingKey) -> Result<(), SigError> {
        let signed = signed_bytes(&self.context, self.client, self.server, &self.opening);
        key.verify(DOMAIN, &signed, &self.signature)
    }

    /// Bytes of an answer: the same for all.
    pub fn packed_len(params: &ProtocolParams) -> usize {
        let opening = params.cs().fresh_opening_len();
        HEADER_LEN + StatementContext::LEN + ClientId::LEN + ServerId::LEN + opening + Signature::LEN
    }
}

fn signed_bytes(context: &StatementContext, client: ClientId, server: ServerId, opening: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    ObjectType::Answer.encode_header(&mut out);
    context.encode(&mut out);
    client.encode(&mut out);
    server.encode(&mut out);
    out.extend_from_slice(opening);
    out
}

impl Encode for Answer {
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&signed_bytes(&self.context, self.client, self.server, &self.opening));
        self.signature.encode(out);
    }

    fn encoded_len(&self) -> usize {
        let ids = ClientId::LEN + ServerId::LEN;
        HEADER_LEN + StatementContext::LEN + ids + self.opening.len() + Signature::LEN
    }
}

impl DecodeWith<ProtocolParams> for Answer {
    fn decode_with(params: &ProtocolParams, reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        reader.header(ObjectType::Answer)?;
        let context = StatementContext::decode(reader)?;
        let client = ClientId::decode(reader)?;
        let unknown = reader.fault("server id", DecodeErrorKind::OutOfRange);
        let server = ServerId::decode(reader)?;
        if server.0 >= params.servers() {
            return Err(unknown);
        }
        let refused = reader.fault("opening", DecodeErrorKind::OutOfRange);
        let opening = reader.take(params.cs().fresh_opening_len(), "opening")?.to_vec();
        // Published, and only looked at: whether it opens anything is for `verify_answer`.
        FreshOpening::from_bytes_with(params.cs(), &opening).map_err(|_| refused)?;
        let signature = Signature::decode(reader)?;
        Ok(Self { context, client, server, opening, signature })
    }
}
