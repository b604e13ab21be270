//! Raw bytes as plaintext polynomials, for layouts in which each client writes to its own slot.
//!
//! 35 bits a coefficient, 8960 bytes a polynomial. The bytes of all clients are one array; a client fills its
//! slot and leaves the rest zero, so the sum of all vectors holds every slot. Slots need not start on a
//! coefficient: two clients may share one, each in its own bits.
//!
//! Nothing in the raw layout checks that slots are disjoint. Two clients in the same bits add up: a carry out
//! of a coefficient is seen (`CoeffOutOfRange`) if the plaintext modulus leaves room above 2^35 and wraps
//! around unseen if it is 2^35; carries inside a coefficient are never seen. [`slots`] agrees on disjoint slots
//! and leaves room in each for a check symbol.

pub(crate) mod pack;
pub mod slots;

pub use slots::{allocate, beacon, decode_ranges, encode_at};

use crate::fault::{Attribution, Fault};
use crate::plaintext::PlainPoly;
use chipmunk::N;
use pack::{SYMBOL_BITS, SYMBOL_LIMIT};

/// Bytes that one polynomial holds.
pub const BYTES_PER_POLY: usize = N * SYMBOL_BITS as usize / 8;
const _: () = assert!((N * SYMBOL_BITS as usize).is_multiple_of(8), "polynomials hold whole bytes");

/// Why bytes could not be packed or unpacked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CodecError {
    /// A coefficient does not fit 35 bits: the slots of two clients collided.
    #[error("coefficient {index} is {value}, expected less than 2^35: two slots collided")]
    CoeffOutOfRange {
        /// Which coefficient, counted over all polynomials.
        index: usize,
        /// Its value.
        value: u64,
    },
    /// No bytes, or no polynomials.
    #[error("nothing to encode or decode")]
    Empty,
    /// The polynomials do not hold that many bytes.
    #[error("{len} bytes expected, the polynomials hold at most {max}")]
    LengthOutOfRange {
        /// What was asked for.
        len: usize,
        /// What the polynomials hold.
        max: usize,
    },
    /// The ticket has no slot in this schedule.
    #[error("the ticket has no slot")]
    NoSlot,
    /// A vector of the wrong length.
    #[error("expected {expected} polynomials, got {found}")]
    PolyCount {
        /// What the layout says.
        expected: usize,
        /// What came.
        found: usize,
    },
    /// A range that is none, or reaches behind the polynomials.
    #[error("coefficients {start}..{end} expected, the polynomials hold 0..{max}")]
    RangeOutOfBounds {
        /// First coefficient.
        start: usize,
        /// One more than the last coefficient.
        end: usize,
        /// Coefficients there are.
        max: usize,
    },
    /// The frame is longer than its slot. By how much stays unsaid: the slot is secret.
    #[error("the frame does not fit its slot")]
    SlotOverflow,
    /// Some symbol of a frame has more than 35 bits. Which one stays unsaid: symbols are secret.
    #[error("a symbol of the frame is not less than 2^35")]
    SymbolOutOfRange,
    /// The vector would be larger than this library ever makes one.
    #[error("a layout has at most {max} coefficients, and so does its longest slot")]
    TooManyCoefficients {
        /// The limit.
        max: usize,
    },
    /// A nonzero bit behind the expected bytes.
    #[error("nonzero bits behind the first {len} bytes")]
    TrailingBits {
        /// What was asked for.
        len: usize,
    },
}

impl Fault for CodecError {
    fn code(&self) -> &'static str {
        match self {
            Self::CoeffOutOfRange { .. } => "codec_coeff_out_of_range",
            Self::Empty => "codec_empty",
            Self::LengthOutOfRange { .. } => "codec_length_out_of_range",
            Self::NoSlot => "codec_no_slot",
            Self::PolyCount { .. } => "codec_poly_count",
            Self::RangeOutOfBounds { .. } => "codec_range_out_of_bounds",
            Self::SlotOverflow => "codec_slot_overflow",
            Self::SymbolOutOfRange => "codec_symbol_out_of_range",
            Self::TooManyCoefficients { .. } => "codec_too_many_coefficients",
            Self::TrailingBits { .. } => "codec_trailing_bits",
        }
    }

    fn attribution(&self) -> Attribution {
        match self {
            // Some client wrote outside its slot; the sum does not say which.
            Self::CoeffOutOfRange { .. } | Self::TrailingBits { .. } => Attribution::Nobody,
            // Its request was refused, or did not come through.
            Self::NoSlot => Attribution::Nobody,
            Self::Empty
            | Self::LengthOutOfRange { .. }
            | Self::PolyCount { .. }
            | Self::RangeOutOfBounds { .. }
            | Self::SlotOverflow
            | Self::SymbolOutOfRange
            | Self::TooManyCoefficients { .. } => Attribution::Caller,
        }
    }
}

/// The polynomials that hold `bytes`, zeros behind them. Constant time in the bytes.
///
/// # Errors
/// `Empty` for no bytes.
pub fn encode_raw(bytes: &[u8]) -> Result<Vec<PlainPoly>, CodecError> {
    if bytes.is_empty() {
        return Err(CodecError::Empty);
    }
    let chunks = bytes.chunks(BYTES_PER_POLY);
    Ok(chunks
        .map(|chunk| {
            let mut poly = PlainPoly::zero();
            let mut coefficients = poly.coefficients_mut().iter_mut();
            pack::pack(chunk, |symbol| {
                *coefficients.next().expect("a chunk fills at most one polynomial") = symbol;
            });
            poly
        })
        .collect())
}

/// The first `len` bytes of a (summed) vector.
///
/// # Errors
/// `Empty` for no polynomials or no bytes; `LengthOutOfRange` if the polynomials hold less; `CoeffOutOfRange`
/// if two slots collided visibly; `TrailingBits` if anything behind the bytes is not 0.
pub fn decode_raw(polys: &[PlainPoly], len: usize) -> Result<Vec<u8>, CodecError> {
    if polys.is_empty() || len == 0 {
        return Err(CodecError::Empty);
    }
    // A polynomial in memory is larger than what it holds.
    let max = polys.len() * BYTES_PER_POLY;
    if len > max {
        return Err(CodecError::LengthOutOfRange { len, max });
    }
    let coefficients = || polys.iter().flat_map(|poly| poly.coefficients().iter().copied());
    if let Some((index, value)) = coefficients().enumerate().find(|&(_, value)| value >= SYMBOL_LIMIT) {
        return Err(CodecError::CoeffOutOfRange { index, value });
    }
    let mut bytes = vec![0; len];
    if !pack::unpack(coefficients(), &mut bytes) {
        return Err(CodecError::TrailingBits { len });
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sum(a: &[PlainPoly], b: &[PlainPoly]) -> Vec<PlainPoly> {
        assert_eq!(a.len(), b.len());
        let mut out = a.to_vec();
        for (out, b) in out.iter_mut().zip(b) {
            for (cell, &value) in out.coefficients_mut().iter_mut().zip(b.coefficients()) {
                *cell += value;
            }
        }
        out
    }

    fn pattern(len: usize) -> Vec<u8> {
        (0..len).map(|i| u8::try_from((i * 151 + i / 256) % 255 + 1).unwrap()).collect()
    }

    #[test]
    fn lengths_around_a_polynomial_round_trip() {
        assert_eq!(BYTES_PER_POLY, 8960);
        for (len, polys) in
            [(1, 1), (2, 1), (4, 1), (5, 1), (8959, 1), (8960, 1), (8961, 2), (17_920, 2), (17_921, 3)]
        {
            let bytes = pattern(len);
            let encoded = encode_raw(&bytes).unwrap();
            assert_eq!(encoded.len(), polys, "{len} bytes");
            assert_eq!(decode_raw(&encoded, len), Ok(bytes), "{len} bytes");
        }
    }

    #[test]
    fn nothing_is_refused() {
        assert_eq!(encode_raw(&[]), Err(CodecError::Empty));
        assert_eq!(decode_raw(&[], 1), Err(CodecError::Empty));
        assert_eq!(decode_raw(&[PlainPoly::zero()], 0), Err(CodecError::Empty));
    }

    #[test]
    fn a_length_beyond_the_polynomials_is_refused_before_allocation() {
        let polys = [PlainPoly::zero(), PlainPoly::zero()];
        assert_eq!(decode_raw(&polys, 17_920), Ok(vec![0; 17_920]));
        for len in [17_921, usize::MAX] {
            assert_eq!(decode_raw(&polys, len), Err(CodecError::LengthOutOfRange { len, max: 17_920 }));
        }
    }

    #[test]
    fn a_coefficient_beyond_35_bits_is_named() {
        let mut polys = encode_raw(&pattern(10_000)).unwrap();
        let at = 2048 + 17;
        for value in [1 << 35, u64::MAX] {
            polys[1].coefficients_mut()[17] = value;
            assert_eq!(decode_raw(&polys, 10_000), Err(CodecError::CoeffOutOfRange { index: at, value }));
        }
        polys[1].coefficients_mut()[17] = (1 << 35) - 1;
        assert!(decode_raw(&polys, 10_000).is_ok());
    }

    #[test]
    fn full_slots_that_overlap_collide() {
        let full = encode_raw(&[0xff; 70]).unwrap();
        let expected = CodecError::CoeffOutOfRange { index: 0, value: 2 * ((1 << 35) - 1) };
        assert_eq!(decode_raw(&sum(&full, &full), 70), Err(expected));
    }

    #[test]
    fn bits_behind_the_length_are_refused() {
        let bytes = pattern(40);
        let polys = encode_raw(&bytes).unwrap();
        assert_eq!(decode_raw(&polys, 39), Err(CodecError::TrailingBits { len: 39 }));
        // 40 bytes are 320 bits: coefficient 9 has 5 of them, and 30 bits behind the end.
        let mut last_bit = polys.clone();
        last_bit[0].coefficients_mut()[9] |= 1 << 34;
        assert_eq!(decode_raw(&last_bit, 40), Err(CodecError::TrailingBits { len: 40 }));
        let mut far = polys;
        far.push(PlainPoly::zero());
        assert_eq!(decode_raw(&far, 40), Ok(bytes));
        far[1].coefficients_mut()[2047] = 1;
        assert_eq!(decode_raw(&far, 40), Err(CodecError::TrailingBits { len: 40 }));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        // Slots of 1 to 30 bytes: nearly every boundary is inside a coefficient.
        #[test]
        fn disjoint_slots_add_up_to_the_union(slots in prop::collection::vec(1usize..30, 2..12)) {
            let total: usize = slots.iter().sum();
            let union = pattern(total);
            let mut at = 0;
            let mut vector = encode_raw(&vec![0; total]).unwrap();
            for slot in slots {
                let mut mine = vec![0; total];
                mine[at..at + slot].copy_from_slice(&union[at..at + slot]);
                vector = sum(&vector, &encode_raw(&mine).unwrap());
                at += slot;
            }
            prop_assert_eq!(decode_raw(&vector, total), Ok(union));
        }

        #[test]
        fn raw_bytes_round_trip(bytes in prop::collection::vec(any::<u8>(), 1..20_000)) {
            prop_assert_eq!(decode_raw(&encode_raw(&bytes).unwrap(), bytes.len()), Ok(bytes));
        }
    }
}
