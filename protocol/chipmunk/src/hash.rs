//! The ring-SIS hash: short columns to one ring element, linear over the ring.

use crate::ring::expand::Expander;
use crate::ring::{Coeff, Ntt, NttRing, Poly, RingContext, ShortPoly, sample};
use zeroize::Zeroizing;

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
    pub fn hash<'a>(
        &self,
        ring: &RingContext<R>,
        columns: impl IntoIterator<Item = &'a ShortPoly>,
    ) -> Poly<R, Coeff> {
        let columns: Zeroizing<Vec<_>> =
            Zeroizing::new(columns.into_iter().map(|c| ring.forward(ring.from_short(c))).collect());
        ring.inverse(ring.dot(&self.row, columns.iter()))
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
        let ring = RingContext::<Hvc>::new(&[P300.hvc], backend::scalar());
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

        let more: Vec<_> = (0..6).map(|k| short(-100 * k, 9600)).collect();
        let mut sum = got;
        ring.add_assign(&mut sum, &hash.hash(&ring, &more));
        let mut both = columns;
        both.iter_mut().zip(&more).for_each(|(a, b)| a.add_assign(b));
        assert_eq!(hash.hash(&ring, &both), sum);
    }
}
