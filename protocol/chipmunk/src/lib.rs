//! Lattice layer of Panetière: rings, transforms, sampling, ring-SIS hash and homomorphic tree.
//!
//! Every ring is `Z_q[X]/(X^2048 + 1)`. A parameter set is data ([`params::ParameterSet`]); coefficient and transform
//! domain are different types ([`ring::Poly`]); all arithmetic goes through one table of kernels
//! ([`ring::backend::Kernels`]) that the caller chooses once.

pub mod digits;
pub mod hash;
pub mod params;
pub mod ring;
pub mod secret;
pub mod tree;

/// Degree of every ring: polynomials modulo X^2048 + 1.
pub const N: usize = 2048;

/// log2 of [`N`].
pub const LOG_N: u32 = 11;
