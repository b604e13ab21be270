//! Bodies: what names them, where they lie, and the traits to store and read them.

use super::StoreError;
use std::fmt;
use std::ops::Range;

/// What a body is, for the file that it lies in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// Sealed openings.
    Openings,
    /// Anything else: documents, answers, sums.
    Other,
    /// Posts.
    Posts,
}

impl Class {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Openings, Self::Other, Self::Posts];

    pub(super) const fn byte(self) -> u8 {
        match self {
            Self::Posts => 1,
            Self::Openings => 2,
            Self::Other => 3,
        }
    }

    pub(super) fn from_byte(byte: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|class| class.byte() == byte)
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Openings => "openings",
            Self::Other => "other",
            Self::Posts => "posts",
        }
    }
}

/// Name of a body: BLAKE3 digest and exact length, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlobName {
    /// Its digest.
    pub digest: [u8; 32],
    /// Its bytes.
    pub len: u64,
}

impl BlobName {
    /// The name of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        let len = u64::try_from(bytes.len()).expect("a length fits 64 bits");
        Self { digest: *blake3::hash(bytes).as_bytes(), len }
    }
}

impl fmt::Display for BlobName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BLAKE3 {}, {} bytes", data_encoding::HEXLOWER.encode(&self.digest), self.len)
    }
}

/// A segment file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SegmentId {
    pub(super) round: u64,
    pub(super) class: Class,
    pub(super) number: u32,
}

impl SegmentId {
    pub(super) fn directory(round: u64) -> String {
        format!("rounds/{round}")
    }

    pub(super) fn path(self) -> String {
        format!("rounds/{}/{}", self.round, self.file_name())
    }

    pub(super) fn file_name(self) -> String {
        format!("{}-{:04}.seg", self.class.name(), self.number)
    }

    /// The segment of a file name as [`SegmentId::file_name`] spells it.
    pub(super) fn parse(round: u64, name: &str) -> Option<Self> {
        let (class, number) = name.strip_suffix(".seg")?.split_once('-')?;
        let class = Class::ALL.into_iter().find(|known| known.name() == class)?;
        let id = Self { round, class, number: number.parse().ok()? };
        (id.file_name() == name).then_some(id)
    }
}

/// Where a body lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Location {
    pub(super) segment: SegmentId,
    pub(super) offset: u64,
    pub(super) len: u64,
}

/// A body that is written in full and not yet durable: whoever submits it makes it so.
#[derive(Clone, Debug)]
pub struct StoredBlob {
    pub(super) digest: [u8; 32],
    pub(super) location: Location,
}

impl StoredBlob {
    /// Its name.
    pub const fn name(&self) -> BlobName {
        BlobName { digest: self.digest, len: self.location.len }
    }
}

/// A body on its way in. Dropped before its end, it leaves nothing.
pub trait BlobWriter: Send {
    /// Takes the next bytes.
    ///
    /// # Errors
    /// `BlobMismatch` as soon as there are more than announced; `Disk`.
    fn write(&mut self, bytes: &[u8]) -> Result<(), StoreError>;

    /// Ends the body.
    ///
    /// # Errors
    /// `BlobMismatch` if it is another one than announced.
    fn finish(self: Box<Self>) -> Result<StoredBlob, StoreError>;
}

/// Where bodies are kept, by round.
pub trait BlobStore: Send + Sync {
    /// Begins a body of this round and class with the name that it has to have at the end.
    ///
    /// # Errors
    /// `Deleted` if the round was; `Disk`; `Poisoned`.
    fn put(&self, round: u64, class: Class, expected: BlobName) -> Result<Box<dyn BlobWriter>, StoreError>;

    /// Length of a durable body, in bytes.
    ///
    /// # Errors
    /// `NotFound`; `Deleted` with its round.
    fn len(&self, digest: &[u8; 32]) -> Result<u64, StoreError>;

    /// Bytes of a durable body. Allocates the range's length, and only if the body has it.
    ///
    /// # Errors
    /// `NotFound`; `Deleted` with its round; `Range`; `Disk`.
    fn get(&self, digest: &[u8; 32], range: Range<u64>) -> Result<Vec<u8>, StoreError>;

    /// Deletes the bodies of a round for good. Durable on return; done again, it changes nothing.
    ///
    /// # Errors
    /// `Meta`, `Disk` or `Poisoned`.
    fn delete_round(&self, round: u64) -> Result<(), StoreError>;
}
