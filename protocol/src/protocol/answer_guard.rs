//! What a client tells when servers complain about it, and what it never tells.
//!
//! Every answer reveals one share of the client's key. With a_max = t-1-f answers and the f shares that faulty servers
//! have anyway, one share is missing. So the guard counts the servers that complain over the whole session and over
//! *all* logs it is shown, and beyond a_max it is silent: what it has revealed before were complaints that it had counted,
//! so they were at most a_max, whatever it is shown in whatever order.

use super::complaint::{CheckedFault, verify_checked, verify_complaint};
use super::params::ProtocolParams;
use super::verify::check_document;
use crate::bulletin::{Answer, Checked, Epoch, StatementContext, VerifiedPost};
use crate::cs::{FreshOpening, OpeningError};
use crate::fault::{Attribution, Fault};
use crate::ids::{ServerId, SessionId};
use crate::sig::SigningKey;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A guard was not made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GuardError {
    /// The epoch's document is not that of the parameters.
    #[error("the epoch's document is another one")]
    Document(#[source] CheckedFault),
    /// Other openings than the post's: an answer with one would be a bad one.
    #[error("the opening of server {server} does not open the post's commitment")]
    Opening {
        /// The server.
        server: ServerId,
        /// What is wrong with it.
        #[source]
        source: OpeningError,
    },
    /// Not one opening a server.
    #[error("{found} openings for {servers} servers")]
    Openings {
        /// Servers of the round.
        servers: u16,
        /// Openings given.
        found: usize,
    },
}

impl Fault for GuardError {
    fn code(&self) -> &'static str {
        match self {
            Self::Document(fault) => fault.code(),
            Self::Opening { .. } => "guard_opening",
            Self::Openings { .. } => "guard_openings",
        }
    }

    fn attribution(&self) -> Attribution {
        Attribution::Caller
    }
}

/// Where a client stands in its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Standing {
    /// It answers the complaints there are, and those that may still come up to the cap.
    Answering,
    /// More servers complain than it may answer: it says nothing more, and will not be in the set.
    Silent,
    /// Some server has not checked yet, and the deadline has not passed.
    Waiting,
}

/// A client's openings of one session, and the rule by which they leave it. They are nowhere else: dropped with the guard,
/// they are wiped, and then no complaint can be answered.
pub struct AnswerGuard {
    params: Arc<ProtocolParams>,
    session: SessionId,
    epoch: Epoch,
    post: VerifiedPost,
    /// What has not been revealed.
    openings: BTreeMap<ServerId, FreshOpening>,
    /// Servers that have checked, in some log.
    checked: BTreeSet<ServerId>,
    /// Servers that complain, in any log.
    complaining: BTreeSet<ServerId>,
    deadline_passed: bool,
}

impl std::fmt::Debug for AnswerGuard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (client, complaints) = (self.post.client(), self.complaining.len());
        write!(f, "AnswerGuard(client {client}, {complaints} complaints, {} revealed)", self.revealed())
    }
}

impl AnswerGuard {
    /// Guards the openings behind the client's own post, in the order of the servers: those of
    /// [`run_client_round_with_openings`](super::run_client_round_with_openings).
    ///
    /// # Errors
    /// `Openings` or `Opening` unless there is one a server and each opens the post's commitment; `Document` for the
    /// document of another epoch.
    pub fn new(
        params: Arc<ProtocolParams>,
        epoch: Epoch,
        post: VerifiedPost,
        openings: Vec<FreshOpening>,
    ) -> Result<Self, GuardError> {
        check_document(&params, &epoch)
            .map_err(|error| GuardError::Document(CheckedFault::Document(error)))?;
        let (servers, found) = (params.servers(), openings.len());
        if found != usize::from(servers) {
            return Err(GuardError::Openings { servers, found });
        }
        let openings: BTreeMap<ServerId, FreshOpening> = (0..servers).map(ServerId).zip(openings).collect();
        for (&server, opening) in &openings {
            params
                .cs()
                .verify_fresh(server.0, opening, post.root())
                .map_err(|source| GuardError::Opening { server, source })?;
        }
        let session = post.statement().session;
        let (checked, complaining) = (BTreeSet::new(), BTreeSet::new());
        Ok(Self { params, session, epoch, post, openings, checked, complaining, deadline_passed: false })
    }

    /// Takes a server's leaf, from whatever log. What a server says in one log and not in another counts.
    ///
    /// # Errors
    /// As [`verify_checked`], and `OtherStatement` for a complaint about another statement than this post's. The
    /// leaf then counts as none.
    pub fn observe(&mut self, checked: &Checked) -> Result<(), CheckedFault> {
        verify_checked(&self.params, &self.session, &self.epoch, checked)?;
        if verify_complaint(checked, &self.post)? {
            self.complaining.insert(checked.server());
        }
        self.checked.insert(checked.server());
        Ok(())
    }

    /// The deadline for `Checked` leaves has passed: who has not checked by now forfeits its complaints.
    pub const fn deadline(&mut self) {
        self.deadline_passed = true;
    }

    /// Where the client stands.
    pub fn standing(&self) -> Standing {
        if self.complaining.len() > usize::from(self.params.max_answers()) {
            Standing::Silent
        } else if self.deadline_passed || self.checked.len() == usize::from(self.params.servers()) {
            Standing::Answering
        } else {
            Standing::Waiting
        }
    }

    /// Openings that were revealed: never more than a_max.
    pub fn revealed(&self) -> usize {
        usize::from(self.params.servers()) - self.openings.len()
    }

    /// The answers that are due and were not given yet, by server: none unless the client is
    /// [`Answering`](Standing::Answering). Each is given once; the caller keeps the bytes and sends the same ones again.
    pub fn answers(&mut self, key: &SigningKey) -> Vec<Answer> {
        if self.standing() != Standing::Answering {
            return Vec::new();
        }
        let context = StatementContext::new(&self.params, &self.session);
        let client = self.post.client();
        let mut answers = Vec::new();
        for &server in &self.complaining {
            if let Some(opening) = self.openings.remove(&server) {
                answers.push(Answer::sign(context, client, server, &opening, &self.params, key));
            }
        }
        answers
    }
}
