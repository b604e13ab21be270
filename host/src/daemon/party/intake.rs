//! What a party takes from clients: one body of one exact length for each round and client, on the data plane; and what
//! other parties read of it.

use super::shelf::{Conflict, Shelf};
use crate::net::{Answer, BodyReader, BodyRule, Call, Handler, Principal, Resource, Role, Rule};
use http::{Method, StatusCode};
use panetiere::ids::ClientId;
use panetiere_api::leaf::RoundId;
use panetiere_api::media::MediaType;
use panetiere_api::path::{ClientKeyId, Path, query};
use panetiere_api::problem::{Code, Problem};
use panetiere_api::round::{Record, Session};
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, PoisonError, RwLock};
use tokio::fs::File;
use tokio::io::AsyncWriteExt as _;
use tokio::sync::Notify;

#[derive(Debug)]
struct Open {
    len: u64,
    names: Arc<BTreeMap<ClientKeyId, ClientId>>,
}

/// What planes know of the log.
#[derive(Debug, Default)]
struct Table {
    rounds: BTreeMap<RoundId, Open>,
    next: u64,
}

/// What is taken, shared by a party's planes and the party.
#[derive(Debug)]
pub struct Intake {
    /// Where it is kept.
    pub shelf: Shelf,
    /// Told when something was left.
    pub came: Notify,
    media: MediaType,
    table: RwLock<Table>,
}

impl Intake {
    /// Takes bodies of a type.
    pub fn new(shelf: Shelf, media: MediaType) -> Self {
        Self { shelf, came: Notify::new(), media, table: RwLock::default() }
    }

    /// Takes note of what was read of the log. `len` tells how long a body of a round is, if there are any. Returns the
    /// rounds that are under way.
    pub fn update(&self, record: &Record, len: impl Fn(&Session) -> Option<u64>) -> Vec<RoundId> {
        let under_way: Vec<&Session> = record.rounds().filter(|session| session.awaits_result()).collect();
        let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
        table.next = record.next_round().0;
        let open = |session: &&Session| {
            let names = record.epoch_of(session.epoch())?.names();
            Some((session.round(), Open { len: len(session)?, names }))
        };
        table.rounds = under_way.iter().filter_map(open).collect();
        under_way.iter().map(|session| session.round()).collect()
    }

    /// How long a body is, and whose; or why there is none now.
    fn look(&self, round: RoundId, name: &ClientKeyId) -> Result<(u64, ClientId), Problem> {
        let table = self.table.read().unwrap_or_else(PoisonError::into_inner);
        let wait =
            |code, title| Problem::new(code, StatusCode::SERVICE_UNAVAILABLE, title).with_retry_after(1);
        let Some(open) = table.rounds.get(&round) else {
            return Err(if round.0 >= table.next {
                wait("round_not_open", "The round was not read of yet")
            } else {
                Problem::new(
                    "round_over",
                    StatusCode::GONE,
                    "The round is over, or has nothing for this party",
                )
            });
        };
        let client = open.names.get(name).copied();
        Ok((open.len, client.ok_or_else(|| wait("client_unknown", "No such client was read of yet"))?))
    }

    async fn receive(&self, round: RoundId, client: ClientId, body: BodyReader) -> Result<Answer, Problem> {
        let failed = |error: io::Error| {
            tracing::debug!(%error, "a body is not kept");
            crate::safe_error!("a body could not be kept");
            Problem::from(Code::Internal)
        };
        let unfinished = self.shelf.unfinished(round).map_err(failed)?;
        let mut body = body.hashed();
        let written = async {
            let mut file = File::create(&unfinished).await.map_err(failed)?;
            while let Some(chunk) = body.chunk().await? {
                file.write_all(&chunk).await.map_err(failed)?;
            }
            file.flush().await.map_err(failed)?;
            file.sync_data().await.map_err(failed)
        };
        if let Err(problem) = written.await {
            // A body that did not come whole leaves nothing.
            let _ = tokio::fs::remove_file(&unfinished).await;
            return Err(problem);
        }
        let digest = body.digest().ok_or(Code::Internal)?;
        let put = tokio::task::block_in_place(|| self.shelf.put(round, client, &unfinished, digest));
        match put.map_err(failed)? {
            Ok(()) => {
                self.came.notify_one();
                Ok(Answer::empty(StatusCode::NO_CONTENT))
            }
            Err(Conflict) => {
                let title = "Another body of this client is here, and it is the one that it signed";
                Err(Problem::new("conflict", StatusCode::CONFLICT, title))
            }
        }
    }
}

/// Who uses a plane of a party, and for what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// Clients leave something.
    Leave,
    /// Clients leave something, and whoever likes reads it.
    LeaveAndRead,
    /// Lanes and the bulletin read.
    Read,
}

/// A plane of a party.
pub struct Door {
    /// What it takes and gives.
    pub intake: Arc<Intake>,
    /// Who uses it.
    pub usage: Use,
}

/// A round and a client.
#[derive(Clone, Debug)]
pub struct Place(RoundId, ClientId);

impl Handler for Door {
    type Route = Place;

    fn resource(&self, path: &str, text: Option<&str>) -> Result<Resource<Place>, Problem> {
        let path: Path = path.parse().map_err(|error| Problem::of(&error, StatusCode::NOT_FOUND))?;
        query(text, []).map_err(|error| Problem::of(&error, StatusCode::BAD_REQUEST))?;
        let media = self.intake.media;
        let (round, name) = match path {
            Path::Share(round, name) if media == MediaType::Share => (round, name),
            Path::Post(round, name) if media == MediaType::Post => (round, name),
            _ => return Err(Code::NotFound.into()),
        };
        let (len, client) = self.intake.look(round, &name)?;
        let put = Rule::put(BodyRule::Exact { media, len });
        let rules = match self.usage {
            Use::Leave => vec![put],
            Use::LeaveAndRead => vec![Rule::GET, put],
            Use::Read => vec![Rule::GET],
        };
        Ok(Resource { route: Place(round, client), rules })
    }

    fn admit(&self, _: &Place, _: &Method, principal: Option<&Principal>) -> Result<(), Problem> {
        let may = |party: &Principal| matches!(party.role, Role::Lane(_) | Role::Operator);
        let shut = self.usage == Use::Read && !principal.is_some_and(may);
        if shut { Err(Code::Forbidden.into()) } else { Ok(()) }
    }

    async fn handle(&self, call: Call<Place>) -> Result<Answer, Problem> {
        let Place(round, client) = call.route;
        if call.method != Method::GET {
            return self.intake.receive(round, client, call.body).await;
        }
        let intake = Arc::clone(&self.intake);
        let read = tokio::task::spawn_blocking(move || intake.shelf.read(round, client)).await;
        let bytes = read.ok().and_then(Result::ok).ok_or(Code::Internal)?;
        let bytes = bytes.ok_or(Code::NotFound)?;
        Ok(Answer::bytes(StatusCode::OK, self.intake.media, bytes))
    }
}
