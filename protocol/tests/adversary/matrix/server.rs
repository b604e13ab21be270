//! What a server can do, and what others can do with its bytes.

use super::kernel::{kernel, splice};
use super::wire::{high_s, lengths};
use super::{
    ANYBODYS, Cell, Ends, Lie, NO_BYTES, NO_OBJECT, OTHER_LOG, Seen, TRUE_ELSEWHERE, WHO_DROPPED_IT, cell, no,
};
use crate::servers::{honest, run};
use crate::{CHEAT, LIAR, NET, SCENE};
use panetiere::bulletin::{Answer, Checked, ServerBulletinEntry, StatementContext, SumClaim};
use panetiere::cs::OpeningError;
use panetiere::evidence::Evidence;
use panetiere::fault::Attribution;
use panetiere::ids::{ClientId, ServerId, StatementDigest};
use panetiere::protocol::{
    AnswerGuard, CheckedSet, Standing, compare_checked, complain, set_rule, verify_complaint,
};
use panetiere::testing::Round;
use panetiere::wire::{Decode, DecodeWith, Encode};
use std::collections::BTreeMap;

pub static CELLS: &[Cell] = &[
    cell(Lie::WrongSum, &["sum_invalid_opening"], &[], Ends::Same, || run(Lie::WrongSum)),
    cell(Lie::WrongShare, &["sum_invalid_opening"], &[], Ends::Same, || run(Lie::WrongShare)),
    cell(Lie::OtherSet, &[], &[("sum_set", OTHER_LOG)], Ends::Same, || run(Lie::OtherSet)),
    cell(Lie::StaleSession, &["sum_invalid_opening"], &[("sum_session", TRUE_ELSEWHERE)], Ends::Same, || {
        run(Lie::StaleSession)
    }),
    cell(Lie::Replay, &[], &[("sum_session", TRUE_ELSEWHERE)], Ends::Same, || run(Lie::Replay)),
    cell(
        Lie::OtherContext,
        &["sum_crs", "sum_epoch"],
        &[("sum_deployment", TRUE_ELSEWHERE)],
        Ends::Same,
        || run(Lie::OtherContext),
    ),
    cell(Lie::Swapped, &["sum_invalid_opening"], &[], Ends::Same, || run(Lie::Swapped)),
    cell(Lie::BadPath, &["sum_invalid_opening"], &[], Ends::Same, || run(Lie::BadPath)),
    // A digit beyond its bound does not fit its field. A claim of more clients makes the field wider.
    cell(Lie::OutOfRangeDigit, &["sum_count"], &[(NO_OBJECT, NO_BYTES)], Ends::Same, out_of_range),
    cell(
        Lie::KernelVector,
        &[],
        &[(NO_OBJECT, "a kernel vector is longer than the field of a digit sum: it cannot be sent")],
        Ends::Same,
        kernel_vector,
    ),
    no(Lie::NonCodeword, "key shares are not erasure-coded"),
    no(Lie::InconsistentShares, "a server deals no shares; one it alters is a wrong share"),
    no(Lie::OversizedNoise, "a server adds to no ciphertext"),
    no(Lie::BadPayload, "a server adds to no ciphertext"),
    no(Lie::CopiedCiphertext, "a server publishes no ciphertext"),
    no(Lie::CopiedRoot, "a server publishes no root; another's opening is a swapped sum"),
    cell(Lie::ForgedSignature, &[], &[("sum_signature", ANYBODYS)], Ends::Same, || run(Lie::ForgedSignature)),
    cell(Lie::HighS, &[], &[(NO_OBJECT, "anybody can flip s")], Ends::Same, || {
        bytes(|seen, sum| {
            let flipped = high_s(sum, sum.len() - 64);
            seen.no_object(ServerBulletinEntry::from_bytes_with(&NET.params, &flipped));
        })
    }),
    cell(Lie::DuplicateId, &[], &[("sum_unknown_server", ANYBODYS)], Ends::Same, || run(Lie::DuplicateId)),
    cell(Lie::TwoAnswers, &["sum_double", "checked_double"], &[], Ends::Same, || {
        run(Lie::TwoAnswers).and(two_checked)
    }),
    no(Lie::OverlappingGroups, "a server forms no groups"),
    cell(Lie::ShortOrLongBody, &[], &[(NO_OBJECT, NO_BYTES)], Ends::Same, || {
        bytes(|seen, sum| {
            lengths(seen, sum, |bytes| ServerBulletinEntry::from_bytes_with(&NET.params, bytes))
        })
    }),
    cell(Lie::Undelivered, &[], &[("shares_exhausted", WHO_DROPPED_IT)], Ends::Same, || {
        bytes(|seen, _| {
            // Of three that are needed two answer, one of them twice.
            let two = [honest(&SCENE, ServerId(0)), honest(&SCENE, ServerId(1)), honest(&SCENE, ServerId(1))];
            seen.fault(&SCENE.round.recover(&SCENE.set, &two).unwrap_err());
        })
    }),
    cell(
        Lie::FalseComplaint,
        &[],
        &[
            ("complaint_good_envelope", "its own code makes no complaint about a good envelope"),
            (
                "complaint_other_statement",
                "of a statement that is not the one that counts: another log, or nonsense",
            ),
            (
                "complaint_unanswered",
                "the answer shows a good opening, not that the sealed bytes opened to it",
            ),
        ],
        Ends::Same,
        false_complaint,
    ),
    cell(
        Lie::ComplaintFlood,
        &[],
        &[(
            "complaints_above_cap",
            "one of the complaints may be true; the client is silent by rule, and out",
        )],
        Ends::Without,
        flood,
    ),
];

/// The liar's sum is nothing but bytes; the others are enough.
fn bytes(lie: impl Fn(&mut Seen, &[u8])) -> Seen {
    let mut seen = Seen::default();
    lie(&mut seen, &honest(&SCENE, LIAR).to_bytes(&NET.params));
    let others = [0, 1, 3].map(|server| honest(&SCENE, ServerId(server)));
    seen.recovers(&SCENE.round.recover(&SCENE.set, &others).unwrap().plaintext, &NET.expected(&SCENE.set));
    seen
}

/// Header, four digests, server, digests of set and posts, number of clients: then the opening.
const OPENING: usize = 4 + 4 * 32 + 2 + 2 * 32 + 4;

fn out_of_range() -> Seen {
    bytes(|seen, sum| {
        let mut beyond = sum.to_vec();
        beyond[OPENING..OPENING + 2].fill(0xFF);
        seen.no_object(ServerBulletinEntry::from_bytes_with(&NET.params, &beyond));
        // A digit off by its modulus keeps every equation; with 300 clients claimed its field would be as wide as that.
        let honest = honest(&SCENE, LIAR);
        let claim = SumClaim { clients: 300, ..*honest.claim() };
        let key = NET.server(LIAR).signing_key();
        let wide = ServerBulletinEntry::sign(claim, honest.opening().clone(), &NET.params, key);
        let wide = ServerBulletinEntry::from_bytes_with(&NET.params, &wide.to_bytes(&NET.params)).unwrap();
        let entries = [&[wide][..], &SCENE.sums[..2], &SCENE.sums[3..]].concat();
        let recovered = SCENE.round.recover(&SCENE.set, &entries).unwrap();
        assert!(recovered.discarded.is_empty());
        let [culprit] = &recovered.culprits[..] else { panic!("{recovered:?}") };
        seen.fault(&culprit.fault);
        let evidence = culprit.evidence.as_ref().unwrap().to_bytes();
        let verdict = Evidence::from_bytes(&evidence).unwrap().verify(NET.params.lattice().kernels());
        assert_eq!(verdict.unwrap().convicted(), Attribution::Server(LIAR));
    })
}

fn kernel_vector() -> Seen {
    bytes(|seen, sum| {
        let (params, set) = (&NET.params, NET.params.set());
        // Digits of the leaf's second element, which holds the share: polynomials 3 and 4 of six.
        let label = "panetiere/cs/leaf-hash/v1";
        let vector = kernel(params.lattice().hvc(), params.deployment(), set, label, 3);
        let honest = honest(&SCENE, LIAR);
        let mut lie = honest.opening().clone();
        let digits = lie.polys_mut().skip(set.kappa + 3);
        digits.zip(&vector).for_each(|(digit, vector)| digit.add_assign(vector));
        let mut roots = chipmunk::ring::Poly::zero();
        for client in SCENE.set.clients() {
            let root = SCENE.round.fetch(*client).unwrap().1.head.commitment;
            params.lattice().hvc().add_assign(&mut roots, root.root());
        }
        let verify = |clients, opening| params.cs().verify_aggregated(LIAR.0, clients, opening, &roots);
        let truth = verify(4, honest.opening()).unwrap();
        assert!(matches!(verify(4, &lie), Err(OpeningError::Norm { .. })), "the gate refuses it");
        assert_ne!(verify(3000, &lie).unwrap(), truth, "the gate is all that does");
        // Nor does any field of the packed sum hold it.
        let mut bytes = sum.to_vec();
        let field = |bound| chipmunk::ring::pack::packed_len(chipmunk::ring::pack::short_width(bound));
        let (r, u) = (set.beta * 4, set.cs_digit() * 4);
        splice(&mut bytes, OPENING + set.kappa * field(r) + 3 * field(u), u, &vector[0]);
        seen.no_object(ServerBulletinEntry::from_bytes_with(params, &bytes));
    })
}

/// What `server` signs if it complains about these clients, rightly or not; read back from its bytes.
pub fn checked(round: &Round<'_>, server: u16, about: &[ClientId]) -> Checked {
    let inbox = &round.inboxes[usize::from(server)];
    let complaint = |client: &ClientId| {
        let (post, _) = inbox.iter().find(|(post, _)| post.client() == *client).unwrap();
        (*client, post.statement().digest())
    };
    signed(round, server, about.iter().map(complaint).collect())
}

fn signed(round: &Round<'_>, server: u16, complaints: BTreeMap<ClientId, StatementDigest>) -> Checked {
    let context = StatementContext::new(&NET.params, &round.session);
    let key = NET.server(ServerId(server)).signing_key();
    let checked = Checked::sign(context, ServerId(server), complaints, key);
    Checked::from_bytes_with(&*NET.params, &checked.to_bytes()).unwrap()
}

/// The set that the log's leaves leave of all clients.
pub fn rule(round: &Round<'_>, leaves: &[Checked], answers: &[Answer]) -> CheckedSet {
    let candidates = round.inboxes[0].iter().map(|(post, _)| {
        (post.client(), (NET.party(post.client()).signing_key.verifying_key(), post.clone()))
    });
    set_rule(&NET.params, &round.session, &NET.epoch, &candidates.collect(), leaves, answers).unwrap()
}

/// What these leaves get every client to reveal: never t shares of one with those that f servers hold anyway.
fn answers(round: &Round<'_>, leaves: &[Checked]) -> Vec<Answer> {
    let mut all = Vec::new();
    for client in NET.ids() {
        let mut guard: AnswerGuard = round.guarded_client(client).1;
        leaves.iter().for_each(|leaf| guard.observe(leaf).unwrap());
        all.extend(guard.answers(&NET.party(client).signing_key));
        let complaining = leaves.iter().filter(|leaf| leaf.complaints().contains_key(&client)).count();
        let silent = complaining > usize::from(NET.params.max_answers());
        assert_eq!(guard.standing(), if silent { Standing::Silent } else { Standing::Answering });
        assert_eq!(guard.revealed(), if silent { 0 } else { complaining });
        assert!(guard.revealed() + usize::from(NET.params.faulty()) < usize::from(NET.params.threshold()));
    }
    all
}

fn two_checked() -> Seen {
    let mut seen = Seen::default();
    let (without, with) = (checked(&SCENE.round, 2, &[]), checked(&SCENE.round, 2, &[CHEAT]));
    let session = &SCENE.round.session;
    seen.fault(&compare_checked(&NET.params, session, &NET.epoch, &without, &with).unwrap_err());
    seen
}

fn false_complaint() -> Seen {
    let mut seen = Seen::default();
    let mut round = NET.posted(1);
    let (post, envelope) = round.inboxes[2][1].clone();
    seen.fault(&complain(NET.server(LIAR), &NET.params, &post, &envelope).unwrap_err());
    // Another client's statement: no complaint at all.
    let other = round.inboxes[2][0].0.statement().digest();
    let nonsense = signed(&round, 2, BTreeMap::from([(CHEAT, other)]));
    seen.fault(&verify_complaint(&nonsense, &post).unwrap_err());
    assert_eq!(rule(&round, &[nonsense], &[]).members, NET.all().clients());
    // About its own envelopes, of every client: each answers once, and the answers take the envelopes' place.
    let all: Vec<ClientId> = NET.ids().collect();
    let leaves: Vec<_> =
        (0..4).map(|server| checked(&round, server, if server == 2 { &all } else { &[] })).collect();
    rule(&round, &leaves, &[]).excluded.values().for_each(|exclusion| seen.fault(exclusion));
    let answers = answers(&round, &leaves);
    assert_eq!(answers.len(), all.len());
    assert_eq!(rule(&round, &leaves, &answers).members, all);
    for answer in &answers {
        let post =
            round.inboxes[0].iter().find(|(post, _)| post.client() == answer.client()).unwrap().0.clone();
        let key = NET.party(answer.client()).signing_key.verifying_key();
        assert!(round.running[2].withdraw(answer.client()));
        round.running[2].receive_answer(&key, &post, answer).unwrap();
    }
    let sums = round.sums(&NET.all());
    seen.recovers(&round.recover(&NET.all(), &sums).unwrap().plaintext, &NET.expected(&NET.all()));
    seen
}

fn flood() -> Seen {
    let mut seen = Seen::default();
    let mut round = NET.posted(1);
    // The cap is one; two servers complain about the same client.
    assert_eq!(NET.params.max_answers(), 1);
    let leaves: Vec<_> =
        (0..4).map(|server| checked(&round, server, if server >= 2 { &[CHEAT] } else { &[] })).collect();
    let answers = answers(&round, &leaves);
    assert!(answers.is_empty(), "above the cap nothing is revealed");
    let set = rule(&round, &leaves, &answers);
    set.excluded.values().for_each(|exclusion| seen.fault(exclusion));
    let rest = NET.all_but(CHEAT);
    assert_eq!(set.members, rest.clients());
    let sums = round.sums(&rest);
    seen.recovers(&round.recover(&rest, &sums).unwrap().plaintext, &NET.expected(&rest));
    seen
}
