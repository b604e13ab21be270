//! Rounds through the real daemons.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod net;

use net::{PATIENCE, net, start};
use panetiere::ids::ServerId;
use panetiere::protocol::LaneShape;
use panetiere_api::round::Record;
use panetiere_host::config::{Deployment, RecipientConfig};
use panetiere_host::local::Route;
use panetiere_host::state::{State, WitnessState};
use panetiere_host::store::disk::LocalDisk;
use std::fs;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_of_a_direct_round_come_out_once() {
    let mut net = net(3, 2, Route::Direct, 4, 0);
    net.admit().await;
    let (round, sent) = net.post().await;
    assert_eq!(net.messages(round).await, sent);

    // The same to whoever listens.
    let config = RecipientConfig::read(&net.path("recipient/recipient.toml")).unwrap();
    let mut stream = TcpStream::connect(config.messages.unwrap()).await.unwrap();
    let before = round.0 - 1;
    let request = format!(
        "GET /v1/messages?after={before}&ms=1000 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    timeout(PATIENCE, stream.read_to_string(&mut answer)).await.unwrap().unwrap();
    let json: serde_json::Value = serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap();
    let expected: Vec<String> = sent.iter().map(|message| data_encoding::BASE64.encode(message)).collect();
    assert_eq!(json, serde_json::json!({ "round": round.0, "messages": expected }));

    // A recipient that starts again writes nothing twice, and goes on.
    let recipient = net.take("recipient");
    let (role, path) = recipient.stop().await;
    let order = net.path("recipient/data/messages/order");
    let before = fs::read_to_string(&order).unwrap();
    net.running.push(start(role, &path));
    let (next, sent) = net.post().await;
    assert_eq!(net.messages(next).await, sent);
    assert_eq!(fs::read_to_string(&order).unwrap(), format!("{before}{next}\n"));
    let bodies = net.path("recipient/data/bodies");
    let left = timeout(PATIENCE, async {
        while fs::read_dir(&bodies)
            .unwrap()
            .any(|entry| entry.unwrap().file_name().to_str() == Some(&next.to_string()))
        {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    });
    left.await.expect("what was kept of the round is deleted");
    net.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_was_down_at_the_close_releases_when_it_is_back() {
    // Without it there is no quorum, and not enough sums.
    let mut net = net(3, 3, Route::Direct, 3, 0);
    net.admit().await;
    let (round, sent) = net.post().await;
    net.until("its word", |record| record.round(round)?.checked().contains_key(&ServerId(2)).then_some(()))
        .await;
    let (role, path) = net.take("server-2").stop().await;
    net.until("the close", |record| record.round(round)?.closed().map(drop)).await;
    net.running.push(start(role, &path));
    assert_eq!(net.messages(round).await, sent);
    net.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_does_not_talk_to_another_bulletin() {
    let mut net = net(3, 2, Route::Direct, 2, 0);
    net.admit().await;
    let (role, path) = net.take("server-1").stop().await;
    let file = net.path("deployment.toml");
    let mut deployment = Deployment::read(&file).unwrap();
    deployment.bulletin.pins = vec!["ab".repeat(32)];
    fs::write(&file, deployment.to_text()).unwrap();
    let server = start(role, &path);
    let error = timeout(PATIENCE, server.outcome()).await.unwrap().unwrap_err();
    let text = format!("{error:#}");
    assert!(text.contains("none of those that the deployment's description pins"), "{text}");
    net.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lanes_rebuild_what_they_were_not_given() {
    let lanes = LaneShape { needed: 2, lanes: 3 };
    let mut net = net(3, 2, Route::Lanes(lanes), 3, 0);
    net.silent = Some(1);
    net.admit().await;
    // Without a recipient the round is not over before all lanes have summed.
    let (role, path) = net.take("recipient").stop().await;
    let (round, sent) = net.post().await;
    let summed = |record: &Record| (record.round(round)?.lane_sums().len() == 3).then_some(());
    net.until("the sum of the lane that was given nothing", summed).await;
    net.running.push(start(role, &path));
    assert_eq!(net.messages(round).await, sent);
    net.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn aggregators_sum_their_groups_and_a_witness_cosigns() {
    let mut net = net(3, 2, Route::Aggregated(2), 4, 1);
    net.admit().await;
    let (round, sent) = net.post().await;
    assert_eq!(net.messages(round).await, sent);
    // One that was down when the posts came sums what it had taken before.
    let (round, sent) = net.post().await;
    let (role, path) = net.take("aggregator-1").stop().await;
    net.until("the close", |record| record.round(round)?.closed().map(drop)).await;
    net.running.push(start(role, &path));
    assert_eq!(net.messages(round).await, sent);
    let witness = net.path("witness-0/data");
    net.stop().await;
    let state = State::open(&LocalDisk::new(witness)).unwrap();
    let origin = "panetiere.test".parse().unwrap();
    let head = WitnessState::new(state).head(&origin).unwrap();
    assert!(head.is_some_and(|head| head.size > 0), "it has cosigned");
}
