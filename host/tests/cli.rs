//! The program `panetiere` as a user meets it: exit codes and what it says about bad input.

use chipmunk::ring::backend::Simd;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

fn panetiere(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_panetiere")).args(arguments).output().expect("the program starts")
}

/// Exit code 2, nothing on stdout, at most three lines on stderr of which the first is the error and says `telling`.
fn assert_usage_error(arguments: &[&str], telling: &str) {
    let output = panetiere(arguments);
    let stderr = String::from_utf8(output.stderr).expect("errors are UTF-8");
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {stderr}");
    assert!(output.stdout.is_empty(), "{arguments:?}");
    assert!(stderr.lines().count() <= 3, "{arguments:?}: {stderr}");
    assert!(stderr.starts_with("error: ") && stderr.contains(telling), "{arguments:?}: {stderr}");
    assert!(stderr.chars().all(|c| c == '\n' || !c.is_control()), "{arguments:?}: {stderr}");
}

fn temporary(name: &str, contents: &[u8]) -> String {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::write(&path, contents).expect("the target directory is writable");
    path.to_str().expect("the target directory has a UTF-8 path").to_owned()
}

#[test]
fn bad_counts_are_usage_errors_with_and_without_json() {
    for (options, telling) in [
        ("--clients 0", "--clients 0"),
        ("--servers 0", "--servers 0"),
        ("--bytes 0", "--bytes 0"),
        ("--min-clients 0", "--min-clients 0"),
        ("--threshold 0", "--threshold 0"),
        ("--servers 4 --threshold 2", "give 3 to 4"),
        ("--servers 4 --threshold 5", "give 3 to 4"),
        ("--clients 1", "at least 2"),
        ("--clients 4 --min-clients 5", "at least 5"),
        ("--clients 301", "at most 300"),
        ("--clients 1001 --params p1000", "at most 1000"),
        ("--clients 4 --cover 4", "at most 3"),
        ("--clients 4294967296", "--clients"),
        ("--clients -1", "-1"),
        ("--clients 1.5", "--clients"),
        ("--servers many", "--servers"),
        ("--params p2", "--params"),
        ("--seed 12", "64 hex digits"),
        ("--bytes 99999999999", "--bytes"),
        ("--unknown", "--unknown"),
        ("--mode sideways", "direct, aggregated, erasure, all"),
        ("--encoding morse", "sketch, peeling, slots"),
        ("--lie lane:wrong-sum", "give one of: server:wrong-sum, client:bad-opening, client:bad-ciphertext"),
        ("--lie server:nothing", "aggregator:wrong-root"),
        ("--lanes 3x4", "--mode erasure"),
        ("--mode erasure --lanes 5x4", "K is 1 to N"),
        ("--mode erasure --lanes four", "14x16"),
        ("--mode erasure --servers 6 --lanes 3x5", "N from 6"),
    ] {
        let mut arguments = vec!["demo"];
        arguments.extend(options.split(' '));
        assert_usage_error(&arguments, telling);
        arguments.push("--json");
        assert_usage_error(&arguments, telling);
    }
}

#[test]
fn bad_message_files_are_usage_errors() {
    let empty = temporary("empty", b"");
    assert_usage_error(&["demo", "--messages", &empty], "holds no message");
    let long = temporary("long", b"short\nmuch longer\n");
    assert_usage_error(&["demo", "--messages", &long, "--bytes", "5"], "line 2");
    assert_usage_error(
        &["demo", "--messages", &long, "--clients", "2", "--cover", "1"],
        "more messages than",
    );
    assert_usage_error(&["demo", "--messages", "/nonexistent/list"], "/nonexistent/list");
    assert_usage_error(&["demo", "--messages-dir", "/nonexistent/dir"], "No such file");
    assert_usage_error(&["demo", "--messages", "/"], "cannot read --messages /");
    assert_usage_error(&["demo", "--messages", "/dev/zero"], "raise --clients or --bytes");
    assert_usage_error(&["demo", "--messages", "no\nsuch\nfile\n\u{1b}[2J"], r"no\nsuch\nfile\n\u{1b}[2J");
    assert_usage_error(&["demo", "--messages", &long, "--messages-dir", "/"], "--messages-dir");
}

#[test]
fn help_and_version_succeed_and_list_every_option() {
    let help = panetiere(&["demo", "--help"]);
    assert_eq!(help.status.code(), Some(0));
    assert!(help.stderr.is_empty());
    let text = String::from_utf8(help.stdout).unwrap();
    for option in [
        "--mode",
        "--encoding",
        "--force",
        "--lanes",
        "--lie",
        "server:wrong-sum:",
        "lane:wrong-sum:",
        "lane:down:",
        "aggregator:wrong-sum:",
        "aggregator:wrong-root:",
        "aggregator:shifted-sum:",
        "client:bad-opening:",
        "client:bad-ciphertext:",
        "client:bad-share:",
        "client:non-codeword:",
        "--clients",
        "--cover",
        "--servers",
        "--threshold",
        "--min-clients",
        "--bytes",
        "--messages",
        "--messages-dir",
        "--seed",
        "--params",
        "--json",
    ] {
        assert!(text.contains(&format!("{option} ")) || text.contains(&format!("{option}\n")), "{option}");
    }
    let version = panetiere(&["--version"]);
    assert_eq!(version.status.code(), Some(0));
    assert_eq!(
        String::from_utf8(version.stdout).unwrap(),
        format!("panetiere {}\n", env!("CARGO_PKG_VERSION"))
    );
}

/// What the program says on stderr and with which code it ends if every write to its stdout fails.
#[cfg(target_os = "linux")]
fn onto_full_disk(arguments: &[&str]) -> (Option<i32>, String) {
    let full = fs::File::options().write(true).open("/dev/full").expect("every Linux has it");
    let mut command = Command::new(env!("CARGO_BIN_EXE_panetiere"));
    let output = command.args(arguments).stdout(full).output().expect("the program starts");
    (output.status.code(), String::from_utf8(output.stderr).expect("errors are UTF-8"))
}

#[cfg(target_os = "linux")]
#[test]
fn a_result_that_cannot_be_written_is_a_failure_that_says_so() {
    for arguments in [
        ["--help"].as_slice(),
        &["--version"],
        &["demo", "--help"],
        &["demo", "--clients", "2", "--bytes", "1", "--json"],
    ] {
        let (code, stderr) = onto_full_disk(arguments);
        assert_eq!(code, Some(1), "{arguments:?}: {stderr}");
        assert!(
            stderr.starts_with("error: cannot write to stdout: No space left"),
            "{arguments:?}: {stderr}"
        );
        assert_eq!(stderr.lines().count(), 1, "{arguments:?}: {stderr}");
    }
}

#[test]
fn each_phase_is_one_line_on_stderr_and_both_recoveries_can_be_told_apart() {
    let output = panetiere(&["demo", "--clients", "2", "--bytes", "1"]);
    let stderr = String::from_utf8(output.stderr).expect("progress is UTF-8");
    let phases: Vec<_> = stderr.lines().filter_map(|line| line.split("  ").next()).collect();
    assert_eq!(phases, ["setup", "collect", "close", "recover", "recover despite the lie"], "{stderr}");
}

/// The last line of a demo's result.
fn verdict(options: &str) -> String {
    let mut arguments = vec!["demo"];
    arguments.extend(options.split(' '));
    let output = panetiere(&arguments);
    assert_eq!(output.status.code(), Some(0), "{options}: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("text is UTF-8");
    text.lines().last().expect("a verdict").to_owned()
}

#[test]
fn each_liar_is_named_and_costs_nobody_else_a_message() {
    for (mode, lie, telling, recovered) in [
        ("direct", "client:bad-ciphertext", "signs a ciphertext out of range", "4 of 4"),
        ("aggregated", "aggregator:wrong-sum", "publishes a wrong sum", "5 of 5"),
        ("aggregated", "aggregator:wrong-root", "publishes a wrong root", "5 of 5"),
        ("aggregated", "aggregator:shifted-sum", "publishes a sum of other messages", "5 of 5"),
        ("aggregated", "server:wrong-sum", "publishes a wrong sum", "5 of 5"),
        ("erasure", "lane:wrong-sum", "publishes a wrong sum", "5 of 5"),
        ("erasure", "client:bad-share", "signs a coded share", "4 of 4"),
        ("erasure", "client:non-codeword", "commits to no codeword", "4 of 4"),
        ("all", "client:bad-opening", "seals an opening", "4 of 4"),
    ] {
        let line = verdict(&format!("--mode {mode} --lie {lie} --clients 5 --bytes 9"));
        let liar =
            line.strip_prefix("tamper  ").and_then(|rest| rest.split(telling).next()).expect("a liar").trim();
        assert!(liar.starts_with(lie.split(':').next().expect("a party")), "{line}");
        assert!(line.ends_with(&format!(": {liar} named, {recovered} recovered without it  ok")), "{line}");
    }
    let line = verdict("--mode erasure --lie lane:down --clients 5 --bytes 9");
    assert!(line.contains("missed, 5 of 5 recovered without it  ok") && !line.contains("named"), "{line}");
}

#[test]
fn forced_arithmetic_is_used_and_an_unavailable_one_ends_every_command() {
    let forced = |name: &str, arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_panetiere"));
        command.args(arguments).env("PANETIERE_SIMD", name).output().expect("the program starts")
    };
    let demo = ["demo", "--clients", "2", "--bytes", "1"];
    for simd in Simd::available() {
        let output = forced(&simd.to_string(), &demo);
        let stdout = String::from_utf8(output.stdout).expect("text is UTF-8");
        assert_eq!(output.status.code(), Some(0), "{simd}");
        assert!(stdout.lines().any(|line| line == format!("simd {simd}")), "{simd}: {stdout}");
    }
    for name in ["", "sse2", "AVX2", "scalar\u{1b}[2J"] {
        for arguments in [demo.as_slice(), &["bench", "kernels"], &["bench", "round", "--simd", "scalar"]] {
            let output = forced(name, arguments);
            let stderr = String::from_utf8(output.stderr).expect("errors are UTF-8");
            assert_eq!(output.status.code(), Some(2), "{name:?} {arguments:?}: {stderr}");
            assert!(output.stdout.is_empty(), "{name:?} {arguments:?}");
            assert_eq!(stderr.lines().count(), 1, "{stderr}");
            assert!(stderr.starts_with("error: PANETIERE_SIMD: "), "{stderr}");
            assert!(stderr.contains("available: scalar") && !stderr.contains('\u{1b}'), "{stderr}");
        }
    }
    let help = forced("sse2", &["demo", "--help"]);
    assert_eq!(help.status.code(), Some(0), "whoever mistypes the variable can still read about it");
    assert!(String::from_utf8(help.stdout).expect("text is UTF-8").contains("PANETIERE_SIMD  "));
}

#[test]
fn no_command_is_a_usage_error_that_shows_the_commands() {
    let output = panetiere(&[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(output.stdout.is_empty());
    assert!(String::from_utf8(output.stderr).unwrap().contains("demo"));
}
