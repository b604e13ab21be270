//! The fold: what the leaves of a log, one after the other, make of it.

use super::epoch::{EpochState, Member};
use super::session::Session;
use super::void::Void;
use crate::leaf::{
    AbortReason, Admission, EpochPlan, Expulsion, KeyRotation, Leaf, NewKey, Revocation, RoundId, RoundKind,
    RoundOpen, Signed, Unread,
};
use chipmunk::ring::backend::Kernels;
use panetiere::bulletin::{Answer, Checked};
use panetiere::evidence::Evidence;
use panetiere::fault::Attribution;
use panetiere::ids::{
    AggregatorId, ClientId, DeploymentId, EpochDigest, EpochId, NodeId, ServerId, SessionId,
};
use panetiere::sig::VerifyingKey;
use panetiere::wire::{Decode, DecodeWith};
use std::collections::BTreeMap;
use tlog::checkpoint::{Log, Origin};
use tlog::key::VerifierKey;
use tlog::merkle::leaf_hash;
use tlog::quorum::{Quorum, QuorumError};

/// Rounds that leaves may still speak of: the latest that were opened.
pub const RECENT_ROUNDS: usize = 64;

/// Epochs that leaves may still speak of: the latest and the one before it, whose last rounds may be under way.
pub const RECENT_EPOCHS: usize = 2;

/// Bytes of evidence that are read for an expulsion.
pub const MAX_EVIDENCE: u64 = 64 << 20;

/// What a reader of the log knows beforehand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Anchor {
    /// The log's origin line.
    pub origin: Origin,
    /// The key that signs its checkpoints.
    pub log_key: VerifierKey,
    /// The deployment.
    pub deployment: DeploymentId,
    /// The key that signs epochs.
    pub operator: VerifyingKey,
}

/// Bytes that lie beside the log.
pub trait Blobs {
    /// The blob with this BLAKE3 digest and length.
    ///
    /// # Errors
    /// [`Unavailable`] if it cannot be had now. Bytes with another digest are not the blob and cannot be had.
    fn get(&self, digest: &[u8; 32], len: u64) -> Result<Vec<u8>, Unavailable>;
}

/// A blob could not be fetched. It is not missing and not invalid: whoever needs it stops here and tries again.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("blob {} of {len} bytes cannot be had now: {reason}", data_encoding::HEXLOWER.encode(.digest))]
pub struct Unavailable {
    /// BLAKE3 digest.
    pub digest: [u8; 32],
    /// Bytes.
    pub len: u64,
    /// Why.
    pub reason: String,
}

/// No blobs at all: for logs whose rounds expel nobody.
#[derive(Clone, Copy, Debug)]
pub struct NoBlobs;

impl Blobs for NoBlobs {
    fn get(&self, digest: &[u8; 32], len: u64) -> Result<Vec<u8>, Unavailable> {
        Err(Unavailable { digest: *digest, len, reason: "there is no store".to_owned() })
    }
}

/// What a leaf that counts has brought about.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// A client may post in this epoch.
    Admitted {
        /// The epoch.
        epoch: EpochDigest,
        /// The client.
        client: ClientId,
    },
    /// A complaint has an answer, good or bad.
    Answered {
        /// The round.
        round: RoundId,
        /// Who answers.
        client: ClientId,
        /// Whom.
        server: ServerId,
    },
    /// A server has checked its envelopes.
    Checked {
        /// The round.
        round: RoundId,
        /// The server.
        server: ServerId,
    },
    /// An epoch has begun.
    EpochBegan {
        /// Its number.
        number: EpochId,
        /// Its digest.
        epoch: EpochDigest,
    },
    /// A client is out of a round.
    Expelled {
        /// The round.
        round: RoundId,
        /// The client.
        client: ClientId,
    },
    /// An aggregator has summed its group.
    GroupSummed {
        /// The round.
        round: RoundId,
        /// The aggregator.
        aggregator: AggregatorId,
    },
    /// A key was replaced.
    KeyReplaced,
    /// A lane has summed.
    LaneSummed {
        /// The round.
        round: RoundId,
        /// The lane.
        lane: NodeId,
    },
    /// A client has posted.
    Posted {
        /// The round.
        round: RoundId,
        /// The client.
        client: ClientId,
    },
    /// A round takes no more posts.
    PostsEnded {
        /// The round.
        round: RoundId,
    },
    /// A round has a result.
    Resulted {
        /// The round.
        round: RoundId,
    },
    /// A client is admitted no more.
    Revoked {
        /// The epoch.
        epoch: EpochDigest,
        /// The client.
        client: ClientId,
    },
    /// A round was called off.
    RoundAborted {
        /// The round.
        round: RoundId,
        /// Why.
        reason: AbortReason,
    },
    /// The set of a round is settled.
    RoundClosed {
        /// The round.
        round: RoundId,
    },
    /// A round was opened.
    RoundOpened {
        /// The round.
        round: RoundId,
        /// Its session.
        session: SessionId,
    },
    /// A server has summed.
    ServerSummed {
        /// The round.
        round: RoundId,
        /// The server.
        server: ServerId,
    },
}

/// Rules of rounds that a test takes away, to see that they are missed.
#[cfg(feature = "test-util")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Missing {
    /// The last post of a client counts, not the first.
    pub first_post: bool,
    /// Posts count until the close, not until their end.
    pub posts_end: bool,
}

/// A log as its leaves have it. Two readers of one prefix hold the same.
#[derive(Clone, Debug)]
pub struct Record {
    anchor: Anchor,
    kernels: &'static Kernels,
    size: u64,
    operator: VerifyingKey,
    /// Keys of the log, each with the last epoch in which it may sign; none for the present one.
    log_keys: Vec<(VerifierKey, Option<EpochId>)>,
    epochs: Vec<EpochState>,
    next_round: RoundId,
    sessions: BTreeMap<SessionId, Session>,
    rounds: BTreeMap<RoundId, SessionId>,
    #[cfg(feature = "test-util")]
    missing: Missing,
}

impl Record {
    /// The record of an empty log.
    pub fn new(anchor: Anchor, kernels: &'static Kernels) -> Self {
        Self {
            operator: anchor.operator,
            log_keys: vec![(anchor.log_key.clone(), None)],
            anchor,
            kernels,
            size: 0,
            epochs: Vec::new(),
            next_round: RoundId::FIRST,
            sessions: BTreeMap::new(),
            rounds: BTreeMap::new(),
            #[cfg(feature = "test-util")]
            missing: Missing::default(),
        }
    }

    /// The same record without some rules. For tests.
    #[cfg(feature = "test-util")]
    #[must_use]
    pub fn without(self, missing: Missing) -> Self {
        Self { missing, ..self }
    }

    /// What was known beforehand.
    pub const fn anchor(&self) -> &Anchor {
        &self.anchor
    }

    /// The arithmetic that it checks with.
    pub const fn kernels(&self) -> &'static Kernels {
        self.kernels
    }

    /// Leaves folded so far.
    pub const fn size(&self) -> u64 {
        self.size
    }

    /// The latest epoch.
    pub fn epoch(&self) -> Option<&EpochState> {
        self.epochs.last()
    }

    /// An epoch, if it is one of the latest.
    pub fn epoch_of(&self, digest: &EpochDigest) -> Option<&EpochState> {
        self.epochs.iter().find(|epoch| epoch.digest() == digest)
    }

    /// The number of the round to be opened next.
    pub const fn next_round(&self) -> RoundId {
        self.next_round
    }

    /// A round, if it is one of the latest.
    pub fn round(&self, round: RoundId) -> Option<&Session> {
        self.session(self.rounds.get(&round)?)
    }

    /// The round of a session, if it is one of the latest.
    pub fn session(&self, session: &SessionId) -> Option<&Session> {
        self.sessions.get(session)
    }

    /// The latest rounds, ascending.
    pub fn rounds(&self) -> impl DoubleEndedIterator<Item = &Session> {
        self.rounds.values().map(|session| &self.sessions[session])
    }

    /// The log with the keys that may sign for it now.
    pub fn log(&self) -> Log {
        let keys = self.log_keys.iter().map(|(key, _)| key.clone()).collect();
        Log::new(self.anchor.origin.clone(), keys).expect("checked when a key came in")
    }

    /// The quorum of an epoch's witnesses over this log.
    ///
    /// # Errors
    /// As [`Quorum::new`]: not for an epoch of this record, whose witnesses were checked.
    pub fn quorum(&self, epoch: &EpochState) -> Result<Quorum, QuorumError> {
        epoch.plan().witnesses.quorum(self.log())
    }

    /// Folds the next leaf. Returns what it brought about, or why it counts for nothing.
    ///
    /// # Errors
    /// `Unavailable` if evidence that the leaf names cannot be had: then nothing has changed, and the same leaf is to be
    /// folded again once it can.
    pub fn apply(&mut self, entry: &[u8], blobs: &dyn Blobs) -> Result<Result<Event, Void>, Unavailable> {
        let outcome = self.outcome(entry, blobs)?;
        self.size += 1;
        Ok(outcome)
    }

    /// Folds a leaf that is about to be appended, if it will count; one that is void leaves the record as it is, so that
    /// whoever writes the log can refuse it.
    ///
    /// # Errors
    /// As [`apply`](Self::apply).
    pub fn propose(&mut self, entry: &[u8], blobs: &dyn Blobs) -> Result<Result<Event, Void>, Unavailable> {
        let outcome = self.outcome(entry, blobs)?;
        self.size += u64::from(outcome.is_ok());
        Ok(outcome)
    }

    fn outcome(&mut self, entry: &[u8], blobs: &dyn Blobs) -> Result<Result<Event, Void>, Unavailable> {
        match Leaf::parse(entry) {
            Ok(Leaf::Expulsion(expulsion)) => self.expel(&expulsion, blobs),
            Ok(leaf) => Ok(self.count(leaf, entry)),
            Err(error) => Ok(Err(Void::Malformed(error))),
        }
    }

    fn count(&mut self, leaf: Leaf, entry: &[u8]) -> Result<Event, Void> {
        let at = self.size;
        match leaf {
            Leaf::Admission(signed) => self.admit(&signed),
            Leaf::Answer(unread) => {
                let (session, _) = self.unread(&unread)?;
                let answer =
                    Answer::from_bytes_with(session.params(), &unread.bytes).map_err(Void::Malformed)?;
                let round = session.round();
                session.answer(answer).map(|(client, server)| Event::Answered { round, client, server })
            }
            Leaf::Checked(unread) => {
                let (session, epoch) = self.unread(&unread)?;
                let checked =
                    Checked::from_bytes_with(session.params(), &unread.bytes).map_err(Void::Malformed)?;
                let round = session.round();
                session.check(epoch, checked).map(|server| Event::Checked { round, server })
            }
            Leaf::Epoch(signed) => self.begin_epoch(&signed),
            Leaf::GroupSum(sum) => {
                let (session, epoch) = self.at(&sum.claim().session)?;
                let round = session.round();
                session.group_sum(epoch, sum).map(|aggregator| Event::GroupSummed { round, aggregator })
            }
            Leaf::KeyRotation(rotation) => self.rotate(&rotation),
            Leaf::LaneSum(sum) => {
                let (session, epoch) = self.at(&sum.claim().session)?;
                let round = session.round();
                session.lane_sum(epoch, sum).map(|lane| Event::LaneSummed { round, lane })
            }
            Leaf::Post(post) => {
                let (session, epoch) = self.at(&post.claim().session)?;
                let round = session.round();
                session.post(epoch, &post).map(|client| Event::Posted { round, client })
            }
            Leaf::PostsEnd(end) => {
                let (session, _) = self.at(&end.session)?;
                let round = session.round();
                session.end_posts().map(|()| Event::PostsEnded { round })
            }
            Leaf::Result(result) => {
                let (session, epoch) = self.at(&result.claim().session)?;
                let round = session.round();
                session.result_of(epoch, &result).map(|()| Event::Resulted { round })
            }
            Leaf::Revocation(signed) => self.revoke(&signed),
            Leaf::RoundAbort(abort) => {
                let (session, _) = self.at(&abort.session)?;
                let (round, reason) = (session.round(), abort.reason);
                session.abort(reason).map(|()| Event::RoundAborted { round, reason })
            }
            Leaf::RoundClose(close) => {
                let (session, epoch) = self.at(&close.session)?;
                let round = session.round();
                session.close(epoch, &close, (at, leaf_hash(entry))).map(|()| Event::RoundClosed { round })
            }
            Leaf::RoundOpen(open) => self.open(open, entry),
            Leaf::ServerSum(sum) => {
                let (session, epoch) = self.at(&sum.claim().session)?;
                let round = session.round();
                session.server_sum(epoch, sum).map(|server| Event::ServerSummed { round, server })
            }
            other => unreachable!("{} has its own path", other.kind()),
        }
    }

    /// A session and its epoch.
    fn at(&mut self, session: &SessionId) -> Result<(&mut Session, &EpochState), Void> {
        let session = self.sessions.get_mut(session).ok_or(Void::UnknownSession)?;
        let epoch = *session.epoch();
        let known = self.epochs.iter().find(|known| *known.digest() == epoch);
        Ok((session, known.ok_or(Void::UnknownEpoch { epoch })?))
    }

    fn unread(&mut self, unread: &Unread) -> Result<(&mut Session, &EpochState), Void> {
        self.at(&unread.context.session)
    }

    fn begin_epoch(&mut self, signed: &Signed<EpochPlan>) -> Result<Event, Void> {
        let plan = signed
            .verify(&self.operator)
            .map_err(|source| Void::Signature { what: "epoch", source })?
            .clone();
        if *plan.document.deployment() != self.anchor.deployment {
            return Err(Void::OtherDeployment);
        }
        let latest = self.epochs.last();
        let expected = latest.map_or(EpochId(0), |epoch| EpochId(epoch.plan().document.number().0 + 1));
        let expected_previous = latest.map(|epoch| *epoch.digest());
        let found = plan.document.number();
        if (found, plan.previous) != (expected, expected_previous) {
            return Err(Void::EpochChain { expected, found, expected_previous });
        }
        let epoch = EpochState::new(plan, self.log(), self.kernels)?;
        let digest = *epoch.digest();
        self.epochs.push(epoch);
        if self.epochs.len() > RECENT_EPOCHS {
            self.epochs.remove(0);
        }
        self.log_keys.retain(|(_, last)| last.is_none_or(|last| last >= found));
        Ok(Event::EpochBegan { number: found, epoch: digest })
    }

    fn admit(&mut self, signed: &Signed<Admission>) -> Result<Event, Void> {
        let claim = signed.claim();
        if claim.deployment != self.anchor.deployment {
            return Err(Void::OtherDeployment);
        }
        let Admission { epoch, key, credential, .. } = *claim;
        let known = self.epochs.iter_mut().find(|known| *known.digest() == epoch);
        let known = known.ok_or(Void::UnknownEpoch { epoch })?;
        signed.verify(&key).map_err(|source| Void::Signature { what: "admission", source })?;
        let member = Member { key, credential, admitted_at: self.size, revoked_at: None };
        known.admit(member).map(|client| Event::Admitted { epoch, client })
    }

    fn revoke(&mut self, signed: &Signed<Revocation>) -> Result<Event, Void> {
        let revocation =
            signed.verify(&self.operator).map_err(|source| Void::Signature { what: "revocation", source })?;
        if revocation.deployment != self.anchor.deployment {
            return Err(Void::OtherDeployment);
        }
        let Revocation { epoch, client, .. } = *revocation;
        let known = self.epochs.iter_mut().find(|known| *known.digest() == epoch);
        known.ok_or(Void::UnknownEpoch { epoch })?.revoke(client, self.size)?;
        Ok(Event::Revoked { epoch, client })
    }

    fn rotate(&mut self, rotation: &KeyRotation) -> Result<Event, Void> {
        if *rotation.deployment() != self.anchor.deployment {
            return Err(Void::OtherDeployment);
        }
        let new = rotation
            .verify(&self.operator)
            .map_err(|source| Void::Signature { what: "replacement of a key", source })?;
        match new {
            NewKey::Operator(key) => self.operator = *key,
            NewKey::Log(key) => {
                let mut keys: Vec<_> = self.log_keys.iter().map(|(key, _)| key.clone()).collect();
                keys.push(key.clone());
                Log::new(self.anchor.origin.clone(), keys).map_err(Void::LogKey)?;
                let now = self.epochs.last().map_or(EpochId(0), |epoch| epoch.plan().document.number());
                for (_, last) in &mut self.log_keys {
                    last.get_or_insert(EpochId(now.0 + 1));
                }
                self.log_keys.push((key.clone(), None));
            }
        }
        Ok(Event::KeyReplaced)
    }

    fn open(&mut self, open: RoundOpen, entry: &[u8]) -> Result<Event, Void> {
        if open.deployment != self.anchor.deployment {
            return Err(Void::OtherDeployment);
        }
        let (expected, found) = (self.next_round, open.round);
        if found != expected {
            return Err(Void::RoundOrder { expected, found });
        }
        if let RoundKind::Slots { tickets, .. } = &open.kind {
            let carried = self.round(*tickets).is_some_and(|round| {
                *round.kind() == RoundKind::Tickets
                    && *round.epoch() == open.epoch
                    && round.result().is_some()
            });
            if !carried {
                return Err(Void::RoundKind);
            }
        }
        let epoch = open.epoch;
        let latest = self.epochs.last_mut().filter(|latest| *latest.digest() == epoch);
        let latest = latest.ok_or(Void::UnknownEpoch { epoch })?;
        let params = latest.params(&open.kind).ok_or(Void::RoundKind)?.clone();
        if open.crs != *params.crs_digest() {
            return Err(Void::OtherContext { what: "digest of the public parameters" });
        }
        latest.open()?;
        let hash = leaf_hash(entry);
        let session = SessionId::derive(self.anchor.origin.as_str(), self.size, &hash);
        self.next_round = RoundId(found.0 + 1);
        self.rounds.insert(found, session);
        let opened = Session::new(session, open, (self.size, hash), params);
        #[cfg(feature = "test-util")]
        let opened = opened.without(self.missing);
        self.sessions.insert(session, opened);
        if self.rounds.len() > RECENT_ROUNDS
            && let Some((_, oldest)) = self.rounds.pop_first()
        {
            self.sessions.remove(&oldest);
        }
        Ok(Event::RoundOpened { round: found, session })
    }

    fn expel(&mut self, leaf: &Expulsion, blobs: &dyn Blobs) -> Result<Result<Event, Void>, Unavailable> {
        let client = leaf.client;
        let checked = self.at(&leaf.session).and_then(|(session, _)| session.may_expel(client));
        if let Err(void) = checked {
            return Ok(Err(void));
        }
        if leaf.len > MAX_EVIDENCE {
            return Ok(Err(Void::EvidenceSize { found: leaf.len, limit: MAX_EVIDENCE }));
        }
        let bytes = blobs.get(&leaf.evidence, leaf.len)?;
        if *blake3::hash(&bytes).as_bytes() != leaf.evidence {
            let reason = "the store gives other bytes".to_owned();
            return Err(Unavailable { digest: leaf.evidence, len: leaf.len, reason });
        }
        let kernels = self.kernels;
        let (session, epoch) = self.at(&leaf.session).expect("found above");
        let outcome = Evidence::from_bytes(&bytes).map_err(Void::EvidenceMalformed).and_then(|evidence| {
            let verdict = evidence.verify(kernels).map_err(Void::Evidence)?;
            let here = evidence.epoch().digest() == *epoch.digest() && verdict.session == leaf.session;
            if here && verdict.convicted() == Attribution::Client(client) {
                session.expel(client, leaf.evidence);
                Ok(Event::Expelled { round: session.round(), client })
            } else {
                Err(Void::EvidenceOther { client })
            }
        });
        Ok(outcome)
    }
}
