//! Matrix products modulo p.
//!
//! All words are balanced, of magnitude up to p/2 < 2^34.001. A sum S of products is kept twice: rounded, as a double,
//! and exactly, modulo 2^32. The rounding of the j-th addition errs by at most 2^-53 * j * 2^68.002, so after
//! [`GROUP`] terms the double is off by less than 2^31 and both together determine S.
//!
//! A task covers 32 columns, one each lane of eight registers of doubles and of four of integers. A block of as many
//! coordinates as the nearest cache holds is used for all rows before the next one.

use super::super::mem::{load, load_u64, store, store_u64};
use super::{FLOAT_P, FLOAT_P_INVERSE, balanced, plus_if_negative, round, transpose};
use crate::ring::backend::field::word::add_canonical;
use crate::ring::backend::field::{PRIME as P, Rows, parts};
use std::arch::x86_64::*;

/// Columns of a panel.
const PANEL: usize = 32;

/// Most terms between two reductions: 2^15.002 * 320 * 321 / 2 < 2^30.7.
const GROUP: usize = 320;

/// Most coordinates of a panel at once: 384 bytes each, 39 KB.
const BLOCK: usize = 104;

/// Where the exact sums start, so that they are off by that much: a signed number of 32 bits becomes an unsigned one.
const BIAS: u32 = 1 << 31;

/// The bits of 1.5 * 2^52: this plus an integer of magnitude below 2^51 has these bits plus the integer.
const SHIFT: f64 = 6_755_399_441_055_744.0;

pub(super) fn pack_rows(rows: &[u64], width: usize) -> Rows {
    assert!(width > 0 && rows.len().is_multiple_of(width));
    let words = rows.iter().map(|&x| balanced(x).to_bits()).collect();
    // Modulo 2^32 the balanced representative is either x or x - p.
    let low = rows.iter().map(|&x| low_word(if x > P / 2 { x.wrapping_sub(P) } else { x })).collect();
    Rows { width, count: rows.len() / width, words, low }
}

#[expect(clippy::cast_possible_truncation, reason = "modulo 2^32")]
const fn low_word(x: u64) -> u32 {
    x as u32
}

/// A coordinate of 32 columns: as doubles, and modulo 2^32. Of the latter, registers hold columns 8v, 8v + 4, 8v + 1,
/// 8v + 5, ...: the even words belong to one register of doubles, the odd words to the next.
#[derive(Clone, Copy)]
struct Coordinate {
    float: [[u64; 4]; 8],
    low: [[u32; 8]; 4],
}

/// Sums of one row with all columns of a panel.
#[derive(Clone, Copy)]
struct Sums {
    float: [[u64; 4]; 8],
    low: [[u32; 8]; 4],
}

impl Coordinate {
    const ZERO: Self = Self { float: [[0; 4]; 8], low: [[0; 8]; 4] };
}

impl Sums {
    const ZERO: Self = Self { float: [[0; 4]; 8], low: [[BIAS; 8]; 4] };
}

#[target_feature(enable = "avx2,fma")]
pub(super) fn products(rows: &Rows, columns: &[u64], stride: usize, out: &mut [u64]) {
    let n = out.len() / rows.count;
    assert_eq!(out.len(), n * rows.count);
    let mut panel = Vec::with_capacity(rows.width);
    let mut sums = Vec::with_capacity(rows.count);
    for first in (0..n).step_by(PANEL) {
        let size = PANEL.min(n - first);
        fill(&mut panel, rows.width, &columns[first * stride..], stride, size);
        for group in parts(rows.width, GROUP) {
            sums.clear();
            for block in parts(group.len(), BLOCK) {
                let block = group.start + block.start..group.start + block.end;
                for row in 0..rows.count {
                    if sums.len() == row {
                        sums.push(Sums::ZERO);
                    }
                    let at = row * rows.width;
                    let range = at + block.start..at + block.end;
                    accumulate(
                        &mut sums[row],
                        &rows.words[range.clone()],
                        &rows.low[range],
                        &panel[block.clone()],
                    );
                }
            }
            for (row, sums) in sums.iter().enumerate() {
                let out = &mut out[row * n + first..][..size];
                let residues = reduce(sums);
                let residues = residues.as_flattened();
                if group.start == 0 {
                    out.copy_from_slice(&residues[..size]);
                } else {
                    out.iter_mut().zip(residues).for_each(|(out, &x)| *out = add_canonical(*out, x));
                }
            }
        }
    }
}

/// Fills the panel with `size` columns of `width` words, and zeros.
#[target_feature(enable = "avx2,fma")]
fn fill(panel: &mut Vec<Coordinate>, width: usize, columns: &[u64], stride: usize, size: usize) {
    panel.clear();
    for first in (0..width).step_by(4) {
        let count = 4.min(width - first);
        let quad = |column: usize| {
            if column >= size {
                return _mm256_setzero_si256();
            }
            let words = &columns[column * stride + first..][..count];
            match words.as_array() {
                Some(four) => load_u64(four),
                None => {
                    let mut four = [0; 4];
                    four[..count].copy_from_slice(words);
                    load_u64(&four)
                }
            }
        };
        let mut four = [Coordinate::ZERO; 4];
        for v in 0..4 {
            let [even, odd] = [8 * v, 8 * v + 4].map(|column| {
                let quads = [0, 1, 2, 3].map(|i| _mm256_castsi256_pd(quad(column + i)));
                transpose(quads).map(|x| balance(_mm256_castpd_si256(x)))
            });
            for i in 0..4 {
                store_u64(&mut four[i].float[2 * v], to_float(even[i]));
                store_u64(&mut four[i].float[2 * v + 1], to_float(odd[i]));
                let low = _mm256_blend_epi32::<0b1010_1010>(even[i], _mm256_slli_epi64::<32>(odd[i]));
                store(&mut four[i].low[v], low);
            }
        }
        panel.extend_from_slice(&four[..count]);
    }
}

/// The balanced representatives of canonical words, as signed integers.
#[target_feature(enable = "avx2,fma")]
#[inline]
fn balance(x: __m256i) -> __m256i {
    let large = _mm256_cmpgt_epi64(x, _mm256_set1_epi64x((P / 2).cast_signed()));
    _mm256_sub_epi64(x, _mm256_and_si256(large, _mm256_set1_epi64x(P.cast_signed())))
}

/// The bits of the doubles of integers of magnitude below 2^51.
#[target_feature(enable = "avx2,fma")]
#[inline]
fn to_float(x: __m256i) -> __m256i {
    let shift = _mm256_set1_pd(SHIFT);
    let shifted = _mm256_add_epi64(x, _mm256_castpd_si256(shift));
    _mm256_castpd_si256(_mm256_sub_pd(_mm256_castsi256_pd(shifted), shift))
}

/// Adds the products of a stretch of a row and as many coordinates of a panel.
#[target_feature(enable = "avx2,fma")]
fn accumulate(sums: &mut Sums, row: &[u64], row_low: &[u32], panel: &[Coordinate]) {
    let mut float: [_; 8] = std::array::from_fn(|v| _mm256_castsi256_pd(load_u64(&sums.float[v])));
    let mut low: [_; 4] = std::array::from_fn(|v| load(&sums.low[v]));
    // Equal lengths in the compiler's sight, so that the loop has no bounds checks.
    let (row, row_low) = (&row[..panel.len()], &row_low[..panel.len()]);
    for (j, x) in panel.iter().enumerate() {
        let a = _mm256_set1_pd(f64::from_bits(row[j]));
        for (sum, x) in float.iter_mut().zip(&x.float) {
            *sum = _mm256_fmadd_pd(a, _mm256_castsi256_pd(load_u64(x)), *sum);
        }
        let b = _mm256_set1_epi32(row_low[j].cast_signed());
        for (sum, x) in low.iter_mut().zip(&x.low) {
            *sum = _mm256_add_epi32(*sum, _mm256_mullo_epi32(b, load(x)));
        }
    }
    (0..8).for_each(|v| store_u64(&mut sums.float[v], _mm256_castpd_si256(float[v])));
    (0..4).for_each(|v| store(&mut sums.low[v], low[v]));
}

/// The canonical residues of sums of at most [`GROUP`] products.
#[target_feature(enable = "avx2,fma")]
fn reduce(sums: &Sums) -> [[u64; 4]; 8] {
    let mut out = [[0; 4]; 8];
    for v in 0..4 {
        let low = load(&sums.low[v]);
        let float = [2 * v, 2 * v + 1].map(|v| _mm256_castsi256_pd(load_u64(&sums.float[v])));
        store_u64(&mut out[2 * v], reduce_register(float[0], low));
        store_u64(&mut out[2 * v + 1], reduce_register(float[1], _mm256_srli_epi64::<32>(low)));
    }
    out
}

/// One register of sums, the exact ones in the low half of each lane.
#[target_feature(enable = "avx2,fma")]
#[inline]
fn reduce_register(float: __m256d, exact: __m256i) -> __m256i {
    let shift = _mm256_set1_pd(SHIFT);
    let shift_bits = _mm256_castpd_si256(shift);
    let p = _mm256_set1_epi64x(P.cast_signed());
    // The double is below 2^76.4, the quotient below 2^41.4 and off by less than 2^-10: what remains is exact and of
    // magnitude below 0.51 p.
    let quotient = round(_mm256_mul_pd(float, _mm256_set1_pd(FLOAT_P_INVERSE)));
    let rest = _mm256_fnmadd_pd(quotient, _mm256_set1_pd(FLOAT_P), float);
    // Below: integers, the low words exact modulo 2^32.
    let quotient = _mm256_castpd_si256(_mm256_add_pd(quotient, shift));
    let rest = _mm256_castpd_si256(_mm256_add_pd(rest, shift));
    // What the double lacks of the sum, plus the bias.
    let error = _mm256_sub_epi32(_mm256_sub_epi32(exact, _mm256_mul_epu32(quotient, p)), rest);
    let error = _mm256_and_si256(error, _mm256_set1_epi64x(0xFFFF_FFFF));
    let bias = _mm256_add_epi64(shift_bits, _mm256_set1_epi64x(BIAS.into()));
    let residue = _mm256_sub_epi64(_mm256_add_epi64(rest, error), bias);
    // Of magnitude below 0.51 p + 2^31 < p.
    plus_if_negative(residue, p)
}
