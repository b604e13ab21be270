//! A deterministic simulator: everything that happens in a world follows from one seed.
//!
//! What runs is the code of the daemons: [`crate::role::server::Server`] with its guard and witness over a disk that
//! fails, the store under the honest bulletin, followers, participations, the recovery. The simulator has only virtual
//! time, a network, the liars, and the [`ledger`] of what must hold. docs/simulation.md says what it can show and what not.

mod bulletin;
mod client;
mod ledger;
mod liar;
mod liars;
mod plan;
mod recipient;
mod server;
mod tests;
mod world;
