//! Log lines: fields, not prose; at `info` and above only what may be known to whoever reads logs.
//!
//! [`LogSafe`] marks what that is. The macros `safe_info!`, `safe_warn!` and `safe_error!` take nothing else; those of `tracing`
//! for these levels are refused by clippy (clippy.toml). Client ids, addresses, payloads and what other crates say
//! appear at `debug` or not at all.

use std::fmt;
use std::io;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;

/// What may stand in a log line at any level: no client, no address, no payload, no time of a client's doing.
pub trait LogSafe: fmt::Display {}

macro_rules! log_safe {
    ($($type:ty),+ $(,)?) => {$( impl LogSafe for $type {} )+};
}

// Numbers are counts and sizes; text is a constant of the program. No `String`: nobody knows what is in one.
log_safe!(bool, u8, u16, u32, u64, usize, i32, i64, f64, &'static str);
log_safe!(
    panetiere::ids::ServerId,
    panetiere::ids::NodeId,
    panetiere::ids::AggregatorId,
    panetiere::ids::EpochId
);
log_safe!(panetiere::ids::SessionId, panetiere::ids::SetDigest, panetiere_api::leaf::RoundId);
log_safe!(panetiere_api::problem::Code, panetiere_api::tls::SpkiDigest);

/// Hands on what may be logged; does not compile for anything else.
///
/// ```compile_fail
/// let address: std::net::SocketAddr = ([127, 0, 0, 1], 1).into();
/// panetiere_host::safe_info!("connected", address = address);
/// ```
///
/// ```
/// panetiere_host::safe_info!("drained", requests = 3_usize);
/// ```
pub const fn safe<T: LogSafe>(value: &T) -> &T {
    value
}

/// A line at `info`: `safe_info!("what happened", field = value, ...)`, every value [`LogSafe`].
#[macro_export]
macro_rules! safe_info {
    ($message:literal $(, $field:ident = $value:expr)* $(,)?) => {
        ::tracing::event!(::tracing::Level::INFO, $($field = %$crate::net::telemetry::safe(&$value),)* $message)
    };
}

/// A line at `warn`, as [`safe_info!`].
#[macro_export]
macro_rules! safe_warn {
    ($message:literal $(, $field:ident = $value:expr)* $(,)?) => {
        ::tracing::event!(::tracing::Level::WARN, $($field = %$crate::net::telemetry::safe(&$value),)* $message)
    };
}

/// A line at `error`, as [`safe_info!`]: a bug of ours, or somebody cheats.
#[macro_export]
macro_rules! safe_error {
    ($message:literal $(, $field:ident = $value:expr)* $(,)?) => {
        ::tracing::event!(::tracing::Level::ERROR, $($field = %$crate::net::telemetry::safe(&$value),)* $message)
    };
}

/// How lines are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// One JSON object a line.
    Json,
    /// For people.
    Text,
}

/// A level that `PANETIERE_LOG` does not know.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("PANETIERE_LOG is {given:?}; it may be error, warn, info, debug or trace")]
pub struct LevelError {
    given: String,
}

/// The level that `PANETIERE_LOG` names; `info` if it is not set.
///
/// # Errors
/// [`LevelError`] for another word.
pub fn level(variable: Option<&str>) -> Result<LevelFilter, LevelError> {
    match variable {
        None => Ok(LevelFilter::INFO),
        Some("error") => Ok(LevelFilter::ERROR),
        Some("warn") => Ok(LevelFilter::WARN),
        Some("info") => Ok(LevelFilter::INFO),
        Some("debug") => Ok(LevelFilter::DEBUG),
        Some("trace") => Ok(LevelFilter::TRACE),
        Some(other) => Err(LevelError { given: other.to_owned() }),
    }
}

/// Other crates say nothing until somebody debugs: their lines have addresses and bytes.
fn filter(level: LevelFilter) -> Targets {
    let others = if level >= LevelFilter::DEBUG { level } else { LevelFilter::OFF };
    Targets::new().with_default(others).with_target("panetiere", level)
}

/// A subscriber that writes lines to `writer`.
pub fn subscriber<W>(format: Format, level: LevelFilter, writer: W) -> impl tracing::Subscriber + Send + Sync
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let lines = tracing_subscriber::fmt::layer().with_ansi(false).with_writer(writer);
    let lines = match format {
        Format::Json => lines.json().flatten_event(true).boxed(),
        Format::Text => lines.boxed(),
    };
    tracing_subscriber::registry().with(lines.with_filter(filter(level)))
}

/// Writes the process's lines to standard error from now on.
///
/// # Errors
/// If it was called before.
pub fn init(format: Format, level: LevelFilter) -> Result<(), tracing_subscriber::util::TryInitError> {
    subscriber(format, level, io::stderr).try_init()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn captured(level: LevelFilter) -> String {
        let lines = Lines::default();
        let writer = lines.clone();
        let subscriber = subscriber(Format::Json, level, move || writer.clone());
        tracing::subscriber::with_default(subscriber, || {
            crate::safe_info!("round closed", clients = 7_u32);
            tracing::debug!(client = "secret-client", "post received");
            tracing::event!(target: "hyper::proto", tracing::Level::ERROR, "peer 10.0.0.1 broke HTTP");
        });
        let bytes = lines.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn above_debug_there_is_nothing_of_clients_and_of_other_crates() {
        let lines = captured(LevelFilter::INFO);
        let line: serde_json::Value = serde_json::from_str(lines.trim()).unwrap();
        assert_eq!((line["message"].as_str(), line["clients"].as_str()), (Some("round closed"), Some("7")));
        let lines = captured(LevelFilter::DEBUG);
        assert!(lines.contains("secret-client") && lines.contains("10.0.0.1"), "{lines}");
    }

    #[test]
    fn the_level_is_one_of_five_words() {
        assert_eq!(level(None), Ok(LevelFilter::INFO));
        assert_eq!(level(Some("trace")), Ok(LevelFilter::TRACE));
        assert!(level(Some("INFO")).is_err() && level(Some("")).is_err());
    }
}
