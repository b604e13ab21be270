//! `panetiere bench store`: what durability costs on this disk.
//!
//! Small posts go through the store and, in turns within the same run, the same bytes go to a file that is synced after
//! each group: the ratio says what log, index and proofs add, whatever the disk does that day. Large bodies say how many
//! bytes reach the disk for each that came in, and how much memory that takes.

use super::machine;
use crate::cli::Exit;
use crate::store::disk::{Disk, LocalDisk};
use crate::store::log::{Log, Pace};
use crate::store::{BlobName, BlobStore, Class, Options, Store, Submission};
use anyhow::Context as _;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tlog::key::NoteSigner;

/// Bytes of a small post's body: a post whose ciphertext the lanes carry.
const POST_BYTES: usize = 8_800;

/// Bytes of a leaf.
const LEAF_BYTES: usize = 300;

/// Bytes that a body arrives in at a time.
const PIECE: usize = 1 << 18;

/// Turns that the two writers of small posts take.
const TURNS: u64 = 4;

/// What to write.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Args {
    /// Directory to make the bench's own in, on the disk to measure
    #[arg(long, value_name = "DIR", default_value_os_t = std::env::temp_dir())]
    dir: PathBuf,

    /// Small posts, of 8,800 bytes and a leaf of 300 each
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    posts: u64,

    /// Small posts in a round: the most clients of the larger parameter set
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..))]
    round_posts: u64,

    /// Small posts that wait for their answer at a time
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = clap::value_parser!(u64).range(1..=4096))]
    waiting: u64,

    /// Large bodies
    #[arg(long, value_name = "N", default_value_t = 300)]
    bodies: u64,

    /// Bytes of a large body
    #[arg(long, value_name = "BYTES", default_value_t = 6_000_000)]
    body_bytes: u64,

    /// Threads that write large bodies
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=64))]
    writers: u16,

    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

/// Measures, prints and removes its files.
pub(crate) fn execute(args: &Args) -> anyhow::Result<Exit> {
    let directory = args.dir.join(format!("panetiere-bench-store-{}", std::process::id()));
    fs::create_dir(&directory).with_context(|| format!("cannot create {}", directory.display()))?;
    let report = measure(args, &directory);
    fs::remove_dir_all(&directory).with_context(|| format!("cannot remove {}", directory.display()))?;
    super::print(&report?, args.json)?;
    Ok(Exit::Ok)
}

fn measure(args: &Args, directory: &Path) -> anyhow::Result<Value> {
    // First, so that the peak is its own.
    let large = large(args, &directory.join("large"))?;
    let small = small(args, &directory.join("small"))?;
    Ok(json!({"cpu": machine::cpu(), "large": large, "small": small}))
}

fn start(directory: &Path) -> anyhow::Result<Log> {
    fs::create_dir(directory)?;
    let disk: Arc<dyn Disk> = Arc::new(LocalDisk::new(directory));
    let name = "bench.invalid/store";
    let key = NoteSigner::from_seed(name.parse()?, &[1; 32]);
    let (_, sequencer, _) = Store::open(disk, Options::new(name.parse()?, key), 0)?;
    // Posts that wait make the ticks here. The last ones of a turn are not to be timed with a wait for nothing.
    let pace = Pace { interval: Duration::from_millis(5), ..Pace::default() };
    Ok(Log::start(sequencer, pace, || 0)?)
}

/// Bytes that no two numbers share and that do not compress to nothing: SplitMix64 of a counter.
fn fill(number: u64, bytes: &mut [u8]) {
    let mut state = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    for chunk in bytes.chunks_mut(8) {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = state;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        chunk.copy_from_slice(&(word ^ (word >> 31)).to_le_bytes()[..chunk.len()]);
    }
}

/// Bytes that this process sent to the disk so far, as the kernel counts pages. None where it does not.
fn disk_bytes() -> Option<u64> {
    let text = fs::read_to_string("/proc/self/io").ok()?;
    text.lines().find_map(|line| line.strip_prefix("write_bytes: "))?.parse().ok()
}

fn per_second(count: u64, time: Duration) -> f64 {
    // Counts of a bench are far below 2^52.
    #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
    let count = count as f64;
    (count / time.as_secs_f64() * 10.0).round() / 10.0
}

#[expect(clippy::cast_precision_loss, reason = "a ratio for people")]
fn ratio(one: u64, other: u64) -> f64 {
    (one as f64 / other as f64 * 1000.0).round() / 1000.0
}

fn small(args: &Args, directory: &Path) -> anyhow::Result<Value> {
    let log = start(directory)?;
    let plain = File::create_new(directory.with_extension("plain"))?;
    let (mut store_time, mut plain_time) = (Duration::ZERO, Duration::ZERO);
    let (mut ticks, mut offset, mut store_bytes, mut plain_bytes) = (0, 0, 0, 0);
    for turn in 0..TURNS {
        let numbers = args.posts * turn / TURNS..args.posts * (turn + 1) / TURNS;
        let count = numbers.end - numbers.start;
        // Made beforehand, as they would come from a network.
        let posts: Vec<_> = numbers
            .map(|number| {
                let (mut body, mut leaf) = (vec![0; POST_BYTES], vec![0; LEAF_BYTES]);
                fill(number, &mut body);
                fill(!number, &mut leaf);
                (1 + number / args.round_posts, BlobName::of(&body), body, leaf)
            })
            .collect();
        let (before, started) = (disk_bytes(), Instant::now());
        let in_turn = through_store(&log, &posts, usize::try_from(args.waiting)?)?;
        store_time += started.elapsed();
        store_bytes += disk_bytes().zip(before).map_or(0, |(after, before)| after - before);
        ticks += in_turn;
        // As many groups as the store made of them.
        let group = usize::try_from(count.div_ceil(in_turn.max(1)))?;
        let (before, started) = (disk_bytes(), Instant::now());
        for posts in posts.chunks(group.max(1)) {
            for (_, _, body, leaf) in posts {
                for bytes in [body, leaf] {
                    plain.write_all_at(bytes, offset)?;
                    offset += u64::try_from(bytes.len())?;
                }
            }
            plain.sync_data()?;
        }
        plain_time += started.elapsed();
        plain_bytes += disk_bytes().zip(before).map_or(0, |(after, before)| after - before);
    }
    drop(log.shutdown());
    let (store_rate, plain_rate) = (per_second(args.posts, store_time), per_second(args.posts, plain_time));
    Ok(json!({
        "posts": args.posts,
        "round_posts": args.round_posts,
        "ticks": ticks,
        "store_posts_per_second": store_rate,
        "plain_posts_per_second": plain_rate,
        "store_to_plain": (plain_time.as_secs_f64() / store_time.as_secs_f64() * 1000.0).round() / 1000.0,
        "store_write_amplification": ratio(store_bytes, offset),
        "plain_write_amplification": ratio(plain_bytes, offset),
    }))
}

/// Returns how many ticks it took.
fn through_store(log: &Log, posts: &[(u64, BlobName, Vec<u8>, Vec<u8>)], most: usize) -> anyhow::Result<u64> {
    let (mut tickets, mut ticks, mut last) = (VecDeque::new(), 0, 0);
    let mut wait = |ticket: crate::store::log::Ticket| -> anyhow::Result<()> {
        let committed = ticket.wait()?;
        // Whoever is answered gets a proof.
        committed.leaf.context("it had a leaf")?.proof()?;
        let size = committed.head.size;
        ticks += u64::from(size != last);
        last = size;
        Ok(())
    };
    for (round, name, body, leaf) in posts {
        if tickets.len() == most {
            wait(tickets.pop_front().expect("there are some"))?;
        }
        let mut writer = log.store().put(*round, Class::Posts, *name)?;
        writer.write(body)?;
        let blobs = vec![writer.finish()?];
        tickets.push_back(log.append(Submission { leaf: Some(leaf.clone()), blobs, changes: Vec::new() })?);
    }
    tickets.into_iter().try_for_each(wait)?;
    Ok(ticks)
}

fn large(args: &Args, directory: &Path) -> anyhow::Result<Value> {
    let log = start(directory)?;
    let writers = u64::from(args.writers);
    let (before, started) = (disk_bytes(), Instant::now());
    let longest = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..writers)
            .map(|writer| {
                let log = log.clone();
                scope.spawn(move || -> anyhow::Result<Duration> {
                    let mut longest = Duration::ZERO;
                    for number in (writer..args.bodies).step_by(usize::from(args.writers)) {
                        let started = Instant::now();
                        write_large(&log, number, args.body_bytes)?;
                        longest = longest.max(started.elapsed());
                    }
                    Ok(longest)
                })
            })
            .collect();
        let ended = threads.into_iter().map(|thread| thread.join().expect("a writer does not panic"));
        ended.collect::<anyhow::Result<Vec<_>>>()
    })?;
    let elapsed = started.elapsed();
    drop(log.shutdown());
    let bytes = args.bodies * args.body_bytes;
    let written = disk_bytes().zip(before).map(|(after, before)| after - before);
    Ok(json!({
        "bodies": args.bodies,
        "bytes": bytes,
        "mb_per_second": per_second(bytes / 1_000_000, elapsed),
        "longest_ms": longest.into_iter().max().unwrap_or_default().as_millis(),
        "write_amplification": written.map(|written| ratio(written, bytes)),
        "peak_rss_bytes": machine::peak_rss_bytes(),
    }))
}

fn write_large(log: &Log, number: u64, len: u64) -> anyhow::Result<()> {
    let mut piece = vec![0; PIECE];
    let mut each = |take: &mut dyn FnMut(&[u8]) -> anyhow::Result<()>| -> anyhow::Result<()> {
        let (mut left, mut part) = (len, number << 32);
        while left > 0 {
            let now = usize::try_from(left.min(u64::try_from(PIECE)?))?;
            fill(part, &mut piece[..now]);
            take(&piece[..now])?;
            left -= u64::try_from(now)?;
            part += 1;
        }
        Ok(())
    };
    let mut hasher = blake3::Hasher::new();
    each(&mut |bytes| {
        hasher.update(bytes);
        Ok(())
    })?;
    let name = BlobName { digest: *hasher.finalize().as_bytes(), len };
    let mut writer = log.store().put(1, Class::Posts, name)?;
    each(&mut |bytes| Ok(writer.write(bytes)?))?;
    let blobs = vec![writer.finish()?];
    let mut leaf = vec![0; LEAF_BYTES];
    fill(number, &mut leaf);
    log.append(Submission { leaf: Some(leaf), blobs, changes: Vec::new() })?.wait()?;
    Ok(())
}
