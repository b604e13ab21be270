//! Rounds: what the log makes of them ([`panetiere_api::round`]), and when the bulletin moves one on ([`conductor`]).

pub mod audit;
pub mod conductor;
pub mod cosigning;
pub mod library;
pub mod mirror;
pub mod reading;
pub mod recover;

pub use panetiere_api::round::*;
