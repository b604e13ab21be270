//! What becomes of evidence: a conviction or an acquittal, and why.

use super::Kind;
use crate::fault::{Attribution, Fault};
use crate::ids::{ClientId, SessionId};
use crate::protocol::{
    GroupFault, ItemFault, LaneVerifyError, PostFault, RebuildError, SetupError, VerifyError,
};
use crate::wire::DecodeError;

/// Bytes are no evidence: nothing can be said about anybody.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EvidenceError {
    /// The stated parameters are of no round.
    #[error("the stated parameters are of no round")]
    Parameters(#[source] SetupError),
    /// A part does not parse under the stated parameters.
    #[error("the {part} does not parse")]
    Part {
        /// Which part.
        part: &'static str,
        /// What is wrong with it.
        #[source]
        source: DecodeError,
    },
}

impl Fault for EvidenceError {
    fn code(&self) -> &'static str {
        match self {
            Self::Parameters(_) => "evidence_parameters",
            Self::Part { .. } => "evidence_part",
        }
    }

    fn attribution(&self) -> Attribution {
        Attribution::Nobody
    }
}

/// What checking showed, in the words of the check that a recipient makes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Finding {
    /// A client signed two posts.
    #[error("client {client} signed two different posts for one session")]
    DoublePost {
        /// The client.
        client: ClientId,
    },
    /// About an aggregator's sum.
    #[error(transparent)]
    Group(GroupFault),
    /// About a lane item.
    #[error(transparent)]
    Item(ItemFault),
    /// About a lane's sum.
    #[error(transparent)]
    Lane(LaneVerifyError),
    /// About a post.
    #[error(transparent)]
    Post(PostFault),
    /// About the items of one client together.
    #[error(transparent)]
    Rebuild(RebuildError),
    /// About a server's sum.
    #[error(transparent)]
    Server(VerifyError),
}

impl Fault for Finding {
    fn code(&self) -> &'static str {
        match self {
            Self::DoublePost { .. } => "post_double",
            Self::Group(fault) => fault.code(),
            Self::Item(fault) => fault.code(),
            Self::Lane(error) => error.code(),
            Self::Post(fault) => fault.code(),
            Self::Rebuild(error) => error.code(),
            Self::Server(error) => error.code(),
        }
    }

    fn attribution(&self) -> Attribution {
        match self {
            Self::DoublePost { client } => Attribution::Client(*client),
            Self::Group(fault) => fault.attribution(),
            Self::Item(fault) => fault.attribution(),
            Self::Lane(error) => error.attribution(),
            Self::Post(fault) => fault.attribution(),
            Self::Rebuild(error) => error.attribution(),
            Self::Server(error) => error.attribution(),
        }
    }
}

/// Why evidence convicts nobody.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Acquittal {
    /// The two statements are of two places: two parties, two sessions, or sums for two purposes.
    #[error("the two statements are of two places, and a party may sign for both")]
    Elsewhere,
    /// What the accused signed is right.
    #[error("what the accused signed is right")]
    Holds,
    /// Something is wrong, but not provably by the accused's doing: others can bring it about, or it takes the log to
    /// tell.
    #[error("not proven against the accused")]
    NotProven(#[source] Finding),
    /// A body, or a piece of one, is another than the one that the accused signed or named.
    #[error("a body or a piece of one is not what the accused signed")]
    NotSigned,
    /// One statement, twice.
    #[error("both are the same statement")]
    Same,
}

impl Fault for Acquittal {
    fn code(&self) -> &'static str {
        match self {
            Self::Elsewhere => "evidence_elsewhere",
            Self::Holds => "evidence_holds",
            Self::NotProven(finding) => finding.code(),
            Self::NotSigned => "evidence_not_signed",
            Self::Same => "evidence_same",
        }
    }

    fn attribution(&self) -> Attribution {
        Attribution::Nobody
    }
}

/// The outcome of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Nobody is at fault for all that this shows.
    Acquits(Acquittal),
    /// The accused is at fault.
    Convicts(Finding),
}

/// What evidence shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// What it is evidence of.
    pub kind: Kind,
    /// Whose statement was judged: a party of the evidence's epoch.
    pub accused: Attribution,
    /// The session that the accused's statement is for.
    pub session: SessionId,
    /// What came of it.
    pub outcome: Outcome,
}

impl Verdict {
    /// Who is at fault: a party, or nobody.
    pub const fn convicted(&self) -> Attribution {
        match self.outcome {
            Outcome::Convicts(_) => self.accused,
            Outcome::Acquits(_) => Attribution::Nobody,
        }
    }
}
