//! The lanes of a deployment: code, share commitment, and the exact sizes of what they put on the wire.

use super::params::Dimensions;
use crate::bulletin::{LaneBulletinEntry, LaneItem, RsClientBulletinEntry};
use crate::lattice::{CrsSeed, Lattice};
use crate::merkle;
use crate::rs::RsParams;
use crate::share_commitment::{
    ShareCommitmentParams, ShareLayout, fresh_path_packed_len, lane_post_packed_len,
};
use chipmunk::params::ParameterSet;
use chipmunk::ring::pack::packed_len;
use chipmunk::tree::depth;
use std::sync::{Arc, OnceLock};

/// Any k of n lanes carry a ciphertext.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneShape {
    /// k: lanes that suffice.
    pub needed: u16,
    /// n: lanes there are.
    pub lanes: u16,
}

/// How ciphertexts are coded into shares and committed to, in erasure mode.
#[derive(Debug)]
pub struct LaneCode {
    shape: LaneShape,
    rs: RsParams,
    lattice: Arc<Lattice>,
    seed: CrsSeed,
    /// Expanded when it is first needed: servers never need it, and nobody does before a length was checked.
    commitment: OnceLock<ShareCommitmentParams>,
}

impl LaneCode {
    /// The code of this shape for ciphertexts of `polys` polynomials.
    pub(super) fn new(lattice: &Arc<Lattice>, seed: &CrsSeed, shape: LaneShape, polys: usize) -> Self {
        let LaneShape { needed, lanes } = shape;
        let rs = RsParams::new(Arc::clone(lattice), needed, lanes, polys);
        Self { shape, rs, lattice: Arc::clone(lattice), seed: *seed, commitment: OnceLock::new() }
    }

    /// k and n.
    pub const fn shape(&self) -> LaneShape {
        self.shape
    }

    /// The code.
    pub const fn rs(&self) -> &RsParams {
        &self.rs
    }

    /// The share commitment; the first call expands its public parameters.
    pub fn commitment(&self) -> &ShareCommitmentParams {
        self.commitment.get_or_init(|| {
            let lattice = Arc::clone(&self.lattice);
            ShareCommitmentParams::new(lattice, &self.seed, self.shape.lanes, self.rs.block_polys())
        })
    }

    /// The sizes and bounds of a share summed over `clients`. Expands nothing.
    pub fn summed_layout(&self, clients: u32) -> ShareLayout {
        let (set, kernels) = (self.lattice.set, self.lattice.kernels());
        ShareLayout::new(set, self.rs.block_polys(), depth(self.shape.lanes.into()), clients, kernels)
    }

    /// Bytes of a lane item's body: packed share and siblings.
    pub fn body_len(&self) -> usize {
        self.rs.share_len() + fresh_path_packed_len(self.lattice.set, self.shape.lanes)
    }
}

/// Bytes of each object that lanes add to a round. "Body" is without framing, ids, digests and signatures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneWireSizes {
    /// Polynomials of one share.
    pub block_polys: usize,
    /// A client's whole post: independent of the message.
    pub post: usize,
    /// A lane item, body: share and siblings.
    pub item_body: usize,
    /// All lane items of one client, framed.
    pub items: usize,
    /// A lane's summed opening, body.
    pub lane_sum_body: usize,
    /// A lane's whole answer.
    pub lane_sum: usize,
}

/// Exact sizes of what lanes add to a round of `clients`, without expanding any public parameters.
///
/// # Panics
/// If `shape.needed` is 0: setup refuses such a shape.
pub fn lane_wire_sizes(
    set: &ParameterSet,
    dimensions: Dimensions,
    shape: LaneShape,
    clients: u32,
) -> LaneWireSizes {
    let LaneShape { needed, lanes } = shape;
    let polys = usize::try_from(dimensions.polys).expect("usize has at least 32 bits");
    let block_polys = polys.div_ceil(needed.into());
    let share = block_polys * 2 * packed_len(set.wire_limb_bits);
    let item_body = share + fresh_path_packed_len(set, lanes);
    let item = |lane: u16| {
        let path = merkle::path_len(lane.into(), lanes.into()).expect("a lane of the shape");
        LaneItem::framed_len(item_body, path + 1)
    };
    let lane_sum_body = lane_post_packed_len(set, block_polys, lanes, clients);
    LaneWireSizes {
        block_polys,
        post: RsClientBulletinEntry::packed_len(set),
        item_body,
        items: (0..lanes).map(item).sum(),
        lane_sum_body,
        lane_sum: LaneBulletinEntry::framed_len(lane_sum_body),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bulletin::Mode;
    use crate::kahe::Plaintext;
    use crate::protocol::round_wire_sizes;
    use chipmunk::params::P300;

    #[test]
    fn sizes_of_the_reference_cell() {
        // 300 clients of 16 KB, 16 servers, 14-of-16 lanes.
        let dimensions = Dimensions { servers: 16, threshold: 14, polys: 553, plaintext: Plaintext::Prime };
        let shape = LaneShape { needed: 14, lanes: 16 };
        let lanes = lane_wire_sizes(&P300, dimensions, shape, 300);
        let round = round_wire_sizes(&P300, dimensions, Mode::Erasure, 300);
        assert_eq!(lanes.block_polys, 40);
        assert_eq!(lanes.item_body, 430_080 + 21_504);
        // Type and version, client, lane, then four siblings among the lanes and the root over the envelopes.
        let item = lanes.item_body + 4 + 4 + 2 + 5 * 32;
        assert_eq!((item, lanes.items), (451_754, 16 * 451_754));
        assert_eq!(lanes.post, 4 + 273 + 64 + 4352 + 5376);
        assert_eq!(round.post, lanes.post);
        assert_eq!(lanes.lane_sum_body, 778_240 + 81_920);
        assert_eq!(lanes.lane_sum, 860_160 + 4 + 199 + 64);
        assert_eq!(round.server_sum_body, 115_200);
        let reads = 16 * lanes.lane_sum + 300 * lanes.post + 16 * round.server_sum;
        assert_eq!(reads, 16 * 860_427 + 300 * 10_069 + 16 * 115_466);
        // The limits of the issue.
        assert!(item <= 452_000 && lanes.items <= 7_300_000 && reads <= 19_200_000);
    }

    #[test]
    fn a_post_does_not_grow_with_the_message() {
        let shape = LaneShape { needed: 2, lanes: 4 };
        let of = |polys| {
            let dimensions = Dimensions { servers: 4, threshold: 3, polys, plaintext: Plaintext::Prime };
            lane_wire_sizes(&P300, dimensions, shape, 300)
        };
        assert_eq!(of(1).post, of(131_072).post);
        assert!(of(1).item_body < of(100).item_body);
    }
}
