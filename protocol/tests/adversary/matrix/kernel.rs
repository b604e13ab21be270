//! Vectors that a public hash does not see: with a digit gate they are too long, without one they would be another share.

use chipmunk::hash::RingHash;
use chipmunk::params::ParameterSet;
use chipmunk::ring::expand::Expander;
use chipmunk::ring::pack::{pack_words, packed_len, short_width};
use chipmunk::ring::{NttRing, RingContext, ShortPoly, sample};
use panetiere::ids::DeploymentId;
use sha2::{Digest as _, Sha256};

/// Digits for columns `first` and `first + 1` of the row with this label: (g', -g), whose inner product with (g, g') is 0.
/// Expanded from the public seed alone, as anybody can.
pub fn kernel<R: NttRing>(
    ring: &RingContext<R>,
    deployment: &DeploymentId,
    set: &ParameterSet,
    label: &str,
    first: u32,
) -> [ShortPoly; 2] {
    let mut seed = Sha256::new();
    for part in [b"panetiere/crs/v1".as_slice(), deployment.as_bytes(), set.name.as_bytes()] {
        seed.update(u64::try_from(part.len()).unwrap().to_le_bytes());
        seed.update(part);
    }
    let expander = Expander::new(&seed.finalize().into(), label.as_bytes());
    let [g, other] = [first, first + 1]
        .map(|index| ring.centred(&ring.inverse(sample::uniform_ntt(ring, &expander, index))));
    let mut minus = ShortPoly::zero();
    minus.sub_assign(&g);
    let mut columns = vec![ShortPoly::zero(); usize::try_from(first).unwrap()];
    columns.extend([other.clone(), minus.clone()]);
    let hash = RingHash::expand(ring, &expander, columns.len());
    assert!(hash.hash(ring, &columns).is_zero() && !other.is_within(0), "a vector of the kernel");
    [other, minus]
}

/// Puts a polynomial where a packed one of this bound stands, as far as its field holds it.
pub fn splice(bytes: &mut [u8], at: usize, bound: u32, poly: &ShortPoly) {
    let width = short_width(bound);
    let word = |c: &i32| bound.wrapping_add_signed(*c) & (u32::MAX >> (32 - width));
    let words: Vec<u32> = poly.coefficients().iter().map(word).collect();
    let mut packed = Vec::new();
    pack_words(words[..].try_into().unwrap(), width, &mut packed);
    bytes[at..][..packed_len(width)].copy_from_slice(&packed);
}
