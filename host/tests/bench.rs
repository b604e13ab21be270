//! `panetiere bench` as a person runs it, at a size that takes no time.

use serde_json::Value;
use std::process::{Command, Output};

fn bench(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_panetiere"))
        .arg("bench")
        .args(arguments)
        .output()
        .expect("the program starts")
}

fn number(report: &Value, path: &str) -> f64 {
    let value = path.split('.').fold(report, |value, key| &value[key]);
    value.as_f64().unwrap_or_else(|| panic!("{path} is {value}"))
}

#[test]
fn round_has_every_promised_key() {
    let output = bench(&["round", "--clients", "3", "--bytes", "64", "--servers", "3", "--json"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.stderr.is_empty());
    let report: Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
    for phase in ["encode", "keygen", "encrypt", "share", "commit", "seal", "pack", "total"] {
        assert!(number(&report, &format!("client.{phase}_ms")) > 0.0, "{phase}");
    }
    for path in [
        "server.arrival_per_client_ms",
        "server.close_ms",
        "recipient.arrival_per_post_ms",
        "recipient.close.verify_ms",
        "recipient.close.interpolate_ms",
        "recipient.close.decrypt_ms",
        "recipient.close.decode_ms",
        "recipient.close_total_ms",
        "bytes.post",
        "bytes.envelopes",
        "bytes.server_entry",
        "yardsticks.sha256_gb_s",
        "yardsticks.aes256gcm_gb_s",
        "threads",
    ] {
        assert!(number(&report, path) > 0.0, "{path}");
    }
    for role in ["client", "server", "recipient"] {
        assert!(number(&report, &format!("peak_rss_bytes.{role}")) > 1e6, "{role}");
    }
    assert!(report["simd"].is_string() && report["cpu"].is_string());
}

#[test]
fn round_with_lanes_has_every_promised_key() {
    let shape = ["round", "--clients", "3", "--bytes", "64", "--servers", "3", "--lanes", "2x4"];
    let output = bench(&[shape.as_slice(), &["--encoding", "peeling", "--json"]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
    for path in [
        "client.encrypt_ms",
        "client.lanes_ms",
        "client.total_ms",
        "server.arrival_per_client_ms",
        "server.close_ms",
        "lane.arrival_per_client_ms",
        "lane.close_ms",
        "recipient.arrival_per_post_ms",
        "recipient.close.parse_lanes_ms",
        "recipient.close.verify_lanes_ms",
        "recipient.close.reconstruct_ms",
        "recipient.close.verify_ms",
        "recipient.close_total_ms",
        "bytes.post",
        "bytes.lane_item",
        "bytes.lane_sum",
    ] {
        assert!(number(&report, path) > 0.0, "{path}");
    }
    for role in ["client", "server", "lane", "recipient"] {
        assert!(number(&report, &format!("peak_rss_bytes.{role}")) > 1e6, "{role}");
    }
    assert_eq!((&report["lanes"], &report["encoding"]), (&"2x4".into(), &"peeling".into()));
}

#[test]
fn every_back_end_has_its_kernels_timed() {
    let output = bench(&["kernels", "--simd", "scalar", "--json"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
    assert_eq!(report["simd"], "scalar");
    assert!(number(&report, "dependent_add_ns") > 0.0);
    let kernels = report["kernels_ns"].as_object().expect("an object of kernels");
    assert!(kernels.len() >= 10 && kernels.values().all(|time| time.as_f64().is_some_and(|ns| ns > 0.0)));
}

#[test]
fn bad_shapes_are_usage_errors() {
    for arguments in [
        ["round", "--clients", "1"],
        ["round", "--clients", "1001"],
        ["round", "--servers", "0"],
        ["round", "--threads", "0"],
        ["round", "--servers", "65"],
        ["round", "--threads", "257"],
        ["round", "--bytes", "0"],
        ["round", "--bytes", "223697"],
        ["round", "--bytes", "18446744073709551615"],
        ["round", "--simd", "mmx"],
        ["round", "--encoding", "slots"],
        ["round", "--lanes", "3x4"],
        ["round", "--lanes", "9x8"],
    ] {
        let output = bench(&arguments);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {text}");
        assert!((1..=3).contains(&text.lines().count()), "{arguments:?}: {text}");
        assert!(text.contains(arguments[1]), "{arguments:?}: {text}");
    }
}

#[test]
fn store_has_every_promised_key_and_leaves_nothing() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().to_str().expect("UTF-8");
    let sizes =
        ["--posts", "200", "--waiting", "64", "--bodies", "3", "--body-bytes", "700000", "--writers", "2"];
    let output = bench(&[&["store", "--dir", path, "--json"], &sizes[..]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
    for path in [
        "small.ticks",
        "small.store_posts_per_second",
        "small.plain_posts_per_second",
        "small.store_to_plain",
        "large.mb_per_second",
        "large.bytes",
    ] {
        assert!(number(&report, path) > 0.0, "{path}");
    }
    assert_eq!(std::fs::read_dir(directory.path()).expect("readable").count(), 0);
}
