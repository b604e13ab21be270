//! The bulletin as a party sees it: requests with the party's certificate, and how to wait between them.

use super::UpstreamError;
use super::feed::Batch;
use crate::config::{Deployment, TlsFiles};
use crate::daemon::unix_time;
use crate::net::admin::Readiness;
use crate::role::Order;
use anyhow::Context as _;
use http::StatusCode;
use panetiere::wire::Encode as _;
use panetiere_api::client::{Answer, Client, ClientConfig, ClientError, Resume, RetryPolicy, Upload};
use panetiere_api::leaf::{Leaf, RoundId};
use panetiere_api::limits::{MAX_EVIDENCE_BYTES, MAX_LEAVES, MAX_OPERATOR_BYTES};
use panetiere_api::media::MediaType;
use panetiere_api::path::{BlobId, Path};
use std::path::Path as FilePath;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicU64, Ordering};
use std::time::Duration;
use tlog::checkpoint::Checkpoint;
use tlog::entry;
use tlog::note::Note;

/// How long a reader waits for the next checkpoint, in milliseconds.
const WAIT_MS: u64 = 20_000;
/// Seconds after which a bulletin that has not been heard of counts as out of reach: longer than a wait.
const LATELY_S: u64 = 45;
/// Bytes of an entry with its length at most.
const MAX_FRAMED: u64 = 2 + 65_535;

/// A request is tried a few times; beyond that, whoever asks decides whether it is still wanted.
pub(super) const RETRY: RetryPolicy = RetryPolicy {
    tries: 3,
    first_wait: Duration::from_millis(100),
    longest_wait: Duration::from_secs(2),
    deadline: Duration::from_secs(60),
};

/// Waits that double, with jitter, from 100 ms to 5 s.
#[derive(Clone, Copy, Debug, Default)]
pub struct Backoff {
    failures: u32,
}

impl Backoff {
    /// Something went well.
    pub const fn reset(&mut self) {
        self.failures = 0;
    }

    /// The next wait: half of the step for certain, half by chance.
    pub fn step(&mut self) -> Duration {
        let step = wait_of(self.failures);
        self.failures = self.failures.saturating_add(1);
        let mut random = [0; 2];
        // Without chance the wait is the longest: nothing depends on it.
        let part =
            getrandom::fill(&mut random).map_or(1.0, |()| f64::from(u16::from_le_bytes(random)) / 65_535.0);
        step / 2 + step.mul_f64(part) / 2
    }

    /// Waits so long.
    pub async fn wait(&mut self) {
        tokio::time::sleep(self.step()).await;
    }
}

/// The longest wait after so many failures.
pub fn wait_of(failures: u32) -> Duration {
    Duration::from_millis(100 << failures.min(6)).min(Duration::from_secs(5))
}

/// The bulletin. Clones are cheap to make through `Arc`.
pub struct Upstream {
    client: Client,
    whom: String,
    /// When it last answered, in seconds since 1970; 0 before it has.
    heard: AtomicU64,
    /// The status with which it refused this party last, 0 if it does not.
    refused: AtomicU16,
}

impl std::fmt::Debug for Upstream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Upstream({})", self.whom)
    }
}

impl Upstream {
    /// The bulletin's operator plane, for the party with this certificate. Connects when first used.
    ///
    /// # Errors
    /// If the deployment has no such plane, or the certificate cannot be read.
    pub fn operator(deployment: &Deployment, config_path: &FilePath, tls: &TlsFiles) -> anyhow::Result<Self> {
        let mut config =
            deployment.bulletin.operator_client().context("the deployment names no operator plane")?;
        config.identity = Some(super::setup::tls_identity(config_path, tls)?);
        Self::new(config)
    }

    /// The bulletin's data plane, for anybody.
    ///
    /// # Errors
    /// If its host is none.
    pub fn public(deployment: &Deployment) -> anyhow::Result<Self> {
        Self::new(deployment.bulletin.data_client())
    }

    /// Whoever is at that address.
    ///
    /// # Errors
    /// If the host is neither a name nor an address.
    pub fn new(config: ClientConfig) -> anyhow::Result<Self> {
        let whom = format!("{}:{}", config.host, config.port);
        let client = Client::new(ClientConfig { retry: RETRY, ..config })?;
        Ok(Self { client, whom, heard: AtomicU64::new(0), refused: AtomicU16::new(0) })
    }

    fn note<T>(&self, what: &'static str, outcome: Result<T, ClientError>) -> Result<T, UpstreamError> {
        let refusal = match &outcome {
            Ok(_) => Some(0),
            Err(error) => error.refusal().map(|refusal| refusal.status.as_u16()),
        };
        if let Some(status) = refusal {
            self.heard.store(unix_time(), Ordering::Relaxed);
            let shut_out = if matches!(status, 401 | 403) { status } else { 0 };
            self.refused.store(shut_out, Ordering::Relaxed);
        }
        outcome.map_err(|source| UpstreamError::Request { whom: self.whom.clone(), what, source })
    }

    pub(in crate::daemon) fn malformed(&self, what: &'static str, reason: impl ToString) -> UpstreamError {
        UpstreamError::Answer { whom: self.whom.clone(), what, reason: reason.to_string() }
    }

    /// Fetches what a path and query name: at most `cap` bytes.
    ///
    /// # Errors
    /// `Request`.
    pub async fn get(
        &self,
        what: &'static str,
        path: &str,
        cap: u64,
        resume: Resume,
    ) -> Result<Answer, UpstreamError> {
        self.note(what, self.client.get(path, cap, resume).await)
    }

    /// The same; None if it is not there.
    ///
    /// # Errors
    /// `Request`.
    pub async fn get_if_there(
        &self,
        what: &'static str,
        path: &str,
        cap: u64,
        resume: Resume,
    ) -> Result<Option<Vec<u8>>, UpstreamError> {
        match self.get(what, path, cap, resume).await {
            Ok(answer) if answer.status == StatusCode::NO_CONTENT => Ok(None),
            Ok(answer) => Ok(Some(answer.body)),
            Err(error) if error.status() == Some(404) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Puts a body where the path names it.
    ///
    /// # Errors
    /// `Request`.
    pub async fn put(
        &self,
        what: &'static str,
        path: &Path,
        media: MediaType,
        body: Vec<u8>,
    ) -> Result<(), UpstreamError> {
        let upload = Upload::Bytes(body.into());
        self.note(what, self.client.put(&path.to_string(), media, upload).await).map(drop)
    }

    fn parse_note(&self, what: &'static str, bytes: &[u8]) -> Result<(Note, u64), UpstreamError> {
        let note = Note::parse(bytes).map_err(|error| self.malformed(what, error))?;
        let claimed = note.text().parse::<Checkpoint>().map_err(|error| self.malformed(what, error))?;
        Ok((note, claimed.head().size))
    }

    /// The size of the latest checkpoint, 0 for an empty log. Nothing of it is verified: it tells how far there is to read.
    ///
    /// # Errors
    /// `Request`, `Answer`.
    pub async fn size(&self) -> Result<u64, UpstreamError> {
        let path = Path::LogCheckpoint.to_string();
        let bytes = self.get_if_there("checkpoint", &path, MAX_OPERATOR_BYTES, Resume::Never).await?;
        bytes.map_or(Ok(0), |bytes| self.parse_note("checkpoint", &bytes).map(|(_, size)| size))
    }

    /// The next checkpoint beyond `from`, and the entries up to it. Waits for one up to 20 s; None if none came.
    ///
    /// # Errors
    /// `Request`, `Answer`. What is answered is not verified.
    pub async fn next(&self, from: u64) -> Result<Option<Batch>, UpstreamError> {
        let path = format!("{}?size={from}&ms={WAIT_MS}", Path::Wait);
        let Some(bytes) = self.get_if_there("checkpoint", &path, MAX_OPERATOR_BYTES, Resume::Never).await?
        else {
            return Ok(None);
        };
        let (note, to) = self.parse_note("checkpoint", &bytes)?;
        if to <= from {
            return Err(self.malformed("checkpoint", format!("size {to} is not beyond {from}")));
        }
        let mut entries = Vec::new();
        let mut next = from;
        while next < to {
            let end = to.min(next + MAX_LEAVES);
            self.leaves(next, end, &mut entries).await?;
            next = end;
        }
        Ok(Some(Batch { note, from, entries }))
    }

    async fn leaves(&self, from: u64, to: u64, entries: &mut Vec<Vec<u8>>) -> Result<(), UpstreamError> {
        let path = format!("{}?from={from}&to={to}", Path::Leaves);
        let answer = self.get("leaves", &path, (to - from) * MAX_FRAMED, Resume::Never).await?;
        let mut rest = &answer.body[..];
        for _ in from..to {
            let next = entry::next(rest);
            let (leaf, after) = next.ok_or_else(|| self.malformed("leaves", "they end too early"))?;
            entries.push(leaf.to_vec());
            rest = after;
        }
        if rest.is_empty() { Ok(()) } else { Err(self.malformed("leaves", "bytes follow the last one")) }
    }

    /// Bytes by their digest.
    ///
    /// # Errors
    /// `Request`; `Answer` for others.
    pub async fn blob(&self, digest: &[u8; 32], len: u64) -> Result<Vec<u8>, UpstreamError> {
        let path = Path::Blob(BlobId(*digest)).to_string();
        if len > MAX_EVIDENCE_BYTES {
            return Err(self.malformed("blob", format!("{len} bytes are more than any evidence has")));
        }
        let bytes = self.get("blob", &path, len, Resume::Range).await?.body;
        let fits = u64::try_from(bytes.len()).ok() == Some(len) && blake3::hash(&bytes) == *digest;
        if fits { Ok(bytes) } else { Err(self.malformed("blob", "it has another digest")) }
    }

    /// The checkpoint that settles a round, as text, waiting for it up to `ms`; None if there is none yet.
    ///
    /// # Errors
    /// `Request`, `Answer`.
    pub async fn closing(&self, round: RoundId, ms: u64) -> Result<Option<Note>, UpstreamError> {
        let path = format!("{}?ms={ms}", Path::Closing(round));
        let bytes = self.get_if_there("closing checkpoint", &path, MAX_OPERATOR_BYTES, Resume::Never).await?;
        bytes.map(|bytes| self.parse_note("closing checkpoint", &bytes).map(|(note, _)| note)).transpose()
    }

    /// Hands over what a party wants published.
    ///
    /// # Errors
    /// `Request`.
    pub async fn publish(&self, order: &Order) -> Result<(), UpstreamError> {
        let Some((what, path, media, body)) = destination(order) else { return Ok(()) };
        self.put(what, &path, media, body).await
    }

    /// Adds what `/readyz` asks of the bulletin: whether it was heard of lately and takes this party for one.
    pub fn watch(self: &Arc<Self>, readiness: &Readiness) {
        let upstream = Arc::clone(self);
        readiness.check("bulletin", move || {
            let heard = upstream.heard.load(Ordering::Relaxed);
            let refused = upstream.refused.load(Ordering::Relaxed);
            let silent = unix_time().saturating_sub(heard);
            match (heard, refused) {
                (0, _) => Err(format!("{} has not answered yet", upstream.whom)),
                (_, 401 | 403) => {
                    Err(format!("{} refuses this party's certificate ({refused})", upstream.whom))
                }
                _ if silent > LATELY_S => Err(format!("{} was last heard of {silent} s ago", upstream.whom)),
                _ => Ok(None),
            }
        });
    }
}

/// Where an order goes: what it is, its path, its type, its body. None for what is not published.
fn destination(order: &Order) -> Option<(&'static str, Path, MediaType, Vec<u8>)> {
    let (round, leaf, body) = match order {
        Order::Accuse { round, evidence, .. } => {
            return Some(("evidence", Path::Evidence(*round), MediaType::Evidence, evidence.to_bytes()));
        }
        Order::Fetch { .. } => return None,
        Order::Publish { round, leaf, body } => (*round, leaf, body),
    };
    let body = body.clone();
    Some(match &**leaf {
        Leaf::Checked(unread) => {
            let server = super::publisher::checked_by(unread)?;
            ("word on the envelopes", Path::Checked(round, server), MediaType::Checked, unread.bytes.clone())
        }
        Leaf::GroupSum(sum) => {
            ("sum", Path::GroupSum(round, sum.claim().aggregator), MediaType::GroupSum, body?)
        }
        Leaf::LaneSum(sum) => ("sum", Path::LaneSum(round, sum.claim().lane), MediaType::LaneSum, body?),
        Leaf::Result(result) => {
            let mut bytes = result.to_bytes();
            bytes.extend_from_slice(&body?);
            ("result", Path::Result(round), MediaType::Result, bytes)
        }
        Leaf::ServerSum(sum) => {
            ("sum", Path::ServerSum(round, sum.claim().server), MediaType::ServerSum, body?)
        }
        _ => return None,
    })
}
