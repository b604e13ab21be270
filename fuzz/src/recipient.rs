//! What a recipient makes of sums, some of whose authors lie.
//!
//! Input: which kind of round; what each party publishes: nothing, its honest sum, one that is damaged on the way, one that
//! it changed and signed, or both; then the order.

use crate::input::{Input, edit};
use crate::world::{
    AGGREGATED, CODED, DIRECT, GROUPS, LANE_SERVER_SUMS, LANE_SUMS, LANES, SENT, SUMS, code, key,
};
use chipmunk::ring::backend::Simd;
use panetiere::bulletin::{
    CanonicalSet, GroupSum, LaneBulletinEntry, PostHead, RsClientBulletinEntry, ServerBulletinEntry,
};
use panetiere::evidence::Evidence;
use panetiere::fault::Attribution;
use panetiere::ids::{AggregatorId, ClientId, NodeId};
use panetiere::plaintext::PlainPoly;
use panetiere::protocol::{
    Audit, Culprit, LaneCulprit, NotRecovered, PostSum, RecipientError, Recovered, RejectReason,
    aggregate_and_decrypt_rs, decrypt_aggregate,
};
use panetiere::sig::VerifyingKey;
use panetiere::testing::{Net, Round};
use panetiere::wire::DecodeWith;
use std::sync::LazyLock;

static EXPECTED: LazyLock<Vec<PlainPoly>> = LazyLock::new(|| DIRECT.expected(&DIRECT.all()));
static EXPECTED_LANES: LazyLock<Vec<PlainPoly>> = LazyLock::new(|| LANES.expected(&LANES.all()));
static EXPECTED_GROUPS: LazyLock<Vec<PlainPoly>> = LazyLock::new(|| AGGREGATED.expected(&AGGREGATED.all()));
static DIRECT_ROUND: LazyLock<Round<'static>> = LazyLock::new(|| DIRECT.posted(0));
static GROUP_ROUND: LazyLock<Round<'static>> = LazyLock::new(|| AGGREGATED.posted(0));
static GROUP_SERVER_SUMS: LazyLock<Vec<ServerBulletinEntry>> =
    LazyLock::new(|| AGGREGATED.posted(0).sums(&AGGREGATED.all()));

/// What is published for a round, who of the authors is honest and there, and who signed something else.
struct Published<T> {
    entries: Vec<T>,
    honest: usize,
    liars: Vec<usize>,
}

/// `parse` reads an edited sum, `sign` signs what it says by the author at this place.
fn publish<T: Clone + PartialEq>(
    sums: &[T],
    input: &mut Input<'_>,
    write: impl Fn(&T) -> Vec<u8>,
    parse: impl Fn(&[u8]) -> Option<T>,
    sign: impl Fn(&T, usize) -> T,
) -> Published<T> {
    let mut published = Published { entries: Vec::new(), honest: 0, liars: Vec::new() };
    for (at, honest) in sums.iter().enumerate() {
        let kind = input.u8() % 8;
        let mut altered = || {
            let other = &sums[input.below(sums.len())];
            parse(&edit(write(honest), &write(other), input))
        };
        let lie = match kind {
            4..=7 => altered(),
            _ => None,
        };
        match (kind, lie) {
            (0, _) => {}
            // Damaged on the way; the honest one arrives too, or does not.
            (4, Some(lie)) => published.entries.push(lie),
            (5, Some(lie)) => {
                published.entries.extend([lie, honest.clone()]);
                published.honest += 1;
            }
            (6 | 7, Some(lie)) => {
                let lie = sign(&lie, at);
                published.entries.push(lie);
                published.liars.push(at);
                if kind == 7 {
                    published.entries.push(honest.clone());
                }
            }
            _ => {
                published.entries.push(honest.clone());
                published.honest += 1;
            }
        }
    }
    if input.u8() % 2 == 1 {
        published.entries.reverse();
    }
    published
}

fn servers(net: &Net, sums: &[ServerBulletinEntry], input: &mut Input<'_>) -> Published<ServerBulletinEntry> {
    publish(
        sums,
        input,
        |sum| sum.to_bytes(&net.params),
        |bytes| ServerBulletinEntry::from_bytes_with(&net.params, bytes).ok(),
        |sum, at| {
            let key = net.servers[at].signing_key();
            ServerBulletinEntry::sign(*sum.claim(), sum.opening().clone(), &net.params, key)
        },
    )
}

/// Evidence that a recipient makes convicts the liar before everybody.
fn convicts(evidence: Option<&Evidence>, party: Attribution) {
    if let Some(evidence) = evidence {
        let verdict = evidence.verify(Simd::under_test().kernels()).expect("made by the recipient");
        assert_eq!(verdict.convicted(), party);
    }
}

/// Whether evidence is looked at too, which takes a while.
#[derive(Clone, Copy)]
struct Thorough(bool);

fn named(culprits: &[Culprit], liars: &[usize], thorough: Thorough) {
    for Culprit { server, evidence, fault } in culprits {
        assert!(liars.contains(&server.0.into()), "server {server} is honest: {fault}");
        if thorough.0 {
            convicts(evidence.as_deref(), Attribution::Server(*server));
        }
    }
}

/// Whom a refusal names.
fn named_in(reason: &RecipientError, liars: &[usize], thorough: Thorough) {
    match reason {
        RecipientError::Rejected(
            RejectReason::SharesExhausted { culprits, .. } | RejectReason::WithFaults { culprits, .. },
        ) => named(culprits, liars, thorough),
        _ => {}
    }
}

fn right(recovered: &Recovered, expected: &[PlainPoly], liars: &[usize], thorough: Thorough) {
    assert!(recovered.plaintext == expected, "a wrong plaintext");
    named(&recovered.culprits, liars, thorough);
}

fn direct(input: &mut Input<'_>, thorough: Thorough) {
    let Published { entries, honest, liars } = servers(&DIRECT, &SUMS, input);
    match DIRECT_ROUND.recover(&DIRECT.all(), &entries) {
        Ok(recovered) => right(&recovered, &EXPECTED, &liars, thorough),
        Err(reason) => {
            assert!(honest < usize::from(DIRECT.params.threshold()), "{honest} honest servers: {reason:?}");
            named_in(&reason, &liars, thorough);
        }
    }
}

fn coded(client: ClientId) -> Option<(VerifyingKey, RsClientBulletinEntry)> {
    let sent = CODED.iter().find(|sent| sent.client_id == client)?;
    Some((key(&LANES, client), sent.post.clone()))
}

fn lanes(input: &mut Input<'_>, thorough: Thorough) {
    let sums: Vec<LaneBulletinEntry> = LANE_SUMS.iter().map(|[_, close]| close.clone()).collect();
    let lanes = publish(
        &sums,
        input,
        |sum| sum.to_bytes(code()),
        |bytes| LaneBulletinEntry::from_bytes_with(&LANES.params, bytes).ok(),
        |sum, at| {
            let key = LANES.lanes[at].signing_key();
            LaneBulletinEntry::sign(*sum.claim(), sum.opening().clone(), code(), key)
        },
    );
    let servers = servers(&LANES, &LANE_SERVER_SUMS, input);
    let lied = |culprits: &[LaneCulprit]| {
        for LaneCulprit { lane: NodeId(lane), evidence, fault } in culprits {
            assert!(lanes.liars.contains(&usize::from(*lane)), "lane {lane} is honest: {fault}");
            if thorough.0 {
                convicts(evidence.as_deref(), Attribution::Lane(NodeId(*lane)));
            }
        }
    };
    let (net, session) = (&*LANES, LANES.session(0));
    let policy = net.open(0).policy(&net.all());
    let outcome = aggregate_and_decrypt_rs(
        &net.params,
        &session,
        &net.epoch,
        &policy,
        coded,
        &servers.entries,
        &lanes.entries,
    );
    match outcome {
        Ok(round) => {
            right(&round.recovered, &EXPECTED_LANES, &servers.liars, thorough);
            lied(&round.lane_culprits);
        }
        Err(NotRecovered { reason, lanes: culprits, .. }) => {
            let enough = servers.honest >= usize::from(net.params.threshold())
                && lanes.honest >= usize::from(code().shape().needed);
            assert!(!enough, "enough are honest: {reason:?}");
            named_in(&reason, &servers.liars, thorough);
            lied(&culprits);
        }
    }
}

fn groups(input: &mut Input<'_>, thorough: Thorough) {
    let net = &*AGGREGATED;
    let groups = publish(
        &GROUPS,
        input,
        |sum| sum.to_bytes(&net.params),
        |bytes| GroupSum::from_bytes_with(&net.params, bytes).ok(),
        |sum, at| {
            let (root, ciphertext) = (sum.root().clone(), sum.ciphertext().to_vec());
            GroupSum::sign(
                sum.claim().clone(),
                root,
                ciphertext,
                &net.params,
                net.aggregators[at].signing_key(),
            )
        },
    );
    let servers = servers(net, &GROUP_SERVER_SUMS, input);
    let audit = if input.u8() % 2 == 0 { Audit::Always } else { Audit::OnFailure };
    let outcome = GROUP_ROUND.recover_groups(&net.all(), &groups.entries, &servers.entries, audit);
    let (reason, culprits) = match &outcome {
        Ok(round) => {
            // Without an audit an aggregator can shift the sum by whole steps of a message, unseen.
            if audit == Audit::Always || groups.liars.is_empty() {
                assert!(round.recovered.plaintext == *EXPECTED_GROUPS, "a wrong plaintext");
            }
            named(&round.recovered.culprits, &servers.liars, thorough);
            (None, &round.aggregators)
        }
        Err(failed) => (Some(&failed.reason), &failed.aggregators),
    };
    for culprit in culprits {
        let AggregatorId(at) = culprit.aggregator;
        assert!(groups.liars.contains(&at.into()), "aggregator {at} is honest: {}", culprit.fault);
        if thorough.0 {
            convicts(culprit.evidence.as_deref(), Attribution::Aggregator(culprit.aggregator));
        }
    }
    if let Some(reason) = reason {
        let enough = servers.honest >= usize::from(net.params.threshold()) && groups.honest == GROUPS.len();
        assert!(!enough, "enough are honest: {reason:?}");
        named_in(reason, &servers.liars, thorough);
    }
}

/// A post that arrives in pieces, damaged: it is taken only whole and as signed, and leaves no trace otherwise.
fn pieces(input: &mut Input<'_>) {
    let (params, session, set): (_, _, CanonicalSet) = (&*DIRECT.params, DIRECT.session(0), DIRECT.all());
    let mut sum = PostSum::new(params, session, &set);
    let sent = input.pick(&SENT);
    let client = sent.client_id;
    let honest = sent.post.to_bytes(params);
    let other = SENT[input.below(SENT.len())].post.to_bytes(params);
    let (size, again) = (1 + usize::from(input.u16()), input.u8() % 2 == 1);
    let bytes = edit(honest.clone(), &other, input);
    let (head, body) = bytes.split_at(PostHead::packed_len(params).min(bytes.len()));
    let mut taken = false;
    if let Ok(head) = PostHead::from_bytes_with(params, head)
        && let Ok(mut incoming) = sum.begin(&key(&DIRECT, client), head)
    {
        taken = body.chunks(size).all(|piece| incoming.push(piece).is_ok()) && incoming.finish().is_ok();
    }
    assert_eq!(taken, bytes == honest);
    if taken && again {
        sum.withdraw(&sent.post).expect("it was added");
        taken = false;
    }
    for sent in SENT.iter().filter(|sent| !(taken && sent.client_id == client)) {
        sum.add(&key(&DIRECT, sent.client_id), &sent.post).expect("an honest post");
    }
    let recovered = decrypt_aggregate(&sum, &DIRECT.epoch, &SUMS, &mut |_| {}).expect("an honest round");
    assert!(recovered.plaintext == *EXPECTED, "a trace of what was refused");
}

/// Makes what all inputs share, so that no input is charged for it.
pub fn init() {
    (0..4).for_each(|kind| run(&[kind]));
}

/// One input.
pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let kind = input.u8();
    let thorough = Thorough(kind / 4 % 4 == 3);
    match kind % 4 {
        0 => direct(&mut input, thorough),
        1 => lanes(&mut input, thorough),
        2 => groups(&mut input, thorough),
        _ => pieces(&mut input),
    }
}

pub fn seeds() -> Vec<(String, Vec<u8>)> {
    let kinds = ["direct", "lanes", "groups", "pieces"];
    let mut seeds = Vec::new();
    for (at, name) in (0..).zip(kinds) {
        let lie = [6, 0, 2, 0, 8, 0, 0, 3, 0];
        seeds.push((format!("{name}-honest"), vec![at, 1, 1, 1, 1, 1, 1]));
        seeds.push((format!("{name}-one-lies"), [&[at][..], &lie, &[1, 1, 1, 1]].concat()));
        seeds.push((format!("{name}-last-lies"), [&[at + 12, 1, 1][..], &lie, &[1, 1, 1]].concat()));
        seeds.push((format!("{name}-damaged"), [&[at, 4, 0, 2, 0, 8, 0, 0, 3, 0][..], &[1; 5]].concat()));
    }
    seeds
}
