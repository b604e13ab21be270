//! Edits of bytes that anybody can make: signatures in their other encoding, bodies cut and extended.

use super::Seen;

/// The order of P-256 (FIPS 186-5), big-endian.
const ORDER: [u8; 32] = [
    0xFF, 0xFF, 0xFF, 0xFF, 0x00, 0x00, 0x00, 0x00, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xBC,
    0xE6, 0xFA, 0xAD, 0xA7, 0x17, 0x9E, 0x84, 0xF3, 0xB9, 0xCA, 0xC2, 0xFC, 0x63, 0x25, 0x51,
];

/// Replaces the s of the signature at `at` by n - s: the other signature that verifies.
pub fn high_s(bytes: &[u8], at: usize) -> Vec<u8> {
    let (mut out, mut borrow) = (bytes.to_vec(), 0i16);
    for i in (0..32).rev() {
        let digit = i16::from(ORDER[i]) - i16::from(bytes[at + 32 + i]) - borrow;
        borrow = i16::from(digit < 0);
        out[at + 32 + i] = u8::try_from(digit.rem_euclid(256)).unwrap();
    }
    out
}

/// A byte less, a byte more, nothing at all: none of it parses.
pub fn lengths<T: std::fmt::Debug, E>(seen: &mut Seen, bytes: &[u8], parse: impl Fn(&[u8]) -> Result<T, E>) {
    assert!(parse(bytes).is_ok(), "the honest bytes parse");
    seen.no_object(parse(&bytes[..bytes.len() - 1]));
    seen.no_object(parse(&[bytes, &[0]].concat()));
    seen.no_object(parse(&[]));
}
