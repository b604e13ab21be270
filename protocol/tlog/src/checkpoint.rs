//! Checkpoints: origin, size and root of a log in a signed note. C2SP tlog-checkpoint.

use crate::MAX_SIZE;
use crate::key::{Algorithm, KeyError, KeyRing, NoteSigner, VerifierKey};
use crate::note::{Note, NoteError};
use crate::text::{self, take_line};
use std::fmt;
use std::str::FromStr;

/// Bytes of the longest origin that this crate takes; the ML-DSA cosignatures of C2SP can carry no longer one.
pub const MAX_ORIGIN_BYTES: usize = 255;

/// Extension lines that this crate takes; logs of ours write none.
pub const MAX_EXTENSIONS: usize = 64;

/// Why a text is no checkpoint, or why a note is not one of this log.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CheckpointError {
    /// An extension line is empty, has a control character, or is one too many.
    #[error("extension line {line} of the checkpoint is malformed or above {MAX_EXTENSIONS}")]
    Extension {
        /// Number of the line among the extensions, from 0.
        line: usize,
    },
    /// A line is missing, or goes on without a newline.
    #[error("a checkpoint has three lines or more")]
    Lines,
    /// The note cannot be trusted.
    #[error("unusable note")]
    Note(#[source] NoteError),
    /// The origin is empty, too long, or has a control character.
    #[error("not the origin of a log")]
    Origin,
    /// The checkpoint is another log's.
    #[error("expected a checkpoint of {expected}, found {found:?}")]
    OtherLog {
        /// The log.
        expected: Origin,
        /// The checkpoint's origin.
        found: Origin,
    },
    /// The third line is not a hash in base64.
    #[error("not the root hash of a log")]
    Root,
    /// The second line is not a decimal of at most 63 bits.
    #[error("not the size of a log")]
    Size,
    /// No key of the log signed it.
    #[error("no known key of {origin} signed the checkpoint")]
    Unsigned {
        /// The log.
        origin: Origin,
    },
}

impl CheckpointError {
    /// A stable snake_case name, for metrics and problem documents.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Extension { .. } => "checkpoint_extension",
            Self::Lines => "checkpoint_lines",
            Self::Note(error) => error.code(),
            Self::Origin => "checkpoint_origin",
            Self::OtherLog { .. } => "checkpoint_other_log",
            Self::Root => "checkpoint_root",
            Self::Size => "checkpoint_size",
            Self::Unsigned { .. } => "checkpoint_unsigned",
        }
    }
}

fn has_control(line: &str) -> bool {
    line.contains(|c: char| c < ' ')
}

/// Identity of a log: one line of 1 to [`MAX_ORIGIN_BYTES`] bytes of UTF-8 without ASCII controls.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Origin(String);

impl Origin {
    /// The origin as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Origin {
    type Err = CheckpointError;

    fn from_str(text: &str) -> Result<Self, CheckpointError> {
        if text.is_empty() || text.len() > MAX_ORIGIN_BYTES || has_control(text) {
            return Err(CheckpointError::Origin);
        }
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Size and root of a tree: all that consistency is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TreeHead {
    /// Number of leaves.
    pub size: u64,
    /// Root over them.
    pub root: [u8; 32],
}

/// What a log says of itself. Its text is what the log and the witnesses sign.
///
/// Says nothing about who signed it: [`Log::open`] and [`crate::quorum::Quorum::open`] do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    origin: Origin,
    head: TreeHead,
    extensions: Vec<String>,
}

impl Checkpoint {
    /// A checkpoint without extension lines.
    ///
    /// # Errors
    /// `Size` above [`MAX_SIZE`].
    pub fn new(origin: Origin, head: TreeHead) -> Result<Self, CheckpointError> {
        if head.size > MAX_SIZE {
            return Err(CheckpointError::Size);
        }
        Ok(Self { origin, head, extensions: Vec::new() })
    }

    /// The same checkpoint with these extension lines. C2SP recommends none: nobody audits them.
    ///
    /// # Errors
    /// `Extension` for one that is empty or has a control character, and for the one after [`MAX_EXTENSIONS`].
    pub fn with_extensions(self, extensions: Vec<String>) -> Result<Self, CheckpointError> {
        let malformed =
            |(place, line): (usize, &String)| place == MAX_EXTENSIONS || line.is_empty() || has_control(line);
        match extensions.iter().enumerate().position(malformed) {
            Some(line) => Err(CheckpointError::Extension { line }),
            None => Ok(Self { extensions, ..self }),
        }
    }

    /// Identity of the log.
    pub const fn origin(&self) -> &Origin {
        &self.origin
    }

    /// Size and root.
    pub const fn head(&self) -> TreeHead {
        self.head
    }

    /// Extension lines, without their newlines.
    pub fn extensions(&self) -> &[String] {
        &self.extensions
    }

    /// The note with the log's signature. A log signs only what extends all that it ever signed (C2SP); this function
    /// cannot know.
    ///
    /// # Errors
    /// `TooLong` if extension lines make it longer than a note can be.
    pub fn sign(&self, key: &NoteSigner) -> Result<Note, NoteError> {
        let text = self.to_string();
        let signature = key.sign(&text);
        Note::new(text, vec![signature])
    }
}

/// The text that is signed: three lines or more, each with its newline.
impl fmt::Display for Checkpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}\n{}\n{}", self.origin, self.head.size, text::to_base64(&self.head.root))?;
        self.extensions.iter().try_for_each(|line| writeln!(f, "{line}"))
    }
}

/// Reads the text of a checkpoint, in its one spelling.
impl FromStr for Checkpoint {
    type Err = CheckpointError;

    fn from_str(text: &str) -> Result<Self, CheckpointError> {
        let mut rest = text;
        let mut line = || take_line(&mut rest).ok_or(CheckpointError::Lines);
        let (origin, size, root) = (line()?, line()?, line()?);
        let head = TreeHead {
            size: text::decimal(size).ok_or(CheckpointError::Size)?,
            root: text::hash(root).ok_or(CheckpointError::Root)?,
        };
        let mut extensions = Vec::new();
        while !rest.is_empty() {
            if extensions.len() == MAX_EXTENSIONS {
                return Err(CheckpointError::Extension { line: MAX_EXTENSIONS });
            }
            extensions.push(take_line(&mut rest).ok_or(CheckpointError::Lines)?.to_owned());
        }
        Self::new(origin.parse()?, head)?.with_extensions(extensions)
    }
}

/// A log as others know it: its origin and the keys that sign for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Log {
    origin: Origin,
    keys: KeyRing,
}

impl Log {
    /// A log with these keys: one, or two while one replaces the other.
    ///
    /// # Errors
    /// `Algorithm` unless all sign notes by Ed25519; `Duplicate` if one is there twice.
    pub fn new(origin: Origin, keys: Vec<VerifierKey>) -> Result<Self, KeyError> {
        Ok(Self { origin, keys: KeyRing::new(Algorithm::Ed25519, keys)? })
    }

    /// Identity of the log.
    pub const fn origin(&self) -> &Origin {
        &self.origin
    }

    /// Keys that sign for it.
    pub fn keys(&self) -> &[VerifierKey] {
        self.keys.keys()
    }

    /// The checkpoint in a note, if this log signed it.
    ///
    /// # Errors
    /// Anything wrong with the checkpoint's text; `OtherLog` for another origin; `Note` if a signature of a known key
    /// is wrong; `Unsigned` if there is none.
    pub fn open(&self, note: &Note) -> Result<Checkpoint, CheckpointError> {
        let checkpoint: Checkpoint = note.text().parse()?;
        if checkpoint.origin != self.origin {
            let (expected, found) = (self.origin.clone(), checkpoint.origin);
            return Err(CheckpointError::OtherLog { expected, found });
        }
        if note.verify(&self.keys).map_err(CheckpointError::Note)?.is_empty() {
            return Err(CheckpointError::Unsigned { origin: self.origin.clone() });
        }
        Ok(checkpoint)
    }
}
