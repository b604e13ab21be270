//! The client of a daemon: HTTP/1.1 over TLS 1.3, the server known by its key, every request idempotent.
//!
//! A request is tried until it is answered, the answer says that trying again is of no use, or the deadline has come. A
//! large body is sent only once the server says that it wants it (`Expect: 100-continue`), and sent again from its start.

mod body;
mod connection;
mod error;
mod exchange;
mod retry;

pub use body::Upload;
pub use error::ClientError;
pub use retry::RetryPolicy;

use crate::problem::Problem;
use crate::tls::{Expiry, PinnedServer, SpkiDigest, provider};
use connection::Pool;
use http::{HeaderMap, StatusCode};
use rustls::client::ResolvesClientCert;
use rustls::pki_types::ServerName;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::time_provider::{DefaultTimeProvider, TimeProvider};
use rustls::version::TLS13;
use std::sync::Arc;
use std::time::Duration;

/// How a client finds and knows its server, and how long it waits.
#[derive(Clone, Debug)]
pub struct ClientConfig {
    /// Host name or address.
    pub host: String,
    /// Port.
    pub port: u16,
    /// Keys that the server may have: that in use, and the next.
    pub pins: Vec<SpkiDigest>,
    /// Whether the server's certificate must be valid now.
    pub expiry: Expiry,
    /// The clock that tells.
    pub clock: Arc<dyn TimeProvider>,
    /// Who we are, where the server asks.
    pub identity: Option<Arc<CertifiedKey>>,
    /// How long a connection and its handshake may take.
    pub connect_timeout: Duration,
    /// How long the server may be silent while we wait for it.
    pub silence_timeout: Duration,
    /// How long we wait to be told to send a large body before we send it anyway.
    pub expect_timeout: Duration,
    /// When to try again.
    pub retry: RetryPolicy,
}

impl ClientConfig {
    /// A client without a certificate, with the default times: 10 s to connect, 60 s of silence (a reader waits for the next
    /// checkpoint up to 30 s), 2 s to be told to send.
    pub fn new(host: impl Into<String>, port: u16, pins: Vec<SpkiDigest>) -> Self {
        Self {
            host: host.into(),
            port,
            pins,
            expiry: Expiry::Checked,
            clock: Arc::new(DefaultTimeProvider),
            identity: None,
            connect_timeout: Duration::from_secs(10),
            silence_timeout: Duration::from_secs(60),
            expect_timeout: Duration::from_secs(2),
            retry: RetryPolicy::default(),
        }
    }
}

/// An answer.
#[derive(Debug)]
pub struct Answer {
    /// Status: 2xx.
    pub status: StatusCode,
    /// Headers.
    pub headers: HeaderMap,
    /// The whole body.
    pub body: Vec<u8>,
}

/// A refusal, as the server put it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Status.
    pub status: StatusCode,
    /// The problem document; `None` if the body is none.
    pub problem: Option<Problem>,
    /// Seconds after which the server said to try again.
    pub retry_after: Option<u64>,
    /// The body as it came, as far as a problem document may be long: some servers have another to say.
    pub body: Vec<u8>,
}

/// Whether a body that breaks off is fetched on from where it broke.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resume {
    /// From its start: what the name stands for may have changed.
    Never,
    /// By `Range`: what the name stands for never changes.
    Range,
}

/// A client of one server. Cheap to clone; clones share connections.
#[derive(Clone)]
pub struct Client {
    pool: Arc<Pool>,
    retry: RetryPolicy,
}

impl Client {
    /// A client; connects when first used.
    ///
    /// # Errors
    /// `Host` for a host that is neither a name nor an address.
    pub fn new(config: ClientConfig) -> Result<Self, ClientError> {
        let provider = provider();
        let name = ServerName::try_from(config.host.clone())
            .map_err(|_| ClientError::Host { host: config.host.clone() })?;
        let verifier = PinnedServer::new(config.pins, config.expiry, Arc::clone(&provider));
        let builder = rustls::ClientConfig::builder_with_details(provider, config.clock)
            .with_protocol_versions(&[&TLS13])
            .expect("the provider has suites of TLS 1.3")
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier));
        let mut tls = match config.identity {
            Some(identity) => {
                let resolver: Arc<dyn ResolvesClientCert> = Arc::new(SingleCertAndKey::from(identity));
                builder.with_client_cert_resolver(resolver)
            }
            None => builder.with_no_client_auth(),
        };
        // A resumed session would skip the server's certificate.
        tls.resumption = rustls::client::Resumption::disabled();
        tls.alpn_protocols = vec![b"http/1.1".to_vec()];
        let pool = Pool {
            authority: connection::authority(&config.host, config.port),
            host: config.host,
            port: config.port,
            name,
            tls: Arc::new(tls),
            connect_timeout: config.connect_timeout,
            silence_timeout: config.silence_timeout,
            expect_timeout: config.expect_timeout,
            idle: std::sync::Mutex::default(),
        };
        Ok(Self { pool: Arc::new(pool), retry: config.retry })
    }
}
