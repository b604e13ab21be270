//! A whole deployment on one machine: keys, certificates, the first epoch, a configuration for every daemon.

use super::DEPLOYMENT_FILE;
use crate::config::{
    AggregatorConfig, BulletinConfig, ClientFile, Deployment, Endpoint, LaneConfig, Listen, Parties,
    PolicyConfig, RecipientConfig, Rounds, ServerConfig, Storage, TlsFiles, WitnessConfig, signing_key_text,
    write_secret,
};
use crate::local::{Route, Shape};
use crate::net::certificates::{KeyKind, self_signed};
use crate::net::{Principal, Role};
use crate::state::{Credential, EpochKeys, State, WitnessState};
use crate::store::disk::{Disk, LocalDisk};
use anyhow::{Context as _, bail};
use panetiere::bulletin::{Epoch, EpochServer};
use panetiere::ids::{AggregatorId, DeploymentId, EpochId, NodeId, ServerId};
use panetiere::protocol::Terms;
use panetiere::sig::{SigningKey, VerifyingKey};
use panetiere_api::leaf::{AdmissionPolicy, EpochPlan, Leaf, Signed, Witnesses};
use panetiere_api::round::Anchor;
use panetiere_api::tls::{SpkiDigest, Validity};
use rand_core::CryptoRng;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tlog::key::{Cosigner, NoteSigner};
use zeroize::Zeroizing;

/// Certificates are good for so long. Keys are pinned: a certificate of the same key takes its place at any time.
const CERTIFICATE_SECONDS: u64 = 365 * 24 * 3600;

/// What is to be made.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The directory: made here, or empty.
    pub dir: PathBuf,
    /// The deployment's name: part of its log's origin and its keys' names.
    pub name: String,
    /// Clients, servers, route, payload.
    pub shape: Shape,
    /// Rounds that the first epoch has.
    pub rounds: u32,
    /// How rounds go.
    pub windows: Rounds,
    /// The first of the ports, which follow one another; none for any that are free.
    pub first_port: Option<u16>,
    /// Witnesses besides the servers.
    pub witnesses: u16,
}

/// What was made.
#[derive(Clone, Debug)]
pub struct Initialised {
    /// The daemons, in the order in which they are started: name of the role and its configuration.
    pub daemons: Vec<(&'static str, PathBuf)>,
    /// The client's configuration.
    pub client: PathBuf,
    /// The script that starts all daemons.
    pub start: PathBuf,
}

/// Hands out addresses on loopback.
struct Ports {
    next: Option<u16>,
    /// Held until all are given out, so that none comes twice.
    held: Vec<TcpListener>,
}

impl Ports {
    fn next(&mut self) -> anyhow::Result<SocketAddr> {
        let ip = IpAddr::V4(Ipv4Addr::LOCALHOST);
        if let Some(port) = self.next {
            self.next = Some(port.checked_add(1).context("no port above 65535")?);
            return Ok(SocketAddr::new(ip, port));
        }
        let listener = TcpListener::bind(SocketAddr::new(ip, 0)).context("no free port")?;
        let address = listener.local_addr()?;
        self.held.push(listener);
        Ok(address)
    }
}

/// One party's directory and TLS identity.
struct Party {
    directory: PathBuf,
    name: String,
    spki: SpkiDigest,
}

struct Maker<'p, R> {
    plan: &'p Plan,
    rng: &'p mut R,
    ports: Ports,
    now: u64,
}

const TLS: (&str, &str) = ("tls.crt", "tls.key");

fn tls() -> TlsFiles {
    TlsFiles { certificate_file: TLS.0.into(), private_key_file: TLS.1.into() }
}

fn above(file: &str) -> PathBuf {
    Path::new("..").join(file)
}

impl<R: CryptoRng> Maker<'_, R> {
    fn party(&self, name: &str) -> anyhow::Result<Party> {
        let directory = self.plan.dir.join(name);
        fs::create_dir(&directory).with_context(|| format!("{}", directory.display()))?;
        fs::set_permissions(&directory, fs::Permissions::from_mode(0o700))?;
        let validity =
            Validity { not_before: self.now.saturating_sub(3600), not_after: self.now + CERTIFICATE_SECONDS };
        let issued = self_signed(&["127.0.0.1", "localhost"], KeyKind::P256, validity)?;
        fs::write(directory.join(TLS.0), &issued.certificate_pem)?;
        write_secret(&directory.join(TLS.1), issued.key_pem.as_bytes())?;
        Ok(Party { directory, name: name.to_owned(), spki: issued.spki })
    }

    fn signing_key(&mut self, directory: &Path) -> anyhow::Result<SigningKey> {
        let key = SigningKey::generate(self.rng);
        write_secret(&directory.join("signing.key"), signing_key_text(&key).as_bytes())?;
        Ok(key)
    }

    fn seed(&mut self) -> Zeroizing<[u8; 32]> {
        let mut seed = Zeroizing::new([0; 32]);
        self.rng.fill_bytes(&mut *seed);
        seed
    }

    fn cosigner(&mut self, party: &Party) -> anyhow::Result<Cosigner> {
        let name = format!("{}.{}", party.name, self.plan.name).parse().context("the name of a witness")?;
        let key = Cosigner::from_seed(name, &self.seed());
        write_secret(&party.directory.join("cosigner.key"), key.to_secret_text().as_bytes())?;
        let disk = data(&party.directory)?;
        WitnessState::new(State::open(&*disk)?).enrol(key.verifier())?;
        Ok(key)
    }

    fn server(&mut self, id: DeploymentId, index: u16) -> anyhow::Result<(Party, EpochServer, Cosigner)> {
        let party = self.party(&format!("server-{index}"))?;
        let key = self.signing_key(&party.directory)?;
        let cosigner = self.cosigner(&party)?;
        let credential = self.seed();
        write_secret(&party.directory.join("envelope.credential"), &*credential)?;
        let disk = data(&party.directory)?;
        let state = State::open(&*disk)?;
        let (keys, _) = EpochKeys::open(state, Arc::clone(&disk), id, Credential::new(credential))?;
        keys.create(EpochId(0), self.rng)?;
        let entry = keys.entry(EpochId(0), ServerId(index), &key)?;
        let config = ServerConfig {
            deployment_file: above(DEPLOYMENT_FILE),
            index,
            data_dir: "data".into(),
            admin: self.ports.next()?,
            signing_key_file: "signing.key".into(),
            cosigner_key_file: "cosigner.key".into(),
            envelope_credential_file: "envelope.credential".into(),
            tls: tls(),
            policy: PolicyConfig {
                min_clients: self.plan.shape.min_clients,
                min_platforms: 1,
                unattested: true,
            },
            key_grace_s: 60,
        };
        fs::write(party.directory.join("server.toml"), config.to_text())?;
        Ok((party, entry, cosigner))
    }

    fn lane(&mut self, index: u16) -> anyhow::Result<(Party, VerifyingKey, Endpoint)> {
        let party = self.party(&format!("lane-{index}"))?;
        let key = self.signing_key(&party.directory)?.verifying_key();
        data(&party.directory)?;
        let listen = Listen { data: self.ports.next()?, operator: self.ports.next()? };
        let endpoint = endpoint(listen.data, Some(listen.operator), &party);
        let config = LaneConfig {
            deployment_file: above(DEPLOYMENT_FILE),
            index,
            data_dir: "data".into(),
            admin: self.ports.next()?,
            signing_key_file: "signing.key".into(),
            parties_file: above("parties.toml"),
            listen,
            tls: tls(),
        };
        fs::write(party.directory.join("lane.toml"), config.to_text())?;
        Ok((party, key, endpoint))
    }

    fn aggregator(&mut self, index: u16) -> anyhow::Result<(Party, VerifyingKey, Endpoint)> {
        let party = self.party(&format!("aggregator-{index}"))?;
        let key = self.signing_key(&party.directory)?.verifying_key();
        data(&party.directory)?;
        let listen_data = self.ports.next()?;
        let config = AggregatorConfig {
            deployment_file: above(DEPLOYMENT_FILE),
            index,
            data_dir: "data".into(),
            admin: self.ports.next()?,
            signing_key_file: "signing.key".into(),
            listen_data,
            tls: tls(),
        };
        fs::write(party.directory.join("aggregator.toml"), config.to_text())?;
        let endpoint = endpoint(listen_data, None, &party);
        Ok((party, key, endpoint))
    }

    fn witness(&mut self, index: u16) -> anyhow::Result<(Party, Cosigner, Endpoint)> {
        let party = self.party(&format!("witness-{index}"))?;
        let cosigner = self.cosigner(&party)?;
        let listen_data = self.ports.next()?;
        let config = WitnessConfig {
            deployment_file: above(DEPLOYMENT_FILE),
            data_dir: "data".into(),
            admin: self.ports.next()?,
            cosigner_key_file: "cosigner.key".into(),
            listen_data,
            tls: tls(),
        };
        fs::write(party.directory.join("witness.toml"), config.to_text())?;
        let endpoint = endpoint(listen_data, None, &party);
        Ok((party, cosigner, endpoint))
    }

    fn recipient(&mut self) -> anyhow::Result<(Party, VerifyingKey)> {
        let party = self.party("recipient")?;
        let key = self.signing_key(&party.directory)?.verifying_key();
        data(&party.directory)?;
        let config = RecipientConfig {
            deployment_file: above(DEPLOYMENT_FILE),
            data_dir: "data".into(),
            admin: self.ports.next()?,
            messages: Some(self.ports.next()?),
            signing_key_file: "signing.key".into(),
            tls: tls(),
            webhook: None,
        };
        fs::write(party.directory.join("recipient.toml"), config.to_text())?;
        Ok((party, key))
    }

    fn bulletin(&mut self) -> anyhow::Result<(Party, NoteSigner, Endpoint)> {
        let party = self.party("bulletin")?;
        let name = self.plan.name.parse().context("the log's name")?;
        let key = NoteSigner::from_seed(name, &self.seed());
        write_secret(&party.directory.join("log.key"), key.to_secret_text().as_bytes())?;
        data(&party.directory)?;
        fs::create_dir(party.directory.join("epochs"))?;
        let listen = Listen { data: self.ports.next()?, operator: self.ports.next()? };
        let endpoint = endpoint(listen.data, Some(listen.operator), &party);
        let config = BulletinConfig {
            deployment_file: above(DEPLOYMENT_FILE),
            log_key_file: "log.key".into(),
            parties_file: above("parties.toml"),
            epochs_dir: "epochs".into(),
            admin: self.ports.next()?,
            listen,
            tls: tls(),
            rounds: self.plan.windows,
            storage: Storage {
                data_dir: "data".into(),
                sequence_interval_ms: 100,
                max_inflight_bytes: 64 << 20,
            },
        };
        fs::write(party.directory.join("bulletin.toml"), config.to_text())?;
        Ok((party, key, endpoint))
    }
}

fn endpoint(data: SocketAddr, operator: Option<SocketAddr>, party: &Party) -> Endpoint {
    Endpoint {
        data: data.to_string(),
        operator: operator.map(|address| address.to_string()),
        pins: vec![party.spki.to_string()],
    }
}

fn data(directory: &Path) -> anyhow::Result<Arc<dyn Disk>> {
    let data = directory.join("data");
    fs::create_dir_all(&data).with_context(|| format!("{}", data.display()))?;
    Ok(Arc::new(LocalDisk::new(&data)))
}

fn principal(party: &Party, role: Role) -> anyhow::Result<Principal> {
    Ok(Principal { name: party.name.parse()?, key: party.spki, role, not_after: None })
}

/// Makes a deployment. `now`: seconds since 1970.
///
/// # Errors
/// If the directory has something in it, a file cannot be written, or the protocol has no rounds of this shape.
pub fn init(plan: &Plan, rng: &mut impl CryptoRng, now: u64) -> anyhow::Result<Initialised> {
    let about = || format!("{}", plan.dir.display());
    fs::create_dir_all(&plan.dir).with_context(about)?;
    if fs::read_dir(&plan.dir).with_context(about)?.next().is_some() {
        bail!("{} is not empty: name a directory that does not exist", about());
    }
    let channel = plan.shape.channel().context("no encoding of this size")?;
    let id = DeploymentId::from_name(&plan.name);
    let ports = Ports { next: plan.first_port, held: Vec::new() };
    let mut maker = Maker { plan, rng, ports, now };
    let mut parties = Parties::default();
    let mut daemons = Vec::new();

    let (bulletin, log_key, bulletin_endpoint) = maker.bulletin()?;
    daemons.push(("bulletin", bulletin.directory.join("bulletin.toml")));
    let (mut entries, mut witnesses) = (Vec::new(), Vec::new());
    let (mut witness_endpoints, mut lane_keys, mut lanes) = (Vec::new(), Vec::new(), Vec::new());
    for index in 0..plan.witnesses {
        let (party, cosigner, endpoint) = maker.witness(index)?;
        daemons.push(("witness", party.directory.join("witness.toml")));
        witnesses.push(cosigner.verifier().clone());
        witness_endpoints.push(endpoint);
    }
    for index in 0..plan.shape.servers {
        let (party, entry, cosigner) = maker.server(id, index)?;
        parties.known.push(principal(&party, Role::Server(ServerId(index)))?);
        daemons.push(("server", party.directory.join("server.toml")));
        entries.push(entry);
        witnesses.push(cosigner.verifier().clone());
    }
    let (lane_count, aggregator_count) = match plan.shape.route {
        Route::Direct => (0, 0),
        Route::Aggregated(aggregators) => (0, aggregators),
        Route::Lanes(lanes) => (lanes.lanes, 0),
    };
    for index in 0..lane_count {
        let (party, key, endpoint) = maker.lane(index)?;
        parties.known.push(principal(&party, Role::Lane(NodeId(index)))?);
        daemons.push(("lane", party.directory.join("lane.toml")));
        lane_keys.push(key);
        lanes.push(endpoint);
    }
    let (mut aggregator_keys, mut aggregators) = (Vec::new(), Vec::new());
    for index in 0..aggregator_count {
        let (party, key, endpoint) = maker.aggregator(index)?;
        parties.known.push(principal(&party, Role::Aggregator(AggregatorId(index)))?);
        daemons.push(("aggregator", party.directory.join("aggregator.toml")));
        aggregator_keys.push(key);
        aggregators.push(endpoint);
    }
    let (recipient, recipient_key) = maker.recipient()?;
    parties.known.push(principal(&recipient, Role::Recipient)?);
    daemons.push(("recipient", recipient.directory.join("recipient.toml")));
    // The bulletin fetches from lanes what it checks before a close.
    parties.known.push(principal(&bulletin, Role::Operator)?);

    let operator = plan.dir.join("operator");
    fs::create_dir(&operator)?;
    fs::set_permissions(&operator, fs::Permissions::from_mode(0o700))?;
    let operator_key = maker.signing_key(&operator)?;
    let document =
        Epoch::new(id, EpochId(0), entries)?.with_lanes(lane_keys)?.with_aggregators(aggregator_keys)?;
    let params = plan.shape.parameters(&channel, &document)?;
    let epoch = EpochPlan {
        document,
        terms: Terms::of(&params, &channel)?,
        previous: None,
        rounds: plan.rounds,
        admission: AdmissionPolicy::Unattested,
        witnesses: Witnesses { keys: witnesses, faulty: plan.shape.faulty() },
        recipients: vec![recipient_key],
    };
    let origin = log_key.verifier().name().to_string().parse()?;
    let anchor = Anchor {
        origin,
        log_key: log_key.verifier().clone(),
        deployment: id,
        operator: operator_key.verifying_key(),
    };
    let deployment =
        Deployment { anchor, bulletin: bulletin_endpoint, lanes, aggregators, witnesses: witness_endpoints };
    let leaf = Leaf::Epoch(Box::new(Signed::sign(epoch, &operator_key))).to_bytes();
    fs::write(bulletin.directory.join("epochs/000000.epoch"), leaf)?;
    fs::write(plan.dir.join(DEPLOYMENT_FILE), deployment.to_text())?;
    fs::write(plan.dir.join("anchor.toml"), crate::anchor::to_text(&deployment.anchor))?;
    fs::write(plan.dir.join("parties.toml"), parties.to_text())?;
    let client = plan.dir.join("client");
    fs::create_dir(&client)?;
    fs::set_permissions(&client, fs::Permissions::from_mode(0o700))?;
    let client_config = ClientFile { deployment_file: above(DEPLOYMENT_FILE), data_dir: "data".into() };
    fs::write(client.join("client.toml"), client_config.to_text())?;
    let start = plan.dir.join("start");
    fs::write(&start, start_script(&plan.dir, &daemons))?;
    fs::set_permissions(&start, fs::Permissions::from_mode(0o755))?;
    Ok(Initialised { daemons, client: client.join("client.toml"), start })
}

/// Starts every daemon, waits until all are ready, and ends them when it is ended.
fn start_script(dir: &Path, daemons: &[(&'static str, PathBuf)]) -> String {
    let mut lines = String::from(
        "#!/usr/bin/env bash\n\
         # Starts every daemon of this deployment, with its log lines in logs/. Ctrl-C or SIGTERM ends them all.\n\
         set -euo pipefail\n\
         cd \"$(dirname \"$0\")\"\n\
         panetiere=${PANETIERE:-panetiere}\n\
         mkdir -p logs\n\
         pids=()\n\
         trap 'kill \"${pids[@]}\" 2>/dev/null; wait' EXIT\n\
         trap 'exit 0' INT TERM\n\
         run() { \"$panetiere\" \"$1\" run --config \"$2/$1.toml\" 2>>\"logs/$2.log\" & pids+=($!); }\n",
    );
    for (role, config) in daemons {
        let party =
            config.parent().and_then(|parent| parent.strip_prefix(dir).ok()).unwrap_or(Path::new("."));
        lines.push_str(&format!("run {role} {}\n", party.display()));
    }
    lines.push_str(
        "echo \"${#pids[@]} daemons run; their log lines are in $PWD/logs\"\n\
         wait -n \"${pids[@]}\" || true\n\
         echo 'a daemon has ended: see logs/' >&2\n\
         exit 1\n",
    );
    lines
}
