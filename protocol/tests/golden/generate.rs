//! What `protocol/vectors/v1` holds: one file a wire object, and for each a file of bytes that must be refused.
//!
//! One round of the smallest shape there is, from one seed. The files are made by `examples/vectors.rs` and read by
//! the tests beside this file and by `vectors/v1/check.py`, which derives them again without this code.

use chipmunk::ring::{Coeff, Cs, Poly};
use data_encoding::HEXLOWER;
use panetiere::bulletin::{Epoch, Mode, PostStatement};
use panetiere::channel::{ChannelParams, Encoding};
use panetiere::ids::{ClientId, EpochId, ServerId};
use panetiere::plaintext::PlainPoly;
use panetiere::protocol::{ClientRound, LaneShape, Terms, unseal_opening};
use panetiere::testing::{Builder, Net, Round, deployment};
use panetiere::wire::Encode;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;

/// Seed of `panetiere::testing::deployment`.
pub const SEED: u64 = 20_250_701;

pub fn hex(bytes: &[u8]) -> String {
    HEXLOWER.encode(bytes)
}

fn words_sha256(words: impl Iterator<Item = u64>) -> String {
    hex(&Sha256::digest(words.flat_map(u64::to_le_bytes).collect::<Vec<_>>()))
}

/// The cases of one object, each with its bytes and what they mean where that is short.
pub fn object(name: &str, cases: Vec<Value>) -> Value {
    json!({ "object": name, "cases": cases })
}

/// The same parties with lanes, of which two of three carry a ciphertext: another epoch document, other parameters.
pub fn lanes() -> Net {
    deployment(SEED).servers(2).threshold(2).clients(2).lanes(2, 3).build()
}

/// The same parties with aggregators: another epoch document.
pub fn aggregated() -> Net {
    deployment(SEED).servers(2).threshold(2).clients(2).aggregators(2).build()
}

struct Scene<'a> {
    net: &'a Net,
    round: Round<'a>,
    sent: Vec<ClientRound>,
}

/// Every file by its name.
pub fn files() -> BTreeMap<String, Value> {
    let net = deployment(SEED).servers(2).threshold(2).clients(2).build();
    let mut round = net.open(0);
    let sent: Vec<ClientRound> = net.ids().map(|client| round.client(client)).collect();
    for client in &sent {
        round.submit(client).accepted();
    }
    let mut scene = Scene { net: &net, round, sent };
    let mut files = BTreeMap::new();
    let mut add = |name: &str, value: Value| files.insert(format!("{name}.json"), value);
    add("ids", ids(&scene));
    add("crs", crs(&scene));
    add("epoch", epoch(&scene));
    add("terms", terms());
    add("public_key", public_keys(&scene));
    add("verifying_key", verifying_keys(&scene));
    add("signature", signatures(&scene));
    add("canonical_set", canonical_sets());
    add("post_statement", statements(&scene));
    add("signed_post", signed_posts(&scene));
    add("commitment", commitments(&scene));
    add("client_post", client_posts(&scene));
    add("envelope", envelopes(&scene));
    add("fresh_opening", openings(&scene));
    add("server_sum", sums(&mut scene));
    add("kahe", kahe(&mut scene));
    for (name, value) in super::lanes::files(&lanes()) {
        files.insert(name, value);
    }
    for (name, value) in super::groups::files(&net, &aggregated()) {
        files.insert(name, value);
    }
    files.insert("evidence.json".to_owned(), super::evidence::file(&net, &aggregated(), &lanes()));
    for (name, value) in super::bad::files(&files) {
        files.insert(name, value);
    }
    files
}

fn ids(scene: &Scene<'_>) -> Value {
    let net = scene.net;
    json!({
        "deployment": { "name": "panetiere testing", "hex": net.params.deployment().to_string() },
        "session": {
            "origin": "testing.example/log",
            "leaf_index": 0,
            "leaf_hash": hex(&[0; 32]),
            "hex": scene.round.session.to_string(),
        },
        "set": { "clients": [0, 1], "hex": net.all().digest().to_string() },
        "epoch": { "of": "epoch.json", "hex": net.params.epoch().to_string() },
        "client": { "id": 0x0102_0304, "hex": hex(&ClientId(0x0102_0304).to_bytes()) },
        "server": { "id": 0x0102, "hex": hex(&ServerId(0x0102).to_bytes()) },
        "epoch_number": { "id": 7, "hex": hex(&EpochId(7).to_bytes()) },
    })
}

fn crs(scene: &Scene<'_>) -> Value {
    let params = &scene.net.params;
    let a = &params.kahe().public_vector()[0];
    let limbs = [0, 1].map(|limb| {
        json!({
            "limb": limb,
            "first": a.limb(limb)[..8],
            "sha256_of_u64_le": words_sha256(a.limb(limb).iter().map(|&word| word.into())),
        })
    });
    json!({
        "set": params.set().name,
        "deployment": params.deployment().to_string(),
        "epoch": params.epoch().to_string(),
        "servers": params.servers(),
        "threshold": params.threshold(),
        "faulty": params.faulty(),
        "polys": params.kahe().polys(),
        "plaintext_modulus": params.kahe().plaintext_modulus(),
        "lanes_needed": 0,
        "lanes": 0,
        "digest": params.crs_digest().to_string(),
        "a": limbs,
    })
}

fn epoch(scene: &Scene<'_>) -> Value {
    let case = |name: &str, epoch: &Epoch| {
        let servers = epoch.servers().iter().map(|server| {
            json!({
                "identity": hex(&server.identity.to_sec1()),
                "envelope_key_digest": server.envelope_key.digest().to_string(),
                "signature": hex(&server.signature.to_p1363()),
            })
        });
        json!({
            "name": name,
            "hex": hex(&epoch.to_bytes()),
            "deployment": epoch.deployment().to_string(),
            "number": epoch.number().0,
            "servers": servers.collect::<Vec<_>>(),
            "lanes": epoch.lanes().iter().map(|lane| hex(&lane.to_sec1())).collect::<Vec<_>>(),
            "aggregators": epoch.aggregators().iter().map(|key| hex(&key.to_sec1())).collect::<Vec<_>>(),
            "digest": epoch.digest().to_string(),
        })
    };
    let coded = lanes().epoch;
    let cases = vec![
        case("two servers", &scene.net.epoch),
        case("two servers, three lanes", &coded),
        case("two servers, two aggregators", &aggregated().epoch),
    ];
    object("Epoch", cases)
}

/// Rounds of these parties with a payload: every mode, encoding and plaintext modulus is in one of the cases.
fn terms() -> Value {
    let case = |name: &str, terms: &Terms| {
        let (dimensions, channel) = (terms.dimensions(), terms.channel());
        let lanes = terms.lanes().unwrap_or(LaneShape { needed: 0, lanes: 0 });
        json!({
            "name": name,
            "hex": hex(&terms.to_bytes()),
            "set": terms.set().name,
            "mode": terms.mode() as u8,
            "servers": dimensions.servers,
            "threshold": dimensions.threshold,
            "faulty": terms.faulty(),
            "polys": dimensions.polys,
            "plaintext_modulus": channel.plaintext_modulus(),
            "lanes_needed": lanes.needed,
            "lanes": lanes.lanes,
            "min_clients": terms.min_clients(),
            "max_clients": terms.max_clients(),
            "encoding": channel.encoding().to_string(),
            "capacity": channel.capacity(),
            "message_bytes": channel.max_message_bytes(),
        })
    };
    let of = |encoding, servers, message_bytes, shape: fn(Builder) -> Builder| {
        let channel = ChannelParams::for_messages(encoding, 2, message_bytes).expect("a small channel");
        let parties = deployment(SEED).servers(servers).threshold(2).clients(2).channel(&channel);
        Terms::of(&shape(parties).build().params, &channel).expect("parameters of this channel")
    };
    let slots = of(Encoding::Slots, 3, 9000, |parties| parties.aggregators(2));
    let cases = vec![
        case("sketch, direct", &of(Encoding::Sketch, 2, 2500, |parties| parties)),
        case("slots, aggregated", &slots),
        case("their tickets", &slots.of_tickets().expect("two tickets")),
        case("sketch, two of three lanes", &of(Encoding::Sketch, 2, 20, |parties| parties.lanes(2, 3))),
    ];
    object("Terms", cases)
}

fn public_keys(scene: &Scene<'_>) -> Value {
    let cases = scene.net.epoch.envelope_keys().into_iter().map(|(server, key)| {
        json!({ "name": format!("server {server}"), "hex": hex(&key.to_bytes()), "digest": key.digest().to_string() })
    });
    object("PublicKey", cases.collect())
}

fn verifying_keys(scene: &Scene<'_>) -> Value {
    let clients = scene.net.clients.iter().map(|client| {
        let key = client.signing_key.verifying_key();
        json!({ "name": format!("client {}", client.id), "hex": hex(&key.to_bytes()) })
    });
    object("VerifyingKey", clients.collect())
}

fn signatures(scene: &Scene<'_>) -> Value {
    let key = &scene.net.clients[0].signing_key;
    let signature = key.sign("panetiere/example/v1", b"message");
    let case = json!({
        "name": "client 0",
        "hex": hex(&signature.to_bytes()),
        "key": hex(&key.verifying_key().to_bytes()),
        "domain": "panetiere/example/v1",
        "message": hex(b"message"),
    });
    object("Signature", vec![case])
}

fn canonical_sets() -> Value {
    let case = |name: &str, ids: &[u32]| {
        let set = panetiere::bulletin::CanonicalSet::new(ids.iter().copied().map(ClientId));
        let set = set.expect("distinct ids, at least one");
        json!({
            "name": name,
            "hex": hex(&set.to_bytes()),
            "clients": ids,
            "digest": set.digest().to_string(),
        })
    };
    object("CanonicalSet", vec![case("one", &[7]), case("three", &[0, 1, u32::MAX])])
}

fn statements(scene: &Scene<'_>) -> Value {
    let case = |name: &str, statement: &PostStatement| {
        json!({
            "name": name,
            "hex": hex(&statement.to_bytes()),
            "deployment": statement.deployment.to_string(),
            "epoch": statement.epoch.to_string(),
            "session": statement.session.to_string(),
            "client": statement.client.0,
            "crs": statement.crs.to_string(),
            "mode": statement.mode as u8,
            "roots": statement.roots.iter().map(ToString::to_string).collect::<Vec<_>>(),
            "ciphertext": statement.ciphertext.to_string(),
            "ciphertext_len": statement.ciphertext_len,
            "envelopes": statement.envelopes.to_string(),
        })
    };
    let [first, second] = [0, 1].map(|client| scene.sent[client].post.head.signed.claim());
    // Not of this round: the same fields in the other modes. Erasure has the lane root besides.
    let aggregated = PostStatement { mode: Mode::Aggregated, ..first.clone() };
    let roots = vec![first.roots[0], second.roots[0]];
    let erasure = PostStatement { mode: Mode::Erasure, roots, ..first.clone() };
    let cases = [
        ("client 0", first),
        ("client 1", second),
        ("client 0, aggregated", &aggregated),
        ("client 0, erasure", &erasure),
    ];
    object("PostStatement", cases.map(|(name, statement)| case(name, statement)).into())
}

fn signed_posts(scene: &Scene<'_>) -> Value {
    let case = |sent: &ClientRound| {
        let key = scene.net.party(sent.client_id).signing_key.verifying_key();
        json!({
            "name": format!("client {}", sent.client_id),
            "hex": hex(&sent.post.head.signed.to_bytes()),
            "key": hex(&key.to_bytes()),
        })
    };
    object("SignedPost", scene.sent.iter().map(case).collect())
}

fn commitments(scene: &Scene<'_>) -> Value {
    let case = |sent: &ClientRound| {
        let (commitment, lattice) = (&sent.post.head.commitment, scene.net.params.lattice());
        json!({
            "name": format!("client {}", sent.client_id),
            "hex": hex(&commitment.to_bytes(lattice)),
            "digest": commitment.digest(lattice).to_string(),
            "first": commitment.root().limb(0)[..8],
        })
    };
    object("Commitment", scene.sent.iter().map(case).collect())
}

fn client_posts(scene: &Scene<'_>) -> Value {
    let case = |sent: &ClientRound| {
        json!({
            "name": format!("client {}", sent.client_id),
            "hex": hex(&sent.post.to_bytes(&scene.net.params)),
            "ciphertext_sha256": hex(&Sha256::digest(&sent.post.ciphertext)),
        })
    };
    object("ClientBulletinEntry", scene.sent.iter().map(case).collect())
}

fn envelopes(scene: &Scene<'_>) -> Value {
    let case = |envelope: &panetiere::bulletin::Envelope| {
        json!({
            "name": format!("client {} to server {}", envelope.client, envelope.server),
            "hex": hex(&envelope.to_bytes()),
            "client": envelope.client.0,
            "server": envelope.server.0,
            "key": envelope.key.to_string(),
            "sealed_len": envelope.sealed.len(),
            "path": envelope.path.iter().map(|hash| hex(hash)).collect::<Vec<_>>(),
        })
    };
    object("Envelope", scene.sent[0].envelopes.iter().map(case).collect())
}

fn openings(scene: &Scene<'_>) -> Value {
    let params = &scene.net.params;
    let mut cases = Vec::new();
    for (server, inbox) in scene.net.servers.iter().zip(&scene.round.inboxes) {
        for (post, envelope) in inbox {
            let (opening, _) = unseal_opening(server, params, post, envelope).expect("an honest envelope");
            cases.push(json!({
                "name": format!("client {} to server {}", post.client(), server.id()),
                "hex": hex(&opening.to_bytes(params.cs())),
                "client": post.client().0,
                "server": server.id().0,
            }));
        }
    }
    object("FreshOpening", cases)
}

fn sums(scene: &mut Scene<'_>) -> Value {
    let (net, set) = (scene.net, scene.net.all());
    let case = |sum: &panetiere::bulletin::ServerBulletinEntry| {
        let (claim, mut opening) = (sum.claim(), Vec::new());
        let layout = net.params.cs().summed_layout(claim.clients);
        sum.opening().encode(layout, &mut opening);
        json!({
            "name": format!("server {}", claim.server),
            "hex": hex(&sum.to_bytes(&net.params)),
            "server": claim.server.0,
            "set": claim.set.to_string(),
            "posts": claim.posts.to_string(),
            "clients": claim.clients,
            "aggregated_opening_len": opening.len(),
            "aggregated_opening_sha256": hex(&Sha256::digest(&opening)),
        })
    };
    object("ServerBulletinEntry", scene.round.sums(&set).iter().map(case).collect())
}

fn kahe(scene: &mut Scene<'_>) -> Value {
    let (net, set) = (scene.net, scene.net.all());
    let sums = scene.round.sums(&set);
    let lattice = net.params.lattice();
    let mut roots = Poly::zero();
    for sent in &scene.sent {
        lattice.hvc().add_assign(&mut roots, sent.post.head.commitment.root());
    }
    let shares: Vec<Poly<Cs, Coeff>> = (0..2)
        .zip(&sums)
        .map(|(server, sum)| {
            let share = net.params.cs().verify_aggregated(server, 2, sum.opening(), &roots);
            share.expect("an honest sum")
        })
        .collect();
    let samples = [(ServerId(0), &shares[0]), (ServerId(1), &shares[1])];
    let key = net.params.sharing().recover(lattice.cs(), &samples).expect("two of two shares");
    let key = lattice.cs().centred(&key);
    let recovered = scene.round.recover(&set, &sums).expect("an honest round").plaintext;
    let message = |poly: &PlainPoly| {
        json!({
            "first": poly.coefficients()[..8],
            "sha256_of_u64_le": words_sha256(poly.coefficients().iter().copied()),
        })
    };
    json!({
        "messages": net.clients.iter().map(|client| message(&client.message[0])).collect::<Vec<_>>(),
        "summed_key": {
            "first": key.coefficients()[..8],
            "sha256_of_i64_le": words_sha256(key.coefficients().iter().map(|&c| i64::from(c).cast_unsigned())),
        },
        "sum": message(&recovered[0]),
    })
}
