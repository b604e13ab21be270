//! The fold of the log: leaves in any order, twice, damaged, by the wrong people.
//!
//! Input: how many clients are admitted; then one step after the other, each a leaf made for the record as it is by then.
//! Step by step a model of the rule for the set is kept beside it, from the leaves that counted.

use crate::input::{Input, edit};
use crate::world::{AGGREGATED, GROUPS, LANE_SUMS, answer, checked, written};
use panetiere::bulletin::{Answer, Checked, PostStatement, SignedPost, StatementContext, SumClaim};
use panetiere::cs::FreshOpening;
use panetiere::evidence::Evidence;
use panetiere::ids::{ClientId, ServerId, SessionId, StatementDigest};
use panetiere::sig::SigningKey;
use panetiere::wire::{Decode, DecodeWith, Encode, ObjectType};
use panetiere_api::leaf::{
    AbortReason, Expulsion, KeyRotation, Leaf, PostsEnd, Revocation, RoundAbort, RoundClose, RoundId,
    RoundKind, RoundResult, Signed, Undelivered,
};
use panetiere_api::round::{Blobs, Closed, Event, Record, Session, Unavailable, Void};
use panetiere_api::testing::{Scene, stream};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;
use tlog::key::NoteSigner;

const CLIENTS: u32 = 4;
const SERVERS: u16 = 4;
/// What a client answers at most: t - 1 - f, with a threshold of three and one faulty server.
const ANSWERS: usize = 1;
const FLOOR: usize = 2;

struct World {
    scene: Scene,
    next_epoch: Scene,
    /// The operator, whom it may name as the next, and nobody in particular.
    operators: Vec<SigningKey>,
    /// What the clients sign but for the session, and what they can answer with.
    posts: Vec<(PostStatement, Vec<FreshOpening>)>,
    opening_bytes: Vec<Vec<Vec<u8>>>,
}

fn scene(epoch: u32) -> Scene {
    Scene::new(16, CLIENTS, 40, |shape| shape.servers(SERVERS).threshold(3).faulty(1).epoch(epoch))
}

static WORLD: LazyLock<World> = LazyLock::new(|| {
    let (scene, next_epoch) = (scene(0), scene(1));
    let session = scene.net.session(0);
    let mut posts = Vec::new();
    for client in scene.net.ids() {
        let sent = scene.send(&session, client, 0);
        posts.push((sent.post.signed().claim().clone(), sent.openings));
    }
    let bytes = |opening: &FreshOpening| opening.to_bytes(scene.net.params.cs()).to_vec();
    let opening_bytes = posts.iter().map(|(_, openings)| openings.iter().map(bytes).collect()).collect();
    let own = SigningKey::from_scalar(&scene.operator.expose_scalar()).expect("a key's own scalar");
    let other = |purpose| SigningKey::generate(&mut stream(16, purpose, 0));
    let operators = vec![own, other("next operator"), other("stranger")];
    World { scene, next_epoch, operators, posts, opening_bytes }
});

/// Evidence that was published so far.
#[derive(Default)]
struct Store(BTreeMap<[u8; 32], Vec<u8>>);

impl Blobs for Store {
    fn get(&self, digest: &[u8; 32], len: u64) -> Result<Vec<u8>, Unavailable> {
        let reason = "not published".to_owned();
        self.0.get(digest).cloned().ok_or(Unavailable { digest: *digest, len, reason })
    }
}

/// One round by the rule, from the leaves that counted.
#[derive(Clone, Default)]
struct Round {
    posts: BTreeMap<ClientId, PostStatement>,
    complaints: BTreeMap<ServerId, BTreeMap<ClientId, StatementDigest>>,
    /// Whether the first answer was a right opening.
    answers: BTreeMap<(ClientId, ServerId), bool>,
    expelled: BTreeSet<ClientId>,
    closed: Option<Closed>,
}

impl Round {
    /// Who is in the set.
    fn set(&self, revoked: &BTreeSet<ClientId>) -> Vec<ClientId> {
        let good = |client: &ClientId| {
            let statement = self.posts[client].digest();
            let about =
                |(_, complaints): &(&ServerId, &BTreeMap<_, _>)| complaints.get(client) == Some(&statement);
            let by: Vec<ServerId> = self.complaints.iter().filter(about).map(|(server, _)| *server).collect();
            by.len() <= ANSWERS
                && by.iter().all(|server| self.answers.get(&(*client, *server)) == Some(&true))
        };
        let known =
            self.posts.keys().filter(|client| !revoked.contains(client) && !self.expelled.contains(client));
        known.filter(|client| good(client)).copied().collect()
    }
}

#[derive(Default)]
struct Model {
    rounds: BTreeMap<SessionId, Round>,
    /// Of the first epoch, where all rounds are.
    revoked: BTreeSet<ClientId>,
    members: BTreeMap<ClientId, [u8; 33]>,
}

impl Model {
    fn counted(&mut self, entry: &[u8], event: &Event, record: &Record) {
        let first = WORLD.scene.net.epoch.digest();
        match (Leaf::parse(entry).expect("it counted"), event) {
            (Leaf::Admission(signed), Event::Admitted { epoch, client }) if *epoch == first => {
                let twice = self.members.insert(*client, signed.claim().key.to_sec1());
                assert!(twice.is_none(), "{client} was admitted before");
            }
            (_, Event::Revoked { epoch, client }) if *epoch == first => {
                assert!(self.members.contains_key(client) && self.revoked.insert(*client));
            }
            (_, Event::RoundOpened { session, .. }) => {
                assert!(self.rounds.insert(*session, Round::default()).is_none(), "one session, one leaf");
            }
            (Leaf::Post(post), _) => {
                let statement = post.claim().clone();
                assert!(self.members.contains_key(&statement.client), "a post of nobody");
                assert!(!self.revoked.contains(&statement.client), "a post of somebody revoked");
                let round = self.rounds.get_mut(&statement.session).expect("an open round");
                let copied = |other: &PostStatement| {
                    other.roots == statement.roots || other.ciphertext == statement.ciphertext
                };
                assert!(!round.posts.values().any(copied), "another's post under one's own name");
                assert!(round.posts.insert(statement.client, statement).is_none(), "a second post");
            }
            (Leaf::Checked(unread), _) => {
                let checked =
                    Checked::from_bytes_with(&WORLD.scene.net.params, &unread.bytes).expect("it counted");
                let round = self.rounds.get_mut(&unread.context.session).expect("an open round");
                assert!(round.complaints.insert(checked.server(), checked.complaints().clone()).is_none());
            }
            (Leaf::Answer(unread), _) => {
                let params = &WORLD.scene.net.params;
                let answer = Answer::from_bytes_with(params, &unread.bytes).expect("it counted");
                let round = self.rounds.get_mut(&unread.context.session).expect("an open round");
                let (client, server) = (answer.client(), answer.server());
                let at = usize::try_from(client.0).expect("few clients");
                let given = answer.opening(params).expect("it counted").to_bytes(params.cs());
                let right = round.posts[&client].roots == WORLD.posts[at].0.roots
                    && given[..] == WORLD.opening_bytes[at][usize::from(server.0)][..];
                assert!(round.answers.insert((client, server), right).is_none(), "a second answer");
            }
            (Leaf::Expulsion(leaf), _) => {
                let round = self.rounds.get_mut(&leaf.session).expect("an open round");
                assert!(round.posts.contains_key(&leaf.client) && round.expelled.insert(leaf.client));
            }
            (Leaf::RoundClose(close), _) => {
                let closed = record.session(&close.session).and_then(Session::closed).expect("just closed");
                let round = self.rounds.get_mut(&close.session).expect("an open round");
                assert!(round.complaints.len() >= 3, "fewer than the threshold have checked");
                assert_eq!(closed.set.clients(), round.set(&self.revoked), "another set");
                assert!(closed.set.clients().len() >= FLOOR);
                assert!(closed.set.digest() == close.set && closed.set.count() == close.clients);
                assert!(round.closed.replace(closed.clone()).is_none(), "closed twice");
            }
            _ => {}
        }
    }

    /// What is settled stays so.
    fn holds(&self, record: &Record) {
        for (session, round) in &self.rounds {
            let Some(known) = record.session(session) else { continue };
            assert_eq!(known.closed(), round.closed.as_ref(), "a settled set has changed");
            assert!(known.posts().keys().eq(round.posts.keys()));
            assert!(known.server_sums().is_empty() || round.closed.is_some(), "a sum before the close");
            assert!(known.result().is_none() || round.closed.is_some(), "a result before the close");
        }
    }
}

/// What can be seen of a record.
fn view(record: &Record) -> String {
    let epochs = record.epoch().map(|epoch| {
        let members: Vec<_> = epoch.members().collect();
        format!("{:?} {members:?} {}", epoch.digest(), epoch.rounds_left())
    });
    let rounds: Vec<String> = record
        .rounds()
        .map(|round| {
            let posts: Vec<_> =
                round.posts().iter().map(|(id, (key, post))| (id, key, post.statement().digest())).collect();
            let lists = (round.checked(), round.answers(), round.out(), round.server_sums());
            format!("{:?} {:?} {posts:?} {lists:?} {:?}", round.announcement(), round.phase(), round.result())
        })
        .collect();
    let log = record.log();
    format!("{} {} {:?} {epochs:?} {rounds:?}", record.size(), record.next_round(), log.keys())
}

/// A log whose first leaf is the epoch's, and what it brought about: its parameters take a while to make.
static BEGUN: LazyLock<(Record, Vec<u8>, Event)> = LazyLock::new(|| {
    let (mut record, entry) = (WORLD.scene.record(), WORLD.scene.epoch_leaf(WORLD.scene.plan()).to_bytes());
    let outcome = record.apply(&entry, &Store::default()).expect("no blob is needed");
    (record, entry, outcome.expect("an honest epoch"))
});

/// The log as it grows.
struct Book {
    /// Leaves that every reader has read before.
    before: usize,
    record: Record,
    model: Model,
    store: Store,
    entries: Vec<Vec<u8>>,
    outcomes: Vec<Result<Event, Void>>,
    /// What was seen at this size.
    seen: Option<(usize, String)>,
    look_at: usize,
}

impl Book {
    fn new(look_at: usize) -> Self {
        Self {
            before: 0,
            record: WORLD.scene.record(),
            model: Model::default(),
            store: Store::default(),
            entries: Vec::new(),
            outcomes: Vec::new(),
            seen: None,
            look_at,
        }
    }

    /// One that begins with the epoch.
    fn begun(look_at: usize) -> Self {
        let (record, entry, event) = BEGUN.clone();
        let (entries, outcomes) = (vec![entry], vec![Ok(event)]);
        Self { before: 1, record, entries, outcomes, ..Self::new(look_at) }
    }

    /// Appends an entry if it counts, or `anyway`.
    fn add(&mut self, entry: Vec<u8>, anyway: bool) -> bool {
        let mut applied = self.record.clone();
        let outcome = applied.apply(&entry, &self.store);
        let proposed = self.record.propose(&entry, &self.store);
        assert!(outcome == proposed, "what counts does not depend on who asks");
        let Ok(outcome) = outcome else { return false };
        match &outcome {
            Ok(event) => {
                self.model.counted(&entry, event, &self.record);
                assert_eq!(applied.size(), self.record.size());
            }
            Err(_) => {
                assert_eq!(applied.size(), self.record.size() + 1);
                if !anyway {
                    return false;
                }
                self.record = applied;
            }
        }
        let counted = outcome.is_ok();
        self.entries.push(entry);
        self.outcomes.push(outcome);
        self.model.holds(&self.record);
        if self.entries.len() == self.look_at {
            self.seen = Some((self.look_at, view(&self.record)));
        }
        counted
    }

    fn leaf(&mut self, leaf: &Leaf, anyway: bool) -> bool {
        self.add(leaf.to_bytes(), anyway)
    }

    /// A second reader finds the same, at the end and on the way.
    fn read_again(&self) {
        let mut reader = if self.before == 0 { WORLD.scene.record() } else { BEGUN.0.clone() };
        let leaves = self.entries.iter().zip(&self.outcomes);
        for (at, (entry, outcome)) in leaves.enumerate().skip(self.before) {
            if let Some((size, seen)) = &self.seen
                && *size == at
            {
                assert!(view(&reader) == *seen, "two readers of one prefix");
            }
            assert!(reader.apply(entry, &self.store).as_ref() == Ok(outcome), "two readers of one leaf");
        }
        assert!(view(&reader) == view(&self.record), "two readers of one log");
    }

    /// The session that a step is about: the latest, mostly.
    fn session(&self, input: &mut Input<'_>) -> SessionId {
        let sessions: Vec<SessionId> = self.record.rounds().rev().map(|round| *round.id()).collect();
        let elsewhere = || SessionId::derive("elsewhere", 0, &[0; 32]);
        let which = usize::from(input.u8() / 64);
        sessions.get(which).or(sessions.first()).copied().unwrap_or_else(elsewhere)
    }
}

fn client_key(client: usize) -> &'static SigningKey {
    &WORLD.scene.net.clients[client].signing_key
}

/// A client's statement in a session; variant 0 can be answered for.
fn statement(session: &SessionId, client: usize, variant: u8) -> PostStatement {
    let mut statement = WORLD.posts[client].0.clone();
    statement.session = *session;
    if variant > 0 {
        // Variants 6 and 7 share their root or ciphertext with whoever else uses them.
        let seed = |shared| if variant == shared { 99 } else { u8::try_from(client).expect("few clients") };
        statement.roots = vec![digest(variant ^ seed(6) << 3)];
        statement.ciphertext = digest(variant ^ seed(7) << 3);
    }
    statement
}

fn post(session: &SessionId, client: usize, variant: u8, signer: usize) -> SignedPost {
    SignedPost::sign(statement(session, client, variant), client_key(signer))
}

/// The leaf of a server's sum, put together by hand: its opening is not in it.
fn server_sum(claim: &SumClaim, opening: u8, key: &SigningKey) -> Vec<u8> {
    let mut signed = written(|out| ObjectType::ServerSum.encode_header(out));
    claim.encode(&mut signed);
    signed.extend([opening; 32]);
    let mut leaf = written(|out| ObjectType::ServerSumLeaf.encode_header(out));
    leaf.extend_from_slice(&signed[leaf.len()..]);
    key.sign("panetiere/server-sum/v1", &signed).encode(&mut leaf);
    leaf
}

fn sum_claim(session: &Session, server: ServerId) -> SumClaim {
    let context = StatementContext::new(&WORLD.scene.net.params, session.id());
    let closed = session.closed();
    SumClaim {
        deployment: context.deployment,
        epoch: context.epoch,
        session: *session.id(),
        crs: context.crs,
        server,
        set: closed.map_or(digest(1), |closed| closed.set.digest()),
        posts: closed.map_or(digest(1), |closed| closed.posts),
        clients: closed.map_or(1, |closed| closed.set.count()),
    }
}

fn result_of(session: &Session, messages: u32) -> RoundResult {
    let claim = sum_claim(session, ServerId(0));
    RoundResult {
        deployment: claim.deployment,
        epoch: claim.epoch,
        session: claim.session,
        crs: claim.crs,
        set: claim.set,
        posts: claim.posts,
        messages,
        root: [3; 32],
        undelivered: Undelivered::Nothing,
    }
}

fn revocation(client: ClientId, key: &SigningKey) -> Leaf {
    let (deployment, epoch) = (WORLD.scene.deployment(), WORLD.scene.net.epoch.digest());
    Leaf::Revocation(Signed::sign(Revocation { deployment, epoch, client }, key))
}

/// A complaint of a server about these clients' posts, as the record has them.
fn complaints(book: &Book, session: &SessionId, mask: u8) -> BTreeMap<ClientId, StatementDigest> {
    let Some(round) = book.record.session(session) else { return BTreeMap::new() };
    let posts = round.posts().iter().filter(|(client, _)| mask >> client.0 & 1 == 1);
    let about = |(client, (_, post)): (&ClientId, &(_, panetiere::bulletin::VerifiedPost))| {
        let right = post.statement().digest();
        (*client, if mask >> (client.0 + 4) & 1 == 1 { digest(9) } else { right })
    };
    posts.map(about).collect()
}

/// One step.
fn step(book: &mut Book, input: &mut Input<'_>) {
    let (world, kind) = (&*WORLD, input.u8());
    let (kind, anyway) = (kind % 18, kind >= 216);
    let (scene, params) = (&world.scene, &world.scene.net.params);
    let session = book.session(input);
    let round = book.record.session(&session).cloned();
    let client = input.below(4);
    let id = ClientId(u32::try_from(client).expect("few clients"));
    match kind {
        0 => {
            let mut open = scene.open(book.record.next_round().0);
            match input.below(8) {
                1 => open.round = RoundId(input.u8().into()),
                2 => open.epoch = world.next_epoch.net.epoch.digest(),
                3 => open.kind = RoundKind::Tickets,
                4 => open.collect_ms = input.u32(),
                5 => open.crs = *world.next_epoch.net.params.crs_digest(),
                _ => {}
            }
            book.leaf(&Leaf::RoundOpen(open), anyway);
        }
        1 | 2 => {
            let (variant, signer) = (input.u8() % 8, input.u8());
            let signer = if signer < 250 { client } else { usize::from(signer) % 4 };
            book.leaf(&Leaf::Post(post(&session, client, variant, signer)), anyway);
        }
        3 => {
            for client in 0..4 {
                book.leaf(&Leaf::Post(post(&session, client, 0, client)), false);
            }
        }
        4 => {
            book.leaf(&Leaf::PostsEnd(PostsEnd { session }), anyway);
        }
        5 | 6 => {
            let (server, signer, mask) = (input.below(4), input.u8(), input.u8());
            let signer = if signer < 250 { server } else { usize::from(signer) % 4 };
            let context = StatementContext::new(params, &session);
            let complaints = complaints(book, &session, mask);
            let id = ServerId(u16::try_from(server).expect("few servers"));
            let key = scene.net.servers[signer].signing_key();
            book.add(Checked::sign(context, id, complaints, key).to_bytes(), anyway);
        }
        7 => {
            for server in 0..SERVERS {
                let key = scene.net.servers[usize::from(server)].signing_key();
                let context = StatementContext::new(params, &session);
                book.add(Checked::sign(context, ServerId(server), BTreeMap::new(), key).to_bytes(), false);
            }
        }
        8 => {
            let (server, of, signer) = (input.below(4), input.below(8), input.u8());
            let opening = &world.posts[client].1[if of < 4 { server } else { of - 4 }];
            let context = StatementContext::new(params, &session);
            let server = ServerId(u16::try_from(server).expect("few servers"));
            let key = client_key(if signer < 250 { client } else { usize::from(signer) % 4 });
            book.add(Answer::sign(context, id, server, opening, params, key).to_bytes(), anyway);
        }
        9 => {
            let Some(round) = round else { return };
            let epoch = book.record.epoch_of(round.epoch()).cloned();
            let closing = epoch.and_then(|epoch| round.closing(&epoch).ok());
            let none = RoundClose { session, set: digest(1), posts: digest(1), clients: 2 };
            let mut close = closing.unwrap_or(none);
            match input.u8() {
                250 => close.clients += 1,
                251 => close.set = none.set,
                252 => close.posts = none.posts,
                _ => {}
            }
            book.leaf(&Leaf::RoundClose(close), anyway);
        }
        10 => {
            book.leaf(&Leaf::RoundAbort(RoundAbort { session, reason: AbortReason::Operator }), anyway);
        }
        11 => {
            let Some(round) = round else { return };
            let server = ServerId(u16::try_from(client).expect("few servers"));
            let mut claim = sum_claim(&round, server);
            let (opening, signer) = (input.u8() % 2, input.u8());
            match input.u8() {
                250 => claim.set = digest(1),
                251 => claim.epoch = world.next_epoch.net.epoch.digest(),
                252 => claim.server = ServerId(9),
                _ => {}
            }
            let signer = if signer < 250 { client } else { usize::from(signer) % 4 };
            book.add(server_sum(&claim, opening, scene.net.servers[signer].signing_key()), anyway);
        }
        12 => {
            let Some(round) = round else { return };
            let signer = if input.u8() < 250 { &scene.recipient } else { &scene.operator };
            let result = Signed::sign(result_of(&round, input.u8().into()), signer);
            book.leaf(&Leaf::Result(result), anyway);
        }
        13 => {
            let who = ClientId(if input.u8() < 250 { id.0 } else { 77 });
            book.leaf(&revocation(who, input.pick(&world.operators)), anyway);
        }
        14 => {
            let (present, new) = (input.below(3), input.below(4));
            let (deployment, present) = (scene.deployment(), &world.operators[present]);
            let rotation = match world.operators.get(new) {
                Some(new) => KeyRotation::operator(deployment, present, new),
                None => {
                    let name = panetiere_api::testing::ORIGIN.parse().expect("a name");
                    let key = NoteSigner::from_seed(name, &[input.u8() % 4; 32]);
                    KeyRotation::log(deployment, present, key.verifier().clone())
                }
            };
            book.leaf(&Leaf::KeyRotation(rotation), anyway);
        }
        15 => {
            let of = if input.u8() < 200 { scene } else { &world.next_epoch };
            book.leaf(&of.admission(id), anyway);
        }
        16 => {
            let mut plan = world.next_epoch.plan();
            plan.previous = (input.u8() < 250).then(|| scene.net.epoch.digest());
            plan.rounds = input.u8().into();
            book.leaf(&Leaf::Epoch(Box::new(Signed::sign(plan, input.pick(&world.operators)))), anyway);
        }
        _ => match input.below(3) {
            0 => {
                // Something that was there already, damaged or as it was.
                let entries = &book.entries;
                if entries.is_empty() {
                    return;
                }
                let (one, other) = (input.pick(entries).clone(), input.pick(entries).clone());
                let entry = edit(one, &other, input);
                book.add(entry, anyway);
            }
            1 => {
                let entry = input.bytes(255).to_vec();
                book.add(entry, anyway);
            }
            _ => {
                let posts =
                    [input.u8() % 8, input.u8() % 8].map(|variant| post(&session, client, variant, client));
                let (epoch, key) = (&scene.net.epoch, client_key(client).verifying_key());
                let evidence = Evidence::double_post(params, epoch, &key, [&posts[0], &posts[1]]).to_bytes();
                let named_by = hash(&evidence);
                let len = u64::try_from(evidence.len()).expect("a length fits 64 bits");
                if input.u8() < 250 {
                    book.store.0.insert(named_by, evidence);
                }
                let named = ClientId(if input.u8() < 250 { id.0 } else { (id.0 + 1) % CLIENTS });
                let leaf = Expulsion { session, client: named, evidence: named_by, len };
                let counted = book.leaf(&Leaf::Expulsion(leaf), anyway);
                assert!(
                    !counted || named == id && posts[0].claim() != posts[1].claim(),
                    "expelled for nothing"
                );
            }
        },
    }
}

/// A digest of nothing in particular.
fn digest<T: Decode>(byte: u8) -> T {
    T::from_bytes(&[byte; 32]).expect("any 32 bytes are a digest")
}

/// The digest that names a blob.
fn hash(bytes: &[u8]) -> [u8; 32] {
    *blake3::hash(bytes).as_bytes()
}

/// Makes what all inputs share, so that no input is charged for it.
pub fn init() {
    run(&[]);
}

/// One input.
pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let (admitted, look_at) = (input.u8(), usize::from(input.u8()));
    let scene = &WORLD.scene;
    let mut book = if admitted < 250 { Book::begun(look_at) } else { Book::new(look_at) };
    if book.before > 0 {
        for client in 0..(CLIENTS - u32::from(admitted / 64)) {
            assert!(book.leaf(&scene.admission(ClientId(client)), false));
        }
        assert!(book.leaf(&Leaf::RoundOpen(scene.open(1)), false));
    }
    for _ in 0..40 {
        if input.is_empty() {
            break;
        }
        step(&mut book, &mut input);
    }
    book.read_again();
}

/// One leaf of every kind, for their parser.
pub fn leaves() -> Vec<Vec<u8>> {
    let world = &*WORLD;
    let (scene, session) = (&world.scene, world.scene.net.session(0));
    let mut book = Book::new(0);
    book.leaf(&scene.epoch_leaf(scene.plan()), false);
    book.leaf(&scene.admission(ClientId(0)), false);
    book.leaf(&Leaf::RoundOpen(scene.open(1)), false);
    let round = book.record.round(RoundId(1)).expect("just opened").clone();
    let wrap = |object: ObjectType, claim: &dyn Fn(&mut Vec<u8>)| {
        let mut out = written(|out| object.encode_header(out));
        claim(&mut out);
        out
    };
    let claim = sum_claim(&round, ServerId(0));
    let close = RoundClose { session, set: claim.set, posts: claim.posts, clients: 3 };
    let key = scene.net.servers[0].signing_key();
    let mut open = scene.open(2);
    let schedule = digest(4);
    open.kind = RoundKind::Slots { tickets: RoundId(1), schedule };
    let mut all = book.entries;
    all.extend([
        Leaf::RoundOpen(open).to_bytes(),
        Leaf::Post(post(&session, 0, 0, 0)).to_bytes(),
        Leaf::PostsEnd(PostsEnd { session }).to_bytes(),
        checked(0, 2).to_bytes(),
        answer().to_bytes(),
        Leaf::Expulsion(Expulsion { session, client: ClientId(0), evidence: [1; 32], len: 9 }).to_bytes(),
        Leaf::RoundClose(close).to_bytes(),
        Leaf::RoundAbort(RoundAbort { session, reason: AbortReason::Operator }).to_bytes(),
        server_sum(&claim, 1, key),
        wrap(ObjectType::LaneSumLeaf, &|out| LANE_SUMS[0][1].signed().encode(out)),
        wrap(ObjectType::GroupSumLeaf, &|out| GROUPS[0].signed().encode(out)),
        Leaf::Result(Signed::sign(result_of(&round, 2), &scene.recipient)).to_bytes(),
        revocation(ClientId(0), &scene.operator).to_bytes(),
        Leaf::KeyRotation(KeyRotation::operator(
            scene.deployment(),
            &world.operators[0],
            &world.operators[1],
        ))
        .to_bytes(),
        Leaf::KeyRotation(KeyRotation::log(
            scene.deployment(),
            &world.operators[0],
            scene.log_key().verifier().clone(),
        ))
        .to_bytes(),
    ]);
    assert_eq!(AGGREGATED.aggregators.len(), 2);
    all
}

pub fn seeds() -> Vec<(String, Vec<u8>)> {
    // A step: kind, session, client, and what the kind takes.
    let posts = [3, 0, 0];
    let end = [4, 0, 0];
    let clean = [7, 0, 0];
    let close = [9, 0, 0, 0];
    let whole = [&[0, 8][..], &posts, &end, &clean, &close].concat();
    let sums: Vec<u8> = (0..4).flat_map(|server| [11, 0, server, 0, 0, 0]).collect();
    let result = [12, 0, 0, 0, 2];
    let complaint = [5, 0, 0, 1, 0, 1];
    let right = [8, 0, 0, 1, 0, 0];
    let wrong = [8, 0, 0, 1, 6, 0];
    let double = [17, 0, 0, 2, 0, 1, 0, 0];
    let checking = [&[0, 9][..], &posts, &end].concat();
    vec![
        ("round".to_owned(), [&whole[..], &sums, &result].concat()),
        ("two-rounds".to_owned(), [&whole[..], &sums, &[0, 0, 0, 0], &whole[2..], &sums].concat()),
        ("answered".to_owned(), [&checking[..], &complaint, &right, &clean, &close].concat()),
        ("badly-answered".to_owned(), [&checking[..], &complaint, &wrong, &clean, &close].concat()),
        ("unanswered".to_owned(), [&checking[..], &complaint, &clean, &close].concat()),
        ("expelled".to_owned(), [&checking[..], &double, &clean, &close].concat()),
        ("revoked".to_owned(), [&checking[..], &[13, 0, 2, 0, 0], &clean, &close].concat()),
        ("called-off".to_owned(), [&checking[..], &[10, 0, 0], &close].concat()),
        (
            "new-operator".to_owned(),
            [&[0, 9, 14, 0, 0, 0, 1, 13, 0, 1, 0, 0, 13, 0, 1, 0, 1][..], &posts].concat(),
        ),
        ("next-epoch".to_owned(), [&[0, 7, 16, 0, 0, 0, 1, 0, 0, 0, 0, 2][..], &whole[2..]].concat()),
        (
            "again".to_owned(),
            [&whole[..], &[17, 0, 0, 0, 7, 8, 0, 17, 0, 0, 0, 3, 3, 2, 1, 0, 0, 0, 1]].concat(),
        ),
        ("nothing".to_owned(), [&[255, 1][..], &posts, &end].concat()),
    ]
}
