//! What holds in every state, and what does not once a part of the rule is left out.

use super::{Model, Server, Setting, Until, World, explore};
use std::collections::HashMap;
use tlog::quorum::quorum_size;

fn holds(world: &World, setting: Setting) {
    // The smallest threshold that can be is the hardest: what holds for it holds for every larger one.
    let threshold = setting.assumed + 1;
    let explored = explore(world, setting, threshold, Until::End);
    println!("{} states: {setting:?}", explored.states);
    assert!(explored.p1.is_none(), "two sets with {threshold} sums: {setting:?} {:#?}", explored.p1);
    assert!(explored.p2.is_none(), "two sums of one server: {setting:?} {:#?}", explored.p2);
    assert!(explored.both < threshold, "{setting:?}");
}

fn print(what: &str, setting: Setting, steps: &[String]) {
    println!("{what}: {setting:?}");
    steps.iter().for_each(|step| println!("  {step}"));
}

#[test]
fn no_two_sets_and_no_second_sum_for_any_small_deployment() {
    let world = World::new();
    for servers in 2..=4 {
        for faulty in 0..servers {
            holds(&world, Setting::new(servers, faulty));
        }
    }
}

#[test]
fn something_is_released_at_all() {
    let world = World::new();
    for (servers, faulty) in [(2, 0), (3, 1), (4, 1)] {
        let mut model = Model {
            world: &world,
            setting: Setting::new(servers, faulty),
            needed: quorum_size(servers, faulty).unwrap(),
            decided: HashMap::new(),
        };
        // All honest servers cosign the same history and read it.
        let server = Server { head: 1, cosigned: 1, imported: 1, ..Server::default() };
        let state = vec![server; servers - faulty];
        assert!(model.releases(&state, server, 0, 0));
        assert!(!model.releases(&state, Server { imported: 0, ..server }, 0, 0));
        assert!(!model.releases(&state, Server { record: 2, ..server }, 0, 0));
    }
}

#[test]
fn a_server_set_back_unnoticed_counts_as_a_faulty_one() {
    let world = World::new();
    for (servers, assumed) in [(2, 1), (3, 1), (3, 2), (4, 2), (4, 3)] {
        let setting =
            Setting { faulty: assumed - 1, set_back: 1, losses: false, ..Setting::new(servers, assumed) };
        holds(&world, setting);
    }
    // One beyond what the quorum was made for.
    let setting = Setting { set_back: 1, ..Setting::new(3, 0) };
    let steps = explore(&world, setting, 1, Until::P1).p1.expect("a counterexample");
    print("one set back, none assumed", setting, &steps);
}

#[test]
fn without_the_quorum_two_sets_get_enough_sums_exactly_where_the_formula_says() {
    let world = World::new();
    for servers in 2..=4 {
        for faulty in 0..servers {
            let setting = Setting { quorum: false, losses: false, ..Setting::new(servers, faulty) };
            let explored = explore(&world, setting, faulty + 1, Until::End);
            for threshold in faulty + 1..=servers {
                let broken = explored.both >= threshold;
                assert_eq!(broken, 2 * threshold <= servers + faulty, "{setting:?}, threshold {threshold}");
            }
            assert!(explored.p2.is_none(), "the guard alone keeps a server to one sum: {setting:?}");
            if let Some(steps) = &explored.p1 {
                print("without the quorum", setting, steps);
            }
        }
    }
}

#[test]
fn where_the_quorum_has_fallen_the_guard_keeps_a_server_to_one_sum_and_nothing_else_does() {
    let world = World::new();
    // While it stands, the quorum alone is enough.
    holds(&world, Setting { guard: false, losses: false, ..Setting::new(4, 1) });
    // Two of four are faulty where none was assumed.
    let fallen = Setting { faulty: 2, losses: false, ..Setting::new(4, 0) };
    assert!(explore(&world, fallen, 3, Until::End).p2.is_none());
    let setting = Setting { guard: false, ..fallen };
    let steps = explore(&world, setting, 3, Until::P2).p2.expect("a counterexample");
    print("without the guard", setting, &steps);
}

#[test]
fn the_first_close_and_the_retired_key_are_needed() {
    let world = World::new();
    let setting = Setting { first_close: false, ..Setting::new(4, 1) };
    let steps = explore(&world, setting, 2, Until::P1).p1.expect("a counterexample");
    print("any close counts", setting, &steps);
    let setting = Setting { retire: false, ..Setting::new(4, 1) };
    let steps = explore(&world, setting, 2, Until::P1).p1.expect("a counterexample");
    print("a key that forgot goes on", setting, &steps);
}
