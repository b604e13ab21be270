//! Whole direct rounds, through every byte format: the executable specification.
//!
//! The parties come from `panetiere::testing`; everything they say to each other is encoded and parsed on the way.
//! The oracle of a round is the plain integer sum of what its clients sent.

use chipmunk::params::{P300, P1000};
use panetiere::bulletin::{CanonicalSet, ServerBulletinEntry};
use panetiere::fault::{Attribution, Fault, Retry};
use panetiere::ids::{ClientId, ServerId};
use panetiere::kahe::Plaintext;
use panetiere::protocol::{RecipientError, RejectReason, ServerRoundError, SetPolicy, recover_direct};
use panetiere::testing::{Round, deployment};
use panetiere::wire::Encode;

#[test]
fn a_round_reveals_the_sum_over_its_set_and_nothing_else() {
    // Any three of four servers open the sum. Five clients, each with a vector of two polynomials of its own.
    let net = deployment(1).servers(4).threshold(3).clients(5).polys(2).build();

    // Announce: the log's `RoundOpen` leaf is the session, and the session is in everything that follows.
    let mut round = net.open(0);
    assert_ne!(round.session, net.session(1));

    // Collect: each client posts one signed statement with its ciphertext, and sends each server one envelope.
    for client in net.ids() {
        let sent = round.client(client);
        let sizes = net.params.wire_sizes(5);
        assert_eq!(sent.post.to_bytes(&net.params).len(), sizes.post);
        assert_eq!(sent.post.head.signed.encoded_len(), sizes.post_leaf);
        assert_eq!(sent.envelopes.iter().map(Encode::encoded_len).sum::<usize>(), sizes.envelopes);
        assert!(sent.envelopes.iter().all(|envelope| envelope.sealed.len() == sizes.sealed_opening));

        // Check: statement against the admitted key, envelope against the statement, opening against the root.
        let verified = round.submit(&sent).accepted();
        assert_eq!(verified.client(), client);
    }

    // Close: client 4 did not make the set. Its envelope is in the running sums and comes off again.
    let set = CanonicalSet::new((0..4).map(ClientId)).unwrap();

    // Sum: one answer a server, for this set only.
    let sums = round.sums(&set);
    for sum in &sums {
        assert_eq!(sum.to_bytes(&net.params).len(), net.params.wire_sizes(4).server_sum);
        assert_eq!(sum.claim().set, set.digest());
    }

    // Recover and publish: the sum of four vectors, no culprit, nothing left over.
    let recovered = round.recover(&set, &sums).unwrap();
    assert_eq!(recovered.plaintext, net.expected(&set));
    assert_ne!(recovered.plaintext, net.expected(&net.all()));
    assert_eq!(recovered.canonical, set);
    assert!(recovered.culprits.is_empty() && recovered.discarded.is_empty());
}

/// All choices of servers, as lists of sums.
fn subsets(sums: &[ServerBulletinEntry]) -> impl Iterator<Item = Vec<ServerBulletinEntry>> {
    (0u32..1 << sums.len()).map(|mask| {
        sums.iter().zip(0..).filter(|(_, bit)| mask >> bit & 1 == 1).map(|(s, _)| s.clone()).collect()
    })
}

#[test]
fn every_t_subset_of_the_servers_recovers_and_no_smaller_one() {
    for (servers, threshold) in [(1, 1), (2, 2), (3, 2), (5, 3), (8, 6)] {
        let net = deployment(2).servers(servers).threshold(threshold).clients(3).build();
        let mut round = net.posted(0);
        let set = net.all();
        let expected = net.expected(&set);
        let sums = round.sums(&set);
        let mut recovering = 0;
        for chosen in subsets(&sums) {
            let outcome = round.recover(&set, &chosen);
            if chosen.len() < usize::from(threshold) {
                let below = RecipientError::BelowShareThreshold { have: chosen.len(), need: threshold };
                assert_eq!(below.retry(), Retry::SameRequest);
                assert_eq!(outcome, Err(below));
            } else {
                let recovered = outcome.unwrap();
                assert_eq!(recovered.plaintext, expected, "S = {servers}, {} sums", chosen.len());
                assert!(recovered.culprits.is_empty() && recovered.discarded.is_empty());
                recovering += 1;
            }
        }
        // Sum over k >= t of (S choose k).
        let choices = [(1, 1), (2, 1), (3, 4), (5, 16), (8, 37)];
        assert!(choices.contains(&(servers, recovering)), "S = {servers}: {recovering} subsets");
    }
}

#[test]
fn both_plaintext_moduli_recover() {
    for plaintext in [Plaintext::Prime, Plaintext::PowerOfTwo] {
        let net = deployment(3).servers(3).plaintext(plaintext).clients(2).polys(3).build();
        let mut round = net.posted(0);
        let sums = round.sums(&net.all());
        assert_eq!(round.recover(&net.all(), &sums).unwrap().plaintext, net.expected(&net.all()));
    }
}

#[test]
fn a_set_below_the_floor_is_refused_by_servers_and_recipient() {
    // The floor is 3: four clients post, and somebody asks for the sum of two of them.
    let net = deployment(4).servers(3).clients(4).min_clients(3).build();
    let mut round = net.posted(0);
    let small = CanonicalSet::new([ClientId(0), ClientId(2)]).unwrap();
    for server in 0..3 {
        let refused = round.close(ServerId(server), &small).unwrap_err();
        assert_eq!(refused, ServerRoundError::BelowFloor { got: 2, floor: 3 });
        assert_eq!(refused.attribution(), Attribution::Operator);
    }

    // Servers with a lower floor of their own would answer; the recipient still does not take it.
    let lax = deployment(4).servers(3).clients(4).min_clients(2).build();
    let sums = lax.posted(0).sums(&small);
    let below = |floor| RecipientError::Rejected(RejectReason::BelowFloor { got: 2, floor });
    assert_eq!(round.recover(&small, &sums), Err(below(3)));
    assert_eq!(round.recover_once(&small, &sums), Err(below(3)));

    // A policy narrows the floor further and cannot widen it.
    let policy = |floor| SetPolicy::anchored(small.clone(), floor, 300);
    for (floor, expected) in [(0, 3), (5, 5)] {
        let fetch = |client| round.fetch(client);
        let refused = recover_direct(&net.params, &round.session, &net.epoch, &policy(floor), fetch, &sums);
        assert_eq!(refused, Err(below(expected)));
    }

    // The refusal cost nothing: the whole set is answered and recovered.
    let sums = round.sums(&net.all());
    assert_eq!(round.recover(&net.all(), &sums).unwrap().plaintext, net.expected(&net.all()));
}

#[test]
fn a_set_above_the_ceiling_is_refused_by_servers_and_recipient() {
    let net = deployment(5).servers(1).clients(2).build();
    let mut round = net.posted(0);
    let large = CanonicalSet::new((0..301).map(ClientId)).unwrap();
    let refused = round.close(ServerId(0), &large);
    assert_eq!(refused, Err(ServerRoundError::AboveMax { got: 301, max: 300 }));
    let sums = round.sums(&net.all());
    let above = RecipientError::Rejected(RejectReason::AboveMax { got: 301, max: 300 });
    assert_eq!(round.recover(&large, &sums), Err(above));
}

/// Everything a round puts on the wire.
fn transcript(round: &mut Round<'_>) -> Vec<Vec<u8>> {
    let net = round.net;
    let mut bytes = Vec::new();
    for client in net.ids() {
        let sent = round.client(client);
        bytes.push(sent.post.to_bytes(&net.params));
        bytes.extend(sent.envelopes.iter().map(Encode::to_bytes));
        round.submit(&sent).accepted();
    }
    bytes.extend(round.sums(&net.all()).iter().map(|sum| sum.to_bytes(&net.params)));
    bytes
}

#[test]
fn the_same_seed_gives_the_same_bytes_on_any_number_of_threads() {
    let with = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| {
            let net = deployment(6).servers(5).clients(3).polys(4).build();
            transcript(&mut net.open(0))
        })
    };
    let one = with(1);
    assert_eq!(one.len(), 3 * (1 + 5) + 5);
    for threads in [2, 8] {
        let many = with(threads);
        // Compared one by one so that a failure names the object instead of printing megabytes.
        for (at, (a, b)) in one.iter().zip(&many).enumerate() {
            assert!(a == b, "object {at} differs between 1 and {threads} threads");
        }
    }
    let other = deployment(7).servers(5).clients(3).polys(4).build();
    let mut other_round = other.open(0);
    assert!(transcript(&mut other_round).iter().zip(&one).all(|(a, b)| a != b), "another seed, other bytes");
}

#[test]
fn sixteen_clients_under_p1000() {
    let net = deployment(8).set(&P1000).servers(5).threshold(3).clients(16).polys(2).build();
    assert_eq!((net.params.max_clients(), P300.rho_max), (1000, 300));
    let mut round = net.posted(0);
    let sums = round.sums(&net.all());
    let recovered = round.recover(&net.all(), &sums[2..]).unwrap();
    assert_eq!(recovered.plaintext, net.expected(&net.all()));
}

#[test]
fn rounds_of_one_epoch_are_independent() {
    // Two sessions of the same parties, interleaved. Keys and pads are fresh, so no byte of a body repeats.
    let net = deployment(9).servers(3).clients(3).build();
    let (mut first, mut second) = (net.open(0), net.open(1));
    for client in net.ids() {
        let (a, b) = (first.client(client), second.client(client));
        assert_ne!(a.post.ciphertext, b.post.ciphertext);
        assert_ne!(a.post.head.commitment, b.post.head.commitment);
        second.submit(&b).accepted();
        first.submit(&a).accepted();
    }
    let (set, smaller) = (net.all(), net.all_but(ClientId(1)));
    let sums = [first.sums(&set), second.sums(&smaller)];
    assert_eq!(second.recover(&smaller, &sums[1]).unwrap().plaintext, net.expected(&smaller));
    assert_eq!(first.recover(&set, &sums[0]).unwrap().plaintext, net.expected(&set));
}
