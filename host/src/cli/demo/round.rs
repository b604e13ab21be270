//! The round behind `panetiere demo`: all parties in one process, every hop through its wire bytes.

use super::args::DemoConfig;
use super::report::{DemoReport, Difference, Measures, Message, RoundReport, culprit};
use crate::cli::progress::{Phase, Progress};
use crate::local::{LocalRound, Shape, index};
use anyhow::{Context, bail};
use panetiere::bulletin::{Envelope, PostView, ServerBulletinEntry, SignedPost, VerifiedPost};
use panetiere::channel;
use panetiere::cs::OpeningSum;
use panetiere::ids::{ClientId, ServerId};
use panetiere::protocol::{
    ClientRound, Culprit, Phase as RecipientPhase, PostSum, ProtocolParams, RecipientError, Recovered,
    RejectReason, ServerRound, decrypt_aggregate, run_client_round, unseal_opening,
};
use panetiere::wire::{Decode, DecodeWith, Encode};
use rand_core::Rng;
use rayon::prelude::*;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Verify, interpolate, decrypt, decode.
const RECOVER_STEPS: u64 = 4;

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

    let phase = progress.phase("recover", RECOVER_STEPS);
    let honest = recover(config, &common, &collected.posts, &sums, phases, links, phase)?;
    // The dangerous lie: a sum that leaves one client out, signed as the sum over the whole set.
    let identity = &common.servers[usize::from(liar.0)];
    let honest_entry = decode_sum(&common, &sums[usize::from(liar.0)])?;
    let wrong = ServerBulletinEntry::sign(
        *honest_entry.claim(),
        collected.lie.finish(liar.0),
        &common.params,
        identity.signing_key(),
    );
    sums[usize::from(liar.0)] = wrong.to_bytes(&common.params);
    let (phases, links) = (Measures::default(), Measures::default());
    let phase = progress.phase("recover despite the lie", RECOVER_STEPS);
    let tamper = recover(config, &common, &collected.posts, &sums, phases, links, phase)?;
    Ok(DemoReport { round: honest, tamper, tampered: liar, simd: config.simd })
}

/// A number below `bound`, for choices that need not be unbiased.
fn below(word: u32, bound: u16) -> u16 {
    u16::try_from(word % u32::from(bound)).expect("a remainder is below its modulus")
}

fn setup(config: &DemoConfig) -> anyhow::Result<LocalRound> {
    let shape = Shape {
        clients: config.clients,
        servers: config.servers,
        threshold: config.threshold,
        min_clients: config.min_clients,
        message_bytes: config.message_bytes,
        set: config.params.set(),
        kernels: config.simd.kernels(),
    };
    LocalRound::new(&config.seed, shape)
}

/// Clients encode, encrypt and seal; servers and recipient take what arrives, batch by batch, and keep only sums.
fn collect<'a>(
    config: &DemoConfig,
    common: &'a LocalRound,
    liar: ServerId,
    progress: &Progress,
    phases: &mut Measures<Duration>,
    links: &mut Measures<u64>,
) -> anyhow::Result<Collected<'a>> {
    let LocalRound { params, session, servers, clients, epoch, .. } = common;
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
            let payload = config.messages.get(index(client)).map(Vec::as_slice);
            let message = common.vector(&mut rng, payload)?;
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
            let post = PostView::parse(params, &sent.post)?;
            let key = common.admitted(post.head.signed.claim().client)?;
            collected.posts.add(&key, post)?;
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
            statement: round.post.head.signed.to_bytes(),
            post: round.post.to_bytes(params),
            envelopes: round.envelopes.iter().map(Encode::to_bytes).collect(),
        }
    }
}

/// What a server sees of one client: the logged statement, checked, and all envelopes still as bytes.
fn deliver<'a>(common: &LocalRound, sent: &'a Sent) -> anyhow::Result<(VerifiedPost, Vec<&'a [u8]>)> {
    let statement = SignedPost::from_bytes(&sent.statement)?;
    let key = common.admitted(statement.claim().client)?;
    let post = statement.check(&common.params, &common.session, &key)?;
    Ok((post, sent.envelopes.iter().map(Vec::as_slice).collect()))
}

fn decode_sum(common: &LocalRound, bytes: &[u8]) -> anyhow::Result<ServerBulletinEntry> {
    ServerBulletinEntry::from_bytes_with(&common.params, bytes).context("a server's sum does not parse")
}

/// The recipient's end of the round: sums in, messages out, and what they are compared with what was sent.
fn recover(
    config: &DemoConfig,
    common: &LocalRound,
    posts: &PostSum<'_>,
    sums: &[Vec<u8>],
    mut phases: Measures<Duration>,
    mut links: Measures<u64>,
    bar: Phase<'_>,
) -> anyhow::Result<RoundReport> {
    sums.iter().for_each(|sum| links.add("servers to recipient", size(sum.len())));
    let mut started = Instant::now();
    let entries = sums.iter().map(|sum| decode_sum(common, sum)).collect::<anyhow::Result<Vec<_>>>()?;
    let outcome = decrypt_aggregate(posts, &common.epoch, &entries, &mut |phase| {
        let name = match phase {
            RecipientPhase::VerifyOpenings => "recipient verify",
            RecipientPhase::Interpolate => "recipient interpolate",
            RecipientPhase::Decrypt => "recipient decrypt",
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

fn size(bytes: usize) -> u64 {
    u64::try_from(bytes).expect("a length fits 64 bits")
}
