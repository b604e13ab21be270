//! What the store does on a disk that does not fail.

use super::super::disk::Disk as _;
use super::super::disk::memory::{Effect, MemoryDisk};
use super::super::start::Grease;
use super::super::{BlobName, BlobStore as _, Class, StoreError, Submission};
use super::model::put;
use super::{NOW, log, open, open_with, options, witness_line};

fn leaf(text: &str) -> Submission {
    Submission { leaf: Some(text.as_bytes().to_vec()), ..Submission::default() }
}

#[test]
fn bodies_are_taken_at_their_exact_name_or_not_at_all() {
    let disk = MemoryDisk::new();
    let (store, mut sequencer, _) = open(&disk).unwrap();
    let bytes = vec![1; 1000];
    let name = BlobName::of(&bytes);
    let begin = || store.put(1, Class::Posts, name).unwrap();
    let mismatch = |error| assert!(matches!(error, StoreError::BlobMismatch { .. }), "{error:?}");
    // Too short, too long, other bytes, dropped halfway.
    let mut writer = begin();
    writer.write(&bytes[..999]).unwrap();
    mismatch(writer.finish().unwrap_err());
    let mut writer = begin();
    writer.write(&bytes).unwrap();
    mismatch(writer.write(&[1]).unwrap_err());
    mismatch(writer.write(&[1]).unwrap_err());
    mismatch(writer.finish().unwrap_err());
    let mut writer = begin();
    writer.write(&[2; 1000]).unwrap();
    mismatch(writer.finish().unwrap_err());
    let mut writer = begin();
    writer.write(&bytes[..10]).unwrap();
    drop(writer);
    // All of that space is used again.
    let blob = put(&store, 1, Class::Posts, &bytes).unwrap();
    assert_eq!(
        disk.open("rounds/1/posts-0000.seg", super::super::disk::Access::Read).unwrap().len().unwrap(),
        1000
    );
    assert!(matches!(store.len(&name.digest), Err(StoreError::NotFound)), "not durable, so not there");
    sequencer
        .tick(NOW, &[Submission { blobs: vec![blob], ..Submission::default() }])
        .unwrap()
        .remove(0)
        .unwrap();
    assert_eq!(store.get(&name.digest, 0..1000).unwrap(), bytes);
    assert_eq!(store.get(&name.digest, 990..1000).unwrap().len(), 10);
    assert!(store.get(&name.digest, 1000..1000).unwrap().is_empty());
    let backwards = std::ops::Range { start: 5, end: 4 };
    for range in [0..1001, 1001..1001, backwards] {
        assert!(matches!(store.get(&name.digest, range), Err(StoreError::Range { .. })));
    }
    assert!(matches!(store.put(2, Class::Posts, BlobName { len: u64::MAX, ..name }).map(drop), Ok(())));
    assert!(matches!(
        store.put(1, Class::Posts, BlobName { len: u64::MAX, ..name }).map(drop),
        Err(StoreError::Range { .. })
    ));
}

#[test]
fn a_deleted_round_is_gone_and_says_so() {
    let disk = MemoryDisk::new();
    let (store, mut sequencer, _) = open(&disk).unwrap();
    let blobs: Vec<_> = [(1, 1), (1, 2), (2, 2)]
        .map(|(round, byte)| put(&store, round, Class::Posts, &[byte; 100]).unwrap())
        .into();
    let late = put(&store, 1, Class::Other, b"late").unwrap();
    sequencer.tick(NOW, &[Submission { blobs: blobs.clone(), ..leaf("posts") }]).unwrap().remove(0).unwrap();
    assert_eq!(store.rounds().unwrap(), [1, 2]);
    let mut writer = store.put(1, Class::Posts, BlobName::of(&[3; 10])).unwrap();
    store.delete_round(1).unwrap();
    store.delete_round(1).unwrap();
    store.delete_round(7).unwrap();
    assert_eq!(store.rounds().unwrap(), [2]);
    assert_eq!(disk.list("rounds").unwrap().len(), 1);
    let deleted = |error| assert!(matches!(error, StoreError::Deleted { round: 1 }), "{error:?}");
    deleted(store.get(&blobs[0].name().digest, 0..1).unwrap_err());
    assert_eq!(store.get(&blobs[1].name().digest, 0..1).unwrap(), [2], "round 2 has it too");
    // A body that was on its way is refused at its end, and no body begins.
    deleted(store.put(1, Class::Posts, BlobName::of(b"")).map(drop).unwrap_err());
    writer.write(&[3; 10]).unwrap();
    for blob in [late, writer.finish().unwrap()] {
        let submission = Submission { blobs: vec![blob], ..leaf("late") };
        deleted(sequencer.tick(NOW, &[submission]).unwrap().remove(0).unwrap_err());
    }
    assert_eq!(sequencer.head().size, 1, "leaves stay, refused ones do not come");
    drop((store, sequencer));
    let (store, ..) = open(&disk).unwrap();
    deleted(store.len(&blobs[0].name().digest).unwrap_err());
    deleted(store.put(1, Class::Posts, BlobName::of(b"")).map(drop).unwrap_err());
}

#[test]
fn a_batch_costs_the_same_syncs_whatever_its_size() {
    let syncs = |count: usize| {
        let disk = MemoryDisk::new();
        let one_segment = super::Options { segment_bytes: 1 << 30, ..options() };
        let (store, mut sequencer, _) = open_with(&disk, one_segment).unwrap();
        let mut tick = |offset: usize| {
            let before = disk.usage().effects.get(&Effect::SyncData).copied().unwrap_or(0);
            let batch: Vec<_> = (0..count)
                .map(|number| {
                    let body = (offset + number).to_be_bytes().repeat(10);
                    let blobs = vec![put(&store, 1, Class::Posts, &body).unwrap()];
                    Submission { blobs, ..leaf(&format!("{offset} {number}")) }
                })
                .collect();
            assert!(sequencer.tick(NOW, &batch).unwrap().iter().all(Result::is_ok));
            disk.usage().effects[&Effect::SyncData] - before
        };
        tick(0);
        tick(1000)
    };
    // The segment, and redb's two phases.
    assert_eq!(syncs(1), 3);
    assert_eq!(syncs(30), 3);
}

#[test]
fn a_large_body_is_written_once() {
    let disk = MemoryDisk::new();
    let (store, mut sequencer, _) =
        open_with(&disk, super::Options { segment_bytes: 1 << 30, ..options() }).unwrap();
    let before = disk.usage().bytes_written;
    let body = vec![5; 6_000_000];
    for round in 0..4 {
        let blobs = (0..5_u8)
            .map(|number| {
                let body = [&body[..], &[number]].concat();
                put(&store, round, Class::Posts, &body).unwrap()
            })
            .collect();
        sequencer.tick(NOW, &[Submission { blobs, ..leaf("post") }]).unwrap().remove(0).unwrap();
    }
    let written = disk.usage().bytes_written - before;
    let bodies = 4 * 5 * 6_000_001;
    assert!(written >= bodies && written * 100 <= bodies * 105, "{written} for {bodies}");
}

#[test]
fn cosignatures_stay_with_their_checkpoint_and_are_published() {
    let disk = MemoryDisk::new();
    let (store, mut sequencer, _) = open(&disk).unwrap();
    let text = |size| store.checkpoint_of(size).unwrap().map(|note| note.to_string());
    for size in 1..=8_u64 {
        sequencer.tick(NOW, &[leaf(&size.to_string())]).unwrap();
        if size % 3 == 0 {
            // One late, as witnesses are.
            sequencer.add_cosignatures(size - 1, &[witness_line()]).unwrap();
        }
    }
    let kept: Vec<u64> = (0..=8).filter(|size| text(*size).is_some()).collect();
    assert_eq!(kept, [2, 5, 6, 7, 8], "the last three, and those that were cosigned");
    assert!(text(2).unwrap().contains("witness.example"));
    let lines = [witness_line()];
    assert!(matches!(sequencer.add_cosignatures(4, &lines), Err(StoreError::UnknownCheckpoint { size: 4 })));
    sequencer.add_cosignatures(8, &lines).unwrap();
    let published =
        String::from_utf8(super::super::disk::read(&disk, "log/checkpoint", 10_000).unwrap()).unwrap();
    assert_eq!(published, text(8).unwrap());
    assert_eq!(published, store.checkpoint().unwrap().to_string());
    assert!(published.contains("witness.example") && published.contains("grease.invalid"));
    let proof = store.receipt(3).unwrap();
    assert_eq!(proof.verify(b"4", &log()).unwrap().head(), sequencer.head());
    assert_eq!(store.consistency(2, 8).unwrap().len(), 2);
    // The next checkpoint replaces a cosigned one by compare-and-swap.
    sequencer.tick(NOW, &[leaf("9")]).unwrap();
    drop((store, sequencer));
    let plain = super::Options { grease: Grease::None, ..options() };
    let (store, mut sequencer, started) = open_with(&disk, plain).unwrap();
    assert_eq!((started.republished, started.head.size), (0, 9));
    sequencer.tick(NOW, &[leaf("10")]).unwrap();
    assert_eq!(store.checkpoint().unwrap().signatures().len(), 1);
}

#[test]
fn the_partial_tiles_of_a_full_one_are_removed() {
    let disk = MemoryDisk::new();
    let (_store, mut sequencer, _) = open(&disk).unwrap();
    let mut tick = |count: u64| {
        let batch: Vec<_> = (0..count).map(|number| leaf(&number.to_string())).collect();
        sequencer.tick(NOW, &batch).unwrap();
    };
    let names =
        |path: &str| -> Vec<String> { disk.list(path).unwrap().into_iter().map(|name| name.name).collect() };
    tick(100);
    tick(100);
    assert_eq!(names("log/tile/0"), ["000.p"]);
    assert_eq!(names("log/tile/entries/000.p"), ["100", "200"]);
    tick(60);
    assert_eq!(names("log/tile/0"), ["000", "001.p"]);
    assert_eq!(names("log/tile/entries"), ["000", "001.p"]);
    assert_eq!(names("log/tile/1/000.p"), ["1"]);
}
