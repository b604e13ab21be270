//! Connections: made, kept for the next request, dropped.

use super::ClientError;
use super::body::Outgoing;
use hyper::client::conn::http1::{Builder, SendRequest};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

/// Idle connections that are kept.
const MAX_IDLE: usize = 8;
/// Bytes of an answer's head at most, and of what is read at once.
const MAX_BUFFER: usize = 64 << 10;

/// Where connections go, and those that are idle.
pub(super) struct Pool {
    pub authority: String,
    pub host: String,
    pub port: u16,
    pub name: ServerName<'static>,
    pub tls: Arc<rustls::ClientConfig>,
    pub connect_timeout: Duration,
    pub silence_timeout: Duration,
    pub expect_timeout: Duration,
    pub idle: Mutex<Vec<Connection>>,
}

/// The value of `Host`: an IPv6 address stands in brackets.
pub(super) fn authority(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

/// A connection. Dropped, it is closed, whatever is under way.
pub(super) struct Connection {
    pub sender: SendRequest<Outgoing>,
    driver: JoinHandle<()>,
    /// Whether it has carried an exchange: the server may have closed it since.
    pub used: bool,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

impl Pool {
    /// An idle connection, or a new one.
    pub async fn take(&self) -> Result<Connection, ClientError> {
        loop {
            let idle = self.lock().pop();
            let Some(mut connection) = idle else { break };
            // Ready at once, or it has not finished with what came before.
            if let Ok(Ok(())) = timeout(Duration::ZERO, connection.sender.ready()).await {
                return Ok(connection);
            }
        }
        timeout(self.connect_timeout, self.connect()).await.unwrap_or_else(|_| {
            Err(ClientError::Connect(io::Error::new(
                io::ErrorKind::TimedOut,
                "the server did not complete the handshake",
            )))
        })
    }

    /// Keeps a connection whose exchange is complete.
    pub fn put_back(&self, mut connection: Connection) {
        connection.used = true;
        let mut idle = self.lock();
        if idle.len() < MAX_IDLE && !connection.sender.is_closed() {
            idle.push(connection);
        }
    }

    /// Drops the idle ones: the server has closed one of them.
    pub fn forget(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Connection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn connect(&self) -> Result<Connection, ClientError> {
        let tcp = TcpStream::connect((self.host.as_str(), self.port)).await.map_err(ClientError::Connect)?;
        tcp.set_nodelay(true).map_err(ClientError::Connect)?;
        let connector = TlsConnector::from(Arc::clone(&self.tls));
        let stream = connector.connect(self.name.clone(), tcp).await.map_err(handshake_error)?;
        let (sender, connection) = Builder::new()
            .max_buf_size(MAX_BUFFER)
            .handshake(TokioIo::new(stream))
            .await
            .map_err(ClientError::Http)?;
        let driver = tokio::spawn(async move {
            // Its errors reach whoever waits for an answer.
            let _ = connection.await;
        });
        Ok(Connection { sender, driver, used: false })
    }
}

fn handshake_error(error: io::Error) -> ClientError {
    let tls = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    match tls {
        Some(tls @ rustls::Error::InvalidCertificate(_)) => ClientError::Certificate(tls.clone()),
        _ => ClientError::Connect(error),
    }
}
