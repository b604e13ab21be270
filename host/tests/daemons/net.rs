//! A deployment of real daemons in one process, on loopback and in a temporary directory, and clients of it.

use chipmunk::params::P300;
use chipmunk::ring::backend::under_test;
use panetiere::channel::{Encoding, encode_message};
use panetiere::ids::ClientId;
use panetiere::sig::SigningKey;
use panetiere::wire::Encode as _;
use panetiere_api::client::{Client, Upload};
use panetiere_api::follow::Follower;
use panetiere_api::leaf::{Admission, Credential, Leaf, RoundId, Signed};
use panetiere_api::media::MediaType;
use panetiere_api::participate::Participation;
use panetiere_api::path::{ClientKeyId, Path as Resource};
use panetiere_api::round::{NoBlobs, Phase, Record, Session};
use panetiere_host::config::{self, Deployment, Rounds};
use panetiere_host::daemon::party::Upstream;
use panetiere_host::daemon::{self, Process};
use panetiere_host::deploy::{self, Plan};
use panetiere_host::local::{Route, Shape};
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// Whatever takes longer hangs.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A daemon that runs.
pub struct Running {
    pub role: &'static str,
    pub config: PathBuf,
    stop: CancellationToken,
    task: JoinHandle<anyhow::Result<()>>,
}

impl Running {
    /// What it ends with by itself.
    pub async fn outcome(self) -> anyhow::Result<()> {
        self.task.await.expect("no panic")
    }

    /// Has it go down.
    pub async fn stop(self) -> (&'static str, PathBuf) {
        self.stop.cancel();
        let outcome = timeout(Duration::from_secs(10), self.task).await.expect("it goes down");
        outcome.expect("no panic").unwrap_or_else(|error| panic!("{} ends with {error:#}", self.role));
        (self.role, self.config)
    }
}

/// Starts a daemon.
pub fn start(role: &'static str, config: &Path) -> Running {
    let stop = CancellationToken::new();
    let process = Process {
        stop: stop.clone(),
        reload: watch::channel(0).1,
        readiness: Arc::default(),
        kernels: under_test(),
    };
    let path = config.to_owned();
    let task = tokio::spawn(async move {
        match role {
            "aggregator" => {
                daemon::aggregator::run(process, &path, config::AggregatorConfig::read(&path)?).await
            }
            "lane" => daemon::lane::run(process, &path, config::LaneConfig::read(&path)?).await,
            "witness" => daemon::witness::run(process, &path, config::WitnessConfig::read(&path)?).await,
            "bulletin" => daemon::bulletin::run(process, &path, config::BulletinConfig::read(&path)?).await,
            "recipient" => {
                daemon::recipient::run(process, &path, config::RecipientConfig::read(&path)?).await
            }
            "server" => daemon::server::run(process, &path, config::ServerConfig::read(&path)?).await,
            other => panic!("no daemon {other}"),
        }
    });
    Running { role, config: config.to_owned(), stop, task }
}

pub struct Net {
    pub deployment: Deployment,
    pub running: Vec<Running>,
    pub clients: Vec<Arc<SigningKey>>,
    /// A lane that clients send nothing to.
    pub silent: Option<u16>,
    follower: Follower,
    upstream: Upstream,
    dir: TempDir,
}

/// A deployment, all of it running, with clients that are not admitted yet.
pub fn net(servers: u16, threshold: u16, route: Route, clients: u8, witnesses: u16) -> Net {
    let dir = tempfile::tempdir().unwrap();
    let shape = Shape {
        clients: 8,
        servers,
        threshold,
        min_clients: 2,
        message_bytes: 32,
        encoding: Encoding::Sketch,
        route,
        set: &P300,
        kernels: under_test(),
    };
    let windows = Rounds {
        collect_window_ms: 20_000,
        check_window_ms: 10_000,
        answer_window_ms: 3_000,
        interval_ms: 200,
        retain_rounds: 8,
    };
    let plan = Plan {
        dir: dir.path().join("net"),
        name: "panetiere.test".to_owned(),
        shape,
        rounds: 1000,
        windows,
        first_port: None,
        witnesses,
    };
    let made = deploy::init(&plan, &mut ChaCha20Rng::from_seed([7; 32]), daemon::unix_time()).unwrap();
    let deployment = Deployment::read(&plan.dir.join("deployment.toml")).unwrap();
    let running = made.daemons.iter().map(|(role, config)| start(role, config)).collect();
    let key = |client: u8| Arc::new(SigningKey::generate(&mut ChaCha20Rng::from_seed([client + 1; 32])));
    let record = Record::new(deployment.anchor.clone(), under_test());
    let (follower, upstream) = (Follower::new(record), Upstream::public(&deployment).unwrap());
    Net {
        running,
        clients: (0..clients).map(key).collect(),
        silent: None,
        follower,
        upstream,
        deployment,
        dir,
    }
}

impl Net {
    pub fn path(&self, party: &str) -> PathBuf {
        self.dir.path().join("net").join(party)
    }

    /// Takes a daemon out of those that run.
    pub fn take(&mut self, party: &str) -> Running {
        let path = self.path(party);
        let place = self.running.iter().position(|daemon| daemon.config.starts_with(&path)).unwrap();
        self.running.remove(place)
    }

    pub async fn stop(&mut self) {
        for daemon in std::mem::take(&mut self.running).into_iter().rev() {
            daemon.stop().await;
        }
    }

    fn data(&self) -> Client {
        Client::new(self.deployment.bulletin.data_client()).unwrap()
    }

    /// Reads on until the record is as it should be.
    pub async fn until<T>(&mut self, what: &str, found: impl Fn(&Record) -> Option<T>) -> T {
        let read = async {
            loop {
                if let Some(found) = found(self.follower.record()) {
                    return found;
                }
                if let Some(ended) = self.running.iter().find(|daemon| daemon.task.is_finished()) {
                    panic!("{} has ended", ended.config.display());
                }
                let Ok(Some(batch)) = self.upstream.next(self.follower.size()).await else {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                };
                self.follower.advance(&batch.note, &batch.entries, &NoBlobs).unwrap();
            }
        };
        match timeout(PATIENCE, read).await {
            Ok(found) => found,
            Err(_) => panic!("waited for {what}; {}", self.state()),
        }
    }

    fn state(&self) -> String {
        let round = |session: &Session| {
            let (posts, checked) = (session.posts().len(), session.checked().len());
            let sums = [session.server_sums().len(), session.lane_sums().len(), session.group_sums().len()];
            format!(
                "{}: {posts} posts, {checked} checked, closed {}, sums {sums:?}",
                session.round(),
                session.closed().is_some()
            )
        };
        let record = self.follower.record();
        format!("log of {}: {:?}", record.size(), record.rounds().map(round).collect::<Vec<_>>())
    }

    /// Has all clients admitted.
    pub async fn admit(&mut self) {
        let epoch = self.until("the epoch", |record| Some(*record.epoch()?.digest())).await;
        let client = self.data();
        for key in self.clients.clone() {
            let admission = Admission {
                deployment: self.deployment.anchor.deployment,
                epoch,
                key: key.verifying_key(),
                credential: Credential::Unattested,
            };
            let leaf = Leaf::Admission(Signed::sign(admission, &key)).to_bytes();
            let path = Resource::Admission(ClientKeyId::of(&key.verifying_key())).to_string();
            client.put(&path, MediaType::Admission, Upload::Bytes(leaf.into())).await.unwrap();
        }
        let count = self.clients.len();
        self.until("admissions", |record| (record.epoch()?.members().count() == count).then_some(())).await;
    }

    /// A round that collects and that all clients have read of, and what each sends in it.
    pub async fn post(&mut self) -> (RoundId, Vec<Vec<u8>>) {
        let round = self.until("a round", |record| {
            let open = record.rounds().rev().find(|session| *session.phase() == Phase::Collecting)?;
            (open.posts().is_empty()).then(|| open.round())
        });
        let round = round.await;
        let record = self.follower.record();
        let session = record.round(round).unwrap();
        let epoch = record.epoch_of(session.epoch()).unwrap();
        let channel = epoch.plan().terms.channel().with_kernels(under_test());
        let mut messages = Vec::new();
        for (number, key) in (1_u8..).zip(&self.clients) {
            let message = format!("message {} of client {number}", round.0).into_bytes();
            let mut rng = ChaCha20Rng::from_seed([100 + number; 32]);
            let vector = encode_message(&mut rng, &channel, session.id(), &message).unwrap();
            let part = Participation::new(&mut rng, session, epoch, Arc::clone(key), &vector);
            let (_, outgoing) = part.unwrap();
            let name = ClientKeyId::of(&key.verifying_key());
            self.send(round, name, session, epoch.client_of(&key.verifying_key()).unwrap(), &outgoing).await;
            messages.push(message);
        }
        messages.sort();
        (round, messages)
    }

    async fn send(
        &self,
        round: RoundId,
        name: ClientKeyId,
        session: &Session,
        id: ClientId,
        outgoing: &panetiere_api::participate::Outgoing,
    ) {
        let params = session.params();
        let put = async |client: &Client, path: Resource, media, bytes: Vec<u8>| {
            let upload = Upload::Bytes(bytes.into());
            if let Err(error) = client.put(&path.to_string(), media, upload).await {
                panic!("{path}: {error}: {:?}", error.refusal());
            }
        };
        for (lane, item) in self.deployment.lanes.iter().zip(&outgoing.items) {
            if Some(item.lane.0) == self.silent {
                continue;
            }
            let lane = Client::new(lane.data_client()).unwrap();
            put(&lane, Resource::Share(round, name), MediaType::Share, item.to_bytes()).await;
        }
        let aggregators = self.deployment.aggregators.len();
        if let Some(place) = usize::try_from(id.0).unwrap().checked_rem(aggregators) {
            let aggregator = Client::new(self.deployment.aggregators[place].data_client()).unwrap();
            put(&aggregator, Resource::Post(round, name), MediaType::Post, outgoing.post.to_bytes(params))
                .await;
        }
        let bulletin = self.data();
        put(&bulletin, Resource::Openings(round, name), MediaType::Openings, outgoing.openings_to_bytes())
            .await;
        let media = match params.mode() {
            panetiere::bulletin::Mode::Direct => MediaType::Post,
            _ => MediaType::RsPost,
        };
        put(&bulletin, Resource::Post(round, name), media, outgoing.bulletin_post(params)).await;
    }

    /// The messages that the recipient has written of a round.
    pub async fn messages(&mut self, round: RoundId) -> Vec<Vec<u8>> {
        self.until("the result", |record| record.round(round)?.result().map(drop)).await;
        let path = self.path("recipient").join("data/messages").join(round.to_string());
        let mut files: Vec<PathBuf> =
            std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        files.iter().map(|file| std::fs::read(file).unwrap()).collect()
    }
}
