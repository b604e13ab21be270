//! The bulletin: the honest one over the real store, or one that lies.

use super::ledger::Rule;
use super::liar::Liar;
use super::liars;
use super::world::{BEGIN, Core, Msg, Node, Out, Upload, witnesses};
use crate::round::conductor::{Conductor, Step, Windows};
use crate::round::cosigning::Cosigning;
use crate::store::disk::Disk;
use crate::store::disk::memory::{Crash, Failure, MemoryDisk};
use crate::store::{Change, Options, Sequencer, StartError, Store, StoreError, Submission, What};
use panetiere::bulletin::Envelope;
use panetiere::ids::ClientId;
use panetiere::wire::{DecodeWith as _, Encode as _};
use panetiere_api::leaf::RoundId;
use panetiere_api::round::{NoBlobs, Phase, Record};
use std::collections::BTreeMap;
use std::sync::Arc;
use tlog::merkle::leaf_hash;
use tlog::note::Signature;

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
        let mut honest =
            Honest { disk: MemoryDisk::new(), up: None, starting: false, backup: None, behind: 0 };
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
    plan.witnesses = witnesses(&core.scene, &core.plan);
    let admissions = core.scene.net.ids().map(|client| core.scene.admission(client));
    [core.scene.epoch_leaf(plan)].into_iter().chain(admissions).map(|leaf| leaf.to_bytes()).collect()
}

pub(super) struct Honest {
    disk: MemoryDisk,
    up: Option<Box<Up>>,
    starting: bool,
    /// A backup, and how many leaves are in it.
    backup: Option<(MemoryDisk, u64)>,
    /// Seconds by which its clock is behind.
    behind: u64,
}

struct Up {
    store: Store,
    sequencer: Sequencer,
    record: Record,
    conductor: Conductor,
    entries: Vec<Vec<u8>>,
    pending: Vec<Submission>,
    lines: BTreeMap<u64, Vec<Signature>>,
    cosigning: Cosigning,
}

fn place(session: &str, client: ClientId, server: u16) -> Vec<u8> {
    format!("{session}/{client}/{server}").into_bytes()
}

impl Honest {
    const fn clock(&self, core: &Core) -> u64 {
        BEGIN + core.now / 1000 - self.behind
    }

    fn start(&mut self, core: &mut Core) {
        self.starting = false;
        if self.up.is_some() {
            return;
        }
        let origin = core.scene.anchor().origin;
        let disk: Arc<dyn Disk> = Arc::new(self.disk.clone());
        let opened = Store::open(disk, Options::new(origin, core.scene.log_key()), self.clock(core));
        let (store, sequencer, _) = match opened {
            Ok(opened) => opened,
            Err(error @ StartError::ClockBehind { .. }) => {
                core.say("bulletin", &format!("does not start: {error}"));
                core.ledger.count("clocks refused");
                if self.behind <= 60 {
                    core.ledger.broken(Rule::Liveness, error.to_string());
                }
                // Whoever reads that sets the clock.
                self.behind = 0;
                return;
            }
            Err(error) => {
                core.say("bulletin", &format!("does not start: {error}"));
                self.crash(core);
                return;
            }
        };
        core.say("bulletin", &format!("starts at {}", sequencer.head().size));
        let mut record = core.record();
        let entries: Vec<_> = (0..sequencer.head().size).map(|index| store.leaf(index).unwrap()).collect();
        for entry in &entries {
            record.apply(entry, &NoBlobs).unwrap().expect("it was proposed before it was appended");
        }
        let conductor = Conductor::new(WINDOWS);
        let (pending, lines) = (Vec::new(), BTreeMap::new());
        let cosigning =
            Cosigning::resume(&store, core.quorum().clone()).expect("a disk that opens can be read");
        let up = Up { store, sequencer, record, conductor, entries, pending, lines, cosigning };
        self.up = Some(Box::new(up));
    }

    fn crash(&mut self, core: &mut Core) {
        self.up = None;
        let seed = core.dice.below(u64::MAX);
        let crash = core.dice.pick(&[Crash::LoseAll, Crash::KeepAll, Crash::Seeded(seed)]);
        self.disk = self.disk.crashed(crash);
    }

    fn fail(&mut self, core: &mut Core) {
        match core.dice.below(10) {
            0..3 => {
                core.say("bulletin", "crashes");
                self.crash(core);
                return;
            }
            3..6 => {}
            6 => {
                self.behind = core.dice.below(200);
                core.say("bulletin", &format!("has a clock {} s behind", self.behind));
                return;
            }
            7 | 8 if self.backup.is_none() => {
                let size = self.up.as_ref().map(|up| up.sequencer.head().size);
                self.backup = size.map(|size| (self.disk.snapshot(), size));
                return;
            }
            _ => return self.restore(core),
        }
        let effect = self.disk.effects() + core.dice.below(30);
        let failure = core.dice.pick(&[Failure::Crash, Failure::Done, Failure::NotDone, Failure::NoSpace]);
        core.say("bulletin", &format!("will fail: {failure:?}"));
        self.disk.fail(effect, failure);
    }

    /// A backup is put in the place of what there is. The start asks the witnesses; if one has seen more, it is refused, and
    /// then the newer disk is found again.
    fn restore(&mut self, core: &mut Core) {
        let Some((backup, stored)) = self.backup.take() else { return };
        core.say("bulletin", &format!("is restored from a backup of size {stored}"));
        self.crash(core);
        let witnessed = core.ledger.witnessed();
        let ahead = witnessed.iter().any(|(_, size)| *size > stored);
        let options = Options { witnessed, ..Options::new(core.scene.anchor().origin, core.scene.log_key()) };
        let disk: Arc<dyn Disk> = Arc::new(backup.crashed(Crash::KeepAll));
        match Store::open(disk, options, BEGIN + core.now / 1000).map(drop) {
            Err(StartError::WitnessAhead { .. }) if ahead => core.ledger.count("backups refused"),
            Ok(()) if !ahead => {}
            found => {
                let text = format!("a backup of {stored} leaves, a witness ahead: {ahead}: {found:?}");
                core.ledger.broken(Rule::OneHistory, text);
            }
        }
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
                    cosigned: up.cosigning.cosigned(),
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
                up.lines.entry(size).or_default().push(line);
                Vec::new()
            }
            Msg::CosignConflict { size } => {
                let Node::Server(server) = from else { return Vec::new() };
                let (head, cosigner) = (up.sequencer.head(), core.cosigner(server));
                if let Err(ahead) = up.cosigning.witness_at(cosigner, size, head) {
                    core.ledger.broken(Rule::OneHistory, ahead.to_string());
                }
                Vec::new()
            }
            _ => Vec::new(),
        }
    }

    fn timer(&mut self, core: &mut Core) -> Out {
        let now = self.clock(core);
        let Some(up) = &mut self.up else { return Vec::new() };
        match up.tick(core, now).and_then(|()| up.keep_lines()).and_then(|()| up.ask(core)) {
            Ok(out) => out,
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
    fn tick(&mut self, core: &mut Core, now: u64) -> Result<(), StoreError> {
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
        for outcome in self.sequencer.tick(now, &batch)? {
            outcome.expect("nothing is refused");
        }
        self.entries.extend(batch.into_iter().filter_map(|submission| submission.leaf));
        Ok(())
    }

    fn keep_lines(&mut self) -> Result<(), StoreError> {
        for (size, lines) in std::mem::take(&mut self.lines) {
            let new = self.cosigning.lacking(&self.store, size, lines)?;
            if !new.is_empty() {
                let note = self.sequencer.add_cosignatures(size, &new)?;
                self.cosigning.stored(&note);
            }
        }
        Ok(())
    }

    /// Asks the witnesses that are not there yet to cosign the last checkpoint.
    fn ask(&self, core: &mut Core) -> Result<Out, StoreError> {
        core.ledger.signed(self.sequencer.head(), &hashes(&self.entries));
        let asked = self.cosigning.requests(&self.store)?.into_iter().map(|(witness, request)| {
            let of = |server: &u16| *core.cosigner(*server) == witness;
            let server = (0..core.plan.servers).find(of).expect("the witnesses are the servers");
            (Node::Server(server), Msg::AskCosign(Arc::new(request)))
        });
        Ok(asked.collect())
    }

    fn envelope(&self, server: u16, round: RoundId, client: ClientId) -> Option<Msg> {
        let session = self.record.round(round)?;
        let key = place(&session.id().to_string(), client, server);
        let bytes = self.store.value(ENVELOPES, &key).ok()??;
        let envelope = Envelope::from_bytes_with(session.params(), &bytes).unwrap();
        Some(Msg::Envelope { round, envelope: Arc::new(envelope) })
    }
}
