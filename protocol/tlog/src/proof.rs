//! Proofs that carry everything with them: an index, an inclusion path and the checkpoint. C2SP tlog-proof.

use crate::MAX_SIZE;
use crate::checkpoint::{Checkpoint, CheckpointError, Log, TreeHead};
use crate::merkle::{MerkleError, leaf_hash, verify_inclusion};
use crate::note::{Note, NoteError};
use crate::quorum::{Cosigned, Quorum, QuorumError};
use crate::text::{self, take_line};
use std::fmt;

/// The first line.
const HEADER: &str = "c2sp.org/tlog-proof@v1";

/// Hashes of the longest inclusion path of a log.
const MAX_PATH: usize = 63;

/// Why bytes are no proof, or prove nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProofError {
    /// The checkpoint is not signed by the log.
    #[error("unusable checkpoint")]
    Checkpoint(#[source] CheckpointError),
    /// The extra line is empty or not base64.
    #[error("not the extra data of a proof")]
    Extra,
    /// The first line is another one.
    #[error("the first line is not {HEADER}")]
    Header,
    /// The path does not lead to the checkpoint's root.
    #[error("the entry is not under the checkpoint")]
    Inclusion(#[source] MerkleError),
    /// The index is missing or not a decimal of at most 63 bits.
    #[error("not the index of an entry")]
    Index,
    /// What follows the path is no note.
    #[error("unusable note")]
    Note(#[source] NoteError),
    /// Between the index and an empty line stand not just hashes, at most 63.
    #[error("not an inclusion path and an empty line")]
    Path,
    /// The checkpoint lacks a quorum.
    #[error("no quorum of witnesses")]
    Quorum(#[source] QuorumError),
    /// Not UTF-8.
    #[error("a proof is UTF-8")]
    Utf8,
}

impl ProofError {
    /// A stable snake_case name, for metrics and problem documents.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Checkpoint(error) => error.code(),
            Self::Extra => "proof_extra",
            Self::Header => "proof_header",
            Self::Inclusion(error) => error.code(),
            Self::Index => "proof_index",
            Self::Note(error) => error.code(),
            Self::Path => "proof_path",
            Self::Quorum(error) => error.code(),
            Self::Utf8 => "proof_utf8",
        }
    }
}

/// A receipt for one entry. Nothing in it is verified before [`Proof::verify`] or [`Proof::verify_cosigned`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proof {
    index: u64,
    path: Vec<[u8; 32]>,
    note: Note,
    extra: Vec<u8>,
}

impl Proof {
    /// A proof for the entry at `index` (from 0) with its inclusion path, lowest sibling first, in the tree of the
    /// signed checkpoint.
    ///
    /// # Errors
    /// `Index` above [`MAX_SIZE`]; `Path` above 63 hashes.
    pub fn new(index: u64, path: Vec<[u8; 32]>, note: Note) -> Result<Self, ProofError> {
        if index > MAX_SIZE {
            return Err(ProofError::Index);
        }
        if path.len() > MAX_PATH {
            return Err(ProofError::Path);
        }
        Ok(Self { index, path, note, extra: Vec::new() })
    }

    /// The same proof with bytes beside it that nothing authenticates. None: no such line.
    #[must_use]
    pub fn with_extra(self, extra: Vec<u8>) -> Self {
        Self { extra, ..self }
    }

    /// Reads a proof.
    ///
    /// # Errors
    /// A [`ProofError`] for anything that [`Proof`] does not write just so.
    pub fn parse(bytes: &[u8]) -> Result<Self, ProofError> {
        let mut rest = str::from_utf8(bytes).map_err(|_| ProofError::Utf8)?;
        if take_line(&mut rest) != Some(HEADER) {
            return Err(ProofError::Header);
        }
        let mut line = take_line(&mut rest).ok_or(ProofError::Index)?;
        let mut extra = Vec::new();
        if let Some(encoded) = line.strip_prefix("extra ") {
            extra = text::base64(encoded).filter(|extra| !extra.is_empty()).ok_or(ProofError::Extra)?;
            line = take_line(&mut rest).ok_or(ProofError::Index)?;
        }
        let index = line.strip_prefix("index ").and_then(text::decimal).ok_or(ProofError::Index)?;
        let path = text::hashes_to_blank(&mut rest, MAX_PATH).ok_or(ProofError::Path)?;
        let note = Note::parse(rest.as_bytes()).map_err(ProofError::Note)?;
        Ok(Self::new(index, path, note)?.with_extra(extra))
    }

    /// Index of the entry, from 0.
    pub const fn index(&self) -> u64 {
        self.index
    }

    /// The signed checkpoint.
    pub const fn note(&self) -> &Note {
        &self.note
    }

    /// Bytes that nothing authenticates.
    pub fn extra(&self) -> &[u8] {
        &self.extra
    }

    /// Verifies that the log signed a checkpoint with this entry at [`Proof::index`], and returns the checkpoint.
    ///
    /// # Errors
    /// `Checkpoint` for what [`Log::open`] refuses; `Inclusion` if the path does not lead to its root.
    pub fn verify(&self, entry: &[u8], log: &Log) -> Result<Checkpoint, ProofError> {
        let checkpoint = log.open(&self.note).map_err(ProofError::Checkpoint)?;
        self.check_path(entry, checkpoint.head())?;
        Ok(checkpoint)
    }

    /// As [`Proof::verify`], under a checkpoint that a quorum of witnesses cosigned.
    ///
    /// # Errors
    /// `Quorum` for what [`Quorum::open`] refuses; `Inclusion` if the path does not lead to its root.
    pub fn verify_cosigned<'a>(&self, entry: &[u8], quorum: &'a Quorum) -> Result<Cosigned<'a>, ProofError> {
        let cosigned = quorum.open(&self.note).map_err(ProofError::Quorum)?;
        self.check_path(entry, cosigned.checkpoint.head())?;
        Ok(cosigned)
    }

    fn check_path(&self, entry: &[u8], head: TreeHead) -> Result<(), ProofError> {
        verify_inclusion(&head.root, &leaf_hash(entry), self.index, head.size, &self.path)
            .map_err(ProofError::Inclusion)
    }
}

/// The text of the proof.
impl fmt::Display for Proof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{HEADER}")?;
        if !self.extra.is_empty() {
            writeln!(f, "extra {}", text::to_base64(&self.extra))?;
        }
        writeln!(f, "index {}", self.index)?;
        self.path.iter().try_for_each(|hash| writeln!(f, "{}", text::to_base64(hash)))?;
        write!(f, "\n{}", self.note)
    }
}
