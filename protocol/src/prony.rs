//! The sketch: a multiset of messages as power sums over a prime field, added up by plain addition.
//!
//! A client draws a point `z` in `[1, p)` and contributes `S_j = z^j` (`j = 0..=cols`) and, for each symbol
//! `x_s` of its message, `W_{s,j} = x_s * z^j` (`j = 0..cols`), all modulo p; `cols = capacity + slack`.
//! Cover is all zeros. From the sum of all vectors the decoder reads the number of messages (`S_0`), the
//! points (roots of the polynomial that Newton's identities give) and the symbols (one linear system per
//! symbol, the same matrix for all).
//!
//! All or nothing: every column that the solution does not need must agree with it, or nothing is returned.
//! There are at least `slack` such columns per symbol. Two clients with the same point lose the round
//! (`NotSplit`); the chance is about `rho^2 / 2p`.
//!
//! The encoder is constant time in point and symbols. The decoder is not: what it works on is the sum that
//! the round makes public.
//!
//! The pieces: field arithmetic, polynomial operations, residues modulo a polynomial, the locator polynomial, its
//! roots, the payload system, and [`Sketch`] around them. Where the arithmetic is heavy it goes through the kernels
//! of a back-end, which the parameters carry; results are the same with all of them and at every thread count.

mod error;
mod field;
mod locator;
mod payload;
mod poly;
mod residue;
mod roots;
mod sketch;
#[cfg(test)]
mod tests;

pub use error::PronyError;
pub use field::PRONY_PRIME;
pub(crate) use sketch::vector;
pub use sketch::{Element, Point, Sketch};

use chipmunk::N;
use chipmunk::ring::backend::{self, Kernels};

/// Columns beyond the capacity, unless the caller says otherwise: a full sketch keeps this many check
/// columns.
pub const DEFAULT_SLACK: usize = 2;

/// Largest capacity, in messages. Bounds the decoder's work, which grows with the square of the capacity.
pub const MAX_CAPACITY: usize = 4096;

/// Largest sketch, in scalars of 8 bytes in memory (1 GiB).
pub const MAX_SCALARS: usize = 1 << 27;

/// Shape of a sketch, and the kernels that compute with it. Both sides hold the same shape; the kernels are everyone's
/// own choice and no part of equality.
#[derive(Clone, Copy, Debug)]
pub struct PronyParams {
    capacity: usize,
    symbols: usize,
    slack: usize,
    kernels: &'static Kernels,
}

impl PartialEq for PronyParams {
    fn eq(&self, other: &Self) -> bool {
        let shape = |params: &Self| (params.capacity, params.symbols, params.slack);
        shape(self) == shape(other)
    }
}

impl Eq for PronyParams {}

impl PronyParams {
    /// A sketch of up to `capacity` messages of `symbols` field elements, with `slack` columns of redundancy
    /// when full. Computed with portable kernels, until [`with_kernels`](Self::with_kernels) says otherwise.
    ///
    /// # Errors
    /// `CapacityOutOfRange` outside `1..=MAX_CAPACITY`; `NoSymbols` and `NoSlack` for 0; `TooManyScalars`
    /// above [`MAX_SCALARS`]. Nothing is allocated here.
    pub fn new(capacity: usize, symbols: usize, slack: usize) -> Result<Self, PronyError> {
        if capacity == 0 || capacity > MAX_CAPACITY {
            return Err(PronyError::CapacityOutOfRange { found: capacity, max: MAX_CAPACITY });
        }
        if symbols == 0 {
            return Err(PronyError::NoSymbols);
        }
        if slack == 0 {
            return Err(PronyError::NoSlack);
        }
        let scalars = (|| {
            let cols = capacity.checked_add(slack)?;
            symbols.checked_add(1)?.checked_mul(cols)?.checked_add(1)
        })();
        match scalars {
            Some(scalars) if scalars <= MAX_SCALARS => {
                Ok(Self { capacity, symbols, slack, kernels: backend::scalar() })
            }
            _ => Err(PronyError::TooManyScalars { max: MAX_SCALARS }),
        }
    }

    /// The same shape, computed with `kernels`.
    #[must_use]
    pub const fn with_kernels(self, kernels: &'static Kernels) -> Self {
        Self { kernels, ..self }
    }

    /// The kernels in use.
    pub const fn kernels(&self) -> &'static Kernels {
        self.kernels
    }

    /// Messages a sum may hold.
    pub const fn capacity(&self) -> usize {
        self.capacity
    }

    /// Field elements of one message.
    pub const fn symbols(&self) -> usize {
        self.symbols
    }

    /// Columns beyond the capacity, at least 1.
    pub const fn slack(&self) -> usize {
        self.slack
    }

    /// Columns of each symbol: capacity plus slack. There is one power sum more than this.
    pub const fn cols(&self) -> usize {
        self.capacity + self.slack
    }

    /// Scalars of a sketch: `cols + 1` power sums, then `cols` for each symbol.
    pub const fn scalars(&self) -> usize {
        self.cols() + 1 + self.symbols * self.cols()
    }

    /// Plaintext polynomials that hold the scalars, the last one padded with zeros.
    pub const fn n_polys(&self) -> usize {
        self.scalars().div_ceil(N)
    }
}
