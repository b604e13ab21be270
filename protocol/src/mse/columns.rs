//! Which cells a label stands for.

use super::{LABEL_SYMBOLS, MSE_MODULUS};
use crate::ids::SessionId;
use rand_core::CryptoRng;
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

/// The random label of one message: two symbols, 70 secret bits. Fresh for each message; wiped on drop.
///
/// Two of 300 messages share a label with probability 300^2/2 / 2^70, below 2^-54; both are lost then.
#[derive(Zeroize, ZeroizeOnDrop)]
pub struct Label([u64; LABEL_SYMBOLS]);

impl Label {
    /// A uniform label. Two draws, whatever their values.
    pub fn random(rng: &mut (impl CryptoRng + ?Sized)) -> Self {
        Self(std::array::from_fn(|_| rng.next_u64() & (MSE_MODULUS - 1)))
    }

    /// The label of these symbols, if both are below 2^35.
    pub fn new(symbols: [u64; LABEL_SYMBOLS]) -> Option<Self> {
        symbols.iter().all(|&symbol| symbol < MSE_MODULUS).then_some(Self(symbols))
    }

    pub(crate) const fn symbols(&self) -> &[u64; LABEL_SYMBOLS] {
        &self.0
    }
}

/// Key of the function from labels to cells, the same for all clients of a session and public like it.
pub struct ColumnKey([u8; blake3::KEY_LEN]);

impl ColumnKey {
    const CONTEXT: &'static str = "panetiere 2026-11 peeling columns v1";

    /// The key of this session.
    pub fn new(session: &SessionId) -> Self {
        Self(blake3::derive_key(Self::CONTEXT, session.as_bytes()))
    }

    /// The bucket of a label in a row, `0..buckets`. Constant time in the label.
    ///
    /// The keyed hash of row and label, one u64 little-endian each, gives 64 bits w; the bucket is
    /// `floor(w * buckets / 2^64)`. A bucket's probability is off by less than 2^-64, and nothing divides by
    /// or branches on a secret.
    pub(super) fn bucket(&self, row: u64, label: &[u64; LABEL_SYMBOLS], buckets: u64) -> u64 {
        let mut input = Zeroizing::new([0; 8 * (1 + LABEL_SYMBOLS)]);
        let words = std::iter::once(&row).chain(label);
        for (bytes, word) in input.chunks_exact_mut(8).zip(words) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        let mut hasher = blake3::Hasher::new_keyed(&self.0);
        hasher.update(&*input);
        let hash = hasher.finalize();
        hasher.zeroize();
        let [b0, b1, b2, b3, b4, b5, b6, b7, ..] = *hash.as_bytes();
        let w = u64::from_le_bytes([b0, b1, b2, b3, b4, b5, b6, b7]);
        w.carrying_mul(buckets, 0).1
    }
}
