//! `panetiere round list` and `panetiere round inspect`.

use super::{Failure, Inspect, List, Opened, Outcome, wrapped};
use crate::cli::Exit;
use crate::round::reading::{self, Found, ReadError, Reading, State, Wanted};
use crate::round::{Out, Phase};
use crate::store::tiles::PublishedTiles;
use chipmunk::ring::backend::Simd;
use panetiere::fault::Fault as _;
use panetiere_api::leaf::{Leaf, RoundId};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

fn read(opened: &Opened, simd: Simd, round: Option<RoundId>) -> Result<Reading, Failure> {
    let tiles = PublishedTiles::new(Arc::clone(&opened.disk), opened.directory);
    let wanted = Wanted { round, sizes: Vec::new() };
    let reading =
        opened.with(|_, blobs| reading::read(opened.anchor.clone(), simd.kernels(), &tiles, blobs, &wanted));
    reading.map_err(|error: ReadError| {
        let exit = if error.is_fault() { Exit::Convicted } else { Exit::Failed };
        Failure { exit, error: anyhow::Error::new(error).context("the log cannot be read") }
    })
}

pub(super) fn list(args: &List, simd: Simd) -> Outcome {
    let reading = read(&Opened::new(&args.log)?, simd, None)?;
    if args.log.json {
        let rounds = reading.rounds.iter().map(|round| {
            json!({
                "round": round.round.0,
                "epoch": round.epoch,
                "opened_at": round.opened_at,
                "state": round.state.name(),
                "posts": round.posts,
                "clients": round.clients,
                "server_sums": round.sums,
                "messages": round.messages,
            })
        });
        let object = json!({"log_size": reading.head.size, "rounds": rounds.collect::<Vec<_>>()});
        return Ok((object.to_string(), Exit::Ok));
    }
    let number = |number: Option<u32>| number.map_or("-".to_owned(), |number| number.to_string());
    let mut lines = vec![format!(
        "{:>8}  {:>5}  {:>10}  {:<11}  {:>5}  {:>7}  {:>4}  {:>8}",
        "round", "epoch", "leaf", "state", "posts", "clients", "sums", "messages"
    )];
    lines.extend(reading.rounds.iter().map(|round| {
        format!(
            "{:>8}  {:>5}  {:>10}  {:<11}  {:>5}  {:>7}  {:>4}  {:>8}",
            round.round,
            round.epoch,
            round.opened_at,
            round.state.name(),
            round.posts,
            number(round.clients),
            round.sums,
            number(round.messages),
        )
    }));
    Ok((lines.join("\n"), Exit::Ok))
}

pub(super) fn inspect(args: &Inspect, simd: Simd) -> Outcome {
    let reading = read(&Opened::new(&args.log)?, simd, Some(args.round))?;
    let Some(found) = &reading.found else {
        let last = reading.rounds.last().map_or(0, |last| last.round.0);
        return Err(anyhow::anyhow!("round {}: the log has {last} rounds", args.round).into());
    };
    let text = if args.log.json { inspect_json(found).to_string() } else { inspect_text(found) };
    Ok((text, Exit::Ok))
}

/// How many leaves of each kind count, and how many do not.
fn kinds(found: &Found) -> BTreeMap<&'static str, (u64, u64)> {
    let mut kinds: BTreeMap<&'static str, (u64, u64)> = BTreeMap::new();
    for seen in &found.leaves {
        let kind = Leaf::parse(&seen.entry).map_or("unknown", |leaf| leaf.kind());
        let (counted, void) = kinds.entry(kind).or_default();
        *(if seen.outcome.is_ok() { counted } else { void }) += 1;
    }
    kinds
}

fn why(out: &Out) -> (&'static str, String) {
    match out {
        Out::Complaint(exclusion) => (exclusion.code(), exclusion.to_string()),
        Out::Expelled => ("client_expelled", "evidence convicts it".to_owned()),
        Out::Revoked => ("client_revoked", "its admission was revoked".to_owned()),
        _ => ("client_out", "for a reason that this program does not know".to_owned()),
    }
}

/// The complaints: server, client, whether it was answered.
fn complaints(found: &Found) -> Vec<(u16, u32, bool)> {
    let session = &found.session;
    let mut complaints = Vec::new();
    for (server, checked) in session.checked() {
        for client in checked.complaints().keys() {
            let answered = session
                .answers()
                .iter()
                .any(|answer| (answer.client(), answer.server()) == (*client, *server));
            complaints.push((server.0, client.0, answered));
        }
    }
    complaints
}

fn inspect_text(found: &Found) -> String {
    let (session, epoch) = (&found.session, &found.epoch);
    let params = session.params();
    let mut lines = vec![
        format!("round     {}, {}", session.round(), State::of(session).name()),
        format!("session   {}", session.id()),
        wrapped(
            "epoch     ",
            &format!(
                "{}, {} mode, {} servers, threshold {}, {} clients admitted",
                epoch.plan().document.number(),
                params.mode(),
                params.servers(),
                params.threshold(),
                epoch.members().count()
            ),
        ),
        format!("opened    leaf {}", session.opened_at()),
    ];
    match session.phase() {
        Phase::Closed(closed) => {
            lines.push(format!("closed    leaf {}, {} clients", closed.at, closed.set.count()));
        }
        Phase::Aborted(reason) => lines.push(format!("aborted   {reason}")),
        Phase::Collecting | Phase::Checking => {}
    }
    if let Some(result) = session.result() {
        lines.push(format!("result    {} messages", result.messages));
    }
    lines.push("leaves".to_owned());
    for (kind, (counted, void)) in kinds(found) {
        let void = if void > 0 { format!(", {void} void") } else { String::new() };
        lines.push(format!("  {kind:<12}  {counted} count{void}"));
    }
    for (server, client, answered) in complaints(found) {
        let answered = if answered { "answered" } else { "not answered" };
        lines.push(format!("complaint of server {server} about client {client}: {answered}"));
    }
    for (client, out) in session.out() {
        lines.push(wrapped(&format!("out       client {client}: "), &why(out).1));
    }
    lines.join("\n")
}

fn inspect_json(found: &Found) -> Value {
    let (session, epoch) = (&found.session, &found.epoch);
    let kinds: serde_json::Map<String, Value> = kinds(found)
        .into_iter()
        .map(|(kind, (counted, void))| (kind.to_owned(), json!({"count": counted, "void": void})))
        .collect();
    let complaints: Vec<Value> = complaints(found)
        .into_iter()
        .map(|(server, client, answered)| json!({"server": server, "client": client, "answered": answered}))
        .collect();
    let out = session
        .out()
        .iter()
        .map(|(client, out)| json!({"client": client.0, "code": why(out).0, "reason": why(out).1}));
    json!({
        "round": session.round().0,
        "session": session.id().to_string(),
        "state": State::of(session).name(),
        "epoch": epoch.plan().document.number().0,
        "mode": session.params().mode().to_string(),
        "opened_at": session.opened_at(),
        "closed_at": session.closed().map(|closed| closed.at),
        "clients": session.closed().map(|closed| closed.set.count()),
        "messages": session.result().map(|result| result.messages),
        "leaves": kinds,
        "complaints": complaints,
        "out": out.collect::<Vec<_>>(),
    })
}
