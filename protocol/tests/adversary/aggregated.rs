//! Aggregated rounds: aggregators that are honest, that lie, and whose bytes others misuse.
//!
//! Every row states what is found and who is named. What holds for all: no honest party is ever named, and whenever the
//! groups partition the set the round gives the plain sum of what the clients sent.
//!
//! Four servers, any three of which recover; five clients in two groups. Aggregator 1 lies, server 2 lies.

mod delivery;
mod rows;

pub use delivery::shifts;
pub use rows::run;
use rows::{ROWS, recover};

use chipmunk::N;
use chipmunk::ring::pack::{pack_words, packed_len, unpack_words};
use panetiere::bulletin::{
    CanonicalSet, Epoch, EpochError, GroupClaim, GroupSum, PostHead, PostView, ServerBulletinEntry,
};
use panetiere::fault::{Attribution, Fault, Retry};
use panetiere::ids::{AggregatorId, ClientId, ServerId};
use panetiere::protocol::{
    AggregatorIdentity, AggregatorRound, AggregatorRoundError, Audit, PostFault, RecoveredAggregated,
    recover_aggregated, run_aggregator_round, verify_group_sum,
};
use panetiere::sig::SigningKey;
use panetiere::testing::{ClientLie, Net, Round, ServerLie, deployment};
use panetiere::wire::DecodeWith;
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng;
use std::sync::LazyLock;

const POLYS: u32 = 2;
pub const HONEST: AggregatorId = AggregatorId(0);
pub const LIAR: AggregatorId = AggregatorId(1);
const LYING_SERVER: ServerId = ServerId(2);
/// In the group of the lying aggregator.
const CHEAT: ClientId = ClientId(1);

pub static NET: LazyLock<Net> =
    LazyLock::new(|| deployment(400).servers(4).threshold(3).clients(5).polys(POLYS).aggregators(2).build());

pub struct Scene {
    pub earlier: Round<'static>,
    pub round: Round<'static>,
    pub sums: Vec<ServerBulletinEntry>,
    pub groups: [GroupSum; 2],
    pub set: CanonicalSet,
}

pub static SCENE: LazyLock<Scene> = LazyLock::new(|| {
    let (earlier, mut round, set) = (NET.posted(0), NET.posted(1), NET.all());
    let sums = round.sums(&set);
    let groups = [round.group(HONEST, [0, 2]), round.group(LIAR, [1, 3, 4])];
    Scene { earlier, round, sums, groups, set }
});

fn key(aggregator: AggregatorId) -> &'static SigningKey {
    NET.aggregators[usize::from(aggregator.0)].signing_key()
}

/// The lying aggregator's sum with another claim, root or ciphertext, under its own signature.
pub fn forged(claim: impl FnOnce(&mut GroupClaim), root: &GroupSum, ciphertext: Vec<u8>) -> GroupSum {
    let mut stated = SCENE.groups[1].claim().clone();
    claim(&mut stated);
    GroupSum::sign(stated, root.root().clone(), ciphertext, &NET.params, key(LIAR))
}

pub fn truth() -> &'static GroupSum {
    &SCENE.groups[1]
}

fn claiming(claim: impl FnOnce(&mut GroupClaim)) -> GroupSum {
    forged(claim, truth(), truth().ciphertext().to_vec())
}

/// A packed ciphertext with the first residue of both limbs changed.
pub fn first_residues(ciphertext: &[u8], edit: impl Fn(u32, u32) -> u32) -> Vec<u8> {
    edited(ciphertext, 1, edit)
}

/// A packed ciphertext with every residue changed: `edit(residue, prime)`.
pub fn residues(ciphertext: &[u8], edit: impl Fn(u32, u32) -> u32) -> Vec<u8> {
    edited(ciphertext, usize::MAX, edit)
}

/// The first `places` residues of as many polynomials.
fn edited(ciphertext: &[u8], places: usize, edit: impl Fn(u32, u32) -> u32) -> Vec<u8> {
    let set = NET.params.set();
    let (width, mut out) = (set.wire_limb_bits, ciphertext.to_vec());
    let polys = places.min(ciphertext.len() / (2 * packed_len(width)));
    for (limb, bytes) in out.chunks_exact_mut(packed_len(width)).take(2 * polys).enumerate() {
        let mut words = [0; N];
        unpack_words(bytes, width, u32::MAX >> (32 - width), &mut words).unwrap();
        words.iter_mut().take(places).for_each(|word| *word = edit(*word, set.wire[limb % 2]));
        let mut packed = Vec::new();
        pack_words(&words, width, &mut packed);
        bytes.copy_from_slice(&packed);
    }
    out
}

/// One message step: Q/t is 127.9, so this adds one to the first coefficient of the plaintext, and no noise to speak of.
fn shifted() -> GroupSum {
    forged(|_| {}, truth(), first_residues(truth().ciphertext(), |word, q| (word + 128) % q))
}

fn found(recovered: &RecoveredAggregated) -> Vec<(AggregatorId, &'static str)> {
    recovered.aggregators.iter().map(|culprit| (culprit.aggregator, culprit.fault.code())).collect()
}

fn discarded(recovered: &RecoveredAggregated) -> Vec<&'static str> {
    recovered.discarded.iter().map(Fault::code).collect()
}

fn servers(recovered: &RecoveredAggregated) -> Vec<(ServerId, &'static str)> {
    recovered.recovered.culprits.iter().map(|culprit| (culprit.server, culprit.fault.code())).collect()
}

#[test]
fn an_honest_round_asks_for_no_body() {
    let scene = &*SCENE;
    for audit in [Audit::OnFailure, Audit::Always] {
        let (mut posts, policy) = (scene.round.posts(), scene.round.policy(&scene.set));
        let (session, groups, sums) = (&scene.round.session, &scene.groups, &scene.sums);
        let out =
            recover_aggregated(&NET.params, session, &NET.epoch, &policy, &mut posts, groups, sums, audit);
        let out = out.unwrap();
        assert_eq!(out.recovered.plaintext, NET.expected(&scene.set));
        assert!(found(&out).is_empty() && discarded(&out).is_empty() && servers(&out).is_empty());
        // Every part of every post once, or none at all.
        let asked = if audit == Audit::Always { 5 } else { 0 };
        assert_eq!((posts.commitments.len(), posts.ciphertexts.len()), (asked, asked));
    }
    for group in &scene.groups {
        let posts = &mut scene.round.posts();
        assert_eq!(verify_group_sum(&NET.params, &scene.round.session, &NET.epoch, group, posts), Ok(()));
    }
    // The same clients in one group, and each in its own, give the same round.
    let one = [scene.round.group(LIAR, 0..5)];
    let each: Vec<GroupSum> = (0..5).map(|client| scene.round.group(HONEST, [client])).collect();
    for groups in [&one[..], &each] {
        let out = scene.round.recover_groups(&scene.set, groups, &scene.sums[1..], Audit::OnFailure).unwrap();
        assert_eq!(out.recovered.plaintext, NET.expected(&scene.set));
    }
}

#[test]
fn a_group_sum_is_the_sum_of_canonical_residues() {
    // By plain integers: unpack, add, reduce, compare. The width of a packed sum is that of a post.
    let scene = &*SCENE;
    let set = NET.params.set();
    let unpacked = |bytes: &[u8]| -> Vec<u32> {
        let mut out = Vec::new();
        for limb in bytes.chunks_exact(packed_len(set.wire_limb_bits)) {
            let mut words = [0; N];
            unpack_words(limb, set.wire_limb_bits, u32::MAX >> 11, &mut words).unwrap();
            out.extend(words);
        }
        out
    };
    let mut expected = vec![0; 2 * N * usize::try_from(POLYS).unwrap()];
    for client in [1, 3, 4] {
        let (_, post) = scene.round.fetch(ClientId(client)).unwrap();
        assert_eq!(post.ciphertext.len(), truth().ciphertext().len());
        expected.iter_mut().zip(unpacked(&post.ciphertext)).for_each(|(sum, word)| *sum += word);
    }
    let reduced = expected.iter().enumerate().map(|(at, sum)| sum % set.wire[at / N % 2]);
    assert!(unpacked(truth().ciphertext()) == reduced.collect::<Vec<_>>());
}

#[test]
fn a_lying_server_besides_a_lying_aggregator() {
    // Both are named, each for its own lie; the three honest servers are enough, and never named.
    let scene = &*SCENE;
    let lie = ServerLie::Altered { part: 0 };
    let mut sums = scene.sums.clone();
    sums[2] = scene.round.lying_sum(LYING_SERVER, &scene.set, &lie);
    for row in ROWS {
        match (recover(row, &sums), row.refused) {
            (Ok(out), None) => {
                assert_eq!(servers(&out), [(LYING_SERVER, "sum_invalid_opening")], "{}", row.lie);
                let named: Vec<_> = row.convicts.iter().map(|code| (LIAR, *code)).collect();
                assert_eq!(found(&out), named, "{}", row.lie);
                assert_eq!(out.recovered.plaintext, NET.expected(&scene.set), "{}", row.lie);
            }
            (Err(refused), Some(code)) => assert_eq!(refused.code(), code, "{}", row.lie),
            (out, refused) => panic!("{}: {refused:?}, got {:?}", row.lie, out.map(|out| found(&out))),
        }
    }
}

#[test]
fn a_server_and_an_aggregator_that_lie_together_do_not_get_the_honest_named() {
    // The aggregator leaves client 3 out of its root, the server out of its opening: against the groups' roots the liar's
    // opening is the only one that verifies.
    let scene = &*SCENE;
    let part = scene.round.group(LIAR, [1, 4]);
    let groups = [scene.groups[0].clone(), forged(|_| {}, &part, truth().ciphertext().to_vec())];
    let mut sums = scene.sums.clone();
    sums[2] = scene.round.lying_sum(LYING_SERVER, &scene.set, &ServerLie::Omits(ClientId(3)));
    let out = scene.round.recover_groups(&scene.set, &groups, &sums, Audit::OnFailure).unwrap();
    assert_eq!(servers(&out), [(LYING_SERVER, "sum_invalid_opening")]);
    assert_eq!(found(&out), [(LIAR, "group_wrong_sum")]);
    assert_eq!(out.recovered.plaintext, NET.expected(&scene.set));
}

#[test]
fn without_the_commitments_no_server_is_named() {
    let scene = &*SCENE;
    let mut sums = scene.sums.clone();
    sums[2] = scene.round.lying_sum(LYING_SERVER, &scene.set, &ServerLie::Altered { part: 0 });
    let attempt = |groups: &[GroupSum], sums: &[ServerBulletinEntry]| {
        let (mut posts, policy) = (scene.round.posts(), scene.round.policy(&scene.set));
        posts.no_commitment.insert(CHEAT);
        let (session, audit) = (&scene.round.session, Audit::OnFailure);
        let (params, posts) = (&NET.params, &mut posts);
        recover_aggregated(params, session, &NET.epoch, &policy, posts, groups, sums, audit)
    };
    // Three openings verify, so one of an honest server does, and the total is right: recovered, nobody named.
    let out = attempt(&scene.groups, &sums).unwrap();
    assert_eq!((servers(&out), out.unjudged.clone()), (vec![], vec![LYING_SERVER]));
    assert_eq!(out.recovered.plaintext, NET.expected(&scene.set));
    // With a false root nothing verifies: who lied cannot be told until the commitments are here.
    let false_root = forged(|_| {}, &scene.groups[0], truth().ciphertext().to_vec());
    let groups = [scene.groups[0].clone(), false_root];
    for sums in [&scene.sums, &sums] {
        let refused = attempt(&groups, sums).unwrap_err();
        assert_eq!((refused.code(), refused.attribution()), ("post_missing", Attribution::Nobody));
        assert!(refused.aggregators.is_empty());
        assert_eq!(refused.retry(), Retry::SameRequest);
    }
}

#[test]
fn a_shift_by_whole_message_steps_shows_only_when_the_posts_are_added_again() {
    // Not a virtue: it is why there are other audits. Nobody honest is named, and everybody can find the liar.
    let scene = &*SCENE;
    let groups = [scene.groups[0].clone(), shifted()];
    let out = scene.round.recover_groups(&scene.set, &groups, &scene.sums, Audit::OnFailure).unwrap();
    assert!(found(&out).is_empty() && servers(&out).is_empty());
    assert_ne!(out.recovered.plaintext, NET.expected(&scene.set));
    let posts = &mut scene.round.posts();
    let fault =
        verify_group_sum(&NET.params, &scene.round.session, &NET.epoch, &groups[1], posts).unwrap_err();
    assert_eq!((fault.code(), fault.attribution()), ("group_wrong_sum", Attribution::Aggregator(LIAR)));
    // Without the posts nothing is said of anybody.
    let posts = &mut scene.round.posts();
    posts.no_ciphertext.insert(ClientId(3));
    let fault =
        verify_group_sum(&NET.params, &scene.round.session, &NET.epoch, &groups[1], posts).unwrap_err();
    assert_eq!((fault.code(), fault.attribution()), ("post_missing", Attribution::Nobody));
    assert_eq!(fault.retry(), Retry::SameRequest);
}

#[test]
fn a_client_that_spoils_the_sum_gets_no_aggregator_named() {
    for (lie, code) in [
        (ClientLie::OversizedNoise, "noise_overflow"),
        (ClientLie::KeyOutOfBounds, "noise_overflow"),
        (ClientLie::InconsistentShare(ServerId(3)), "shares_inconsistent"),
    ] {
        let mut round = NET.open(2);
        for client in NET.ids().filter(|id| *id != CHEAT) {
            round.submit(&round.client(client)).accepted();
        }
        round.submit(&round.lying_client(CHEAT, &lie)).accepted();
        let sums = round.sums(&SCENE.set);
        let groups = [round.group(HONEST, [0, 2]), round.group(LIAR, [1, 3, 4])];
        for audit in [Audit::OnFailure, Audit::Always] {
            let refused = round.recover_groups(&SCENE.set, &groups, &sums, audit).unwrap_err();
            assert_eq!((refused.code(), refused.attribution()), (code, Attribution::Nobody));
            assert!(refused.aggregators.is_empty() && refused.discarded.is_empty());
        }
    }
}

#[test]
fn two_statements_of_one_client_name_no_aggregator() {
    // The log has the cheat's first post; the aggregator was sent the second and summed it.
    let scene = &*SCENE;
    let mut misled = NET.posted(1);
    let second = misled.lying_client(CHEAT, &ClientLie::SecondStatement);
    misled.bulletin.insert(CHEAT, second.post.to_bytes(&NET.params));
    let groups = [scene.groups[0].clone(), misled.group(LIAR, [1, 3, 4])];
    let refused = scene.round.recover_groups(&scene.set, &groups, &scene.sums, Audit::Always).unwrap_err();
    assert_eq!((refused.code(), refused.attribution()), ("group_gap", Attribution::Nobody));
    assert_eq!(refused.discarded.iter().map(Fault::code).collect::<Vec<_>>(), ["group_posts"]);
    assert!(refused.aggregators.is_empty());
}

#[test]
fn posts_come_and_go_and_the_sum_is_that_of_the_group() {
    let scene = &*SCENE;
    let roster = NET.all();
    let identity = &NET.aggregators[1];
    let mut round = AggregatorRound::new(&NET.params, scene.round.session, identity, &roster).unwrap();
    let group = CanonicalSet::new([1, 3, 4].map(ClientId)).unwrap();
    for client in [4, 0, 3, 2, 1].map(ClientId) {
        let missing = round.close(&group).unwrap_err();
        assert_eq!(missing.code(), "aggregator_missing_client");
        // In pieces, as they come off the network.
        let (key, post) = (NET.party(client).signing_key.verifying_key(), &scene.round.bulletin[&client]);
        let (head, body) = post.split_at(PostHead::packed_len(&NET.params));
        let head = PostHead::from_bytes_with(&NET.params, head).unwrap();
        let mut incoming = round.begin(&key, head).unwrap();
        body.chunks(5000).for_each(|piece| incoming.push(piece).unwrap());
        incoming.finish().unwrap();
    }
    assert_eq!(round.added().collect::<Vec<_>>(), roster.clients());
    let surplus = AggregatorRoundError::Surplus { client: ClientId(0) };
    assert_eq!(round.close(&group), Err(surplus));
    for client in [2, 0].map(ClientId) {
        let post = PostView::parse(&NET.params, &scene.round.bulletin[&client]).unwrap();
        let mut altered = post.ciphertext.to_vec();
        altered[77] ^= 1;
        let altered = PostView { head: post.head.clone(), ciphertext: &altered };
        assert_eq!(round.withdraw(altered).unwrap_err().code(), "post_body_mismatch");
        round.withdraw(post.clone()).unwrap();
        assert_eq!(round.withdraw(post), Err(PostFault::NotAdded { client }));
    }
    let closed = round.close(&group).unwrap();
    assert_eq!(&closed, truth());
    assert_eq!(round.close(&group), Ok(closed));
}

#[test]
fn an_aggregator_adds_only_what_its_clients_signed_for_this_round() {
    let scene = &*SCENE;
    let group = CanonicalSet::new([1, 3].map(ClientId)).unwrap();
    let run = |edit: &dyn Fn(&mut Round<'_>)| {
        let mut round = NET.posted(1);
        edit(&mut round);
        let fetch = |client| round.fetch(client);
        run_aggregator_round(&NET.params, round.session, &NET.aggregators[1], &group, fetch)
            .map(|_| ())
            .map_err(|refused| (refused.code(), refused.attribution()))
    };
    let replace = |round: &mut Round<'_>, bytes: &[u8]| drop(round.bulletin.insert(CHEAT, bytes.to_vec()));
    assert_eq!(run(&|_| {}), Ok(()));
    let nobody = Attribution::Nobody;
    let refused = run(&|round| drop(round.bulletin.remove(&CHEAT)));
    assert_eq!(refused, Err(("aggregator_missing_client", nobody)));
    let refused = run(&|round| replace(round, &scene.earlier.bulletin[&CHEAT]));
    assert_eq!(refused, Err(("statement_session", nobody)));
    let refused = run(&|round| replace(round, &scene.round.bulletin[&ClientId(0)]));
    assert_eq!(refused, Err(("post_wrong_client", Attribution::Caller)));
    let refused = run(&|round| *round.bulletin.get_mut(&CHEAT).unwrap().last_mut().unwrap() ^= 1);
    assert_eq!(refused, Err(("post_body_mismatch", nobody)));
    let cheat = scene.round.lying_client(CHEAT, &ClientLie::CiphertextOutOfRange).post.to_bytes(&NET.params);
    let refused = run(&|round| replace(round, &cheat));
    assert_eq!(refused, Err(("post_ciphertext", Attribution::Client(CHEAT))));

    // Direct rounds and other epochs have no use for it.
    let direct = deployment(400).servers(4).threshold(3).clients(2).build();
    let refused = AggregatorRound::new(&direct.params, scene.round.session, &NET.aggregators[1], &group);
    assert_eq!(refused.map(|_| ()).unwrap_err().code(), "aggregator_mode");
    let later = deployment(400).servers(4).threshold(3).clients(2).aggregators(2).epoch(1).build();
    let refused = AggregatorRound::new(&later.params, scene.round.session, &NET.aggregators[1], &group);
    assert_eq!(refused.map(|_| ()).unwrap_err().code(), "aggregator_wrong_epoch");
}

#[test]
fn the_epoch_names_each_aggregator_by_a_key_of_its_own() {
    let keys: Vec<_> =
        (0..3u8).map(|seed| SigningKey::generate(&mut ChaCha20Rng::from_seed([seed; 32]))).collect();
    let epoch = |places: [usize; 3]| -> Result<Epoch, EpochError> {
        NET.epoch.clone().with_aggregators(places.map(|at| keys[at].verifying_key()).into())
    };
    let named = epoch([2, 0, 1]).unwrap();
    assert_ne!(named.digest(), NET.epoch.digest());
    let key = || SigningKey::from_scalar(&keys[0].expose_scalar()).unwrap();
    assert_eq!(AggregatorIdentity::new(AggregatorId(1), key(), &named).unwrap().id(), AggregatorId(1));
    for place in [0, 2, 3] {
        let refused = AggregatorIdentity::new(AggregatorId(place), key(), &named).unwrap_err();
        assert_eq!(refused.code(), "epoch_foreign_aggregator_key");
    }
    let twice = EpochError::DuplicateAggregatorKey { aggregator: AggregatorId(2), first: AggregatorId(0) };
    assert_eq!(epoch([2, 0, 2]), Err(twice));
}
