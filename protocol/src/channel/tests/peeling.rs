//! Peeling as a channel: whole rounds, stalls, and what a malicious vector can and cannot do.

use super::*;
use crate::mse::{ColumnKey, Label, Mse, MseError, MseParams};

const LIMIT: u64 = 1 << 35;

fn params(rho: usize, bytes: usize) -> ChannelParams {
    ChannelParams::for_messages(Encoding::Peeling, rho, bytes).unwrap()
}

fn shape(params: &ChannelParams) -> &MseParams {
    match params.shape() {
        Shape::Peeling(shape) => shape,
        Shape::Sketch(_) | Shape::Slots { .. } => panic!("{} does not peel", params.encoding()),
    }
}

/// The vector of one element with exactly these symbols, and the right check symbol behind them.
fn checked_element(params: &ChannelParams, label: [u64; 2], message: &[u64]) -> Vec<PlainPoly> {
    let mut symbols = message.to_vec();
    symbols.push(CheckKey::new(&session(0)).symbol(Encoding::Peeling, &label, message));
    element(params, label, &symbols)
}

fn element(params: &ChannelParams, label: [u64; 2], symbols: &[u64]) -> Vec<PlainPoly> {
    let mut cells = Mse::empty(*shape(params));
    cells.insert(&Label::new(label).unwrap(), symbols, &ColumnKey::new(&session(0))).unwrap();
    cells.to_polys()
}

#[track_caller]
fn assert_stalled(
    result: Result<Vec<Vec<u8>>, ChannelError>,
    expected: &[Vec<u8>],
    expected_missing: Option<u64>,
) {
    let error = result.expect_err("the sum decoded");
    assert_eq!((error.code(), error.attribution()), ("channel_peel_stalled", Attribution::Nobody));
    let ChannelError::PeelStalled { recovered, missing } = error else { panic!("{error:?}") };
    assert_eq!(recovered.messages(), sorted(expected.to_vec()));
    assert_eq!(missing, expected_missing);
}

#[derive(serde::Deserialize)]
struct Oracle {
    session: String,
    peeling: OraclePeeling,
}

#[derive(serde::Deserialize)]
struct OraclePeeling {
    rho: usize,
    data_symbols: usize,
    label: [u64; 2],
    payload: String,
    symbols: Vec<u64>,
    rows: usize,
    buckets: usize,
    cells: Vec<usize>,
}

#[test]
fn the_python_oracle_writes_the_same_vector() {
    let Oracle { session: id, peeling: oracle } =
        serde_json::from_str(include_str!("../../../params/encodings_oracle.json")).unwrap();
    let session = session(7);
    assert_eq!(session.to_string(), id);
    let payload = data_encoding::HEXLOWER.decode(oracle.payload.as_bytes()).unwrap();
    let params = ChannelParams::for_symbols(Encoding::Peeling, oracle.rho, oracle.data_symbols).unwrap();
    let label = Label::new(oracle.label).unwrap();
    let vector =
        crate::channel::peeling::encode_at(&label, shape(&params), &params, &session, &payload).unwrap();

    let content = [&[1], &oracle.label[..], &oracle.symbols].concat();
    let mut scalars = vec![0; oracle.rows * oracle.buckets * content.len()];
    for (row, bucket) in oracle.cells.iter().enumerate() {
        scalars[(row * oracle.buckets + bucket) * content.len()..][..content.len()].copy_from_slice(&content);
    }
    assert_eq!(vector, PlainPoly::from_scalars(&scalars));
    assert_eq!(decode_messages(&params, &session, &vector, Some(1)), Ok(vec![payload]));
}

#[test]
fn vectors_have_the_specified_sizes() {
    for (rho, bytes, polys) in
        [(300, 16_384, 1110), (300, 4096, 279), (100, 16_384, 436), (2, 1, 1), (1000, 16_384, 3260)]
    {
        let params = params(rho, bytes);
        assert_eq!(params.n_polys(), polys, "{rho} clients, {bytes} bytes");
        assert_eq!((params.capacity(), params.max_message_bytes()), (rho, bytes));
        assert_eq!((params.encoding(), params.plaintext_modulus()), (Encoding::Peeling, 1 << 35));
    }
    for (rho, symbols) in [(1001, 1), (usize::MAX, 1), (300, 1 << 30), (300, usize::MAX / 35)] {
        let refused = ChannelParams::for_symbols(Encoding::Peeling, rho, symbols);
        assert_eq!(refused, Err(ChannelError::TooLarge { rho, symbols }));
    }
}

#[test]
fn lengths_zero_one_and_maximal_come_back_exactly() {
    for max in [1, 4, 5, 34, 35, 36, 1000] {
        let params = params(8, max);
        let payloads: Vec<Vec<u8>> =
            [0, 1, max / 2, max].into_iter().flat_map(|len| [vec![0xff; len], vec![0; len]]).collect();
        let mut vectors = encode_all(&params, &payloads, max as u64);
        vectors.push(cover(&params));
        let total = sum(&params, &vectors);
        assert_eq!(
            decode_messages(&params, &session(0), &total, Some(8)),
            Ok(sorted(payloads)),
            "{max} bytes"
        );
        let refused = encode_message(&mut rng(0), &params, &session(0), &vec![0; max + 1]);
        assert_eq!(refused, Err(ChannelError::MessageTooLong { len: max + 1, max }));
    }
}

#[test]
fn a_round_of_cover_is_empty_and_counts_are_compared() {
    let params = params(3, 50);
    let empty = cover(&params);
    assert_eq!(decode_messages(&params, &session(0), &empty, Some(0)), Ok(Vec::new()));
    let mismatch = ChannelError::CountMismatch { expected: 1, found: 0 };
    assert_eq!(decode_messages(&params, &session(0), &empty, Some(1)), Err(mismatch));
}

#[test]
fn a_channel_for_four_given_forty_says_how_many_are_missing() {
    let params = params(4, 20);
    let payloads: Vec<Vec<u8>> = (0..40).map(|i| vec![i; 10]).collect();
    let error = decode(&params, &sum(&params, &encode_all(&params, &payloads, 3))).unwrap_err();
    let ChannelError::PeelStalled { recovered, missing } = error else { panic!("{error:?}") };
    assert_eq!(recovered.messages().len() as u64 + missing.unwrap(), 40);
    assert!(recovered.messages().iter().all(|message| payloads.contains(message)));
}

#[test]
fn a_stall_returns_every_other_message() {
    let params = params(8, 20);
    let payloads: Vec<Vec<u8>> = (0..6).map(|i| vec![i; usize::from(i)]).collect();
    let mut vectors = encode_all(&params, &payloads, 4);
    // One vector twice: the same label, so no cell holds just one of the two.
    vectors.push(vectors[2].clone());
    let rest = [&payloads[..2], &payloads[3..]].concat();
    let result = decode(&params, &sum(&params, &vectors));
    assert_eq!(result.as_ref().unwrap_err().to_string(), "5 messages came out of the sum, 2 did not");
    assert!(format!("{result:?}").contains("Recovered(5 messages)"), "{result:?}");
    assert_stalled(result, &rest, Some(2));
    let delivery = deliver(&params, &session(0), &sum(&params, &vectors)).unwrap();
    assert_eq!(format!("{delivery:?}"), "Delivery(5 messages, missing: Messages(2))");
    assert_eq!(delivery, Delivery { messages: sorted(rest), missing: Missing::Messages(2) });
}

#[test]
fn cover_is_made_like_a_message() {
    let params = params(20, 3000);
    let (mut random, session) = (rng(9), session(0));
    let mut made = |payload: &[u8]| {
        allocation_counter::measure(|| {
            drop(encode_message(&mut random, &params, &session, payload).unwrap());
        })
    };
    let (empty, full) = (made(b""), made(&[7; 3000]));
    let nothing = allocation_counter::measure(|| drop(cover(&params)));
    assert_eq!((nothing, nothing), (empty, full));
    assert!(cover(&params).iter().all(|poly| *poly == PlainPoly::zero()));
}

#[test]
fn another_session_gives_nothing() {
    let params = params(3, 50);
    let total = sum(&params, &encode_all(&params, &[b"bread".to_vec(), Vec::new()], 4));
    assert_stalled(decode_messages(&params, &session(1), &total, None), &[], Some(2));
}

#[test]
fn other_dimensions_are_refused() {
    let params = params(20, 1000);
    let vector = cover(&params);
    for polys in [&vector[1..], &[]] {
        let expected = MseError::PolyCount { expected: vector.len(), found: polys.len() };
        assert_eq!(decode(&params, polys), Err(ChannelError::PeelingFailed(expected)));
    }
    let mut vector = vector;
    vector[1].coefficients_mut()[3] = LIMIT;
    let expected = MseError::ScalarOutOfRange { index: 2051, value: LIMIT };
    assert_eq!(decode(&params, &vector), Err(expected.into()));
}

#[test]
fn malformed_messages_with_the_right_check_are_missing() {
    let params = params(4, 13);
    let honest = vec![b"bread".to_vec(), Vec::new()];
    let vectors = encode_all(&params, &honest, 5);
    // Too long; a bit behind the end of an empty and of a full message (104 of 105 bits).
    for message in [[14, 0, 0, 0], [LIMIT - 1, 0, 0, 0], [0, 1, 0, 0], [13, 0, 0, 1 << 34]] {
        let mut vectors = vectors.clone();
        vectors.push(checked_element(&params, [3, 4], &message));
        assert_stalled(decode(&params, &sum(&params, &vectors)), &honest, Some(1));
    }
    let mut vectors = vectors;
    vectors.push(checked_element(&params, [3, 4], &[13, 0, 0, 1 << 33]));
    let mut all = honest;
    all.push([vec![0; 12], vec![0x80]].concat());
    assert_eq!(decode(&params, &sum(&params, &vectors)), Ok(sorted(all)));
}

#[test]
fn a_wrong_check_stops_one_message_only() {
    let params = params(4, 13);
    let honest = vec![b"bread".to_vec(), vec![7; 13]];
    let mut vectors = encode_all(&params, &honest, 6);
    vectors.push(element(&params, [3, 4], &[13, 1, 2, 3, 4]));
    assert_stalled(decode(&params, &sum(&params, &vectors)), &honest, Some(1));
}

#[test]
fn no_corrupted_coefficient_passes_or_changes_a_message() {
    let params = params(3, 8);
    let payloads = vec![vec![1; 8], vec![2; 3]];
    let total = sum(&params, &encode_all(&params, &payloads, 6));
    for index in 0..2048 {
        for change in [1, LIMIT - 1] {
            let mut corrupted = total.clone();
            let cell = &mut corrupted[0].coefficients_mut()[index];
            *cell = (*cell + change) % LIMIT;
            let error = decode(&params, &corrupted).expect_err("a corrupted sum decoded");
            let ChannelError::PeelStalled { recovered, .. } = error else { panic!("{index}: {error:?}") };
            assert!(recovered.messages().iter().all(|message| payloads.contains(message)), "{index}");
        }
    }
}

/// 300 clients through the front door, the sum of their vectors read with several thread counts.
#[test]
fn a_full_round_decodes_at_every_thread_count() {
    let params = params(300, 1024);
    let mut random = rng(300);
    let payloads: Vec<Vec<u8>> = (0..300)
        .map(|i| {
            let mut payload = vec![0; i * 1024 / 299];
            random.fill_bytes(&mut payload);
            payload
        })
        .collect();
    let mut total = Mse::empty(*shape(&params));
    for payload in &payloads {
        let vector = encode_message(&mut random, &params, &session(0), payload).unwrap();
        total.merge(&Mse::from_polys(*shape(&params), &vector).unwrap()).unwrap();
    }
    let total = total.to_polys();
    let expected = sorted(payloads);
    for threads in [1, 2, 8] {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let decoded = pool.install(|| decode_messages(&params, &session(0), &total, Some(300)));
        assert!(decoded.is_ok_and(|decoded| decoded == expected), "{threads} threads");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_comes_back_is_what_went_in(
        max in 1usize..200,
        lens in prop::collection::vec(any::<prop::sample::Index>(), 0..10),
        covers in 0usize..4,
        seed in any::<u64>(),
    ) {
        let params = params(10, max);
        let mut random = rng(seed);
        let payloads: Vec<Vec<u8>> = lens
            .iter()
            .map(|len| {
                let mut payload = vec![0; len.index(max + 1)];
                random.fill_bytes(&mut payload);
                payload
            })
            .collect();
        let mut vectors = encode_all(&params, &payloads, seed);
        vectors.extend((0..covers).map(|_| cover(&params)));
        let total = sum(&params, &vectors);
        prop_assert_eq!(decode_messages(&params, &session(0), &total, Some(payloads.len())), Ok(sorted(payloads)));
    }

    /// One client's vector is garbage from one end to the other.
    #[test]
    fn a_garbage_vector_gives_no_message(honest in 0usize..4, seed in any::<u64>()) {
        let params = params(4, 20);
        let payloads: Vec<Vec<u8>> = (0..honest).map(|i| vec![0xa5; i]).collect();
        let mut vectors = encode_all(&params, &payloads, seed);
        let mut random = rng(seed);
        let scalars: Vec<u64> = (0..params.n_polys() * 2048).map(|_| random.next_u64() % LIMIT).collect();
        vectors.push(PlainPoly::from_scalars(&scalars));
        let error = decode(&params, &sum(&params, &vectors)).unwrap_err();
        prop_assert!(matches!(error, ChannelError::PeelStalled { missing: None, .. }), "{:?}", error);
        let delivery = deliver(&params, &session(0), &sum(&params, &vectors)).unwrap();
        prop_assert_eq!(delivery, Delivery { messages: vec![], missing: Missing::Unknown });
    }
}
