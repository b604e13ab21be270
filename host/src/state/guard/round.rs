//! The guard under a real round: a server gives out no sum that the guard has not stored.

use super::super::testing::*;
use super::*;
use crate::local::{LocalRound, Route, Shape};
use crate::release::scene::{History, Leaf, origin};
use crate::release::{Closing, decide};
use crate::seed::Seed;
use crate::store::disk::memory::{Failure, MemoryDisk};
use chipmunk::params::P300;
use chipmunk::ring::backend;
use panetiere::bulletin::{CanonicalSet, Envelope, VerifiedPost, posts_digest};
use panetiere::channel::Encoding;
use panetiere::fault::Fault as _;
use panetiere::ids::{ClientId, ServerId};
use panetiere::pke::PrivateKey;
use panetiere::protocol::{ServerIdentity, ServerRound, ServerRoundError, run_client_round};
use panetiere::sig::SigningKey;

/// Three clients have posted; this is what server 0 sees.
struct Posted {
    local: LocalRound,
    history: History,
    inbox: Vec<(VerifiedPost, Envelope)>,
}

impl Posted {
    fn new() -> Self {
        let shape = Shape {
            clients: 3,
            servers: 3,
            threshold: 2,
            min_clients: 2,
            message_bytes: 16,
            encoding: Encoding::Sketch,
            route: Route::Direct,
            set: &P300,
            kernels: backend::scalar(),
        };
        let seed = Seed::from_bytes([3; 32]);
        let local = LocalRound::new(&seed, shape).unwrap();
        let history = History::new(&[Leaf::Open, Leaf::Post(0), Leaf::Post(1), Leaf::Post(2), Leaf::Close]);
        let session = history.session();
        let keys = local.epoch.envelope_keys();
        let post = |client: u32| {
            let mut rng = local.client_stream(&seed, client);
            let vector = local.vector(&mut rng, Some(b"hello")).unwrap();
            let signing = local.signing_key(ClientId(client)).unwrap();
            let id = ClientId(client);
            let round =
                run_client_round(&mut rng, &local.params, &session, id, &vector, &keys, signing).unwrap();
            let verified = round.post.head.signed.check(&local.params, &session, &signing.verifying_key());
            (verified.unwrap(), round.envelopes[0].clone())
        };
        let inbox = (0..3).map(post).collect();
        Self { history, inbox, local }
    }

    /// The server in a new process on this disk, with what has arrived.
    fn started(&self, disk: &MemoryDisk) -> (Arc<ReleaseGuard>, Arc<ServerIdentity>, ServerRound) {
        let guard = Arc::new(guard(disk));
        guard.import(guard.position().unwrap(), self.history.head(), &[]).unwrap();
        let keys = &self.local.servers[0];
        let identity = ServerIdentity::new(
            ServerId(0),
            PrivateKey::from_seed(&keys.envelope_key().expose_seed()),
            SigningKey::from_scalar(&keys.signing_key().expose_scalar()).unwrap(),
            &self.local.epoch,
            Arc::clone(&guard) as Arc<dyn AnswerLog>,
        );
        let identity = Arc::new(identity.unwrap());
        let params = Arc::clone(&self.local.params);
        let mut round = ServerRound::new(params, self.history.session(), Arc::clone(&identity));
        self.inbox.iter().for_each(|(post, envelope)| round.receive(post, envelope).unwrap());
        (guard, identity, round)
    }

    /// Leave to release over these clients, as the rule gives it to a server with this record.
    fn release(&self, clients: &[u32], record: Record) -> Option<Release> {
        let (origin, set) = (origin(), set(clients));
        let roots: BTreeMap<_, _> =
            self.inbox.iter().map(|(post, _)| (post.client(), *post.root())).collect();
        let roots = roots.iter().filter(|(client, _)| set.contains(**client));
        let summed = SummedSet { set: set.digest(), posts: posts_digest(roots), clients: set.count() };
        let mut closing: Closing<'_> = self.history.closing(&origin, 4, Ok(self.history.head()), record);
        closing.derived.summed = summed;
        closing.stated = (summed.set, summed.clients);
        decide(&closing).ok()
    }

    fn forgetful(&self, clients: &[u32]) -> Release {
        self.release(clients, Record { imported: Some(u64::MAX), answered: None }).unwrap()
    }
}

fn set(clients: &[u32]) -> CanonicalSet {
    CanonicalSet::new(clients.iter().copied().map(ClientId)).unwrap()
}

#[test]
fn a_server_sums_what_was_released_and_stored_and_nothing_else() {
    let posted = Posted::new();
    let session = posted.history.session();
    let (all, two) = (set(&[0, 1, 2]), set(&[0, 1]));
    let disk = MemoryDisk::new();

    let (guard, _, mut round) = posted.started(&disk);
    let not_released = AnswerLogError::NotReleased { kind: AnswerKind::ServerSum, session };
    assert_eq!(round.close(&all).unwrap_err(), ServerRoundError::Answers(not_released.clone()));
    guard.authorise(posted.forgetful(&[0, 1]));
    assert_eq!(round.close(&all).unwrap_err(), ServerRoundError::Answers(not_released));
    let record = guard.record(session).unwrap();
    guard.authorise(posted.release(&[0, 1, 2], record).unwrap());
    let entry = round.close(&all).unwrap();
    let slot = AnswerSlot { session, kind: AnswerKind::ServerSum };
    assert_eq!(guard.answered(slot).unwrap().unwrap(), entry.claim().to_bytes());
    drop((guard, round));

    // Another process, on what is durable. The rule refuses the smaller set; where it is cheated, the guard does.
    let disk = disk.crashed(crate::store::disk::memory::Crash::LoseAll);
    let (guard, _, mut round) = posted.started(&disk);
    let record = guard.record(session).unwrap();
    assert!(posted.release(&[0, 1], record).is_none());
    guard.authorise(posted.forgetful(&[0, 1]));
    let refused = ServerRoundError::AlreadyAnswered { answered: all.digest(), asked: two.digest() };
    assert_eq!(round.close(&two).unwrap_err(), refused);
    drop((guard, round));

    // The same answer again is the same bytes.
    let (guard, _, mut round) = posted.started(&disk);
    let record = guard.record(session).unwrap();
    guard.authorise(posted.release(&[0, 1, 2], record).unwrap());
    let params = &posted.local.params;
    assert_eq!(round.close(&all).unwrap().to_bytes(params), entry.to_bytes(params));
}

#[test]
fn where_the_store_fails_no_sum_comes_out() {
    let posted = Posted::new();
    let clean = MemoryDisk::new();
    let (guard, _, mut round) = posted.started(&clean);
    let before = clean.effects();
    guard.authorise(posted.forgetful(&[0, 1, 2]));
    round.close(&set(&[0, 1, 2])).unwrap();
    let effects = clean.effects() - before;
    assert!(effects > 2, "{effects}");
    for effect in 0..effects {
        for failure in [Failure::NotDone, Failure::Done] {
            let disk = MemoryDisk::new();
            let (guard, _, mut round) = posted.started(&disk);
            disk.fail(disk.effects() + effect, failure);
            guard.authorise(posted.forgetful(&[0, 1, 2]));
            let error = round.close(&set(&[0, 1, 2])).unwrap_err();
            assert_eq!(error.code(), "answers_failed", "effect {effect}");
            // Nor at a second attempt: the process has to end.
            guard.authorise(posted.forgetful(&[0, 1, 2]));
            assert_eq!(round.close(&set(&[0, 1, 2])).unwrap_err().code(), "answers_failed");
        }
    }
}

#[test]
fn complaints_are_signed_once_across_restarts() {
    let posted = Posted::new();
    let (session, params) = (posted.history.session(), &posted.local.params);
    let complaint = |place: usize| {
        let post = &posted.inbox[place].0;
        (post.client(), post.statement().digest())
    };
    let disk = MemoryDisk::new();
    let (_, identity, round) = posted.started(&disk);
    assert_eq!(identity.checked(params, &session), Ok(None));
    let first = identity.sign_checked(params, &session, BTreeMap::from([complaint(1)])).unwrap();
    drop((identity, round));
    let (_, identity, _) = posted.started(&disk);
    for other in
        [BTreeMap::new(), BTreeMap::from([complaint(0)]), BTreeMap::from([complaint(0), complaint(1)])]
    {
        let refused = identity.sign_checked(params, &session, other).unwrap_err();
        assert_eq!(refused, ServerRoundError::AlreadyChecked { server: ServerId(0) });
    }
    assert_eq!(identity.checked(params, &session), Ok(Some(first.clone())));
    assert_eq!(identity.sign_checked(params, &session, BTreeMap::from([complaint(1)])), Ok(first));
}
