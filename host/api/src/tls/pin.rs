//! A server that is known by its key.

use super::{Facts, SpkiDigest};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, DigitallySignedStruct, Error, PeerIncompatible, SignatureScheme};
use std::sync::Arc;

/// Whether a pinned server's certificate may be out of its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expiry {
    /// It must be valid now.
    Checked,
    /// It is not looked at: for a machine whose clock belongs to somebody else. The pin alone decides.
    Ignored,
}

/// Accepts a server whose key's digest is in a list. Names and issuers are not looked at.
#[derive(Debug)]
pub struct PinnedServer {
    pins: Vec<SpkiDigest>,
    expiry: Expiry,
    provider: Arc<CryptoProvider>,
}

impl PinnedServer {
    /// A verifier of these pins. Several: the key in use and the next one. None: no server is accepted.
    pub const fn new(pins: Vec<SpkiDigest>, expiry: Expiry, provider: Arc<CryptoProvider>) -> Self {
        Self { pins, expiry, provider }
    }
}

impl ServerCertVerifier for PinnedServer {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let facts = Facts::of(end_entity).map_err(|_| CertificateError::BadEncoding)?;
        if !self.pins.contains(&facts.spki) {
            return Err(CertificateError::ApplicationVerificationFailure.into());
        }
        match self.expiry {
            Expiry::Ignored => {}
            Expiry::Checked if now.as_secs() < facts.validity.not_before => {
                return Err(CertificateError::NotValidYet.into());
            }
            Expiry::Checked if now.as_secs() > facts.validity.not_after => {
                return Err(CertificateError::Expired.into());
            }
            Expiry::Checked => {}
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(PeerIncompatible::Tls12NotOffered.into())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(
            message,
            certificate,
            signature,
            &self.provider.signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
