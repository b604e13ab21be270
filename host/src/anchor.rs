//! The anchor file: what a reader of a log has to know beforehand, in TOML.
//!
//! ```toml
//! origin = "bulletin.example.org/main"
//! log_key = "bulletin.example.org/main+0a1b2c3d+AQ..."
//! deployment_name = "example"
//! operator_key = "02..."
//! ```
//!
//! Get it from somewhere else than the log: an anchor that lies beside a log says only that both are of one origin.

use panetiere::fault::{Attribution, Fault};
use panetiere::ids::DeploymentId;
use panetiere::sig::{SigError, VerifyingKey};
use panetiere_api::round::Anchor;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

/// Name of the file.
pub const FILE_NAME: &str = "anchor.toml";

/// Bytes that are read at most.
const MAX_BYTES: u64 = 1 << 16;

/// An anchor file cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AnchorError {
    /// Not exactly one of the two ways to name the deployment.
    #[error("give exactly one of deployment (64 hex digits) and deployment_name")]
    Deployment,
    /// A value that is none of its kind.
    #[error("{field}: {reason}")]
    Field {
        /// The field.
        field: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// The file cannot be read.
    #[error("cannot be read")]
    File(#[source] io::Error),
    /// The operator's key is no key.
    #[error("operator_key is no P-256 key")]
    OperatorKey(#[source] SigError),
    /// Not TOML with these fields.
    #[error("{reason}")]
    Syntax {
        /// The parser's words, on one line.
        reason: String,
    },
}

impl Fault for AnchorError {
    fn code(&self) -> &'static str {
        match self {
            Self::Deployment => "anchor_deployment",
            Self::Field { .. } => "anchor_field",
            Self::File(_) => "anchor_file",
            Self::OperatorKey(_) => "anchor_operator_key",
            Self::Syntax { .. } => "anchor_syntax",
        }
    }

    fn attribution(&self) -> Attribution {
        Attribution::Caller
    }
}

/// The fields of an anchor, as text.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AnchorFile {
    /// The log's origin line.
    origin: String,
    /// Its key, NAME+ID+KEY.
    log_key: String,
    /// The deployment's id.
    #[serde(skip_serializing_if = "Option::is_none")]
    deployment: Option<String>,
    /// Or the name that the id is made from.
    #[serde(skip_serializing_if = "Option::is_none")]
    deployment_name: Option<String>,
    /// The operator's P-256 key: SEC1, compressed, hex.
    operator_key: String,
}

/// Reads an anchor from the text of its file.
///
/// # Errors
/// `Syntax`, also for a field that there is none of; `Field`, `Deployment`, `OperatorKey`.
pub fn parse(text: &str) -> Result<Anchor, AnchorError> {
    let syntax = |error: toml::de::Error| AnchorError::Syntax { reason: error.message().to_owned() };
    toml::from_str::<AnchorFile>(text).map_err(syntax)?.to_anchor()
}

impl AnchorFile {
    /// The anchor that it spells.
    pub(crate) fn to_anchor(&self) -> Result<Anchor, AnchorError> {
        let deployment = match (&self.deployment, &self.deployment_name) {
            (Some(id), None) => field("deployment", id)?,
            (None, Some(name)) => DeploymentId::from_name(name),
            _ => return Err(AnchorError::Deployment),
        };
        let hex = data_encoding::HEXLOWER.decode(self.operator_key.as_bytes());
        let key = hex.ok().and_then(|bytes| <[u8; VerifyingKey::LEN]>::try_from(bytes).ok());
        let key = key.ok_or_else(|| AnchorError::Field {
            field: "operator_key",
            reason: format!("expected {} lower-case hex digits", 2 * VerifyingKey::LEN),
        })?;
        Ok(Anchor {
            origin: field("origin", &self.origin)?,
            log_key: field("log_key", &self.log_key)?,
            deployment,
            operator: VerifyingKey::from_sec1(&key).map_err(AnchorError::OperatorKey)?,
        })
    }

    /// An anchor's fields.
    pub(crate) fn of(anchor: &Anchor) -> Self {
        Self {
            origin: anchor.origin.to_string(),
            log_key: anchor.log_key.to_string(),
            deployment: Some(anchor.deployment.to_string()),
            deployment_name: None,
            operator_key: data_encoding::HEXLOWER.encode(&anchor.operator.to_sec1()),
        }
    }
}

fn field<T: std::str::FromStr<Err: std::fmt::Display>>(
    field: &'static str,
    text: &str,
) -> Result<T, AnchorError> {
    text.parse().map_err(|error: T::Err| AnchorError::Field { field, reason: error.to_string() })
}

/// Reads an anchor file.
///
/// # Errors
/// `File`; as [`parse`].
pub fn read(path: &Path) -> Result<Anchor, AnchorError> {
    let mut text = String::new();
    let file = File::open(path).map_err(AnchorError::File)?;
    file.take(MAX_BYTES).read_to_string(&mut text).map_err(AnchorError::File)?;
    parse(&text)
}

/// The text of an anchor's file.
pub fn to_text(anchor: &Anchor) -> String {
    toml::to_string(&AnchorFile::of(anchor)).expect("strings are TOML")
}

#[cfg(test)]
mod tests {
    use super::*;
    use panetiere_api::testing::Scene;

    #[test]
    fn an_anchor_comes_back_from_its_file_and_nothing_else_does() {
        let anchor = Scene::new(1, 2, 8, |shape| shape).anchor();
        let text = to_text(&anchor);
        assert_eq!(parse(&text).unwrap(), anchor);
        let named =
            text.replace(&format!("deployment = \"{}\"", anchor.deployment), "deployment_name = \"x\"");
        assert_eq!(parse(&named).unwrap().deployment, DeploymentId::from_name("x"));
        let key = data_encoding::HEXLOWER.encode(&anchor.operator.to_sec1());
        for (text, code) in [
            (format!("{text}colour = \"red\"\n"), "anchor_syntax"),
            (text.replace("origin", "orogin"), "anchor_syntax"),
            (text.replace("origin = ", "origin = 1 #"), "anchor_syntax"),
            (format!("{text}deployment_name = \"x\"\n"), "anchor_deployment"),
            (text.replace("deployment = ", "# "), "anchor_deployment"),
            (text.replace(&key, &key.to_uppercase()), "anchor_field"),
            (text.replace(&key, "02"), "anchor_field"),
            (text.replace(&key, &"00".repeat(33)), "anchor_operator_key"),
            (text.replace("log_key = \"", "log_key = \"x"), "anchor_field"),
            (text.replace(&anchor.deployment.to_string(), "00"), "anchor_field"),
        ] {
            let error = parse(&text).expect_err(code);
            assert_eq!(error.code(), code, "{text}: {error}");
            assert_eq!(error.to_string().lines().count(), 1, "{error}");
        }
    }
}
