//! TODO-sig
