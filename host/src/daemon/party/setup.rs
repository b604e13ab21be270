//! What a party opens when it starts.

use super::{Backoff, Upstream};
use crate::config::{TlsFiles, resolve, secret_text};
use crate::store::disk::LocalDisk;
use anyhow::Context as _;
use panetiere_api::round::{Blobs, Unavailable};
use panetiere_api::tls::identity;
use rustls::sign::CertifiedKey;
use std::collections::BTreeMap;
use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// A party's directory, made if it is not there, for its owner alone.
///
/// # Errors
/// The system's.
pub fn data_disk(config_path: &Path, data_dir: &Path) -> anyhow::Result<(PathBuf, Arc<LocalDisk>)> {
    let path = resolve(config_path, data_dir);
    directory(&path)?;
    Ok((path.clone(), Arc::new(LocalDisk::new(path))))
}

/// A directory for its owner alone, made if it is not there.
///
/// # Errors
/// The system's.
pub(crate) fn directory(path: &Path) -> anyhow::Result<()> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.with_context(|| format!("the directory {}", path.display()))
}

/// Certificate and key as text.
///
/// # Errors
/// If a file cannot be read, or others can read the key.
pub(super) fn pem(
    config_path: &Path,
    tls: &TlsFiles,
) -> anyhow::Result<(Vec<u8>, zeroize::Zeroizing<String>)> {
    let path = resolve(config_path, &tls.certificate_file);
    let certificate = fs::read(&path).with_context(|| format!("the certificate {}", path.display()))?;
    Ok((certificate, secret_text(&resolve(config_path, &tls.private_key_file))?))
}

/// Who a party is to others.
///
/// # Errors
/// If the files cannot be read, or hold no certificate and its key.
pub fn tls_identity(config_path: &Path, tls: &TlsFiles) -> anyhow::Result<Arc<CertifiedKey>> {
    let (certificate, key) = pem(config_path, tls)?;
    let path = resolve(config_path, &tls.certificate_file);
    identity(&certificate, key.as_bytes())
        .with_context(|| format!("the certificate {} and its key", path.display()))
}

/// Blobs that were fetched for the leaves that are being read.
#[derive(Debug, Default)]
pub struct Beside(Mutex<BTreeMap<[u8; 32], Vec<u8>>>);

impl Beside {
    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<[u8; 32], Vec<u8>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a blob, whose digest was checked.
    pub fn keep(&self, digest: [u8; 32], bytes: Vec<u8>) {
        self.lock().insert(digest, bytes);
    }

    /// Forgets all of them: the leaves are read.
    pub fn clear(&self) {
        self.lock().clear();
    }
}

impl Blobs for Beside {
    fn get(&self, digest: &[u8; 32], len: u64) -> Result<Vec<u8>, Unavailable> {
        let found = self.lock().get(digest).cloned();
        found.ok_or_else(|| Unavailable { digest: *digest, len, reason: "it was not fetched yet".to_owned() })
    }
}

/// Waits until the bulletin answers. Returns the size of its log.
///
/// # Errors
/// If it is not the one that the deployment names: waiting does not help then.
pub(super) async fn reach(upstream: &Upstream) -> anyhow::Result<u64> {
    let mut backoff = Backoff::default();
    loop {
        match upstream.size().await {
            Ok(size) => return Ok(size),
            Err(error) if error.is_wrong_server() => {
                return Err(error)
                    .context("the bulletin's key is none of those that the deployment's description pins");
            }
            Err(error) => {
                tracing::debug!(error = crate::chain::chain(&error), "the bulletin does not answer");
                backoff.wait().await;
            }
        }
    }
}
