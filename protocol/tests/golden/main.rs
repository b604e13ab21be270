//! The golden vectors of `protocol/vectors/v1`: bytes that must not change, and bytes that must be refused.
//!
//! Regenerate with `cargo run -p panetiere --example vectors --features test-util -- --reason "..."`.

#![expect(clippy::unwrap_used, reason = "a broken vector file is to stop the test")]

mod bad;
mod evidence;
mod generate;
mod groups;
mod lanes;

use data_encoding::HEXLOWER;
use panetiere::bulletin::{
    Answer, CanonicalSet, Checked, ClientBulletinEntry, Envelope, Epoch, GroupSum, LaneBulletinEntry,
    LaneItem, PostStatement, RsClientBulletinEntry, ServerBulletinEntry, SignedPost,
};
use panetiere::cs::{Commitment, FreshOpening};
use panetiere::evidence::{Evidence, Outcome};
use panetiere::fault::{Attribution, Fault};
use panetiere::kahe::{CiphertextSum, KaheError};
use panetiere::pke::PublicKey;
use panetiere::protocol::{ProtocolParams, Terms};
use panetiere::share_commitment::ShareCommitment;
use panetiere::sig::{Signature, VerifyingKey};
use panetiere::testing::deployment;
use panetiere::wire::{Decode, DecodeError, DecodeErrorKind, DecodeWith, Encode};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::LazyLock;

fn directory() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("vectors/v1")
}

static STORED: LazyLock<BTreeMap<String, Value>> = LazyLock::new(|| {
    let mut files = BTreeMap::new();
    for entry in std::fs::read_dir(directory()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "json") {
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            files.insert(name, serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap());
        }
    }
    files
});

static PARAMS: LazyLock<std::sync::Arc<ProtocolParams>> = LazyLock::new(|| {
    std::sync::Arc::clone(&deployment(generate::SEED).servers(2).threshold(2).clients(2).build().params)
});

static GROUP_PARAMS: LazyLock<std::sync::Arc<ProtocolParams>> =
    LazyLock::new(|| std::sync::Arc::clone(&generate::aggregated().params));

static LANE_PARAMS: LazyLock<std::sync::Arc<ProtocolParams>> =
    LazyLock::new(|| std::sync::Arc::clone(&generate::lanes().params));

#[test]
fn bytes_have_not_changed() {
    let fresh = generate::files();
    let names = |files: &BTreeMap<String, Value>| files.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&fresh), names(&STORED), "left: generated; right: stored");
    for (name, stored) in &*STORED {
        // Not assert_eq: a file holds a hundred kilobytes of hex.
        assert!(fresh[name] == *stored, "{name} changed: if that is meant, regenerate it with a reason");
    }
}

/// Parses `bytes` as the named object and writes it again.
fn reencode(object: &str, bytes: &[u8]) -> Result<Vec<u8>, DecodeError> {
    let (params, coded, grouped) = (&**PARAMS, &**LANE_PARAMS, &**GROUP_PARAMS);
    let code = coded.lane_code().unwrap();
    match object {
        "Answer" => Answer::from_bytes_with(params, bytes).map(|answer| answer.to_bytes()),
        "Checked" => Checked::from_bytes_with(params, bytes).map(|checked| checked.to_bytes()),
        "GroupSum" => GroupSum::from_bytes_with(grouped, bytes).map(|sum| sum.to_bytes(grouped)),
        "CanonicalSet" => CanonicalSet::from_bytes(bytes).map(|set| set.to_bytes()),
        "ClientBulletinEntry" => {
            ClientBulletinEntry::from_bytes_with(params, bytes).map(|post| post.to_bytes(params))
        }
        "Commitment" => Commitment::from_bytes(params.lattice(), bytes)
            .map(|commitment| commitment.to_bytes(params.lattice()))
            .map_err(|_| DecodeError { offset: 0, what: "commitment", kind: DecodeErrorKind::OutOfRange }),
        "Envelope" => Envelope::from_bytes_with(params, bytes).map(|envelope| envelope.to_bytes()),
        "Epoch" => Epoch::from_bytes(bytes).map(|epoch| epoch.to_bytes()),
        "Evidence" => Evidence::from_bytes(bytes).map(|evidence| evidence.to_bytes()),
        "FreshOpening" => FreshOpening::from_bytes_with(params.cs(), bytes)
            .map(|opening| opening.to_bytes(params.cs()).to_vec()),
        "LaneBulletinEntry" => LaneBulletinEntry::from_bytes_with(coded, bytes).map(|sum| sum.to_bytes(code)),
        "LaneItem" => LaneItem::from_bytes_with(coded, bytes).map(|item| item.to_bytes()),
        "PostStatement" => PostStatement::from_bytes(bytes).map(|statement| statement.to_bytes()),
        "PublicKey" => PublicKey::from_bytes(bytes).map(|key| key.to_bytes()),
        "RsClientBulletinEntry" => {
            RsClientBulletinEntry::from_bytes_with(coded, bytes).map(|post| post.to_bytes(coded))
        }
        "ShareCommitment" => ShareCommitment::from_bytes(params.lattice(), bytes)
            .map(|commitment| commitment.to_bytes(params.lattice()))
            .map_err(|_| DecodeError { offset: 0, what: "commitment", kind: DecodeErrorKind::OutOfRange }),
        "ServerBulletinEntry" => {
            ServerBulletinEntry::from_bytes_with(params, bytes).map(|sum| sum.to_bytes(params))
        }
        "Signature" => Signature::from_bytes(bytes).map(|signature| signature.to_bytes()),
        "SignedPost" => SignedPost::from_bytes(bytes).map(|post| post.to_bytes()),
        "Terms" => Terms::from_bytes(bytes).map(|terms| terms.to_bytes()),
        "VerifyingKey" => VerifyingKey::from_bytes(bytes).map(|key| key.to_bytes()),
        other => panic!("no such object: {other}"),
    }
}

fn cases(file: &Value) -> impl Iterator<Item = &Value> {
    file["cases"].as_array().unwrap().iter()
}

fn bytes_of(case: &Value) -> Vec<u8> {
    HEXLOWER.decode(case["hex"].as_str().unwrap().as_bytes()).unwrap()
}

#[test]
fn stored_bytes_parse_and_reencode() {
    let mut parsed = 0;
    for (name, file) in STORED.iter().filter(|(name, _)| !name.starts_with("bad_")) {
        let Some(object) = file["object"].as_str() else { continue };
        for case in cases(file) {
            let bytes = bytes_of(case);
            assert!(reencode(object, &bytes).as_ref() == Ok(&bytes), "{name}: {}", case["name"]);
            parsed += 1;
        }
    }
    assert!(parsed >= 20, "{parsed} cases");
}

/// Applies an edit as the files spell it.
fn apply(bytes: &[u8], edit: &Value) -> Vec<u8> {
    let hex = |value: &Value| HEXLOWER.decode(value.as_str().unwrap().as_bytes()).unwrap();
    let number = |value: &Value| usize::try_from(value.as_u64().unwrap()).unwrap();
    let mut out = bytes.to_vec();
    if edit.get("take").is_some() {
        out.truncate(number(&edit["take"]));
    } else if edit.get("append").is_some() {
        out.extend(hex(&edit["append"]));
    } else {
        let (at, with) = (number(&edit["at"]), hex(&edit["put"]));
        out[at..at + with.len()].copy_from_slice(&with);
    }
    out
}

fn described(error: DecodeError) -> Value {
    let (kind, detail) = match error.kind {
        DecodeErrorKind::NotCanonical => ("not_canonical", json!({})),
        DecodeErrorKind::OutOfRange => ("out_of_range", json!({})),
        DecodeErrorKind::Trailing { extra } => ("trailing", json!({ "extra": extra })),
        DecodeErrorKind::Truncated { need, have } => ("truncated", json!({ "need": need, "have": have })),
        DecodeErrorKind::Unexpected { expected, found } => {
            ("unexpected", json!({ "expected": expected, "found": found }))
        }
        _ => panic!("a kind that the vectors do not know: {error}"),
    };
    json!({ "kind": kind, "field": error.what, "offset": error.offset, "detail": detail })
}

/// A post that parses, and whose ciphertext does not.
fn refused_ciphertext(bytes: &[u8]) -> Option<Value> {
    let post = ClientBulletinEntry::from_bytes_with(&**PARAMS, bytes).unwrap();
    let error = CiphertextSum::new(PARAMS.kahe()).add(&post.ciphertext).err()?;
    let KaheError::Malformed { poly, .. } = &error else { panic!("{error}") };
    Some(json!({ "code": error.code(), "poly": poly }))
}

#[test]
fn bad_bytes_are_refused_with_the_stated_error() {
    let mut refused = 0;
    for (name, file) in STORED.iter().filter(|(name, _)| name.starts_with("bad_")) {
        let base: Vec<&Value> = cases(&STORED[file["edits"].as_str().unwrap()]).collect();
        for case in cases(file) {
            let good = bytes_of(base[usize::try_from(case["case"].as_u64().unwrap()).unwrap()]);
            let bytes = apply(&good, &case["edit"]);
            let error = match file["object"].as_str().unwrap() {
                "Ciphertext" => refused_ciphertext(&bytes),
                object => reencode(object, &bytes).err().map(described),
            };
            assert_eq!(error.as_ref(), Some(&case["error"]), "{name}: {}", case["name"]);
            refused += 1;
        }
    }
    assert!(refused >= 80, "{refused} cases");
}

#[test]
fn stored_evidence_convicts_whom_it_says() {
    for case in cases(&STORED["evidence.json"]) {
        let evidence = Evidence::from_bytes(&bytes_of(case)).unwrap();
        let verdict = evidence.verify(PARAMS.lattice().kernels()).unwrap();
        let code = match &verdict.outcome {
            Outcome::Acquits(reason) => reason.code(),
            Outcome::Convicts(finding) => finding.code(),
        };
        let convicted = match verdict.convicted() {
            Attribution::Aggregator(id) => json!({ "aggregator": id.0 }),
            Attribution::Client(id) => json!({ "client": id.0 }),
            Attribution::Lane(id) => json!({ "lane": id.0 }),
            Attribution::Server(id) => json!({ "server": id.0 }),
            _ => Value::Null,
        };
        let found = json!([convicted, code, evidence.kind().name()]);
        assert_eq!(found, json!([case["convicts"], case["code"], case["kind"]]), "{}", case["name"]);
    }
}
