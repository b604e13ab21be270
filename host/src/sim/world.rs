//! Virtual time, a network, and who is on it.

use super::bulletin::Bulletin;
use super::client::Client;
use super::ledger::{Ledger, Posted, Rule};
use super::liars;
use super::plan::{Dice, Plan, Without};
use super::recipient::Recipient;
use super::server::ServerNode;
use crate::round::conductor::Millis;
use crate::round::library::Item;
use crate::round::recover::{Bodies, Body};
use panetiere::bulletin::{Envelope, ServerBulletinEntry, SignedSumClaim, VerifiedPost};
use panetiere::fault::Attribution;
use panetiere::ids::{ClientId, ServerId, SessionId, StatementDigest};
use panetiere::wire::DecodeWith as _;
use panetiere_api::leaf::{RoundId, Witnesses};
use panetiere_api::round::{Missing, Phase, Record, Session};
use panetiere_api::testing::Scene;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Write as _;
use std::io;
use std::sync::Arc;
use tlog::checkpoint::{Checkpoint, Log, TreeHead};
use tlog::key::VerifierKey;
use tlog::note::{Note, Signature};
use tlog::quorum::Quorum;
use tlog::witness::Request;

/// Lines of the trace that are kept.
const TRACE: usize = 160;

/// Seconds since the epoch at which virtual time begins.
pub(super) const BEGIN: u64 = 1_800_000_000;

/// The witnesses of the epoch: every server; where the quorum is left out, one liar alone.
pub(super) fn witnesses(scene: &Scene, plan: &Plan) -> Witnesses {
    let mut witnesses = scene.plan().witnesses;
    if plan.without.quorum {
        let liar = *plan.liars.first().unwrap();
        witnesses.keys = vec![scene.cosigner(liar).verifier().clone()];
        witnesses.faulty = 0;
    }
    witnesses
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Node {
    Bulletin,
    Server(u16),
    Client(u32),
    Recipient,
}

/// What a client hands in: the statement as a leaf, with what lies beside it.
#[derive(Debug)]
pub(super) struct Upload {
    pub(super) session: SessionId,
    pub(super) statement: StatementDigest,
    pub(super) leaf: Vec<u8>,
    pub(super) body: Vec<u8>,
    pub(super) envelopes: Vec<Envelope>,
}

/// What goes over the network.
#[derive(Clone, Debug)]
pub(super) enum Msg {
    /// Asks for the log from this size on. A reader may follow several logs, each in a slot of its own.
    Read {
        slot: usize,
        size: u64,
    },
    /// The log from a size on, its checkpoint, and the last checkpoint that a quorum has cosigned.
    View {
        slot: usize,
        from: u64,
        entries: Arc<Vec<Vec<u8>>>,
        note: Arc<Note>,
        cosigned: Option<Arc<Note>>,
    },
    Post(Arc<Upload>),
    Leaf(Arc<Vec<u8>>),
    Fetch {
        round: RoundId,
        client: ClientId,
    },
    Envelope {
        round: RoundId,
        envelope: Arc<Envelope>,
    },
    AskCosign(Arc<Request>),
    Cosigned {
        size: u64,
        line: Signature,
    },
    CosignConflict {
        size: u64,
    },
}

impl Msg {
    const fn name(&self) -> &'static str {
        match self {
            Self::Read { .. } => "read",
            Self::View { .. } => "view",
            Self::Post(_) => "post",
            Self::Leaf(_) => "leaf",
            Self::Fetch { .. } => "fetch",
            Self::Envelope { .. } => "envelope",
            Self::AskCosign(_) => "ask to cosign",
            Self::Cosigned { .. } => "cosigned",
            Self::CosignConflict { .. } => "cosign conflict",
        }
    }
}

pub(super) type Out = Vec<(Node, Msg)>;

enum Event {
    Deliver { from: Node, to: Node, msg: Msg },
    Timer(Node),
    Start(Node),
    Fault,
    Mend(Node),
    Liars,
}

/// What everybody in the world has at hand.
pub(super) struct Core {
    pub(super) plan: Plan,
    pub(super) scene: Scene,
    pub(super) dice: Dice,
    pub(super) now: Millis,
    pub(super) ledger: Ledger,
    /// What liars have got to see.
    pub(super) uploads: BTreeMap<(SessionId, StatementDigest), (VerifiedPost, Arc<Upload>)>,
    pub(super) sums: BTreeMap<(SessionId, ServerId), Vec<Arc<Vec<u8>>>>,
    trace: VecDeque<String>,
    log: Log,
    quorum: Quorum,
    /// The cosigners of all servers.
    cosigners: Vec<VerifierKey>,
}

/// Size and root in a checkpoint, whoever has signed it.
pub(super) fn head(note: &Note) -> TreeHead {
    note.text().parse::<Checkpoint>().unwrap().head()
}

impl Core {
    pub(super) fn say(&mut self, who: &str, what: &str) {
        if self.trace.len() == TRACE {
            self.trace.pop_front();
        }
        self.trace.push_back(format!("{:>6} {who}: {what}", self.now));
    }

    /// An empty record, with the rules that this world has.
    pub(super) fn record(&self) -> Record {
        let Without { first_post, posts_end, .. } = self.plan.without;
        self.scene.record().without(Missing { first_post, posts_end })
    }

    pub(super) const fn log(&self) -> &Log {
        &self.log
    }

    pub(super) const fn quorum(&self) -> &Quorum {
        &self.quorum
    }

    pub(super) fn cosigner(&self, server: u16) -> &VerifierKey {
        &self.cosigners[usize::from(server)]
    }

    pub(super) fn payload(&self, session: &SessionId, party: u32, variant: u64) -> Vec<u8> {
        let mut hash = blake3::Hasher::new();
        hash.update(b"payload").update(session.to_string().as_bytes());
        hash.update(&self.plan.seed.to_le_bytes())
            .update(&party.to_le_bytes())
            .update(&variant.to_le_bytes());
        hash.finalize().as_bytes()[..16].to_vec()
    }

    /// The party that a client's id means in a record.
    pub(super) fn party(&self, record: &Record, client: ClientId) -> Option<u32> {
        let key = record.epoch()?.member(client)?.key.to_sec1();
        self.ledger.parties.get(&key).copied()
    }

    /// Takes note of who was named in a reader's record.
    pub(super) fn named(&mut self, record: &Record, who: Attribution, why: &str) {
        let party = match who {
            Attribution::Client(client) => self.party(record, client),
            _ => None,
        };
        self.ledger.named(who, party, why);
    }

    pub(super) fn registered(&mut self, upload: &Arc<Upload>, post: VerifiedPost, posted: Posted) {
        let key = (upload.session, upload.statement);
        self.ledger.posted.insert(key, posted);
        self.uploads.insert(key, (post, Arc::clone(upload)));
    }
}

/// The bodies beside the log, by the digests that the log names: nobody can put others in their place, but they may be
/// kept back.
pub(super) struct Beside<'a> {
    pub(super) core: &'a Core,
    pub(super) session: &'a Session,
}

impl Bodies for Beside<'_> {
    fn item(&self, _round: RoundId, item: Item) -> io::Result<Option<Vec<u8>>> {
        let session = *self.session.id();
        Ok(match item {
            Item::Body(Body::Post(client)) => self.session.posts().get(&client).and_then(|(_, post)| {
                let (_, upload) = self.core.uploads.get(&(session, post.statement().digest()))?;
                Some(upload.body.clone())
            }),
            Item::Body(Body::ServerSum(server)) => {
                let leaf: &SignedSumClaim = &self.session.server_sums()[&server];
                let same = |body: &&Arc<Vec<u8>>| {
                    let entry = ServerBulletinEntry::from_bytes_with(self.session.params(), body);
                    entry.is_ok_and(|entry| entry.signed().says_the_same(leaf))
                };
                let bodies = self.core.sums.get(&(session, server));
                bodies.and_then(|bodies| bodies.iter().find(same)).map(|body| body.to_vec())
            }
            _ => None,
        })
    }
}

/// What became of a world.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) violation: Option<super::ledger::Violation>,
    pub(super) trace: String,
    pub(super) counts: BTreeMap<&'static str, u64>,
    pub(super) events: u64,
}

pub(super) struct World {
    core: Core,
    queue: BTreeMap<(Millis, u64), Event>,
    events: u64,
    bulletin: Bulletin,
    servers: Vec<ServerNode>,
    clients: Vec<Client>,
    recipient: Recipient,
    cut_off: BTreeSet<Node>,
}

impl World {
    pub(super) fn new(plan: Plan) -> Self {
        let (threshold, faulty) = (plan.threshold, plan.faulty);
        let scene = Scene::new(plan.seed, plan.clients, 16, |shape| {
            shape.servers(plan.servers).threshold(threshold).faulty(faulty)
        });
        let mut ledger = Ledger::new(&plan);
        for party in &scene.net.clients {
            ledger.parties.insert(party.signing_key.verifying_key().to_sec1(), party.id.0);
        }
        let anchor = scene.anchor();
        let log = Log::new(anchor.origin, vec![anchor.log_key]).unwrap();
        let mut core = Core {
            quorum: witnesses(&scene, &plan).quorum(log.clone()).unwrap(),
            log,
            cosigners: (0..plan.servers).map(|server| scene.cosigner(server).verifier().clone()).collect(),
            dice: Dice::new(plan.seed),
            now: 0,
            ledger,
            uploads: BTreeMap::new(),
            sums: BTreeMap::new(),
            trace: VecDeque::new(),
            scene,
            plan,
        };
        let bulletin = Bulletin::new(&mut core);
        let servers: Vec<_> = (0..core.plan.servers)
            .filter(|server| !core.plan.lies_server(*server))
            .map(|server| ServerNode::new(server, &core))
            .collect();
        let clients = (0..core.plan.clients).map(|party| Client::new(party, &core)).collect();
        let recipient = Recipient::new(&core);
        let (queue, cut_off) = (BTreeMap::new(), BTreeSet::new());
        let mut world = Self { core, queue, events: 0, bulletin, servers, clients, recipient, cut_off };
        let nodes: Vec<Node> = world.nodes();
        for node in nodes {
            let after = world.core.dice.below(100);
            world.after(after, Event::Timer(node));
        }
        world.after(200, Event::Liars);
        for _ in 0..world.core.plan.faults {
            let after = world.core.dice.below(world.core.plan.heals);
            world.after(after, Event::Fault);
        }
        world
    }

    fn nodes(&self) -> Vec<Node> {
        let servers = self.servers.iter().map(|server| Node::Server(server.id));
        let clients = (0..self.core.plan.clients).map(Node::Client);
        servers.chain(clients).chain([Node::Bulletin, Node::Recipient]).collect()
    }

    fn after(&mut self, delay: Millis, event: Event) {
        self.events += 1;
        self.queue.insert((self.core.now + delay, self.events), event);
    }

    fn healed(&self) -> bool {
        self.core.now >= self.core.plan.heals
    }

    fn send(&mut self, from: Node, out: Out) {
        for (to, msg) in out {
            let (healed, plan) = (self.healed(), &self.core.plan);
            let (loss, doubled, latency) = (plan.loss, plan.doubled, plan.latency);
            let cut = self.cut_off.contains(&from) || self.cut_off.contains(&to);
            if !healed && (cut || self.core.dice.chance(loss)) {
                continue;
            }
            let copies = if self.core.dice.chance(doubled) { 2 } else { 1 };
            for _ in 0..copies {
                let delay = self.core.dice.between(1, latency);
                self.after(delay, Event::Deliver { from, to, msg: msg.clone() });
            }
        }
    }

    /// Runs to the end, or to the first thing that must not be.
    pub(super) fn run(mut self) -> Outcome {
        while let Some(((at, _), event)) = self.queue.pop_first() {
            if at > self.core.plan.ends || self.core.ledger.violation.is_some() {
                break;
            }
            self.core.now = at;
            self.step(event);
            if self.healed() && self.bulletin.finished(&self.core) {
                break;
            }
        }
        if self.core.ledger.violation.is_none() {
            self.promised();
        }
        let mut trace = format!("{:?}\n", self.core.plan);
        for line in &self.core.trace {
            writeln!(trace, "{line}").unwrap();
        }
        let Self { core, events, .. } = self;
        Outcome { violation: core.ledger.violation, trace, counts: core.ledger.counts, events }
    }

    fn step(&mut self, event: Event) {
        match event {
            Event::Deliver { from, to, msg } => {
                if !matches!(msg, Msg::Read { .. } | Msg::View { .. } | Msg::Fetch { .. }) {
                    self.core.say(&format!("{from:?} -> {to:?}"), msg.name());
                }
                let core = &mut self.core;
                let out = match to {
                    Node::Bulletin => self.bulletin.receive(core, from, msg),
                    Node::Server(id) if core.plan.lies_server(id) => liars::receive(core, id, msg),
                    Node::Server(id) => server(&mut self.servers, id).receive(core, msg),
                    Node::Client(id) => self.clients[usize::try_from(id).unwrap()].receive(core, msg),
                    Node::Recipient => self.recipient.receive(core, msg),
                };
                self.send(to, out);
            }
            Event::Timer(node) => {
                let core = &mut self.core;
                let (out, again) = match node {
                    Node::Bulletin => (self.bulletin.timer(core), core.dice.between(60, 140)),
                    Node::Server(id) => {
                        (server(&mut self.servers, id).timer(core), core.dice.between(100, 250))
                    }
                    Node::Client(id) => {
                        let client = &mut self.clients[usize::try_from(id).unwrap()];
                        (client.timer(core), core.dice.between(150, 300))
                    }
                    Node::Recipient => (self.recipient.timer(core), core.dice.between(200, 400)),
                };
                self.send(node, out);
                self.after(again, Event::Timer(node));
                self.restart_soon(node);
            }
            Event::Start(Node::Server(id)) => server(&mut self.servers, id).start(&mut self.core),
            Event::Start(_) => self.bulletin.start(&mut self.core),
            Event::Fault if self.healed() => {}
            Event::Fault => self.fault(),
            Event::Mend(node) => drop(self.cut_off.remove(&node)),
            Event::Liars => {
                let out = self.bulletin.with_liars(&mut self.core);
                for (from, msg) in out {
                    self.send(from, vec![(Node::Bulletin, msg)]);
                }
                let again = self.core.dice.between(200, 500);
                self.after(again, Event::Liars);
            }
        }
    }

    /// Brings up again what has stopped by itself.
    fn restart_soon(&mut self, node: Node) {
        let down = match node {
            Node::Server(id) => server(&mut self.servers, id).ask_start(),
            Node::Bulletin => self.bulletin.ask_start(),
            _ => false,
        };
        if down {
            let after = self.core.dice.between(50, 1500);
            self.after(after, Event::Start(node));
        }
    }

    fn fault(&mut self) {
        let nodes = self.nodes();
        let bound = self.core.plan.without.bound;
        let servers: Vec<Node> =
            nodes.iter().copied().filter(|node| matches!(node, Node::Server(_))).collect();
        // Where the guard is tried, servers have to start again and again.
        let node = self.core.dice.pick(if bound { &servers } else { &nodes });
        let kind = if bound { 9 } else { self.core.dice.below(10) };
        match (node, kind) {
            (_, 0..3) => {
                self.core.say(&format!("{node:?}"), "is cut off");
                self.cut_off.insert(node);
                let after = self.core.dice.between(100, 3000);
                self.after(after, Event::Mend(node));
            }
            (Node::Server(id), _) => server(&mut self.servers, id).fail(&mut self.core),
            (Node::Bulletin, _) => self.bulletin.fail(&mut self.core),
            _ => {}
        }
    }

    /// Whether what could be promised has come about: with an honest bulletin, every round ends, and one that is closed has
    /// a result if enough servers can sum.
    fn promised(&mut self) {
        let Some(record) = self.bulletin.honest_record() else { return };
        let plan = &self.core.plan;
        let witnesses = self.servers.iter().filter(|server| server.may_cosign).count();
        let Without { quorum, guard, cap, bound, first_post: _, posts_end: _ } = plan.without;
        if quorum || guard || cap || bound {
            return;
        }
        if record.rounds().count() < usize::try_from(plan.rounds).unwrap() {
            let text = format!("{} rounds of {} were opened", record.rounds().count(), plan.rounds);
            self.core.ledger.broken(Rule::Liveness, text);
            return;
        }
        for round in record.rounds() {
            let lies = &plan.client_lies;
            let parties = |client| self.core.party(record, client);
            let spoilt = |server: u16, client| {
                parties(client).and_then(|party| lies.get(&party)).is_some_and(|lie| lie.spoils(server))
            };
            // Where nothing fails and nothing is lost, a server is in time for every complaint that the log leaves room for.
            let late = plan.faults > 0 || plan.loss > 0 || !plan.liars.is_empty();
            let can_sum =
                |server: &&ServerNode| server.can_sum(round, |client| late && spoilt(server.id, client));
            let able = self.servers.iter().filter(can_sum).count();
            let jammed = round.closed().is_some_and(|closed| {
                closed.set.clients().iter().any(|client| {
                    let post = round.posts()[client].1.statement().digest();
                    self.core.ledger.posted[&(*round.id(), post)].jams
                })
            });
            let text = match round.phase() {
                Phase::Collecting | Phase::Checking => {
                    format!("round {} is under way for ever", round.round())
                }
                Phase::Aborted(reason) => {
                    self.core.ledger.count("aborted");
                    self.core.trace.push_back(format!("round {} ended: {reason}", round.round()));
                    continue;
                }
                Phase::Closed(_) if round.result().is_some() => {
                    self.core.ledger.count("results");
                    continue;
                }
                Phase::Closed(_) => {
                    let enough = able >= usize::from(plan.threshold) && witnesses >= plan.quorum();
                    if !enough || jammed {
                        // The only excuses that there are.
                        let excuse = if jammed {
                            "closed, jammed"
                        } else if able < usize::from(plan.threshold) {
                            "closed, too few can sum"
                        } else {
                            "closed, too few cosign"
                        };
                        let text =
                            format!("round {}: {excuse}: {able} sum, {witnesses} cosign", round.round());
                        self.core.ledger.count(excuse);
                        self.core.trace.push_back(text);
                        continue;
                    }
                    format!(
                        "round {} has no result, {able} servers could sum, {witnesses} cosign",
                        round.round()
                    )
                }
            };
            self.core.ledger.broken(Rule::Liveness, text);
        }
    }
}

fn server(servers: &mut [ServerNode], id: u16) -> &mut ServerNode {
    servers.iter_mut().find(|server| server.id == id).expect("an honest server")
}
