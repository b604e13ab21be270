//! Checking evidence, with nothing but what is in it.
//!
//! Everything about the accused is taken from what it signed: a claim or statement names the epoch's document and the
//! digest of the public parameters, so the document and the terms beside it are either those or lead to an acquittal.

use super::charge::{Accused, Body, Charge, Group, GroupPart, Opened};
use super::excerpt::Excerpt;
use super::{Acquittal, Evidence, EvidenceError, Finding, Outcome, Verdict};
use crate::bulletin::{
    Epoch, LaneBulletinEntry, LaneClaim, LaneItem, LanePurpose, ServerBulletinEntry, SignedGroupClaim,
    SignedLaneClaim, SignedPost, SignedSumClaim, StatementError, SumClaim, VerifiedPost, posts_digest,
};
use crate::cs::Commitment;
use crate::fault::Attribution;
use crate::ids::{PostsDigest, RootDigest, SessionId};
use crate::kahe::KaheError;
use crate::protocol::{
    GroupFault, ItemFault, LanePlace, LaneVerifyError, PostFault, ProtocolParams, RebuildError, SumPart,
    VerifyError, check_group_context, rebuild_item, verify_item, verify_lane_sum, verify_server_sum,
};
use crate::share_commitment::ShareCommitment;
use crate::wire::{DecodeError, DecodeErrorKind, DecodeWith};
use chipmunk::ring::backend::Kernels;
use chipmunk::ring::pack::PackError;
use chipmunk::ring::{Coeff, Poly, Ring, RingContext};

type Judgement = (Attribution, SessionId, Outcome);

fn not_proven(finding: Finding) -> Outcome {
    Outcome::Acquits(Acquittal::NotProven(finding))
}

impl Evidence {
    /// Checks everything, from the signatures to the rings. The result depends on nothing but the evidence.
    ///
    /// # Errors
    /// `Parameters` or `Part` if this is no evidence at all.
    pub fn verify(&self, kernels: &'static Kernels) -> Result<Verdict, EvidenceError> {
        let (deployment, epoch) = (*self.epoch.deployment(), self.epoch.digest());
        let params = self.terms.widest(deployment, epoch, kernels).map_err(EvidenceError::Parameters)?;
        let court = Court { params: &params, epoch: &self.epoch };
        let (accused, session, outcome) = match &self.charge {
            Charge::BadCiphertext(accused, excerpt) => court.ciphertext(accused, excerpt.as_ref()),
            Charge::BadGroup(group) => court.group(group)?,
            Charge::BadLane(opened) => court.lane_opening(opened)?,
            Charge::BadOpening(opened) => court.server_opening(opened)?,
            Charge::BadShare(accused, body, path) => court.share(accused, body, path),
            Charge::DoubleGroupSum(sums) => court.group_sums(sums),
            Charge::DoubleLaneSum(sums) => court.lane_sums(sums),
            Charge::DoublePost(accused, other) => court.posts(accused, other),
            Charge::DoubleServerSum(sums) => court.server_sums(sums),
            Charge::NotACodeword(accused, bodies) => court.codeword(accused, bodies),
        };
        Ok(Verdict { kind: self.kind(), accused, session, outcome })
    }
}

struct Court<'a> {
    params: &'a ProtocolParams,
    epoch: &'a Epoch,
}

/// What a sum's roots add up to, and what a claim over them names.
struct Roots<R: Ring> {
    sum: Poly<R, Coeff>,
    posts: PostsDigest,
}

impl Court<'_> {
    fn sum<T: DecodeWith<ProtocolParams>>(&self, bytes: &[u8]) -> Result<T, EvidenceError> {
        let part = "signed sum";
        T::from_bytes_with(self.params, bytes).map_err(|source| EvidenceError::Part { part, source })
    }

    fn roots<R: Ring>(
        &self,
        ring: &RingContext<R>,
        opened: &Opened,
        parse: impl Fn(&[u8]) -> Result<(Poly<R, Coeff>, RootDigest), PackError>,
    ) -> Result<Roots<R>, EvidenceError> {
        let (mut sum, mut digests) = (Poly::zero(), Vec::new());
        for (at, packed) in opened.roots.chunks_exact(ring.packed_len()).enumerate() {
            let kind = DecodeErrorKind::OutOfRange;
            let source = DecodeError { offset: at * ring.packed_len(), what: "commitment root", kind };
            let part = "list of roots";
            let (root, digest) = parse(packed).map_err(|_| EvidenceError::Part { part, source })?;
            ring.add_assign(&mut sum, &root);
            digests.push(digest);
        }
        Ok(Roots { sum, posts: posts_digest(opened.set.clients().iter().zip(&digests)) })
    }

    fn server_opening(&self, opened: &Opened) -> Result<Judgement, EvidenceError> {
        let entry: ServerBulletinEntry = self.sum(&opened.sum)?;
        let lattice = self.params.lattice();
        let Roots { sum, posts } = self.roots(lattice.hvc(), opened, |bytes| {
            let root = Commitment::from_bytes(lattice, bytes)?;
            Ok((root.root().clone(), root.digest(lattice)))
        })?;
        let claim = entry.claim();
        let (server, session, set) = (claim.server, claim.session, &opened.set);
        let verified = verify_server_sum(self.params, &session, self.epoch, set, &posts, &sum, &entry);
        let outcome = match verified {
            Ok(_) => Outcome::Acquits(Acquittal::Holds),
            Err(error @ (VerifyError::InvalidServerOpening { .. } | VerifyError::WrongCount { .. })) => {
                Outcome::Convicts(Finding::Server(error))
            }
            Err(error) => not_proven(Finding::Server(error)),
        };
        Ok((Attribution::Server(server), session, outcome))
    }

    fn lane_opening(&self, opened: &Opened) -> Result<Judgement, EvidenceError> {
        let entry: LaneBulletinEntry = self.sum(&opened.sum)?;
        let lattice = self.params.lattice();
        let Roots { sum, posts } = self.roots(lattice.lane(), opened, |bytes| {
            let root = ShareCommitment::from_bytes(lattice, bytes)?;
            Ok((root.root().clone(), root.digest(lattice)))
        })?;
        let LaneClaim { lane, session, purpose, .. } = *entry.claim();
        let place = LanePlace { set: &opened.set, purpose, posts: &posts, roots: &sum };
        let outcome = match verify_lane_sum(self.params, &session, self.epoch, place, &entry) {
            Ok(_) => Outcome::Acquits(Acquittal::Holds),
            Err(error @ (LaneVerifyError::LaneOpeningFailed { .. } | LaneVerifyError::WrongCount { .. })) => {
                Outcome::Convicts(Finding::Lane(error))
            }
            Err(error) => not_proven(Finding::Lane(error)),
        };
        Ok((Attribution::Lane(lane), session, outcome))
    }

    fn server_sums(&self, sums: &[SignedSumClaim; 2]) -> Judgement {
        let [first, second] = sums;
        let SumClaim { server, session, .. } = *first.claim();
        let outcome = self.two_server_sums(first, second);
        let outcome = outcome.unwrap_or_else(|error| not_proven(Finding::Server(error)));
        (Attribution::Server(server), session, outcome)
    }

    fn two_server_sums(
        &self,
        first: &SignedSumClaim,
        second: &SignedSumClaim,
    ) -> Result<Outcome, VerifyError> {
        let server = first.claim().server;
        let servers = self.params.servers();
        let known = self.epoch.server(server).filter(|_| server.0 < servers);
        let key = &known.ok_or(VerifyError::UnknownServer { server, servers })?.identity;
        for sum in [first, second] {
            sum.verify_signature(key).map_err(|source| VerifyError::Signature { server, source })?;
        }
        let place = |claim: &SumClaim| (claim.deployment, claim.session, claim.server);
        if first.claim().deployment != *self.params.deployment() {
            return Err(VerifyError::WrongDeployment);
        }
        // The session fixes epoch and parameters, so one of the two is of this epoch; the other may lie about that too.
        if ![first, second].iter().any(|sum| sum.claim().epoch == *self.params.epoch()) {
            return Err(VerifyError::WrongEpoch { server });
        }
        Ok(if place(first.claim()) != place(second.claim()) {
            Outcome::Acquits(Acquittal::Elsewhere)
        } else if first.says_the_same(second) {
            Outcome::Acquits(Acquittal::Same)
        } else {
            Outcome::Convicts(Finding::Server(VerifyError::DoubleSum { server }))
        })
    }

    fn lane_sums(&self, sums: &[SignedLaneClaim; 2]) -> Judgement {
        let [first, second] = sums;
        let LaneClaim { lane, session, .. } = *first.claim();
        let outcome = self.two_lane_sums(first, second);
        let outcome = outcome.unwrap_or_else(|error| not_proven(Finding::Lane(error)));
        (Attribution::Lane(lane), session, outcome)
    }

    fn two_lane_sums(
        &self,
        first: &SignedLaneClaim,
        second: &SignedLaneClaim,
    ) -> Result<Outcome, LaneVerifyError> {
        let lane = first.claim().lane;
        let lanes = self.params.lanes().map_or(0, |shape| shape.lanes);
        let known = self.epoch.lane(lane).filter(|_| lane.0 < lanes);
        let key = known.ok_or(LaneVerifyError::UnknownLane { lane, lanes })?;
        for sum in [first, second] {
            sum.verify_signature(key).map_err(|source| LaneVerifyError::Signature { lane, source })?;
        }
        if first.claim().deployment != *self.params.deployment() {
            return Err(LaneVerifyError::WrongDeployment);
        }
        if ![first, second].iter().any(|sum| sum.claim().epoch == *self.params.epoch()) {
            return Err(LaneVerifyError::WrongEpoch { lane });
        }
        // An answer is one a session. For a check a lane is asked for many sets: there, one claim has one sum.
        let place = |claim: &LaneClaim| (claim.deployment, claim.session, claim.lane, claim.purpose);
        let one_place = match first.claim().purpose {
            LanePurpose::Close => place(first.claim()) == place(second.claim()),
            LanePurpose::Check => first.claim() == second.claim(),
        };
        Ok(if first.says_the_same(second) {
            Outcome::Acquits(Acquittal::Same)
        } else if one_place {
            Outcome::Convicts(Finding::Lane(LaneVerifyError::DoubleSum { lane }))
        } else {
            Outcome::Acquits(Acquittal::Elsewhere)
        })
    }

    fn posts(&self, accused: &Accused, other: &SignedPost) -> Judgement {
        let Accused { key, signed: first } = accused;
        let (client, session) = (first.claim().client, first.claim().session);
        let judged = || -> Result<Outcome, StatementError> {
            first.check(self.params, &session, key)?;
            other.check_signature(key)?;
            let place =
                |post: &SignedPost| (post.claim().deployment, post.claim().session, post.claim().client);
            Ok(if place(first) != place(other) {
                Outcome::Acquits(Acquittal::Elsewhere)
            } else if first.claim() == other.claim() {
                Outcome::Acquits(Acquittal::Same)
            } else {
                Outcome::Convicts(Finding::DoublePost { client })
            })
        };
        let outcome = judged().unwrap_or_else(|error| not_proven(Finding::Post(PostFault::Statement(error))));
        (Attribution::Client(client), session, outcome)
    }

    fn group_sums(&self, sums: &[SignedGroupClaim; 2]) -> Judgement {
        let [first, second] = sums;
        let aggregator = first.claim().aggregator;
        let judged = || -> Result<Outcome, GroupFault> {
            check_group_context(self.params, &first.claim().session, self.epoch, first)?;
            check_group_context(self.params, &first.claim().session, self.epoch, second)?;
            // An aggregator is told whom to sum. Of the same posts there is one sum.
            Ok(if first.says_the_same(second) {
                Outcome::Acquits(Acquittal::Same)
            } else if first.claim() == second.claim() {
                Outcome::Convicts(Finding::Group(GroupFault::DoubleSum { aggregator }))
            } else {
                Outcome::Acquits(Acquittal::Elsewhere)
            })
        };
        let outcome = judged().unwrap_or_else(|fault| not_proven(Finding::Group(fault)));
        (Attribution::Aggregator(aggregator), first.claim().session, outcome)
    }

    fn group(&self, group: &Group) -> Result<Judgement, EvidenceError> {
        let claim = group.signed.claim();
        let (aggregator, session) = (claim.aggregator, claim.session);
        let mut named = claim.members.iter().zip(&group.statements);
        let other = named.find(|((client, digest), statement)| {
            statement.client != **client || statement.digest() != **digest
        });
        let outcome =
            if let Err(fault) = check_group_context(self.params, &session, self.epoch, &group.signed) {
                not_proven(Finding::Group(fault))
            } else if let Some(((&client, _), _)) = other {
                not_proven(Finding::Group(GroupFault::WrongPosts { aggregator, client }))
            } else {
                match &group.part {
                    GroupPart::Root { sum, roots } => self.group_root(group, sum, roots)?,
                    GroupPart::Ciphertext { poly, sum, members } => {
                        self.group_ciphertext(group, *poly, sum, members)
                    }
                }
            };
        Ok((Attribution::Aggregator(aggregator), session, outcome))
    }

    fn group_root(&self, group: &Group, sum: &[u8], roots: &[u8]) -> Result<Outcome, EvidenceError> {
        let lattice = self.params.lattice();
        let parse = |at: usize, bytes: &[u8]| {
            let (offset, kind) = (at * lattice.hvc().packed_len(), DecodeErrorKind::OutOfRange);
            let source = DecodeError { offset, what: "commitment root", kind };
            let part = "list of roots";
            Commitment::from_bytes(lattice, bytes).map_err(|_| EvidenceError::Part { part, source })
        };
        let claimed = parse(0, sum)?;
        let (mut total, mut signed) = (Poly::zero(), true);
        let members = roots.chunks_exact(lattice.hvc().packed_len()).zip(&group.statements);
        for (at, (bytes, statement)) in members.enumerate() {
            let root = parse(at, bytes)?;
            signed &= statement.roots.first() == Some(&root.digest(lattice));
            lattice.hvc().add_assign(&mut total, root.root());
        }
        let aggregator = group.signed.claim().aggregator;
        Ok(if !signed || claimed.digest(lattice) != group.signed.digests().0 {
            Outcome::Acquits(Acquittal::NotSigned)
        } else if total == *claimed.root() {
            Outcome::Acquits(Acquittal::Holds)
        } else {
            let part = SumPart::Root;
            Outcome::Convicts(Finding::Group(GroupFault::WrongSum { aggregator, part }))
        })
    }

    fn group_ciphertext(&self, group: &Group, poly: u32, sum: &Excerpt, members: &[Excerpt]) -> Outcome {
        let aggregator = group.signed.claim().aggregator;
        let wire = &self.params.lattice().wire;
        let place = |at: usize| u64::try_from(at).expect("a length fits 64 bits");
        let (len, number) = (place(wire.packed_len()), u64::from(poly));
        let range = number * len..(number + 1) * len;
        let pieces: Option<Vec<&[u8]>> =
            std::iter::once(sum).chain(members).map(|excerpt| excerpt.piece(range.clone())).collect();
        let Some(pieces) = pieces.filter(|_| number < place(self.params.kahe().polys())) else {
            return Outcome::Acquits(Acquittal::NotSigned);
        };
        let mut stated = members.iter().zip(&group.statements);
        let signed = sum.digest() == *group.signed.digests().1.as_bytes()
            && stated.all(|(excerpt, statement)| excerpt.digest() == *statement.ciphertext.as_bytes());
        if !signed {
            return Outcome::Acquits(Acquittal::NotSigned);
        }
        let claimed = match wire.unpack(pieces[0]) {
            Ok(claimed) => claimed,
            Err(source) => {
                let poly = usize::try_from(poly).expect("usize has at least 32 bits");
                let source = KaheError::Malformed { poly, source };
                return Outcome::Convicts(Finding::Group(GroupFault::Malformed { aggregator, source }));
            }
        };
        let false_sum = GroupFault::WrongSum { aggregator, part: SumPart::Ciphertext };
        let mut total = Poly::zero();
        for piece in &pieces[1..] {
            // Whoever adds up what is no ciphertext has not checked it.
            let Ok(member) = wire.unpack(piece) else { return Outcome::Convicts(Finding::Group(false_sum)) };
            wire.add_assign(&mut total, &member);
        }
        if members.is_empty() || total == claimed {
            Outcome::Acquits(Acquittal::Holds)
        } else {
            Outcome::Convicts(Finding::Group(false_sum))
        }
    }

    /// The accused's statement, if it is of this epoch and these parameters.
    fn statement(&self, accused: &Accused) -> Result<VerifiedPost, StatementError> {
        accused.signed.check(self.params, &accused.signed.claim().session, &accused.key)
    }

    fn against_client(accused: &Accused, outcome: Outcome) -> Judgement {
        let claim = accused.signed.claim();
        (Attribution::Client(claim.client), claim.session, outcome)
    }

    fn share(&self, accused: &Accused, body: &Body, path: &[[u8; 32]]) -> Judgement {
        let outcome = match self.statement(accused) {
            Err(error) => not_proven(Finding::Post(PostFault::Statement(error))),
            Ok(post) => {
                let Body { lane, body } = body.clone();
                let item = LaneItem { client: post.client(), lane, body, path: path.to_vec() };
                match verify_item(self.params, &post, &item) {
                    Ok(_) => Outcome::Acquits(Acquittal::Holds),
                    Err(fault @ (ItemFault::BadShare { .. } | ItemFault::Malformed { .. })) => {
                        Outcome::Convicts(Finding::Item(fault))
                    }
                    Err(fault) => not_proven(Finding::Item(fault)),
                }
            }
        };
        Self::against_client(accused, outcome)
    }

    fn codeword(&self, accused: &Accused, bodies: &[Body]) -> Judgement {
        let outcome = match self.statement(accused) {
            Err(error) => not_proven(Finding::Post(PostFault::Statement(error))),
            Ok(post) => {
                let item = |Body { lane, body }: &Body| {
                    let (lane, body) = (*lane, body.clone());
                    LaneItem { client: post.client(), lane, body, path: Vec::new() }
                };
                let items: Vec<LaneItem> = bodies.iter().map(item).collect();
                match rebuild_item(self.params, &post, crate::ids::NodeId(0), &items) {
                    Ok(_) => Outcome::Acquits(Acquittal::Holds),
                    Err(error @ RebuildError::NotACodeword { .. }) => {
                        Outcome::Convicts(Finding::Rebuild(error))
                    }
                    Err(error) => not_proven(Finding::Rebuild(error)),
                }
            }
        };
        Self::against_client(accused, outcome)
    }

    fn ciphertext(&self, accused: &Accused, excerpt: Option<&Excerpt>) -> Judgement {
        let client = accused.signed.claim().client;
        let outcome = match (self.statement(accused), excerpt) {
            (Err(error @ StatementError::WrongCiphertextLength { .. }), _) => {
                Outcome::Convicts(Finding::Post(PostFault::Statement(error)))
            }
            (Err(error), _) => not_proven(Finding::Post(PostFault::Statement(error))),
            (Ok(_), None) => Outcome::Acquits(Acquittal::Holds),
            (Ok(post), Some(excerpt)) if excerpt.digest() != *post.statement().ciphertext.as_bytes() => {
                Outcome::Acquits(Acquittal::NotSigned)
            }
            (Ok(_), Some(excerpt)) => match self.malformed(excerpt) {
                None => Outcome::Acquits(Acquittal::Holds),
                Some(source) => Outcome::Convicts(Finding::Post(PostFault::Ciphertext { client, source })),
            },
        };
        Self::against_client(accused, outcome)
    }

    /// What is wrong with a body, as far as an excerpt shows it.
    fn malformed(&self, excerpt: &Excerpt) -> Option<KaheError> {
        let expected = self.params.kahe().ciphertext_len();
        let place = |at: usize| u64::try_from(at).expect("a length fits 64 bits");
        if excerpt.reaches_end() && excerpt.total() != place(expected) {
            let found = usize::try_from(excerpt.total()).unwrap_or(usize::MAX);
            let poly = found / self.params.lattice().wire_poly_len();
            return Some(KaheError::Malformed { poly, source: PackError::Length { expected, found } });
        }
        let len = self.params.lattice().wire_poly_len();
        (0..self.params.kahe().polys()).find_map(|poly| {
            let bytes = excerpt.piece(place(poly * len)..place((poly + 1) * len))?;
            let source = self.params.lattice().wire.unpack(bytes).err()?;
            Some(KaheError::Malformed { poly, source })
        })
    }
}
