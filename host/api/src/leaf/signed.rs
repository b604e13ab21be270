//! A statement and the signature under it.

use panetiere::sig::{SigError, Signature, SigningKey, VerifyingKey};
use panetiere::wire::{Decode, DecodeError, Encode, Reader};

/// What somebody signs, as an object of its own.
pub trait Statement: Encode + Decode {
    /// What the signature is for. No two types share one, so that a signature under one never counts for another.
    const DOMAIN: &'static str;
}

/// A statement with a signature, not yet checked: whose it has to be follows from what it says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signed<T> {
    statement: T,
    signature: Signature,
}

impl<T: Statement> Signed<T> {
    /// Signs a statement.
    pub fn sign(statement: T, key: &SigningKey) -> Self {
        let signature = key.sign(T::DOMAIN, &statement.to_bytes());
        Self { statement, signature }
    }

    /// What it claims. Only [`verify`](Self::verify) makes the claim worth anything.
    pub const fn claim(&self) -> &T {
        &self.statement
    }

    /// The statement, if `key` signed it.
    ///
    /// # Errors
    /// `BadSignature` if it did not.
    pub fn verify(&self, key: &VerifyingKey) -> Result<&T, SigError> {
        key.verify(T::DOMAIN, &self.statement.to_bytes(), &self.signature)?;
        Ok(&self.statement)
    }
}

impl<T: Statement> Encode for Signed<T> {
    fn encode(&self, out: &mut Vec<u8>) {
        self.statement.encode(out);
        self.signature.encode(out);
    }

    fn encoded_len(&self) -> usize {
        self.statement.encoded_len() + Signature::LEN
    }
}

impl<T: Statement> Decode for Signed<T> {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self { statement: T::decode(reader)?, signature: Signature::decode(reader)? })
    }
}
