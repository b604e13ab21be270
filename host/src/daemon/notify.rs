//! What systemd wants to hear (sd_notify): a datagram to the socket that it names. Nothing without it.

use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;
use tokio::time::{Interval, interval};

/// Says something. That nobody hears it is no fault of the daemon's.
pub(super) fn send(state: &str) {
    let Some(path) = std::env::var_os("NOTIFY_SOCKET") else { return };
    let address = match path.as_bytes().split_first() {
        // An abstract name.
        Some((b'@', name)) => SocketAddr::from_abstract_name(name),
        _ => SocketAddr::from_pathname(&path),
    };
    if let (Ok(address), Ok(socket)) = (address, UnixDatagram::unbound()) {
        let _unheard = socket.send_to_addr(state.as_bytes(), &address);
    }
}

/// A timer at half the interval in which systemd wants to hear of the daemon.
pub(super) fn watchdog() -> Option<Interval> {
    let micros: u64 = std::env::var("WATCHDOG_USEC").ok()?.parse().ok()?;
    Some(interval(Duration::from_micros(micros / 2).max(Duration::from_millis(100))))
}

/// Waits for the timer and tells that the event loop turns; for ever without one.
pub(super) async fn beat(watchdog: &mut Option<Interval>) {
    match watchdog {
        Some(interval) => {
            interval.tick().await;
            send("WATCHDOG=1");
        }
        None => std::future::pending().await,
    }
}
