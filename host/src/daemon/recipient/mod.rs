//! The daemon of a recipient: reads the log, fetches posts while a round still collects, recovers it when enough sums are
//! published, keeps the messages and publishes the result.

mod listen;
mod outbox;
mod webhook;

use super::Process;
use super::party::{Backoff, Desk, Reads, RemoteBodies, Upstream, data_disk};
use crate::config::{Deployment, RecipientConfig, resolve, signing_key};
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
use std::time::Duration;
use tlog::note::Note;
use tokio::sync::Semaphore;
use tokio::time::{Instant, MissedTickBehavior, interval};

const TICK: Duration = Duration::from_millis(100);
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
}

/// Why a round is looked at again only later.
struct Later {
    at: Instant,
    backoff: Backoff,
}

struct Daemon {
    desk: Desk<Recipient>,
    bodies: Arc<RemoteBodies>,
    outbox: Arc<Outbox>,
    prefetches: Arc<Semaphore>,
    later: BTreeMap<RoundId, Later>,
    /// Rounds whose messages nobody has any more.
    lost: BTreeSet<RoundId>,
    /// When rounds were recovered.
    recovered: BTreeMap<RoundId, Instant>,
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
    let bodies = RemoteBodies::new(Arc::clone(&upstream), runtime, Some(path.join("bodies")))?;
    let aggregators =
        deployment.aggregators.iter().map(|aggregator| Upstream::new(aggregator.data_client()).map(Arc::new));
    let bodies = Arc::new(bodies.with_aggregators(aggregators.collect::<anyhow::Result<_>>()?));
    let outbox = Arc::new(Outbox::open(&path)?);
    let recipient = Recipient::new(key, Record::new(deployment.anchor.clone(), process.kernels));
    let desk = Desk::new(recipient, upstream, &path, &process)?;
    let stop = desk.stop.clone();
    let teller =
        config.webhook.as_ref().map(|webhook| webhook::Teller::new(webhook, &path, Arc::clone(&outbox)));
    let teller = teller.transpose()?;
    let listener =
        config.messages.map(|at| listen::listen(at, Arc::clone(&outbox), stop.clone())).transpose()?;
    let mut daemon = Daemon {
        desk,
        bodies,
        outbox,
        prefetches: Arc::new(Semaphore::new(PREFETCH)),
        later: BTreeMap::new(),
        lost: BTreeSet::new(),
        recovered: BTreeMap::new(),
    };
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
    daemon.desk.end().await;
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
    let under_way: Vec<&Session> = record.rounds().filter(|session| session.awaits_result()).collect();
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
        let mut feed = self.desk.begin(process).await?;
        let mut tick = interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                fed = feed.next() => drop(self.desk.read(process, 0, fed).await?),
                _ = tick.tick() => {}
            }
            if self.desk.since().is_some() {
                self.work().await?;
            }
        }
    }

    /// Does what is to be done now.
    async fn work(&mut self) -> anyhow::Result<()> {
        let bodies = Arc::clone(&self.bodies);
        let Look { under_way, new, due, results } =
            self.desk.seat.with("look", move |recipient| look(recipient, &bodies)).await?;
        self.prefetch(new);
        let is_under_way = |round: RoundId| under_way.contains(&round);
        self.desk.publisher.keep(is_under_way);
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
            self.desk.seat.with("repeat", move |recipient| recipient.repeat(round)).await?;
        }
        self.bodies.keep(|round| under_way.contains(&round))?;
        Ok(())
    }

    /// Fetches posts beforehand, so that nothing of them has to be fetched after the close.
    fn prefetch(&self, posts: Vec<(RoundId, ClientId)>) {
        for (round, client) in posts {
            let (bodies, places) = (Arc::clone(&self.bodies), Arc::clone(&self.prefetches));
            let stop = self.desk.stop.clone();
            self.desk.tasks.spawn(async move {
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
        later.at = Instant::now() + later.backoff.step();
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
        let Some(Attempt { orders, named, outcome }) = self.desk.seat.with("recover", job).await?? else {
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
                match error {
                    RecoverError::Foreign { round, body, .. } => self.bodies.discard(round, body)?,
                    // With whole posts it can be told which aggregator's sum is false.
                    RecoverError::NotRecovered { .. } if self.bodies.want_whole(round) => {
                        self.desk.seat.with("repeat", move |recipient| recipient.repeat(round)).await?;
                    }
                    _ => {}
                }
                self.put_off(round);
            }
        }
        self.desk.publisher.submit(orders);
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
                self.desk.seat.with("keep", move |_| outbox.put(round, &messages)).await??;
            }
            None => self.put_off(round),
        }
        Ok(())
    }
}
