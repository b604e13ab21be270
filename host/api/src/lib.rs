//! What the daemons and clients of a deployment say to each other, as bytes. No I/O, no clock, no randomness.
//!
//! [`leaf`] has the entries of the bulletin's log, [`round`] what follows from them, [`follow`] how to read a log that nobody
//! can rewrite unseen, [`participate`] a client's part in a round.

pub mod follow;
pub mod leaf;
pub mod participate;
pub mod round;
#[cfg(feature = "test-util")]
pub mod testing;
