//! Roots of a polynomial that is known to split, by Cantor-Zassenhaus with the shifts 1, 2, 3, ...
//!
//! Deterministic: the same polynomial takes the same steps on every machine and at every thread count.
//! Whoever wants a pair of points that the first m shifts do not separate has to search about 2^m pairs.
//!
//! Source: Cantor, Zassenhaus 1981, "A new algorithm for factoring polynomials over finite fields", degree-1
//! case.

use super::error::PronyError;
use super::field::{Fp, PRONY_PRIME};
use super::poly::{Modulus, divide, gcd};
use rayon::prelude::*;

/// A monic factor of degree at least 2, and the first shift that may still separate its roots.
struct Part {
    factor: Vec<Fp>,
    shift: u64,
}

/// The roots of a monic product of distinct linear factors, in ascending order of their canonical values.
///
/// # Errors
/// `NotSplit` if some factor resists every shift: then it is not such a product.
pub(super) fn roots(poly: Vec<Fp>) -> Result<Vec<Fp>, PronyError> {
    let mut roots = Vec::with_capacity(poly.len());
    // Level by level, not recursively: however unevenly the roots split, the stack stays flat.
    let mut found = vec![Part { factor: poly, shift: 1 }];
    while !found.is_empty() {
        let mut level = Vec::with_capacity(found.len());
        for part in found {
            match part.factor.as_slice() {
                [constant, _] => roots.push(constant.neg()),
                _ => level.push(part),
            }
        }
        let halves: Vec<Option<[Part; 2]>> = level.into_par_iter().map(split).collect();
        found = Vec::with_capacity(2 * halves.len());
        for pair in halves {
            found.extend(pair.ok_or(PronyError::NotSplit)?);
        }
    }
    roots.sort_unstable_by_key(|root| root.to_canonical());
    Ok(roots)
}

/// Two proper factors by the first shift that gives any.
fn split(part: Part) -> Option<[Part; 2]> {
    let Part { factor, shift } = part;
    let modulus = Modulus::new(&factor);
    for shift in shift..PRONY_PRIME {
        // A root z is in the gcd exactly if z + shift is a square other than 0.
        let mut power = modulus.linear_power(Fp::from_canonical(shift), (PRONY_PRIME - 1) / 2);
        power[0] = power[0].sub(Fp::ONE);
        let divisor = gcd(&factor, power);
        if divisor.len() > 1 && divisor.len() < factor.len() {
            let (cofactor, _) = divide(factor, &divisor);
            // Neither this shift nor an earlier one can separate the roots of either part.
            let shift = shift + 1;
            return Some([Part { factor: divisor, shift }, Part { factor: cofactor, shift }]);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::super::PRONY_PRIME as P;
    use super::*;
    use proptest::prelude::*;

    /// Product of (X - z), a remainder per term.
    fn expand(points: &[u64]) -> Vec<Fp> {
        let mut poly = vec![1];
        for &z in points {
            poly.insert(0, 0);
            for i in 0..poly.len() - 1 {
                let term = u64::try_from(u128::from(z) * u128::from(poly[i + 1]) % u128::from(P)).unwrap();
                poly[i] = (poly[i] + P - term) % P;
            }
        }
        poly.into_iter().map(Fp::from_canonical).collect()
    }

    fn canonical_roots(poly: Vec<Fp>) -> Vec<u64> {
        roots(poly).unwrap().into_iter().map(Fp::to_canonical).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn roots_of_a_product_are_its_points(points in prop::collection::btree_set(0..P, 1..24)) {
            let points: Vec<u64> = points.into_iter().collect();
            prop_assert_eq!(canonical_roots(expand(&points)), points);
        }
    }

    #[test]
    fn neighbouring_and_extreme_points_are_separated() {
        // p - 1 is hit exactly by the first shift, p - 2 by the second.
        let points = [1, 2, 3, 4, 5, P - 3, P - 2, P - 1];
        assert_eq!(canonical_roots(expand(&points)), points);
        assert_eq!(canonical_roots(expand(&[P - 2, P - 1])), [P - 2, P - 1]);
    }
}
