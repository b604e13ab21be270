//! Self-signed certificates for the parties of a deployment. Peers know them by their key's digest, so that nobody has to
//! sign them.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use panetiere::fault::{Attribution, Fault};
use panetiere_api::tls::{SpkiDigest, Validity};
use rcgen::{CertificateParams, DnType, KeyPair, PublicKeyData};
use std::time::Duration;
use zeroize::Zeroizing;

/// Characters of a line of PEM.
const PEM_LINE: usize = 64;

/// A certificate that could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IssueError {
    /// A name that no certificate can carry, or no randomness.
    #[error("no certificate for these names")]
    Generate(#[source] rcgen::Error),
    /// No name.
    #[error("a certificate needs a name")]
    NoName,
    /// The end lies before the beginning, or beyond the year 9999.
    #[error("a certificate valid from {} to {} (seconds since 1970)", .0.not_before, .0.not_after)]
    Validity(Validity),
}

impl Fault for IssueError {
    fn code(&self) -> &'static str {
        match self {
            Self::Generate(_) => "issue_generate",
            Self::NoName => "issue_no_name",
            Self::Validity(_) => "issue_validity",
        }
    }

    fn attribution(&self) -> Attribution {
        Attribution::Caller
    }
}

/// The kind of a certificate's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyKind {
    /// Ed25519.
    Ed25519,
    /// ECDSA on P-256 with SHA-256.
    P256,
}

/// A new certificate with its key.
pub struct Issued {
    /// The certificate, as PEM.
    pub certificate_pem: String,
    /// The private key (PKCS #8), as PEM. Wiped when dropped; rcgen's own copy of it is not.
    pub key_pem: Zeroizing<String>,
    /// The key's digest: what peers are told.
    pub spki: SpkiDigest,
}

/// Makes a key, and a certificate for it that it signs itself.
///
/// `names` are host names and addresses, the first one the subject's.
///
/// # Errors
/// `NoName`, `Validity`, or `Generate` for a name that is none.
pub fn self_signed(names: &[&str], kind: KeyKind, validity: Validity) -> Result<Issued, IssueError> {
    /// The last second of the year 9999: what a certificate can express.
    const LAST: u64 = 253_402_300_799;
    let first = names.first().ok_or(IssueError::NoName)?;
    if validity.not_before > validity.not_after || validity.not_after > LAST {
        return Err(IssueError::Validity(validity));
    }
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let mut params = CertificateParams::new(names).map_err(IssueError::Generate)?;
    let epoch = rcgen::date_time_ymd(1970, 1, 1);
    params.not_before = epoch + Duration::from_secs(validity.not_before);
    params.not_after = epoch + Duration::from_secs(validity.not_after);
    params.distinguished_name.push(DnType::CommonName, *first);
    let algorithm = match kind {
        KeyKind::Ed25519 => &rcgen::PKCS_ED25519,
        KeyKind::P256 => &rcgen::PKCS_ECDSA_P256_SHA256,
    };
    let key = KeyPair::generate_for(algorithm).map_err(IssueError::Generate)?;
    let certificate = params.self_signed(&key).map_err(IssueError::Generate)?;
    Ok(Issued {
        certificate_pem: pem("CERTIFICATE", certificate.der()).to_string(),
        key_pem: pem("PRIVATE KEY", key.serialized_der()),
        spki: SpkiDigest::of_spki(&key.subject_public_key_info()),
    })
}

fn pem(label: &str, der: &[u8]) -> Zeroizing<String> {
    let text = Zeroizing::new(STANDARD.encode(der));
    // All of it is reserved at once: a string that grows leaves copies behind.
    let mut out =
        Zeroizing::new(String::with_capacity(text.len() + text.len() / PEM_LINE + 2 * label.len() + 40));
    out.extend(["-----BEGIN ", label, "-----\n"]);
    let mut rest = text.as_str();
    while !rest.is_empty() {
        let (line, after) = rest.split_at(rest.len().min(PEM_LINE));
        out.extend([line, "\n"]);
        rest = after;
    }
    out.extend(["-----END ", label, "-----\n"]);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use panetiere_api::tls::{Facts, identity};

    #[test]
    fn a_certificate_is_read_back_as_it_was_made() {
        let validity = Validity { not_before: 1_000_000_000, not_after: 4_000_000_000 };
        for kind in [KeyKind::Ed25519, KeyKind::P256] {
            let issued = self_signed(&["server-1.example", "127.0.0.1"], kind, validity).unwrap();
            let identity = identity(issued.certificate_pem.as_bytes(), issued.key_pem.as_bytes()).unwrap();
            let facts = Facts::of(identity.end_entity_cert().unwrap()).unwrap();
            assert_eq!(facts, Facts { spki: issued.spki, validity });
            assert!(issued.key_pem.lines().all(|line| line.len() <= PEM_LINE));
        }
    }

    #[test]
    fn what_no_certificate_can_say_is_refused() {
        let validity = |not_before, not_after| Validity { not_before, not_after };
        let issue = |names: &[&str], validity| self_signed(names, KeyKind::P256, validity).map(drop);
        assert!(matches!(issue(&[], validity(1, 2)), Err(IssueError::NoName)));
        assert!(matches!(issue(&["a"], validity(2, 1)), Err(IssueError::Validity(_))));
        assert!(matches!(issue(&["a"], validity(2, u64::MAX)), Err(IssueError::Validity(_))));
        assert!(matches!(issue(&["é"], validity(1, 2)), Err(IssueError::Generate(_))));
    }
}
