//! A deployment of real processes: TLS on loopback, stores on disk, daemons that are killed and ended as an operator's are.
//!
//! `PANETIERE_SERVICE_KILLS` sets how many daemons are killed (6 without it), `PANETIERE_SERVICE_SEED` which and when.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use panetiere_api::leaf::Leaf;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tempfile::TempDir;

/// For a message to come out while nothing fails.
const PATIENCE: Duration = Duration::from_secs(60);
/// For a process to end after SIGTERM.
const GOING_DOWN: Duration = Duration::from_secs(5);
/// Ports that a deployment may take.
const PORTS: u16 = 64;
/// Longest payload of a round here.
const BYTES: usize = 256;

/// Deployments run one after the other: two cores are few for twelve processes.
static ALONE: Mutex<()> = Mutex::new(());

fn panetiere() -> Command {
    Command::new(env!("CARGO_BIN_EXE_panetiere"))
}

/// The first of consecutive ports that nobody has, below those that the system gives to outgoing connections: one of these
/// could take the port of a daemon that is about to be started again.
fn first_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    for _ in 0..300 {
        let own = u16::try_from(std::process::id() % 300).unwrap();
        let first = 10_000 + (own + NEXT.fetch_add(1, Ordering::Relaxed)) % 300 * PORTS;
        if (first..first + PORTS).all(|port| TcpListener::bind(("127.0.0.1", port)).is_ok()) {
            return first;
        }
    }
    panic!("no {PORTS} free ports in a row");
}

/// Waits until something is so.
fn wait_for<T>(what: &str, patience: Duration, mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begun.elapsed() < patience, "{what}: not after {patience:?}");
        sleep(Duration::from_millis(20));
    }
}

fn ended(what: &str, child: &mut Child, patience: Duration) -> ExitStatus {
    wait_for(&format!("{what} ends"), patience, || child.try_wait().unwrap())
}

fn terminate(child: &Child) {
    assert!(Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap().success());
}

/// A process, killed when the test ends before it.
struct Running {
    /// Its directory below the deployment's.
    name: String,
    child: Child,
    /// Where it writes, and what was there before it.
    log: PathBuf,
    written_before: usize,
}

impl Running {
    /// Waits until a daemon says that it does its work.
    fn ready(&self) {
        wait_for(&format!("{} is ready", self.name), PATIENCE, || {
            let log = fs::read(&self.log).unwrap();
            let own = String::from_utf8_lossy(&log[self.written_before..]);
            own.contains(r#""message":"ready""#).then_some(())
        });
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _status = self.child.wait();
    }
}

struct Service {
    daemons: Vec<Running>,
    /// Clients that take part with cover.
    cover: Option<Running>,
    dir: PathBuf,
    _whole: TempDir,
    _alone: MutexGuard<'static, ()>,
}

impl Drop for Service {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for entry in fs::read_dir(self.dir.join("logs")).unwrap() {
                let path = entry.unwrap().path();
                let text = fs::read_to_string(&path).unwrap_or_default();
                let lines: Vec<&str> = text.lines().collect();
                let last = lines[lines.len().saturating_sub(8)..].join("\n");
                eprintln!("--- {}\n{last}", path.display());
            }
        }
    }
}

impl Service {
    /// Makes a deployment, starts its daemons and three clients with cover.
    fn start(options: &[&str]) -> Self {
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let whole = tempfile::tempdir().unwrap();
        let dir = whole.path().join("deployment");
        let mut init = panetiere();
        init.args(["deploy", "init", "--collect-ms", "1500", "--dir"]).arg(&dir);
        init.args(["--bytes", &BYTES.to_string(), "--first-port", &first_port().to_string()]);
        assert_eq!(init.args(options).output().unwrap().status.code(), Some(0));
        fs::create_dir(dir.join("logs")).unwrap();
        let mut service = Self { daemons: Vec::new(), cover: None, dir, _whole: whole, _alone: alone };
        for role in ["bulletin", "witness", "server", "lane", "aggregator", "recipient"] {
            let parties = fs::read_dir(&service.dir).unwrap().map(|entry| entry.unwrap().file_name());
            let mut names: Vec<String> = parties
                .map(|name| name.into_string().unwrap())
                .filter(|name| name.split('-').next() == Some(role))
                .collect();
            names.sort();
            for name in names {
                let daemon = service.daemon(name);
                service.daemons.push(daemon);
            }
        }
        service.cover = Some(service.client("client", &["--clients", "3"]));
        service
    }

    fn spawn(&self, name: &str, command: &mut Command) -> Running {
        let path = self.dir.join("logs").join(format!("{name}.log"));
        let log = File::options().append(true).create(true).open(&path).unwrap();
        let written_before = usize::try_from(log.metadata().unwrap().len()).unwrap();
        let command = command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        let child = command.spawn().unwrap();
        Running { name: name.to_owned(), child, log: path, written_before }
    }

    fn daemon(&self, name: String) -> Running {
        let role = name.split('-').next().unwrap();
        let config = self.dir.join(&name).join(format!("{role}.toml"));
        self.spawn(&name, panetiere().args([role, "run", "--config"]).arg(config))
    }

    /// A client in a directory of its own.
    fn client(&self, name: &str, arguments: &[&str]) -> Running {
        let directory = self.dir.join(name);
        if !directory.exists() {
            fs::create_dir(&directory).unwrap();
            fs::copy(self.dir.join("client/client.toml"), directory.join("client.toml")).unwrap();
        }
        let config = directory.join("client.toml");
        self.spawn(name, panetiere().args(["client", "send", "--config"]).arg(config).args(arguments))
    }

    /// What came out, round by round, sorted.
    fn messages(&self) -> Vec<String> {
        let mut messages = Vec::new();
        let Ok(rounds) = fs::read_dir(self.dir.join("recipient/data/messages")) else { return messages };
        for round in rounds.map(|entry| entry.unwrap()) {
            // A round that is being written has another name, and is not there any more when it is looked for by it.
            if round.file_name().to_str().unwrap().parse::<u64>().is_ok() {
                for file in fs::read_dir(round.path()).unwrap() {
                    messages.push(fs::read_to_string(file.unwrap().path()).unwrap());
                }
            }
        }
        messages.sort();
        messages
    }

    /// Waits until clients that send have ended well and what they sent is out: everything once, and nothing else.
    fn delivered(&self, senders: Vec<Running>, mut sent: Vec<String>, patience: Duration) {
        let begun = Instant::now();
        for mut sender in senders {
            let left = patience.saturating_sub(begun.elapsed());
            let name = &sender.name;
            assert_eq!(ended(name, &mut sender.child, left).code(), Some(0), "{name}");
        }
        sent.sort();
        wait_for("the messages are out", PATIENCE, || (self.messages().len() >= sent.len()).then_some(()));
        assert!(self.messages() == sent, "not what was sent: {:?}", self.messages());
    }

    /// Ends everything with SIGTERM while clients take part, and reads the log. What had come out is still there.
    fn end(mut self) {
        let out = self.messages();
        let mut running = std::mem::take(&mut self.daemons);
        running.iter().for_each(Running::ready);
        running.extend(self.cover.take());
        for process in &mut running {
            assert_eq!(process.child.try_wait().unwrap(), None, "{} has ended by itself", process.name);
            terminate(&process.child);
        }
        let begun = Instant::now();
        for process in &mut running {
            let left = GOING_DOWN.saturating_sub(begun.elapsed());
            assert_eq!(ended(&process.name, &mut process.child, left).code(), Some(0), "{}", process.name);
        }
        let data = self.dir.join("bulletin/data");
        let fsck = panetiere().args(["log", "fsck"]).arg(&data).output().unwrap();
        assert_eq!(fsck.status.code(), Some(0), "{}", String::from_utf8_lossy(&fsck.stdout));
        assert!(one_sum_per_server(&data) > 0, "no server has summed");
        assert_eq!(self.messages(), out, "nobody has sent since");
    }
}

/// Reads a log: no server has two sums in one session. Returns how many sums there are.
fn one_sum_per_server(data: &Path) -> usize {
    let Output { status, stdout, .. } =
        panetiere().args(["log", "tail", "-n", "10000000", "--json"]).arg(data).output().unwrap();
    assert_eq!(status.code(), Some(0));
    let tail: Value = serde_json::from_slice(&stdout).unwrap();
    let mut sums = BTreeMap::new();
    for entry in tail["entries"].as_array().unwrap() {
        let bytes = data_encoding::BASE64.decode(entry["entry"].as_str().unwrap().as_bytes()).unwrap();
        if let Leaf::ServerSum(signed) = Leaf::parse(&bytes).unwrap() {
            let claim = signed.claim();
            let before = sums.insert((claim.session, claim.server.0), entry["index"].clone());
            assert_eq!(before, None, "server {} has two sums, the other at {}", claim.server, entry["index"]);
        }
    }
    sums.len()
}

/// A message of so many bytes that no other one is.
fn message(name: &str, len: usize) -> String {
    format!("{name} ").repeat(len / (name.len() + 1) + 1)
}

#[test]
fn direct_a_short_and_a_long_message_come_out_once() {
    let service = Service::start(&[]);
    let sent = vec![message("short", 20), message("long", 3 * BYTES)];
    let sender = service.client("sender", &["--clients", "2", &sent[0], &sent[1]]);
    service.delivered(vec![sender], sent, PATIENCE);
    service.end();
}

fn one_message_comes_out(options: &[&str]) {
    let service = Service::start(options);
    let sent = vec![message("one", 100)];
    let sender = service.client("sender", &[&sent[0]]);
    service.delivered(vec![sender], sent, PATIENCE);
    service.end();
}

#[test]
fn lanes_a_message_comes_out_with_an_external_witness() {
    one_message_comes_out(&["--lanes", "4", "--witnesses", "1"]);
}

#[test]
fn aggregators_a_message_comes_out_with_an_external_witness() {
    one_message_comes_out(&["--aggregators", "2", "--witnesses", "1"]);
}

fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap())
}

/// SplitMix64 (Steele, Lea, Flood 2014).
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }
}

#[test]
fn daemons_are_killed_and_every_message_comes_out_once() {
    let kills = variable("PANETIERE_SERVICE_KILLS").unwrap_or(6);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let seed = variable("PANETIERE_SERVICE_SEED").unwrap_or(now.as_secs());
    println!("PANETIERE_SERVICE_SEED={seed}");
    let mut dice = Dice(seed);
    let mut service = Service::start(&[]);
    let (mut senders, mut sent) = (Vec::new(), Vec::new());
    for sender in 0..2 {
        let of_one = (0..kills).flat_map(|number| {
            [message(&format!("s{sender}-{number}"), 20), message(&format!("l{sender}-{number}"), 300)]
        });
        let of_one: Vec<String> = of_one.collect();
        let mut arguments = vec!["--clients", "3"];
        arguments.extend(of_one.iter().map(String::as_str));
        senders.push(service.client(&format!("sender-{sender}"), &arguments));
        sent.extend(of_one);
    }
    let begun = Instant::now();
    for _ in 0..kills {
        sleep(Duration::from_millis(300 + dice.below(1500)));
        let victim = usize::try_from(dice.below(u64::try_from(service.daemons.len()).unwrap())).unwrap();
        let name = service.daemons[victim].name.clone();
        println!("{:>6} ms: {name} is killed", begun.elapsed().as_millis());
        let daemon = &mut service.daemons[victim];
        assert_eq!(daemon.child.try_wait().unwrap(), None, "{name} has ended by itself");
        daemon.child.kill().unwrap();
        daemon.child.wait().unwrap();
        sleep(Duration::from_millis(dice.below(300)));
        service.daemons[victim] = service.daemon(name);
    }
    let patience = PATIENCE + Duration::from_secs(5 * kills);
    service.delivered(senders, sent, patience);
    service.end();
}
