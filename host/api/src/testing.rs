//! Seeded deployments with a log, for tests of whatever reads or writes one.

mod cheat;
mod stage;

pub use cheat::MemoryBlobs;
pub use stage::{Entry, Stage};

use crate::leaf::{
    Admission, AdmissionPolicy, Credential, EpochPlan, Leaf, PostsEnd, RoundId, RoundKind, RoundOpen, Signed,
    Witnesses,
};
use crate::participate::{Outgoing, Post};
use crate::round::{Anchor, Record, Session};
use panetiere::bulletin::{Envelope, LaneItem, Mode};
use panetiere::channel::{self, ChannelParams};
use panetiere::cs::FreshOpening;
use panetiere::ids::{ClientId, DeploymentId, SessionId, StatementDigest};
use panetiere::protocol::{Terms, run_client_round_rs_with_openings, run_client_round_with_openings};
use panetiere::sig::SigningKey;
use panetiere::testing::{Builder, Net, deployment};
use panetiere::wire::Encode;
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng;
use std::collections::BTreeMap;
use tlog::checkpoint::{Checkpoint, TreeHead};
use tlog::key::{Cosigner, NoteSigner};
use tlog::merkle::{Edge, leaf_hash};
use tlog::note::Note;

/// The origin of a test log.
pub const ORIGIN: &str = "testing.example/log";

/// A stream of its own for everything that is drawn.
pub fn stream(seed: u64, purpose: &str, index: u64) -> ChaCha20Rng {
    ChaCha20Rng::from_seed(seed_bytes(seed, purpose, index))
}

fn seed_bytes(seed: u64, purpose: &str, index: u64) -> [u8; 32] {
    let mut hash = blake3::Hasher::new();
    hash.update(purpose.as_bytes()).update(&seed.to_le_bytes()).update(&index.to_le_bytes());
    hash.finalize().into()
}

/// A deployment with everybody's keys, the operator's, the log's and the witnesses' among them. Every server witnesses.
#[derive(Debug)]
pub struct Scene {
    /// Servers, clients and parameters.
    pub net: Net,
    /// The payload encoding.
    pub channel: ChannelParams,
    /// The operator's key.
    pub operator: SigningKey,
    /// The recipient's key.
    pub recipient: SigningKey,
    seed: u64,
}

/// What a client sends in a round, and what it keeps.
#[derive(Debug)]
pub struct Sent {
    /// The post.
    pub post: Post,
    /// The envelopes, in the order of the servers.
    pub envelopes: Vec<Envelope>,
    /// The items, in the order of the lanes; none without lanes.
    pub items: Vec<LaneItem>,
    /// What complaints would be answered with.
    pub openings: Vec<FreshOpening>,
    /// The message.
    pub message: Vec<u8>,
}

impl Sent {
    /// As a client sends it.
    pub fn outgoing(&self) -> Outgoing {
        Outgoing { envelopes: self.envelopes.clone(), items: self.items.clone(), post: self.post.clone() }
    }

    /// Who sends it.
    pub const fn client(&self) -> ClientId {
        self.post.signed().claim().client
    }
}

impl Scene {
    /// A deployment whose messages have up to `bytes` bytes, in the sketch, for as many clients as `shape` has.
    pub fn new(seed: u64, clients: u32, bytes: usize, shape: impl FnOnce(Builder) -> Builder) -> Self {
        let capacity = usize::try_from(clients).expect("few clients");
        let channel = ChannelParams::prony_for_messages(capacity, bytes).expect("small messages");
        let net = shape(deployment(seed).clients(clients)).channel(&channel).build();
        let key = |purpose| SigningKey::generate(&mut stream(seed, purpose, 0));
        Self { net, channel, operator: key("operator"), recipient: key("recipient"), seed }
    }

    /// The deployment.
    pub fn deployment(&self) -> DeploymentId {
        *self.net.epoch.deployment()
    }

    /// The log's key.
    pub fn log_key(&self) -> NoteSigner {
        NoteSigner::from_seed(ORIGIN.parse().expect("a name"), &seed_bytes(self.seed, "log", 0))
    }

    /// The cosigning key of a server.
    pub fn cosigner(&self, server: u16) -> Cosigner {
        let name = format!("witness{server}.testing.example").parse().expect("a name");
        Cosigner::from_seed(name, &seed_bytes(self.seed, "cosigner", server.into()))
    }

    /// What every reader knows beforehand.
    pub fn anchor(&self) -> Anchor {
        Anchor {
            origin: ORIGIN.parse().expect("a name"),
            log_key: self.log_key().verifier().clone(),
            deployment: self.deployment(),
            operator: self.operator.verifying_key(),
        }
    }

    /// An empty record.
    pub fn record(&self) -> Record {
        Record::new(self.anchor(), chipmunk::ring::backend::under_test())
    }

    /// The first epoch.
    pub fn plan(&self) -> EpochPlan {
        let witnesses = (0..self.net.params.servers()).map(|server| self.cosigner(server).verifier().clone());
        EpochPlan {
            document: self.net.epoch.clone(),
            terms: Terms::of(&self.net.params, &self.channel).expect("the channel fits"),
            previous: None,
            rounds: 1000,
            admission: AdmissionPolicy::Unattested,
            witnesses: Witnesses { keys: witnesses.collect(), faulty: self.net.params.faulty() },
            recipients: vec![self.recipient.verifying_key()],
        }
    }

    /// The leaf of an epoch, signed by the operator.
    pub fn epoch_leaf(&self, plan: EpochPlan) -> Leaf {
        Leaf::Epoch(Box::new(Signed::sign(plan, &self.operator)))
    }

    /// The admission of a client to the first epoch.
    pub fn admission(&self, client: ClientId) -> Leaf {
        let key = &self.net.party(client).signing_key;
        let admission = Admission {
            deployment: self.deployment(),
            epoch: self.net.epoch.digest(),
            key: key.verifying_key(),
            credential: Credential::Unattested,
        };
        Leaf::Admission(Signed::sign(admission, key))
    }

    /// The announcement of a round of messages in the first epoch.
    pub fn open(&self, round: u64) -> RoundOpen {
        RoundOpen {
            deployment: self.deployment(),
            epoch: self.net.epoch.digest(),
            crs: *self.net.params.crs_digest(),
            round: RoundId(round),
            kind: RoundKind::Messages,
            collect_ms: 1000,
            check_ms: 1000,
            answer_ms: 1000,
        }
    }

    /// What a client says in a round: no two clients and no two rounds have the same.
    pub fn message(&self, session: &SessionId, client: ClientId) -> Vec<u8> {
        let digest = seed_bytes(self.seed, &session.to_string(), client.0.into());
        digest[..self.channel.max_message_bytes().min(32)].to_vec()
    }

    /// What a client sends in a round; `variant` makes another post with the same message.
    pub fn send(&self, session: &SessionId, client: ClientId, variant: u64) -> Sent {
        let message = self.message(session, client);
        let mut rng = stream(self.seed, &session.to_string(), (variant << 32) | u64::from(client.0));
        let vector = channel::encode_message(&mut rng, &self.channel, session, &message).expect("it fits");
        let (params, keys) = (&self.net.params, self.net.epoch.envelope_keys());
        let key = &self.net.party(client).signing_key;
        if params.mode() == Mode::Erasure {
            let sent =
                run_client_round_rs_with_openings(&mut rng, params, session, client, &vector, &keys, key);
            let (sent, openings) = sent.expect("an honest client");
            let (post, envelopes, items) = (Post::Rs(sent.post), sent.envelopes, sent.items);
            return Sent { post, envelopes, items, openings, message };
        }
        let sent = run_client_round_with_openings(&mut rng, params, session, client, &vector, &keys, key);
        let (sent, openings) = sent.expect("an honest client");
        let (post, envelopes) = (Post::Whole(sent.post), sent.envelopes);
        Sent { post, envelopes, items: Vec::new(), openings, message }
    }

    /// A server's statement on its envelopes.
    pub fn checked(
        &self,
        session: &SessionId,
        server: u16,
        complaints: BTreeMap<ClientId, StatementDigest>,
    ) -> Leaf {
        let server = &self.net.servers[usize::from(server)];
        let signed =
            server.sign_checked(&self.net.params, session, complaints).expect("the first of this session");
        Leaf::parse(&signed.to_bytes()).expect("an encoder's bytes parse")
    }
}

/// A log in memory.
#[derive(Clone, Debug, Default)]
pub struct MemoryLog {
    /// Its entries.
    pub entries: Vec<Vec<u8>>,
    edge: Edge,
}

impl MemoryLog {
    /// Appends a leaf; returns its index.
    pub fn append(&mut self, leaf: &Leaf) -> u64 {
        self.append_bytes(leaf.to_bytes())
    }

    /// Appends any bytes; returns their index.
    pub fn append_bytes(&mut self, entry: Vec<u8>) -> u64 {
        let index = self.edge.append(leaf_hash(&entry)).expect("room in the tree");
        self.entries.push(entry);
        index
    }

    /// The tree.
    pub fn head(&self) -> TreeHead {
        TreeHead { size: self.edge.size(), root: self.edge.root() }
    }

    /// The checkpoint of the whole log, signed.
    pub fn checkpoint(&self, key: &NoteSigner) -> Note {
        let origin = ORIGIN.parse().expect("a name");
        let checkpoint = Checkpoint::new(origin, self.head()).expect("a small tree");
        checkpoint.sign(key).expect("a key with the log's name")
    }

    /// The session that the leaf at `index` opens.
    pub fn session(&self, index: u64) -> SessionId {
        let entry = &self.entries[usize::try_from(index).expect("a small log")];
        SessionId::derive(ORIGIN, index, &leaf_hash(entry))
    }
}

/// Ends the posts of a round.
pub fn posts_end(session: &Session) -> Leaf {
    Leaf::PostsEnd(PostsEnd { session: *session.id() })
}
