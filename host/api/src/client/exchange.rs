//! Requests and answers.

use super::body::{Gate, Outgoing};
use super::connection::Connection;
use super::{Answer, Client, ClientError, Refusal, Resume, Upload, retry};
use crate::limits::{EXPECT_ABOVE_BYTES, MAX_OPERATOR_BYTES};
use crate::media::MediaType;
use crate::problem::{MAX_PROBLEM, Problem};
use http::header::{
    ACCEPT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, EXPECT, HOST, RANGE, RETRY_AFTER,
};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use panetiere::fault::{Fault, Retry};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, timeout, timeout_at};

/// Bytes of the answer to an upload at most.
const MAX_RECEIPT: u64 = MAX_OPERATOR_BYTES;

struct Ask<'a> {
    method: Method,
    path: &'a str,
    upload: Option<(MediaType, Upload)>,
    cap: u64,
    resume: Resume,
    tries: u32,
}

/// What has come of a body so far.
#[derive(Default)]
struct Got {
    body: Vec<u8>,
}

impl Client {
    /// Fetches what `path` (and its query) names: at most `cap` bytes.
    ///
    /// # Errors
    /// `Refused` as the server put it, `AnswerTooLong` beyond the cap, `GaveUp` after the last try; others are final.
    pub async fn get(&self, path: &str, cap: u64, resume: Resume) -> Result<Answer, ClientError> {
        let ask = Ask { method: Method::GET, path, upload: None, cap, resume, tries: self.retry.tries };
        self.run(ask).await
    }

    /// Puts a body where `path` names it, as often as it takes: the same body under the same name is the same act.
    ///
    /// # Errors
    /// As [`get`](Self::get); `Upload` if a file cannot be read.
    pub async fn put(&self, path: &str, media: MediaType, upload: Upload) -> Result<Answer, ClientError> {
        let upload = Some((media, upload));
        let (cap, resume) = (MAX_RECEIPT, Resume::Never);
        self.run(Ask { method: Method::PUT, path, upload, cap, resume, tries: self.retry.tries }).await
    }

    /// Asks for something that is not idempotent: tried once.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub async fn post(&self, path: &str, media: MediaType, upload: Upload) -> Result<Answer, ClientError> {
        let upload = Some((media, upload));
        let (cap, resume) = (MAX_RECEIPT, Resume::Never);
        self.run(Ask { method: Method::POST, path, upload, cap, resume, tries: 1 }).await
    }

    async fn run(&self, ask: Ask<'_>) -> Result<Answer, ClientError> {
        let started = Instant::now();
        let deadline = started + self.retry.deadline;
        let mut got = Got::default();
        let mut last = None;
        let mut tries = 0;
        while tries < ask.tries {
            tries += 1;
            let Ok(outcome) = timeout_at(deadline, self.once(&ask, &mut got)).await else { break };
            let Failed { error, stale } = match outcome {
                Ok(answer) => return Ok(answer),
                Err(failed) if failed.error.retry() == Retry::Never => return Err(failed.error),
                Err(failed) => failed,
            };
            if ask.resume == Resume::Never {
                got.body.clear();
            }
            let asked = error.refusal().and_then(|refusal| refusal.retry_after);
            last = Some(Box::new(error));
            // A connection that the server closed while it was idle says nothing about the server.
            let wait = if stale { Duration::ZERO } else { self.retry.wait(tries, retry::random(), asked) };
            if tries < ask.tries && Instant::now() + wait < deadline {
                sleep(wait).await;
            } else {
                break;
            }
        }
        // A request that is tried once failed as it failed.
        match last {
            Some(error) if ask.tries == 1 => Err(*error),
            last => Err(ClientError::GaveUp { tries, elapsed: started.elapsed(), last }),
        }
    }

    /// One try.
    async fn once(&self, ask: &Ask<'_>, got: &mut Got) -> Result<Answer, Failed> {
        let mut connection = self.pool.take().await?;
        let outcome = self.exchange(&mut connection, ask, got).await;
        match outcome {
            Ok((answer, complete)) => {
                if complete {
                    self.pool.put_back(connection);
                }
                answer.map_err(Failed::from)
            }
            Err(error) => {
                let stale = connection.used && matches!(error, ClientError::Http(_));
                if stale {
                    self.pool.forget();
                }
                Err(Failed { error, stale })
            }
        }
    }

    /// The answer or refusal, and whether both sides have said all they had to say.
    async fn exchange(
        &self,
        connection: &mut Connection,
        ask: &Ask<'_>,
        got: &mut Got,
    ) -> Result<(Result<Answer, ClientError>, bool), ClientError> {
        let sent = Arc::new(AtomicU64::new(0));
        let request = self.request(ask, got.body.len(), &sent).await?;
        let response = self.response(connection.sender.send_request(request), &sent).await?;
        let whole =
            ask.upload.as_ref().is_none_or(|(_, upload)| sent.load(Ordering::Relaxed) == upload.len());
        let (head, body) = response.into_parts();
        if !head.status.is_success() {
            let refused = self.refusal(head.status, &head.headers, body).await;
            return Ok((Err(ClientError::Refused(refused)), whole));
        }
        place(head.status, &head.headers, got)?;
        self.read(&head.headers, body, ask.cap, got).await?;
        let body = std::mem::take(&mut got.body);
        Ok((Ok(Answer { status: head.status, headers: head.headers, body }), whole))
    }

    async fn request(
        &self,
        ask: &Ask<'_>,
        have: usize,
        sent: &Arc<AtomicU64>,
    ) -> Result<Request<Outgoing>, ClientError> {
        let mut builder = Request::builder()
            .method(ask.method.clone())
            .uri(ask.path)
            .header(HOST, &self.pool.authority)
            .header(ACCEPT_ENCODING, "identity");
        if have > 0 {
            builder = builder.header(RANGE, format!("bytes={have}-"));
        }
        let mut told = None;
        let body = match &ask.upload {
            None => Outgoing::empty(),
            Some((media, upload)) => {
                builder = builder.header(CONTENT_TYPE, media.as_str()).header(CONTENT_LENGTH, upload.len());
                let gate = if upload.len() > EXPECT_ABOVE_BYTES {
                    let (tell, receiver) = oneshot::channel();
                    builder = builder.header(EXPECT, "100-continue");
                    told = Some(tell);
                    Gate::until(receiver, self.pool.expect_timeout)
                } else {
                    Gate::Open
                };
                upload.open(gate, Arc::clone(sent)).await?
            }
        };
        let what = "the path is no URI";
        let mut request = builder.body(body).map_err(|_| ClientError::Protocol { what })?;
        if let Some(tell) = told {
            let tell = Mutex::new(Some(tell));
            hyper::ext::on_informational(&mut request, move |response| {
                let tell = tell.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
                if let Some(tell) = tell.filter(|_| response.status() == StatusCode::CONTINUE) {
                    // The body may be gone already.
                    let _ = tell.send(());
                }
            });
        }
        Ok(request)
    }

    /// The head of the answer. Silence is when nothing comes and nothing that is to be sent goes.
    async fn response(
        &self,
        response: impl Future<Output = hyper::Result<Response<Incoming>>>,
        sent: &AtomicU64,
    ) -> Result<Response<Incoming>, ClientError> {
        let mut response = std::pin::pin!(response);
        loop {
            let before = sent.load(Ordering::Relaxed);
            match timeout(self.pool.silence_timeout, response.as_mut()).await {
                Ok(response) => return response.map_err(ClientError::Http),
                Err(_) if sent.load(Ordering::Relaxed) > before => {}
                Err(_) => return Err(ClientError::Silent(self.pool.silence_timeout)),
            }
        }
    }

    /// Appends the body to what is there.
    async fn read(
        &self,
        headers: &HeaderMap,
        mut body: Incoming,
        cap: u64,
        got: &mut Got,
    ) -> Result<(), ClientError> {
        let bytes = |len: usize| u64::try_from(len).expect("usize has at most 64 bits");
        let have = bytes(got.body.len());
        let len = length(headers).map(|len| len.saturating_add(have));
        if len.is_some_and(|len| len > cap) {
            return Err(ClientError::AnswerTooLong { len, cap });
        }
        if let Some(len) = len.and_then(|len| usize::try_from(len).ok()) {
            got.body.reserve_exact(len - got.body.len());
        }
        loop {
            let frame = timeout(self.pool.silence_timeout, body.frame())
                .await
                .map_err(|_| ClientError::Silent(self.pool.silence_timeout))?;
            let Some(frame) = frame.transpose().map_err(ClientError::Http)? else { return Ok(()) };
            if let Ok(data) = frame.into_data() {
                if bytes(got.body.len()) + bytes(data.len()) > cap {
                    return Err(ClientError::AnswerTooLong { len, cap });
                }
                got.body.extend_from_slice(&data);
            }
        }
    }

    /// A refusal, with its document if it comes whole.
    async fn refusal(&self, status: StatusCode, headers: &HeaderMap, body: Incoming) -> Refusal {
        let header = headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
        let is_problem = headers
            .get(CONTENT_TYPE)
            .is_some_and(|value| value.as_bytes() == MediaType::Problem.as_str().as_bytes());
        let mut document = Got::default();
        let cap = u64::try_from(MAX_PROBLEM).expect("a small number");
        let problem = match self.read(headers, body, cap, &mut document).await {
            Ok(()) if is_problem => Problem::from_json(&document.body),
            _ => None,
        };
        let retry_after = header.or_else(|| problem.as_ref().and_then(Problem::retry_after));
        Refusal { status, problem, retry_after, body: document.body }
    }
}

/// A failed try.
struct Failed {
    error: ClientError,
    /// Whether the connection had been idle, and the server has perhaps closed it.
    stale: bool,
}

impl From<ClientError> for Failed {
    fn from(error: ClientError) -> Self {
        Self { error, stale: false }
    }
}

fn length(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// Where the body that comes belongs: behind what is there, or at the start.
fn place(status: StatusCode, headers: &HeaderMap, got: &mut Got) -> Result<(), ClientError> {
    if status != StatusCode::PARTIAL_CONTENT {
        got.body.clear();
        return Ok(());
    }
    let what = "part of a body that was not asked for";
    let range = headers.get(CONTENT_RANGE).and_then(|value| value.to_str().ok());
    let first = range
        .and_then(|range| range.strip_prefix("bytes "))
        .and_then(|range| range.split_once('-'))
        .and_then(|(first, _)| first.parse::<usize>().ok());
    if got.body.is_empty() || first != Some(got.body.len()) {
        return Err(ClientError::Protocol { what });
    }
    Ok(())
}
