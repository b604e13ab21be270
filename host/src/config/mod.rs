//! What operators write: the deployment's public description, and one file for each daemon. TOML, every key known, units
//! in the names, secrets only by path.
//!
//! A path in a file is relative to that file's directory. `$CREDENTIALS_DIRECTORY` in front of a secret's path stands for
//! the directory that systemd gives the unit.

mod daemon;
mod deployment;
mod parties;
mod secret;

pub use daemon::{
    AggregatorConfig, BulletinConfig, ClientFile, LaneConfig, Listen, PolicyConfig, RecipientConfig, Role,
    Rounds, ServerConfig, Storage, TlsFiles, Webhook, WitnessConfig,
};
pub use deployment::{Deployment, Endpoint};
pub use parties::Parties;
pub use secret::{
    cosigner, log_key, signing_key, signing_key_text, text as secret_text, write as write_secret,
};

use crate::anchor::AnchorError;
use panetiere::fault::{Attribution, Fault};
use serde::de::DeserializeOwned;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

/// Bytes of a file of ours that are read at most.
const MAX_BYTES: u64 = 1 << 20;

/// A configuration cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The anchor in a deployment's description.
    #[error("{path}: the anchor")]
    Anchor {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: AnchorError,
    },
    /// A file cannot be read.
    #[error("{path} cannot be read")]
    File {
        /// The file.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// A file with a secret that others can read or change.
    #[error("{path} has mode {mode:o}: only its owner may read and nobody else may write it (chmod 600)")]
    Mode {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// A key that is none.
    #[error("{path} holds no {expected}")]
    Secret {
        /// The file.
        path: PathBuf,
        /// What it should hold.
        expected: &'static str,
    },
    /// Not TOML with these keys.
    #[error("{path}: {reason}")]
    Syntax {
        /// The file.
        path: PathBuf,
        /// The parser's words, on one line.
        reason: String,
    },
    /// A value that the daemon cannot work with.
    #[error("{path}: {key}: {reason}")]
    Value {
        /// The file.
        path: PathBuf,
        /// The key, dotted.
        key: String,
        /// What is wrong with its value.
        reason: String,
    },
}

impl Fault for ConfigError {
    fn code(&self) -> &'static str {
        match self {
            Self::Anchor { source, .. } => source.code(),
            Self::File { .. } => "config_file",
            Self::Mode { .. } => "config_mode",
            Self::Secret { .. } => "config_secret",
            Self::Syntax { .. } => "config_syntax",
            Self::Value { .. } => "config_value",
        }
    }

    fn attribution(&self) -> Attribution {
        Attribution::Operator
    }
}

impl ConfigError {
    /// A value that cannot be worked with.
    pub fn value(path: &Path, key: &str, reason: impl Into<String>) -> Self {
        Self::Value { path: path.to_owned(), key: key.to_owned(), reason: reason.into() }
    }
}

/// Reads a text file.
fn read_text(path: &Path) -> Result<String, ConfigError> {
    let failed = |source| ConfigError::File { path: path.to_owned(), source };
    let mut text = String::new();
    File::open(path).map_err(failed)?.take(MAX_BYTES).read_to_string(&mut text).map_err(failed)?;
    Ok(text)
}

/// Reads a configuration, whose own check is still to be made.
fn read<T: DeserializeOwned>(path: &Path) -> Result<T, ConfigError> {
    let syntax = |error: toml::de::Error| ConfigError::Syntax {
        path: path.to_owned(),
        reason: error.to_string().trim_end().replace('\n', " / "),
    };
    toml::from_str(&read_text(path)?).map_err(syntax)
}

/// A path in a file: relative to the file's directory, or below the directory of systemd's credentials.
pub fn resolve(file: &Path, named: &Path) -> PathBuf {
    if let Ok(below) = named.strip_prefix("$CREDENTIALS_DIRECTORY") {
        let directory = std::env::var_os("CREDENTIALS_DIRECTORY").unwrap_or_default();
        return PathBuf::from(directory).join(below);
    }
    file.parent().unwrap_or(Path::new("")).join(named)
}
