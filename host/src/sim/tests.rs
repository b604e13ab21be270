//! Worlds by the hundred.

use super::ledger::Rule;
use super::plan::{ClientLie, Plan, Without};
use super::world::{Outcome, World};
use rayon::prelude::*;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Seeds in a test run; `PANETIERE_SIM_SEEDS` has another number.
const SEEDS: u64 = 200;

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().expect("a number"))
}

fn run(plan: &Plan) -> Outcome {
    World::new(plan.clone()).run()
}

/// Runs worlds; fails with the first that breaks a rule or panics, and how to run it again.
fn all_hold(
    make: impl Fn(u64) -> Plan + Sync,
    seeds: std::ops::Range<u64>,
    kind: &str,
) -> BTreeMap<&'static str, u64> {
    let failed = |seed: u64| -> Result<BTreeMap<&'static str, u64>, String> {
        let again = format!(
            "PANETIERE_SIM_KIND={kind} PANETIERE_SIM_SEED={seed} cargo test -p panetiere-host --lib sim_one_seed -- --nocapture"
        );
        let outcome = catch_unwind(AssertUnwindSafe(|| run(&make(seed))))
            .map_err(|_| format!("seed {seed} panics: {again}"))?;
        match outcome.violation {
            None => Ok(outcome.counts),
            Some(violation) => {
                let (rule, text, trace) = (violation.rule, violation.text, outcome.trace);
                Err(format!("{trace}\nseed {seed}: {rule:?}: {text}\n{again}"))
            }
        }
    };
    let results: Vec<_> = seeds.into_par_iter().map(failed).collect();
    let mut counts = BTreeMap::new();
    let mut failures = Vec::new();
    for result in results {
        match result {
            Ok(found) => {
                found.into_iter().for_each(|(what, count)| *counts.entry(what).or_default() += count)
            }
            Err(failure) => failures.push(failure),
        }
    }
    if let Some(first) = failures.first() {
        panic!("{} worlds failed, the first:\n{first}", failures.len());
    }
    counts
}

/// How many worlds break which rule.
fn broken(make: impl Fn(u64) -> Plan + Sync, seeds: u64) -> BTreeMap<Rule, usize> {
    let violation = |seed| run(&make(seed)).violation.map(|violation| violation.rule);
    let rules: Vec<Rule> = (0..seeds).into_par_iter().filter_map(violation).collect();
    let mut counts = BTreeMap::new();
    rules.into_iter().for_each(|rule| *counts.entry(rule).or_default() += 1);
    eprintln!("of {seeds} worlds break: {counts:?}");
    counts
}

#[test]
fn worlds_keep_every_promise() {
    let seeds = number("PANETIERE_SIM_SEEDS").unwrap_or(SEEDS);
    let first = number("PANETIERE_SIM_FIRST").unwrap_or(0);
    let counts = all_hold(Plan::new, first..first + seeds, "any");
    eprintln!("{seeds} seeds: {counts:?}");
    // The worlds are worth something only if rounds get through them, and lies are told and found.
    for what in
        ["results", "recovered", "sums", "forks", "split views", "named", "complaints", "revealed", "meddled"]
    {
        assert!(counts.contains_key(what), "no {what} in {seeds} worlds: {counts:?}");
    }
}

#[test]
fn sim_one_seed() {
    let seed = number("PANETIERE_SIM_SEED").unwrap_or(1);
    let plan = match std::env::var("PANETIERE_SIM_KIND").as_deref().unwrap_or("any") {
        "any" => Plan::new(seed),
        "forked" => Plan::forked(seed, Without::default()),
        "beyond" => Plan::forked(seed, Without { bound: true, ..Without::default() }),
        "complaining" => Plan::complaining(seed, Without::default()),
        "late" => Plan::posting(seed, ClientLie::Late, Without::default()),
        "second" => Plan::posting(seed, ClientLie::Second, Without::default()),
        kind => panic!("no kind {kind}"),
    };
    let outcome = run(&plan);
    eprintln!("{}\n{:?} {} events", outcome.trace, outcome.counts, outcome.events);
    assert!(outcome.violation.is_none(), "{:?}", outcome.violation);
}

#[test]
fn a_world_is_its_seed() {
    for seed in [3, 4] {
        let (first, second) = (run(&Plan::new(seed)), run(&Plan::new(seed)));
        assert_eq!(first.trace, second.trace);
        assert_eq!((first.counts, first.events), (second.counts, second.events));
    }
}

#[test]
fn without_the_quorum_two_sets_get_their_sums() {
    let counts = all_hold(|seed| Plan::forked(seed, Without::default()), 0..20, "forked");
    assert!(counts["forks"] > 0 && counts["cosignatures"] > 0, "{counts:?}");
    let without = Without { quorum: true, ..Without::default() };
    assert!(broken(|seed| Plan::forked(seed, without), 20).contains_key(&Rule::OneSet));
}

#[test]
fn without_the_guard_a_server_sums_twice() {
    let beyond = Without { bound: true, ..Without::default() };
    let counts = all_hold(|seed| Plan::forked(seed, beyond), 0..20, "beyond");
    assert!(counts["forks"] > 0 && counts["sums"] > 0, "{counts:?}");
    let without = Without { guard: true, ..beyond };
    // Not by luck: most of these worlds see a server start again between two histories.
    let found = broken(|seed| Plan::forked(seed, without), 20);
    assert!(found.get(&Rule::OneSum).is_some_and(|worlds| *worlds >= 10), "{found:?}");
}

#[test]
fn without_the_cap_a_client_reveals_too_much() {
    let counts = all_hold(|seed| Plan::complaining(seed, Without::default()), 0..10, "complaining");
    assert!(counts["cosignatures"] > 0, "{counts:?}");
    let without = Without { cap: true, ..Without::default() };
    assert!(broken(|seed| Plan::complaining(seed, without), 10).contains_key(&Rule::Shares));
}

#[test]
fn without_the_first_post_rule_a_second_post_keeps_a_round_from_its_result() {
    all_hold(|seed| Plan::posting(seed, ClientLie::Second, Without::default()), 0..10, "second");
    let without = Without { first_post: true, ..Without::default() };
    let found = broken(|seed| Plan::posting(seed, ClientLie::Second, without), 10);
    assert!(found.contains_key(&Rule::Liveness), "{found:?}");
}

#[test]
fn without_the_end_of_posts_a_late_one_cannot_be_complained_about() {
    all_hold(|seed| Plan::posting(seed, ClientLie::Late, Without::default()), 0..10, "late");
    let without = Without { posts_end: true, ..Without::default() };
    let found = broken(|seed| Plan::posting(seed, ClientLie::Late, without), 10);
    assert!(found.contains_key(&Rule::Liveness), "{found:?}");
}
