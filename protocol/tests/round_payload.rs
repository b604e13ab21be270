//! Whole rounds with the payload layer: bytes in, the same bytes out, unlinked from their senders.
//!
//! The oracle is the multiset of what the clients of the canonical set wanted to say.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

use panetiere::bulletin::CanonicalSet;
use panetiere::channel::{
    ChannelError, ChannelParams, Delivery, Encoding, Missing, Placed, cover, decode_messages, encode_in_slot,
    encode_message,
};
use panetiere::codec::slots::Ticket;
use panetiere::fault::{Attribution, Fault};
use panetiere::ids::ClientId;
use panetiere::plaintext::PlainPoly;
use panetiere::prony::PronyError;
use panetiere::testing::{Net, Round, deployment};
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng;

const MAX_BYTES: usize = 200;

/// Room for six messages of up to 200 bytes.
fn channel_of(encoding: Encoding) -> ChannelParams {
    ChannelParams::for_messages(encoding, 6, MAX_BYTES).unwrap()
}

fn channel() -> ChannelParams {
    channel_of(Encoding::Sketch)
}

/// One vector a client, in the order of the ids; `None` is cover.
fn vectors(net: &Net, leaf_index: u64, says: &[Option<Vec<u8>>]) -> Vec<Vec<PlainPoly>> {
    vectors_in(&channel(), net, leaf_index, says)
}

fn vectors_in(
    channel: &ChannelParams,
    net: &Net,
    leaf_index: u64,
    says: &[Option<Vec<u8>>],
) -> Vec<Vec<PlainPoly>> {
    let mut rng = ChaCha20Rng::from_seed([u8::try_from(leaf_index).unwrap(); 32]);
    let session = net.session(leaf_index);
    let vector = |message: &Option<Vec<u8>>| match message {
        Some(bytes) => encode_message(&mut rng, channel, &session, bytes).unwrap(),
        None => cover(channel),
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

/// What a whole round over these vectors delivers.
fn delivery(
    channel: &ChannelParams,
    net: &Net,
    leaf_index: u64,
    vectors: &[Vec<PlainPoly>],
    set: &CanonicalSet,
) -> Delivery {
    let mut round = submit(net, leaf_index, vectors);
    let sums = round.sums(set);
    let recovered = round.recover(set, &sums[1..]).unwrap();
    assert!(recovered.culprits.is_empty() && recovered.discarded.is_empty());
    recovered.deliver(channel, &round.session).unwrap()
}

#[test]
fn sketch_and_peeling_deliver_the_same() {
    for encoding in [Encoding::Sketch, Encoding::Peeling] {
        let channel = channel_of(encoding);
        let net = deployment(45).servers(4).threshold(3).clients(6).channel(&channel).build();
        let (all, some) = (net.all(), CanonicalSet::new([0, 2, 3, 4].map(ClientId)).unwrap());
        let mut says = says();
        let vectors = [0, 1].map(|leaf_index| vectors_in(&channel, &net, leaf_index, &says));
        let whole = Delivery { messages: sorted(&says), missing: Missing::Nothing };
        assert_eq!(delivery(&channel, &net, 0, &vectors[0], &all), whole, "{encoding}");
        (says[1], says[5]) = (None, None);
        let rest = Delivery { messages: sorted(&says), missing: Missing::Nothing };
        assert_eq!(delivery(&channel, &net, 1, &vectors[1], &some), rest, "{encoding}");
    }
}

#[test]
fn a_round_that_stalls_delivers_the_other_messages() {
    let channel = channel_of(Encoding::Peeling);
    let net = deployment(46).servers(3).threshold(2).clients(6).channel(&channel).build();
    let mut says = says();
    let mut vectors = vectors_in(&channel, &net, 0, &says);
    // Two clients in league post one vector: no cell holds just one of the two.
    vectors[3] = vectors[0].clone();
    (says[0], says[3]) = (None, None);
    let rest = Delivery { messages: sorted(&says), missing: Missing::Messages(2) };
    assert_eq!(delivery(&channel, &net, 0, &vectors, &net.all()), rest);
}

/// The parties of both of the slots' rounds: the same clients and servers, other dimensions.
struct SlotRounds {
    slots: ChannelParams,
    ticket_channel: ChannelParams,
    ticket_net: Net,
    slot_net: Net,
}

impl SlotRounds {
    fn new(seed: u64) -> Self {
        let slots = channel_of(Encoding::Slots);
        let ticket_channel = slots.ticket_channel().unwrap();
        let net = |channel| deployment(seed).servers(3).threshold(2).clients(6).channel(channel).build();
        Self { ticket_net: net(&ticket_channel), slot_net: net(&slots), slots, ticket_channel }
    }

    /// Everybody draws a ticket; those that have something to say reserve with it, in a round over `set`.
    fn reserve(&self, says: &[Option<Vec<u8>>], set: &CanonicalSet) -> (Vec<Ticket>, ChannelParams) {
        let mut rng = ChaCha20Rng::from_seed([77; 32]);
        let tickets: Vec<Ticket> = says.iter().map(|_| Ticket::random(&mut rng)).collect();
        let request = |(ticket, message): (&Ticket, &Option<Vec<u8>>)| {
            let bytes = u32::try_from(message.as_ref()?.len()).unwrap();
            Some(ticket.request(bytes).to_vec())
        };
        let requests: Vec<Option<Vec<u8>>> = tickets.iter().zip(says).map(request).collect();
        let vectors = vectors_in(&self.ticket_channel, &self.ticket_net, 0, &requests);
        let out = delivery(&self.ticket_channel, &self.ticket_net, 0, &vectors, set);
        assert_eq!(out.missing, Missing::Nothing);
        let announced = self.slots.with_tickets(&out.messages).unwrap().schedule().unwrap().digest();
        (tickets, self.slots.with_agreed_tickets(&out.messages, &announced).unwrap())
    }

    /// The vectors of the second round, and what became of each message.
    fn fill(
        &self,
        tickets: &[Ticket],
        scheduled: &ChannelParams,
        says: &[Option<Vec<u8>>],
    ) -> (Vec<Vec<PlainPoly>>, Vec<Option<Placed>>) {
        let session = self.slot_net.session(1);
        let vector = |(ticket, message): (&Ticket, &Option<Vec<u8>>)| match message {
            Some(message) => {
                let (vector, placed) = encode_in_slot(ticket, scheduled, &session, message).unwrap();
                (vector, Some(placed))
            }
            None => (cover(scheduled), None),
        };
        tickets.iter().zip(says).map(vector).unzip()
    }
}

#[test]
fn slots_deliver_the_same_in_two_rounds() {
    let rounds = SlotRounds::new(47);
    let says = says();
    let all = rounds.slot_net.all();
    let (tickets, scheduled) = rounds.reserve(&says, &all);
    assert_eq!(scheduled.n_polys(), rounds.slots.n_polys());
    let (vectors, placed) = rounds.fill(&tickets, &scheduled, &says);
    let sent = Some(Placed::Sent);
    assert_eq!(placed, [sent, sent, None, sent, sent, sent]);
    let whole = Delivery { messages: sorted(&says), missing: Missing::Nothing };
    assert_eq!(delivery(&scheduled, &rounds.slot_net, 1, &vectors, &all), whole);
}

#[test]
fn who_misses_either_round_costs_nobody_else_the_slot() {
    let rounds = SlotRounds::new(48);
    let mut says = says();
    // Client 0 is not in the tickets' round, client 5 not in the messages'.
    let first = CanonicalSet::new([1, 2, 3, 4, 5].map(ClientId)).unwrap();
    let second = CanonicalSet::new([0, 1, 2, 3, 4].map(ClientId)).unwrap();
    let (tickets, scheduled) = rounds.reserve(&says, &first);
    let (vectors, placed) = rounds.fill(&tickets, &scheduled, &says);
    let (sent, no_slot) = (Some(Placed::Sent), Some(Placed::NoSlot));
    assert_eq!(placed, [no_slot, sent, None, sent, sent, sent]);
    (says[0], says[5]) = (None, None);
    let rest = Delivery { messages: sorted(&says), missing: Missing::Nothing };
    assert_eq!(delivery(&scheduled, &rounds.slot_net, 1, &vectors, &second), rest);
}

#[test]
fn a_slot_that_two_clients_fill_is_lost_alone() {
    let rounds = SlotRounds::new(49);
    let mut says = says();
    let all = rounds.slot_net.all();
    let (mut tickets, scheduled) = rounds.reserve(&says, &all);
    // Client 2, which has no slot, knows all tickets from the sum and takes the one of client 4.
    let stolen = tickets[4].request(0)[..8].try_into().unwrap();
    let stolen = u64::from_le_bytes(stolen);
    let place = scheduled.schedule().unwrap().slots().iter().position(|slot| slot.ticket == stolen).unwrap();
    tickets[2] = Ticket::new(stolen);
    let mine = Some(b"mine".to_vec());
    says[2].clone_from(&mine);
    let (vectors, _) = rounds.fill(&tickets, &scheduled, &says);
    (says[2], says[4]) = (None, None);
    let rest = Delivery { messages: sorted(&says), missing: Missing::Slots(vec![place]) };
    assert_eq!(delivery(&scheduled, &rounds.slot_net, 1, &vectors, &all), rest);
}
