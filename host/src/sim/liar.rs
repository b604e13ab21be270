//! A bulletin that lies: up to two histories under one key, each shown to whom it likes.

use super::bulletin::{WINDOWS, beginning};
use super::plan::{Fork, Lies, Twist};
use super::world::{Core, Msg, Node, Out, head};
use crate::round::conductor::{Conductor, Step};
use panetiere::bulletin::{CanonicalSet, Envelope};
use panetiere::ids::ClientId;
use panetiere::wire::Encode as _;
use panetiere_api::leaf::{AbortReason, Leaf, PostsEnd, Revocation, RoundAbort, RoundClose, RoundId, Signed};
use panetiere_api::round::{NoBlobs, Phase, Record, Session, Void};
use panetiere_api::testing::MemoryLog;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tlog::checkpoint::TreeHead;
use tlog::key::{Algorithm, KeyRing};
use tlog::merkle::{consistency_proof, leaf_hash};
use tlog::note::{Note, Signature};
use tlog::witness::Request;

#[derive(Clone)]
struct History {
    log: MemoryLog,
    hashes: Vec<[u8; 32]>,
    record: Record,
    conductor: Conductor,
    queue: Vec<Arc<Vec<u8>>>,
    notes: BTreeMap<u64, Note>,
    known: BTreeMap<u16, u64>,
    cosigned: Option<Arc<Note>>,
}

impl History {
    fn new(core: &Core) -> Self {
        Self {
            log: MemoryLog::default(),
            hashes: Vec::new(),
            record: core.record(),
            conductor: Conductor::new(WINDOWS),
            queue: Vec::new(),
            notes: BTreeMap::new(),
            known: BTreeMap::new(),
            cosigned: None,
        }
    }

    /// Appends whatever it is.
    fn append(&mut self, entry: &[u8]) {
        let _ = self.record.apply(entry, &NoBlobs).expect("no blob is needed");
        self.write(entry);
    }

    fn write(&mut self, entry: &[u8]) {
        self.hashes.push(leaf_hash(entry));
        self.log.append_bytes(entry.to_vec());
    }

    /// The checkpoint of all of it.
    fn note(&mut self, core: &mut Core) -> (TreeHead, Note) {
        let head = self.log.head();
        let note =
            self.notes.entry(head.size).or_insert_with(|| self.log.checkpoint(&core.scene.log_key())).clone();
        core.ledger.signed(head, &self.hashes);
        (head, note)
    }

    /// The log as it was: what is left after a backup came back.
    fn set_back(&mut self, core: &Core, size: usize) {
        let entries: Vec<_> = self.log.entries[..size].to_vec();
        let mut past = Self::new(core);
        entries.iter().for_each(|entry| past.append(entry));
        past.known = std::mem::take(&mut self.known);
        *self = past;
    }
}

pub(super) struct Liar {
    lies: Lies,
    histories: Vec<History>,
    /// Which history a reader gets.
    shown: BTreeMap<(Node, usize), usize>,
    last: BTreeMap<(Node, usize), u64>,
    withheld: BTreeMap<(usize, Vec<u8>), bool>,
    spoilt: BTreeMap<(u16, ClientId), u64>,
    pool: Vec<Arc<Vec<u8>>>,
    ticks: u64,
}

impl Liar {
    pub(super) fn new(core: &Core) -> Self {
        let lies = core.plan.lies.clone().expect("a lying bulletin");
        let mut first = History::new(core);
        beginning(core).iter().for_each(|entry| first.append(entry));
        Self {
            lies,
            histories: vec![first],
            shown: BTreeMap::new(),
            last: BTreeMap::new(),
            withheld: BTreeMap::new(),
            spoilt: BTreeMap::new(),
            pool: Vec::new(),
            ticks: 0,
        }
    }

    pub(super) fn records(&self) -> impl Iterator<Item = &Record> {
        self.histories.iter().map(|history| &history.record)
    }

    /// The history that a reader is shown: at two addresses two.
    fn shown(&mut self, core: &mut Core, node: Node, slot: usize) -> usize {
        if self.histories.len() == 1 {
            return 0;
        }
        if core.dice.chance(self.lies.confuse) {
            return core.dice.index(2);
        }
        let first = match self.shown.get(&(node, 0)) {
            Some(first) => *first,
            None => {
                let first = match node {
                    Node::Server(server) if self.lies.cunning => {
                        let honest = (0..server).filter(|other| !core.plan.lies_server(*other));
                        honest.count() % 2
                    }
                    _ => core.dice.index(2),
                };
                self.shown.insert((node, 0), first);
                first
            }
        };
        (first + slot) % 2
    }

    pub(super) fn receive(&mut self, core: &mut Core, from: Node, msg: Msg) -> Out {
        match msg {
            Msg::Read { slot, size } => {
                let last = self.last.insert((from, slot), size).unwrap_or(0);
                if size == 0 && last > 0 && (self.lies.cunning || core.dice.chance(500)) {
                    // Who starts again may be told another story.
                    let other = 1 - self.shown.get(&(from, 0)).copied().unwrap_or(0);
                    self.shown.insert((from, 0), other);
                }
                let history = self.shown(core, from, slot);
                let history = &mut self.histories[history];
                let (_, mut note) = history.note(core);
                if core.dice.chance(self.lies.confuse) {
                    let old: Vec<&Note> = history.notes.values().collect();
                    note = old[core.dice.index(old.len())].clone();
                }
                let upto = usize::try_from(head(&note).size).unwrap();
                let read = usize::try_from(size).unwrap().min(upto);
                let view = Msg::View {
                    slot,
                    from: u64::try_from(read).unwrap(),
                    entries: Arc::new(history.log.entries[read..upto].to_vec()),
                    note: Arc::new(note),
                    cosigned: history.cosigned.clone(),
                };
                vec![(from, view)]
            }
            Msg::Post(upload) => {
                let party = core.ledger.posted[&(upload.session, upload.statement)].party;
                self.hand_in(core, &upload.leaf, Some(party));
                Vec::new()
            }
            Msg::Leaf(leaf) => {
                self.hand_in(core, &leaf, None);
                Vec::new()
            }
            Msg::Fetch { round, client } => {
                let Node::Server(server) = from else { return Vec::new() };
                let shown = self.shown(core, from, 0);
                let envelope = self.envelope(core, shown, server, round, client);
                envelope.map_or_else(Vec::new, |msg| vec![(from, msg)])
            }
            Msg::Cosigned { size, line } => {
                let Node::Server(server) = from else { return Vec::new() };
                self.cosigned(core, server, size, &line);
                Vec::new()
            }
            Msg::CosignConflict { size } => {
                let Node::Server(server) = from else { return Vec::new() };
                for history in &mut self.histories {
                    history.known.insert(server, size);
                }
                Vec::new()
            }
            _ => Vec::new(),
        }
    }

    fn hand_in(&mut self, core: &mut Core, leaf: &[u8], party: Option<u32>) {
        let shared = Arc::new(leaf.to_vec());
        if !self.pool.contains(&shared) {
            self.pool.push(Arc::clone(&shared));
        }
        for (place, history) in self.histories.iter_mut().enumerate() {
            let twist = place == 1 && party.is_some_and(|party| self.lies.twist == Twist::Without(party));
            let chance = self.lies.withhold;
            let coin =
                self.withheld.entry((place, leaf.to_vec())).or_insert_with(|| core.dice.chance(chance));
            if !twist && !*coin && !history.queue.contains(&shared) {
                history.queue.push(Arc::clone(&shared));
            }
        }
    }

    fn envelope(
        &mut self,
        core: &mut Core,
        shown: usize,
        server: u16,
        round: RoundId,
        client: ClientId,
    ) -> Option<Msg> {
        let session = self.histories[shown].record.round(round)?;
        let (_, post) = session.posts().get(&client)?;
        let (_, upload) = &core.uploads[&(*session.id(), post.statement().digest())];
        let mut envelope: Envelope = upload.envelopes[usize::from(server)].clone();
        let chance = self.lies.envelopes;
        let (spoils, how) = (core.dice.chance(chance), core.dice.below(3));
        match *self.spoilt.entry((server, client)).or_insert(if spoils { how + 1 } else { 0 }) {
            0 => {}
            1 => return None,
            2 => envelope.sealed[usize::from(server)] ^= 1,
            // Only at first.
            _ if core.dice.chance(500) => envelope.path.reverse(),
            _ => {}
        }
        Some(Msg::Envelope { round, envelope: Arc::new(envelope) })
    }

    fn cosigned(&mut self, core: &Core, server: u16, size: u64, line: &Signature) {
        let ring = KeyRing::new(Algorithm::CosignatureV1, vec![core.cosigner(server).clone()]);
        let ring = ring.unwrap();
        for history in &mut self.histories {
            let Some(note) = history.notes.get_mut(&size) else { continue };
            if note.signatures().iter().any(|old| old.name() == line.name()) {
                continue;
            }
            let mut with = note.clone();
            with.add(line.clone()).unwrap();
            if with.verify(&ring).is_ok_and(|found| !found.is_empty()) {
                *note = with;
                history.known.insert(server, size);
                let newer = |old: &Arc<Note>| head(old).size < size;
                if core.quorum().open(note).is_ok() && history.cosigned.as_ref().is_none_or(newer) {
                    history.cosigned = Some(Arc::new(note.clone()));
                }
            }
        }
    }

    pub(super) fn timer(&mut self, core: &mut Core) -> Out {
        for place in 0..self.histories.len() {
            self.work(core, place);
        }
        let mut out = Vec::new();
        self.ticks += 1;
        let asking = if self.ticks.is_multiple_of(2) { self.histories.len() } else { 0 };
        for place in 0..asking {
            let (head, note) = self.histories[place].note(core);
            for server in 0..core.plan.servers {
                let lies = core.plan.lies_server(server);
                let shown = self.shown(core, Node::Server(server), 0) == place;
                if !lies && !shown {
                    continue;
                }
                let history = &self.histories[place];
                let name = core.cosigner(server).name().clone();
                if note.signatures().iter().any(|line| *line.name() == name) {
                    continue;
                }
                let known = history.known.get(&server).copied().unwrap_or(0).min(head.size);
                let proof = consistency_proof(&history.hashes, known).unwrap_or_default();
                let request = Request::new(known, proof, note.clone()).unwrap();
                out.push((Node::Server(server), Msg::AskCosign(Arc::new(request))));
            }
        }
        out
    }

    fn work(&mut self, core: &mut Core, place: usize) {
        if let Fork::Posts(count, round) = self.lies.fork
            && self.histories.len() == 1
            && let Some(session) = self.histories[0].record.round(RoundId(round))
            && *session.phase() == Phase::Collecting
            && session.posts().len() >= count
        {
            self.fork(core);
        }
        let mut queue = std::mem::take(&mut self.histories[place].queue);
        core.dice.shuffle(&mut queue);
        for entry in queue {
            let history = &mut self.histories[place];
            if core.dice.chance(300) {
                history.queue.push(entry);
                continue;
            }
            match history.record.propose(&entry, &NoBlobs).unwrap() {
                Ok(_) => history.write(&entry),
                // It may count when this history has come as far as the other.
                Err(Void::Phase { .. }) if !matches!(Leaf::parse(&entry), Ok(Leaf::Post(_))) => {
                    history.queue.push(entry);
                }
                Err(_) if core.dice.chance(100) => history.append(&entry),
                Err(_) => {}
            }
        }
        if self.lies.meddle > 0 && core.dice.chance(self.lies.meddle) {
            self.meddle(core, place);
        }
        self.conduct(core, place);
        let len = self.histories[place].log.entries.len();
        if core.dice.chance(self.lies.set_back) && len > 12 {
            let size = len - core.dice.index(8);
            core.say("bulletin", &format!("history {place} is set back from {len} to {size}"));
            self.histories[place].set_back(core, size);
        }
    }

    fn conduct(&mut self, core: &mut Core, place: usize) {
        let now = core.now * 1000 / self.lies.pace[place];
        loop {
            let history = &mut self.histories[place];
            let Step::Append(leaf) = history.conductor.step(now, &history.record) else { return };
            let round = match &*leaf {
                Leaf::RoundOpen(open) => Some(open.round.0),
                Leaf::PostsEnd(PostsEnd { session }) | Leaf::RoundClose(RoundClose { session, .. }) => {
                    history.record.session(session).map(|session| session.round().0)
                }
                _ => None,
            };
            if self.histories.len() == 1
                && matches!(self.lies.fork, Fork::Before(kind, of) if kind == leaf.kind() && Some(of) == round)
            {
                self.fork(core);
            }
            core.say("bulletin", &format!("history {place} gets {}", leaf.kind()));
            self.histories[place].append(&leaf.to_bytes());
        }
    }

    fn fork(&mut self, core: &mut Core) {
        core.say("bulletin", "forks");
        core.ledger.count("forks");
        let mut second = self.histories[0].clone();
        match self.lies.twist {
            Twist::Junk => second.append(b"nothing"),
            Twist::Revoke(client) => {
                let revocation = Revocation {
                    deployment: core.scene.deployment(),
                    epoch: core.scene.net.epoch.digest(),
                    client: ClientId(client),
                };
                second.append(&Leaf::Revocation(Signed::sign(revocation, &core.scene.operator)).to_bytes());
            }
            Twist::Nothing | Twist::Without(_) => {}
        }
        self.histories.push(second);
    }

    /// Writes a leaf where it does not belong.
    fn meddle(&mut self, core: &mut Core, place: usize) {
        let history = &mut self.histories[place];
        let sessions: Vec<&Session> = history.record.rounds().collect();
        let Some(session) = sessions.last() else { return };
        let (id, round) = (*session.id(), session.round());
        let leaf = match core.dice.below(9) {
            0 => Leaf::RoundOpen(core.scene.open(round.0)).to_bytes(),
            1 => Leaf::RoundOpen(core.scene.open(round.0 + 1)).to_bytes(),
            2 => Leaf::PostsEnd(PostsEnd { session: id }).to_bytes(),
            3 => Leaf::RoundAbort(RoundAbort { session: id, reason: AbortReason::Operator }).to_bytes(),
            4 | 5 => {
                let epoch = history.record.epoch_of(session.epoch()).unwrap();
                let Ok(mut close) = session.closing(epoch) else { return };
                if core.dice.chance(500) {
                    close.clients += 1;
                    close.set = CanonicalSet::new([ClientId(0)]).unwrap().digest();
                }
                Leaf::RoundClose(close).to_bytes()
            }
            6 => forged(core, session),
            7 => vec![0xFF; 9],
            _ => {
                let Some(entry) = (!self.pool.is_empty()).then(|| core.dice.index(self.pool.len())) else {
                    return;
                };
                self.pool[entry].to_vec()
            }
        };
        core.say("bulletin", &format!("meddles with history {place}"));
        core.ledger.count("meddled");
        history.append(&leaf);
    }
}

/// A leaf in an honest server's name that it has not signed.
fn forged(core: &Core, session: &Session) -> Vec<u8> {
    let honest = (0..core.plan.servers).find(|server| !core.plan.lies_server(*server)).unwrap();
    let answers = panetiere::protocol::MemoryAnswers::fresh();
    let signer = super::server::identity(core, honest, answers);
    let accused: BTreeSet<ClientId> = session.posts().keys().copied().collect();
    let statement = |client: &ClientId| (*client, session.posts()[client].1.statement().digest());
    let complaints = accused.iter().map(statement).collect();
    let mut bytes = signer.sign_checked(session.params(), session.id(), complaints).unwrap().to_bytes();
    // Not its signature any more: the last byte is part of it.
    *bytes.last_mut().unwrap() ^= 1;
    bytes
}
