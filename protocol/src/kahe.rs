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
use chipmunk::ring::backend::secrecy::public;
use chipmunk::ring::expand::{Expander, Stream};
use chipmunk::ring::pack::{PackError, pack_words};
use chipmunk::ring::sample::{self, Gaussian};
use chipmunk::ring::switch::ModulusSwitch;
use chipmunk::ring::{Coeff, Cs, Kahe, Ntt, Poly, RingContext, ShortPoly, Wire};
use chipmunk::secret::Secret;
use rand_core::CryptoRng;
use rayon::prelude::*;
use std::sync::{Arc, OnceLock};
use zeroize::{Zeroize, Zeroizing};

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
    expander: Expander,
    polys: usize,
    /// The public vector, expanded when it is first needed: servers and aggregators never need it.
    a: OnceLock<Vec<Poly<Kahe, Ntt>>>,
    t: u64,
    switch: ModulusSwitch,
}

impl KaheParams {
    /// The parameters of an epoch whose public vector has `polys` elements.
    pub fn new(
        lattice: Arc<Lattice>,
        seed: &CrsSeed,
        epoch: &EpochDigest,
        polys: u32,
        plaintext: Plaintext,
    ) -> Self {
        let t = plaintext.modulus(lattice.set);
        let switch = ModulusSwitch::new(&lattice.kahe, &lattice.wire, t);
        let polys = usize::try_from(polys).expect("a count of polynomials fits usize");
        let expander = seed.epoch_expander(epoch);
        Self { lattice, expander, polys, a: OnceLock::new(), t, switch }
    }

    /// Expands the public vector now, in parallel: whoever encrypts or decrypts does this when it learns the epoch, or
    /// waits for it in its first round.
    pub fn expand(&self) {
        self.a();
    }

    /// The public vector; the first call expands it, in parallel.
    fn a(&self) -> &[Poly<Kahe, Ntt>] {
        self.a.get_or_init(|| {
            let element = |index| sample::uniform_ntt(&self.lattice.kahe, &self.expander, index);
            (0..u32::MAX).into_par_iter().take(self.polys).map(element).collect()
        })
    }

    /// Polynomials of a message: mu.
    pub const fn polys(&self) -> usize {
        self.polys
    }

    /// The public vector a, in the transform domain: for vectors that another implementation checks.
    #[cfg(any(test, feature = "test-util"))]
    pub fn public_vector(&self) -> &[Poly<Kahe, Ntt>] {
        self.a()
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
        let shape = KaheError::MessageShape { expected: self.polys(), found: message.len() };
        if message.len() != self.polys() {
            return Err(shape);
        }
        let kahe = &self.lattice.kahe;
        let s = Zeroizing::new(kahe.forward(kahe.from_short(key.0.expose())));
        let errors = Expander::new(seed, b"panetiere/kahe/errors/v1");
        let mut packed = vec![0; self.ciphertext_len()];
        let in_range = packed
            .par_chunks_exact_mut(self.lattice.wire_poly_len())
            .zip(self.a())
            .zip(message)
            .zip(0..u32::MAX)
            .with_min_len(POLYS_PER_TASK)
            .map_init(Scratch::new, |scratch, (((out, a), m), index)| {
                self.encrypt_poly(a, &s, m, errors.stream(index, 0), scratch, out)
            })
            .reduce(|| true, |all, one| all & one);
        if in_range { Ok(packed) } else { Err(shape) }
    }

    /// Encrypts one polynomial, if all its coefficients are below t, and returns whether they are.
    fn encrypt_poly(
        &self,
        a: &Poly<Kahe, Ntt>,
        s: &Poly<Kahe, Ntt>,
        message: &PlainPoly,
        mut errors: Stream,
        scratch: &mut Scratch,
        out: &mut [u8],
    ) -> bool {
        let Scratch { mask, error, ciphertext } = scratch;
        // The top bit of either word is set exactly if m >= t, gathered over all coefficients: no branch on a message.
        let above = |above, &m: &u64| above | (((self.t - 1).wrapping_sub(m) | m) >> 63);
        // That the caller made a mistake is no secret.
        let in_range = public(message.coefficients().iter().fold(0, above) == 0);
        if !in_range {
            return false;
        }
        sample::gaussian_into(self.lattice.kernels(), Gaussian::Error, &mut errors, error);
        self.lattice.kahe.product_into(a, s, mask);
        self.switch.encrypt(mask, error, message.coefficients(), ciphertext);
        self.lattice.wire.pack_into(ciphertext, out);
        true
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
            .zip(self.a())
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

/// What encrypting one polynomial needs, kept from one to the next; what is secret is wiped at the end.
struct Scratch {
    mask: Poly<Kahe, Coeff>,
    error: ShortPoly,
    ciphertext: Poly<Wire, Coeff>,
}

impl Scratch {
    fn new() -> Self {
        Self { mask: Poly::zero(), error: ShortPoly::zero(), ciphertext: Poly::zero() }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        self.mask.zeroize();
        self.error.zeroize();
    }
}

/// Polynomials that one task encrypts: a few hundred microseconds' work.
const POLYS_PER_TASK: usize = 16;

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

    /// The sum whose residues are known: per polynomial two limbs of 2048, canonical. `count` ciphertexts are in it.
    ///
    /// # Panics
    /// Unless there are as many residues as a ciphertext has: they come from this crate's code.
    pub(crate) fn from_limbs(params: &KaheParams, limbs: Vec<u32>, count: u32) -> Self {
        assert_eq!(limbs.len(), params.polys() * 2 * N, "residues of a ciphertext");
        Self { lattice: Arc::clone(&params.lattice), limbs, count }
    }

    /// How many ciphertexts are in the sum.
    pub const fn count(&self) -> u32 {
        self.count
    }

    /// Bytes of one packed polynomial.
    pub(crate) fn poly_len(&self) -> usize {
        self.lattice.wire_poly_len()
    }

    /// Adds a packed ciphertext: all of it or, on an error, nothing.
    ///
    /// # Errors
    /// `Malformed` for a wrong length or a coefficient at or above its WIRE prime; `TooManyClients` beyond `rho_max`.
    pub fn add(&mut self, packed: &[u8]) -> Result<(), KaheError> {
        let (expected, found) = (self.limbs.len() / (2 * N) * self.poly_len(), packed.len());
        if expected != found {
            let source = PackError::Length { expected, found };
            return Err(KaheError::Malformed { poly: found / self.poly_len(), source });
        }
        self.add_polys(0, packed)?;
        self.count_one().inspect_err(|_| self.take_off(found / self.poly_len(), packed))
    }

    /// Takes a packed ciphertext off that [`add`](Self::add) has added.
    ///
    /// # Panics
    /// If no ciphertext was added, or these bytes are none.
    pub(crate) fn subtract(&mut self, packed: &[u8]) {
        self.take_off(packed.len() / self.poly_len(), packed);
        self.count = self.count.checked_sub(1).expect("it was added");
    }

    /// Adds another sum to this one: together they are over at most `rho_max` ciphertexts.
    pub(crate) fn absorb(&mut self, other: &Self) {
        self.limbs.iter_mut().zip(&other.limbs).for_each(|(sum, limb)| *sum = sum.wrapping_add(*limb));
        self.count += other.count;
    }

    /// The sum as a ciphertext: canonical residues, packed at the WIRE width.
    pub fn to_packed(&self) -> Vec<u8> {
        let wire = &self.lattice.wire;
        let mut packed = Vec::with_capacity(self.limbs.len() / (2 * N) * self.poly_len());
        for (limb, sums) in self.limbs.chunks_exact(N).enumerate() {
            let q = wire.primes()[limb % 2].q();
            // Sums of ciphertexts are public.
            let residues: Vec<u32> = sums.iter().map(|sum| sum % q).collect();
            pack_words(&residues, wire.limb_width(), &mut packed);
        }
        packed
    }

    /// Counts a ciphertext of which every polynomial is in the sum.
    ///
    /// # Errors
    /// `TooManyClients` beyond `rho_max`.
    pub(crate) fn count_one(&mut self) -> Result<(), KaheError> {
        let max = self.lattice.set.rho_max;
        if self.count >= max {
            return Err(KaheError::TooManyClients { max });
        }
        self.count += 1;
        Ok(())
    }

    /// Adds whole polynomials of a ciphertext from number `first` on: all of them or, on an error, none.
    ///
    /// # Errors
    /// `Malformed` for a coefficient at or above its WIRE prime, or more polynomials than a ciphertext has.
    pub(crate) fn add_polys(&mut self, first: usize, packed: &[u8]) -> Result<(), KaheError> {
        let outcome = self.combine(first, packed, RingContext::add_packed_limb);
        if let Err(KaheError::Malformed { source: PackError::OutOfRange { .. }, .. }) = &outcome {
            // Out-of-range fields were added too; the same fields taken off again leave the sum as it was.
            let _undone = self.combine(first, packed, RingContext::sub_packed_limb);
        }
        outcome
    }

    /// Takes the first `polys` polynomials of a ciphertext off again, which were added from the same bytes.
    pub(crate) fn take_off(&mut self, polys: usize, packed: &[u8]) {
        let added = &packed[..polys * self.poly_len()];
        self.combine(0, added, RingContext::sub_packed_limb).expect("it was added from these bytes");
    }

    fn combine(&mut self, first: usize, packed: &[u8], combine: CombineLimb) -> Result<(), KaheError> {
        let (wire, poly_len) = (&self.lattice.wire, self.lattice.wire_poly_len());
        let count = packed.len() / poly_len;
        let Some(limbs) = self.limbs.get_mut(first * 2 * N..(first + count) * 2 * N) else {
            let source = PackError::Length { expected: 0, found: packed.len() };
            return Err(KaheError::Malformed { poly: first, source });
        };
        let bad = limbs
            .par_chunks_exact_mut(N)
            .zip(packed.par_chunks_exact(poly_len / 2))
            .enumerate()
            .with_min_len(LIMBS_PER_TASK)
            .filter_map(|(limb, (sums, bytes))| {
                combine(wire, limb % 2, bytes, sums).err().map(|source| (limb, source))
            })
            .min_by_key(|(limb, _)| *limb);
        match bad {
            None => Ok(()),
            Some((limb, source)) => Err(KaheError::Malformed { poly: first + limb / 2, source }),
        }
    }
}

/// Adds or subtracts one packed limb: ring, limb, bytes, sums.
type CombineLimb = fn(&RingContext<Wire>, usize, &[u8], &mut [u32]) -> Result<(), PackError>;

/// Limbs that one task adds: about ten microseconds' work.
const LIMBS_PER_TASK: usize = 16;

#[cfg(test)]
mod tests;
