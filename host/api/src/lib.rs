//! What the daemons and clients of a deployment say to each other, as bytes. No I/O, no clock, no randomness.
//!
//! [`leaf`] has the entries of the bulletin's log. Everything that a round is follows from them.

pub mod leaf;
