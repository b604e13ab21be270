//! The group commit behind a handle that any thread can submit to.
//!
//! Three threads, one behind the other: the first gathers batches and makes their bodies durable, the second records
//! them, the third publishes and answers. So while a batch is recorded the bodies of the next one are on their way to the
//! disk, and the files of the one before are written. Of one batch the order is what it is in [`super::sequencer`], and
//! batches do not overtake each other.

use super::sequencer::{self, Committed, Publishing, Recorded, Sequencer, Submission, Synced};
use super::shared::Shared;
use super::{Store, StoreError};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SendError, SyncSender};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
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

/// Cosignatures of a checkpoint, and whoever waits until they are stored.
struct Cosign {
    size: u64,
    lines: Vec<Signature>,
    answer: Box<dyn FnOnce(Result<Note, StoreError>) + Send>,
}

/// What the thread that publishes gets.
enum Publish {
    Batch(Recorded, Vec<Pending>),
    /// A checkpoint that has got cosignatures, and whether it is the last one.
    Cosigned {
        note: Note,
        last: bool,
        answer: Box<dyn FnOnce(Result<Note, StoreError>) + Send>,
    },
}

/// What waits to be gathered.
#[derive(Default)]
struct Waiting {
    pending: Vec<Pending>,
    cosign: Vec<Cosign>,
    stop: bool,
}

/// A queue that wakes the thread behind it once for a batch and not once for a submission.
struct Queue {
    waiting: Mutex<Waiting>,
    changed: Condvar,
    pace: Pace,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        // Nothing in here panics between two changes that belong together.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the queue unless it was stopped; `Err` then. The thread is woken if there is something for it to do.
    fn add(&self, change: impl FnOnce(&mut Waiting)) -> Result<(), StoreError> {
        let mut waiting = self.lock();
        if waiting.stop {
            return Err(StoreError::Stopped);
        }
        change(&mut waiting);
        let due = waiting.pending.len();
        if due == 1 || due == self.pace.pending || !waiting.cosign.is_empty() || waiting.stop {
            self.changed.notify_one();
        }
        Ok(())
    }

    /// Everything, once a tick is due.
    fn take(&self) -> Waiting {
        let mut waiting = self.lock();
        let empty =
            |waiting: &mut Waiting| waiting.pending.is_empty() && waiting.cosign.is_empty() && !waiting.stop;
        waiting = self.changed.wait_while(waiting, empty).unwrap_or_else(PoisonError::into_inner);
        let few = |waiting: &mut Waiting| {
            waiting.pending.len() < self.pace.pending && waiting.cosign.is_empty() && !waiting.stop
        };
        let (mut waiting, _) = self
            .changed
            .wait_timeout_while(waiting, self.pace.interval, few)
            .unwrap_or_else(PoisonError::into_inner);
        let stop = waiting.stop;
        Waiting { stop, ..std::mem::replace(&mut *waiting, Waiting { stop, ..Waiting::default() }) }
    }
}

/// Stops a queue when the thread behind it is gone, whatever ended that, and answers whoever is left in it.
struct Closing<'q>(&'q Queue);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        let left = std::mem::replace(&mut *self.0.lock(), Waiting { stop: true, ..Waiting::default() });
        // Who is answered may ask for the queue again, so not under its lock.
        drop(left);
    }
}

/// What the handles share. With the last one the queue is stopped.
struct Handle {
    queue: Arc<Queue>,
    thread: Mutex<Option<JoinHandle<Option<Sequencer>>>>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        // Stopped already, if so.
        let _ = self.queue.add(|waiting| waiting.stop = true);
    }
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
    waiting: Arc<AtomicUsize>,
    handle: Arc<Handle>,
}

impl std::fmt::Debug for Log {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Log({} waiting)", self.waiting.load(Ordering::Relaxed))
    }
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
        let queue = Arc::new(Queue { waiting: Mutex::default(), changed: Condvar::new(), pace });
        let shared = Arc::clone(&sequencer.shared);
        // Without a queue: the next batch is gathered until this one is taken.
        let (batches, work) = mpsc::sync_channel(0);
        let (recorded, publish) = mpsc::sync_channel(1);
        let publishing = Publishing::of(&sequencer);
        let answering = Arc::clone(&shared);
        let spawn = |name: &str| std::thread::Builder::new().name(name.to_owned());
        let publisher = spawn("publisher")
            .spawn(move || publish_all(&answering, &publishing, &publish))
            .map_err(StoreError::disk("start", "the publisher's thread"))?;
        let record = move || {
            let sequencer = record(sequencer, &work, &recorded, pace.interval, &clock);
            drop(recorded);
            // A thread that panicked has dropped, and so answered, all that it had.
            let _ = publisher.join();
            sequencer
        };
        let recorder =
            spawn("sequencer").spawn(record).map_err(StoreError::disk("start", "the sequencer's thread"))?;
        let gathered = Arc::clone(&queue);
        let gather = move || {
            gather(&shared, &gathered, &batches);
            drop(batches);
            recorder.join().ok()
        };
        let thread = spawn("gather").spawn(gather).map_err(StoreError::disk("start", "a thread"))?;
        let handle = Arc::new(Handle { queue, thread: Mutex::new(Some(thread)) });
        Ok(Self { store, waiting: Arc::default(), handle })
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
        if waiting >= self.handle.queue.pace.most_waiting {
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
    /// `Stopped`: the log's threads have ended. `answer` is not called then.
    pub fn submit_at(
        &self,
        place: Place,
        submission: Submission,
        answer: impl FnOnce(Result<Committed, StoreError>) + Send + 'static,
    ) -> Result<(), StoreError> {
        let mut pending = Some(Pending { submission, answer: Some(Box::new(answer)), _place: place });
        let added = self.handle.queue.add(|queue| queue.pending.extend(pending.take()));
        if let Some(unsent) = &mut pending {
            // Nobody is to hear of it twice.
            unsent.answer = None;
        }
        added
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
        self.handle.queue.add(|queue| queue.cosign.push(Cosign { size, lines, answer }))?;
        receiver.recv().map_err(|_| StoreError::Stopped)?
    }

    /// Makes everything durable that was submitted, ends the threads and gives the sequencer back. Later submissions are
    /// answered `Stopped`. None: somebody else called this.
    pub fn shutdown(&self) -> Option<Sequencer> {
        let thread = self.handle.thread.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        // Somebody else may have stopped it, or a thread that panicked: it is joined all the same.
        let _ = self.handle.queue.add(|queue| queue.stop = true);
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

/// Gathers submissions to batches, syncs their bodies and hands them over, until the queue is stopped.
fn gather(shared: &Shared, queue: &Queue, work: &SyncSender<Work>) {
    let _closing = Closing(queue);
    loop {
        let Waiting { pending, cosign, stop } = queue.take();
        for lines in cosign {
            // Whoever records is gone only after a panic; who waits is told when this is dropped.
            drop(work.send(Work::Cosign(lines)));
        }
        if !pending.is_empty() {
            hand_over(shared, pending, work);
        }
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

/// Publishes and answers until nothing more is recorded.
fn publish_all(shared: &Shared, publishing: &Publishing, work: &Receiver<Publish>) {
    for work in work {
        match work {
            Publish::Batch(recorded, pending) => match publishing.publish(recorded) {
                Ok(outcomes) => {
                    for (mut pending, outcome) in pending.into_iter().zip(outcomes) {
                        pending.answer(outcome);
                    }
                }
                Err(_) => fail(shared, pending),
            },
            Publish::Cosigned { note, last, answer } => {
                let published = if last { publishing.publish_again(&note) } else { Ok(()) };
                answer(published.map(|()| note));
            }
        }
    }
}

/// Records batches until there are no more.
fn record(
    mut sequencer: Sequencer,
    work: &Receiver<Work>,
    publish: &SyncSender<Publish>,
    interval: Duration,
    clock: &dyn Fn() -> u64,
) -> Sequencer {
    let mut tiles = sequencer::Waiting::Tiles;
    let idle = interval.max(IDLE);
    loop {
        let next = match tiles {
            sequencer::Waiting::Tiles => work.recv_timeout(idle),
            sequencer::Waiting::Nothing => work.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        match next {
            Ok(Work::Batch(batch, pending)) => {
                match sequencer.record_batch(clock(), &batch) {
                    // Whoever publishes is gone only after a panic; who waits is told when this is dropped.
                    Ok(recorded) => drop(publish.send(Publish::Batch(recorded, pending))),
                    Err(_) => fail(&sequencer.shared, pending),
                }
                tiles = sequencer::Waiting::Tiles;
            }
            Ok(Work::Cosign(Cosign { size, lines, answer })) => {
                match sequencer.record_cosignatures(size, &lines) {
                    Ok((note, last)) => drop(publish.send(Publish::Cosigned { note, last, answer })),
                    Err(error) => answer(Err(error)),
                }
            }
            // A failure is in the store; the next submission is told.
            Err(RecvTimeoutError::Timeout) => {
                tiles = sequencer.sync_tiles(TILES_AT_ONCE).unwrap_or(sequencer::Waiting::Nothing);
            }
            Err(RecvTimeoutError::Disconnected) => return sequencer,
        }
    }
}
