//! The daemon of a recipient: reads the log, fetches posts while a round still collects, recovers it when enough sums are
//! published, keeps the messages and publishes the result.

mod listen;
mod outbox;
mod webhook;

use super::Process;
use super::party::{
    Backoff, Evidences, Fed, Feed, Publisher, Reading, Reads, RemoteBodies, Seat, Upstream, data_disk,
};
use crate::config::{Deployment, RecipientConfig, resolve, signing_key};
use crate::net::compute::Compute;
use crate::role::Order;
use crate::role::recipient::{Attempt, Recipient};
use crate::round::conductor::Millis;
use crate::round::library::Item;
use crate::round::recover::RecoverError;
use outbox::Outbox;
use panetiere::fault::Fault as _;
use panetiere::ids::ClientId;
use panetiere_api::follow::FollowError;
use panetiere_api::leaf::{RoundId, RoundKind, RoundResult, messages_from_bytes, messages_root};
use panetiere_api::round::{Blobs, Record, Session};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tlog::note::Note;
use tokio::sync::Semaphore;
use tokio::time::{Instant, MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

const TICK: Duration = Duration::from_millis(100);
const QUEUE: usize = 64;
/// Posts that are fetched at once: each is in memory while it is.
const PREFETCH: usize = 2;
/// A result that has not come into the log is computed and handed over again after so long.
const REPEAT: Duration = Duration::from_secs(30);

impl Reads for Recipient {
    type Error = FollowError;

    fn record(&self) -> &Record {
        Self::record(self)
    }

    fn read_on(
        &mut self,
        _now: Millis,
        note: &Note,
        entries: &[Vec<u8>],
        blobs: &dyn Blobs,
    ) -> Result<Vec<Order>, FollowError> {
        self.advance(note, entries, blobs).map(|()| Vec::new())
    }

    fn as_follow(error: &FollowError) -> Option<&FollowError> {
        Some(error)
    }
}

/// Why a round is looked at again only later.
struct Later {
    at: Instant,
    backoff: Backoff,
}

struct Daemon {
    seat: Seat<Recipient>,
    upstream: Arc<Upstream>,
    publisher: Publisher,
    evidences: Evidences,
    bodies: Arc<RemoteBodies>,
    outbox: Arc<Outbox>,
    tasks: TaskTracker,
    stop: CancellationToken,
    prefetches: Arc<Semaphore>,
    later: BTreeMap<RoundId, Later>,
    /// Rounds whose messages nobody has any more.
    lost: BTreeSet<RoundId>,
    /// When rounds were recovered.
    recovered: BTreeMap<RoundId, Instant>,
    behind: u64,
    caught_up: bool,
    position: Arc<AtomicU64>,
}

/// Runs a recipient until the process stops.
///
/// # Errors
/// What keeps it from starting: files, keys, a bulletin with another key than is pinned. What ends it: a disk that does not
/// take messages.
pub async fn run(process: Process, config_path: &Path, config: RecipientConfig) -> anyhow::Result<()> {
    let deployment = Deployment::named_in(config_path, &config.deployment_file)?;
    let (path, _) = data_disk(config_path, &config.data_dir)?;
    let key = Arc::new(signing_key(&resolve(config_path, &config.signing_key_file))?);
    let upstream = Arc::new(Upstream::operator(&deployment, config_path, &config.tls)?);
    let runtime = tokio::runtime::Handle::current();
    let bodies = Arc::new(RemoteBodies::new(Arc::clone(&upstream), runtime, Some(path.join("bodies")))?);
    let outbox = Arc::new(Outbox::open(&path)?);
    let recipient = Recipient::new(key, Record::new(deployment.anchor.clone(), process.kernels));
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let stop = process.stop.child_token();
    let publisher = Publisher::new(Arc::clone(&upstream), stop.clone());
    let teller =
        config.webhook.as_ref().map(|webhook| webhook::Teller::new(webhook, &path, Arc::clone(&outbox)));
    let teller = teller.transpose()?;
    let listener =
        config.messages.map(|at| listen::listen(at, Arc::clone(&outbox), stop.clone())).transpose()?;
    let mut daemon = Daemon {
        seat: Seat::new(recipient, Compute::new(threads, QUEUE)?),
        upstream,
        publisher: publisher.clone(),
        evidences: Evidences::new(&path)?,
        bodies,
        outbox,
        tasks: TaskTracker::new(),
        stop: stop.clone(),
        prefetches: Arc::new(Semaphore::new(PREFETCH)),
        later: BTreeMap::new(),
        lost: BTreeSet::new(),
        recovered: BTreeMap::new(),
        behind: 0,
        caught_up: false,
        position: Arc::new(AtomicU64::new(0)),
    };
    daemon.upstream.watch(&process.readiness);
    let position = Arc::clone(&daemon.position);
    process.readiness.check("log", move || match position.load(Ordering::Relaxed) {
        0 => Err("the log is not read yet".to_owned()),
        size => Ok(Some(format!("read to {size}"))),
    });
    let telling = async {
        match teller {
            Some(teller) => teller.tell().await,
            None => std::future::pending().await,
        }
    };
    let work = async {
        tokio::select! {
            outcome = daemon.serve(&process) => outcome,
            outcome = telling => outcome,
        }
    };
    let outcome = stop.run_until_cancelled(work).await;
    stop.cancel();
    publisher.drain().await;
    if let Some(listener) = listener {
        listener.drain().await;
    }
    outcome.unwrap_or(Ok(()))
}

/// What a look at the record finds.
struct Look {
    under_way: Vec<RoundId>,
    /// Posts that were not seen before.
    new: Vec<(RoundId, ClientId)>,
    /// Rounds to recover.
    due: Vec<RoundId>,
    /// Results of rounds that carry messages.
    results: Vec<(RoundId, RoundResult)>,
}

fn look(recipient: &Recipient, bodies: &RemoteBodies) -> Look {
    let record = recipient.record();
    let under_way: Vec<&Session> =
        record.rounds().filter(|session| !session.is_called_off() && session.result().is_none()).collect();
    let new = |session: &&Session| {
        let round = session.round();
        bodies.know(session).into_iter().map(move |client| (round, client)).collect::<Vec<_>>()
    };
    let results = record.rounds().filter(|session| carries_messages(session));
    Look {
        new: under_way.iter().flat_map(new).collect(),
        under_way: under_way.iter().map(|session| session.round()).collect(),
        due: recipient.due(),
        results: results.filter_map(|s| Some((s.round(), s.result()?.clone()))).collect(),
    }
}

const fn carries_messages(session: &Session) -> bool {
    !matches!(session.kind(), RoundKind::Tickets)
}

impl Daemon {
    async fn serve(&mut self, process: &Process) -> anyhow::Result<()> {
        self.behind = super::party::reach(&self.upstream).await?;
        let mut feed = Feed::start(Arc::clone(&self.upstream), 0, &self.tasks, self.stop.clone());
        self.read_to(process, 0);
        let mut tick = interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                fed = feed.next() => self.read(process, fed).await?,
                _ = tick.tick() => {}
            }
            if self.caught_up {
                self.work().await?;
            }
        }
    }

    fn read_to(&mut self, process: &Process, size: u64) {
        self.position.store(size, Ordering::Relaxed);
        if !self.caught_up && size >= self.behind {
            self.caught_up = true;
            process.ready();
        }
    }

    async fn read(&mut self, process: &Process, fed: Fed) -> anyhow::Result<()> {
        let Fed { batch, done } = fed;
        let from = batch.from;
        let reading = self.seat.read(0, batch, &self.upstream, &self.evidences).await?;
        let size = self.seat.with("read", |recipient| recipient.record().size()).await?;
        if let Reading::Done(orders) = reading {
            self.publisher.submit(orders);
        }
        if size > from {
            self.read_to(process, size);
        }
        // The feed may have ended.
        let _ = done.send(size);
        Ok(())
    }

    /// Does what is to be done now.
    async fn work(&mut self) -> anyhow::Result<()> {
        let bodies = Arc::clone(&self.bodies);
        let Look { under_way, new, due, results } =
            self.seat.with("look", move |recipient| look(recipient, &bodies)).await?;
        self.prefetch(new);
        let is_under_way = |round: RoundId| under_way.contains(&round);
        self.publisher.keep(is_under_way);
        self.recovered.retain(|round, _| is_under_way(*round));
        self.later.retain(|round, _| is_under_way(*round) || results.iter().any(|(other, _)| other == round));
        for round in due {
            if self.is_time(round) {
                self.recover(round).await?;
            }
        }
        for (round, result) in results {
            if !self.outbox.has(round) && !self.lost.contains(&round) && self.is_time(round) {
                self.take_over(round, &result).await?;
            }
        }
        let overdue: Vec<RoundId> =
            self.recovered.iter().filter(|(_, at)| at.elapsed() >= REPEAT).map(|(round, _)| *round).collect();
        for round in overdue {
            self.recovered.remove(&round);
            self.seat.with("repeat", move |recipient| recipient.repeat(round)).await?;
        }
        self.bodies.keep(|round| under_way.contains(&round))?;
        Ok(())
    }

    /// Fetches posts beforehand, so that nothing of them has to be fetched after the close.
    fn prefetch(&self, posts: Vec<(RoundId, ClientId)>) {
        for (round, client) in posts {
            let (bodies, places) = (Arc::clone(&self.bodies), Arc::clone(&self.prefetches));
            let stop = self.stop.clone();
            self.tasks.spawn(async move {
                let fetch = async {
                    let Ok(_place) = places.acquire().await else { return };
                    if let Err(error) = bodies.prefetch(round, client).await {
                        tracing::debug!(%error, "a post was not fetched beforehand");
                    }
                };
                stop.run_until_cancelled(fetch).await;
            });
        }
    }

    fn is_time(&self, round: RoundId) -> bool {
        self.later.get(&round).is_none_or(|later| Instant::now() >= later.at)
    }

    fn put_off(&mut self, round: RoundId) {
        let later = self
            .later
            .entry(round)
            .or_insert_with(|| Later { at: Instant::now(), backoff: Backoff::default() });
        later.at = Instant::now() + later.backoff.next();
    }

    async fn recover(&mut self, round: RoundId) -> anyhow::Result<()> {
        let (bodies, outbox) = (Arc::clone(&self.bodies), Arc::clone(&self.outbox));
        let job = move |recipient: &mut Recipient| -> io::Result<Option<Attempt>> {
            let Some(attempt) = recipient.recover(round, &*bodies) else { return Ok(None) };
            let session = recipient.record().round(round);
            // Kept before it is published: whoever dies in between does it again.
            if let (Ok(recovery), Some(true)) = (&attempt.outcome, session.map(carries_messages)) {
                outbox.put(round, recovery.messages())?;
            }
            Ok(Some(attempt))
        };
        let Some(Attempt { orders, named, outcome }) = self.seat.with("recover", job).await?? else {
            return Ok(());
        };
        for named in named {
            crate::safe_warn!("a party lied", round = round, code = named.code);
            tracing::debug!(party = ?named.party, reason = named.reason, "a party lied");
        }
        match outcome {
            Ok(recovery) => {
                crate::safe_info!("round recovered", round = round, messages = recovery.messages().len());
                self.recovered.insert(round, Instant::now());
            }
            Err(error) => {
                crate::safe_warn!("round not recovered yet", round = round, code = error.code());
                tracing::debug!(error = crate::chain::chain(&error), "not recovered");
                if let RecoverError::Foreign { round, body, .. } = error {
                    self.bodies.discard(round, body)?;
                }
                self.put_off(round);
            }
        }
        self.publisher.submit(orders);
        Ok(())
    }

    /// Takes over the messages of a round that somebody else has recovered, or this recipient before it lost them.
    async fn take_over(&mut self, round: RoundId, result: &RoundResult) -> anyhow::Result<()> {
        let messages = match self.bodies.fetch(round, Item::Messages).await {
            Ok(Some(bytes)) => messages_from_bytes(&bytes).ok(),
            Ok(None) => None,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.lost.insert(round);
                return Ok(());
            }
            Err(error) => {
                tracing::debug!(%error, "a result was not fetched");
                None
            }
        };
        let is_the_result =
            |messages: &Vec<Vec<u8>>| messages_root(messages.iter().map(Vec::as_slice)) == result.root;
        match messages.filter(is_the_result) {
            Some(messages) => {
                let outbox = Arc::clone(&self.outbox);
                self.seat.with("keep", move |_| outbox.put(round, &messages)).await??;
            }
            None => self.put_off(round),
        }
        Ok(())
    }
}
