//! The channel, end to end over plain sums; the frame against the Python oracle.

use super::*;
use crate::fault::{Attribution, Fault};
use crate::prony::{Element, PRONY_PRIME, PronyError, PronyParams, Sketch};
use proptest::prelude::*;
use rand_chacha::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};

mod peeling;
mod slots;

fn rng(seed: u64) -> ChaCha20Rng {
    ChaCha20Rng::seed_from_u64(seed)
}

fn session(index: u64) -> SessionId {
    SessionId::derive("log.example/a", index, &[1; 32])
}

impl ChannelParams {
    fn sketch(&self) -> &PronyParams {
        match self.shape() {
            Shape::Sketch(sketch) => sketch,
            Shape::Peeling(_) | Shape::Slots { .. } => panic!("{} is no sketch", self.encoding()),
        }
    }
}

fn encode_at(
    point: Point,
    params: &ChannelParams,
    session: &SessionId,
    payload: &[u8],
) -> Result<Vec<PlainPoly>, ChannelError> {
    sketch::encode_at(&point, params.sketch(), params, session, payload)
}

/// What the encryption does to the vectors: sums modulo the plaintext modulus.
fn sum(params: &ChannelParams, vectors: &[Vec<PlainPoly>]) -> Vec<PlainPoly> {
    let mut total = cover(params);
    for vector in vectors {
        assert_eq!(vector.len(), params.n_polys());
        for (total, poly) in total.iter_mut().zip(vector) {
            for (cell, &value) in total.coefficients_mut().iter_mut().zip(poly.coefficients()) {
                assert!(value < params.plaintext_modulus());
                *cell = (*cell + value) % params.plaintext_modulus();
            }
        }
    }
    total
}

fn encode_all(params: &ChannelParams, payloads: &[Vec<u8>], seed: u64) -> Vec<Vec<PlainPoly>> {
    let mut rng = rng(seed);
    payloads.iter().map(|payload| encode_message(&mut rng, params, &session(0), payload).unwrap()).collect()
}

fn sorted(mut messages: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    messages.sort();
    messages
}

/// The vector of one element with exactly these symbols, and the right check symbol behind them.
fn checked_element(params: &ChannelParams, point: u64, message: &[u64]) -> Vec<PlainPoly> {
    let mut symbols = message.to_vec();
    symbols.push(CheckKey::new(&session(0)).symbol(params.encoding(), &[point], message));
    element(params, point, &symbols)
}

fn element(params: &ChannelParams, point: u64, symbols: &[u64]) -> Vec<PlainPoly> {
    let mut sketch = Sketch::empty(*params.sketch());
    sketch.insert(&Point::new(point).unwrap(), symbols).unwrap();
    sketch.to_polys()
}

fn decode(params: &ChannelParams, plaintext: &[PlainPoly]) -> Result<Vec<Vec<u8>>, ChannelError> {
    decode_messages(params, &session(0), plaintext, None)
}

#[derive(serde::Deserialize)]
struct Oracle {
    channel: OracleChannel,
}

#[derive(serde::Deserialize)]
struct OracleChannel {
    rho: usize,
    data_symbols: usize,
    session: String,
    point: u64,
    payload: String,
    symbols: Vec<u64>,
    scalars: Vec<u64>,
}

#[test]
fn the_python_oracle_writes_the_same_vector() {
    let Oracle { channel } = serde_json::from_str(include_str!("../../params/prony_oracle.json")).unwrap();
    let session = session(7);
    assert_eq!(session.to_string(), channel.session);
    let payload = data_encoding::HEXLOWER.decode(channel.payload.as_bytes()).unwrap();
    let params = ChannelParams::prony_for_symbols(channel.rho, channel.data_symbols).unwrap();
    let vector = encode_at(Point::new(channel.point).unwrap(), &params, &session, &payload).unwrap();
    assert_eq!(vector, PlainPoly::from_scalars(&channel.scalars));
    // The same through the symbols, which the oracle gives apart.
    assert_eq!(vector, element(&params, channel.point, &channel.symbols));
    assert_eq!(decode_messages(&params, &session, &vector, Some(1)), Ok(vec![payload]));
}

#[test]
fn vectors_have_the_specified_sizes() {
    for (rho, bytes, symbols, polys) in
        [(300, 16_384, 3745, 553), (300, 4096, 937, 139), (100, 16_384, 3745, 187), (100, 4096, 937, 47)]
    {
        let params = ChannelParams::for_messages(Encoding::Sketch, rho, bytes).unwrap();
        assert_eq!(params.n_polys(), polys, "{rho} clients, {bytes} bytes");
        assert_eq!(params.max_message_bytes(), bytes);
        assert_eq!((params.capacity(), params.encoding()), (rho, Encoding::Sketch));
        assert_eq!(params.plaintext_modulus(), 34_380_709_889);
        assert_eq!(ChannelParams::prony_for_messages(rho, bytes), Ok(params.clone()));
        let by_symbols = ChannelParams::for_symbols(Encoding::Sketch, rho, symbols).unwrap();
        assert_eq!(by_symbols.n_polys(), polys);
        assert_eq!(by_symbols.max_message_bytes(), symbols * 35 / 8);
        assert_eq!(ChannelParams::prony_for_symbols(rho, symbols), Ok(by_symbols));
    }
}

#[test]
fn absurd_sizes_are_refused_before_allocation() {
    let bytes = |rho, bytes| ChannelParams::prony_for_messages(rho, bytes).unwrap_err();
    let symbols = |rho, symbols| ChannelParams::prony_for_symbols(rho, symbols).unwrap_err();
    assert_eq!(bytes(0, 10), ChannelError::NoClients);
    assert_eq!(symbols(0, 10), ChannelError::NoClients);
    assert_eq!(bytes(10, 0), ChannelError::NoMessageBytes);
    assert_eq!(symbols(10, 0), ChannelError::NoMessageBytes);
    assert_eq!(bytes(300, usize::MAX), ChannelError::TooLarge { rho: 300, symbols: usize::MAX });
    assert_eq!(symbols(300, usize::MAX), ChannelError::TooLarge { rho: 300, symbols: usize::MAX });
    // 2^32 bytes are 2^35 bits: 981706811 symbols and a bit.
    assert_eq!(bytes(300, 1 << 32), ChannelError::TooLarge { rho: 300, symbols: 981_706_811 });
    assert_eq!(symbols(1_000_000, 1), ChannelError::TooLarge { rho: 1_000_000, symbols: 1 });
    assert_eq!(symbols(usize::MAX, 1), ChannelError::TooLarge { rho: usize::MAX, symbols: 1 });
}

#[test]
fn names_of_encodings_round_trip() {
    assert_eq!(Encoding::Sketch.to_string(), "sketch");
    for encoding in Encoding::ALL {
        assert_eq!(encoding.to_string().parse(), Ok(encoding));
    }
    for bad in ["", "Sketch", "sketch ", "peel"] {
        assert_eq!(bad.parse::<Encoding>(), Err(ParseEncodingError), "{bad:?}");
    }
    assert_eq!(
        ParseEncodingError.to_string(),
        "no such payload encoding, expected one of: sketch, peeling, slots"
    );
}

#[test]
fn lengths_zero_one_and_maximal_come_back_exactly() {
    for max in [1, 4, 5, 34, 35, 36, 1000] {
        let params = ChannelParams::prony_for_messages(8, max).unwrap();
        // All ones and all zeros: a zero byte at the end is part of the message.
        let payloads: Vec<Vec<u8>> =
            [0, 1, max / 2, max].into_iter().flat_map(|len| [vec![0xff; len], vec![0; len]]).collect();
        let vectors = encode_all(&params, &payloads, max as u64);
        for (payload, vector) in payloads.iter().zip(&vectors) {
            assert_eq!(decode(&params, vector), Ok(vec![payload.clone()]));
        }
        let total = sum(&params, &vectors);
        assert_eq!(
            decode_messages(&params, &session(0), &total, Some(8)),
            Ok(sorted(payloads)),
            "{max} bytes"
        );
    }
}

#[test]
fn a_byte_too_many_is_refused() {
    for params in
        [ChannelParams::prony_for_messages(4, 64).unwrap(), ChannelParams::prony_for_symbols(4, 15).unwrap()]
    {
        let max = params.max_message_bytes();
        for len in [max + 1, 10 * max] {
            let refused = encode_message(&mut rng(0), &params, &session(0), &vec![0; len]);
            assert_eq!(refused, Err(ChannelError::MessageTooLong { len, max }));
        }
    }
}

#[test]
fn cover_is_neutral_and_a_round_of_cover_is_empty() {
    let params = ChannelParams::prony_for_messages(3, 50).unwrap();
    let payloads = vec![b"bread".to_vec(), Vec::new()];
    let mut vectors = encode_all(&params, &payloads, 1);
    for _ in 0..5 {
        vectors.push(cover(&params));
    }
    assert_eq!(decode(&params, &sum(&params, &vectors)), Ok(sorted(payloads)));
    let empty = sum(&params, &vectors[2..]);
    assert_eq!(decode(&params, &empty), Ok(Vec::new()));
    assert_eq!(decode_messages(&params, &session(0), &empty, Some(0)), Ok(Vec::new()));
    let expected = ChannelError::CountMismatch { expected: 1, found: 0 };
    assert_eq!(decode_messages(&params, &session(0), &empty, Some(1)), Err(expected));
}

#[test]
fn another_count_than_expected_is_an_error() {
    let params = ChannelParams::prony_for_messages(3, 50).unwrap();
    let total = sum(&params, &encode_all(&params, &[vec![1], vec![2]], 2));
    for expected in [0, 1, 3, usize::MAX] {
        let error = ChannelError::CountMismatch { expected, found: 2 };
        assert_eq!(decode_messages(&params, &session(0), &total, Some(expected)), Err(error));
    }
}

#[test]
fn a_channel_for_four_given_forty_fails() {
    let params = ChannelParams::prony_for_messages(4, 20).unwrap();
    let payloads: Vec<Vec<u8>> = (0..40).map(|i| vec![i; 10]).collect();
    let error = decode(&params, &sum(&params, &encode_all(&params, &payloads, 3))).unwrap_err();
    let source = PronyError::CapacityExceeded { elements: 40, capacity: 4 };
    assert_eq!(error, ChannelError::SketchFailed(source));
    let reported = std::error::Error::source(&error).unwrap();
    assert_eq!(reported.downcast_ref::<PronyError>(), Some(&source));
    assert_eq!((error.code(), error.attribution()), ("sketch_capacity_exceeded", Attribution::Nobody));
}

#[test]
fn another_session_fails_the_check() {
    let params = ChannelParams::prony_for_messages(3, 50).unwrap();
    let total = sum(&params, &encode_all(&params, &[b"bread".to_vec(), Vec::new()], 4));
    assert_eq!(decode_messages(&params, &session(1), &total, None), Err(ChannelError::CheckFailed));
}

#[test]
fn other_dimensions_are_refused() {
    let params = ChannelParams::prony_for_messages(20, 1000).unwrap();
    let vector = cover(&params);
    let short = &vector[1..];
    let expected = PronyError::PolyCount { expected: vector.len(), found: vector.len() - 1 };
    assert_eq!(decode(&params, short), Err(ChannelError::SketchFailed(expected)));
    assert_eq!(decode(&params, &[]), Err(PronyError::PolyCount { expected: vector.len(), found: 0 }.into()));
}

#[test]
fn a_shifted_message_fails_the_check_even_at_a_known_point() {
    // A client that knew somebody's point could shift that message in the sketch: the columns stay
    // consistent.
    let params = ChannelParams::prony_for_messages(3, 16).unwrap();
    let symbols = params.sketch().symbols();
    let point = 77;
    let honest = encode_at(Point::new(point).unwrap(), &params, &session(0), b"sixteen bytes ok").unwrap();
    for shifted in 0..symbols {
        for shift in [1, PRONY_PRIME - 1] {
            let mut change = vec![0; symbols];
            change[shifted] = shift;
            // The shift alone: an element's columns without its power sums.
            let mut vector = element(&params, point, &change);
            let cols = params.capacity() + 2;
            vector[0].coefficients_mut()[..=cols].fill(0);
            let total = sum(&params, &[honest.clone(), vector]);
            assert_eq!(decode(&params, &total), Err(ChannelError::CheckFailed), "symbol {shifted}");
        }
    }
}

#[test]
fn a_message_moved_to_another_point_fails_the_check() {
    let params = ChannelParams::prony_for_messages(3, 16).unwrap();
    let sketch = Sketch::from_polys(*params.sketch(), &encode_all(&params, &[vec![9; 16]], 5)[0]).unwrap();
    let Element { symbols, point } = sketch.decode().unwrap().remove(0);
    assert_eq!(decode(&params, &element(&params, point, &symbols)), Ok(vec![vec![9; 16]]));
    let moved = element(&params, point % 1000 + 1, &symbols);
    assert_eq!(decode(&params, &moved), Err(ChannelError::CheckFailed));
}

#[test]
fn symbols_beyond_35_bits_fail_the_check() {
    let params = ChannelParams::prony_for_symbols(2, 3).unwrap();
    assert_eq!(
        decode(&params, &checked_element(&params, 5, &[13, 1, 2, 3])),
        Ok(vec![{
            // 1, 2 * 2^35, 3 * 2^70, cut after 13 bytes.
            let value = 1u128 + (2 << 35) + (3 << 70);
            value.to_le_bytes()[..13].to_vec()
        }])
    );
    for index in 0..4 {
        for value in [1 << 35, PRONY_PRIME - 1] {
            let mut message = [13, 1, 2, 3];
            message[index] = value;
            let vector = checked_element(&params, 5, &message);
            assert_eq!(decode(&params, &vector), Err(ChannelError::CheckFailed), "symbol {index}");
        }
    }
    let vector = element(&params, 5, &[13, 1, 2, 3, 1 << 35]);
    assert_eq!(decode(&params, &vector), Err(ChannelError::CheckFailed));
}

#[test]
fn lengths_beyond_the_channel_are_refused() {
    // 937 symbols hold 4099 bytes, but this channel says 4096.
    let params = ChannelParams::prony_for_messages(2, 4096).unwrap();
    let mut message = vec![0; 938];
    for found in [4097, 4099, (1 << 35) - 1] {
        message[0] = found;
        let expected = ChannelError::LengthOutOfRange { found, max: 4096 };
        assert_eq!(decode(&params, &checked_element(&params, 5, &message)), Err(expected));
    }
    message[0] = 4096;
    assert_eq!(decode(&params, &checked_element(&params, 5, &message)), Ok(vec![vec![0; 4096]]));
}

#[test]
fn bits_behind_the_message_are_refused() {
    let params = ChannelParams::prony_for_symbols(2, 3).unwrap();
    for (len, bit) in [(0, 0), (0, 104), (5, 40), (5, 70), (13, 104)] {
        let mut message = [len, 0, 0, 0];
        message[1 + bit / 35] = 1 << (bit % 35);
        let vector = checked_element(&params, 5, &message);
        assert_eq!(decode(&params, &vector), Err(ChannelError::NonzeroPadding), "{len} bytes, bit {bit}");
    }
    // The last bit of the message itself.
    let mut message = [13, 0, 0, 0];
    message[3] = 1 << (103 - 70);
    let mut expected = vec![0; 13];
    expected[12] = 0x80;
    assert_eq!(decode(&params, &checked_element(&params, 5, &message)), Ok(vec![expected]));
}

#[test]
fn every_corrupted_coefficient_fails() {
    let params = ChannelParams::prony_for_messages(3, 8).unwrap();
    let total = sum(&params, &encode_all(&params, &[vec![1; 8], vec![2; 3]], 6));
    let scalars = params.sketch().scalars();
    assert!(scalars < total[0].coefficients().len());
    for index in 0..=scalars {
        let mut corrupted = total.clone();
        let cell = &mut corrupted[0].coefficients_mut()[index];
        *cell = (*cell + 1) % PRONY_PRIME;
        let error = decode(&params, &corrupted).expect_err("a corrupted sum decoded");
        assert!(matches!(error, ChannelError::SketchFailed(_)), "coefficient {index}: {error:?}");
        if index > 2 {
            assert_eq!(error, ChannelError::SketchFailed(PronyError::CheckFailed), "coefficient {index}");
        }
        corrupted[0].coefficients_mut()[index] = PRONY_PRIME;
        let expected = PronyError::ScalarOutOfRange { index, value: PRONY_PRIME };
        assert_eq!(decode(&params, &corrupted), Err(expected.into()));
    }
}

#[test]
fn encoding_draws_fresh_points_and_hides_nothing_in_padding() {
    let params = ChannelParams::prony_for_messages(3, 8).unwrap();
    let vectors = encode_all(&params, &[vec![1; 8], vec![1; 8]], 7);
    assert_ne!(vectors[0], vectors[1]);
    assert!(vectors[0][0].coefficients()[params.sketch().scalars()..].iter().all(|&cell| cell == 0));
}

/// The largest round of the specification. Its decode is what the recipient waits for.
#[test]
fn a_full_round_of_the_largest_size_decodes_at_every_thread_count() {
    let params = ChannelParams::prony_for_messages(300, 16_384).unwrap();
    let mut random = rng(300);
    let payloads: Vec<Vec<u8>> = (0..300)
        .map(|i| {
            // Lengths from 0 to the maximum, both included.
            let mut payload = vec![0; i * 16_384 / 299];
            random.fill_bytes(&mut payload);
            payload
        })
        .collect();
    let mut total = Sketch::empty(*params.sketch());
    for payload in &payloads {
        let vector = encode_message(&mut random, &params, &session(0), payload).unwrap();
        total.merge(&Sketch::from_polys(*params.sketch(), &vector).unwrap()).unwrap();
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
        let params = ChannelParams::prony_for_messages(10, max).unwrap();
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

    /// A well-formed element with random symbols gets past the sketch and stops at the check symbol.
    #[test]
    fn a_random_element_never_becomes_a_message(honest in 0usize..3, seed in any::<u64>()) {
        let params = ChannelParams::prony_for_messages(4, 20).unwrap();
        let mut random = rng(seed);
        let payloads: Vec<Vec<u8>> = (0..honest).map(|i| vec![0xa5; i]).collect();
        let mut vectors = encode_all(&params, &payloads, seed);
        let symbols: Vec<u64> =
            (0..params.sketch().symbols()).map(|_| random.next_u64() % SYMBOL_LIMIT).collect();
        vectors.push(element(&params, 1 + random.next_u64() % (PRONY_PRIME - 1), &symbols));
        let total = sum(&params, &vectors);
        prop_assert_eq!(decode(&params, &total), Err(ChannelError::CheckFailed));
        prop_assert_eq!(deliver(&params, &session(0), &total), Err(ChannelError::CheckFailed));
    }
}

#[test]
fn cover_is_made_like_a_message() {
    // What an observer could time: the same allocations stand for the same path, whatever the message.
    let params = ChannelParams::prony_for_messages(20, 3000).unwrap();
    let mut rng = ChaCha20Rng::from_seed([9; 32]);
    let session = SessionId::derive("test", 0, &[0; 32]);
    let empty =
        allocation_counter::measure(|| drop(encode_message(&mut rng, &params, &session, b"").unwrap()));
    let full = allocation_counter::measure(|| {
        drop(encode_message(&mut rng, &params, &session, &[7; 3000]).unwrap())
    });
    let nothing = allocation_counter::measure(|| drop(cover(&params)));
    assert_eq!(nothing, empty);
    assert_eq!(nothing, full);
}
