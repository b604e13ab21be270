//! Who is named when a party lies. `matrix` is the table of (party, lie); the other modules are its cases and what does not
//! fit a table.
//!
//! Every case states the error's code and its attribution. The executors add what holds for all of them: nobody but
//! the liar is ever named, and where t honest servers remain the round gives the same plaintext as without the lie.
//!
//! Four servers, any three of which recover; four clients. Server 2 lies, client 1 lies.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod aggregated;
mod clients;
mod matrix;
mod servers;
mod sets;
mod transit;

#[path = "../lanes/net.rs"]
mod lane_net;

use panetiere::bulletin::{CanonicalSet, ServerBulletinEntry};
use panetiere::fault::{Attribution, Fault};
use panetiere::ids::{ClientId, ServerId};
use panetiere::protocol::Recovered;
use panetiere::testing::{Net, Round, deployment};
use std::sync::LazyLock;

const LIAR: ServerId = ServerId(2);
const CHEAT: ClientId = ClientId(1);
const NOBODY: Attribution = Attribution::Nobody;

static NET: LazyLock<Net> = LazyLock::new(|| deployment(100).servers(4).threshold(3).clients(4).build());

/// One finished earlier round of the deployment, and one finished round to lie in.
struct Scene {
    earlier: Round<'static>,
    earlier_sums: Vec<ServerBulletinEntry>,
    round: Round<'static>,
    sums: Vec<ServerBulletinEntry>,
    set: CanonicalSet,
}

static SCENE: LazyLock<Scene> = LazyLock::new(|| {
    let set = NET.all();
    let (mut earlier, mut round) = (NET.posted(0), NET.posted(1));
    let (earlier_sums, sums) = (earlier.sums(&set), round.sums(&set));
    Scene { earlier, earlier_sums, round, sums, set }
});

fn names_a_party(attribution: Attribution) -> bool {
    matches!(attribution, Attribution::Client(_) | Attribution::Server(_))
}

/// Codes of everything a recovery set aside: servers that it named, entries that name nobody.
fn findings(recovered: &Recovered) -> (Vec<(ServerId, &'static str)>, Vec<&'static str>) {
    let culprits = recovered.culprits.iter().map(|c| (c.server, c.fault.code())).collect();
    (culprits, recovered.discarded.iter().map(Fault::code).collect())
}
