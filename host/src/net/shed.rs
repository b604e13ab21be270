//! A bounded number of things at once, a bounded number that wait, and the rest turned away.

use panetiere_api::problem::{Code, Problem};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

/// Turned away: as much is going on, and waiting, as is taken on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("as much is going on as is taken on; try again in {retry_after_s} s")]
pub struct Shed {
    /// Seconds after which to try again.
    pub retry_after_s: u64,
}

impl From<Shed> for Problem {
    fn from(shed: Shed) -> Self {
        Self::from(Code::Shed).with_retry_after(shed.retry_after_s)
    }
}

/// A place at the gate; given back when dropped.
#[derive(Debug)]
pub struct Place {
    _permit: OwnedSemaphorePermit,
}

/// Lets a number through at once.
#[derive(Debug)]
pub struct Gate {
    places: Arc<Semaphore>,
    waiting: AtomicUsize,
    queue: usize,
    wait: Duration,
    retry_after_s: u64,
}

impl Gate {
    /// A gate of `places`, before which `queue` wait up to `wait`.
    pub fn new(places: usize, queue: usize, wait: Duration, retry_after_s: u64) -> Self {
        let places = Arc::new(Semaphore::new(places.min(Semaphore::MAX_PERMITS)));
        Self { places, waiting: AtomicUsize::new(0), queue, wait, retry_after_s }
    }

    /// Places that are free.
    pub fn free(&self) -> usize {
        self.places.available_permits()
    }

    /// A place, at once or after waiting.
    ///
    /// # Errors
    /// [`Shed`] if the queue is full or the wait was too long.
    pub async fn enter(&self) -> Result<Place, Shed> {
        let shed = Shed { retry_after_s: self.retry_after_s };
        if let Ok(permit) = Arc::clone(&self.places).try_acquire_owned() {
            return Ok(Place { _permit: permit });
        }
        if self.waiting.fetch_add(1, Ordering::Relaxed) >= self.queue {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            return Err(shed);
        }
        // Counted out also when whoever waits is dropped.
        let _counted = Counted(&self.waiting);
        let permit = timeout(self.wait, Arc::clone(&self.places).acquire_owned()).await;
        permit.ok().and_then(Result::ok).map(|permit| Place { _permit: permit }).ok_or(shed)
    }
}

struct Counted<'a>(&'a AtomicUsize);

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn beyond_places_and_queue_is_shed_at_once_and_the_queue_after_its_wait() {
        let gate = Arc::new(Gate::new(1, 1, Duration::from_millis(50), 7));
        let place = gate.enter().await.unwrap();
        let queued = tokio::spawn({
            let gate = Arc::clone(&gate);
            async move { gate.enter().await.map(drop) }
        });
        tokio::task::yield_now().await;
        assert_eq!(gate.enter().await.map(drop), Err(Shed { retry_after_s: 7 }));
        assert_eq!(queued.await.unwrap(), Err(Shed { retry_after_s: 7 }));
        drop(place);
        assert!(gate.enter().await.is_ok());
        assert_eq!(gate.waiting.load(Ordering::Relaxed), 0);
    }
}
