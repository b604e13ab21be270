//! Who takes part: admissions of clients, and their end.

use super::Statement;
use panetiere::ids::{ClientId, DeploymentId, EpochDigest};
use panetiere::sig::VerifyingKey;
use panetiere::wire::{Decode, DecodeError, DecodeErrorKind, Encode, HEADER_LEN, ObjectType, Reader};

/// What a client shows for itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Credential {
    /// Nothing: no enclave vouches for the client. For deployments whose policy says so, loudly.
    Unattested,
}

impl Credential {
    const LEN: usize = 1;

    fn encode(self, out: &mut Vec<u8>) {
        match self {
            Self::Unattested => out.push(0),
        }
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let unknown = reader.fault("kind of credential", DecodeErrorKind::OutOfRange);
        match reader.u8("kind of credential")? {
            0 => Ok(Self::Unattested),
            _ => Err(unknown),
        }
    }
}

/// A client's request to take part in an epoch, signed by its own key, which proves that it holds it.
///
/// The client's id is no part of it: it is the number of admissions before this one in the epoch that count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admission {
    /// The deployment.
    pub deployment: DeploymentId,
    /// The epoch's document.
    pub epoch: EpochDigest,
    /// The key that will sign the client's posts.
    pub key: VerifyingKey,
    /// What the client shows for itself.
    pub credential: Credential,
}

impl Statement for Admission {
    const DOMAIN: &'static str = "panetiere/admission/v1";
}

impl Encode for Admission {
    fn encode(&self, out: &mut Vec<u8>) {
        ObjectType::Admission.encode_header(out);
        self.deployment.encode(out);
        self.epoch.encode(out);
        self.key.encode(out);
        self.credential.encode(out);
    }

    fn encoded_len(&self) -> usize {
        HEADER_LEN + DeploymentId::LEN + EpochDigest::LEN + VerifyingKey::LEN + Credential::LEN
    }
}

impl Decode for Admission {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        reader.header(ObjectType::Admission)?;
        Ok(Self {
            deployment: DeploymentId::decode(reader)?,
            epoch: EpochDigest::decode(reader)?,
            key: VerifyingKey::decode(reader)?,
            credential: Credential::decode(reader)?,
        })
    }
}

/// The end of a client's admission, signed by the operator. It takes effect in every round of the epoch that is not yet
/// closed where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Revocation {
    /// The deployment.
    pub deployment: DeploymentId,
    /// The epoch's document.
    pub epoch: EpochDigest,
    /// The client.
    pub client: ClientId,
}

impl Statement for Revocation {
    const DOMAIN: &'static str = "panetiere/revocation/v1";
}

impl Encode for Revocation {
    fn encode(&self, out: &mut Vec<u8>) {
        ObjectType::Revocation.encode_header(out);
        self.deployment.encode(out);
        self.epoch.encode(out);
        self.client.encode(out);
    }

    fn encoded_len(&self) -> usize {
        HEADER_LEN + DeploymentId::LEN + EpochDigest::LEN + ClientId::LEN
    }
}

impl Decode for Revocation {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        reader.header(ObjectType::Revocation)?;
        Ok(Self {
            deployment: DeploymentId::decode(reader)?,
            epoch: EpochDigest::decode(reader)?,
            client: ClientId::decode(reader)?,
        })
    }
}
