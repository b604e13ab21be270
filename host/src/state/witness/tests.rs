//! A witness never cosigns what does not extend all it has cosigned: across crashes, threads, restored backups.

use super::super::testing::*;
use super::*;
use crate::store::disk::memory::MemoryDisk;
use std::thread;
use tlog::checkpoint::Checkpoint;
use tlog::key::NoteSigner;
use tlog::merkle::{consistency_proof, leaf_hash, root};
use tlog::note::Signature;

/// A log that keeps two histories, and its witness.
struct Net {
    signer: NoteSigner,
    log: Log,
    cosigner: Cosigner,
}

const HONEST: u8 = 0;
const FORKED: u8 = 1;

/// Leaves of one of the histories: the first is common.
fn leaves(fork: u8, size: u64) -> Vec<[u8; 32]> {
    let leaf = |index: u64| leaf_hash(&[if index == 0 { 0 } else { fork }, u8::try_from(index).unwrap()]);
    (0..size).map(leaf).collect()
}

impl Net {
    fn new() -> Self {
        let origin: Origin = "log.example/witness".parse().unwrap();
        let signer = NoteSigner::from_seed(origin.as_str().parse().unwrap(), &[1; 32]);
        let log = Log::new(origin, vec![signer.verifier().clone()]).unwrap();
        Self { signer, log, cosigner: Cosigner::from_seed("witness.example".parse().unwrap(), &[2; 32]) }
    }

    fn head(fork: u8, size: u64) -> TreeHead {
        TreeHead { size, root: root(&leaves(fork, size)) }
    }

    fn note(&self, fork: u8, size: u64) -> Note {
        let checkpoint = Checkpoint::new(self.log.origin().clone(), Self::head(fork, size)).unwrap();
        checkpoint.sign(&self.signer).unwrap()
    }

    fn request(&self, fork: u8, old: u64, size: u64) -> Request {
        let proof = consistency_proof(&leaves(fork, size), old.min(size)).unwrap();
        Request::new(old, proof, self.note(fork, size)).unwrap()
    }

    fn ask(&self, witness: &WitnessState, fork: u8, old: u64, size: u64) -> Result<Signature, WitnessError> {
        witness.add_checkpoint(&self.log, &self.request(fork, old, size), &self.cosigner, 1_700_000_000)
    }

    /// The note with the cosignature, which is verified.
    fn cosigned(&self, fork: u8, size: u64, cosignature: Signature) -> Note {
        let mut note = self.note(fork, size);
        note.add(cosignature).unwrap();
        let ring = KeyRing::new(self.cosigner.verifier().algorithm(), vec![self.cosigner.verifier().clone()]);
        assert_eq!(note.verify(&ring.unwrap()).unwrap().len(), 1);
        note
    }

    fn witness(&self, disk: &MemoryDisk) -> WitnessState {
        let witness = WitnessState::new(State::open(disk).expect("opens after any crash"));
        witness.enrol(self.cosigner.verifier()).unwrap();
        witness
    }
}

#[test]
fn it_cosigns_what_extends_and_answers_the_size_otherwise() {
    let net = Net::new();
    let (disk, state) = memory();
    let witness = WitnessState::new(state);
    witness.enrol(net.cosigner.verifier()).unwrap();
    net.cosigned(HONEST, 2, net.ask(&witness, HONEST, 0, 2).unwrap());
    net.cosigned(HONEST, 5, net.ask(&witness, HONEST, 2, 5).unwrap());
    assert_eq!(witness.head(net.log.origin()).unwrap(), Some(Net::head(HONEST, 5)));
    // The same again, without another write.
    let effects = disk.effects();
    net.cosigned(HONEST, 5, net.ask(&witness, HONEST, 5, 5).unwrap());
    assert_eq!(disk.effects(), effects);
    let refused = |fork, old, size| match net.ask(&witness, fork, old, size).unwrap_err() {
        WitnessError::Refused(refusal) => (refusal.status(), refusal.size_body()),
        other => panic!("{other}"),
    };
    assert_eq!(refused(HONEST, 2, 7), (409, Some("5\n".to_owned())));
    assert_eq!(refused(HONEST, 0, 7), (409, Some("5\n".to_owned())));
    assert_eq!(refused(HONEST, 7, 9), (409, Some("5\n".to_owned())));
    assert_eq!(refused(FORKED, 5, 7).0, 422);
    assert_eq!(refused(HONEST, 7, 6).0, 400);
}

#[test]
fn no_crash_makes_it_forget_what_it_cosigned() {
    let net = Net::new();
    /// Sizes of the honest history that were cosigned.
    fn run(net: &Net, disk: &MemoryDisk) -> u64 {
        let Ok(state) = State::open(disk) else { return 0 };
        let witness = WitnessState::new(state);
        if witness.enrol(net.cosigner.verifier()).is_err() {
            return 0;
        }
        let mut cosigned = 0;
        for (old, size) in [(0, 2), (2, 4), (4, 7)] {
            match net.ask(&witness, HONEST, old, size) {
                Ok(_) => cosigned = size,
                // After a failed store it must not sign anything at all.
                Err(_) => {
                    assert!(net.ask(&witness, HONEST, cosigned, 9).is_err());
                    break;
                }
            }
        }
        cosigned
    }
    let clean = MemoryDisk::new();
    assert_eq!(run(&net, &clean), 7);
    let mut seen = std::collections::BTreeSet::new();
    for effect in 0..clean.effects() {
        for failure in FAILURES {
            let disk = MemoryDisk::new();
            disk.fail(effect, failure);
            let cosigned = run(&net, &disk);
            seen.insert(cosigned);
            for crash in crashes(effect) {
                let witness = net.witness(&disk.crashed(crash));
                let head = witness.head(net.log.origin()).unwrap().map_or(0, |head| head.size);
                let at = format!("effect {effect}, {failure:?}, {crash:?}: {head} of {cosigned}");
                assert!(head >= cosigned, "{at}");
                if cosigned > 0 {
                    // No way leads to the other history, from wherever it claims to start.
                    for old in 0..=8 {
                        for size in old.max(2)..=8 {
                            assert!(net.ask(&witness, FORKED, old, size).is_err(), "{at}");
                        }
                    }
                }
                let on = net.ask(&witness, HONEST, head, 8);
                assert!(on.is_ok(), "{at}");
            }
        }
    }
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), [0, 2, 4, 7]);
}

#[test]
fn of_two_histories_at_once_one_is_cosigned() {
    let net = Net::new();
    for _ in 0..10 {
        let witness = net.witness(&MemoryDisk::new());
        let signed: Vec<bool> = thread::scope(|scope| {
            let threads = [HONEST, FORKED, HONEST, FORKED].map(|fork| {
                let (net, witness) = (&net, &witness);
                scope.spawn(move || net.ask(witness, fork, 0, 3).is_ok())
            });
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let by = |fork: usize| signed[fork] || signed[fork + 2];
        assert!(by(0) ^ by(1), "{signed:?}");
        let head = witness.head(net.log.origin()).unwrap().unwrap();
        assert_eq!(head, Net::head(if by(0) { HONEST } else { FORKED }, 3));
    }
}

#[test]
fn a_split_view_is_kept_with_both_checkpoints() {
    let net = Net::new();
    let disk = MemoryDisk::new();
    let witness = net.witness(&disk);
    let other = Cosigner::from_seed("other.example".parse().unwrap(), &[3; 32]);
    // The cosigned note came with another witness's line, which is no evidence against the log.
    let mut request = net.request(HONEST, 0, 4);
    let foreign = check(&net.log, None, &request).unwrap().cosign(&other, 5).unwrap();
    let mut note = request.note().clone();
    note.add(foreign).unwrap();
    request = Request::new(0, request.proof().to_vec(), note).unwrap();
    witness.add_checkpoint(&net.log, &request, &net.cosigner, 7).unwrap();
    assert_eq!(witness.split_view(net.log.origin()).unwrap(), None);
    let error = net.ask(&witness, FORKED, 4, 4).unwrap_err();
    assert_eq!(error.attribution(), Attribution::Operator);
    let WitnessError::SplitView { refusal, evidence } = error else { panic!("{error}") };
    assert_eq!((refusal.status(), refusal.size_body()), (409, None));
    // Everybody can check it with the log's key alone.
    let heads = [&evidence.first, &evidence.second].map(|note| net.log.open(note).unwrap().head());
    assert_eq!(heads, [Net::head(HONEST, 4), Net::head(FORKED, 4)]);
    assert_eq!(evidence.first.signatures().len(), 1);
    drop(witness);
    let witness = net.witness(&disk);
    assert_eq!(witness.split_view(net.log.origin()).unwrap(), Some(*evidence.clone()));
    // The log goes on; the evidence stays the first one.
    net.ask(&witness, HONEST, 4, 6).unwrap();
    let error = net.ask(&witness, FORKED, 6, 6).unwrap_err();
    let WitnessError::SplitView { evidence: second, .. } = error else { panic!("{error}") };
    assert_ne!(second, evidence);
    assert_eq!(witness.split_view(net.log.origin()).unwrap(), Some(*evidence));
}

#[test]
fn a_key_signs_only_where_its_past_is() {
    let net = Net::new();
    let (_disk, state) = memory();
    let witness = WitnessState::new(state);
    assert_eq!(net.ask(&witness, HONEST, 0, 2).unwrap_err().code(), "witness_key_unknown");
    assert_eq!(witness.head(net.log.origin()).unwrap(), None);
    witness.enrol(net.cosigner.verifier()).unwrap();
    net.ask(&witness, HONEST, 0, 2).unwrap();
    // A key of the same name is another key.
    let other = Cosigner::from_seed("witness.example".parse().unwrap(), &[9; 32]);
    let refused = witness.add_checkpoint(&net.log, &net.request(HONEST, 2, 3), &other, 1).unwrap_err();
    assert_eq!(refused.code(), "witness_key_unknown");
}

#[test]
fn a_cosignature_beyond_the_record_retires_the_key() {
    let net = Net::new();
    let disk = MemoryDisk::new();
    let witness = net.witness(&disk);
    let early = net.cosigned(HONEST, 2, net.ask(&witness, HONEST, 0, 2).unwrap());
    drop(witness);
    let backup = disk.snapshot();
    let witness = net.witness(&disk);
    let late = net.cosigned(HONEST, 4, net.ask(&witness, HONEST, 2, 4).unwrap());
    let key = net.cosigner.verifier();
    witness.observe(&net.log, &early, key).unwrap();
    witness.observe(&net.log, &late, key).unwrap();

    let old = net.witness(&backup);
    old.observe(&net.log, &early, key).unwrap();
    // Others' notes say nothing about this key.
    old.observe(&net.log, &net.note(HONEST, 4), key).unwrap();
    old.observe(&net.log, &net.note(FORKED, 2), key).unwrap();
    net.ask(&old, HONEST, 2, 2).unwrap();
    assert_eq!(old.observe(&net.log, &late, key).unwrap_err().code(), "witness_key_retired");
    assert_eq!(net.ask(&old, HONEST, 2, 3).unwrap_err().code(), "witness_key_retired");
    drop(old);
    let old = WitnessState::new(State::open(&backup).unwrap());
    assert_eq!(old.enrol(key).unwrap_err().code(), "witness_key_retired");
    // A new key goes on from where the old one was.
    let new = Cosigner::from_seed("witness2.example".parse().unwrap(), &[9; 32]);
    old.enrol(new.verifier()).unwrap();
    old.add_checkpoint(&net.log, &net.request(HONEST, 2, 5), &new, 1).unwrap();
}

#[test]
fn a_cosignature_of_another_root_retires_the_key_too() {
    let net = Net::new();
    let [one, two] = [MemoryDisk::new(), MemoryDisk::new()].map(|disk| net.witness(&disk));
    net.ask(&one, HONEST, 0, 3).unwrap();
    let other = net.cosigned(FORKED, 3, net.ask(&two, FORKED, 0, 3).unwrap());
    let key = net.cosigner.verifier();
    assert_eq!(one.observe(&net.log, &other, key).unwrap_err().code(), "witness_key_retired");
}
