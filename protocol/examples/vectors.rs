//! Rewrites `protocol/vectors/v1` from its seed, for a stated reason.
//!
//! `cargo run -p panetiere --example vectors --features test-util -- --reason "why the bytes change"`

#[path = "../tests/golden/bad.rs"]
mod bad;
#[path = "../tests/golden/evidence.rs"]
mod evidence;
#[path = "../tests/golden/generate.rs"]
mod generate;
#[path = "../tests/golden/groups.rs"]
mod groups;
#[path = "../tests/golden/lanes.rs"]
mod lanes;

use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let reason = match arguments.as_slice() {
        [flag, reason] if flag == "--reason" && !reason.trim().is_empty() => reason.trim(),
        _ => {
            eprintln!("The vectors are frozen: say why they change, with --reason \"...\".");
            return ExitCode::from(2);
        }
    };
    match rewrite(reason) {
        Ok(changed) => {
            println!("{} files changed{}", changed.len(), if changed.is_empty() { "" } else { ":" });
            changed.iter().for_each(|name| println!("  {name}"));
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Writes what differs and returns the names; the reason is kept if anything did.
fn rewrite(reason: &str) -> std::io::Result<Vec<String>> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("vectors/v1");
    let mut changed = Vec::new();
    for (name, value) in generate::files() {
        let path = directory.join(&name);
        let text = format!("{value:#}\n");
        if std::fs::read_to_string(&path).ok().as_deref() != Some(&text) {
            std::fs::write(&path, text)?;
            changed.push(name);
        }
    }
    if !changed.is_empty() {
        let path = directory.join("reasons.txt");
        let mut reasons = std::fs::OpenOptions::new().create(true).append(true).open(path)?;
        writeln!(reasons, "{reason} ({} files)", changed.len())?;
    }
    Ok(changed)
}
