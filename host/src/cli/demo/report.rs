//! What a demo found, for programs (`--json`) and for people.

use super::lie::{Lie, Party};
use base64::Engine;
use chipmunk::ring::backend::Simd;
use panetiere::bulletin::Mode;
use panetiere::channel::Encoding;
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
pub(super) mod tests {
    use super::*;
    use crate::cli::terminal::Style;
    use panetiere::ids::{ClientId, NodeId, ServerId};
    use serde_json::{Value, json};

    const SERVER_1: Party = Party::Server(ServerId(1));
    const SERVER_2: Party = Party::Server(ServerId(2));

    fn round(messages: &[&[u8]], culprits: &[Party]) -> RoundReport {
        let mut phases = Measures::default();
        phases.add("seal", Duration::from_micros(1500));
        phases.add("sum", Duration::from_nanos(1_234_567));
        phases.add("seal", Duration::from_micros(500));
        let mut links = Measures::default();
        links.add("posts", 5_945_856);
        links.add("posts", 1);
        RoundReport {
            mode: Mode::Direct,
            encoding: Encoding::Sketch,
            lanes: None,
            aggregators: None,
            clients: 4,
            cover: 1,
            servers: 4,
            threshold: 3,
            sent: messages.len(),
            recovered: messages.len(),
            missing: 0,
            extra: 0,
            messages: messages.iter().map(|message| Message(message.to_vec())).collect(),
            culprits: culprits.to_vec(),
            absent: Vec::new(),
            phase_ms: phases,
            link_bytes: links,
            crs_digest: "0f".repeat(32).parse().unwrap(),
        }
    }

    pub(in super::super) fn good() -> DemoReport {
        let messages: [&[u8]; 3] = [b"", "é".as_bytes(), b"\xff\x00"];
        DemoReport {
            round: round(&messages, &[]),
            tamper: round(&messages, &[SERVER_2]),
            lie: Lie::ServerWrongSum,
            liar: SERVER_2,
            spare_lanes: false,
            simd: Simd::Scalar,
        }
    }

    #[test]
    fn json_has_exactly_the_promised_keys_and_values() {
        let mut expected = json!({
            "mode": "direct", "encoding": "sketch", "lanes": null, "aggregators": null,
            "clients": 4, "cover": 1, "servers": 4, "threshold": 3,
            "sent": 3, "recovered": 3, "missing": 0, "extra": 0,
            "messages": ["", "é", {"base64": "/wA="}],
            "culprits": [], "absent": [],
            "phase_ms": {"seal": 2.0, "sum": 1.235},
            "link_bytes": {"posts": 5_945_857},
            "crs_digest": "0f".repeat(32),
        });
        let mut tamper = expected.clone();
        tamper["culprits"] = json!(["server 2"]);
        expected["tamper"] = tamper;
        expected["lie"] = json!("server:wrong-sum");
        expected["liar"] = json!("server 2");
        let text = serde_json::to_string(&good()).unwrap();
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), expected);
        assert!(!text.contains('\n'), "one line for programs that read lines");
    }

    #[test]
    fn difference_counts_repetitions() {
        let compare = |sent: &[&str], recovered: &[&str]| {
            let Difference { missing, extra } = Difference::between(sent, recovered);
            (missing, extra)
        };
        assert_eq!(compare(&[], &[]), (0, 0));
        assert_eq!(compare(&["a", "b", "a"], &["a", "a", "b"]), (0, 0));
        assert_eq!(compare(&["a", "a", "a"], &["a"]), (2, 0));
        assert_eq!(compare(&["a"], &["a", "a", ""]), (0, 2));
        assert_eq!(compare(&["a", ""], &["b", "c", "a"]), (1, 2));
    }

    #[test]
    fn every_deviation_is_a_failure_of_its_own() {
        assert_eq!(good().failures(), [""; 0]);
        type Spoil = fn(&mut DemoReport);
        let spoilers: [(&str, Spoil); 12] = [
            ("1 missing", |report| report.round.missing = 1),
            ("2 extra", |report| report.round.extra = 2),
            ("2 recovered", |report| report.round.recovered = 2),
            ("nobody lied, but server 1 was named", |report| report.round.culprits = vec![SERVER_1]),
            ("but server 1 is missing", |report| report.round.absent = vec![SERVER_1]),
            ("server 1 is missing, expected nobody", |report| report.tamper.absent = vec![SERVER_1]),
            ("count in the tampered round", |report| {
                (report.tamper.sent, report.tamper.recovered) = (2, 2);
            }),
            ("nobody was named", |report| report.tamper.culprits.clear()),
            ("but server 1 was named", |report| report.tamper.culprits = vec![SERVER_1]),
            ("server 2, server 1", |report| report.tamper.culprits.push(SERVER_1)),
            ("was not recovered", |report| report.tamper.missing = 1),
            ("from a wrong sum", |report| report.tamper.threshold = 4),
        ];
        for (telling, spoil) in spoilers {
            let mut report = good();
            spoil(&mut report);
            let failures = report.failures();
            assert_eq!(failures.len(), 1, "{telling}: {failures:?}");
            assert!(failures[0].contains(telling), "{telling}: {failures:?}");
            assert_eq!(report.render(Style::PLAIN, true).matches("FAILED").count(), 1, "{telling}");
        }
    }

    #[test]
    fn a_lie_that_leaves_too_few_servers_must_end_the_round() {
        let mut report = good();
        report.tamper.threshold = 4;
        (report.tamper.recovered, report.tamper.missing) = (0, 3);
        report.tamper.messages.clear();
        assert_eq!(report.failures(), [""; 0]);
        assert!(
            report
                .render(Style::PLAIN, true)
                .contains("server 2 named, 0 recovered: too few servers are left  ok")
        );
    }

    #[test]
    fn a_client_that_lies_costs_its_own_message_only() {
        let client = Party::Client(ClientId(0));
        let mut report = good();
        (report.lie, report.liar, report.tamper.culprits) = (Lie::ClientBadOpening, client, vec![client]);
        assert_eq!(report.failures().len(), 1, "its message came out: {:?}", report.failures());
        (report.tamper.sent, report.tamper.recovered) = (2, 2);
        assert_eq!(report.failures(), [""; 0]);
        report.tamper.threshold = 4;
        assert_eq!(report.failures(), [""; 0], "all servers are there");
    }

    #[test]
    fn a_lane_that_says_nothing_is_missed_and_not_named() {
        let lane = Party::Lane(NodeId(3));
        let mut report = good();
        (report.lie, report.liar, report.spare_lanes) = (Lie::LaneDown, lane, true);
        (report.tamper.culprits, report.tamper.absent) = (Vec::new(), vec![lane]);
        assert_eq!(report.failures(), [""; 0]);
        assert!(
            report
                .render(Style::PLAIN, true)
                .contains("lane 3 is down: lane 3 missed, 3 of 3 recovered without it  ok")
        );
        report.tamper.culprits = vec![lane];
        assert_eq!(report.failures(), ["lane 3 said nothing, but lane 3 was named"]);
        (report.tamper.culprits, report.spare_lanes) = (Vec::new(), false);
        assert_eq!(report.failures().len(), 1, "recovered from too few lanes");
        (report.tamper.recovered, report.tamper.missing) = (0, 3);
        assert_eq!(report.failures(), [""; 0]);
        assert!(report.render(Style::PLAIN, true).contains("0 recovered: too few lanes are left  ok"));
    }
}
