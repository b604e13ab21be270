//! What is sent: bytes or a file, of exactly known length, each try from its start.

use super::ClientError;
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::fs::File;
use tokio::io::{AsyncRead, ReadBuf};
use tokio::sync::oneshot;
use tokio::time::{Sleep, sleep};

/// Bytes of a file that are read at once.
const CHUNK: usize = 64 << 10;

/// A body to send.
#[derive(Clone, Debug)]
pub enum Upload {
    /// These bytes; shared, not copied, by every try.
    Bytes(Bytes),
    /// A file's first `len` bytes. A shorter file fails the request.
    File {
        /// Where it is.
        path: PathBuf,
        /// Bytes to send.
        len: u64,
    },
}

impl Upload {
    /// Bytes to send.
    pub fn len(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => u64::try_from(bytes.len()).expect("usize has at most 64 bits"),
            Self::File { len, .. } => *len,
        }
    }

    /// Whether there is nothing to send.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The body of one try.
    ///
    /// # Errors
    /// `Upload` for a file that cannot be opened.
    pub(super) async fn open(&self, gate: Gate, sent: Arc<AtomicU64>) -> Result<Outgoing, ClientError> {
        let source = match self {
            Self::Bytes(bytes) => Source::Bytes(bytes.clone()),
            Self::File { path, len } => {
                let file = File::open(path).await.map_err(ClientError::Upload)?;
                Source::File { file, left: *len, buffer: vec![0; CHUNK].into() }
            }
        };
        Ok(Outgoing { source, gate, sent })
    }
}

/// What a body waits for before its first byte.
pub(super) enum Gate {
    /// Nothing.
    Open,
    /// `100 Continue`, or the time after which the server is taken for one that does not know it.
    Continue { told: Option<oneshot::Receiver<()>>, timeout: Pin<Box<Sleep>> },
}

impl Gate {
    /// A gate that opens when `told` fires, or after `timeout`.
    pub(super) fn until(told: oneshot::Receiver<()>, timeout: Duration) -> Self {
        Self::Continue { told: Some(told), timeout: Box::pin(sleep(timeout)) }
    }

    fn poll_open(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if let Self::Continue { told, timeout } = self {
            let answered = told.as_mut().map(|told| Pin::new(told).poll(cx));
            if let Some(Poll::Ready(Err(_))) = answered {
                // The exchange is over; what it asked for is not wanted any more.
                *told = None;
            }
            if !matches!(answered, Some(Poll::Ready(Ok(())))) && timeout.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
            *self = Self::Open;
        }
        Poll::Ready(())
    }
}

enum Source {
    Bytes(Bytes),
    File { file: File, left: u64, buffer: Box<[u8]> },
}

/// The body of one try.
pub(super) struct Outgoing {
    source: Source,
    gate: Gate,
    /// Bytes handed over so far, for whoever watches.
    sent: Arc<AtomicU64>,
}

impl Outgoing {
    /// The body of a request that has none.
    pub(super) fn empty() -> Self {
        Self { source: Source::Bytes(Bytes::new()), gate: Gate::Open, sent: Arc::default() }
    }

    fn left(&self) -> u64 {
        match &self.source {
            Source::Bytes(bytes) => u64::try_from(bytes.len()).expect("usize has at most 64 bits"),
            Source::File { left, .. } => *left,
        }
    }
}

impl Body for Outgoing {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        if self.left() == 0 {
            return Poll::Ready(None);
        }
        std::task::ready!(self.gate.poll_open(cx));
        let this = &mut *self;
        let chunk = match &mut this.source {
            Source::Bytes(bytes) => {
                let end = bytes.len().min(CHUNK);
                bytes.split_to(end)
            }
            Source::File { file, left, buffer } => {
                let want = usize::try_from(*left).unwrap_or(CHUNK).min(CHUNK);
                let mut read = ReadBuf::new(&mut buffer[..want]);
                std::task::ready!(Pin::new(file).poll_read(cx, &mut read))?;
                let filled = read.filled();
                if filled.is_empty() {
                    let error = io::Error::new(io::ErrorKind::UnexpectedEof, "the file has become shorter");
                    return Poll::Ready(Some(Err(error)));
                }
                *left -= u64::try_from(filled.len()).expect("usize has at most 64 bits");
                Bytes::copy_from_slice(filled)
            }
        };
        self.sent
            .fetch_add(u64::try_from(chunk.len()).expect("usize has at most 64 bits"), Ordering::Relaxed);
        Poll::Ready(Some(Ok(Frame::data(chunk))))
    }

    fn is_end_stream(&self) -> bool {
        self.left() == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left())
    }
}
