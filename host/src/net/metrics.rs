//! Metrics: names as constants, numbers in memory, and the text that Prometheus reads.
//!
//! Written here and not by an exporter crate: ours keeps no time windows, no quantiles and no server, and so needs none
//! of what those need. A family has at most [`MAX_SERIES`] series, whatever labels the code makes up.

use metrics::{
    Counter, Gauge, Histogram, HistogramFn, Key, KeyName, Label, Metadata, Recorder, SharedString, Unit,
};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Series of one family at most: a label value that is made of something unbounded is dropped, not collected.
pub const MAX_SERIES: usize = 32;

/// Requests answered, by plane and status.
pub const HTTP_REQUESTS: &str = "panetiere_http_requests_total";
/// Bytes of bodies in memory.
pub const INFLIGHT_BYTES: &str = "panetiere_inflight_bytes";
/// Connections open, by plane.
pub const CONNECTIONS: &str = "panetiere_connections";
/// Connections that ended before their time, by plane and reason.
pub const CONNECTIONS_CUT: &str = "panetiere_connections_cut_total";
/// TLS handshakes, by outcome.
pub const TLS_HANDSHAKES: &str = "panetiere_tls_handshakes_total";
/// Requests and jobs turned away, by reason.
pub const SHED: &str = "panetiere_shed_total";
/// Bodies that are being read.
pub const UPLOADS_IN_FLIGHT: &str = "panetiere_uploads_in_flight";
/// How long jobs waited for a thread, by class.
pub const COMPUTE_QUEUE_SECONDS: &str = "panetiere_compute_queue_seconds";
/// How long jobs took, by class.
pub const COMPUTE_SECONDS: &str = "panetiere_compute_seconds";
/// Seconds until a certificate expires, by which.
pub const CERT_EXPIRY_SECONDS: &str = "panetiere_cert_expiry_seconds";
/// Entries of the log that a party has read.
pub const LOG_SIZE: &str = "panetiere_log_size_entries";
/// Why a party did not read the log on, by code.
pub const FOLLOW_ERRORS: &str = "panetiere_follow_errors_total";
/// Checkpoints that contradict what was read, by code.
pub const SPLIT_VIEWS: &str = "panetiere_split_views_total";
/// What a party has published, by kind of leaf and outcome.
pub const PUBLISHED: &str = "panetiere_published_total";
/// Sums that were not released, by the rule's code.
pub const NOT_RELEASED: &str = "panetiere_not_released_total";
/// What runs, as labels; always 1.
pub const BUILD_INFO: &str = "panetiere_build_info";

/// Upper bounds of the buckets of times, in seconds.
const SECONDS: [f64; 12] = [0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0];
/// Upper bounds of the buckets of sizes, in bytes.
const BYTES: [f64; 12] = [1e3, 4e3, 16e3, 64e3, 256e3, 1e6, 2e6, 4e6, 8e6, 16e6, 32e6, 64e6];

/// Tells when a certificate expires: whose, by a constant; when, in seconds since 1970; and what time it is.
pub fn certificate(which: &'static str, not_after: u64, now: u64) {
    let left = i32::try_from(i128::from(not_after) - i128::from(now)).unwrap_or(i32::MAX);
    metrics::gauge!(CERT_EXPIRY_SECONDS, "which" => which).set(f64::from(left));
}

/// The log was not read on.
pub(crate) fn follow_error(code: &'static str) {
    metrics::counter!(FOLLOW_ERRORS, "code" => code).increment(1);
}

/// A checkpoint contradicts what was read.
pub(crate) fn split_view(code: &'static str) {
    metrics::counter!(SPLIT_VIEWS, "code" => code).increment(1);
}

/// Something was handed to the bulletin.
pub(crate) fn published(kind: &'static str, outcome: &'static str) {
    metrics::counter!(PUBLISHED, "kind" => kind, "outcome" => outcome).increment(1);
}

/// A sum was not released.
pub(crate) fn not_released(code: &'static str) {
    metrics::counter!(NOT_RELEASED, "code" => code).increment(1);
}

pub(super) fn answered(plane: &'static str, status: http::StatusCode) {
    metrics::counter!(HTTP_REQUESTS, "plane" => plane, "status" => status.as_str().to_owned()).increment(1);
}

pub(super) fn handshake(outcome: &'static str) {
    metrics::counter!(TLS_HANDSHAKES, "outcome" => outcome).increment(1);
}

pub(super) fn cut(plane: &'static str, reason: &'static str) {
    metrics::counter!(CONNECTIONS_CUT, "plane" => plane, "reason" => reason).increment(1);
}

pub(super) fn shed(reason: &'static str) {
    metrics::counter!(SHED, "reason" => reason).increment(1);
}

pub(super) fn compute_queued(class: &'static str, time: Duration) {
    metrics::histogram!(COMPUTE_QUEUE_SECONDS, "class" => class).record(time.as_secs_f64());
}

pub(super) fn compute_ran(class: &'static str, time: Duration) {
    metrics::histogram!(COMPUTE_SECONDS, "class" => class).record(time.as_secs_f64());
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Counter,
    Gauge,
    Histogram,
}

#[derive(Debug)]
enum Series {
    Counter(Arc<AtomicU64>),
    Gauge(Arc<AtomicU64>),
    Histogram(Arc<Buckets>),
}

#[derive(Debug)]
struct Family {
    kind: Kind,
    help: String,
    /// By label text as it is written, sorted.
    series: BTreeMap<String, Series>,
}

/// Where the numbers are.
#[derive(Debug, Default)]
pub struct Registry {
    families: Mutex<BTreeMap<String, Family>>,
}

impl Registry {
    /// Makes this the process's registry.
    ///
    /// # Errors
    /// If there is one.
    pub fn install(self: &Arc<Self>) -> Result<(), metrics::SetRecorderError<Installed>> {
        metrics::set_global_recorder(Installed(Arc::clone(self)))
    }

    /// All numbers, in the text format 0.0.4.
    pub fn text(&self) -> String {
        let mut out = String::new();
        for (name, family) in &*self.lock() {
            if family.series.is_empty() {
                continue;
            }
            if !family.help.is_empty() {
                let help = family.help.replace('\\', "\\\\").replace('\n', "\\n");
                line(&mut out, format_args!("# HELP {name} {help}"));
            }
            let kind = match family.kind {
                Kind::Counter => "counter",
                Kind::Gauge => "gauge",
                Kind::Histogram => "histogram",
            };
            line(&mut out, format_args!("# TYPE {name} {kind}"));
            for (labels, series) in &family.series {
                match series {
                    Series::Counter(value) => {
                        line(
                            &mut out,
                            format_args!("{name}{} {}", braces(labels), value.load(Ordering::Relaxed)),
                        );
                    }
                    Series::Gauge(value) => {
                        let value = f64::from_bits(value.load(Ordering::Relaxed));
                        line(&mut out, format_args!("{name}{} {}", braces(labels), number(value)));
                    }
                    Series::Histogram(buckets) => buckets.write(&mut out, name, labels),
                }
            }
        }
        out
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Family>> {
        self.families.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn describe(&self, name: &KeyName, kind: Kind, help: &SharedString) {
        let mut families = self.lock();
        let family = families.entry(name.as_str().to_owned()).or_insert_with(|| Family::new(kind));
        family.help = help.to_string();
    }

    /// The series of a key. `None` beyond [`MAX_SERIES`], or if the name is of another kind.
    fn with<T>(&self, key: &Key, kind: Kind, take: impl FnOnce(&Series) -> Option<T>) -> Option<T> {
        let mut families = self.lock();
        let family = families.entry(key.name().to_owned()).or_insert_with(|| Family::new(kind));
        let labels = labels(key.labels());
        if family.kind != kind || (!family.series.contains_key(&labels) && family.series.len() >= MAX_SERIES)
        {
            return None;
        }
        take(family.series.entry(labels).or_insert_with(|| match kind {
            Kind::Counter => Series::Counter(Arc::default()),
            Kind::Gauge => Series::Gauge(Arc::default()),
            Kind::Histogram => Series::Histogram(Arc::new(Buckets::of(key.name()))),
        }))
    }
}

impl Family {
    const fn new(kind: Kind) -> Self {
        Self { kind, help: String::new(), series: BTreeMap::new() }
    }
}

/// A registry as `metrics` wants it.
#[derive(Debug)]
pub struct Installed(Arc<Registry>);

impl Recorder for Installed {
    fn describe_counter(&self, name: KeyName, _unit: Option<Unit>, help: SharedString) {
        self.0.describe(&name, Kind::Counter, &help);
    }

    fn describe_gauge(&self, name: KeyName, _unit: Option<Unit>, help: SharedString) {
        self.0.describe(&name, Kind::Gauge, &help);
    }

    fn describe_histogram(&self, name: KeyName, _unit: Option<Unit>, help: SharedString) {
        self.0.describe(&name, Kind::Histogram, &help);
    }

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        let value = self.0.with(key, Kind::Counter, |series| match series {
            Series::Counter(value) => Some(Arc::clone(value)),
            _ => None,
        });
        value.map_or_else(Counter::noop, Counter::from_arc)
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        let value = self.0.with(key, Kind::Gauge, |series| match series {
            Series::Gauge(value) => Some(Arc::clone(value)),
            _ => None,
        });
        value.map_or_else(Gauge::noop, Gauge::from_arc)
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        let buckets = self.0.with(key, Kind::Histogram, |series| match series {
            Series::Histogram(buckets) => Some(Arc::clone(buckets)),
            _ => None,
        });
        buckets.map_or_else(Histogram::noop, Histogram::from_arc)
    }
}

/// A histogram with fixed buckets.
#[derive(Debug)]
struct Buckets {
    bounds: &'static [f64; 12],
    /// One more than bounds: what lies above the last.
    counts: [AtomicU64; 13],
    /// A float's bits.
    sum: AtomicU64,
}

impl Buckets {
    fn of(name: &str) -> Self {
        let bounds = if name.ends_with("_bytes") { &BYTES } else { &SECONDS };
        Self { bounds, counts: Default::default(), sum: AtomicU64::new(0.0_f64.to_bits()) }
    }

    fn write(&self, out: &mut String, name: &str, labels: &str) {
        let comma = if labels.is_empty() { "" } else { "," };
        let mut total = 0;
        for (index, count) in self.counts.iter().enumerate() {
            total += count.load(Ordering::Relaxed);
            let bound = self.bounds.get(index).copied().unwrap_or(f64::INFINITY);
            line(out, format_args!("{name}_bucket{{{labels}{comma}le=\"{}\"}} {total}", number(bound)));
        }
        let sum = f64::from_bits(self.sum.load(Ordering::Relaxed));
        line(out, format_args!("{name}_sum{} {}", braces(labels), number(sum)));
        line(out, format_args!("{name}_count{} {total}", braces(labels)));
    }
}

impl HistogramFn for Buckets {
    fn record(&self, value: f64) {
        let bucket = self.bounds.partition_point(|bound| *bound < value);
        self.counts[bucket].fetch_add(1, Ordering::Relaxed);
        let add = |bits: u64| Some((f64::from_bits(bits) + value).to_bits());
        // It never returns None.
        let _ = self.sum.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
    }
}

fn labels<'a>(labels: impl Iterator<Item = &'a Label>) -> String {
    let mut pairs: Vec<String> = labels
        .map(|label| {
            let value = label.value().replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            format!("{}=\"{value}\"", label.key())
        })
        .collect();
    pairs.sort_unstable();
    pairs.join(",")
}

fn braces(labels: &str) -> String {
    if labels.is_empty() { String::new() } else { format!("{{{labels}}}") }
}

fn number(value: f64) -> String {
    if value == f64::INFINITY { "+Inf".to_owned() } else { value.to_string() }
}

fn line(out: &mut String, text: std::fmt::Arguments<'_>) {
    writeln!(out, "{text}").expect("a string takes everything");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_is_what_prometheus_reads() {
        let registry = Arc::new(Registry::default());
        metrics::with_local_recorder(&Installed(Arc::clone(&registry)), || {
            metrics::describe_counter!("a_total", "Things, counted.");
            metrics::counter!("a_total", "z" => "q\"\\\n", "b" => "1").increment(3);
            metrics::gauge!("b").set(1.5);
            for seconds in [0.001, 0.002, 400.0] {
                metrics::histogram!("c_seconds", "class" => "x").record(seconds);
            }
            // Of another kind than it was: ignored.
            metrics::gauge!("a_total").set(9.0);
        });
        let text = registry.text();
        let head = "# HELP a_total Things, counted.\n# TYPE a_total counter\na_total{b=\"1\",z=\"q\\\"\\\\\\n\"} 3\n\
                    # TYPE b gauge\nb 1.5\n# TYPE c_seconds histogram\n\
                    c_seconds_bucket{class=\"x\",le=\"0.001\"} 1\nc_seconds_bucket{class=\"x\",le=\"0.003\"} 2\n";
        assert!(text.starts_with(head), "{text}");
        let tail = "c_seconds_bucket{class=\"x\",le=\"300\"} 2\nc_seconds_bucket{class=\"x\",le=\"+Inf\"} 3\n\
                    c_seconds_sum{class=\"x\"} 400.003\nc_seconds_count{class=\"x\"} 3\n";
        assert!(text.ends_with(tail), "{text}");
    }

    #[test]
    fn labels_of_something_unbounded_are_not_collected() {
        let registry = Arc::new(Registry::default());
        metrics::with_local_recorder(&Installed(Arc::clone(&registry)), || {
            for client in 0..1000 {
                metrics::counter!("posts_total", "client" => client.to_string()).increment(1);
            }
        });
        assert_eq!(registry.text().lines().count(), 1 + MAX_SERIES);
    }
}
