//! The round behind `panetiere demo`: all parties in one process, every hop through its wire bytes.

use super::args::DemoConfig;
use super::report::{DemoReport, Difference, Measures, Message, RoundReport, culprit};
use crate::cli::progress::Progress;
use anyhow::{Context, anyhow, bail};
use chipmunk::ring::backend::Simd;
use panetiere::bulletin::{
    CanonicalSet, ClientBulletinEntry, Envelope, Epoch, EpochServer, ServerBulletinEntry, SignedPost,
    VerifiedPost,
};
use panetiere::channel::{self, ChannelParams};
use panetiere::cs::OpeningSum;
use panetiere::ids::{ClientId, DeploymentId, EpochId, ServerId, SessionId};
use panetiere::protocol::{
    ClientRound, Culprit, Deployment, Dimensions, Phase, PostSum, ProtocolParams, RecipientError, Recovered,
    RejectReason, ServerIdentity, ServerRound, decrypt_aggregate, run_client_round, unseal_opening,
};
use panetiere::sig::{SigningKey, VerifyingKey};
use panetiere::wire::{Decode, DecodeWith, Encode};
use panetiere::{merkle, pke};
use rand_core::Rng;
use rayon::prelude::*;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The log that the demo's session would be announced in.
const ORIGIN: &str = "panetiere.demo/log";

/// What all parties hold in common.
struct Common {
    channel: ChannelParams,
    params: Arc<ProtocolParams>,
    epoch: Epoch,
    session: SessionId,
    canonical: CanonicalSet,
    clients: Vec<SigningKey>,
    servers: Vec<Arc<ServerIdentity>>,
}

/// A sum of the messages' vectors, on its way through the servers and the recipient.
struct Collected<'a> {
    rounds: Vec<ServerRound>,
    /// What the lying server adds up: everybody but the last client.
    lie: OpeningSum,
    posts: PostSum<'a>,
}

/// Runs the round and its tampered twin.
pub(super) fn run(config: &DemoConfig, progress: &Progress) -> anyhow::Result<DemoReport> {
    let mut phases = Measures::default();
    let mut links = Measures::default();
    let phase = progress.phase("setup", 1);
    let common = setup(config)?;
    phase.advance(1);
    phases.add("setup", phase.finish());
    let liar = ServerId(below(config.seed.stream("liar").next_u32(), config.servers));

    let mut collected = collect(config, &common, liar, progress, &mut phases, &mut links)?;
    let phase = progress.phase("close", config.servers.into());
    let mut sums = Vec::new();
    for round in &mut collected.rounds {
        let sum = round.close(&common.canonical).context("a server could not close the round")?;
        sums.push(sum.to_bytes(&common.params));
        phase.advance(1);
    }
    phases.add("server close", phase.finish());

    let honest = recover(config, &common, &collected.posts, &sums, phases, links, progress)?;
    // The dangerous lie: a sum that leaves one client out, signed as the sum over the whole set.
    let identity = &common.servers[usize::from(liar.0)];
    let honest_entry = decode_sum(&common, &sums[usize::from(liar.0)])?;
    let wrong = ServerBulletinEntry::sign(
        *honest_entry.claim(),
        collected.lie.finish(liar.0),
        &common.params,
        &identity.signing_key,
    );
    sums[usize::from(liar.0)] = wrong.to_bytes(&common.params);
    let (phases, links) = (Measures::default(), Measures::default());
    let tamper = recover(config, &common, &collected.posts, &sums, phases, links, progress)?;
    Ok(DemoReport { round: honest, tamper, tampered: liar })
}

/// A number below `bound`, for choices that need not be unbiased.
fn below(word: u32, bound: u16) -> u16 {
    u16::try_from(word % u32::from(bound)).expect("a remainder is below its modulus")
}

fn setup(config: &DemoConfig) -> anyhow::Result<Common> {
    let id = DeploymentId::from_name("panetiere demo");
    let mut rng = config.seed.stream("keys");
    let servers: Vec<_> = (0..config.servers)
        .map(|index| {
            Arc::new(ServerIdentity {
                id: ServerId(index),
                envelope_key: pke::PrivateKey::generate(&mut rng),
                signing_key: SigningKey::generate(&mut rng),
            })
        })
        .collect();
    let clients: Vec<_> = (0..config.clients).map(|_| SigningKey::generate(&mut rng)).collect();
    let entries = servers
        .iter()
        .map(|s| EpochServer::sign(&id, EpochId(0), s.id, s.envelope_key.public_key(), &s.signing_key))
        .collect();
    let document = Epoch::new(id, EpochId(0), entries)?.to_bytes();
    let epoch = Epoch::from_bytes(&document)?;

    let channel = ChannelParams::prony_for_messages(config.capacity(), config.message_bytes)?;
    let deployment = Deployment {
        id,
        epoch: epoch.digest(),
        set: config.params.set(),
        min_clients: config.min_clients,
        max_clients: config.params.max_clients(),
        kernels: Simd::detect().kernels(),
    };
    let dimensions = Dimensions::for_channel(&channel, config.servers, config.threshold);
    let params = ProtocolParams::setup_with_kahe_dims_full(deployment, dimensions)?;
    // The demo's stand-in for the log's announcement leaf: epoch document and parameters.
    let leaf = merkle::leaf_hash(&[document.as_slice(), params.crs_digest().as_bytes()].concat());
    Ok(Common {
        channel,
        params: Arc::new(params),
        session: SessionId::derive(ORIGIN, 0, &leaf),
        canonical: CanonicalSet::new((0..config.clients).map(ClientId))?,
        epoch,
        clients,
        servers,
    })
}

/// Clients encode, encrypt and seal; servers and recipient take what arrives, batch by batch, and keep only sums.
fn collect<'a>(
    config: &DemoConfig,
    common: &'a Common,
    liar: ServerId,
    progress: &Progress,
    phases: &mut Measures<Duration>,
    links: &mut Measures<u64>,
) -> anyhow::Result<Collected<'a>> {
    let Common { params, session, servers, clients, epoch, .. } = common;
    let rounds =
        servers.iter().map(|s| ServerRound::new(Arc::clone(params), *session, Arc::clone(s))).collect();
    let posts = PostSum::new(params, *session, &common.canonical);
    let mut collected = Collected { rounds, lie: OpeningSum::new(params.cs()), posts };
    let keys = epoch.envelope_keys();
    let bar = progress.phase("collect", config.clients.into());
    let ids: Vec<u32> = (0..config.clients).collect();
    for batch in ids.chunks(rayon::current_num_threads()) {
        let started = Instant::now();
        let run = |&client: &u32| {
            // Every client has a stream of its own, so the batch size changes nothing.
            let mut rng = config.seed.stream(&format!("client {client}"));
            let message = match config.messages.get(index(client)) {
                Some(payload) => channel::encode_message(&mut rng, &common.channel, session, payload)?,
                None => channel::cover(&common.channel),
            };
            let key = &clients[index(client)];
            let round = run_client_round(&mut rng, params, session, ClientId(client), &message, &keys, key)?;
            anyhow::Ok(Sent::pack(params, &round))
        };
        let sent = batch.par_iter().map(run).collect::<anyhow::Result<Vec<Sent>>>()?;
        phases.add("clients", started.elapsed());

        let started = Instant::now();
        let delivered = sent.iter().map(|sent| deliver(common, sent)).collect::<anyhow::Result<Vec<_>>>()?;
        collected.rounds.par_iter_mut().enumerate().try_for_each(|(server, round)| {
            delivered.iter().try_for_each(|(post, envelopes)| {
                let envelope = Envelope::from_bytes_with(params, envelopes[server])?;
                anyhow::Ok(round.receive(post, &envelope)?)
            })
        })?;
        phases.add("server arrival", started.elapsed());

        let last = ClientId(config.clients - 1);
        for (post, envelopes) in delivered.iter().filter(|(post, _)| post.client() != last) {
            let envelope = Envelope::from_bytes_with(params, envelopes[usize::from(liar.0)])?;
            let identity = &servers[usize::from(liar.0)];
            collected.lie.add(&unseal_opening(identity, params, post, &envelope)?.1);
        }

        let started = Instant::now();
        for sent in &sent {
            let post = ClientBulletinEntry::from_bytes_with(params, &sent.post)?;
            let key = admitted(common, post.signed.claim().client)?;
            collected.posts.add(&key, &post)?;
            bar.advance(1);
        }
        phases.add("recipient arrival", started.elapsed());
        for sent in &sent {
            links.add("clients to bulletin", size(sent.post.len()));
            links.add("clients to servers", sent.envelopes.iter().map(|e| size(e.len())).sum());
            links.add("bulletin to servers", size(sent.statement.len()) * u64::from(config.servers));
            links.add("bulletin to recipient", size(sent.post.len()));
        }
    }
    bar.finish();
    Ok(collected)
}

/// One client's round as bytes.
struct Sent {
    statement: Vec<u8>,
    post: Vec<u8>,
    envelopes: Vec<Vec<u8>>,
}

impl Sent {
    fn pack(params: &ProtocolParams, round: &ClientRound) -> Self {
        Self {
            statement: round.post.signed.to_bytes(),
            post: round.post.to_bytes(params),
            envelopes: round.envelopes.iter().map(Encode::to_bytes).collect(),
        }
    }
}

/// The key that admission has bound to this client.
fn admitted(common: &Common, client: ClientId) -> anyhow::Result<VerifyingKey> {
    let key =
        common.clients.get(index(client.0)).ok_or_else(|| anyhow!("client {client} was never admitted"))?;
    Ok(key.verifying_key())
}

/// What a server sees of one client: the logged statement, checked, and all envelopes still as bytes.
fn deliver<'a>(common: &Common, sent: &'a Sent) -> anyhow::Result<(VerifiedPost, Vec<&'a [u8]>)> {
    let statement = SignedPost::from_bytes(&sent.statement)?;
    let key = admitted(common, statement.claim().client)?;
    let post = statement.check(&common.params, &common.session, &key)?;
    Ok((post, sent.envelopes.iter().map(Vec::as_slice).collect()))
}

fn decode_sum(common: &Common, bytes: &[u8]) -> anyhow::Result<ServerBulletinEntry> {
    ServerBulletinEntry::from_bytes_with(&common.params, bytes).context("a server's sum does not parse")
}

/// The recipient's end of the round: sums in, messages out, and what they are compared with what was sent.
fn recover(
    config: &DemoConfig,
    common: &Common,
    posts: &PostSum<'_>,
    sums: &[Vec<u8>],
    mut phases: Measures<Duration>,
    mut links: Measures<u64>,
    progress: &Progress,
) -> anyhow::Result<RoundReport> {
    let bar = progress.phase("recover", 4);
    sums.iter().for_each(|sum| links.add("servers to recipient", size(sum.len())));
    let mut started = Instant::now();
    let entries = sums.iter().map(|sum| decode_sum(common, sum)).collect::<anyhow::Result<Vec<_>>>()?;
    let outcome = decrypt_aggregate(posts, &common.epoch, &entries, &mut |phase| {
        let name = match phase {
            Phase::VerifyOpenings => "recipient verify",
            Phase::Interpolate => "recipient interpolate",
            Phase::Decrypt => "recipient decrypt",
            _ => "recipient",
        };
        phases.add(name, started.elapsed());
        bar.advance(1);
        started = Instant::now();
    });
    let (recovered, culprits) = match outcome {
        Ok(Recovered { plaintext, culprits, discarded, .. }) => {
            if let Some(discarded) = discarded.into_iter().next() {
                return Err(anyhow::Error::from(discarded).context("a sum of this very round was discarded"));
            }
            started = Instant::now();
            let messages = channel::decode_messages(&common.channel, &common.session, &plaintext, None)?;
            phases.add("recipient decode", started.elapsed());
            (messages, culprits)
        }
        Err(RecipientError::Rejected(RejectReason::SharesExhausted { culprits, .. })) => {
            (Vec::new(), culprits)
        }
        Err(error) => bail!(anyhow::Error::from(error).context("the round was not recovered")),
    };
    bar.advance(1);
    bar.finish();
    let Difference { missing, extra } = Difference::between(&config.messages, &recovered);
    Ok(RoundReport {
        mode: "direct",
        clients: config.clients,
        cover: config.cover(),
        servers: config.servers,
        threshold: config.threshold,
        sent: config.messages.len(),
        recovered: recovered.len(),
        missing,
        extra,
        messages: recovered.into_iter().map(Message).collect(),
        culprits: culprits.iter().map(|Culprit { server, .. }| culprit(*server)).collect(),
        phase_ms: phases,
        link_bytes: links,
        crs_digest: *common.params.crs_digest(),
    })
}

fn index(client: u32) -> usize {
    usize::try_from(client).expect("the host runs on targets with at least 32 bits")
}

fn size(bytes: usize) -> u64 {
    u64::try_from(bytes).expect("a length fits 64 bits")
}
