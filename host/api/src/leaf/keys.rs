//! One key takes the place of another.

use super::{read_text, write_text};
use panetiere::ids::DeploymentId;
use panetiere::sig::{SigError, Signature, SigningKey, VerifyingKey};
use panetiere::wire::{Decode, DecodeError, DecodeErrorKind, Encode, HEADER_LEN, ObjectType, Reader};
use tlog::key::VerifierKey;

const DOMAIN: &str = "panetiere/key-rotation/v1";

/// The key that is replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NewKey {
    /// The operator's: it signs from here on, and the one before it no more.
    Operator(VerifyingKey),
    /// The log's: it signs checkpoints from here on, and the one before it may do so for the rest of this epoch and the
    /// next.
    Log(VerifierKey),
}

/// Replaces a key. The operator's present key signs it; an operator's new key too, so that nobody names a key that it
/// does not hold. A log's new key shows itself by its first checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRotation {
    deployment: DeploymentId,
    new: NewKey,
    by_operator: Signature,
    by_new: Option<Signature>,
}

impl KeyRotation {
    /// Names a new operator's key.
    pub fn operator(deployment: DeploymentId, present: &SigningKey, new: &SigningKey) -> Self {
        let key = NewKey::Operator(new.verifying_key());
        let signed = signed_bytes(&deployment, &key);
        let (by_operator, by_new) = (present.sign(DOMAIN, &signed), Some(new.sign(DOMAIN, &signed)));
        Self { deployment, new: key, by_operator, by_new }
    }

    /// Names a new key of the log.
    pub fn log(deployment: DeploymentId, operator: &SigningKey, new: VerifierKey) -> Self {
        let new = NewKey::Log(new);
        let by_operator = operator.sign(DOMAIN, &signed_bytes(&deployment, &new));
        Self { deployment, new, by_operator, by_new: None }
    }

    /// The deployment.
    pub const fn deployment(&self) -> &DeploymentId {
        &self.deployment
    }

    /// The new key, if it is signed as it has to be; `operator` is the operator's present key.
    ///
    /// # Errors
    /// `BadSignature` if either signature is wrong.
    pub fn verify(&self, operator: &VerifyingKey) -> Result<&NewKey, SigError> {
        let signed = signed_bytes(&self.deployment, &self.new);
        operator.verify(DOMAIN, &signed, &self.by_operator)?;
        if let (NewKey::Operator(new), Some(signature)) = (&self.new, &self.by_new) {
            new.verify(DOMAIN, &signed, signature)?;
        }
        Ok(&self.new)
    }
}

fn signed_bytes(deployment: &DeploymentId, new: &NewKey) -> Vec<u8> {
    let mut out = Vec::new();
    ObjectType::KeyRotation.encode_header(&mut out);
    deployment.encode(&mut out);
    match new {
        NewKey::Operator(key) => {
            out.push(1);
            key.encode(&mut out);
        }
        NewKey::Log(key) => {
            out.push(2);
            write_text(&key.to_string(), &mut out);
        }
    }
    out
}

impl Encode for KeyRotation {
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&signed_bytes(&self.deployment, &self.new));
        self.by_operator.encode(out);
        if let Some(signature) = &self.by_new {
            signature.encode(out);
        }
    }

    fn encoded_len(&self) -> usize {
        let key = match &self.new {
            NewKey::Operator(_) => VerifyingKey::LEN + Signature::LEN,
            NewKey::Log(key) => 2 + key.to_string().len(),
        };
        HEADER_LEN + DeploymentId::LEN + 1 + key + Signature::LEN
    }
}

impl Decode for KeyRotation {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        reader.header(ObjectType::KeyRotation)?;
        let deployment = DeploymentId::decode(reader)?;
        let unknown = reader.fault("kind of key", DecodeErrorKind::OutOfRange);
        let new = match reader.u8("kind of key")? {
            1 => NewKey::Operator(VerifyingKey::decode(reader)?),
            2 => NewKey::Log(read_text(reader, "key of the log")?),
            _ => return Err(unknown),
        };
        let by_operator = Signature::decode(reader)?;
        let by_new = match new {
            NewKey::Operator(_) => Some(Signature::decode(reader)?),
            NewKey::Log(_) => None,
        };
        Ok(Self { deployment, new, by_operator, by_new })
    }
}
