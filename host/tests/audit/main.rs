//! Published rounds audited by somebody who trusts nobody: all right if everybody was honest, and whatever was tampered
//! with is found, with the right party named or nobody.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod cli;
mod lies;
mod scene;
mod tampered;

use panetiere::fault::Attribution;
use panetiere::ids::ClientId;
use panetiere_api::leaf::{AbortReason, Leaf, RoundAbort, RoundId};
use panetiere_host::round::audit::Outcome;
use panetiere_host::round::library::Library;
use panetiere_host::round::recover::{Bodies as _, Body};
use panetiere_host::store::BlobStore as _;
use scene::*;

#[test]
fn an_honest_round_of_every_mode_is_all_right() {
    for (seed, mode) in [(1, Mode::Direct), (2, Mode::Aggregated), (3, Mode::Erasure)] {
        let copy = Copy::honest(seed, mode);
        let audit = copy.audit(&copy.mirror(), FIRST);
        assert_all_right(&audit, 5);
        assert!(audit.leaves.iter().all(|leaf| leaf.void.is_none()), "{mode:?}");
        // 5 posts, their end, 4 checks, the close, 4 sums, the result and the opening; besides what the mode adds.
        let more = match mode {
            Mode::Direct => 0,
            Mode::Aggregated => 2,
            Mode::Erasure => 4,
        };
        assert_eq!(audit.leaves.len(), 17 + more, "{mode:?}");
        assert_eq!(copy.audit_store(FIRST).lines, audit.lines, "{mode:?}: the store itself says the same");
    }
}

#[test]
fn a_round_that_is_long_over_is_still_audited() {
    let mut stage = stage(4, Mode::Direct);
    let (session, sent) = stage.closed();
    stage.summed(&session, &sent, &[]);
    let messages = messages(&sent);
    let result = stage.result(&session, &messages);
    stage.counts(&result, None);
    let id = session_of(&stage);
    // The record forgets it; the log does not.
    let mut late = Vec::new();
    for _ in 0..66 {
        let session = stage.open();
        stage.counts(&Leaf::RoundAbort(RoundAbort { session, reason: AbortReason::Operator }), None);
        late.push(session);
    }
    assert!(stage.record.session(&id).is_none());
    // A leaf about it that comes too late counts for nothing.
    stage.append(&result, None).unwrap_err();
    let temporary = tempfile::TempDir::new().unwrap();
    // Bodies are found by the session's round, which the record no longer has: the round is written by itself first.
    let mut short = scene::stage(4, Mode::Direct);
    let entries: Vec<_> = stage.entries[short.entries.len()..].to_vec();
    let (first, rest) = entries.split_at(17);
    first.iter().for_each(|entry| drop(short.append(&entry.leaf, entry.body.clone())));
    let (store, mut log) = stored(&short, &temporary.path().join("data"), Some(&messages), 3);
    for entry in rest {
        let leaf = Some(entry.leaf.to_entry().unwrap());
        let submission = panetiere_host::store::Submission { leaf, ..Default::default() };
        log.tick(1, &[submission]).unwrap().remove(0).unwrap();
    }
    drop((store, log));
    let copy = Copy { temporary, stage };
    copy.export();
    let audit = copy.audit(&copy.mirror(), FIRST);
    assert_all_right(&audit, 5);
    let void: Vec<_> = audit.leaves.iter().filter_map(|leaf| leaf.void.as_ref()).map(|void| void.0).collect();
    assert_eq!(void, ["leaf_unknown_session"]);
    let aborted = copy.audit(&copy.mirror(), RoundId(40));
    assert_eq!((odd(&aborted), holds(&aborted, "round_aborted")), (vec![], true));
    let none = copy.audit(&copy.mirror(), RoundId(68));
    assert_eq!(odd(&none), [(Outcome::Missing, "audit_no_round")]);
}

#[test]
fn deleted_bodies_end_the_audit_where_they_were_needed() {
    for mode in [Mode::Direct, Mode::Erasure] {
        let mut stage = stage(5, mode);
        let (session, sent) = stage.closed();
        stage.summed(&session, &sent, &[]);
        let messages = messages(&sent);
        let result = stage.result(&session, &messages);
        stage.counts(&result, None);
        let temporary = tempfile::TempDir::new().unwrap();
        let (store, log) = stored(&stage, &temporary.path().join("data"), Some(&messages), 3);
        let stored = Library(&store).body(FIRST, Body::Post(ClientId(0))).unwrap().unwrap();
        let entry = stage.entries.iter().find(|entry| entry.body.is_some()).unwrap();
        assert_eq!(Some(&stored), entry.body.as_ref(), "the first body is that of client 0's post");
        assert!(Library(&store).body(FIRST, Body::Post(ClientId(9))).unwrap().is_none());
        store.delete_round(1).unwrap();
        let gone = Library(&store).body(FIRST, Body::Post(ClientId(0))).unwrap_err();
        assert_eq!(gone.kind(), std::io::ErrorKind::NotFound);
        drop((store, log));
        let copy = Copy { temporary, stage };
        copy.export();
        for audit in [copy.audit(&copy.mirror(), FIRST), copy.audit_store(FIRST)] {
            assert_eq!((audit.outcome(), audit.messages), (Outcome::Missing, None));
            assert!(
                odd(&audit).iter().all(|(outcome, _)| *outcome == Outcome::Missing),
                "{:#?}",
                audit.lines
            );
            for code in ["log_files", "log_root", "epoch", "checked", "set"] {
                assert!(holds(&audit, code), "{code} can still be audited: {:#?}", audit.lines);
            }
            assert!(!holds(&audit, "result") && !holds(&audit, "decoded"));
            assert_eq!(audit.named(), [Attribution::Nobody; 0]);
        }
    }
}

#[test]
fn a_round_under_way_is_not_audited_in_full_and_nobody_is_named() {
    let mut stage = stage(6, Mode::Direct);
    stage.posted();
    let copy = Copy::new(stage, None);
    let audit = copy.audit(&copy.mirror(), FIRST);
    assert_eq!(odd(&audit), [(Outcome::Missing, "round_open")]);

    let mut stage = scene::stage(6, Mode::Direct);
    let (session, sent) = stage.closed();
    stage.summed(&session, &sent, &[0, 1]);
    let copy = Copy::new(stage, None);
    let audit = copy.audit(&copy.mirror(), FIRST);
    assert_eq!(audit.outcome(), Outcome::Missing, "{:#?}", audit.lines);
    assert!(holds(&audit, "closing_quorum"));
}
