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
        evidence: Vec::new(),
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
