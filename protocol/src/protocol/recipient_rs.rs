//! Recovery with lanes: check the constant-size posts of the canonical set, verify the lanes' sums, exclude the lanes
//! that lie, put the summed ciphertext together from any k of the rest, and open it as in direct mode.
//!
//! A lane is named exactly if its own signed sum is false. Sums that verify and are no codeword are some client's doing
//! and name no lane.

use super::judge::{Judged, judge};
use super::lane_verify::{LanePlace, verify_lane_sum};
use super::params::ProtocolParams;
use super::policy::SetPolicy;
use super::post_sum::PostFault;
use super::recipient::{
    LaneCulprit, Place, RecipientError, Recovered, RejectReason, check_epoch, open_sum, within_bounds,
};
use super::verify::Phase;
use crate::bulletin::{
    CanonicalSet, Epoch, LaneBulletinEntry, LanePurpose, RsClientBulletinEntry, ServerBulletinEntry,
    VerifiedPost, posts_digest,
};
use crate::ids::{ClientId, NodeId, PostsDigest, SessionId};
use crate::kahe::CiphertextSum;
use crate::rs::{RsError, Share};
use crate::sig::VerifyingKey;
use chipmunk::ring::{Coeff, Hvc, Lane, Poly};
use std::collections::BTreeMap;

/// A post whose signature and roots were checked.
#[derive(Debug)]
struct CheckedPost {
    post: VerifiedPost,
    root: Poly<Hvc, Coeff>,
    share_root: Poly<Lane, Coeff>,
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
        let (root, share_root) = (entry.commitment.root().clone(), entry.share_commitment.root().clone());
        self.posts.insert(client, CheckedPost { post, root, share_root });
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
        posts.iter().for_each(|checked| self.params.lattice().lane.add_assign(&mut sum, &checked.share_root));
        let roots = posts.iter().filter_map(|checked| checked.post.share_root());
        Ok((sum, posts_digest(set.clients().iter().zip(roots))))
    }

    /// The sum of the key-share commitments' roots over a set, and the digest of those commitments.
    fn roots(&self, set: &CanonicalSet) -> Result<(Poly<Hvc, Coeff>, PostsDigest), RejectReason> {
        let posts = self.of(set)?;
        let mut sum = Poly::zero();
        posts.iter().for_each(|checked| self.params.lattice().hvc.add_assign(&mut sum, &checked.root));
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
    ) -> Result<Judged<LaneBulletinEntry, Share>, RejectReason> {
        let (roots, posts) = self.share_roots(set)?;
        let place = LanePlace { set, purpose, posts: &posts, roots: &roots };
        let verify =
            |entry: &LaneBulletinEntry| verify_lane_sum(self.params, &self.session, epoch, place, entry);
        Ok(judge(entries, verify))
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
    pub lanes_discarded: Vec<super::LaneVerifyError>,
}

/// Decrypts the sum over `canonical` with the lanes' and servers' sums, excluding those that lie. At least k lanes and t
/// servers must remain; all that remain are used, those beyond as a check.
///
/// # Errors
/// `BelowLaneThreshold` with fewer entries than k, `BelowShareThreshold` with fewer than t; else `Rejected`:
/// `LanesExhausted` or `SharesExhausted` with the liars, `NotACodeword` if verified sums of more than k lanes are
/// inconsistent, and what [`decrypt_aggregate`](super::decrypt_aggregate) says. With exactly k lanes a client that
/// committed to no codeword cannot be seen here.
pub fn decrypt_aggregate_rs(
    posts: &RsPosts<'_>,
    epoch: &Epoch,
    canonical: &CanonicalSet,
    entries: &[ServerBulletinEntry],
    lane_entries: &[LaneBulletinEntry],
    observe: &mut dyn FnMut(Phase),
) -> Result<RecoveredRs, RecipientError> {
    let params = posts.params;
    let code = params.lane_code().ok_or(RecipientError::Rejected(RejectReason::NoLanes))?;
    enough(params, entries, lane_entries)?;
    check_epoch(params, epoch)?;
    let reject = RecipientError::Rejected;
    within_bounds(params, canonical).map_err(reject)?;
    let (roots, digest) = posts.roots(canonical).map_err(reject)?;
    let Judged { opened: sums, culprits, discarded } =
        posts.judge_lanes(epoch, canonical, LanePurpose::Close, lane_entries).map_err(reject)?;
    observe(Phase::VerifyLanes);
    let idle = |lane: &NodeId| !sums.contains_key(lane) && !culprits.contains_key(lane);
    let lanes_missing: Vec<NodeId> = (0..code.shape().lanes).map(NodeId).filter(idle).collect();
    let lane_culprits: Vec<LaneCulprit> =
        culprits.into_iter().map(|(lane, fault)| LaneCulprit { lane, fault }).collect();
    let need = code.shape().needed;
    if sums.len() < usize::from(need) {
        let remaining = sums.len();
        return Err(reject(RejectReason::LanesExhausted { remaining, need, culprits: lane_culprits }));
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
    let place = Place { params, session: &posts.session, epoch, canonical, posts: &digest, roots: &roots };
    let recovered = open_sum(place, &ciphertexts, entries, observe).map_err(reject)?;
    Ok(RecoveredRs { recovered, lane_culprits, lanes_missing, lanes_discarded: discarded })
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
    mut posts: impl FnMut(ClientId) -> Option<(VerifyingKey, RsClientBulletinEntry)>,
    entries: &[ServerBulletinEntry],
    lane_entries: &[LaneBulletinEntry],
) -> Result<RecoveredRs, RecipientError> {
    let canonical = policy.admit(params).map_err(RecipientError::Rejected)?;
    enough(params, entries, lane_entries)?;
    let mut checked = RsPosts::new(params, *session);
    for &client in canonical.clients() {
        let missing = RecipientError::Rejected(RejectReason::PostMissing { client });
        let (key, post) = posts(client).ok_or(missing)?;
        let found = post.signed.claim().client;
        let fault = if found == client {
            checked.add(&key, &post).err()
        } else {
            Some(PostFault::WrongClient { expected: client, found })
        };
        if let Some(fault) = fault {
            return Err(RecipientError::Rejected(RejectReason::Post(fault)));
        }
    }
    decrypt_aggregate_rs(&checked, epoch, canonical, entries, lane_entries, &mut |_| {})
}
