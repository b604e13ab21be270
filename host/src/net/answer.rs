//! Answers: small documents, bytes in memory, streams, and parts of what does not change.

use bytes::Bytes;
use http::header::{
    ACCEPT_RANGES, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, RANGE, RETRY_AFTER,
};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use http_body::Body;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use panetiere_api::media::MediaType;
use panetiere_api::problem::{Code, Problem};
use std::io;
use std::ops::Range;

/// The body of an answer.
pub type AnswerBody = UnsyncBoxBody<Bytes, io::Error>;

/// An answer.
pub struct Answer {
    /// Status.
    pub status: StatusCode,
    /// Headers, `Content-Type` among them.
    pub headers: HeaderMap,
    pub(super) body: AnswerBody,
}

impl Answer {
    /// An answer without a body.
    pub fn empty(status: StatusCode) -> Self {
        Self { status, headers: HeaderMap::new(), body: whole(Bytes::new()) }
    }

    /// Bytes of a type.
    pub fn bytes(status: StatusCode, media: MediaType, bytes: impl Into<Bytes>) -> Self {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(media.as_str()));
        Self { status, headers, body: whole(bytes.into()) }
    }

    /// A document for people and tools.
    ///
    /// # Panics
    /// If the value is no JSON, such as a map with keys that are no strings.
    pub fn json(status: StatusCode, value: &impl serde::Serialize) -> Self {
        let bytes = serde_json::to_vec(value).expect("the caller's value is JSON");
        Self::bytes(status, MediaType::Json, bytes)
    }

    /// A stream of exactly `len` bytes.
    pub fn stream<B>(status: StatusCode, media: MediaType, len: u64, body: B) -> Self
    where
        B: Body<Data = Bytes, Error = io::Error> + Send + 'static,
    {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(media.as_str()));
        headers.insert(CONTENT_LENGTH, HeaderValue::from(len));
        Self { status, headers, body: body.boxed_unsync() }
    }

    /// What a request asks for of something that has `len` bytes and never changes: all of it, or the part that its `Range`
    /// names. `body` makes the stream of a part.
    ///
    /// # Errors
    /// `range` for a range outside of it.
    pub fn immutable<B>(
        request: &HeaderMap,
        media: MediaType,
        len: u64,
        body: impl FnOnce(Range<u64>) -> B,
    ) -> Result<Self, Problem>
    where
        B: Body<Data = Bytes, Error = io::Error> + Send + 'static,
    {
        let part = range(request, len)?;
        let taken = part.clone().unwrap_or(0..len);
        let status = if part.is_some() { StatusCode::PARTIAL_CONTENT } else { StatusCode::OK };
        let mut answer = Self::stream(status, media, taken.end - taken.start, body(taken.clone()));
        if part.is_some() {
            let value = format!("bytes {}-{}/{len}", taken.start, taken.end - 1);
            answer.headers.insert(CONTENT_RANGE, HeaderValue::from_str(&value).expect("digits and signs"));
        }
        answer.headers.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
        let forever = HeaderValue::from_static("public, max-age=31536000, immutable");
        answer.headers.insert(CACHE_CONTROL, forever);
        Ok(answer)
    }

    /// With another header.
    #[must_use]
    pub fn with(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.insert(name, value);
        self
    }
}

impl From<Problem> for Answer {
    fn from(problem: Problem) -> Self {
        let mut answer = Self::bytes(problem.status(), MediaType::Problem, problem.to_json());
        if let Some(seconds) = problem.retry_after() {
            answer.headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        answer
    }
}

fn whole(bytes: Bytes) -> AnswerBody {
    Full::new(bytes).map_err(|never| match never {}).boxed_unsync()
}

/// The part that a request asks for. `None` is all of it: no range, or one of a form that a server may ignore (several
/// parts, other units).
fn range(request: &HeaderMap, len: u64) -> Result<Option<Range<u64>>, Problem> {
    let Some(text) = request.get(RANGE).and_then(|value| value.to_str().ok()) else { return Ok(None) };
    let Some((first, last)) = text.strip_prefix("bytes=").and_then(|spec| spec.split_once('-')) else {
        return Ok(None);
    };
    let number =
        |text: &str| text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse::<u64>().ok())?;
    let range = match (number(first), number(last)) {
        (Some(first), Some(last)) if first <= last => first..last.saturating_add(1).min(len),
        (Some(first), None) if last.is_empty() => first..len,
        (None, Some(suffix)) if first.is_empty() => len.saturating_sub(suffix)..len,
        _ => return Ok(None),
    };
    if range.is_empty() {
        return Err(Problem::from(Code::Range).with_detail(format!("there are {len} bytes")));
    }
    Ok(Some(range))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_those_of_rfc_9110() {
        let ask = |text: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(RANGE, HeaderValue::from_str(text).unwrap());
            range(&headers, 1000).map_err(|problem| problem.code().to_owned())
        };
        let part = |range| Ok(Some(range));
        assert_eq!(ask("bytes=0-499"), part(0..500));
        assert_eq!(ask("bytes=500-"), part(500..1000));
        assert_eq!(ask("bytes=-200"), part(800..1000));
        assert_eq!(ask("bytes=-2000"), part(0..1000));
        assert_eq!(ask("bytes=999-18446744073709551615"), part(999..1000));
        for ignored in ["bytes=0-1,5-6", "lines=0-1", "bytes=5-4", "bytes=a-", "bytes=-", "bytes=+1-2"] {
            assert_eq!(ask(ignored), Ok(None), "{ignored}");
        }
        assert_eq!(ask("bytes=1000-"), Err("range".to_owned()));
        assert_eq!(ask("bytes=-0"), Err("range".to_owned()));
    }
}
