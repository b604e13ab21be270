//! An honest key server: the real one, over a disk that fails.

use super::ledger::Rule;
use super::world::{BEGIN, Core, Msg, Node, Out, head};
use crate::role::Order;
use crate::role::server::{NotReleased, Policy, Server, ServerError};
use crate::round::conductor::Millis;
use crate::state::{ReleaseGuard, State, WitnessError, WitnessState};
use crate::store::disk::memory::{Crash, Failure, MemoryDisk};
use panetiere::bulletin::{Checked, ServerBulletinEntry};
use panetiere::fault::{Attribution, Fault as _};
use panetiere::ids::{ClientId, ServerId};
use panetiere::pke::PrivateKey;
use panetiere::protocol::{AnswerLog, AnswerLogError, AnswerSlot, ServerIdentity};
use panetiere::sig::SigningKey;
use panetiere::wire::DecodeWith as _;
use panetiere_api::follow::FollowError;
use panetiere_api::leaf::Leaf;
use panetiere_api::round::{NoBlobs, Session};
use std::sync::Arc;
use tlog::note::Note;
use tlog::witness::{Refusal, Request};

struct Process {
    server: Server,
    witness: WitnessState,
}

pub(super) struct ServerNode {
    pub(super) id: u16,
    disk: MemoryDisk,
    backup: Option<MemoryDisk>,
    process: Option<Process>,
    starting: bool,
    /// It has the envelope key of the epoch.
    has_key: bool,
    /// Its cosigner key is enrolled, and all that it has signed is known.
    pub(super) may_cosign: bool,
    ahead: Millis,
    ticks: u64,
    /// Whether there is something new since the release was last asked for.
    news: bool,
    cosigned: Option<Note>,
    /// It has just published a sum. Where the guard is tried, it is made to start again then.
    summed: bool,
    /// Seconds by which its wall clock is behind.
    behind: u64,
}

/// The keys of a server of the scene, with another memory of answers.
pub(super) fn identity(core: &Core, id: u16, answers: Arc<dyn AnswerLog>) -> ServerIdentity {
    let keys = &core.scene.net.servers[usize::from(id)];
    ServerIdentity::new(
        ServerId(id),
        PrivateKey::from_seed(&keys.envelope_key().expose_seed()),
        SigningKey::from_scalar(&keys.signing_key().expose_scalar()).unwrap(),
        &core.scene.net.epoch,
        answers,
    )
    .unwrap()
}

impl ServerNode {
    pub(super) fn new(id: u16, core: &Core) -> Self {
        let mut node = Self {
            id,
            disk: MemoryDisk::new(),
            backup: None,
            process: None,
            starting: false,
            has_key: true,
            may_cosign: true,
            ahead: 0,
            ticks: 0,
            news: true,
            cosigned: None,
            summed: false,
            behind: 0,
        };
        let state = State::open(&node.disk).unwrap();
        WitnessState::new(state).enrol(core.scene.cosigner(id).verifier()).unwrap();
        node.open(core).unwrap();
        node
    }

    fn name(&self) -> String {
        format!("server {}", self.id)
    }

    fn open(&mut self, core: &Core) -> Result<(), String> {
        let state = State::open(&self.disk).map_err(|error| error.to_string())?;
        let guard = Arc::new(ReleaseGuard::new(Arc::clone(&state)));
        let policy = Policy { min_clients: 2, min_platforms: 1, unattested: true };
        let server = Server::new(ServerId(self.id), policy, core.record(), Arc::clone(&guard));
        let mut server = server.map_err(|error| error.to_string())?;
        if self.has_key {
            let answers = if core.plan.without.guard {
                Arc::new(NoGuard) as Arc<dyn AnswerLog>
            } else {
                guard as Arc<dyn AnswerLog>
            };
            server.enrol(Arc::new(identity(core, self.id, answers)), core.scene.net.epoch.digest());
        }
        self.process = Some(Process { server, witness: WitnessState::new(state) });
        Ok(())
    }

    pub(super) fn start(&mut self, core: &mut Core) {
        self.starting = false;
        if self.process.is_some() {
            return;
        }
        if core.plan.without.guard {
            // What is left of a server without a guard: its keys.
            self.disk = MemoryDisk::new();
            self.may_cosign = false;
        }
        match self.open(core) {
            Ok(()) => core.say(&self.name(), "starts"),
            Err(error) => {
                core.say(&self.name(), &format!("does not start: {error}"));
                self.crash(core);
            }
        }
    }

    /// Whether it is down and is to be started; said once.
    pub(super) const fn ask_start(&mut self) -> bool {
        let ask = self.process.is_none() && !self.starting;
        self.starting |= ask;
        ask
    }

    fn crash(&mut self, core: &mut Core) {
        self.process = None;
        let seed = core.dice.below(u64::MAX);
        let crash = core.dice.pick(&[Crash::LoseAll, Crash::KeepAll, Crash::Seeded(seed)]);
        self.disk = self.disk.crashed(crash);
    }

    pub(super) fn fail(&mut self, core: &mut Core) {
        let name = self.name();
        // Beyond the bound, only what is on the disk can be held to.
        let kinds = if core.plan.without.bound { 7 } else { 13 };
        match core.dice.below(kinds) {
            0..3 => {
                core.say(&name, "crashes");
                self.crash(core);
            }
            3..7 => {
                let effect = self.disk.effects() + core.dice.below(20);
                let failure =
                    core.dice.pick(&[Failure::Crash, Failure::Done, Failure::NotDone, Failure::NoSpace]);
                core.say(&name, &format!("will fail: {failure:?}"));
                self.disk.fail(effect, failure);
            }
            7..9 => self.backup = Some(self.disk.snapshot()),
            9 if self.backup.is_some() => {
                core.say(&name, "is set back to its backup");
                self.process = None;
                self.disk = self.backup.as_ref().unwrap().snapshot();
                // docs/release.md: a restored witness needs a new key, which the next epoch names.
                self.may_cosign = false;
                core.ledger.amnesic.insert(self.id);
            }
            10 => {
                core.say(&name, "loses its state");
                self.process = None;
                self.disk = MemoryDisk::new();
                (self.may_cosign, self.has_key) = (false, false);
                core.ledger.amnesic.insert(self.id);
            }
            11 => {
                // As a clock that is set does. What a server waits for it measures by another clock, which only runs.
                self.behind = core.dice.below(200);
                core.say(&name, &format!("has a clock {} s behind", self.behind));
            }
            _ => self.ahead += core.dice.below(3000),
        }
    }

    fn clock(&self, core: &Core) -> Millis {
        core.now + self.ahead
    }

    pub(super) fn timer(&mut self, core: &mut Core) -> Out {
        self.ticks += 1;
        if std::mem::take(&mut self.summed) && core.plan.without.bound {
            core.say(&self.name(), "crashes, having summed");
            self.crash(core);
        }
        let now = self.clock(core);
        let Some(process) = &mut self.process else { return Vec::new() };
        let mut out = vec![(Node::Bulletin, Msg::Read { slot: 0, size: process.server.head().size })];
        let orders = process.server.tick(now);
        let wanted = if self.ticks.is_multiple_of(3) { process.server.wanted() } else { Vec::new() };
        match orders {
            Ok(orders) => out.extend(self.carry_out(core, orders.into_iter().chain(wanted).collect(), None)),
            Err(error) => self.stopped(core, &error),
        }
        out
    }

    fn stopped(&mut self, core: &mut Core, error: &ServerError) {
        core.say(&self.name(), &format!("stops: {error}: {error:?}"));
        core.ledger.count("server stops");
        let code = error.code();
        let foreseen = match code {
            // The disk.
            "state_broken" | "answers_failed" => true,
            "server_other_log" | "import_other_root" | "import_log_shrank" => core.plan.lies.is_some(),
            "import_contradiction" => core.plan.lies.is_some() || core.ledger.amnesic.contains(&self.id),
            _ => false,
        };
        if !foreseen {
            core.ledger.broken(Rule::Liveness, format!("server {} cannot go on: {code}: {error}", self.id));
        }
        self.crash(core);
    }

    fn carry_out(&mut self, core: &mut Core, orders: Vec<Order>, under: Option<&Note>) -> Out {
        let mut out = Vec::new();
        for order in orders {
            let Order::Publish { round, leaf, body } = order else {
                let Order::Fetch { round, client } = order else { continue };
                out.push((Node::Bulletin, Msg::Fetch { round, client }));
                continue;
            };
            let Some(process) = &self.process else { continue };
            let record = process.server.record();
            let session = record.round(round).unwrap();
            match &*leaf {
                Leaf::ServerSum(sum) => {
                    let claim = sum.claim();
                    let head = head(under.unwrap());
                    let at = session.closed().unwrap().at;
                    self.summed = true;
                    core.ledger.sum(self.id, claim.session, (claim.set, claim.posts), at, head);
                    let entry =
                        ServerBulletinEntry::from_bytes_with(session.params(), body.as_ref().unwrap());
                    assert!(entry.unwrap().signed().says_the_same(sum), "the body is that of the leaf");
                }
                Leaf::Checked(unread) => {
                    let checked = Checked::from_bytes_with(session.params(), &unread.bytes).unwrap();
                    for (&client, statement) in checked.complaints() {
                        let party =
                            core.ledger.posted.get(&(*session.id(), *statement)).map(|post| post.party);
                        let known = core.party(record, client);
                        assert_eq!(party, known, "the complaint names the client's own statement");
                        core.ledger.complained(self.id, party);
                    }
                }
                other => {
                    core.ledger.broken(Rule::Blame, format!("{} published {}", self.name(), other.kind()))
                }
            }
            core.say(&self.name(), &format!("publishes {} of round {round}", leaf.kind()));
            let body = body.map(Arc::new);
            if let (Leaf::ServerSum(sum), Some(body)) = (&*leaf, &body) {
                let bodies = core.sums.entry((sum.claim().session, sum.claim().server)).or_default();
                if !bodies.contains(body) {
                    bodies.push(Arc::clone(body));
                }
            }
            out.push((Node::Bulletin, Msg::Leaf(Arc::new(leaf.to_bytes()))));
        }
        out
    }

    pub(super) fn receive(&mut self, core: &mut Core, msg: Msg) -> Out {
        match msg {
            Msg::View { from, entries, note, cosigned, .. } => {
                self.view(core, from, &entries, &note, cosigned.as_deref())
            }
            Msg::Envelope { round, envelope } => {
                let now = self.clock(core);
                self.news = true;
                let Some(process) = &mut self.process else { return Vec::new() };
                match process.server.deliver(now, round, &envelope) {
                    Ok((orders, fault)) => {
                        if let Some(fault) = fault {
                            core.named(process.server.record(), fault.attribution(), &fault.to_string());
                        }
                        self.carry_out(core, orders, None)
                    }
                    Err(error) => {
                        self.stopped(core, &error);
                        Vec::new()
                    }
                }
            }
            Msg::AskCosign(request) => self.cosign(core, &request),
            _ => Vec::new(),
        }
    }

    fn view(
        &mut self,
        core: &mut Core,
        from: u64,
        entries: &[Vec<u8>],
        note: &Note,
        cosigned: Option<&Note>,
    ) -> Out {
        let mut out = Vec::new();
        // The last checkpoint that is cosigned comes first: of one that is skipped the server does not know the root.
        for note in cosigned.into_iter().chain([note]) {
            let now = self.clock(core);
            let Some(process) = &mut self.process else { return out };
            let size = process.server.head().size;
            let to = head(note).size;
            if size < from || to > from + u64::try_from(entries.len()).unwrap() {
                continue;
            }
            let at = |size: u64| usize::try_from(size - from).unwrap();
            let next = if to > size { &entries[at(size)..at(to)] } else { &[] };
            if next.is_empty() && head(note) == process.server.head() {
                // Nothing that it has not read; its clock runs by itself.
                continue;
            }
            match process.server.advance(now, note, next, &NoBlobs) {
                Ok(orders) => {
                    if !next.is_empty() {
                        self.news = true;
                        core.ledger.read(
                            &format!("server {}", self.id),
                            process.server.head(),
                            process.server.record(),
                        );
                    }
                    out.extend(self.carry_out(core, orders, None));
                }
                Err(ServerError::Follow(error)) => {
                    if let FollowError::SplitView { .. } = error {
                        core.ledger.count("split views");
                    }
                    core.ledger.named(error.attribution(), None, &error.to_string());
                }
                Err(error) => {
                    self.stopped(core, &error);
                    return out;
                }
            }
        }
        let (Some(cosigned), Some(process)) = (cosigned, &mut self.process) else { return out };
        // What was refused is refused again until something is new; what was published may have been lost on the way.
        self.news |= self.cosigned.as_ref() != Some(cosigned);
        if !self.news && !self.ticks.is_multiple_of(4) {
            return out;
        }
        self.news = false;
        self.cosigned = Some(cosigned.clone());
        if self.may_cosign {
            match process.witness.observe(core.log(), cosigned, core.cosigner(self.id)) {
                Ok(()) | Err(WitnessError::State(_)) => {}
                Err(error) => {
                    core.ledger.broken(Rule::OneHistory, format!("witness {} finds: {error}", self.id));
                }
            }
        }
        match process.server.release(cosigned) {
            Ok(outcomes) => {
                let mut orders = Vec::new();
                for outcome in outcomes {
                    match outcome.outcome {
                        Ok(order) => orders.push(order),
                        Err(NotReleased::Refused(refusal)) => {
                            core.ledger.count("refusals");
                            core.ledger.named(refusal.attribution(), None, &refusal.to_string());
                        }
                        Err(error) => {
                            core.say(&format!("server {}", self.id), &format!("does not sum: {error}"))
                        }
                    }
                }
                out.extend(self.carry_out(core, orders, Some(cosigned)));
            }
            Err(error) => self.stopped(core, &error),
        }
        out
    }

    fn cosign(&mut self, core: &mut Core, request: &Request) -> Out {
        let Some(process) = &self.process else { return Vec::new() };
        if !self.may_cosign {
            return Vec::new();
        }
        let (log, cosigner) = (core.log().clone(), core.scene.cosigner(self.id));
        match process.witness.add_checkpoint(
            &log,
            request,
            &cosigner,
            BEGIN + self.clock(core) / 1000 - self.behind,
        ) {
            Ok(line) => {
                let head = log.open(request.note()).unwrap().head();
                core.ledger.cosigned(self.id, head);
                vec![(Node::Bulletin, Msg::Cosigned { size: head.size, line })]
            }
            Err(WitnessError::Refused(Refusal::Conflict { size, .. })) => {
                vec![(Node::Bulletin, Msg::CosignConflict { size })]
            }
            Err(WitnessError::State(error)) => {
                core.say(&self.name(), &format!("stops: {error}"));
                self.crash(core);
                Vec::new()
            }
            Err(error) => {
                if error.attribution() == Attribution::Operator {
                    core.ledger.count("split views");
                    core.ledger.named(Attribution::Operator, None, &error.to_string());
                }
                Vec::new()
            }
        }
    }

    /// Whether this server has to be able to sum a closed round: it runs, has its key, and every envelope of the set is
    /// good, or was complained about in time: then the client, being in the set, has answered.
    pub(super) fn can_sum(&self, round: &Session, spoilt: impl Fn(ClientId) -> bool) -> bool {
        let complaints = round.checked().get(&ServerId(self.id)).map(Checked::complaints);
        let opened = |client: &ClientId| {
            !spoilt(*client) || complaints.is_some_and(|complaints| complaints.contains_key(client))
        };
        let set = round.closed().map(|closed| closed.set.clients());
        self.process.is_some() && self.has_key && set.is_some_and(|set| set.iter().all(opened))
    }
}

/// The guard left out: whatever is asked for is answered.
#[derive(Debug)]
struct NoGuard;

impl AnswerLog for NoGuard {
    fn answered(&self, _: AnswerSlot) -> Result<Option<Vec<u8>>, AnswerLogError> {
        Ok(None)
    }

    fn commit(&self, _: AnswerSlot, _: &[u8]) -> Result<Option<Vec<u8>>, AnswerLogError> {
        Ok(None)
    }
}
