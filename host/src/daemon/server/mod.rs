//! The daemon of a key server: reads the log, fetches and checks its envelopes, cosigns, and releases its sums as the rule
//! lets it (docs/release.md). It has no inbound port but the admin plane.

mod fetch;
mod keys;
mod release;

use super::Process;
use super::party::{Batch, Desk, Fed, NotRead, Reads, Upstream};
use crate::config::{Deployment, ServerConfig};
use crate::role::Order;
use crate::role::server::{Server, ServerError};
use crate::round::conductor::Millis;
use anyhow::Context as _;
use fetch::Envelopes;
use keys::{EpochView, Keys};
use panetiere::ids::ServerId;
use panetiere_api::follow::FollowError;
use panetiere_api::leaf::RoundId;
use panetiere_api::round::{Blobs, Record};
use release::{Ask, Releases};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tlog::note::Note;
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval};

/// How often a server looks at what time has brought.
const TICK: Duration = Duration::from_millis(100);
/// How often it looks after its keys, in ticks.
const KEYS_EVERY: u64 = 10;

impl NotRead for ServerError {
    fn as_follow(&self) -> Option<&FollowError> {
        match self {
            Self::Follow(error) => Some(error),
            _ => None,
        }
    }
}

impl Reads for Server {
    type Error = ServerError;

    fn record(&self) -> &Record {
        Self::record(self)
    }

    fn read_on(
        &mut self,
        now: Millis,
        note: &Note,
        entries: &[Vec<u8>],
        blobs: &dyn Blobs,
    ) -> Result<Vec<Order>, ServerError> {
        // Which of these sizes a checkpoint to be cosigned will have is not known yet.
        let from = self.head().size;
        let count = u64::try_from(entries.len()).expect("a length fits 64 bits");
        (from + 1..=from + count).for_each(|size| self.mark(size));
        self.advance(now, note, entries, blobs)
    }
}

/// What tasks beside the server report.
enum News {
    /// A checkpoint is to be cosigned.
    Ask(Ask),
    /// The checkpoint that settles a round, if there is one.
    Closing(RoundId, Option<Box<Note>>),
    /// Envelopes, if they came.
    Envelopes(Envelopes),
}

struct Daemon {
    id: ServerId,
    desk: Desk<Server>,
    keys: Arc<Mutex<Keys>>,
    report: mpsc::Sender<News>,
    envelopes: fetch::Fetches,
    releases: Releases,
    ticks: u64,
}

/// Runs a server until the process stops.
///
/// # Errors
/// What keeps it from starting: files, keys, a bulletin with another key than is pinned. What ends it: a state that cannot be
/// used, or a log that contradicts what this server has said.
pub async fn run(process: Process, config_path: &Path, config: ServerConfig) -> anyhow::Result<()> {
    let deployment = Deployment::named_in(config_path, &config.deployment_file)?;
    let keys = Keys::open(config_path, &config, &deployment)?;
    let upstream = Arc::new(Upstream::operator(&deployment, config_path, &config.tls)?);
    let record = Record::new(deployment.anchor.clone(), process.kernels);
    let server = Server::new(keys.id, config.policy.into(), record, Arc::clone(&keys.guard))?;
    let desk = Desk::new(server, upstream, &keys.path, &process)?;
    let stop = desk.stop.clone();
    let (report, news) = mpsc::channel(16);
    let keys = Arc::new(Mutex::new(keys));
    let mut daemon = Daemon {
        id: ServerId(config.index),
        desk,
        keys,
        report,
        envelopes: fetch::Fetches::default(),
        releases: Releases::default(),
        ticks: 0,
    };
    daemon.watch(&process);
    let outcome = stop.run_until_cancelled(daemon.serve(&process, news)).await;
    daemon.desk.end().await;
    outcome.unwrap_or(Ok(()))
}

impl Daemon {
    fn watch(&self, process: &Process) {
        let keys = Arc::clone(&self.keys);
        process.readiness.check("keys", move || {
            let alive = keys.lock().unwrap_or_else(PoisonError::into_inner).alive()?;
            Ok(Some(format!("of {alive} epochs")))
        });
        let cosigning = self.releases.cosigning();
        process.readiness.check("quorum", move || cosigning.look());
    }

    async fn serve(&mut self, process: &Process, mut news: mpsc::Receiver<News>) -> anyhow::Result<()> {
        let mut feed = self.desk.begin(process).await?;
        let mut asking = false;
        let mut tick = interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                fed = feed.next() => self.read(process, fed).await?,
                Some(news) = news.recv() => match news {
                    News::Ask(ask) => self.releases.ask(ask),
                    News::Closing(round, note) => self.closing(round, note).await?,
                    News::Envelopes(envelopes) => self.deliver(envelopes).await?,
                },
                _ = tick.tick() => {}
            }
            if self.desk.since().is_some() {
                if !asking {
                    asking = true;
                    self.ask_for_checkpoints();
                }
                self.tick().await?;
            }
        }
    }

    /// The server's clock: it stands until everything that was there at the start is read, for what happened before is not
    /// judged by the time at which it is read.
    fn now(&self) -> Millis {
        let since = self.desk.since().map_or(Duration::ZERO, |since| since.elapsed());
        u64::try_from(since.as_millis()).unwrap_or(Millis::MAX)
    }

    async fn read(&mut self, process: &Process, fed: Fed) -> anyhow::Result<()> {
        let Fed { batch, done } = fed;
        let batch = self.enrol(batch).await?;
        let posts = self.envelopes.places(&batch);
        let size = self.desk.read(process, self.now(), Fed { batch, done }).await?;
        // Also of a part that was read before a blob was missing; what was not read is perhaps not the log's.
        self.envelopes.add(posts.into_iter().filter(|(_, index)| *index < size));
        self.clean_up().await
    }

    /// The keys of an epoch have to be there before its rounds are read.
    async fn enrol(&self, batch: Batch) -> anyhow::Result<Batch> {
        let keys = Arc::clone(&self.keys);
        let enrol = move |server: &mut Server| {
            let keys = keys.lock().unwrap_or_else(PoisonError::into_inner);
            for (identity, epoch) in keys.identities(&batch.entries) {
                server.enrol(identity, epoch);
            }
            batch
        };
        self.desk.seat.with("enrol", enrol).await
    }

    async fn clean_up(&mut self) -> anyhow::Result<()> {
        let under_way = |server: &mut Server| -> Vec<RoundId> {
            let under_way = server.record().rounds().filter(|session| session.awaits_result());
            under_way.map(panetiere_api::round::Session::round).collect()
        };
        let rounds = self.desk.seat.with("rounds", under_way).await?;
        self.desk.publisher.keep(|round| rounds.contains(&round));
        self.envelopes.keep(|round| rounds.contains(&round));
        self.releases.keep(|round| rounds.contains(&round));
        Ok(())
    }

    async fn tick(&mut self) -> anyhow::Result<()> {
        self.ticks += 1;
        let now = self.now();
        let look = move |server: &mut Server| {
            server.tick(now).map(|orders| (orders, server.wanted(), server.unreleased()))
        };
        let (orders, wanted, unreleased) =
            self.desk.seat.with("tick", look).await?.context("this server must not go on")?;
        self.desk.publisher.submit(orders);
        self.fetch(wanted).await?;
        self.ask_for_closings(&unreleased);
        self.cosign().await?;
        if self.ticks.is_multiple_of(KEYS_EVERY) {
            self.look_after_keys().await?;
        }
        Ok(())
    }

    async fn look_after_keys(&self) -> anyhow::Result<()> {
        let keys = Arc::clone(&self.keys);
        let look = move |server: &mut Server| {
            let mut keys = keys.lock().unwrap_or_else(PoisonError::into_inner);
            for (number, digest) in keys.look_after(&EpochView::all(server.record()))? {
                // Out of memory first.
                if let Some(digest) = digest {
                    server.retire(&digest);
                }
                keys.destroy(number)?;
            }
            anyhow::Ok(())
        };
        self.desk.seat.with("keys", look).await?
    }
}
