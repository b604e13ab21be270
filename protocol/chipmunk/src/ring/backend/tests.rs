//! Every back-end against the portable one, and its transform against the definition.

use super::{Kernels, Simd};
use crate::N;
use crate::digits::{DigitBase, PairDigits};
use crate::params::{P300, P1000, ParameterSet};
use crate::ring::crt::PairReduction;
use crate::ring::modulus::Prime;
use crate::ring::schoolbook::negacyclic;
use crate::ring::switch::{MAX_ERROR, ModulusSwitch};
use crate::ring::{Kahe, RingContext, Wire};
use proptest::prelude::*;

/// The vector back-ends of this CPU.
fn others() -> Vec<&'static Kernels> {
    Simd::available().filter(|&simd| simd != Simd::Scalar).map(Simd::kernels).collect()
}

fn scalar() -> &'static Kernels {
    super::scalar()
}

const SETS: [&ParameterSet; 2] = [&P300, &P1000];

/// Every prime of every parameter set.
fn primes() -> Vec<Prime> {
    let mut primes: Vec<u32> = SETS
        .iter()
        .flat_map(|set| {
            [set.hvc, set.cs, set.lane].into_iter().chain(set.kahe).chain(set.wire).chain(set.cs_aux)
        })
        .collect();
    primes.sort_unstable();
    primes.dedup();
    primes.into_iter().map(Prime::new).collect()
}

/// The primes that have a transform.
fn ntt_primes() -> impl Iterator<Item = Prime> {
    primes().into_iter().filter(|prime| prime.q() % 4096 == 1)
}

/// A stream of test words: a plain generator, independent of the library's.
pub(super) struct Draw(pub u64);

impl Draw {
    pub(super) fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 ^ self.0 >> 29
    }

    pub(super) fn below(&mut self, bound: u64) -> u64 {
        u64::try_from((u128::from(self.word()) * u128::from(bound)) >> 64).unwrap()
    }

    /// A residue: an edge of the range every other time.
    pub(super) fn residue(&mut self, q: u32) -> u32 {
        let edges = [0, 1, 2, q / 2 - 1, q / 2, q / 2 + 1, q - 2, q - 1];
        match self.below(2) {
            0 => edges[usize::try_from(self.below(8)).unwrap()],
            _ => u32::try_from(self.below(q.into())).unwrap(),
        }
    }

    pub(super) fn residues(&mut self, q: u32) -> Vec<u32> {
        (0..N).map(|_| self.residue(q)).collect()
    }
}

#[test]
fn names_select_what_this_cpu_has_and_nothing_else() {
    let available: Vec<Simd> = Simd::available().collect();
    assert_eq!(available[0], Simd::Scalar);
    assert_eq!(Some(&Simd::detect()), available.last());
    for simd in Simd::ALL {
        let parsed = simd.to_string().parse::<Simd>();
        if available.contains(&simd) {
            assert_eq!(parsed, Ok(simd));
            assert_eq!(simd.kernels().simd, simd);
        } else {
            assert!(parsed.is_err());
            assert!(std::panic::catch_unwind(|| simd.kernels()).is_err());
        }
    }
    for name in ["neon", "AVX2", "", "auto"] {
        let error = name.parse::<Simd>().unwrap_err().to_string();
        assert!(error.contains(&format!("`{name}`")), "{error}");
        assert!(available.iter().all(|simd| error.contains(&simd.to_string())), "{error}");
    }
}

#[test]
fn transforms_multiply_as_the_schoolbook_does() {
    let mut draw = Draw(1);
    for prime in ntt_primes() {
        let q = prime.q();
        let (a, b) = (draw.residues(q), draw.residues(q));
        let expected = negacyclic(&a, &b, q);
        for kernels in others() {
            let (mut fa, mut fb, mut product) = (a.clone(), b.clone(), vec![0; N]);
            (kernels.ntt_forward)(&prime, &mut fa);
            (kernels.ntt_forward)(&prime, &mut fb);
            (kernels.mul)(&prime, &mut product, &fa, &fb);
            (kernels.ntt_inverse)(&prime, &mut product);
            assert_eq!(product, expected, "{kernels:?} q = {q}");
        }
    }
}

#[test]
fn extreme_constant_inputs_transform_alike() {
    for prime in ntt_primes() {
        for value in [0, 1, prime.q() / 2, prime.q() - 1] {
            for transform in [|k: &Kernels| k.ntt_forward, |k: &Kernels| k.ntt_inverse] {
                let mut expected = vec![value; N];
                transform(scalar())(&prime, &mut expected);
                for kernels in others() {
                    let mut got = vec![value; N];
                    transform(kernels)(&prime, &mut got);
                    assert_eq!(got, expected, "{kernels:?} q = {} value = {value}", prime.q());
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn modular_kernels_match_scalar(seed in any::<u64>()) {
        let mut draw = Draw(seed);
        for prime in primes() {
            let q = prime.q();
            let (a, b) = (draw.residues(q), draw.residues(q));
            let factor = draw.residue(q);
            let short: Vec<i32> = a.iter().zip(&b)
                .map(|(&a, &b)| if b % 2 == 0 { a.cast_signed() } else { -a.cast_signed() })
                .collect();
            // Rows of the largest residues too, and more of them than one accumulation takes.
            let rows: Vec<Vec<u32>> = (0..17)
                .map(|k| if k % 4 == 0 { vec![q - 1; N] } else { draw.residues(q) })
                .collect();
            let terms: Vec<[&[u32]; 2]> = rows.iter().map(|row| [&row[..], &rows[0]]).chain([[&a[..], &b[..]]]).collect();
            let scaled: Vec<(u32, &[u32])> = terms.iter().map(|[a, _]| (a[0], *a)).collect();
            let run = |kernels: &Kernels| {
                let [mut add, mut sub, mut scale] = [(); 3].map(|()| a.clone());
                let [mut mul, mut signed] = [(); 2].map(|()| vec![0; N]);
                let mut dots = [0, 1, 5, 15, 16, 18].map(|length| (length, vec![1; N]));
                (kernels.add)(&prime, &mut add, &b);
                (kernels.sub)(&prime, &mut sub, &b);
                (kernels.scale)(&prime, &mut scale, factor);
                (kernels.mul)(&prime, &mut mul, &a, &b);
                for (length, dot) in &mut dots {
                    (kernels.dot)(&prime, &terms[terms.len() - *length..], dot);
                    (kernels.combine)(&prime, &scaled[scaled.len() - *length..], dot);
                }
                (kernels.from_signed)(&prime, &mut signed, &short);
                ([add, sub, scale, mul, signed], dots)
            };
            let expected = run(scalar());
            // Sums of products by their definition, on top of the ones that were there.
            for (length, dot) in &expected.1 {
                let from = terms.len() - length;
                for i in [0, 1, N - 1] {
                    let product = |(x, y): (u32, u32)| u128::from(x) * u128::from(y);
                    let dots = terms[from..].iter().map(|[x, y]| product((x[i], y[i])));
                    let combined = scaled[from..].iter().map(|(x, y)| product((*x, y[i])));
                    let sum = 1 + dots.chain(combined).sum::<u128>();
                    prop_assert_eq!(u128::from(dot[i]), sum % u128::from(q));
                }
            }
            for kernels in others() {
                prop_assert_eq!(&run(kernels), &expected, "{:?} q = {}", kernels, q);
            }
        }
    }

    #[test]
    fn transforms_match_scalar(seed in any::<u64>()) {
        let mut draw = Draw(seed);
        for prime in ntt_primes() {
            let a = draw.residues(prime.q());
            let run = |kernels: &Kernels| {
                let (mut forward, mut inverse) = (a.clone(), a.clone());
                (kernels.ntt_forward)(&prime, &mut forward);
                (kernels.ntt_inverse)(&prime, &mut inverse);
                (forward, inverse)
            };
            let expected = run(scalar());
            for kernels in others() {
                prop_assert_eq!(&run(kernels), &expected, "{:?} q = {}", kernels, prime.q());
            }
        }
    }

    #[test]
    fn gaussian_matches_scalar(seed in any::<u64>(), words in 1usize..40) {
        use crate::ring::sample::Gaussian;
        let mut draw = Draw(seed);
        for which in [Gaussian::Error, Gaussian::Key] {
            let table = which.table().entries();
            // Next to entries, at both ends, anywhere; with either sign.
            let words: Vec<[u8; 8]> = (0..8 * words).map(|_| {
                let entry = table[usize::try_from(draw.below(table.len() as u64)).unwrap()];
                let low = match draw.below(4) {
                    0 => entry - 1 + draw.below(3),
                    1 => draw.below(3),
                    2 => (u64::MAX >> 1) - draw.below(3),
                    _ => draw.word(),
                };
                (low & u64::MAX >> 1 | draw.below(2) << 63).to_le_bytes()
            }).collect();
            let mut expected = vec![0; words.len()];
            (scalar().gaussian)(which.table(), &words, &mut expected);
            for kernels in others() {
                let mut got = vec![0; words.len()];
                (kernels.gaussian)(which.table(), &words, &mut got);
                prop_assert_eq!(&got, &expected, "{:?} {:?}", kernels, which);
            }
        }
    }

    #[test]
    fn modulus_switches_match_scalar(seed in any::<u64>()) {
        let mut draw = Draw(seed);
        for set in SETS {
            let kahe = RingContext::<Kahe>::new(&set.kahe, scalar());
            let wire = RingContext::<Wire>::new(&set.wire, scalar());
            for t in [set.plaintext_power, set.plaintext_prime] {
                let switch = ModulusSwitch::new(&kahe, &wire, t);
                let mask = set.kahe.map(|q| draw.residues(q));
                // Words at both ends of u32 too: a sum is not reduced.
                let sum = set.wire.map(|q| -> Vec<u32> {
                    (0..N).map(|_| match draw.below(3) {
                        0 => u32::MAX - u32::try_from(draw.below(3)).unwrap(),
                        1 => u32::try_from(draw.word() >> 32).unwrap(),
                        _ => draw.residue(q),
                    }).collect()
                });
                let error: Vec<i32> = (0..N).map(|_| {
                    let magnitude = i32::try_from(draw.residue(MAX_ERROR)).unwrap();
                    if draw.below(2) == 0 { magnitude } else { -magnitude }
                }).collect();
                let message: Vec<u64> = (0..N).map(|_| match draw.below(4) {
                    0 => draw.below(3),
                    1 => t - 1 - draw.below(3),
                    // The middle of a power of two: a tie.
                    2 => t / 2 + draw.below(2),
                    _ => draw.below(t),
                }).collect();
                let run = |kernels: &Kernels| {
                    let (mut c0, mut c1, mut m) = (vec![0; N], vec![0; N], vec![0; N]);
                    let mask = [&mask[0][..], &mask[1]];
                    (kernels.encrypt)(&switch, mask, &error, &message, [&mut c0, &mut c1]);
                    let largest = (kernels.decrypt)(&switch, [&sum[0], &sum[1]], mask, &mut m);
                    // A fresh ciphertext too, whose residuals are small.
                    let mut back = vec![0; N];
                    let fresh = (kernels.decrypt)(&switch, [&c0, &c1], mask, &mut back);
                    (c0, c1, m, largest, back, fresh)
                };
                let expected = run(scalar());
                for kernels in others() {
                    prop_assert_eq!(&run(kernels), &expected, "{:?} {} t = {}", kernels, set.name, t);
                }
            }
        }
    }

    #[test]
    fn packing_matches_scalar(seed in any::<u64>(), width in 1u32..=32) {
        let mut draw = Draw(seed);
        let top = u32::MAX >> (32 - width);
        let words: Vec<u32> = (0..N).map(|_| match draw.below(4) {
            0 => 0,
            1 => top,
            _ => u32::try_from(draw.word() >> 32).unwrap() & top,
        }).collect();
        let sums: Vec<u32> = (0..N).map(|_| u32::try_from(draw.word() >> 32).unwrap()).collect();
        let length = N * usize::try_from(width).unwrap() / 8;
        let run = |kernels: &Kernels| {
            let mut bytes = vec![0xAA; length];
            (kernels.pack)(width, &words, &mut bytes);
            let [mut unpacked, mut added, mut taken] = [(); 3].map(|()| sums.clone());
            let largest = [
                (kernels.unpack)(width, &bytes, &mut unpacked),
                (kernels.add_packed)(width, &bytes, &mut added),
                (kernels.sub_packed)(width, &bytes, &mut taken),
            ];
            (bytes, unpacked, added, taken, largest)
        };
        let expected = run(scalar());
        prop_assert_eq!(&expected.1, &words);
        prop_assert_eq!(expected.4, [*words.iter().max().unwrap(); 3]);
        for (((&added, &taken), &sum), &word) in expected.2.iter().zip(&expected.3).zip(&sums).zip(&words) {
            prop_assert_eq!((added, taken), (sum.wrapping_add(word), sum.wrapping_sub(word)));
        }
        for kernels in others() {
            prop_assert_eq!(&run(kernels), &expected, "{:?} width {}", kernels, width);
        }
    }

    #[test]
    fn centred_kernels_match_scalar(seed in any::<u64>()) {
        let mut draw = Draw(seed);
        for set in SETS {
            let pair = set.cs_aux.map(Prime::new);
            for (q, base) in [(set.hvc, set.hvc_base), (set.cs, set.cs_base), (set.lane, set.lane_base)] {
                let (prime, base) = (Prime::new(q), DigitBase::new(base));
                let reduction = PairReduction::new(&pair, &prime);
                let a = draw.residues(q);
                let mut residues = set.cs_aux.map(|q| draw.residues(q));
                // Around half of the product, where the sign turns.
                let half = u64::from(set.cs_aux[0]) * u64::from(set.cs_aux[1]) / 2;
                for i in 0..8 {
                    let at = usize::try_from(draw.below(N as u64)).unwrap();
                    for (limb, prime) in residues.iter_mut().zip(&pair) {
                        limb[at] = prime.reduce(half - 4 + i);
                    }
                }
                let run = |kernels: &Kernels| {
                    let [mut centred, mut d0, mut d1, mut d2] = [(); 4].map(|()| vec![0; N]);
                    let mut reduced = vec![0; N];
                    (kernels.centred)(&prime, &a, &mut centred);
                    (kernels.decompose)(&prime, &base, &a, [&mut d0, &mut d1, &mut d2]);
                    (kernels.reduce_pair)(&reduction, residues.each_ref().map(Vec::as_slice), &mut reduced);
                    (centred, d0, d1, d2, reduced)
                };
                let expected = run(scalar());
                for kernels in others() {
                    prop_assert_eq!(&run(kernels), &expected, "{:?} q = {}", kernels, q);
                }
            }
        }
    }

    #[test]
    fn digits_of_pairs_match_scalar(seed in any::<u64>()) {
        let mut draw = Draw(seed);
        for set in SETS {
            let ring = RingContext::<Wire>::new(&set.wire, scalar());
            let digits = PairDigits::new(&ring, set.share_base);
            let offset = set.share_digit() * set.rho_max;
            assert!(digits.holds(offset));
            let summed = [(); 4].map(|()| draw.residues(2 * offset + 1));
            let [q0, q1] = set.wire;
            let (mut first, mut second) = (draw.residues(q0), draw.residues(q1));
            // Lifts at both ends of the range, at the change of sign, and where two digits carry into the others.
            let square = u64::from(set.share_base).pow(2);
            let product = set.wire_modulus();
            for i in 0..N / 2 {
                let multiple = square * draw.below(square);
                let near = [0, product / 2, product, multiple, multiple + square / 2][usize::try_from(draw.below(5)).unwrap()];
                let lift = (near + draw.below(5) + product - 2) % product;
                first[i] = u32::try_from(lift % u64::from(q0)).unwrap();
                second[i] = u32::try_from(lift % u64::from(q1)).unwrap();
            }
            let run = |kernels: &Kernels| {
                let mut out = [(); 4].map(|()| vec![0; N]);
                (kernels.decompose_pair)(&digits, [&first, &second], out.each_mut().map(Vec::as_mut_slice));
                // Sums of digits up to what the roster allows.
                let mut sums = [(); 2].map(|()| vec![0; N]);
                let [low, high] = &mut sums;
                (kernels.recompose_pair)(&digits, offset, summed.each_ref().map(Vec::as_slice), [low, high]);
                (out, sums)
            };
            let expected = run(scalar());
            for (limb, q) in expected.1.iter().zip(set.wire) {
                for i in 0..N {
                    let digit = |k: usize| i128::from(summed[k][i]) - i128::from(offset);
                    let value = (0..4).rev().fold(0, |value, k| value * i128::from(set.share_base) + digit(k));
                    prop_assert_eq!(i128::from(limb[i]), value.rem_euclid(q.into()));
                }
            }
            for kernels in others() {
                prop_assert_eq!(&run(kernels), &expected, "{:?} {}", kernels, set.name);
            }
        }
    }
}
