//! A reader takes checkpoints that extend what it has read, and nothing else.

use panetiere::fault::{Attribution, Fault};
use panetiere::ids::ClientId;
use panetiere_api::follow::{FollowError, Follower};
use panetiere_api::leaf::{Expulsion, KeyRotation, Leaf};
use panetiere_api::round::NoBlobs;
use panetiere_api::testing::{MemoryBlobs, MemoryLog, Scene};
use tlog::key::NoteSigner;

fn scene() -> Scene {
    Scene::new(1, 4, 40, |shape| shape.servers(4))
}

/// A log with an epoch and some admissions.
fn log(scene: &Scene, clients: u32) -> MemoryLog {
    let mut log = MemoryLog::default();
    log.append(&scene.epoch_leaf(scene.plan()));
    for client in 0..clients {
        log.append(&scene.admission(ClientId(client)));
    }
    log
}

#[test]
fn a_reader_follows_a_log_that_grows() {
    let scene = scene();
    let mut reader = Follower::new(scene.record());
    let full = log(&scene, 4);
    for size in 1..=full.entries.len() {
        let mut prefix = MemoryLog::default();
        for entry in &full.entries[..size] {
            prefix.append_bytes(entry.clone());
        }
        let note = prefix.checkpoint(&scene.log_key());
        let applied = reader.advance(&note, &full.entries[size - 1..size], &NoBlobs).unwrap();
        assert!(applied.iter().all(|leaf| leaf.outcome.is_ok()));
        assert_eq!((reader.head(), applied.len()), (prefix.head(), 1));
        assert_eq!(reader.agrees(&prefix.head()), Some(true));
        assert!(reader.advance(&note, &[], &NoBlobs).unwrap().is_empty(), "the same checkpoint again");
    }
    assert_eq!(reader.record().epoch().unwrap().members().count(), 4);
    assert_eq!(reader.agrees(&log(&scene, 2).head()), Some(true), "an earlier head that was read");
}

#[test]
fn what_does_not_extend_what_was_read_is_refused() {
    let scene = scene();
    let (key, full) = (scene.log_key(), log(&scene, 4));
    let mut reader = Follower::new(scene.record());
    let short = log(&scene, 2);
    reader.advance(&short.checkpoint(&key), &short.entries, &NoBlobs).unwrap();
    let rest = &full.entries[3..];
    let stranger = NoteSigner::from_seed(panetiere_api::testing::ORIGIN.parse().unwrap(), &[9; 32]);
    let mut fork = log(&scene, 1);
    fork.append(&scene.admission(ClientId(3)));
    let mut longer_fork = fork.clone();
    longer_fork.append(&scene.admission(ClientId(2)));
    let mut swapped = rest.to_vec();
    swapped.swap(0, 1);
    let older = log(&scene, 1);
    let cases = [
        (full.checkpoint(&stranger), rest.to_vec(), "checkpoint_unsigned"),
        (full.checkpoint(&key), rest[..1].to_vec(), "follow_leaves"),
        (full.checkpoint(&key), full.entries.clone(), "follow_leaves"),
        (full.checkpoint(&key), swapped, "follow_root"),
        (longer_fork.checkpoint(&key), longer_fork.entries[3..].to_vec(), "follow_root"),
        (older.checkpoint(&key), vec![], "follow_older"),
        (fork.checkpoint(&key), vec![], "follow_split_view"),
    ];
    let before = reader.head();
    for (note, entries, code) in cases {
        let error = reader.advance(&note, &entries, &NoBlobs).expect_err(code);
        assert_eq!(error.code(), code, "{error}");
        let named = matches!(error, FollowError::SplitView { .. });
        assert_eq!(error.attribution(), if named { Attribution::Operator } else { Attribution::Nobody });
        assert_eq!(reader.head(), before, "the reader stays where it was");
    }
    reader.advance(&full.checkpoint(&key), rest, &NoBlobs).unwrap();
    assert_eq!(reader.head(), full.head());
    assert_eq!(reader.agrees(&fork.head()), Some(false));
    assert_eq!(Leaf::parse(&full.entries[0]).unwrap().kind(), "epoch");
}

#[test]
fn a_reader_from_the_first_leaf_gets_over_a_replaced_key_of_the_log() {
    let scene = scene();
    let name = || panetiere_api::testing::ORIGIN.parse().unwrap();
    let (old, new) = (scene.log_key(), NoteSigner::from_seed(name(), &[7; 32]));
    let mut full = log(&scene, 2);
    let before = full.clone();
    let rotation = KeyRotation::log(scene.deployment(), &scene.operator, new.verifier().clone());
    full.append(&Leaf::KeyRotation(rotation));
    full.append(&scene.admission(ClientId(2)));
    let note = full.checkpoint(&new);
    // From nothing, and from before the rotation.
    let mut reader = Follower::new(scene.record());
    reader.advance(&note, &full.entries, &NoBlobs).unwrap();
    let mut follower = Follower::new(scene.record());
    follower.advance(&before.checkpoint(&old), &before.entries, &NoBlobs).unwrap();
    follower.advance(&note, &full.entries[3..], &NoBlobs).unwrap();
    assert_eq!((reader.head(), follower.head()), (full.head(), full.head()));
    // The old key still signs, a key that no leaf names never does, and one named by another operator neither.
    reader.advance(&full.checkpoint(&old), &[], &NoBlobs).unwrap();
    let stranger = NoteSigner::from_seed(name(), &[8; 32]);
    let mut forged = before.clone();
    forged.append(&Leaf::KeyRotation(KeyRotation::log(
        scene.deployment(),
        &scene.recipient,
        stranger.verifier().clone(),
    )));
    for (note, entries) in [
        (full.checkpoint(&stranger), &full.entries[3..]),
        (forged.checkpoint(&stranger), &forged.entries[3..]),
    ] {
        let mut follower = Follower::new(scene.record());
        follower.advance(&before.checkpoint(&old), &before.entries, &NoBlobs).unwrap();
        let error = follower.advance(&note, entries, &NoBlobs).unwrap_err();
        assert_eq!(error.code(), "checkpoint_unsigned");
        assert_eq!(follower.head(), before.head());
    }
}

#[test]
fn what_was_read_before_a_blob_was_missing_is_told_with_the_rest() {
    let scene = scene();
    let mut full = log(&scene, 4);
    let open = full.append(&Leaf::RoundOpen(scene.open(1)));
    let evidence = b"no evidence at all".to_vec();
    let (digest, len) = (*blake3::hash(&evidence).as_bytes(), 18);
    let session = full.session(open);
    let post = full.append(&Leaf::Post(scene.send(&session, ClientId(1), 0).post.signed().clone()));
    full.append(&Leaf::Expulsion(Expulsion { session, client: ClientId(1), evidence: digest, len }));
    full.append(&Leaf::RoundOpen(scene.open(2)));
    let note = full.checkpoint(&scene.log_key());
    let mut reader = Follower::new(scene.record());
    for _ in 0..2 {
        let rest = &full.entries[usize::try_from(reader.size()).unwrap()..];
        let error = reader.advance(&note, rest, &NoBlobs).unwrap_err();
        assert_eq!((error.code(), reader.size()), ("follow_unavailable", post + 1));
    }
    let mut blobs = MemoryBlobs::default();
    blobs.keep(evidence);
    let rest = &full.entries[usize::try_from(reader.size()).unwrap()..];
    let told = reader.advance(&note, rest, &blobs).unwrap();
    let mut whole = Follower::new(scene.record());
    assert_eq!(told, whole.advance(&note, &full.entries, &blobs).unwrap());
    assert_eq!(told.len(), full.entries.len());
    assert!(reader.advance(&note, &[], &blobs).unwrap().is_empty(), "and once");
}
