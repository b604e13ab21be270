//! The bulletin over a disk in memory: what it takes, what it refuses, what it asks of witnesses, and all of it again after
//! a start.

use super::{Accepted, Bulletin, Refused, Taken};
use crate::round::conductor::Windows;
use crate::round::library::{Item, Library};
use crate::round::recover::{Bodies as _, Body};
use crate::round::{Event, Phase, Session};
use crate::store::disk::memory::MemoryDisk;
use crate::store::log::{Log, Pace};
use crate::store::{Options, Store};
use panetiere::bulletin::PostHead;
use panetiere::fault::Fault as _;
use panetiere::ids::{ClientId, ServerId};
use panetiere::wire::DecodeWith as _;
use panetiere_api::leaf::RoundId;
use panetiere_api::path::ClientKeyId;
use panetiere_api::testing::{Scene, Sent};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tlog::key::Cosigner;
use tlog::witness::check;

const CLIENTS: u32 = 3;
const ROUND: RoundId = RoundId::FIRST;

struct Rig {
    scene: Scene,
    disk: Arc<MemoryDisk>,
    bulletin: Bulletin,
}

fn open(scene: &Scene, disk: &Arc<MemoryDisk>) -> Bulletin {
    let options = Options::new(scene.anchor().origin, scene.log_key());
    let (_, sequencer, _) = Store::open(Arc::clone(disk) as _, options, 1).unwrap();
    let pace = Pace { interval: Duration::from_millis(1), ..Pace::default() };
    let log = Log::start(sequencer, pace, || 1).unwrap();
    let windows = Windows { collect_ms: 1000, check_ms: 1000, answer_ms: 1000 };
    Bulletin::open(log, scene.record(), windows, 0).unwrap()
}

fn durable(accepted: Accepted) -> Event {
    let committed = accepted.committed.blocking_recv().unwrap().unwrap();
    assert_eq!(committed.leaf.unwrap().index(), accepted.index, "where it was proposed");
    accepted.event
}

fn accepted(taken: Taken) -> Event {
    match taken {
        Taken::Accepted(accepted) => durable(accepted),
        Taken::Already { index } => panic!("it is the first, and stands at {index} already"),
    }
}

impl Rig {
    fn new(shape: impl FnOnce(panetiere::testing::Builder) -> panetiere::testing::Builder) -> Self {
        let scene = Scene::new(11, CLIENTS, 40, |builder| shape(builder.servers(4)));
        let disk = Arc::new(MemoryDisk::new());
        let rig = Self { bulletin: open(&scene, &disk), scene, disk };
        durable(rig.bulletin.take_leaf(&rig.scene.epoch_leaf(rig.scene.plan()).to_bytes()).unwrap());
        for client in (0..CLIENTS).map(ClientId) {
            let leaf = rig.scene.admission(client).to_bytes();
            accepted(rig.bulletin.take_admission(&rig.name(client), &leaf).unwrap());
            assert!(matches!(
                rig.bulletin.take_admission(&rig.name(client), &leaf).unwrap(),
                Taken::Already { .. }
            ));
        }
        rig.conduct(0);
        rig
    }

    fn name(&self, client: ClientId) -> ClientKeyId {
        ClientKeyId::of(&self.scene.net.party(client).signing_key.verifying_key())
    }

    fn conduct(&self, now: u64) {
        for accepted in self.bulletin.conduct(now).unwrap().0 {
            durable(accepted);
        }
    }

    fn look<T>(&self, look: impl FnOnce(&Session) -> T) -> T {
        self.bulletin.with_record(|record| look(record.round(ROUND).unwrap()))
    }

    fn sent(&self, client: u32) -> Sent {
        self.scene.send(&self.look(|session| *session.id()), ClientId(client), 0)
    }

    fn openings(&self, sent: &Sent) -> Result<(), Refused> {
        let bytes = sent.outgoing().openings_to_bytes();
        if let Some(kept) = self.bulletin.take_openings(ROUND, &self.name(sent.client()), &bytes)? {
            kept.blocking_recv().unwrap().unwrap();
        }
        Ok(())
    }

    fn post(&self, sent: &Sent) -> Result<Taken, Refused> {
        let params = self.bulletin.params(ROUND)?;
        let bytes = sent.post.to_bytes(&params);
        let (head, ciphertext) = bytes.split_at(PostHead::packed_len(&params));
        match self.bulletin.begin_post(ROUND, &self.name(sent.client()), head)? {
            Ok(mut incoming) => {
                for piece in ciphertext.chunks(10_000) {
                    incoming.write(piece)?;
                }
                self.bulletin.finish_post(incoming)
            }
            Err(index) => Ok(Taken::Already { index }),
        }
    }

    /// Everybody posts, every server is content, the round is closed.
    fn close(&self) {
        for client in 0..CLIENTS {
            let sent = self.sent(client);
            self.openings(&sent).unwrap();
            accepted(self.post(&sent).unwrap());
        }
        self.conduct(1);
        let session = self.look(|session| *session.id());
        for server in 0..4 {
            let leaf = self.scene.checked(&session, server, BTreeMap::new()).to_bytes();
            accepted(self.bulletin.take_checked(ROUND, ServerId(server), &leaf).unwrap());
        }
        self.conduct(2);
        assert!(self.look(|session| matches!(session.phase(), Phase::Closed(_))));
    }

    fn item(&self, item: Item) -> Result<Option<Vec<u8>>, std::io::Error> {
        Library(self.bulletin.store()).item(ROUND, item)
    }

    fn cosign(&self, server: u16, at: u64, now: u64) -> (u64, Option<u64>) {
        let who = [u8::try_from(server).unwrap(); 32];
        let Some(request) = self.bulletin.ask_to_cosign(&who, at, now).unwrap() else { return (at, None) };
        let key: Cosigner = self.scene.cosigner(server);
        let log = self.bulletin.with_record(|record| record.log());
        // The rule of a witness itself, with the head of the tree that it is at.
        let head = (at > 0).then(|| {
            let note = self.bulletin.store().checkpoint_of(at).unwrap().unwrap();
            log.open(&note).unwrap().head()
        });
        let accepted = check(&log, head, &request).unwrap();
        let size = accepted.head().size;
        let line = accepted.cosign(&key, 1).unwrap();
        let sealed = self.bulletin.take_cosignatures(&who, size, &[line]).unwrap();
        (size, sealed.first().map(|round| round.0))
    }

    /// Another process over the same disk.
    fn restarted(self) -> Self {
        self.bulletin.shut_down();
        let Self { scene, disk, bulletin } = self;
        drop(bulletin);
        Self { bulletin: open(&scene, &disk), scene, disk }
    }
}

#[test]
fn a_post_comes_after_its_envelopes_and_once() {
    let rig = Rig::new(|shape| shape);
    let (sent, other) = (rig.sent(0), rig.scene.send(&rig.look(|s| *s.id()), ClientId(0), 1));
    let code = |outcome: Result<Taken, Refused>| outcome.map(drop).unwrap_err().code();
    assert_eq!(code(rig.post(&sent)), "bulletin_no_envelopes");
    rig.openings(&sent).unwrap();
    rig.openings(&sent).unwrap();
    assert_eq!(rig.openings(&other).unwrap_err().code(), "bulletin_other_openings");
    assert_eq!(code(rig.post(&other)), "bulletin_other_openings");
    let bytes = sent.outgoing().openings_to_bytes();
    let foreign = rig.bulletin.take_openings(ROUND, &rig.name(ClientId(1)), &bytes);
    assert_eq!(foreign.unwrap_err().code(), "bulletin_other_name");
    let event = accepted(rig.post(&sent).unwrap());
    assert_eq!(event, Event::Posted { round: ROUND, client: ClientId(0) });
    let index = rig.bulletin.place(&super::Place::Post(ROUND, ClientId(0))).unwrap();
    let rig = rig.restarted();
    assert!(matches!(rig.post(&sent).unwrap(), Taken::Already { index: again } if again == index));
    // The body is the post, and what every server gets is its own envelope.
    let params = rig.bulletin.params(ROUND).unwrap();
    let post = rig.item(Item::Body(Body::Post(ClientId(0)))).unwrap();
    assert_eq!(post, Some(sent.post.to_bytes(&params)));
    assert_eq!(rig.bulletin.posts_between(ROUND, 0, u64::MAX), [ClientId(0)]);
    assert_eq!(rig.bulletin.posts_between(ROUND, 0, index), []);
    for envelope in &sent.envelopes {
        let bytes = rig.bulletin.envelope(&params, ROUND, envelope.server, ClientId(0)).unwrap();
        assert_eq!(panetiere::bulletin::Envelope::from_bytes_with(&*params, &bytes).unwrap(), *envelope);
    }
}

#[test]
fn a_spoilt_ciphertext_or_envelope_is_not_taken() {
    let rig = Rig::new(|shape| shape);
    let sent = rig.sent(1);
    let mut bytes = sent.outgoing().openings_to_bytes();
    let last = bytes.len() - 100;
    bytes[last] ^= 1;
    let outcome = rig.bulletin.take_openings(ROUND, &rig.name(ClientId(1)), &bytes);
    assert_eq!(outcome.unwrap_err().code(), "bulletin_envelope");
    rig.openings(&sent).unwrap();
    let params = rig.bulletin.params(ROUND).unwrap();
    let bytes = sent.post.to_bytes(&params);
    let (head, ciphertext) = bytes.split_at(PostHead::packed_len(&params));
    let mut spoilt = ciphertext.to_vec();
    spoilt[7] ^= 1;
    let mut incoming = rig.bulletin.begin_post(ROUND, &rig.name(ClientId(1)), head).unwrap().unwrap();
    incoming.write(&spoilt).unwrap();
    assert_eq!(rig.bulletin.finish_post(incoming).unwrap_err().code(), "blob_mismatch");
    accepted(rig.post(&sent).unwrap());
}

#[test]
fn a_quorum_settles_the_close_whatever_was_lost_on_the_way() {
    let rig = Rig::new(|shape| shape);
    rig.close();
    assert_eq!(rig.scene.plan().witnesses.faulty, 1, "so three of four make a quorum");
    let (size, sealed) = rig.cosign(0, 0, 10);
    assert_eq!(sealed, None);
    assert_eq!(rig.cosign(0, size, 10).1, None, "it is not asked again for what it has done");
    // A start in the middle: two cosignatures are stored, nobody is remembered.
    assert_eq!(rig.cosign(1, 0, 10), (size, None));
    let rig = rig.restarted();
    assert_eq!(rig.item(Item::Closing).unwrap(), None);
    assert_eq!(rig.cosign(0, size, 0), (size, None), "it is asked again, and says the same");
    assert_eq!(rig.cosign(2, 0, 0), (size, Some(ROUND.0)));
    assert!(rig.item(Item::Closing).unwrap().is_some());
    assert_eq!(rig.bulletin.cosign_target(1), None);
    let rig = rig.restarted();
    assert_eq!(rig.bulletin.cosign_target(1), None, "what is settled stays so");
}

#[test]
fn a_checkpoint_that_finds_no_quorum_gives_way_to_a_later_one() {
    let rig = Rig::new(|shape| shape);
    rig.close();
    let (first, _) = rig.cosign(0, 0, 10);
    // The next round finds no posts and is called off: the log grows.
    rig.conduct(5_000);
    assert_eq!(rig.bulletin.cosign_target(1_000).unwrap().size, first, "it has its time");
    let second = rig.bulletin.cosign_target(10_000).unwrap().size;
    assert!(second > first);
    assert_eq!(rig.cosign(0, first, 10_000), (second, None));
    assert_eq!(rig.cosign(1, 0, 10_000), (second, None));
    assert_eq!(rig.cosign(3, 0, 10_000), (second, Some(ROUND.0)), "it covers the close as well");
}

#[test]
fn foreign_cosignatures_and_a_witness_that_is_ahead() {
    let rig = Rig::new(|shape| shape);
    rig.close();
    let size = rig.bulletin.cosign_target(0).unwrap().size;
    let stranger = Cosigner::from_seed("stranger.example".parse().unwrap(), &[7; 32]);
    let request = rig.bulletin.ask_to_cosign(&[0; 32], 0, 0).unwrap().unwrap();
    let log = rig.bulletin.with_record(|record| record.log());
    let line = check(&log, None, &request).unwrap().cosign(&stranger, 1).unwrap();
    let outcome = rig.bulletin.take_cosignatures(&[9; 32], size, &[line]);
    assert_eq!(outcome.unwrap_err().code(), "cosign_no_witness");
    assert_eq!(rig.bulletin.witness_ahead(), None);
    let outcome = rig.bulletin.ask_to_cosign(&[0; 32], size + 1, 0);
    assert_eq!(outcome.unwrap_err().code(), "bulletin_witness_ahead");
    assert_eq!(rig.bulletin.witness_ahead(), Some(size + 1));
}
