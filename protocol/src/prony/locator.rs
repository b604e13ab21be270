//! The locator polynomial: the monic polynomial whose roots are the points of the messages.

use super::field::{Fp, dot_canonical, dot_reversed};

/// The locator of k points from their power sums `S_1..=S_k` (canonical), by Newton's identities.
///
/// Shape: k + 1 coefficients, constant term first, the last one 1. Needs k < p, so that 1 to k have inverses.
pub(super) fn from_power_sums(power_sums: &[u64]) -> Vec<Fp> {
    let sums: Vec<Fp> = power_sums.iter().map(|&s| Fp::from_canonical(s)).collect();
    // descending[j] is the coefficient of X^(k-j); j * descending[j] = -sum of S_i * descending[j-i] over i =
    // 1..=j.
    let mut descending = Vec::with_capacity(sums.len() + 1);
    descending.push(Fp::ONE);
    let mut index = Fp::ZERO;
    for j in 1..=sums.len() {
        index = index.add(Fp::ONE);
        let sum = dot_reversed(&sums[..j], &descending);
        descending.push(sum.neg().mul(index.inverse()));
    }
    descending.reverse();
    descending
}

/// Whether `sequence` (canonical) satisfies the recurrence of the locator from its entry k on, k the degree.
///
/// A sequence of combinations `sum of x_i * z_i^j` over the k roots z_i does. Conversely the first k entries
/// determine the x_i, and each later entry is determined by the k before it: so this holds exactly if *all*
/// entries are what the x_i give, without computing them.
pub(super) fn satisfies_recurrence(locator: &[Fp], sequence: &[u64]) -> bool {
    // The window is one longer than the degree: the locator's leading 1 takes in the entry that is checked.
    sequence.windows(locator.len()).all(|window| dot_canonical(locator, window) == 0)
}

#[cfg(test)]
mod tests {
    use super::super::PRONY_PRIME as P;
    use super::*;
    use proptest::prelude::*;

    fn mul_mod_p(a: u64, b: u64) -> u64 {
        u64::try_from(u128::from(a) * u128::from(b) % u128::from(P)).unwrap()
    }

    fn power(z: u64, exponent: usize) -> u64 {
        (0..exponent).fold(1, |power, _| mul_mod_p(power, z))
    }

    /// Product of (X - z), a remainder per term.
    fn expand(points: &[u64]) -> Vec<u64> {
        let mut poly = vec![1];
        for &z in points {
            poly.insert(0, 0);
            for i in 0..poly.len() - 1 {
                poly[i] = (poly[i] + P - mul_mod_p(z, poly[i + 1])) % P;
            }
        }
        poly
    }

    fn combination(points: &[(u64, u64)], exponent: usize) -> u64 {
        points.iter().fold(0, |sum, &(z, x)| (sum + mul_mod_p(x, power(z, exponent))) % P)
    }

    fn fp(values: &[u64]) -> Vec<Fp> {
        values.iter().map(|&v| Fp::from_canonical(v)).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn newton_gives_the_product_of_linear_factors(points in prop::collection::vec(1..P, 1..20)) {
            let weighted: Vec<(u64, u64)> = points.iter().map(|&z| (z, 1)).collect();
            let sums: Vec<u64> = (1..=points.len()).map(|j| combination(&weighted, j)).collect();
            prop_assert!(from_power_sums(&sums) == fp(&expand(&points)));
        }

        #[test]
        fn recurrence_sees_every_changed_entry(
            points in prop::collection::btree_map(1..P, 0..P, 1..8),
            extra in 1usize..4,
            at in any::<prop::sample::Index>(),
            change in 1..P,
        ) {
            let points: Vec<(u64, u64)> = points.into_iter().collect();
            let zs: Vec<u64> = points.iter().map(|&(z, _)| z).collect();
            let locator = fp(&expand(&zs));
            let mut sequence: Vec<u64> = (0..points.len() + extra).map(|j| combination(&points, j)).collect();
            prop_assert!(satisfies_recurrence(&locator, &sequence));
            let at = at.index(sequence.len());
            sequence[at] = (sequence[at] + change) % P;
            prop_assert!(!satisfies_recurrence(&locator, &sequence));
        }
    }
}
