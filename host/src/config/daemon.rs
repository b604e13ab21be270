//! One file for each daemon.

use super::{ConfigError, Endpoint, read};
use crate::role::server::Policy;
use crate::round::conductor::Windows;
use panetiere_api::limits::MAX_WAIT_MS;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// A daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Sums posts of its clients.
    Aggregator,
    /// Keeps the log and the bodies.
    Bulletin,
    /// Sums shares of ciphertexts.
    Lane,
    /// Recovers messages.
    Recipient,
    /// Sums key shares.
    Server,
    /// Cosigns checkpoints.
    Witness,
}

impl Role {
    /// Its name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Aggregator => "aggregator",
            Self::Bulletin => "bulletin",
            Self::Lane => "lane",
            Self::Recipient => "recipient",
            Self::Server => "server",
            Self::Witness => "witness",
        }
    }
}

/// Certificate and key of a daemon's listeners, and of the connections that it makes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlsFiles {
    /// Certificate, PEM.
    pub certificate_file: PathBuf,
    /// Its key, PEM, PKCS#8.
    pub private_key_file: PathBuf,
}

/// Addresses that a daemon listens on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Listen {
    /// The data plane.
    pub data: SocketAddr,
    /// The operator plane.
    pub operator: SocketAddr,
}

/// How rounds go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rounds {
    /// Posts are taken for so long, or until every admitted client has posted.
    pub collect_window_ms: u32,
    /// Servers have so long to check.
    pub check_window_ms: u32,
    /// Clients then have so long to answer complaints.
    pub answer_window_ms: u32,
    /// A new round is opened no earlier than so long after the one before.
    pub interval_ms: u32,
    /// Bodies of so many rounds are kept. Leaves are kept for ever.
    pub retain_rounds: u32,
}

impl Default for Rounds {
    fn default() -> Self {
        Self {
            collect_window_ms: 10_000,
            check_window_ms: 5_000,
            answer_window_ms: 5_000,
            interval_ms: 1_000,
            retain_rounds: 32,
        }
    }
}

impl Rounds {
    /// The windows of the conductor.
    pub const fn windows(&self) -> Windows {
        Windows {
            collect_ms: self.collect_window_ms,
            check_ms: self.check_window_ms,
            answer_ms: self.answer_window_ms,
        }
    }
}

/// Where and how the bulletin keeps things.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Storage {
    /// Its directory.
    pub data_dir: PathBuf,
    /// How long the first leaf of a batch waits for others.
    #[serde(default = "sequence_interval_ms")]
    pub sequence_interval_ms: u32,
    /// Bytes of bodies in memory at once.
    #[serde(default = "max_inflight_bytes")]
    pub max_inflight_bytes: usize,
}

const fn sequence_interval_ms() -> u32 {
    100
}

const fn max_inflight_bytes() -> usize {
    64 << 20
}

/// `bulletin.toml`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BulletinConfig {
    /// The deployment's public description.
    pub deployment_file: PathBuf,
    /// The log's key.
    pub log_key_file: PathBuf,
    /// Who may use the operator plane; read again on SIGHUP.
    pub parties_file: PathBuf,
    /// A directory of signed epochs (`*.epoch`): appended in the order of their names, those that the log has not.
    pub epochs_dir: PathBuf,
    /// The admin plane: loopback only.
    pub admin: SocketAddr,
    /// Its listeners.
    pub listen: Listen,
    /// Certificate and key of both planes.
    pub tls: TlsFiles,
    /// How rounds go.
    #[serde(default)]
    pub rounds: Rounds,
    /// Where things are kept.
    pub storage: Storage,
}

/// What a server asks of every set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicyConfig {
    /// Fewest clients; the epoch's floor holds besides.
    pub min_clients: u32,
    /// Fewest platforms that they run on.
    #[serde(default = "one")]
    pub min_platforms: u32,
    /// Whether clients count for which no enclave vouches. For trials.
    #[serde(default)]
    pub unattested: bool,
}

const fn one() -> u32 {
    1
}

impl From<PolicyConfig> for Policy {
    fn from(config: PolicyConfig) -> Self {
        let PolicyConfig { min_clients, min_platforms, unattested } = config;
        Self { min_clients, min_platforms, unattested }
    }
}

/// `server.toml`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerConfig {
    /// The deployment's public description.
    pub deployment_file: PathBuf,
    /// Which server it is.
    pub index: u16,
    /// Where it keeps its guard.
    pub data_dir: PathBuf,
    /// The admin plane: loopback only.
    pub admin: SocketAddr,
    /// Its P-256 key.
    pub signing_key_file: PathBuf,
    /// Its cosigner key.
    pub cosigner_key_file: PathBuf,
    /// 32 bytes that wrap its envelope keys.
    pub envelope_credential_file: PathBuf,
    /// What it shows the bulletin.
    pub tls: TlsFiles,
    /// What it asks of every set.
    pub policy: PolicyConfig,
    /// An epoch's envelope key is destroyed so long after its last round is over, in seconds.
    #[serde(default = "key_grace_s")]
    pub key_grace_s: u32,
}

const fn key_grace_s() -> u32 {
    60
}

/// `lane.toml`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LaneConfig {
    /// The deployment's public description.
    pub deployment_file: PathBuf,
    /// Which lane it is.
    pub index: u16,
    /// Where it keeps shares and its guard.
    pub data_dir: PathBuf,
    /// The admin plane: loopback only.
    pub admin: SocketAddr,
    /// Its P-256 key.
    pub signing_key_file: PathBuf,
    /// Who may use its operator plane.
    pub parties_file: PathBuf,
    /// Its listeners: data for clients, operator for other lanes and the bulletin.
    pub listen: Listen,
    /// Certificate and key of its listeners, and what it shows others.
    pub tls: TlsFiles,
}

/// `aggregator.toml`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AggregatorConfig {
    /// The deployment's public description.
    pub deployment_file: PathBuf,
    /// Which aggregator it is.
    pub index: u16,
    /// Where it keeps posts.
    pub data_dir: PathBuf,
    /// The admin plane: loopback only.
    pub admin: SocketAddr,
    /// Its P-256 key.
    pub signing_key_file: PathBuf,
    /// Its data plane.
    pub listen_data: SocketAddr,
    /// Certificate and key of its listener, and what it shows the bulletin.
    pub tls: TlsFiles,
}

/// A web address that is told of every message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Webhook {
    /// Host and port of an HTTPS server.
    pub server: String,
    /// The path that is put to, with `/ROUND/NUMBER` behind it.
    pub path: String,
    /// The keys that it may have, as pins of the deployment are written.
    pub pins: Vec<String>,
}

impl Webhook {
    /// Where it is.
    pub fn endpoint(&self) -> Endpoint {
        Endpoint { data: self.server.clone(), operator: None, pins: self.pins.clone() }
    }
}

/// `recipient.toml`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecipientConfig {
    /// The deployment's public description.
    pub deployment_file: PathBuf,
    /// Where it keeps what it fetched; messages leave it under `messages/ROUND/`.
    pub data_dir: PathBuf,
    /// The admin plane: loopback only.
    pub admin: SocketAddr,
    /// Where `/v1/messages` is: loopback only, plain HTTP. Without it, messages are on disk alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub messages: Option<SocketAddr>,
    /// Its P-256 key.
    pub signing_key_file: PathBuf,
    /// What it shows the bulletin.
    pub tls: TlsFiles,
    /// Who is told of messages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub webhook: Option<Webhook>,
}

/// `witness.toml`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WitnessConfig {
    /// The deployment's public description.
    pub deployment_file: PathBuf,
    /// Where it keeps the last checkpoint that it cosigned.
    pub data_dir: PathBuf,
    /// The admin plane: loopback only.
    pub admin: SocketAddr,
    /// Its cosigner key.
    pub cosigner_key_file: PathBuf,
    /// Where `/add-checkpoint` is.
    pub listen_data: SocketAddr,
    /// Certificate and key of its listener.
    pub tls: TlsFiles,
}

/// `client.toml`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClientFile {
    /// The deployment's public description.
    pub deployment_file: PathBuf,
    /// Where it keeps the messages that are not yet in a published result.
    pub data_dir: PathBuf,
}

/// Reads a daemon's file and checks it.
macro_rules! readable {
    ($($name:ident),*) => {$(
        impl $name {
            /// Reads the file.
            ///
            /// # Errors
            /// `File`, `Syntax`; `Value` for what the daemon cannot work with.
            pub fn read(path: &Path) -> Result<Self, ConfigError> {
                let config: Self = read(path)?;
                config.check(path)?;
                Ok(config)
            }

            /// The text of the file.
            pub fn to_text(&self) -> String {
                toml::to_string(self).expect("strings, numbers and tables are TOML")
            }
        }
    )*};
}

readable!(
    AggregatorConfig,
    BulletinConfig,
    ClientFile,
    LaneConfig,
    RecipientConfig,
    ServerConfig,
    WitnessConfig
);

fn loopback(path: &Path, admin: SocketAddr, others: &[SocketAddr]) -> Result<(), ConfigError> {
    if !admin.ip().is_loopback() {
        return Err(ConfigError::value(
            path,
            "admin",
            format!("{admin} is no loopback address: it has no TLS"),
        ));
    }
    let mut all = others.to_vec();
    all.push(admin);
    // Port 0 is any free one.
    all.retain(|address| address.port() != 0);
    let total = all.len();
    all.sort_unstable();
    all.dedup();
    if all.len() < total {
        return Err(ConfigError::value(path, "listen", "two listeners have the same address"));
    }
    Ok(())
}

impl BulletinConfig {
    fn check(&self, path: &Path) -> Result<(), ConfigError> {
        loopback(path, self.admin, &[self.listen.data, self.listen.operator])?;
        let Rounds { collect_window_ms, check_window_ms, answer_window_ms, retain_rounds, .. } = self.rounds;
        let tick = self.storage.sequence_interval_ms;
        if tick == 0 || u64::from(tick) > MAX_WAIT_MS {
            let reason = format!("expected 1 to {MAX_WAIT_MS}");
            return Err(ConfigError::value(path, "storage.sequence_interval_ms", reason));
        }
        for (key, window) in [
            ("rounds.collect_window_ms", collect_window_ms),
            ("rounds.check_window_ms", check_window_ms),
            ("rounds.answer_window_ms", answer_window_ms),
        ] {
            if window < 2 * tick {
                let reason = format!("{window} is less than two sequence intervals of {tick} ms");
                return Err(ConfigError::value(path, key, reason));
            }
        }
        if retain_rounds == 0 {
            return Err(ConfigError::value(
                path,
                "rounds.retain_rounds",
                "at least 1: a round's bodies are read after it",
            ));
        }
        Ok(())
    }
}

impl ServerConfig {
    fn check(&self, path: &Path) -> Result<(), ConfigError> {
        loopback(path, self.admin, &[])?;
        if self.policy.min_clients < 2 {
            let reason = "at least 2: the sum over one client is its message";
            return Err(ConfigError::value(path, "policy.min_clients", reason));
        }
        Ok(())
    }
}

impl LaneConfig {
    fn check(&self, path: &Path) -> Result<(), ConfigError> {
        loopback(path, self.admin, &[self.listen.data, self.listen.operator])
    }
}

impl AggregatorConfig {
    fn check(&self, path: &Path) -> Result<(), ConfigError> {
        loopback(path, self.admin, &[self.listen_data])
    }
}

impl RecipientConfig {
    fn check(&self, path: &Path) -> Result<(), ConfigError> {
        loopback(path, self.admin, self.messages.as_slice())?;
        self.webhook.iter().try_for_each(|webhook| webhook.endpoint().check(path, "webhook"))?;
        match self.messages {
            Some(messages) if !messages.ip().is_loopback() => {
                let reason = format!("{messages} is no loopback address: it has no TLS");
                Err(ConfigError::value(path, "messages", reason))
            }
            _ => Ok(()),
        }
    }
}

impl WitnessConfig {
    fn check(&self, path: &Path) -> Result<(), ConfigError> {
        loopback(path, self.admin, &[self.listen_data])
    }
}

impl ClientFile {
    #[expect(clippy::unnecessary_wraps, clippy::unused_self, reason = "as the others")]
    fn check(&self, _: &Path) -> Result<(), ConfigError> {
        Ok(())
    }
}
