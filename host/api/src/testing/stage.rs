//! Whole rounds on a log in memory, with the bodies that lie beside it.

use super::{MemoryBlobs, MemoryLog, Scene, Sent, posts_end};
use crate::leaf::{Leaf, RoundResult, Signed, Undelivered, messages_root};
use crate::participate::Post;
use crate::round::{Event, Record, Session, Void};
use panetiere::bulletin::{CanonicalSet, GroupSum, LaneBulletinEntry, ServerBulletinEntry};
use panetiere::ids::{ClientId, NodeId, ServerId, SessionId};
use panetiere::protocol::{
    LaneIdentity, LaneRound, MemoryAnswers, ServerIdentity, ServerRound, run_aggregator_round,
};
use panetiere::sig::SigningKey;
use panetiere::testing::started_again;
use std::collections::BTreeMap;
use std::sync::Arc;
use tlog::checkpoint::Log;
use tlog::note::Note;
use tlog::witness::{Request, check};

/// A leaf with the body that it names.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The leaf.
    pub leaf: Leaf,
    /// The body, if the leaf names one.
    pub body: Option<Vec<u8>>,
}

/// A log with everything that its parties have published.
#[derive(Debug)]
pub struct Stage {
    /// The parties.
    pub scene: Scene,
    /// What the leaves make of it.
    pub record: Record,
    /// The log.
    pub log: MemoryLog,
    /// Its entries, each with its body.
    pub entries: Vec<Entry>,
    /// Evidence that its leaves name.
    pub blobs: MemoryBlobs,
}

impl Stage {
    /// An epoch with its clients admitted.
    pub fn new(scene: Scene) -> Self {
        let (record, log, entries) = (scene.record(), MemoryLog::default(), Vec::new());
        let mut stage = Self { scene, record, log, entries, blobs: MemoryBlobs::default() };
        stage.counts(&stage.scene.epoch_leaf(stage.scene.plan()), None);
        for client in stage.scene.net.ids() {
            stage.counts(&stage.scene.admission(client), None);
        }
        stage
    }

    /// Appends a leaf, whether it counts or not.
    ///
    /// # Errors
    /// Why it does not.
    pub fn append(&mut self, leaf: &Leaf, body: Option<Vec<u8>>) -> Result<Event, Void> {
        self.log.append(leaf);
        self.entries.push(Entry { leaf: leaf.clone(), body });
        self.record.apply(&leaf.to_bytes(), &self.blobs).expect("evidence is kept before its leaf")
    }

    /// Appends a leaf that counts.
    ///
    /// # Panics
    /// If it does not.
    pub fn counts(&mut self, leaf: &Leaf, body: Option<Vec<u8>>) -> Event {
        self.append(leaf, body).unwrap_or_else(|void| panic!("{} is void: {void}", leaf.kind()))
    }

    /// Opens the next round.
    pub fn open(&mut self) -> SessionId {
        let open = self.scene.open(self.record.next_round().0);
        let index = self.log.head().size;
        self.counts(&Leaf::RoundOpen(open), None);
        self.log.session(index)
    }

    /// A round of the log.
    pub fn session(&self, session: &SessionId) -> &Session {
        self.record.session(session).expect("a recent session")
    }

    /// The closed set of a round.
    pub fn set(&self, session: &SessionId) -> &CanonicalSet {
        &self.session(session).closed().expect("closed").set
    }

    /// Appends what a client posts.
    pub fn post(&mut self, sent: &Sent) {
        let params = &self.scene.net.params;
        let body = match &sent.post {
            Post::Whole(post) => post.to_bytes(params),
            Post::Rs(post) => post.to_bytes(params),
        };
        self.counts(&Leaf::Post(sent.post.signed().clone()), Some(body));
    }

    /// A round in which every client has posted, and nothing more.
    pub fn posted(&mut self) -> (SessionId, Vec<Sent>) {
        let session = self.open();
        let sent: Vec<Sent> =
            self.scene.net.ids().map(|client| self.scene.send(&session, client, 0)).collect();
        sent.iter().for_each(|sent| self.post(sent));
        (session, sent)
    }

    /// A round in which every client has posted, every server has checked, and the set is settled.
    pub fn closed(&mut self) -> (SessionId, Vec<Sent>) {
        let (session, sent) = self.posted();
        self.close(&session);
        (session, sent)
    }

    /// Ends the posts, has every server check, and closes.
    pub fn close(&mut self, session: &SessionId) {
        self.counts(&posts_end(self.session(session)), None);
        for server in 0..self.scene.net.params.servers() {
            self.counts(&self.scene.checked(session, server, BTreeMap::new()), None);
        }
        let epoch = self.record.epoch().expect("an epoch");
        let close = self.session(session).closing(epoch).expect("may be closed");
        self.counts(&Leaf::RoundClose(close), None);
    }

    /// A server's honest sum over a set, from a process that remembers nothing.
    pub fn server_sum(
        &self,
        session: &SessionId,
        server: u16,
        set: &CanonicalSet,
        sent: &[Sent],
    ) -> ServerBulletinEntry {
        let net = &self.scene.net;
        let identity: ServerIdentity = started_again(net.server(ServerId(server)), &net.epoch);
        let mut round = ServerRound::new(Arc::clone(&net.params), *session, Arc::new(identity));
        for sent in sent.iter().filter(|sent| set.contains(sent.client())) {
            let (_, post) = &self.session(session).posts()[&sent.client()];
            round.receive(post, &sent.envelopes[usize::from(server)]).expect("an honest envelope");
        }
        round.close(set).expect("an honest set")
    }

    /// A server's sum of all but one client's shares, under its claim of the whole set: it verifies nowhere.
    pub fn wrong_sum(
        &self,
        session: &SessionId,
        server: u16,
        sent: &[Sent],
        without: ClientId,
    ) -> ServerBulletinEntry {
        let set = self.set(session);
        let others = CanonicalSet::new(set.clients().iter().copied().filter(|client| *client != without));
        let honest = self.server_sum(session, server, set, sent);
        let wrong = self.server_sum(session, server, &others.expect("a set without one client"), sent);
        let key = self.scene.net.server(ServerId(server)).signing_key();
        ServerBulletinEntry::sign(*honest.claim(), wrong.opening().clone(), &self.scene.net.params, key)
    }

    /// Appends a server's sum.
    pub fn add_server_sum(&mut self, sum: &ServerBulletinEntry) {
        let body = sum.to_bytes(&self.scene.net.params);
        self.counts(&Leaf::ServerSum(sum.signed().clone()), Some(body));
    }

    /// The same lane with the same key, in a process that remembers nothing.
    pub fn lane(&self, lane: u16) -> LaneIdentity {
        let identity = &self.scene.net.lanes[usize::from(lane)];
        let key = SigningKey::from_scalar(&identity.signing_key().expose_scalar()).expect("a key's scalar");
        LaneIdentity::new(NodeId(lane), key, &self.scene.net.epoch, MemoryAnswers::fresh())
            .expect("the key that the document names")
    }

    /// A lane's honest sum over the closed set.
    pub fn lane_sum(&self, session: &SessionId, lane: u16, sent: &[Sent]) -> LaneBulletinEntry {
        let params = Arc::clone(&self.scene.net.params);
        let mut round = LaneRound::new(params, *session, Arc::new(self.lane(lane)));
        for sent in sent {
            let (_, post) = &self.session(session).posts()[&sent.client()];
            round.receive(post, &sent.items[usize::from(lane)]).expect("an honest item");
        }
        round.close(self.set(session)).expect("an honest set")
    }

    /// Appends a lane's sum.
    pub fn add_lane_sum(&mut self, sum: &LaneBulletinEntry) {
        let body = sum.to_bytes(self.scene.net.params.lane_code().expect("a round with lanes"));
        self.counts(&Leaf::LaneSum(sum.signed().clone()), Some(body));
    }

    /// An aggregator's honest sum over these clients.
    pub fn group_sum(
        &self,
        session: &SessionId,
        aggregator: u16,
        clients: impl IntoIterator<Item = ClientId>,
        sent: &[Sent],
    ) -> GroupSum {
        let net = &self.scene.net;
        let group = CanonicalSet::new(clients).expect("distinct clients");
        let identity = &net.aggregators[usize::from(aggregator)];
        let posts = |client| {
            let sent = sent.iter().find(|sent| sent.client() == client)?;
            let Post::Whole(post) = &sent.post else { return None };
            Some((net.party(client).signing_key.verifying_key(), post.clone()))
        };
        run_aggregator_round(&net.params, *session, identity, &group, posts).expect("honest posts")
    }

    /// Appends an aggregator's sum.
    pub fn add_group_sum(&mut self, sum: &GroupSum) {
        let body = sum.to_bytes(&self.scene.net.params);
        self.counts(&Leaf::GroupSum(sum.signed().clone()), Some(body));
    }

    /// Appends every party's honest sum but those of `absent` servers: groups of half the clients each.
    pub fn summed(&mut self, session: &SessionId, sent: &[Sent], absent: &[u16]) {
        let set = self.set(session).clone();
        let half = set.clients().len().div_ceil(2);
        for (aggregator, group) in (0..).zip(set.clients().chunks(half)) {
            if usize::from(aggregator) < self.scene.net.aggregators.len() {
                let sum = self.group_sum(session, aggregator, group.iter().copied(), sent);
                self.add_group_sum(&sum);
            }
        }
        for lane in (0..).take(self.scene.net.lanes.len()) {
            let sum = self.lane_sum(session, lane, sent);
            self.add_lane_sum(&sum);
        }
        self.servers_summed(session, sent, absent);
    }

    /// Appends the servers' honest sums but those of `absent`.
    pub fn servers_summed(&mut self, session: &SessionId, sent: &[Sent], absent: &[u16]) {
        let set = self.set(session).clone();
        for server in (0..self.scene.net.params.servers()).filter(|server| !absent.contains(server)) {
            let sum = self.server_sum(session, server, &set, sent);
            self.add_server_sum(&sum);
        }
    }

    /// The result that these messages make, signed by the recipient.
    pub fn result(&self, session: &SessionId, messages: &[Vec<u8>]) -> Leaf {
        let (params, closed) = (&self.scene.net.params, self.session(session).closed().expect("closed"));
        let result = RoundResult {
            deployment: *params.deployment(),
            epoch: *params.epoch(),
            session: *session,
            crs: *params.crs_digest(),
            set: closed.set.digest(),
            posts: closed.posts,
            messages: u32::try_from(messages.len()).expect("few messages"),
            root: messages_root(messages.iter().map(Vec::as_slice)),
            undelivered: Undelivered::Nothing,
        };
        Leaf::Result(Signed::sign(result, &self.scene.recipient))
    }

    /// A checkpoint cosigned by these servers' witnesses, that have seen nothing before.
    pub fn cosigned(&self, note: &Note, servers: impl IntoIterator<Item = u16>) -> Note {
        let anchor = self.scene.anchor();
        let log = Log::new(anchor.origin, vec![anchor.log_key]).expect("a log's key");
        let mut cosigned = note.clone();
        for server in servers {
            let request = Request::new(0, Vec::new(), note.clone()).expect("a first request");
            let accepted = check(&log, None, &request).expect("a checkpoint of the log");
            let line = accepted.cosign(&self.scene.cosigner(server), 1).expect("a time");
            cosigned.add(line).expect("room for a few");
        }
        cosigned
    }
}
