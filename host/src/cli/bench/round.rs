//! `panetiere bench round`: one round, each role in its own process, one of them working at a time.
//!
//! The roles run in lockstep, so what is timed has the machine to itself, and each process's peak memory is that of its
//! role alone. The figures are medians: over the clients for what happens per client, over five repeats for what the
//! recipient does after the close, over the servers for theirs.

use super::worker::{self, Role};
use super::{RoundArgs, frames, machine, print, yardsticks};
use crate::cli::Exit;
use crate::cli::demo::args::{MAX_PAYLOAD_BYTES, MAX_SERVERS};
use crate::cli::lanes;
use crate::cli::progress::Progress;
use crate::cli::terminal;
use anyhow::{Context, bail};
use chipmunk::params::P1000;
use chipmunk::ring::backend::Simd;
use panetiere::channel::Encoding;
use serde_json::{Value, json};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// Threads that each process may be given.
const MAX_THREADS: u16 = 256;

/// Envelopes that a server gets in a row. Clients post when the round opens, so servers work on many at a time; here each
/// burst starts in cold caches, as the other roles have worked in between.
const BURST: usize = 25;

/// A worker process and the pipes to it.
struct Worker {
    process: Child,
    input: Option<ChildStdin>,
    output: ChildStdout,
    buffer: Vec<u8>,
}

impl Worker {
    fn spawn(args: &RoundArgs, simd: Simd, role: Role, index: u16) -> anyhow::Result<Self> {
        let name = match role {
            Role::Client => "client",
            Role::Lane => "lane",
            Role::Server => "server",
            Role::Recipient => "recipient",
        };
        let mut options = vec![
            ("--index", index.to_string()),
            ("--clients", args.clients.to_string()),
            ("--bytes", args.bytes.to_string()),
            ("--servers", args.servers.to_string()),
            ("--threads", args.threads.to_string()),
            ("--simd", simd.to_string()),
            ("--encoding", args.encoding.to_string()),
        ];
        options.extend(args.lanes.map(|shape| ("--lanes", lanes::text(shape))));
        let mut process = Command::new(std::env::current_exe().context("this program's own path")?)
            .args(["bench", "worker", name])
            .args(options.iter().flat_map(|(option, value)| [(*option).to_owned(), value.clone()]))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("a worker did not start")?;
        let input = process.stdin.take();
        let output = process.stdout.take().context("a worker has no stdout")?;
        Ok(Self { process, input, output, buffer: Vec::new() })
    }

    fn send(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        frames::write(self.input.as_mut().context("the worker was told to end")?, bytes)
    }

    fn receive(&mut self) -> anyhow::Result<&[u8]> {
        if let Err(error) = frames::read(&mut self.output, &mut self.buffer) {
            bail!("a worker ended early ({}): {error}", self.process.wait()?);
        }
        Ok(&self.buffer)
    }

    /// Reads the figures and waits for the end.
    fn finish(mut self) -> anyhow::Result<Value> {
        let figures = serde_json::from_slice(self.receive()?)?;
        self.input = None;
        self.process.wait()?;
        Ok(figures)
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // A worker of a failed bench must not outlive it; one that has ended makes this a no-op.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

pub(super) fn execute(args: &RoundArgs, simd: Simd) -> anyhow::Result<Exit> {
    if let Some(complaint) = usage(args, simd) {
        terminal::print_error(&complaint);
        return Ok(Exit::Usage);
    }
    let progress = Progress::on_stderr(args.json);
    let yardsticks = yardsticks::measure();
    let mut client = Worker::spawn(args, simd, Role::Client, 0)?;
    let mut servers = (0..args.servers)
        .map(|i| Worker::spawn(args, simd, Role::Server, i))
        .collect::<anyhow::Result<Vec<_>>>()?;
    let count = args.lanes.map_or(0, |shape| shape.lanes);
    let mut lanes =
        (0..count).map(|i| Worker::spawn(args, simd, Role::Lane, i)).collect::<anyhow::Result<Vec<_>>>()?;
    let mut recipient = Worker::spawn(args, simd, Role::Recipient, 0)?;
    let mut sizes = json!({});
    let mut inboxes = vec![Vec::with_capacity(BURST); servers.len()];
    let phase = progress.phase("clients", args.clients.into());
    for number in 0..args.clients {
        client.send(&number.to_le_bytes())?;
        let statement = client.receive()?.to_vec();
        let mut post = 0;
        // A post that holds a ciphertext comes in two pieces.
        for _ in 0..if lanes.is_empty() { 2 } else { 1 } {
            let piece = client.receive()?;
            post += piece.len();
            recipient.send(piece)?;
        }
        recipient.receive()?;
        let mut envelopes = 0;
        for inbox in &mut inboxes {
            let envelope = client.receive()?;
            envelopes += envelope.len();
            inbox.push([statement.clone(), envelope.to_vec()]);
        }
        if inboxes.iter().any(|inbox| inbox.len() == BURST) || number + 1 == args.clients {
            for (server, inbox) in servers.iter_mut().zip(&mut inboxes) {
                for [statement, envelope] in inbox.drain(..) {
                    server.send(&statement)?;
                    server.send(&envelope)?;
                    server.receive()?;
                }
            }
        }
        sizes = json!({"post": post, "envelopes": envelopes});
        for lane in &mut lanes {
            let item = client.receive()?;
            sizes["lane_item"] = json!(item.len());
            lane.send(&statement)?;
            lane.send(item)?;
            lane.receive()?;
        }
        phase.advance(1);
    }
    phase.finish();
    client.send(b"")?;
    recipient.send(b"")?;
    for server in &mut servers {
        server.send(b"")?;
        let sum = server.receive()?;
        recipient.send(sum)?;
        sizes["server_entry"] = json!(sum.len());
    }
    for lane in &mut lanes {
        lane.send(b"")?;
        let sum = lane.receive()?;
        recipient.send(sum)?;
        sizes["lane_sum"] = json!(sum.len());
    }
    let client = client.finish()?;
    let recipient = recipient.finish()?;
    let servers = servers.into_iter().map(Worker::finish).collect::<anyhow::Result<Vec<_>>>()?;
    let lanes = lanes.into_iter().map(Worker::finish).collect::<anyhow::Result<Vec<_>>>()?;
    let mut report = report(args, simd, &client, &servers, &recipient, sizes, yardsticks);
    if let Some(shape) = args.lanes {
        report["lanes"] = json!(lanes::text(shape));
        report["lane"] = medians(&lanes);
        report["peak_rss_bytes"]["lane"] = json!(peak_rss(&lanes));
    }
    print(&report, args.json)?;
    Ok(Exit::Ok)
}

/// What has to change on the command line.
fn usage(args: &RoundArgs, simd: Simd) -> Option<String> {
    let RoundArgs { clients, bytes, servers, threads, .. } = *args;
    if !(2..=P1000.rho_max).contains(&clients) {
        return Some(format!("--clients {clients}: give 2 to {}", P1000.rho_max));
    }
    // A process each, with so many threads: a mistyped number must not take the machine down.
    if !(1..=MAX_SERVERS).contains(&servers) {
        return Some(format!("--servers {servers}: give 1 to {MAX_SERVERS}"));
    }
    if !(1..=MAX_THREADS).contains(&threads) {
        return Some(format!("--threads {threads}: give 1 to {MAX_THREADS}"));
    }
    let most = MAX_PAYLOAD_BYTES / u64::from(clients);
    if !(1..=most).contains(&u64::try_from(bytes).unwrap_or(u64::MAX)) {
        return Some(format!("--bytes {bytes}: with {clients} clients give 1 to {most}"));
    }
    if let Some(shape) = args.lanes.filter(|shape| shape.lanes < servers) {
        let lanes = lanes::text(shape);
        return Some(format!(
            "--lanes {lanes}: each of {servers} servers is a lane; give KxN with N from {servers}"
        ));
    }
    if args.encoding == Encoding::Slots {
        return Some("--encoding slots: that takes two rounds; give sketch or peeling".to_owned());
    }
    // Setup itself says what else does not fit, before eight processes find out.
    worker::local_round(2, bytes, servers, (args.encoding, args.lanes), simd)
        .err()
        .map(|error| format!("{error:#}"))
}

fn report(
    args: &RoundArgs,
    simd: Simd,
    client: &Value,
    servers: &[Value],
    recipient: &Value,
    bytes: Value,
    yardsticks: Value,
) -> Value {
    let without_rss = |figures: &Value| {
        let mut figures = figures.clone();
        if let Some(fields) = figures.as_object_mut() {
            fields.remove("peak_rss_bytes");
        }
        figures
    };
    json!({
        "clients": args.clients,
        "message_bytes": args.bytes,
        "servers": args.servers,
        "encoding": args.encoding.to_string(),
        "client": without_rss(client),
        "server": medians(servers),
        "recipient": without_rss(recipient),
        "bytes": bytes,
        "peak_rss_bytes": {
            "client": client["peak_rss_bytes"],
            "server": peak_rss(servers),
            "recipient": recipient["peak_rss_bytes"],
        },
        "yardsticks": yardsticks,
        "simd": simd.to_string(),
        "threads": args.threads,
        "cpu": machine::cpu(),
    })
}

/// The median over processes of one role.
fn medians(figures: &[Value]) -> Value {
    let over = |name: &str| {
        let mut values: Vec<f64> = figures.iter().filter_map(|figures| figures[name].as_f64()).collect();
        values.sort_unstable_by(f64::total_cmp);
        values.get(values.len() / 2).copied()
    };
    json!({
        "arrival_per_client_ms": over("arrival_per_client_ms"),
        "statement_check_ms": over("statement_check_ms"),
        "close_ms": over("close_ms"),
    })
}

fn peak_rss(figures: &[Value]) -> Option<u64> {
    figures.iter().filter_map(|figures| figures["peak_rss_bytes"].as_u64()).max()
}
