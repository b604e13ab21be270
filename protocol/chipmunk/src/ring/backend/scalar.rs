//! Portable kernels: the definition that every other back-end must match bit for bit.

#![expect(
    clippy::cast_possible_truncation,
    reason = "modular arithmetic: high and low halves of u64 products"
)]

use super::super::crt::PairReduction;
use super::super::cumulative::CumulativeTable;
use super::super::modulus::{Prime, max, min};
use super::super::switch::ModulusSwitch;
use super::{Kernels, MAX_UNREDUCED, Simd, registers, registers_mut};
use crate::N;
use crate::digits::{DigitBase, PairDigits};
use zeroize::Zeroizing;

pub(super) static KERNELS: Kernels = Kernels {
    simd: Simd::Scalar,
    ntt_forward,
    ntt_inverse,
    add,
    sub,
    mul,
    dot,
    combine,
    scale,
    from_signed,
    centred,
    decompose,
    decompose_pair,
    recompose_pair,
    reduce_pair,
    gaussian,
    encrypt,
    decrypt,
    pack,
    unpack,
    add_packed,
    sub_packed,
    field: &super::field::scalar::KERNELS,
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

fn dot(prime: &Prime, terms: &[[&[u32]; 2]], out: &mut [u32]) {
    let mut acc = Zeroizing::new([0u64; N]);
    acc.iter_mut().zip(&*out).for_each(|(acc, &out)| *acc = out.into());
    for terms in terms.chunks(MAX_UNREDUCED) {
        for [a, b] in terms {
            acc.iter_mut().zip(*a).zip(*b).for_each(|((acc, &a), &b)| *acc += u64::from(a) * u64::from(b));
        }
        acc.iter_mut().for_each(|acc| *acc = prime.reduce(*acc).into());
    }
    out.iter_mut().zip(acc.iter()).for_each(|(out, &acc)| *out = acc as u32);
}

fn combine(prime: &Prime, terms: &[(u32, &[u32])], out: &mut [u32]) {
    let rows: Vec<[u32; N]> = terms.iter().map(|(factor, _)| [*factor; N]).collect();
    let terms: Vec<[&[u32]; 2]> = rows.iter().zip(terms).map(|(row, (_, words))| [&row[..], words]).collect();
    dot(prime, &terms, out);
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

fn centred(prime: &Prime, residues: &[u32], out: &mut [i32]) {
    out.iter_mut().zip(residues).for_each(|(out, &residue)| *out = prime.centred(residue));
}

/// Shifting by (b^3 - 1)/2 turns balanced digits into plain ones, each shifted by (b-1)/2.
fn decompose(prime: &Prime, base: &DigitBase, residues: &[u32], out: [&mut [i32]; 3]) {
    let (b, bound) = (base.base(), base.bound().cast_signed());
    let shift = b.pow(3) >> 1;
    let [out_0, out_1, out_2] = out;
    for (((out_0, out_1), out_2), &residue) in out_0.iter_mut().zip(out_1).zip(out_2).zip(residues) {
        let value = shift.wrapping_add_signed(prime.centred(residue));
        let divide = |x: u32| ((u64::from(x) * u64::from(base.reciprocal())) >> 32) as u32;
        let high = divide(value);
        let top = divide(high);
        *out_0 = (value - high * b).cast_signed() - bound;
        *out_1 = (high - top * b).cast_signed() - bound;
        *out_2 = top.cast_signed() - bound;
    }
}

/// As [`decompose`], with one digit more: the lift is shifted by (b^4 - 1)/2. The plain digits stay as they are.
fn decompose_pair(s: &PairDigits, residues: [&[u32]; 2], out: [&mut [u32]; 4]) {
    let b = u64::from(s.base.base());
    let (shift, product) = (b.pow(4) >> 1, s.pair.lift.modulus());
    // floor(2^64 / b) + 1: exact below 2^64 / b, and b^5 < 2^57.
    let reciprocal = u64::MAX / b + 1;
    let mut out = out.map(|out| out.iter_mut());
    for (&r0, &r1) in residues[0].iter().zip(residues[1]) {
        let lifted = s.pair.lift.lift(&s.pair.primes[1], r0, r1);
        let above = ((product / 2).wrapping_sub(lifted).cast_signed() >> 63).cast_unsigned();
        let mut value = lifted.wrapping_add(shift).wrapping_sub(product & above);
        for out in &mut out {
            let quotient = ((u128::from(value) * u128::from(reciprocal)) >> 64) as u64;
            *out.next().expect("rows of one length") = (value - quotient * b) as u32;
            value = quotient;
        }
    }
}

fn recompose_pair(s: &PairDigits, offset: u32, digits: [&[u32]; 4], out: [&mut [u32]; 2]) {
    let b = u64::from(s.base.base());
    for (out, prime) in out.into_iter().zip(&s.pair.primes) {
        let excess = s.excess(prime, offset);
        for (i, out) in out.iter_mut().enumerate() {
            // Both pairs of digits are below 2^32, and the square of the base is below 2^23.
            let value = digits.iter().rev().fold(0, |value, row| value * b + u64::from(row[i]));
            *out = prime.sub(prime.reduce(value), excess);
        }
    }
}

fn reduce_pair(s: &PairReduction, residues: [&[u32]; 2], out: &mut [u32]) {
    let half = s.lift.modulus() / 2;
    for ((out, &r0), &r1) in out.iter_mut().zip(residues[0]).zip(residues[1]) {
        let lifted = s.lift.lift(&s.pair[1], r0, r1);
        // The pair's product is taken off again where the centred lift is negative.
        let negative = ((half.wrapping_sub(lifted) >> 63) as u32).wrapping_neg();
        *out = s.target.sub(s.target.reduce(lifted), s.wrap & negative);
    }
}

/// Counts the table entries at or below the word: each comparison is the borrow of a 63-bit subtraction, so neither
/// branches nor addresses depend on the word.
fn gaussian(table: &CumulativeTable, words: &[[u8; 8]], out: &mut [i32]) {
    const LOW_63: u64 = u64::MAX >> 1;
    let table = table.entries();
    for (out, word) in out.iter_mut().zip(words) {
        let word = u64::from_le_bytes(*word);
        let uniform = word & LOW_63;
        // (uniform - entry) >> 63 is 1 when uniform < entry, as both are below 2^63.
        let below = table.iter().fold(0u64, |below, &entry| below + (uniform.wrapping_sub(entry) >> 63));
        let magnitude = (table.len() as u64 - below) as u32;
        let sign = ((word >> 63) as u32).wrapping_neg();
        *out = ((magnitude ^ sign).wrapping_sub(sign)).cast_signed();
    }
}

/// `x - modulus`, or `x` where that would be negative; both below 2^63.
const fn subtract_once(x: u64, modulus: u64) -> u64 {
    let difference = x.wrapping_sub(modulus);
    difference.wrapping_add(modulus & (difference.cast_signed() >> 63).cast_unsigned())
}

fn encrypt(s: &ModulusSwitch, mask: [&[u32]; 2], error: &[i32], message: &[u64], out: [&mut [u32]; 2]) {
    let (q, wire_q) = (s.kahe.lift.modulus(), s.wire.lift.modulus());
    let [out_0, out_1] = out;
    let out = out_0.iter_mut().zip(out_1);
    for ((((out_0, out_1), (&r0, &r1)), &error), &message) in
        out.zip(mask[0].iter().zip(mask[1])).zip(error).zip(message)
    {
        // Below 3q: a lift, an error, and a scaled message that may round up to q.
        let c = s.kahe.lift.lift(&s.kahe.primes[1], r0, r1) + s.message_to_kahe.apply(message) + q;
        let c = subtract_once(subtract_once(c.wrapping_add_signed(error.into()), q), q);
        // c Q / q may round up to Q, which is 0.
        let c = subtract_once(s.kahe_to_wire.apply(c), wire_q);
        (*out_0, *out_1) = (s.wire.primes[0].reduce(c), s.wire.primes[1].reduce(c));
    }
}

fn decrypt(s: &ModulusSwitch, sum: [&[u32]; 2], mask: [&[u32]; 2], out: &mut [u64]) -> u64 {
    let q = s.kahe.lift.modulus();
    let mut largest = 0;
    for (((&s0, &s1), (&r0, &r1)), out) in sum[0].iter().zip(sum[1]).zip(mask[0].iter().zip(mask[1])).zip(out)
    {
        let [p0, p1] = &s.wire.primes;
        let c = s.wire_to_kahe.apply(s.wire.lift.lift(p1, p0.reduce(s0.into()), p1.reduce(s1.into())));
        let x = subtract_once(c + q - s.kahe.lift.lift(&s.kahe.primes[1], r0, r1), q);
        // The rounded c may be q itself.
        let x = subtract_once(x, q);
        let (m, residual) = s.kahe_to_message.apply_with_remainder(x);
        *out = subtract_once(m, s.t);
        largest = max_u64(largest, residual.unsigned_abs());
    }
    largest
}

/// The larger of two values below 2^63. Branch-free.
const fn max_u64(a: u64, b: u64) -> u64 {
    a + (b.wrapping_sub(a) & !(b.wrapping_sub(a).cast_signed() >> 63).cast_unsigned())
}

/// Little-endian bit stream. 2048 words of any width fill whole quadruples of bytes.
pub(super) fn pack(width: u32, words: &[u32], out: &mut [u8]) {
    debug_assert!(words.iter().all(|&word| u64::from(word) < 1 << width));
    let (mut acc, mut bits) = (0u64, 0);
    let mut chunks = registers_mut::<4, _>(out).iter_mut();
    for &word in words {
        acc |= u64::from(word) << bits;
        bits += width;
        if bits >= 32 {
            *chunks.next().expect("room for all words") = (acc as u32).to_le_bytes();
            acc >>= 32;
            bits -= 32;
        }
    }
    assert!(bits == 0 && chunks.next().is_none(), "as many bytes as the words fill");
}

pub(super) fn unpack(width: u32, bytes: &[u8], out: &mut [u32]) -> u32 {
    each_packed(width, bytes, out, |out, word| *out = word)
}

pub(super) fn add_packed(width: u32, bytes: &[u8], out: &mut [u32]) -> u32 {
    each_packed(width, bytes, out, |out, word| *out = out.wrapping_add(word))
}

pub(super) fn sub_packed(width: u32, bytes: &[u8], out: &mut [u32]) -> u32 {
    each_packed(width, bytes, out, |out, word| *out = out.wrapping_sub(word))
}

#[inline(always)]
fn each_packed(width: u32, bytes: &[u8], out: &mut [u32], put: impl Fn(&mut u32, u32)) -> u32 {
    assert_eq!(8 * bytes.len(), out.len() * width as usize, "as many bytes as the words fill");
    let mask = u64::from(u32::MAX >> (32 - width));
    let mut chunks = registers::<4, _>(bytes).iter();
    let (mut acc, mut bits) = (0u64, 0);
    let mut largest = 0;
    for out in out {
        if bits < width {
            let chunk = chunks.next().expect("the length was checked");
            acc |= u64::from(u32::from_le_bytes(*chunk)) << bits;
            bits += 32;
        }
        let word = (acc & mask) as u32;
        largest = max(largest, word);
        put(out, word);
        acc >>= width;
        bits -= width;
    }
    largest
}
