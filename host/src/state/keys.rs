//! The envelope keys, one an epoch: kept wrapped while they are needed, then destroyed for good.
//!
//! A recorded envelope can be opened for as long as its server's key exists anywhere. So the key of an epoch is kept in
//! two places that are each useless alone. In the database is the seed, sealed; a database never forgets what it once
//! wrote to a page, nor do backups of it. In a file of its own are 32 random bytes that exist nowhere else. The wrapping
//! key comes from both that file and the server's [`Credential`]; it seals one seed, once. To destroy the epoch is to
//! mark it in the database, to overwrite the file, and to unlink it. What is left is a sealed seed without its key.
//!
//! Overwriting reaches the medium only where the file system writes in place and the disk does not remap. Journals of
//! data, copy-on-write file systems and flash may keep the 32 bytes for a time. Where that matters the files' directory
//! lies in memory (`/run`): then a reboot loses the running epoch's key, and this server sits out the rest of that epoch.
//! Either way, the directory is never to be backed up.

use super::{Change, Credential, State, StateError, Table, read};
use crate::store::disk::{self, Access, Disk};
use aes_gcm::aead::AeadInOut as _;
use aes_gcm::{Aes256Gcm, KeyInit as _};
use hkdf::Hkdf;
use panetiere::bulletin::{Epoch, EpochServer};
use panetiere::ids::{DeploymentId, EpochId, ServerId};
use panetiere::pke::{PrivateKey, PublicKey};
use panetiere::protocol::{AnswerLog, ServerIdentity};
use panetiere::sig::SigningKey;
use panetiere::wire::{DecodeErrorKind, Encode as _, Reader};
use rand_core::CryptoRng;
use redb::TableDefinition;
use sha2::Sha256;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io;
use std::sync::Arc;
use zeroize::Zeroizing;

mod error;
#[cfg(test)]
mod tests;

pub use error::EpochKeyError;

const EPOCH_KEYS: Table = TableDefinition::new("epoch keys");

/// Where the files lie.
const DIRECTORY: &str = "epoch-keys";

/// Bytes of an epoch's file.
const FILE_LEN: usize = 32;

const TAG_LEN: usize = 16;
const LABEL: &[u8] = b"panetiere/epoch-key/v1";

/// Where an epoch's key is in its life. It only goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum KeyState {
    /// Made, and perhaps named in a document; nothing is sealed to it yet.
    Pending = 1,
    /// Clients seal to it.
    Active = 2,
    /// Nobody seals to it any more; rounds of its epoch are still being recovered.
    Expired = 3,
    /// It is nowhere any more.
    Destroyed = 4,
}

impl fmt::Display for KeyState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Pending => "pending",
            Self::Active => "active",
            Self::Expired => "expired",
            Self::Destroyed => "destroyed",
        })
    }
}

/// What a start found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Leftovers {
    /// Files that the database knows nothing of, now moved aside as `EPOCH.key.N.aside`: a crash left them of keys that
    /// never came to be, and then they open nothing; or the database is a restored backup, and the keys that they belong
    /// to are in a newer one. Erased with the key of their epoch.
    pub aside: Vec<EpochId>,
    /// Files that a crash had left of keys that are destroyed: now erased.
    pub erased: Vec<EpochId>,
    /// Keys without their file: lost, as after a reboot if the files lie in memory. To be destroyed, or the directory to
    /// be mounted.
    pub lost: Vec<EpochId>,
}

/// What the database has of a key.
struct Wrapped {
    state: KeyState,
    /// The seed, sealed, and the tag; empty once it is destroyed.
    sealed: Vec<u8>,
}

impl Wrapped {
    fn to_bytes(&self) -> Vec<u8> {
        [&[self.state as u8], &self.sealed[..]].concat()
    }

    fn from_bytes(bytes: &[u8]) -> Result<Self, StateError> {
        let parse = |reader: &mut Reader<'_>| {
            let unknown = reader.fault("state", DecodeErrorKind::OutOfRange);
            let state = match reader.u8("state")? {
                1 => KeyState::Pending,
                2 => KeyState::Active,
                3 => KeyState::Expired,
                4 => KeyState::Destroyed,
                _ => return Err(unknown),
            };
            let len = if state == KeyState::Destroyed { 0 } else { PrivateKey::SEED_LEN + TAG_LEN };
            Ok(Self { state, sealed: reader.take(len, "sealed seed")?.to_vec() })
        };
        read("epoch key", bytes, parse)
    }
}

/// Key in the table: big-endian, so that the order is that of the epochs.
const fn place(epoch: EpochId) -> [u8; 4] {
    epoch.0.to_be_bytes()
}

fn path(epoch: EpochId) -> String {
    format!("{DIRECTORY}/{}", name(epoch))
}

fn name(epoch: EpochId) -> String {
    format!("{epoch}.key")
}

/// The epoch of a file's name, if it is one of ours: the file itself, or one that was moved aside.
fn epoch_of(name: &str) -> Option<EpochId> {
    let (epoch, rest) = name.split_once(".key")?;
    let aside = rest.strip_prefix('.').and_then(|rest| rest.strip_suffix(".aside"));
    let ours = rest.is_empty() || aside.is_some_and(|number| number.parse::<u32>().is_ok());
    epoch.parse().ok().filter(|_| ours)
}

/// The envelope keys of one server.
pub struct EpochKeys {
    state: Arc<State>,
    disk: Arc<dyn Disk>,
    deployment: DeploymentId,
    credential: Credential,
}

impl fmt::Debug for EpochKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EpochKeys({:?})", self.state)
    }
}

impl EpochKeys {
    /// The keys of a deployment's server, their files on `disk`: that of the state, or one in memory. Erases what an
    /// earlier process left of destroyed keys. What the database knows nothing of is moved aside and not erased: it may be
    /// the database that is wrong.
    ///
    /// # Errors
    /// `State`; `File` if a leftover cannot be erased or moved.
    pub fn open(
        state: Arc<State>,
        disk: Arc<dyn Disk>,
        deployment: DeploymentId,
        credential: Credential,
    ) -> Result<(Self, Leftovers), EpochKeyError> {
        let keys = Self { state, disk, deployment, credential };
        let at_directory = |source| EpochKeyError::File { epoch: EpochId(0), source };
        keys.disk.create_dir(DIRECTORY).map_err(at_directory)?;
        keys.disk.sync_dir("").map_err(at_directory)?;
        let states: BTreeMap<EpochId, KeyState> = keys.states()?.into_iter().collect();
        let names = keys.names().map_err(at_directory)?;
        let mut leftovers = Leftovers::default();
        for (epoch, found) in &names {
            match states.get(epoch) {
                Some(KeyState::Destroyed) if !leftovers.erased.contains(epoch) => {
                    keys.erase(*epoch)?;
                    leftovers.erased.push(*epoch);
                }
                None if *found == name(*epoch) => {
                    keys.set_aside(*epoch).map_err(|source| EpochKeyError::File { epoch: *epoch, source })?;
                    leftovers.aside.push(*epoch);
                }
                _ => {}
            }
        }
        let missing = |epoch: &EpochId| !names.contains(&(*epoch, name(*epoch)));
        leftovers.lost = keys.alive()?.into_iter().filter(missing).collect();
        Ok((keys, leftovers))
    }

    /// The files that are there, with their epochs, ascending.
    fn names(&self) -> io::Result<BTreeSet<(EpochId, String)>> {
        let names = self.disk.list(DIRECTORY)?.into_iter();
        Ok(names.filter_map(|found| Some((epoch_of(&found.name)?, found.name))).collect())
    }

    fn set_aside(&self, epoch: EpochId) -> io::Result<()> {
        let names = self.names()?;
        let aside = (0..u32::MAX).map(|number| format!("{}.{number}.aside", name(epoch)));
        let free = aside.into_iter().find(|aside| !names.contains(&(epoch, aside.clone())));
        let free = free.expect("a directory has fewer files");
        self.disk.rename(&path(epoch), &format!("{DIRECTORY}/{free}"))?;
        self.disk.sync_dir(DIRECTORY)
    }

    /// The epochs whose keys are not destroyed, ascending.
    ///
    /// # Errors
    /// If the state cannot be used.
    pub fn alive(&self) -> Result<Vec<EpochId>, StateError> {
        let states = self.states()?.into_iter();
        Ok(states.filter(|(_, state)| *state != KeyState::Destroyed).map(|(epoch, _)| epoch).collect())
    }

    /// All epochs that ever had a key here, ascending, and where each is.
    ///
    /// # Errors
    /// If the state cannot be used.
    pub fn states(&self) -> Result<Vec<(EpochId, KeyState)>, StateError> {
        let rows = self.state.all(EPOCH_KEYS)?;
        let rows = rows.into_iter().map(|(key, value)| {
            let epoch = read("epoch", &key, |reader| reader.array("epoch"))?;
            Ok((EpochId(u32::from_be_bytes(epoch)), Wrapped::from_bytes(&value)?.state))
        });
        rows.collect()
    }

    fn wrapped(&self, epoch: EpochId) -> Result<Wrapped, EpochKeyError> {
        let bytes = self.state.get(EPOCH_KEYS, &place(epoch))?;
        Ok(Wrapped::from_bytes(&bytes.ok_or(EpochKeyError::Unknown { epoch })?)?)
    }

    /// Makes the key of an epoch that has none: pending. Its number has to be above those of all destroyed keys, so that
    /// one that was destroyed cannot come back as another one.
    ///
    /// # Errors
    /// `Exists`; `File`, `State`: then there is no key, whatever is left of it.
    pub fn create(
        &self,
        epoch: EpochId,
        rng: &mut (impl CryptoRng + ?Sized),
    ) -> Result<PublicKey, EpochKeyError> {
        let used = |(other, state): &(EpochId, KeyState)| {
            *other == epoch || (*other > epoch && *state == KeyState::Destroyed)
        };
        if self.states()?.iter().any(used) {
            return Err(EpochKeyError::Exists { epoch });
        }
        let mut file_key = Zeroizing::new([0; FILE_LEN]);
        rng.fill_bytes(&mut *file_key);
        let key = PrivateKey::generate(rng);
        let sealed = self.seal(epoch, &file_key, &key);
        self.write_file(epoch, &file_key).map_err(|source| EpochKeyError::File { epoch, source })?;
        self.state.update(|writer| {
            // Nothing but this type writes the table, but two of them may be at it.
            if writer.get(EPOCH_KEYS, &place(epoch))?.is_some() {
                return Err(EpochKeyError::Exists { epoch });
            }
            let wrapped = Wrapped { state: KeyState::Pending, sealed };
            writer.put(EPOCH_KEYS, &place(epoch), &wrapped.to_bytes())?;
            Ok(Change::Commit(()))
        })?;
        Ok(key.public_key())
    }

    fn write_file(&self, epoch: EpochId, file_key: &[u8; FILE_LEN]) -> io::Result<()> {
        let file = self.disk.open(&path(epoch), Access::Create)?;
        file.set_len(0)?;
        file.write_at(0, file_key)?;
        file.sync_data()?;
        self.disk.sync_dir(DIRECTORY)
    }

    /// The AEAD key and nonce from the epoch's file and the credential. They seal one seed.
    fn wrapping_key(
        &self,
        epoch: EpochId,
        file_key: &[u8; FILE_LEN],
    ) -> (Zeroizing<[u8; 32]>, Zeroizing<[u8; 12]>) {
        let mut okm = Zeroizing::new([0; 44]);
        Hkdf::<Sha256>::new(Some(file_key), self.credential.expose())
            .expand(&self.context(epoch), &mut *okm)
            .expect("44 bytes are less than 255 * 32");
        let (key, nonce) = okm.split_first_chunk().expect("44 bytes hold a key of 32");
        (Zeroizing::new(*key), Zeroizing::new(nonce.try_into().expect("12 of 44 bytes are left")))
    }

    fn context(&self, epoch: EpochId) -> Vec<u8> {
        let mut context = LABEL.to_vec();
        self.deployment.encode(&mut context);
        epoch.encode(&mut context);
        context
    }

    fn seal(&self, epoch: EpochId, file_key: &[u8; FILE_LEN], key: &PrivateKey) -> Vec<u8> {
        let (aead, nonce) = self.wrapping_key(epoch, file_key);
        let mut seed = key.expose_seed();
        let tag = Aes256Gcm::new((&*aead).into())
            .encrypt_inout_detached((&*nonce).into(), &self.context(epoch), seed.as_mut_slice().into())
            .expect("a seed is within AES-GCM's limit");
        [&seed[..], &tag[..]].concat()
    }

    /// The key of an epoch, as long as there is one.
    ///
    /// # Errors
    /// `Unknown`, `Gone`, `File`, `Unwrappable`, `State`.
    pub fn private_key(&self, epoch: EpochId) -> Result<PrivateKey, EpochKeyError> {
        let Wrapped { state, sealed } = self.wrapped(epoch)?;
        if state == KeyState::Destroyed {
            return Err(EpochKeyError::Gone { epoch });
        }
        let limit = u64::try_from(FILE_LEN).expect("a small constant");
        let file = disk::read(&*self.disk, &path(epoch), limit).map(Zeroizing::new);
        let file = file.map_err(|source| EpochKeyError::File { epoch, source })?;
        let file_key = <&[u8; FILE_LEN]>::try_from(&file[..]);
        let file_key = file_key.map_err(|_| EpochKeyError::Unwrappable { epoch })?;
        let (aead, nonce) = self.wrapping_key(epoch, file_key);
        let (seed, tag) =
            sealed.split_first_chunk::<{ PrivateKey::SEED_LEN }>().expect("checked when it was read");
        let tag: &[u8; TAG_LEN] = tag.try_into().expect("checked when it was read");
        let mut seed = Zeroizing::new(*seed);
        Aes256Gcm::new((&*aead).into())
            .decrypt_inout_detached(
                (&*nonce).into(),
                &self.context(epoch),
                seed.as_mut_slice().into(),
                tag.into(),
            )
            .map_err(|_| EpochKeyError::Unwrappable { epoch })?;
        Ok(PrivateKey::from_seed(&seed))
    }

    /// This server's entry for an epoch's document: the envelope key, signed.
    ///
    /// # Errors
    /// As [`private_key`](Self::private_key).
    pub fn entry(
        &self,
        epoch: EpochId,
        server: ServerId,
        identity: &SigningKey,
    ) -> Result<EpochServer, EpochKeyError> {
        let key = self.private_key(epoch)?.public_key();
        Ok(EpochServer::sign(&self.deployment, epoch, server, key, identity))
    }

    /// This server in an epoch. Dropping it wipes the key from memory; whoever destroys the key drops it first.
    ///
    /// # Errors
    /// As [`private_key`](Self::private_key); `Epoch` if the document names other keys.
    pub fn identity(
        &self,
        epoch: &Epoch,
        server: ServerId,
        signing_key: SigningKey,
        answers: Arc<dyn AnswerLog>,
    ) -> Result<ServerIdentity, EpochKeyError> {
        let key = self.private_key(epoch.number())?;
        ServerIdentity::new(server, key, signing_key, epoch, answers).map_err(EpochKeyError::Epoch)
    }

    /// Brings a key to `Active` or `Expired`, or leaves it there. To destroy it there is [`destroy`](Self::destroy).
    ///
    /// # Errors
    /// `Backwards`, also for `Pending` and `Destroyed`; `Unknown`, `State`.
    pub fn advance(&self, epoch: EpochId, asked: KeyState) -> Result<(), EpochKeyError> {
        self.state.update(|writer| {
            let bytes = writer.get(EPOCH_KEYS, &place(epoch))?.ok_or(EpochKeyError::Unknown { epoch })?;
            let wrapped = Wrapped::from_bytes(&bytes)?;
            let found = wrapped.state;
            if found == asked {
                return Ok(Change::Nothing(()));
            }
            if found > asked || asked == KeyState::Destroyed {
                return Err(EpochKeyError::Backwards { epoch, found, asked });
            }
            writer.put(EPOCH_KEYS, &place(epoch), &Wrapped { state: asked, ..wrapped }.to_bytes())?;
            Ok(Change::Commit(()))
        })
    }

    /// Destroys the key of an epoch, for good: the seal, then the file that opens it. Of a key that is destroyed already,
    /// it erases what may be left.
    ///
    /// # Errors
    /// `Unknown`, `State`; `File` if the file cannot be erased: the key counts as destroyed but is not yet, and the next
    /// call or start tries again.
    pub fn destroy(&self, epoch: EpochId) -> Result<(), EpochKeyError> {
        self.state.update(|writer| {
            let bytes = writer.get(EPOCH_KEYS, &place(epoch))?.ok_or(EpochKeyError::Unknown { epoch })?;
            if Wrapped::from_bytes(&bytes)?.state == KeyState::Destroyed {
                return Ok::<_, EpochKeyError>(Change::Nothing(()));
            }
            let gone = Wrapped { state: KeyState::Destroyed, sealed: Vec::new() };
            writer.put(EPOCH_KEYS, &place(epoch), &gone.to_bytes())?;
            Ok(Change::Commit(()))
        })?;
        self.erase(epoch)
    }

    /// Erases the file of an epoch, and those that were moved aside.
    fn erase(&self, epoch: EpochId) -> Result<(), EpochKeyError> {
        let erased = || -> io::Result<()> {
            for (_, name) in self.names()?.iter().filter(|(of, _)| *of == epoch) {
                let path = format!("{DIRECTORY}/{name}");
                let file = self.disk.open(&path, Access::Write)?;
                let len = file.len()?;
                let zeros = vec![0; FILE_LEN.max(usize::try_from(len).unwrap_or(FILE_LEN).min(1 << 16))];
                file.write_at(0, &zeros)?;
                file.sync_data()?;
                drop(file);
                self.disk.remove(&path)?;
            }
            self.disk.sync_dir(DIRECTORY)
        };
        erased().map_err(|source| EpochKeyError::File { epoch, source })
    }
}
