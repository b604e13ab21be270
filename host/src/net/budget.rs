//! Bytes of bodies that are in memory at once, over all connections of a daemon.

use super::metrics::INFLIGHT_BYTES;
use metrics::Gauge;
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
    gauge: Gauge,
}

impl ByteBudget {
    /// A budget of `total` bytes, at most 4 GiB.
    pub fn new(total: usize) -> Self {
        let total = total.min(usize::try_from(u32::MAX).unwrap_or(usize::MAX)).min(Semaphore::MAX_PERMITS);
        let gauge = ::metrics::gauge!(INFLIGHT_BYTES);
        Self { semaphore: Arc::new(Semaphore::new(total)), total, high_water: Arc::default(), gauge }
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
        self.gauge.increment(f64::from(count));
        permit.ok().map(|permit| Held { permit, gauge: self.gauge.clone() })
    }
}

/// Bytes of a budget. Given back when dropped.
#[derive(Debug)]
pub struct Held {
    permit: OwnedSemaphorePermit,
    gauge: Gauge,
}

impl Held {
    /// Gives back all but `bytes`.
    pub fn shrink(&mut self, bytes: usize) {
        let excess = self.permit.num_permits().saturating_sub(bytes);
        drop(self.permit.split(excess));
        self.gauge.decrement(count(excess));
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.gauge.decrement(count(self.permit.num_permits()));
    }
}

fn count(bytes: usize) -> f64 {
    f64::from(u32::try_from(bytes).expect("a budget is at most 4 GiB"))
}
