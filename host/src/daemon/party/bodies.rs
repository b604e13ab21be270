//! The bodies of rounds, from the bulletin: kept on disk while the round goes on, so that none is fetched twice and posts
//! are never all in memory.

use super::Upstream;
use super::setup::directory;
use crate::round::library::Item;
use crate::round::recover::{Bodies, Body};
use panetiere::ids::ClientId;
use panetiere_api::client::Resume;
use panetiere_api::leaf::RoundId;
use panetiere_api::limits::MAX_EVIDENCE_BYTES;
use panetiere_api::path::{ClientKeyId, Path};
use panetiere_api::round::Session;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::runtime::Handle;

/// Bytes of a body at most.
const MAX_BODY: u64 = MAX_EVIDENCE_BYTES;

/// Names of clients in paths, by round.
type Names = BTreeMap<RoundId, BTreeMap<ClientId, ClientKeyId>>;

/// The bodies at a bulletin. Whoever reads one holds it against the log.
pub struct RemoteBodies {
    upstream: Arc<Upstream>,
    runtime: Handle,
    /// Where bodies are kept; nowhere without.
    kept: Option<PathBuf>,
    names: Mutex<Names>,
    /// Numbers files that are being written.
    written: AtomicU64,
}

impl std::fmt::Debug for RemoteBodies {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RemoteBodies({:?})", self.upstream)
    }
}

fn file_name(item: Item) -> Option<String> {
    match item {
        Item::Body(Body::Post(client)) => Some(format!("post-{client}")),
        Item::Body(Body::GroupSum(aggregator)) => Some(format!("group-{aggregator}")),
        Item::Body(Body::LaneSum(lane)) => Some(format!("lane-{lane}")),
        Item::Body(Body::ServerSum(server)) => Some(format!("server-{server}")),
        _ => None,
    }
}

impl RemoteBodies {
    /// Bodies at `upstream`, fetched on `runtime`; kept below `directory` if there is one. What lies there already was kept by
    /// an earlier process, and is used.
    ///
    /// # Errors
    /// If the directory cannot be made.
    pub fn new(upstream: Arc<Upstream>, runtime: Handle, kept: Option<PathBuf>) -> anyhow::Result<Self> {
        if let Some(path) = &kept {
            directory(path)?;
        }
        Ok(Self { upstream, runtime, kept, names: Mutex::default(), written: AtomicU64::new(0) })
    }

    fn names(&self) -> MutexGuard<'_, Names> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes note of a round's clients: posts are named by their keys. To be called again when there are more of them.
    /// Returns the clients that are new.
    pub fn know(&self, session: &Session) -> Vec<ClientId> {
        let mut names = self.names();
        let known = names.entry(session.round()).or_default();
        let mut new = Vec::new();
        for (&client, (key, _)) in session.posts() {
            known.entry(client).or_insert_with(|| {
                new.push(client);
                ClientKeyId::of(key)
            });
        }
        new
    }

    fn directory(&self, round: RoundId) -> Option<PathBuf> {
        self.kept.as_ref().map(|path| path.join(round.to_string()))
    }

    fn file(&self, round: RoundId, item: Item) -> Option<PathBuf> {
        Some(self.directory(round)?.join(file_name(item)?))
    }

    fn path(&self, round: RoundId, item: Item) -> io::Result<Path> {
        Ok(match item {
            Item::Body(Body::Post(client)) => {
                let name = self.names().get(&round).and_then(|known| known.get(&client).copied());
                let unknown =
                    || io::Error::new(io::ErrorKind::InvalidInput, "the round's clients are not known here");
                Path::Post(round, name.ok_or_else(unknown)?)
            }
            Item::Body(Body::GroupSum(aggregator)) => Path::GroupSum(round, aggregator),
            Item::Body(Body::LaneSum(lane)) => Path::LaneSum(round, lane),
            Item::Body(Body::ServerSum(server)) => Path::ServerSum(round, server),
            Item::Closing => Path::Closing(round),
            Item::Messages => Path::Result(round),
            _ => return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not published")),
        })
    }

    /// Fetches something, from the disk if it is there: None if nothing of the kind was published.
    ///
    /// # Errors
    /// `NotFound` if it was deleted with its round; `InvalidInput` for a client that is not known; what the bulletin or the
    /// disk says.
    pub async fn fetch(&self, round: RoundId, item: Item) -> io::Result<Option<Vec<u8>>> {
        let file = self.file(round, item);
        if let Some(file) = &file {
            match tokio::fs::read(file).await {
                Ok(bytes) => return Ok(Some(bytes)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        let path = self.path(round, item)?.to_string();
        let found = self.upstream.get_if_there("body", &path, MAX_BODY, Resume::Never).await;
        let found = found.map_err(|error| {
            let gone = error.status() == Some(410);
            io::Error::new(if gone { io::ErrorKind::NotFound } else { io::ErrorKind::Other }, error)
        });
        let Some(bytes) = found? else { return Ok(None) };
        if let Some(file) = &file {
            // Put in place at once: a name is that of a whole body. It need not be durable.
            let parent = file.parent().expect("a file of a round's directory");
            tokio::fs::create_dir_all(parent).await?;
            let number = self.written.fetch_add(1, Ordering::Relaxed);
            let unfinished = file.with_extension(format!("new{number}"));
            tokio::fs::write(&unfinished, &bytes).await?;
            tokio::fs::rename(&unfinished, file).await?;
        }
        Ok(Some(bytes))
    }

    /// Fetches a post beforehand.
    ///
    /// # Errors
    /// As [`fetch`](Self::fetch).
    pub async fn prefetch(&self, round: RoundId, client: ClientId) -> io::Result<()> {
        self.fetch(round, Item::Body(Body::Post(client))).await.map(drop)
    }

    /// Throws away a body that is not what the log names: it is fetched anew the next time.
    ///
    /// # Errors
    /// The disk's.
    pub fn discard(&self, round: RoundId, body: Body) -> io::Result<()> {
        let Some(file) = self.file(round, Item::Body(body)) else { return Ok(()) };
        fs::remove_file(file).or_else(not_found)
    }

    /// Throws away what is kept of rounds that are over.
    ///
    /// # Errors
    /// The disk's.
    pub fn keep(&self, mut under_way: impl FnMut(RoundId) -> bool) -> io::Result<()> {
        self.names().retain(|round, _| under_way(*round));
        let Some(path) = &self.kept else { return Ok(()) };
        for entry in fs::read_dir(path)? {
            let entry = entry?;
            let round = entry.file_name().to_str().and_then(|name| name.parse().ok());
            if round.is_none_or(|round| !under_way(round)) {
                fs::remove_dir_all(entry.path()).or_else(not_found)?;
            }
        }
        Ok(())
    }
}

fn not_found(error: io::Error) -> io::Result<()> {
    if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) }
}

impl Bodies for RemoteBodies {
    /// Waits for the network: never to be called on a thread of the event loop.
    fn item(&self, round: RoundId, item: Item) -> io::Result<Option<Vec<u8>>> {
        self.runtime.block_on(self.fetch(round, item))
    }
}
