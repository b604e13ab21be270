//! The adversary matrix: every party with every lie, and what comes of it.
//!
//! One cell per (party, lie). A cell names the party with these codes, or names nobody and says why, or does not apply and
//! says why. Its executor makes the lie through bytes; [`every_cell_holds`] asserts for all of them that exactly these codes
//! were found, that nobody but the liar was named, that no plaintext was wrong, and that the round ended as the cell says.
//! `docs/adversary.md` is this table for people: `UPDATE=1` writes it.

mod aggregator;
mod client;
mod kernel;
mod lane;
mod server;
mod wire;

use panetiere::fault::{Attribution, Fault};
use panetiere::ids::{AggregatorId, ClientId, NodeId, ServerId};
use panetiere::plaintext::PlainPoly;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

/// Who lies: always the same one of its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Party {
    Client,
    Server,
    Lane,
    Aggregator,
}

impl Party {
    const ALL: [Self; 4] = [Self::Client, Self::Server, Self::Lane, Self::Aggregator];

    const fn liar(self) -> Attribution {
        match self {
            Self::Client => Attribution::Client(ClientId(1)),
            Self::Server => Attribution::Server(ServerId(2)),
            Self::Lane => Attribution::Lane(NodeId(1)),
            Self::Aggregator => Attribution::Aggregator(AggregatorId(1)),
        }
    }

    const fn cells(self) -> &'static [Cell] {
        match self {
            Self::Client => client::CELLS,
            Self::Server => server::CELLS,
            Self::Lane => lane::CELLS,
            Self::Aggregator => aggregator::CELLS,
        }
    }
}

macro_rules! lies {
    ($($name:ident: $text:literal,)*) => {
        /// What it does.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Lie {
            $($name,)*
        }

        impl Lie {
            const ALL: &[Self] = &[$(Self::$name,)*];

            const fn text(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }
        }
    };
}

lies! {
    WrongSum: "wrong sum",
    WrongShare: "wrong share or opening",
    OtherSet: "other set or other posts",
    StaleSession: "content of another session",
    Replay: "replay of an earlier round's bytes",
    OtherContext: "other deployment, epoch, parameters, mode, purpose or key",
    Swapped: "swapped envelope, share or sum",
    BadPath: "bad path",
    OutOfRangeDigit: "out-of-range digit or residue",
    KernelVector: "kernel-vector share",
    NonCodeword: "non-codeword",
    InconsistentShares: "inconsistent Shamir shares",
    OversizedNoise: "oversized noise",
    BadPayload: "bad payload vector",
    CopiedCiphertext: "copied or negated ciphertext",
    CopiedRoot: "copied root",
    ForgedSignature: "forged or foreign signature",
    HighS: "high-s signature",
    DuplicateId: "duplicate or unknown id",
    TwoAnswers: "two different statements",
    OverlappingGroups: "overlapping groups",
    ShortOrLongBody: "short or long body",
    Undelivered: "undelivered envelope, item or sum",
    FalseComplaint: "false complaint, or a false answer to one",
    ComplaintFlood: "complaint flood beyond the cap",
}

/// What is found.
#[derive(Clone, Copy)]
pub enum Verdict {
    /// The lie can be told.
    Found {
        /// Codes of the faults that name the liar.
        named: &'static [&'static str],
        /// Codes of the faults that name nobody, each with the reason why.
        unnamed: &'static [(&'static str, &'static str)],
        /// What becomes of the round.
        round: Ends,
        /// Tells the lie.
        run: fn() -> Seen,
    },
    /// This party cannot tell this lie; why.
    Inapplicable(&'static str),
}

/// What becomes of a round in which the lie is told.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Ends {
    /// The plaintext is that without the lie.
    Same,
    /// The plaintext is that of the other clients.
    Without,
    /// There is none, and why; or only that of the other clients, in a round without the liar.
    Stops(&'static str),
}

/// A cell of one party.
pub struct Cell {
    pub lie: Lie,
    pub verdict: Verdict,
}

pub const fn no(lie: Lie, why: &'static str) -> Cell {
    Cell { lie, verdict: Verdict::Inapplicable(why) }
}

pub const fn cell(
    lie: Lie,
    named: &'static [&'static str],
    unnamed: &'static [(&'static str, &'static str)],
    round: Ends,
    run: fn() -> Seen,
) -> Cell {
    Cell { lie, verdict: Verdict::Found { named, unnamed, round, run } }
}

/// The code of bytes that are no object: nothing was signed that anybody could read.
pub const NO_OBJECT: &str = "does_not_parse";
/// Why bytes that do not parse name nobody.
pub const NO_BYTES: &str = "bytes that are no object carry nobody's signature";
/// Why a replay names nobody.
pub const TRUE_ELSEWHERE: &str = "true where it was signed for; who brought it here has signed nothing";
/// Why a foreign signature names nobody.
pub const ANYBODYS: &str = "anybody can write such bytes in anybody's name";
/// Why another view of the log names nobody.
pub const OTHER_LOG: &str = "an honest one that was shown another log signs the same";
/// Why bytes that were not delivered name nobody.
pub const WHO_DROPPED_IT: &str = "no signed bytes show whether they were not sent, not carried or not kept";

/// What an executor saw.
#[derive(Default)]
pub struct Seen {
    faults: Vec<(&'static str, Attribution)>,
    recovered: usize,
    stopped: usize,
}

impl Seen {
    pub fn note(&mut self, code: &'static str, attribution: Attribution) {
        self.faults.push((code, attribution));
    }

    pub fn fault(&mut self, fault: &dyn Fault) {
        self.note(fault.code(), fault.attribution());
    }

    /// Bytes that no object parses from.
    pub fn no_object<T: std::fmt::Debug, E>(&mut self, parsed: Result<T, E>) {
        assert!(parsed.is_err(), "{parsed:?}", parsed = parsed.ok());
        self.note(NO_OBJECT, Attribution::Nobody);
    }

    /// A plaintext that came out, and the right one.
    pub fn recovers(&mut self, got: &[PlainPoly], expected: &[PlainPoly]) {
        assert!(got == expected, "a wrong plaintext");
        self.recovered += 1;
    }

    /// Messages that came out of a plaintext, and the right ones.
    pub fn delivers(&mut self, got: &[Vec<u8>], expected: &[Vec<u8>]) {
        assert_eq!(got, expected);
        self.recovered += 1;
    }

    /// No plaintext came out.
    pub const fn stops(&mut self) {
        self.stopped += 1;
    }

    pub fn and(mut self, more: fn() -> Self) -> Self {
        let more = more();
        self.faults.extend(more.faults);
        self.recovered += more.recovered;
        self.stopped += more.stopped;
        self
    }
}

/// What may end a round with nobody named: the three lies that only a sum over all clients shows, with whatever amounts to
/// one of them...
const UNTRACEABLE: [&str; 3] = ["noise_overflow", "shares_inconsistent", "sketch_check_failed"];
/// ... and what no signed bytes prove: bytes that are not there or not the party's, and groups that are each right.
const UNPROVEN: [&str; 8] = [
    "group_gap",
    "group_not_in_set",
    "group_overlap",
    "group_posts",
    "group_signature",
    "lane_missing_client",
    "post_body_mismatch",
    "server_missing_client",
];

#[test]
fn the_table_is_complete_and_every_cell_gives_its_reason() {
    for party in Party::ALL {
        let lies: Vec<Lie> = party.cells().iter().map(|cell| cell.lie).collect();
        assert_eq!(lies, Lie::ALL, "{party:?}: every lie once, in order");
        for Cell { lie, verdict } in party.cells() {
            let reasons: Vec<&str> = match verdict {
                Verdict::Inapplicable(why) => vec![why],
                Verdict::Found { unnamed, .. } => unnamed.iter().map(|(_, why)| *why).collect(),
            };
            assert!(reasons.iter().all(|why| why.len() > 10), "{party:?}, {lie:?}: why?");
            if let Verdict::Found { named: [], unnamed, round: Ends::Stops(_), .. } = verdict {
                let excused = |code| UNTRACEABLE.contains(&code) || UNPROVEN.contains(&code);
                assert!(
                    unnamed.iter().all(|(code, _)| excused(*code)),
                    "{party:?}, {lie:?}: lost, and nobody named"
                );
            }
        }
    }
}

#[test]
fn every_cell_holds() {
    let mut wrong = Vec::new();
    for party in Party::ALL {
        for Cell { lie, verdict } in party.cells() {
            let Verdict::Found { named, unnamed, round, run } = verdict else { continue };
            let place = format!("{party:?}, {}", lie.text());
            let seen = run();
            let (mut by_name, mut by_nobody) = (BTreeSet::new(), BTreeSet::new());
            for (code, attribution) in seen.faults {
                match attribution {
                    liar if liar == party.liar() => by_name.insert(code),
                    Attribution::Nobody | Attribution::Caller | Attribution::Operator => {
                        by_nobody.insert(code)
                    }
                    honest => panic!("{place}: {code} names {honest:?}"),
                };
            }
            let expected = (named.iter().copied().collect(), unnamed.iter().map(|(code, _)| *code).collect());
            if (&by_name, &by_nobody) != (&expected.0, &expected.1) {
                wrong.push(format!("{place}: found {:?}, the table says {expected:?}", (by_name, by_nobody)));
            }
            if (seen.stopped > 0) != matches!(round, Ends::Stops(_)) || seen.recovered == 0 {
                wrong.push(format!(
                    "{place}: it recovers {} times and stops {}",
                    seen.recovered, seen.stopped
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn markdown() -> String {
    let mut out = String::from(
        "# Adversary matrix\n\n\
         Generated from the table that the tests run (`UPDATE=1 cargo test -p panetiere --test adversary page`); do not edit.\n\n\
         Four parties, every lie. **Named**: the error carries the liar, and its bytes are the evidence. **Nobody**: no signed bytes \
         prove who it was, and the reason stands with the code. Nobody else is ever named, and no plaintext is ever wrong: each cell's test \
         tells the lie through bytes and checks all of that. Rounds have four servers of which three suffice, two of four lanes, \
         two aggregators.\n\n| lie | client | server | lane | aggregator |\n|---|---|---|---|---|\n",
    );
    let cells: BTreeMap<(Lie, Party), &Verdict> = Party::ALL
        .iter()
        .flat_map(|party| party.cells().iter().map(|cell| ((cell.lie, *party), &cell.verdict)))
        .collect();
    for lie in Lie::ALL {
        let words = Party::ALL.map(|party| match cells[&(*lie, party)] {
            Verdict::Inapplicable(_) => "-",
            Verdict::Found { named: [], unnamed: [], .. } => "harmless",
            Verdict::Found { named: [], .. } => "nobody",
            Verdict::Found { unnamed: [], .. } => "named",
            Verdict::Found { .. } => "named, or nobody",
        });
        writeln!(out, "| {} | {} |", lie.text(), words.join(" | ")).unwrap();
    }
    for party in Party::ALL {
        write!(out, "\n## {party:?}\n\n| lie | named | nobody, because | the round |\n|---|---|---|---|\n")
            .unwrap();
        for Cell { lie, verdict } in party.cells() {
            let row = match verdict {
                Verdict::Inapplicable(why) => format!("does not apply: {why} | | "),
                Verdict::Found { named, unnamed, round, .. } => {
                    let named: Vec<_> = named.iter().map(|code| format!("`{code}`")).collect();
                    let unnamed: Vec<_> =
                        unnamed.iter().map(|(code, why)| format!("`{code}`: {why}")).collect();
                    let round = match round {
                        Ends::Same => "as without the lie",
                        Ends::Without => "as without the client",
                        Ends::Stops(why) => why,
                    };
                    format!("{} | {} | {round}", named.join(", "), unnamed.join("; "))
                }
            };
            writeln!(out, "| {} | {row} |", lie.text()).unwrap();
        }
    }
    out
}

#[test]
fn the_page_is_the_table_in_markdown() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/adversary.md");
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&page, markdown()).unwrap();
    }
    let written = std::fs::read_to_string(&page).unwrap_or_default();
    assert!(written == markdown(), "docs/adversary.md is not this table: UPDATE=1 writes it");
}
