//! Verification of what servers publish.

use super::params::ProtocolParams;
use crate::bulletin::{CanonicalSet, Epoch, ServerBulletinEntry};
use crate::cs::OpeningError;
use crate::fault::{Attribution, Fault};
use crate::ids::{EpochDigest, PostsDigest, ServerId, SessionId};
use crate::sig::SigError;
use chipmunk::ring::{Coeff, Cs, Hvc, Poly};

/// Where a recovery stands: reported as each phase ends, so that a caller with a clock can time them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Phase {
    /// The posts were parsed, checked and added.
    SumPosts,
    /// The lanes' openings were verified.
    VerifyLanes,
    /// The summed ciphertext was put together from the lanes' sums.
    Reconstruct,
    /// The servers' openings were verified.
    VerifyOpenings,
    /// The summed key was interpolated.
    Interpolate,
    /// The summed ciphertext was decrypted.
    Decrypt,
}

/// A server's sum was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum VerifyError {
    /// A second, different sum of one server for this session.
    #[error("server {server} signed two different sums for this session")]
    DoubleSum {
        /// The server.
        server: ServerId,
    },
    /// The sum does not open the sum of the commitments.
    #[error("server {server} published a sum that does not open the summed commitments")]
    InvalidServerOpening {
        /// The server.
        server: ServerId,
        /// What is wrong with it.
        #[source]
        source: OpeningError,
    },
    /// The sum is not signed by the server it names. Anyone can write such bytes.
    #[error("a sum in the name of server {server} is not signed by it")]
    Signature {
        /// Whose name it carries.
        server: ServerId,
        /// What is wrong with the signature.
        #[source]
        source: SigError,
    },
    /// The epoch has no such server.
    #[error("a sum of server {server}: the epoch has {servers} servers")]
    UnknownServer {
        /// The id.
        server: ServerId,
        /// Servers of the epoch.
        servers: u16,
    },
    /// The epoch's document given here is not the one of these parameters: its keys say nothing about their servers.
    #[error("sums are checked against epoch document {found}, the parameters are of {expected}")]
    WrongDocument {
        /// The parameters' epoch.
        expected: EpochDigest,
        /// The document's digest.
        found: EpochDigest,
    },
    /// The server names the canonical set and another number of clients, and that is no set at all.
    #[error("server {server} claims {found} clients for a set of {expected}")]
    WrongCount {
        /// The server.
        server: ServerId,
        /// Clients of the set.
        expected: u32,
        /// Clients claimed.
        found: u32,
    },
    /// The server signed other public parameters for this session.
    #[error("server {server} summed under other public parameters")]
    WrongCrs {
        /// The server.
        server: ServerId,
    },
    /// The sum belongs to another deployment.
    #[error("a sum of another deployment")]
    WrongDeployment,
    /// The server signed another epoch's document for this session.
    #[error("server {server} summed under another epoch")]
    WrongEpoch {
        /// The server.
        server: ServerId,
    },
    /// The server summed other posts of the canonical clients: some client signed two, or somebody reads another log.
    #[error("server {server} summed over the canonical clients, but not the posts known here")]
    WrongPosts {
        /// The server.
        server: ServerId,
    },
    /// The sum belongs to another session: whoever delivered it here replayed it.
    #[error("a sum of server {server} for another session")]
    WrongSession {
        /// The server.
        server: ServerId,
    },
    /// The server summed over another set of clients: it lies, or somebody reads another log.
    #[error(
        "server {server} summed over a set of {found} clients that is not the canonical one of {expected}"
    )]
    WrongSet {
        /// The server.
        server: ServerId,
        /// Clients of the canonical set.
        expected: u32,
        /// Clients of the set summed over.
        found: u32,
    },
}

impl Fault for VerifyError {
    fn code(&self) -> &'static str {
        match self {
            Self::DoubleSum { .. } => "sum_double",
            Self::InvalidServerOpening { .. } => "sum_invalid_opening",
            Self::Signature { .. } => "sum_signature",
            Self::UnknownServer { .. } => "sum_unknown_server",
            Self::WrongCount { .. } => "sum_count",
            Self::WrongCrs { .. } => "sum_crs",
            Self::WrongDeployment => "sum_deployment",
            Self::WrongDocument { .. } => "sum_document",
            Self::WrongEpoch { .. } => "sum_epoch",
            Self::WrongPosts { .. } => "sum_posts",
            Self::WrongSession { .. } => "sum_session",
            Self::WrongSet { .. } => "sum_set",
        }
    }

    /// A server is named only for bytes under its own signature and for this session, and only if no honest server
    /// signs them, whatever the others do. The session fixes epoch and parameters. It does not fix the set, nor which
    /// post of a client counts: an honest server that was shown another log than this recipient differs in those.
    fn attribution(&self) -> Attribution {
        match self {
            Self::DoubleSum { server }
            | Self::InvalidServerOpening { server, .. }
            | Self::WrongCount { server, .. }
            | Self::WrongCrs { server }
            | Self::WrongEpoch { server } => Attribution::Server(*server),
            Self::WrongDocument { .. } => Attribution::Caller,
            Self::Signature { .. }
            | Self::UnknownServer { .. }
            | Self::WrongDeployment
            | Self::WrongPosts { .. }
            | Self::WrongSession { .. }
            | Self::WrongSet { .. } => Attribution::Nobody,
        }
    }
}

/// Checks that the epoch's document is that of the parameters.
pub(super) fn check_document(params: &ProtocolParams, epoch: &Epoch) -> Result<(), VerifyError> {
    let (expected, found) = (*params.epoch(), epoch.digest());
    if found == expected { Ok(()) } else { Err(VerifyError::WrongDocument { expected, found }) }
}

/// Checks who signed a sum and what for: everything but the opening itself.
pub(super) fn check_claim(
    params: &ProtocolParams,
    session: &SessionId,
    epoch: &Epoch,
    canonical: &CanonicalSet,
    posts: &PostsDigest,
    entry: &ServerBulletinEntry,
) -> Result<(), VerifyError> {
    check_document(params, epoch)?;
    let claim = entry.claim();
    let server = claim.server;
    let identity = epoch.server(server).filter(|_| server.0 < params.servers());
    let known = identity.ok_or(VerifyError::UnknownServer { server, servers: params.servers() })?;
    entry.verify_signature(&known.identity).map_err(|source| VerifyError::Signature { server, source })?;
    if claim.deployment != *params.deployment() {
        Err(VerifyError::WrongDeployment)
    } else if claim.session != *session {
        Err(VerifyError::WrongSession { server })
    } else if claim.epoch != *params.epoch() {
        Err(VerifyError::WrongEpoch { server })
    } else if claim.crs != *params.crs_digest() {
        Err(VerifyError::WrongCrs { server })
    } else if (claim.set, claim.clients) != (canonical.digest(), canonical.count()) {
        let (expected, found) = (canonical.count(), claim.clients);
        // The digest fixes the number, whatever log the server was shown.
        if claim.set == canonical.digest() {
            Err(VerifyError::WrongCount { server, expected, found })
        } else {
            Err(VerifyError::WrongSet { server, expected, found })
        }
    } else if claim.posts != *posts {
        Err(VerifyError::WrongPosts { server })
    } else {
        Ok(())
    }
}

/// Checks one server's sum against the sum of the canonical clients' commitment roots, and returns the server's share
/// of the summed key. `posts` is the [`posts_digest`](crate::bulletin::posts_digest) of those roots.
///
/// # Errors
/// Each way to fail has its own [`VerifyError`]; whom it names is its attribution.
pub fn verify_server_sum(
    params: &ProtocolParams,
    session: &SessionId,
    epoch: &Epoch,
    canonical: &CanonicalSet,
    posts: &PostsDigest,
    root_sum: &Poly<Hvc, Coeff>,
    entry: &ServerBulletinEntry,
) -> Result<Poly<Cs, Coeff>, VerifyError> {
    check_claim(params, session, epoch, canonical, posts, entry)?;
    let server = entry.claim().server;
    params
        .cs()
        .verify_aggregated(server.0, canonical.count(), entry.opening(), root_sum)
        .map_err(|source| VerifyError::InvalidServerOpening { server, source })
}
