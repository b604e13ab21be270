//! Every step of the rule refuses by itself, in order, and what passes all of them is released.

use super::scene::{History, Leaf, origin, summed};
use super::*;
use Leaf::{Close, Open, Other, Post};
use tlog::quorum::QuorumError;

fn history() -> History {
    History::new(&[Other(0), Open, Post(1), Post(2), Post(3), Close, Other(1), Post(4), Close])
}

fn good(origin: &Origin) -> Closing<'_> {
    let history = history();
    let record = Record { imported: Some(history.size()), answered: None };
    history.closing(origin, 5, Ok(history.head()), record)
}

#[test]
fn a_good_close_is_released_and_again_if_it_is_the_answer() {
    let origin = origin();
    let release = decide(&good(&origin)).unwrap();
    assert_eq!(release.session(), history().session());
    assert_eq!(release.summed(), summed(&[1, 2, 3]));
    assert_eq!(release.close(), (5, history().hashes()[5]));
    assert_eq!(release.head(), history().head());
    let mut again = good(&origin);
    again.record.answered = Some(summed(&[1, 2, 3]));
    assert_eq!(decide(&again).unwrap(), release);
    // A log that has grown since, and was read further.
    again.record.imported = Some(1000);
    assert!(decide(&again).is_ok());
}

/// What is changed, and the refusal's code.
type Row = (&'static str, fn(&mut Closing<'_>));

const TOO_FEW: QuorumError = QuorumError::TooFew { needed: 3, found: 2 };

/// In the order of the rule: each row breaks one thing.
const ROWS: [Row; 21] = [
    ("release_split_view", |c| c.split_view = true),
    ("quorum_too_few", |c| c.checkpoint = Err(TOO_FEW)),
    ("release_unread", |c| c.read = None),
    ("release_unread", |c| c.read = Some(TreeHead { root: [0; 32], ..history().head() })),
    ("release_order", |c| c.close = c.open),
    ("release_order", |c| c.close.index = 9),
    ("release_other_session", |c| c.open.hash[0] ^= 1),
    ("release_other_session", |c| c.open.index = 0),
    ("release_other_session", |c| c.session = SessionId::derive("log.example/other", 1, &[0; 32])),
    ("release_not_first_close", |c| c.derived.first_close = None),
    ("release_not_first_close", |c| c.derived.first_close = Some(3)),
    ("release_other_set", |c| c.stated.0 = summed(&[1, 2]).set),
    ("release_other_set", |c| c.stated.1 = 4),
    ("release_below_floor", |c| c.limits.min_clients = 4),
    ("release_above_max", |c| c.limits.max_clients = 2),
    ("release_below_platforms", |c| c.limits.min_platforms = 4),
    ("release_not_admitted", |c| c.derived.not_admitted = Some(ClientId(2))),
    ("release_unverified", |c| c.derived.not_verified = Some(ClientId(3))),
    ("release_guard_behind", |c| c.record.imported = None),
    ("release_guard_behind", |c| c.record.imported = Some(8)),
    ("release_other_answer", |c| c.record.answered = Some(summed(&[1, 2]))),
];

#[test]
fn each_step_refuses_by_itself_and_the_earliest_one_is_named() {
    let origin = origin();
    for (place, (code, change)) in ROWS.iter().enumerate() {
        let mut closing = good(&origin);
        change(&mut closing);
        assert_eq!(decide(&closing).unwrap_err().code(), *code, "row {place}");
        // With anything later wrong besides, the earlier one is still what is named.
        for (later, change) in &ROWS[place + 1..] {
            let mut both = closing.clone();
            change(&mut both);
            let named = decide(&both).unwrap_err().code();
            // A change may undo or cover the other one where both are about the same thing.
            assert!(named == *code || named == *later, "{code} {later} {named}");
            if place < 2 {
                assert_eq!(named, *code);
            }
        }
    }
}

#[test]
fn other_posts_of_the_same_clients_are_another_answer() {
    let origin = origin();
    let mut closing = good(&origin);
    closing.record.answered = Some(SummedSet { posts: summed(&[9]).posts, ..summed(&[1, 2, 3]) });
    assert_eq!(decide(&closing).unwrap_err().code(), "release_other_answer");
}

#[test]
fn a_second_close_does_not_count() {
    let (origin, history) = (origin(), history());
    let record = Record { imported: Some(history.size()), answered: None };
    let closing = history.closing(&origin, 8, Ok(history.head()), record);
    assert_eq!(decide(&closing).unwrap_err(), Refusal::NotFirstClose { close: 8, first: Some(5) });
}

#[test]
fn only_what_the_log_itself_shows_names_its_operator() {
    let origin = origin();
    for (code, change) in ROWS {
        let mut closing = good(&origin);
        change(&mut closing);
        let operator = decide(&closing).unwrap_err().attribution() == Attribution::Operator;
        assert_eq!(operator, ["release_split_view", "release_other_set"].contains(&code), "{code}");
    }
}
