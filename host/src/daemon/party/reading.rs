//! The state machine of a role in its seat, and how it reads on.

use super::Upstream;
use super::feed::Batch;
use super::setup::{Beside, directory};
use crate::net::compute::Compute;
use crate::net::metrics;
use crate::role::Order;
use crate::round::conductor::Millis;
use anyhow::{Context as _, bail};
use panetiere::fault::Fault;
use panetiere_api::follow::{FollowError, RECENT_HEADS};
use panetiere_api::round::{Blobs, Record};
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tlog::checkpoint::Checkpoint;
use tlog::note::Note;
use tokio::sync::Mutex as Turns;
use tokio::time::timeout;
use tokio_util::task::TaskTracker;

/// How long a job under way may take when the daemon goes down.
const LAST: Duration = Duration::from_millis(500);

/// Why a role did not read on.
pub trait NotRead: Fault + Send + Sync + 'static {
    /// The error as one of the reader, after which the role goes on.
    fn as_follow(&self) -> Option<&FollowError>;
}

impl NotRead for FollowError {
    fn as_follow(&self) -> Option<&FollowError> {
        Some(self)
    }
}

/// A role that reads the log.
pub trait Reads: Send + 'static {
    /// Why it did not read on.
    type Error: NotRead;

    /// What the log makes of the rounds.
    fn record(&self) -> &Record;

    /// Reads on; as the role's own `advance`.
    ///
    /// # Errors
    /// The role's.
    fn read_on(
        &mut self,
        now: Millis,
        note: &Note,
        entries: &[Vec<u8>],
        blobs: &dyn Blobs,
    ) -> Result<Vec<Order>, Self::Error>;
}

/// What became of a batch.
#[derive(Debug)]
pub enum Reading {
    /// It was read; this is to be done now.
    Done(Vec<Order>),
    /// It was not taken: it is to be asked for again.
    Again,
}

/// A role's state machine, used by one job at a time in the pool.
///
/// A job takes its turn before it gets to a thread, and keeps it until it is done, whoever has asked for it: a thread that
/// waits for parts of one job may be given another meanwhile, and must not wait for itself.
pub struct Seat<T> {
    role: Arc<Turns<T>>,
    compute: Compute,
    beside: Arc<Beside>,
    panicked: Arc<AtomicBool>,
}

impl<T> Clone for Seat<T> {
    fn clone(&self) -> Self {
        let (role, compute) = (Arc::clone(&self.role), self.compute.clone());
        let (beside, panicked) = (Arc::clone(&self.beside), Arc::clone(&self.panicked));
        Self { role, compute, beside, panicked }
    }
}

impl<T: Send + 'static> Seat<T> {
    /// The seat of a role.
    pub fn new(role: T, compute: Compute) -> Self {
        Self { role: Arc::new(Turns::new(role)), compute, beside: Arc::default(), panicked: Arc::default() }
    }

    /// Does something with the role in the pool, after what was asked for before.
    ///
    /// # Errors
    /// If a job has panicked, this one or one before: nobody knows then what state the role is in, and the daemon has to
    /// end.
    pub async fn with<R: Send + 'static>(
        &self,
        class: &'static str,
        job: impl FnOnce(&mut T) -> R + Send + 'static,
    ) -> anyhow::Result<R> {
        let mut role = Arc::clone(&self.role).lock_owned().await;
        if self.panicked.load(Ordering::Relaxed) {
            bail!("a job has panicked before {class}");
        }
        let done = self.compute.run(class, move || job(&mut role)).await;
        if done.is_err() {
            self.panicked.store(true, Ordering::Relaxed);
        }
        done.with_context(|| format!("the job {class}"))
    }

    /// Waits for the tasks beside, which were told to stop, and for the job under way, so that what they hold is closed: but
    /// not for long.
    pub async fn end(&self, tasks: &TaskTracker) {
        tasks.close();
        let ended = async {
            tasks.wait().await;
            // A job that has panicked has ended, too.
            let _ = self.with("end", |_| ()).await;
        };
        if timeout(LAST, ended).await.is_err() {
            crate::safe_warn!("a job has not ended");
        }
    }
}

impl<T: Reads> Seat<T> {
    /// Reads a batch, with the blobs that its leaves name.
    ///
    /// # Errors
    /// If the role must not go on.
    pub async fn read(
        &self,
        now: Millis,
        batch: Batch,
        upstream: &Upstream,
        evidences: &Evidences,
    ) -> anyhow::Result<Reading> {
        let Batch { note, from, entries } = batch;
        let (note, entries) = (Arc::new(note), Arc::new(entries));
        let mut orders = Vec::new();
        loop {
            let (beside, batch) = (Arc::clone(&self.beside), (Arc::clone(&note), Arc::clone(&entries)));
            let outcome = self.with("read", move |role| {
                let read = role.record().size().saturating_sub(from);
                let rest =
                    usize::try_from(read).ok().and_then(|read| batch.1.get(read..)).unwrap_or_default();
                role.read_on(now, &batch.0, rest, &*beside)
            });
            let error = match outcome.await? {
                Ok(more) => {
                    orders.extend(more);
                    self.beside.clear();
                    evidences.read(&note);
                    return Ok(Reading::Done(orders));
                }
                Err(error) => error,
            };
            let Some(follow) = error.as_follow() else {
                return Err(error).context("this party must not go on");
            };
            metrics::follow_error(follow.code());
            match follow {
                FollowError::Unavailable(wanted) => match upstream.blob(&wanted.digest, wanted.len).await {
                    Ok(bytes) => self.beside.keep(wanted.digest, bytes),
                    Err(error) => {
                        tracing::debug!(error = crate::chain::chain(&error), "a blob is not to be had");
                        return Ok(Reading::Again);
                    }
                },
                FollowError::Older { .. } => return Ok(Reading::Again),
                FollowError::SplitView { size, .. } | FollowError::Root { size, .. } => {
                    let signed = self.with("read", {
                        let note = Arc::clone(&note);
                        move |role: &mut T| role.record().log().open(&note).is_ok()
                    });
                    if signed.await? {
                        evidences.fork(follow.code(), *size, &note)?;
                    }
                    return Ok(Reading::Again);
                }
                _ => {
                    crate::safe_warn!("a checkpoint was not taken", code = follow.code());
                    return Ok(Reading::Again);
                }
            }
        }
    }
}

/// What is kept of a log that shows two histories: the checkpoints that this party has read, and one that contradicts them.
#[derive(Debug)]
pub struct Evidences {
    directory: PathBuf,
    notes: Mutex<BTreeMap<u64, Note>>,
}

impl Evidences {
    /// Kept in `data_dir/evidence`.
    ///
    /// # Errors
    /// The system's.
    pub fn new(data_dir: &std::path::Path) -> anyhow::Result<Self> {
        let path = data_dir.join("evidence");
        directory(&path)?;
        Ok(Self { directory: path, notes: Mutex::default() })
    }

    fn read(&self, note: &Note) {
        let Ok(checkpoint) = note.text().parse::<Checkpoint>() else { return };
        let size = checkpoint.head().size;
        let mut notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        notes.insert(size, note.clone());
        while notes.len() > RECENT_HEADS {
            notes.pop_first();
        }
        // A gauge has 53 bits; so has any log.
        ::metrics::gauge!(metrics::LOG_SIZE).set(f64::from(u32::try_from(size).unwrap_or(u32::MAX)));
    }

    /// Takes down a checkpoint of the log that contradicts what was read: with the one of the same size if there is one,
    /// else with the last before it. Kept once for each size and root.
    ///
    /// # Errors
    /// If it cannot be kept.
    pub fn fork(&self, code: &'static str, size: u64, second: &Note) -> anyhow::Result<()> {
        // Leaves that do not hash to what was signed may have been spoilt on the way; a root that was signed cannot.
        if code == "follow_root" {
            crate::safe_warn!("leaves do not hash to the root that the log signed", size = size);
        } else {
            crate::safe_error!("the log contradicts what was read of it", code = code, size = size);
        }
        metrics::split_view(code);
        let first = {
            let notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
            notes.range(..=size).next_back().map(|(_, note)| note.to_string())
        };
        self.keep(code, size, first.as_deref(), &second.to_string())
    }

    /// Keeps two notes as files.
    ///
    /// # Errors
    /// The system's.
    pub fn keep(
        &self,
        code: &'static str,
        size: u64,
        first: Option<&str>,
        second: &str,
    ) -> anyhow::Result<()> {
        let digest = blake3::hash(second.as_bytes()).to_hex();
        let path = self.directory.join(format!("{code}-{size}-{}", &digest[..16]));
        directory(&path)?;
        let write = |name: &str, text: &str| {
            let path = path.join(name);
            fs::write(&path, text).and_then(|()| fs::File::open(&path)?.sync_all())
        };
        if let Some(first) = first {
            write("first.note", first).context("evidence cannot be kept")?;
        }
        write("second.note", second).context("evidence cannot be kept")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::role::recipient::Recipient;
    use panetiere::ids::ClientId;
    use panetiere::sig::SigningKey;
    use panetiere_api::client::ClientConfig;
    use panetiere_api::testing::{MemoryLog, Scene};

    fn log(scene: &Scene, clients: &[u32]) -> MemoryLog {
        let mut log = MemoryLog::default();
        log.append(&scene.epoch_leaf(scene.plan()));
        for client in clients {
            log.append(&scene.admission(ClientId(*client)));
        }
        log
    }

    #[tokio::test]
    async fn two_histories_are_kept_as_evidence_and_reading_goes_on_in_the_first() {
        let scene = Scene::new(1, 4, 40, |shape| shape.servers(4));
        let directory = tempfile::tempdir().unwrap();
        let evidences = Evidences::new(directory.path()).unwrap();
        let key = SigningKey::from_scalar(&scene.recipient.expose_scalar()).unwrap();
        let recipient = Recipient::new(Arc::new(key), scene.record());
        let seat = Seat::new(recipient, Compute::new(1, 4).unwrap());
        // Nobody is asked: no leaf names a blob.
        let upstream = Upstream::new(ClientConfig::new("127.0.0.1", 1, Vec::new())).unwrap();
        let batch = |log: &MemoryLog, from: usize| Batch {
            note: log.checkpoint(&scene.log_key()),
            from: u64::try_from(from).unwrap(),
            entries: log.entries[from..].to_vec(),
        };
        let (read, other) = (log(&scene, &[0, 1]), log(&scene, &[0, 2]));
        let outcome = seat.read(0, batch(&read, 0), &upstream, &evidences).await.unwrap();
        assert!(matches!(outcome, Reading::Done(_)));
        let fork = Batch { entries: Vec::new(), ..batch(&other, 3) };
        let outcome = seat.read(0, fork, &upstream, &evidences).await.unwrap();
        assert!(matches!(outcome, Reading::Again));
        let kept: Vec<PathBuf> = fs::read_dir(directory.path().join("evidence"))
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        let [kept] = &kept[..] else { panic!("{kept:?}") };
        let note = |name: &str| fs::read_to_string(kept.join(name)).unwrap();
        assert_eq!(note("first.note"), read.checkpoint(&scene.log_key()).to_string());
        assert_eq!(note("second.note"), other.checkpoint(&scene.log_key()).to_string());
        // A part that was read already is not given to the reader again.
        let longer = log(&scene, &[0, 1, 3]);
        let outcome = seat.read(0, batch(&longer, 1), &upstream, &evidences).await.unwrap();
        assert!(matches!(outcome, Reading::Done(_)));
        assert_eq!(seat.with("size", |role| role.record().size()).await.unwrap(), 4);
    }
}
