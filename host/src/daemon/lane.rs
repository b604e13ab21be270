//! The daemon of a lane: takes its share of every ciphertext, gives other lanes what they are missing, and publishes the
//! sum behind the close.

use super::Process;
use super::party::{
    Backoff, Desk, Door, Fed, Intake, Listener, NotRead, Reads, Shelf, Standing, Table, Upstream, Use,
    data_disk, identities, room, tls_identity,
};
use crate::config::{Deployment, LaneConfig, resolve, signing_key};
use crate::role::Order;
use crate::role::lane::{Lane, LaneError};
use crate::round::conductor::Millis;
use crate::state::{ReleaseGuard, State};
use anyhow::Context as _;
use panetiere::bulletin::{Epoch, EpochError, LaneItem};
use panetiere::fault::Fault as _;
use panetiere::ids::{ClientId, NodeId};
use panetiere::protocol::{AnswerLog, LaneIdentity, rebuild_item};
use panetiere::sig::SigningKey;
use panetiere::wire::{DecodeWith as _, Encode as _};
use panetiere_api::client::Resume;
use panetiere_api::follow::FollowError;
use panetiere_api::leaf::RoundId;
use panetiere_api::limits::RoundLimits;
use panetiere_api::media::MediaType;
use panetiere_api::path::{ClientKeyId, Path as Resource};
use panetiere_api::round::{Blobs, Phase, Record, Session};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tlog::note::Note;
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval};

const TICK: Duration = Duration::from_millis(100);
/// A sum that does not stand in the log is asked for again after so long.
const AGAIN: Duration = Duration::from_secs(2);
/// Items that are verified before something else gets its turn.
const AT_ONCE: usize = 16;

impl NotRead for LaneError {
    fn as_follow(&self) -> Option<&FollowError> {
        match self {
            Self::Follow(error) => Some(error),
            _ => None,
        }
    }
}

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
    desk: Desk<Lane>,
    /// The other lanes.
    others: Vec<Arc<Upstream>>,
    intake: Arc<Intake>,
    report: mpsc::Sender<Found>,
    rebuilding: bool,
    rebuilt: BTreeMap<(RoundId, ClientId), (Instant, Backoff)>,
    summed: BTreeMap<RoundId, Instant>,
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
    let table = Table::open(config_path, &config.parties_file)?;
    let (principals, room) = (Arc::clone(&table.principals), room());
    let door = |usage| Door { intake: Arc::clone(&intake), usage };
    let files = (config_path, &config.tls);
    let data = Listener::start(files, config.listen.data, None, door(Use::Leave), &room)?;
    let operator = Listener::start(files, config.listen.operator, Some(principals), door(Use::Read), &room)?;
    let (report, found) = mpsc::channel(4);
    let mut daemon = Daemon {
        id,
        key: signing_key(&resolve(config_path, &config.signing_key_file))?,
        guard,
        desk: Desk::new(lane, upstream, &path, &process)?,
        others: others(&deployment, id, files)?,
        intake,
        report,
        rebuilding: false,
        rebuilt: BTreeMap::new(),
        summed: BTreeMap::new(),
    };
    let stop = daemon.desk.stop.clone();
    let mut reload = process.reload.clone();
    let reloading = async {
        while reload.changed().await.is_ok() {
            data.reload();
            operator.reload();
            table.reload();
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
    tokio::join!(daemon.desk.end(), data.drain(), operator.drain());
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
        let mut feed = self.desk.begin(process).await?;
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
            if self.desk.since().is_some() {
                self.work().await?;
            }
        }
    }

    async fn read(&mut self, process: &Process, fed: Fed) -> anyhow::Result<()> {
        let (id, key, guard) = (self.id, &self.key, &self.guard);
        let make = |document: &Epoch| {
            let key = SigningKey::from_scalar(&key.expose_scalar()).expect("the scalar of a key");
            let identity = LaneIdentity::new(id, key, document, Arc::clone(guard) as Arc<dyn AnswerLog>);
            let sits_out = |error: &EpochError| {
                let (epoch, code) = (document.number(), error.code());
                crate::safe_warn!("this lane sits out an epoch", epoch = epoch, code = code);
            };
            identity.inspect_err(sits_out).ok()
        };
        let identities = identities(&fed.batch.entries, make);
        let enrol =
            move |lane: &mut Lane| identities.into_iter().for_each(|(id, epoch)| lane.enrol(id, epoch));
        self.desk.seat.with("enrol", enrol).await?;
        self.desk.read(process, 0, fed).await.map(drop)
    }

    async fn work(&mut self) -> anyhow::Result<()> {
        let (id, intake) = (self.id, Arc::clone(&self.intake));
        let Look { under_way, wanted, missing, unsummed } =
            self.desk.seat.with("look", move |lane| look(lane, id, &intake)).await?;
        let is_under_way = |round: RoundId| under_way.contains(&round);
        self.desk.publisher.keep(is_under_way);
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
            let sums = self.desk.seat.with("sum", Lane::sums).await?.context("this lane must not go on")?;
            for (round, sum) in sums {
                match sum {
                    Ok(order) => {
                        self.summed.insert(round, Instant::now());
                        self.desk.publisher.submit([order]);
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
        let orders = self.desk.seat.with("items", deliver).await??;
        self.desk.publisher.submit(orders);
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
        let (others, report, stop) = (self.others.clone(), self.report.clone(), self.desk.stop.clone());
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
        self.desk.tasks.spawn(async move { stop.run_until_cancelled(ask).await });
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
        let orders = self.desk.seat.with("rebuild", rebuild).await??;
        self.desk.publisher.submit(orders);
        Ok(())
    }
}
