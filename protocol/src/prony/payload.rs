//! Symbols of the messages, from the points and the columns: one Vandermonde system, many right-hand sides.
//!
//! For one symbol the columns are `W_j = sum of x_i z_i^j`. Small systems are solved by the inverse matrix. A large one
//! is split: filtering W with the polynomial of half of the points (`sum over m of f_m W_{j+m}`) removes their terms
//! and multiplies the others by `f(z_i)`, which leaves a system of the other half. A filter is a cyclic convolution,
//! so both halves share the transform of W.

use super::error::PronyError;
use super::field::{Fp, dot_reversed};
use super::residue::{Residues, invert_all};
use chipmunk::ring::backend::field::{Factors, FieldKernels, Rows, Transform};
use rayon::prelude::*;

/// Symbols a task works on. Coarse enough for a task to outweigh its dispatch, fine enough to share out
/// evenly; the columns of a panel in the kernels.
const SYMBOLS_PER_TASK: usize = 32;

/// Most points of a system that is solved by its inverse matrix.
const MAX_DIRECT: usize = 400;

/// Columns that are checked at once.
const MAX_CHECKED: usize = 32;

/// Points that are worked on in lockstep, to hide the latency of one multiplication.
const LOCKSTEP: usize = 8;

/// How to solve the system of some points, for many symbols.
enum Solver<'a> {
    /// By the inverse of the matrix.
    Direct(Rows),
    Split {
        table: &'a Transform,
        halves: Box<[Half<'a>; 2]>,
    },
}

struct Half<'a> {
    points: usize,
    /// Values of the filter that removes the other half.
    filter: Factors,
    solver: Solver<'a>,
}

impl<'a> Solver<'a> {
    /// `scales` are the factors that the solutions come out with too little: the inverses of the derivatives of the
    /// locator of *all* points.
    fn new(residues: &'a Residues, roots: &[Fp], scales: &[Fp]) -> (Self, Vec<Fp>) {
        if roots.len() <= MAX_DIRECT {
            let locator = expand(roots);
            let rows: Vec<u64> =
                quotients(&locator, roots, scales).into_iter().map(Fp::to_canonical).collect();
            return (Self::Direct((residues.kernels().pack_rows)(&rows, roots.len())), locator);
        }
        let half = roots.len() / 2;
        let (left, left_locator) = Self::new(residues, &roots[..half], &scales[..half]);
        let (right, right_locator) = Self::new(residues, &roots[half..], &scales[half..]);
        let [table, _] = residues.tables(Residues::length(roots.len()));
        let filter = |f: &[Fp]| {
            // f(1/X), as X^L = 1: the convolution's coefficient j is the sum of all f_m W_{j+m}.
            let mut values = vec![0; table.len()];
            for (m, c) in f.iter().enumerate() {
                values[(table.len() - m) % table.len()] = c.to_canonical();
            }
            residues.to_values(table, &mut values);
            (residues.kernels().leave)(&mut values);
            Factors::new(residues.kernels(), &values)
        };
        let halves = [
            Half { points: half, filter: filter(&right_locator), solver: left },
            Half { points: roots.len() - half, filter: filter(&left_locator), solver: right },
        ];
        (Self::Split { table, halves: Box::new(halves) }, multiply(&left_locator, &right_locator))
    }

    /// Solves the systems of a few symbols, which `columns` holds one every `stride` words, canonical. `out` gets the
    /// solutions point by point: canonical.
    fn solve(&self, kernels: &FieldKernels, columns: &[u64], stride: usize, out: &mut [u64]) {
        let (table, halves) = match self {
            Self::Direct(rows) => return (kernels.products)(rows, columns, stride, out),
            Self::Split { table, halves } => (table, halves),
        };
        let points = halves[0].points + halves[1].points;
        let symbols = out.len() / points;
        let mut parts = [0, 1].map(|half| vec![0; halves[half].points * symbols]);
        let mut values = vec![0; table.len()];
        let mut filtered = vec![0; table.len()];
        for s in 0..symbols {
            values[..points].copy_from_slice(&columns[s * stride..][..points]);
            values[points..].fill(0);
            (kernels.enter)(&mut values);
            (kernels.transform)(table, &mut values);
            for (half, part) in halves.iter().zip(&mut parts) {
                filtered.copy_from_slice(&values);
                (kernels.scale)(&mut filtered, &half.filter);
                (kernels.transform_inverse)(table, &mut filtered);
                (kernels.leave)(&mut filtered[..half.points.next_multiple_of(kernels.lanes)]);
                part[s * half.points..][..half.points].copy_from_slice(&filtered[..half.points]);
            }
        }
        let (left, right) = out.split_at_mut(halves[0].points * symbols);
        for ((half, part), out) in halves.iter().zip(&parts).zip([left, right]) {
            half.solver.solve(kernels, part, half.points, out);
        }
    }
}

/// For each root the quotient of the locator by `X - root`, times the root's scale.
///
/// Shape: k rows of k coefficients, constant first. A row is 0 at the other roots.
fn quotients(locator: &[Fp], roots: &[Fp], scales: &[Fp]) -> Vec<Fp> {
    let k = roots.len();
    let mut rows = vec![Fp::ZERO; k * k];
    for ((rows, roots), scales) in
        rows.chunks_mut(LOCKSTEP * k).zip(roots.chunks(LOCKSTEP)).zip(scales.chunks(LOCKSTEP))
    {
        // Synthetic division, top down; scaling first scales all.
        let mut carries = [Fp::ZERO; LOCKSTEP];
        for (j, &c) in locator[1..].iter().enumerate().rev() {
            for (((carry, &root), &scale), row) in
                carries.iter_mut().zip(roots).zip(scales).zip(rows.chunks_exact_mut(k))
            {
                *carry = carry.mul(root).add(scale.mul(c));
                row[j] = *carry;
            }
        }
    }
    rows
}

/// The values of the derivative at some points.
fn derivatives(poly: &[Fp], points: &[Fp]) -> Vec<Fp> {
    let mut index = Fp::ZERO;
    let derivative: Vec<Fp> = poly[1..]
        .iter()
        .map(|c| {
            index = index.add(Fp::ONE);
            c.mul(index)
        })
        .collect();
    let mut values = vec![Fp::ZERO; points.len()];
    for (values, points) in values.chunks_mut(LOCKSTEP).zip(points.chunks(LOCKSTEP)) {
        for &c in derivative.iter().rev() {
            for (value, &point) in values.iter_mut().zip(points) {
                *value = value.mul(point).add(c);
            }
        }
    }
    values
}

/// The product of X - root over some roots.
fn expand(roots: &[Fp]) -> Vec<Fp> {
    match roots {
        [] => vec![Fp::ONE],
        [root] => vec![root.neg(), Fp::ONE],
        _ => {
            let (left, right) = roots.split_at(roots.len() / 2);
            multiply(&expand(left), &expand(right))
        }
    }
}

/// The product of two polynomials other than zero.
fn multiply(a: &[Fp], b: &[Fp]) -> Vec<Fp> {
    (0..a.len() + b.len() - 1)
        .map(|j| {
            // a_i b_{j-i} for all i that both have.
            let (first, last) = ((j + 1).saturating_sub(b.len()), j.min(a.len() - 1));
            dot_reversed(&a[first..=last], &b[j - last..=j - first])
        })
        .collect()
}

/// Checks that the columns of symbols satisfy the recurrence of the locator from column k on.
struct Checker {
    /// The locator, shifted by one column from row to row.
    rows: Rows,
    spare: usize,
}

impl Checker {
    /// `None` if there are no columns to check.
    fn new(kernels: &FieldKernels, locator: &[Fp], cols: usize) -> Option<Self> {
        let spare = cols + 1 - locator.len();
        let count = spare.min(MAX_CHECKED);
        let width = locator.len() + count.checked_sub(1)?;
        let mut rows = vec![0; count * width];
        for (shift, row) in rows.chunks_exact_mut(width).enumerate() {
            row[shift..].iter_mut().zip(locator).for_each(|(cell, c)| *cell = c.to_canonical());
        }
        Some(Self { rows: (kernels.pack_rows)(&rows, width), spare })
    }

    /// Whether all columns of some symbols agree.
    fn passes(&self, kernels: &FieldKernels, block: &[u64], cols: usize) -> bool {
        let count = self.rows.count();
        let mut residues = vec![0; count * (block.len() / cols)];
        // The last windows overlap the ones before.
        (0..self.spare).step_by(count).map(|start| start.min(self.spare - count)).all(|start| {
            (kernels.products)(&self.rows, &block[start..], cols, &mut residues);
            residues.iter().all(|&residue| residue == 0)
        })
    }
}

/// The symbols of every message, after checking every spare column of every symbol.
///
/// `columns` holds `cols` canonical entries per symbol, `cols` at least k = the number of roots. Result: one
/// vector of symbols per root, in the order of the roots; canonical. The same at every thread count.
///
/// # Errors
/// `CheckFailed` if some symbol's spare columns contradict its first k.
pub(super) fn recover(
    residues: &Residues,
    columns: &[u64],
    cols: usize,
    locator: &[Fp],
    roots: &[Fp],
) -> Result<Vec<Vec<u64>>, PronyError> {
    let kernels = residues.kernels();
    let k = roots.len();
    let checker = Checker::new(kernels, locator, cols);
    let (solver, _) = Solver::new(residues, roots, &invert_all(&derivatives(locator, roots)));
    let blocks: Vec<Option<Vec<u64>>> = columns
        .par_chunks(SYMBOLS_PER_TASK * cols)
        .map(|block| {
            let passes = checker.as_ref().is_none_or(|checker| checker.passes(kernels, block, cols));
            passes.then(|| {
                let mut out = vec![0; k * (block.len() / cols)];
                solver.solve(kernels, block, cols, &mut out);
                out
            })
        })
        .collect();
    let blocks = blocks.into_iter().collect::<Option<Vec<_>>>().ok_or(PronyError::CheckFailed)?;
    let messages = (0..k).into_par_iter().map(|i| {
        let mut message = Vec::with_capacity(columns.len() / cols);
        for block in &blocks {
            let symbols = block.len() / k;
            message.extend_from_slice(&block[i * symbols..][..symbols]);
        }
        message
    });
    Ok(messages.collect())
}

#[cfg(test)]
mod tests {
    use super::super::PRONY_PRIME as P;
    use super::super::locator::from_power_sums;
    use super::*;
    use chipmunk::ring::backend::Simd;
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
            let at = at.index(columns.len());
            let mut changed = columns.clone();
            changed[at] = (columns[at] + 1) % P;
            for simd in Simd::available() {
                let residues = Residues::new(simd.kernels());
                let recovered = recover(&residues, &columns, cols, &locator, &roots);
                prop_assert_eq!(recovered.as_ref(), Ok(&expected));
                let refused = recover(&residues, &changed, cols, &locator, &roots);
                prop_assert_eq!(refused, Err(PronyError::CheckFailed));
            }
        }
    }
}
