//! What the bulletin tells.

use super::bodies::BlobBody;
use super::routes::Route;
use super::{Service, problems};
use crate::bulletin::Refused;
use crate::net::{Answer, Call, Role};
use crate::round::library::{Item, Library};
use crate::round::reading::State;
use crate::round::recover::Body;
use crate::round::{Record, Session};
use crate::store::{BlobName, BlobStore as _, StoreError};
use http::{HeaderMap, StatusCode};
use panetiere::ids::{ClientId, ServerId};
use panetiere_api::leaf::RoundId;
use panetiere_api::limits::{MAX_LEAVES, MAX_WAIT_MS};
use panetiere_api::media::MediaType;
use panetiere_api::path::{ClientKeyId, Path, PathError};
use panetiere_api::problem::{Code, Problem};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

/// Rounds of one page at most.
const MAX_PAGE: u64 = 50;

fn not_found(what: String) -> Problem {
    Problem::from(Code::NotFound).with_detail(what)
}

impl Service {
    pub(super) async fn get(self: &Arc<Self>, call: Call<Route>) -> Result<Answer, Problem> {
        let Route { path, query: [first, second] } = call.route;
        let role = call.principal.as_ref().map(|principal| principal.role);
        let who = call.principal.as_ref().map_or([0; 32], |principal| principal.key.0);
        match path {
            Path::Wait => self.wait(first.unwrap_or(0), second.unwrap_or(0)).await,
            Path::Leaves => self.leaves(first, second).await,
            Path::LogCheckpoint => {
                let note = self.bulletin.store().checkpoint().map_err(|error| problems::store(&error))?;
                Ok(text(note.to_string()))
            }
            Path::LogTile(resource) => {
                let bytes = self.read(move |service| service.bulletin.store().published(resource)).await;
                bytes.map(|bytes| Answer::bytes(StatusCode::OK, MediaType::Bytes, bytes))
            }
            Path::Blob(id) => {
                let name = |len| BlobName { digest: id.0, len };
                let len = self.bulletin.store().len(&id.0).map_err(|error| problems::store(&error))?;
                self.immutable(&call.headers, MediaType::Bytes, vec![name(len)])
            }
            Path::Rounds => Ok(self.rounds(first.unwrap_or(MAX_PAGE).min(MAX_PAGE), second)),
            Path::Round(round) => self.round(round),
            Path::Post(round, client) => self.post(&call.headers, round, &client),
            Path::ServerSum(round, id) => {
                self.item(&call.headers, MediaType::ServerSum, round, Item::Body(Body::ServerSum(id)))
            }
            Path::LaneSum(round, id) => {
                self.item(&call.headers, MediaType::LaneSum, round, Item::Body(Body::LaneSum(id)))
            }
            Path::GroupSum(round, id) => {
                self.item(&call.headers, MediaType::GroupSum, round, Item::Body(Body::GroupSum(id)))
            }
            Path::Result(round) => self.item(&call.headers, MediaType::Result, round, Item::Messages),
            Path::Closing(round) => self.closing(round, first.unwrap_or(0)).await,
            Path::Cosign => self.cosign(who, first.unwrap_or(0), second.unwrap_or(0)).await,
            Path::ServerOpenings(round) => match role {
                Some(Role::Server(server)) => self.openings(round, server, first, second).await,
                _ => Err(Code::Forbidden.into()),
            },
            _ => Err(Code::NotFound.into()),
        }
    }

    /// Reads the store beside the event loop.
    async fn read<T: Send + 'static>(
        self: &Arc<Self>,
        read: impl FnOnce(&Self) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, Problem> {
        let service = Arc::clone(self);
        let outcome = tokio::task::spawn_blocking(move || read(&service)).await;
        outcome.map_err(|_| Problem::from(Code::Internal))?.map_err(|error| problems::store(&error))
    }

    /// Waits until `look` finds something, at most so many milliseconds, and no longer than the daemon runs.
    async fn wait_for<T, W>(
        &self,
        mut changes: watch::Receiver<W>,
        ms: u64,
        mut look: impl FnMut() -> Result<Option<T>, Problem>,
    ) -> Result<Option<T>, Problem> {
        let deadline = Instant::now() + Duration::from_millis(ms.min(MAX_WAIT_MS));
        loop {
            changes.mark_unchanged();
            if let Some(found) = look()? {
                return Ok(Some(found));
            }
            tokio::select! {
                changed = changes.changed() => changed.map_err(|_| Problem::from(Code::ShuttingDown))?,
                () = sleep_until(deadline) => return Ok(None),
                () = self.process.stop.cancelled() => return Ok(None),
            }
        }
    }

    async fn wait(&self, size: u64, ms: u64) -> Result<Answer, Problem> {
        let durable = self.bulletin.durable();
        let current = durable.clone();
        let found = self.wait_for(durable, ms, || Ok((*current.borrow() > size).then_some(()))).await?;
        if found.is_none() {
            return Ok(Answer::empty(StatusCode::NO_CONTENT));
        }
        let store = self.bulletin.store();
        let failed = |error| problems::store(&error);
        // Whoever is far behind is led on in steps, as far as there are checkpoints to step on.
        let note = match store.checkpoint_between(size, size.saturating_add(MAX_LEAVES)).map_err(failed)? {
            Some(note) => note,
            None => store.checkpoint().map_err(failed)?,
        };
        Ok(text(note.to_string()))
    }

    async fn leaves(self: &Arc<Self>, from: Option<u64>, to: Option<u64>) -> Result<Answer, Problem> {
        let (Some(from), Some(to)) = (from, to) else { return Err(bad_query("from and to are needed")) };
        if from > to || to - from > MAX_LEAVES {
            return Err(bad_query(&format!("a range of at most {MAX_LEAVES} leaves")));
        }
        let durable = *self.bulletin.durable().borrow();
        if to > durable {
            return Err(not_found(format!("the log has {durable} leaves")));
        }
        let bytes = self.read(move |service| service.bulletin.store().entries(from, to)).await?;
        Ok(Answer::bytes(StatusCode::OK, MediaType::Leaves, bytes))
    }

    fn immutable(
        &self,
        headers: &HeaderMap,
        media: MediaType,
        blobs: Vec<BlobName>,
    ) -> Result<Answer, Problem> {
        let len = blobs.iter().map(|blob| blob.len).sum();
        let store = self.bulletin.store();
        // Found out here whether they are still there: later it is too late for a status.
        for blob in &blobs {
            store.len(&blob.digest).map_err(|error| problems::store(&error))?;
        }
        Answer::immutable(headers, media, len, |range| BlobBody::new(store, &blobs, range))
    }

    fn name(&self, round: RoundId, item: Item) -> Result<Option<BlobName>, Problem> {
        let name = Library(self.bulletin.store()).name(round, item);
        name.map_err(|error| problems::refused(&Refused::Read(error)))
    }

    fn item(
        &self,
        headers: &HeaderMap,
        media: MediaType,
        round: RoundId,
        item: Item,
    ) -> Result<Answer, Problem> {
        match self.name(round, item)? {
            Some(name) => self.immutable(headers, media, vec![name]),
            None => Err(not_found(format!("nothing of the kind is published in round {round}"))),
        }
    }

    fn post(&self, headers: &HeaderMap, round: RoundId, name: &ClientKeyId) -> Result<Answer, Problem> {
        let client = self.bulletin.client_named(round, name);
        let client: ClientId = client.map_err(|error| problems::refused(&error))?;
        let Some(head) = self.name(round, Item::Body(Body::Post(client)))? else {
            return Err(not_found(format!("this client has not posted in round {round}")));
        };
        let mut blobs = vec![head];
        blobs.extend(self.name(round, Item::Ciphertext(client))?);
        self.immutable(headers, MediaType::Post, blobs)
    }

    async fn closing(&self, round: RoundId, ms: u64) -> Result<Answer, Problem> {
        let look = || self.name(round, Item::Closing);
        match self.wait_for(self.bulletin.changes(), ms, look).await? {
            Some(name) => {
                let bytes = self.bulletin.store().get(&name.digest, 0..name.len);
                let bytes = bytes.map_err(|error| problems::store(&error))?;
                Ok(Answer::bytes(StatusCode::OK, MediaType::Text, bytes))
            }
            None => {
                Err(not_found(format!("no checkpoint with a quorum covers the close of round {round} yet")))
            }
        }
    }

    async fn cosign(&self, who: [u8; 32], size: u64, ms: u64) -> Result<Answer, Problem> {
        let look =
            || self.bulletin.ask_to_cosign(&who, size, self.now()).map_err(|error| problems::refused(&error));
        let request = self.wait_for(self.bulletin.changes(), ms, look).await?;
        Ok(request.map_or_else(|| Answer::empty(StatusCode::NO_CONTENT), |request| text(request.to_string())))
    }

    async fn openings(
        self: &Arc<Self>,
        round: RoundId,
        server: ServerId,
        from: Option<u64>,
        to: Option<u64>,
    ) -> Result<Answer, Problem> {
        let service = Arc::clone(self);
        let durable = *self.bulletin.durable().borrow();
        let (from, to) = (from.unwrap_or(0), to.unwrap_or(u64::MAX).min(durable));
        let read = move || {
            let params = service.bulletin.params(round)?;
            if server.0 >= params.servers() {
                return Ok(Vec::new());
            }
            let mut bytes = Vec::new();
            for client in service.bulletin.posts_between(round, from, to) {
                bytes.extend(service.bulletin.envelope(&params, round, server, client)?);
            }
            Ok(bytes)
        };
        let bytes = tokio::task::spawn_blocking(read).await.map_err(|_| Problem::from(Code::Internal))?;
        let bytes = bytes.map_err(|error: Refused| problems::refused(&error))?;
        Ok(Answer::bytes(StatusCode::OK, MediaType::Openings, bytes))
    }

    fn rounds(&self, limit: u64, before: Option<u64>) -> Answer {
        let page: Vec<_> = self.bulletin.with_record(|record| {
            let rounds = record.rounds().rev();
            let rounds = rounds.filter(|session| before.is_none_or(|before| session.round().0 < before));
            rounds.take(usize::try_from(limit).unwrap_or(0)).map(|session| view(record, session)).collect()
        });
        Answer::json(StatusCode::OK, &json!({ "rounds": page }))
    }

    fn round(&self, round: RoundId) -> Result<Answer, Problem> {
        let view =
            self.bulletin.with_record(|record| record.round(round).map(|session| view(record, session)));
        let view = view.ok_or_else(|| not_found(format!("round {round} is none of the latest")))?;
        Ok(Answer::json(StatusCode::OK, &view))
    }
}

fn text(text: String) -> Answer {
    Answer::bytes(StatusCode::OK, MediaType::Text, text)
}

fn bad_query(why: &str) -> Problem {
    Problem::of(&PathError::Query, StatusCode::BAD_REQUEST).with_detail(why)
}

/// A round as people see it: nothing that the log does not say.
fn view(record: &Record, session: &Session) -> serde_json::Value {
    let open = session.announcement();
    let number = record.epoch_of(session.epoch()).map(|epoch| epoch.plan().document.number().0);
    let closed = session.closed();
    json!({
        "round": session.round().0,
        "epoch": number,
        "session": session.id().to_string(),
        "kind": session.kind().name(),
        "mode": session.params().mode().to_string(),
        "state": State::of(session).name(),
        "opened_at": session.opened_at(),
        "collect_ms": open.collect_ms,
        "check_ms": open.check_ms,
        "answer_ms": open.answer_ms,
        "posts": session.posts().len(),
        "checked": session.checked().len(),
        "open_complaints": session.open_complaints().len(),
        "out": session.out().len(),
        "clients": closed.map(|closed| closed.set.count()),
        "closed_at": closed.map(|closed| closed.at),
        "set": closed.map(|closed| closed.set.digest().to_string()),
        "server_sums": session.server_sums().len(),
        "lane_sums": session.lane_sums().len(),
        "group_sums": session.group_sums().len(),
        "threshold": session.params().threshold(),
        "servers": session.params().servers(),
        "messages": session.result().map(|result| result.messages),
    })
}
