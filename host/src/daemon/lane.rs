//! The daemon of a lane: takes its share of every ciphertext, gives other lanes what they are missing, and publishes the
//! sum behind the close.

use super::Process;
use super::party::{
    Backoff, Door, Evidences, Fed, Feed, Intake, Listener, Publisher, Reading, Reads, Seat, Shelf, Standing,
    Upstream, Use, data_disk, tls_identity,
};
use crate::config::{Deployment, LaneConfig, Parties, resolve, signing_key};
use crate::net::Principals;
use crate::net::compute::Compute;
use crate::role::Order;
use crate::role::lane::{Lane, LaneError};
use crate::round::conductor::Millis;
use crate::state::{ReleaseGuard, State};
use anyhow::Context as _;
use panetiere::bulletin::LaneItem;
use panetiere::fault::Fault as _;
use panetiere::ids::{ClientId, NodeId};
use panetiere::protocol::{AnswerLog, LaneIdentity, rebuild_item};
use panetiere::sig::SigningKey;
use panetiere::wire::{DecodeWith as _, Encode as _};
use panetiere_api::client::Resume;
use panetiere_api::follow::FollowError;
use panetiere_api::leaf::{Leaf, RoundId};
use panetiere_api::limits::RoundLimits;
use panetiere_api::media::MediaType;
use panetiere_api::path::{ClientKeyId, Path as Resource};
use panetiere_api::round::{Blobs, Phase, Record, Session};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tlog::note::Note;
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

const TICK: Duration = Duration::from_millis(100);
const QUEUE: usize = 64;
/// A sum that does not stand in the log is asked for again after so long.
const AGAIN: Duration = Duration::from_secs(2);
/// Items that are verified before something else gets its turn.
const AT_ONCE: usize = 16;

impl Reads for Lane {
    type Error = LaneError;

    fn record(&self) -> &Record {
        Self::record(self)
    }

    fn read_on(
        &mut self,
        _now: Millis,
        note: &Note,
        entries: &[Vec<u8>],
        blobs: &dyn Blobs,
    ) -> Result<Vec<Order>, LaneError> {
        self.advance(note, entries, blobs)
    }

    fn as_follow(error: &LaneError) -> Option<&FollowError> {
        match error {
            LaneError::Follow(error) => Some(error),
            _ => None,
        }
    }
}

/// Items of one client that other lanes had.
struct Found {
    round: RoundId,
    client: ClientId,
    items: Vec<Vec<u8>>,
}

struct Daemon {
    id: NodeId,
    key: SigningKey,
    guard: Arc<ReleaseGuard>,
    seat: Seat<Lane>,
    upstream: Arc<Upstream>,
    /// The other lanes.
    others: Vec<Arc<Upstream>>,
    publisher: Publisher,
    evidences: Evidences,
    intake: Arc<Intake>,
    tasks: TaskTracker,
    stop: CancellationToken,
    report: mpsc::Sender<Found>,
    rebuilding: bool,
    rebuilt: BTreeMap<(RoundId, ClientId), (Instant, Backoff)>,
    summed: BTreeMap<RoundId, Instant>,
    behind: u64,
    caught_up: bool,
    position: Arc<AtomicU64>,
}

/// Runs a lane until the process stops.
///
/// # Errors
/// What keeps it from starting: files, keys, addresses, a bulletin with another key than is pinned. What ends it: a state or
/// disk that cannot be used, or a log that contradicts what this lane has said.
pub async fn run(mut process: Process, config_path: &Path, config: LaneConfig) -> anyhow::Result<()> {
    let deployment = Deployment::named_in(config_path, &config.deployment_file)?;
    let (path, disk) = data_disk(config_path, &config.data_dir)?;
    let id = NodeId(config.index);
    let guard = Arc::new(ReleaseGuard::new(State::open(&*disk).context("the lane's state")?));
    let upstream = Arc::new(Upstream::operator(&deployment, config_path, &config.tls)?);
    let intake = Arc::new(Intake::new(Shelf::open(path.join("items"))?, MediaType::Share));
    let record = Record::new(deployment.anchor.clone(), process.kernels);
    let kept = Arc::clone(&intake);
    let lane =
        Lane::new(id, record, Arc::clone(&guard))?.with_items(Arc::new(move |params, round, client| {
            let bytes = kept.shelf.read(round, client).ok()??;
            LaneItem::from_bytes_with(params, &bytes).ok()
        }));
    let parties = Parties::read(&resolve(config_path, &config.parties_file))?;
    let principals = Arc::new(Principals::new(parties.known, parties.revoked)?);
    let door = |usage| Door { intake: Arc::clone(&intake), usage };
    let files = (config_path, &config.tls);
    let data = Listener::start(files, config.listen.data, None, door(Use::Leave))?;
    let operator =
        Listener::start(files, config.listen.operator, Some(Arc::clone(&principals)), door(Use::Read))?;
    let stop = process.stop.child_token();
    let publisher = Publisher::new(Arc::clone(&upstream), stop.clone());
    let (report, found) = mpsc::channel(4);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mut daemon = Daemon {
        id,
        key: signing_key(&resolve(config_path, &config.signing_key_file))?,
        guard,
        seat: Seat::new(lane, Compute::new(threads, QUEUE)?),
        upstream,
        others: others(&deployment, id, files)?,
        publisher: publisher.clone(),
        evidences: Evidences::new(&path)?,
        intake,
        tasks: TaskTracker::new(),
        stop: stop.clone(),
        report,
        rebuilding: false,
        rebuilt: BTreeMap::new(),
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
            data.reload();
            operator.reload();
            let table =
                Parties::read(&resolve(config_path, &config.parties_file)).map_err(anyhow::Error::new);
            let replaced = table.and_then(|table| Ok(principals.replace(table.known, table.revoked)?));
            if replaced.is_err() {
                crate::safe_error!("the table of parties was not read again: the old one stays in use");
            }
        }
        std::future::pending().await
    };
    let work = async {
        tokio::select! {
            outcome = daemon.serve(&mut process, found) => outcome,
            () = reloading => Ok(()),
        }
    };
    let outcome = stop.run_until_cancelled(work).await;
    stop.cancel();
    tokio::join!(publisher.drain(), data.drain(), operator.drain());
    daemon.seat.end(&daemon.tasks).await;
    outcome.unwrap_or(Ok(()))
}

/// The operator planes of the other lanes.
fn others(
    deployment: &Deployment,
    id: NodeId,
    (config_path, tls): (&Path, &crate::config::TlsFiles),
) -> anyhow::Result<Vec<Arc<Upstream>>> {
    let mut others = Vec::new();
    for (_, lane) in (0..).zip(&deployment.lanes).filter(|(index, _)| *index != id.0) {
        if let Some(mut client) = lane.operator_client() {
            client.identity = Some(tls_identity(config_path, tls)?);
            others.push(Arc::new(Upstream::new(client)?));
        }
    }
    Ok(others)
}

/// What a look at the record finds.
struct Look {
    under_way: Vec<RoundId>,
    /// Items that the lane has not.
    wanted: Vec<(RoundId, ClientId)>,
    /// Of rounds that take no more posts, those that nobody has left here, with the client's name and how many other
    /// lanes' items make one.
    missing: Vec<(RoundId, ClientId, ClientKeyId, usize)>,
    /// Closed rounds without this lane's sum.
    unsummed: Vec<RoundId>,
}

fn look(lane: &Lane, id: NodeId, intake: &Intake) -> Look {
    let record = lane.record();
    let len = |session: &Session| RoundLimits::lane_item(session.params(), id);
    let under_way = intake.update(record, len);
    let wanted: Vec<(RoundId, ClientId)> = lane
        .wanted()
        .into_iter()
        .filter_map(|order| match order {
            Order::Fetch { round, client } => Some((round, client)),
            _ => None,
        })
        .collect();
    let missing = |&(round, client): &(RoundId, ClientId)| {
        let session = record.round(round)?;
        let name = ClientKeyId::of(&session.posts().get(&client)?.0);
        let late = !matches!(session.phase(), Phase::Collecting) && !intake.shelf.may_have(round, client);
        late.then_some((round, client, name, session.params().lanes()?.needed.into()))
    };
    let unsummed = |round: &RoundId| {
        let session = record.round(*round);
        session.is_some_and(|s| s.closed().is_some() && len(s).is_some() && !s.lane_sums().contains_key(&id))
    };
    Look {
        missing: wanted.iter().filter_map(missing).collect(),
        unsummed: under_way.iter().copied().filter(unsummed).collect(),
        under_way,
        wanted,
    }
}

impl Daemon {
    async fn serve(&mut self, process: &mut Process, mut found: mpsc::Receiver<Found>) -> anyhow::Result<()> {
        self.behind = super::party::reach(&self.upstream).await?;
        let mut feed = Feed::start(Arc::clone(&self.upstream), 0, &self.tasks, self.stop.clone());
        self.read_to(process, 0);
        let mut tick = interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let intake = Arc::clone(&self.intake);
        loop {
            tokio::select! {
                fed = feed.next() => self.read(process, fed).await?,
                Some(found) = found.recv() => self.rebuild(found).await?,
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
            let guard = Arc::clone(&self.guard) as Arc<dyn AnswerLog>;
            match LaneIdentity::new(self.id, key, document, guard) {
                Ok(identity) => identities.push((Arc::new(identity), document.digest())),
                Err(error) => {
                    let (epoch, code) = (document.number(), error.code());
                    crate::safe_warn!("this lane sits out an epoch", epoch = epoch, code = code);
                }
            }
        }
        let enrol =
            move |lane: &mut Lane| identities.into_iter().for_each(|(id, epoch)| lane.enrol(id, epoch));
        self.seat.with("enrol", enrol).await?;
        let reading = self.seat.read(0, batch, &self.upstream, &self.evidences).await?;
        let size = self.seat.with("read", |lane| lane.record().size()).await?;
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
        let (id, intake) = (self.id, Arc::clone(&self.intake));
        let Look { under_way, wanted, missing, unsummed } =
            self.seat.with("look", move |lane| look(lane, id, &intake)).await?;
        let is_under_way = |round: RoundId| under_way.contains(&round);
        self.publisher.keep(is_under_way);
        self.summed.retain(|round, _| is_under_way(*round));
        self.rebuilt.retain(|(round, _), _| is_under_way(*round));
        self.intake.shelf.keep(is_under_way)?;
        let new = self.intake.shelf.new_ones();
        let here: Vec<_> = new.into_iter().filter(|place| wanted.contains(place)).take(AT_ONCE).collect();
        if !here.is_empty() {
            self.deliver(here).await?;
            // Perhaps there are more.
            self.intake.came.notify_one();
        }
        self.look_for(missing);
        if unsummed.iter().any(|round| self.summed.get(round).is_none_or(|at| at.elapsed() >= AGAIN)) {
            let sums = self.seat.with("sum", Lane::sums).await?.context("this lane must not go on")?;
            for (round, sum) in sums {
                match sum {
                    Ok(order) => {
                        self.summed.insert(round, Instant::now());
                        self.publisher.submit([order]);
                    }
                    // An item is missing: it is asked for.
                    Err(error) => tracing::debug!(error = crate::chain::chain(&error), "there is no sum yet"),
                }
            }
        }
        Ok(())
    }

    /// Holds items that were left here against what their clients signed.
    async fn deliver(&self, places: Vec<(RoundId, ClientId)>) -> anyhow::Result<()> {
        let intake = Arc::clone(&self.intake);
        let deliver = move |lane: &mut Lane| -> anyhow::Result<Vec<Order>> {
            let mut orders = Vec::new();
            for (round, client) in places {
                let Some(bytes) = intake.shelf.read(round, client)? else { continue };
                let params = lane.record().round(round).map(|session| Arc::clone(session.params()));
                let Some(params) = params else { continue };
                let item = LaneItem::from_bytes_with(&*params, &bytes).ok();
                let standing = match item.filter(|item| item.client == client) {
                    None => Standing::Refused,
                    Some(item) => {
                        let (more, fault) = lane.deliver(round, &item);
                        // What a client signed and is bad convicts it, and is kept.
                        let signed = fault.is_none() || !more.is_empty();
                        orders.extend(more);
                        if signed { Standing::Taken } else { Standing::Refused }
                    }
                };
                intake.shelf.judge(round, client, &bytes, standing);
            }
            Ok(orders)
        };
        let orders = self.seat.with("items", deliver).await??;
        self.publisher.submit(orders);
        Ok(())
    }

    /// Asks other lanes for what nobody has left here: one client's items at a time.
    fn look_for(&mut self, missing: Vec<(RoundId, ClientId, ClientKeyId, usize)>) {
        if self.rebuilding || self.others.is_empty() {
            return;
        }
        let is_time = |place: &(RoundId, ClientId, ClientKeyId, usize)| {
            self.rebuilt.get(&(place.0, place.1)).is_none_or(|(at, _)| Instant::now() >= *at)
        };
        let Some((round, client, name, needed)) = missing.into_iter().find(is_time) else { return };
        let (at, backoff) =
            self.rebuilt.entry((round, client)).or_insert((Instant::now(), Backoff::default()));
        *at = Instant::now() + backoff.step();
        self.rebuilding = true;
        let (others, report, stop) = (self.others.clone(), self.report.clone(), self.stop.clone());
        let ask = async move {
            let path = Resource::Share(round, name).to_string();
            let mut items = Vec::new();
            // One more than needed, if there is one: a lane may give something else.
            for lane in &others {
                if items.len() > needed {
                    break;
                }
                let item = lane.get_if_there("item", &path, 1 << 24, Resume::Never).await;
                items.extend(item.ok().flatten());
            }
            // The lane may be gone.
            let _ = report.send(Found { round, client, items }).await;
        };
        self.tasks.spawn(async move { stop.run_until_cancelled(ask).await });
    }

    /// Makes an item from those of other lanes, and keeps it.
    async fn rebuild(&mut self, found: Found) -> anyhow::Result<()> {
        self.rebuilding = false;
        let (id, intake) = (self.id, Arc::clone(&self.intake));
        let rebuild = move |lane: &mut Lane| -> anyhow::Result<Vec<Order>> {
            let Found { round, client, items } = found;
            let Some(session) = lane.record().round(round) else { return Ok(Vec::new()) };
            let Some((_, post)) = session.posts().get(&client) else { return Ok(Vec::new()) };
            let needed = session.params().lanes().map_or(0, |shape| usize::from(shape.needed));
            let parse = |bytes: &Vec<u8>| LaneItem::from_bytes_with(&**session.params(), bytes).ok();
            let items: Vec<LaneItem> =
                items.iter().filter_map(parse).filter(|item| item.client == client).collect();
            // Any k that make one; each is left out once, for it may be the one that is not the client's.
            let choices = (0..=items.len()).map(|out| {
                let rest = items.iter().enumerate().filter(|(place, _)| *place != out).map(|(_, item)| item);
                rest.take(needed).cloned().collect::<Vec<_>>()
            });
            let choices: Vec<Vec<LaneItem>> = choices.filter(|choice| choice.len() == needed).collect();
            let item =
                choices.iter().find_map(|choice| rebuild_item(session.params(), post, id, choice).ok());
            let Some(item) = item else {
                let Some(choice) = choices.first() else { return Ok(Vec::new()) };
                let (orders, outcome) = lane.rebuild(round, client, choice);
                if let Err(error) = outcome {
                    tracing::debug!(error = crate::chain::chain(&error), "no item can be rebuilt");
                }
                return Ok(orders);
            };
            let bytes = item.to_bytes();
            let unfinished = intake.shelf.unfinished(round)?;
            fs::write(&unfinished, &bytes)?;
            fs::File::open(&unfinished)?.sync_all()?;
            // In the place of what is not the client's, if there is anything. It is held against the statement as any other.
            let _kept = intake.shelf.put(round, client, &unfinished, *blake3::hash(&bytes).as_bytes())?;
            intake.came.notify_one();
            Ok(Vec::new())
        };
        let orders = self.seat.with("rebuild", rebuild).await??;
        self.publisher.submit(orders);
        Ok(())
    }
}
