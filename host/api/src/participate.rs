//! A client's part in one round, from the announcement to the last answer. No I/O: what has to be sent is returned.

use crate::round::{EpochState, Session};
use panetiere::bulletin::StatementError;
use panetiere::bulletin::{
    Answer, ClientBulletinEntry, Envelope, LaneItem, Mode, RsClientBulletinEntry, SignedPost,
};
use panetiere::fault::{Attribution, Fault};
use panetiere::ids::{ClientId, ServerId, SessionId};
use panetiere::plaintext::PlainPoly;
use panetiere::protocol::{
    AnswerGuard, ClientRoundError, GuardError, ProtocolParams, Standing, run_client_round_rs_with_openings,
    run_client_round_with_openings,
};
use panetiere::sig::SigningKey;
use panetiere::wire::Encode as _;
use rand_core::CryptoRng;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A client cannot take part.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParticipateError {
    /// The openings are not those of the post.
    #[error("the client's own openings cannot be guarded")]
    Guard(#[source] GuardError),
    /// The epoch knows the client's key under no id.
    #[error("the client is not admitted to the epoch of round {round}")]
    NotAdmitted {
        /// The round.
        round: crate::leaf::RoundId,
    },
    /// The client's part could not be made.
    #[error("the client's part cannot be made")]
    Round(#[source] ClientRoundError),
    /// The post that was made is none of this round.
    #[error("the client's own post does not verify")]
    Statement(#[source] StatementError),
}

impl Fault for ParticipateError {
    fn code(&self) -> &'static str {
        match self {
            Self::Guard(error) => error.code(),
            Self::NotAdmitted { .. } => "participate_not_admitted",
            Self::Round(error) => error.code(),
            Self::Statement(error) => error.code(),
        }
    }

    fn attribution(&self) -> Attribution {
        Attribution::Caller
    }
}

/// The post, as the bulletin takes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Post {
    /// With the ciphertext.
    Whole(ClientBulletinEntry),
    /// Without: it travels through lanes.
    Rs(RsClientBulletinEntry),
}

impl Post {
    /// Its bytes, whole.
    pub fn to_bytes(&self, params: &ProtocolParams) -> Vec<u8> {
        match self {
            Self::Whole(entry) => entry.to_bytes(params),
            Self::Rs(entry) => entry.to_bytes(params),
        }
    }

    /// The signed statement: the log's leaf.
    pub const fn signed(&self) -> &SignedPost {
        match self {
            Self::Whole(entry) => &entry.head.signed,
            Self::Rs(entry) => &entry.signed,
        }
    }
}

/// What a client sends in a round. The envelopes go before the post, which is taken only when they are there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outgoing {
    /// The envelopes, in the order of the servers.
    pub envelopes: Vec<Envelope>,
    /// The items, in the order of the lanes; none without lanes.
    pub items: Vec<LaneItem>,
    /// The post.
    pub post: Post,
}

impl Outgoing {
    /// What the bulletin takes before the post: the signed statement, then the envelopes in the order of the servers.
    pub fn openings_to_bytes(&self) -> Vec<u8> {
        let mut out = self.post.signed().to_bytes();
        self.envelopes.iter().for_each(|envelope| envelope.encode(&mut out));
        out
    }

    /// What the bulletin takes as the post: in direct mode all of it, with aggregators its head alone, with lanes the two roots.
    pub fn bulletin_post(&self, params: &ProtocolParams) -> Vec<u8> {
        match &self.post {
            Post::Whole(entry) if params.mode() == Mode::Aggregated => entry.head.to_bytes(params),
            post => post.to_bytes(params),
        }
    }
}

/// A client's part in one round. It holds the openings, and tells no more of them than the rule allows.
pub struct Participation {
    session: SessionId,
    guard: AnswerGuard,
    key: Arc<SigningKey>,
    answers: BTreeMap<ServerId, Answer>,
}

impl std::fmt::Debug for Participation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Participation({}, {:?})", self.session, self.guard)
    }
}

impl Participation {
    /// Makes a client's part in a round: `vector` is its message or cover, encoded for this session.
    ///
    /// # Errors
    /// `NotAdmitted` unless the epoch has this key; `Round` for a vector of another shape.
    pub fn new(
        rng: &mut (impl CryptoRng + ?Sized),
        session: &Session,
        epoch: &EpochState,
        key: Arc<SigningKey>,
        vector: &[PlainPoly],
    ) -> Result<(Self, Outgoing), ParticipateError> {
        let not_admitted = ParticipateError::NotAdmitted { round: session.round() };
        let client: ClientId = epoch.client_of(&key.verifying_key()).ok_or(not_admitted)?;
        let (params, document) = (session.params(), &epoch.plan().document);
        let (id, servers) = (session.id(), document.envelope_keys());
        let (outgoing, openings) = if params.mode() == Mode::Erasure {
            let (round, openings) =
                run_client_round_rs_with_openings(rng, params, id, client, vector, &servers, &key)
                    .map_err(ParticipateError::Round)?;
            let (envelopes, items) = (round.envelopes, round.items);
            (Outgoing { envelopes, items, post: Post::Rs(round.post) }, openings)
        } else {
            let (round, openings) =
                run_client_round_with_openings(rng, params, id, client, vector, &servers, &key)
                    .map_err(ParticipateError::Round)?;
            let (envelopes, items) = (round.envelopes, Vec::new());
            (Outgoing { envelopes, items, post: Post::Whole(round.post) }, openings)
        };
        let signed = outgoing.post.signed();
        let post = signed.check(params, id, &key.verifying_key()).map_err(ParticipateError::Statement)?;
        let guard = AnswerGuard::new(Arc::clone(params), document.clone(), post, openings)
            .map_err(ParticipateError::Guard)?;
        Ok((Self { session: *id, guard, key, answers: BTreeMap::new() }, outgoing))
    }

    /// The session.
    pub const fn session(&self) -> &SessionId {
        &self.session
    }

    /// Takes note of what servers have said, in whatever log: call it with every view of the session there is.
    ///
    /// # Panics
    /// With another session.
    pub fn observe(&mut self, session: &Session) {
        assert_eq!(*session.id(), self.session, "a view of this session");
        for checked in session.checked().values() {
            // What is no statement about this client's post counts as none.
            let _void = self.guard.observe(checked);
        }
    }

    /// The time for servers to check is over: who has not by now forfeits its complaints.
    pub const fn deadline(&mut self) {
        self.guard.deadline();
    }

    /// Where the client stands.
    pub fn standing(&self) -> Standing {
        self.guard.standing()
    }

    /// The answers to publish, by the server complained: all that are due so far. The same ones every time, so that they
    /// can be sent again.
    pub fn answers(&mut self) -> impl Iterator<Item = &Answer> {
        for answer in self.guard.answers(&self.key) {
            self.answers.insert(answer.server(), answer);
        }
        self.answers.values()
    }
}
