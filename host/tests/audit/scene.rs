//! Whole rounds through a real store into a copy that anybody can hold.

use panetiere::fault::Attribution;
use panetiere::ids::SessionId;
use panetiere_api::leaf::{Leaf, RoundId, messages_to_bytes};
use panetiere_api::round::Session;
use panetiere_api::testing::{ORIGIN, Scene, Sent, Stage};
use panetiere_host::round::audit::{Audit, Outcome, Place, audit};
use panetiere_host::round::library::{Item, Library, keep, keep_evidence};
use panetiere_host::round::mirror::{Mirror, export};
use panetiere_host::round::recover::Body;
use panetiere_host::store::disk::LocalDisk;
use panetiere_host::store::{Options, Reader, Sequencer, Store, Submission};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempDir;

pub const BYTES: usize = 40;
pub const FIRST: RoundId = RoundId::FIRST;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Direct,
    Aggregated,
    Erasure,
}

/// Five clients, four servers of which three open a round.
pub fn stage(seed: u64, mode: Mode) -> Stage {
    Stage::new(Scene::new(seed, 5, BYTES, |shape| {
        let shape = shape.servers(4).threshold(3).faulty(1);
        match mode {
            Mode::Direct => shape,
            Mode::Aggregated => shape.aggregators(2),
            Mode::Erasure => shape.lanes(2, 4),
        }
    }))
}

pub fn messages(sent: &[Sent]) -> Vec<Vec<u8>> {
    let mut messages: Vec<Vec<u8>> = sent.iter().map(|sent| sent.message.clone()).collect();
    messages.sort();
    messages
}

/// What a leaf's body is.
fn item(leaf: &Leaf) -> Option<Item> {
    Some(Item::Body(match leaf {
        Leaf::Post(post) => Body::Post(post.claim().client),
        Leaf::GroupSum(sum) => Body::GroupSum(sum.claim().aggregator),
        Leaf::LaneSum(sum) => Body::LaneSum(sum.claim().lane),
        Leaf::ServerSum(sum) => Body::ServerSum(sum.claim().server),
        _ => return None,
    }))
}

/// Writes a stage into a store: every leaf with its body, the messages, and cosigned checkpoints over the closes.
pub fn stored(
    stage: &Stage,
    directory: &Path,
    published: Option<&[Vec<u8>]>,
    cosigners: u16,
) -> (Store, Sequencer) {
    let options = Options::new(ORIGIN.parse().unwrap(), stage.scene.log_key());
    fs::create_dir_all(directory).unwrap();
    let (store, mut log, _) = Store::open(Arc::new(LocalDisk::new(directory)), options, 1).unwrap();
    let beside = |item, round: &Session, bytes: &[u8], leaf: Option<Vec<u8>>| {
        let (blob, row) = keep(&store, round.round(), item, bytes).unwrap();
        Submission { leaf, blobs: vec![blob], changes: vec![row] }
    };
    let tick = |log: &mut Sequencer, batch: &[Submission]| {
        log.tick(1, batch).unwrap().into_iter().for_each(|outcome| drop(outcome.unwrap()));
    };
    for evidence in stage.blobs.all() {
        let blobs = vec![keep_evidence(&store, evidence).unwrap()];
        tick(&mut log, &[Submission { blobs, ..Submission::default() }]);
    }
    for entry in &stage.entries {
        let leaf = entry.leaf.to_entry().unwrap();
        let session = entry.leaf.session().and_then(|session| stage.record.session(&session));
        let submission = match (item(&entry.leaf), &entry.body, session) {
            (Some(item), Some(body), Some(session)) => beside(item, session, body, Some(leaf)),
            _ => Submission { leaf: Some(leaf), ..Submission::default() },
        };
        tick(&mut log, &[submission]);
        if let (Leaf::RoundClose(_), Some(session)) = (&entry.leaf, session)
            && session.closed().is_some_and(|closed| closed.at + 1 == log.head().size)
        {
            let note = stage.cosigned(log.checkpoint(), 0..cosigners).to_string();
            tick(&mut log, &[beside(Item::Closing, session, note.as_bytes(), None)]);
        }
    }
    if let Some(messages) = published {
        let bytes = messages_to_bytes(messages.iter().map(Vec::as_slice));
        let session = stage.record.round(FIRST).unwrap();
        tick(&mut log, &[beside(Item::Messages, session, &bytes, None)]);
    }
    (store, log)
}

/// A copy of a published log.
pub struct Copy {
    pub temporary: TempDir,
    pub stage: Stage,
}

impl Copy {
    pub fn new(stage: Stage, published: Option<&[Vec<u8>]>) -> Self {
        Self::cosigned(stage, published, 3)
    }

    pub fn cosigned(stage: Stage, published: Option<&[Vec<u8>]>, cosigners: u16) -> Self {
        let temporary = TempDir::new().unwrap();
        drop(stored(&stage, &temporary.path().join("data"), published, cosigners));
        let copy = Self { temporary, stage };
        copy.export();
        copy
    }

    /// An honest round, published in full.
    pub fn honest(seed: u64, mode: Mode) -> Self {
        let mut stage = stage(seed, mode);
        let (session, sent) = stage.closed();
        stage.summed(&session, &sent, &[]);
        let messages = messages(&sent);
        let result = stage.result(&session, &messages);
        stage.counts(&result, None);
        Self::new(stage, Some(&messages))
    }

    pub fn data(&self) -> PathBuf {
        self.temporary.path().join("data")
    }

    pub fn mirror(&self) -> PathBuf {
        self.temporary.path().join("mirror")
    }

    pub fn export(&self) {
        fs::create_dir_all(self.mirror()).unwrap();
        // A process that another test of this binary is just starting has this one's locks until it is the other program.
        let open = || Reader::open(Arc::new(LocalDisk::new(self.data()))).unwrap();
        let mut reader = open();
        for _ in 0..100 {
            if reader.is_none() {
                std::thread::sleep(std::time::Duration::from_millis(20));
                reader = open();
            }
        }
        let reader = reader.expect("nobody has it open");
        export(&reader, &LocalDisk::new(self.mirror())).unwrap();
    }

    /// Another copy of the copy, to be spoilt.
    pub fn again(&self) -> (TempDir, PathBuf) {
        let temporary = TempDir::new().unwrap();
        copy_all(&self.mirror(), temporary.path());
        let path = temporary.path().to_owned();
        (temporary, path)
    }

    pub fn audit(&self, directory: &Path, round: RoundId) -> Audit {
        let disk = Arc::new(LocalDisk::new(directory));
        let mirror = Mirror::new(disk.clone());
        let place = Place { disk, directory: "", bodies: &mirror, blobs: &mirror };
        audit(self.stage.scene.anchor(), chipmunk::ring::backend::under_test(), &place, round)
    }

    /// The audit of the store itself.
    pub fn audit_store(&self, round: RoundId) -> Audit {
        let disk = Arc::new(LocalDisk::new(self.data()));
        let reader = Reader::open(disk.clone()).unwrap().expect("nobody has it open");
        let library = Library(&reader);
        let place = Place { disk, directory: "log", bodies: &library, blobs: &library };
        audit(self.stage.scene.anchor(), chipmunk::ring::backend::under_test(), &place, round)
    }

    pub fn anchor_file(&self) -> PathBuf {
        let path = self.temporary.path().join("anchor.toml");
        fs::write(&path, panetiere_host::anchor::to_text(&self.stage.scene.anchor())).unwrap();
        path
    }
}

pub fn copy_all(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_all(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// Everything that is not as it must be, or is missing.
pub fn odd(audit: &Audit) -> Vec<(Outcome, &'static str)> {
    let odd = audit.lines.iter().filter(|line| !matches!(line.outcome, Outcome::Ok | Outcome::Note));
    odd.map(|line| (line.outcome, line.code)).collect()
}

pub fn holds(audit: &Audit, code: &str) -> bool {
    audit.lines.iter().any(|line| line.code == code && line.outcome == Outcome::Ok)
}

#[track_caller]
pub fn assert_all_right(audit: &Audit, messages: usize) {
    assert_eq!(odd(audit), [], "{:#?}", audit.lines);
    assert_eq!((audit.outcome(), audit.messages), (Outcome::Ok, Some(messages)));
    for code in [
        "log_files",
        "log_root",
        "set",
        "closing_quorum",
        "bodies",
        "opened",
        "decoded",
        "result",
        "messages",
    ] {
        assert!(holds(audit, code), "{code}: {:#?}", audit.lines);
    }
}

#[track_caller]
pub fn assert_named(audit: &Audit, party: Attribution, code: &str) {
    assert_eq!(audit.named(), [party], "{:#?}", audit.lines);
    assert_eq!(audit.outcome(), Outcome::Fault);
    let line = audit.lines.iter().find(|line| line.party == party).unwrap();
    assert_eq!(line.code, code, "{}", line.text);
}

pub fn session_of(stage: &Stage) -> SessionId {
    *stage.record.round(FIRST).unwrap().id()
}
