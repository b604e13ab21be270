//! What the network and the bulletin do to messages: nothing that they do names a client or a server.

use super::{CHEAT, LIAR, NET, NOBODY, SCENE};
use panetiere::bulletin::{Envelope, PostStatement, SignedPost};
use panetiere::fault::{Attribution, Fault, Retry};
use panetiere::ids::{CiphertextDigest, ClientId, ServerId};
use panetiere::protocol::{EnvelopeFault, unseal_opening};
use panetiere::testing::{Round, deployment};
use panetiere::wire::{Decode, Reader};

#[test]
fn what_happens_to_an_envelope_on_its_way_names_nobody() {
    let other_key = NET.server(ServerId(0)).envelope_key().public_key().digest();
    let verified = |round: &mut Round<'_>, client| {
        let sent = round.client(client);
        (round.submit(&sent).statement.unwrap(), sent)
    };
    let (post, sent) = verified(&mut NET.open(1), CHEAT);
    let (other_post, other) = verified(&mut NET.open(1), ClientId(0));
    let (earlier_post, earlier) = verified(&mut NET.open(0), CHEAT);
    let envelope = |edit: fn(&mut Envelope)| {
        let mut envelope = sent.envelopes[2].clone();
        edit(&mut envelope);
        envelope
    };
    let rows = [
        ("another server's", &post, sent.envelopes[0].clone(), "envelope_wrong_server", NOBODY),
        (
            "another server's, relabelled",
            &post,
            Envelope { server: LIAR, ..sent.envelopes[3].clone() },
            "envelope_not_in_post",
            NOBODY,
        ),
        ("a sealed bit flipped", &post, envelope(|e| e.sealed[5000] ^= 4), "envelope_not_in_post", NOBODY),
        ("a path bit flipped", &post, envelope(|e| e.path[1][31] ^= 1), "envelope_not_in_post", NOBODY),
        (
            "the key's name changed",
            &post,
            Envelope { key: other_key, ..sent.envelopes[2].clone() },
            "envelope_not_in_post",
            NOBODY,
        ),
        ("of an earlier session", &post, earlier.envelopes[2].clone(), "envelope_not_in_post", NOBODY),
        (
            "another client's, relabelled",
            &post,
            Envelope { client: CHEAT, ..other.envelopes[2].clone() },
            "envelope_not_in_post",
            NOBODY,
        ),
        (
            "paired with another client's post",
            &other_post,
            sent.envelopes[2].clone(),
            "envelope_wrong_client",
            Attribution::Caller,
        ),
        (
            "a whole earlier post with its envelope",
            &earlier_post,
            earlier.envelopes[2].clone(),
            "envelope_wrong_session",
            Attribution::Caller,
        ),
    ];
    let mut round = NET.open(1);
    for (row, post, envelope, code, blamed) in rows {
        let refused = round.deliver(LIAR, post, &envelope).unwrap_err();
        assert_eq!((refused.code(), refused.attribution()), (code, blamed), "{row}");
        let again = if code == "envelope_not_in_post" { Retry::SameRequest } else { Retry::Never };
        assert_eq!(refused.retry(), again, "{row}");
    }
    // The server's state is as if nothing had come: the true envelope is taken, once.
    round.deliver(LIAR, &post, &sent.envelopes[2]).unwrap();
    let again = round.deliver(LIAR, &post, &sent.envelopes[2]);
    assert_eq!(again, Err(EnvelopeFault::AlreadyReceived { client: CHEAT }));
}

#[test]
fn what_the_bulletin_does_to_a_post_names_no_party() {
    let scene = &*SCENE;
    let post_len = NET.params.wire_sizes(4).post;
    let ciphertext = post_len - NET.params.wire_sizes(4).ciphertext;
    let root = ciphertext - NET.params.wire_sizes(4).hvc_poly;
    // Header, statement (header, deployment, epoch, session, ...), signature, root, ciphertext.
    let session = 4 + 4 + 64;
    type Tamper<'a> = &'a dyn Fn(&mut Round<'_>);
    let flip = |round: &mut Round<'_>, at: usize| round.bulletin.get_mut(&CHEAT).unwrap()[at] ^= 1;
    let rows: [(&str, Tamper<'_>, &str, Attribution, Retry); 8] = [
        ("no post", &|round| drop(round.bulletin.remove(&CHEAT)), "post_missing", NOBODY, Retry::SameRequest),
        (
            "half a post",
            &|round| round.bulletin.get_mut(&CHEAT).unwrap().truncate(post_len / 2),
            "post_missing",
            NOBODY,
            Retry::SameRequest,
        ),
        (
            "another client's post",
            &|round| {
                let other = round.bulletin[&ClientId(0)].clone();
                round.bulletin.insert(CHEAT, other);
            },
            "post_wrong_client",
            Attribution::Caller,
            Retry::Never,
        ),
        (
            "an altered ciphertext",
            &|round| flip(round, ciphertext),
            "post_body_mismatch",
            NOBODY,
            Retry::SameRequest,
        ),
        ("an altered root", &|round| flip(round, root), "post_body_mismatch", NOBODY, Retry::SameRequest),
        ("an altered statement", &|round| flip(round, session), "statement_signature", NOBODY, Retry::Never),
        ("an altered signature", &|round| flip(round, root - 1), "statement_signature", NOBODY, Retry::Never),
        (
            "the post of an earlier session",
            &|round| {
                let old = scene.earlier.bulletin[&CHEAT].clone();
                round.bulletin.insert(CHEAT, old);
            },
            "statement_session",
            NOBODY,
            Retry::Never,
        ),
    ];
    for (row, tamper, code, blamed, retry) in rows {
        let mut round = NET.posted(1);
        let sums = round.sums(&scene.set);
        let original = round.bulletin[&CHEAT].clone();
        tamper(&mut round);
        let refused = round.recover(&scene.set, &sums).unwrap_err();
        assert_eq!((refused.code(), refused.attribution()), (code, blamed), "{row}");
        assert_eq!(refused.retry(), retry, "{row}");
        // Fetched again, the round is the one it was.
        round.bulletin.insert(CHEAT, original);
        assert_eq!(round.recover(&scene.set, &sums).unwrap().plaintext, NET.expected(&scene.set), "{row}");
    }
}

#[test]
fn a_body_that_no_bytes_match_names_nobody() {
    // The same error, made by a client: it signs the digest of a ciphertext that it never publishes.
    let mut round = NET.posted(1);
    let sums = round.sums(&SCENE.set);
    let mut sent = round.client(CHEAT);
    let party = NET.party(CHEAT);
    let statement = sent.post.head.signed.claim().clone();
    let statement = PostStatement {
        ciphertext: CiphertextDigest::decode(&mut Reader::new(&[7; 32])).unwrap(),
        ..statement
    };
    sent.post.head.signed = SignedPost::sign(statement, &party.signing_key);
    round.bulletin.insert(CHEAT, sent.post.to_bytes(&NET.params));
    let refused = round.recover(&SCENE.set, &sums).unwrap_err();
    assert_eq!((refused.code(), refused.attribution()), ("post_body_mismatch", NOBODY));
}

#[test]
fn a_post_checked_under_other_parameters_names_no_client() {
    // Two rounds with parameters of their own run in one server, and it takes a post of one for a post of the other.
    // The client has signed what is right in its round.
    let other = deployment(100).servers(4).threshold(4).clients(4).build();
    let sent = other.open(1).client(CHEAT);
    let key = other.party(CHEAT).signing_key.verifying_key();
    let post = sent.post.head.signed.check(&other.params, &other.session(1), &key).unwrap();
    let refused = unseal_opening(NET.server(LIAR), &NET.params, &post, &sent.envelopes[2]).unwrap_err();
    assert_eq!((refused.code(), refused.attribution()), ("envelope_wrong_params", Attribution::Caller));
}
