//! How many requests and bytes a principal may have in a time.
//!
//! The generic cell rate algorithm: of each principal one number for each rate, the time at which it will have used up
//! nothing. Keys are digests of keys, never addresses, and appear in no log.

use panetiere_api::problem::{Code, Problem};
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// A rate: so much a second, and so much at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Units a second, at least 1.
    pub per_s: u64,
    /// Units at once. A single request above it is never let through.
    pub burst: u64,
}

impl Rate {
    /// Nanoseconds that `units` take at this rate.
    fn nanos(self, units: u64) -> u64 {
        let nanos = u128::from(units) * 1_000_000_000 / u128::from(self.per_s.max(1));
        u64::try_from(nanos).unwrap_or(u64::MAX)
    }

    /// `spent`, moved on by `units`; or how long to wait for them.
    fn charge(self, spent: u64, now: u64, units: u64) -> Result<u64, Duration> {
        let then = spent.max(now).saturating_add(self.nanos(units));
        let ahead = then - now;
        let burst = self.nanos(self.burst);
        if ahead > burst { Err(Duration::from_nanos(ahead - burst)) } else { Ok(then) }
    }
}

/// Over the rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum QuotaError {
    /// The principal has used up its rate.
    #[error("over the rate; {retry_after:?} until there is room again")]
    Exceeded {
        /// How long until there is room.
        retry_after: Duration,
    },
    /// So many principals are at their rates that no other is taken on.
    #[error("too many principals at once")]
    Full,
}

impl From<QuotaError> for Problem {
    fn from(error: QuotaError) -> Self {
        match error {
            QuotaError::Exceeded { retry_after } => {
                let whole = retry_after.as_secs() + u64::from(retry_after.subsec_nanos() > 0);
                Self::from(Code::Quota).with_retry_after(whole.max(1))
            }
            QuotaError::Full => Self::from(Code::Shed).with_retry_after(1),
        }
    }
}

#[derive(Clone, Copy)]
struct Spent {
    requests: u64,
    bytes: u64,
}

/// The rates of all principals.
#[derive(Debug)]
pub struct Quotas {
    requests: Rate,
    bytes: Rate,
    max_principals: usize,
    start: Instant,
    spent: Mutex<HashMap<[u8; 32], Spent>>,
}

impl std::fmt::Debug for Spent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Spent")
    }
}

impl Quotas {
    /// Rates for up to `max_principals` at a time; one that has used up nothing takes no room.
    pub fn new(requests: Rate, bytes: Rate, max_principals: usize) -> Self {
        Self { requests, bytes, max_principals, start: Instant::now(), spent: Mutex::default() }
    }

    /// Charges one request with a body of `bytes`. Nothing is charged if either rate is exceeded.
    ///
    /// # Errors
    /// `Exceeded` with the time to wait, `Full` when the table is.
    pub fn charge(&self, principal: &[u8; 32], bytes: u64) -> Result<(), QuotaError> {
        self.charge_at(principal, bytes, self.start.elapsed())
    }

    fn charge_at(&self, principal: &[u8; 32], bytes: u64, now: Duration) -> Result<(), QuotaError> {
        let now = u64::try_from(now.as_nanos()).unwrap_or(u64::MAX);
        let mut spent = self.spent.lock().unwrap_or_else(PoisonError::into_inner);
        if !spent.contains_key(principal) && spent.len() >= self.max_principals {
            // Whoever has used up nothing is as one never seen.
            spent.retain(|_, entry| entry.requests > now || entry.bytes > now);
            if spent.len() >= self.max_principals {
                return Err(QuotaError::Full);
            }
        }
        let entry = spent.entry(*principal).or_insert(Spent { requests: 0, bytes: 0 });
        let exceeded = |retry_after| QuotaError::Exceeded { retry_after };
        let requests = self.requests.charge(entry.requests, now, 1).map_err(exceeded)?;
        let bytes = self.bytes.charge(entry.bytes, now, bytes).map_err(exceeded)?;
        *entry = Spent { requests, bytes };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REQUESTS: Rate = Rate { per_s: 4, burst: 2 };
    const BYTES: Rate = Rate { per_s: 1000, burst: 5000 };

    #[test]
    fn a_burst_then_the_rate_and_bytes_for_themselves() {
        let quotas = Quotas::new(REQUESTS, BYTES, 10);
        let charge = |who: u8, bytes, ms| quotas.charge_at(&[who; 32], bytes, Duration::from_millis(ms));
        let wait = |ms| Err(QuotaError::Exceeded { retry_after: Duration::from_millis(ms) });
        assert_eq!((charge(1, 0, 0), charge(1, 0, 0)), (Ok(()), Ok(())));
        assert_eq!(charge(1, 0, 0), wait(250));
        // Refusals cost nothing, and nobody else anything.
        assert_eq!(charge(2, 0, 0), Ok(()));
        assert_eq!(charge(1, 0, 249), wait(1));
        assert_eq!((charge(1, 0, 250), charge(1, 0, 250)), (Ok(()), wait(250)));
        assert_eq!(charge(1, 5000, 60_000), Ok(()));
        assert_eq!(charge(1, 500, 60_000), wait(500));
        assert_eq!(charge(1, 0, 60_000), Ok(()), "an excess of bytes has cost a request");
    }

    #[test]
    fn the_table_is_bounded_and_forgets_who_owes_nothing() {
        let quotas = Quotas::new(REQUESTS, BYTES, 2);
        let charge = |who: u8, ms| quotas.charge_at(&[who; 32], 0, Duration::from_millis(ms));
        assert_eq!((charge(1, 0), charge(2, 0), charge(3, 0)), (Ok(()), Ok(()), Err(QuotaError::Full)));
        assert_eq!(charge(3, 1000), Ok(()));
        assert_eq!(quotas.spent.lock().unwrap().len(), 1);
    }

    #[test]
    fn the_wait_is_told_in_whole_seconds_rounded_up() {
        let told =
            |ms| Problem::from(QuotaError::Exceeded { retry_after: Duration::from_millis(ms) }).retry_after();
        assert_eq!((told(1), told(1000), told(1001)), (Some(1), Some(1), Some(2)));
    }
}
