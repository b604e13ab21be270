//! Who lies in a demo's second pass, and how.

use clap::ValueEnum;
use panetiere::bulletin::Mode;
use panetiere::ids::{AggregatorId, ClientId, NodeId, ServerId};
use std::fmt;

/// A party of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Party {
    /// An aggregator.
    Aggregator(AggregatorId),
    /// A client.
    Client(ClientId),
    /// A lane.
    Lane(NodeId),
    /// A server.
    Server(ServerId),
}

impl fmt::Display for Party {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Aggregator(aggregator) => write!(f, "aggregator {aggregator}"),
            Self::Client(client) => write!(f, "client {client}"),
            Self::Lane(lane) => write!(f, "lane {lane}"),
            Self::Server(server) => write!(f, "server {server}"),
        }
    }
}

/// What one party does wrong in the second pass.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lie {
    /// A server leaves one client out of its sum and signs it as the sum over everybody
    #[value(name = "server:wrong-sum")]
    ServerWrongSum,
    /// A lane leaves one client out of its sum and signs it as the sum over everybody (erasure)
    #[value(name = "lane:wrong-sum")]
    LaneWrongSum,
    /// A lane does not answer (erasure)
    #[value(name = "lane:down")]
    LaneDown,
    /// An aggregator publishes a sum of ciphertexts that leaves one out (aggregated)
    #[value(name = "aggregator:wrong-sum")]
    AggregatorWrongSum,
    /// An aggregator publishes a sum of commitment roots that leaves one out (aggregated)
    #[value(name = "aggregator:wrong-root")]
    AggregatorWrongRoot,
    /// An aggregator adds a message step to every place of its sum, which then decrypts to something else (aggregated)
    #[value(name = "aggregator:shifted-sum")]
    AggregatorShiftedSum,
    /// A client seals an opening to one server that does not open its commitment
    #[value(name = "client:bad-opening")]
    ClientBadOpening,
    /// A client signs a ciphertext with a coefficient out of range (direct, aggregated)
    #[value(name = "client:bad-ciphertext")]
    ClientBadCiphertext,
    /// A client signs a coded share for one lane that is not the one it committed to (erasure)
    #[value(name = "client:bad-share")]
    ClientBadShare,
    /// A client commits to coded shares that are no codeword: seen before the close, found by bisection (erasure)
    #[value(name = "client:non-codeword")]
    ClientNonCodeword,
}

impl Lie {
    /// The modes in which it can be told.
    pub const fn modes(self) -> &'static [Mode] {
        match self {
            Self::ServerWrongSum | Self::ClientBadOpening => &[Mode::Direct, Mode::Aggregated, Mode::Erasure],
            Self::ClientBadCiphertext => &[Mode::Direct, Mode::Aggregated],
            Self::AggregatorWrongSum | Self::AggregatorWrongRoot | Self::AggregatorShiftedSum => {
                &[Mode::Aggregated]
            }
            Self::LaneWrongSum | Self::LaneDown | Self::ClientBadShare | Self::ClientNonCodeword => {
                &[Mode::Erasure]
            }
        }
    }

    /// Whether it is a client's: it is found before the close, and the client is not in the set.
    pub const fn by_client(self) -> bool {
        match self {
            Self::ClientBadOpening
            | Self::ClientBadCiphertext
            | Self::ClientBadShare
            | Self::ClientNonCodeword => true,
            Self::ServerWrongSum
            | Self::LaneWrongSum
            | Self::LaneDown
            | Self::AggregatorWrongSum
            | Self::AggregatorWrongRoot
            | Self::AggregatorShiftedSum => false,
        }
    }

    /// Whether the liar signs what proves it. A party that says nothing is missed, not named.
    pub const fn is_proved(self) -> bool {
        !matches!(self, Self::LaneDown)
    }

    /// What the liar does, to follow its name.
    pub const fn deed(self) -> &'static str {
        match self {
            Self::ServerWrongSum | Self::LaneWrongSum | Self::AggregatorWrongSum => "publishes a wrong sum",
            Self::AggregatorWrongRoot => "publishes a wrong root",
            Self::AggregatorShiftedSum => "publishes a sum of other messages",
            Self::LaneDown => "is down",
            Self::ClientBadOpening => "seals an opening of something else",
            Self::ClientBadCiphertext => "signs a ciphertext out of range",
            Self::ClientBadShare => "signs a coded share of something else",
            Self::ClientNonCodeword => "commits to no codeword",
        }
    }

    /// The names of the lies that can be told in all of `modes`.
    pub fn names_in(modes: &[Mode]) -> String {
        let told = |lie: &&Self| modes.iter().all(|mode| lie.modes().contains(mode));
        let names: Vec<String> = Self::value_variants().iter().filter(told).map(Self::to_string).collect();
        names.join(", ")
    }
}

impl fmt::Display for Lie {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.to_possible_value().expect("no lie is skipped");
        f.write_str(value.get_name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lie_is_named_after_its_party() {
        for lie in Lie::value_variants() {
            let name = lie.to_string();
            assert_eq!(name.starts_with("client:"), lie.by_client(), "{name}");
            assert!(!lie.modes().is_empty() && !lie.deed().is_empty());
        }
        assert_eq!(
            Lie::names_in(&[Mode::Direct]),
            "server:wrong-sum, client:bad-opening, client:bad-ciphertext"
        );
        assert_eq!(Lie::names_in(&[Mode::Direct, Mode::Erasure]), "server:wrong-sum, client:bad-opening");
    }
}
