//! Slots as a channel: both sub-rounds, overlaps, and slots that nobody or the wrong one filled.

use super::*;
use crate::codec::CodecError;
use crate::codec::slots::{RESERVATION_BYTES, Reservation};
use crate::wire::Encode;

fn params(rho: usize, bytes: usize) -> ChannelParams {
    ChannelParams::for_messages(Encoding::Slots, rho, bytes).unwrap()
}

/// A channel whose slots are allocated, for tickets and sizes.
fn scheduled(rho: usize, bytes: usize, requests: &[(u64, u32)]) -> ChannelParams {
    let requests: Vec<Vec<u8>> =
        requests.iter().map(|&(ticket, bytes)| Reservation { ticket, bytes }.to_bytes()).collect();
    params(rho, bytes).with_tickets(&requests).unwrap()
}

fn fill(params: &ChannelParams, ticket: u64, payload: &[u8]) -> Vec<PlainPoly> {
    let (vector, placed) = encode_in_slot(&Ticket::new(ticket), params, &session(0), payload).unwrap();
    assert_eq!(placed, Placed::Sent);
    vector
}

/// The message of a ticket, counted from 1.
fn of(payloads: &[Vec<u8>], ticket: u64) -> Vec<u8> {
    payloads[usize::try_from(ticket).unwrap() - 1].clone()
}

/// The vectors of tickets 1, 2, ..., one for each message.
fn fill_all(params: &ChannelParams, payloads: &[Vec<u8>]) -> Vec<Vec<PlainPoly>> {
    (1..).zip(payloads).map(|(ticket, payload)| fill(params, ticket, payload)).collect()
}

/// The place of a ticket's slot in the schedule.
fn place(params: &ChannelParams, ticket: u64) -> usize {
    params.schedule().unwrap().slots().iter().position(|slot| slot.ticket == ticket).unwrap()
}

#[track_caller]
fn assert_damaged(result: Result<Vec<Vec<u8>>, ChannelError>, expected: &[Vec<u8>], places: &[usize]) {
    let error = result.expect_err("the sum decoded");
    assert_eq!((error.code(), error.attribution()), ("channel_slots_damaged", Attribution::Nobody));
    let ChannelError::SlotsDamaged { recovered, damaged } = error else { panic!("{error:?}") };
    assert_eq!(recovered.into_messages(), sorted(expected.to_vec()));
    assert_eq!(damaged, places);
}

#[derive(serde::Deserialize)]
struct Oracle {
    slots: OracleSlots,
}

#[derive(serde::Deserialize)]
struct OracleSlots {
    clients: usize,
    max_bytes: usize,
    requests: Vec<(u64, u32)>,
    payload: String,
    ticket: u64,
    start: usize,
    frame: Vec<u64>,
}

#[test]
fn the_python_oracle_writes_the_same_frame() {
    let Oracle { slots: oracle } =
        serde_json::from_str(include_str!("../../../params/encodings_oracle.json")).unwrap();
    let params = scheduled(oracle.clients, oracle.max_bytes, &oracle.requests);
    let payload = data_encoding::HEXLOWER.decode(oracle.payload.as_bytes()).unwrap();
    let ticket = Ticket::new(oracle.ticket);
    let (vector, placed) = encode_in_slot(&ticket, &params, &session(7), &payload).unwrap();
    assert_eq!(placed, Placed::Sent);
    let mut expected = vec![0; 2048];
    expected[oracle.start..][..oracle.frame.len()].copy_from_slice(&oracle.frame);
    assert_eq!(vector, PlainPoly::from_scalars(&expected));
    assert_eq!(decode_messages(&params, &session(7), &vector, Some(1)), Ok(vec![payload]));
}

#[test]
fn vectors_have_the_specified_sizes() {
    // 3747 coefficients for 16 KB: 3745 of data, check and length.
    for (rho, bytes, coefficients) in
        [(300, 16_384, 300 * 3747), (300, 4096, 300 * 939), (1, 1, 3), (1000, 9, 5000)]
    {
        let params = params(rho, bytes);
        assert_eq!(params.n_polys(), usize::div_ceil(coefficients, 2048), "{rho} clients, {bytes} bytes");
        assert_eq!((params.capacity(), params.max_message_bytes()), (rho, bytes));
        assert_eq!((params.encoding(), params.plaintext_modulus()), (Encoding::Slots, 1 << 35));
        assert_eq!(cover(&params).len(), params.n_polys());
    }
    let by_symbols = ChannelParams::for_symbols(Encoding::Slots, 4, 3).unwrap();
    assert_eq!((by_symbols.max_message_bytes(), by_symbols.n_polys()), (13, 1));
    for (rho, symbols) in [(usize::MAX, 1), (1 << 26, 1), (300, usize::MAX / 35), (1, 1 << 27)] {
        let refused = ChannelParams::for_symbols(Encoding::Slots, rho, symbols);
        assert_eq!(refused, Err(ChannelError::TooLarge { rho, symbols }));
    }
}

#[test]
fn tickets_have_a_channel_of_their_own() {
    let tickets = params(300, 16_384).ticket_channel().unwrap();
    assert_eq!((tickets.encoding(), tickets.capacity()), (Encoding::Peeling, 300));
    assert_eq!(tickets.max_message_bytes(), RESERVATION_BYTES);
    // 606 cells of 8 scalars: 3 of the head, 3 for 12 bytes, length and check.
    assert_eq!(tickets.n_polys(), usize::div_ceil(606 * 8, 2048));
    let refused = params(1001, 1).ticket_channel();
    assert_eq!(refused, Err(ChannelError::TooLarge { rho: 1001, symbols: 3 }));
}

#[test]
fn a_client_fills_no_slot_of_another_schedule() {
    let agreed = scheduled(4, 20, &[(1, 20), (2, 7)]);
    let digest = agreed.schedule().unwrap().digest();
    let request = |(ticket, bytes)| Reservation { ticket, bytes }.to_bytes();
    let bare = params(4, 20);
    let take = |requests: &[(u64, u32)]| {
        let messages: Vec<Vec<u8>> = requests.iter().copied().map(request).collect();
        bare.with_agreed_tickets(&messages, &digest)
    };
    assert_eq!(take(&[(2, 7), (1, 20)]), Ok(agreed));
    // A ticket more, less, twice, of another value or size.
    for other in [
        &[(1, 20), (2, 7), (3, 0)][..],
        &[(1, 20)],
        &[(1, 20), (2, 7), (2, 7)],
        &[(1, 20), (4, 7)],
        &[(1, 20), (2, 8)],
        &[],
    ] {
        assert_eq!(take(other), Err(ChannelError::OtherSchedule { agreed: digest }), "{other:?}");
    }
    // The same slots in another vector.
    let larger = params(5, 20).with_agreed_tickets(&[request((1, 20)), request((2, 7))], &digest);
    let error = larger.unwrap_err();
    assert_eq!((error.code(), error.attribution()), ("channel_other_schedule", Attribution::Nobody));
}

/// A ticket that has no slot must not end up in the slot of 0 bytes at coefficient 0.
#[test]
fn no_slot_is_not_the_empty_slot_at_the_front() {
    let params = scheduled(4, 20, &[(1, 0)]);
    let none = Ok((vec![PlainPoly::zero()], Placed::NoSlot));
    assert_eq!(encode_in_slot(&Ticket::new(2), &params, &session(0), b""), none);
    assert_eq!(encode_in_slot(&Ticket::new(2), &params, &session(0), b"bread"), none);
}

/// Both sub-rounds, for 40 clients of which some send nothing, with either encoding for the tickets.
#[test]
fn two_rounds_carry_messages_of_all_lengths() {
    for encoding in [Encoding::Sketch, Encoding::Peeling] {
        let mut random = rng(7);
        let max = 500;
        let tickets_channel = ChannelParams::for_messages(encoding, 40, RESERVATION_BYTES).unwrap();
        let clients: Vec<Option<(Ticket, Vec<u8>)>> = (0..40)
            .map(|i: usize| {
                (i % 4 != 3).then(|| {
                    let mut payload = vec![0; [0, 1, max, 35, 17 * i][i % 5].min(max)];
                    random.fill_bytes(&mut payload);
                    (Ticket::random(&mut random), payload)
                })
            })
            .collect();
        let vectors: Vec<Vec<PlainPoly>> = clients
            .iter()
            .map(|client| match client {
                Some((ticket, payload)) => {
                    let request = ticket.request(payload.len().try_into().unwrap());
                    encode_message(&mut random, &tickets_channel, &session(1), &request).unwrap()
                }
                None => cover(&tickets_channel),
            })
            .collect();
        let total = sum(&tickets_channel, &vectors);
        let requests = decode_messages(&tickets_channel, &session(1), &total, Some(30)).unwrap();

        let params = params(40, max).with_tickets(&requests).unwrap();
        assert_eq!(params.schedule().unwrap().slots().len(), 30);
        assert_eq!(params.schedule().unwrap().refused(), []);
        let vectors: Vec<Vec<PlainPoly>> = clients
            .iter()
            .map(|client| match client {
                Some((ticket, payload)) => encode_in_slot(ticket, &params, &session(2), payload).unwrap().0,
                None => cover(&params),
            })
            .collect();
        let total = sum(&params, &vectors);
        let expected = sorted(clients.iter().flatten().map(|(_, payload)| payload.clone()).collect());
        for threads in [1, 2, 8] {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            let decoded = pool.install(|| decode_messages(&params, &session(2), &total, Some(30)));
            assert_eq!(decoded.as_ref(), Ok(&expected), "{encoding}, {threads} threads");
        }
    }
}

#[test]
fn every_client_at_the_maximum_fills_the_vector_exactly() {
    let requests: Vec<(u64, u32)> = (1..=8).map(|ticket| (ticket, 35)).collect();
    let params = scheduled(8, 35, &requests);
    let schedule = params.schedule().unwrap();
    assert_eq!(schedule.slots().last().unwrap().coefficients.end, 8 * 10);
    let payloads: Vec<Vec<u8>> = (0..8).map(|i| vec![i; 35]).collect();
    assert_eq!(decode(&params, &sum(&params, &fill_all(&params, &payloads))), Ok(sorted(payloads)));
    // One request too many finds no room.
    let crowded: Vec<(u64, u32)> = (0..9).map(|ticket| (ticket, 35)).collect();
    assert_eq!(scheduled(8, 35, &crowded).schedule().unwrap().refused().len(), 1);
}

#[test]
fn two_clients_in_one_slot_are_detected_and_not_mixed() {
    let params = scheduled(4, 40, &[(1, 40), (2, 40), (3, 7)]);
    let vectors = [
        fill(&params, 1, b"one"),
        fill(&params, 2, b"two"),
        // Somebody who read the schedule writes where it has no business.
        fill(&params, 2, b"owt"),
        fill(&params, 3, b"three"),
    ];
    let honest = [b"one".to_vec(), b"three".to_vec()];
    let delivery = deliver(&params, &session(0), &sum(&params, &vectors)).unwrap();
    let missing = Missing::Slots(vec![place(&params, 2)]);
    assert_eq!(delivery, Delivery { messages: honest.to_vec(), missing });
    assert_damaged(decode(&params, &sum(&params, &vectors)), &honest, &[place(&params, 2)]);
    // The same message twice.
    let vectors = [fill(&params, 1, b"one"), fill(&params, 1, b"one")];
    assert_damaged(decode(&params, &sum(&params, &vectors)), &[], &[place(&params, 1)]);
}

#[test]
fn overlapping_slots_of_two_schedules_are_detected() {
    // A client that took another set of requests for the truth.
    let requests = [(1, 40), (2, 25), (3, 7), (4, 33)];
    let params = scheduled(4, 40, &requests);
    let other = scheduled(4, 40, &[(5, 40), (6, 1)]);
    let payloads: Vec<Vec<u8>> = (1..5).map(|i| vec![i; 5]).collect();
    let mut vectors = fill_all(&params, &payloads);
    vectors.push(fill(&other, 5, &[0xff; 40]));
    let range = other.schedule().unwrap().slots()[place(&other, 5)].coefficients.clone();
    let slots = params.schedule().unwrap().slots();
    let hit = |slot: &crate::codec::slots::Slot| {
        slot.coefficients.start < range.end && range.start < slot.coefficients.end
    };
    let damaged: Vec<usize> = (0..slots.len()).filter(|&at| hit(&slots[at])).collect();
    let honest: Vec<Vec<u8>> =
        slots.iter().filter(|slot| !hit(slot)).map(|slot| of(&payloads, slot.ticket)).collect();
    assert!(!damaged.is_empty() && !honest.is_empty());
    assert_damaged(decode(&params, &sum(&params, &vectors)), &honest, &damaged);
}

#[test]
fn every_change_to_a_slot_damages_that_slot_only() {
    let params = scheduled(3, 20, &[(1, 20), (2, 0), (3, 11)]);
    let payloads = [vec![1; 20], Vec::new(), vec![3; 4]];
    let total = sum(&params, &fill_all(&params, &payloads));
    for (at, slot) in params.schedule().unwrap().slots().iter().enumerate() {
        let others: Vec<Vec<u8>> =
            (1..4).filter(|&ticket| ticket != slot.ticket).map(|ticket| of(&payloads, ticket)).collect();
        for index in slot.coefficients.clone() {
            for change in [1, 1 << 34, (1 << 35) - 1] {
                let mut changed = total.clone();
                let cell = &mut changed[0].coefficients_mut()[index];
                *cell = (*cell + change) % (1 << 35);
                assert_damaged(decode(&params, &changed), &others, &[at]);
            }
        }
    }
    // Outside all slots: nobody's.
    let mut changed = total;
    let end = params.schedule().unwrap().slots().last().unwrap().coefficients.end;
    changed[0].coefficients_mut()[end] = 5;
    assert_eq!(decode(&params, &changed), Ok(sorted(payloads.to_vec())));
}

#[test]
fn a_message_moved_to_another_slot_or_session_does_not_pass() {
    let params = scheduled(4, 20, &[(1, 20), (2, 20)]);
    let vector = fill(&params, 1, b"bread");
    assert_damaged(decode_messages(&params, &session(1), &vector, None), &[], &[place(&params, 1)]);
    let slots = params.schedule().unwrap().slots();
    let [from, to] = [1, 2].map(|ticket| slots[place(&params, ticket)].coefficients.clone());
    let mut moved = cover(&params);
    moved[0].coefficients_mut()[to].copy_from_slice(&vector[0].coefficients()[from]);
    assert_damaged(decode(&params, &moved), &[], &[place(&params, 2)]);
}

#[test]
fn malformed_messages_with_the_right_check_are_damage() {
    let params = scheduled(4, 20, &[(1, 9), (2, 20)]);
    let slot = &params.schedule().unwrap().slots()[place(&params, 1)];
    let vectors = [fill(&params, 2, b"bread")];
    let label = [slot.coefficients.start as u64, 9];
    // 9 bytes in 3 symbols, of the 5 that the longest slot has. A length that the slot does not carry, though
    // the channel does; bits behind the end; and a sound one.
    for (message, good) in [
        ([10, 0, 0, 0, 0, 0], false),
        ([20, 0, 0, 0, 0, 0], false),
        ([(1 << 35) - 1, 0, 0, 0, 0, 0], false),
        ([9, 0, 0, 1 << 2, 0, 0], false),
        ([0, 1, 0, 0, 0, 0], false),
        ([9, 0, 0, 1 << 1, 0, 0], true),
    ] {
        let check = CheckKey::new(&session(0)).symbol(Encoding::Slots, &label, &message);
        let mut mine = cover(&params);
        let cells = &mut mine[0].coefficients_mut()[slot.coefficients.clone()];
        cells[0] = check;
        cells[1..].copy_from_slice(&message[..4]);
        let total = sum(&params, &[vectors[0].clone(), mine]);
        if good {
            let expected = sorted(vec![b"bread".to_vec(), [vec![0; 8], vec![0x80]].concat()]);
            assert_eq!(decode(&params, &total), Ok(expected));
        } else {
            assert_damaged(decode(&params, &total), &[b"bread".to_vec()], &[place(&params, 1)]);
        }
    }
}

#[test]
fn unused_slots_are_no_messages_and_no_damage() {
    let params = scheduled(4, 20, &[(1, 20), (2, 20), (3, 0)]);
    assert_eq!(decode(&params, &cover(&params)), Ok(Vec::new()));
    let vector = fill(&params, 3, b"");
    assert_eq!(decode_messages(&params, &session(0), &vector, Some(1)), Ok(vec![Vec::new()]));
    let mismatch = ChannelError::CountMismatch { expected: 3, found: 1 };
    assert_eq!(decode_messages(&params, &session(0), &vector, Some(3)), Err(mismatch));
}

#[test]
fn more_than_was_reserved_is_not_sent_and_not_cut() {
    let params = scheduled(4, 20, &[(1, 3), (2, 20)]);
    let placed = |len| encode_in_slot(&Ticket::new(1), &params, &session(0), &vec![7; len]);
    assert_eq!(placed(3).unwrap().1, Placed::Sent);
    // Four bytes would fit the symbols of three.
    for len in [4, 20] {
        assert_eq!(placed(len), Ok((vec![PlainPoly::zero()], Placed::TooLong)), "{len} bytes");
    }
    assert_eq!(placed(21), Err(ChannelError::MessageTooLong { len: 21, max: 20 }));
}

/// Cover, a message in the first, the last or a short slot, one that is too long, and one without a slot: the same
/// allocations stand for the same path.
#[test]
fn cover_and_every_message_are_made_alike() {
    let params = scheduled(40, 500, &[(1, 500), (2, 0), (3, 77), (4, 500)]);
    let allocations = |ticket, len: usize, expected| {
        let (payload, ticket, session) = (vec![7; len], Ticket::new(ticket), session(0));
        allocation_counter::measure(|| {
            let (_, placed) = encode_in_slot(&ticket, &params, &session, &payload).unwrap();
            assert_eq!(placed, expected);
        })
    };
    let nothing = allocation_counter::measure(|| drop(cover(&params)));
    for (ticket, len, expected) in [
        (1, 500, Placed::Sent),
        (2, 0, Placed::Sent),
        (3, 10, Placed::Sent),
        (4, 500, Placed::Sent),
        (3, 78, Placed::TooLong),
        (5, 500, Placed::NoSlot),
        (0, 0, Placed::NoSlot),
    ] {
        assert_eq!(allocations(ticket, len, expected), nothing, "ticket {ticket}, {len} bytes");
    }
}

#[test]
fn malicious_requests_cost_nobody_else_the_slot() {
    let mut requests: Vec<Vec<u8>> = [(1, 20), (2, 20), (7, 20), (7, 20), (8, u32::MAX)]
        .into_iter()
        .map(|(ticket, bytes)| Reservation { ticket, bytes }.to_bytes())
        .collect();
    requests.extend([Vec::new(), vec![0; 11], vec![0; 13], vec![0xff; 500]]);
    let params = params(2, 20).with_tickets(&requests).unwrap();
    let tickets: Vec<u64> = params.schedule().unwrap().slots().iter().map(|slot| slot.ticket).collect();
    assert_eq!(tickets.iter().collect::<std::collections::BTreeSet<_>>(), [1, 2].iter().collect());
    for lost in [7, 8, 9] {
        let sent = encode_in_slot(&Ticket::new(lost), &params, &session(0), &[]);
        assert_eq!(sent, Ok((vec![PlainPoly::zero()], Placed::NoSlot)), "ticket {lost}");
    }
}

#[test]
fn slots_want_a_schedule_and_a_ticket_and_nothing_else_does() {
    let bare = params(4, 20);
    let ticket = Ticket::new(1);
    assert_eq!(encode_in_slot(&ticket, &bare, &session(0), &[]), Err(ChannelError::NoSchedule));
    assert_eq!(decode(&bare, &cover(&bare)), Err(ChannelError::NoSchedule));
    assert_eq!(bare.schedule(), None);
    let empty = bare.with_tickets(&[]).unwrap();
    assert_eq!(decode(&empty, &cover(&empty)), Ok(Vec::new()));
    for params in [&bare, &empty] {
        assert_eq!(encode_message(&mut rng(0), params, &session(0), &[]), Err(ChannelError::TicketNeeded));
    }
    let digest = empty.schedule().unwrap().digest();
    for encoding in [Encoding::Sketch, Encoding::Peeling] {
        let params = ChannelParams::for_messages(encoding, 4, 20).unwrap();
        assert_eq!(params.with_tickets(&[]), Err(ChannelError::NotSlots { encoding }));
        assert_eq!(params.ticket_channel(), Err(ChannelError::NotSlots { encoding }));
        assert_eq!(params.with_agreed_tickets(&[], &digest), Err(ChannelError::NotSlots { encoding }));
        assert_eq!(
            encode_in_slot(&ticket, &params, &session(0), &[]),
            Err(ChannelError::NotSlots { encoding })
        );
        assert_eq!(params.schedule(), None);
    }
}

#[test]
fn other_dimensions_are_refused() {
    let params = scheduled(300, 100, &[(1, 20)]);
    let vector = cover(&params);
    let longer = [&vector[..], &vector[..1]].concat();
    for polys in [&vector[1..], &[], &longer] {
        let expected = CodecError::PolyCount { expected: vector.len(), found: polys.len() };
        assert_eq!(decode(&params, polys), Err(ChannelError::SlotsFailed(expected)));
    }
    let mut vector = vector;
    vector[0].coefficients_mut()[1] = 1 << 35;
    let expected = CodecError::CoeffOutOfRange { index: 1, value: 1 << 35 };
    assert_eq!(decode(&params, &vector), Err(expected.into()));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Any tickets and sizes; whoever has a slot gets through, in any company.
    #[test]
    fn what_comes_back_is_what_went_in(
        clients in prop::collection::btree_map(any::<u64>(), (0usize..60, 0usize..60), 0..10),
        seed in any::<u64>(),
    ) {
        let mut random = rng(seed);
        // Each reserves the larger number of bytes and sends the smaller.
        let requests: Vec<(u64, u32)> =
            clients.iter().map(|(&ticket, &(a, b))| (ticket, a.max(b).try_into().unwrap())).collect();
        let params = scheduled(10, 60, &requests);
        prop_assert_eq!(params.schedule().unwrap().refused(), &[]);
        let mut payloads = Vec::new();
        let mut total = cover(&params);
        for (&ticket, &(a, b)) in &clients {
            let mut payload = vec![0; a.min(b)];
            random.fill_bytes(&mut payload);
            total = sum(&params, &[total, fill(&params, ticket, &payload)]);
            payloads.push(payload);
        }
        prop_assert_eq!(decode_messages(&params, &session(0), &total, Some(clients.len())), Ok(sorted(payloads)));
    }

    /// One client writes garbage over everything.
    #[test]
    fn a_garbage_vector_gives_no_message(seed in any::<u64>()) {
        let params = scheduled(3, 20, &[(1, 20), (2, 0), (3, 11)]);
        let mut random = rng(seed);
        let garbage: Vec<u64> = (0..2048).map(|_| random.next_u64() % (1 << 35)).collect();
        let total = sum(&params, &[fill(&params, 1, b"bread"), PlainPoly::from_scalars(&garbage)]);
        let delivery = deliver(&params, &session(0), &total).unwrap();
        prop_assert_eq!(delivery, Delivery { messages: vec![], missing: Missing::Slots(vec![0, 1, 2]) });
        assert_damaged(decode(&params, &total), &[], &[0, 1, 2]);
    }
}
