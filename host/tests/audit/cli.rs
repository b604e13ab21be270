//! The programs: export, audit, evidence, list, inspect.

use crate::scene::*;
use panetiere::ids::ClientId;
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

fn panetiere(arguments: &[&str], paths: &[(&str, &Path)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_panetiere"));
    command.args(arguments);
    for (option, path) in paths {
        if !option.is_empty() {
            command.arg(option);
        }
        command.arg(path);
    }
    command.output().unwrap()
}

fn text(output: &Output) -> String {
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn keys(value: &Value) -> Vec<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

#[test]
fn export_audit_list_inspect() {
    let copy = Copy::honest(31, Mode::Direct);
    let (anchor, out) = (copy.anchor_file(), copy.temporary.path().join("exported"));
    let exported = panetiere(&["log", "export", "--json"], &[("", &copy.data()), ("", &out)]);
    let report: Value = serde_json::from_str(&text(&exported)).unwrap();
    // 5 posts, 4 sums, the messages, the closing checkpoint.
    assert_eq!(
        (exported.status.code(), &report["bodies"], &report["deleted"]),
        (Some(0), &11.into(), &0.into())
    );
    let fsck = panetiere(&["log", "fsck"], &[("", &out)]);
    assert_eq!(fsck.status.code(), Some(0), "{}", text(&fsck));

    for log in [&out, &copy.data()] {
        let audit = panetiere(&["round", "audit", "1"], &[("--log", log), ("--anchor", &anchor)]);
        let shown = text(&audit);
        assert_eq!(audit.status.code(), Some(0), "{shown}");
        assert!(shown.lines().all(|line| line.chars().count() <= 80), "{shown}");
        assert!(
            shown.ends_with("all right\n") && shown.contains("recomputed it decodes to 5 messages"),
            "{shown}"
        );
    }
    let audit = panetiere(&["round", "audit", "1", "--json"], &[("--log", &out), ("--anchor", &anchor)]);
    let report: Value = serde_json::from_str(&text(&audit)).unwrap();
    let expected = [
        "anchor_beside_log",
        "leaves",
        "lines",
        "log_root",
        "log_size",
        "messages",
        "named",
        "round",
        "session",
        "verdict",
    ];
    assert_eq!(keys(&report), expected);
    assert_eq!(
        keys(&report["lines"][0]),
        ["code", "convicts", "evidence", "outcome", "party", "source", "text"]
    );
    assert_eq!(keys(&report["leaves"][0]), ["code", "counts", "index", "kind", "reason"]);
    assert_eq!(
        (&report["verdict"], &report["messages"], &report["round"]),
        (&"ok".into(), &5.into(), &1.into())
    );
    let codes: Vec<_> =
        report["lines"].as_array().unwrap().iter().map(|line| line["code"].as_str().unwrap()).collect();
    let expected = [
        "log_files",
        "log_root",
        "epoch",
        "capacity",
        "round_leaves",
        "checked",
        "set",
        "closing_quorum",
        "bodies",
        "bodies",
        "opened",
        "decoded",
        "result",
        "messages",
    ];
    assert_eq!(codes, expected);

    let list = panetiere(&["round", "list"], &[("--log", &out), ("--anchor", &anchor)]);
    let shown = text(&list);
    assert_eq!((list.status.code(), shown.lines().count()), (Some(0), 2), "{shown}");
    assert!(
        shown.lines().last().unwrap().split_whitespace().eq(["1", "0", "6", "recovered", "5", "5", "4", "5"]),
        "{shown}"
    );
    let list = panetiere(&["round", "list", "--json"], &[("--log", &out), ("--anchor", &anchor)]);
    let report: Value = serde_json::from_str(&text(&list)).unwrap();
    let expected = ["clients", "epoch", "messages", "opened_at", "posts", "round", "server_sums", "state"];
    assert_eq!(keys(&report["rounds"][0]), expected);
    let inspect = panetiere(&["round", "inspect", "1", "--json"], &[("--log", &out), ("--anchor", &anchor)]);
    let report: Value = serde_json::from_str(&text(&inspect)).unwrap();
    assert_eq!((&report["state"], &report["leaves"]["post"]["count"]), (&"recovered".into(), &5.into()));
    let inspect = panetiere(&["round", "inspect", "1"], &[("--log", &out), ("--anchor", &anchor)]);
    assert!(text(&inspect).lines().all(|line| line.chars().count() <= 80));
}

#[test]
fn exit_codes_and_evidence() {
    let mut stage = stage(32, Mode::Direct);
    let (session, sent) = stage.closed();
    stage.summed(&session, &sent, &[1]);
    let wrong = stage.wrong_sum(&session, 1, &sent, ClientId(1));
    stage.add_server_sum(&wrong);
    let copy = Copy::new(stage, None);
    let (anchor, found) = (copy.anchor_file(), copy.temporary.path().join("found"));
    let paths: [(&str, &Path); 3] =
        [("--log", &copy.mirror()), ("--anchor", &anchor), ("--evidence", &found)];
    let audit = panetiere(&["round", "audit", "1"], &paths);
    let shown = text(&audit);
    assert_eq!(audit.status.code(), Some(3), "{shown}");
    assert!(
        shown.contains("named: server 1, evidence in")
            && shown.contains("1 faults, 0 things missing; named: server 1"),
        "{shown}"
    );
    let files: Vec<_> = fs::read_dir(&found).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(files.len(), 1);
    let verdict = panetiere(&["evidence", "verify"], &[("", &files[0])]);
    assert_eq!(verdict.status.code(), Some(3));
    assert!(text(&verdict).starts_with("server 1 is convicted"));

    // 1: something is missing.
    let (_temporary, spoilt) = copy.again();
    fs::remove_file(spoilt.join("rounds/1/posts/0")).unwrap();
    let audit = panetiere(&["round", "audit", "1"], &[("--log", &spoilt), ("--anchor", &anchor)]);
    assert_eq!(audit.status.code(), Some(1), "{}", text(&audit));
    assert!(text(&audit).contains("post of client 0"), "{}", text(&audit));
    // An anchor beside the log is no anchor, and the output says so.
    fs::copy(&anchor, copy.mirror().join("anchor.toml")).unwrap();
    let audit = panetiere(&["round", "audit", "1"], &[("--log", &copy.mirror())]);
    assert!(text(&audit).contains("lies beside the log"));

    // 2: the command line, or the anchor.
    let other = copy.temporary.path().join("other.toml");
    fs::write(&other, "origin = \"x\"\ncolour = 1\n").unwrap();
    type Case<'a> = (&'a [&'a str], &'a [(&'a str, &'a Path)]);
    let usage: [Case<'_>; 5] = [
        (&["round", "audit", "0"], &[("--log", &copy.mirror())]),
        (&["round", "audit", "1"], &[("--anchor", &anchor)]),
        (&["round", "audit", "1"], &[("--log", &copy.mirror()), ("--anchor", &other)]),
        (&["round", "audit", "1"], &[("--log", &spoilt)]),
        (&["round", "audit", "1"], &[("--log", &found.join("nowhere")), ("--anchor", &anchor)]),
    ];
    for (arguments, paths) in usage {
        let output = panetiere(arguments, paths);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(
            (output.status.code(), output.stdout.len()),
            (Some(2), 0),
            "{arguments:?} {paths:?}: {stderr}"
        );
        assert!(stderr.starts_with("error: ") && stderr.lines().count() <= 3, "{stderr}");
    }
    // Another log's anchor: the checkpoint is not its.
    let stranger = crate::scene::stage(33, Mode::Direct);
    fs::write(&other, panetiere_host::anchor::to_text(&stranger.scene.anchor())).unwrap();
    let audit = panetiere(&["round", "audit", "1"], &[("--log", &copy.mirror()), ("--anchor", &other)]);
    assert_eq!(audit.status.code(), Some(3), "{}", text(&audit));
}
