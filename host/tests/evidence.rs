//! `panetiere evidence verify` on real files: those of the golden vectors, whole, damaged and honest.

use data_encoding::HEXLOWER;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn verify(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_panetiere"))
        .args(["evidence", "verify"])
        .args(arguments)
        .output()
        .expect("the program starts")
}

fn cases() -> Vec<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../protocol/vectors/v1/evidence.json");
    let file: Value = serde_json::from_slice(&fs::read(path).expect("the vectors")).expect("JSON");
    file["cases"].as_array().expect("cases").clone()
}

fn bytes_of(case: &Value) -> Vec<u8> {
    HEXLOWER.decode(case["hex"].as_str().expect("hex").as_bytes()).expect("hex")
}

fn written(name: &str, bytes: &[u8]) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::write(&path, bytes).expect("the target directory is writable");
    path
}

#[test]
fn evidence_convicts_with_exit_code_3_and_names_whom_and_of_what() {
    let mut convicted = 0;
    for (at, case) in cases().iter().enumerate() {
        let path = written(&format!("evidence-{at}.ev"), &bytes_of(case));
        let path = path.to_str().expect("a UTF-8 path");
        let (text, json) = (verify(&[path]), verify(&[path, "--json"]));
        let report: Value = serde_json::from_slice(&json.stdout).expect("one JSON object");
        let text_out = String::from_utf8(text.stdout).expect("UTF-8");
        let first = text_out.lines().next().expect("a line");
        assert!(text.stderr.is_empty() && json.stderr.is_empty(), "{}", case["name"]);
        assert_eq!(report["code"], case["code"], "{}", case["name"]);
        assert_eq!(report["kind"], case["kind"], "{}", case["name"]);
        let expected = case["convicts"].as_object().map(|party| {
            let (role, id) = party.iter().next().expect("a party");
            format!("{role} {id}")
        });
        assert_eq!(report["convicts"].as_str(), expected.as_deref(), "{}", case["name"]);
        let (exit, says) = match &expected {
            Some(party) => (3, format!("{party} is convicted: ")),
            None => (0, "nobody is convicted".to_owned()),
        };
        assert_eq!((text.status.code(), json.status.code()), (Some(exit), Some(exit)), "{first}");
        assert!(first.starts_with(&says), "{first}");
        assert!(text_out.contains("checked ") && text_out.contains("session "), "{text_out}");
        convicted += usize::from(expected.is_some());
    }
    assert!(convicted >= 10, "{convicted}");
}

#[test]
fn what_is_no_evidence_is_a_usage_error_in_one_line() {
    let good = bytes_of(&cases()[0]);
    let mut other_type = good.clone();
    other_type[0] ^= 1;
    let files = [
        ("empty.ev", Vec::new()),
        ("cut.ev", good[..good.len() - 1].to_vec()),
        ("long.ev", [&good[..], &[0]].concat()),
        ("type.ev", other_type),
        ("text.ev", b"server 1 lied, believe me\n".to_vec()),
    ];
    let paths = files.map(|(name, bytes)| written(name, &bytes));
    let missing = Path::new(env!("CARGO_TARGET_TMPDIR")).join("there is no such file.ev");
    for path in paths.iter().chain([&missing]) {
        for json in [&[][..], &["--json"]] {
            let output = verify(&[&[path.to_str().expect("a UTF-8 path")], json].concat());
            let stderr = String::from_utf8(output.stderr).expect("UTF-8");
            assert_eq!(output.status.code(), Some(2), "{stderr}");
            assert!(output.stdout.is_empty(), "{}", path.display());
            assert!(stderr.starts_with("error: ") && stderr.lines().count() == 1, "{stderr}");
        }
    }
    assert_eq!(verify(&[]).status.code(), Some(2));
}

#[test]
fn a_changed_byte_of_what_was_signed_acquits() {
    let mut bytes = bytes_of(&cases()[0]);
    let last = bytes.len() - 1;
    bytes[last - 4400] ^= 1;
    let path = written("edited.ev", &bytes);
    let output = verify(&[path.to_str().expect("a UTF-8 path"), "--json"]);
    let report: Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
    assert_eq!((output.status.code(), &report["convicts"]), (Some(0), &Value::Null), "{report}");
    assert_eq!(report["accused"], "server 1");
}
