//! Roots of a polynomial that is a product of distinct linear factors, and whether it is one: by Cantor-Zassenhaus with
//! the shifts 0, 1, 2, ...
//!
//! Deterministic: the same polynomial takes the same steps on every machine, with all kernels and at every thread
//! count. Whoever wants a pair of points that the first m shifts do not separate has to search about 2^m pairs.
//!
//! Source: Cantor, Zassenhaus 1981, "A new algorithm for factoring polynomials over finite fields", degree-1
//! case.

use super::error::PronyError;
use super::field::{Fp, PRONY_PRIME};
use super::poly::{Modulus as Schoolbook, divide, gcd};
use super::residue::{Modulus, Residues};
use rayon::prelude::*;

/// Half the order of the multiplicative group: the power with this exponent is 1 for squares, -1 for other elements
/// but 0.
const HALF: u64 = (PRONY_PRIME - 1) / 2;

/// Least degree for which residues are computed by transforms.
const MIN_DEGREE: usize = 24;

/// A monic polynomial of degree at least 1 that is a product of distinct linear factors, none of them X.
pub(super) struct Splitting {
    factor: Vec<Fp>,
    /// `X^HALF`: 1 at the roots that are squares, -1 at the others.
    power: Vec<Fp>,
}

impl Splitting {
    /// Finds out whether a monic polynomial of degree at least 1 is such a product.
    ///
    /// # Errors
    /// `NotSplit` if not.
    pub(super) fn new(residues: &Residues, locator: &[Fp]) -> Result<Self, PronyError> {
        // No message has the point 0.
        if locator[0] == Fp::ZERO {
            return Err(PronyError::NotSplit);
        }
        // X^p - X is the product of all linear factors, each once: f divides it exactly if f is a product of distinct
        // ones. X is invertible, so that means X^(p-1) = 1.
        let power = half_power(residues, locator, Fp::ZERO, Check::Split).ok_or(PronyError::NotSplit)?;
        Ok(Self { factor: locator.to_vec(), power })
    }

    /// The roots, in ascending order of their canonical values.
    ///
    /// # Errors
    /// `NotSplit` if some factor resists every shift, which no such product does.
    pub(super) fn roots(self, residues: &Residues) -> Result<Vec<Fp>, PronyError> {
        let parts = match separate(&self.factor, self.power) {
            Some(pair) => pair.map(|factor| Part { factor, shift: 1 }).into(),
            None => vec![Part { factor: self.factor, shift: 1 }],
        };
        roots(residues, parts)
    }
}

/// What to find out about a power besides its value.
#[derive(PartialEq)]
enum Check {
    /// Whether its square is 1.
    Split,
    Nothing,
}

/// `(X + shift)^HALF` modulo `f`; `None` if it is to be checked and its square is not 1.
fn half_power(residues: &Residues, f: &[Fp], shift: Fp, check: Check) -> Option<Vec<Fp>> {
    if f.len() <= MIN_DEGREE {
        let modulus = Schoolbook::new(f);
        let power = modulus.linear_power(shift, HALF);
        return (check == Check::Nothing || modulus.squares_to_one(&power)).then_some(power);
    }
    let modulus = Modulus::new(residues, f);
    let power = modulus.linear_power(shift, HALF);
    (check == Check::Nothing || modulus.squares_to_one(&power)).then(|| modulus.coefficients(&power))
}

/// A monic factor of degree at least 1, and the first shift that may still separate its roots.
struct Part {
    factor: Vec<Fp>,
    shift: u64,
}

/// The roots of monic products of distinct linear factors, in ascending order of their canonical values.
///
/// # Errors
/// `NotSplit` if some factor resists every shift: then it is not such a product.
fn roots(residues: &Residues, mut found: Vec<Part>) -> Result<Vec<Fp>, PronyError> {
    let mut roots = Vec::new();
    // Level by level, not recursively: however unevenly the roots split, the stack stays flat.
    while !found.is_empty() {
        let mut level = Vec::with_capacity(found.len());
        for part in found {
            match part.factor.as_slice() {
                [constant, _] => roots.push(constant.neg()),
                _ => level.push(part),
            }
        }
        let halves: Vec<Option<[Part; 2]>> =
            level.into_par_iter().map(|part| split(residues, part)).collect();
        found = Vec::with_capacity(2 * halves.len());
        for pair in halves {
            found.extend(pair.ok_or(PronyError::NotSplit)?);
        }
    }
    roots.sort_unstable_by_key(|root| root.to_canonical());
    Ok(roots)
}

/// Two proper factors by the first shift that gives any.
fn split(residues: &Residues, part: Part) -> Option<[Part; 2]> {
    let Part { factor, shift } = part;
    (shift..PRONY_PRIME).find_map(|shift| {
        let power = half_power(residues, &factor, Fp::from_canonical(shift), Check::Nothing)?;
        // Neither this shift nor an earlier one can separate the roots of either part.
        let shift = shift + 1;
        Some(separate(&factor, power)?.map(|factor| Part { factor, shift }))
    })
}

/// Two proper factors: the roots where the power is 1, and the others. `None` if one of them would have no roots.
fn separate(factor: &[Fp], mut power: Vec<Fp>) -> Option<[Vec<Fp>; 2]> {
    // A root z is in the gcd exactly if z + shift is a square other than 0.
    power[0] = power[0].sub(Fp::ONE);
    let divisor = gcd(factor, power);
    (divisor.len() > 1 && divisor.len() < factor.len()).then(|| {
        let (cofactor, _) = divide(factor.to_vec(), &divisor);
        [divisor, cofactor]
    })
}

#[cfg(test)]
mod tests {
    use super::super::PRONY_PRIME as P;
    use super::*;
    use chipmunk::ring::backend::Simd;
    use proptest::prelude::*;

    fn times(a: u64, b: u64) -> u64 {
        u64::try_from(u128::from(a) * u128::from(b) % u128::from(P)).unwrap()
    }

    /// Product of (X - z), a remainder per term.
    fn expand(points: &[u64]) -> Vec<Fp> {
        let mut poly = vec![1];
        for &z in points {
            poly.insert(0, 0);
            for i in 0..poly.len() - 1 {
                poly[i] = (poly[i] + P - times(z, poly[i + 1])) % P;
            }
        }
        poly.into_iter().map(Fp::from_canonical).collect()
    }

    /// With the kernels of every back-end; what they return must be the same.
    fn with_all<T: PartialEq + std::fmt::Debug>(result: impl Fn(&Residues) -> T) -> T {
        let mut results = Simd::available().map(|simd| result(&Residues::new(simd.kernels())));
        let first = results.next().unwrap();
        results.for_each(|other| assert_eq!(other, first));
        first
    }

    fn canonical_roots(poly: Vec<Fp>) -> Vec<u64> {
        with_all(|residues| {
            let parts = vec![Part { factor: poly.clone(), shift: 1 }];
            roots(residues, parts).unwrap().into_iter().map(Fp::to_canonical).collect()
        })
    }

    fn splitting_roots(points: &[u64]) -> Result<Vec<u64>, PronyError> {
        with_all(|residues| {
            let roots = Splitting::new(residues, &expand(points))?.roots(residues)?;
            Ok(roots.into_iter().map(Fp::to_canonical).collect())
        })
    }

    fn require_split(f: &[Fp]) -> Result<(), PronyError> {
        with_all(|residues| Splitting::new(residues, f).map(drop))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn roots_of_a_product_are_its_points(points in prop::collection::btree_set(0..P, 1..24)) {
            let points: Vec<u64> = points.into_iter().collect();
            prop_assert_eq!(canonical_roots(expand(&points)), points);
        }

        #[test]
        fn points_of_every_number_come_back(
            points in prop_oneof![
                prop::collection::btree_set(1..P, 1..24),
                prop::collection::btree_set(1..P, 24..140),
            ],
            repeated in any::<prop::sample::Index>(),
        ) {
            let mut points: Vec<u64> = points.into_iter().collect();
            prop_assert_eq!(splitting_roots(&points), Ok(points.clone()));
            points.push(points[repeated.index(points.len())]);
            prop_assert_eq!(splitting_roots(&points), Err(PronyError::NotSplit));
        }
    }

    #[test]
    fn all_roots_of_unity_are_found() {
        // They vanish on the cosets that transforms would like to use.
        let root = Fp::from_canonical(3).pow((P - 1) / 64);
        let mut power = Fp::ONE;
        let mut points: Vec<u64> = (0..64)
            .map(|_| {
                power = power.mul(root);
                power.to_canonical()
            })
            .collect();
        points.sort_unstable();
        assert_eq!(splitting_roots(&points), Ok(points));
    }

    #[test]
    fn neighbouring_and_extreme_points_are_separated() {
        // p - 1 is hit exactly by the first shift, p - 2 by the second.
        let points = [1, 2, 3, 4, 5, P - 3, P - 2, P - 1];
        assert_eq!(canonical_roots(expand(&points)), points);
        assert_eq!(canonical_roots(expand(&[P - 2, P - 1])), [P - 2, P - 1]);
    }

    #[test]
    fn only_distinct_nonzero_roots_split() {
        assert_eq!(require_split(&expand(&[9])), Ok(()));
        assert_eq!(require_split(&expand(&[1, 2, P - 1])), Ok(()));
        for repeated in [vec![4, 4], vec![1, 7, 7, 8], vec![5, 5, 5]] {
            assert_eq!(require_split(&expand(&repeated)), Err(PronyError::NotSplit), "{repeated:?}");
        }
        assert_eq!(require_split(&expand(&[0])), Err(PronyError::NotSplit));
        assert_eq!(require_split(&expand(&[0, 3])), Err(PronyError::NotSplit));
        // X^2 - c for the smallest c that is not a square, by Euler's criterion in plain arithmetic.
        let is_square = |c: u64| {
            let (mut result, mut base, mut exponent) = (1, c, (P - 1) / 2);
            while exponent > 0 {
                if exponent % 2 == 1 {
                    result = times(result, base);
                }
                base = times(base, base);
                exponent /= 2;
            }
            result == 1
        };
        let nonsquare = (2..).find(|&c| !is_square(c)).unwrap();
        assert_eq!(require_split(&[P - nonsquare, 0, 1].map(Fp::from_canonical)), Err(PronyError::NotSplit));
        assert_eq!(require_split(&[P - 4, 0, 1].map(Fp::from_canonical)), Ok(()));
    }
}
