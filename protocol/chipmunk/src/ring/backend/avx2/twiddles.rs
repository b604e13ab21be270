//! Twiddle factors in the order and the form of this back-end's transform.

use super::arith::Factor;
use super::mem::load;
use crate::N;
use crate::ring::backend::registers;
use crate::ring::modulus::{Prime, Twiddles};

/// The factors of one prime.
#[derive(Debug)]
pub(crate) struct Tables {
    pub(super) forward: Table,
    pub(super) inverse: Table,
    /// 1/2048.
    pub(super) scale: Constant,
    /// 1/2048 times the factor of the last inverse stage.
    pub(super) scaled_last: Constant,
    pub(super) estimate: Estimate,
}

/// What estimates the quotient by q of a number below 64q: the shift leaves its ten highest bits, and their product
/// with the reciprocal has the quotient above its lowest 15 bits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Estimate {
    pub(super) shift: u32,
    pub(super) reciprocal: u32,
}

/// A factor and its companion. For a wide prime w in `[0, q)` and floor(w 2^32 / q); for a narrow one the centred
/// representative and the nearest integer to w 2^32 / q, both signed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Constant {
    w: u32,
    companion: u32,
}

/// The factors of one direction.
#[derive(Debug)]
pub(super) struct Table {
    /// In bit-reversed order, as in the portable tables.
    uniform: Box<[Constant]>,
    /// Factors of the last three stages for code that holds 64 residues transposed, lane l residues 8l to 8l + 7: for
    /// every block of 64, [`COLUMNS`] registers.
    columns: Box<[u32]>,
    /// Companions of `columns`, and one more word: they are read from the second word on too, which brings the
    /// companions of odd lanes to even ones.
    companions: Box<[u32]>,
}

/// Registers of factors of the last three stages: one of half-size 4, two of 2, four of 1.
const COLUMNS: usize = 7;

/// Whether values may grow unreduced through a whole transform: up to 64q must fit a word, and half that a signed one.
pub(super) const fn is_narrow(prime: &Prime) -> bool {
    prime.q() < 1 << 25
}

impl Tables {
    pub(super) fn new(prime: &Prime) -> Self {
        let tables = prime.ntt();
        let scaled = prime.mul(tables.inverse.w[1], tables.n_inverse);
        // A number below 64q is below 2^(bits + 6).
        let shift = u32::BITS - prime.q().leading_zeros() - 4;
        let reciprocal = (1u64 << (15 + shift)) / u64::from(prime.q());
        Self {
            forward: Table::new(prime, &tables.forward),
            inverse: Table::new(prime, &tables.inverse),
            scale: Constant::new(prime, tables.n_inverse),
            scaled_last: Constant::new(prime, scaled),
            estimate: Estimate { shift, reciprocal: reciprocal.try_into().expect("at most 2^12") },
        }
    }
}

impl Constant {
    fn new(prime: &Prime, w: u32) -> Self {
        if !is_narrow(prime) {
            return Self { w, companion: prime.shoup(w) };
        }
        let (q, w) = (i64::from(prime.q()), prime.centred(w));
        // At most (q-1)/2 2^32 / q < 2^31 in magnitude.
        let companion = ((i64::from(w) << 33) + q).div_euclid(2 * q);
        let companion = i32::try_from(companion).expect("a factor below half the modulus");
        Self { w: w.cast_unsigned(), companion: companion.cast_unsigned() }
    }

    #[target_feature(enable = "avx2")]
    #[inline]
    pub(super) fn factor(self) -> Factor {
        Factor::uniform(self.w, self.companion)
    }
}

impl Table {
    fn new(prime: &Prime, twiddles: &Twiddles) -> Self {
        let uniform: Box<[_]> = twiddles.w.iter().map(|&w| Constant::new(prime, w)).collect();
        let mut columns: Vec<Constant> = Vec::with_capacity(COLUMNS * N / 8);
        for block in 0..N / 64 {
            for per_lane in [1, 2, 4] {
                let factors = &uniform[N / 8 * per_lane + 8 * per_lane * block..][..8 * per_lane];
                columns.extend((0..per_lane).flat_map(|h| factors[h..].iter().step_by(per_lane)));
            }
        }
        Self {
            columns: columns.iter().map(|constant| constant.w).collect(),
            companions: columns.iter().map(|constant| constant.companion).chain([0]).collect(),
            uniform,
        }
    }

    /// Factor number `i` in bit-reversed order.
    #[target_feature(enable = "avx2")]
    #[inline]
    pub(super) fn uniform(&self, i: usize) -> Factor {
        self.uniform[i].factor()
    }

    /// Per two blocks of 64 residues, the factors of the last three stages of each.
    pub(super) fn columns(&self) -> impl Iterator<Item = [Column<'_>; 2]> {
        let split = |words| registers::<2, _>(registers::<COLUMNS, _>(registers::<8, u32>(words)));
        let (_, odd) = self.companions.split_first().expect("many companions");
        let (_, even) = self.companions.split_last().expect("many companions");
        let pairs = split(&self.columns).iter().zip(split(even)).zip(split(odd));
        pairs.map(|((w, even), odd)| [0, 1].map(|k| Column { w: &w[k], even: &even[k], odd: &odd[k] }))
    }
}

/// The factors of the last three stages of one block.
#[derive(Clone, Copy)]
pub(super) struct Column<'a> {
    w: &'a [[u32; 8]; COLUMNS],
    even: &'a [[u32; 8]; COLUMNS],
    odd: &'a [[u32; 8]; COLUMNS],
}

impl Column<'_> {
    /// The factor of butterflies `half` registers apart, of which the first is in block `b` of `2 * half` registers.
    #[target_feature(enable = "avx2")]
    #[inline]
    pub(super) fn factor(&self, half: usize, b: usize) -> Factor {
        let i = 4 / half - 1 + b;
        Factor { w: load(&self.w[i]), even: load(&self.even[i]), odd: load(&self.odd[i]) }
    }
}
