//! Who may use an operator plane: read when the daemon starts and again on SIGHUP.

use super::{ConfigError, read};
use crate::net::{PartyName, Principal, Role};
use panetiere::ids::{AggregatorId, NodeId, ServerId};
use panetiere_api::tls::SpkiDigest;
use serde::{Deserialize, Serialize};
use std::path::Path;

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PartyEntry {
    /// Its name in logs.
    name: String,
    /// server, lane, aggregator, recipient, operator or witness.
    role: String,
    /// The index of a server, lane or aggregator.
    #[serde(skip_serializing_if = "Option::is_none")]
    index: Option<u16>,
    /// SHA-256 of its TLS key (SPKI), hex.
    key: String,
    /// The last second since 1970 at which it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    not_after: Option<u64>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PartiesFile {
    /// Keys that are refused by name, hex.
    #[serde(default)]
    revoked: Vec<String>,
    #[serde(default)]
    parties: Vec<PartyEntry>,
}

/// The table of an operator plane.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parties {
    /// Whom it knows.
    pub known: Vec<Principal>,
    /// Keys that it refuses by name.
    pub revoked: Vec<SpkiDigest>,
}

impl Parties {
    /// Reads a table.
    ///
    /// # Errors
    /// `File`, `Syntax`; `Value` for a role, index or key that is none.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let file: PartiesFile = read(path)?;
        let digest = |key: &str, text: &str| {
            text.parse::<SpkiDigest>()
                .map_err(|_| ConfigError::value(path, key, "expected a digest of 64 lower-case hex digits"))
        };
        let revoked = file.revoked.iter().map(|text| digest("revoked", text)).collect::<Result<_, _>>()?;
        let mut known = Vec::new();
        for (position, entry) in file.parties.iter().enumerate() {
            let key = |field: &str| format!("parties[{position}].{field}");
            let role = role(&entry.role, entry.index).ok_or_else(|| {
                let reason = "expected server, lane or aggregator with an index, or recipient, operator or witness without";
                ConfigError::value(path, &key("role"), reason)
            })?;
            let name = entry.name.parse::<PartyName>();
            known.push(Principal {
                name: name.map_err(|error| ConfigError::value(path, &key("name"), error.to_string()))?,
                key: digest(&key("key"), &entry.key)?,
                role,
                not_after: entry.not_after,
            });
        }
        Ok(Self { known, revoked })
    }

    /// The text of its file.
    pub fn to_text(&self) -> String {
        let entry = |party: &Principal| {
            let (role, index) = role_text(party.role);
            PartyEntry {
                name: party.name.to_string(),
                role: role.to_owned(),
                index,
                key: party.key.to_string(),
                not_after: party.not_after,
            }
        };
        let file = PartiesFile {
            revoked: self.revoked.iter().map(ToString::to_string).collect(),
            parties: self.known.iter().map(entry).collect(),
        };
        toml::to_string(&file).expect("strings, numbers and tables are TOML")
    }
}

fn role(name: &str, index: Option<u16>) -> Option<Role> {
    Some(match (name, index) {
        ("aggregator", Some(index)) => Role::Aggregator(AggregatorId(index)),
        ("lane", Some(index)) => Role::Lane(NodeId(index)),
        ("operator", None) => Role::Operator,
        ("recipient", None) => Role::Recipient,
        ("server", Some(index)) => Role::Server(ServerId(index)),
        ("witness", None) => Role::Witness,
        _ => return None,
    })
}

const fn role_text(role: Role) -> (&'static str, Option<u16>) {
    match role {
        Role::Aggregator(id) => ("aggregator", Some(id.0)),
        Role::Lane(id) => ("lane", Some(id.0)),
        Role::Operator => ("operator", None),
        Role::Recipient => ("recipient", None),
        Role::Server(id) => ("server", Some(id.0)),
        Role::Witness => ("witness", None),
    }
}
