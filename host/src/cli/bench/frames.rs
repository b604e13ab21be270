//! Length-prefixed messages over a pipe between the bench and its workers.

use anyhow::ensure;
use std::io::{Read, Write};

/// More than any object of a round: a worker that announces more is broken.
const MAX_FRAME: u32 = 1 << 30;

/// Writes one frame and flushes.
pub(super) fn write(out: &mut impl Write, bytes: &[u8]) -> anyhow::Result<()> {
    out.write_all(&u32::try_from(bytes.len())?.to_le_bytes())?;
    out.write_all(bytes)?;
    Ok(out.flush()?)
}

/// Reads one frame into `buffer`.
pub(super) fn read(input: &mut impl Read, buffer: &mut Vec<u8>) -> anyhow::Result<()> {
    let mut length = [0; 4];
    input.read_exact(&mut length)?;
    let length = u32::from_le_bytes(length);
    ensure!(length <= MAX_FRAME, "a frame of {length} bytes");
    buffer.resize(usize::try_from(length)?, 0);
    Ok(input.read_exact(buffer)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_back_in_order() {
        let mut pipe = Vec::new();
        for frame in [b"one".as_slice(), b"", b"three"] {
            write(&mut pipe, frame).unwrap();
        }
        let (mut input, mut buffer) = (pipe.as_slice(), Vec::new());
        for frame in [b"one".as_slice(), b"", b"three"] {
            read(&mut input, &mut buffer).unwrap();
            assert_eq!(buffer, frame);
        }
        assert!(read(&mut input, &mut buffer).is_err(), "end of the pipe");
        assert!(read(&mut [0xFFu8; 8].as_slice(), &mut buffer).is_err(), "refused before allocating 4 GiB");
    }
}
