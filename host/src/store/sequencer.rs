//! The tick: many submissions, made durable together, in the one order that keeps every promise.
//!
//! 1. Bytes: each segment with a body of the batch is synced.
//! 2. Record: one transaction with the leaves, the tree's hashes, the bodies' places, the callers' metadata and the
//!    signed checkpoint over all of it. Before it is durable the signature has left nothing but this function.
//! 3. Files: tiles and bundles, then the checkpoint.
//! 4. Answers.
//!
//! What fails in 1 to 3 poisons the store. Its submissions may be stored or not; the next start finds either, whole.

use super::blob::{Location, SegmentId, StoredBlob};
use super::fail_point::fail_point;
use super::publish::Publisher;
use super::shared::{Shared, head_of, log_error, parse_note};
use super::tables::{self, BLOBS, CHECKPOINTS, FACTS, HEADS, LEAVES, NODES, OWN_LOG, SEGMENTS};
use super::{Grease, StoreError, checkpoint, grease, meta};
use redb::{ReadableTable as _, Table, WriteTransaction};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tlog::builder::{Builder, Written};
use tlog::checkpoint::{Checkpoint, Origin, TreeHead};
use tlog::entry::MAX_ENTRY_BYTES;
use tlog::key::NoteSigner;
use tlog::merkle::{self, Node, Span, leaf_hash, node_hash};
use tlog::note::{Note, Signature};
use tlog::proof::Proof;
use tlog::tile::{Resource, WIDTH};

/// What a caller keeps beside the log, in namespaces of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Which namespace: 1 to 32 of a-z, 0-9 and _.
    pub namespace: String,
    /// The key.
    pub key: Vec<u8>,
    /// What becomes of it.
    pub what: What,
}

/// What becomes of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// It has this value.
    Put(Vec<u8>),
    /// It has this value and had none: otherwise the submission is refused with `KeyExists`.
    PutNew(Vec<u8>),
    /// As `PutNew`, with the index of the submission's leaf, 8 bytes big-endian, in front. Without a leaf: 2^64 - 1.
    PutNewWithIndex(Vec<u8>),
    /// It has none.
    Remove,
}

/// What is to become durable together or not at all.
#[derive(Clone, Debug, Default)]
pub struct Submission {
    /// A leaf for the log, at most 65,535 bytes.
    pub leaf: Option<Vec<u8>>,
    /// Bodies that are written and that the leaf, or whoever is answered, relies on.
    pub blobs: Vec<StoredBlob>,
    /// Metadata.
    pub changes: Vec<Change>,
}

/// A leaf in the log.
#[derive(Clone, Debug)]
pub struct Committed {
    /// The receipt for the leaf. None: the submission had no leaf.
    pub leaf: Option<Receipt>,
    /// The log as it is now.
    pub head: TreeHead,
}

/// A promise for one leaf. The proof is made by whoever wants it, and not while all of a batch wait for their answers.
#[derive(Clone)]
pub struct Receipt {
    index: u64,
    head: TreeHead,
    paths: Arc<Paths>,
    note: Arc<Note>,
}

impl std::fmt::Debug for Receipt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Receipt(leaf {} of {})", self.index, self.head.size)
    }
}

impl Receipt {
    /// Index of the leaf.
    pub const fn index(&self) -> u64 {
        self.index
    }

    /// The receipt as a C2SP tlog-proof, under the checkpoint that the leaf came with.
    ///
    /// # Errors
    /// `Log` if there is no such proof.
    pub fn proof(&self) -> Result<Proof, StoreError> {
        let path = self.paths.path(self.index, self.head)?;
        Proof::new(self.index, path, Note::clone(&self.note)).map_err(log_error)
    }
}

/// What becomes of each submission of a batch, in their order.
pub type Outcomes = Vec<Result<Committed, StoreError>>;

/// A batch whose bodies are durable: [`Shared::sync`] makes it.
#[derive(Debug)]
pub(super) struct Synced<B>(pub(super) B);

/// A batch that is durable and not yet published.
pub(super) struct Recorded {
    files: Vec<Written>,
    /// The checkpoint over it. None: the log did not grow.
    note: Option<Arc<Note>>,
    places: Vec<Result<Option<u64>, StoreError>>,
    paths: Arc<Paths>,
    head: TreeHead,
}

/// Steps 3 and 4 of a tick.
pub(super) struct Publishing {
    shared: Arc<Shared>,
    publisher: Arc<Mutex<Publisher>>,
}

impl Publishing {
    pub(super) fn of(sequencer: &Sequencer) -> Self {
        Self { shared: Arc::clone(&sequencer.shared), publisher: Arc::clone(&sequencer.publisher) }
    }

    /// Publishes a batch and says what became of its submissions. In the order in which they were recorded.
    ///
    /// # Errors
    /// `Poisoned`: nothing of the batch may be acknowledged.
    pub(super) fn publish(&self, recorded: Recorded) -> Result<Outcomes, StoreError> {
        self.shared.check()?;
        let Recorded { files, note, places, paths, head } = recorded;
        if let Some(note) = &note {
            let mut publisher = publishing(&self.publisher);
            let mut published = || -> Result<(), StoreError> {
                publisher.write(&files)?;
                fail_point("after_tiles");
                publisher.checkpoint(&note.to_string())?;
                fail_point("after_publish");
                publisher.remove_replaced()
            };
            published().map_err(|error| self.shared.poison(error))?;
        }
        // Meanwhile syncing or recording the next one may have failed: nobody is answered any more then.
        self.shared.check()?;
        let receipt = |index| {
            let note = note.as_ref().expect("a leaf has grown the log");
            Receipt { index, head, paths: Arc::clone(&paths), note: Arc::clone(note) }
        };
        let answer = |place: Option<u64>| Committed { leaf: place.map(receipt), head };
        Ok(places.into_iter().map(|place| place.map(answer)).collect())
    }

    /// Publishes a checkpoint again, with the cosignatures that it has now.
    ///
    /// # Errors
    /// `Poisoned`.
    pub(super) fn publish_again(&self, note: &Note) -> Result<(), StoreError> {
        self.shared.check()?;
        let published = publishing(&self.publisher).checkpoint(&note.to_string());
        published.map_err(|error| self.shared.poison(error))
    }
}

fn publishing(publisher: &Mutex<Publisher>) -> MutexGuard<'_, Publisher> {
    // Whoever panicked in it has left a file unwritten; the next start writes it.
    publisher.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The one that appends. Not shared: whoever has it decides when a tick is.
#[derive(Debug)]
pub struct Sequencer {
    pub(super) shared: Arc<Shared>,
    pub(super) builder: Builder,
    pub(super) publisher: Arc<Mutex<Publisher>>,
    pub(super) signer: Signer,
    pub(super) note: Note,
    /// When the last checkpoint was made, in seconds since the epoch.
    pub(super) committed_at: u64,
    /// Checkpoints that are kept though nobody cosigned them.
    pub(super) keep: usize,
    /// Sizes of the newest checkpoints, at most as many.
    pub(super) recent: VecDeque<u64>,
}

/// Who signs checkpoints, and as which log.
pub struct Signer {
    pub(super) origin: Origin,
    pub(super) key: NoteSigner,
    pub(super) grease: Grease,
}

impl std::fmt::Debug for Signer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.origin.fmt(f)
    }
}

impl Signer {
    pub(super) fn sign(&self, head: TreeHead) -> Result<Note, StoreError> {
        let checkpoint = Checkpoint::new(self.origin.clone(), head).map_err(log_error)?;
        let mut note = checkpoint.sign(&self.key).map_err(log_error)?;
        if self.grease == Grease::Line {
            note.add(grease::signature(note.text())).map_err(log_error)?;
        }
        Ok(note)
    }
}

impl Sequencer {
    /// The log as it is: size and root.
    pub fn head(&self) -> TreeHead {
        TreeHead { size: self.builder.size(), root: self.builder.root() }
    }

    /// The last signed checkpoint.
    pub const fn checkpoint(&self) -> &Note {
        &self.note
    }

    /// Makes a batch durable and says what became of each of its submissions. `now`: seconds since the epoch.
    ///
    /// A submission is refused alone for `EntryTooLong`, `KeyExists`, `Namespace` or `Deleted`; nothing of it is stored.
    ///
    /// # Errors
    /// `Poisoned`: nothing of the batch may be acknowledged. Some or all of it may be found after the next start.
    pub fn tick(&mut self, now: u64, batch: &[Submission]) -> Result<Outcomes, StoreError> {
        let batch = self.shared.sync(batch)?;
        self.tick_synced(now, &batch)
    }

    /// [`Sequencer::tick`] for a batch whose bodies are durable already.
    ///
    /// # Errors
    /// As there.
    pub(super) fn tick_synced<B: AsRef<[Submission]>>(
        &mut self,
        now: u64,
        batch: &Synced<B>,
    ) -> Result<Outcomes, StoreError> {
        let recorded = self.record_batch(now, batch)?;
        Publishing::of(self).publish(recorded)
    }

    /// Steps 1 to 2 of [`Sequencer::tick`] for a batch whose bodies are durable already. Nobody is answered yet, and the
    /// next batch may be recorded before this one is published, as long as they are published in their order.
    ///
    /// # Errors
    /// As there.
    pub(super) fn record_batch<B: AsRef<[Submission]>>(
        &mut self,
        now: u64,
        batch: &Synced<B>,
    ) -> Result<Recorded, StoreError> {
        let shared = Arc::clone(&self.shared);
        let _changing = shared.changing();
        shared.check()?;
        self.commit(now, batch.0.as_ref()).map_err(|error| shared.poison(error))
    }

    fn commit(&mut self, now: u64, batch: &[Submission]) -> Result<Recorded, StoreError> {
        let transaction = meta::begin(&self.shared.database).map_err(|error| StoreError::meta(*error))?;
        let mut paths = Paths::new(&self.builder);
        let mut places = Vec::with_capacity(batch.len());
        let indexed = {
            let mut rows = Rows::open(&transaction)?;
            for submission in batch {
                let place = match self.refuse(&transaction, submission)? {
                    Some(refusal) => Err(refusal),
                    None => Ok(self.apply(&transaction, &mut rows, submission, &mut paths)?),
                };
                places.push(place);
            }
            rows.close()?
        };
        let grown = places.iter().any(|place| matches!(place, Ok(Some(_))));
        let files = if grown { self.builder.take_changes() } else { Vec::new() };
        let head = self.head();
        let mut note = None;
        if grown {
            let mut nodes = transaction.open_table(NODES).map_err(StoreError::meta)?;
            for file in &files {
                if let Resource::Tile(tile) = file.resource
                    && tile.width() == WIDTH
                {
                    let root = merkle::root(file.bytes.as_chunks::<32>().0);
                    nodes.insert((tile.level() + 1, tile.index()), root).map_err(StoreError::meta)?;
                }
            }
            drop(nodes);
            note = Some(self.record(&transaction, now, head)?);
        }
        fail_point("before_commit");
        transaction.commit().map_err(StoreError::meta)?;
        fail_point("after_commit");

        self.shared.add_live(indexed);
        if let Some(note) = &note {
            self.note = note.clone();
            self.committed_at = now.max(self.committed_at);
        }
        Ok(Recorded { files, note: note.map(Arc::new), places, paths: Arc::new(paths), head })
    }

    /// Why a submission alone is refused, before anything of it is applied.
    fn refuse(
        &self,
        transaction: &WriteTransaction,
        submission: &Submission,
    ) -> Result<Option<StoreError>, StoreError> {
        let found = submission.leaf.as_ref().map_or(0, Vec::len);
        if found > MAX_ENTRY_BYTES {
            return Ok(Some(StoreError::EntryTooLong { found }));
        }
        let rounds = submission.blobs.iter().map(|blob| blob.location.segment.round);
        if let Some(round) = rounds.into_iter().find(|round| self.shared.segments.is_closed(*round)) {
            return Ok(Some(StoreError::Deleted { round }));
        }
        for (place, change) in submission.changes.iter().enumerate() {
            let table = match tables::namespace(&change.namespace) {
                Ok(table) => table,
                Err(error) => return Ok(Some(error)),
            };
            if matches!(change.what, What::Put(_) | What::Remove) {
                continue;
            }
            let same = |other: &Change| other.namespace == change.namespace && other.key == change.key;
            let table = transaction.open_table(tables::kv(&table)).map_err(StoreError::meta)?;
            let stored = table.get(change.key.as_slice()).map_err(StoreError::meta)?.is_some();
            if stored || submission.changes[..place].iter().any(same) {
                let (namespace, key) =
                    (change.namespace.clone(), data_encoding::HEXLOWER.encode(&change.key));
                return Ok(Some(StoreError::KeyExists { namespace, key }));
            }
        }
        Ok(None)
    }

    fn apply(
        &mut self,
        transaction: &WriteTransaction,
        rows: &mut Rows<'_>,
        submission: &Submission,
        paths: &mut Paths,
    ) -> Result<Option<u64>, StoreError> {
        let index = match &submission.leaf {
            None => None,
            Some(leaf) => {
                let index = self.builder.append(leaf).map_err(log_error)?;
                paths.append(index, leaf_hash(leaf));
                rows.leaves.insert(index, leaf.as_slice()).map_err(StoreError::meta)?;
                Some(index)
            }
        };
        for blob in &submission.blobs {
            rows.index(blob)?;
        }
        for change in &submission.changes {
            let name = tables::namespace(&change.namespace).expect("checked before");
            let mut table = transaction.open_table(tables::kv(&name)).map_err(StoreError::meta)?;
            let key = change.key.as_slice();
            match &change.what {
                What::Put(value) | What::PutNew(value) => {
                    table.insert(key, value.as_slice()).map_err(StoreError::meta)?;
                }
                What::PutNewWithIndex(value) => {
                    let value = [&index.unwrap_or(u64::MAX).to_be_bytes(), value.as_slice()].concat();
                    table.insert(key, value.as_slice()).map_err(StoreError::meta)?;
                }
                What::Remove => drop(table.remove(key).map_err(StoreError::meta)?),
            }
        }
        Ok(index)
    }

    /// Signs the checkpoint and puts it into the transaction.
    fn record(
        &mut self,
        transaction: &WriteTransaction,
        now: u64,
        head: TreeHead,
    ) -> Result<Note, StoreError> {
        let note = self.signer.sign(head)?;
        checkpoint::swap(transaction, OWN_LOG, Some(&self.note), &note)?;
        let mut checkpoints = transaction.open_table(CHECKPOINTS).map_err(StoreError::meta)?;
        let lines = note.signatures().len();
        checkpoints.insert(head.size, note.to_string().as_str()).map_err(StoreError::meta)?;
        self.recent.push_back(head.size);
        while self.recent.len() > self.keep {
            let size = self.recent.pop_front().expect("more than none");
            let text = checkpoints.get(size).map_err(StoreError::meta)?.map(|text| text.value().to_owned());
            // One that was cosigned stays.
            if text
                .map(|text| parse_note(&text))
                .transpose()?
                .is_some_and(|old| old.signatures().len() <= lines)
            {
                checkpoints.remove(size).map_err(StoreError::meta)?;
            }
        }
        let mut facts = transaction.open_table(FACTS).map_err(StoreError::meta)?;
        let time = now.max(self.committed_at).to_string();
        facts.insert("committed_at", time.as_str()).map_err(StoreError::meta)?;
        Ok(note)
    }

    /// Adds cosignatures to the checkpoint of a size, durably, and publishes it again if it is the last. Nothing is
    /// verified here.
    ///
    /// # Errors
    /// `UnknownCheckpoint`; `Log` if the note has no room for them; `Poisoned`.
    pub fn add_cosignatures(&mut self, size: u64, lines: &[Signature]) -> Result<Note, StoreError> {
        let (note, last) = self.record_cosignatures(size, lines)?;
        if last {
            Publishing::of(self).publish_again(&note)?;
        }
        Ok(note)
    }

    /// [`Sequencer::add_cosignatures`] without publishing. Says whether the checkpoint is the last one: then it is to be
    /// published again, after every batch that was recorded before.
    ///
    /// # Errors
    /// As there.
    pub(super) fn record_cosignatures(
        &mut self,
        size: u64,
        lines: &[Signature],
    ) -> Result<(Note, bool), StoreError> {
        let shared = Arc::clone(&self.shared);
        let _changing = shared.changing();
        shared.check()?;
        let mut note = match self.stored_checkpoint(size).map_err(|error| shared.poison(error))? {
            None => return Err(StoreError::UnknownCheckpoint { size }),
            Some(note) => note,
        };
        for line in lines {
            note.add(line.clone()).map_err(log_error)?;
        }
        let last = self.store_cosigned(size, &note).map_err(|error| shared.poison(error))?;
        Ok((note, last))
    }

    fn stored_checkpoint(&self, size: u64) -> Result<Option<Note>, StoreError> {
        super::Store(Arc::clone(&self.shared)).checkpoint_of(size)
    }

    fn store_cosigned(&mut self, size: u64, note: &Note) -> Result<bool, StoreError> {
        let transaction = meta::begin(&self.shared.database).map_err(|error| StoreError::meta(*error))?;
        let last = head_of(&self.note)?.size == size;
        {
            let text = note.to_string();
            let mut table = transaction.open_table(CHECKPOINTS).map_err(StoreError::meta)?;
            table.insert(size, text.as_str()).map_err(StoreError::meta)?;
            if last {
                let mut heads = transaction.open_table(HEADS).map_err(StoreError::meta)?;
                heads.insert(OWN_LOG, text.as_str()).map_err(StoreError::meta)?;
            }
        }
        transaction.commit().map_err(StoreError::meta)?;
        if last {
            self.note = note.clone();
        }
        Ok(last)
    }

    /// Syncs up to `most` full tiles that were published, so that the next start has less to look at. To be called
    /// when there is nothing else to do. Says whether there is more.
    ///
    /// # Errors
    /// `Poisoned`.
    pub fn sync_tiles(&mut self, most: usize) -> Result<Waiting, StoreError> {
        let shared = Arc::clone(&self.shared);
        let _changing = shared.changing();
        shared.check()?;
        let mut publisher = publishing(&self.publisher);
        let mut sync = || {
            if let Some(size) = publisher.sync_some(most)? {
                let transaction = meta::begin(&shared.database).map_err(|error| StoreError::meta(*error))?;
                {
                    let mut facts = transaction.open_table(FACTS).map_err(StoreError::meta)?;
                    facts.insert("tiles_synced", size.to_string().as_str()).map_err(StoreError::meta)?;
                }
                transaction.commit().map_err(StoreError::meta)?;
            }
            Ok(if publisher.waiting() == 0 { Waiting::Nothing } else { Waiting::Tiles })
        };
        sync().map_err(|error| shared.poison(error))
    }
}

/// Whether published tiles wait to be synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// None do.
    Nothing,
    /// Some do.
    Tiles,
}

/// The tables of the log in one transaction, opened once for a batch.
struct Rows<'t> {
    leaves: Table<'t, u64, &'static [u8]>,
    blobs: Table<'t, &'static [u8; 40], &'static [u8; 21]>,
    segments: Table<'t, &'static [u8; 13], u64>,
    /// Where each segment of the batch ends.
    ends: BTreeMap<SegmentId, u64>,
    indexed: Vec<([u8; 32], Location)>,
}

impl<'t> Rows<'t> {
    fn open(transaction: &'t WriteTransaction) -> Result<Self, StoreError> {
        Ok(Self {
            leaves: transaction.open_table(LEAVES).map_err(StoreError::meta)?,
            blobs: transaction.open_table(BLOBS).map_err(StoreError::meta)?,
            segments: transaction.open_table(SEGMENTS).map_err(StoreError::meta)?,
            ends: BTreeMap::new(),
            indexed: Vec::new(),
        })
    }

    fn index(&mut self, StoredBlob { digest, location }: &StoredBlob) -> Result<(), StoreError> {
        let key = tables::blob_key(location.segment.round, digest);
        let row = tables::blob_row(location);
        let before = self.blobs.insert(&key, &row).map_err(StoreError::meta)?.map(|before| *before.value());
        if let Some(before) = before {
            // Written twice: the first stays, this one is a hole.
            self.blobs.insert(&key, &before).map_err(StoreError::meta)?;
            return Ok(());
        }
        self.indexed.push((*digest, *location));
        let end = self.ends.entry(location.segment).or_default();
        *end = location.offset.saturating_add(location.len).max(*end);
        Ok(())
    }

    /// Writes the ends and returns what was indexed.
    fn close(mut self) -> Result<Vec<([u8; 32], Location)>, StoreError> {
        for (segment, end) in self.ends {
            let key = tables::segment_key(segment);
            let stored = self.segments.get(&key).map_err(StoreError::meta)?.map_or(0, |end| end.value());
            self.segments.insert(&key, end.max(stored)).map_err(StoreError::meta)?;
        }
        Ok(self.indexed)
    }
}

/// Inclusion paths of the leaves of one batch.
///
/// Left of a new leaf a path has only peaks of the tree before the batch and nodes that the batch completed, right of
/// it only the latter: so nothing is read back.
struct Paths {
    /// By height. Of each, the last node before the batch, if it was a peak, and those after it.
    levels: Vec<Level>,
}

struct Level {
    /// Index of the first node.
    first: u64,
    nodes: Vec<[u8; 32]>,
}

impl Paths {
    fn new(builder: &Builder) -> Self {
        let size = builder.size();
        let mut peaks = builder.edge().peaks().iter().rev();
        let level = |height| {
            let end = size >> height;
            // A peak for every one-bit of the size, the smallest last.
            let nodes: Vec<_> =
                if end % 2 == 1 { peaks.next().copied().into_iter().collect() } else { Vec::new() };
            Level { first: end - end % 2, nodes }
        };
        Self { levels: (0..u64::BITS).map(level).collect() }
    }

    fn append(&mut self, index: u64, leaf: [u8; 32]) {
        let (mut node, mut hash) = (Node { height: 0, index }, leaf);
        self.push(node, hash);
        while node.index % 2 == 1 {
            let left = Node { height: node.height, index: node.index - 1 };
            hash = node_hash(&self.node(left), &hash);
            node = Node { height: node.height + 1, index: node.index / 2 };
            self.push(node, hash);
        }
    }

    fn push(&mut self, node: Node, hash: [u8; 32]) {
        let level = &mut self.levels[usize::try_from(node.height).expect("below 64")];
        debug_assert_eq!(usize::try_from(node.index - level.first), Ok(level.nodes.len()));
        level.nodes.push(hash);
    }

    fn node(&self, node: Node) -> [u8; 32] {
        let level = &self.levels[usize::try_from(node.height).expect("below 64")];
        level.nodes[usize::try_from(node.index - level.first).expect("at most a batch and one")]
    }

    fn path(&self, index: u64, head: TreeHead) -> Result<Vec<[u8; 32]>, StoreError> {
        let spans = merkle::inclusion_spans(index, head.size).map_err(log_error)?;
        let fold = |span: &Span| {
            let mut nodes = span.nodes().map(|node| self.node(node));
            match (nodes.next(), nodes.next()) {
                (Some(only), None) => only,
                _ => Span::fold(&span.nodes().map(|node| self.node(node)).collect::<Vec<_>>()),
            }
        };
        let path: Vec<_> = spans.iter().map(fold).collect();
        // One a batch: the rest are made of the same nodes.
        debug_assert!(
            index + 1 < head.size
                || merkle::root_of_path(&self.node(Node { height: 0, index }), index, head.size, &path)
                    .is_ok_and(|root| root == head.root)
        );
        Ok(path)
    }
}
