//! Places where a test stops the process dead.

/// Name of the variable that holds `name:count`: the process stops when it is at the point of this name for the
/// count-th time.
#[cfg(any(test, feature = "sim"))]
pub const VARIABLE: &str = "PANETIERE_FAIL_POINT";

/// Stops the process if it is told to.
#[cfg(any(test, feature = "sim"))]
pub fn fail_point(name: &str) {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU64, Ordering};
    static TARGET: OnceLock<Option<(String, u64)>> = OnceLock::new();
    static PASSED: AtomicU64 = AtomicU64::new(0);
    let target = TARGET.get_or_init(|| {
        let text = std::env::var(VARIABLE).ok()?;
        let (name, count) = text.split_once(':')?;
        Some((name.to_owned(), count.parse().ok()?))
    });
    if let Some((target, count)) = target
        && target == name
        && PASSED.fetch_add(1, Ordering::Relaxed) + 1 == *count
    {
        std::process::abort();
    }
}

/// Nothing, outside tests.
#[cfg(not(any(test, feature = "sim")))]
pub const fn fail_point(_name: &str) {}
