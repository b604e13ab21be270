//! Writes the seed corpora: `seeds DIRECTORY`.

use std::path::PathBuf;

fn main() -> std::io::Result<()> {
    let directory = PathBuf::from(std::env::args().nth(1).expect("a directory"));
    for (target, inputs) in panetiere_fuzz::seeds() {
        let directory = directory.join(target);
        std::fs::create_dir_all(&directory)?;
        for (name, bytes) in inputs {
            std::fs::write(directory.join(name), bytes)?;
        }
    }
    Ok(())
}
