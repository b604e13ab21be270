#![no_main]
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| panetiere_fuzz::evidence_verify::run(data));
