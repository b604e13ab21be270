//! Honest rounds, and rounds in which lanes are down or lie.

use crate::lies::Lie;
use crate::net::*;
use panetiere::fault::{Attribution, Fault};
use panetiere::ids::*;
use panetiere::protocol::*;
use panetiere::wire::{Decode, Encode};

#[test]
fn any_k_lanes_recover_the_sum() {
    let net = net(3, 5, 5, 7);
    let mut round = Round::posted(&net, 0, 0..5);
    // Client 4 did not make the set.
    let canonical = set(0..4);
    let expected = net.expected(&canonical);
    let sums = round.server_sums(&canonical);
    let lanes = round.lane_sums(&canonical);
    for mask in 0u16..32 {
        let chosen: Vec<_> =
            (0..5u8).rev().filter(|i| mask >> i & 1 == 1).map(|i| lanes[usize::from(i)].clone()).collect();
        let recovered = round.recover(&canonical, &sums, &chosen);
        if chosen.len() < 3 {
            let below = RecipientError::BelowLaneThreshold { have: chosen.len(), need: 3 };
            assert_eq!(recovered, Err(below.into()));
            continue;
        }
        let recovered = recovered.unwrap();
        assert_eq!(recovered.recovered.plaintext, expected, "{mask:05b}");
        assert!(recovered.lane_culprits.is_empty() && recovered.recovered.culprits.is_empty());
        let missing: Vec<NodeId> = (0..5).filter(|i| mask >> i & 1 == 0).map(NodeId).collect();
        assert_eq!(recovered.lanes_missing, missing);
    }
    let below = round.recover(&canonical, &sums[..1], &lanes);
    assert_eq!(below, Err(RecipientError::BelowShareThreshold { have: 1, need: 2 }.into()));
}

#[test]
fn sizes_are_the_closed_forms_and_posts_do_not_grow() {
    let of = |polys| {
        let net = net(3, 5, 2, polys);
        let mut round = Round::posted(&net, 0, 0..2);
        let canonical = set(0..2);
        let dimensions =
            Dimensions { servers: 3, threshold: 2, polys, plaintext: panetiere::kahe::Plaintext::Prime };
        let shape = LaneShape { needed: 3, lanes: 5 };
        let sizes = lane_wire_sizes(net.params.set(), dimensions, shape, 2);
        let sent = net.client(&round.session, 0);
        let post = sent.post.to_bytes(&net.params).len();
        assert_eq!(post, sizes.post);
        assert_eq!(post, net.params.wire_sizes(2).post);
        assert_eq!(sent.items.iter().map(Encode::encoded_len).sum::<usize>(), sizes.items);
        assert!(sent.items.iter().all(|item| item.body.len() == sizes.item_body));
        let envelopes: usize = sent.envelopes.iter().map(Encode::encoded_len).sum();
        assert_eq!(envelopes, net.params.wire_sizes(2).envelopes);
        for lane in round.lane_sums(&canonical) {
            assert_eq!(lane.to_bytes(net.params.lane_code().unwrap()).len(), sizes.lane_sum);
        }
        post
    };
    assert_eq!(of(1), of(7));
}

#[test]
fn one_call_lane_round_answers_as_the_running_one() {
    let net = net(2, 4, 20, 3);
    let mut round = Round::posted(&net, 0, 0..20);
    let canonical = set((0..20).filter(|i| *i != 7));
    for (at, lane) in net.lanes.iter().enumerate() {
        let inbox: Vec<_> = round
            .verified
            .values()
            .map(|post| (post.clone(), round.items[&post.client()][at].clone()))
            .collect();
        let once = run_rs_node_round(&net.params, round.session, lane, inbox, &canonical).unwrap();
        assert_eq!(once, round.lanes[at].close(&canonical).unwrap());
    }
}

#[test]
fn the_same_bytes_on_any_number_of_threads() {
    let run = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| {
            let net = net(3, 5, 3, 4);
            let mut round = Round::posted(&net, 0, 0..3);
            let canonical = set(0..3);
            let sent = net.client(&round.session, 1);
            let code = net.params.lane_code().unwrap();
            let items: Vec<Vec<u8>> = sent.items.iter().map(Encode::to_bytes).collect();
            let lanes: Vec<Vec<u8>> =
                round.lane_sums(&canonical).iter().map(|lane| lane.to_bytes(code)).collect();
            (sent.post.to_bytes(&net.params), items, lanes)
        })
    };
    assert_eq!(run(1), run(4));
}

#[test]
fn fourteen_of_sixteen_with_two_liars_or_one_down_and_one_liar() {
    let net = net(14, 16, 3, 15);
    let mut round = Round::posted(&net, 0, 0..3);
    let canonical = set(0..3);
    let expected = net.expected(&canonical);
    let sums = round.server_sums(&canonical);
    let honest = round.lane_sums(&canonical);
    // Systematic and parity lanes, adjacent and not.
    for (a, b) in [(0, 1), (3, 15), (14, 15)] {
        let mut lanes = honest.clone();
        for liar in [a, b] {
            lanes[liar] = Lie::Digit.tell(&net, &honest[liar]);
        }
        let recovered = round.recover(&canonical, &sums, &lanes).unwrap();
        assert_eq!(recovered.recovered.plaintext, expected);
        let named: Vec<NodeId> = recovered.lane_culprits.iter().map(|culprit| culprit.lane).collect();
        assert_eq!(named, [a, b].map(|lane| NodeId(u16::try_from(lane).unwrap())));
        assert!(recovered.lanes_missing.is_empty());

        // The first of the two down instead of lying.
        lanes.remove(a);
        let recovered = round.recover(&canonical, &sums, &lanes).unwrap();
        assert_eq!(recovered.recovered.plaintext, expected);
        let named: Vec<NodeId> = recovered.lane_culprits.iter().map(|culprit| culprit.lane).collect();
        assert_eq!(named, [NodeId(u16::try_from(b).unwrap())]);
        assert_eq!(recovered.lanes_missing, [NodeId(u16::try_from(a).unwrap())]);
    }
    // A third liar is one too many: nothing is recovered, and exactly the three are named.
    let mut lanes = honest.clone();
    for liar in [2, 9, 14] {
        lanes[liar] = Lie::Digit.tell(&net, &honest[liar]);
    }
    let refused = round.recover(&canonical, &sums, &lanes).unwrap_err();
    assert_eq!(refused.attribution(), Attribution::Nobody);
    let exhausted = RejectReason::LanesExhausted { remaining: 13, need: 14 };
    assert_eq!(refused.reason, RecipientError::Rejected(exhausted));
    let culprits = refused.lanes;
    assert_eq!(culprits.iter().map(|c| c.lane).collect::<Vec<_>>(), [2, 9, 14].map(NodeId));
    assert!(culprits.iter().all(|c| c.fault.attribution() == Attribution::Lane(c.lane)));
    assert!(culprits.iter().all(convicts));
}

#[test]
fn lanes_that_lied_are_named_when_the_servers_are_too_few() {
    let net = net(2, 4, 3, 2);
    let mut round = Round::posted(&net, 0, 0..3);
    let canonical = set(0..3);
    let mut sums = round.server_sums(&canonical);
    let mut lanes = round.lane_sums(&canonical);
    lanes[1] = Lie::Digit.tell(&net, &lanes[1]);
    // One server twice, one of another round: two entries, one share.
    let elsewhere = Round::posted(&net, 1, 0..3).server_sums(&canonical).remove(0);
    sums.truncate(1);
    sums.push(elsewhere);
    let refused = round.recover(&canonical, &sums, &lanes).unwrap_err();
    assert_eq!(refused.code(), "shares_exhausted");
    let RecipientError::Rejected(RejectReason::SharesExhausted { culprits, discarded, .. }) = &refused.reason
    else {
        panic!("{refused:?}")
    };
    assert!(culprits.is_empty());
    assert_eq!(discarded, &[VerifyError::WrongSession { server: ServerId(0) }]);
    assert_eq!(refused.lanes.iter().map(|c| c.lane).collect::<Vec<_>>(), [NodeId(1)]);
    assert!(convicts(&refused.lanes[0]) && refused.lanes_discarded.is_empty());
}

#[test]
fn every_sum_is_computed_once() {
    let net = net(2, 4, 3, 2);
    let mut round = Round::posted(&net, 0, 0..3);
    let canonical = set(0..3);
    let mut sums = round.server_sums(&canonical);
    let mut lanes = round.lane_sums(&canonical);
    lanes[1] = Lie::Digit.tell(&net, &lanes[1]);
    sums.push(Round::posted(&crate::net::net(2, 4, 3, 2), 0, 0..3).server_sums(&set(0..2)).remove(2));
    let (posts, mut phases) = (round.checked_posts(), Vec::new());
    let observe = &mut |phase| phases.push(phase);
    let out = decrypt_aggregate_rs(&posts, &net.epoch, &canonical, &sums, &lanes, observe).unwrap();
    assert_eq!((out.lane_culprits.len(), out.recovered.culprits.len()), (1, 1));
    use Phase::*;
    assert_eq!(phases, [VerifyLanes, Reconstruct, VerifyOpenings, Interpolate, Decrypt]);
    let mut asked = Vec::new();
    let fetch = |client| {
        asked.push(client);
        round.fetch(client)
    };
    let policy = SetPolicy::anchored(canonical.clone(), 2, 300);
    let (params, session) = (&net.params, &round.session);
    let again = aggregate_and_decrypt_rs(params, session, &net.epoch, &policy, fetch, &sums, &lanes).unwrap();
    assert_eq!(again, out);
    assert_eq!(asked, canonical.clients());
}

#[test]
fn a_lying_server_is_named_beside_a_lying_lane() {
    let net = net(2, 4, 3, 2);
    let mut round = Round::posted(&net, 0, 0..3);
    let mut other = Round::posted(&net, 1, 0..3);
    let canonical = set(0..3);
    let mut sums = round.server_sums(&canonical);
    // Server 1 signs a sum over another set besides, for this very session.
    let forgetful = crate::net::net(2, 4, 3, 2);
    let mut split = Round::posted(&forgetful, 0, 0..3);
    sums.push(split.server_sums(&set(0..2))[1].clone());
    let mut lanes = round.lane_sums(&canonical);
    lanes[2] = Lie::Digit.tell(&net, &lanes[2]);
    // A replay from another session accuses nobody.
    lanes.push(other.lane_sums(&canonical)[3].clone());
    let recovered = round.recover(&canonical, &sums, &lanes).unwrap();
    assert_eq!(recovered.recovered.plaintext, net.expected(&canonical));
    assert_eq!(recovered.recovered.culprits.iter().map(|c| c.server).collect::<Vec<_>>(), [ServerId(1)]);
    assert_eq!(recovered.lane_culprits.iter().map(|c| c.lane).collect::<Vec<_>>(), [NodeId(2)]);
    assert_eq!(recovered.lanes_discarded, [LaneVerifyError::WrongSession { lane: NodeId(3) }]);
}

#[test]
fn a_lane_answers_one_set() {
    let net = net(2, 3, 4, 2);
    let mut round = Round::posted(&net, 0, 0..3);
    let lane = &mut round.lanes[1];
    assert_eq!(lane.close(&set([1])), Err(LaneRoundError::BelowFloor { got: 1, floor: 2 }));
    assert_eq!(lane.close(&set(0..301)), Err(LaneRoundError::AboveMax { got: 301, max: 300 }));
    assert_eq!(lane.close(&set(0..4)), Err(LaneRoundError::MissingClient { client: ClientId(3) }));
    assert_eq!(lane.check_sum(&set(2..4)), Err(LaneRoundError::MissingClient { client: ClientId(3) }));
    let first = lane.close(&set(0..2)).unwrap();
    assert_eq!(lane.close(&set(0..2)), Ok(first.clone()), "asked again, the same answer");
    let refused = lane.close(&set(0..3)).unwrap_err();
    let (answered, asked) = (set(0..2).digest(), set(0..3).digest());
    assert_eq!(refused, LaneRoundError::AlreadyAnswered { answered, asked });
    assert_eq!(refused.attribution(), Attribution::Operator);
    // So it does through another round object.
    let mut again = Round::posted(&net, 0, 0..3);
    assert_eq!(again.lanes[1].close(&set(0..3)), Err(refused));
    let late = net.client(&round.session, 3);
    let verified = late.post.signed.check(&net.params, &round.session, &round.verifying_key(ClientId(3)));
    let closed = round.lanes[1].receive(&verified.unwrap(), &late.items[1]);
    assert_eq!(closed, Err(ItemFault::Closed { client: ClientId(3) }));
}

#[test]
fn a_check_sum_over_any_set_is_the_sum_of_its_shares() {
    let net = net(2, 3, 5, 2);
    let round = Round::posted(&net, 0, 0..5);
    let posts = round.checked_posts();
    let code = net.params.lane_code().unwrap();
    // More than half and less: taken off the running sum, and added up from nothing.
    for subset in [set([3]), set([0, 4]), set([0, 1, 3, 4]), set(0..5)] {
        let (roots, digest) = posts.share_roots(&subset).unwrap();
        let purpose = panetiere::bulletin::LanePurpose::Check;
        let place = LanePlace { set: &subset, purpose, posts: &digest, roots: &roots };
        for (at, entry) in round.check_sums(&subset).iter().enumerate() {
            let sum = verify_lane_sum(&net.params, &round.session, &net.epoch, place, entry).unwrap();
            let mut expected = panetiere::rs::Share::zero(code.rs().block_polys());
            for client in subset.clients() {
                let body = &round.items[client][at].body;
                let share = code.rs().unpack_share(&body[..code.rs().share_len()]).unwrap();
                code.rs().add_assign(&mut expected, &share);
            }
            assert_eq!(sum, expected);
        }
    }
}

#[test]
fn epochs_name_their_lanes() {
    let net = net(2, 3, 2, 1);
    let bytes = net.epoch.to_bytes();
    assert_eq!(panetiere::bulletin::Epoch::from_bytes(&bytes).as_ref(), Ok(&net.epoch));
    assert!(panetiere::bulletin::Epoch::from_bytes(&bytes[..bytes.len() - 1]).is_err());
    let key = panetiere::sig::SigningKey::generate(&mut stream("foreign", 0));
    let foreign =
        LaneIdentity::new(NodeId(1), key, &net.epoch, MemoryAnswers::fresh()).map(|_| ()).unwrap_err();
    let refused = panetiere::bulletin::EpochError::ForeignLaneKey { lane: NodeId(1), epoch: EpochId(0) };
    assert_eq!(foreign, refused);
    // Two lanes with one key are one lane.
    let twice =
        [1, 0, 1].map(|at: usize| *net.epoch.lane(NodeId(u16::try_from(at).unwrap())).unwrap()).to_vec();
    let refused = panetiere::bulletin::EpochError::DuplicateLaneKey { lane: NodeId(2), first: NodeId(0) };
    assert_eq!(net.epoch.clone().with_lanes(twice), Err(refused));
    // Other lanes, another epoch: the digest in every statement says so.
    let without = net.epoch.clone().with_lanes(Vec::new()).unwrap();
    assert_ne!(without.digest(), net.epoch.digest());
}
