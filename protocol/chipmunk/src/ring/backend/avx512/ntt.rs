//! The transform: three radix-4 passes over memory, then the last five stages in registers.
//!
//! A register holds 16 residues. In the tail, 32 consecutive residues lie in two registers; before each stage the
//! residues are permuted so that butterfly partners face each other and so that lane i needs twiddle `i mod t` of the
//! t that the stage has for the block: then twiddles are plain repeating loads. Four blocks advance in lockstep,
//! because the chain of five dependent butterflies would otherwise set the pace.

use super::arith::{Factor, Modulus, mul_lazy, once};
use super::mem::{load, store, tile_2, tile_4, tile_8};
use super::narrow;
use crate::N;
use crate::ring::backend::registers_mut;
use crate::ring::modulus::{NttTables, Prime, Twiddles};
use std::arch::x86_64::*;

/// Registers of one polynomial.
const REGISTERS: usize = N / 16;

/// Blocks of 32 residues that the tail advances together.
const LOCKSTEP: usize = 4;

/// Cooley-Tukey: inputs in `[0, 4q)`, outputs too.
#[target_feature(enable = "avx512f,avx512bw,avx512dq")]
#[inline]
fn butterfly(x: __m512i, y: __m512i, f: Factor, m: Modulus) -> (__m512i, __m512i) {
    let u = once(x, m.q2);
    let t = mul_lazy(y, f, m.q);
    (_mm512_add_epi32(u, t), _mm512_sub_epi32(_mm512_add_epi32(u, m.q2), t))
}

/// Gentleman-Sande: inputs in `[0, 2q)`, outputs too.
#[target_feature(enable = "avx512f,avx512bw,avx512dq")]
#[inline]
fn butterfly_inverse(x: __m512i, y: __m512i, f: Factor, m: Modulus) -> (__m512i, __m512i) {
    let sum = _mm512_add_epi32(x, y);
    let difference = _mm512_sub_epi32(_mm512_add_epi32(x, m.q2), y);
    (once(sum, m.q2), mul_lazy(difference, f, m.q))
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512ifma")]
pub(super) fn forward(prime: &Prime, a: &mut [u32]) {
    if narrow::Tables::fit(prime) {
        return narrow::forward(prime, prime.ntt().avx512.get_or_init(|| narrow::Tables::new(prime)), a);
    }
    debug_assert!(a.iter().all(|&x| x < prime.q()));
    let a = polynomial(a);
    let (m, tables) = (Modulus::new(prime), prime.ntt());
    for blocks in [1, 4, 16] {
        forward_radix_4(tables, m, blocks, a);
    }
    forward_tail(tables, m, a);
}

/// Two stages at once, from `blocks` blocks to four times as many.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
#[inline]
fn forward_radix_4(tables: &NttTables, m: Modulus, blocks: usize, a: &mut [[u32; 16]; REGISTERS]) {
    let factor = |i: usize| Factor::uniform(tables.forward.w[i], tables.forward.companion[i]);
    for (block, chunk) in a.chunks_exact_mut(REGISTERS / blocks).enumerate() {
        let first = factor(blocks + block);
        let second = [0, 1].map(|half| factor(2 * (blocks + block) + half));
        for [p0, p1, p2, p3] in quarters(chunk) {
            let (x0, x2) = butterfly(load(p0), load(p2), first, m);
            let (x1, x3) = butterfly(load(p1), load(p3), first, m);
            let (x0, x1) = butterfly(x0, x1, second[0], m);
            let (x2, x3) = butterfly(x2, x3, second[1], m);
            store(p0, x0);
            store(p1, x1);
            store(p2, x2);
            store(p3, x3);
        }
    }
}

/// The last five stages and the reduction to `[0, q)`.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
#[inline]
fn forward_tail(tables: &NttTables, m: Modulus, a: &mut [[u32; 16]; REGISTERS]) {
    let factors = TailFactors::new(&tables.forward);
    let (groups, _) = a.as_chunks_mut::<{ 2 * LOCKSTEP }>();
    for (group, chunk) in groups.iter_mut().enumerate() {
        let block = |k| LOCKSTEP * group + k;
        let mut pairs: [_; LOCKSTEP] =
            std::array::from_fn(|k| (load(&chunk[2 * k]), load(&chunk[2 * k + 1])));
        for (k, (x, y)) in pairs.iter_mut().enumerate() {
            (*x, *y) = butterfly(*x, *y, factors.half_16(block(k)), m);
        }
        for (k, (x, y)) in pairs.iter_mut().enumerate() {
            (*x, *y) = exchange(*x, *y, &FROM_16_TO_8);
            (*x, *y) = butterfly(*x, *y, factors.half_8(block(k)), m);
        }
        for (k, (x, y)) in pairs.iter_mut().enumerate() {
            (*x, *y) = exchange(*x, *y, &FROM_8_TO_4);
            (*x, *y) = butterfly(*x, *y, factors.half_4(block(k)), m);
        }
        for (k, (x, y)) in pairs.iter_mut().enumerate() {
            (*x, *y) = exchange(*x, *y, &FROM_4_TO_2);
            (*x, *y) = butterfly(*x, *y, factors.half_2(block(k)), m);
        }
        for (k, (x, y)) in pairs.iter_mut().enumerate() {
            (*x, *y) = exchange(*x, *y, &FROM_2_TO_1);
            (*x, *y) = butterfly(*x, *y, factors.half_1(block(k)), m);
        }
        for (k, (x, y)) in pairs.into_iter().enumerate() {
            let (x, y) = exchange(canonical(x, m), canonical(y, m), &FROM_1_TO_16);
            store(&mut chunk[2 * k], x);
            store(&mut chunk[2 * k + 1], y);
        }
    }
}

/// From `[0, 4q)` to `[0, q)`.
#[target_feature(enable = "avx512f,avx512bw,avx512dq")]
#[inline]
fn canonical(x: __m512i, m: Modulus) -> __m512i {
    once(once(x, m.q2), m.q)
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512ifma")]
pub(super) fn inverse(prime: &Prime, a: &mut [u32]) {
    if narrow::Tables::fit(prime) {
        return narrow::inverse(prime, prime.ntt().avx512.get_or_init(|| narrow::Tables::new(prime)), a);
    }
    debug_assert!(a.iter().all(|&x| x < prime.q()));
    let a = polynomial(a);
    let (m, tables) = (Modulus::new(prime), prime.ntt());
    inverse_tail(tables, m, a);
    for blocks in [16, 4] {
        inverse_radix_4(tables, m, blocks, a);
    }
    inverse_last(prime, m, a);
}

/// The first five stages.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
#[inline]
fn inverse_tail(tables: &NttTables, m: Modulus, a: &mut [[u32; 16]; REGISTERS]) {
    let factors = TailFactors::new(&tables.inverse);
    let (groups, _) = a.as_chunks_mut::<{ 2 * LOCKSTEP }>();
    for (group, chunk) in groups.iter_mut().enumerate() {
        let block = |k| LOCKSTEP * group + k;
        let mut pairs: [_; LOCKSTEP] =
            std::array::from_fn(|k| (load(&chunk[2 * k]), load(&chunk[2 * k + 1])));
        for (k, (x, y)) in pairs.iter_mut().enumerate() {
            (*x, *y) = exchange(*x, *y, &FROM_16_TO_1);
            (*x, *y) = butterfly_inverse(*x, *y, factors.half_1(block(k)), m);
        }
        for (k, (x, y)) in pairs.iter_mut().enumerate() {
            (*x, *y) = exchange(*x, *y, &FROM_1_TO_2);
            (*x, *y) = butterfly_inverse(*x, *y, factors.half_2(block(k)), m);
        }
        for (k, (x, y)) in pairs.iter_mut().enumerate() {
            (*x, *y) = exchange(*x, *y, &FROM_2_TO_4);
            (*x, *y) = butterfly_inverse(*x, *y, factors.half_4(block(k)), m);
        }
        for (k, (x, y)) in pairs.iter_mut().enumerate() {
            (*x, *y) = exchange(*x, *y, &FROM_4_TO_8);
            (*x, *y) = butterfly_inverse(*x, *y, factors.half_8(block(k)), m);
        }
        for (k, (x, y)) in pairs.into_iter().enumerate() {
            let (x, y) = exchange(x, y, &FROM_8_TO_16);
            let (x, y) = butterfly_inverse(x, y, factors.half_16(block(k)), m);
            store(&mut chunk[2 * k], x);
            store(&mut chunk[2 * k + 1], y);
        }
    }
}

/// Two stages at once, from four times `blocks` blocks to `blocks`.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
#[inline]
fn inverse_radix_4(tables: &NttTables, m: Modulus, blocks: usize, a: &mut [[u32; 16]; REGISTERS]) {
    let factor = |i: usize| Factor::uniform(tables.inverse.w[i], tables.inverse.companion[i]);
    for (block, chunk) in a.chunks_exact_mut(REGISTERS / blocks).enumerate() {
        let first = [0, 1].map(|half| factor(2 * (blocks + block) + half));
        let second = factor(blocks + block);
        for [p0, p1, p2, p3] in quarters(chunk) {
            let (x0, x1) = butterfly_inverse(load(p0), load(p1), first[0], m);
            let (x2, x3) = butterfly_inverse(load(p2), load(p3), first[1], m);
            let (x0, x2) = butterfly_inverse(x0, x2, second, m);
            let (x1, x3) = butterfly_inverse(x1, x3, second, m);
            store(p0, x0);
            store(p1, x1);
            store(p2, x2);
            store(p3, x3);
        }
    }
}

/// The last two stages with the factor 1/2048 in their twiddles, and the reduction to `[0, q)`.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
#[inline]
fn inverse_last(prime: &Prime, m: Modulus, a: &mut [[u32; 16]; REGISTERS]) {
    let tables = prime.ntt();
    let factor = |i: usize| Factor::uniform(tables.inverse.w[i], tables.inverse.companion[i]);
    let first = [2, 3].map(factor);
    let scale = Factor::uniform(tables.n_inverse, tables.n_inverse_shoup);
    let scaled = prime.mul(tables.inverse.w[1], tables.n_inverse);
    let second = Factor::uniform(scaled, prime.shoup(scaled));
    for [p0, p1, p2, p3] in quarters(a) {
        let (x0, x1) = butterfly_inverse(load(p0), load(p1), first[0], m);
        let (x2, x3) = butterfly_inverse(load(p2), load(p3), first[1], m);
        for (p, q, x, y) in [(p0, p2, x0, x2), (p1, p3, x1, x3)] {
            let difference = _mm512_sub_epi32(_mm512_add_epi32(x, m.q2), y);
            store(p, once(mul_lazy(_mm512_add_epi32(x, y), scale, m.q), m.q));
            store(q, once(mul_lazy(difference, second, m.q), m.q));
        }
    }
}

/// A polynomial as registers.
fn polynomial(a: &mut [u32]) -> &mut [[u32; 16]; REGISTERS] {
    registers_mut(a).try_into().expect("a transform takes 2048 residues")
}

/// The four quarters of a block, register by register.
fn quarters(block: &mut [[u32; 16]]) -> impl Iterator<Item = [&mut [u32; 16]; 4]> {
    let (low, high) = block.split_at_mut(block.len() / 2);
    let (a0, a1) = low.split_at_mut(low.len() / 2);
    let (a2, a3) = high.split_at_mut(high.len() / 2);
    a0.iter_mut().zip(a1).zip(a2).zip(a3).map(|(((p0, p1), p2), p3)| [p0, p1, p2, p3])
}

/// Blocks of 32 residues in a polynomial.
const BLOCKS: usize = N / 32;

/// The twiddles of one half-size: for every block, factors and companions, the latter also from one word further on,
/// which brings the companions of odd lanes to even ones.
struct TailFactors<'a> {
    half_16: (&'a [u32], &'a [u32]),
    half_8: [&'a [[u32; 2]; BLOCKS]; 3],
    half_4: [&'a [[u32; 4]; BLOCKS]; 3],
    half_2: [&'a [[u32; 8]; BLOCKS]; 3],
    half_1: [&'a [[u32; 16]; BLOCKS]; 3],
}

impl<'a> TailFactors<'a> {
    fn new(twiddles: &'a Twiddles) -> Self {
        let (w, companion) = (&twiddles.w, &twiddles.companion);
        fn tiles<'a, const T: usize>(w: &'a [u32], companion: &'a [u32]) -> [&'a [[u32; T]; BLOCKS]; 3] {
            let length = BLOCKS * T;
            [&w[length..], &companion[length..], &companion[length + 1..]]
                .map(|table| table[..length].as_chunks().0.try_into().expect("one tile a block"))
        }
        Self {
            half_16: (&w[BLOCKS..2 * BLOCKS], &companion[BLOCKS..2 * BLOCKS]),
            half_8: tiles(w, companion),
            half_4: tiles(w, companion),
            half_2: tiles(w, companion),
            half_1: tiles(w, companion),
        }
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512dq")]
    #[inline]
    fn half_16(&self, block: usize) -> Factor {
        Factor::uniform(self.half_16.0[block], self.half_16.1[block])
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512dq")]
    #[inline]
    fn half_8(&self, block: usize) -> Factor {
        let [w, even, odd] = self.half_8.map(|tiles| tile_2(&tiles[block]));
        Factor { w, even, odd }
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512dq")]
    #[inline]
    fn half_4(&self, block: usize) -> Factor {
        let [w, even, odd] = self.half_4.map(|tiles| tile_4(&tiles[block]));
        Factor { w, even, odd }
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512dq")]
    #[inline]
    fn half_2(&self, block: usize) -> Factor {
        let [w, even, odd] = self.half_2.map(|tiles| tile_8(&tiles[block]));
        Factor { w, even, odd }
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512dq")]
    #[inline]
    fn half_1(&self, block: usize) -> Factor {
        let [w, even, odd] = self.half_1.map(|tiles| load(&tiles[block]));
        Factor { w, even, odd }
    }
}

/// Where the residues of a block of 32 lie in two registers: bit k of the lane number is bit `layout[k]` of the index,
/// the register is bit `layout[4]`. A stage of half-size 2^s has bit s there, and the bits above it lowest.
type Layout = [u32; 5];

const HALF_16: Layout = [0, 1, 2, 3, 4];
const HALF_8: Layout = [4, 0, 1, 2, 3];
const HALF_4: Layout = [3, 4, 0, 1, 2];
const HALF_2: Layout = [2, 3, 4, 0, 1];
const HALF_1: Layout = [1, 2, 3, 4, 0];

/// Lanes to take from two registers, for each of the two results.
type Exchange = [[u32; 16]; 2];

static FROM_16_TO_8: Exchange = between(HALF_16, HALF_8);
static FROM_8_TO_4: Exchange = between(HALF_8, HALF_4);
static FROM_4_TO_2: Exchange = between(HALF_4, HALF_2);
static FROM_2_TO_1: Exchange = between(HALF_2, HALF_1);
static FROM_1_TO_16: Exchange = between(HALF_1, HALF_16);
static FROM_16_TO_1: Exchange = between(HALF_16, HALF_1);
static FROM_1_TO_2: Exchange = between(HALF_1, HALF_2);
static FROM_2_TO_4: Exchange = between(HALF_2, HALF_4);
static FROM_4_TO_8: Exchange = between(HALF_4, HALF_8);
static FROM_8_TO_16: Exchange = between(HALF_8, HALF_16);

/// The permutation from one layout to another.
const fn between(from: Layout, to: Layout) -> Exchange {
    let mut exchange = [[0; 16]; 2];
    let mut place = 0u32;
    while place < 32 {
        let mut source = 0;
        let mut bit = 0;
        while bit < 5 {
            // The place in `from` of the index bit that `to` has here.
            let mut k = 0;
            while from[k] != to[bit] {
                k += 1;
            }
            source |= (place >> bit & 1) << k;
            bit += 1;
        }
        exchange[(place / 16) as usize][(place % 16) as usize] = source;
        place += 1;
    }
    exchange
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq")]
#[inline]
fn exchange(x: __m512i, y: __m512i, lanes: &Exchange) -> (__m512i, __m512i) {
    let [first, second] = lanes;
    (_mm512_permutex2var_epi32(x, load(first), y), _mm512_permutex2var_epi32(x, load(second), y))
}
