//! Samplers: uniform residues, bounded uniform integers, discrete Gaussian of width 15.72.
//!
//! Uniform values are drawn by mask-and-reject: whether a draw is rejected is independent of the values that are kept,
//! so the number of draws says nothing about them. No branch and no address of the Gaussian depends on a sample:
//! portable code scans the whole cumulative table for each, vector code searches it in registers.

use super::backend::Kernels;
use super::backend::secrecy::public;
use super::cumulative::CumulativeTable;
use super::expand::Expander;
use super::gaussian_table::{ERROR_CDT, KEY_CDT};
use super::modulus::Prime;
use super::{Coeff, Domain, Ntt, NttRing, Poly, Ring, RingContext, ShortPoly};
use crate::N;
use rand_core::CryptoRng;
use zeroize::Zeroizing;

/// Bytes drawn from a source at a time. Sources are continuous, so the value changes speed, not output.
const CHUNK: usize = 4096;

/// Fills `out` with residues in `[0, q)`: u32 words, masked to the bit length of q, at or above q rejected.
fn uniform_residues(prime: &Prime, mut fill: impl FnMut(&mut [u8]), out: &mut [u32]) {
    let q = prime.q();
    let mask = u32::MAX >> q.leading_zeros();
    let mut bytes = Zeroizing::new([0u8; CHUNK]);
    let mut filled = 0;
    while filled < out.len() {
        fill(bytes.as_mut());
        for word in bytes.as_chunks::<4>().0 {
            let candidate = u32::from_le_bytes(*word) & mask;
            // Written always, kept when accepted: a branch would be mispredicted at every other rejection.
            out[filled] = candidate;
            // Whether a draw is kept says nothing about those that are.
            filled += usize::from(public(candidate < q));
            if filled == out.len() {
                break;
            }
        }
    }
}

fn uniform<R: Ring, D: Domain>(ring: &RingContext<R>, mut fill: impl FnMut(u32, &mut [u8])) -> Poly<R, D> {
    let mut poly = Poly::zero();
    for (limb, prime) in (0u32..).zip(ring.primes()) {
        uniform_residues(prime, |bytes| fill(limb, bytes), poly.limb_mut(limb as usize));
    }
    poly
}

/// Public uniform element number `index` of `expander`, sampled in the transform domain.
pub fn uniform_ntt<R: NttRing>(ring: &RingContext<R>, expander: &Expander, index: u32) -> Poly<R, Ntt> {
    expand_uniform(ring, expander, index)
}

/// Public uniform element number `index` of `expander`, sampled as coefficients.
pub fn uniform_coeff<R: Ring>(ring: &RingContext<R>, expander: &Expander, index: u32) -> Poly<R, Coeff> {
    expand_uniform(ring, expander, index)
}

fn expand_uniform<R: Ring, D: Domain>(ring: &RingContext<R>, expander: &Expander, index: u32) -> Poly<R, D> {
    let mut streams: Vec<_> =
        (0u32..).zip(ring.primes()).map(|(limb, _)| expander.stream(index, limb)).collect();
    uniform(ring, |limb, bytes| streams[limb as usize].fill(bytes))
}

/// A secret uniform element, from the caller's generator.
pub fn secret_uniform<R: Ring>(ring: &RingContext<R>, rng: &mut (impl CryptoRng + ?Sized)) -> Poly<R, Coeff> {
    uniform(ring, |_, bytes| rng.fill_bytes(bytes))
}

/// Short polynomial number `index` of `expander`, uniform in `[-bound, bound]`: bytes, above `2*bound` rejected.
///
/// # Panics
/// If `bound` is above 127: a parameter set's test keeps it at one byte.
pub fn bounded(expander: &Expander, index: u32, bound: u32) -> ShortPoly {
    let mut poly = ShortPoly::zero();
    bounded_into(expander, index, bound, &mut poly);
    poly
}

/// [`bounded`] into memory that the caller keeps, and wipes.
///
/// # Panics
/// As [`bounded`].
pub fn bounded_into(expander: &Expander, index: u32, bound: u32, out: &mut ShortPoly) {
    let bound = u8::try_from(bound).ok().filter(|&b| b <= 127).expect("a bound of at most 127");
    let (limit, offset) = (2 * u16::from(bound) + 1, i32::from(bound));
    let mut stream = expander.stream(index, 0);
    let mut bytes = Zeroizing::new([0u8; CHUNK]);
    let out = out.coefficients_mut();
    let mut filled = 0;
    while filled < N {
        stream.fill(bytes.as_mut());
        for &byte in bytes.iter() {
            // Written always, kept when accepted: only the fact of rejection moves `filled`, and it says nothing about
            // the draws that are kept.
            out[filled] = i32::from(byte) - offset;
            filled += usize::from(public(u16::from(byte) < limit));
            if filled == N {
                break;
            }
        }
    }
}

/// Which Gaussian: both have sigma = 15.72 and differ in where the table ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gaussian {
    /// Encryption errors, magnitude at most 144 (9.2 sigma).
    Error,
    /// Keys, magnitude at most 126: the bound of the key bridge.
    Key,
}

impl Gaussian {
    /// The folded cumulative table.
    pub fn table(self) -> &'static CumulativeTable {
        static ERROR: CumulativeTable = CumulativeTable::new(&ERROR_CDT);
        static KEY: CumulativeTable = CumulativeTable::new(&KEY_CDT);
        match self {
            Self::Error => &ERROR,
            Self::Key => &KEY,
        }
    }
}

/// 2048 discrete Gaussian samples, one u64 of the generator each. Constant time.
pub fn gaussian(
    kernels: &Kernels,
    which: Gaussian,
    rng: &mut (impl CryptoRng + ?Sized),
) -> Zeroizing<ShortPoly> {
    let mut poly = Zeroizing::new(ShortPoly::zero());
    gaussian_into(kernels, which, rng, &mut poly);
    poly
}

/// [`gaussian`] into memory that the caller keeps, and wipes.
pub fn gaussian_into(
    kernels: &Kernels,
    which: Gaussian,
    rng: &mut (impl CryptoRng + ?Sized),
    out: &mut ShortPoly,
) {
    let mut bytes = Zeroizing::new([0u8; CHUNK]);
    for out in out.coefficients_mut().chunks_exact_mut(CHUNK / 8) {
        rng.fill_bytes(bytes.as_mut());
        (kernels.gaussian)(which.table(), bytes.as_chunks().0, out);
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Cs, Kahe, backend};
    use super::*;
    use crate::params::{P300, P1000};
    use rand_chacha::ChaCha20Rng;
    use rand_core::SeedableRng;

    /// Chi-square of `observed` against `expected` counts.
    fn chi_square(observed: &[u64], expected: &[f64]) -> f64 {
        observed.iter().zip(expected).map(|(&o, &e)| (o as f64 - e).powi(2) / e).sum()
    }

    #[test]
    fn uniform_elements_fill_their_range_evenly() {
        let ring = RingContext::<Kahe>::new(&P300.kahe, backend::under_test());
        let expander = Expander::new(&[3; 32], b"test");
        for (limb, prime) in ring.primes().iter().enumerate() {
            let mut buckets = [0u64; 64];
            for index in 0..64 {
                let poly = uniform_ntt(&ring, &expander, index);
                for &word in poly.limb(limb) {
                    assert!(word < prime.q());
                    buckets[usize::try_from(u64::from(word) * 64 / u64::from(prime.q())).unwrap()] += 1;
                }
            }
            // 63 degrees of freedom: 150 is beyond 1 - 10^-8.
            assert!(chi_square(&buckets, &[2048.0; 64]) < 150.0);
        }
    }

    #[test]
    fn bounded_is_uniform_and_reaches_both_ends() {
        for bound in [P300.beta, P1000.beta] {
            let values = 2 * usize::try_from(bound).unwrap() + 1;
            let expander = Expander::new(&[4; 32], b"test");
            let mut buckets = vec![0u64; values];
            for index in 0..100 {
                for &c in bounded(&expander, index, bound).coefficients() {
                    buckets[usize::try_from(c + i32::try_from(bound).unwrap()).unwrap()] += 1;
                }
            }
            let expected = vec![204_800.0 / values as f64; values];
            // Up to 254 degrees of freedom, standard deviation 22.5: 6 of them above the mean.
            assert!(chi_square(&buckets, &expected) < values as f64 + 6.0 * (2.0 * values as f64).sqrt());
            assert!(buckets.iter().all(|&count| count > 0));
        }
    }

    #[test]
    fn gaussian_has_the_density_and_never_leaves_its_support() {
        let mut rng = ChaCha20Rng::from_seed([5; 32]);
        for (which, bound) in [(Gaussian::Error, P300.error_bound), (Gaussian::Key, P300.key_bound)] {
            let mut histogram = vec![0u64; 301];
            let polys = 200;
            for _ in 0..polys {
                for &c in gaussian(backend::under_test(), which, &mut rng).coefficients() {
                    assert!(c.unsigned_abs() <= bound);
                    histogram[usize::try_from(c + 150).unwrap()] += 1;
                }
            }
            // Oracle: the density itself, in floating point, on the middle of the support.
            let sigma = f64::from(P300.sigma_centi) / 100.0;
            let weight = |x: i32| (-f64::from(x * x) / (2.0 * sigma * sigma)).exp();
            let total: f64 = (-150..=150).map(weight).sum();
            let (mut observed, mut expected) = (Vec::new(), Vec::new());
            for x in -50..=50 {
                observed.push(histogram[usize::try_from(x + 150).unwrap()]);
                expected.push(weight(x) / total * f64::from(polys) * 2048.0);
            }
            // About 100 degrees of freedom: 200 is 7 standard deviations above the mean.
            assert!(chi_square(&observed, &expected) < 200.0, "{which:?}");
        }
    }

    #[test]
    fn gaussian_edges_of_the_word() {
        for which in [Gaussian::Error, Gaussian::Key] {
            let table = which.table().entries();
            let top = i32::try_from(table.len()).unwrap();
            let mut words = vec![0, 1 << 63, table[0] | 1 << 63, u64::MAX >> 1, u64::MAX];
            words.extend(table.iter().flat_map(|&entry| [entry - 1, entry]));
            // Kernels take whole registers.
            words.resize(words.len().next_multiple_of(8), 0);
            let mut out = vec![0; words.len()];
            let bytes: Vec<_> = words.iter().map(|word: &u64| word.to_le_bytes()).collect();
            (backend::under_test().gaussian)(which.table(), &bytes, &mut out);
            assert_eq!(out[..5], [0, 0, -1, top, -top]);
            for (&word, &sample) in words.iter().zip(&out).skip(5) {
                // The table is sorted, so counting by bisection is another way to the same number.
                let magnitude = table.partition_point(|&entry| entry <= word);
                assert_eq!(usize::try_from(sample), Ok(magnitude));
            }
        }
    }

    #[test]
    fn secret_uniform_follows_the_generator() {
        let ring = RingContext::<Cs>::new(&[P300.cs], backend::under_test());
        let draw = |seed| secret_uniform(&ring, &mut ChaCha20Rng::from_seed([seed; 32]));
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
    }
}
