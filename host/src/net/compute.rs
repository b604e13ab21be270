//! Arithmetic beside the event loop: a pool of its own, with a bounded number of jobs.

use super::metrics;
use panetiere::fault::{Attribution, Fault, Retry};
use panetiere_api::problem::{Code, Problem};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use tokio::sync::{Semaphore, oneshot};
use tokio::time::Instant;

/// A job that was not done.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ComputeError {
    /// The job panicked.
    #[error("a job panicked")]
    Panicked,
    /// The pool has no threads.
    #[error("the pool of threads could not be started")]
    Pool(#[source] rayon::ThreadPoolBuildError),
    /// As many jobs as are taken on are running and waiting.
    #[error("as many jobs as are taken on are running and waiting")]
    Shed,
}

impl Fault for ComputeError {
    fn code(&self) -> &'static str {
        match self {
            Self::Panicked => "compute_panicked",
            Self::Pool(_) => "compute_pool",
            Self::Shed => Code::Shed.as_str(),
        }
    }

    fn attribution(&self) -> Attribution {
        match self {
            Self::Panicked => Attribution::Bug,
            Self::Pool(_) | Self::Shed => Attribution::Operator,
        }
    }

    fn retry(&self) -> Retry {
        match self {
            Self::Shed => Retry::SameRequest,
            _ => Retry::Never,
        }
    }
}

impl From<ComputeError> for Problem {
    fn from(error: ComputeError) -> Self {
        match error {
            ComputeError::Shed => Self::from(Code::Shed).with_retry_after(1),
            ComputeError::Panicked | ComputeError::Pool(_) => Code::Internal.into(),
        }
    }
}

/// The pool. Clones share it.
#[derive(Clone, Debug)]
pub struct Compute {
    pool: Arc<rayon::ThreadPool>,
    admission: Arc<Semaphore>,
}

impl Compute {
    /// A pool of `threads`, with up to `queue` jobs that wait for one.
    ///
    /// # Errors
    /// `Pool` if the threads cannot be started.
    pub fn new(threads: usize, queue: usize) -> Result<Self, ComputeError> {
        let threads = threads.max(1);
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .thread_name(|index| format!("compute-{index}"))
            .build()
            .map_err(ComputeError::Pool)?;
        let admission = Arc::new(Semaphore::new(threads.saturating_add(queue).min(Semaphore::MAX_PERMITS)));
        Ok(Self { pool: Arc::new(pool), admission })
    }

    /// Does `job` in the pool and returns what it returns. `class` names the kind of job in metrics.
    ///
    /// The admission goes with the job: whoever asked may be gone, and the job still counts until it is done.
    ///
    /// # Errors
    /// `Shed` when there are too many jobs, `Panicked` if this one did.
    pub async fn run<T, F>(&self, class: &'static str, job: F) -> Result<T, ComputeError>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        let admission = Arc::clone(&self.admission).try_acquire_owned().map_err(|_| {
            metrics::shed("compute");
            ComputeError::Shed
        })?;
        let (done, outcome) = oneshot::channel();
        let queued = Instant::now();
        self.pool.spawn(move || {
            metrics::compute_queued(class, queued.elapsed());
            let started = Instant::now();
            let result = catch_unwind(AssertUnwindSafe(job));
            metrics::compute_ran(class, started.elapsed());
            drop(admission);
            // Whoever asked may be gone.
            let _ = done.send(result);
        });
        match outcome.await {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(_)) | Err(_) => Err(ComputeError::Panicked),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[tokio::test]
    async fn jobs_run_beside_the_loop_and_beyond_the_queue_are_shed() {
        let compute = Compute::new(1, 1).unwrap();
        assert_eq!(compute.run("test", rayon::current_num_threads).await.unwrap(), 1);
        let (release, blocked) = mpsc::channel::<()>();
        let spawn = |job: Box<dyn FnOnce() + Send>| {
            let compute = compute.clone();
            tokio::spawn(async move { compute.run("test", job).await })
        };
        let running = spawn(Box::new(move || blocked.recv().unwrap()));
        let queued = spawn(Box::new(|| ()));
        tokio::task::yield_now().await;
        assert!(matches!(compute.run("test", || ()).await, Err(ComputeError::Shed)));
        // The asker is gone; the job holds its place until it is done.
        running.abort();
        assert!(running.await.unwrap_err().is_cancelled());
        assert!(matches!(compute.run("test", || ()).await, Err(ComputeError::Shed)));
        release.send(()).unwrap();
        queued.await.unwrap().unwrap();
        assert!(compute.run("test", || ()).await.is_ok());
    }

    #[tokio::test]
    async fn a_job_that_panics_is_an_error_and_the_pool_goes_on() {
        let compute = Compute::new(1, 0).unwrap();
        let error = compute.run("test", || panic!("for the test")).await.map(|(): ()| ());
        assert!(matches!(error, Err(ComputeError::Panicked)));
        assert_eq!(compute.run("test", || 7).await.unwrap(), 7);
    }
}
