//! What a party has said before, as the log has it: taken over into its guard before it says anything again.

use crate::state::{ImportError, Published, ReleaseGuard, StateError};
use panetiere_api::follow::Follower;
use panetiere_api::leaf::Leaf;
use panetiere_api::round::Record;
use std::sync::Arc;
use tlog::checkpoint::TreeHead;

/// A party's own signed statements between what its guard has taken over and what was read.
#[derive(Debug)]
pub struct Past {
    guard: Arc<ReleaseGuard>,
    found: Vec<Published>,
    /// Up to where the guard has them.
    imported: Option<TreeHead>,
    /// Whether this process has taken anything over yet: a guard answers nothing before.
    ready: bool,
}

impl Past {
    /// Nothing read yet. `follower` is told where the guard stopped, so that it can be held against this log.
    ///
    /// # Errors
    /// If the guard cannot be read.
    pub fn new(guard: Arc<ReleaseGuard>, follower: &mut Follower) -> Result<Self, StateError> {
        let imported = guard.position()?;
        if let Some(read) = imported {
            follower.mark(read.size);
        }
        Ok(Self { guard, found: Vec::new(), imported, ready: false })
    }

    /// Takes note of leaves that were read: `own` tells what of them this party has signed, wherever it stands and whether
    /// it counts or not. Returns the head that the guard has read if this log is another one.
    pub fn read(
        &mut self,
        follower: &Follower,
        from: u64,
        entries: &[Vec<u8>],
        own: impl Fn(&Record, u64, &Leaf) -> Option<Published>,
    ) -> Option<TreeHead> {
        let other =
            self.imported.filter(|read| read.size <= follower.size() && follower.agrees(read) == Some(false));
        // Of entries that were given, those behind a leaf that could not be judged are not read.
        let read = usize::try_from(follower.size() - from).expect("no more than was given");
        let leaves = (from..).zip(entries.iter().take(read));
        let leaves = leaves.filter(|(index, _)| self.imported.is_none_or(|to| *index >= to.size));
        let found =
            leaves.filter_map(|(index, entry)| own(follower.record(), index, &Leaf::parse(entry).ok()?));
        self.found.extend(found);
        other
    }

    /// Takes over into the guard what was found, up to where the log was read. To be called before anything is said.
    ///
    /// # Errors
    /// Whatever the guard finds: the party must not go on then.
    pub fn import(&mut self, follower: &Follower) -> Result<(), ImportError> {
        let to = follower.head();
        if self.ready && self.imported == Some(to) {
            return Ok(());
        }
        self.guard.import(self.imported, to, &self.found)?;
        (self.imported, self.ready) = (Some(to), true);
        self.found.clear();
        Ok(())
    }
}
