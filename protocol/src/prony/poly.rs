//! Polynomials over the field of the sketch, as the decoder needs them. Schoolbook throughout. Not constant
//! time.
//!
//! A polynomial is a vector of coefficients, constant term first, without leading zeros; the zero polynomial
//! is empty.

use super::field::{Fp, dot_reversed, square_coefficient};

fn trim(poly: &mut Vec<Fp>) {
    while poly.last() == Some(&Fp::ZERO) {
        poly.pop();
    }
}

/// Quotient and remainder by a monic polynomial of degree at least 1.
pub(super) fn divide(mut dividend: Vec<Fp>, monic: &[Fp]) -> (Vec<Fp>, Vec<Fp>) {
    let degree = monic.len() - 1;
    debug_assert!(degree >= 1 && monic[degree] == Fp::ONE);
    if dividend.len() <= degree {
        return (Vec::new(), dividend);
    }
    for top in (degree..dividend.len()).rev() {
        let factor = dividend[top];
        // The leading term stays where it is: it is the quotient's coefficient.
        for (cell, &c) in dividend[top - degree..top].iter_mut().zip(monic) {
            *cell = cell.sub(factor.mul(c));
        }
    }
    let quotient = dividend.split_off(degree);
    trim(&mut dividend);
    (quotient, dividend)
}

/// Scales to leading coefficient 1. Must not be zero.
fn make_monic(poly: &mut [Fp]) {
    let scale = poly.last().expect("the caller passes a polynomial other than zero").inverse();
    for c in poly {
        *c = c.mul(scale);
    }
}

/// Monic greatest common divisor of a monic polynomial and another one (possibly zero) of smaller degree.
pub(super) fn gcd(monic: &[Fp], other: Vec<Fp>) -> Vec<Fp> {
    let (mut a, mut b) = (monic.to_vec(), other);
    trim(&mut b);
    while !b.is_empty() {
        make_monic(&mut b);
        if b.len() == 1 {
            return b;
        }
        let (_, remainder) = divide(a, &b);
        (a, b) = (b, remainder);
    }
    a
}

/// Arithmetic modulo a monic polynomial f of degree n >= 1. Residues are slices of exactly n coefficients.
pub(super) struct Modulus<'a> {
    f: &'a [Fp],
    /// The first n - 1 coefficients of the power series 1 / (X^n f(1/X)): turns division into multiplication.
    reciprocal: Vec<Fp>,
}

/// Memory that squarings use again and again: powers of small polynomials would spend their time allocating.
#[derive(Default)]
struct Workspace {
    high: Vec<Fp>,
    quotient: Vec<Fp>,
    square: Vec<Fp>,
}

impl<'a> Modulus<'a> {
    pub(super) fn new(f: &'a [Fp]) -> Self {
        let n = f.len() - 1;
        debug_assert!(n >= 1 && f[n] == Fp::ONE);
        let mut reciprocal = Vec::with_capacity(n);
        for j in 0..n - 1 {
            // The product of both series is 1: its coefficient j is 0 except for j = 0.
            reciprocal.push(match j {
                0 => Fp::ONE,
                _ => super::field::dot(&reciprocal[..j], &f[n - j..n]).neg(),
            });
        }
        Self { f, reciprocal }
    }

    const fn degree(&self) -> usize {
        self.f.len() - 1
    }

    /// Whether the square of a residue is 1.
    pub(super) fn squares_to_one(&self, residue: &[Fp]) -> bool {
        let mut square = residue.to_vec();
        self.square(&mut square, &mut Workspace::default());
        square.iter().enumerate().all(|(j, &c)| c == if j == 0 { Fp::ONE } else { Fp::ZERO })
    }

    /// `residue^2 mod f`, in place.
    fn square(&self, residue: &mut Vec<Fp>, Workspace { high, quotient, square }: &mut Workspace) {
        let n = self.degree();
        // The square's coefficients n.. from the top down, i.e. the reversed high part.
        high.clear();
        high.extend((n..2 * n - 1).rev().map(|j| square_coefficient(&residue[j + 1 - n..])));
        quotient.clear();
        quotient.extend((0..n - 1).map(|i| dot_reversed(&high[..=i], &self.reciprocal[..=i])));
        quotient.reverse();
        square.clear();
        square.extend((0..n).map(|j| {
            let terms = (j + 1).min(n - 1);
            let subtract = dot_reversed(&quotient[..terms], &self.f[j + 1 - terms..=j]);
            square_coefficient(&residue[..=j]).sub(subtract)
        }));
        std::mem::swap(residue, square);
    }

    /// `residue * (X + shift) mod f`, in place.
    fn times_linear(&self, residue: &mut [Fp], shift: Fp) {
        let n = self.degree();
        let top = residue[n - 1];
        for j in (0..n).rev() {
            let below = if j == 0 { Fp::ZERO } else { residue[j - 1] };
            residue[j] = residue[j].mul(shift).add(below).sub(top.mul(self.f[j]));
        }
    }

    /// `(X + shift)^exponent mod f`: n coefficients, leading zeros included.
    pub(super) fn linear_power(&self, shift: Fp, exponent: u64) -> Vec<Fp> {
        let mut power = vec![Fp::ZERO; self.degree()];
        power[0] = Fp::ONE;
        let mut workspace = Workspace::default();
        for bit in (0..u64::BITS - exponent.leading_zeros()).rev() {
            self.square(&mut power, &mut workspace);
            if (exponent >> bit) & 1 == 1 {
                self.times_linear(&mut power, shift);
            }
        }
        power
    }
}

#[cfg(test)]
mod tests {
    use super::super::PRONY_PRIME as P;
    use super::*;
    use proptest::prelude::*;

    fn fp(values: &[u64]) -> Vec<Fp> {
        values.iter().map(|&v| Fp::from_canonical(v)).collect()
    }

    fn canonical(poly: &[Fp]) -> Vec<u64> {
        poly.iter().map(|c| c.to_canonical()).collect()
    }

    fn mul_mod_p(a: u64, b: u64) -> u64 {
        u64::try_from(u128::from(a) * u128::from(b) % u128::from(P)).unwrap()
    }

    /// Schoolbook product with a remainder per term.
    fn product(a: &[u64], b: &[u64]) -> Vec<u64> {
        let mut out = vec![0; (a.len() + b.len()).saturating_sub(1)];
        for (i, &x) in a.iter().enumerate() {
            for (j, &y) in b.iter().enumerate() {
                out[i + j] = (out[i + j] + mul_mod_p(x, y)) % P;
            }
        }
        out
    }

    fn sum(a: &[u64], b: &[u64]) -> Vec<u64> {
        let at = |v: &[u64], i: usize| v.get(i).copied().unwrap_or(0);
        (0..a.len().max(b.len())).map(|i| (at(a, i) + at(b, i)) % P).collect()
    }

    fn from_roots(roots: &[u64]) -> Vec<u64> {
        roots.iter().fold(vec![1], |poly, &root| product(&poly, &[(P - root) % P, 1]))
    }

    fn trimmed(mut poly: Vec<u64>) -> Vec<u64> {
        while poly.last() == Some(&0) {
            poly.pop();
        }
        poly
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn division_undoes_multiplication(
            quotient in prop::collection::vec(1..P, 1..12),
            low in prop::collection::vec(0..P, 1..12),
            rest in prop::collection::vec(0..P, 0..12),
        ) {
            let mut monic = low.clone();
            monic.push(1);
            let rest = trimmed(rest.into_iter().take(low.len()).collect());
            let dividend = sum(&product(&quotient, &monic), &rest);
            let (q, r) = divide(fp(&dividend), &fp(&monic));
            prop_assert_eq!(canonical(&q), quotient);
            prop_assert_eq!(canonical(&r), rest);
        }

        #[test]
        fn gcd_is_the_product_of_the_shared_roots(
            roots in prop::collection::btree_set(0..P, 1..16),
            cut in any::<(prop::sample::Index, prop::sample::Index)>(),
        ) {
            let roots: Vec<u64> = roots.into_iter().collect();
            let (i, j) = (cut.0.index(roots.len()), cut.1.index(roots.len()));
            let (i, j) = (i.min(j), i.max(j));
            // f has the roots 0..=j, g the roots i.. scaled; reduce g first so that its degree is smaller.
            let f = from_roots(&roots[..=j]);
            let g = product(&from_roots(&roots[i..]), &[12_345]);
            let (_, g) = divide(fp(&g), &fp(&f));
            prop_assert_eq!(canonical(&gcd(&fp(&f), g)), from_roots(&roots[i..=j]));
        }

        #[test]
        fn powers_match_schoolbook(
            low in prop::collection::vec(0..P, 1..10),
            shift in 0..P,
            exponent in 0u64..40,
        ) {
            let mut monic = low.clone();
            monic.push(1);
            let mut power = vec![1];
            for _ in 0..exponent {
                power = product(&power, &[shift, 1]);
            }
            // Big schoolbook power first, one long division by hand at the end.
            while power.len() > low.len() {
                let top = power.pop().unwrap();
                let at = power.len() - low.len();
                for (cell, &c) in power[at..].iter_mut().zip(&low) {
                    *cell = (*cell + P - mul_mod_p(top, c)) % P;
                }
            }
            power.resize(low.len(), 0);
            let f = fp(&monic);
            let actual = Modulus::new(&f).linear_power(Fp::from_canonical(shift), exponent);
            prop_assert_eq!(canonical(&actual), power);
        }
    }

    #[test]
    fn gcd_with_zero_and_with_a_constant() {
        let f = fp(&from_roots(&[3, 5]));
        assert!(gcd(&f, fp(&[0, 0])) == f);
        assert!(gcd(&f, fp(&[7, 0])) == [Fp::ONE]);
    }
}
