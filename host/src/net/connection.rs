//! One connection: handshake, requests one after the other, and an end at which the last answer still arrives.

use super::answer::{Answer, AnswerBody};
use super::body::{BodyReader, Ended};
use super::floor::Floor;
use super::limits::NetLimits;
use super::metrics;
use super::principal::{Principal, Principals};
use super::router::{Call, Handler, Resource, check_head};
use super::serve::{Access, Shared};
use super::shed::Place;
use super::slots::{Busy, Slot};
use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_LENGTH};
use http::{HeaderValue, Request, Response};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use panetiere_api::limits::{MAX_HEAD_BYTES, MAX_HEADERS};
use panetiere_api::problem::{Code, Problem};
use panetiere_api::tls::Facts;
use std::convert::Infallible;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep, timeout};
use tokio_rustls::TlsAcceptor;

/// Bytes that are read and thrown away at most so that a refusal arrives.
const MAX_LINGER_BYTES: u64 = 4 << 20;

/// How a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ends {
    /// The plane went down and its time was up.
    Cut,
    /// Another connection needed its place.
    Evicted,
    /// No TLS came of it.
    Handshake,
    /// No request came in time.
    Idle,
    /// As both sides wanted.
    Over,
    /// Its party is in the table no more.
    Revoked,
    /// The client broke HTTP, went away, or did not read.
    Broken,
}

impl Ends {
    /// What metrics call it; `None` for a proper end.
    pub const fn reason(self) -> Option<&'static str> {
        match self {
            Self::Cut => Some("cut"),
            // Counted where it was decided.
            Self::Evicted | Self::Over => None,
            Self::Handshake => Some("handshake"),
            Self::Idle => Some("idle"),
            Self::Revoked => Some("revoked"),
            Self::Broken => Some("broken"),
        }
    }
}

/// What the requests of one connection share.
struct Peer<H> {
    shared: Arc<Shared<H>>,
    slot: Arc<Slot>,
    certificate: Option<Facts>,
    /// The party as it was at the last request.
    known: Mutex<Option<Arc<Principal>>>,
    /// Whether an answer went out while the client was perhaps still sending.
    unread: AtomicBool,
}

pub(super) async fn serve_connection<H: Handler>(
    stream: TcpStream,
    slot: Arc<Slot>,
    shared: Arc<Shared<H>>,
) -> Ends {
    // Answers are small; none of them waits for the next.
    if stream.set_nodelay(true).is_err() {
        return Ends::Broken;
    }
    let Some(tls) = &shared.plane.tls else {
        let peer = Peer::new(shared, slot, None);
        return serve_stream(stream, peer).await;
    };
    let accepting = TlsAcceptor::from(tls.config()).accept(stream);
    let accepted = tokio::select! {
        biased;
        // Whoever has not even said hello is not waited for.
        () = shared.draining.cancelled() => return Ends::Over,
        accepted = timeout(shared.plane.limits.handshake, accepting) => accepted,
    };
    let stream = match accepted {
        Ok(Ok(stream)) => stream,
        Ok(Err(_)) => {
            metrics::handshake("failed");
            return Ends::Handshake;
        }
        Err(_) => {
            metrics::handshake("timeout");
            return Ends::Handshake;
        }
    };
    metrics::handshake("ok");
    let leaf = stream.get_ref().1.peer_certificates().and_then(|chain| chain.first());
    // The verifier has read it before.
    let certificate = leaf.and_then(|leaf| Facts::of(leaf).ok());
    serve_stream(stream, Peer::new(shared, slot, certificate)).await
}

async fn serve_stream<H: Handler, S>(stream: S, peer: Peer<H>) -> Ends
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let peer = Arc::new(peer);
    let limits = peer.shared.plane.limits;
    let service = service_fn({
        let peer = Arc::clone(&peer);
        move |request| {
            let peer = Arc::clone(&peer);
            // Boxed: the connection is moved when it is taken apart at its end.
            Box::pin(async move { Ok::<_, Infallible>(answer(peer, request).await) })
        }
    });
    let mut http = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.idle)
        .max_buf_size(MAX_HEAD_BYTES)
        .max_headers(MAX_HEADERS)
        .serve_connection(TokioIo::new(Guarded::new(stream, &limits)), service);
    let draining = peer.shared.draining.clone();
    let mut told = false;
    let mut revoked = pin!(revoked(Arc::clone(&peer)));
    let outcome = loop {
        tokio::select! {
            biased;
            () = draining.cancelled(), if !told => {
                told = true;
                if peer.slot.is_idle() {
                    return Ends::Over;
                }
                Pin::new(&mut http).graceful_shutdown();
            }
            () = &mut revoked => return Ends::Revoked,
            outcome = std::future::poll_fn(|cx| http.poll_without_shutdown(cx)) => break outcome,
        }
    };
    let stream = http.into_parts().io.into_inner().stream;
    let unread = peer.unread.load(Ordering::Relaxed);
    // In whatever state HTTP ended, TLS says so, and what is still coming is thrown away for a while: a socket that is
    // closed over unread bytes resets the connection, and the answer is lost on its way.
    let _ = timeout(limits.linger, close(stream, unread)).await;
    match outcome {
        Ok(()) => Ends::Over,
        Err(error) if error.is_timeout() => Ends::Idle,
        Err(_) => Ends::Broken,
    }
}

async fn close<S: AsyncRead + AsyncWrite + Unpin>(mut stream: S, unread: bool) -> io::Result<()> {
    stream.shutdown().await?;
    if unread {
        tokio::io::copy(&mut stream.take(MAX_LINGER_BYTES), &mut tokio::io::sink()).await?;
    }
    Ok(())
}

/// Resolves when the connection's party is not in the table as it was.
async fn revoked<H: Handler>(peer: Arc<Peer<H>>) {
    let Access::Principals(principals) = &peer.shared.plane.access else {
        return std::future::pending().await;
    };
    let mut changes = principals.changes();
    loop {
        if changes.changed().await.is_err() {
            // The table lives as long as the plane.
            return std::future::pending().await;
        }
        let before = peer.known.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(before) = before
            && peer.authenticate(principals).ok().as_deref() != Some(&*before)
        {
            return;
        }
    }
}

impl<H: Handler> Peer<H> {
    fn new(shared: Arc<Shared<H>>, slot: Arc<Slot>, certificate: Option<Facts>) -> Self {
        Self { shared, slot, certificate, known: Mutex::default(), unread: AtomicBool::new(false) }
    }

    fn authenticate(&self, principals: &Principals) -> Result<Arc<Principal>, Code> {
        // A clock that cannot be read lets nobody in.
        let now = self.shared.plane.clock.current_time().ok_or(Code::Internal)?;
        principals.authenticate(self.certificate.as_ref(), now.as_secs())
    }

    /// Who asks.
    fn principal(&self) -> Result<Option<Arc<Principal>>, Code> {
        match &self.shared.plane.access {
            Access::Public => Ok(None),
            Access::Principals(principals) => {
                let principal = self.authenticate(principals)?;
                *self.known.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&principal));
                Ok(Some(principal))
            }
        }
    }

    /// Everything that the head alone decides. The body's place comes with the call.
    async fn accept(
        &self,
        head: &http::request::Parts,
    ) -> Result<(Resource<H::Route>, Option<Arc<Principal>>, u64, Option<Place>), Answer> {
        let plane = &self.shared.plane;
        let refuse = |problem: Problem| Answer::from(problem);
        let principal = self.principal().map_err(|code| refuse(code.into()))?;
        let found = plane.handler.resource(head.uri.path(), head.uri.query()).map_err(refuse)?;
        let len = check_head(&head.method, &head.headers, &found.rules)?;
        plane.handler.admit(&found.route, &head.method, principal.as_deref()).map_err(refuse)?;
        if let (Some(quotas), Some(principal)) = (&plane.quotas, &principal) {
            quotas.charge(&principal.key.0, len).map_err(|error| refuse(error.into()))?;
        }
        if len == 0 {
            return Ok((found, principal, len, None));
        }
        let place = self.shared.uploads.enter().await.map_err(|shed| {
            metrics::shed("uploads");
            refuse(shed.into())
        })?;
        Ok((found, principal, len, Some(place)))
    }
}

async fn answer<H: Handler>(peer: Arc<Peer<H>>, request: Request<Incoming>) -> Response<Tracked> {
    let busy = peer.slot.busy();
    let plane = &peer.shared.plane;
    let (head, incoming) = request.into_parts();
    let announced = !incoming.is_end_stream();
    let (answer, whole) = match peer.accept(&head).await {
        Err(refusal) => (refusal, !announced),
        Ok((found, principal, len, place)) => {
            let body = BodyReader::new(incoming, len, &plane.limits, plane.budget.clone());
            let ended = body.ended();
            let (method, headers) = (head.method, head.headers);
            let call = Call { route: found.route, method, principal, headers, body };
            (run(plane, call, place).await, Ended::get(&ended))
        }
    };
    metrics::answered(plane.name, answer.status);
    let mut response = Response::new(Tracked { body: answer.body, _busy: busy });
    *response.status_mut() = answer.status;
    *response.headers_mut() = answer.headers;
    if let Some(len) = response.body().size_hint().exact() {
        response.headers_mut().entry(CONTENT_LENGTH).or_insert(HeaderValue::from(len));
    }
    let unauthorized = answer.status == http::StatusCode::UNAUTHORIZED;
    if !whole || unauthorized {
        // What was not read is not a request; and whoever is nobody has nothing more to say.
        peer.unread.store(!whole, Ordering::Relaxed);
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

/// Runs a handler. One that panics is a bug of ours and ends one request.
async fn run<H: Handler>(
    plane: &super::serve::Plane<H>,
    call: Call<H::Route>,
    place: Option<Place>,
) -> Answer {
    let uploading = place.is_some();
    let gauge = ::metrics::gauge!(metrics::UPLOADS_IN_FLIGHT);
    if uploading {
        gauge.increment(1.0);
    }
    let mut handling = pin!(plane.handler.handle(call));
    let outcome =
        std::future::poll_fn(|cx| match catch_unwind(AssertUnwindSafe(|| handling.as_mut().poll(cx))) {
            Ok(poll) => poll,
            Err(_) => Poll::Ready(Err(Code::Internal.into())),
        })
        .await;
    drop(place);
    if uploading {
        gauge.decrement(1.0);
    }
    outcome.unwrap_or_else(Answer::from)
}

/// The body of an answer, and the connection busy until it is gone.
struct Tracked {
    body: AnswerBody,
    _busy: Busy,
}

impl Body for Tracked {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A stream whose peer has to take what we write, at the floor's rate.
struct Guarded<S> {
    stream: S,
    floor: Floor,
    waiting: Option<(Instant, Pin<Box<Sleep>>)>,
}

impl<S> Guarded<S> {
    fn new(stream: S, limits: &NetLimits) -> Self {
        Self { stream, floor: Floor::new(limits.floor_bytes_per_s, limits.floor_grace), waiting: None }
    }

    /// Counts the time in which a write does not get on.
    fn watch<T>(
        &mut self,
        cx: &mut Context<'_>,
        poll: Poll<io::Result<T>>,
        written: impl FnOnce(&T) -> usize,
    ) -> Poll<io::Result<T>> {
        match poll {
            Poll::Ready(result) => {
                let waited = self.waiting.take().map_or(Duration::ZERO, |(since, _)| since.elapsed());
                self.floor.record(waited, result.as_ref().map_or(0, written));
                Poll::Ready(result)
            }
            Poll::Pending => {
                let allowance = self.floor.allowance();
                let (_, limit) =
                    self.waiting.get_or_insert_with(|| (Instant::now(), Box::pin(sleep(allowance))));
                ready!(limit.as_mut().poll(cx));
                Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the peer does not read")))
            }
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Guarded<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Guarded<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let poll = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.watch(cx, poll, |written| *written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let poll = Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
        self.watch(cx, poll, |written| *written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let poll = Pin::new(&mut self.stream).poll_flush(cx);
        self.watch(cx, poll, |()| 0)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
