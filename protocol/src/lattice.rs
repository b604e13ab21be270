//! The rings of one parameter set, joined, and the seed that all public parameters expand from.

use crate::ids::{CrsDigest, DeploymentId, EpochDigest, tagged_sha256};
use chipmunk::params::ParameterSet;
use chipmunk::ring::backend::Kernels;
use chipmunk::ring::crt::CsProducts;
use chipmunk::ring::expand::Expander;
use chipmunk::ring::{Cs, Hvc, Kahe, Lane, RingContext, Wire};

/// Every ring of one parameter set with its tables. Made once, shared by reference.
#[derive(Debug)]
pub struct Lattice {
    pub(crate) set: &'static ParameterSet,
    pub(crate) hvc: RingContext<Hvc>,
    pub(crate) products: CsProducts,
    pub(crate) kahe: RingContext<Kahe>,
    pub(crate) lane: RingContext<Lane>,
    pub(crate) wire: RingContext<Wire>,
}

impl Lattice {
    /// Derives the tables of `set`, to be computed with `kernels`.
    pub fn new(set: &'static ParameterSet, kernels: &'static Kernels) -> Self {
        let kahe = RingContext::new(&set.kahe, kernels);
        let wire = RingContext::new(&set.wire, kernels);
        Self {
            set,
            hvc: RingContext::new(&[set.hvc], kernels),
            products: CsProducts::new(
                RingContext::new(&[set.cs], kernels),
                RingContext::new(&set.cs_aux, kernels),
            ),
            kahe,
            lane: RingContext::new(&[set.lane], kernels),
            wire,
        }
    }

    /// The parameter set.
    pub const fn set(&self) -> &'static ParameterSet {
        self.set
    }

    /// The kernels in use.
    pub fn kernels(&self) -> &'static Kernels {
        self.hvc.kernels()
    }

    /// The ring of the key shares.
    pub const fn cs(&self) -> &RingContext<Cs> {
        self.products.cs()
    }

    /// The ring of the commitments.
    pub const fn hvc(&self) -> &RingContext<Hvc> {
        &self.hvc
    }

    /// The ring of the share commitments.
    pub const fn lane(&self) -> &RingContext<Lane> {
        &self.lane
    }

    /// Bytes of one packed ciphertext polynomial.
    pub fn wire_poly_len(&self) -> usize {
        self.wire.packed_len()
    }
}

/// The seed of a deployment's public parameters: SHA-256("panetiere/crs/v1", deployment id, parameter set).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CrsSeed([u8; 32]);

impl CrsSeed {
    /// The seed of this deployment under this parameter set.
    pub fn derive(deployment: &DeploymentId, set: &ParameterSet) -> Self {
        Self(tagged_sha256("panetiere/crs/v1", &[deployment.as_bytes(), set.name.as_bytes()]))
    }

    /// The expander of one family of public values.
    pub(crate) fn expander(&self, label: &str) -> Expander {
        Expander::new(&self.0, label.as_bytes())
    }

    /// The expander of the encryption's public vector: another one in every epoch, so that nothing can be precomputed
    /// against all rounds.
    pub(crate) fn epoch_expander(&self, epoch: &EpochDigest) -> Expander {
        let mut label = b"panetiere/kahe/v1/".to_vec();
        label.extend_from_slice(epoch.as_bytes());
        Expander::new(&self.0, &label)
    }

    /// The digest that every signed statement carries: parameter set, dimensions, seed.
    pub(crate) fn digest(&self, set: &ParameterSet, dimensions: &[u64]) -> CrsDigest {
        let dimensions: Vec<u8> = dimensions.iter().flat_map(|d| d.to_le_bytes()).collect();
        CrsDigest::from_digest(tagged_sha256(
            "panetiere/crs-digest/v1",
            &[set.name.as_bytes(), &dimensions, &self.0],
        ))
    }
}
