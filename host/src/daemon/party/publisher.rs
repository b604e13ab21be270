//! What a party publishes: tried until the bulletin has it, refuses it, or the round is over.

use super::{Backoff, Upstream};
use crate::net::metrics;
use crate::role::Order;
use panetiere::bulletin::StatementContext;
use panetiere::evidence::Evidence;
use panetiere::ids::ServerId;
use panetiere::wire::{Decode as _, Encode as _, ObjectType, Reader};
use panetiere_api::leaf::{Leaf, RoundId, Unread};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// What was published is published again after so long if it is asked for: its leaf should have come by then.
const REPEAT: Duration = Duration::from_secs(3);
/// The same of what was refused for good.
const REPEAT_REFUSED: Duration = Duration::from_secs(30);
/// How long what is under way may take when the daemon goes down.
const LAST: Duration = Duration::from_millis(1500);

/// The server that a word on envelopes is from, without the round's parameters.
pub(super) fn checked_by(unread: &Unread) -> Option<ServerId> {
    let mut reader = Reader::new(&unread.bytes);
    reader.header(ObjectType::Checked).ok()?;
    StatementContext::decode(&mut reader).ok()?;
    ServerId::decode(&mut reader).ok()
}

/// One thing to publish.
struct Task {
    round: RoundId,
    cancel: CancellationToken,
    /// From when on it may be published again; none while it is under way.
    again: Option<Instant>,
}

type Tasks = BTreeMap<[u8; 32], Task>;

/// Publishes, each thing in a task of its own.
#[derive(Clone)]
pub struct Publisher {
    upstream: Arc<Upstream>,
    tasks: Arc<Mutex<Tasks>>,
    tracker: TaskTracker,
    /// Fires when nothing is tried again.
    stop: CancellationToken,
}

impl std::fmt::Debug for Publisher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Publisher({} under way)", self.tracker.len())
    }
}

/// The same order has the same name.
fn name(order: &Order) -> Option<(RoundId, [u8; 32])> {
    let mut hasher = blake3::Hasher::new();
    let round = match order {
        Order::Accuse { round, evidence, .. } => {
            hasher.update(b"accuse");
            hasher.update(&Evidence::to_bytes(evidence));
            round
        }
        Order::Fetch { .. } => return None,
        Order::Publish { round, leaf, .. } => {
            hasher.update(&Leaf::to_bytes(leaf));
            round
        }
    };
    hasher.update(&round.0.to_le_bytes());
    Some((*round, *hasher.finalize().as_bytes()))
}

const fn kind(order: &Order) -> &'static str {
    match order {
        Order::Accuse { .. } => "evidence",
        Order::Fetch { .. } => "fetch",
        Order::Publish { leaf, .. } => leaf.kind(),
    }
}

impl Publisher {
    /// A publisher that has nothing to do yet. Nothing is tried again once `stop` has fired.
    pub fn new(upstream: Arc<Upstream>, stop: CancellationToken) -> Self {
        Self { upstream, tasks: Arc::default(), tracker: TaskTracker::new(), stop }
    }

    fn lock(&self) -> MutexGuard<'_, Tasks> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Publishes what is to be published among the orders; the others are the caller's. What is under way already, or was
    /// published a moment ago, is left alone.
    pub fn submit(&self, orders: impl IntoIterator<Item = Order>) {
        for order in orders {
            let Some((round, name)) = name(&order) else { continue };
            let cancel = CancellationToken::new();
            {
                let mut tasks = self.lock();
                if tasks.get(&name).is_some_and(|task| task.again.is_none_or(|at| Instant::now() < at)) {
                    continue;
                }
                tasks.insert(name, Task { round, cancel: cancel.clone(), again: None });
            }
            let publisher = self.clone();
            self.tracker.spawn(async move {
                let repeat = cancel.run_until_cancelled(publisher.publish(&order)).await;
                if let Some(task) = publisher.lock().get_mut(&name) {
                    task.again = Some(Instant::now() + repeat.unwrap_or(Duration::ZERO));
                }
            });
        }
    }

    /// Tries until there is an answer. Returns how long it is of no use to try again.
    async fn publish(&self, order: &Order) -> Duration {
        let kind = kind(order);
        let mut backoff = Backoff::default();
        loop {
            match self.upstream.publish(order).await {
                Ok(()) => {
                    metrics::published(kind, "taken");
                    crate::safe_info!("published", kind = kind, round = round_of(order));
                    return REPEAT;
                }
                Err(error) if error.is_final() => {
                    metrics::published(kind, "refused");
                    let status = error.status().unwrap_or(0);
                    crate::safe_warn!(
                        "the bulletin does not take it",
                        kind = kind,
                        round = round_of(order),
                        status = status
                    );
                    tracing::debug!(error = crate::chain::chain(&error), kind, "refused");
                    return REPEAT_REFUSED;
                }
                Err(error) => {
                    metrics::published(kind, "failed");
                    tracing::debug!(error = crate::chain::chain(&error), kind, "not published yet");
                }
            }
            if self.stop.run_until_cancelled(backoff.wait()).await.is_none() {
                return Duration::ZERO;
            }
        }
    }

    /// Gives up what belongs to rounds that are over.
    pub fn keep(&self, mut under_way: impl FnMut(RoundId) -> bool) {
        self.lock().retain(|_, task| {
            let keep = under_way(task.round);
            if !keep {
                task.cancel.cancel();
            }
            keep
        });
    }

    /// Lets what is under way come to its end, for a moment.
    pub async fn drain(&self) {
        self.tracker.close();
        if timeout(LAST, self.tracker.wait()).await.is_err() {
            crate::safe_warn!("something was not published before the end", count = self.tracker.len());
        }
        self.lock().values().for_each(|task| task.cancel.cancel());
    }
}

const fn round_of(order: &Order) -> RoundId {
    match order {
        Order::Accuse { round, .. } | Order::Fetch { round, .. } | Order::Publish { round, .. } => *round,
    }
}
