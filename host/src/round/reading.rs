//! One reading of a published log, from its first leaf to its checkpoint, with everything about one round kept.
//!
//! Unlike [`Follower`](panetiere_api::follow::Follower) this reads a log that is over: the keys that may sign its checkpoint
//! follow from its own leaves, and every leaf of the round is kept with what became of it, also of a round that is no
//! longer one of the latest.

use super::{Anchor, Blobs, EpochState, Event, Phase, RECENT_ROUNDS, Record, Session, Unavailable, Void};
use crate::store::tiles::{PublishedTiles, TilesError};
use chipmunk::ring::backend::Kernels;
use panetiere::fault::{Attribution, Fault, Retry};
use panetiere::ids::EpochDigest;
use panetiere_api::leaf::{Leaf, RoundId};
use std::collections::BTreeMap;
use std::io;
use tlog::checkpoint::{Checkpoint, CheckpointError, TreeHead};
use tlog::entry::EntryError;
use tlog::merkle::{Edge, leaf_hash};
use tlog::note::{Note, NoteError};
use tlog::prove::ReadTiles as _;
use tlog::quorum::Quorum;
use tlog::tile::{Bundle, WIDTH};

/// A published log could not be read to its checkpoint.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The published checkpoint is none of this log.
    #[error("the published checkpoint is not one of the log")]
    Checkpoint(#[source] CheckpointError),
    /// The checkpoint's file cannot be read.
    #[error("the published checkpoint cannot be read")]
    CheckpointFile(#[source] io::Error),
    /// A bundle of entries does not parse.
    #[error("{bundle} does not parse")]
    Entries {
        /// Which.
        bundle: Bundle,
        /// Why.
        #[source]
        source: EntryError,
    },
    /// A file of the log is missing, or cannot be read.
    #[error("entries of the log are missing")]
    Missing(#[source] TilesError),
    /// The checkpoint's file is no note.
    #[error("the published checkpoint is no note")]
    Note(#[source] NoteError),
    /// The leaves are not those that the checkpoint is over.
    #[error("the {size} leaves hash to {}, the checkpoint says {}", hex(computed), hex(signed))]
    Root {
        /// Leaves.
        size: u64,
        /// What they hash to.
        computed: [u8; 32],
        /// What the checkpoint says.
        signed: [u8; 32],
    },
    /// Evidence that a leaf names is not there: nobody can tell what the leaf is worth.
    #[error("leaf {leaf} cannot be judged")]
    Unavailable {
        /// The leaf.
        leaf: u64,
        /// What is missing.
        #[source]
        source: Unavailable,
    },
}

fn hex(hash: &[u8; 32]) -> String {
    data_encoding::HEXLOWER.encode(hash)
}

impl ReadError {
    /// Whether something is there that is wrong; else something is missing.
    pub fn is_fault(&self) -> bool {
        !matches!(self, Self::CheckpointFile(_) | Self::Missing(_) | Self::Unavailable { .. })
    }
}

impl Fault for ReadError {
    fn code(&self) -> &'static str {
        match self {
            Self::Checkpoint(error) => error.code(),
            Self::CheckpointFile(_) => "read_checkpoint_file",
            Self::Entries { .. } => "read_entries",
            Self::Missing(_) => "read_missing",
            Self::Note(error) => error.code(),
            Self::Root { .. } => "read_root",
            Self::Unavailable { .. } => "read_unavailable",
        }
    }

    /// Nobody: whoever keeps the copy may have spoilt it.
    fn attribution(&self) -> Attribution {
        Attribution::Nobody
    }

    fn retry(&self) -> Retry {
        if self.is_fault() { Retry::Never } else { Retry::SameRequest }
    }
}

/// A leaf about the round that was asked for.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Where it stands.
    pub index: u64,
    /// Its bytes.
    pub entry: Vec<u8>,
    /// What it brought about, or why it counts for nothing.
    pub outcome: Result<Event, Void>,
}

/// The round that was asked for.
#[derive(Clone, Debug)]
pub struct Found {
    /// As the leaves have it.
    pub session: Session,
    /// Its epoch, as it was when the round could last be spoken of.
    pub epoch: EpochState,
    /// Every leaf about it, in the order of the log.
    pub leaves: Vec<Seen>,
    /// The quorum that a closing checkpoint needs, with the log's keys as they were when the round closed.
    pub quorum: Option<Quorum>,
}

/// A round in a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Its number.
    pub round: RoundId,
    /// Where it was opened.
    pub opened_at: u64,
    /// Its epoch's number.
    pub epoch: u32,
    /// Posts that count.
    pub posts: usize,
    /// Clients in the set, if it is closed.
    pub clients: Option<u32>,
    /// Servers whose sums count.
    pub sums: usize,
    /// Messages that the result names, if there is one.
    pub messages: Option<u32>,
    /// How far it is.
    pub state: State,
}

/// How far a round is, by its leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Posts are taken.
    Collecting,
    /// Servers check, clients answer.
    Checking,
    /// The set is settled; too few sums yet.
    Closed,
    /// Enough sums to recover it, and no result.
    Recoverable,
    /// There is a result.
    Recovered,
    /// Called off.
    Aborted,
}

impl State {
    /// A stable snake_case name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Collecting => "collecting",
            Self::Checking => "checking",
            Self::Closed => "closed",
            Self::Recoverable => "recoverable",
            Self::Recovered => "recovered",
            Self::Aborted => "aborted",
        }
    }

    /// Of a round.
    pub fn of(session: &Session) -> Self {
        match session.phase() {
            Phase::Collecting => Self::Collecting,
            Phase::Checking => Self::Checking,
            Phase::Aborted(_) => Self::Aborted,
            Phase::Closed(_) if session.result().is_some() => Self::Recovered,
            Phase::Closed(_) if session.recoverable() => Self::Recoverable,
            Phase::Closed(_) => Self::Closed,
        }
    }
}

impl Summary {
    fn of(session: &Session, epoch: u32) -> Self {
        Self {
            round: session.round(),
            opened_at: session.opened_at(),
            epoch,
            posts: session.posts().len(),
            clients: session.closed().map(|closed| closed.set.count()),
            sums: session.server_sums().len(),
            messages: session.result().map(|result| result.messages),
            state: State::of(session),
        }
    }
}

/// What one reading gave.
#[derive(Clone, Debug)]
pub struct Reading {
    /// The checkpoint's note.
    pub note: Note,
    /// The tree, as computed and as signed.
    pub head: TreeHead,
    /// The record at the end.
    pub record: Record,
    /// Every round, ascending.
    pub rounds: Vec<Summary>,
    /// The round that was asked for, if it was opened.
    pub found: Option<Found>,
    /// Roots at the sizes that were asked for, as far as the log has them.
    pub roots: BTreeMap<u64, [u8; 32]>,
}

/// What to look for while reading.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// A round.
    pub round: Option<RoundId>,
    /// Sizes at which the root is to be kept.
    pub sizes: Vec<u64>,
}

/// Reads a published log whole: hashes every leaf, folds it, and holds the root and its signature against the checkpoint.
///
/// # Errors
/// The first thing that keeps the leaves from being those of the log.
pub fn read(
    anchor: Anchor,
    kernels: &'static Kernels,
    tiles: &PublishedTiles,
    blobs: &dyn Blobs,
    wanted: &Wanted,
) -> Result<Reading, ReadError> {
    let bytes = tiles.checkpoint().map_err(ReadError::CheckpointFile)?;
    let note = Note::parse(&bytes).map_err(ReadError::Note)?;
    let signed = note.text().parse::<Checkpoint>().map_err(ReadError::Checkpoint)?.head();
    let mut fold = Fold::new(Record::new(anchor, kernels), wanted);
    let mut edge = Edge::new();
    while edge.size() < signed.size {
        let bundle = Bundle::of_entry(edge.size(), signed.size).expect("below the size of a checkpoint");
        let bytes = tiles.bundle(bundle).map_err(ReadError::Missing)?;
        let entries = bundle.parse(&bytes).map_err(|source| ReadError::Entries { bundle, source })?;
        debug_assert_eq!(bundle.index() * u64::from(WIDTH), edge.size(), "bundles are read whole");
        for entry in entries {
            let leaf = edge.size();
            fold.take(entry, blobs).map_err(|source| ReadError::Unavailable { leaf, source })?;
            edge.append(leaf_hash(entry)).expect("a checkpoint's size is one of a tree");
            if wanted.sizes.contains(&edge.size()) {
                fold.roots.insert(edge.size(), edge.root());
            }
        }
    }
    let head = TreeHead { size: edge.size(), root: edge.root() };
    if head.root != signed.root {
        return Err(ReadError::Root { size: head.size, computed: head.root, signed: signed.root });
    }
    // Which keys may sign follows from the leaves; that they are the log's, from the root under the signature.
    fold.record.log().open(&note).map_err(ReadError::Checkpoint)?;
    Ok(fold.finish(note, head))
}

struct Fold {
    record: Record,
    round: Option<RoundId>,
    leaves: Vec<Seen>,
    quorum: Option<Quorum>,
    /// The round and its epoch, taken before either is no longer one of the latest.
    kept: Option<(Session, EpochState)>,
    rounds: Vec<Summary>,
    /// Numbers of all epochs that there were.
    epochs: BTreeMap<EpochDigest, u32>,
    roots: BTreeMap<u64, [u8; 32]>,
}

impl Fold {
    fn new(record: Record, wanted: &Wanted) -> Self {
        let round = wanted.round;
        let (leaves, rounds, epochs, roots) = Default::default();
        Self { record, round, leaves, quorum: None, kept: None, rounds, epochs, roots }
    }

    fn current(&self) -> Option<(&Session, &EpochState)> {
        let session = self.record.round(self.round?)?;
        Some((session, self.record.epoch_of(session.epoch())?))
    }

    fn take(&mut self, entry: &[u8], blobs: &dyn Blobs) -> Result<(), Unavailable> {
        let index = self.record.size();
        let leaf = Leaf::parse(entry).ok();
        // Either may push the round, or its epoch, out of the record.
        if let Some(Leaf::RoundOpen(_) | Leaf::Epoch(_)) = &leaf
            && let Some((session, epoch)) = self.current()
        {
            self.kept = Some((session.clone(), epoch.clone()));
        }
        let oldest = self.record.rounds().next().map(|oldest| self.summary(oldest));
        let full = self.record.rounds().count() == RECENT_ROUNDS;
        let outcome = self.record.apply(entry, blobs)?;
        match outcome {
            Ok(Event::RoundOpened { .. }) if full => self.rounds.extend(oldest),
            Ok(Event::EpochBegan { number, epoch }) => drop(self.epochs.insert(epoch, number.0)),
            _ => {}
        }
        if let Some(round) = self.round {
            let about = match &leaf {
                Some(Leaf::RoundOpen(open)) => open.round == round,
                Some(leaf) => leaf.session().is_some_and(|session| {
                    let current = self.record.round(round).map(Session::id);
                    current.or_else(|| self.kept.as_ref().map(|(kept, _)| kept.id())) == Some(&session)
                }),
                None => false,
            };
            if about {
                if outcome == Ok(Event::RoundClosed { round })
                    && let Some((_, epoch)) = self.current()
                {
                    self.quorum = self.record.quorum(epoch).ok();
                }
                self.leaves.push(Seen { index, entry: entry.to_vec(), outcome });
            }
        }
        Ok(())
    }

    fn summary(&self, session: &Session) -> Summary {
        Summary::of(session, self.epochs[session.epoch()])
    }

    fn finish(mut self, note: Note, head: TreeHead) -> Reading {
        let latest: Vec<Summary> = self.record.rounds().map(|session| self.summary(session)).collect();
        self.rounds.extend(latest);
        let current = self.current().map(|(session, epoch)| (session.clone(), epoch.clone()));
        let found = current.or(self.kept).map(|(session, epoch)| Found {
            session,
            epoch,
            leaves: self.leaves,
            quorum: self.quorum,
        });
        Reading { note, head, record: self.record, rounds: self.rounds, found, roots: self.roots }
    }
}
