//! Sizes of a channel.

use super::encoding::Encoding;
use super::error::ChannelError;
use crate::codec::pack;
use crate::prony::{DEFAULT_SLACK, PRONY_PRIME, PronyParams};
use chipmunk::ring::backend::Kernels;

/// Symbols of a message besides its data: length and check.
const FRAME_SYMBOLS: usize = 2;

/// An encoding, sized for a number of clients and a message length. Both sides hold the same one; the kernels that it
/// is computed with are everyone's own choice and no part of equality.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChannelParams {
    encoding: Encoding,
    sketch: PronyParams,
    max_message_bytes: usize,
}

impl ChannelParams {
    /// A channel for `rho` clients that send up to `message_bytes` bytes each.
    ///
    /// # Errors
    /// `NoClients` and `NoMessageBytes` for 0; `TooLarge` for sizes that no encoding has. Nothing is
    /// allocated here.
    pub fn for_messages(encoding: Encoding, rho: usize, message_bytes: usize) -> Result<Self, ChannelError> {
        let symbols =
            pack::symbols_for(message_bytes).ok_or(ChannelError::TooLarge { rho, symbols: usize::MAX })?;
        Self::sized(encoding, rho, symbols, message_bytes)
    }

    /// A channel for `rho` clients whose messages have `symbols` data symbols of 35 bits: as many whole bytes
    /// as fit.
    ///
    /// # Errors
    /// As [`for_messages`](Self::for_messages); `NoMessageBytes` for 0 symbols.
    pub fn for_symbols(encoding: Encoding, rho: usize, symbols: usize) -> Result<Self, ChannelError> {
        let message_bytes = pack::bytes_in(symbols).ok_or(ChannelError::TooLarge { rho, symbols })?;
        Self::sized(encoding, rho, symbols, message_bytes)
    }

    /// [`for_messages`](Self::for_messages) with the sketch.
    ///
    /// # Errors
    /// The same.
    pub fn prony_for_messages(rho: usize, message_bytes: usize) -> Result<Self, ChannelError> {
        Self::for_messages(Encoding::Sketch, rho, message_bytes)
    }

    /// [`for_symbols`](Self::for_symbols) with the sketch.
    ///
    /// # Errors
    /// The same.
    pub fn prony_for_symbols(rho: usize, symbols: usize) -> Result<Self, ChannelError> {
        Self::for_symbols(Encoding::Sketch, rho, symbols)
    }

    fn sized(
        encoding: Encoding,
        rho: usize,
        symbols: usize,
        max_message_bytes: usize,
    ) -> Result<Self, ChannelError> {
        if rho == 0 {
            return Err(ChannelError::NoClients);
        }
        if max_message_bytes == 0 {
            return Err(ChannelError::NoMessageBytes);
        }
        let Encoding::Sketch = encoding;
        let sketch = symbols
            .checked_add(FRAME_SYMBOLS)
            .and_then(|symbols| PronyParams::new(rho, symbols, DEFAULT_SLACK).ok())
            .ok_or(ChannelError::TooLarge { rho, symbols })?;
        Ok(Self { encoding, sketch, max_message_bytes })
    }

    /// The same channel, computed with `kernels`. Without this it is computed with portable ones.
    #[must_use]
    pub const fn with_kernels(self, kernels: &'static Kernels) -> Self {
        Self { sketch: self.sketch.with_kernels(kernels), ..self }
    }

    /// The encoding.
    pub const fn encoding(&self) -> Encoding {
        self.encoding
    }

    /// Messages that a sum may hold. Cover takes no capacity.
    pub const fn capacity(&self) -> usize {
        self.sketch.capacity()
    }

    /// Bytes of the longest message.
    pub const fn max_message_bytes(&self) -> usize {
        self.max_message_bytes
    }

    /// Polynomials of every client's vector, message or cover.
    pub const fn n_polys(&self) -> usize {
        self.sketch.n_polys()
    }

    /// The modulus in which vectors are added up; coefficients are below it.
    pub const fn plaintext_modulus(&self) -> u64 {
        match self.encoding {
            Encoding::Sketch => PRONY_PRIME,
        }
    }

    pub(super) const fn sketch(&self) -> &PronyParams {
        &self.sketch
    }
}
