//! Every effect of a scenario fails in every way; the machine stops after every effect.

use super::super::disk::Disk;
use super::super::disk::memory::{Choices, Crash, Failure, MemoryDisk};
use super::super::sequencer::What;
use super::super::tiles::PublishedTiles;
use super::super::{Class, StoreError, fsck};
use super::model::{Acknowledged, Model, State, Step, Sub, observe, perform, script};
use super::{log, open, root};
use std::sync::Arc;
use tlog::note::Note;

/// How far a run came: steps that were acknowledged, with the model before and after the one that failed.
struct Run {
    before: State,
    /// None: nothing failed.
    after: Option<State>,
    acknowledged: Acknowledged,
    error: Option<String>,
}

fn run(disk: &MemoryDisk, steps: &[Step]) -> Run {
    let mut model = Model::default();
    let mut acknowledged = Acknowledged::default();
    let opened = open(disk);
    let (store, mut sequencer, _) = match opened {
        Ok(opened) => opened,
        Err(error) => {
            let (before, error) = (State::default(), Some(error.to_string()));
            return Run { before, after: Some(State::default()), acknowledged, error };
        }
    };
    for step in steps {
        let before = model.state.clone();
        let expected = model.apply(step);
        if let Err(error) = perform(&store, &mut sequencer, step, &expected, &mut acknowledged) {
            if matches!(error, StoreError::Poisoned { .. }) {
                assert!(store.failure().is_some());
                let again = sequencer.tick(0, &[]);
                assert!(matches!(again, Err(StoreError::Poisoned { .. })), "poisoned stays poisoned");
            }
            let after = Some(model.state);
            return Run { before, after, acknowledged, error: Some(error.to_string()) };
        }
    }
    Run { before: model.state, after: None, acknowledged, error: None }
}

/// Opens what is left and holds it to the model.
fn check(left: &MemoryDisk, run: &Run, context: &str) {
    let disk: Arc<dyn Disk> = Arc::new(left.clone());
    let published = PublishedTiles::new(Arc::clone(&disk), "log").checkpoint().ok();
    let (store, mut sequencer, _) = open(left).unwrap_or_else(|error| panic!("{context}: {error:?}"));
    let largest = run.after.as_ref().unwrap_or(&run.before);
    let found = observe(&store, &merged(&run.before, largest));
    assert!(
        found == run.before || Some(&found) == run.after.as_ref(),
        "{context}: after {:?}\nfound {}\nbefore {}\nafter {:?}",
        run.error,
        summary(&found),
        summary(&run.before),
        run.after.as_ref().map(summary),
    );
    run.acknowledged.check(&found.leaves);
    // What was published before is a beginning of what is there now.
    let known = published.and_then(|bytes| log().open(&Note::parse(&bytes).ok()?).ok());
    if let Some(known) = known {
        let size = usize::try_from(known.head().size).unwrap();
        assert!(size <= found.leaves.len(), "{context}: published {size}");
        assert_eq!(known.head().root, root(&found.leaves[..size]), "{context}: a fork");
    }
    let head = sequencer.head();
    assert_eq!((head.size, head.root), (found.leaves.len() as u64, root(&found.leaves)), "{context}");
    // And it goes on.
    let mut model = Model { state: found, ..Model::default() };
    let step = Step::Tick(vec![Sub {
        leaf: Some(b"one more".to_vec()),
        blobs: vec![(99, Class::Posts, vec![99; 50])],
        changes: vec![("posts", b"new".to_vec(), What::PutNew(Vec::new()))],
    }]);
    let expected = model.apply(&step);
    let mut acknowledged = Acknowledged::default();
    perform(&store, &mut sequencer, &step, &expected, &mut acknowledged).expect(context);
    acknowledged.check(&model.state.leaves);
    drop((store, sequencer));
    let report = fsck::store(&disk).expect(context);
    assert_eq!(report.findings, [], "{context}");
}

fn merged(one: &State, other: &State) -> State {
    let mut merged = one.clone();
    merged.blobs.extend(other.blobs.clone());
    merged
}

fn summary(state: &State) -> String {
    let blobs: Vec<_> = state.blobs.values().map(|blob| blob.as_ref().map(Vec::len)).collect();
    format!(
        "{} leaves, blobs {blobs:?}, {:?}, cosigned {:?}",
        state.leaves.len(),
        state.values,
        state.cosigned
    )
}

#[test]
fn every_effect_fails_and_the_reopened_store_is_the_model() {
    let clean = MemoryDisk::new();
    let whole = run(&clean, &script());
    assert_eq!(whole.error, None);
    check(&clean.snapshot(), &whole, "no fault");
    let effects = clean.effects();
    assert!(effects > 150, "{effects}");
    for effect in 0..effects {
        for failure in [Failure::NotDone, Failure::Done, Failure::NoSpace, Failure::Crash] {
            let disk = MemoryDisk::new();
            disk.fail(effect, failure);
            let run = run(&disk, &script());
            let context = format!("effect {effect} {failure:?}");
            // One of the ways on which nothing depends but chance; all of them at night.
            let left = if failure == Failure::Crash {
                assert!(run.error.is_some() || effect + 20 > effects, "{context}: nobody noticed");
                [Crash::LoseAll, Crash::KeepAll, Crash::Seeded(effect)].map(|crash| disk.crashed(crash))
            } else {
                // The process starts again; or the machine does.
                [disk.snapshot(), disk.crashed(Crash::LoseAll), disk.crashed(Crash::Seeded(effect))]
            };
            for (way, left) in (0..).zip(&left) {
                if whole_night() || way == effect % 3 {
                    check(left, &run, &format!("{context} way {way}"));
                }
            }
        }
    }
}

/// Whether there is time for everything.
fn whole_night() -> bool {
    std::env::var_os("PANETIERE_STORE_SEEDS").is_some()
}

/// A script by chance.
fn random_script(choices: &mut Choices) -> Vec<Step> {
    let mut number = 0_u64;
    (0..4 + choices.below(6))
        .map(|_| match choices.below(8) {
            0 => Step::Delete(choices.below(3)),
            1 => Step::Cosign,
            2 => Step::SyncTiles,
            _ => Step::Tick({
                let most = if choices.below(6) == 0 { 300 } else { 6 };
                (0..choices.below(most))
                    .map(|_| {
                        number += 1;
                        let leaf = (choices.below(5) > 0).then(|| format!("leaf {number}").into_bytes());
                        let blobs = (0..choices.below(3))
                            .map(|_| {
                                let class = Class::ALL[usize::try_from(choices.below(3)).unwrap()];
                                let len = usize::try_from(choices.below(1500)).unwrap();
                                (choices.below(3), class, number.to_be_bytes().repeat(len / 8))
                            })
                            .collect();
                        let key = vec![u8::try_from(choices.below(40)).unwrap()];
                        let what = match choices.below(4) {
                            0 => What::Put(number.to_be_bytes().to_vec()),
                            1 => What::PutNew(Vec::new()),
                            2 => What::PutNewWithIndex(vec![1]),
                            _ => What::Remove,
                        };
                        Sub { leaf, blobs, changes: vec![("posts", key, what)] }
                    })
                    .collect()
            }),
        })
        .collect()
}

#[test]
fn scripts_by_chance_with_and_without_a_fault() {
    let seeds = std::env::var("PANETIERE_STORE_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(60);
    for seed in 0..seeds {
        let mut choices = Choices::new(seed);
        let steps = random_script(&mut choices);
        let disk = MemoryDisk::new();
        let whole = run(&disk, &steps);
        assert_eq!(whole.error, None, "seed {seed}");
        check(&disk.snapshot(), &whole, &format!("seed {seed}"));
        check(&disk.crashed(Crash::LoseAll), &whole, &format!("seed {seed}, a crash at the end"));
        let failure = [Failure::NotDone, Failure::Done, Failure::NoSpace, Failure::Crash]
            [usize::try_from(seed % 4).unwrap()];
        for _ in 0..3 {
            let effect = choices.below(disk.effects());
            let failing = MemoryDisk::new();
            failing.fail(effect, failure);
            let broken = run(&failing, &steps);
            check(
                &failing.crashed(Crash::Seeded(seed)),
                &broken,
                &format!("seed {seed} effect {effect} {failure:?}"),
            );
        }
    }
}

/// How a run ends whose disk has no more than so many bytes.
#[test]
fn a_full_disk_refuses_and_keeps_what_it_has() {
    let clean = MemoryDisk::new();
    run(&clean, &script());
    for capacity in (10_000..3_000_000).step_by(90_000) {
        let disk = MemoryDisk::new();
        disk.set_capacity(Some(capacity));
        let run = run(&disk, &script());
        let left = disk.snapshot();
        left.set_capacity(None);
        check(&left, &run, &format!("{capacity} bytes"));
    }
}

#[test]
fn every_read_fails_and_nothing_is_forked() {
    let reads = {
        let disk = MemoryDisk::new();
        run(&disk, &script());
        disk.reads()
    };
    for read in 0..reads {
        let disk = MemoryDisk::new();
        disk.fail_read(read);
        let run = run(&disk, &script());
        check(&disk.crashed(Crash::Seeded(read)), &run, &format!("read {read}"));
    }
    // A start on a disk that fails a read is refused or right, and changes nothing that another start needs.
    let disk = MemoryDisk::new();
    let whole = run(&disk, &script());
    let disk = disk.snapshot();
    let reads = {
        let disk = disk.snapshot();
        drop(open(&disk).unwrap());
        disk.reads()
    };
    for read in 0..reads {
        let disk = disk.snapshot();
        disk.fail_read(read);
        drop(open(&disk));
        check(&disk.snapshot(), &whole, &format!("start, read {read}"));
    }
}
