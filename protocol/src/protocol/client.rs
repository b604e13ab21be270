//! A client's part of a round: encrypt the vector under a fresh key, share the key, commit to the shares, seal one
//! opening to each server, sign one statement over all of it.
//!
//! Every phase is public for callers that split or interleave them. All randomness is forked from the caller's
//! generator before anything runs in parallel, so the same seed gives the same bytes on any number of threads.

use super::params::ProtocolParams;
use crate::bulletin::{ClientBulletinEntry, Envelope, Mode, PostHead, PostStatement, SignedPost, env_root};
use crate::cs::{Commitment, FreshOpening};
use crate::fault::{Attribution, Fault};
use crate::ids::{ClientId, EnvelopeKeyDigest, RootDigest, ServerId, SessionId};
use crate::kahe::{KaheError, Key, fork};
use crate::pke::{self, EnvelopeContext};
use crate::plaintext::PlainPoly;
use crate::sig::SigningKey;
use chipmunk::ring::{Coeff, Cs, Poly};
use chipmunk::secret::Secret;
use rand_chacha::ChaCha20Rng;
use rand_core::{CryptoRng, SeedableRng};
use rayon::prelude::*;

/// A client's round was not run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ClientRoundError {
    /// The message vector does not fit the round.
    #[error("the message does not fit the round")]
    Message(#[source] KaheError),
    /// The round's ciphertexts travel another way.
    #[error("this function posts in direct and aggregated mode, the round is {mode}")]
    Mode {
        /// The round's mode.
        mode: Mode,
    },
    /// The round has no lanes.
    #[error("this function posts coded shares, the round is {mode}")]
    NoLanes {
        /// The round's mode.
        mode: Mode,
    },
    /// The servers are not those of the round, in the order of their ids.
    #[error("the round has servers 0 to {}, in this order; the list differs at position {position}", servers - 1)]
    Servers {
        /// Servers of the round.
        servers: u16,
        /// The first position that differs.
        position: usize,
    },
}

impl Fault for ClientRoundError {
    fn code(&self) -> &'static str {
        match self {
            Self::Message(_) => "client_message",
            Self::Mode { .. } => "client_mode",
            Self::NoLanes { .. } => "client_no_lanes",
            Self::Servers { .. } => "client_servers",
        }
    }

    fn attribution(&self) -> Attribution {
        Attribution::Caller
    }
}

/// What a client sends: the post to the bulletin, one envelope to each server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientRound {
    /// Who.
    pub client_id: ClientId,
    /// For the bulletin, or in aggregated mode for the aggregator.
    pub post: ClientBulletinEntry,
    /// For the servers, in the order of their ids.
    pub envelopes: Vec<Envelope>,
}

/// A fresh key. One key encrypts one vector, ever.
pub fn kahe_keygen(rng: &mut (impl CryptoRng + ?Sized), params: &ProtocolParams) -> Key {
    Key::generate(params.lattice(), rng)
}

/// The packed ciphertext of a message vector.
///
/// # Errors
/// `MessageShape` unless the vector has the round's polynomials with coefficients below the plaintext modulus.
pub fn kahe_encrypt(
    rng: &mut (impl CryptoRng + ?Sized),
    params: &ProtocolParams,
    key: &Key,
    message: &[PlainPoly],
) -> Result<Vec<u8>, KaheError> {
    params.kahe().encrypt(key, message, &fork(rng))
}

/// One share of the key for each server, in order.
pub fn shamir_share(
    rng: &mut (impl CryptoRng + ?Sized),
    params: &ProtocolParams,
    key: &Key,
) -> Vec<Secret<Poly<Cs, Coeff>>> {
    let secret = key.to_cs(params.lattice());
    params.sharing().share(params.lattice().cs(), &secret, &mut ChaCha20Rng::from_seed(*fork(rng)))
}

/// The commitment to the shares, and the opening of each server.
pub fn cs_commit(
    rng: &mut (impl CryptoRng + ?Sized),
    params: &ProtocolParams,
    shares: &[Secret<Poly<Cs, Coeff>>],
) -> (Commitment, Vec<FreshOpening>) {
    let seeds: Vec<_> = shares.iter().map(|_| fork(rng)).collect();
    params.cs().commit(shares, &seeds)
}

/// Seals each opening to its server. Where it belongs is bound into the envelope: deployment, epoch, session, client,
/// server, parameters and the digest of the commitment's root.
///
/// # Errors
/// `Servers` unless the list names the round's servers in the order of their ids.
pub fn seal_openings(
    rng: &mut (impl CryptoRng + ?Sized),
    params: &ProtocolParams,
    session: &SessionId,
    client: ClientId,
    root: RootDigest,
    openings: &[FreshOpening],
    servers: &[(ServerId, pke::PublicKey)],
) -> Result<Vec<Vec<u8>>, ClientRoundError> {
    let in_order =
        |position: &usize| servers.get(*position).is_some_and(|(id, _)| usize::from(id.0) == *position);
    let expected = usize::from(params.servers());
    if let Some(position) = (0..expected.max(servers.len())).find(|at| *at >= expected || !in_order(at)) {
        return Err(ClientRoundError::Servers { servers: params.servers(), position });
    }
    let seeds: Vec<_> = servers.iter().map(|_| fork(rng)).collect();
    // The seeds by reference: moved out, they would stay behind in the vector's memory.
    let seal = |((opening, (server, key)), seed): ((&FreshOpening, &(ServerId, pke::PublicKey)), _)| {
        let seed: &zeroize::Zeroizing<[u8; 32]> = seed;
        let context = envelope_context(params, session, client, *server, root);
        pke::seal(&mut ChaCha20Rng::from_seed(**seed), key, &context, &opening.to_bytes(params.cs()))
    };
    Ok(openings.par_iter().zip(servers).zip(&seeds).map(seal).collect())
}

pub(super) fn envelope_context(
    params: &ProtocolParams,
    session: &SessionId,
    client: ClientId,
    server: ServerId,
    root: RootDigest,
) -> EnvelopeContext {
    EnvelopeContext {
        deployment: *params.deployment(),
        epoch: *params.epoch(),
        session: *session,
        client,
        server,
        crs: *params.crs_digest(),
        root,
    }
}

/// One whole round of a client in direct or aggregated mode. It keeps nothing to answer complaints with: see
/// [`run_client_round_with_openings`].
///
/// # Errors
/// `Message` for a vector of another shape; `Servers` for another server list; `Mode` in erasure-coded rounds.
pub fn run_client_round(
    rng: &mut (impl CryptoRng + ?Sized),
    params: &ProtocolParams,
    session: &SessionId,
    client_id: ClientId,
    message: &[PlainPoly],
    servers: &[(ServerId, pke::PublicKey)],
    signing_key: &SigningKey,
) -> Result<ClientRound, ClientRoundError> {
    run_client_round_with_openings(rng, params, session, client_id, message, servers, signing_key)
        .map(|(round, _)| round)
}

/// [`run_client_round`] that also returns the opening of each server, in order: secrets, for an
/// [`AnswerGuard`](super::AnswerGuard) and nothing else.
///
/// # Errors
/// As [`run_client_round`].
pub fn run_client_round_with_openings(
    rng: &mut (impl CryptoRng + ?Sized),
    params: &ProtocolParams,
    session: &SessionId,
    client_id: ClientId,
    message: &[PlainPoly],
    servers: &[(ServerId, pke::PublicKey)],
    signing_key: &SigningKey,
) -> Result<(ClientRound, Vec<FreshOpening>), ClientRoundError> {
    if params.mode().roots() != 1 {
        return Err(ClientRoundError::Mode { mode: params.mode() });
    }
    let key = kahe_keygen(rng, params);
    let ciphertext = kahe_encrypt(rng, params, &key, message).map_err(ClientRoundError::Message)?;
    let (commitment, sealed, openings) = share_and_seal(rng, params, session, client_id, &key, servers)?;
    let (env_root, envelopes) = env_root(client_id, sealed);
    let statement = PostStatement::direct(params, session, client_id, &commitment, &ciphertext, env_root);
    let signed = SignedPost::sign(statement, signing_key);
    let post = ClientBulletinEntry { head: PostHead { signed, commitment }, ciphertext };
    Ok((ClientRound { client_id, post, envelopes }, openings))
}

/// A sealed opening, with the digest of the key it is sealed to.
pub(super) type Sealed = (EnvelopeKeyDigest, Vec<u8>);

/// The key's way to the servers: shared, committed to and sealed. With the openings, for who keeps them.
pub(super) fn share_and_seal(
    rng: &mut (impl CryptoRng + ?Sized),
    params: &ProtocolParams,
    session: &SessionId,
    client: ClientId,
    key: &Key,
    servers: &[(ServerId, pke::PublicKey)],
) -> Result<(Commitment, Vec<Sealed>, Vec<FreshOpening>), ClientRoundError> {
    let shares = shamir_share(rng, params, key);
    let (commitment, openings) = cs_commit(rng, params, &shares);
    let root = commitment.digest(params.lattice());
    let sealed = seal_openings(rng, params, session, client, root, &openings, servers)?;
    let keys = servers.iter().map(|(_, key)| key.digest());
    Ok((commitment, keys.zip(sealed).collect(), openings))
}
