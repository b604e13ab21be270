//! Signed notes: a text and the signatures under it. C2SP signed-note.

use crate::key::{KeyError, KeyId, KeyName, KeyRing, VerifierKey};
use crate::text::{self, take_line};
use std::fmt;

/// Signatures that a note has at most. C2SP asks for 16 or more.
pub const MAX_SIGNATURES: usize = 100;

/// Bytes that a note has at most: 100 signatures of the longest kind that C2SP has, and room for a text.
pub const MAX_NOTE_BYTES: usize = 1 << 19;

/// What a signature line begins with.
const MARK: &str = "\u{2014} ";

/// Why bytes are no note, or why a note is not to be trusted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NoteError {
    /// A signature of a trusted key is wrong: the whole note is refused.
    #[error("a signature of a known key is wrong")]
    BadSignature(#[source] KeyError),
    /// A byte that no note has: not UTF-8, or a control character.
    #[error("a note is UTF-8 without control characters")]
    Encoding,
    /// No empty line between text and signatures, or no newline where there must be one.
    #[error("not a text, an empty line and signature lines")]
    Layout,
    /// A line under the text is no signature.
    #[error("signature line {line} is malformed")]
    SignatureLine {
        /// Number of the line among the signatures, from 0.
        line: usize,
    },
    /// More bytes than [`MAX_NOTE_BYTES`].
    #[error("a note has at most {MAX_NOTE_BYTES} bytes, found {found}")]
    TooLong {
        /// Bytes given.
        found: usize,
    },
    /// More signatures than [`MAX_SIGNATURES`].
    #[error("a note has at most {MAX_SIGNATURES} signatures")]
    TooManySignatures,
}

impl NoteError {
    /// A stable snake_case name, for metrics and problem documents.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::BadSignature(_) => "note_bad_signature",
            Self::Encoding => "note_encoding",
            Self::Layout => "note_layout",
            Self::SignatureLine { .. } => "note_signature_line",
            Self::TooLong { .. } => "note_too_long",
            Self::TooManySignatures => "note_too_many_signatures",
        }
    }
}

/// One signature line: whose it is said to be, and bytes that are worth nothing until a key verified them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signature {
    name: KeyName,
    id: KeyId,
    bytes: Vec<u8>,
}

impl Signature {
    /// A line of this key name and identifier. None without signature bytes.
    pub fn new(name: KeyName, id: KeyId, bytes: Vec<u8>) -> Option<Self> {
        (!bytes.is_empty()).then_some(Self { name, id, bytes })
    }

    /// Name of the key.
    pub const fn name(&self) -> &KeyName {
        &self.name
    }

    /// Identifier of the key.
    pub const fn id(&self) -> KeyId {
        self.id
    }

    /// The signature after the key identifier.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Reads signature lines, each with its newline, as a note ends with them and a witness answers with them.
    ///
    /// # Errors
    /// `Layout` if the last newline is missing; `TooManySignatures`; `SignatureLine` for a line of another form.
    pub fn parse_lines(text: &str) -> Result<Vec<Self>, NoteError> {
        let mut signatures = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            let line = take_line(&mut rest).ok_or(NoteError::Layout)?;
            if signatures.len() == MAX_SIGNATURES {
                return Err(NoteError::TooManySignatures);
            }
            let signature = Self::parse_line(line);
            signatures.push(signature.ok_or(NoteError::SignatureLine { line: signatures.len() })?);
        }
        Ok(signatures)
    }

    fn parse_line(line: &str) -> Option<Self> {
        let (name, encoded) = line.strip_prefix(MARK)?.split_once(' ')?;
        let mut id = text::base64(encoded)?;
        if id.len() < 4 {
            return None;
        }
        let bytes = id.split_off(4);
        Self::new(name.parse().ok()?, KeyId(id.try_into().ok()?), bytes)
    }
}

/// The signature line, with its newline.
impl fmt::Display for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let encoded = text::to_base64(&[self.id.as_bytes(), &self.bytes[..]].concat());
        writeln!(f, "{MARK}{} {encoded}", self.name)
    }
}

/// A signature that verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verified<'a> {
    /// Whose it is.
    pub key: &'a VerifierKey,
    /// When it was made, in seconds since the epoch, if its algorithm signs that.
    pub time: Option<u64>,
}

/// A text and the signatures under it, none of them verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    text: String,
    signatures: Vec<Signature>,
}

impl Note {
    /// A note from its parts.
    ///
    /// # Errors
    /// `Encoding` or `Layout` unless the text ends with a newline and has no other control character; `Layout` without
    /// a signature; `TooManySignatures`; `TooLong`.
    pub fn new(text: String, signatures: Vec<Signature>) -> Result<Self, NoteError> {
        if text.contains(|c: char| c < ' ' && c != '\n') {
            return Err(NoteError::Encoding);
        }
        if !text.ends_with('\n') || signatures.is_empty() {
            return Err(NoteError::Layout);
        }
        if signatures.len() > MAX_SIGNATURES {
            return Err(NoteError::TooManySignatures);
        }
        let note = Self { text, signatures };
        let found = note.to_string().len();
        if found > MAX_NOTE_BYTES { Err(NoteError::TooLong { found }) } else { Ok(note) }
    }

    /// Reads a note. No signature is verified.
    ///
    /// # Errors
    /// `TooLong`, `Encoding`, `Layout`, `SignatureLine` or `TooManySignatures` for anything that [`Note`] does not
    /// write just so.
    pub fn parse(bytes: &[u8]) -> Result<Self, NoteError> {
        if bytes.len() > MAX_NOTE_BYTES {
            return Err(NoteError::TooLong { found: bytes.len() });
        }
        let whole = str::from_utf8(bytes).map_err(|_| NoteError::Encoding)?;
        if whole.contains(|c: char| c < ' ' && c != '\n') {
            return Err(NoteError::Encoding);
        }
        let split = whole.rfind("\n\n").ok_or(NoteError::Layout)?;
        let (text, signatures) = (&whole[..=split], &whole[split + 2..]);
        let signatures = Signature::parse_lines(signatures)?;
        if signatures.is_empty() {
            return Err(NoteError::Layout);
        }
        Ok(Self { text: text.to_owned(), signatures })
    }

    /// The text, with the newline at its end. To be ignored until a trusted key verified it.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The signature lines, in their order.
    pub fn signatures(&self) -> &[Signature] {
        &self.signatures
    }

    /// Adds a signature, in the place of the one of the same key if there is one.
    ///
    /// # Errors
    /// `TooManySignatures` or `TooLong`; the note is unchanged then.
    pub fn add(&mut self, signature: Signature) -> Result<(), NoteError> {
        let same = |other: &Signature| other.name == signature.name && other.id == signature.id;
        let mut signatures = self.signatures.clone();
        match signatures.iter().position(same) {
            Some(place) => signatures[place] = signature,
            None => signatures.push(signature),
        }
        *self = Self::new(self.text.clone(), signatures)?;
        Ok(())
    }

    /// Verifies every signature of a key in the ring and returns each key once, in the order of the lines. Other
    /// signatures are ignored. None may be left: whoever calls says how many it needs.
    ///
    /// # Errors
    /// `BadSignature` if one of a known key is wrong, even if another one of that key is right.
    pub fn verify<'a>(&self, ring: &'a KeyRing) -> Result<Vec<Verified<'a>>, NoteError> {
        let mut verified: Vec<Verified<'a>> = Vec::new();
        for signature in &self.signatures {
            let Some(key) = ring.find(&signature.name, signature.id) else { continue };
            let time = key.verify(&self.text, &signature.bytes).map_err(NoteError::BadSignature)?;
            if verified.iter().all(|other| other.key != key) {
                verified.push(Verified { key, time });
            }
        }
        Ok(verified)
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.text)?;
        self.signatures.iter().try_for_each(|signature| signature.fmt(f))
    }
}
