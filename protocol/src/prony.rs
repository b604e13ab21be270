//! TODO-prony
