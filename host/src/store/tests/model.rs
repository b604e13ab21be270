//! Scripts, what they lead to by the model, and what a store says it has.

use super::super::blob::{BlobName, BlobStore as _, Class};
use super::super::sequencer::{Change, Committed, Receipt, Sequencer, Submission, What};
use super::super::{Store, StoreError};
use super::{NOW, log, root, witness_line};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

#[derive(Clone, Debug, Default)]
pub struct Sub {
    pub leaf: Option<Vec<u8>>,
    pub blobs: Vec<(u64, Class, Vec<u8>)>,
    pub changes: Vec<(&'static str, Vec<u8>, What)>,
}

#[derive(Clone, Debug)]
pub enum Step {
    Tick(Vec<Sub>),
    Cosign,
    Delete(u64),
    SyncTiles,
}

/// What a reader can see.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    pub leaves: Vec<Vec<u8>>,
    /// None: deleted.
    pub blobs: BTreeMap<[u8; 32], Option<Vec<u8>>>,
    pub values: BTreeMap<(&'static str, Vec<u8>), Vec<u8>>,
    /// Cosigned sizes.
    pub cosigned: BTreeSet<u64>,
}

/// The model.
#[derive(Clone, Debug, Default)]
pub struct Model {
    pub state: State,
    pub rounds: BTreeMap<u64, Vec<[u8; 32]>>,
    pub deleted: BTreeSet<u64>,
}

impl Model {
    /// Applies a step and says, for a tick, which submissions were taken and at which index.
    pub fn apply(&mut self, step: &Step) -> Vec<Option<Option<u64>>> {
        match step {
            Step::Tick(subs) => subs.iter().map(|sub| self.submit(sub)).collect(),
            Step::Cosign => {
                self.state.cosigned.insert(self.state.leaves.len() as u64);
                Vec::new()
            }
            Step::Delete(round) => {
                self.deleted.insert(*round);
                for digest in self.rounds.remove(round).unwrap_or_default() {
                    if !self.rounds.values().any(|other| other.contains(&digest)) {
                        self.state.blobs.insert(digest, None);
                    }
                }
                Vec::new()
            }
            Step::SyncTiles => Vec::new(),
        }
    }

    fn submit(&mut self, sub: &Sub) -> Option<Option<u64>> {
        let new = |(_, _, what): &&(_, _, What)| matches!(what, What::PutNew(_) | What::PutNewWithIndex(_));
        let taken = sub
            .changes
            .iter()
            .filter(new)
            .any(|(namespace, key, _)| self.state.values.contains_key(&(*namespace, key.clone())));
        if taken || sub.blobs.iter().any(|(round, ..)| self.deleted.contains(round)) {
            return None;
        }
        let index = sub.leaf.as_ref().map(|leaf| {
            self.state.leaves.push(leaf.clone());
            self.state.leaves.len() as u64 - 1
        });
        for (round, _, bytes) in &sub.blobs {
            let digest = *blake3::hash(bytes).as_bytes();
            self.state.blobs.insert(digest, Some(bytes.clone()));
            self.rounds.entry(*round).or_default().push(digest);
        }
        for (namespace, key, what) in &sub.changes {
            let place = (*namespace, key.clone());
            match what {
                What::Put(value) | What::PutNew(value) => {
                    drop(self.state.values.insert(place, value.clone()))
                }
                What::PutNewWithIndex(value) => {
                    let index = index.unwrap_or(u64::MAX).to_be_bytes();
                    self.state.values.insert(place, [&index, value.as_slice()].concat());
                }
                What::Remove => drop(self.state.values.remove(&place)),
            }
        }
        Some(index)
    }
}

/// What was acknowledged to a caller.
#[derive(Clone, Debug, Default)]
pub struct Acknowledged {
    pub committed: Vec<(Vec<u8>, Committed)>,
}

impl Acknowledged {
    /// Every receipt is right, and of a tree that these leaves begin with.
    pub fn check(&self, leaves: &[Vec<u8>]) {
        let mut roots = BTreeMap::new();
        for (leaf, committed) in &self.committed {
            let size = usize::try_from(committed.head.size).unwrap();
            assert!(size <= leaves.len(), "acknowledged size {size}, found {}", leaves.len());
            let expected = roots.entry(size).or_insert_with(|| root(&leaves[..size]));
            assert_eq!(committed.head.root, *expected, "a fork at {size}");
            if let Some(receipt) = &committed.leaf {
                let (index, proof) = (receipt.index(), receipt.proof().unwrap());
                assert_eq!(&leaves[usize::try_from(index).unwrap()], leaf);
                // Checking a signature is what takes the time here: some of the first batch, all of the small ones.
                if size > 254 || index % 50 == 0 {
                    let proof = tlog::proof::Proof::parse(proof.to_string().as_bytes()).unwrap();
                    assert_eq!(proof.verify(leaf, &log()).unwrap().head(), committed.head);
                }
            }
        }
    }
}

/// Writes a body in pieces.
pub fn put(
    store: &Store,
    round: u64,
    class: Class,
    bytes: &[u8],
) -> Result<super::super::StoredBlob, StoreError> {
    let mut writer = store.put(round, class, BlobName::of(bytes))?;
    for piece in bytes.chunks(700) {
        writer.write(piece)?;
    }
    writer.finish()
}

/// Does a step. Compares what becomes of each submission with the model, which has done it already.
pub fn perform(
    store: &Store,
    sequencer: &mut Sequencer,
    step: &Step,
    expected: &[Option<Option<u64>>],
    acknowledged: &mut Acknowledged,
) -> Result<(), StoreError> {
    match step {
        Step::Tick(subs) => {
            let mut batch = Vec::new();
            let mut leaves = Vec::new();
            for (sub, expected) in subs.iter().zip(expected) {
                let mut blobs = Vec::new();
                for (round, class, bytes) in &sub.blobs {
                    match put(store, *round, *class, bytes) {
                        Err(StoreError::Deleted { round: found }) if found == *round => {
                            assert_eq!(*expected, None);
                        }
                        blob => blobs.push(blob?),
                    }
                }
                if blobs.len() < sub.blobs.len() {
                    continue;
                }
                let changes = sub.changes.iter().map(|(namespace, key, what)| Change {
                    namespace: (*namespace).to_owned(),
                    key: key.clone(),
                    what: what.clone(),
                });
                batch.push(Submission { leaf: sub.leaf.clone(), blobs, changes: changes.collect() });
                leaves.push((sub.leaf.clone().unwrap_or_default(), *expected));
            }
            let outcomes = sequencer.tick(NOW, &batch)?;
            assert_eq!(outcomes.len(), batch.len());
            for ((leaf, expected), outcome) in leaves.into_iter().zip(outcomes) {
                match (outcome, expected) {
                    (Ok(committed), Some(index)) => {
                        assert_eq!(committed.leaf.as_ref().map(Receipt::index), index);
                        acknowledged.committed.push((leaf, committed));
                    }
                    (Err(StoreError::KeyExists { .. }), None) => {}
                    (outcome, expected) => panic!("{outcome:?}, expected {expected:?}"),
                }
            }
            Ok(())
        }
        Step::Cosign => {
            let size = sequencer.head().size;
            sequencer.add_cosignatures(size, &[witness_line()]).map(drop)
        }
        Step::Delete(round) => store.delete_round(*round),
        Step::SyncTiles => sequencer.sync_tiles(4).map(drop),
    }
}

/// Reads everything that the model has an opinion on.
pub fn observe(store: &Store, of: &State) -> State {
    let size = store.checkpoint().unwrap().text().lines().nth(1).unwrap().parse().unwrap();
    let leaves: Vec<_> = (0..size).map(|index| store.leaf(index).unwrap()).collect();
    let mut blobs = BTreeMap::new();
    for digest in of.blobs.keys() {
        match store.len(digest) {
            Ok(len) => drop(blobs.insert(*digest, Some(store.get(digest, 0..len).unwrap()))),
            Err(StoreError::Deleted { .. }) => drop(blobs.insert(*digest, None)),
            Err(StoreError::NotFound) => {}
            Err(error) => panic!("{error}"),
        }
    }
    let mut values = BTreeMap::new();
    for namespace in ["posts", "rounds"] {
        for (key, value) in store.values(namespace, (Bound::Unbounded, Bound::Unbounded), 1000).unwrap() {
            values.insert((namespace, key), value);
        }
    }
    let cosigned = (0..=size).filter(|size| {
        let note = store.checkpoint_of(*size).unwrap();
        note.is_some_and(|note| {
            note.signatures().iter().any(|line| line.name().as_str() == "witness.example")
        })
    });
    let cosigned = cosigned.collect();
    State { leaves, blobs, values, cosigned }
}

/// A script that has everything once, and crosses the end of a tile.
pub fn script() -> Vec<Step> {
    let leaf = |number: u64| Some(format!("leaf {number}").into_bytes());
    let body = |number: u8, len: usize| vec![number; len];
    let first = (0..254).map(|number| Sub { leaf: leaf(number), ..Sub::default() }).collect();
    let post = |number: u64, key: &[u8], round, bytes: Vec<u8>| Sub {
        leaf: leaf(number),
        blobs: vec![(round, Class::Posts, bytes)],
        changes: vec![("posts", key.to_vec(), What::PutNewWithIndex(b"v".to_vec()))],
    };
    let opening = |round, bytes: Vec<u8>| Sub {
        leaf: None,
        blobs: vec![(round, Class::Openings, bytes)],
        changes: vec![("rounds", b"o".to_vec(), What::Put(b"1".to_vec()))],
    };
    vec![
        Step::Tick(first),
        Step::Tick(vec![opening(1, body(1, 1500)), post(300, b"a", 1, body(2, 2000))]),
        Step::Tick(vec![
            post(301, b"b", 1, body(3, 1900)),
            post(302, b"a", 1, body(4, 100)),
            post(303, b"c", 2, body(5, 0)),
            post(304, b"d", 2, body(2, 2000)),
        ]),
        Step::Cosign,
        Step::Delete(1),
        Step::SyncTiles,
        Step::Tick(vec![
            post(305, b"e", 1, body(6, 10)),
            post(306, b"f", 2, body(7, 1200)),
            Sub { changes: vec![("rounds", b"o".to_vec(), What::Remove)], ..Sub::default() },
        ]),
    ]
}
