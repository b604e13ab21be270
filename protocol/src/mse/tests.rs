//! The peeling encoding against plain maps and sets, the Python oracle, the formula for stalls, and malice.

use super::*;
use crate::fault::{Attribution, Fault};
use crate::ids::SessionId;
use crate::plaintext::PlainPoly;
use proptest::prelude::*;
use rand_chacha::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};
use std::collections::{BTreeMap, BTreeSet};

const T: u64 = 1 << 35;

type Message = ([u64; 2], Vec<u64>);

fn rng(seed: u64) -> ChaCha20Rng {
    ChaCha20Rng::seed_from_u64(seed)
}

fn session(index: u64) -> SessionId {
    SessionId::derive("log.example/a", index, &[1; 32])
}

fn key() -> ColumnKey {
    ColumnKey::new(&session(7))
}

/// A message's last symbol for these tests: a hash of everything before it.
fn tag((label, symbols): (&[u64; 2], &[u64])) -> u64 {
    let bytes: Vec<u8> = label.iter().chain(symbols).flat_map(|word| word.to_le_bytes()).collect();
    u64::from_le_bytes(blake3::hash(&bytes).as_bytes()[..8].try_into().unwrap()) % T
}

fn tagged(label: [u64; 2], mut symbols: Vec<u64>) -> Message {
    symbols.push(tag((&label, &symbols)));
    (label, symbols)
}

fn accept(element: &Element) -> bool {
    let (&last, rest) = element.symbols.split_last().unwrap();
    last == tag((&element.label, rest))
}

fn random_messages(count: usize, symbols: usize, rng: &mut ChaCha20Rng) -> Vec<Message> {
    (0..count)
        .map(|_| {
            let label = [rng.next_u64() % T, rng.next_u64() % T];
            tagged(label, (1..symbols).map(|_| rng.next_u64() % T).collect())
        })
        .collect()
}

/// The buckets of a label, from the written rule.
fn buckets_of(label: [u64; 2], params: &MseParams) -> Vec<usize> {
    let key = blake3::derive_key("panetiere 2026-11 peeling columns v1", session(7).as_bytes());
    (0..params.rows())
        .map(|row| {
            let input: Vec<u8> =
                [row as u64, label[0], label[1]].iter().flat_map(|word| word.to_le_bytes()).collect();
            let hash = blake3::keyed_hash(&key, &input);
            let word = u64::from_le_bytes(hash.as_bytes()[..8].try_into().unwrap());
            usize::try_from((u128::from(word) * params.buckets() as u128) >> 64).unwrap()
        })
        .collect()
}

fn encode(params: MseParams, messages: &[Message]) -> Mse {
    let mut sum = Mse::empty(params);
    for (label, symbols) in messages {
        sum.insert(&Label::new(*label).unwrap(), symbols, &key()).unwrap();
    }
    sum
}

fn scalars_of(sum: &Mse) -> Vec<u64> {
    let all: Vec<u64> = sum.to_polys().iter().flat_map(|poly| poly.coefficients().to_vec()).collect();
    let (scalars, padding) = all.split_at(sum.params().scalars());
    assert!(padding.iter().all(|&scalar| scalar == 0));
    scalars.to_vec()
}

fn peel_scalars(params: MseParams, scalars: &[u64]) -> Peeled {
    Mse::from_polys(params, &PlainPoly::from_scalars(scalars)).unwrap().peel(&key(), accept)
}

fn messages_of(peeled: &Peeled) -> Vec<Message> {
    peeled.elements.iter().map(|element| (element.label, element.symbols.clone())).collect()
}

fn sorted(mut messages: Vec<Message>) -> Vec<Message> {
    messages.sort_by(|a, b| a.1.cmp(&b.1).then(a.0.cmp(&b.0)));
    messages
}

/// The largest stopping set, by the definition: drop whoever is alone in some bucket, until nobody is.
fn largest_stopping_set(columns: &[Vec<usize>]) -> BTreeSet<usize> {
    let mut left: BTreeSet<usize> = (0..columns.len()).collect();
    loop {
        let mut occupants: BTreeMap<(usize, usize), Vec<usize>> = BTreeMap::new();
        for &i in &left {
            for (row, &bucket) in columns[i].iter().enumerate() {
                occupants.entry((row, bucket)).or_default().push(i);
            }
        }
        let alone: Vec<usize> = occupants.values().filter(|who| who.len() == 1).map(|who| who[0]).collect();
        if alone.is_empty() {
            return left;
        }
        for i in alone {
            left.remove(&i);
        }
    }
}

#[derive(serde::Deserialize)]
struct Oracle {
    session: String,
    cells: OracleCells,
    stalls: OracleStalls,
}

#[derive(serde::Deserialize)]
struct OracleCells {
    rows: usize,
    buckets: usize,
    symbols: usize,
    messages: Vec<OracleMessage>,
    scalars: Vec<u64>,
}

#[derive(serde::Deserialize)]
struct OracleMessage {
    label: [u64; 2],
    symbols: Vec<u64>,
    buckets: Vec<usize>,
}

#[derive(serde::Deserialize)]
struct OracleStalls {
    frequent: Vec<Load>,
    crowded: Vec<Load>,
}

#[derive(serde::Deserialize)]
struct Load {
    clients: usize,
    rows: usize,
    buckets: usize,
    expected: f64,
    rounds: u32,
}

fn oracle() -> Oracle {
    serde_json::from_str(include_str!("../../params/encodings_oracle.json")).unwrap()
}

#[test]
fn the_python_oracle_writes_the_same_cells() {
    let Oracle { session: id, cells, .. } = oracle();
    assert_eq!(session(7).to_string(), id);
    let params = MseParams::new(cells.rows, cells.buckets, cells.symbols).unwrap();
    let mut sum = Mse::empty(params);
    for message in &cells.messages {
        assert_eq!(buckets_of(message.label, &params), message.buckets);
        sum.insert(&Label::new(message.label).unwrap(), &message.symbols, &key()).unwrap();
    }
    assert_eq!(scalars_of(&sum), cells.scalars);
}

#[test]
fn shapes_come_from_the_table() {
    // Rows and buckets as protocol/params/peeling.py prints them.
    for (capacity, rows, buckets) in
        [(1, 4, 1), (2, 8, 6), (4, 8, 8), (100, 7, 34), (300, 6, 101), (1000, 5, 356)]
    {
        let params = MseParams::for_capacity(capacity, 3).unwrap();
        assert_eq!((params.rows(), params.buckets(), params.symbols()), (rows, buckets, 3), "{capacity}");
        assert_eq!((params.cells(), params.scalars()), (rows * buckets, rows * buckets * 6));
    }
    for capacity in 2..=1000 {
        let cells = |capacity| MseParams::for_capacity(capacity, 1).unwrap().cells();
        assert!(cells(capacity) >= cells(capacity - 1), "{capacity}");
    }
    assert!(TABLE.iter().is_sorted_by_key(|entry| entry.capacity));
}

#[test]
fn the_largest_post_is_below_13_megabytes() {
    // 16 KB are 3745 symbols; length and check make 3747. A polynomial takes 10,752 bytes in transit.
    let params = MseParams::for_capacity(300, 3747).unwrap();
    assert_eq!(params.n_polys(), 1110);
    assert!(params.n_polys() * 10_752 <= 13_000_000);
}

#[test]
fn absurd_shapes_are_refused_before_allocation() {
    for found in [0, 1001, usize::MAX] {
        let refused = MseParams::for_capacity(found, 1);
        assert_eq!(refused, Err(MseError::CapacityOutOfRange { found, max: 1000 }));
    }
    for found in [0, 3, 9, usize::MAX] {
        assert_eq!(MseParams::new(found, 10, 10), Err(MseError::RowsOutOfRange { found }));
    }
    assert_eq!(MseParams::new(4, 0, 10), Err(MseError::NoBuckets));
    assert_eq!(MseParams::new(4, 10, 0), Err(MseError::NoSymbols));
    let too_many = Err(MseError::TooManyScalars { max: 1 << 27 });
    for (buckets, symbols) in [(usize::MAX, 1), (1, usize::MAX), (1 << 23, 2), (1 << 62, 1 << 62)] {
        assert_eq!(MseParams::new(4, buckets, symbols), too_many, "{buckets} buckets, {symbols} symbols");
    }
    assert_eq!(MseParams::new(4, 1 << 23, 1).unwrap().scalars(), 1 << 27);
    assert_eq!(MseError::NoBuckets.attribution(), Attribution::Caller);
    assert_eq!(MseError::NoBuckets.code(), "peeling_no_buckets");
}

#[test]
fn messages_of_another_shape_are_refused() {
    let mut sum = Mse::empty(MseParams::new(4, 3, 2).unwrap());
    let label = Label::new([1, 2]).unwrap();
    for found in [0, 1, 3] {
        let refused = sum.insert(&label, &vec![0; found], &key());
        assert_eq!(refused, Err(MseError::SymbolCount { expected: 2, found }));
    }
    for symbols in [[T, 0], [0, u64::MAX]] {
        assert_eq!(sum.insert(&label, &symbols, &key()), Err(MseError::SymbolOutOfRange));
    }
    assert_eq!(scalars_of(&sum), vec![0; 60]);
    assert!(Label::new([T, 0]).is_none() && Label::new([0, T]).is_none() && Label::new([T - 1, 0]).is_some());
    let other = Mse::empty(MseParams::new(4, 2, 2).unwrap());
    assert_eq!(sum.merge(&other), Err(MseError::ParameterMismatch));
}

#[test]
fn other_polynomials_are_refused() {
    let params = MseParams::new(4, 200, 2).unwrap();
    let cover = Mse::empty(params).to_polys();
    assert_eq!((cover.len(), params.n_polys()), (2, 2));
    for polys in [&cover[..1], &[]] {
        let expected = MseError::PolyCount { expected: 2, found: polys.len() };
        assert_eq!(Mse::from_polys(params, polys).unwrap_err(), expected);
    }
    for (index, value) in [(0, T), (4095, u64::MAX)] {
        let mut bad = cover.clone();
        bad[index / 2048].coefficients_mut()[index % 2048] = value;
        assert_eq!(Mse::from_polys(params, &bad).unwrap_err(), MseError::ScalarOutOfRange { index, value });
    }
}

#[test]
fn labels_are_fresh_and_fill_their_range() {
    let mut random = rng(1);
    let labels: Vec<[u64; 2]> = (0..1000).map(|_| *Label::random(&mut random).symbols()).collect();
    assert_eq!(labels.iter().collect::<BTreeSet<_>>().len(), 1000);
    let bits = labels.iter().fold([0, 0], |[a, b], [x, y]| [a | x, b | y]);
    assert_eq!(bits, [T - 1, T - 1]);
}

#[test]
fn every_session_has_its_own_columns() {
    let params = MseParams::new(8, 1000, 1).unwrap();
    let sum = |session| {
        let mut sum = Mse::empty(params);
        sum.insert(&Label::new([3, 4]).unwrap(), &[5], &ColumnKey::new(&session)).unwrap();
        scalars_of(&sum)
    };
    assert_eq!(sum(session(7)), sum(session(7)));
    assert_ne!(sum(session(7)), sum(session(8)));
}

#[test]
fn a_forced_stall_returns_everything_else() {
    let params = MseParams::for_capacity(20, 4).unwrap();
    let mut messages = random_messages(17, 4, &mut rng(2));
    // Two clients with one label: a stopping set in every shape.
    messages.push(tagged([11, 12], vec![1, 2, 3]));
    messages.push(tagged([11, 12], vec![3, 2, 1]));
    let peeled = encode(params, &messages).peel(&key(), accept);
    assert_eq!(peeled.rest, Rest::Stalled { missing: 2 });
    assert_eq!(messages_of(&peeled), sorted(messages[..17].to_vec()));
}

#[test]
fn forty_messages_in_a_shape_for_four_are_counted() {
    let params = MseParams::for_capacity(4, 2).unwrap();
    let messages = random_messages(40, 2, &mut rng(3));
    let peeled = encode(params, &messages).peel(&key(), accept);
    let columns: Vec<Vec<usize>> = messages.iter().map(|message| buckets_of(message.0, &params)).collect();
    let stuck = largest_stopping_set(&columns).len();
    assert_eq!(peeled.rest, Rest::Stalled { missing: stuck as u64 });
    assert_eq!(peeled.elements.len(), 40 - stuck);
    assert!(stuck > 30);
}

#[test]
fn cover_peels_to_nothing() {
    let params = MseParams::for_capacity(5, 3).unwrap();
    let peeled = Mse::empty(params).peel(&key(), accept);
    assert_eq!(peeled, Peeled { elements: Vec::new(), rest: Rest::Nothing });
}

#[test]
fn stalls_are_as_frequent_as_the_formula_says() {
    for Load { clients, rows, buckets, expected, rounds } in oracle().stalls.frequent {
        let params = MseParams::new(rows, buckets, 1).unwrap();
        let mut random = rng(4);
        let stalls = (0..rounds)
            .filter(|_| {
                let mut sum = Mse::empty(params);
                for _ in 0..clients {
                    sum.insert_in_range(&Label::random(&mut random), &[0], &key());
                }
                sum.peel(&key(), |_| true).rest != Rest::Nothing
            })
            .count();
        let ratio = stalls as f64 / f64::from(rounds) / expected;
        assert!(
            (0.9..1.1).contains(&ratio),
            "{clients} in {rows} x {buckets}: {stalls} stalls, ratio {ratio}"
        );
    }
}

/// In crowded shapes the formula is no estimate of stalls, but it still is the mean number of stopping sets.
#[test]
fn the_formula_counts_stopping_sets_of_every_size() {
    const ROUNDS: u32 = 20_000;
    for Load { clients, rows, buckets, expected, .. } in oracle().stalls.crowded {
        let params = MseParams::new(rows, buckets, 1).unwrap();
        let mut random = rng(5);
        let mut total = 0;
        for _ in 0..ROUNDS {
            let labels: Vec<Label> = (0..clients).map(|_| Label::random(&mut random)).collect();
            // The messages of each cell, as bits.
            let mut cells = vec![0u32; rows * buckets];
            for (i, label) in labels.iter().enumerate() {
                for (row, bucket) in buckets_of(*label.symbols(), &params).into_iter().enumerate() {
                    cells[row * buckets + bucket] |= 1 << i;
                }
            }
            let stopping = (1u32..1 << clients)
                .filter(|set| cells.iter().all(|cell| (cell & set).count_ones() != 1))
                .count();
            total += stopping;
            let mut sum = Mse::empty(params);
            for label in &labels {
                sum.insert_in_range(label, &[0], &key());
            }
            let stalled = sum.peel(&key(), |_| true).rest != Rest::Nothing;
            assert_eq!(stalled, stopping > 0);
        }
        let ratio = total as f64 / f64::from(ROUNDS) / expected;
        assert!((0.9..1.1).contains(&ratio), "{clients} in {rows} x {buckets}: ratio {ratio}");
    }
}

#[test]
fn rounds_of_the_table_do_not_stall() {
    for capacity in [1, 2, 3, 5, 8, 20, 48, 100, 135, 300, 500, 1000] {
        let params = MseParams::for_capacity(capacity, 1).unwrap();
        let mut random = rng(capacity as u64);
        for round in 0..20_000 / (capacity + 20) {
            let mut sum = Mse::empty(params);
            for _ in 0..capacity {
                sum.insert_in_range(&Label::random(&mut random), &[0], &key());
            }
            let peeled = sum.peel(&key(), |_| true);
            assert_eq!((peeled.elements.len(), peeled.rest), (capacity, Rest::Nothing), "round {round}");
        }
    }
}

#[test]
fn an_element_in_some_of_its_cells_only_comes_out_once() {
    let params = MseParams::new(4, 5, 3).unwrap();
    let honest = random_messages(2, 3, &mut rng(6));
    let mine = tagged([21, 22], vec![1, 2]);
    let mut content = vec![1, mine.0[0], mine.0[1]];
    content.extend(&mine.1);
    let width = content.len();
    let buckets = buckets_of(mine.0, &params);
    // Times in each row; 2 leaves another one behind when the first is taken out.
    for times in [[1, 0, 0, 0], [0, 0, 0, 1], [1, 2, 0, 1], [2, 2, 1, 2], [T - 1, 1, 1, 1]] {
        let mut scalars = scalars_of(&encode(params, &honest));
        for (row, &times) in times.iter().enumerate() {
            let cell = &mut scalars[(row * 5 + buckets[row]) * width..][..width];
            for (scalar, &value) in cell.iter_mut().zip(&content) {
                *scalar = u64::try_from(
                    (u128::from(*scalar) + u128::from(times) * u128::from(value)) % u128::from(T),
                )
                .unwrap();
            }
        }
        let peeled = peel_scalars(params, &scalars);
        assert_eq!(peeled.rest, Rest::Garbage, "{times:?}");
        let found = messages_of(&peeled);
        assert_eq!(found.iter().filter(|&message| *message == mine).count(), 1, "{times:?}");
        assert!(found.iter().all(|message| *message == mine || honest.contains(message)), "{times:?}");
    }
}

#[test]
fn a_message_in_a_foreign_cell_does_not_come_out() {
    let params = MseParams::new(4, 5, 3).unwrap();
    let (label, symbols) = tagged([21, 22], vec![1, 2]);
    let own = buckets_of(label, &params);
    let mut content = vec![1, label[0], label[1]];
    content.extend(symbols);
    for cell in 0..20 {
        let mut scalars = vec![0; params.scalars()];
        scalars[cell * 6..][..6].copy_from_slice(&content);
        let peeled = peel_scalars(params, &scalars);
        assert_eq!(peeled.elements.len(), usize::from(own[cell / 5] == cell % 5), "cell {cell}");
        assert_eq!(peeled.rest, Rest::Garbage, "cell {cell}");
    }
}

#[test]
fn a_message_that_fails_the_check_stays_and_harms_nobody() {
    let params = MseParams::for_capacity(8, 3).unwrap();
    let honest = random_messages(6, 3, &mut rng(7));
    let mut messages = honest.clone();
    messages.push(([31, 32], vec![1, 2, 3]));
    let peeled = encode(params, &messages).peel(&key(), accept);
    assert_eq!(peeled.rest, Rest::Stalled { missing: 1 });
    assert_eq!(messages_of(&peeled), sorted(honest));
}

/// One client puts a valid element into every cell: as much as anybody can make the decoder take out.
#[test]
fn at_most_one_message_a_cell_comes_out() {
    let params = MseParams::new(5, 7, 2).unwrap();
    let mut random = rng(8);
    let mut scalars = Vec::new();
    let mut planted = Vec::new();
    for cell in 0..params.cells() {
        let message = loop {
            let candidate = random_messages(1, 2, &mut random).remove(0);
            if buckets_of(candidate.0, &params)[cell / 7] == cell % 7 {
                break candidate;
            }
        };
        scalars.extend([1, message.0[0], message.0[1]].iter().chain(&message.1));
        planted.push(message);
    }
    let peeled = peel_scalars(params, &scalars);
    let found = messages_of(&peeled);
    assert!((1..=params.cells()).contains(&found.len()));
    assert!(found.iter().all(|message| planted.contains(message)));
    assert_eq!(peeled.rest, Rest::Garbage);
}

#[test]
fn bits_behind_the_last_cell_are_garbage_and_harm_nobody() {
    let params = MseParams::for_capacity(3, 3).unwrap();
    let messages = random_messages(3, 3, &mut rng(9));
    let mut polys = encode(params, &messages).to_polys();
    let last = polys.last_mut().unwrap().coefficients_mut();
    assert!(!params.scalars().is_multiple_of(last.len()));
    last[2047] = 1;
    let peeled = Mse::from_polys(params, &polys).unwrap().peel(&key(), accept);
    assert_eq!((messages_of(&peeled), peeled.rest), (sorted(messages), Rest::Garbage));
}

#[test]
fn counts_below_zero_are_no_number_of_missing_messages() {
    let params = MseParams::new(4, 2, 1).unwrap();
    for (counts, rest) in [
        ([T - 1; 4], Rest::Garbage),
        ([T / 2; 4], Rest::Garbage),
        ([T / 2 - 1; 4], Rest::Stalled { missing: T / 2 - 1 }),
        ([2, 2, 2, 3], Rest::Garbage),
        ([2; 4], Rest::Stalled { missing: 2 }),
    ] {
        let mut scalars = vec![0; params.scalars()];
        for (row, count) in counts.into_iter().enumerate() {
            scalars[row * 8] = count;
        }
        assert_eq!(peel_scalars(params, &scalars), Peeled { elements: Vec::new(), rest }, "{counts:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// Any load, also far beyond what the shape is made for.
    #[test]
    fn all_but_the_largest_stopping_set_comes_out(
        rows in 4usize..=8,
        buckets in 1usize..12,
        count in 0usize..40,
        symbols in 2usize..6,
        seed in any::<u64>(),
    ) {
        let params = MseParams::new(rows, buckets, symbols).unwrap();
        let messages = random_messages(count, symbols, &mut rng(seed));
        // In two halves, merged: addition is all that happens to vectors.
        let (left, right) = messages.split_at(count / 2);
        let mut sum = encode(params, left);
        sum.merge(&encode(params, right)).unwrap();
        prop_assert_eq!(scalars_of(&sum), scalars_of(&encode(params, &messages)));

        let columns: Vec<Vec<usize>> = messages.iter().map(|message| buckets_of(message.0, &params)).collect();
        let stuck = largest_stopping_set(&columns);
        let expected: Vec<Message> =
            messages.iter().enumerate().filter(|(i, _)| !stuck.contains(i)).map(|(_, message)| message.clone()).collect();
        let peeled = peel_scalars(params, &scalars_of(&sum));
        prop_assert_eq!(messages_of(&peeled), sorted(expected));
        let rest = match stuck.len() {
            0 => Rest::Nothing,
            missing => Rest::Stalled { missing: missing as u64 },
        };
        prop_assert_eq!(peeled.rest, rest);
    }

    /// Cells of every width, over the ends of polynomials and whole polynomials wide.
    #[test]
    fn a_vector_is_that_of_one_insert(
        rows in 4usize..=8,
        buckets in 1usize..5,
        symbols in prop_oneof![1usize..20, 600usize..700, 2000usize..2100, 4090usize..4100],
        seed in any::<u64>(),
    ) {
        let params = MseParams::new(rows, buckets, symbols).unwrap();
        let message = random_messages(1, symbols, &mut rng(seed)).remove(0);
        let label = Label::new(message.0).unwrap();
        let vector = vector_in_range(&params, &label, &message.1, &key());
        prop_assert!(vector == encode(params, &[message]).to_polys());
    }

    #[test]
    fn cells_hold_what_the_format_says(
        rows in 4usize..=8,
        buckets in 1usize..5,
        count in 0usize..6,
        seed in any::<u64>(),
    ) {
        let params = MseParams::new(rows, buckets, 2).unwrap();
        let messages = random_messages(count, 2, &mut rng(seed));
        let mut expected: BTreeMap<usize, u128> = BTreeMap::new();
        for (label, symbols) in &messages {
            for (row, bucket) in buckets_of(*label, &params).into_iter().enumerate() {
                for (i, value) in [1].iter().chain(label).chain(symbols).enumerate() {
                    *expected.entry((row * buckets + bucket) * 5 + i).or_default() += u128::from(*value);
                }
            }
        }
        for (at, scalar) in scalars_of(&encode(params, &messages)).into_iter().enumerate() {
            let expected = expected.get(&at).copied().unwrap_or(0) % u128::from(T);
            prop_assert_eq!(u128::from(scalar), expected, "scalar {}", at);
        }
    }

    /// Garbage in any number of scalars, counts of any sign: what comes out was put in, and it ends.
    #[test]
    fn garbage_never_becomes_a_message(
        honest in 0usize..6,
        hits in prop::collection::vec((any::<prop::sample::Index>(), prop_oneof![Just(1), Just(T - 1), 0..T]), 1..60),
        seed in any::<u64>(),
    ) {
        let params = MseParams::for_capacity(5, 3).unwrap();
        let messages = random_messages(honest, 3, &mut rng(seed));
        let clean = scalars_of(&encode(params, &messages));
        let mut scalars = clean.clone();
        for (at, value) in hits {
            let scalar = &mut scalars[at.index(params.scalars())];
            *scalar = (*scalar + value) % T;
        }
        let peeled = peel_scalars(params, &scalars);
        let found = messages_of(&peeled);
        prop_assert!(found.iter().all(|message| messages.contains(message)));
        prop_assert_eq!(found.iter().collect::<BTreeSet<_>>().len(), found.len());
        if scalars != clean {
            prop_assert_ne!(peeled.rest, Rest::Nothing);
        }
    }

    /// Every scalar random, except that all cells claim to hold one message whose label belongs there.
    #[test]
    fn a_vector_of_random_scalars_gives_nothing(seed in any::<u64>(), count in prop_oneof![Just(1u64), 0..T]) {
        let params = MseParams::new(4, 2, 2).unwrap();
        let mut random = rng(seed);
        let mut scalars: Vec<u64> = (0..params.scalars()).map(|_| random.next_u64() % T).collect();
        for cell in scalars.chunks_exact_mut(5) {
            cell[0] = count;
        }
        let peeled = peel_scalars(params, &scalars);
        prop_assert_eq!(peeled.elements, Vec::new());
        prop_assert_ne!(peeled.rest, Rest::Nothing);
    }
}
