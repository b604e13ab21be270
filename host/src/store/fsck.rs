//! Hashing all of it again: published files, stored leaves, every body.
//!
//! Nothing is changed: the database is read through a layer that keeps its own repairs in memory.

use super::disk::{Access, Disk, Kind};
use super::publish::{self, resources};
use super::tables::{
    self, BLOBS, CHECKPOINTS, DELETED, FACTS, HEADS, LEAVES, META, NODES, OWN_LOG, SCHEMA, SEGMENTS,
};
use super::tiles::PublishedTiles;
use super::{StoreError, meta};
use crate::chain::chain;
use redb::{Database, ReadTransaction, ReadableDatabase as _, ReadableTable as _};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use tlog::checkpoint::{Checkpoint, Log, TreeHead};
use tlog::key::VerifierKey;
use tlog::merkle::{self, Edge, leaf_hash};
use tlog::note::Note;
use tlog::tile::{Bundle, Resource, Tile, WIDTH};

/// Something that is not as it must be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// A stable snake_case name of its kind.
    pub code: &'static str,
    /// Where: a path, or a row of the database.
    pub place: String,
    /// What is there, and what was expected.
    pub what: String,
}

/// What was looked at, and what was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Everything that is wrong, in the order of the search.
    pub findings: Vec<Finding>,
    /// Size of the published log.
    pub published: Option<u64>,
    /// Size of the stored log; none if there is no database or it was not looked at.
    pub stored: Option<u64>,
    /// Published files that were hashed.
    pub files: u64,
    /// Bodies that were hashed.
    pub blobs: u64,
    /// Their bytes.
    pub blob_bytes: u64,
    /// The key that signatures were checked with, in its text form.
    pub key: Option<String>,
}

impl Report {
    fn find(&mut self, code: &'static str, place: impl Into<String>, what: impl Into<String>) {
        self.findings.push(Finding { code, place: place.into(), what: what.into() });
    }
}

/// Looks at published files alone, below `directory` of the disk. Without a key signatures are not checked.
pub fn published(disk: &Arc<dyn Disk>, directory: &str, key: Option<&VerifierKey>) -> Report {
    let mut report = Report { key: key.map(ToString::to_string), ..Report::default() };
    check_published(disk, directory, key, &mut report);
    report
}

/// Looks at a whole store that nobody has open.
///
/// # Errors
/// `Meta` or `Disk` if the database cannot be read at all.
pub fn store(disk: &Arc<dyn Disk>) -> Result<Report, StoreError> {
    let mut report = Report::default();
    let database =
        meta::open_unchanged(&**disk, META).map_err(|error| StoreError::Log { what: chain(&error) })?;
    let transaction = database.begin_read().map_err(StoreError::meta)?;
    let key = check_facts(&transaction, &mut report)?;
    report.key = key.as_ref().map(ToString::to_string);
    let roots = check_leaves(&transaction, key.as_ref(), published_size(disk), &mut report)?;
    if let Some(TreeHead { size, root }) =
        check_published(disk, publish::DIRECTORY, key.as_ref(), &mut report)
    {
        match roots.get(&size) {
            Some(stored) if *stored == root => {}
            Some(_) => report.find(
                "published_differs",
                publish::CHECKPOINT,
                "is of another tree than the stored leaves: a fork",
            ),
            None => {
                let stored = report.stored.unwrap_or_default();
                report.find(
                    "published_ahead",
                    publish::CHECKPOINT,
                    format!("has size {size}, {stored} leaves are stored"),
                );
            }
        }
    }
    check_blobs(&**disk, &database, &mut report)?;
    Ok(report)
}

fn check_facts(
    transaction: &ReadTransaction,
    report: &mut Report,
) -> Result<Option<VerifierKey>, StoreError> {
    let facts = transaction.open_table(FACTS).map_err(StoreError::meta)?;
    let fact = |name: &str| -> Result<String, StoreError> {
        Ok(facts
            .get(name)
            .map_err(StoreError::meta)?
            .map(|value| value.value().to_owned())
            .unwrap_or_default())
    };
    let schema = fact("schema")?;
    if schema != SCHEMA.to_string() {
        report.find(
            "schema",
            "meta.redb facts schema",
            format!("is {schema:?}, this program reads {SCHEMA}"),
        );
    }
    let key = fact("key")?;
    match key.parse() {
        Ok(key) => Ok(Some(key)),
        Err(error) => {
            report.find("key", "meta.redb facts key", format!("{key:?} is no key: {}", chain(&error)));
            Ok(None)
        }
    }
}

/// The head in a note, if a key of the log signed it; without a key, if it has one.
fn head_of(note: &Note, key: Option<&VerifierKey>) -> Result<TreeHead, String> {
    let checkpoint: Checkpoint = note.text().parse().map_err(|error| chain(&error))?;
    if let Some(key) = key {
        let log = Log::new(checkpoint.origin().clone(), vec![key.clone()]).map_err(|error| chain(&error))?;
        log.open(note).map_err(|error| chain(&error))?;
    }
    Ok(checkpoint.head())
}

/// The size that the published checkpoint speaks of, whoever signed it.
fn published_size(disk: &Arc<dyn Disk>) -> Option<u64> {
    let bytes = PublishedTiles::new(Arc::clone(disk), publish::DIRECTORY).checkpoint().ok()?;
    head_of(&Note::parse(&bytes).ok()?, None).ok().map(|head| head.size)
}

/// Hashes the leaves and compares every stored checkpoint. Returns the root at each size of a checkpoint, and at the
/// one `wanted`.
fn check_leaves(
    transaction: &ReadTransaction,
    key: Option<&VerifierKey>,
    wanted: Option<u64>,
    report: &mut Report,
) -> Result<HashMap<u64, [u8; 32]>, StoreError> {
    let mut heads = BTreeMap::new();
    let checkpoints = transaction.open_table(CHECKPOINTS).map_err(StoreError::meta)?;
    let last = transaction.open_table(HEADS).map_err(StoreError::meta)?;
    let last = last.get(OWN_LOG).map_err(StoreError::meta)?.map(|text| text.value().to_owned());
    let mut notes = vec![("meta.redb heads log".to_owned(), last.clone().unwrap_or_default())];
    for row in checkpoints.iter().map_err(StoreError::meta)? {
        let (size, text) = row.map_err(StoreError::meta)?;
        notes.push((format!("meta.redb checkpoints {}", size.value()), text.value().to_owned()));
    }
    for (place, text) in notes {
        let head =
            Note::parse(text.as_bytes()).map_err(|error| chain(&error)).and_then(|note| head_of(&note, key));
        match head {
            Ok(head) => heads.entry(head.size).or_insert_with(Vec::new).push((place, head.root)),
            Err(what) => report.find("checkpoint", place, what),
        }
    }
    let (mut edge, mut roots) = (Edge::new(), HashMap::from([(0, merkle::empty_root())]));
    let mut tile = Vec::new();
    let nodes = transaction.open_table(NODES).map_err(StoreError::meta)?;
    for row in transaction.open_table(LEAVES).map_err(StoreError::meta)?.iter().map_err(StoreError::meta)? {
        let (index, leaf) = row.map_err(StoreError::meta)?;
        if index.value() != edge.size() {
            report.find("leaf_missing", format!("meta.redb leaves {}", edge.size()), "is not there");
            break;
        }
        let hash = leaf_hash(leaf.value());
        tile.push(hash);
        edge.append(hash).map_err(super::shared::log_error)?;
        if heads.contains_key(&edge.size()) || wanted == Some(edge.size()) {
            roots.insert(edge.size(), edge.root());
        }
        if tile.len() == usize::from(WIDTH) {
            let index = edge.size() / 256 - 1;
            let stored = nodes.get((1, index)).map_err(StoreError::meta)?.map(|hash| hash.value());
            if stored != Some(merkle::root(&tile)) {
                report.find(
                    "node",
                    format!("meta.redb nodes 1/{index}"),
                    "is not the root of its 256 leaves",
                );
            }
            tile.clear();
        }
    }
    report.stored = Some(edge.size());
    for (size, found) in heads {
        for (place, root) in found {
            match roots.get(&size) {
                None => report.find(
                    "checkpoint_ahead",
                    place,
                    format!("has size {size}, {} leaves are stored", edge.size()),
                ),
                Some(expected) if *expected != root => {
                    report.find("root", place, format!("the first {size} leaves have another root"));
                }
                Some(_) => {}
            }
        }
    }
    Ok(roots)
}

fn check_published(
    disk: &Arc<dyn Disk>,
    directory: &str,
    key: Option<&VerifierKey>,
    report: &mut Report,
) -> Option<TreeHead> {
    let files = PublishedTiles::new(Arc::clone(disk), directory);
    let place =
        |name: &str| if directory.is_empty() { name.to_owned() } else { format!("{directory}/{name}") };
    let note = files.checkpoint().map_err(|error| error.to_string());
    let head = note
        .and_then(|bytes| Note::parse(&bytes).map_err(|error| chain(&error)))
        .and_then(|note| head_of(&note, key));
    let head = match head {
        Ok(head) => head,
        Err(what) => {
            report.find("published_checkpoint", place("checkpoint"), what);
            return None;
        }
    };
    report.published = Some(head.size);
    // Hashes of each level as the level below has them, as far as it could be read.
    let mut below: BTreeMap<(u8, u64), [u8; 32]> = BTreeMap::new();
    let mut peaks: BTreeMap<Tile, Vec<[u8; 32]>> = BTreeMap::new();
    let mut whole = true;
    for resource in resources(0, head.size) {
        let bytes = match files.resource(resource) {
            Ok(bytes) => bytes,
            Err(error) => {
                whole = false;
                report.find("published_missing", place(&resource.to_string()), error.to_string());
                continue;
            }
        };
        report.files += 1;
        let path = place(&resource.to_string());
        match resource {
            Resource::Bundle(bundle) => match bundle.parse(&bytes) {
                Ok(entries) => {
                    let first = bundle.index() * u64::from(WIDTH);
                    below.extend((first..).zip(entries).map(|(index, entry)| ((0, index), leaf_hash(entry))));
                }
                Err(error) => {
                    whole = false;
                    report.find("published_bundle", path, chain(&error));
                }
            },
            Resource::Tile(tile) => {
                let hashes = match tile.parse(&bytes) {
                    Ok(hashes) => hashes,
                    Err(error) => {
                        whole = false;
                        report.find("published_tile", path, chain(&error));
                        continue;
                    }
                };
                let first = tile.index() * u64::from(WIDTH);
                let same = (first..).zip(&hashes).all(|(index, hash)| {
                    below.remove(&(tile.level(), index)).is_none_or(|expected| expected == *hash)
                });
                if !same {
                    whole = false;
                    let source = match tile.level() {
                        0 => place(&Bundle::new(tile.index(), tile.width()).expect("beside it").to_string()),
                        level => format!("the tiles of level {}", level - 1),
                    };
                    report.find("published_tile", path, format!("has other hashes than {source}"));
                }
                if tile.width() == WIDTH {
                    below.insert((tile.level() + 1, tile.index()), merkle::root(&hashes));
                } else {
                    peaks.insert(tile, hashes);
                }
            }
        }
    }
    // With every file in place the right edge leads to the root, or the checkpoint is of another tree.
    if whole && head.size > 0 {
        let edge = tlog::prove::edge(head.size, &head.root, &files);
        if let Err(error) = edge {
            report.find("published_root", place("checkpoint"), chain(&error));
        }
    }
    Some(head)
}

fn check_blobs(disk: &dyn Disk, database: &Database, report: &mut Report) -> Result<(), StoreError> {
    let transaction = database.begin_read().map_err(StoreError::meta)?;
    let mut files = BTreeMap::new();
    for row in transaction.open_table(SEGMENTS).map_err(StoreError::meta)?.iter().map_err(StoreError::meta)? {
        let (key, end) = row.map_err(StoreError::meta)?;
        let Some(id) = tables::read_segment_key(key.value()) else {
            report.find(
                "segment",
                "meta.redb segments",
                "has a class of bodies that this program does not know",
            );
            continue;
        };
        let path = id.path();
        match disk.open(&path, Access::Read).and_then(|file| Ok((file.len()?, file))) {
            Ok((len, _)) if len < end.value() => {
                report.find("segment_short", path, format!("has {len} bytes, {} are indexed", end.value()));
            }
            Ok((_, file)) => drop(files.insert(id, file)),
            Err(error) => report.find("segment_missing", path, error.to_string()),
        }
    }
    let mut buffer = vec![0; 1 << 18];
    for row in transaction.open_table(BLOBS).map_err(StoreError::meta)?.iter().map_err(StoreError::meta)? {
        let (key, value) = row.map_err(StoreError::meta)?;
        let (round, digest) = tables::read_blob_key(key.value());
        let name = format!("round {round} blob {}", data_encoding::HEXLOWER.encode(&digest));
        let Some(location) = tables::read_blob_row(round, value.value()) else {
            report.find("blob", name, "is of a class that this program does not know");
            continue;
        };
        let Some(file) = files.get(&location.segment) else {
            report.find("blob", name, format!("lies in {}, which cannot be read", location.segment.path()));
            continue;
        };
        let (mut hasher, mut done) = (blake3::Hasher::new(), 0);
        let mut failure = None;
        while done < location.len {
            let most = u64::try_from(buffer.len()).expect("a small constant").min(location.len - done);
            let part = &mut buffer[..usize::try_from(most).expect("at most the buffer's length")];
            if let Err(error) = file.read_at(location.offset + done, part) {
                failure = Some(error.to_string());
                break;
            }
            hasher.update(part);
            done += most;
        }
        report.blobs += 1;
        report.blob_bytes += location.len;
        if failure.is_none() && *hasher.finalize().as_bytes() != digest {
            failure = Some("has other bytes than its name says".to_owned());
        }
        if let Some(failure) = failure {
            let place = format!("{} at {}, {} bytes", location.segment.path(), location.offset, location.len);
            report.find("blob", format!("{name} in {place}"), failure);
        }
    }
    let deleted = transaction.open_table(DELETED).map_err(StoreError::meta)?;
    for row in deleted.iter().map_err(StoreError::meta)? {
        let round = row.map_err(StoreError::meta)?.0.value();
        let directory = super::blob::SegmentId::directory(round);
        if disk.list(&directory).is_ok_and(|names| names.iter().any(|name| name.kind == Kind::File)) {
            report.find("deleted_round", directory, "was deleted and has files; a start removes them");
        }
    }
    Ok(())
}
