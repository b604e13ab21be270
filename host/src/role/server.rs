//! A key server: reads the log, fetches and checks its envelopes, says what it found, and releases its sum once the rule
//! lets it.

use super::past::Past;
use super::{Order, is_under_way};
use crate::release::{self, Closing, Derived, Limits, PlacedLeaf, Refusal, SummedSet};
use crate::round::conductor::Millis;
use crate::state::{ImportError, Published, ReleaseGuard, StateError};
use panetiere::bulletin::{Answer, Checked, Envelope};
use panetiere::fault::{Attribution, Fault, Retry};
use panetiere::ids::{ClientId, EpochDigest, ServerId, StatementDigest};
use panetiere::protocol::{
    AnswerKind, AnswerLog as _, AnswerLogError, AnswerSlot, EnvelopeFault, ServerIdentity, ServerRound,
    ServerRoundError, complain,
};
use panetiere::wire::{DecodeWith as _, Encode as _};
use panetiere_api::follow::{Applied, FollowError, Follower};
use panetiere_api::leaf::{Credential, Leaf, RoundId};
use panetiere_api::round::{Blobs, Closed, Event, Phase, Record, Session};
use std::collections::BTreeMap;
use std::sync::Arc;
use tlog::checkpoint::TreeHead;
use tlog::note::Note;

/// Part of the check window after which a server says what it has found, whatever is still missing: the rest is for its
/// statement to reach the log.
const CHECK_SHARE: (Millis, Millis) = (3, 4);

/// What a server asks of every set, whatever the epoch says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Fewest clients. The epoch's own floor holds besides.
    pub min_clients: u32,
    /// Fewest platforms that the clients of a set run on.
    pub min_platforms: u32,
    /// Whether clients count for which no enclave vouches.
    pub unattested: bool,
}

impl Policy {
    const fn accepts(&self, credential: Credential) -> bool {
        match credential {
            Credential::Unattested => self.unattested,
            _ => false,
        }
    }
}

/// A server cannot go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// The record of answers does not take anything down.
    #[error("the record of this server's answers cannot be used")]
    Answers(#[source] AnswerLogError),
    /// The log was not read on.
    #[error("the log was not read on")]
    Follow(#[source] FollowError),
    /// This server's own past answers cannot be taken over.
    #[error("this server's past answers cannot be taken over from the log")]
    Import(#[source] ImportError),
    /// The log is not the one that this server has read before.
    #[error("the log has another history than this server read before: at size {} it is not the same", .read.size)]
    OtherLog {
        /// What was read.
        read: TreeHead,
    },
    /// The state cannot be used.
    #[error("this server's state cannot be used")]
    State(#[source] StateError),
}

impl Fault for ServerError {
    fn code(&self) -> &'static str {
        match self {
            Self::Answers(error) => error.code(),
            Self::Follow(error) => error.code(),
            Self::Import(error) => error.code(),
            Self::OtherLog { .. } => "server_other_log",
            Self::State(error) => error.code(),
        }
    }

    fn attribution(&self) -> Attribution {
        match self {
            Self::Answers(error) => error.attribution(),
            Self::Follow(error) => error.attribution(),
            Self::Import(error) => error.attribution(),
            Self::OtherLog { .. } => Attribution::Nobody,
            Self::State(error) => error.attribution(),
        }
    }

    fn retry(&self) -> Retry {
        match self {
            Self::Follow(error) => error.retry(),
            _ => Retry::Never,
        }
    }
}

/// Why a sum is not released now.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NotReleased {
    /// The rule says no.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The sum could not be made.
    #[error(transparent)]
    Round(#[from] ServerRoundError),
    /// The server cannot go on at all.
    #[error(transparent)]
    Server(#[from] ServerError),
}

/// What became of a round whose sum was to be released.
#[derive(Debug)]
pub struct Outcome {
    /// The round.
    pub round: RoundId,
    /// The sum to publish, or why there is none.
    pub outcome: Result<Order, NotReleased>,
}

/// One round under way.
struct Work {
    round: ServerRound,
    identity: Arc<ServerIdentity>,
    complaints: BTreeMap<ClientId, StatementDigest>,
    /// Since when servers check, by this server's clock.
    checking_since: Option<Millis>,
    checked: bool,
}

/// A key server without its wires.
pub struct Server {
    id: ServerId,
    policy: Policy,
    follower: Follower,
    guard: Arc<ReleaseGuard>,
    identities: BTreeMap<EpochDigest, Arc<ServerIdentity>>,
    work: BTreeMap<RoundId, Work>,
    past: Past,
    /// Whether the log has signed two histories before this server's eyes: it releases nothing more.
    forked: bool,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Server({}, log read to {}, {} rounds)", self.id, self.follower.size(), self.work.len())
    }
}

impl Server {
    /// A server that has read nothing yet. It reads the log from its first leaf: what it has to remember of it is in the
    /// guard.
    ///
    /// # Errors
    /// If the guard cannot be read.
    pub fn new(
        id: ServerId,
        policy: Policy,
        record: Record,
        guard: Arc<ReleaseGuard>,
    ) -> Result<Self, ServerError> {
        let mut follower = Follower::new(record);
        let past = Past::new(Arc::clone(&guard), &mut follower).map_err(ServerError::State)?;
        let (identities, work) = (BTreeMap::new(), BTreeMap::new());
        Ok(Self { id, policy, follower, guard, identities, work, past, forked: false })
    }

    /// Gives the server its keys of an epoch. Rounds of epochs for which it has none pass it by.
    pub fn enrol(&mut self, identity: Arc<ServerIdentity>, epoch: EpochDigest) {
        self.identities.insert(epoch, identity);
    }

    /// Forgets the keys of an epoch.
    pub fn retire(&mut self, epoch: &EpochDigest) {
        self.identities.remove(epoch);
        self.work.retain(|round, _| self.follower.record().round(*round).is_some_and(|s| s.epoch() != epoch));
    }

    /// What the log makes of the rounds.
    pub const fn record(&self) -> &Record {
        self.follower.record()
    }

    /// How far the log was read.
    pub fn head(&self) -> TreeHead {
        self.follower.head()
    }

    /// Has the head at a size that is still ahead remembered, as that of a checkpoint is: for one to be cosigned later.
    pub fn mark(&mut self, size: u64) {
        self.follower.mark(size);
    }

    /// Whether a head is one that was read; None if it is ahead, or not remembered.
    pub fn agrees(&self, head: &TreeHead) -> Option<bool> {
        self.follower.agrees(head)
    }

    /// Reads the log on to a checkpoint. Returns what to do now.
    ///
    /// # Errors
    /// `Follow` if the checkpoint does not extend what was read: nothing has changed, and `SplitView` convicts the log.
    /// `OtherLog`, and whatever the guard finds: the server must not go on then.
    pub fn advance(
        &mut self,
        now: Millis,
        note: &Note,
        entries: &[Vec<u8>],
        blobs: &dyn Blobs,
    ) -> Result<Vec<Order>, ServerError> {
        let from = self.follower.size();
        let applied = self.follower.advance(note, entries, blobs);
        self.forked |= matches!(applied, Err(FollowError::SplitView { .. }));
        // What was read before a blob was missing counts all the same.
        let id = self.id;
        let own = |record: &Record, index, leaf: &Leaf| Self::own(id, record, index, leaf);
        if let Some(read) = self.past.read(&self.follower, from, entries, own) {
            return Err(ServerError::OtherLog { read });
        }
        let applied: Vec<Applied> = applied.map_err(ServerError::Follow)?;
        self.past.opened(&applied);
        let mut orders = Vec::new();
        for Applied { outcome, .. } in applied {
            if let Ok(event) = outcome {
                self.follow_up(now, &event, &mut orders);
            }
        }
        let record = self.follower.record();
        self.work.retain(|round, _| is_under_way(record, *round));
        orders.extend(self.tick(now)?);
        Ok(orders)
    }

    /// This server's own signed statements, wherever in the log they stand and whether they count or not.
    fn own(id: ServerId, record: &Record, index: u64, leaf: &Leaf) -> Option<Published> {
        let key_in = |epoch: &EpochDigest| {
            let epoch = record.epoch_of(epoch)?;
            epoch.plan().document.server(id).map(|server| server.identity)
        };
        match leaf {
            Leaf::ServerSum(sum) if sum.claim().server == id => {
                let signed = sum.verify_signature(&key_in(&sum.claim().epoch)?).is_ok();
                signed.then(|| Published::server_sum(index, sum.claim()))
            }
            Leaf::Checked(unread) => {
                let session = record.session(&unread.context.session)?;
                let checked = Checked::from_bytes_with(&**session.params(), &unread.bytes).ok()?;
                let mine =
                    checked.server() == id && checked.verify_signature(&key_in(session.epoch())?).is_ok();
                mine.then(|| Published::checked(index, &checked))
            }
            _ => None,
        }
    }

    fn follow_up(&mut self, now: Millis, event: &Event, orders: &mut Vec<Order>) {
        let record = self.follower.record();
        match *event {
            Event::RoundOpened { round, session } => {
                let opened = record.round(round).expect("it was just opened");
                if let Some(identity) = self.identities.get(opened.epoch()) {
                    let params = Arc::clone(opened.params());
                    let work = Work {
                        round: ServerRound::new(params, session, Arc::clone(identity)),
                        identity: Arc::clone(identity),
                        complaints: BTreeMap::new(),
                        checking_since: None,
                        checked: false,
                    };
                    self.work.insert(round, work);
                }
            }
            Event::Posted { round, client } if self.work.contains_key(&round) => {
                orders.push(Order::Fetch { round, client });
            }
            Event::PostsEnded { round } => {
                if let Some(work) = self.work.get_mut(&round) {
                    work.checking_since = Some(now);
                }
            }
            Event::Checked { round, server } if server == self.id => {
                if let Some(work) = self.work.get_mut(&round) {
                    work.checked = true;
                }
            }
            Event::Answered { round, client, server } if server == self.id => {
                let (Some(work), Some(session)) = (self.work.get_mut(&round), record.round(round)) else {
                    return;
                };
                take_answer(work, session, client, self.id);
            }
            _ => {}
        }
    }

    /// Takes an envelope that was asked for. Bytes that the client did not sign are as good as none: they are to be fetched
    /// again.
    ///
    /// # Errors
    /// `Answers`, `Import` or `State` if the server cannot go on. The envelope's own faults are in the answer: None if it
    /// was taken or complained about, else what is wrong with it.
    pub fn deliver(
        &mut self,
        now: Millis,
        round: RoundId,
        envelope: &Envelope,
    ) -> Result<(Vec<Order>, Option<EnvelopeFault>), ServerError> {
        let record = self.follower.record();
        let (Some(work), Some(session)) = (self.work.get_mut(&round), record.round(round)) else {
            return Ok((Vec::new(), None));
        };
        let client = envelope.client;
        let Some((_, post)) = session.posts().get(&client) else { return Ok((Vec::new(), None)) };
        let fault = match work.round.receive(post, envelope) {
            Ok(()) | Err(EnvelopeFault::AlreadyReceived { .. }) => None,
            Err(fault) => match complain(&work.identity, session.params(), post, envelope) {
                Ok(complaint) => {
                    work.complaints.insert(client, complaint);
                    None
                }
                Err(_) => Some(fault),
            },
        };
        Ok((self.tick(now)?, fault))
    }

    /// The envelopes that are still to be had, of rounds that are not called off: to be fetched, again if need be.
    pub fn wanted(&self) -> Vec<Order> {
        let wanted = |(&round, work): (&RoundId, &Work)| {
            let session = self.follower.record().round(round)?;
            let missing = session.posts().keys().filter(|client| {
                work.round.received(**client).is_none() && !work.complaints.contains_key(client)
            });
            let orders: Vec<Order> = missing.map(|&client| Order::Fetch { round, client }).collect();
            (!session.is_called_off()).then_some(orders)
        };
        self.work.iter().filter_map(wanted).flatten().collect()
    }

    /// What to do because time has passed: say what was found, when everything has been looked at or the window ends. Said
    /// once, it is said again the same until it stands in the log.
    ///
    /// # Errors
    /// As [`advance`](Self::advance).
    pub fn tick(&mut self, now: Millis) -> Result<Vec<Order>, ServerError> {
        let mut due = Vec::new();
        for (&round, work) in &self.work {
            let Some(session) = self.follower.record().round(round) else { continue };
            let (Phase::Checking, Some(since), false) = (session.phase(), work.checking_since, work.checked)
            else {
                continue;
            };
            let looked_at = |client: &ClientId| {
                work.round.received(*client).is_some() || work.complaints.contains_key(client)
            };
            let (share, whole) = CHECK_SHARE;
            let window = Millis::from(session.announcement().check_ms) * share / whole;
            if session.posts().keys().all(looked_at) || now >= since + window {
                due.push(round);
            }
        }
        if due.is_empty() {
            return Ok(Vec::new());
        }
        self.past.import(&self.follower).map_err(ServerError::Import)?;
        due.into_iter().map(|round| self.say(round)).collect()
    }

    /// The server's one statement on a round's envelopes.
    fn say(&self, round: RoundId) -> Result<Order, ServerError> {
        let work = &self.work[&round];
        let session = self.follower.record().round(round).expect("its work is under way");
        let slot = AnswerSlot { session: *session.id(), kind: AnswerKind::Checked };
        let bytes = match self.guard.answered(slot).map_err(ServerError::Answers)? {
            Some(said) => said,
            None => {
                let signed =
                    work.identity.sign_checked(session.params(), session.id(), work.complaints.clone());
                match signed {
                    Ok(checked) => checked.to_bytes(),
                    Err(ServerRoundError::Answers(error)) => return Err(ServerError::Answers(error)),
                    Err(error) => unreachable!("nothing was said in this session: {error}"),
                }
            }
        };
        let leaf = Box::new(Leaf::parse(&bytes).expect("a server's own statement"));
        Ok(Order::Publish { round, leaf, body: None })
    }

    /// The closed rounds whose sums of this server do not stand in the log yet.
    pub fn unreleased(&self) -> Vec<RoundId> {
        let is_due = |round: &RoundId| {
            let session = self.follower.record().round(*round);
            session.is_some_and(|s| s.closed().is_some() && !s.server_sums().contains_key(&self.id))
        };
        self.work.keys().copied().filter(is_due).collect()
    }

    /// Releases the sums of closed rounds that `note`, a checkpoint with cosignatures, covers. Returns for each round that
    /// was not released before the order or why not.
    ///
    /// # Errors
    /// If the server cannot go on.
    pub fn release(&mut self, note: &Note) -> Result<Vec<Outcome>, ServerError> {
        let closed = self.unreleased();
        if closed.is_empty() {
            return Ok(Vec::new());
        }
        self.past.import(&self.follower).map_err(ServerError::Import)?;
        let mut outcomes = Vec::new();
        for round in closed {
            match self.release_one(round, note) {
                Err(NotReleased::Server(error)) => return Err(error),
                outcome => outcomes.push(Outcome { round, outcome }),
            }
        }
        Ok(outcomes)
    }

    fn release_one(&mut self, round: RoundId, note: &Note) -> Result<Order, NotReleased> {
        let record = self.follower.record();
        let session = record.round(round).expect("its work is under way");
        let closed = session.closed().expect("it is closed");
        let epoch = record.epoch_of(session.epoch()).expect("its rounds are under way");
        let quorum = record.quorum(epoch).expect("checked when the epoch began");
        let checkpoint = quorum.open(note).map(|cosigned| cosigned.checkpoint.head());
        let size = checkpoint.as_ref().map(|head| head.size);
        let read = size.ok().and_then(|size| self.follower.head_at(size));
        let limits = self.limits(session);
        let work = self.work.get_mut(&round).expect("its work is under way");
        let members = closed.set.clients();
        let admitted = |client: &&ClientId| {
            epoch.member(**client).is_some_and(|member| self.policy.accepts(member.credential))
        };
        let verified = |client: &&ClientId| {
            let post = &session.posts()[*client].1;
            work.round.received(**client) == Some(post.root())
        };
        let closing = Closing {
            session: *session.id(),
            origin: &record.anchor().origin,
            checkpoint,
            read,
            split_view: self.forked,
            open: PlacedLeaf { index: session.opened_at(), hash: *session.opened_hash() },
            close: PlacedLeaf { index: closed.at, hash: closed.hash },
            stated: (closed.set.digest(), closed.set.count()),
            derived: Derived {
                first_close: Some(closed.at),
                summed: summed(closed),
                platforms: closed.set.count(),
                not_admitted: members.iter().find(|client| !admitted(client)).copied(),
                not_verified: members.iter().find(|client| !verified(client)).copied(),
            },
            limits,
            record: self.guard.record(*session.id()).map_err(ServerError::State)?,
        };
        let released = release::decide(&closing)?;
        self.guard.authorise(released);
        let sum = match work.round.close(&closed.set) {
            Err(ServerRoundError::Answers(error)) => return Err(ServerError::Answers(error).into()),
            sum => sum?,
        };
        let leaf = Box::new(Leaf::ServerSum(sum.signed().clone()));
        let body = Some(sum.to_bytes(session.params()));
        Ok(Order::Publish { round, leaf, body })
    }

    fn limits(&self, session: &Session) -> Limits {
        Limits {
            min_clients: self.policy.min_clients.max(session.params().min_clients()),
            max_clients: session.params().max_clients(),
            min_platforms: self.policy.min_platforms,
        }
    }
}

/// Takes a client's answer to this server's complaint in place of the envelope. A bad one puts the client out.
fn take_answer(work: &mut Work, session: &Session, client: ClientId, server: ServerId) {
    let Some((key, post)) = session.posts().get(&client) else { return };
    let mine = |answer: &&Answer| (answer.client(), answer.server()) == (client, server);
    if let Some(answer) = session.answers().iter().find(mine)
        && work.round.receive_answer(key, post, answer).is_ok()
    {
        work.complaints.remove(&client);
    }
}

/// The set of a closed round, as a sum names it.
fn summed(closed: &Closed) -> SummedSet {
    SummedSet { set: closed.set.digest(), posts: closed.posts, clients: closed.set.count() }
}
