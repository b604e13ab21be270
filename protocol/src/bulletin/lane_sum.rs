//! A lane's answer: the summed share over one set of clients, signed.

use crate::ids::{CrsDigest, DeploymentId, EpochDigest, NodeId, PostsDigest, SessionId, SetDigest};
use crate::protocol::{LaneCode, ProtocolParams};
use crate::share_commitment::AggregatedShare;
use crate::sig::{SigError, Signature, SigningKey, VerifyingKey};
use crate::wire::{Decode, DecodeError, DecodeErrorKind, DecodeWith, Encode, HEADER_LEN, ObjectType, Reader};

const DOMAIN: &str = "panetiere/lane-sum/v1";

/// What a lane summed for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[non_exhaustive]
pub enum LanePurpose {
    /// To find a client that committed to no codeword, before the set is closed: over any set, as often as asked.
    Check = 1,
    /// The round's answer, over its canonical set.
    Close = 2,
}

impl std::fmt::Display for LanePurpose {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Check => "check",
            Self::Close => "close",
        })
    }
}

/// What a lane's sum says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneClaim {
    /// The deployment.
    pub deployment: DeploymentId,
    /// The epoch's document.
    pub epoch: EpochDigest,
    /// The round.
    pub session: SessionId,
    /// The public parameters.
    pub crs: CrsDigest,
    /// Who sums.
    pub lane: NodeId,
    /// What for.
    pub purpose: LanePurpose,
    /// Digest of the set summed over.
    pub set: SetDigest,
    /// Digest of the posts summed, by their share commitments: without it, a lane that was shown another post of some
    /// client could not be told from one that lies.
    pub posts: PostsDigest,
    /// Clients in that set. It fixes the width of every coefficient.
    pub clients: u32,
}

impl LaneClaim {
    const LEN: usize = 6 * 32 + NodeId::LEN + 1 + 4;

    /// Reads a claim of a known lane over at most `max_clients`.
    fn read(
        reader: &mut Reader<'_>,
        known: impl Fn(NodeId) -> bool,
        max_clients: u32,
    ) -> Result<Self, DecodeError> {
        let deployment = DeploymentId::decode(reader)?;
        let epoch = EpochDigest::decode(reader)?;
        let session = SessionId::decode(reader)?;
        let crs = CrsDigest::decode(reader)?;
        let unknown = reader.fault("lane id", DecodeErrorKind::OutOfRange);
        let lane = NodeId::decode(reader)?;
        if !known(lane) {
            return Err(unknown);
        }
        let unknown = reader.fault("purpose", DecodeErrorKind::OutOfRange);
        let purpose = match reader.u8("purpose")? {
            1 => LanePurpose::Check,
            2 => LanePurpose::Close,
            _ => return Err(unknown),
        };
        let set = SetDigest::decode(reader)?;
        let posts = PostsDigest::decode(reader)?;
        let refused = reader.fault("number of clients", DecodeErrorKind::OutOfRange);
        let clients = reader.u32("number of clients")?;
        if !(1..=max_clients).contains(&clients) {
            return Err(refused);
        }
        Ok(Self { deployment, epoch, session, crs, lane, purpose, set, posts, clients })
    }
}

impl Encode for LaneClaim {
    fn encode(&self, out: &mut Vec<u8>) {
        self.deployment.encode(out);
        self.epoch.encode(out);
        self.session.encode(out);
        self.crs.encode(out);
        self.lane.encode(out);
        out.push(self.purpose as u8);
        self.set.encode(out);
        self.posts.encode(out);
        out.extend_from_slice(&self.clients.to_le_bytes());
    }

    fn encoded_len(&self) -> usize {
        Self::LEN
    }
}

impl Decode for LaneClaim {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Self::read(reader, |_| true, u32::MAX)
    }
}

/// What a lane signs: its claim and the BLAKE3 digest of the packed opening, so that who said it is known without the
/// opening.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedLaneClaim {
    claim: LaneClaim,
    /// BLAKE3 of the packed opening.
    digest: [u8; blake3::OUT_LEN],
    signature: Signature,
}

impl SignedLaneClaim {
    /// What it claims.
    pub const fn claim(&self) -> &LaneClaim {
        &self.claim
    }

    /// Checks the signature under the identity key of the lane it names.
    ///
    /// # Errors
    /// If that lane did not sign this.
    pub fn verify_signature(&self, key: &VerifyingKey) -> Result<(), SigError> {
        key.verify(DOMAIN, &signed_bytes(&self.claim, &self.digest), &self.signature)
    }

    /// Whether both are one statement: what is signed, not the signature.
    pub fn says_the_same(&self, other: &Self) -> bool {
        (&self.claim, &self.digest) == (&other.claim, &other.digest)
    }
}

impl Encode for SignedLaneClaim {
    fn encode(&self, out: &mut Vec<u8>) {
        self.claim.encode(out);
        out.extend_from_slice(&self.digest);
        self.signature.encode(out);
    }

    fn encoded_len(&self) -> usize {
        LaneClaim::LEN + self.digest.len() + Signature::LEN
    }
}

/// Whether the round has such a lane and so many clients is not looked at here.
impl Decode for SignedLaneClaim {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let claim = LaneClaim::read(reader, |_| true, u32::MAX)?;
        let digest = reader.array("digest of the opening")?;
        Ok(Self { claim, digest, signature: Signature::decode(reader)? })
    }
}

/// One lane's sum of coded shares over one set of clients, with the opening that proves it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaneBulletinEntry {
    signed: SignedLaneClaim,
    opening: AggregatedShare,
}

impl AsRef<Self> for SignedLaneClaim {
    fn as_ref(&self) -> &Self {
        self
    }
}

impl AsRef<SignedLaneClaim> for LaneBulletinEntry {
    fn as_ref(&self) -> &SignedLaneClaim {
        self.signed()
    }
}

impl LaneBulletinEntry {
    /// Signs a sum.
    pub fn sign(claim: LaneClaim, opening: AggregatedShare, code: &LaneCode, key: &SigningKey) -> Self {
        let digest = blake3::hash(&packed(&claim, &opening, code)).into();
        let signature = key.sign(DOMAIN, &signed_bytes(&claim, &digest));
        Self { signed: SignedLaneClaim { claim, digest, signature }, opening }
    }

    /// What it claims.
    pub const fn claim(&self) -> &LaneClaim {
        &self.signed.claim
    }

    /// What is signed, without the opening.
    pub const fn signed(&self) -> &SignedLaneClaim {
        &self.signed
    }

    /// The summed opening.
    pub const fn opening(&self) -> &AggregatedShare {
        &self.opening
    }

    /// Checks the signature under the identity key of the lane it names.
    ///
    /// # Errors
    /// If that lane did not sign these bytes.
    pub fn verify_signature(&self, key: &VerifyingKey) -> Result<(), SigError> {
        self.signed.verify_signature(key)
    }

    /// Whether both are one statement: what is signed, not the signature.
    pub fn says_the_same(&self, other: &Self) -> bool {
        self.signed.says_the_same(&other.signed)
    }

    /// Bytes of a sum whose packed opening has `opening_len`, framing included.
    pub const fn framed_len(opening_len: usize) -> usize {
        HEADER_LEN + LaneClaim::LEN + opening_len + Signature::LEN
    }

    /// The entry's bytes.
    pub fn to_bytes(&self, code: &LaneCode) -> Vec<u8> {
        let layout = code.summed_layout(self.claim().clients);
        let mut out = Vec::with_capacity(Self::framed_len(layout.packed_len()));
        ObjectType::LaneSum.encode_header(&mut out);
        self.claim().encode(&mut out);
        self.opening.encode(layout, &mut out);
        self.signed.signature.encode(&mut out);
        out
    }
}

fn packed(claim: &LaneClaim, opening: &AggregatedShare, code: &LaneCode) -> Vec<u8> {
    let layout = code.summed_layout(claim.clients);
    let mut out = Vec::with_capacity(layout.packed_len());
    opening.encode(layout, &mut out);
    out
}

fn signed_bytes(claim: &LaneClaim, opening: &[u8; blake3::OUT_LEN]) -> Vec<u8> {
    let mut out = Vec::with_capacity(HEADER_LEN + LaneClaim::LEN + opening.len());
    ObjectType::LaneSum.encode_header(&mut out);
    claim.encode(&mut out);
    out.extend_from_slice(opening);
    out
}

impl DecodeWith<ProtocolParams> for LaneBulletinEntry {
    fn decode_with(params: &ProtocolParams, reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        reader.header(ObjectType::LaneSum)?;
        let shape = params.lane_code().map(LaneCode::shape);
        let known = |lane: NodeId| shape.is_some_and(|shape| lane.0 < shape.lanes);
        let claim = LaneClaim::read(reader, known, params.max_clients())?;
        let code = params.lane_code().expect("a lane is known only where there are lanes");
        let start = reader.offset();
        let opening = AggregatedShare::decode_with(&code.summed_layout(claim.clients), reader)?;
        // An opening has one encoding: these bytes are what was packed to be signed.
        let digest = blake3::hash(reader.since(start)).into();
        let signature = Signature::decode(reader)?;
        Ok(Self { signed: SignedLaneClaim { claim, digest, signature }, opening })
    }
}
