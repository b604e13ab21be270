//! The transform modulo primes q with `8 q^2 <= 2^52`, on the 52-bit multiplier: eight residues a register.
//!
//! A product by a constant takes two multiplications (see [`Montgomery`]), the second of which adds as well: a
//! butterfly is four instructions and its outputs are below its first input's bound plus q. So values grow by q a stage
//! and are brought down once on the way.
//!
//! Both directions are three stages in each of two passes over memory, and five in registers: 32 residues lie in four
//! registers, and before a stage that combines lanes, pairs of registers are interleaved, so that the lane bit of the
//! stage becomes the register and the twiddles are plain loads. The forward direction multiplies by psi on the way; the
//! inverse is a cyclic transform whose twiddles do not depend on the block, followed by a product with psi^-i / 2048.

use super::arith::{low_words, once, pack_interleaved};
use super::fixed::{Montgomery, high, low, splat, zero};
use super::mem::{load, load_u64, store, tile_u64_2, tile_u64_4, widen};
use crate::ring::backend::{registers, registers_mut};
use crate::ring::modulus::Prime;
use crate::{LOG_N, N};
use std::arch::x86_64::*;
use std::array::from_fn;

/// Constants of one prime.
#[derive(Debug)]
pub(crate) struct Tables {
    /// For each power of psi in bit-reversed order, as in the portable tables.
    forward: Box<[u64]>,
    /// `omega^-(j 1024 / h)` at `h + j`, for h a power of two up to 1024, j below h and omega = psi^2.
    cyclic: Box<[u64]>,
    /// `psi^-i / 2048` at i.
    last: Box<[u64]>,
    /// For 1.
    one: u64,
}

/// Registers of 16 packed residues in a polynomial, each as two halves.
type Packed = [[[u32; 8]; 2]; N / 16];

impl Tables {
    /// Whether a prime is narrow enough.
    pub(super) fn fit(prime: &Prime) -> bool {
        8 * u64::from(prime.q()).pow(2) <= 1 << 52
    }

    pub(super) fn new(prime: &Prime) -> Self {
        let (q, tables) = (prime.q(), prime.ntt());
        let montgomery = Montgomery::new(q);
        // A butterfly subtracts the product, so its constants are those of the negated factors.
        let negated = |w: u32| montgomery.constant(q - w);
        let psi_inverse = |i: usize| tables.inverse.w[i.reverse_bits() >> (usize::BITS - LOG_N)];
        let mut cyclic = vec![0; N];
        for h in (0..LOG_N).map(|bit| 1 << bit) {
            for j in 0..h {
                cyclic[h + j] = negated(psi_inverse(N / h * j));
            }
        }
        let last = (0..N).map(|i| montgomery.constant(prime.mul(psi_inverse(i), tables.n_inverse)));
        Self {
            forward: tables.forward.w.iter().map(|&w| negated(w)).collect(),
            cyclic: cyclic.into(),
            last: last.collect(),
            one: montgomery.constant(1),
        }
    }
}

/// The modulus and what butterflies need besides.
#[derive(Clone, Copy)]
struct Modulus {
    q: __m512i,
    two: __m512i,
}

impl Modulus {
    #[target_feature(enable = "avx512f")]
    #[inline]
    fn new(prime: &Prime) -> Self {
        Self { q: splat(prime.q().into()), two: splat(2) }
    }

    /// Cooley-Tukey: `(u + w y, u - w y)`, both at most `u + q`, for y below 8q.
    #[target_feature(enable = "avx512f,avx512ifma")]
    #[inline]
    fn butterfly(&self, u: __m512i, y: __m512i, w: __m512i) -> (__m512i, __m512i) {
        let difference = high(u, low(zero(), y, w), self.q);
        // 2u + q - (u - w y), where the difference is the integer in `[u, u + q)`.
        (_mm512_sub_epi64(low(self.q, u, self.two), difference), difference)
    }

    /// `y w` in `[0, q)`, for y below 8q.
    #[target_feature(enable = "avx512f,avx512ifma")]
    #[inline]
    fn mul(&self, y: __m512i, w: __m512i) -> __m512i {
        high(zero(), low(zero(), y, w), self.q)
    }
}

/// Sixteen registers that advance together, as two times eight: enough independent work to hide the multiplier's
/// latency.
type Sixteen = [[__m512i; 8]; 2];

/// One stage: partners are `HALF` registers apart; `factor` takes the half and the number of the first partner in it.
#[target_feature(enable = "avx512f,avx512ifma")]
#[inline]
fn stage<const HALF: usize>(x: &mut Sixteen, factor: impl Fn(usize, usize) -> __m512i, m: Modulus) {
    // Constant numbers of rounds, so that the registers stay registers.
    for (half, x) in x.iter_mut().enumerate() {
        for k in 0..4 {
            let i = k / HALF * 2 * HALF + k % HALF;
            (x[i], x[i + HALF]) = m.butterfly(x[i], x[i + HALF], factor(half, i));
        }
    }
}

/// Applies a permutation to registers 0 and 1, 2 and 3, and so on.
#[target_feature(enable = "avx512f")]
#[inline]
fn pairwise(x: &mut Sixteen, permute: impl Fn(__m512i, __m512i) -> (__m512i, __m512i)) {
    for pair in x.as_flattened_mut().as_chunks_mut::<2>().0 {
        (pair[0], pair[1]) = permute(pair[0], pair[1]);
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512ifma")]
pub(super) fn forward(prime: &Prime, tables: &Tables, a: &mut [u32]) {
    debug_assert!(a.iter().all(|&x| x < prime.q()));
    let m = Modulus::new(prime);
    // Four times the modulus, in packed words.
    let q4 = _mm512_set1_epi32((4 * prime.q()).cast_signed());
    let table: &[u64; N] = (*tables.forward).try_into().expect("one factor a slot");
    let a = packed(a);

    // Below q, then 4q.
    for i in 0..16 {
        let mut x: Sixteen = from_fn(|half| from_fn(|r| widen(&a[16 * r + i][half])));
        stage::<4>(&mut x, |_, _| splat(table[1]), m);
        stage::<2>(&mut x, |_, r| splat(table[2 + r / 4]), m);
        stage::<1>(&mut x, |_, r| splat(table[4 + r / 2]), m);
        (0..8).for_each(|r| store_packed(&mut a[16 * r + i], low_words(x[0][r], x[1][r])));
    }
    // Then 7q, reduced to 4q.
    for (block, a) in a.as_chunks_mut::<16>().0.iter_mut().enumerate() {
        for i in 0..2 {
            let mut x: Sixteen = from_fn(|half| from_fn(|r| widen(&a[2 * r + i][half])));
            stage::<4>(&mut x, |_, _| splat(table[8 + block]), m);
            stage::<2>(&mut x, |_, r| splat(table[16 + 2 * block + r / 4]), m);
            stage::<1>(&mut x, |_, r| splat(table[32 + 4 * block + r / 2]), m);
            (0..8).for_each(|r| store_packed(&mut a[2 * r + i], once(low_words(x[0][r], x[1][r]), q4)));
        }
    }
    forward_tail(prime, tables, a);
}

/// The last five stages, for four blocks of 32 residues at a time, four registers each.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512ifma")]
#[inline(never)]
fn forward_tail(prime: &Prime, tables: &Tables, a: &mut Packed) {
    let m = Modulus::new(prime);
    let (one, q) = (splat(tables.one), _mm512_set1_epi32(prime.q().cast_signed()));
    // Per two blocks, the factors of a stage.
    let rows = |start: usize| &tables.forward[start..2 * start];
    let (half_16, half_8) = (registers::<2, _>(rows(64)), registers::<4, _>(rows(128)));
    let half_4 = registers::<4, _>(registers::<2, _>(rows(256)));
    let half_2 = registers::<4, _>(registers::<4, _>(rows(512)));
    let half_1 = registers::<4, _>(registers::<8, _>(rows(1024)));
    for (group, a) in a.as_chunks_mut::<8>().0.iter_mut().enumerate() {
        let row = |k| 2 * group + k;
        // Below 4q.
        let mut x: Sixteen = from_fn(|k| from_fn(|r| widen(&a[4 * k + r / 2][r % 2])));
        stage::<2>(&mut x, |k, r| splat(half_16[row(k)][r / 4]), m);
        stage::<1>(&mut x, |k, r| splat(half_8[row(k)][r / 2]), m);
        pairwise(&mut x, |low, high| interleave(low, high));
        stage::<1>(&mut x, |k, r| tile_u64_2(&half_4[row(k)][r / 2]), m);
        pairwise(&mut x, |low, high| interleave(low, high));
        stage::<1>(&mut x, |k, r| tile_u64_4(&half_2[row(k)][r / 2]), m);
        pairwise(&mut x, |low, high| interleave(low, high));
        // Below 8q. With the first inputs below q, the outputs are below 2q.
        pairwise(&mut x, |u, y| (m.mul(u, one), y));
        stage::<1>(&mut x, |k, r| load_u64(&half_1[row(k)][r / 2]), m);
        for (a, pair) in a.iter_mut().zip(x.as_flattened().as_chunks::<2>().0) {
            store_packed(a, once(pack_interleaved(pair[0], pair[1]), q));
        }
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512ifma")]
pub(super) fn inverse(prime: &Prime, tables: &Tables, a: &mut [u32]) {
    debug_assert!(a.iter().all(|&x| x < prime.q()));
    let m = Modulus::new(prime);
    let q4 = _mm512_set1_epi32((4 * prime.q()).cast_signed());
    let a = packed(a);
    let table = |half: usize| registers::<2, _>(registers::<8, u64>(&tables.cyclic[half..2 * half]));

    // Below q, then 6q.
    inverse_tail(prime, tables, a);
    // Then 9q, reduced to 5q.
    let (half_32, half_64, half_128) = (table(32), table(64), table(128));
    for i in 0..2 {
        for a in a.as_chunks_mut::<16>().0 {
            let mut x: Sixteen = from_fn(|half| from_fn(|r| widen(&a[2 * r + i][half])));
            stage::<1>(&mut x, |half, _| load_u64(&half_32[i][half]), m);
            stage::<2>(&mut x, |half, r| load_u64(&half_64[i + 2 * (r % 2)][half]), m);
            stage::<4>(&mut x, |half, r| load_u64(&half_128[i + 2 * (r % 4)][half]), m);
            (0..8).for_each(|r| store_packed(&mut a[2 * r + i], once(low_words(x[0][r], x[1][r]), q4)));
        }
    }
    // Then 8q, reduced to q by the last product.
    let (half_256, half_512, half_1024) = (table(256), table(512), table(1024));
    let last = registers::<2, _>(registers::<8, _>(&tables.last));
    for i in 0..16 {
        let mut x: Sixteen = from_fn(|half| from_fn(|r| widen(&a[16 * r + i][half])));
        stage::<1>(&mut x, |half, _| load_u64(&half_256[i][half]), m);
        stage::<2>(&mut x, |half, r| load_u64(&half_512[i + 16 * (r % 2)][half]), m);
        stage::<4>(&mut x, |half, r| load_u64(&half_1024[i + 16 * (r % 4)][half]), m);
        for r in 0..8 {
            let [low, high] = [0, 1].map(|half| m.mul(x[half][r], load_u64(&last[16 * r + i][half])));
            store_packed(&mut a[16 * r + i], low_words(low, high));
        }
    }
}

/// The first five stages, for four blocks of 32 residues at a time.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512ifma")]
#[inline(never)]
fn inverse_tail(prime: &Prime, tables: &Tables, a: &mut Packed) {
    let m = Modulus::new(prime);
    let cyclic = |half: usize| -> [u64; 8] { from_fn(|lane| tables.cyclic[half + lane * half / 8]) };
    let [half_2, half_4, half_8] = [2, 4, 8].map(|half| load_u64(&cyclic(half)));
    let half_16 = [16, 24].map(|at| load_u64(tables.cyclic[at..].first_chunk().expect("eight factors")));
    for a in a.as_chunks_mut::<8>().0 {
        let mut x: Sixteen = [[zero(); 8]; 2];
        for (pair, a) in x.as_flattened_mut().as_chunks_mut::<2>().0.iter_mut().zip(&*a) {
            // The first stage has no factor.
            let (even, odd) = unpack_interleaved(load(a.as_flattened().as_array().expect("16 words")));
            pair[0] = _mm512_add_epi64(even, odd);
            pair[1] = _mm512_sub_epi64(_mm512_add_epi64(even, m.q), odd);
        }
        pairwise(&mut x, |low, high| separate(low, high));
        stage::<1>(&mut x, |_, _| half_2, m);
        pairwise(&mut x, |low, high| separate(low, high));
        stage::<1>(&mut x, |_, _| half_4, m);
        pairwise(&mut x, |low, high| separate(low, high));
        stage::<1>(&mut x, |_, _| half_8, m);
        stage::<2>(&mut x, |_, r| half_16[r % 2], m);
        for (a, pair) in a.iter_mut().zip(x.as_flattened().as_chunks::<2>().0) {
            store_packed(a, low_words(pair[0], pair[1]));
        }
    }
}

/// `(x0 y0 x1 y1 .. y3, x4 y4 .. y7)`: the lane bit that was highest becomes the register.
#[target_feature(enable = "avx512f")]
#[inline]
fn interleave(x: __m512i, y: __m512i) -> (__m512i, __m512i) {
    let low = _mm512_setr_epi64(0, 8, 1, 9, 2, 10, 3, 11);
    let high = _mm512_setr_epi64(4, 12, 5, 13, 6, 14, 7, 15);
    (_mm512_permutex2var_epi64(x, low, y), _mm512_permutex2var_epi64(x, high, y))
}

/// `(x0 x2 x4 x6 y0 .. y6, x1 x3 .. y7)`: the lane bit that was lowest becomes the register.
#[target_feature(enable = "avx512f")]
#[inline]
fn separate(x: __m512i, y: __m512i) -> (__m512i, __m512i) {
    let even = _mm512_setr_epi64(0, 2, 4, 6, 8, 10, 12, 14);
    let odd = _mm512_setr_epi64(1, 3, 5, 7, 9, 11, 13, 15);
    (_mm512_permutex2var_epi64(x, even, y), _mm512_permutex2var_epi64(x, odd, y))
}

/// The words in the even and those in the odd lanes of a packed register.
#[target_feature(enable = "avx512f")]
#[inline]
fn unpack_interleaved(x: __m512i) -> (__m512i, __m512i) {
    (_mm512_and_si512(x, splat(u32::MAX.into())), _mm512_srli_epi64::<32>(x))
}

fn packed(a: &mut [u32]) -> &mut Packed {
    registers_mut(registers_mut(a)).try_into().expect("a transform takes 2048 residues")
}

#[target_feature(enable = "avx512f")]
#[inline]
fn store_packed(a: &mut [[u32; 8]; 2], x: __m512i) {
    store(a.as_flattened_mut().as_mut_array().expect("16 words"), x);
}
