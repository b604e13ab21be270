//! A server's envelopes: fetched in runs of the log, checked a few at a time.

use super::{Daemon, News};
use crate::daemon::party::{Batch, Upstream};
use crate::role::Order;
use crate::role::server::Server;
use anyhow::Context as _;
use panetiere::bulletin::Envelope;
use panetiere::ids::{ClientId, ServerId, SessionId};
use panetiere::wire::DecodeWith as _;
use panetiere_api::client::Resume;
use panetiere_api::leaf::{Leaf, RoundId};
use panetiere_api::path::Path;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Leaves of one request at most.
const RUN: u64 = 256;
/// Envelopes that are checked before something else gets its turn.
const AT_ONCE: usize = 16;
/// An envelope that did not come, or not well, is asked for again after so long.
const AGAIN: Duration = Duration::from_secs(2);

/// What came of a request.
pub(super) struct Envelopes {
    round: RoundId,
    bytes: Option<Vec<u8>>,
}

/// What was asked for.
#[derive(Default)]
pub(super) struct Fetches {
    /// Where posts stand in the log.
    places: BTreeMap<(SessionId, ClientId), u64>,
    asked: BTreeMap<(RoundId, ClientId), Instant>,
    under_way: bool,
}

impl Fetches {
    /// Where the posts of a batch stand: the first of each client.
    pub fn places(&self, batch: &Batch) -> Vec<((SessionId, ClientId), u64)> {
        let place = |(index, entry): (u64, &Vec<u8>)| match Leaf::parse(entry) {
            Ok(Leaf::Post(post)) => Some(((post.claim().session, post.claim().client), index)),
            _ => None,
        };
        (batch.from..).zip(&batch.entries).filter_map(place).collect()
    }

    pub fn add(&mut self, places: impl Iterator<Item = ((SessionId, ClientId), u64)>) {
        for (post, index) in places {
            self.places.entry(post).or_insert(index);
        }
    }

    /// Forgets rounds that are over.
    pub fn keep(&mut self, under_way: impl Fn(RoundId) -> bool) {
        self.asked.retain(|(round, _), _| under_way(*round));
    }

    /// Forgets posts of sessions that are over.
    fn keep_sessions(&mut self, sessions: &[SessionId]) {
        self.places.retain(|(session, _), _| sessions.contains(session));
    }

    /// The run to ask for next.
    fn next(
        &mut self,
        wanted: &[Order],
        sessions: &BTreeMap<RoundId, SessionId>,
    ) -> Option<(RoundId, u64, u64)> {
        let now = Instant::now();
        let mut places: BTreeMap<(RoundId, u64), ClientId> = BTreeMap::new();
        for order in wanted {
            let Order::Fetch { round, client } = order else { continue };
            if self.asked.get(&(*round, *client)).is_some_and(|at| now < *at + AGAIN) {
                continue;
            }
            let session = sessions.get(round)?;
            if let Some(&index) = self.places.get(&(*session, *client)) {
                places.insert((*round, index), *client);
            }
        }
        let (&(round, from), _) = places.first_key_value()?;
        let run: Vec<(u64, ClientId)> = places
            .range((round, from)..(round, from + RUN))
            .map(|(&(_, index), &client)| (index, client))
            .collect();
        let to = run.last()?.0 + 1;
        self.asked.extend(run.into_iter().map(|(_, client)| ((round, client), now)));
        Some((round, from, to))
    }
}

/// Fetches the envelopes of a run.
async fn fetch(upstream: Arc<Upstream>, round: RoundId, (from, to): (u64, u64), len: u64) -> Envelopes {
    let path = format!("{}?from={from}&to={to}", Path::ServerOpenings(round));
    let answer = upstream.get("envelopes", &path, (to - from) * len, Resume::Never).await;
    if let Err(error) = &answer {
        tracing::debug!(error = crate::chain::chain(error), "envelopes did not come");
    }
    Envelopes { round, bytes: answer.ok().map(|answer| answer.body) }
}

impl Daemon {
    /// Asks for envelopes that are wanted and were not asked for lately: one request at a time.
    pub(super) async fn fetch(&mut self, wanted: Vec<Order>) -> anyhow::Result<()> {
        if self.envelopes.under_way || wanted.is_empty() {
            return Ok(());
        }
        let id = self.id;
        let look = move |server: &mut Server| {
            let rounds = server.record().rounds().filter(|session| !session.is_called_off());
            let of = |session: &panetiere_api::round::Session| {
                let len = Envelope::packed_len(session.params(), id).ok()?;
                Some((session.round(), (*session.id(), len)))
            };
            rounds.filter_map(of).collect::<BTreeMap<RoundId, (SessionId, usize)>>()
        };
        let rounds = self.desk.seat.with("rounds", look).await?;
        let sessions = rounds.iter().map(|(&round, &(session, _))| (round, session)).collect();
        self.envelopes.keep_sessions(&rounds.values().map(|(session, _)| *session).collect::<Vec<_>>());
        let Some((round, from, to)) = self.envelopes.next(&wanted, &sessions) else { return Ok(()) };
        let len = rounds.get(&round).map_or(0, |(_, len)| *len);
        let len = u64::try_from(len).expect("a length fits 64 bits");
        self.envelopes.under_way = true;
        let (upstream, report, stop) =
            (Arc::clone(&self.desk.upstream), self.report.clone(), self.desk.stop.clone());
        self.desk.tasks.spawn(async move {
            let envelopes = stop.run_until_cancelled(fetch(upstream, round, (from, to), len)).await;
            if let Some(envelopes) = envelopes {
                // The server may be gone.
                let _ = report.send(News::Envelopes(envelopes)).await;
            }
        });
        Ok(())
    }

    /// Checks envelopes that came. What none of them can be read from is asked for again.
    pub(super) async fn deliver(&mut self, envelopes: Envelopes) -> anyhow::Result<()> {
        self.envelopes.under_way = false;
        let Envelopes { round, bytes: Some(bytes) } = envelopes else { return Ok(()) };
        let id = self.id;
        let parse = move |server: &mut Server| parse(server, id, round, &bytes);
        let mut envelopes = self.desk.seat.with("parse", parse).await?.into_iter();
        loop {
            let some: Vec<Envelope> = envelopes.by_ref().take(AT_ONCE).collect();
            if some.is_empty() {
                return Ok(());
            }
            let now = self.now();
            let deliver = move |server: &mut Server| {
                let mut orders = Vec::new();
                for envelope in &some {
                    let (more, fault) = server.deliver(now, round, envelope)?;
                    orders.extend(more);
                    if let Some(fault) = fault {
                        tracing::debug!(%fault, "an envelope is not taken");
                    }
                }
                Ok::<_, crate::role::server::ServerError>(orders)
            };
            let orders =
                self.desk.seat.with("envelopes", deliver).await?.context("this server must not go on")?;
            self.desk.publisher.submit(orders);
        }
    }
}

/// The envelopes in an answer, as far as they can be read.
fn parse(server: &Server, id: ServerId, round: RoundId, bytes: &[u8]) -> Vec<Envelope> {
    let Some(session) = server.record().round(round) else { return Vec::new() };
    let Ok(len) = Envelope::packed_len(session.params(), id) else { return Vec::new() };
    bytes.chunks(len).filter_map(|bytes| Envelope::from_bytes_with(session.params(), bytes).ok()).collect()
}
