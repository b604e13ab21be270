//! The sketch as a whole, against plain 128-bit remainders and against the Python oracle.

use super::*;
use crate::plaintext::PlainPoly;
use chipmunk::ring::backend::Simd;
use proptest::prelude::*;
use rand_chacha::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};

const P: u64 = PRONY_PRIME;

type Message = (u64, Vec<u64>);

fn rng(seed: u64) -> ChaCha20Rng {
    ChaCha20Rng::seed_from_u64(seed)
}

/// Plain remainder of a random word: biased by 2^-28, which no test minds.
fn random_below_p(rng: &mut ChaCha20Rng) -> u64 {
    rng.next_u64() % P
}

fn random_messages(count: usize, symbols: usize, rng: &mut ChaCha20Rng) -> Vec<Message> {
    (0..count)
        .map(|_| {
            let point = 1 + rng.next_u64() % (P - 1);
            (point, (0..symbols).map(|_| random_below_p(rng)).collect())
        })
        .collect()
}

/// The scalars from the definition, a remainder per operation.
fn schoolbook(params: &PronyParams, messages: &[Message]) -> Vec<u64> {
    let p = u128::from(P);
    let mut scalars = vec![0u128; params.scalars()];
    for (point, symbols) in messages {
        let mut power = 1;
        for j in 0..=params.cols() {
            scalars[j] = (scalars[j] + power) % p;
            if j < params.cols() {
                for (s, &x) in symbols.iter().enumerate() {
                    let cell = &mut scalars[params.cols() + 1 + s * params.cols() + j];
                    *cell = (*cell + power * u128::from(x)) % p;
                }
            }
            power = power * u128::from(*point) % p;
        }
    }
    scalars.into_iter().map(|scalar| u64::try_from(scalar).unwrap()).collect()
}

/// The same shape with the kernels of every back-end of this CPU.
fn everywhere(params: PronyParams) -> impl Iterator<Item = PronyParams> {
    Simd::available().map(move |simd| params.with_kernels(simd.kernels()))
}

/// Made with every back-end, which must agree; and message by message as well as in one go.
fn sketch_of(params: PronyParams, messages: &[Message]) -> Sketch {
    let mut sketches = everywhere(params).map(|params| {
        let mut sketch = Sketch::empty(params);
        for (point, symbols) in messages {
            sketch.insert(&Point::new(*point).unwrap(), symbols).unwrap();
        }
        sketch
    });
    let first = sketches.next().unwrap();
    sketches.for_each(|other| assert_eq!(scalars_of(&other), scalars_of(&first)));
    if let [(point, symbols)] = messages {
        for params in everywhere(params) {
            let polys = vector(&params, &Point::new(*point).unwrap(), symbols);
            assert!(polys == first.to_polys(), "{params:?}");
        }
    }
    first
}

/// Decoded with every back-end, which must agree.
fn decode_scalars(params: PronyParams, scalars: &[u64]) -> Result<Vec<Message>, PronyError> {
    let mut results = everywhere(params).map(|params| {
        let elements = Sketch::from_polys(params, &PlainPoly::from_scalars(scalars))?.decode()?;
        Ok(elements.into_iter().map(|element| (element.point, element.symbols)).collect())
    });
    let first = results.next().unwrap();
    results.for_each(|other| assert_eq!(other, first));
    first
}

fn sorted(mut messages: Vec<Message>) -> Vec<Message> {
    messages.sort_by(|a, b| a.1.cmp(&b.1).then(a.0.cmp(&b.0)));
    messages
}

fn scalars_of(sketch: &Sketch) -> Vec<u64> {
    let all: Vec<u64> = sketch.to_polys().iter().flat_map(|poly| poly.coefficients().to_vec()).collect();
    let (scalars, padding) = all.split_at(sketch.params().scalars());
    assert!(padding.iter().all(|&scalar| scalar == 0));
    scalars.to_vec()
}

#[derive(serde::Deserialize)]
struct Oracle {
    sketch: OracleSketch,
}

#[derive(serde::Deserialize)]
struct OracleSketch {
    capacity: usize,
    symbols: usize,
    slack: usize,
    messages: Vec<OracleMessage>,
    scalars: Vec<u64>,
}

#[derive(serde::Deserialize)]
struct OracleMessage {
    point: u64,
    symbols: Vec<u64>,
}

#[test]
fn the_python_oracle_computes_the_same_scalars() {
    let Oracle { sketch } = serde_json::from_str(include_str!("../../params/prony_oracle.json")).unwrap();
    let params = PronyParams::new(sketch.capacity, sketch.symbols, sketch.slack).unwrap();
    let messages: Vec<Message> = sketch.messages.into_iter().map(|m| (m.point, m.symbols)).collect();
    assert_eq!(messages.len(), 3);
    assert_eq!(scalars_of(&sketch_of(params, &messages)), sketch.scalars);
    assert_eq!(decode_scalars(params, &sketch.scalars), Ok(sorted(messages)));
}

#[test]
fn shapes_are_checked_before_anything_is_allocated() {
    assert_eq!(PronyParams::new(4, 1, 0), Err(PronyError::NoSlack));
    assert_eq!(PronyParams::new(4, 0, 1), Err(PronyError::NoSymbols));
    for found in [0, MAX_CAPACITY + 1, usize::MAX] {
        let expected = PronyError::CapacityOutOfRange { found, max: MAX_CAPACITY };
        assert_eq!(PronyParams::new(found, 1, 2), Err(expected));
    }
    for (capacity, symbols, slack) in [
        (MAX_CAPACITY, 1 << 16, 2),
        (1, usize::MAX, 2),
        (1, 1, usize::MAX),
        (1, usize::MAX - 1, 1),
        (1, 1 << 26, 1),
    ] {
        let expected = PronyError::TooManyScalars { max: MAX_SCALARS };
        assert_eq!(PronyParams::new(capacity, symbols, slack), Err(expected), "{capacity} {symbols} {slack}");
    }
    let params = PronyParams::new(300, 3747, DEFAULT_SLACK).unwrap();
    assert_eq!((params.cols(), params.scalars(), params.n_polys()), (302, 303 + 3747 * 302, 553));
    // One scalar more than fills a polynomial: cols = 1 + 1 = 2, 3 + 2 * symbols scalars.
    assert_eq!(PronyParams::new(1, 1022, 1).unwrap().n_polys(), 1);
    assert_eq!(PronyParams::new(1, 1023, 1).unwrap().n_polys(), 2);
}

#[test]
fn points_are_in_range_and_fresh() {
    let mut rng = rng(1);
    let points: Vec<u64> = (0..2000).map(|_| Point::random(&mut rng).value()).collect();
    assert!(points.iter().all(|point| (1..P).contains(point)));
    // Each of the 36 bits takes both values, and both halves of the range are hit about equally (within 5
    // sigma).
    for bit in 0..36 {
        assert!(
            points.iter().any(|p| p >> bit & 1 == 1) && points.iter().any(|p| p >> bit & 1 == 0),
            "bit {bit}"
        );
    }
    let low = points.iter().filter(|&&point| point < P / 2).count();
    assert!(low.abs_diff(1000) < 112, "{low}");
    assert!(Point::new(0).is_none() && Point::new(P).is_none());
    assert!(Point::new(1).is_some() && Point::new(P - 1).is_some());
}

#[test]
fn malformed_messages_are_refused_and_change_nothing() {
    let params = PronyParams::new(2, 3, 2).unwrap();
    let mut sketch = Sketch::empty(params);
    let point = Point::new(5).unwrap();
    for found in [0, 2, 4] {
        let expected = Err(PronyError::SymbolCount { expected: 3, found });
        assert_eq!(sketch.insert(&point, &vec![1; found]), expected);
    }
    for bad in [P, P + 1, 1 << 36, 1 << 63, (1 << 63) + P, u64::MAX] {
        assert_eq!(sketch.insert(&point, &[1, bad, 2]), Err(PronyError::SymbolOutOfRange), "{bad}");
    }
    assert_eq!(scalars_of(&sketch), vec![0; params.scalars()]);
    let other = Sketch::empty(PronyParams::new(2, 3, 3).unwrap());
    assert_eq!(sketch.merge(&other), Err(PronyError::ParameterMismatch));
    assert_eq!(sketch.insert(&point, &[0, P - 1, 2]), Ok(()));
}

#[test]
fn foreign_vectors_are_refused_by_value() {
    let params = PronyParams::new(2, 3, 2).unwrap();
    let zero = || PlainPoly::from_scalars(&vec![0; params.scalars()]);
    let read = |polys: &[PlainPoly]| Sketch::from_polys(params, polys).map(drop);
    assert_eq!(read(&zero()), Ok(()));
    assert_eq!(read(&[]), Err(PronyError::PolyCount { expected: 1, found: 0 }));
    assert_eq!(read(&[zero(), zero()].concat()), Err(PronyError::PolyCount { expected: 1, found: 2 }));
    for value in [P, u64::MAX] {
        for index in [0, 5, params.scalars(), N - 1] {
            let mut polys = zero();
            polys[0].coefficients_mut()[index] = value;
            assert_eq!(read(&polys), Err(PronyError::ScalarOutOfRange { index, value }));
        }
    }
    for index in [params.scalars(), N - 1] {
        let mut polys = zero();
        polys[0].coefficients_mut()[index] = 1;
        assert_eq!(read(&polys), Err(PronyError::CheckFailed));
    }
}

#[test]
fn one_eight_and_exactly_full_decode() {
    for (count, capacity) in [(1, 1), (1, 8), (8, 8), (8, 20), (32, 32), (33, 64)] {
        let params = PronyParams::new(capacity, 7, DEFAULT_SLACK).unwrap();
        let messages = random_messages(count, 7, &mut rng(count as u64));
        let sketch = sketch_of(params, &messages);
        assert_eq!(scalars_of(&sketch), schoolbook(&params, &messages));
        assert_eq!(
            decode_scalars(params, &scalars_of(&sketch)),
            Ok(sorted(messages)),
            "{count} of {capacity}"
        );
    }
}

#[test]
fn equal_messages_at_different_points_are_all_returned() {
    let params = PronyParams::new(5, 3, 2).unwrap();
    let messages: Vec<Message> = [3, 1, 4, 15, 9].map(|point| (point, vec![7, 0, P - 1])).to_vec();
    assert_eq!(decode_scalars(params, &schoolbook(&params, &messages)), Ok(sorted(messages)));
}

#[test]
fn no_message_decodes_to_nothing_and_only_all_zeros_are_no_message() {
    let params = PronyParams::new(3, 2, 2).unwrap();
    assert_eq!(decode_scalars(params, &vec![0; params.scalars()]), Ok(Vec::new()));
    for index in 1..params.scalars() {
        let mut scalars = vec![0; params.scalars()];
        scalars[index] = 1;
        assert_eq!(decode_scalars(params, &scalars), Err(PronyError::CheckFailed), "scalar {index}");
    }
}

#[test]
fn one_message_too_many_is_counted() {
    let params = PronyParams::new(4, 2, 2).unwrap();
    let messages = random_messages(5, 2, &mut rng(5));
    let expected = PronyError::CapacityExceeded { elements: 5, capacity: 4 };
    assert_eq!(decode_scalars(params, &schoolbook(&params, &messages)), Err(expected));
    let mut scalars = vec![0; params.scalars()];
    scalars[0] = P - 1;
    let expected = PronyError::CapacityExceeded { elements: P - 1, capacity: 4 };
    assert_eq!(decode_scalars(params, &scalars), Err(expected));
}

#[test]
fn two_messages_at_one_point_do_not_split() {
    let params = PronyParams::new(6, 2, 2).unwrap();
    for count in [2, 4, 6] {
        let mut messages = random_messages(count, 2, &mut rng(count as u64));
        messages[count - 1].0 = messages[0].0;
        assert_eq!(decode_scalars(params, &schoolbook(&params, &messages)), Err(PronyError::NotSplit));
    }
}

#[test]
fn the_point_zero_does_not_split() {
    let params = PronyParams::new(3, 2, 2).unwrap();
    for messages in [vec![(0, vec![1, 2])], vec![(0, vec![1, 2]), (9, vec![3, 4])]] {
        assert_eq!(decode_scalars(params, &schoolbook(&params, &messages)), Err(PronyError::NotSplit));
    }
}

/// Every scalar in turn, at every fill: the sum has at least `slack` columns to spare, and each cell is tied
/// to them.
#[test]
fn every_single_corrupted_scalar_is_caught() {
    let params = PronyParams::new(4, 3, 2).unwrap();
    for count in 1..=4 {
        let messages = random_messages(count, 3, &mut rng(count as u64));
        let good = schoolbook(&params, &messages);
        for index in 0..good.len() {
            for change in [1, P - 1, 1 << 30] {
                let mut scalars = good.clone();
                scalars[index] = (scalars[index] + change) % P;
                let error = decode_scalars(params, &scalars).expect_err("a corrupted sketch decoded");
                let spare_or_column = index > count;
                let acceptable = match error {
                    // S_0..=S_k decide the locator: a wrong one usually does not split.
                    PronyError::NotSplit | PronyError::CapacityExceeded { .. } => !spare_or_column,
                    PronyError::CheckFailed => true,
                    _ => false,
                };
                assert!(acceptable, "{count} messages, scalar {index}: {error:?}");
            }
        }
    }
}

#[test]
fn slack_one_still_checks() {
    let params = PronyParams::new(3, 2, 1).unwrap();
    let messages = random_messages(3, 2, &mut rng(9));
    let mut scalars = schoolbook(&params, &messages);
    assert_eq!(decode_scalars(params, &scalars), Ok(sorted(messages)));
    let last = scalars.len() - 1;
    scalars[last] = (scalars[last] + 1) % P;
    assert_eq!(decode_scalars(params, &scalars), Err(PronyError::CheckFailed));
}

#[test]
fn the_result_does_not_depend_on_the_thread_count() {
    // Several tasks of symbols and several levels of root splitting.
    let params = PronyParams::new(40, 150, 2).unwrap();
    let messages = random_messages(40, 150, &mut rng(40));
    let good = schoolbook(&params, &messages);
    let mut bad = good.clone();
    *bad.last_mut().unwrap() ^= 1;
    for threads in [1, 2, 8] {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| {
            assert_eq!(scalars_of(&sketch_of(params, &messages)), good);
            assert_eq!(decode_scalars(params, &good), Ok(sorted(messages.clone())), "{threads} threads");
            assert_eq!(decode_scalars(params, &bad), Err(PronyError::CheckFailed), "{threads} threads");
        });
    }
}

/// As many as transforms are worth it for, on every level: the locator, the roots and the system.
#[test]
fn hundreds_of_messages_decode_and_one_change_is_caught() {
    for (count, capacity, slack) in [(100, 100, 2), (127, 128, 3), (211, 230, 2), (300, 300, 2)] {
        let params = PronyParams::new(capacity, 5, slack).unwrap();
        let messages = random_messages(count, 5, &mut rng(count as u64));
        let good = schoolbook(&params, &messages);
        assert_eq!(decode_scalars(params, &good), Ok(sorted(messages.clone())), "{count} messages");
        for index in [count + 1, params.cols() + 1, params.cols() + count, params.scalars() - 1] {
            let mut bad = good.clone();
            bad[index] = (bad[index] + P / 2) % P;
            assert_eq!(decode_scalars(params, &bad), Err(PronyError::CheckFailed), "scalar {index}");
        }
        let mut collision = messages;
        collision[count - 1].0 = collision[count / 2].0;
        let error = decode_scalars(params, &schoolbook(&params, &collision));
        assert_eq!(error, Err(PronyError::NotSplit), "{count} messages, two at one point");
    }
}

/// The points of 64-th roots of unity are those that transforms work on.
#[test]
fn points_on_the_transforms_cosets_decode() {
    // 3 generates the field's group.
    let (mut root, mut base, mut exponent) = (1, 3, (P - 1) / 64);
    let times = |a: u64, b: u64| u64::try_from(u128::from(a) * u128::from(b) % u128::from(P)).unwrap();
    while exponent > 0 {
        root = if exponent % 2 == 1 { times(root, base) } else { root };
        (base, exponent) = (times(base, base), exponent / 2);
    }
    let params = PronyParams::new(70, 3, 2).unwrap();
    let mut messages = random_messages(64, 3, &mut rng(64));
    let mut point = 1;
    for message in &mut messages {
        message.0 = point;
        point = times(point, root);
    }
    assert_eq!(point, 1);
    assert_eq!(decode_scalars(params, &schoolbook(&params, &messages)), Ok(sorted(messages)));
}

/// Every one of many spare columns is checked.
#[test]
fn wide_slack_is_checked_to_the_last_column() {
    let params = PronyParams::new(3, 2, 100).unwrap();
    let messages = random_messages(3, 2, &mut rng(7));
    let good = schoolbook(&params, &messages);
    assert_eq!(decode_scalars(params, &good), Ok(sorted(messages)));
    for index in 4..params.scalars() {
        let mut bad = good.clone();
        bad[index] = (bad[index] + 1) % P;
        assert_eq!(decode_scalars(params, &bad), Err(PronyError::CheckFailed), "scalar {index}");
    }
}

#[test]
fn debug_shows_no_content() {
    let params = PronyParams::new(1, 1, 2).unwrap();
    let sketch = sketch_of(params, &[(987_654_321, vec![123_456_789])]);
    for text in [format!("{sketch:?}"), format!("{:?}", sketch.decode().unwrap())] {
        assert!(!text.contains("987654321") && !text.contains("123456789"), "{text}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn insertion_matches_the_definition_and_decoding_undoes_it(
        capacity in prop_oneof![1usize..12, 12usize..90], symbols in 1usize..9, slack in 1usize..4,
        fill in 0usize..90, seed in any::<u64>(),
    ) {
        let params = PronyParams::new(capacity, symbols, slack).unwrap();
        let messages = random_messages(fill.min(capacity), symbols, &mut rng(seed));
        let sketch = sketch_of(params, &messages);
        prop_assert_eq!(scalars_of(&sketch), schoolbook(&params, &messages));
        prop_assert_eq!(decode_scalars(params, &scalars_of(&sketch)), Ok(sorted(messages)));
    }

    #[test]
    fn adding_vectors_is_the_union(
        cut in 0usize..9, total in 0usize..9, symbols in 1usize..5, seed in any::<u64>(),
    ) {
        let params = PronyParams::new(8, symbols, 2).unwrap();
        let messages = random_messages(total.min(8), symbols, &mut rng(seed));
        let (left, right) = messages.split_at(cut.min(messages.len()));
        // The addition the round does: coefficient by coefficient, modulo the plaintext modulus.
        let sum: Vec<u64> = scalars_of(&sketch_of(params, left))
            .iter()
            .zip(scalars_of(&sketch_of(params, right)))
            .map(|(&a, b)| (a + b) % P)
            .collect();
        let mut merged = sketch_of(params, left);
        merged.merge(&sketch_of(params, right)).unwrap();
        merged.merge(&Sketch::empty(params)).unwrap();
        prop_assert_eq!(&scalars_of(&merged), &sum);
        prop_assert_eq!(decode_scalars(params, &sum), Ok(sorted(messages)));
    }

    /// What a malicious client can add: anything. The sum decodes to what was sent, or not at all, or to the
    /// honest messages plus a well-formed one of its own, which random garbage never is.
    #[test]
    fn garbage_never_yields_a_message(
        honest in 0usize..5, symbols in 1usize..5, cells in 1usize..6, keep_count in any::<bool>(), seed in any::<u64>(),
    ) {
        let params = PronyParams::new(6, symbols, 2).unwrap();
        let mut rng = rng(seed);
        let messages = random_messages(honest, symbols, &mut rng);
        let good = schoolbook(&params, &messages);
        // Garbage everywhere, with the count left plausible half of the time.
        let mut everywhere: Vec<u64> = good.iter().map(|&s| (s + random_below_p(&mut rng)) % P).collect();
        if keep_count {
            everywhere[0] = 1 + honest as u64;
        }
        prop_assert!(decode_scalars(params, &everywhere).is_err());
        // Garbage in a few cells, the count right.
        let mut few = good.clone();
        for _ in 0..cells {
            let index = 1 + usize::try_from(rng.next_u64()).unwrap() % (few.len() - 1);
            few[index] = random_below_p(&mut rng);
        }
        prop_assert!(few == good || decode_scalars(params, &few).is_err());
    }
}
