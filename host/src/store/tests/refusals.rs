//! What a start refuses, with the reason; and what it puts right.

use super::super::disk::memory::MemoryDisk;
use super::super::disk::{Access, Disk, DiskFile};
use super::super::tables::{FACTS, HEADS, LEAVES, OWN_LOG};
use super::super::{Class, Options, StartCheck, StartError, Submission, fsck, meta};
use super::model::put;
use super::{NOW, key, open, open_with, options, origin};
use panetiere::fault::Fault as _;
use std::sync::Arc;
use tlog::checkpoint::{Checkpoint, TreeHead};
use tlog::key::NoteSigner;

/// A store with 300 leaves and two bodies of round 1.
fn filled() -> MemoryDisk {
    let disk = MemoryDisk::new();
    let (store, mut sequencer, _) = open(&disk).unwrap();
    let blobs = vec![
        put(&store, 1, Class::Posts, &[1; 2000]).unwrap(),
        put(&store, 1, Class::Posts, &[2; 900]).unwrap(),
    ];
    let mut batch: Vec<_> = (0..300)
        .map(|number: u32| Submission { leaf: Some(number.to_be_bytes().to_vec()), ..Submission::default() })
        .collect();
    batch[0].blobs = blobs;
    sequencer.tick(NOW, &batch).unwrap();
    assert_eq!(disk.list("rounds/1").unwrap().len(), 1);
    drop((store, sequencer));
    disk
}

fn edit(disk: &MemoryDisk, change: impl FnOnce(&redb::WriteTransaction)) {
    let database = meta::open_existing(disk, "meta.redb").unwrap();
    let transaction = meta::begin(&database).unwrap();
    change(&transaction);
    transaction.commit().unwrap();
}

fn file(disk: &MemoryDisk, path: &str) -> Arc<dyn DiskFile> {
    disk.open(path, Access::Create).unwrap()
}

fn overwrite(disk: &MemoryDisk, path: &str, bytes: &[u8]) {
    file(disk, path).set_len(0).unwrap();
    file(disk, path).write_at(0, bytes).unwrap();
}

fn refused(disk: &MemoryDisk, options: Options, code: &str, telling: &[&str]) {
    let before = disk.snapshot();
    let error = open_with(disk, options).map(drop).expect_err(code);
    assert_eq!(error.code(), code, "{error:?}");
    let text = error.to_string();
    for part in telling {
        assert!(text.contains(part), "{text:?} does not say {part:?}");
    }
    // Nothing that the refusal is about was changed.
    for path in ["log/checkpoint", "rounds/1/posts-0000.seg"] {
        let read = |disk: &MemoryDisk| super::super::disk::read(disk, path, 1 << 20).ok();
        assert_eq!(read(disk), read(&before), "{path}");
    }
}

#[test]
fn two_processes_do_not_write_to_one_directory() {
    let disk = filled();
    let first = open(&disk).unwrap();
    refused(&disk, options(), "start_locked", &["another process"]);
    drop(first);
    open(&disk).unwrap();
}

#[test]
fn another_log_key_schema_or_clock_is_refused() {
    let disk = filled();
    let other = Options { origin: "other.example/log".parse().unwrap(), ..options() };
    refused(&disk, other, "start_other_origin", &["bulletin.example/test", "other.example/log"]);
    let stranger = NoteSigner::from_seed("bulletin.example/test".parse().unwrap(), &[8; 32]);
    let text = stranger.verifier().to_string();
    refused(
        &disk,
        Options::new(origin(), stranger),
        "start_other_key",
        &[&text, &key().verifier().to_string()],
    );
    edit(&disk, |transaction| {
        transaction
            .open_table(FACTS)
            .unwrap()
            .insert("committed_at", (NOW + 61).to_string().as_str())
            .unwrap();
    });
    refused(&disk, options(), "start_clock_behind", &["1800000061", "60 s"]);
    open_with(&disk, Options { clock_bound: 61, ..options() }).map(drop).unwrap();
    edit(&disk, |transaction| {
        transaction.open_table(FACTS).unwrap().insert("schema", "2").unwrap();
    });
    refused(&disk, options(), "start_schema", &["version 2", "reads 1"]);
}

#[test]
fn a_backup_behind_a_witness_or_behind_what_was_published_is_refused() {
    let disk = filled();
    let backup = disk.snapshot();
    let (_, mut sequencer, _) = open(&disk).unwrap();
    let submission = Submission { leaf: Some(b"after the backup".to_vec()), ..Submission::default() };
    sequencer.tick(NOW, &[submission]).unwrap();
    let published = super::super::disk::read(&disk, "log/checkpoint", 10_000).unwrap();
    // The whole directory, restored: only a witness can tell.
    let witnessed = |size| Options { witnessed: vec![("w.example".to_owned(), size)], ..options() };
    refused(&backup, witnessed(301), "start_witness_ahead", &["w.example", "size 301", "has 300", "backup"]);
    drop(open_with(&backup, witnessed(300)).unwrap());
    // The database alone, restored.
    overwrite(&backup, "log/checkpoint", &published);
    refused(&backup, options(), "start_published_ahead", &["size 301", "300"]);
    // No database at all.
    backup.remove("meta.redb").unwrap();
    refused(&backup, options(), "start_meta_missing", &["meta.redb", "log/"]);
}

#[test]
fn a_fork_and_damaged_leaves_are_refused() {
    let disk = filled();
    let note =
        Checkpoint::new(origin(), TreeHead { size: 299, root: [1; 32] }).unwrap().sign(&key()).unwrap();
    overwrite(&disk, "log/checkpoint", note.to_string().as_bytes());
    refused(&disk, options(), "start_published_differs", &["size 299", "fork"]);

    for (index, check) in
        [(299, StartCheck::Unsynced), (7, StartCheck::Everything), (7, StartCheck::Unsynced)]
    {
        let disk = filled();
        edit(&disk, |transaction| {
            transaction.open_table(LEAVES).unwrap().insert(index, &b"another"[..]).unwrap();
        });
        refused(&disk, Options { check, ..options() }, "start_leaves", &["size 300"]);
    }
    for index in [299, 100] {
        let disk = filled();
        edit(&disk, |transaction| drop(transaction.open_table(LEAVES).unwrap().remove(index).unwrap()));
        refused(&disk, options(), "start_leaves", &["299 leaves are stored"]);
    }
    let disk = filled();
    edit(&disk, |transaction| {
        let mut heads = transaction.open_table(HEADS).unwrap();
        heads.insert(OWN_LOG, note.to_string().as_str()).unwrap();
    });
    refused(&disk, options(), "start_leaves", &["300 leaves are stored"]);
}

#[test]
fn a_segment_without_its_bytes_is_refused_and_one_with_more_is_cut() {
    let disk = filled();
    let path = "rounds/1/posts-0000.seg";
    let segment = file(&disk, path);
    segment.write_at(2900, b"never acknowledged").unwrap();
    overwrite(&disk, "rounds/1/posts-0001.seg", b"nor this");
    overwrite(&disk, "rounds/1/notes.txt", b"not ours");
    let (.., started) = open(&disk).unwrap();
    assert_eq!(started.truncated_bytes, 18);
    assert_eq!(segment.len().unwrap(), 2900);
    let names: Vec<_> = disk.list("rounds/1").unwrap().into_iter().map(|name| name.name).collect();
    assert_eq!(names, ["notes.txt", "posts-0000.seg"]);
    segment.set_len(2899).unwrap();
    refused(&disk, options(), "start_segment_short", &[path, "2899", "2900"]);
    disk.remove(path).unwrap();
    refused(&disk, options(), "start_segment_short", &[path, "has 0 bytes"]);
}

#[test]
fn published_files_are_made_again() {
    let disk = filled();
    for path in ["log/tile/0/000", "log/tile/1/000.p/1", "log/checkpoint"] {
        disk.remove(path).unwrap();
    }
    overwrite(&disk, "log/tile/entries/000", b"torn");
    overwrite(&disk, "log/tile/entries/001.p/44", b"");
    let disk_trait: Arc<dyn Disk> = Arc::new(disk.clone());
    assert_eq!(fsck::store(&disk_trait).unwrap().findings.len(), 1, "no checkpoint, so nothing to compare");
    let (.., started) = open(&disk).unwrap();
    assert_eq!(started.republished, 4);
    let (.., started) =
        open(&disk).map_err(|error| matches!(error, StartError::Locked)).unwrap_or_else(|_| panic!());
    assert_eq!(started.republished, 0);
    assert_eq!(fsck::store(&disk_trait).unwrap().findings, []);
}

#[test]
fn fsck_names_every_damage_and_changes_nothing() {
    let find = |damage: &dyn Fn(&MemoryDisk)| {
        let disk = filled();
        damage(&disk);
        let before = disk.effects();
        let shared: Arc<dyn Disk> = Arc::new(disk.clone());
        let findings = fsck::store(&shared).unwrap().findings;
        assert_eq!(disk.effects(), before, "fsck wrote");
        let list: Vec<_> = findings.into_iter().map(|finding| (finding.code, finding.place)).collect();
        list
    };
    let codes =
        |damage: &dyn Fn(&MemoryDisk)| -> Vec<_> { find(damage).into_iter().map(|found| found.0).collect() };
    assert!(find(&|_| {}).is_empty());
    let flip = |path: &'static str, offset| {
        move |disk: &MemoryDisk| {
            let mut byte = [0];
            file(disk, path).read_at(offset, &mut byte).unwrap();
            file(disk, path).write_at(offset, &[byte[0] ^ 1]).unwrap();
        }
    };
    let found = find(&flip("rounds/1/posts-0000.seg", 2500));
    assert_eq!(found.len(), 1);
    assert!(found[0].0 == "blob" && found[0].1.contains("posts-0000.seg at 2000, 900 bytes"), "{found:?}");
    let found = find(&flip("log/tile/0/000", 33));
    assert_eq!(found[0], ("published_tile", "log/tile/0/000".to_owned()));
    assert_eq!(codes(&flip("log/tile/entries/000", 3)), ["published_tile"]);
    assert_eq!(codes(&flip("log/tile/entries/000", 0)), ["published_bundle"]);
    assert_eq!(codes(&flip("log/tile/1/000.p/1", 0)), ["published_tile"]);
    assert_eq!(codes(&flip("log/tile/entries/001.p/44", 3)), ["published_tile"]);
    assert_eq!(codes(&flip("log/checkpoint", 25)), ["published_checkpoint"]);
    assert_eq!(codes(&|disk| disk.remove("log/tile/0/000").unwrap()), ["published_missing"]);
    assert_eq!(
        codes(&|disk| file(disk, "rounds/1/posts-0000.seg").set_len(2899).unwrap()),
        ["segment_short", "blob", "blob"]
    );
    assert_eq!(
        codes(&|disk| disk.remove("rounds/1/posts-0000.seg").unwrap()),
        ["segment_missing", "blob", "blob"]
    );
    let leaf = |disk: &MemoryDisk| {
        edit(disk, |transaction| {
            transaction.open_table(LEAVES).unwrap().insert(7, &b"another"[..]).unwrap();
        });
    };
    // The tile's root, both places of the checkpoint, and what was published.
    assert_eq!(codes(&leaf), ["node", "root", "root", "published_differs"]);
}
