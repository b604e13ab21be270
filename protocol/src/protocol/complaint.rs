//! Complaint and answer: what happens when an envelope that a client signed does not open. protocol.md section 9.
//!
//! A server complains in its one `Checked` leaf; the client publishes that server's opening, at most a_max = t-1-f of
//! them in a session ([`AnswerGuard`](super::AnswerGuard)); [`set_rule`] says who is in the set then. All of it is a pure
//! function of the log, and nobody is named for a complaint: whether a server lied about an envelope only its key shows.

use super::params::ProtocolParams;
use super::server::{EnvelopeFault, ServerIdentity, unseal_opening};
use super::verify::{VerifyError, check_document};
use crate::bulletin::{Answer, Checked, ContextError, Envelope, Epoch, VerifiedPost};
use crate::cs::{FreshOpening, OpeningError, VerifiedOpening};
use crate::fault::{Attribution, Fault, Retry};
use crate::ids::{ClientId, ServerId, SessionId, StatementDigest};
use crate::sig::{SigError, VerifyingKey};
use crate::wire::DecodeError;
use std::collections::{BTreeMap, BTreeSet};

/// There is nothing to complain about.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NoComplaint {
    /// The envelope opens, and what is in it opens the client's commitment.
    #[error("the envelope of client {client} is good")]
    Good {
        /// The client.
        client: ClientId,
    },
    /// What is wrong is not shown to be the client's doing: bytes that it did not sign, or this server itself.
    #[error("the fault is not the client's")]
    NotTheClient(#[source] EnvelopeFault),
}

impl Fault for NoComplaint {
    fn code(&self) -> &'static str {
        match self {
            Self::Good { .. } => "complaint_good_envelope",
            Self::NotTheClient(fault) => fault.code(),
        }
    }

    fn attribution(&self) -> Attribution {
        match self {
            Self::Good { .. } => Attribution::Caller,
            Self::NotTheClient(fault) => fault.attribution(),
        }
    }

    fn retry(&self) -> Retry {
        if let Self::NotTheClient(fault) = self { fault.retry() } else { Retry::Never }
    }
}

/// The complaint about an envelope, if there is reason for one: its bytes are those that the client signed, opening or
/// verifying them fails, and this server has just passed its self-test.
///
/// # Errors
/// `Good` for a good envelope; `NotTheClient` for undelivered bytes and this server's own faults.
pub fn complain(
    identity: &ServerIdentity,
    params: &ProtocolParams,
    post: &VerifiedPost,
    envelope: &Envelope,
) -> Result<StatementDigest, NoComplaint> {
    let client = post.client();
    match unseal_opening(identity, params, post, envelope) {
        Ok(_) => Err(NoComplaint::Good { client }),
        // The client is named only after the bytes were found under its signature and the self-test has passed.
        Err(fault) if fault.attribution() == Attribution::Client(client) => Ok(post.statement().digest()),
        Err(fault) => Err(NoComplaint::NotTheClient(fault)),
    }
}

/// A server's `Checked` leaf, or a complaint in it, was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CheckedFault {
    /// It was made for another round.
    #[error("a statement of server {server} for another round")]
    Context {
        /// The server.
        server: ServerId,
        /// What differs.
        #[source]
        source: ContextError,
    },
    /// The epoch's document given here is not the one of these parameters.
    #[error("the epoch's document is another one")]
    Document(#[source] VerifyError),
    /// One server signed two different ones for this session.
    #[error("server {server} signed two different statements of its complaints")]
    Double {
        /// The server.
        server: ServerId,
    },
    /// The complaint is about another statement of the client than the one that counts, or about one that there is not.
    #[error("server {server} complains about another statement of client {client}")]
    OtherStatement {
        /// The server.
        server: ServerId,
        /// The client.
        client: ClientId,
    },
    /// It is not signed by the server it names. Anyone can write such bytes.
    #[error("a statement in the name of server {server} is not signed by it")]
    Signature {
        /// Whose name it carries.
        server: ServerId,
        /// What is wrong with the signature.
        #[source]
        source: SigError,
    },
    /// The round has no such server.
    #[error("a statement of server {server}: the round has {servers} servers")]
    UnknownServer {
        /// The id.
        server: ServerId,
        /// Servers of the round.
        servers: u16,
    },
}

impl Fault for CheckedFault {
    fn code(&self) -> &'static str {
        match self {
            Self::Context { source, .. } => source.code(),
            Self::Document(error) => error.code(),
            Self::Double { .. } => "checked_double",
            Self::OtherStatement { .. } => "complaint_other_statement",
            Self::Signature { .. } => "checked_signature",
            Self::UnknownServer { .. } => "checked_unknown_server",
        }
    }

    fn attribution(&self) -> Attribution {
        match self {
            Self::Document(error) => error.attribution(),
            Self::Double { server } => Attribution::Server(*server),
            Self::Context { .. }
            | Self::OtherStatement { .. }
            | Self::Signature { .. }
            | Self::UnknownServer { .. } => Attribution::Nobody,
        }
    }
}

/// Checks that a server signed this statement for this session.
///
/// # Errors
/// Another signer, epoch document or round.
pub fn verify_checked(
    params: &ProtocolParams,
    session: &SessionId,
    epoch: &Epoch,
    checked: &Checked,
) -> Result<(), CheckedFault> {
    check_document(params, epoch).map_err(CheckedFault::Document)?;
    let server = checked.server();
    let unknown = CheckedFault::UnknownServer { server, servers: params.servers() };
    let known = epoch.server(server).filter(|_| server.0 < params.servers()).ok_or(unknown)?;
    checked.verify_signature(&known.identity).map_err(|source| CheckedFault::Signature { server, source })?;
    checked.context().check(params, session).map_err(|source| CheckedFault::Context { server, source })
}

/// Holds two statements of one server against each other. An honest server signs one a session.
///
/// # Errors
/// `Double` if both are its own, for this session, and differ; else as [`verify_checked`].
///
/// # Panics
/// If they name different servers.
pub fn compare_checked(
    params: &ProtocolParams,
    session: &SessionId,
    epoch: &Epoch,
    first: &Checked,
    second: &Checked,
) -> Result<(), CheckedFault> {
    let server = first.server();
    assert_eq!(server, second.server(), "statements of one server");
    verify_checked(params, session, epoch, first)?;
    verify_checked(params, session, epoch, second)?;
    if first.says_the_same(second) { Ok(()) } else { Err(CheckedFault::Double { server }) }
}

/// Checks the complaint about one client in a statement that [`verify_checked`] has accepted. Returns whether there is
/// one.
///
/// # Errors
/// `OtherStatement` if it is not about this post's statement: it does not exist then.
pub fn verify_complaint(checked: &Checked, post: &VerifiedPost) -> Result<bool, CheckedFault> {
    let (server, client) = (checked.server(), post.client());
    match checked.complaints().get(&client) {
        None => Ok(false),
        Some(statement) if *statement == post.statement().digest() => Ok(true),
        Some(_) => Err(CheckedFault::OtherStatement { server, client }),
    }
}

/// An answer was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AnswerFault {
    /// The client published an opening that does not open its commitment.
    #[error("client {client} answered server {server} with an opening that does not open its commitment")]
    BadOpening {
        /// The client.
        client: ClientId,
        /// The server.
        server: ServerId,
        /// What is wrong with it.
        #[source]
        source: OpeningError,
    },
    /// It was made for another round.
    #[error("an answer of client {client} for another round")]
    Context {
        /// The client.
        client: ClientId,
        /// What differs.
        #[source]
        source: ContextError,
    },
    /// The opening does not parse under these parameters: it was read under others.
    #[error("the answer of client {client} was read under other parameters")]
    Malformed {
        /// The client.
        client: ClientId,
        /// What is wrong with it.
        #[source]
        source: DecodeError,
    },
    /// The answer is good, and the server's round does not take it.
    #[error("the answer was not taken")]
    NotTaken(#[source] EnvelopeFault),
    /// It is not signed by the client it names. Anyone can write such bytes.
    #[error("an answer in the name of client {client} is not signed by it")]
    Signature {
        /// Whose name it carries.
        client: ClientId,
        /// What is wrong with the signature.
        #[source]
        source: SigError,
    },
    /// Answer and post belong to different clients.
    #[error("an answer of client {found} was paired with the post of client {expected}")]
    WrongClient {
        /// Whose post it is.
        expected: ClientId,
        /// Whose answer it is.
        found: ClientId,
    },
    /// The answer is to another server, or to one that the round does not have.
    #[error("an answer to server {found} where one to server {expected} is needed")]
    WrongServer {
        /// The server; for one that does not exist, the last there is.
        expected: ServerId,
        /// The addressee.
        found: ServerId,
    },
}

impl Fault for AnswerFault {
    fn code(&self) -> &'static str {
        match self {
            Self::BadOpening { .. } => "answer_bad_opening",
            Self::Context { source, .. } => source.code(),
            Self::Malformed { .. } => "answer_malformed",
            Self::NotTaken(fault) => fault.code(),
            Self::Signature { .. } => "answer_signature",
            Self::WrongClient { .. } => "answer_wrong_client",
            Self::WrongServer { .. } => "answer_wrong_server",
        }
    }

    fn attribution(&self) -> Attribution {
        match self {
            Self::BadOpening { client, .. } => Attribution::Client(*client),
            Self::NotTaken(fault) => fault.attribution(),
            Self::Malformed { .. } | Self::WrongClient { .. } | Self::WrongServer { .. } => {
                Attribution::Caller
            }
            Self::Context { .. } | Self::Signature { .. } => Attribution::Nobody,
        }
    }
}

/// Checks an answer against the root that its client signed; `key` is the client's admitted key. Returns the opening.
///
/// # Errors
/// `BadOpening` convicts the client; everything else says that this is no answer of this client's to this round.
pub fn verify_answer(
    params: &ProtocolParams,
    session: &SessionId,
    key: &VerifyingKey,
    post: &VerifiedPost,
    answer: &Answer,
) -> Result<(FreshOpening, VerifiedOpening), AnswerFault> {
    let (client, server) = (answer.client(), answer.server());
    if client != post.client() {
        return Err(AnswerFault::WrongClient { expected: post.client(), found: client });
    }
    if server.0 >= params.servers() {
        return Err(AnswerFault::WrongServer { expected: ServerId(params.servers() - 1), found: server });
    }
    answer.verify_signature(key).map_err(|source| AnswerFault::Signature { client, source })?;
    answer.context().check(params, session).map_err(|source| AnswerFault::Context { client, source })?;
    let opening = answer.opening(params).map_err(|source| AnswerFault::Malformed { client, source })?;
    let verified = params
        .cs()
        .verify_fresh(server.0, &opening, post.root())
        .map_err(|source| AnswerFault::BadOpening { client, server, source })?;
    Ok((opening, verified))
}

/// Why a client whose post is good is not in the set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Exclusion {
    /// It answered a complaint with an opening that opens nothing.
    #[error("a complaint was answered badly")]
    BadAnswer(#[source] AnswerFault),
    /// More servers complain than may be answered.
    #[error("{complaints} servers complain about client {client}, at most {cap} complaints are answered")]
    TooManyComplaints {
        /// The client.
        client: ClientId,
        /// Servers that complain.
        complaints: usize,
        /// a_max.
        cap: u16,
    },
    /// A complaint has no answer.
    #[error("client {client} did not answer server {server}")]
    Unanswered {
        /// The client.
        client: ClientId,
        /// The first server without an answer.
        server: ServerId,
    },
}

impl Fault for Exclusion {
    fn code(&self) -> &'static str {
        match self {
            Self::BadAnswer(fault) => fault.code(),
            Self::TooManyComplaints { .. } => "complaints_above_cap",
            Self::Unanswered { .. } => "complaint_unanswered",
        }
    }

    /// To be out is no proof of a lie: a client above the cap is silent by rule, and an answer may not have made the log.
    fn attribution(&self) -> Attribution {
        match self {
            Self::BadAnswer(fault) => fault.attribution(),
            Self::TooManyComplaints { .. } | Self::Unanswered { .. } => Attribution::Nobody,
        }
    }
}

/// What complaints and answers leave of a set of candidates.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckedSet {
    /// The clients that stay, ascending.
    pub members: Vec<ClientId>,
    /// The clients that are out, each with the first reason.
    pub excluded: BTreeMap<ClientId, Exclusion>,
}

/// Which candidates are in the canonical set, by what the log says up to the close: `checked` and `answers` in log order,
/// of which the first valid one per server, or per server and client, counts. Candidates are the clients' first valid
/// posts, each with the admitted key. An unanswered or badly answered complaint, or more than a_max complaints, and the
/// client is out.
///
/// # Errors
/// `Document` if the epoch's document is not that of the parameters. What else is wrong with a leaf makes it void.
pub fn set_rule(
    params: &ProtocolParams,
    session: &SessionId,
    epoch: &Epoch,
    candidates: &BTreeMap<ClientId, (VerifyingKey, VerifiedPost)>,
    checked: &[Checked],
    answers: &[Answer],
) -> Result<CheckedSet, CheckedFault> {
    check_document(params, epoch).map_err(CheckedFault::Document)?;
    let mut first: BTreeMap<ServerId, &Checked> = BTreeMap::new();
    for statement in checked {
        if !first.contains_key(&statement.server())
            && verify_checked(params, session, epoch, statement).is_ok()
        {
            first.insert(statement.server(), statement);
        }
    }
    let mut set = CheckedSet::default();
    for (&client, (key, post)) in candidates {
        let complains = |checked: &&Checked| verify_complaint(checked, post) == Ok(true);
        let complaining: BTreeSet<ServerId> =
            first.iter().filter(|(_, checked)| complains(checked)).map(|(server, _)| *server).collect();
        match excluded(params, session, key, post, &complaining, answers) {
            Some(exclusion) => drop(set.excluded.insert(client, exclusion)),
            None => set.members.push(client),
        }
    }
    Ok(set)
}

fn excluded(
    params: &ProtocolParams,
    session: &SessionId,
    key: &VerifyingKey,
    post: &VerifiedPost,
    complaining: &BTreeSet<ServerId>,
    answers: &[Answer],
) -> Option<Exclusion> {
    let (client, cap) = (post.client(), params.max_answers());
    if complaining.len() > usize::from(cap) {
        return Some(Exclusion::TooManyComplaints { client, complaints: complaining.len(), cap });
    }
    for &server in complaining {
        // The first that the client signed for this place decides; what it did not sign does not exist.
        let addressed = |answer: &&Answer| (answer.client(), answer.server()) == (client, server);
        let verdict = answers.iter().filter(addressed).find_map(|answer| {
            match verify_answer(params, session, key, post, answer) {
                Ok(_) => Some(None),
                Err(fault @ AnswerFault::BadOpening { .. }) => Some(Some(Exclusion::BadAnswer(fault))),
                Err(_) => None,
            }
        });
        match verdict {
            Some(None) => {}
            Some(exclusion) => return exclusion,
            None => return Some(Exclusion::Unanswered { client, server }),
        }
    }
    None
}
