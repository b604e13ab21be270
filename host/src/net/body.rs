//! The body of a request, of exactly known length.

use super::budget::{ByteBudget, Held};
use super::floor::Floor;
use super::limits::NetLimits;
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use panetiere::fault::{Attribution, Fault, Retry};
use panetiere_api::limits::MAX_HEAD_BYTES;
use panetiere_api::problem::{Code, Problem};
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::time::{Instant, timeout};

/// Bytes of a chunk at most: what a connection reads at once.
pub const MAX_CHUNK: usize = MAX_HEAD_BYTES;

/// A body that did not come whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BodyError {
    /// There is no room for it in memory now.
    #[error("no room for a body of {len} bytes now")]
    Busy {
        /// Bytes that were wanted.
        len: u64,
        /// Seconds after which to try again.
        retry_after_s: u64,
    },
    /// The client ended the connection, or broke HTTP.
    #[error("the client went away after {received} of {len} bytes")]
    Gone {
        /// Bytes that came.
        received: u64,
        /// Bytes that were announced.
        len: u64,
    },
    /// It came slower than the floor.
    #[error("the body came slower than {floor_bytes_per_s} bytes a second")]
    Slow {
        /// The floor.
        floor_bytes_per_s: u64,
    },
}

impl Fault for BodyError {
    fn code(&self) -> &'static str {
        match self {
            Self::Busy { .. } => Code::Shed.as_str(),
            Self::Gone { .. } => Code::BodyLength.as_str(),
            Self::Slow { .. } => Code::BodySlow.as_str(),
        }
    }

    fn attribution(&self) -> Attribution {
        match self {
            Self::Busy { .. } => Attribution::Operator,
            Self::Gone { .. } | Self::Slow { .. } => Attribution::Caller,
        }
    }

    fn retry(&self) -> Retry {
        Retry::SameRequest
    }
}

impl From<BodyError> for Problem {
    fn from(error: BodyError) -> Self {
        match error {
            BodyError::Busy { retry_after_s, .. } => {
                Self::from(Code::Shed).with_detail(error.to_string()).with_retry_after(retry_after_s)
            }
            BodyError::Gone { .. } => Self::from(Code::BodyLength).with_detail(error.to_string()),
            BodyError::Slow { .. } => Self::from(Code::BodySlow).with_detail(error.to_string()),
        }
    }
}

/// A piece of a body, counted in the budget as long as it lives.
#[derive(Debug)]
pub struct Chunk {
    bytes: Bytes,
    _held: Held,
}

impl Deref for Chunk {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

/// A whole body, counted in the budget as long as it lives.
#[derive(Debug)]
pub struct Whole {
    bytes: Vec<u8>,
    _held: Held,
}

impl Deref for Whole {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Whether a body has come to its end: what a connection has to know after the request.
#[derive(Clone, Debug, Default)]
pub(super) struct Ended(Arc<AtomicBool>);

impl Ended {
    pub(super) fn get(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Reads a body of known length. Nothing is asked of the client (`100 Continue`) before the first read.
pub struct BodyReader {
    incoming: Incoming,
    len: u64,
    received: u64,
    floor: Floor,
    floor_bytes_per_s: u64,
    budget: ByteBudget,
    wait: Duration,
    retry_after_s: u64,
    hasher: Option<Box<blake3::Hasher>>,
    ended: Ended,
}

impl BodyReader {
    pub(super) fn new(incoming: Incoming, len: u64, limits: &NetLimits, budget: ByteBudget) -> Self {
        let ended = Ended::default();
        ended.0.store(len == 0, Ordering::Relaxed);
        Self {
            incoming,
            len,
            received: 0,
            floor: Floor::new(limits.floor_bytes_per_s, limits.floor_grace),
            floor_bytes_per_s: limits.floor_bytes_per_s,
            budget,
            wait: limits.shed_wait,
            retry_after_s: limits.retry_after_s,
            hasher: None,
            ended,
        }
    }

    pub(super) fn ended(&self) -> Ended {
        self.ended.clone()
    }

    /// Hashes what is read from here on; ask for it before the first read.
    #[must_use]
    pub fn hashed(mut self) -> Self {
        self.hasher = Some(Box::default());
        self
    }

    /// The body's length in bytes.
    pub const fn len(&self) -> u64 {
        self.len
    }

    /// Whether there is no body.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// BLAKE3 digest of what was read so far, if it was asked for.
    pub fn digest(&self) -> Option<[u8; 32]> {
        self.hasher.as_ref().map(|hasher| hasher.finalize().into())
    }

    /// The next piece; `None` after the last. Drop it before asking for another: bodies that hold what others wait for would
    /// wait for each other.
    ///
    /// # Errors
    /// `Gone`, `Slow`, or `Busy` when the budget had no room in time. The body is lost then.
    pub async fn chunk(&mut self) -> Result<Option<Chunk>, BodyError> {
        let busy = BodyError::Busy { len: self.len, retry_after_s: self.retry_after_s };
        let mut held = self.budget.take(MAX_CHUNK, self.wait).await.ok_or(busy)?;
        let Some(bytes) = self.frame().await? else { return Ok(None) };
        held.shrink(bytes.len());
        Ok(Some(Chunk { bytes, _held: held }))
    }

    /// The whole body. Its length is taken from the budget before the first byte is read, and held however slowly it
    /// comes: for bodies of kilobytes. Those of megabytes go to disk chunk by chunk.
    ///
    /// # Errors
    /// As [`chunk`](Self::chunk).
    pub async fn collect(&mut self) -> Result<Whole, BodyError> {
        let busy = BodyError::Busy { len: self.len, retry_after_s: self.retry_after_s };
        let len = usize::try_from(self.len - self.received).map_err(|_| busy)?;
        let held = self.budget.take(len, self.wait).await.ok_or(busy)?;
        let mut bytes = Vec::with_capacity(len);
        while let Some(frame) = self.frame().await? {
            bytes.extend_from_slice(&frame);
        }
        Ok(Whole { bytes, _held: held })
    }

    async fn frame(&mut self) -> Result<Option<Bytes>, BodyError> {
        loop {
            let gone = BodyError::Gone { received: self.received, len: self.len };
            if self.received == self.len {
                return Ok(None);
            }
            let started = Instant::now();
            let frame = timeout(self.floor.allowance(), self.incoming.frame()).await;
            let Ok(frame) = frame else {
                return Err(BodyError::Slow { floor_bytes_per_s: self.floor_bytes_per_s });
            };
            let data = frame.ok_or(gone)?.map_err(|_| gone)?.into_data().map_err(|_| gone)?;
            self.floor.record(started.elapsed(), data.len());
            self.received += u64::try_from(data.len()).expect("usize has at most 64 bits");
            if self.received > self.len {
                return Err(gone);
            }
            self.ended.0.store(self.received == self.len, Ordering::Relaxed);
            if !data.is_empty() {
                if let Some(hasher) = &mut self.hasher {
                    hasher.update(&data);
                }
                return Ok(Some(data));
            }
        }
    }
}
