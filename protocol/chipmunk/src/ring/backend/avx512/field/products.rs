//! Matrix products modulo p.
//!
//! A product of two canonical words has 72 bits: IFMA adds its low 52 and its high 20 bits to two sums. A task covers
//! 32 columns, one each lane of four registers, and three rows: 24 sums in registers.

use super::{LANES, LOW_52, RADIX, load, montgomery, store, transpose, word};
use crate::ring::backend::field::scalar::multiply_canonical;
use crate::ring::backend::field::word::add_canonical;
use crate::ring::backend::field::{PRIME as P, Rows, parts};
use std::arch::x86_64::*;

/// Columns of a panel.
const PANEL: usize = 32;

/// Most terms between two reductions: 4000 numbers below 2^52 sum up to less than 2^64.
const GROUP: usize = 4000;

/// Rows at once.
const ROWS: usize = 3;

/// A coordinate of 32 columns.
type Coordinate = [[u64; LANES]; PANEL / LANES];

/// Scaled by the radix that the reduction of a sum divides by.
pub(super) fn pack_rows(rows: &[u64], width: usize) -> Rows {
    assert!(width > 0 && rows.len().is_multiple_of(width));
    let words = rows.iter().map(|&x| multiply_canonical(x, RADIX)).collect();
    Rows { width, count: rows.len() / width, words, low: Vec::new() }
}

#[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
pub(super) fn products(rows: &Rows, columns: &[u64], stride: usize, out: &mut [u64]) {
    let n = out.len() / rows.count;
    assert_eq!(out.len(), n * rows.count);
    let mut panel: Vec<Coordinate> = Vec::with_capacity(rows.width);
    for first in (0..n).step_by(PANEL) {
        let size = PANEL.min(n - first);
        fill(&mut panel, rows.width, &columns[first * stride..], stride, size);
        for group in parts(rows.width, GROUP) {
            let panel = &panel[group.clone()];
            let mut emit = |row: usize, residues: Coordinate| {
                let residues = residues.as_flattened();
                let out = &mut out[row * n + first..][..size];
                if group.start == 0 {
                    out.copy_from_slice(&residues[..size]);
                } else {
                    out.iter_mut().zip(residues).for_each(|(out, &x)| *out = add_canonical(*out, x));
                }
            };
            let row = |index: usize| &rows.row(index)[group.clone()];
            let whole = rows.count - rows.count % ROWS;
            for index in (0..whole).step_by(ROWS) {
                let sums = sums([row(index), row(index + 1), row(index + 2)], panel);
                sums.into_iter().enumerate().for_each(|(i, residues)| emit(index + i, residues));
            }
            for index in whole..rows.count {
                let [residues] = sums([row(index)], panel);
                emit(index, residues);
            }
        }
    }
}

/// Fills the panel with `size` columns of `width` words, and zeros.
#[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
fn fill(panel: &mut Vec<Coordinate>, width: usize, columns: &[u64], stride: usize, size: usize) {
    panel.clear();
    for first in (0..width).step_by(LANES) {
        let count = LANES.min(width - first);
        let words = |column: usize| {
            if column >= size {
                return _mm512_setzero_si512();
            }
            let words = &columns[column * stride + first..][..count];
            match words.as_array() {
                Some(eight) => load(eight),
                None => {
                    let mut eight = [0; LANES];
                    eight[..count].copy_from_slice(words);
                    load(&eight)
                }
            }
        };
        let mut eight = [[[0; LANES]; PANEL / LANES]; LANES];
        for v in 0..PANEL / LANES {
            let coordinates = transpose(std::array::from_fn(|i| words(LANES * v + i)));
            for (out, coordinate) in eight.iter_mut().zip(coordinates) {
                store(&mut out[v], coordinate);
            }
        }
        panel.extend_from_slice(&eight[..count]);
    }
}

/// The canonical residues of the sums of a few rows with all columns of a panel.
#[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
fn sums<const R: usize>(rows: [&[u64]; R], panel: &[Coordinate]) -> [Coordinate; R] {
    // Equal lengths in the compiler's sight, so that the loop has no bounds checks.
    let rows = rows.map(|row| &row[..panel.len()]);
    let mut low = [[_mm512_setzero_si512(); PANEL / LANES]; R];
    let mut high = low;
    for (j, coordinate) in panel.iter().enumerate() {
        let x: [_; PANEL / LANES] = std::array::from_fn(|v| load(&coordinate[v]));
        for ((low, high), row) in low.iter_mut().zip(&mut high).zip(rows) {
            let row = word(row[j]);
            for ((low, high), x) in low.iter_mut().zip(high).zip(x) {
                *low = _mm512_madd52lo_epu64(*low, x, row);
                *high = _mm512_madd52hi_epu64(*high, x, row);
            }
        }
    }
    let mut out = [[[0; LANES]; PANEL / LANES]; R];
    for ((out, low), high) in out.iter_mut().zip(low).zip(high) {
        for ((out, low), high) in out.iter_mut().zip(low).zip(high) {
            // High sums are below 2^32, the carries from low ones below 2^12.
            let high = _mm512_add_epi64(high, _mm512_srli_epi64::<52>(low));
            let total = montgomery(high, _mm512_and_si512(low, word(LOW_52)));
            store(out, _mm512_min_epu64(total, _mm512_add_epi64(total, word(P))));
        }
    }
    out
}
