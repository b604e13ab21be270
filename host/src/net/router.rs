//! From a request's head to its handler: everything that can be refused is refused before a byte of the body is read.

use super::answer::Answer;
use super::body::BodyReader;
use super::principal::Principal;
use http::header::{ALLOW, CONTENT_LENGTH, CONTENT_TYPE, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderValue, Method};
use panetiere_api::media::MediaType;
use panetiere_api::problem::{Code, Problem};
use std::sync::Arc;

/// What a method's body has to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyRule {
    /// No longer than `max` bytes.
    AtMost {
        /// Its type.
        media: MediaType,
        /// Bytes at most.
        max: u64,
    },
    /// Exactly `len` bytes.
    Exact {
        /// Its type.
        media: MediaType,
        /// Its length in bytes.
        len: u64,
    },
    /// There is none.
    None,
}

/// A method that a resource takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The method.
    pub method: Method,
    /// Its body.
    pub body: BodyRule,
}

impl Rule {
    /// `GET`, without a body.
    pub const GET: Self = Self { method: Method::GET, body: BodyRule::None };

    /// `PUT` of a body.
    pub const fn put(body: BodyRule) -> Self {
        Self { method: Method::PUT, body }
    }
}

/// What a path stands for.
#[derive(Clone, Debug)]
pub struct Resource<R> {
    /// The handler's own name of it.
    pub route: R,
    /// The methods it takes.
    pub rules: Vec<Rule>,
}

/// A request whose head was accepted.
pub struct Call<R> {
    /// What it is for.
    pub route: R,
    /// How.
    pub method: Method,
    /// Who asks; `None` on a public plane.
    pub principal: Option<Arc<Principal>>,
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: BodyReader,
}

/// What a plane serves.
pub trait Handler: Send + Sync + 'static {
    /// The handler's own name of a resource.
    type Route: Send + 'static;

    /// What `path` stands for, with the methods and exact body lengths as they are now.
    ///
    /// # Errors
    /// `not_found`, or what is wrong with the query.
    fn resource(&self, path: &str, query: Option<&str>) -> Result<Resource<Self::Route>, Problem>;

    /// Whether this request may be made now, told from its head alone: the party is the wrong one, the round is closed.
    ///
    /// # Errors
    /// Why not.
    fn admit(
        &self,
        route: &Self::Route,
        method: &Method,
        principal: Option<&Principal>,
    ) -> Result<(), Problem> {
        let _ = (route, method, principal);
        Ok(())
    }

    /// Answers. Whatever takes longer than 100 microseconds of arithmetic goes to [`Compute`](super::compute::Compute).
    fn handle(&self, call: Call<Self::Route>) -> impl Future<Output = Result<Answer, Problem>> + Send;
}

/// The body's length, if the resource takes this method and a body like this; or the refusal.
pub(super) fn check_head(method: &Method, headers: &HeaderMap, rules: &[Rule]) -> Result<u64, Answer> {
    let Some(rule) = rules.iter().find(|rule| rule.method == *method) else {
        let allowed = rules.iter().map(|rule| rule.method.as_str()).collect::<Vec<_>>().join(", ");
        let refusal = Answer::from(Problem::from(Code::MethodNotAllowed));
        return Err(match HeaderValue::from_str(&allowed) {
            Ok(allowed) => refusal.with(ALLOW, allowed),
            Err(_) => refusal,
        });
    };
    check_body(headers, rule.body).map_err(Answer::from)
}

fn check_body(headers: &HeaderMap, rule: BodyRule) -> Result<u64, Problem> {
    if headers.contains_key(TRANSFER_ENCODING) {
        return Err(Code::LengthRequired.into());
    }
    let stated = match headers.get(CONTENT_LENGTH) {
        None => None,
        Some(value) => {
            let len = value.to_str().ok().and_then(|text| text.parse::<u64>().ok());
            Some(len.ok_or_else(|| Problem::from(Code::BodyLength).with_detail("the length is no number"))?)
        }
    };
    let too_large = |expected: u64, len: u64| {
        Problem::from(Code::BodyTooLarge).with_detail(format!("{expected} bytes are taken, {len} announced"))
    };
    let media = match rule {
        BodyRule::None => {
            let len = stated.unwrap_or(0);
            return if len == 0 { Ok(0) } else { Err(too_large(0, len)) };
        }
        BodyRule::AtMost { media, .. } | BodyRule::Exact { media, .. } => media,
    };
    if headers.get(CONTENT_TYPE).is_none_or(|value| value.as_bytes() != media.as_str().as_bytes()) {
        let detail = format!("{media} is taken");
        return Err(Problem::from(Code::UnsupportedMediaType).with_detail(detail));
    }
    let len = stated.ok_or(Code::LengthRequired)?;
    match rule {
        BodyRule::AtMost { max, .. } if len > max => Err(too_large(max, len)),
        BodyRule::Exact { len: exact, .. } if len > exact => Err(too_large(exact, len)),
        BodyRule::Exact { len: exact, .. } if len < exact => {
            let detail = format!("{exact} bytes are taken, {len} announced");
            Err(Problem::from(Code::BodyLength).with_detail(detail))
        }
        _ => Ok(len),
    }
}
