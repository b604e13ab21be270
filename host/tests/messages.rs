//! Reading a demo's messages from real files.
#![cfg(unix)]

use panetiere::fault::Fault;
use panetiere_host::cli::demo::messages::{Bounds, MessageSource, NamedMessage, load};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

const BOUNDS: Bounds = Bounds { message_bytes: 8, senders: 3 };

/// An empty directory of this test's own.
fn directory(test: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("messages").join(test);
    match fs::remove_dir_all(&path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => panic!("{error}"),
        _ => {}
    }
    fs::create_dir_all(&path).expect("the target directory is writable");
    path
}

fn bytes(messages: &[NamedMessage]) -> Vec<&[u8]> {
    messages.iter().map(|message| message.bytes.as_slice()).collect()
}

fn code(source: &MessageSource) -> &'static str {
    load(source, BOUNDS).expect_err("refused").code()
}

#[test]
fn file_lines_keep_their_bytes() {
    let file = directory("lines").join("list");
    fs::write(&file, b"one\n\n\xff\r\n").unwrap();
    let messages = load(&MessageSource::File(file.clone()), BOUNDS).unwrap();
    assert_eq!(bytes(&messages), [b"one".as_slice(), b"", b"\xff\r"]);
    assert_eq!(messages[2].name, format!("line 3 of {}", file.display()));
}

#[test]
fn empty_file_and_empty_directory_hold_no_message() {
    let empty = directory("empty");
    assert!(load(&MessageSource::Directory(empty.clone()), BOUNDS).unwrap().is_empty());
    fs::write(empty.join("list"), b"").unwrap();
    assert!(load(&MessageSource::File(empty.join("list")), BOUNDS).unwrap().is_empty());
}

#[test]
fn a_file_is_read_up_to_its_bound_and_not_beyond() {
    let file = directory("bound").join("list");
    // Three lines of eight bytes and their line feeds, and 64 KiB.
    let limit = 3 * 9 + (64 << 10);
    fs::write(&file, vec![b'a'; limit]).unwrap();
    let messages = load(&MessageSource::File(file.clone()), BOUNDS).unwrap();
    assert_eq!(messages[0].bytes.len(), limit, "too long, but it can be named");
    fs::write(&file, vec![b'a'; limit + 1]).unwrap();
    assert_eq!(code(&MessageSource::File(file)), "input_too_large");
}

#[test]
fn surplus_lines_are_not_collected() {
    let file = directory("surplus").join("list");
    fs::write(&file, vec![b'\n'; 1000]).unwrap();
    assert_eq!(load(&MessageSource::File(file), BOUNDS).unwrap().len(), 4);
}

#[test]
fn directory_files_come_in_order_of_their_names() {
    let inbox = directory("sorted");
    fs::write(inbox.join("b"), b"\x00\xff\n").unwrap();
    fs::write(inbox.join("a"), b"").unwrap();
    fs::write(inbox.join(std::ffi::OsStr::from_bytes(b"\xfe")), b"12345678").unwrap();
    let messages = load(&MessageSource::Directory(inbox), BOUNDS).unwrap();
    assert_eq!(bytes(&messages), [b"".as_slice(), b"\x00\xff\n", b"12345678"]);
}

#[test]
fn directory_is_refused_for_what_is_in_it() {
    let inbox = directory("refused");
    fs::write(inbox.join("long"), b"123456789").unwrap();
    let error = load(&MessageSource::Directory(inbox.clone()), BOUNDS).expect_err("nine bytes");
    assert_eq!(error.code(), "message_too_long");
    assert!(error.to_string().contains("long has 9 bytes"), "{error}");

    fs::remove_file(inbox.join("long")).unwrap();
    fs::create_dir(inbox.join("sub")).unwrap();
    assert_eq!(code(&MessageSource::Directory(inbox.clone())), "directory_entry");

    fs::remove_dir(inbox.join("sub")).unwrap();
    std::os::unix::fs::symlink("/dev/zero", inbox.join("device")).unwrap();
    assert_eq!(code(&MessageSource::Directory(inbox.clone())), "directory_entry");

    fs::remove_file(inbox.join("device")).unwrap();
    std::os::unix::fs::symlink("nowhere", inbox.join("dangling")).unwrap();
    assert_eq!(code(&MessageSource::Directory(inbox.clone())), "unreadable");

    fs::remove_file(inbox.join("dangling")).unwrap();
    for name in ["1", "2", "3"] {
        fs::write(inbox.join(name), name).unwrap();
    }
    assert_eq!(load(&MessageSource::Directory(inbox.clone()), BOUNDS).unwrap().len(), 3);
    fs::write(inbox.join("4"), "4").unwrap();
    assert_eq!(code(&MessageSource::Directory(inbox)), "too_many_messages");
}

#[test]
fn absent_or_wrong_kind_of_path_is_unreadable() {
    let inbox = directory("kinds");
    fs::write(inbox.join("file"), b"x").unwrap();
    assert_eq!(code(&MessageSource::File(inbox.join("absent"))), "unreadable");
    assert_eq!(code(&MessageSource::File(inbox.clone())), "unreadable");
    assert_eq!(code(&MessageSource::Directory(inbox.join("absent"))), "unreadable");
    assert_eq!(code(&MessageSource::Directory(inbox.join("file"))), "unreadable");
}
