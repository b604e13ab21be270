//! The laws of the byte formats that lanes add: one encoding per value, every prefix and every extra byte refused.

use crate::net::*;
use panetiere::bulletin::{Epoch, LaneBulletinEntry, LaneItem, RsClientBulletinEntry};
use panetiere::ids::NodeId;
use panetiere::wire::{Decode, DecodeError, DecodeErrorKind, DecodeWith, Encode};

/// `decode` then `encode` is the identity on whatever is accepted; what is not an encoding is refused by value.
fn laws<T: std::fmt::Debug + PartialEq>(
    value: &T,
    encode: impl Fn(&T) -> Vec<u8>,
    decode: impl Fn(&[u8]) -> Result<T, DecodeError>,
) {
    let bytes = encode(value);
    assert_eq!(decode(&bytes).as_ref(), Ok(value));
    let step = (bytes.len() / 400).max(1);
    let places =
        || (0..bytes.len().min(300)).chain((300..bytes.len()).step_by(step)).chain([bytes.len() - 1]);
    for len in places() {
        assert!(decode(&bytes[..len]).is_err(), "a prefix of {len} bytes");
    }
    let longer = decode(&[bytes.as_slice(), &[0]].concat()).unwrap_err();
    assert!(
        matches!(longer.kind, DecodeErrorKind::Trailing { extra: 1 } | DecodeErrorKind::OutOfRange),
        "{longer}"
    );
    for at in places() {
        for bit in [1, 0x80] {
            let mut other = bytes.clone();
            other[at] ^= bit;
            if let Ok(parsed) = decode(&other) {
                assert_eq!(encode(&parsed), other, "byte {at}: another value, or the same in two encodings");
                assert_ne!(&parsed, value);
            }
        }
    }
}

#[test]
fn every_new_object_has_one_encoding() {
    let net = net(2, 3, 2, 1);
    let mut round = Round::posted(&net, 0, 0..2);
    let (params, code) = (&net.params, net.params.lane_code().unwrap());
    let sent = net.client(&round.session, 0);
    laws(&sent.items[2], LaneItem::to_bytes, |bytes| LaneItem::from_bytes_with(params, bytes));
    let decode = |bytes: &[u8]| RsClientBulletinEntry::from_bytes_with(params, bytes);
    laws(&sent.post, |post| post.to_bytes(params), decode);
    let sum = round.lane_sums(&set(0..2)).remove(1);
    let decode = |bytes: &[u8]| LaneBulletinEntry::from_bytes_with(params, bytes);
    laws(&sum, |sum| sum.to_bytes(code), decode);
    laws(&net.epoch, Epoch::to_bytes, Epoch::from_bytes);
}

#[test]
fn ids_and_counts_out_of_range_are_refused_before_anything_is_allocated() {
    let net = net(2, 3, 2, 1);
    let mut round = Round::posted(&net, 0, 0..2);
    let params = &net.params;
    let mut item = net.client(&round.session, 0).items[2].clone();
    item.lane = NodeId(3);
    let refused = LaneItem::from_bytes_with(params, &item.to_bytes()).unwrap_err();
    assert_eq!((refused.what, refused.offset), ("lane id", 8));
    let sum = round.lane_sums(&set(0..2)).remove(1).to_bytes(params.lane_code().unwrap());
    // Header, four digests, lane, purpose, set, posts, number of clients.
    let (lane, purpose, clients) = (4 + 4 * 32, 4 + 4 * 32 + 2, 4 + 4 * 32 + 3 + 2 * 32);
    for (at, value, what) in [
        (lane, 3, "lane id"),
        (purpose, 0, "purpose"),
        (purpose, 3, "purpose"),
        (clients + 3, 0xFF, "number of clients"),
    ] {
        let mut other = sum.clone();
        other[at] = value;
        let refused = LaneBulletinEntry::from_bytes_with(params, &other).unwrap_err();
        assert_eq!((refused.what, refused.kind), (what, DecodeErrorKind::OutOfRange));
    }
    let mut none = sum.clone();
    none[clients..clients + 4].fill(0);
    assert_eq!(LaneBulletinEntry::from_bytes_with(params, &none).unwrap_err().what, "number of clients");
}
