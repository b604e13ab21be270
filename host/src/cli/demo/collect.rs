//! Posting to closing: clients encode, encrypt and seal; servers and the parties of the mode take what arrives, batch by
//! batch, and keep only sums.

use super::client::{self, Sent};
use super::ingress::{self, Book, Delivered, Ingress, client_at_fault};
use super::lie::{Lie, Party};
use super::round::without;
use super::spool::Keep;
use crate::cli::progress::Progress;
use crate::local::LocalRound;
use crate::seed::Seed;
use anyhow::Context;
use panetiere::bulletin::{CanonicalSet, Envelope, ServerBulletinEntry, SignedPost};
use panetiere::cs::OpeningSum;
use panetiere::ids::{ClientId, ServerId};
use panetiere::plaintext::PlainPoly;
use panetiere::protocol::{ServerRound, unseal_opening};
use panetiere::wire::{Decode, DecodeWith};
use rand_chacha::ChaCha20Rng;
use rayon::prelude::*;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The vector of each client.
pub(super) type Vectors<'v> = dyn Fn(u32, &mut ChaCha20Rng) -> anyhow::Result<Vec<PlainPoly>> + Sync + 'v;

/// Who lies, and how.
#[derive(Clone, Copy, Debug)]
pub(super) struct Deceit {
    pub lie: Lie,
    pub liar: Party,
}

impl Deceit {
    fn of_client(self, client: ClientId) -> Option<Lie> {
        (self.liar == Party::Client(client)).then_some(self.lie)
    }

    fn server(self) -> Option<ServerId> {
        match self.liar {
            Party::Server(server) => Some(server),
            _ => None,
        }
    }
}

/// A round whose posts have arrived.
pub(super) struct Collected<'a> {
    pub common: &'a LocalRound,
    pub ingress: Box<dyn Ingress + 'a>,
    servers: Vec<ServerRound>,
    /// What a lying server adds up: everybody but the last client.
    omitting: Option<(ServerId, OpeningSum)>,
    /// Clients that are proved to be at fault.
    pub accused: BTreeSet<ClientId>,
}

/// What was published over the set of a round.
pub(super) struct Closed {
    pub canonical: CanonicalSet,
    /// The servers' sums.
    pub servers: Vec<Vec<u8>>,
    /// What the parties of the mode have published.
    pub ingress: Vec<Vec<u8>>,
}

/// Runs all clients of a round. A deceit of a client is told; for one of anybody else what it takes is kept.
pub(super) fn collect<'a>(
    seed: &Seed,
    common: &'a LocalRound,
    vectors: &Vectors<'_>,
    deceit: Option<Deceit>,
    progress: &Progress,
    book: &mut Book,
) -> anyhow::Result<Collected<'a>> {
    let LocalRound { params, session, servers, canonical, .. } = common;
    let last = *canonical.clients().last().context("a round has clients")?;
    let keep = match deceit.map(|deceit| deceit.lie) {
        Some(lie) if lie.by_client() => Keep::Everything,
        // The recipient is to find out, from the posts.
        Some(Lie::AggregatorWrongSum | Lie::AggregatorWrongRoot | Lie::AggregatorShiftedSum) => {
            Keep::Everything
        }
        Some(Lie::LaneWrongSum) => Keep::Client(last.0),
        _ => Keep::Nothing,
    };
    let mut collected = Collected {
        common,
        ingress: ingress::of(common, keep, deceit.map(|deceit| deceit.liar))?,
        servers: servers
            .iter()
            .map(|server| ServerRound::new(Arc::clone(params), *session, Arc::clone(server)))
            .collect(),
        omitting: deceit.and_then(Deceit::server).map(|server| (server, OpeningSum::new(params.cs()))),
        accused: BTreeSet::new(),
    };
    let bar = progress.phase("collect", canonical.count().into());
    for batch in canonical.clients().chunks(rayon::current_num_threads()) {
        let run = |&client: &ClientId| {
            // Every client has a stream of its own, so the batch size changes nothing.
            let mut rng = common.client_stream(seed, client.0);
            let vector = vectors(client.0, &mut rng)?;
            let lie = deceit.and_then(|deceit| deceit.of_client(client));
            client::run(common, &mut rng, client, &vector, lie)
        };
        let sent =
            book.time("clients", || batch.par_iter().map(run).collect::<anyhow::Result<Vec<Sent>>>())?;
        collected.take(&sent, last, book)?;
        bar.advance(u64::try_from(sent.len())?);
    }
    bar.finish();
    Ok(collected)
}

impl Collected<'_> {
    /// What a batch of clients sent reaches the servers, then everybody else. What is proved to be wrong at a server does
    /// not get further.
    fn take(&mut self, sent: &[Sent], last: ClientId, book: &mut Book) -> anyhow::Result<()> {
        let (common, params) = (self.common, &self.common.params);
        let servers = &mut self.servers;
        let (delivered, accused) = book.time("server arrival", || {
            let delivered =
                sent.iter().map(|sent| deliver(common, sent)).collect::<anyhow::Result<Vec<_>>>()?;
            let one = |(server, round): (usize, &mut ServerRound)| {
                let mut accused = Vec::new();
                for Delivered { post, sent } in &delivered {
                    let envelope = Envelope::from_bytes_with(params, &sent.envelopes[server])?;
                    if let Err(fault) = round.receive(post, &envelope) {
                        accused.push(client_at_fault(fault)?);
                    }
                }
                anyhow::Ok(accused)
            };
            let accused =
                servers.par_iter_mut().enumerate().map(one).collect::<anyhow::Result<Vec<_>>>()?.concat();
            anyhow::Ok((delivered, accused))
        })?;
        self.accused.extend(accused);
        if let Some((server, sum)) = &mut self.omitting {
            for Delivered { post, sent } in delivered.iter().filter(|one| one.sent.client != last) {
                let place = usize::from(server.0);
                let envelope = Envelope::from_bytes_with(params, &sent.envelopes[place])?;
                sum.add(&unseal_opening(&common.servers[place], params, post, &envelope)?.1);
            }
        }
        for sent in sent {
            book.carry("clients to servers", sent.envelopes.iter().map(Vec::len).sum());
            book.carry("bulletin to servers", sent.statement.len() * common.servers.len());
        }
        let mut good = delivered;
        good.retain(|one| !self.accused.contains(&one.sent.client));
        self.accused.extend(self.ingress.arrive(&good, book)?);
        Ok(())
    }

    /// Settles the set, everybody but those at fault, and has it summed.
    pub fn close(&mut self, progress: &Progress, book: &mut Book) -> anyhow::Result<Closed> {
        let mut canonical = self.candidates()?;
        self.accused.extend(self.ingress.examine(&canonical, book)?);
        canonical = self.candidates()?;
        let bar = progress.phase("close", u64::try_from(self.servers.len())?);
        let mut servers = Vec::with_capacity(self.servers.len());
        for round in &mut self.servers {
            let params = &self.common.params;
            let sum = book.time("server close", || round.close(&canonical).map(|sum| sum.to_bytes(params)));
            servers.push(sum.context("a server could not close the round")?);
            bar.advance(1);
        }
        let ingress = self.ingress.close(&canonical, book)?;
        bar.finish();
        Ok(Closed { canonical, servers, ingress })
    }

    fn candidates(&self) -> anyhow::Result<CanonicalSet> {
        let accused: Vec<ClientId> = self.accused.iter().copied().collect();
        without(&self.common.canonical, &accused)
    }

    /// Puts what the liar publishes in place of what it has published honestly.
    pub fn falsify(&mut self, deceit: Deceit, closed: &mut Closed) -> anyhow::Result<()> {
        let params = &self.common.params;
        if let Some((server, sum)) = &self.omitting {
            // The dangerous lie: a sum that leaves one client out, signed as the sum over the whole set.
            let place = usize::from(server.0);
            let honest = ServerBulletinEntry::from_bytes_with(params, &closed.servers[place])?;
            let key = self.common.servers[place].signing_key();
            let wrong = ServerBulletinEntry::sign(*honest.claim(), sum.finish(server.0), params, key);
            closed.servers[place] = wrong.to_bytes(params);
        }
        self.ingress.falsify(deceit.lie, deceit.liar, &closed.canonical, &mut closed.ingress)
    }
}

/// What everybody sees of one client: the logged statement, checked.
fn deliver<'a>(common: &LocalRound, sent: &'a Sent) -> anyhow::Result<Delivered<'a>> {
    let statement = SignedPost::from_bytes(&sent.statement)?;
    let key = common.admitted(statement.claim().client)?;
    let post = statement.check(&common.params, &common.session, &key)?;
    Ok(Delivered { post, sent })
}
