//! Requests that are not as they should be, one by one: right status, right code, nothing read, nobody else disturbed.

#![allow(clippy::unwrap_used, reason = "a test's own functions")]

mod net_support;

use http::StatusCode;
use net_support::{BIG, BLOB, EXACT, PATIENCE, Scene, blob, hex, quick};
use panetiere::fault::Fault;
use panetiere_api::client::{Client, ClientConfig, ClientError, Resume, Upload};
use panetiere_api::media::MediaType;
use panetiere_host::net::NetLimits;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

const POST: &str = "application/vnd.panetiere.post.v1";

#[tokio::test]
async fn a_bad_head_is_refused_before_a_byte_of_the_body() {
    let scene = Scene::public(quick());
    let put = |path: &str, headers: &str| format!("PUT {path} HTTP/1.1\r\nhost: a\r\n{headers}\r\n");
    let typed = |headers: &str| format!("content-type: {POST}\r\n{headers}");
    let rows = [
        ("GET /nothing HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n".to_owned(), 404, "not_found"),
        (
            "DELETE /exact HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n".to_owned(),
            405,
            "method_not_allowed",
        ),
        ("GET /hello HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\n\r\n".to_owned(), 413, "body_too_large"),
        (put("/exact", "content-length: 1000\r\n"), 415, "unsupported_media_type"),
        (
            put("/exact", "content-type: text/plain\r\ncontent-length: 1000\r\n"),
            415,
            "unsupported_media_type",
        ),
        (
            put("/exact", &format!("content-type: {POST}; a=b\r\ncontent-length: 1000\r\n")),
            415,
            "unsupported_media_type",
        ),
        (put("/exact", &typed("connection: close\r\n")), 411, "length_required"),
        (put("/exact", &typed("transfer-encoding: chunked\r\n")), 411, "length_required"),
        (put("/exact", &typed("content-length: 999\r\n")), 400, "body_length"),
        (put("/exact", &typed("content-length: 0\r\nconnection: close\r\n")), 400, "body_length"),
        (put("/exact", &typed("content-length: 1001\r\n")), 413, "body_too_large"),
        (put("/exact", &typed("content-length: 18446744073709551613\r\n")), 413, "body_too_large"),
        (put("/small", "content-type: application/json\r\ncontent-length: 101\r\n"), 413, "body_too_large"),
        (
            put("/closed", &format!("content-type: application/octet-stream\r\ncontent-length: {BIG}\r\n")),
            410,
            "round_closed",
        ),
    ];
    for (request, status, code) in rows {
        let reply = scene.ask(&request).await;
        assert_eq!((reply.status, reply.code().as_str()), (status, code), "{request}");
        if status == 405 {
            assert!(reply.head.contains("allow: put"), "{reply:?}");
        }
        // The server asks for nothing and ends the connection: what follows would be taken for a request.
        assert!(
            reply.head.contains("connection: close") && !reply.head.contains("100 continue"),
            "{reply:?}"
        );
    }
    assert_eq!((scene.handled(), scene.budget.high_water()), (0, 0));
}

#[tokio::test]
async fn what_is_not_http_is_cut_off() {
    let scene = Scene::public(quick());
    let long = format!("GET /hello HTTP/1.1\r\nhost: a\r\nx: {}\r\n\r\n", "a".repeat(20 << 10));
    let many = format!("GET /hello HTTP/1.1\r\nhost: a\r\n{}\r\n", "x: y\r\n".repeat(65));
    let twice = format!(
        "PUT /exact HTTP/1.1\r\nhost: a\r\ncontent-type: {POST}\r\ncontent-length: 1000\r\ncontent-length: 5\r\n\r\n"
    );
    let beyond = twice.replace("1000\r\ncontent-length: 5", "18446744073709551615");
    for (request, status) in
        [(long, 431), (beyond, 431), (many, 431), (twice, 400), ("\0\0\0 HTTP\r\n\r\n".to_owned(), 400)]
    {
        assert_eq!(scene.ask(&request).await.status, status, "{request}");
    }
    assert_eq!(scene.handled(), 0);
}

#[tokio::test]
async fn a_refused_upload_is_not_sent_and_an_accepted_one_is_asked_for() {
    let scene = Scene::public(quick());
    let media = "content-type: application/octet-stream\r\nexpect: 100-continue";
    let mut stream = scene.raw().await;
    let head = format!("PUT /big HTTP/1.1\r\nhost: a\r\n{media}\r\ncontent-length: {BIG}\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut told = [0; 25];
    timeout(PATIENCE, stream.read_exact(&mut told)).await.unwrap().unwrap();
    assert_eq!(&told, b"HTTP/1.1 100 Continue\r\n\r\n");
    drop(stream);
    let head = format!("PUT /closed HTTP/1.1\r\nhost: a\r\n{media}\r\ncontent-length: {BIG}\r\n\r\n");
    let reply = scene.ask(&head).await;
    assert_eq!((reply.status, reply.code().as_str()), (410, "round_closed"));
    // The client waits to be told, and takes the refusal for its answer.
    let error = scene
        .client()
        .put("/closed", MediaType::Bytes, Upload::Bytes(vec![0; BIG].into()))
        .await
        .unwrap_err();
    let refusal = error.refusal().unwrap();
    assert_eq!(
        (refusal.status, refusal.problem.as_ref().unwrap().code()),
        (StatusCode::GONE, "round_closed")
    );
    assert_eq!(scene.budget.high_water(), 16 << 10, "one chunk of the accepted one, none of the refused");
}

#[tokio::test]
async fn a_refusal_reaches_a_client_that_is_still_sending() {
    let scene = Scene::public(quick());
    let mut stream = scene.raw().await;
    let head =
        format!("PUT /exact HTTP/1.1\r\nhost: a\r\ncontent-type: {POST}\r\ncontent-length: 2000000\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    // Two million bytes that nobody wants, sent before the answer is looked at.
    let _ = stream.write_all(&vec![0; 2_000_000]).await;
    let reply = net_support::Reply::read(&mut stream).await;
    assert_eq!((reply.status, reply.code().as_str()), (413, "body_too_large"));
}

#[tokio::test]
async fn bodies_arrive_whole_from_memory_and_from_a_file() {
    let scene = Scene::public(quick());
    let client = scene.client();
    let body: Vec<u8> = (0..BIG).map(|i| u8::try_from(i % 253).unwrap()).collect();
    let digest = hex(blake3::hash(&body).as_bytes());
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("body");
    std::fs::write(&path, &body).unwrap();
    let file = Upload::File { path: path.clone(), len: BIG.try_into().unwrap() };
    for upload in [Upload::Bytes(body.clone().into()), file] {
        let answer = client.put("/big", MediaType::Bytes, upload).await.unwrap();
        assert_eq!(
            (answer.status, String::from_utf8(answer.body).unwrap()),
            (StatusCode::OK, digest.clone())
        );
    }
    let small =
        client.put("/exact", MediaType::Post, Upload::Bytes(body[..EXACT].to_vec().into())).await.unwrap();
    assert_eq!(String::from_utf8(small.body).unwrap(), hex(blake3::hash(&body[..EXACT]).as_bytes()));
    assert_eq!(scene.server.connections_high_water(), 1, "the connection was kept");
    assert_eq!(scene.budget.held(), 0);
    // A file that is shorter than announced ends the request, and nothing is taken for whole.
    std::fs::write(&path, &body[..BIG / 2]).unwrap();
    let file = Upload::File { path, len: BIG.try_into().unwrap() };
    assert!(client.put("/big", MediaType::Bytes, file).await.is_err());
}

#[tokio::test]
async fn a_slow_body_is_cut_off_and_others_go_on() {
    let scene = Scene::public(quick());
    let mut slow = scene.raw().await;
    let head =
        format!("PUT /exact HTTP/1.1\r\nhost: a\r\ncontent-type: {POST}\r\ncontent-length: 1000\r\n\r\nabc");
    slow.write_all(head.as_bytes()).await.unwrap();
    let started = Instant::now();
    let client = scene.client();
    let (reply, ()) = tokio::join!(net_support::Reply::read(&mut slow), async {
        for _ in 0..5 {
            let body = Upload::Bytes(vec![1; EXACT].into());
            client.put("/exact", MediaType::Post, body).await.unwrap();
        }
    });
    assert_eq!((reply.status, reply.code().as_str()), (408, "body_slow"));
    assert!(started.elapsed() >= quick().floor_grace, "cut off before its grace");
    assert_eq!((scene.handled(), scene.budget.held()), (6, 0));
}

#[tokio::test]
async fn a_body_that_ends_early_is_no_body() {
    let scene = Scene::public(quick());
    let mut stream = scene.raw().await;
    let head =
        format!("PUT /exact HTTP/1.1\r\nhost: a\r\ncontent-type: {POST}\r\ncontent-length: 1000\r\n\r\nabc");
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.shutdown().await.unwrap();
    let reply = net_support::Reply::read(&mut stream).await;
    assert_ne!(reply.status, 200);
    assert_eq!(scene.budget.held(), 0);
}

#[tokio::test]
async fn half_open_connections_are_reaped() {
    let scene = Scene::public(NetLimits { idle: Duration::from_millis(300), ..quick() });
    // No TLS at all; TLS and no request; half a head; a head that trickles.
    let mut silent = TcpStream::connect(scene.server.address()).await.unwrap();
    let mut idle = scene.raw().await;
    let mut half = scene.raw().await;
    let _ = half.write_all(b"GET /hello HTTP/1.1\r\nho").await;
    let trickle = scene.raw().await;
    let (mut trickle_read, mut trickle_write) = tokio::io::split(trickle);
    let trickling = tokio::spawn(async move {
        while trickle_write.write_all(b"a").await.is_ok() && trickle_write.flush().await.is_ok() {
            tokio::time::sleep(Duration::from_millis(40)).await;
        }
    });
    let mut rest = Vec::new();
    timeout(PATIENCE, silent.read_to_end(&mut rest)).await.expect("closed").unwrap();
    let _ = timeout(PATIENCE, idle.read_to_end(&mut rest)).await.expect("closed");
    let _ = timeout(PATIENCE, half.read_to_end(&mut rest)).await.expect("closed");
    let _ = timeout(PATIENCE, trickle_read.read_to_end(&mut rest)).await.expect("closed");
    trickling.abort();
    assert!(!String::from_utf8_lossy(&rest).contains("200 OK"));
    timeout(PATIENCE, async {
        while scene.server.connections() > 0 {
            tokio::task::yield_now().await;
        }
    })
    .await
    .expect("no connection is left");
    assert_eq!(scene.handled(), 0);
}

#[tokio::test]
async fn a_reader_that_does_not_read_is_cut_off() {
    let limits = NetLimits { idle: Duration::from_secs(10), ..quick() };
    let scene = Scene::public(limits);
    let mut stream = scene.raw().await;
    // More answers than the sockets between us hold, and nobody reads.
    for _ in 0..64 {
        if stream.write_all(b"GET /blob HTTP/1.1\r\nhost: a\r\n\r\n").await.is_err() {
            break;
        }
    }
    timeout(PATIENCE, async {
        while scene.server.connections() > 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await
    .expect("the connection is cut");
    assert!(scene.handled() < 64);
}

#[tokio::test]
async fn a_handler_that_panics_ends_one_request() {
    let scene = Scene::public(quick());
    let error = scene.client().get("/panic", 100, Resume::Never).await.unwrap_err();
    let refusal = error.refusal().unwrap();
    assert_eq!(refusal.status, StatusCode::INTERNAL_SERVER_ERROR);
    assert_eq!(refusal.problem.as_ref().unwrap().code(), "internal");
    assert_eq!(scene.client().get("/hello", 100, Resume::Never).await.unwrap().body, b"hello");
}

#[tokio::test]
async fn a_client_tries_again_what_may_be_tried_again_and_gives_up_clearly() {
    let scene = Scene::public(quick());
    let client = scene.client();
    let put = || client.put("/busy", MediaType::Post, Upload::Bytes(vec![3; EXACT].into()));
    scene.stage.busy.store(3, Ordering::SeqCst);
    assert_eq!(put().await.unwrap().body, hex(blake3::hash(&[3; EXACT]).as_bytes()).as_bytes());
    assert_eq!(scene.handled(), 4);
    scene.stage.busy.store(4, Ordering::SeqCst);
    let error = put().await.unwrap_err();
    assert!(matches!(error, ClientError::GaveUp { tries: 4, .. }), "{error:?}");
    assert_eq!(
        (error.code(), error.refusal().unwrap().status),
        ("client_gave_up", StatusCode::SERVICE_UNAVAILABLE)
    );
    // What is not idempotent is tried once, and so is what was refused for good.
    scene.stage.busy.store(0, Ordering::SeqCst);
    let before = scene.handled();
    let error = client.get("/nothing", 100, Resume::Never).await.unwrap_err();
    assert!(matches!(&error, ClientError::Refused(refusal) if refusal.status == StatusCode::NOT_FOUND));
    let error =
        client.post("/busy", MediaType::Post, Upload::Bytes(vec![3; EXACT].into())).await.unwrap_err();
    assert!(
        matches!(&error, ClientError::Refused(refusal) if refusal.status == StatusCode::METHOD_NOT_ALLOWED)
    );
    assert_eq!(scene.handled(), before);
}

#[tokio::test]
async fn nobody_there_is_told_and_the_deadline_holds() {
    let scene = Scene::public(quick());
    let mut config = scene.config();
    // A port on which nobody listens: of a listener that is gone.
    config.port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let error = Client::new(config.clone()).unwrap().get("/hello", 100, Resume::Never).await.unwrap_err();
    let ClientError::GaveUp { tries: 4, last: Some(last), .. } = &error else { panic!("{error:?}") };
    assert!(matches!(**last, ClientError::Connect(_)));
    // One that accepts and says nothing.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    config.port = silent.local_addr().unwrap().port();
    config.retry.deadline = Duration::from_millis(200);
    let started = Instant::now();
    let error = Client::new(config).unwrap().get("/hello", 100, Resume::Never).await.unwrap_err();
    assert!(matches!(error, ClientError::GaveUp { last: None, .. }), "{error:?}");
    assert!(started.elapsed() < Duration::from_secs(5));
}

#[tokio::test]
async fn a_download_that_breaks_off_goes_on_where_it_broke() {
    let scene = Scene::public(quick());
    let client = scene.client();
    let cap = u64::try_from(BLOB).unwrap();
    scene.stage.break_offs.store(2, Ordering::SeqCst);
    let answer = client.get("/blob", cap, Resume::Range).await.unwrap();
    // The third request is for what the first two left over.
    assert_eq!((answer.status, scene.handled()), (StatusCode::PARTIAL_CONTENT, 3));
    assert!(answer.body == blob());
    scene.stage.break_offs.store(1, Ordering::SeqCst);
    let answer = client.get("/blob", cap, Resume::Never).await.unwrap();
    assert!(answer.status == StatusCode::OK && answer.body == blob());
    let error = client.get("/blob", cap - 1, Resume::Never).await.unwrap_err();
    assert!(matches!(error, ClientError::AnswerTooLong { len: Some(len), .. } if len == cap), "{error:?}");
}

#[tokio::test]
async fn a_connection_that_the_server_closed_is_not_an_error() {
    let scene = Scene::public(NetLimits { idle: Duration::from_millis(300), ..quick() });
    let mut config: ClientConfig = scene.config();
    config.retry.tries = 2;
    let client = Client::new(config).unwrap();
    client.get("/hello", 100, Resume::Never).await.unwrap();
    while scene.server.connections() > 0 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    client.get("/hello", 100, Resume::Never).await.unwrap();
}
