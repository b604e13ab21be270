//! Cumulative tables of the Gaussian, with the arrangements that the vector back-ends search.

/// A cumulative table: entry i is `floor(2^63 * P(|x| <= i))`. A sample's magnitude is the number of entries at or
/// below a uniform 63-bit word.
#[derive(Debug)]
#[cfg_attr(not(target_arch = "x86_64"), expect(dead_code, reason = "read by the vector back-ends"))]
pub struct CumulativeTable {
    entries: &'static [u64],
    pub(super) by_32: Buckets<32, 7>,
    pub(super) by_8: SplitBuckets<8, 31>,
}

/// A table cut into `B` buckets of equal size, `B` a power of two, at most `R` entries and one more each.
///
/// A bucket number is found bit by bit, the highest first. Bucket j is stored at place `bitrev(j)`, so that the bits
/// found so far number the candidates of the next comparison: entries `2^level..2^(level + 1)` of `first`.
#[derive(Debug)]
pub(super) struct Buckets<const B: usize, const R: usize> {
    /// Entries of a bucket.
    pub size: usize,
    /// The last entry of bucket `j - 1`, which a word reaches when it falls into bucket j or above.
    pub first: [u64; B],
    /// The other entries of bucket j.
    pub rest: [[u64; B]; R],
}

/// [`Buckets`] with entries in halves: high words, and low words less 2^31, so that a signed comparison orders them.
#[derive(Debug)]
#[cfg_attr(not(target_arch = "x86_64"), expect(dead_code, reason = "read by the vector back-ends"))]
pub(super) struct SplitBuckets<const B: usize, const R: usize> {
    pub size: usize,
    pub first: [[u32; B]; 2],
    pub rest: [[[u32; B]; 2]; R],
}

/// Stands where a bucket has no entry. The largest word reaches it, so a count is cut to the table's length.
const NO_ENTRY: u64 = u64::MAX >> 1;

impl CumulativeTable {
    /// Arranges the entries: sorted, below 2^63.
    pub(super) const fn new(entries: &'static [u64]) -> Self {
        Self { entries, by_32: Buckets::new(entries), by_8: Buckets::new(entries).split() }
    }

    /// The entries, ascending.
    pub const fn entries(&self) -> &'static [u64] {
        self.entries
    }
}

impl<const B: usize, const R: usize> Buckets<B, R> {
    const fn new(entries: &[u64]) -> Self {
        let size = (entries.len() + 1).div_ceil(B);
        assert!(size <= R + 1, "a table that the buckets hold");
        let mut buckets = Self { size, first: [NO_ENTRY; B], rest: [[NO_ENTRY; B]; R] };
        let mut place = 0;
        while place < B {
            let start = (place.reverse_bits() >> (usize::BITS - B.trailing_zeros())) * size;
            let mut k = 0;
            while k < size {
                // Entry `start - 1` is in `first`, and `start + k - 1` in the rest.
                if start + k > 0 && start + k <= entries.len() {
                    let entry = entries[start + k - 1];
                    if k == 0 {
                        buckets.first[place] = entry;
                    } else {
                        buckets.rest[k - 1][place] = entry;
                    }
                }
                k += 1;
            }
            place += 1;
        }
        buckets
    }

    const fn split(&self) -> SplitBuckets<B, R> {
        let mut split = SplitBuckets { size: self.size, first: halves(&self.first), rest: [[[0; B]; 2]; R] };
        let mut k = 0;
        while k < R {
            split.rest[k] = halves(&self.rest[k]);
            k += 1;
        }
        split
    }
}

/// The high words, and the low words less 2^31.
#[expect(clippy::cast_possible_truncation, reason = "halves of a u64")]
const fn halves<const B: usize>(entries: &[u64; B]) -> [[u32; B]; 2] {
    let mut halves = [[0; B]; 2];
    let mut i = 0;
    while i < B {
        halves[0][i] = (entries[i] >> 32) as u32;
        halves[1][i] = entries[i] as u32 ^ 1 << 31;
        i += 1;
    }
    halves
}
