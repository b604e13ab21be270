//! The clients as a state machine: what they read, when they post, what they answer.

use super::send::Parcel;
use crate::daemon::party::Reads;
use crate::role::Order;
use crate::round::conductor::Millis;
use crate::round::{Event, Phase, Record, Session};
use getrandom::SysRng;
use panetiere::bulletin::Mode;
use panetiere::channel;
use panetiere::ids::{AggregatorId, EpochDigest, ServerId};
use panetiere::sig::SigningKey;
use panetiere::wire::Encode as _;
use panetiere_api::follow::{FollowError, Follower};
use panetiere_api::leaf::{Admission, Credential, Leaf, RoundId, Signed};
use panetiere_api::media::MediaType;
use panetiere_api::participate::Participation;
use panetiere_api::path::ClientKeyId;
use panetiere_api::round::Blobs;
use rand_core::{Rng as _, UnwrapErr};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use tlog::note::Note;

/// One client's part in one round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Part {
    pub(super) round: RoundId,
    pub(super) member: u16,
}

/// What is to be done for what was read.
pub(super) enum Seen {
    /// Ask for an admission.
    Admit { name: ClientKeyId, leaf: Vec<u8> },
    /// Answer a complaint.
    Answer { round: RoundId, server: ServerId, name: ClientKeyId, leaf: Vec<u8> },
    /// A round that was posted in has no result and will have none.
    CalledOff { round: RoundId, reason: String },
    /// A round that was posted in has a result: fetch its messages.
    Result { round: RoundId },
}

struct Member {
    key: Arc<SigningKey>,
    name: ClientKeyId,
    /// The epoch that it has asked to be admitted to.
    asked: Option<EpochDigest>,
    rounds: BTreeMap<RoundId, Participation>,
}

/// Clients of one process, with one reader of the log.
pub(super) struct Clients {
    follower: Follower,
    members: Vec<Member>,
    /// When a client begins its post.
    due: BTreeMap<Part, Millis>,
    /// Rounds that were opened since anybody looked.
    opened: Vec<(RoundId, Millis)>,
    /// Rounds in which servers check, and until when they may.
    checking: BTreeMap<RoundId, Millis>,
    /// Rounds that were posted in and whose result is awaited.
    awaited: BTreeSet<RoundId>,
    /// Where the results of rounds stand.
    results: BTreeMap<RoundId, u64>,
    /// What came of such rounds since anybody looked.
    over: VecDeque<Seen>,
    /// Answers that were handed over, to be handed over again no sooner than at this time.
    answered: BTreeMap<(Part, ServerId), Millis>,
}

/// An answer that has not reached the log is handed over again after so long.
const ANSWER_AGAIN_MS: Millis = 1_000;

impl Clients {
    pub(super) fn new(record: Record, members: u16) -> Self {
        let member = |_| {
            let key = Arc::new(SigningKey::generate(&mut UnwrapErr(SysRng)));
            Member { name: ClientKeyId::of(&key.verifying_key()), key, asked: None, rounds: BTreeMap::new() }
        };
        Self {
            follower: Follower::new(record),
            members: (0..members).map(member).collect(),
            due: BTreeMap::new(),
            opened: Vec::new(),
            checking: BTreeMap::new(),
            awaited: BTreeSet::new(),
            results: BTreeMap::new(),
            over: VecDeque::new(),
            answered: BTreeMap::new(),
        }
    }

    pub(super) const fn size(&self) -> u64 {
        self.follower.size()
    }

    /// What follows from what was read. `share` is the part of the collection window in which posts are begun.
    pub(super) fn seen(&mut self, now: Millis, share: (u64, u64)) -> Vec<Seen> {
        self.draw(share);
        let mut seen: Vec<Seen> = self.over.drain(..).collect();
        let record = self.follower.record();
        if let Some(epoch) = record.epoch() {
            for member in &mut self.members {
                let known = epoch.client_of(&member.key.verifying_key()).is_some();
                if known || member.asked.as_ref() == Some(epoch.digest()) {
                    continue;
                }
                member.asked = Some(*epoch.digest());
                let admission = Admission {
                    deployment: record.anchor().deployment,
                    epoch: *epoch.digest(),
                    key: member.key.verifying_key(),
                    credential: Credential::Unattested,
                };
                let leaf = Leaf::Admission(Signed::sign(admission, &member.key)).to_bytes();
                seen.push(Seen::Admit { name: member.name, leaf });
            }
        }
        self.answers(now, &mut seen);
        seen
    }

    /// Draws for every client and new round when it posts: before anybody looks whether there is something to send.
    fn draw(&mut self, (part, whole): (u64, u64)) {
        let record = self.follower.record();
        for (round, at) in std::mem::take(&mut self.opened) {
            let Some(session) = record.round(round).filter(|session| *session.phase() == Phase::Collecting)
            else {
                continue;
            };
            let Some(epoch) = record.epoch_of(session.epoch()) else { continue };
            let window = u64::from(session.announcement().collect_ms) * part / whole;
            for (member, client) in (0..).zip(&self.members) {
                if epoch.client_of(&client.key.verifying_key()).is_some() {
                    let wait = UnwrapErr(SysRng).next_u64() % window.max(1);
                    self.due.insert(Part { round, member }, at + wait);
                }
            }
        }
    }

    fn answers(&mut self, now: Millis, seen: &mut Vec<Seen>) {
        let record = self.follower.record();
        for (member, client) in (0..).zip(&mut self.members) {
            client.rounds.retain(|round, _| record.round(*round).is_some());
            for (&round, participation) in &mut client.rounds {
                let Some(session) = record.round(round) else { continue };
                if *session.phase() != Phase::Checking {
                    continue;
                }
                participation.observe(session);
                if self.checking.get(&round).is_some_and(|until| now >= *until) {
                    participation.deadline();
                }
                for answer in participation.answers() {
                    let place = (Part { round, member }, answer.server());
                    if self.answered.get(&place).is_some_and(|at| now < at + ANSWER_AGAIN_MS) {
                        continue;
                    }
                    self.answered.insert(place, now);
                    let (server, leaf) = (answer.server(), answer.to_bytes());
                    seen.push(Seen::Answer { round, server, name: client.name, leaf });
                }
            }
        }
        self.answered.retain(|(part, _), _| record.round(part.round).is_some());
        self.checking.retain(|round, _| record.round(*round).is_some());
    }

    /// The parts whose time has come.
    pub(super) fn due(&mut self, now: Millis) -> Vec<Part> {
        let due: Vec<Part> = self.due.iter().filter(|(_, at)| **at <= now).map(|(part, _)| *part).collect();
        for part in &due {
            self.due.remove(part);
        }
        let record = self.follower.record();
        let open = |part: &Part| record.round(part.round).is_some_and(|s| *s.phase() == Phase::Collecting);
        due.into_iter().filter(open).collect()
    }

    /// Bytes of a payload in a round at most.
    pub(super) fn payload_len(&self, round: RoundId) -> Option<usize> {
        let record = self.follower.record();
        let epoch = record.epoch_of(record.round(round)?.epoch())?;
        Some(epoch.plan().terms.channel().max_message_bytes())
    }

    /// Makes a client's part in a round, with a payload or cover.
    pub(super) fn take_part(&mut self, part: Part, payload: Option<&[u8]>) -> Result<Parcel, String> {
        let record = self.follower.record();
        let gone = || format!("round {} is over", part.round);
        let session: &Session = record.round(part.round).ok_or_else(gone)?;
        let epoch = record.epoch_of(session.epoch()).ok_or_else(gone)?;
        let member = &mut self.members[usize::from(part.member)];
        let mut rng = UnwrapErr(SysRng);
        let channel = epoch.plan().terms.channel().with_kernels(record.kernels());
        let vector = match payload {
            Some(payload) => channel::encode_message(&mut rng, &channel, session.id(), payload)
                .map_err(|error| crate::chain::chain(&error))?,
            None => channel::cover(&channel),
        };
        let made = Participation::new(&mut rng, session, epoch, Arc::clone(&member.key), &vector);
        let (participation, outgoing) = made.map_err(|error| crate::chain::chain(&error))?;
        let params = session.params();
        let media = if params.mode() == Mode::Direct { MediaType::Post } else { MediaType::RsPost };
        let aggregators = u32::try_from(epoch.plan().document.aggregators().len()).unwrap_or(0);
        let client = outgoing.post.signed().claim().client;
        let whole = (params.mode() == Mode::Aggregated && aggregators > 0).then(|| {
            let to = u16::try_from(client.0 % aggregators).expect("below a u16");
            (AggregatorId(to), outgoing.post.to_bytes(params))
        });
        let parcel = Parcel {
            round: part.round,
            name: member.name,
            openings: outgoing.openings_to_bytes(),
            post: (media, outgoing.bulletin_post(params)),
            items: outgoing.items.iter().map(|item| item.to_bytes()).collect(),
            items_needed: params.lanes().map_or(0, |lanes| usize::from(lanes.needed)),
            whole,
        };
        member.rounds.insert(part.round, participation);
        self.awaited.insert(part.round);
        Ok(parcel)
    }

    /// Where the result of a round stands, if it is the one with this root and number of messages.
    pub(super) fn result_leaf(&self, round: RoundId, root: &[u8; 32], messages: u32) -> Option<u64> {
        let result = self.follower.record().round(round)?.result()?;
        (result.root == *root && result.messages == messages).then_some(())?;
        self.results.get(&round).copied()
    }

    /// A round's messages are to be fetched again.
    pub(super) fn fetch_again(&mut self, round: RoundId) {
        self.over.push_back(Seen::Result { round });
    }

    /// Admissions are to be asked for again.
    pub(super) fn admit_again(&mut self) {
        self.members.iter_mut().for_each(|member| member.asked = None);
    }

    fn follow_up(&mut self, now: Millis, index: u64, event: &Event) {
        match *event {
            Event::RoundOpened { round, .. } => self.opened.push((round, now)),
            Event::PostsEnded { round } => {
                let session = self.follower.record().round(round);
                let window = session.map_or(0, |session| session.announcement().check_ms);
                self.checking.insert(round, now + Millis::from(window));
            }
            Event::Resulted { round } => {
                self.results.insert(round, index);
                if self.awaited.remove(&round) {
                    self.over.push_back(Seen::Result { round });
                }
            }
            Event::RoundAborted { round, reason } if self.awaited.remove(&round) => {
                self.over.push_back(Seen::CalledOff { round, reason: reason.to_string() });
            }
            _ => {}
        }
    }
}

impl Reads for Clients {
    type Error = FollowError;

    fn record(&self) -> &Record {
        self.follower.record()
    }

    fn read_on(
        &mut self,
        now: Millis,
        note: &Note,
        entries: &[Vec<u8>],
        blobs: &dyn Blobs,
    ) -> Result<Vec<Order>, FollowError> {
        for applied in self.follower.advance(note, entries, blobs)? {
            if let Ok(event) = applied.outcome {
                self.follow_up(now, applied.index, &event);
            }
        }
        // A round that the record forgets without a result has had its time.
        let record = self.follower.record();
        let forgotten: Vec<RoundId> =
            self.awaited.iter().copied().filter(|round| record.round(*round).is_none()).collect();
        for round in forgotten {
            self.awaited.remove(&round);
            self.over.push_back(Seen::CalledOff { round, reason: "it was never summed".to_owned() });
        }
        self.results.retain(|round, _| record.round(*round).is_some());
        Ok(Vec::new())
    }
}
