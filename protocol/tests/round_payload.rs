//! Whole rounds with the payload layer: bytes in, the same bytes out, unlinked from their senders.
//!
//! The oracle is the multiset of what the clients of the canonical set wanted to say.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

use panetiere::bulletin::CanonicalSet;
use panetiere::channel::{ChannelError, ChannelParams, Encoding, cover, decode_messages, encode_message};
use panetiere::fault::{Attribution, Fault};
use panetiere::ids::ClientId;
use panetiere::plaintext::PlainPoly;
use panetiere::prony::PronyError;
use panetiere::testing::{Net, Round, deployment};
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng;

const MAX_BYTES: usize = 200;

/// Room for six messages of up to 200 bytes.
fn channel() -> ChannelParams {
    ChannelParams::for_messages(Encoding::Sketch, 6, MAX_BYTES).unwrap()
}

/// One vector a client, in the order of the ids; `None` is cover.
fn vectors(net: &Net, leaf_index: u64, says: &[Option<Vec<u8>>]) -> Vec<Vec<PlainPoly>> {
    let mut rng = ChaCha20Rng::from_seed([u8::try_from(leaf_index).unwrap(); 32]);
    let session = net.session(leaf_index);
    let vector = |message: &Option<Vec<u8>>| match message {
        Some(bytes) => encode_message(&mut rng, &channel(), &session, bytes).unwrap(),
        None => cover(&channel()),
    };
    says.iter().map(vector).collect()
}

fn submit<'a>(net: &'a Net, leaf_index: u64, vectors: &[Vec<PlainPoly>]) -> Round<'a> {
    let mut round = net.open(leaf_index);
    for (client, vector) in net.ids().zip(vectors) {
        round.submit(&round.client_with(client, vector)).accepted();
    }
    round
}

fn sorted(says: &[Option<Vec<u8>>]) -> Vec<Vec<u8>> {
    let mut messages: Vec<Vec<u8>> = says.iter().flatten().cloned().collect();
    messages.sort_unstable();
    messages
}

fn says() -> Vec<Option<Vec<u8>>> {
    let longest: Vec<u8> = (0..MAX_BYTES).map(|i| u8::try_from(i * 7 % 256).unwrap()).collect();
    vec![
        Some(b"same words".to_vec()),
        // An empty message is a message; zeros at the end are part of one; two clients may say the same.
        Some(Vec::new()),
        None,
        Some(vec![0; 3]),
        Some(b"same words".to_vec()),
        Some(longest),
    ]
}

#[test]
fn the_messages_of_the_set_come_back_exactly() {
    let net = deployment(40).servers(4).threshold(3).clients(6).channel(&channel()).build();
    let says = says();
    let mut round = submit(&net, 0, &vectors(&net, 0, &says));
    let set = net.all();
    let sums = round.sums(&set);
    let recovered = round.recover(&set, &sums[1..]).unwrap();
    let messages = decode_messages(&channel(), &round.session, &recovered.plaintext, Some(5)).unwrap();
    assert_eq!(messages, sorted(&says));
    // Nothing is known of their number: the same without it, and another number is noticed.
    let unknown = decode_messages(&channel(), &round.session, &recovered.plaintext, None);
    assert_eq!(unknown.as_ref(), Ok(&messages));
    let six = decode_messages(&channel(), &round.session, &recovered.plaintext, Some(6));
    assert_eq!(six, Err(ChannelError::CountMismatch { expected: 6, found: 5 }));
    // The same vectors in another session carry no valid check.
    let elsewhere = decode_messages(&channel(), &net.session(1), &recovered.plaintext, Some(5));
    assert_eq!(elsewhere, Err(ChannelError::CheckFailed));
}

#[test]
fn a_client_outside_the_set_leaves_nothing_behind() {
    let net = deployment(41).servers(3).threshold(2).clients(6).channel(&channel()).build();
    let mut says = says();
    let mut round = submit(&net, 0, &vectors(&net, 0, &says));
    let set = CanonicalSet::new([0, 2, 3, 4].map(ClientId)).unwrap();
    let sums = round.sums(&set);
    let plaintext = round.recover(&set, &sums).unwrap().plaintext;
    (says[1], says[5]) = (None, None);
    assert_eq!(decode_messages(&channel(), &round.session, &plaintext, None).unwrap(), sorted(&says));
}

#[test]
fn a_round_of_cover_is_empty() {
    let net = deployment(42).servers(3).threshold(2).clients(2).channel(&channel()).build();
    let mut round = submit(&net, 0, &vectors(&net, 0, &[None, None]));
    let sums = round.sums(&net.all());
    let plaintext = round.recover(&net.all(), &sums).unwrap().plaintext;
    assert_eq!(decode_messages(&channel(), &round.session, &plaintext, Some(0)), Ok(vec![]));
}

#[test]
fn a_garbage_vector_spoils_the_round_and_names_nobody() {
    let net = deployment(43).servers(3).threshold(2).clients(6).channel(&channel()).build();
    let mut vectors = vectors(&net, 0, &says());
    // A uniform vector, as `Party` has one: it is no sketch of anything.
    vectors[2] = net.party(ClientId(2)).message.clone();
    let mut round = submit(&net, 0, &vectors);
    let sums = round.sums(&net.all());
    let recovered = round.recover(&net.all(), &sums).unwrap();
    assert!(recovered.culprits.is_empty() && recovered.discarded.is_empty());
    let refused = decode_messages(&channel(), &round.session, &recovered.plaintext, None).unwrap_err();
    assert!(matches!(refused, ChannelError::SketchFailed(_)), "{refused:?}");
    assert_eq!(refused.attribution(), Attribution::Nobody);
}

#[test]
fn more_messages_than_the_channel_holds_are_noticed() {
    // Fifteen clients in a channel for six.
    let net = deployment(44).servers(3).threshold(2).clients(15).channel(&channel()).build();
    let says: Vec<_> = (0..15u8).map(|i| Some(vec![i; 5])).collect();
    let mut round = submit(&net, 0, &vectors(&net, 0, &says));
    let sums = round.sums(&net.all());
    let plaintext = round.recover(&net.all(), &sums).unwrap().plaintext;
    let refused = decode_messages(&channel(), &round.session, &plaintext, None).unwrap_err();
    assert!(
        matches!(refused, ChannelError::SketchFailed(PronyError::CapacityExceeded { .. })),
        "{refused:?}"
    );
    assert_eq!(refused.attribution(), Attribution::Nobody);
}
