//! The group commit behind a handle that any thread can submit to.
//!
//! Two threads: one gathers batches and makes their bodies durable, the other records, publishes and answers, one batch
//! after another. So while a batch is recorded the bodies of the next one are on their way to the disk; of one batch the
//! order is what it is in [`super::sequencer`].

use super::sequencer::{Committed, Sequencer, Submission, Synced, Waiting};
use super::shared::Shared;
use super::{Store, StoreError};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SendError, Sender, SyncSender};
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

/// A submission and whoever waits for it. Dropped without an answer, it answers `Stopped`.
struct Pending {
    submission: Submission,
    answer: Option<Answer>,
    waiting: Arc<AtomicUsize>,
}

impl Pending {
    fn answer(&mut self, outcome: Result<Committed, StoreError>) {
        if let Some(answer) = self.answer.take() {
            self.waiting.fetch_sub(1, Ordering::AcqRel);
            answer(outcome);
        }
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        self.answer(Err(StoreError::Stopped));
    }
}

/// Cosignatures of a checkpoint, and whoever waits until they are stored.
struct Cosign {
    size: u64,
    lines: Vec<Signature>,
    answer: Box<dyn FnOnce(Result<Note, StoreError>) + Send>,
}

enum Message {
    Cosign(Cosign),
    Stop,
    Submit(Pending),
}

/// What the thread that records gets.
enum Work {
    Batch(Synced<Vec<Submission>>, Vec<Pending>),
    Cosign(Cosign),
}

/// The handle. Clones are the same log.
#[derive(Clone)]
pub struct Log {
    store: Store,
    sender: Sender<Message>,
    waiting: Arc<AtomicUsize>,
    most_waiting: usize,
    thread: Arc<Mutex<Option<JoinHandle<Option<Sequencer>>>>>,
}

impl Log {
    /// Starts the threads. `clock` gives seconds since the epoch.
    ///
    /// # Errors
    /// `Disk` if there are no threads to be had.
    pub fn start(
        sequencer: Sequencer,
        pace: Pace,
        clock: impl Fn() -> u64 + Send + 'static,
    ) -> Result<Self, StoreError> {
        let store = Store(Arc::clone(&sequencer.shared));
        let (sender, receiver) = mpsc::channel();
        let shared = Arc::clone(&sequencer.shared);
        // Without a queue: the next batch is gathered until this one is taken.
        let (batches, work) = mpsc::sync_channel(0);
        let record = move || record(sequencer, &work, pace.interval, &clock);
        let spawn = |name: &str| std::thread::Builder::new().name(name.to_owned());
        let recorder =
            spawn("sequencer").spawn(record).map_err(StoreError::disk("start", "the sequencer's thread"))?;
        let gather = move || {
            gather(&shared, &receiver, pace, &batches);
            drop(batches);
            recorder.join().ok()
        };
        let thread = spawn("gather").spawn(gather).map_err(StoreError::disk("start", "a thread"))?;
        let thread = Arc::new(Mutex::new(Some(thread)));
        Ok(Self { store, sender, waiting: Arc::default(), most_waiting: pace.most_waiting, thread })
    }

    /// The store.
    pub const fn store(&self) -> &Store {
        &self.store
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
        self.store.0.check()?;
        let waiting = self.waiting.fetch_add(1, Ordering::AcqRel);
        if waiting >= self.most_waiting {
            self.waiting.fetch_sub(1, Ordering::AcqRel);
            return Err(StoreError::Busy { waiting });
        }
        let answer: Answer = Box::new(answer);
        let pending = Pending { submission, answer: Some(answer), waiting: Arc::clone(&self.waiting) };
        self.sender.send(Message::Submit(pending)).map_err(|unsent| {
            // Nobody is to hear of it twice.
            if let Message::Submit(mut pending) = unsent.0
                && pending.answer.take().is_some()
            {
                self.waiting.fetch_sub(1, Ordering::AcqRel);
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
        self.sender.send(Message::Cosign(Cosign { size, lines, answer })).map_err(|_| StoreError::Stopped)?;
        receiver.recv().map_err(|_| StoreError::Stopped)?
    }

    /// Makes everything durable that was submitted, ends the threads and gives the sequencer back. Later submissions are
    /// answered `Stopped`. None: somebody else called this.
    pub fn shutdown(&self) -> Option<Sequencer> {
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        // A thread that is gone has nothing left to drain.
        let _ = self.sender.send(Message::Stop);
        thread.join().ok()?
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

/// How long nothing has to be recorded before full tiles are synced: a pause between two batches is none.
const IDLE: Duration = Duration::from_millis(100);

/// Full tiles that are synced at a time while nothing else is to be done.
const TILES_AT_ONCE: usize = 16;

/// Gathers submissions to batches, syncs their bodies and hands them over.
fn gather(shared: &Shared, receiver: &Receiver<Message>, pace: Pace, work: &SyncSender<Work>) {
    let mut pending: Vec<Pending> = Vec::new();
    let mut due: Option<Instant> = None;
    loop {
        let message = match due {
            Some(due) => receiver.recv_timeout(due.saturating_duration_since(Instant::now())),
            None => receiver.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        let mut stop = false;
        let mut cosign = Vec::new();
        match message {
            Ok(Message::Submit(submitted)) => {
                pending.push(submitted);
                due.get_or_insert_with(|| Instant::now() + pace.interval);
                if pending.len() < pace.pending {
                    continue;
                }
                // Whatever is there already goes with it.
                for message in receiver.try_iter() {
                    match message {
                        Message::Submit(submitted) => pending.push(submitted),
                        Message::Cosign(lines) => cosign.push(lines),
                        Message::Stop => {
                            stop = true;
                            break;
                        }
                    }
                }
            }
            Ok(Message::Cosign(lines)) => {
                // Whoever records is gone only after a panic; who waits is told when this is dropped.
                drop(work.send(Work::Cosign(lines)));
                continue;
            }
            Err(RecvTimeoutError::Timeout) => {}
            Ok(Message::Stop) | Err(RecvTimeoutError::Disconnected) => stop = true,
        }
        for lines in cosign {
            drop(work.send(Work::Cosign(lines)));
        }
        if !pending.is_empty() {
            hand_over(shared, std::mem::take(&mut pending), work);
        }
        due = None;
        if stop {
            return;
        }
    }
}

fn hand_over(shared: &Shared, mut pending: Vec<Pending>, work: &SyncSender<Work>) {
    let submissions: Vec<_> =
        pending.iter_mut().map(|pending| std::mem::take(&mut pending.submission)).collect();
    match shared.sync(submissions) {
        Ok(batch) => {
            if let Err(SendError(unsent)) = work.send(Work::Batch(batch, pending)) {
                // Answered with `Stopped`.
                drop(unsent);
            }
        }
        Err(_) => fail(shared, pending),
    }
}

/// Tells everybody who waits why the store takes nothing any more.
fn fail(shared: &Shared, pending: Vec<Pending>) {
    for mut pending in pending {
        pending.answer(Err(shared.check().err().unwrap_or(StoreError::Stopped)));
    }
}

/// Records and answers batches until there are no more.
fn record(
    mut sequencer: Sequencer,
    work: &Receiver<Work>,
    interval: Duration,
    clock: &dyn Fn() -> u64,
) -> Sequencer {
    let mut tiles = Waiting::Tiles;
    let idle = interval.max(IDLE);
    loop {
        let next = match tiles {
            Waiting::Tiles => work.recv_timeout(idle),
            Waiting::Nothing => work.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        match next {
            Ok(Work::Batch(batch, pending)) => {
                match sequencer.tick_synced(clock(), &batch) {
                    Ok(outcomes) => {
                        for (mut pending, outcome) in pending.into_iter().zip(outcomes) {
                            pending.answer(outcome);
                        }
                    }
                    Err(_) => fail(&sequencer.shared, pending),
                }
                tiles = Waiting::Tiles;
            }
            Ok(Work::Cosign(Cosign { size, lines, answer })) => {
                answer(sequencer.add_cosignatures(size, &lines));
            }
            // A failure is in the store; the next submission is told.
            Err(RecvTimeoutError::Timeout) => {
                tiles = sequencer.sync_tiles(TILES_AT_ONCE).unwrap_or(Waiting::Nothing);
            }
            Err(RecvTimeoutError::Disconnected) => return sequencer,
        }
    }
}
