//! Merkle trees over byte leaves: RFC 6962 section 2.1, as the log of rounds has them.
//!
//! The functions are those of [`tlog::merkle`], so that an envelope root and a log root are one kind of thing; this
//! module adds what every error of this library answers.

pub use tlog::merkle::{
    MerkleError, inclusion_path, inclusion_paths, leaf_hash, path_len, root, root_of_path, verify_inclusion,
};

use crate::fault::{Attribution, Fault};

impl Fault for MerkleError {
    fn code(&self) -> &'static str {
        Self::code(self)
    }

    /// Nobody: a path is not signed, so whoever relays it can spoil it.
    fn attribution(&self) -> Attribution {
        Attribution::Nobody
    }
}
