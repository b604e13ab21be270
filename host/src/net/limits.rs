//! What a plane takes at most. Every number is a field, so that tests can be quick.

use panetiere_api::limits::{FLOOR_BYTES_PER_S, FLOOR_GRACE_MS, HEADER_MS, IDLE_MS};
use std::time::Duration;

/// The limits of one plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NetLimits {
    /// Connections at once. Beyond, the one that has been idle longest is dropped; if none is idle, the new one.
    pub connections: usize,
    /// How long a TLS handshake may take.
    pub handshake: Duration,
    /// How long a connection may be without a complete request head: new, between requests, or in the middle of one.
    pub idle: Duration,
    /// Bytes a second that a body, and the reading of an answer, may not fall below while we wait for the peer.
    pub floor_bytes_per_s: u64,
    /// How far a peer may be behind that floor.
    pub floor_grace: Duration,
    /// Bodies that are read at once.
    pub uploads: usize,
    /// Requests that wait for one of those places.
    pub upload_queue: usize,
    /// How long they wait, and how long for room in the byte budget, before they are shed.
    pub shed_wait: Duration,
    /// What `Retry-After` says then, in seconds.
    pub retry_after_s: u64,
    /// Bytes of bodies in memory at once.
    pub inflight_bytes: usize,
    /// How long the rest of a refused body is read and thrown away, so that the refusal arrives.
    pub linger: Duration,
    /// How long requests under way may take after a drain has begun.
    pub drain: Duration,
}

impl Default for NetLimits {
    fn default() -> Self {
        Self {
            connections: 4096,
            handshake: Duration::from_millis(HEADER_MS),
            idle: Duration::from_millis(IDLE_MS),
            floor_bytes_per_s: FLOOR_BYTES_PER_S,
            floor_grace: Duration::from_millis(FLOOR_GRACE_MS),
            uploads: 64,
            upload_queue: 256,
            shed_wait: Duration::from_secs(2),
            retry_after_s: 1,
            inflight_bytes: 64 << 20,
            linger: Duration::from_secs(1),
            drain: Duration::from_millis(1500),
        }
    }
}
