use super::Refusal;
use panetiere::fault::{Attribution, Fault, Retry};
use std::time::Duration;

/// A request that was not answered as it should be.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The answer is longer than the caller takes.
    #[error("the answer has {len:?} bytes or more, at most {cap} are taken")]
    AnswerTooLong {
        /// Length the server stated, if it did.
        len: Option<u64>,
        /// The caller's bound.
        cap: u64,
    },
    /// The server's certificate is not one of those that are expected, or is out of its time.
    #[error("the server is not the one that is expected, or its certificate is out of its time")]
    Certificate(#[source] rustls::Error),
    /// No connection, or none that speaks TLS 1.3.
    #[error("no connection to the server")]
    Connect(#[source] std::io::Error),
    /// Gave up: the deadline of the request, or the last of its tries.
    #[error("gave up after {tries} tries in {elapsed:?}")]
    GaveUp {
        /// Tries.
        tries: u32,
        /// Since the first.
        elapsed: Duration,
        /// Why the last one failed; `None` if it was cut off.
        #[source]
        last: Option<Box<ClientError>>,
    },
    /// The host is neither a name nor an address.
    #[error("{host:?} is neither a host name nor an address")]
    Host {
        /// What was given.
        host: String,
    },
    /// The connection broke, or the answer is not HTTP.
    #[error("the connection broke")]
    Http(#[source] hyper::Error),
    /// The answer contradicts itself or what was asked.
    #[error("the answer does not fit the request: {what}")]
    Protocol {
        /// What does not fit.
        what: &'static str,
    },
    /// The server refused.
    #[error("the server refused with {}{}", .0.status, .0.problem.iter().map(|p| format!(": {p}")).collect::<String>())]
    Refused(Refusal),
    /// The server said nothing for too long.
    #[error("the server was silent for {0:?}")]
    Silent(Duration),
    /// The body to send could not be read, or has another length than it had.
    #[error("the body to send cannot be read")]
    Upload(#[source] std::io::Error),
}

impl ClientError {
    /// The refusal, also of the last try of a request that was given up.
    pub fn refusal(&self) -> Option<&Refusal> {
        match self {
            Self::Refused(refusal) => Some(refusal),
            Self::GaveUp { last: Some(last), .. } => last.refusal(),
            _ => None,
        }
    }
}

impl Fault for ClientError {
    fn code(&self) -> &'static str {
        match self {
            Self::AnswerTooLong { .. } => "client_answer_too_long",
            Self::Certificate(_) => "client_certificate",
            Self::Connect(_) => "client_connect",
            Self::GaveUp { .. } => "client_gave_up",
            Self::Host { .. } => "client_host",
            Self::Http(_) => "client_http",
            Self::Protocol { .. } => "client_protocol",
            Self::Refused(_) => "client_refused",
            Self::Silent(_) => "client_silent",
            Self::Upload(_) => "client_upload",
        }
    }

    fn attribution(&self) -> Attribution {
        match self {
            Self::Host { .. } | Self::Upload(_) => Attribution::Caller,
            _ => Attribution::Nobody,
        }
    }

    fn retry(&self) -> Retry {
        match self {
            // A wrong server may be one in front of the right one, but it is for people to look at.
            Self::AnswerTooLong { .. }
            | Self::Certificate(_)
            | Self::Host { .. }
            | Self::Protocol { .. }
            | Self::Upload(_) => Retry::Never,
            Self::Connect(_) | Self::Http(_) | Self::Silent(_) => Retry::SameRequest,
            Self::GaveUp { .. } => Retry::Never,
            Self::Refused(refusal) => match refusal.status.as_u16() {
                408 | 425 | 429 | 503 => Retry::SameRequest,
                _ => Retry::Never,
            },
        }
    }
}
