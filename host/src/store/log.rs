//! A thread that ticks: the group commit behind a handle that any thread can submit to.

use super::sequencer::{Committed, Sequencer, Submission, Waiting};
use super::{Store, StoreError};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tlog::note::{Note, Signature};

/// When a tick is due, and how much may wait for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// The first submission waits no longer than this before a tick begins.
    pub interval: Duration,
    /// So many submissions do not wait at all.
    pub pending: usize,
    /// Above so many that wait or are being written, new ones are refused with `Busy`.
    pub most_waiting: usize,
}

impl Default for Pace {
    /// 100 ms, 64 pending, 4,096 waiting.
    fn default() -> Self {
        Self { interval: Duration::from_millis(100), pending: 64, most_waiting: 4096 }
    }
}

type Answer = Box<dyn FnOnce(Result<Committed, StoreError>) + Send>;

/// See [`Log::reserve`].
#[derive(Debug)]
pub struct Place(Arc<AtomicUsize>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// A submission and whoever waits for it. Dropped without an answer, it answers `Stopped`.
struct Pending {
    submission: Submission,
    answer: Option<Answer>,
    _place: Place,
}

impl Pending {
    fn answer(&mut self, outcome: Result<Committed, StoreError>) {
        if let Some(answer) = self.answer.take() {
            answer(outcome);
        }
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        self.answer(Err(StoreError::Stopped));
    }
}

enum Message {
    Cosign { size: u64, lines: Vec<Signature>, answer: Box<dyn FnOnce(Result<Note, StoreError>) + Send> },
    Stop,
    Submit(Pending),
}

/// The handle. Clones are the same log.
#[derive(Clone)]
pub struct Log {
    store: Store,
    sender: Sender<Message>,
    waiting: Arc<AtomicUsize>,
    most_waiting: usize,
    thread: Arc<Mutex<Option<JoinHandle<Sequencer>>>>,
}

impl std::fmt::Debug for Log {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Log({} waiting)", self.waiting.load(Ordering::Relaxed))
    }
}

impl Log {
    /// Starts the thread. `clock` gives seconds since the epoch.
    ///
    /// # Errors
    /// `Disk` if there is no thread to be had.
    pub fn start(
        sequencer: Sequencer,
        pace: Pace,
        clock: impl Fn() -> u64 + Send + 'static,
    ) -> Result<Self, StoreError> {
        let store = Store(Arc::clone(&sequencer.shared));
        let (sender, receiver) = mpsc::channel();
        let run = move || run(sequencer, &receiver, pace, &clock);
        let thread = std::thread::Builder::new()
            .name("sequencer".to_owned())
            .spawn(run)
            .map_err(StoreError::disk("start", "the sequencer's thread"))?;
        let thread = Arc::new(Mutex::new(Some(thread)));
        Ok(Self { store, sender, waiting: Arc::default(), most_waiting: pace.most_waiting, thread })
    }

    /// The store.
    pub const fn store(&self) -> &Store {
        &self.store
    }

    /// A place among what may wait: whoever has one is not told `Busy` any more. Given back when it is dropped.
    ///
    /// # Errors
    /// `Busy`; `Poisoned`.
    pub fn reserve(&self) -> Result<Place, StoreError> {
        self.store.0.check()?;
        let waiting = self.waiting.fetch_add(1, Ordering::AcqRel);
        let place = Place(Arc::clone(&self.waiting));
        if waiting >= self.most_waiting {
            return Err(StoreError::Busy { waiting });
        }
        Ok(place)
    }

    /// Submits, and has `answer` called once it is known what became of it: in the sequencer's thread, so briefly.
    /// An answer of `Ok` means durable, signed and published.
    ///
    /// # Errors
    /// `Busy`; `Poisoned`; `Stopped`. `answer` is not called then.
    pub fn submit(
        &self,
        submission: Submission,
        answer: impl FnOnce(Result<Committed, StoreError>) + Send + 'static,
    ) -> Result<(), StoreError> {
        self.submit_at(self.reserve()?, submission, answer)
    }

    /// Submits at a place that was reserved; else as [`submit`](Self::submit).
    ///
    /// # Errors
    /// `Stopped`: the log's thread has ended. `answer` is not called then.
    pub fn submit_at(
        &self,
        place: Place,
        submission: Submission,
        answer: impl FnOnce(Result<Committed, StoreError>) + Send + 'static,
    ) -> Result<(), StoreError> {
        let pending = Pending { submission, answer: Some(Box::new(answer)), _place: place };
        self.sender.send(Message::Submit(pending)).map_err(|unsent| {
            // Nobody is to hear of it twice.
            if let Message::Submit(mut pending) = unsent.0 {
                pending.answer = None;
            }
            StoreError::Stopped
        })
    }

    /// Submits, and gives a ticket to wait with.
    ///
    /// # Errors
    /// As [`Log::submit`].
    pub fn append(&self, submission: Submission) -> Result<Ticket, StoreError> {
        let (sender, receiver) = mpsc::channel();
        // Whoever does not wait has dropped the receiver.
        self.submit(submission, move |outcome| drop(sender.send(outcome)))?;
        Ok(Ticket(receiver))
    }

    /// Adds cosignatures to the checkpoint of a size, and waits until that is durable.
    ///
    /// # Errors
    /// As [`Sequencer::add_cosignatures`]; `Stopped`.
    pub fn add_cosignatures(&self, size: u64, lines: Vec<Signature>) -> Result<Note, StoreError> {
        let (sender, receiver) = mpsc::channel();
        let answer = Box::new(move |outcome| drop(sender.send(outcome)));
        self.sender.send(Message::Cosign { size, lines, answer }).map_err(|_| StoreError::Stopped)?;
        receiver.recv().map_err(|_| StoreError::Stopped)?
    }

    /// Makes everything durable that was submitted, ends the thread and gives the sequencer back. Later submissions are
    /// answered `Stopped`. None: somebody else called this.
    pub fn shutdown(&self) -> Option<Sequencer> {
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        // A thread that is gone has nothing left to drain.
        let _ = self.sender.send(Message::Stop);
        thread.join().ok()
    }
}

/// A wait for one submission.
#[derive(Debug)]
pub struct Ticket(Receiver<Result<Committed, StoreError>>);

impl Ticket {
    /// Waits until it is known what became of the submission.
    ///
    /// # Errors
    /// Whatever refused it; `Poisoned`; `Stopped`.
    pub fn wait(self) -> Result<Committed, StoreError> {
        self.0.recv().unwrap_or(Err(StoreError::Stopped))
    }
}

/// Full tiles that are synced at a time while nothing else is to be done.
const TILES_AT_ONCE: usize = 16;

fn run(
    mut sequencer: Sequencer,
    receiver: &Receiver<Message>,
    pace: Pace,
    clock: &dyn Fn() -> u64,
) -> Sequencer {
    let mut pending: Vec<Pending> = Vec::new();
    let mut due: Option<Instant> = None;
    let mut tiles = Waiting::Tiles;
    loop {
        let message = match due {
            Some(due) => receiver.recv_timeout(due.saturating_duration_since(Instant::now())),
            None if tiles == Waiting::Tiles => receiver.recv_timeout(pace.interval),
            None => receiver.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        let stop = match message {
            Ok(Message::Submit(submitted)) => {
                pending.push(submitted);
                due.get_or_insert_with(|| Instant::now() + pace.interval);
                // Whatever is there already goes with it.
                if pending.len() < pace.pending {
                    continue;
                }
                let mut stop = false;
                for message in receiver.try_iter() {
                    match message {
                        Message::Submit(submitted) => pending.push(submitted),
                        Message::Cosign { size, lines, answer } => {
                            answer(sequencer.add_cosignatures(size, &lines));
                        }
                        Message::Stop => {
                            stop = true;
                            break;
                        }
                    }
                }
                stop
            }
            Ok(Message::Cosign { size, lines, answer }) => {
                answer(sequencer.add_cosignatures(size, &lines));
                continue;
            }
            Err(RecvTimeoutError::Timeout) if pending.is_empty() => {
                // A failure is in the store; the next submission is told.
                tiles = sequencer.sync_tiles(TILES_AT_ONCE).unwrap_or(Waiting::Nothing);
                continue;
            }
            Err(RecvTimeoutError::Timeout) => false,
            Ok(Message::Stop) | Err(RecvTimeoutError::Disconnected) => true,
        };
        if !pending.is_empty() {
            tick(&mut sequencer, &mut pending, clock());
            tiles = Waiting::Tiles;
        }
        due = None;
        if stop {
            return sequencer;
        }
    }
}

fn tick(sequencer: &mut Sequencer, pending: &mut Vec<Pending>, now: u64) {
    let submissions: Vec<_> =
        pending.iter_mut().map(|pending| std::mem::take(&mut pending.submission)).collect();
    match sequencer.tick(now, &submissions) {
        Ok(outcomes) => {
            for (mut pending, outcome) in pending.drain(..).zip(outcomes) {
                pending.answer(outcome);
            }
        }
        Err(_) => {
            for mut pending in pending.drain(..) {
                let cause = sequencer.shared.check().err().unwrap_or(StoreError::Stopped);
                pending.answer(Err(cause));
            }
        }
    }
}
