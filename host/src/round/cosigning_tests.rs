//! A bulletin and witnesses that keep C2SP's rule.

use super::{Cosigning, WitnessAhead};
use crate::store::disk::Disk;
use crate::store::disk::memory::{Crash, Failure, MemoryDisk};
use crate::store::{Options, Sequencer, Store, Submission};
use std::sync::Arc;
use tlog::checkpoint::{Log, TreeHead};
use tlog::key::{Cosigner, NoteSigner};
use tlog::note::Signature;
use tlog::quorum::Quorum;
use tlog::witness::{Refusal, Request, check};

const NOW: u64 = 1_800_000_000;
const NAME: &str = "bulletin.example/cosigning";

fn key() -> NoteSigner {
    NoteSigner::from_seed(NAME.parse().unwrap(), &[7; 32])
}

fn log() -> Log {
    Log::new(NAME.parse().unwrap(), vec![key().verifier().clone()]).unwrap()
}

fn open(disk: &MemoryDisk) -> (Store, Sequencer) {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    let options = Options { keep_checkpoints: 2, ..Options::new(NAME.parse().unwrap(), key()) };
    let (store, sequencer, _) = Store::open(disk, options, NOW).unwrap();
    (store, sequencer)
}

/// Three witnesses, of which one may be faulty: all have to cosign.
struct Witnesses(Vec<(Cosigner, Option<TreeHead>)>);

impl Witnesses {
    fn new() -> Self {
        let cosigner = |place: u8| {
            Cosigner::from_seed(format!("witness{place}.example").parse().unwrap(), &[place + 1; 32])
        };
        Self((0..3).map(|place| (cosigner(place), None)).collect())
    }

    fn quorum(&self) -> Quorum {
        let keys = self.0.iter().map(|(cosigner, _)| cosigner.verifier().clone()).collect();
        Quorum::new(log(), keys, 1).unwrap()
    }

    /// The answer of a witness that remembers what it cosigned.
    fn answer(&mut self, place: usize, request: &Request) -> Result<Signature, Refusal> {
        let (cosigner, last) = &mut self.0[place];
        let accepted = check(&log(), *last, request)?;
        *last = Some(accepted.head());
        Ok(accepted.cosign(cosigner, NOW).unwrap())
    }

    /// Who is asked.
    fn asked(&self, requests: &[(tlog::key::VerifierKey, Request)]) -> Vec<usize> {
        let place = |key| self.0.iter().position(|(cosigner, _)| cosigner.verifier() == key).unwrap();
        requests.iter().map(|(key, _)| place(key)).collect()
    }
}

fn append(sequencer: &mut Sequencer, text: &str) {
    let leaf = Submission { leaf: Some(text.as_bytes().to_vec()), ..Submission::default() };
    sequencer.tick(NOW, &[leaf]).unwrap().remove(0).unwrap();
}

#[test]
fn a_bulletin_that_starts_again_knows_what_was_cosigned() {
    let (disk, mut witnesses) = (MemoryDisk::new(), Witnesses::new());
    let (store, mut sequencer) = open(&disk);
    append(&mut sequencer, "close");
    let cosigning = Cosigning::resume(&store, witnesses.quorum()).unwrap();
    let requests = cosigning.requests(&store).unwrap();
    assert_eq!(witnesses.asked(&requests), [0, 1, 2]);
    let lines: Vec<_> = requests
        .iter()
        .enumerate()
        .map(|(place, (_, request))| witnesses.answer(place, request).unwrap())
        .collect();
    let new = cosigning.lacking(&store, 1, lines).unwrap();
    // The last effect fails, and was done: the cosignatures are stored, and the process never hears of it.
    let effects = {
        let rehearsal = disk.snapshot();
        drop((store, sequencer));
        let (_store, mut sequencer) = open(&rehearsal);
        let before = rehearsal.effects();
        sequencer.add_cosignatures(1, &new).unwrap();
        rehearsal.effects() - before
    };
    let mut seen = Vec::new();
    for effect in 0..effects {
        let disk = disk.snapshot();
        let (_store, mut sequencer) = open(&disk);
        disk.fail(disk.effects() + effect, Failure::Done);
        let failed = sequencer.add_cosignatures(1, &new).is_err();
        drop((_store, sequencer));
        let (store, _sequencer) = open(&disk.crashed(Crash::LoseAll));
        let again = Cosigning::resume(&store, witnesses.quorum()).unwrap();
        let asked = witnesses.asked(&again.requests(&store).unwrap());
        // Either they are stored, then the checkpoint is at hand; or they are not, then they are asked for again.
        match again.cosigned() {
            Some(note) => {
                assert_eq!(witnesses.quorum().open(&note).unwrap().checkpoint.head().size, 1);
                assert!(asked.is_empty(), "{asked:?}");
            }
            None => assert_eq!(asked, [0, 1, 2]),
        }
        seen.push((failed, again.cosigned().is_some()));
    }
    assert!(seen.contains(&(true, true)) && seen.contains(&(true, false)), "{seen:?}");
}

#[test]
fn who_has_not_cosigned_is_asked_from_where_it_is() {
    let (disk, mut witnesses) = (MemoryDisk::new(), Witnesses::new());
    let (store, mut sequencer) = open(&disk);
    append(&mut sequencer, "first");
    let mut cosigning = Cosigning::resume(&store, witnesses.quorum()).unwrap();
    for (place, (_, request)) in cosigning.requests(&store).unwrap().iter().enumerate() {
        let line = witnesses.answer(place, request).unwrap();
        // The answer of witness 1 is lost.
        if place != 1 {
            let new = cosigning.lacking(&store, 1, [line.clone(), line]).unwrap();
            assert_eq!(new.len(), 1);
            cosigning.stored(&sequencer.add_cosignatures(1, &new).unwrap());
        }
    }
    assert!(cosigning.cosigned().is_none(), "two of three");
    // A witness cosigns what it did not before; here the checkpoint of size 2 is not kept by the time it is asked.
    append(&mut sequencer, "second");
    for request in cosigning.requests(&store).unwrap() {
        let place = witnesses.asked(std::slice::from_ref(&request))[0];
        drop(witnesses.answer(place, &request.1));
    }
    (2..7).for_each(|number| append(&mut sequencer, &number.to_string()));
    assert!(store.checkpoint_of(2).unwrap().is_none());
    drop((store, sequencer));
    let (store, mut sequencer) = open(&disk);
    let mut cosigning = Cosigning::resume(&store, witnesses.quorum()).unwrap();
    for turn in 0..2 {
        for (key, request) in cosigning.requests(&store).unwrap() {
            let place = witnesses.asked(&[(key.clone(), request.clone())])[0];
            match witnesses.answer(place, &request) {
                Ok(line) => {
                    let new = cosigning.lacking(&store, 7, [line]).unwrap();
                    cosigning.stored(&sequencer.add_cosignatures(7, &new).unwrap());
                }
                Err(Refusal::Conflict { size, .. }) => {
                    assert_eq!(turn, 0, "it is asked once from the wrong size");
                    cosigning.witness_at(&key, size, sequencer.head()).unwrap();
                }
                Err(other) => panic!("{other}"),
            }
        }
    }
    let note = cosigning.cosigned().expect("all have cosigned");
    assert_eq!(witnesses.quorum().open(&note).unwrap().checkpoint.head().size, 7);
    // It stays the last one that is cosigned.
    (7..300).for_each(|number| append(&mut sequencer, &number.to_string()));
    assert_eq!(cosigning.cosigned(), Some(Arc::clone(&note)));
    assert_eq!(Cosigning::resume(&store, witnesses.quorum()).unwrap().cosigned(), Some(note));
}

#[test]
fn a_wrong_cosignature_keeps_nobody_elses_from_counting() {
    let (disk, mut witnesses) = (MemoryDisk::new(), Witnesses::new());
    let (store, mut sequencer) = open(&disk);
    append(&mut sequencer, "leaf");
    let mut cosigning = Cosigning::resume(&store, witnesses.quorum()).unwrap();
    let requests = cosigning.requests(&store).unwrap();
    let good: Vec<_> = (0..3).map(|place| witnesses.answer(place, &requests[place].1).unwrap()).collect();
    let mut bytes = good[2].bytes().to_vec();
    bytes[70] ^= 1;
    let wrong = Signature::new(good[2].name().clone(), good[2].id(), bytes).unwrap();
    let stranger = Cosigner::from_seed("witness2.example".parse().unwrap(), &[99; 32]);
    let stranger = check(&log(), None, &requests[0].1).unwrap().cosign(&stranger, NOW).unwrap();
    let lines = [wrong, stranger].into_iter().chain(good);
    let new = cosigning.lacking(&store, 1, lines).unwrap();
    assert_eq!(new.len(), 3);
    cosigning.stored(&sequencer.add_cosignatures(1, &new).unwrap());
    assert!(cosigning.cosigned().is_some());
    assert!(cosigning.lacking(&store, 9, new).unwrap().is_empty(), "no checkpoint of this size");
}

#[test]
fn a_witness_that_is_ahead_is_named() {
    let (disk, witnesses) = (MemoryDisk::new(), Witnesses::new());
    let (store, mut sequencer) = open(&disk);
    append(&mut sequencer, "leaf");
    let mut cosigning = Cosigning::resume(&store, witnesses.quorum()).unwrap();
    let key = witnesses.0[1].0.verifier();
    let ahead = cosigning.witness_at(key, 2, sequencer.head()).unwrap_err();
    assert_eq!(ahead, WitnessAhead { witness: "witness1.example".to_owned(), size: 2, stored: 1 });
    cosigning.witness_at(key, 1, sequencer.head()).unwrap();
}
