//! What can be wrong with the arguments and messages of `panetiere demo`.

use super::args::{CORE_NS_PER_BYTE, MAX_PAYLOAD_BYTES, MAX_SERVERS, MIN_FLOOR, ParamsChoice};
use super::lie::Lie;
use panetiere::bulletin::Mode;
use panetiere::channel::{ChannelError, Encoding};
use panetiere::fault::{Attribution, Fault};
use std::io;

/// Something on the command line or in the messages has to change. The text is one line and says what.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UsageError {
    /// More clients than the parameter set is for.
    #[error("--clients {clients}: {} takes at most {}; {}", params.name(), params.max_clients(), way_out(*.params))]
    ClientsAboveMax {
        /// Clients asked for.
        clients: u32,
        /// The parameter set.
        params: ParamsChoice,
    },
    /// Fewer clients than the servers' floor.
    #[error(
        "--clients {clients} is below the floor of {min_clients}: give at least {min_clients}, \
         or a lower --min-clients"
    )]
    ClientsBelowFloor {
        /// Clients asked for.
        clients: u32,
        /// The floor.
        min_clients: u32,
    },
    /// A directory holds something that is no file.
    #[error("--messages-dir: {path} is not a regular file; leave only files in the directory, one a message")]
    DirectoryEntry {
        /// The entry.
        path: String,
    },
    /// No message at all.
    #[error("{origin} holds no message: give at least one, or leave the option out for random messages")]
    EmptyMessageList {
        /// Where messages were looked for.
        origin: String,
    },
    /// The encoding has no such size.
    #[error(
        "--encoding {encoding} has no round of this size; give fewer --clients or --bytes, or another encoding"
    )]
    Encoding {
        /// The encoding.
        encoding: Encoding,
        /// What it says.
        #[source]
        source: Box<ChannelError>,
    },
    /// A floor that protects nobody.
    #[error(
        "--min-clients {min_clients}: the floor is at least {MIN_FLOOR}, as the sum of one vector is that vector"
    )]
    FloorTooLow {
        /// The floor asked for.
        min_clients: u32,
    },
    /// More bytes than all messages together may have.
    #[error(
        "{origin} has more than {limit} bytes, more than its senders can send: shorten it, or raise --clients or --bytes"
    )]
    InputTooLarge {
        /// Most bytes that are read.
        limit: u64,
        /// What was to be read.
        origin: String,
    },
    /// Fewer lanes than servers: every server is a lane.
    #[error(
        "--lanes {lanes} are fewer than the {servers} servers, each of which is a lane: give KxN with N from {servers}"
    )]
    LanesBelowServers {
        /// Lanes asked for.
        lanes: String,
        /// Servers asked for.
        servers: u16,
    },
    /// Lanes where there are none.
    #[error(
        "--lanes {lanes}: there are lanes in erasure mode only; add --mode erasure, or leave the option out"
    )]
    LanesNotInMode {
        /// Lanes asked for.
        lanes: String,
    },
    /// Without the client that lies there would be too few.
    #[error(
        "--lie {lie}: without that client {clients} clients are below the floor: give --clients {needed} or more"
    )]
    LieBelowFloor {
        /// The lie.
        lie: Lie,
        /// Clients asked for.
        clients: u32,
        /// Clients needed.
        needed: u32,
    },
    /// A lie that cannot be told in one of the modes.
    #[error("--lie {lie}: there is no such lie in {mode} mode; give one of: {lies}")]
    LieNotInMode {
        /// The lie.
        lie: Lie,
        /// The mode that has no such lie.
        mode: Mode,
        /// The lies of every mode asked for.
        lies: String,
    },
    /// A lie that nobody sees.
    #[error(
        "--lie {lie}: with all of --lanes {lanes} needed any shares are a codeword; give KxN with N above K"
    )]
    LieUnseen {
        /// The lie.
        lie: Lie,
        /// The lanes.
        lanes: String,
    },
    /// A message is longer than `--bytes`.
    #[error("{message} has {bytes} bytes, more than --bytes {max}: shorten it, or give --bytes {bytes}")]
    MessageTooLong {
        /// Its length.
        bytes: u64,
        /// The longest allowed.
        max: usize,
        /// Which message.
        message: String,
    },
    /// All clients are cover.
    #[error("--cover {cover} leaves none of {clients} clients to send: give at most {}", clients.saturating_sub(1))]
    NoSender {
        /// Clients asked for.
        clients: u32,
        /// Clients that shall send nothing.
        cover: u32,
    },
    /// Too many bytes for a demo.
    #[error(
        "{clients} clients of --bytes {bytes} are more than the demo's {MAX_PAYLOAD_BYTES} bytes a round: \
         give --bytes {} or less, or fewer --clients",
        MAX_PAYLOAD_BYTES / u64::from(*.clients)
    )]
    PayloadTooLarge {
        /// Longest message asked for.
        bytes: u64,
        /// Clients asked for.
        clients: u32,
    },
    /// Too many servers for a demo.
    #[error("--servers {servers}: the demo runs at most {MAX_SERVERS}; give fewer")]
    ServersAboveMax {
        /// Servers asked for.
        servers: u16,
    },
    /// The threshold cannot be reached.
    #[error("--threshold {threshold} is above the {servers} servers: give {} to {servers}", servers / 2 + 1)]
    ThresholdAboveServers {
        /// Servers asked for.
        servers: u16,
        /// Threshold asked for.
        threshold: u16,
    },
    /// Half of the servers or fewer would suffice, so two disjoint groups could each recover.
    #[error(
        "--threshold {threshold} is not more than half of {servers} servers: give {} to {servers}",
        servers / 2 + 1
    )]
    ThresholdTooLow {
        /// Servers asked for.
        servers: u16,
        /// Threshold asked for.
        threshold: u16,
    },
    /// More messages than clients that send.
    #[error(
        "{origin} holds more messages than the {senders} clients that send: raise --clients, or lower --cover"
    )]
    TooManyMessages {
        /// Where the messages come from.
        origin: String,
        /// Clients that send.
        senders: usize,
    },
    /// More than a person would wait for.
    #[error(
        "the clients would post {} GB, which takes a processor core about {} minutes or more: give fewer --clients or \
         --bytes, another --encoding or one --mode, or --force",
        posted.div_ceil(1_000_000_000),
        posted.saturating_mul(CORE_NS_PER_BYTE).div_ceil(60_000_000_000)
    )]
    TooMuchWork {
        /// Bytes of ciphertext in all modes and passes.
        posted: u64,
    },
    /// A file or directory cannot be read.
    #[error("cannot read {origin}: give {expected}")]
    Unreadable {
        /// What the option takes.
        expected: &'static str,
        /// What was to be read.
        origin: String,
        /// The operating system's answer.
        #[source]
        source: io::Error,
    },
    /// The parameters do not carry vectors of this length.
    #[error("--bytes {bytes}: vectors of this length are too long for {}; give less", params.name())]
    VectorTooLong {
        /// Longest message asked for.
        bytes: usize,
        /// The parameter set.
        params: ParamsChoice,
    },
    /// A count that has to be positive is 0.
    #[error("{option} 0: give at least 1")]
    Zero {
        /// The option.
        option: &'static str,
    },
}

fn way_out(params: ParamsChoice) -> &'static str {
    match params {
        ParamsChoice::P300 => "give fewer, or --params p1000",
        ParamsChoice::P1000 => "give fewer",
    }
}

impl Fault for UsageError {
    fn code(&self) -> &'static str {
        match self {
            Self::ClientsAboveMax { .. } => "clients_above_max",
            Self::ClientsBelowFloor { .. } => "clients_below_floor",
            Self::DirectoryEntry { .. } => "directory_entry",
            Self::EmptyMessageList { .. } => "empty_message_list",
            Self::Encoding { .. } => "encoding",
            Self::FloorTooLow { .. } => "floor_too_low",
            Self::InputTooLarge { .. } => "input_too_large",
            Self::LanesBelowServers { .. } => "lanes_below_servers",
            Self::LanesNotInMode { .. } => "lanes_not_in_mode",
            Self::LieBelowFloor { .. } => "lie_below_floor",
            Self::LieNotInMode { .. } => "lie_not_in_mode",
            Self::LieUnseen { .. } => "lie_unseen",
            Self::MessageTooLong { .. } => "message_too_long",
            Self::NoSender { .. } => "no_sender",
            Self::PayloadTooLarge { .. } => "payload_too_large",
            Self::ServersAboveMax { .. } => "servers_above_max",
            Self::ThresholdAboveServers { .. } => "threshold_above_servers",
            Self::ThresholdTooLow { .. } => "threshold_too_low",
            Self::TooManyMessages { .. } => "too_many_messages",
            Self::TooMuchWork { .. } => "too_much_work",
            Self::Unreadable { .. } => "unreadable",
            Self::VectorTooLong { .. } => "vector_too_long",
            Self::Zero { .. } => "zero",
        }
    }

    fn attribution(&self) -> Attribution {
        Attribution::Caller
    }
}
