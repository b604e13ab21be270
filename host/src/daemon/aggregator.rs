//! The daemon of an aggregator: takes whole posts of its clients and publishes their sum behind the close.

use super::Process;
use super::party::{
    Desk, Door, Fed, Intake, Listener, Reads, Shelf, Standing, Upstream, Use, data_disk, identities, room,
};
use crate::config::{AggregatorConfig, Deployment, resolve, signing_key};
use crate::role::Order;
use crate::role::aggregator::{Aggregator, AggregatorError};
use crate::round::conductor::Millis;
use panetiere::bulletin::{ClientBulletinEntry, Epoch, EpochError};
use panetiere::fault::Fault as _;
use panetiere::ids::{AggregatorId, ClientId};
use panetiere::protocol::AggregatorIdentity;
use panetiere::sig::SigningKey;
use panetiere::wire::DecodeWith as _;
use panetiere_api::follow::FollowError;
use panetiere_api::leaf::RoundId;
use panetiere_api::limits::RoundLimits;
use panetiere_api::media::MediaType;
use panetiere_api::round::{Blobs, Record};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tlog::note::Note;
use tokio::time::{Instant, MissedTickBehavior, interval};

const TICK: Duration = Duration::from_millis(100);
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
}

struct Daemon {
    id: AggregatorId,
    key: SigningKey,
    desk: Desk<Aggregator>,
    intake: Arc<Intake>,
    summed: BTreeMap<RoundId, Instant>,
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
    let listener = Listener::start((config_path, &config.tls), config.listen_data, None, door, &room())?;
    let mut daemon = Daemon {
        id,
        key: signing_key(&resolve(config_path, &config.signing_key_file))?,
        desk: Desk::new(Aggregator::new(id, record), upstream, &path, &process)?,
        intake,
        summed: BTreeMap::new(),
    };
    let stop = daemon.desk.stop.clone();
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
    tokio::join!(daemon.desk.end(), listener.drain());
    outcome.unwrap_or(Ok(()))
}

impl Daemon {
    async fn serve(&mut self, process: &Process) -> anyhow::Result<()> {
        let mut feed = self.desk.begin(process).await?;
        let mut tick = interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let intake = Arc::clone(&self.intake);
        loop {
            tokio::select! {
                fed = feed.next() => self.read(process, fed).await?,
                () = intake.came.notified() => {}
                _ = tick.tick() => {}
            }
            if self.desk.since().is_some() {
                self.work().await?;
            }
        }
    }

    async fn read(&mut self, process: &Process, fed: Fed) -> anyhow::Result<()> {
        let (id, key) = (self.id, &self.key);
        let make = |document: &Epoch| {
            let key = SigningKey::from_scalar(&key.expose_scalar()).expect("the scalar of a key");
            let sits_out = |error: &EpochError| {
                let (epoch, code) = (document.number(), error.code());
                crate::safe_warn!("this aggregator sits out an epoch", epoch = epoch, code = code);
            };
            AggregatorIdentity::new(id, key, document).inspect_err(sits_out).ok()
        };
        let identities = identities(&fed.batch.entries, make);
        let enrol =
            move |role: &mut Aggregator| identities.into_iter().for_each(|(id, epoch)| role.enrol(id, epoch));
        self.desk.seat.with("enrol", enrol).await?;
        self.desk.read(process, 0, fed).await.map(drop)
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
        let (under_way, here, unsummed) = self.desk.seat.with("look", look).await?;
        let is_under_way = |round: RoundId| under_way.contains(&round);
        self.desk.publisher.keep(is_under_way);
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
        let orders = self.desk.seat.with("posts", deliver).await??;
        self.desk.publisher.submit(orders);
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
        match self.desk.seat.with("sum", sum).await? {
            Some(Ok(order)) => self.desk.publisher.submit([order]),
            Some(Err(error)) => {
                crate::safe_warn!("there is no sum yet", round = round, code = error.code());
                tracing::debug!(error = crate::chain::chain(&error), "there is no sum yet");
            }
            None => {}
        }
        Ok(())
    }
}
