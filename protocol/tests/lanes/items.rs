//! What a client can send a lane that is false, what can happen to it on the way, and how a missing item is rebuilt.

use crate::net::*;
use panetiere::bulletin::{LaneItem, VerifiedPost};
use panetiere::cs::OpeningError;
use panetiere::fault::{Attribution, Fault, Retry};
use panetiere::ids::*;
use panetiere::protocol::*;
use panetiere::rs::RsError;
use panetiere::wire::{DecodeWith, Encode};

fn check(net: &Net, round: &Round<'_>, sent: &RsClientRound) -> VerifiedPost {
    let key = round.verifying_key(sent.client_id);
    sent.post.signed.check(&net.params, &round.session, &key).unwrap()
}

#[test]
fn a_bad_share_names_its_client_at_that_lane_at_once() {
    let net = net(2, 4, 3, 3);
    let mut round = Round::posted(&net, 0, 0..2);
    let honest = net.client(&round.session, 2);
    // The client swaps what it delivers to lanes 1 and 2, and signs that.
    let mut bodies: Vec<Vec<u8>> = honest.items.iter().map(|item| item.body.clone()).collect();
    bodies.swap(1, 2);
    let lie = net.with_bodies(&honest, bodies);
    let taken = round.submit(&lie);
    let client = ClientId(2);
    for (lane, taken) in (0..).map(NodeId).zip(taken) {
        let expected = match lane.0 {
            1 | 2 => Err(ItemFault::BadShare { client, lane, source: OpeningError::Root }),
            _ => Ok(()),
        };
        assert_eq!(
            taken.as_ref().map_err(Fault::attribution),
            match lane.0 {
                1 | 2 => Err(Attribution::Client(client)),
                _ => Ok(&()),
            }
        );
        assert_eq!(taken, expected);
    }
    // Nothing of it is in the sums: the others close over the rest.
    let canonical = set(0..2);
    let (sums, lanes) = (round.server_sums(&canonical), round.lane_sums(&canonical));
    assert_eq!(
        round.recover(&canonical, &sums, &lanes).unwrap().recovered.plaintext,
        net.expected(&canonical)
    );
}

#[test]
fn a_signed_body_that_is_no_share_names_its_client() {
    let net = net(2, 3, 2, 2);
    let mut round = Round::open(&net, 0);
    let honest = net.client(&round.session, 0);
    let share_len = net.params.lane_code().unwrap().rs().share_len();
    for (at, what) in [(0, "coded share"), (share_len, "sibling")] {
        let mut bodies: Vec<Vec<u8>> = honest.items.iter().map(|item| item.body.clone()).collect();
        // All ones is above every prime.
        bodies[0][at..at + 3].fill(0xFF);
        let lie = net.with_bodies(&honest, bodies);
        let post = check(&net, &round, &lie);
        let fault = round.lanes[0].receive(&post, &lie.items[0]).unwrap_err();
        let ItemFault::Malformed { source, .. } = &fault else { panic!("{fault:?}") };
        assert_eq!(source.what, what);
        assert_eq!(fault.attribution(), Attribution::Client(ClientId(0)));
    }
}

#[test]
fn bytes_altered_on_the_way_are_undelivered_and_nobodys() {
    let net = net(2, 3, 2, 2);
    let mut round = Round::open(&net, 0);
    let sent = net.client(&round.session, 0);
    let post = check(&net, &round, &sent);
    let share_len = net.params.lane_code().unwrap().rs().share_len();
    for at in [0, share_len - 1, share_len, sent.items[1].body.len() - 1] {
        for bits in [1, 0xFF] {
            let mut item = sent.items[1].clone();
            item.body[at] ^= bits;
            let item = LaneItem::from_bytes_with(&net.params, &item.to_bytes()).unwrap();
            let fault = round.lanes[1].receive(&post, &item).unwrap_err();
            assert_eq!(fault, ItemFault::NotInPost { client: ClientId(0), lane: NodeId(1) });
            assert_eq!((fault.attribution(), fault.retry()), (Attribution::Nobody, Retry::SameRequest));
        }
    }
    // A good share is good whatever happened to its inclusion path: there is nobody to blame.
    let mut item = sent.items[1].clone();
    item.path[0][0] ^= 1;
    assert_eq!(round.lanes[1].receive(&post, &item), Ok(()));
}

#[test]
fn misdirected_replayed_and_doubled_items() {
    let net = net(2, 3, 3, 2);
    let mut round = Round::open(&net, 0);
    let (sent, other) = (net.client(&round.session, 0), net.client(&round.session, 1));
    let (post, other_post) = (check(&net, &round, &sent), check(&net, &round, &other));
    let lane = &mut round.lanes[1];
    let elsewhere = lane.receive(&post, &sent.items[2]).unwrap_err();
    assert_eq!(elsewhere, ItemFault::WrongLane { expected: NodeId(1), found: NodeId(2) });
    assert_eq!(elsewhere.attribution(), Attribution::Nobody);
    let mixed = lane.receive(&post, &other.items[1]).unwrap_err();
    assert_eq!(mixed, ItemFault::WrongClient { expected: ClientId(0), found: ClientId(1) });
    // Another client's share under one's own name, unsigned: not in the post.
    let mut copied = other.items[1].clone();
    copied.client = ClientId(0);
    let copied = lane.receive(&post, &copied).unwrap_err();
    assert_eq!(copied, ItemFault::NotInPost { client: ClientId(0), lane: NodeId(1) });
    // The item addressed to another lane by whoever relays it.
    let mut moved = sent.items[2].clone();
    moved.lane = NodeId(1);
    let moved = lane.receive(&post, &moved).unwrap_err();
    assert_eq!(moved, ItemFault::NotInPost { client: ClientId(0), lane: NodeId(1) });
    // An item of an earlier session does not open this session's root; its post is of another session.
    let earlier = net.client(&net.session(1), 2);
    let key = net.key(ClientId(2)).verifying_key();
    let earlier_post = earlier.post.signed.check(&net.params, &net.session(1), &key).unwrap();
    let stale = lane.receive(&earlier_post, &earlier.items[1]).unwrap_err();
    assert_eq!(stale, ItemFault::WrongSession { client: ClientId(2) });
    assert_eq!(lane.receive(&post, &sent.items[1]), Ok(()));
    let twice = lane.receive(&post, &sent.items[1]);
    assert_eq!(twice, Err(ItemFault::AlreadyReceived { client: ClientId(0) }));
    assert_eq!(lane.receive(&other_post, &other.items[1]), Ok(()));
    assert_eq!(lane.clients().collect::<Vec<_>>(), [ClientId(0), ClientId(1)]);
    // A lane that does not exist.
    let mut nowhere = sent.items[1].clone();
    nowhere.lane = NodeId(3);
    let fault = verify_item(&net.params, &post, &nowhere).map(|_| ()).unwrap_err();
    assert_eq!(fault, ItemFault::UnknownLane { lane: NodeId(3), lanes: 3 });
}

#[test]
fn every_missing_item_is_rebuilt_byte_for_byte() {
    for (needed, lanes, polys) in [(1, 3, 2), (3, 5, 7), (3, 3, 3)] {
        let net = net(needed, lanes, 2, polys);
        let mut round = Round::open(&net, 0);
        let sent = net.client(&round.session, 0);
        let post = check(&net, &round, &sent);
        for missing in 0..lanes {
            for first in 1..lanes {
                // A window of k among the others, in any order.
                let others: Vec<LaneItem> = (0..lanes - 1)
                    .map(|i| (missing + 1 + (first - 1 + i) % (lanes - 1)) % lanes)
                    .take(needed.into())
                    .map(|lane| sent.items[usize::from(lane)].clone())
                    .collect();
                let rebuilt = rebuild_item(&net.params, &post, NodeId(missing), &others);
                if lanes > needed {
                    assert_eq!(rebuilt.as_ref(), Ok(&sent.items[usize::from(missing)]));
                } else {
                    let too_few = RsError::TooFew { have: others.len(), need: needed };
                    assert_eq!(rebuilt, Err(RebuildError::Selection(too_few)));
                }
            }
        }
        if lanes > needed {
            let others = &sent.items[1..=usize::from(needed)];
            let rebuilt = rebuild_item(&net.params, &post, NodeId(0), others).unwrap();
            assert_eq!(round.lanes[0].receive(&post, &rebuilt), Ok(()));
        }
    }
}

#[test]
fn nothing_is_rebuilt_from_bad_items() {
    let net = net(2, 4, 2, 3);
    let round = Round::open(&net, 0);
    let sent = net.client(&round.session, 0);
    let post = check(&net, &round, &sent);
    let rebuild = |items: &[LaneItem]| rebuild_item(&net.params, &post, NodeId(0), items);
    let items = &sent.items;
    let few = rebuild(&items[1..2]);
    assert_eq!(few, Err(RebuildError::Selection(RsError::TooFew { have: 1, need: 2 })));
    let twice = rebuild(&[items[1].clone(), items[1].clone()]);
    assert_eq!(twice, Err(RebuildError::Selection(RsError::Duplicate { lane: NodeId(1) })));
    let mut altered = items[2].clone();
    altered.body[0] ^= 1;
    let refused = rebuild(&[items[1].clone(), altered]);
    let undelivered = ItemFault::NotInPost { client: ClientId(0), lane: NodeId(2) };
    assert_eq!(refused, Err(RebuildError::Item(undelivered)));
    let outside = rebuild_item(&net.params, &post, NodeId(4), items);
    assert_eq!(outside, Err(RebuildError::Item(ItemFault::UnknownLane { lane: NodeId(4), lanes: 4 })));
}

#[test]
fn k_items_convict_a_client_that_committed_to_no_codeword() {
    let net = net(2, 4, 2, 3);
    let round = Round::open(&net, 0);
    let lie = net.non_codeword(&round.session, 0, 3);
    let post = check(&net, &round, &lie);
    let convicted = RebuildError::NotACodeword { client: ClientId(0) };
    assert_eq!(convicted.attribution(), Attribution::Client(ClientId(0)));
    // Exactly k items determine the codeword, and its root is not the signed one, whether the odd share is in or out.
    for chosen in [[0, 1], [1, 2], [0, 3]] {
        let items: Vec<LaneItem> = chosen.iter().map(|lane: &usize| lie.items[*lane].clone()).collect();
        assert_eq!(rebuild_item(&net.params, &post, NodeId(3), &items), Err(convicted.clone()));
    }
    assert_eq!(rebuild_item(&net.params, &post, NodeId(3), &lie.items), Err(convicted));
    // An honest client is not convicted by any of them.
    let honest = net.client(&round.session, 1);
    let honest_post = check(&net, &round, &honest);
    assert!(rebuild_item(&net.params, &honest_post, NodeId(3), &honest.items).is_ok());
}

#[test]
fn rounds_without_lanes_have_no_items() {
    let net = net(2, 3, 2, 2);
    let deployment = Deployment {
        id: *net.params.deployment(),
        epoch: *net.params.epoch(),
        set: net.params.set(),
        min_clients: 2,
        max_clients: 300,
        faulty: 0,
        kernels: net.params.lattice().kernels(),
    };
    let dimensions =
        Dimensions { servers: 3, threshold: 2, polys: 2, plaintext: panetiere::kahe::Plaintext::Prime };
    let direct = ProtocolParams::setup_with_kahe_dims_full(deployment, dimensions).unwrap();
    let session = net.session(0);
    let keys = net.epoch.envelope_keys();
    let (client, message) = (ClientId(0), &net.messages[0]);
    let mut rng = stream("direct", 0);
    let refused = run_client_round_rs(&mut rng, &direct, &session, client, message, &keys, net.key(client));
    let mode = panetiere::bulletin::Mode::Direct;
    assert_eq!(refused.map(|_| ()), Err(ClientRoundError::NoLanes { mode }));
    let refused = run_client_round(&mut rng, &net.params, &session, client, message, &keys, net.key(client));
    let mode = panetiere::bulletin::Mode::Erasure;
    assert_eq!(refused.map(|_| ()), Err(ClientRoundError::Mode { mode }));
    let item = net.client(&session, 0).items[0].to_bytes();
    assert!(LaneItem::from_bytes_with(&direct, &item).is_err());
    let sent =
        run_client_round(&mut rng, &direct, &session, client, message, &keys, net.key(client)).unwrap();
    let post = sent.post.head.signed.check(&direct, &session, &net.key(client).verifying_key()).unwrap();
    let item = LaneItem::from_bytes_with(&net.params, &item).unwrap();
    let fault = verify_item(&direct, &post, &item).map(|_| ()).unwrap_err();
    assert_eq!(fault, ItemFault::WrongMode { client });
}

#[test]
fn items_do_not_depend_on_the_memory_they_are_made_in() {
    // Of nothing, of a larger and of a smaller code, and of the same one: a padded block last.
    let mut memory = ItemMemory::default();
    for (needed, lanes, polys) in [(3, 5, 7), (1, 6, 9), (3, 5, 7), (3, 5, 7), (2, 3, 1)] {
        let net = net(needed, lanes, 1, polys);
        let round = Round::open(&net, 0);
        let sent = net.client(&round.session, 0);
        let code = net.params.lane_code().unwrap();
        let systematic = sent.items[..usize::from(needed)].iter();
        let mut ciphertext: Vec<u8> =
            systematic.flat_map(|item| item.body[..code.rs().share_len()].to_vec()).collect();
        ciphertext.truncate(net.params.kahe().ciphertext_len());
        let (commitment, bodies) = code_ciphertext_in(code, &ciphertext, &mut memory).unwrap();
        assert_eq!(commitment, sent.post.share_commitment);
        assert!(sent.items.iter().map(|item| &item.body).eq(&bodies));
        memory.reclaim(sent.items);
    }
}
