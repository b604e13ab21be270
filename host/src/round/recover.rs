//! From a closed round's published bodies to its messages: what the recipient does, and what anybody can do again.

mod held;

pub use held::compare;

use super::library::Item;
use super::{EpochState, Session};
use held::{Library, Source};
use panetiere::bulletin::Mode;
use panetiere::channel::{ChannelError, ChannelParams, Delivery, deliver};
use panetiere::evidence::Evidence;
use panetiere::fault::{Attribution, Fault, Retry};
use panetiere::ids::{AggregatorId, ClientId, NodeId, ServerId};
use panetiere::protocol::{
    AggregatorCulprit, Audit, Culprit, LaneCulprit, NotRecovered, RecipientError, Recovered,
    RecoveredAggregated, RecoveredRs, SetPolicy, aggregate_and_decrypt_rs, recover_aggregated,
    recover_direct,
};
use panetiere_api::leaf::{RoundId, RoundKind, RoundResult, Undelivered, messages_from_bytes, messages_root};
use std::io;

/// What the parties of a round have published beside the log. It need not be trusted: every body is held against the leaf
/// that names it.
pub trait Bodies {
    /// Something of a round: None if nothing of the kind was published.
    ///
    /// # Errors
    /// If it cannot be read now.
    fn item(&self, round: RoundId, item: Item) -> io::Result<Option<Vec<u8>>>;

    /// The body that a party has published in a round: None if it has published none.
    ///
    /// # Errors
    /// As [`item`](Self::item).
    fn body(&self, round: RoundId, body: Body) -> io::Result<Option<Vec<u8>>> {
        self.item(round, Item::Body(body))
    }

    /// A checkpoint with cosignatures that covers the round's close, as text: None if none is published.
    ///
    /// # Errors
    /// As [`item`](Self::item).
    fn closing(&self, round: RoundId) -> io::Result<Option<Vec<u8>>> {
        self.item(round, Item::Closing)
    }

    /// The published messages of a round.
    ///
    /// # Errors
    /// As [`item`](Self::item); `InvalidData` if what is there is no list of messages.
    fn messages(&self, round: RoundId) -> io::Result<Option<Vec<Vec<u8>>>> {
        let parse = |bytes: Vec<u8>| messages_from_bytes(&bytes);
        let messages = self.item(round, Item::Messages)?.map(parse).transpose();
        messages.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
    }
}

/// Which body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Body {
    /// A client's post, without its ciphertext if that travels through lanes.
    Post(ClientId),
    /// An aggregator's sum.
    GroupSum(AggregatorId),
    /// A lane's sum.
    LaneSum(NodeId),
    /// A server's sum.
    ServerSum(ServerId),
}

impl std::fmt::Display for Body {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Post(client) => write!(f, "post of client {client}"),
            Self::GroupSum(aggregator) => write!(f, "sum of aggregator {aggregator}"),
            Self::LaneSum(lane) => write!(f, "sum of lane {lane}"),
            Self::ServerSum(server) => write!(f, "sum of server {server}"),
        }
    }
}

/// A round cannot be recovered, or not yet.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecoverError {
    /// A body cannot be read.
    #[error("the {body} of round {round} cannot be read")]
    Body {
        /// The round.
        round: RoundId,
        /// Which body.
        body: Body,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A body is not what the log's leaf names: whoever keeps it gave something else.
    #[error("the {body} of round {round} is not what the log names: {reason}")]
    Foreign {
        /// The round.
        round: RoundId,
        /// Which body.
        body: Body,
        /// What is wrong with it.
        reason: String,
    },
    /// A body that is needed was not published, or is not kept any more.
    #[error("the {body} of round {round} is not there")]
    Missing {
        /// The round.
        round: RoundId,
        /// Which body.
        body: Body,
    },
    /// The round is not closed.
    #[error("round {round} is not closed")]
    NotClosed {
        /// The round.
        round: RoundId,
    },
    /// The sums do not recover it.
    #[error("round {round} is not recovered from the sums at hand")]
    NotRecovered {
        /// The round.
        round: RoundId,
        /// Who is at fault, as far as it was found out.
        named: Vec<Named>,
        /// Why.
        #[source]
        source: Box<NotRecovered>,
    },
    /// The slots of the round cannot be computed again.
    #[error("the slots of round {round}, given out by round {tickets}, cannot be computed again")]
    Slots {
        /// The round.
        round: RoundId,
        /// The round of the tickets.
        tickets: RoundId,
        /// Why.
        #[source]
        source: Option<ChannelError>,
    },
}

impl Fault for RecoverError {
    fn code(&self) -> &'static str {
        match self {
            Self::Body { .. } => "recover_body",
            Self::Foreign { .. } => "recover_foreign_body",
            Self::Missing { .. } => "recover_missing_body",
            Self::NotClosed { .. } => "recover_not_closed",
            Self::NotRecovered { source, .. } => source.code(),
            Self::Slots { .. } => "recover_slots",
        }
    }

    fn attribution(&self) -> Attribution {
        match self {
            Self::NotRecovered { source, .. } => source.attribution(),
            _ => Attribution::Nobody,
        }
    }

    fn retry(&self) -> Retry {
        match self {
            Self::NotRecovered { source, .. } => source.retry(),
            Self::Slots { .. } => Retry::Never,
            _ => Retry::SameRequest,
        }
    }
}

/// A party that lied in a round.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// Who.
    pub party: Attribution,
    /// What about, as a stable name.
    pub code: &'static str,
    /// What about, in words.
    pub reason: String,
    /// What convicts it before everybody, where it takes no log to tell.
    pub evidence: Option<Box<Evidence>>,
}

/// A recovered round.
#[derive(Clone, Debug)]
pub struct Recovery {
    /// What came out of the sum, or why it is no sum of vectors of this encoding.
    pub delivery: Result<Delivery, ChannelError>,
    /// Parties that lied, each once.
    pub named: Vec<Named>,
    /// Sums that were not used and convict nobody, in words.
    pub set_aside: Vec<String>,
}

impl Recovery {
    /// The messages, sorted by their bytes.
    pub fn messages(&self) -> &[Vec<u8>] {
        self.delivery.as_ref().map_or(&[], |delivery| &delivery.messages)
    }

    /// What the recipient publishes of the round.
    ///
    /// # Panics
    /// If the round is not closed: then nothing was recovered.
    pub fn result(&self, session: &Session) -> RoundResult {
        let closed = session.closed().expect("a recovered round is closed");
        let params = session.params();
        RoundResult {
            deployment: *params.deployment(),
            epoch: *params.epoch(),
            session: *session.id(),
            crs: *params.crs_digest(),
            set: closed.set.digest(),
            posts: closed.posts,
            messages: u32::try_from(self.messages().len()).expect("no more messages than clients"),
            root: messages_root(self.messages().iter().map(Vec::as_slice)),
            undelivered: match &self.delivery {
                Ok(delivery) => Undelivered::of(&delivery.missing),
                Err(_) => Undelivered::Everything,
            },
        }
    }
}

/// Recovers a closed round from what was published: the sums that the log counts, and the posts of its set. A sum that
/// cannot be had, or is not what its leaf names, is set aside if enough others are left.
///
/// # Errors
/// `NotClosed`; `Body`, `Missing`, `Foreign` for a body that is needed; `Slots`; `NotRecovered` with who is at fault.
pub fn recover(session: &Session, epoch: &EpochState, bodies: &dyn Bodies) -> Result<Recovery, RecoverError> {
    let round = session.round();
    let closed = session.closed().ok_or(RecoverError::NotClosed { round })?;
    let channel = channel(session, epoch, bodies)?;
    let library = Library { session, bodies, round };
    let (servers, mut unused) = library.server_sums()?;
    let (params, id, document) = (&**session.params(), session.id(), &epoch.plan().document);
    let policy = SetPolicy::anchored(closed.set.clone(), params.min_clients(), params.max_clients());
    let mut failed = None;
    let recovered = match params.mode() {
        Mode::Direct => {
            let posts = |client| library.remember(&mut failed, library.whole_post(client));
            recover_direct(params, id, document, &policy, posts, &servers)
                .map_err(NotRecovered::from)
                .map(Parts::direct)
        }
        Mode::Erasure => {
            let (lanes, more) = library.lane_sums()?;
            unused.extend(more);
            let posts = |client| library.remember(&mut failed, library.rs_post(client));
            aggregate_and_decrypt_rs(params, id, document, &policy, posts, &servers, &lanes)
                .map(Parts::erasure)
        }
        _ => {
            let groups = library.group_sums()?;
            let audit = Audit::UnlessDelivered(&channel);
            recover_aggregated(params, id, document, &policy, &mut Source(&library), &groups, &servers, audit)
                .map(Parts::aggregated)
        }
    };
    if let Some(error) = failed {
        return Err(error);
    }
    let parts = recovered.map_err(|source| {
        let named = named_in(&source);
        RecoverError::NotRecovered { round, named, source: Box::new(source) }
    })?;
    let delivery = match parts.delivery {
        Some(delivery) => delivery,
        None => deliver(&channel, id, &parts.recovered.plaintext),
    };
    let mut named: Vec<Named> = parts.recovered.culprits.into_iter().map(Named::server).collect();
    named.extend(parts.others);
    let discarded = parts.recovered.discarded.iter().map(ToString::to_string);
    let unused = unused.iter().map(ToString::to_string);
    let set_aside = discarded.chain(parts.set_aside).chain(unused).collect();
    Ok(Recovery { delivery, named, set_aside })
}

/// The payload encoding of a round, with its slots if it has any.
fn channel(
    session: &Session,
    epoch: &EpochState,
    bodies: &dyn Bodies,
) -> Result<ChannelParams, RecoverError> {
    let (round, kernels) = (session.round(), session.params().lattice().kernels());
    let messages = epoch.plan().terms.channel();
    let channel = match session.kind() {
        RoundKind::Messages => messages,
        RoundKind::Tickets => messages.ticket_channel().map_err(|error| RecoverError::Slots {
            round,
            tickets: round,
            source: Some(error),
        })?,
        RoundKind::Slots { tickets, schedule } => {
            let failed = |source| RecoverError::Slots { round, tickets: *tickets, source };
            let requests = bodies.messages(*tickets).ok().flatten().ok_or_else(|| failed(None))?;
            messages.with_agreed_tickets(&requests, schedule).map_err(|error| failed(Some(error)))?
        }
        _ => messages,
    };
    Ok(channel.with_kernels(kernels))
}

/// A recovery, whichever the mode.
struct Parts {
    recovered: Recovered,
    others: Vec<Named>,
    set_aside: Vec<String>,
    delivery: Option<Result<Delivery, ChannelError>>,
}

impl Parts {
    const fn direct(recovered: Recovered) -> Self {
        Self { recovered, others: Vec::new(), set_aside: Vec::new(), delivery: None }
    }

    fn erasure(found: RecoveredRs) -> Self {
        Self {
            recovered: found.recovered,
            others: found.lane_culprits.into_iter().map(Named::lane).collect(),
            set_aside: found.lanes_discarded.iter().map(ToString::to_string).collect(),
            delivery: None,
        }
    }

    fn aggregated(found: RecoveredAggregated) -> Self {
        let mut set_aside: Vec<String> = found.discarded.iter().map(ToString::to_string).collect();
        set_aside
            .extend(found.unaudited.iter().map(|reason| format!("groups were not added again: {reason}")));
        let unjudged =
            |server| format!("the opening of server {server} does not verify against the groups' roots");
        set_aside.extend(found.unjudged.iter().map(unjudged));
        Self {
            recovered: found.recovered,
            others: found.aggregators.into_iter().map(Named::aggregator).collect(),
            set_aside,
            delivery: found.delivery,
        }
    }
}

impl Named {
    fn of(party: Attribution, fault: &dyn Fault, evidence: Option<Box<Evidence>>) -> Self {
        Self { party, code: fault.code(), reason: fault.to_string(), evidence }
    }

    fn server(Culprit { server, fault, evidence, .. }: Culprit) -> Self {
        Self::of(Attribution::Server(server), &fault, evidence)
    }

    fn lane(LaneCulprit { lane, fault, evidence, .. }: LaneCulprit) -> Self {
        Self::of(Attribution::Lane(lane), &fault, evidence)
    }

    fn aggregator(AggregatorCulprit { aggregator, fault, evidence, .. }: AggregatorCulprit) -> Self {
        Self::of(Attribution::Aggregator(aggregator), &fault, evidence)
    }
}

fn named_in(error: &NotRecovered) -> Vec<Named> {
    let mut named: Vec<Named> = error.aggregators.iter().cloned().map(Named::aggregator).collect();
    named.extend(error.lanes.iter().cloned().map(Named::lane));
    if let RecipientError::Rejected(panetiere::protocol::RejectReason::SharesExhausted { culprits, .. }) =
        &error.reason
    {
        named.extend(culprits.iter().cloned().map(Named::server));
    }
    named
}
