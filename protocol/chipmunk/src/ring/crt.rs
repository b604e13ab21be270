//! Exact products in the ring without a transform: lift centred, multiply modulo the auxiliary pair, lift back.
//!
//! Exact while every true coefficient stays below half the pair's product, 2^58.99. The largest use is the inner
//! product of five centred ring elements with sums of `rho_max` bounded polynomials:
//! 5 * 2048 * (q_cs / 2) * (beta * rho_max) < 2^50 for every parameter set.

use super::modulus::Prime;
use super::rescale::PairLift;
use super::{Coeff, Cs, CsAux, Ntt, Poly, RingContext, ShortPoly};

/// The CS ring with its auxiliary pair.
#[derive(Debug)]
pub struct CsProducts {
    cs: RingContext<Cs>,
    aux: RingContext<CsAux>,
    reduction: PairReduction,
}

/// From residues modulo two primes to the residue modulo a third of the centred integer they stand for.
#[derive(Debug)]
pub struct PairReduction {
    pub(super) pair: [Prime; 2],
    pub(super) lift: PairLift,
    pub(super) target: Prime,
    /// The pair's product modulo the target.
    pub(super) wrap: u32,
}

impl PairReduction {
    /// Joins three primes, the target below 2^29.
    pub(super) fn new(pair: &[Prime], target: &Prime) -> Self {
        let lift = PairLift::new(pair);
        let [p0, p1] = pair else { panic!("a pair of primes, got {}", pair.len()) };
        assert!(p0.q() < 2 * p1.q(), "a pair of like primes");
        // The vector kernels add up five values below the target.
        assert!(target.q() < 1 << 29, "a target of at most 29 bits, got {}", target.q());
        let plain = |prime: &Prime| Prime::without_transform(prime.q());
        Self {
            pair: [plain(p0), plain(p1)],
            wrap: target.reduce(lift.modulus()),
            target: plain(target),
            lift,
        }
    }
}

impl CsProducts {
    /// Joins the two contexts.
    pub fn new(cs: RingContext<Cs>, aux: RingContext<CsAux>) -> Self {
        let reduction = PairReduction::new(aux.primes(), &cs.primes()[0]);
        Self { cs, aux, reduction }
    }

    /// The CS ring.
    pub const fn cs(&self) -> &RingContext<Cs> {
        &self.cs
    }

    /// A ring element as a factor: centred, in the transform domain of the auxiliary pair.
    pub fn factor(&self, poly: &Poly<Cs, Coeff>) -> Poly<CsAux, Ntt> {
        self.short_factor(&self.cs.centred(poly))
    }

    /// A short polynomial as a factor.
    pub fn short_factor(&self, short: &ShortPoly) -> Poly<CsAux, Ntt> {
        let mut factor = Poly::zero();
        self.short_factor_into(short, &mut factor);
        factor
    }

    /// [`short_factor`](Self::short_factor) into memory that the caller keeps.
    pub fn short_factor_into(&self, short: &ShortPoly, out: &mut Poly<CsAux, Ntt>) {
        self.aux.forward_short(short, out);
    }

    /// The inner product of two rows of factors, in the CS ring.
    pub fn dot(&self, a: &[Poly<CsAux, Ntt>], b: &[Poly<CsAux, Ntt>]) -> Poly<Cs, Coeff> {
        // With the client's randomness as a factor it is what hides the share.
        let exact = zeroize::Zeroizing::new(self.aux.inverse(self.aux.dot(a, b.iter())));
        let mut out = Poly::zero();
        (self.cs.kernels().reduce_pair)(&self.reduction, [exact.limb(0), exact.limb(1)], out.limb_mut(0));
        out
    }
}

#[cfg(test)]
mod tests {
    use super::super::backend;
    use super::super::schoolbook::negacyclic;
    use super::*;
    use crate::N;
    use crate::params::{P300, P1000};
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4))]
        #[test]
        fn inner_products_match_schoolbook(seed in any::<u64>()) {
            for set in [&P300, &P1000] {
                let products = CsProducts::new(
                    RingContext::new(&[set.cs], backend::under_test()),
                    RingContext::new(&set.cs_aux, backend::under_test()),
                );
                let mut state = seed;
                let mut draw = || {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    u32::try_from(state >> 40).unwrap()
                };
                let bound = set.beta * set.rho_max;
                let mut expected = vec![0u64; N];
                let (mut row, mut column) = (Vec::new(), Vec::new());
                for _ in 0..set.kappa {
                    // Edge-biased: the worst products are those of extreme coefficients.
                    let mut a = Poly::<Cs, Coeff>::zero();
                    for word in a.limb_mut(0) {
                        *word = [set.cs / 2, set.cs / 2 + 1, draw() % set.cs][usize::try_from(draw() % 3).unwrap()];
                    }
                    let mut b = ShortPoly::zero();
                    for c in b.coefficients_mut() {
                        let magnitude = i32::try_from([bound, draw() % bound][usize::try_from(draw() % 2).unwrap()]).unwrap();
                        *c = if draw() % 2 == 0 { magnitude } else { -magnitude };
                    }
                    let q = i64::from(set.cs);
                    let b_mod: Vec<u32> =
                        b.coefficients().iter().map(|&c| u32::try_from(i64::from(c).rem_euclid(q)).unwrap()).collect();
                    for (e, p) in expected.iter_mut().zip(negacyclic(a.limb(0), &b_mod, set.cs)) {
                        *e = (*e + u64::from(p)) % u64::from(set.cs);
                    }
                    row.push(products.factor(&a));
                    column.push(products.short_factor(&b));
                }
                let got: Vec<u64> = products.dot(&row, &column).limb(0).iter().map(|&w| w.into()).collect();
                prop_assert_eq!(got, expected);
            }
        }
    }
}
