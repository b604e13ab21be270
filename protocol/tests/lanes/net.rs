//! A deployment with lanes, seeded, every hop through its bytes.

use chipmunk::N;
use chipmunk::params::P300;
use chipmunk::ring::backend;
use panetiere::bulletin::*;
use panetiere::evidence::Evidence;
use panetiere::fault::Attribution;
use panetiere::ids::*;
use panetiere::kahe::Plaintext;
use panetiere::pke;
use panetiere::plaintext::PlainPoly;
use panetiere::protocol::*;
use panetiere::rs::Share;
use panetiere::sig::{SigningKey, VerifyingKey};
use panetiere::wire::{Decode, DecodeWith, Encode};
use rand_chacha::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};
use std::collections::BTreeMap;
use std::sync::Arc;

pub struct Net {
    pub params: Arc<ProtocolParams>,
    pub epoch: Epoch,
    pub servers: Vec<Arc<ServerIdentity>>,
    pub lanes: Vec<Arc<LaneIdentity>>,
    pub keys: Vec<SigningKey>,
    pub messages: Vec<Vec<PlainPoly>>,
}

pub fn stream(purpose: &str, index: u32) -> ChaCha20Rng {
    let mut seed = [0; 32];
    seed[..purpose.len()].copy_from_slice(purpose.as_bytes());
    seed[28..].copy_from_slice(&index.to_le_bytes());
    ChaCha20Rng::from_seed(seed)
}

/// Three servers of which two suffice, k-of-n lanes, messages of `polys` polynomials. The same arguments give the same
/// keys, so a second call makes parties that have forgotten what they answered.
pub fn net(needed: u16, lanes: u16, clients: u32, polys: u32) -> Net {
    let id = DeploymentId::from_name("lanes test");
    let server_keys = [0, 1, 2].map(|server| {
        let mut rng = stream("server", server);
        (pke::PrivateKey::generate(&mut rng), SigningKey::generate(&mut rng))
    });
    let entry = |(server, (envelope_key, signing_key)): (ServerId, &(pke::PrivateKey, SigningKey))| {
        EpochServer::sign(&id, EpochId(0), server, envelope_key.public_key(), signing_key)
    };
    let entries = (0..).map(ServerId).zip(&server_keys).map(entry).collect();
    let lane_keys: Vec<SigningKey> =
        (0..lanes).map(|i| SigningKey::generate(&mut stream("lane", i.into()))).collect();
    let epoch = Epoch::new(id, EpochId(0), entries).unwrap();
    let epoch = epoch.with_lanes(lane_keys.iter().map(SigningKey::verifying_key).collect()).unwrap();
    assert_eq!(Epoch::from_bytes(&epoch.to_bytes()).as_ref(), Ok(&epoch));
    let server = |(server, (envelope_key, signing_key))| {
        Arc::new(
            ServerIdentity::new(server, envelope_key, signing_key, &epoch, MemoryAnswers::fresh()).unwrap(),
        )
    };
    let servers = (0..).map(ServerId).zip(server_keys).map(server).collect();
    let lane_ids = (0..).map(NodeId).zip(lane_keys);
    let lanes_identities = lane_ids
        .map(|(lane, key)| Arc::new(LaneIdentity::new(lane, key, &epoch, MemoryAnswers::fresh()).unwrap()))
        .collect();
    let deployment = Deployment {
        id,
        epoch: epoch.digest(),
        set: &P300,
        min_clients: 2,
        max_clients: 300,
        faulty: 0,
        kernels: backend::under_test(),
    };
    let dimensions = Dimensions { servers: 3, threshold: 2, polys, plaintext: Plaintext::Prime };
    let params = ProtocolParams::setup_rs_mode(deployment, dimensions, LaneShape { needed, lanes }).unwrap();
    let t = params.kahe().plaintext_modulus();
    let message = |client: u32| {
        let mut rng = stream("message", client);
        let scalars: Vec<u64> = (0..params.kahe().polys() * N).map(|_| rng.next_u64() % t).collect();
        PlainPoly::from_scalars(&scalars)
    };
    Net {
        keys: (0..clients).map(|i| SigningKey::generate(&mut stream("client key", i))).collect(),
        messages: (0..clients).map(message).collect(),
        params: Arc::new(params),
        epoch,
        servers,
        lanes: lanes_identities,
    }
}

pub fn set(clients: impl IntoIterator<Item = u32>) -> CanonicalSet {
    CanonicalSet::new(clients.into_iter().map(ClientId)).unwrap()
}

impl Net {
    pub fn session(&self, leaf: u64) -> SessionId {
        SessionId::derive("lanes.example/log", leaf, &[0; 32])
    }

    pub fn key(&self, client: ClientId) -> &SigningKey {
        &self.keys[usize::try_from(client.0).unwrap()]
    }

    /// What an honest client sends.
    pub fn client(&self, session: &SessionId, client: u32) -> RsClientRound {
        let at = usize::try_from(client).unwrap();
        // Other randomness in every session.
        let place = u32::from_le_bytes(session.to_bytes()[..4].try_into().unwrap());
        run_client_round_rs(
            &mut stream("client round", client ^ place),
            &self.params,
            session,
            ClientId(client),
            &self.messages[at],
            &self.epoch.envelope_keys(),
            &self.keys[at],
        )
        .unwrap()
    }

    /// The shares of a client, read out of its items.
    pub fn shares(&self, sent: &RsClientRound) -> Vec<Share> {
        let rs = self.params.lane_code().unwrap().rs();
        sent.items.iter().map(|item| rs.unpack_share(&item.body[..rs.share_len()]).unwrap()).collect()
    }

    /// The same client, committing to and delivering these shares, all of it signed.
    pub fn with_shares(&self, sent: &RsClientRound, shares: &[Share]) -> RsClientRound {
        let code = self.params.lane_code().unwrap();
        let (commitment, paths) = code.commitment().commit(shares);
        let body = |(share, path): (&Share, &panetiere::share_commitment::SharePath)| {
            let mut body = Vec::new();
            code.rs().pack(share, &mut body);
            path.encode(code.commitment(), &mut body);
            body
        };
        let bodies = shares.iter().zip(&paths).map(body).collect();
        let mut lie = self.with_bodies(sent, bodies);
        let mut statement = lie.post.signed.claim().clone();
        statement.roots[1] = commitment.digest(self.params.lattice());
        lie.post.signed = SignedPost::sign(statement, self.key(sent.client_id));
        lie.post.share_commitment = commitment;
        lie
    }

    /// The same client, delivering and signing these bodies under its old commitment.
    pub fn with_bodies(&self, sent: &RsClientRound, bodies: Vec<Vec<u8>>) -> RsClientRound {
        let sealed = sent.envelopes.iter().map(|envelope| (envelope.key, envelope.sealed.clone()));
        let (root, envelopes, items) = delivery_root(sent.client_id, sealed, bodies);
        let mut statement = sent.post.signed.claim().clone();
        statement.envelopes = root;
        let signed = SignedPost::sign(statement, self.key(sent.client_id));
        let post = RsClientBulletinEntry { signed, ..sent.post.clone() };
        RsClientRound { client_id: sent.client_id, post, envelopes, items }
    }

    /// A client whose share at `lane` comes from another ciphertext than the others. Everything verifies but the code.
    pub fn non_codeword(&self, session: &SessionId, client: u32, lane: u16) -> RsClientRound {
        let honest = self.client(session, client);
        let mut shares = self.shares(&honest);
        let other = self.client(session, (client + 1) % u32::try_from(self.keys.len()).unwrap());
        shares[usize::from(lane)] = self.shares(&other)[usize::from(lane)].clone();
        self.with_shares(&honest, &shares)
    }

    /// The sum of the vectors by plain integers.
    pub fn expected(&self, set: &CanonicalSet) -> Vec<PlainPoly> {
        let t = u128::from(self.params.kahe().plaintext_modulus());
        let mut sums = vec![0u128; self.params.kahe().polys() * N];
        for client in set.clients() {
            let message = &self.messages[usize::try_from(client.0).unwrap()];
            let scalars = message.iter().flat_map(PlainPoly::coefficients);
            sums.iter_mut().zip(scalars).for_each(|(sum, &scalar)| *sum += u128::from(scalar));
        }
        let reduced: Vec<u64> = sums.into_iter().map(|sum| u64::try_from(sum % t).unwrap()).collect();
        PlainPoly::from_scalars(&reduced)
    }
}

/// One round: the bulletin, the servers' and the lanes' running sums.
pub struct Round<'a> {
    pub net: &'a Net,
    pub session: SessionId,
    pub posts: BTreeMap<ClientId, Vec<u8>>,
    pub verified: BTreeMap<ClientId, VerifiedPost>,
    pub items: BTreeMap<ClientId, Vec<LaneItem>>,
    pub servers: Vec<ServerRound>,
    pub lanes: Vec<LaneRound>,
}

impl<'a> Round<'a> {
    pub fn open(net: &'a Net, leaf: u64) -> Self {
        let session = net.session(leaf);
        let server =
            |s: &Arc<ServerIdentity>| ServerRound::new(Arc::clone(&net.params), session, Arc::clone(s));
        let lane = |l: &Arc<LaneIdentity>| LaneRound::new(Arc::clone(&net.params), session, Arc::clone(l));
        Self {
            net,
            session,
            posts: BTreeMap::new(),
            verified: BTreeMap::new(),
            items: BTreeMap::new(),
            servers: net.servers.iter().map(server).collect(),
            lanes: net.lanes.iter().map(lane).collect(),
        }
    }

    /// A round to which these clients have honestly posted, and everything was taken.
    pub fn posted(net: &'a Net, leaf: u64, clients: impl IntoIterator<Item = u32>) -> Self {
        let mut round = Self::open(net, leaf);
        for client in clients {
            let sent = net.client(&round.session, client);
            round.submit(&sent).into_iter().for_each(|taken| taken.unwrap());
        }
        round
    }

    /// Posts, and delivers envelopes and items, all as bytes; what each lane said of its item.
    pub fn submit(&mut self, sent: &RsClientRound) -> Vec<Result<(), ItemFault>> {
        let params = &self.net.params;
        let bytes = sent.post.to_bytes(params);
        let post = RsClientBulletinEntry::from_bytes_with(params, &bytes).unwrap();
        assert_eq!(post, sent.post);
        let verified = post.signed.check(params, &self.session, &self.verifying_key(sent.client_id)).unwrap();
        self.posts.insert(sent.client_id, bytes);
        for (server, envelope) in self.servers.iter_mut().zip(&sent.envelopes) {
            let parsed = Envelope::from_bytes_with(params, &envelope.to_bytes()).unwrap();
            assert_eq!(&parsed, envelope);
            server.receive(&verified, &parsed).unwrap();
        }
        let taken = self
            .lanes
            .iter_mut()
            .zip(&sent.items)
            .map(|(lane, item)| {
                let parsed = LaneItem::from_bytes_with(params, &item.to_bytes()).unwrap();
                assert_eq!(&parsed, item);
                lane.receive(&verified, &parsed)
            })
            .collect();
        self.verified.insert(sent.client_id, verified);
        self.items.insert(sent.client_id, sent.items.clone());
        taken
    }

    pub fn verifying_key(&self, client: ClientId) -> VerifyingKey {
        self.net.key(client).verifying_key()
    }

    pub fn server_sums(&mut self, set: &CanonicalSet) -> Vec<ServerBulletinEntry> {
        let params = &self.net.params;
        let parse = |bytes: &[u8]| ServerBulletinEntry::from_bytes_with(params, bytes).unwrap();
        self.servers.iter_mut().map(|s| parse(&s.close(set).unwrap().to_bytes(params))).collect()
    }

    pub fn lane_sums(&mut self, set: &CanonicalSet) -> Vec<LaneBulletinEntry> {
        let params = &self.net.params;
        self.lanes.iter_mut().map(|lane| through_bytes(params, &lane.close(set).unwrap())).collect()
    }

    /// Every lane's sum over a set, to be checked for codewords.
    pub fn check_sums(&self, set: &CanonicalSet) -> Vec<LaneBulletinEntry> {
        let params = &self.net.params;
        self.lanes.iter().map(|lane| through_bytes(params, &lane.check_sum(set).unwrap())).collect()
    }

    pub fn fetch(&self, client: ClientId) -> Option<(VerifyingKey, RsClientBulletinEntry)> {
        let bytes = self.posts.get(&client)?;
        let post = RsClientBulletinEntry::from_bytes_with(&self.net.params, bytes).unwrap();
        Some((self.verifying_key(client), post))
    }

    pub fn recover(
        &self,
        set: &CanonicalSet,
        sums: &[ServerBulletinEntry],
        lanes: &[LaneBulletinEntry],
    ) -> Result<RecoveredRs, NotRecovered> {
        let policy = SetPolicy::anchored(set.clone(), 2, 300);
        let (params, epoch) = (&self.net.params, &self.net.epoch);
        aggregate_and_decrypt_rs(params, &self.session, epoch, &policy, |c| self.fetch(c), sums, lanes)
    }

    /// The posts of everybody, checked.
    pub fn checked_posts(&self) -> RsPosts<'_> {
        let mut posts = RsPosts::new(&self.net.params, self.session);
        for client in self.posts.keys() {
            let (key, post) = self.fetch(*client).unwrap();
            posts.add(&key, &post).unwrap();
        }
        posts
    }
}

/// Whether the evidence against a lane convicts it, read back from its bytes.
pub fn convicts(culprit: &LaneCulprit) -> bool {
    culprit.evidence.as_ref().is_some_and(|evidence| {
        let read = Evidence::from_bytes(&evidence.to_bytes()).unwrap();
        read.verify(backend::scalar()).unwrap().convicted() == Attribution::Lane(culprit.lane)
    })
}

pub fn through_bytes(params: &ProtocolParams, entry: &LaneBulletinEntry) -> LaneBulletinEntry {
    let bytes = entry.to_bytes(params.lane_code().unwrap());
    let parsed = LaneBulletinEntry::from_bytes_with(params, &bytes).unwrap();
    assert_eq!(&parsed, entry);
    parsed
}
