//! Opening a store: everything that has to fit together is looked at first, and what does not is refused.

use super::blob::SegmentId;
use super::disk::{Access, Disk, Kind};
use super::publish::{self, Publisher, resources};
use super::segment::Segments;
use super::sequencer::{Sequencer, Signer};
use super::shared::{Shared, Store, head_of, parse_note, remove_round_files};
use super::tables::{
    self, BLOBS, CHECKPOINTS, DELETED, FACTS, GONE, HEADS, LEAVES, LOCK, META, NODES, OWN_LOG, SCHEMA,
    SEGMENTS,
};
use super::tiles::{PublishedTiles, StoredTiles};
use super::{StartError, StoreError, meta};
use crate::chain::chain;
use redb::{Database, ReadableDatabase as _, ReadableTable as _, ReadableTableMetadata as _};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io;
use std::sync::{Arc, Mutex, OnceLock, RwLock};
use tlog::builder::Builder;
use tlog::checkpoint::{Log, Origin, TreeHead};
use tlog::key::NoteSigner;
use tlog::merkle;
use tlog::note::Note;
use tlog::prove::{self, ReadTiles as _};
use tlog::tile::{Resource, WIDTH};

/// Whether checkpoints carry a signature line that means nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Grease {
    /// They do: readers that cannot ignore a line are found out.
    #[default]
    Line,
    /// They do not.
    None,
}

/// How much of the log a start hashes again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StartCheck {
    /// All of it.
    Everything,
    /// What came after the tiles that are known to be on disk, and the tree's right edge.
    #[default]
    Unsynced,
}

/// What a store is opened with.
pub struct Options {
    /// Identity of the log.
    pub origin: Origin,
    /// The log's key.
    pub key: NoteSigner,
    /// See [`Grease`].
    pub grease: Grease,
    /// See [`StartCheck`].
    pub check: StartCheck,
    /// A segment takes no body once it has so many bytes.
    pub segment_bytes: u64,
    /// Checkpoints that are kept, and can be cosigned, though newer ones exist. Those that were cosigned are kept
    /// anyway.
    pub keep_checkpoints: usize,
    /// Seconds that the clock may be behind the last checkpoint.
    pub clock_bound: u64,
    /// Sizes that witnesses say they have cosigned, by name.
    pub witnessed: Vec<(String, u64)>,
}

impl Options {
    /// The defaults for a log: grease, segments of 1 GiB, 1,024 checkpoints, a minute.
    pub const fn new(origin: Origin, key: NoteSigner) -> Self {
        Self {
            origin,
            key,
            grease: Grease::Line,
            check: StartCheck::Unsynced,
            segment_bytes: 1 << 30,
            keep_checkpoints: 1024,
            clock_bound: 60,
            witnessed: Vec::new(),
        }
    }
}

/// What a start found and put right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Started {
    /// The log as it was found.
    pub head: TreeHead,
    /// Published files that were missing, or differed, and were made again.
    pub republished: u64,
    /// Bytes in segments that nobody was promised and that were cut off.
    pub truncated_bytes: u64,
}

fn disk_error(error: StoreError) -> StartError {
    StartError::Disk(error)
}

fn database_error(error: impl Into<redb::Error>) -> StartError {
    StartError::Disk(StoreError::meta(error))
}

impl Store {
    /// Opens the store on a disk, or makes one on an empty disk. `now`: seconds since the epoch.
    ///
    /// # Errors
    /// A [`StartError`] for everything that contradicts something else; nothing was signed and no answer given then.
    pub fn open(
        disk: Arc<dyn Disk>,
        options: Options,
        now: u64,
    ) -> Result<(Self, Sequencer, Started), StartError> {
        let lock =
            disk.open(LOCK, Access::Create).map_err(StoreError::disk("open", LOCK)).map_err(disk_error)?;
        if !lock.try_lock().map_err(StoreError::disk("lock", LOCK)).map_err(disk_error)? {
            return Err(StartError::Locked);
        }
        refuse_without_database(&*disk)?;
        let database = Arc::new(meta::open(&*disk, META).map_err(StartError::Meta)?);
        let Options { origin, key, grease, check, segment_bytes, keep_checkpoints, clock_bound, witnessed } =
            options;
        let log =
            Log::new(origin.clone(), vec![key.verifier().clone()]).expect("a note signer's key signs notes");
        let signer = Signer { origin, key, grease };
        let facts = found(&database, &signer)?;
        let note = match facts {
            Some(ref facts) => {
                facts.refuse(&log, now, clock_bound)?;
                stored_checkpoint(&database, &log)?
            }
            None => create(&database, &signer, now)?,
        };
        let facts = facts.unwrap_or_default();
        let head = head_of(&note).map_err(disk_error)?;
        for (witness, size) in witnessed {
            if size > head.size {
                return Err(StartError::WitnessAhead { witness, size, stored: head.size });
            }
        }
        let from = if check == StartCheck::Everything { 0 } else { facts.tiles_synced.min(head.size) };
        let builder = check_leaves(&database, head, from)?;
        let mut publisher = Publisher::new(Arc::clone(&disk));
        refuse_published(&disk, &database, &log, head)?;
        let segments = Segments::new(Arc::clone(&disk), segment_bytes.max(1));
        let (live, truncated_bytes) = open_segments(&*disk, &database, &segments)?;
        let republished = republish(&database, &mut publisher, head, from, &note)?;
        let recent = recent_checkpoints(&database, keep_checkpoints)?;
        let shared = Arc::new(Shared {
            disk,
            database,
            segments: Arc::new(segments),
            live: RwLock::new(live),
            changing: Mutex::default(),
            failure: OnceLock::new(),
            _lock: lock,
        });
        let committed_at = facts.committed_at.max(if head.size == 0 { now } else { 0 });
        let sequencer = Sequencer {
            shared: Arc::clone(&shared),
            builder,
            publisher: Arc::new(Mutex::new(publisher)),
            signer,
            note,
            committed_at,
            keep: keep_checkpoints.max(1),
            recent,
        };
        Ok((Self(shared), sequencer, Started { head, republished, truncated_bytes }))
    }
}

/// A database that is new beside files that are not would take their bodies for leftovers.
fn refuse_without_database(disk: &dyn Disk) -> Result<(), StartError> {
    let names = disk.list("").map_err(StoreError::disk("list", "the directory")).map_err(disk_error)?;
    if names.iter().any(|name| name.name == META) {
        return Ok(());
    }
    match names.into_iter().find(|name| ["rounds", publish::DIRECTORY].contains(&name.name.as_str())) {
        None => Ok(()),
        Some(name) => Err(StartError::MetaMissing { expected: META, found: format!("{}/", name.name) }),
    }
}

#[derive(Default)]
struct Facts {
    origin: String,
    key: String,
    committed_at: u64,
    tiles_synced: u64,
}

impl Facts {
    fn refuse(&self, log: &Log, now: u64, bound: u64) -> Result<(), StartError> {
        let (expected, key) = (log.origin().to_string(), log.keys()[0].to_string());
        if self.origin != expected {
            return Err(StartError::OtherOrigin { expected, found: self.origin.clone() });
        }
        if self.key != key {
            return Err(StartError::OtherKey { expected: key, found: self.key.clone() });
        }
        if now.saturating_add(bound) < self.committed_at {
            return Err(StartError::ClockBehind { now, last: self.committed_at, bound });
        }
        Ok(())
    }
}

/// What the database says of itself. None: nothing yet, it is new.
fn found(database: &Database, _signer: &Signer) -> Result<Option<Facts>, StartError> {
    let transaction = database.begin_read().map_err(database_error)?;
    let table = match transaction.open_table(FACTS) {
        Err(redb::TableError::TableDoesNotExist(_)) => return Ok(None),
        table => table.map_err(database_error)?,
    };
    let fact = |name: &str| -> Result<String, StartError> {
        Ok(table.get(name).map_err(database_error)?.map(|value| value.value().to_owned()).unwrap_or_default())
    };
    let schema = fact("schema")?;
    if schema != SCHEMA.to_string() {
        return Err(StartError::Schema { expected: SCHEMA, found: schema });
    }
    let number = |name| -> Result<u64, StartError> { Ok(fact(name)?.parse().unwrap_or_default()) };
    Ok(Some(Facts {
        origin: fact("origin")?,
        key: fact("key")?,
        committed_at: number("committed_at")?,
        tiles_synced: number("tiles_synced")?,
    }))
}

/// Writes the first checkpoint, of the empty log, and every table.
fn create(database: &Database, signer: &Signer, now: u64) -> Result<Note, StartError> {
    let note = signer.sign(TreeHead { size: 0, root: merkle::empty_root() }).map_err(disk_error)?;
    let transaction = meta::begin(database).map_err(|error| database_error(*error))?;
    {
        let text = note.to_string();
        let (schema, now) = (SCHEMA.to_string(), now.to_string());
        let (origin, key) = (signer.origin.to_string(), signer.key.verifier().to_string());
        let mut facts = transaction.open_table(FACTS).map_err(database_error)?;
        let rows = [("schema", &schema), ("origin", &origin), ("key", &key), ("committed_at", &now)];
        for (name, value) in rows {
            facts.insert(name, value.as_str()).map_err(database_error)?;
        }
        transaction
            .open_table(HEADS)
            .map_err(database_error)?
            .insert(OWN_LOG, text.as_str())
            .map_err(database_error)?;
        let mut checkpoints = transaction.open_table(CHECKPOINTS).map_err(database_error)?;
        checkpoints.insert(0, text.as_str()).map_err(database_error)?;
        transaction.open_table(LEAVES).map_err(database_error)?;
        transaction.open_table(NODES).map_err(database_error)?;
        transaction.open_table(BLOBS).map_err(database_error)?;
        transaction.open_table(SEGMENTS).map_err(database_error)?;
        transaction.open_table(GONE).map_err(database_error)?;
        transaction.open_table(DELETED).map_err(database_error)?;
    }
    transaction.commit().map_err(database_error)?;
    Ok(note)
}

fn stored_checkpoint(database: &Database, log: &Log) -> Result<Note, StartError> {
    let transaction = database.begin_read().map_err(database_error)?;
    let heads = transaction.open_table(HEADS).map_err(database_error)?;
    let text = heads.get(OWN_LOG).map_err(database_error)?.map(|text| text.value().to_owned());
    let refused = |what: String| StartError::Leaves { size: 0, what };
    let note = parse_note(&text.ok_or_else(|| refused("there is no checkpoint".to_owned()))?);
    let note = note.map_err(|error| refused(chain(&error)))?;
    log.open(&note).map_err(|error| refused(chain(&error)))?;
    Ok(note)
}

/// Hashes the leaves from `from` on and the right edge, and continues the tree.
fn check_leaves(database: &Database, head: TreeHead, from: u64) -> Result<Builder, StartError> {
    let refused = |what: String| StartError::Leaves { size: head.size, what };
    let transaction = database.begin_read().map_err(database_error)?;
    let leaves = transaction.open_table(LEAVES).map_err(database_error)?;
    let stored = leaves.len().map_err(database_error)?;
    if stored != head.size {
        return Err(refused(format!("{stored} leaves are stored")));
    }
    let tiles = StoredTiles::new(&transaction).map_err(|error| refused(chain(&error)))?;
    let builder = Builder::resume(head.size, &head.root, &tiles).map_err(|error| refused(chain(&error)))?;
    // Full tiles are compared with the hash that the level above has of them.
    for resource in resources(from, head.size) {
        let Resource::Tile(tile) = resource else { continue };
        if tile.width() < WIDTH {
            continue;
        }
        let bytes = tiles.tile(tile).map_err(|error| refused(chain(&error)))?;
        let parent = tlog::tile::Tile::new(
            tile.level() + 1,
            tile.index() / 256,
            u16::try_from(tile.index() % 256).expect("below 256") + 1,
        )
        .map_err(|error| refused(chain(&error)))?;
        let above = tiles.tile(parent).map_err(|error| refused(chain(&error)))?;
        if above.last_chunk::<32>() != Some(&merkle::root(bytes.as_chunks::<32>().0)) {
            return Err(refused(format!("{tile} has another root than the level above says")));
        }
    }
    Ok(builder)
}

/// Compares what was published with what is stored. What is no checkpoint of this log is what a crash left.
fn refuse_published(
    disk: &Arc<dyn Disk>,
    database: &Database,
    log: &Log,
    head: TreeHead,
) -> Result<(), StartError> {
    let bytes = match PublishedTiles::new(Arc::clone(disk), publish::DIRECTORY).checkpoint() {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::InvalidData) => {
            return Ok(());
        }
        bytes => bytes.map_err(StoreError::disk("read", publish::CHECKPOINT)).map_err(disk_error)?,
    };
    let Some(published) = Note::parse(&bytes).ok().and_then(|note| log.open(&note).ok()) else {
        return Ok(());
    };
    let TreeHead { size, root } = published.head();
    if size > head.size {
        return Err(StartError::PublishedAhead { published: size, stored: head.size });
    }
    let transaction = database.begin_read().map_err(database_error)?;
    let tiles = StoredTiles::new(&transaction).map_err(|_| StartError::PublishedDiffers { size })?;
    match prove::consistency(size, &root, head.size, &head.root, &tiles) {
        Ok(_) => Ok(()),
        Err(_) => Err(StartError::PublishedDiffers { size }),
    }
}

type Live = HashMap<[u8; 32], Vec<super::blob::Location>>;

/// Opens the segments that are indexed, cuts what is past the index, removes what is not in it.
fn open_segments(
    disk: &dyn Disk,
    database: &Database,
    segments: &Segments,
) -> Result<(Live, u64), StartError> {
    let transaction = database.begin_read().map_err(database_error)?;
    let mut truncated = 0;
    for row in transaction.open_table(DELETED).map_err(database_error)?.iter().map_err(database_error)? {
        let round = row.map_err(database_error)?.0.value();
        segments.close(round);
    }
    let mut indexed = BTreeMap::new();
    for row in transaction.open_table(SEGMENTS).map_err(database_error)?.iter().map_err(database_error)? {
        let (key, end) = row.map_err(database_error)?;
        let id = tables::read_segment_key(key.value()).ok_or_else(|| StartError::Schema {
            expected: SCHEMA,
            found: "an unknown class of bodies".to_owned(),
        })?;
        indexed.insert(id, end.value());
    }
    for round in round_directories(disk)? {
        if segments.is_closed(round) {
            remove_round_files(disk, round).map_err(disk_error)?;
            continue;
        }
        let directory = SegmentId::directory(round);
        let names =
            disk.list(&directory).map_err(StoreError::disk("list", &directory)).map_err(disk_error)?;
        for id in names.iter().filter_map(|name| SegmentId::parse(round, &name.name)) {
            if !indexed.contains_key(&id) {
                let path = id.path();
                disk.remove(&path).map_err(StoreError::disk("remove", &path)).map_err(disk_error)?;
            }
        }
    }
    for (id, end) in indexed {
        let path = id.path();
        let file = match disk.open(&path, Access::Write) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(StartError::SegmentShort { path, expected: end, found: 0 });
            }
            file => file.map_err(StoreError::disk("open", &path)).map_err(disk_error)?,
        };
        let found = file.len().map_err(StoreError::disk("read", &path)).map_err(disk_error)?;
        if found < end {
            return Err(StartError::SegmentShort { path, expected: end, found });
        }
        if found > end {
            file.set_len(end).map_err(StoreError::disk("cut", &path)).map_err(disk_error)?;
            truncated += found - end;
        }
        segments.add(id, file, end);
    }
    let mut live: Live = HashMap::new();
    for row in transaction.open_table(BLOBS).map_err(database_error)?.iter().map_err(database_error)? {
        let (key, value) = row.map_err(database_error)?;
        let (round, digest) = tables::read_blob_key(key.value());
        let location = tables::read_blob_row(round, value.value()).ok_or_else(|| StartError::Schema {
            expected: SCHEMA,
            found: "an unknown class of bodies".to_owned(),
        })?;
        live.entry(digest).or_default().push(location);
    }
    Ok((live, truncated))
}

fn round_directories(disk: &dyn Disk) -> Result<Vec<u64>, StartError> {
    let names = match disk.list("rounds") {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        names => names.map_err(StoreError::disk("list", "rounds")).map_err(disk_error)?,
    };
    let rounds = names.into_iter().filter(|name| name.kind == Kind::Directory);
    // Only names as this program writes them; anything else is not ours to touch.
    Ok(rounds
        .filter_map(|name| name.name.parse().ok().filter(|round: &u64| round.to_string() == name.name))
        .collect())
}

/// Writes what is missing among the published files, the checkpoint last.
fn republish(
    database: &Database,
    publisher: &mut Publisher,
    head: TreeHead,
    from: u64,
    note: &Note,
) -> Result<u64, StartError> {
    let transaction = database.begin_read().map_err(database_error)?;
    let unusable =
        |error: super::tiles::TilesError| StartError::Leaves { size: head.size, what: chain(&error) };
    let tiles = StoredTiles::new(&transaction).map_err(unusable)?;
    let mut republished = 0;
    for resource in resources(from, head.size) {
        let bytes = tiles.resource(resource).map_err(unusable)?;
        republished += u64::from(publisher.ensure(resource, &bytes).map_err(disk_error)?);
    }
    publisher.checkpoint(&note.to_string()).map_err(disk_error)?;
    publisher.remove_replaced().map_err(disk_error)?;
    Ok(republished)
}

fn recent_checkpoints(database: &Database, keep: usize) -> Result<VecDeque<u64>, StartError> {
    let transaction = database.begin_read().map_err(database_error)?;
    let table = transaction.open_table(CHECKPOINTS).map_err(database_error)?;
    let mut recent = VecDeque::new();
    for row in table.iter().map_err(database_error)?.rev().take(keep) {
        recent.push_front(row.map_err(database_error)?.0.value());
    }
    Ok(recent)
}
