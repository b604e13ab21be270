//! Signatures: ECDSA over P-256 with SHA-256 (FIPS 186-5), deterministic (RFC 6979), low-s. protocol.md section 7.
//!
//! What is signed is the framed message `len(domain) || domain || len(message) || message`, both lengths u64
//! little-endian, hashed once with SHA-256. So a statement of one type never verifies as another, and any ECDSA
//! implementation can check a signature over the framed bytes.
//!
//! Every value has one encoding. Of the two signatures (r, s) and (r, n - s) that verify alike, only the one with
//! s <= (n-1)/2 exists here: [`Signature`] cannot hold the other, so nobody can turn one valid statement into a
//! second one. A verifying key is the compressed point and nothing else.

use crate::fault::{Attribution, Fault};
use crate::ids::tagged_sha256;
use crate::wire::{Decode, DecodeError, DecodeErrorKind, Encode, Reader};
use p256::ecdsa;
use p256::ecdsa::signature::hazmat::{PrehashSigner as _, PrehashVerifier as _};
use p256::elliptic_curve::Generate as _;
use rand_core::CryptoRng;
use std::fmt;
use zeroize::{Zeroize as _, Zeroizing};

/// Why a key or a signature was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SigError {
    /// The bytes are no compressed point of P-256.
    #[error("not a compressed point of P-256")]
    BadKey,
    /// The bytes are no scalar in `1..n`.
    #[error("a signing key must lie between 1 and the group order")]
    BadScalar,
    /// The signature is not this key's over this message in this domain.
    #[error("not a signature of this key over this statement")]
    BadSignature,
    /// s > (n-1)/2: the same signature has another, canonical encoding.
    #[error("the signature's s lies in the upper half")]
    HighS,
    /// r or s is not in `1..n`.
    #[error("the signature's r or s does not lie between 1 and the group order")]
    OutOfRange,
}

impl Fault for SigError {
    fn code(&self) -> &'static str {
        match self {
            Self::BadKey => "signature_bad_key",
            Self::BadScalar => "signature_bad_scalar",
            Self::BadSignature => "signature_bad",
            Self::HighS => "signature_high_s",
            Self::OutOfRange => "signature_out_of_range",
        }
    }

    /// Anybody can make a bad signature in anybody's name, so it accuses nobody.
    fn attribution(&self) -> Attribution {
        match self {
            Self::BadScalar => Attribution::Caller,
            Self::BadKey | Self::BadSignature | Self::HighS | Self::OutOfRange => Attribution::Nobody,
        }
    }
}

/// A signing key. Wiped on drop, never shown.
pub struct SigningKey(ecdsa::SigningKey);

impl SigningKey {
    /// Bytes of the scalar.
    pub const SCALAR_LEN: usize = 32;

    /// A fresh key.
    pub fn generate(rng: &mut (impl CryptoRng + ?Sized)) -> Self {
        Self(ecdsa::SigningKey::generate_from_rng(rng))
    }

    /// The key with this scalar, big-endian.
    ///
    /// # Errors
    /// `BadScalar` unless it lies in `1..n`, n the group order.
    pub fn from_scalar(scalar: &[u8; Self::SCALAR_LEN]) -> Result<Self, SigError> {
        ecdsa::SigningKey::from_bytes(scalar.into()).map(Self).map_err(|_| SigError::BadScalar)
    }

    /// The scalar, big-endian, for the one place that stores it.
    pub fn expose_scalar(&self) -> Zeroizing<[u8; Self::SCALAR_LEN]> {
        let mut bytes = self.0.to_bytes();
        let scalar = Zeroizing::new(bytes.into());
        bytes.zeroize();
        scalar
    }

    /// The key that verifies what this one signs.
    pub fn verifying_key(&self) -> VerifyingKey {
        VerifyingKey(*self.0.verifying_key())
    }

    /// Signs `message` as a statement of the type `domain`. The same input gives the same signature.
    pub fn sign(&self, domain: &'static str, message: &[u8]) -> Signature {
        self.sign_digest(&tagged_sha256(domain, &[message]))
    }

    /// Signs a SHA-256 digest. Public only so that the published vectors run against it: it has no domain.
    #[doc(hidden)]
    pub fn sign_digest(&self, digest: &[u8; 32]) -> Signature {
        let either: ecdsa::Signature =
            self.0.sign_prehash(digest).expect("deterministic signing retries until r and s are non-zero");
        Signature(either.normalize_s())
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SigningKey(..)")
    }
}

/// A verifying key: a point of P-256 other than the identity. Wire: 33 bytes, SEC 1 compressed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct VerifyingKey(ecdsa::VerifyingKey);

impl VerifyingKey {
    /// Bytes on the wire.
    pub const LEN: usize = 33;

    /// The key with this encoding.
    ///
    /// # Errors
    /// `BadKey` unless the bytes are 02 or 03 and the x of a point of the curve, x below the field's prime.
    pub fn from_sec1(bytes: &[u8; Self::LEN]) -> Result<Self, SigError> {
        // The tag is checked here because 33 bytes may also be the "compact" form (05), which the parser below takes.
        if !matches!(bytes[0], 0x02 | 0x03) {
            return Err(SigError::BadKey);
        }
        ecdsa::VerifyingKey::from_sec1_bytes(bytes).map(Self).map_err(|_| SigError::BadKey)
    }

    /// The encoding.
    pub fn to_sec1(&self) -> [u8; Self::LEN] {
        self.0.to_sec1_point(true).as_bytes().try_into().expect("a compressed point has 33 bytes")
    }

    /// The key as a `SubjectPublicKeyInfo` in DER (RFC 5480, uncompressed point): what digests of keys are taken of.
    pub fn to_spki(&self) -> [u8; 91] {
        // SEQUENCE { SEQUENCE { id-ecPublicKey, prime256v1 }, BIT STRING of 65 bytes }
        const PREFIX: [u8; 26] = [
            0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a,
            0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
        ];
        let mut spki = [0; 91];
        spki[..26].copy_from_slice(&PREFIX);
        spki[26..].copy_from_slice(self.0.to_sec1_point(false).as_bytes());
        spki
    }

    /// Verifies that `signature` was made by this key's owner over `message` as a statement of the type `domain`.
    ///
    /// # Errors
    /// `BadSignature` otherwise.
    pub fn verify(
        &self,
        domain: &'static str,
        message: &[u8],
        signature: &Signature,
    ) -> Result<(), SigError> {
        self.verify_digest(&tagged_sha256(domain, &[message]), signature)
    }

    /// Verifies a signature over a SHA-256 digest. Public only so that the published vectors run against it: it has
    /// no domain.
    ///
    /// # Errors
    /// `BadSignature` if it does not verify.
    #[doc(hidden)]
    pub fn verify_digest(&self, digest: &[u8; 32], signature: &Signature) -> Result<(), SigError> {
        self.0.verify_prehash(digest, &signature.0).map_err(|_| SigError::BadSignature)
    }
}

impl fmt::Debug for VerifyingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "VerifyingKey({})", data_encoding::HEXLOWER.encode(&self.to_sec1()))
    }
}

impl Encode for VerifyingKey {
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.to_sec1());
    }

    fn encoded_len(&self) -> usize {
        Self::LEN
    }
}

impl Decode for VerifyingKey {
    /// # Errors
    /// `Truncated`; `OutOfRange` for what [`VerifyingKey::from_sec1`] refuses.
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let refused = reader.fault("verifying key", DecodeErrorKind::OutOfRange);
        Self::from_sec1(&reader.array("verifying key")?).map_err(|_| refused)
    }
}

/// A signature with low s. Wire: 64 bytes, r then s, big-endian.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Signature(ecdsa::Signature);

impl Signature {
    /// Bytes on the wire.
    pub const LEN: usize = 64;

    /// The signature with this encoding, `r || s`.
    ///
    /// # Errors
    /// `OutOfRange` if r or s is not in `1..n`; `HighS` if s > (n-1)/2.
    pub fn from_p1363(bytes: &[u8; Self::LEN]) -> Result<Self, SigError> {
        let either = ecdsa::Signature::from_slice(bytes).map_err(|_| SigError::OutOfRange)?;
        if either.normalize_s() == either { Ok(Self(either)) } else { Err(SigError::HighS) }
    }

    /// The encoding, `r || s`.
    pub fn to_p1363(&self) -> [u8; Self::LEN] {
        self.0.to_bytes().into()
    }
}

impl fmt::Debug for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Signature({})", data_encoding::HEXLOWER.encode(&self.to_p1363()))
    }
}

impl Encode for Signature {
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.to_p1363());
    }

    fn encoded_len(&self) -> usize {
        Self::LEN
    }
}

impl Decode for Signature {
    /// # Errors
    /// `Truncated`; `OutOfRange` if r or s is not in `1..n`; `NotCanonical` if s > (n-1)/2.
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let out_of_range = reader.fault("signature", DecodeErrorKind::OutOfRange);
        let high_s = reader.fault("signature", DecodeErrorKind::NotCanonical);
        Self::from_p1363(&reader.array("signature")?).map_err(|error| match error {
            SigError::HighS => high_s,
            _ => out_of_range,
        })
    }
}

#[cfg(test)]
mod tests;
