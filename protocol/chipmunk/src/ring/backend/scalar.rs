//! Portable kernels: the definition that every other back-end must match bit for bit.

#![expect(
    clippy::cast_possible_truncation,
    reason = "modular arithmetic: high and low halves of u64 products"
)]

use super::super::modulus::{Prime, min};
use super::{Kernels, Simd};
use crate::N;

pub(super) static KERNELS: Kernels = Kernels {
    simd: Simd::Scalar,
    ntt_forward,
    ntt_inverse,
    add,
    sub,
    mul,
    mul_acc,
    reduce,
    scale,
    from_signed,
    gaussian,
};

/// `y * w mod q` in `[0, 2q)` for any u32 `y`, with the companion of `w`.
#[inline(always)]
const fn shoup_lazy(y: u32, w: u32, companion: u32, q: u32) -> u32 {
    let quotient = ((y as u64 * companion as u64) >> 32) as u32;
    w.wrapping_mul(y).wrapping_sub(quotient.wrapping_mul(q))
}

/// Cooley-Tukey with lazy reduction: values stay in `[0, 4q)` between stages, which q < 2^30 allows.
///
/// Source: Harvey 2014 (arXiv 1205.2926), sections 3 and 4.
fn ntt_forward(prime: &Prime, a: &mut [u32]) {
    debug_assert!(a.len() == N && a.iter().all(|&x| x < prime.q()));
    let (q, tables) = (prime.q(), prime.ntt());
    let mut half = N;
    let mut blocks = 1;
    while blocks < N {
        half /= 2;
        let twiddles =
            tables.forward.w[blocks..2 * blocks].iter().zip(&tables.forward.companion[blocks..2 * blocks]);
        for (block, (&w, &companion)) in a.chunks_exact_mut(2 * half).zip(twiddles) {
            let (low, high) = block.split_at_mut(half);
            for (x, y) in low.iter_mut().zip(high) {
                let u = min(*x, x.wrapping_sub(2 * q));
                let t = shoup_lazy(*y, w, companion, q);
                *x = u + t;
                *y = u + 2 * q - t;
            }
        }
        blocks *= 2;
    }
    for x in a {
        let y = min(*x, x.wrapping_sub(2 * q));
        *x = min(y, y.wrapping_sub(q));
    }
}

/// Gentleman-Sande with lazy reduction: values stay in `[0, 2q)` between stages.
fn ntt_inverse(prime: &Prime, a: &mut [u32]) {
    debug_assert!(a.len() == N && a.iter().all(|&x| x < prime.q()));
    let (q, tables) = (prime.q(), prime.ntt());
    let mut half = 1;
    let mut blocks = N / 2;
    while blocks >= 1 {
        let twiddles =
            tables.inverse.w[blocks..2 * blocks].iter().zip(&tables.inverse.companion[blocks..2 * blocks]);
        for (block, (&w, &companion)) in a.chunks_exact_mut(2 * half).zip(twiddles) {
            let (low, high) = block.split_at_mut(half);
            for (x, y) in low.iter_mut().zip(high) {
                let sum = *x + *y;
                let difference = *x + 2 * q - *y;
                *x = min(sum, sum.wrapping_sub(2 * q));
                *y = shoup_lazy(difference, w, companion, q);
            }
        }
        half *= 2;
        blocks /= 2;
    }
    for x in a {
        let y = shoup_lazy(*x, tables.n_inverse, tables.n_inverse_shoup, q);
        *x = min(y, y.wrapping_sub(q));
    }
}

fn add(prime: &Prime, a: &mut [u32], b: &[u32]) {
    a.iter_mut().zip(b).for_each(|(a, &b)| *a = prime.add(*a, b));
}

fn sub(prime: &Prime, a: &mut [u32], b: &[u32]) {
    a.iter_mut().zip(b).for_each(|(a, &b)| *a = prime.sub(*a, b));
}

fn mul(prime: &Prime, out: &mut [u32], a: &[u32], b: &[u32]) {
    out.iter_mut().zip(a).zip(b).for_each(|((out, &a), &b)| *out = prime.mul(a, b));
}

fn mul_acc(acc: &mut [u64], a: &[u32], b: &[u32]) {
    acc.iter_mut().zip(a).zip(b).for_each(|((acc, &a), &b)| *acc += u64::from(a) * u64::from(b));
}

fn reduce(prime: &Prime, out: &mut [u32], acc: &[u64]) {
    out.iter_mut().zip(acc).for_each(|(out, &acc)| *out = prime.reduce(acc));
}

fn scale(prime: &Prime, a: &mut [u32], scalar: u32) {
    let (q, companion) = (prime.q(), prime.shoup(scalar));
    for a in a {
        let product = shoup_lazy(*a, scalar, companion, q);
        *a = min(product, product.wrapping_sub(q));
    }
}

fn from_signed(prime: &Prime, out: &mut [u32], values: &[i32]) {
    debug_assert!(values.iter().all(|v| v.unsigned_abs() < prime.q()));
    out.iter_mut().zip(values).for_each(|(out, &value)| *out = prime.from_signed(value));
}

/// Counts the table entries at or below the word: each comparison is the borrow of a 63-bit subtraction, so neither
/// branches nor addresses depend on the word.
fn gaussian(table: &[u64], words: &[u64], out: &mut [i32]) {
    const LOW_63: u64 = u64::MAX >> 1;
    for (out, &word) in out.iter_mut().zip(words) {
        let uniform = word & LOW_63;
        // (uniform - entry) >> 63 is 1 when uniform < entry, as both are below 2^63.
        let below = table.iter().fold(0u64, |below, &entry| below + (uniform.wrapping_sub(entry) >> 63));
        let magnitude = (table.len() as u64 - below) as u32;
        let sign = ((word >> 63) as u32).wrapping_neg();
        *out = ((magnitude ^ sign).wrapping_sub(sign)).cast_signed();
    }
}
