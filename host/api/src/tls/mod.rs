//! TLS as all parties speak it: version 1.3, X25519MLKEM768 first, peers known by the digest of their public key.

mod certificate;
mod pin;

pub use certificate::{CertificateError, Facts, SpkiDigest, Validity};
pub use pin::{Expiry, PinnedServer};

use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};
use rustls::sign::CertifiedKey;
use std::sync::Arc;

/// The cryptography of every connection: TLS 1.3 suites alone; X25519MLKEM768, then X25519, then P-256.
pub fn provider() -> Arc<CryptoProvider> {
    let kx_groups = vec![
        aws_lc_rs::kx_group::X25519MLKEM768,
        aws_lc_rs::kx_group::X25519,
        aws_lc_rs::kx_group::SECP256R1,
    ];
    let cipher_suites = vec![
        aws_lc_rs::cipher_suite::TLS13_AES_128_GCM_SHA256,
        aws_lc_rs::cipher_suite::TLS13_AES_256_GCM_SHA384,
        aws_lc_rs::cipher_suite::TLS13_CHACHA20_POLY1305_SHA256,
    ];
    Arc::new(CryptoProvider { cipher_suites, kx_groups, ..aws_lc_rs::default_provider() })
}

/// A party's certificate chain and private key, which belong together.
///
/// # Errors
/// `Pem` for text without a certificate or key, `Key` for a kind of key that TLS does not use, `Mismatch` if the key is not
/// the certificate's, `Certificate` for one that cannot be read.
pub fn identity(certificate_pem: &[u8], key_pem: &[u8]) -> Result<Arc<CertifiedKey>, CertificateError> {
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(certificate_pem)
        .collect::<Result<_, _>>()
        .map_err(|_| CertificateError::Pem { what: "certificate" })?;
    let leaf = chain.first().ok_or(CertificateError::Pem { what: "certificate" })?;
    Facts::of(leaf)?;
    let key =
        PrivateKeyDer::from_pem_slice(key_pem).map_err(|_| CertificateError::Pem { what: "private key" })?;
    let key = aws_lc_rs::sign::any_supported_type(&key).map_err(|_| CertificateError::Key)?;
    let certified = CertifiedKey::new(chain, key);
    certified.keys_match().map_err(|_| CertificateError::Mismatch)?;
    Ok(Arc::new(certified))
}
