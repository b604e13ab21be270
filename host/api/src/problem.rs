//! What a refused request is answered with: a problem document (RFC 9457), with a code that programs can rely on.

use http::StatusCode;
use panetiere::fault::{Attribution, Fault};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Before the code in a document's `type`.
const TYPE_PREFIX: &str = "urn:panetiere:problem:";
/// Bytes of a document at most.
pub const MAX_PROBLEM: usize = 4096;
/// Bytes of the detail at most: what stands in an error's text is bounded, whatever the error.
const MAX_DETAIL: usize = 1024;

/// A problem document.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// `urn:panetiere:problem:` and the code.
    #[serde(rename = "type")]
    kind: String,
    /// The same for every problem of a code.
    title: String,
    /// The answer's status, again.
    status: u16,
    /// What is wrong with this request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    detail: Option<String>,
    /// Seconds after which the same request may succeed: goes out as `Retry-After` too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    retry_after_s: Option<u64>,
}

/// The problems of the transport: every daemon has them, whatever it serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Code {
    /// The body's length is not the one that this resource has.
    BodyLength,
    /// The body came slower than the floor.
    BodySlow,
    /// The body is longer than this resource's.
    BodyTooLarge,
    /// The client's certificate is out of its time, or its entry in the table is.
    CertificateExpired,
    /// The client sent no certificate.
    CertificateMissing,
    /// The client's certificate was taken back.
    CertificateRevoked,
    /// Nobody is known by the client's certificate.
    CertificateUnknown,
    /// The principal may not do this.
    Forbidden,
    /// A bug of ours.
    Internal,
    /// The body's length is not stated.
    LengthRequired,
    /// The resource does not take this method.
    MethodNotAllowed,
    /// The resource does not exist.
    NotFound,
    /// The principal has used up its rate.
    Quota,
    /// No part of the resource lies in the range.
    Range,
    /// The daemon has as much to do as it takes on.
    Shed,
    /// The daemon is going down.
    ShuttingDown,
    /// The resource does not take bodies of this type.
    UnsupportedMediaType,
}

impl Code {
    /// All of them.
    pub const ALL: [Self; 17] = [
        Self::BodyLength,
        Self::BodySlow,
        Self::BodyTooLarge,
        Self::CertificateExpired,
        Self::CertificateMissing,
        Self::CertificateRevoked,
        Self::CertificateUnknown,
        Self::Forbidden,
        Self::Internal,
        Self::LengthRequired,
        Self::MethodNotAllowed,
        Self::NotFound,
        Self::Quota,
        Self::Range,
        Self::Shed,
        Self::ShuttingDown,
        Self::UnsupportedMediaType,
    ];

    /// The stable name.
    pub const fn as_str(self) -> &'static str {
        self.row().0
    }

    /// The status it is answered with.
    pub const fn status(self) -> StatusCode {
        self.row().1
    }

    const fn row(self) -> (&'static str, StatusCode, &'static str) {
        match self {
            Self::BodyLength => ("body_length", StatusCode::BAD_REQUEST, "The body has another length"),
            Self::BodySlow => ("body_slow", StatusCode::REQUEST_TIMEOUT, "The body came too slowly"),
            Self::BodyTooLarge => {
                ("body_too_large", StatusCode::PAYLOAD_TOO_LARGE, "The body is longer than this resource's")
            }
            Self::CertificateExpired => {
                ("certificate_expired", StatusCode::UNAUTHORIZED, "The client certificate is out of its time")
            }
            Self::CertificateMissing => {
                ("certificate_missing", StatusCode::UNAUTHORIZED, "A client certificate is needed")
            }
            Self::CertificateRevoked => {
                ("certificate_revoked", StatusCode::UNAUTHORIZED, "The client certificate was taken back")
            }
            Self::CertificateUnknown => {
                ("certificate_unknown", StatusCode::UNAUTHORIZED, "Nobody is known by the client certificate")
            }
            Self::Forbidden => ("forbidden", StatusCode::FORBIDDEN, "This is not yours to do"),
            Self::Internal => ("internal", StatusCode::INTERNAL_SERVER_ERROR, "The daemon has a bug"),
            Self::LengthRequired => {
                ("length_required", StatusCode::LENGTH_REQUIRED, "The body's length must be stated")
            }
            Self::MethodNotAllowed => (
                "method_not_allowed",
                StatusCode::METHOD_NOT_ALLOWED,
                "The resource does not take this method",
            ),
            Self::NotFound => ("not_found", StatusCode::NOT_FOUND, "There is no such resource"),
            Self::Quota => ("quota", StatusCode::TOO_MANY_REQUESTS, "Too much for now"),
            Self::Range => {
                ("range", StatusCode::RANGE_NOT_SATISFIABLE, "No part of the resource lies in the range")
            }
            Self::Shed => ("shed", StatusCode::SERVICE_UNAVAILABLE, "Too much is going on"),
            Self::ShuttingDown => {
                ("shutting_down", StatusCode::SERVICE_UNAVAILABLE, "The daemon is going down")
            }
            Self::UnsupportedMediaType => (
                "unsupported_media_type",
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "The resource does not take bodies of this type",
            ),
        }
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl From<Code> for Problem {
    fn from(code: Code) -> Self {
        let (name, status, title) = code.row();
        Self::new(name, status, title)
    }
}

impl Problem {
    /// A problem of a code: snake_case, stable.
    pub fn new(code: &str, status: StatusCode, title: &str) -> Self {
        let kind = format!("{TYPE_PREFIX}{code}");
        Self { kind, title: title.to_owned(), status: status.as_u16(), detail: None, retry_after_s: None }
    }

    /// The problem that an error is, answered with `status`. Its own text is the detail; the texts of its sources stay
    /// here, and so does all of a bug's.
    pub fn of(error: &(impl Fault + ?Sized), status: StatusCode) -> Self {
        if error.attribution() == Attribution::Bug {
            return Code::Internal.into();
        }
        let title = status.canonical_reason().unwrap_or("Refused");
        Self::new(error.code(), status, title).with_detail(error.to_string())
    }

    /// Says what is wrong with this request. Cut to 1 KiB.
    #[must_use]
    pub fn with_detail(mut self, detail: impl Into<String>) -> Self {
        let mut detail = detail.into();
        if detail.len() > MAX_DETAIL {
            let end = (0..=MAX_DETAIL).rev().find(|end| detail.is_char_boundary(*end)).unwrap_or(0);
            detail.truncate(end);
        }
        self.detail = Some(detail);
        self
    }

    /// Says after how many seconds to try again.
    #[must_use]
    pub const fn with_retry_after(mut self, seconds: u64) -> Self {
        self.retry_after_s = Some(seconds);
        self
    }

    /// The code, or the whole type of a document that is none of ours.
    pub fn code(&self) -> &str {
        self.kind.strip_prefix(TYPE_PREFIX).unwrap_or(&self.kind)
    }

    /// The answer's status. 500 if the document has a number that is none.
    pub fn status(&self) -> StatusCode {
        StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    /// What is wrong with this request.
    pub fn detail(&self) -> Option<&str> {
        self.detail.as_deref()
    }

    /// Seconds after which the same request may succeed.
    pub const fn retry_after(&self) -> Option<u64> {
        self.retry_after_s
    }

    /// The document.
    pub fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("strings and numbers are JSON")
    }

    /// Reads a document of at most [`MAX_PROBLEM`] bytes; `None` if it is none.
    pub fn from_json(bytes: &[u8]) -> Option<Self> {
        if bytes.len() > MAX_PROBLEM { None } else { serde_json::from_slice(bytes).ok() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.code(), self.status)?;
        self.detail.iter().try_for_each(|detail| write!(f, ": {detail}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::PathError;

    #[test]
    fn a_document_is_what_rfc_9457_says() {
        let problem = Problem::from(Code::Quota).with_detail("4 writes a second").with_retry_after(2);
        let json: serde_json::Value = serde_json::from_slice(&problem.to_json()).unwrap();
        let expected = serde_json::json!({
            "type": "urn:panetiere:problem:quota",
            "title": "Too much for now",
            "status": 429,
            "detail": "4 writes a second",
            "retry_after_s": 2,
        });
        assert_eq!(json, expected);
        assert_eq!(Problem::from_json(&problem.to_json()), Some(problem));
        assert_eq!(Problem::from_json(b"{}"), None);
        assert_eq!(Problem::from_json(&[b' '; MAX_PROBLEM + 1]), None);
    }

    #[test]
    fn codes_are_distinct_and_errors() {
        let mut names: Vec<&str> = Code::ALL.iter().map(|code| code.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Code::ALL.len());
        assert!(
            Code::ALL.iter().all(|code| code.status().is_client_error() || code.status().is_server_error())
        );
    }

    #[derive(Debug, thiserror::Error)]
    #[error("secret state")]
    struct Broken;

    impl Fault for Broken {
        fn code(&self) -> &'static str {
            "broken"
        }
        fn attribution(&self) -> Attribution {
            Attribution::Bug
        }
    }

    #[test]
    fn an_error_keeps_its_code_and_a_bug_its_text() {
        let problem = Problem::of(&PathError::Query, StatusCode::BAD_REQUEST);
        assert_eq!((problem.code(), problem.status()), ("query", StatusCode::BAD_REQUEST));
        assert_eq!(problem.detail(), Some(PathError::Query.to_string().as_str()));
        let bug = Problem::of(&Broken, StatusCode::BAD_REQUEST);
        assert_eq!(
            (bug.code(), bug.status(), bug.detail()),
            ("internal", StatusCode::INTERNAL_SERVER_ERROR, None)
        );
    }

    #[test]
    fn a_long_detail_is_cut_at_a_character() {
        let problem = Problem::from(Code::Internal).with_detail("é".repeat(4000));
        assert_eq!(problem.detail().map(str::len), Some(1024));
        let problem = Problem::from(Code::Internal).with_detail(format!("a{}", "é".repeat(4000)));
        assert_eq!(problem.detail().map(str::len), Some(1023));
        assert!(problem.to_json().len() <= MAX_PROBLEM);
    }
}
