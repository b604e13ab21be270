//! Verification of what aggregators publish: who signed it and what for, and, with the posts, whether it is their sum.
//!
//! A group's sum proves nothing by itself. It names its members' statements, and those fix root and ciphertext of each,
//! so the right sum is one string of bytes that anybody with the posts computes. Another one under the aggregator's
//! signature convicts it.

use super::params::ProtocolParams;
use super::post_sum::PostFault;
use super::recipient::RejectReason;
use super::verify::check_document;
use crate::bulletin::{Epoch, GroupSum, SignedGroupClaim, SignedPost, VerifiedPost, ciphertext_digest};
use crate::cs::Commitment;
use crate::fault::{Attribution, Fault, Retry};
use crate::ids::{AggregatorId, ClientId, EpochDigest, SessionId};
use crate::kahe::{CiphertextSum, KaheError};
use crate::sig::{SigError, VerifyingKey};
use chipmunk::ring::{Coeff, Hvc, Poly};
use std::collections::BTreeMap;

/// Where a round's posts are found, part by part: what a part must be follows from the client's signature, so it does
/// not matter who delivers it.
pub trait PostSource {
    /// The statement of a client that counts, which is the log's, and the key that admission bound to the client.
    fn statement(&mut self, client: ClientId) -> Option<(VerifyingKey, SignedPost)>;
    /// The commitment root that it speaks of.
    fn commitment(&mut self, client: ClientId) -> Option<Commitment>;
    /// The packed ciphertext that it speaks of.
    fn ciphertext(&mut self, client: ClientId) -> Option<Vec<u8>>;
}

/// A part of a group's sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SumPart {
    /// The sum of the ciphertexts.
    Ciphertext,
    /// The sum of the commitment roots.
    Root,
}

impl std::fmt::Display for SumPart {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Ciphertext => "ciphertexts",
            Self::Root => "commitment roots",
        })
    }
}

/// A group's sum was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GroupFault {
    /// A second, different sum of the same posts by one aggregator.
    #[error("aggregator {aggregator} signed two different sums of the same posts")]
    DoubleSum {
        /// The aggregator.
        aggregator: AggregatorId,
    },
    /// The aggregator signed a ciphertext that is none.
    #[error("aggregator {aggregator} published a sum that is no ciphertext")]
    Malformed {
        /// The aggregator.
        aggregator: AggregatorId,
        /// What is wrong with it.
        #[source]
        source: KaheError,
    },
    /// A member is not in the canonical set: a sum of another set, or somebody reads another log.
    #[error("aggregator {aggregator} summed client {client}, which is not in the canonical set")]
    NotInSet {
        /// The aggregator.
        aggregator: AggregatorId,
        /// The first such member.
        client: ClientId,
    },
    /// The posts that would tell are not at hand: nothing is said about the aggregator.
    #[error("the group cannot be added again")]
    Posts(#[source] Box<RejectReason>),
    /// The sum is not signed by the aggregator it names. Anyone can write such bytes.
    #[error("a sum in the name of aggregator {aggregator} is not signed by it")]
    Signature {
        /// Whose name it carries.
        aggregator: AggregatorId,
        /// What is wrong with the signature.
        #[source]
        source: SigError,
    },
    /// The epoch has no such aggregator.
    #[error("a sum of aggregator {aggregator}: the epoch has {aggregators} aggregators")]
    UnknownAggregator {
        /// The id.
        aggregator: AggregatorId,
        /// Aggregators of the epoch.
        aggregators: usize,
    },
    /// The sum was made under other public parameters.
    #[error("aggregator {aggregator} summed under other public parameters")]
    WrongCrs {
        /// The aggregator.
        aggregator: AggregatorId,
    },
    /// The sum belongs to another deployment.
    #[error("a group's sum of another deployment")]
    WrongDeployment,
    /// The epoch's document given here is not the one of these parameters: its keys say nothing about their aggregators.
    #[error("group sums are checked against epoch document {found}, the parameters are of {expected}")]
    WrongDocument {
        /// The parameters' epoch.
        expected: EpochDigest,
        /// The document's digest.
        found: EpochDigest,
    },
    /// The sum was made under another epoch's document.
    #[error("aggregator {aggregator} summed under another epoch")]
    WrongEpoch {
        /// The aggregator.
        aggregator: AggregatorId,
    },
    /// The aggregator summed another post of a member than the one that counts: the client signed two.
    #[error("aggregator {aggregator} summed another post of client {client} than the one known here")]
    WrongPosts {
        /// The aggregator.
        aggregator: AggregatorId,
        /// The first such member.
        client: ClientId,
    },
    /// The sum belongs to another session: whoever delivered it here replayed it.
    #[error("a sum of aggregator {aggregator} for another session")]
    WrongSession {
        /// The aggregator.
        aggregator: AggregatorId,
    },
    /// The sum is not that of the posts it names.
    #[error("aggregator {aggregator} published a false sum of its members' {part}")]
    WrongSum {
        /// The aggregator.
        aggregator: AggregatorId,
        /// Which part.
        part: SumPart,
    },
}

impl Fault for GroupFault {
    fn code(&self) -> &'static str {
        match self {
            Self::DoubleSum { .. } => "group_double",
            Self::Malformed { .. } => "group_malformed",
            Self::NotInSet { .. } => "group_not_in_set",
            Self::Posts(reason) => reason.code(),
            Self::Signature { .. } => "group_signature",
            Self::UnknownAggregator { .. } => "group_unknown_aggregator",
            Self::WrongCrs { .. } => "group_crs",
            Self::WrongDeployment => "group_deployment",
            Self::WrongDocument { .. } => "group_document",
            Self::WrongEpoch { .. } => "group_epoch",
            Self::WrongPosts { .. } => "group_posts",
            Self::WrongSession { .. } => "group_session",
            Self::WrongSum { .. } => "group_wrong_sum",
        }
    }

    /// An aggregator is named only for bytes under its own signature that no honest one signs: a false sum, two, or one for
    /// this session under another epoch or other parameters, which the session fixes. Which posts it was sent, and which
    /// set it was told, is not its doing.
    fn attribution(&self) -> Attribution {
        match self {
            Self::DoubleSum { aggregator }
            | Self::Malformed { aggregator, .. }
            | Self::WrongCrs { aggregator }
            | Self::WrongEpoch { aggregator }
            | Self::WrongSum { aggregator, .. } => Attribution::Aggregator(*aggregator),
            Self::Posts(reason) => reason.attribution(),
            Self::WrongDocument { .. } => Attribution::Caller,
            Self::NotInSet { .. }
            | Self::Signature { .. }
            | Self::UnknownAggregator { .. }
            | Self::WrongDeployment
            | Self::WrongPosts { .. }
            | Self::WrongSession { .. } => Attribution::Nobody,
        }
    }

    fn retry(&self) -> Retry {
        if let Self::Posts(reason) = self { reason.retry() } else { Retry::Never }
    }
}

/// Checks who signed a group's sum and what for: everything but the sum itself. `statements` are the posts that count.
pub(super) fn check_group_claim(
    params: &ProtocolParams,
    session: &SessionId,
    epoch: &Epoch,
    statements: &BTreeMap<ClientId, VerifiedPost>,
    group: &GroupSum,
) -> Result<(), GroupFault> {
    check_group_context(params, session, epoch, group.signed())?;
    let aggregator = group.aggregator();
    for (&client, statement) in &group.claim().members {
        match statements.get(&client) {
            None => return Err(GroupFault::NotInSet { aggregator, client }),
            Some(post) if post.statement().digest() != *statement => {
                return Err(GroupFault::WrongPosts { aggregator, client });
            }
            Some(_) => {}
        }
    }
    Ok(())
}

/// Checks everything but which posts are summed, and the sum.
pub(crate) fn check_group_context(
    params: &ProtocolParams,
    session: &SessionId,
    epoch: &Epoch,
    group: &SignedGroupClaim,
) -> Result<(), GroupFault> {
    if check_document(params, epoch).is_err() {
        return Err(GroupFault::WrongDocument { expected: *params.epoch(), found: epoch.digest() });
    }
    let (claim, aggregator) = (group.claim(), group.claim().aggregator);
    let unknown = GroupFault::UnknownAggregator { aggregator, aggregators: epoch.aggregators().len() };
    let key = epoch.aggregator(aggregator).ok_or(unknown)?;
    group.verify_signature(key).map_err(|source| GroupFault::Signature { aggregator, source })?;
    if claim.deployment != *params.deployment() {
        Err(GroupFault::WrongDeployment)
    } else if claim.session != *session {
        Err(GroupFault::WrongSession { aggregator })
    } else if claim.epoch != *params.epoch() {
        Err(GroupFault::WrongEpoch { aggregator })
    } else if claim.crs != *params.crs_digest() {
        Err(GroupFault::WrongCrs { aggregator })
    } else {
        Ok(())
    }
}

/// The checked statement of a client that counts.
pub(super) fn checked_statement(
    params: &ProtocolParams,
    session: &SessionId,
    client: ClientId,
    source: &mut impl PostSource,
) -> Result<VerifiedPost, RejectReason> {
    let (key, signed) = source.statement(client).ok_or(RejectReason::PostMissing { client })?;
    let found = signed.claim().client;
    if found != client {
        return Err(RejectReason::Post(PostFault::WrongClient { expected: client, found }));
    }
    signed.check(params, session, &key).map_err(|error| RejectReason::Post(PostFault::Statement(error)))
}

/// The sum of the commitment roots of some posts.
pub(super) fn sum_roots<'p>(
    params: &ProtocolParams,
    posts: impl IntoIterator<Item = &'p VerifiedPost>,
    source: &mut impl PostSource,
) -> Result<Poly<Hvc, Coeff>, RejectReason> {
    let mut sum = Poly::zero();
    for post in posts {
        let client = post.client();
        let commitment = source.commitment(client).ok_or(RejectReason::PostMissing { client })?;
        if commitment.digest(params.lattice()) != *post.root() {
            return Err(RejectReason::Post(PostFault::BodyMismatch { client, part: "commitment root" }));
        }
        params.lattice().hvc.add_assign(&mut sum, commitment.root());
    }
    Ok(sum)
}

/// The sum of the ciphertexts of some posts: one at a time.
pub(super) fn sum_ciphertexts<'p>(
    params: &ProtocolParams,
    posts: impl IntoIterator<Item = &'p VerifiedPost>,
    source: &mut impl PostSource,
) -> Result<CiphertextSum, RejectReason> {
    let mut sum = CiphertextSum::new(params.kahe());
    for post in posts {
        let client = post.client();
        let ciphertext = source.ciphertext(client).ok_or(RejectReason::PostMissing { client })?;
        if ciphertext_digest(&ciphertext) != post.statement().ciphertext {
            return Err(RejectReason::Post(PostFault::BodyMismatch { client, part: "ciphertext" }));
        }
        sum.add(&ciphertext)
            .map_err(|source| RejectReason::Post(PostFault::Ciphertext { client, source }))?;
    }
    Ok(sum)
}

/// Whether a packed ciphertext sum is this one.
pub(super) fn is_sum(params: &ProtocolParams, group: &GroupSum, sum: &CiphertextSum) -> bool {
    debug_assert_eq!(group.ciphertext().len(), params.kahe().ciphertext_len());
    group.ciphertext() == sum.to_packed()
}

/// Adds a group again from its posts, as anybody can who has them. `Ok` means that the sum is right.
///
/// # Errors
/// Each way to fail has its own [`GroupFault`]; `WrongSum` convicts the aggregator, `Posts` says that nothing can be
/// said without other posts.
pub fn verify_group_sum(
    params: &ProtocolParams,
    session: &SessionId,
    epoch: &Epoch,
    group: &GroupSum,
    source: &mut impl PostSource,
) -> Result<(), GroupFault> {
    check_group_context(params, session, epoch, group.signed())?;
    let aggregator = group.aggregator();
    let posts = |reason| GroupFault::Posts(Box::new(reason));
    let mut members = Vec::new();
    for (&client, statement) in &group.claim().members {
        let post = checked_statement(params, session, client, source).map_err(posts)?;
        if post.statement().digest() != *statement {
            return Err(GroupFault::WrongPosts { aggregator, client });
        }
        members.push(post);
    }
    if sum_roots(params, &members, source).map_err(posts)? != *group.root().root() {
        return Err(GroupFault::WrongSum { aggregator, part: SumPart::Root });
    }
    let ciphertexts = sum_ciphertexts(params, &members, source).map_err(posts)?;
    if is_sum(params, group, &ciphertexts) {
        Ok(())
    } else {
        Err(GroupFault::WrongSum { aggregator, part: SumPart::Ciphertext })
    }
}
