//! What the bulletin takes.

use super::routes::Route;
use super::{Service, problems};
use crate::bulletin::{Accepted, Refused, Taken};
use crate::net::{Answer, Call};
use crate::store::{Committed, StoreError};
use http::StatusCode;
use panetiere::bulletin::{Mode, PostHead};
use panetiere_api::leaf::RoundId;
use panetiere_api::media::MediaType;
use panetiere_api::path::{ClientKeyId, Path};
use panetiere_api::problem::{Code, Problem};
use std::sync::Arc;
use tlog::note::Signature;
use tlog::proof::Proof;
use tokio::sync::oneshot;
use tokio::task::{block_in_place, spawn_blocking};

type Receiver = oneshot::Receiver<Result<Committed, StoreError>>;

async fn committed(receiver: Receiver) -> Result<Committed, Problem> {
    let outcome = receiver.await.unwrap_or(Err(StoreError::Stopped));
    outcome.map_err(|error| problems::store(&error))
}

fn receipt(status: StatusCode, proof: &Proof) -> Answer {
    Answer::bytes(status, MediaType::Text, proof.to_string())
}

impl Service {
    pub(super) async fn put(self: &Arc<Self>, mut call: Call<Route>) -> Result<Answer, Problem> {
        let path = call.route.path.clone();
        if let Path::Post(round, client) = path
            && self.bulletin.params(round).map_err(|error| problems::refused(&error))?.mode() == Mode::Direct
        {
            return self.direct_post(round, client, call).await;
        }
        let who = call.principal.as_ref().map_or([0; 32], |principal| principal.key.0);
        let body = call.body.collect().await?;
        match path {
            Path::Admission(client) => {
                self.take("admission", move |service| service.bulletin.take_admission(&client, &body)).await
            }
            Path::Answer(round, server, client) => {
                let take = move |service: &Self| service.bulletin.take_answer(round, server, &client, &body);
                self.take("answer", take).await
            }
            Path::Checked(round, server) => {
                self.take("checked", move |service| service.bulletin.take_checked(round, server, &body)).await
            }
            Path::Openings(round, client) => {
                let take = move |service: &Self| service.bulletin.take_openings(round, &client, &body);
                if let Some(receiver) = self.job("openings", take).await? {
                    match receiver.await.unwrap_or(Err(StoreError::Stopped)) {
                        // The same came twice at once; if it was not the same, the post finds it out.
                        Ok(_) | Err(StoreError::KeyExists { .. }) => {}
                        Err(error) => return Err(problems::store(&error)),
                    }
                }
                Ok(Answer::empty(StatusCode::NO_CONTENT))
            }
            Path::Post(round, client) => {
                self.take("post", move |service| service.bulletin.take_post(round, &client, &body)).await
            }
            Path::ServerSum(round, server) => {
                let take = move |service: &Self| service.bulletin.take_server_sum(round, server, &body);
                self.take("sum", take).await
            }
            Path::LaneSum(round, lane) => {
                self.take("sum", move |service| service.bulletin.take_lane_sum(round, lane, &body)).await
            }
            Path::GroupSum(round, group) => {
                self.take("sum", move |service| service.bulletin.take_group_sum(round, group, &body)).await
            }
            Path::Result(round) => {
                self.take("result", move |service| service.bulletin.take_result(round, &body)).await
            }
            Path::Evidence(round) => self.evidence(round, body.to_vec()).await,
            Path::Cosignatures(size) => self.cosignatures(who, size, &body).await,
            _ => Err(Code::NotFound.into()),
        }
    }

    /// Does what takes arithmetic where arithmetic is done.
    async fn job<T: Send + 'static>(
        self: &Arc<Self>,
        class: &'static str,
        job: impl FnOnce(&Self) -> Result<T, Refused> + Send + 'static,
    ) -> Result<T, Problem> {
        let service = Arc::clone(self);
        let outcome = self.compute.run(class, move || job(&service)).await;
        outcome.map_err(|error| problems::compute(&error))?.map_err(|error| problems::refused(&error))
    }

    /// Takes something and waits for its receipt.
    async fn take(
        self: &Arc<Self>,
        class: &'static str,
        take: impl FnOnce(&Self) -> Result<Taken, Refused> + Send + 'static,
    ) -> Result<Answer, Problem> {
        let taken = self.job(class, take).await?;
        self.receipt_of(taken).await
    }

    async fn receipt_of(&self, taken: Taken) -> Result<Answer, Problem> {
        match taken {
            Taken::Accepted(Accepted { committed: receiver, .. }) => {
                let leaf = committed(receiver).await?.leaf.ok_or(Code::Internal)?;
                let proof = leaf.proof().map_err(|error| problems::store(&error))?;
                Ok(receipt(StatusCode::CREATED, &proof))
            }
            Taken::Already { index } => {
                let mut durable = self.bulletin.durable();
                // It may still be on its way.
                durable
                    .wait_for(|size| *size > index)
                    .await
                    .map_err(|_| Problem::from(Code::ShuttingDown))?;
                let proof = self.bulletin.store().receipt(index).map_err(|error| problems::store(&error))?;
                Ok(receipt(StatusCode::OK, &proof))
            }
        }
    }

    /// A post with its ciphertext: the head is checked as soon as it is here, the rest goes to the disk as it comes.
    async fn direct_post(
        self: &Arc<Self>,
        round: RoundId,
        client: ClientKeyId,
        mut call: Call<Route>,
    ) -> Result<Answer, Problem> {
        let refused = |error: Refused| problems::refused(&error);
        let params = self.bulletin.params(round).map_err(refused)?;
        let head_len = PostHead::packed_len(&params);
        let mut head = Vec::with_capacity(head_len);
        let mut rest = None;
        while head.len() < head_len {
            let Some(chunk) = call.body.chunk().await? else { return Err(Code::BodyLength.into()) };
            let taken = chunk.len().min(head_len - head.len());
            head.extend_from_slice(&chunk[..taken]);
            rest = (taken < chunk.len()).then_some((chunk, taken));
        }
        let begin = move |service: &Self| service.bulletin.begin_post(round, &client, &head);
        let mut incoming = match self.job("post", begin).await? {
            Ok(incoming) => incoming,
            Err(index) => return self.receipt_of(Taken::Already { index }).await,
        };
        if let Some((chunk, taken)) = rest.take() {
            block_in_place(|| incoming.write(&chunk[taken..])).map_err(refused)?;
        }
        while let Some(chunk) = call.body.chunk().await? {
            block_in_place(|| incoming.write(&chunk)).map_err(refused)?;
        }
        self.take("post", move |service| service.bulletin.finish_post(incoming)).await
    }

    async fn evidence(self: &Arc<Self>, round: RoundId, body: Vec<u8>) -> Result<Answer, Problem> {
        let service = Arc::clone(self);
        let taken = spawn_blocking(move || service.bulletin.take_evidence(round, &body)).await;
        let taken = taken.map_err(|_| Problem::from(Code::Internal))?;
        if let Some(accepted) = taken.map_err(|error| problems::refused(&error))? {
            committed(accepted.committed).await?;
        }
        Ok(Answer::empty(StatusCode::NO_CONTENT))
    }

    async fn cosignatures(
        self: &Arc<Self>,
        who: [u8; 32],
        size: u64,
        body: &[u8],
    ) -> Result<Answer, Problem> {
        let malformed = |detail: String| {
            Problem::new("cosign_malformed", StatusCode::BAD_REQUEST, "No lines of signatures")
                .with_detail(detail)
        };
        let text = std::str::from_utf8(body).map_err(|error| malformed(error.to_string()))?;
        let lines = Signature::parse_lines(text).map_err(|error| malformed(error.to_string()))?;
        let service = Arc::clone(self);
        let taken = spawn_blocking(move || service.bulletin.take_cosignatures(&who, size, &lines)).await;
        let sealed =
            taken.map_err(|_| Problem::from(Code::Internal))?.map_err(|error| problems::cosign(&error))?;
        for round in sealed {
            crate::safe_info!("round sealed", round = round);
        }
        Ok(Answer::empty(StatusCode::NO_CONTENT))
    }
}
