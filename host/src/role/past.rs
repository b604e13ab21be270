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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::State;
    use crate::store::disk::memory::MemoryDisk;
    use panetiere::bulletin::Checked;
    use panetiere::protocol::{AnswerKind, AnswerLog as _, AnswerSlot};
    use panetiere::wire::DecodeWith as _;
    use panetiere_api::leaf::PostsEnd;
    use panetiere_api::round::NoBlobs;
    use panetiere_api::testing::{MemoryLog, Scene};
    use std::collections::BTreeMap;

    /// One process of server 0: reads the whole log, takes over what the server said in it.
    fn process(disk: &MemoryDisk, scene: &Scene, log: &MemoryLog) -> Arc<ReleaseGuard> {
        let guard = Arc::new(ReleaseGuard::new(State::open(disk).unwrap()));
        let mut follower = Follower::new(scene.record());
        let mut past = Past::new(Arc::clone(&guard), &mut follower).unwrap();
        follower.advance(&log.checkpoint(&scene.log_key()), &log.entries, &NoBlobs).unwrap();
        let own = |_: &Record, index, leaf: &Leaf| match leaf {
            Leaf::Checked(unread) => {
                let checked = Checked::from_bytes_with(&*scene.net.params, &unread.bytes).ok()?;
                (checked.server().0 == 0).then(|| Published::checked(index, &checked))
            }
            _ => None,
        };
        assert_eq!(past.read(&follower, 0, &log.entries, own), None, "it is the same log");
        past.import(&follower).unwrap();
        guard
    }

    #[test]
    fn a_server_that_starts_again_reads_the_log_from_the_first_leaf() {
        let scene = Scene::new(1, 4, 40, |shape| shape.servers(4));
        let mut log = MemoryLog::default();
        log.append(&scene.epoch_leaf(scene.plan()));
        let open = log.append(&Leaf::RoundOpen(scene.open(1)));
        let session = log.session(open);
        log.append(&Leaf::PostsEnd(PostsEnd { session }));
        log.append(&scene.checked(&session, 0, BTreeMap::new()));
        let disk = MemoryDisk::new();
        let slot = AnswerSlot { session, kind: AnswerKind::Checked };
        let said = process(&disk, &scene, &log).answered(slot).unwrap();
        assert!(said.is_some(), "found in the log, and taken over");
        // Again over the same leaves, and over more.
        assert_eq!(process(&disk, &scene, &log).answered(slot).unwrap(), said);
        log.append(&scene.checked(&session, 1, BTreeMap::new()));
        assert_eq!(process(&disk, &scene, &log).answered(slot).unwrap(), said);
    }
}
