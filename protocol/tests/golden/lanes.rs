//! What lanes add to the vectors: both clients' posts and items of one round, and what two lanes answer.

use super::generate::{hex, object};
use panetiere::bulletin::{LaneBulletinEntry, LaneItem};
use panetiere::ids::NodeId;
use panetiere::protocol::{LaneRound, RsClientRound};
use panetiere::testing::Net;
use panetiere::wire::Encode;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Every file of these by its name.
pub fn files(net: &Net) -> BTreeMap<String, Value> {
    let round = net.open(0);
    let sent: Vec<RsClientRound> = net.ids().map(|client| round.rs_client(client)).collect();
    let sums = [0, 2].map(|lane| answer(net, &sent, NodeId(lane)));
    BTreeMap::from([
        ("crs_lanes.json".to_owned(), crs(net)),
        ("share_commitment.json".to_owned(), commitments(net, &sent)),
        ("rs_client_post.json".to_owned(), posts(net, &sent)),
        ("lane_item.json".to_owned(), items(&sent)),
        ("lane_sum.json".to_owned(), lane_sums(net, &sums)),
    ])
}

fn answer(net: &Net, sent: &[RsClientRound], lane: NodeId) -> LaneBulletinEntry {
    let at = usize::from(lane.0);
    let session = net.session(0);
    let mut round = LaneRound::new(Arc::clone(&net.params), session, Arc::clone(&net.lanes[at]));
    for sent in sent {
        let key = net.party(sent.client_id).signing_key.verifying_key();
        let post = sent.post.signed.check(&net.params, &session, &key).expect("an honest statement");
        round.receive(&post, &sent.items[at]).expect("an honest item");
    }
    round.close(&net.all()).expect("every item is here")
}

fn crs(net: &Net) -> Value {
    let shape = net.params.lanes().expect("parameters with lanes");
    json!({
        "set": net.params.set().name,
        "deployment": net.params.deployment().to_string(),
        "epoch": net.params.epoch().to_string(),
        "servers": net.params.servers(),
        "threshold": net.params.threshold(),
        "faulty": net.params.faulty(),
        "polys": net.params.kahe().polys(),
        "plaintext_modulus": net.params.kahe().plaintext_modulus(),
        "lanes_needed": shape.needed,
        "lanes": shape.lanes,
        "digest": net.params.crs_digest().to_string(),
    })
}

fn commitments(net: &Net, sent: &[RsClientRound]) -> Value {
    let lattice = net.params.lattice();
    let case = |sent: &RsClientRound| {
        json!({
            "name": format!("client {}", sent.client_id),
            "hex": hex(&sent.post.share_commitment.to_bytes(lattice)),
            "digest": sent.post.share_commitment.digest(lattice).to_string(),
        })
    };
    object("ShareCommitment", sent.iter().map(case).collect())
}

fn posts(net: &Net, sent: &[RsClientRound]) -> Value {
    let case = |sent: &RsClientRound| {
        let statement = sent.post.signed.claim();
        json!({
            "name": format!("client {}", sent.client_id),
            "hex": hex(&sent.post.to_bytes(&net.params)),
            "key": hex(&net.party(sent.client_id).signing_key.verifying_key().to_bytes()),
            "deployment": statement.deployment.to_string(),
            "epoch": statement.epoch.to_string(),
            "session": statement.session.to_string(),
            "client": statement.client.0,
            "crs": statement.crs.to_string(),
            "mode": statement.mode as u8,
            "roots": statement.roots.iter().map(ToString::to_string).collect::<Vec<_>>(),
            "ciphertext": statement.ciphertext.to_string(),
            "ciphertext_len": statement.ciphertext_len,
            "envelopes": statement.envelopes.to_string(),
        })
    };
    object("RsClientBulletinEntry", sent.iter().map(case).collect())
}

/// Client 0 to every lane, client 1 to lane 2.
fn items(sent: &[RsClientRound]) -> Value {
    let case = |item: &LaneItem| {
        json!({
            "name": format!("client {} to lane {}", item.client, item.lane),
            "hex": hex(&item.to_bytes()),
            "client": item.client.0,
            "lane": item.lane.0,
            "body_len": item.body.len(),
            "path": item.path.iter().map(|hash| hex(hash)).collect::<Vec<_>>(),
        })
    };
    object("LaneItem", sent[0].items.iter().chain(&sent[1].items[2..]).map(case).collect())
}

fn lane_sums(net: &Net, sums: &[LaneBulletinEntry]) -> Value {
    let code = net.params.lane_code().expect("parameters with lanes");
    let case = |sum: &LaneBulletinEntry| {
        let claim = sum.claim();
        json!({
            "name": format!("lane {}", claim.lane),
            "hex": hex(&sum.to_bytes(code)),
            "lane": claim.lane.0,
            "purpose": claim.purpose as u8,
            "set": claim.set.to_string(),
            "posts": claim.posts.to_string(),
            "clients": claim.clients,
        })
    };
    object("LaneBulletinEntry", sums.iter().map(case).collect())
}
