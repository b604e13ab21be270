//! The epoch's document: who the servers are and which keys clients seal to.

use crate::fault::{Attribution, Fault};
use crate::ids::{AggregatorId, DeploymentId, EpochDigest, EpochId, NodeId, ServerId, tagged_sha256};
use crate::pke;
use crate::sig::{SigError, Signature, SigningKey, VerifyingKey};
use crate::wire::{Decode, DecodeError, DecodeErrorKind, Encode, HEADER_LEN, ObjectType, Reader};
use std::collections::BTreeMap;

const KEY_DOMAIN: &str = "panetiere/envelope-key/v1";

/// An epoch's document was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EpochError {
    /// More aggregators than ids.
    #[error("an epoch has at most 65535 aggregators, got {found}")]
    Aggregators {
        /// Aggregators given.
        found: usize,
    },
    /// Two aggregators have one identity key: what one signs would be held against both.
    #[error("aggregator {aggregator} has the key of aggregator {first}")]
    DuplicateAggregatorKey {
        /// The aggregator.
        aggregator: AggregatorId,
        /// The aggregator that stands before it with the same key.
        first: AggregatorId,
    },
    /// Two servers have one identity or envelope key: whoever holds it counts twice towards the threshold.
    #[error("server {server} has a key of server {first}")]
    DuplicateKey {
        /// The server.
        server: ServerId,
        /// The server that stands before it with the same key.
        first: ServerId,
    },
    /// Two lanes have one identity key: whoever holds it is counted as two that fail apart.
    #[error("lane {lane} has the key of lane {first}")]
    DuplicateLaneKey {
        /// The lane.
        lane: NodeId,
        /// The lane that stands before it with the same key.
        first: NodeId,
    },
    /// An aggregator's own key is not the one that the document names for it.
    #[error("epoch {epoch} does not name this key for aggregator {aggregator}")]
    ForeignAggregatorKey {
        /// The aggregator.
        aggregator: AggregatorId,
        /// The epoch.
        epoch: EpochId,
    },
    /// A server's own keys are not those that the document names for it.
    #[error("epoch {epoch} does not name these keys for server {server}")]
    ForeignKeys {
        /// The server.
        server: ServerId,
        /// The epoch.
        epoch: EpochId,
    },
    /// A lane's own key is not the one that the document names for it.
    #[error("epoch {epoch} does not name this key for lane {lane}")]
    ForeignLaneKey {
        /// The lane.
        lane: NodeId,
        /// The epoch.
        epoch: EpochId,
    },
    /// A server's encapsulation key is not signed by its identity key for this epoch.
    #[error("the envelope key of server {server} is not signed by that server for epoch {epoch}")]
    KeySignature {
        /// The server whose entry it is.
        server: ServerId,
        /// The epoch.
        epoch: EpochId,
        /// What is wrong with the signature.
        #[source]
        source: SigError,
    },
    /// More lanes than ids.
    #[error("an epoch has at most 65535 lanes, got {found}")]
    Lanes {
        /// Lanes given.
        found: usize,
    },
    /// No servers, or more than ids.
    #[error("an epoch has 1 to 65535 servers, got {found}")]
    Servers {
        /// Servers given.
        found: usize,
    },
}

impl Fault for EpochError {
    fn code(&self) -> &'static str {
        match self {
            Self::Aggregators { .. } => "epoch_aggregators",
            Self::DuplicateAggregatorKey { .. } => "epoch_duplicate_aggregator_key",
            Self::DuplicateKey { .. } => "epoch_duplicate_key",
            Self::DuplicateLaneKey { .. } => "epoch_duplicate_lane_key",
            Self::ForeignAggregatorKey { .. } => "epoch_foreign_aggregator_key",
            Self::ForeignKeys { .. } => "epoch_foreign_keys",
            Self::ForeignLaneKey { .. } => "epoch_foreign_lane_key",
            Self::KeySignature { .. } => "epoch_key_signature",
            Self::Lanes { .. } => "epoch_lanes",
            Self::Servers { .. } => "epoch_servers",
        }
    }

    fn attribution(&self) -> Attribution {
        Attribution::Operator
    }
}

/// One server of an epoch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EpochServer {
    /// The key that signs the server's sums.
    pub identity: VerifyingKey,
    /// The key that clients seal to, in this epoch only.
    pub envelope_key: pke::PublicKey,
    /// The identity key's signature over deployment, epoch, server id and envelope key.
    pub signature: Signature,
}

const SERVER_LEN: usize = VerifyingKey::LEN + pke::PublicKey::LEN + Signature::LEN;

impl EpochServer {
    /// Signs a server's envelope key for an epoch.
    pub fn sign(
        deployment: &DeploymentId,
        epoch: EpochId,
        server: ServerId,
        envelope_key: pke::PublicKey,
        identity: &SigningKey,
    ) -> Self {
        let signature = identity.sign(KEY_DOMAIN, &signed_bytes(deployment, epoch, server, &envelope_key));
        Self { identity: identity.verifying_key(), envelope_key, signature }
    }
}

fn signed_bytes(
    deployment: &DeploymentId,
    epoch: EpochId,
    server: ServerId,
    key: &pke::PublicKey,
) -> Vec<u8> {
    let mut out = Vec::new();
    deployment.encode(&mut out);
    epoch.encode(&mut out);
    server.encode(&mut out);
    key.encode(&mut out);
    out
}

/// An epoch: its servers in the order of their ids, and lanes and aggregators if it has any. The digest of its bytes
/// stands in every statement of the epoch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Epoch {
    deployment: DeploymentId,
    number: EpochId,
    servers: Vec<EpochServer>,
    lanes: Vec<VerifyingKey>,
    aggregators: Vec<VerifyingKey>,
}

impl Epoch {
    /// Puts a document together and checks every key signature.
    ///
    /// # Errors
    /// `Servers` without servers; `DuplicateKey` if two servers share a key; `KeySignature` for a key its server did not
    /// sign for this epoch.
    pub fn new(
        deployment: DeploymentId,
        number: EpochId,
        servers: Vec<EpochServer>,
    ) -> Result<Self, EpochError> {
        if servers.is_empty() || u16::try_from(servers.len()).is_err() {
            return Err(EpochError::Servers { found: servers.len() });
        }
        let (mut identities, mut envelope_keys) = (BTreeMap::new(), BTreeMap::new());
        for (server, entry) in (0..=u16::MAX).map(ServerId).zip(&servers) {
            let before = identities.insert(entry.identity.to_sec1(), server);
            if let Some(first) = before.or(envelope_keys.insert(entry.envelope_key.digest(), server)) {
                return Err(EpochError::DuplicateKey { server, first });
            }
            let message = signed_bytes(&deployment, number, server, &entry.envelope_key);
            entry
                .identity
                .verify(KEY_DOMAIN, &message, &entry.signature)
                .map_err(|source| EpochError::KeySignature { server, epoch: number, source })?;
        }
        Ok(Self { deployment, number, servers, lanes: Vec::new(), aggregators: Vec::new() })
    }

    /// The same document with lanes: the identity key of each, in the order of their ids. A lane holds no secret but its
    /// signing key; a server that is a lane too may use its own.
    ///
    /// # Errors
    /// `Lanes` if there are more than ids; `DuplicateLaneKey` if two of them share a key.
    pub fn with_lanes(self, lanes: Vec<VerifyingKey>) -> Result<Self, EpochError> {
        if u16::try_from(lanes.len()).is_err() {
            return Err(EpochError::Lanes { found: lanes.len() });
        }
        let mut keys = BTreeMap::new();
        for (lane, key) in (0..=u16::MAX).map(NodeId).zip(&lanes) {
            if let Some(first) = keys.insert(key.to_sec1(), lane) {
                return Err(EpochError::DuplicateLaneKey { lane, first });
            }
        }
        Ok(Self { lanes, ..self })
    }

    /// The same document with aggregators: the identity key of each, in the order of their ids. An aggregator holds no
    /// secret but its signing key; a server that aggregates too may use its own.
    ///
    /// # Errors
    /// `Aggregators` if there are more than ids; `DuplicateAggregatorKey` if two of them share a key.
    pub fn with_aggregators(self, aggregators: Vec<VerifyingKey>) -> Result<Self, EpochError> {
        if u16::try_from(aggregators.len()).is_err() {
            return Err(EpochError::Aggregators { found: aggregators.len() });
        }
        let mut keys = BTreeMap::new();
        for (aggregator, key) in (0..=u16::MAX).map(AggregatorId).zip(&aggregators) {
            if let Some(first) = keys.insert(key.to_sec1(), aggregator) {
                return Err(EpochError::DuplicateAggregatorKey { aggregator, first });
            }
        }
        Ok(Self { aggregators, ..self })
    }

    /// The deployment.
    pub const fn deployment(&self) -> &DeploymentId {
        &self.deployment
    }

    /// The epoch's number.
    pub const fn number(&self) -> EpochId {
        self.number
    }

    /// The servers, in the order of their ids.
    pub fn servers(&self) -> &[EpochServer] {
        &self.servers
    }

    /// One server, if it exists.
    pub fn server(&self, id: ServerId) -> Option<&EpochServer> {
        self.servers.get(usize::from(id.0))
    }

    /// The lanes' identity keys, in the order of their ids.
    pub fn lanes(&self) -> &[VerifyingKey] {
        &self.lanes
    }

    /// The identity key of one lane, if it exists.
    pub fn lane(&self, id: NodeId) -> Option<&VerifyingKey> {
        self.lanes.get(usize::from(id.0))
    }

    /// The aggregators' identity keys, in the order of their ids.
    pub fn aggregators(&self) -> &[VerifyingKey] {
        &self.aggregators
    }

    /// The identity key of one aggregator, if it exists.
    pub fn aggregator(&self, id: AggregatorId) -> Option<&VerifyingKey> {
        self.aggregators.get(usize::from(id.0))
    }

    /// The servers' envelope keys with their ids, as a client's round takes them.
    pub fn envelope_keys(&self) -> Vec<(ServerId, pke::PublicKey)> {
        let keys = self.servers.iter().map(|server| server.envelope_key.clone());
        (0..=u16::MAX).map(ServerId).zip(keys).collect()
    }

    /// SHA-256 of the document.
    pub fn digest(&self) -> EpochDigest {
        EpochDigest::from_digest(tagged_sha256("panetiere/epoch/v1", &[&self.to_bytes()]))
    }
}

impl Encode for Epoch {
    fn encode(&self, out: &mut Vec<u8>) {
        ObjectType::Epoch.encode_header(out);
        self.deployment.encode(out);
        self.number.encode(out);
        let count = u16::try_from(self.servers.len()).expect("checked when the epoch was made");
        out.extend_from_slice(&count.to_le_bytes());
        for server in &self.servers {
            server.identity.encode(out);
            server.envelope_key.encode(out);
            server.signature.encode(out);
        }
        let count = u16::try_from(self.lanes.len()).expect("checked when the lanes were added");
        out.extend_from_slice(&count.to_le_bytes());
        self.lanes.iter().for_each(|lane| lane.encode(out));
        let count = u16::try_from(self.aggregators.len()).expect("checked when the aggregators were added");
        out.extend_from_slice(&count.to_le_bytes());
        self.aggregators.iter().for_each(|aggregator| aggregator.encode(out));
    }

    fn encoded_len(&self) -> usize {
        let keys = self.lanes.len() + self.aggregators.len();
        let lists = 2 + SERVER_LEN * self.servers.len() + 2 + 2 + VerifyingKey::LEN * keys;
        HEADER_LEN + DeploymentId::LEN + EpochId::LEN + lists
    }
}

impl Decode for Epoch {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        reader.header(ObjectType::Epoch)?;
        let deployment = DeploymentId::decode(reader)?;
        let number = EpochId::decode(reader)?;
        let none = reader.fault("number of servers", DecodeErrorKind::OutOfRange);
        let count = usize::from(reader.u16("number of servers")?);
        if count == 0 {
            return Err(none);
        }
        let refused = reader.fault("servers of the epoch", DecodeErrorKind::OutOfRange);
        let need = SERVER_LEN * count;
        if reader.remaining() < need {
            let have = reader.remaining();
            return Err(reader.fault("servers of the epoch", DecodeErrorKind::Truncated { need, have }));
        }
        let mut servers = Vec::with_capacity(count);
        for _ in 0..count {
            servers.push(EpochServer {
                identity: VerifyingKey::decode(reader)?,
                envelope_key: pke::PublicKey::decode(reader)?,
                signature: Signature::decode(reader)?,
            });
        }
        let document = Self::new(deployment, number, servers).map_err(|_| refused)?;
        let refused = reader.fault("number of lanes", DecodeErrorKind::OutOfRange);
        let count = usize::from(reader.u16("number of lanes")?);
        let need = VerifyingKey::LEN * count;
        if reader.remaining() < need {
            let have = reader.remaining();
            return Err(reader.fault("lanes of the epoch", DecodeErrorKind::Truncated { need, have }));
        }
        let lanes = (0..count).map(|_| VerifyingKey::decode(reader)).collect::<Result<_, _>>()?;
        let document = document.with_lanes(lanes).map_err(|_| refused)?;
        let refused = reader.fault("number of aggregators", DecodeErrorKind::OutOfRange);
        let count = usize::from(reader.u16("number of aggregators")?);
        let need = VerifyingKey::LEN * count;
        if reader.remaining() < need {
            let have = reader.remaining();
            return Err(reader.fault("aggregators of the epoch", DecodeErrorKind::Truncated { need, have }));
        }
        let aggregators = (0..count).map(|_| VerifyingKey::decode(reader)).collect::<Result<_, _>>()?;
        document.with_aggregators(aggregators).map_err(|_| refused)
    }
}
