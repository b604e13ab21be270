//! Golden envelopes made by other implementations, and the laws of sealing.

use super::*;
use proptest::prelude::*;
use rand_chacha::ChaCha20Rng;
use rand_core::{Infallible, SeedableRng as _, TryCryptoRng, TryRng};
use rayon::prelude::*;
use zeroize::ZeroizeOnDrop;

/// Bytes of the context's fields, in the order of their declaration.
const FIELDS: usize = 5 * 32 + 4 + 2;

fn rng(seed: u64) -> ChaCha20Rng {
    ChaCha20Rng::seed_from_u64(seed)
}

/// The context whose fields are these bytes, in the order of their declaration.
fn context(fields: &[u8; FIELDS]) -> EnvelopeContext {
    let mut reader = Reader::new(fields);
    let context = EnvelopeContext {
        deployment: Decode::decode(&mut reader).unwrap(),
        epoch: Decode::decode(&mut reader).unwrap(),
        session: Decode::decode(&mut reader).unwrap(),
        client: Decode::decode(&mut reader).unwrap(),
        server: Decode::decode(&mut reader).unwrap(),
        crs: Decode::decode(&mut reader).unwrap(),
        root: Decode::decode(&mut reader).unwrap(),
    };
    reader.finish().unwrap();
    context
}

fn some_fields() -> [u8; FIELDS] {
    std::array::from_fn(|i| u8::try_from(i).unwrap() ^ 0x5a)
}

/// Yields the given bytes once and panics on any draw beyond them.
struct Exactly<'a>(&'a [u8]);

impl TryRng for Exactly<'_> {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        unreachable!("sealing draws bytes")
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        unreachable!("sealing draws bytes")
    }

    fn try_fill_bytes(&mut self, out: &mut [u8]) -> Result<(), Infallible> {
        let (now, later) = self.0.split_at(out.len());
        out.copy_from_slice(now);
        self.0 = later;
        Ok(())
    }
}

impl TryCryptoRng for Exactly<'_> {}

#[derive(serde::Deserialize)]
struct Golden {
    seed: String,
    m: String,
    deployment: String,
    epoch: String,
    session: String,
    client: u32,
    server: u16,
    crs: String,
    root: String,
    plaintext: String,
    key_digest: String,
    associated_data: String,
    sealed: String,
}

fn hex(text: &str) -> Vec<u8> {
    data_encoding::HEXLOWER.decode(text.as_bytes()).unwrap()
}

/// The oracle is `vectors/envelope/make.py`: kyber-py and OpenSSL.
#[test]
fn golden_envelopes_are_sealed_and_opened_bit_for_bit() {
    let vectors: Vec<Golden> =
        serde_json::from_str(include_str!("../../vectors/envelope/envelope.json")).unwrap();
    assert_eq!(vectors.len(), 3);
    for v in vectors {
        let context = EnvelopeContext {
            deployment: v.deployment.parse().unwrap(),
            epoch: v.epoch.parse().unwrap(),
            session: v.session.parse().unwrap(),
            client: ClientId(v.client),
            server: ServerId(v.server),
            crs: v.crs.parse().unwrap(),
            root: v.root.parse().unwrap(),
        };
        let key = PrivateKey::from_seed(&hex(&v.seed).try_into().unwrap());
        assert_eq!(key.public_key().digest().to_string(), v.key_digest);
        assert_eq!(context.associated_data(), hex(&v.associated_data));

        let m = hex(&v.m);
        let mut rng = Exactly(&m);
        let plaintext = hex(&v.plaintext);
        assert_eq!(seal(&mut rng, &key.public_key(), &context, &plaintext), hex(&v.sealed));
        assert!(rng.0.is_empty(), "sealing draws all of m");
        assert_eq!(*open(&key, &context, &hex(&v.sealed)).unwrap(), plaintext);
    }
}

#[test]
fn any_flipped_byte_makes_it_unopenable() {
    let key = PrivateKey::generate(&mut rng(1));
    let context = context(&some_fields());
    let sealed = seal(&mut rng(2), &key.public_key(), &context, b"a message of some bytes");
    for at in 0..sealed.len() {
        let mut changed = sealed.clone();
        changed[at] ^= 1 << (at % 8);
        assert_eq!(open(&key, &context, &changed), Err(OpenError::Unopenable), "byte {at}");
    }
    assert!(open(&key, &context, &sealed).is_ok());
}

#[test]
fn every_context_byte_is_bound() {
    let key = PrivateKey::generate(&mut rng(3));
    let fields = some_fields();
    let sealed = seal(&mut rng(4), &key.public_key(), &context(&fields), b"m");
    for at in 0..FIELDS {
        let mut changed = fields;
        changed[at] ^= 1 << (at % 8);
        assert_eq!(open(&key, &context(&changed), &sealed), Err(OpenError::Unopenable), "byte {at}");
    }
    assert!(open(&key, &context(&fields), &sealed).is_ok());
}

#[test]
fn cut_and_extended_envelopes_are_refused() {
    let key = PrivateKey::generate(&mut rng(5));
    let context = context(&some_fields());
    let sealed = seal(&mut rng(6), &key.public_key(), &context, &[7; 40]);
    for have in 0..sealed.len() {
        let expected = if have < OVERHEAD {
            OpenError::TooShort { need: OVERHEAD, have }
        } else {
            OpenError::Unopenable
        };
        assert_eq!(open(&key, &context, &sealed[..have]), Err(expected), "{have} bytes");
    }
    for extra in [0, 1, 0x80] {
        let longer = [&sealed[..], &[extra]].concat();
        assert_eq!(open(&key, &context, &longer), Err(OpenError::Unopenable));
        let shifted = [&[extra], &sealed[..]].concat();
        assert_eq!(open(&key, &context, &shifted), Err(OpenError::Unopenable));
    }
}

#[test]
fn another_key_opens_nothing() {
    let (key, other) = (PrivateKey::generate(&mut rng(7)), PrivateKey::generate(&mut rng(8)));
    let context = context(&some_fields());
    let sealed = seal(&mut rng(9), &key.public_key(), &context, b"m");
    assert_eq!(open(&other, &context, &sealed), Err(OpenError::Unopenable));
}

#[test]
fn self_test_passes_for_the_published_key_only() {
    let (key, other) = (PrivateKey::generate(&mut rng(10)), PrivateKey::generate(&mut rng(11)));
    let context = context(&some_fields());
    assert_eq!(key.self_test(&key.public_key(), &context, &mut rng(12)), Ok(()));
    let failed = Err(OpenError::SelfTestFailed);
    assert_eq!(key.self_test(&other.public_key(), &context, &mut rng(12)), failed);
}

#[test]
fn forked_streams_give_the_same_envelopes_on_any_number_of_threads() {
    let keys: Vec<_> = (0..8).map(|s| PrivateKey::generate(&mut rng(100 + s)).public_key()).collect();
    let context = context(&some_fields());
    let seal_all = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| {
            let seal_one = |(s, key): (usize, &PublicKey)| {
                let mut stream = ChaCha20Rng::from_seed([u8::try_from(s).unwrap(); 32]);
                seal(&mut stream, key, &context, &[u8::try_from(s).unwrap(); 100])
            };
            keys.par_iter().enumerate().map(seal_one).collect::<Vec<_>>()
        })
    };
    assert_eq!(seal_all(1), seal_all(3));
}

#[test]
fn one_stream_never_seals_alike_twice() {
    let key = PrivateKey::generate(&mut rng(13)).public_key();
    let mut stream = rng(14);
    let context = context(&some_fields());
    assert_ne!(seal(&mut stream, &key, &context, b"m"), seal(&mut stream, &key, &context, b"m"));
}

#[test]
fn the_seed_is_the_key() {
    let seed: [u8; 64] = std::array::from_fn(|i| u8::try_from(i).unwrap());
    let key = PrivateKey::from_seed(&seed);
    assert_eq!(*key.expose_seed(), seed);
    assert_eq!(PrivateKey::from_seed(&key.expose_seed()).public_key(), key.public_key());
    for at in [0, 31] {
        let mut other = seed;
        other[at] ^= 1;
        assert_ne!(PrivateKey::from_seed(&other).public_key(), key.public_key());
    }
}

/// Writes a 12-bit coefficient: little-endian bits, as FIPS 203 `ByteEncode_12`.
fn set_coefficient(key: &mut [u8], index: usize, value: u16) {
    let at = index / 2 * 3;
    let [low, high] = value.to_le_bytes();
    if index.is_multiple_of(2) {
        key[at] = low;
        key[at + 1] = (key[at + 1] & 0xf0) | high;
    } else {
        key[at + 1] = (key[at + 1] & 0x0f) | (low << 4);
        key[at + 2] = (low >> 4) | (high << 4);
    }
}

#[test]
fn every_coefficient_of_a_public_key_is_checked_against_the_modulus() {
    let key = PrivateKey::generate(&mut rng(15)).public_key().to_bytes();
    let refused = DecodeError { offset: 0, what: "encapsulation key", kind: DecodeErrorKind::OutOfRange };
    for index in 0..768 {
        let mut changed = key.clone();
        set_coefficient(&mut changed, index, 3328);
        assert_eq!(PublicKey::from_bytes(&changed).unwrap().to_bytes(), changed);
        for value in [3329, 4095] {
            set_coefficient(&mut changed, index, value);
            assert_eq!(PublicKey::from_bytes(&changed), Err(refused), "coefficient {index} = {value}");
        }
    }
}

#[test]
fn secrets_of_the_crates_below_are_wiped() {
    // Compiles only while the zeroize features are on.
    fn wiped<T: ZeroizeOnDrop>() {}
    wiped::<DecapsulationKey768>();
    wiped::<aes_gcm::Aes256Gcm>();
    wiped::<Sha256>();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_was_sealed_opens(
        plaintext in proptest::collection::vec(any::<u8>(), 0..3000),
        fields in any::<[u8; 32]>(),
        seed in any::<u64>(),
    ) {
        let key = PrivateKey::generate(&mut rng(seed));
        let mut all = some_fields();
        all[64..96].copy_from_slice(&fields);
        let context = context(&all);
        let sealed = seal(&mut rng(seed ^ 1), &key.public_key(), &context, &plaintext);
        prop_assert_eq!(sealed.len(), plaintext.len() + OVERHEAD);
        let opened = open(&key, &context, &sealed);
        prop_assert_eq!(opened.as_deref(), Ok(&plaintext));
    }

    #[test]
    fn any_altered_byte_is_refused(
        plaintext in proptest::collection::vec(any::<u8>(), 0..300),
        at in any::<proptest::sample::Index>(),
        change in 1..=u8::MAX,
        seed in any::<u64>(),
    ) {
        let key = PrivateKey::generate(&mut rng(seed));
        let context = context(&some_fields());
        let mut sealed = seal(&mut rng(seed ^ 1), &key.public_key(), &context, &plaintext);
        let at = at.index(sealed.len());
        sealed[at] ^= change;
        prop_assert_eq!(open(&key, &context, &sealed), Err(OpenError::Unopenable));
    }

    #[test]
    fn foreign_bytes_never_panic_or_open(bytes in proptest::collection::vec(any::<u8>(), 0..1400)) {
        let key = PrivateKey::from_seed(&[1; 64]);
        prop_assert!(open(&key, &context(&some_fields()), &bytes).is_err());
    }

    #[test]
    fn public_key_encoding_is_canonical(seed in any::<u64>(), extra in any::<u8>()) {
        let key = PrivateKey::generate(&mut rng(seed)).public_key();
        let bytes = key.to_bytes();
        prop_assert_eq!(bytes.len(), PublicKey::LEN);
        prop_assert_eq!(PublicKey::from_bytes(&bytes), Ok(key));
        for have in 0..bytes.len() {
            let kind = DecodeErrorKind::Truncated { need: PublicKey::LEN, have };
            let refused = DecodeError { offset: 0, what: "encapsulation key", kind };
            prop_assert_eq!(PublicKey::from_bytes(&bytes[..have]), Err(refused));
        }
        let kind = DecodeErrorKind::Trailing { extra: 1 };
        let refused = DecodeError { offset: PublicKey::LEN, what: "end of object", kind };
        prop_assert_eq!(PublicKey::from_bytes(&[&bytes[..], &[extra]].concat()), Err(refused));
    }

    #[test]
    fn whatever_parses_as_a_public_key_encodes_to_itself(mut bytes in proptest::collection::vec(any::<u8>(), 1184)) {
        // Keeps the top bit of each coefficient low, so that most of these bytes are keys.
        for at in 0..384 {
            bytes[3 * at + 1] &= 0xf7;
            bytes[3 * at + 2] &= 0x7f;
        }
        let key = PublicKey::from_bytes(&bytes);
        prop_assert!(key.is_ok());
        prop_assert_eq!(key.map(|key| key.to_bytes()), Ok(bytes));
    }
}
