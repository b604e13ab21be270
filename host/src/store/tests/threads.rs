//! The thread: who waits is answered once, in every order of events.

use super::super::disk::memory::{Choices, Crash, Effect, Failure, MemoryDisk};
use super::super::log::{Log, Pace};
use super::super::{BlobName, BlobStore as _, Class, StoreError, Submission};
use super::model::put;
use super::{NOW, log as log_key, open};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

const PACE: Pace = Pace { interval: Duration::from_millis(2), pending: 8, most_waiting: 4096 };

fn start(disk: &MemoryDisk, pace: Pace) -> Log {
    let (_, sequencer, _) = open(disk).unwrap();
    Log::start(sequencer, pace, || NOW).unwrap()
}

fn leaf(text: String) -> Submission {
    Submission { leaf: Some(text.into_bytes()), ..Submission::default() }
}

#[test]
fn many_threads_are_each_answered_with_their_own_receipt() {
    let disk = MemoryDisk::new();
    let log = start(&disk, PACE);
    let threads: Vec<_> = (0..4)
        .map(|thread| {
            let log = log.clone();
            std::thread::spawn(move || {
                for number in 0..50 {
                    let text = format!("{thread} {number}");
                    let blobs = vec![put(log.store(), thread, Class::Posts, text.as_bytes()).unwrap()];
                    let ticket = log.append(Submission { blobs, ..leaf(text.clone()) }).unwrap();
                    let receipt = ticket.wait().unwrap().leaf.unwrap();
                    let (index, proof) = (receipt.index(), receipt.proof().unwrap());
                    assert_eq!(proof.index(), index);
                    proof.verify(text.as_bytes(), &log_key()).unwrap();
                    log.store().receipt(index).unwrap().verify(text.as_bytes(), &log_key()).unwrap();
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(log.shutdown().unwrap().head().size, 200);
    assert!(log.shutdown().is_none());
    assert!(matches!(log.append(leaf("late".into())), Err(StoreError::Stopped)));
}

#[test]
fn a_shutdown_drains_and_answers_everyone_once() {
    for round in 0..20 {
        let disk = MemoryDisk::new();
        let log = start(&disk, PACE);
        let (ok, other) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let threads: Vec<_> = (0..3)
            .map(|thread| {
                let (log, ok, other) = (log.clone(), Arc::clone(&ok), Arc::clone(&other));
                std::thread::spawn(move || {
                    let mut submitted = 0;
                    for number in 0..40 {
                        let (ok, other) = (Arc::clone(&ok), Arc::clone(&other));
                        let count = move |outcome: Result<_, StoreError>| {
                            let counter = if outcome.is_ok() { ok } else { other };
                            counter.fetch_add(1, Ordering::SeqCst);
                        };
                        match log.submit(leaf(format!("{thread} {number}")), count) {
                            Ok(()) => submitted += 1,
                            Err(error) => assert!(matches!(error, StoreError::Stopped), "{error:?}"),
                        }
                    }
                    submitted
                })
            })
            .collect();
        let mut choices = Choices::new(round);
        std::thread::sleep(Duration::from_micros(choices.below(3000)));
        let sequencer = log.shutdown().unwrap();
        let submitted: usize = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
        // The last handle is gone, and with it whatever nobody read.
        drop(log);
        let (ok, other) = (ok.load(Ordering::SeqCst), other.load(Ordering::SeqCst));
        assert_eq!(ok + other, submitted, "each answered once");
        assert_eq!(sequencer.head().size, ok as u64, "answered with success are those in the log");
    }
}

#[test]
fn a_failed_sync_answers_everyone_with_the_failure_and_nobody_after() {
    let disk = MemoryDisk::new();
    let log = start(&disk, Pace { interval: Duration::from_secs(60), pending: 5, ..PACE });
    let blob = put(log.store(), 1, Class::Posts, b"body").unwrap();
    disk.fail(disk.effects(), Failure::NotDone);
    let tickets: Vec<_> = (0..5)
        .map(|number| {
            let blobs = vec![blob.clone()];
            log.append(Submission { blobs, ..leaf(number.to_string()) }).unwrap()
        })
        .collect();
    for ticket in tickets {
        assert!(matches!(ticket.wait(), Err(StoreError::Poisoned { .. })));
    }
    assert_eq!(disk.usage().effects[&Effect::SyncData], disk.usage().effects[&Effect::SyncData]);
    assert!(log.store().failure().is_some());
    assert!(matches!(log.append(leaf("after".into())), Err(StoreError::Poisoned { .. })));
    assert!(matches!(put(log.store(), 1, Class::Posts, b"other"), Err(StoreError::Poisoned { .. })));
}

#[test]
fn too_many_that_wait_are_refused() {
    let disk = MemoryDisk::new();
    let log = start(&disk, Pace { interval: Duration::from_secs(60), pending: 1000, most_waiting: 10 });
    let tickets: Vec<_> = (0..10).map(|number| log.append(leaf(number.to_string())).unwrap()).collect();
    assert!(matches!(log.append(leaf("one more".into())), Err(StoreError::Busy { waiting: 10 })));
    log.shutdown().unwrap();
    tickets.into_iter().for_each(|ticket| drop(ticket.wait().unwrap()));
}

#[test]
fn what_two_threads_acknowledged_survives_any_failure_of_the_disk() {
    let (mut failed, mut whole) = (0, 0);
    for seed in 0..120 {
        let disk = MemoryDisk::new();
        let log = start(&disk, Pace { interval: Duration::from_micros(200), pending: 3, ..PACE });
        let mut choices = Choices::new(seed);
        let failure = [Failure::NotDone, Failure::Done, Failure::NoSpace, Failure::Crash];
        let failure = failure[usize::try_from(choices.below(4)).unwrap()];
        disk.fail(disk.effects() + choices.below(250), failure);
        // Each says what was acknowledged to it: the place of its leaf, and the leaf, which is the body as well.
        let threads: Vec<_> = (0..3_u64)
            .map(|thread| {
                let log = log.clone();
                std::thread::spawn(move || {
                    let mut acknowledged = Vec::new();
                    for number in 0..12 {
                        let text = format!("{thread} {number}").repeat(20);
                        let tickets: Result<Vec<_>, StoreError> = (0..2)
                            .map(|copy| {
                                let text = format!("{copy}{text}");
                                let blobs = vec![put(log.store(), number, Class::Posts, text.as_bytes())?];
                                Ok((log.append(Submission { blobs, ..leaf(text.clone()) })?, text))
                            })
                            .collect();
                        let Ok(tickets) = tickets else { break };
                        for (ticket, text) in tickets {
                            if let Ok(committed) = ticket.wait() {
                                acknowledged.push((committed.leaf.unwrap(), text, number));
                            }
                        }
                        // Of a round that nobody writes to any more, but that another batch may have to do with.
                        if thread == 0 && number > 6 && log.store().delete_round(number - 6).is_err() {
                            break;
                        }
                    }
                    acknowledged
                })
            })
            .collect();
        let acknowledged: Vec<_> = threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
        let poisoned = log.store().failure().is_some();
        drop(log.shutdown());
        drop(log);
        let crash =
            [Crash::LoseAll, Crash::KeepAll, Crash::Seeded(seed)][usize::try_from(choices.below(3)).unwrap()];
        let (store, sequencer, _) = open(&disk.crashed(crash)).expect("opens after any failure");
        for (receipt, text, round) in acknowledged {
            assert!(receipt.index() < sequencer.head().size, "seed {seed}");
            assert_eq!(store.leaf(receipt.index()).unwrap(), text.as_bytes(), "seed {seed}");
            receipt.proof().unwrap().verify(text.as_bytes(), &log_key()).unwrap();
            let name = BlobName::of(text.as_bytes());
            match store.get(&name.digest, 0..name.len) {
                Ok(bytes) => assert_eq!(bytes, text.as_bytes(), "seed {seed}"),
                Err(StoreError::Deleted { .. }) if round < 6 => {}
                Err(error) => panic!("seed {seed}: {error}"),
            }
        }
        *(if poisoned { &mut failed } else { &mut whole }) += 1;
    }
    assert!(failed > 10 && whole > 0, "{failed} failed, {whole} did not");
}
