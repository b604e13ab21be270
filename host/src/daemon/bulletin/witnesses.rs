//! Witnesses besides the servers: they have a port, and are asked.

use super::Service;
use crate::config::{Deployment, Endpoint};
use crate::store::head_of;
use http::StatusCode;
use panetiere::fault::Fault as _;
use panetiere_api::client::{Client, Upload};
use panetiere_api::limits::MAX_WAIT_MS;
use panetiere_api::media::MediaType;
use panetiere_api::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tlog::note::Signature;
use tlog::witness::parse_size_body;
use tokio::task::spawn_blocking;

/// The wait after a witness that does not answer.
const PAUSE: Duration = Duration::from_secs(1);

/// Starts to ask every witness of the deployment.
pub(super) fn start(service: &Arc<Service>, deployment: &Deployment) -> anyhow::Result<()> {
    for witness in &deployment.witnesses {
        let client = Client::new(witness.data_client())?;
        tokio::spawn(ask(Arc::clone(service), client, who(witness)));
    }
    Ok(())
}

/// What the bulletin calls a witness: the digest of its address.
fn who(witness: &Endpoint) -> [u8; 32] {
    *blake3::hash(witness.data.as_bytes()).as_bytes()
}

async fn ask(service: Arc<Service>, client: Client, who: [u8; 32]) {
    let (mut size, mut changes) = (0, service.bulletin.changes());
    while !service.process.stop.is_cancelled() {
        changes.mark_unchanged();
        let request = match service.bulletin.ask_to_cosign(&who, size, service.now()) {
            Ok(Some(request)) => request,
            // Nothing to ask, or no proof from that size.
            _ => {
                tokio::select! {
                    _ = changes.changed() => {}
                    () = service.process.stop.cancelled() => return,
                    () = tokio::time::sleep(Duration::from_millis(MAX_WAIT_MS)) => {}
                }
                continue;
            }
        };
        let Ok(asked) = head_of(request.note()).map(|head| head.size) else { return };
        let upload = Upload::Bytes(request.to_string().into());
        match client.post(&Path::AddCheckpoint.to_string(), MediaType::Text, upload).await {
            Ok(answer) => {
                let lines =
                    std::str::from_utf8(&answer.body).ok().and_then(|text| Signature::parse_lines(text).ok());
                let bulletin = Arc::clone(&service.bulletin);
                let lines = lines.unwrap_or_default();
                let taken = spawn_blocking(move || bulletin.take_cosignatures(&who, asked, &lines)).await;
                if matches!(taken, Ok(Ok(_))) {
                    size = asked;
                } else {
                    crate::safe_warn!("a witness answered with no cosignature of its own");
                    tokio::time::sleep(PAUSE).await;
                }
            }
            Err(error) => {
                // It says how far it is (C2SP: 409 with its size).
                let known = error.refusal().filter(|refusal| refusal.status == StatusCode::CONFLICT);
                let known = known.and_then(|refusal| parse_size_body(&refusal.body));
                if let Some(known) = known {
                    size = known;
                } else {
                    crate::safe_warn!("a witness does not answer");
                    tracing::debug!(code = error.code(), "a witness does not answer");
                }
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}
