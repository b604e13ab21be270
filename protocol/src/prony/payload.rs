//! Symbols of the messages, from the points and the columns: one Vandermonde system, many right-hand sides.

use super::error::PronyError;
use super::field::{Fp, dot_canonical, dot4_canonical};
use super::locator::satisfies_recurrence;
use rayon::prelude::*;

/// Symbols a task works on. Coarse enough for a task to outweigh its dispatch, fine enough to share out
/// evenly.
const SYMBOLS_PER_TASK: usize = 32;

/// The dual basis: row i holds the coefficients (constant first) of the polynomial of degree k - 1 that is 1
/// at root i and 0 at the others, `locator / (X - z_i) / locator'(z_i)`. The inverse of the Vandermonde
/// matrix.
///
/// Shape: k rows of k elements, one after the other. The roots are those of the locator, distinct.
pub(super) fn dual_basis(locator: &[Fp], roots: &[Fp]) -> Vec<Fp> {
    let k = roots.len();
    let mut rows = vec![Fp::ZERO; k * k];
    for (row, &root) in rows.chunks_exact_mut(k).zip(roots) {
        // Synthetic division by X - root, top down; the quotient's value at the root is the derivative there.
        let mut carry = Fp::ZERO;
        let mut value = Fp::ZERO;
        for (cell, &c) in row.iter_mut().zip(&locator[1..]).rev() {
            carry = carry.mul(root).add(c);
            *cell = carry;
            value = value.mul(root).add(carry);
        }
        let scale = value.inverse();
        for cell in row {
            *cell = cell.mul(scale);
        }
    }
    rows
}

/// The symbols of every message, after checking every spare column of every symbol.
///
/// `columns` holds `cols` canonical entries per symbol, `cols` at least k = the number of roots. Result: one
/// vector of symbols per root, in the order of the roots; canonical. The same at every thread count.
///
/// # Errors
/// `CheckFailed` if some symbol's spare columns contradict its first k.
pub(super) fn recover(
    columns: &[u64],
    cols: usize,
    locator: &[Fp],
    roots: &[Fp],
) -> Result<Vec<Vec<u64>>, PronyError> {
    let k = roots.len();
    let dual = dual_basis(locator, roots);
    let blocks: Vec<Option<Vec<u64>>> = columns
        .par_chunks(SYMBOLS_PER_TASK * cols)
        .map(|block| {
            block
                .chunks_exact(cols)
                .all(|symbol| satisfies_recurrence(locator, symbol))
                .then(|| solve_block(block, cols, &dual, k))
        })
        .collect();
    let mut messages: Vec<Vec<u64>> = (0..k).map(|_| Vec::with_capacity(columns.len() / cols)).collect();
    for block in blocks {
        let block = block.ok_or(PronyError::CheckFailed)?;
        let symbols = block.len() / k;
        for (message, part) in messages.iter_mut().zip(block.chunks_exact(symbols)) {
            message.extend_from_slice(part);
        }
    }
    Ok(messages)
}

/// The symbols of a few columns: for each root, its symbols one after the other.
fn solve_block(block: &[u64], cols: usize, dual: &[Fp], k: usize) -> Vec<u64> {
    let symbols = block.len() / cols;
    let mut out = vec![0; k * symbols];
    // Four rows of the dual basis stay in the nearest cache while all symbols of the block pass by.
    for (rows, out) in dual.chunks(4 * k).zip(out.chunks_mut(4 * symbols)) {
        if let [r0, r1, r2, r3] = *rows.chunks_exact(k).collect::<Vec<_>>() {
            for (s, values) in block.chunks_exact(cols).enumerate() {
                let solved = dot4_canonical([r0, r1, r2, r3], &values[..k]);
                for (row, value) in solved.into_iter().enumerate() {
                    out[row * symbols + s] = value;
                }
            }
        } else {
            for (row, out) in rows.chunks_exact(k).zip(out.chunks_exact_mut(symbols)) {
                for (out, values) in out.iter_mut().zip(block.chunks_exact(cols)) {
                    *out = dot_canonical(row, &values[..k]);
                }
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::PRONY_PRIME as P;
    use super::super::locator::from_power_sums;
    use super::*;
    use proptest::prelude::*;

    fn mul_mod_p(a: u64, b: u64) -> u64 {
        u64::try_from(u128::from(a) * u128::from(b) % u128::from(P)).unwrap()
    }

    fn power(z: u64, exponent: usize) -> u64 {
        (0..exponent).fold(1, |power, _| mul_mod_p(power, z))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        // Up to 70 symbols: more than two tasks, the last one not full; up to 10 roots: with and without a
        // rest of 4.
        #[test]
        fn symbols_come_back_and_a_changed_column_does_not_pass(
            points in prop::collection::btree_set(1..P, 1..10),
            symbols in 1usize..70,
            spare in 1usize..4,
            seed in 1..P,
            at in any::<prop::sample::Index>(),
        ) {
            let points: Vec<u64> = points.into_iter().collect();
            let (k, cols) = (points.len(), points.len() + spare);
            // Symbols spread over the field by a fixed multiplier; the seed comes from the property.
            let symbol = |i: usize, s: usize| mul_mod_p(seed, power(1_234_567_891, i * symbols + s));
            let mut columns = Vec::new();
            for s in 0..symbols {
                for j in 0..cols {
                    let sum = (0..k).fold(0, |sum, i| (sum + mul_mod_p(symbol(i, s), power(points[i], j))) % P);
                    columns.push(sum);
                }
            }
            let sums: Vec<u64> =
                (1..=k).map(|j| points.iter().fold(0, |sum, &z| (sum + power(z, j)) % P)).collect();
            let locator = from_power_sums(&sums);
            let roots: Vec<Fp> = points.iter().map(|&z| Fp::from_canonical(z)).collect();
            let expected: Vec<Vec<u64>> =
                (0..k).map(|i| (0..symbols).map(|s| symbol(i, s)).collect()).collect();
            prop_assert_eq!(recover(&columns, cols, &locator, &roots), Ok(expected));
            let at = at.index(columns.len());
            columns[at] = (columns[at] + 1) % P;
            prop_assert_eq!(recover(&columns, cols, &locator, &roots), Err(PronyError::CheckFailed));
        }
    }
}
