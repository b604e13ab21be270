//! A real process is killed while it writes, at random times and at named points; whatever it acknowledged is there.
//!
//! Not a test of the usual harness: the same program is the writer, started with the argument `writer`.
//! `PANETIERE_STORE_KILLS` sets how often (40 without it).

use panetiere_host::store::disk::{Disk, LocalDisk};
use panetiere_host::store::log::{Log, Pace};
use panetiere_host::store::{
    BlobName, BlobStore as _, Change, Class, Options, Sequencer, Store, StoreError, Submission, What, fsck,
};
use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tlog::checkpoint::{Log as KnownLog, TreeHead};
use tlog::key::NoteSigner;
use tlog::merkle::{empty_root, verify_consistency};
use tlog::proof::Proof;

/// The points at which a writer stops itself.
const POINTS: [&str; 5] =
    ["after_segment_sync", "before_commit", "after_commit", "after_tiles", "after_publish"];

/// A round has so many bodies; the one before the last is deleted.
const ROUND: u64 = 60;

fn key() -> NoteSigner {
    NoteSigner::from_seed("bulletin.example/kill".parse().expect("a name"), &[3; 32])
}

fn open(directory: &Path) -> (Store, Sequencer) {
    let disk: Arc<dyn Disk> = Arc::new(LocalDisk::new(directory));
    let options = Options {
        segment_bytes: 100_000,
        keep_checkpoints: 1_000_000,
        ..Options::new("bulletin.example/kill".parse().expect("an origin"), key())
    };
    let (store, sequencer, _) =
        Store::open(disk, options, 1_800_000_000).expect("the store opens after any kill");
    (store, sequencer)
}

/// Body `number`: some hundred bytes that follow from it.
fn body(number: u64) -> Vec<u8> {
    let len = usize::try_from(number * 7919 % 3000).expect("small");
    number.to_be_bytes().into_iter().cycle().take(len).collect()
}

fn leaf(number: u64) -> Vec<u8> {
    [&number.to_be_bytes(), &BlobName::of(&body(number)).digest[..]].concat()
}

/// Writes until it is killed, and prints what was acknowledged: a line each, whole or not at all.
fn write_until_killed(directory: &Path) {
    let (store, sequencer) = open(directory);
    let first = sequencer.head().size;
    let pace = Pace { interval: Duration::from_millis(1), pending: 6, most_waiting: 24 };
    let log = Log::start(sequencer, pace, || 1_800_000_000).expect("a thread");
    let deleted = AtomicU64::new(0);
    // Numbers of submissions that may or may not be stored already go on after the last stored one.
    let mut number = first;
    loop {
        let round = number / ROUND;
        if round >= 2 && deleted.swap(round - 1, Ordering::Relaxed) < round - 1 {
            store.delete_round(round - 2).expect("deleted");
        }
        let bytes = body(number);
        let mut writer = store.put(round, Class::Posts, BlobName::of(&bytes)).expect("begun");
        bytes.chunks(1000).for_each(|piece| writer.write(piece).expect("written"));
        let blobs = vec![writer.finish().expect("its own name")];
        let changes = vec![Change {
            namespace: "posts".to_owned(),
            key: number.to_be_bytes().to_vec(),
            what: What::PutNewWithIndex(Vec::new()),
        }];
        let submission = Submission { leaf: Some(leaf(number)), blobs, changes };
        let mut again = Some(submission);
        while let Some(submission) = again.take() {
            let copy = submission.clone();
            let acknowledge = move |outcome: Result<panetiere_host::store::Committed, StoreError>| {
                let receipt = outcome.expect("acknowledged").leaf.expect("it had a leaf");
                let proof = receipt.proof().expect("a receipt").to_string();
                let line = format!("{number} {}\n", data_encoding::BASE64.encode(proof.as_bytes()));
                std::io::stdout().lock().write_all(line.as_bytes()).expect("the parent reads");
            };
            match log.submit(submission, acknowledge) {
                Err(StoreError::Busy { .. }) => {
                    std::thread::sleep(Duration::from_millis(1));
                    again = Some(copy);
                }
                submitted => submitted.expect("the store lives"),
            }
        }
        number += 1;
    }
}

/// Small numbers that follow from a seed.
struct Choices(u64);

impl Choices {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// Runs a writer until it is dead and returns the complete lines that it printed.
fn run_writer(directory: &Path, kill: u64, choices: &mut Choices) -> Vec<String> {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.arg("writer").arg(directory).stdout(Stdio::piped()).stderr(Stdio::null());
    let at_point = kill.is_multiple_of(2);
    if at_point {
        let point = POINTS[usize::try_from(kill / 2).expect("small") % POINTS.len()];
        command.env("PANETIERE_FAIL_POINT", format!("{point}:{}", 1 + choices.below(8)));
    }
    let mut child = command.spawn().expect("the writer starts");
    let stdout = child.stdout.take().expect("piped");
    let reader = std::thread::spawn(move || {
        let (mut reader, mut lines) = (BufReader::new(stdout), Vec::new());
        loop {
            let mut line = String::new();
            match reader.read_line(&mut line) {
                Ok(0) | Err(_) => return lines,
                Ok(_) if line.ends_with('\n') => lines.push(line.trim_end().to_owned()),
                // The last one was cut.
                Ok(_) => {}
            }
        }
    });
    if at_point {
        // A point that it does not come to is a fault of the test.
        let started = Instant::now();
        while child.try_wait().expect("our child").is_none() {
            assert!(started.elapsed() < Duration::from_secs(60), "kill {kill}: the point was never reached");
            std::thread::sleep(Duration::from_millis(1));
        }
    } else {
        std::thread::sleep(Duration::from_millis(20 + choices.below(80)));
        child.kill().expect("our child");
    }
    child.wait().expect("our child");
    reader.join().expect("reads lines")
}

fn parent(kills: u64) {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path();
    let log =
        KnownLog::new("bulletin.example/kill".parse().expect("an origin"), vec![key().verifier().clone()])
            .expect("a log");
    let (mut choices, mut seen, mut acknowledged) = (Choices(5), BTreeSet::new(), 0_u64);
    let mut last = TreeHead { size: 0, root: empty_root() };
    let (mut silent, started) = (0, Instant::now());
    for kill in 0..kills {
        let lines = run_writer(path, kill, &mut choices);
        silent += u64::from(lines.is_empty());
        let disk: Arc<dyn Disk> = Arc::new(LocalDisk::new(path));
        let (store, sequencer) = open(path);
        let head = sequencer.head();
        // Nothing that was ever signed and seen is taken back.
        let proof = store.consistency(last.size, head.size).expect("the sizes of checkpoints");
        verify_consistency(last.size, &last.root, head.size, &head.root, &proof).expect("no fork");
        last = head;
        let deleted = store.rounds().expect("reads").into_iter().next().unwrap_or(0);
        for line in lines {
            let (number, proof) = line.split_once(' ').expect("two words");
            let number: u64 = number.parse().expect("a number");
            let proof = data_encoding::BASE64.decode(proof.as_bytes()).expect("base64");
            let proof = Proof::parse(&proof).expect("a proof");
            let signed = proof.verify(&leaf(number), &log).expect("the receipt verifies").head();
            assert!(
                signed.size <= head.size,
                "kill {kill}: acknowledged at {}, found {}",
                signed.size,
                head.size
            );
            let proof_of_extension = store.consistency(signed.size, head.size).expect("kept");
            verify_consistency(signed.size, &signed.root, head.size, &head.root, &proof_of_extension)
                .expect("the receipt's tree is a beginning of this one");
            assert_eq!(store.leaf(proof.index()).expect("stored"), leaf(number), "kill {kill}");
            store.receipt(proof.index()).expect("provable").verify(&leaf(number), &log).expect("proved");
            let value = store.value("posts", &number.to_be_bytes()).expect("reads");
            assert_eq!(value.as_deref(), Some(&proof.index().to_be_bytes()[..]), "kill {kill}");
            let bytes = body(number);
            let found = store.get(&BlobName::of(&bytes).digest, 0..BlobName::of(&bytes).len);
            match found {
                Ok(found) => assert_eq!(found, bytes, "kill {kill}"),
                Err(StoreError::Deleted { round }) => {
                    assert!(round < deleted, "kill {kill}: {round} of {deleted}")
                }
                Err(error) => panic!("kill {kill}: acknowledged body {number} is lost: {error}"),
            }
            assert!(seen.insert(number), "kill {kill}: {number} acknowledged twice");
            acknowledged += 1;
        }
        drop((store, sequencer));
        let report = fsck::store(&disk).expect("readable");
        assert!(report.findings.is_empty(), "kill {kill}: {:?}", report.findings);
    }
    println!(
        "{kills} kills, {acknowledged} acknowledged, {} in the log, {silent} writers died before their first answer, {:.1} s",
        last.size,
        started.elapsed().as_secs_f64(),
    );
    assert!(acknowledged > kills, "the writers hardly wrote: {acknowledged} answers");
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    if arguments.next().as_deref() == Some("writer") {
        write_until_killed(Path::new(&arguments.next().expect("a directory")));
    } else {
        let kills = std::env::var("PANETIERE_STORE_KILLS").ok();
        parent(kills.map_or(40, |count| count.parse().expect("PANETIERE_STORE_KILLS is a number")));
    }
}
