//! From the recovered sum to the messages.

use super::recipient::Recovered;
use crate::channel::{self, ChannelError, ChannelParams, Delivery};
use crate::ids::SessionId;

impl Recovered {
    /// The messages in the sum of this session, as many as its encoding gives.
    ///
    /// # Errors
    /// As [`channel::deliver`].
    pub fn deliver(&self, channel: &ChannelParams, session: &SessionId) -> Result<Delivery, ChannelError> {
        channel::deliver(channel, session, &self.plaintext)
    }
}
