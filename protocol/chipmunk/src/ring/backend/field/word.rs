//! Arithmetic on single words modulo p, in Montgomery form with R = 2^64: what the portable kernels and the payload
//! layer's polynomials are made of.
//!
//! Constant time in source: whether the compiler has left it so, the check under valgrind says where it matters.

#![expect(
    clippy::cast_possible_truncation,
    reason = "word splitting of modular arithmetic, ranges in the comments"
)]

use super::PRIME as P;

/// p^-1 modulo 2^64: each step doubles the number of correct low bits, of which p itself has 20 (p = 1 mod 2^20).
pub(in super::super) const P_INVERSE: u64 = {
    let mut inverse = P;
    let mut step = 0;
    while step < 2 {
        inverse = inverse.wrapping_mul(2u64.wrapping_sub(P.wrapping_mul(inverse)));
        step += 1;
    }
    inverse
};

/// 2^64 modulo p.
pub const R: u64 = ((1u128 << 64) % P as u128) as u64;

/// 2^128 modulo p.
pub const R_SQUARED: u64 = ((R as u128 * R as u128) % P as u128) as u64;

/// `value` if it is in `[0, p)`, `value + p` if it is in `[-p, 0)` (two's complement).
#[inline(always)]
pub const fn add_modulus_if_negative(value: u64) -> u64 {
    // A mask, not `if`: the value may be secret.
    value.wrapping_add(P & (value >> 63).wrapping_neg())
}

/// `t / R` modulo p, in `[0, p)`. Range: `t < p * 2^64`.
#[inline(always)]
pub const fn reduce(t: u128) -> u64 {
    // m * p and t agree in the low word, so the difference of the high words is the exact quotient (t - m * p) / R.
    let m = (t as u64).wrapping_mul(P_INVERSE);
    let high = ((m as u128 * P as u128) >> 64) as u64;
    // Both high words are below p, so the difference is in (-p, p).
    add_modulus_if_negative(((t >> 64) as u64).wrapping_sub(high))
}

/// `a * b`, which cannot overflow in 128 bits.
#[inline(always)]
pub const fn wide(a: u64, b: u64) -> u128 {
    a as u128 * b as u128
}

/// `a + b` modulo p, all canonical.
#[inline(always)]
pub const fn add_canonical(a: u64, b: u64) -> u64 {
    // a + b < 2^37; minus p it is in [-p, p).
    add_modulus_if_negative(a.wrapping_add(b).wrapping_sub(P))
}
