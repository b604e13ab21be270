//! What a lane can do, what others can do with its bytes, and what a client can do to lanes.

use super::kernel::{kernel, splice};
use super::wire::{high_s, lengths};
use super::{
    ANYBODYS, Cell, Ends, Lie, NO_BYTES, NO_OBJECT, OTHER_LOG, Seen, TRUE_ELSEWHERE, WHO_DROPPED_IT, cell, no,
};
use crate::lane_net::{Net, Round, convicts, net, set, through_bytes};
use chipmunk::N;
use chipmunk::ring::pack::{pack_words, packed_len, unpack_words};
use panetiere::bulletin::{LaneBulletinEntry, LaneClaim, SignedPost, delivery_root};
use panetiere::cs::OpeningError;
use panetiere::fault::Fault;
use panetiere::ids::{ClientId, CrsDigest, DeploymentId, EpochDigest, NodeId};
use panetiere::protocol::{Bisection, CodewordVerdict, NextStep, rebuild_item};
use panetiere::share_commitment::AggregatedShare;
use panetiere::sig::SigningKey;
use panetiere::wire::{Decode, DecodeWith};

const LIAR: usize = 1;
const OPENING: &[&str] = &["lane_sum_opening"];

pub static CELLS: &[Cell] = &[
    cell(Lie::WrongSum, OPENING, &[], Ends::Same, || {
        lies(|told| {
            let part = told.round.lanes[LIAR].check_sum(&set([0, 2])).unwrap();
            vec![told.opening(|opening| *opening = part.opening().clone())]
        })
    }),
    cell(
        Lie::WrongShare,
        OPENING,
        &[("item_not_in_post", "a share that it hands on to another lane is not signed by it")],
        Ends::Same,
        || lies(|told| vec![told.altered(0)]).and(handed_on),
    ),
    cell(Lie::OtherSet, &[], &[("lane_sum_set", OTHER_LOG)], Ends::Same, || {
        lies(|told| {
            let part = told.round.lanes[LIAR].check_sum(&set([0, 2])).unwrap();
            let claim = LaneClaim { purpose: told.honest.claim().purpose, ..*part.claim() };
            vec![told.sign(claim, part.opening().clone())]
        })
    }),
    cell(Lie::StaleSession, OPENING, &[("lane_sum_session", TRUE_ELSEWHERE)], Ends::Same, || {
        lies(|told| {
            let earlier = Round::posted(told.net, 1, 0..3).lane_sums(&set(0..3)).remove(LIAR);
            vec![told.opening(|opening| *opening = earlier.opening().clone())]
        })
        .and(|| lies(|told| vec![told.claim(|claim| claim.session = told.net.session(7))]))
    }),
    cell(Lie::Replay, &[], &[("lane_sum_session", TRUE_ELSEWHERE)], Ends::Same, || {
        lies(|told| vec![Round::posted(told.net, 1, 0..3).lane_sums(&set(0..3)).remove(LIAR)])
    }),
    cell(
        Lie::OtherContext,
        &["lane_sum_crs", "lane_sum_epoch"],
        &[("lane_sum_deployment", TRUE_ELSEWHERE), ("lane_sum_purpose", TRUE_ELSEWHERE)],
        Ends::Same,
        || {
            lies(|told| vec![told.claim(|claim| claim.deployment = DeploymentId::from_name("another"))])
                .and(|| lies(|told| vec![told.claim(|c| c.crs = CrsDigest::from_bytes(&[7; 32]).unwrap())]))
                .and(|| {
                    lies(|told| vec![told.claim(|c| c.epoch = EpochDigest::from_bytes(&[7; 32]).unwrap())])
                })
                .and(|| lies(|told| vec![told.round.lanes[LIAR].check_sum(&set(0..3)).unwrap()]))
        },
    ),
    cell(Lie::Swapped, OPENING, &[], Ends::Same, || {
        lies(|told| {
            let other = told.round.lanes[0].check_sum(&set(0..3)).unwrap();
            vec![told.opening(|opening| *opening = other.opening().clone())]
        })
    }),
    // A share of one polynomial has four digits; then comes the path.
    cell(Lie::BadPath, OPENING, &[], Ends::Same, || lies(|told| vec![told.altered(4)])),
    // A digit beyond its bound does not fit its field. A claim of more clients makes the field wider.
    cell(Lie::OutOfRangeDigit, &["lane_sum_count"], &[(NO_OBJECT, NO_BYTES)], Ends::Same, || {
        bytes(|seen, net, sum| {
            let mut beyond = sum.to_vec();
            beyond[AT..AT + 2].fill(0xFF);
            seen.no_object(LaneBulletinEntry::from_bytes_with(&*net.params, &beyond));
        })
        .and(|| lies(|told| vec![told.claim(|claim| claim.clients = 300)]))
    }),
    cell(
        Lie::KernelVector,
        &[],
        &[(NO_OBJECT, "a kernel vector is longer than the field of a digit sum: it cannot be sent")],
        Ends::Same,
        || bytes(kernel_sum),
    ),
    no(
        Lie::NonCodeword,
        "a lane's own false sum opens nothing; sums that open and are no codeword are a client's",
    ),
    no(Lie::InconsistentShares, "a lane has no key shares"),
    no(Lie::OversizedNoise, "a lane commits to no ciphertext; what it adds is a wrong sum"),
    no(Lie::BadPayload, "a lane commits to no ciphertext; what it adds is a wrong sum"),
    no(Lie::CopiedCiphertext, "a lane commits to no ciphertext; another lane's is a swapped sum"),
    no(Lie::CopiedRoot, "a lane publishes no root"),
    cell(Lie::ForgedSignature, &[], &[("lane_sum_signature", ANYBODYS)], Ends::Same, || {
        lies(|told| {
            let code = told.net.params.lane_code().unwrap();
            let stranger = SigningKey::generate(&mut crate::lane_net::stream("stranger", 0));
            let (claim, opening) = (*told.honest.claim(), told.honest.opening().clone());
            vec![LaneBulletinEntry::sign(claim, opening, code, &stranger)]
        })
    }),
    cell(Lie::HighS, &[], &[(NO_OBJECT, "anybody can flip s")], Ends::Same, || {
        bytes(|seen, net, sum| {
            let flipped = high_s(sum, sum.len() - 64);
            seen.no_object(LaneBulletinEntry::from_bytes_with(&*net.params, &flipped));
        })
    }),
    cell(Lie::DuplicateId, &[], &[("lane_sum_unknown_lane", ANYBODYS)], Ends::Same, || {
        // Its answer twice is one answer; an id that does not exist would not even parse, and is handed over as a value.
        lies(|told| vec![told.honest.clone(), told.honest.clone()]).and(|| {
            let net = erasure();
            let (mut seen, mut round) = (Seen::default(), Round::posted(&net, 0, 0..3));
            let canonical = set(0..3);
            let (sums, mut lanes) = (round.server_sums(&canonical), round.lane_sums(&canonical));
            let claim = LaneClaim { lane: NodeId(4), ..*lanes[LIAR].claim() };
            let (code, key) = (net.params.lane_code().unwrap(), net.lanes[LIAR].signing_key());
            lanes.push(LaneBulletinEntry::sign(claim, lanes[LIAR].opening().clone(), code, key));
            let recovered = round.recover(&canonical, &sums, &lanes).unwrap();
            recovered.lanes_discarded.iter().for_each(|fault| seen.fault(fault));
            seen.recovers(&recovered.recovered.plaintext, &net.expected(&canonical));
            seen
        })
    }),
    cell(Lie::TwoAnswers, &["lane_sum_double"], &[], Ends::Same, || {
        lies(|told| vec![told.honest.clone(), told.altered(0)])
    }),
    no(Lie::OverlappingGroups, "a lane forms no groups"),
    cell(Lie::ShortOrLongBody, &[], &[(NO_OBJECT, NO_BYTES)], Ends::Same, || {
        bytes(|seen, net, sum| {
            lengths(seen, sum, |bytes| LaneBulletinEntry::from_bytes_with(&*net.params, bytes));
        })
    }),
    cell(Lie::Undelivered, &[], &[("below_lane_threshold", WHO_DROPPED_IT)], Ends::Same, || {
        let (net, mut seen) = (erasure(), Seen::default());
        let (mut round, canonical) = (Round::posted(&net, 0, 0..3), set(0..3));
        let (sums, mut lanes) = (round.server_sums(&canonical), round.lane_sums(&canonical));
        seen.fault(&round.recover(&canonical, &sums, &lanes[..1]).unwrap_err());
        lanes.remove(LIAR);
        let recovered = round.recover(&canonical, &sums, &lanes).unwrap();
        assert_eq!(recovered.lanes_missing, [NodeId(1)]);
        seen.recovers(&recovered.recovered.plaintext, &net.expected(&canonical));
        seen
    }),
    no(Lie::FalseComplaint, "lanes do not complain: a share that is missing is rebuilt"),
    no(Lie::ComplaintFlood, "lanes do not complain: a share that is missing is rebuilt"),
];

/// Two of four lanes, two of three servers, three clients, two polynomials: new parties that have answered nothing.
pub fn erasure() -> Net {
    net(2, 4, 3, 2)
}

/// Header and claim: then the opening.
const AT: usize = 4 + 6 * 32 + 2 + 1 + 4;

struct Told<'a> {
    net: &'a Net,
    round: &'a Round<'a>,
    honest: &'a LaneBulletinEntry,
}

impl Told<'_> {
    fn sign(&self, claim: LaneClaim, opening: AggregatedShare) -> LaneBulletinEntry {
        let (code, key) = (self.net.params.lane_code().unwrap(), self.net.lanes[LIAR].signing_key());
        LaneBulletinEntry::sign(claim, opening, code, key)
    }

    fn claim(&self, edit: impl FnOnce(&mut LaneClaim)) -> LaneBulletinEntry {
        let mut claim = *self.honest.claim();
        edit(&mut claim);
        self.sign(claim, self.honest.opening().clone())
    }

    fn opening(&self, edit: impl FnOnce(&mut AggregatedShare)) -> LaneBulletinEntry {
        let mut opening = self.honest.opening().clone();
        edit(&mut opening);
        self.sign(*self.honest.claim(), opening)
    }

    /// One coefficient of polynomial number `part` of the opening is one closer to zero: within every bound.
    fn altered(&self, part: usize) -> LaneBulletinEntry {
        self.opening(|opening| {
            opening.edit(|mut polys| {
                let poly = &mut polys[part];
                let at = poly.coefficients().iter().position(|c| *c != 0).unwrap();
                let coefficient = &mut poly.coefficients_mut()[at];
                *coefficient -= coefficient.signum();
            });
        })
    }
}

/// The lying lane publishes this in place of its sum; three lanes are honest, two are needed.
fn lies(tell: impl Fn(&Told<'_>) -> Vec<LaneBulletinEntry>) -> Seen {
    let (net, mut seen) = (erasure(), Seen::default());
    let (mut round, canonical) = (Round::posted(&net, 0, 0..3), set(0..3));
    let (sums, mut lanes) = (round.server_sums(&canonical), round.lane_sums(&canonical));
    let honest = lanes.remove(LIAR);
    let told = tell(&Told { net: &net, round: &round, honest: &honest });
    lanes.extend(told.iter().map(|entry| through_bytes(&net.params, entry)));
    for _ in 0..2 {
        let recovered = round.recover(&canonical, &sums, &lanes).unwrap();
        for culprit in &recovered.lane_culprits {
            seen.fault(&culprit.fault);
            // Which epoch and parameters the session has only the log tells.
            let log = ["lane_sum_crs", "lane_sum_epoch"].contains(&culprit.fault.code());
            assert_eq!(convicts(culprit), !log);
        }
        recovered.lanes_discarded.iter().for_each(|fault| seen.fault(fault));
        assert!(recovered.recovered.culprits.is_empty() && recovered.recovered.discarded.is_empty());
        seen.recovers(&recovered.recovered.plaintext, &net.expected(&canonical));
        lanes.reverse();
    }
    seen
}

/// The lying lane's sum is nothing but bytes; the others are enough.
fn bytes(lie: impl Fn(&mut Seen, &Net, &[u8])) -> Seen {
    let (net, mut seen) = (erasure(), Seen::default());
    let (mut round, canonical) = (Round::posted(&net, 0, 0..3), set(0..3));
    let (sums, mut lanes) = (round.server_sums(&canonical), round.lane_sums(&canonical));
    lie(&mut seen, &net, &lanes.remove(LIAR).to_bytes(net.params.lane_code().unwrap()));
    let recovered = round.recover(&canonical, &sums, &lanes).unwrap();
    seen.recovers(&recovered.recovered.plaintext, &net.expected(&canonical));
    seen
}

const LEAF_HASH: &str = "panetiere/lanes/leaf-hash/v1";

fn kernel_sum(seen: &mut Seen, net: &Net, sum: &[u8]) {
    let (params, parameter_set) = (&net.params, net.params.set());
    let vector = kernel(params.lattice().lane(), params.deployment(), parameter_set, LEAF_HASH, 0);
    let honest = LaneBulletinEntry::from_bytes_with(&**params, sum).unwrap();
    let mut lie = honest.opening().clone();
    lie.edit(|polys| polys.into_iter().zip(&vector).for_each(|(digit, vector)| digit.add_assign(vector)));
    // The same parties again: the same posts.
    let again = erasure();
    let round = Round::posted(&again, 0, 0..3);
    let (roots, _) = round.checked_posts().share_roots(&set(0..3)).unwrap();
    let commitment = params.lane_code().unwrap().commitment();
    let verify = |clients, opening| commitment.verify_aggregated(NodeId(1), clients, opening, &roots);
    let truth = verify(3, honest.opening()).unwrap();
    assert!(matches!(verify(3, &lie), Err(OpeningError::Norm { .. })), "the gate refuses it");
    assert!(verify(2000, &lie).unwrap() != truth, "the gate is all that does");
    let mut bytes = sum.to_vec();
    splice(&mut bytes, AT, parameter_set.share_digit() * 3, &vector[0]);
    seen.no_object(LaneBulletinEntry::from_bytes_with(&**params, &bytes));
}

/// The lying client delivers other bodies than it committed to, and signs them: `edit(length of a packed share, bodies)`.
pub fn lane_item(edit: impl Fn(usize, &mut Vec<Vec<u8>>)) -> Seen {
    let (net, mut seen) = (erasure(), Seen::default());
    let mut round = Round::posted(&net, 0, [0, 2]);
    let honest = net.client(&round.session, 1);
    let mut bodies: Vec<Vec<u8>> = honest.items.iter().map(|item| item.body.clone()).collect();
    edit(net.params.lane_code().unwrap().rs().share_len(), &mut bodies);
    let taken = round.submit(&net.with_bodies(&honest, bodies));
    assert!(taken.iter().any(Result::is_err) && taken[0].is_ok());
    taken.iter().filter_map(|taken| taken.as_ref().err()).for_each(|fault| seen.fault(fault));
    recovers(&mut seen, &net, &mut round, [0, 2]);
    seen
}

fn recovers<const K: usize>(seen: &mut Seen, net: &Net, round: &mut Round<'_>, clients: [u32; K]) {
    let canonical = set(clients);
    let (sums, lanes) = (round.server_sums(&canonical), round.lane_sums(&canonical));
    let recovered = round.recover(&canonical, &sums, &lanes).unwrap();
    assert!(recovered.lane_culprits.is_empty() && recovered.recovered.culprits.is_empty());
    seen.recovers(&recovered.recovered.plaintext, &net.expected(&canonical));
}

/// A share moved by a kernel vector: the lane takes digits from the canonical residues, so they are short and others.
pub fn client_kernel() -> Seen {
    let parameter_set = &chipmunk::params::P300;
    lane_item(|_, bodies| {
        let net = erasure();
        let vector =
            kernel(net.params.lattice().lane(), net.params.deployment(), parameter_set, LEAF_HASH, 0);
        let width = parameter_set.wire_limb_bits;
        for (limb, bytes) in bodies[1].chunks_exact_mut(packed_len(width)).take(2).enumerate() {
            let (q, mut words) = (i64::from(parameter_set.wire[limb]), [0; N]);
            unpack_words(bytes, width, u32::MAX >> (32 - width), &mut words).unwrap();
            for (word, (low, high)) in
                words.iter_mut().zip(vector[0].coefficients().iter().zip(vector[1].coefficients()))
            {
                let base = i64::from(parameter_set.share_base);
                let moved = i64::from(*word) + i64::from(*low) + base * i64::from(*high);
                *word = u32::try_from(moved.rem_euclid(q)).unwrap();
            }
            let mut packed = Vec::new();
            pack_words(&words, width, &mut packed);
            bytes.copy_from_slice(&packed);
        }
    })
}

pub fn client_non_codeword() -> Seen {
    let (net, mut seen) = (erasure(), Seen::default());
    let mut round = Round::posted(&net, 0, [0, 2]);
    let sent = net.non_codeword(&round.session, 1, 3);
    assert!(round.submit(&sent).iter().all(Result::is_ok), "no lane can see it alone");
    seen.fault(
        &rebuild_item(&net.params, &round.verified[&ClientId(1)], NodeId(0), &sent.items[1..3]).unwrap_err(),
    );
    // Before the close: sums of lanes find the client, and name no lane.
    let posts = round.checked_posts();
    let (verdict, culprits) =
        Bisection::start(&posts, &net.epoch, &set(0..3), &round.check_sums(&set(0..3))).unwrap();
    let CodewordVerdict::NotACodeword(mut search) = verdict else { panic!("{verdict:?}") };
    assert!(culprits.is_empty());
    let found = loop {
        match search.next_step() {
            NextStep::Found(client) => break client,
            NextStep::Ask(half) => assert!(search.answer(&round.check_sums(&half)).unwrap().is_empty()),
        }
    };
    assert_eq!(found, ClientId(1));
    recovers(&mut seen, &net, &mut round, [0, 2]);
    // Closed over it all the same.
    let (net, all) = (erasure(), set(0..3));
    let mut round = Round::posted(&net, 0, [0, 2]);
    round.submit(&sent).into_iter().for_each(|taken| taken.unwrap());
    let (sums, lanes) = (round.server_sums(&all), round.lane_sums(&all));
    seen.fault(&round.recover(&all, &sums, &lanes).unwrap_err());
    seen.stops();
    seen
}

/// Share commitment and items of another client under one's own name: every share opens the root, and nothing decrypts.
pub fn client_copied_shares() -> Seen {
    let (net, mut seen, all) = (erasure(), Seen::default(), set(0..3));
    let mut round = Round::posted(&net, 0, [0, 2]);
    let (mut sent, victim) = (net.client(&round.session, 1), net.client(&round.session, 0));
    let sealed = sent.envelopes.iter().map(|envelope| (envelope.key, envelope.sealed.clone()));
    let bodies = victim.items.iter().map(|item| item.body.clone()).collect();
    let (root, envelopes, items) = delivery_root(ClientId(1), sealed, bodies);
    let mut statement = sent.post.signed.claim().clone();
    let original = victim.post.signed.claim();
    (statement.roots[1], statement.ciphertext) = (original.roots[1], original.ciphertext);
    statement.envelopes = root;
    sent.post.signed = SignedPost::sign(statement, net.key(ClientId(1)));
    sent.post.share_commitment = victim.post.share_commitment;
    (sent.envelopes, sent.items) = (envelopes, items);
    round.submit(&sent).into_iter().for_each(|taken| taken.unwrap());
    let (sums, lanes) = (round.server_sums(&all), round.lane_sums(&all));
    seen.fault(&round.recover(&all, &sums, &lanes).unwrap_err());
    seen.stops();
    seen
}

/// An item that one lane does not get is rebuilt from two others', byte for byte.
pub fn client_undelivered() -> Seen {
    let (net, mut seen) = (erasure(), Seen::default());
    let mut round = Round::posted(&net, 0, 0..3);
    assert_eq!(round.lanes[LIAR].withdraw(ClientId(1)), Ok(true));
    seen.fault(&round.lanes[LIAR].close(&set(0..3)).unwrap_err());
    let (post, items) = (&round.verified[&ClientId(1)], &round.items[&ClientId(1)]);
    let rebuilt = rebuild_item(&net.params, post, NodeId(1), &items[2..]).unwrap();
    assert_eq!(rebuilt, items[1]);
    round.lanes[LIAR].receive(post, &rebuilt).unwrap();
    recovers(&mut seen, &net, &mut round, [0, 1, 2]);
    seen
}

/// A lane hands another one a false share to rebuild from.
fn handed_on() -> Seen {
    let (net, mut seen) = (erasure(), Seen::default());
    let round = Round::posted(&net, 0, 0..3);
    let (post, items) = (&round.verified[&ClientId(0)], &round.items[&ClientId(0)]);
    let mut altered = items[1].clone();
    altered.body[0] ^= 1;
    seen.fault(&rebuild_item(&net.params, post, NodeId(0), &[altered, items[2].clone()]).unwrap_err());
    assert_eq!(rebuild_item(&net.params, post, NodeId(0), &items[2..]).as_ref(), Ok(&items[0]));
    seen
}
