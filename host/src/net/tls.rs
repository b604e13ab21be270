//! The server's side of TLS: a certificate that can be replaced, clients that prove a key.
//!
//! A handshake takes any client certificate that can be read and whose key its owner has: who that is, and whether it may do
//! anything, is decided at each request, by the table as it is then, and answered with a problem document.

use panetiere_api::tls::{CertificateError, Facts, identity, provider};
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{CryptoProvider, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{ClientHello, NoServerSessionStorage, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::time_provider::TimeProvider;
use rustls::version::TLS13;
use rustls::{CertificateError as Refused, DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};
use std::sync::{Arc, PoisonError, RwLock};

/// Whether clients are asked for a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientCertificates {
    /// They are, and those without one are still heard.
    Asked,
    /// They are not.
    NotAsked,
}

/// The TLS of one plane.
#[derive(Debug)]
pub struct ServerTls {
    config: Arc<rustls::ServerConfig>,
    identity: Arc<Current>,
}

impl ServerTls {
    /// A server with this certificate and key, as PEM.
    ///
    /// # Errors
    /// As [`identity`].
    pub fn new(
        certificate_pem: &[u8],
        key_pem: &[u8],
        clients: ClientCertificates,
        clock: Arc<dyn TimeProvider>,
    ) -> Result<Self, CertificateError> {
        let current = Arc::new(Current(RwLock::new(identity(certificate_pem, key_pem)?)));
        let provider = provider();
        let builder = rustls::ServerConfig::builder_with_details(Arc::clone(&provider), clock)
            .with_protocol_versions(&[&TLS13])
            .expect("the provider has suites of TLS 1.3");
        let builder = match clients {
            ClientCertificates::Asked => builder.with_client_cert_verifier(Arc::new(Possession(provider))),
            ClientCertificates::NotAsked => builder.with_no_client_auth(),
        };
        let mut config = builder.with_cert_resolver(Arc::clone(&current) as Arc<dyn ResolvesServerCert>);
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        // A resumed session would be one whose client was looked at some other time.
        config.send_tls13_tickets = 0;
        config.session_storage = Arc::new(NoServerSessionStorage {});
        Ok(Self { config: Arc::new(config), identity: current })
    }

    /// Replaces certificate and key for connections from now on; those that are open go on.
    ///
    /// # Errors
    /// As [`new`](Self::new); the old ones stay in use.
    pub fn reload(&self, certificate_pem: &[u8], key_pem: &[u8]) -> Result<Facts, CertificateError> {
        let identity = identity(certificate_pem, key_pem)?;
        let facts = Facts::of(identity.end_entity_cert().map_err(|_| CertificateError::Certificate)?)?;
        *self.identity.0.write().unwrap_or_else(PoisonError::into_inner) = identity;
        Ok(facts)
    }

    /// What counts of the certificate in use: when it expires is for metrics and alerts.
    ///
    /// # Errors
    /// `Certificate` never: it was read when it was set.
    pub fn facts(&self) -> Result<Facts, CertificateError> {
        let identity = Arc::clone(&self.identity.0.read().unwrap_or_else(PoisonError::into_inner));
        Facts::of(identity.end_entity_cert().map_err(|_| CertificateError::Certificate)?)
    }

    pub(super) fn config(&self) -> Arc<rustls::ServerConfig> {
        Arc::clone(&self.config)
    }
}

#[derive(Debug)]
struct Current(RwLock<Arc<CertifiedKey>>);

impl ResolvesServerCert for Current {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner)))
    }
}

/// Takes every readable certificate whose key its owner has.
#[derive(Debug)]
struct Possession(Arc<CryptoProvider>);

impl ClientCertVerifier for Possession {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        Facts::of(end_entity).map_err(|_| Refused::BadEncoding)?;
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(rustls::PeerIncompatible::Tls12NotOffered.into())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
