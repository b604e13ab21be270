//! What the leaves of a round say, and who contradicted whom.

use super::{Audit, LeafLine, Outcome, Source, chain};
use crate::round::reading::{Found, Seen};
use crate::round::{Blobs, Out, Void};
use panetiere::evidence::Evidence;
use panetiere::fault::{Attribution, Fault};
use panetiere::ids::ClientId;
use panetiere::wire::Decode as _;
use panetiere_api::leaf::Leaf;
use std::collections::BTreeMap;

impl Audit {
    /// Every leaf about the round: those that count by kind, those that do not one by one.
    pub(super) fn round_leaves(&mut self, found: &Found) {
        let mut counted: BTreeMap<&'static str, u64> = BTreeMap::new();
        for seen in &found.leaves {
            let kind = Leaf::parse(&seen.entry).map_or("unknown", |leaf| leaf.kind());
            let void = seen.outcome.as_ref().err().map(|void| (void.code(), chain(void)));
            if void.is_none() {
                *counted.entry(kind).or_default() += 1;
            }
            self.leaves.push(LeafLine { index: seen.index, kind, void });
        }
        let epoch = &found.epoch;
        let (params, number) = (found.session.params(), epoch.plan().document.number());
        let revoked = epoch.members().filter(|(_, member)| member.revoked_at.is_some()).count();
        let text = format!(
            "epoch {number}: {} servers, {} of them open a round, {} may be faulty; {} mode; {} admissions count, {revoked} of them revoked",
            params.servers(),
            params.threshold(),
            params.faulty(),
            params.mode(),
            epoch.members().count(),
        );
        self.say(Outcome::Ok, Source::Log, "epoch", text);
        let (capacity, max) = (epoch.plan().terms.capacity(), params.max_clients());
        if capacity < max {
            let text = format!(
                "rounds of up to {max} clients carry up to {capacity} messages: the others have to send covers"
            );
            self.say(Outcome::Note, Source::Log, "capacity", text);
        }
        let kinds: Vec<String> = counted.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
        let text =
            format!("opened by leaf {}; leaves that count: {}", found.session.opened_at(), kinds.join(", "));
        self.say(Outcome::Ok, Source::Log, "round_leaves", text);
        for seen in &found.leaves {
            if let Err(void) = &seen.outcome {
                self.void(found, seen, void);
            }
        }
    }

    fn void(&mut self, found: &Found, seen: &Seen, void: &Void) {
        let leaf = Leaf::parse(&seen.entry).ok();
        let kind = leaf.as_ref().map_or("unknown", Leaf::kind);
        let text = format!("leaf {} ({kind}) counts for nothing: {}", seen.index, chain(void));
        let party = void.attribution();
        let evidence = leaf.and_then(|leaf| double(found, &leaf, void));
        let outcome = if party == Attribution::Nobody { Outcome::Note } else { Outcome::Fault };
        self.charge(outcome, Source::Log, void.code(), text, party, evidence);
    }

    /// Complaints, answers, who is out and why, and the set that follows.
    pub(super) fn set(&mut self, found: &Found, blobs: &dyn Blobs) {
        let session = &found.session;
        let complaints: usize = session.checked().values().map(|checked| checked.complaints().len()).sum();
        let text = format!(
            "{} servers have checked their envelopes: {complaints} complaints, {} answers",
            session.checked().len(),
            session.answers().len()
        );
        self.say(Outcome::Ok, Source::Log, "checked", text);
        for (client, out) in session.out() {
            let (code, why, party) = match out {
                Out::Complaint(exclusion) => (exclusion.code(), chain(exclusion), exclusion.attribution()),
                Out::Expelled => (
                    "client_expelled",
                    "the evidence in the log convicts it".to_owned(),
                    Attribution::Client(*client),
                ),
                Out::Revoked => {
                    ("client_revoked", "its admission was revoked".to_owned(), Attribution::Nobody)
                }
                _ => (
                    "client_out",
                    "for a reason that this program does not know".to_owned(),
                    Attribution::Nobody,
                ),
            };
            let outcome = if party == Attribution::Nobody { Outcome::Note } else { Outcome::Fault };
            let evidence = if *out == Out::Expelled { expelled(found, *client, blobs) } else { None };
            let text = format!("client {client} is out: {why}");
            self.charge(outcome, Source::Recomputed, code, text, party, evidence);
        }
        if let Some(closed) = session.closed() {
            let text = format!(
                "{} clients are in the set, as the close at leaf {} has it",
                closed.set.count(),
                closed.at
            );
            self.say(Outcome::Ok, Source::Recomputed, "set", text);
        }
    }
}

/// The evidence by which a client was expelled.
fn expelled(found: &Found, client: ClientId, blobs: &dyn Blobs) -> Option<Box<Evidence>> {
    let mut counted = found.leaves.iter().filter(|seen| seen.outcome.is_ok());
    let leaf = counted.find_map(|seen| match Leaf::parse(&seen.entry) {
        Ok(Leaf::Expulsion(leaf)) if leaf.client == client => Some(leaf),
        _ => None,
    })?;
    let bytes = blobs.get(&leaf.evidence, leaf.len).ok()?;
    Evidence::from_bytes(&bytes).ok().map(Box::new)
}

/// Evidence of a second statement that differs from the one that counts.
fn double(found: &Found, leaf: &Leaf, void: &Void) -> Option<Box<Evidence>> {
    let Void::SecondDiffers { who, .. } = void else { return None };
    let (session, document) = (&found.session, &found.epoch.plan().document);
    let params = session.params();
    let evidence = match leaf {
        Leaf::Post(second) => {
            let (key, first) = session.posts().get(&second.claim().client)?;
            Evidence::double_post(params, document, key, [first.signed(), second])
        }
        Leaf::ServerSum(second) => {
            let first = session.server_sums().get(&second.claim().server)?;
            Evidence::double_server_sum(params, document, [first, second])
        }
        Leaf::LaneSum(second) => {
            let first = session.lane_sums().get(&second.claim().lane)?;
            Evidence::double_lane_sum(params, document, [first, second])
        }
        Leaf::GroupSum(second) => {
            let first = session.group_sums().get(&second.claim().aggregator)?;
            Evidence::double_group_sum(params, document, [first, second])
        }
        _ => return None,
    };
    evidence.if_it_convicts(params, *who)
}
