//! What the bulletin takes, and what it checks of it first.

use super::{Accepted, Bulletin, Kept, Place, Refused, Taken};
use crate::round::library::{self, Item, Library};
use crate::round::recover::Body;
use crate::round::{Record, Session, Void};
use crate::store::{BlobName, BlobStore as _, BlobWriter, StoreError};
use panetiere::bulletin::{
    Answer, Checked, Envelope, GroupSum, LaneBulletinEntry, Mode, PostHead, RsClientBulletinEntry,
    ServerBulletinEntry, SignedPost, VerifiedPost,
};
use panetiere::evidence::Evidence;
use panetiere::fault::Attribution;
use panetiere::ids::{ClientId, RootDigest, ServerId};
use panetiere::protocol::ProtocolParams;
use panetiere::sig::VerifyingKey;
use panetiere::wire::{Decode, DecodeWith, Encode as _, Reader};
use panetiere_api::leaf::{
    Admission, Expulsion, Leaf, RoundId, RoundResult, Signed, messages_from_bytes, messages_root,
};
use panetiere_api::path::ClientKeyId;
use std::sync::Arc;

/// A post whose statement was checked and whose ciphertext is still to come.
pub struct IncomingPost {
    round: RoundId,
    statement: SignedPost,
    head: Vec<u8>,
    writer: Box<dyn BlobWriter>,
}

impl std::fmt::Debug for IncomingPost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "IncomingPost(round {}, client {})", self.round, self.statement.claim().client)
    }
}

impl IncomingPost {
    /// Takes the next bytes of the ciphertext.
    ///
    /// # Errors
    /// `Store` as soon as there are more than the statement has.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), Refused> {
        self.writer.write(bytes).map_err(Refused::Store)
    }
}

impl Bulletin {
    /// Appends, unless the same stands there already.
    fn append_once(
        &self,
        place: Place,
        append: impl FnOnce() -> Result<Accepted, Refused>,
    ) -> Result<Taken, Refused> {
        match append() {
            Ok(accepted) => Ok(Taken::Accepted(accepted)),
            Err(Refused::Void(void)) if matches!(*void, Void::SecondSame { .. }) => {
                self.place(&place).map_or(Err(Refused::Void(void)), |index| Ok(Taken::Already { index }))
            }
            Err(error) => Err(error),
        }
    }

    /// What a round's bodies are parsed with.
    ///
    /// # Errors
    /// `UnknownRound` for a round that is none of the latest.
    pub fn params(&self, round: RoundId) -> Result<Arc<ProtocolParams>, Refused> {
        self.with_record(|record| {
            let session = record.round(round).ok_or(Refused::UnknownRound { round })?;
            Ok(Arc::clone(session.params()))
        })
    }

    /// The client of a round's epoch with a key of this name.
    ///
    /// # Errors
    /// `UnknownRound`; `UnknownName`.
    pub fn client_named(&self, round: RoundId, name: &ClientKeyId) -> Result<ClientId, Refused> {
        self.with_record(|record| {
            let session = record.round(round).ok_or(Refused::UnknownRound { round })?;
            let epoch = record.epoch_of(session.epoch()).ok_or(Refused::UnknownRound { round })?;
            epoch.client_named(name).ok_or(Refused::UnknownName)
        })
    }

    /// Takes an epoch, a revocation or a key that its bearer has signed.
    ///
    /// # Errors
    /// `Malformed`; `Body` for a leaf of another kind; `Void` with the reason.
    pub fn take_leaf(&self, bytes: &[u8]) -> Result<Accepted, Refused> {
        match Leaf::parse(bytes).map_err(Refused::Malformed)? {
            Leaf::Epoch(_) | Leaf::KeyRotation(_) | Leaf::Revocation(_) => {
                self.append(bytes.to_vec(), Vec::new(), Vec::new())
            }
            leaf => Err(Refused::Body { kind: leaf.kind() }),
        }
    }

    /// Takes a client's admission under its name.
    ///
    /// # Errors
    /// `Malformed`; `OtherName`; `Void`.
    pub fn take_admission(&self, name: &ClientKeyId, bytes: &[u8]) -> Result<Taken, Refused> {
        let admission: Signed<Admission> = Signed::from_bytes(bytes).map_err(Refused::Malformed)?;
        let claim = admission.claim();
        if ClientKeyId::of(&claim.key) != *name {
            return Err(Refused::OtherName);
        }
        let (epoch, bytes) = (claim.epoch, Leaf::Admission(admission).to_bytes());
        match self.append(bytes, Vec::new(), Vec::new()) {
            Ok(accepted) => Ok(Taken::Accepted(accepted)),
            Err(Refused::Void(void)) => match *void {
                Void::DuplicateKey { client } => match self.state().places.admission(&epoch, client) {
                    Some(index) => Ok(Taken::Already { index }),
                    None => Err(Refused::Void(void)),
                },
                _ => Err(Refused::Void(void)),
            },
            Err(error) => Err(error),
        }
    }

    /// Takes a server's word on its envelopes.
    ///
    /// # Errors
    /// `Malformed`; `OtherName` if it is another server's; `Void`.
    pub fn take_checked(&self, round: RoundId, server: ServerId, bytes: &[u8]) -> Result<Taken, Refused> {
        let checked = Checked::from_bytes_with(&*self.params(round)?, bytes).map_err(Refused::Malformed)?;
        if checked.server() != server {
            return Err(Refused::OtherName);
        }
        self.append_once(Place::Checked(round, server), || {
            self.append(bytes.to_vec(), Vec::new(), Vec::new())
        })
    }

    /// Takes a client's answer to a server's complaint.
    ///
    /// # Errors
    /// As [`take_checked`](Self::take_checked).
    pub fn take_answer(
        &self,
        round: RoundId,
        server: ServerId,
        name: &ClientKeyId,
        bytes: &[u8],
    ) -> Result<Taken, Refused> {
        let client = self.client_named(round, name)?;
        let answer = Answer::from_bytes_with(&*self.params(round)?, bytes).map_err(Refused::Malformed)?;
        if (answer.client(), answer.server()) != (client, server) {
            return Err(Refused::OtherName);
        }
        let place = Place::Answer(round, client, server);
        self.append_once(place, || self.append(bytes.to_vec(), Vec::new(), Vec::new()))
    }

    /// Checks a statement for a round, by the key of this name.
    fn check(
        &self,
        round: RoundId,
        name: &ClientKeyId,
        signed: &SignedPost,
    ) -> Result<VerifiedPost, Refused> {
        let client = signed.claim().client;
        let (session, params, key) = self.with_record(|record| {
            let session = record.round(round).ok_or(Refused::UnknownRound { round })?;
            let epoch = record.epoch_of(session.epoch());
            let member = epoch.and_then(|epoch| epoch.member(client));
            let member = member.filter(|member| member.revoked_at.is_none());
            let member = member.ok_or(Refused::NotAdmitted { client })?;
            Ok::<(_, _, VerifyingKey), Refused>((*session.id(), Arc::clone(session.params()), member.key))
        })?;
        if ClientKeyId::of(&key) != *name {
            return Err(Refused::OtherName);
        }
        signed.check(&params, &session, &key).map_err(Refused::Statement)
    }

    /// Takes what a client seals to the servers: its signed statement, then the envelopes in the order of the servers. Durable
    /// once what is returned says so; the same again changes nothing.
    ///
    /// # Errors
    /// `Malformed`, `Statement`, `NotAdmitted`, `OtherName`; `Envelope` unless every envelope is the one that the statement
    /// speaks of; `OtherOpenings` if others of this client are kept.
    pub fn take_openings(&self, round: RoundId, name: &ClientKeyId, bytes: &[u8]) -> Result<Kept, Refused> {
        let params = self.params(round)?;
        let mut reader = Reader::new(bytes);
        let signed = SignedPost::decode(&mut reader).map_err(Refused::Malformed)?;
        let post = self.check(round, name, &signed)?;
        let (client, blob) = (post.client(), BlobName::of(bytes));
        if let Some(kept) = self.openings(round, client)? {
            return if kept == blob { Ok(None) } else { Err(Refused::OtherOpenings { client }) };
        }
        for server in (0..params.servers()).map(ServerId) {
            let envelope = Envelope::decode_with(&*params, &mut reader).map_err(Refused::Malformed)?;
            let root = &post.statement().envelopes;
            let right = (envelope.client, envelope.server) == (client, server)
                && envelope.is_under(root, params.mode(), params.servers());
            if !right {
                return Err(Refused::Envelope { client, server });
            }
        }
        reader.finish().map_err(Refused::Malformed)?;
        let (blob, row) =
            library::keep(self.store(), round, Item::Openings(client), bytes).map_err(Refused::Store)?;
        self.keep(vec![blob], vec![row])
    }

    /// The blob of what a client has sealed to the servers, if it is kept.
    fn openings(&self, round: RoundId, client: ClientId) -> Result<Option<BlobName>, Refused> {
        Library(self.store()).name(round, Item::Openings(client)).map_err(Refused::Read)
    }

    /// What was kept for a server of a client.
    ///
    /// # Errors
    /// `Store`; `NoEnvelopes` for a client of whom none are kept.
    pub fn envelope(
        &self,
        params: &ProtocolParams,
        round: RoundId,
        server: ServerId,
        client: ClientId,
    ) -> Result<Vec<u8>, Refused> {
        let blob = self.openings(round, client)?.ok_or(Refused::NoEnvelopes { client })?;
        let len = |server: u16| Envelope::packed_len(params, ServerId(server)).unwrap_or(0);
        let all: usize = (0..params.servers()).map(len).sum();
        let before: usize = (0..server.0).map(len).sum();
        let bytes = |len: usize| u64::try_from(len).expect("usize has at most 64 bits");
        // In front of them stands the statement.
        let start = blob.len.saturating_sub(bytes(all)) + bytes(before);
        self.store().get(&blob.digest, start..start + bytes(len(server.0))).map_err(Refused::Store)
    }

    /// Whether the envelopes of a statement are kept.
    fn expect_envelopes(&self, round: RoundId, post: &VerifiedPost) -> Result<(), Refused> {
        let client = post.client();
        let Some(blob) = self.openings(round, client)? else { return Err(Refused::NoEnvelopes { client }) };
        let statement = post.signed().to_bytes();
        let len = u64::try_from(statement.len()).expect("usize has at most 64 bits");
        let kept = self.store().get(&blob.digest, 0..len.min(blob.len)).map_err(Refused::Store)?;
        if kept == statement { Ok(()) } else { Err(Refused::OtherOpenings { client }) }
    }

    /// A post that stands in the log already, if it is this one.
    fn already(&self, round: RoundId, post: &VerifiedPost) -> Option<u64> {
        let same = self.with_record(|record| {
            let session: &Session = record.round(round)?;
            let (_, counted) = session.posts().get(&post.client())?;
            Some(counted.statement() == post.statement())
        });
        self.place(&Place::Post(round, post.client())).filter(|_| same == Some(true))
    }

    /// Takes the post of a round without ciphertexts on the bulletin: the head alone with aggregators, both roots with lanes.
    ///
    /// # Errors
    /// `Malformed`, `Statement`, `NotAdmitted`, `OtherName`, `NoEnvelopes`; `BodyMismatch` for roots that were not signed;
    /// `Mode` in direct mode; `Void`.
    pub fn take_post(&self, round: RoundId, name: &ClientKeyId, bytes: &[u8]) -> Result<Taken, Refused> {
        let params = self.params(round)?;
        let signed = match params.mode() {
            Mode::Aggregated => {
                let head = PostHead::from_bytes_with(&*params, bytes).map_err(Refused::Malformed)?;
                expect_roots(&head.signed, &[head.commitment.digest(params.lattice())])?;
                head.signed
            }
            Mode::Erasure => {
                let post =
                    RsClientBulletinEntry::from_bytes_with(&*params, bytes).map_err(Refused::Malformed)?;
                let lattice = params.lattice();
                let roots = [post.commitment.digest(lattice), post.share_commitment.digest(lattice)];
                expect_roots(&post.signed, &roots)?;
                post.signed
            }
            mode => return Err(Refused::Mode { mode }),
        };
        let post = self.check(round, name, &signed)?;
        if let Some(index) = self.already(round, &post) {
            return Ok(Taken::Already { index });
        }
        self.expect_envelopes(round, &post)?;
        let item = Item::Body(Body::Post(post.client()));
        let (blob, row) = library::keep(self.store(), round, item, bytes).map_err(Refused::Store)?;
        self.append(Leaf::Post(signed).to_bytes(), vec![blob], vec![row]).map(Taken::Accepted)
    }

    /// Begins the post of a direct round with its head. The ciphertext is written to what is returned.
    ///
    /// # Errors
    /// As [`take_post`](Self::take_post); the index of a post that stands in the log already.
    pub fn begin_post(
        &self,
        round: RoundId,
        name: &ClientKeyId,
        head: &[u8],
    ) -> Result<Result<IncomingPost, u64>, Refused> {
        let params = self.params(round)?;
        if params.mode() != Mode::Direct {
            return Err(Refused::Mode { mode: params.mode() });
        }
        let parsed = PostHead::from_bytes_with(&*params, head).map_err(Refused::Malformed)?;
        expect_roots(&parsed.signed, &[parsed.commitment.digest(params.lattice())])?;
        let post = self.check(round, name, &parsed.signed)?;
        if let Some(index) = self.already(round, &post) {
            return Ok(Err(index));
        }
        self.expect_envelopes(round, &post)?;
        let statement = post.statement();
        let name = BlobName { digest: *statement.ciphertext.as_bytes(), len: statement.ciphertext_len };
        let class = Item::Ciphertext(post.client()).class();
        let writer = self.store().put(round.0, class, name).map_err(Refused::Store)?;
        Ok(Ok(IncomingPost { round, statement: parsed.signed, head: head.to_vec(), writer }))
    }

    /// Ends a post whose ciphertext is here whole.
    ///
    /// # Errors
    /// `Store` for another ciphertext than the statement's; `Void`, as if the post had ended a moment too late.
    pub fn finish_post(&self, incoming: IncomingPost) -> Result<Taken, Refused> {
        let IncomingPost { round, statement, head, writer } = incoming;
        let client = statement.claim().client;
        let ciphertext = writer.finish().map_err(Refused::Store)?;
        let row = library::row(round, Item::Ciphertext(client), &ciphertext.name());
        let (blob, head_row) = library::keep(self.store(), round, Item::Body(Body::Post(client)), &head)
            .map_err(Refused::Store)?;
        let leaf = Leaf::Post(statement).to_bytes();
        let append = || self.append(leaf, vec![ciphertext, blob], vec![row, head_row]);
        self.append_once(Place::Post(round, client), append)
    }

    /// Takes a server's sum.
    ///
    /// # Errors
    /// `Malformed`; `OtherName` if it is another server's; `Void`.
    pub fn take_server_sum(&self, round: RoundId, server: ServerId, bytes: &[u8]) -> Result<Taken, Refused> {
        let sum =
            ServerBulletinEntry::from_bytes_with(&*self.params(round)?, bytes).map_err(Refused::Malformed)?;
        let found = sum.claim().server;
        let leaf = Leaf::ServerSum(sum.signed().clone());
        self.take_sum(Place::ServerSum(round, server), Body::ServerSum(found), found == server, bytes, &leaf)
    }

    /// Takes a lane's sum over the closed round.
    ///
    /// # Errors
    /// As [`take_server_sum`](Self::take_server_sum).
    pub fn take_lane_sum(
        &self,
        round: RoundId,
        lane: panetiere::ids::NodeId,
        bytes: &[u8],
    ) -> Result<Taken, Refused> {
        let sum =
            LaneBulletinEntry::from_bytes_with(&*self.params(round)?, bytes).map_err(Refused::Malformed)?;
        let found = sum.claim().lane;
        let leaf = Leaf::LaneSum(sum.signed().clone());
        self.take_sum(Place::LaneSum(round, lane), Body::LaneSum(found), found == lane, bytes, &leaf)
    }

    /// Takes an aggregator's sum.
    ///
    /// # Errors
    /// As [`take_server_sum`](Self::take_server_sum).
    pub fn take_group_sum(
        &self,
        round: RoundId,
        aggregator: panetiere::ids::AggregatorId,
        bytes: &[u8],
    ) -> Result<Taken, Refused> {
        let sum = GroupSum::from_bytes_with(&*self.params(round)?, bytes).map_err(Refused::Malformed)?;
        let found = sum.aggregator();
        let leaf = Leaf::GroupSum(sum.signed().clone());
        let place = Place::GroupSum(round, aggregator);
        self.take_sum(place, Body::GroupSum(found), found == aggregator, bytes, &leaf)
    }

    fn take_sum(
        &self,
        place: Place,
        body: Body,
        own: bool,
        bytes: &[u8],
        leaf: &Leaf,
    ) -> Result<Taken, Refused> {
        if !own {
            return Err(Refused::OtherName);
        }
        let round = place.round();
        let (blob, row) =
            library::keep(self.store(), round, Item::Body(body), bytes).map_err(Refused::Store)?;
        self.append_once(place, || self.append(leaf.to_bytes(), vec![blob], vec![row]))
    }

    /// Takes a round's result: the signed leaf, then its messages in the spelling of
    /// [`panetiere_api::leaf::messages_to_bytes`].
    ///
    /// # Errors
    /// `Malformed`; `Messages` unless they are those that the result names; `Void`.
    pub fn take_result(&self, round: RoundId, bytes: &[u8]) -> Result<Taken, Refused> {
        let mut reader = Reader::new(bytes);
        let signed: Signed<RoundResult> = Signed::decode(&mut reader).map_err(Refused::Malformed)?;
        let messages = &bytes[reader.offset()..];
        let list = messages_from_bytes(messages).map_err(Refused::Malformed)?;
        let named = signed.claim();
        let root = messages_root(list.iter().map(Vec::as_slice));
        if u32::try_from(list.len()).ok() != Some(named.messages) || root != named.root {
            return Err(Refused::Messages { round });
        }
        let (blob, row) =
            library::keep(self.store(), round, Item::Messages, messages).map_err(Refused::Store)?;
        let leaf = Leaf::Result(signed).to_bytes();
        self.append_once(Place::Result(round), || self.append(leaf, vec![blob], vec![row]))
    }

    /// Takes evidence: of a client of a round that is not closed, it takes the client out. Other evidence is kept and has
    /// no leaf. Blocks until the evidence is durable.
    ///
    /// # Errors
    /// `Malformed`; `NoFault` if it convicts nobody; `UnknownRound`; `Void` if it is none of this round.
    pub fn take_evidence(&self, round: RoundId, bytes: &[u8]) -> Result<Option<Accepted>, Refused> {
        let evidence = Evidence::from_bytes(bytes).map_err(Refused::Malformed)?;
        let kernels = self.with_record(Record::kernels);
        let verdict = evidence
            .verify(kernels)
            .map_err(|error| Refused::NoFault { reason: crate::chain::chain(&error) })?;
        let blob = library::keep_evidence(self.store(), bytes).map_err(Refused::Store)?;
        let name = blob.name();
        // Readers look for it among what is durable.
        if let Some(kept) = self.keep(vec![blob], Vec::new())? {
            kept.blocking_recv().unwrap_or(Err(StoreError::Stopped)).map_err(Refused::Store)?;
        }
        let Attribution::Client(client) = verdict.accused else { return Ok(None) };
        let session = self.with_record(|record| record.round(round).map(|session: &Session| *session.id()));
        let session = session.ok_or(Refused::UnknownRound { round })?;
        let expulsion = Expulsion { session, client, evidence: name.digest, len: name.len };
        self.append(Leaf::Expulsion(expulsion).to_bytes(), Vec::new(), Vec::new()).map(Some)
    }
}

fn expect_roots(signed: &SignedPost, roots: &[RootDigest]) -> Result<(), Refused> {
    if signed.claim().roots == roots {
        return Ok(());
    }
    Err(Refused::BodyMismatch { client: signed.claim().client })
}
