//! Reading a log: every leaf hashed, every checkpoint held against what was read before.
//!
//! A reader that hashes all leaves needs no consistency proofs: a checkpoint is taken only if the leaves read so far and
//! the new ones hash to its root. So a reader never leaves the history that it has once seen, and a log that shows it two
//! is left with a reader that stops.

use crate::round::{Blobs, Event, Record, Unavailable, Void};
use panetiere::fault::{Attribution, Fault, Retry};
use std::collections::{BTreeMap, BTreeSet};
use tlog::checkpoint::{Checkpoint, CheckpointError, TreeHead};
use tlog::merkle::{Edge, EdgeError, leaf_hash};
use tlog::note::Note;

/// Heads that are kept, to recognise a cosigned checkpoint that the reader is ahead of.
pub const RECENT_HEADS: usize = 4096;

/// A checkpoint was not taken. The reader stays where it was.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FollowError {
    /// The log's signature is missing or wrong.
    #[error("not a checkpoint of the log")]
    Checkpoint(#[source] CheckpointError),
    /// The log is full.
    #[error("the tree takes no more leaves")]
    Full(#[source] EdgeError),
    /// Another number of leaves than lie between what was read and the checkpoint.
    #[error("from size {from} to {to} lie {} leaves, {found} were given", .to - .from)]
    Leaves {
        /// Leaves read before.
        from: u64,
        /// Leaves of the checkpoint.
        to: u64,
        /// Leaves given.
        found: usize,
    },
    /// The log signed a smaller tree than was read. By itself that is an old checkpoint.
    #[error("the checkpoint has {found} leaves, {read} were read")]
    Older {
        /// Leaves read.
        read: u64,
        /// Leaves of the checkpoint.
        found: u64,
    },
    /// The leaves do not hash to the root that the log signed: the leaves are not the log's, or it forked.
    #[error("at size {size} the leaves hash to {}, the log signed {}", hex(computed), hex(signed))]
    Root {
        /// Leaves of the checkpoint.
        size: u64,
        /// What the leaves hash to.
        computed: [u8; 32],
        /// What the log signed.
        signed: [u8; 32],
    },
    /// The log signed another root for a size that was read: it forked. Two checkpoints that it signed prove it.
    #[error("at size {size} the log signed {} and {}", hex(read), hex(found))]
    SplitView {
        /// The size.
        size: u64,
        /// The root that was read.
        read: [u8; 32],
        /// The other.
        found: [u8; 32],
    },
    /// A blob that a leaf names cannot be had: stop here and try again.
    #[error("stopped at a leaf that cannot be judged yet")]
    Unavailable(#[source] Unavailable),
}

fn hex(hash: &[u8; 32]) -> String {
    data_encoding::HEXLOWER.encode(hash)
}

impl Fault for FollowError {
    fn code(&self) -> &'static str {
        match self {
            Self::Checkpoint(error) => error.code(),
            Self::Full(error) => error.code(),
            Self::Leaves { .. } => "follow_leaves",
            Self::Older { .. } => "follow_older",
            Self::Root { .. } => "follow_root",
            Self::SplitView { .. } => "follow_split_view",
            Self::Unavailable(_) => "follow_unavailable",
        }
    }

    /// The operator of the log for a split view: both roots carry its signature. Leaves that do not fit a root were perhaps
    /// spoilt on the way.
    fn attribution(&self) -> Attribution {
        match self {
            Self::SplitView { .. } => Attribution::Operator,
            _ => Attribution::Nobody,
        }
    }

    fn retry(&self) -> Retry {
        match self {
            Self::Unavailable(_) => Retry::SameRequest,
            _ => Retry::Never,
        }
    }
}

/// A leaf that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Applied {
    /// Where it stands.
    pub index: u64,
    /// What it brought about, or why it counts for nothing.
    pub outcome: Result<Event, Void>,
}

/// A reader of one log.
#[derive(Clone, Debug)]
pub struct Follower {
    record: Record,
    edge: Edge,
    heads: BTreeMap<u64, [u8; 32]>,
    marks: BTreeSet<u64>,
    /// What was read before a blob was missing: told with the rest.
    untold: Vec<Applied>,
}

impl Follower {
    /// A reader that has read nothing.
    ///
    /// # Panics
    /// If `record` has folded anything: a reader hashes what it folds.
    pub fn new(record: Record) -> Self {
        assert_eq!(record.size(), 0, "a reader begins with an empty record");
        let edge = Edge::default();
        let heads = BTreeMap::from([(0, edge.root())]);
        Self { record, edge, heads, marks: BTreeSet::new(), untold: Vec::new() }
    }

    /// What the leaves make of the log.
    pub const fn record(&self) -> &Record {
        &self.record
    }

    /// Leaves read.
    pub const fn size(&self) -> u64 {
        self.record.size()
    }

    /// The tree of the leaves read.
    pub fn head(&self) -> TreeHead {
        TreeHead { size: self.size(), root: self.edge.root() }
    }

    /// The head at a size that was read, if it was that of a checkpoint or [`mark`](Self::mark)ed, and not too long ago.
    pub fn head_at(&self, size: u64) -> Option<TreeHead> {
        self.heads.get(&size).map(|root| TreeHead { size, root: *root })
    }

    /// Whether a head is one that this reader has read: the same root at that size. None if it is ahead, or too far back
    /// to tell.
    pub fn agrees(&self, head: &TreeHead) -> Option<bool> {
        self.head_at(head.size).map(|read| read == *head)
    }

    /// Asks for the head at a size that is still ahead, which need not be that of a checkpoint: to be told by
    /// [`agrees`](Self::agrees) whether this log is the one that was read before a restart.
    pub fn mark(&mut self, size: u64) {
        self.marks.insert(size);
    }

    /// Reads on: `entries` are the leaves from where the reader is to the checkpoint in `note`. Nothing has changed if it
    /// fails, except that with `Unavailable` a part may have been read; the rest is then to be given again, and what the part
    /// brought about is returned with what the rest does.
    ///
    /// # Errors
    /// A [`FollowError`]; `SplitView` convicts the log.
    pub fn advance(
        &mut self,
        note: &Note,
        entries: &[Vec<u8>],
        blobs: &dyn Blobs,
    ) -> Result<Vec<Applied>, FollowError> {
        let opened = self.record.log().open(note).map_err(FollowError::Checkpoint);
        // The leaves on the way may bring in the key that signed this: then it is for them to say.
        let (signed, unopened) = match opened {
            Ok(checkpoint) => (checkpoint.head(), None),
            Err(error) => match note.text().parse::<Checkpoint>() {
                Ok(claimed) if *claimed.origin() == self.record.anchor().origin => {
                    (claimed.head(), Some(error))
                }
                _ => return Err(error),
            },
        };
        let from = self.size();
        if let (true, Some(error)) = (signed.size <= from, &unopened) {
            return Err(error.clone());
        }
        if signed.size <= from {
            return match self.heads.get(&signed.size) {
                Some(read) if *read != signed.root => {
                    Err(FollowError::SplitView { size: signed.size, read: *read, found: signed.root })
                }
                Some(_) if signed.size == from && entries.is_empty() => Ok(Vec::new()),
                _ => Err(FollowError::Older { read: from, found: signed.size }),
            };
        }
        if u64::try_from(entries.len()).ok() != Some(signed.size - from) {
            return Err(FollowError::Leaves { from, to: signed.size, found: entries.len() });
        }
        let mut edge = self.edge.clone();
        for entry in entries {
            edge.append(leaf_hash(entry)).map_err(FollowError::Full)?;
        }
        let computed = edge.root();
        if computed != signed.root {
            return Err(FollowError::Root { size: signed.size, computed, signed: signed.root });
        }
        if unopened.is_some() {
            let mut ahead = self.clone();
            let applied = ahead.fold(entries, blobs)?;
            ahead.record.log().open(note).map_err(FollowError::Checkpoint)?;
            *self = ahead;
            self.remember(signed);
            return Ok(applied);
        }
        let applied = self.fold(entries, blobs)?;
        self.remember(signed);
        Ok(applied)
    }

    /// Folds leaves that hash to a signed root.
    fn fold(&mut self, entries: &[Vec<u8>], blobs: &dyn Blobs) -> Result<Vec<Applied>, FollowError> {
        let mut applied = std::mem::take(&mut self.untold);
        applied.reserve(entries.len());
        for entry in entries {
            let index = self.size();
            let outcome = match self.record.apply(entry, blobs) {
                Ok(outcome) => outcome,
                Err(error) => {
                    self.untold = applied;
                    return Err(FollowError::Unavailable(error));
                }
            };
            self.edge.append(leaf_hash(entry)).map_err(FollowError::Full)?;
            if self.marks.remove(&self.size()) {
                self.heads.insert(self.size(), self.edge.root());
            }
            applied.push(Applied { index, outcome });
        }
        Ok(applied)
    }

    fn remember(&mut self, head: TreeHead) {
        self.heads.insert(head.size, head.root);
        while self.heads.len() > RECENT_HEADS {
            self.heads.pop_first();
        }
    }
}
