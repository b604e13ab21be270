//! A client that posts what another has made: refused by every server, or noise in the sum, and of no use to it.

use super::super::Seen;
use crate::clients::cheated;
use crate::{CHEAT, NET, SCENE};
use panetiere::bulletin::{PostStatement, SignedPost, env_root};
use panetiere::ids::ClientId;
use panetiere::protocol::{ClientRound, run_client_round_with_openings, seal_openings};
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng;

/// The cheat's own post with another ciphertext, signed by it.
fn with_ciphertext(mut sent: ClientRound, ciphertext: Vec<u8>) -> ClientRound {
    let head = &mut sent.post.head;
    let (session, envelopes) = (head.signed.claim().session, head.signed.claim().envelopes);
    let statement =
        PostStatement::direct(&NET.params, &session, CHEAT, &head.commitment, &ciphertext, envelopes);
    head.signed = SignedPost::sign(statement, &NET.party(CHEAT).signing_key);
    sent.post.ciphertext = ciphertext;
    sent
}

/// The cheat's post is accepted; over a set without it the round is what it was.
pub fn without(seen: &mut Seen, sent: &ClientRound) {
    let (mut round, delivery) = cheated(sent);
    delivery.envelopes.iter().filter_map(|taken| taken.as_ref().err()).for_each(|fault| seen.fault(fault));
    let rest = NET.all_but(CHEAT);
    let sums = round.sums(&rest);
    seen.recovers(&round.recover(&rest, &sums).unwrap().plaintext, &NET.expected(&rest));
}

pub fn ciphertext() -> Seen {
    let mut seen = Seen::default();
    let victim = SCENE.round.client(ClientId(0)).post.ciphertext;
    for ciphertext in [victim.clone(), crate::aggregated::residues(&victim, |word, q| (q - word) % q)] {
        let sent = with_ciphertext(SCENE.round.client(CHEAT), ciphertext);
        let (mut round, delivery) = cheated(&sent);
        delivery.accepted();
        // Doubled or cancelled, the victim's message stays under the victim's key, of which the sum has one and not two or
        // none: nothing is decrypted, and no server is named.
        let sums = round.sums(&SCENE.set);
        seen.fault(&round.recover(&SCENE.set, &sums).unwrap_err());
        seen.stops();
        without(&mut seen, &sent);
    }
    seen
}

pub fn root() -> Seen {
    let mut seen = Seen::default();
    let victim = SCENE.round.client(ClientId(0));
    let (keys, party) = (NET.epoch.envelope_keys(), NET.party(CHEAT));
    let session = SCENE.round.session;
    let rng = &mut ChaCha20Rng::from_seed([9; 32]);
    let round = run_client_round_with_openings(
        rng,
        &NET.params,
        &session,
        CHEAT,
        &party.message,
        &keys,
        &party.signing_key,
    );
    let (own, openings) = round.unwrap();
    let commitment = victim.post.head.commitment.clone();
    let root = commitment.digest(NET.params.lattice());
    // The copied root with openings of its own; then root, envelopes and ciphertext all copied.
    let sealed = seal_openings(rng, &NET.params, &session, CHEAT, root, &openings, &keys).unwrap();
    let own_seals: Vec<_> = keys.iter().map(|(_, key)| key.digest()).zip(sealed).collect();
    let copied: Vec<_> = victim.envelopes.iter().map(|e| (e.key, e.sealed.clone())).collect();
    for (sealed, ciphertext) in [(own_seals, &own.post.ciphertext), (copied, &victim.post.ciphertext)] {
        let (envelopes_root, envelopes) = env_root(CHEAT, sealed);
        let mut sent = own.clone();
        let statement =
            PostStatement::direct(&NET.params, &session, CHEAT, &commitment, ciphertext, envelopes_root);
        sent.post.head.signed = SignedPost::sign(statement, &party.signing_key);
        sent.post.head.commitment = commitment.clone();
        (sent.post.ciphertext, sent.envelopes) = (ciphertext.clone(), envelopes);
        assert!(cheated(&sent).1.envelopes.iter().all(Result::is_err), "no server takes it");
        without(&mut seen, &sent);
    }
    seen
}
