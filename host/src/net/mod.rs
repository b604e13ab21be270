//! What all daemons share of the network: planes, connections, requests, bodies; nothing of rounds.
//!
//! A [`Plane`] is a listener, who may use it and what it serves. [`serve`] accepts and bounds connections, [`router`] refuses
//! what can be refused before a body is read, [`body`] reads one of exactly known length. [`quota`], [`shed`] and
//! [`compute`] bound what one principal, all uploads and all arithmetic take. [`admin`] is the plane for those who run the
//! daemon. docs/http.md is the same for people.

pub mod admin;
pub mod answer;
pub mod body;
pub mod budget;
pub mod certificates;
pub mod compute;
mod connection;
mod floor;
pub mod limits;
pub mod metrics;
pub mod principal;
pub mod quota;
pub mod router;
pub mod serve;
pub mod shed;
mod slots;
pub mod telemetry;
pub mod tls;

pub use answer::Answer;
pub use body::{BodyError, BodyReader, Chunk};
pub use limits::NetLimits;
pub use principal::{PartyName, Principal, Principals, Role};
pub use router::{BodyRule, Call, Handler, Resource, Rule};
pub use serve::{Access, Drained, Plane, Server};
pub use tls::ServerTls;
