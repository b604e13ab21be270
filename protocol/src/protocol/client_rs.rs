//! A client's part of an erasure-coded round: the ciphertext leaves it as n coded shares, one a lane, and its post is
//! constant size. Everything about keys and servers is as in [`client`](super::client).

use super::client::{ClientRoundError, kahe_encrypt, kahe_keygen, share_and_seal};
use super::lane_params::LaneCode;
use super::params::ProtocolParams;
use crate::bulletin::{Envelope, LaneItem, PostStatement, RsClientBulletinEntry, SignedPost, delivery_root};
use crate::cs::FreshOpening;
use crate::ids::{ClientId, NodeId, ServerId, SessionId};
use crate::pke;
use crate::plaintext::PlainPoly;
use crate::rs::RsError;
use crate::share_commitment::{LabelMemory, ShareCommitment, SharePath};
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
    // A systematic share is never there as a whole: nine megabytes, to be read twice, for the reference cell.
    let label = |memory: &mut LabelMemory, lane| {
        let mut label = params.begin_label(memory);
        rs.each_poly(ciphertext, NodeId(lane), |limbs| label.poly(limbs))?;
        Ok(label.finish())
    };
    let systematic: Vec<Result<_, RsError>> =
        (0..rs.needed()).into_par_iter().map_init(LabelMemory::default, label).collect();
    let mut labels = systematic.into_iter().collect::<Result<Vec<_>, _>>()?;
    let parity = rs.encode_parity(ciphertext)?;
    labels.extend(params.labels(&parity));
    let (commitment, paths) = params.commit_labels(labels);
    let mut bodies = std::mem::take(&mut memory.0);
    bodies.resize_with(paths.len(), Vec::new);
    let items: Vec<(NodeId, (Vec<u8>, &SharePath))> =
        (0..=u16::MAX).map(NodeId).zip(bodies.into_iter().zip(&paths)).collect();
    let body = |(lane, (body, path))| {
        item_body(code, path, body, |body| rs.pack_lane(ciphertext, lane, &parity, body))
    };
    Ok((commitment, items.into_par_iter().map(body).collect()))
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
