//! Files with secrets: text, readable by their owner alone.

use super::ConfigError;
use panetiere::sig::SigningKey;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;
use tlog::key::{Cosigner, NoteSigner};
use zeroize::Zeroizing;

/// Bytes of a secret's file at most.
const MAX_SECRET: u64 = 1 << 16;

/// The text in a secret's file.
///
/// # Errors
/// `Mode` if others may read or change it; systemd gives its group the right to read, which is as good. `File`.
pub fn text(path: &Path) -> Result<Zeroizing<String>, ConfigError> {
    let failed = |source| ConfigError::File { path: path.to_owned(), source };
    let file = File::open(path).map_err(failed)?;
    // Of the open file, not of the path: nobody can exchange it in between.
    let mode = file.metadata().map_err(failed)?.permissions().mode() & 0o7777;
    if mode & 0o037 != 0 {
        return Err(ConfigError::Mode { path: path.to_owned(), mode });
    }
    // Room for all of it from the start: a string that grows leaves its bytes behind.
    let mut text =
        Zeroizing::new(String::with_capacity(usize::try_from(MAX_SECRET).expect("a small constant")));
    file.take(MAX_SECRET).read_to_string(&mut text).map_err(failed)?;
    Ok(text)
}

/// A party's P-256 key: 64 lower-case hex digits.
///
/// # Errors
/// As [`text`]; `Secret` for anything else.
pub fn signing_key(path: &Path) -> Result<SigningKey, ConfigError> {
    let text = text(path)?;
    let mut scalar = Zeroizing::new([0; 32]);
    let decoded = data_encoding::HEXLOWER.decode_mut(text.trim_end().as_bytes(), &mut *scalar);
    let key = decoded.ok().filter(|len| *len == scalar.len());
    key.and_then(|_| SigningKey::from_scalar(&scalar).ok())
        .ok_or_else(|| ConfigError::Secret { path: path.to_owned(), expected: "P-256 key in 64 hex digits" })
}

/// The text of a party's key, as [`signing_key`] reads it.
pub fn signing_key_text(key: &SigningKey) -> Zeroizing<String> {
    Zeroizing::new(format!("{}\n", data_encoding::HEXLOWER.encode(&*key.expose_scalar())))
}

/// The log's key, as C2SP writes private keys.
///
/// # Errors
/// As [`signing_key`].
pub fn log_key(path: &Path) -> Result<NoteSigner, ConfigError> {
    NoteSigner::from_secret_text(text(path)?.trim_end())
        .map_err(|_| ConfigError::Secret { path: path.to_owned(), expected: "log key (PRIVATE+KEY+...)" })
}

/// A witness's key.
///
/// # Errors
/// As [`signing_key`].
pub fn cosigner(path: &Path) -> Result<Cosigner, ConfigError> {
    Cosigner::from_secret_text(text(path)?.trim_end()).map_err(|_| ConfigError::Secret {
        path: path.to_owned(),
        expected: "cosigner key (PRIVATE+KEY+...)",
    })
}

/// Writes a new file that only its owner can read.
///
/// # Errors
/// `AlreadyExists`, and others of the system's.
pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}
