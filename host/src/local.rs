//! A whole deployment on one machine, from one seed: keys, epoch, parameters and session of the demo and the benches.

use crate::seed::Seed;
use anyhow::anyhow;
use chipmunk::params::ParameterSet;
use chipmunk::ring::backend::Kernels;
use panetiere::bulletin::{CanonicalSet, Epoch, EpochServer};
use panetiere::channel::{self, ChannelParams};
use panetiere::ids::{ClientId, DeploymentId, EpochId, ServerId, SessionId};
use panetiere::plaintext::PlainPoly;
use panetiere::protocol::{Deployment, Dimensions, ProtocolParams, ServerIdentity};
use panetiere::sig::{SigningKey, VerifyingKey};
use panetiere::wire::{Decode, Encode};
use panetiere::{merkle, pke};
use std::sync::Arc;

/// The log that a local session would be announced in.
const ORIGIN: &str = "panetiere.local/log";

/// The shape of a local round.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Clients, those that send nothing included.
    pub clients: u32,
    /// Servers.
    pub servers: u16,
    /// Servers that suffice.
    pub threshold: u16,
    /// Fewest clients that are summed.
    pub min_clients: u32,
    /// Longest message.
    pub message_bytes: usize,
    /// The parameter set.
    pub set: &'static ParameterSet,
    /// The arithmetic.
    pub kernels: &'static Kernels,
}

/// What all parties of a local round hold in common, and everybody's keys.
#[derive(Debug)]
pub struct LocalRound {
    /// The payload encoding: room for one message a client, as nobody knows beforehand who sends.
    pub channel: ChannelParams,
    /// The protocol's parameters.
    pub params: Arc<ProtocolParams>,
    /// The epoch's document, as read back from its bytes.
    pub epoch: Epoch,
    /// The session.
    pub session: SessionId,
    /// All clients.
    pub canonical: CanonicalSet,
    /// The clients' signing keys, by id.
    pub clients: Vec<SigningKey>,
    /// The servers' keys, by id.
    pub servers: Vec<Arc<ServerIdentity>>,
}

impl LocalRound {
    /// Makes all keys and parameters from the seed: the same seed and shape give the same deployment.
    ///
    /// # Errors
    /// If the shape is one that the protocol refuses.
    pub fn new(seed: &Seed, shape: Shape) -> anyhow::Result<Self> {
        let id = DeploymentId::from_name("panetiere local");
        let mut rng = seed.stream("keys");
        let mut keys = || (pke::PrivateKey::generate(&mut rng), SigningKey::generate(&mut rng));
        let keys: Vec<_> = (0..shape.servers).map(|index| (ServerId(index), keys())).collect();
        let clients: Vec<_> = (0..shape.clients).map(|_| SigningKey::generate(&mut rng)).collect();
        let sign = |(server, (envelope, signing)): &(ServerId, (pke::PrivateKey, SigningKey))| {
            EpochServer::sign(&id, EpochId(0), *server, envelope.public_key(), signing)
        };
        let entries = keys.iter().map(sign).collect();
        let document = Epoch::new(id, EpochId(0), entries)?.to_bytes();
        let epoch = Epoch::from_bytes(&document)?;
        let identity = |(server, (envelope, signing))| {
            ServerIdentity::new(server, envelope, signing, &epoch).map(Arc::new)
        };
        let servers = keys.into_iter().map(identity).collect::<Result<_, _>>()?;

        let channel = ChannelParams::prony_for_messages(index(shape.clients), shape.message_bytes)?
            .with_kernels(shape.kernels);
        let deployment = Deployment {
            id,
            epoch: epoch.digest(),
            set: shape.set,
            min_clients: shape.min_clients,
            max_clients: shape.set.rho_max,
            // Those that may be missing, as long as they cannot shut a client out.
            faulty: (shape.servers - shape.threshold).min((shape.threshold - 1) / 2),
            kernels: shape.kernels,
        };
        let dimensions = Dimensions::for_channel(&channel, shape.servers, shape.threshold);
        let params = ProtocolParams::setup_with_kahe_dims_full(deployment, dimensions)?;
        // The stand-in for the log's announcement leaf: epoch document and parameters.
        let leaf = merkle::leaf_hash(&[document.as_slice(), params.crs_digest().as_bytes()].concat());
        Ok(Self {
            channel,
            params: Arc::new(params),
            session: SessionId::derive(ORIGIN, 0, &leaf),
            canonical: CanonicalSet::new((0..shape.clients).map(ClientId))?,
            epoch,
            clients,
            servers,
        })
    }

    /// The vector of a client: its message, or cover.
    ///
    /// # Errors
    /// If the message is too long.
    pub fn vector(
        &self,
        rng: &mut (impl rand_core::CryptoRng + ?Sized),
        payload: Option<&[u8]>,
    ) -> anyhow::Result<Vec<PlainPoly>> {
        Ok(match payload {
            Some(payload) => channel::encode_message(rng, &self.channel, &self.session, payload)?,
            None => channel::cover(&self.channel),
        })
    }

    /// The key that admission has bound to this client.
    ///
    /// # Errors
    /// If there is no such client.
    pub fn admitted(&self, client: ClientId) -> anyhow::Result<VerifyingKey> {
        let key =
            self.clients.get(index(client.0)).ok_or_else(|| anyhow!("client {client} was never admitted"))?;
        Ok(key.verifying_key())
    }
}

/// A client's number as an index.
pub(crate) fn index(client: u32) -> usize {
    usize::try_from(client).expect("the host runs on targets with at least 32 bits")
}
