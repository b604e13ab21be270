//! Entry bundles: up to 256 entries, each behind its length in two bytes, big-endian. C2SP tlog-tiles.

use crate::tile::Bundle;

/// Bytes of the longest entry.
pub const MAX_ENTRY_BYTES: usize = u16::MAX as usize;

/// Why bytes are no entry or no bundle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EntryError {
    /// The entry does not fit behind a two-byte length.
    #[error("an entry has at most {MAX_ENTRY_BYTES} bytes, found {found}")]
    TooLong {
        /// Bytes of the entry.
        found: usize,
    },
    /// Bytes are left after the last entry.
    #[error("{bundle} goes on for {found} bytes after its last entry")]
    Trailing {
        /// The bundle.
        bundle: Bundle,
        /// Bytes left.
        found: usize,
    },
    /// The bytes end within an entry or before the last one.
    #[error("{bundle} ends at entry {entry}")]
    Truncated {
        /// The bundle.
        bundle: Bundle,
        /// Place of the missing entry within the bundle, from 0.
        entry: u16,
    },
}

impl EntryError {
    /// A stable snake_case name, for metrics and problem documents.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::TooLong { .. } => "entry_too_long",
            Self::Trailing { .. } => "entry_bundle_trailing",
            Self::Truncated { .. } => "entry_bundle_truncated",
        }
    }
}

/// Appends an entry to the bytes of a bundle.
///
/// # Errors
/// `TooLong` above [`MAX_ENTRY_BYTES`]; nothing is appended then.
pub fn push(bundle: &mut Vec<u8>, entry: &[u8]) -> Result<(), EntryError> {
    let length = u16::try_from(entry.len()).map_err(|_| EntryError::TooLong { found: entry.len() })?;
    bundle.extend_from_slice(&length.to_be_bytes());
    bundle.extend_from_slice(entry);
    Ok(())
}

/// The first entry of some in a row, and what comes after it. None: there is none, or not all of it.
pub fn next(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, after) = bytes.split_first_chunk::<2>()?;
    after.split_at_checked(u16::from_be_bytes(*length).into())
}

impl Bundle {
    /// Reads the entries of this bundle, without copying them.
    ///
    /// # Errors
    /// `Truncated` or `Trailing` unless the bytes are exactly [`Bundle::width`] entries.
    pub fn parse(self, bytes: &[u8]) -> Result<Vec<&[u8]>, EntryError> {
        let mut entries = Vec::with_capacity(self.width().into());
        let mut rest = bytes;
        for entry in 0..self.width() {
            let (body, after) = next(rest).ok_or(EntryError::Truncated { bundle: self, entry })?;
            entries.push(body);
            rest = after;
        }
        if rest.is_empty() {
            Ok(entries)
        } else {
            Err(EntryError::Trailing { bundle: self, found: rest.len() })
        }
    }
}
