//! Why the bulletin does not take something.

use crate::round::{Unavailable, Void};
use crate::store::StoreError;
use panetiere::bulletin::{Mode, StatementError};
use panetiere::fault::{Attribution, Fault, Retry};
use panetiere::ids::{ClientId, ServerId};
use panetiere::wire::DecodeError;
use panetiere_api::leaf::RoundId;

/// Why the bulletin does not take something. Nothing of it was kept that anybody relies on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    /// A leaf that comes with a body, without it.
    #[error("a leaf of kind {kind} is taken with its body only")]
    Body {
        /// Its kind.
        kind: &'static str,
    },
    /// The roots beside a statement are not those that it names.
    #[error("the commitment of client {client} is not the one that it signed")]
    BodyMismatch {
        /// The client.
        client: ClientId,
    },
    /// An envelope is not the one that the statement speaks of, or not where it belongs.
    #[error("the envelope of client {client} for server {server} is not the one that it signed")]
    Envelope {
        /// The client.
        client: ClientId,
        /// The server.
        server: ServerId,
    },
    /// The bytes do not parse.
    #[error("the body does not parse")]
    Malformed(#[source] DecodeError),
    /// The messages are not those that the result names.
    #[error("the messages of round {round} are not those that the result names")]
    Messages {
        /// The round.
        round: RoundId,
    },
    /// The round has another mode.
    #[error("posts of {mode} rounds come another way")]
    Mode {
        /// The round's mode.
        mode: Mode,
    },
    /// The envelopes of this statement are not here.
    #[error("the envelopes of client {client} come before its post")]
    NoEnvelopes {
        /// The client.
        client: ClientId,
    },
    /// The client is not admitted, or no more.
    #[error("client {client} is not admitted to this epoch")]
    NotAdmitted {
        /// The client.
        client: ClientId,
    },
    /// The name in the path is not that of the key that signed.
    #[error("the path names another client than the one that signed")]
    OtherName,
    /// The client has sent the envelopes of another statement.
    #[error("client {client} has sent envelopes of another statement")]
    OtherOpenings {
        /// The client.
        client: ClientId,
    },
    /// The evidence convicts nobody.
    #[error("the evidence convicts nobody: {reason}")]
    NoFault {
        /// Why not.
        reason: String,
    },
    /// What was kept cannot be read.
    #[error("what was kept cannot be read")]
    Read(#[source] std::io::Error),
    /// The statement is none of this round.
    #[error("not a statement of this round")]
    Statement(#[source] StatementError),
    /// The store does not take it.
    #[error("the store does not take it")]
    Store(#[source] StoreError),
    /// Evidence that a leaf names cannot be had.
    #[error("evidence that a leaf names cannot be had")]
    Unavailable(#[source] Unavailable),
    /// Nobody in the epoch has a key of this name.
    #[error("no client of this epoch has a key of this name")]
    UnknownName,
    /// No such round, or no more.
    #[error("round {round} is none of the latest")]
    UnknownRound {
        /// The round.
        round: RoundId,
    },
    /// A witness has cosigned more than the log has.
    #[error(
        "the witness says that it has cosigned size {size}, the log has {stored}: either it lies, or this is a restored backup, \
         and going on would fork the log"
    )]
    WitnessAhead {
        /// Size that it says it has cosigned.
        size: u64,
        /// Size of the log.
        stored: u64,
    },
    /// The leaf would not count.
    #[error("the leaf would not count")]
    Void(#[source] Box<Void>),
}

impl Fault for Refused {
    fn code(&self) -> &'static str {
        match self {
            Self::Body { .. } => "bulletin_body",
            Self::BodyMismatch { .. } => "bulletin_body_mismatch",
            Self::Envelope { .. } => "bulletin_envelope",
            Self::Malformed(_) => "bulletin_malformed",
            Self::Messages { .. } => "bulletin_messages",
            Self::Mode { .. } => "bulletin_mode",
            Self::NoEnvelopes { .. } => "bulletin_no_envelopes",
            Self::NoFault { .. } => "bulletin_no_fault",
            Self::NotAdmitted { .. } => "bulletin_not_admitted",
            Self::OtherName => "bulletin_other_name",
            Self::OtherOpenings { .. } => "bulletin_other_openings",
            Self::Read(_) => "bulletin_read",
            Self::Statement(error) => error.code(),
            Self::Store(error) => error.code(),
            Self::Unavailable(_) => "bulletin_unavailable",
            Self::UnknownName => "bulletin_unknown_name",
            Self::UnknownRound { .. } => "bulletin_unknown_round",
            Self::WitnessAhead { .. } => "bulletin_witness_ahead",
            Self::Void(void) => void.code(),
        }
    }

    /// Whoever sent it, unless a signature in it names somebody or the fault is the bulletin's own.
    fn attribution(&self) -> Attribution {
        match self {
            Self::Read(_) | Self::Unavailable(_) => Attribution::Operator,
            Self::Statement(error) => error.attribution(),
            Self::Store(error) => error.attribution(),
            Self::Void(void) => void.attribution(),
            _ => Attribution::Caller,
        }
    }

    fn retry(&self) -> Retry {
        match self {
            Self::NoEnvelopes { .. } | Self::Read(_) | Self::Unavailable(_) => Retry::SameRequest,
            Self::Store(error) => error.retry(),
            _ => Retry::Never,
        }
    }
}
