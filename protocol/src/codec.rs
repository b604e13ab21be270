//! TODO-codec
