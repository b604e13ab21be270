//! The witness rule: each refusal, and a random walk beside a naive witness that keeps whole histories.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod naive;

use naive::Naive;
use proptest::prelude::*;
use tlog::MAX_SIZE;
use tlog::checkpoint::{Checkpoint, CheckpointError, Log, TreeHead};
use tlog::key::NoteSigner;
use tlog::merkle::{ConsistencyError, consistency_proof, empty_root};
use tlog::witness::{Refusal, Request, RequestError, check, parse_size_body};

fn key(seed: u8) -> NoteSigner {
    NoteSigner::from_seed("log.example".parse().unwrap(), &[seed; 32])
}

fn log() -> Log {
    Log::new("log.example".parse().unwrap(), vec![key(1).verifier().clone()]).unwrap()
}

/// A request about the first `new` entries, signed with `seed`'s key, that claims to start at `old`.
fn request(naive: &Naive, old: u64, new: u64, proof: Vec<[u8; 32]>, seed: u8) -> Request {
    let root = naive.mth(0, usize::try_from(new).unwrap());
    let checkpoint = Checkpoint::new(log().origin().clone(), TreeHead { size: new, root }).unwrap();
    let request = Request::new(old, proof, checkpoint.sign(&key(seed)).unwrap()).unwrap();
    assert_eq!(Request::parse(request.to_string().as_bytes()).as_ref(), Ok(&request));
    request
}

fn proof(naive: &Naive, old: u64, new: u64) -> Vec<[u8; 32]> {
    consistency_proof(&naive.leaves()[..usize::try_from(new).unwrap()], old).unwrap()
}

fn head(naive: &Naive, size: u64) -> TreeHead {
    TreeHead { size, root: naive.mth(0, usize::try_from(size).unwrap()) }
}

#[test]
fn a_log_that_grows_is_cosigned() {
    let (naive, log) = (Naive::numbered(20), log());
    let mut last = None;
    let mut old = 0;
    for new in [0, 0, 1, 1, 2, 7, 7, 8, 20] {
        let accepted = check(&log, last, &request(&naive, old, new, proof(&naive, old, new), 1)).unwrap();
        assert_eq!(accepted.head(), head(&naive, new));
        last = Some(accepted.head());
        old = new;
    }
}

#[test]
fn each_refusal_has_its_status() {
    let (naive, log) = (Naive::numbered(9), log());
    let other = Naive::new(vec![vec![9]; 9]);
    let at_five = Some(head(&naive, 5));
    let good = proof(&naive, 5, 9);
    let refused = |last, request: &Request, status| {
        let refusal = check(&log, last, request).unwrap_err();
        assert_eq!(refusal.status(), status, "{refusal}");
        refusal
    };
    assert!(check(&log, at_five, &request(&naive, 5, 9, good.clone(), 1)).is_ok());

    let unknown = Log::new("elsewhere.example".parse().unwrap(), vec![key(1).verifier().clone()]).unwrap();
    let refusal = check(&unknown, None, &request(&naive, 0, 9, vec![], 1)).unwrap_err();
    assert_eq!((refusal.status(), refusal), (404, Refusal::UnknownLog { origin: log.origin().clone() }));

    // Another key of the same name is unknown; it would also be refused for each of the later reasons.
    let refusal = refused(at_five, &request(&naive, 9, 5, vec![[0; 32]], 2), 403);
    assert!(matches!(refusal, Refusal::Forbidden(CheckpointError::Unsigned { .. })));

    let refusal = refused(at_five, &request(&naive, 9, 5, vec![[0; 32]], 1), 400);
    assert_eq!(refusal, Refusal::OldSizeAboveNew { old: 9, new: 5 });

    for (last, size) in [(at_five, 5), (Some(head(&naive, 9)), 9), (None, 0)] {
        let refusal = refused(last, &request(&naive, 3, 9, proof(&naive, 3, 9), 1), 409);
        assert_eq!(refusal, Refusal::Conflict { old: 3, size });
        let body = refusal.size_body().unwrap();
        assert_eq!((body.clone(), parse_size_body(body.as_bytes())), (format!("{size}\n"), Some(size)));
    }

    let refusal = refused(at_five, &request(&other, 5, 5, vec![], 1), 409);
    let (cosigned, root) = (naive.mth(0, 5), other.mth(0, 5));
    assert_eq!(refusal, Refusal::SplitView { size: 5, cosigned, other: root });
    assert_eq!(refusal.size_body(), None);

    for bad in [vec![], good[1..].to_vec(), [&good[..], &[[0; 32]]].concat()] {
        let found = bad.len();
        let refusal = refused(at_five, &request(&naive, 5, 9, bad, 1), 422);
        assert_eq!(refusal, Refusal::Unproven(ConsistencyError::ProofLength { expected: good.len(), found }));
    }
    let refusal = refused(at_five, &request(&other, 5, 9, proof(&other, 5, 9), 1), 422);
    assert_eq!(refusal, Refusal::Unproven(ConsistencyError::OldRootMismatch { old: 5, new: 9 }));
    let refusal = refused(at_five, &request(&other, 5, 9, good, 1), 422);
    assert_eq!(refusal, Refusal::Unproven(ConsistencyError::NewRootMismatch { old: 5, new: 9 }));
    // "The proof MUST be empty if the old size is zero", and if nothing was appended.
    refused(None, &request(&naive, 0, 9, vec![[0; 32]], 1), 422);
    refused(at_five, &request(&naive, 5, 5, vec![[0; 32]], 1), 422);

    // A log without leaves has one root.
    let checkpoint = Checkpoint::new(log.origin().clone(), TreeHead { size: 0, root: [3; 32] }).unwrap();
    let empty = Request::new(0, vec![], checkpoint.sign(&key(1)).unwrap()).unwrap();
    let refusal = refused(None, &empty, 409);
    assert_eq!(refusal, Refusal::SplitView { size: 0, cosigned: empty_root(), other: [3; 32] });
}

#[test]
fn malformed_requests_are_bad_requests() {
    let naive = Naive::numbered(9);
    let good = request(&naive, 5, 9, proof(&naive, 5, 9), 1);
    let text = good.to_string();
    let hash = data_encoding::BASE64.encode(&[7; 32]) + "\n";
    let proof_of = |count| request(&naive, 5, 9, vec![[7; 32]; count], 1).to_string();
    assert_eq!(Request::parse(proof_of(63).as_bytes()).unwrap().proof().len(), 63);
    assert_eq!(Request::new(5, vec![[7; 32]; 64], good.note().clone()), Err(RequestError::Proof));
    assert_eq!(Request::new(MAX_SIZE + 1, vec![], good.note().clone()), Err(RequestError::OldSize));
    for (bad, error) in [
        (String::new(), RequestError::OldSize),
        (text.replacen("old 5", "old 05", 1), RequestError::OldSize),
        (text.replacen("old 5", "old -5", 1), RequestError::OldSize),
        (text.replacen("old 5", "old", 1), RequestError::OldSize),
        (text.replacen("old 5", "old  5", 1), RequestError::OldSize),
        (text.replacen("old 5", "Old 5", 1), RequestError::OldSize),
        (text.replacen("old 5", "old 9223372036854775808", 1), RequestError::OldSize),
        (text.replacen("old 5\n", "old 5\r\n", 1), RequestError::OldSize),
        (text.replacen("old 5\n", "old 5\nAAAA\n", 1), RequestError::Proof),
        (proof_of(63).replacen("old 5\n", &format!("old 5\n{hash}"), 1), RequestError::Proof),
        ("old 5\n".to_owned(), RequestError::Proof),
    ] {
        assert_eq!(Request::parse(bad.as_bytes()), Err(error), "{bad:?}");
    }
    assert_eq!(Request::parse(b"old 5\n\xff\n"), Err(RequestError::Utf8));
    assert!(matches!(Request::parse(b"old 5\n\n"), Err(RequestError::Note(_))));
    let note = "old 0\n\nno checkpoint\n\n\u{2014} k AAAAAAA=\n";
    assert!(matches!(Request::parse(note.as_bytes()), Err(RequestError::Checkpoint(_))));
    assert_eq!(Refusal::Request(RequestError::Proof).status(), 400);
    for bad in ["", "\n", "5", "05\n", "5\n\n", " 5\n", "-1\n", "9223372036854775808\n"] {
        assert_eq!(parse_size_body(bad.as_bytes()), None, "{bad:?}");
    }
}

/// A witness as one would write it with all entries at hand: it keeps the history it cosigned, and cosigns another if
/// that begins with it. The status, by C2SP's text.
#[derive(Default)]
struct ByTheBook {
    cosigned: Vec<Vec<u8>>,
}

impl ByTheBook {
    fn status(&mut self, old: usize, signed: bool, shown: &[Vec<u8>], proof_is_right: bool) -> u16 {
        if !signed {
            return 403;
        }
        if old > shown.len() {
            return 400;
        }
        if old != self.cosigned.len() {
            return 409;
        }
        let extends = shown.starts_with(&self.cosigned);
        if old == shown.len() && !extends {
            return 409;
        }
        if !extends || !proof_is_right {
            return 422;
        }
        self.cosigned = shown.to_vec();
        200
    }
}

#[derive(Clone, Debug)]
struct Attempt {
    /// Entries that the shown history has from the common one, then entries of its own.
    common: usize,
    own: usize,
    old: Option<usize>,
    signed: bool,
    spoil: Option<usize>,
}

fn attempts() -> impl Strategy<Value = Vec<Attempt>> {
    let attempt = (
        0..30_usize,
        prop_oneof![4 => Just(0), 1 => 1..4_usize],
        prop::option::weighted(0.2, 0..32_usize),
        prop::bool::weighted(0.9),
        prop::option::weighted(0.15, 0..256_usize),
    );
    let attempt =
        attempt.prop_map(|(common, own, old, signed, spoil)| Attempt { common, own, old, signed, spoil });
    prop::collection::vec(attempt, 1..25)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// Whatever is asked in whatever order, by an honest log or a forking one: the same answers as the naive witness,
    /// and so never two cosigned histories of which neither begins with the other.
    #[test]
    fn the_rule_is_the_naive_witness(attempts in attempts()) {
        let (log, mut book, mut last) = (log(), ByTheBook::default(), None::<TreeHead>);
        for attempt in attempts {
            let mut shown: Vec<Vec<u8>> = (0..attempt.common).map(|i| format!("entry {i}").into_bytes()).collect();
            shown.extend((0..attempt.own).map(|i| format!("fork {i}").into_bytes()));
            let naive = Naive::new(shown.clone());
            let old = attempt.old.unwrap_or(book.cosigned.len());
            let mut hashes = match old {
                0 => vec![],
                old if old <= shown.len() => naive.proof(old, shown.len()),
                _ => vec![],
            };
            let mut proof_is_right = true;
            if let Some(bit) = attempt.spoil {
                proof_is_right = false;
                match hashes.last_mut() {
                    Some(hash) => hash[bit / 8] ^= 1 << (bit % 8),
                    None => hashes.push([0; 32]),
                }
            }
            let seed = if attempt.signed { 1 } else { 2 };
            let request = request(&naive, old as u64, shown.len() as u64, hashes, seed);
            let expected = book.status(old, attempt.signed, &shown, proof_is_right);
            let status = match check(&log, last, &request) {
                Ok(accepted) => {
                    last = Some(accepted.head());
                    200
                }
                Err(refusal) => {
                    let size = (expected == 409 && old != book.cosigned.len()).then_some(book.cosigned.len() as u64);
                    prop_assert_eq!(refusal.size_body().map(|body| parse_size_body(body.as_bytes()).unwrap()), size);
                    refusal.status()
                }
            };
            prop_assert_eq!(status, expected, "{:?}", attempt);
            prop_assert_eq!(last.map_or(0, |last| last.size), book.cosigned.len() as u64);
        }
    }
}
