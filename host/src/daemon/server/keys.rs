//! What a server keeps: its keys, its guard, and the life of its epochs' envelope keys.

use crate::config::{Deployment, ServerConfig, cosigner, resolve, signing_key};
use crate::daemon::party::{data_disk, identities};
use crate::state::{Credential, EpochKeyError, EpochKeys, KeyState, ReleaseGuard, State, WitnessState};
use crate::store::disk::Disk;
use anyhow::Context as _;
use panetiere::fault::Fault as _;
use panetiere::ids::{EpochDigest, EpochId, ServerId};
use panetiere::protocol::{AnswerLog, ServerIdentity};
use panetiere::sig::SigningKey;
use panetiere_api::round::{Record, Session};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tlog::key::Cosigner;
use tokio::time::Instant;

/// The keys and the memory of a server. Used on threads that may wait for the disk.
pub(super) struct Keys {
    pub id: ServerId,
    pub path: PathBuf,
    signing: SigningKey,
    pub cosigner: Cosigner,
    pub guard: Arc<ReleaseGuard>,
    pub witness: WitnessState,
    epochs: EpochKeys,
    grace: Duration,
    /// Since when epochs are seen to be over.
    over: BTreeMap<EpochId, Instant>,
}

/// What a reader knows of an epoch.
pub(super) struct EpochView {
    number: EpochId,
    digest: EpochDigest,
    over: bool,
}

impl EpochView {
    /// The epochs of a record, the latest last.
    pub fn all(record: &Record) -> Vec<Self> {
        let mut digests: Vec<EpochDigest> = record.rounds().map(|session| *session.epoch()).collect();
        digests.extend(record.epoch().map(|epoch| *epoch.digest()));
        digests.dedup();
        let latest = record.epoch().map(|epoch| epoch.plan().document.number());
        let view = |digest: EpochDigest| {
            let epoch = record.epoch_of(&digest)?;
            let number = epoch.plan().document.number();
            let ends = latest.is_some_and(|latest| number < latest) || epoch.rounds_left() == 0;
            let done = |session: &Session| session.result().is_some() || session.is_called_off();
            let over = ends && record.rounds().filter(|session| *session.epoch() == digest).all(done);
            Some(Self { number, digest, over })
        };
        digests.into_iter().filter_map(view).collect()
    }
}

impl Keys {
    pub fn open(config_path: &Path, config: &ServerConfig, deployment: &Deployment) -> anyhow::Result<Self> {
        let (path, disk) = data_disk(config_path, &config.data_dir)?;
        let state = State::open(&*disk).context("the server's state")?;
        let credential = Credential::from_file(&resolve(config_path, &config.envelope_credential_file))?;
        let disk = disk as Arc<dyn Disk>;
        let (epochs, leftovers) =
            EpochKeys::open(Arc::clone(&state), disk, deployment.anchor.deployment, credential)?;
        for epoch in leftovers.lost {
            crate::safe_warn!("the key of an epoch has lost its file", epoch = epoch);
        }
        Ok(Self {
            id: ServerId(config.index),
            path,
            signing: signing_key(&resolve(config_path, &config.signing_key_file))?,
            cosigner: cosigner(&resolve(config_path, &config.cosigner_key_file))?,
            guard: Arc::new(ReleaseGuard::new(Arc::clone(&state))),
            witness: WitnessState::new(state),
            epochs,
            grace: Duration::from_secs(config.key_grace_s.into()),
            over: BTreeMap::new(),
        })
    }

    fn signing(&self) -> SigningKey {
        SigningKey::from_scalar(&self.signing.expose_scalar()).expect("the scalar of a key")
    }

    /// The server in the epochs that begin in these entries, as far as it has their keys.
    pub fn identities(&self, entries: &[Vec<u8>]) -> Vec<(Arc<ServerIdentity>, EpochDigest)> {
        identities(entries, |document| {
            let guard = Arc::clone(&self.guard) as Arc<dyn AnswerLog>;
            let sits_out = |error: &EpochKeyError| {
                let (epoch, code) = (document.number(), error.code());
                if !matches!(error, EpochKeyError::Gone { .. }) {
                    crate::safe_warn!("this server sits out an epoch", epoch = epoch, code = code);
                }
            };
            self.epochs.identity(document, self.id, self.signing(), guard).inspect_err(sits_out).ok()
        })
    }

    /// Moves the keys on in their lives. Returns the epochs to be retired: their keys are destroyed by
    /// [`destroy`](Self::destroy) once nobody uses them.
    ///
    /// # Errors
    /// If the state cannot be used.
    pub fn look_after(
        &mut self,
        epochs: &[EpochView],
    ) -> anyhow::Result<Vec<(EpochId, Option<EpochDigest>)>> {
        let Some(oldest) = epochs.iter().map(|epoch| epoch.number).min() else { return Ok(Vec::new()) };
        let mut retired = Vec::new();
        for (number, state) in self.epochs.states()? {
            if state == KeyState::Destroyed {
                continue;
            }
            let Some(epoch) = epochs.iter().find(|epoch| epoch.number == number) else {
                // The record has forgotten it, with its rounds; or it was never begun, and cannot be any more.
                if number < oldest {
                    retired.push((number, None));
                }
                continue;
            };
            if !epoch.over {
                if state < KeyState::Active {
                    self.epochs.advance(number, KeyState::Active)?;
                }
                continue;
            }
            if state < KeyState::Expired {
                self.epochs.advance(number, KeyState::Expired)?;
            }
            let since = *self.over.entry(number).or_insert_with(Instant::now);
            if since.elapsed() >= self.grace {
                retired.push((number, Some(epoch.digest)));
            }
        }
        Ok(retired)
    }

    /// Destroys the key of an epoch for good.
    ///
    /// # Errors
    /// If the state cannot be used, or the key's file not be erased.
    pub fn destroy(&mut self, epoch: EpochId) -> anyhow::Result<()> {
        self.epochs.destroy(epoch)?;
        self.over.remove(&epoch);
        crate::safe_info!("the envelope key of an epoch is destroyed", epoch = epoch);
        Ok(())
    }

    /// Whether there is a key that can be used: for `/readyz`.
    pub fn alive(&self) -> Result<usize, String> {
        match self.epochs.alive() {
            Ok(alive) if alive.is_empty() => Err("no epoch's envelope key is here".to_owned()),
            Ok(alive) => Ok(alive.len()),
            Err(error) => Err(crate::chain::chain(&error)),
        }
    }
}
