//! What a client can do.

mod copies;

use super::wire::{high_s, lengths};
use super::{ANYBODYS, Cell, Ends, Lie, NO_BYTES, NO_OBJECT, Seen, TRUE_ELSEWHERE, WHO_DROPPED_IT, cell, no};
use crate::clients::{cheated, run};
use crate::{CHEAT, LIAR, NET, SCENE};
use panetiere::bulletin::{
    Answer, CanonicalSet, ClientBulletinEntry, Envelope, LaneItem, Mode, PostStatement, SignedPost,
    StatementContext,
};
use panetiere::evidence::{Evidence, Outcome};
use panetiere::fault::Fault;
use panetiere::ids::{CiphertextDigest, ClientId, ServerId};
use panetiere::protocol::{PostSum, unseal_opening, verify_answer};
use panetiere::testing::ClientLie;
use panetiere::wire::{Decode, DecodeWith, Encode, Reader};
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng;

use super::lane::{erasure, lane_item};

const SPOILS: &str = "one admitted client can spoil a round; the remedy is later rounds in random groups";
const ADDS_UP: &str = "only the sum over all clients is opened, and it does not say whose part is off";
const NOISE: &str = "a ciphertext that is not of the client's own key is noise in the sum, and only the sum is opened; equal \
    digests do not tell the copy from the original, as the log may have the copy first";

pub static CELLS: &[Cell] = &[
    no(Lie::WrongSum, "a client publishes no sum"),
    cell(Lie::WrongShare, &["envelope_bad_opening", "item_bad_share"], &[], Ends::Without, || {
        // With lanes: the lowest bit of a coded share.
        run(Lie::WrongShare).and(|| lane_item(|_, bodies| bodies[1][0] ^= 1))
    }),
    no(Lie::OtherSet, "a client does not say who is in the set"),
    cell(
        Lie::StaleSession,
        &["envelope_unopenable"],
        &[("statement_session", TRUE_ELSEWHERE)],
        Ends::Without,
        || run(Lie::StaleSession),
    ),
    cell(
        Lie::Replay,
        &[],
        &[
            ("statement_session", TRUE_ELSEWHERE),
            ("envelope_not_in_post", "the bytes that count are fetched again"),
        ],
        Ends::Same,
        replay,
    ),
    cell(
        Lie::OtherContext,
        &["envelope_stale_key", "envelope_unopenable", "statement_epoch", "statement_crs", "statement_mode"],
        &[("statement_deployment", TRUE_ELSEWHERE)],
        Ends::Without,
        || run(Lie::OtherContext),
    ),
    cell(Lie::Swapped, &["envelope_unopenable", "item_bad_share"], &[], Ends::Without, || {
        run(Lie::Swapped).and(|| lane_item(|_, bodies| bodies.swap(1, 2)))
    }),
    cell(
        Lie::BadPath,
        &["envelope_bad_opening", "item_bad_share"],
        &[(
            "envelope_not_in_post",
            "a path is not signed: anybody on the way can spoil it, and it is fetched again",
        )],
        Ends::Without,
        || {
            run(Lie::BadPath)
                .and(inclusion_path)
                .and(|| lane_item(|share_len, bodies| bodies[1][share_len] ^= 1))
        },
    ),
    cell(
        Lie::OutOfRangeDigit,
        &["envelope_malformed_opening", "post_ciphertext", "item_malformed"],
        &[],
        Ends::Without,
        || run(Lie::OutOfRangeDigit).and(|| lane_item(|_, bodies| bodies[1][..3].fill(0xFF))),
    ),
    cell(Lie::KernelVector, &["item_bad_share"], &[], Ends::Without, super::lane::client_kernel),
    cell(
        Lie::NonCodeword,
        &["rebuild_not_a_codeword"],
        &[(
            "lanes_not_a_codeword",
            "at the close only sums are at hand; k items, or bisection before the close, name it",
        )],
        Ends::Stops("without the client from the check on; closed over it unchecked, it has no codeword"),
        super::lane::client_non_codeword,
    ),
    cell(
        Lie::InconsistentShares,
        &[],
        &[
            (
                "shares_inconsistent",
                "shares are hidden but for their sum; which client's are off it does not say",
            ),
            (
                "noise_overflow",
                "with exactly t sums another key comes out, and nothing tells shares from noise",
            ),
        ],
        Ends::Stops(SPOILS),
        inconsistent,
    ),
    cell(Lie::OversizedNoise, &[], &[("noise_overflow", ADDS_UP)], Ends::Stops(SPOILS), || {
        run(Lie::OversizedNoise)
    }),
    cell(Lie::BadPayload, &[], &[("sketch_check_failed", ADDS_UP)], Ends::Stops(SPOILS), payload),
    cell(Lie::CopiedCiphertext, &[], &[("noise_overflow", NOISE)], Ends::Stops(SPOILS), copies::ciphertext),
    cell(
        Lie::CopiedRoot,
        &["envelope_bad_opening", "envelope_unopenable"],
        &[("noise_overflow", NOISE)],
        Ends::Stops("without the client; a copied share commitment is a copied ciphertext, and spoils it"),
        || copies::root().and(super::lane::client_copied_shares),
    ),
    cell(Lie::ForgedSignature, &[], &[("statement_signature", ANYBODYS)], Ends::Without, || {
        run(Lie::ForgedSignature)
    }),
    cell(
        Lie::HighS,
        &[],
        &[
            (NO_OBJECT, "anybody can flip s"),
            ("post_missing", "bytes that do not parse are no post: fetched again"),
        ],
        Ends::Same,
        flipped_s,
    ),
    cell(
        Lie::DuplicateId,
        &[],
        &[
            ("set_duplicate", "whoever composed the set did"),
            ("post_already_added", "the same bytes may be delivered twice"),
            ("envelope_already_received", "the same bytes may be delivered twice"),
        ],
        Ends::Same,
        duplicate,
    ),
    cell(
        Lie::TwoAnswers,
        &["post_double"],
        &[(
            "sum_posts",
            "of the server that was shown the second: honest, and not named; the log's first counts",
        )],
        Ends::Same,
        two_statements,
    ),
    no(Lie::OverlappingGroups, "a client forms no groups"),
    cell(
        Lie::ShortOrLongBody,
        &["statement_ciphertext_length"],
        &[(NO_OBJECT, NO_BYTES)],
        Ends::Without,
        || run(Lie::ShortOrLongBody).and(bodies),
    ),
    cell(
        Lie::Undelivered,
        &[],
        &[
            ("server_missing_client", WHO_DROPPED_IT),
            ("lane_missing_client", WHO_DROPPED_IT),
            ("post_body_mismatch", "the bytes may have been altered by whoever kept them"),
        ],
        Ends::Stops("nothing is released until they come; then as without the lie"),
        || undelivered().and(super::lane::client_undelivered),
    ),
    cell(
        Lie::FalseComplaint,
        &["answer_bad_opening"],
        &[("answer_signature", ANYBODYS)],
        Ends::Without,
        false_answer,
    ),
    no(Lie::ComplaintFlood, "clients do not complain"),
];

fn replay() -> Seen {
    let mut seen = Seen::default();
    let mut round = NET.posted(1);
    let sums = round.sums(&SCENE.set);
    let original = round.bulletin.insert(CHEAT, SCENE.earlier.bulletin[&CHEAT].clone()).unwrap();
    seen.fault(&round.recover(&SCENE.set, &sums).unwrap_err());
    round.bulletin.insert(CHEAT, original);
    seen.recovers(&round.recover(&SCENE.set, &sums).unwrap().plaintext, &NET.expected(&SCENE.set));
    let (post, _) = &SCENE.round.inboxes[2][1];
    seen.fault(&NET.open(1).deliver(LIAR, post, &SCENE.earlier.inboxes[2][1].1).unwrap_err());
    seen
}

fn inclusion_path() -> Seen {
    let mut seen = Seen::default();
    let (post, mut envelope) = SCENE.round.inboxes[2][1].clone();
    envelope.path[0][7] ^= 1;
    seen.fault(&NET.open(1).deliver(LIAR, &post, &envelope).unwrap_err());
    seen
}

fn inconsistent() -> Seen {
    let mut seen = run(Lie::InconsistentShares);
    let (mut round, _) =
        cheated(&SCENE.round.lying_client(CHEAT, &ClientLie::InconsistentShare(ServerId(3))));
    let sums = round.sums(&SCENE.set);
    seen.fault(&round.recover(&SCENE.set, &sums[1..]).unwrap_err());
    seen
}

fn payload() -> Seen {
    use panetiere::channel::{ChannelParams, Encoding, decode_messages, encode_message};
    let mut seen = Seen::default();
    let channel = ChannelParams::for_messages(Encoding::Sketch, 4, 40).unwrap();
    let net =
        panetiere::testing::deployment(101).servers(4).threshold(3).clients(4).channel(&channel).build();
    let post = |garbage: bool| {
        let mut round = net.open(0);
        for client in net.ids() {
            let mut rng = ChaCha20Rng::from_seed([u8::try_from(client.0).unwrap(); 32]);
            let said =
                encode_message(&mut rng, &channel, &round.session, &[b'0' + u8::try_from(client.0).unwrap()]);
            // The party's own message is a uniform vector: no encoding of anything.
            let garbage = (garbage && client == CHEAT).then(|| net.party(CHEAT).message.clone());
            round.submit(&round.client_with(client, &garbage.unwrap_or(said.unwrap()))).accepted();
        }
        round
    };
    let (mut round, all) = (post(true), net.all());
    let sums = round.sums(&all);
    let sum = round.recover(&all, &sums).unwrap().plaintext;
    seen.fault(&decode_messages(&channel, &round.session, &sum, None).unwrap_err());
    seen.stops();
    // Without it, and had it been honest.
    for (garbage, set) in [(true, net.all_but(CHEAT)), (false, all)] {
        let mut round = post(garbage);
        let sums = round.sums(&set);
        let sum = round.recover(&set, &sums).unwrap().plaintext;
        let messages = decode_messages(&channel, &round.session, &sum, None).unwrap();
        let said: Vec<Vec<u8>> =
            set.clients().iter().map(|client| vec![b'0' + u8::try_from(client.0).unwrap()]).collect();
        seen.delivers(&messages, &said);
    }
    seen
}

fn flipped_s() -> Seen {
    let mut seen = Seen::default();
    let mut round = NET.posted(1);
    let sums = round.sums(&SCENE.set);
    let original = round.bulletin[&CHEAT].clone();
    let flipped = high_s(&original, 4 + PostStatement::len(Mode::Direct));
    let parsed = ClientBulletinEntry::from_bytes_with(&NET.params, &flipped);
    assert_eq!(parsed.as_ref().unwrap_err().kind, panetiere::wire::DecodeErrorKind::NotCanonical);
    seen.no_object(parsed);
    round.bulletin.insert(CHEAT, flipped);
    seen.fault(&round.recover(&SCENE.set, &sums).unwrap_err());
    round.bulletin.insert(CHEAT, original);
    seen.recovers(&round.recover(&SCENE.set, &sums).unwrap().plaintext, &NET.expected(&SCENE.set));
    seen
}

fn duplicate() -> Seen {
    let mut seen = Seen::default();
    seen.fault(&CanonicalSet::new([0, 1, 2, 1].map(ClientId)).unwrap_err());
    let mut round = NET.posted(1);
    let (post, envelope) = round.inboxes[2][1].clone();
    seen.fault(&round.deliver(LIAR, &post, &envelope).unwrap_err());
    let (key, post) = round.fetch(CHEAT).unwrap();
    let mut sum = PostSum::new(&NET.params, round.session, &SCENE.set);
    sum.add(&key, &post).unwrap();
    seen.fault(&sum.add(&key, &post).unwrap_err());
    let sums = round.sums(&SCENE.set);
    seen.recovers(&round.recover(&SCENE.set, &sums).unwrap().plaintext, &NET.expected(&SCENE.set));
    seen
}

fn two_statements() -> Seen {
    let mut seen = Seen::default();
    let second = SCENE.round.lying_client(CHEAT, &ClientLie::SecondStatement);
    let (mut shown, delivery) = cheated(&second);
    delivery.accepted();
    let entries =
        [&[shown.close(LIAR, &SCENE.set).unwrap()][..], &SCENE.sums[..2], &SCENE.sums[3..]].concat();
    let recovered = SCENE.round.recover(&SCENE.set, &entries).unwrap();
    recovered.discarded.iter().for_each(|fault| seen.fault(fault));
    assert!(recovered.culprits.is_empty());
    // Whoever has both statements can show them to anybody.
    let key = NET.party(CHEAT).signing_key.verifying_key();
    let first = SCENE.round.client(CHEAT).post.head.signed;
    let both = [&first, &second.post.head.signed];
    let evidence = Evidence::double_post(&NET.params, &NET.epoch, &key, both).to_bytes();
    let verdict = Evidence::from_bytes(&evidence).unwrap().verify(NET.params.lattice().kernels()).unwrap();
    let Outcome::Convicts(finding) = verdict.outcome else { panic!("{verdict:?}") };
    seen.fault(&finding);
    seen.recovers(&recovered.plaintext, &NET.expected(&SCENE.set));
    seen
}

fn bodies() -> Seen {
    let mut seen = Seen::default();
    let sent = SCENE.round.client(CHEAT);
    let params = &*NET.params;
    lengths(&mut seen, &sent.post.to_bytes(params), |bytes| {
        ClientBulletinEntry::from_bytes_with(params, bytes)
    });
    lengths(&mut seen, &sent.envelopes[2].to_bytes(), |bytes| Envelope::from_bytes_with(params, bytes));
    let net = erasure();
    let item = net.client(&net.session(0), 1).items[1].to_bytes();
    lengths(&mut seen, &item, |bytes| LaneItem::from_bytes_with(&*net.params, bytes));
    seen
}

fn undelivered() -> Seen {
    let (mut seen, all) = (Seen::default(), NET.all());
    let (mut round, sent) = (NET.open(1), SCENE.round.client(CHEAT));
    for client in NET.ids().filter(|id| *id != CHEAT) {
        round.submit(&round.client(client)).accepted();
    }
    let post = SCENE.round.inboxes[2][1].0.clone();
    round.bulletin.insert(CHEAT, sent.post.to_bytes(&NET.params));
    for server in [0, 1, 3].map(ServerId) {
        round.deliver(server, &post, &sent.envelopes[usize::from(server.0)]).unwrap();
    }
    seen.fault(&round.close(LIAR, &all).unwrap_err());
    let others: Vec<_> = [0, 1, 3].map(|server| round.close(ServerId(server), &all).unwrap()).into();
    seen.recovers(&round.recover(&all, &others).unwrap().plaintext, &NET.expected(&all));
    round.deliver(LIAR, &post, &sent.envelopes[2]).unwrap();
    assert_eq!(round.close(LIAR, &all).as_ref(), Ok(&SCENE.sums[2]), "in time it is as if nothing had been");

    // The digest of a body that it never publishes.
    let mut nothing = sent.clone();
    let claim = sent.post.head.signed.claim().clone();
    let ciphertext = CiphertextDigest::decode(&mut Reader::new(&[7; 32])).unwrap();
    nothing.post.head.signed =
        SignedPost::sign(PostStatement { ciphertext, ..claim }, &NET.party(CHEAT).signing_key);
    let (mut round, delivery) = cheated(&nothing);
    delivery.accepted();
    let sums = round.sums(&all);
    seen.fault(&round.recover(&all, &sums).unwrap_err());
    seen.stops();
    seen
}

fn false_answer() -> Seen {
    let mut seen = Seen::default();
    let round = NET.posted(1);
    let opening = |server: u16| {
        let (post, envelope) = &round.inboxes[usize::from(server)][1];
        unseal_opening(NET.server(ServerId(server)), &NET.params, post, envelope).unwrap().0
    };
    let post = &round.inboxes[2][1].0;
    let (params, key) = (&NET.params, NET.party(CHEAT).signing_key.verifying_key());
    let context = StatementContext::new(params, &round.session);
    let leaf = super::server::checked(&round, 2, &[CHEAT]);
    // Another server's opening instead of the one asked for; the right one under a foreign signature.
    for (server, signer) in [(3, CHEAT), (2, ClientId(0))] {
        let signer = &NET.party(signer).signing_key;
        let answer = Answer::sign(context, CHEAT, ServerId(2), &opening(server), params, signer);
        let answer = Answer::from_bytes_with(&**params, &answer.to_bytes()).unwrap();
        let fault = verify_answer(params, &round.session, &key, post, &answer).unwrap_err();
        seen.fault(&fault);
        let set = super::server::rule(&round, std::slice::from_ref(&leaf), &[answer]);
        assert_eq!(set.members, NET.all_but(CHEAT).clients());
        let named = set.excluded[&CHEAT].attribution();
        assert_eq!(named, if server == 3 { fault.attribution() } else { crate::NOBODY });
    }
    copies::without(&mut seen, &round.client(CHEAT));
    seen
}
