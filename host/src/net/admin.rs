//! The plane for whoever runs the daemon: alive, ready, metrics, build. Loopback only, plain HTTP, a thread of its own, so
//! that it answers when the rest does not.

use super::answer::Answer;
use super::budget::ByteBudget;
use super::limits::NetLimits;
use super::metrics::{BUILD_INFO, Registry};
use super::router::{Call, Handler, Resource, Rule};
use super::serve::{Access, Plane, Server, bind};
use http::StatusCode;
use panetiere_api::media::MediaType;
use panetiere_api::problem::{Code, Problem};
use rustls::time_provider::DefaultTimeProvider;
use serde::Serialize;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

/// How often the event loop marks that it turns.
const BEAT: Duration = Duration::from_millis(250);
/// An event loop that has not turned for so long is dead.
pub const DEAD_AFTER: Duration = Duration::from_secs(5);

/// What runs.
#[derive(Clone, Debug, Serialize)]
pub struct Build {
    /// The package's version.
    pub version: &'static str,
    /// The commit.
    pub git: &'static str,
    /// The compiler.
    pub rustc: &'static str,
    /// The arithmetic in use.
    pub simd: &'static str,
    /// Digest of the public parameters, where the role has some.
    pub params_digest: Option<String>,
}

/// Whether the event loop turns. Watched from outside of it.
#[derive(Clone, Debug)]
pub struct Heartbeat {
    start: Instant,
    /// Milliseconds from `start` to the last beat.
    last: Arc<AtomicU64>,
    dead_after: Duration,
}

impl Heartbeat {
    /// Watches a runtime from now on; it counts as dead when it has not turned for `dead_after`.
    pub fn start(runtime: &Handle, dead_after: Duration) -> Self {
        let heartbeat = Self { start: Instant::now(), last: Arc::default(), dead_after };
        let beating = heartbeat.clone();
        // It ends with its runtime.
        runtime.spawn(async move {
            loop {
                beating.last.store(beating.now(), Ordering::Relaxed);
                tokio::time::sleep(BEAT.min(beating.dead_after / 4)).await;
            }
        });
        heartbeat
    }

    fn now(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Whether the event loop has turned lately.
    pub fn is_alive(&self) -> bool {
        let silent = self.now().saturating_sub(self.last.load(Ordering::Relaxed));
        Duration::from_millis(silent) < self.dead_after
    }
}

/// What a check found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// The check's name.
    pub name: &'static str,
    /// Whether all is well.
    pub ok: bool,
    /// What is not, or a figure.
    pub detail: Option<String>,
}

type Look = Box<dyn Fn() -> Result<Option<String>, String> + Send + Sync>;

/// Whether the daemon can do its work.
#[derive(Default)]
pub struct Readiness {
    checks: Mutex<Vec<(&'static str, Look)>>,
    draining: AtomicBool,
}

impl Readiness {
    /// Adds a check: quick, without waiting for anything. `Ok` may have a figure, `Err` says what is wrong.
    pub fn check(
        &self,
        name: &'static str,
        look: impl Fn() -> Result<Option<String>, String> + Send + Sync + 'static,
    ) {
        self.checks.lock().unwrap_or_else(PoisonError::into_inner).push((name, Box::new(look)));
    }

    /// From now on the daemon is not ready: it goes down.
    pub fn drain(&self) {
        self.draining.store(true, Ordering::Relaxed);
    }

    /// What all checks find now. Draining is one of them.
    pub fn report(&self) -> Vec<Check> {
        let draining = self.draining.load(Ordering::Relaxed);
        let detail = draining.then(|| "going down".to_owned());
        let mut report = vec![Check { name: "draining", ok: !draining, detail }];
        for (name, look) in self.checks.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            report.push(match look() {
                Ok(detail) => Check { name, ok: true, detail },
                Err(wrong) => Check { name, ok: false, detail: Some(wrong) },
            });
        }
        report
    }
}

/// What the plane shows.
pub struct AdminState {
    /// Is it alive?
    pub heartbeat: Heartbeat,
    /// Is it ready?
    pub readiness: Arc<Readiness>,
    /// Its numbers.
    pub registry: Arc<Registry>,
    /// What runs.
    pub build: Build,
}

/// Resources of the plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdminRoute {
    /// What runs.
    Build,
    /// Whether the event loop turns.
    Livez,
    /// All numbers.
    Metrics,
    /// Whether the daemon can do its work.
    Readyz,
}

impl Handler for AdminState {
    type Route = AdminRoute;

    fn resource(&self, path: &str, query: Option<&str>) -> Result<Resource<AdminRoute>, Problem> {
        let segments: Vec<&str> = path.split('/').skip(1).collect();
        let route = match *segments.as_slice() {
            ["build"] => AdminRoute::Build,
            ["livez"] => AdminRoute::Livez,
            ["metrics"] => AdminRoute::Metrics,
            ["readyz"] => AdminRoute::Readyz,
            _ => return Err(Code::NotFound.into()),
        };
        panetiere_api::path::query(query, [])
            .map_err(|error| Problem::of(&error, StatusCode::BAD_REQUEST))?;
        Ok(Resource { route, rules: vec![Rule::GET] })
    }

    async fn handle(&self, call: Call<AdminRoute>) -> Result<Answer, Problem> {
        Ok(match call.route {
            AdminRoute::Build => Answer::json(StatusCode::OK, &self.build),
            AdminRoute::Livez if self.heartbeat.is_alive() => {
                Answer::bytes(StatusCode::OK, MediaType::Text, "alive\n")
            }
            AdminRoute::Livez => Answer::bytes(
                StatusCode::SERVICE_UNAVAILABLE,
                MediaType::Text,
                "the event loop does not turn\n",
            ),
            AdminRoute::Metrics => Answer::bytes(StatusCode::OK, MediaType::Prometheus, self.registry.text()),
            AdminRoute::Readyz => {
                let report = self.readiness.report();
                let ok = report.iter().all(|check| check.ok);
                let status = if ok { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
                Answer::json(status, &report)
            }
        })
    }
}

/// The plane, running.
#[derive(Debug)]
pub struct Admin {
    address: SocketAddr,
    stop: CancellationToken,
    thread: Option<JoinHandle<()>>,
}

impl Admin {
    /// Listens on a loopback address.
    ///
    /// # Errors
    /// `InvalidInput` for another address; whatever the system says.
    pub fn start(address: SocketAddr, state: AdminState) -> io::Result<Self> {
        if !address.ip().is_loopback() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the admin plane is for loopback alone"));
        }
        let Build { version, simd, .. } = state.build;
        ::metrics::gauge!(BUILD_INFO, "version" => version, "simd" => simd).set(1.0);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let stop = CancellationToken::new();
        let entered = runtime.enter();
        let listener = bind(address)?;
        // Its own room: a daemon that is full still tells.
        let limits = NetLimits { connections: 64, drain: Duration::from_millis(200), ..NetLimits::default() };
        let plane = Plane {
            name: "admin",
            handler: state,
            access: Access::Public,
            tls: None,
            quotas: None,
            budget: ByteBudget::new(0),
            limits,
            clock: Arc::new(DefaultTimeProvider),
        };
        let server = Server::start(listener, plane)?;
        let address = server.address();
        drop(entered);
        let stopped = stop.clone();
        let thread = std::thread::Builder::new().name("admin".to_owned()).spawn(move || {
            runtime.block_on(async {
                stopped.cancelled().await;
                server.drain().await;
            });
        })?;
        Ok(Self { address, stop, thread: Some(thread) })
    }

    /// Where it listens.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Admin {
    /// Closes it, the last of all planes.
    fn drop(&mut self) {
        self.stop.cancel();
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has told so.
            let _ = thread.join();
        }
    }
}
