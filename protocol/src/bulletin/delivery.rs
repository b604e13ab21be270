//! The one root over everything a client delivers.
//!
//! With ciphertexts on the bulletin it is the RFC 6962 root over the S envelopes. In erasure mode it is the node over
//! two roots: that one on the left, the RFC 6962 root over the n lane items on the right. So a lane holds a client's
//! signature over the very bytes it was sent, and bad bytes that nobody signed accuse nobody.

use super::{Envelope, LaneItem, Mode, env_root, lane_item};
use crate::ids::{ClientId, EnvelopeKeyDigest, EnvelopeRoot, NodeId};
use crate::merkle::{self, MerkleError};

/// Which of the two trees a delivery is in.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    /// Sealed openings, one a server.
    Envelopes,
    /// Lane items, one a lane.
    Items,
}

/// Hashes in the path of leaf `index` of `size`.
pub(super) fn path_len(mode: Mode, index: u64, size: u64) -> Result<usize, MerkleError> {
    Ok(merkle::path_len(index, size)? + usize::from(mode == Mode::Erasure))
}

/// Whether `leaf` is number `index` of `size` on its side under `root`.
pub(super) fn is_under(
    root: &EnvelopeRoot,
    mode: Mode,
    side: Side,
    leaf: &[u8; 32],
    (index, size): (u64, u64),
    path: &[[u8; 32]],
) -> bool {
    let reached = match (mode, side) {
        (Mode::Erasure, side) => path.split_last().and_then(|(other, path)| {
            let own = merkle::root_of_path(leaf, index, size, path).ok()?;
            Some(if side == Side::Envelopes { pair(own, *other) } else { pair(*other, own) })
        }),
        (_, Side::Envelopes) => merkle::root_of_path(leaf, index, size, path).ok(),
        (_, Side::Items) => None,
    };
    reached.is_some_and(|reached| reached == *root.as_bytes())
}

/// The node over both roots.
fn pair(envelopes: [u8; 32], items: [u8; 32]) -> [u8; 32] {
    merkle::root(&[envelopes, items])
}

/// Addresses sealed openings in server order and lane item bodies in lane order, and computes the root that the client
/// signs in erasure mode.
pub fn delivery_root(
    client: ClientId,
    sealed: impl IntoIterator<Item = (EnvelopeKeyDigest, Vec<u8>)>,
    bodies: Vec<Vec<u8>>,
) -> (EnvelopeRoot, Vec<Envelope>, Vec<LaneItem>) {
    let (left, mut envelopes) = env_root(client, sealed);
    let leaves = lane_item::leaves(&bodies);
    let right = merkle::root(&leaves);
    envelopes.iter_mut().for_each(|envelope| envelope.path.push(right));
    let items = lane_item::address(client, bodies, &leaves, *left.as_bytes());
    (EnvelopeRoot::from_digest(pair(*left.as_bytes(), right)), envelopes, items)
}

/// Puts the item of `lane` together again from the bodies of all n. `envelopes` is the root over the envelopes, which
/// is the last hash in the path of every item of this client.
pub(crate) fn readdress(
    client: ClientId,
    lane: NodeId,
    mut bodies: Vec<Vec<u8>>,
    envelopes: [u8; 32],
) -> LaneItem {
    let leaves = lane_item::leaves(&bodies);
    let body = bodies.swap_remove(lane.0.into());
    lane_item::item(client, lane, body, &leaves, envelopes)
}
