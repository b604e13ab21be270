//! Seeded parties and whole rounds for tests: honest ones, lying ones, every hop through its wire bytes.
//!
//! Only with the feature `test-util`. Panics wherever a test has to stop; nothing here belongs in a deployment.
//!
//! ```
//! use panetiere::testing::deployment;
//!
//! let net = deployment(1).servers(4).threshold(3).clients(3).build();
//! let mut round = net.open(0);
//! for client in net.ids() {
//!     round.submit(&round.client(client)).accepted();
//! }
//! let set = net.all();
//! let sums = round.sums(&set);
//! assert_eq!(round.recover(&set, &sums).unwrap().plaintext, net.expected(&set));
//! ```

mod client;
mod posts;
mod server;

pub use client::{ClientLie, OpeningPart};
pub use posts::RoundPosts;
pub use server::ServerLie;

use crate::bulletin::{
    CanonicalSet, ClientBulletinEntry, Envelope, Epoch, EpochServer, GroupSum, ServerBulletinEntry,
    StatementError, VerifiedPost,
};
use crate::channel::ChannelParams;
use crate::ids::{AggregatorId, ClientId, DeploymentId, EpochId, NodeId, ServerId, SessionId, tagged_sha256};
use crate::kahe::Plaintext;
use crate::pke;
use crate::plaintext::PlainPoly;
use crate::protocol::{
    AggregatorIdentity, AnswerGuard, Audit, ClientRound, Deployment, Dimensions, EnvelopeFault, LaneIdentity,
    LaneShape, MemoryAnswers, NotRecovered, ProtocolParams, RecipientError, Recovered, RecoveredAggregated,
    RsClientRound, ServerIdentity, ServerRound, ServerRoundError, SetPolicy, SetupError, recover_aggregated,
    recover_direct, recover_once, run_aggregator_round, run_client_round, run_client_round_rs,
    run_client_round_with_openings,
};
use crate::sig::{SigningKey, VerifyingKey};
use crate::sss::default_threshold;
use crate::wire::{Decode, DecodeWith, Encode};
use chipmunk::N;
use chipmunk::params::{P300, ParameterSet};
use chipmunk::ring::backend::Simd;
use rand_chacha::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A stream of its own for everything that is drawn, so that one party's draws never move another's.
fn stream(seed: u64, purpose: &str, index: &[u8]) -> ChaCha20Rng {
    let seed = tagged_sha256("panetiere/testing/v1", &[&seed.to_le_bytes(), purpose.as_bytes(), index]);
    ChaCha20Rng::from_seed(seed)
}

/// A deployment of four servers and four clients under [`P300`], one polynomial a message, floor 2. The same `seed`
/// gives the same keys, messages and bytes.
pub fn deployment(seed: u64) -> Builder {
    Builder {
        seed,
        servers: 4,
        threshold: None,
        clients: 4,
        polys: 1,
        set: &P300,
        plaintext: Plaintext::Prime,
        min_clients: 2,
        epoch: EpochId(0),
        lanes: None,
        faulty: None,
        aggregators: 0,
        simd: Simd::under_test(),
    }
}

/// What a test deployment looks like.
#[derive(Clone, Debug)]
pub struct Builder {
    seed: u64,
    servers: u16,
    threshold: Option<u16>,
    clients: u32,
    polys: u32,
    set: &'static ParameterSet,
    plaintext: Plaintext,
    min_clients: u32,
    epoch: EpochId,
    lanes: Option<LaneShape>,
    faulty: Option<u16>,
    aggregators: u16,
    simd: Simd,
}

impl Builder {
    /// Number of servers.
    pub const fn servers(mut self, servers: u16) -> Self {
        self.servers = servers;
        self
    }

    /// The threshold; without it the default for that many servers.
    pub const fn threshold(mut self, threshold: u16) -> Self {
        self.threshold = Some(threshold);
        self
    }

    /// Number of clients.
    pub const fn clients(mut self, clients: u32) -> Self {
        self.clients = clients;
        self
    }

    /// Polynomials of a message.
    pub const fn polys(mut self, polys: u32) -> Self {
        self.polys = polys;
        self
    }

    /// The parameter set.
    pub const fn set(mut self, set: &'static ParameterSet) -> Self {
        self.set = set;
        self
    }

    /// The plaintext modulus.
    pub const fn plaintext(mut self, plaintext: Plaintext) -> Self {
        self.plaintext = plaintext;
        self
    }

    /// Messages of this channel's shape: polynomials and plaintext modulus.
    pub fn channel(mut self, channel: &ChannelParams) -> Self {
        let Dimensions { polys, plaintext, .. } = Dimensions::for_channel(channel, self.servers, 1);
        (self.polys, self.plaintext) = (polys, plaintext);
        self
    }

    /// Fewest clients of a canonical set.
    pub const fn min_clients(mut self, min_clients: u32) -> Self {
        self.min_clients = min_clients;
        self
    }

    /// Number of the epoch: the same servers with other envelope keys.
    pub const fn epoch(mut self, epoch: u32) -> Self {
        self.epoch = EpochId(epoch);
        self
    }

    /// Erasure mode: any `needed` of `lanes` lanes carry a ciphertext.
    pub const fn lanes(mut self, needed: u16, lanes: u16) -> Self {
        self.lanes = Some(LaneShape { needed, lanes });
        self
    }

    /// Servers assumed faulty; without it as many as cannot shut a client out.
    pub const fn faulty(mut self, faulty: u16) -> Self {
        self.faulty = Some(faulty);
        self
    }

    /// Aggregated mode, with so many aggregators.
    pub const fn aggregators(mut self, aggregators: u16) -> Self {
        self.aggregators = aggregators;
        self
    }

    /// The arithmetic; without it that of [`Simd::under_test`].
    pub const fn simd(mut self, simd: Simd) -> Self {
        self.simd = simd;
        self
    }

    /// Makes the parties, publishes the epoch's document and reads it back from its bytes.
    ///
    /// # Panics
    /// If setup refuses this shape.
    pub fn build(self) -> Net {
        self.try_build().expect("a shape that setup accepts")
    }

    /// [`build`](Self::build), for shapes that setup may refuse.
    ///
    /// # Errors
    /// What setup says.
    pub fn try_build(self) -> Result<Net, SetupError> {
        let id = DeploymentId::from_name("panetiere testing");
        let keys = |index: u16| {
            let mut identity = stream(self.seed, "server identity", &index.to_le_bytes());
            let place = [index.to_le_bytes().as_slice(), &self.epoch.to_bytes()].concat();
            let envelope_key = pke::PrivateKey::generate(&mut stream(self.seed, "server epoch", &place));
            (ServerId(index), envelope_key, SigningKey::generate(&mut identity))
        };
        let keys: Vec<_> = (0..self.servers).map(keys).collect();
        let entries = keys
            .iter()
            .map(|(server, envelope_key, signing_key)| {
                EpochServer::sign(&id, self.epoch, *server, envelope_key.public_key(), signing_key)
            })
            .collect();
        let lane_keys: Vec<(NodeId, SigningKey)> = (0..self.lanes.map_or(0, |shape| shape.lanes))
            .map(|index| {
                (NodeId(index), SigningKey::generate(&mut stream(self.seed, "lane", &index.to_le_bytes())))
            })
            .collect();
        let epoch = Epoch::new(id, self.epoch, entries).expect("every key was just signed");
        let epoch = epoch.with_lanes(lane_keys.iter().map(|(_, key)| key.verifying_key()).collect());
        let key = |index: u16| {
            let mut rng = stream(self.seed, "aggregator", &index.to_le_bytes());
            (AggregatorId(index), SigningKey::generate(&mut rng))
        };
        let aggregator_keys: Vec<_> = (0..self.aggregators).map(key).collect();
        let public = aggregator_keys.iter().map(|(_, key)| key.verifying_key()).collect();
        let epoch = epoch.and_then(|epoch| epoch.with_aggregators(public));
        let epoch = epoch.expect("keys of their own").to_bytes();
        let epoch = Epoch::from_bytes(&epoch).expect("an encoder's bytes parse");
        let lanes = lane_keys.into_iter().map(|(lane, signing_key)| {
            let identity = LaneIdentity::new(lane, signing_key, &epoch, MemoryAnswers::fresh());
            Arc::new(identity.expect("the document was made from these keys"))
        });
        let lanes = lanes.collect();
        let aggregators = aggregator_keys.into_iter().map(|(aggregator, key)| {
            AggregatorIdentity::new(aggregator, key, &epoch).expect("the document was made from these keys")
        });
        let aggregators = aggregators.collect();
        let servers = keys.into_iter().map(|(server, envelope_key, signing_key)| {
            let identity =
                ServerIdentity::new(server, envelope_key, signing_key, &epoch, MemoryAnswers::fresh());
            Arc::new(identity.expect("the document was made from these keys"))
        });
        let servers = servers.collect();
        let dimensions = Dimensions {
            servers: self.servers,
            threshold: self.threshold.unwrap_or(default_threshold(self.servers)),
            polys: self.polys,
            plaintext: self.plaintext,
        };
        let deployment = Deployment {
            id,
            epoch: epoch.digest(),
            set: self.set,
            min_clients: self.min_clients,
            max_clients: ProtocolParams::admissible_clients(self.set, dimensions),
            faulty: self.faulty.unwrap_or(dimensions.threshold.saturating_sub(1) / 2),
            kernels: self.simd.kernels(),
        };
        let params = match self.lanes {
            None if self.aggregators > 0 => ProtocolParams::setup_aggregated_mode(deployment, dimensions)?,
            None => ProtocolParams::setup_with_kahe_dims_full(deployment, dimensions)?,
            Some(shape) => ProtocolParams::setup_rs_mode(deployment, dimensions, shape)?,
        };
        let params = Arc::new(params);
        let clients =
            (0..self.clients).map(|index| Party::new(self.seed, ClientId(index), &params)).collect();
        Ok(Net { params, epoch, servers, lanes, aggregators, clients, seed: self.seed })
    }
}

/// A client: its admitted key and what it has to say.
#[derive(Debug)]
pub struct Party {
    /// Who.
    pub id: ClientId,
    /// The key that admission bound to the id.
    pub signing_key: SigningKey,
    /// Its vector: every coefficient uniform in `[0, t)`, so that a missing, doubled or foreign one shows.
    pub message: Vec<PlainPoly>,
}

impl Party {
    fn new(seed: u64, id: ClientId, params: &ProtocolParams) -> Self {
        let mut rng = stream(seed, "client", &id.to_bytes());
        let signing_key = SigningKey::generate(&mut rng);
        let t = params.kahe().plaintext_modulus();
        let scalars: Vec<u64> = (0..params.kahe().polys() * N).map(|_| rng.next_u64() % t).collect();
        Self { id, signing_key, message: PlainPoly::from_scalars(&scalars) }
    }
}

/// A deployment with all its parties.
#[derive(Debug)]
pub struct Net {
    /// The common parameters.
    pub params: Arc<ProtocolParams>,
    /// The epoch's document.
    pub epoch: Epoch,
    /// The servers, in the order of their ids.
    pub servers: Vec<Arc<ServerIdentity>>,
    /// The lanes, in the order of their ids; none unless [`Builder::lanes`] asked for them.
    pub lanes: Vec<Arc<LaneIdentity>>,
    /// The aggregators, in the order of their ids; none unless [`Builder::aggregators`] asked for them.
    pub aggregators: Vec<AggregatorIdentity>,
    /// The clients, in the order of their ids.
    pub clients: Vec<Party>,
    seed: u64,
}

impl Net {
    /// The ids of all clients.
    pub fn ids(&self) -> impl Iterator<Item = ClientId> + use<> {
        let ids: Vec<ClientId> = self.clients.iter().map(|party| party.id).collect();
        ids.into_iter()
    }

    /// The set of all clients.
    pub fn all(&self) -> CanonicalSet {
        CanonicalSet::new(self.ids()).expect("ids are distinct")
    }

    /// The set of all clients but one.
    pub fn all_but(&self, client: ClientId) -> CanonicalSet {
        CanonicalSet::new(self.ids().filter(|id| *id != client)).expect("ids are distinct")
    }

    /// A client.
    pub fn party(&self, client: ClientId) -> &Party {
        self.clients.iter().find(|party| party.id == client).expect("a client of this deployment")
    }

    /// A server's keys.
    pub fn server(&self, server: ServerId) -> &Arc<ServerIdentity> {
        &self.servers[usize::from(server.0)]
    }

    /// The session that leaf `leaf_index` of the test log opens.
    pub fn session(&self, leaf_index: u64) -> SessionId {
        SessionId::derive("testing.example/log", leaf_index, &[0; 32])
    }

    /// The sum of the clients' vectors, by plain integers: what a round over `set` has to give.
    pub fn expected(&self, set: &CanonicalSet) -> Vec<PlainPoly> {
        let t = u128::from(self.params.kahe().plaintext_modulus());
        let mut sums = vec![0u128; self.params.kahe().polys() * N];
        for party in self.clients.iter().filter(|party| set.contains(party.id)) {
            let scalars = party.message.iter().flat_map(PlainPoly::coefficients);
            sums.iter_mut().zip(scalars).for_each(|(sum, &scalar)| *sum += u128::from(scalar));
        }
        let reduced = sums.into_iter().map(|sum| u64::try_from(sum % t).expect("t is below 2^36"));
        PlainPoly::from_scalars(&reduced.collect::<Vec<_>>())
    }

    /// A round in which nothing has happened yet.
    pub fn open(&self, leaf_index: u64) -> Round<'_> {
        let session = self.session(leaf_index);
        let servers: Vec<_> =
            self.servers.iter().map(|server| Arc::new(started_again(server, &self.epoch))).collect();
        let running = |server: &Arc<ServerIdentity>| {
            ServerRound::new(Arc::clone(&self.params), session, Arc::clone(server))
        };
        Round {
            net: self,
            session,
            bulletin: BTreeMap::new(),
            inboxes: vec![Vec::new(); self.servers.len()],
            running: servers.iter().map(running).collect(),
            servers,
        }
    }

    /// A round to which every client has honestly posted.
    pub fn posted(&self, leaf_index: u64) -> Round<'_> {
        let mut round = self.open(leaf_index);
        for client in self.ids() {
            round.submit(&round.client(client)).accepted();
        }
        round
    }
}

/// The same server with the same keys, in a process that remembers nothing.
///
/// # Panics
/// Unless it is a server of the epoch.
pub fn started_again(server: &ServerIdentity, epoch: &Epoch) -> ServerIdentity {
    let signing_key = SigningKey::from_scalar(&server.signing_key().expose_scalar());
    let envelope_key = pke::PrivateKey::from_seed(&server.envelope_key().expose_seed());
    ServerIdentity::new(
        server.id(),
        envelope_key,
        signing_key.expect("the scalar of a key"),
        epoch,
        MemoryAnswers::fresh(),
    )
    .expect("the keys that the document names")
}

/// What came of a client's messages.
#[derive(Debug)]
pub struct Delivery {
    /// The statement, checked against the admitted key. If it is refused, no server gets an envelope.
    pub statement: Result<VerifiedPost, StatementError>,
    /// What each server said of its envelope, in the order of the ids.
    pub envelopes: Vec<Result<(), EnvelopeFault>>,
}

impl Delivery {
    /// Insists that everything was taken.
    ///
    /// # Panics
    /// Otherwise.
    pub fn accepted(self) -> VerifiedPost {
        assert!(self.envelopes.iter().all(Result::is_ok), "{:?}", self.envelopes);
        self.statement.expect("an honest statement")
    }
}

/// One round of a deployment: the bulletin's bytes, the servers' inboxes and running sums.
#[derive(Debug)]
pub struct Round<'a> {
    /// The deployment.
    pub net: &'a Net,
    /// The session.
    pub session: SessionId,
    /// The posts as bytes, for the test to alter.
    pub bulletin: BTreeMap<ClientId, Vec<u8>>,
    /// Every pair that a server was handed, in the order of arrival.
    pub inboxes: Vec<Vec<(VerifiedPost, Envelope)>>,
    /// The servers' running rounds.
    pub running: Vec<ServerRound>,
    /// The servers as they are in this round: they have answered nothing before, so that two rounds of one session are
    /// two worlds.
    pub servers: Vec<Arc<ServerIdentity>>,
}

impl Round<'_> {
    fn client_stream(&self, client: ClientId) -> ChaCha20Rng {
        let place = [self.session.to_bytes(), client.to_bytes()].concat();
        stream(self.net.seed, "client round", &place)
    }

    /// What a client sends.
    pub fn client(&self, client: ClientId) -> ClientRound {
        self.client_with(client, &self.net.party(client).message)
    }

    /// What a client sends in erasure mode.
    pub fn rs_client(&self, client: ClientId) -> RsClientRound {
        run_client_round_rs(
            &mut self.client_stream(client),
            &self.net.params,
            &self.session,
            client,
            &self.net.party(client).message,
            &self.net.epoch.envelope_keys(),
            &self.net.party(client).signing_key,
        )
        .expect("a message, servers and lanes of this round's shape")
    }

    /// What a client sends that has this to say.
    pub fn client_with(&self, client: ClientId, message: &[PlainPoly]) -> ClientRound {
        run_client_round(
            &mut self.client_stream(client),
            &self.net.params,
            &self.session,
            client,
            message,
            &self.net.epoch.envelope_keys(),
            &self.net.party(client).signing_key,
        )
        .expect("a message and servers of this round's shape")
    }

    /// What a client sends that is ready to answer complaints, and the guard of its openings.
    pub fn guarded_client(&self, client: ClientId) -> (ClientRound, AnswerGuard) {
        let (net, party) = (self.net, self.net.party(client));
        let (rng, keys) = (&mut self.client_stream(client), net.epoch.envelope_keys());
        let (message, key) = (&party.message, &party.signing_key);
        let sent =
            run_client_round_with_openings(rng, &net.params, &self.session, client, message, &keys, key);
        let (sent, openings) = sent.expect("a message and servers of this round's shape");
        let post = sent.post.head.signed.check(&net.params, &self.session, &key.verifying_key());
        let post = post.expect("its own statement");
        let guard = AnswerGuard::new(Arc::clone(&net.params), net.epoch.clone(), post, openings);
        (sent, guard.expect("its own openings"))
    }

    /// What an aggregator publishes for these clients, read back from its bytes.
    ///
    /// # Panics
    /// If it refuses.
    pub fn group(&self, aggregator: AggregatorId, clients: impl IntoIterator<Item = u32>) -> GroupSum {
        let group = CanonicalSet::new(clients.into_iter().map(ClientId)).expect("distinct clients");
        let identity = &self.net.aggregators[usize::from(aggregator.0)];
        let fetch = |client| self.fetch(client);
        let sum = run_aggregator_round(&self.net.params, self.session, identity, &group, fetch);
        let bytes = sum.expect("an aggregator that answers").to_bytes(&self.net.params);
        GroupSum::from_bytes_with(&self.net.params, &bytes).expect("an encoder's bytes parse")
    }

    /// The posts of the bulletin, part by part.
    pub const fn posts(&self) -> RoundPosts<'_> {
        RoundPosts::new(self)
    }

    /// Recovers an aggregated round from these groups and sums.
    ///
    /// # Errors
    /// What the recipient says.
    pub fn recover_groups(
        &self,
        set: &CanonicalSet,
        groups: &[GroupSum],
        sums: &[ServerBulletinEntry],
        audit: Audit<'_>,
    ) -> Result<RecoveredAggregated, NotRecovered> {
        let (net, policy, posts) = (self.net, self.policy(set), &mut self.posts());
        recover_aggregated(&net.params, &self.session, &net.epoch, &policy, posts, groups, sums, audit)
    }

    /// What a lying client sends.
    pub fn lying_client(&self, client: ClientId, lie: &ClientLie) -> ClientRound {
        client::run(self, self.net.party(client), lie)
    }

    /// Posts to the bulletin, has the statement checked, and delivers one envelope to each server: all as bytes.
    pub fn submit(&mut self, sent: &ClientRound) -> Delivery {
        let params = &self.net.params;
        let bytes = sent.post.to_bytes(params);
        let post = ClientBulletinEntry::from_bytes_with(params, &bytes).expect("an encoder's bytes parse");
        self.bulletin.insert(sent.client_id, bytes);
        let key = self.net.party(sent.client_id).signing_key.verifying_key();
        let verified = match post.head.signed.check(params, &self.session, &key) {
            Ok(verified) => verified,
            refused => return Delivery { statement: refused, envelopes: Vec::new() },
        };
        let envelopes = (0..).map(ServerId).zip(&sent.envelopes);
        let envelopes =
            envelopes.map(|(server, envelope)| self.deliver(server, &verified, envelope)).collect();
        Delivery { statement: Ok(verified), envelopes }
    }

    /// Hands one server an envelope, as bytes.
    ///
    /// # Errors
    /// What the server says.
    pub fn deliver(
        &mut self,
        server: ServerId,
        post: &VerifiedPost,
        envelope: &Envelope,
    ) -> Result<(), EnvelopeFault> {
        let envelope = Envelope::from_bytes_with(&self.net.params, &envelope.to_bytes());
        let envelope = envelope.expect("an encoder's bytes parse");
        let at = usize::from(server.0);
        self.inboxes[at].push((post.clone(), envelope.clone()));
        self.running[at].receive(post, &envelope)
    }

    /// Asks one server for its sum, and reads it back from its bytes.
    ///
    /// # Errors
    /// What the server says.
    pub fn close(
        &mut self,
        server: ServerId,
        set: &CanonicalSet,
    ) -> Result<ServerBulletinEntry, ServerRoundError> {
        let bytes = self.running[usize::from(server.0)].close(set)?.to_bytes(&self.net.params);
        Ok(self.parse_sum(&bytes))
    }

    fn parse_sum(&self, bytes: &[u8]) -> ServerBulletinEntry {
        ServerBulletinEntry::from_bytes_with(&self.net.params, bytes).expect("an encoder's bytes parse")
    }

    /// The sums of all servers.
    ///
    /// # Panics
    /// If a server refuses.
    pub fn sums(&mut self, set: &CanonicalSet) -> Vec<ServerBulletinEntry> {
        let servers: Vec<ServerId> = self.net.servers.iter().map(|server| server.id()).collect();
        servers.into_iter().map(|server| self.close(server, set).expect("a server that answers")).collect()
    }

    /// What a lying server publishes over `set`, read back from its bytes.
    pub fn lying_sum(&self, server: ServerId, set: &CanonicalSet, lie: &ServerLie) -> ServerBulletinEntry {
        self.parse_sum(&server::run(self, server, set, lie).to_bytes(&self.net.params))
    }

    /// A client's post as the bulletin has it, with the admitted key. Bytes that do not parse are no post.
    pub fn fetch(&self, client: ClientId) -> Option<(VerifyingKey, ClientBulletinEntry)> {
        let post =
            ClientBulletinEntry::from_bytes_with(&self.net.params, self.bulletin.get(&client)?).ok()?;
        Some((self.net.party(client).signing_key.verifying_key(), post))
    }

    /// Recovers the round from the bulletin and these sums, excluding servers that lie.
    ///
    /// # Errors
    /// What the recipient says.
    pub fn recover(
        &self,
        set: &CanonicalSet,
        sums: &[ServerBulletinEntry],
    ) -> Result<Recovered, RecipientError> {
        let (net, policy) = (self.net, self.policy(set));
        recover_direct(&net.params, &self.session, &net.epoch, &policy, |client| self.fetch(client), sums)
    }

    /// One attempt with exactly these sums.
    ///
    /// # Errors
    /// What the recipient says: the first fault.
    pub fn recover_once(
        &self,
        set: &CanonicalSet,
        sums: &[ServerBulletinEntry],
    ) -> Result<Vec<PlainPoly>, RecipientError> {
        let (net, policy) = (self.net, self.policy(set));
        recover_once(&net.params, &self.session, &net.epoch, &policy, |client| self.fetch(client), sums)
    }

    /// The announced set itself, within the parameters' bounds.
    pub fn policy(&self, set: &CanonicalSet) -> SetPolicy {
        let params = &self.net.params;
        SetPolicy::anchored(set.clone(), params.min_clients(), params.max_clients())
    }
}
