//! Posts that arrive in pieces, with more polynomials than one block has.
//!
//! The oracle of a running sum is what comes out of the recovery: the plain integer sum of what the clients sent.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

use panetiere::bulletin::{ClientBulletinEntry, PostHead, PostStatement, PostView, SignedPost};
use panetiere::fault::{Attribution, Fault};
use panetiere::ids::ClientId;
use panetiere::protocol::{PostFault, PostSum, decrypt_aggregate};
use panetiere::testing::{Net, Round, deployment};
use panetiere::wire::DecodeWith;
use std::sync::LazyLock;

/// Blocks have 32 polynomials: two whole ones and a part.
const POLYS: u32 = 70;

static NET: LazyLock<Net> =
    LazyLock::new(|| deployment(7).servers(3).threshold(2).clients(3).polys(POLYS).build());

const LAST: ClientId = ClientId(2);

fn bytes(round: &Round<'_>, client: ClientId) -> Vec<u8> {
    round.client(client).post.to_bytes(&NET.params)
}

/// Feeds a post in pieces of these sizes, cyclically.
fn feed(sum: &mut PostSum<'_>, client: ClientId, post: &[u8], pieces: &[usize]) -> Result<(), PostFault> {
    let (head, mut rest) = post.split_at(PostHead::packed_len(&NET.params));
    let head = PostHead::from_bytes_with(&NET.params, head).unwrap();
    let mut incoming = sum.begin(&NET.party(client).signing_key.verifying_key(), head)?;
    assert_eq!(incoming.client(), client);
    for &size in pieces.iter().cycle() {
        if rest.is_empty() {
            break;
        }
        let piece = rest.split_off(..size.min(rest.len())).unwrap();
        incoming.push(piece)?;
    }
    incoming.finish()
}

/// What the sum decrypts to is what the clients sent: whatever happened to it on the way left no trace.
fn assert_recovers(sum: &PostSum<'_>, round: &mut Round<'_>) {
    let set = NET.all();
    let recovered = decrypt_aggregate(sum, &NET.epoch, &round.sums(&set), &mut |_| {}).unwrap();
    assert_eq!(recovered.plaintext, NET.expected(&set));
}

#[test]
fn pieces_of_any_size_add_up() {
    let mut round = NET.posted(0);
    let (session, set) = (round.session, NET.all());
    let mut sum = PostSum::new(&NET.params, session, &set);
    for (client, pieces) in NET.ids().zip([&[65_536][..], &[1, 10_751, 500_000], &[usize::MAX]]) {
        let post = bytes(&round, client);
        feed(&mut sum, client, &post, pieces).unwrap();
        let again = feed(&mut sum, client, &post, pieces).unwrap_err();
        assert_eq!(again, PostFault::AlreadyAdded { client });
    }
    assert_recovers(&sum, &mut round);
}

#[test]
fn what_is_cut_off_altered_or_too_long_leaves_no_trace_and_names_nobody() {
    let mut round = NET.posted(1);
    let (session, set) = (round.session, NET.all());
    let mut sum = PostSum::new(&NET.params, session, &set);
    let post = bytes(&round, LAST);
    let mismatch = PostFault::BodyMismatch { client: LAST, part: "ciphertext" };

    // Cut off: inside the head's first polynomial, after a block, a byte before the end.
    let head = PostHead::packed_len(&NET.params);
    for end in [head + 1, head + 33 * 10_752, post.len() - 1] {
        assert_eq!(feed(&mut sum, LAST, &post[..end], &[100_000]), Err(mismatch.clone()));
    }
    // Altered: a bit of the first, of a middle and of the last polynomial; a field out of range that nobody signed.
    for at in [head, head + 40 * 10_752, post.len() - 1] {
        let mut altered = post.clone();
        altered[at] ^= 1;
        assert_eq!(feed(&mut sum, LAST, &altered, &[100_000]), Err(mismatch.clone()));
        altered[at..][..1].fill(255);
        if at + 8 < altered.len() {
            altered[at..][..8].fill(255);
        }
        assert_eq!(feed(&mut sum, LAST, &altered, &[100_000]), Err(mismatch.clone()));
    }
    // Too long, by a byte.
    let long = [post.as_slice(), &[0]].concat();
    assert_eq!(feed(&mut sum, LAST, &long, &[100_000]), Err(mismatch.clone()));
    assert_eq!(mismatch.attribution(), Attribution::Nobody);
    // Begun and given up.
    let view = PostView::parse(&NET.params, &post).unwrap();
    let mut incoming = sum.begin(&NET.party(LAST).signing_key.verifying_key(), view.head.clone()).unwrap();
    incoming.push(&view.ciphertext[..400_000]).unwrap();
    drop(incoming);

    for client in NET.ids() {
        let post = bytes(&round, client);
        sum.add(&NET.party(client).signing_key.verifying_key(), PostView::parse(&NET.params, &post).unwrap())
            .unwrap();
    }
    assert_recovers(&sum, &mut round);
}

#[test]
fn a_signed_body_out_of_range_names_its_client() {
    let mut round = NET.posted(2);
    let (session, set) = (round.session, NET.all());
    let mut sum = PostSum::new(&NET.params, session, &set);
    let party = NET.party(LAST);
    let ClientBulletinEntry { head, mut ciphertext } = round.client(LAST).post;
    // All ones: 2^21 - 1 is above both WIRE primes. In the second block, so that the first one is in the sum by then.
    ciphertext[35 * 10_752..][..8].fill(255);
    let commitment = &head.commitment;
    let claim = head.signed.claim();
    let statement =
        PostStatement::direct(&NET.params, &session, LAST, commitment, &ciphertext, claim.envelopes);
    let signed = SignedPost::sign(statement, &party.signing_key);
    let post = ClientBulletinEntry { head: PostHead { signed, ..head }, ciphertext };
    let whole = sum.add(&party.signing_key.verifying_key(), &post).unwrap_err();
    let in_pieces = feed(&mut sum, LAST, &post.to_bytes(&NET.params), &[4096]).unwrap_err();
    assert_eq!(whole, in_pieces);
    assert_eq!(whole.attribution(), Attribution::Client(LAST));
    assert!(matches!(whole, PostFault::Ciphertext { client: LAST, .. }));

    for client in NET.ids() {
        sum.add(&NET.party(client).signing_key.verifying_key(), &round.client(client).post).unwrap();
    }
    assert_recovers(&sum, &mut round);
}
