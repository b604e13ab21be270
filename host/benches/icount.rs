//! Instructions that the parts of a round execute, counted by valgrind's callgrind on one thread: exact, so a change of
//! a few per cent shows on any machine, however busy. Times are what `panetiere bench round` measures.
//!
//! `cargo bench -p panetiere-host --bench icount` counts every case and compares it with `icount.json` beside this
//! file: more than 3 % above it is a failure, more than 3 % below it is said. After `--`, `--record` writes the file
//! anew and names select cases; `ICOUNT_KEEP=DIR` keeps the profiles. AVX-512 is hidden by valgrind: the counts are of
//! the AVX2 and of the portable back-end.
//!
//! The program runs itself: once for the whole, under valgrind for each case.

use anyhow::{Context, bail, ensure};
use chipmunk::params::P300;
use chipmunk::ring::backend::Simd;
use panetiere::bulletin::{CanonicalSet, Envelope, PostView, ServerBulletinEntry, VerifiedPost};
use panetiere::channel;
use panetiere::ids::ClientId;
use panetiere::plaintext::PlainPoly;
use panetiere::protocol::{PostSum, ServerRound, decrypt_aggregate, run_client_round};
use panetiere::wire::{DecodeWith, Encode};
use panetiere_host::local::{LocalRound, Route, Shape};
use panetiere_host::seed::Seed;
use rand_core::Rng;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

/// How far above the stored count a case may be.
const TOLERANCE: f64 = 0.03;

/// The reference cell: 300 clients of 16 KiB, 8 servers.
const CLIENTS: u32 = 300;
const BYTES: usize = 16_384;
const SERVERS: u16 = 8;

/// Back-end and part of the round, in the order in which they are counted.
const CASES: [(&str, &str); 10] = [
    ("avx2", "client"),
    ("avx2", "encode"),
    ("avx2", "server-arrival"),
    ("avx2", "server-close"),
    ("avx2", "recipient-arrival"),
    ("avx2", "recipient-close"),
    ("avx2", "decode"),
    ("scalar", "client"),
    ("scalar", "server-arrival"),
    ("scalar", "recipient-arrival"),
];

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    if let [flag, simd, part, sum] = arguments.as_slice()
        && flag == "--case"
    {
        return one_thread()?.install(|| run(simd, part, Path::new(sum)));
    }
    let record = arguments.iter().any(|argument| argument == "--record");
    let chosen: Vec<&String> = arguments.iter().filter(|argument| *argument != "--record").collect();
    ensure!(!record || chosen.is_empty(), "--record writes all counts: name no cases beside it");
    let names: Vec<String> = CASES.iter().map(|(simd, part)| format!("{simd}/{part}")).collect();
    if let Some(unknown) = chosen.iter().find(|name| !names.contains(name)) {
        bail!("no case {unknown}; there are: {}", names.join(", "));
    }
    let chosen = |name: &String| chosen.is_empty() || chosen.contains(&name);
    if record { write(&count_all(chosen)?) } else { compare(&count_all(chosen)?) }
}

/// Everything in one worker, so that callgrind sees one thread do it all.
fn one_thread() -> anyhow::Result<rayon::ThreadPool> {
    Ok(rayon::ThreadPoolBuilder::new().num_threads(1).build()?)
}

/// The stored counts.
fn file() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/icount.json")
}

fn write(counted: &BTreeMap<String, u64>) -> anyhow::Result<()> {
    counted.iter().for_each(|(name, count)| println!("{name:<26} {count:>14}"));
    std::fs::write(file(), serde_json::to_string_pretty(counted)? + "\n")?;
    println!("written to {}", file().display());
    Ok(())
}

fn compare(counted: &BTreeMap<String, u64>) -> anyhow::Result<()> {
    let stored = std::fs::read(file()).with_context(|| file().display().to_string())?;
    let stored: BTreeMap<String, u64> = serde_json::from_slice(&stored)?;
    let mut beyond = Vec::new();
    println!("{:<26} {:>14} {:>14} {:>9}", "case", "instructions", "stored", "change");
    for (name, &count) in counted {
        let Some(&before) = stored.get(name) else {
            println!("{name:<26} {count:>14} {:>14}", "none");
            beyond.push(name.as_str());
            continue;
        };
        #[expect(clippy::cast_precision_loss, reason = "a ratio for people, and for a bound of per cents")]
        let change = count as f64 / before as f64 - 1.0;
        println!("{name:<26} {count:>14} {before:>14} {:>8.2}%", 100.0 * change);
        if change > TOLERANCE {
            beyond.push(name);
        } else if change < -TOLERANCE {
            println!("    fewer than stored: --record keeps the gain");
        }
    }
    ensure!(
        beyond.is_empty(),
        "more than {}% above the stored count, or not stored: {}. If it is meant, run `cargo bench -p panetiere-host \
         --bench icount -- --record` and say why in the commit",
        TOLERANCE * 100.0,
        beyond.join(", ")
    );
    Ok(())
}

/// Counts the chosen cases, in a directory that is gone afterwards.
fn count_all(chosen: impl Fn(&String) -> bool) -> anyhow::Result<BTreeMap<String, u64>> {
    let directory = std::env::temp_dir().join(format!("panetiere-icount-{}", std::process::id()));
    std::fs::create_dir_all(&directory)?;
    let counted = count_in(&directory, chosen);
    std::fs::remove_dir_all(&directory)?;
    counted
}

fn count_in(directory: &Path, chosen: impl Fn(&String) -> bool) -> anyhow::Result<BTreeMap<String, u64>> {
    let sum = directory.join("sum");
    one_thread()?.install(|| prepare(&sum))?;
    let available: Vec<String> = Simd::available().map(|simd| simd.to_string()).collect();
    let mut counted = BTreeMap::new();
    for (simd, part) in CASES {
        let name = format!("{simd}/{part}");
        if !chosen(&name) {
            continue;
        }
        if !available.iter().any(|available| available == simd) {
            println!("{name}: skipped, this CPU has no {simd}");
            continue;
        }
        eprintln!("counting {name}");
        counted.insert(name, count(simd, part, &sum)?);
    }
    Ok(counted)
}

/// One case under callgrind: the instructions inside [`icount_measured`].
fn count(simd: &str, part: &str, sum: &Path) -> anyhow::Result<u64> {
    let profile = sum.with_file_name("profile");
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--collect-atstart=no", "--toggle-collect=*icount_measured*"])
        .arg(format!("--callgrind-out-file={}", profile.display()))
        .arg(std::env::current_exe()?)
        .args(["--case", simd, part])
        .arg(sum)
        .output()
        .context("valgrind does not start: install it (Debian: apt install valgrind)")?;
    if !output.status.success() {
        bail!("{simd}/{part} failed:\n{}", String::from_utf8_lossy(&output.stderr));
    }
    if let Some(keep) = std::env::var_os("ICOUNT_KEEP") {
        std::fs::copy(&profile, PathBuf::from(keep).join(format!("callgrind.{simd}.{part}")))?;
    }
    let profile = std::fs::read_to_string(&profile)?;
    let total = profile.lines().filter_map(|line| line.strip_prefix("totals: ")).next_back();
    let total: u64 = total.context("no totals in callgrind's output")?.trim().parse()?;
    ensure!(total > 0, "{simd}/{part}: nothing was counted, the measured function was not found");
    Ok(total)
}

/// What callgrind counts. Not inlined, so that it has a name.
#[inline(never)]
fn icount_measured(work: &mut dyn FnMut()) {
    work();
    // A tail call would leave this function before the work is done.
    std::hint::black_box(());
}

fn measure<T>(work: impl FnOnce() -> T) -> T {
    let (mut work, mut result) = (Some(work), None);
    icount_measured(&mut || result = work.take().map(|work| work()));
    result.expect("the work was done")
}

fn seed() -> Seed {
    Seed::from_bytes(*b"panetiere icount, seed no. 00001")
}

fn local(simd: &str) -> anyhow::Result<LocalRound> {
    let shape = Shape {
        clients: CLIENTS,
        servers: SERVERS,
        threshold: panetiere::sss::default_threshold(SERVERS),
        min_clients: 2,
        message_bytes: BYTES,
        encoding: channel::Encoding::Sketch,
        route: Route::Direct,
        set: &P300,
        kernels: simd.parse::<Simd>()?.kernels(),
    };
    LocalRound::new(&seed(), shape)
}

fn payload(client: u32) -> Vec<u8> {
    let mut payload = vec![0; BYTES];
    seed().stream(&format!("message {client}")).fill_bytes(&mut payload);
    payload
}

/// Writes the sum of all clients' vectors, which `decode` starts from: made outside valgrind, where it takes seconds.
fn prepare(path: &Path) -> anyhow::Result<()> {
    let local = local(&Simd::detect().to_string())?;
    let t = local.params.kahe().plaintext_modulus();
    let mut sum: Vec<PlainPoly> = (0..local.params.kahe().polys()).map(|_| PlainPoly::zero()).collect();
    for client in 0..CLIENTS {
        let mut rng = seed().stream(&format!("encode {client}"));
        let vector = local.vector(&mut rng, Some(&payload(client)))?;
        for (sum, poly) in sum.iter_mut().zip(&vector) {
            let pairs = sum.coefficients_mut().iter_mut().zip(poly.coefficients());
            pairs.for_each(|(sum, coefficient)| *sum = (*sum + coefficient) % t);
        }
    }
    let scalars = sum.iter().flat_map(PlainPoly::coefficients);
    Ok(std::fs::write(path, scalars.flat_map(|scalar| scalar.to_le_bytes()).collect::<Vec<u8>>())?)
}

fn read_sum(path: &Path) -> anyhow::Result<Vec<PlainPoly>> {
    let bytes = std::fs::read(path)?;
    let scalars: Vec<u64> = bytes.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
    Ok(PlainPoly::from_scalars(&scalars))
}

/// One client's round, as the others see it.
struct Posted {
    verified: VerifiedPost,
    post: Vec<u8>,
    envelopes: Vec<Vec<u8>>,
}

fn post(local: &LocalRound, client: u32) -> anyhow::Result<Posted> {
    let mut rng = seed().stream(&format!("client {client}"));
    let vector = local.vector(&mut rng, Some(&payload(client)))?;
    let keys = local.epoch.envelope_keys();
    let signing = local.clients.get(usize::try_from(client)?).context("no such client")?;
    let id = ClientId(client);
    let round = run_client_round(&mut rng, &local.params, &local.session, id, &vector, &keys, signing)?;
    let verified = round.post.head.signed.check(&local.params, &local.session, &signing.verifying_key())?;
    Ok(Posted {
        verified,
        post: round.post.to_bytes(&local.params),
        envelopes: round.envelopes.iter().map(Envelope::to_bytes).collect(),
    })
}

/// Runs one part of the round; what is inside [`measure`] is counted.
fn run(simd: &str, part: &str, sum: &Path) -> anyhow::Result<()> {
    let local = local(simd)?;
    local.params.kahe().expand();
    match part {
        "client" => {
            let posted = measure(|| post(&local, 0))?;
            ensure!(!posted.post.is_empty() && posted.envelopes.len() == usize::from(SERVERS));
        }
        "encode" => {
            let (mut rng, payload) = (seed().stream("encode"), payload(0));
            let vector = measure(|| local.vector(&mut rng, Some(&payload)))?;
            ensure!(vector.len() == local.params.kahe().polys());
        }
        "decode" => {
            let sum = read_sum(sum)?;
            let messages = measure(|| channel::decode_messages(&local.channel, &local.session, &sum, None))?;
            expect(messages, CLIENTS)?;
        }
        "server-arrival" => {
            let (mut round, posted) = (server(&local, 0)?, post(&local, 0)?);
            measure(|| receive(&local, &mut round, &posted, 0))?;
        }
        "server-close" => {
            let (mut round, posted) = (server(&local, 0)?, two_posts(&local)?);
            posted.iter().try_for_each(|posted| receive(&local, &mut round, posted, 0))?;
            let canonical = two_clients()?;
            measure(|| anyhow::Ok(round.close(&canonical)?.to_bytes(&local.params)))?;
        }
        "recipient-arrival" => {
            let (posted, canonical) = (post(&local, 0)?, two_clients()?);
            let mut posts = PostSum::new(&local.params, local.session, &canonical);
            measure(|| add(&local, &mut posts, &posted))?;
        }
        "recipient-close" => close(&local)?,
        _ => bail!("no part {part}"),
    }
    Ok(())
}

fn expect(mut messages: Vec<Vec<u8>>, clients: u32) -> anyhow::Result<()> {
    let mut sent: Vec<_> = (0..clients).map(payload).collect();
    sent.sort_unstable();
    messages.sort_unstable();
    ensure!(messages == sent, "the messages are not those that were sent");
    Ok(())
}

fn two_clients() -> anyhow::Result<CanonicalSet> {
    Ok(CanonicalSet::new([ClientId(0), ClientId(1)])?)
}

fn two_posts(local: &LocalRound) -> anyhow::Result<[Posted; 2]> {
    Ok([post(local, 0)?, post(local, 1)?])
}

fn server(local: &LocalRound, index: usize) -> anyhow::Result<ServerRound> {
    let identity = local.servers.get(index).context("no such server")?;
    Ok(ServerRound::new(Arc::clone(&local.params), local.session, Arc::clone(identity)))
}

fn receive(local: &LocalRound, round: &mut ServerRound, posted: &Posted, index: usize) -> anyhow::Result<()> {
    let envelope = Envelope::from_bytes_with(&local.params, &posted.envelopes[index])?;
    Ok(round.receive(&posted.verified, &envelope)?)
}

fn add(local: &LocalRound, posts: &mut PostSum<'_>, posted: &Posted) -> anyhow::Result<()> {
    let post = PostView::parse(&local.params, &posted.post)?;
    Ok(posts.add(&local.admitted(post.head.signed.claim().client)?, post)?)
}

/// Verification of eight sums, interpolation and decryption; decoding is a case of its own.
fn close(local: &LocalRound) -> anyhow::Result<()> {
    let (posted, canonical) = (two_posts(local)?, two_clients()?);
    let mut posts = PostSum::new(&local.params, local.session, &canonical);
    posted.iter().try_for_each(|posted| add(local, &mut posts, posted))?;
    let sums = (0..usize::from(SERVERS)).map(|index| {
        let mut round = server(local, index)?;
        posted.iter().try_for_each(|posted| receive(local, &mut round, posted, index))?;
        Ok(round.close(&canonical)?.to_bytes(&local.params))
    });
    let sums = sums.collect::<anyhow::Result<Vec<_>>>()?;
    let recovered = measure(|| {
        let entries = sums.iter().map(|sum| ServerBulletinEntry::from_bytes_with(&local.params, sum));
        let entries = entries.collect::<Result<Vec<_>, _>>()?;
        anyhow::Ok(decrypt_aggregate(&posts, &local.epoch, &entries, &mut |_| {})?)
    })?;
    expect(channel::decode_messages(&local.channel, &local.session, &recovered.plaintext, None)?, 2)
}
