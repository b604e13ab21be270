//! Every parser against foreign bytes: no panic, one spelling per value, no more memory than the input deserves.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

use proptest::prelude::*;
use tlog::checkpoint::{Checkpoint, TreeHead};
use tlog::key::{NoteSigner, VerifierKey};
use tlog::note::{Note, Signature};
use tlog::proof::Proof;
use tlog::tile::Resource;
use tlog::witness::{Request, parse_size_body};

/// What is read back from what was parsed, by each parser that takes it.
fn spellings(bytes: &[u8]) -> Vec<(&'static str, String)> {
    let mut read = Vec::new();
    let mut add = |parser, spelling: Option<String>| read.extend(spelling.map(|spelling| (parser, spelling)));
    add("note", Note::parse(bytes).ok().map(|value| value.to_string()));
    add("proof", Proof::parse(bytes).ok().map(|value| value.to_string()));
    add("request", Request::parse(bytes).ok().map(|value| value.to_string()));
    add("size", parse_size_body(bytes).map(|value| format!("{value}\n")));
    if let Ok(text) = str::from_utf8(bytes) {
        add("checkpoint", text.parse::<Checkpoint>().ok().map(|value| value.to_string()));
        add("key", text.parse::<VerifierKey>().ok().map(|value| value.to_string()));
        add("resource", text.parse::<Resource>().ok().map(|value| value.to_string()));
        add(
            "secret",
            NoteSigner::from_secret_text(text).ok().map(|value| value.to_secret_text().to_string()),
        );
        let lines = Signature::parse_lines(text).ok();
        add("lines", lines.map(|lines| lines.iter().map(Signature::to_string).collect()));
    }
    read
}

/// One valid text for each parser.
fn valid() -> Vec<String> {
    let key = NoteSigner::from_seed("log.example/ä".parse().unwrap(), &[1; 32]);
    let head = TreeHead { size: 70_123, root: [0xa5; 32] };
    let checkpoint = Checkpoint::new("log.example/ä".parse().unwrap(), head).unwrap();
    let checkpoint = checkpoint.with_extensions(vec!["an extension".to_owned()]).unwrap();
    let mut note = checkpoint.sign(&key).unwrap();
    note.add(NoteSigner::from_seed("other".parse().unwrap(), &[2; 32]).sign("else")).unwrap();
    vec![
        note.to_string(),
        Proof::new(7, vec![[1; 32], [2; 32]], note.clone()).unwrap().with_extra(vec![5; 5]).to_string(),
        Request::new(70_000, vec![[1; 32], [2; 32]], note.clone()).unwrap().to_string(),
        "70123\n".to_owned(),
        checkpoint.to_string(),
        key.verifier().to_string(),
        "tile/1/x001/x234/067.p/12".to_owned(),
        key.to_secret_text().to_string(),
        note.signatures()[0].to_string(),
    ]
}

/// One edit of a text, chosen to keep it close to valid.
fn edit(mut bytes: Vec<u8>, kind: u8, place: usize, byte: u8) -> Vec<u8> {
    let place = place % (bytes.len() + 1);
    let tokens: [&[u8]; 12] = [
        b"\n",
        b"\n\n",
        b" ",
        b"=",
        b"0",
        b"\r",
        b"\t",
        b"\0",
        "\u{2014} ".as_bytes(),
        b"+",
        b"/x000",
        b"AAAA",
    ];
    match kind % 5 {
        0 if place < bytes.len() => bytes[place] ^= 1 << (byte % 8),
        1 if place < bytes.len() => drop(bytes.remove(place)),
        2 => drop(bytes.splice(place..place, tokens[usize::from(byte) % tokens.len()].iter().copied())),
        3 => bytes.truncate(place),
        _ => {
            let end = (place + usize::from(byte)).min(bytes.len());
            let copied = bytes[place..end].to_vec();
            bytes.extend(copied);
        }
    }
    bytes
}

#[test]
fn valid_texts_are_read_by_their_parsers() {
    let mut seen: Vec<&str> = Vec::new();
    for text in valid() {
        let read = spellings(text.as_bytes());
        assert!(read.iter().all(|(_, spelling)| *spelling == text), "{read:?}");
        seen.extend(read.iter().map(|(parser, _)| *parser));
    }
    // A request and a proof are notes too: text, an empty line, signatures.
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(
        seen,
        ["checkpoint", "key", "lines", "note", "proof", "request", "resource", "secret", "size"]
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn what_parses_is_spelt_so_after_any_edits(
        which in 0..9_usize,
        edits in prop::collection::vec((any::<u8>(), any::<usize>(), any::<u8>()), 1..4),
    ) {
        let bytes = edits.into_iter().fold(valid()[which].clone().into_bytes(), |bytes, (kind, place, byte)| {
            edit(bytes, kind, place, byte)
        });
        for (parser, spelling) in spellings(&bytes) {
            prop_assert_eq!(spelling.as_bytes(), &bytes[..], "{}", parser);
        }
    }

    #[test]
    fn what_parses_of_any_bytes_is_spelt_so(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        for (parser, spelling) in spellings(&bytes) {
            prop_assert_eq!(spelling.as_bytes(), &bytes[..], "{}", parser);
        }
    }
}

/// Long inputs that end in an error or not: what a parser holds at its peak is in proportion to what came.
#[test]
fn parsers_hold_no_more_than_a_small_multiple_of_their_input() {
    let line = "\u{2014} x AAAAAAA=\n";
    let hash = data_encoding::BASE64.encode(&[7; 32]) + "\n";
    let head = "o\n1\n".to_owned() + &hash;
    let inputs = [
        "\n".repeat(500_000),
        line.repeat(10_000),
        format!("t\n\n{}", line.repeat(100)),
        format!("old 0\n{}", hash.repeat(10_000)),
        format!("c2sp.org/tlog-proof@v1\nindex 0\n{}", hash.repeat(10_000)),
        format!("c2sp.org/tlog-proof@v1\nextra {}\nindex 0\n", "AAAA".repeat(100_000)),
        head.clone() + &"e\n".repeat(100_000),
        format!("old 0\n\n{head}{}\n{line}", "e\n".repeat(100_000)),
        format!("tile/0/{}000", "x000/".repeat(100_000)),
        "9".repeat(500_000),
        format!("k+00000000+{}", "AAAA".repeat(100_000)),
    ];
    for input in inputs {
        let spent = allocation_counter::measure(|| {
            drop(Note::parse(input.as_bytes()));
            drop(Proof::parse(input.as_bytes()));
            drop(Request::parse(input.as_bytes()));
            drop(Signature::parse_lines(&input));
            drop(input.parse::<Checkpoint>());
            drop(input.parse::<VerifierKey>());
            drop(NoteSigner::from_secret_text(&input).err());
            drop(input.parse::<Resource>());
        });
        // A copy of the text, what was decoded, a message that quotes; lists of lines are bounded by their number.
        let allowed = 3 * input.len() as u64 + 50_000;
        assert!(spent.bytes_max <= allowed, "{} bytes for {}", spent.bytes_max, input.len());
    }
}
