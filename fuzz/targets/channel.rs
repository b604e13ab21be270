#![no_main]
use libfuzzer_sys::fuzz_target;
use panetiere_fuzz::channel::{init, run};

fuzz_target!(init: init(), |data: &[u8]| run(data));
