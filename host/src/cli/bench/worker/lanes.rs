//! The roles of a round with lanes that differ from those without: a lane, and the recipient of their sums.

use super::{Args, CLOSE_REPEATS, Samples, arrivals, check, decode, frames, receive_all};
use crate::local::LocalRound;
use anyhow::Context;
use panetiere::bulletin::{LaneBulletinEntry, LaneItem, RsClientBulletinEntry, ServerBulletinEntry};
use panetiere::protocol::{LaneRound, RsPosts, decrypt_aggregate_rs};
use panetiere::wire::DecodeWith;
use serde_json::json;
use std::io::{Read, Write};
use std::sync::Arc;
use std::time::Instant;

/// Requests: statement, item; the answer is empty. At the end: the signed sum. Items are on the lane's disk in a
/// deployment, and nobody asks for them again here.
pub(super) fn lane(
    local: &LocalRound,
    args: &Args,
    input: &mut impl Read,
    output: &mut impl Write,
) -> anyhow::Result<serde_json::Value> {
    let params = &local.params;
    let code = params.lane_code().context("a round without lanes")?;
    let identity = local.lanes.get(usize::from(args.index)).context("no such lane")?;
    let nowhere = Box::new(|_| None);
    let mut round = LaneRound::with_source(Arc::clone(params), local.session, Arc::clone(identity), nowhere);
    let mut samples = Samples::default();
    arrivals(local, input, output, &mut samples, |post, item| {
        Ok(round.receive(post, &LaneItem::from_bytes_with(&**params, item)?)?)
    })?;
    let sum = samples.time("close_ms", || anyhow::Ok(round.close(&local.canonical)?.to_bytes(code)))?;
    frames::write(output, &sum)?;
    Ok(json!(samples.medians()))
}

/// Requests: a post each, answered empty; an empty one; then one sum a server and one a lane. After the close the lanes'
/// sums are parsed, too.
pub(super) fn recipient(
    local: &LocalRound,
    args: &Args,
    input: &mut impl Read,
    output: &mut impl Write,
) -> anyhow::Result<serde_json::Value> {
    let (params, epoch, canonical) = (&local.params, &local.epoch, &local.canonical);
    let mut posts = RsPosts::new(params, local.session);
    let mut samples = Samples::default();
    let mut request = Vec::new();
    loop {
        frames::read(input, &mut request)?;
        if request.is_empty() {
            break;
        }
        samples.time("arrival_per_post_ms", || {
            let entry = RsClientBulletinEntry::from_bytes_with(params, &request)?;
            let key = local.admitted(entry.signed.claim().client)?;
            anyhow::Ok(posts.add(&key, &entry)?)
        })?;
        frames::write(output, b"")?;
    }
    let sums = receive_all(input, args.servers)?;
    let lane_sums = receive_all(input, args.lanes.map_or(0, |shape| shape.lanes))?;
    let mut close = Samples::default();
    let mut messages = Vec::new();
    for _ in 0..CLOSE_REPEATS {
        let started = Instant::now();
        let entries: Vec<_> = sums
            .iter()
            .map(|sum| ServerBulletinEntry::from_bytes_with(params, sum))
            .collect::<Result<_, _>>()?;
        let lanes: Vec<_> = close.time("parse_lanes_ms", || {
            let read = |sum: &Vec<u8>| LaneBulletinEntry::from_bytes_with(&**params, sum);
            lane_sums.iter().map(read).collect::<Result<_, _>>()
        })?;
        let mut observe = close.observer(Instant::now());
        let recovered = decrypt_aggregate_rs(&posts, epoch, canonical, &entries, &lanes, &mut observe)?;
        drop(observe);
        messages = decode(local, &mut close, &recovered.recovered.plaintext)?;
        samples.0.entry("close_total_ms").or_default().push(started.elapsed());
    }
    check(args, messages)?;
    let mut figures = json!(samples.medians());
    figures["close"] = json!(close.medians());
    Ok(figures)
}
