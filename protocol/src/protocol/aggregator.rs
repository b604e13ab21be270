//! An aggregator's part of a round: add the posts of its group as they arrive, sign their sum once.
//!
//! An aggregator holds no secret but its signing key, and nobody has to trust it: whoever has the posts adds them again
//! ([`verify_group_sum`](super::verify_group_sum)). It keeps the posts for that, outside of this crate; here is one sum,
//! whatever the size of the group.

use super::params::ProtocolParams;
use super::post_sum::{IncomingPost, PostFault, PostSum};
use crate::bulletin::{
    CanonicalSet, ClientBulletinEntry, Epoch, EpochError, GroupClaim, GroupSum, Mode, PostHead, PostView,
};
use crate::cs::Commitment;
use crate::fault::{Attribution, Fault, Retry};
use crate::ids::{AggregatorId, ClientId, EpochDigest, SessionId};
use crate::sig::{SigningKey, VerifyingKey};

/// An aggregator's key in one epoch: the one that the epoch's document names for it.
#[derive(Debug)]
pub struct AggregatorIdentity {
    id: AggregatorId,
    epoch: EpochDigest,
    signing_key: SigningKey,
}

impl AggregatorIdentity {
    /// Holds an aggregator's key against the epoch's document.
    ///
    /// # Errors
    /// `ForeignAggregatorKey` unless the document names it for this aggregator.
    pub fn new(id: AggregatorId, signing_key: SigningKey, epoch: &Epoch) -> Result<Self, EpochError> {
        if epoch.aggregator(id) == Some(&signing_key.verifying_key()) {
            Ok(Self { id, epoch: epoch.digest(), signing_key })
        } else {
            Err(EpochError::ForeignAggregatorKey { aggregator: id, epoch: epoch.number() })
        }
    }

    /// Its place in the epoch.
    pub const fn id(&self) -> AggregatorId {
        self.id
    }

    /// What signs its sums.
    pub const fn signing_key(&self) -> &SigningKey {
        &self.signing_key
    }
}

/// An aggregator did not answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AggregatorRoundError {
    /// The post of a member has not arrived.
    #[error("client {client} is in the group but its post has not arrived")]
    MissingClient {
        /// The first such client.
        client: ClientId,
    },
    /// The round's ciphertexts travel another way.
    #[error("aggregators sum in aggregated mode, the round is {mode}")]
    Mode {
        /// The round's mode.
        mode: Mode,
    },
    /// A member's post was refused.
    #[error("a post of the group was refused")]
    Post(#[source] PostFault),
    /// A post that was added is not of the group. Withdraw it first.
    #[error("the post of client {client} is in the sum, but the client is not in the group")]
    Surplus {
        /// The first such client.
        client: ClientId,
    },
    /// The aggregator's key is that of another epoch than the round's.
    #[error("aggregator {aggregator} holds the key of another epoch than this round's")]
    WrongEpoch {
        /// The aggregator.
        aggregator: AggregatorId,
    },
}

impl Fault for AggregatorRoundError {
    fn code(&self) -> &'static str {
        match self {
            Self::MissingClient { .. } => "aggregator_missing_client",
            Self::Mode { .. } => "aggregator_mode",
            Self::Post(fault) => fault.code(),
            Self::Surplus { .. } => "aggregator_surplus",
            Self::WrongEpoch { .. } => "aggregator_wrong_epoch",
        }
    }

    fn attribution(&self) -> Attribution {
        match self {
            Self::MissingClient { .. } => Attribution::Nobody,
            Self::Mode { .. } | Self::Surplus { .. } => Attribution::Caller,
            Self::Post(fault) => fault.attribution(),
            Self::WrongEpoch { .. } => Attribution::Operator,
        }
    }

    fn retry(&self) -> Retry {
        match self {
            Self::Post(fault) => fault.retry(),
            Self::MissingClient { .. } => Retry::SameRequest,
            _ => Retry::Never,
        }
    }
}

/// One aggregator's running round: posts in, in any order and in pieces of any size; one signed sum out.
#[derive(Debug)]
pub struct AggregatorRound<'a> {
    identity: &'a AggregatorIdentity,
    posts: PostSum<'a>,
}

impl<'a> AggregatorRound<'a> {
    /// A round in which nothing has arrived yet. `roster` are the clients that this aggregator serves: the group will be
    /// those of them that make the canonical set.
    ///
    /// # Errors
    /// `Mode` unless the round is aggregated; `WrongEpoch` if the identity is of another epoch.
    pub fn new(
        params: &'a ProtocolParams,
        session: SessionId,
        identity: &'a AggregatorIdentity,
        roster: &'a CanonicalSet,
    ) -> Result<Self, AggregatorRoundError> {
        if params.mode() != Mode::Aggregated {
            return Err(AggregatorRoundError::Mode { mode: params.mode() });
        }
        if identity.epoch != *params.epoch() {
            return Err(AggregatorRoundError::WrongEpoch { aggregator: identity.id });
        }
        Ok(Self { identity, posts: PostSum::new(params, session, roster) })
    }

    /// Checks and adds a post that is here whole; `key` is the admitted key of the client it names.
    ///
    /// # Errors
    /// As [`PostSum::add`]; the sum is then unchanged.
    pub fn add<'p>(&mut self, key: &VerifyingKey, post: impl Into<PostView<'p>>) -> Result<(), PostFault> {
        self.posts.add(key, post)
    }

    /// Checks the head of a post whose ciphertext is still to come.
    ///
    /// # Errors
    /// As [`PostSum::begin`].
    pub fn begin(&mut self, key: &VerifyingKey, head: PostHead) -> Result<IncomingPost<'_, 'a>, PostFault> {
        self.posts.begin(key, head)
    }

    /// Takes a post off again whose client did not make the set, or whose statement is not the one that counts.
    ///
    /// # Errors
    /// As [`PostSum::withdraw`]; the sum is then unchanged.
    pub fn withdraw<'p>(&mut self, post: impl Into<PostView<'p>>) -> Result<(), PostFault> {
        self.posts.withdraw(post)
    }

    /// The clients whose posts are in the sum, ascending.
    pub fn added(&self) -> impl Iterator<Item = ClientId> {
        self.posts.added().keys().copied()
    }

    /// The signed sum over the group. Asked again, it gives the same bytes.
    ///
    /// # Errors
    /// `MissingClient` or `Surplus` unless exactly the group's posts are in the sum.
    pub fn close(&self, group: &CanonicalSet) -> Result<GroupSum, AggregatorRoundError> {
        let (params, added) = (self.posts.params(), self.posts.added());
        if let Some(&client) = group.clients().iter().find(|client| !added.contains_key(client)) {
            return Err(AggregatorRoundError::MissingClient { client });
        }
        if let Some(&client) = added.keys().find(|client| !group.contains(**client)) {
            return Err(AggregatorRoundError::Surplus { client });
        }
        let claim = GroupClaim {
            deployment: *params.deployment(),
            epoch: *params.epoch(),
            session: *self.posts.session(),
            crs: *params.crs_digest(),
            aggregator: self.identity.id,
            members: added.iter().map(|(client, post)| (*client, post.statement().digest())).collect(),
        };
        let root = Commitment::of_sum(self.posts.roots().clone());
        let ciphertext = self.posts.ciphertexts().to_packed();
        Ok(GroupSum::sign(claim, root, ciphertext, params, &self.identity.signing_key))
    }
}

/// A whole aggregator round at once: asks for the group's posts one at a time, each with its client's admitted key.
///
/// # Errors
/// As [`AggregatorRound::new`], [`AggregatorRound::add`] (wrapped in `Post`) and [`AggregatorRound::close`].
pub fn run_aggregator_round(
    params: &ProtocolParams,
    session: SessionId,
    identity: &AggregatorIdentity,
    group: &CanonicalSet,
    mut posts: impl FnMut(ClientId) -> Option<(VerifyingKey, ClientBulletinEntry)>,
) -> Result<GroupSum, AggregatorRoundError> {
    let mut round = AggregatorRound::new(params, session, identity, group)?;
    for &client in group.clients() {
        let (key, post) = posts(client).ok_or(AggregatorRoundError::MissingClient { client })?;
        let found = post.head.signed.claim().client;
        if found != client {
            return Err(AggregatorRoundError::Post(PostFault::WrongClient { expected: client, found }));
        }
        round.add(&key, &post).map_err(AggregatorRoundError::Post)?;
    }
    round.close(group)
}
