//! Verification of what lanes publish.

use super::params::ProtocolParams;
use crate::bulletin::{CanonicalSet, Epoch, LaneBulletinEntry, LanePurpose};
use crate::cs::OpeningError;
use crate::fault::{Attribution, Fault};
use crate::ids::{EpochDigest, NodeId, PostsDigest, SessionId};
use crate::rs::Share;
use crate::sig::SigError;
use chipmunk::ring::{Coeff, Lane, Poly};

/// A lane's sum was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LaneVerifyError {
    /// A second, different sum of one lane for the same place.
    #[error("lane {lane} signed two different sums for this session")]
    DoubleSum {
        /// The lane.
        lane: NodeId,
    },
    /// The sum does not open the sum of the commitments.
    #[error("lane {lane} published a sum that does not open the summed commitments")]
    LaneOpeningFailed {
        /// The lane.
        lane: NodeId,
        /// What is wrong with it.
        #[source]
        source: OpeningError,
    },
    /// The sum is not signed by the lane it names. Anyone can write such bytes.
    #[error("a sum in the name of lane {lane} is not signed by it")]
    Signature {
        /// Whose name it carries.
        lane: NodeId,
        /// What is wrong with the signature.
        #[source]
        source: SigError,
    },
    /// The epoch or the parameters have no such lane.
    #[error("a sum of lane {lane}: there are {lanes} lanes")]
    UnknownLane {
        /// The id.
        lane: NodeId,
        /// Lanes of the deployment.
        lanes: u16,
    },
    /// The lane names the set asked for and another number of clients, and that is no set at all.
    #[error("lane {lane} claims {found} clients for a set of {expected}")]
    WrongCount {
        /// The lane.
        lane: NodeId,
        /// Clients of the set.
        expected: u32,
        /// Clients claimed.
        found: u32,
    },
    /// The lane summed under other public parameters.
    #[error("lane {lane} summed under other public parameters")]
    WrongCrs {
        /// The lane.
        lane: NodeId,
    },
    /// The sum belongs to another deployment.
    #[error("a sum of another deployment")]
    WrongDeployment,
    /// The document of an epoch is not that of the parameters.
    #[error("the document is of epoch {found}, the parameters are of {expected}")]
    WrongDocument {
        /// The parameters' epoch.
        expected: EpochDigest,
        /// The document's digest.
        found: EpochDigest,
    },
    /// The lane summed under another epoch.
    #[error("lane {lane} summed under another epoch")]
    WrongEpoch {
        /// The lane.
        lane: NodeId,
    },
    /// The sum was made for something else: whoever delivered it here misused it.
    #[error("a sum of lane {lane} made for the {found} where one for the {expected} is needed")]
    WrongPurpose {
        /// The lane.
        lane: NodeId,
        /// What it is needed for.
        expected: LanePurpose,
        /// What it was made for.
        found: LanePurpose,
    },
    /// The sum belongs to another session: whoever delivered it here replayed it.
    #[error("a sum of lane {lane} for another session")]
    WrongSession {
        /// The lane.
        lane: NodeId,
    },
    /// The lane summed other posts of the set's clients: some client signed two, or somebody reads another log.
    #[error("lane {lane} summed over the clients asked for, but not the posts known here")]
    WrongPosts {
        /// The lane.
        lane: NodeId,
        /// What it is needed for.
        purpose: LanePurpose,
    },
    /// The lane summed over another set of clients: it lies, or somebody reads another log. For a check, lanes are
    /// asked for many sets, and another one is only misdelivered.
    #[error("lane {lane} summed over a set of {found} clients that is not the {expected} asked for")]
    WrongSet {
        /// The lane.
        lane: NodeId,
        /// What it is needed for.
        purpose: LanePurpose,
        /// Clients of the set asked for.
        expected: u32,
        /// Clients of the set summed over.
        found: u32,
    },
}

impl Fault for LaneVerifyError {
    fn code(&self) -> &'static str {
        match self {
            Self::DoubleSum { .. } => "lane_sum_double",
            Self::LaneOpeningFailed { .. } => "lane_sum_opening",
            Self::Signature { .. } => "lane_sum_signature",
            Self::UnknownLane { .. } => "lane_sum_unknown_lane",
            Self::WrongCount { .. } => "lane_sum_count",
            Self::WrongCrs { .. } => "lane_sum_crs",
            Self::WrongDeployment => "lane_sum_deployment",
            Self::WrongEpoch { .. } => "lane_sum_epoch",
            Self::WrongDocument { .. } => "lane_sum_document",
            Self::WrongPosts { .. } => "lane_sum_posts",
            Self::WrongPurpose { .. } => "lane_sum_purpose",
            Self::WrongSession { .. } => "lane_sum_session",
            Self::WrongSet { .. } => "lane_sum_set",
        }
    }

    /// A lane is named only for bytes under its own signature, for this session and this purpose, and only if no honest
    /// lane signs them whatever the others do: the session fixes epoch and parameters, and neither the set nor which
    /// post of a client counts.
    fn attribution(&self) -> Attribution {
        match self {
            Self::DoubleSum { lane }
            | Self::LaneOpeningFailed { lane, .. }
            | Self::WrongCount { lane, .. }
            | Self::WrongCrs { lane }
            | Self::WrongEpoch { lane } => Attribution::Lane(*lane),
            Self::WrongDocument { .. } => Attribution::Caller,
            Self::Signature { .. }
            | Self::UnknownLane { .. }
            | Self::WrongDeployment
            | Self::WrongPosts { .. }
            | Self::WrongPurpose { .. }
            | Self::WrongSession { .. }
            | Self::WrongSet { .. } => Attribution::Nobody,
        }
    }
}

/// What a lane's sum is held against.
#[derive(Clone, Copy, Debug)]
pub struct LanePlace<'a> {
    /// The set summed over.
    pub set: &'a CanonicalSet,
    /// What for.
    pub purpose: LanePurpose,
    /// [`posts_digest`](crate::bulletin::posts_digest) of the set's share commitments.
    pub posts: &'a PostsDigest,
    /// The sum of the roots of the set's share commitments.
    pub roots: &'a Poly<Lane, Coeff>,
}

/// Checks one lane's sum against the sum of the clients' share commitment roots, and returns the sum of the lane's
/// shares.
///
/// # Errors
/// Each way to fail has its own [`LaneVerifyError`]; whom it names is its attribution.
pub fn verify_lane_sum(
    params: &ProtocolParams,
    session: &SessionId,
    epoch: &Epoch,
    place: LanePlace<'_>,
    entry: &LaneBulletinEntry,
) -> Result<Share, LaneVerifyError> {
    let LanePlace { set, purpose, posts, roots } = place;
    let (expected, found) = (*params.epoch(), epoch.digest());
    if found != expected {
        return Err(LaneVerifyError::WrongDocument { expected, found });
    }
    let claim = entry.claim();
    let lane = claim.lane;
    let code = params.lane_code();
    let lanes = code.map_or(0, |code| code.shape().lanes);
    let known = code.filter(|_| lane.0 < lanes).zip(epoch.lane(lane));
    let (code, key) = known.ok_or(LaneVerifyError::UnknownLane { lane, lanes })?;
    entry.verify_signature(key).map_err(|source| LaneVerifyError::Signature { lane, source })?;
    if claim.deployment != *params.deployment() {
        return Err(LaneVerifyError::WrongDeployment);
    } else if claim.session != *session {
        return Err(LaneVerifyError::WrongSession { lane });
    } else if claim.purpose != purpose {
        return Err(LaneVerifyError::WrongPurpose { lane, expected: purpose, found: claim.purpose });
    } else if claim.epoch != *params.epoch() {
        return Err(LaneVerifyError::WrongEpoch { lane });
    } else if claim.crs != *params.crs_digest() {
        return Err(LaneVerifyError::WrongCrs { lane });
    } else if (claim.set, claim.clients) != (set.digest(), set.count()) {
        let (expected, found) = (set.count(), claim.clients);
        // The digest fixes the number, whatever log the lane was shown.
        if claim.set == set.digest() {
            return Err(LaneVerifyError::WrongCount { lane, expected, found });
        }
        return Err(LaneVerifyError::WrongSet { lane, purpose, expected, found });
    } else if claim.posts != *posts {
        return Err(LaneVerifyError::WrongPosts { lane, purpose });
    }
    code.commitment()
        .verify_aggregated(lane, set.count(), entry.opening(), roots)
        .map_err(|source| LaneVerifyError::LaneOpeningFailed { lane, source })
}
