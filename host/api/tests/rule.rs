//! What the leaves of a log make of a round: who is in, what counts, what is void and why.

use panetiere::bulletin::{GroupSum, PostStatement, SignedPost};
use panetiere::fault::{Attribution, Fault};
use panetiere::ids::{AggregatorId, ClientId, ServerId, SessionId, StatementDigest};
use panetiere::protocol::ServerRound;
use panetiere::sig::SigningKey;
use panetiere::wire::Encode;
use panetiere_api::leaf::{
    AbortReason, KeyRotation, Leaf, MAX_LEAF, PostsEnd, Revocation, RoundAbort, RoundClose, RoundId,
    RoundKind, RoundOpen, Signed,
};
use panetiere_api::participate::Participation;
use panetiere_api::round::{Event, NoBlobs, Out, Phase, Record, Session, Void};
use panetiere_api::testing::{MemoryLog, Scene, Sent, Stage, stream};
use std::collections::BTreeMap;
use std::sync::Arc;

const BYTES: usize = 40;

/// A record under test with the log it reads.
struct Book {
    scene: Scene,
    record: Record,
    log: MemoryLog,
}

impl Book {
    /// An epoch with its clients admitted.
    fn new(seed: u64) -> Self {
        Self::of(Scene::new(seed, 4, BYTES, |shape| shape.servers(4).threshold(3).faulty(1)))
    }

    fn of(scene: Scene) -> Self {
        let mut book = Self { record: scene.record(), log: MemoryLog::default(), scene };
        book.counts(&book.scene.epoch_leaf(book.scene.plan()));
        for client in book.scene.net.ids() {
            let event = book.counts(&book.scene.admission(client));
            assert_eq!(event, Event::Admitted { epoch: book.scene.net.epoch.digest(), client });
        }
        book
    }

    fn add(&mut self, leaf: &Leaf) -> Result<Event, Void> {
        let bytes = leaf.to_bytes();
        assert_eq!(Leaf::parse(&bytes).as_ref(), Ok(leaf), "one encoding a leaf");
        self.log.append_bytes(bytes.clone());
        self.record.apply(&bytes, &NoBlobs).expect("no blob is needed")
    }

    fn counts(&mut self, leaf: &Leaf) -> Event {
        self.add(leaf).unwrap_or_else(|void| panic!("{} is void: {void}", leaf.kind()))
    }

    #[track_caller]
    fn void(&mut self, leaf: &Leaf, code: &str) -> Void {
        let before = format!("{:?}", self.record);
        let void = self.add(leaf).expect_err(code);
        assert_eq!(void.code(), code, "{void}");
        // A void leaf moves nothing but the size.
        let size = self.record.size();
        let after =
            format!("{:?}", self.record).replace(&format!("size: {size}"), &format!("size: {}", size - 1));
        assert_eq!(before, after);
        void
    }

    fn open(&mut self) -> SessionId {
        let round = self.record.next_round();
        let index = self.log.head().size;
        let event = self.counts(&Leaf::RoundOpen(self.scene.open(round.0)));
        let session = self.log.session(index);
        assert_eq!(event, Event::RoundOpened { round, session });
        session
    }

    fn post(&mut self, session: &SessionId, client: u32) -> Sent {
        let sent = self.scene.send(session, ClientId(client), 0);
        self.counts(&Leaf::Post(sent.post.signed().clone()));
        sent
    }

    /// A round with everybody's post, checked without complaints.
    fn checked_round(&mut self) -> (SessionId, Vec<Sent>) {
        let session = self.open();
        let sent = (0..4).map(|client| self.post(&session, client)).collect();
        self.counts(&Leaf::PostsEnd(PostsEnd { session }));
        self.content(&session, 0..4);
        (session, sent)
    }

    /// These servers have nothing to complain about.
    fn content(&mut self, session: &SessionId, servers: std::ops::Range<u16>) {
        for server in servers {
            self.counts(&self.scene.checked(session, server, BTreeMap::new()));
        }
    }

    fn session(&self, session: &SessionId) -> &Session {
        self.record.session(session).expect("a recent session")
    }

    fn closing(&self, session: &SessionId) -> RoundClose {
        let session = self.session(session);
        let epoch = self.record.epoch_of(session.epoch()).expect("a recent epoch");
        session.closing(epoch).expect("may be closed")
    }

    fn close(&mut self, session: &SessionId) -> Vec<ClientId> {
        let close = self.closing(session);
        self.counts(&Leaf::RoundClose(close));
        self.session(session).closed().expect("closed").set.clients().to_vec()
    }
}

fn ids(clients: &[u32]) -> Vec<ClientId> {
    clients.iter().copied().map(ClientId).collect()
}

#[test]
fn an_honest_round_runs_to_the_servers_sums() {
    let mut book = Book::new(1);
    let (session, sent) = book.checked_round();
    assert_eq!(book.close(&session), ids(&[0, 1, 2, 3]));
    let canonical = book.session(&session).closed().unwrap().set.clone();
    for server in 0..4u16 {
        assert_eq!(book.session(&session).recoverable(), server >= 3, "{server} sums, 3 are needed");
        let net = &book.scene.net;
        let mut round =
            ServerRound::new(Arc::clone(&net.params), session, Arc::clone(net.server(ServerId(server))));
        for sent in &sent {
            let post = &book.session(&session).posts()[&sent.envelopes[0].client].1;
            round.receive(post, &sent.envelopes[usize::from(server)]).unwrap();
        }
        let sum = round.close(&canonical).unwrap();
        let leaf = Leaf::ServerSum(sum.signed().clone());
        let event = book.counts(&leaf);
        assert_eq!(event, Event::ServerSummed { round: RoundId(1), server: ServerId(server) });
        book.void(&leaf, "leaf_second_same");
    }
}

#[test]
fn the_set_does_not_depend_on_the_order_of_posts() {
    let digests: Vec<_> = [[0u32, 1, 2, 3], [3, 1, 0, 2]]
        .into_iter()
        .map(|order| {
            let mut book = Book::new(2);
            let session = book.open();
            order.into_iter().for_each(|client| drop(book.post(&session, client)));
            book.counts(&Leaf::PostsEnd(PostsEnd { session }));
            book.content(&session, 0..3);
            let close = book.closing(&session);
            (close.set, close.posts, close.clients)
        })
        .collect();
    assert_eq!(digests[0], digests[1]);
}

#[test]
fn the_first_valid_post_counts_and_others_are_void() {
    let mut book = Book::new(3);
    let session = book.open();
    let first = book.post(&session, 0);
    let again = Leaf::Post(first.post.signed().clone());
    book.void(&again, "leaf_second_same");
    let second = book.scene.send(&session, ClientId(0), 1);
    let void = book.void(&Leaf::Post(second.post.signed().clone()), "leaf_second_differs");
    assert_eq!(void.attribution(), Attribution::Client(ClientId(0)), "it signed both");
    // In another's name.
    let statement = book.scene.send(&session, ClientId(1), 0).post.signed().claim().clone();
    let forged = SignedPost::sign(statement, &book.scene.net.party(ClientId(2)).signing_key);
    let void = book.void(&Leaf::Post(forged), "statement_signature");
    assert_eq!(void.attribution(), Attribution::Nobody);
    // Another's commitment or ciphertext under one's own name.
    let own = book.scene.send(&session, ClientId(1), 0);
    let copy = |change: &dyn Fn(&mut PostStatement)| {
        let mut statement = own.post.signed().claim().clone();
        change(&mut statement);
        Leaf::Post(SignedPost::sign(statement, &book.scene.net.party(ClientId(1)).signing_key))
    };
    let copied = first.post.signed().claim();
    let root = copy(&|statement| statement.roots = copied.roots.clone());
    let ciphertext = copy(&|statement| statement.ciphertext = copied.ciphertext);
    book.void(&root, "leaf_copied_root");
    book.void(&ciphertext, "leaf_copied_ciphertext");
    // None of them took the place of the honest post.
    book.counts(&Leaf::Post(own.post.signed().clone()));
    let stranger = SigningKey::generate(&mut stream(3, "stranger", 0));
    let mut statement = copied.clone();
    statement.client = ClientId(9);
    book.void(&Leaf::Post(SignedPost::sign(statement, &stranger)), "leaf_unknown_client");
}

#[test]
fn leaves_count_only_where_they_belong() {
    let mut book = Book::new(4);
    let session = book.open();
    let late = book.scene.send(&session, ClientId(3), 0);
    (0..3).for_each(|client| drop(book.post(&session, client)));
    let clean = |book: &Book, server| book.scene.checked(&session, server, BTreeMap::new());
    book.void(&clean(&book, 0), "leaf_phase");
    let nothing = RoundClose { session, ..sample_close(&book) };
    book.void(&Leaf::RoundClose(nothing), "leaf_phase");
    book.counts(&Leaf::PostsEnd(PostsEnd { session }));
    book.void(&Leaf::PostsEnd(PostsEnd { session }), "leaf_phase");
    book.void(&Leaf::Post(late.post.signed().clone()), "leaf_phase");
    book.counts(&clean(&book, 0));
    book.void(&clean(&book, 0), "leaf_second_same");
    book.counts(&clean(&book, 1));
    book.void(&Leaf::RoundClose(nothing), "leaf_too_few_checked");
    book.counts(&clean(&book, 2));
    let right = book.closing(&session);
    let wrong = RoundClose { clients: right.clients + 1, ..right };
    let void = book.void(&Leaf::RoundClose(wrong), "leaf_bad_close");
    assert_eq!(void.attribution(), Attribution::Operator, "the log signed it");
    book.counts(&Leaf::RoundClose(right));
    book.void(&Leaf::RoundClose(right), "leaf_phase");
    let abort = Leaf::RoundAbort(RoundAbort { session, reason: AbortReason::Operator });
    book.void(&abort, "leaf_phase");
    book.void(&clean(&book, 3), "leaf_phase");
    assert!(book.session(&session).closed().is_some());
}

fn sample_close(book: &Book) -> RoundClose {
    let mut other = Book::new(5);
    let (session, _) = other.checked_round();
    assert_eq!(book.record.next_round(), RoundId(2));
    other.closing(&session)
}

#[test]
fn a_round_called_off_stays_so() {
    let mut book = Book::new(6);
    let (session, _) = book.checked_round();
    let close = book.closing(&session);
    book.counts(&Leaf::RoundAbort(RoundAbort { session, reason: AbortReason::Operator }));
    book.void(&Leaf::RoundClose(close), "leaf_phase");
    assert_eq!(*book.session(&session).phase(), Phase::Aborted(AbortReason::Operator));
    let next = book.open();
    assert_ne!(next, session);
}

#[test]
fn below_the_floor_nothing_closes() {
    let mut book =
        Book::of(Scene::new(7, 4, BYTES, |shape| shape.servers(4).threshold(3).faulty(1).min_clients(3)));
    let session = book.open();
    (0..2).for_each(|client| drop(book.post(&session, client)));
    book.counts(&Leaf::PostsEnd(PostsEnd { session }));
    book.content(&session, 0..4);
    let close = RoundClose { session, ..sample_close(&book) };
    book.void(&Leaf::RoundClose(close), "leaf_below_floor");
}

#[test]
fn rounds_open_in_order_and_only_under_their_own_parameters() {
    let mut book = Book::new(8);
    let open = |book: &Book, change: &dyn Fn(&mut RoundOpen)| {
        let mut open = book.scene.open(1);
        change(&mut open);
        Leaf::RoundOpen(open)
    };
    let other = Scene::new(9, 4, BYTES, |shape| shape.servers(5)).net;
    book.void(&open(&book, &|open| open.round = RoundId(2)), "leaf_round_order");
    book.void(&open(&book, &|open| open.epoch = other.epoch.digest()), "leaf_unknown_epoch");
    book.void(&open(&book, &|open| open.crs = *other.params.crs_digest()), "leaf_other_context");
    book.void(&open(&book, &|open| open.kind = RoundKind::Tickets), "leaf_round_kind");
    let first = book.open();
    book.void(&open(&book, &|_| {}), "leaf_round_order");
    let second = book.open();
    assert_ne!(first, second, "two leaves open two sessions");
    let stranger = Leaf::PostsEnd(PostsEnd { session: SessionId::derive("elsewhere", 0, &[0; 32]) });
    book.void(&stranger, "leaf_unknown_session");
}

/// A complaint about a client's post, justified or not.
fn complaint(sent: &Sent) -> BTreeMap<ClientId, StatementDigest> {
    let client = sent.envelopes[0].client;
    BTreeMap::from([(client, sent.post.signed().claim().digest())])
}

#[test]
fn an_answered_complaint_keeps_the_client_in_and_an_unanswered_one_does_not() {
    for answers in [true, false] {
        let mut book = Book::new(10);
        let session = book.open();
        let key = |client: u32| {
            let scalar = book.scene.net.party(ClientId(client)).signing_key.expose_scalar();
            Arc::new(SigningKey::from_scalar(&scalar).unwrap())
        };
        let epoch = book.record.epoch().unwrap().clone();
        let vector = panetiere::channel::cover(&book.scene.channel);
        let (mut client, outgoing) =
            Participation::new(&mut stream(10, "client", 0), book.session(&session), &epoch, key(0), &vector)
                .unwrap();
        book.counts(&Leaf::Post(outgoing.post.signed().clone()));
        (1..4).for_each(|client| drop(book.post(&session, client)));
        book.counts(&Leaf::PostsEnd(PostsEnd { session }));
        let statement = outgoing.post.signed().claim().digest();
        let about = BTreeMap::from([(ClientId(0), statement)]);
        book.counts(&book.scene.checked(&session, 2, about));
        client.observe(book.session(&session));
        assert_eq!(client.answers().count(), 0, "not before everybody has checked");
        for server in [0, 1, 3] {
            book.counts(&book.scene.checked(&session, server, BTreeMap::new()));
        }
        assert_eq!(book.session(&session).open_complaints().len(), 1);
        client.observe(book.session(&session));
        let answer: Vec<Leaf> =
            client.answers().map(|answer| Leaf::parse(&answer.to_bytes()).unwrap()).collect();
        assert_eq!(answer.len(), 1);
        if answers {
            book.counts(&answer[0]);
            book.void(&answer[0], "leaf_second_same");
            assert!(book.session(&session).open_complaints().is_empty());
            assert_eq!(book.close(&session), ids(&[0, 1, 2, 3]));
            book.void(&answer[0], "leaf_phase");
        } else {
            assert_eq!(book.close(&session), ids(&[1, 2, 3]));
            assert!(matches!(book.session(&session).out()[&ClientId(0)], Out::Complaint(_)));
        }
    }
}

#[test]
fn beyond_the_cap_a_client_is_out_and_silent() {
    // t = 3, f = 1: one complaint is answered, two are not.
    let mut book = Book::new(11);
    let session = book.open();
    let sent: Vec<Sent> = (0..4).map(|client| book.post(&session, client)).collect();
    book.counts(&Leaf::PostsEnd(PostsEnd { session }));
    for server in 0..4 {
        let complaints = if server < 2 { complaint(&sent[1]) } else { BTreeMap::new() };
        book.counts(&book.scene.checked(&session, server, complaints));
    }
    assert!(book.session(&session).open_complaints().is_empty(), "nothing to wait for");
    assert_eq!(book.close(&session), ids(&[0, 2, 3]));
}

#[test]
fn a_complaint_about_another_statement_is_none() {
    let mut book = Book::new(12);
    let session = book.open();
    (0..4).for_each(|client| drop(book.post(&session, client)));
    let other = book.scene.send(&session, ClientId(1), 7);
    book.counts(&Leaf::PostsEnd(PostsEnd { session }));
    book.counts(&book.scene.checked(&session, 0, complaint(&other)));
    book.content(&session, 1..4);
    assert_eq!(book.close(&session), ids(&[0, 1, 2, 3]));
}

#[test]
fn revocation_takes_a_client_out_until_the_close() {
    let mut book = Book::new(13);
    let revoke = |book: &Book, client: u32, key: &SigningKey| {
        let epoch = book.scene.net.epoch.digest();
        let revocation = Revocation { deployment: book.scene.deployment(), epoch, client: ClientId(client) };
        Leaf::Revocation(Signed::sign(revocation, key))
    };
    let (session, _) = book.checked_round();
    let outsider = SigningKey::generate(&mut stream(13, "outsider", 0));
    book.void(&revoke(&book, 1, &outsider), "leaf_signature");
    book.counts(&revoke(&book, 1, &book.scene.operator));
    book.void(&revoke(&book, 1, &book.scene.operator), "leaf_revoked");
    book.void(&revoke(&book, 7, &book.scene.operator), "leaf_unknown_client");
    assert_eq!(book.close(&session), ids(&[0, 2, 3]));
    assert_eq!(book.session(&session).out()[&ClientId(1)], Out::Revoked);
    let next = book.open();
    let post = book.scene.send(&next, ClientId(1), 0);
    book.void(&Leaf::Post(post.post.signed().clone()), "leaf_revoked");
    // Behind the close it changes nothing that is settled.
    book.counts(&revoke(&book, 2, &book.scene.operator));
    assert_eq!(book.session(&session).closed().unwrap().set.clients(), ids(&[0, 2, 3]));
    let admission = book.scene.admission(ClientId(1));
    book.void(&admission, "leaf_duplicate_key");
}

#[test]
fn epochs_follow_each_other() {
    let mut book = Book::new(14);
    let plan =
        |scene: &Scene, previous| panetiere_api::leaf::EpochPlan { previous, rounds: 1, ..scene.plan() };
    let second = Scene::new(14, 4, BYTES, |shape| shape.servers(4).threshold(3).faulty(1).epoch(1));
    let third = Scene::new(14, 4, BYTES, |shape| shape.servers(5).threshold(3).faulty(1).epoch(2));
    let first_digest = book.scene.net.epoch.digest();
    let old = book.open();
    book.void(&book.scene.epoch_leaf(plan(&third, Some(first_digest))), "leaf_epoch_chain");
    book.void(&book.scene.epoch_leaf(plan(&second, None)), "leaf_epoch_chain");
    let by_another =
        Leaf::Epoch(Box::new(Signed::sign(plan(&second, Some(first_digest)), &second.recipient)));
    book.void(&by_another, "leaf_signature");
    book.counts(&book.scene.epoch_leaf(plan(&second, Some(first_digest))));
    // A round of the epoch before goes on; new ones are opened in the new epoch only, and as many as it has.
    book.post(&old, 0);
    let stale = book.scene.open(2);
    book.void(&Leaf::RoundOpen(stale), "leaf_unknown_epoch");
    book.counts(&Leaf::RoundOpen(second.open(2)));
    book.void(&Leaf::RoundOpen(second.open(3)), "leaf_epoch_over");
    // Nobody of the epoch before is admitted to this one.
    assert_eq!(book.record.epoch().unwrap().members().count(), 0);
    book.counts(&second.admission(ClientId(3)));
    assert_eq!(
        book.record.epoch().unwrap().client_of(&second.net.party(ClientId(3)).signing_key.verifying_key()),
        Some(ClientId(0))
    );
    // Two epochs on, the first is gone.
    book.counts(&book.scene.epoch_leaf(plan(&third, Some(second.net.epoch.digest()))));
    let post = book.scene.send(&old, ClientId(1), 0);
    book.void(&Leaf::Post(post.post.signed().clone()), "leaf_unknown_epoch");
}

fn key_of(key: &SigningKey) -> SigningKey {
    SigningKey::from_scalar(&key.expose_scalar()).expect("a key's own scalar")
}

#[test]
fn the_operators_key_is_replaced_by_one_that_it_names() {
    let mut book = Book::new(15);
    let (old, new) = (key_of(&book.scene.operator), SigningKey::generate(&mut stream(15, "new", 0)));
    let id = book.scene.deployment();
    book.void(&Leaf::KeyRotation(KeyRotation::operator(id, &new, &new)), "leaf_signature");
    book.counts(&Leaf::KeyRotation(KeyRotation::operator(id, &old, &new)));
    let revocation = |key: &SigningKey| {
        let epoch = book.scene.net.epoch.digest();
        Leaf::Revocation(Signed::sign(Revocation { deployment: id, epoch, client: ClientId(0) }, key))
    };
    let (by_old, by_new) = (revocation(&old), revocation(&new));
    book.void(&by_old, "leaf_signature");
    book.counts(&by_new);
}

#[test]
fn what_is_no_leaf_is_void_and_changes_nothing() {
    let mut book = Book::new(16);
    for bytes in [vec![], vec![1], vec![0xff; 40], b"not a leaf".to_vec()] {
        let outcome = book.record.apply(&bytes, &NoBlobs).unwrap();
        assert_eq!(outcome.unwrap_err().code(), "leaf_malformed");
    }
    let size = book.record.size();
    let refused = book.record.propose(b"not a leaf", &NoBlobs).unwrap();
    assert!(refused.is_err());
    assert_eq!(book.record.size(), size, "what is only proposed takes no place");
}

#[test]
fn an_epoch_that_no_log_takes_is_refused_where_it_is_made() {
    let entry = |servers| {
        let scene = Scene::new(17, 2, BYTES, |shape| shape.servers(servers));
        scene.epoch_leaf(scene.plan()).to_entry()
    };
    assert!(entry(47).unwrap().len() <= MAX_LEAF);
    let refused = entry(48).unwrap_err();
    assert_eq!((refused.code(), refused.kind, refused.limit), ("leaf_too_long", "epoch", MAX_LEAF));
    assert!(refused.found > MAX_LEAF && refused.to_string().contains("at most 65535"), "{refused}");
}

#[test]
fn a_second_group_sum_names_its_aggregator_only_if_it_contradicts_the_first() {
    let mut stage = Stage::new(Scene::new(18, 4, BYTES, |shape| shape.servers(4).aggregators(1)));
    let (session, sent) = stage.closed();
    let clients = |range: std::ops::Range<u32>| range.map(ClientId);
    let first = stage.group_sum(&session, 0, clients(0..2), &sent);
    stage.add_group_sum(&first);
    let void = |stage: &mut Stage, sum: &GroupSum| {
        let void = stage.append(&Leaf::GroupSum(sum.signed().clone()), None).unwrap_err();
        (void.code(), void.attribution())
    };
    assert_eq!(void(&mut stage, &first), ("leaf_second_same", Attribution::Nobody));
    let larger = stage.group_sum(&session, 0, clients(0..3), &sent);
    assert_eq!(void(&mut stage, &larger), ("leaf_second_differs", Attribution::Nobody));
    let (params, key) = (&stage.scene.net.params, stage.scene.net.aggregators[0].signing_key());
    let mut ciphertext = first.ciphertext().to_vec();
    ciphertext[0] ^= 1;
    let lie = GroupSum::sign(first.claim().clone(), first.root().clone(), ciphertext, params, key);
    let named = Attribution::Aggregator(AggregatorId(0));
    assert_eq!(void(&mut stage, &lie), ("leaf_second_differs", named));
}
