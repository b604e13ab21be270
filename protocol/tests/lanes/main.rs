//! Erasure-coded rounds through every byte format: honest, with lying lanes, and with lying clients.

#![expect(clippy::unwrap_used, reason = "a test's own parties: a refusal is the test's failure")]

mod codeword;
mod items;
mod lies;
mod net;
mod round;
mod wire;
