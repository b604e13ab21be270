//! Arguments of `panetiere demo`, each by itself.

use super::lie::Lie;
use crate::cli::lanes;
use crate::seed::Seed;
use chipmunk::params::{P300, P1000, ParameterSet};
use panetiere::bulletin::Mode;
use panetiere::channel::Encoding;
use panetiere::protocol::LaneShape;
use std::path::PathBuf;

/// Servers a demo will run at most: a guard against a mistyped number, not a bound of the protocol.
pub const MAX_SERVERS: u16 = 64;

/// Bytes of message space that all clients of a demo may have together, 64 MiB. Every client posts a ciphertext
/// about that long; the largest published cell, 300 clients of 16 KiB, is under 5 MiB.
pub const MAX_PAYLOAD_BYTES: u64 = 64 << 20;

/// Bytes of ciphertext that all clients of a demo may post together, unless it is forced: at the pace of
/// [`CORE_NS_PER_BYTE`] five minutes of one processor core.
pub const MAX_POSTED_BYTES: u64 = 60_000_000_000;

/// What a demo takes of one core for every byte of ciphertext, from encoding to adding, in nanoseconds. Measured on the
/// machine of docs/performance.md: 4.0 to 5.1 for 1.7 GB and more, with AVX-512; portable code takes several times that.
pub const CORE_NS_PER_BYTE: u64 = 5;

/// Smallest floor there may be: the sum of one client's vector is that client's vector.
pub const MIN_FLOOR: u32 = 2;

/// Arguments of `panetiere demo`, each well formed by itself.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = crate::cli::simd::HELP)]
pub struct Args {
    /// How ciphertexts reach the recipient
    #[arg(long, value_enum, default_value_t = ModeChoice::Direct)]
    pub mode: ModeChoice,

    /// How messages become a vector that can be summed: sketch, peeling or slots. Slots take a round of reservations first
    #[arg(long, value_name = "NAME", default_value_t = Encoding::Sketch)]
    pub encoding: Encoding,

    /// Any K of N lanes carry a ciphertext, in erasure mode; at least as many lanes as servers [default: as the servers]
    #[arg(long, value_name = "KxN", value_parser = lanes::parse)]
    pub lanes: Option<LaneShape>,

    /// Who lies in the second pass, and how; which one of them, chance decides
    #[arg(long, value_enum, value_name = "PARTY:LIE", default_value_t = Lie::ServerWrongSum)]
    pub lie: Lie,

    /// Clients in the round, those that send nothing included
    #[arg(long, value_name = "N", default_value_t = 16)]
    pub clients: u32,

    /// How many of the clients send nothing; to an observer they look like the others
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub cover: u32,

    /// Servers that share the key
    #[arg(long, value_name = "S", default_value_t = 4)]
    pub servers: u16,

    /// Servers that suffice to recover: more than half of them [default: all but two, or a majority if that is more]
    #[arg(long, value_name = "T")]
    pub threshold: Option<u16>,

    /// Smallest round that a server takes part in
    #[arg(long, value_name = "N", default_value_t = 2)]
    pub min_clients: u32,

    /// Longest message, in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 256)]
    pub bytes: usize,

    /// Messages to send, one a line. Only the line feed ends a line and is no part of the message (a carriage
    /// return before it is); an empty line is an empty message; the last line may end without one
    #[arg(long, value_name = "FILE", conflicts_with = "messages_dir")]
    pub messages: Option<PathBuf>,

    /// Messages to send, one a file of any bytes, in order of the files' names; hidden files count
    #[arg(long, value_name = "DIR")]
    pub messages_dir: Option<PathBuf>,

    /// Makes everything random in the demo repeatable: 64 hex digits [default: from the operating system]
    #[arg(long, value_name = "HEX")]
    pub seed: Option<Seed>,

    /// Parameter set: for at most 300 or 1000 clients
    #[arg(long, value_enum, default_value_t = ParamsChoice::P300)]
    pub params: ParamsChoice,

    /// Write the evidence against the servers, lanes and aggregators that are named, a file each, for `panetiere
    /// evidence verify`
    #[arg(long, value_name = "DIR")]
    pub evidence: Option<PathBuf>,

    /// Run even if there is so much to post that it takes more than some minutes
    #[arg(long)]
    pub force: bool,

    /// Print one JSON object instead of text
    #[arg(long)]
    pub json: bool,
}

/// The modes that a demo runs in.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModeChoice {
    /// Ciphertexts go to the bulletin, and the recipient adds them.
    Direct,
    /// Ciphertexts go to aggregators, each of which adds those of its clients.
    Aggregated,
    /// Ciphertexts go as coded shares to lanes, which add them.
    Erasure,
    /// Each mode, one after the other.
    All,
}

impl ModeChoice {
    /// The modes, in the order in which they run.
    pub const fn modes(self) -> &'static [Mode] {
        match self {
            Self::Direct => &[Mode::Direct],
            Self::Aggregated => &[Mode::Aggregated],
            Self::Erasure => &[Mode::Erasure],
            Self::All => &[Mode::Direct, Mode::Aggregated, Mode::Erasure],
        }
    }
}

/// The parameter sets that a demo can run with.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParamsChoice {
    /// For at most 300 clients.
    P300,
    /// For at most 1000 clients.
    P1000,
}

impl ParamsChoice {
    /// The set.
    pub const fn set(self) -> &'static ParameterSet {
        match self {
            Self::P300 => &P300,
            Self::P1000 => &P1000,
        }
    }

    /// Most clients a round may have under this set.
    pub const fn max_clients(self) -> u32 {
        self.set().rho_max
    }

    /// The set's name on the command line.
    pub const fn name(self) -> &'static str {
        self.set().name
    }
}
