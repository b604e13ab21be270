//! Portable kernels: the definition that every other back-end must match.
//!
//! Native words are in Montgomery form with R = 2^64, below 2^48. Sums of products are accumulated in 128 bits and
//! reduced once: up to 2^64 / p > 2^28 products of canonical words fit below the reduction's limit p * 2^64.
//!
//! Everything wraps explicitly, so that overflow checks add no branch on secret data; the comments say why nothing
//! overflows.
//!
//! Sources: Montgomery 1985, "Modular multiplication without trial division", in the subtracting form; Harvey 2014
//! (arXiv 1205.2926) for multiplication by a constant and lazy ranges.

#![expect(
    clippy::cast_possible_truncation,
    reason = "word splitting of modular arithmetic, ranges in the comments"
)]

use super::word::{P_INVERSE, R, R_SQUARED, add_canonical, reduce, wide};
use super::{Factor, FieldKernels, PRIME as P, Rows, field_transform};

pub(in super::super) static KERNELS: FieldKernels = FieldKernels {
    lanes: LANES,
    radix: R,
    multiply_add,
    factor,
    enter,
    leave,
    transform,
    transform_inverse,
    add,
    multiply,
    scale,
    pack_rows,
    products,
};

const LANES: usize = 1;

/// `a * b` modulo p, all canonical.
pub(in super::super) const fn multiply_canonical(a: u64, b: u64) -> u64 {
    reduce(wide(reduce(wide(a, b)), R_SQUARED))
}

/// `base^exponent` modulo p, canonical.
pub(super) const fn power(base: u64, exponent: u64) -> u64 {
    let mut power = 1;
    let mut bit = u64::BITS - exponent.leading_zeros();
    while bit > 0 {
        bit -= 1;
        power = multiply_canonical(power, power);
        if (exponent >> bit) & 1 == 1 {
            power = multiply_canonical(power, base);
        }
    }
    power
}

/// `floor(w * 2^bits / p)` for canonical `w` and `bits` of at most 64.
pub(in super::super) const fn companion(w: u64, bits: u32) -> u64 {
    // The remainder is known, and the division of the rest is exact: a multiplication by p^-1 modulo 2^64.
    let remainder = multiply_canonical(w, ((1u128 << bits) % P as u128) as u64);
    let shifted = if bits < 64 { w << bits } else { 0 };
    shifted.wrapping_sub(remainder).wrapping_mul(P_INVERSE)
}

fn multiply_add(out: &mut [u64], words: &[u64], scalar: u64) {
    assert_eq!(out.len(), words.len());
    for (out, &word) in out.iter_mut().zip(words) {
        *out = add_canonical(*out, reduce(wide(word, scalar)));
    }
}

const fn factor(canonical: u64) -> Factor {
    [canonical, companion(canonical, 64)]
}

#[inline(always)]
const fn load(x: &[u64; 1]) -> u64 {
    x[0]
}

#[inline(always)]
const fn store(x: &mut [u64; 1], value: u64) {
    x[0] = value;
}

#[inline(always)]
const fn splat(word: u64) -> u64 {
    word
}

#[inline(always)]
const fn transpose(x: [u64; 1]) -> [u64; 1] {
    x
}

#[inline(always)]
const fn enter_register(x: u64) -> u64 {
    reduce(wide(x, R_SQUARED))
}

#[inline(always)]
const fn leave_register(x: u64) -> u64 {
    reduce(x as u128)
}

#[inline(always)]
const fn sum(x: u64, y: u64) -> u64 {
    x.wrapping_add(y)
}

/// In `[0, p)`. The factors are below 2^48, so their product is far below p * 2^64.
#[inline(always)]
const fn product(x: u64, y: u64) -> u64 {
    reduce(wide(x, y))
}

/// In `[0, 2p)`, for any word.
#[inline(always)]
const fn scaled(x: u64, [w, companion]: [u64; 2]) -> u64 {
    let quotient = ((x as u128 * companion as u128) >> 64) as u64;
    x.wrapping_mul(w).wrapping_sub(quotient.wrapping_mul(P))
}

/// Adds at most 2p to the larger of both bounds: 13 stages end below 28p < 2^40.
#[inline(always)]
const fn butterfly(x: u64, y: u64, w: [u64; 2]) -> (u64, u64) {
    let t = scaled(y, w);
    (x.wrapping_add(t), x.wrapping_add(2 * P).wrapping_sub(t))
}

/// Doubles the bound of the sum: 13 stages from 4p end below 2^51, which `scaled` takes.
#[inline(always)]
const fn butterfly_inverse(x: u64, y: u64, w: [u64; 2], bound: u64) -> (u64, u64) {
    (x.wrapping_add(y), scaled(x.wrapping_add(bound).wrapping_sub(y), w))
}

/// A multiple of p: two products or scaled words together.
#[inline(always)]
const fn first_bound() -> u64 {
    4 * P
}

field_transform!(u64);

/// In Montgomery form, so that the reduction of a sum gives a canonical word.
fn pack_rows(rows: &[u64], width: usize) -> Rows {
    assert!(width > 0 && rows.len().is_multiple_of(width));
    let words = rows.iter().map(|&x| enter_register(x)).collect();
    Rows { width, count: rows.len() / width, words, low: Vec::new() }
}

fn products(rows: &Rows, columns: &[u64], stride: usize, out: &mut [u64]) {
    let n = out.len() / rows.count;
    assert_eq!(out.len(), n * rows.count);
    // Four rows stay in the nearest cache while all columns pass by.
    for (block, out) in out.chunks_mut(4 * n).enumerate() {
        let row = |r: usize| rows.row(4 * block + r);
        for s in 0..n {
            let column = &columns[s * stride..][..rows.width];
            if out.len() == 4 * n {
                let four = dot4([row(0), row(1), row(2), row(3)], column);
                four.into_iter().enumerate().for_each(|(r, sum)| out[r * n + s] = sum);
            } else {
                (0..out.len() / n).for_each(|r| out[r * n + s] = dot(row(r), column));
            }
        }
    }
}

fn dot(row: &[u64], column: &[u64]) -> u64 {
    reduce(row.iter().zip(column).fold(0, |sum, (&a, &b)| sum + wide(a, b)))
}

/// Four sums at once: one pass over the column, four independent carry chains.
fn dot4(rows: [&[u64]; 4], column: &[u64]) -> [u64; 4] {
    let n = column.len();
    // Equal lengths in the compiler's sight, so that the loop has no bounds checks.
    let [r0, r1, r2, r3] = rows.map(|row| &row[..n]);
    let (mut s0, mut s1, mut s2, mut s3) = (0u128, 0u128, 0u128, 0u128);
    for i in 0..n {
        s0 = s0.wrapping_add(wide(r0[i], column[i]));
        s1 = s1.wrapping_add(wide(r1[i], column[i]));
        s2 = s2.wrapping_add(wide(r2[i], column[i]));
        s3 = s3.wrapping_add(wide(r3[i], column[i]));
    }
    [reduce(s0), reduce(s1), reduce(s2), reduce(s3)]
}
