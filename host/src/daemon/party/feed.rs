//! The log as it comes: a task that waits for the next checkpoint and hands over what lies before it.

use super::{Backoff, Upstream};
use panetiere::fault::Fault as _;
use std::sync::Arc;
use std::time::Duration;
use tlog::note::Note;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// A checkpoint and the entries from `from` on up to it. Nothing of it is verified.
#[derive(Clone, Debug)]
pub struct Batch {
    /// The checkpoint.
    pub note: Note,
    /// Index of the first entry.
    pub from: u64,
    /// The entries.
    pub entries: Vec<Vec<u8>>,
}

/// A batch, and where to say what became of it.
#[derive(Debug)]
pub struct Fed {
    /// What came.
    pub batch: Batch,
    /// Takes the size that is read now; the next batch begins there.
    pub done: oneshot::Sender<u64>,
}

/// Batches, one after the other.
#[derive(Debug)]
pub struct Feed(mpsc::Receiver<Fed>);

impl Feed {
    /// Reads on from `size`, until `stop` fires.
    pub fn start(upstream: Arc<Upstream>, size: u64, tasks: &TaskTracker, stop: CancellationToken) -> Self {
        let (give, take) = mpsc::channel(1);
        tasks.spawn(async move { stop.run_until_cancelled(read(upstream, size, give)).await });
        Self(take)
    }

    /// The next batch; waits for ever once reading has stopped.
    pub async fn next(&mut self) -> Fed {
        match self.0.recv().await {
            Some(fed) => fed,
            None => std::future::pending().await,
        }
    }
}

async fn read(upstream: Arc<Upstream>, mut size: u64, give: mpsc::Sender<Fed>) {
    let mut backoff = Backoff::default();
    loop {
        match upstream.next(size).await {
            Ok(Some(batch)) => {
                let (done, read) = oneshot::channel();
                if give.send(Fed { batch, done }).await.is_err() {
                    return;
                }
                // Whoever reads may be gone, or may not have taken it: then it is asked for again, after a while.
                let Ok(now) = read.await else { return };
                if now == size {
                    backoff.wait().await;
                } else {
                    backoff.reset();
                }
                size = now;
            }
            Ok(None) => backoff.reset(),
            Err(error) => {
                crate::net::metrics::follow_error(error.code());
                if error.is_wrong_server() {
                    crate::safe_error!(
                        "the bulletin has another key than the deployment names: nothing is read"
                    );
                    tokio::time::sleep(Duration::from_secs(5)).await;
                }
                tracing::debug!(error = crate::chain::chain(&error), "the log was not read on");
                backoff.wait().await;
            }
        }
    }
}
