//! Servers that lie. Whatever a server publishes carries its own valid signature, unless the lie is the signature.

use super::Round;
use crate::bulletin::{CanonicalSet, ServerBulletinEntry, SumClaim, posts_digest};
use crate::cs::{AggregatedOpening, OpeningSum};
use crate::ids::{ClientId, CrsDigest, DeploymentId, EpochDigest, ServerId, SessionId};
use crate::protocol::unseal_opening;
use std::collections::BTreeMap;

/// What a server does wrong.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ServerLie {
    /// One coefficient of polynomial number `part` of the opening is one closer to zero: within every bound.
    Altered {
        /// In the order of transport: randomness, leaf digits, path digits.
        part: usize,
    },
    /// An honest sum, signed with this server's key in another server's name.
    InTheNameOf(ServerId),
    /// The sum of all but this client, under a claim of the whole set.
    Omits(ClientId),
    /// An opening that is valid elsewhere, under this round's claim.
    Opening(Box<ServerBulletinEntry>),
    /// An honest sum over another set, honestly stated.
    Over(CanonicalSet),
    /// The claim names other public parameters.
    WrongCrs,
    /// The claim names another deployment.
    WrongDeployment,
    /// The claim names another epoch.
    WrongEpoch,
    /// The claim names this session instead of the round's.
    WrongSession(SessionId),
}

/// What a server that has kept its inbox can answer over any set: it does not remember what it has answered.
fn answer(round: &Round<'_>, server: ServerId, set: &CanonicalSet) -> (SumClaim, AggregatedOpening) {
    let (params, identity) = (&round.net.params, round.net.server(server));
    let (mut sum, mut roots) = (OpeningSum::new(params.cs()), BTreeMap::new());
    for (post, envelope) in
        round.inboxes[usize::from(server.0)].iter().filter(|(p, _)| set.contains(p.client()))
    {
        let (_, verified) = unseal_opening(identity, params, post, envelope).expect("an honest inbox");
        sum.add(&verified);
        assert!(roots.insert(post.client(), *post.root()).is_none(), "one post a client");
    }
    assert_eq!(u32::try_from(roots.len()), Ok(set.count()), "an inbox that covers the set");
    let claim = SumClaim {
        deployment: *params.deployment(),
        epoch: *params.epoch(),
        session: round.session,
        crs: *params.crs_digest(),
        server,
        set: set.digest(),
        posts: posts_digest(&roots),
        clients: set.count(),
    };
    (claim, sum.finish(server.0))
}

/// The honest server's answer, with one lie put in.
pub(super) fn run(
    round: &Round<'_>,
    server: ServerId,
    set: &CanonicalSet,
    lie: &ServerLie,
) -> ServerBulletinEntry {
    let params = &round.net.params;
    let identity = round.net.server(server);
    let over = |set: &CanonicalSet| answer(round, server, set);
    let (claim, mut opening) = match lie {
        ServerLie::Omits(client) => {
            let others = set.clients().iter().copied().filter(|id| id != client);
            let others = CanonicalSet::new(others).expect("a set without one client");
            (over(set).0, over(&others).1)
        }
        ServerLie::Over(other) => over(other),
        _ => over(set),
    };
    let claim = match lie {
        ServerLie::Altered { part } => {
            let poly = opening.polys_mut().nth(*part).expect("a part of the opening");
            let at = poly.coefficients().iter().position(|c| *c != 0).unwrap_or(0);
            let coefficient = &mut poly.coefficients_mut()[at];
            *coefficient -= if *coefficient > 0 { 1 } else { -1 };
            claim
        }
        ServerLie::InTheNameOf(other) => SumClaim { server: *other, ..claim },
        ServerLie::Opening(elsewhere) => {
            opening = elsewhere.opening().clone();
            claim
        }
        ServerLie::Omits(_) | ServerLie::Over(_) => claim,
        ServerLie::WrongCrs => SumClaim { crs: CrsDigest::from_digest([0xCC; 32]), ..claim },
        ServerLie::WrongDeployment => {
            SumClaim { deployment: DeploymentId::from_name("another deployment"), ..claim }
        }
        ServerLie::WrongEpoch => SumClaim { epoch: EpochDigest::from_digest([0xEE; 32]), ..claim },
        ServerLie::WrongSession(session) => SumClaim { session: *session, ..claim },
    };
    ServerBulletinEntry::sign(claim, opening, params, identity.signing_key())
}
