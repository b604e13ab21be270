//! Who is who: pins, client certificates, their end, and how they are replaced while connections are open.

#![allow(clippy::unwrap_used, reason = "a test's own functions")]

mod net_support;

use http::StatusCode;
use net_support::{NOW, PATIENCE, Scene, TestClock, certificate, quick};
use panetiere::ids::ServerId;
use panetiere_api::client::{Client, ClientConfig, ClientError, Resume, Upload};
use panetiere_api::media::MediaType;
use panetiere_api::tls::{Expiry, SpkiDigest, Validity, provider};
use panetiere_host::net::certificates::{Issued, KeyKind, self_signed};
use panetiere_host::net::quota::{Quotas, Rate};
use panetiere_host::net::{Access, Principal, Principals, Role};
use rustls::NamedGroup;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

fn principal(name: &str, issued: &Issued, not_after: Option<u64>) -> Principal {
    Principal { name: name.parse().unwrap(), key: issued.spki, role: Role::Server(ServerId(0)), not_after }
}

fn operator_plane(known: Vec<Principal>, revoked: Vec<SpkiDigest>) -> (Scene, Arc<Principals>) {
    let principals = Arc::new(Principals::new(known, revoked).unwrap());
    (Scene::start(quick(), Access::Principals(Arc::clone(&principals)), None), principals)
}

async fn who(client: &Client) -> Result<String, (u16, String)> {
    match client.get("/who", 100, Resume::Never).await {
        Ok(answer) => Ok(String::from_utf8(answer.body).unwrap()),
        Err(error) => {
            let refusal = error.refusal().unwrap_or_else(|| panic!("{error:?}"));
            Err((refusal.status.as_u16(), refusal.problem.as_ref().unwrap().code().to_owned()))
        }
    }
}

fn unauthorized(code: &str) -> Result<String, (u16, String)> {
    Err((401, code.to_owned()))
}

#[tokio::test]
async fn the_table_decides_who_is_heard() {
    let (known, ed, unknown, revoked) = (
        certificate(KeyKind::P256),
        certificate(KeyKind::Ed25519),
        certificate(KeyKind::P256),
        certificate(KeyKind::P256),
    );
    let expired = self_signed(&["a"], KeyKind::P256, Validity { not_before: 0, not_after: NOW - 1 }).unwrap();
    let entries = vec![
        principal("server-1", &known, None),
        principal("server-2", &ed, Some(NOW + 10)),
        principal("server-3", &revoked, None),
        principal("server-4", &expired, None),
    ];
    let (scene, _) = operator_plane(entries, vec![revoked.spki]);
    assert_eq!(who(&scene.client_as(&known)).await, Ok("server-1".to_owned()));
    let second = scene.client_as(&ed);
    assert_eq!(who(&second).await, Ok("server-2".to_owned()));
    assert_eq!(who(&scene.client()).await, unauthorized("certificate_missing"));
    assert_eq!(who(&scene.client_as(&unknown)).await, unauthorized("certificate_unknown"));
    assert_eq!(who(&scene.client_as(&revoked)).await, unauthorized("certificate_revoked"));
    assert_eq!(who(&scene.client_as(&expired)).await, unauthorized("certificate_expired"));
    assert_eq!(scene.handled(), 2);
    // Time passes on a connection that is open: the entry ends, then the certificate.
    scene.clock.0.store(NOW + 11, Ordering::Relaxed);
    assert_eq!(who(&second).await, unauthorized("certificate_expired"));
    // Whoever is nobody learns nothing of what there is, and uploads nothing.
    let error = scene.client().get("/nothing", 100, Resume::Never).await.unwrap_err();
    assert_eq!(error.refusal().unwrap().status, StatusCode::UNAUTHORIZED);
    let body = Upload::Bytes(vec![0; net_support::BIG].into());
    let error = scene.client_as(&unknown).put("/big", MediaType::Bytes, body).await.unwrap_err();
    assert_eq!(error.refusal().unwrap().status, StatusCode::UNAUTHORIZED);
    assert_eq!(scene.budget.high_water(), 0);
}

#[tokio::test]
async fn a_certificate_without_its_key_is_nobody() {
    let (known, other) = (certificate(KeyKind::P256), certificate(KeyKind::P256));
    let (scene, _) = operator_plane(vec![principal("server-1", &known, None)], Vec::new());
    let stolen = panetiere_api::tls::identity(known.certificate_pem.as_bytes(), other.key_pem.as_bytes());
    assert!(stolen.is_err());
    // A client that does not care: the certificate of one, the signature of another.
    let good =
        panetiere_api::tls::identity(known.certificate_pem.as_bytes(), known.key_pem.as_bytes()).unwrap();
    let bad =
        panetiere_api::tls::identity(other.certificate_pem.as_bytes(), other.key_pem.as_bytes()).unwrap();
    let forged = rustls::sign::CertifiedKey::new(good.cert.clone(), Arc::clone(&bad.key));
    let mut config = ClientConfig { identity: Some(Arc::new(forged)), ..scene.config() };
    config.retry.tries = 1;
    let error = Client::new(config).unwrap().get("/who", 100, Resume::Never).await.unwrap_err();
    assert!(error.refusal().is_none(), "{error:?}");
    assert_eq!(scene.handled(), 0);
}

#[tokio::test]
async fn who_is_taken_out_of_the_table_loses_its_connections() {
    let (first, second) = (certificate(KeyKind::P256), certificate(KeyKind::Ed25519));
    let both = || vec![principal("server-1", &first, None), principal("server-2", &second, None)];
    let (scene, principals) = operator_plane(both(), Vec::new());
    let (one, two) = (scene.client_as(&first), scene.client_as(&second));
    assert_eq!(who(&two).await, Ok("server-2".to_owned()));
    assert_eq!(who(&one).await, Ok("server-1".to_owned()));
    assert_eq!(scene.server.connections(), 2);
    // A request of each is under way when the table changes.
    let gate = |client: Client| tokio::spawn(async move { client.get("/gate", 100, Resume::Never).await });
    let (cut, stays) = (gate(one.clone()), gate(two.clone()));
    while scene.handled() < 4 {
        tokio::task::yield_now().await;
    }
    principals.replace(vec![principal("server-2", &second, None)], vec![first.spki]).unwrap();
    let error = timeout(PATIENCE, cut).await.expect("dropped while it waits").unwrap().unwrap_err();
    assert!(matches!(error, ClientError::Http(_)), "{error:?}");
    scene.stage.gate.add_permits(1);
    assert_eq!(timeout(PATIENCE, stays).await.unwrap().unwrap().unwrap().body, b"0");
    assert_eq!(who(&one).await, unauthorized("certificate_revoked"));
    assert_eq!(who(&two).await, Ok("server-2".to_owned()));
    // And back, without a restart.
    principals.replace(both(), Vec::new()).unwrap();
    assert_eq!(who(&one).await, Ok("server-1".to_owned()));
}

#[tokio::test]
async fn the_servers_certificate_is_replaced_under_open_connections() {
    let scene = Scene::public(quick());
    let (old, next) = (scene.client(), certificate(KeyKind::Ed25519));
    assert_eq!(old.get("/hello", 100, Resume::Never).await.unwrap().body, b"hello");
    // A key that is not the certificate's changes nothing.
    let other = certificate(KeyKind::P256);
    assert!(scene.tls.reload(next.certificate_pem.as_bytes(), other.key_pem.as_bytes()).is_err());
    let upload = tokio::spawn({
        let client = scene.client();
        async move { client.get("/gate", 100, Resume::Never).await }
    });
    while scene.handled() < 2 {
        tokio::task::yield_now().await;
    }
    let facts = scene.tls.reload(next.certificate_pem.as_bytes(), next.key_pem.as_bytes()).unwrap();
    assert_eq!((facts.spki, scene.tls.facts().unwrap()), (next.spki, facts));
    // What was open goes on: one kept, one in the middle of a request.
    assert_eq!(old.get("/hello", 100, Resume::Never).await.unwrap().body, b"hello");
    scene.stage.gate.add_permits(1);
    upload.await.unwrap().unwrap();
    // New connections see the new key: known to a client with both pins, unknown to one with the old.
    let both = ClientConfig { pins: vec![scene.pin, next.spki], ..scene.config() };
    Client::new(both).unwrap().get("/hello", 100, Resume::Never).await.unwrap();
    let error = scene.client().get("/hello", 100, Resume::Never).await.unwrap_err();
    assert!(matches!(error, ClientError::Certificate(_)), "{error:?}");
}

#[tokio::test]
async fn a_client_knows_its_server_by_pin_and_time() {
    let scene = Scene::public(quick());
    let ask =
        async |config: ClientConfig| Client::new(config).unwrap().get("/hello", 100, Resume::Never).await;
    for pins in [vec![SpkiDigest([7; 32])], Vec::new()] {
        let error = ask(ClientConfig { pins, ..scene.config() }).await.unwrap_err();
        assert!(matches!(error, ClientError::Certificate(_)), "{error:?}");
    }
    let two_years = 63_072_000;
    for time in [NOW + two_years, NOW - two_years] {
        let clock = Arc::new(TestClock(AtomicU64::new(time)));
        let config = ClientConfig { clock, ..scene.config() };
        let error = ask(config.clone()).await.unwrap_err();
        assert!(matches!(error, ClientError::Certificate(_)), "{error:?}");
        assert!(ask(ClientConfig { expiry: Expiry::Ignored, ..config }).await.is_ok());
    }
    assert_eq!(scene.handled(), 2);
}

#[tokio::test]
async fn the_handshake_is_post_quantum_and_tls_1_3() {
    let scene = Scene::public(quick());
    let stream = scene.raw().await;
    let (_, tls) = stream.get_ref();
    assert_eq!(tls.protocol_version(), Some(rustls::ProtocolVersion::TLSv1_3));
    assert_eq!(tls.negotiated_key_exchange_group().unwrap().name(), NamedGroup::X25519MLKEM768);
    let first = provider().kx_groups[0].name();
    assert_eq!(first, NamedGroup::X25519MLKEM768);
    // A client hello of TLS 1.2 (RFC 5246 7.4.1.2), one ECDHE suite and its group, without supported_versions.
    let mut hello = vec![3, 3];
    hello.extend([7; 32]);
    hello.extend([0, 0, 2, 0xc0, 0x2b, 1, 0]);
    let extensions = [
        &[0, 10, 0, 4, 0, 2, 0, 29][..], // supported_groups: x25519
        &[0, 11, 0, 2, 1, 0],            // ec_point_formats: uncompressed
        &[0, 13, 0, 4, 0, 2, 4, 3],      // signature_algorithms: ecdsa_secp256r1_sha256
    ]
    .concat();
    hello.extend(u16::try_from(extensions.len()).unwrap().to_be_bytes());
    hello.extend(extensions);
    let len = u16::try_from(hello.len()).unwrap();
    let mut record = vec![22, 3, 1];
    record.extend((len + 4).to_be_bytes());
    record.extend([1, 0]);
    record.extend(len.to_be_bytes());
    record.extend(hello);
    let mut tcp = TcpStream::connect(scene.server.address()).await.unwrap();
    tcp.write_all(&record).await.unwrap();
    let mut alert = Vec::new();
    timeout(PATIENCE, tcp.read_to_end(&mut alert)).await.unwrap().unwrap();
    // Alert, version, length 2, fatal, protocol_version.
    assert_eq!((alert[0], &alert[3..]), (21, &[0, 2, 2, 70][..]), "{alert:?}");
}

#[tokio::test]
async fn over_its_rate_a_party_waits_and_then_goes_on() {
    let (one, two) = (certificate(KeyKind::P256), certificate(KeyKind::P256));
    let known = vec![principal("server-1", &one, None), principal("server-2", &two, None)];
    let principals = Arc::new(Principals::new(known, Vec::new()).unwrap());
    let rate = |per_s, burst| Rate { per_s, burst };
    let quotas = Quotas::new(rate(2, 2), rate(1 << 20, 1500), 8);
    let scene = Scene::start(quick(), Access::Principals(principals), Some(quotas));
    let (first, second) = (scene.client_as(&one), scene.client_as(&two));
    assert!(who(&first).await.is_ok() && who(&first).await.is_ok());
    let error = first.get("/who", 100, Resume::Never).await.unwrap_err();
    let refusal = error.refusal().unwrap();
    assert_eq!((refusal.status, refusal.retry_after), (StatusCode::TOO_MANY_REQUESTS, Some(1)));
    assert_eq!(refusal.problem.as_ref().unwrap().code(), "quota");
    assert!(who(&second).await.is_ok(), "another party pays for the first");
    tokio::time::sleep(Duration::from_millis(600)).await;
    assert!(who(&first).await.is_ok());
    // Bytes: never more at once than the burst, and no byte is read.
    tokio::time::sleep(Duration::from_millis(600)).await;
    let body = Upload::Bytes(vec![0; net_support::BIG].into());
    let error = second.put("/big", MediaType::Bytes, body).await.unwrap_err();
    assert_eq!(error.refusal().unwrap().status, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(scene.budget.high_water(), 0);
}
