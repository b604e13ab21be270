//! What the fuzz targets run. README.md says what each of them holds the code to.

pub mod channel;
pub mod evidence_verify;
mod input;
pub mod recipient;
pub mod record;
pub mod tlog;
pub mod wire;
mod world;

/// Seed inputs by target and name: what `fuzz/run --seeds` writes into `fuzz/corpus`.
pub fn seeds() -> Vec<(&'static str, Vec<(String, Vec<u8>)>)> {
    vec![
        ("channel", channel::seeds()),
        ("evidence_verify", evidence_verify::seeds()),
        ("recipient", recipient::seeds()),
        ("record", record::seeds()),
        ("tlog", tlog::seeds()),
        ("wire", wire::seeds()),
    ]
}
