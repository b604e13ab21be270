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
fn what_nobody_would_wait_for_is_refused_with_an_estimate_unless_forced() {
    let long = "--encoding peeling --clients 1000 --params p1000 --bytes 60000";
    let refused = config(long).unwrap_err();
    assert_eq!((refused.code(), refused.attribution()), ("too_much_work", Attribution::Caller));
    let UsageError::TooMuchWork { posted } = refused else { panic!("{refused}") };
    // 35 bits of cell travel in 44, and the cells are more than the messages.
    assert!(posted > 1000 * 1000 * 60_000 * 44 / 35 && posted < 4 * 1000 * 1000 * 60_000, "{posted}");
    assert!(config(&format!("{long} --force")).is_ok());
    // The published cells run, each in all modes or with a client that lies.
    for cell in ["--clients 300 --bytes 16384", "--clients 1000 --bytes 16384 --params p1000"] {
        for more in ["", "--mode all", "--lie client:bad-opening"] {
            let verdict = config(&format!("{cell} {more}"));
            assert!(verdict.is_ok() || (cell.contains("1000") && more == "--mode all"), "{cell} {more}");
        }
    }
    // Twice the passes, twice the bytes.
    let near = "--clients 1000 --bytes 30000 --params p1000";
    assert!(config(near).is_ok());
    let twice = config(&format!("{near} --lie client:bad-opening")).unwrap_err();
    assert!(twice.to_string().contains("--force"), "{twice}");
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
        ("--lanes 3x4", "lanes_not_in_mode", "--mode erasure"),
        ("--mode aggregated --lanes 3x4", "lanes_not_in_mode", "--mode erasure"),
        ("--mode erasure --servers 5 --lanes 3x4", "lanes_below_servers", "N from 5"),
        ("--lie lane:down", "lie_not_in_mode", "server:wrong-sum, client:bad-opening, client:bad-ciphertext"),
        ("--mode aggregated --lie lane:wrong-sum", "lie_not_in_mode", "aggregator:wrong-root"),
        ("--mode erasure --lie client:bad-ciphertext", "lie_not_in_mode", "client:non-codeword"),
        ("--mode all --lie lane:wrong-sum", "lie_not_in_mode", "no such lie in direct mode"),
        ("--mode erasure --lanes 4x4 --lie client:non-codeword", "lie_unseen", "N above K"),
        ("--clients 2 --lie client:bad-opening", "lie_below_floor", "give --clients 3 or more"),
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
        "--mode erasure --lanes 1x4",
        "--mode all --lanes 4x4 --lie client:bad-opening",
        "--mode erasure --lanes 3x4 --lie client:non-codeword",
        "--clients 3 --lie client:bad-opening",
        "--encoding slots",
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

#[test]
fn lanes_are_as_the_servers_unless_told_otherwise() {
    let of = |options| {
        let lanes = config(options).expect(options).lanes;
        (lanes.needed, lanes.lanes)
    };
    assert_eq!(of("--mode erasure"), (3, 4));
    assert_eq!(of("--mode erasure --servers 16"), (14, 16));
    assert_eq!(of("--mode erasure --servers 1"), (1, 1));
    assert_eq!(of("--mode erasure --lanes 14x16"), (14, 16));
}

#[test]
fn all_modes_run_in_their_order_and_are_listed() {
    let all = config("--mode all").unwrap();
    assert_eq!((all.modes, all.listed), ([Mode::Direct, Mode::Aggregated, Mode::Erasure].as_slice(), true));
    let one = config("--mode erasure").unwrap();
    assert_eq!((one.modes, one.listed), ([Mode::Erasure].as_slice(), false));
    for (clients, aggregators) in [(2, 1), (3, 1), (4, 2), (9, 4), (300, 4)] {
        let options = format!("--clients {clients} --bytes 1");
        assert_eq!(config(&options).unwrap().aggregators(), aggregators);
    }
}
