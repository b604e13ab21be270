//! Two worlds, direct and with lanes; in each, honest parties' bytes and one lie of every kind.

use panetiere::bulletin::*;
use panetiere::cs::Commitment;
use panetiere::evidence::Evidence;
use panetiere::fault::Attribution;
use panetiere::ids::*;
use panetiere::protocol::*;
use panetiere::rs::Share;
use panetiere::share_commitment::{ShareCommitment, SharePath};
use panetiere::sig::VerifyingKey;
use panetiere::testing::{ClientLie, Net, ServerLie, deployment};
use std::sync::{Arc, LazyLock};

pub static DIRECT: LazyLock<Net> =
    LazyLock::new(|| deployment(410).servers(3).threshold(2).clients(3).polys(2).build());
pub static LANES: LazyLock<Net> =
    LazyLock::new(|| deployment(410).servers(3).threshold(2).clients(3).polys(3).lanes(2, 4).build());

pub static GROUPS: LazyLock<Net> =
    LazyLock::new(|| deployment(410).servers(3).threshold(2).clients(4).polys(3).aggregators(2).build());

pub struct Row {
    pub name: &'static str,
    pub evidence: Evidence,
    /// Who is guilty, and the code of the finding; or nobody, and the code of the acquittal.
    pub convicted: Attribution,
    pub code: &'static str,
}

pub const SERVER: ServerId = ServerId(1);
pub const LANE: NodeId = NodeId(2);
pub const AGGREGATOR: AggregatorId = AggregatorId(1);
pub const CLIENT: ClientId = ClientId(1);

pub fn key(net: &Net, client: ClientId) -> VerifyingKey {
    net.party(client).signing_key.verifying_key()
}

/// Every client's post and every server's sum, all honest.
pub struct Direct {
    pub sent: Vec<ClientRound>,
    pub sums: Vec<ServerBulletinEntry>,
    /// Of another session.
    pub later: Vec<ServerBulletinEntry>,
    /// Of this session, by servers that have forgotten what they answered.
    pub split: Vec<ServerBulletinEntry>,
}

pub static D: LazyLock<Direct> = LazyLock::new(|| {
    let net = &*DIRECT;
    let mut round = net.posted(0);
    let sent = net.ids().map(|client| round.client(client)).collect();
    let sums = round.sums(&net.all());
    let (later, split) = (net.posted(1).sums(&net.all()), net.posted(0).sums(&net.all_but(CLIENT)));
    Direct { sent, sums, later, split }
});

/// The same with lanes.
pub struct Coded {
    pub sent: Vec<RsClientRound>,
    pub checks: Vec<LaneBulletinEntry>,
    pub half_checks: Vec<LaneBulletinEntry>,
    pub sums: Vec<LaneBulletinEntry>,
    pub split: Vec<LaneBulletinEntry>,
    pub later: Vec<LaneBulletinEntry>,
}

fn lane_rounds(net: &Net, leaf: u64) -> Vec<LaneRound> {
    let round = net.open(leaf);
    let sent: Vec<RsClientRound> = net.ids().map(|client| round.rs_client(client)).collect();
    let running = |(lane, own): (NodeId, &Arc<LaneIdentity>)| {
        // A fresh identity remembers nothing.
        let scalar = own.signing_key().expose_scalar();
        let signing = panetiere::sig::SigningKey::from_scalar(&scalar).unwrap();
        let identity =
            Arc::new(LaneIdentity::new(lane, signing, &net.epoch, MemoryAnswers::fresh()).unwrap());
        let mut running = LaneRound::new(Arc::clone(&net.params), round.session, identity);
        for sent in &sent {
            let post =
                sent.post.signed.check(&net.params, &round.session, &key(net, sent.client_id)).unwrap();
            running.receive(&post, &sent.items[usize::from(lane.0)]).unwrap();
        }
        running
    };
    (0..).map(NodeId).zip(&net.lanes).map(running).collect()
}

pub static C: LazyLock<Coded> = LazyLock::new(|| {
    let net = &*LANES;
    let (all, half) = (net.all(), net.all_but(CLIENT));
    let round = net.open(0);
    let mut lanes = lane_rounds(net, 0);
    let check = |set: &CanonicalSet, lanes: &[LaneRound]| -> Vec<LaneBulletinEntry> {
        lanes.iter().map(|lane| lane.check_sum(set).unwrap()).collect()
    };
    let close = |set: &CanonicalSet, lanes: &mut [LaneRound]| -> Vec<LaneBulletinEntry> {
        lanes.iter_mut().map(|lane| lane.close(set).unwrap()).collect()
    };
    Coded {
        sent: net.ids().map(|client| round.rs_client(client)).collect(),
        checks: check(&all, &lanes),
        half_checks: check(&half, &lanes),
        sums: close(&all, &mut lanes),
        split: close(&half, &mut lane_rounds(net, 0)),
        later: close(&all, &mut lane_rounds(net, 1)),
    }
});

pub fn roots(sent: &[ClientRound]) -> impl Iterator<Item = &Commitment> {
    sent.iter().map(|sent| &sent.post.head.commitment)
}

pub fn share_roots(sent: &[RsClientRound]) -> impl Iterator<Item = &ShareCommitment> {
    sent.iter().map(|sent| &sent.post.share_commitment)
}

/// The same client, delivering and signing these bodies, and committing to these shares if there are any.
pub fn signed_again(
    net: &Net,
    sent: &RsClientRound,
    bodies: Vec<Vec<u8>>,
    shares: Option<ShareCommitment>,
) -> RsClientRound {
    let sealed = sent.envelopes.iter().map(|envelope| (envelope.key, envelope.sealed.clone()));
    let (root, envelopes, items) = delivery_root(sent.client_id, sealed, bodies);
    let mut statement = sent.post.signed.claim().clone();
    statement.envelopes = root;
    let mut post = sent.post.clone();
    if let Some(commitment) = shares {
        statement.roots[1] = commitment.digest(net.params.lattice());
        post.share_commitment = commitment;
    }
    post.signed = SignedPost::sign(statement, &net.party(sent.client_id).signing_key);
    RsClientRound { client_id: sent.client_id, post, envelopes, items }
}

/// A client whose share at lane 3 is that of another client. Everything verifies but the code.
pub fn non_codeword() -> RsClientRound {
    let net = &*LANES;
    let code = net.params.lane_code().unwrap();
    let honest = &C.sent[1];
    let share = |item: &LaneItem| code.rs().unpack_share(&item.body[..code.rs().share_len()]).unwrap();
    let mut shares: Vec<Share> = honest.items.iter().map(share).collect();
    shares[3] = share(&C.sent[2].items[3]);
    let (commitment, paths) = code.commitment().commit(&shares);
    let body = |(share, path): (&Share, &SharePath)| {
        let mut body = Vec::new();
        code.rs().pack(share, &mut body);
        path.encode(code.commitment(), &mut body);
        body
    };
    signed_again(net, honest, shares.iter().zip(&paths).map(body).collect(), Some(commitment))
}

/// A client whose item for lane 2 has another first bit than its share.
pub fn bad_share(cut: usize) -> RsClientRound {
    let mut bodies: Vec<Vec<u8>> = C.sent[1].items.iter().map(|item| item.body.clone()).collect();
    bodies[2][0] ^= 1;
    let len = bodies[2].len() - cut;
    bodies[2].truncate(len);
    signed_again(&LANES, &C.sent[1], bodies, None)
}

fn altered_lane_sum() -> LaneBulletinEntry {
    let code = LANES.params.lane_code().unwrap();
    let mut opening = C.sums[2].opening().clone();
    opening.edit(|mut polys| {
        let first = &mut polys[0].coefficients_mut()[0];
        *first -= if *first > 0 { 1 } else { -1 };
    });
    LaneBulletinEntry::sign(*C.sums[2].claim(), opening, code, LANES.lanes[2].signing_key())
}

/// The honest group of three, and a lie in its place.
fn group(lie: impl FnOnce(&mut Vec<u8>, &mut Commitment)) -> [GroupSum; 2] {
    let net = &*GROUPS;
    let honest = net.posted(0).group(AGGREGATOR, [0, 1, 3]);
    let (mut ciphertext, mut root) = (honest.ciphertext().to_vec(), honest.root().clone());
    lie(&mut ciphertext, &mut root);
    let key = net.aggregators[1].signing_key();
    let lie = GroupSum::sign(honest.claim().clone(), root, ciphertext, &net.params, key);
    [honest, lie]
}

fn bad_group(sum: &GroupSum, part: SumPart) -> Evidence {
    let net = &*GROUPS;
    Evidence::bad_group(&net.params, &net.epoch, sum, part, &mut net.posted(0).posts()).unwrap()
}

fn guilty_groups() -> Vec<Row> {
    let net = &*GROUPS;
    let poly = net.params.lattice().wire_poly_len();
    // The lowest bit of the last polynomial; a field of ones, beyond its prime; the root of one post.
    let [honest, one_bit] = group(|ciphertext, _| ciphertext[2 * poly] ^= 1);
    let [_, malformed] = group(|ciphertext, _| ciphertext[poly..poly + 8].fill(0xFF));
    let [_, root] = group(|_, root| *root = net.open(0).client(CLIENT).post.head.commitment);
    let two = Evidence::double_group_sum(&net.params, &net.epoch, [&honest, &one_bit]);
    let party = Attribution::Aggregator(AGGREGATOR);
    let row = |name, evidence, code| Row { name, evidence, convicted: party, code };
    vec![
        row("a false ciphertext", bad_group(&one_bit, SumPart::Ciphertext), "group_wrong_sum"),
        row("a malformed ciphertext", bad_group(&malformed, SumPart::Ciphertext), "group_malformed"),
        row("a false root", bad_group(&root, SumPart::Root), "group_wrong_sum"),
        row("two sums of the same posts", two, "group_double"),
    ]
}

fn innocent_groups() -> Vec<Row> {
    let net = &*GROUPS;
    let (round, later) = (net.posted(0), net.posted(1));
    let [honest, lie] = group(|ciphertext, _| ciphertext[0] ^= 1);
    let (other, other_session) = (round.group(AGGREGATOR, [0, 2]), later.group(AGGREGATOR, [0, 1, 3]));
    let two = |sums| Evidence::double_group_sum(&net.params, &net.epoch, sums);
    let mixed = |sum, part| {
        Evidence::bad_group(&net.params, &net.epoch, sum, part, &mut net.posted(1).posts()).unwrap()
    };
    let row = |name, evidence, code| Row { name, evidence, convicted: Attribution::Nobody, code };
    vec![
        row("an honest group", bad_group(&honest, SumPart::Ciphertext), "evidence_holds"),
        row("an honest group's root", bad_group(&honest, SumPart::Root), "evidence_holds"),
        row("the root of a liar", bad_group(&lie, SumPart::Root), "evidence_holds"),
        row("posts of another session", mixed(&honest, SumPart::Ciphertext), "group_posts"),
        row("roots of another session", mixed(&honest, SumPart::Root), "group_posts"),
        row("two groups", two([&honest, &other]), "evidence_elsewhere"),
        row("a group twice", two([&honest, &honest]), "evidence_same"),
        row("two sessions of a group", two([&honest, &other_session]), "group_session"),
        row(
            "two aggregators",
            two([&honest, &round.group(AggregatorId(0), [0, 1, 3])]),
            "evidence_elsewhere",
        ),
    ]
}

/// One lie of every kind, and what it is of.
pub fn guilty() -> Vec<Row> {
    let (d, c) = (&*DIRECT, &*LANES);
    let round = d.posted(0);
    let (all, coded_all) = (d.all(), c.all());
    let lie = round.lying_sum(SERVER, &all, &ServerLie::Altered { part: 0 });
    let omits = round.lying_sum(SERVER, &all, &ServerLie::Omits(CLIENT));
    let other_epoch = round.lying_sum(SERVER, &all, &ServerLie::WrongEpoch);
    let client_lie = |lie: &ClientLie| round.lying_client(CLIENT, lie);
    let (second, range, length) = (
        client_lie(&ClientLie::SecondStatement),
        client_lie(&ClientLie::CiphertextOutOfRange),
        client_lie(&ClientLie::WrongCiphertextLength),
    );
    let bad_ciphertext = |sent: &ClientRound, body: &[u8]| {
        Evidence::bad_ciphertext(&d.params, &d.epoch, &key(d, CLIENT), &sent.post.head.signed, body)
    };
    let short = short_ciphertext();
    let share = |sent: &RsClientRound| {
        Evidence::bad_share(&c.params, &c.epoch, &key(c, CLIENT), &sent.post.signed, &sent.items[2])
    };
    let none = non_codeword();
    let codeword = |items: &[LaneItem]| {
        Evidence::not_a_codeword(&c.params, &c.epoch, &key(c, CLIENT), &none.post.signed, items)
    };
    let opening = |sum| Evidence::bad_opening(&d.params, &d.epoch, sum, &all, roots(&D.sent));
    let two = |sums| Evidence::double_server_sum(&d.params, &d.epoch, sums);
    let lane_lie = altered_lane_sum();
    let lane = |sum| Evidence::bad_lane(&c.params, &c.epoch, sum, &coded_all, share_roots(&C.sent));
    let two_lanes = |sums| Evidence::double_lane_sum(&c.params, &c.epoch, sums);
    let check_lie = LaneBulletinEntry::sign(
        *C.checks[2].claim(),
        lane_lie.opening().clone(),
        c.params.lane_code().unwrap(),
        c.lanes[2].signing_key(),
    );
    let posts = [&D.sent[1].post.head.signed, &second.post.head.signed];
    let double_post = Evidence::double_post(&d.params, &d.epoch, &key(d, CLIENT), posts);
    let (server, the_lane, client) =
        (Attribution::Server(SERVER), Attribution::Lane(LANE), Attribution::Client(CLIENT));
    let row = |name, evidence, convicted, code| Row { name, evidence, convicted, code };
    let mut rows = vec![
        row("an altered opening", opening(&lie), server, "sum_invalid_opening"),
        row("a client left out", opening(&omits), server, "sum_invalid_opening"),
        row("two sets", two([&D.sums[1], &D.split[1]]), server, "sum_double"),
        row("two openings", two([&lie, &D.sums[1]]), server, "sum_double"),
        row("two epochs", two([&other_epoch, &D.sums[1]]), server, "sum_double"),
        row("an altered lane sum", lane(&lane_lie), the_lane, "lane_sum_opening"),
        row("an altered check", lane(&check_lie), the_lane, "lane_sum_opening"),
        row("two sets of a lane", two_lanes([&C.split[2], &C.sums[2]]), the_lane, "lane_sum_double"),
        row("two openings of a lane", two_lanes([&C.sums[2], &lane_lie]), the_lane, "lane_sum_double"),
        row("two checks of one set", two_lanes([&C.checks[2], &check_lie]), the_lane, "lane_sum_double"),
        row("two posts", double_post, client, "post_double"),
        row("a bad share", share(&bad_share(0)), client, "item_bad_share"),
        row("a short item", share(&bad_share(1)), client, "item_malformed"),
        row("no codeword, first k", codeword(&none.items), client, "rebuild_not_a_codeword"),
        row("no codeword, last k", codeword(&none.items[2..]), client, "rebuild_not_a_codeword"),
        row("out of range", bad_ciphertext(&range, &range.post.ciphertext), client, "post_ciphertext"),
        row("a short ciphertext", bad_ciphertext(&short, &short.post.ciphertext), client, "post_ciphertext"),
        row("a wrong length", bad_ciphertext(&length, &[]), client, "statement_ciphertext_length"),
    ];
    rows.extend(guilty_groups());
    rows
}

/// A client that states the round's length and signs the digest of a body one byte shorter.
fn short_ciphertext() -> ClientRound {
    let net = &*DIRECT;
    let mut sent = D.sent[1].clone();
    sent.post.ciphertext.pop();
    let PostHead { signed, commitment } = &sent.post.head;
    let root = signed.claim().envelopes;
    let session = signed.claim().session;
    let mut statement =
        PostStatement::direct(&net.params, &session, CLIENT, commitment, &sent.post.ciphertext, root);
    statement.ciphertext_len += 1;
    sent.post.head.signed = SignedPost::sign(statement, &net.party(CLIENT).signing_key);
    sent
}

/// What can be made of honest parties' bytes: every kind, and what mixing them gives.
pub fn innocent() -> Vec<Row> {
    let (d, c) = (&*DIRECT, &*LANES);
    let (all, coded_all) = (d.all(), c.all());
    let opening = |params, epoch, sum, set, sent| Evidence::bad_opening(params, epoch, sum, set, roots(sent));
    let others: Vec<ClientRound> = [0, 2].map(|at: usize| D.sent[at].clone()).into();
    let later: Vec<ClientRound> = d.ids().map(|client| d.open(1).client(client)).collect();
    let two = |sums| Evidence::double_server_sum(&d.params, &d.epoch, sums);
    let lane = |sum, set, sent| Evidence::bad_lane(&c.params, &c.epoch, sum, set, share_roots(sent));
    let two_lanes = |sums| Evidence::double_lane_sum(&c.params, &c.epoch, sums);
    let post = |at: usize| &D.sent[at].post.head.signed;
    let posts = |key: &VerifyingKey, posts| Evidence::double_post(&d.params, &d.epoch, key, posts);
    let share = |post: usize, item: &LaneItem, of: ClientId| {
        let signed = &C.sent[post].post.signed;
        Evidence::bad_share(&c.params, &c.epoch, &key(c, of), signed, item)
    };
    let codeword = |post: usize, items: &[LaneItem]| {
        let signed = &C.sent[post].post.signed;
        Evidence::not_a_codeword(&c.params, &c.epoch, &key(c, CLIENT), signed, items)
    };
    let ciphertext = |post: usize, body: &[u8]| {
        Evidence::bad_ciphertext(&d.params, &d.epoch, &key(d, CLIENT), self::post(post), body)
    };
    let item = &C.sent[1].items[2];
    let mut damaged = item.clone();
    damaged.body[0] ^= 1;
    let mut damaged_ciphertext = D.sent[1].post.ciphertext.clone();
    damaged_ciphertext[..4].fill(0xFF);
    let mixed = [C.sent[1].items[0].clone(), C.sent[2].items[1].clone()];
    // Another document with the same servers, and other dimensions.
    let epoch = deployment(410).servers(3).threshold(2).clients(3).polys(2).epoch(1).build();
    let shape = deployment(410).servers(3).threshold(3).clients(3).polys(2).build();
    let lane_shape = deployment(410).servers(3).threshold(2).clients(3).polys(3).lanes(3, 4).build();
    let lane_terms = |params, epoch| {
        Evidence::not_a_codeword(params, epoch, &key(c, CLIENT), &C.sent[1].post.signed, &C.sent[1].items)
    };
    let wide =
        |params, epoch| Evidence::bad_share(params, epoch, &key(c, CLIENT), &C.sent[1].post.signed, item);
    let (honest, nobody) = ("evidence_holds", Attribution::Nobody);
    let row = |name, evidence, code| Row { name, evidence, convicted: nobody, code };
    let mut rows = vec![
        row("an honest sum", opening(&d.params, &d.epoch, &D.sums[1], &all, &D.sent), honest),
        row(
            "without a client",
            opening(&d.params, &d.epoch, &D.sums[1], &d.all_but(CLIENT), &others),
            "sum_set",
        ),
        row("with other posts", opening(&d.params, &d.epoch, &D.sums[1], &all, &later), "sum_posts"),
        row(
            "under another document",
            opening(&epoch.params, &epoch.epoch, &D.sums[1], &all, &D.sent),
            "sum_epoch",
        ),
        row("under other terms", opening(&shape.params, &d.epoch, &D.sums[1], &all, &D.sent), "sum_crs"),
        row("a sum twice", two([&D.sums[1], &D.sums[1]]), "evidence_same"),
        row("two servers", two([&D.sums[1], &D.sums[2]]), "sum_signature"),
        row("two sessions", two([&D.sums[1], &D.later[1]]), "evidence_elsewhere"),
        row("an honest lane sum", lane(&C.sums[2], &coded_all, &C.sent), honest),
        row("an honest check", lane(&C.checks[2], &coded_all, &C.sent), honest),
        row("a lane's other set", lane(&C.sums[2], &c.all_but(CLIENT), &C.sent[..2]), "lane_sum_set"),
        row("check and answer", two_lanes([&C.checks[2], &C.sums[2]]), "evidence_elsewhere"),
        row("two checks", two_lanes([&C.checks[2], &C.half_checks[2]]), "evidence_elsewhere"),
        row("two sessions of a lane", two_lanes([&C.sums[2], &C.later[2]]), "evidence_elsewhere"),
        row("a lane sum twice", two_lanes([&C.sums[2], &C.sums[2]]), "evidence_same"),
        row("two lanes", two_lanes([&C.sums[2], &C.sums[1]]), "lane_sum_signature"),
        row("a post twice", posts(&key(d, CLIENT), [post(1), post(1)]), "evidence_same"),
        row("two clients", posts(&key(d, CLIENT), [post(1), post(2)]), "statement_signature"),
        row(
            "two sessions of a client",
            posts(&key(d, CLIENT), [post(1), &later[1].post.head.signed]),
            "evidence_elsewhere",
        ),
        row("an honest item", share(1, item, CLIENT), honest),
        row("a damaged item", share(1, &damaged, CLIENT), "item_not_in_post"),
        row(
            "another lane's item",
            share(1, &LaneItem { lane: NodeId(1), ..item.clone() }, CLIENT),
            "item_not_in_post",
        ),
        row("another client's item", share(2, item, ClientId(2)), "item_not_in_post"),
        row("an item under another shape", wide(&lane_shape.params, &c.epoch), "statement_crs"),
        row("honest items", codeword(1, &C.sent[1].items), honest),
        row("items of two clients", codeword(1, &mixed), "item_not_in_post"),
        row("too few items", codeword(1, &C.sent[1].items[..1]), "rs_too_few"),
        row("items under another shape", lane_terms(&lane_shape.params, &c.epoch), "statement_crs"),
        row("an honest ciphertext", ciphertext(1, &D.sent[1].post.ciphertext), honest),
        row("no ciphertext", ciphertext(1, &[]), honest),
        row("a damaged ciphertext", ciphertext(1, &damaged_ciphertext), "evidence_not_signed"),
        row("a cut ciphertext", ciphertext(1, &D.sent[1].post.ciphertext[1..]), "evidence_not_signed"),
    ];
    rows.extend(innocent_groups());
    rows
}

fn post(at: usize) -> &'static SignedPost {
    &D.sent[at].post.head.signed
}
