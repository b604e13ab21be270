//! The daemon of an aggregator: takes whole posts of its clients and publishes their sum behind the close.

use super::Process;
use super::party::{
    Door, Evidences, Fed, Feed, Intake, Listener, Publisher, Reading, Reads, Seat, Shelf, Standing, Upstream,
    Use, data_disk,
};
use crate::config::{AggregatorConfig, Deployment, resolve, signing_key};
use crate::net::compute::Compute;
use crate::role::Order;
use crate::role::aggregator::{Aggregator, AggregatorError};
use crate::round::conductor::Millis;
use panetiere::bulletin::ClientBulletinEntry;
use panetiere::fault::Fault as _;
use panetiere::ids::{AggregatorId, ClientId};
use panetiere::protocol::AggregatorIdentity;
use panetiere::sig::SigningKey;
use panetiere::wire::DecodeWith as _;
use panetiere_api::follow::FollowError;
use panetiere_api::leaf::{Leaf, RoundId};
use panetiere_api::limits::RoundLimits;
use panetiere_api::media::MediaType;
use panetiere_api::round::{Blobs, Record};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tlog::note::Note;
use tokio::time::{Instant, MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

const TICK: Duration = Duration::from_millis(100);
const QUEUE: usize = 64;
/// A sum that does not stand in the log is made again after so long: over those clients that no other covers by then.
const AGAIN: Duration = Duration::from_secs(2);
/// Posts that are checked before something else gets its turn: each is megabytes.
const AT_ONCE: usize = 4;

impl Reads for Aggregator {
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

struct Daemon {
    id: AggregatorId,
    key: SigningKey,
    seat: Seat<Aggregator>,
    upstream: Arc<Upstream>,
    publisher: Publisher,
    evidences: Evidences,
    intake: Arc<Intake>,
    tasks: TaskTracker,
    stop: CancellationToken,
    summed: BTreeMap<RoundId, Instant>,
    behind: u64,
    caught_up: bool,
    position: Arc<AtomicU64>,
}

/// Runs an aggregator until the process stops.
///
/// # Errors
/// What keeps it from starting: files, keys, addresses, a bulletin with another key than is pinned. What ends it: a disk that
/// cannot be used.
pub async fn run(process: Process, config_path: &Path, config: AggregatorConfig) -> anyhow::Result<()> {
    let deployment = Deployment::named_in(config_path, &config.deployment_file)?;
    let (path, _) = data_disk(config_path, &config.data_dir)?;
    let id = AggregatorId(config.index);
    let upstream = Arc::new(Upstream::operator(&deployment, config_path, &config.tls)?);
    let intake = Arc::new(Intake::new(Shelf::open(path.join("posts"))?, MediaType::Post));
    let record = Record::new(deployment.anchor.clone(), process.kernels);
    let door = Door { intake: Arc::clone(&intake), usage: Use::LeaveAndRead };
    let listener = Listener::start((config_path, &config.tls), config.listen_data, None, door)?;
    let stop = process.stop.child_token();
    let publisher = Publisher::new(Arc::clone(&upstream), stop.clone());
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mut daemon = Daemon {
        id,
        key: signing_key(&resolve(config_path, &config.signing_key_file))?,
        seat: Seat::new(Aggregator::new(id, record), Compute::new(threads, QUEUE)?),
        upstream,
        publisher: publisher.clone(),
        evidences: Evidences::new(&path)?,
        intake,
        tasks: TaskTracker::new(),
        stop: stop.clone(),
        summed: BTreeMap::new(),
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
    let mut reload = process.reload.clone();
    let reloading = async {
        while reload.changed().await.is_ok() {
            listener.reload();
        }
        std::future::pending().await
    };
    let work = async {
        tokio::select! {
            outcome = daemon.serve(&process) => outcome,
            () = reloading => Ok(()),
        }
    };
    let outcome = stop.run_until_cancelled(work).await;
    stop.cancel();
    tokio::join!(publisher.drain(), listener.drain());
    daemon.seat.end(&daemon.tasks).await;
    outcome.unwrap_or(Ok(()))
}

impl Daemon {
    async fn serve(&mut self, process: &Process) -> anyhow::Result<()> {
        self.behind = super::party::reach(&self.upstream).await?;
        let mut feed = Feed::start(Arc::clone(&self.upstream), 0, &self.tasks, self.stop.clone());
        self.read_to(process, 0);
        let mut tick = interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let intake = Arc::clone(&self.intake);
        loop {
            tokio::select! {
                fed = feed.next() => self.read(process, fed).await?,
                () = intake.came.notified() => {}
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
        let mut identities = Vec::new();
        for entry in &batch.entries {
            let Ok(Leaf::Epoch(signed)) = Leaf::parse(entry) else { continue };
            let document = &signed.claim().document;
            let key = SigningKey::from_scalar(&self.key.expose_scalar()).expect("the scalar of a key");
            match AggregatorIdentity::new(self.id, key, document) {
                Ok(identity) => identities.push((Arc::new(identity), document.digest())),
                Err(error) => {
                    let (epoch, code) = (document.number(), error.code());
                    crate::safe_warn!("this aggregator sits out an epoch", epoch = epoch, code = code);
                }
            }
        }
        let enrol =
            move |role: &mut Aggregator| identities.into_iter().for_each(|(id, epoch)| role.enrol(id, epoch));
        self.seat.with("enrol", enrol).await?;
        let reading = self.seat.read(0, batch, &self.upstream, &self.evidences).await?;
        let size = self.seat.with("read", |role| role.record().size()).await?;
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

    async fn work(&mut self) -> anyhow::Result<()> {
        let (intake, id) = (Arc::clone(&self.intake), self.id);
        let look = move |role: &mut Aggregator| {
            let record = role.record();
            let under_way =
                intake.update(record, |session| RoundLimits::from(&**session.params()).aggregated_post);
            let counted = |(round, client): &(RoundId, ClientId)| {
                record.round(*round).is_some_and(|session| session.posts().contains_key(client))
            };
            let here: Vec<_> = intake.shelf.new_ones().into_iter().filter(counted).take(AT_ONCE).collect();
            let unsummed = |round: &RoundId| {
                record
                    .round(*round)
                    .is_some_and(|s| s.closed().is_some() && !s.group_sums().contains_key(&id))
            };
            let unsummed: Vec<RoundId> = under_way.iter().copied().filter(unsummed).collect();
            (under_way, here, unsummed)
        };
        let (under_way, here, unsummed) = self.seat.with("look", look).await?;
        let is_under_way = |round: RoundId| under_way.contains(&round);
        self.publisher.keep(is_under_way);
        self.summed.retain(|round, _| is_under_way(*round));
        self.intake.shelf.keep(is_under_way)?;
        if !here.is_empty() {
            self.deliver(here).await?;
            // Perhaps there are more: the sum comes after them.
            self.intake.came.notify_one();
            return Ok(());
        }
        for round in unsummed {
            if self.summed.get(&round).is_none_or(|at| at.elapsed() >= AGAIN) {
                self.summed.insert(round, Instant::now());
                self.sum(round).await?;
            }
        }
        Ok(())
    }

    /// Holds posts that were left here against the statements that count.
    async fn deliver(&self, places: Vec<(RoundId, ClientId)>) -> anyhow::Result<()> {
        let intake = Arc::clone(&self.intake);
        let deliver = move |role: &mut Aggregator| -> anyhow::Result<Vec<Order>> {
            let mut orders = Vec::new();
            for (round, client) in places {
                let Some(bytes) = intake.shelf.read(round, client)? else { continue };
                let params = role.record().round(round).map(|session| Arc::clone(session.params()));
                let Some(params) = params else { continue };
                let post = ClientBulletinEntry::from_bytes_with(&*params, &bytes).ok();
                let standing = match post.filter(|post| post.head.signed.claim().client == client) {
                    None => Standing::Refused,
                    Some(post) => {
                        let (more, outcome) = role.deliver(round, &post);
                        let signed = !more.is_empty();
                        orders.extend(more);
                        match outcome {
                            Ok(()) => Standing::Taken,
                            // What the client signed and is bad convicts it, and is kept.
                            Err(AggregatorError::Post(_)) if signed => Standing::Taken,
                            Err(error) => {
                                tracing::debug!(error = crate::chain::chain(&error), "a post is not taken");
                                Standing::Refused
                            }
                        }
                    }
                };
                intake.shelf.judge(round, client, &bytes, standing);
            }
            Ok(orders)
        };
        let orders = self.seat.with("posts", deliver).await??;
        self.publisher.submit(orders);
        Ok(())
    }

    async fn sum(&self, round: RoundId) -> anyhow::Result<()> {
        let intake = Arc::clone(&self.intake);
        let sum = move |role: &mut Aggregator| {
            let group = role.group(round)?;
            let params = Arc::clone(role.record().round(round)?.params());
            Some(role.sum(round, &group, |client| {
                let bytes = intake.shelf.read(round, client).ok()??;
                ClientBulletinEntry::from_bytes_with(&*params, &bytes).ok()
            }))
        };
        match self.seat.with("sum", sum).await? {
            Some(Ok(order)) => self.publisher.submit([order]),
            Some(Err(error)) => {
                crate::safe_warn!("there is no sum yet", round = round, code = error.code());
                tracing::debug!(error = crate::chain::chain(&error), "there is no sum yet");
            }
            None => {}
        }
        Ok(())
    }
}
