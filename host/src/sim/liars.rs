//! Servers that lie: they cosign anything, complain about anybody and sum any set, each as often as it likes.

use super::server::identity;
use super::world::{BEGIN, Core, Msg, Node, Out};
use panetiere::bulletin::{CanonicalSet, Envelope, VerifiedPost};
use panetiere::ids::{ClientId, ServerId};
use panetiere::protocol::MemoryAnswers;
use panetiere::testing::ServerLie;
use panetiere::wire::Encode as _;
use panetiere_api::leaf::Leaf;
use panetiere_api::round::{Phase, Record, Session};
use std::collections::BTreeMap;
use std::sync::Arc;
use tlog::witness::{Request, check};

/// What comes to a lying server.
pub(super) fn receive(core: &mut Core, id: u16, msg: Msg) -> Out {
    let Msg::AskCosign(request) = msg else { return Vec::new() };
    // As if it had never cosigned anything.
    let fresh = Request::new(0, Vec::new(), request.note().clone()).unwrap();
    let Ok(accepted) = check(core.log(), None, &fresh) else { return Vec::new() };
    let size = accepted.head().size;
    let line = accepted.cosign(&core.scene.cosigner(id), BEGIN + core.now / 1000).unwrap();
    vec![(Node::Bulletin, Msg::Cosigned { size, line })]
}

/// What the lying servers say of a history.
pub(super) fn speak(core: &mut Core, record: &Record) -> Vec<(Node, Msg)> {
    let liars: Vec<u16> = core.plan.liars.iter().copied().collect();
    let mut said = Vec::new();
    for session in record.rounds() {
        for &liar in &liars {
            let id = ServerId(liar);
            if *session.phase() == Phase::Checking
                && !session.checked().contains_key(&id)
                && core.dice.chance(500)
            {
                said.push((Node::Server(liar), complain(core, session, liar)));
            }
            let early = core.dice.chance(30) && !session.posts().is_empty();
            let due = session.closed().is_some()
                && !session.server_sums().contains_key(&id)
                && core.dice.chance(500);
            if (early || due)
                && let Some(msg) = sum(core, session, liar)
            {
                said.push((Node::Server(liar), msg));
            }
        }
    }
    said
}

fn complain(core: &mut Core, session: &Session, liar: u16) -> Msg {
    let cunning = core.plan.lies.as_ref().is_some_and(|lies| lies.cunning);
    let most = if cunning { 0 } else { core.dice.pick(&[0, 300, 1000]) };
    let mut complaints = BTreeMap::new();
    for (&client, (_, post)) in session.posts() {
        if core.dice.chance(most) {
            complaints.insert(client, post.statement().digest());
        }
    }
    let signer = identity(core, liar, MemoryAnswers::fresh());
    let checked = signer.sign_checked(session.params(), session.id(), complaints).unwrap();
    Msg::Leaf(Arc::new(checked.to_bytes()))
}

fn sum(core: &mut Core, session: &Session, liar: u16) -> Option<Msg> {
    let mut inbox: Vec<(VerifiedPost, Envelope)> = Vec::new();
    for (_, post) in session.posts().values() {
        let key = (*session.id(), post.statement().digest());
        let party = core.ledger.posted[&key].party;
        let bad = core.plan.client_lies.get(&party).is_some_and(|lie| lie.spoils(liar));
        let (post, upload) = &core.uploads[&key];
        if !bad {
            inbox.push((post.clone(), upload.envelopes[usize::from(liar)].clone()));
        }
    }
    let all: Vec<ClientId> = inbox.iter().map(|(post, _)| post.client()).collect();
    let canonical = session.closed().map(|closed| closed.set.clone());
    let set = match canonical {
        Some(set) if core.dice.chance(700) => set,
        _ => {
            let some: Vec<ClientId> = all.iter().copied().filter(|_| core.dice.chance(700)).collect();
            CanonicalSet::new(some).ok()?
        }
    };
    if !set.clients().iter().all(|client| all.contains(client)) {
        return None;
    }
    let lie = match core.dice.below(4) {
        0 => ServerLie::Altered { part: core.dice.index(3) },
        1 if set.count() > 1 => ServerLie::Omits(core.dice.pick(set.clients())),
        _ => ServerLie::Over(set.clone()),
    };
    let mut round = core.scene.net.open(0);
    round.session = *session.id();
    round.inboxes[usize::from(liar)] = inbox;
    let entry = round.lying_sum(ServerId(liar), &set, &lie);
    let body = Arc::new(entry.to_bytes(session.params()));
    let leaf = Leaf::ServerSum(entry.signed().clone()).to_bytes();
    core.sums.entry((*session.id(), ServerId(liar))).or_default().push(body);
    Some(Msg::Leaf(Arc::new(leaf)))
}
