//! The transparency log of Panetière, without I/O, clock or ambient randomness.
//!
//! A log is a list of entries that only grows. Its state is a [checkpoint]: size and Merkle root, signed.
//! Anyone can check that an entry is under a checkpoint and that one checkpoint extends another. What signatures alone
//! cannot rule out is that a log shows different people different lists; [witnesses](witness) do, each of which
//! cosigns a checkpoint only if it extends all that it cosigned before, and a [quorum] of which cannot be had
//! for two diverging ones.
//!
//! All formats are those of [C2SP](https://c2sp.org), so that other logs' tools read ours: [`tile`] and [`entry`]
//! (tlog-tiles), [`note`] and [`key`] (signed-note), [`checkpoint`] (tlog-checkpoint), cosignatures in [`key`] and
//! [`witness`] (tlog-cosignature v1, tlog-witness), [`proof`] (tlog-proof). Hashes are RFC 6962's ([`merkle`]). A
//! parser takes exactly what its type's `Display` writes: one text per value.
//!
//! Storage is the caller's: [`builder::Builder`] says which files to write, [`prove`] reads them through
//! [`prove::ReadTiles`].
//!
//! # Example
//!
//! A log of two entries, one witness that cosigns it, and a receipt that needs nothing else:
//!
//! ```
//! use tlog::builder::Builder;
//! use tlog::checkpoint::{Checkpoint, Log, TreeHead};
//! use tlog::key::{Cosigner, NoteSigner};
//! use tlog::merkle::{inclusion_path, leaf_hash};
//! use tlog::proof::Proof;
//! use tlog::quorum::Quorum;
//! use tlog::witness::{self, Request};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // The log. Seeds are random bytes in earnest.
//! let key = NoteSigner::from_seed("log.example/one".parse()?, &[1; 32]);
//! let log = Log::new("log.example/one".parse()?, vec![key.verifier().clone()])?;
//! let mut builder = Builder::new();
//! builder.append(b"first")?;
//! builder.append(b"second")?;
//! let files = builder.take_changes(); // to be stored before the checkpoint is shown
//! assert_eq!(files[1].resource.to_string(), "tile/0/000.p/2");
//! let head = TreeHead { size: builder.size(), root: builder.root() };
//! let mut note = Checkpoint::new(log.origin().clone(), head)?.sign(&key)?;
//!
//! // The witness has not seen this log yet, so there is nothing to be consistent with.
//! let cosigner = Cosigner::from_seed("witness.example".parse()?, &[2; 32]);
//! let request = Request::parse(Request::new(0, vec![], note.clone())?.to_string().as_bytes())?;
//! let accepted = witness::check(&log, None, &request)?;
//! let _stored = accepted.head(); // durably, before the next line
//! note.add(accepted.cosign(&cosigner, 1_700_000_000)?)?;
//!
//! // The receipt, and whoever checks it.
//! let leaves = [leaf_hash(b"first"), leaf_hash(b"second")];
//! let receipt = Proof::new(1, inclusion_path(&leaves, 1), note)?.to_string();
//! let quorum = Quorum::new(log, vec![cosigner.verifier().clone()], 0)?;
//! let cosigned = Proof::parse(receipt.as_bytes())?.verify_cosigned(b"second", &quorum)?;
//! assert_eq!(cosigned.checkpoint.head(), head);
//! assert!(Proof::parse(receipt.as_bytes())?.verify_cosigned(b"other", &quorum).is_err());
//! # Ok(())
//! # }
//! ```

pub mod builder;
pub mod checkpoint;
pub mod entry;
pub mod key;
pub mod merkle;
pub mod note;
pub mod proof;
pub mod prove;
pub mod quorum;
mod text;
pub mod tile;
pub mod witness;

/// Leaves that a log has at most: `2^63 - 1`, the sizes that every other implementation can read.
pub const MAX_SIZE: u64 = i64::MAX.unsigned_abs();
