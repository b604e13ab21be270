//! What must hold, whatever happens: kept by somebody who sees everything and is told by nobody in the world.

use super::plan::Plan;
use panetiere::fault::Attribution;
use panetiere::ids::{ClientId, PostsDigest, ServerId, SessionId, SetDigest, StatementDigest};
use panetiere_api::round::{Phase, Record};
use std::collections::{BTreeMap, BTreeSet};
use tlog::checkpoint::TreeHead;
use tlog::merkle::root;

/// What can be broken. docs/simulation.md has them by the same names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rule {
    /// I2: an honest server gives out one sum a session.
    OneSum,
    /// No two sets of a session have t sums each.
    OneSet,
    /// I3: readers of one prefix hold the same record.
    SameRecord,
    /// I4: no sum before a quorum has cosigned a checkpoint over the close.
    QuorumFirst,
    /// I6: an honest bulletin signs one history; an honest witness cosigns one.
    OneHistory,
    /// I9: nobody honest is named.
    Blame,
    /// Of no honest client's openings do t get out.
    Shares,
    /// I1: what comes out is what the set's clients put in.
    Payloads,
    /// What may be promised comes about.
    Liveness,
}

#[derive(Clone, Debug)]
pub(super) struct Violation {
    pub(super) rule: Rule,
    pub(super) text: String,
}

/// What a client has put into a post.
#[derive(Clone, Debug)]
pub(super) struct Posted {
    pub(super) party: u32,
    pub(super) payload: Vec<u8>,
    /// It spoils the sum.
    pub(super) jams: bool,
}

#[derive(Debug)]
pub(super) struct Ledger {
    plan: Plan,
    ignored: BTreeSet<Rule>,
    pub(super) violation: Option<Violation>,
    sums: BTreeMap<SessionId, BTreeMap<(SetDigest, PostsDigest), BTreeSet<ServerId>>>,
    cosigned: BTreeMap<(u64, [u8; 32]), BTreeSet<u16>>,
    /// The last head that each honest witness has cosigned.
    witnesses: BTreeMap<u16, (u64, [u8; 32])>,
    /// Every head that the log has signed, with the leaves under it.
    heads: BTreeMap<(u64, [u8; 32]), Vec<[u8; 32]>>,
    /// The longest history of an honest bulletin.
    history: Vec<[u8; 32]>,
    records: BTreeMap<(u64, [u8; 32]), String>,
    /// The party behind each client id, by epoch history: the position of its admission may differ between histories.
    pub(super) parties: BTreeMap<[u8; 33], u32>,
    pub(super) posted: BTreeMap<(SessionId, StatementDigest), Posted>,
    revealed: BTreeMap<(SessionId, u32), BTreeSet<ServerId>>,
    /// Servers whose past was lost or set back: what they said before they may contradict, and do not know it.
    pub(super) amnesic: BTreeSet<u16>,
    pub(super) counts: BTreeMap<&'static str, u64>,
}

impl Ledger {
    pub(super) fn new(plan: &Plan) -> Self {
        let without = plan.without;
        let mut ignored = BTreeSet::new();
        if without.quorum {
            ignored.insert(Rule::QuorumFirst);
        }
        if without.bound {
            // The promise is made for f faulty servers. What is left with more of them is the guard's.
            ignored.extend([Rule::OneSet, Rule::QuorumFirst]);
        }
        Self {
            plan: plan.clone(),
            ignored,
            violation: None,
            sums: BTreeMap::new(),
            cosigned: BTreeMap::new(),
            witnesses: BTreeMap::new(),
            heads: BTreeMap::new(),
            history: Vec::new(),
            records: BTreeMap::new(),
            parties: BTreeMap::new(),
            posted: BTreeMap::new(),
            revealed: BTreeMap::new(),
            amnesic: BTreeSet::new(),
            counts: BTreeMap::new(),
        }
    }

    pub(super) fn count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }

    pub(super) fn broken(&mut self, rule: Rule, text: String) {
        if !self.ignored.contains(&rule) && self.violation.is_none() {
            self.violation = Some(Violation { rule, text });
        }
    }

    /// The log has signed this head over these leaves, and the signature has left the bulletin.
    pub(super) fn signed(&mut self, head: TreeHead, leaves: &[[u8; 32]]) {
        let key = (head.size, head.root);
        if self.heads.contains_key(&key) {
            return;
        }
        assert_eq!(root(leaves), head.root, "what is signed is the tree of these leaves");
        if self.plan.lies.is_none() {
            let common = self.history.len().min(leaves.len());
            if self.history[..common] != leaves[..common] {
                self.broken(
                    Rule::OneHistory,
                    format!("the honest bulletin signed two histories at {}", head.size),
                );
            }
            if leaves.len() > self.history.len() {
                self.history = leaves.to_vec();
            }
        }
        self.heads.insert(key, leaves.to_vec());
    }

    /// Sizes that the honest witnesses have cosigned, by name.
    pub(super) fn witnessed(&self) -> Vec<(String, u64)> {
        self.witnesses.iter().map(|(server, (size, _))| (server.to_string(), *size)).collect()
    }

    /// An honest server has cosigned.
    pub(super) fn cosigned(&mut self, server: u16, head: TreeHead) {
        self.count("cosignatures");
        let key = (head.size, head.root);
        self.cosigned.entry(key).or_default().insert(server);
        if let Some(last) = self.witnesses.insert(server, key)
            && let (Some(before), Some(now)) = (self.heads.get(&last), self.heads.get(&key))
            && !now.starts_with(before)
        {
            self.broken(Rule::OneHistory, format!("witness {server} cosigned {last:?}, then {key:?}"));
        }
    }

    /// An honest server puts out its sum, under a close at leaf `close` and a checkpoint.
    pub(super) fn sum(
        &mut self,
        server: u16,
        session: SessionId,
        over: (SetDigest, PostsDigest),
        close: u64,
        under: TreeHead,
    ) {
        self.count("sums");
        let id = ServerId(server);
        let sums = self.sums.entry(session).or_default();
        sums.entry(over).or_default().insert(id);
        let own = sums.values().filter(|servers| servers.contains(&id)).count();
        let liars = usize::from(self.plan.faulty);
        let enough =
            |servers: &&BTreeSet<ServerId>| servers.len() + liars >= usize::from(self.plan.threshold);
        let sets = sums.values().filter(enough).count();
        if own > 1 {
            self.broken(Rule::OneSum, format!("server {server} put out {own} sums of session {session}"));
        }
        if sets > 1 {
            self.broken(
                Rule::OneSet,
                format!("{sets} sets of session {session} have t sums: {:?}", self.sums[&session]),
            );
        }
        let cosigned = self.cosigned.get(&(under.size, under.root)).map_or(0, BTreeSet::len);
        let liars = self.plan.liars.len();
        let found = cosigned + liars;
        if under.size <= close || found < self.plan.quorum() {
            let text = format!(
                "server {server} summed at leaf {close} under {} with {found} cosignatures",
                under.size
            );
            self.broken(Rule::QuorumFirst, text);
        }
    }

    /// A reader has read up to a head.
    pub(super) fn read(&mut self, reader: &str, head: TreeHead, record: &Record) {
        let found = fingerprint(record);
        let known = self.records.entry((head.size, head.root)).or_insert_with(|| found.clone());
        if *known != found {
            let text = format!("{reader} at {}: {found}, another reader: {known}", head.size);
            self.broken(Rule::SameRecord, text);
        }
    }

    /// Somebody was named.
    pub(super) fn named(&mut self, who: Attribution, party: Option<u32>, why: &str) {
        let guilty = match who {
            Attribution::Client(_) => party.is_some_and(|party| self.plan.client_lies.contains_key(&party)),
            Attribution::Server(server) => {
                self.plan.lies_server(server.0) || self.amnesic.contains(&server.0)
            }
            Attribution::Operator => self.plan.lies.is_some(),
            Attribution::Nobody => return,
            _ => false,
        };
        self.count("named");
        if !guilty {
            self.broken(Rule::Blame, format!("{who:?} (party {party:?}) is named: {why}"));
        }
    }

    /// An honest server complains about a client.
    pub(super) fn complained(&mut self, server: u16, party: Option<u32>) {
        self.count("complaints");
        self.named(Attribution::Client(ClientId(0)), party, &format!("server {server} complains"));
    }

    /// An honest client's opening was sent.
    pub(super) fn revealed(&mut self, session: SessionId, party: u32, server: ServerId) {
        if self.plan.client_lies.contains_key(&party) {
            return;
        }
        self.count("revealed");
        let revealed = self.revealed.entry((session, party)).or_default();
        revealed.insert(server);
        let known = revealed.len() + usize::from(self.plan.faulty);
        if known >= usize::from(self.plan.threshold) {
            let text = format!("party {party} revealed {revealed:?} in {session}, f is {}", self.plan.faulty);
            self.broken(Rule::Shares, text);
        }
    }

    /// Nothing came out of a session over these posts, though so many honest servers have summed.
    pub(super) fn not_recovered(
        &mut self,
        session: SessionId,
        posts: &[StatementDigest],
        honest: usize,
        why: &str,
    ) {
        self.count("not recovered");
        let jammed = posts.iter().any(|post| self.posted[&(session, *post)].jams);
        if !jammed && honest >= usize::from(self.plan.threshold) {
            self.broken(Rule::Payloads, format!("session {session}, {honest} honest sums: {why}"));
        }
    }

    /// What came out of a session over these posts.
    pub(super) fn recovered(
        &mut self,
        session: SessionId,
        posts: &[StatementDigest],
        messages: Option<&[Vec<u8>]>,
        all: bool,
    ) {
        self.count("recovered");
        let put_in: Vec<Posted> = posts.iter().map(|post| self.posted[&(session, *post)].clone()).collect();
        let mut expected: Vec<Vec<u8>> = put_in.iter().map(|post| post.payload.clone()).collect();
        expected.sort();
        if put_in.iter().any(|post| post.jams) {
            let foreign = messages.unwrap_or(&[]).iter().any(|message| !expected.contains(message));
            if foreign {
                self.broken(Rule::Payloads, format!("a foreign message in jammed session {session}"));
            }
        } else if messages != Some(&expected[..]) || !all {
            let text =
                format!("session {session}: put in {expected:?}, came out {messages:?}, complete: {all}");
            self.broken(Rule::Payloads, text);
        }
    }
}

/// What a record says, through its readers' eyes.
fn fingerprint(record: &Record) -> String {
    let mut text = format!("{} next {:?}", record.size(), record.next_round());
    if let Some(epoch) = record.epoch() {
        let revoked: Vec<_> = epoch.members().map(|(id, member)| (id.0, member.revoked_at)).collect();
        text.push_str(&format!(" members {revoked:?}"));
    }
    for round in record.rounds() {
        let posts: Vec<_> = round
            .posts()
            .iter()
            .map(|(id, (_, post))| (id.0, post.statement().digest().to_string()))
            .collect();
        let checked: Vec<_> =
            round.checked().iter().map(|(id, checked)| (id.0, checked.complaints().len())).collect();
        let answers: Vec<_> =
            round.answers().iter().map(|answer| (answer.client().0, answer.server().0)).collect();
        let phase = match round.phase() {
            Phase::Closed(closed) => {
                format!("closed at {} {} {}", closed.at, closed.set.digest(), closed.posts)
            }
            phase => format!("{phase:?}"),
        };
        let sums: Vec<_> = round.server_sums().keys().map(|id| id.0).collect();
        let result = round.result().map(|result| result.messages);
        text.push_str(&format!(
            " | {} {posts:?} {checked:?} {answers:?} {phase} {sums:?} {result:?}",
            round.id()
        ));
    }
    text
}
