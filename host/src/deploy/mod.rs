//! A deployment's files: made, extended and looked over.

mod check;
mod init;

pub use check::{Finding, check};
pub use init::{Initialised, Plan, init};

/// Name of the deployment's public description.
pub const DEPLOYMENT_FILE: &str = "deployment.toml";
