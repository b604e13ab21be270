//! TODO-channel
