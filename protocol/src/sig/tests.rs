//! RFC 6979 and golden signatures, and the laws of the encodings.

use super::*;
use proptest::prelude::*;
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng as _;
use sha2::{Digest as _, Sha256};
use zeroize::ZeroizeOnDrop;

const A: &str = "panetiere/test/a";
const B: &str = "panetiere/test/b";

/// Order of P-256 (SEC 2, section 2.4.2).
const N: &str = "ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551";
/// (n-1)/2.
const HALF: &str = "7fffffff800000007fffffffffffffffde737d56d38bcf4279dce5617e3192a8";
/// The field's prime.
const P: &str = "ffffffff00000001000000000000000000000000ffffffffffffffffffffffff";

fn key(seed: u64) -> SigningKey {
    SigningKey::generate(&mut ChaCha20Rng::seed_from_u64(seed))
}

fn hex<const L: usize>(text: &str) -> [u8; L] {
    data_encoding::HEXLOWER.decode(text.as_bytes()).unwrap().try_into().unwrap()
}

/// `a + b` on big-endian 256-bit integers that do not overflow.
fn add(a: &[u8; 32], b: u8) -> [u8; 32] {
    let mut sum = *a;
    let mut carry = u16::from(b);
    for byte in sum.iter_mut().rev() {
        carry += u16::from(*byte);
        *byte = carry.to_le_bytes()[0];
        carry >>= 8;
    }
    assert_eq!(carry, 0);
    sum
}

/// `a - b` on big-endian 256-bit integers, a >= b.
fn sub(a: &[u8; 32], b: &[u8; 32]) -> [u8; 32] {
    let mut difference = [0; 32];
    let mut borrow = false;
    for i in (0..32).rev() {
        let (first, under) = a[i].overflowing_sub(b[i]);
        let (second, again) = first.overflowing_sub(u8::from(borrow));
        difference[i] = second;
        borrow = under || again;
    }
    assert!(!borrow);
    difference
}

fn join(r: &[u8; 32], s: &[u8; 32]) -> [u8; 64] {
    [*r, *s].concat().try_into().unwrap()
}

/// RFC 6979 appendix A.2.5. The published s of "sample" is high: what must come out is n - s.
#[test]
fn rfc6979_signatures() {
    let key =
        SigningKey::from_scalar(&hex("c9afa9d845ba75166b5c215767b1d6934e50c3db36e89b127b8a622b120f6721"))
            .ok()
            .unwrap();
    let public = hex("0360fed4ba255a9d31c961eb74c6356d68c049b8923b61fa6ce669622e60f29fb6");
    assert_eq!(key.verifying_key().to_sec1(), public);

    let r = hex("efd48b2aacb6a8fd1140dd9cd45e81d69d2c877b56aaf991c34d0ea84eaf3716");
    let s = hex("f7cb1c942d657c41d436c7a1b6e29f65f3e900dbb9aff4064dc4ab2f843acda8");
    let low = join(&r, &sub(&hex(N), &s));
    assert_eq!(key.sign_digest(&Sha256::digest(b"sample").into()).to_p1363(), low);
    assert_eq!(Signature::from_p1363(&join(&r, &s)), Err(SigError::HighS));

    let r = hex("f1abb023518351cd71d881567b1ea663ed3efcf6c5132b354f28d3b0b7d38367");
    let s = hex("019f4113742a2b14bd25926b49c649155f267e60d3814b4c0cc84250e46f0083");
    assert_eq!(key.sign_digest(&Sha256::digest(b"test").into()).to_p1363(), join(&r, &s));
}

#[derive(serde::Deserialize)]
struct Golden {
    scalar: String,
    verifying_key: String,
    domain: String,
    message: String,
    signature: String,
    s_was_high: bool,
}

/// The oracle is `vectors/envelope/make.py`: OpenSSL over the framed message.
#[test]
fn golden_signatures_are_made_and_verified() {
    let vectors: Vec<Golden> =
        serde_json::from_str(include_str!("../../vectors/envelope/signature.json")).unwrap();
    let normalised = vectors.iter().filter(|v| v.s_was_high).count();
    assert!(normalised > 0 && normalised < vectors.len(), "both halves occur");
    for v in vectors {
        let domain: &'static str = v.domain.leak();
        let message = data_encoding::HEXLOWER.decode(v.message.as_bytes()).unwrap();
        let key = SigningKey::from_scalar(&hex(&v.scalar)).ok().unwrap();
        let expected = hex(&v.signature);
        assert_eq!(key.verifying_key().to_sec1(), hex(&v.verifying_key));
        assert_eq!(key.sign(domain, &message).to_p1363(), expected);
        let public = VerifyingKey::from_sec1(&hex(&v.verifying_key)).unwrap();
        let signature = Signature::from_p1363(&expected).unwrap();
        assert_eq!(public.verify(domain, &message, &signature), Ok(()));
    }
}

#[test]
fn domain_and_message_do_not_run_into_each_other() {
    let key = key(1);
    let signature = key.sign("ab", b"c");
    let public = key.verifying_key();
    assert_eq!(public.verify("ab", b"c", &signature), Ok(()));
    for (domain, message) in [("a", &b"bc"[..]), ("abc", b""), ("", b"abc"), ("ab", b"c\0"), ("ab\0", b"c")] {
        assert_eq!(public.verify(domain, message, &signature), Err(SigError::BadSignature));
    }
    // Nor does a signature without a domain pass for one with the empty domain.
    let bare = key.sign_digest(&Sha256::digest(b"c").into());
    assert_eq!(public.verify("", b"c", &bare), Err(SigError::BadSignature));
}

#[test]
fn s_is_low_up_to_half_the_order() {
    let r = hex(HALF);
    assert!(Signature::from_p1363(&join(&r, &hex(HALF))).is_ok());
    assert_eq!(Signature::from_p1363(&join(&r, &add(&hex(HALF), 1))), Err(SigError::HighS));
    let most = sub(&hex(N), &add(&[0; 32], 1));
    assert_eq!(Signature::from_p1363(&join(&r, &most)), Err(SigError::HighS));
    let high_s = DecodeError { offset: 0, what: "signature", kind: DecodeErrorKind::NotCanonical };
    assert_eq!(Signature::from_bytes(&join(&r, &most)), Err(high_s));
    // r has no such rule: it is what the nonce makes it.
    assert!(Signature::from_p1363(&join(&most, &hex(HALF))).is_ok());
}

#[test]
fn r_and_s_outside_the_group_order_are_refused() {
    let one = add(&[0; 32], 1);
    assert!(Signature::from_p1363(&join(&one, &one)).is_ok());
    for bad in [[0; 32], hex(N), add(&hex(N), 1), [0xff; 32]] {
        for bytes in [join(&bad, &one), join(&one, &bad), join(&bad, &bad)] {
            assert_eq!(Signature::from_p1363(&bytes), Err(SigError::OutOfRange));
            let refused = DecodeError { offset: 0, what: "signature", kind: DecodeErrorKind::OutOfRange };
            assert_eq!(Signature::from_bytes(&bytes), Err(refused));
        }
    }
}

#[test]
fn any_flipped_bit_of_a_signature_is_refused() {
    let key = key(2);
    let bytes = key.sign(A, b"statement").to_p1363();
    for bit in 0..8 * bytes.len() {
        let mut changed = bytes;
        changed[bit / 8] ^= 1 << (bit % 8);
        let verified =
            Signature::from_p1363(&changed).and_then(|s| key.verifying_key().verify(A, b"statement", &s));
        assert!(verified.is_err(), "bit {bit}");
    }
}

#[test]
fn scalars_outside_the_group_order_are_no_signing_keys() {
    for bad in [[0; 32], hex(N), add(&hex(N), 1), [0xff; 32]] {
        assert_eq!(SigningKey::from_scalar(&bad).err(), Some(SigError::BadScalar));
    }
    // 1 and n - 1 give the generator and its negative (SEC 2, section 2.4.2).
    let generator = "6b17d1f2e12c4247f8bce6e563a440f277037d812deb33a0f4a13945d898c296";
    let one = add(&[0; 32], 1);
    for (scalar, tag) in [(one, "03"), (sub(&hex(N), &one), "02")] {
        let key = SigningKey::from_scalar(&scalar).ok().unwrap();
        assert_eq!(key.verifying_key().to_sec1(), hex(&format!("{tag}{generator}")));
        assert_eq!(*key.expose_scalar(), scalar);
    }
}

#[test]
fn only_compressed_points_of_the_curve_are_verifying_keys() {
    let refused = DecodeError { offset: 0, what: "verifying key", kind: DecodeErrorKind::OutOfRange };
    let encode = |tag: u8, x: &[u8; 32]| -> [u8; 33] { [&[tag][..], x].concat().try_into().unwrap() };
    let x = key(3).verifying_key().to_sec1()[1..].try_into().unwrap();
    for tag in 0..=u8::MAX {
        let bytes = encode(tag, &x);
        if matches!(tag, 2 | 3) {
            assert_eq!(VerifyingKey::from_sec1(&bytes).unwrap().to_sec1(), bytes);
        } else {
            assert_eq!(VerifyingKey::from_sec1(&bytes), Err(SigError::BadKey));
            assert_eq!(VerifyingKey::from_bytes(&bytes), Err(refused));
        }
    }

    // Which x below 40 belong to a point: Euler's criterion on x^3 - 3x + b, computed in Python.
    let on_curve = [0, 5, 6, 8, 9, 12, 13, 17, 23, 24, 25, 26, 29, 31, 34, 35, 37, 39];
    for small in 0..40 {
        for tag in [2, 3] {
            let parsed = VerifyingKey::from_sec1(&encode(tag, &add(&[0; 32], small)));
            assert_eq!(parsed.is_ok(), on_curve.contains(&small), "x = {small}");
            // The same x again, written as x + p.
            let again = encode(tag, &add(&hex(P), small));
            assert_eq!(VerifyingKey::from_sec1(&again), Err(SigError::BadKey), "x = p + {small}");
        }
    }

    // The identity (one zero byte in SEC 1), alone and padded, and the uncompressed form.
    assert!(VerifyingKey::from_bytes(&[0]).is_err());
    assert_eq!(VerifyingKey::from_bytes(&[0; 33]), Err(refused));
    let uncompressed = key(3).0.verifying_key().to_sec1_point(false);
    assert_eq!(uncompressed.as_bytes().len(), 65);
    assert_eq!(VerifyingKey::from_bytes(uncompressed.as_bytes()), Err(refused));
}

#[test]
fn the_key_of_the_crate_below_is_wiped() {
    fn wiped<T: ZeroizeOnDrop>() {}
    wiped::<ecdsa::SigningKey>();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn only_the_signed_statement_verifies(
        seed in any::<u64>(),
        message in proptest::collection::vec(any::<u8>(), 0..200),
        other in proptest::collection::vec(any::<u8>(), 0..200),
    ) {
        prop_assume!(message != other);
        let signer = key(seed);
        let signature = signer.sign(A, &message);
        let public = signer.verifying_key();
        prop_assert_eq!(signer.sign(A, &message), signature);
        prop_assert_eq!(public.verify(A, &message, &signature), Ok(()));
        prop_assert_eq!(public.verify(B, &message, &signature), Err(SigError::BadSignature));
        prop_assert_eq!(public.verify(A, &other, &signature), Err(SigError::BadSignature));
        let stranger = key(seed.wrapping_add(1)).verifying_key();
        prop_assert_eq!(stranger.verify(A, &message, &signature), Err(SigError::BadSignature));
    }

    #[test]
    fn the_other_half_of_every_signature_is_refused(seed in any::<u64>(), message in any::<[u8; 8]>()) {
        let bytes = key(seed).sign(A, &message).to_p1363();
        let (r, s) = (bytes[..32].try_into().unwrap(), bytes[32..].try_into().unwrap());
        prop_assert!(s <= hex(HALF), "big-endian arrays compare as integers");
        prop_assert_eq!(Signature::from_p1363(&join(&r, &sub(&hex(N), &s))), Err(SigError::HighS));
    }

    #[test]
    fn encodings_are_canonical(seed in any::<u64>(), extra in any::<u8>()) {
        let signer = key(seed);
        laws(&signer.verifying_key(), extra);
        laws(&signer.sign(A, &seed.to_le_bytes()), extra);
    }

    #[test]
    fn foreign_signatures_never_panic_or_verify(bytes in any::<[u8; 64]>()) {
        if let Ok(signature) = Signature::from_p1363(&bytes) {
            prop_assert_eq!(signature.to_p1363(), bytes);
            prop_assert!(key(4).verifying_key().verify(A, b"m", &signature).is_err());
        }
    }

    #[test]
    fn foreign_keys_never_panic(bytes in any::<[u8; 33]>(), odd in any::<bool>()) {
        let mut bytes = bytes;
        bytes[0] = 2 + u8::from(odd);
        if let Ok(public) = VerifyingKey::from_sec1(&bytes) {
            prop_assert_eq!(public.to_sec1(), bytes);
        }
    }
}

/// Reads back to itself; no strict prefix and no longer string parses.
fn laws<T: Encode + Decode + PartialEq + fmt::Debug>(value: &T, extra: u8) {
    let bytes = value.to_bytes();
    assert_eq!(T::from_bytes(&bytes).as_ref(), Ok(value));
    for have in 0..bytes.len() {
        let error = T::from_bytes(&bytes[..have]).unwrap_err();
        assert_eq!(error.kind, DecodeErrorKind::Truncated { need: bytes.len(), have });
    }
    let error = T::from_bytes(&[&bytes[..], &[extra]].concat()).unwrap_err();
    assert_eq!(error.kind, DecodeErrorKind::Trailing { extra: 1 });
}
