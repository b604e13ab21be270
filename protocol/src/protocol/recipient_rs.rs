//! Recovery with lanes: check the constant-size posts of the canonical set, verify the lanes' sums, exclude the lanes
//! that lie, put the summed ciphertext together from any k of the rest, and open it as in direct mode.
//!
//! A lane is named exactly if its own signed sum is false. Sums that verify and are no codeword are some client's doing
//! and name no lane.

use super::judge::{Charged, Judged, judge};
use super::lane_verify::{LanePlace, LaneVerifyError, verify_lane_sum};
use super::params::ProtocolParams;
use super::policy::SetPolicy;
use super::post_sum::PostFault;
use super::recipient::{LaneCulprit, RecipientError, Recovered, RejectReason, check_epoch, within_bounds};
use super::recipient_aggregated::NotRecovered;
use super::recovery::{Place, Totals, open_sum};
use super::verify::Phase;
use crate::bulletin::{
    CanonicalSet, Epoch, LaneBulletinEntry, LanePurpose, RsClientBulletinEntry, ServerBulletinEntry,
    VerifiedPost, posts_digest,
};
use crate::cs::Commitment;
use crate::evidence::Evidence;
use crate::fault::Attribution;
use crate::ids::{ClientId, NodeId, PostsDigest, SessionId};
use crate::kahe::CiphertextSum;
use crate::rs::{RsError, Share};
use crate::share_commitment::ShareCommitment;
use crate::sig::VerifyingKey;
use chipmunk::ring::{Coeff, Hvc, Lane, Poly};
use std::collections::BTreeMap;

/// A post whose signature and roots were checked.
#[derive(Debug)]
struct CheckedPost {
    post: VerifiedPost,
    commitment: Commitment,
    share_commitment: ShareCommitment,
}

/// The posts of one session in erasure mode, checked as they arrive: 17 KB a client. Their roots add up over any set.
#[derive(Debug)]
pub struct RsPosts<'a> {
    params: &'a ProtocolParams,
    session: SessionId,
    posts: BTreeMap<ClientId, CheckedPost>,
}

impl<'a> RsPosts<'a> {
    /// No posts yet.
    pub const fn new(params: &'a ProtocolParams, session: SessionId) -> Self {
        Self { params, session, posts: BTreeMap::new() }
    }

    /// Checks and keeps one post; `key` is the admitted key of the client it names.
    ///
    /// # Errors
    /// `AlreadyAdded`, `Statement`, or `BodyMismatch` for a root that is not the signed one; nothing is kept then.
    pub fn add(&mut self, key: &VerifyingKey, entry: &RsClientBulletinEntry) -> Result<(), PostFault> {
        let client = entry.signed.claim().client;
        if self.posts.contains_key(&client) {
            return Err(PostFault::AlreadyAdded { client });
        }
        let post = entry.signed.check(self.params, &self.session, key).map_err(PostFault::Statement)?;
        let lattice = self.params.lattice();
        if entry.commitment.digest(lattice) != *post.root() {
            return Err(PostFault::BodyMismatch { client, part: "commitment root" });
        }
        if Some(&entry.share_commitment.digest(lattice)) != post.share_root() {
            return Err(PostFault::BodyMismatch { client, part: "share commitment root" });
        }
        let (commitment, share_commitment) = (entry.commitment.clone(), entry.share_commitment.clone());
        self.posts.insert(client, CheckedPost { post, commitment, share_commitment });
        Ok(())
    }

    /// The parameters.
    pub const fn params(&self) -> &'a ProtocolParams {
        self.params
    }

    /// The round.
    pub const fn session(&self) -> &SessionId {
        &self.session
    }

    /// A client's checked statement, if its post is here.
    pub fn post(&self, client: ClientId) -> Option<&VerifiedPost> {
        self.posts.get(&client).map(|checked| &checked.post)
    }

    /// The sum of the share commitments' roots over a set, and the digest of those commitments.
    ///
    /// # Errors
    /// `PostMissing` with the first client whose post is not here.
    pub fn share_roots(&self, set: &CanonicalSet) -> Result<(Poly<Lane, Coeff>, PostsDigest), RejectReason> {
        let posts = self.of(set)?;
        let mut sum = Poly::zero();
        let lane = &self.params.lattice().lane;
        posts.iter().for_each(|checked| lane.add_assign(&mut sum, checked.share_commitment.root()));
        let roots = posts.iter().filter_map(|checked| checked.post.share_root());
        Ok((sum, posts_digest(set.clients().iter().zip(roots))))
    }

    /// The sum of the key-share commitments' roots over a set, and the digest of those commitments.
    fn roots(&self, set: &CanonicalSet) -> Result<(Poly<Hvc, Coeff>, PostsDigest), RejectReason> {
        let posts = self.of(set)?;
        let mut sum = Poly::zero();
        let hvc = &self.params.lattice().hvc;
        posts.iter().for_each(|checked| hvc.add_assign(&mut sum, checked.commitment.root()));
        let roots = posts.iter().map(|checked| checked.post.root());
        Ok((sum, posts_digest(set.clients().iter().zip(roots))))
    }

    fn of(&self, set: &CanonicalSet) -> Result<Vec<&CheckedPost>, RejectReason> {
        let post = |&client| self.posts.get(&client).ok_or(RejectReason::PostMissing { client });
        set.clients().iter().map(post).collect()
    }

    /// Verifies lanes' sums over `set` and sorts the lanes.
    pub(super) fn judge_lanes(
        &self,
        epoch: &Epoch,
        set: &CanonicalSet,
        purpose: LanePurpose,
        entries: &[LaneBulletinEntry],
    ) -> Result<JudgedLanes, RejectReason> {
        let (roots, posts) = self.share_roots(set)?;
        let place = LanePlace { set, purpose, posts: &posts, roots: &roots };
        let verify =
            |entry: &LaneBulletinEntry| verify_lane_sum(self.params, &self.session, epoch, place, entry);
        let Judged { opened, culprits, discarded } = judge(entries, verify);
        let culprit = |(lane, charged)| self.lane_culprit(epoch, set, lane, charged);
        Ok(JudgedLanes { opened, culprits: culprits.into_iter().map(culprit).collect(), discarded })
    }

    fn lane_culprit(
        &self,
        epoch: &Epoch,
        set: &CanonicalSet,
        lane: NodeId,
        Charged { fault, first, second }: Charged<'_, LaneBulletinEntry>,
    ) -> LaneCulprit {
        let evidence = match (&fault, second) {
            (LaneVerifyError::LaneOpeningFailed { .. } | LaneVerifyError::WrongCount { .. }, _) => {
                self.of(set).ok().map(|posts| {
                    let roots = posts.into_iter().map(|checked| &checked.share_commitment);
                    Evidence::bad_lane(self.params, epoch, first, set, roots)
                })
            }
            (LaneVerifyError::DoubleSum { .. }, Some(second)) => {
                Some(Evidence::double_lane_sum(self.params, epoch, [first, second]))
            }
            _ => None,
        };
        let party = Attribution::Lane(lane);
        LaneCulprit {
            lane,
            fault,
            evidence: evidence.and_then(|evidence| evidence.if_it_convicts(self.params, party)),
        }
    }
}

/// The lanes of one set, sorted.
pub(super) struct JudgedLanes {
    /// What verified sums open to.
    pub opened: BTreeMap<NodeId, Share>,
    /// Ascending.
    pub culprits: Vec<LaneCulprit>,
    /// What proves nothing against anybody.
    pub discarded: Vec<LaneVerifyError>,
}

/// The totals of a round with lanes: the roots of the posts, and the ciphertext that the lanes' sums carry.
struct RsTotals<'s, 'a> {
    posts: &'s RsPosts<'a>,
    canonical: &'s CanonicalSet,
    roots: Poly<Hvc, Coeff>,
    digest: PostsDigest,
    ciphertexts: CiphertextSum,
}

impl Totals for RsTotals<'_, '_> {
    fn roots(&self) -> &Poly<Hvc, Coeff> {
        &self.roots
    }

    fn posts(&self) -> PostsDigest {
        self.digest
    }

    fn ciphertexts(&self) -> &CiphertextSum {
        &self.ciphertexts
    }

    fn commitments(&mut self) -> Option<Vec<Commitment>> {
        let posts = self.posts.of(self.canonical).ok()?;
        Some(posts.into_iter().map(|checked| checked.commitment.clone()).collect())
    }
}

/// A round recovered through lanes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecoveredRs {
    /// The sum and the servers.
    pub recovered: Recovered,
    /// Lanes whose signed sums were false, each once, ascending.
    pub lane_culprits: Vec<LaneCulprit>,
    /// Lanes without a usable sum that did nothing provably wrong: down, late, or misdelivered. Ascending.
    pub lanes_missing: Vec<NodeId>,
    /// Lane entries that prove nothing against anybody: unsigned, replayed, of unknown lanes, over another set or other
    /// posts than those known here.
    pub lanes_discarded: Vec<LaneVerifyError>,
}

/// Decrypts the sum over `canonical` with the lanes' and servers' sums, excluding those that lie. At least k lanes and t
/// servers must remain; all that remain are used, those beyond as a check.
///
/// # Errors
/// `BelowLaneThreshold` with fewer entries than k, `BelowShareThreshold` with fewer than t; else `Rejected`:
/// `LanesExhausted` or `SharesExhausted`, `NotACodeword` if verified sums of more than k lanes are
/// inconsistent, and what [`decrypt_aggregate`](super::decrypt_aggregate) says. With exactly k lanes a client that
/// committed to no codeword cannot be seen here.
pub fn decrypt_aggregate_rs(
    posts: &RsPosts<'_>,
    epoch: &Epoch,
    canonical: &CanonicalSet,
    entries: &[ServerBulletinEntry],
    lane_entries: &[LaneBulletinEntry],
    observe: &mut dyn FnMut(Phase),
) -> Result<RecoveredRs, NotRecovered> {
    let mut lanes = JudgedLanes { opened: BTreeMap::new(), culprits: Vec::new(), discarded: Vec::new() };
    match run(posts, epoch, canonical, entries, lane_entries, observe, &mut lanes) {
        Ok((recovered, lanes_missing)) => Ok(RecoveredRs {
            recovered,
            lane_culprits: lanes.culprits,
            lanes_missing,
            lanes_discarded: lanes.discarded,
        }),
        Err(reason) => Err(NotRecovered {
            reason,
            aggregators: Vec::new(),
            discarded: Vec::new(),
            lanes: lanes.culprits,
            lanes_discarded: lanes.discarded,
        }),
    }
}

fn run(
    posts: &RsPosts<'_>,
    epoch: &Epoch,
    canonical: &CanonicalSet,
    entries: &[ServerBulletinEntry],
    lane_entries: &[LaneBulletinEntry],
    observe: &mut dyn FnMut(Phase),
    lanes: &mut JudgedLanes,
) -> Result<(Recovered, Vec<NodeId>), RecipientError> {
    let params = posts.params;
    let reject = RecipientError::Rejected;
    let code = params.lane_code().ok_or(reject(RejectReason::NoLanes))?;
    enough(params, entries, lane_entries)?;
    check_epoch(params, epoch)?;
    within_bounds(params, canonical).map_err(reject)?;
    let (roots, digest) = posts.roots(canonical).map_err(reject)?;
    *lanes = posts.judge_lanes(epoch, canonical, LanePurpose::Close, lane_entries).map_err(reject)?;
    observe(Phase::VerifyLanes);
    let sums = &lanes.opened;
    let lied = |lane: &NodeId| lanes.culprits.iter().any(|culprit| culprit.lane == *lane);
    let idle = |lane: &NodeId| !sums.contains_key(lane) && !lied(lane);
    let missing: Vec<NodeId> = (0..code.shape().lanes).map(NodeId).filter(idle).collect();
    let need = code.shape().needed;
    if sums.len() < usize::from(need) {
        return Err(reject(RejectReason::LanesExhausted { remaining: sums.len(), need }));
    }
    let samples: Vec<(NodeId, &Share)> = sums.iter().map(|(lane, share)| (*lane, share)).collect();
    let limbs = code.rs().reconstruct(&samples).map_err(|error| {
        debug_assert!(
            matches!(error, RsError::NotACodeword { .. }),
            "lanes are distinct and their sums of one shape"
        );
        reject(RejectReason::NotACodeword(error))
    })?;
    let ciphertexts = CiphertextSum::from_limbs(params.kahe(), limbs, canonical.count());
    observe(Phase::Reconstruct);
    let place = Place { params, session: &posts.session, epoch, canonical };
    let mut totals = RsTotals { posts, canonical, roots, digest, ciphertexts };
    let opened = open_sum(place, &mut totals, entries, observe).map_err(reject)?;
    Ok((opened.recovered, missing))
}

fn enough(
    params: &ProtocolParams,
    entries: &[ServerBulletinEntry],
    lane_entries: &[LaneBulletinEntry],
) -> Result<(), RecipientError> {
    let (have, need) = (lane_entries.len(), params.lanes().map_or(0, |shape| shape.needed));
    if have < usize::from(need) {
        return Err(RecipientError::BelowLaneThreshold { have, need });
    }
    let (have, need) = (entries.len(), params.threshold());
    if have < usize::from(need) {
        return Err(RecipientError::BelowShareThreshold { have, need });
    }
    Ok(())
}

/// Recovers an erasure-coded round under a policy: posts are asked for one at a time, lanes and servers that lie are
/// excluded and named.
///
/// # Errors
/// As [`decrypt_aggregate_rs`], and `Post`, `PostMissing` or the policy's reason in `Rejected`.
pub fn aggregate_and_decrypt_rs(
    params: &ProtocolParams,
    session: &SessionId,
    epoch: &Epoch,
    policy: &SetPolicy,
    posts: impl FnMut(ClientId) -> Option<(VerifyingKey, RsClientBulletinEntry)>,
    entries: &[ServerBulletinEntry],
    lane_entries: &[LaneBulletinEntry],
) -> Result<RecoveredRs, NotRecovered> {
    let canonical = policy.admit(params).map_err(RecipientError::Rejected)?;
    enough(params, entries, lane_entries)?;
    let checked = checked_posts(params, session, canonical, posts).map_err(RecipientError::Rejected)?;
    decrypt_aggregate_rs(&checked, epoch, canonical, entries, lane_entries, &mut |_| {})
}

fn checked_posts<'a>(
    params: &'a ProtocolParams,
    session: &SessionId,
    canonical: &CanonicalSet,
    mut posts: impl FnMut(ClientId) -> Option<(VerifyingKey, RsClientBulletinEntry)>,
) -> Result<RsPosts<'a>, RejectReason> {
    let mut checked = RsPosts::new(params, *session);
    for &client in canonical.clients() {
        let (key, post) = posts(client).ok_or(RejectReason::PostMissing { client })?;
        let found = post.signed.claim().client;
        if found != client {
            return Err(RejectReason::Post(PostFault::WrongClient { expected: client, found }));
        }
        checked.add(&key, &post).map_err(RejectReason::Post)?;
    }
    Ok(checked)
}
