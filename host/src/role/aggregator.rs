//! An aggregator: takes posts of its clients, held against the statements that the log counts, and publishes their sum
//! once the round is closed.
//!
//! It keeps no post itself: whoever wires it stores what was taken, and gives it back for the sum. Nobody has to trust it;
//! a sum over other clients than before is no lie, so nothing has to be remembered across a crash.

use super::{Order, is_under_way};
use panetiere::bulletin::{CanonicalSet, ClientBulletinEntry, Mode};
use panetiere::evidence::Evidence;
use panetiere::fault::{Attribution, Fault, Retry};
use panetiere::ids::{AggregatorId, ClientId, EpochDigest};
use panetiere::protocol::{
    AggregatorIdentity, AggregatorRoundError, PostFault, PostSum, run_aggregator_round,
};
use panetiere_api::follow::{FollowError, Follower};
use panetiere_api::leaf::{Leaf, RoundId};
use panetiere_api::round::{Blobs, Record, Session};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tlog::note::Note;

/// A post was not taken, or there is no sum.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AggregatorError {
    /// The post is not the one that the log counts.
    #[error("the post of client {client} is not the one that counts in round {round}")]
    NotCounted {
        /// The round.
        round: RoundId,
        /// The client.
        client: ClientId,
    },
    /// The post was refused.
    #[error("the post was refused")]
    Post(#[source] PostFault),
    /// There is no sum.
    #[error("there is no sum of this aggregator")]
    Round(#[source] AggregatorRoundError),
    /// The aggregator takes no part in the round.
    #[error("this aggregator has no part in round {round}")]
    UnknownRound {
        /// The round.
        round: RoundId,
    },
}

impl Fault for AggregatorError {
    fn code(&self) -> &'static str {
        match self {
            Self::NotCounted { .. } => "aggregator_not_counted",
            Self::Post(error) => error.code(),
            Self::Round(error) => error.code(),
            Self::UnknownRound { .. } => "aggregator_unknown_round",
        }
    }

    fn attribution(&self) -> Attribution {
        match self {
            Self::Post(error) => error.attribution(),
            Self::Round(error) => error.attribution(),
            Self::NotCounted { .. } | Self::UnknownRound { .. } => Attribution::Nobody,
        }
    }

    fn retry(&self) -> Retry {
        match self {
            // The leaf may not have been read yet.
            Self::NotCounted { .. } => Retry::SameRequest,
            Self::Post(error) => error.retry(),
            Self::Round(error) => error.retry(),
            Self::UnknownRound { .. } => Retry::Never,
        }
    }
}

/// An aggregator without its wires.
#[derive(Debug)]
pub struct Aggregator {
    id: AggregatorId,
    follower: Follower,
    identities: BTreeMap<EpochDigest, Arc<AggregatorIdentity>>,
    /// Whose posts were taken.
    taken: BTreeMap<RoundId, BTreeSet<ClientId>>,
}

impl Aggregator {
    /// An aggregator that has read nothing yet.
    pub fn new(id: AggregatorId, record: Record) -> Self {
        let (identities, taken) = Default::default();
        Self { id, follower: Follower::new(record), identities, taken }
    }

    /// Gives the aggregator its key of an epoch.
    pub fn enrol(&mut self, identity: Arc<AggregatorIdentity>, epoch: EpochDigest) {
        self.identities.insert(epoch, identity);
    }

    /// What the log makes of the rounds.
    pub const fn record(&self) -> &Record {
        self.follower.record()
    }

    /// Reads the log on to a checkpoint.
    ///
    /// # Errors
    /// If the checkpoint does not extend what was read.
    pub fn advance(
        &mut self,
        note: &Note,
        entries: &[Vec<u8>],
        blobs: &dyn Blobs,
    ) -> Result<(), FollowError> {
        self.follower.advance(note, entries, blobs)?;
        let record = self.follower.record();
        self.taken.retain(|round, _| is_under_way(record, *round));
        Ok(())
    }

    fn part_in(&self, round: RoundId) -> Result<(&Session, &Arc<AggregatorIdentity>), AggregatorError> {
        let session = self.follower.record().round(round);
        let session = session.filter(|session| session.params().mode() == Mode::Aggregated);
        let part = session.and_then(|session| Some((session, self.identities.get(session.epoch())?)));
        part.ok_or(AggregatorError::UnknownRound { round })
    }

    /// Checks a post whole and takes it; after that it is to be stored. A client whose signed ciphertext is none is
    /// convicted by the orders.
    ///
    /// # Errors
    /// `UnknownRound`; `NotCounted` as long as the log counts no such statement; `Post`.
    pub fn deliver(
        &mut self,
        round: RoundId,
        post: &ClientBulletinEntry,
    ) -> (Vec<Order>, Result<(), AggregatorError>) {
        let (session, _) = match self.part_in(round) {
            Ok(part) => part,
            Err(error) => return (Vec::new(), Err(error)),
        };
        let claim = post.head.signed.claim();
        let client = claim.client;
        let counted = session.posts().get(&client).filter(|(_, counted)| counted.statement() == claim);
        let Some((key, _)) = counted else {
            return (Vec::new(), Err(AggregatorError::NotCounted { round, client }));
        };
        let alone = CanonicalSet::new([client]).expect("one client");
        let checked = PostSum::new(session.params(), *session.id(), &alone).add(key, post);
        if let Err(fault) = checked {
            let epoch = self.follower.record().epoch_of(session.epoch());
            let evidence = epoch.and_then(|epoch| {
                Evidence::of_post(&fault, session.params(), &epoch.plan().document, key, post)
            });
            let accuse = evidence.map(|evidence| Order::Accuse {
                round,
                party: Attribution::Client(client),
                evidence,
            });
            return (accuse.into_iter().collect(), Err(AggregatorError::Post(fault)));
        }
        self.taken.entry(round).or_default().insert(client);
        (Vec::new(), Ok(()))
    }

    /// The group that this aggregator can still sum: clients of the closed set whose posts it has and whom no sum that counts
    /// covers. None before the close, if its own sum counts already, or if nobody is left.
    pub fn group(&self, round: RoundId) -> Option<CanonicalSet> {
        let (session, _) = self.part_in(round).ok()?;
        if session.group_sums().contains_key(&self.id) {
            return None;
        }
        let (set, taken) = (&session.closed()?.set, self.taken.get(&round)?);
        let covered = |client: &ClientId| {
            session.group_sums().values().any(|sum| sum.claim().members.contains_key(client))
        };
        let group = set.clients().iter().copied();
        CanonicalSet::new(group.filter(|client| taken.contains(client) && !covered(client))).ok()
    }

    /// The sum over a group, of the posts that `posts` gives back.
    ///
    /// # Errors
    /// `UnknownRound`; `Round` if a post is gone or is not the one that was taken.
    pub fn sum(
        &self,
        round: RoundId,
        group: &CanonicalSet,
        mut posts: impl FnMut(ClientId) -> Option<ClientBulletinEntry>,
    ) -> Result<Order, AggregatorError> {
        let (session, identity) = self.part_in(round)?;
        let posts = |client| {
            let (key, counted) = session.posts().get(&client)?;
            let post = posts(client).filter(|post| post.head.signed.claim() == counted.statement())?;
            Some((*key, post))
        };
        let sum = run_aggregator_round(session.params(), *session.id(), identity, group, posts)
            .map_err(AggregatorError::Round)?;
        let (leaf, body) = (Box::new(Leaf::GroupSum(sum.signed().clone())), sum.to_bytes(session.params()));
        Ok(Order::Publish { round, leaf, body: Some(body) })
    }
}
