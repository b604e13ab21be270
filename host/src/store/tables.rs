//! Tables of the database and the spelling of their rows.

use super::StoreError;
use super::blob::{Class, Location, SegmentId};
use redb::TableDefinition;

/// Version of everything here and of the files beside it.
pub const SCHEMA: u32 = 1;

/// Path of the database.
pub const META: &str = "meta.redb";

/// Path of the file whose lock the store's process has.
pub const LOCK: &str = "LOCK";

/// What is there once: `schema`, `origin`, `key`, `committed_at`, `tiles_synced`.
pub const FACTS: TableDefinition<'_, &str, &str> = TableDefinition::new("facts");

/// The last signed checkpoint of each log, by name.
pub const HEADS: TableDefinition<'_, &str, &str> = TableDefinition::new("heads");

/// Name of the store's own log in [`HEADS`].
pub const OWN_LOG: &str = "log";

/// Signed checkpoints by size: the newest ones, and all that were cosigned.
pub const CHECKPOINTS: TableDefinition<'_, u64, &str> = TableDefinition::new("checkpoints");

/// Leaves by index.
pub const LEAVES: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("leaves");

/// Roots of full tiles: by level of the tile that they stand in, from 1, and place on that level.
pub const NODES: TableDefinition<'_, (u8, u64), [u8; 32]> = TableDefinition::new("nodes");

/// Bodies: round and digest, to class, segment, offset and length. A round's rows lie together, so that a tick touches
/// few pages.
pub const BLOBS: TableDefinition<'_, &[u8; 40], &[u8; 21]> = TableDefinition::new("blobs");

/// Bytes of each segment that are indexed.
pub const SEGMENTS: TableDefinition<'_, &[u8; 13], u64> = TableDefinition::new("segments");

/// Digests whose rounds were deleted, and the last such round.
pub const GONE: TableDefinition<'_, &[u8; 32], u64> = TableDefinition::new("gone");

/// Rounds that were deleted.
pub const DELETED: TableDefinition<'_, u64, ()> = TableDefinition::new("deleted");

/// Checks the name of a caller's namespace and returns the name of its table.
///
/// # Errors
/// `Namespace`.
pub fn namespace(name: &str) -> Result<String, StoreError> {
    let known = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    if name.is_empty() || name.len() > 32 || !name.bytes().all(known) {
        return Err(StoreError::Namespace { name: name.to_owned() });
    }
    Ok(format!("kv:{name}"))
}

/// The table of a namespace by the name that [`namespace`] gave.
pub const fn kv(table: &str) -> TableDefinition<'_, &'static [u8], &'static [u8]> {
    TableDefinition::new(table)
}

pub fn blob_key(round: u64, digest: &[u8; 32]) -> [u8; 40] {
    let mut key = [0; 40];
    key[..8].copy_from_slice(&round.to_be_bytes());
    key[8..].copy_from_slice(digest);
    key
}

pub fn read_blob_key(key: &[u8; 40]) -> (u64, [u8; 32]) {
    let (round, digest) = key.split_first_chunk::<8>().expect("40 bytes");
    (u64::from_be_bytes(*round), digest.try_into().expect("32 of 40 bytes"))
}

pub fn segment_key(id: SegmentId) -> [u8; 13] {
    let mut key = [0; 13];
    key[..8].copy_from_slice(&id.round.to_be_bytes());
    key[8] = id.class.byte();
    key[9..].copy_from_slice(&id.number.to_be_bytes());
    key
}

/// None for a class that this version does not know.
pub fn read_segment_key(key: &[u8; 13]) -> Option<SegmentId> {
    let (round, rest) = key.split_first_chunk::<8>().expect("13 bytes");
    let (class, number) = rest.split_first().expect("5 bytes");
    Some(SegmentId {
        round: u64::from_be_bytes(*round),
        class: Class::from_byte(*class)?,
        number: u32::from_be_bytes(number.try_into().expect("4 of 5 bytes")),
    })
}

pub fn blob_row(location: &Location) -> [u8; 21] {
    let mut row = [0; 21];
    row[0] = location.segment.class.byte();
    row[1..5].copy_from_slice(&location.segment.number.to_be_bytes());
    row[5..13].copy_from_slice(&location.offset.to_be_bytes());
    row[13..].copy_from_slice(&location.len.to_be_bytes());
    row
}

/// None for a class that this version does not know.
pub fn read_blob_row(round: u64, row: &[u8; 21]) -> Option<Location> {
    let (class, rest) = row.split_first().expect("21 bytes");
    let (number, rest) = rest.split_first_chunk::<4>().expect("20 bytes");
    let (offset, len) = rest.split_first_chunk::<8>().expect("16 bytes");
    let number = u32::from_be_bytes(*number);
    Some(Location {
        segment: SegmentId { round, class: Class::from_byte(*class)?, number },
        offset: u64::from_be_bytes(*offset),
        len: u64::from_be_bytes(len.try_into().expect("8 of 16 bytes")),
    })
}
