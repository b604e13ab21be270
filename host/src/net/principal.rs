//! Who may use an operator plane: a table from keys to parties, replaced as a whole while the daemon runs.

use super::telemetry::LogSafe;
use panetiere::fault::{Attribution, Fault};
use panetiere::ids::{AggregatorId, NodeId, ServerId};
use panetiere_api::problem::Code;
use panetiere_api::tls::{Facts, SpkiDigest};
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, PoisonError, RwLock};
use tokio::sync::watch;

/// Characters of a party's name at most.
const MAX_NAME: usize = 64;

/// A table that contradicts itself.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PrincipalError {
    /// One key stands for two parties.
    #[error("{first} and {second} have the same key")]
    DuplicateKey {
        /// A party.
        first: PartyName,
        /// Another.
        second: PartyName,
    },
    /// A name in another form.
    #[error("a party's name has 1 to {MAX_NAME} of a-z, 0-9 and -")]
    Name,
}

impl Fault for PrincipalError {
    fn code(&self) -> &'static str {
        match self {
            Self::DuplicateKey { .. } => "principal_duplicate_key",
            Self::Name => "principal_name",
        }
    }

    fn attribution(&self) -> Attribution {
        Attribution::Operator
    }
}

/// What an operator calls a party of the deployment, for logs. Never a client's.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PartyName(String);

impl FromStr for PartyName {
    type Err = PrincipalError;

    fn from_str(text: &str) -> Result<Self, PrincipalError> {
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        let fits = (1..=MAX_NAME).contains(&text.len()) && text.bytes().all(plain);
        if fits { Ok(Self(text.to_owned())) } else { Err(PrincipalError::Name) }
    }
}

impl fmt::Display for PartyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl LogSafe for PartyName {}

/// What a party is in the deployment, and so what it may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Role {
    /// The aggregator of this index.
    Aggregator(AggregatorId),
    /// The lane of this index.
    Lane(NodeId),
    /// Whoever runs the deployment.
    Operator,
    /// The recipient.
    Recipient,
    /// The server of this index.
    Server(ServerId),
    /// An external witness.
    Witness,
}

/// A party that an operator plane knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Principal {
    /// Its name in logs.
    pub name: PartyName,
    /// Its key.
    pub key: SpkiDigest,
    /// What it is.
    pub role: Role,
    /// The last second, since 1970, at which it is known: beside the certificate's own validity.
    pub not_after: Option<u64>,
}

#[derive(Debug, Default)]
struct Table {
    known: HashMap<SpkiDigest, Arc<Principal>>,
    revoked: HashSet<SpkiDigest>,
}

/// The table. Connections look into it at every request and are dropped when their party is in it no more.
#[derive(Debug)]
pub struct Principals {
    table: RwLock<Table>,
    changed: watch::Sender<()>,
}

impl Principals {
    /// A table of `known` parties; keys in `revoked` are told so.
    ///
    /// # Errors
    /// `DuplicateKey` for a key of two parties.
    pub fn new(known: Vec<Principal>, revoked: Vec<SpkiDigest>) -> Result<Self, PrincipalError> {
        Ok(Self { table: RwLock::new(table(known, revoked)?), changed: watch::Sender::new(()) })
    }

    /// Replaces the table. Live connections of parties that are not in it as they were are dropped at once.
    ///
    /// # Errors
    /// As [`new`](Self::new); the table stays as it was.
    pub fn replace(&self, known: Vec<Principal>, revoked: Vec<SpkiDigest>) -> Result<(), PrincipalError> {
        let table = table(known, revoked)?;
        *self.table.write().unwrap_or_else(PoisonError::into_inner) = table;
        self.changed.send_replace(());
        Ok(())
    }

    pub(super) fn changes(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    /// The party with this certificate, of whose key it has proved possession, at `now` (seconds since 1970).
    ///
    /// # Errors
    /// Which certificate problem it is. A revoked key wins over an expired one and over one that is still in the table.
    pub fn authenticate(&self, certificate: Option<&Facts>, now: u64) -> Result<Arc<Principal>, Code> {
        let facts = certificate.ok_or(Code::CertificateMissing)?;
        let table = self.table.read().unwrap_or_else(PoisonError::into_inner);
        if table.revoked.contains(&facts.spki) {
            return Err(Code::CertificateRevoked);
        }
        let principal = table.known.get(&facts.spki).ok_or(Code::CertificateUnknown)?;
        if !facts.validity.contains(now) || principal.not_after.is_some_and(|last| now > last) {
            return Err(Code::CertificateExpired);
        }
        Ok(Arc::clone(principal))
    }
}

fn table(known: Vec<Principal>, revoked: Vec<SpkiDigest>) -> Result<Table, PrincipalError> {
    let mut table = Table { revoked: revoked.into_iter().collect(), ..Table::default() };
    for principal in known {
        let principal = Arc::new(principal);
        if let Some(first) = table.known.insert(principal.key, Arc::clone(&principal)) {
            return Err(PrincipalError::DuplicateKey {
                first: first.name.clone(),
                second: principal.name.clone(),
            });
        }
    }
    Ok(table)
}

#[cfg(test)]
mod tests {
    use super::*;
    use panetiere_api::tls::Validity;

    fn principal(name: &str, key: u8, not_after: Option<u64>) -> Principal {
        Principal { name: name.parse().unwrap(), key: SpkiDigest([key; 32]), role: Role::Witness, not_after }
    }

    #[test]
    fn the_table_tells_who_and_why_not() {
        let known = vec![principal("a", 1, None), principal("b", 2, Some(50)), principal("c", 3, None)];
        let principals = Principals::new(known, vec![SpkiDigest([3; 32])]).unwrap();
        let facts = |key| Facts {
            spki: SpkiDigest([key; 32]),
            validity: Validity { not_before: 10, not_after: 100 },
        };
        let ask = |key, now| principals.authenticate(Some(&facts(key)), now).map(|p| p.name.to_string());
        assert_eq!(ask(1, 10), Ok("a".to_owned()));
        assert_eq!(ask(1, 100), Ok("a".to_owned()));
        assert_eq!((ask(1, 9), ask(1, 101)), (Err(Code::CertificateExpired), Err(Code::CertificateExpired)));
        assert_eq!((ask(2, 50), ask(2, 51)), (Ok("b".to_owned()), Err(Code::CertificateExpired)));
        assert_eq!((ask(3, 50), ask(4, 50)), (Err(Code::CertificateRevoked), Err(Code::CertificateUnknown)));
        assert_eq!(principals.authenticate(None, 50).unwrap_err(), Code::CertificateMissing);
    }

    #[test]
    fn a_table_that_contradicts_itself_changes_nothing() {
        let principals = Principals::new(vec![principal("a", 1, None)], Vec::new()).unwrap();
        let twice = vec![principal("b", 2, None), principal("c", 2, None)];
        let error = principals.replace(twice, Vec::new()).unwrap_err();
        assert_eq!(error.to_string(), "b and c have the same key");
        assert!(principals.table.read().unwrap().known.contains_key(&SpkiDigest([1; 32])));
    }

    #[test]
    fn names_are_plain() {
        for bad in ["", "A", "a b", "é", &"a".repeat(65)] {
            assert_eq!(bad.parse::<PartyName>(), Err(PrincipalError::Name), "{bad}");
        }
        assert!("server-03".parse::<PartyName>().is_ok());
    }
}
