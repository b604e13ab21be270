//! Panetière: anonymous broadcast.
//!
//! Each round, `rho` clients contribute one vector each; any `t` of `S` servers together reveal the *sum* of
//! all vectors and nothing else; a payload encoding turns that sum back into the messages, unlinked from their
//! senders. This crate is the protocol: no I/O, no clock, no environment, no ambient randomness.
//!
//! Bottom-up: the schemes ([`kahe`], [`sss`], [`cs`], [`pke`], [`sig`]), the byte formats ([`wire`],
//! [`bulletin`]), the round drivers ([`protocol`]) and the payload layer ([`channel`], [`prony`], [`mse`], [`codec`]).
//!
//! Not audited.

pub mod bulletin;
pub mod channel;
pub mod codec;
pub mod cs;
pub mod evidence;
pub mod fault;
pub mod ids;
pub mod kahe;
pub mod lattice;
pub mod merkle;
pub mod mse;
pub mod noise;
pub mod pke;
pub mod plaintext;
pub mod prony;
pub mod protocol;
pub mod rs;
pub mod share_commitment;
pub mod sig;
pub mod sss;
#[cfg(feature = "test-util")]
pub mod testing;
pub mod wire;
