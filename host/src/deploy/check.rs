//! Looks a deployment's directory over: every file that a daemon will read, and whether they fit one another.

use super::DEPLOYMENT_FILE;
use crate::chain::chain;
use crate::config::{
    self, AggregatorConfig, BulletinConfig, ClientFile, ConfigError, Deployment, LaneConfig, Parties,
    RecipientConfig, ServerConfig, TlsFiles, WitnessConfig,
};
use panetiere_api::leaf::Leaf;
use panetiere_api::tls::{Facts, identity};
use std::path::{Path, PathBuf};

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What.
    pub what: String,
    /// What is wrong with it, and what to do; none if it is in order.
    pub wrong: Option<String>,
}

/// Days before a certificate's end from which on it is told.
const CERTIFICATE_DAYS: u64 = 14;

struct Checks {
    findings: Vec<Finding>,
    now: u64,
}

impl Checks {
    fn note(&mut self, what: impl Into<String>, outcome: Result<(), String>) {
        self.findings.push(Finding { what: what.into(), wrong: outcome.err() });
    }

    fn config<T>(&mut self, path: &Path, read: impl FnOnce(&Path) -> Result<T, ConfigError>) -> Option<T> {
        let outcome = read(path);
        let (value, outcome) = match outcome {
            Ok(value) => (Some(value), Ok(())),
            Err(error) => (None, Err(chain(&error))),
        };
        self.note(path.display().to_string(), outcome);
        value
    }

    fn tls(&mut self, path: &Path, files: &TlsFiles, pins: Option<&[String]>) {
        let certificate = config::resolve(path, &files.certificate_file);
        let outcome = (|| {
            let pem = std::fs::read(&certificate).map_err(|error| error.to_string())?;
            let key = config::secret_text(&config::resolve(path, &files.private_key_file));
            let key = key.map_err(|error| chain(&error))?;
            let identity = identity(&pem, key.as_bytes()).map_err(|error| chain(&error))?;
            let leaf = identity.end_entity_cert().map_err(|error| error.to_string())?;
            let facts = Facts::of(leaf).map_err(|error| chain(&error))?;
            let left = facts.validity.not_after.saturating_sub(self.now) / 86_400;
            if !facts.validity.contains(self.now) {
                return Err("out of its time: make a certificate of the same key, and send SIGHUP".to_owned());
            }
            if left < CERTIFICATE_DAYS {
                return Err(format!(
                    "{left} days are left: make a certificate of the same key, and send SIGHUP"
                ));
            }
            match pins {
                Some(pins) if !pins.contains(&facts.spki.to_string()) => {
                    Err(format!("its key {} is not pinned in {DEPLOYMENT_FILE}", facts.spki))
                }
                _ => Ok(()),
            }
        })();
        self.note(certificate.display().to_string(), outcome);
    }

    fn secret(&mut self, path: &Path, file: &Path, read: impl FnOnce(&Path) -> Result<(), ConfigError>) {
        let path = config::resolve(path, file);
        let outcome = read(&path).map_err(|error| chain(&error));
        self.note(path.display().to_string(), outcome);
    }
}

/// The directories of a role's parties: its name, alone or with an index.
fn parties_of(dir: &Path, role: &str) -> Vec<PathBuf> {
    let file = format!("{role}.toml");
    let mut found: Vec<PathBuf> = std::fs::read_dir(dir)
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path().join(&file)))
        .filter(|path| path.is_file())
        .collect();
    found.sort();
    found
}

/// Looks a deployment over; `now` is in seconds since 1970.
pub fn check(dir: &Path, now: u64) -> Vec<Finding> {
    let mut checks = Checks { findings: Vec::new(), now };
    let deployment = checks.config(&dir.join(DEPLOYMENT_FILE), Deployment::read);
    let Some(deployment) = deployment else { return checks.findings };
    checks.config(&dir.join("parties.toml"), Parties::read);
    for path in parties_of(dir, "bulletin") {
        let Some(config) = checks.config(&path, BulletinConfig::read) else { continue };
        checks.tls(&path, &config.tls, Some(&deployment.bulletin.pins));
        checks.secret(&path, &config.log_key_file, |file| config::log_key(file).map(drop));
        let epochs = config::resolve(&path, &config.epochs_dir);
        let read = std::fs::read_dir(&epochs).map_err(|error| error.to_string());
        let outcome = read.and_then(|entries| {
            let files = entries.filter_map(|entry| Some(entry.ok()?.path()));
            let epochs = files.filter(|file| file.extension().is_some_and(|extension| extension == "epoch"));
            let mut found = 0;
            for file in epochs {
                let bytes = std::fs::read(&file).map_err(|error| error.to_string())?;
                match Leaf::parse(&bytes) {
                    Ok(Leaf::Epoch(_)) => found += 1,
                    _ => return Err(format!("{} is no signed epoch", file.display())),
                }
            }
            if found == 0 {
                Err("no signed epoch (*.epoch): no round can be opened".to_owned())
            } else {
                Ok(())
            }
        });
        checks.note(epochs.display().to_string(), outcome);
    }
    for path in parties_of(dir, "server") {
        let Some(config) = checks.config(&path, ServerConfig::read) else { continue };
        checks.tls(&path, &config.tls, None);
        checks.secret(&path, &config.signing_key_file, |file| config::signing_key(file).map(drop));
        checks.secret(&path, &config.cosigner_key_file, |file| config::cosigner(file).map(drop));
    }
    for path in parties_of(dir, "lane") {
        let Some(config) = checks.config(&path, LaneConfig::read) else { continue };
        let pins =
            deployment.lanes.get(usize::from(config.index)).map(|lane| lane.pins.clone()).unwrap_or_default();
        checks.tls(&path, &config.tls, Some(&pins));
        checks.secret(&path, &config.signing_key_file, |file| config::signing_key(file).map(drop));
    }
    for path in parties_of(dir, "aggregator") {
        let Some(config) = checks.config(&path, AggregatorConfig::read) else { continue };
        let endpoint = deployment.aggregators.get(usize::from(config.index));
        let pins = endpoint.map(|endpoint| endpoint.pins.clone()).unwrap_or_default();
        checks.tls(&path, &config.tls, Some(&pins));
        checks.secret(&path, &config.signing_key_file, |file| config::signing_key(file).map(drop));
    }
    for path in parties_of(dir, "recipient") {
        let Some(config) = checks.config(&path, RecipientConfig::read) else { continue };
        checks.tls(&path, &config.tls, None);
        checks.secret(&path, &config.signing_key_file, |file| config::signing_key(file).map(drop));
    }
    for path in parties_of(dir, "witness") {
        let Some(config) = checks.config(&path, WitnessConfig::read) else { continue };
        checks.tls(&path, &config.tls, None);
        checks.secret(&path, &config.cosigner_key_file, |file| config::cosigner(file).map(drop));
    }
    for path in parties_of(dir, "client") {
        checks.config(&path, ClientFile::read);
    }
    checks.findings
}
