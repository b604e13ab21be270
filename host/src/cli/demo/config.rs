//! What the arguments of `panetiere demo` mean together.

use super::args::{
    Args, MAX_PAYLOAD_BYTES, MAX_POSTED_BYTES, MAX_SERVERS, MIN_FLOOR, ModeChoice, ParamsChoice,
};
use super::lie::Lie;
use super::messages::{self, Bounds, MessageSource, NamedMessage};
use super::usage::UsageError;
use crate::cli::lanes;
use crate::local::{Route, Shape, index};
use crate::seed::Seed;
use chipmunk::ring::backend::Simd;
use panetiere::bulletin::Mode;
use panetiere::channel::Encoding;
use panetiere::protocol::{Dimensions, LaneShape, ProtocolParams, lane_wire_sizes, round_wire_sizes};
use panetiere::sss::default_threshold;

/// Aggregators that a demo runs.
const MAX_AGGREGATORS: u16 = 4;

/// A demo that makes sense: what [`DemoConfig::from_args`] found nothing wrong with.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DemoConfig {
    /// The modes to run in, at least one.
    pub modes: &'static [Mode],
    /// Whether the result is to be a list, even of one mode.
    pub listed: bool,
    /// How messages become a summable vector.
    pub encoding: Encoding,
    /// The lanes of erasure mode.
    pub lanes: LaneShape,
    /// Who lies in the second pass, and how: a lie that every mode has.
    pub lie: Lie,
    /// All clients of the round, `min_clients..=params.max_clients()`.
    pub clients: u32,
    /// What the senders send, one message each, at least one, each at most `message_bytes` long. The remaining
    /// [`Self::cover`] clients send nothing.
    pub messages: Vec<Vec<u8>>,
    /// Longest message, in bytes, at least 1.
    pub message_bytes: usize,
    /// Smallest round that a server takes part in, at least 2.
    pub min_clients: u32,
    /// The parameter set.
    pub params: ParamsChoice,
    /// Where all randomness comes from.
    pub seed: Seed,
    /// Servers, `1..=MAX_SERVERS`.
    pub servers: u16,
    /// The arithmetic.
    pub simd: Simd,
    /// Servers that suffice, `servers / 2 + 1..=servers`.
    pub threshold: u16,
}

impl DemoConfig {
    /// Checks `args` as a whole. `load` fetches the messages of a file or directory; nothing else here looks at
    /// the world, and `load` is not called unless everything else is in order.
    ///
    /// # Errors
    /// The first thing that has to change on the command line or in the messages.
    pub fn from_args<L>(args: &Args, seed: Seed, simd: Simd, load: L) -> Result<Self, UsageError>
    where
        L: FnOnce(&MessageSource, Bounds) -> Result<Vec<NamedMessage>, UsageError>,
    {
        check_counts(args)?;
        let threshold = args.threshold.unwrap_or_else(|| default_threshold(args.servers));
        if threshold <= args.servers / 2 {
            return Err(UsageError::ThresholdTooLow { servers: args.servers, threshold });
        }
        if threshold > args.servers {
            return Err(UsageError::ThresholdAboveServers { servers: args.servers, threshold });
        }
        let lanes = check_lanes(args, threshold)?;
        check_lie(args, lanes)?;
        let bounds = Bounds { senders: index(args.clients - args.cover), message_bytes: args.bytes };
        let messages = match source(args) {
            None => messages::random(&seed, bounds),
            Some(source) => accept(load(&source, bounds)?, &source, bounds)?,
        };
        let config = Self {
            modes: args.mode.modes(),
            listed: args.mode == ModeChoice::All,
            encoding: args.encoding,
            lanes,
            lie: args.lie,
            clients: args.clients,
            messages,
            message_bytes: args.bytes,
            min_clients: args.min_clients,
            params: args.params,
            seed,
            servers: args.servers,
            simd,
            threshold,
        };
        let posted = check_room(&config)?;
        if posted > MAX_POSTED_BYTES && !args.force {
            return Err(UsageError::TooMuchWork { posted });
        }
        Ok(config)
    }

    /// The shape of this demo's rounds in one mode.
    pub fn shape(&self, mode: Mode) -> Shape {
        Shape {
            clients: self.clients,
            servers: self.servers,
            threshold: self.threshold,
            min_clients: self.min_clients,
            message_bytes: self.message_bytes,
            encoding: self.encoding,
            route: match mode {
                Mode::Aggregated => Route::Aggregated(self.aggregators()),
                Mode::Erasure => Route::Lanes(self.lanes),
                _ => Route::Direct,
            },
            set: self.params.set(),
            kernels: self.simd.kernels(),
        }
    }

    /// The aggregators of aggregated mode: at most four, each with two clients at least.
    pub fn aggregators(&self) -> u16 {
        u16::try_from(self.clients / 2).unwrap_or(u16::MAX).clamp(1, MAX_AGGREGATORS)
    }

    /// Clients that send nothing: those asked for, and those for whom there was no message.
    pub fn cover(&self) -> u32 {
        self.clients - self.sent()
    }

    /// Messages sent.
    pub fn sent(&self) -> u32 {
        u32::try_from(self.messages.len()).expect("there is at most one message a client")
    }

    /// What differs from what was asked for, in one line.
    pub fn note(&self, args: &Args) -> Option<String> {
        let idle = self.cover() - args.cover;
        (idle > 0).then(|| {
            format!(
                "note: {} clients may send, messages given: {}; {idle} more send cover",
                args.clients - args.cover,
                self.sent()
            )
        })
    }
}

fn source(args: &Args) -> Option<MessageSource> {
    let file = args.messages.clone().map(MessageSource::File);
    file.or_else(|| args.messages_dir.clone().map(MessageSource::Directory))
}

fn check_counts(args: &Args) -> Result<(), UsageError> {
    let max_clients = args.params.max_clients();
    for (option, is_zero) in
        [("--clients", args.clients == 0), ("--servers", args.servers == 0), ("--bytes", args.bytes == 0)]
    {
        if is_zero {
            return Err(UsageError::Zero { option });
        }
    }
    if args.min_clients < MIN_FLOOR {
        return Err(UsageError::FloorTooLow { min_clients: args.min_clients });
    }
    if args.clients > max_clients {
        return Err(UsageError::ClientsAboveMax { clients: args.clients, params: args.params });
    }
    if args.clients < args.min_clients {
        return Err(UsageError::ClientsBelowFloor { clients: args.clients, min_clients: args.min_clients });
    }
    if args.cover >= args.clients {
        return Err(UsageError::NoSender { clients: args.clients, cover: args.cover });
    }
    if args.servers > MAX_SERVERS {
        return Err(UsageError::ServersAboveMax { servers: args.servers });
    }
    let message_bytes = u64::try_from(args.bytes).unwrap_or(u64::MAX);
    if message_bytes.saturating_mul(u64::from(args.clients)) > MAX_PAYLOAD_BYTES {
        return Err(UsageError::PayloadTooLarge { bytes: message_bytes, clients: args.clients });
    }
    Ok(())
}

/// The lanes of erasure mode: without an option, as many as servers, and as many may fail as of those by default.
fn check_lanes(args: &Args, threshold: u16) -> Result<LaneShape, UsageError> {
    let Some(lanes) = args.lanes else {
        return Ok(LaneShape { needed: default_threshold(args.servers).min(threshold), lanes: args.servers });
    };
    if !args.mode.modes().contains(&Mode::Erasure) {
        return Err(UsageError::LanesNotInMode { lanes: lanes::text(lanes) });
    }
    if lanes.lanes < args.servers {
        return Err(UsageError::LanesBelowServers { lanes: lanes::text(lanes), servers: args.servers });
    }
    Ok(lanes)
}

fn check_lie(args: &Args, lanes: LaneShape) -> Result<(), UsageError> {
    let (lie, modes) = (args.lie, args.mode.modes());
    if let Some(mode) = modes.iter().find(|mode| !lie.modes().contains(mode)) {
        return Err(UsageError::LieNotInMode { lie, mode: *mode, lies: Lie::names_in(modes) });
    }
    if lie == Lie::ClientNonCodeword && lanes.needed == lanes.lanes {
        return Err(UsageError::LieUnseen { lie, lanes: lanes::text(lanes) });
    }
    if lie.by_client() && args.clients - 1 < args.min_clients {
        let needed = args.min_clients.saturating_add(1);
        return Err(UsageError::LieBelowFloor { lie, clients: args.clients, needed });
    }
    Ok(())
}

/// Whether the encoding has such a size, and the parameters carry it. Returns the bytes of ciphertext that the clients
/// post in all modes and passes together: nearly all the work of a large demo is making and adding those.
fn check_room(config: &DemoConfig) -> Result<u64, UsageError> {
    let channel = config
        .shape(Mode::Direct)
        .channel()
        .map_err(|source| UsageError::Encoding { encoding: config.encoding, source: source.into() })?;
    let dimensions = Dimensions::for_channel(&channel, config.servers, config.threshold);
    let admissible = ProtocolParams::admissible_clients(config.params.set(), dimensions);
    if admissible < config.params.max_clients() {
        return Err(UsageError::VectorTooLong { bytes: config.message_bytes, params: config.params });
    }
    let posted = |mode: &Mode| {
        let set = config.params.set();
        let bytes = match mode {
            Mode::Erasure => lane_wire_sizes(set, dimensions, config.lanes, config.clients).items,
            mode => round_wire_sizes(set, dimensions, *mode, config.clients).ciphertext,
        };
        u64::try_from(bytes).unwrap_or(u64::MAX)
    };
    let round = config.modes.iter().map(posted).fold(0, u64::saturating_add);
    // After a client's lie everybody posts again, in another session.
    let passes = if config.lie.by_client() { 2 } else { 1 };
    Ok(round.saturating_mul(config.clients.into()).saturating_mul(passes))
}

fn accept(
    messages: Vec<NamedMessage>,
    source: &MessageSource,
    bounds: Bounds,
) -> Result<Vec<Vec<u8>>, UsageError> {
    if messages.is_empty() {
        return Err(UsageError::EmptyMessageList { origin: source.to_string() });
    }
    if messages.len() > bounds.senders {
        return Err(UsageError::TooManyMessages { origin: source.to_string(), senders: bounds.senders });
    }
    for message in &messages {
        if message.bytes.len() > bounds.message_bytes {
            return Err(UsageError::MessageTooLong {
                bytes: u64::try_from(message.bytes.len()).unwrap_or(u64::MAX),
                max: bounds.message_bytes,
                message: message.name.clone(),
            });
        }
    }
    Ok(messages.into_iter().map(|message| message.bytes).collect())
}

#[cfg(test)]
mod tests;
