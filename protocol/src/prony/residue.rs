//! Residues modulo a polynomial, as values of transforms: squaring takes four transforms of the polynomial's length
//! and no division. Not constant time.
//!
//! A residue u modulo f (monic, degree n) is held as its values on two cosets of the L-th roots of unity, L >= n: the
//! roots of X^L - a and of X^L - b. Montgomery's reduction with R = (X^L - a) / (b - a) then needs no polynomial
//! division: for a product T of degree below 2L, the quotient q = -T / f is computed value by value on the first
//! coset, and (T + q f) / R on the second, where R is 1.
//!
//! Source: Montgomery 1985, "Modular multiplication without trial division", carried over to polynomials; the two
//! cosets are the bases of Bajard, Didier, Kornerup 1998, "An RNS Montgomery modular multiplication algorithm".

use super::field::{Fp, dot};
use chipmunk::ring::backend::Kernels;
use chipmunk::ring::backend::field::{
    Factors, FieldKernels, GENERATOR, MAX_TRANSFORM, MIN_TRANSFORM, Transform,
};
use std::sync::OnceLock;

/// The kernels, and the tables of all transforms that were needed so far.
pub(super) struct Residues {
    kernels: &'static FieldKernels,
    /// By the logarithm of the length: on the roots of unity themselves, and on their coset by [`GENERATOR`].
    tables: [OnceLock<[Transform; 2]>; MAX_TRANSFORM.ilog2() as usize + 1],
}

impl Residues {
    pub(super) fn new(kernels: &Kernels) -> Self {
        Self { kernels: kernels.field, tables: [const { OnceLock::new() }; _] }
    }

    pub(super) const fn kernels(&self) -> &'static FieldKernels {
        self.kernels
    }

    /// Length of the transforms for `degree` coefficients.
    pub(super) fn length(degree: usize) -> usize {
        degree.next_power_of_two().max(MIN_TRANSFORM)
    }

    /// Transforms of one length on the roots of unity and on their coset.
    pub(super) fn tables(&self, len: usize) -> &[Transform; 2] {
        self.tables[len.ilog2() as usize]
            .get_or_init(|| [1, GENERATOR].map(|coset| Transform::new(self.kernels, len, coset)))
    }
}

/// Arithmetic modulo one polynomial.
pub(super) struct Modulus<'a> {
    residues: &'a Residues,
    degree: usize,
    /// The first coset if it is not the roots of unity.
    other: Option<Transform>,
    second: &'a Transform,
    /// -1 / f on the first coset, f on the second.
    factors: [Factors; 2],
    one: Residue,
}

/// A residue times R, as native words: values on the first coset and on the second.
#[derive(Clone)]
pub(super) struct Residue([Vec<u64>; 2]);

impl<'a> Modulus<'a> {
    /// Modulo `f`, monic and of degree at least 1.
    pub(super) fn new(residues: &'a Residues, f: &[Fp]) -> Self {
        let degree = f.len() - 1;
        debug_assert!(degree >= 1 && f[degree] == Fp::ONE);
        let len = Residues::length(degree);
        let [unity, second] = residues.tables(len);
        // On the first coset f must have no zero. Hostile points may be roots of unity, but n points spoil at most n
        // cosets. Powers of a generator below (p - 1) / L lie in different ones.
        let mut other = None;
        let (first_values, generator_power) = (0..)
            .filter(|&power| power != 1)
            .find_map(|power| {
                let coset = Fp::from_canonical(GENERATOR).pow(power);
                if power > 0 {
                    other = Some(Transform::new(residues.kernels, len, coset.to_canonical()));
                }
                let values = residues.values(other.as_ref().unwrap_or(unity), f, coset);
                (!values.contains(&0)).then_some((values, power))
            })
            .expect("f has fewer roots than there are cosets");
        let first = other.as_ref().unwrap_or(unity);
        let exponent = |power: u64| Fp::from_canonical(GENERATOR).pow(power * len as u64);
        // b - a.
        let difference = exponent(1).sub(exponent(generator_power));
        let second_values = residues.values(second, f, Fp::from_canonical(GENERATOR));

        // R = (X^L - a) / (b - a) modulo f: with Q the quotient of X^L by f (which is that of X^L - a), it is -Q f / (b - a)
        // on the first coset, and that plus 1 on the second.
        let mut quotient: Vec<u64> = quotient(f, len).into_iter().map(Fp::to_canonical).collect();
        quotient.resize(len, 0);
        let scale = difference.inverse().neg();
        let one =
            [(first, &first_values, Fp::ZERO), (second, &second_values, Fp::ONE)].map(|(table, f, plus)| {
                let mut values = quotient.clone();
                residues.to_values(table, &mut values);
                (residues.kernels.leave)(&mut values);
                for (q, &f) in values.iter_mut().zip(f) {
                    let product = Fp::from_canonical(*q).mul(Fp::from_canonical(f));
                    *q = product.mul(scale).add(plus).to_canonical();
                }
                (residues.kernels.enter)(&mut values);
                values
            });
        let negated: Vec<Fp> = first_values.iter().map(|&f| Fp::from_canonical(f).neg()).collect();
        let inverses: Vec<u64> = invert_all(&negated).into_iter().map(Fp::to_canonical).collect();
        let factors = [inverses, second_values].map(|values| Factors::new(residues.kernels, &values));
        Self { residues, degree, other, second, factors, one: Residue(one) }
    }

    fn first(&self) -> &Transform {
        match &self.other {
            Some(table) => table,
            None => &self.residues.tables(self.second.len())[0],
        }
    }

    /// `(X + shift)^exponent`.
    pub(super) fn linear_power(&self, shift: Fp, exponent: u64) -> Residue {
        let linear = [self.first(), self.second].map(|table| {
            let mut values = vec![0; table.len()];
            values[0] = shift.to_canonical();
            values[1] = 1;
            self.residues.to_values(table, &mut values);
            values
        });
        let mut power = self.one.clone();
        for bit in (0..u64::BITS - exponent.leading_zeros()).rev() {
            // A square times a linear factor has degree at most 2n - 1: it is below 2L.
            let more = (exponent >> bit) & 1 == 1;
            self.square(&mut power, more.then_some(&linear));
        }
        power
    }

    /// Whether the square is 1.
    pub(super) fn squares_to_one(&self, residue: &Residue) -> bool {
        let mut square = residue.clone();
        self.square(&mut square, None);
        let [square, one] = [&square, &self.one].map(|residue| {
            let mut values = residue.0[1].clone();
            (self.residues.kernels.leave)(&mut values);
            values
        });
        square == one
    }

    /// The coefficients: `degree` of them, leading zeros included.
    pub(super) fn coefficients(&self, residue: &Residue) -> Vec<Fp> {
        // Reducing the residue itself divides by R.
        let Residue([first, second]) = residue.clone();
        let mut ones = vec![1; second.len()];
        (self.residues.kernels.enter)(&mut ones);
        let mut coefficients = self.reduce([first, second], &ones);
        (self.residues.kernels.transform_inverse)(self.second, &mut coefficients);
        (self.residues.kernels.leave)(&mut coefficients);
        debug_assert!(coefficients[self.degree..].iter().all(|&c| c == 0));
        coefficients[..self.degree].iter().map(|&c| Fp::from_canonical(c)).collect()
    }

    /// `residue^2`, times a polynomial of degree 1 if there is one.
    fn square(&self, residue: &mut Residue, linear: Option<&[Vec<u64>; 2]>) {
        let kernels = self.residues.kernels;
        let Residue([first, second]) = residue;
        let factor = second.clone();
        let copy = first.clone();
        (kernels.multiply)(first, &copy);
        if let Some(linear) = linear {
            (kernels.multiply)(first, &linear[0]);
            (kernels.multiply)(second, &linear[1]);
        }
        let reduced = self.reduce([std::mem::take(first), std::mem::take(second)], &factor);
        let mut values = reduced.clone();
        (kernels.transform_inverse)(self.second, &mut values);
        (kernels.transform)(self.first(), &mut values);
        *residue = Residue([values, reduced]);
    }

    /// `T / R` on the second coset, for T given by its values on the first, and on the second without a `factor`.
    fn reduce(&self, [first, second]: [Vec<u64>; 2], factor: &[u64]) -> Vec<u64> {
        let kernels = self.residues.kernels;
        let (mut quotient, mut reduced) = (first, second);
        (kernels.scale)(&mut quotient, &self.factors[0]);
        (kernels.transform_inverse)(self.first(), &mut quotient);
        (kernels.transform)(self.second, &mut quotient);
        (kernels.scale)(&mut quotient, &self.factors[1]);
        (kernels.multiply)(&mut reduced, factor);
        (kernels.add)(&mut reduced, &quotient);
        reduced
    }
}

impl Residues {
    /// Coefficients to native values, in place.
    pub(super) fn to_values(&self, table: &Transform, canonical: &mut [u64]) {
        (self.kernels.enter)(canonical);
        (self.kernels.transform)(table, canonical);
    }

    /// Canonical values of a polynomial of degree at most the table's length, which is on the coset by `coset`.
    fn values(&self, table: &Transform, f: &[Fp], coset: Fp) -> Vec<u64> {
        let len = table.len();
        let mut values: Vec<u64> = f.iter().take(len).map(|c| c.to_canonical()).collect();
        values.resize(len, 0);
        if let Some(&top) = f.get(len) {
            // X^L is a constant there.
            values[0] = f[0].add(top.mul(coset.pow(len as u64))).to_canonical();
        }
        self.to_values(table, &mut values);
        (self.kernels.leave)(&mut values);
        values
    }
}

/// The quotient of X^len by a monic polynomial of degree at most `len`.
fn quotient(f: &[Fp], len: usize) -> Vec<Fp> {
    let n = f.len() - 1;
    // Read from the top, it is the power series 1 / (X^n f(1/X)): the product of both series is 1.
    let mut series = Vec::with_capacity(len - n + 1);
    series.push(Fp::ONE);
    for j in 1..=len - n {
        let terms = j.min(n);
        series.push(dot(&series[j - terms..], &f[n - terms..n]).neg());
    }
    series.reverse();
    series
}

/// The inverses of elements other than 0, with one inversion: of the product of all.
pub(super) fn invert_all(elements: &[Fp]) -> Vec<Fp> {
    let mut product = Fp::ONE;
    let mut inverses: Vec<Fp> = Vec::with_capacity(elements.len());
    for &element in elements {
        inverses.push(product);
        product = product.mul(element);
    }
    let mut inverse = product.inverse();
    for (cell, &element) in inverses.iter_mut().zip(elements).rev() {
        *cell = cell.mul(inverse);
        inverse = inverse.mul(element);
    }
    inverses
}

#[cfg(test)]
mod tests {
    use super::super::poly::Modulus as Schoolbook;
    use super::*;
    use chipmunk::ring::backend::Simd;
    use proptest::prelude::*;

    const P: u64 = super::super::PRONY_PRIME;

    fn all() -> Vec<Residues> {
        Simd::available().map(|simd| Residues::new(simd.kernels())).collect()
    }

    fn canonical(poly: &[Fp]) -> Vec<u64> {
        poly.iter().map(|c| c.to_canonical()).collect()
    }

    /// A monic polynomial of this degree.
    fn monic(degree: usize, seed: u64) -> Vec<Fp> {
        let mut coefficient = Fp::from_canonical(seed);
        let mut f: Vec<Fp> = (0..degree)
            .map(|_| {
                coefficient = coefficient.mul(coefficient).add(Fp::from_canonical(12_345));
                coefficient
            })
            .collect();
        f.push(Fp::ONE);
        f
    }

    #[test]
    fn powers_match_division_by_hand_at_every_kind_of_length() {
        // Below, at and above the lengths of transforms.
        for degree in [1, 2, 3, 33, 63, 64, 65, 127, 128, 129, 200, 256] {
            let f = monic(degree, 7 + degree as u64);
            let shift = Fp::from_canonical(5);
            for exponent in [1, 2, 255, (P - 1) / 2, P] {
                let expected = canonical(&Schoolbook::new(&f).linear_power(shift, exponent));
                for residues in all() {
                    let modulus = Modulus::new(&residues, &f);
                    let power = modulus.linear_power(shift, exponent);
                    assert_eq!(canonical(&modulus.coefficients(&power)), expected, "{degree} {exponent}");
                }
            }
        }
    }

    #[test]
    fn roots_of_unity_among_the_roots_change_nothing() {
        // X^64 - 1 vanishes on all of the first coset, and so does one of the next two for the other polynomials.
        let unity = |len: usize, value: u64| {
            let mut f = vec![Fp::ZERO; len + 1];
            f[0] = Fp::from_canonical(value).neg();
            f[len] = Fp::ONE;
            f
        };
        let ninth = Fp::from_canonical(GENERATOR).pow(2 * 64).to_canonical();
        for f in [unity(64, 1), unity(32, 1), unity(64, ninth)] {
            let expected = canonical(&Schoolbook::new(&f).linear_power(Fp::from_canonical(3), P));
            for residues in all() {
                let modulus = Modulus::new(&residues, &f);
                let power = modulus.linear_power(Fp::from_canonical(3), P);
                assert_eq!(canonical(&modulus.coefficients(&power)), expected);
            }
        }
    }

    #[test]
    fn squares_are_compared_with_one() {
        // Modulo (X - 1)(X - 2)...(X - 40) the (p-1)/2-th power of X is 1 or -1 at every root.
        let split = (1..=40).fold(vec![Fp::ONE], |f, root| {
            let root = Fp::from_canonical(root);
            (0..=f.len())
                .map(|i| {
                    let shifted = if i > 0 { f[i - 1] } else { Fp::ZERO };
                    shifted.sub(f.get(i).map_or(Fp::ZERO, |c| c.mul(root)))
                })
                .collect()
        });
        for residues in all() {
            let modulus = Modulus::new(&residues, &split);
            assert!(modulus.squares_to_one(&modulus.linear_power(Fp::ZERO, (P - 1) / 2)));
            assert!(modulus.squares_to_one(&modulus.linear_power(Fp::ZERO, 0)));
            assert!(!modulus.squares_to_one(&modulus.linear_power(Fp::ZERO, 1)));
            // Not so modulo a polynomial that does not split.
            let f = monic(40, 3);
            let modulus = Modulus::new(&residues, &f);
            assert!(!modulus.squares_to_one(&modulus.linear_power(Fp::ZERO, (P - 1) / 2)));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        fn small_powers_match_schoolbook(
            low in prop::collection::vec(0..P, 1..90),
            shift in 0..P,
            exponent in 0u64..3000,
        ) {
            let mut f: Vec<Fp> = low.iter().map(|&c| Fp::from_canonical(c)).collect();
            f.push(Fp::ONE);
            let shift = Fp::from_canonical(shift);
            let expected = canonical(&Schoolbook::new(&f).linear_power(shift, exponent));
            for residues in all() {
                let modulus = Modulus::new(&residues, &f);
                let power = modulus.linear_power(shift, exponent);
                prop_assert_eq!(&canonical(&modulus.coefficients(&power)), &expected);
            }
        }

        #[test]
        fn batch_inversion_inverts(elements in prop::collection::vec(1..P, 0..20)) {
            let elements: Vec<Fp> = elements.into_iter().map(Fp::from_canonical).collect();
            for (inverse, element) in invert_all(&elements).into_iter().zip(&elements) {
                prop_assert_eq!(inverse.mul(*element).to_canonical(), 1);
            }
        }
    }
}
