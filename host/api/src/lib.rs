//! What the daemons and clients of a deployment say to each other, as bytes. No I/O, no clock, no randomness.
//!
//! [`leaf`] has the entries of the bulletin's log, [`round`] what follows from them, [`follow`] how to read a log that nobody
//! can rewrite unseen.

pub mod follow;
pub mod leaf;
pub mod round;
