//! An aggregator's answer: the sum of its group's posts, signed.

use crate::cs::Commitment;
use crate::ids::{
    AggregatorId, CiphertextDigest, ClientId, CrsDigest, DeploymentId, EpochDigest, RootDigest, SessionId,
    StatementDigest,
};
use crate::protocol::ProtocolParams;
use crate::sig::{SigError, Signature, SigningKey, VerifyingKey};
use crate::wire::{Decode, DecodeError, DecodeErrorKind, DecodeWith, Encode, HEADER_LEN, ObjectType, Reader};
use std::collections::BTreeMap;

use super::post::ciphertext_digest;

const DOMAIN: &str = "panetiere/group-sum/v1";

/// What a group's sum says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupClaim {
    /// The deployment.
    pub deployment: DeploymentId,
    /// The epoch's document.
    pub epoch: EpochDigest,
    /// The round.
    pub session: SessionId,
    /// The public parameters.
    pub crs: CrsDigest,
    /// Who sums.
    pub aggregator: AggregatorId,
    /// The group's clients, ascending, each with the statement of the post that is summed: a client may have signed two.
    /// Not empty on the wire.
    pub members: BTreeMap<ClientId, StatementDigest>,
}

const MEMBER_LEN: usize = ClientId::LEN + StatementDigest::LEN;

impl GroupClaim {
    fn len(members: usize) -> usize {
        4 * 32 + AggregatorId::LEN + 4 + MEMBER_LEN * members
    }

    /// Reads a claim over at most `max_clients` members.
    fn read(reader: &mut Reader<'_>, max_clients: u32) -> Result<Self, DecodeError> {
        let deployment = DeploymentId::decode(reader)?;
        let epoch = EpochDigest::decode(reader)?;
        let session = SessionId::decode(reader)?;
        let crs = CrsDigest::decode(reader)?;
        let aggregator = AggregatorId::decode(reader)?;
        let refused = reader.fault("number of members", DecodeErrorKind::OutOfRange);
        let count = reader.u32("number of members")?;
        if !(1..=max_clients).contains(&count) {
            return Err(refused);
        }
        let need = MEMBER_LEN * usize::try_from(count).expect("usize has at least 32 bits");
        let unsorted = reader.fault("members", DecodeErrorKind::NotCanonical);
        let bytes = reader.take(need, "members")?;
        let mut members = BTreeMap::new();
        for member in bytes.chunks_exact(MEMBER_LEN) {
            let mut member = Reader::new(member);
            let (client, statement) = (ClientId::decode(&mut member)?, StatementDigest::decode(&mut member)?);
            if members.last_key_value().is_some_and(|(last, _)| *last >= client) {
                return Err(unsorted);
            }
            members.insert(client, statement);
        }
        Ok(Self { deployment, epoch, session, crs, aggregator, members })
    }
}

impl Encode for GroupClaim {
    fn encode(&self, out: &mut Vec<u8>) {
        self.deployment.encode(out);
        self.epoch.encode(out);
        self.session.encode(out);
        self.crs.encode(out);
        self.aggregator.encode(out);
        let count = u32::try_from(self.members.len()).expect("clients of a round fit 32 bits");
        out.extend_from_slice(&count.to_le_bytes());
        for (client, statement) in &self.members {
            client.encode(out);
            statement.encode(out);
        }
    }

    fn encoded_len(&self) -> usize {
        Self::len(self.members.len())
    }
}

/// What an aggregator signs: its claim and the digests of root and ciphertext, so that who said it is known without the
/// megabytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedGroupClaim {
    claim: GroupClaim,
    digests: (RootDigest, CiphertextDigest),
    signature: Signature,
}

impl SignedGroupClaim {
    /// What it claims.
    pub const fn claim(&self) -> &GroupClaim {
        &self.claim
    }

    /// Digests of the packed root and ciphertext.
    pub const fn digests(&self) -> &(RootDigest, CiphertextDigest) {
        &self.digests
    }

    /// Whether both are one statement: what is signed, not the signature.
    pub fn says_the_same(&self, other: &Self) -> bool {
        (&self.claim, &self.digests) == (&other.claim, &other.digests)
    }

    /// Checks the signature under the identity key of the aggregator it names.
    ///
    /// # Errors
    /// If that aggregator did not sign this.
    pub fn verify_signature(&self, key: &VerifyingKey) -> Result<(), SigError> {
        key.verify(DOMAIN, &signed_bytes(&self.claim, &self.digests), &self.signature)
    }
}

impl Encode for SignedGroupClaim {
    fn encode(&self, out: &mut Vec<u8>) {
        self.claim.encode(out);
        self.digests.0.encode(out);
        self.digests.1.encode(out);
        self.signature.encode(out);
    }

    fn encoded_len(&self) -> usize {
        self.claim.encoded_len() + RootDigest::LEN + CiphertextDigest::LEN + Signature::LEN
    }
}

/// Whether the round has such an aggregator and so many clients is not looked at here.
impl Decode for SignedGroupClaim {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let claim = GroupClaim::read(reader, u32::MAX)?;
        let digests = (RootDigest::decode(reader)?, CiphertextDigest::decode(reader)?);
        Ok(Self { claim, digests, signature: Signature::decode(reader)? })
    }
}

/// One aggregator's sum over its group: of the commitment roots and of the ciphertexts, in canonical residues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupSum {
    signed: SignedGroupClaim,
    root: Commitment,
    ciphertext: Vec<u8>,
}

impl AsRef<Self> for SignedGroupClaim {
    fn as_ref(&self) -> &Self {
        self
    }
}

impl AsRef<SignedGroupClaim> for GroupSum {
    fn as_ref(&self) -> &SignedGroupClaim {
        self.signed()
    }
}

impl GroupSum {
    /// Signs a group's sum: `root` is the sum of the roots, `ciphertext` the packed sum of the ciphertexts.
    pub fn sign(
        claim: GroupClaim,
        root: Commitment,
        ciphertext: Vec<u8>,
        params: &ProtocolParams,
        key: &SigningKey,
    ) -> Self {
        let digests = (root.digest(params.lattice()), ciphertext_digest(&ciphertext));
        let signature = key.sign(DOMAIN, &signed_bytes(&claim, &digests));
        Self { signed: SignedGroupClaim { claim, digests, signature }, root, ciphertext }
    }

    /// What it claims.
    pub const fn claim(&self) -> &GroupClaim {
        &self.signed.claim
    }

    /// What is signed, without the sums.
    pub const fn signed(&self) -> &SignedGroupClaim {
        &self.signed
    }

    /// Whose sum it claims to be.
    pub const fn aggregator(&self) -> AggregatorId {
        self.claim().aggregator
    }

    /// The sum of the members' commitment roots.
    pub const fn root(&self) -> &Commitment {
        &self.root
    }

    /// The packed sum of the members' ciphertexts. Its residues are checked where it is added.
    pub fn ciphertext(&self) -> &[u8] {
        &self.ciphertext
    }

    /// Digests of the packed root and ciphertext: with the claim, what is signed.
    pub const fn digests(&self) -> &(RootDigest, CiphertextDigest) {
        &self.signed.digests
    }

    /// Whether both are one statement: what is signed, not the signature.
    pub fn says_the_same(&self, other: &Self) -> bool {
        self.signed.says_the_same(&other.signed)
    }

    /// Checks the signature under the identity key of the aggregator it names.
    ///
    /// # Errors
    /// If that aggregator did not sign these bytes.
    pub fn verify_signature(&self, key: &VerifyingKey) -> Result<(), SigError> {
        self.signed.verify_signature(key)
    }

    /// Bytes of the sum of a group of `members`, framing included.
    pub fn packed_len(params: &ProtocolParams, members: usize) -> usize {
        let body = params.lattice().hvc.packed_len() + params.kahe().ciphertext_len();
        HEADER_LEN + GroupClaim::len(members) + body + Signature::LEN
    }

    /// The sum's bytes.
    pub fn to_bytes(&self, params: &ProtocolParams) -> Vec<u8> {
        let mut out = Vec::with_capacity(Self::packed_len(params, self.claim().members.len()));
        ObjectType::GroupSum.encode_header(&mut out);
        self.claim().encode(&mut out);
        params.lattice().hvc.pack(self.root.root(), &mut out);
        out.extend_from_slice(&self.ciphertext);
        self.signed.signature.encode(&mut out);
        out
    }
}

fn signed_bytes(claim: &GroupClaim, digests: &(RootDigest, CiphertextDigest)) -> Vec<u8> {
    let mut out =
        Vec::with_capacity(HEADER_LEN + claim.encoded_len() + RootDigest::LEN + CiphertextDigest::LEN);
    ObjectType::GroupSum.encode_header(&mut out);
    claim.encode(&mut out);
    digests.0.encode(&mut out);
    digests.1.encode(&mut out);
    out
}

impl DecodeWith<ProtocolParams> for GroupSum {
    fn decode_with(params: &ProtocolParams, reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        reader.header(ObjectType::GroupSum)?;
        let claim = GroupClaim::read(reader, params.max_clients())?;
        let lattice = params.lattice();
        let refused = reader.fault("root sum", DecodeErrorKind::OutOfRange);
        let root = reader.take(lattice.hvc.packed_len(), "root sum")?;
        let root = Commitment::from_bytes(lattice, root).map_err(|_| refused)?;
        let ciphertext = reader.take(params.kahe().ciphertext_len(), "ciphertext sum")?.to_vec();
        let signature = Signature::decode(reader)?;
        let digests = (root.digest(lattice), ciphertext_digest(&ciphertext));
        Ok(Self { signed: SignedGroupClaim { claim, digests, signature }, root, ciphertext })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use chipmunk::params::{P300, P1000};
    use tlog::entry::MAX_ENTRY_BYTES;

    #[test]
    fn what_is_signed_over_every_client_fits_an_entry() {
        for set in [&P300, &P1000] {
            let digest = StatementDigest::from_digest([5; 32]);
            let claim = GroupClaim {
                deployment: DeploymentId::from_name("entry"),
                epoch: EpochDigest::from_digest([1; 32]),
                session: SessionId::derive("entry.example/log", 0, &[2; 32]),
                crs: CrsDigest::from_digest([3; 32]),
                aggregator: AggregatorId(0),
                members: (0..set.rho_max).map(|client| (ClientId(client), digest)).collect(),
            };
            let leaf =
                HEADER_LEN + claim.encoded_len() + RootDigest::LEN + CiphertextDigest::LEN + Signature::LEN;
            assert!(leaf <= MAX_ENTRY_BYTES, "{}: {leaf} bytes", set.name);
        }
    }
}
