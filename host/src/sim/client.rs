//! Clients, honest and lying.

use super::bulletin::WINDOWS;
use super::ledger::Posted;
use super::plan::ClientLie;
use super::world::{Core, Msg, Node, Out, Upload, head};
use crate::round::conductor::Millis;
use panetiere::bulletin::{Answer, ClientBulletinEntry, Envelope, SignedPost, StatementContext, env_root};
use panetiere::channel;
use panetiere::cs::FreshOpening;
use panetiere::fault::{Attribution, Fault as _};
use panetiere::ids::{ClientId, ServerId, SessionId};
use panetiere::pke::{self, EnvelopeContext};
use panetiere::protocol::run_client_round_with_openings;
use panetiere::sig::SigningKey;
use panetiere::wire::Encode as _;
use panetiere_api::follow::{FollowError, Follower};
use panetiere_api::participate::{Participation, Post};
use panetiere_api::round::{NoBlobs, Phase, Record, Session};
use panetiere_api::testing::stream;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Logs that a client follows at a time: what a lying bulletin shows on one address and on another.
pub(super) const SLOTS: usize = 2;

struct Part {
    participation: Option<Participation>,
    /// What a client without the guard answers with.
    openings: Vec<FreshOpening>,
    uploads: Vec<Arc<Upload>>,
    checking_since: Option<Millis>,
    /// Complaints of servers that a client without the guard has seen.
    complaining: BTreeSet<ServerId>,
    /// What such a client has answered.
    answers: BTreeMap<ServerId, Vec<u8>>,
    /// How many servers' statements were seen, by log.
    seen: BTreeMap<usize, usize>,
}

impl Part {
    const fn new() -> Self {
        Self {
            participation: None,
            openings: Vec::new(),
            uploads: Vec::new(),
            checking_since: None,
            complaining: BTreeSet::new(),
            answers: BTreeMap::new(),
            seen: BTreeMap::new(),
        }
    }
}

pub(super) struct Client {
    party: u32,
    key: Arc<SigningKey>,
    lie: Option<ClientLie>,
    slots: Vec<Option<Follower>>,
    parts: BTreeMap<SessionId, Part>,
}

impl Client {
    pub(super) fn new(party: u32, core: &Core) -> Self {
        let key = &core.scene.net.party(ClientId(party)).signing_key;
        let key = Arc::new(SigningKey::from_scalar(&key.expose_scalar()).unwrap());
        let lie = core.plan.client_lies.get(&party).copied();
        let slots = if core.plan.lies.is_some() && party.is_multiple_of(2) { SLOTS } else { 1 };
        let slots = (0..slots).map(|_| Some(Follower::new(core.record()))).collect();
        Self { party, key, lie, slots, parts: BTreeMap::new() }
    }

    pub(super) fn timer(&self, core: &Core) -> Out {
        let sizes =
            self.slots.iter().map(|follower| follower.as_ref().expect("only away while it is read").size());
        // Another address has something else to say only when there are two histories.
        let slots = if core.ledger.counts.contains_key("forks") { SLOTS } else { 1 };
        sizes.take(slots).enumerate().map(|(slot, size)| (Node::Bulletin, Msg::Read { slot, size })).collect()
    }

    pub(super) fn receive(&mut self, core: &mut Core, msg: Msg) -> Out {
        let Msg::View { slot, from, entries, note, .. } = msg else { return Vec::new() };
        let name = format!("client {}", self.party);
        let mut follower = self.slots[slot].take().expect("only away while it is read");
        let mut out = Vec::new();
        if advance(core, &name, &mut follower, from, &entries, &note) {
            self.act(core, slot, follower.record(), &mut out);
        }
        self.slots[slot] = Some(follower);
        out
    }

    fn act(&mut self, core: &mut Core, slot: usize, record: &Record, out: &mut Out) {
        for session in record.rounds() {
            if *session.phase() == Phase::Collecting && !self.parts.contains_key(session.id()) {
                let part = self.take_part(core, record, session);
                self.parts.insert(*session.id(), part);
            }
            if matches!(session.phase(), Phase::Collecting | Phase::Checking) {
                self.follow_up(core, slot, record, session, out);
            }
        }
    }

    fn take_part(&self, core: &mut Core, record: &Record, session: &Session) -> Part {
        let mut part = Part::new();
        let epoch = record.epoch_of(session.epoch()).unwrap();
        let id = *session.id();
        let seed = core.plan.seed;
        let context = |variant: u64| stream(seed, &format!("post {id} {variant}"), self.party.into());
        let encode = |core: &Core, variant: u64| {
            let payload = core.payload(&id, self.party, variant);
            let mut rng = context(variant);
            let vector = channel::encode_message(&mut rng, &core.scene.channel, &id, &payload).unwrap();
            (rng, payload, vector)
        };
        let Some(client) = epoch.client_of(&self.key.verifying_key()) else {
            return part;
        };
        let own = self.lie.is_some() || core.plan.without.cap;
        if !own {
            let (mut rng, payload, vector) = encode(core, 0);
            let made = Participation::new(&mut rng, session, epoch, Arc::clone(&self.key), &vector);
            let (participation, outgoing) = made.expect("an honest client");
            part.participation = Some(participation);
            let Post::Whole(entry) = outgoing.post else { unreachable!("a direct round") };
            part.uploads.push(self.upload(core, session, entry, outgoing.envelopes, payload, false));
        } else if self.lie != Some(ClientLie::Silent) {
            let two = matches!(self.lie, Some(ClientLie::TwoPosts | ClientLie::Second));
            let variants = if two { 2 } else { 1 };
            for variant in 0..variants {
                let (mut rng, payload, vector) = encode(core, variant);
                let keys = core.scene.net.epoch.envelope_keys();
                let params = session.params();
                let made =
                    run_client_round_with_openings(&mut rng, params, &id, client, &vector, &keys, &self.key);
                let (mut made, opened) = made.unwrap();
                let mut jams = false;
                match self.lie {
                    Some(ClientLie::Garbage) => {
                        let (other, _) = run_client_round_with_openings(
                            &mut rng, params, &id, client, &vector, &keys, &self.key,
                        )
                        .unwrap();
                        made.post.ciphertext = other.post.ciphertext;
                        let mut statement = made.post.head.signed.claim().clone();
                        statement.ciphertext = other.post.head.signed.claim().ciphertext;
                        made.post.head.signed = SignedPost::sign(statement, &self.key);
                        jams = true;
                    }
                    Some(lie @ (ClientLie::BadEnvelope { .. } | ClientLie::Late)) => {
                        let statement = made.post.head.signed.claim().clone();
                        let sealed = made.envelopes.iter().zip(&keys).map(|(envelope, (to, key))| {
                            let context = EnvelopeContext {
                                deployment: *params.deployment(),
                                epoch: *params.epoch(),
                                session: id,
                                client,
                                server: *to,
                                crs: *params.crs_digest(),
                                root: statement.roots[0],
                            };
                            let bytes = if lie.spoils(to.0) {
                                let garbage = vec![0xFF; opened[0].to_bytes(params.cs()).len()];
                                pke::seal(&mut rng, key, &context, &garbage)
                            } else {
                                envelope.sealed.clone()
                            };
                            (envelope.key, bytes)
                        });
                        let (envelopes, sealed) = env_root(client, sealed.collect::<Vec<_>>());
                        made.envelopes = sealed;
                        let signed = SignedPost::sign(
                            panetiere::bulletin::PostStatement { envelopes, ..statement },
                            &self.key,
                        );
                        made.post.head.signed = signed;
                    }
                    _ => {}
                }
                part.openings = opened;
                part.uploads.push(self.upload(core, session, made.post, made.envelopes, payload, jams));
            }
        }
        part
    }

    fn upload(
        &self,
        core: &mut Core,
        session: &Session,
        entry: ClientBulletinEntry,
        envelopes: Vec<Envelope>,
        payload: Vec<u8>,
        jams: bool,
    ) -> Arc<Upload> {
        let signed = &entry.head.signed;
        let post = signed.check(session.params(), session.id(), &self.key.verifying_key()).unwrap();
        let (statement, leaf) = (post.statement().digest(), signed.to_bytes());
        let body = entry.to_bytes(session.params());
        let upload = Arc::new(Upload { session: *session.id(), statement, leaf, body, envelopes });
        core.registered(&upload, post, Posted { party: self.party, payload, jams });
        upload
    }

    fn follow_up(&mut self, core: &mut Core, slot: usize, record: &Record, session: &Session, out: &mut Out) {
        let epoch = record.epoch_of(session.epoch()).unwrap();
        let id = *session.id();
        let (Some(part), Some(client)) =
            (self.parts.get_mut(&id), epoch.client_of(&self.key.verifying_key()))
        else {
            return;
        };
        let posted = session.posts().contains_key(&client);
        let mut uploads = match (session.phase(), self.lie) {
            (Phase::Checking, Some(ClientLie::Late)) if !posted => part.uploads.clone(),
            (Phase::Collecting, Some(ClientLie::Late)) => Vec::new(),
            (Phase::Collecting, Some(ClientLie::Second)) => part.uploads[usize::from(posted)..].to_vec(),
            (Phase::Collecting, _) if !posted => part.uploads.clone(),
            _ => Vec::new(),
        };
        if !uploads.is_empty() {
            uploads.truncate(if self.lie == Some(ClientLie::Second) { 1 } else { uploads.len() });
            core.dice.shuffle(&mut uploads);
            out.extend(uploads.into_iter().map(|upload| (Node::Bulletin, Msg::Post(upload))));
        }
        if *session.phase() == Phase::Checking {
            part.checking_since.get_or_insert(core.now);
        }
        let deadline =
            part.checking_since.is_some_and(|since| core.now >= since + Millis::from(WINDOWS.check_ms));
        let answered =
            |server| session.answers().iter().any(|a| (a.client(), a.server()) == (client, server));
        let mut answers: Vec<(ServerId, Vec<u8>)> = Vec::new();
        if let Some(participation) = &mut part.participation {
            // Seen once, a statement is known.
            let seen = part.seen.entry(slot).or_default();
            if *seen < session.checked().len() {
                *seen = session.checked().len();
                participation.observe(session);
            }
            if deadline {
                participation.deadline();
            }
            for answer in participation.answers() {
                answers.push((answer.server(), answer.to_bytes()));
            }
        } else if !matches!(self.lie, Some(ClientLie::BadEnvelope { answers: false, .. } | ClientLie::Silent))
        {
            for checked in session.checked().values() {
                if checked.complaints().contains_key(&client) {
                    part.complaining.insert(checked.server());
                }
            }
            let context = StatementContext::new(session.params(), &id);
            for &server in &part.complaining {
                if let Some(opening) = part.openings.get(usize::from(server.0)) {
                    let sign = || {
                        Answer::sign(context, client, server, opening, session.params(), &self.key).to_bytes()
                    };
                    answers.push((server, part.answers.entry(server).or_insert_with(sign).clone()));
                }
            }
        }
        for (server, bytes) in answers {
            core.ledger.revealed(id, self.party, server);
            if *session.phase() == Phase::Checking && !answered(server) {
                out.push((Node::Bulletin, Msg::Leaf(Arc::new(bytes))));
            }
        }
    }
}

/// Reads a log on. Whether there is anything to act upon.
pub(super) fn advance(
    core: &mut Core,
    name: &str,
    follower: &mut Follower,
    from: u64,
    entries: &[Vec<u8>],
    note: &tlog::note::Note,
) -> bool {
    let size = follower.size();
    let skip = usize::try_from(size.saturating_sub(from)).unwrap();
    if size < from || skip > entries.len() {
        return false;
    }
    if skip == entries.len() && head(note) == follower.head() {
        return true;
    }
    match follower.advance(note, &entries[skip..], &NoBlobs) {
        Ok(applied) => {
            if !applied.is_empty() {
                core.ledger.read(name, follower.head(), follower.record());
            }
            for leaf in applied {
                if let Err(void) = leaf.outcome {
                    core.named(follower.record(), void.attribution(), &void.to_string());
                }
            }
            true
        }
        Err(error) => {
            if matches!(error, FollowError::SplitView { .. }) {
                core.ledger.count("split views");
            }
            assert!(matches!(error.attribution(), Attribution::Nobody | Attribution::Operator));
            core.ledger.named(error.attribution(), None, &error.to_string());
            false
        }
    }
}
