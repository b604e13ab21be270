//! What a daemon keeps on disk.

pub mod disk;
pub mod meta;
