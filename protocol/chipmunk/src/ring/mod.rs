//! The rings `Z_q[X]/(X^2048 + 1)`, their two domains, and what moves between them.

pub mod backend;
mod context;
pub mod crt;
pub mod cumulative;
pub mod expand;
pub(crate) mod gaussian_table;
pub mod modulus;
pub mod pack;
mod poly;
pub mod rescale;
pub mod sample;
#[cfg(test)]
pub(crate) mod schoolbook;
pub mod switch;

pub use context::RingContext;
pub use poly::{Poly, ShortPoly};

/// A ring, as a type: which modulus a polynomial belongs to. The modulus itself is data of a [`RingContext`].
pub trait Ring: Send + Sync + 'static {
    /// Residue limbs per coefficient.
    const LIMBS: usize;
    /// Name for messages.
    const NAME: &'static str;
}

/// A ring whose primes are 1 mod 4096: it has a negacyclic transform of length 2048.
pub trait NttRing: Ring {}

/// A domain, as a type: multiplying a coefficient vector by a transform does not compile.
pub trait Domain: Send + Sync + 'static {}

/// Coefficients, constant term first.
#[derive(Debug)]
pub enum Coeff {}

/// Values at the odd powers of psi, in the order of [`backend::Kernels::ntt_forward`].
#[derive(Debug)]
pub enum Ntt {}

impl Domain for Coeff {}
impl Domain for Ntt {}

macro_rules! rings {
    ($($(#[$doc:meta])* $name:ident: $limbs:literal $(, $ntt:ident)?;)*) => {$(
        $(#[$doc])*
        #[derive(Debug)]
        pub enum $name {}

        impl Ring for $name {
            const LIMBS: usize = $limbs;
            const NAME: &'static str = stringify!($name);
        }

        $(impl $ntt for $name {})?
    )*};
}

rings! {
    /// Leaf and tree hash of the key-share commitment.
    Hvc: 1, NttRing;
    /// Leaf commitment and key shares. Not NTT-friendly: products go through [`CsAux`].
    Cs: 1;
    /// The pair of 30-bit primes in which products of [`Cs`] are exact.
    CsAux: 2, NttRing;
    /// Ciphertexts, in computation.
    Kahe: 2, NttRing;
    /// Lane hash and lane tree.
    Lane: 1, NttRing;
    /// Ciphertexts, in transit.
    Wire: 2;
}
