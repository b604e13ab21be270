use super::*;
use crate::ids::DeploymentId;
use crate::noise::NoiseBudget;
use chipmunk::params::{P300, P1000};
use chipmunk::ring::backend;
use chipmunk::ring::pack::unpack_words;
use proptest::prelude::*;
use rand_chacha::ChaCha20Rng;
use rand_core::Rng;
use rand_core::SeedableRng;

fn params(set: &'static ParameterSet, polys: u32, plaintext: Plaintext) -> KaheParams {
    let lattice = Arc::new(Lattice::new(set, backend::under_test()));
    let seed = CrsSeed::derive(&DeploymentId::from_name("kahe test"), set);
    KaheParams::new(lattice, &seed, &EpochDigest::from_digest([1; 32]), polys, plaintext)
}

fn seed(byte: u8, index: u32) -> Zeroizing<[u8; 32]> {
    let mut seed = Zeroizing::new([byte; 32]);
    seed[..4].copy_from_slice(&index.to_le_bytes());
    seed
}

fn message(params: &KaheParams, mut coefficient: impl FnMut(usize) -> u64) -> Vec<PlainPoly> {
    let scalars: Vec<u64> = (0..params.polys() * N).map(&mut coefficient).collect();
    PlainPoly::from_scalars(&scalars)
}

/// Encrypts `clients` messages, sums everything, decrypts, and compares with plain integer sums modulo t.
fn round_trip(params: &KaheParams, clients: u32, coefficient: impl Fn(u32, usize) -> u64) {
    let mut rng = ChaCha20Rng::from_seed([9; 32]);
    let mut sum = CiphertextSum::new(params);
    let mut keys = Vec::new();
    let mut expected = vec![0u128; params.polys() * N];
    for client in 0..clients {
        let key = Key::generate(&params.lattice, &mut rng);
        let m = message(params, |i| coefficient(client, i));
        for (e, i) in expected.iter_mut().zip(0..) {
            *e += u128::from(coefficient(client, i));
        }
        sum.add(&params.encrypt(&key, &m, &seed(1, client)).unwrap()).unwrap();
        keys.push(key);
    }
    let t = u128::from(params.plaintext_modulus());
    let got = params.decrypt(&sum, &SummedKey::of(&keys)).unwrap();
    let got = got.iter().flat_map(|poly| poly.coefficients().iter().map(|&m| u128::from(m)));
    assert!(got.eq(expected.into_iter().map(|e| e % t)));
}

#[test]
fn worst_case_messages_at_rho_max_decode() {
    for (set, clients) in [(&P300, 300), (&P1000, 60)] {
        for plaintext in [Plaintext::Prime, Plaintext::PowerOfTwo] {
            let params = params(set, 1, plaintext);
            let t = params.plaintext_modulus();
            // Every client at the largest value, at the value whose scaling rounds worst, and at values of its own.
            round_trip(&params, clients, |client, i| match i % 4 {
                0 => t - 1,
                1 => t / 2,
                2 => (u64::from(client) * 7919 * (i as u64 + 1)) % t,
                _ => 0,
            });
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(6))]
    #[test]
    fn sums_decrypt_to_sums(clients in 1u32..6, polys in 1u32..4, salt in any::<u64>()) {
        let params = params(&P300, polys, Plaintext::Prime);
        let t = params.plaintext_modulus();
        round_trip(&params, clients, |client, i| {
            salt.wrapping_mul(u64::from(client) * 2 + 3).rotate_left(u32::try_from(i % 64).unwrap()) % t
        });
    }
}

#[test]
fn a_wrong_key_or_an_altered_sum_overflows() {
    let params = params(&P300, 2, Plaintext::Prime);
    let mut rng = ChaCha20Rng::from_seed([3; 32]);
    let keys = [Key::generate(&params.lattice, &mut rng), Key::generate(&params.lattice, &mut rng)];
    let zero = vec![PlainPoly::zero(); 2];
    let mut sum = CiphertextSum::new(&params);
    sum.add(&params.encrypt(&keys[0], &zero, &seed(2, 0)).unwrap()).unwrap();
    // Half the clients' key: the sums cover different clients.
    let wrong = params.decrypt(&sum, &SummedKey::of(&keys));
    assert!(matches!(wrong, Err(KaheError::NoiseOverflow { .. })), "{wrong:?}");
    assert_eq!(params.decrypt(&sum, &SummedKey::of(&keys[..1])), Ok(zero));
}

#[test]
fn messages_of_another_shape_are_refused() {
    let params = params(&P300, 2, Plaintext::PowerOfTwo);
    let key = Key::generate(&params.lattice, &mut ChaCha20Rng::from_seed([4; 32]));
    let mut message = vec![PlainPoly::zero(); 2];
    message[1].coefficients_mut()[5] = params.plaintext_modulus();
    let shape = |found| Err(KaheError::MessageShape { expected: 2, found });
    assert_eq!(params.encrypt(&key, &message, &seed(0, 0)), shape(2));
    assert_eq!(params.encrypt(&key, &message[..1], &seed(0, 0)), shape(1));
    // So far above t that the difference wraps round.
    for far in [1 << 62, 1 << 63, (1 << 63) + params.plaintext_modulus(), u64::MAX] {
        message[1].coefficients_mut()[5] = far;
        assert_eq!(params.encrypt(&key, &message, &seed(0, 0)), shape(2), "{far:#x}");
    }
    message[1].coefficients_mut()[5] = params.plaintext_modulus() - 1;
    assert!(params.encrypt(&key, &message, &seed(0, 0)).is_ok());
}

#[test]
fn a_refused_ciphertext_leaves_the_sum_unchanged() {
    let params = params(&P300, 2, Plaintext::Prime);
    let key = Key::generate(&params.lattice, &mut ChaCha20Rng::from_seed([5; 32]));
    let good = params.encrypt(&key, &[PlainPoly::zero(), PlainPoly::zero()], &seed(0, 0)).unwrap();
    let mut sum = CiphertextSum::new(&params);
    sum.add(&good).unwrap();
    let before = sum.limbs.clone();
    let mut bad = good.clone();
    let last_limb = bad.len() - 5376;
    bad[last_limb..].fill(0xFF);
    let refused = sum.add(&bad);
    let source = PackError::OutOfRange { max: P300.wire[1] - 1 };
    assert_eq!(refused, Err(KaheError::Malformed { poly: 1, source }));
    assert!(sum.add(&good[1..]).is_err());
    assert!(sum.add(&[good.as_slice(), &[0]].concat()).is_err());
    assert_eq!((sum.limbs == before, sum.count()), (true, 1));
}

#[test]
fn more_than_rho_max_ciphertexts_are_refused() {
    let params = params(&P300, 1, Plaintext::Prime);
    let zeros = vec![0; params.ciphertext_len()];
    let mut sum = CiphertextSum::new(&params);
    for _ in 0..300 {
        sum.add(&zeros).unwrap();
    }
    assert_eq!(sum.add(&zeros), Err(KaheError::TooManyClients { max: 300 }));
}

#[test]
fn bytes_do_not_depend_on_the_thread_count() {
    let params = params(&P300, 5, Plaintext::Prime);
    let key = Key::generate(&params.lattice, &mut ChaCha20Rng::from_seed([6; 32]));
    let message = message(&params, |i| i as u64);
    let with = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| params.encrypt(&key, &message, &seed(7, 7)).unwrap())
    };
    let one = with(1);
    assert!(one == with(2) && one == with(8));
}

/// Largest of 64-bucket chi-squares over the polynomials, and the chi-square of all of them together.
fn chi_squares(polys: &[Vec<u32>], q: u32) -> (f64, f64) {
    let histogram = |words: &mut dyn Iterator<Item = u32>| {
        let mut buckets = [0u64; 64];
        words.for_each(|w| buckets[usize::try_from(u64::from(w) * 64 / u64::from(q)).unwrap()] += 1);
        let expected = buckets.iter().sum::<u64>() as f64 / 64.0;
        buckets.iter().map(|&b| (b as f64 - expected).powi(2) / expected).sum::<f64>()
    };
    let each = polys.iter().map(|poly| histogram(&mut poly.iter().copied())).fold(0.0, f64::max);
    (each, histogram(&mut polys.iter().flatten().copied()))
}

/// 63 degrees of freedom. Beyond 175 lies 10^-12 of the distribution: with 1106 polynomials a failure is a fault.
const CHI_SQUARE_LIMIT: f64 = 175.0;

#[test]
fn ciphertexts_and_pads_look_uniform() {
    // The reference cell's 553 polynomials, for the most regular message there is.
    let params = params(&P300, 553, Plaintext::Prime);
    let key = Key::generate(&params.lattice, &mut ChaCha20Rng::from_seed([8; 32]));
    let zero = vec![PlainPoly::zero(); params.polys()];
    let packed = params.encrypt(&key, &zero, &seed(8, 8)).unwrap();
    for limb in 0..2 {
        let q = P300.wire[limb];
        let polys: Vec<Vec<u32>> = packed
            .chunks_exact(10_752)
            .map(|poly| {
                let mut words = vec![0; N];
                unpack_words(&poly[limb * 5376..][..5376], 21, q - 1, &mut words).unwrap();
                words
            })
            .collect();
        let (each, all) = chi_squares(&polys, q);
        assert!(each < CHI_SQUARE_LIMIT && all < CHI_SQUARE_LIMIT, "ciphertext limb {limb}: {each} {all}");
    }
    let kahe = &params.lattice.kahe;
    let s = kahe.forward(kahe.from_short(key.0.expose()));
    for (limb, prime) in kahe.primes().iter().enumerate() {
        let pads: Vec<Vec<u32>> =
            params.a().iter().map(|a| kahe.inverse(kahe.mul(a, &s)).limb(limb).to_vec()).collect();
        let (each, all) = chi_squares(&pads, prime.q());
        assert!(each < CHI_SQUARE_LIMIT && all < CHI_SQUARE_LIMIT, "pad limb {limb}: {each} {all}");
    }
}

#[test]
fn each_epoch_has_its_own_vector() {
    let lattice = Arc::new(Lattice::new(&P300, backend::under_test()));
    let seed = CrsSeed::derive(&DeploymentId::from_name("kahe test"), &P300);
    let of = |byte| {
        let epoch = EpochDigest::from_digest([byte; 32]);
        KaheParams::new(Arc::clone(&lattice), &seed, &epoch, 1, Plaintext::Prime).a().to_vec()
    };
    assert!(of(1) == of(1) && of(1) != of(2));
}

/// `x` modulo `q` in (-q/2, q/2], for integers.
fn centred(x: i128, q: i128) -> i128 {
    let residue = x.rem_euclid(q);
    if residue > q / 2 { residue - q } else { residue }
}

/// The Chinese remainder theorem for two primes, by its definition.
struct Crt {
    modulus: i128,
    /// 1 modulo one prime and 0 modulo the other.
    units: [i128; 2],
}

impl Crt {
    fn new([p, q]: [u32; 2]) -> Self {
        let unit = |one: u32, zero: u32| {
            let (one, zero) = (i128::from(one), i128::from(zero));
            // Euclid, keeping what multiplies `zero`.
            let (mut rest, mut factor) = ((one, zero % one), (0, 1));
            while rest.1 != 0 {
                let quotient = rest.0 / rest.1;
                rest = (rest.1, rest.0 - quotient * rest.1);
                factor = (factor.1, factor.0 - quotient * factor.1);
            }
            zero * factor.0.rem_euclid(one)
        };
        Self { modulus: i128::from(p) * i128::from(q), units: [unit(p, q), unit(q, p)] }
    }

    fn lift(&self, residues: [u32; 2]) -> i128 {
        let sum: i128 = residues.iter().zip(self.units).map(|(&r, unit)| i128::from(r) * unit).sum();
        sum % self.modulus
    }
}

#[test]
fn the_noise_of_300_clients_is_what_the_budget_says() {
    // The twin of protocol/params/noise.py: real encryptions of uniform messages instead of a simulation. The error of
    // each coefficient of the sum is taken in WIRE units against the exact rationals a S Q / q + M Q / t.
    let (clients, polys) = (300u32, 4);
    let params = params(&P300, polys, Plaintext::Prime);
    let (t, mut rng) = (params.plaintext_modulus(), ChaCha20Rng::from_seed([10; 32]));
    let mut sum = CiphertextSum::new(&params);
    let mut keys = Vec::new();
    let mut messages = vec![0u64; params.polys() * N];
    for client in 0..clients {
        let key = Key::generate(&params.lattice, &mut rng);
        let m = message(&params, |_| rng.next_u64() % t);
        let scalars = m.iter().flat_map(PlainPoly::coefficients);
        messages.iter_mut().zip(scalars).for_each(|(sum, m)| *sum += m);
        sum.add(&params.encrypt(&key, &m, &seed(11, client)).unwrap()).unwrap();
        keys.push(key);
    }
    let kahe = &params.lattice.kahe;
    let (pads, sums) = (Crt::new(P300.kahe), Crt::new(P300.wire));
    let (q, big_q, t) = (pads.modulus, sums.modulus, i128::from(t));
    let s = kahe.forward(kahe.from_short(&SummedKey::of(&keys).0));
    let mut errors = Vec::new();
    for (poly, a) in params.a().iter().enumerate() {
        let mask = kahe.inverse(kahe.mul(a, &s));
        let limbs = &sum.limbs[poly * 2 * N..][..2 * N];
        for i in 0..N {
            let c = sums.lift([limbs[i], limbs[N + i]]);
            let pad = pads.lift([mask.limb(0)[i], mask.limb(1)[i]]) * big_q;
            let m = i128::from(messages[poly * N + i]) * big_q;
            let whole = centred(c - pad / q - m / t, big_q);
            // Below 2^20 and below 1: exact enough in an f64.
            #[expect(clippy::cast_precision_loss, reason = "49 bits")]
            let fraction = (pad % q) as f64 / q as f64 + (m % t) as f64 / t as f64;
            errors.push(whole as f64 - fraction);
        }
    }
    let count = errors.len() as f64;
    let mean = errors.iter().sum::<f64>() / count;
    let deviation = (errors.iter().map(|e| (e - mean).powi(2)).sum::<f64>() / (count - 1.0)).sqrt();
    let largest = errors.iter().fold(0.0, |max: f64, e| max.max(e.abs()));
    let budget = NoiseBudget::new(&P300, clients, params.polys(), Plaintext::Prime);
    println!("measured {deviation:.3}, mean {mean:.3}, largest {largest:.1}; budget {budget:?}");
    // 8192 coefficients: the measured deviation is good to 0.8 %.
    assert!((deviation / budget.deviation - 1.0).abs() < 0.05, "{deviation} against {budget:?}");
    assert!(mean.abs() < 4.0 * budget.deviation / count.sqrt(), "{mean}");
    assert!(largest < budget.half_range, "{largest} against {budget:?}");
}

#[test]
fn the_error_does_not_depend_on_the_thread_count() {
    let params = params(&P300, 48, Plaintext::Prime);
    let mut rng = ChaCha20Rng::from_seed([10; 32]);
    let keys = [Key::generate(&params.lattice, &mut rng), Key::generate(&params.lattice, &mut rng)];
    let zero = vec![PlainPoly::zero(); params.polys()];
    let mut sum = CiphertextSum::new(&params);
    sum.add(&params.encrypt(&keys[0], &zero, &seed(10, 0)).unwrap()).unwrap();
    let wrong_key = SummedKey::of(&keys[1..]);
    // Both limbs of every polynomial are out of range; the primes tell them apart.
    let bad = vec![0xFF; params.ciphertext_len()];
    let source = PackError::OutOfRange { max: P300.wire[0] - 1 };
    for threads in [1, 2, 8, 8, 8, 8] {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| {
            let refused = params.decrypt(&sum, &wrong_key);
            assert!(matches!(refused, Err(KaheError::NoiseOverflow { poly: 0 })), "{refused:?}");
            let refused = CiphertextSum::new(&params).add(&bad);
            assert_eq!(refused, Err(KaheError::Malformed { poly: 0, source }));
        });
    }
}

#[test]
fn streams_of_secrets_are_the_standard_one_and_wiped() {
    fn wiped<T: zeroize::ZeroizeOnDrop>(value: T) -> T {
        value
    }
    // Does not compile with a generator that leaves its key and its buffer behind.
    let mut rng = wiped(ChaCha20Rng::from_seed([0; 32]));
    let mut bytes = [0; 16];
    rng.fill_bytes(&mut bytes);
    // Key and nonce zero, block 0: RFC 8439, appendix A.1, test vector 1.
    let expected =
        [0x76, 0xB8, 0xE0, 0xAD, 0xA0, 0xF1, 0x3D, 0x90, 0x40, 0x5D, 0x6A, 0xE5, 0x53, 0x86, 0xBD, 0x28];
    assert_eq!(bytes, expected);
}
