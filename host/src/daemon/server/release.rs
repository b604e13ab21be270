//! Cosigning first, releasing second.

use super::{Daemon, News};
use crate::daemon::party::{Backoff, Upstream};
use crate::daemon::unix_time;
use crate::net::metrics;
use crate::role::server::{NotReleased, Server};
use crate::state::{SplitView, WitnessError};
use anyhow::Context as _;
use http::StatusCode;
use panetiere::fault::Fault as _;
use panetiere_api::client::Resume;
use panetiere_api::leaf::RoundId;
use panetiere_api::limits::MAX_OPERATOR_BYTES;
use panetiere_api::media::MediaType;
use panetiere_api::path::Path;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tlog::checkpoint::{Checkpoint, TreeHead};
use tlog::note::Note;
use tlog::witness::Request;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep};

/// How long the bulletin is waited for, in milliseconds.
const WAIT_MS: u64 = 20_000;
/// A checkpoint that is not read yet is not cosigned; the bulletin is asked again after so long.
const READ_WITHIN: Duration = Duration::from_secs(3);
/// Pause between cosignatures: the bulletin gives out a checkpoint until it has its quorum.
const PAUSE: Duration = Duration::from_millis(150);
/// Pause after something that people have to look at.
const LONG_PAUSE: Duration = Duration::from_secs(10);
/// What was refused is asked again after so long.
const AGAIN: Duration = Duration::from_secs(1);

/// A checkpoint to be cosigned.
pub(super) struct Ask {
    request: Request,
    head: TreeHead,
    until: Instant,
    /// Takes the lines of the cosignature; dropped, there is none.
    done: oneshot::Sender<String>,
}

/// Whether this server can cosign: for `/readyz`.
#[derive(Clone, Default)]
pub(super) struct Cosigning(Arc<Mutex<Option<&'static str>>>);

impl Cosigning {
    fn set(&self, wrong: Option<&'static str>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = wrong;
    }

    pub fn look(&self) -> Result<Option<String>, String> {
        let wrong = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        wrong.map_or(Ok(None), |code| Err(format!("this server does not cosign: {code}")))
    }
}

/// What is asked for and waited for.
#[derive(Default)]
pub(super) struct Releases {
    ask: Option<Ask>,
    cosigning: Cosigning,
    /// Rounds whose closing checkpoint is asked for; from when on it may be asked for again.
    closings: BTreeMap<RoundId, Option<Instant>>,
}

impl Releases {
    pub fn cosigning(&self) -> Cosigning {
        self.cosigning.clone()
    }

    pub fn ask(&mut self, ask: Ask) {
        self.ask = Some(ask);
    }

    /// Forgets rounds that are over.
    pub fn keep(&mut self, under_way: impl Fn(RoundId) -> bool) {
        self.closings.retain(|round, _| under_way(*round));
    }
}

/// The checkpoint that the bulletin wants cosigned, from the head that this witness is at. None if there is none.
async fn request(
    upstream: &Upstream,
    size: u64,
) -> Result<Option<(Request, TreeHead)>, crate::daemon::party::UpstreamError> {
    let path = format!("{}?size={size}&ms={WAIT_MS}", Path::Cosign);
    let what = "checkpoint to cosign";
    let answer = upstream.get(what, &path, MAX_OPERATOR_BYTES, Resume::Never).await?;
    if answer.status == StatusCode::NO_CONTENT {
        return Ok(None);
    }
    let request = Request::parse(&answer.body).map_err(|error| upstream.malformed(what, error))?;
    let checkpoint = request.note().text().parse::<Checkpoint>();
    let head = checkpoint.map_err(|error| upstream.malformed(what, error))?.head();
    Ok(Some((request, head)))
}

impl Daemon {
    /// Asks the bulletin for checkpoints to cosign, in a task beside.
    pub(super) fn ask_for_checkpoints(&self) {
        let (upstream, report, stop) =
            (Arc::clone(&self.desk.upstream), self.report.clone(), self.desk.stop.clone());
        let keys = Arc::clone(&self.keys);
        let seat = self.desk.seat.clone();
        let asking = async move {
            let mut backoff = Backoff::default();
            loop {
                let keys = Arc::clone(&keys);
                let head = seat.with("cosigned", move |server: &mut Server| {
                    let keys = keys.lock().unwrap_or_else(PoisonError::into_inner);
                    keys.witness.head(&server.record().anchor().origin)
                });
                // What is wrong with the state ends the server elsewhere.
                let Ok(Ok(head)) = head.await else { return };
                match request(&upstream, head.map_or(0, |head| head.size)).await {
                    Ok(None) => backoff.reset(),
                    Ok(Some((request, head))) => {
                        backoff.reset();
                        let (done, cosigned) = oneshot::channel();
                        let until = Instant::now() + READ_WITHIN;
                        if report.send(News::Ask(Ask { request, head, until, done })).await.is_err() {
                            return;
                        }
                        let Ok(lines) = cosigned.await else {
                            backoff.wait().await;
                            continue;
                        };
                        let path = Path::Cosignatures(head.size);
                        let put =
                            upstream.put("cosignature", &path, MediaType::Text, lines.into_bytes()).await;
                        if let Err(error) = put {
                            tracing::debug!(
                                error = crate::chain::chain(&error),
                                "a cosignature was not taken"
                            );
                        }
                        sleep(PAUSE).await;
                    }
                    Err(error) => {
                        tracing::debug!(
                            error = crate::chain::chain(&error),
                            "nothing to cosign was heard of"
                        );
                        backoff.wait().await;
                    }
                }
            }
        };
        self.desk.tasks.spawn(async move { stop.run_until_cancelled(asking).await });
    }

    /// Cosigns what is to be cosigned, once it is read: a checkpoint of this very history.
    pub(super) async fn cosign(&mut self) -> anyhow::Result<()> {
        let Some(ask) = self.releases.ask.take() else { return Ok(()) };
        let head = ask.head;
        let read = self
            .desk
            .seat
            .with("cosign", move |server: &mut Server| (server.head().size, server.agrees(&head)));
        match read.await? {
            (size, _) if size < head.size => {
                if Instant::now() < ask.until {
                    self.releases.ask = Some(ask);
                }
                return Ok(());
            }
            (_, Some(true)) => {}
            (_, Some(false)) => {
                let note = ask.request.note().clone();
                let signed = self
                    .desk
                    .seat
                    .with("cosign", move |server: &mut Server| server.record().log().open(&note).is_ok());
                if signed.await? {
                    self.desk.evidences.fork("cosign_split_view", head.size, ask.request.note())?;
                    self.releases.cosigning.set(Some("the log contradicts what was read"));
                }
                return Ok(());
            }
            (_, None) => return Ok(()),
        }
        let (keys, request, time) = (Arc::clone(&self.keys), ask.request, unix_time());
        let cosigned = self.desk.seat.with("cosign", move |server: &mut Server| {
            let keys = keys.lock().unwrap_or_else(PoisonError::into_inner);
            keys.witness.add_checkpoint(&server.record().log(), &request, &keys.cosigner, time)
        });
        match cosigned.await? {
            Ok(line) => {
                self.releases.cosigning.set(None);
                // Whoever asked may be gone.
                let _ = ask.done.send(line.to_string());
            }
            Err(WitnessError::State(error)) => return Err(error).context("this server must not go on"),
            Err(WitnessError::SplitView { evidence, .. }) => {
                let SplitView { first, second } = &*evidence;
                crate::safe_error!("the log asks to cosign a second history", size = head.size);
                metrics::split_view("witness_split_view");
                let (first, second) = (first.to_string(), second.to_string());
                self.desk.evidences.keep("witness_split_view", head.size, Some(&first), &second)?;
                self.releases.cosigning.set(Some("witness_split_view"));
            }
            Err(error @ (WitnessError::KeyRetired { .. } | WitnessError::KeyUnknown { .. })) => {
                if self.releases.cosigning.look().is_ok() {
                    crate::safe_error!("this server does not cosign", code = error.code());
                }
                self.releases.cosigning.set(Some(error.code()));
                let done = ask.done;
                self.desk.tasks.spawn(async move {
                    sleep(LONG_PAUSE).await;
                    drop(done);
                });
            }
            // The bulletin was asked from an older head than this witness is at by now.
            Err(error) => tracing::debug!(error = crate::chain::chain(&error), "not cosigned"),
        }
        Ok(())
    }

    /// Asks for the checkpoints that settle rounds, each in a task beside.
    pub(super) fn ask_for_closings(&mut self, unreleased: &[RoundId]) {
        for &round in unreleased {
            match self.releases.closings.get(&round) {
                Some(None) => continue,
                Some(Some(at)) if Instant::now() < *at => continue,
                _ => {}
            }
            self.releases.closings.insert(round, None);
            let (upstream, report, stop) =
                (Arc::clone(&self.desk.upstream), self.report.clone(), self.desk.stop.clone());
            let asking = async move {
                let note = match upstream.closing(round, WAIT_MS).await {
                    Ok(note) => note.map(Box::new),
                    Err(error) => {
                        tracing::debug!(error = crate::chain::chain(&error), "no closing checkpoint");
                        None
                    }
                };
                // The server may be gone.
                let _ = report.send(News::Closing(round, note)).await;
            };
            self.desk.tasks.spawn(async move { stop.run_until_cancelled(asking).await });
        }
    }

    /// Releases what a checkpoint lets it.
    pub(super) async fn closing(&mut self, round: RoundId, note: Option<Box<Note>>) -> anyhow::Result<()> {
        self.releases.closings.insert(round, Some(Instant::now() + AGAIN));
        let Some(note) = note else { return Ok(()) };
        let keys = Arc::clone(&self.keys);
        let release = move |server: &mut Server| {
            let keys = keys.lock().unwrap_or_else(PoisonError::into_inner);
            let log = server.record().log();
            match keys.witness.observe(&log, &note, keys.cosigner.verifier()) {
                Err(WitnessError::State(error)) => return Err(anyhow::Error::new(error)),
                Err(error @ WitnessError::KeyRetired { .. }) => {
                    crate::safe_error!(
                        "this server's cosigner key is used elsewhere, or its state is old",
                        code = error.code()
                    );
                }
                Ok(()) | Err(_) => {}
            }
            if keys.witness.split_view(log.origin())?.is_some() {
                return Ok(None);
            }
            Ok(Some(server.release(&note)?))
        };
        let Some(outcomes) =
            self.desk.seat.with("release", release).await?.context("this server must not go on")?
        else {
            metrics::not_released("split_view");
            return Ok(());
        };
        for outcome in outcomes {
            match outcome.outcome {
                Ok(order) => self.desk.publisher.submit([order]),
                Err(error) => {
                    let code = match &error {
                        NotReleased::Refused(refusal) => refusal.code(),
                        NotReleased::Round(error) => error.code(),
                        NotReleased::Server(error) => error.code(),
                    };
                    metrics::not_released(code);
                    crate::safe_warn!("a sum is not released now", round = outcome.round, code = code);
                    tracing::debug!(error = crate::chain::chain(&error), "not released");
                }
            }
        }
        Ok(())
    }
}
