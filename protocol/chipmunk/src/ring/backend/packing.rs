//! Where packed words lie: byte and bit positions, by width, for the byte shuffles of the vector back-ends.
//!
//! Two words of `width` bits are a pair. A pair that stands at bit b is moved up by `b mod 8` and is then whole bytes,
//! of which the first and the last are shared with its neighbours.

/// Widths whose words lie within four bytes wherever they start, and whose pairs cover at least one byte.
pub(super) const WIDTHS: std::ops::RangeInclusive<u32> = 4..=25;

/// How to take apart and put together 16 words of one width, `2 * width` bytes.
pub(super) struct Layout {
    /// The four bytes that word i lies in, at `4 * i`.
    pub windows: [u8; 64],
    /// At which bit of its window word i starts.
    pub starts: [u32; 16],
    /// How far pair i moves up to be whole bytes.
    pub phases: [u64; 8],
    /// Which byte goes to byte j, of pairs held in eight bytes each: that of the last pair which reaches into it.
    pub last: [u8; 64],
    /// The same of the pair before that one; [`NOTHING`] where it does not reach into byte j.
    pub before: [u8; 64],
    /// The same three for 8 words in two halves of four words, the bytes of the second half counted from byte
    /// `width / 2` on: if a half leaves half a byte over, that byte is in both.
    pub halves: Halves,
}

/// Indices for shuffles within halves of 16 bytes.
pub(super) struct Halves {
    pub windows: [u8; 32],
    pub last: [u8; 32],
    pub before: [u8; 32],
}

/// An index with the top bit set: byte shuffles put a zero there.
pub(super) const NOTHING: u8 = 0x80;

/// The layout of every width.
static LAYOUTS: [Layout; 22] = {
    let mut layouts = [const { Layout::new(4) }; 22];
    let mut i = 0;
    while i < layouts.len() {
        layouts[i] = Layout::new(4 + i);
        i += 1;
    }
    layouts
};

impl Layout {
    /// The layout of a width, if it is one of [`WIDTHS`].
    pub(super) fn of(width: u32) -> Option<&'static Self> {
        LAYOUTS.get(usize::try_from(width.checked_sub(*WIDTHS.start())?).ok()?)
    }

    #[expect(clippy::cast_possible_truncation, reason = "positions in 64 bytes")]
    const fn new(width: usize) -> Self {
        let mut layout = Self {
            windows: [0; 64],
            starts: [0; 16],
            phases: [0; 8],
            last: [NOTHING; 64],
            before: [NOTHING; 64],
            halves: Halves { windows: [0; 32], last: [NOTHING; 32], before: [NOTHING; 32] },
        };
        let mut word = 0;
        while word < 16 {
            let mut byte = 0;
            while byte < 4 {
                layout.windows[4 * word + byte] = (word * width / 8 + byte) as u8;
                byte += 1;
            }
            layout.starts[word] = (word * width % 8) as u32;
            word += 1;
        }
        let mut pair = 0;
        while pair < 8 {
            let (start, end) = (2 * pair * width, 2 * (pair + 1) * width);
            layout.phases[pair] = (start % 8) as u64;
            let mut byte = start / 8;
            while 8 * byte < end {
                layout.before[byte] = layout.last[byte];
                layout.last[byte] = (8 * pair + byte - start / 8) as u8;
                byte += 1;
            }
            pair += 1;
        }
        let mut i = 0;
        while i < 32 {
            let (half, byte) = (i / 16, i % 16 + i / 16 * (width / 2));
            layout.halves.windows[i] = layout.windows[i] - (half * (width / 2)) as u8;
            layout.halves.last[i] = within_half(layout.last[byte], half);
            layout.halves.before[i] = within_half(layout.before[byte], half);
            i += 1;
        }
        layout
    }
}

/// The index of a byte of the half's two pairs, within these; [`NOTHING`] for a byte of another pair.
const fn within_half(index: u8, half: usize) -> u8 {
    if index as usize / 16 == half { index % 16 } else { NOTHING }
}
