//! `GET /v1/messages?after=ROUND&ms=M` on loopback: the messages of the round that came out next, as soon as there is one.

use super::outbox::Outbox;
use crate::net::budget::ByteBudget;
use crate::net::serve::bind;
use crate::net::{Access, Answer, Call, Handler, NetLimits, Plane, Resource, Rule, Server};
use anyhow::Context as _;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::StatusCode;
use panetiere_api::limits::MAX_WAIT_MS;
use panetiere_api::path::query;
use panetiere_api::problem::{Code, Problem};
use rustls::time_provider::DefaultTimeProvider;
use serde::Serialize;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// What is answered.
#[derive(Debug, Serialize)]
struct Messages {
    round: u64,
    /// Base64, sorted by their bytes.
    messages: Vec<String>,
}

/// What is asked for.
#[derive(Clone, Copy, Debug)]
struct Ask {
    after: u64,
    ms: u64,
}

struct Listener {
    outbox: Arc<Outbox>,
    stop: CancellationToken,
}

impl Handler for Listener {
    type Route = Ask;

    fn resource(&self, path: &str, text: Option<&str>) -> Result<Resource<Ask>, Problem> {
        if path != "/v1/messages" {
            return Err(Code::NotFound.into());
        }
        let [after, ms] =
            query(text, ["after", "ms"]).map_err(|error| Problem::of(&error, StatusCode::BAD_REQUEST))?;
        let ask = Ask { after: after.unwrap_or(0), ms: ms.unwrap_or(0).min(MAX_WAIT_MS) };
        Ok(Resource { route: ask, rules: vec![Rule::GET] })
    }

    async fn handle(&self, call: Call<Ask>) -> Result<Answer, Problem> {
        let Ask { after, ms } = call.route;
        let mut grown = self.outbox.grown();
        let next = async {
            loop {
                if let Some(round) = self.outbox.after(after) {
                    return round;
                }
                if grown.changed().await.is_err() {
                    std::future::pending::<()>().await;
                }
            }
        };
        let next = self.stop.run_until_cancelled(timeout(Duration::from_millis(ms), next)).await;
        let Some(Ok(round)) = next else { return Ok(Answer::empty(StatusCode::NO_CONTENT)) };
        let outbox = Arc::clone(&self.outbox);
        let read = tokio::task::spawn_blocking(move || outbox.read(round)).await;
        let messages = read.ok().and_then(Result::ok).ok_or(Code::Internal)?;
        let messages = messages.iter().map(|(_, message)| STANDARD.encode(message)).collect();
        Ok(Answer::json(StatusCode::OK, &Messages { round: round.0, messages }))
    }
}

/// Listens on a loopback address until `stop` fires.
///
/// # Errors
/// If the address cannot be had, or is not loopback.
pub(super) fn listen(
    address: SocketAddr,
    outbox: Arc<Outbox>,
    stop: CancellationToken,
) -> anyhow::Result<Server> {
    let limits = NetLimits { connections: 64, drain: Duration::from_millis(500), ..NetLimits::default() };
    let plane = Plane {
        name: "messages",
        handler: Listener { outbox, stop },
        access: Access::Public,
        tls: None,
        quotas: None,
        budget: ByteBudget::new(0),
        limits,
        clock: Arc::new(DefaultTimeProvider),
    };
    let listener = bind(address).with_context(|| format!("the listener for messages on {address}"))?;
    Server::start(listener, plane).with_context(|| format!("the listener for messages on {address}"))
}
