//! Clients on this machine: they take part in every round, with cover when there is nothing to send.
//!
//! A message is cut into pieces that fit a round, one piece a round and client, and each piece is sent again until it is in
//! a published result that the log names. Whether a client sends a piece or cover, its bodies have the same size, go the
//! same way and at a time that was drawn before anybody looked whether there was something to send.

mod core;
mod inbox;
mod send;

use crate::config::{ClientFile, Deployment, resolve};
use crate::daemon::party::{Evidences, Fed, Feed, Reading, Seat, Upstream};
use crate::net::compute::Compute;
use crate::round::conductor::Millis;
use anyhow::Context as _;
use chipmunk::ring::backend::Kernels;
use core::{Clients, Part, Seen};
use http::StatusCode;
use inbox::Inbox;
use panetiere_api::fragment::MessageId;
use panetiere_api::leaf::{RoundId, messages_from_bytes, messages_root};
use panetiere_api::round::Record;
use send::{Destinations, Parcel};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

const TICK: Duration = Duration::from_millis(100);
/// Bytes of a round's messages that are read at most.
const MAX_RESULT: u64 = 256 << 20;
/// Part of the collection window within which a post is begun: the rest is for the bytes to arrive.
const POST_SHARE: (u64, u64) = (1, 2);

/// What clients do.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Clients of this process, each with a key of its own.
    pub clients: u16,
    /// Whether to end when all messages are out.
    pub until_sent: bool,
    /// The arithmetic.
    pub kernels: &'static Kernels,
}

/// What has happened.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum News {
    /// A message is in published results, whole.
    Delivered {
        /// Its name.
        message: MessageId,
        /// The round of its last piece.
        round: RoundId,
        /// Where that round's result stands in the log.
        leaf: u64,
    },
    /// A client has posted in a round.
    Posted {
        /// The round.
        round: RoundId,
    },
    /// A client's post did not get into a round: what it carried is sent again.
    Missed {
        /// The round.
        round: RoundId,
        /// Why.
        reason: String,
    },
}

/// A job's end.
enum Done {
    Admitted(Result<(), String>),
    Answered,
    Posted(Part, Result<(), String>),
    Result(RoundId, anyhow::Result<Vec<Vec<u8>>>),
}

struct Runner<'a> {
    seat: Seat<Clients>,
    upstream: Arc<Upstream>,
    destinations: Arc<Destinations>,
    evidences: Evidences,
    inbox: Inbox,
    jobs: JoinSet<Done>,
    started: Instant,
    tell: &'a mut (dyn FnMut(News) + Send),
}

/// Runs clients until `stop` fires, or everything is sent if that is asked for. Returns the messages that are not out.
///
/// # Errors
/// Files that cannot be read, a message that fits no round, a log that shows two histories.
pub async fn run(
    path: &Path,
    config: &ClientFile,
    options: Options,
    messages: Vec<Vec<u8>>,
    stop: CancellationToken,
    tell: &mut (dyn FnMut(News) + Send),
) -> anyhow::Result<Vec<MessageId>> {
    let deployment = Deployment::named_in(path, &config.deployment_file)?;
    let directory = resolve(path, &config.data_dir);
    let mut inbox = Inbox::open(&directory).with_context(|| format!("{}", directory.display()))?;
    for message in messages {
        inbox.add(message)?;
    }
    let upstream = Arc::new(Upstream::public(&deployment)?);
    let record = Record::new(deployment.anchor.clone(), options.kernels);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let tasks = TaskTracker::new();
    let mut runner = Runner {
        seat: Seat::new(Clients::new(record, options.clients), Compute::new(threads, 256)?),
        destinations: Arc::new(Destinations::new(Arc::clone(&upstream), &deployment)?),
        upstream: Arc::clone(&upstream),
        evidences: Evidences::new(&directory)?,
        inbox,
        jobs: JoinSet::new(),
        started: Instant::now(),
        tell,
    };
    let mut feed = Feed::start(upstream, 0, &tasks, stop.clone());
    let outcome = runner.work(&mut feed, &stop, options.until_sent).await;
    stop.cancel();
    outcome.map(|()| runner.inbox.waiting())
}

impl Runner<'_> {
    fn now(&self) -> Millis {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    async fn work(
        &mut self,
        feed: &mut Feed,
        stop: &CancellationToken,
        until_sent: bool,
    ) -> anyhow::Result<()> {
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            if until_sent && self.inbox.is_empty() {
                return Ok(());
            }
            tokio::select! {
                () = stop.cancelled() => return Ok(()),
                Fed { batch, done } = feed.next() => {
                    let now = self.now();
                    let reading = self.seat.read(now, batch, &self.upstream, &self.evidences).await?;
                    // Whoever feeds may be gone.
                    let size = self.seat.with("position", |clients| clients.size()).await?;
                    let _ = done.send(size);
                    if let Reading::Done(_) = reading {
                        self.look().await?;
                    }
                }
                Some(done) = self.jobs.join_next() => self.done(done.context("a task has panicked")?).await?,
                _ = ticks.tick() => self.tick().await?,
            }
        }
    }

    /// Follows up what was read.
    async fn look(&mut self) -> anyhow::Result<()> {
        let now = self.now();
        for seen in self.seat.with("look", move |clients| clients.seen(now, POST_SHARE)).await? {
            match seen {
                Seen::Admit { name, leaf } => {
                    let destinations = Arc::clone(&self.destinations);
                    self.jobs.spawn(async move { Done::Admitted(destinations.admit(name, leaf).await) });
                }
                Seen::Answer { round, server, name, leaf } => {
                    let destinations = Arc::clone(&self.destinations);
                    self.jobs.spawn(async move {
                        destinations.answer(round, server, name, leaf).await;
                        Done::Answered
                    });
                }
                Seen::CalledOff { round, reason } if self.inbox.called_off(round) => {
                    (self.tell)(News::Missed { round, reason });
                }
                Seen::CalledOff { .. } => {}
                Seen::Result { round } => {
                    let upstream = Arc::clone(&self.upstream);
                    self.jobs.spawn(async move { Done::Result(round, fetch(&upstream, round).await) });
                }
            }
        }
        Ok(())
    }

    /// Makes the posts whose time has come, and tells answers whose time has come.
    async fn tick(&mut self) -> anyhow::Result<()> {
        let now = self.now();
        let due = self.seat.with("due", move |clients| clients.due(now)).await?;
        for part in due {
            // The time was drawn when the round was opened: only now anybody looks what there is to send.
            let room = self.seat.with("room", move |clients| clients.payload_len(part.round)).await?;
            let piece = match room {
                Some(room) => self.inbox.next(part.round, part.member, room)?,
                None => None,
            };
            let made =
                self.seat.with("participate", move |clients| clients.take_part(part, piece.as_deref()));
            match made.await? {
                Ok(parcel) => {
                    let destinations = Arc::clone(&self.destinations);
                    let parcel: Parcel = parcel;
                    self.jobs.spawn(async move { Done::Posted(part, destinations.post(parcel).await) });
                }
                Err(reason) => {
                    self.inbox.failed(part.round, part.member);
                    (self.tell)(News::Missed { round: part.round, reason });
                }
            }
        }
        self.look().await
    }

    async fn done(&mut self, done: Done) -> anyhow::Result<()> {
        match done {
            Done::Admitted(Ok(())) | Done::Answered => {}
            Done::Admitted(Err(reason)) => {
                tracing::debug!(reason, "not admitted");
                self.seat.with("again", |clients| clients.admit_again()).await?;
            }
            Done::Posted(part, Ok(())) => (self.tell)(News::Posted { round: part.round }),
            Done::Posted(part, Err(reason)) => {
                self.inbox.failed(part.round, part.member);
                (self.tell)(News::Missed { round: part.round, reason });
            }
            Done::Result(round, Ok(messages)) => self.result(round, &messages).await?,
            Done::Result(round, Err(error)) => {
                tracing::debug!(error = %format!("{error:#}"), "the messages of a round are not to be had yet");
                self.seat.with("again", move |clients| clients.fetch_again(round)).await?;
            }
        }
        Ok(())
    }

    /// Holds a round's messages against its result, and what was sent against them.
    async fn result(&mut self, round: RoundId, messages: &[Vec<u8>]) -> anyhow::Result<()> {
        let root = messages_root(messages.iter().map(Vec::as_slice));
        let count = u32::try_from(messages.len()).unwrap_or(u32::MAX);
        let leaf = self.seat.with("result", move |clients| clients.result_leaf(round, &root, count)).await?;
        let Some(leaf) = leaf else {
            // Not what the result names: somebody else may have it.
            self.seat.with("again", move |clients| clients.fetch_again(round)).await?;
            return Ok(());
        };
        for message in self.inbox.published(round, messages)? {
            (self.tell)(News::Delivered { message, round, leaf });
        }
        Ok(())
    }
}

async fn fetch(upstream: &Upstream, round: RoundId) -> anyhow::Result<Vec<Vec<u8>>> {
    let path = panetiere_api::path::Path::Result(round).to_string();
    let answer = upstream.get("messages", &path, MAX_RESULT, panetiere_api::client::Resume::Never).await?;
    anyhow::ensure!(answer.status == StatusCode::OK, "status {}", answer.status);
    Ok(messages_from_bytes(&answer.body)?)
}
