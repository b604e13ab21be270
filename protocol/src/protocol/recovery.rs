//! The one way to a plaintext, in every mode: verify the servers' sums against the total of the roots, exclude the servers
//! that lie, interpolate the summed key from those that are left, decrypt the total of the ciphertexts.
//!
//! Where the totals come from is the mode's: the posts themselves, the lanes' sums, the aggregators' sums. Only totals of
//! aggregators can be wrong without anybody having seen it; when something does not fit they are held against the posts,
//! put right, and what rests on them is done once more.

use super::judge::{Charged, Judged, judge};
use super::params::ProtocolParams;
use super::recipient::{Culprit, Recovered, RejectReason};
use super::verify::{Phase, VerifyError, verify_server_sum};
use crate::bulletin::{CanonicalSet, Epoch, ServerBulletinEntry};
use crate::cs::Commitment;
use crate::evidence::Evidence;
use crate::fault::Attribution;
use crate::ids::{PostsDigest, ServerId, SessionId};
use crate::kahe::{CiphertextSum, SummedKey};
use crate::plaintext::PlainPoly;
use chipmunk::ring::{Coeff, Cs, Hvc, Poly};
use std::collections::BTreeMap;

/// Which round it is.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    pub params: &'a ProtocolParams,
    pub session: &'a SessionId,
    pub epoch: &'a Epoch,
    pub canonical: &'a CanonicalSet,
}

/// What the posts of a canonical set add up to.
pub(super) trait Totals {
    /// The sum of the commitment roots.
    fn roots(&self) -> &Poly<Hvc, Coeff>;
    /// The digest of those commitments, as the clients signed them.
    fn posts(&self) -> PostsDigest;
    /// The sum of the ciphertexts.
    fn ciphertexts(&self) -> &CiphertextSum;
    /// The commitments, in the order of the set, if all are at hand.
    fn commitments(&mut self) -> Option<Vec<Commitment>>;

    /// Holds the roots against what the clients signed. Returns whether the total has changed.
    fn confirm_roots(&mut self) -> Result<bool, RejectReason> {
        Ok(false)
    }

    /// Holds the ciphertexts against what the clients signed. Returns whether the total has changed.
    fn confirm_ciphertexts(&mut self) -> Result<bool, RejectReason> {
        Ok(false)
    }
}

/// An opened round.
pub(super) struct Opened {
    pub recovered: Recovered,
    /// Servers that cannot be told from liars for want of posts, and were not needed.
    pub unjudged: Vec<ServerId>,
}

/// Opens the total with the servers' sums: at least t must remain, those beyond t are a check.
pub(super) fn open_sum(
    place: Place<'_>,
    totals: &mut impl Totals,
    entries: &[ServerBulletinEntry],
    observe: &mut dyn FnMut(Phase),
) -> Result<Opened, RejectReason> {
    let Place { params, session, epoch, canonical } = place;
    let (posts, need) = (totals.posts(), params.threshold());
    let judged = |roots: &Poly<Hvc, Coeff>| {
        judge(entries, |entry| verify_server_sum(params, session, epoch, canonical, &posts, roots, entry))
    };
    let misopened =
        |charged: &Charged<'_, _>| matches!(charged.fault, VerifyError::InvalidServerOpening { .. });
    let before = totals.roots().clone();
    let mut verdict = judged(&before);
    let mut unjudged = Vec::new();
    if verdict.culprits.values().any(misopened) {
        // Some server, or whoever added up the roots: what the clients signed decides.
        match totals.confirm_roots() {
            Ok(true) => verdict = judged(totals.roots()),
            Ok(false) => {}
            Err(_) if verdict.opened.len() >= usize::from(need) && *totals.roots() == before => {
                // Fewer than t servers are corrupt, so one of those whose openings verify is honest, and the total is
                // right whoever added it up.
                let doubted = verdict.culprits.iter().filter(|(_, charged)| misopened(charged));
                unjudged.extend(doubted.map(|(server, _)| *server));
                verdict.culprits.retain(|_, charged| !misopened(charged));
            }
            Err(reason) => return Err(reason),
        }
    }
    observe(Phase::VerifyOpenings);
    let Judged { opened: shares, culprits, discarded } = verdict;
    let culprits = with_evidence(place, totals, culprits);
    if shares.len() < usize::from(need) {
        return Err(RejectReason::SharesExhausted { remaining: shares.len(), need, culprits, discarded });
    }
    match decrypt(params, totals, &shares, observe) {
        Ok(plaintext) => {
            let recovered = Recovered { canonical: canonical.clone(), plaintext, culprits, discarded };
            Ok(Opened { recovered, unjudged })
        }
        Err(reason) if culprits.is_empty() && discarded.is_empty() => Err(reason),
        Err(reason) => Err(RejectReason::WithFaults { culprits, discarded, reason: Box::new(reason) }),
    }
}

fn decrypt(
    params: &ProtocolParams,
    totals: &mut impl Totals,
    shares: &BTreeMap<ServerId, Poly<Cs, Coeff>>,
    observe: &mut dyn FnMut(Phase),
) -> Result<Vec<PlainPoly>, RejectReason> {
    let key = summed_key(params, shares)?;
    observe(Phase::Interpolate);
    let plaintext = match params.kahe().decrypt(totals.ciphertexts(), &key) {
        Ok(plaintext) => plaintext,
        Err(overflow) => {
            if !totals.confirm_ciphertexts()? {
                return Err(RejectReason::Noise(overflow));
            }
            params.kahe().decrypt(totals.ciphertexts(), &key).map_err(RejectReason::Noise)?
        }
    };
    observe(Phase::Decrypt);
    Ok(plaintext)
}

/// The summed key that the verified shares give.
fn summed_key(
    params: &ProtocolParams,
    shares: &BTreeMap<ServerId, Poly<Cs, Coeff>>,
) -> Result<SummedKey, RejectReason> {
    let samples: Vec<_> = shares.iter().map(|(server, share)| (*server, share)).collect();
    let key = params.sharing().recover(params.lattice().cs(), &samples).map_err(RejectReason::Shares)?;
    Ok(SummedKey::from_cs(params.lattice(), &key))
}

fn with_evidence(
    Place { params, epoch, canonical, .. }: Place<'_>,
    totals: &mut impl Totals,
    culprits: BTreeMap<ServerId, Charged<'_, ServerBulletinEntry>>,
) -> Vec<Culprit> {
    let mut commitments = None;
    let culprit = |(server, Charged { fault, first, second })| {
        let evidence = match (&fault, second) {
            (VerifyError::InvalidServerOpening { .. } | VerifyError::WrongCount { .. }, _) => {
                let roots = commitments.get_or_insert_with(|| totals.commitments()).as_ref();
                roots.map(|roots| Evidence::bad_opening(params, epoch, first, canonical, roots))
            }
            (VerifyError::DoubleSum { .. }, Some(second)) => {
                Some(Evidence::double_server_sum(params, epoch, [first, second]))
            }
            _ => None,
        };
        let party = Attribution::Server(server);
        Culprit {
            server,
            fault,
            evidence: evidence.and_then(|evidence| evidence.if_it_convicts(params, party)),
        }
    };
    culprits.into_iter().map(culprit).collect()
}
