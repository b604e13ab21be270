//! The life of an envelope key, and that its end is one.

use super::super::testing::{FAILURES, crashes};
use super::*;
use crate::store::disk::memory::MemoryDisk;
use crate::store::disk::{Kind, LocalDisk};
use panetiere::fault::Fault as _;
use panetiere::ids::{ClientId, SessionId};
use panetiere::pke::{EnvelopeContext, open, seal};
use panetiere::protocol::MemoryAnswers;
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng as _;
use std::path::Path;

const EPOCH: EpochId = EpochId(7);

fn rng(seed: u8) -> ChaCha20Rng {
    ChaCha20Rng::from_seed([seed; 32])
}

fn deployment() -> DeploymentId {
    DeploymentId::from_name("keys")
}

fn credential() -> Credential {
    Credential::new(Zeroizing::new([0x5c; 32]))
}

fn try_open(state: &dyn Disk, files: Arc<dyn Disk>) -> Result<(EpochKeys, Leftovers), EpochKeyError> {
    EpochKeys::open(State::open(state)?, files, deployment(), credential())
}

fn opened(disk: &MemoryDisk) -> EpochKeys {
    try_open(disk, Arc::new(disk.clone())).expect("opens after any crash").0
}

fn context() -> EnvelopeContext {
    let digest = "cd".repeat(32);
    EnvelopeContext {
        deployment: deployment(),
        epoch: digest.parse().unwrap(),
        session: SessionId::derive("log.example", 3, &[0; 32]),
        client: ClientId(1),
        server: ServerId(2),
        crs: digest.parse().unwrap(),
        root: digest.parse().unwrap(),
    }
}

#[test]
fn a_key_lives_once_and_forward() {
    let disk = MemoryDisk::new();
    let keys = opened(&disk);
    assert_eq!(keys.private_key(EPOCH).unwrap_err().code(), "epoch_key_unknown");
    let public = keys.create(EPOCH, &mut rng(1)).unwrap();
    assert_eq!(keys.create(EPOCH, &mut rng(2)).unwrap_err().code(), "epoch_key_exists");
    assert_eq!(keys.states().unwrap(), [(EPOCH, KeyState::Pending)]);
    for state in [KeyState::Active, KeyState::Active, KeyState::Expired] {
        keys.advance(EPOCH, state).unwrap();
        assert_eq!(keys.states().unwrap(), [(EPOCH, state)]);
        assert_eq!(keys.private_key(EPOCH).unwrap().public_key(), public);
    }
    for state in [KeyState::Pending, KeyState::Active, KeyState::Destroyed] {
        assert_eq!(keys.advance(EPOCH, state).unwrap_err().code(), "epoch_key_backwards");
    }
    // The next one comes while this one is still there; it opens nothing of this one.
    keys.create(EpochId(8), &mut rng(3)).unwrap();
    let sealed = seal(&mut rng(4), &public, &context(), b"opening");
    assert_eq!(*open(&keys.private_key(EPOCH).unwrap(), &context(), &sealed).unwrap(), b"opening");
    assert!(open(&keys.private_key(EpochId(8)).unwrap(), &context(), &sealed).is_err());

    keys.destroy(EPOCH).unwrap();
    keys.destroy(EPOCH).unwrap();
    assert_eq!(keys.private_key(EPOCH).unwrap_err().code(), "epoch_key_gone");
    assert_eq!(keys.advance(EPOCH, KeyState::Active).unwrap_err().code(), "epoch_key_backwards");
    for epoch in [0, 6, 7] {
        assert_eq!(keys.create(EpochId(epoch), &mut rng(1)).unwrap_err().code(), "epoch_key_exists");
    }
    keys.create(EpochId(9), &mut rng(5)).unwrap();
    drop(keys);
    let keys = opened(&disk);
    let states =
        [(EPOCH, KeyState::Destroyed), (EpochId(8), KeyState::Pending), (EpochId(9), KeyState::Pending)];
    assert_eq!(keys.states().unwrap(), states);
    assert!(keys.private_key(EpochId(8)).is_ok());
}

#[test]
fn the_document_is_made_of_it_and_the_server_is_found_in_it() {
    let disk = MemoryDisk::new();
    let keys = opened(&disk);
    let signing = SigningKey::generate(&mut rng(8));
    keys.create(EPOCH, &mut rng(1)).unwrap();
    let entry = keys.entry(EPOCH, ServerId(0), &signing).unwrap();
    let epoch = Epoch::new(deployment(), EPOCH, vec![entry]).unwrap();
    let again = SigningKey::from_scalar(&signing.expose_scalar()).unwrap();
    let identity = keys.identity(&epoch, ServerId(0), again, MemoryAnswers::fresh()).unwrap();
    assert_eq!(identity.id(), ServerId(0));
    // Another key for the same epoch, as after a state that was lost.
    let other = opened(&MemoryDisk::new());
    other.create(EPOCH, &mut rng(2)).unwrap();
    let refused = other.identity(&epoch, ServerId(0), signing, MemoryAnswers::fresh()).unwrap_err();
    assert_eq!(refused.code(), "epoch_foreign_keys");
}

/// All bytes below a directory of a disk.
fn contents(disk: &dyn Disk, directory: &str) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    for name in disk.list(directory).unwrap() {
        let path = if directory.is_empty() { name.name } else { format!("{directory}/{}", name.name) };
        match name.kind {
            Kind::Directory => found.extend(contents(disk, &path)),
            Kind::File => found.push((path.clone(), disk::read(disk, &path, 1 << 30).unwrap())),
        }
    }
    found
}

fn holds(files: &[(String, Vec<u8>)], needle: &[u8]) -> bool {
    files.iter().any(|(_, bytes)| bytes.windows(needle.len()).any(|window| window == needle))
}

#[test]
fn a_destroyed_key_is_in_no_file_and_the_old_envelopes_stay_shut() {
    let directory = tempfile::tempdir().unwrap();
    let disk = || Arc::new(LocalDisk::new(directory.path()));
    let open_keys = || try_open(&*disk(), disk()).unwrap().0;
    let keys = open_keys();
    let public = keys.create(EPOCH, &mut rng(1)).unwrap();
    keys.create(EpochId(8), &mut rng(2)).unwrap();
    keys.advance(EPOCH, KeyState::Active).unwrap();
    let sealed = seal(&mut rng(4), &public, &context(), b"opening");

    let private = keys.private_key(EPOCH).unwrap();
    let seed = private.expose_seed();
    let file: [u8; 32] = disk::read(&*disk(), &path(EPOCH), 32).unwrap().try_into().unwrap();
    let (wrapping, _) = keys.wrapping_key(EPOCH, &file);
    let record = keys.wrapped(EPOCH).unwrap().sealed;
    drop(keys);
    let before = contents(&*disk(), "");
    // Sealed it is there, open it never was; and the search finds what is there.
    assert!(holds(&before, &record) && holds(&before, &file));
    for secret in [&seed[..], &seed[..32], &seed[32..], &wrapping[..], credential().expose()] {
        assert!(!holds(&before, secret));
    }

    let keys = open_keys();
    keys.destroy(EPOCH).unwrap();
    drop((keys, private));
    let after = contents(&*disk(), "");
    for secret in [&file[..], &file[..16], &seed[..32], &seed[32..], &wrapping[..]] {
        assert!(!holds(&after, secret));
    }
    assert!(after.iter().all(|(name, _)| !name.contains("7.key")), "the file has gone");

    let keys = open_keys();
    assert_eq!(keys.private_key(EPOCH).unwrap_err().code(), "epoch_key_gone");
    // Whoever still has the sealed seed and the credential guesses 32 bytes in vain: any other file does not open it.
    for guess in [[0; 32], wrapping_guess(&file)] {
        let (aead, nonce) = keys.wrapping_key(EPOCH, &guess);
        let mut copy = record.clone();
        let (body, tag) = copy.split_last_chunk_mut::<TAG_LEN>().unwrap();
        let tag = *tag;
        let opened = Aes256Gcm::new((&*aead).into()).decrypt_inout_detached(
            (&*nonce).into(),
            &keys.context(EPOCH),
            body.into(),
            (&tag).into(),
        );
        assert!(opened.is_err());
    }
    // The keys that are left do not open what was sealed to the one that is gone.
    assert!(open(&keys.private_key(EpochId(8)).unwrap(), &context(), &sealed).is_err());
    assert_owner_only(directory.path());
}

fn wrapping_guess(file: &[u8; 32]) -> [u8; 32] {
    let mut guess = *file;
    guess[31] ^= 1;
    guess
}

fn assert_owner_only(directory: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    let file = directory.join(path(EpochId(8)));
    assert_eq!(std::fs::metadata(file).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn a_key_is_whole_or_absent_after_a_crash_while_it_is_made() {
    let run = |disk: &MemoryDisk| {
        let (keys, _) = try_open(disk, Arc::new(disk.clone())).ok()?;
        keys.create(EPOCH, &mut rng(1)).ok()
    };
    let clean = MemoryDisk::new();
    let public = run(&clean).unwrap();
    for effect in 0..clean.effects() {
        for failure in FAILURES {
            let disk = MemoryDisk::new();
            disk.fail(effect, failure);
            let made = run(&disk);
            for crash in crashes(effect) {
                let disk = disk.crashed(crash);
                let keys = opened(&disk);
                let at = format!("effect {effect}, {failure:?}, {crash:?}");
                match keys.private_key(EPOCH) {
                    Ok(key) => assert_eq!(key.public_key(), public, "{at}"),
                    Err(error) => {
                        assert!(made.is_none(), "{at}: {error}");
                        assert_eq!(error.code(), "epoch_key_unknown", "{at}");
                        let file = name(EPOCH);
                        assert!(disk.list(DIRECTORY).unwrap().iter().all(|found| found.name != file), "{at}");
                        keys.create(EPOCH, &mut rng(2)).unwrap();
                        keys.destroy(EPOCH).unwrap();
                        assert!(disk.list(DIRECTORY).unwrap().is_empty(), "nothing is left aside: {at}");
                    }
                }
            }
        }
    }
}

#[test]
fn a_destroyed_key_stays_destroyed_after_any_crash() {
    let made = MemoryDisk::new();
    let keys = opened(&made);
    let public = keys.create(EPOCH, &mut rng(1)).unwrap();
    let file = disk::read(&made, &path(EPOCH), 32).unwrap();
    keys.advance(EPOCH, KeyState::Expired).unwrap();
    drop(keys);
    let run = |disk: &MemoryDisk| {
        try_open(disk, Arc::new(disk.clone())).and_then(|(keys, _)| keys.destroy(EPOCH)).is_ok()
    };
    let clean = made.snapshot();
    assert!(run(&clean));
    let (mut destroyed, mut kept, mut swept) = (0, 0, 0);
    for effect in 0..clean.effects() {
        for failure in FAILURES {
            let disk = made.snapshot();
            disk.fail(effect, failure);
            let done = run(&disk);
            for crash in crashes(effect) {
                let disk = disk.crashed(crash);
                let at = format!("effect {effect}, {failure:?}, {crash:?}");
                if done {
                    // At once, before anybody starts.
                    assert!(!holds(&contents(&disk, ""), &file), "{at}");
                }
                let (keys, leftovers) =
                    try_open(&disk, Arc::new(disk.clone())).expect("opens after any crash");
                swept += leftovers.erased.len();
                match keys.private_key(EPOCH) {
                    Ok(key) => {
                        assert!(!done, "{at}");
                        assert_eq!(key.public_key(), public, "{at}");
                        kept += 1;
                    }
                    Err(error) => {
                        assert_eq!(error.code(), "epoch_key_gone", "{at}");
                        assert!(!holds(&contents(&disk, ""), &file), "{at}");
                        destroyed += 1;
                    }
                }
                keys.destroy(EPOCH).unwrap();
                assert_eq!(keys.create(EPOCH, &mut rng(2)).unwrap_err().code(), "epoch_key_exists", "{at}");
            }
        }
    }
    assert!(destroyed > 0 && kept > 0 && swept > 0, "{destroyed} {kept} {swept}");
}

#[test]
fn a_backup_of_the_database_alone_brings_no_key_back() {
    let (disk, files) = (MemoryDisk::new(), MemoryDisk::new());
    let open_at = |disk: &MemoryDisk| try_open(disk, Arc::new(files.clone())).unwrap();
    let (keys, _) = open_at(&disk);
    keys.create(EPOCH, &mut rng(1)).unwrap();
    drop(keys);
    let backup = disk.snapshot();
    let (keys, _) = open_at(&disk);
    keys.destroy(EPOCH).unwrap();
    drop(keys);
    let (keys, leftovers) = open_at(&backup);
    assert_eq!(leftovers, Leftovers { lost: vec![EPOCH], ..Leftovers::default() });
    assert_eq!(keys.private_key(EPOCH).unwrap_err().code(), "epoch_key_file");
    keys.destroy(EPOCH).unwrap();
    assert_eq!(keys.private_key(EPOCH).unwrap_err().code(), "epoch_key_gone");
}

#[test]
fn an_old_database_does_not_erase_the_keys_that_it_does_not_know() {
    let (disk, files) = (MemoryDisk::new(), MemoryDisk::new());
    let open_at = |disk: &MemoryDisk| try_open(disk, Arc::new(files.clone())).unwrap();
    let backup = {
        drop(open_at(&disk));
        disk.snapshot()
    };
    let (keys, _) = open_at(&disk);
    let public = keys.create(EPOCH, &mut rng(1)).unwrap();
    drop(keys);
    let file = disk::read(&files, &path(EPOCH), 32).unwrap();
    // A backup from before comes back, and makes a key of the same number; then the same happens again.
    for number in 0..2 {
        let backup = backup.snapshot();
        let (keys, leftovers) = open_at(&backup);
        assert_eq!(leftovers, Leftovers { aside: vec![EPOCH], ..Leftovers::default() });
        assert!(
            files.list(DIRECTORY).unwrap().iter().any(|name| name.name == format!("7.key.{number}.aside"))
        );
        keys.create(EPOCH, &mut rng(2 + number)).unwrap();
    }
    // The newer database is found again: the file that belongs to it is still there.
    assert_eq!(disk::read(&files, &format!("{DIRECTORY}/7.key.0.aside"), 32).unwrap(), file);
    files.rename(&format!("{DIRECTORY}/7.key.0.aside"), &path(EPOCH)).unwrap();
    let (keys, leftovers) = open_at(&disk);
    assert_eq!(leftovers, Leftovers::default());
    assert_eq!(keys.private_key(EPOCH).unwrap().public_key(), public);
    // Destroyed is destroyed, wherever its file was.
    let other = files.open(&format!("{DIRECTORY}/7.key.5.aside"), Access::Create).unwrap();
    other.write_at(0, &file).unwrap();
    keys.destroy(EPOCH).unwrap();
    assert!(files.list(DIRECTORY).unwrap().is_empty());
    // As at the next start, should that be what is left of it.
    let other = files.open(&format!("{DIRECTORY}/7.key.5.aside"), Access::Create).unwrap();
    other.write_at(0, &file).unwrap();
    drop((keys, other));
    let (_, leftovers) = open_at(&disk);
    assert_eq!(leftovers, Leftovers { erased: vec![EPOCH], ..Leftovers::default() });
    assert!(files.list(DIRECTORY).unwrap().is_empty());
}

#[test]
fn another_credential_or_file_opens_nothing() {
    let disk = MemoryDisk::new();
    let keys = opened(&disk);
    keys.create(EPOCH, &mut rng(1)).unwrap();
    keys.create(EpochId(8), &mut rng(2)).unwrap();
    drop(keys);
    let other = Credential::new(Zeroizing::new([0x5d; 32]));
    let files: Arc<dyn Disk> = Arc::new(disk.clone());
    let (keys, _) = EpochKeys::open(State::open(&disk).unwrap(), files, deployment(), other).unwrap();
    assert_eq!(keys.private_key(EPOCH).unwrap_err().code(), "epoch_key_unwrappable");
    drop(keys);
    let keys = opened(&disk);
    let swapped = disk::read(&disk, &path(EpochId(8)), 32).unwrap();
    let file = disk.open(&path(EPOCH), Access::Write).unwrap();
    file.write_at(0, &swapped).unwrap();
    assert_eq!(keys.private_key(EPOCH).unwrap_err().code(), "epoch_key_unwrappable");
    file.set_len(31).unwrap();
    assert_eq!(keys.private_key(EPOCH).unwrap_err().code(), "epoch_key_unwrappable");
    assert!(keys.private_key(EpochId(8)).is_ok());
}
