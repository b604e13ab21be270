//! Envelopes: what a client seals to one server. ML-KEM-768 (FIPS 203), HKDF-SHA-256 (RFC 5869), AES-256-GCM
//! (SP 800-38D). protocol.md section 7.
//!
//! `sealed = KEM ciphertext (1088) || AES-GCM ciphertext || tag (16)`. Key and nonce are the HKDF output over the
//! shared secret, with the associated data as info: both are fresh with every encapsulation and no nonce is ever
//! chosen. The associated data pins an envelope to its place: see [`EnvelopeContext`].
//!
//! Decapsulation never fails (implicit rejection): a KEM part that was tampered with, or made for another key, gives
//! an unrelated secret and the tag refuses it. So there is one error for all that can be wrong with the right number
//! of bytes.
//!
//! One 32-byte draw decides a whole envelope. A client forks one ChaCha20 stream per server before it seals to
//! several at once, and the bytes do not depend on the thread count.

use crate::fault::{Attribution, Fault};
use crate::ids::{
    ClientId, CrsDigest, DeploymentId, EnvelopeKeyDigest, EpochDigest, RootDigest, ServerId, SessionId,
};
use crate::wire::{self, Decode, DecodeError, DecodeErrorKind, Encode, Reader};
use ml_kem::{DecapsulationKey768, EncapsulationKey768, KeyExport as _};
use rand_core::CryptoRng;
use sha2::{Digest, Sha256};
use std::fmt;
use zeroize::Zeroizing;

/// Bytes of an ML-KEM-768 ciphertext.
const KEM_CIPHERTEXT_LEN: usize = 1088;

/// Bytes of an AES-GCM tag.
const TAG_LEN: usize = 16;

/// Bytes that sealing adds to the plaintext: KEM ciphertext and tag.
pub const OVERHEAD: usize = KEM_CIPHERTEXT_LEN + TAG_LEN;

/// Domain label of the associated data.
const LABEL: &[u8] = b"panetiere/envelope/v1";

/// Plaintext bytes of a self-test: longer than any opening, so that the bulk path of the cipher runs too.
const SELF_TEST_LEN: usize = 32 << 10;

/// Why an envelope did not open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// A server's own key does not open what was sealed to the key it publishes.
    #[error("the decapsulation key does not open what is sealed to the published encapsulation key")]
    SelfTestFailed,
    /// Fewer bytes than the smallest envelope.
    #[error("an envelope has at least {need} bytes, found {have}")]
    TooShort {
        /// Bytes of the smallest envelope: [`OVERHEAD`].
        need: usize,
        /// Bytes given.
        have: usize,
    },
    /// The bytes were not sealed to this key in this context. It cannot be told what differs.
    #[error("not sealed to this key in this context, or altered since")]
    Unopenable,
}

impl Fault for OpenError {
    fn code(&self) -> &'static str {
        match self {
            Self::SelfTestFailed => "envelope_self_test_failed",
            Self::TooShort { .. } => "envelope_too_short",
            Self::Unopenable => "envelope_unopenable",
        }
    }

    /// Nobody by itself: bytes can be spoilt on the way. A complaint needs the client's signature over these very
    /// bytes. A failed self-test is the server's own.
    fn attribution(&self) -> Attribution {
        match self {
            Self::SelfTestFailed => Attribution::Operator,
            Self::TooShort { .. } | Self::Unopenable => Attribution::Nobody,
        }
    }
}

/// Where an envelope belongs. Sealed in one context, it opens in no other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EnvelopeContext {
    /// The deployment.
    pub deployment: DeploymentId,
    /// The epoch's document, which names the server's encapsulation key.
    pub epoch: EpochDigest,
    /// The round.
    pub session: SessionId,
    /// Who seals.
    pub client: ClientId,
    /// Who opens.
    pub server: ServerId,
    /// The public parameters.
    pub crs: CrsDigest,
    /// The commitment root that the sealed opening belongs to.
    pub root: RootDigest,
}

impl EnvelopeContext {
    /// Bytes of the associated data.
    pub const ASSOCIATED_DATA_LEN: usize =
        LABEL.len() + size_of::<u16>() + 5 * DeploymentId::LEN + ClientId::LEN + ServerId::LEN;

    /// The associated data: domain label, wire version, then the fields in the order of their declaration. Every
    /// part has a fixed length, so no two contexts share it.
    pub fn associated_data(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(Self::ASSOCIATED_DATA_LEN);
        out.extend_from_slice(LABEL);
        out.extend_from_slice(&wire::VERSION.to_le_bytes());
        self.deployment.encode(&mut out);
        self.epoch.encode(&mut out);
        self.session.encode(&mut out);
        self.client.encode(&mut out);
        self.server.encode(&mut out);
        self.crs.encode(&mut out);
        self.root.encode(&mut out);
        debug_assert_eq!(out.len(), Self::ASSOCIATED_DATA_LEN);
        out
    }
}

/// A server's decapsulation key. Wiped on drop, never shown.
pub struct PrivateKey(DecapsulationKey768);

impl PrivateKey {
    /// Bytes of the seed, `d || z` of FIPS 203.
    pub const SEED_LEN: usize = 64;

    /// A fresh key.
    pub fn generate(rng: &mut (impl CryptoRng + ?Sized)) -> Self {
        let mut seed = Zeroizing::new([0; Self::SEED_LEN]);
        rng.fill_bytes(&mut *seed);
        Self::from_seed(&seed)
    }

    /// The key that 64 uniform bytes determine: `d || z` of FIPS 203 `ML-KEM.KeyGen_internal`.
    pub fn from_seed(seed: &[u8; Self::SEED_LEN]) -> Self {
        Self(DecapsulationKey768::from_seed((*seed).into()))
    }

    /// The seed, for the one place that stores it.
    pub fn expose_seed(&self) -> Zeroizing<[u8; Self::SEED_LEN]> {
        Zeroizing::new(self.0.to_seed().expect("the only constructor starts from a seed").into())
    }

    /// The key that clients seal to.
    pub fn public_key(&self) -> PublicKey {
        PublicKey(self.0.encapsulation_key().clone())
    }

    /// Seals to `published` in `context` and opens the result with this key.
    ///
    /// A server runs it before it complains about a client: `published` is the key that the epoch document names for
    /// this server, `context` that of the envelope in question. Passing shows that this machine holds the right key
    /// and computes correctly now.
    ///
    /// # Errors
    /// `SelfTestFailed` if the result does not open or differs.
    pub fn self_test(
        &self,
        published: &PublicKey,
        context: &EnvelopeContext,
        rng: &mut (impl CryptoRng + ?Sized),
    ) -> Result<(), OpenError> {
        let mut plaintext = vec![0; SELF_TEST_LEN];
        rng.fill_bytes(&mut plaintext);
        let sealed = seal(rng, published, context, &plaintext);
        match open(self, context, &sealed) {
            Ok(opened) if *opened == plaintext => Ok(()),
            _ => Err(OpenError::SelfTestFailed),
        }
    }
}

impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PrivateKey(..)")
    }
}

/// A server's encapsulation key: 1184 bytes, checked as FIPS 203 section 7.2 demands (length and modulus).
#[derive(Clone, PartialEq, Eq)]
pub struct PublicKey(EncapsulationKey768);

impl PublicKey {
    /// Bytes on the wire.
    pub const LEN: usize = 1184;

    /// SHA-256 of the encoded key.
    pub fn digest(&self) -> EnvelopeKeyDigest {
        EnvelopeKeyDigest::from_digest(Sha256::digest(self.0.to_bytes()).into())
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({})", self.digest())
    }
}

impl Encode for PublicKey {
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.0.to_bytes());
    }

    fn encoded_len(&self) -> usize {
        Self::LEN
    }
}

impl Decode for PublicKey {
    /// # Errors
    /// `Truncated`; `OutOfRange` if a coefficient is not below q = 3329.
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let refused = reader.fault("encapsulation key", DecodeErrorKind::OutOfRange);
        let bytes = reader.array::<{ Self::LEN }>("encapsulation key")?;
        EncapsulationKey768::new(&bytes.into()).map(Self).map_err(|_| refused)
    }
}

/// Seals `plaintext` to the server that holds the other half of `key`. Draws exactly 32 bytes from `rng`.
///
/// Result: [`OVERHEAD`] bytes longer than the plaintext.
///
/// # Panics
/// If the plaintext is longer than 2^36 - 32 bytes, the limit of AES-GCM.
pub fn seal(
    rng: &mut (impl CryptoRng + ?Sized),
    key: &PublicKey,
    context: &EnvelopeContext,
    plaintext: &[u8],
) -> Vec<u8> {
    let associated_data = context.associated_data();
    let (kem_ciphertext, secret) = steps::encapsulate(rng, key);
    let (aead_key, nonce) = derive(&secret, &associated_data);
    let mut sealed = Vec::with_capacity(OVERHEAD + plaintext.len());
    sealed.extend_from_slice(&kem_ciphertext);
    sealed.extend_from_slice(plaintext);
    let tag = steps::encrypt(&aead_key, &nonce, &associated_data, &mut sealed[KEM_CIPHERTEXT_LEN..]);
    sealed.extend_from_slice(&tag);
    sealed
}

/// Opens an envelope.
///
/// # Errors
/// `TooShort` below [`OVERHEAD`] bytes; `Unopenable` for anything that was not sealed to this key in this context.
pub fn open(
    key: &PrivateKey,
    context: &EnvelopeContext,
    sealed: &[u8],
) -> Result<Zeroizing<Vec<u8>>, OpenError> {
    let too_short = OpenError::TooShort { need: OVERHEAD, have: sealed.len() };
    let (kem_ciphertext, rest) = sealed.split_first_chunk::<KEM_CIPHERTEXT_LEN>().ok_or(too_short)?;
    let (ciphertext, tag) = rest.split_last_chunk::<TAG_LEN>().ok_or(too_short)?;
    let associated_data = context.associated_data();
    let secret = steps::decapsulate(key, kem_ciphertext);
    let (aead_key, nonce) = derive(&secret, &associated_data);
    let mut plaintext = Zeroizing::new(ciphertext.to_vec());
    steps::decrypt(&aead_key, &nonce, &associated_data, &mut plaintext, tag)?;
    Ok(plaintext)
}

/// AES key and nonce of an envelope: the first 32 and the next 12 bytes of the HKDF output.
fn derive(secret: &[u8; 32], associated_data: &[u8]) -> (Zeroizing<[u8; 32]>, Zeroizing<[u8; 12]>) {
    let mut okm = Zeroizing::new([0; 44]);
    steps::hkdf(None, secret, associated_data, &mut *okm).expect("44 bytes are less than 255 * 32");
    let (key, nonce) = okm.split_first_chunk().expect("44 bytes hold a key of 32");
    (Zeroizing::new(*key), Zeroizing::new(nonce.try_into().expect("12 of 44 bytes are left")))
}

/// The primitive operations, one crate call each, exactly as [`seal`] and [`open`] make them. Public only so that
/// the published vectors run against these lines; not part of the interface.
#[doc(hidden)]
pub mod steps {
    use super::{KEM_CIPHERTEXT_LEN, OpenError, PrivateKey, PublicKey, TAG_LEN};
    use aes_gcm::aead::AeadInOut as _;
    use aes_gcm::{Aes256Gcm, KeyInit as _};
    use ml_kem::{Decapsulate as _, Encapsulate as _};
    use rand_core::CryptoRng;
    use sha2::Sha256;
    use zeroize::{Zeroize as _, Zeroizing};

    /// ML-KEM-768 encapsulation: ciphertext and shared secret. Draws exactly 32 bytes, the `m` of FIPS 203.
    pub fn encapsulate(
        rng: &mut (impl CryptoRng + ?Sized),
        key: &PublicKey,
    ) -> ([u8; KEM_CIPHERTEXT_LEN], Zeroizing<[u8; 32]>) {
        let (ciphertext, mut shared) = key.0.encapsulate_with_rng(rng);
        let secret = Zeroizing::new(shared.into());
        shared.zeroize();
        (ciphertext.into(), secret)
    }

    /// ML-KEM-768 decapsulation, with implicit rejection.
    pub fn decapsulate(key: &PrivateKey, ciphertext: &[u8; KEM_CIPHERTEXT_LEN]) -> Zeroizing<[u8; 32]> {
        let mut shared = key.0.decapsulate(&(*ciphertext).into());
        let secret = Zeroizing::new(shared.into());
        shared.zeroize();
        secret
    }

    /// HKDF-SHA-256, extract then expand. No salt is a salt of 32 zero bytes.
    ///
    /// # Errors
    /// If more than 255 * 32 bytes are asked for.
    pub fn hkdf(
        salt: Option<&[u8]>,
        ikm: &[u8],
        info: &[u8],
        okm: &mut [u8],
    ) -> Result<(), hkdf::InvalidLength> {
        let (mut prk, hkdf) = hkdf::Hkdf::<Sha256>::extract(salt, ikm);
        prk.zeroize();
        hkdf.expand(info, okm)
    }

    /// AES-256-GCM in place, 96-bit nonce: returns the tag.
    pub fn encrypt(
        key: &[u8; 32],
        nonce: &[u8; 12],
        associated_data: &[u8],
        buffer: &mut [u8],
    ) -> [u8; TAG_LEN] {
        Aes256Gcm::new(key.into())
            .encrypt_inout_detached(nonce.into(), associated_data, buffer.into())
            .expect("the plaintext is within AES-GCM's limit")
            .into()
    }

    /// AES-256-GCM in place, 96-bit nonce. A wrong tag leaves the buffer as it was.
    ///
    /// # Errors
    /// `Unopenable` if the tag is not that of key, nonce, associated data and ciphertext.
    pub fn decrypt(
        key: &[u8; 32],
        nonce: &[u8; 12],
        associated_data: &[u8],
        buffer: &mut [u8],
        tag: &[u8; TAG_LEN],
    ) -> Result<(), OpenError> {
        Aes256Gcm::new(key.into())
            .decrypt_inout_detached(nonce.into(), associated_data, buffer.into(), tag.into())
            .map_err(|_| OpenError::Unopenable)
    }
}

#[cfg(test)]
mod tests;
