//! The host binary `panetiere`.

fn main() {}
