//! Which connections are open, and which of them has been idle longest.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// How long an evicted connection may take to go. It is a task that waits; it goes when it is next polled.
const EVICTION: Duration = Duration::from_millis(250);

#[derive(Debug, Default)]
struct Inner {
    /// Connections by number, with the tick since when they are idle; `None` while they are busy.
    open: HashMap<u64, (Option<u64>, CancellationToken)>,
    /// Idle connections by tick: the first is the oldest. Those that were told to go are not in it.
    idle: BTreeMap<u64, u64>,
    next: u64,
    high_water: usize,
}

/// The connections of a plane.
#[derive(Debug)]
pub(super) struct Slots {
    max: usize,
    inner: Mutex<Inner>,
    freed: Notify,
}

impl Slots {
    pub fn new(max: usize) -> Self {
        Self { max, inner: Mutex::default(), freed: Notify::new() }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Connections that are open.
    pub fn open(&self) -> usize {
        self.lock().open.len()
    }

    /// The most that were ever open at once.
    pub fn high_water(&self) -> usize {
        self.lock().high_water
    }

    /// A slot for a new connection: a free one, or that of the connection that has been idle longest, once it is gone.
    /// `None` if none is idle. The flag tells whether one had to go.
    pub async fn admit(self: &Arc<Self>) -> (Option<Slot>, bool) {
        if let Some(slot) = self.free() {
            return (Some(slot), false);
        }
        let freed = self.freed.notified();
        let Some(oldest) = self.pop_oldest() else { return (None, false) };
        oldest.cancel();
        // Somebody else's going may have woken us: look again, whatever it was.
        let _ = timeout(EVICTION, freed).await;
        (self.free(), true)
    }

    fn free(self: &Arc<Self>) -> Option<Slot> {
        let mut inner = self.lock();
        if inner.open.len() >= self.max {
            return None;
        }
        let number = inner.next;
        inner.next += 1;
        let go = CancellationToken::new();
        inner.open.insert(number, (Some(number), go.clone()));
        inner.idle.insert(number, number);
        inner.high_water = inner.high_water.max(inner.open.len());
        Some(Slot { slots: Arc::clone(self), number, go })
    }

    fn pop_oldest(&self) -> Option<CancellationToken> {
        let mut inner = self.lock();
        let (_, number) = inner.idle.pop_first()?;
        inner.open.get(&number).map(|(_, go)| go.clone())
    }

    fn set(&self, number: u64, busy: bool) {
        let mut inner = self.lock();
        let tick = inner.next;
        inner.next += 1;
        let Some((since, go)) = inner.open.get_mut(&number) else { return };
        let told = go.is_cancelled();
        let before = std::mem::replace(since, (!busy).then_some(tick));
        if let Some(before) = before {
            inner.idle.remove(&before);
        }
        if !busy && !told {
            inner.idle.insert(tick, number);
        }
    }

    fn remove(&self, number: u64) {
        let mut inner = self.lock();
        if let Some((Some(since), _)) = inner.open.remove(&number) {
            inner.idle.remove(&since);
        }
        drop(inner);
        self.freed.notify_waiters();
    }
}

/// A connection's place. Given back when dropped.
#[derive(Debug)]
pub(super) struct Slot {
    slots: Arc<Slots>,
    number: u64,
    /// Fires when the connection has to go at once.
    pub go: CancellationToken,
}

impl Slot {
    /// Marks the connection as busy for as long as the guard lives.
    pub fn busy(self: &Arc<Self>) -> Busy {
        self.slots.set(self.number, true);
        Busy(Arc::clone(self))
    }

    /// Whether nothing is under way.
    pub fn is_idle(&self) -> bool {
        self.slots.lock().open.get(&self.number).is_none_or(|(since, _)| since.is_some())
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.slots.remove(self.number);
    }
}

/// A request under way.
#[derive(Debug)]
pub(super) struct Busy(Arc<Slot>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.slots.set(self.0.number, false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_oldest_idle_goes_and_the_busy_stay() {
        let slots = Arc::new(Slots::new(2));
        let first = Arc::new(slots.admit().await.0.unwrap());
        let second = Arc::new(slots.admit().await.0.unwrap());
        let busy = first.busy();
        // The second is the only idle one; it goes as soon as it is told.
        let (go, holder) = (second.go.clone(), second);
        let going = tokio::spawn(async move {
            go.cancelled().await;
            drop(holder);
        });
        let (third, evicted) = slots.admit().await;
        let third = Arc::new(third.unwrap());
        assert!(evicted && going.is_finished() && !first.go.is_cancelled());
        let third_busy = third.busy();
        assert!(slots.admit().await.0.is_none(), "nobody is idle");
        drop(busy);
        drop(third_busy);
        // Idle again in the order in which they became so; one that does not go keeps its place.
        assert!(slots.admit().await.0.is_none());
        assert!(first.go.is_cancelled() && !third.go.is_cancelled());
        assert_eq!((slots.open(), slots.high_water()), (2, 2));
        drop((first, third));
        assert_eq!(slots.open(), 0);
        assert!(slots.lock().idle.is_empty());
    }
}
