//! The ring-SIS hash: short columns to one ring element, linear over the ring.

use crate::ring::expand::Expander;
use crate::ring::{Coeff, Ntt, NttRing, Poly, RingContext, ShortPoly, sample};
use std::borrow::Borrow;
use std::ops::Range;
use zeroize::Zeroizing;

/// Columns transformed before their products are added up: no more than fit without a reduction (15), and few enough
/// that they are still in the first-level cache.
const BATCH: usize = 6;

/// A row of public uniform elements g; the hash of short d is `sum g_k d_k`.
#[derive(Debug)]
pub struct RingHash<R: NttRing> {
    row: Vec<Poly<R, Ntt>>,
}

impl<R: NttRing> RingHash<R> {
    /// Expands a row of `columns` elements.
    pub fn expand(ring: &RingContext<R>, expander: &Expander, columns: usize) -> Self {
        let row = (0..).take(columns).map(|index| sample::uniform_ntt(ring, expander, index));
        Self { row: row.collect() }
    }

    /// The hash of as many short polynomials as the row has columns, each of norm below the modulus.
    ///
    /// # Panics
    /// If the number of columns differs: shapes come from the parameters, not from the wire.
    pub fn hash<T: Borrow<ShortPoly>>(
        &self,
        ring: &RingContext<R>,
        columns: impl IntoIterator<Item = T>,
    ) -> Poly<R, Coeff> {
        self.hash_in(ring, columns, &mut HashMemory::default())
    }

    /// [`hash`](Self::hash), working in memory that the caller keeps.
    pub fn hash_in<T: Borrow<ShortPoly>>(
        &self,
        ring: &RingContext<R>,
        columns: impl IntoIterator<Item = T>,
        memory: &mut HashMemory<R>,
    ) -> Poly<R, Coeff> {
        let mut hashing = self.begin(ring, memory);
        columns.into_iter().for_each(|column| hashing.column(column.borrow()));
        hashing.finish()
    }

    /// A hash that takes one column after another: a row may be hundreds long, and its columns need not all exist.
    pub fn begin<'a>(&'a self, ring: &'a RingContext<R>, memory: &'a mut HashMemory<R>) -> Hashing<'a, R> {
        Hashing { ring, row: &self.row, batch: &mut memory.0, filled: 0, sum: Poly::zero() }
    }

    /// Adds the products of some groups of `K` columns to a sum that [`RingContext::inverse`] makes a hash of, once all
    /// columns are in it. `fill` puts the columns of a group in place, as residues of the ring. The fewer groups at a time,
    /// the sooner what was just put in place is used.
    ///
    /// # Panics
    /// If the row ends before the groups.
    pub fn add_groups<const K: usize>(
        &self,
        ring: &RingContext<R>,
        groups: Range<usize>,
        memory: &mut HashMemory<R>,
        sum: &mut Poly<R, Ntt>,
        mut fill: impl FnMut(usize, [&mut [u32]; K]),
    ) {
        assert_eq!(R::LIMBS, 1, "the columns are residues of one prime");
        let batch = &mut memory.0;
        let columns = K * groups.len();
        if batch.len() < columns {
            batch.resize_with(columns, Poly::zero);
        }
        let row = &self.row[K * groups.start..K * groups.end];
        for (group, columns) in groups.zip(batch.as_chunks_mut::<K>().0) {
            fill(group, columns.each_mut().map(|column| column.limb_mut(0)));
            columns.iter_mut().for_each(|column| ring.forward_in_place(column));
        }
        ring.dot_add(row, batch[..columns].iter(), sum);
    }
}

/// Where columns are transformed, kept from one hash to the next and wiped at the end.
#[derive(Debug)]
pub struct HashMemory<R: NttRing>(Zeroizing<Vec<Poly<R, Ntt>>>);

impl<R: NttRing> Default for HashMemory<R> {
    fn default() -> Self {
        // A vector that grew would leave its old memory behind, but that holds pointers only.
        Self(Zeroizing::new(Vec::new()))
    }
}

/// A hash in the making.
#[derive(Debug)]
pub struct Hashing<'a, R: NttRing> {
    ring: &'a RingContext<R>,
    /// The columns to come, those of the batch included.
    row: &'a [Poly<R, Ntt>],
    batch: &'a mut Vec<Poly<R, Ntt>>,
    filled: usize,
    sum: Poly<R, Ntt>,
}

impl<R: NttRing> Hashing<'_, R> {
    /// Takes the next column, of norm below the modulus.
    ///
    /// # Panics
    /// If the row has no more columns.
    pub fn column(&mut self, column: &ShortPoly) {
        assert!(self.filled < self.row.len(), "as many columns as the row has");
        if self.filled == self.batch.len() {
            self.batch.push(Poly::zero());
        }
        self.ring.forward_short(column, &mut self.batch[self.filled]);
        self.filled += 1;
        if self.filled == BATCH {
            self.flush();
        }
    }

    fn flush(&mut self) {
        let (row, rest) = self.row.split_at(self.filled);
        self.ring.dot_add(row, self.batch[..self.filled].iter(), &mut self.sum);
        (self.row, self.filled) = (rest, 0);
    }

    /// The hash of all columns.
    ///
    /// # Panics
    /// If the row has more columns than were taken.
    pub fn finish(mut self) -> Poly<R, Coeff> {
        if self.filled > 0 {
            self.flush();
        }
        assert!(self.row.is_empty(), "as many columns as the row has");
        self.ring.inverse(self.sum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::N;
    use crate::params::P300;
    use crate::ring::schoolbook::negacyclic;
    use crate::ring::{Hvc, backend};

    fn short(seed: i32, bound: i32) -> ShortPoly {
        let mut poly = ShortPoly::zero();
        for (i, c) in poly.coefficients_mut().iter_mut().enumerate() {
            *c = (seed + 7919 * i32::try_from(i).unwrap()) % (bound + 1);
        }
        poly
    }

    #[test]
    fn hash_is_the_inner_product_and_linear() {
        let ring = RingContext::<Hvc>::new(&[P300.hvc], backend::under_test());
        let expander = Expander::new(&[9; 32], b"hash test");
        let hash = RingHash::expand(&ring, &expander, 6);
        let columns: Vec<_> = (0..6).map(|k| short(k, 9600)).collect();
        let mut expected = vec![0u32; N];
        for (g, d) in hash.row.iter().zip(&columns) {
            let g = ring.inverse(g.clone());
            let product = negacyclic(g.limb(0), ring.from_short(d).limb(0), P300.hvc);
            expected.iter_mut().zip(product).for_each(|(e, p)| *e = (*e + p) % P300.hvc);
        }
        let got = hash.hash(&ring, &columns);
        assert_eq!(got.limb(0), expected);

        // The same columns in groups, whatever is taken together.
        for cuts in [&[0, 3][..], &[0, 2, 3], &[0, 1, 2, 3], &[0, 0, 3]] {
            let (mut sum, mut memory) = (Poly::zero(), HashMemory::default());
            for cut in cuts.windows(2) {
                hash.add_groups(
                    &ring,
                    cut[0]..cut[1],
                    &mut memory,
                    &mut sum,
                    |group, out: [&mut [u32]; 2]| {
                        let columns = columns[2 * group..].iter();
                        out.into_iter().zip(columns).for_each(|(out, column)| {
                            out.copy_from_slice(ring.from_short(column).limb(0));
                        });
                    },
                );
            }
            assert_eq!(ring.inverse(sum), got, "{cuts:?}");
        }

        let more: Vec<_> = (0..6).map(|k| short(-100 * k, 9600)).collect();
        let mut sum = got;
        ring.add_assign(&mut sum, &hash.hash(&ring, &more));
        let mut both = columns;
        both.iter_mut().zip(&more).for_each(|(a, b)| a.add_assign(b));
        assert_eq!(hash.hash(&ring, &both), sum);
    }
}
