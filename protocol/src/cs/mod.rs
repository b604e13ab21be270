//! The key-share commitment: a hiding vector commitment whose openings add.
//!
//! Leaf i commits to server i's key share s_i: `r_i = Expand(seed_i, i)` in [-beta, beta]^(5 N),
//! `v_i = (<a, r_i>, <b, r_i> + s_i)` in R_cs^2, `u_i` = its six digit polynomials, `label_i = <g, u_i>` in R_hvc.
//! The commitment is the root of the homomorphic tree over the labels.
//!
//! A *fresh* opening is (seed, share, siblings): the rest is recomputed. A *summed* opening transports the sums of r,
//! of u and of the path digits, with bounds that follow from the number of clients; the share sum follows from it.

mod opening;
#[cfg(test)]
mod tests;

pub use opening::{AggregatedOpening, FreshOpening, OpeningSum, SummedLayout};

use crate::fault::{Attribution, Fault};
use crate::ids::RootDigest;
use crate::lattice::{CrsSeed, Lattice};
use chipmunk::digits::{DIGITS, DigitBase};
use chipmunk::hash::{HashMemory, RingHash};
use chipmunk::ring::expand::Expander;
use chipmunk::ring::{Coeff, Cs, CsAux, Hvc, Ntt, Poly, ShortPoly, sample};
use chipmunk::secret::Secret;
use chipmunk::tree::{Level, PathError, TreeHash, depth};
use rayon::prelude::*;
use sha2::{Digest, Sha256};
use std::sync::Arc;
use zeroize::{Zeroize, Zeroizing};

/// Ring elements of the leaf vector: 1 + mu_cs.
const LEAF_ELEMENTS: usize = 2;

/// Digit polynomials of a leaf.
const LEAF_DIGITS: usize = LEAF_ELEMENTS * DIGITS;

/// An opening does not open its commitment.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OpeningError {
    /// The digits do not recompose to the commitment's first equation.
    #[error("the leaf digits do not recompose to the inner product with the randomness")]
    Equation,
    /// A coefficient is larger than the number of clients allows.
    #[error("{part}: a coefficient of magnitude {norm}, at most {bound} is allowed")]
    Norm {
        /// Which part of the opening.
        part: &'static str,
        /// Largest magnitude found.
        norm: u32,
        /// Largest magnitude allowed.
        bound: u32,
    },
    /// The path does not fit the tree.
    #[error("the path does not fit the tree")]
    Path(#[source] PathError),
    /// The path leads to another root.
    #[error("the opening leads to another root than the committed one")]
    Root,
}

impl Fault for OpeningError {
    fn code(&self) -> &'static str {
        match self {
            Self::Equation => "opening_equation",
            Self::Norm { .. } => "opening_norm",
            Self::Path(_) => "opening_path",
            Self::Root => "opening_root",
        }
    }

    /// An opening is somebody's, but only the caller knows whose.
    fn attribution(&self) -> Attribution {
        Attribution::Nobody
    }
}

/// A commitment: the root of the tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commitment(Poly<Hvc, Coeff>);

impl Commitment {
    /// The sum of commitments: what summed openings open.
    pub(crate) const fn of_sum(root: Poly<Hvc, Coeff>) -> Self {
        Self(root)
    }

    /// The root.
    pub const fn root(&self) -> &Poly<Hvc, Coeff> {
        &self.0
    }

    /// The packed root: 4352 bytes under P300.
    pub fn to_bytes(&self, lattice: &Lattice) -> Vec<u8> {
        let mut out = Vec::with_capacity(lattice.hvc.packed_len());
        lattice.hvc.pack(&self.0, &mut out);
        out
    }

    /// Reads a packed root.
    ///
    /// # Errors
    /// For a wrong length or a coefficient at or above q_hvc.
    pub fn from_bytes(lattice: &Lattice, bytes: &[u8]) -> Result<Self, chipmunk::ring::pack::PackError> {
        lattice.hvc.unpack(bytes).map(Self)
    }

    /// SHA-256 of the packed root.
    pub fn digest(&self, lattice: &Lattice) -> RootDigest {
        RootDigest::from_digest(Sha256::digest(self.to_bytes(lattice)).into())
    }
}

/// The public parameters for one number of servers.
#[derive(Debug)]
pub struct CsParams {
    lattice: Arc<Lattice>,
    servers: u16,
    a: Vec<Poly<CsAux, Ntt>>,
    b: Vec<Poly<CsAux, Ntt>>,
    leaf: RingHash<Hvc>,
    tree: TreeHash<Hvc>,
    base: DigitBase,
}

/// A fresh opening that was walked to its root, ready to be added. Secret until it is summed: it determines the share.
pub struct VerifiedOpening {
    index: u16,
    r: Vec<ShortPoly>,
    u: [[ShortPoly; DIGITS]; LEAF_ELEMENTS],
    levels: Vec<Level>,
}

impl std::fmt::Debug for VerifiedOpening {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("VerifiedOpening(..)")
    }
}

impl Drop for VerifiedOpening {
    fn drop(&mut self) {
        self.r.zeroize();
        self.u.zeroize();
        self.levels.zeroize();
    }
}

/// Memory for one opening after another, which costs more to get and to wipe than to use. It holds the last one's
/// secrets, verified or not, until the next comes; wiped at the end.
pub(crate) struct OpeningMemory {
    opening: VerifiedOpening,
    factors: Zeroizing<Vec<Poly<CsAux, Ntt>>>,
    hash: HashMemory<Hvc>,
}

impl OpeningMemory {
    /// Memory for the openings of these parameters.
    pub fn new(params: &CsParams) -> Self {
        let kappa = params.lattice.set.kappa;
        let zero = || std::array::from_fn(|_| ShortPoly::zero());
        let opening = VerifiedOpening {
            index: 0,
            r: vec![ShortPoly::zero(); kappa],
            u: std::array::from_fn(|_| zero()),
            levels: Vec::with_capacity(params.depth()),
        };
        let factors = Zeroizing::new((0..kappa).map(|_| Poly::zero()).collect());
        Self { opening, factors, hash: HashMemory::default() }
    }

    /// What the last verification left, for whoever saw it succeed.
    pub(crate) fn into_opening(self) -> VerifiedOpening {
        self.opening
    }
}

impl std::fmt::Debug for OpeningMemory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("OpeningMemory(..)")
    }
}

impl CsParams {
    /// Expands the public parameters for `servers` leaves.
    pub fn new(lattice: Arc<Lattice>, seed: &CrsSeed, servers: u16) -> Self {
        let row = |label| {
            let expander = seed.expander(label);
            (0..)
                .take(lattice.set.kappa)
                .map(|i| lattice.products.factor(&sample::uniform_coeff(lattice.cs(), &expander, i)))
                .collect()
        };
        let leaf = RingHash::expand(&lattice.hvc, &seed.expander("panetiere/cs/leaf-hash/v1"), LEAF_DIGITS);
        let tree = TreeHash::expand(
            &lattice.hvc,
            &seed.expander("panetiere/cs/tree-hash/v1"),
            DigitBase::new(lattice.set.hvc_base),
        );
        let (a, b) = (row("panetiere/cs/a/v1"), row("panetiere/cs/b/v1"));
        let base = DigitBase::new(lattice.set.cs_base);
        Self { servers, a, b, leaf, tree, base, lattice }
    }

    /// The rings.
    pub fn lattice(&self) -> &Arc<Lattice> {
        &self.lattice
    }

    /// Number of servers, that is of leaves.
    pub const fn servers(&self) -> u16 {
        self.servers
    }

    /// Levels of the tree.
    pub fn depth(&self) -> usize {
        depth(self.servers.into())
    }

    /// Bytes of a fresh opening: seed, share, one sibling a level.
    pub fn fresh_opening_len(&self) -> usize {
        32 + self.lattice.cs().packed_len() + self.depth() * self.lattice.hvc.packed_len()
    }

    /// The sizes and bounds of an opening summed over `clients`.
    pub fn summed_layout(&self, clients: u32) -> SummedLayout {
        SummedLayout::new(self.lattice.set, self.depth(), clients)
    }

    /// Everything that follows from a fresh opening but its path goes to `memory`; returned is the leaf's label.
    fn leaf(
        &self,
        index: u16,
        seed: &[u8; 32],
        share: &Poly<Cs, Coeff>,
        memory: &mut OpeningMemory,
    ) -> Poly<Hvc, Coeff> {
        let Lattice { products, hvc, set, .. } = &*self.lattice;
        let OpeningMemory { opening: VerifiedOpening { r, u, .. }, factors, hash } = memory;
        let mut label = b"panetiere/cs/randomness/v1/".to_vec();
        label.extend_from_slice(&index.to_le_bytes());
        let expander = Expander::new(seed, &label);
        for ((k, r), factor) in (0..).zip(r.iter_mut()).zip(factors.iter_mut()) {
            sample::bounded_into(&expander, k, set.beta, r);
            products.short_factor_into(r, factor);
        }
        let mut v = Zeroizing::new([products.dot(&self.a, factors), products.dot(&self.b, factors)]);
        products.cs().add_assign(&mut v[1], share);
        v.iter().zip(u.iter_mut()).for_each(|(v, u)| self.base.decompose_into(products.cs(), v, u));
        self.leaf.hash_in(hvc, u.as_flattened(), hash)
    }

    /// Commits to one share per server, with one seed each; the openings come back in server order.
    ///
    /// # Panics
    /// Unless there are as many shares and seeds as servers: both come from this crate.
    pub fn commit(
        &self,
        shares: &[Secret<Poly<Cs, Coeff>>],
        seeds: &[Zeroizing<[u8; 32]>],
    ) -> (Commitment, Vec<FreshOpening>) {
        let servers = usize::from(self.servers);
        assert!(shares.len() == servers && seeds.len() == servers, "one share and one seed per server");
        let labels = (0..self.servers)
            .into_par_iter()
            .zip(shares)
            .zip(seeds)
            .map_init(
                || OpeningMemory::new(self),
                |memory, ((index, share), seed)| self.leaf(index, seed, share.expose(), memory),
            )
            .collect();
        let tree = self.tree.build(&self.lattice.hvc, labels);
        let openings = shares
            .iter()
            .zip(seeds)
            .enumerate()
            .map(|(i, (share, seed))| FreshOpening::new(**seed, share.expose().clone(), tree.siblings(i)))
            .collect();
        (Commitment(tree.root().clone()), openings)
    }

    /// Checks a fresh opening of leaf `index` against the digest of the committed root.
    ///
    /// # Errors
    /// `Root` if it leads elsewhere.
    ///
    /// # Panics
    /// If `index` is no server: callers have it from their own configuration.
    pub fn verify_fresh(
        &self,
        index: u16,
        opening: &FreshOpening,
        root: &RootDigest,
    ) -> Result<VerifiedOpening, OpeningError> {
        let mut memory = OpeningMemory::new(self);
        self.verify_fresh_in(index, opening, root, &mut memory)?;
        Ok(memory.into_opening())
    }

    /// [`verify_fresh`](Self::verify_fresh) in memory that the caller keeps.
    ///
    /// # Errors
    /// As [`verify_fresh`](Self::verify_fresh).
    ///
    /// # Panics
    /// As [`verify_fresh`](Self::verify_fresh).
    pub(crate) fn verify_fresh_in<'m>(
        &self,
        index: u16,
        opening: &FreshOpening,
        root: &RootDigest,
        memory: &'m mut OpeningMemory,
    ) -> Result<&'m VerifiedOpening, OpeningError> {
        assert!(index < self.servers, "server {index} of {}", self.servers);
        let label = self.leaf(index, opening.seed(), opening.share(), memory);
        let OpeningMemory { opening: verified, hash, .. } = memory;
        verified.index = index;
        let (at, siblings) = ((index.into(), label), opening.siblings());
        let walked = self.tree.walk_in(&self.lattice.hvc, at, siblings, &mut verified.levels, hash);
        if Commitment(walked).digest(&self.lattice) == *root { Ok(verified) } else { Err(OpeningError::Root) }
    }

    /// Checks a summed opening of leaf `index` over `clients` commitments against the sum of their roots, and returns
    /// the sum of the shares.
    ///
    /// # Errors
    /// `Norm` for a coefficient beyond the bounds of `clients` fresh openings; `Equation` or `Root` if the opening
    /// does not open the sum; `Path` if a path digit is out of bounds.
    ///
    /// # Panics
    /// If `index` is no server.
    pub fn verify_aggregated(
        &self,
        index: u16,
        clients: u32,
        opening: &AggregatedOpening,
        root_sum: &Poly<Hvc, Coeff>,
    ) -> Result<Poly<Cs, Coeff>, OpeningError> {
        assert!(index < self.servers, "server {index} of {}", self.servers);
        let Lattice { products, hvc, .. } = &*self.lattice;
        let layout = self.summed_layout(clients);
        gate("randomness", &opening.r, layout.r_bound)?;
        gate("leaf digits", &opening.u, layout.u_bound)?;
        let factors: Vec<_> = opening.r.iter().map(|r| products.short_factor(r)).collect();
        let [first, second] = opening.u_elements(&self.base, products.cs());
        if products.dot(&self.a, &factors) != first {
            return Err(OpeningError::Equation);
        }
        let mut share = second;
        products.cs().sub_assign(&mut share, &products.dot(&self.b, &factors));
        let label = self.leaf.hash(hvc, &opening.u);
        let leaf = (usize::from(index), usize::from(self.servers));
        let root = self
            .tree
            .walk_sum(hvc, leaf, label, &opening.path, layout.path_bound)
            .map_err(OpeningError::Path)?;
        if root == *root_sum { Ok(share) } else { Err(OpeningError::Root) }
    }
}

/// Refuses coefficients beyond a bound.
pub(crate) fn gate(part: &'static str, polys: &[ShortPoly], bound: u32) -> Result<(), OpeningError> {
    if polys.iter().all(|poly| poly.is_within(bound)) {
        return Ok(());
    }
    let norm = polys.iter().map(ShortPoly::norm).fold(0, u32::max);
    Err(OpeningError::Norm { part, norm, bound })
}
