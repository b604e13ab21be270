//! Merkle trees over byte leaves: RFC 6962 section 2.1, as the log of rounds has them.
//!
//! The functions are those of [`tlog::merkle`], so that an envelope root and a log root are one kind of thing.

pub use tlog::merkle::{
    MerkleError, inclusion_path, inclusion_paths, leaf_hash, path_len, root, root_of_path, verify_inclusion,
};
