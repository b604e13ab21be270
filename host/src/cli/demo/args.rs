//! Arguments of `panetiere demo`, and what they mean together.

use super::messages::{self, Bounds, MessageSource, NamedMessage};
use super::usage::UsageError;
use crate::seed::Seed;
use chipmunk::params::{P300, P1000, ParameterSet};
use chipmunk::ring::backend::Simd;
use panetiere::sss::default_threshold;
use std::path::PathBuf;

/// Servers a demo will run at most: a guard against a mistyped number, not a bound of the protocol.
pub const MAX_SERVERS: u16 = 64;

/// Bytes of message space that all clients of a demo may have together, 64 MiB. Every client posts a ciphertext
/// about that long; the largest published cell, 300 clients of 16 KiB, is under 5 MiB.
pub const MAX_PAYLOAD_BYTES: u64 = 64 << 20;

/// Smallest floor there may be: the sum of one client's vector is that client's vector.
pub const MIN_FLOOR: u32 = 2;

/// Arguments of `panetiere demo`, each well formed by itself.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = crate::cli::simd::HELP)]
pub struct Args {
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

    /// Print one JSON object instead of text
    #[arg(long)]
    pub json: bool,
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

/// A demo that makes sense: what [`DemoConfig::from_args`] found nothing wrong with.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DemoConfig {
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
        let bounds = Bounds { senders: count(args.clients - args.cover), message_bytes: args.bytes };
        let messages = match source(args) {
            None => messages::random(&seed, bounds),
            Some(source) => accept(load(&source, bounds)?, &source, bounds)?,
        };
        Ok(Self {
            clients: args.clients,
            messages,
            message_bytes: args.bytes,
            min_clients: args.min_clients,
            params: args.params,
            seed,
            servers: args.servers,
            simd,
            threshold,
        })
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

fn count(number: u32) -> usize {
    usize::try_from(number).expect("the host runs on targets with at least 32 bits")
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
mod tests {
    use super::*;
    use clap::Parser;
    use panetiere::fault::{Attribution, Fault};

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    fn parse(options: &str) -> Args {
        Line::parse_from(std::iter::once("demo").chain(options.split_whitespace())).args
    }

    fn without_file(source: &MessageSource, _: Bounds) -> Result<Vec<NamedMessage>, UsageError> {
        panic!("{source} must not be read")
    }

    fn config(options: &str) -> Result<DemoConfig, UsageError> {
        DemoConfig::from_args(&parse(options), Seed::from_bytes([1; 32]), Simd::Scalar, without_file)
    }

    /// A file with these messages, loaded for these options.
    fn config_of(options: &str, messages: &[&str]) -> Result<DemoConfig, UsageError> {
        let named = |(text, number): (&&str, usize)| NamedMessage {
            bytes: text.as_bytes().to_vec(),
            name: format!("line {number}"),
        };
        let messages = messages.iter().zip(1..).map(named).collect();
        let options = format!("--messages list {options}");
        DemoConfig::from_args(&parse(&options), Seed::from_bytes([1; 32]), Simd::Scalar, |_, _| Ok(messages))
    }

    #[test]
    fn defaults_are_those_of_the_manual() {
        let config = config("").unwrap();
        assert_eq!((config.clients, config.cover(), config.sent()), (16, 0, 16));
        assert_eq!((config.servers, config.threshold, config.min_clients), (4, 3, 2));
        assert_eq!((config.message_bytes, config.params), (256, ParamsChoice::P300));
        assert!(config.messages.iter().all(|message| message.len() == 256));
    }

    #[test]
    fn senders_without_a_message_send_cover_and_that_is_said() {
        let options = "--clients 10 --cover 3";
        let config = config_of(options, &["a", "", "a"]).unwrap();
        assert_eq!(config.messages, [b"a".as_slice(), b"", b"a"]);
        assert_eq!((config.sent(), config.cover()), (3, 7));
        let note = config.note(&parse(options)).unwrap();
        assert!(note.contains("7 clients may send, messages given: 3; 4 more"), "{note}");

        let full = config_of("--clients 3", &["a", "b", "c"]).unwrap();
        assert_eq!((full.cover(), full.note(&parse("--clients 3"))), (0, None));
    }

    #[test]
    fn files_are_read_last_with_bounds_from_the_options() {
        let options = parse("--messages-dir inbox --clients 9 --cover 4 --bytes 12");
        let mut asked = None;
        let result =
            DemoConfig::from_args(&options, Seed::from_bytes([1; 32]), Simd::Scalar, |source, bounds| {
                asked = Some((source.clone(), bounds));
                Ok(vec![NamedMessage { bytes: vec![1; 12], name: "f".to_owned() }])
            });
        assert_eq!(result.unwrap().sent(), 1);
        let expected = Bounds { message_bytes: 12, senders: 5 };
        assert_eq!(asked, Some((MessageSource::Directory("inbox".into()), expected)));

        assert!(config("--messages list --threshold 1").is_err(), "refused before the file is looked at");
    }

    #[test]
    fn each_bad_combination_is_refused_with_its_own_code_and_a_way_out() {
        for (options, code, telling) in [
            ("--clients 0", "zero", "--clients 0: give at least 1"),
            ("--servers 0", "zero", "--servers 0: give at least 1"),
            ("--bytes 0", "zero", "--bytes 0: give at least 1"),
            ("--min-clients 1", "floor_too_low", "at least 2"),
            ("--clients 301", "clients_above_max", "at most 300; give fewer, or --params p1000"),
            ("--clients 1001 --params p1000", "clients_above_max", "at most 1000; give fewer"),
            ("--clients 1", "clients_below_floor", "give at least 2"),
            ("--clients 5 --min-clients 6", "clients_below_floor", "give at least 6"),
            ("--cover 16", "no_sender", "give at most 15"),
            ("--cover 17", "no_sender", "give at most 15"),
            ("--servers 65", "servers_above_max", "at most 64"),
            ("--threshold 0", "threshold_too_low", "give 3 to 4"),
            ("--threshold 2", "threshold_too_low", "give 3 to 4"),
            ("--servers 5 --threshold 2", "threshold_too_low", "give 3 to 5"),
            ("--threshold 5", "threshold_above_servers", "give 3 to 4"),
            ("--bytes 4194305", "payload_too_large", "give --bytes 4194304 or less"),
            ("--bytes 18446744073709551615", "payload_too_large", "give --bytes 4194304 or less"),
        ] {
            let error = config(options).expect_err(options);
            let text = error.to_string();
            assert_eq!(error.code(), code, "{options}: {text}");
            assert!(text.contains(telling) && text.lines().count() == 1, "{options}: {text}");
            assert_eq!(error.attribution(), Attribution::Caller);
        }
    }

    #[test]
    fn what_is_just_inside_each_bound_is_accepted() {
        for options in [
            "--clients 300 --bytes 1",
            "--clients 1000 --params p1000 --bytes 1",
            "--clients 2 --min-clients 2",
            "--clients 6 --min-clients 6",
            "--cover 15",
            "--servers 64",
            "--servers 1",
            "--threshold 3",
            "--threshold 4",
            "--servers 5 --threshold 3",
            "--bytes 4194304",
        ] {
            let config = config(options).expect(options);
            assert!(config.threshold > config.servers / 2 && config.threshold <= config.servers);
        }
    }

    #[test]
    fn bad_message_lists_are_refused() {
        for (options, messages, code, telling) in [
            ("", vec![], "empty_message_list", "--messages list holds no message"),
            ("--clients 3 --cover 1", vec!["a", "b", "c"], "too_many_messages", "the 2 clients that send"),
            ("--bytes 3", vec!["abc", "abcd"], "message_too_long", "line 2 has 4 bytes, more than --bytes 3"),
        ] {
            let error = config_of(options, &messages).expect_err(options);
            assert_eq!(error.code(), code, "{error}");
            assert!(error.to_string().contains(telling), "{error}");
        }
        assert!(config_of("--bytes 3", &["abc", ""]).is_ok());
        assert!(config_of("--clients 3 --cover 1", &["a", "b"]).is_ok());
    }
}
