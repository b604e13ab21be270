//! The payload encodings: sums of honest vectors that somebody has added to.
//!
//! Input: which encoding; how many honest messages and of what length; what is added to the sum.

use crate::input::Input;
use panetiere::channel::{
    ChannelParams, Encoding, Missing, Placed, cover, decode_messages, deliver, encode_in_slot, encode_message,
};
use panetiere::codec::slots::Ticket;
use panetiere::ids::SessionId;
use panetiere::plaintext::PlainPoly;
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng;
use std::sync::LazyLock;

/// Messages that a sum may hold, and bytes of the longest.
const CAPACITY: usize = 4;
const BYTES: usize = 30;

struct World {
    session: SessionId,
    channels: Vec<ChannelParams>,
    tickets: Vec<Ticket>,
}

static WORLD: LazyLock<World> = LazyLock::new(|| {
    let session = SessionId::derive("fuzz.example/log", 1, &[0; 32]);
    let channel = |encoding| ChannelParams::for_messages(encoding, CAPACITY, BYTES).expect("a small channel");
    let tickets: Vec<Ticket> = (1..=CAPACITY as u64).map(|n| Ticket::new(n * 1001)).collect();
    let requests: Vec<Vec<u8>> = tickets.iter().map(|ticket| ticket.request(BYTES as u32).to_vec()).collect();
    let slots = channel(Encoding::Slots).with_tickets(&requests).expect("every ticket fits");
    World { session, channels: vec![channel(Encoding::Sketch), channel(Encoding::Peeling), slots], tickets }
});

/// Adds modulo t.
fn add(sum: &mut [PlainPoly], vector: &[PlainPoly], t: u64) {
    let cells = sum.iter_mut().flat_map(PlainPoly::coefficients_mut);
    let added = vector.iter().flat_map(|poly| poly.coefficients());
    cells.zip(added).for_each(|(cell, more)| *cell = (*cell + more) % t);
}

/// Makes what all inputs share, so that no input is charged for it.
pub fn init() {
    run(&[]);
}

/// One input.
pub fn run(data: &[u8]) {
    let (world, mut input) = (&*WORLD, Input::new(data));
    let channel = input.pick(&world.channels);
    let (session, t) = (&world.session, channel.plaintext_modulus());
    let mut sum = vec![PlainPoly::zero(); channel.n_polys()];
    let mut sent: Vec<Vec<u8>> = Vec::new();
    for client in 0..input.below(CAPACITY + 1) {
        let message = input.bytes(BYTES).to_vec();
        let vector = match channel.encoding() {
            Encoding::Slots => {
                let (vector, placed) =
                    encode_in_slot(&world.tickets[client], channel, session, &message).expect("it fits");
                assert_eq!(placed, Placed::Sent);
                vector
            }
            _ => {
                let seed = [u8::try_from(client).expect("few clients") | input.u8() << 4; 32];
                let rng = &mut ChaCha20Rng::from_seed(seed);
                encode_message(rng, channel, session, &message).expect("it fits")
            }
        };
        add(&mut sum, &vector, t);
        sent.push(message);
    }
    add(&mut sum, &cover(channel), t);
    sent.sort_unstable();

    // What a lying client adds: single cells, runs of one value, or everything.
    let before = sum.clone();
    let cells = sum.len() * sum[0].coefficients().len();
    for _ in 0..6 {
        if input.is_empty() {
            break;
        }
        let (start, len, step) =
            (input.place(cells), usize::from(input.u8()), input.u64() >> input.below(64));
        let factor = u64::from(input.u8());
        for (at, value) in
            (start..cells.min(start + len)).zip((0..).map(|n| step.wrapping_add(n * factor) % t))
        {
            let poly = at / sum[0].coefficients().len();
            let at = at % sum[0].coefficients().len();
            let cell = &mut sum[poly].coefficients_mut()[at];
            *cell = (*cell + value) % t;
        }
    }
    if input.u8() == 250 {
        sum.pop();
    }

    let delivery = deliver(channel, session, &sum);
    let decoded = decode_messages(channel, session, &sum, None);
    if sum == before {
        assert_eq!(decoded.as_ref(), Ok(&sent), "what was sent comes back");
    }
    if let Ok(messages) = &decoded {
        let whole = delivery.as_ref().expect("what decodes is delivered");
        assert!(whole.messages == *messages && whole.missing == Missing::Nothing);
        let counted = decode_messages(channel, session, &sum, Some(messages.len() + 1));
        assert!(counted.is_err(), "another number is noticed");
    }
    let Ok(delivery) = delivery else { return };
    assert!(delivery.messages.is_sorted());
    // A check symbol lets a wrong message pass once in 2^35: whatever comes out was sent, and as often.
    let mut left = sent;
    for message in delivery.messages {
        let at = left.iter().position(|one| *one == message);
        left.swap_remove(at.expect("a message that nobody sent"));
    }
}

pub fn seeds() -> Vec<(String, Vec<u8>)> {
    let mut seeds = Vec::new();
    for (which, channel) in (0..).zip(&WORLD.channels) {
        let name = channel.encoding().to_string();
        let says = [&[3, b'o', b'n', b'e', 1][..], &[0, 2], &[4, b'f', b'o', b'u', b'r', 3]].concat();
        seeds.push((format!("{name}-none"), vec![which, 0]));
        seeds.push((format!("{name}-three"), [&[which, 3][..], &says].concat()));
        let lie = [&[which, 3][..], &says, &[2, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0]].concat();
        seeds.push((format!("{name}-lie"), lie));
    }
    seeds
}
