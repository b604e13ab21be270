//! What the bytes of an input mean: choices, and edits of something valid.
//!
//! The valid things are made at the start, not stored in the corpus: an input is a few bytes that say which one and what
//! is done to it, so that the fuzzer spends its edits where they count, also in objects of many kilobytes.

/// Bytes from the front of an input; zeros when it has ended.
#[derive(Clone)]
pub struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What is left.
    pub const fn rest(&self) -> &'a [u8] {
        self.0
    }

    pub fn u8(&mut self) -> u8 {
        let (first, rest) = self.0.split_first().unwrap_or((&0, &[]));
        self.0 = rest;
        *first
    }

    pub fn u16(&mut self) -> u16 {
        u16::from_le_bytes([self.u8(), self.u8()])
    }

    pub fn u32(&mut self) -> u32 {
        u32::from(self.u16()) | u32::from(self.u16()) << 16
    }

    pub fn u64(&mut self) -> u64 {
        u64::from(self.u32()) | u64::from(self.u32()) << 32
    }

    /// A number below `bound`, which is at most 256 and not zero.
    pub fn below(&mut self, bound: usize) -> usize {
        usize::from(self.u8()) % bound
    }

    /// One of these.
    pub fn pick<'t, T>(&mut self, of: &'t [T]) -> &'t T {
        &of[self.below(of.len())]
    }

    /// The next bytes, at most `most` of them: a length first.
    pub fn bytes(&mut self, most: usize) -> &'a [u8] {
        let len = usize::from(self.u8()).min(most).min(self.0.len());
        let (bytes, rest) = self.0.split_at(len);
        self.0 = rest;
        bytes
    }

    /// A place in something of `len` bytes, its end included: counted from the front or from the back.
    pub fn place(&mut self, len: usize) -> usize {
        let raw = self.u32();
        let offset = usize::try_from(raw >> 1).expect("31 bits") % (len + 1);
        if raw & 1 == 0 { offset } else { len - offset }
    }
}

/// Values that lengths and counts go wrong at.
const EDGES: [u64; 8] = [0, 1, 0xFF, 0xFFFF, 0x7FFF_FFFF, 0xFFFF_FFFF, 1 << 63, u64::MAX];

/// Edits `bytes` as the input says, until it ends or says so, at most eight times; `other` is spliced in now and then.
pub fn edit(mut bytes: Vec<u8>, other: &[u8], input: &mut Input<'_>) -> Vec<u8> {
    for _ in 0..8 {
        if input.is_empty() {
            break;
        }
        let kind = input.u8() % 11;
        if kind == 0 {
            break;
        }
        let at = input.place(bytes.len());
        let left = bytes.len() - at;
        match kind {
            1 if left > 0 => bytes[at] = input.u8(),
            2 if left > 0 => bytes[at] ^= 1 << (input.u8() % 8),
            3 => bytes.truncate(at),
            4 => drop(bytes.splice(at..at, input.bytes(32).iter().copied())),
            5 => drop(bytes.drain(at..at + usize::from(input.u8()).min(left))),
            6 => {
                let edge = input.pick(&EDGES).to_le_bytes();
                let width = (1 << input.below(4)).min(left);
                bytes[at..at + width].copy_from_slice(&edge[..width]);
            }
            7 => {
                let fill = input.u8();
                let width = usize::from(input.u16()).min(left);
                bytes[at..at + width].fill(fill);
            }
            8 => {
                let from = input.place(other.len());
                let width = usize::from(input.u16()).min(left).min(other.len() - from);
                bytes[at..at + width].copy_from_slice(&other[from..from + width]);
            }
            9 => {
                let given = input.bytes(64);
                let width = given.len().min(left);
                bytes[at..at + width].copy_from_slice(&given[..width]);
            }
            _ => {
                // A number of four bytes, moved by a little.
                let step = i32::from(input.u8()) - 128;
                if let Some(place) = bytes.get_mut(at..at + 4) {
                    let number = u32::from_le_bytes(place.try_into().expect("four bytes"));
                    place.copy_from_slice(&number.wrapping_add_signed(step).to_le_bytes());
                }
            }
        }
    }
    bytes
}
