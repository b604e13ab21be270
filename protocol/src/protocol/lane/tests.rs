//! What cannot be reached through bytes: a lane that miscounts, a store that loses or alters what it kept.

use super::*;
use crate::bulletin::{EpochServer, SignedPost, delivery_root};
use crate::cs::OpeningError;
use crate::ids::{DeploymentId, EpochId, ServerId};
use crate::kahe::Plaintext;
use crate::pke;
use crate::plaintext::PlainPoly;
use crate::protocol::{Deployment, Dimensions, LaneShape, MemoryAnswers, RsClientRound, run_client_round_rs};
use chipmunk::params::P300;
use chipmunk::ring::backend;
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng;
use std::sync::Mutex;

struct Net {
    params: Arc<ProtocolParams>,
    session: SessionId,
    identity: Arc<LaneIdentity>,
    clients: Vec<(VerifiedPost, RsClientRound, SigningKey)>,
}

/// One server, 2-of-3 lanes, three honest clients; the lane under test is number 1.
fn net() -> Net {
    let mut rng = ChaCha20Rng::from_seed([1; 32]);
    let id = DeploymentId::from_name("lane test");
    let server = SigningKey::generate(&mut rng);
    let envelope_key = pke::PrivateKey::generate(&mut rng).public_key();
    let entry = EpochServer::sign(&id, EpochId(0), ServerId(0), envelope_key, &server);
    let lanes: Vec<SigningKey> = (0..3).map(|_| SigningKey::generate(&mut rng)).collect();
    let keys = lanes.iter().map(SigningKey::verifying_key).collect();
    let epoch = Epoch::new(id, EpochId(0), vec![entry]).unwrap().with_lanes(keys).unwrap();
    let deployment = Deployment {
        id,
        epoch: epoch.digest(),
        set: &P300,
        min_clients: 2,
        max_clients: 300,
        faulty: 0,
        kernels: backend::under_test(),
    };
    let dimensions = Dimensions { servers: 1, threshold: 1, polys: 2, plaintext: Plaintext::Prime };
    let shape = LaneShape { needed: 2, lanes: 3 };
    let params = Arc::new(ProtocolParams::setup_rs_mode(deployment, dimensions, shape).unwrap());
    let session = SessionId::derive("lane test", 0, &[0; 32]);
    let message = vec![PlainPoly::zero(); 2];
    let client = |client| {
        let key = SigningKey::generate(&mut rng);
        let keys = epoch.envelope_keys();
        let sent = run_client_round_rs(&mut rng, &params, &session, ClientId(client), &message, &keys, &key)
            .unwrap();
        let post = sent.post.signed.check(&params, &session, &key.verifying_key()).unwrap();
        (post, sent, key)
    };
    let clients = (0..3).map(client).collect();
    let key = lanes.into_iter().nth(1).unwrap();
    let identity = Arc::new(LaneIdentity::new(NodeId(1), key, &epoch, MemoryAnswers::fresh()).unwrap());
    Net { params, session, identity, clients }
}

fn all() -> CanonicalSet {
    CanonicalSet::new((0..3).map(ClientId)).unwrap()
}

fn full_round(net: &Net) -> LaneRound {
    let mut round = LaneRound::new(Arc::clone(&net.params), net.session, Arc::clone(&net.identity));
    for (post, sent, _) in &net.clients {
        round.receive(post, &sent.items[1]).unwrap();
    }
    round
}

#[test]
fn a_miscounted_sum_is_nobodys_but_the_operators() {
    let net = net();
    let mut round = full_round(&net);
    let item = &net.clients[0].1.items[1];
    let share = verify_item(&net.params, &net.clients[0].0, item).unwrap().share;
    // Client 0 twice in the digits, once in the roots: as a lost write would have it.
    let roots = round.sum.root().clone();
    round.sum.add(net.params.lane_code().unwrap().commitment(), &share);
    round.sum.set_root(roots);
    let over = LaneRoundError::AggregateOverCapacity { clients: 3 };
    assert_eq!(round.check_sum(&all()).as_ref(), Err(&over));
    let refused = round.close(&all()).unwrap_err();
    assert_eq!(refused, over);
    assert_eq!(refused.attribution(), Attribution::Operator);
}

#[test]
fn a_share_that_got_in_unverified_names_its_client_at_the_close() {
    let net = net();
    let (post, sent, key) = &net.clients[2];
    // The client signs that it sends lane 1 what belongs to lane 2.
    let bodies = [0, 2, 2].map(|lane: usize| sent.items[lane].body.clone()).to_vec();
    let sealed = sent.envelopes.iter().map(|envelope| (envelope.key, envelope.sealed.clone()));
    let (root, _, items) = delivery_root(ClientId(2), sealed, bodies);
    let mut statement = post.statement().clone();
    statement.envelopes = root;
    let signed = SignedPost::sign(statement, key);
    let post = signed.check(&net.params, &net.session, &key.verifying_key()).unwrap();
    let mut round = LaneRound::new(Arc::clone(&net.params), net.session, Arc::clone(&net.identity));
    for (post, sent, _) in &net.clients[..2] {
        round.receive(post, &sent.items[1]).unwrap();
    }
    let other = verify_item(&net.params, &net.clients[1].0, &net.clients[1].1.items[1]).unwrap();
    let mut roots = round.sum.root().clone();
    net.params.lattice().lane().add_assign(&mut roots, sent.post.share_commitment.root());
    round.insert(post, items[1].clone(), &other.share);
    round.sum.set_root(roots);
    let refused = round.close(&all()).unwrap_err();
    let (client, lane) = (ClientId(2), NodeId(1));
    let bad = ItemFault::BadShare { client, lane, source: OpeningError::Root };
    assert_eq!(refused, LaneRoundError::Item(bad));
    assert_eq!(refused.attribution(), Attribution::Client(client));
}

#[test]
fn a_store_that_loses_or_alters_an_item_is_the_operators_fault() {
    type Edit = fn(LaneItem) -> Option<LaneItem>;
    let net = net();
    let some = CanonicalSet::new([ClientId(0), ClientId(1)]).unwrap();
    let expected = full_round(&net).close(&some).unwrap();
    // Client 2 does not make the set, so its item is asked for again.
    let flip: Edit = |mut item| {
        item.body[0] ^= 1;
        Some(item)
    };
    let edits: [(Edit, bool); 4] = [
        (Some, true),
        (|_| None, false),
        (|item| Some(LaneItem { lane: NodeId(0), ..item }), false),
        (flip, false),
    ];
    for (edit, good) in edits {
        let store: Arc<Mutex<BTreeMap<ClientId, LaneItem>>> = Arc::default();
        let source = Arc::clone(&store);
        let mut round = LaneRound::with_source(
            Arc::clone(&net.params),
            net.session,
            Arc::clone(&net.identity),
            Box::new(move |client| source.lock().unwrap().get(&client).cloned().and_then(edit)),
        );
        for (post, sent, _) in &net.clients {
            store.lock().unwrap().insert(post.client(), sent.items[1].clone());
            round.receive(post, &sent.items[1]).unwrap();
        }
        assert!(round.kept.is_empty(), "a round with a source keeps no bytes");
        let closed = round.close(&some);
        if good {
            assert_eq!(closed.as_ref(), Ok(&expected));
        } else {
            let lost = LaneRoundError::ItemLost { client: ClientId(2) };
            assert_eq!(lost.attribution(), Attribution::Operator);
            assert_eq!(closed, Err(lost.clone()));
            assert_eq!(round.check_sum(&some), Err(lost));
            // Nothing is lost but the item: over everybody it still answers.
            assert_eq!(round.close(&all()), full_round(&net).close(&all()));
        }
    }
}
