//! The recipient: recovers whatever can be recovered, in every history that it is shown.

use super::client::{SLOTS, advance};
use super::world::{Beside, Core, Msg, Node, Out};
use crate::round::recover::{RecoverError, recover};
use panetiere::channel::Missing;
use panetiere::fault::Attribution;
use panetiere::ids::SessionId;
use panetiere_api::follow::Follower;
use panetiere_api::leaf::{Leaf, Signed};
use std::collections::BTreeMap;
use std::sync::Arc;

pub(super) struct Recipient {
    slots: Vec<Follower>,
    /// Sums with which a session was last tried, by history.
    tried: BTreeMap<(usize, SessionId), usize>,
    results: BTreeMap<(usize, SessionId), Arc<Vec<u8>>>,
}

impl Recipient {
    pub(super) fn new(core: &Core) -> Self {
        let slots = if core.plan.lies.is_some() { SLOTS } else { 1 };
        let slots = (0..slots).map(|_| Follower::new(core.record())).collect();
        Self { slots, tried: BTreeMap::new(), results: BTreeMap::new() }
    }

    pub(super) fn timer(&self, core: &Core) -> Out {
        let slots = if core.ledger.counts.contains_key("forks") { SLOTS } else { 1 };
        let read = |(slot, follower): (usize, &Follower)| {
            (Node::Bulletin, Msg::Read { slot, size: follower.size() })
        };
        self.slots.iter().take(slots).enumerate().map(read).collect()
    }

    pub(super) fn receive(&mut self, core: &mut Core, msg: Msg) -> Out {
        let Msg::View { slot, from, entries, note, .. } = msg else { return Vec::new() };
        if !advance(core, "recipient", &mut self.slots[slot], from, &entries, &note) {
            return Vec::new();
        }
        let record = self.slots[slot].record();
        let mut out = Vec::new();
        for session in record.rounds().filter(|session| session.result().is_none() && session.recoverable()) {
            let key = (slot, *session.id());
            if let Some(result) = self.results.get(&key) {
                out.push((Node::Bulletin, Msg::Leaf(Arc::clone(result))));
                continue;
            }
            let sums = session.server_sums().len();
            if self.tried.insert(key, sums) == Some(sums) {
                continue;
            }
            let epoch = record.epoch_of(session.epoch()).unwrap();
            let recovered = recover(session, epoch, &Beside { core, session });
            let closed = session.closed().unwrap();
            let clients = closed.set.clients().iter();
            let posts: Vec<_> =
                clients.map(|client| session.posts()[client].1.statement().digest()).collect();
            match recovered {
                Ok(recovery) => {
                    for named in &recovery.named {
                        core.named(record, named.party, &named.reason);
                    }
                    let messages = recovery.delivery.as_ref().ok().map(|delivery| &delivery.messages[..]);
                    let all =
                        recovery.delivery.as_ref().is_ok_and(|delivery| delivery.missing == Missing::Nothing);
                    core.ledger.recovered(*session.id(), &posts, messages, all);
                    core.say("recipient", &format!("recovers round {}", session.round()));
                    let leaf = Leaf::Result(Signed::sign(recovery.result(session), &core.scene.recipient));
                    let leaf = Arc::new(leaf.to_bytes());
                    self.results.insert(key, Arc::clone(&leaf));
                    out.push((Node::Bulletin, Msg::Leaf(leaf)));
                }
                Err(RecoverError::NotRecovered { named, source, .. }) => {
                    let honest =
                        session.server_sums().keys().filter(|id| !core.plan.lies_server(id.0)).count();
                    core.ledger.not_recovered(*session.id(), &posts, honest, &source.to_string());
                    for named in &named {
                        core.named(record, named.party, &named.reason);
                    }
                    if named.is_empty() {
                        let attribution = panetiere::fault::Fault::attribution(&*source);
                        if !matches!(attribution, Attribution::Nobody) {
                            core.named(record, attribution, &source.to_string());
                        }
                    }
                    core.say("recipient", &format!("does not recover round {}: {source}", session.round()));
                }
                Err(error) => core.say("recipient", &format!("does not recover: {error}")),
            }
        }
        out
    }
}
