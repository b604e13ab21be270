//! TODO-merkle
