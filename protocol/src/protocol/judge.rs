//! Sorting parties into honest and lying by what they signed: servers and lanes alike.

use crate::bulletin::{LaneBulletinEntry, LanePurpose, ServerBulletinEntry};
use crate::fault::{Attribution, Fault};
use crate::ids::{NodeId, ServerId};
use crate::protocol::lane_verify::LaneVerifyError;
use crate::protocol::verify::VerifyError;
use rayon::prelude::*;
use std::collections::BTreeMap;

/// A signed sum of one party.
pub(super) trait SignedSum: Sync {
    /// Names the party.
    type Party: Copy + Ord;
    /// Why a sum is refused.
    type Fault: Fault + Clone + Send;

    /// Whose sum it claims to be.
    fn party(&self) -> Self::Party;
    /// How a fault names this party.
    fn named(party: Self::Party) -> Attribution;
    /// Whether a fault that names nobody is of an answer to this round all the same: besides another one it is a lie.
    fn is_answer(fault: &Self::Fault) -> bool;
    /// Whether both are one statement: what is signed, not the signature.
    fn says_the_same(&self, other: &Self) -> bool;
    /// Two statements for one place.
    fn double(party: Self::Party) -> Self::Fault;
}

impl SignedSum for ServerBulletinEntry {
    type Party = ServerId;
    type Fault = VerifyError;

    fn party(&self) -> ServerId {
        self.claim().server
    }

    fn named(server: ServerId) -> Attribution {
        Attribution::Server(server)
    }

    fn is_answer(fault: &VerifyError) -> bool {
        matches!(fault, VerifyError::WrongPosts { .. } | VerifyError::WrongSet { .. })
    }

    fn says_the_same(&self, other: &Self) -> bool {
        Self::says_the_same(self, other)
    }

    fn double(server: ServerId) -> VerifyError {
        VerifyError::DoubleSum { server }
    }
}

impl SignedSum for LaneBulletinEntry {
    type Party = NodeId;
    type Fault = LaneVerifyError;

    fn party(&self) -> NodeId {
        self.claim().lane
    }

    fn named(lane: NodeId) -> Attribution {
        Attribution::Lane(lane)
    }

    /// Sums for a check are over whatever set a lane is asked for.
    fn is_answer(fault: &LaneVerifyError) -> bool {
        match fault {
            LaneVerifyError::WrongPosts { purpose, .. } | LaneVerifyError::WrongSet { purpose, .. } => {
                *purpose == LanePurpose::Close
            }
            _ => false,
        }
    }

    fn says_the_same(&self, other: &Self) -> bool {
        Self::says_the_same(self, other)
    }

    fn double(lane: NodeId) -> LaneVerifyError {
        LaneVerifyError::DoubleSum { lane }
    }
}

/// A party that lied, what about, and what it signed: two sums if it is their being two.
#[derive(Debug)]
pub(super) struct Charged<'e, E: SignedSum> {
    pub fault: E::Fault,
    pub first: &'e E,
    pub second: Option<&'e E>,
}

/// What verified sums open to, by party, and what was excluded on the way.
#[derive(Debug)]
pub(super) struct Judged<'e, E: SignedSum, T> {
    pub opened: BTreeMap<E::Party, T>,
    pub culprits: BTreeMap<E::Party, Charged<'e, E>>,
    /// What proves nothing against anybody.
    pub discarded: Vec<E::Fault>,
}

/// Verifies every entry once, in parallel, and sorts parties into honest and lying. A party that signed two different
/// sums for one place is a culprit whatever they say.
pub(super) fn judge<'e, E: SignedSum, T: Send>(
    entries: &'e [E],
    verify: impl Fn(&E) -> Result<T, E::Fault> + Sync + Send,
) -> Judged<'e, E, T> {
    let verdicts: Vec<_> = entries.par_iter().map(verify).collect();
    let mut judged = Judged { opened: BTreeMap::new(), culprits: BTreeMap::new(), discarded: Vec::new() };
    let mut elsewhere: Vec<(E::Party, E::Fault)> = Vec::new();
    let mut signed: BTreeMap<E::Party, &E> = BTreeMap::new();
    for (entry, verdict) in entries.iter().zip(verdicts) {
        let party = entry.party();
        match verdict {
            Ok(opened) => {
                judged.opened.insert(party, opened);
            }
            Err(fault) if fault.attribution() == E::named(party) => {
                judged.culprits.entry(party).or_insert(Charged { fault, first: entry, second: None });
            }
            Err(fault) if E::is_answer(&fault) => elsewhere.push((party, fault)),
            Err(fault) => {
                judged.discarded.push(fault);
                continue;
            }
        }
        // The signature covers claim and opening, so entries that differ in them are two statements.
        let first = *signed.entry(party).or_insert(entry);
        if !first.says_the_same(entry) {
            let fault = E::double(party);
            judged.culprits.insert(party, Charged { fault, first, second: Some(entry) });
        }
    }
    judged.opened.retain(|party, _| !judged.culprits.contains_key(party));
    elsewhere.retain(|(party, _)| !judged.culprits.contains_key(party));
    judged.discarded.extend(elsewhere.into_iter().map(|(_, fault)| fault));
    judged
}
