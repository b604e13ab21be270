//! The host binary `panetiere`.

use std::process::ExitCode;

fn main() -> ExitCode {
    panetiere_host::cli::main()
}
