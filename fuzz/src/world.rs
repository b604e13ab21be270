//! Three small deployments with a round in each, made once: direct, with lanes, aggregated.

use panetiere::bulletin::{
    Answer, CanonicalSet, Checked, GroupSum, LaneBulletinEntry, ServerBulletinEntry, StatementContext,
};
use panetiere::channel::{ChannelParams, Encoding};
use panetiere::cs::FreshOpening;
use panetiere::ids::{AggregatorId, ClientId, ServerId, StatementDigest};
use panetiere::protocol::{
    ClientRound, LaneCode, LaneIdentity, LaneRound, MemoryAnswers, RsClientRound, Terms, unseal_opening,
};
use panetiere::sig::{SigningKey, VerifyingKey};
use panetiere::testing::{Net, deployment};
use panetiere::wire::{DecodeWith, Encode};
use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

/// Three servers, so that inclusion paths have both lengths.
pub static DIRECT: LazyLock<Net> =
    LazyLock::new(|| deployment(300).servers(3).threshold(2).clients(3).build());

/// The same through any two of three lanes.
pub static LANES: LazyLock<Net> =
    LazyLock::new(|| deployment(300).servers(3).threshold(2).clients(3).lanes(2, 3).build());

/// The same with two aggregators.
pub static AGGREGATED: LazyLock<Net> =
    LazyLock::new(|| deployment(300).servers(3).threshold(2).clients(3).aggregators(2).build());

/// What the clients send directly.
pub static SENT: LazyLock<Vec<ClientRound>> = LazyLock::new(|| {
    let round = DIRECT.open(0);
    DIRECT.ids().map(|client| round.client(client)).collect()
});

/// The servers' sums over all clients.
pub static SUMS: LazyLock<Vec<ServerBulletinEntry>> = LazyLock::new(|| DIRECT.posted(0).sums(&DIRECT.all()));

/// What the clients send through lanes.
pub static CODED: LazyLock<Vec<RsClientRound>> = LazyLock::new(|| {
    let round = LANES.open(0);
    LANES.ids().map(|client| round.rs_client(client)).collect()
});

/// The lanes' sums over all clients: for a check, and at the close.
pub static LANE_SUMS: LazyLock<Vec<[LaneBulletinEntry; 2]>> = LazyLock::new(|| {
    let (net, session) = (&*LANES, LANES.session(0));
    let sums = |lane: &Arc<LaneIdentity>| {
        let mut running = LaneRound::new(Arc::clone(&net.params), session, again(lane));
        for sent in &*CODED {
            let key = key(net, sent.client_id);
            let post = sent.post.signed.check(&net.params, &session, &key).expect("an honest statement");
            running.receive(&post, &sent.items[usize::from(lane.id().0)]).expect("an honest item");
        }
        [running.check_sum(&net.all()).expect("every item"), running.close(&net.all()).expect("the first")]
    };
    net.lanes.iter().map(sums).collect()
});

/// The servers' sums of the round with lanes.
pub static LANE_SERVER_SUMS: LazyLock<Vec<ServerBulletinEntry>> = LazyLock::new(|| {
    let (net, session) = (&*LANES, LANES.session(0));
    let mut round = net.open(0);
    for sent in &*CODED {
        let key = key(net, sent.client_id);
        let post = sent.post.signed.check(&net.params, &session, &key).expect("an honest statement");
        for (server, envelope) in (0..).map(ServerId).zip(&sent.envelopes) {
            round.deliver(server, &post, envelope).expect("an honest envelope");
        }
    }
    round.sums(&net.all())
});

/// A group of two, a group of one.
pub static GROUPS: LazyLock<Vec<GroupSum>> = LazyLock::new(|| {
    let round = AGGREGATED.posted(0);
    vec![round.group(AggregatorId(0), [0, 2]), round.group(AggregatorId(1), [1])]
});

/// A lane's identity that remembers no answer.
fn again(lane: &LaneIdentity) -> Arc<LaneIdentity> {
    let key = SigningKey::from_scalar(&lane.signing_key().expose_scalar()).expect("a key's own scalar");
    let identity = LaneIdentity::new(lane.id(), key, &LANES.epoch, MemoryAnswers::fresh());
    Arc::new(identity.expect("a lane of this epoch"))
}

pub fn key(net: &Net, client: ClientId) -> VerifyingKey {
    net.party(client).signing_key.verifying_key()
}

pub fn code() -> &'static LaneCode {
    LANES.params.lane_code().expect("parameters with lanes")
}

pub fn written(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::new();
    write(&mut out);
    out
}

pub fn context() -> StatementContext {
    StatementContext::new(&DIRECT.params, &DIRECT.session(0))
}

/// Client 0's opening for server 1.
pub fn opening() -> FreshOpening {
    let (net, sent) = (&*DIRECT, &SENT[0]);
    let key = key(net, ClientId(0));
    let post = sent.post.head.signed.check(&net.params, &net.session(0), &key).expect("an honest statement");
    let server = net.server(ServerId(1));
    let (opening, _) = unseal_opening(server, &net.params, &post, &sent.envelopes[1]).expect("honest");
    let bytes = opening.to_bytes(net.params.cs());
    FreshOpening::from_bytes_with(net.params.cs(), &bytes).expect("an encoder's bytes parse")
}

pub fn answer() -> Answer {
    let key = &DIRECT.clients[0].signing_key;
    Answer::sign(context(), ClientId(0), ServerId(1), &opening(), &DIRECT.params, key)
}

/// What a server says that complains about the first so many clients.
pub fn checked(server: u16, about: usize) -> Checked {
    let complaint = |sent: &ClientRound| (sent.client_id, sent.post.head.signed.claim().digest());
    let complaints: BTreeMap<ClientId, StatementDigest> = SENT[..about].iter().map(complaint).collect();
    let key = DIRECT.server(ServerId(server)).signing_key();
    Checked::sign(context(), ServerId(server), complaints, key)
}

pub fn terms() -> Vec<Vec<u8>> {
    let sketch = ChannelParams::for_messages(Encoding::Sketch, 2, 20).expect("a small channel");
    let slots = ChannelParams::for_messages(Encoding::Slots, 4, 4000).expect("a small channel");
    let large = deployment(300).servers(3).threshold(2).clients(2).channel(&slots).build();
    let slots = Terms::of(&large.params, &slots).expect("the channel fits");
    vec![
        Terms::of(&DIRECT.params, &sketch).expect("the channel fits").to_bytes(),
        Terms::of(&LANES.params, &sketch).expect("the channel fits").to_bytes(),
        slots.to_bytes(),
        slots.of_tickets().expect("four tickets").to_bytes(),
    ]
}

pub fn sets() -> Vec<Vec<u8>> {
    let set = |ids: Vec<u32>| CanonicalSet::new(ids.into_iter().map(ClientId)).expect("distinct").to_bytes();
    vec![set(vec![5]), set(vec![0, 1, u32::MAX]), set((0..40).collect())]
}
