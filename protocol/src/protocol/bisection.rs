//! Before a round closes: do the lanes' sums over the candidates form a codeword, and if not, whose fault is it?
//!
//! If sums of more than k lanes verify and are no codeword, some client committed to shares that are none; no lane is at
//! fault. Sums over half of the candidates say in which half such a client is, and so on down to one. Only sums of
//! ciphertext shares move, which are public: no key share does, and no anonymity is lost.
//!
//! Pure: this object says which set to ask the lanes about and takes their answers; how they are asked is the caller's.

use super::recipient::{LaneCulprit, RejectReason};
use super::recipient_rs::RsPosts;
use crate::bulletin::{CanonicalSet, Epoch, LaneBulletinEntry, LanePurpose};
use crate::fault::{Attribution, Fault, Retry};
use crate::ids::{ClientId, NodeId};
use crate::rs::{RsError, RsParams, Share};
use std::collections::BTreeMap;

/// A codeword check or a step of a search could not be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BisectionError {
    /// The lanes that answered are consistent over the suspects: what was seen rests on lanes that have not answered.
    #[error("the {} lanes that answered agree over the suspects: the inconsistency rests on others", lanes.len())]
    Inconclusive {
        /// The lanes whose sums verified, here and in the steps before.
        lanes: Vec<NodeId>,
        /// The lanes whose sums are false.
        culprits: Vec<LaneCulprit>,
    },
    /// The round has no lanes, or a candidate's post is not at hand.
    #[error("the lanes' sums cannot be checked")]
    Posts(#[source] RejectReason),
    /// Fewer verified sums than any codeword needs.
    #[error("{have} verified lane sums where {need} are needed")]
    TooFew {
        /// Verified sums.
        have: usize,
        /// k.
        need: u16,
        /// The lanes whose sums are false.
        culprits: Vec<LaneCulprit>,
    },
}

impl Fault for BisectionError {
    fn code(&self) -> &'static str {
        match self {
            Self::Inconclusive { .. } => "bisection_inconclusive",
            Self::Posts(reason) => reason.code(),
            Self::TooFew { .. } => "bisection_too_few",
        }
    }

    fn attribution(&self) -> Attribution {
        match self {
            Self::Inconclusive { .. } | Self::TooFew { .. } => Attribution::Nobody,
            Self::Posts(reason) => reason.attribution(),
        }
    }

    fn retry(&self) -> Retry {
        match self {
            Self::Inconclusive { .. } | Self::TooFew { .. } => Retry::SameRequest,
            Self::Posts(reason) => reason.retry(),
        }
    }
}

/// What the lanes' sums over the candidates say.
#[derive(Debug)]
pub enum CodewordVerdict<'a> {
    /// Verified sums of more than k lanes are a codeword: these candidates can be closed over.
    Codeword,
    /// They are none: some candidate is to be found and left out.
    NotACodeword(Bisection<'a>),
    /// Exactly k lanes reported. Any k sums are some codeword's, so a client that committed to none cannot be seen.
    Unseen,
}

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NextStep {
    /// Ask every lane for its sum over this set, for [`LanePurpose::Check`].
    Ask(CanonicalSet),
    /// This client committed to no codeword. Its items of any k lanes are evidence of that
    /// ([`Evidence::not_a_codeword`](crate::evidence::Evidence::not_a_codeword)).
    Found(ClientId),
}

/// The search for one client that committed to no codeword: about log2 of the number of candidates steps.
#[derive(Debug)]
pub struct Bisection<'a> {
    posts: &'a RsPosts<'a>,
    epoch: &'a Epoch,
    code: &'a RsParams,
    suspects: CanonicalSet,
    /// Verified sums over the suspects: of more than k lanes, and no codeword.
    sums: BTreeMap<NodeId, Share>,
}

impl<'a> Bisection<'a> {
    /// Checks the lanes' sums over the candidates, and starts a search if they are no codeword. Lanes whose sums are
    /// false are named besides.
    ///
    /// # Errors
    /// `Posts` without a candidate's post; `TooFew` unless k sums verify.
    pub fn start(
        posts: &'a RsPosts<'a>,
        epoch: &'a Epoch,
        candidates: &CanonicalSet,
        entries: &[LaneBulletinEntry],
    ) -> Result<(CodewordVerdict<'a>, Vec<LaneCulprit>), BisectionError> {
        let code = posts.params().lane_code().ok_or(BisectionError::Posts(RejectReason::NoLanes))?.rs();
        let (sums, culprits) = judged(posts, epoch, candidates, entries)?;
        let (have, need) = (sums.len(), code.needed());
        if have < usize::from(need) {
            return Err(BisectionError::TooFew { have, need, culprits });
        }
        let verdict = if have == usize::from(need) {
            CodewordVerdict::Unseen
        } else if is_codeword(code, &sums) {
            CodewordVerdict::Codeword
        } else {
            let suspects = candidates.clone();
            CodewordVerdict::NotACodeword(Self { posts, epoch, code, suspects, sums })
        };
        Ok((verdict, culprits))
    }

    /// The candidates of whom at least one committed to no codeword.
    pub const fn suspects(&self) -> &CanonicalSet {
        &self.suspects
    }

    /// What to do next.
    pub fn next_step(&self) -> NextStep {
        match self.suspects.clients() {
            [client] => NextStep::Found(*client),
            _ => NextStep::Ask(self.half()),
        }
    }

    fn half(&self) -> CanonicalSet {
        let clients = self.suspects.clients();
        CanonicalSet::new(clients[..clients.len().div_ceil(2)].iter().copied())
            .expect("half of a set, rounded up, is a set")
    }

    /// Takes the lanes' sums over the set last asked for, and names the lanes whose sums are false. Without more than k
    /// lanes that see the inconsistency nothing changes, and more answers may be given.
    ///
    /// # Errors
    /// `Inconclusive` if the lanes that answered see nothing.
    pub fn answer(&mut self, entries: &[LaneBulletinEntry]) -> Result<Vec<LaneCulprit>, BisectionError> {
        if self.suspects.count() == 1 {
            return Ok(Vec::new());
        }
        let half = self.half();
        let (mut half_sums, culprits) = judged(self.posts, self.epoch, &half, entries)?;
        half_sums.retain(|lane, _| self.sums.contains_key(lane));
        // Only lanes that answered for the whole and for the half can say where the fault is.
        let whole = || self.sums.iter().filter(|(lane, _)| half_sums.contains_key(lane));
        let whole_sums: BTreeMap<NodeId, Share> = whole().map(|(lane, sum)| (*lane, sum.clone())).collect();
        if whole_sums.len() <= usize::from(self.code.needed()) || is_codeword(self.code, &whole_sums) {
            let lanes = whole_sums.into_keys().collect();
            return Err(BisectionError::Inconclusive { lanes, culprits });
        }
        if is_codeword(self.code, &half_sums) {
            // Codewords are a vector space: the whole is none and this half is one, so the rest is none.
            let rest = self.suspects.clients().iter().copied().filter(|client| !half.contains(*client));
            self.suspects =
                CanonicalSet::new(rest).expect("two or more suspects, half of them rounded up taken out");
            self.sums = whole_sums;
            for (lane, sum) in &mut self.sums {
                self.code.sub_assign(sum, &half_sums[lane]);
            }
        } else {
            self.suspects = half;
            self.sums = half_sums;
        }
        Ok(culprits)
    }
}

type Sums = (BTreeMap<NodeId, Share>, Vec<LaneCulprit>);

fn judged(
    posts: &RsPosts<'_>,
    epoch: &Epoch,
    set: &CanonicalSet,
    entries: &[LaneBulletinEntry],
) -> Result<Sums, BisectionError> {
    let judged = posts.judge_lanes(epoch, set, LanePurpose::Check, entries).map_err(BisectionError::Posts)?;
    Ok((judged.opened, judged.culprits))
}

fn is_codeword(code: &RsParams, sums: &BTreeMap<NodeId, Share>) -> bool {
    let samples: Vec<(NodeId, &Share)> = sums.iter().map(|(lane, share)| (*lane, share)).collect();
    match code.check_codeword(&samples) {
        Ok(()) => true,
        Err(RsError::NotACodeword { .. }) => false,
        Err(error) => unreachable!("verified sums of distinct lanes, k at least: {error}"),
    }
}
