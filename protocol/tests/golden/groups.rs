//! What aggregators, complaints and answers add to the vectors.

use super::generate::{hex, object};
use panetiere::bulletin::{Answer, Checked, GroupSum, StatementContext};
use panetiere::ids::{AggregatorId, ClientId, ServerId};
use panetiere::protocol::unseal_opening;
use panetiere::testing::{Net, Round};
use panetiere::wire::Encode;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Every file of these by its name: complaints and answers of the direct round, sums of the aggregated one.
pub fn files(direct: &Net, aggregated: &Net) -> BTreeMap<String, Value> {
    let (posted, grouped) = (direct.posted(0), aggregated.posted(0));
    BTreeMap::from([
        ("answer.json".to_owned(), answers(&posted)),
        ("checked.json".to_owned(), checked(&posted)),
        ("group_post.json".to_owned(), posts(&grouped)),
        ("group_sum.json".to_owned(), sums(&grouped)),
    ])
}

fn context(round: &Round<'_>) -> StatementContext {
    StatementContext::new(&round.net.params, &round.session)
}

fn checked(round: &Round<'_>) -> Value {
    let case = |name: &str, server: u16, about: &[u32]| {
        let complaint = |client: &u32| {
            let mut inbox = round.inboxes[usize::from(server)].iter();
            let (post, _) = inbox.find(|(post, _)| post.client().0 == *client).expect("a client that posted");
            (ClientId(*client), post.statement().digest())
        };
        let key = round.net.server(ServerId(server)).signing_key();
        let complaints = about.iter().map(complaint).collect();
        let checked = Checked::sign(context(round), ServerId(server), complaints, key);
        json!({ "name": name, "hex": hex(&checked.to_bytes()), "server": server, "clients": about })
    };
    let cases = vec![
        case("server 0 has no complaint", 0, &[]),
        case("server 1 complains about client 0", 1, &[0]),
        case("server 0 complains about both", 0, &[0, 1]),
    ];
    object("Checked", cases)
}

fn answers(round: &Round<'_>) -> Value {
    let (post, envelope) = &round.inboxes[1][0];
    let client = post.client();
    let (opening, _) = unseal_opening(round.net.server(ServerId(1)), &round.net.params, post, envelope)
        .expect("an honest envelope");
    let key = &round.net.party(client).signing_key;
    let answer = Answer::sign(context(round), client, ServerId(1), &opening, &round.net.params, key);
    let case = json!({
        "name": format!("client {client} to server 1"),
        "hex": hex(&answer.to_bytes()),
        "client": client.0,
        "server": 1,
    });
    object("Answer", vec![case])
}

/// The posts behind the sums: those of an aggregated round, which parse as any other.
fn posts(round: &Round<'_>) -> Value {
    let posts = round.bulletin.iter().map(|(client, bytes)| {
        let (_, post) = round.fetch(*client).expect("a post that was taken");
        json!({
            "name": format!("client {client}"),
            "hex": hex(bytes),
            "statement_digest": post.head.signed.claim().digest().to_string(),
        })
    });
    object("ClientBulletinEntry", posts.collect())
}

fn sums(round: &Round<'_>) -> Value {
    let case = |name: &str, sum: &GroupSum| {
        let members: Vec<u32> = sum.claim().members.keys().map(|client| client.0).collect();
        json!({
            "name": name,
            "hex": hex(&sum.to_bytes(&round.net.params)),
            "aggregator": sum.aggregator().0,
            "members": members,
        })
    };
    let cases = vec![
        case("both clients", &round.group(AggregatorId(1), [0, 1])),
        case("client 1", &round.group(AggregatorId(0), [1])),
    ];
    object("GroupSum", cases)
}
