//! The rounds behind `panetiere demo`: all parties in one process, every hop through its wire bytes.

use super::collect::{Closed, Collected, Deceit, collect};
use super::config::DemoConfig;
use super::ingress::{Book, Named, Outcome};
use super::lie::{Lie, Party};
use super::report::{DemoReport, Difference, Message, RoundReport};
use crate::cli::lanes;
use crate::cli::progress::Progress;
use crate::local::{LocalRound, index};
use anyhow::Context;
use panetiere::bulletin::{CanonicalSet, Mode, ServerBulletinEntry};
use panetiere::channel::{self, Encoding};
use panetiere::codec::slots::Ticket;
use panetiere::fault::Fault;
use panetiere::ids::{AggregatorId, ClientId, NodeId, ServerId};
use panetiere::plaintext::PlainPoly;
use panetiere::wire::DecodeWith;
use rand_chacha::ChaCha20Rng;
use rand_core::Rng;
use std::time::Instant;

/// Sessions that a demo may open in one mode; each mode has leaves of its own.
const LEAVES: u64 = 4;

/// Runs the round in one mode, and its tampered twin.
pub(super) fn run(config: &DemoConfig, mode: Mode, progress: &Progress) -> anyhow::Result<DemoReport> {
    let mut book = Book::default();
    let phase = progress.phase("setup", 1);
    let parties = LocalRound::new(&config.seed, config.shape(mode))?;
    phase.advance(1);
    book.phases.add("setup", phase.finish());
    let liar = choose_liar(config);
    let deceit = Deceit { lie: config.lie, liar };
    let leaf = LEAVES * mode as u64;

    let common = announce(config, &parties, leaf, progress, &mut book)?;
    let vectors = |client: u32, rng: &mut ChaCha20Rng| vector(config, &common, client, rng);
    let told = (!config.lie.by_client()).then_some(deceit);
    let mut collected = collect(&config.seed, &common.round, &vectors, told, progress, &mut book)?;
    let mut closed = collected.close(progress, &mut book)?;
    let round = recover(config, mode, &collected, &closed, "recover", progress, book)?;

    let mut book = Book::default();
    let name = "recover despite the lie";
    let tamper = if told.is_some() {
        collected.falsify(deceit, &mut closed)?;
        recover(config, mode, &collected, &closed, name, progress, book)?
    } else {
        // Who answers a session twice has lied: a round with other posts is another session.
        drop(collected);
        let common = announce(config, &parties, leaf + LEAVES / 2, progress, &mut book)?;
        let vectors = |client: u32, rng: &mut ChaCha20Rng| vector(config, &common, client, rng);
        let mut collected =
            collect(&config.seed, &common.round, &vectors, Some(deceit), progress, &mut book)?;
        let closed = collected.close(progress, &mut book)?;
        recover(config, mode, &collected, &closed, name, progress, book)?
    };
    let spare_lanes = config.lanes.lanes > config.lanes.needed;
    Ok(DemoReport { round, tamper, lie: config.lie, liar, spare_lanes, simd: config.simd })
}

fn choose_liar(config: &DemoConfig) -> Party {
    let word = config.seed.stream("liar").next_u32();
    // For choices that need not be unbiased.
    let below =
        |bound: u16| u16::try_from(word % u32::from(bound)).expect("a remainder is below its modulus");
    match config.lie {
        Lie::ServerWrongSum => Party::Server(ServerId(below(config.servers))),
        Lie::AggregatorWrongSum | Lie::AggregatorWrongRoot | Lie::AggregatorShiftedSum => {
            Party::Aggregator(AggregatorId(below(config.aggregators())))
        }
        Lie::LaneWrongSum | Lie::LaneDown => Party::Lane(NodeId(below(config.lanes.lanes))),
        // One that has something to say: it must not come out.
        _ => Party::Client(ClientId(word % config.sent())),
    }
}

/// A round that can be posted to. With slots, the tickets by which clients find theirs.
struct Announced {
    round: LocalRound,
    tickets: Vec<Ticket>,
}

/// Opens a round. For slots another one goes before it, in which they are reserved.
fn announce(
    config: &DemoConfig,
    parties: &LocalRound,
    leaf: u64,
    progress: &Progress,
    book: &mut Book,
) -> anyhow::Result<Announced> {
    if config.encoding != Encoding::Slots {
        return Ok(Announced { round: parties.at(leaf, parties.channel.clone()), tickets: Vec::new() });
    }
    let phase = progress.phase("reserve", 1);
    let reservation = parties.reservation(leaf)?;
    let mut rng = config.seed.stream(&format!("tickets of session {}", reservation.session));
    let tickets: Vec<Ticket> = (0..config.clients).map(|_| Ticket::random(&mut rng)).collect();
    let vectors = |client: u32, rng: &mut ChaCha20Rng| {
        let request = config.messages.get(index(client)).map(|message| {
            let bytes = u32::try_from(message.len()).expect("a message of a demo is below 64 MiB");
            tickets[index(client)].request(bytes)
        });
        reservation.vector(rng, request.as_ref().map(|request| request.as_slice()))
    };
    let (silent, mut own) = (Progress::silent(), Book::default());
    let mut collected = collect(&config.seed, &reservation, &vectors, None, &silent, &mut own)?;
    let closed = collected.close(&silent, &mut own)?;
    let outcome = open(&collected, &closed, &mut own, &mut |_| {})?;
    let plaintext = outcome.plaintext.context("the reservation was not recovered")?;
    let requests = channel::deliver(&reservation.channel, &reservation.session, &plaintext)?.messages;
    let announced = parties.channel.with_tickets(&requests)?;
    let announced = announced.schedule().context("slots have a schedule")?.digest();
    let scheduled = parties.channel.with_agreed_tickets(&requests, &announced)?;
    phase.advance(1);
    book.phases.add("reservation", phase.finish());
    book.links.add("reservation, all links", own.links.iter().map(|(_, bytes)| bytes).sum());
    Ok(Announced { round: parties.at(leaf + 1, scheduled), tickets })
}

/// The vector of a client: its message, or cover.
fn vector(
    config: &DemoConfig,
    announced: &Announced,
    client: u32,
    rng: &mut ChaCha20Rng,
) -> anyhow::Result<Vec<PlainPoly>> {
    let Announced { round, tickets } = announced;
    let payload = config.messages.get(index(client)).map(Vec::as_slice);
    match tickets.get(index(client)).zip(payload) {
        // A message that has no slot is missed when what was recovered is compared with what was sent.
        Some((ticket, payload)) => {
            let (vector, _) = channel::encode_in_slot(ticket, &round.channel, &round.session, payload)?;
            Ok(vector)
        }
        None => round.vector(rng, payload),
    }
}

/// The set without some of its clients.
pub(super) fn without(set: &CanonicalSet, clients: &[ClientId]) -> anyhow::Result<CanonicalSet> {
    let rest = set.clients().iter().copied().filter(|client| !clients.contains(client));
    CanonicalSet::new(rest).context("no client is left")
}

/// The recipient's end of the round: sums in, a vector out.
fn open(
    collected: &Collected<'_>,
    closed: &Closed,
    book: &mut Book,
    observe: &mut dyn FnMut(&'static str),
) -> anyhow::Result<Outcome> {
    let sums = [("servers to recipient", &closed.servers), (collected.ingress.link(), &closed.ingress)];
    for (link, sums) in sums {
        sums.iter().for_each(|sum| book.carry(link, sum.len()));
    }
    let params = &collected.common.params;
    let entries = closed.servers.iter().map(|sum| ServerBulletinEntry::from_bytes_with(params, sum));
    let entries = entries.collect::<Result<Vec<_>, _>>().context("a server's sum does not parse")?;
    collected.ingress.recover(&closed.canonical, &entries, &closed.ingress, observe)
}

/// The recipient's end of the round: sums in, messages out, and what they are compared with what was sent.
fn recover(
    config: &DemoConfig,
    mode: Mode,
    collected: &Collected<'_>,
    closed: &Closed,
    name: &'static str,
    progress: &Progress,
    mut book: Book,
) -> anyhow::Result<RoundReport> {
    let bar = progress.phase(name, collected.ingress.steps() + 1);
    let mut last = Instant::now();
    let mut phases = super::report::Measures::default();
    let mut outcome = open(collected, closed, &mut book, &mut |phase| {
        phases.add(phase, last.elapsed());
        bar.advance(1);
        last = Instant::now();
    })?;
    phases.iter().for_each(|(name, elapsed)| book.phases.add(name, elapsed));
    let common = collected.common;
    let delivery = outcome.delivery.take().or_else(|| {
        let plaintext = outcome.plaintext.as_deref()?;
        Some(book.time("recipient decode", || channel::deliver(&common.channel, &common.session, plaintext)))
    });
    let delivery = delivery.transpose().map_err(|error| {
        let code = error.code();
        anyhow::Error::from(error).context(format!("the sum holds no messages ({code})"))
    })?;
    let messages = delivery.map_or_else(Vec::new, |delivery| delivery.messages);
    bar.advance(1);
    bar.finish();
    // What a client has sent that is not in the set is not to come out.
    let counted = (0..config.clients)
        .zip(&config.messages)
        .filter(|(client, _)| closed.canonical.contains(ClientId(*client)));
    let sent: Vec<&Vec<u8>> = counted.map(|(_, message)| message).collect();
    let Difference { missing, extra } = Difference::between(&sent, &messages);
    let accused = collected.accused.iter().copied().map(Party::Client);
    let culprits = accused.chain(outcome.named.iter().map(|named| named.party)).collect();
    let convicts = |Named { party, evidence }| Some((party, evidence?));
    Ok(RoundReport {
        mode,
        encoding: config.encoding,
        lanes: common.params.lanes().map(lanes::text),
        aggregators: (mode == Mode::Aggregated).then_some(common.aggregators.len()),
        clients: config.clients,
        cover: config.cover(),
        servers: config.servers,
        threshold: config.threshold,
        sent: sent.len(),
        recovered: messages.len(),
        missing,
        extra,
        messages: messages.into_iter().map(Message).collect(),
        culprits,
        evidence: outcome.named.into_iter().filter_map(convicts).collect(),
        absent: outcome.absent,
        phase_ms: book.phases,
        link_bytes: book.links,
        crs_digest: *common.params.crs_digest(),
    })
}
