//! Planes: a listener, its connections, and how they end.

use super::budget::ByteBudget;
use super::connection::{Ends, serve_connection};
use super::limits::NetLimits;
use super::metrics;
use super::principal::Principals;
use super::quota::Quotas;
use super::router::Handler;
use super::shed::Gate;
use super::slots::{Slot, Slots};
use super::tls::ServerTls;
use rustls::time_provider::TimeProvider;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Connections that the kernel may have completed before we take them.
const BACKLOG: u32 = 1024;
/// The wait after an accept that failed: out of file descriptors, mostly.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Who may use a plane.
#[derive(Clone, Debug)]
pub enum Access {
    /// Whoever is in the table.
    Principals(Arc<Principals>),
    /// Everybody.
    Public,
}

/// What a plane is made of.
pub struct Plane<H> {
    /// Its name in logs and metrics.
    pub name: &'static str,
    /// What it serves.
    pub handler: H,
    /// Who may use it.
    pub access: Access,
    /// Its TLS; `None` is plain HTTP, for loopback alone.
    pub tls: Option<Arc<ServerTls>>,
    /// Rates of principals; `None` on a public plane, whose handler charges whom it has recognised.
    pub quotas: Option<Arc<Quotas>>,
    /// Room for bodies, shared by the planes of a daemon.
    pub budget: ByteBudget,
    /// What it takes at most.
    pub limits: NetLimits,
    /// The clock by which certificates expire.
    pub clock: Arc<dyn TimeProvider>,
}

/// What all connections of a plane share.
pub(super) struct Shared<H> {
    pub plane: Plane<H>,
    pub uploads: Gate,
    pub slots: Arc<Slots>,
    /// Fires when the plane goes down: no new request, those under way go on.
    pub draining: CancellationToken,
}

/// How a drain went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drained {
    /// Connections that were still busy when the time was up, and were cut.
    pub cut: usize,
}

/// A plane that runs.
#[derive(Debug)]
pub struct Server {
    name: &'static str,
    address: SocketAddr,
    slots: Arc<Slots>,
    tasks: TaskTracker,
    draining: CancellationToken,
    cut: CancellationToken,
    drain: Duration,
}

/// A listener on an address, ready for many connections at once.
///
/// # Errors
/// If the address cannot be had.
pub fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // A daemon that restarts does not wait for the connections of the one before.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

impl Server {
    /// Serves a plane on a listener until it is drained.
    ///
    /// # Errors
    /// If the listener has no address; `InvalidInput` for a plane without TLS on an address that is not loopback.
    pub fn start<H: Handler>(listener: TcpListener, plane: Plane<H>) -> io::Result<Self> {
        let address = listener.local_addr()?;
        if plane.tls.is_none() && !address.ip().is_loopback() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "a plane without TLS that is not loopback",
            ));
        }
        let NetLimits { uploads, upload_queue, shed_wait, retry_after_s, drain, .. } = plane.limits;
        let (name, slots) = (plane.name, Arc::new(Slots::new(plane.limits.connections)));
        let (tasks, draining, cut) = (TaskTracker::new(), CancellationToken::new(), CancellationToken::new());
        let shared = Arc::new(Shared {
            plane,
            uploads: Gate::new(uploads, upload_queue, shed_wait, retry_after_s),
            slots: Arc::clone(&slots),
            draining: draining.clone(),
        });
        tasks.spawn(accept(listener, shared, tasks.clone(), cut.clone()));
        Ok(Self { name, address, slots, tasks, draining, cut, drain })
    }

    /// Where it listens.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Connections that are open.
    pub fn connections(&self) -> usize {
        self.slots.open()
    }

    /// The most connections that were ever open at once.
    pub fn connections_high_water(&self) -> usize {
        self.slots.high_water()
    }

    /// Stops accepting, lets requests under way finish for as long as the limits say, then closes what is left.
    pub async fn drain(self) -> Drained {
        self.draining.cancel();
        self.tasks.close();
        let cut = match timeout(self.drain, self.tasks.wait()).await {
            Ok(()) => 0,
            Err(_) => {
                let left = self.slots.open();
                self.cut.cancel();
                self.tasks.wait().await;
                left
            }
        };
        crate::safe_info!("plane drained", plane = self.name, cut = cut);
        Drained { cut }
    }
}

async fn accept<H: Handler>(
    listener: TcpListener,
    shared: Arc<Shared<H>>,
    tasks: TaskTracker,
    cut: CancellationToken,
) {
    let name = shared.plane.name;
    loop {
        let accepted = tokio::select! {
            biased;
            () = shared.draining.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        // The address is forgotten here: nothing further in knows where a connection comes from.
        let Ok((stream, _)) = accepted else {
            metrics::cut(name, "accept");
            sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let (slot, evicted) = shared.slots.admit().await;
        if evicted {
            metrics::cut(name, "evicted");
        }
        let Some(slot) = slot else {
            metrics::cut(name, "refused");
            continue;
        };
        tasks.spawn(connection(stream, slot, Arc::clone(&shared), cut.clone()));
    }
}

async fn connection<H: Handler>(
    stream: TcpStream,
    slot: Slot,
    shared: Arc<Shared<H>>,
    cut: CancellationToken,
) {
    let name = shared.plane.name;
    ::metrics::gauge!(metrics::CONNECTIONS, "plane" => name).increment(1.0);
    let slot = Arc::new(slot);
    let go = slot.go.clone();
    let ends = tokio::select! {
        biased;
        () = cut.cancelled() => Ends::Cut,
        () = go.cancelled() => Ends::Evicted,
        ends = serve_connection(stream, slot, shared) => ends,
    };
    if let Some(reason) = ends.reason() {
        metrics::cut(name, reason);
    }
    tracing::debug!(plane = name, ?ends, "connection closed");
    ::metrics::gauge!(metrics::CONNECTIONS, "plane" => name).decrement(1.0);
}
