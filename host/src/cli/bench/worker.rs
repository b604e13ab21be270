//! One role of `bench round` in a process of its own: requests as frames on stdin, answers as frames on stdout.
//!
//! An empty request ends the work; the answer to it is the role's figures as JSON.

mod lanes;

use super::{frames, machine, median_ms};
use crate::local::{LocalRound, Route, Shape};
use crate::seed::Seed;
use anyhow::{Context, ensure};
use chipmunk::params::P300;
use chipmunk::params::P1000;
use chipmunk::ring::backend::Simd;
use panetiere::bulletin::{
    Envelope, PostHead, PostStatement, PostView, RsClientBulletinEntry, ServerBulletinEntry, SignedPost,
    VerifiedPost, delivery_root, env_root,
};
use panetiere::channel::{self, Encoding};
use panetiere::ids::ClientId;
use panetiere::plaintext::PlainPoly;
use panetiere::protocol::{
    ItemMemory, LaneShape, Phase, PostSum, ServerRound, code_ciphertext_in, cs_commit, decrypt_aggregate,
    kahe_encrypt, kahe_keygen, seal_openings, shamir_share,
};
use panetiere::sss::default_threshold;
use panetiere::wire::{Decode, DecodeWith, Encode};
use rand_core::Rng;
use serde_json::json;
use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often the recipient closes, to have a median.
const CLOSE_REPEATS: usize = 5;

/// Which role, and the shape of the round.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Args {
    /// The role
    #[arg(value_enum)]
    pub(super) role: Role,
    /// Which server or lane, for those roles
    #[arg(long, default_value_t = 0)]
    pub(super) index: u16,
    #[arg(long)]
    pub(super) clients: u32,
    #[arg(long)]
    pub(super) bytes: usize,
    #[arg(long)]
    pub(super) servers: u16,
    #[arg(long)]
    pub(super) threads: u16,
    #[arg(long)]
    pub(super) simd: Simd,
    #[arg(long, value_parser = crate::cli::lanes::parse)]
    pub(super) lanes: Option<LaneShape>,
    #[arg(long)]
    pub(super) encoding: Encoding,
}

/// The roles that are measured.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// All clients, one after the other.
    Client,
    /// One lane.
    Lane,
    /// One server.
    Server,
    /// The recipient.
    Recipient,
}

/// The seed of every bench: figures are comparable because the input is the same.
fn seed() -> Seed {
    Seed::from_bytes(*b"panetiere bench, seed number 001")
}

/// The message of a client: full length, its own.
fn message(client: u32, bytes: usize) -> Vec<u8> {
    let mut message = vec![0; bytes];
    seed().stream(&format!("message {client}")).fill_bytes(&mut message);
    message
}

/// The smallest parameter set that takes this many clients.
pub(super) fn local_round(
    clients: u32,
    bytes: usize,
    servers: u16,
    (encoding, lanes): (Encoding, Option<LaneShape>),
    simd: Simd,
) -> anyhow::Result<LocalRound> {
    let set = if clients <= P300.rho_max { &P300 } else { &P1000 };
    let threshold = default_threshold(servers);
    let shape = Shape {
        clients,
        servers,
        threshold,
        min_clients: 2,
        message_bytes: bytes,
        encoding,
        route: lanes.map_or(Route::Direct, Route::Lanes),
        set,
        kernels: simd.kernels(),
    };
    LocalRound::new(&seed(), shape)
}

/// Samples by phase.
#[derive(Default)]
struct Samples(BTreeMap<&'static str, Vec<Duration>>);

impl Samples {
    fn time<T>(&mut self, name: &'static str, work: impl FnOnce() -> T) -> T {
        let started = Instant::now();
        let result = work();
        self.0.entry(name).or_default().push(started.elapsed());
        result
    }

    /// Takes down the time of each phase of the recipient, the first one from `last` on.
    fn observer(&mut self, mut last: Instant) -> impl FnMut(Phase) {
        move |phase| {
            let name = match phase {
                Phase::VerifyLanes => "verify_lanes_ms",
                Phase::Reconstruct => "reconstruct_ms",
                Phase::VerifyOpenings => "verify_ms",
                Phase::Interpolate => "interpolate_ms",
                _ => "decrypt_ms",
            };
            self.0.entry(name).or_default().push(last.elapsed());
            last = Instant::now();
        }
    }

    fn medians(&self) -> serde_json::Map<String, serde_json::Value> {
        self.0.iter().map(|(name, samples)| ((*name).to_owned(), json!(median_ms(samples)))).collect()
    }
}

pub(super) fn execute(args: &Args) -> anyhow::Result<()> {
    rayon::ThreadPoolBuilder::new().num_threads(args.threads.into()).build_global()?;
    let payload = (args.encoding, args.lanes);
    let local = local_round(args.clients, args.bytes, args.servers, payload, args.simd)?;
    let (mut input, mut output) = (io::stdin().lock(), io::stdout().lock());
    let mut figures = match args.role {
        Role::Client => client(&local, args, &mut input, &mut output)?,
        Role::Server => server(&local, args, &mut input, &mut output)?,
        Role::Lane => lanes::lane(&local, args, &mut input, &mut output)?,
        Role::Recipient if args.lanes.is_some() => lanes::recipient(&local, args, &mut input, &mut output)?,
        Role::Recipient => recipient(&local, args, &mut input, &mut output)?,
    };
    figures["peak_rss_bytes"] = json!(machine::peak_rss_bytes());
    frames::write(&mut output, &serde_json::to_vec(&figures)?)
}

/// Request: a client's number. Answer: statement, the post, one envelope a server, one item a lane. Without lanes the post
/// comes in two pieces, head and ciphertext.
fn client(
    local: &LocalRound,
    args: &Args,
    input: &mut impl Read,
    output: &mut impl Write,
) -> anyhow::Result<serde_json::Value> {
    let LocalRound { params, session, epoch, .. } = local;
    let keys = epoch.envelope_keys();
    params.kahe().expand();
    let mut samples = Samples::default();
    let (mut request, mut memory) = (Vec::new(), ItemMemory::default());
    loop {
        frames::read(input, &mut request)?;
        let Ok(number) = <[u8; 4]>::try_from(request.as_slice()) else { break };
        let number = u32::from_le_bytes(number);
        let payload = message(number, args.bytes);
        let mut rng = seed().stream(&format!("client {number}"));
        let started = Instant::now();
        let vector = samples.time("encode_ms", || local.vector(&mut rng, Some(&payload)))?;
        let key = samples.time("keygen_ms", || kahe_keygen(&mut rng, params));
        let ciphertext = samples.time("encrypt_ms", || kahe_encrypt(&mut rng, params, &key, &vector))?;
        let shares = samples.time("share_ms", || shamir_share(&mut rng, params, &key));
        let (commitment, openings) = samples.time("commit_ms", || cs_commit(&mut rng, params, &shares));
        let root = commitment.digest(params.lattice());
        let client = ClientId(number);
        let sealed = samples
            .time("seal_ms", || seal_openings(&mut rng, params, session, client, root, &openings, &keys))?;
        let sealed = keys.iter().map(|(_, key)| key.digest()).zip(sealed);
        let signing_key = &local.clients[crate::local::index(number)];
        if let Some(code) = params.lane_code() {
            let (share_commitment, (root, envelopes, items)) = samples.time("lanes_ms", || {
                let (share_commitment, bodies) = code_ciphertext_in(code, &ciphertext, &mut memory)?;
                anyhow::Ok((share_commitment, delivery_root(client, sealed, bodies)))
            })?;
            let (statement, post) = samples.time("pack_ms", || {
                let roots = (&commitment, &share_commitment);
                let statement = PostStatement::erasure(params, session, client, roots, &ciphertext, root);
                let signed = SignedPost::sign(statement, signing_key);
                let statement = signed.to_bytes();
                (statement, RsClientBulletinEntry { signed, commitment, share_commitment }.to_bytes(params))
            });
            samples.0.entry("total_ms").or_default().push(started.elapsed());
            frames::write(output, &statement)?;
            frames::write(output, &post)?;
            send_all(output, &envelopes)?;
            send_all(output, &items)?;
            memory.reclaim(items);
        } else {
            let (statement, head, envelopes) = samples.time("pack_ms", || {
                let (env_root, envelopes) = env_root(client, sealed);
                let statement =
                    PostStatement::direct(params, session, client, &commitment, &ciphertext, env_root);
                let signed = SignedPost::sign(statement, signing_key);
                let statement = signed.to_bytes();
                let head = PostHead { signed, commitment }.to_bytes(params);
                (statement, head, envelopes)
            });
            samples.0.entry("total_ms").or_default().push(started.elapsed());
            frames::write(output, &statement)?;
            frames::write(output, &head)?;
            frames::write(output, &ciphertext)?;
            send_all(output, &envelopes)?;
        }
    }
    Ok(json!(samples.medians()))
}

fn send_all(output: &mut impl Write, objects: &[impl Encode]) -> anyhow::Result<()> {
    objects.iter().try_for_each(|object| frames::write(output, &object.to_bytes()))
}

/// Requests: statement, envelope; the answer is empty. At the end: the signed sum.
fn server(
    local: &LocalRound,
    args: &Args,
    input: &mut impl Read,
    output: &mut impl Write,
) -> anyhow::Result<serde_json::Value> {
    let params = &local.params;
    let identity = local.servers.get(usize::from(args.index)).context("no such server")?;
    let mut round = ServerRound::new(Arc::clone(params), local.session, Arc::clone(identity));
    let mut samples = Samples::default();
    arrivals(local, input, output, &mut samples, |post, envelope| {
        Ok(round.receive(post, &Envelope::from_bytes_with(params, envelope)?)?)
    })?;
    let sum = samples.time("close_ms", || anyhow::Ok(round.close(&local.canonical)?.to_bytes(params)))?;
    frames::write(output, &sum)?;
    Ok(json!(samples.medians()))
}

/// What comes for a server or a lane until an empty request: a client's statement and what it has for this party, which
/// `receive` takes. Each pair is answered empty.
fn arrivals(
    local: &LocalRound,
    input: &mut impl Read,
    output: &mut impl Write,
    samples: &mut Samples,
    mut receive: impl FnMut(&VerifiedPost, &[u8]) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let (mut statement, mut object) = (Vec::new(), Vec::new());
    loop {
        frames::read(input, &mut statement)?;
        if statement.is_empty() {
            return Ok(());
        }
        frames::read(input, &mut object)?;
        let post = samples.time("statement_check_ms", || {
            let signed = SignedPost::from_bytes(&statement)?;
            let key = local.admitted(signed.claim().client)?;
            anyhow::Ok(signed.check(&local.params, &local.session, &key)?)
        })?;
        samples.time("arrival_per_client_ms", || receive(&post, &object))?;
        frames::write(output, b"")?;
    }
}

/// Requests: a post each, head and ciphertext, answered empty; an empty one; then one sum a server.
fn recipient(
    local: &LocalRound,
    args: &Args,
    input: &mut impl Read,
    output: &mut impl Write,
) -> anyhow::Result<serde_json::Value> {
    let params = &local.params;
    params.kahe().expand();
    let mut posts = PostSum::new(params, local.session, &local.canonical);
    let mut samples = Samples::default();
    let mut request = Vec::new();
    loop {
        frames::read(input, &mut request)?;
        if request.is_empty() {
            break;
        }
        let head = request.clone();
        frames::read(input, &mut request)?;
        samples.time("arrival_per_post_ms", || {
            let head = PostHead::from_bytes_with(params, &head)?;
            let key = local.admitted(head.signed.claim().client)?;
            anyhow::Ok(posts.add(&key, PostView { head, ciphertext: &request })?)
        })?;
        frames::write(output, b"")?;
    }
    let sums = receive_all(input, args.servers)?;
    let mut close = Samples::default();
    let mut messages = Vec::new();
    for _ in 0..CLOSE_REPEATS {
        let started = Instant::now();
        let entries = sums
            .iter()
            .map(|sum| ServerBulletinEntry::from_bytes_with(params, sum))
            .collect::<Result<Vec<_>, _>>()?;
        let recovered = decrypt_aggregate(&posts, &local.epoch, &entries, &mut close.observer(started))?;
        messages = decode(local, &mut close, &recovered.plaintext)?;
        samples.0.entry("close_total_ms").or_default().push(started.elapsed());
    }
    check(args, messages)?;
    let mut figures = json!(samples.medians());
    figures["close"] = json!(close.medians());
    Ok(figures)
}

/// So many frames, each an object.
fn receive_all(input: &mut impl Read, count: u16) -> anyhow::Result<Vec<Vec<u8>>> {
    let one = |_| {
        let mut object = Vec::new();
        frames::read(input, &mut object)?;
        Ok(object)
    };
    (0..count).map(one).collect()
}

fn decode(local: &LocalRound, close: &mut Samples, sum: &[PlainPoly]) -> anyhow::Result<Vec<Vec<u8>>> {
    Ok(close.time("decode_ms", || channel::decode_messages(&local.channel, &local.session, sum, None))?)
}

/// Whether exactly what the clients sent came out.
fn check(args: &Args, mut messages: Vec<Vec<u8>>) -> anyhow::Result<()> {
    let mut sent: Vec<Vec<u8>> = (0..args.clients).map(|client| message(client, args.bytes)).collect();
    sent.sort_unstable();
    messages.sort_unstable();
    ensure!(messages == sent, "the recovered messages are not those sent");
    Ok(())
}
