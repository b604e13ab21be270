//! Parties that lie in what they sign: named, with evidence that convicts by itself.

use crate::scene::*;
use panetiere::bulletin::{GroupSum, LaneBulletinEntry, LanePurpose};
use panetiere::evidence::Evidence;
use panetiere::fault::Attribution;
use panetiere::ids::{AggregatorId, ClientId, NodeId, ServerId, SetDigest};
use panetiere::wire::Encode as _;
use panetiere_api::leaf::{Leaf, RoundClose};
use panetiere_api::testing::{ORIGIN, posts_end};
use panetiere_host::role::codeword::expulsion;
use panetiere_host::round::audit::{Audit, Outcome};
use panetiere_host::store::disk::LocalDisk;
use panetiere_host::store::{BlobStore as _, Options, Store};
use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;

/// The evidence in an audit convicts whom the audit names.
#[track_caller]
fn assert_convicted(audit: &Audit, party: Attribution, code: &str) {
    assert_named(audit, party, code);
    let line = audit.lines.iter().find(|line| line.party == party).unwrap();
    let evidence = line.evidence.as_ref().expect("evidence");
    let verdict = evidence.verify(chipmunk::ring::backend::under_test()).unwrap();
    assert_eq!(verdict.convicted(), party);
}

#[test]
fn a_lying_server_is_convicted_and_the_round_recovered() {
    for mode in [Mode::Direct, Mode::Aggregated, Mode::Erasure] {
        let mut stage = stage(21, mode);
        let (session, sent) = stage.closed();
        stage.summed(&session, &sent, &[2]);
        let wrong = stage.wrong_sum(&session, 2, &sent, ClientId(1));
        stage.add_server_sum(&wrong);
        let messages = messages(&sent);
        let result = stage.result(&session, &messages);
        stage.counts(&result, None);
        let copy = Copy::new(stage, Some(&messages));
        let audit = copy.audit(&copy.mirror(), FIRST);
        assert_convicted(&audit, Attribution::Server(ServerId(2)), "sum_invalid_opening");
        assert!(holds(&audit, "result") && holds(&audit, "messages"), "{:#?}", audit.lines);
    }
}

#[test]
fn a_lying_lane_is_convicted() {
    let mut stage = stage(22, Mode::Erasure);
    let (session, sent) = stage.closed();
    let own = stage.lane_sum(&session, 1, &sent);
    let others = stage.lane_sum(&session, 0, &sent);
    let identity = stage.lane(1);
    let code = stage.scene.net.params.lane_code().unwrap();
    let wrong = LaneBulletinEntry::sign(*own.claim(), others.opening().clone(), code, identity.signing_key());
    assert_eq!(own.claim().purpose, LanePurpose::Close);
    stage.add_lane_sum(&wrong);
    for lane in [0, 2, 3] {
        let sum = stage.lane_sum(&session, lane, &sent);
        stage.add_lane_sum(&sum);
    }
    let set = stage.set(&session).clone();
    for server in 0..4 {
        let sum = stage.server_sum(&session, server, &set, &sent);
        stage.add_server_sum(&sum);
    }
    let copy = Copy::new(stage, None);
    assert_convicted(&copy.audit(&copy.mirror(), FIRST), Attribution::Lane(NodeId(1)), "lane_sum_opening");
}

#[test]
fn a_lying_aggregator_is_convicted() {
    let mut stage = stage(23, Mode::Aggregated);
    let (session, sent) = stage.closed();
    let clients = |range: std::ops::Range<u32>| range.map(ClientId);
    let honest = stage.group_sum(&session, 0, clients(0..3), &sent);
    let mut ciphertext = honest.ciphertext().to_vec();
    // A step of the message in one coefficient: nothing but adding again shows it.
    ciphertext[3] ^= 0x40;
    let (params, key) = (&stage.scene.net.params, stage.scene.net.aggregators[0].signing_key());
    let wrong = GroupSum::sign(honest.claim().clone(), honest.root().clone(), ciphertext, params, key);
    stage.add_group_sum(&wrong);
    let other = stage.group_sum(&session, 1, clients(3..5), &sent);
    stage.add_group_sum(&other);
    let set = stage.set(&session).clone();
    for server in 0..4 {
        let sum = stage.server_sum(&session, server, &set, &sent);
        stage.add_server_sum(&sum);
    }
    let copy = Copy::new(stage, None);
    let audit = copy.audit(&copy.mirror(), FIRST);
    let named = Attribution::Aggregator(AggregatorId(0));
    assert_eq!(audit.named(), [named], "{:#?}", audit.lines);
    let line = audit.lines.iter().find(|line| line.party == named).unwrap();
    let verdict = line.evidence.as_ref().expect("evidence").verify(chipmunk::ring::backend::under_test());
    assert_eq!(verdict.unwrap().convicted(), named);
}

#[test]
fn two_statements_of_one_party_convict_it() {
    // A server that answers twice: the second counts for nothing, and both convict it.
    let mut stage = stage(24, Mode::Direct);
    let (session, sent) = stage.closed();
    stage.summed(&session, &sent, &[]);
    let wrong = stage.wrong_sum(&session, 3, &sent, ClientId(0));
    stage.append(&Leaf::ServerSum(wrong.signed().clone()), None).unwrap_err();
    let copy = Copy::new(stage, None);
    let audit = copy.audit(&copy.mirror(), FIRST);
    assert_convicted(&audit, Attribution::Server(ServerId(3)), "leaf_second_differs");
    assert!(holds(&audit, "decoded"));

    // A client that posts twice.
    let mut stage = crate::scene::stage(25, Mode::Direct);
    let (session, sent) = stage.posted();
    let again = stage.scene.send(&session, ClientId(4), 1);
    stage.append(&Leaf::Post(again.post.signed().clone()), None).unwrap_err();
    stage.close(&session);
    stage.summed(&session, &sent, &[]);
    let copy = Copy::new(stage, None);
    let audit = copy.audit(&copy.mirror(), FIRST);
    assert_convicted(&audit, Attribution::Client(ClientId(4)), "leaf_second_differs");
    assert!(holds(&audit, "decoded"));
}

#[test]
fn a_bulletin_that_closes_over_another_set_is_named() {
    let mut stage = stage(26, Mode::Direct);
    let (session, sent) = stage.posted();
    stage.counts(&posts_end(stage.session(&session)), None);
    for server in 0..4 {
        stage.counts(&stage.scene.checked(&session, server, BTreeMap::new()), None);
    }
    let right = stage.session(&session).closing(stage.record.epoch().unwrap()).unwrap();
    let set: SetDigest = "ab".repeat(32).parse().unwrap();
    stage.append(&Leaf::RoundClose(RoundClose { set, ..right }), None).unwrap_err();
    stage.counts(&Leaf::RoundClose(right), None);
    stage.summed(&session, &sent, &[]);
    let copy = Copy::new(stage, None);
    let audit = copy.audit(&copy.mirror(), FIRST);
    assert_named(&audit, Attribution::Operator, "leaf_bad_close");
    assert!(holds(&audit, "decoded"), "the right close counts all the same");
}

#[test]
fn a_wrong_result_is_found_and_no_party_of_the_protocol_is_named() {
    let mut stage = stage(27, Mode::Direct);
    let (session, sent) = stage.closed();
    stage.summed(&session, &sent, &[]);
    let mut messages = messages(&sent);
    messages[0][0] ^= 1;
    messages.sort();
    let result = stage.result(&session, &messages);
    stage.counts(&result, None);
    let copy = Copy::new(stage, Some(&messages));
    let audit = copy.audit(&copy.mirror(), FIRST);
    let expected = [(Outcome::Fault, "result_differs"), (Outcome::Fault, "messages_differ")];
    assert_eq!(odd(&audit), expected, "{:#?}", audit.lines);
    assert_eq!(audit.named(), [Attribution::Nobody; 0]);
    assert!(audit.lines.iter().any(|line| line.text.contains("signed by recipient 0")));
}

#[test]
fn an_expelled_client_is_convicted_by_the_log_even_when_its_round_is_deleted() {
    let mut stage = stage(28, Mode::Erasure);
    let session = stage.open();
    let mut sent: Vec<_> =
        stage.scene.net.ids().map(|client| stage.scene.send(&session, client, 0)).collect();
    let honest = sent.remove(2);
    let mut bodies: Vec<Vec<u8>> = honest.items.iter().map(|item| item.body.clone()).collect();
    bodies[1][0] ^= 1;
    sent.insert(2, stage.scene.with_bodies(honest, bodies));
    sent.iter().for_each(|sent| stage.post(sent));
    let (params, document) = (&stage.scene.net.params, &stage.scene.net.epoch);
    let key = stage.scene.net.party(ClientId(2)).signing_key.verifying_key();
    let evidence = Evidence::bad_share(params, document, &key, sent[2].post.signed(), &sent[2].items[1]);
    let leaf = expulsion(stage.session(&session), ClientId(2), &evidence);
    stage.blobs.keep(evidence.to_bytes());
    stage.counts(&Leaf::Expulsion(leaf), None);
    stage.close(&session);
    sent.remove(2);
    stage.summed(&session, &sent, &[]);
    let messages = messages(&sent);
    let result = stage.result(&session, &messages);
    stage.counts(&result, None);
    let temporary = tempfile::TempDir::new().unwrap();
    let (store, log) = stored(&stage, &temporary.path().join("data"), Some(&messages), 3);
    drop(log);
    let copy = Copy { temporary, stage };
    let convicted = Attribution::Client(ClientId(2));
    drop(store);
    copy.export();
    let audit = copy.audit(&copy.mirror(), FIRST);
    assert_convicted(&audit, convicted, "client_expelled");
    assert!(holds(&audit, "result") && holds(&audit, "messages"), "{:#?}", audit.lines);
    // The round is deleted, and with it everything but what folding the log needs.
    fs::remove_dir_all(copy.mirror()).unwrap();
    let options = Options::new(ORIGIN.parse().unwrap(), copy.stage.scene.log_key());
    let (store, log, _) = Store::open(Arc::new(LocalDisk::new(copy.data())), options, 1).unwrap();
    store.delete_round(1).unwrap();
    drop((store, log));
    copy.export();
    let audit = copy.audit(&copy.mirror(), FIRST);
    assert_convicted(&audit, convicted, "client_expelled");
    assert!(holds(&audit, "log_root") && !holds(&audit, "result"));
}
