//! Which sums a recipient accepts.

use super::params::ProtocolParams;
use super::recipient::RejectReason;
use crate::bulletin::CanonicalSet;

/// A recipient's rule for the set of a round: the announced set itself, within a floor and a ceiling.
#[derive(Clone, Debug)]
pub struct SetPolicy {
    announced: CanonicalSet,
    min_clients: u32,
    max_clients: u32,
}

impl SetPolicy {
    /// Exactly the announced set, if it has at least `min_clients` and at most `max_clients` members. The parameters'
    /// own floor and ceiling hold besides: a policy narrows them and never widens them.
    pub const fn anchored(announced: CanonicalSet, min_clients: u32, max_clients: u32) -> Self {
        Self { announced, min_clients, max_clients }
    }

    /// The announced set, if it is within bounds.
    ///
    /// # Errors
    /// `BelowFloor` or `AboveMax`.
    pub fn admit(&self, params: &ProtocolParams) -> Result<&CanonicalSet, RejectReason> {
        let floor = self.min_clients.max(params.min_clients());
        let max = self.max_clients.min(params.max_clients());
        let got = self.announced.count();
        if got < floor {
            return Err(RejectReason::BelowFloor { got, floor });
        }
        if got > max { Err(RejectReason::AboveMax { got, max }) } else { Ok(&self.announced) }
    }
}
