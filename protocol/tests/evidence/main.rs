//! Evidence convicts liars and nobody else, whatever is done to its bytes or to those of honest parties.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod scene;

use chipmunk::ring::backend::Simd;
use panetiere::evidence::{Evidence, Outcome, Verdict};
use panetiere::fault::{Attribution, Fault};
use panetiere::wire::{Decode, Encode};
use rand_chacha::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};
use scene::{Row, guilty, innocent};

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
