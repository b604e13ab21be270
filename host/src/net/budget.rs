//! Bytes of bodies that are in memory at once, over all connections of a daemon.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

/// A number of bytes that may be held at once. Clones share it.
#[derive(Clone, Debug)]
pub struct ByteBudget {
    semaphore: Arc<Semaphore>,
    total: usize,
    high_water: Arc<AtomicUsize>,
}

impl ByteBudget {
    /// A budget of `total` bytes, at most 4 GiB.
    pub fn new(total: usize) -> Self {
        let total = total.min(usize::try_from(u32::MAX).unwrap_or(usize::MAX)).min(Semaphore::MAX_PERMITS);
        Self { semaphore: Arc::new(Semaphore::new(total)), total, high_water: Arc::default() }
    }

    /// The whole budget.
    pub const fn total(&self) -> usize {
        self.total
    }

    /// Bytes that are held now.
    pub fn held(&self) -> usize {
        self.total - self.semaphore.available_permits()
    }

    /// The most bytes that were ever held.
    pub fn high_water(&self) -> usize {
        self.high_water.load(Ordering::Relaxed)
    }

    /// Takes `bytes`, waiting for them up to `wait`; `None` if they were not to be had, or the whole budget is less.
    pub async fn take(&self, bytes: usize, wait: Duration) -> Option<Held> {
        if bytes > self.total {
            return None;
        }
        let count = u32::try_from(bytes).expect("a budget is at most 4 GiB");
        let permit = timeout(wait, Arc::clone(&self.semaphore).acquire_many_owned(count)).await.ok()?;
        self.high_water.fetch_max(self.held(), Ordering::Relaxed);
        permit.ok().map(Held)
    }
}

/// Bytes of a budget. Given back when dropped.
#[derive(Debug)]
pub struct Held(OwnedSemaphorePermit);

impl Held {
    /// Gives back all but `bytes`.
    pub fn shrink(&mut self, bytes: usize) {
        let excess = self.0.num_permits().saturating_sub(bytes);
        drop(self.0.split(excess));
    }
}
