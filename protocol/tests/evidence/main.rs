//! Evidence convicts liars and nobody else, whatever is done to its bytes or to those of honest parties.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod scene;

use chipmunk::ring::backend::Simd;
use panetiere::evidence::{Evidence, Outcome, Verdict};
use panetiere::fault::{Attribution, Fault};
use panetiere::ids::NodeId;
use panetiere::protocol::{PostSum, rebuild_item, verify_item};
use panetiere::testing::ClientLie;
use panetiere::wire::{Decode, Encode};
use rand_chacha::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};
use scene::{CLIENT, DIRECT, LANES, Row, bad_share, guilty, innocent, key, non_codeword};

fn verdict(bytes: &[u8]) -> Option<Verdict> {
    let evidence = Evidence::from_bytes(bytes).ok()?;
    assert!(evidence.to_bytes() == bytes, "one encoding");
    evidence.verify(Simd::under_test().kernels()).ok()
}

fn code(verdict: &Verdict) -> &'static str {
    match &verdict.outcome {
        Outcome::Acquits(reason) => reason.code(),
        Outcome::Convicts(finding) => {
            assert_eq!(finding.attribution(), verdict.accused, "{finding}");
            finding.code()
        }
    }
}

fn check(rows: &[Row]) {
    for Row { name, evidence, convicted, code: expected } in rows {
        let verdict = verdict(&evidence.to_bytes()).unwrap_or_else(|| panic!("{name}: no evidence"));
        assert_eq!((verdict.convicted(), code(&verdict)), (*convicted, *expected), "{name}: {verdict:?}");
        assert_eq!(verdict.kind, evidence.kind(), "{name}");
    }
}

#[test]
fn every_lie_convicts_its_party() {
    check(&guilty());
}

#[test]
fn what_honest_parties_signed_convicts_nobody() {
    check(&innocent());
}

/// Edits of single bytes: all of the first kilobyte's, where the structure is, those at the end, and a sample between.
fn edits(bytes: &[u8], seed: u8, count: usize) -> impl Iterator<Item = Vec<u8>> {
    let mut rng = ChaCha20Rng::from_seed([seed; 32]);
    let mut draw = move |below: usize| usize::try_from(rng.next_u32()).unwrap() % below;
    let len = bytes.len();
    let bytes = bytes.to_vec();
    (0..count).map(move |round| {
        let at = match round % 4 {
            0 => draw(len.min(24)),
            1 => draw(len),
            2 => len - 1 - draw(len.min(1200)),
            // Behind the document of three servers.
            _ => (3900 + draw(800)).min(len - 1),
        };
        let mut edited = bytes.clone();
        edited[at] = match draw(3) {
            0 => edited[at] ^ 1 << draw(8),
            1 => 0,
            _ => u8::try_from(draw(256)).unwrap(),
        };
        edited
    })
}

#[test]
fn edits_of_honest_material_convict_nobody() {
    let mut judged = 0;
    for (seed, Row { name, evidence, .. }) in (0..).zip(innocent()) {
        for edited in edits(&evidence.to_bytes(), seed, 120) {
            if let Some(verdict) = verdict(&edited) {
                assert_eq!(verdict.convicted(), Attribution::Nobody, "{name}: {verdict:?}");
                judged += 1;
            }
        }
    }
    assert!(judged > 500, "{judged} edits were still evidence");
}

#[test]
fn edits_of_evidence_convict_its_party_or_nobody() {
    let (mut convicted, mut acquitted) = (0, 0);
    for (seed, Row { name, evidence, convicted: party, .. }) in (100..).zip(guilty()) {
        let bytes = evidence.to_bytes();
        for edited in edits(&bytes, seed, 120).filter(|edited| *edited != bytes) {
            let Some(verdict) = verdict(&edited) else { continue };
            if verdict.convicted() == Attribution::Nobody {
                acquitted += 1;
            } else {
                assert_eq!(verdict.convicted(), party, "{name}: {verdict:?}");
                convicted += 1;
            }
        }
    }
    assert!(acquitted > 300, "{acquitted} acquitted, {convicted} convicted");
}

#[test]
fn what_a_party_refuses_becomes_evidence_only_if_the_client_signed_it() {
    let (net, set) = (&*DIRECT, DIRECT.all());
    let round = net.posted(0);
    let key = key(net, CLIENT);
    let mut altered = round.client(CLIENT).post;
    altered.ciphertext[0] ^= 1;
    let rows = [
        (round.lying_client(CLIENT, &ClientLie::CiphertextOutOfRange).post, true),
        (round.lying_client(CLIENT, &ClientLie::WrongCiphertextLength).post, true),
        // The client's own doing, and only the log tells: which epoch the session has.
        (round.lying_client(CLIENT, &ClientLie::WrongEpoch).post, false),
        (altered, false),
    ];
    for (post, proven) in rows {
        let fault = PostSum::new(&net.params, round.session, &set).add(&key, &post).unwrap_err();
        let evidence = Evidence::of_post(&fault, &net.params, &net.epoch, &key, &post);
        assert_eq!(evidence.is_some(), proven, "{fault}");
    }
    let (net, lie) = (&*LANES, bad_share(0));
    let key = scene::key(net, CLIENT);
    let post = lie.post.signed.check(&net.params, &net.session(0), &key).unwrap();
    let fault = verify_item(&net.params, &post, &lie.items[2]).unwrap_err();
    let of = |fault, item| Evidence::of_item(fault, &net.params, &net.epoch, &key, &post, item);
    assert!(of(&fault, &lie.items[2]).is_some() && of(&fault, &lie.items[1]).is_none());
    let lie = non_codeword();
    let post = lie.post.signed.check(&net.params, &net.session(0), &key).unwrap();
    for items in [&lie.items[..2], &lie.items[2..], &lie.items] {
        let error = rebuild_item(&net.params, &post, NodeId(0), items).unwrap_err();
        let evidence = Evidence::of_rebuild(&error, &net.params, &net.epoch, &key, &post, items);
        assert!(evidence.is_some(), "{error}");
    }
}
