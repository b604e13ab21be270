//! The transform: a radix-8 and a radix-4 pass over memory, then the last six stages in registers.
//!
//! A register holds 8 residues. In the tail, 64 consecutive residues lie in eight registers: three stages combine
//! whole registers, then the 8x8 matrix is transposed, so that the last three stages do too. Each stage is four
//! independent butterflies, enough to hide the latency of one.

use super::arith::{Factor, Modulus, mul_lazy, once};
use super::mem::{load, store};
use crate::N;
use crate::ring::backend::registers_mut;
use crate::ring::modulus::{Prime, Twiddles};
use std::arch::x86_64::*;

/// Registers of one polynomial.
const REGISTERS: usize = N / 8;

/// Cooley-Tukey: inputs in `[0, 4q)`, outputs too.
#[target_feature(enable = "avx2")]
#[inline]
fn butterfly(x: __m256i, y: __m256i, f: Factor, m: Modulus) -> (__m256i, __m256i) {
    let u = once(x, m.q2);
    let t = mul_lazy(y, f, m.q);
    (_mm256_add_epi32(u, t), _mm256_sub_epi32(_mm256_add_epi32(u, m.q2), t))
}

/// Gentleman-Sande: inputs in `[0, 2q)`, outputs too.
#[target_feature(enable = "avx2")]
#[inline]
fn butterfly_inverse(x: __m256i, y: __m256i, f: Factor, m: Modulus) -> (__m256i, __m256i) {
    let sum = _mm256_add_epi32(x, y);
    let difference = _mm256_sub_epi32(_mm256_add_epi32(x, m.q2), y);
    (once(sum, m.q2), mul_lazy(difference, f, m.q))
}

/// One stage on eight registers: partners are `HALF` registers apart, `factor(b)` belongs to the block b.
#[target_feature(enable = "avx2")]
#[inline]
fn stage<const HALF: usize>(x: &mut [__m256i; 8], factor: impl Fn(usize) -> Factor, m: Modulus) {
    // A constant number of rounds, so that the registers stay registers.
    for k in 0..4 {
        let i = k / HALF * 2 * HALF + k % HALF;
        (x[i], x[i + HALF]) = butterfly(x[i], x[i + HALF], factor(k / HALF), m);
    }
}

/// Like [`stage`], for the inverse.
#[target_feature(enable = "avx2")]
#[inline]
fn stage_inverse<const HALF: usize>(x: &mut [__m256i; 8], factor: impl Fn(usize) -> Factor, m: Modulus) {
    // A constant number of rounds, so that the registers stay registers.
    for k in 0..4 {
        let i = k / HALF * 2 * HALF + k % HALF;
        (x[i], x[i + HALF]) = butterfly_inverse(x[i], x[i + HALF], factor(k / HALF), m);
    }
}

#[target_feature(enable = "avx2")]
pub(super) fn forward(prime: &Prime, a: &mut [u32]) {
    debug_assert!(a.iter().all(|&x| x < prime.q()));
    let m = Modulus::new(prime);
    let twiddles = &prime.ntt().forward;
    let a = polynomial(a);
    let uniform = |i: usize| Factor::uniform(twiddles.w[i], twiddles.companion[i]);

    for i in 0..REGISTERS / 8 {
        let mut x: [_; 8] = std::array::from_fn(|k| load(&a[REGISTERS / 8 * k + i]));
        stage::<4>(&mut x, |_| uniform(1), m);
        stage::<2>(&mut x, |b| uniform(2 + b), m);
        stage::<1>(&mut x, |b| uniform(4 + b), m);
        (0..8).for_each(|k| store(&mut a[REGISTERS / 8 * k + i], x[k]));
    }
    for (block, chunk) in a.as_chunks_mut::<{ REGISTERS / 8 }>().0.iter_mut().enumerate() {
        let (first, second) = (uniform(8 + block), [0, 1].map(|h| uniform(16 + 2 * block + h)));
        for i in 0..REGISTERS / 32 {
            let at = |k: usize| REGISTERS / 32 * k + i;
            let (x0, x2) = butterfly(load(&chunk[at(0)]), load(&chunk[at(2)]), first, m);
            let (x1, x3) = butterfly(load(&chunk[at(1)]), load(&chunk[at(3)]), first, m);
            let (x0, x1) = butterfly(x0, x1, second[0], m);
            let (x2, x3) = butterfly(x2, x3, second[1], m);
            [x0, x1, x2, x3].into_iter().enumerate().for_each(|(k, x)| store(&mut chunk[at(k)], x));
        }
    }
    let columns = Columns::new(twiddles);
    for (block, chunk) in a.as_chunks_mut::<8>().0.iter_mut().enumerate() {
        let mut x = chunk.each_ref().map(|x| load(x));
        stage::<4>(&mut x, |_| uniform(32 + block), m);
        stage::<2>(&mut x, |b| uniform(64 + 2 * block + b), m);
        stage::<1>(&mut x, |b| uniform(128 + 4 * block + b), m);
        x = transpose(x);
        stage::<4>(&mut x, |_| columns.half_4(block), m);
        stage::<2>(&mut x, |b| columns.half_2(block, b), m);
        stage::<1>(&mut x, |b| columns.half_1(block, b), m);
        x = transpose(x.map(|x| once(once(x, m.q2), m.q)));
        chunk.iter_mut().zip(x).for_each(|(chunk, x)| store(chunk, x));
    }
}

#[target_feature(enable = "avx2")]
pub(super) fn inverse(prime: &Prime, a: &mut [u32]) {
    debug_assert!(a.iter().all(|&x| x < prime.q()));
    let m = Modulus::new(prime);
    let tables = prime.ntt();
    let twiddles = &tables.inverse;
    let a = polynomial(a);
    let uniform = |i: usize| Factor::uniform(twiddles.w[i], twiddles.companion[i]);

    let columns = Columns::new(twiddles);
    for (block, chunk) in a.as_chunks_mut::<8>().0.iter_mut().enumerate() {
        let mut x = transpose(chunk.each_ref().map(|x| load(x)));
        stage_inverse::<1>(&mut x, |b| columns.half_1(block, b), m);
        stage_inverse::<2>(&mut x, |b| columns.half_2(block, b), m);
        stage_inverse::<4>(&mut x, |_| columns.half_4(block), m);
        x = transpose(x);
        stage_inverse::<1>(&mut x, |b| uniform(128 + 4 * block + b), m);
        stage_inverse::<2>(&mut x, |b| uniform(64 + 2 * block + b), m);
        stage_inverse::<4>(&mut x, |_| uniform(32 + block), m);
        chunk.iter_mut().zip(x).for_each(|(chunk, x)| store(chunk, x));
    }
    for (block, chunk) in a.as_chunks_mut::<{ REGISTERS / 8 }>().0.iter_mut().enumerate() {
        let (first, second) = ([0, 1].map(|h| uniform(16 + 2 * block + h)), uniform(8 + block));
        for i in 0..REGISTERS / 32 {
            let at = |k: usize| REGISTERS / 32 * k + i;
            let (x0, x1) = butterfly_inverse(load(&chunk[at(0)]), load(&chunk[at(1)]), first[0], m);
            let (x2, x3) = butterfly_inverse(load(&chunk[at(2)]), load(&chunk[at(3)]), first[1], m);
            let (x0, x2) = butterfly_inverse(x0, x2, second, m);
            let (x1, x3) = butterfly_inverse(x1, x3, second, m);
            [x0, x1, x2, x3].into_iter().enumerate().for_each(|(k, x)| store(&mut chunk[at(k)], x));
        }
    }
    // The factor 1/2048 is in the last stage's twiddles.
    let scale = Factor::uniform(tables.n_inverse, tables.n_inverse_shoup);
    let scaled = prime.mul(twiddles.w[1], tables.n_inverse);
    let last = Factor::uniform(scaled, prime.shoup(scaled));
    for i in 0..REGISTERS / 8 {
        let mut x: [_; 8] = std::array::from_fn(|k| load(&a[REGISTERS / 8 * k + i]));
        stage_inverse::<1>(&mut x, |b| uniform(4 + b), m);
        stage_inverse::<2>(&mut x, |b| uniform(2 + b), m);
        for k in 0..4 {
            let sum = _mm256_add_epi32(x[k], x[k + 4]);
            let difference = _mm256_sub_epi32(_mm256_add_epi32(x[k], m.q2), x[k + 4]);
            x[k] = once(mul_lazy(sum, scale, m.q), m.q);
            x[k + 4] = once(mul_lazy(difference, last, m.q), m.q);
        }
        (0..8).for_each(|k| store(&mut a[REGISTERS / 8 * k + i], x[k]));
    }
}

/// A polynomial as registers.
fn polynomial(a: &mut [u32]) -> &mut [[u32; 8]; REGISTERS] {
    registers_mut(a).try_into().expect("a transform takes 2048 residues")
}

/// Blocks of 64 residues in a polynomial.
const BLOCKS: usize = N / 64;

/// The twiddles of the last three stages: for every block, registers of factors and of companions, the latter also
/// from one word further on, which brings the companions of odd lanes to even ones.
struct Columns<'a> {
    half_4: [&'a [[u32; 8]; BLOCKS]; 3],
    half_2: [&'a [[[u32; 8]; 2]; BLOCKS]; 3],
    half_1: [&'a [[[u32; 8]; 4]; BLOCKS]; 3],
}

impl<'a> Columns<'a> {
    fn new(twiddles: &'a Twiddles) -> Self {
        fn lanes(table: &[u32]) -> &[[u32; 8]] {
            table.as_chunks().0
        }
        let per_block = "a table has one entry a block";
        let Twiddles { w, companion, columns, columns_companion } = twiddles;
        let (half_2, half_1) = (16 * BLOCKS, 32 * BLOCKS);
        Self {
            half_4: [&w[N / 8..], &companion[N / 8..], &companion[N / 8 + 1..]]
                .map(|table| lanes(&table[..8 * BLOCKS]).try_into().expect(per_block)),
            half_2: [&columns[..], columns_companion, &columns_companion[1..]]
                .map(|table| lanes(&table[..half_2]).as_chunks().0.try_into().expect(per_block)),
            half_1: [&columns[half_2..], &columns_companion[half_2..], &columns_companion[half_2 + 1..]]
                .map(|table| lanes(&table[..half_1]).as_chunks().0.try_into().expect(per_block)),
        }
    }

    #[target_feature(enable = "avx2")]
    #[inline]
    fn half_4(&self, block: usize) -> Factor {
        let [w, even, odd] = self.half_4.map(|table| load(&table[block]));
        Factor { w, even, odd }
    }

    #[target_feature(enable = "avx2")]
    #[inline]
    fn half_2(&self, block: usize, h: usize) -> Factor {
        let [w, even, odd] = self.half_2.map(|table| load(&table[block][h]));
        Factor { w, even, odd }
    }

    #[target_feature(enable = "avx2")]
    #[inline]
    fn half_1(&self, block: usize, h: usize) -> Factor {
        let [w, even, odd] = self.half_1.map(|table| load(&table[block][h]));
        Factor { w, even, odd }
    }
}

/// Transposes an 8x8 matrix of words.
#[target_feature(enable = "avx2")]
#[inline]
fn transpose(x: [__m256i; 8]) -> [__m256i; 8] {
    // Words of row pairs, then pairs of words of row quadruples, then 128-bit halves.
    let [a0, a1, a2, a3] = [0, 2, 4, 6].map(|i| _mm256_unpacklo_epi32(x[i], x[i + 1]));
    let [b0, b1, b2, b3] = [0, 2, 4, 6].map(|i| _mm256_unpackhi_epi32(x[i], x[i + 1]));
    let low = [
        _mm256_unpacklo_epi64(a0, a1),
        _mm256_unpackhi_epi64(a0, a1),
        _mm256_unpacklo_epi64(b0, b1),
        _mm256_unpackhi_epi64(b0, b1),
    ];
    let high = [
        _mm256_unpacklo_epi64(a2, a3),
        _mm256_unpackhi_epi64(a2, a3),
        _mm256_unpacklo_epi64(b2, b3),
        _mm256_unpackhi_epi64(b2, b3),
    ];
    std::array::from_fn(|k| {
        if k < 4 {
            _mm256_permute2x128_si256::<0x20>(low[k], high[k])
        } else {
            _mm256_permute2x128_si256::<0x31>(low[k - 4], high[k - 4])
        }
    })
}
