//! A server's part of a round: open and verify each envelope as it arrives, sum over the canonical set, answer once.
//!
//! Nothing is summed that was not verified, so a server can always open what it publishes: a client's bad opening is
//! that client's fault and shows on arrival. A [`ServerIdentity`] answers one canonical set a session, through however
//! many [`ServerRound`]s and, with a durable [`AnswerLog`], across crashes and restarts.

use super::answers::{self, AnswerKind, AnswerLog, AnswerLogError, AnswerSlot, NotAnswered};
use super::client::envelope_context;
use super::complaint::{AnswerFault, verify_answer};
use super::params::ProtocolParams;
use crate::bulletin::{
    Answer, CanonicalSet, Checked, Envelope, Epoch, EpochError, EpochServer, ServerBulletinEntry,
    StatementContext, SumClaim, VerifiedPost, posts_digest,
};
use crate::cs::{FreshOpening, OpeningError, OpeningMemory, OpeningSum, VerifiedOpening};
use crate::fault::{Attribution, Fault, Retry};
use crate::ids::{
    ClientId, EnvelopeKeyDigest, EpochDigest, PostsDigest, RootDigest, ServerId, SessionId, SetDigest,
    StatementDigest, tagged_sha256,
};
use crate::pke::{self, OpenError};
use crate::sig::{SigningKey, VerifyingKey};
use crate::wire::{DecodeError, DecodeWith, Encode};
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng;
use rayon::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A server's keys in one epoch: those that the epoch's document names for it, so that what clients seal to is what
/// this server opens. What it has answered for each session stands in its log, and it answers nothing else for it.
#[derive(Debug)]
pub struct ServerIdentity {
    id: ServerId,
    epoch: EpochDigest,
    envelope_key: pke::PrivateKey,
    signing_key: SigningKey,
    answers: Arc<dyn AnswerLog>,
}

impl ServerIdentity {
    /// Holds a server's keys against the epoch's document. A server with other keys than the published ones could open
    /// nothing and would find every honest client at fault. `answers` has all that it has answered under these keys.
    ///
    /// # Errors
    /// `ForeignKeys` unless the document names both keys for this server.
    pub fn new(
        id: ServerId,
        envelope_key: pke::PrivateKey,
        signing_key: SigningKey,
        epoch: &Epoch,
        answers: Arc<dyn AnswerLog>,
    ) -> Result<Self, EpochError> {
        let own = |named: &&EpochServer| {
            named.identity == signing_key.verifying_key() && named.envelope_key == envelope_key.public_key()
        };
        match epoch.server(id).filter(own) {
            Some(_) => Ok(Self { id, epoch: epoch.digest(), envelope_key, signing_key, answers }),
            None => Err(EpochError::ForeignKeys { server: id, epoch: epoch.number() }),
        }
    }

    /// Its place in the epoch.
    pub const fn id(&self) -> ServerId {
        self.id
    }

    /// What opens the envelopes of this epoch.
    pub const fn envelope_key(&self) -> &pke::PrivateKey {
        &self.envelope_key
    }

    /// What signs its sums.
    pub const fn signing_key(&self) -> &SigningKey {
        &self.signing_key
    }

    /// Signs what this server found wrong with a session's envelopes: once. Asked again, it gives the same object.
    ///
    /// # Errors
    /// `TooManyComplaints` about more clients than a round may have; `AlreadyChecked` if this session was signed with
    /// other complaints: [`checked`](Self::checked) has them; `Answers` if it cannot be taken down.
    pub fn sign_checked(
        &self,
        params: &ProtocolParams,
        session: &SessionId,
        complaints: BTreeMap<ClientId, StatementDigest>,
    ) -> Result<Checked, ServerRoundError> {
        let (got, max) = (complaints.len(), params.max_clients());
        if u32::try_from(got).map_or(true, |got| got > max) {
            return Err(ServerRoundError::TooManyComplaints { got, max });
        }
        let context = StatementContext::new(params, session);
        let checked = Checked::sign(context, self.id, complaints, &self.signing_key);
        let slot = AnswerSlot { session: *session, kind: AnswerKind::Checked };
        let standing = self.answers.commit(slot, &checked.to_bytes()).map_err(ServerRoundError::Answers)?;
        let standing = standing.map(|bytes| read_checked(params, &bytes)).transpose();
        match standing.map_err(ServerRoundError::Answers)? {
            None => Ok(checked),
            Some(standing) if standing.says_the_same(&checked) => Ok(standing),
            Some(_) => Err(ServerRoundError::AlreadyChecked { server: self.id }),
        }
    }

    /// What this server has signed of a session's envelopes, if it has.
    ///
    /// # Errors
    /// If it cannot be looked up.
    pub fn checked(
        &self,
        params: &ProtocolParams,
        session: &SessionId,
    ) -> Result<Option<Checked>, AnswerLogError> {
        let slot = AnswerSlot { session: *session, kind: AnswerKind::Checked };
        self.answers.answered(slot)?.map(|bytes| read_checked(params, &bytes)).transpose()
    }
}

fn read_checked(params: &ProtocolParams, bytes: &[u8]) -> Result<Checked, AnswerLogError> {
    let malformed = |source| AnswerLogError::Malformed { kind: AnswerKind::Checked, source };
    Checked::from_bytes_with(params, bytes).map_err(malformed)
}

/// An envelope was not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EnvelopeFault {
    /// This client's envelope is in the sum already.
    #[error("the envelope of client {client} was received before")]
    AlreadyReceived {
        /// The client.
        client: ClientId,
    },
    /// The sealed opening does not open the root that the client signed.
    #[error("the opening of client {client} does not open its commitment")]
    BadOpening {
        /// The client.
        client: ClientId,
        /// What is wrong with it.
        #[source]
        source: OpeningError,
    },
    /// This server has answered its set: nothing is added any more.
    #[error("the envelope of client {client} came after this session was answered")]
    Closed {
        /// The client.
        client: ClientId,
    },
    /// The sealed bytes are no opening.
    #[error("the opening of client {client} does not parse")]
    MalformedOpening {
        /// The client.
        client: ClientId,
        /// What is wrong with it.
        #[source]
        source: DecodeError,
    },
    /// The bytes are not those under the client's `env_root`: undelivered, to be fetched again.
    #[error("the envelope delivered for client {client} is not the one it signed")]
    NotInPost {
        /// The client.
        client: ClientId,
    },
    /// This server cannot open what is sealed to its own key: it must not complain about anybody.
    #[error("server {server} fails its own envelope self-test")]
    SelfTest {
        /// The server.
        server: ServerId,
        /// What the self-test said.
        #[source]
        source: OpenError,
    },
    /// The client sealed to a key that is not this server's in this epoch, and signed that it did.
    #[error("client {client} sealed to key {found}, this epoch's key is {expected}")]
    StaleKey {
        /// The client.
        client: ClientId,
        /// The key of this epoch.
        expected: EnvelopeKeyDigest,
        /// The key the client used.
        found: EnvelopeKeyDigest,
    },
    /// The bytes that the client signed do not open.
    #[error("the envelope of client {client} does not open")]
    Unopenable {
        /// The client.
        client: ClientId,
        /// What the opening said.
        #[source]
        source: OpenError,
    },
    /// Post and envelope belong to different clients.
    #[error("an envelope of client {found} was paired with the post of client {expected}")]
    WrongClient {
        /// Whose post it is.
        expected: ClientId,
        /// Whose envelope it is.
        found: ClientId,
    },
    /// This server holds the keys of another epoch than the round's: it must not complain about anybody.
    #[error("server {server} holds the keys of another epoch than this round's")]
    WrongEpoch {
        /// The server.
        server: ServerId,
    },
    /// The post was checked under the parameters of another round: what its client signed is right there.
    #[error("the post of client {client} was checked under other parameters than this round's")]
    WrongParams {
        /// The client.
        client: ClientId,
    },
    /// The envelope is for another server.
    #[error("an envelope for server {found} reached server {expected}")]
    WrongServer {
        /// This server.
        expected: ServerId,
        /// The addressee.
        found: ServerId,
    },
    /// The post belongs to another session.
    #[error("the post of client {client} was verified for another session")]
    WrongSession {
        /// The client.
        client: ClientId,
    },
}

impl Fault for EnvelopeFault {
    fn code(&self) -> &'static str {
        match self {
            Self::AlreadyReceived { .. } => "envelope_already_received",
            Self::BadOpening { .. } => "envelope_bad_opening",
            Self::Closed { .. } => "envelope_closed",
            Self::MalformedOpening { .. } => "envelope_malformed_opening",
            Self::NotInPost { .. } => "envelope_not_in_post",
            Self::SelfTest { .. } => "envelope_self_test",
            Self::StaleKey { .. } => "envelope_stale_key",
            Self::Unopenable { .. } => "envelope_unopenable",
            Self::WrongClient { .. } => "envelope_wrong_client",
            Self::WrongEpoch { .. } => "envelope_wrong_epoch",
            Self::WrongParams { .. } => "envelope_wrong_params",
            Self::WrongServer { .. } => "envelope_wrong_server",
            Self::WrongSession { .. } => "envelope_wrong_session",
        }
    }

    /// A client is named only for bytes under its own signature.
    fn attribution(&self) -> Attribution {
        match self {
            Self::BadOpening { client, .. }
            | Self::MalformedOpening { client, .. }
            | Self::StaleKey { client, .. }
            | Self::Unopenable { client, .. } => Attribution::Client(*client),
            Self::SelfTest { .. } | Self::WrongEpoch { .. } => Attribution::Operator,
            Self::AlreadyReceived { .. }
            | Self::WrongClient { .. }
            | Self::WrongParams { .. }
            | Self::WrongSession { .. } => Attribution::Caller,
            Self::Closed { .. } | Self::NotInPost { .. } | Self::WrongServer { .. } => Attribution::Nobody,
        }
    }

    fn retry(&self) -> Retry {
        if matches!(self, Self::NotInPost { .. }) { Retry::SameRequest } else { Retry::Never }
    }
}

/// A server did not answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ServerRoundError {
    /// The set is larger than a round may be.
    #[error("a canonical set of {got} clients, at most {max} are allowed")]
    AboveMax {
        /// Clients in the set.
        got: u32,
        /// Most clients.
        max: u32,
    },
    /// This session was answered over another set. Two sums over different sets would reveal their difference.
    #[error("this session was answered over set {answered}; it will not be answered over {asked}")]
    AlreadyAnswered {
        /// The set answered.
        answered: SetDigest,
        /// The set asked for.
        asked: SetDigest,
    },
    /// This session's complaints are signed already, and are others.
    #[error("server {server} has signed its complaints of this session, and they are others")]
    AlreadyChecked {
        /// The server.
        server: ServerId,
    },
    /// What is about to be answered could not be taken down.
    #[error("the answer of this session was not taken down")]
    Answers(#[source] AnswerLogError),
    /// The set is smaller than the anonymity floor.
    #[error("a canonical set of {got} clients, the floor is {floor}")]
    BelowFloor {
        /// Clients in the set.
        got: u32,
        /// Fewest clients.
        floor: u32,
    },
    /// A canonical client's envelope was refused.
    #[error("an envelope of the canonical set was refused")]
    Envelope(#[source] EnvelopeFault),
    /// A canonical client's envelope has not arrived.
    #[error("client {client} is in the canonical set but its envelope has not arrived")]
    MissingClient {
        /// The first such client.
        client: ClientId,
    },
    /// This session was answered over the same clients, but over another post of at least one of them.
    #[error("this session was answered over posts {answered}; it will not be answered over {asked}")]
    OtherPosts {
        /// The posts answered.
        answered: PostsDigest,
        /// The posts asked for.
        asked: PostsDigest,
    },
    /// Complaints about more clients than a round may have: nobody would read them.
    #[error("complaints about {got} clients, a round has at most {max}")]
    TooManyComplaints {
        /// Complaints.
        got: usize,
        /// Most clients.
        max: u32,
    },
}

impl From<NotAnswered> for ServerRoundError {
    fn from(why: NotAnswered) -> Self {
        match why {
            NotAnswered::Log(error) => Self::Answers(error),
            NotAnswered::Posts { answered, asked } => Self::OtherPosts { answered, asked },
            NotAnswered::Set { answered, asked } => Self::AlreadyAnswered { answered, asked },
        }
    }
}

impl Fault for ServerRoundError {
    fn code(&self) -> &'static str {
        match self {
            Self::AboveMax { .. } => "server_above_max",
            Self::AlreadyAnswered { .. } => "server_already_answered",
            Self::AlreadyChecked { .. } => "server_already_checked",
            Self::Answers(error) => error.code(),
            Self::BelowFloor { .. } => "server_below_floor",
            Self::Envelope(fault) => fault.code(),
            Self::MissingClient { .. } => "server_missing_client",
            Self::OtherPosts { .. } => "server_other_posts",
            Self::TooManyComplaints { .. } => "server_too_many_complaints",
        }
    }

    fn attribution(&self) -> Attribution {
        match self {
            Self::Answers(error) => error.attribution(),
            Self::Envelope(fault) => fault.attribution(),
            Self::AboveMax { .. }
            | Self::AlreadyAnswered { .. }
            | Self::AlreadyChecked { .. }
            | Self::BelowFloor { .. }
            | Self::OtherPosts { .. }
            | Self::TooManyComplaints { .. } => Attribution::Operator,
            Self::MissingClient { .. } => Attribution::Nobody,
        }
    }

    fn retry(&self) -> Retry {
        match self {
            Self::Answers(error) => error.retry(),
            Self::Envelope(fault) => fault.retry(),
            Self::MissingClient { .. } => Retry::SameRequest,
            Self::AboveMax { .. }
            | Self::AlreadyAnswered { .. }
            | Self::AlreadyChecked { .. }
            | Self::BelowFloor { .. }
            | Self::OtherPosts { .. }
            | Self::TooManyComplaints { .. } => Retry::Never,
        }
    }
}

/// Opens one client's envelope and verifies the opening against the root that the client signed.
///
/// # Errors
/// Each way to fail has its own [`EnvelopeFault`]; a client is named only for bytes it signed, and only after this
/// server has passed its self-test.
pub fn unseal_opening(
    identity: &ServerIdentity,
    params: &ProtocolParams,
    post: &VerifiedPost,
    envelope: &Envelope,
) -> Result<(FreshOpening, VerifiedOpening), EnvelopeFault> {
    let mut memory = OpeningMemory::new(params.cs());
    let (opening, _) = unseal_in(identity, params, post, envelope, &mut memory)?;
    Ok((opening, memory.into_opening()))
}

/// [`unseal_opening`] with the verified opening in `memory`.
fn unseal_in<'m>(
    identity: &ServerIdentity,
    params: &ProtocolParams,
    post: &VerifiedPost,
    envelope: &Envelope,
    memory: &'m mut OpeningMemory,
) -> Result<(FreshOpening, &'m VerifiedOpening), EnvelopeFault> {
    if identity.epoch != *params.epoch() {
        return Err(EnvelopeFault::WrongEpoch { server: identity.id });
    }
    let client = post.client();
    if envelope.client != client {
        return Err(EnvelopeFault::WrongClient { expected: client, found: envelope.client });
    }
    if envelope.server != identity.id {
        return Err(EnvelopeFault::WrongServer { expected: identity.id, found: envelope.server });
    }
    let statement = post.statement();
    let stated = (statement.deployment, statement.epoch, statement.crs, statement.mode);
    if stated != (*params.deployment(), *params.epoch(), *params.crs_digest(), params.mode()) {
        return Err(EnvelopeFault::WrongParams { client });
    }
    if !envelope.is_under(&statement.envelopes, params.mode(), params.servers()) {
        return Err(EnvelopeFault::NotInPost { client });
    }
    let published = identity.envelope_key.public_key();
    let expected = published.digest();
    let context = envelope_context(params, &statement.session, client, identity.id, *post.root());
    let blame = |fault: EnvelopeFault| {
        // Test data only: it need not be unpredictable, and a fixed seed keeps this function deterministic.
        let seed = tagged_sha256("panetiere/self-test/v1", &[&envelope.sealed]);
        match identity.envelope_key.self_test(&published, &context, &mut ChaCha20Rng::from_seed(seed)) {
            Ok(()) => fault,
            Err(source) => EnvelopeFault::SelfTest { server: identity.id, source },
        }
    };
    if envelope.key != expected {
        return Err(blame(EnvelopeFault::StaleKey { client, expected, found: envelope.key }));
    }
    let bytes = pke::open(&identity.envelope_key, &context, &envelope.sealed)
        .map_err(|source| blame(EnvelopeFault::Unopenable { client, source }))?;
    let opening = FreshOpening::from_bytes_with(params.cs(), &bytes)
        .map_err(|source| blame(EnvelopeFault::MalformedOpening { client, source }))?;
    let verified = params
        .cs()
        .verify_fresh_in(identity.id.0, &opening, post.root(), memory)
        .map_err(|source| blame(EnvelopeFault::BadOpening { client, source }))?;
    Ok((opening, verified))
}

/// [`unseal_opening`] for many clients, in parallel; results in the order given.
pub fn unseal_openings(
    identity: &ServerIdentity,
    params: &ProtocolParams,
    items: &[(VerifiedPost, Envelope)],
) -> Vec<Result<(FreshOpening, VerifiedOpening), EnvelopeFault>> {
    items.par_iter().map(|(post, envelope)| unseal_opening(identity, params, post, envelope)).collect()
}

/// One server's running round.
pub struct ServerRound {
    params: Arc<ProtocolParams>,
    session: SessionId,
    identity: Arc<ServerIdentity>,
    sum: OpeningSum,
    /// What is in the sum, small enough to keep: an opening is recomputed from it should it have to come off again.
    received: BTreeMap<ClientId, (FreshOpening, RootDigest)>,
    memory: OpeningMemory,
    answered: Option<ServerBulletinEntry>,
}

impl std::fmt::Debug for ServerRound {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ServerRound(server {}, {} envelopes)", self.identity.id, self.received.len())
    }
}

impl ServerRound {
    /// A round in which nothing has arrived yet.
    pub fn new(params: Arc<ProtocolParams>, session: SessionId, identity: Arc<ServerIdentity>) -> Self {
        let (sum, memory) = (OpeningSum::new(params.cs()), OpeningMemory::new(params.cs()));
        Self { params, session, identity, sum, received: BTreeMap::new(), memory, answered: None }
    }

    /// Opens, verifies and adds one client's envelope.
    ///
    /// # Errors
    /// As [`unseal_opening`], and `AlreadyReceived`, `Closed` or `WrongSession`. The sum is then unchanged.
    pub fn receive(&mut self, post: &VerifiedPost, envelope: &Envelope) -> Result<(), EnvelopeFault> {
        self.expect(post)?;
        let (opening, verified) = unseal_in(&self.identity, &self.params, post, envelope, &mut self.memory)?;
        self.sum.add(verified);
        self.received.insert(post.client(), (opening, *post.root()));
        Ok(())
    }

    /// Verifies and adds a client's answer to this server's complaint: it takes the place of the envelope.
    ///
    /// # Errors
    /// As [`verify_answer`]; `WrongServer` for an answer to another server; `NotTaken` for what
    /// [`receive`](Self::receive) refuses. The sum is then unchanged.
    pub fn receive_answer(
        &mut self,
        key: &VerifyingKey,
        post: &VerifiedPost,
        answer: &Answer,
    ) -> Result<(), AnswerFault> {
        let (expected, found) = (self.identity.id, answer.server());
        if found != expected {
            return Err(AnswerFault::WrongServer { expected, found });
        }
        let verified = verify_answer(&self.params, &self.session, key, post, answer)?;
        self.add(post, Ok(verified)).map_err(AnswerFault::NotTaken)
    }

    /// Adds an envelope that [`unseal_opening`] has opened and verified.
    fn add(
        &mut self,
        post: &VerifiedPost,
        unsealed: Result<(FreshOpening, VerifiedOpening), EnvelopeFault>,
    ) -> Result<(), EnvelopeFault> {
        self.expect(post)?;
        let (opening, verified) = unsealed?;
        self.sum.add(&verified);
        self.received.insert(post.client(), (opening, *post.root()));
        Ok(())
    }

    /// Whether this client's envelope is still to come.
    fn expect(&self, post: &VerifiedPost) -> Result<(), EnvelopeFault> {
        let client = post.client();
        if post.statement().session != self.session {
            return Err(EnvelopeFault::WrongSession { client });
        }
        if self.answered.is_some() {
            return Err(EnvelopeFault::Closed { client });
        }
        if self.received.contains_key(&client) {
            return Err(EnvelopeFault::AlreadyReceived { client });
        }
        Ok(())
    }

    /// The root, as a digest, that a client's received envelope opens.
    ///
    /// A client may sign two statements for one session. The log has one of them, and the recipient adds that one's
    /// root; a server that summed the other would be named for it. So before closing, whoever reads the log compares
    /// this with the log's statement of every canonical client, and [`withdraw`](Self::withdraw)s what differs.
    pub fn received(&self, client: ClientId) -> Option<&RootDigest> {
        self.received.get(&client).map(|(_, root)| root)
    }

    /// Takes a client's envelope off the sum, so that the one that belongs to the log's statement can be received.
    /// Returns whether there was one; after the answer nothing changes any more.
    pub fn withdraw(&mut self, client: ClientId) -> bool {
        self.answered.is_none() && self.take_off(client)
    }

    fn take_off(&mut self, client: ClientId) -> bool {
        let Some((opening, root)) = self.received.remove(&client) else { return false };
        let cs = self.params.cs();
        let verified = cs.verify_fresh_in(self.identity.id.0, &opening, &root, &mut self.memory);
        self.sum.subtract(verified.expect("it verified on arrival and is unchanged"));
        true
    }

    /// The signed sum over the canonical set: what came but is not in the set is taken off again.
    ///
    /// Every envelope has to be the one of the log's statement: see [`received`](Self::received).
    /// One set a session and identity: asked again for the same set it gives the same answer, for another it refuses.
    ///
    /// # Errors
    /// `BelowFloor`, `AboveMax`, `MissingClient` (nothing is lost: it may still arrive), `AlreadyAnswered`, `OtherPosts`;
    /// `Answers` if the answer cannot be taken down: then there is none.
    pub fn close(&mut self, canonical: &CanonicalSet) -> Result<ServerBulletinEntry, ServerRoundError> {
        let asked = canonical.digest();
        if let Some(entry) = &self.answered {
            let answered = entry.claim().set;
            return if answered == asked {
                Ok(entry.clone())
            } else {
                Err(ServerRoundError::AlreadyAnswered { answered, asked })
            };
        }
        let (got, floor, max) = (canonical.count(), self.params.min_clients(), self.params.max_clients());
        if got < floor {
            return Err(ServerRoundError::BelowFloor { got, floor });
        }
        if got > max {
            return Err(ServerRoundError::AboveMax { got, max });
        }
        if let Some(&client) = canonical.clients().iter().find(|client| !self.received.contains_key(client)) {
            return Err(ServerRoundError::MissingClient { client });
        }
        let summed = self.received.iter().filter(|(client, _)| canonical.contains(**client));
        let claim = SumClaim {
            deployment: *self.params.deployment(),
            epoch: *self.params.epoch(),
            session: self.session,
            crs: *self.params.crs_digest(),
            server: self.identity.id,
            set: asked,
            posts: posts_digest(summed.map(|(client, (_, root))| (client, root))),
            clients: got,
        };
        answers::commit(&*self.identity.answers, &claim)?;
        let surplus: Vec<ClientId> =
            self.received.keys().copied().filter(|client| !canonical.contains(*client)).collect();
        for client in surplus {
            self.take_off(client);
        }
        let opening = self.sum.finish(self.identity.id.0);
        let entry = ServerBulletinEntry::sign(claim, opening, &self.params, &self.identity.signing_key);
        self.answered = Some(entry.clone());
        Ok(entry)
    }
}

/// A whole server round at once: verifies the canonical clients' envelopes in parallel and answers. Envelopes of other
/// clients are ignored.
///
/// # Errors
/// As [`ServerRound::receive`] (wrapped in `Envelope`) and [`ServerRound::close`].
pub fn run_server_round(
    params: &Arc<ProtocolParams>,
    session: SessionId,
    identity: &Arc<ServerIdentity>,
    inbox: &[(VerifiedPost, Envelope)],
    canonical: &CanonicalSet,
) -> Result<ServerBulletinEntry, ServerRoundError> {
    let mut round = ServerRound::new(Arc::clone(params), session, Arc::clone(identity));
    let counted: Vec<_> =
        inbox.iter().filter(|(post, _)| canonical.contains(post.client())).cloned().collect();
    for ((post, _), unsealed) in counted.iter().zip(unseal_openings(identity, params, &counted)) {
        round.add(post, unsealed).map_err(ServerRoundError::Envelope)?;
    }
    round.close(canonical)
}
