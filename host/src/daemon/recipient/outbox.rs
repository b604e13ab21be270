//! Messages on disk: `messages/ROUND/NNNN`, each once, a round whole or not at all. Within a round they are sorted by their
//! bytes: where one stands says nothing of who sent it.
//!
//! `messages/order` has the rounds in the order in which they came out, one to a line. It grows only: a round that is in it
//! was given out, and is not written again whatever becomes of its files.
//!
//! A payload that is a piece of a message waits in `pieces/` for the others; the message comes out with the round of the last
//! of them. `pieces/done` has the ids of messages that have come out; those that come out with a round are in `done-ROUND`
//! first, which counts if the round came out.

use crate::config::write_secret as write;
use crate::daemon::party::directory;
use anyhow::Context as _;
use panetiere_api::fragment::{Fragment, MessageId, Reassembly};
use panetiere_api::leaf::RoundId;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use tokio::sync::watch;

const ORDER: &str = "order";
const DONE: &str = "done";
/// Before the number of a round that messages in pieces come out with.
const DONE_WITH: &str = "done-";
/// Before the name of a round that is being written.
const UNFINISHED: &str = "new-";

/// The messages that have come out.
#[derive(Debug)]
pub(super) struct Outbox {
    directory: PathBuf,
    pieces: PathBuf,
    order: Mutex<Vec<RoundId>>,
    reassembly: Mutex<Reassembly>,
    grown: watch::Sender<usize>,
}

/// Writes a file for its owner alone, whole or not at all.
fn place(directory: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    let unfinished = directory.join(format!("{UNFINISHED}{name}"));
    match fs::remove_file(&unfinished) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    write(&unfinished, bytes)?;
    fs::rename(unfinished, directory.join(name))
}

fn sync(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// What an earlier process has kept of messages that are not whole.
fn reassembly(pieces: &Path) -> anyhow::Result<Reassembly> {
    let mut reassembly = Reassembly::default();
    match fs::read_to_string(pieces.join(DONE)) {
        Ok(text) => text.lines().filter_map(|line| line.parse().ok()).for_each(|id| reassembly.remember(id)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error).context("the ids of messages that have come out"),
    }
    for entry in fs::read_dir(pieces)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if name.starts_with(UNFINISHED) {
            fs::remove_file(&path)?;
        } else if !name.starts_with(DONE) {
            // Whole already: it came out, and the process ended before that was taken down.
            let _out = reassembly.take(fs::read(&path)?);
        }
    }
    Ok(reassembly)
}

/// Takes down that messages have come out, and forgets their pieces.
fn settle(pieces: &Path, done: &[MessageId]) -> io::Result<()> {
    if done.is_empty() {
        return Ok(());
    }
    // Before it, what may be left of a line that was cut short when the process ended.
    let lines: String = done.iter().map(|id| format!("\n{id}\n")).collect();
    let mut file = OpenOptions::new().append(true).create(true).open(pieces.join(DONE))?;
    file.write_all(lines.as_bytes())?;
    file.sync_data()?;
    for entry in fs::read_dir(pieces)? {
        let entry = entry?;
        let name = entry.file_name();
        let id = name.to_str().and_then(|name| name.split_once('.')).and_then(|(id, _)| id.parse().ok());
        if id.is_some_and(|id: MessageId| done.contains(&id)) {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// Settles what a process that has ended did not: of rounds that came out. Of others it comes out with the round.
fn settle_left(pieces: &Path, out: &[RoundId]) -> anyhow::Result<()> {
    for entry in fs::read_dir(pieces)? {
        let entry = entry?;
        let name = entry.file_name();
        let round = name.to_str().and_then(|name| name.strip_prefix(DONE_WITH));
        let Some(round) = round.and_then(|round| round.parse::<RoundId>().ok()) else { continue };
        if out.contains(&round) {
            let text = fs::read_to_string(entry.path())?;
            let ids: Vec<MessageId> = text.lines().filter_map(|line| line.parse().ok()).collect();
            settle(pieces, &ids)?;
        }
        fs::remove_file(entry.path())?;
    }
    Ok(())
}

impl Outbox {
    /// The messages below a directory.
    ///
    /// # Errors
    /// The system's; if the order is not what this program writes.
    pub fn open(data_dir: &Path) -> anyhow::Result<Self> {
        let path = data_dir.join("messages");
        directory(&path)?;
        let order = path.join(ORDER);
        let mut text = String::new();
        match File::open(&order) {
            Ok(mut file) => drop(file.read_to_string(&mut text).context("the order of the rounds")?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error).context("the order of the rounds"),
        }
        // The last line may have been cut short when the process ended.
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        let lines = text[..whole].lines().map(str::parse::<RoundId>);
        let mut rounds: Vec<RoundId> = lines.collect::<Result<_, _>>().context("the order of the rounds")?;
        let mut more = Vec::new();
        for entry in fs::read_dir(&path)? {
            let entry = entry?;
            let name = entry.file_name();
            let Some(name) = name.to_str() else { continue };
            if name.starts_with(UNFINISHED) {
                fs::remove_dir_all(entry.path())?;
            } else if let Ok(round) = name.parse::<RoundId>()
                && !rounds.contains(&round)
            {
                more.push(round);
            }
        }
        more.sort_unstable();
        rounds.extend(more);
        let text: String = rounds.iter().map(|round| format!("{round}\n")).collect();
        let unfinished = path.join("order.new");
        fs::write(&unfinished, text)?;
        sync(&unfinished)?;
        fs::rename(unfinished, order)?;
        sync(&path)?;
        let grown = watch::Sender::new(rounds.len());
        let pieces = data_dir.join("pieces");
        directory(&pieces)?;
        settle_left(&pieces, &rounds)?;
        let reassembly = Mutex::new(reassembly(&pieces)?);
        Ok(Self { directory: path, pieces, order: Mutex::new(rounds), reassembly, grown })
    }

    /// The messages that payloads complete; pieces of others are kept. Returns the ids of those that were in pieces besides.
    fn whole(&self, payloads: &[Vec<u8>]) -> io::Result<(Vec<Vec<u8>>, Vec<MessageId>)> {
        let mut reassembly = self.reassembly.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut messages, mut done) = (Vec::new(), Vec::new());
        for payload in payloads {
            let fragment = Fragment::parse(payload);
            if let Some(message) = reassembly.take(payload.clone()) {
                messages.push(message);
                done.extend(fragment.map(|fragment| fragment.id));
            } else if let Some(Fragment { id, index, .. }) = fragment
                && reassembly.awaits(&id)
            {
                let name = format!("{id}.{index}");
                if !self.pieces.join(&name).exists() {
                    place(&self.pieces, &name, payload)?;
                }
            }
        }
        sync(&self.pieces)?;
        Ok((messages, done))
    }

    fn order(&self) -> std::sync::MutexGuard<'_, Vec<RoundId>> {
        self.order.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a round was given out.
    pub fn has(&self, round: RoundId) -> bool {
        self.order().contains(&round)
    }

    /// Gives out what a round's payloads complete, durably, unless it was before. Waits for the disk.
    ///
    /// # Errors
    /// The system's; then nothing was given out.
    pub fn put(&self, round: RoundId, payloads: &[Vec<u8>]) -> io::Result<()> {
        let mut order = self.order();
        if order.contains(&round) {
            return Ok(());
        }
        let unfinished = self.directory.join(format!("{UNFINISHED}{round}"));
        if unfinished.exists() {
            fs::remove_dir_all(&unfinished)?;
        }
        fs::create_dir(&unfinished)?;
        let (messages, done) = self.whole(payloads)?;
        let mut sorted: Vec<&[u8]> = messages.iter().map(Vec::as_slice).collect();
        sorted.sort_unstable();
        for (number, message) in (1_u32..).zip(sorted) {
            write(&unfinished.join(format!("{number:04}")), message)?;
        }
        sync(&unfinished)?;
        let done_with = format!("{DONE_WITH}{round}");
        if !done.is_empty() {
            let ids: String = done.iter().map(|id| format!("{id}\n")).collect();
            place(&self.pieces, &done_with, ids.as_bytes())?;
            sync(&self.pieces)?;
        }
        fs::rename(&unfinished, self.directory.join(round.to_string()))?;
        sync(&self.directory)?;
        let mut file = OpenOptions::new().append(true).open(self.directory.join(ORDER))?;
        writeln!(file, "{round}")?;
        file.sync_data()?;
        if !done.is_empty() {
            settle(&self.pieces, &done)?;
            fs::remove_file(self.pieces.join(done_with))?;
        }
        order.push(round);
        self.grown.send_replace(order.len());
        Ok(())
    }

    /// The messages of a round, sorted. Those that somebody has removed are missing.
    ///
    /// # Errors
    /// The system's.
    pub fn read(&self, round: RoundId) -> io::Result<Vec<(String, Vec<u8>)>> {
        let path = self.directory.join(round.to_string());
        let mut names = Vec::new();
        match fs::read_dir(&path) {
            Ok(entries) => {
                for entry in entries {
                    names.extend(entry?.file_name().to_str().map(str::to_owned));
                }
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        // As numbers: beyond 9999 there are longer names.
        names.sort_by_key(|name| name.parse::<u32>().unwrap_or(u32::MAX));
        names.into_iter().map(|name| Ok((name.clone(), fs::read(path.join(name))?))).collect()
    }

    /// The round at a place of the order.
    pub fn at(&self, place: usize) -> Option<RoundId> {
        self.order().get(place).copied()
    }

    /// The round that came out next after this one; after one that did not come out here, the first above it.
    pub fn after(&self, round: u64) -> Option<RoundId> {
        let order = self.order();
        match order.iter().position(|given| given.0 == round) {
            Some(place) => order.get(place + 1).copied(),
            None => order.iter().copied().find(|given| given.0 > round),
        }
    }

    /// Tells when more have come out.
    pub fn grown(&self) -> watch::Receiver<usize> {
        self.grown.subscribe()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_is_given_out_once_sorted_and_in_the_order_of_its_coming() {
        let directory = tempfile::tempdir().unwrap();
        let outbox = Outbox::open(directory.path()).unwrap();
        let messages = |round: u8| vec![vec![round, 9], vec![round, 1]];
        for round in [3, 2] {
            outbox.put(RoundId(round.into()), &messages(round)).unwrap();
        }
        outbox.put(RoundId(3), &[b"other".to_vec()]).unwrap();
        let read = |outbox: &Outbox, round| outbox.read(RoundId(round)).unwrap();
        let expected = vec![("0001".to_owned(), vec![3, 1]), ("0002".to_owned(), vec![3, 9])];
        assert_eq!(read(&outbox, 3), expected);
        assert_eq!(
            (outbox.after(0), outbox.after(3), outbox.after(2)),
            (Some(RoundId(3)), Some(RoundId(2)), None)
        );
        // A line that was cut short, a round that was written and not taken down, one that was not written whole.
        let path = directory.path().join("messages");
        let mut file = OpenOptions::new().append(true).open(path.join(ORDER)).unwrap();
        file.write_all(b"1").unwrap();
        fs::create_dir(path.join("7")).unwrap();
        fs::create_dir(path.join("new-8")).unwrap();
        drop(outbox);
        let outbox = Outbox::open(directory.path()).unwrap();
        assert_eq!(
            [0, 1, 2, 3].map(|place| outbox.at(place)),
            [Some(3), Some(2), Some(7), None].map(|r| r.map(RoundId))
        );
        assert_eq!(read(&outbox, 3), expected);
        assert!(!path.join("new-8").exists());
        // Whoever has taken the messages away does not get them again.
        fs::remove_dir_all(path.join("3")).unwrap();
        outbox.put(RoundId(3), &messages(3)).unwrap();
        assert_eq!(read(&outbox, 3), []);
    }

    #[test]
    fn a_message_in_pieces_comes_out_once_with_its_last_piece_and_survives_the_process() {
        let directory = tempfile::tempdir().unwrap();
        let id: MessageId = "00112233445566778899aabbccddeeff".parse().unwrap();
        let piece = |index, text: &str| Fragment { id, index, count: 2, piece: text.into() }.to_bytes();
        let outbox = Outbox::open(directory.path()).unwrap();
        outbox.put(RoundId(1), &[piece(1, "water"), b"plain".to_vec()]).unwrap();
        assert_eq!(outbox.read(RoundId(1)).unwrap(), [("0001".to_owned(), b"plain".to_vec())]);
        drop(outbox);
        let outbox = Outbox::open(directory.path()).unwrap();
        outbox.put(RoundId(2), &[piece(0, "high ")]).unwrap();
        assert_eq!(outbox.read(RoundId(2)).unwrap(), [("0001".to_owned(), b"high water".to_vec())]);
        drop(outbox);
        let outbox = Outbox::open(directory.path()).unwrap();
        outbox.put(RoundId(3), &[piece(0, "high "), piece(1, "water")]).unwrap();
        assert_eq!(outbox.read(RoundId(3)).unwrap(), [], "it has come out");
    }

    #[test]
    fn a_process_that_ends_between_a_round_and_its_settling_gives_nothing_out_twice() {
        let directory = tempfile::tempdir().unwrap();
        let (messages, pieces) = (directory.path().join("messages"), directory.path().join("pieces"));
        let [out, not_out] = ["00112233445566778899aabbccddeeff", "ff112233445566778899aabbccddeeff"];
        let piece = |id: &str, index, text: &str| {
            Fragment { id: id.parse().unwrap(), index, count: 2, piece: text.into() }.to_bytes()
        };
        let outbox = Outbox::open(directory.path()).unwrap();
        outbox.put(RoundId(1), &[piece(out, 0, "a"), piece(not_out, 0, "b")]).unwrap();
        drop(outbox);
        // As it lies when the process ends: round 2 came out with a message's last piece, round 3 did not; a piece and a
        // line are cut short.
        fs::create_dir(messages.join("2")).unwrap();
        fs::write(pieces.join("done-2"), format!("{out}\n")).unwrap();
        fs::write(pieces.join("done-3"), format!("{not_out}\n")).unwrap();
        fs::write(pieces.join(format!("new-{not_out}.1")), "").unwrap();
        fs::write(pieces.join(DONE), &out[..9]).unwrap();
        let outbox = Outbox::open(directory.path()).unwrap();
        outbox.put(RoundId(4), &[piece(out, 0, "a"), piece(out, 1, "a"), piece(not_out, 1, "b")]).unwrap();
        assert_eq!(outbox.read(RoundId(4)).unwrap(), [("0001".to_owned(), b"bb".to_vec())]);
        drop(outbox);
        let outbox = Outbox::open(directory.path()).unwrap();
        let again = [piece(out, 0, "a"), piece(out, 1, "a"), piece(not_out, 0, "b"), piece(not_out, 1, "b")];
        outbox.put(RoundId(5), &again).unwrap();
        assert_eq!(outbox.read(RoundId(5)).unwrap(), []);
        let left: Vec<_> = fs::read_dir(pieces).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, [DONE]);
    }
}
