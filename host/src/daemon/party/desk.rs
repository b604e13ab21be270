//! What every party that reads the log has, and how it reads: batch by batch, first of all what was there when it started.

use super::{Evidences, Fed, Feed, Publisher, Reading, Reads, Seat, Upstream, reach};
use crate::daemon::Process;
use crate::net::compute::Compute;
use crate::round::conductor::Millis;
use panetiere::bulletin::Epoch;
use panetiere::ids::EpochDigest;
use panetiere_api::leaf::Leaf;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Jobs that wait for a thread.
const QUEUE: usize = 64;

/// A role with what it works with.
pub struct Desk<T> {
    /// The role.
    pub seat: Seat<T>,
    /// The bulletin.
    pub upstream: Arc<Upstream>,
    /// What hands over to it.
    pub publisher: Publisher,
    /// Where evidence is kept.
    pub evidences: Evidences,
    /// What is done beside.
    pub tasks: TaskTracker,
    /// Ends what is done beside.
    pub stop: CancellationToken,
    /// Size of the log when the party started: until it is read, the party only reads.
    behind: u64,
    /// Since when it is read.
    since: Option<Instant>,
    position: Arc<AtomicU64>,
}

impl<T: Reads> Desk<T> {
    /// The desk of a role whose files are below `path`. Adds what `/readyz` asks of the bulletin and the reading.
    ///
    /// # Errors
    /// If there are no threads to be had, or the directory of the evidence cannot be made.
    pub fn new(role: T, upstream: Arc<Upstream>, path: &Path, process: &Process) -> anyhow::Result<Self> {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let stop = process.stop.child_token();
        let position = Arc::new(AtomicU64::new(0));
        upstream.watch(&process.readiness);
        let read = Arc::clone(&position);
        process.readiness.check("log", move || match read.load(Ordering::Relaxed) {
            0 => Err("the log is not read yet".to_owned()),
            size => Ok(Some(format!("read to {size}"))),
        });
        Ok(Self {
            seat: Seat::new(role, Compute::new(threads, QUEUE)?),
            publisher: Publisher::new(Arc::clone(&upstream), stop.clone()),
            evidences: Evidences::new(path)?,
            upstream,
            tasks: TaskTracker::new(),
            stop,
            behind: 0,
            since: None,
            position,
        })
    }

    /// Waits until the bulletin answers, and begins to read from the first leaf.
    ///
    /// # Errors
    /// If it is not the one that the deployment names.
    pub async fn begin(&mut self, process: &Process) -> anyhow::Result<Feed> {
        self.behind = reach(&self.upstream).await?;
        let feed = Feed::start(Arc::clone(&self.upstream), 0, &self.tasks, self.stop.clone());
        self.read_to(process, 0);
        Ok(feed)
    }

    /// Reads what was fed, and hands over what is to be published. Returns how far it is read now.
    ///
    /// # Errors
    /// If the role must not go on.
    pub async fn read(&mut self, process: &Process, now: Millis, fed: Fed) -> anyhow::Result<u64> {
        let Fed { batch, done } = fed;
        let from = batch.from;
        let reading = self.seat.read(now, batch, &self.upstream, &self.evidences).await?;
        let size = self.seat.with("read", |role| role.record().size()).await?;
        if let Reading::Done(orders) = reading {
            self.publisher.submit(orders);
        }
        if size > from {
            self.read_to(process, size);
        }
        // The feed may have ended.
        let _ = done.send(size);
        Ok(size)
    }

    fn read_to(&mut self, process: &Process, size: u64) {
        self.position.store(size, Ordering::Relaxed);
        if self.since.is_none() && size >= self.behind {
            self.since = Some(Instant::now());
            process.ready();
        }
    }

    /// Since when everything is read that was there when the party started. None: it is not yet.
    pub const fn since(&self) -> Option<Instant> {
        self.since
    }

    /// Ends what is done beside and what is being published, each not for long.
    pub async fn end(&self) {
        self.stop.cancel();
        self.publisher.drain().await;
        self.seat.end(&self.tasks).await;
    }
}

/// The identities of a party in the epochs that begin in these entries, by what `make` makes of their documents: none where it
/// sits the epoch out. Whether an epoch counts is for the reader to say: an identity of one that does not is used for nothing.
pub fn identities<I>(entries: &[Vec<u8>], make: impl Fn(&Epoch) -> Option<I>) -> Vec<(Arc<I>, EpochDigest)> {
    let begins = |entry: &Vec<u8>| match Leaf::parse(entry) {
        Ok(Leaf::Epoch(signed)) => Some(signed),
        _ => None,
    };
    let identity = |document: &Epoch| Some((Arc::new(make(document)?), document.digest()));
    entries.iter().filter_map(begins).filter_map(|signed| identity(&signed.claim().document)).collect()
}
