//! The messages of a demo: from a file, from a directory, or random.
//!
//! Everything is read with a bound that follows from the command line, before it is held in memory: neither a
//! mistaken path nor an endless device can make the program allocate more.

use super::usage::UsageError;
use crate::seed::Seed;
use rand_core::Rng;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Bytes that a file may be longer than its longest acceptable content, so that a message that is too long is
/// named rather than the whole file refused.
const SLACK_BYTES: u64 = 64 << 10;

/// Where messages come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MessageSource {
    /// One message a file.
    Directory(PathBuf),
    /// One message a line.
    File(PathBuf),
}

impl fmt::Display for MessageSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Directory(path) => write!(f, "--messages-dir {}", path.display()),
            Self::File(path) => write!(f, "--messages {}", path.display()),
        }
    }
}

/// What can be sent at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Longest message, in bytes.
    pub message_bytes: usize,
    /// Clients that send, one message each.
    pub senders: usize,
}

/// A message and what to call it when there is something wrong with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedMessage {
    /// Exactly what is sent.
    pub bytes: Vec<u8>,
    /// The line or file it comes from.
    pub name: String,
}

/// One random message of exactly `bounds.message_bytes` bytes for each sender.
pub fn random(seed: &Seed, bounds: Bounds) -> Vec<Vec<u8>> {
    let mut stream = seed.stream("messages");
    let one = |_| {
        let mut message = vec![0; bounds.message_bytes];
        stream.fill_bytes(&mut message);
        message
    };
    (0..bounds.senders).map(one).collect()
}

/// Reads the messages of `source`. May return none.
///
/// # Errors
/// If the source cannot be read, is larger than anything that `bounds` admits, holds more messages than senders, or
/// (for a directory) something that is no file or a file longer than a message.
pub fn load(source: &MessageSource, bounds: Bounds) -> Result<Vec<NamedMessage>, UsageError> {
    match source {
        MessageSource::Directory(path) => load_directory(path, source, bounds),
        MessageSource::File(path) => load_file(path, source, bounds),
    }
}

/// The lines of a file. Only `\n` ends a line; everything else, `\r` included, belongs to the message.
///
/// A line may be empty. The last may lack its `\n`; nothing after a final `\n` is no line.
pub fn lines(contents: &[u8]) -> impl Iterator<Item = &[u8]> {
    contents.split_inclusive(|&byte| byte == b'\n').map(|line| line.strip_suffix(b"\n").unwrap_or(line))
}

fn load_file(path: &Path, source: &MessageSource, bounds: Bounds) -> Result<Vec<NamedMessage>, UsageError> {
    let unreadable = |error| UsageError::Unreadable {
        expected: "a readable file, one message a line",
        origin: source.to_string(),
        source: error,
    };
    let limit = file_limit(bounds);
    let contents = read_at_most(path, limit).map_err(unreadable)?;
    let contents = contents.ok_or_else(|| UsageError::InputTooLarge { limit, origin: source.to_string() })?;
    // One line more than there are senders is enough to know that there are too many.
    let messages: Vec<NamedMessage> = lines(&contents)
        .zip(1_u64..)
        .take(bounds.senders.saturating_add(1))
        .map(|(line, number)| NamedMessage {
            bytes: line.to_vec(),
            name: format!("line {number} of {}", path.display()),
        })
        .collect();
    Ok(messages)
}

/// Longest file that is read: every sender's line with its terminator, and some slack.
fn file_limit(bounds: Bounds) -> u64 {
    let line = bounds.message_bytes.saturating_add(1);
    u64::try_from(line.saturating_mul(bounds.senders)).unwrap_or(u64::MAX).saturating_add(SLACK_BYTES)
}

fn load_directory(
    path: &Path,
    source: &MessageSource,
    bounds: Bounds,
) -> Result<Vec<NamedMessage>, UsageError> {
    let unreadable = |origin: String, expected: &'static str| {
        move |error| UsageError::Unreadable { expected, origin, source: error }
    };
    let directory = || unreadable(source.to_string(), "a readable directory, one message a file");
    let mut names = Vec::new();
    for entry in fs::read_dir(path).map_err(directory())? {
        if names.len() == bounds.senders {
            return Err(UsageError::TooManyMessages { origin: source.to_string(), senders: bounds.senders });
        }
        names.push(entry.map_err(directory())?.file_name());
    }
    names.sort_unstable();

    let limit = u64::try_from(bounds.message_bytes).unwrap_or(u64::MAX);
    let mut messages = Vec::with_capacity(names.len());
    for name in names {
        let entry = path.join(name);
        let label = || entry.display().to_string();
        let file = || unreadable(label(), "a directory of readable files");
        // Follows links. Opening a pipe or a device could block for ever, so the kind comes first.
        let metadata = fs::metadata(&entry).map_err(file())?;
        if !metadata.is_file() {
            return Err(UsageError::DirectoryEntry { path: label() });
        }
        let Some(bytes) = read_at_most(&entry, limit).map_err(file())? else {
            return Err(UsageError::MessageTooLong {
                bytes: metadata.len(),
                max: bounds.message_bytes,
                message: label(),
            });
        };
        messages.push(NamedMessage { bytes, name: label() });
    }
    Ok(messages)
}

/// The file's contents, or `None` if there are more than `limit` bytes.
fn read_at_most(path: &Path, limit: u64) -> io::Result<Option<Vec<u8>>> {
    let file = File::open(path)?;
    if file.metadata()?.len() > limit {
        return Ok(None);
    }
    // The length above says nothing about a pipe or a growing file.
    let mut contents = Vec::new();
    let read = file.take(limit.saturating_add(1)).read_to_end(&mut contents)?;
    Ok((u64::try_from(read).is_ok_and(|read| read <= limit)).then_some(contents))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(contents: &[u8]) -> Vec<&[u8]> {
        lines(contents).collect()
    }

    #[test]
    fn a_line_ends_with_a_line_feed_and_nothing_else() {
        let none: [&[u8]; 0] = [];
        assert_eq!(split(b""), none);
        assert_eq!(split(b"\n"), [b""]);
        assert_eq!(split(b"a"), [b"a"]);
        assert_eq!(split(b"a\n"), [b"a"]);
        assert_eq!(split(b"a\n\nb"), [b"a".as_slice(), b"", b"b"]);
        assert_eq!(split(b"a\n\n"), [b"a".as_slice(), b""]);
        assert_eq!(split(b"\n\n"), [b"", b""]);
        assert_eq!(split(b"a\r\n\xff \rb\x00\n"), [b"a\r".as_slice(), b"\xff \rb\x00"]);
    }

    #[test]
    fn random_messages_are_full_length_distinct_and_repeatable() {
        let bounds = Bounds { message_bytes: 33, senders: 5 };
        let messages = random(&Seed::from_bytes([1; 32]), bounds);
        assert_eq!(messages.len(), 5);
        assert!(messages.iter().all(|message| message.len() == 33));
        let distinct: std::collections::BTreeSet<_> = messages.iter().collect();
        assert_eq!(distinct.len(), 5);
        assert_eq!(messages, random(&Seed::from_bytes([1; 32]), bounds));
        assert_ne!(messages, random(&Seed::from_bytes([2; 32]), bounds));
    }

    #[test]
    fn endless_input_is_refused_at_the_bound() {
        let bounds = Bounds { message_bytes: 10, senders: 2 };
        let error = load(&MessageSource::File("/dev/zero".into()), bounds).expect_err("it never ends");
        assert!(
            matches!(error, UsageError::InputTooLarge { limit, .. } if limit == 22 + SLACK_BYTES),
            "{error}"
        );
    }
}
