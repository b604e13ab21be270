//! Where a client's bodies go: the bulletin, the lanes, an aggregator.

use crate::chain::chain;
use crate::config::{Deployment, Endpoint};
use crate::daemon::party::Upstream;
use panetiere::ids::{AggregatorId, ServerId};
use panetiere_api::leaf::RoundId;
use panetiere_api::media::MediaType;
use panetiere_api::path::{ClientKeyId, Path};
use std::sync::Arc;
use tokio::task::JoinSet;

/// Everything that one client sends in one round, as bytes.
pub(super) struct Parcel {
    pub(super) round: RoundId,
    pub(super) name: ClientKeyId,
    pub(super) openings: Vec<u8>,
    pub(super) post: (MediaType, Vec<u8>),
    /// In the order of the lanes; none without lanes.
    pub(super) items: Vec<Vec<u8>>,
    /// How many of them have to arrive.
    pub(super) items_needed: usize,
    /// The whole post, for one aggregator.
    pub(super) whole: Option<(AggregatorId, Vec<u8>)>,
}

fn all(endpoints: &[Endpoint]) -> anyhow::Result<Vec<Arc<Upstream>>> {
    endpoints.iter().map(|endpoint| Upstream::new(endpoint.data_client()).map(Arc::new)).collect()
}

/// Whom a client sends to.
pub(super) struct Destinations {
    bulletin: Arc<Upstream>,
    lanes: Vec<Arc<Upstream>>,
    aggregators: Vec<Arc<Upstream>>,
}

impl Destinations {
    pub(super) fn new(bulletin: Arc<Upstream>, deployment: &Deployment) -> anyhow::Result<Self> {
        Ok(Self { bulletin, lanes: all(&deployment.lanes)?, aggregators: all(&deployment.aggregators)? })
    }

    pub(super) async fn admit(&self, name: ClientKeyId, leaf: Vec<u8>) -> Result<(), String> {
        let path = Path::Admission(name);
        let put = self.bulletin.put("admission", &path, MediaType::Admission, leaf);
        put.await.map_err(|error| chain(&error))
    }

    pub(super) async fn answer(&self, round: RoundId, server: ServerId, name: ClientKeyId, leaf: Vec<u8>) {
        let path = Path::Answer(round, server, name);
        if let Err(error) = self.bulletin.put("answer", &path, MediaType::Answer, leaf).await {
            tracing::debug!(error = chain(&error), "an answer was not taken");
        }
    }

    /// Sends a parcel: what is sealed to the servers first, then what goes past the bulletin, the post last.
    pub(super) async fn post(&self, parcel: Parcel) -> Result<(), String> {
        let Parcel { round, name, openings, post: (media, post), items, items_needed, whole } = parcel;
        let failed = |error| chain(&error);
        self.bulletin
            .put("envelopes", &Path::Openings(round, name), MediaType::Openings, openings)
            .await
            .map_err(failed)?;
        if let Some((aggregator, body)) = whole {
            let to = self.aggregators.get(usize::from(aggregator.0));
            let to = to.ok_or_else(|| format!("the deployment names no aggregator {aggregator}"))?;
            to.put("post", &Path::Post(round, name), MediaType::Post, body).await.map_err(failed)?;
        }
        if !items.is_empty() {
            let mut puts = JoinSet::new();
            for (lane, item) in self.lanes.iter().zip(items) {
                let lane = Arc::clone(lane);
                puts.spawn(async move {
                    lane.put("share", &Path::Share(round, name), MediaType::Share, item).await.is_ok()
                });
            }
            let arrived = puts.join_all().await.into_iter().filter(|arrived| *arrived).count();
            // The lanes that were not reached rebuild their share from the others'.
            if arrived < items_needed {
                return Err(format!("{arrived} lanes were reached, {items_needed} are needed"));
            }
        }
        self.bulletin.put("post", &Path::Post(round, name), media, post).await.map_err(failed)
    }
}
