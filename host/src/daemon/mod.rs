//! The daemons: what connects a role to sockets, disks, clocks and signals.

pub mod bulletin;
mod notify;
pub mod party;
pub mod recipient;
pub mod server;

use crate::net::admin::{Admin, AdminState, Build, DEAD_AFTER, Heartbeat, Readiness};
use crate::net::metrics::Registry;
use crate::net::telemetry;
use anyhow::Context as _;
use chipmunk::ring::backend::{Kernels, Simd};
use std::io::IsTerminal as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// After a drain that does not end, the process does.
const LAST_CALL: Duration = Duration::from_secs(20);

/// What a daemon is given by the process around it.
#[derive(Clone)]
pub struct Process {
    /// Fires when the daemon is to go down.
    pub stop: CancellationToken,
    /// Counts the SIGHUPs: files that may change are to be read again.
    pub reload: watch::Receiver<u64>,
    /// What `/readyz` asks.
    pub readiness: Arc<Readiness>,
    /// The arithmetic.
    pub kernels: &'static Kernels,
}

impl Process {
    /// Tells the service manager, and whoever reads the log, that the daemon does its work now.
    pub fn ready(&self) {
        crate::safe_info!("ready");
        notify::send("READY=1");
    }
}

/// Seconds since 1970 by the system's clock.
pub fn unix_time() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Runs a daemon until SIGTERM or SIGINT; a second one ends the process at once, with exit code 1.
///
/// # Errors
/// Whatever keeps the daemon from starting, or ends it.
pub fn run<S, F>(admin: SocketAddr, simd: Simd, start: S) -> anyhow::Result<()>
where
    S: FnOnce(Process) -> F,
    F: Future<Output = anyhow::Result<()>>,
{
    let level = telemetry::level(std::env::var("PANETIERE_LOG").ok().as_deref())?;
    let format =
        if std::io::stderr().is_terminal() { telemetry::Format::Text } else { telemetry::Format::Json };
    telemetry::init(format, level).context("log lines cannot be written")?;
    let registry = Arc::new(Registry::default());
    registry.install().context("the metrics' registry")?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .worker_threads(2)
        .build()
        .context("the event loop cannot be started")?;
    let readiness = Arc::new(Readiness::default());
    let state = AdminState {
        heartbeat: Heartbeat::start(runtime.handle(), DEAD_AFTER),
        readiness: Arc::clone(&readiness),
        registry,
        build: Build {
            version: env!("CARGO_PKG_VERSION"),
            git: option_env!("PANETIERE_GIT").unwrap_or("unknown"),
            rustc: option_env!("PANETIERE_RUSTC").unwrap_or("unknown"),
            simd: simd.name(),
            params_digest: None,
        },
    };
    let admin = Admin::start(admin, state).with_context(|| format!("the admin plane on {admin}"))?;
    tracing::debug!(address = %admin.address(), "admin plane listens");
    let (stop, (hangups, reload)) = (CancellationToken::new(), watch::channel(0));
    let process =
        Process { stop: stop.clone(), reload, readiness: Arc::clone(&readiness), kernels: simd.kernels() };
    let outcome = runtime.block_on(async {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut hangup = signal(SignalKind::hangup())?;
        let mut daemon = std::pin::pin!(start(process));
        let mut watchdog = notify::watchdog();
        loop {
            tokio::select! {
                outcome = &mut daemon => return outcome,
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
                _ = hangup.recv() => {
                    notify::send("RELOADING=1");
                    hangups.send_modify(|count| *count += 1);
                    notify::send("READY=1");
                    continue;
                }
                () = notify::beat(&mut watchdog) => continue,
            }
            if stop.is_cancelled() {
                std::process::exit(1);
            }
            crate::safe_info!("going down");
            notify::send("STOPPING=1");
            readiness.drain();
            stop.cancel();
            tokio::spawn(async {
                tokio::time::sleep(LAST_CALL).await;
                crate::safe_error!("the drain did not end");
                std::process::exit(1);
            });
        }
    });
    // Jobs that nobody waits for any more do not hold the process.
    runtime.shutdown_timeout(Duration::from_secs(1));
    drop(admin);
    outcome
}
