//! Against an independent implementation: what golang.org/x/mod/sumdb/{tlog,note} makes of the same inputs.
//!
//! `vectors/xmod.json` is the output of `go/main.go` (see `vectors/README.md`). Where Go and that package are installed,
//! the program is run again and must write the same bytes; where they are not, that one test says so and checks nothing.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

use serde::Deserialize;
use sha2::{Digest, Sha256};
use std::process::Command;
use std::sync::LazyLock;
use tlog::builder::Builder;
use tlog::checkpoint::{Checkpoint, Log, TreeHead};
use tlog::key::{Algorithm, Cosigner, KeyRing, NoteSigner, VerifierKey};
use tlog::merkle::{Edge, consistency_proof, inclusion_path, leaf_hash, root};
use tlog::note::Note;
use tlog::tile::{Resource, Tile, new_tiles};
use tlog::witness::{self, Request};

const VECTORS: &str = include_str!("vectors/xmod.json");

#[derive(Deserialize)]
struct Vectors {
    roots: Vec<String>,
    inclusion_digests: Vec<String>,
    consistency_digests: Vec<String>,
    inclusions: Vec<ProofCase>,
    consistencies: Vec<ProofCase>,
    large_root: String,
    tiles: Vec<TileStep>,
    paths: Vec<(u8, u64, u16, String)>,
    trees: Vec<(String, String, String)>,
    signed: Vec<SignedCase>,
    notes: Vec<NoteCase>,
    cosigned: Vec<CosignCase>,
}

#[derive(Deserialize)]
struct ProofCase {
    old: u64,
    new: u64,
    hashes: Vec<String>,
}

#[derive(Deserialize)]
struct TileStep {
    old: u64,
    new: u64,
    first: Vec<(String, String)>,
    digest: String,
}

#[derive(Deserialize)]
struct SignedCase {
    secret: String,
    key: String,
    text: String,
    message: String,
}

#[derive(Deserialize)]
struct NoteCase {
    note: String,
    keys: Vec<String>,
    opened: bool,
    signed: Vec<String>,
}

#[derive(Deserialize)]
struct CosignCase {
    name: String,
    seed: u8,
    key: String,
    time: u64,
    text: String,
    line: String,
}

static GO: LazyLock<Vectors> = LazyLock::new(|| serde_json::from_str(VECTORS).unwrap());
static LEAVES: LazyLock<Vec<[u8; 32]>> =
    LazyLock::new(|| (0..70_000).map(|i| leaf_hash(format!("entry {i}").as_bytes())).collect());

fn hex(bytes: &[u8]) -> String {
    data_encoding::HEXLOWER.encode(bytes)
}

fn digest(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

fn at(index: u64) -> usize {
    index.try_into().unwrap()
}

#[test]
fn the_vectors_are_what_the_go_program_writes() {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/go");
    let source = "/usr/share/gocode/src/golang.org/x/mod/sumdb/tlog";
    if Command::new("go").arg("version").output().is_err() || !std::path::Path::new(source).exists() {
        eprintln!(
            "SKIPPED: Go or x/mod is not installed (apt-get install golang-go golang-golang-x-mod-dev);"
        );
        eprintln!("SKIPPED: the vectors are used as they are.");
        return;
    }
    let run = Command::new("go")
        .args(["run", "main.go"])
        .current_dir(directory)
        .envs([("GO111MODULE", "off"), ("GOPATH", "/usr/share/gocode"), ("GOFLAGS", "")])
        .output()
        .unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    assert!(run.stdout == VECTORS.as_bytes(), "regenerate vectors/xmod.json and say why it changed");
}

#[test]
fn roots_are_the_same() {
    assert_eq!(GO.roots.len(), 301);
    let mut edge = Edge::new();
    for (n, expected) in GO.roots.iter().enumerate() {
        assert_eq!(hex(&root(&LEAVES[..n])), *expected, "{n} leaves");
        assert_eq!(hex(&edge.root()), *expected, "{n} leaves");
        edge.append(LEAVES[n]).unwrap();
    }
    assert_eq!(hex(&root(&LEAVES)), GO.large_root);
}

#[test]
fn proofs_are_the_same() {
    for n in 1..=300 {
        let leaves = &LEAVES[..n];
        let inclusions: Vec<_> = (0..n).flat_map(|index| inclusion_path(leaves, index)).flatten().collect();
        assert_eq!(digest(&inclusions), GO.inclusion_digests[n - 1], "inclusion in {n}");
        let consistencies: Vec<_> =
            (1..=n as u64).flat_map(|old| consistency_proof(leaves, old).unwrap()).flatten().collect();
        assert_eq!(digest(&consistencies), GO.consistency_digests[n - 1], "consistency with {n}");
    }
    let hexes = |hashes: Vec<[u8; 32]>| hashes.iter().map(|hash| hex(hash)).collect::<Vec<_>>();
    for case in &GO.inclusions {
        let path = inclusion_path(&LEAVES[..at(case.new)], at(case.old));
        assert_eq!(hexes(path), case.hashes, "leaf {} of {}", case.old, case.new);
    }
    for case in &GO.consistencies {
        let proof = consistency_proof(&LEAVES[..at(case.new)], case.old).unwrap();
        assert_eq!(hexes(proof), case.hashes, "{} to {}", case.old, case.new);
    }
    assert_eq!((GO.inclusions.len(), GO.consistencies.len()), (13 + 4 + 9, 13 + 4 + 9));
}

/// x/mod's paths carry the height, which C2SP fixes and leaves out.
fn go_path(tile: Tile) -> String {
    tile.to_string().replacen("tile/", "tile/8/", 1)
}

#[test]
fn tiles_are_the_same() {
    let mut builder = Builder::new();
    for step in &GO.tiles {
        assert_eq!(builder.size(), step.old);
        for index in step.old..step.new {
            builder.append(format!("entry {index}").as_bytes()).unwrap();
        }
        let mut written: Vec<(Tile, String)> = builder
            .take_changes()
            .into_iter()
            .filter_map(|written| match written.resource {
                Resource::Tile(tile) => Some((tile, digest(&written.bytes))),
                _ => None,
            })
            .collect();
        // x/mod lists by level, then index.
        written.sort();
        let named: Vec<Tile> = written.iter().map(|(tile, _)| *tile).collect();
        assert_eq!(named, new_tiles(step.old, step.new).unwrap().collect::<Vec<_>>());
        let listed: Vec<(String, String)> =
            written.into_iter().map(|(tile, content)| (go_path(tile), content)).collect();
        assert_eq!(listed[..step.first.len()], step.first, "{} to {}", step.old, step.new);
        let lines: String = listed.iter().map(|(path, content)| format!("{path} {content}\n")).collect();
        assert_eq!(digest(lines.as_bytes()), step.digest, "{} to {}", step.old, step.new);
    }
    assert_eq!(hex(&builder.root()), GO.large_root);
    for (level, index, width, path) in &GO.paths {
        assert_eq!(go_path(Tile::new(*level, *index, *width).unwrap()), *path);
    }
}

/// x/mod's tree note is a C2SP checkpoint with a fixed origin.
#[test]
fn tree_notes_are_checkpoints() {
    for (size, root, text) in &GO.trees {
        let checkpoint: Checkpoint = text.parse().unwrap();
        assert_eq!(checkpoint.origin().as_str(), "go.sum database tree");
        assert_eq!(checkpoint.head().size.to_string(), *size);
        assert_eq!(data_encoding::BASE64.encode(&checkpoint.head().root), *root);
        assert_eq!(checkpoint.to_string(), *text);
    }
    assert_eq!(GO.trees.len(), 4);
}

#[test]
fn signed_notes_are_the_same() {
    for case in &GO.signed {
        let signer = NoteSigner::from_secret_text(&case.secret).unwrap();
        assert_eq!(*signer.to_secret_text(), case.secret);
        assert_eq!(signer.verifier().to_string(), case.key);
        assert_eq!(case.key.parse().as_ref(), Ok(signer.verifier()));
        let note = Note::new(case.text.clone(), vec![signer.sign(&case.text)]).unwrap();
        assert_eq!(note.to_string(), case.message);
        assert_eq!(Note::parse(case.message.as_bytes()), Ok(note));
    }
    assert_eq!(GO.signed.len(), 7);
}

/// What x/mod refuses, we refuse; what it opens, we open with the same keys, but for the two differences named here.
#[test]
fn notes_open_for_the_same_keys() {
    let mut stricter = 0;
    for (place, case) in GO.notes.iter().enumerate() {
        let keys: Vec<VerifierKey> = case.keys.iter().map(|key| key.parse().unwrap()).collect();
        let ring = KeyRing::new(Algorithm::Ed25519, keys).unwrap();
        let opened = Note::parse(case.note.as_bytes()).and_then(|note| {
            let verified = note.verify(&ring)?;
            Ok(verified.iter().map(|one| format!("{}+{}", one.key.name(), one.key.id())).collect())
        });
        let signed: Vec<String> = opened.unwrap_or_default();
        if case.opened && signed.is_empty() {
            // A known key's second, wrong signature: we look at every line. Base64 with stray bits: we take one
            // spelling.
            let second_line_wrong = place == 12;
            let stray_bits = case.note.contains(" AAAAAAB=\n");
            assert!(second_line_wrong || stray_bits, "case {place}: {:?}", case.note);
            stricter += 1;
            continue;
        }
        assert_eq!(signed, case.signed, "case {place}: {:?}", case.note);
        assert_eq!(!signed.is_empty(), case.opened, "case {place}: {:?}", case.note);
    }
    assert_eq!((GO.notes.len(), stricter), (48, 2));
}

#[test]
fn cosignatures_are_the_same() {
    for case in &GO.cosigned {
        let cosigner = Cosigner::from_seed(case.name.parse().unwrap(), &[case.seed; 32]);
        assert_eq!(cosigner.verifier().to_string(), case.key);
        assert_eq!(case.key.parse().as_ref(), Ok(cosigner.verifier()));
        let checkpoint: Checkpoint = case.text.parse().unwrap();
        let key = NoteSigner::from_seed("log".parse().unwrap(), &[1; 32]);
        let log = Log::new(checkpoint.origin().clone(), vec![key.verifier().clone()]).unwrap();
        let request = Request::new(0, vec![], checkpoint.sign(&key).unwrap()).unwrap();
        let accepted = witness::check(&log, None, &request).unwrap();
        assert_eq!(accepted.head(), TreeHead { size: 20_852_163, root: checkpoint.head().root });
        let line = accepted.cosign(&cosigner, case.time).unwrap();
        assert_eq!(line.to_string(), case.line);
        assert_eq!(cosigner.verifier().verify(&case.text, line.bytes()), Ok(Some(case.time)));
    }
    assert_eq!(GO.cosigned.len(), 4);
}
