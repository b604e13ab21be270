//! Too many connections, too many bodies, and going down while there is work.

#![allow(clippy::unwrap_used, reason = "a test's own functions")]

mod net_support;

use http::StatusCode;
use net_support::{BIG, EXACT, PATIENCE, Scene, quick};
use panetiere_api::client::{Client, ClientConfig, Resume, RetryPolicy, Upload};
use panetiere_api::media::MediaType;
use panetiere_host::net::admin::{Admin, AdminState, Build, Heartbeat, Readiness};
use panetiere_host::net::metrics::Registry;
use panetiere_host::net::{Drained, NetLimits};
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::timeout;

/// A client whose requests are tried once.
fn once(scene: &Scene) -> Client {
    Client::new(ClientConfig { retry: RetryPolicy { tries: 1, ..scene.config().retry }, ..scene.config() })
        .unwrap()
}

/// 2,000 attempts, or as many as the nightly job asks for.
fn attempts() -> usize {
    std::env::var("PANETIERE_NET_ATTEMPTS").map_or(2000, |text| text.parse().expect("a number"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn beyond_the_limit_the_oldest_idle_go_and_uploads_go_on() {
    let limits = NetLimits {
        connections: 16,
        idle: Duration::from_secs(60),
        handshake: Duration::from_secs(60),
        floor_grace: Duration::from_secs(60),
        ..quick()
    };
    let scene = Scene::public(limits);
    // An upload that is under way from the first attempt to the last.
    let mut upload = scene.raw().await;
    let head = format!(
        "PUT /big HTTP/1.1\r\nhost: a\r\ncontent-type: application/octet-stream\r\ncontent-length: {BIG}\r\n\r\n"
    );
    upload.write_all(head.as_bytes()).await.unwrap();
    let body: Vec<u8> = (0..BIG).map(|i| u8::try_from(i % 239).unwrap()).collect();
    let total = attempts();
    let step = BIG / 16;
    let mut crowd = Vec::new();
    for attempt in 0..total {
        if attempt % (total / 15).max(1) == 0 && attempt / (total / 15).max(1) < 15 {
            let part = attempt / (total / 15).max(1);
            upload.write_all(&body[part * step..(part + 1) * step]).await.unwrap();
        }
        // Half of them say nothing, half begin a handshake; 500 are held open by the other side.
        if let Ok(mut stream) = TcpStream::connect(scene.server.address()).await {
            if attempt % 2 == 0 {
                let _ = stream.write_all(&[22, 3, 1, 2, 0, 1]).await;
            }
            crowd.push(stream);
        }
        if crowd.len() == 500 {
            crowd.drain(..250);
        }
    }
    // In the middle of the crowd, somebody new gets through too.
    let hello = scene.client().get("/hello", 100, Resume::Never).await.unwrap();
    assert_eq!(hello.body, b"hello");
    upload.write_all(&body[15 * step..]).await.unwrap();
    let reply = timeout(PATIENCE, async {
        let mut bytes = vec![0; 4096];
        let mut len = 0;
        let digest = net_support::hex(blake3::hash(&body).as_bytes());
        while !String::from_utf8_lossy(&bytes[..len]).contains(&digest) {
            let read = tokio::io::AsyncReadExt::read(&mut upload, &mut bytes[len..]).await.unwrap();
            assert!(read > 0, "the upload was cut");
            len += read;
        }
        bytes.truncate(len);
        bytes
    })
    .await
    .expect("the upload is answered");
    assert!(reply.starts_with(b"HTTP/1.1 200 OK\r\n"));
    assert_eq!(scene.server.connections_high_water(), 16);
    assert!(scene.budget.high_water() <= 2 * (16 << 10), "{}", scene.budget.high_water());
}

#[tokio::test]
async fn when_all_are_busy_new_connections_are_refused() {
    let scene = Scene::public(NetLimits { connections: 2, ..quick() });
    let gate = || {
        tokio::spawn({
            let client = once(&scene);
            async move { client.get("/gate", 100, Resume::Never).await }
        })
    };
    let busy = [gate(), gate()];
    while scene.handled() < 2 {
        tokio::task::yield_now().await;
    }
    let error = once(&scene).get("/hello", 100, Resume::Never).await.unwrap_err();
    assert!(error.refusal().is_none(), "{error:?}");
    scene.stage.gate.add_permits(2);
    for busy in busy {
        assert_eq!(busy.await.unwrap().unwrap().body, b"0");
    }
    once(&scene).get("/hello", 100, Resume::Never).await.unwrap();
}

#[tokio::test]
async fn bodies_in_memory_are_bounded_whatever_clients_do() {
    let limits = NetLimits { inflight_bytes: 128 << 10, uploads: 16, shed_wait: PATIENCE, ..quick() };
    let scene = Scene::public(limits);
    let uploads: Vec<_> = (0..12)
        .map(|_| {
            let client = scene.client();
            tokio::spawn(async move {
                client.put("/big", MediaType::Bytes, Upload::Bytes(vec![5; BIG].into())).await
            })
        })
        .collect();
    for upload in uploads {
        assert_eq!(upload.await.unwrap().unwrap().status, StatusCode::OK);
    }
    let high = scene.budget.high_water();
    assert!((16 << 10..=128 << 10).contains(&high), "{high}");
    assert_eq!(scene.budget.held(), 0);
}

#[tokio::test]
async fn beyond_the_places_for_uploads_requests_are_shed_and_told_when_to_come_back() {
    let limits =
        NetLimits { uploads: 1, upload_queue: 0, retry_after_s: 7, floor_grace: PATIENCE, ..quick() };
    let scene = Scene::public(limits);
    let put = |client: Client, path: &'static str| async move {
        client.put(path, MediaType::Post, Upload::Bytes(vec![1; EXACT].into())).await
    };
    let first = tokio::spawn(put(once(&scene), "/gate"));
    while scene.handled() < 1 {
        tokio::task::yield_now().await;
    }
    let error = put(once(&scene), "/exact").await.unwrap_err();
    let refusal = error.refusal().unwrap();
    assert_eq!((refusal.status, refusal.retry_after), (StatusCode::SERVICE_UNAVAILABLE, Some(7)));
    assert_eq!(refusal.problem.as_ref().unwrap().code(), "shed");
    // Reads need no place.
    once(&scene).get("/hello", 100, Resume::Never).await.unwrap();
    scene.stage.gate.add_permits(1);
    first.await.unwrap().unwrap();
    put(once(&scene), "/exact").await.unwrap();
}

#[tokio::test]
async fn a_drain_lets_uploads_finish_and_nobody_in() {
    let scene = Scene::public(quick());
    let client = scene.client();
    client.get("/hello", 100, Resume::Never).await.unwrap();
    let upload = tokio::spawn({
        let client = scene.client();
        async move { client.put("/gate", MediaType::Post, Upload::Bytes(vec![1; EXACT].into())).await }
    });
    while scene.handled() < 2 {
        tokio::task::yield_now().await;
    }
    let (fresh, stage) = (once(&scene), Arc::clone(&scene.stage));
    let draining = tokio::spawn(scene.server.drain());
    // New connections and kept ones are refused, while the upload waits.
    timeout(PATIENCE, async {
        while fresh.get("/hello", 100, Resume::Never).await.is_ok() {
            tokio::task::yield_now().await;
        }
    })
    .await
    .expect("nobody is let in");
    assert!(!upload.is_finished() && !draining.is_finished());
    stage.gate.add_permits(1);
    assert_eq!(upload.await.unwrap().unwrap().body, EXACT.to_string().as_bytes());
    assert_eq!(draining.await.unwrap(), Drained { cut: 0 });
}

#[tokio::test]
async fn a_drain_does_not_wait_for_ever() {
    let scene = Scene::public(NetLimits { drain: Duration::from_millis(100), ..quick() });
    let stuck = tokio::spawn({
        let client = once(&scene);
        async move { client.get("/gate", 100, Resume::Never).await }
    });
    while scene.handled() < 1 {
        tokio::task::yield_now().await;
    }
    assert_eq!(timeout(PATIENCE, scene.server.drain()).await.unwrap(), Drained { cut: 1 });
    assert!(stuck.await.unwrap().is_err());
}

/// A request in plain HTTP, from outside of any runtime.
fn plain(address: SocketAddr, path: &str) -> (u16, String) {
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

#[test]
fn the_admin_plane_answers_when_the_event_loop_does_not() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let registry = Arc::new(Registry::default());
    registry.install().unwrap();
    let readiness = Arc::new(Readiness::default());
    let store_ok = Arc::new(AtomicBool::new(true));
    readiness.check("store", {
        let store_ok = Arc::clone(&store_ok);
        move || if store_ok.load(Ordering::Relaxed) { Ok(None) } else { Err("read-only".to_owned()) }
    });
    let state = AdminState {
        heartbeat: Heartbeat::start(runtime.handle(), Duration::from_millis(400)),
        readiness: Arc::clone(&readiness),
        registry,
        build: Build { version: "1.2.3", git: "abc", rustc: "x", simd: "scalar", params_digest: None },
    };
    assert!(Admin::start(([0, 0, 0, 0], 0).into(), state_like(&readiness, &runtime)).is_err());
    let admin = Admin::start(([127, 0, 0, 1], 0).into(), state).unwrap();
    let turning = |time| runtime.block_on(async { tokio::time::sleep(Duration::from_millis(time)).await });
    turning(20);
    assert_eq!(plain(admin.address(), "/livez").0, 200);
    let (status, report) = plain(admin.address(), "/readyz");
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    assert_eq!(
        (status, report[1]["name"].as_str(), report[1]["ok"].as_bool()),
        (200, Some("store"), Some(true))
    );
    store_ok.store(false, Ordering::Relaxed);
    let (status, report) = plain(admin.address(), "/readyz");
    assert!(status == 503 && report.contains("read-only"), "{report}");
    store_ok.store(true, Ordering::Relaxed);
    readiness.drain();
    assert_eq!(plain(admin.address(), "/readyz").0, 503);
    let (status, build) = plain(admin.address(), "/build");
    assert!(status == 200 && build.contains("\"version\":\"1.2.3\""), "{build}");
    let (status, metrics) = plain(admin.address(), "/metrics");
    assert_eq!(status, 200);
    assert!(metrics.contains("panetiere_http_requests_total{plane=\"admin\",status=\"503\"} 2"), "{metrics}");
    assert_eq!(plain(admin.address(), "/metrics?x=1").0, 400);
    assert_eq!(plain(admin.address(), "/").0, 404);
    // The event loop stands still: nobody runs it.
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(plain(admin.address(), "/livez").0, 503);
    turning(20);
    assert_eq!(plain(admin.address(), "/livez").0, 200);
}

fn state_like(readiness: &Arc<Readiness>, runtime: &tokio::runtime::Runtime) -> AdminState {
    AdminState {
        heartbeat: Heartbeat::start(runtime.handle(), Duration::from_secs(5)),
        readiness: Arc::clone(readiness),
        registry: Arc::default(),
        build: Build { version: "", git: "", rustc: "", simd: "", params_digest: None },
    }
}
