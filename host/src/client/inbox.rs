//! What is to be sent: on disk until it is out, so that a client that starts again goes on.

use anyhow::Context as _;
use getrandom::SysRng;
use panetiere_api::fragment::{Fragment, FragmentError, MessageId, split};
use panetiere_api::leaf::RoundId;
use rand_core::UnwrapErr;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs;
use std::path::{Path, PathBuf};

/// A message under way.
struct Message {
    id: MessageId,
    bytes: Vec<u8>,
    /// Its pieces, cut when it is known how long they may be.
    pieces: Option<Vec<Fragment>>,
    out: BTreeSet<u16>,
}

/// The messages.
pub(super) struct Inbox {
    directory: PathBuf,
    messages: VecDeque<Message>,
    /// Which piece a client has sent in a round.
    sent: BTreeMap<(RoundId, u16), (MessageId, u16)>,
}

impl Inbox {
    /// The messages that an earlier process has left.
    pub(super) fn open(data_dir: &Path) -> anyhow::Result<Self> {
        let directory = data_dir.join("outbox");
        crate::daemon::party::directory(&directory)?;
        let mut inbox = Self { directory, messages: VecDeque::new(), sent: BTreeMap::new() };
        let mut files: Vec<PathBuf> = fs::read_dir(&inbox.directory)?
            .map(|entry| entry.map(|entry| entry.path()))
            .collect::<Result<_, _>>()?;
        files.sort();
        for file in files {
            let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if let Ok(id) = name.parse() {
                let bytes = fs::read(&file).with_context(|| format!("{}", file.display()))?;
                inbox.messages.push_back(Message { id, bytes, pieces: None, out: BTreeSet::new() });
            }
        }
        Ok(inbox)
    }

    /// Adds a message, durably.
    pub(super) fn add(&mut self, bytes: Vec<u8>) -> anyhow::Result<MessageId> {
        let id = MessageId::random(&mut UnwrapErr(SysRng));
        let file = self.directory.join(id.to_string());
        crate::config::write_secret(&file, &bytes).with_context(|| format!("{}", file.display()))?;
        self.messages.push_back(Message { id, bytes, pieces: None, out: BTreeSet::new() });
        Ok(id)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// The messages that are not out.
    pub(super) fn waiting(&self) -> Vec<MessageId> {
        self.messages.iter().map(|message| message.id).collect()
    }

    /// The next piece for a client in a round, whose payloads have at most `room` bytes.
    pub(super) fn next(
        &mut self,
        round: RoundId,
        member: u16,
        room: usize,
    ) -> Result<Option<Vec<u8>>, FragmentError> {
        let under_way: BTreeSet<(MessageId, u16)> = self.sent.values().copied().collect();
        for message in &mut self.messages {
            let pieces = match &message.pieces {
                Some(pieces) => pieces,
                None => &*message.pieces.insert(split(message.id, &message.bytes, room)?),
            };
            let free = |piece: &&Fragment| {
                !message.out.contains(&piece.index) && !under_way.contains(&(message.id, piece.index))
            };
            if let Some(piece) = pieces.iter().find(free) {
                self.sent.insert((round, member), (message.id, piece.index));
                return Ok(Some(piece.to_bytes()));
            }
        }
        Ok(None)
    }

    /// A client's post did not get into the round.
    pub(super) fn failed(&mut self, round: RoundId, member: u16) {
        self.sent.remove(&(round, member));
    }

    /// A round was called off: whether anything was sent in it.
    pub(super) fn called_off(&mut self, round: RoundId) -> bool {
        let before = self.sent.len();
        self.sent.retain(|(of, _), _| *of != round);
        self.sent.len() < before
    }

    /// A round's messages are published. Returns those of ours that are out, whole, with it.
    pub(super) fn published(
        &mut self,
        round: RoundId,
        payloads: &[Vec<u8>],
    ) -> anyhow::Result<Vec<MessageId>> {
        let found: BTreeSet<(MessageId, u16)> = payloads
            .iter()
            .filter_map(|payload| Fragment::parse(payload))
            .map(|fragment| (fragment.id, fragment.index))
            .collect();
        // What is not there was in a post that did not count: it is sent again.
        self.sent.retain(|(of, _), _| *of != round);
        for message in &mut self.messages {
            let pieces = message.pieces.iter().flatten().map(|piece| piece.index);
            message.out.extend(pieces.filter(|index| found.contains(&(message.id, *index))));
        }
        let whole = |message: &Message| {
            message.pieces.as_ref().is_some_and(|pieces| pieces.len() == message.out.len())
        };
        let out: Vec<MessageId> = self.messages.iter().filter(|m| whole(m)).map(|m| m.id).collect();
        for id in &out {
            fs::remove_file(self.directory.join(id.to_string()))?;
        }
        self.messages.retain(|message| !out.contains(&message.id));
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use panetiere_api::fragment::HEADER_LEN;

    #[test]
    fn a_piece_is_sent_again_until_it_is_out_and_survives_the_process() {
        let dir = tempfile::tempdir().unwrap();
        let mut inbox = Inbox::open(dir.path()).unwrap();
        let id = inbox.add(b"abcdef".to_vec()).unwrap();
        let room = HEADER_LEN + 4;
        let (r1, r2, r3) = (RoundId(1), RoundId(2), RoundId(3));
        let first = inbox.next(r1, 0, room).unwrap().unwrap();
        let second = inbox.next(r1, 1, room).unwrap().unwrap();
        assert_ne!(first, second);
        assert_eq!(inbox.next(r1, 2, room).unwrap(), None, "both are under way");
        inbox.failed(r1, 1);
        assert_eq!(inbox.next(r2, 0, room).unwrap(), Some(second.clone()));
        assert!(inbox.called_off(r2));
        assert!(!inbox.called_off(r2));
        assert_eq!(inbox.published(r1, &[first, b"another's".to_vec()]).unwrap(), []);
        // A process that starts again knows the message, and not what of it is out.
        assert_eq!(Inbox::open(dir.path()).unwrap().waiting(), [id]);
        assert_eq!(inbox.next(r3, 0, room).unwrap(), Some(second.clone()));
        assert_eq!(inbox.published(r3, &[]).unwrap(), [], "the post did not count");
        assert_eq!(inbox.next(RoundId(4), 0, room).unwrap(), Some(second.clone()));
        assert_eq!(inbox.published(RoundId(4), &[second]).unwrap(), [id]);
        assert!(inbox.is_empty());
        assert!(Inbox::open(dir.path()).unwrap().is_empty());
    }
}
