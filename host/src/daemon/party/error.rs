//! Why the bulletin does not give or take something.

use panetiere::fault::{Attribution, Fault, Retry};
use panetiere_api::client::ClientError;

/// The bulletin did not give or take something.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UpstreamError {
    /// It answered what this resource cannot hold.
    #[error("the {what} that {whom} gave cannot be read: {reason}")]
    Answer {
        /// Who answered.
        whom: String,
        /// What was asked for.
        what: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// The request was not answered as it should be.
    #[error("{whom} did not answer with the {what}")]
    Request {
        /// Who was asked.
        whom: String,
        /// What for.
        what: &'static str,
        /// Why.
        #[source]
        source: ClientError,
    },
}

impl UpstreamError {
    /// Whether whoever answers there is not whom the deployment's description names.
    pub const fn is_wrong_server(&self) -> bool {
        matches!(self, Self::Request { source: ClientError::Certificate(_), .. })
    }

    /// The status of a refusal.
    pub fn status(&self) -> Option<u16> {
        match self {
            Self::Request { source, .. } => source.refusal().map(|refusal| refusal.status.as_u16()),
            Self::Answer { .. } => None,
        }
    }

    /// Whether the same request will be refused again, whatever happens: the bulletin understood it and says no.
    pub fn is_final(&self) -> bool {
        self.status()
            .is_some_and(|status| (400..500).contains(&status) && ![401, 403, 408, 429].contains(&status))
    }
}

impl Fault for UpstreamError {
    fn code(&self) -> &'static str {
        match self {
            Self::Answer { .. } => "upstream_answer",
            Self::Request { source, .. } => source.code(),
        }
    }

    fn attribution(&self) -> Attribution {
        match self {
            Self::Answer { .. } => Attribution::Nobody,
            Self::Request { source, .. } => source.attribution(),
        }
    }

    fn retry(&self) -> Retry {
        if self.is_final() { Retry::Never } else { Retry::SameRequest }
    }
}
