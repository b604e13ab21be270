use super::*;
use chipmunk::params::{P300, P1000, ParameterSet};
use chipmunk::ring::backend;
use chipmunk::ring::pack::pack_words;
use proptest::prelude::*;
use rand_chacha::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};

fn code(set: &'static ParameterSet, needed: u16, lanes: u16, polys: usize) -> RsParams {
    RsParams::new(Arc::new(Lattice::new(set, backend::under_test())), needed, lanes, polys)
}

/// Residues of a ciphertext of `polys` polynomials, every word uniform below its prime.
fn words(set: &ParameterSet, polys: usize, rng: &mut ChaCha20Rng) -> Vec<u32> {
    (0..polys * LIMBS * N).map(|i| rng.next_u32() % set.wire[i / N % LIMBS]).collect()
}

fn packed(set: &ParameterSet, words: &[u32]) -> Vec<u8> {
    let mut out = Vec::new();
    words.chunks(N).for_each(|limb| pack_words(limb, set.wire_limb_bits, &mut out));
    out
}

fn samples<'a>(shares: &'a [Share], lanes: &[u16]) -> Vec<(NodeId, &'a Share)> {
    lanes.iter().map(|&lane| (NodeId(lane), &shares[usize::from(lane)])).collect()
}

/// b with a b = 1 mod p, by trying quotients of the extended Euclidean algorithm on plain integers.
fn inverse(a: i128, p: i128) -> i128 {
    let (mut r, mut s) = ((p, a.rem_euclid(p)), (0i128, 1i128));
    while r.1 != 0 {
        let quotient = r.0 / r.1;
        r = (r.1, r.0 - quotient * r.1);
        s = (s.1, s.0 - quotient * s.1);
    }
    assert_eq!(r.0, 1);
    s.0.rem_euclid(p)
}

/// The oracle: Newton's divided differences over plain integers, evaluated at x.
fn value_at(points: &[(i128, i128)], x: i128, p: i128) -> i128 {
    let mut differences: Vec<i128> = points.iter().map(|(_, y)| *y).collect();
    for order in 1..points.len() {
        for i in (order..points.len()).rev() {
            let rise = differences[i] - differences[i - 1];
            differences[i] = (rise * inverse(points[i].0 - points[i - order].0, p)).rem_euclid(p);
        }
    }
    points.iter().zip(&differences).rev().fold(0, |sum, ((at, _), d)| (sum * (x - at) + d).rem_euclid(p))
}

/// Every (k, n, mu) that the exhaustive tests go through: with and without padding, parity or redundancy.
const SHAPES: [(u16, u16, usize); 8] =
    [(1, 1, 1), (1, 3, 2), (2, 2, 3), (2, 3, 4), (3, 5, 7), (3, 5, 2), (5, 9, 6), (14, 16, 15)];

#[test]
fn shares_are_values_of_one_polynomial() {
    for (set, (needed, lanes, polys)) in [&P300, &P1000].into_iter().cycle().zip(SHAPES) {
        let code = code(set, needed, lanes, polys);
        let mut rng = ChaCha20Rng::seed_from_u64(u64::from(needed));
        let words = words(set, polys, &mut rng);
        let shares = code.encode(&packed(set, &words)).unwrap();
        assert_eq!(shares.len(), usize::from(lanes));
        let block = polys.div_ceil(needed.into());
        assert_eq!(code.block_polys(), block);
        let mut padded = words.clone();
        padded.resize(block * usize::from(needed) * LIMBS * N, 0);
        for _ in 0..200 {
            let at = usize::try_from(rng.next_u32()).unwrap() % (block * LIMBS * N);
            let p = i128::from(set.wire[at / N % LIMBS]);
            let points: Vec<(i128, i128)> = (0..usize::from(needed))
                .map(|j| (j as i128 + 1, padded[j * block * LIMBS * N + at].into()))
                .collect();
            for (j, share) in shares.iter().enumerate() {
                assert_eq!(i128::from(share.words()[at]), value_at(&points, j as i128 + 1, p), "share {j}");
            }
        }
    }
}

#[test]
fn every_window_of_k_reconstructs_and_completes() {
    for (needed, lanes, polys) in SHAPES {
        let code = code(&P300, needed, lanes, polys);
        let words = words(&P300, polys, &mut ChaCha20Rng::seed_from_u64(7));
        let shares = code.encode(&packed(&P300, &words)).unwrap();
        for first in 0..lanes {
            // Cyclic and backwards: neither contiguity nor order matters.
            let chosen: Vec<u16> = (0..needed).rev().map(|i| (first + i) % lanes).collect();
            let chosen = samples(&shares, &chosen);
            assert_eq!(code.reconstruct(&chosen).as_ref(), Ok(&words), "{needed}-of-{lanes} from {first}");
            assert_eq!(code.complete(&chosen).as_ref(), Ok(&shares));
            assert_eq!(code.check_codeword(&chosen), Ok(()));
        }
        let all: Vec<u16> = (0..lanes).collect();
        assert_eq!(code.reconstruct(&samples(&shares, &all)), Ok(words));
    }
}

#[test]
fn every_subset_of_five_reconstructs() {
    let code = code(&P300, 3, 5, 4);
    let words = words(&P300, 4, &mut ChaCha20Rng::seed_from_u64(8));
    let shares = code.encode(&packed(&P300, &words)).unwrap();
    for mask in 0u16..32 {
        let chosen: Vec<u16> = (0..5).filter(|i| mask >> i & 1 == 1).collect();
        let got = code.reconstruct(&samples(&shares, &chosen));
        if chosen.len() < 3 {
            assert_eq!(got, Err(RsError::TooFew { have: chosen.len(), need: 3 }));
        } else {
            assert_eq!(got.as_ref(), Ok(&words));
        }
    }
}

#[test]
fn one_residue_off_is_no_codeword_wherever_it_stands() {
    let code = code(&P300, 3, 5, 4);
    let words = words(&P300, 4, &mut ChaCha20Rng::seed_from_u64(9));
    let honest = code.encode(&packed(&P300, &words)).unwrap();
    for lane in 0..5 {
        let mut shares = honest.clone();
        let last = shares[lane].0.last_mut().unwrap();
        *last = (*last + 1) % P300.wire[1];
        let all = samples(&shares, &[0, 1, 2, 3, 4]);
        let refused = RsError::NotACodeword { shares: 5, degree: 2 };
        assert_eq!(code.check_codeword(&all), Err(refused.clone()));
        assert_eq!(code.reconstruct(&all), Err(refused.clone()));
        assert_eq!(code.complete(&all), Err(refused));
        // Any three of them are some codeword: with exactly k nothing can be seen.
        let three: Vec<(NodeId, &Share)> = all.iter().copied().filter(|(id, _)| id.0 % 2 == 0).collect();
        assert_eq!(code.check_codeword(&three), Ok(()));
        // Without the bad one the rest is consistent again.
        let others: Vec<_> = all.into_iter().filter(|(id, _)| usize::from(id.0) != lane).collect();
        assert_eq!(code.reconstruct(&others).as_ref(), Ok(&words));
    }
}

#[test]
fn bad_selections_have_their_own_errors() {
    let code = code(&P300, 2, 4, 3);
    let words = words(&P300, 3, &mut ChaCha20Rng::seed_from_u64(10));
    let shares = code.encode(&packed(&P300, &words)).unwrap();
    let twice = code.reconstruct(&samples(&shares, &[1, 3, 1]));
    assert_eq!(twice, Err(RsError::Duplicate { lane: NodeId(1) }));
    let outside = [(NodeId(0), &shares[0]), (NodeId(4), &shares[1])];
    assert_eq!(code.reconstruct(&outside), Err(RsError::OutOfRange { lane: NodeId(4), lanes: 4 }));
    for polys in [1, 3] {
        let other = Share::zero(polys);
        let mixed = [(NodeId(0), &shares[0]), (NodeId(3), &other)];
        let refused = RsError::Length { lane: NodeId(3), expected: 2, found: polys };
        assert_eq!(code.reconstruct(&mixed), Err(refused));
    }
    assert_eq!(code.reconstruct(&[]), Err(RsError::TooFew { have: 0, need: 2 }));
}

#[test]
fn bytes_that_are_no_ciphertext_are_refused() {
    let code = code(&P300, 2, 3, 3);
    let mut words = words(&P300, 3, &mut ChaCha20Rng::seed_from_u64(11));
    let bytes = packed(&P300, &words);
    for bad in [&bytes[1..], &[bytes.as_slice(), &[0]].concat(), &[]] {
        assert!(matches!(code.encode(bad), Err(RsError::Malformed { .. })));
        assert_eq!(code.encode_strip(bad, 0..1, &mut Vec::new()), code.encode(bad).map(|_| ()));
    }
    // The second prime is the smaller one: its value fits the first limb and not the second.
    words[(2 * LIMBS + 1) * N + 5] = P300.wire[1];
    let bytes = packed(&P300, &words);
    let refused = code.encode(&bytes);
    assert_eq!(code.encode_strip(&bytes, 0..2, &mut Vec::new()), refused.clone().map(|_| ()));
    assert_eq!(code.encode_strip(&bytes, 0..1, &mut Vec::new()), refused.clone().map(|_| ()));
    assert_eq!(code.encode_strip(&bytes, 1..2, &mut Vec::new()), Ok(()));
    assert!(matches!(refused, Err(RsError::Malformed { poly: 2, limb: 1, .. })), "{refused:?}");
}

#[test]
fn packed_shares_are_cut_from_the_ciphertext_or_packed() {
    for (needed, lanes, polys) in SHAPES {
        let code = code(&P300, needed, lanes, polys);
        let bytes = packed(&P300, &words(&P300, polys, &mut ChaCha20Rng::seed_from_u64(12)));
        let shares = code.encode(&bytes).unwrap();
        for (lane, share) in (0..).map(NodeId).zip(&shares) {
            let mut packed = Vec::new();
            code.pack(share, &mut packed);
            assert_eq!(packed.len(), code.share_len());
            assert_eq!(code.unpack_share(&packed).as_ref(), Ok(share));
            // The same in strips, into memory that held something else.
            for at_once in [1, 2] {
                let (mut words, mut strips) = (vec![7; 3], vec![7; packed.len()]);
                let poly = code.share_len() / code.block_polys();
                for (at, out) in strips.chunks_mut(at_once * poly).enumerate() {
                    let polys = at * at_once..code.block_polys().min((at + 1) * at_once);
                    code.encode_strip(&bytes, polys.clone(), &mut words).unwrap();
                    let strip = polys.len() * LIMBS * N;
                    let expected = &share.words()[polys.start * LIMBS * N..][..strip];
                    assert_eq!(&words[usize::from(lane.0) * strip..][..strip], expected);
                    code.pack_strip(&bytes, lane.0.into(), &polys, &words, out);
                }
                assert_eq!(strips, packed);
            }
        }
    }
}

#[test]
fn factors_do_not_depend_on_threads() {
    let words = words(&P300, 9, &mut ChaCha20Rng::seed_from_u64(13));
    let run = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| {
            let code = code(&P300, 4, 7, 9);
            let shares = code.encode(&packed(&P300, &words)).unwrap();
            let some = code.reconstruct(&samples(&shares, &[6, 5, 4, 0])).unwrap();
            (shares, some)
        })
    };
    assert_eq!(run(1), run(4));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]
    #[test]
    fn sums_of_shares_are_shares_of_sums(seed in any::<u64>(), clients in 1usize..6) {
        let (needed, lanes, polys) = SHAPES[usize::try_from(seed % 8).unwrap()];
        let code = code(&P300, needed, lanes, polys);
        let mut rng = ChaCha20Rng::seed_from_u64(seed);
        let mut expected = vec![0u64; polys * LIMBS * N];
        let mut sums: Vec<Share> = (0..lanes).map(|_| Share::zero(code.block_polys())).collect();
        for _ in 0..clients {
            let words = words(&P300, polys, &mut rng);
            expected.iter_mut().zip(&words).for_each(|(sum, &word)| *sum += u64::from(word));
            let shares = code.encode(&packed(&P300, &words)).unwrap();
            sums.iter_mut().zip(&shares).for_each(|(sum, share)| code.add_assign(sum, share));
        }
        let all: Vec<(NodeId, &Share)> = (0..).map(NodeId).zip(&sums).collect();
        let last = &all[all.len() - usize::from(needed)..];
        let got: Vec<u64> = code.reconstruct(last).unwrap().iter().map(|&word| word.into()).collect();
        let reduced = expected.iter().enumerate().map(|(i, sum)| sum % u64::from(P300.wire[i / N % LIMBS]));
        prop_assert_eq!(got, reduced.collect::<Vec<_>>());
        prop_assert_eq!(code.check_codeword(&all), Ok(()));
        // Taking a share off again undoes adding it.
        let mut sum = sums[0].clone();
        code.add_assign(&mut sum, &sums[0]);
        code.sub_assign(&mut sum, &sums[0]);
        prop_assert_eq!(&sum, &sums[0]);
    }
}
