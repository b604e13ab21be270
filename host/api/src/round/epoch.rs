//! One epoch as the log has it.

use super::void::Void;
use crate::leaf::{Credential, EpochPlan, RoundKind};
use crate::path::ClientKeyId;
use chipmunk::ring::backend::Kernels;
use panetiere::bulletin::Mode;
use panetiere::channel::Encoding;
use panetiere::ids::{ClientId, EpochDigest};
use panetiere::protocol::{ProtocolParams, Terms};
use panetiere::sig::VerifyingKey;
use std::collections::BTreeMap;
use std::sync::Arc;
use tlog::checkpoint::Log;

/// An admitted client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// The key that signs its posts.
    pub key: VerifyingKey,
    /// What it showed for itself.
    pub credential: Credential,
    /// Where its admission stands in the log.
    pub admitted_at: u64,
    /// Where it was revoked, if it was.
    pub revoked_at: Option<u64>,
}

/// An epoch: its plan, the parameters that follow from it, its clients.
#[derive(Clone, Debug)]
pub struct EpochState {
    plan: EpochPlan,
    digest: EpochDigest,
    messages: Arc<ProtocolParams>,
    tickets: Option<Arc<ProtocolParams>>,
    members: Vec<Member>,
    by_name: Arc<BTreeMap<ClientKeyId, ClientId>>,
    opened: u32,
}

impl EpochState {
    /// Checks a plan for itself: that its lists fit its terms, and its terms some round.
    pub(super) fn new(plan: EpochPlan, log: Log, kernels: &'static Kernels) -> Result<Self, Void> {
        if plan.rounds == 0 {
            return Err(Void::EpochWithoutRounds);
        }
        let digest = plan.document.digest();
        let (deployment, terms) = (*plan.document.deployment(), plan.terms);
        let parameters = |terms: Terms| Arc::new(terms.parameters(deployment, digest, kernels));
        let messages = parameters(terms);
        let tickets = match terms.channel().encoding() {
            Encoding::Slots => Some(parameters(terms.of_tickets().map_err(Void::EpochTerms)?)),
            _ => None,
        };
        let fits = |what, expected: usize, found: usize| {
            if expected == found { Ok(()) } else { Err(Void::EpochRoster { what, expected, found }) }
        };
        fits("servers", messages.servers().into(), plan.document.servers().len())?;
        let lanes = messages.lanes().map_or(0, |shape| usize::from(shape.lanes));
        fits("lanes", lanes, plan.document.lanes().len())?;
        let aggregators = plan.document.aggregators().len();
        let needed = usize::from(messages.mode() == Mode::Aggregated);
        if (aggregators == 0) != (needed == 0) {
            return Err(Void::EpochRoster { what: "aggregators", expected: needed, found: aggregators });
        }
        plan.witnesses.quorum(log).map_err(Void::EpochWitnesses)?;
        let (members, by_name) = Default::default();
        Ok(Self { plan, digest, messages, tickets, members, by_name, opened: 0 })
    }

    /// The plan.
    pub const fn plan(&self) -> &EpochPlan {
        &self.plan
    }

    /// Digest of the epoch's document.
    pub const fn digest(&self) -> &EpochDigest {
        &self.digest
    }

    /// The parameters of its rounds of a kind, if it has any.
    pub fn params(&self, kind: &RoundKind) -> Option<&Arc<ProtocolParams>> {
        match (kind, &self.tickets) {
            (RoundKind::Messages, None) | (RoundKind::Slots { .. }, Some(_)) => Some(&self.messages),
            (RoundKind::Tickets, tickets) => tickets.as_ref(),
            _ => None,
        }
    }

    /// An admitted client.
    pub fn member(&self, client: ClientId) -> Option<&Member> {
        self.members.get(usize::try_from(client.0).ok()?)
    }

    /// The admitted clients with their ids.
    pub fn members(&self) -> impl Iterator<Item = (ClientId, &Member)> {
        (0..=u32::MAX).map(ClientId).zip(&self.members)
    }

    /// Who has this key.
    pub fn client_of(&self, key: &VerifyingKey) -> Option<ClientId> {
        self.client_named(&ClientKeyId::of(key))
    }

    /// Who has a key of this name.
    pub fn client_named(&self, name: &ClientKeyId) -> Option<ClientId> {
        self.by_name.get(name).copied()
    }

    /// The admitted clients by the names of their keys: as they are now, to be held beside the record.
    pub fn names(&self) -> Arc<BTreeMap<ClientKeyId, ClientId>> {
        Arc::clone(&self.by_name)
    }

    /// Rounds opened so far.
    pub const fn opened(&self) -> u32 {
        self.opened
    }

    /// Rounds that may yet be opened.
    pub const fn rounds_left(&self) -> u32 {
        self.plan.rounds - self.opened
    }

    pub(super) fn admit(&mut self, member: Member) -> Result<ClientId, Void> {
        let name = ClientKeyId::of(&member.key);
        if let Some(client) = self.client_named(&name) {
            return Err(Void::DuplicateKey { client });
        }
        let client = ClientId(u32::try_from(self.members.len()).expect("a log has fewer admissions"));
        Arc::make_mut(&mut self.by_name).insert(name, client);
        self.members.push(member);
        Ok(client)
    }

    pub(super) fn revoke(&mut self, client: ClientId, at: u64) -> Result<(), Void> {
        let member = usize::try_from(client.0).ok().and_then(|place| self.members.get_mut(place));
        let member = member.ok_or(Void::UnknownClient { client })?;
        if member.revoked_at.is_some() {
            return Err(Void::Revoked { client });
        }
        member.revoked_at = Some(at);
        Ok(())
    }

    /// Counts one more round, if the epoch has one left.
    pub(super) fn open(&mut self) -> Result<(), Void> {
        if self.rounds_left() == 0 {
            return Err(Void::EpochOver { epoch: self.plan.document.number(), rounds: self.plan.rounds });
        }
        self.opened += 1;
        Ok(())
    }
}
