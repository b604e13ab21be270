//! The daemon of a witness: `POST /add-checkpoint` as C2SP tlog-witness has it, over a memory that it never loses unseen.

use super::party::{Evidences, Listener, data_disk, room};
use super::{Process, unix_time};
use crate::config::{Deployment, WitnessConfig, cosigner, resolve};
use crate::net::compute::Compute;
use crate::net::{Answer, BodyRule, Call, Handler, Resource, Rule, metrics};
use crate::state::{SplitView, State, StateError, WitnessError, WitnessState};
use crate::store::head_of;
use anyhow::Context as _;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Method, StatusCode};
use panetiere::fault::Fault as _;
use panetiere_api::limits::MAX_SMALL_BYTES;
use panetiere_api::media::MediaType;
use panetiere_api::path::{Path as Resources, query};
use panetiere_api::problem::{Code, Problem};
use std::path::Path;
use std::sync::Arc;
use tlog::checkpoint::Log;
use tlog::key::Cosigner;
use tlog::note::Signature;
use tlog::witness::{Refusal, Request, SIZE_MEDIA_TYPE};
use tokio_util::sync::CancellationToken;

/// Requests that wait for a thread.
const QUEUE: usize = 64;

struct Desk {
    log: Log,
    cosigner: Cosigner,
    witness: WitnessState,
    evidences: Evidences,
}

impl Desk {
    fn cosign(&self, bytes: &[u8]) -> Result<Signature, WitnessError> {
        let request =
            Request::parse(bytes).map_err(|error| WitnessError::Refused(Refusal::Request(error)))?;
        self.witness.add_checkpoint(&self.log, &request, &self.cosigner, unix_time())
    }

    fn keep(&self, SplitView { first, second }: &SplitView) {
        crate::safe_error!("the log asks to cosign a second history");
        metrics::split_view("witness_split_view");
        let size = head_of(second).map_or(0, |head| head.size);
        let kept =
            self.evidences.keep("witness_split_view", size, Some(&first.to_string()), &second.to_string());
        // It is in the state besides.
        if kept.is_err() {
            crate::safe_error!("the evidence could not be written to a file");
        }
    }
}

struct Plane {
    desk: Arc<Desk>,
    compute: Compute,
    /// Fires when the state cannot be used any more.
    broken: CancellationToken,
}

fn refused(error: &WitnessError) -> Result<Answer, Problem> {
    let refusal = match error {
        WitnessError::Refused(refusal) | WitnessError::SplitView { refusal, .. } => refusal,
        WitnessError::State(_) => return Err(Code::Internal.into()),
        error => return Err(Problem::of(error, StatusCode::SERVICE_UNAVAILABLE)),
    };
    let status = StatusCode::from_u16(refusal.status()).unwrap_or(StatusCode::BAD_REQUEST);
    match refusal.size_body() {
        Some(size) => {
            let media = HeaderValue::from_static(SIZE_MEDIA_TYPE);
            Ok(Answer::bytes(status, MediaType::Text, size).with(CONTENT_TYPE, media))
        }
        None => Err(Problem::of(error, status)),
    }
}

impl Handler for Plane {
    type Route = ();

    fn resource(&self, path: &str, text: Option<&str>) -> Result<Resource<()>, Problem> {
        let path: Resources = path.parse().map_err(|error| Problem::of(&error, StatusCode::NOT_FOUND))?;
        query(text, []).map_err(|error| Problem::of(&error, StatusCode::BAD_REQUEST))?;
        let body = BodyRule::AtMost { media: MediaType::Text, max: MAX_SMALL_BYTES };
        match path {
            Resources::AddCheckpoint => {
                Ok(Resource { route: (), rules: vec![Rule { method: Method::POST, body }] })
            }
            _ => Err(Code::NotFound.into()),
        }
    }

    async fn handle(&self, mut call: Call<()>) -> Result<Answer, Problem> {
        let body = call.body.collect().await?;
        let desk = Arc::clone(&self.desk);
        let cosigned = self.compute.run("cosign", move || desk.cosign(&body)).await?;
        match cosigned {
            Ok(line) => Ok(Answer::bytes(StatusCode::OK, MediaType::Text, line.to_string())),
            Err(error) => {
                metrics::follow_error(error.code());
                match &error {
                    WitnessError::SplitView { evidence, .. } => self.desk.keep(evidence),
                    WitnessError::State(StateError::Broken { .. }) => self.broken.cancel(),
                    _ => {}
                }
                refused(&error)
            }
        }
    }
}

/// Runs a witness until the process stops.
///
/// # Errors
/// What keeps it from starting; a state that cannot be used any more.
pub async fn run(mut process: Process, config_path: &Path, config: WitnessConfig) -> anyhow::Result<()> {
    let deployment = Deployment::named_in(config_path, &config.deployment_file)?;
    let (path, disk) = data_disk(config_path, &config.data_dir)?;
    let state = State::open(&*disk).context("the witness's state")?;
    let anchor = deployment.anchor;
    let desk = Arc::new(Desk {
        log: Log::new(anchor.origin, vec![anchor.log_key]).context("the log's key")?,
        cosigner: cosigner(&resolve(config_path, &config.cosigner_key_file))?,
        witness: WitnessState::new(state),
        evidences: Evidences::new(&path)?,
    });
    let broken = CancellationToken::new();
    let plane = Plane { desk: Arc::clone(&desk), compute: Compute::new(1, QUEUE)?, broken: broken.clone() };
    let listener = Listener::start((config_path, &config.tls), config.listen_data, None, plane, &room())?;
    process.readiness.check("state", move || match desk.witness.head(desk.log.origin()) {
        Ok(head) => Ok(head.map(|head| format!("cosigned up to {}", head.size))),
        Err(error) => Err(crate::chain::chain(&error)),
    });
    process.ready();
    let outcome = loop {
        tokio::select! {
            () = process.stop.cancelled() => break Ok(()),
            () = broken.cancelled() => break Err(anyhow::anyhow!("the witness's state cannot be used any more")),
            Ok(()) = process.reload.changed() => listener.reload(),
        }
    };
    listener.drain().await;
    outcome
}
