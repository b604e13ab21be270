//! The parties without their wires, on a log in memory.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use panetiere::bulletin::{CanonicalSet, LaneItem, LanePurpose};
use panetiere::fault::{Attribution, Fault};
use panetiere::ids::{AggregatorId, ClientId, NodeId, ServerId};
use panetiere::protocol::{AggregatorIdentity, LaneIdentity};
use panetiere::sig::SigningKey;
use panetiere_api::leaf::{Leaf, RoundId, messages_from_bytes};
use panetiere_api::participate::Post;
use panetiere_api::testing::{Scene, Sent, Stage, posts_end};
use panetiere_host::role::Order;
use panetiere_host::role::aggregator::Aggregator;
use panetiere_host::role::codeword::{Check, Step, expulsion, posts_of};
use panetiere_host::role::lane::{Lane, LaneError};
use panetiere_host::role::recipient::Recipient;
use panetiere_host::round::library::Item;
use panetiere_host::round::recover::{Bodies, Body};
use panetiere_host::state::{ReleaseGuard, State};
use panetiere_host::store::disk::memory::MemoryDisk;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

const FIRST: RoundId = RoundId::FIRST;

fn stage(seed: u64, shape: impl FnOnce(panetiere::testing::Builder) -> panetiere::testing::Builder) -> Stage {
    Stage::new(Scene::new(seed, 5, 40, |builder| shape(builder.servers(4).threshold(3).faulty(1))))
}

/// What a role has not read yet, under the newest checkpoint.
fn news(stage: &Stage, read: u64) -> (tlog::note::Note, Vec<Vec<u8>>) {
    let note = stage.log.checkpoint(&stage.scene.log_key());
    (note, stage.log.entries[usize::try_from(read).unwrap()..].to_vec())
}

/// The bodies of a stage, as the log names them.
struct Beside<'a>(&'a Stage);

impl Bodies for Beside<'_> {
    fn item(&self, round: RoundId, item: Item) -> io::Result<Option<Vec<u8>>> {
        let Item::Body(body) = item else { return Ok(None) };
        let id = *self.0.record.round(round).unwrap().id();
        let is = |leaf: &Leaf| match (leaf, body) {
            (Leaf::Post(post), Body::Post(client)) => post.claim().client == client,
            (Leaf::GroupSum(sum), Body::GroupSum(aggregator)) => sum.claim().aggregator == aggregator,
            (Leaf::LaneSum(sum), Body::LaneSum(lane)) => sum.claim().lane == lane,
            (Leaf::ServerSum(sum), Body::ServerSum(server)) => sum.claim().server == server,
            _ => false,
        };
        let entry = self.0.entries.iter().find(|entry| entry.leaf.session() == Some(id) && is(&entry.leaf));
        Ok(entry.and_then(|entry| entry.body.clone()))
    }
}

fn messages(sent: &[Sent]) -> Vec<Vec<u8>> {
    let mut messages: Vec<Vec<u8>> = sent.iter().map(|sent| sent.message.clone()).collect();
    messages.sort();
    messages
}

fn recipient(stage: &Stage) -> Recipient {
    let key = SigningKey::from_scalar(&stage.scene.recipient.expose_scalar()).unwrap();
    Recipient::new(Arc::new(key), stage.scene.record())
}

fn read(recipient: &mut Recipient, stage: &Stage) {
    let (note, entries) = news(stage, recipient.record().size());
    recipient.advance(&note, &entries, &stage.blobs).unwrap();
}

#[test]
fn a_recipient_names_a_wrong_sum_and_recovers_with_the_next() {
    let mut stage = stage(1, |shape| shape);
    let mut recipient = recipient(&stage);
    let (session, sent) = stage.closed();
    let set = stage.set(&session).clone();
    for server in [0, 1] {
        let sum = stage.server_sum(&session, server, &set, &sent);
        stage.add_server_sum(&sum);
        read(&mut recipient, &stage);
        assert_eq!(recipient.due(), [], "{} sums are not enough", server + 1);
    }
    let wrong = stage.wrong_sum(&session, 2, &sent, ClientId(3));
    stage.add_server_sum(&wrong);
    read(&mut recipient, &stage);
    assert_eq!(recipient.due(), [FIRST]);
    let attempt = recipient.recover(FIRST, &Beside(&stage)).unwrap();
    assert!(attempt.outcome.is_err());
    let liar = Attribution::Server(ServerId(2));
    let [Order::Accuse { party, evidence, .. }] = &attempt.orders[..] else { panic!("{:?}", attempt.orders) };
    assert_eq!(*party, liar);
    assert_eq!(evidence.verify(chipmunk::ring::backend::under_test()).unwrap().convicted(), liar);
    assert_eq!(recipient.due(), [], "the same sums would do no better");

    let sum = stage.server_sum(&session, 3, &set, &sent);
    stage.add_server_sum(&sum);
    read(&mut recipient, &stage);
    assert_eq!(recipient.due(), [FIRST]);
    let attempt = recipient.recover(FIRST, &Beside(&stage)).unwrap();
    assert_eq!(attempt.named.iter().map(|named| named.party).collect::<Vec<_>>(), [liar]);
    let Some(Order::Publish { leaf, body: Some(body), .. }) = attempt.orders.last() else {
        panic!("a result")
    };
    assert_eq!(messages_from_bytes(body).unwrap(), messages(&sent));
    assert_eq!(**leaf, stage.result(&session, &messages(&sent)), "what the test computes by itself");
    assert_eq!(recipient.due(), []);
    recipient.repeat(FIRST);
    assert_eq!(recipient.due(), [FIRST], "until it stands in the log");
    stage.counts(leaf, None);
    read(&mut recipient, &stage);
    assert_eq!(recipient.due(), []);
}

#[test]
fn a_recipient_tries_again_when_a_body_could_not_be_had() {
    struct Nothing;
    impl Bodies for Nothing {
        fn item(&self, _: RoundId, _: Item) -> io::Result<Option<Vec<u8>>> {
            Ok(None)
        }
    }
    for shape in [0, 1, 2] {
        let mut stage = stage(2, |builder| match shape {
            0 => builder,
            1 => builder.aggregators(2),
            _ => builder.lanes(2, 4),
        });
        let mut recipient = recipient(&stage);
        let (session, sent) = stage.closed();
        stage.summed(&session, &sent, &[]);
        read(&mut recipient, &stage);
        let attempt = recipient.recover(FIRST, &Nothing).unwrap();
        assert_eq!(attempt.outcome.unwrap_err().code(), "recover_missing_body");
        assert!(attempt.orders.is_empty());
        assert_eq!(recipient.due(), [FIRST]);
        let attempt = recipient.recover(FIRST, &Beside(&stage)).unwrap();
        assert_eq!(attempt.outcome.unwrap().messages(), messages(&sent));
    }
}

/// A lane on a disk of its own.
fn lane(stage: &Stage, disk: &MemoryDisk, id: u16) -> Lane {
    let guard = Arc::new(ReleaseGuard::new(State::open(disk).unwrap()));
    let mut lane = Lane::new(NodeId(id), stage.scene.record(), Arc::clone(&guard)).unwrap();
    let key = stage.scene.net.lanes[usize::from(id)].signing_key().expose_scalar();
    let key = SigningKey::from_scalar(&key).unwrap();
    let identity = LaneIdentity::new(NodeId(id), key, &stage.scene.net.epoch, guard).unwrap();
    lane.enrol(Arc::new(identity), stage.scene.net.epoch.digest());
    lane
}

fn feed(lane: &mut Lane, stage: &Stage) -> Vec<Order> {
    let (note, entries) = news(stage, lane.record().size());
    lane.advance(&note, &entries, &stage.blobs).unwrap()
}

fn item(sent: &[Sent], client: ClientId, lane: u16) -> &LaneItem {
    &sent.iter().find(|sent| sent.client() == client).unwrap().items[usize::from(lane)]
}

#[test]
fn a_lane_fetches_checks_and_sums_once() {
    let mut stage = stage(3, |shape| shape.lanes(2, 4));
    let disk = MemoryDisk::new();
    let mut lane = lane(&stage, &disk, 1);
    let session = stage.open();
    let sent: Vec<Sent> = stage.scene.net.ids().map(|client| stage.scene.send(&session, client, 0)).collect();
    sent.iter().for_each(|sent| stage.post(sent));
    let fetches: Vec<Order> =
        stage.scene.net.ids().map(|client| Order::Fetch { round: FIRST, client }).collect();
    assert_eq!(feed(&mut lane, &stage), fetches);
    for client in stage.scene.net.ids().take(4) {
        let (orders, fault) = lane.deliver(FIRST, item(&sent, client, 1));
        assert_eq!((orders, fault), (vec![], None));
    }
    // Another lane's bytes under this lane's name: nobody signed that, so it is to be fetched again.
    let misdelivered = LaneItem { lane: NodeId(1), ..item(&sent, ClientId(4), 0).clone() };
    let (orders, fault) = lane.deliver(FIRST, &misdelivered);
    assert_eq!((orders, fault.unwrap().attribution()), (vec![], Attribution::Nobody));
    assert_eq!(lane.wanted(), fetches[4..]);
    // Nobody has it: any two others do.
    let others = [item(&sent, ClientId(4), 0).clone(), item(&sent, ClientId(4), 3).clone()];
    let (orders, rebuilt) = lane.rebuild(FIRST, ClientId(4), &others);
    assert_eq!((orders, rebuilt), (vec![], Ok(())));
    assert_eq!(lane.wanted(), []);
    let check = lane.check_sum(FIRST, &CanonicalSet::new([ClientId(0), ClientId(2)]).unwrap()).unwrap();
    assert_eq!((check.claim().purpose, check.claim().clients), (LanePurpose::Check, 2));
    let alone = CanonicalSet::new([ClientId(0)]).unwrap();
    assert!(matches!(lane.check_sum(RoundId(2), &alone), Err(LaneError::UnknownRound { .. })));
    assert!(lane.sums().unwrap().is_empty(), "nothing is closed");

    stage.close(&session);
    feed(&mut lane, &stage);
    let Ok(Order::Publish { leaf, body: Some(body), .. }) = lane.sums().unwrap().remove(0).1 else {
        panic!("a sum")
    };
    let expected = stage.lane_sum(&session, 1, &sent);
    assert_eq!(*leaf, Leaf::LaneSum(expected.signed().clone()));
    assert_eq!(body, expected.to_bytes(stage.scene.net.params.lane_code().unwrap()));
    let Ok(again) = lane.sums().unwrap().remove(0).1 else { panic!("a sum") };
    assert!(
        matches!(again, Order::Publish { leaf: second, .. } if second == leaf),
        "the same until it stands in the log"
    );
    stage.counts(&leaf, Some(body));
    feed(&mut lane, &stage);
    assert!(lane.sums().unwrap().is_empty());
}

#[test]
fn a_lane_that_has_lost_its_memory_reads_what_it_has_said() {
    let mut stage = stage(4, |shape| shape.lanes(2, 4));
    let (session, sent) = stage.closed();
    let said = stage.lane_sum(&session, 2, &sent);
    stage.add_lane_sum(&said);
    // An empty disk: the log tells what was said, and the guard has it then.
    let disk = MemoryDisk::new();
    let mut first = lane(&stage, &disk, 2);
    feed(&mut first, &stage);
    let (_, sent) = stage.closed();
    feed(&mut first, &stage);
    for client in stage.scene.net.ids() {
        first.deliver(RoundId(2), item(&sent, client, 2));
    }
    assert!(matches!(first.sums().unwrap()[..], [(RoundId(2), Ok(_))]));
    drop(first);
    // The same disk, and a log in which round 1 went otherwise: this is not the log that the lane has read.
    let mut other = self::stage(4, |shape| shape.lanes(2, 4));
    let session = other.open();
    let sent: Vec<Sent> =
        other.scene.net.ids().take(3).map(|client| other.scene.send(&session, client, 1)).collect();
    sent.iter().for_each(|sent| other.post(sent));
    other.close(&session);
    while other.log.head().size <= stage.log.head().size {
        other.open();
    }
    let mut again = lane(&other, &disk, 2);
    let (note, entries) = news(&other, 0);
    let error = again.advance(&note, &entries, &other.blobs).unwrap_err();
    assert_eq!(error.code(), "lane_other_log");
}

#[test]
fn a_bad_share_and_no_codeword_put_their_clients_out() {
    let mut stage = stage(5, |shape| shape.lanes(2, 4));
    let session = stage.open();
    let mut sent: Vec<Sent> =
        stage.scene.net.ids().map(|client| stage.scene.send(&session, client, 0)).collect();
    let honest = sent.remove(1);
    sent.insert(1, stage.scene.non_codeword(honest, &sent[0], 3));
    let honest = sent.remove(3);
    let mut bodies: Vec<Vec<u8>> = honest.items.iter().map(|item| item.body.clone()).collect();
    bodies[2][0] ^= 1;
    sent.insert(3, stage.scene.with_bodies(honest, bodies));
    sent.iter().for_each(|sent| stage.post(sent));
    stage.counts(&posts_end(stage.session(&session)), None);
    let disks: Vec<MemoryDisk> = (0..4).map(|_| MemoryDisk::new()).collect();
    let mut lanes: Vec<Lane> = (0..4).map(|id| lane(&stage, &disks[usize::from(id)], id)).collect();
    let kernels = chipmunk::ring::backend::under_test();
    for (id, lane) in (0..).zip(&mut lanes) {
        feed(lane, &stage);
        for client in stage.scene.net.ids() {
            let (orders, _) = lane.deliver(FIRST, item(&sent, client, id));
            let convicted: Vec<_> = orders
                .iter()
                .map(|order| match order {
                    Order::Accuse { party, evidence, .. } => {
                        assert_eq!(evidence.verify(kernels).unwrap().convicted(), *party);
                        *party
                    }
                    other => panic!("{other:?}"),
                })
                .collect();
            let bad = (id, client) == (2, ClientId(3));
            assert_eq!(convicted, if bad { vec![Attribution::Client(client)] } else { vec![] });
            if let Some(Order::Accuse { evidence, .. }) = orders.into_iter().next() {
                let leaf = expulsion(stage.session(&session), client, &evidence);
                stage.blobs.keep(panetiere::wire::Encode::to_bytes(&*evidence));
                stage.counts(&Leaf::Expulsion(leaf), None);
            }
        }
    }
    let mut check = Check::default();
    let mut asked = 0;
    loop {
        let (record, beside) = (&stage.record, Beside(&stage));
        let (open, epoch) = (record.session(&session).unwrap(), record.epoch().unwrap());
        let posts = posts_of(open, &beside);
        let (step, culprits) = check.step(open, epoch, &posts).unwrap();
        assert!(culprits.is_empty());
        match step {
            Step::Ask(set) => {
                assert!(!set.contains(ClientId(3)), "expelled by its bad share");
                let sums = lanes.iter().map(|lane| lane.check_sum(FIRST, &set).unwrap()).collect();
                check.answer(set, sums);
                asked += 1;
            }
            Step::Items(client) => {
                assert_eq!(client, ClientId(1));
                check.items(vec![item(&sent, client, 0).clone(), item(&sent, client, 3).clone()]);
            }
            Step::Expel { leaf, evidence } => {
                assert_eq!(evidence.verify(kernels).unwrap().convicted(), Attribution::Client(ClientId(1)));
                stage.blobs.keep(panetiere::wire::Encode::to_bytes(&*evidence));
                stage.counts(&Leaf::Expulsion(leaf), None);
            }
            Step::Clean => break,
            Step::Unseen => panic!("all lanes answer"),
        }
    }
    assert!((3..=5).contains(&asked), "{asked} questions");
    for server in 0..4 {
        stage.counts(&stage.scene.checked(&session, server, BTreeMap::new()), None);
    }
    let close = stage.session(&session).closing(stage.record.epoch().unwrap()).unwrap();
    stage.counts(&Leaf::RoundClose(close), None);
    assert_eq!(stage.set(&session).clients(), [0, 2, 4].map(ClientId));
    for lane in &mut lanes {
        feed(lane, &stage);
        assert!(matches!(lane.sums().unwrap()[..], [(_, Ok(_))]));
    }
}

#[test]
fn an_aggregator_sums_what_it_was_given_and_nobody_twice() {
    let mut stage = stage(6, |shape| shape.aggregators(2));
    let epoch = stage.scene.net.epoch.digest();
    let mut aggregators: Vec<Aggregator> = (0..2)
        .map(|id| {
            let mut aggregator = Aggregator::new(AggregatorId(id), stage.scene.record());
            let key = stage.scene.net.aggregators[usize::from(id)].signing_key().expose_scalar();
            let key = SigningKey::from_scalar(&key).unwrap();
            let identity = AggregatorIdentity::new(AggregatorId(id), key, &stage.scene.net.epoch).unwrap();
            aggregator.enrol(Arc::new(identity), epoch);
            aggregator
        })
        .collect();
    let advance = |aggregator: &mut Aggregator, stage: &Stage| {
        let (note, entries) = news(stage, aggregator.record().size());
        aggregator.advance(&note, &entries, &stage.blobs).unwrap();
    };
    let session = stage.open();
    let sent: Vec<Sent> = stage.scene.net.ids().map(|client| stage.scene.send(&session, client, 0)).collect();
    let whole = |client: usize| match &sent[client].post {
        Post::Whole(post) => post.clone(),
        Post::Rs(_) => panic!("no lanes"),
    };
    advance(&mut aggregators[0], &stage);
    let (_, early) = aggregators[0].deliver(FIRST, &whole(0));
    assert_eq!(early.unwrap_err().code(), "aggregator_not_counted");
    sent.iter().for_each(|sent| stage.post(sent));
    advance(&mut aggregators[0], &stage);
    advance(&mut aggregators[1], &stage);
    // Client 2 sends to both.
    for (aggregator, clients) in [(0, vec![0, 1, 2]), (1, vec![2, 3, 4])] {
        for client in clients {
            let (orders, taken) = aggregators[aggregator].deliver(FIRST, &whole(client));
            assert!(orders.is_empty() && taken.is_ok());
        }
    }
    let mut spoilt = whole(3);
    spoilt.ciphertext[0] ^= 1;
    let (orders, refused) = aggregators[0].deliver(FIRST, &spoilt);
    assert_eq!((orders, refused.unwrap_err().code()), (vec![], "post_body_mismatch"));
    assert_eq!(aggregators[0].group(FIRST), None, "not closed");
    stage.close(&session);
    for (at, members) in [(0, vec![0, 1, 2]), (1, vec![3, 4])] {
        advance(&mut aggregators[at], &stage);
        let group = aggregators[at].group(FIRST).unwrap();
        assert_eq!(group.clients(), members.iter().copied().map(ClientId).collect::<Vec<_>>());
        let posts = |client: ClientId| Some(whole(usize::try_from(client.0).unwrap()));
        let Order::Publish { leaf, body, .. } = aggregators[at].sum(FIRST, &group, posts).unwrap() else {
            panic!("a sum")
        };
        stage.counts(&leaf, body);
        advance(&mut aggregators[at], &stage);
        assert_eq!(aggregators[at].group(FIRST), None, "its sum counts");
        let gone = aggregators[at].sum(FIRST, &group, |_| None).unwrap_err();
        assert_eq!(gone.code(), "aggregator_missing_client");
    }
    stage.servers_summed(&session, &sent, &[]);
    let mut recipient = recipient(&stage);
    read(&mut recipient, &stage);
    let attempt = recipient.recover(FIRST, &Beside(&stage)).unwrap();
    assert_eq!(attempt.outcome.unwrap().messages(), messages(&sent));
}
