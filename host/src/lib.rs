//! The host side of Panetière: what the binaries of this package share.

pub mod cli;
pub mod local;
pub mod round;
pub mod seed;
pub mod store;
