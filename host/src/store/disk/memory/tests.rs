//! The disk in memory behaves as it says, which the store's tests rest on; and as files do, where both can.

use super::super::{Access, Disk, Kind, LocalDisk, read};
use super::{Crash, Failure, MemoryDisk};
use std::io::ErrorKind;

fn content(disk: &MemoryDisk, path: &str) -> Option<Vec<u8>> {
    match read(disk, path, 1 << 20) {
        Ok(bytes) => Some(bytes),
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn files_and_memory_answer_alike() {
    let directory = tempfile::tempdir().unwrap();
    let disks: [Box<dyn Disk>; 2] = [Box::new(LocalDisk::new(directory.path())), Box::new(MemoryDisk::new())];
    for disk in disks {
        let kind = |result: std::io::Result<()>| result.expect_err("must fail").kind();
        assert_eq!(disk.open("a", Access::Read).unwrap_err().kind(), ErrorKind::NotFound);
        assert_eq!(disk.open("a", Access::Write).unwrap_err().kind(), ErrorKind::NotFound);
        assert_eq!(disk.open("d/a", Access::Create).unwrap_err().kind(), ErrorKind::NotFound);
        disk.create_dir("d").unwrap();
        disk.create_dir("d").unwrap();
        let file = disk.open("d/a", Access::Create).unwrap();
        assert!(file.is_empty().unwrap());
        file.write_at(5000, b"end").unwrap();
        file.write_at(0, b"start").unwrap();
        assert_eq!(file.len().unwrap(), 5003);
        let mut bytes = [9; 8];
        file.read_at(4995, &mut bytes).unwrap();
        assert_eq!(bytes, *b"\0\0\0\0\0end");
        assert_eq!(kind(file.read_at(4996, &mut bytes)), ErrorKind::UnexpectedEof);
        file.set_len(2).unwrap();
        file.set_len(6).unwrap();
        assert_eq!(read(&*disk, "d/a", 6).unwrap(), b"st\0\0\0\0");
        assert_eq!(read(&*disk, "d/a", 5).unwrap_err().kind(), ErrorKind::InvalidData);
        file.sync_data().unwrap();
        disk.sync_dir("d").unwrap();
        disk.rename("d/a", "d/b").unwrap();
        assert_eq!(kind(disk.rename("d/a", "d/c")), ErrorKind::NotFound);
        let names: Vec<_> = disk.list("").unwrap().into_iter().map(|name| (name.name, name.kind)).collect();
        assert_eq!(names, [("d".to_owned(), Kind::Directory)]);
        let names: Vec<_> = disk.list("d").unwrap().into_iter().map(|name| (name.name, name.kind)).collect();
        assert_eq!(names, [("b".to_owned(), Kind::File)]);
        assert_eq!(kind(disk.remove_dir("d")), ErrorKind::DirectoryNotEmpty);
        let second = disk.open("d/b", Access::Write).unwrap();
        assert!(file.try_lock().unwrap());
        assert!(!second.try_lock().unwrap());
        drop(file);
        assert!(second.try_lock().unwrap());
        second.unlock().unwrap();
        disk.remove("d/b").unwrap();
        assert_eq!(kind(disk.remove("d/b")), ErrorKind::NotFound);
        // An open file outlives its name.
        second.write_at(0, b"S").unwrap();
        disk.remove_dir("d").unwrap();
        assert_eq!(kind(disk.remove_dir("d")), ErrorKind::NotFound);
    }
}

#[test]
fn a_crash_keeps_what_was_synced_and_chooses_of_the_rest() {
    let disk = MemoryDisk::new();
    let file = disk.open("a", Access::Create).unwrap();
    file.write_at(0, &[1; 2048]).unwrap();
    file.sync_data().unwrap();
    assert_eq!(content(&disk.crashed(Crash::LoseAll), "a"), None, "the name was not synced");
    disk.sync_dir("").unwrap();
    file.write_at(0, &[2; 2048]).unwrap();
    assert_eq!(content(&disk, "a"), Some(vec![2; 2048]));
    assert_eq!(content(&disk.crashed(Crash::LoseAll), "a"), Some(vec![1; 2048]));
    assert_eq!(content(&disk.crashed(Crash::KeepAll), "a"), Some(vec![2; 2048]));
    let (mut lost, mut kept, mut torn) = (0, 0, 0);
    for seed in 0..64 {
        let bytes = content(&disk.crashed(Crash::Seeded(seed)), "a").expect("the name is durable");
        let sectors: Vec<u8> = bytes
            .chunks(512)
            .map(|sector| {
                assert!(sector.iter().all(|byte| *byte == sector[0]), "a sector is never torn");
                sector[0]
            })
            .collect();
        match &sectors[..] {
            [1, 1, 1, 1] => lost += 1,
            [2, 2, 2, 2] => kept += 1,
            _ => torn += 1,
        }
    }
    assert!(lost > 5 && kept > 5 && torn > 5, "{lost} {kept} {torn}");
}

#[test]
fn names_go_in_order_and_with_their_directory() {
    let disk = MemoryDisk::new();
    disk.create_dir("d").unwrap();
    for name in ["d/a", "d/b"] {
        disk.open(name, Access::Create).unwrap();
    }
    disk.sync_dir("d").unwrap();
    assert!(disk.crashed(Crash::LoseAll).list("").unwrap().is_empty(), "d itself was not synced");
    disk.sync_dir("").unwrap();
    disk.rename("d/a", "d/c").unwrap();
    disk.remove("d/b").unwrap();
    let mut found = std::collections::BTreeSet::new();
    for seed in 0..64 {
        let names = disk.crashed(Crash::Seeded(seed)).list("d").unwrap();
        found.insert(names.into_iter().map(|name| name.name).collect::<String>());
    }
    assert_eq!(found.into_iter().collect::<Vec<_>>(), ["ab", "bc", "c"]);
}

#[test]
fn injected_failures_do_or_do_not() {
    let disk = MemoryDisk::new();
    let file = disk.open("a", Access::Create).unwrap();
    disk.sync_dir("").unwrap();
    let next = |failure| disk.fail(disk.effects(), failure);
    next(Failure::NotDone);
    file.write_at(0, b"aaaa").unwrap_err();
    assert_eq!(content(&disk, "a").unwrap(), b"");
    next(Failure::Done);
    file.write_at(0, b"aaaa").unwrap_err();
    next(Failure::NoSpace);
    assert_eq!(file.write_at(0, b"bbbb").unwrap_err().kind(), ErrorKind::StorageFull);
    assert_eq!(content(&disk, "a").unwrap(), b"bbaa");
    // What a failed sync did not write is seen, but a later sync does not write it either.
    next(Failure::NotDone);
    file.sync_data().unwrap_err();
    file.write_at(4, b"c").unwrap();
    file.sync_data().unwrap();
    assert_eq!(content(&disk, "a").unwrap(), b"bbaac");
    assert_eq!(content(&disk.crashed(Crash::KeepAll), "a").unwrap(), b"\0\0\0\0c");
    next(Failure::Done);
    file.write_at(0, b"dddd").unwrap_err();
    next(Failure::Done);
    file.sync_data().unwrap_err();
    assert_eq!(content(&disk.crashed(Crash::LoseAll), "a").unwrap(), b"ddddc");
    disk.fail_read(disk.reads());
    file.read_at(0, &mut [0]).unwrap_err();
    file.read_at(0, &mut [0]).unwrap();
    disk.set_capacity(Some(6));
    file.write_at(4, b"ee").unwrap();
    assert_eq!(file.write_at(6, b"ff").unwrap_err().kind(), ErrorKind::StorageFull);
    next(Failure::Crash);
    file.sync_data().unwrap_err();
    file.write_at(0, b"g").unwrap_err();
    disk.open("a", Access::Read).unwrap_err();
    let after = disk.crashed(Crash::LoseAll);
    assert_eq!(&content(&after, "a").unwrap()[..6], b"ddddee", "the effect before the stop was done");
    assert_eq!(content(&disk.snapshot(), "a").unwrap()[..4], *b"dddd");
}
