//! When to try again.

use std::time::Duration;

/// When a request is tried again, and when it is given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Tries at most.
    pub tries: u32,
    /// The wait before the second try; doubled before each further one.
    pub first_wait: Duration,
    /// The longest wait, and the longest that a server's `Retry-After` is heeded.
    pub longest_wait: Duration,
    /// From the first try to the last answer.
    pub deadline: Duration,
}

impl Default for RetryPolicy {
    /// Up to 8 tries in two minutes, 200 ms to 10 s apart.
    fn default() -> Self {
        Self {
            tries: 8,
            first_wait: Duration::from_millis(200),
            longest_wait: Duration::from_secs(10),
            deadline: Duration::from_secs(120),
        }
    }
}

impl RetryPolicy {
    /// The wait after try `tries` (from 1): half of the step for certain and half by `random`, so that clients that were
    /// turned away together do not come back together. At least what the server asked for.
    pub(super) fn wait(&self, tries: u32, random: u16, retry_after_s: Option<u64>) -> Duration {
        let doublings = tries.saturating_sub(1).min(16);
        let step = self.first_wait.saturating_mul(1 << doublings).min(self.longest_wait);
        let jittered = step / 2 + step.mul_f64(f64::from(random) / f64::from(u16::MAX)) / 2;
        let asked = Duration::from_secs(retry_after_s.unwrap_or(0)).min(self.longest_wait);
        // The spread stays on top of what the server asked of everybody alike.
        if asked > jittered { asked + jittered / 4 } else { jittered }
    }
}

/// Sixteen random bits; without any, the middle: a wait needs no secret.
pub(super) fn random() -> u16 {
    let mut bytes = [0; 2];
    match getrandom::fill(&mut bytes) {
        Ok(()) => u16::from_le_bytes(bytes),
        Err(_) => u16::MAX / 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_longest_and_heed_the_server() {
        let policy = RetryPolicy::default();
        let ms = |tries, random, asked| policy.wait(tries, random, asked).as_millis();
        assert_eq!((ms(1, 0, None), ms(1, u16::MAX, None)), (100, 200));
        assert_eq!((ms(3, 0, None), ms(3, u16::MAX, None)), (400, 800));
        assert_eq!((ms(60, 0, None), ms(60, u16::MAX, None)), (5_000, 10_000));
        assert_eq!((ms(1, 0, Some(3)), ms(1, u16::MAX, Some(3))), (3_025, 3_050));
        // A server cannot make a client wait for ever.
        assert_eq!(ms(1, 0, Some(u64::MAX)), 10_025);
    }
}
