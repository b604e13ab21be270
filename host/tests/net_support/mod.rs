//! A plane on loopback that serves a few resources, and ways to talk to it: our client, and bytes over TLS.

#![allow(dead_code, reason = "each test file uses its part")]
#![allow(clippy::unwrap_used, reason = "a test's own functions")]

use bytes::Bytes;
use http::{Method, StatusCode};
use http_body::{Body, Frame};
use panetiere_api::client::{Client, ClientConfig, RetryPolicy};
use panetiere_api::media::MediaType;
use panetiere_api::problem::{Code, Problem};
use panetiere_api::tls::{Expiry, PinnedServer, SpkiDigest, Validity, identity, provider};
use panetiere_host::net::budget::ByteBudget;
use panetiere_host::net::certificates::{Issued, KeyKind, self_signed};
use panetiere_host::net::quota::Quotas;
use panetiere_host::net::serve::bind;
use panetiere_host::net::tls::ClientCertificates;
use panetiere_host::net::{
    Access, Answer, BodyRule, Call, Handler, NetLimits, Plane, Principal, Resource, Rule, Server, ServerTls,
};
use rustls::pki_types::{ServerName, UnixTime};
use rustls::time_provider::TimeProvider;
use rustls::version::TLS13;
use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// The time that all clocks begin at, in seconds since 1970.
pub const NOW: u64 = 1_800_000_000;
/// Bytes of `/exact`.
pub const EXACT: usize = 1000;
/// Bytes of `/big`: beyond what sockets and buffers take in.
pub const BIG: usize = 16 << 20;
/// Bytes of `/blob`.
pub const BLOB: usize = 1 << 20;

/// Anything that takes this long hangs.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// A clock that is set.
#[derive(Debug)]
pub struct TestClock(pub AtomicU64);

impl TimeProvider for TestClock {
    fn current_time(&self) -> Option<UnixTime> {
        Some(UnixTime::since_unix_epoch(Duration::from_secs(self.0.load(Ordering::Relaxed))))
    }
}

/// A certificate that is valid for a year around [`NOW`].
pub fn certificate(kind: KeyKind) -> Issued {
    let year = 31_536_000;
    self_signed(&["panetiere.test"], kind, Validity { not_before: NOW - year, not_after: NOW + year })
        .unwrap()
}

/// The bytes of `/blob`.
pub fn blob() -> Vec<u8> {
    (0..BLOB).map(|i| u8::try_from(i % 251).unwrap()).collect()
}

/// What the handler lets tests see and do.
#[derive(Debug)]
pub struct Stage {
    /// Requests that reached the handler.
    pub handled: AtomicUsize,
    /// Permits for `/gate` to go on.
    pub gate: Semaphore,
    /// How often `/blob` still breaks off after 400,000 bytes.
    pub break_offs: AtomicUsize,
    /// How often `/busy` still answers 503.
    pub busy: AtomicUsize,
}

pub struct Echo(pub Arc<Stage>);

#[derive(Clone, Copy, Debug)]
pub enum Route {
    Big,
    Blob,
    Busy,
    Closed,
    Exact,
    Gate,
    Hello,
    Panic,
    Small,
    Who,
}

impl Handler for Echo {
    type Route = Route;

    fn resource(&self, path: &str, _query: Option<&str>) -> Result<Resource<Route>, Problem> {
        let exact = |media, len: usize| Rule::put(BodyRule::Exact { media, len: len.try_into().unwrap() });
        let (route, rules) = match path.split('/').skip(1).collect::<Vec<_>>().as_slice() {
            ["big"] => (Route::Big, vec![exact(MediaType::Bytes, BIG)]),
            ["blob"] => (Route::Blob, vec![Rule::GET]),
            ["busy"] => (Route::Busy, vec![Rule::GET, exact(MediaType::Post, EXACT)]),
            ["closed"] => (Route::Closed, vec![exact(MediaType::Bytes, BIG)]),
            ["exact"] => (Route::Exact, vec![exact(MediaType::Post, EXACT)]),
            ["gate"] => (Route::Gate, vec![Rule::GET, exact(MediaType::Post, EXACT)]),
            ["hello"] => (Route::Hello, vec![Rule::GET]),
            ["panic"] => (Route::Panic, vec![Rule::GET]),
            ["small"] => {
                (Route::Small, vec![Rule::put(BodyRule::AtMost { media: MediaType::Json, max: 100 })])
            }
            ["who"] => (Route::Who, vec![Rule::GET]),
            _ => return Err(Code::NotFound.into()),
        };
        Ok(Resource { route, rules })
    }

    fn admit(&self, route: &Route, _: &Method, _: Option<&Principal>) -> Result<(), Problem> {
        match route {
            Route::Closed => Err(Problem::new("round_closed", StatusCode::GONE, "The round is closed")),
            _ => Ok(()),
        }
    }

    async fn handle(&self, call: Call<Route>) -> Result<Answer, Problem> {
        self.0.handled.fetch_add(1, Ordering::SeqCst);
        let text = |text: String| Answer::bytes(StatusCode::OK, MediaType::Text, text);
        let mut body = call.body;
        Ok(match call.route {
            Route::Big => {
                body = body.hashed();
                while body.chunk().await?.is_some() {}
                text(hex(&body.digest().unwrap()))
            }
            Route::Blob => {
                let blob = Bytes::from(blob());
                let breaks =
                    self.0.break_offs.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1));
                let len = BLOB.try_into().unwrap();
                Answer::immutable(&call.headers, MediaType::Bytes, len, |range| {
                    Pieces::of(&blob, range, breaks.is_ok())
                })?
            }
            Route::Busy => {
                let busy = self.0.busy.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1));
                if busy.is_ok() {
                    return Err(Problem::from(Code::Shed).with_retry_after(0));
                }
                text(hex(blake3::hash(&body.collect().await?).as_bytes()))
            }
            Route::Closed => unreachable!("never admitted"),
            Route::Exact | Route::Small => text(hex(blake3::hash(&body.collect().await?).as_bytes())),
            Route::Gate => {
                self.0.gate.acquire().await.unwrap().forget();
                text(body.collect().await?.len().to_string())
            }
            Route::Hello => text("hello".to_owned()),
            Route::Panic => panic!("for the test"),
            Route::Who => text(call.principal.map_or("nobody".to_owned(), |who| who.name.to_string())),
        })
    }
}

/// A body in pieces, which may break off.
struct Pieces(VecDeque<io::Result<Bytes>>);

impl Pieces {
    fn of(blob: &Bytes, range: Range<u64>, breaks: bool) -> Self {
        let bytes = blob.slice(usize::try_from(range.start).unwrap()..usize::try_from(range.end).unwrap());
        let mut pieces: VecDeque<_> = bytes.chunks(100_000).map(|piece| Ok(bytes.slice_ref(piece))).collect();
        if breaks {
            pieces.truncate(4);
            pieces.push_back(Err(io::Error::other("for the test")));
        }
        Self(pieces)
    }
}

impl Body for Pieces {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        Poll::Ready(self.0.pop_front().map(|piece| piece.map(Frame::data)))
    }
}

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A plane that runs.
pub struct Scene {
    pub server: Server,
    pub tls: Arc<ServerTls>,
    pub pin: SpkiDigest,
    pub clock: Arc<TestClock>,
    pub stage: Arc<Stage>,
    pub budget: ByteBudget,
}

/// Limits that a test does not wait for.
pub fn quick() -> NetLimits {
    NetLimits {
        connections: 32,
        handshake: Duration::from_millis(1500),
        idle: Duration::from_millis(1500),
        floor_bytes_per_s: 64 << 10,
        floor_grace: Duration::from_secs(1),
        shed_wait: Duration::from_millis(100),
        linger: Duration::from_millis(300),
        drain: Duration::from_secs(10),
        inflight_bytes: 1 << 20,
        ..NetLimits::default()
    }
}

impl Scene {
    pub fn public(limits: NetLimits) -> Self {
        Self::start(limits, Access::Public, None)
    }

    pub fn start(limits: NetLimits, access: Access, quotas: Option<Quotas>) -> Self {
        let issued = certificate(KeyKind::P256);
        let clock = Arc::new(TestClock(AtomicU64::new(NOW)));
        let asked = match access {
            Access::Principals(_) => ClientCertificates::Asked,
            Access::Public => ClientCertificates::NotAsked,
        };
        let (cert, key) = (issued.certificate_pem.as_bytes(), issued.key_pem.as_bytes());
        let tls =
            Arc::new(ServerTls::new(cert, key, asked, Arc::clone(&clock) as Arc<dyn TimeProvider>).unwrap());
        let stage = Arc::new(Stage {
            handled: AtomicUsize::new(0),
            gate: Semaphore::new(0),
            break_offs: AtomicUsize::new(0),
            busy: AtomicUsize::new(0),
        });
        let budget = ByteBudget::new(limits.inflight_bytes);
        let plane = Plane {
            name: "test",
            handler: Echo(Arc::clone(&stage)),
            access,
            tls: Some(Arc::clone(&tls)),
            quotas: quotas.map(Arc::new),
            budget: budget.clone(),
            limits,
            clock: Arc::clone(&clock) as Arc<dyn TimeProvider>,
        };
        let server = Server::start(bind(([127, 0, 0, 1], 0).into()).unwrap(), plane).unwrap();
        Self { server, tls, pin: issued.spki, clock, stage, budget }
    }

    pub fn handled(&self) -> usize {
        self.stage.handled.load(Ordering::SeqCst)
    }

    /// A client's configuration: this server, this clock, a few quick tries.
    pub fn config(&self) -> ClientConfig {
        let retry = RetryPolicy {
            tries: 4,
            first_wait: Duration::from_millis(10),
            longest_wait: Duration::from_millis(100),
            deadline: PATIENCE,
        };
        let clock = Arc::clone(&self.clock) as Arc<dyn TimeProvider>;
        let port = self.server.address().port();
        ClientConfig { retry, clock, ..ClientConfig::new("127.0.0.1", port, vec![self.pin]) }
    }

    pub fn client(&self) -> Client {
        Client::new(self.config()).unwrap()
    }

    /// A client with a certificate, which is tried once.
    pub fn client_as(&self, issued: &Issued) -> Client {
        let who = identity(issued.certificate_pem.as_bytes(), issued.key_pem.as_bytes()).unwrap();
        let mut config = ClientConfig { identity: Some(who), ..self.config() };
        config.retry.tries = 1;
        Client::new(config).unwrap()
    }

    /// A TLS connection on which a test writes what it likes.
    pub async fn raw(&self) -> TlsStream<TcpStream> {
        let provider = provider();
        let verifier = PinnedServer::new(vec![self.pin], Expiry::Ignored, Arc::clone(&provider));
        let config = rustls::ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])
            .unwrap()
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier))
            .with_no_client_auth();
        let tcp = TcpStream::connect(self.server.address()).await.unwrap();
        let name = ServerName::try_from("127.0.0.1").unwrap();
        TlsConnector::from(Arc::new(config)).connect(name, tcp).await.unwrap()
    }

    /// Writes a request and reads until the server ends the connection.
    pub async fn ask(&self, request: &str) -> Reply {
        let mut stream = self.raw().await;
        // A server that has answered early may have closed its side.
        let _ = stream.write_all(request.as_bytes()).await;
        Reply::read(&mut stream).await
    }
}

/// An answer, taken apart by the test itself.
#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Reply {
    /// Reads to the end of the connection.
    pub async fn read(stream: &mut TlsStream<TcpStream>) -> Self {
        let mut bytes = Vec::new();
        // A connection that ends without close_notify is an error after the bytes.
        let _ =
            timeout(PATIENCE, stream.read_to_end(&mut bytes)).await.expect("the server ends the connection");
        let text = String::from_utf8_lossy(&bytes);
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
        Self { status, head: head.to_ascii_lowercase(), body: body.to_owned() }
    }

    /// The problem's code, as it stands in the document.
    pub fn code(&self) -> String {
        let json: serde_json::Value = serde_json::from_str(&self.body).unwrap_or_default();
        assert!(self.head.contains("content-type: application/problem+json"), "{self:?}");
        assert_eq!(json["status"].as_u64(), Some(u64::from(self.status)), "{self:?}");
        json["type"].as_str().unwrap_or_default().replace("urn:panetiere:problem:", "")
    }
}
