//! The cumulative table, searched in registers.
//!
//! A scan of the whole table counts the entries at or below a word. Here the table is cut into 8 buckets; three
//! comparisons with their last entries find the bucket that a word falls into, and the comparisons with the rest of
//! that bucket finish the count. The entries to compare with come out of registers by `vpermd`, whose index is register
//! data: every word takes the same instructions, and no address depends on it. Words and entries are compared in two
//! halves, eight words at a time.

use super::arith::halves;
use super::mem::{load, load_bytes, store_i32};
use crate::ring::backend::{registers, registers_mut};
use crate::ring::cumulative::CumulativeTable;
use std::arch::x86_64::*;

/// Octets of words that advance together.
const LOCKSTEP: usize = 2;

#[target_feature(enable = "avx2")]
pub(super) fn gaussian(table: &CumulativeTable, words: &[[u8; 8]], out: &mut [i32]) {
    let (words, out) = (registers::<2, _>(registers::<4, _>(words)), registers_mut::<8, _>(out));
    let (shared, rest) = words.as_chunks::<LOCKSTEP>();
    let (shared_out, rest_out) = out.as_chunks_mut::<LOCKSTEP>();
    for (words, out) in shared.iter().zip(shared_out) {
        search(table, words, out);
    }
    for (words, out) in rest.iter().zip(rest_out) {
        search(table, std::array::from_ref(words), std::array::from_mut(out));
    }
}

/// Numbers below 2^63, as high words and as low words less 2^31 for signed comparison.
#[derive(Clone, Copy)]
struct Halves {
    high: __m256i,
    low: __m256i,
}

impl Halves {
    #[target_feature(enable = "avx2")]
    #[inline]
    fn load(entries: &[[u32; 8]; 2]) -> Self {
        Self { high: load(&entries[0]), low: load(&entries[1]) }
    }

    /// The numbers at these places of 8.
    #[target_feature(enable = "avx2")]
    #[inline]
    fn select(&self, places: __m256i) -> Self {
        Self {
            high: _mm256_permutevar8x32_epi32(self.high, places),
            low: _mm256_permutevar8x32_epi32(self.low, places),
        }
    }

    /// All ones where this number is below the other.
    #[target_feature(enable = "avx2")]
    #[inline]
    fn below(&self, other: &Self) -> __m256i {
        let borrow = _mm256_cmpgt_epi32(other.low, self.low);
        let difference = _mm256_add_epi32(_mm256_sub_epi32(self.high, other.high), borrow);
        _mm256_srai_epi32::<31>(difference)
    }
}

/// Counts, for each word, the entries at or below its low 63 bits, and applies its top bit as the sign.
#[target_feature(enable = "avx2")]
#[inline]
fn search<const R: usize>(table: &CumulativeTable, words: &[[[[u8; 8]; 4]; 2]; R], out: &mut [[i32; 8]; R]) {
    let buckets = &table.by_8;
    let splat = |x: usize| _mm256_set1_epi32(i32::try_from(x).expect("a short table"));
    let words: [_; R] = std::array::from_fn(|i| halves(load_bytes(&words[i][0]), load_bytes(&words[i][1])));
    let (low_31, top) = (_mm256_set1_epi32(i32::MAX), _mm256_set1_epi32(i32::MIN));
    let uniform = words
        .map(|(low, high)| Halves { high: _mm256_and_si256(high, low_31), low: _mm256_xor_si256(low, top) });

    let first = Halves::load(&buckets.first);
    // The entries before the bucket and its other entries, less those that the word is below.
    let (mut place, mut count) = ([_mm256_setzero_si256(); R], [splat(buckets.size - 1); R]);
    for level in 0..3 {
        let (bit, entries) = (splat(1 << level), splat(buckets.size << (2 - level)));
        for i in 0..R {
            let below = uniform[i].below(&first.select(_mm256_or_si256(place[i], bit)));
            place[i] = _mm256_or_si256(place[i], _mm256_andnot_si256(below, bit));
            count[i] = _mm256_add_epi32(count[i], _mm256_andnot_si256(below, entries));
        }
    }
    for rest in &buckets.rest[..buckets.size - 1] {
        let rest = Halves::load(rest);
        for i in 0..R {
            count[i] = _mm256_add_epi32(count[i], uniform[i].below(&rest.select(place[i])));
        }
    }
    for i in 0..R {
        let magnitude = _mm256_min_epu32(count[i], splat(table.entries().len()));
        let sign = _mm256_srai_epi32::<31>(words[i].1);
        store_i32(&mut out[i], _mm256_sub_epi32(_mm256_xor_si256(magnitude, sign), sign));
    }
}
