//! Where things stand in the log: for receipts of what is asked for again, and for what is read in the order of the leaves.

use crate::round::{Event, Record};
use panetiere::ids::{AggregatorId, ClientId, EpochDigest, NodeId, ServerId};
use panetiere_api::leaf::RoundId;
use std::collections::BTreeMap;

/// A leaf that counts, by what it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// A client's answer to a server.
    Answer(RoundId, ClientId, ServerId),
    /// A server's word on its envelopes.
    Checked(RoundId, ServerId),
    /// A round's close.
    Close(RoundId),
    /// An aggregator's sum.
    GroupSum(RoundId, AggregatorId),
    /// A lane's sum.
    LaneSum(RoundId, NodeId),
    /// A round's announcement.
    Open(RoundId),
    /// A client's post.
    Post(RoundId, ClientId),
    /// A round's result.
    Result(RoundId),
    /// A server's sum.
    ServerSum(RoundId, ServerId),
}

impl Place {
    /// The round.
    pub const fn round(self) -> RoundId {
        match self {
            Self::Answer(round, ..)
            | Self::Checked(round, _)
            | Self::Close(round)
            | Self::GroupSum(round, _)
            | Self::LaneSum(round, _)
            | Self::Open(round)
            | Self::Post(round, _)
            | Self::Result(round)
            | Self::ServerSum(round, _) => round,
        }
    }

    const fn of(event: &Event) -> Option<Self> {
        Some(match *event {
            Event::Answered { round, client, server } => Self::Answer(round, client, server),
            Event::Checked { round, server } => Self::Checked(round, server),
            Event::GroupSummed { round, aggregator } => Self::GroupSum(round, aggregator),
            Event::LaneSummed { round, lane } => Self::LaneSum(round, lane),
            Event::Posted { round, client } => Self::Post(round, client),
            Event::Resulted { round } => Self::Result(round),
            Event::RoundClosed { round } => Self::Close(round),
            Event::RoundOpened { round, .. } => Self::Open(round),
            Event::ServerSummed { round, server } => Self::ServerSum(round, server),
            _ => return None,
        })
    }
}

/// Of the rounds that the record has.
#[derive(Debug, Default)]
pub(super) struct Places {
    leaves: BTreeMap<RoundId, BTreeMap<Place, u64>>,
    posts: BTreeMap<RoundId, BTreeMap<u64, ClientId>>,
    admissions: BTreeMap<EpochDigest, BTreeMap<ClientId, u64>>,
}

impl Places {
    /// Takes note of a leaf that counts and was folded into the record.
    pub(super) fn note(&mut self, event: &Event, index: u64, record: &Record) {
        // Only these make the record forget something older.
        if let Event::EpochBegan { .. } | Event::RoundOpened { .. } = event {
            self.forget(record);
        }
        if let Event::Admitted { epoch, client } = *event {
            self.admissions.entry(epoch).or_default().insert(client, index);
        }
        let Some(place) = Place::of(event) else { return };
        self.leaves.entry(place.round()).or_default().insert(place, index);
        if let Place::Post(round, client) = place {
            self.posts.entry(round).or_default().insert(index, client);
        }
    }

    /// Forgets rounds and epochs that the record has forgotten.
    fn forget(&mut self, record: &Record) {
        let first = record.rounds().next().map(panetiere_api::round::Session::round);
        let kept = |round: &RoundId| first.is_some_and(|first| *round >= first);
        self.leaves.retain(|round, _| kept(round));
        self.posts.retain(|round, _| kept(round));
        self.admissions.retain(|epoch, _| record.epoch_of(epoch).is_some());
    }

    pub(super) fn get(&self, place: &Place) -> Option<u64> {
        self.leaves.get(&place.round())?.get(place).copied()
    }

    pub(super) fn admission(&self, epoch: &EpochDigest, client: ClientId) -> Option<u64> {
        self.admissions.get(epoch)?.get(&client).copied()
    }

    /// The clients whose posts stand in a range of indices, in that order.
    pub(super) fn posts_between(&self, round: RoundId, from: u64, to: u64) -> Vec<ClientId> {
        let Some(posts) = self.posts.get(&round).filter(|_| from < to) else { return Vec::new() };
        posts.range(from..to).map(|(_, client)| *client).collect()
    }
}
