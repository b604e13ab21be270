//! The rule of a witness, as a pure function. C2SP tlog-witness, `add-checkpoint`.
//!
//! A witness remembers one [`TreeHead`] for each log it knows and cosigns only what extends it. Whoever runs the rule
//! reads that head, asks [`check`], durably stores [`Accepted::head`] in its place, and only then calls
//! [`Accepted::cosign`]; reading and storing are one atomic step, or a slower request rolls the head back.

use crate::checkpoint::{Checkpoint, CheckpointError, Log, Origin, TreeHead};
use crate::key::{Cosigner, KeyError};
use crate::merkle::{ConsistencyError, empty_root, verify_consistency};
use crate::note::{Note, NoteError, Signature};
use crate::text::{self, take_line};
use std::fmt;

/// Hashes that a request has at most (C2SP tlog-witness).
pub const MAX_PROOF_HASHES: usize = 63;

/// Media type of the body that [`Refusal::size_body`] gives.
pub const SIZE_MEDIA_TYPE: &str = "text/x.tlog.size";

/// Why bytes are no request. A witness answers 400.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RequestError {
    /// The note's text is no checkpoint.
    #[error("unusable checkpoint")]
    Checkpoint(#[source] CheckpointError),
    /// What follows the empty line is no note.
    #[error("unusable note")]
    Note(#[source] NoteError),
    /// The first line is not `old` and a size.
    #[error("the first line is not the old size")]
    OldSize,
    /// Between the first line and an empty one stand not just hashes, at most [`MAX_PROOF_HASHES`].
    #[error("not a consistency proof of at most {MAX_PROOF_HASHES} hashes and an empty line")]
    Proof,
    /// Not UTF-8.
    #[error("a request is UTF-8")]
    Utf8,
}

impl RequestError {
    /// A stable snake_case name, for metrics and problem documents.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Checkpoint(error) => error.code(),
            Self::Note(error) => error.code(),
            Self::OldSize => "witness_request_old_size",
            Self::Proof => "witness_request_proof",
            Self::Utf8 => "witness_request_utf8",
        }
    }
}

/// What a log sends to a witness: the size it believes the witness to be at, the proof from there, a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    old_size: u64,
    proof: Vec<[u8; 32]>,
    note: Note,
    checkpoint: Checkpoint,
}

impl Request {
    /// A request from its parts.
    ///
    /// # Errors
    /// `OldSize` above [`crate::MAX_SIZE`]; `Proof` above [`MAX_PROOF_HASHES`]; `Checkpoint` if the note is none.
    pub fn new(old_size: u64, proof: Vec<[u8; 32]>, note: Note) -> Result<Self, RequestError> {
        if old_size > crate::MAX_SIZE {
            return Err(RequestError::OldSize);
        }
        if proof.len() > MAX_PROOF_HASHES {
            return Err(RequestError::Proof);
        }
        let checkpoint = note.text().parse().map_err(RequestError::Checkpoint)?;
        Ok(Self { old_size, proof, note, checkpoint })
    }

    /// Reads the body of a request.
    ///
    /// # Errors
    /// A [`RequestError`] for anything that [`Request`] does not write just so.
    pub fn parse(bytes: &[u8]) -> Result<Self, RequestError> {
        let mut rest = str::from_utf8(bytes).map_err(|_| RequestError::Utf8)?;
        let old = take_line(&mut rest).and_then(|line| text::decimal(line.strip_prefix("old ")?));
        let old = old.ok_or(RequestError::OldSize)?;
        let proof = text::hashes_to_blank(&mut rest, MAX_PROOF_HASHES).ok_or(RequestError::Proof)?;
        Self::new(old, proof, Note::parse(rest.as_bytes()).map_err(RequestError::Note)?)
    }

    /// Size that the witness is believed to be at.
    pub const fn old_size(&self) -> u64 {
        self.old_size
    }

    /// The consistency proof.
    pub fn proof(&self) -> &[[u8; 32]] {
        &self.proof
    }

    /// The note, as it came: evidence, whatever becomes of it.
    pub const fn note(&self) -> &Note {
        &self.note
    }

    /// The log that the checkpoint names. Not verified: to look up its [`Log`] and head.
    pub const fn origin(&self) -> &Origin {
        self.checkpoint.origin()
    }
}

/// The body of a request.
impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "old {}", self.old_size)?;
        self.proof.iter().try_for_each(|hash| writeln!(f, "{}", text::to_base64(hash)))?;
        write!(f, "\n{}", self.note)
    }
}

/// Why a witness does not cosign. [`Refusal::status`] is what it answers.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The witness is at another size: 409, with that size.
    #[error("the witness is at size {size}, not {old}")]
    Conflict {
        /// Size of the request.
        old: u64,
        /// Size of the witness.
        size: u64,
    },
    /// No signature of the log, or a wrong one: 403.
    #[error("the log did not sign this checkpoint")]
    Forbidden(#[source] CheckpointError),
    /// The checkpoint is smaller than where the request starts: 400.
    #[error("a checkpoint of size {new} for a request from size {old}")]
    OldSizeAboveNew {
        /// Size that the request starts from.
        old: u64,
        /// Size of the checkpoint.
        new: u64,
    },
    /// The bytes are no request: 400.
    #[error("malformed request")]
    Request(#[source] RequestError),
    /// The log signed another root for the size that the witness cosigned: 409, and evidence against the log.
    #[error("the log signed two roots for size {size}")]
    SplitView {
        /// The size.
        size: u64,
        /// The root that the witness cosigned.
        cosigned: [u8; 32],
        /// The root in the request.
        other: [u8; 32],
    },
    /// The witness does not know the log: 404.
    #[error("unknown log {origin:?}")]
    UnknownLog {
        /// Origin of the checkpoint.
        origin: Origin,
    },
    /// The proof does not show that the checkpoint extends what the witness cosigned: 422.
    #[error("no consistency proof")]
    Unproven(#[source] ConsistencyError),
}

impl Refusal {
    /// A stable snake_case name, for metrics and problem documents.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Conflict { .. } => "witness_conflict",
            Self::Forbidden(_) => "witness_forbidden",
            Self::OldSizeAboveNew { .. } => "witness_old_size_above_new",
            Self::Request(error) => error.code(),
            Self::SplitView { .. } => "witness_split_view",
            Self::UnknownLog { .. } => "witness_unknown_log",
            Self::Unproven(error) => error.code(),
        }
    }

    /// The HTTP status of the answer.
    pub const fn status(&self) -> u16 {
        match self {
            Self::OldSizeAboveNew { .. } | Self::Request(_) => 400,
            Self::Forbidden(_) => 403,
            Self::UnknownLog { .. } => 404,
            Self::Conflict { .. } | Self::SplitView { .. } => 409,
            Self::Unproven(_) => 422,
        }
    }

    /// The body of the answer to a request from another size, of media type [`SIZE_MEDIA_TYPE`]. None for any other
    /// refusal, whose body is free.
    pub fn size_body(&self) -> Option<String> {
        match self {
            Self::Conflict { size, .. } => Some(format!("{size}\n")),
            _ => None,
        }
    }
}

/// Reads the body of the answer 409: the size that the witness is at.
pub fn parse_size_body(bytes: &[u8]) -> Option<u64> {
    text::decimal(str::from_utf8(bytes).ok()?.strip_suffix('\n')?)
}

/// A checkpoint that the rule lets the witness cosign.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "to be stored, then cosigned"]
pub struct Accepted {
    checkpoint: Checkpoint,
}

impl Accepted {
    /// What to store as the last head of this log, durably, before [`Accepted::cosign`].
    pub const fn head(&self) -> TreeHead {
        self.checkpoint.head()
    }

    /// The checkpoint.
    pub const fn checkpoint(&self) -> &Checkpoint {
        &self.checkpoint
    }

    /// The cosignature, made at `time`, in seconds since the epoch. Its line is the answer, with status 200.
    ///
    /// # Errors
    /// `Timestamp` if the time exceeds 63 bits.
    pub fn cosign(&self, key: &Cosigner, time: u64) -> Result<Signature, KeyError> {
        key.sign(&self.checkpoint.to_string(), time)
    }
}

/// What a witness whose last cosigned head of `log` is `last` answers to a request; None if it never cosigned.
///
/// # Errors
/// A [`Refusal`], in the order of C2SP: `UnknownLog` if the request is about another log; `Forbidden`;
/// `OldSizeAboveNew`; `Conflict` if the request starts elsewhere; `SplitView`; `Unproven`.
pub fn check(log: &Log, last: Option<TreeHead>, request: &Request) -> Result<Accepted, Refusal> {
    if request.origin() != log.origin() {
        return Err(Refusal::UnknownLog { origin: request.origin().clone() });
    }
    let checkpoint = log.open(&request.note).map_err(Refusal::Forbidden)?;
    let (old, new) = (request.old_size, checkpoint.head());
    if old > new.size {
        return Err(Refusal::OldSizeAboveNew { old, new: new.size });
    }
    let last = last.unwrap_or_else(|| TreeHead { size: 0, root: empty_root() });
    if old != last.size {
        return Err(Refusal::Conflict { old, size: last.size });
    }
    if new.size == last.size && new.root != last.root {
        return Err(Refusal::SplitView { size: new.size, cosigned: last.root, other: new.root });
    }
    verify_consistency(last.size, &last.root, new.size, &new.root, &request.proof)
        .map_err(Refusal::Unproven)?;
    Ok(Accepted { checkpoint })
}
