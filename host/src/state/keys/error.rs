//! Why an epoch's key is not to be had.

use super::KeyState;
use crate::state::StateError;
use panetiere::bulletin::EpochError;
use panetiere::fault::{Attribution, Fault};
use panetiere::ids::EpochId;
use std::io;

/// An epoch's key is not to be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EpochKeyError {
    /// It went further than that: the life of a key has one direction.
    #[error("the key of epoch {epoch} is {found}, it cannot become {asked}")]
    Backwards {
        /// The epoch.
        epoch: EpochId,
        /// Where it is.
        found: KeyState,
        /// Where it was to be.
        asked: KeyState,
    },
    /// The epoch's document is not for these keys.
    #[error("unusable epoch")]
    Epoch(#[source] EpochError),
    /// The epoch had a key, or a later one was destroyed already. A number is used once.
    #[error("epoch {epoch} is not after all that were destroyed, or has a key already")]
    Exists {
        /// The epoch.
        epoch: EpochId,
    },
    /// The epoch's file cannot be read or written. If it was lost, the key is.
    #[error("the file of epoch {epoch} cannot be used")]
    File {
        /// The epoch.
        epoch: EpochId,
        /// The disk's error.
        #[source]
        source: io::Error,
    },
    /// The key is destroyed.
    #[error("the key of epoch {epoch} is destroyed")]
    Gone {
        /// The epoch.
        epoch: EpochId,
    },
    /// The state cannot be used.
    #[error(transparent)]
    State(#[from] StateError),
    /// There is no such key.
    #[error("epoch {epoch} has no key here")]
    Unknown {
        /// The epoch.
        epoch: EpochId,
    },
    /// The sealed seed does not open: another credential, or a damaged file.
    #[error("the key of epoch {epoch} does not open with this credential and its file")]
    Unwrappable {
        /// The epoch.
        epoch: EpochId,
    },
}

impl Fault for EpochKeyError {
    fn code(&self) -> &'static str {
        match self {
            Self::Backwards { .. } => "epoch_key_backwards",
            Self::Epoch(error) => error.code(),
            Self::Exists { .. } => "epoch_key_exists",
            Self::File { .. } => "epoch_key_file",
            Self::Gone { .. } => "epoch_key_gone",
            Self::State(error) => error.code(),
            Self::Unknown { .. } => "epoch_key_unknown",
            Self::Unwrappable { .. } => "epoch_key_unwrappable",
        }
    }

    fn attribution(&self) -> Attribution {
        match self {
            Self::Backwards { .. } | Self::Exists { .. } | Self::Gone { .. } | Self::Unknown { .. } => {
                Attribution::Caller
            }
            Self::Epoch(error) => error.attribution(),
            Self::State(error) => error.attribution(),
            Self::File { .. } | Self::Unwrappable { .. } => Attribution::Operator,
        }
    }
}
