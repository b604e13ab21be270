//! TODO-pke
