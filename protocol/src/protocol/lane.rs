//! A lane's part of a round: verify each item as it arrives, keep running sums, answer with one signed sum.
//!
//! A lane holds no key material and its sums reveal nothing that the public shares do not, so it may sum any set before
//! the close, to find a client that committed to no codeword. Its answer to the round is still one set: that of the
//! close.

use super::answers::{self, AnswerLog, AnswerLogError, NotAnswered};
use super::lane_item::{ItemFault, VerifiedItem, open_item, verify_item};
use super::lane_params::LaneCode;
use super::params::ProtocolParams;
use crate::bulletin::{
    CanonicalSet, Epoch, EpochError, LaneBulletinEntry, LaneClaim, LaneItem, LanePurpose, VerifiedPost,
    posts_digest,
};
use crate::fault::{Attribution, Fault, Retry};
use crate::ids::{ClientId, EpochDigest, NodeId, PostsDigest, RootDigest, SessionId, SetDigest};
use crate::share_commitment::{AggregatedShare, ShareSum, VerifiedShare};
use crate::sig::SigningKey;
use rayon::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Items verified at a time where many are: 0.7 MB of residues each at 40 polynomials a share.
const BATCH: usize = 16;

/// A lane's place and key in one epoch, as the epoch's document names them. What it has answered for each
/// session stands in its log, and it answers nothing else for it: two answers would prove it a liar.
#[derive(Debug)]
pub struct LaneIdentity {
    id: NodeId,
    epoch: EpochDigest,
    signing_key: SigningKey,
    answers: Arc<dyn AnswerLog>,
}

impl LaneIdentity {
    /// Holds a lane's key against the epoch's document. `answers` has all that it has answered under this key.
    ///
    /// # Errors
    /// `ForeignLaneKey` unless the document names this key for this lane.
    pub fn new(
        id: NodeId,
        signing_key: SigningKey,
        epoch: &Epoch,
        answers: Arc<dyn AnswerLog>,
    ) -> Result<Self, EpochError> {
        match epoch.lane(id).filter(|named| **named == signing_key.verifying_key()) {
            Some(_) => Ok(Self { id, epoch: epoch.digest(), signing_key, answers }),
            None => Err(EpochError::ForeignLaneKey { lane: id, epoch: epoch.number() }),
        }
    }

    /// Its place in the epoch.
    pub const fn id(&self) -> NodeId {
        self.id
    }

    /// What signs its sums.
    pub const fn signing_key(&self) -> &SigningKey {
        &self.signing_key
    }
}

/// A lane did not answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LaneRoundError {
    /// The set is larger than a round may be.
    #[error("a set of {got} clients, at most {max} are allowed")]
    AboveMax {
        /// Clients in the set.
        got: u32,
        /// Most clients.
        max: u32,
    },
    /// Every client's share verifies by itself and the sum does not: the parameters do not carry this many, or this
    /// machine miscounted. No client is at fault.
    #[error("the sum over {clients} clients does not verify although every single share does")]
    AggregateOverCapacity {
        /// Clients summed.
        clients: u32,
    },
    /// This session was answered over another set.
    #[error("this session was answered over set {answered}; it will not be answered over {asked}")]
    AlreadyAnswered {
        /// The set answered.
        answered: SetDigest,
        /// The set asked for.
        asked: SetDigest,
    },
    /// What is about to be answered could not be taken down.
    #[error("the answer of this session was not taken down")]
    Answers(#[source] AnswerLogError),
    /// The set is smaller than the anonymity floor.
    #[error("a set of {got} clients, the floor is {floor}")]
    BelowFloor {
        /// Clients in the set.
        got: u32,
        /// Fewest clients.
        floor: u32,
    },
    /// A client's item was refused.
    #[error("an item of the set was refused")]
    Item(#[source] ItemFault),
    /// An item that was verified on arrival is gone or altered where it was kept.
    #[error("the kept item of client {client} is lost")]
    ItemLost {
        /// The client.
        client: ClientId,
    },
    /// A client's item has not arrived.
    #[error("client {client} is in the set but its item has not arrived")]
    MissingClient {
        /// The first such client.
        client: ClientId,
    },
    /// This session was answered over the same clients, but over another post of at least one of them.
    #[error("this session was answered over posts {answered}; it will not be answered over {asked}")]
    OtherPosts {
        /// The posts answered.
        answered: PostsDigest,
        /// The posts asked for.
        asked: PostsDigest,
    },
}

impl From<NotAnswered> for LaneRoundError {
    fn from(why: NotAnswered) -> Self {
        match why {
            NotAnswered::Log(error) => Self::Answers(error),
            NotAnswered::Posts { answered, asked } => Self::OtherPosts { answered, asked },
            NotAnswered::Set { answered, asked } => Self::AlreadyAnswered { answered, asked },
        }
    }
}

impl Fault for LaneRoundError {
    fn code(&self) -> &'static str {
        match self {
            Self::AboveMax { .. } => "lane_above_max",
            Self::AggregateOverCapacity { .. } => "lane_over_capacity",
            Self::AlreadyAnswered { .. } => "lane_already_answered",
            Self::Answers(error) => error.code(),
            Self::BelowFloor { .. } => "lane_below_floor",
            Self::Item(fault) => fault.code(),
            Self::ItemLost { .. } => "lane_item_lost",
            Self::MissingClient { .. } => "lane_missing_client",
            Self::OtherPosts { .. } => "lane_other_posts",
        }
    }

    fn attribution(&self) -> Attribution {
        match self {
            Self::Answers(error) => error.attribution(),
            Self::Item(fault) => fault.attribution(),
            Self::AboveMax { .. }
            | Self::AggregateOverCapacity { .. }
            | Self::AlreadyAnswered { .. }
            | Self::BelowFloor { .. }
            | Self::ItemLost { .. }
            | Self::OtherPosts { .. } => Attribution::Operator,
            Self::MissingClient { .. } => Attribution::Nobody,
        }
    }

    fn retry(&self) -> Retry {
        match self {
            Self::Answers(error) => error.retry(),
            Self::Item(fault) => fault.retry(),
            Self::MissingClient { .. } => Retry::SameRequest,
            _ => Retry::Never,
        }
    }
}

/// Where a lane finds an item again that it was handed before.
pub type ItemSource = Box<dyn Fn(ClientId) -> Option<LaneItem> + Send + Sync>;

/// One lane's running round.
pub struct LaneRound {
    params: Arc<ProtocolParams>,
    session: SessionId,
    identity: Arc<LaneIdentity>,
    sum: ShareSum,
    received: BTreeMap<ClientId, VerifiedPost>,
    kept: BTreeMap<ClientId, LaneItem>,
    source: Option<ItemSource>,
    answered: Option<LaneBulletinEntry>,
}

impl std::fmt::Debug for LaneRound {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "LaneRound(lane {}, {} items)", self.identity.id, self.received.len())
    }
}

impl LaneRound {
    /// A round in which nothing has arrived yet. It keeps the items it is handed in memory: 452 KB a client at 16 KB
    /// messages and 14-of-16 lanes.
    ///
    /// # Panics
    /// If the parameters have no such lane.
    pub fn new(params: Arc<ProtocolParams>, session: SessionId, identity: Arc<LaneIdentity>) -> Self {
        let code = params.lane_code().filter(|code| identity.id.0 < code.shape().lanes);
        let sum = ShareSum::new(code.expect("a lane of the parameters").commitment());
        let (received, kept) = (BTreeMap::new(), BTreeMap::new());
        Self { params, session, identity, sum, received, kept, source: None, answered: None }
    }

    /// A round that keeps no item: `source` gives one back should it have to come off the sum or be summed by itself.
    /// What it gives back is verified again, so a bad disk cannot spoil a sum unseen.
    ///
    /// # Panics
    /// As [`new`](Self::new).
    pub fn with_source(
        params: Arc<ProtocolParams>,
        session: SessionId,
        identity: Arc<LaneIdentity>,
        source: ItemSource,
    ) -> Self {
        Self { source: Some(source), ..Self::new(params, session, identity) }
    }

    fn code(&self) -> &LaneCode {
        self.params.lane_code().expect("checked when the round was made")
    }

    /// The clients whose items are in the sum, ascending.
    pub fn clients(&self) -> impl Iterator<Item = ClientId> + '_ {
        self.received.keys().copied()
    }

    /// The share commitment's root, as a digest, that a client's received item opens.
    ///
    /// A client may sign two statements for one session. The log has one of them, and the recipient adds that one's
    /// root; the sum of a lane that took the other is useless to it. So before closing, whoever reads the log compares
    /// this with the log's statement of every canonical client, and [`withdraw`](Self::withdraw)s what differs.
    pub fn received(&self, client: ClientId) -> Option<&RootDigest> {
        self.received.get(&client).and_then(VerifiedPost::share_root)
    }

    /// Takes a client's item off the sum, so that the one that belongs to the log's statement can be received. Returns
    /// whether there was one; after the answer nothing changes any more.
    ///
    /// # Errors
    /// `ItemLost` if the kept item is gone or altered; the sum is then unchanged.
    pub fn withdraw(&mut self, client: ClientId) -> Result<bool, LaneRoundError> {
        if self.answered.is_some() || !self.received.contains_key(&client) {
            return Ok(false);
        }
        let share = self.verify_kept(client)?;
        let code = self.params.lane_code().expect("checked when the round was made");
        self.sum.subtract(code.commitment(), &share);
        self.kept.remove(&client);
        self.received.remove(&client);
        Ok(true)
    }

    /// Verifies and adds one client's item.
    ///
    /// # Errors
    /// As [`verify_item`] and [`add`](Self::add). The sum is then unchanged.
    pub fn receive(&mut self, post: &VerifiedPost, item: &LaneItem) -> Result<(), ItemFault> {
        self.admit(post, item)?;
        self.add(verify_item(&self.params, post, item)?)
    }

    /// Adds an item that [`verify_item`] has verified, on whatever thread.
    ///
    /// # Errors
    /// `WrongSession`, `WrongLane`, `Closed` or `AlreadyReceived`. The sum is then unchanged.
    pub fn add(&mut self, verified: VerifiedItem<'_>) -> Result<(), ItemFault> {
        let VerifiedItem { post, item, share } = verified;
        self.admit(post, item)?;
        self.insert(post.clone(), item.clone(), &share);
        Ok(())
    }

    fn insert(&mut self, post: VerifiedPost, item: LaneItem, share: &VerifiedShare) {
        let code = self.params.lane_code().expect("checked when the round was made");
        self.sum.add(code.commitment(), share);
        if self.source.is_none() {
            self.kept.insert(item.client, item);
        }
        self.received.insert(post.client(), post);
    }

    fn admit(&self, post: &VerifiedPost, item: &LaneItem) -> Result<(), ItemFault> {
        let client = post.client();
        if self.identity.epoch != *self.params.epoch() {
            return Err(ItemFault::WrongEpoch { lane: self.identity.id });
        }
        if post.statement().session != self.session {
            return Err(ItemFault::WrongSession { client });
        }
        if item.lane != self.identity.id {
            return Err(ItemFault::WrongLane { expected: self.identity.id, found: item.lane });
        }
        if self.answered.is_some() {
            return Err(ItemFault::Closed { client });
        }
        if self.received.contains_key(&client) {
            return Err(ItemFault::AlreadyReceived { client });
        }
        Ok(())
    }

    /// The signed sum over any set of clients whose items are here, to be checked for codewords before the close. The
    /// shares are public, so this may be asked for as often as it is needed.
    ///
    /// # Errors
    /// `AboveMax`, `MissingClient` or `ItemLost`; `Item` or `AggregateOverCapacity` as [`close`](Self::close).
    pub fn check_sum(&self, set: &CanonicalSet) -> Result<LaneBulletinEntry, LaneRoundError> {
        self.within_max(set)?;
        self.first_missing(set)?;
        let others: Vec<ClientId> = self.clients().filter(|client| !set.contains(*client)).collect();
        let commitment = self.code().commitment();
        // Whichever is less work: all but the others, or these from nothing.
        let sum = if others.len() < set.clients().len() {
            let mut sum = self.sum.clone();
            self.each_kept(&others, |share| sum.subtract(commitment, share))?;
            sum
        } else {
            let mut sum = ShareSum::new(commitment);
            self.each_kept(set.clients(), |share| sum.add(commitment, share))?;
            sum
        };
        let opening = self.opened(&sum, set)?;
        Ok(self.sign(self.claim(set, LanePurpose::Check), opening))
    }

    /// The signed sum over the canonical set: what came but is not in the set is taken off again, and the whole is
    /// checked once against the sum of the signed roots.
    ///
    /// Every item has to be of the log's statement: see [`received`](Self::received).
    /// One set a session and identity: asked again for the same set it gives the same answer, for another it refuses.
    ///
    /// # Errors
    /// `BelowFloor`, `AboveMax`, `MissingClient` (nothing is lost: it may still arrive or be rebuilt), `ItemLost`,
    /// `AlreadyAnswered`, `OtherPosts`; `Answers` if the answer cannot be taken down. If the sum does not verify: `Item` with the first client whose signed item does not, or
    /// `AggregateOverCapacity` if every one does.
    pub fn close(&mut self, canonical: &CanonicalSet) -> Result<LaneBulletinEntry, LaneRoundError> {
        let asked = canonical.digest();
        if let Some(entry) = &self.answered {
            let answered = entry.claim().set;
            return if answered == asked {
                Ok(entry.clone())
            } else {
                Err(LaneRoundError::AlreadyAnswered { answered, asked })
            };
        }
        let (got, floor) = (canonical.count(), self.params.min_clients());
        if got < floor {
            return Err(LaneRoundError::BelowFloor { got, floor });
        }
        self.within_max(canonical)?;
        self.first_missing(canonical)?;
        let surplus: Vec<ClientId> = self.clients().filter(|client| !canonical.contains(*client)).collect();
        let mut sum = self.sum.clone();
        let commitment = self.code().commitment();
        self.each_kept(&surplus, |share| sum.subtract(commitment, share))?;
        let opening = self.opened(&sum, canonical)?;
        let claim = self.claim(canonical, LanePurpose::Close);
        answers::commit(&*self.identity.answers, &claim)?;
        let entry = self.sign(claim, opening);
        for client in surplus {
            self.received.remove(&client);
            self.kept.remove(&client);
        }
        self.sum = sum;
        self.answered = Some(entry.clone());
        Ok(entry)
    }

    /// The opening of a sum over a set, checked once as everybody will check it.
    fn opened(&self, sum: &ShareSum, set: &CanonicalSet) -> Result<AggregatedShare, LaneRoundError> {
        let (lane, clients) = (self.identity.id, set.count());
        let opening = sum.finish(lane);
        if self.code().commitment().verify_aggregated(lane, clients, &opening, sum.root()).is_err() {
            // Only now is anybody's share looked at again: to name whose it is, or that it is nobody's.
            self.each_kept(set.clients(), |_| {})?;
            return Err(LaneRoundError::AggregateOverCapacity { clients });
        }
        Ok(opening)
    }

    fn within_max(&self, set: &CanonicalSet) -> Result<(), LaneRoundError> {
        let (got, max) = (set.count(), self.params.max_clients());
        if got > max { Err(LaneRoundError::AboveMax { got, max }) } else { Ok(()) }
    }

    fn first_missing(&self, set: &CanonicalSet) -> Result<(), LaneRoundError> {
        match set.clients().iter().find(|client| !self.received.contains_key(client)) {
            Some(&client) => Err(LaneRoundError::MissingClient { client }),
            None => Ok(()),
        }
    }

    /// Verifies the kept items of these clients again, several at a time, and hands them over in order.
    fn each_kept(
        &self,
        clients: &[ClientId],
        mut take: impl FnMut(&VerifiedShare),
    ) -> Result<(), LaneRoundError> {
        for batch in clients.chunks(BATCH) {
            let verified: Vec<_> = batch.par_iter().map(|client| self.verify_kept(*client)).collect();
            for share in verified {
                take(&share?);
            }
        }
        Ok(())
    }

    fn verify_kept(&self, client: ClientId) -> Result<VerifiedShare, LaneRoundError> {
        let lost = LaneRoundError::ItemLost { client };
        let post = self.received.get(&client).ok_or_else(|| lost.clone())?;
        let item = match &self.source {
            Some(source) => source(client),
            None => self.kept.get(&client).cloned(),
        };
        let item = item.filter(|item| item.lane == self.identity.id).ok_or_else(|| lost.clone())?;
        match verify_item(&self.params, post, &item) {
            Ok(verified) => Ok(verified.share),
            Err(fault) if fault.attribution() == Attribution::Client(client) => {
                Err(LaneRoundError::Item(fault))
            }
            Err(_) => Err(lost),
        }
    }

    fn claim(&self, set: &CanonicalSet, purpose: LanePurpose) -> LaneClaim {
        let summed = self.received.iter().filter(|(client, _)| set.contains(**client));
        let roots = summed.filter_map(|(client, post)| Some((client, post.share_root()?)));
        LaneClaim {
            deployment: *self.params.deployment(),
            epoch: *self.params.epoch(),
            session: self.session,
            crs: *self.params.crs_digest(),
            lane: self.identity.id,
            purpose,
            set: set.digest(),
            posts: posts_digest(roots),
            clients: set.count(),
        }
    }

    fn sign(&self, claim: LaneClaim, opening: AggregatedShare) -> LaneBulletinEntry {
        LaneBulletinEntry::sign(claim, opening, self.code(), &self.identity.signing_key)
    }
}

/// A whole lane round at once: verifies the canonical clients' items in parallel and answers. Items of other clients are
/// ignored.
///
/// # Errors
/// As [`LaneRound::receive`] (wrapped in `Item`, for the first such client in the inbox) and [`LaneRound::close`].
///
/// # Panics
/// As [`LaneRound::new`].
pub fn run_rs_node_round(
    params: &Arc<ProtocolParams>,
    session: SessionId,
    identity: &Arc<LaneIdentity>,
    inbox: Vec<(VerifiedPost, LaneItem)>,
    canonical: &CanonicalSet,
) -> Result<LaneBulletinEntry, LaneRoundError> {
    let mut round = LaneRound::new(Arc::clone(params), session, Arc::clone(identity));
    let mut counted = inbox.into_iter().filter(|(post, _)| canonical.contains(post.client())).peekable();
    while counted.peek().is_some() {
        let batch: Vec<(VerifiedPost, LaneItem)> = counted.by_ref().take(BATCH).collect();
        let opened: Vec<_> = batch.par_iter().map(|(post, item)| open_item(params, post, item)).collect();
        for ((post, item), opened) in batch.into_iter().zip(opened) {
            round.admit(&post, &item).map_err(LaneRoundError::Item)?;
            round.insert(post, item, &opened.map_err(LaneRoundError::Item)?);
        }
    }
    round.close(canonical)
}

#[cfg(test)]
mod tests;
