//! The host side of Panetière: what the binaries of this package share.

pub mod anchor;
pub mod bulletin;
mod chain;
pub mod cli;
pub mod client;
pub mod config;
pub mod daemon;
pub mod deploy;
pub mod local;
pub mod net;
pub mod release;
pub mod role;
pub mod round;
pub mod seed;
#[cfg(test)]
mod sim;
pub mod state;
pub mod store;
