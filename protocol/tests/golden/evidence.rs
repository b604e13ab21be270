//! Evidence of every kind, each of a real lie in the rounds of the other vectors, and one of an honest sum.

use super::generate::{hex, object};
use panetiere::bulletin::{
    CanonicalSet, GroupSum, LaneBulletinEntry, PostHead, RsClientBulletinEntry, SignedPost, delivery_root,
};
use panetiere::cs::Commitment;
use panetiere::evidence::Evidence;
use panetiere::fault::Attribution;
use panetiere::ids::{AggregatorId, ClientId, NodeId, ServerId};
use panetiere::protocol::{LaneRound, RsClientRound, SumPart};
use panetiere::share_commitment::ShareCommitment;
use panetiere::sig::VerifyingKey;
use panetiere::testing::{ClientLie, Net, ServerLie};
use panetiere::wire::Encode;
use serde_json::{Value, json};
use std::sync::Arc;

const CLIENT: ClientId = ClientId(1);
const SERVER: ServerId = ServerId(1);

type Case = (&'static str, Evidence, Attribution, &'static str);

/// The file's value.
pub fn file(direct: &Net, aggregated: &Net, coded: &Net) -> Value {
    let cases = [servers_and_clients(direct), aggregators(aggregated), lanes(coded)].concat();
    let case = |(name, evidence, convicts, code): Case| {
        let convicts = match convicts {
            Attribution::Aggregator(id) => json!({ "aggregator": id.0 }),
            Attribution::Client(id) => json!({ "client": id.0 }),
            Attribution::Lane(id) => json!({ "lane": id.0 }),
            Attribution::Server(id) => json!({ "server": id.0 }),
            _ => Value::Null,
        };
        json!({
            "name": name,
            "hex": hex(&evidence.to_bytes()),
            "kind": evidence.kind().name(),
            "convicts": convicts,
            "code": code,
        })
    };
    object("Evidence", cases.into_iter().map(case).collect())
}

fn key(net: &Net) -> VerifyingKey {
    net.party(CLIENT).signing_key.verifying_key()
}

fn servers_and_clients(net: &Net) -> Vec<Case> {
    let (params, epoch, set) = (&net.params, &net.epoch, net.all());
    let mut round = net.posted(0);
    let heads: Vec<PostHead> = net.ids().map(|client| round.client(client).post.head).collect();
    let roots = || -> Vec<&Commitment> { heads.iter().map(|head| &head.commitment).collect() };
    let honest = round.close(SERVER, &set).expect("a server that answers");
    let lie = round.lying_sum(SERVER, &set, &ServerLie::Altered { part: 0 });
    let second = round.lying_client(CLIENT, &ClientLie::SecondStatement);
    let range = round.lying_client(CLIENT, &ClientLie::CiphertextOutOfRange);
    let posts = [&heads[1].signed, &second.post.head.signed];
    let (server, client) = (Attribution::Server(SERVER), Attribution::Client(CLIENT));
    let opening = |sum| Evidence::bad_opening(params, epoch, sum, &set, roots());
    let body = &range.post.ciphertext;
    let ciphertext = Evidence::bad_ciphertext(params, epoch, &key(net), &range.post.head.signed, body);
    let two = Evidence::double_server_sum(params, epoch, [&honest, &lie]);
    let double_post = Evidence::double_post(params, epoch, &key(net), posts);
    vec![
        ("an altered opening of server 1", opening(&lie), server, "sum_invalid_opening"),
        ("an honest sum", opening(&honest), Attribution::Nobody, "evidence_holds"),
        ("two sums of server 1", two, server, "sum_double"),
        ("two posts of client 1", double_post, client, "post_double"),
        ("a ciphertext out of range", ciphertext, client, "post_ciphertext"),
    ]
}

fn aggregators(net: &Net) -> Vec<Case> {
    let (params, epoch, round) = (&net.params, &net.epoch, net.posted(0));
    let honest = round.group(AggregatorId(1), [0, 1]);
    let mut ciphertext = honest.ciphertext().to_vec();
    ciphertext[0] ^= 1;
    let key = net.aggregators[1].signing_key();
    let root = honest.root().clone();
    let lie = GroupSum::sign(honest.claim().clone(), root, ciphertext.clone(), params, key);
    let root = round.client(CLIENT).post.head.commitment;
    let false_root = GroupSum::sign(honest.claim().clone(), root, ciphertext, params, key);
    let party = Attribution::Aggregator(AggregatorId(1));
    let bad = |sum, part| {
        Evidence::bad_group(params, epoch, sum, part, &mut net.posted(0).posts()).expect("posts at hand")
    };
    let two = Evidence::double_group_sum(params, epoch, [&honest, &lie]);
    vec![
        ("a false ciphertext of aggregator 1", bad(&lie, SumPart::Ciphertext), party, "group_wrong_sum"),
        ("a false root of aggregator 1", bad(&false_root, SumPart::Root), party, "group_wrong_sum"),
        ("two sums of aggregator 1", two, party, "group_double"),
    ]
}

/// Client 1 with other bodies, and another commitment if there is one, all of it signed.
fn signed_again(
    net: &Net,
    sent: &RsClientRound,
    bodies: Vec<Vec<u8>>,
    other: Option<ShareCommitment>,
) -> RsClientRound {
    let sealed = sent.envelopes.iter().map(|envelope| (envelope.key, envelope.sealed.clone()));
    let (root, envelopes, items) = delivery_root(CLIENT, sealed, bodies);
    let mut statement = sent.post.signed.claim().clone();
    statement.envelopes = root;
    let share_commitment = other.unwrap_or_else(|| sent.post.share_commitment.clone());
    statement.roots[1] = share_commitment.digest(net.params.lattice());
    let signed = SignedPost::sign(statement, &net.party(CLIENT).signing_key);
    let post = RsClientBulletinEntry { signed, share_commitment, ..sent.post.clone() };
    RsClientRound { client_id: CLIENT, post, envelopes, items }
}

fn lanes(net: &Net) -> Vec<Case> {
    let (params, epoch, round) = (&net.params, &net.epoch, net.open(0));
    let code = params.lane_code().expect("parameters with lanes");
    let sent: Vec<RsClientRound> = net.ids().map(|client| round.rs_client(client)).collect();
    let mut lane = LaneRound::new(Arc::clone(params), round.session, Arc::clone(&net.lanes[2]));
    for sent in &sent {
        let key = net.party(sent.client_id).signing_key.verifying_key();
        let post = sent.post.signed.check(params, &round.session, &key).expect("an honest statement");
        lane.receive(&post, &sent.items[2]).expect("an honest item");
    }
    // A check, so that the lane of the other vectors has not answered.
    let honest = lane.check_sum(&net.all()).expect("every item is here");
    let mut opening = honest.opening().clone();
    opening.edit(|mut polys| {
        let first = &mut polys[0].coefficients_mut()[0];
        *first -= if *first > 0 { 1 } else { -1 };
    });
    let lie = LaneBulletinEntry::sign(*honest.claim(), opening, code, net.lanes[2].signing_key());
    let roots = sent.iter().map(|sent| &sent.post.share_commitment);
    let set: CanonicalSet = net.all();

    let mut bodies: Vec<Vec<u8>> = sent[1].items.iter().map(|item| item.body.clone()).collect();
    bodies[2][0] ^= 1;
    let bad_share = signed_again(net, &sent[1], bodies, None);

    let unpack = |body: &[u8]| code.rs().unpack_share(&body[..code.rs().share_len()]).expect("a share");
    let mut shares: Vec<_> = sent[1].items.iter().map(|item| unpack(&item.body)).collect();
    shares[2] = unpack(&sent[0].items[2].body);
    let (commitment, paths) = code.commitment().commit(&shares);
    let bodies = shares.iter().zip(&paths).map(|(share, path)| {
        let mut body = Vec::new();
        code.rs().pack(share, &mut body);
        path.encode(code.commitment(), &mut body);
        body
    });
    let none = signed_again(net, &sent[1], bodies.collect(), Some(commitment));

    let (party, client) = (Attribution::Lane(NodeId(2)), Attribution::Client(CLIENT));
    let key = key(net);
    let share = Evidence::bad_share(params, epoch, &key, &bad_share.post.signed, &bad_share.items[2]);
    let codeword = Evidence::not_a_codeword(params, epoch, &key, &none.post.signed, &none.items);
    vec![
        (
            "an altered sum of lane 2",
            Evidence::bad_lane(params, epoch, &lie, &set, roots),
            party,
            "lane_sum_opening",
        ),
        (
            "two sums of lane 2",
            Evidence::double_lane_sum(params, epoch, [&honest, &lie]),
            party,
            "lane_sum_double",
        ),
        ("a bad share of client 1", share, client, "item_bad_share"),
        ("shares of client 1 that are no codeword", codeword, client, "rebuild_not_a_codeword"),
    ]
}
