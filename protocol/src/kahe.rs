//! Key-additive homomorphic encryption.
//!
//! Public vector a in R_q^mu. A key is one Gaussian ring element s, fresh per round.
//! `c_i = a_i s + e_i + round(q m_i / t) mod q`, lifted over both limbs and rounded to the WIRE modulus:
//! `c'_i = round(c_i Q / q) mod Q`. Ciphertexts add in WIRE limbs, keys as integers; the sum of the keys opens the sum
//! of the ciphertexts. A key used twice reveals the difference of two messages: it never is.

use crate::fault::{Attribution, Fault};
use crate::ids::EpochDigest;
use crate::lattice::{CrsSeed, Lattice};
use crate::plaintext::PlainPoly;
use chipmunk::N;
use chipmunk::params::ParameterSet;
use chipmunk::ring::pack::PackError;
use chipmunk::ring::sample::{self, Gaussian};
use chipmunk::ring::switch::ModulusSwitch;
use chipmunk::ring::{Coeff, Cs, Kahe, Ntt, Poly, RingContext, ShortPoly, Wire};
use chipmunk::secret::Secret;
use rand_chacha::ChaCha20Rng;
use rand_core::{CryptoRng, SeedableRng};
use rayon::prelude::*;
use std::sync::Arc;
use zeroize::Zeroizing;

/// Which plaintext modulus a round uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Plaintext {
    /// 2^35, for peeling and slots.
    PowerOfTwo,
    /// 34380709889 = 32788 * 2^20 + 1, for the sketch.
    Prime,
}

impl Plaintext {
    /// The modulus t.
    pub const fn modulus(self, set: &ParameterSet) -> u64 {
        match self {
            Self::PowerOfTwo => set.plaintext_power,
            Self::Prime => set.plaintext_prime,
        }
    }
}

/// Why an encryption or a sum was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KaheError {
    /// A packed ciphertext has the wrong length or a coefficient out of range.
    #[error("polynomial {poly} of the ciphertext does not parse")]
    Malformed {
        /// The first such polynomial.
        poly: usize,
        /// What is wrong with it.
        #[source]
        source: PackError,
    },
    /// The message vector has the wrong number of polynomials or a coefficient at or above the plaintext modulus.
    #[error("a message has {expected} polynomials with coefficients below t, got {found}")]
    MessageShape {
        /// Polynomials of this round.
        expected: usize,
        /// Polynomials given.
        found: usize,
    },
    /// A coefficient's residual is above 63/64 of the half-range: some client's noise or key is out of bounds, or the
    /// key is not the sum of the ciphertexts' keys. Nobody can be named.
    #[error("noise overflow in polynomial {poly}")]
    NoiseOverflow {
        /// The first such polynomial.
        poly: usize,
    },
    /// More ciphertexts than the parameter set can sum.
    #[error("at most {max} ciphertexts can be summed")]
    TooManyClients {
        /// The parameter set's `rho_max`.
        max: u32,
    },
}

impl Fault for KaheError {
    fn code(&self) -> &'static str {
        match self {
            Self::Malformed { .. } => "ciphertext_malformed",
            Self::MessageShape { .. } => "message_shape",
            Self::NoiseOverflow { .. } => "noise_overflow",
            Self::TooManyClients { .. } => "too_many_clients",
        }
    }

    fn attribution(&self) -> Attribution {
        match self {
            Self::MessageShape { .. } | Self::TooManyClients { .. } => Attribution::Caller,
            Self::Malformed { .. } | Self::NoiseOverflow { .. } => Attribution::Nobody,
        }
    }
}

/// A client's key of one round. Centred Gaussian coefficients, magnitude at most `key_bound`.
#[derive(Debug)]
pub struct Key(Secret<ShortPoly>);

/// The sum of the keys of a canonical set: public once recovered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SummedKey(ShortPoly);

impl Key {
    /// A fresh key.
    pub fn generate(lattice: &Lattice, rng: &mut (impl CryptoRng + ?Sized)) -> Self {
        let mut sampled = sample::gaussian(lattice.kernels(), Gaussian::Key, rng);
        Self(Secret::new(std::mem::replace(&mut *sampled, ShortPoly::zero())))
    }

    /// A key of these coefficients, bounded or not: for a test that needs a client who ignores the bound.
    #[cfg(any(test, feature = "test-util"))]
    pub const fn from_coefficients(coefficients: ShortPoly) -> Self {
        Self(Secret::new(coefficients))
    }

    /// The bridge to the ring of the shares: the same centred integers, modulo q_cs.
    pub fn to_cs(&self, lattice: &Lattice) -> Secret<Poly<Cs, Coeff>> {
        Secret::new(lattice.cs().from_short(self.0.expose()))
    }
}

impl SummedKey {
    /// The bridge back: centred representatives, exact while `clients * key_bound <= (q_cs - 1) / 2`.
    pub fn from_cs(lattice: &Lattice, sum: &Poly<Cs, Coeff>) -> Self {
        Self(lattice.cs().centred(sum))
    }

    /// The sum of known keys.
    #[cfg(any(test, feature = "test-util"))]
    pub fn of(keys: &[Key]) -> Self {
        let mut sum = ShortPoly::zero();
        keys.iter().for_each(|key| sum.add_assign(key.0.expose()));
        Self(sum)
    }
}

/// The scheme's public parameters in one epoch.
#[derive(Debug)]
pub struct KaheParams {
    lattice: Arc<Lattice>,
    a: Vec<Poly<Kahe, Ntt>>,
    t: u64,
    switch: ModulusSwitch,
}

impl KaheParams {
    /// Expands the epoch's public vector of `polys` elements, in parallel.
    pub fn new(
        lattice: Arc<Lattice>,
        seed: &CrsSeed,
        epoch: &EpochDigest,
        polys: u32,
        plaintext: Plaintext,
    ) -> Self {
        let expander = seed.epoch_expander(epoch);
        let a =
            (0..polys).into_par_iter().map(|i| sample::uniform_ntt(&lattice.kahe, &expander, i)).collect();
        let t = plaintext.modulus(lattice.set);
        let switch = ModulusSwitch::new(&lattice.kahe, &lattice.wire, t);
        Self { lattice, a, t, switch }
    }

    /// Polynomials of a message: mu.
    pub const fn polys(&self) -> usize {
        self.a.len()
    }

    /// The public vector a, in the transform domain: for vectors that another implementation checks.
    #[cfg(any(test, feature = "test-util"))]
    pub fn public_vector(&self) -> &[Poly<Kahe, Ntt>] {
        &self.a
    }

    /// The plaintext modulus t.
    pub const fn plaintext_modulus(&self) -> u64 {
        self.t
    }

    /// Bytes of a packed ciphertext.
    pub fn ciphertext_len(&self) -> usize {
        self.polys() * self.lattice.wire_poly_len()
    }

    /// Encrypts a message vector into its packed ciphertext. `seed` is fresh randomness of this encryption: the errors
    /// of every polynomial come from a stream of their own, so the bytes do not depend on the thread count.
    ///
    /// # Errors
    /// `MessageShape` unless the vector has [`polys`](Self::polys) polynomials with coefficients below t.
    pub fn encrypt(
        &self,
        key: &Key,
        message: &[PlainPoly],
        seed: &Zeroizing<[u8; 32]>,
    ) -> Result<Vec<u8>, KaheError> {
        let in_range = |m: &PlainPoly| {
            // The borrow of t - 1 - m, gathered over all coefficients: no branch on a message.
            m.coefficients().iter().fold(0, |above, &m| above | ((self.t - 1).wrapping_sub(m) >> 63)) == 0
        };
        if message.len() != self.polys() || !message.iter().all(in_range) {
            return Err(KaheError::MessageShape { expected: self.polys(), found: message.len() });
        }
        let kahe = &self.lattice.kahe;
        let s = Zeroizing::new(kahe.forward(kahe.from_short(key.0.expose())));
        let mut root = ChaCha20Rng::from_seed(**seed);
        let seeds: Vec<Zeroizing<[u8; 32]>> = message.iter().map(|_| fork(&mut root)).collect();
        let mut packed = vec![0; self.ciphertext_len()];
        packed
            .par_chunks_exact_mut(self.lattice.wire_poly_len())
            .zip(&self.a)
            .zip(message)
            // By reference: moved out, the seeds would stay behind in the vector's memory.
            .zip(&seeds)
            .for_each(|(((out, a), m), seed)| self.encrypt_poly(a, &s, m, seed, out));
        Ok(packed)
    }

    fn encrypt_poly(
        &self,
        a: &Poly<Kahe, Ntt>,
        s: &Poly<Kahe, Ntt>,
        message: &PlainPoly,
        seed: &[u8; 32],
        out: &mut [u8],
    ) {
        let Lattice { kahe, wire, .. } = &*self.lattice;
        let error =
            sample::gaussian(self.lattice.kernels(), Gaussian::Error, &mut ChaCha20Rng::from_seed(*seed));
        let mask = Zeroizing::new(kahe.inverse(kahe.mul(a, s)));
        let mut ciphertext = Poly::zero();
        self.switch.encrypt(&mask, &error, message.coefficients(), &mut ciphertext);
        wire.pack_into(&ciphertext, out);
    }

    /// Opens a sum of ciphertexts with the sum of their keys: the sum of the messages modulo t.
    ///
    /// # Errors
    /// `NoiseOverflow` if any coefficient's residual is above 63/64 of the half-range.
    pub fn decrypt(&self, sum: &CiphertextSum, key: &SummedKey) -> Result<Vec<PlainPoly>, KaheError> {
        let kahe = &self.lattice.kahe;
        let s = kahe.forward(kahe.from_short(&key.0));
        // Collected before looking for errors, so that the first bad polynomial is the same one at every thread count.
        let opened: Vec<Result<PlainPoly, KaheError>> = sum
            .limbs
            .par_chunks_exact(2 * N)
            .zip(&self.a)
            .enumerate()
            .map(|(poly, (limbs, a))| {
                let mut plain = PlainPoly::zero();
                let mask = kahe.inverse(kahe.mul(a, &s));
                let residual = self.switch.decrypt(limbs, &mask, plain.coefficients_mut());
                // 63/64 of half a plaintext step, which is q/2 in the residual's unit.
                let within = residual <= self.switch.modulus() / 2 / 64 * 63;
                if within { Ok(plain) } else { Err(KaheError::NoiseOverflow { poly }) }
            })
            .collect();
        opened.into_iter().collect()
    }
}

/// A 32-byte seed of a child stream.
pub(crate) fn fork(rng: &mut (impl CryptoRng + ?Sized)) -> Zeroizing<[u8; 32]> {
    let mut seed = Zeroizing::new([0; 32]);
    rng.fill_bytes(seed.as_mut());
    seed
}

/// A running sum of packed ciphertexts: memory of one ciphertext, whatever the number of clients.
///
/// WIRE residues are below 2^22 and at most `rho_max` are added, so the sums are plain u32 additions.
#[derive(Debug)]
pub struct CiphertextSum {
    lattice: Arc<Lattice>,
    /// Per polynomial, per limb, 2048 unreduced sums.
    limbs: Vec<u32>,
    count: u32,
}

impl CiphertextSum {
    /// The empty sum.
    pub fn new(params: &KaheParams) -> Self {
        let limbs = vec![0; params.polys() * 2 * N];
        Self { lattice: Arc::clone(&params.lattice), limbs, count: 0 }
    }

    /// How many ciphertexts are in the sum.
    pub const fn count(&self) -> u32 {
        self.count
    }

    /// Adds a packed ciphertext: all of it or, on an error, nothing.
    ///
    /// # Errors
    /// `Malformed` for a wrong length or a coefficient at or above its WIRE prime; `TooManyClients` beyond `rho_max`.
    pub fn add(&mut self, packed: &[u8]) -> Result<(), KaheError> {
        if self.count >= self.lattice.set.rho_max {
            return Err(KaheError::TooManyClients { max: self.lattice.set.rho_max });
        }
        let outcome = self.accumulate(packed, RingContext::add_packed_limb);
        match &outcome {
            // Out-of-range fields were added too; the same fields taken off again leave the sum as it was.
            Err(KaheError::Malformed { source: PackError::OutOfRange { .. }, .. }) => {
                let _undone = self.accumulate(packed, RingContext::sub_packed_limb);
            }
            Err(_) => {}
            Ok(()) => self.count += 1,
        }
        outcome
    }

    fn accumulate(&mut self, packed: &[u8], combine: CombineLimb) -> Result<(), KaheError> {
        let wire = &self.lattice.wire;
        let expected = self.limbs.len() / (2 * N) * wire.packed_len();
        if packed.len() != expected {
            let source = PackError::Length { expected, found: packed.len() };
            return Err(KaheError::Malformed { poly: packed.len() / wire.packed_len(), source });
        }
        let bad = self
            .limbs
            .par_chunks_exact_mut(N)
            .zip(packed.par_chunks_exact(wire.packed_len() / 2))
            .enumerate()
            .with_min_len(LIMBS_PER_TASK)
            .filter_map(|(limb, (sums, bytes))| {
                combine(wire, limb % 2, bytes, sums).err().map(|source| (limb, source))
            })
            .min_by_key(|(limb, _)| *limb);
        match bad {
            None => Ok(()),
            Some((limb, source)) => Err(KaheError::Malformed { poly: limb / 2, source }),
        }
    }
}

/// Adds or subtracts one packed limb: ring, limb, bytes, sums.
type CombineLimb = fn(&RingContext<Wire>, usize, &[u8], &mut [u32]) -> Result<(), PackError>;

/// Limbs that one task adds: about ten microseconds' work.
const LIMBS_PER_TASK: usize = 16;

#[cfg(test)]
mod tests;
