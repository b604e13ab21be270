//! The database on a disk that fails: a transaction is there whole or not at all, and there if its commit returned.

use super::super::disk::LocalDisk;
use super::super::disk::memory::{Crash, Failure, MemoryDisk};
use super::{begin, open, open_existing};
use redb::{ReadableDatabase as _, ReadableTable as _, TableDefinition};

const TABLE: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("numbers");

/// Commits batches 0, 1, … of three rows each until something fails, and says how many did.
fn write(disk: &MemoryDisk, batches: u64) -> u64 {
    let Ok(database) = open(disk, "meta.redb") else { return 0 };
    for batch in 0..batches {
        let commit = || -> Result<(), Box<dyn std::error::Error>> {
            let transaction = begin(&database)?;
            {
                let mut table = transaction.open_table(TABLE)?;
                for row in 0..3 {
                    table.insert(batch * 3 + row, &[7; 3000][..])?;
                }
            }
            Ok(transaction.commit()?)
        };
        if commit().is_err() {
            return batch;
        }
    }
    batches
}

fn rows(disk: &MemoryDisk) -> u64 {
    let database = open(disk, "meta.redb").expect("opens after any crash");
    let transaction = database.begin_read().unwrap();
    let Ok(table) = transaction.open_table(TABLE) else { return 0 };
    let rows: Vec<u64> = table.iter().unwrap().map(|row| row.unwrap().0.value()).collect();
    assert!(rows.iter().copied().eq(0..rows.len() as u64), "{rows:?}");
    rows.len() as u64
}

#[test]
fn every_failing_effect_leaves_whole_transactions() {
    let clean = MemoryDisk::new();
    assert_eq!(write(&clean, 3), 3);
    let effects = clean.effects();
    assert!(effects > 20, "{effects}");
    for effect in 0..effects {
        for failure in [Failure::NotDone, Failure::Done, Failure::NoSpace, Failure::Crash] {
            let disk = MemoryDisk::new();
            disk.fail(effect, failure);
            let committed = write(&disk, 3);
            for crash in [Crash::LoseAll, Crash::KeepAll, Crash::Seeded(effect)] {
                let found = rows(&disk.crashed(crash));
                assert!(found.is_multiple_of(3), "{effect} {failure:?} {crash:?}: {found} rows");
                let range = committed..=(committed + 1).min(3);
                assert!(
                    range.contains(&(found / 3)),
                    "{effect} {failure:?} {crash:?}: {found} of {committed}"
                );
            }
        }
    }
}

#[test]
fn one_process_has_it() {
    let directory = tempfile::tempdir().unwrap();
    let disks: [Box<dyn super::Disk>; 2] =
        [Box::new(LocalDisk::new(directory.path())), Box::new(MemoryDisk::new())];
    for disk in disks {
        assert!(open_existing(&*disk, "meta.redb").is_err(), "there is none");
        assert!(disk.list("").unwrap().is_empty());
        let first = open(&*disk, "meta.redb").unwrap();
        let error = open(&*disk, "meta.redb").unwrap_err();
        assert_eq!(error.code(), "meta_database", "{error:?}");
        drop(first);
        open_existing(&*disk, "meta.redb").unwrap();
    }
}
