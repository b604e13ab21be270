//! Recovery: add the posts of the canonical set, verify the servers' sums, exclude those that lie, interpolate the
//! summed key, decrypt the sum.
//!
//! Posts are added one at a time, so memory does not grow with the number of clients. Every rejection is a value with
//! its reason; a server is a culprit only for bytes under its own signature.

use super::lane_verify::LaneVerifyError;
use super::params::ProtocolParams;
use super::policy::SetPolicy;
use super::post_sum::{PostFault, PostSum};
use super::recovery::{Place, Totals, open_sum};
use super::verify::{Phase, VerifyError, check_document};
use crate::bulletin::{CanonicalSet, ClientBulletinEntry, Epoch, ServerBulletinEntry};
use crate::cs::Commitment;
use crate::evidence::Evidence;
use crate::fault::{Attribution, Fault, Retry};
use crate::ids::{AggregatorId, ClientId, NodeId, PostsDigest, ServerId, SessionId};
use crate::kahe::{CiphertextSum, KaheError};
use crate::plaintext::PlainPoly;
use crate::rs::RsError;
use crate::sig::VerifyingKey;
use crate::sss::ShareError;
use chipmunk::ring::{Coeff, Hvc, Poly};

/// A server that lied, and what about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Culprit {
    /// The server.
    pub server: ServerId,
    /// What it signed that is false.
    pub fault: VerifyError,
    /// What convicts it before everybody. Missing for `WrongCrs` and `WrongEpoch`, as only the log tells which parameters
    /// and epoch the session has, and where a post that it takes is not at hand any more.
    pub evidence: Option<Box<Evidence>>,
}

/// A lane that lied, and what about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaneCulprit {
    /// The lane.
    pub lane: NodeId,
    /// What it signed that is false.
    pub fault: LaneVerifyError,
    /// What convicts it before everybody. Missing for `WrongCrs` and `WrongEpoch`: only the log tells which parameters
    /// and epoch the session has.
    pub evidence: Option<Box<Evidence>>,
}

/// A recovered round.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recovered {
    /// The clients whose vectors are in the sum.
    pub canonical: CanonicalSet,
    /// The sum of the vectors, coefficient-wise modulo t.
    pub plaintext: Vec<PlainPoly>,
    /// Servers whose signed sums were false, each once, ascending.
    pub culprits: Vec<Culprit>,
    /// Entries that prove nothing against anybody: unsigned, replayed, of unknown servers, over another set or other
    /// posts than those known here.
    pub discarded: Vec<VerifyError>,
}

/// A round was not recovered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RecipientError {
    /// Too few lanes have answered so far. Expected early in a round.
    #[error("{have} lane sums where {need} are needed")]
    BelowLaneThreshold {
        /// Sums at hand.
        have: usize,
        /// k.
        need: u16,
    },
    /// Too few servers have answered so far. Expected early in a round.
    #[error("{have} server sums where {need} are needed")]
    BelowShareThreshold {
        /// Sums at hand.
        have: usize,
        /// The threshold.
        need: u16,
    },
    /// The round is lost, or what was delivered for it is.
    #[error("the round was rejected")]
    Rejected(#[source] RejectReason),
}

/// Why a round was rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RejectReason {
    /// The canonical set is larger than allowed.
    #[error("a canonical set of {got} clients, at most {max} are allowed")]
    AboveMax {
        /// Clients in the set.
        got: u32,
        /// Most clients.
        max: u32,
    },
    /// The canonical set is smaller than the anonymity floor.
    #[error("a canonical set of {got} clients, the floor is {floor}")]
    BelowFloor {
        /// Clients in the set.
        got: u32,
        /// Fewest clients.
        floor: u32,
    },
    /// A server's sum was refused, in a single attempt that excludes nobody; or all of them are, as the epoch's document
    /// is not that of the round.
    #[error("a server's sum was refused")]
    Entry(#[source] VerifyError),
    /// A canonical client is in no group that counts.
    #[error("client {client} is in the canonical set and in no group")]
    GroupGap {
        /// The first such client.
        client: ClientId,
    },
    /// Two groups have one client: their total would count it twice. Each group may be right by itself.
    #[error("client {client} is in the groups of aggregators {first} and {second}")]
    GroupOverlap {
        /// The client.
        client: ClientId,
        /// The group it was found in first.
        first: AggregatorId,
        /// The other.
        second: AggregatorId,
    },
    /// Too few lanes are left after exclusion.
    #[error("{remaining} lane sums are left where {need} are needed")]
    LanesExhausted {
        /// Valid sums.
        remaining: usize,
        /// k.
        need: u16,
    },
    /// The round has no lanes.
    #[error("the round has no lanes")]
    NoLanes,
    /// The decryption was refused. Some client's noise or key is out of bounds; nobody can be named.
    #[error("the sum does not decrypt")]
    Noise(#[source] KaheError),
    /// Every lane's sum verifies and together they are no codeword: some client committed to none. No lane is at fault;
    /// which client it is, sums over subsets find before the close ([`Bisection`](super::Bisection)).
    #[error("the verified lane sums are no codeword: some client committed to none")]
    NotACodeword(#[source] RsError),
    /// A post was refused.
    #[error("a post was refused")]
    Post(#[source] PostFault),
    /// A canonical client's post is not at hand. It was logged, so it exists: fetch it, do not go on without.
    #[error("the post of client {client} is missing")]
    PostMissing {
        /// The first such client.
        client: ClientId,
    },
    /// The verified shares are inconsistent. Some client dealt them so; nobody can be named.
    #[error("the summed key cannot be interpolated")]
    Shares(#[source] ShareError),
    /// Too few servers are left after exclusion.
    #[error("{remaining} server sums are left where {need} are needed; {} servers lied", culprits.len())]
    SharesExhausted {
        /// Valid sums.
        remaining: usize,
        /// The threshold.
        need: u16,
        /// The servers excluded for a false sum.
        culprits: Vec<Culprit>,
        /// Entries that prove nothing against anybody.
        discarded: Vec<VerifyError>,
    },
    /// Another reason, after servers were excluded or entries set aside.
    #[error("the sums of the servers that are left do not help; {} servers lied", culprits.len())]
    WithFaults {
        /// The servers excluded for a false sum.
        culprits: Vec<Culprit>,
        /// Entries that prove nothing against anybody.
        discarded: Vec<VerifyError>,
        /// The reason.
        #[source]
        reason: Box<RejectReason>,
    },
}

impl Fault for RecipientError {
    fn code(&self) -> &'static str {
        match self {
            Self::BelowLaneThreshold { .. } => "below_lane_threshold",
            Self::BelowShareThreshold { .. } => "below_share_threshold",
            Self::Rejected(reason) => reason.code(),
        }
    }

    fn attribution(&self) -> Attribution {
        match self {
            Self::BelowLaneThreshold { .. } | Self::BelowShareThreshold { .. } => Attribution::Nobody,
            Self::Rejected(reason) => reason.attribution(),
        }
    }

    fn retry(&self) -> Retry {
        match self {
            Self::BelowLaneThreshold { .. } | Self::BelowShareThreshold { .. } => Retry::SameRequest,
            Self::Rejected(reason) => reason.retry(),
        }
    }
}

impl Fault for RejectReason {
    fn code(&self) -> &'static str {
        match self {
            Self::AboveMax { .. } => "set_above_max",
            Self::BelowFloor { .. } => "set_below_floor",
            Self::Entry(error) => error.code(),
            Self::GroupGap { .. } => "group_gap",
            Self::GroupOverlap { .. } => "group_overlap",
            Self::LanesExhausted { .. } => "lanes_exhausted",
            Self::NoLanes => "no_lanes",
            Self::Noise(error) => error.code(),
            Self::NotACodeword(_) => "lanes_not_a_codeword",
            Self::Post(fault) => fault.code(),
            Self::PostMissing { .. } => "post_missing",
            Self::Shares(error) => error.code(),
            Self::SharesExhausted { .. } => "shares_exhausted",
            Self::WithFaults { reason, .. } => reason.code(),
        }
    }

    fn attribution(&self) -> Attribution {
        match self {
            Self::AboveMax { .. } | Self::BelowFloor { .. } => Attribution::Operator,
            Self::Entry(error) => error.attribution(),
            Self::Noise(error) => error.attribution(),
            Self::Post(fault) => fault.attribution(),
            Self::Shares(error) => error.attribution(),
            Self::NoLanes => Attribution::Caller,
            Self::WithFaults { reason, .. } => reason.attribution(),
            // The culprits are in the value; more parties than one may be named there.
            Self::GroupGap { .. }
            | Self::GroupOverlap { .. }
            | Self::LanesExhausted { .. }
            | Self::NotACodeword(_)
            | Self::PostMissing { .. }
            | Self::SharesExhausted { .. } => Attribution::Nobody,
        }
    }

    fn retry(&self) -> Retry {
        match self {
            Self::Post(fault) => fault.retry(),
            Self::WithFaults { reason, .. } => reason.retry(),
            Self::GroupGap { .. }
            | Self::LanesExhausted { .. }
            | Self::PostMissing { .. }
            | Self::SharesExhausted { .. } => Retry::SameRequest,
            _ => Retry::Never,
        }
    }
}

/// Refuses a document of another epoch than the parameters': every entry would be refused for it.
pub(super) fn check_epoch(params: &ProtocolParams, epoch: &Epoch) -> Result<(), RecipientError> {
    check_document(params, epoch).map_err(|error| RecipientError::Rejected(RejectReason::Entry(error)))
}

pub(super) fn within_bounds(params: &ProtocolParams, canonical: &CanonicalSet) -> Result<(), RejectReason> {
    let policy = SetPolicy::anchored(canonical.clone(), params.min_clients(), params.max_clients());
    policy.admit(params).map(|_| ())
}

/// The totals of a direct round: every post is here.
struct DirectTotals<'s, 'a> {
    posts: &'s PostSum<'a>,
    digest: PostsDigest,
}

impl Totals for DirectTotals<'_, '_> {
    fn roots(&self) -> &Poly<Hvc, Coeff> {
        self.posts.roots()
    }

    fn posts(&self) -> PostsDigest {
        self.digest
    }

    fn ciphertexts(&self) -> &CiphertextSum {
        self.posts.ciphertexts()
    }

    fn commitments(&mut self) -> Option<Vec<Commitment>> {
        Some(self.posts.commitments().cloned().collect())
    }
}

/// Decrypts a sum of posts with the servers' sums, excluding the servers that lie. At least t must remain; all that
/// remain are used, those beyond t as a check.
///
/// # Errors
/// `BelowShareThreshold` with fewer entries than t; else `Rejected` with the reason.
pub fn decrypt_aggregate(
    posts: &PostSum<'_>,
    epoch: &Epoch,
    entries: &[ServerBulletinEntry],
    observe: &mut dyn FnMut(Phase),
) -> Result<Recovered, RecipientError> {
    let need = posts.params().threshold();
    if entries.len() < usize::from(need) {
        return Err(RecipientError::BelowShareThreshold { have: entries.len(), need });
    }
    check_epoch(posts.params(), epoch)?;
    let rejected = RecipientError::Rejected;
    within_bounds(posts.params(), posts.canonical()).map_err(rejected)?;
    if let Some(client) = posts.missing() {
        return Err(rejected(RejectReason::PostMissing { client }));
    }
    let (params, session, canonical) = (posts.params(), posts.session(), posts.canonical());
    let place = Place { params, session, epoch, canonical };
    let mut totals = DirectTotals { posts, digest: posts.digest() };
    open_sum(place, &mut totals, entries, observe).map(|opened| opened.recovered).map_err(rejected)
}

/// One attempt over a named canonical set: every post and every entry must be good.
///
/// # Errors
/// `BelowShareThreshold` with fewer entries than t; else `Rejected` with the first fault.
pub fn aggregate_and_decrypt(
    params: &ProtocolParams,
    session: &SessionId,
    epoch: &Epoch,
    canonical: &CanonicalSet,
    posts: impl FnMut(ClientId) -> Option<(VerifyingKey, ClientBulletinEntry)>,
    entries: &[ServerBulletinEntry],
) -> Result<Vec<PlainPoly>, RecipientError> {
    aggregate_and_decrypt_timed(params, session, epoch, canonical, posts, entries, &mut |_| {})
}

/// [`aggregate_and_decrypt`], reporting the end of each phase. This crate has no clock; the caller's observer has.
///
/// # Errors
/// As [`aggregate_and_decrypt`].
pub fn aggregate_and_decrypt_timed(
    params: &ProtocolParams,
    session: &SessionId,
    epoch: &Epoch,
    canonical: &CanonicalSet,
    posts: impl FnMut(ClientId) -> Option<(VerifyingKey, ClientBulletinEntry)>,
    entries: &[ServerBulletinEntry],
    observe: &mut dyn FnMut(Phase),
) -> Result<Vec<PlainPoly>, RecipientError> {
    let posts = sum_posts(params, session, canonical, posts).map_err(RecipientError::Rejected)?;
    observe(Phase::SumPosts);
    let recovered = decrypt_aggregate(&posts, epoch, entries, observe);
    let first = |culprits: &[Culprit], discarded: &[VerifyError]| {
        let culprit = culprits.first().map(|culprit| culprit.fault.clone());
        culprit.or_else(|| discarded.first().cloned())
    };
    let excluded = match &recovered {
        Ok(recovered) => first(&recovered.culprits, &recovered.discarded),
        Err(RecipientError::Rejected(RejectReason::SharesExhausted { culprits, .. })) => first(culprits, &[]),
        Err(RecipientError::Rejected(RejectReason::WithFaults { culprits, discarded, .. })) => {
            first(culprits, discarded)
        }
        Err(_) => None,
    };
    match excluded {
        Some(fault) => Err(RecipientError::Rejected(RejectReason::Entry(fault))),
        None => recovered.map(|recovered| recovered.plaintext),
    }
}

fn sum_posts<'a>(
    params: &'a ProtocolParams,
    session: &SessionId,
    canonical: &'a CanonicalSet,
    mut posts: impl FnMut(ClientId) -> Option<(VerifyingKey, ClientBulletinEntry)>,
) -> Result<PostSum<'a>, RejectReason> {
    // Before a single post is asked for: a set of another size is no client's fault.
    within_bounds(params, canonical)?;
    let mut sum = PostSum::new(params, *session, canonical);
    for &client in canonical.clients() {
        let (key, post) = posts(client).ok_or(RejectReason::PostMissing { client })?;
        let found = post.head.signed.claim().client;
        if found != client {
            return Err(RejectReason::Post(PostFault::WrongClient { expected: client, found }));
        }
        sum.add(&key, &post).map_err(RejectReason::Post)?;
    }
    Ok(sum)
}

/// Recovers a direct round under a policy: posts are asked for one at a time, servers that lie are excluded and named.
///
/// # Errors
/// `BelowShareThreshold` early in a round; else `Rejected` with the reason.
pub fn recover_direct(
    params: &ProtocolParams,
    session: &SessionId,
    epoch: &Epoch,
    policy: &SetPolicy,
    posts: impl FnMut(ClientId) -> Option<(VerifyingKey, ClientBulletinEntry)>,
    entries: &[ServerBulletinEntry],
) -> Result<Recovered, RecipientError> {
    let canonical = policy.admit(params).map_err(RecipientError::Rejected)?;
    let need = params.threshold();
    if entries.len() < usize::from(need) {
        return Err(RecipientError::BelowShareThreshold { have: entries.len(), need });
    }
    let posts = sum_posts(params, session, canonical, posts).map_err(RecipientError::Rejected)?;
    decrypt_aggregate(&posts, epoch, entries, &mut |_| {})
}

/// One attempt under a policy, excluding nobody: for callers that choose the entries themselves.
///
/// # Errors
/// As [`aggregate_and_decrypt`], and the policy's.
pub fn recover_once(
    params: &ProtocolParams,
    session: &SessionId,
    epoch: &Epoch,
    policy: &SetPolicy,
    posts: impl FnMut(ClientId) -> Option<(VerifyingKey, ClientBulletinEntry)>,
    entries: &[ServerBulletinEntry],
) -> Result<Vec<PlainPoly>, RecipientError> {
    let canonical = policy.admit(params).map_err(RecipientError::Rejected)?;
    aggregate_and_decrypt(params, session, epoch, canonical, posts, entries)
}
