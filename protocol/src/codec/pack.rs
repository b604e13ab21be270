//! Bytes as 35-bit symbols: the one packing of every payload layout.
//!
//! The bytes are one string of bits, lowest bit of each byte first; symbol i is bits `35 * i ..= 35 * i +
//! 34`, lowest first, padded with zeros at the end. The time depends on lengths only.

/// Bits of a symbol: both plaintext moduli, 2^35 and the prime of the sketch, carry this many.
pub(crate) const SYMBOL_BITS: u32 = 35;

/// One more than the largest symbol.
pub(crate) const SYMBOL_LIMIT: u64 = 1 << SYMBOL_BITS;

/// Symbols that hold `bytes` bytes; `None` if the number of bits overflows.
pub(crate) fn symbols_for(bytes: usize) -> Option<usize> {
    Some(bytes.checked_mul(8)?.div_ceil(SYMBOL_BITS as usize))
}

/// Whole bytes that `symbols` symbols hold; `None` if the number of bits overflows.
pub(crate) fn bytes_in(symbols: usize) -> Option<usize> {
    Some(symbols.checked_mul(SYMBOL_BITS as usize)? / 8)
}

/// The symbols of `bytes`: [`symbols_for`] of them, in order.
pub(crate) fn pack(bytes: &[u8], mut symbol: impl FnMut(u64)) {
    let (mut buffer, mut filled) = (0u64, 0);
    for &byte in bytes {
        // At most 34 + 8 bits.
        buffer |= u64::from(byte) << filled;
        filled += 8;
        if filled >= SYMBOL_BITS {
            symbol(buffer & (SYMBOL_LIMIT - 1));
            buffer >>= SYMBOL_BITS;
            filled -= SYMBOL_BITS;
        }
    }
    if filled > 0 {
        symbol(buffer);
    }
}

/// Undoes [`pack`]: fills `bytes` from the front of the symbols.
///
/// Returns whether every bit behind them is 0. The symbols must be below [`SYMBOL_LIMIT`] and hold all of
/// `bytes`.
#[must_use]
pub(crate) fn unpack(symbols: impl IntoIterator<Item = u64>, bytes: &mut [u8]) -> bool {
    let mut symbols = symbols.into_iter();
    let mut next = || {
        let symbol = symbols.next().expect("the symbols hold all bytes");
        debug_assert!(symbol < SYMBOL_LIMIT);
        symbol
    };
    // Eight symbols are 280 bits: four words and three bytes.
    let (groups, tail) = bytes.as_chunks_mut::<35>();
    for group in groups {
        let [s0, s1, s2, s3, s4, s5, s6, s7]: [u64; 8] = std::array::from_fn(|_| next());
        let words = [
            s0 | s1 << 35,
            s1 >> 29 | s2 << 6 | s3 << 41,
            s3 >> 23 | s4 << 12 | s5 << 47,
            s5 >> 17 | s6 << 18 | s7 << 53,
            s7 >> 11,
        ];
        let words = words.map(u64::to_le_bytes);
        group.copy_from_slice(&words.as_flattened()[..35]);
    }
    let (mut buffer, mut filled) = (0u64, 0);
    for byte in tail {
        while filled < 8 {
            // At most 7 + 35 bits.
            buffer |= next() << filled;
            filled += SYMBOL_BITS;
        }
        let [low, ..] = buffer.to_le_bytes();
        *byte = low;
        buffer >>= 8;
        filled -= 8;
    }
    symbols.fold(0, |rest, symbol| rest | symbol) == 0 && buffer == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn packed(bytes: &[u8]) -> Vec<u64> {
        let mut symbols = Vec::new();
        pack(bytes, |symbol| symbols.push(symbol));
        symbols
    }

    #[test]
    fn sizes_at_the_edges() {
        // 35 bytes are exactly 8 symbols.
        for (bytes, symbols) in
            [(0, 0), (1, 1), (4, 1), (5, 2), (8, 2), (9, 3), (35, 8), (36, 9), (8960, 2048)]
        {
            assert_eq!(symbols_for(bytes), Some(symbols), "{bytes} bytes");
        }
        for (symbols, bytes) in [(0, 0), (1, 4), (2, 8), (3, 13), (8, 35), (2048, 8960)] {
            assert_eq!(bytes_in(symbols), Some(bytes), "{symbols} symbols");
        }
        assert_eq!(symbols_for(usize::MAX), None);
        assert_eq!(bytes_in(usize::MAX), None);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn every_bit_is_where_the_format_says(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            let symbols = packed(&bytes);
            prop_assert_eq!(Some(symbols.len()), symbols_for(bytes.len()));
            // Bit by bit, from the definition.
            for bit in 0..symbols.len() * 35 {
                let expected = bytes.get(bit / 8).is_some_and(|byte| (byte >> (bit % 8)) & 1 == 1);
                prop_assert_eq!((symbols[bit / 35] >> (bit % 35)) & 1 == 1, expected, "bit {}", bit);
            }
            prop_assert!(symbols.iter().all(|&symbol| symbol < SYMBOL_LIMIT));
        }

        #[test]
        fn unpack_undoes_pack_and_sees_bits_behind_the_end(
            bytes in prop::collection::vec(any::<u8>(), 1..100),
            extra in 0usize..3,
            at in any::<prop::sample::Index>(),
        ) {
            let mut symbols = packed(&bytes);
            symbols.resize(symbols.len() + extra, 0);
            let mut back = vec![0xaa; bytes.len()];
            prop_assert!(unpack(symbols.iter().copied(), &mut back));
            prop_assert_eq!(&back, &bytes);
            let behind = symbols.len() * 35 - bytes.len() * 8;
            if behind > 0 {
                let bit = bytes.len() * 8 + at.index(behind);
                symbols[bit / 35] |= 1 << (bit % 35);
                prop_assert!(!unpack(symbols, &mut back));
                prop_assert_eq!(back, bytes);
            }
        }
    }
}
