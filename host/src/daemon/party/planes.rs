//! Listeners, and who may use them.

use super::setup::pem;
use crate::config::{Parties, TlsFiles, resolve};
use crate::daemon::unix_time;
use crate::net::budget::ByteBudget;
use crate::net::quota::{Quotas, Rate};
use crate::net::serve::bind;
use crate::net::tls::ClientCertificates;
use crate::net::{Access, Handler, NetLimits, Plane, Principals, Server, ServerTls, metrics};
use anyhow::Context as _;
use rustls::time_provider::DefaultTimeProvider;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Requests a second of one party, and how many at once.
const PARTY_REQUESTS: Rate = Rate { per_s: 400, burst: 4_000 };
/// Bytes a second of one party, and how many at once.
const PARTY_BYTES: Rate = Rate { per_s: 256 << 20, burst: 1 << 30 };

/// Room for the bodies of all planes of a daemon, unless it is set.
pub fn room() -> ByteBudget {
    ByteBudget::new(NetLimits::default().inflight_bytes)
}

/// A plane that listens, with its certificate.
#[derive(Debug)]
pub struct Listener {
    server: Server,
    tls: Arc<ServerTls>,
    config_path: PathBuf,
    files: TlsFiles,
}

impl Listener {
    /// Listens: for everybody, or for those in a table. Bodies take room in `budget`.
    ///
    /// # Errors
    /// If the certificate cannot be used, or the address not be had.
    pub fn start<H: Handler>(
        (config_path, files): (&Path, &TlsFiles),
        address: SocketAddr,
        principals: Option<Arc<Principals>>,
        handler: H,
        budget: &ByteBudget,
    ) -> anyhow::Result<Self> {
        let (certificate, key) = pem(config_path, files)?;
        let clock = Arc::new(DefaultTimeProvider);
        let (name, asked, access, quotas) = match principals {
            None => ("data", ClientCertificates::NotAsked, Access::Public, None),
            Some(table) => {
                let quotas = Arc::new(Quotas::new(PARTY_REQUESTS, PARTY_BYTES, 256));
                ("operator", ClientCertificates::Asked, Access::Principals(table), Some(quotas))
            }
        };
        let tls =
            ServerTls::new(&certificate, key.as_bytes(), asked, clock.clone()).context("the certificate")?;
        let tls = Arc::new(tls);
        let limits = NetLimits { inflight_bytes: budget.total(), ..NetLimits::default() };
        let plane = Plane {
            name,
            handler,
            access,
            tls: Some(Arc::clone(&tls)),
            quotas,
            budget: budget.clone(),
            limits,
            clock,
        };
        let listener = bind(address).with_context(|| format!("cannot listen on {address}"))?;
        let server = Server::start(listener, plane)?;
        Ok(Self { server, tls, config_path: config_path.to_owned(), files: files.clone() })
    }

    /// Reads the certificate again. What is wrong with it is logged, and the old one stays.
    pub fn reload(&self) {
        let reloaded = pem(&self.config_path, &self.files)
            .and_then(|(certificate, key)| Ok(self.tls.reload(&certificate, key.as_bytes())?));
        match reloaded {
            Ok(facts) => metrics::certificate("server", facts.validity.not_after, unix_time()),
            Err(error) => {
                crate::safe_error!("the certificate was not read again: the old one stays in use");
                tracing::debug!(error = %format!("{error:#}"), "not reloaded");
            }
        }
    }

    /// Lets requests under way finish.
    pub async fn drain(self) {
        self.server.drain().await;
    }
}

/// Who may use an operator plane, as a file says that is read again.
#[derive(Debug)]
pub struct Table {
    /// The table.
    pub principals: Arc<Principals>,
    path: PathBuf,
}

impl Table {
    /// Reads the table that a daemon's configuration names.
    ///
    /// # Errors
    /// If the file is none, or two parties have one key.
    pub fn open(config_path: &Path, parties_file: &Path) -> anyhow::Result<Self> {
        let path = resolve(config_path, parties_file);
        let Parties { known, revoked } = Parties::read(&path)?;
        Ok(Self { principals: Arc::new(Principals::new(known, revoked)?), path })
    }

    /// Reads it again. What is wrong with it is logged, and the old one stays.
    pub fn reload(&self) {
        let table = Parties::read(&self.path).map_err(anyhow::Error::new);
        let replaced = table.and_then(|table| Ok(self.principals.replace(table.known, table.revoked)?));
        if let Err(error) = replaced {
            crate::safe_error!("the table of parties was not read again: the old one stays in use");
            tracing::debug!(error = %format!("{error:#}"), "not reloaded");
        }
    }
}
