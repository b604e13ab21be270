//! Slot reservation against plain maps and the Python oracle; 100,000 rounds; malicious requests.

use super::*;
use crate::fault::{Attribution, Fault};
use proptest::prelude::*;
use rand_chacha::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};
use rayon::prelude::*;
use std::collections::BTreeMap;

fn rng(seed: u64) -> ChaCha20Rng {
    ChaCha20Rng::seed_from_u64(seed)
}

fn reservation((ticket, bytes): (u64, u32)) -> Reservation {
    Reservation { ticket, bytes }
}

fn reservations(requests: &[(u64, u32)]) -> Vec<Reservation> {
    requests.iter().copied().map(reservation).collect()
}

fn layout(capacity: usize, max_bytes: usize) -> SlotLayout {
    SlotLayout::new(capacity, max_bytes).unwrap()
}

fn refusals(schedule: &Schedule) -> Vec<(u64, u32, Refusal)> {
    schedule.refused().iter().map(|(asked, refusal)| (asked.ticket, asked.bytes, *refusal)).collect()
}

#[derive(serde::Deserialize)]
struct Oracle {
    slots: OracleSlots,
}

#[derive(serde::Deserialize)]
struct OracleSlots {
    max_bytes: usize,
    capacity: usize,
    requests: Vec<(u64, u32)>,
    beacon: u64,
    digest: String,
    slots: Vec<(u64, usize, usize)>,
    refused: Vec<(u64, u32)>,
    ticket: u64,
    start: usize,
    frame: Vec<u64>,
}

#[test]
fn the_python_oracle_gives_out_the_same_slots() {
    let Oracle { slots: oracle } =
        serde_json::from_str(include_str!("../../../params/encodings_oracle.json")).unwrap();
    assert_eq!(beacon(oracle.requests.iter().map(|&(ticket, _)| ticket)), oracle.beacon);
    let schedule = allocate(&reservations(&oracle.requests), layout(oracle.capacity, oracle.max_bytes));
    let slots: Vec<(u64, usize, usize)> =
        schedule.slots().iter().map(|slot| (slot.ticket, slot.bytes, slot.coefficients.start)).collect();
    assert_eq!(slots, oracle.slots);
    assert_eq!(schedule.digest().to_string(), oracle.digest);
    let mut refused: Vec<(u64, u32)> =
        refusals(&schedule).iter().map(|&(ticket, bytes, _)| (ticket, bytes)).collect();
    let mut expected = oracle.refused;
    refused.sort_unstable();
    expected.sort_unstable();
    assert_eq!(refused, expected);

    let claim = schedule.claim(&Ticket::new(oracle.ticket)).unwrap();
    let vector = encode_at(&claim, &oracle.frame, &schedule).unwrap();
    let mut expected = vec![0; 2048];
    expected[oracle.start..][..oracle.frame.len()].copy_from_slice(&oracle.frame);
    assert_eq!(vector, PlainPoly::from_scalars(&expected));
}

#[test]
fn requests_have_one_encoding() {
    let request = Ticket::new(0x0807_0605_0403_0201).request(0x0c0b_0a09);
    assert_eq!(*request, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]);
    assert_eq!(request.len(), RESERVATION_BYTES);
    let expected = Reservation { ticket: 0x0807_0605_0403_0201, bytes: 0x0c0b_0a09 };
    assert_eq!(Reservation::from_bytes(&request), Ok(expected));
    for len in [0, 11, 13] {
        assert!(Reservation::from_bytes(&vec![0; len]).is_err(), "{len} bytes");
    }
}

#[test]
fn the_beacon_is_that_of_the_set() {
    let of = |tickets: &[u64]| beacon(tickets.iter().copied());
    assert_eq!(of(&[1, 2, 3]), of(&[3, 1, 2, 1, 1]));
    let all: std::collections::BTreeSet<u64> =
        [&[][..], &[0], &[1], &[0, 1], &[1 << 63], &[1, 2, 3]].into_iter().map(of).collect();
    assert_eq!(all.len(), 6);
}

#[test]
fn absurd_layouts_are_refused() {
    assert_eq!(SlotLayout::new(0, 1), Err(CodecError::Empty));
    assert_eq!(SlotLayout::new(1, 0), Err(CodecError::Empty));
    let too_many = Err(CodecError::TooManyCoefficients { max: 1 << 27 });
    for (capacity, bytes) in [((1 << 27) + 1, 1), (usize::MAX, 1), (1, usize::MAX), (1, 1 << 30)] {
        assert_eq!(SlotLayout::new(capacity, bytes), too_many, "{capacity} coefficients, {bytes} bytes");
    }
    for (capacity, polys) in [(1, 1), (2048, 1), (2049, 2), (1 << 27, 1 << 16)] {
        assert_eq!(layout(capacity, 9).n_polys(), polys);
    }
}

#[test]
fn a_ticket_held_twice_drops_its_holders_only() {
    let schedule = allocate(&reservations(&[(7, 3), (5, 1), (7, 3), (9, 2), (7, 1)]), layout(100, 10));
    let mut tickets: Vec<u64> = schedule.slots().iter().map(|slot| slot.ticket).collect();
    tickets.sort_unstable();
    assert_eq!(tickets, [5, 9]);
    assert_eq!(
        refusals(&schedule),
        [(7, 1, Refusal::Duplicate), (7, 3, Refusal::Duplicate), (7, 3, Refusal::Duplicate)]
    );
    assert_eq!(schedule.claim(&Ticket::new(7)).unwrap_err(), CodecError::NoSlot);
}

#[test]
fn huge_requests_are_refused_and_take_nothing() {
    let schedule = allocate(&reservations(&[(1, u32::MAX), (2, 11), (3, 10), (4, 0)]), layout(7, 10));
    let mut refused = refusals(&schedule);
    refused.sort_unstable_by_key(|asked| asked.0);
    assert_eq!(refused, [(1, u32::MAX, Refusal::TooLong), (2, 11, Refusal::TooLong)]);
    assert_eq!(schedule.slots().iter().map(|slot| slot.coefficients.len()).sum::<usize>(), 7);
    // Within the longest slot, but not within the vector.
    let schedule = allocate(&reservations(&[(1, u32::MAX >> 4)]), layout(7, 1 << 28));
    assert_eq!(refusals(&schedule), [(1, u32::MAX >> 4, Refusal::NoRoom)]);
}

#[test]
fn slots_fill_the_vector_exactly() {
    // 10 bytes are 3 symbols; with check and length, 5.
    let requests: Vec<Reservation> = (0..6).map(|ticket| reservation((ticket, 10))).collect();
    let full = allocate(&requests, layout(30, 10));
    assert_eq!(full.slots().len(), 6);
    assert_eq!(full.slots()[5].coefficients, 25..30);
    let short = allocate(&requests, layout(29, 10));
    assert_eq!(short.slots(), &full.slots()[..5]);
    let last = full.slots()[5].ticket;
    assert_eq!(refusals(&short), [(last, 10, Refusal::NoRoom)]);
    // A smaller one behind it still fits.
    let mut requests = requests;
    requests.iter_mut().filter(|asked| asked.ticket == last).for_each(|asked| asked.bytes = 0);
    assert_eq!(allocate(&requests, layout(29, 10)).slots().len(), 6);
}

#[test]
fn no_requests_give_no_slots() {
    let schedule = allocate(&[], layout(10, 10));
    assert_eq!((schedule.slots(), schedule.refused()), (&[][..], &[][..]));
}

/// Fraction of rounds of 300 clients in which somebody gets no slot.
fn rounds_with_losers(rounds: u64, ticket_bits: u32) -> u64 {
    (0..rounds)
        .into_par_iter()
        .filter(|&round| {
            let mut random = rng(round);
            let requests: Vec<Reservation> = (0..300)
                .map(|_| Reservation { ticket: random.next_u64() >> (64 - ticket_bits), bytes: 16_384 })
                .collect();
            let schedule = allocate(&requests, layout(300 * 3747, 16_384));
            assert_eq!(schedule.slots().len() + schedule.refused().len(), 300);
            schedule.slots().len() != 300
        })
        .count() as u64
}

#[test]
fn nobody_of_300_loses_its_slot_in_100000_rounds() {
    assert_eq!(rounds_with_losers(100_000, 64), 0);
}

/// What 64 bits are for: the published 16 lose somebody in half of the rounds. 1 - exp(-300^2 / 2 / 2^16) = 0.497.
#[test]
fn short_tickets_lose_somebody_in_half_of_the_rounds() {
    let lost = rounds_with_losers(4000, 16);
    assert!((1800..2200).contains(&lost), "{lost} of 4000");
}

#[test]
fn frames_land_in_their_slot_and_nowhere_else() {
    let schedule = allocate(&reservations(&[(11, 10), (22, 0), (33, 5)]), layout(2049, 10));
    assert_eq!(schedule.layout().n_polys(), 2);
    for slot in schedule.slots() {
        let claim = schedule.claim(&Ticket::new(slot.ticket)).unwrap();
        let range = slot.coefficients.clone();
        let mut frame: Vec<u64> = (1..=range.len() as u64).collect();
        // As long as the longest slot.
        frame.resize(5, 0);
        let vector = encode_at(&claim, &frame, &schedule).unwrap();
        let mut expected = vec![0; 4096];
        expected[range.clone()].copy_from_slice(&frame[..range.len()]);
        assert_eq!(vector, PlainPoly::from_scalars(&expected));
        assert_eq!(
            decode_ranges(&vector, std::slice::from_ref(&range)),
            Ok(vec![frame[..range.len()].to_vec()])
        );
        // Shorter than the slot.
        assert_eq!(
            decode_ranges(&encode_at(&claim, &[9], &schedule).unwrap(), std::slice::from_ref(&range))
                .unwrap()[0][0],
            9
        );
        // Longer: an error, not a truncation.
        frame.truncate(range.len());
        frame.push(1);
        assert_eq!(encode_at(&claim, &frame, &schedule), Err(CodecError::SlotOverflow));
        assert_eq!(encode_at(&claim, &[1 << 35], &schedule), Err(CodecError::SymbolOutOfRange));
    }
    assert_eq!(schedule.claim(&Ticket::new(12)).unwrap_err(), CodecError::NoSlot);
    assert_eq!(CodecError::NoSlot.attribution(), Attribution::Nobody);
    // A slot of another schedule: same start, other length.
    let other = allocate(&reservations(&[(1, 7)]), layout(100, 10));
    let claim = other.claim(&Ticket::new(1)).unwrap();
    assert_eq!(encode_at(&claim, &[1], &schedule), Err(CodecError::NoSlot));
}

#[test]
fn ranges_out_of_bounds_are_refused_before_allocation() {
    let polys = [PlainPoly::zero(), PlainPoly::zero()];
    assert_eq!(decode_ranges(&polys, &[0..0, 4096..4096, 4095..4096]), Ok(vec![vec![], vec![], vec![0]]));
    assert_eq!(decode_ranges(&[], &[]), Ok(vec![]));
    for (start, end) in [(0, 4097), (4097, 4097), (5, 4), (0, usize::MAX), (usize::MAX, 0)] {
        let expected = CodecError::RangeOutOfBounds { start, end, max: 4096 };
        assert_eq!(decode_ranges(&polys, &[0..4, Range { start, end }]), Err(expected));
    }
    assert!(decode_ranges(&[], &[0..0, 0..1]).is_err());
}

#[test]
fn only_the_ranges_are_looked_at() {
    let mut polys = vec![PlainPoly::zero(), PlainPoly::zero()];
    polys[1].coefficients_mut()[5] = 1 << 35;
    assert_eq!(decode_ranges(&polys, &[0..2053, 2054..4096]).map(|ranges| ranges.len()), Ok(2));
    let expected = CodecError::CoeffOutOfRange { index: 2053, value: 1 << 35 };
    assert_eq!(decode_ranges(&polys, &[0..2053, 2053..2054]), Err(expected));
}

/// First fit from the definition, with wide integers and no shared helper but the beacon.
fn naive(requests: &[(u64, u32)], capacity: u128, max_bytes: u128) -> Vec<(u64, u128, u128)> {
    let beacon = u128::from(beacon(requests.iter().map(|&(ticket, _)| ticket)));
    let mut holders: BTreeMap<u128, Vec<(u64, u128)>> = BTreeMap::new();
    for &(ticket, bytes) in requests {
        let distance = (u128::from(ticket) + (1 << 64) - beacon) % (1 << 64);
        holders.entry(distance).or_default().push((ticket, u128::from(bytes)));
    }
    let mut slots = Vec::new();
    let mut free = 0;
    for holders in holders.values() {
        let (ticket, bytes) = holders[0];
        let symbols = (bytes * 8).div_ceil(35) + 2;
        if holders.len() == 1 && bytes <= max_bytes && free + symbols <= capacity {
            slots.push((ticket, free, symbols));
            free += symbols;
        }
    }
    slots
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn slots_are_first_fit_in_the_order_of_the_beacon(
        mut requests in prop::collection::vec(
            (prop_oneof![0u64..8, any::<u64>()], prop_oneof![0u32..40, any::<u32>()]),
            0..20,
        ),
        capacity in 1usize..120,
        max_bytes in 1usize..50,
    ) {
        let schedule = allocate(&reservations(&requests), layout(capacity, max_bytes));
        let slots: Vec<(u64, u128, u128)> = schedule
            .slots()
            .iter()
            .map(|slot| (slot.ticket, slot.coefficients.start as u128, slot.coefficients.len() as u128))
            .collect();
        prop_assert_eq!(slots, naive(&requests, capacity as u128, max_bytes as u128));
        prop_assert_eq!(schedule.slots().len() + schedule.refused().len(), requests.len());
        // Whoever has a slot finds it, and a frame in it comes back.
        for slot in schedule.slots() {
            let claim = schedule.claim(&Ticket::new(slot.ticket)).unwrap();
            prop_assert_eq!((claim.start(), claim.bytes()), (slot.coefficients.start as u64, slot.bytes as u64));
        }
        requests.reverse();
        prop_assert_eq!(allocate(&reservations(&requests), layout(capacity, max_bytes)), schedule);
    }
}
