//! Evidence of a fault: one self-contained object that anybody can check offline, with public keys only.
//!
//! It carries the epoch's document, the terms from which every public parameter follows, what the accused signed, and
//! what that speaks of. [`Evidence::verify`] convicts by the rule that the parties themselves go by: only for bytes under
//! the accused's own signature that no honest party signs, whatever the others do. A sum over another set or over other
//! posts convicts nobody by itself; two different ones do.
//!
//! What a server or lane is convicted of needs no client's signature: its own claim names the roots it is over by their
//! digest, and an honest one has opened every one of them.
//!
//! What evidence does not prove, and what whoever reads it has to know from elsewhere:
//! - that its epoch's document is the deployment's. A verdict names a party *of that document*; its digest is in the log.
//! - that a client id belongs to the verifying key beside it: that is the log's admission. Anybody can sign nonsense with
//!   a key of their own under any client's id.
//! - which epoch and parameters a session has. So a party that signed another epoch or other parameters for a session
//!   is a culprit to the recipient, which knows the session, and is not convicted here.
//!
//! Wire: type and version, kind, terms, the epoch's document, then what the kind needs. Verification takes memory and
//! time in proportion to its length, and for shares of one client also to the number of lanes.

mod charge;
mod excerpt;
mod group;
mod verdict;
mod verify;

pub use verdict::{Acquittal, EvidenceError, Finding, Outcome, Verdict};

use crate::bulletin::{
    CanonicalSet, Epoch, GroupSum, LaneBulletinEntry, LaneItem, PostView, ServerBulletinEntry,
    SignedGroupClaim, SignedLaneClaim, SignedPost, SignedSumClaim, VerifiedPost,
};
use crate::cs::Commitment;
use crate::fault::{Attribution, Fault as _};
use crate::ids::ClientId;
use crate::protocol::{
    ItemFault, PostFault, PostSource, ProtocolParams, RebuildError, RejectReason, RoundShape, SumPart,
};
use crate::share_commitment::ShareCommitment;
use crate::sig::VerifyingKey;
use crate::wire::{Decode, DecodeError, DecodeErrorKind, Encode, HEADER_LEN, ObjectType, Reader};
use charge::{Accused, Body, Charge, Group, GroupPart, Opened};
use excerpt::Excerpt;
use std::collections::BTreeMap;
use std::fmt;

/// What evidence is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
#[non_exhaustive]
pub enum Kind {
    /// A server's sum does not open the sum of the roots that it names.
    BadOpening = 1,
    /// A lane's sum does not open the sum of the share roots that it names.
    BadLane = 2,
    /// An aggregator's sum is not that of the posts that it names.
    BadGroup = 3,
    /// A server signed two different sums for one session.
    DoubleServerSum = 4,
    /// A lane signed two different sums for one place.
    DoubleLaneSum = 5,
    /// An aggregator signed two different sums of the same posts.
    DoubleGroupSum = 6,
    /// A client signed two different posts for one session.
    DoublePost = 7,
    /// A client signed a lane item whose share does not open its own root.
    BadShare = 8,
    /// A client committed to shares that are no codeword.
    NotACodeword = 9,
    /// A client signed a ciphertext that is none.
    BadCiphertext = 10,
}

impl Kind {
    const ALL: [Self; 10] = [
        Self::BadOpening,
        Self::BadLane,
        Self::BadGroup,
        Self::DoubleServerSum,
        Self::DoubleLaneSum,
        Self::DoubleGroupSum,
        Self::DoublePost,
        Self::BadShare,
        Self::NotACodeword,
        Self::BadCiphertext,
    ];

    /// A stable name: for file names and `--json`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::BadOpening => "bad-opening",
            Self::BadLane => "bad-lane",
            Self::BadGroup => "bad-group",
            Self::DoubleGroupSum => "double-group-sum",
            Self::DoubleServerSum => "double-server-sum",
            Self::DoubleLaneSum => "double-lane-sum",
            Self::DoublePost => "double-post",
            Self::BadShare => "bad-share",
            Self::NotACodeword => "not-a-codeword",
            Self::BadCiphertext => "bad-ciphertext",
        }
    }

    /// What [`Evidence::verify`] checks, in a sentence.
    pub const fn checked(self) -> &'static str {
        match self {
            Self::BadOpening => {
                "the server's signature, that the roots are those its claim names, and whether its opening opens their sum"
            }
            Self::BadLane => {
                "the lane's signature, that the share roots are those its claim names, and whether its opening opens their sum"
            }
            Self::BadGroup => {
                "the aggregator's signature, that statements, roots or polynomials are those that it names, and whether they add up to its sum"
            }
            Self::DoubleGroupSum => {
                "the aggregator's signatures, and whether its two sums of the same posts are the same"
            }
            Self::DoubleServerSum => {
                "the server's signatures, and whether its two sums of one session are the same"
            }
            Self::DoubleLaneSum => {
                "the lane's signatures, and whether its two sums of one place are the same"
            }
            Self::DoublePost => {
                "the client's signatures, and whether its two posts of one session are the same"
            }
            Self::BadShare => {
                "the client's signature, that it covers the item, and whether the item's share opens the client's share root"
            }
            Self::NotACodeword => {
                "the client's signature, that each share opens its share root, and whether their codeword has that root"
            }
            Self::BadCiphertext => {
                "the client's signature, that it covers the excerpt, and whether the ciphertext has the length and range of one"
            }
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Evidence against one party.
#[derive(Clone, PartialEq, Eq)]
pub struct Evidence {
    terms: RoundShape,
    epoch: Epoch,
    charge: Charge,
}

/// Building evidence. Nothing is checked here: what does not convict is acquitted by [`verify`](Evidence::verify).
impl Evidence {
    fn new(params: &ProtocolParams, epoch: &Epoch, charge: Charge) -> Self {
        Self { terms: RoundShape::of(params), epoch: epoch.clone(), charge }
    }

    /// Against a server: its sum, and the commitments of the posts that it is over.
    pub fn bad_opening<'a>(
        params: &ProtocolParams,
        epoch: &Epoch,
        sum: &ServerBulletinEntry,
        set: &CanonicalSet,
        roots: impl IntoIterator<Item = &'a Commitment>,
    ) -> Self {
        let roots = roots.into_iter().flat_map(|root| root.to_bytes(params.lattice())).collect();
        let opened = Opened { sum: sum.to_bytes(params), set: set.clone(), roots };
        Self::new(params, epoch, Charge::BadOpening(opened))
    }

    /// Against a lane: its sum, and the share commitments of the posts that it is over, in the order of the set.
    ///
    /// # Panics
    /// If the parameters have no lanes.
    pub fn bad_lane<'a>(
        params: &ProtocolParams,
        epoch: &Epoch,
        sum: &LaneBulletinEntry,
        set: &CanonicalSet,
        roots: impl IntoIterator<Item = &'a ShareCommitment>,
    ) -> Self {
        let code = params.lane_code().expect("a lane's sum is of parameters with lanes");
        let roots = roots.into_iter().flat_map(|root| root.to_bytes(params.lattice())).collect();
        let opened = Opened { sum: sum.to_bytes(code), set: set.clone(), roots };
        Self::new(params, epoch, Charge::BadLane(opened))
    }

    /// Against a server: two of its sums, of which the signed claims are enough.
    pub fn double_server_sum<S: AsRef<SignedSumClaim>>(
        params: &ProtocolParams,
        epoch: &Epoch,
        sums: [&S; 2],
    ) -> Self {
        let sums = sums.map(|sum| sum.as_ref().clone());
        Self::new(params, epoch, Charge::DoubleServerSum(Box::new(sums)))
    }

    /// Against a lane: two of its sums, of which the signed claims are enough.
    pub fn double_lane_sum<S: AsRef<SignedLaneClaim>>(
        params: &ProtocolParams,
        epoch: &Epoch,
        sums: [&S; 2],
    ) -> Self {
        let sums = sums.map(|sum| sum.as_ref().clone());
        Self::new(params, epoch, Charge::DoubleLaneSum(Box::new(sums)))
    }

    /// Against an aggregator: two of its sums, of which the signed claims are enough.
    pub fn double_group_sum<S: AsRef<SignedGroupClaim>>(
        params: &ProtocolParams,
        epoch: &Epoch,
        sums: [&S; 2],
    ) -> Self {
        let sums = sums.map(|sum| sum.as_ref().clone());
        Self::new(params, epoch, Charge::DoubleGroupSum(Box::new(sums)))
    }

    /// Against an aggregator: its sum, held against its members' posts. Of the ciphertexts, the first polynomial goes in
    /// that is no sum; the first of all if each one is.
    ///
    /// # Errors
    /// If a member's post is not at hand, or what is delivered for it is not what the aggregator summed.
    pub fn bad_group(
        params: &ProtocolParams,
        epoch: &Epoch,
        sum: &GroupSum,
        part: SumPart,
        source: &mut impl PostSource,
    ) -> Result<Self, RejectReason> {
        let mut statements = Vec::new();
        for &client in sum.claim().members.keys() {
            let (_, signed) = source.statement(client).ok_or(RejectReason::PostMissing { client })?;
            statements.push(signed.claim().clone());
        }
        let part = match part {
            SumPart::Root => {
                let mut roots = Vec::new();
                for &client in sum.claim().members.keys() {
                    let root = source.commitment(client).ok_or(RejectReason::PostMissing { client })?;
                    roots.extend(root.to_bytes(params.lattice()));
                }
                GroupPart::Root { sum: sum.root().to_bytes(params.lattice()), roots }
            }
            SumPart::Ciphertext => group::ciphertext(params, sum, source)?,
        };
        let group = Group { signed: sum.signed().clone(), statements, part };
        Ok(Self::new(params, epoch, Charge::BadGroup(Box::new(group))))
    }

    /// Against a client: two of its statements. `key` is its admitted key.
    pub fn double_post(
        params: &ProtocolParams,
        epoch: &Epoch,
        key: &VerifyingKey,
        posts: [&SignedPost; 2],
    ) -> Self {
        let [signed, other] = posts.map(Clone::clone);
        Self::new(params, epoch, Charge::DoublePost(Accused { key: *key, signed }, Box::new(other)))
    }

    /// Against a client: its statement and an item under it. `key` is its admitted key.
    pub fn bad_share(
        params: &ProtocolParams,
        epoch: &Epoch,
        key: &VerifyingKey,
        post: &SignedPost,
        item: &LaneItem,
    ) -> Self {
        let accused = Accused { key: *key, signed: post.clone() };
        let body = Body { lane: item.lane, body: item.body.clone() };
        // A longer path is under no root.
        let path = item.path.iter().copied().take(u8::MAX.into()).collect();
        Self::new(params, epoch, Charge::BadShare(accused, body, path))
    }

    /// Against a client: its statement and items of k lanes, which a [`Bisection`](crate::protocol::Bisection) that has
    /// found the client leaves to be fetched from any k lanes. Of more, k are taken. `key` is its admitted key.
    pub fn not_a_codeword(
        params: &ProtocolParams,
        epoch: &Epoch,
        key: &VerifyingKey,
        post: &SignedPost,
        items: &[LaneItem],
    ) -> Self {
        let accused = Accused { key: *key, signed: post.clone() };
        let by_lane: BTreeMap<_, _> = items.iter().map(|item| (item.lane, item)).collect();
        let needed = params.lanes().map_or(0, |shape| shape.needed);
        let body = |(&lane, item): (_, &&LaneItem)| Body { lane, body: item.body.clone() };
        let bodies = by_lane.iter().take(needed.into()).map(body).collect();
        Self::new(params, epoch, Charge::NotACodeword(accused, bodies))
    }

    /// Against a client: its statement and the ciphertext that it signed, of which only the first polynomial that is out
    /// of range goes in; if there is none, the end. `key` is its admitted key.
    ///
    /// A statement of a length that the round's ciphertexts do not have needs no ciphertext: give none.
    pub fn bad_ciphertext(
        params: &ProtocolParams,
        epoch: &Epoch,
        key: &VerifyingKey,
        post: &SignedPost,
        ciphertext: &[u8],
    ) -> Self {
        let accused = Accused { key: *key, signed: post.clone() };
        let wire = &params.lattice().wire;
        let len = wire.packed_len();
        let bad = ciphertext.chunks_exact(len).position(|poly| wire.unpack(poly).is_err());
        let excerpt = match bad {
            Some(poly) => Some(Excerpt::of(ciphertext, poly * len..(poly + 1) * len)),
            None if ciphertext.is_empty() => None,
            None => Some(Excerpt::of(ciphertext, ciphertext.len() - 1..ciphertext.len())),
        };
        Self::new(params, epoch, Charge::BadCiphertext(accused, excerpt))
    }
}

/// Evidence out of what a party found wrong itself: only what convicts, so of most faults there is none.
impl Evidence {
    /// Against the client whose post was refused, of the post as it was delivered. `key` is its admitted key.
    pub fn of_post<'p>(
        fault: &PostFault,
        params: &ProtocolParams,
        epoch: &Epoch,
        key: &VerifyingKey,
        post: impl Into<PostView<'p>>,
    ) -> Option<Box<Self>> {
        let PostView { head, ciphertext } = post.into();
        Self::bad_ciphertext(params, epoch, key, &head.signed, ciphertext)
            .if_it_convicts(params, fault.attribution())
    }

    /// Against the client whose item a lane refused. `key` is its admitted key.
    pub fn of_item(
        fault: &ItemFault,
        params: &ProtocolParams,
        epoch: &Epoch,
        key: &VerifyingKey,
        post: &VerifiedPost,
        item: &LaneItem,
    ) -> Option<Box<Self>> {
        Self::bad_share(params, epoch, key, post.signed(), item).if_it_convicts(params, fault.attribution())
    }

    /// Against the client whose items an item could not be rebuilt from. `key` is its admitted key.
    pub fn of_rebuild(
        error: &RebuildError,
        params: &ProtocolParams,
        epoch: &Epoch,
        key: &VerifyingKey,
        post: &VerifiedPost,
        items: &[LaneItem],
    ) -> Option<Box<Self>> {
        if let RebuildError::Item(fault) = error {
            return items.iter().find_map(|item| Self::of_item(fault, params, epoch, key, post, item));
        }
        Self::not_a_codeword(params, epoch, key, post.signed(), items)
            .if_it_convicts(params, error.attribution())
    }

    /// This evidence, if it convicts `party`. What a party knows of a culprit may be more than evidence holds.
    pub fn if_it_convicts(self, params: &ProtocolParams, party: Attribution) -> Option<Box<Self>> {
        let verdict = self.verify(params.lattice().kernels()).ok()?;
        let convicted = verdict.convicted();
        (convicted != Attribution::Nobody && convicted == party).then(|| Box::new(self))
    }
}

impl Evidence {
    /// What it is of.
    pub const fn kind(&self) -> Kind {
        self.charge.kind()
    }

    /// The epoch's document that it was made with.
    pub const fn epoch(&self) -> &Epoch {
        &self.epoch
    }

    /// The verifying key that it takes for the accused client's, where the accused is a client.
    pub const fn client_key(&self) -> Option<(ClientId, &VerifyingKey)> {
        match &self.charge {
            Charge::BadCiphertext(accused, _)
            | Charge::BadShare(accused, ..)
            | Charge::DoublePost(accused, _)
            | Charge::NotACodeword(accused, _) => Some((accused.signed.claim().client, &accused.key)),
            Charge::BadGroup(_)
            | Charge::BadLane(_)
            | Charge::BadOpening(_)
            | Charge::DoubleGroupSum(_)
            | Charge::DoubleLaneSum(_)
            | Charge::DoubleServerSum(_) => None,
        }
    }
}

impl Encode for Evidence {
    fn encode(&self, out: &mut Vec<u8>) {
        ObjectType::Evidence.encode_header(out);
        out.push(self.kind() as u8);
        self.terms.encode(out);
        self.epoch.encode(out);
        self.charge.encode(out);
    }

    fn encoded_len(&self) -> usize {
        HEADER_LEN + 1 + self.terms.encoded_len() + self.epoch.encoded_len() + self.charge.encoded_len()
    }
}

impl Decode for Evidence {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        reader.header(ObjectType::Evidence)?;
        let unknown = reader.fault("kind of evidence", DecodeErrorKind::OutOfRange);
        let kind = reader.u8("kind of evidence")?;
        let kind = Kind::ALL.into_iter().find(|known| *known as u8 == kind).ok_or(unknown)?;
        let terms = RoundShape::decode(reader)?;
        let epoch = Epoch::decode(reader)?;
        let charge = Charge::decode(kind, terms.set(), reader)?;
        Ok(Self { terms, epoch, charge })
    }
}
