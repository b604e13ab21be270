//! Symbols of the messages, from the points and the columns: one Vandermonde system, many right-hand sides.
//!
//! For one symbol the columns are `W_j = sum of x_i z_i^j`. Small systems are solved by the inverse matrix. A large one
//! is split: filtering W with the polynomial of half of the points (`sum over m of f_m W_{j+m}`) removes their terms
//! and multiplies the others by `f(z_i)`, which leaves a system of the other half. A filter is a cyclic convolution,
//! so both halves share the transform of W.
//!
//! Source: the tree is that of fast transposed interpolation, Bostan, Lecerf, Schost 2003, "Tellegen's principle into
//! practice", with its lowest levels replaced by matrices.

use super::error::PronyError;
use super::field::{Fp, dot_reversed};
use super::residue::{Residues, invert_all};
use chipmunk::ring::backend::field::{Factors, FieldKernels, Rows, Transform};
use rayon::prelude::*;

/// Symbols that are solved for together: the columns of a panel in the kernels.
const SYMBOLS_AT_ONCE: usize = 32;

/// Columns of all symbols that a task works on, at least: a few hundred microseconds of work with many points, some
/// ten with few.
const COLUMNS_PER_TASK: usize = 1 << 13;

/// Columns that are checked at once.
const MAX_CHECKED: usize = 32;

/// Points that are worked on in lockstep, to hide the latency of one multiplication.
const LOCKSTEP: usize = 8;

/// Most points of a system that is solved by its inverse matrix, found by measuring.
const fn max_direct(kernels: &FieldKernels) -> usize {
    match kernels.lanes {
        8 => 128,
        _ => 200,
    }
}

/// How to solve the system of some points, for many symbols.
enum Solver<'a> {
    /// By the inverse of the matrix.
    Direct(Rows),
    Split {
        cut: Cut,
        table: &'a Transform,
        halves: Box<[Half<'a>; 2]>,
    },
}

struct Half<'a> {
    points: usize,
    /// Values of the filter that removes the other half, piece by piece.
    filter: Vec<Factors>,
    solver: Solver<'a>,
}

/// How a filter is applied: by transforms of `len` words, once for each of its pieces of up to `size` coefficients.
///
/// A transform computes `h` outputs of a piece if it holds the `h + size - 1` columns that they depend on: two pieces
/// and a short transform may cost less than one piece and a long transform.
#[derive(Clone, Copy)]
struct Cut {
    len: usize,
    size: usize,
}

impl Cut {
    /// Most pieces. The kernels add up two products at most.
    const MAX_PIECES: usize = 2;

    /// The cheapest way for filters of up to `half + 1` coefficients and up to `half` outputs.
    fn new(half: usize) -> Self {
        (1..=Self::MAX_PIECES)
            .map(|pieces| {
                let size = (half + 1).div_ceil(pieces);
                Self { len: Residues::length(half + size - 1), size }
            })
            // Forward transforms of all pieces, backward ones of two halves.
            .min_by_key(|cut| ((half + 1).div_ceil(cut.size) + 2) * cut.len)
            .expect("there is a number of pieces")
    }
}

impl<'a> Solver<'a> {
    /// `scales` are the factors that the solutions come out with too little: the inverses of the derivatives of the
    /// locator of *all* points.
    fn new(residues: &'a Residues, roots: &[Fp], scales: &[Fp], max_direct: usize) -> (Self, Vec<Fp>) {
        if roots.len() <= max_direct {
            let locator = expand(roots);
            let rows: Vec<u64> =
                quotients(&locator, roots, scales).into_iter().map(Fp::to_canonical).collect();
            return (Self::Direct((residues.kernels().pack_rows)(&rows, roots.len())), locator);
        }
        let left = roots.len() / 2;
        let right = roots.len() - left;
        let (left_solver, left_locator) = Self::new(residues, &roots[..left], &scales[..left], max_direct);
        let (right_solver, right_locator) = Self::new(residues, &roots[left..], &scales[left..], max_direct);
        let cut = Cut::new(right);
        let [table, _] = residues.tables(cut.len);
        let piece = |coefficients: &[Fp]| {
            // f(1/X), as X^L = 1: the convolution's coefficient j is the sum of all f_m W_{j+m}.
            let mut values = vec![0; cut.len];
            for (m, c) in coefficients.iter().enumerate() {
                values[(cut.len - m) % cut.len] = c.to_canonical();
            }
            residues.to_values(table, &mut values);
            (residues.kernels().leave)(&mut values);
            Factors::new(residues.kernels(), &values)
        };
        let filter = |f: &[Fp]| f.chunks(cut.size).map(piece).collect();
        let halves = [
            Half { points: left, filter: filter(&right_locator), solver: left_solver },
            Half { points: right, filter: filter(&left_locator), solver: right_solver },
        ];
        (Self::Split { cut, table, halves: Box::new(halves) }, multiply(&left_locator, &right_locator))
    }

    /// Words of working space to solve for `symbols` symbols.
    fn scratch(&self, symbols: usize) -> usize {
        match self {
            Self::Direct(_) => 0,
            Self::Split { cut, halves, .. } => {
                let [left, right] = &**halves;
                let below = left.solver.scratch(symbols).max(right.solver.scratch(symbols));
                2 * Cut::MAX_PIECES * cut.len + (left.points + right.points) * symbols + below
            }
        }
    }

    /// Solves the systems of a few symbols, which `columns` holds one every `stride` words, canonical. `out` gets the
    /// solutions point by point: canonical.
    fn solve(
        &self,
        kernels: &FieldKernels,
        columns: &[u64],
        stride: usize,
        out: &mut [u64],
        scratch: &mut [u64],
    ) {
        let (cut, table, halves) = match self {
            Self::Direct(rows) => return (kernels.products)(rows, columns, stride, out),
            Self::Split { cut, table, halves } => (cut, table, halves),
        };
        let [left, right] = &**halves;
        let points = left.points + right.points;
        let symbols = out.len() / points;
        let (values, scratch) = scratch.split_at_mut(Cut::MAX_PIECES * cut.len);
        let (filtered, scratch) = scratch.split_at_mut(Cut::MAX_PIECES * cut.len);
        let (parts, scratch) = scratch.split_at_mut(points * symbols);
        let mut parts = parts.split_at_mut(left.points * symbols);
        for s in 0..symbols {
            let columns = &columns[s * stride..][..points];
            let pieces = (0..=right.points).step_by(cut.size);
            for (start, values) in pieces.zip(values.chunks_exact_mut(cut.len)) {
                let piece = &columns[start..points.min(start + cut.len)];
                values[..piece.len()].copy_from_slice(piece);
                values[piece.len()..].fill(0);
                (kernels.enter)(values);
                (kernels.transform)(table, values);
            }
            for (half, part) in [(left, &mut parts.0), (right, &mut parts.1)] {
                let (first, second) = filtered.split_at_mut(cut.len);
                first.copy_from_slice(&values[..cut.len]);
                (kernels.scale)(first, &half.filter[0]);
                if let Some(filter) = half.filter.get(1) {
                    second.copy_from_slice(&values[cut.len..]);
                    (kernels.scale)(second, filter);
                    (kernels.add)(first, second);
                }
                (kernels.transform_inverse)(table, first);
                (kernels.leave)(&mut first[..half.points.next_multiple_of(kernels.lanes)]);
                part[s * half.points..][..half.points].copy_from_slice(&first[..half.points]);
            }
        }
        let (left_out, right_out) = out.split_at_mut(left.points * symbols);
        left.solver.solve(kernels, parts.0, left.points, left_out, scratch);
        right.solver.solve(kernels, parts.1, right.points, right_out, scratch);
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
    recover_with(residues, columns, cols, locator, roots, max_direct(residues.kernels()))
}

/// [`recover`] with a limit of its own for systems that are solved by the inverse matrix.
fn recover_with(
    residues: &Residues,
    columns: &[u64],
    cols: usize,
    locator: &[Fp],
    roots: &[Fp],
    max_direct: usize,
) -> Result<Vec<Vec<u64>>, PronyError> {
    let kernels = residues.kernels();
    let checker = Checker::new(kernels, locator, cols);
    let scales = invert_all(&derivatives(locator, roots));
    let (solver, _) = Solver::new(residues, roots, &scales, max_direct);

    // A batch of symbols fills its part of every message.
    let symbols = columns.len() / cols;
    let mut messages: Vec<Vec<u64>> = roots.iter().map(|_| vec![0; symbols]).collect();
    let mut batches: Vec<Vec<&mut [u64]>> =
        (0..symbols.div_ceil(SYMBOLS_AT_ONCE)).map(|_| Vec::with_capacity(roots.len())).collect();
    for message in &mut messages {
        for (batch, part) in batches.iter_mut().zip(message.chunks_mut(SYMBOLS_AT_ONCE)) {
            batch.push(part);
        }
    }

    let work = || (vec![0; roots.len() * SYMBOLS_AT_ONCE], vec![0; solver.scratch(SYMBOLS_AT_ONCE)]);
    columns
        .par_chunks(SYMBOLS_AT_ONCE * cols)
        .zip(batches)
        .with_min_len(COLUMNS_PER_TASK.div_ceil(SYMBOLS_AT_ONCE * cols))
        .map_init(work, |(out, scratch), (block, parts)| {
            if checker.as_ref().is_some_and(|checker| !checker.passes(kernels, block, cols)) {
                return Err(PronyError::CheckFailed);
            }
            let symbols = block.len() / cols;
            let out = &mut out[..roots.len() * symbols];
            solver.solve(kernels, block, cols, out, scratch);
            for (part, solution) in parts.into_iter().zip(out.chunks_exact(symbols)) {
                part.copy_from_slice(solution);
            }
            Ok(())
        })
        .collect::<Result<(), _>>()?;
    Ok(messages)
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

    /// What some points with these symbols add up to, from the definition: `cols` columns for each symbol, and the
    /// locator.
    fn combined(points: &[u64], messages: &[Vec<u64>], cols: usize) -> (Vec<u64>, Vec<Fp>) {
        let symbols = messages[0].len();
        let mut columns = vec![0; symbols * cols];
        let mut sums = vec![0; points.len()];
        for (&point, message) in points.iter().zip(messages) {
            let mut power = 1;
            for j in 0..cols {
                for (s, &symbol) in message.iter().enumerate() {
                    columns[s * cols + j] = (columns[s * cols + j] + mul_mod_p(symbol, power)) % P;
                }
                power = mul_mod_p(power, point);
                if let Some(sum) = sums.get_mut(j) {
                    *sum = (*sum + power) % P;
                }
            }
        }
        (columns, from_power_sums(&sums))
    }

    /// A repeatable sequence that spreads over the field.
    fn spread(seed: u64, count: usize) -> Vec<u64> {
        (0..count as u64).map(|i| mul_mod_p(mul_mod_p(seed + i, seed + i), 12_345_678_901 + i)).collect()
    }

    #[test]
    fn split_systems_give_what_the_inverse_matrix_gives() {
        // Few and many points, both sides of powers of two; the lowest level from one point to all of them.
        for k in [2, 3, 5, 33, 64, 65, 100, 150, 257, 300] {
            let points: Vec<u64> = spread(k, usize::try_from(k).unwrap()).iter().map(|z| z | 1).collect();
            let messages: Vec<Vec<u64>> = points.iter().map(|&z| spread(z % 1000, 40)).collect();
            let cols = points.len() + 2;
            let (columns, locator) = combined(&points, &messages, cols);
            let roots: Vec<Fp> = points.iter().map(|&z| Fp::from_canonical(z)).collect();
            for simd in Simd::available() {
                let residues = Residues::new(simd.kernels());
                for max_direct in [1, 7, 60, 150, 1000] {
                    let got = recover_with(&residues, &columns, cols, &locator, &roots, max_direct);
                    assert!(got.as_ref() == Ok(&messages), "{simd}, {k} points, {max_direct}");
                }
            }
        }
    }

    #[test]
    fn cuts_fit_their_transforms() {
        for half in 1..3000 {
            let Cut { len, size } = Cut::new(half);
            assert!(half + size - 1 <= len && (half + 1).div_ceil(size) <= Cut::MAX_PIECES, "{half}");
            // Never more than one long transform for everything.
            assert!(len <= Residues::length(2 * half), "{half}");
        }
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
            let cols = points.len() + spare;
            // Symbols spread over the field by a fixed multiplier; the seed comes from the property.
            let symbol = |i: usize, s: usize| mul_mod_p(seed, power(1_234_567_891, i * symbols + s));
            let expected: Vec<Vec<u64>> =
                (0..points.len()).map(|i| (0..symbols).map(|s| symbol(i, s)).collect()).collect();
            let (columns, locator) = combined(&points, &expected, cols);
            let roots: Vec<Fp> = points.iter().map(|&z| Fp::from_canonical(z)).collect();
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
