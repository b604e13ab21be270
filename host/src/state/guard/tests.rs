//! One answer a session: across crashes at every effect of the disk, restored backups, lost states, double starts.

use super::super::testing::*;
use super::*;
use crate::release::scene::{History, Leaf};
use crate::store::disk::LocalDisk;
use crate::store::disk::memory::MemoryDisk;
use panetiere::fault::{Fault as _, Retry};
use panetiere::protocol::AnswerLogError;
use std::thread;

/// What came of an attempt to answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    /// The sum goes out.
    Given,
    /// It does not.
    Refused,
}

fn answer(guard: &ReleaseGuard, history: &History) -> Answer {
    guard.authorise(forgetful(history));
    let bytes = claim(history).to_bytes();
    match guard.commit(slot(), &bytes) {
        Ok(None) => Answer::Given,
        Ok(Some(standing)) if standing == bytes => Answer::Given,
        Ok(Some(_)) | Err(_) => Answer::Refused,
    }
}

/// Opens, imports, answers over the first history; whether the answer went out.
fn first_answer(disk: &MemoryDisk) -> Answer {
    let Ok(state) = State::open(disk) else { return Answer::Refused };
    let guard = ReleaseGuard::new(state);
    let Ok(position) = guard.position() else { return Answer::Refused };
    if guard.import(position, fork()[0].head(), &[]).is_err() {
        return Answer::Refused;
    }
    answer(&guard, &fork()[0])
}

#[test]
fn one_answer_across_a_crash_at_every_effect() {
    let [first, second] = fork();
    let clean = MemoryDisk::new();
    assert_eq!(first_answer(&clean), Answer::Given);
    let effects = clean.effects();
    assert!(effects > 20, "{effects}");
    let (mut given, mut kept_unsaid) = (0, 0);
    for effect in 0..effects {
        for failure in FAILURES {
            let disk = MemoryDisk::new();
            disk.fail(effect, failure);
            let before = first_answer(&disk);
            for crash in crashes(effect) {
                // The next process knows what the log says: nothing.
                let disk = disk.crashed(crash);
                let guard = imported(&disk);
                let after = answer(&guard, &second);
                let at = format!("effect {effect}, {failure:?}, {crash:?}");
                assert!(before == Answer::Refused || after == Answer::Refused, "two answers: {at}");
                // What was taken down and not said can still be said, and only that.
                let first_again = answer(&guard, &first);
                assert_ne!(first_again, after, "{at}");
                given += u32::from(before == Answer::Given);
                kept_unsaid += u32::from(before == Answer::Refused && after == Answer::Refused);
                // And once more, in a third process.
                drop(guard);
                let guard = imported(&disk);
                assert_eq!(answer(&guard, &second), after, "{at}");
                assert_eq!(answer(&guard, &first), first_again, "{at}");
            }
        }
    }
    // Both ways of a commit that reports failure were seen.
    assert!(given > 0 && kept_unsaid > 0, "{given} {kept_unsaid}");
}

#[test]
fn after_a_failed_commit_the_process_answers_nothing() {
    for failure in FAILURES {
        let disk = MemoryDisk::new();
        let guard = imported(&disk);
        guard.authorise(forgetful(&fork()[0]));
        let next = disk.effects();
        (next..next + 40).for_each(|effect| disk.fail(effect, failure));
        let bytes = claim(&fork()[0]).to_bytes();
        let failed = guard.commit(slot(), &bytes).unwrap_err();
        assert_eq!((failed.code(), failed.retry()), ("answers_failed", Retry::Never), "{failure:?}");
        assert!(guard.state.broken().is_some());
        let other = AnswerSlot { kind: AnswerKind::Checked, ..slot() };
        assert_eq!(guard.commit(other, b"x").unwrap_err().code(), "answers_failed");
        assert_eq!(guard.answered(slot()).unwrap_err().code(), "answers_failed");
        assert_eq!(guard.record(session()).unwrap_err().code(), "state_broken");
        assert_eq!(guard.import(None, fork()[0].head(), &[]).unwrap_err().code(), "state_broken");
    }
}

#[test]
fn nothing_is_answered_before_the_log_was_read() {
    let (_disk, state) = memory();
    let guard = ReleaseGuard::new(state);
    guard.authorise(forgetful(&fork()[0]));
    for kind in [AnswerKind::ServerSum, AnswerKind::Checked, AnswerKind::LaneSum] {
        let refused = guard.commit(AnswerSlot { kind, ..slot() }, &claim(&fork()[0]).to_bytes());
        assert_eq!(refused, Err(AnswerLogError::Behind));
    }
    assert_eq!(guard.record(session()).unwrap(), Record { imported: None, answered: None });
    // Neither does the rule let it.
    assert!(release(&fork()[0], guard.record(session()).unwrap()).is_none());
    guard.import(None, fork()[0].head(), &[]).unwrap();
    assert!(release(&fork()[0], guard.record(session()).unwrap()).is_some());
    assert_eq!(answer(&guard, &fork()[0]), Answer::Given);
    assert_eq!(guard.record(session()).unwrap().answered, Some(fork()[0].set(fork()[0].closes()[0])));
}

#[test]
fn only_what_was_released_is_taken_down() {
    let (disk, _) = memory();
    let guard = imported(&disk);
    let [first, second] = fork();
    let bytes = claim(&first).to_bytes();
    let not_released = AnswerLogError::NotReleased { kind: AnswerKind::ServerSum, session: session() };
    assert_eq!(guard.commit(slot(), &bytes), Err(not_released.clone()));
    guard.authorise(forgetful(&second));
    assert_eq!(guard.commit(slot(), &bytes), Err(not_released.clone()));
    assert_eq!(guard.answered(slot()), Ok(None));
    guard.authorise(forgetful(&first));
    let count = SumClaim { clients: 7, ..claim(&first) };
    assert_eq!(guard.commit(slot(), &count.to_bytes()), Err(not_released.clone()));
    assert_eq!(guard.commit(slot(), b"no claim").unwrap_err().code(), "answers_malformed");
    assert_eq!(guard.commit(slot(), &bytes), Ok(None));
    // One leave, one answer.
    assert_eq!(guard.commit(slot(), &bytes), Err(not_released));
    guard.authorise(forgetful(&first));
    assert_eq!(guard.commit(slot(), &bytes), Ok(Some(bytes)));
}

#[test]
fn a_restored_backup_learns_from_the_log_what_it_answered() {
    let [first, second] = fork();
    let disk = MemoryDisk::new();
    drop(imported(&disk));
    let backup = disk.snapshot();
    assert_eq!(answer(&imported(&disk), &first), Answer::Given);

    // The log got the sum as its leaf 6, and one more.
    let longer = History::new(&[&first.leaves[..], &[Leaf::Other(7), Leaf::Other(8)]].concat());
    let sum = Published::server_sum(6, &claim(&first));
    let guard = guard(&backup);
    assert_eq!(guard.position().unwrap(), Some(first.head()));
    assert_eq!(
        guard.import(guard.position().unwrap(), longer.head(), std::slice::from_ref(&sum)).unwrap(),
        1
    );
    assert_eq!(answer(&guard, &second), Answer::Refused);
    let record = guard.record(session()).unwrap();
    assert!(release(&second, record).is_none());
    assert!(release(&first, record).is_some());
    assert_eq!(answer(&guard, &first), Answer::Given);

    // A state that was lost altogether reads from the beginning.
    let lost = MemoryDisk::new();
    let guard = super::super::testing::guard(&lost);
    assert_eq!(guard.position().unwrap(), None);
    assert_eq!(guard.import(None, longer.head(), &[sum]).unwrap(), 1);
    assert_eq!(answer(&guard, &second), Answer::Refused);
}

#[test]
fn a_second_answer_in_the_log_stops_the_server() {
    let [first, second] = fork();
    let disk = MemoryDisk::new();
    assert_eq!(answer(&imported(&disk), &first), Answer::Given);
    let foreign = Published::server_sum(3, &claim(&second));
    // The position is past that leaf: somebody restored the log, or it is another one.
    let guard = guard(&disk);
    let position = guard.position().unwrap();
    let longer = History::new(&[&first.leaves[..], &[Leaf::Other(7)]].concat());
    let outside = guard.import(position, longer.head(), std::slice::from_ref(&foreign)).unwrap_err();
    assert_eq!(outside.code(), "import_leaf_outside");
    let foreign = Published { leaf: 6, ..foreign };
    let error = guard.import(position, longer.head(), std::slice::from_ref(&foreign)).unwrap_err();
    assert_eq!(error.code(), "import_contradiction");
    let text = error.to_string();
    for claim in [claim(&first), claim(&second)] {
        assert!(text.contains(&claim.set.to_string()) && text.contains(&claim.posts.to_string()), "{text}");
    }
    assert!(text.contains("leaf 6"), "{text}");
    assert_eq!(answer(&guard, &first), Answer::Refused);
    assert!(guard.state.broken().unwrap().contains("leaf 6"));
    // The next process comes to the same end, and two in the log contradict each other as well.
    drop(guard);
    let again = super::super::testing::guard(&disk);
    assert_eq!(again.position().unwrap(), position);
    assert!(again.import(position, longer.head(), std::slice::from_ref(&foreign)).is_err());
    let fresh = super::super::testing::guard(&MemoryDisk::new());
    let both = [Published::server_sum(5, &claim(&first)), foreign];
    assert_eq!(fresh.import(None, longer.head(), &both).unwrap_err().code(), "import_contradiction");
    assert_eq!(fresh.answered(slot()).unwrap_err().code(), "answers_failed");
}

#[test]
fn imports_go_on_from_where_the_last_one_ended() {
    let [first, second] = fork();
    let guard = guard(&MemoryDisk::new());
    guard.import(None, first.head(), &[]).unwrap();
    let code = |from, to| guard.import(from, to, &[]).unwrap_err().code();
    assert_eq!(code(None, first.head()), "import_not_from_position");
    assert_eq!(code(Some(second.head()), second.head()), "import_not_from_position");
    let shorter = History::new(&first.leaves[..4]).head();
    assert_eq!(code(Some(first.head()), shorter), "import_log_shrank");
    // The other history has the same size and another root.
    assert_eq!(first.size(), second.size());
    assert_eq!(code(Some(first.head()), second.head()), "import_other_root");
    assert_eq!(guard.import(Some(first.head()), first.head(), &[]).unwrap(), 0);
}

#[test]
fn complaints_and_lane_sums_have_one_answer_each_too() {
    let (disk, _) = memory();
    let guard = imported(&disk);
    for kind in [AnswerKind::Checked, AnswerKind::LaneSum] {
        let slot = AnswerSlot { kind, ..slot() };
        assert_eq!(guard.commit(slot, b"one"), Ok(None));
        assert_eq!(guard.commit(slot, b"one"), Ok(Some(b"one".to_vec())));
        assert_eq!(guard.commit(slot, b"two"), Ok(Some(b"one".to_vec())));
        assert_eq!(guard.answered(slot), Ok(Some(b"one".to_vec())));
    }
    assert_eq!(guard.answered(slot()), Ok(None));
}

#[test]
fn it_is_the_log_in_memory_that_survives() {
    use panetiere::protocol::MemoryAnswers;
    let sessions: Vec<SessionId> =
        (0..3).map(|leaf| SessionId::derive("log.example", leaf, &[0; 32])).collect();
    for seed in 0..20u64 {
        let mut word = seed;
        let mut below = |bound: usize| {
            word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            usize::try_from(word >> 33).unwrap() % bound
        };
        let model = MemoryAnswers::default();
        let mut disk = MemoryDisk::new();
        let mut guard = imported(&disk);
        for _ in 0..30 {
            let kind = [AnswerKind::Checked, AnswerKind::LaneSum][below(2)];
            let slot = AnswerSlot { session: sessions[below(3)], kind };
            let bytes = [b"one", b"two"][below(2)];
            assert_eq!(guard.answered(slot), model.answered(slot), "seed {seed}");
            assert_eq!(guard.commit(slot, bytes), model.commit(slot, bytes), "seed {seed}");
            if below(4) == 0 {
                drop(guard);
                disk = disk.crashed(crashes(seed)[below(3)]);
                guard = imported(&disk);
            }
        }
    }
}

#[test]
fn of_two_answers_at_once_one_stands() {
    let (disk, _) = memory();
    let guard = imported(&disk);
    let slot = AnswerSlot { kind: AnswerKind::Checked, ..slot() };
    let answers = [b"a", b"b", b"c", b"d"];
    let taken: Vec<_> = thread::scope(|scope| {
        let threads = answers.map(|bytes| {
            let guard = &guard;
            scope.spawn(move || guard.commit(slot, bytes).unwrap())
        });
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let standing = guard.answered(slot).unwrap();
    for (taken, bytes) in taken.iter().zip(answers) {
        let expected = if standing.as_deref() == Some(bytes) { &None } else { &standing };
        assert_eq!(taken, expected);
    }
    assert_eq!(taken.iter().filter(|taken| taken.is_none()).count(), 1);
}

#[test]
fn a_state_is_open_once() {
    let disk = MemoryDisk::new();
    let state = State::open(&disk).unwrap();
    assert_eq!(State::open(&disk).unwrap_err().code(), "meta_database");
    drop(state);
    State::open(&disk).unwrap();

    let directory = tempfile::tempdir().unwrap();
    let disk = LocalDisk::new(directory.path());
    let state = State::open(&disk).unwrap();
    assert_eq!(State::open(&disk).unwrap_err().code(), "meta_database");
    drop(state);
    State::open(&disk).unwrap();
}
