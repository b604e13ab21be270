//! A lane: reads the log, fetches and verifies its items as the posts come, answers checks before the close, and publishes
//! its sum behind it.
//!
//! A lane's sums reveal nothing that the clients' shares, which are public, do not. So no quorum is needed for them; that it
//! answers one set a session is kept by its guard, for else it convicts itself.

use super::past::Past;
use super::{Order, is_under_way};
use crate::state::{ImportError, Published, ReleaseGuard, StateError};
use panetiere::bulletin::{CanonicalSet, LaneBulletinEntry, LaneItem, Mode};
use panetiere::evidence::Evidence;
use panetiere::fault::{Attribution, Fault, Retry};
use panetiere::ids::{ClientId, EpochDigest, NodeId};
use panetiere::protocol::{
    ItemFault, LaneIdentity, LaneRound, LaneRoundError, ProtocolParams, RebuildError, rebuild_item,
};
use panetiere_api::follow::{Applied, FollowError, Follower};
use panetiere_api::leaf::{Leaf, RoundId};
use panetiere_api::round::{Blobs, Event, Record};
use std::collections::BTreeMap;
use std::sync::Arc;
use tlog::checkpoint::TreeHead;
use tlog::note::Note;

/// A lane cannot go on, or does not answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LaneError {
    /// The log was not read on.
    #[error("the log was not read on")]
    Follow(#[source] FollowError),
    /// This lane's own past answers cannot be taken over.
    #[error("this lane's past answers cannot be taken over from the log")]
    Import(#[source] ImportError),
    /// The log is not the one that this lane has read before.
    #[error("the log has another history than this lane read before: at size {} it is not the same", .read.size)]
    OtherLog {
        /// What was read.
        read: TreeHead,
    },
    /// There is no sum.
    #[error("there is no sum of this lane")]
    Round(#[source] LaneRoundError),
    /// The lane takes no part in the round.
    #[error("this lane has no part in round {round}")]
    UnknownRound {
        /// The round.
        round: RoundId,
    },
}

impl Fault for LaneError {
    fn code(&self) -> &'static str {
        match self {
            Self::Follow(error) => error.code(),
            Self::Import(error) => error.code(),
            Self::OtherLog { .. } => "lane_other_log",
            Self::Round(error) => error.code(),
            Self::UnknownRound { .. } => "lane_unknown_round",
        }
    }

    fn attribution(&self) -> Attribution {
        match self {
            Self::Follow(error) => error.attribution(),
            Self::Import(error) => error.attribution(),
            Self::Round(error) => error.attribution(),
            Self::OtherLog { .. } | Self::UnknownRound { .. } => Attribution::Nobody,
        }
    }

    fn retry(&self) -> Retry {
        match self {
            Self::Follow(error) => error.retry(),
            Self::Round(error) => error.retry(),
            _ => Retry::Never,
        }
    }
}

/// A closed round and its sum, or why there is none now.
pub type Due = (RoundId, Result<Order, LaneError>);

/// Where a lane finds an item of a round again that it was handed before.
pub type Items = Arc<dyn Fn(&ProtocolParams, RoundId, ClientId) -> Option<LaneItem> + Send + Sync>;

/// A lane without its wires.
pub struct Lane {
    id: NodeId,
    follower: Follower,
    past: Past,
    items: Option<Items>,
    identities: BTreeMap<EpochDigest, Arc<LaneIdentity>>,
    work: BTreeMap<RoundId, LaneRound>,
}

impl std::fmt::Debug for Lane {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Lane({}, log read to {}, {} rounds)", self.id, self.follower.size(), self.work.len())
    }
}

impl Lane {
    /// A lane that has read nothing yet. It reads the log from its first leaf.
    ///
    /// # Errors
    /// If the guard cannot be read.
    pub fn new(id: NodeId, record: Record, guard: Arc<ReleaseGuard>) -> Result<Self, StateError> {
        let mut follower = Follower::new(record);
        let past = Past::new(guard, &mut follower)?;
        let (identities, work) = (BTreeMap::new(), BTreeMap::new());
        Ok(Self { id, follower, past, items: None, identities, work })
    }

    /// The same, with items that whoever wires it has stored: the lane keeps none in memory.
    #[must_use]
    pub fn with_items(self, items: Items) -> Self {
        Self { items: Some(items), ..self }
    }

    /// Gives the lane its key of an epoch, with its guard under it. Rounds of epochs for which it has none pass it by.
    pub fn enrol(&mut self, identity: Arc<LaneIdentity>, epoch: EpochDigest) {
        self.identities.insert(epoch, identity);
    }

    /// What the log makes of the rounds.
    pub const fn record(&self) -> &Record {
        self.follower.record()
    }

    /// Reads the log on to a checkpoint. Returns what to do now.
    ///
    /// # Errors
    /// `Follow` if the checkpoint does not extend what was read; `OtherLog`.
    pub fn advance(
        &mut self,
        note: &Note,
        entries: &[Vec<u8>],
        blobs: &dyn Blobs,
    ) -> Result<Vec<Order>, LaneError> {
        let from = self.follower.size();
        let applied = self.follower.advance(note, entries, blobs);
        let id = self.id;
        let other =
            self.past.read(&self.follower, from, entries, |record, index, leaf| own(id, record, index, leaf));
        if let Some(read) = other {
            return Err(LaneError::OtherLog { read });
        }
        let applied = applied.map_err(LaneError::Follow)?;
        self.past.opened(&applied);
        let mut orders = Vec::new();
        for Applied { outcome, .. } in applied {
            match outcome {
                Ok(Event::RoundOpened { round, .. }) => self.take_part(round),
                Ok(Event::Posted { round, client }) if self.work.contains_key(&round) => {
                    orders.push(Order::Fetch { round, client });
                }
                _ => {}
            }
        }
        let record = self.follower.record();
        self.work.retain(|round, _| is_under_way(record, *round));
        Ok(orders)
    }

    fn take_part(&mut self, round: RoundId) {
        let session = self.follower.record().round(round).expect("it was just opened");
        if let Some(identity) = self.identities.get(session.epoch())
            && session.params().mode() == Mode::Erasure
        {
            let (params, id, identity) = (Arc::clone(session.params()), *session.id(), Arc::clone(identity));
            let work = match self.items.clone() {
                None => LaneRound::new(params, id, identity),
                Some(items) => {
                    let known = Arc::clone(&params);
                    let source = Box::new(move |client| items(&known, round, client));
                    LaneRound::with_source(params, id, identity, source)
                }
            };
            self.work.insert(round, work);
        }
    }

    /// Takes an item, verified against the statement that the log counts. A client that signed a bad one is convicted; bytes
    /// that it did not sign are as good as none, and are to be fetched again or rebuilt.
    pub fn deliver(&mut self, round: RoundId, item: &LaneItem) -> (Vec<Order>, Option<ItemFault>) {
        let record = self.follower.record();
        let (Some(work), Some(session)) = (self.work.get_mut(&round), record.round(round)) else {
            return (Vec::new(), None);
        };
        let client = item.client;
        let Some((key, post)) = session.posts().get(&client) else { return (Vec::new(), None) };
        let fault = match work.receive(post, item) {
            Ok(()) | Err(ItemFault::AlreadyReceived { .. }) => return (Vec::new(), None),
            Err(fault) => fault,
        };
        let epoch = record.epoch_of(session.epoch());
        let evidence = epoch.and_then(|epoch| {
            Evidence::of_item(&fault, session.params(), &epoch.plan().document, key, post, item)
        });
        let accuse =
            evidence.map(|evidence| Order::Accuse { round, party: Attribution::Client(client), evidence });
        (accuse.into_iter().collect(), Some(fault))
    }

    /// Takes an item that is rebuilt from those of any k other lanes, if they make one.
    ///
    /// # Errors
    /// Why they make none; a client that committed to no codeword is convicted by the orders besides.
    pub fn rebuild(
        &mut self,
        round: RoundId,
        client: ClientId,
        items: &[LaneItem],
    ) -> (Vec<Order>, Result<(), RebuildError>) {
        let record = self.follower.record();
        let Some(session) = record.round(round).filter(|_| self.work.contains_key(&round)) else {
            return (Vec::new(), Ok(()));
        };
        let Some((key, post)) = session.posts().get(&client) else { return (Vec::new(), Ok(())) };
        match rebuild_item(session.params(), post, self.id, items) {
            Ok(item) => {
                let (orders, fault) = self.deliver(round, &item);
                (orders, fault.map_or(Ok(()), |fault| Err(RebuildError::Item(fault))))
            }
            Err(error) => {
                let epoch = record.epoch_of(session.epoch());
                let evidence = epoch.and_then(|epoch| {
                    let (params, document) = (session.params(), &epoch.plan().document);
                    Evidence::of_rebuild(&error, params, document, key, post, items)
                });
                let accuse = evidence.map(|evidence| Order::Accuse {
                    round,
                    party: Attribution::Client(client),
                    evidence,
                });
                (accuse.into_iter().collect(), Err(error))
            }
        }
    }

    /// The signed sum over any clients, for the check before the close. Whoever asks may have it.
    ///
    /// # Errors
    /// `UnknownRound`; `Round` if an item is missing.
    pub fn check_sum(&self, round: RoundId, set: &CanonicalSet) -> Result<LaneBulletinEntry, LaneError> {
        let work = self.work.get(&round).ok_or(LaneError::UnknownRound { round })?;
        work.check_sum(set).map_err(LaneError::Round)
    }

    /// The items that are still to be had, of clients that are or may yet be in the set.
    pub fn wanted(&self) -> Vec<Order> {
        let wanted = |(&round, work): (&RoundId, &LaneRound)| {
            let session = self.follower.record().round(round)?;
            let counts =
                |client: &ClientId| session.closed().is_none_or(|closed| closed.set.contains(*client));
            let missing = session.posts().keys().filter(|client| work.received(**client).is_none());
            let orders = missing.copied().filter(counts).map(|client| Order::Fetch { round, client });
            Some(orders.collect::<Vec<_>>())
        };
        self.work.iter().filter_map(wanted).flatten().collect()
    }

    /// The sums of closed rounds that stand in no leaf yet, of each the same every time.
    ///
    /// # Errors
    /// `Import`: the lane must not go on. Of each round, `Round` if its sum cannot be made now.
    pub fn sums(&mut self) -> Result<Vec<Due>, LaneError> {
        let record = self.follower.record();
        let due = |round: &RoundId| {
            let session = record.round(*round)?;
            (!session.lane_sums().contains_key(&self.id)).then_some(())?;
            session.closed().map(|closed| (*round, closed.set.clone()))
        };
        let due: Vec<(RoundId, CanonicalSet)> = self.work.keys().filter_map(due).collect();
        if due.is_empty() {
            return Ok(Vec::new());
        }
        self.past.import(&self.follower).map_err(LaneError::Import)?;
        Ok(due.into_iter().map(|(round, set)| (round, self.sum(round, &set))).collect())
    }

    fn sum(&mut self, round: RoundId, set: &CanonicalSet) -> Result<Order, LaneError> {
        let session = self.follower.record().round(round).expect("its work is under way");
        let work = self.work.get_mut(&round).expect("its work is under way");
        let sum = work.close(set).map_err(LaneError::Round)?;
        let code = session.params().lane_code().expect("a round with lanes");
        Ok(Order::Publish {
            round,
            leaf: Box::new(Leaf::LaneSum(sum.signed().clone())),
            body: Some(sum.to_bytes(code)),
        })
    }
}

/// A leaf that this lane has signed.
fn own(id: NodeId, record: &Record, index: u64, leaf: &Leaf) -> Option<Published> {
    let Leaf::LaneSum(sum) = leaf else { return None };
    let claim = sum.claim();
    let key = record.epoch_of(&claim.epoch)?.plan().document.lane(id).filter(|_| claim.lane == id)?;
    sum.verify_signature(key).ok()?;
    Published::lane_sum(index, claim)
}
