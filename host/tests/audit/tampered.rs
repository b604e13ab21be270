//! Every published thing, tampered with by whoever keeps the copy: it is found, and nobody is named for it.

use crate::scene::*;
use panetiere::fault::Attribution;
use panetiere_host::round::audit::Outcome;
use std::fs;
use std::path::{Path, PathBuf};

fn files(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found.sort();
    found
}

fn flip(path: &Path, at: impl Fn(usize) -> usize) {
    let mut bytes = fs::read(path).unwrap();
    let place = at(bytes.len());
    bytes[place] ^= 1;
    fs::write(path, bytes).unwrap();
}

#[test]
fn every_file_of_a_copy_is_looked_at() {
    for (seed, mode) in [(11, Mode::Direct), (12, Mode::Aggregated), (13, Mode::Erasure)] {
        let copy = Copy::honest(seed, mode);
        let all = files(&copy.mirror());
        assert!(all.len() > 12, "{all:?}");
        let mut last = None;
        for file in &all {
            let name = file.strip_prefix(copy.mirror()).unwrap();
            let (_temporary, spoilt) = copy.again();
            flip(&spoilt.join(name), |len| len / 2);
            let audit = copy.audit(&spoilt, FIRST);
            let shown = name.display();
            assert_eq!(audit.outcome(), Outcome::Fault, "{mode:?} {shown}: {:#?}", audit.lines);
            assert_eq!(audit.named(), [Attribution::Nobody; 0], "{mode:?} {shown}: {:#?}", audit.lines);

            // Of each directory one file goes missing: they are alike.
            if last.replace(name.parent()) == Some(name.parent())
                && name.parent() != Some(Path::new("rounds/1"))
            {
                continue;
            }
            let (_temporary, spoilt) = copy.again();
            fs::remove_file(spoilt.join(name)).unwrap();
            let audit = copy.audit(&spoilt, FIRST);
            let optional = ["messages"].contains(&file.file_name().unwrap().to_str().unwrap())
                || (mode == Mode::Aggregated && name.starts_with("rounds/1/posts"));
            let expected = if optional { Outcome::Ok } else { Outcome::Missing };
            assert_eq!(audit.outcome(), expected, "{mode:?} without {shown}: {:#?}", audit.lines);
            assert_eq!(audit.named(), [Attribution::Nobody; 0]);
        }
    }
}

#[test]
fn what_is_left_is_audited_all_the_same() {
    let copy = Copy::honest(14, Mode::Direct);
    // One of four sums: three are enough.
    let (_temporary, spoilt) = copy.again();
    flip(&spoilt.join("rounds/1/server-sums/2"), |len| len - 100);
    let audit = copy.audit(&spoilt, FIRST);
    assert_eq!(odd(&audit), [(Outcome::Fault, "recover_foreign_body")], "{:#?}", audit.lines);
    for code in ["opened", "decoded", "result", "messages"] {
        assert!(holds(&audit, code), "{code}");
    }
    // A tile of hashes: the leaves are the log's without it.
    let (_temporary, spoilt) = copy.again();
    let tile = files(&spoilt.join("tile/0")).remove(0);
    flip(&tile, |_| 40);
    let audit = copy.audit(&spoilt, FIRST);
    assert_eq!(odd(&audit), [(Outcome::Fault, "published_tile")], "{:#?}", audit.lines);
    assert!(holds(&audit, "result"));
    // Two posts: both are found.
    let (_temporary, spoilt) = copy.again();
    flip(&spoilt.join("rounds/1/posts/1"), |len| len - 1);
    flip(&spoilt.join("rounds/1/posts/3"), |len| len - 1);
    let audit = copy.audit(&spoilt, FIRST);
    let foreign = odd(&audit).iter().filter(|(_, code)| *code == "recover_foreign_body").count();
    assert!(foreign >= 2, "{:#?}", audit.lines);
    // Other messages, in the form of messages.
    let (_temporary, spoilt) = copy.again();
    let path = spoilt.join("rounds/1/messages");
    let bytes = fs::read(&path).unwrap();
    fs::write(&path, &bytes[..bytes.len() - 4 - 32]).unwrap();
    assert_eq!(odd(&copy.audit(&spoilt, FIRST)), [(Outcome::Fault, "messages_differ")]);
    // Other messages than everybody else's under an honest result, all in order: not the result's.
    let (_temporary, spoilt) = copy.again();
    fs::write(spoilt.join("rounds/1/messages"), b"nonsense").unwrap();
    assert_eq!(odd(&copy.audit(&spoilt, FIRST)), [(Outcome::Fault, "messages_malformed")]);
}

#[test]
fn a_close_without_a_quorum_is_a_fault() {
    let mut stage = stage(15, Mode::Direct);
    let (session, sent) = stage.closed();
    stage.summed(&session, &sent, &[]);
    let copy = Copy::cosigned(stage, None, 2);
    let audit = copy.audit(&copy.mirror(), FIRST);
    assert_eq!(odd(&audit), [(Outcome::Fault, "closing_quorum")], "{:#?}", audit.lines);
    assert_eq!(audit.named(), [Attribution::Nobody; 0]);
}
