//! Recovery of an aggregated round: add the groups' sums, verify the servers' against them, decrypt; when something does
//! not fit, add groups again from their posts, name the aggregators that lied and go on with the right sums.
//!
//! A server is named only against roots that the clients signed: before that, the groups' roots are held against them.
//! A ciphertext sum that is off by whole message steps decrypts without an overflow, to another vector. Only adding the
//! posts again shows it, and that the payload does not come out says when to: see [`Audit`].

use super::group::{
    GroupFault, PostSource, SumPart, check_group_claim, checked_statement, is_sum, sum_ciphertexts, sum_roots,
};
use super::lane_verify::LaneVerifyError;
use super::params::ProtocolParams;
use super::policy::SetPolicy;
use super::recipient::{LaneCulprit, RecipientError, Recovered, RejectReason, check_epoch};
use super::recovery::{Opened, Place, Totals, open_sum};
use crate::bulletin::{CanonicalSet, Epoch, GroupSum, ServerBulletinEntry, VerifiedPost, posts_digest};
use crate::channel::{ChannelError, ChannelParams, Delivery, Missing};
use crate::cs::Commitment;
use crate::evidence::Evidence;
use crate::fault::{Attribution, Fault, Retry};
use crate::ids::{AggregatorId, ClientId, PostsDigest, ServerId, SessionId};
use crate::kahe::{CiphertextSum, KaheError};
use chipmunk::ring::{Coeff, Hvc, Poly};
use std::collections::BTreeMap;

/// When groups are added again from their posts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Audit<'c> {
    /// All groups, before anything else: no aggregator can change the result. As much traffic as a direct round.
    Always,
    /// When a server's opening does not verify, or the sum does not decrypt. An aggregator that shifts its sum by whole
    /// message steps is not noticed: for sums whose payload is looked at elsewhere, and never taken unseen.
    OnFailure,
    /// As [`OnFailure`](Self::OnFailure), and all groups when this channel does not deliver: if it refuses the sum, if
    /// something is missing, or if there are more messages than clients. An honest round is decoded once and asks for no
    /// post. What still passes is what the aggregator could have had clients of its own send: whole messages that keep
    /// within the number of clients, in place of cover.
    UnlessDelivered(&'c ChannelParams),
}

/// An aggregator that lied, and what about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AggregatorCulprit {
    /// The aggregator.
    pub aggregator: AggregatorId,
    /// What it signed that is false.
    pub fault: GroupFault,
    /// What convicts it before everybody. Missing for `WrongCrs` and `WrongEpoch`, as only the log tells which parameters
    /// and epoch the session has, and if the posts that it takes are not at hand any more.
    pub evidence: Option<Box<Evidence>>,
}

/// A recovered aggregated round.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecoveredAggregated {
    /// The round, with the servers that lied.
    pub recovered: Recovered,
    /// Aggregators whose signed sums were false, each once, ascending. Their groups were added from the posts.
    pub aggregators: Vec<AggregatorCulprit>,
    /// Group sums that prove nothing against anybody: unsigned, replayed, of unknown aggregators, of another set or other
    /// posts than those known here.
    pub discarded: Vec<GroupFault>,
    /// Servers whose openings do not verify against the groups' roots, while too few commitments are at hand to tell
    /// whether they or an aggregator lied. Not used, not named; enough others were left.
    pub unjudged: Vec<ServerId>,
    /// What the channel of [`Audit::UnlessDelivered`] made of the sum; nothing under the other audits.
    pub delivery: Option<Result<Delivery, ChannelError>>,
    /// Why not all groups could be added again although the channel did not deliver. An aggregator may have lied: recover
    /// again with the posts at hand.
    pub unaudited: Option<RejectReason>,
}

/// A round was not recovered through its lanes or aggregators.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the round was not recovered; {} aggregators and {} lanes lied", aggregators.len(), lanes.len())]
#[non_exhaustive]
pub struct NotRecovered {
    /// Why.
    #[source]
    pub reason: RecipientError,
    /// Aggregators whose signed sums were false, as far as it was found out.
    pub aggregators: Vec<AggregatorCulprit>,
    /// Group sums that prove nothing against anybody.
    pub discarded: Vec<GroupFault>,
    /// Lanes whose signed sums were false, as far as it was found out.
    pub lanes: Vec<LaneCulprit>,
    /// Lanes' sums that prove nothing against anybody.
    pub lanes_discarded: Vec<LaneVerifyError>,
}

impl From<RecipientError> for NotRecovered {
    fn from(reason: RecipientError) -> Self {
        let (aggregators, discarded) = (Vec::new(), Vec::new());
        Self { reason, aggregators, discarded, lanes: Vec::new(), lanes_discarded: Vec::new() }
    }
}

impl Fault for NotRecovered {
    fn code(&self) -> &'static str {
        self.reason.code()
    }

    /// That of the reason: the parties that lied are in the value, and there may be several.
    fn attribution(&self) -> Attribution {
        self.reason.attribution()
    }

    fn retry(&self) -> Retry {
        self.reason.retry()
    }
}

/// A group that counts.
struct Group<'g> {
    sum: &'g GroupSum,
    /// What of its sum is known to be that of the posts: it was found equal, or put in its place.
    root_known: bool,
    ciphertext_known: bool,
}

/// The totals of a round, and what was found out about the groups on the way.
struct GroupTotals<'g, 'a, S> {
    params: &'a ProtocolParams,
    epoch: &'a Epoch,
    statements: BTreeMap<ClientId, VerifiedPost>,
    source: &'a mut S,
    groups: Vec<Group<'g>>,
    roots: Poly<Hvc, Coeff>,
    ciphertexts: CiphertextSum,
    culprits: BTreeMap<AggregatorId, AggregatorCulprit>,
    discarded: Vec<GroupFault>,
}

impl<'g, S: PostSource> GroupTotals<'g, '_, S> {
    /// Sorts the sums into groups that count and such that do not, and finds aggregators that signed two sums of the same
    /// posts: those groups stay, to be added from their posts.
    fn admit(&mut self, session: &SessionId, sums: &'g [GroupSum]) {
        let mut doubled = Vec::new();
        for sum in sums {
            if let Err(fault) = check_group_claim(self.params, session, self.epoch, &self.statements, sum) {
                let aggregator = sum.aggregator();
                if fault.attribution() == Attribution::Aggregator(aggregator) {
                    // Its other groups, if it has any, are added from their posts.
                    self.convict(fault, aggregator, None);
                } else {
                    self.discarded.push(fault);
                }
                continue;
            }
            match self.groups.iter().position(|group| group.sum.claim() == sum.claim()) {
                Some(first) if !self.groups[first].sum.says_the_same(sum) => doubled.push((first, sum)),
                Some(_) => {}
                None => self.groups.push(Group { sum, root_known: false, ciphertext_known: false }),
            }
        }
        for (group, second) in doubled {
            let first = self.groups[group].sum;
            let aggregator = first.aggregator();
            let evidence = Evidence::double_group_sum(self.params, self.epoch, [first, second]);
            self.convict(GroupFault::DoubleSum { aggregator }, aggregator, Some(evidence));
        }
    }

    fn convict(&mut self, fault: GroupFault, aggregator: AggregatorId, evidence: Option<Evidence>) {
        let params = self.params;
        self.culprits.entry(aggregator).or_insert_with(|| {
            let party = Attribution::Aggregator(aggregator);
            let evidence = evidence.and_then(|evidence| evidence.if_it_convicts(params, party));
            AggregatorCulprit { aggregator, fault, evidence }
        });
    }

    /// Convicts the aggregator of a group of a false sum, once.
    fn convict_of_sum(&mut self, group: usize, part: SumPart, fault: GroupFault) {
        let sum = self.groups[group].sum;
        let aggregator = sum.aggregator();
        if !self.culprits.contains_key(&aggregator) {
            let evidence = Evidence::bad_group(self.params, self.epoch, sum, part, self.source).ok();
            self.convict(fault, aggregator, evidence);
        }
    }

    fn partition(&self, canonical: &CanonicalSet) -> Result<(), RejectReason> {
        let mut place = BTreeMap::new();
        for group in &self.groups {
            let second = group.sum.aggregator();
            for &client in group.sum.claim().members.keys() {
                if let Some(first) = place.insert(client, second) {
                    return Err(RejectReason::GroupOverlap { client, first, second });
                }
            }
        }
        match canonical.clients().iter().find(|client| !place.contains_key(client)) {
            Some(&client) => Err(RejectReason::GroupGap { client }),
            None => Ok(()),
        }
    }

    /// Adds every group once: its own sums, or those of its posts if it is convicted already.
    fn add_up(&mut self) -> Result<(), RejectReason> {
        for at in 0..self.groups.len() {
            let sum = self.groups[at].sum;
            let mut from_posts = self.culprits.contains_key(&sum.aggregator());
            if !from_posts && let Err(source) = self.ciphertexts.add(sum.ciphertext()) {
                if !matches!(source, KaheError::Malformed { .. }) {
                    return Err(RejectReason::Noise(source));
                }
                let fault = GroupFault::Malformed { aggregator: sum.aggregator(), source };
                self.convict_of_sum(at, SumPart::Ciphertext, fault);
                from_posts = true;
            }
            if from_posts {
                let members = members(&self.statements, sum);
                let roots = sum_roots(self.params, members.iter().copied(), self.source)?;
                self.ciphertexts.absorb(&sum_ciphertexts(self.params, members, self.source)?);
                self.params.lattice().hvc.add_assign(&mut self.roots, &roots);
                (self.groups[at].root_known, self.groups[at].ciphertext_known) = (true, true);
            } else {
                self.params.lattice().hvc.add_assign(&mut self.roots, sum.root().root());
            }
        }
        Ok(())
    }

    fn confirm_root(&mut self, at: usize) -> Result<bool, RejectReason> {
        if self.groups[at].root_known {
            return Ok(false);
        }
        let sum = self.groups[at].sum;
        let roots = sum_roots(self.params, members(&self.statements, sum), self.source)?;
        self.groups[at].root_known = true;
        let changed = roots != *sum.root().root();
        if changed {
            let hvc = &self.params.lattice().hvc;
            hvc.sub_assign(&mut self.roots, sum.root().root());
            hvc.add_assign(&mut self.roots, &roots);
            let (aggregator, part) = (sum.aggregator(), SumPart::Root);
            self.convict_of_sum(at, part, GroupFault::WrongSum { aggregator, part });
            // Nothing else that it says is taken for true either.
            self.confirm_ciphertext(at)?;
        }
        Ok(changed)
    }

    /// Holds every group against the posts, as far as they are at hand. Returns whether the total has changed, and why the
    /// first of the groups that are left could not be added again.
    fn audit(&mut self) -> (bool, Option<RejectReason>) {
        let (mut changed, mut failed) = (false, None);
        for at in 0..self.groups.len() {
            for outcome in [self.confirm_root(at), self.confirm_ciphertext(at)] {
                match outcome {
                    Ok(differs) => changed |= differs,
                    Err(reason) => _ = failed.get_or_insert(reason),
                }
            }
        }
        (changed, failed)
    }

    fn confirm_ciphertext(&mut self, at: usize) -> Result<bool, RejectReason> {
        if self.groups[at].ciphertext_known {
            return Ok(false);
        }
        let sum = self.groups[at].sum;
        let ciphertexts = sum_ciphertexts(self.params, members(&self.statements, sum), self.source)?;
        self.groups[at].ciphertext_known = true;
        let changed = !is_sum(self.params, sum, &ciphertexts);
        if changed {
            self.ciphertexts.subtract(sum.ciphertext());
            self.ciphertexts.absorb(&ciphertexts);
            let (aggregator, part) = (sum.aggregator(), SumPart::Ciphertext);
            self.convict_of_sum(at, part, GroupFault::WrongSum { aggregator, part });
        }
        Ok(changed)
    }
}

impl<S: PostSource> Totals for GroupTotals<'_, '_, S> {
    fn roots(&self) -> &Poly<Hvc, Coeff> {
        &self.roots
    }

    fn posts(&self) -> PostsDigest {
        posts_digest(self.statements.iter().map(|(client, post)| (client, post.root())))
    }

    fn ciphertexts(&self) -> &CiphertextSum {
        &self.ciphertexts
    }

    fn commitments(&mut self) -> Option<Vec<Commitment>> {
        self.statements.keys().map(|client| self.source.commitment(*client)).collect()
    }

    /// Holds every group's root against the roots that its members signed. Returns whether the total has changed.
    fn confirm_roots(&mut self) -> Result<bool, RejectReason> {
        let mut changed = false;
        for at in 0..self.groups.len() {
            changed |= self.confirm_root(at)?;
        }
        Ok(changed)
    }

    /// Holds every group's ciphertext against the posts. Returns whether the total has changed.
    fn confirm_ciphertexts(&mut self) -> Result<bool, RejectReason> {
        let mut changed = false;
        for at in 0..self.groups.len() {
            changed |= self.confirm_ciphertext(at)?;
        }
        Ok(changed)
    }
}

/// The posts of a group whose claim was checked.
fn members<'p>(statements: &'p BTreeMap<ClientId, VerifiedPost>, sum: &GroupSum) -> Vec<&'p VerifiedPost> {
    sum.claim().members.keys().map(|client| &statements[client]).collect()
}

/// Recovers an aggregated round under a policy. The groups have to partition the canonical set; `source` is asked for
/// every statement, and for commitments and ciphertexts only when `audit` or a failure demands it.
///
/// # Errors
/// `BelowShareThreshold` early in a round; else `Rejected` with the reason: `GroupOverlap` or `GroupGap` if the groups do
/// not partition the set. The aggregators that lied stand beside it.
#[expect(clippy::too_many_arguments, reason = "each is its own thing; most are those of recover_direct")]
pub fn recover_aggregated(
    params: &ProtocolParams,
    session: &SessionId,
    epoch: &Epoch,
    policy: &SetPolicy,
    source: &mut impl PostSource,
    groups: &[GroupSum],
    entries: &[ServerBulletinEntry],
    audit: Audit<'_>,
) -> Result<RecoveredAggregated, NotRecovered> {
    let mut totals = GroupTotals {
        params,
        epoch,
        statements: BTreeMap::new(),
        source,
        groups: Vec::new(),
        roots: Poly::zero(),
        ciphertexts: CiphertextSum::new(params.kahe()),
        culprits: BTreeMap::new(),
        discarded: Vec::new(),
    };
    let outcome = run(&mut totals, session, policy, groups, entries, audit);
    let GroupTotals { culprits, discarded, .. } = totals;
    let aggregators = culprits.into_values().collect();
    match outcome {
        Ok(Delivered { opened: Opened { recovered, unjudged }, delivery, unaudited }) => {
            Ok(RecoveredAggregated { recovered, aggregators, discarded, unjudged, delivery, unaudited })
        }
        Err(reason) => Err(NotRecovered { aggregators, discarded, ..reason.into() }),
    }
}

fn run<'g>(
    totals: &mut GroupTotals<'g, '_, impl PostSource>,
    session: &SessionId,
    policy: &SetPolicy,
    sums: &'g [GroupSum],
    entries: &[ServerBulletinEntry],
    audit: Audit<'_>,
) -> Result<Delivered, RecipientError> {
    let (params, epoch, need) = (totals.params, totals.epoch, totals.params.threshold());
    let canonical = policy.admit(params).map_err(RecipientError::Rejected)?;
    if entries.len() < usize::from(need) {
        return Err(RecipientError::BelowShareThreshold { have: entries.len(), need });
    }
    check_epoch(params, epoch)?;
    for &client in canonical.clients() {
        let post =
            checked_statement(params, session, client, totals.source).map_err(RecipientError::Rejected)?;
        totals.statements.insert(client, post);
    }
    totals.admit(session, sums);
    totals.partition(canonical).map_err(RecipientError::Rejected)?;
    totals.add_up().map_err(RecipientError::Rejected)?;
    if audit == Audit::Always {
        totals.confirm_roots().map_err(RecipientError::Rejected)?;
        totals.confirm_ciphertexts().map_err(RecipientError::Rejected)?;
    }
    let place = Place { params, session, epoch, canonical };
    let mut opened = open_sum(place, totals, entries, &mut |_| {}).map_err(RecipientError::Rejected)?;
    let Audit::UnlessDelivered(channel) = audit else {
        return Ok(Delivered { opened, delivery: None, unaudited: None });
    };
    let mut delivery = opened.recovered.deliver(channel, session);
    let mut unaudited = None;
    if !delivers(&delivery, canonical) {
        let (changed, failed) = totals.audit();
        unaudited = failed;
        if changed {
            opened = open_sum(place, totals, entries, &mut |_| {}).map_err(RecipientError::Rejected)?;
            delivery = opened.recovered.deliver(channel, session);
        }
    }
    Ok(Delivered { opened, delivery: Some(delivery), unaudited })
}

/// An opened round, and what the channel made of it if it was asked.
struct Delivered {
    opened: Opened,
    delivery: Option<Result<Delivery, ChannelError>>,
    unaudited: Option<RejectReason>,
}

/// Whether the payload is whole: nothing is missing, and no more came out than clients can have sent.
fn delivers(delivery: &Result<Delivery, ChannelError>, canonical: &CanonicalSet) -> bool {
    matches!(delivery, Ok(Delivery { messages, missing: Missing::Nothing }) if messages.len() <= canonical.clients().len())
}
