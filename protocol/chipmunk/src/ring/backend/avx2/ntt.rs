//! The transform: radix-4 passes over memory for eight stages, and the last three on transposed blocks.
//!
//! A register holds 8 residues; stages of half-size 8 and more combine whole registers. For the others 64 residues are
//! transposed, as an 8x8 matrix, so that they do too.
//!
//! Modulo a wide prime, values are unsigned and reduced on the way, as in the portable code. Modulo a narrow one they
//! are signed and grow: a product is between -q/4 and 5q/4, so a forward stage adds at most 5q/4 to a magnitude, and an
//! inverse one at most doubles it.

use super::arith::{Factor, Modulus, mul_high_signed, mul_lazy, once};
use super::mem::{load, load_halves, store, store_halves};
use super::twiddles::{Table, Tables, is_narrow};
use crate::N;
use crate::ring::backend::registers_mut;
use crate::ring::modulus::Prime;
use std::arch::x86_64::*;

/// Registers of one polynomial.
const REGISTERS: usize = N / 8;

/// One polynomial.
type Registers = [[u32; 8]; REGISTERS];

#[target_feature(enable = "avx2")]
pub(super) fn forward(prime: &Prime, a: &mut [u32]) {
    debug_assert!(a.iter().all(|&x| x < prime.q()));
    let tables = prime.ntt().avx2.get_or_init(|| Tables::new(prime));
    if is_narrow(prime) {
        forward_in(Arithmetic::<true>::new(prime, tables), &tables.forward, polynomial(a));
    } else {
        forward_in(Arithmetic::<false>::new(prime, tables), &tables.forward, polynomial(a));
    }
}

#[target_feature(enable = "avx2")]
pub(super) fn inverse(prime: &Prime, a: &mut [u32]) {
    debug_assert!(a.iter().all(|&x| x < prime.q()));
    let tables = prime.ntt().avx2.get_or_init(|| Tables::new(prime));
    if is_narrow(prime) {
        inverse_in(Arithmetic::<true>::new(prime, tables), tables, polynomial(a));
    } else {
        inverse_in(Arithmetic::<false>::new(prime, tables), tables, polynomial(a));
    }
}

/// The arithmetic modulo one prime.
#[derive(Clone, Copy)]
struct Arithmetic<const NARROW: bool> {
    m: Modulus,
    /// 32q, and what estimates quotients of numbers below 64q.
    offset: __m256i,
    shift: __m256i,
    reciprocal: __m256i,
}

impl<const NARROW: bool> Arithmetic<NARROW> {
    #[target_feature(enable = "avx2")]
    #[inline]
    fn new(prime: &Prime, tables: &Tables) -> Self {
        let m = Modulus::new(prime);
        Self {
            m,
            offset: _mm256_slli_epi32::<5>(m.q),
            shift: _mm256_set1_epi32(tables.estimate.shift.cast_signed()),
            reciprocal: _mm256_set1_epi32(tables.estimate.reciprocal.cast_signed()),
        }
    }

    /// Cooley-Tukey. Wide: inputs in `[0, 4q)`, outputs too.
    #[target_feature(enable = "avx2")]
    #[inline]
    fn butterfly(&self, x: __m256i, y: __m256i, f: Factor) -> (__m256i, __m256i) {
        if NARROW {
            let t = self.mul_signed(y, f);
            (_mm256_add_epi32(x, t), _mm256_sub_epi32(x, t))
        } else {
            let (u, t) = (once(x, self.m.q2), mul_lazy(y, f, self.m.q));
            (_mm256_add_epi32(u, t), _mm256_sub_epi32(_mm256_add_epi32(u, self.m.q2), t))
        }
    }

    /// Gentleman-Sande. Wide: inputs in `[0, 2q)`, outputs too.
    #[target_feature(enable = "avx2")]
    #[inline]
    fn butterfly_inverse(&self, x: __m256i, y: __m256i, f: Factor) -> (__m256i, __m256i) {
        let sum = _mm256_add_epi32(x, y);
        if NARROW {
            (sum, self.mul_signed(_mm256_sub_epi32(x, y), f))
        } else {
            let difference = _mm256_sub_epi32(_mm256_add_epi32(x, self.m.q2), y);
            (once(sum, self.m.q2), mul_lazy(difference, f, self.m.q))
        }
    }

    /// `y w` in `(-q/4, 5q/4)`: the companion is off by at most 1/2, which shifts the quotient by at most y / 2^33.
    #[target_feature(enable = "avx2")]
    #[inline]
    fn mul_signed(&self, y: __m256i, f: Factor) -> __m256i {
        let quotient = mul_high_signed(y, f.even, f.odd);
        _mm256_sub_epi32(_mm256_mullo_epi32(y, f.w), _mm256_mullo_epi32(quotient, self.m.q))
    }

    /// From a signed number of magnitude below 32q to `[-q/2, 2q/3)`. The estimate of the quotient loses at most 1/8 to
    /// the bits shifted out and 1/32 to the reciprocal's rounding, and is rounded to the nearest integer.
    #[target_feature(enable = "avx2")]
    #[inline]
    fn reduce_signed(&self, x: __m256i) -> __m256i {
        let x = _mm256_add_epi32(x, self.offset);
        let quotient = _mm256_mulhrs_epi16(_mm256_srlv_epi32(x, self.shift), self.reciprocal);
        _mm256_sub_epi32(x, _mm256_mullo_epi32(quotient, self.m.q))
    }

    /// The result of a forward transform in `[0, q)`.
    #[target_feature(enable = "avx2")]
    #[inline]
    fn canonical(&self, x: __m256i) -> __m256i {
        if NARROW {
            // A negative number is a huge word.
            let x = self.reduce_signed(x);
            _mm256_min_epu32(x, _mm256_add_epi32(x, self.m.q))
        } else {
            once(once(x, self.m.q2), self.m.q)
        }
    }

    /// One stage on eight registers: partners are `HALF` registers apart; `factor` takes the block's number.
    #[target_feature(enable = "avx2")]
    #[inline]
    fn stage<const HALF: usize>(&self, x: &mut [__m256i; 8], factor: impl Fn(usize) -> Factor) {
        // A constant number of rounds, so that the registers stay registers.
        for k in 0..4 {
            let i = k / HALF * 2 * HALF + k % HALF;
            (x[i], x[i + HALF]) = self.butterfly(x[i], x[i + HALF], factor(k / HALF));
        }
    }

    /// Like [`stage`](Self::stage), for the inverse.
    #[target_feature(enable = "avx2")]
    #[inline]
    fn stage_inverse<const HALF: usize>(&self, x: &mut [__m256i; 8], factor: impl Fn(usize) -> Factor) {
        for k in 0..4 {
            let i = k / HALF * 2 * HALF + k % HALF;
            (x[i], x[i + HALF]) = self.butterfly_inverse(x[i], x[i + HALF], factor(k / HALF));
        }
    }
}

/// Narrow: eleven stages leave magnitudes below q + 11 5q/4 < 32q.
#[target_feature(enable = "avx2")]
#[inline]
fn forward_in<const NARROW: bool>(ring: Arithmetic<NARROW>, table: &Table, a: &mut Registers) {
    forward_pass::<1, NARROW>(ring, table, a);
    forward_pass::<4, NARROW>(ring, table, a);
    forward_pass::<16, NARROW>(ring, table, a);
    forward_pass::<64, NARROW>(ring, table, a);
    for ([low, high], [c, d]) in block_pairs(a).zip(table.columns()) {
        let (mut x, mut y) = (load_transposed(low), load_transposed(high));
        ring.stage::<4>(&mut x, |b| c.factor(4, b));
        ring.stage::<4>(&mut y, |b| d.factor(4, b));
        ring.stage::<2>(&mut x, |b| c.factor(2, b));
        ring.stage::<2>(&mut y, |b| d.factor(2, b));
        ring.stage::<1>(&mut x, |b| c.factor(1, b));
        ring.stage::<1>(&mut y, |b| d.factor(1, b));
        store_transposed(low, x);
        store_transposed(high, y);
    }
    // On its own: at the end of the loop above it would lengthen the chain of dependent instructions.
    for x in a {
        store(x, ring.canonical(load(x)));
    }
}

/// Two stages, from `BLOCKS` blocks to four times as many.
#[target_feature(enable = "avx2")]
#[inline]
fn forward_pass<const BLOCKS: usize, const NARROW: bool>(
    ring: Arithmetic<NARROW>,
    table: &Table,
    a: &mut Registers,
) {
    for (block, chunk) in a.chunks_exact_mut(REGISTERS / BLOCKS).enumerate() {
        let first = table.uniform(BLOCKS + block);
        let second = [0, 1].map(|half| table.uniform(2 * (BLOCKS + block) + half));
        for [p0, p1, p2, p3] in quarters(chunk) {
            let (x0, x2) = ring.butterfly(load(p0), load(p2), first);
            let (x1, x3) = ring.butterfly(load(p1), load(p3), first);
            let (x0, x1) = ring.butterfly(x0, x1, second[0]);
            let (x2, x3) = ring.butterfly(x2, x3, second[1]);
            store(p0, x0);
            store(p1, x1);
            store(p2, x2);
            store(p3, x3);
        }
    }
}

#[target_feature(enable = "avx2")]
#[inline]
fn inverse_in<const NARROW: bool>(ring: Arithmetic<NARROW>, tables: &Tables, a: &mut Registers) {
    let table = &tables.inverse;
    for ([low, high], [c, d]) in block_pairs(a).zip(table.columns()) {
        let (mut x, mut y) = (load_transposed(low), load_transposed(high));
        ring.stage_inverse::<1>(&mut x, |b| c.factor(1, b));
        ring.stage_inverse::<1>(&mut y, |b| d.factor(1, b));
        ring.stage_inverse::<2>(&mut x, |b| c.factor(2, b));
        ring.stage_inverse::<2>(&mut y, |b| d.factor(2, b));
        ring.stage_inverse::<4>(&mut x, |b| c.factor(4, b));
        ring.stage_inverse::<4>(&mut y, |b| d.factor(4, b));
        store_transposed(low, x);
        store_transposed(high, y);
    }
    inverse_pass::<64, NARROW>(ring, table, a);
    inverse_pass::<16, NARROW>(ring, table, a);
    inverse_pass::<4, NARROW>(ring, table, a);
    inverse_last(ring, tables, a);
}

/// Two stages, from four times `BLOCKS` blocks to `BLOCKS`.
///
/// Narrow: the three stages before leave magnitudes up to 8q, so that the first pass has sums up to 32q, which are
/// reduced to 2q/3. Its other outputs are at most two products, below 5q/2, so the later passes have sums up to 10q.
#[target_feature(enable = "avx2")]
#[inline]
fn inverse_pass<const BLOCKS: usize, const NARROW: bool>(
    ring: Arithmetic<NARROW>,
    table: &Table,
    a: &mut Registers,
) {
    for (block, chunk) in a.chunks_exact_mut(REGISTERS / BLOCKS).enumerate() {
        let first = [0, 1].map(|half| table.uniform(2 * (BLOCKS + block) + half));
        let second = table.uniform(BLOCKS + block);
        for [p0, p1, p2, p3] in quarters(chunk) {
            let (x0, x1) = ring.butterfly_inverse(load(p0), load(p1), first[0]);
            let (x2, x3) = ring.butterfly_inverse(load(p2), load(p3), first[1]);
            let (x0, x2) = ring.butterfly_inverse(x0, x2, second);
            let (x1, x3) = ring.butterfly_inverse(x1, x3, second);
            store(p0, if NARROW { ring.reduce_signed(x0) } else { x0 });
            store(p1, x1);
            store(p2, x2);
            store(p3, x3);
        }
    }
}

/// The last two stages, with the factor 1/2048 in the last, and the reduction to `[0, q)`.
#[target_feature(enable = "avx2")]
#[inline]
fn inverse_last<const NARROW: bool>(ring: Arithmetic<NARROW>, tables: &Tables, a: &mut Registers) {
    let first = [2, 3].map(|i| tables.inverse.uniform(i));
    let (scale, last) = (tables.scale.factor(), tables.scaled_last.factor());
    let (q, q2) = (ring.m.q, ring.m.q2);
    for [p0, p1, p2, p3] in quarters(a) {
        let (x0, x1) = ring.butterfly_inverse(load(p0), load(p1), first[0]);
        let (x2, x3) = ring.butterfly_inverse(load(p2), load(p3), first[1]);
        for (p, p_half, x, y) in [(p0, p2, x0, x2), (p1, p3, x1, x3)] {
            let sum = _mm256_add_epi32(x, y);
            let products = if NARROW {
                // A negative product is a huge word, so the smaller one is in [0, 5q/4).
                [(sum, scale), (_mm256_sub_epi32(x, y), last)].map(|(y, f)| {
                    let product = ring.mul_signed(y, f);
                    _mm256_min_epu32(product, _mm256_add_epi32(product, q))
                })
            } else {
                let difference = _mm256_sub_epi32(_mm256_add_epi32(x, q2), y);
                [mul_lazy(sum, scale, q), mul_lazy(difference, last, q)]
            };
            store(p, once(products[0], q));
            store(p_half, once(products[1], q));
        }
    }
}

/// A polynomial as registers.
fn polynomial(a: &mut [u32]) -> &mut Registers {
    registers_mut(a).try_into().expect("a transform takes 2048 residues")
}

/// Blocks of 64 residues, two by two: they advance together, as eight butterflies hide the latency of one and four do
/// not.
fn block_pairs(a: &mut Registers) -> impl Iterator<Item = [&mut [[u32; 8]; 8]; 2]> {
    let (blocks, _) = a.as_chunks_mut::<8>();
    blocks.as_chunks_mut::<2>().0.iter_mut().map(|pair| pair.each_mut())
}

/// The four quarters of a block, register by register.
fn quarters(block: &mut [[u32; 8]]) -> impl Iterator<Item = [&mut [u32; 8]; 4]> {
    let (low, high) = block.split_at_mut(block.len() / 2);
    let (a0, a1) = low.split_at_mut(low.len() / 2);
    let (a2, a3) = high.split_at_mut(high.len() / 2);
    a0.iter_mut().zip(a1).zip(a2).zip(a3).map(|(((p0, p1), p2), p3)| [p0, p1, p2, p3])
}

/// Loads an 8x8 matrix of words and transposes it: halves of rows k and k + 4 share a register from the start, so the
/// rest stays within halves.
#[target_feature(enable = "avx2")]
#[inline]
fn load_transposed(rows: &[[u32; 8]; 8]) -> [__m256i; 8] {
    let half = |half: usize| {
        transpose_halves(
            [0, 1, 2, 3].map(|k| load_halves(&rows[k].as_chunks().0[half], &rows[k + 4].as_chunks().0[half])),
        )
    };
    let ([x0, x1, x2, x3], [x4, x5, x6, x7]) = (half(0), half(1));
    [x0, x1, x2, x3, x4, x5, x6, x7]
}

/// The way back.
#[target_feature(enable = "avx2")]
#[inline]
fn store_transposed(rows: &mut [[u32; 8]; 8], [x0, x1, x2, x3, x4, x5, x6, x7]: [__m256i; 8]) {
    let (low, high) = rows.split_at_mut(4);
    for (half, x) in [[x0, x1, x2, x3], [x4, x5, x6, x7]].into_iter().enumerate() {
        for ((low, high), x) in low.iter_mut().zip(&mut *high).zip(transpose_halves(x)) {
            store_halves(&mut low.as_chunks_mut().0[half], &mut high.as_chunks_mut().0[half], x);
        }
    }
}

/// Transposes two 4x4 matrices, in the low and in the high halves.
#[target_feature(enable = "avx2")]
#[inline]
fn transpose_halves([x0, x1, x2, x3]: [__m256i; 4]) -> [__m256i; 4] {
    let (a, b) = (_mm256_unpacklo_epi32(x0, x1), _mm256_unpackhi_epi32(x0, x1));
    let (c, d) = (_mm256_unpacklo_epi32(x2, x3), _mm256_unpackhi_epi32(x2, x3));
    [
        _mm256_unpacklo_epi64(a, c),
        _mm256_unpackhi_epi64(a, c),
        _mm256_unpacklo_epi64(b, d),
        _mm256_unpackhi_epi64(b, d),
    ]
}
