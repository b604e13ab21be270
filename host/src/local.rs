//! A whole deployment on one machine, from one seed: keys, epoch, parameters and session of the demo and the benches.

use crate::seed::Seed;
use anyhow::{Context, anyhow};
use chipmunk::params::ParameterSet;
use chipmunk::ring::backend::Kernels;
use panetiere::bulletin::{CanonicalSet, Epoch, EpochServer};
use panetiere::channel::{self, ChannelParams, Encoding};
use panetiere::ids::{AggregatorId, ClientId, DeploymentId, EpochId, NodeId, ServerId, SessionId};
use panetiere::plaintext::PlainPoly;
use panetiere::protocol::{
    AggregatorIdentity, Deployment, Dimensions, LaneIdentity, LaneShape, MemoryAnswers, ProtocolParams,
    ServerIdentity,
};
use panetiere::sig::{SigningKey, VerifyingKey};
use panetiere::wire::{Decode, Encode};
use panetiere::{merkle, pke};
use rand_chacha::ChaCha20Rng;
use std::sync::Arc;

/// The log that a local session would be announced in.
const ORIGIN: &str = "panetiere.local/log";

/// How the ciphertexts of a local round travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// On the bulletin.
    Direct,
    /// To so many aggregators, each of which adds those of its clients.
    Aggregated(u16),
    /// As coded shares, one a lane.
    Lanes(LaneShape),
}

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
    /// How messages become a summable vector.
    pub encoding: Encoding,
    /// How ciphertexts travel.
    pub route: Route,
    /// The parameter set.
    pub set: &'static ParameterSet,
    /// The arithmetic.
    pub kernels: &'static Kernels,
}

impl Shape {
    /// The payload encoding: room for one message a client, as nobody knows beforehand who sends.
    ///
    /// # Errors
    /// If there is no encoding of this size.
    pub fn channel(&self) -> Result<ChannelParams, channel::ChannelError> {
        let channel = ChannelParams::for_messages(self.encoding, index(self.clients), self.message_bytes)?;
        Ok(channel.with_kernels(self.kernels))
    }

    /// The parameters of such rounds in an epoch whose vectors carry this channel.
    ///
    /// # Errors
    /// If the protocol has no round of this shape.
    pub fn parameters(&self, channel: &ChannelParams, epoch: &Epoch) -> anyhow::Result<ProtocolParams> {
        let deployment = Deployment {
            id: *epoch.deployment(),
            epoch: epoch.digest(),
            set: self.set,
            min_clients: self.min_clients,
            max_clients: self.set.rho_max,
            faulty: self.faulty(),
            kernels: self.kernels,
        };
        let dimensions = Dimensions::for_channel(channel, self.servers, self.threshold);
        match self.route {
            Route::Direct => ProtocolParams::setup_with_kahe_dims_full(deployment, dimensions),
            Route::Aggregated(_) => ProtocolParams::setup_aggregated_mode(deployment, dimensions),
            Route::Lanes(lanes) => ProtocolParams::setup_rs_mode(deployment, dimensions, lanes),
        }
        .context("the protocol has no round of this shape")
    }

    /// Servers that may be faulty: those that may be missing, as long as they cannot shut a client out.
    pub fn faulty(&self) -> u16 {
        self.servers.saturating_sub(self.threshold).min(self.threshold.saturating_sub(1) / 2)
    }
}

/// What all parties of a local round hold in common, and everybody's keys.
#[derive(Debug)]
pub struct LocalRound {
    /// The payload encoding.
    pub channel: ChannelParams,
    /// The protocol's parameters.
    pub params: Arc<ProtocolParams>,
    /// The epoch's document, as read back from its bytes.
    pub epoch: Arc<Epoch>,
    /// The session.
    pub session: SessionId,
    /// Its leaf in the log.
    pub leaf: u64,
    /// All clients.
    pub canonical: CanonicalSet,
    /// The clients' signing keys, by id.
    pub clients: Arc<[SigningKey]>,
    /// The servers' keys, by id.
    pub servers: Vec<Arc<ServerIdentity>>,
    /// The lanes' keys, by id; none unless the ciphertexts travel through lanes.
    pub lanes: Vec<Arc<LaneIdentity>>,
    /// The aggregators' keys, by id, each with the clients it serves; none unless the ciphertexts travel that way.
    pub aggregators: Vec<(Arc<AggregatorIdentity>, CanonicalSet)>,
    shape: Shape,
}

impl LocalRound {
    /// Makes all keys and parameters from the seed: the same seed and shape give the same deployment. The session is
    /// that of the log's leaf 0.
    ///
    /// # Errors
    /// If the shape is one that the protocol refuses.
    pub fn new(seed: &Seed, shape: Shape) -> anyhow::Result<Self> {
        let id = deployment_id();
        let mut rng = seed.stream("keys");
        let mut keys = || (pke::PrivateKey::generate(&mut rng), SigningKey::generate(&mut rng));
        let keys: Vec<_> = (0..shape.servers).map(|index| (ServerId(index), keys())).collect();
        let clients: Vec<_> = (0..shape.clients).map(|_| SigningKey::generate(&mut rng)).collect();
        let sign = |(server, (envelope, signing)): &(ServerId, (pke::PrivateKey, SigningKey))| {
            EpochServer::sign(&id, EpochId(0), *server, envelope.public_key(), signing)
        };
        let entries = keys.iter().map(sign).collect();
        let (lanes, aggregators) = match shape.route {
            Route::Direct => (0, 0),
            Route::Aggregated(aggregators) => (0, aggregators),
            Route::Lanes(lanes) => (lanes.lanes, 0),
        };
        let aggregators: Vec<_> =
            (0..aggregators).map(|index| (AggregatorId(index), SigningKey::generate(&mut rng))).collect();
        let lanes: Vec<_> = (0..lanes).map(|index| (NodeId(index), SigningKey::generate(&mut rng))).collect();
        let document = Epoch::new(id, EpochId(0), entries)?
            .with_lanes(lanes.iter().map(|(_, key)| key.verifying_key()).collect())?
            .with_aggregators(aggregators.iter().map(|(_, key)| key.verifying_key()).collect())?
            .to_bytes();
        let epoch = Epoch::from_bytes(&document)?;
        let identity = |(server, (envelope, signing))| {
            ServerIdentity::new(server, envelope, signing, &epoch, MemoryAnswers::fresh()).map(Arc::new)
        };
        let servers = keys.into_iter().map(identity).collect::<Result<_, _>>()?;
        let lanes = lanes
            .into_iter()
            .map(|(lane, key)| LaneIdentity::new(lane, key, &epoch, MemoryAnswers::fresh()).map(Arc::new));
        let lanes = lanes.collect::<Result<_, _>>()?;
        let rosters = rosters(shape.clients, aggregators.len())?;
        let aggregator =
            |((id, key), roster)| anyhow::Ok((Arc::new(AggregatorIdentity::new(id, key, &epoch)?), roster));
        let aggregators =
            aggregators.into_iter().zip(rosters).map(aggregator).collect::<anyhow::Result<_>>()?;
        let channel = shape.channel()?;
        let params = shape.parameters(&channel, &epoch)?;
        Ok(Self {
            channel,
            session: session(&epoch, &params, 0),
            leaf: 0,
            params: Arc::new(params),
            canonical: CanonicalSet::new((0..shape.clients).map(ClientId))?,
            epoch: Arc::new(epoch),
            clients: clients.into(),
            servers,
            lanes,
            aggregators,
            shape,
        })
    }

    /// The same parties in another session, with this channel, which is of the same size.
    #[must_use]
    pub fn at(&self, leaf: u64, channel: ChannelParams) -> Self {
        Self {
            channel,
            session: session(&self.epoch, &self.params, leaf),
            leaf,
            params: Arc::clone(&self.params),
            canonical: self.canonical.clone(),
            epoch: Arc::clone(&self.epoch),
            clients: Arc::clone(&self.clients),
            servers: self.servers.clone(),
            lanes: self.lanes.clone(),
            aggregators: self.aggregators.clone(),
            shape: self.shape,
        }
    }

    /// The round in which the slots of this one are reserved: the same parties, with the parameters of that round.
    ///
    /// # Errors
    /// If the encoding has no slots, or the protocol refuses rounds of tickets.
    pub fn reservation(&self, leaf: u64) -> anyhow::Result<Self> {
        let channel = self.channel.ticket_channel()?.with_kernels(self.shape.kernels);
        let params = self.shape.parameters(&channel, &self.epoch)?;
        let session = session(&self.epoch, &params, leaf);
        Ok(Self { params: Arc::new(params), session, ..self.at(leaf, channel) })
    }

    /// The stream of randomness of one client in this session. One key encrypts one vector, ever.
    pub fn client_stream(&self, seed: &Seed, client: u32) -> ChaCha20Rng {
        seed.stream(&format!("session {} client {client}", self.session))
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
        self.signing_key(client).map(SigningKey::verifying_key)
    }

    /// The client's own key.
    ///
    /// # Errors
    /// If there is no such client.
    pub fn signing_key(&self, client: ClientId) -> anyhow::Result<&SigningKey> {
        self.clients.get(index(client.0)).ok_or_else(|| anyhow!("client {client} was never admitted"))
    }
}

/// The clients dealt to so many aggregators, in runs of consecutive ids.
fn rosters(clients: u32, aggregators: usize) -> anyhow::Result<Vec<CanonicalSet>> {
    if aggregators == 0 {
        return Ok(Vec::new());
    }
    let ids: Vec<ClientId> = (0..clients).map(ClientId).collect();
    let cut = |group: usize| ids.len() * group / aggregators;
    let roster = |group| CanonicalSet::new(ids[cut(group)..cut(group + 1)].iter().copied());
    (0..aggregators).map(roster).collect::<Result<_, _>>().context("an aggregator without clients")
}

fn deployment_id() -> DeploymentId {
    DeploymentId::from_name("panetiere local")
}

/// The session that is announced in this leaf: the stand-in for the leaf's bytes is epoch document and parameters.
fn session(epoch: &Epoch, params: &ProtocolParams, leaf: u64) -> SessionId {
    let announced = [epoch.to_bytes().as_slice(), params.crs_digest().as_bytes()].concat();
    SessionId::derive(ORIGIN, leaf, &merkle::leaf_hash(&announced))
}

/// A client's number as an index.
pub(crate) fn index(client: u32) -> usize {
    usize::try_from(client).expect("the host runs on targets with at least 32 bits")
}
