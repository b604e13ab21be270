//! When the bulletin opens, ends and closes rounds.
//!
//! A pure function of the record and the time since the bulletin saw what is in it. None of it is trusted by anybody: a
//! bulletin that closes early or late costs its users the round and nothing else.

use super::{EpochState, Phase, Record, Session, Void};
use panetiere::ids::ScheduleDigest;
use panetiere_api::leaf::{AbortReason, Leaf, PostsEnd, RoundAbort, RoundId, RoundKind, RoundOpen};
use std::collections::BTreeMap;

/// The bulletin's time, in milliseconds from any fixed point. It never runs back.
pub type Millis = u64;

/// How long the parts of a round take at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Windows {
    /// Posts are taken for so long, in milliseconds, or until every admitted client has posted.
    pub collect_ms: u32,
    /// Servers have so long to check, in milliseconds.
    pub check_ms: u32,
    /// Clients then have so long to answer, in milliseconds.
    pub answer_ms: u32,
}

/// What the bulletin has to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Append this leaf.
    Append(Box<Leaf>),
    /// Nothing before this time, unless a leaf comes in.
    Wait(Millis),
    /// Nothing until a leaf comes in.
    Idle,
}

/// Moves rounds on.
#[derive(Clone, Debug)]
pub struct Conductor {
    windows: Windows,
    /// Since when each round under way is in its phase, as seen by this process: after a restart the windows begin anew.
    since: BTreeMap<(RoundId, bool), Millis>,
    /// Slots that a tickets' round has given out and no round has used.
    slots: Option<(RoundId, ScheduleDigest)>,
}

impl Conductor {
    /// A conductor with these windows.
    pub const fn new(windows: Windows) -> Self {
        Self { windows, since: BTreeMap::new(), slots: None }
    }

    /// Takes down what came out of a tickets' round: the next round is for messages in these slots.
    pub const fn allocated(&mut self, tickets: RoundId, schedule: ScheduleDigest) {
        self.slots = Some((tickets, schedule));
    }

    /// What to do at `now`, with what the log has. The next round is opened when the one before it has ended its posts.
    pub fn step(&mut self, now: Millis, record: &Record) -> Step {
        let under_way: Vec<&Session> = record.rounds().filter(|round| is_under_way(round.phase())).collect();
        let current: Vec<_> = under_way.iter().map(|round| (round.round(), collecting(round))).collect();
        self.since.retain(|key, _| current.contains(key));
        let mut next = None;
        for round in &under_way {
            let since = *self.since.entry((round.round(), collecting(round))).or_insert(now);
            let Some(epoch) = record.epoch_of(round.epoch()) else { continue };
            let step = if collecting(round) {
                collect(round, epoch, since, now)
            } else {
                check(round, epoch, since, now)
            };
            match step {
                Step::Append(leaf) => return Step::Append(leaf),
                Step::Wait(until) => next = Some(next.map_or(until, |next: Millis| next.min(until))),
                Step::Idle => {}
            }
        }
        if !under_way.iter().any(|round| collecting(round))
            && let Some(open) = self.open(record)
        {
            return Step::Append(Box::new(Leaf::RoundOpen(open)));
        }
        next.map_or(Step::Idle, Step::Wait)
    }

    /// The announcement of the next round, if the epoch has one left and enough clients.
    fn open(&self, record: &Record) -> Option<RoundOpen> {
        let epoch = record.epoch()?;
        let kind = self.kind(record, epoch)?;
        let params = epoch.params(&kind)?;
        let live = epoch.members().filter(|(_, member)| member.revoked_at.is_none()).count();
        let floor = usize::try_from(params.min_clients()).expect("usize has at least 32 bits");
        let Windows { collect_ms, check_ms, answer_ms } = self.windows;
        (epoch.rounds_left() > 0 && live >= floor).then(|| RoundOpen {
            deployment: *params.deployment(),
            epoch: *epoch.digest(),
            crs: *params.crs_digest(),
            round: record.next_round(),
            kind,
            collect_ms,
            check_ms,
            answer_ms,
        })
    }

    /// What the next round carries. Slots follow the tickets that reserved them; nothing is opened between a tickets' round
    /// that may still have a result and [`allocated`](Self::allocated).
    fn kind(&self, record: &Record, epoch: &EpochState) -> Option<RoundKind> {
        if epoch.params(&RoundKind::Messages).is_some() {
            return Some(RoundKind::Messages);
        }
        let used = |tickets: RoundId| {
            let uses = |round: &Session| matches!(*round.kind(), RoundKind::Slots { tickets: by, .. } if by == tickets);
            record.rounds().any(uses)
        };
        if let Some((tickets, schedule)) = self.slots.filter(|(tickets, _)| !used(*tickets)) {
            return Some(RoundKind::Slots { tickets, schedule });
        }
        let pending = record
            .rounds()
            .next_back()
            .is_some_and(|last| *last.kind() == RoundKind::Tickets && !last.is_called_off());
        (!pending).then_some(RoundKind::Tickets)
    }
}

const fn is_under_way(phase: &Phase) -> bool {
    matches!(phase, Phase::Collecting | Phase::Checking)
}

const fn collecting(round: &Session) -> bool {
    matches!(round.phase(), Phase::Collecting)
}

fn collect(round: &Session, epoch: &EpochState, since: Millis, now: Millis) -> Step {
    let posted = |client| round.posts().contains_key(&client);
    let missing = epoch.members().any(|(client, member)| member.revoked_at.is_none() && !posted(client));
    let full = usize::try_from(round.params().max_clients()).is_ok_and(|max| round.posts().len() >= max);
    let deadline = since + Millis::from(round.announcement().collect_ms);
    if missing && !full && now < deadline {
        return Step::Wait(deadline);
    }
    let floor = usize::try_from(round.params().min_clients()).expect("usize has at least 32 bits");
    if round.posts().len() < floor {
        return abort(round, AbortReason::TooFewClients);
    }
    Step::Append(Box::new(Leaf::PostsEnd(PostsEnd { session: *round.id() })))
}

fn check(round: &Session, epoch: &EpochState, since: Millis, now: Millis) -> Step {
    let checked_by = since + Millis::from(round.announcement().check_ms);
    let answered_by = checked_by + Millis::from(round.announcement().answer_ms);
    let all = round.checked().len() >= usize::from(round.params().servers());
    let enough = round.checked().len() >= usize::from(round.params().early_close());
    let settled = round.open_complaints().is_empty();
    let early = settled && (all || enough);
    // Who has not checked may still do so in time, and clients wait for it as long before they answer.
    let deadline = if settled { checked_by } else { answered_by };
    if !early && now < deadline {
        return Step::Wait(deadline);
    }
    match round.closing(epoch) {
        Ok(close) => Step::Append(Box::new(Leaf::RoundClose(close))),
        Err(Void::TooFewChecked { .. }) => abort(round, AbortReason::TooFewServers),
        Err(_) => abort(round, AbortReason::TooFewClients),
    }
}

fn abort(round: &Session, reason: AbortReason) -> Step {
    Step::Append(Box::new(Leaf::RoundAbort(RoundAbort { session: *round.id(), reason })))
}
