//! A ring with its modulus: all arithmetic on [`Poly`].

use super::backend::Kernels;
use super::modulus::Prime;
use super::{Coeff, Domain, Ntt, NttRing, Poly, Ring, ShortPoly};
use std::marker::PhantomData;

/// One ring of one parameter set: its primes with their tables, and the kernels to compute with.
#[derive(Debug)]
pub struct RingContext<R: Ring> {
    primes: Vec<Prime>,
    kernels: &'static Kernels,
    kind: PhantomData<fn() -> R>,
}

impl<R: Ring> RingContext<R> {
    /// Derives the tables of every limb.
    ///
    /// # Panics
    /// If the number of primes is not `R::LIMBS`: parameter sets are compiled in.
    pub fn new(primes: &[u32], kernels: &'static Kernels) -> Self {
        assert_eq!(primes.len(), R::LIMBS, "{} has {} limbs", R::NAME, R::LIMBS);
        Self { primes: primes.iter().map(|&q| Prime::new(q)).collect(), kernels, kind: PhantomData }
    }

    /// The primes, one a limb.
    pub fn primes(&self) -> &[Prime] {
        &self.primes
    }

    /// The kernels in use.
    pub fn kernels(&self) -> &'static Kernels {
        self.kernels
    }

    /// `a += b`.
    pub fn add_assign<D: Domain>(&self, a: &mut Poly<R, D>, b: &Poly<R, D>) {
        for (limb, prime) in self.primes.iter().enumerate() {
            (self.kernels.add)(prime, a.limb_mut(limb), b.limb(limb));
        }
    }

    /// `a -= b`.
    pub fn sub_assign<D: Domain>(&self, a: &mut Poly<R, D>, b: &Poly<R, D>) {
        for (limb, prime) in self.primes.iter().enumerate() {
            (self.kernels.sub)(prime, a.limb_mut(limb), b.limb(limb));
        }
    }

    /// `a *= scalar`, the scalar any u32.
    pub fn scale_assign<D: Domain>(&self, a: &mut Poly<R, D>, scalar: u32) {
        for (limb, prime) in self.primes.iter().enumerate() {
            (self.kernels.scale)(prime, a.limb_mut(limb), prime.reduce(scalar.into()));
        }
    }

    /// The element with these integer coefficients, each of magnitude below every prime.
    pub fn from_short(&self, short: &ShortPoly) -> Poly<R, Coeff> {
        let mut out = Poly::zero();
        for (limb, prime) in self.primes.iter().enumerate() {
            (self.kernels.from_signed)(prime, out.limb_mut(limb), short.coefficients());
        }
        out
    }
}

impl<R: NttRing> RingContext<R> {
    /// To the transform domain.
    pub fn forward(&self, poly: Poly<R, Coeff>) -> Poly<R, Ntt> {
        let mut out = Poly::from_words(poly.into_words());
        for (limb, prime) in self.primes.iter().enumerate() {
            (self.kernels.ntt_forward)(prime, out.limb_mut(limb));
        }
        out
    }

    /// Integer coefficients, each of magnitude below every prime, straight to the transform domain.
    pub(crate) fn forward_short(&self, short: &ShortPoly, out: &mut Poly<R, Ntt>) {
        for (limb, prime) in self.primes.iter().enumerate() {
            (self.kernels.from_signed)(prime, out.limb_mut(limb), short.coefficients());
            (self.kernels.ntt_forward)(prime, out.limb_mut(limb));
        }
    }

    /// Coefficients that stand where their transform is to stand.
    pub(crate) fn forward_in_place(&self, words: &mut Poly<R, Ntt>) {
        for (limb, prime) in self.primes.iter().enumerate() {
            (self.kernels.ntt_forward)(prime, words.limb_mut(limb));
        }
    }

    /// Back to coefficients.
    pub fn inverse(&self, poly: Poly<R, Ntt>) -> Poly<R, Coeff> {
        let mut out = Poly::from_words(poly.into_words());
        for (limb, prime) in self.primes.iter().enumerate() {
            (self.kernels.ntt_inverse)(prime, out.limb_mut(limb));
        }
        out
    }

    /// The product.
    pub fn mul(&self, a: &Poly<R, Ntt>, b: &Poly<R, Ntt>) -> Poly<R, Ntt> {
        let mut out = Poly::zero();
        for (limb, prime) in self.primes.iter().enumerate() {
            (self.kernels.mul)(prime, out.limb_mut(limb), a.limb(limb), b.limb(limb));
        }
        out
    }

    /// Puts the coefficients of a product into `out`, whatever was there: for loops that keep their memory.
    pub fn product_into(&self, a: &Poly<R, Ntt>, b: &Poly<R, Ntt>, out: &mut Poly<R, Coeff>) {
        for (limb, prime) in self.primes.iter().enumerate() {
            (self.kernels.mul)(prime, out.limb_mut(limb), a.limb(limb), b.limb(limb));
            (self.kernels.ntt_inverse)(prime, out.limb_mut(limb));
        }
    }

    /// The inner product of two equally long rows.
    ///
    /// # Panics
    /// If the rows differ in length: a caller's bug.
    pub fn dot<'a>(
        &self,
        a: &[Poly<R, Ntt>],
        b: impl ExactSizeIterator<Item = &'a Poly<R, Ntt>>,
    ) -> Poly<R, Ntt> {
        let mut out = Poly::zero();
        self.dot_add(a, b, &mut out);
        out
    }

    /// Adds the inner product of two equally long rows.
    ///
    /// # Panics
    /// As [`dot`](Self::dot).
    pub(crate) fn dot_add<'a>(
        &self,
        a: &[Poly<R, Ntt>],
        b: impl ExactSizeIterator<Item = &'a Poly<R, Ntt>>,
        out: &mut Poly<R, Ntt>,
    ) {
        assert_eq!(a.len(), b.len(), "an inner product takes rows of one length");
        let terms: Vec<_> = a.iter().zip(b).collect();
        for (limb, prime) in self.primes.iter().enumerate() {
            let terms: Vec<_> = terms.iter().map(|(a, b)| [a.limb(limb), b.limb(limb)]).collect();
            (self.kernels.dot)(prime, &terms, out.limb_mut(limb));
        }
    }
}

impl<R: Ring> RingContext<R> {
    /// Reads centred coefficients of a one-limb ring into `out`. Constant time.
    pub fn centred(&self, poly: &Poly<R, Coeff>) -> ShortPoly {
        assert_eq!(R::LIMBS, 1, "only a one-limb element has a centred i32 form");
        let mut out = ShortPoly::zero();
        (self.kernels.centred)(&self.primes[0], poly.limb(0), out.coefficients_mut());
        out
    }
}

#[cfg(test)]
mod tests {
    use super::super::schoolbook::negacyclic;
    use super::super::{CsAux, Hvc, Kahe, Lane};
    use super::*;
    use crate::N;
    use crate::params::{P300, P1000};
    use crate::ring::backend;
    use proptest::prelude::*;

    fn element<R: Ring>(ring: &RingContext<R>, seed: u64, edge: bool) -> Poly<R, Coeff> {
        let mut state = seed;
        let mut out = Poly::zero();
        for (limb, prime) in ring.primes().iter().enumerate() {
            for word in out.limb_mut(limb) {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let draw = (state >> 33) as u32;
                *word =
                    if edge && draw.is_multiple_of(3) { prime.q() - 1 - draw % 2 } else { draw % prime.q() };
            }
        }
        out
    }

    fn product_is_schoolbook<R: NttRing>(primes: &[u32], seed: u64) {
        let ring = RingContext::<R>::new(primes, backend::under_test());
        let (a, b) = (element(&ring, seed, true), element(&ring, seed ^ 0xABCD, true));
        let (fa, fb) = (ring.forward(a.clone()), ring.forward(b.clone()));
        let product = ring.inverse(ring.mul(&fa, &fb));
        let mut again = b.clone();
        ring.product_into(&fa, &fb, &mut again);
        assert_eq!(again, product, "into memory that held something else");
        for (limb, prime) in ring.primes().iter().enumerate() {
            assert_eq!(
                product.limb(limb),
                negacyclic(a.limb(limb), b.limb(limb), prime.q()),
                "{} limb {limb}",
                R::NAME
            );
        }
        assert_eq!(ring.inverse(ring.forward(a.clone())), a);
    }

    #[test]
    fn products_match_schoolbook_in_every_ring() {
        for set in [&P300, &P1000] {
            product_is_schoolbook::<Hvc>(&[set.hvc], 1);
            product_is_schoolbook::<Lane>(&[set.lane], 2);
            product_is_schoolbook::<Kahe>(&set.kahe, 3);
            product_is_schoolbook::<CsAux>(&set.cs_aux, 4);
        }
    }

    #[test]
    fn slot_order_is_the_pinned_one() {
        // X transforms to psi^(2*bitrev(i)+1) in slot i: the definition, evaluated without the tables.
        let ring = RingContext::<Hvc>::new(&[P300.hvc], backend::under_test());
        let mut x = Poly::<Hvc, Coeff>::zero();
        x.limb_mut(0)[1] = 1;
        let prime = Prime::new(P300.hvc);
        for (i, &value) in ring.forward(x).limb(0).iter().enumerate() {
            let bitrev = u32::try_from(i).unwrap().reverse_bits() >> 21;
            let mut expected = 1u64;
            for _ in 0..2 * bitrev + 1 {
                expected = expected * u64::from(prime.ntt().psi) % u64::from(P300.hvc);
            }
            assert_eq!(u64::from(value), expected, "slot {i}");
        }
    }

    #[test]
    fn dot_reduces_in_time() {
        // 40 products of maximal residues of the 30-bit pair would overflow a u64 without folding.
        let ring = RingContext::<CsAux>::new(&P300.cs_aux, backend::under_test());
        let words: Box<[u32]> = P300.cs_aux.iter().flat_map(|&q| vec![q - 1; N]).collect();
        let row: Vec<Poly<CsAux, Ntt>> = (0..40).map(|_| Poly::from_words(words.clone())).collect();
        let dot = ring.dot(&row, row.iter());
        assert!(dot.words().iter().all(|&word| word == 40), "(-1)(-1) forty times");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn transform_is_linear(seed in any::<u64>(), scalar in any::<u32>()) {
            let ring = RingContext::<Kahe>::new(&P300.kahe, backend::under_test());
            let (a, b) = (element(&ring, seed, false), element(&ring, !seed, true));
            let mut left = a.clone();
            ring.scale_assign(&mut left, scalar);
            ring.add_assign(&mut left, &b);
            let (mut right, fb) = (ring.forward(a), ring.forward(b));
            ring.scale_assign(&mut right, scalar);
            ring.add_assign(&mut right, &fb);
            prop_assert_eq!(ring.forward(left.clone()), right.clone());
            ring.sub_assign(&mut right, &fb);
            ring.add_assign(&mut right, &fb);
            prop_assert_eq!(ring.inverse(right), left);
        }
    }
}
