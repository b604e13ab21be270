//! What a party publishes: tried until the bulletin has it, refuses it, or the round is over.

use super::{Backoff, Upstream};
use crate::net::metrics;
use crate::role::Order;
use panetiere::bulletin::StatementContext;
use panetiere::evidence::Evidence;
use panetiere::ids::ServerId;
use panetiere::wire::{Decode as _, Encode as _, ObjectType, Reader};
use panetiere_api::leaf::{Leaf, RoundId, Unread};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// What was published is published again after so long if it is asked for: its leaf should have come by then.
const REPEAT: Duration = Duration::from_secs(3);
/// The same of what was refused for good.
const REPEAT_REFUSED: Duration = Duration::from_secs(30);
/// How long what is under way may take when the daemon goes down.
const LAST: Duration = Duration::from_millis(1500);

/// The server that a word on envelopes is from, without the round's parameters.
pub(super) fn checked_by(unread: &Unread) -> Option<ServerId> {
    let mut reader = Reader::new(&unread.bytes);
    reader.header(ObjectType::Checked).ok()?;
    StatementContext::decode(&mut reader).ok()?;
    ServerId::decode(&mut reader).ok()
}

/// One thing to publish.
struct Task {
    round: RoundId,
    /// Evidence is of use when its round is over, too.
    accuses: bool,
    cancel: CancellationToken,
    /// From when on it may be published again; none while it is under way.
    again: Option<Instant>,
}

type Tasks = BTreeMap<[u8; 32], Task>;

/// Publishes, each thing in a task of its own.
#[derive(Clone)]
pub struct Publisher {
    upstream: Arc<Upstream>,
    tasks: Arc<Mutex<Tasks>>,
    tracker: TaskTracker,
    /// Fires when nothing is tried again.
    stop: CancellationToken,
}

impl std::fmt::Debug for Publisher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Publisher({} under way)", self.tracker.len())
    }
}

/// The same order has the same name.
fn name(order: &Order) -> Option<(RoundId, [u8; 32])> {
    let mut hasher = blake3::Hasher::new();
    let round = match order {
        Order::Accuse { round, evidence, .. } => {
            hasher.update(b"accuse");
            hasher.update(&Evidence::to_bytes(evidence));
            round
        }
        Order::Fetch { .. } => return None,
        Order::Publish { round, leaf, .. } => {
            hasher.update(&Leaf::to_bytes(leaf));
            round
        }
    };
    hasher.update(&round.0.to_le_bytes());
    Some((*round, *hasher.finalize().as_bytes()))
}

const fn kind(order: &Order) -> &'static str {
    match order {
        Order::Accuse { .. } => "evidence",
        Order::Fetch { .. } => "fetch",
        Order::Publish { leaf, .. } => leaf.kind(),
    }
}

impl Publisher {
    /// A publisher that has nothing to do yet. Nothing is tried again once `stop` has fired.
    pub fn new(upstream: Arc<Upstream>, stop: CancellationToken) -> Self {
        Self { upstream, tasks: Arc::default(), tracker: TaskTracker::new(), stop }
    }

    fn lock(&self) -> MutexGuard<'_, Tasks> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Publishes what is to be published among the orders; the others are the caller's. What is under way already, or was
    /// published a moment ago, is left alone.
    pub fn submit(&self, orders: impl IntoIterator<Item = Order>) {
        for order in orders {
            let Some((round, name)) = name(&order) else { continue };
            let cancel = CancellationToken::new();
            {
                let mut tasks = self.lock();
                if tasks.get(&name).is_some_and(|task| task.again.is_none_or(|at| Instant::now() < at)) {
                    continue;
                }
                let accuses = matches!(order, Order::Accuse { .. });
                tasks.insert(name, Task { round, accuses, cancel: cancel.clone(), again: None });
            }
            let publisher = self.clone();
            self.tracker.spawn(async move {
                let repeat = cancel.run_until_cancelled(publisher.publish(&order)).await;
                if let Some(task) = publisher.lock().get_mut(&name) {
                    task.again = Some(Instant::now() + repeat.unwrap_or(Duration::ZERO));
                }
            });
        }
    }

    /// Tries until there is an answer. Returns how long it is of no use to try again.
    async fn publish(&self, order: &Order) -> Duration {
        let kind = kind(order);
        let mut backoff = Backoff::default();
        loop {
            match self.upstream.publish(order).await {
                Ok(()) => {
                    metrics::published(kind, "taken");
                    crate::safe_info!("published", kind = kind, round = round_of(order));
                    return REPEAT;
                }
                Err(error) if error.is_final() => {
                    metrics::published(kind, "refused");
                    let status = error.status().unwrap_or(0);
                    crate::safe_warn!(
                        "the bulletin does not take it",
                        kind = kind,
                        round = round_of(order),
                        status = status
                    );
                    tracing::debug!(error = crate::chain::chain(&error), kind, "refused");
                    return REPEAT_REFUSED;
                }
                Err(error) => {
                    metrics::published(kind, "failed");
                    tracing::debug!(error = crate::chain::chain(&error), kind, "not published yet");
                }
            }
            if self.stop.run_until_cancelled(backoff.wait()).await.is_none() {
                return Duration::ZERO;
            }
        }
    }

    /// Gives up what belongs to rounds that are over; but evidence is handed over all the same.
    pub fn keep(&self, mut under_way: impl FnMut(RoundId) -> bool) {
        self.lock().retain(|_, task| {
            let keep = under_way(task.round) || (task.accuses && task.again.is_none());
            if !keep {
                task.cancel.cancel();
            }
            keep
        });
    }

    /// Lets what is under way come to its end, for a moment.
    pub async fn drain(&self) {
        self.tracker.close();
        if timeout(LAST, self.tracker.wait()).await.is_err() {
            crate::safe_warn!("something was not published before the end", count = self.tracker.len());
        }
        self.lock().values().for_each(|task| task.cancel.cancel());
    }
}

const fn round_of(order: &Order) -> RoundId {
    match order {
        Order::Accuse { round, .. } | Order::Fetch { round, .. } | Order::Publish { round, .. } => *round,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::daemon::unix_time;
    use crate::net::budget::ByteBudget;
    use crate::net::certificates::{KeyKind, self_signed};
    use crate::net::serve::bind;
    use crate::net::tls::ClientCertificates;
    use crate::net::{
        Access, Answer, BodyRule, Call, Handler, NetLimits, Plane, Resource, Rule, Server, ServerTls,
    };
    use http::StatusCode;
    use panetiere_api::client::ClientConfig;
    use panetiere_api::media::MediaType;
    use panetiere_api::problem::{Code, Problem};
    use panetiere_api::testing::{Scene, Stage};
    use panetiere_api::tls::{SpkiDigest, Validity};
    use rustls::time_provider::DefaultTimeProvider;
    use std::collections::VecDeque;

    /// Answers what it was told to, one after the other, and takes down the paths.
    struct Script {
        answers: Mutex<VecDeque<StatusCode>>,
        asked: Arc<Mutex<Vec<String>>>,
    }

    impl Handler for Script {
        type Route = String;

        fn resource(&self, path: &str, _: Option<&str>) -> Result<Resource<String>, Problem> {
            let body = BodyRule::AtMost { media: MediaType::ServerSum, max: 1 << 20 };
            Ok(Resource { route: path.to_owned(), rules: vec![Rule::put(body)] })
        }

        async fn handle(&self, mut call: Call<String>) -> Result<Answer, Problem> {
            let body = call.body.collect().await?;
            self.asked.lock().unwrap().push(format!("{} {}", call.route, body.len()));
            match self.answers.lock().unwrap().pop_front() {
                Some(StatusCode::CREATED) => Ok(Answer::empty(StatusCode::CREATED)),
                Some(StatusCode::CONFLICT) => Err(Problem::new("conflict", StatusCode::CONFLICT, "Another")),
                _ => Err(Problem::from(Code::Shed).with_retry_after(0)),
            }
        }
    }

    fn bulletin(answers: &[StatusCode]) -> (Server, SpkiDigest, Arc<Mutex<Vec<String>>>) {
        let now = unix_time();
        let validity = Validity { not_before: now - 60, not_after: now + 3600 };
        let issued = self_signed(&["127.0.0.1"], KeyKind::P256, validity).unwrap();
        let clock = Arc::new(DefaultTimeProvider);
        let (certificate, key) = (issued.certificate_pem.as_bytes(), issued.key_pem.as_bytes());
        let tls = ServerTls::new(certificate, key, ClientCertificates::NotAsked, clock.clone()).unwrap();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let script =
            Script { answers: Mutex::new(answers.iter().copied().collect()), asked: Arc::clone(&asked) };
        let limits = NetLimits::default();
        let plane = Plane {
            name: "test",
            handler: script,
            access: Access::Public,
            tls: Some(Arc::new(tls)),
            quotas: None,
            budget: ByteBudget::new(limits.inflight_bytes),
            limits,
            clock,
        };
        let server = Server::start(bind(([127, 0, 0, 1], 0).into()).unwrap(), plane).unwrap();
        (server, issued.spki, asked)
    }

    /// Sums of three servers.
    fn orders() -> Vec<Order> {
        let mut stage = Stage::new(Scene::new(5, 4, 40, |shape| shape.servers(3)));
        let (session, sent) = stage.closed();
        let set = stage.set(&session).clone();
        let order = |server| {
            let sum = stage.server_sum(&session, server, &set, &sent);
            let body = Some(sum.to_bytes(&stage.scene.net.params));
            Order::Publish { round: RoundId(1), leaf: Box::new(Leaf::ServerSum(sum.signed().clone())), body }
        };
        (0..3).map(order).collect()
    }

    #[tokio::test]
    async fn what_is_published_is_tried_until_it_is_taken_or_refused() {
        let busy = StatusCode::SERVICE_UNAVAILABLE;
        let answers = [busy, busy, busy, busy, StatusCode::CREATED, StatusCode::CONFLICT];
        let (server, pin, asked) = bulletin(&answers);
        let port = server.address().port();
        let upstream = Arc::new(Upstream::new(ClientConfig::new("127.0.0.1", port, vec![pin])).unwrap());
        let stop = CancellationToken::new();
        let publisher = Publisher::new(upstream, stop.clone());
        let orders = orders();
        let len = |order: &Order| match order {
            Order::Publish { body: Some(body), .. } => body.len(),
            _ => 0,
        };
        // Taken at the fifth try; asked for at once again, it is left alone.
        let done = async {
            publisher.submit([orders[0].clone()]);
            publisher.submit([orders[0].clone()]);
            while publisher.lock().values().any(|task| task.again.is_none()) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            publisher.submit([orders[0].clone()]);
        };
        timeout(Duration::from_secs(20), done).await.unwrap();
        let line = |server: usize| format!("/v1/rounds/1/sums/{server} {}", len(&orders[server]));
        assert_eq!(*asked.lock().unwrap(), vec![line(0); 5]);
        // Refused: not tried again. Never answered well: tried until the round is over.
        publisher.submit([orders[1].clone(), orders[2].clone()]);
        let tried = async {
            while asked.lock().unwrap().len() < 8 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(Duration::from_secs(20), tried).await.unwrap();
        publisher.keep(|_| false);
        publisher.drain().await;
        let asked = asked.lock().unwrap().clone();
        let once = [line(1), line(2)].map(|line| asked.iter().filter(|other| **other == line).count() == 1);
        assert!(once[0] != once[1], "one was refused and left alone: {asked:?}");
        server.drain().await;
    }

    #[tokio::test]
    async fn another_server_is_told_from_one_that_is_down() {
        let (server, _, asked) = bulletin(&[]);
        let port = server.address().port();
        let other = SpkiDigest([7; 32]);
        let upstream = Upstream::new(ClientConfig::new("127.0.0.1", port, vec![other])).unwrap();
        let error = upstream.size().await.unwrap_err();
        assert!(error.is_wrong_server() && !error.is_final(), "{error}");
        assert!(asked.lock().unwrap().is_empty());
        server.drain().await;
        let path = panetiere_api::path::Path::Wait.to_string();
        let error =
            upstream.get("checkpoint", &path, 1, panetiere_api::client::Resume::Never).await.unwrap_err();
        assert!(!error.is_wrong_server(), "{error}");
    }
}
