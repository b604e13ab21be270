//! `panetiere-lane`: the program of one role.

use panetiere_host::config::Role;
use std::process::ExitCode;

fn main() -> ExitCode {
    panetiere_host::cli::role_main(Role::Lane)
}
