//! The reference cell with lanes, whole and checked: 300 clients of 16 KB, 16 servers, any 14 of 16 lanes. Prints what
//! each party reads, writes and computes.
//!
//! `cargo run --release -p panetiere --example lane_cell -- [CLIENTS] [THREADS]`

#![expect(clippy::unwrap_used, reason = "a measurement that fails is to stop")]

use panetiere::bulletin::{
    CanonicalSet, Epoch, EpochServer, LaneBulletinEntry, LaneItem, RsClientBulletinEntry,
    ServerBulletinEntry, delivery_root,
};
use panetiere::ids::{ClientId, DeploymentId, EpochId, NodeId, ServerId, SessionId};
use panetiere::kahe::Plaintext;
use panetiere::pke;
use panetiere::plaintext::PlainPoly;
use panetiere::protocol::*;
use panetiere::sig::SigningKey;
use panetiere::wire::{DecodeWith, Encode};
use rand_chacha::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

const SERVERS: u16 = 16;
const THRESHOLD: u16 = 14;
const SHAPE: LaneShape = LaneShape { needed: 14, lanes: 16 };
/// 300 messages of 16 KB in the sketch encoding.
const POLYS: u32 = 553;

/// Durations of one step. The shortest is that of an undisturbed machine, the median that of this one.
#[derive(Default)]
struct Times(Vec<Duration>);

impl Times {
    fn of<T>(&mut self, step: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let out = step();
        self.0.push(start.elapsed());
        out
    }

    fn print(mut self, what: &str) {
        self.0.sort_unstable();
        let ms = |duration: &Duration| duration.as_secs_f64() * 1e3;
        let (least, median) = (ms(&self.0[0]), ms(&self.0[self.0.len() / 2]));
        println!("{what:<40} {least:8.2} ms, median {median:8.2} ms of {}", self.0.len());
    }
}

struct Parties {
    params: Arc<ProtocolParams>,
    epoch: Epoch,
    servers: Vec<Arc<ServerIdentity>>,
    lanes: Vec<Arc<LaneIdentity>>,
}

fn parties(rng: &mut ChaCha20Rng, clients: u32) -> Parties {
    let id = DeploymentId::from_name("lane cell");
    let keys: Vec<_> =
        (0..SERVERS).map(|_| (pke::PrivateKey::generate(rng), SigningKey::generate(rng))).collect();
    let lane_keys: Vec<_> = (0..SHAPE.lanes).map(|_| SigningKey::generate(rng)).collect();
    let entries = (0..).map(ServerId).zip(&keys).map(|(server, (envelope, identity))| {
        EpochServer::sign(&id, EpochId(0), server, envelope.public_key(), identity)
    });
    let epoch = Epoch::new(id, EpochId(0), entries.collect()).unwrap();
    let epoch = epoch.with_lanes(lane_keys.iter().map(SigningKey::verifying_key).collect()).unwrap();
    let server = |(server, (envelope, identity))| {
        Arc::new(ServerIdentity::new(server, envelope, identity, &epoch, MemoryAnswers::fresh()).unwrap())
    };
    let servers = (0..).map(ServerId).zip(keys).map(server).collect();
    let lane = |(lane, key)| Arc::new(LaneIdentity::new(lane, key, &epoch, MemoryAnswers::fresh()).unwrap());
    let lanes = (0..).map(NodeId).zip(lane_keys).map(lane).collect();
    let deployment = Deployment {
        id,
        epoch: epoch.digest(),
        set: &chipmunk::params::P300,
        min_clients: 2,
        max_clients: clients,
        faulty: 0,
        kernels: chipmunk::ring::backend::Simd::detect().kernels(),
    };
    let dimensions =
        Dimensions { servers: SERVERS, threshold: THRESHOLD, polys: POLYS, plaintext: Plaintext::Prime };
    let params = ProtocolParams::setup_rs_mode(deployment, dimensions, SHAPE).unwrap();
    Parties { params: Arc::new(params), epoch, servers, lanes }
}

fn main() {
    let mut arguments = std::env::args().skip(1).map(|argument| argument.parse::<u32>().unwrap());
    let clients = arguments.next().unwrap_or(300);
    let threads = usize::try_from(arguments.next().unwrap_or(1)).unwrap();
    rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap().install(|| run(clients));
}

fn run(clients: u32) {
    let mut rng = ChaCha20Rng::from_seed([16; 32]);
    let Parties { params, epoch, servers, lanes } = parties(&mut rng, clients);
    let session = SessionId::derive("lane cell", 0, &[0; 32]);
    let code = params.lane_code().unwrap();
    println!("{:?}, {clients} clients, {} threads", params.lattice().kernels(), rayon::current_num_threads());
    let (mut coded, mut deliver, mut parse, mut verify, mut add, mut close, mut recipient) =
        <(Times, Times, Times, Times, Times, Times, Times)>::default();

    let gone = || -> ItemSource { Box::new(|_| None) };
    let running = |lane: &Arc<LaneIdentity>| {
        LaneRound::with_source(Arc::clone(&params), session, Arc::clone(lane), gone())
    };
    let mut lane_rounds: Vec<LaneRound> = lanes.iter().map(running).collect();
    let mut server_rounds: Vec<ServerRound> = servers
        .iter()
        .map(|server| ServerRound::new(Arc::clone(&params), session, Arc::clone(server)))
        .collect();
    let t = params.kahe().plaintext_modulus();
    let mut expected = vec![0u64; usize::try_from(POLYS).unwrap() * chipmunk::N];
    let mut posts = BTreeMap::new();
    let (mut item_max, mut egress) = (0, 0);
    for client in (0..clients).map(ClientId) {
        let scalars: Vec<u64> = expected.iter().map(|_| rng.next_u64() % t).collect();
        expected.iter_mut().zip(&scalars).for_each(|(sum, scalar)| *sum = (*sum + scalar) % t);
        let message = PlainPoly::from_scalars(&scalars);
        let key = SigningKey::generate(&mut rng);
        let keys = epoch.envelope_keys();
        let sent = run_client_round_rs(&mut rng, &params, &session, client, &message, &keys, &key).unwrap();
        if client.0 % 4 == 0 {
            // The same ciphertext again, out of its systematic shares.
            let share_len = code.rs().share_len();
            let mut ciphertext: Vec<u8> =
                sent.items[..14].iter().flat_map(|item| item.body[..share_len].to_vec()).collect();
            ciphertext.truncate(params.kahe().ciphertext_len());
            let (_, bodies) = coded.of(|| code_ciphertext(code, &ciphertext).unwrap());
            let sealed = sent.envelopes.iter().map(|envelope| (envelope.key, envelope.sealed.clone()));
            let (root, _, items) = deliver.of(|| delivery_root(client, sealed, bodies));
            assert_eq!((root, &items), (sent.post.signed.claim().envelopes, &sent.items));
        }
        let post = sent.post.signed.check(&params, &session, &key.verifying_key()).unwrap();
        for (round, envelope) in server_rounds.iter_mut().zip(&sent.envelopes) {
            round.receive(&post, envelope).unwrap();
        }
        egress = egress.max(sent.items.iter().map(Encode::encoded_len).sum());
        for (round, item) in lane_rounds.iter_mut().zip(&sent.items) {
            let bytes = item.to_bytes();
            item_max = item_max.max(bytes.len());
            let item = parse.of(|| LaneItem::from_bytes_with(&*params, &bytes).unwrap());
            let verified = verify.of(|| verify_item(&params, &post, &item).unwrap());
            add.of(|| round.add(verified).unwrap());
        }
        posts.insert(client, (key.verifying_key(), sent.post.to_bytes(&params)));
    }
    let set = CanonicalSet::new(posts.keys().copied()).unwrap();
    let lane_bytes: Vec<Vec<u8>> =
        lane_rounds.iter_mut().map(|round| close.of(|| round.close(&set).unwrap().to_bytes(code))).collect();
    let server_bytes: Vec<Vec<u8>> =
        server_rounds.iter_mut().map(|round| round.close(&set).unwrap().to_bytes(&params)).collect();
    let reads = [&lane_bytes, &server_bytes].into_iter().flatten().map(Vec::len).sum::<usize>()
        + posts.values().map(|(_, bytes)| bytes.len()).sum::<usize>();

    // Posts are read as they arrive.
    let mut checked = RsPosts::new(&params, session);
    let mut post = Times::default();
    for (key, bytes) in posts.values() {
        let entry = RsClientBulletinEntry::from_bytes_with(&*params, bytes).unwrap();
        post.of(|| checked.add(key, &entry).unwrap());
    }
    let read_lanes = || -> Vec<_> {
        let read = |bytes: &Vec<u8>| LaneBulletinEntry::from_bytes_with(&*params, bytes).unwrap();
        lane_bytes.iter().map(read).collect()
    };
    let mut parse_lanes = Times::default();
    (0..5).for_each(|_| drop(parse_lanes.of(read_lanes)));
    let parsed_lanes = read_lanes();
    let parsed_servers: Vec<_> = server_bytes
        .iter()
        .map(|bytes| ServerBulletinEntry::from_bytes_with(&*params, bytes).unwrap())
        .collect();
    // All sixteen; the fourteen without parity; a worst selection, with the first two systematic lanes down.
    for (from, to) in [(0, 16), (0, 14), (2, 16)] {
        let mut phases: BTreeMap<String, Duration> = BTreeMap::new();
        for _ in 0..7 {
            let mut last = Instant::now();
            let mut observe = |phase: Phase| {
                let shortest = phases.entry(format!("{phase:?}")).or_insert(Duration::MAX);
                *shortest = last.elapsed().min(*shortest);
                last = Instant::now();
            };
            let lanes = &parsed_lanes[from..to];
            let recovered = recipient.of(|| {
                decrypt_aggregate_rs(&checked, &epoch, &set, &parsed_servers, lanes, &mut observe).unwrap()
            });
            let plaintext = recovered.recovered.plaintext.iter().flat_map(PlainPoly::coefficients);
            assert!(plaintext.eq(&expected), "the sum of the messages");
        }
        println!("recipient, lanes {from}..{to}: {phases:.1?}");
    }
    println!("lane item {item_max} B, client to lanes {egress} B, recipient reads {reads} B");
    println!("lane sum {} B, post {} B", lane_bytes[0].len(), posts[&ClientId(0)].1.len());
    coded.print("client: code, commit and pack");
    deliver.print("client: hash the items");
    parse.print("lane: parse an item");
    verify.print("lane: verify an item");
    add.print("lane: add an item");
    close.print("lane: close, to the answer's bytes");
    post.print("recipient: a post, on arrival");
    parse_lanes.print("recipient: parse all lane sums");
    recipient.print("recipient: recover");
}
