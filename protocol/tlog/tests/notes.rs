//! Notes, keys, checkpoints, cosignatures, quorums and receipts: published ones, and every way to change them.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

use serde::Deserialize;
use tlog::MAX_SIZE;
use tlog::checkpoint::{Checkpoint, CheckpointError, Log, TreeHead};
use tlog::key::{Algorithm, Cosigner, KeyError, KeyName, KeyRing, NoteSigner, VerifierKey};
use tlog::merkle::{inclusion_path, leaf_hash, root};
use tlog::note::{MAX_NOTE_BYTES, MAX_SIGNATURES, Note, NoteError, Signature};
use tlog::proof::{Proof, ProofError};
use tlog::quorum::{Quorum, QuorumError, quorum_size};
use tlog::witness::{self, Request};

#[derive(Deserialize)]
struct Published {
    signed: Vec<Signed>,
    cosigned: PublishedCosigned,
    example_request: Body,
    example_answer: Body,
}

#[derive(Deserialize)]
struct Signed {
    key: String,
    note: String,
}

#[derive(Deserialize)]
struct PublishedCosigned {
    log: String,
    witness: String,
    time: u64,
    note: String,
}

#[derive(Deserialize)]
struct Body {
    body: String,
}

fn published() -> Published {
    serde_json::from_str(include_str!("vectors/published.json")).unwrap()
}

fn ring(algorithm: Algorithm, keys: &[&str]) -> KeyRing {
    KeyRing::new(algorithm, keys.iter().map(|key| key.parse().unwrap()).collect()).unwrap()
}

fn name(text: &str) -> KeyName {
    text.parse().unwrap()
}

/// A log, its key and a checkpoint of `entries`.
fn signed_log(entries: &[&[u8]]) -> (Log, NoteSigner, Note) {
    let key = NoteSigner::from_seed(name("log.example/a"), &[1; 32]);
    let log = Log::new("log.example/a".parse().unwrap(), vec![key.verifier().clone()]).unwrap();
    let leaves: Vec<_> = entries.iter().map(|entry| leaf_hash(entry)).collect();
    let head = TreeHead { size: leaves.len() as u64, root: root(&leaves) };
    let note = Checkpoint::new(log.origin().clone(), head).unwrap().sign(&key).unwrap();
    (log, key, note)
}

fn witnesses(count: u8) -> Vec<Cosigner> {
    (0..count).map(|i| Cosigner::from_seed(name(&format!("witness.example/{i}")), &[100 + i; 32])).collect()
}

fn keys(cosigners: &[Cosigner]) -> Vec<VerifierKey> {
    cosigners.iter().map(|cosigner| cosigner.verifier().clone()).collect()
}

fn cosign(log: &Log, note: &Note, cosigner: &Cosigner, time: u64) -> Signature {
    let request = Request::new(0, vec![], note.clone()).unwrap();
    witness::check(log, None, &request).unwrap().cosign(cosigner, time).unwrap()
}

#[test]
fn published_notes_verify() {
    let published = published();
    for case in &published.signed {
        let note = Note::parse(case.note.as_bytes()).unwrap();
        assert_eq!(note.to_string(), case.note);
        assert_eq!(note.verify(&ring(Algorithm::Ed25519, &[&case.key])).unwrap().len(), 1);
        if let Ok(checkpoint) = note.text().parse::<Checkpoint>() {
            assert_eq!(checkpoint.to_string(), note.text());
            let log = Log::new(checkpoint.origin().clone(), vec![case.key.parse().unwrap()]).unwrap();
            assert_eq!(log.open(&note), Ok(checkpoint));
        }
    }
    assert_eq!(published.signed.len(), 5);
}

/// A log's and a witness's signature by other software, and four lines of keys that are not known here.
#[test]
fn a_published_cosigned_checkpoint_has_a_quorum_of_one() {
    let PublishedCosigned { log, witness, time, note } = published().cosigned;
    let note = Note::parse(note.as_bytes()).unwrap();
    let checkpoint: Checkpoint = note.text().parse().unwrap();
    let log = Log::new(checkpoint.origin().clone(), vec![log.parse().unwrap()]).unwrap();
    let witness: VerifierKey = witness.parse().unwrap();
    assert_eq!(
        (witness.algorithm(), witness.id().to_string().as_str()),
        (Algorithm::CosignatureV1, "da77ade7")
    );
    let quorum = Quorum::new(log, vec![witness.clone()], 0).unwrap();
    let cosigned = quorum.open(&note).unwrap();
    assert_eq!(cosigned.checkpoint.head().size, 1_432_088_532);
    assert_eq!(cosigned.cosigners, [(&witness, time)]);
    assert_eq!(note.signatures().len(), 6);
}

#[test]
fn the_examples_of_the_specification_parse() {
    let published = published();
    let request = Request::parse(published.example_request.body.as_bytes()).unwrap();
    assert_eq!(request.to_string(), published.example_request.body);
    assert_eq!((request.old_size(), request.proof().len()), (20_852_014, 4));
    assert_eq!(request.note().signatures().len(), 2);
    let answer = Signature::parse_lines(&published.example_answer.body).unwrap();
    assert_eq!(answer.iter().map(Signature::to_string).collect::<String>(), published.example_answer.body);
    // Timestamp and Ed25519 signature.
    assert!(answer.iter().all(|line| line.bytes().len() == 8 + 64));
}

/// Every bit of the whole note: none leaves it both readable and signed by the log and the witness.
#[test]
fn every_bit_of_a_cosigned_checkpoint_counts() {
    let (log, _, mut note) = signed_log(&[b"a", b"b", b"c"]);
    let cosigner = &witnesses(1)[0];
    note.add(cosign(&log, &note, cosigner, 1_700_000_000)).unwrap();
    let quorum = Quorum::new(log, keys(std::slice::from_ref(cosigner)), 0).unwrap();
    let bytes = note.to_string().into_bytes();
    assert!(quorum.open(&Note::parse(&bytes).unwrap()).is_ok());
    for bit in 0..bytes.len() * 8 {
        let mut changed = bytes.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        let opened = Note::parse(&changed).is_ok_and(|note| quorum.open(&note).is_ok());
        assert!(!opened, "bit {bit}: {:?}", String::from_utf8_lossy(&changed));
    }
    for short in 0..bytes.len() {
        assert!(Note::parse(&bytes[..short]).is_ok_and(|note| quorum.open(&note).is_ok()).eq(&false));
    }
}

#[test]
fn every_bit_of_a_receipt_counts() {
    let entries: [&[u8]; 5] = [b"a", b"b", b"c", b"d", b"e"];
    let (log, _, note) = signed_log(&entries);
    let leaves: Vec<_> = entries.iter().map(|entry| leaf_hash(entry)).collect();
    let proof = Proof::new(2, inclusion_path(&leaves, 2), note.clone()).unwrap();
    let text = proof.to_string();
    assert!(text.starts_with("c2sp.org/tlog-proof@v1\nindex 2\n"));
    let bytes = text.as_bytes();
    assert!(Proof::parse(bytes).unwrap().verify(b"c", &log).is_ok());
    for bit in 0..bytes.len() * 8 {
        let mut changed = bytes.to_vec();
        changed[bit / 8] ^= 1 << (bit % 8);
        let verified = Proof::parse(&changed).is_ok_and(|proof| proof.verify(b"c", &log).is_ok());
        assert!(!verified, "bit {bit}");
    }
    for short in 0..bytes.len() {
        assert!(Proof::parse(&bytes[..short]).is_err(), "{short}");
    }
    assert!(matches!(proof.verify(b"d", &log), Err(ProofError::Inclusion(_))));

    let with_extra = proof.clone().with_extra(b"any".to_vec());
    let text = with_extra.to_string();
    assert!(text.contains("\nextra YW55\nindex 2\n"));
    assert_eq!(Proof::parse(text.as_bytes()).as_ref(), Ok(&with_extra));
    assert!(with_extra.verify(b"c", &log).is_ok());
    let empty = text.replace("extra YW55", "extra ");
    assert_eq!(Proof::parse(empty.as_bytes()), Err(ProofError::Extra));
    assert_eq!(Proof::new(MAX_SIZE + 1, vec![], note.clone()), Err(ProofError::Index));
    assert_eq!(Proof::new(0, vec![[0; 32]; 64], note), Err(ProofError::Path));
    let outside = Proof::new(5, vec![], proof.note().clone()).unwrap();
    assert!(matches!(outside.verify(b"c", &log), Err(ProofError::Inclusion(_))));
}

#[test]
fn receipts_under_a_quorum_need_the_quorum() {
    let (log, _, mut note) = signed_log(&[b"a"]);
    let cosigners = witnesses(4);
    let quorum = Quorum::new(log.clone(), keys(&cosigners), 1).unwrap();
    assert_eq!(quorum.needed(), 3);
    for (place, cosigner) in cosigners.iter().enumerate().take(3) {
        let proof = Proof::new(0, vec![], note.clone()).unwrap();
        let refused = QuorumError::TooFew { needed: 3, found: place };
        assert_eq!(proof.verify_cosigned(b"a", &quorum), Err(ProofError::Quorum(refused)));
        note.add(cosign(&log, &note, cosigner, 9)).unwrap();
    }
    let proof = Proof::new(0, vec![], note).unwrap();
    assert_eq!(proof.verify_cosigned(b"a", &quorum).unwrap().cosigners.len(), 3);
    assert!(matches!(proof.verify_cosigned(b"b", &quorum), Err(ProofError::Inclusion(_))));
}

#[test]
fn one_witness_counts_once_and_strangers_not_at_all() {
    let (log, key, note) = signed_log(&[b"a"]);
    let cosigners = witnesses(3);
    let quorum = Quorum::new(log.clone(), keys(&cosigners[..2]), 0).unwrap();
    assert_eq!(quorum.needed(), 2);
    let log_line = note.signatures()[0].clone();
    let line = |which: usize, time| cosign(&log, &note, &cosigners[which], time);
    let open = |lines: Vec<Signature>| {
        let note = Note::new(note.text().to_owned(), lines).unwrap();
        quorum.open(&note).map(|cosigned| cosigned.cosigners.len())
    };
    let few = |found| Err(QuorumError::TooFew { needed: 2, found });
    assert_eq!(open(vec![log_line.clone(), line(0, 1), line(1, 1)]), Ok(2));
    assert_eq!(open(vec![line(1, 1), line(0, 1), log_line.clone()]), Ok(2));
    assert_eq!(open(vec![log_line.clone(), line(0, 1), line(0, 1)]), few(1));
    assert_eq!(open(vec![log_line.clone(), line(0, 1), line(0, 2)]), few(1));
    assert_eq!(open(vec![log_line.clone(), line(0, 1), line(2, 1)]), few(1));
    assert_eq!(open(vec![log_line.clone()]), few(0));
    // Without the log's own signature witnesses prove nothing.
    let unsigned = open(vec![line(0, 1), line(1, 1)]);
    assert!(matches!(unsigned, Err(QuorumError::Checkpoint(CheckpointError::Unsigned { .. }))));
    // A wrong line of a known witness spoils the note; of an unknown one, it does not.
    let spoiled = |which: usize| {
        let own = line(which, 1);
        Signature::new(own.name().clone(), own.id(), vec![0; 72]).unwrap()
    };
    let bad = open(vec![log_line.clone(), line(0, 1), line(1, 1), spoiled(0)]);
    assert!(matches!(bad, Err(QuorumError::Checkpoint(CheckpointError::Note(NoteError::BadSignature(_))))));
    assert_eq!(open(vec![log_line.clone(), line(0, 1), line(1, 1), spoiled(2)]), Ok(2));
    // The name of a witness with another identifier is a stranger's.
    let log_as_witness = Signature::new(name("witness.example/1"), key.verifier().id(), vec![0; 72]).unwrap();
    assert_eq!(open(vec![log_line, line(0, 1), log_as_witness]), few(1));
}

/// The rule of architecture.md and protocol.md section 9: its formula, its minimality, and why it suffices.
#[test]
fn quorums_of_all_small_sizes_intersect_in_an_honest_witness() {
    for witnesses in 0..=16_usize {
        for faulty in 0..=17_usize {
            // Two sets of q share at least 2q - W.
            let smallest = (1..=witnesses).find(|q| 2 * q > witnesses + faulty);
            assert_eq!(quorum_size(witnesses, faulty).ok(), smallest, "{faulty} of {witnesses}");
        }
    }
    for (witnesses, faulty, needed) in
        [(8, 1, 5), (8, 2, 6), (8, 3, 6), (8, 5, 7), (16, 1, 9), (16, 5, 11), (16, 7, 12)]
    {
        assert_eq!(quorum_size(witnesses, faulty), Ok(needed));
    }
    assert!(quorum_size(usize::MAX, 1).is_err());
    let (log, key, _) = signed_log(&[]);
    let unreachable = Quorum::new(log.clone(), keys(&witnesses(2)), 2);
    assert_eq!(unreachable, Err(QuorumError::Unreachable { witnesses: 2, faulty: 2 }));
    let twice = Quorum::new(log.clone(), [keys(&witnesses(1)), keys(&witnesses(1))].concat(), 0);
    assert!(matches!(twice, Err(QuorumError::Keys(KeyError::Duplicate { .. }))));
    let renamed =
        VerifierKey::new(name("other"), Algorithm::CosignatureV1, keys(&witnesses(1))[0].as_bytes());
    let renamed = Quorum::new(log.clone(), [keys(&witnesses(1)), vec![renamed.unwrap()]].concat(), 0);
    assert!(matches!(renamed, Err(QuorumError::Keys(KeyError::Duplicate { .. }))));
    let wrong_kind = Quorum::new(log, vec![key.verifier().clone()], 0);
    assert_eq!(wrong_kind, Err(QuorumError::Keys(KeyError::Algorithm)));
}

#[test]
fn a_log_opens_its_own_checkpoints_only() {
    let (log, key, note) = signed_log(&[b"a"]);
    assert_eq!(log.open(&note).unwrap().head().size, 1);
    let other = NoteSigner::from_seed(name("log.example/a"), &[2; 32]);
    let other_log = Log::new("log.example/b".parse().unwrap(), vec![key.verifier().clone()]).unwrap();
    assert!(matches!(other_log.open(&note), Err(CheckpointError::OtherLog { .. })));
    let other_key = Log::new(log.origin().clone(), vec![other.verifier().clone()]).unwrap();
    assert!(matches!(other_key.open(&note), Err(CheckpointError::Unsigned { .. })));
    let both =
        Log::new(log.origin().clone(), vec![other.verifier().clone(), key.verifier().clone()]).unwrap();
    assert!(both.open(&note).is_ok());
    let forged =
        Signature::new(name("log.example/a"), key.verifier().id(), other.sign(note.text()).bytes().to_vec());
    let forged = Note::new(note.text().to_owned(), vec![forged.unwrap()]).unwrap();
    assert!(matches!(log.open(&forged), Err(CheckpointError::Note(NoteError::BadSignature(_)))));
    let cosigner = witnesses(1).remove(0);
    let wrong_kind = Log::new(log.origin().clone(), vec![cosigner.verifier().clone()]);
    assert_eq!(wrong_kind, Err(KeyError::Algorithm));
}

#[test]
fn checkpoints_have_one_spelling() {
    let root = "CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=";
    for text in [
        format!("o\n0\n{root}\n"),
        format!("o\n{MAX_SIZE}\n{root}\n"),
        format!("with space + plus\n1\n{root}\n"),
        format!("o\n1\n{root}\nextension\nanother one\n"),
        format!("o\n1\n{root}\n{}", "e\n".repeat(64)),
    ] {
        assert_eq!(text.parse::<Checkpoint>().unwrap().to_string(), text);
    }
    for text in [
        String::new(),
        "o\n1\n".to_owned(),
        format!("o\n1\n{root}"),
        format!("\n1\n{root}\n"),
        format!("o\n\n{root}\n"),
        format!("o\n01\n{root}\n"),
        format!("o\n+1\n{root}\n"),
        format!("o\n-1\n{root}\n"),
        format!("o\n1 \n{root}\n"),
        format!("o\n0x1\n{root}\n"),
        format!("o\n{}\n{root}\n", MAX_SIZE + 1),
        format!("o\n18446744073709551616\n{root}\n"),
        format!("o\n1\n{}\n", &root[..43]),
        format!("o\n1\n{root}=\n"),
        format!("o\n1\n{}\n", root.replace("2I=", "2J=")),
        format!("o\n1\n{}\n", root.replace('/', "_")),
        "o\n1\nAAAA\n".to_owned(),
        format!("o\n1\n{root}\n\n"),
        format!("o\n1\n{root}\nextension"),
        format!("o\n1\n{root}\n\nextension\n"),
        format!("o\n1\n{root}\nexten\tsion\n"),
        format!("o\n1\n{root}\n{}", "e\n".repeat(65)),
        format!("o\r\n1\n{root}\n"),
        format!("{}\n1\n{root}\n", "o".repeat(256)),
    ] {
        assert!(text.parse::<Checkpoint>().is_err(), "{text:?}");
    }
}

#[test]
fn keys_have_one_spelling() {
    let text = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW";
    let key: VerifierKey = text.parse().unwrap();
    assert_eq!((key.to_string().as_str(), key.name().as_str()), (text, "PeterNeumann"));
    let secret = "PRIVATE+KEY+PeterNeumann+c74f20a3+AYEKFALVFGyNhPJEMzD1QIDr+Y7hfZx09iUvxdXHKDFz";
    let signer = NoteSigner::from_secret_text(secret).unwrap();
    assert_eq!((signer.verifier(), signer.to_secret_text().as_str()), (&key, secret));
    assert!(matches!(Cosigner::from_secret_text(secret), Err(KeyError::Algorithm)));

    // Every part of the text, every change of a character: refused, as x/mod's tests demand of x/mod.
    let public = |text: &str| text.parse::<VerifierKey>().is_ok();
    let private = |text: &str| NoteSigner::from_secret_text(text).is_ok();
    for (text, accepts) in [(text, &public as &dyn Fn(&str) -> bool), (secret, &private)] {
        assert!(accepts(text));
        for start in 0..text.len() {
            for end in start..=text.len() {
                assert!(
                    (start, end) == (0, text.len()) || !accepts(&text[start..end]),
                    "{}",
                    &text[start..end]
                );
            }
        }
        for place in 0..text.len() {
            for other in (32..127).map(char::from).filter(|other| !text[place..].starts_with(*other)) {
                let changed = format!("{}{other}{}", &text[..place], &text[place + 1..]);
                assert!(!accepts(&changed), "{changed}");
            }
        }
    }
    for refused in [
        "PeterNeumann+cc469956+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TWBADKEY==",
        "PeterNeumann+173116ae+ZRpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW",
        "PeterNeumann+C74F20A3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW",
    ] {
        assert!(refused.parse::<VerifierKey>().is_err(), "{refused}");
    }
    // The neutral element, with which anybody signs anything.
    let mut neutral = [0; 32];
    neutral[0] = 1;
    assert_eq!(VerifierKey::new(name("n"), Algorithm::Ed25519, &neutral), Err(KeyError::PublicKey));
    for refused in ["", " ", "a b", "a+b", "a\u{a0}b", "a\u{2028}b", "a\nb", "a\0", &"a".repeat(256)] {
        assert_eq!(refused.parse::<KeyName>(), Err(KeyError::Name), "{refused:?}");
    }
}

#[test]
fn algorithms_do_not_stand_in_for_each_other() {
    let (log, _, note) = signed_log(&[b"a"]);
    let seed = [9; 32];
    let (signer, cosigner) = (NoteSigner::from_seed(name("w"), &seed), Cosigner::from_seed(name("w"), &seed));
    assert_ne!(signer.verifier().id(), cosigner.verifier().id());
    let (plain, timed) = (signer.sign(note.text()), cosign(&log, &note, &cosigner, 7));
    assert!(signer.verifier().verify(note.text(), plain.bytes()).is_ok());
    assert_eq!(cosigner.verifier().verify(note.text(), timed.bytes()), Ok(Some(7)));
    assert!(cosigner.verifier().verify(note.text(), plain.bytes()).is_err());
    assert!(signer.verifier().verify(note.text(), timed.bytes()).is_err());
    assert!(signer.verifier().verify(note.text(), &timed.bytes()[8..]).is_err());
    let untimed = [&[0; 8][..], plain.bytes()].concat();
    assert!(cosigner.verifier().verify(note.text(), &untimed).is_err());
    // Times of 64 bits exist in no cosignature.
    let late = [&u64::MAX.to_be_bytes()[..], &[0; 64]].concat();
    assert_eq!(cosigner.verifier().verify(note.text(), &late), Err(KeyError::Timestamp { time: u64::MAX }));
    let accepted = witness::check(&log, None, &Request::new(0, vec![], note).unwrap()).unwrap();
    assert_eq!(accepted.cosign(&cosigner, 1 << 63), Err(KeyError::Timestamp { time: 1 << 63 }));
}

#[test]
fn notes_stay_within_their_bounds() {
    let (_, key, note) = signed_log(&[]);
    let line = |i: usize| Signature::new(name(&format!("n{i}")), key.verifier().id(), vec![0]).unwrap();
    let many: Vec<_> = (0..MAX_SIGNATURES).map(line).collect();
    let mut full = Note::new("t\n".to_owned(), many.clone()).unwrap();
    assert_eq!(Note::parse(full.to_string().as_bytes()).as_ref(), Ok(&full));
    assert_eq!(full.add(line(MAX_SIGNATURES)), Err(NoteError::TooManySignatures));
    let over = format!("{full}{}", line(MAX_SIGNATURES));
    assert_eq!(Note::parse(over.as_bytes()), Err(NoteError::TooManySignatures));
    // In the place of one that is there already, it fits.
    let replacement = Signature::new(name("n5"), key.verifier().id(), vec![1]).unwrap();
    full.add(replacement.clone()).unwrap();
    assert_eq!((full.signatures().len(), &full.signatures()[5]), (MAX_SIGNATURES, &replacement));

    let found = MAX_NOTE_BYTES + 1;
    assert_eq!(Note::parse(&vec![b'a'; found]), Err(NoteError::TooLong { found }));
    let long = Note::new("a".repeat(MAX_NOTE_BYTES) + "\n", note.signatures().to_vec());
    assert!(matches!(long, Err(NoteError::TooLong { .. })));
    assert_eq!(Note::new("t".to_owned(), many), Err(NoteError::Layout));
    assert_eq!(Note::new("t\n".to_owned(), vec![]), Err(NoteError::Layout));
    assert_eq!(Note::new("t\r\n".to_owned(), note.signatures().to_vec()), Err(NoteError::Encoding));
    assert_eq!(Signature::new(name("n"), key.verifier().id(), vec![]), None);
}
