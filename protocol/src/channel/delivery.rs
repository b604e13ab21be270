//! What came out of a sum, whole or in part.

use super::{ChannelError, ChannelParams, decode_messages};
use crate::ids::SessionId;
use crate::plaintext::PlainPoly;
use std::fmt;

/// The messages of a round, sorted by their bytes, and what else the sum holds.
#[derive(Clone, PartialEq, Eq)]
pub struct Delivery {
    /// The messages. Each passed every check.
    pub messages: Vec<Vec<u8>>,
    /// What did not come out.
    pub missing: Missing,
}

impl fmt::Debug for Delivery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Delivery({} messages, missing: {:?})", self.messages.len(), self.missing)
    }
}

/// What did not come out of a sum. Nobody can be named for it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Missing {
    /// So many messages, by the counts of the sum.
    Messages(u64),
    /// Nothing.
    Nothing,
    /// What these slots hold, by their place in the schedule.
    Slots(Vec<usize>),
    /// Something; the sum contradicts itself about how much.
    Unknown,
}

/// The messages of a round from the sum of all vectors, as many as come out.
///
/// # Errors
/// As [`decode_messages`], except that peeling that stalls and slots that are damaged deliver what they can.
pub fn deliver(
    params: &ChannelParams,
    session: &SessionId,
    plaintext: &[PlainPoly],
) -> Result<Delivery, ChannelError> {
    let (messages, missing) = match decode_messages(params, session, plaintext, None) {
        Ok(messages) => (messages, Missing::Nothing),
        Err(ChannelError::PeelStalled { recovered, missing }) => {
            (recovered.into_messages(), missing.map_or(Missing::Unknown, Missing::Messages))
        }
        Err(ChannelError::SlotsDamaged { recovered, damaged }) => {
            (recovered.into_messages(), Missing::Slots(damaged))
        }
        Err(error) => return Err(error),
    };
    Ok(Delivery { messages, missing })
}
