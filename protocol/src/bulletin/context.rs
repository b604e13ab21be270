//! What every statement of a round begins with.

use crate::fault::{Attribution, Fault};
use crate::ids::{CrsDigest, DeploymentId, EpochDigest, SessionId};
use crate::protocol::ProtocolParams;
use crate::wire::{Decode, DecodeError, Encode, Reader};

/// The round that a statement is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatementContext {
    /// The deployment.
    pub deployment: DeploymentId,
    /// The epoch's document.
    pub epoch: EpochDigest,
    /// The round.
    pub session: SessionId,
    /// The public parameters.
    pub crs: CrsDigest,
}

/// A statement was made for another round. It was replayed, or its author was misled: nobody is named.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ContextError {
    /// Other public parameters.
    #[error("a statement under public parameters {found}, this round has {expected}")]
    WrongCrs {
        /// Those of the round.
        expected: CrsDigest,
        /// Those stated.
        found: CrsDigest,
    },
    /// Another deployment.
    #[error("a statement of deployment {found}, this is {expected}")]
    WrongDeployment {
        /// That of the round.
        expected: DeploymentId,
        /// The one stated.
        found: DeploymentId,
    },
    /// Another epoch.
    #[error("a statement of epoch {found}, this round is in {expected}")]
    WrongEpoch {
        /// That of the round.
        expected: EpochDigest,
        /// The one stated.
        found: EpochDigest,
    },
    /// Another session.
    #[error("a statement of session {found}, this is {expected}")]
    WrongSession {
        /// That of the round.
        expected: SessionId,
        /// The one stated.
        found: SessionId,
    },
}

impl Fault for ContextError {
    fn code(&self) -> &'static str {
        match self {
            Self::WrongCrs { .. } => "context_crs",
            Self::WrongDeployment { .. } => "context_deployment",
            Self::WrongEpoch { .. } => "context_epoch",
            Self::WrongSession { .. } => "context_session",
        }
    }

    fn attribution(&self) -> Attribution {
        Attribution::Nobody
    }
}

impl StatementContext {
    /// Bytes of a context.
    pub const LEN: usize = 4 * 32;

    /// That of a session under these parameters.
    pub const fn new(params: &ProtocolParams, session: &SessionId) -> Self {
        Self {
            deployment: *params.deployment(),
            epoch: *params.epoch(),
            session: *session,
            crs: *params.crs_digest(),
        }
    }

    /// Checks that this is the context of a session under these parameters.
    ///
    /// # Errors
    /// The first part that differs.
    pub fn check(&self, params: &ProtocolParams, session: &SessionId) -> Result<(), ContextError> {
        let of = Self::new(params, session);
        if self.deployment != of.deployment {
            Err(ContextError::WrongDeployment { expected: of.deployment, found: self.deployment })
        } else if self.session != of.session {
            Err(ContextError::WrongSession { expected: of.session, found: self.session })
        } else if self.epoch != of.epoch {
            Err(ContextError::WrongEpoch { expected: of.epoch, found: self.epoch })
        } else if self.crs != of.crs {
            Err(ContextError::WrongCrs { expected: of.crs, found: self.crs })
        } else {
            Ok(())
        }
    }
}

impl Encode for StatementContext {
    fn encode(&self, out: &mut Vec<u8>) {
        self.deployment.encode(out);
        self.epoch.encode(out);
        self.session.encode(out);
        self.crs.encode(out);
    }

    fn encoded_len(&self) -> usize {
        Self::LEN
    }
}

impl Decode for StatementContext {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            deployment: DeploymentId::decode(reader)?,
            epoch: EpochDigest::decode(reader)?,
            session: SessionId::decode(reader)?,
            crs: CrsDigest::decode(reader)?,
        })
    }
}
