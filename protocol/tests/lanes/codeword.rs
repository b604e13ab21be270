//! Clients that commit to shares which are no codeword: seen before the close, found without moving a key share, and
//! never blamed on a lane.

use crate::lies::Lie;
use crate::net::*;
use panetiere::bulletin::{CanonicalSet, LaneBulletinEntry};
use panetiere::evidence::Evidence;
use panetiere::fault::{Attribution, Fault};
use panetiere::ids::*;
use panetiere::protocol::*;

/// A round of these clients, of whom some commit to no codeword. Every item is taken: each share opens its root.
fn round<'a>(net: &'a Net, clients: u32, cheats: &[(u32, u16)]) -> Round<'a> {
    let mut round = Round::open(net, 0);
    for client in 0..clients {
        let lane = cheats.iter().find(|(cheat, _)| *cheat == client).map(|(_, lane)| *lane);
        let sent = match lane {
            Some(lane) => net.non_codeword(&round.session, client, lane),
            None => net.client(&round.session, client),
        };
        assert!(round.submit(&sent).iter().all(Result::is_ok), "what is wrong cannot be seen at one lane");
    }
    round
}

/// Drives a search to its end; `ask` answers for the lanes. Returns the client, the number of questions, and the lanes
/// named on the way.
fn search(
    mut bisection: Bisection<'_>,
    mut ask: impl FnMut(&CanonicalSet) -> Vec<LaneBulletinEntry>,
) -> (ClientId, u32, Vec<NodeId>) {
    let (mut asked, mut named) = (0, Vec::new());
    loop {
        match bisection.next_step() {
            NextStep::Found(client) => return (client, asked, named),
            NextStep::Ask(set) => {
                asked += 1;
                let culprits = bisection.answer(&ask(&set)).unwrap();
                named.extend(culprits.iter().map(|culprit| culprit.lane));
            }
        }
    }
}

fn start<'a>(
    net: &'a Net,
    posts: &'a RsPosts<'a>,
    candidates: &CanonicalSet,
    sums: &[LaneBulletinEntry],
) -> CodewordVerdict<'a> {
    let (verdict, culprits) = Bisection::start(posts, &net.epoch, candidates, sums).unwrap();
    assert!(culprits.is_empty());
    verdict
}

#[test]
fn honest_candidates_are_a_codeword() {
    let net = net(2, 4, 3, 3);
    let round = round(&net, 3, &[]);
    let posts = round.checked_posts();
    let verdict = start(&net, &posts, &set(0..3), &round.check_sums(&set(0..3)));
    assert!(matches!(verdict, CodewordVerdict::Codeword), "{verdict:?}");
}

#[test]
fn the_search_ends_in_the_cheating_client_wherever_it_stands() {
    let net = net(2, 4, 7, 2);
    for cheat in 0..7 {
        // A systematic and a parity share.
        let lane = u16::try_from(cheat % 4).unwrap();
        let round = round(&net, 7, &[(cheat, lane)]);
        let posts = round.checked_posts();
        let candidates = set(0..7);
        let verdict = start(&net, &posts, &candidates, &round.check_sums(&candidates));
        let CodewordVerdict::NotACodeword(bisection) = verdict else { panic!("{verdict:?}") };
        let (found, asked, named) = search(bisection, |set| round.check_sums(set));
        assert_eq!(found, ClientId(cheat));
        let (post, items) = (&round.verified[&found], &round.items[&found]);
        let key = round.verifying_key(found);
        // Any k items: here the last.
        let evidence = Evidence::not_a_codeword(&net.params, &net.epoch, &key, post.signed(), &items[2..]);
        assert!(evidence.if_it_convicts(&net.params, Attribution::Client(found)).is_some());
        assert!(asked <= 3, "{asked} questions for seven candidates");
        assert!(named.is_empty());
    }
}

#[test]
fn several_cheats_are_found_one_after_another_and_the_rest_recovers() {
    let net = net(3, 6, 6, 4);
    let cheats = [(1, 0), (2, 5), (5, 0)];
    let mut round = round(&net, 6, &cheats);
    let mut candidates = set(0..6);
    let mut found = Vec::new();
    loop {
        let posts = round.checked_posts();
        match start(&net, &posts, &candidates, &round.check_sums(&candidates)) {
            CodewordVerdict::Codeword => break,
            CodewordVerdict::Unseen => panic!("all lanes report"),
            CodewordVerdict::NotACodeword(bisection) => {
                let (client, ..) = search(bisection, |set| round.check_sums(set));
                found.push(client);
                let rest = candidates.clients().iter().copied().filter(|c| *c != client);
                candidates = CanonicalSet::new(rest).unwrap();
            }
        }
    }
    found.sort_unstable();
    assert_eq!(found, [1, 2, 5].map(ClientId));
    let (sums, lanes) = (round.server_sums(&candidates), round.lane_sums(&candidates));
    let recovered = round.recover(&candidates, &sums, &lanes).unwrap();
    assert_eq!(recovered.recovered.plaintext, net.expected(&candidates));
}

#[test]
fn a_lying_lane_is_named_and_the_search_goes_on_without_it() {
    let net = net(2, 5, 4, 2);
    let round = round(&net, 4, &[(2, 1)]);
    let posts = round.checked_posts();
    let candidates = set(0..4);
    let mut sums = round.check_sums(&candidates);
    sums[4] = Lie::Digit.tell(&net, &sums[4]);
    let (verdict, culprits) = Bisection::start(&posts, &net.epoch, &candidates, &sums).unwrap();
    assert_eq!(culprits.iter().map(|c| c.lane).collect::<Vec<_>>(), [NodeId(4)]);
    let CodewordVerdict::NotACodeword(bisection) = verdict else { panic!("{verdict:?}") };
    let (found, _, named) = search(bisection, |set| {
        let mut sums = round.check_sums(set);
        sums[3] = Lie::Path.tell(&net, &sums[3]);
        sums
    });
    // Lane 3 lies from the first question on; lane 4 told the truth too late to count.
    assert_eq!(found, ClientId(2));
    assert_eq!(named, [NodeId(3); 2], "once a question");
}

#[test]
fn what_only_absent_lanes_saw_is_inconclusive() {
    let net = net(2, 4, 4, 2);
    // Only lane 3's share is odd, and lane 3 stops answering: it may be the client's accomplice.
    let round = round(&net, 4, &[(1, 3)]);
    let posts = round.checked_posts();
    let candidates = set(0..4);
    let verdict = start(&net, &posts, &candidates, &round.check_sums(&candidates));
    let CodewordVerdict::NotACodeword(mut bisection) = verdict else { panic!("{verdict:?}") };
    let NextStep::Ask(half) = bisection.next_step() else { panic!("four suspects") };
    let sums = round.check_sums(&half);
    let refused = bisection.answer(&sums[..3]).unwrap_err();
    let lanes: Vec<NodeId> = (0..3).map(NodeId).collect();
    assert_eq!(refused, BisectionError::Inconclusive { lanes, culprits: Vec::new() });
    assert_eq!(refused.attribution(), Attribution::Nobody);
    // Two lanes can see nothing at all.
    assert!(matches!(bisection.answer(&sums[2..]), Err(BisectionError::Inconclusive { .. })));
    // Without lane 3 the candidates are consistent, and can be closed over as if it were down.
    let rest = round.check_sums(&candidates);
    assert!(matches!(start(&net, &posts, &candidates, &rest[..3]), CodewordVerdict::Codeword));
    // Nothing is lost: when it answers after all, the search goes on.
    assert_eq!(search(bisection, |set| round.check_sums(set)).0, ClientId(1));
}

#[test]
fn with_exactly_k_lanes_it_cannot_be_seen() {
    let net = net(2, 4, 3, 2);
    let round = round(&net, 3, &[(0, 1)]);
    let posts = round.checked_posts();
    let candidates = set(0..3);
    let sums = round.check_sums(&candidates);
    for pair in [&sums[..2], &sums[2..]] {
        assert!(matches!(start(&net, &posts, &candidates, pair), CodewordVerdict::Unseen));
    }
    let too_few = Bisection::start(&posts, &net.epoch, &candidates, &sums[..1]).map(|_| ()).unwrap_err();
    assert_eq!(too_few, BisectionError::TooFew { have: 1, need: 2, culprits: Vec::new() });
}

#[test]
fn at_the_recipient_it_names_no_lane_and_gives_no_wrong_plaintext() {
    let net = net(2, 4, 3, 2);
    let mut round = round(&net, 3, &[(0, 3)]);
    let canonical = set(0..3);
    let (sums, lanes) = (round.server_sums(&canonical), round.lane_sums(&canonical));
    for chosen in [&lanes[..], &lanes[1..]] {
        let refused = round.recover(&canonical, &sums, chosen).unwrap_err();
        let reason = &refused.reason;
        assert!(matches!(reason, RecipientError::Rejected(RejectReason::NotACodeword(_))), "{refused:?}");
        assert_eq!(refused.attribution(), Attribution::Nobody);
    }
    // Exactly k lanes with the odd share: nothing is inconsistent, but the noise gate refuses what it decrypts to.
    let refused = round.recover(&canonical, &sums, &lanes[2..]).unwrap_err();
    assert!(matches!(refused.reason, RecipientError::Rejected(RejectReason::Noise(_))), "{refused:?}");
    assert_eq!(refused.attribution(), Attribution::Nobody);
    // Lanes without the odd share are a codeword of the true sum.
    let recovered = round.recover(&canonical, &sums, &lanes[..3]).unwrap();
    assert_eq!(recovered.recovered.plaintext, net.expected(&canonical));
    assert!(recovered.lane_culprits.is_empty());
}
