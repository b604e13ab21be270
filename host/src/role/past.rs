//! What a party has said before, as the log has it: taken over into its guard before it says anything again.

use crate::state::{ImportError, Published, ReleaseGuard, StateError};
use panetiere::ids::SessionId;
use panetiere_api::follow::{Applied, Follower};
use panetiere_api::leaf::Leaf;
use panetiere_api::round::{Event, RECENT_ROUNDS, Record};
use std::collections::VecDeque;
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
    /// Sessions that the record may still speak of, in the order of their rounds.
    sessions: VecDeque<SessionId>,
    /// Sessions that it speaks of no more since the guard has taken something over.
    forgotten: Vec<SessionId>,
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
        let (found, sessions, forgotten) = Default::default();
        Ok(Self { guard, found, imported, ready: false, sessions, forgotten })
    }

    /// Takes note of rounds that were opened. Of older ones than the latest [`RECENT_ROUNDS`] no leaf can say anything that
    /// counts, so what this party has said in them need not be kept.
    pub fn opened(&mut self, applied: &[Applied]) {
        for Applied { index, outcome } in applied {
            let Ok(Event::RoundOpened { session, .. }) = outcome else { continue };
            self.sessions.push_back(*session);
            // What was forgotten before the guard's position was forgotten with it.
            if self.sessions.len() > RECENT_ROUNDS
                && let Some(oldest) = self.sessions.pop_front()
                && self.imported.is_none_or(|to| *index >= to.size)
            {
                self.forgotten.push(oldest);
            }
        }
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
        self.guard.import_and_forget(self.imported, to, &self.found, &self.forgotten)?;
        (self.imported, self.ready) = (Some(to), true);
        self.found.clear();
        self.forgotten.clear();
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
        let applied = follower.advance(&log.checkpoint(&scene.log_key()), &log.entries, &NoBlobs).unwrap();
        past.opened(&applied);
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

    #[test]
    fn what_was_said_is_kept_as_long_as_a_leaf_can_speak_of_it() {
        let scene = Scene::new(1, 4, 40, |shape| shape.servers(4));
        let mut log = MemoryLog::default();
        log.append(&scene.epoch_leaf(scene.plan()));
        let disk = MemoryDisk::new();
        let mut slots = Vec::new();
        let rounds = u64::try_from(RECENT_ROUNDS).unwrap();
        for round in 1..=rounds + 3 {
            let open = log.append(&Leaf::RoundOpen(scene.open(round)));
            let session = log.session(open);
            log.append(&Leaf::PostsEnd(PostsEnd { session }));
            log.append(&scene.checked(&session, 0, BTreeMap::new()));
            slots.push(AnswerSlot { session, kind: AnswerKind::Checked });
            // One process after another, and some that come late.
            if [1, 2, rounds, rounds + 1, rounds + 3].contains(&round) {
                let guard = process(&disk, &scene, &log);
                let known = |slot: &&AnswerSlot| guard.answered(**slot).unwrap().is_some();
                let known: Vec<_> = slots.iter().filter(known).collect();
                let kept = slots.iter().skip(slots.len().saturating_sub(RECENT_ROUNDS));
                assert_eq!(known, kept.collect::<Vec<_>>(), "round {round}");
            }
        }
    }
}
