//! Complaint and answer: who is in the set, who is named, and what a client never reveals.
//!
//! Four servers, any three of which recover, one of them assumed faulty: a client answers one complaint. Client 1 lies.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

use chipmunk::params::P1000;
use panetiere::bulletin::{Answer, Checked, Envelope, SignedPost, StatementContext, VerifiedPost};
use panetiere::cs::FreshOpening;
use panetiere::fault::{Attribution, Fault};
use panetiere::ids::{ClientId, EpochDigest, ServerId, StatementDigest};
use panetiere::protocol::{
    AnswerFault, AnswerGuard, CheckedSet, Exclusion, ServerRoundError, Standing, compare_checked, complain,
    set_rule, unseal_opening, verify_answer, verify_checked, verify_complaint,
};
use panetiere::sig::VerifyingKey;
use panetiere::testing::{ClientLie, Net, OpeningPart, Round, deployment};
use panetiere::wire::{Decode, DecodeWith, Encode};
use rayon::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, LazyLock};

const CHEAT: ClientId = ClientId(1);

static NET: LazyLock<Net> =
    LazyLock::new(|| deployment(500).servers(4).threshold(3).faulty(1).clients(4).build());

fn client_key(client: ClientId) -> VerifyingKey {
    NET.party(client).signing_key.verifying_key()
}

fn context(round: &Round<'_>) -> StatementContext {
    StatementContext::new(&NET.params, &round.session)
}

/// What every server received, whether it could open it or not.
fn pair(round: &Round<'_>, server: u16, client: ClientId) -> (VerifiedPost, Envelope) {
    let pair = round.inboxes[usize::from(server)].iter().find(|(post, _)| post.client() == client);
    pair.unwrap().clone()
}

/// What `server` signs if it complains about these clients, rightly or not; read back from its bytes.
fn checked(round: &Round<'_>, server: u16, about: &[ClientId]) -> Checked {
    let complaints =
        about.iter().map(|client| (*client, pair(round, server, *client).0.statement().digest()));
    let key = NET.server(ServerId(server)).signing_key();
    let checked = Checked::sign(context(round), ServerId(server), complaints.collect(), key);
    Checked::from_bytes_with(&*NET.params, &checked.to_bytes()).unwrap()
}

fn opening(round: &Round<'_>, server: u16, client: ClientId) -> FreshOpening {
    let (post, envelope) = pair(round, server, client);
    unseal_opening(NET.server(ServerId(server)), &NET.params, &post, &envelope).unwrap().0
}

fn answer(round: &Round<'_>, client: ClientId, server: u16, opening: &FreshOpening) -> Answer {
    let key = &NET.party(client).signing_key;
    let answer = Answer::sign(context(round), client, ServerId(server), opening, &NET.params, key);
    Answer::from_bytes_with(&*NET.params, &answer.to_bytes()).unwrap()
}

fn rule(round: &Round<'_>, checked: &[Checked], answers: &[Answer]) -> CheckedSet {
    let candidates = NET.ids().map(|client| (client, (client_key(client), pair(round, 0, client).0)));
    let candidates = candidates.collect();
    set_rule(&NET.params, &round.session, &NET.epoch, &candidates, checked, answers).unwrap()
}

/// Asserts that everybody but the cheat is in, and why the cheat is not.
fn assert_out(set: &CheckedSet, code: &str, named: Attribution) {
    assert_eq!(set.members, [0, 2, 3].map(ClientId));
    assert_eq!(set.excluded.keys().copied().collect::<Vec<_>>(), [CHEAT]);
    let exclusion = &set.excluded[&CHEAT];
    assert_eq!((exclusion.code(), exclusion.attribution()), (code, named), "{exclusion}");
}

/// A round in which everybody has posted, the cheat with this lie.
fn cheated(lie: &ClientLie) -> Round<'static> {
    let mut round = NET.open(1);
    for client in NET.ids().filter(|id| *id != CHEAT) {
        round.submit(&round.client(client)).accepted();
    }
    let sent = round.lying_client(CHEAT, lie);
    round.submit(&sent).statement.unwrap();
    round
}

#[test]
fn a_server_complains_about_what_a_client_signed_and_about_nothing_else() {
    let stale = Box::new(deployment(500).servers(4).threshold(3).epoch(1).build());
    let key = || Box::new(stale.server(ServerId(2)).envelope_key().public_key());
    for lie in [
        ClientLie::Garbage { server: ServerId(2), fill: 0xFF },
        ClientLie::Garbage { server: ServerId(2), fill: 0 },
        ClientLie::Opening(ServerId(2), OpeningPart::Seed),
        ClientLie::StaleKey { server: ServerId(2), key: key(), stated: true },
        ClientLie::StaleKey { server: ServerId(2), key: key(), stated: false },
        ClientLie::SwappedEnvelopes(ServerId(2), ServerId(3)),
    ] {
        let round = cheated(&lie);
        let (post, envelope) = pair(&round, 2, CHEAT);
        let identity = NET.server(ServerId(2));
        let right = complain(identity, &NET.params, &post, &envelope).unwrap();
        assert_eq!(right, post.statement().digest(), "{lie:?}");
        // Undelivered is no complaint.
        let mut altered = envelope.clone();
        altered.sealed[3] ^= 1;
        let refused = complain(identity, &NET.params, &post, &altered).unwrap_err();
        assert_eq!((refused.code(), refused.attribution()), ("envelope_not_in_post", Attribution::Nobody));
        // The others have nothing to complain about, and nobody has about an honest client.
        let (post, envelope) = pair(&round, 0, CHEAT);
        let refused = complain(NET.server(ServerId(0)), &NET.params, &post, &envelope).unwrap_err();
        assert_eq!((refused.code(), refused.attribution()), ("complaint_good_envelope", Attribution::Caller));
        let (post, envelope) = pair(&round, 2, ClientId(0));
        assert_eq!(
            complain(identity, &NET.params, &post, &envelope).unwrap_err().code(),
            "complaint_good_envelope"
        );

        // It stands under the client's signature; without an answer the client is out and nobody is named.
        let leaf = checked(&round, 2, &[CHEAT]);
        assert_eq!(verify_complaint(&leaf, &pair(&round, 0, CHEAT).0), Ok(true));
        assert_out(&rule(&round, &[leaf], &[]), "complaint_unanswered", Attribution::Nobody);
    }
}

#[test]
fn a_false_complaint_is_answered_and_the_round_goes_on() {
    // Server 2 complains about an honest client and has not taken its envelope. The answer takes its place.
    let mut round = NET.open(1);
    let (sent, mut guard) = round.guarded_client(CHEAT);
    for client in NET.ids() {
        let honest = round.client(client);
        assert!(client != CHEAT || honest == sent);
        round.submit(&honest).accepted();
    }
    assert!(round.running[2].withdraw(CHEAT));
    let leaves: Vec<Checked> =
        (0..4).map(|server| checked(&round, server, if server == 2 { &[CHEAT] } else { &[] })).collect();
    assert_out(&rule(&round, &leaves, &[]), "complaint_unanswered", Attribution::Nobody);
    for leaf in &leaves {
        assert_eq!(guard.standing(), Standing::Waiting);
        assert!(guard.answers(&NET.party(CHEAT).signing_key).is_empty());
        guard.observe(leaf).unwrap();
    }
    assert_eq!(guard.standing(), Standing::Answering);
    let answers = guard.answers(&NET.party(CHEAT).signing_key);
    assert_eq!((answers.len(), answers[0].server(), guard.revealed()), (1, ServerId(2), 1));
    assert!(guard.answers(&NET.party(CHEAT).signing_key).is_empty(), "once");

    let set = rule(&round, &leaves, &answers);
    assert_eq!((set.members, set.excluded), (NET.all().clients().to_vec(), BTreeMap::new()));
    let (post, key) = (pair(&round, 0, CHEAT).0, client_key(CHEAT));
    let refused = round.running[1].receive_answer(&key, &post, &answers[0]).unwrap_err();
    assert_eq!((refused.code(), refused.attribution()), ("answer_wrong_server", Attribution::Caller));
    let other = &client_key(ClientId(0));
    assert_eq!(
        round.running[2].receive_answer(other, &post, &answers[0]).unwrap_err().code(),
        "answer_signature"
    );
    round.running[2].receive_answer(&key, &post, &answers[0]).unwrap();
    let again = round.running[2].receive_answer(&key, &post, &answers[0]).unwrap_err();
    assert_eq!(again.code(), "envelope_already_received");
    let sums = round.sums(&NET.all());
    let recovered = round.recover(&NET.all(), &sums[1..]).unwrap();
    assert_eq!(recovered.plaintext, NET.expected(&NET.all()));
    assert!(recovered.culprits.is_empty());
}

#[test]
fn a_client_that_sealed_garbage_may_answer_with_the_truth() {
    let round = cheated(&ClientLie::SwappedEnvelopes(ServerId(2), ServerId(3)));
    // Its own openings, which it did not seal where they belong: those of an honest run from the same randomness.
    let honest = NET.posted(1);
    let leaf = checked(&round, 2, &[CHEAT]);
    let truth = answer(&round, CHEAT, 2, &opening(&honest, 2, CHEAT));
    assert_eq!(rule(&round, &[leaf], &[truth]).members, NET.all().clients());
}

#[test]
fn complaints_beyond_the_cap_are_not_answered_and_the_client_is_out() {
    let round = NET.posted(1);
    let (_, mut guard) = round.guarded_client(CHEAT);
    let leaves: Vec<Checked> =
        (0..4).map(|server| checked(&round, server, if server < 2 { &[CHEAT] } else { &[] })).collect();
    leaves.iter().for_each(|leaf| guard.observe(leaf).unwrap());
    assert_eq!(guard.standing(), Standing::Silent);
    assert!(guard.answers(&NET.party(CHEAT).signing_key).is_empty());
    assert_eq!(guard.revealed(), 0);
    // Answers would not help either: the rule is the same for everybody.
    let answers = [0, 1].map(|server| answer(&round, CHEAT, server, &opening(&round, server, CHEAT)));
    for answers in [&[][..], &answers] {
        let set = rule(&round, &leaves, answers);
        assert_out(&set, "complaints_above_cap", Attribution::Nobody);
        let above = Exclusion::TooManyComplaints { client: CHEAT, complaints: 2, cap: 1 };
        assert_eq!(set.excluded[&CHEAT], above);
    }
    // One server that complains twice is one.
    let twice = [leaves[0].clone(), leaves[0].clone(), leaves[2].clone()];
    assert_eq!(rule(&round, &twice, &answers).members, NET.all().clients());
}

#[test]
fn what_is_no_answer_does_not_exist_and_a_bad_one_counts() {
    let (round, earlier) = (NET.posted(1), NET.posted(0));
    let leaf = [checked(&round, 2, &[CHEAT])];
    let good = answer(&round, CHEAT, 2, &opening(&round, 2, CHEAT));
    let post = pair(&round, 0, CHEAT).0;
    let verify = |answer: &Answer| {
        verify_answer(&NET.params, &round.session, &client_key(CHEAT), &post, answer)
            .map(|_| ())
            .map_err(|fault| (fault.code(), fault.attribution()))
    };
    assert_eq!(verify(&good), Ok(()));

    // In the client's name by somebody else, of another session, to another server, of another client.
    let opened = || opening(&round, 2, CHEAT);
    let context = context(&round);
    let foreign = &NET.party(ClientId(0)).signing_key;
    let forged = Answer::sign(context, CHEAT, ServerId(2), &opened(), &NET.params, foreign);
    let old = answer(&earlier, CHEAT, 2, &opening(&earlier, 2, CHEAT));
    let elsewhere = answer(&round, CHEAT, 3, &opening(&round, 3, CHEAT));
    let other = answer(&round, ClientId(0), 2, &opening(&round, 2, ClientId(0)));
    assert_eq!(verify(&forged), Err(("answer_signature", Attribution::Nobody)));
    assert_eq!(verify(&old), Err(("context_session", Attribution::Nobody)));
    assert_eq!(verify(&other), Err(("answer_wrong_client", Attribution::Caller)));
    let void = [forged, old, elsewhere, other];
    assert_out(&rule(&round, &leaf, &void), "complaint_unanswered", Attribution::Nobody);
    let with_good = [&void[..], std::slice::from_ref(&good)].concat();
    assert_eq!(rule(&round, &leaf, &with_good).members, NET.all().clients());

    // The client itself signs the opening of another server, of another session, of another client: it is out and named,
    // whatever it sends after.
    for swapped in [opening(&round, 3, CHEAT), opening(&earlier, 2, CHEAT), opening(&round, 2, ClientId(0))] {
        let bad = answer(&round, CHEAT, 2, &swapped);
        assert_eq!(verify(&bad), Err(("answer_bad_opening", Attribution::Client(CHEAT))));
        for answers in [&[bad.clone()][..], &[bad.clone(), good.clone()]] {
            assert_out(&rule(&round, &leaf, answers), "answer_bad_opening", Attribution::Client(CHEAT));
        }
        assert_eq!(rule(&round, &leaf, &[good.clone(), bad]).members, NET.all().clients());
    }
    assert!(matches!(
        verify_answer(
            &NET.params,
            &round.session,
            &client_key(CHEAT),
            &post,
            &answer(&round, CHEAT, 2, &opening(&round, 1, CHEAT))
        ),
        Err(AnswerFault::BadOpening { client: CHEAT, server: ServerId(2), .. })
    ));
}

#[test]
fn what_is_no_complaint_does_not_exist() {
    let (round, earlier) = (NET.posted(1), NET.posted(0));
    let (_, mut guard) = round.guarded_client(CHEAT);
    let signed = |server: u16, key: u16, context: StatementContext, about: StatementDigest| {
        let key = NET.server(ServerId(key)).signing_key();
        Checked::sign(context, ServerId(server), BTreeMap::from([(CHEAT, about)]), key)
    };
    let stated = |round: &Round<'_>, client| pair(round, 2, client).0.statement().digest();
    let right = || stated(&round, CHEAT);
    let here = context(&round);
    // What the client has signed besides, for whatever reason: a server that was shown this one complains about it.
    let second = NET.open(1).lying_client(CHEAT, &ClientLie::SecondStatement);
    let second = second.post.head.signed.claim().digest();
    assert_ne!(second, right());
    let nonsense = StatementDigest::from_bytes(&[7; 32]).unwrap();
    let mut epoch = here;
    epoch.epoch = EpochDigest::from_bytes(&[1; 32]).unwrap();
    let rows = [
        ("a statement that there is not", signed(2, 2, here, nonsense), "complaint_other_statement"),
        ("another statement of the client", signed(2, 2, here, second), "complaint_other_statement"),
        (
            "another client's statement",
            signed(2, 2, here, stated(&round, ClientId(0))),
            "complaint_other_statement",
        ),
        (
            "an earlier session's statement",
            signed(2, 2, here, stated(&earlier, CHEAT)),
            "complaint_other_statement",
        ),
        ("an earlier session's leaf", checked(&earlier, 2, &[CHEAT]), "context_session"),
        ("another epoch's leaf", signed(2, 2, epoch, right()), "context_epoch"),
        ("another server's signature", signed(2, 1, here, right()), "checked_signature"),
        ("a server that does not exist", signed(4, 2, here, right()), "checked_unknown_server"),
    ];
    for (row, leaf, code) in rows {
        let refused = guard.observe(&leaf).unwrap_err();
        assert_eq!((refused.code(), refused.attribution()), (code, Attribution::Nobody), "{row}");
        assert_eq!(rule(&round, &[leaf], &[]).members, NET.all().clients(), "{row}");
    }
    guard.deadline();
    assert_eq!((guard.standing(), guard.revealed()), (Standing::Answering, 0));
    assert!(guard.answers(&NET.party(CHEAT).signing_key).is_empty());
}

#[test]
fn a_server_signs_one_statement_of_its_complaints() {
    let round = NET.posted(1);
    let (without, with) = (checked(&round, 2, &[]), checked(&round, 2, &[CHEAT]));
    let compare = |a: &Checked, b: &Checked| {
        compare_checked(&NET.params, &round.session, &NET.epoch, a, b)
            .map_err(|fault| (fault.code(), fault.attribution()))
    };
    let double = Err(("checked_double", Attribution::Server(ServerId(2))));
    assert_eq!((compare(&without, &with), compare(&with, &without)), (double, double));
    assert_eq!(compare(&with, &with), Ok(()));
    let forged =
        Checked::sign(context(&round), ServerId(2), BTreeMap::new(), NET.server(ServerId(1)).signing_key());
    assert_eq!(compare(&with, &forged), Err(("checked_signature", Attribution::Nobody)));
    // In the log the first one counts.
    assert_eq!(rule(&round, &[without.clone(), with.clone()], &[]).members, NET.all().clients());
    assert_out(
        &rule(&round, &[with.clone(), without.clone()], &[]),
        "complaint_unanswered",
        Attribution::Nobody,
    );

    // And a server's own keys do not sign a second.
    let identity = &round.servers[2];
    let sign = |leaf: &Checked| identity.sign_checked(&NET.params, &round.session, leaf.complaints().clone());
    assert_eq!(sign(&with), Ok(with.clone()));
    assert_eq!(sign(&with), Ok(with));
    assert_eq!(sign(&without), Err(ServerRoundError::AlreadyChecked { server: ServerId(2) }));
    let of = |clients| (0..clients).map(|client| (ClientId(client), nobodys(client))).collect();
    let too_many = identity.sign_checked(&NET.params, &NET.session(2), of(301));
    assert_eq!(too_many, Err(ServerRoundError::TooManyComplaints { got: 301, max: 300 }));
    assert_eq!(identity.sign_checked(&NET.params, &NET.session(2), of(300)).unwrap().complaints().len(), 300);
}

fn nobodys(client: u32) -> StatementDigest {
    let bytes = [client.to_le_bytes(); 8].concat();
    StatementDigest::from_bytes(&bytes).unwrap()
}

#[test]
fn a_thousand_complaints_fit_an_entry_of_the_log() {
    let net = deployment(503).servers(2).threshold(2).clients(2).set(&P1000).build();
    assert_eq!(net.params.max_clients(), 1000);
    let context = StatementContext::new(&net.params, &net.session(0));
    let sign = |clients| {
        let complaints = (0..clients).map(|client| (ClientId(client), nobodys(client))).collect();
        Checked::sign(context, ServerId(1), complaints, net.server(ServerId(1)).signing_key())
    };
    let (all, bytes) = (sign(1000), sign(1000).to_bytes());
    assert_eq!(bytes.len(), 36_202);
    assert!(bytes.len() <= tlog::entry::MAX_ENTRY_BYTES);
    let read = Checked::from_bytes_with(&*net.params, &bytes).unwrap();
    assert_eq!(read, all);
    assert_eq!(verify_checked(&net.params, &net.session(0), &net.epoch, &read), Ok(()));
    let refused = Checked::from_bytes_with(&*net.params, &sign(1001).to_bytes()).unwrap_err();
    assert_eq!(refused.what, "number of complaints");
}

#[test]
fn complaints_work_with_lanes_too() {
    let net = deployment(501).servers(3).threshold(2).lanes(2, 3).clients(2).build();
    let round = net.open(0);
    let sent = round.rs_client(ClientId(0));
    let key = net.party(ClientId(0)).signing_key.verifying_key();
    let post = sent.post.signed.check(&net.params, &round.session, &key).unwrap();
    let context = StatementContext::new(&net.params, &round.session);
    for server in (0..3).map(ServerId) {
        let complaints = BTreeMap::from([(ClientId(0), post.statement().digest())]);
        let leaf = Checked::sign(context, server, complaints, net.server(server).signing_key());
        let leaf = Checked::from_bytes_with(&*net.params, &leaf.to_bytes()).unwrap();
        assert_eq!(verify_checked(&net.params, &round.session, &net.epoch, &leaf), Ok(()));
        assert_eq!(verify_complaint(&leaf, &post), Ok(true));
        let mut other: SignedPost = sent.post.signed.clone();
        std::mem::swap(&mut other, &mut round.rs_client(ClientId(1)).post.signed);
        let key = net.party(ClientId(1)).signing_key.verifying_key();
        let other = other.check(&net.params, &round.session, &key).unwrap();
        assert_eq!(verify_complaint(&leaf, &other), Ok(false), "about another client");
    }
}

/// One client's guard, again and again, and what its servers may say of it.
struct Watched {
    net: Net,
    post: VerifiedPost,
    openings: Vec<Vec<u8>>,
    /// By server: without and with a complaint.
    leaves: Vec<[Checked; 2]>,
}

impl Watched {
    fn new(servers: u16, threshold: u16, faulty: u16) -> Self {
        let net = deployment(502).servers(servers).threshold(threshold).faulty(faulty).clients(2).build();
        let round = net.posted(0);
        let post = round.inboxes[0].iter().find(|(post, _)| post.client() == CHEAT).unwrap().0.clone();
        let context = StatementContext::new(&net.params, &round.session);
        let (mut openings, mut leaves) = (Vec::new(), Vec::new());
        for (server, identity) in (0..).map(ServerId).zip(&net.servers) {
            let (post, envelope) =
                round.inboxes[usize::from(server.0)].iter().find(|(post, _)| post.client() == CHEAT).unwrap();
            let (opening, _) = unseal_opening(identity, &net.params, post, envelope).unwrap();
            openings.push(opening.to_bytes(net.params.cs()).to_vec());
            let about = BTreeMap::from([(CHEAT, post.statement().digest())]);
            let key = identity.signing_key();
            let leaf = |about| Checked::sign(context, server, about, key);
            leaves.push([leaf(BTreeMap::new()), leaf(about)]);
        }
        Self { post, openings, leaves, net }
    }

    fn guard(&self) -> AnswerGuard {
        let opening = |bytes: &Vec<u8>| FreshOpening::from_bytes_with(self.net.params.cs(), bytes).unwrap();
        let openings = self.openings.iter().map(opening).collect();
        let params = Arc::clone(&self.net.params);
        AnswerGuard::new(params, self.net.epoch.clone(), self.post.clone(), openings).unwrap()
    }

    /// Shows the guard these leaves in this order, with the deadline before number `deadline`, and asks for answers after
    /// every step. Returns what it revealed.
    fn show(&self, order: &[(u16, bool)], deadline: usize) -> BTreeSet<u16> {
        let (servers, cap) = (self.leaves.len(), usize::from(self.net.params.max_answers()));
        let key = &self.net.party(CHEAT).signing_key;
        let mut guard = self.guard();
        let (mut seen, mut complaining, mut revealed) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        for step in 0..=order.len() {
            if step == deadline {
                guard.deadline();
            } else if step == 0 {
                continue;
            }
            if step > 0 {
                let (server, complains) = order[step - 1];
                guard.observe(&self.leaves[usize::from(server)][usize::from(complains)]).unwrap();
                seen.insert(server);
                if complains {
                    complaining.insert(server);
                }
            }
            // The rule, in the words of protocol.md.
            let due = (step >= deadline || seen.len() == servers) && complaining.len() <= cap;
            let expected: BTreeSet<u16> =
                if due { complaining.difference(&revealed).copied().collect() } else { BTreeSet::new() };
            let answers = guard.answers(key);
            let given: BTreeSet<u16> = answers.iter().map(|answer| answer.server().0).collect();
            assert_eq!((given.len(), &given), (answers.len(), &expected), "{order:?}, {deadline}, {step}");
            assert!(given.is_disjoint(&revealed), "one server is answered once");
            revealed.extend(given);
            assert!(revealed.len() <= cap && guard.revealed() == revealed.len(), "{order:?}, {deadline}");
        }
        revealed
    }
}

#[test]
fn whatever_two_views_show_a_client_never_reveals_more_than_the_cap() {
    for (servers, threshold, faulty) in [(2, 2, 0), (2, 2, 1), (3, 2, 0), (3, 2, 1), (3, 3, 0), (4, 3, 1)] {
        let watched = Watched::new(servers, threshold, faulty);
        let cap = usize::from(watched.net.params.max_answers());
        assert_eq!(cap, usize::from(threshold - 1 - faulty));
        let view =
            |complaining: u32| (0..servers).map(move |server| (server, complaining >> server & 1 == 1));
        let subsets = 1u32 << servers;
        // All that complain in one view, all that complain in the other.
        let most = (0..subsets * subsets).into_par_iter().map(|both| {
            let (first, second) = (both / subsets, both % subsets);
            let one_by_one: Vec<_> = view(first).chain(view(second)).collect();
            let mixed: Vec<_> = view(first).zip(view(second)).flat_map(|(a, b)| [a, b]).collect();
            let shown = one_by_one.len();
            // Small rosters: the deadline anywhere, or never. Four servers: at the start, between the views, never.
            let deadlines: Vec<usize> =
                if servers < 4 { (0..=shown + 1).collect() } else { vec![0, shown / 2, shown + 1] };
            let mut most = 0;
            for deadline in deadlines {
                let revealed = watched.show(&one_by_one, deadline);
                let union: BTreeSet<u16> =
                    view(first | second).filter(|(_, yes)| *yes).map(|(s, _)| s).collect();
                assert!(revealed.is_subset(&union));
                if deadline > shown / 2 && usize::try_from(first.count_ones()).unwrap() > cap {
                    assert!(revealed.is_empty(), "above the cap nothing is answered");
                }
                if union.len() <= cap {
                    assert_eq!(revealed, union, "below the cap every complaint is answered");
                }
                most = most.max(revealed.len());
                // Both views at once: with the deadline early, and never.
                if servers < 4 && [2, shown + 1].contains(&deadline) {
                    most = most.max(watched.show(&mixed, deadline).len());
                }
            }
            most
        });
        // The cap is reached, and never exceeded.
        assert_eq!(most.max(), Some(cap));
    }
}
