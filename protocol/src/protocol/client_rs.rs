//! A client's part of an erasure-coded round: the ciphertext leaves it as n coded shares, one a lane, and its post is
//! constant size. Everything about keys and servers is as in [`client`](super::client).

use super::client::{ClientRoundError, kahe_encrypt, kahe_keygen, share_and_seal};
use super::lane_params::LaneCode;
use super::params::ProtocolParams;
use crate::bulletin::{Envelope, LaneItem, PostStatement, RsClientBulletinEntry, SignedPost, delivery_root};
use crate::cs::FreshOpening;
use crate::ids::{ClientId, ServerId, SessionId};
use crate::pke;
use crate::plaintext::PlainPoly;
use crate::rs::RsError;
use crate::share_commitment::{AT_ONCE, LabelSums, ShareCommitment, SharePath};
use crate::sig::SigningKey;
use rand_core::CryptoRng;
use rayon::prelude::*;

/// What a client sends: the post to the bulletin, one envelope to each server, one item to each lane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RsClientRound {
    /// Who.
    pub client_id: ClientId,
    /// For the bulletin.
    pub post: RsClientBulletinEntry,
    /// For the servers, in the order of their ids.
    pub envelopes: Vec<Envelope>,
    /// For the lanes, in the order of their ids.
    pub items: Vec<LaneItem>,
}

/// Memory for the bodies of a client's items, kept from one round to the next: seven megabytes for the reference cell,
/// which are slow to get anew each time. What is in it was sent, and is public.
#[derive(Debug, Default)]
pub struct ItemMemory(Vec<Vec<u8>>);

impl ItemMemory {
    /// Takes back the memory of items that were sent.
    pub fn reclaim(&mut self, items: Vec<LaneItem>) {
        self.0 = items.into_iter().map(|item| item.body).collect();
    }
}

/// Codes a packed ciphertext, commits to the shares, and returns the body of each lane's item: packed share and path.
///
/// # Errors
/// `Malformed` for bytes that are no ciphertext of this code.
pub fn code_ciphertext(
    code: &LaneCode,
    ciphertext: &[u8],
) -> Result<(ShareCommitment, Vec<Vec<u8>>), RsError> {
    code_ciphertext_in(code, ciphertext, &mut ItemMemory::default())
}

/// [`code_ciphertext`], into memory of an earlier round.
///
/// # Errors
/// As [`code_ciphertext`].
pub fn code_ciphertext_in(
    code: &LaneCode,
    ciphertext: &[u8],
    memory: &mut ItemMemory,
) -> Result<(ShareCommitment, Vec<Vec<u8>>), RsError> {
    let (rs, params) = (code.rs(), code.commitment());
    let (share_len, block, mut bodies) = (rs.share_len(), rs.block_polys(), std::mem::take(&mut memory.0));
    bodies.resize_with(rs.lanes().into(), Vec::new);
    bodies.iter_mut().for_each(|body| body.resize(code.body_len(), 0));
    // Strip by strip through all shares: a share is never there as a whole. They are nine megabytes for the reference
    // cell, which would be read twice, and the row of the leaf hash goes on with the strips.
    let mut strips: Vec<Vec<&mut [u8]>> = Vec::new();
    strips.resize_with(block.div_ceil(AT_ONCE), Vec::new);
    for body in &mut bodies {
        let parts = body[..share_len].chunks_mut(AT_ONCE * (share_len / block));
        strips.iter_mut().zip(parts).for_each(|(strip, part)| strip.push(part));
    }
    let strip = |coding, (at, parts)| code_strip(code, ciphertext, coding, at, parts);
    let none = || (params.begin_labels(), Vec::new());
    let coded: Result<LabelSums<'_>, RsError> = (strips.into_par_iter().enumerate())
        .try_fold(none, strip)
        .map(|coded| coded.map(|(labels, _)| labels))
        .try_reduce_with(|labels, others| Ok(labels.add(&others)))
        .expect("a block has polynomials");
    let (commitment, paths) = match coded {
        Ok(labels) => params.commit_labels(labels.finish()),
        // Which one is told does not depend on which was seen first.
        Err(error) => return Err(rs.encode(ciphertext).err().unwrap_or(error)),
    };
    for (body, path) in bodies.iter_mut().zip(&paths) {
        body.truncate(share_len);
        path.encode(params, body);
    }
    Ok((commitment, bodies))
}

/// Codes strip number `at`, takes it into the labels and packs it; the words are memory.
fn code_strip<'a>(
    code: &LaneCode,
    ciphertext: &[u8],
    (mut labels, mut words): (LabelSums<'a>, Vec<u32>),
    at: usize,
    parts: Vec<&mut [u8]>,
) -> Result<(LabelSums<'a>, Vec<u32>), RsError> {
    let rs = code.rs();
    let polys = at * AT_ONCE..rs.block_polys().min((at + 1) * AT_ONCE);
    rs.encode_strip(ciphertext, polys.clone(), &mut words)?;
    let lanes = parts.into_iter().zip(words.chunks_exact(words.len() / usize::from(rs.lanes())));
    for (lane, (part, limbs)) in lanes.enumerate() {
        labels.take(lane, polys.start, limbs);
        rs.pack_strip(ciphertext, lane, &polys, &words, part);
    }
    Ok((labels, words))
}

/// The body of one lane item, in place of what `body` held: the packed share, which `pack` appends, then the path.
pub(super) fn item_body(
    code: &LaneCode,
    path: &SharePath,
    mut body: Vec<u8>,
    pack: impl FnOnce(&mut Vec<u8>),
) -> Vec<u8> {
    body.clear();
    body.reserve_exact(code.body_len());
    pack(&mut body);
    path.encode(code.commitment(), &mut body);
    body
}

/// One whole round of a client in erasure mode. It keeps nothing to answer complaints with: see
/// [`run_client_round_rs_with_openings`].
///
/// # Errors
/// `Message` for a vector of another shape; `Servers` for another server list; `NoLanes` in a round without lanes.
pub fn run_client_round_rs(
    rng: &mut (impl CryptoRng + ?Sized),
    params: &ProtocolParams,
    session: &SessionId,
    client_id: ClientId,
    message: &[PlainPoly],
    servers: &[(ServerId, pke::PublicKey)],
    signing_key: &SigningKey,
) -> Result<RsClientRound, ClientRoundError> {
    run_client_round_rs_with_openings(rng, params, session, client_id, message, servers, signing_key)
        .map(|(round, _)| round)
}

/// [`run_client_round_rs`] that also returns the opening of each server, in order: secrets, for an
/// [`AnswerGuard`](super::AnswerGuard) and nothing else.
///
/// # Errors
/// As [`run_client_round_rs`].
pub fn run_client_round_rs_with_openings(
    rng: &mut (impl CryptoRng + ?Sized),
    params: &ProtocolParams,
    session: &SessionId,
    client_id: ClientId,
    message: &[PlainPoly],
    servers: &[(ServerId, pke::PublicKey)],
    signing_key: &SigningKey,
) -> Result<(RsClientRound, Vec<FreshOpening>), ClientRoundError> {
    let code = params.lane_code().ok_or(ClientRoundError::NoLanes { mode: params.mode() })?;
    let key = kahe_keygen(rng, params);
    let ciphertext = kahe_encrypt(rng, params, &key, message).map_err(ClientRoundError::Message)?;
    let (share_commitment, bodies) =
        code_ciphertext(code, &ciphertext).expect("an encryption of this round's shape was just packed");
    let (commitment, sealed, openings) = share_and_seal(rng, params, session, client_id, &key, servers)?;
    let (root, envelopes, items) = delivery_root(client_id, sealed, bodies);
    let roots = (&commitment, &share_commitment);
    let statement = PostStatement::erasure(params, session, client_id, roots, &ciphertext, root);
    let signed = SignedPost::sign(statement, signing_key);
    let post = RsClientBulletinEntry { signed, commitment, share_commitment };
    Ok((RsClientRound { client_id, post, envelopes, items }, openings))
}
