//! What we take from a certificate: whose key it is, and when it is valid. Names and issuers decide nothing here.

use panetiere::fault::{Attribution, Fault};
use rustls::pki_types::CertificateDer;
use sha2::{Digest, Sha256};
use std::fmt;
use std::str::FromStr;
use x509_cert::Certificate;
use x509_cert::der::{Decode, Encode};

/// A certificate or key that cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CertificateError {
    /// The bytes are no X.509 certificate.
    #[error("the certificate cannot be read")]
    Certificate,
    /// A digest in another form.
    #[error("a key's digest is written as 64 lower-case hex digits")]
    Digest,
    /// The private key is of a kind that TLS does not use.
    #[error("the private key cannot be read, or is of a kind that TLS does not use")]
    Key,
    /// The key is not the certificate's.
    #[error("the private key does not belong to the certificate")]
    Mismatch,
    /// The text has no such thing.
    #[error("the PEM file has no {what}")]
    Pem {
        /// What was looked for.
        what: &'static str,
    },
}

impl Fault for CertificateError {
    fn code(&self) -> &'static str {
        match self {
            Self::Certificate => "certificate_unreadable",
            Self::Digest => "certificate_digest",
            Self::Key => "certificate_key",
            Self::Mismatch => "certificate_mismatch",
            Self::Pem { .. } => "certificate_pem",
        }
    }

    fn attribution(&self) -> Attribution {
        Attribution::Operator
    }
}

/// Who somebody is: SHA-256 of the public key, as SubjectPublicKeyInfo in DER. A renewed certificate of the same key is the
/// same party. Written as 64 lower-case hex digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SpkiDigest(pub [u8; 32]);

impl SpkiDigest {
    /// The digest of a key.
    pub fn of_spki(der: &[u8]) -> Self {
        Self(Sha256::digest(der).into())
    }
}

impl fmt::Display for SpkiDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&data_encoding::HEXLOWER.encode(&self.0))
    }
}

impl fmt::Debug for SpkiDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SpkiDigest({self})")
    }
}

impl FromStr for SpkiDigest {
    type Err = CertificateError;

    fn from_str(text: &str) -> Result<Self, CertificateError> {
        let bytes = data_encoding::HEXLOWER.decode(text.as_bytes()).ok();
        bytes.and_then(|bytes| bytes.try_into().ok()).map(Self).ok_or(CertificateError::Digest)
    }
}

/// When a certificate is valid, in seconds since 1970, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validity {
    /// The first second.
    pub not_before: u64,
    /// The last second.
    pub not_after: u64,
}

impl Validity {
    /// Whether `now` lies in it.
    pub const fn contains(&self, now: u64) -> bool {
        self.not_before <= now && now <= self.not_after
    }
}

/// What counts of a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Whose key it is.
    pub spki: SpkiDigest,
    /// When it is valid.
    pub validity: Validity,
}

impl Facts {
    /// Reads a certificate. Neither its signature nor its issuer is looked at.
    ///
    /// # Errors
    /// `Certificate` for bytes that are none.
    pub fn of(certificate: &CertificateDer<'_>) -> Result<Self, CertificateError> {
        let parsed = Certificate::from_der(certificate).map_err(|_| CertificateError::Certificate)?;
        let tbs = parsed.tbs_certificate();
        let spki = tbs.subject_public_key_info().to_der().map_err(|_| CertificateError::Certificate)?;
        let validity = tbs.validity();
        let seconds = |time: x509_cert::time::Time| time.to_unix_duration().as_secs();
        let validity =
            Validity { not_before: seconds(validity.not_before), not_after: seconds(validity.not_after) };
        Ok(Self { spki: SpkiDigest::of_spki(&spki), validity })
    }
}
