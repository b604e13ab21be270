//! The public description of a deployment: what everybody who takes part has to know beforehand.

use super::{ConfigError, read_text};
use crate::anchor::AnchorFile;
use panetiere_api::client::ClientConfig;
use panetiere_api::round::Anchor;
use panetiere_api::tls::SpkiDigest;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Where a daemon listens, as others reach it, and the keys that it may have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Endpoint {
    /// Host and port of the data plane, for clients and readers.
    pub data: String,
    /// Host and port of the operator plane, for parties.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operator: Option<String>,
    /// SHA-256 of the public keys (SPKI) that it may have: that in use, and the next. Hex.
    pub pins: Vec<String>,
}

impl Endpoint {
    pub(super) fn check(&self, path: &Path, key: &str) -> Result<(), ConfigError> {
        for (plane, address) in [("data", Some(&self.data)), ("operator", self.operator.as_ref())] {
            if let Some(address) = address {
                split(address).ok_or_else(|| {
                    let reason = format!("{address:?} is no HOST:PORT");
                    ConfigError::value(path, &format!("{key}.{plane}"), reason)
                })?;
            }
        }
        let pins = || {
            ConfigError::value(path, &format!("{key}.pins"), "expected digests of 64 lower-case hex digits")
        };
        let parsed: Option<Vec<SpkiDigest>> = self.pins.iter().map(|pin| pin.parse().ok()).collect();
        parsed.filter(|pins| !pins.is_empty()).map(|_| ()).ok_or_else(pins)
    }

    fn client(&self, address: &str) -> ClientConfig {
        let (host, port) = split(address).expect("checked when it was read");
        let pins = self.pins.iter().filter_map(|pin| pin.parse().ok()).collect();
        ClientConfig::new(host, port, pins)
    }

    /// How to reach the data plane.
    pub fn data_client(&self) -> ClientConfig {
        self.client(&self.data)
    }

    /// How to reach the operator plane; the caller adds who it is. None if there is no such plane.
    pub fn operator_client(&self) -> Option<ClientConfig> {
        self.operator.as_ref().map(|address| self.client(address))
    }
}

fn split(address: &str) -> Option<(&str, u16)> {
    let (host, port) = address.rsplit_once(':')?;
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    (!host.is_empty()).then_some(())?;
    Some((host, port.parse().ok()?))
}

/// The file as it is written.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct DeploymentFile {
    anchor: AnchorFile,
    bulletin: Endpoint,
    #[serde(default)]
    lanes: Vec<Endpoint>,
    #[serde(default)]
    aggregators: Vec<Endpoint>,
    #[serde(default)]
    witnesses: Vec<Endpoint>,
}

/// A deployment, as everybody may know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deployment {
    /// What its log is known by.
    pub anchor: Anchor,
    /// The bulletin.
    pub bulletin: Endpoint,
    /// The lanes, in the order of their indices.
    pub lanes: Vec<Endpoint>,
    /// The aggregators, in the order of their indices.
    pub aggregators: Vec<Endpoint>,
    /// Witnesses besides the servers.
    pub witnesses: Vec<Endpoint>,
}

impl Deployment {
    /// Reads a deployment's file.
    ///
    /// # Errors
    /// `File`, `Syntax`, `Anchor`, `Value`.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let syntax = |error: toml::de::Error| ConfigError::Syntax {
            path: path.to_owned(),
            reason: error.message().to_owned(),
        };
        let file: DeploymentFile = toml::from_str(&read_text(path)?).map_err(syntax)?;
        let source = |source| ConfigError::Anchor { path: path.to_owned(), source };
        let DeploymentFile { anchor, bulletin, lanes, aggregators, witnesses } = file;
        let anchor = anchor.to_anchor().map_err(source)?;
        bulletin.check(path, "bulletin")?;
        for (name, endpoints) in [("lanes", &lanes), ("aggregators", &aggregators), ("witnesses", &witnesses)]
        {
            for (index, endpoint) in endpoints.iter().enumerate() {
                endpoint.check(path, &format!("{name}[{index}]"))?;
            }
        }
        Ok(Self { anchor, bulletin, lanes, aggregators, witnesses })
    }

    /// The text of its file.
    pub fn to_text(&self) -> String {
        let file = DeploymentFile {
            anchor: AnchorFile::of(&self.anchor),
            bulletin: self.bulletin.clone(),
            lanes: self.lanes.clone(),
            aggregators: self.aggregators.clone(),
            witnesses: self.witnesses.clone(),
        };
        toml::to_string(&file).expect("strings and tables are TOML")
    }

    /// The deployment's file that a daemon's configuration names.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn named_in(config: &Path, file: &Path) -> Result<Self, ConfigError> {
        let path: PathBuf = super::resolve(config, file);
        Self::read(&path)
    }
}
