//! Keys that sign notes: names, identifiers, text forms. C2SP signed-note and tlog-cosignature.

use crate::note::Signature;
use crate::text;
use base64::{Engine, engine::general_purpose::STANDARD};
use ed25519_dalek::{Signer, SigningKey, VerifyingKey};
use sha2::{Digest, Sha256};
use std::fmt;
use std::str::FromStr;
use zeroize::Zeroizing;

/// Bytes of the longest key name that this crate takes. ML-DSA cosignatures, which C2SP has next to the Ed25519 ones,
/// can carry no longer one.
pub const MAX_NAME_BYTES: usize = 255;

/// What the text of a secret key begins with.
const SECRET_PREFIX: &str = "PRIVATE+KEY+";

/// Bytes of a timestamp in front of a cosignature.
const TIME_BYTES: usize = 8;

/// Why a key, a name or a signature is refused. Never says anything about a secret's content.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// Another algorithm than this use of the key has, or one that this crate does not know.
    #[error("no key of the algorithm that is needed here")]
    Algorithm,
    /// Two keys of a ring cannot be told apart by name and identifier, or are one key under two names.
    #[error("key {name:?} is in the ring twice")]
    Duplicate {
        /// Name of the second.
        name: String,
    },
    /// The identifier is not the hash of name, algorithm and key.
    #[error("the identifier of key {name:?} is {expected}, found {found:?}")]
    IdMismatch {
        /// Name of the key.
        name: String,
        /// The identifier that it has.
        expected: KeyId,
        /// The text in its place.
        found: String,
    },
    /// The text is not a key.
    #[error("not the text form of a key")]
    Malformed,
    /// The name is empty, too long, or has a space, a plus or a control character.
    #[error("not a key name")]
    Name,
    /// The bytes are no Ed25519 public key, or one that anybody can sign for.
    #[error("not an Ed25519 public key")]
    PublicKey,
    /// The signature does not verify.
    #[error("the signature of {name:?} does not verify")]
    Signature {
        /// Name of the key.
        name: String,
    },
    /// The timestamp is no POSIX time of at most 63 bits.
    #[error("{time} is no timestamp")]
    Timestamp {
        /// The number in its place, in seconds.
        time: u64,
    },
}

impl KeyError {
    /// A stable snake_case name, for metrics and problem documents.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Algorithm => "key_algorithm",
            Self::Duplicate { .. } => "key_duplicate",
            Self::IdMismatch { .. } => "key_id_mismatch",
            Self::Malformed => "key_malformed",
            Self::Name => "key_name",
            Self::PublicKey => "key_public_key",
            Self::Signature { .. } => "key_signature",
            Self::Timestamp { .. } => "key_timestamp",
        }
    }
}

/// Name of a key: 1 to [`MAX_NAME_BYTES`] bytes of UTF-8 without white space, plus signs or ASCII controls.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyName(String);

impl KeyName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for KeyName {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        let foreign = |c: char| c.is_whitespace() || c < ' ' || c == '+';
        if text.is_empty() || text.len() > MAX_NAME_BYTES || text.contains(foreign) {
            return Err(KeyError::Name);
        }
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for KeyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Short identifier of a key: the first four bytes of `SHA-256(name || 0x0a || algorithm || public key)`.
///
/// Tells keys apart and proves nothing. Text form: eight lower-case hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyId(pub(crate) [u8; 4]);

impl KeyId {
    fn of(name: &KeyName, algorithm: Algorithm, key: &VerifyingKey) -> Self {
        let hash = Sha256::new()
            .chain_update(name.as_str())
            .chain_update([b'\n', algorithm.byte()])
            .chain_update(key.as_bytes())
            .finalize();
        Self([hash[0], hash[1], hash[2], hash[3]])
    }

    /// The four bytes, as a signature begins with them.
    pub const fn as_bytes(&self) -> &[u8; 4] {
        &self.0
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}", u32::from_be_bytes(self.0))
    }
}

impl fmt::Debug for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// What a key signs and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Algorithm {
    /// A witness's Ed25519 over a checkpoint and a time (C2SP tlog-cosignature, type 0x04).
    CosignatureV1,
    /// Ed25519 over the note's text (C2SP signed-note, type 0x01).
    Ed25519,
}

impl Algorithm {
    const fn byte(self) -> u8 {
        match self {
            Self::CosignatureV1 => 0x04,
            Self::Ed25519 => 0x01,
        }
    }

    const fn of_byte(byte: u8) -> Option<Self> {
        match byte {
            0x04 => Some(Self::CosignatureV1),
            0x01 => Some(Self::Ed25519),
            _ => None,
        }
    }
}

/// What a cosigner signs: a header with the time, then the whole text of the checkpoint.
fn cosigned_message(text: &str, time: u64) -> String {
    format!("cosignature/v1\ntime {time}\n{text}")
}

/// A public key with its name: what whoever reads a note trusts.
///
/// Text form (vkey): `<name>+<identifier>+<base64 of algorithm byte and key>`, one spelling per key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifierKey {
    name: KeyName,
    id: KeyId,
    algorithm: Algorithm,
    key: VerifyingKey,
}

impl VerifierKey {
    /// A key from its 32 bytes.
    ///
    /// # Errors
    /// `PublicKey` if the bytes are no point of the curve or one of small order, for which signatures prove nothing.
    pub fn new(name: KeyName, algorithm: Algorithm, key: &[u8; 32]) -> Result<Self, KeyError> {
        let key = VerifyingKey::from_bytes(key).map_err(|_| KeyError::PublicKey)?;
        if key.is_weak() {
            return Err(KeyError::PublicKey);
        }
        Ok(Self { id: KeyId::of(&name, algorithm, &key), name, algorithm, key })
    }

    /// Name of the key.
    pub const fn name(&self) -> &KeyName {
        &self.name
    }

    /// Identifier of the key.
    pub const fn id(&self) -> KeyId {
        self.id
    }

    /// What the key signs.
    pub const fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// The 32 bytes of the public key.
    pub fn as_bytes(&self) -> &[u8; 32] {
        self.key.as_bytes()
    }

    /// Verifies the signature of a note line, without its key identifier, over a note's text. Returns the time, in
    /// seconds since the epoch, if the algorithm signs one.
    ///
    /// Stricter than RFC 8032 asks for: no points of small order. No honest signature has them.
    ///
    /// # Errors
    /// `Signature` if it is malformed or does not verify; `Timestamp` if its time exceeds 63 bits.
    pub fn verify(&self, text: &str, signature: &[u8]) -> Result<Option<u64>, KeyError> {
        let refused = || KeyError::Signature { name: self.name.to_string() };
        let (time, signature) = match self.algorithm {
            Algorithm::Ed25519 => (None, signature),
            Algorithm::CosignatureV1 => {
                let (time, rest) = signature.split_first_chunk::<TIME_BYTES>().ok_or_else(refused)?;
                let time = u64::from_be_bytes(*time);
                if i64::try_from(time).is_err() {
                    return Err(KeyError::Timestamp { time });
                }
                (Some(time), rest)
            }
        };
        let signature = signature.try_into().map_err(|_| refused())?;
        let message = time.map(|time| cosigned_message(text, time));
        let message = message.as_deref().unwrap_or(text);
        self.key.verify_strict(message.as_bytes(), &signature).map_err(|_| refused())?;
        Ok(time)
    }
}

impl fmt::Display for VerifierKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let material = [&[self.algorithm.byte()], &self.key.as_bytes()[..]].concat();
        write!(f, "{}+{}+{}", self.name, self.id, text::to_base64(&material))
    }
}

impl FromStr for VerifierKey {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        let (name, id, material) = split_key(text)?;
        let material = text::base64(material).ok_or(KeyError::Malformed)?;
        let (algorithm, bytes) = material.split_first().ok_or(KeyError::Malformed)?;
        let algorithm = Algorithm::of_byte(*algorithm).ok_or(KeyError::Algorithm)?;
        let bytes = bytes.try_into().map_err(|_| KeyError::Malformed)?;
        let key = Self::new(name, algorithm, bytes)?;
        check_id(&key.name, key.id, id)?;
        Ok(key)
    }
}

/// Splits `<name>+<identifier>+<material>`; the material may have plus signs, the others not.
fn split_key(text: &str) -> Result<(KeyName, &str, &str), KeyError> {
    let (name, rest) = text.split_once('+').ok_or(KeyError::Malformed)?;
    let (id, material) = rest.split_once('+').ok_or(KeyError::Malformed)?;
    Ok((name.parse()?, id, material))
}

fn check_id(name: &KeyName, id: KeyId, found: &str) -> Result<(), KeyError> {
    if id.to_string() == found {
        return Ok(());
    }
    Err(KeyError::IdMismatch { name: name.to_string(), expected: id, found: found.to_owned() })
}

/// A name, an algorithm and a secret. No Debug, no Clone; wiped on drop by the key inside.
struct Secret {
    public: VerifierKey,
    key: SigningKey,
}

impl Secret {
    fn new(name: KeyName, algorithm: Algorithm, seed: &[u8; 32]) -> Self {
        let key = SigningKey::from_bytes(seed);
        let public = key.verifying_key();
        let public = VerifierKey { id: KeyId::of(&name, algorithm, &public), name, algorithm, key: public };
        Self { public, key }
    }

    fn parse(text: &str, algorithm: Algorithm) -> Result<Self, KeyError> {
        let rest = text.strip_prefix(SECRET_PREFIX).ok_or(KeyError::Malformed)?;
        let (name, id, material) = split_key(rest)?;
        let mut bytes = Zeroizing::new([0; 36]);
        let length = STANDARD.decode_slice(material, &mut *bytes).map_err(|_| KeyError::Malformed)?;
        let (byte, seed) = bytes[..length].split_first().ok_or(KeyError::Malformed)?;
        if *byte != algorithm.byte() {
            return Err(KeyError::Algorithm);
        }
        let secret = Self::new(name, algorithm, seed.try_into().map_err(|_| KeyError::Malformed)?);
        check_id(&secret.public.name, secret.public.id, id)?;
        Ok(secret)
    }

    fn to_text(&self) -> Zeroizing<String> {
        let mut material = Zeroizing::new([0; 33]);
        material[0] = self.public.algorithm.byte();
        material[1..].copy_from_slice(self.key.as_bytes());
        let encoded = Zeroizing::new(text::to_base64(&*material));
        Zeroizing::new(
            [SECRET_PREFIX, self.public.name.as_str(), "+", &self.public.id.to_string(), "+", &encoded]
                .concat(),
        )
    }

    fn sign(&self, time: Option<u64>, message: &str) -> Signature {
        let time = time.map(u64::to_be_bytes);
        let time = time.as_ref().map_or(&[][..], |time| time);
        let bytes = [time, &self.key.sign(message.as_bytes()).to_bytes()].concat();
        Signature::new(self.public.name.clone(), self.public.id, bytes).expect("a signature has bytes")
    }
}

/// The secret key of a log, or of whoever else signs notes.
///
/// Text form (skey): `PRIVATE+KEY+<name>+<identifier>+<base64 of algorithm byte and seed>`.
pub struct NoteSigner(Secret);

impl NoteSigner {
    /// A signer from its 32 secret bytes.
    pub fn from_seed(name: KeyName, seed: &[u8; 32]) -> Self {
        Self(Secret::new(name, Algorithm::Ed25519, seed))
    }

    /// Reads the text form.
    ///
    /// # Errors
    /// `Malformed`, `Name`, `Algorithm` or `IdMismatch` unless it is the one spelling of a key.
    pub fn from_secret_text(text: &str) -> Result<Self, KeyError> {
        Secret::parse(text, Algorithm::Ed25519).map(Self)
    }

    /// The text form. Wiped when dropped.
    pub fn to_secret_text(&self) -> Zeroizing<String> {
        self.0.to_text()
    }

    /// The public half.
    pub const fn verifier(&self) -> &VerifierKey {
        &self.0.public
    }

    /// Signs a text, which is a note's from its first byte to the newline at its end.
    pub fn sign(&self, text: &str) -> Signature {
        self.0.sign(None, text)
    }
}

/// The secret key of a witness.
///
/// It signs through [`crate::witness::Accepted`] only: what the rule has not accepted cannot be cosigned. Text form as
/// [`NoteSigner`]'s, with another algorithm byte.
pub struct Cosigner(Secret);

impl Cosigner {
    /// A cosigner from its 32 secret bytes. C2SP: they serve no other cosigner, under no other name.
    pub fn from_seed(name: KeyName, seed: &[u8; 32]) -> Self {
        Self(Secret::new(name, Algorithm::CosignatureV1, seed))
    }

    /// Reads the text form.
    ///
    /// # Errors
    /// `Malformed`, `Name`, `Algorithm` or `IdMismatch` unless it is the one spelling of a key.
    pub fn from_secret_text(text: &str) -> Result<Self, KeyError> {
        Secret::parse(text, Algorithm::CosignatureV1).map(Self)
    }

    /// The text form. Wiped when dropped.
    pub fn to_secret_text(&self) -> Zeroizing<String> {
        self.0.to_text()
    }

    /// The public half.
    pub const fn verifier(&self) -> &VerifierKey {
        &self.0.public
    }

    /// Cosigns a checkpoint's text at `time`, in seconds since the epoch.
    pub(crate) fn sign(&self, text: &str, time: u64) -> Result<Signature, KeyError> {
        if i64::try_from(time).is_err() {
            return Err(KeyError::Timestamp { time });
        }
        Ok(self.0.sign(Some(time), &cosigned_message(text, time)))
    }
}

/// Keys that are trusted together; each is there once, by name and identifier and by its bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyRing(Vec<VerifierKey>);

impl KeyRing {
    /// A ring of `keys`, of one algorithm.
    ///
    /// # Errors
    /// `Algorithm` if a key has another one; `Duplicate` if two share their bytes, or name and identifier.
    pub fn new(algorithm: Algorithm, keys: Vec<VerifierKey>) -> Result<Self, KeyError> {
        for (place, key) in keys.iter().enumerate() {
            if key.algorithm != algorithm {
                return Err(KeyError::Algorithm);
            }
            let same =
                |other: &VerifierKey| other.key == key.key || (other.name == key.name && other.id == key.id);
            if keys[..place].iter().any(same) {
                return Err(KeyError::Duplicate { name: key.name.to_string() });
            }
        }
        Ok(Self(keys))
    }

    /// The keys, in the order they were given.
    pub fn keys(&self) -> &[VerifierKey] {
        &self.0
    }

    /// The key of a signature line, if it is in the ring.
    pub fn find(&self, name: &KeyName, id: KeyId) -> Option<&VerifierKey> {
        self.0.iter().find(|key| key.name == *name && key.id == id)
    }
}
