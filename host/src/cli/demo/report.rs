//! What a demo found, for programs (`--json`) and for people.

use super::lie::{Lie, Party};
use base64::Engine;
use chipmunk::ring::backend::Simd;
use panetiere::bulletin::Mode;
use panetiere::channel::Encoding;
use panetiere::evidence::Evidence;
use panetiere::ids::CrsDigest;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use std::collections::BTreeMap;
use std::ops::AddAssign;
use std::time::Duration;

/// A round, and the same round again with somebody who lies.
#[derive(Clone, Debug, Serialize)]
pub struct DemoReport {
    /// The round in which everybody is honest.
    #[serde(flatten)]
    pub round: RoundReport,
    /// The round in which `liar` lies. What a client that is found out has sent is not counted there.
    pub tamper: RoundReport,
    /// The lie of that round.
    #[serde(serialize_with = "as_text")]
    pub lie: Lie,
    /// Who tells it: the only party that may be named.
    #[serde(serialize_with = "as_text")]
    pub liar: Party,
    /// Whether there are more lanes than are needed.
    #[serde(skip)]
    pub spare_lanes: bool,
    /// The arithmetic that both rounds ran on.
    #[serde(skip)]
    pub simd: Simd,
}

/// One round. The fields are the keys of the JSON object.
#[derive(Clone, Debug, Serialize)]
pub struct RoundReport {
    /// How ciphertexts reach the recipient.
    #[serde(serialize_with = "as_text")]
    pub mode: Mode,
    /// How messages become a summable vector.
    #[serde(serialize_with = "as_text")]
    pub encoding: Encoding,
    /// The lanes, `KxN`, if there are any.
    pub lanes: Option<String>,
    /// The aggregators, if there are any.
    pub aggregators: Option<usize>,
    /// Clients of the round.
    pub clients: u32,
    /// Clients among them that sent nothing.
    pub cover: u32,
    /// Servers.
    pub servers: u16,
    /// Servers that suffice to recover.
    pub threshold: u16,
    /// Messages sent.
    pub sent: usize,
    /// Messages recovered.
    pub recovered: usize,
    /// Messages sent more often than recovered, each as often as it is short.
    pub missing: usize,
    /// Messages recovered more often than sent, each as often as it is over.
    pub extra: usize,
    /// The recovered messages.
    pub messages: Vec<Message>,
    /// Parties proved to have lied.
    #[serde(serialize_with = "as_texts")]
    pub culprits: Vec<Party>,
    /// What convicts them before everybody, where the demo has it.
    #[serde(skip)]
    pub evidence: Vec<(Party, Box<Evidence>)>,
    /// Parties whose answer has not come: that proves nothing.
    #[serde(serialize_with = "as_texts")]
    pub absent: Vec<Party>,
    /// The wall-clock time of each phase.
    pub phase_ms: Measures<Duration>,
    /// All bytes that crossed each link in the round, from all its senders together, framing included.
    pub link_bytes: Measures<u64>,
    /// The public parameters.
    #[serde(serialize_with = "as_text")]
    pub crs_digest: CrsDigest,
}

/// A recovered message. In JSON a string, or `{"base64": "…"}` if it is not UTF-8.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message(pub Vec<u8>);

/// Named amounts, in the order in which the names first came up.
#[derive(Clone, Debug)]
pub struct Measures<T>(Vec<(&'static str, T)>);

impl<T> Default for Measures<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T: AddAssign + Copy> Measures<T> {
    /// Adds `amount` to what `name` has so far.
    pub fn add(&mut self, name: &'static str, amount: T) {
        match self.0.iter_mut().find(|(known, _)| *known == name) {
            Some((_, total)) => *total += amount,
            None => self.0.push((name, amount)),
        }
    }

    /// The names and their amounts.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, T)> + '_ {
        self.0.iter().copied()
    }
}

/// Milliseconds, to the microsecond.
impl Serialize for Measures<Duration> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let milliseconds = |elapsed: Duration| (elapsed.as_secs_f64() * 1e6).round() / 1e3;
        serializer.collect_map(self.iter().map(|(name, elapsed)| (name, milliseconds(elapsed))))
    }
}

impl Serialize for Measures<u64> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

impl Serialize for Message {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match std::str::from_utf8(&self.0) {
            Ok(text) => serializer.serialize_str(text),
            Err(_) => {
                let mut map = serializer.serialize_map(Some(1))?;
                map.serialize_entry("base64", &base64::engine::general_purpose::STANDARD.encode(&self.0))?;
                map.end()
            }
        }
    }
}

fn as_text<S: Serializer>(value: &impl std::fmt::Display, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

fn as_texts<S: Serializer>(values: &[Party], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(values.iter().map(ToString::to_string))
}

/// How two collections of messages differ when order does not count but repetition does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Sent but not recovered.
    pub missing: usize,
    /// Recovered but not sent.
    pub extra: usize,
}

impl Difference {
    /// Compares what was sent with what was recovered.
    pub fn between<S: AsRef<[u8]>, R: AsRef<[u8]>>(sent: &[S], recovered: &[R]) -> Self {
        let mut counts: BTreeMap<&[u8], (usize, usize)> = BTreeMap::new();
        for message in sent {
            counts.entry(message.as_ref()).or_default().0 += 1;
        }
        for message in recovered {
            counts.entry(message.as_ref()).or_default().1 += 1;
        }
        Self {
            missing: counts.values().map(|(sent, recovered)| sent.saturating_sub(*recovered)).sum(),
            extra: counts.values().map(|(sent, recovered)| recovered.saturating_sub(*sent)).sum(),
        }
    }
}

impl AsRef<[u8]> for Message {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl RoundReport {
    /// Whether exactly the sent messages came out.
    pub(super) fn is_complete(&self) -> bool {
        self.missing == 0 && self.extra == 0 && self.recovered == self.sent
    }

    pub(super) fn named(&self) -> String {
        listed(&self.culprits)
    }

    pub(super) fn counts(&self) -> String {
        format!(
            "{} sent, {} recovered, {} missing, {} extra",
            self.sent, self.recovered, self.missing, self.extra
        )
    }
}

/// The parties' names, or `nobody`.
pub(super) fn listed(parties: &[Party]) -> String {
    if parties.is_empty() {
        return "nobody".to_owned();
    }
    parties.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

impl DemoReport {
    /// What is not as it must be, one line each. Empty if the demo succeeded.
    pub fn failures(&self) -> Vec<String> {
        [self.round_failures(), self.tamper_failures()].concat()
    }

    pub(super) fn round_failures(&self) -> Vec<String> {
        let mut failures = Vec::new();
        if !self.round.is_complete() {
            failures.push(format!("the recovered messages are not those sent: {}", self.round.counts()));
        }
        if !self.round.culprits.is_empty() {
            failures.push(format!("nobody lied, but {} was named", self.round.named()));
        }
        if !self.round.absent.is_empty() {
            failures.push(format!("everybody answered, but {} is missing", listed(&self.round.absent)));
        }
        failures
    }

    /// The liar, and nobody else, must be named; or missed, if it says nothing. Without it there must still be enough of
    /// its kind for its round to be recovered. If there are not, nothing may be recovered.
    pub(super) fn tamper_failures(&self) -> Vec<String> {
        let mut failures = Vec::new();
        let liar = self.liar;
        let (culprits, absent): (&[Party], &[Party]) =
            if self.lie.is_proved() { (&[liar], &[]) } else { (&[], &[liar]) };
        if self.tamper.culprits != culprits {
            let expected = if self.lie.is_proved() { "lied" } else { "said nothing" };
            failures.push(format!("{liar} {expected}, but {} was named", self.tamper.named()));
        }
        if self.tamper.absent != absent {
            failures.push(format!("{} is missing, expected {}", listed(&self.tamper.absent), listed(absent)));
        }
        if self.survives_a_lie() && !self.tamper.is_complete() {
            failures.push(format!("the tampered round was not recovered: {}", self.tamper.counts()));
        }
        if !self.survives_a_lie() && self.tamper.recovered != 0 {
            failures
                .push(format!("the tampered round was recovered from a wrong sum: {}", self.tamper.counts()));
        }
        let excluded = usize::from(self.lie.by_client());
        if self.tamper.sent + excluded != self.round.sent {
            let (tampered, honest) = (self.tamper.sent, self.round.sent);
            failures
                .push(format!("{tampered} messages count in the tampered round, {honest} in the honest one"));
        }
        failures
    }

    pub(super) fn survives_a_lie(&self) -> bool {
        match self.liar {
            // Aggregators are not needed: the posts are there.
            Party::Aggregator(_) | Party::Client(_) => true,
            Party::Lane(_) => self.spare_lanes,
            Party::Server(_) => self.tamper.servers > self.tamper.threshold,
        }
    }
}

#[cfg(test)]
pub(super) mod tests;
