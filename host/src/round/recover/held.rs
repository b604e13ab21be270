//! The bodies of one round, each held against the leaf that names it.

use super::{Bodies, Body, RecoverError};
use crate::round::Session;
use panetiere::bulletin::{
    ClientBulletinEntry, GroupSum, LaneBulletinEntry, Mode, PostHead, RsClientBulletinEntry,
    ServerBulletinEntry, SignedGroupClaim, SignedLaneClaim, SignedPost, SignedSumClaim,
};
use panetiere::cs::Commitment;
use panetiere::ids::{AggregatorId, ClientId, NodeId, ServerId};
use panetiere::protocol::{PostSource, ProtocolParams};
use panetiere::sig::VerifyingKey;
use panetiere::wire::{DecodeError, DecodeWith};
use panetiere_api::leaf::RoundId;

/// Whether a body is published, and is what its leaf names: nothing of what it says is checked. `Ok` for one that no leaf
/// names.
///
/// # Errors
/// `Body`, `Missing`, `Foreign`.
pub fn compare(session: &Session, bodies: &dyn Bodies, body: Body) -> Result<(), RecoverError> {
    let library = Library { session, bodies, round: session.round() };
    match body {
        Body::Post(client) if session.params().mode() == Mode::Erasure => library.rs_post(client).map(drop),
        Body::Post(client) => {
            let (_, post) = library.whole_post(client)?;
            let Some((_, counted)) = session.posts().get(&client) else { return Ok(()) };
            let digest = blake3::hash(&post.ciphertext);
            let root = post.head.commitment.digest(session.params().lattice());
            let same =
                counted.statement().ciphertext.as_bytes() == digest.as_bytes() && root == *counted.root();
            library.same(body, same, ())
        }
        Body::GroupSum(aggregator) => session
            .group_sums()
            .get(&aggregator)
            .map_or(Ok(()), |leaf| library.group_sum(aggregator, leaf).map(drop)),
        Body::LaneSum(lane) => {
            session.lane_sums().get(&lane).map_or(Ok(()), |leaf| library.lane_sum(lane, leaf).map(drop))
        }
        Body::ServerSum(server) => session
            .server_sums()
            .get(&server)
            .map_or(Ok(()), |leaf| library.server_sum(server, leaf).map(drop)),
    }
}

/// Sums that can be used, and why others cannot.
pub(super) type Usable<T> = (Vec<T>, Vec<RecoverError>);

/// What is there, if that is enough or everything; else why the first is not.
fn usable<T>(
    found: impl Iterator<Item = Result<T, RecoverError>>,
    enough: usize,
) -> Result<Usable<T>, RecoverError> {
    let (mut sums, mut errors) = (Vec::new(), Vec::new());
    for found in found {
        match found {
            Ok(sum) => sums.push(sum),
            Err(error) => errors.push(error),
        }
    }
    match errors.pop() {
        Some(error) if sums.len() < enough => Err(error),
        error => {
            errors.extend(error);
            Ok((sums, errors))
        }
    }
}

/// The bodies of one round, each held against its leaf.
pub(super) struct Library<'a> {
    pub(super) session: &'a Session,
    pub(super) bodies: &'a dyn Bodies,
    pub(super) round: RoundId,
}

impl Library<'_> {
    fn params(&self) -> &ProtocolParams {
        self.session.params()
    }

    fn body(&self, body: Body) -> Result<Vec<u8>, RecoverError> {
        let round = self.round;
        let bytes =
            self.bodies.body(round, body).map_err(|source| RecoverError::Body { round, body, source })?;
        bytes.ok_or(RecoverError::Missing { round, body })
    }

    fn parse<T: DecodeWith<ProtocolParams>>(&self, body: Body) -> Result<T, RecoverError> {
        let bytes = self.body(body)?;
        T::from_bytes_with(self.params(), &bytes)
            .map_err(|error: DecodeError| self.foreign(body, error.to_string()))
    }

    const fn foreign(&self, body: Body, reason: String) -> RecoverError {
        RecoverError::Foreign { round: self.round, body, reason }
    }

    fn same<T>(&self, body: Body, same: bool, value: T) -> Result<T, RecoverError> {
        if same { Ok(value) } else { Err(self.foreign(body, "it was signed with another claim".to_owned())) }
    }

    fn server_sum(
        &self,
        server: ServerId,
        leaf: &SignedSumClaim,
    ) -> Result<ServerBulletinEntry, RecoverError> {
        let sum: ServerBulletinEntry = self.parse(Body::ServerSum(server))?;
        self.same(Body::ServerSum(server), sum.signed().says_the_same(leaf), sum)
    }

    pub(super) fn server_sums(&self) -> Result<Usable<ServerBulletinEntry>, RecoverError> {
        let sums = self.session.server_sums().iter().map(|(&server, leaf)| self.server_sum(server, leaf));
        usable(sums, self.params().threshold().into())
    }

    fn lane_sum(&self, lane: NodeId, leaf: &SignedLaneClaim) -> Result<LaneBulletinEntry, RecoverError> {
        let sum: LaneBulletinEntry = self.parse(Body::LaneSum(lane))?;
        self.same(Body::LaneSum(lane), sum.signed().says_the_same(leaf), sum)
    }

    pub(super) fn lane_sums(&self) -> Result<Usable<LaneBulletinEntry>, RecoverError> {
        let sums = self.session.lane_sums().iter().map(|(&lane, leaf)| self.lane_sum(lane, leaf));
        usable(sums, self.params().lanes().map_or(0, |shape| shape.needed.into()))
    }

    fn group_sum(&self, aggregator: AggregatorId, leaf: &SignedGroupClaim) -> Result<GroupSum, RecoverError> {
        let sum: GroupSum = self.parse(Body::GroupSum(aggregator))?;
        self.same(Body::GroupSum(aggregator), sum.signed().says_the_same(leaf), sum)
    }

    /// Without one of them nothing covers its members.
    pub(super) fn group_sums(&self) -> Result<Vec<GroupSum>, RecoverError> {
        let sums = self.session.group_sums().iter();
        sums.map(|(&aggregator, leaf)| self.group_sum(aggregator, leaf)).collect()
    }

    /// The statement that counts, and the key of its client.
    fn counted(&self, client: ClientId) -> Option<(VerifyingKey, SignedPost)> {
        self.session.posts().get(&client).map(|(key, post)| (*key, post.signed().clone()))
    }

    fn expect_statement(&self, client: ClientId, found: &SignedPost) -> Result<VerifyingKey, RecoverError> {
        let body = Body::Post(client);
        let (key, counted) = self.counted(client).ok_or(RecoverError::Missing { round: self.round, body })?;
        self.same(body, counted.claim() == found.claim(), key)
    }

    pub(super) fn whole_post(
        &self,
        client: ClientId,
    ) -> Result<(VerifyingKey, ClientBulletinEntry), RecoverError> {
        let post: ClientBulletinEntry = self.parse(Body::Post(client))?;
        Ok((self.expect_statement(client, &post.head.signed)?, post))
    }

    pub(super) fn rs_post(
        &self,
        client: ClientId,
    ) -> Result<(VerifyingKey, RsClientBulletinEntry), RecoverError> {
        let post: RsClientBulletinEntry = self.parse(Body::Post(client))?;
        Ok((self.expect_statement(client, &post.signed)?, post))
    }

    /// Keeps the first error for after the recovery, which only knows that a post is not there.
    pub(super) fn remember<T>(
        &self,
        failed: &mut Option<RecoverError>,
        found: Result<T, RecoverError>,
    ) -> Option<T> {
        found.map_err(|error| failed.get_or_insert(error)).ok()
    }
}

/// The posts of an aggregated round, as far as they are at hand: they are with the aggregators.
pub(super) struct Source<'l, 'a>(pub(super) &'l Library<'a>);

impl PostSource for Source<'_, '_> {
    fn statement(&mut self, client: ClientId) -> Option<(VerifyingKey, SignedPost)> {
        self.0.counted(client)
    }

    fn commitment(&mut self, client: ClientId) -> Option<Commitment> {
        let bytes = self.0.body(Body::Post(client)).ok()?;
        let params = self.0.params();
        let head = bytes.get(..PostHead::packed_len(params))?;
        PostHead::from_bytes_with(params, head).ok().map(|head| head.commitment)
    }

    fn ciphertext(&mut self, client: ClientId) -> Option<Vec<u8>> {
        let bytes = self.0.body(Body::Post(client)).ok()?;
        bytes.get(PostHead::packed_len(self.0.params())..).map(<[u8]>::to_vec)
    }
}
