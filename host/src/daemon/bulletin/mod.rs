//! The bulletin's daemon: its store, its two planes, and what moves the rounds on.

mod bodies;
mod get;
mod problems;
mod put;
mod routes;
mod witnesses;

use super::party::{Listener, Table};
use super::{Process, unix_time};
use crate::bulletin::{Bulletin, Refused};
use crate::chain::chain;
use crate::config::{self, BulletinConfig, Deployment};
use crate::net::budget::ByteBudget;
use crate::net::compute::Compute;
use crate::round::Record;
use crate::round::conductor::Millis;
use crate::store::disk::{Disk, LocalDisk};
use crate::store::log::{Log, Pace};
use crate::store::{Options, Store};
use anyhow::{Context as _, anyhow, bail};
use panetiere_api::leaf::Leaf;
use routes::Routes;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task::spawn_blocking;

/// How often the rounds are looked at when nothing comes in.
const BEAT: Duration = Duration::from_millis(250);
/// How often old rounds are deleted.
const DELETE_EVERY: Duration = Duration::from_secs(10);
/// What the planes and the tasks share.
pub(super) struct Service {
    bulletin: Arc<Bulletin>,
    compute: Compute,
    started: Instant,
    process: Process,
}

impl Service {
    /// The bulletin's clock: milliseconds since it started.
    fn now(&self) -> Millis {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

/// Runs a bulletin until it is told to stop, or its store fails.
///
/// # Errors
/// What keeps it from starting; the store's failure, after which the process has to be started again.
pub async fn run(process: Process, path: &Path, config: BulletinConfig) -> anyhow::Result<()> {
    let (path, deployment) = (path.to_owned(), Deployment::named_in(path, &config.deployment_file)?);
    let bulletin = spawn_blocking({
        let (path, config, deployment) = (path.clone(), config.clone(), deployment.clone());
        let kernels = process.kernels;
        move || open(&path, &config, &deployment, kernels)
    })
    .await??;
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    let service = Arc::new(Service {
        bulletin: Arc::new(bulletin),
        compute: Compute::new(threads, 1024)?,
        started: Instant::now(),
        process: process.clone(),
    });
    let (bulletin, epochs) = (Arc::clone(&service.bulletin), config::resolve(&path, &config.epochs_dir));
    spawn_blocking(move || append_epochs(&bulletin, &epochs)).await??;

    let planes = Planes::start(&path, &config, &service)?;
    let store = service.bulletin.store().clone();
    process.readiness.check("store", move || match store.failure() {
        None => Ok(None),
        Some(cause) => Err(chain(&*cause)),
    });
    let bulletin = Arc::clone(&service.bulletin);
    process.readiness.check("epoch", move || {
        let number =
            bulletin.with_record(|record| record.epoch().map(|epoch| epoch.plan().document.number()));
        number.map(|number| Some(number.to_string())).ok_or_else(|| "no epoch has begun".to_owned())
    });
    let bulletin = Arc::clone(&service.bulletin);
    process.readiness.check("witnesses", move || match bulletin.witness_ahead() {
        None => Ok(None),
        Some(size) => Err(format!(
            "a witness says that it has cosigned size {size} of this log: either it lies, or this is a restored backup"
        )),
    });
    witnesses::start(&service, &deployment)?;
    process.ready();
    let outcome = drive(&service, &path, &config, &planes).await;
    planes.drain().await;
    let bulletin = Arc::clone(&service.bulletin);
    spawn_blocking(move || bulletin.shut_down()).await?;
    outcome
}

fn open(
    path: &Path,
    config: &BulletinConfig,
    deployment: &Deployment,
    kernels: &'static chipmunk::ring::backend::Kernels,
) -> anyhow::Result<Bulletin> {
    let key = config::log_key(&config::resolve(path, &config.log_key_file))?;
    if *key.verifier() != deployment.anchor.log_key {
        bail!("the key in {} is not the log key of the deployment", config.log_key_file.display());
    }
    let directory = config::resolve(path, &config.storage.data_dir);
    std::fs::create_dir_all(&directory).with_context(|| format!("{}", directory.display()))?;
    let disk: Arc<dyn Disk> = Arc::new(LocalDisk::new(&directory));
    let options = Options::new(deployment.anchor.origin.clone(), key);
    let (_, sequencer, started) = Store::open(disk, options, unix_time())
        .with_context(|| format!("the store in {} cannot be opened", directory.display()))?;
    crate::safe_info!(
        "store opened",
        leaves = started.head.size,
        republished = started.republished,
        truncated_bytes = started.truncated_bytes
    );
    let interval = Duration::from_millis(config.storage.sequence_interval_ms.into());
    let log = Log::start(sequencer, Pace { interval, ..Pace::default() }, unix_time)?;
    let record = Record::new(deployment.anchor.clone(), kernels);
    let bulletin = Bulletin::open(log, record, config.rounds.windows(), config.rounds.interval_ms.into())?;
    Ok(bulletin)
}

/// Appends the epochs in a directory that the log has not, in the order of their names.
fn append_epochs(bulletin: &Bulletin, directory: &Path) -> anyhow::Result<()> {
    let read = std::fs::read_dir(directory).with_context(|| format!("{}", directory.display()))?;
    let mut files = read.map(|entry| entry.map(|entry| entry.path())).collect::<Result<Vec<_>, _>>()?;
    files.retain(|file| file.extension().is_some_and(|extension| extension == "epoch"));
    files.sort();
    for file in files {
        let about = || format!("{}", file.display());
        let bytes = std::fs::read(&file).with_context(about)?;
        let leaf = Leaf::parse(&bytes).with_context(about)?;
        let Leaf::Epoch(plan) = leaf else {
            bail!("{}: a leaf of kind {}, expected an epoch", about(), leaf.kind())
        };
        let number = plan.claim().document.number();
        let had = bulletin.with_record(|record| record.epoch().map(|epoch| epoch.plan().document.number()));
        if had.is_some_and(|had| had >= number) {
            continue;
        }
        match bulletin.take_leaf(&bytes) {
            Ok(accepted) => {
                accepted.committed.blocking_recv().map_err(|_| anyhow!("the log's thread has ended"))??;
                crate::safe_info!("epoch begins", epoch = number);
            }
            Err(error) => return Err(anyhow!(error).context(about())),
        }
    }
    Ok(())
}

/// What listens.
struct Planes {
    data: Listener,
    operator: Listener,
    table: Table,
}

impl Planes {
    fn start(path: &Path, config: &BulletinConfig, service: &Arc<Service>) -> anyhow::Result<Self> {
        let room = ByteBudget::new(config.storage.max_inflight_bytes);
        let routes = |operator| Routes { service: Arc::clone(service), operator };
        let table = Table::open(path, &config.parties_file)?;
        let (files, parties) = ((path, &config.tls), Arc::clone(&table.principals));
        Ok(Self {
            data: Listener::start(files, config.listen.data, None, routes(false), &room)?,
            operator: Listener::start(files, config.listen.operator, Some(parties), routes(true), &room)?,
            table,
        })
    }

    /// Reads again what may change while the daemon runs.
    fn reload(&self) {
        self.data.reload();
        self.operator.reload();
        self.table.reload();
    }

    async fn drain(self) {
        tokio::join!(self.data.drain(), self.operator.drain());
    }
}

/// Moves the rounds on until the process is to stop.
async fn drive(
    service: &Arc<Service>,
    path: &Path,
    config: &BulletinConfig,
    planes: &Planes,
) -> anyhow::Result<()> {
    let mut durable = service.bulletin.durable();
    let mut reload = service.process.reload.clone();
    let (mut deleted, mut ahead) = (Instant::now(), false);
    loop {
        let delete = deleted.elapsed() >= DELETE_EVERY;
        if delete {
            deleted = Instant::now();
        }
        let (bulletin, now, retain) =
            (Arc::clone(&service.bulletin), service.now(), config.rounds.retain_rounds);
        let next = spawn_blocking(move || {
            let (accepted, next) = bulletin.conduct(now)?;
            for accepted in &accepted {
                if let crate::round::Event::RoundOpened { round, .. } = accepted.event {
                    crate::safe_info!("round opened", round = round);
                }
            }
            if delete {
                bulletin.delete_old(retain)?;
            }
            bulletin.cosign_target(now);
            Ok::<_, Refused>(next)
        })
        .await?;
        if !ahead && service.bulletin.witness_ahead().is_some() {
            ahead = true;
            crate::safe_error!("a witness has cosigned more of this log than there is: see /readyz");
        }
        if let Some(failure) = service.bulletin.failure() {
            bail!("the store has failed: {failure}");
        }
        let wait = match next {
            Ok(next) => next.map_or(BEAT, |at| Duration::from_millis(at.saturating_sub(now)).min(BEAT)),
            // The queue is full: it empties by itself.
            Err(Refused::Store(crate::store::StoreError::Busy { .. })) => BEAT,
            Err(error) => return Err(anyhow!(error).context("the rounds cannot be moved on")),
        };
        tokio::select! {
            () = service.process.stop.cancelled() => return Ok(()),
            _ = durable.changed() => {}
            () = tokio::time::sleep(wait) => {}
            Ok(()) = reload.changed() => {
                planes.reload();
                let (bulletin, epochs) = (Arc::clone(&service.bulletin), config::resolve(path, &config.epochs_dir));
                if spawn_blocking(move || append_epochs(&bulletin, &epochs)).await?.is_err() {
                    crate::safe_error!("an epoch was not appended");
                }
            }
        }
    }
}
