//! A floor under the rate of a peer.

use std::time::Duration;

/// How far a peer is behind a rate. Only time in which we waited for it counts, and no credit is saved up: whoever was
/// quick may not be slow for longer.
#[derive(Clone, Copy, Debug)]
pub struct Floor {
    bytes_per_s: u64,
    grace: Duration,
    behind: Duration,
}

impl Floor {
    /// A floor of `bytes_per_s` (at least 1), behind which a peer may fall by `grace`.
    pub fn new(bytes_per_s: u64, grace: Duration) -> Self {
        Self { bytes_per_s: bytes_per_s.max(1), grace, behind: Duration::ZERO }
    }

    /// How long the peer may let us wait from now on.
    pub const fn allowance(&self) -> Duration {
        self.grace.saturating_sub(self.behind)
    }

    /// We waited for `waited`, and `bytes` came of it.
    pub fn record(&mut self, waited: Duration, bytes: usize) {
        let bytes = u64::try_from(bytes).expect("usize has at most 64 bits");
        let nanos = u128::from(bytes) * 1_000_000_000 / u128::from(self.bytes_per_s);
        let earned = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        self.behind = self.behind.saturating_add(waited).saturating_sub(earned);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_floor_is_kept_by_the_second_and_not_on_average() {
        let ms = Duration::from_millis;
        let mut floor = Floor::new(1000, ms(5000));
        // At the floor for an hour.
        (0..3600).for_each(|_| floor.record(ms(1000), 1000));
        assert_eq!(floor.allowance(), ms(5000));
        // At half of it: half a second behind each second.
        (0..8).for_each(|_| floor.record(ms(1000), 500));
        assert_eq!(floor.allowance(), ms(1000));
        // Much at once makes up for what was missed and saves nothing up.
        floor.record(ms(0), 1_000_000);
        assert_eq!(floor.allowance(), ms(5000));
        floor.record(ms(6000), 0);
        assert_eq!(floor.allowance(), ms(0));
    }
}
