//! The bulletin: the honest one over the real store, or one that lies.

use super::liar::Liar;
use super::liars;
use super::world::{BEGIN, Core, Msg, Node, Out, Upload};
use crate::round::conductor::{Conductor, Step, Windows};
use crate::store::disk::Disk;
use crate::store::disk::memory::{Crash, Failure, MemoryDisk};
use crate::store::{Change, Options, Sequencer, Store, Submission, What};
use panetiere::bulletin::Envelope;
use panetiere::ids::ClientId;
use panetiere::wire::{DecodeWith as _, Encode as _};
use panetiere_api::leaf::RoundId;
use panetiere_api::round::{NoBlobs, Phase, Record};
use std::collections::BTreeMap;
use std::sync::Arc;
use tlog::merkle::leaf_hash;
use tlog::note::{Note, Signature};
use tlog::witness::Request;

pub(super) const WINDOWS: Windows = Windows { collect_ms: 1200, check_ms: 1500, answer_ms: 1200 };

const ENVELOPES: &str = "envelopes";

pub(super) enum Bulletin {
    Honest(Box<Honest>),
    Liar(Box<Liar>),
}

impl Bulletin {
    pub(super) fn new(core: &mut Core) -> Self {
        if core.plan.lies.is_some() {
            return Self::Liar(Box::new(Liar::new(core)));
        }
        let mut honest = Honest { disk: MemoryDisk::new(), up: None, starting: false };
        honest.start(core);
        Self::Honest(Box::new(honest))
    }

    pub(super) fn receive(&mut self, core: &mut Core, from: Node, msg: Msg) -> Out {
        match self {
            Self::Honest(honest) => honest.receive(core, from, msg),
            Self::Liar(liar) => liar.receive(core, from, msg),
        }
    }

    pub(super) fn timer(&mut self, core: &mut Core) -> Out {
        match self {
            Self::Honest(honest) => honest.timer(core),
            Self::Liar(liar) => liar.timer(core),
        }
    }

    pub(super) fn start(&mut self, core: &mut Core) {
        if let Self::Honest(honest) = self {
            honest.start(core);
        }
    }

    pub(super) const fn ask_start(&mut self) -> bool {
        match self {
            Self::Honest(honest) => {
                let ask = honest.up.is_none() && !honest.starting;
                honest.starting |= ask;
                ask
            }
            Self::Liar(_) => false,
        }
    }

    pub(super) fn fail(&mut self, core: &mut Core) {
        if let Self::Honest(honest) = self {
            honest.fail(core);
        }
    }

    /// What the lying servers say now, of the histories there are.
    pub(super) fn with_liars(&self, core: &mut Core) -> Vec<(Node, Msg)> {
        match self {
            Self::Honest(honest) => honest.up.iter().flat_map(|up| liars::speak(core, &up.record)).collect(),
            Self::Liar(liar) => liar.records().flat_map(|record| liars::speak(core, record)).collect(),
        }
    }

    pub(super) fn honest_record(&self) -> Option<&Record> {
        match self {
            Self::Honest(honest) => {
                Some(&honest.up.as_ref().expect("it is up again, everything has healed").record)
            }
            Self::Liar(_) => None,
        }
    }

    /// Whether nothing more will happen.
    pub(super) fn finished(&self, core: &Core) -> bool {
        let done = |record: &Record| {
            record.rounds().count() >= usize::try_from(core.plan.rounds).unwrap()
                && record
                    .rounds()
                    .all(|round| matches!(round.phase(), Phase::Aborted(_)) || round.result().is_some())
        };
        match self {
            Self::Honest(honest) => honest.up.as_ref().is_some_and(|up| done(&up.record)),
            Self::Liar(liar) => liar.records().all(done),
        }
    }
}

/// What the operator and the clients have the log begin with.
pub(super) fn beginning(core: &Core) -> Vec<Vec<u8>> {
    let mut plan = core.scene.plan();
    plan.rounds = core.plan.rounds;
    plan.witnesses = core.witnesses();
    let admissions = core.scene.net.ids().map(|client| core.scene.admission(client));
    [core.scene.epoch_leaf(plan)].into_iter().chain(admissions).map(|leaf| leaf.to_bytes()).collect()
}

pub(super) struct Honest {
    disk: MemoryDisk,
    up: Option<Box<Up>>,
    starting: bool,
}

struct Up {
    store: Store,
    sequencer: Sequencer,
    record: Record,
    conductor: Conductor,
    entries: Vec<Vec<u8>>,
    pending: Vec<Submission>,
    /// Sizes that the witnesses are at, as far as is known.
    known: BTreeMap<u16, u64>,
    lines: BTreeMap<u64, Vec<Signature>>,
    cosigned: Option<Arc<Note>>,
}

fn place(session: &str, client: ClientId, server: u16) -> Vec<u8> {
    format!("{session}/{client}/{server}").into_bytes()
}

impl Honest {
    fn start(&mut self, core: &mut Core) {
        self.starting = false;
        if self.up.is_some() {
            return;
        }
        let origin = core.scene.anchor().origin;
        let disk: Arc<dyn Disk> = Arc::new(self.disk.clone());
        let opened = Store::open(disk, Options::new(origin, core.scene.log_key()), BEGIN + core.now / 1000);
        let (store, sequencer, _) = match opened {
            Ok(opened) => opened,
            Err(error) => {
                core.say("bulletin", &format!("does not start: {error}"));
                self.crash(core);
                return;
            }
        };
        core.say("bulletin", &format!("starts at {}", sequencer.head().size));
        let mut record = core.scene.record();
        let entries: Vec<_> = (0..sequencer.head().size).map(|index| store.leaf(index).unwrap()).collect();
        for entry in &entries {
            record.apply(entry, &NoBlobs).unwrap().expect("it was proposed before it was appended");
        }
        let conductor = Conductor::new(WINDOWS);
        let (pending, known, lines, cosigned) = (Vec::new(), BTreeMap::new(), BTreeMap::new(), None);
        let up = Up { store, sequencer, record, conductor, entries, pending, known, lines, cosigned };
        self.up = Some(Box::new(up));
    }

    fn crash(&mut self, core: &mut Core) {
        self.up = None;
        let seed = core.dice.below(u64::MAX);
        let crash = core.dice.pick(&[Crash::LoseAll, Crash::KeepAll, Crash::Seeded(seed)]);
        self.disk = self.disk.crashed(crash);
    }

    fn fail(&mut self, core: &mut Core) {
        if core.dice.chance(400) {
            core.say("bulletin", "crashes");
            self.crash(core);
            return;
        }
        let effect = self.disk.effects() + core.dice.below(30);
        let failure = core.dice.pick(&[Failure::Crash, Failure::Done, Failure::NotDone, Failure::NoSpace]);
        core.say("bulletin", &format!("will fail: {failure:?}"));
        self.disk.fail(effect, failure);
    }

    fn receive(&mut self, core: &mut Core, from: Node, msg: Msg) -> Out {
        let Some(up) = &mut self.up else { return Vec::new() };
        match msg {
            Msg::Read { slot, size } => {
                let note = up.sequencer.checkpoint().clone();
                core.ledger.signed(up.sequencer.head(), &hashes(&up.entries));
                let read = usize::try_from(size).unwrap().min(up.entries.len());
                let view = Msg::View {
                    slot,
                    from: u64::try_from(read).unwrap(),
                    entries: Arc::new(up.entries[read..].to_vec()),
                    note: Arc::new(note),
                    cosigned: up.cosigned.clone(),
                };
                vec![(from, view)]
            }
            Msg::Post(upload) => {
                up.pending.push(post(&upload));
                Vec::new()
            }
            Msg::Leaf(leaf) => {
                up.pending.push(Submission { leaf: Some(leaf.to_vec()), ..Submission::default() });
                Vec::new()
            }
            Msg::Fetch { round, client } => {
                let Node::Server(server) = from else { return Vec::new() };
                up.envelope(server, round, client).map_or_else(Vec::new, |msg| vec![(from, msg)])
            }
            Msg::Cosigned { size, line } => {
                let Node::Server(server) = from else { return Vec::new() };
                up.known.insert(server, size);
                up.lines.entry(size).or_default().push(line);
                Vec::new()
            }
            Msg::CosignConflict { size } => {
                let Node::Server(server) = from else { return Vec::new() };
                up.known.insert(server, size);
                Vec::new()
            }
            _ => Vec::new(),
        }
    }

    fn timer(&mut self, core: &mut Core) -> Out {
        let Some(up) = &mut self.up else { return Vec::new() };
        match up.tick(core).and_then(|()| up.keep_lines(core)) {
            Ok(()) => up.ask(core),
            Err(error) => {
                core.say("bulletin", &format!("stops: {error}"));
                self.crash(core);
                Vec::new()
            }
        }
    }
}

fn hashes(entries: &[Vec<u8>]) -> Vec<[u8; 32]> {
    entries.iter().map(|entry| leaf_hash(entry)).collect()
}

/// The post's leaf with the envelopes: durable together.
fn post(upload: &Upload) -> Submission {
    let session = upload.session.to_string();
    let envelope = |envelope: &Envelope| Change {
        namespace: ENVELOPES.to_owned(),
        key: place(&session, envelope.client, envelope.server.0),
        what: What::Put(envelope.to_bytes()),
    };
    let changes = upload.envelopes.iter().map(envelope).collect();
    Submission { leaf: Some(upload.leaf.clone()), changes, ..Submission::default() }
}

impl Up {
    fn tick(&mut self, core: &mut Core) -> Result<(), crate::store::StoreError> {
        if self.record.epoch().is_none_or(|epoch| epoch.members().count() < core.scene.net.clients.len()) {
            let leaf = |leaf| Submission { leaf: Some(leaf), ..Submission::default() };
            self.pending.splice(0..0, beginning(core).into_iter().map(leaf));
        }
        let mut batch = Vec::new();
        for submission in std::mem::take(&mut self.pending) {
            let leaf = submission.leaf.as_ref().unwrap();
            match self.record.propose(leaf, &NoBlobs).unwrap() {
                Ok(_) => batch.push(submission),
                Err(void) => {
                    core.named(&self.record, panetiere::fault::Fault::attribution(&void), &void.to_string())
                }
            }
        }
        while let Step::Append(leaf) = self.conductor.step(core.now, &self.record) {
            core.say("bulletin", &format!("appends {}", leaf.kind()));
            let bytes = leaf.to_bytes();
            self.record.propose(&bytes, &NoBlobs).unwrap().expect("the conductor proposes what counts");
            batch.push(Submission { leaf: Some(bytes), ..Submission::default() });
        }
        if batch.is_empty() {
            return Ok(());
        }
        for outcome in self.sequencer.tick(BEGIN + core.now / 1000, &batch)? {
            outcome.expect("nothing is refused");
        }
        self.entries.extend(batch.into_iter().filter_map(|submission| submission.leaf));
        Ok(())
    }

    fn keep_lines(&mut self, core: &Core) -> Result<(), crate::store::StoreError> {
        for (size, lines) in std::mem::take(&mut self.lines) {
            let Some(mut known) = self.store.checkpoint_of(size)? else { continue };
            let mut new = Vec::new();
            for line in lines {
                if !known.signatures().iter().any(|old| old.name() == line.name()) {
                    known.add(line.clone()).unwrap();
                    new.push(line);
                }
            }
            if new.is_empty() {
                continue;
            }
            let note = self.sequencer.add_cosignatures(size, &new)?;
            let newer = |old: &Arc<Note>| core.log().open(old).unwrap().head().size < size;
            if core.quorum().open(&note).is_ok() && self.cosigned.as_ref().is_none_or(newer) {
                self.cosigned = Some(Arc::new(note));
            }
        }
        Ok(())
    }

    /// Asks the witnesses that are not there yet to cosign the last checkpoint.
    fn ask(&self, core: &mut Core) -> Out {
        let (head, note) = (self.sequencer.head(), self.sequencer.checkpoint());
        if head.size == 0 {
            return Vec::new();
        }
        core.ledger.signed(head, &hashes(&self.entries));
        let mut out = Vec::new();
        for server in 0..core.plan.servers {
            let known = self.known.get(&server).copied().unwrap_or(0);
            let name = core.scene.cosigner(server).verifier().name().clone();
            let has = note.signatures().iter().any(|line| *line.name() == name);
            if known > head.size || has {
                continue;
            }
            let proof = self.store.consistency(known, head.size).unwrap_or_default();
            let request = Request::new(known, proof, note.clone()).unwrap();
            out.push((Node::Server(server), Msg::AskCosign(Arc::new(request))));
        }
        out
    }

    fn envelope(&self, server: u16, round: RoundId, client: ClientId) -> Option<Msg> {
        let session = self.record.round(round)?;
        let key = place(&session.id().to_string(), client, server);
        let bytes = self.store.value(ENVELOPES, &key).ok()??;
        let envelope = Envelope::from_bytes_with(session.params(), &bytes).unwrap();
        Some(Msg::Envelope { round, envelope: Arc::new(envelope) })
    }
}
