//! `panetiere log` as an operator meets it: on a bulletin's directory, running or not, and on a mirror's.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use panetiere_host::store::disk::LocalDisk;
use panetiere_host::store::{
    BlobName, BlobStore as _, Class, Options, Sequencer, StartError, Store, Submission,
};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;
use tlog::checkpoint::Log;
use tlog::key::NoteSigner;
use tlog::proof::Proof;

const NAME: &str = "bulletin.example/cli";

fn key() -> NoteSigner {
    NoteSigner::from_seed(NAME.parse().unwrap(), &[4; 32])
}

/// A store with 260 leaves and a body.
fn store(directory: &Path) -> (Store, Sequencer) {
    let disk = Arc::new(LocalDisk::new(directory));
    let (store, mut sequencer, _) = Store::open(disk, Options::new(NAME.parse().unwrap(), key()), 1).unwrap();
    let mut writer = store.put(1, Class::Posts, BlobName::of(b"a body")).unwrap();
    writer.write(b"a body").unwrap();
    let blobs = vec![writer.finish().unwrap()];
    let mut batch: Vec<_> = (0..260)
        .map(|number| Submission {
            leaf: Some(format!("entry {number}").into_bytes()),
            ..Submission::default()
        })
        .collect();
    batch[0].blobs = blobs;
    sequencer.tick(1, &batch).unwrap();
    (store, sequencer)
}

fn panetiere(arguments: &[&str], directory: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_panetiere"));
    let (first, rest) = arguments.split_at(2);
    command.args(first).arg(directory).args(rest).output().unwrap()
}

fn text(output: &Output) -> String {
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn fsck(directory: &Path, more: &[&str]) -> (Option<i32>, Value) {
    let output = panetiere(&[&["log", "fsck", "--json"], more].concat(), directory);
    (output.status.code(), serde_json::from_str(&text(&output)).unwrap())
}

/// Every file below a directory with its bytes.
fn bytes(directory: &Path) -> Vec<(String, Vec<u8>)> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(bytes(&path));
        } else {
            files.push((path.display().to_string(), fs::read(&path).unwrap()));
        }
    }
    files.sort();
    files
}

#[test]
fn a_bulletin_is_checked_whole_and_left_as_it_is() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    drop(store(path));
    let before = bytes(path);
    let (code, report) = fsck(path, &[]);
    assert_eq!(code, Some(0), "{report}");
    assert_eq!(
        (&report["published"], &report["stored"], &report["bodies"]),
        (&260.into(), &260.into(), &1.into())
    );
    assert_eq!(report["key"], key().verifier().to_string());
    let output = panetiere(&["log", "fsck"], path);
    assert!(text(&output).ends_with("\nok\n"), "{}", text(&output));
    assert_eq!(bytes(path), before, "fsck changed something");

    let segment = path.join("rounds/1/posts-0000.seg");
    fs::write(&segment, b"A body").unwrap();
    fs::write(path.join("log/tile/0/000"), [0; 8192]).unwrap();
    let (code, report) = fsck(path, &[]);
    assert_eq!(code, Some(3));
    let findings = report["findings"].as_array().unwrap();
    let codes: Vec<_> = findings.iter().map(|finding| finding["code"].as_str().unwrap()).collect();
    assert!(codes.contains(&"published_tile") && codes.contains(&"blob"), "{codes:?}");
    let output = panetiere(&["log", "fsck"], path);
    assert_eq!(output.status.code(), Some(3));
    let text = text(&output);
    assert!(
        text.contains("FAULT       log/tile/0/000: ") && text.contains("rounds/1/posts-0000.seg at 0"),
        "{text}"
    );
}

#[test]
fn a_running_bulletin_is_not_disturbed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let (_store, mut sequencer) = store(path);
    let (code, report) = fsck(path, &[]);
    assert_eq!((code, &report["running"], &report["stored"]), (Some(0), &true.into(), &Value::Null));
    let output = panetiere(&["log", "fsck"], path);
    assert!(text(&output).contains("another process has the directory open"));
    let disk = Arc::new(LocalDisk::new(path));
    let second = Store::open(disk, Options::new(NAME.parse().unwrap(), key()), 1).map(drop);
    assert!(matches!(second, Err(StartError::Locked)), "{second:?}");
    let submission = Submission { leaf: Some(b"after".to_vec()), ..Submission::default() };
    sequencer.tick(2, &[submission]).unwrap().remove(0).unwrap();
    let (_, report) = fsck(path, &["--key", &key().verifier().to_string()]);
    assert_eq!(report["published"], 261);
    assert_eq!(report["key"], key().verifier().to_string());
}

#[test]
fn a_mirror_is_checked_by_its_key() {
    let directory = tempfile::tempdir().unwrap();
    drop(store(directory.path()));
    let mirror = directory.path().join("log");
    let (code, report) = fsck(&mirror, &[]);
    assert_eq!((code, &report["key"]), (Some(0), &Value::Null));
    let output = panetiere(&["log", "fsck"], &mirror);
    assert!(text(&output).contains("not checked: give the log's key with --key"));
    let (code, report) = fsck(&mirror, &["--key", &key().verifier().to_string()]);
    assert_eq!((code, &report["published"]), (Some(0), &260.into()));
    let stranger = NoteSigner::from_seed(NAME.parse().unwrap(), &[5; 32]).verifier().to_string();
    let (code, report) = fsck(&mirror, &["--key", &stranger]);
    assert_eq!((code, &report["findings"][0]["code"]), (Some(3), &"published_checkpoint".into()));
    fs::remove_file(mirror.join("tile/entries/000")).unwrap();
    let (code, report) = fsck(&mirror, &[]);
    assert_eq!(code, Some(3));
    assert_eq!(report["findings"][0]["place"], "tile/entries/000");
}

#[test]
fn the_tail_and_its_receipts_verify() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    drop(store(path));
    let log = Log::new(NAME.parse().unwrap(), vec![key().verifier().clone()]).unwrap();
    for place in [path.to_owned(), path.join("log")] {
        let report: Value =
            serde_json::from_str(&text(&panetiere(&["log", "tail", "-n", "6", "--json"], &place))).unwrap();
        let entries = report["entries"].as_array().unwrap();
        assert_eq!((report["size"].as_u64(), entries.len()), (Some(260), 6));
        for (entry, index) in entries.iter().zip(254..) {
            assert_eq!(entry["index"], index);
            let bytes = data_encoding::BASE64.decode(entry["entry"].as_str().unwrap().as_bytes()).unwrap();
            assert_eq!(bytes, format!("entry {index}").into_bytes());
            let proof = panetiere(&["log", "prove", &index.to_string()], &place).stdout;
            let proof = Proof::parse(&proof).unwrap();
            assert_eq!((proof.index(), proof.verify(&bytes, &log).unwrap().head().size), (index, 260));
        }
        let lines = text(&panetiere(&["log", "tail"], &place));
        assert_eq!(lines.lines().count(), 11);
        assert!(lines.starts_with("260 entries, root "), "{lines}");
    }
    let output = panetiere(&["log", "prove", "260"], path);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8(output.stderr).unwrap().contains("has 260 entries"));
    fs::write(path.join("log/tile/0/000"), [0; 8192]).unwrap();
    assert_eq!(panetiere(&["log", "prove", "3"], path).status.code(), Some(3));
    fs::remove_file(path.join("log/tile/0/000")).unwrap();
    assert_eq!(panetiere(&["log", "prove", "3"], path).status.code(), Some(1));
}

#[test]
fn what_is_no_log_is_a_usage_error() {
    let directory = tempfile::tempdir().unwrap();
    for (path, telling) in
        [(directory.path().to_owned(), "is no log"), (directory.path().join("none"), "cannot be listed")]
    {
        for arguments in [&["log", "fsck"][..], &["log", "tail"], &["log", "prove", "0"]] {
            let output = panetiere(arguments, &path);
            let stderr = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(2), "{stderr}");
            assert!(stderr.starts_with("error: ") && stderr.contains(telling), "{stderr}");
            assert_eq!(stderr.lines().count(), 1);
        }
    }
    assert_eq!(panetiere(&["log", "fsck", "--key", "nonsense"], directory.path()).status.code(), Some(2));
}

#[test]
fn help_has_examples() {
    for (command, example) in [("fsck", "--key"), ("tail", "-n 100"), ("prove", "tlog-proof")] {
        let output =
            Command::new(env!("CARGO_BIN_EXE_panetiere")).args(["log", command, "--help"]).output().unwrap();
        let help = text(&output);
        assert!(help.contains("Example") && help.contains(&format!("panetiere log {command} ")), "{help}");
        assert!(help.contains(example), "{help}");
    }
}
