//! The wire layer: `Encode`/`Decode`, a length-checked reader, one error.
//!
//! Little-endian, fixed layout, canonical: `decode(encode(x)) = x` and nothing else parses. Every top-level object
//! starts with a 2-byte type and a 2-byte version. A reader checks what is left before anybody allocates.

use std::fmt;

/// Version of every top-level object that this crate writes and accepts.
pub const VERSION: u16 = 1;

/// Why bytes did not parse. Holds no input bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} at byte {offset}: {kind}")]
pub struct DecodeError {
    /// Where the field starts, counted from the first byte given.
    pub offset: usize,
    /// The field.
    pub what: &'static str,
    /// What is wrong with it.
    pub kind: DecodeErrorKind,
}

/// What is wrong with a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DecodeErrorKind {
    /// Every value of the field is in range but this combination has another, canonical encoding.
    NotCanonical,
    /// A value outside its range.
    OutOfRange,
    /// Bytes after the end of the object.
    Trailing {
        /// How many.
        extra: usize,
    },
    /// The input ends too early.
    Truncated {
        /// Bytes the field needs.
        need: usize,
        /// Bytes left.
        have: usize,
    },
    /// A fixed or agreed value differs.
    Unexpected {
        /// What this place must hold.
        expected: u64,
        /// What it holds.
        found: u64,
    },
}

impl fmt::Display for DecodeErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotCanonical => f.write_str("not the canonical encoding"),
            Self::OutOfRange => f.write_str("value out of range"),
            Self::Trailing { extra } => write!(f, "{extra} bytes too many"),
            Self::Truncated { need, have } => write!(f, "needs {need} bytes, {have} left"),
            Self::Unexpected { expected, found } => write!(f, "expected {expected}, found {found}"),
        }
    }
}

/// Reads fields off a byte slice and remembers where it is.
#[derive(Debug)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    /// Starts at the first byte.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Bytes not yet read.
    pub const fn remaining(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// Bytes read so far.
    pub const fn offset(&self) -> usize {
        self.at
    }

    /// What was read from `offset`, at most [`offset`](Self::offset), to here.
    pub fn since(&self, offset: usize) -> &'a [u8] {
        &self.bytes[offset..self.at]
    }

    /// An error about the field that starts here.
    pub const fn fault(&self, what: &'static str, kind: DecodeErrorKind) -> DecodeError {
        DecodeError { offset: self.at, what, kind }
    }

    /// The next `len` bytes, not copied.
    ///
    /// # Errors
    /// `Truncated` if fewer are left.
    pub fn take(&mut self, len: usize, what: &'static str) -> Result<&'a [u8], DecodeError> {
        let have = self.remaining();
        if have < len {
            return Err(self.fault(what, DecodeErrorKind::Truncated { need: len, have }));
        }
        let start = self.at;
        self.at += len;
        Ok(&self.bytes[start..self.at])
    }

    /// The next `L` bytes as an array.
    ///
    /// # Errors
    /// `Truncated` if fewer are left.
    pub fn array<const L: usize>(&mut self, what: &'static str) -> Result<[u8; L], DecodeError> {
        Ok(self.take(L, what)?.try_into().expect("take returned exactly L bytes"))
    }

    /// The next `len` bytes, read by `parse`; whatever that finds wrong is a value out of range where the field starts.
    ///
    /// # Errors
    /// `Truncated` if fewer bytes are left; `OutOfRange` if `parse` refuses them.
    pub fn field<T, E>(
        &mut self,
        len: usize,
        what: &'static str,
        parse: impl FnOnce(&'a [u8]) -> Result<T, E>,
    ) -> Result<T, DecodeError> {
        let refused = self.fault(what, DecodeErrorKind::OutOfRange);
        parse(self.take(len, what)?).map_err(|_| refused)
    }

    /// The next byte.
    ///
    /// # Errors
    /// `Truncated` at the end of the input.
    pub fn u8(&mut self, what: &'static str) -> Result<u8, DecodeError> {
        Ok(self.array::<1>(what)?[0])
    }

    /// The next u16.
    ///
    /// # Errors
    /// `Truncated` if fewer than two bytes are left.
    pub fn u16(&mut self, what: &'static str) -> Result<u16, DecodeError> {
        Ok(u16::from_le_bytes(self.array(what)?))
    }

    /// The next u32.
    ///
    /// # Errors
    /// `Truncated` if fewer than four bytes are left.
    pub fn u32(&mut self, what: &'static str) -> Result<u32, DecodeError> {
        Ok(u32::from_le_bytes(self.array(what)?))
    }

    /// The next u64.
    ///
    /// # Errors
    /// `Truncated` if fewer than eight bytes are left.
    pub fn u64(&mut self, what: &'static str) -> Result<u64, DecodeError> {
        Ok(u64::from_le_bytes(self.array(what)?))
    }

    /// Reads a value and compares it with the one that must stand here.
    ///
    /// # Errors
    /// `Unexpected` with both values; `Truncated` at the end of the input.
    pub fn expect_u16(&mut self, expected: u16, what: &'static str) -> Result<(), DecodeError> {
        let offset = self.at;
        let found = self.u16(what)?;
        if found != expected {
            let kind = DecodeErrorKind::Unexpected { expected: expected.into(), found: found.into() };
            return Err(DecodeError { offset, what, kind });
        }
        Ok(())
    }

    /// Type and version of a top-level object.
    ///
    /// # Errors
    /// `Unexpected` for another type or version.
    pub fn header(&mut self, object: ObjectType) -> Result<(), DecodeError> {
        self.expect_u16(object as u16, "object type")?;
        self.expect_u16(VERSION, "object version")
    }

    /// Refuses bytes after the object.
    ///
    /// # Errors
    /// `Trailing` with their number.
    pub const fn finish(&self) -> Result<(), DecodeError> {
        match self.remaining() {
            0 => Ok(()),
            extra => Err(self.fault("end of object", DecodeErrorKind::Trailing { extra })),
        }
    }
}

/// The 2-byte type that opens every top-level object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
#[non_exhaustive]
pub enum ObjectType {
    /// A client's signed statement: the log's `Post` leaf.
    PostStatement = 0x0101,
    /// A client's post: statement, roots, ciphertext.
    ClientPost = 0x0102,
    /// One sealed opening with its inclusion path under the statement's `env_root`.
    Envelope = 0x0103,
    /// One coded share of a ciphertext with its path and its inclusion path under the statement's `env_root`.
    LaneItem = 0x0104,
    /// A client's post in erasure mode: statement and both roots.
    RsClientPost = 0x0105,
    /// A client's answer to one server's complaint.
    Answer = 0x0106,
    /// The sum of one server over one canonical set.
    ServerSum = 0x0201,
    /// The sum of one lane over one set of clients.
    LaneSum = 0x0202,
    /// The sum of one aggregator over its group.
    GroupSum = 0x0203,
    /// What one server found wrong with the envelopes of a session.
    Checked = 0x0204,
    /// An epoch's document.
    Epoch = 0x0301,
    /// A canonical set, spelled out.
    CanonicalSet = 0x0302,
    /// The messages of a round, published.
    Messages = 0x0303,
    /// What convicts one party, with everything that it takes to check it.
    Evidence = 0x0401,
    /// A log leaf: a client is admitted, with its key.
    Admission = 0x0501,
    /// A log leaf: a round starts; the session id is a hash of this leaf and its place.
    RoundOpen = 0x0502,
    /// A log leaf: a round's set is settled by what stands before.
    RoundClose = 0x0503,
    /// A log leaf: a round ends without a result.
    RoundAbort = 0x0504,
    /// A log leaf: one server's signed claim, the digest of its sum in place of the sum.
    ServerSumLeaf = 0x0505,
    /// A log leaf: one lane's signed claim, the digest of its sum in place of the sum.
    LaneSumLeaf = 0x0506,
    /// A log leaf: one aggregator's signed claim, the digest of its sum in place of the sum.
    GroupSumLeaf = 0x0507,
    /// A log leaf: what the recipient made of a round.
    Result = 0x0508,
    /// A log leaf: a party's key is replaced by another.
    KeyRotation = 0x0509,
    /// A log leaf: an admission is taken back.
    Revocation = 0x050a,
    /// A log leaf: an epoch's document and the terms of its rounds.
    EpochLeaf = 0x050b,
    /// A log leaf: a round takes no more posts; its servers check what they were sent.
    PostsEnd = 0x050c,
    /// A log leaf: evidence takes a client out of a round.
    Expulsion = 0x050d,
}

impl ObjectType {
    /// Writes type and version.
    pub fn encode_header(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&(self as u16).to_le_bytes());
        out.extend_from_slice(&VERSION.to_le_bytes());
    }
}

/// Bytes of type and version.
pub const HEADER_LEN: usize = 4;

/// Writes a value in its one encoding.
pub trait Encode {
    /// Appends the encoding to `out`.
    fn encode(&self, out: &mut Vec<u8>);

    /// Exact number of bytes that [`encode`](Self::encode) appends.
    fn encoded_len(&self) -> usize;

    /// The encoding by itself.
    fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.encoded_len());
        self.encode(&mut out);
        debug_assert_eq!(out.len(), self.encoded_len());
        out
    }
}

/// Reads a value whose size follows from the bytes alone.
pub trait Decode: Sized {
    /// Reads one value and leaves the reader behind it.
    ///
    /// # Errors
    /// Where and why the bytes are no encoding of a value.
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError>;

    /// Reads exactly one value: trailing bytes are refused.
    ///
    /// # Errors
    /// As [`decode`](Self::decode), and `Trailing`.
    fn from_bytes(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(bytes);
        let value = Self::decode(&mut reader)?;
        reader.finish()?;
        Ok(value)
    }
}

/// Reads a value whose size or ranges follow from parameters both sides hold.
pub trait DecodeWith<P: ?Sized>: Sized {
    /// Reads one value and leaves the reader behind it.
    ///
    /// # Errors
    /// Where and why the bytes are no encoding of a value under `params`.
    fn decode_with(params: &P, reader: &mut Reader<'_>) -> Result<Self, DecodeError>;

    /// Reads exactly one value: trailing bytes are refused.
    ///
    /// # Errors
    /// As [`decode_with`](Self::decode_with), and `Trailing`.
    fn from_bytes_with(params: &P, bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(bytes);
        let value = Self::decode_with(params, &mut reader)?;
        reader.finish()?;
        Ok(value)
    }
}
