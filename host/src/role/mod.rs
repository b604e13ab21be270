//! The parties as state machines without I/O: what comes in is given, what has to be done is returned. The daemons wire
//! them to sockets and disks, the simulator to a virtual network.

pub mod aggregator;
pub mod codeword;
pub mod lane;
pub mod past;
pub mod recipient;
pub mod server;

use panetiere::evidence::Evidence;
use panetiere::fault::Attribution;
use panetiere::ids::ClientId;
use panetiere_api::leaf::{Leaf, RoundId};
use panetiere_api::round::Record;

/// What a party wants done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    /// Publish what convicts a party. The bulletin takes a client out of a round for it that is still open.
    Accuse {
        /// The round.
        round: RoundId,
        /// The party.
        party: Attribution,
        /// What convicts it.
        evidence: Box<Evidence>,
    },
    /// Fetch what a client has for this party, an envelope or an item, and deliver it.
    Fetch {
        /// The round.
        round: RoundId,
        /// The client.
        client: ClientId,
    },
    /// Have this leaf appended, and what belongs beside it published in the same step.
    Publish {
        /// The round.
        round: RoundId,
        /// The leaf.
        leaf: Box<Leaf>,
        /// The whole signed sum, or the messages; none for a statement that is whole in its leaf.
        body: Option<Vec<u8>>,
    },
}

/// Whether a round that a party works on is still one of the log's latest and not called off.
fn is_under_way(record: &Record, round: RoundId) -> bool {
    record.round(round).is_some_and(|session| !session.is_called_off())
}
