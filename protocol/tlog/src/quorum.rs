//! How many witnesses make a checkpoint the only one.
//!
//! Of W witnesses at most f_w are faulty. Two sets of q share at least `2q - W` witnesses; with
//! `q = floor((W + f_w) / 2) + 1` that is more than f_w, so one of them is honest and cosigned both, which it does for
//! consistent checkpoints only.

use crate::checkpoint::{Checkpoint, CheckpointError, Log};
use crate::key::{Algorithm, KeyError, KeyRing, VerifierKey};
use crate::note::Note;

/// Why there is no quorum, or none can be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum QuorumError {
    /// The note is no checkpoint of the log, or a known signature is wrong.
    #[error("unusable checkpoint")]
    Checkpoint(#[source] CheckpointError),
    /// The witnesses' keys are no ring of cosigners.
    #[error("unusable witness keys")]
    Keys(#[source] KeyError),
    /// Too few known witnesses cosigned.
    #[error("{needed} witnesses must cosign, {found} did")]
    TooFew {
        /// Cosignatures that make a quorum.
        needed: usize,
        /// Distinct known witnesses that cosigned.
        found: usize,
    },
    /// So many may be faulty that even all witnesses together prove nothing.
    #[error("of {witnesses} witnesses, {faulty} faulty ones leave no quorum")]
    Unreachable {
        /// All witnesses.
        witnesses: usize,
        /// Those that may be faulty.
        faulty: usize,
    },
}

impl QuorumError {
    /// A stable snake_case name, for metrics and problem documents.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Checkpoint(error) => error.code(),
            Self::Keys(error) => error.code(),
            Self::TooFew { .. } => "quorum_too_few",
            Self::Unreachable { .. } => "quorum_unreachable",
        }
    }
}

/// Cosignatures that make a quorum: `floor((witnesses + faulty) / 2) + 1`.
///
/// # Errors
/// `Unreachable` if that is more than all witnesses.
pub const fn quorum_size(witnesses: usize, faulty: usize) -> Result<usize, QuorumError> {
    let refused = Err(QuorumError::Unreachable { witnesses, faulty });
    let Some(sum) = witnesses.checked_add(faulty) else { return refused };
    let needed = sum / 2 + 1;
    if needed > witnesses { refused } else { Ok(needed) }
}

/// A log and the witnesses whose word on it counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quorum {
    log: Log,
    witnesses: KeyRing,
    needed: usize,
}

/// A checkpoint that a quorum cosigned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cosigned<'a> {
    /// The checkpoint.
    pub checkpoint: Checkpoint,
    /// Who cosigned, each witness once, and when, in seconds since the epoch.
    pub cosigners: Vec<(&'a VerifierKey, u64)>,
}

impl Quorum {
    /// The rule for `log`, of whose `witnesses` at most `faulty` are faulty.
    ///
    /// # Errors
    /// `Keys` unless each is a cosigner's and there once; `Unreachable` if there can be no quorum.
    pub fn new(log: Log, witnesses: Vec<VerifierKey>, faulty: usize) -> Result<Self, QuorumError> {
        let needed = quorum_size(witnesses.len(), faulty)?;
        let witnesses = KeyRing::new(Algorithm::CosignatureV1, witnesses).map_err(QuorumError::Keys)?;
        Ok(Self { log, witnesses, needed })
    }

    /// The log.
    pub const fn log(&self) -> &Log {
        &self.log
    }

    /// The witnesses.
    pub fn witnesses(&self) -> &[VerifierKey] {
        self.witnesses.keys()
    }

    /// Cosignatures that are needed.
    pub const fn needed(&self) -> usize {
        self.needed
    }

    /// The checkpoint in a note, if the log signed it and a quorum of distinct known witnesses cosigned it.
    ///
    /// # Errors
    /// `Checkpoint` for what [`Log::open`] refuses and for a wrong cosignature of a known witness; `TooFew`.
    pub fn open(&self, note: &Note) -> Result<Cosigned<'_>, QuorumError> {
        let checkpoint = self.log.open(note).map_err(QuorumError::Checkpoint)?;
        let verified = note
            .verify(&self.witnesses)
            .map_err(|error| QuorumError::Checkpoint(CheckpointError::Note(error)))?;
        if verified.len() < self.needed {
            return Err(QuorumError::TooFew { needed: self.needed, found: verified.len() });
        }
        let time = |time: Option<u64>| time.expect("a cosignature has a time");
        let cosigners = verified.into_iter().map(|one| (one.key, time(one.time))).collect();
        Ok(Cosigned { checkpoint, cosigners })
    }
}
