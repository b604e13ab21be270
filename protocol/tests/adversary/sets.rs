//! Canonical sets, closing, answering once.

use super::{CHEAT, LIAR, NET, NOBODY, SCENE};
use chipmunk::ring::pack::PackError;
use panetiere::bulletin::{CanonicalSet, Envelope, SetError, VerifiedPost};
use panetiere::fault::{Attribution, Fault, Retry};
use panetiere::ids::{ClientId, ServerId};
use panetiere::kahe::KaheError;
use panetiere::protocol::{
    EnvelopeFault, PostFault, RecipientError, RejectReason, ServerRound, ServerRoundError,
    aggregate_and_decrypt, run_server_round,
};
use panetiere::testing::ClientLie;
use std::sync::Arc;

#[test]
fn a_set_with_strangers_or_duplicates_is_no_set_of_this_round() {
    let duplicate = CanonicalSet::new([3, 1, 2, 1].map(ClientId)).unwrap_err();
    assert_eq!(duplicate, SetError::Duplicate { client: ClientId(1) });
    assert_eq!((duplicate.code(), duplicate.attribution()), ("set_duplicate", Attribution::Caller));
    // Client 99 has never posted: servers wait for it, the recipient asks for its post, nobody is named.
    let mut round = NET.posted(1);
    let set = CanonicalSet::new([0, 1, 2, 3, 99].map(ClientId)).unwrap();
    let refused = round.close(ServerId(0), &set).unwrap_err();
    assert_eq!(refused, ServerRoundError::MissingClient { client: ClientId(99) });
    assert_eq!((refused.attribution(), refused.retry()), (NOBODY, Retry::SameRequest));
    let refused = round.recover(&set, &SCENE.sums).unwrap_err();
    assert_eq!((refused.code(), refused.attribution()), ("post_missing", NOBODY));
}

#[test]
fn a_set_too_large_to_sum_is_no_clients_fault() {
    let (round, large) = (&SCENE.round, CanonicalSet::new((0..301).map(ClientId)).unwrap());
    let fetch = |_| panic!("no post is asked for once the set is refused");
    let (params, epoch) = (&NET.params, &NET.epoch);
    let refused = aggregate_and_decrypt(params, &round.session, epoch, &large, fetch, &SCENE.sums);
    let above = RejectReason::AboveMax { got: 301, max: 300 };
    assert_eq!(refused, Err(RecipientError::Rejected(above)));
    // Whoever fills a sum by hand finds no client to name either.
    let full = PostFault::Ciphertext { client: CHEAT, source: KaheError::TooManyClients { max: 300 } };
    assert_eq!(full.attribution(), Attribution::Caller);
    let source = KaheError::Malformed { poly: 0, source: PackError::OutOfRange { max: 1 } };
    assert_eq!(PostFault::Ciphertext { client: CHEAT, source }.attribution(), Attribution::Client(CHEAT));
}

#[test]
fn a_server_answers_one_set_once_and_always_alike() {
    let mut round = NET.posted(1);
    let (all, rest) = (NET.all(), NET.all_but(CHEAT));
    let first = round.close(LIAR, &rest).unwrap().to_bytes(&NET.params);
    assert!(round.close(LIAR, &rest).unwrap().to_bytes(&NET.params) == first, "the same bytes again");
    let refused = round.close(LIAR, &all).unwrap_err();
    let expected = ServerRoundError::AlreadyAnswered { answered: rest.digest(), asked: all.digest() };
    assert_eq!(refused, expected);
    assert_eq!((refused.attribution(), refused.retry()), (Attribution::Operator, Retry::Never));
    assert!(round.close(LIAR, &rest).unwrap().to_bytes(&NET.params) == first, "also after a refusal");
}

#[test]
fn an_envelope_after_the_answer_is_late_and_changes_nothing() {
    let mut round = NET.open(1);
    for client in NET.ids().filter(|id| *id != CHEAT) {
        round.submit(&round.client(client)).accepted();
    }
    let rest = NET.all_but(CHEAT);
    let sums = round.sums(&rest);
    // Whose post it is does not matter: being late is no fault.
    for client in [CHEAT, ClientId(0)] {
        for taken in &round.submit(&round.client(client)).envelopes {
            let refused = taken.as_ref().unwrap_err();
            assert_eq!(*refused, EnvelopeFault::Closed { client });
            assert_eq!((refused.attribution(), refused.retry()), (NOBODY, Retry::Never));
        }
    }
    assert_eq!(round.sums(&rest), sums);
    assert_eq!(round.recover(&rest, &sums).unwrap().plaintext, NET.expected(&rest));
}

#[test]
fn a_missing_client_may_still_arrive() {
    let mut round = NET.open(1);
    let mut last = None;
    for client in NET.ids() {
        let sent = round.client(client);
        if client == CHEAT { last = Some(sent) } else { drop(round.submit(&sent).accepted()) }
    }
    let all = NET.all();
    for server in 0..4 {
        let missing = ServerRoundError::MissingClient { client: CHEAT };
        assert_eq!(round.close(ServerId(server), &all), Err(missing));
    }
    round.submit(&last.unwrap()).accepted();
    let sums = round.sums(&all);
    // Sums do not depend on the order of arrival.
    assert_eq!(sums, SCENE.sums);
    assert_eq!(round.recover(&all, &sums).unwrap().plaintext, NET.expected(&all));
}

#[test]
fn a_server_answers_one_set_whatever_way_it_is_asked() {
    let mut round = NET.posted(1);
    let (all, rest) = (NET.all(), NET.all_but(CHEAT));
    let answer = round.close(LIAR, &all).unwrap();
    let (identity, inbox) = (&round.servers[2], &round.inboxes[2]);
    let ask = |set| run_server_round(&NET.params, round.session, identity, inbox, set);
    assert_eq!(ask(&all).as_ref(), Ok(&answer), "the same again");
    let refused = ServerRoundError::AlreadyAnswered { answered: all.digest(), asked: rest.digest() };
    assert_eq!(ask(&rest), Err(refused.clone()));
    // A second round object of the same server and session.
    let again = |session, inbox: &[(VerifiedPost, Envelope)]| {
        let mut again = ServerRound::new(Arc::clone(&NET.params), session, Arc::clone(identity));
        inbox.iter().for_each(|(post, envelope)| again.receive(post, envelope).unwrap());
        again
    };
    let mut second = again(round.session, inbox);
    assert_eq!(second.close(&rest), Err(refused));
    assert_eq!(second.close(&all), Ok(answer), "a refusal changes nothing");
    // Nor over the same clients with another post of one of them.
    let mut other = NET.open(1);
    for client in NET.ids().filter(|id| *id != CHEAT) {
        other.submit(&other.client(client)).accepted();
    }
    other.submit(&NET.open(1).lying_client(CHEAT, &ClientLie::SecondStatement)).accepted();
    let refused = again(round.session, &other.inboxes[2]).close(&all).unwrap_err();
    assert_eq!((refused.code(), refused.attribution()), ("server_other_posts", Attribution::Operator));
    // Another session is another matter.
    assert!(again(NET.session(2), &NET.posted(2).inboxes[2]).close(&rest).is_ok());
}
