//! What the daemons and clients of a deployment say to each other, as bytes. No clock, no randomness; I/O only in the
//! feature `client`.
//!
//! [`leaf`] has the entries of the bulletin's log, [`round`] what follows from them, [`follow`] how to read a log that nobody
//! can rewrite unseen, [`participate`] a client's part in a round. [`path`], [`media`], [`problem`] and [`limits`] are the
//! HTTP interface; `tls` and `client`, behind the feature `client`, speak it.

#[cfg(feature = "client")]
pub mod client;
pub mod follow;
pub mod fragment;
pub mod leaf;
pub mod limits;
pub mod media;
pub mod participate;
pub mod path;
pub mod problem;
pub mod round;
#[cfg(feature = "test-util")]
pub mod testing;
#[cfg(feature = "client")]
pub mod tls;
