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
use chipmunk::ring::pack::{PackError, pack_words, packed_len, unpack_words};
use chipmunk::ring::rescale::Rescale;
use chipmunk::ring::sample::{self, Gaussian};
use chipmunk::ring::{Coeff, Cs, Kahe, Ntt, Poly, ShortPoly};
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
    #[error("noise overflow at coefficient {coefficient} of polynomial {poly}")]
    NoiseOverflow {
        /// The polynomial.
        poly: usize,
        /// The coefficient.
        coefficient: usize,
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
    message_to_kahe: Rescale,
    kahe_to_wire: Rescale,
    wire_to_kahe: Rescale,
    kahe_to_message: Rescale,
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
        let (q, wire) = (lattice.kahe_lift.modulus(), lattice.wire_lift.modulus());
        Self {
            a,
            t,
            message_to_kahe: Rescale::new(q, t),
            kahe_to_wire: Rescale::new(wire, q),
            wire_to_kahe: Rescale::new(q, wire),
            kahe_to_message: Rescale::new(t, q),
            lattice,
        }
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
            .zip(seeds)
            .for_each(|(((out, a), m), seed)| self.encrypt_poly(a, &s, m, &seed, out));
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
        let Lattice { kahe, kahe_lift, wire, wire_lift, .. } = &*self.lattice;
        let error =
            sample::gaussian(self.lattice.kernels(), Gaussian::Error, &mut ChaCha20Rng::from_seed(*seed));
        let mut mask = Zeroizing::new(kahe.inverse(kahe.mul(a, s)));
        kahe.add_assign(&mut mask, &Zeroizing::new(kahe.from_short(&error)));
        let (q, wire_q) = (kahe_lift.modulus(), wire_lift.modulus());
        let mut limbs = [[0u32; N]; 2];
        for (i, &m) in message.coefficients().iter().enumerate() {
            let lifted = kahe_lift.lift(&kahe.primes()[1], mask.limb(0)[i], mask.limb(1)[i]);
            let c = subtract_once(lifted + self.message_to_kahe.apply(m), q);
            // c Q / q may round up to Q itself, which is 0.
            let c = subtract_once(self.kahe_to_wire.apply(c), wire_q);
            limbs[0][i] = wire.primes()[0].reduce(c);
            limbs[1][i] = wire.primes()[1].reduce(c);
        }
        let mut bytes = Vec::with_capacity(out.len());
        for limb in &limbs {
            pack_words(limb, wire.limb_width(), &mut bytes);
        }
        out.copy_from_slice(&bytes);
    }

    /// Opens a sum of ciphertexts with the sum of their keys: the sum of the messages modulo t.
    ///
    /// # Errors
    /// `NoiseOverflow` if any coefficient's residual is above 63/64 of the half-range.
    pub fn decrypt(&self, sum: &CiphertextSum, key: &SummedKey) -> Result<Vec<PlainPoly>, KaheError> {
        let kahe = &self.lattice.kahe;
        let s = kahe.forward(kahe.from_short(&key.0));
        sum.limbs
            .par_chunks_exact(2 * N)
            .zip(&self.a)
            .enumerate()
            .map(|(poly, (limbs, a))| {
                self.decrypt_poly(limbs, a, &s)
                    .map_err(|coefficient| KaheError::NoiseOverflow { poly, coefficient })
            })
            .collect()
    }

    fn decrypt_poly(
        &self,
        limbs: &[u32],
        a: &Poly<Kahe, Ntt>,
        s: &Poly<Kahe, Ntt>,
    ) -> Result<PlainPoly, usize> {
        let Lattice { kahe, kahe_lift, wire, wire_lift, .. } = &*self.lattice;
        let mask = kahe.inverse(kahe.mul(a, s));
        let q = kahe_lift.modulus();
        let limit = i64::try_from(q / 2 / 64 * 63).expect("q is below 2^50");
        let mut plain = PlainPoly::zero();
        for (i, out) in plain.coefficients_mut().iter_mut().enumerate() {
            let [r0, r1] = [0, 1].map(|limb| wire.primes()[limb].reduce(limbs[limb * N + i].into()));
            let c = self.wire_to_kahe.apply(wire_lift.lift(&wire.primes()[1], r0, r1));
            let lifted = kahe_lift.lift(&kahe.primes()[1], mask.limb(0)[i], mask.limb(1)[i]);
            let (m, residual) = self.kahe_to_message.apply_with_remainder(subtract_once(c + q - lifted, q));
            if residual.abs() > limit {
                return Err(i);
            }
            *out = subtract_once(m, self.t);
        }
        Ok(plain)
    }
}

/// `x - modulus` if that is not negative, else `x`; for x below twice the modulus. Branch-free.
const fn subtract_once(x: u64, modulus: u64) -> u64 {
    let difference = x.wrapping_sub(modulus);
    let borrow = (difference >> 63).wrapping_neg();
    difference.wrapping_add(modulus & borrow)
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
        let outcome = self.accumulate(packed, u32::wrapping_add);
        match &outcome {
            // Out-of-range fields were added too; the same fields taken off again leave the sum as it was.
            Err(KaheError::Malformed { source: PackError::OutOfRange { .. }, .. }) => {
                let _undone = self.accumulate(packed, u32::wrapping_sub);
            }
            Err(_) => {}
            Ok(()) => self.count += 1,
        }
        outcome
    }

    fn accumulate(&mut self, packed: &[u8], combine: fn(u32, u32) -> u32) -> Result<(), KaheError> {
        let wire = &self.lattice.wire;
        let expected = self.limbs.len() / (2 * N) * wire.packed_len();
        if packed.len() != expected {
            let source = PackError::Length { expected, found: packed.len() };
            return Err(KaheError::Malformed { poly: packed.len() / wire.packed_len(), source });
        }
        let width = wire.limb_width();
        let bad = self
            .limbs
            .par_chunks_exact_mut(N)
            .zip(packed.par_chunks_exact(packed_len(width)))
            .enumerate()
            .filter_map(|(limb, (sums, bytes))| {
                let mut words = [0u32; N];
                let outcome = unpack_words(bytes, width, wire.primes()[limb % 2].q() - 1, &mut words);
                sums.iter_mut().zip(&words).for_each(|(sum, &word)| *sum = combine(*sum, word));
                outcome.err().map(|source| (limb / 2, source))
            })
            .min_by_key(|(poly, _)| *poly);
        match bad {
            None => Ok(()),
            Some((poly, source)) => Err(KaheError::Malformed { poly, source }),
        }
    }
}

#[cfg(test)]
mod tests;
