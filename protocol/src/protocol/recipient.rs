//! Recovery: add the posts of the canonical set, verify the servers' sums, exclude those that lie, interpolate the
//! summed key, decrypt the sum.
//!
//! Posts are added one at a time, so memory does not grow with the number of clients. Every rejection is a value with
//! its reason; a server is a culprit only for bytes under its own signature.

use super::params::ProtocolParams;
use super::policy::SetPolicy;
use super::post_sum::{PostFault, PostSum};
use super::verify::{Phase, VerifyError, check_document, verify_server_sum};
use crate::bulletin::{CanonicalSet, ClientBulletinEntry, Epoch, ServerBulletinEntry};
use crate::fault::{Attribution, Fault, Retry};
use crate::ids::{AggregatorId, ClientId, ServerId, SessionId};
use crate::kahe::{KaheError, SummedKey};
use crate::plaintext::PlainPoly;
use crate::sig::VerifyingKey;
use crate::sss::ShareError;
use chipmunk::ring::{Coeff, Cs, Poly};
use rayon::prelude::*;
use std::collections::BTreeMap;

/// A server that lied, and what about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Culprit {
    /// The server.
    pub server: ServerId,
    /// What it signed that is false.
    pub fault: VerifyError,
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
    /// The decryption was refused. Some client's noise or key is out of bounds; nobody can be named.
    #[error("the sum does not decrypt")]
    Noise(#[source] KaheError),
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
    },
}

impl Fault for RecipientError {
    fn code(&self) -> &'static str {
        match self {
            Self::BelowShareThreshold { .. } => "below_share_threshold",
            Self::Rejected(reason) => reason.code(),
        }
    }

    fn attribution(&self) -> Attribution {
        match self {
            Self::BelowShareThreshold { .. } => Attribution::Nobody,
            Self::Rejected(reason) => reason.attribution(),
        }
    }

    fn retry(&self) -> Retry {
        match self {
            Self::BelowShareThreshold { .. } => Retry::SameRequest,
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
            Self::Noise(error) => error.code(),
            Self::Post(fault) => fault.code(),
            Self::PostMissing { .. } => "post_missing",
            Self::Shares(error) => error.code(),
            Self::SharesExhausted { .. } => "shares_exhausted",
        }
    }

    fn attribution(&self) -> Attribution {
        match self {
            Self::AboveMax { .. } | Self::BelowFloor { .. } => Attribution::Operator,
            Self::Entry(error) => error.attribution(),
            Self::Noise(error) => error.attribution(),
            Self::Post(fault) => fault.attribution(),
            Self::Shares(error) => error.attribution(),
            // The culprits are in the value; more servers than one may be named there.
            Self::GroupGap { .. }
            | Self::GroupOverlap { .. }
            | Self::PostMissing { .. }
            | Self::SharesExhausted { .. } => Attribution::Nobody,
        }
    }

    fn retry(&self) -> Retry {
        match self {
            Self::Post(fault) => fault.retry(),
            Self::GroupGap { .. } | Self::PostMissing { .. } | Self::SharesExhausted { .. } => {
                Retry::SameRequest
            }
            _ => Retry::Never,
        }
    }
}

/// Verified shares of the summed key by server, and what was excluded on the way.
pub(super) struct Judged {
    pub shares: BTreeMap<ServerId, Poly<Cs, Coeff>>,
    pub culprits: BTreeMap<ServerId, VerifyError>,
    pub discarded: Vec<VerifyError>,
}

/// Verifies every entry once, in parallel, and sorts servers into honest and lying. A server that signed two different
/// sums for this session is a culprit whatever they say.
pub(super) fn judge(
    entries: &[ServerBulletinEntry],
    verify: impl Fn(&ServerBulletinEntry) -> Result<Poly<Cs, Coeff>, VerifyError> + Sync + Send,
) -> Judged {
    let verdicts: Vec<_> = entries.par_iter().map(verify).collect();
    let mut elsewhere: Vec<(ServerId, VerifyError)> = Vec::new();
    let mut judged = Judged { shares: BTreeMap::new(), culprits: BTreeMap::new(), discarded: Vec::new() };
    let mut signed: BTreeMap<ServerId, &ServerBulletinEntry> = BTreeMap::new();
    for (entry, verdict) in entries.iter().zip(verdicts) {
        let server = entry.claim().server;
        match verdict {
            Ok(share) => {
                judged.shares.insert(server, share);
            }
            Err(error) if error.attribution() == Attribution::Server(server) => {
                judged.culprits.entry(server).or_insert(error);
            }
            // No lie by itself, but an answer for this session: besides another one it is.
            Err(error @ (VerifyError::WrongPosts { .. } | VerifyError::WrongSet { .. })) => {
                elsewhere.push((server, error));
            }
            Err(error) => {
                judged.discarded.push(error);
                continue;
            }
        }
        // The signature covers claim and opening, so entries that differ in them are two statements.
        let first = *signed.entry(server).or_insert(entry);
        if first.claim() != entry.claim() || first.opening() != entry.opening() {
            judged.culprits.insert(server, VerifyError::DoubleSum { server });
        }
    }
    judged.shares.retain(|server, _| !judged.culprits.contains_key(server));
    elsewhere.retain(|(server, _)| !judged.culprits.contains_key(server));
    judged.discarded.extend(elsewhere.into_iter().map(|(_, error)| error));
    judged
}

/// The summed key that the verified shares give.
pub(super) fn summed_key(
    params: &ProtocolParams,
    shares: &BTreeMap<ServerId, Poly<Cs, Coeff>>,
) -> Result<SummedKey, RejectReason> {
    let samples: Vec<_> = shares.iter().map(|(server, share)| (*server, share)).collect();
    let key = params.sharing().recover(params.lattice().cs(), &samples).map_err(RejectReason::Shares)?;
    Ok(SummedKey::from_cs(params.lattice(), &key))
}

fn finish(
    posts: &PostSum<'_>,
    shares: &BTreeMap<ServerId, Poly<Cs, Coeff>>,
    observe: &mut dyn FnMut(Phase),
) -> Result<Vec<PlainPoly>, RejectReason> {
    let params = posts.params();
    let key = summed_key(params, shares)?;
    observe(Phase::Interpolate);
    let plaintext = params.kahe().decrypt(posts.ciphertexts(), &key).map_err(RejectReason::Noise)?;
    observe(Phase::Decrypt);
    Ok(plaintext)
}

fn within_bounds(params: &ProtocolParams, canonical: &CanonicalSet) -> Result<(), RejectReason> {
    let policy = SetPolicy::anchored(canonical.clone(), params.min_clients(), params.max_clients());
    policy.admit(params).map(|_| ())
}

fn complete<'a>(posts: &PostSum<'a>) -> Result<&'a CanonicalSet, RejectReason> {
    within_bounds(posts.params(), posts.canonical())?;
    match posts.missing() {
        Some(client) => Err(RejectReason::PostMissing { client }),
        None => Ok(posts.canonical()),
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
    let rejected = |error| RecipientError::Rejected(RejectReason::Entry(error));
    check_document(posts.params(), epoch).map_err(rejected)?;
    let canonical = complete(posts).map_err(RecipientError::Rejected)?.clone();
    let (params, session, roots, digest) = (posts.params(), posts.session(), posts.roots(), posts.digest());
    let Judged { shares, culprits, discarded } =
        judge(entries, |entry| verify_server_sum(params, session, epoch, &canonical, &digest, roots, entry));
    observe(Phase::VerifyOpenings);
    let culprits = culprits.into_iter().map(|(server, fault)| Culprit { server, fault }).collect();
    if shares.len() < usize::from(need) {
        let reason = RejectReason::SharesExhausted { remaining: shares.len(), need, culprits };
        return Err(RecipientError::Rejected(reason));
    }
    let plaintext = finish(posts, &shares, observe).map_err(RecipientError::Rejected)?;
    Ok(Recovered { canonical, plaintext, culprits, discarded })
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
    let excluded = |recovered: &Recovered| {
        let culprit = recovered.culprits.first().map(|culprit| culprit.fault.clone());
        culprit.or_else(|| recovered.discarded.first().cloned())
    };
    match recovered {
        Ok(recovered) => match excluded(&recovered) {
            Some(fault) => Err(RecipientError::Rejected(RejectReason::Entry(fault))),
            None => Ok(recovered.plaintext),
        },
        Err(RecipientError::Rejected(RejectReason::SharesExhausted { culprits, .. }))
            if !culprits.is_empty() =>
        {
            Err(RecipientError::Rejected(RejectReason::Entry(culprits[0].fault.clone())))
        }
        Err(error) => Err(error),
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
