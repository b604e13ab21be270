//! A server's answer: the summed opening over one canonical set, signed.

use crate::cs::{AggregatedOpening, SummedLayout};
use crate::ids::{CrsDigest, DeploymentId, EpochDigest, PostsDigest, ServerId, SessionId, SetDigest};
use crate::protocol::ProtocolParams;
use crate::sig::{SigError, Signature, SigningKey, VerifyingKey};
use crate::wire::{Decode, DecodeError, DecodeErrorKind, DecodeWith, Encode, HEADER_LEN, ObjectType, Reader};
use std::ops::RangeInclusive;

const DOMAIN: &str = "panetiere/server-sum/v1";

/// What a server's sum says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SumClaim {
    /// The deployment.
    pub deployment: DeploymentId,
    /// The epoch's document.
    pub epoch: EpochDigest,
    /// The round.
    pub session: SessionId,
    /// The public parameters.
    pub crs: CrsDigest,
    /// Who sums.
    pub server: ServerId,
    /// Digest of the canonical set summed over.
    pub set: SetDigest,
    /// Digest of the posts summed: without it, a server that was shown another post of some client could not be told
    /// from one that lies.
    pub posts: PostsDigest,
    /// Clients in that set. It fixes the width of every coefficient.
    pub clients: u32,
}

impl SumClaim {
    const LEN: usize = 6 * 32 + ServerId::LEN + 4;

    /// Reads a claim of a known server over so many clients.
    fn read(
        reader: &mut Reader<'_>,
        known: impl Fn(ServerId) -> bool,
        clients_of: RangeInclusive<u32>,
    ) -> Result<Self, DecodeError> {
        let deployment = DeploymentId::decode(reader)?;
        let epoch = EpochDigest::decode(reader)?;
        let session = SessionId::decode(reader)?;
        let crs = CrsDigest::decode(reader)?;
        let unknown = reader.fault("server id", DecodeErrorKind::OutOfRange);
        let server = ServerId::decode(reader)?;
        if !known(server) {
            return Err(unknown);
        }
        let set = SetDigest::decode(reader)?;
        let posts = PostsDigest::decode(reader)?;
        let refused = reader.fault("number of clients", DecodeErrorKind::OutOfRange);
        let clients = reader.u32("number of clients")?;
        if !clients_of.contains(&clients) {
            return Err(refused);
        }
        Ok(Self { deployment, epoch, session, crs, server, set, posts, clients })
    }
}

impl Encode for SumClaim {
    fn encode(&self, out: &mut Vec<u8>) {
        self.deployment.encode(out);
        self.epoch.encode(out);
        self.session.encode(out);
        self.crs.encode(out);
        self.server.encode(out);
        self.set.encode(out);
        self.posts.encode(out);
        out.extend_from_slice(&self.clients.to_le_bytes());
    }

    fn encoded_len(&self) -> usize {
        Self::LEN
    }
}

/// What a server signs: its claim and the BLAKE3 digest of the packed opening, so that who said it is known without the
/// opening.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedSumClaim {
    claim: SumClaim,
    /// BLAKE3 of the packed opening.
    digest: [u8; blake3::OUT_LEN],
    signature: Signature,
}

impl SignedSumClaim {
    /// What it claims.
    pub const fn claim(&self) -> &SumClaim {
        &self.claim
    }

    /// Checks the signature under the identity key of the server it names.
    ///
    /// # Errors
    /// If that server did not sign this.
    pub fn verify_signature(&self, key: &VerifyingKey) -> Result<(), SigError> {
        key.verify(DOMAIN, &signed_bytes(&self.claim, &self.digest), &self.signature)
    }

    /// Whether both are one statement: what is signed, not the signature.
    pub fn says_the_same(&self, other: &Self) -> bool {
        (&self.claim, &self.digest) == (&other.claim, &other.digest)
    }
}

impl Encode for SignedSumClaim {
    fn encode(&self, out: &mut Vec<u8>) {
        self.claim.encode(out);
        out.extend_from_slice(&self.digest);
        self.signature.encode(out);
    }

    fn encoded_len(&self) -> usize {
        SumClaim::LEN + self.digest.len() + Signature::LEN
    }
}

/// Whether the round has such a server and so many clients is not looked at here.
impl Decode for SignedSumClaim {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let claim = SumClaim::decode(reader)?;
        let digest = reader.array("digest of the opening")?;
        Ok(Self { claim, digest, signature: Signature::decode(reader)? })
    }
}

impl Decode for SumClaim {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Self::read(reader, |_| true, 1..=u32::MAX)
    }
}

/// One server's sum of key shares over one canonical set, with the opening that proves it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerBulletinEntry {
    signed: SignedSumClaim,
    opening: AggregatedOpening,
}

impl AsRef<Self> for SignedSumClaim {
    fn as_ref(&self) -> &Self {
        self
    }
}

impl AsRef<SignedSumClaim> for ServerBulletinEntry {
    fn as_ref(&self) -> &SignedSumClaim {
        self.signed()
    }
}

impl ServerBulletinEntry {
    /// Signs a sum.
    pub fn sign(
        claim: SumClaim,
        opening: AggregatedOpening,
        params: &ProtocolParams,
        key: &SigningKey,
    ) -> Self {
        let layout = params.cs().summed_layout(claim.clients);
        let mut packed = Vec::with_capacity(layout.packed_len());
        opening.encode(layout, &mut packed);
        let digest = blake3::hash(&packed).into();
        let signature = key.sign(DOMAIN, &signed_bytes(&claim, &digest));
        Self { signed: SignedSumClaim { claim, digest, signature }, opening }
    }

    /// What it claims.
    pub const fn claim(&self) -> &SumClaim {
        &self.signed.claim
    }

    /// What is signed, without the opening.
    pub const fn signed(&self) -> &SignedSumClaim {
        &self.signed
    }

    /// The summed opening.
    pub const fn opening(&self) -> &AggregatedOpening {
        &self.opening
    }

    /// Checks the signature under the identity key of the server it names.
    ///
    /// # Errors
    /// If that server did not sign these bytes.
    pub fn verify_signature(&self, key: &VerifyingKey) -> Result<(), SigError> {
        self.signed.verify_signature(key)
    }

    /// Whether both are one statement: what is signed, not the signature.
    pub fn says_the_same(&self, other: &Self) -> bool {
        self.signed.says_the_same(&other.signed)
    }

    /// Bytes of a sum over `clients`, framing included.
    pub fn packed_len(layout: SummedLayout) -> usize {
        HEADER_LEN + SumClaim::LEN + layout.packed_len() + Signature::LEN
    }

    /// The entry's bytes.
    pub fn to_bytes(&self, params: &ProtocolParams) -> Vec<u8> {
        let layout = params.cs().summed_layout(self.claim().clients);
        let mut out = Vec::with_capacity(Self::packed_len(layout));
        ObjectType::ServerSum.encode_header(&mut out);
        self.claim().encode(&mut out);
        self.opening.encode(layout, &mut out);
        self.signed.signature.encode(&mut out);
        out
    }
}

fn signed_bytes(claim: &SumClaim, opening: &[u8; blake3::OUT_LEN]) -> Vec<u8> {
    let mut out = Vec::with_capacity(HEADER_LEN + SumClaim::LEN + opening.len());
    ObjectType::ServerSum.encode_header(&mut out);
    claim.encode(&mut out);
    out.extend_from_slice(opening);
    out
}

impl DecodeWith<ProtocolParams> for ServerBulletinEntry {
    fn decode_with(params: &ProtocolParams, reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        reader.header(ObjectType::ServerSum)?;
        let known = |server: ServerId| server.0 < params.servers();
        let claim = SumClaim::read(reader, known, 1..=params.max_clients())?;
        let start = reader.offset();
        let opening = AggregatedOpening::decode_with(&params.cs().summed_layout(claim.clients), reader)?;
        // An opening has one encoding: these bytes are what was packed to be signed.
        let digest = blake3::hash(reader.since(start)).into();
        let signature = Signature::decode(reader)?;
        Ok(Self { signed: SignedSumClaim { claim, digest, signature }, opening })
    }
}
