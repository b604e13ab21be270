//! Bytes that must be refused: each an edit of a good case, with the exact error. The errors are written here by hand.

use serde_json::{Value, json};
use std::collections::BTreeMap;

/// An edit of the first case of a file.
enum Edit {
    /// These bytes after the end.
    Append(&'static str),
    /// These bytes in place of as many at this offset.
    Put(usize, &'static str),
    /// Only the first bytes.
    Take(usize),
}
use Edit::{Append, Put, Take};

/// How it is refused.
enum Kind {
    NotCanonical,
    OutOfRange,
    Trailing(usize),
    Truncated(usize, usize),
    Unexpected(u64, u64),
}
use Kind::{NotCanonical, OutOfRange, Trailing, Truncated, Unexpected};

type Row = (&'static str, Edit, usize, &'static str, Kind);

/// A signature with r = 0, one with s = 0, one with s = (n - 1) / 2 + 1 and r = 1.
const R_ZERO: &str = "0000000000000000000000000000000000000000000000000000000000000000";
const HIGH_S: &str = "7fffffff800000007fffffffffffffffde737d56d38bcf4279dce5617e3192a9";
/// The order of P-256.
const ORDER: &str = "ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551";
/// The prime of P-256's field: an x at it has another encoding, 0.
const FIELD: &str = "02ffffffff00000001000000000000000000000000ffffffffffffffffffffffff";

const STATEMENT: usize = 4 + 6 * 32 + 4 + 1 + 8 + 32;
const POST: usize = 4 + STATEMENT + 64 + 4352 + 10_752;
const SEALED: usize = 32 + 4608 + 4352 + 1104;
const ENVELOPE: usize = 4 + 4 + 2 + 32 + SEALED + 32;
/// Two clients: nine bits for r, eight for u, seven for the path.
const OPENING: usize = 5 * 2304 + 6 * 2048 + 5 * 1792;
const SUM: usize = 4 + 6 * 32 + 2 + 4 + OPENING + 64;
const SERVER: usize = 33 + 1184 + 64;
/// Up to the number of lanes. Without lanes and aggregators it ends with both numbers.
const EPOCH: usize = 4 + 32 + 4 + 2 + 2 * SERVER + 2;
/// Two members; their sum.
const MEMBERS: usize = 4 + 4 * 32 + 2 + 4;
const GROUP: usize = MEMBERS + 2 * 36 + 4352 + 10_752 + 64;
/// Up to the complaints.
const CHECKED: usize = 4 + 4 * 32 + 2 + 4;
const ANSWER: usize = 4 + 4 * 32 + 4 + 2 + 32 + 4608 + 4352 + 64;
/// A share of one polynomial, two siblings; two hashes among three lanes and the root over the envelopes.
const ITEM_BODY: usize = 10_752 + 2 * 5376;
const ITEM: usize = 4 + 4 + 2 + ITEM_BODY + 3 * 32;
const RS_SIGNED: usize = STATEMENT + 32 + 64;
const RS_POST: usize = 4 + RS_SIGNED + 4352 + 5376;
/// Two clients: twelve bits for the four digits of the share, nine for the path of two levels.
const LANE_SUM: usize = 203 + 4 * 3072 + 10 * 2304 + 64;

/// Base file, object, rows.
fn tables() -> Vec<(&'static str, Vec<Row>)> {
    vec![
        (
            "canonical_set",
            vec![
                ("nothing", Take(0), 0, "object type", Truncated(2, 0)),
                ("a post's type", Put(0, "0101"), 0, "object type", Unexpected(0x0302, 0x0101)),
                ("version 0", Put(2, "0000"), 2, "object version", Unexpected(1, 0)),
                ("version 2", Put(2, "0200"), 2, "object version", Unexpected(1, 2)),
                ("no clients", Put(4, "00000000"), 4, "number of clients", OutOfRange),
                ("more clients than bytes", Put(4, "02000000"), 8, "client ids", Truncated(8, 4)),
                ("2^32 - 1 clients", Put(4, "ffffffff"), 8, "client ids", Truncated(17_179_869_180, 4)),
                ("trailing byte", Append("00"), 12, "end of object", Trailing(1)),
                ("trailing client", Append("08000000"), 12, "end of object", Trailing(4)),
            ],
        ),
        (
            "canonical_set#1",
            vec![
                ("out of order", Put(8, "010000000000000002000000"), 8, "client ids", NotCanonical),
                ("a client twice", Put(8, "000000000000000002000000"), 8, "client ids", NotCanonical),
                ("cut in the last id", Take(19), 8, "client ids", Truncated(12, 11)),
            ],
        ),
        // Type, version, kind; set, mode, servers, threshold, faulty, polynomials, plaintext; the document; the sum.
        (
            "evidence",
            vec![
                ("a set's type", Put(0, "0203"), 0, "object type", Unexpected(0x0401, 0x0302)),
                ("version 2", Put(2, "0200"), 2, "object version", Unexpected(1, 2)),
                ("kind 0", Put(4, "00"), 4, "kind of evidence", OutOfRange),
                ("kind 11", Put(4, "0b"), 4, "kind of evidence", OutOfRange),
                ("no parameter set", Put(5, "00"), 5, "parameter set", OutOfRange),
                ("a third parameter set", Put(5, "03"), 5, "parameter set", OutOfRange),
                ("mode 4", Put(6, "04"), 6, "mode", OutOfRange),
                ("no plaintext modulus", Put(17, "00"), 17, "plaintext modulus", OutOfRange),
                ("not a document", Put(18, "0203"), 18, "object type", Unexpected(0x0301, 0x0302)),
                ("cut in the terms", Take(15), 13, "number of polynomials", Truncated(4, 2)),
            ],
        ),
        // Set, mode, servers, threshold, faulty, polynomials, plaintext; clients; encoding, capacity, message bytes.
        (
            "terms",
            vec![
                ("nothing", Take(0), 0, "parameter set", Truncated(1, 0)),
                ("a third parameter set", Put(0, "03"), 0, "parameter set", OutOfRange),
                ("mode 0", Put(1, "00"), 1, "mode", OutOfRange),
                // With lanes all that follows is four bytes further on: the encoding is the capacity's last byte.
                ("another mode's length", Put(1, "03"), 25, "payload encoding", OutOfRange),
                ("no server", Put(2, "0000"), 0, "terms of a round", OutOfRange),
                ("threshold 1 of 2", Put(4, "0100"), 0, "terms of a round", OutOfRange),
                ("as many faulty as the threshold", Put(6, "0200"), 0, "terms of a round", OutOfRange),
                ("no polynomials", Put(8, "00000000"), 0, "terms of a round", OutOfRange),
                ("131073 polynomials", Put(8, "01000200"), 0, "terms of a round", OutOfRange),
                ("more polynomials than the payload", Put(8, "03000000"), 21, "payload encoding", OutOfRange),
                ("plaintext modulus 3", Put(12, "03"), 12, "plaintext modulus", OutOfRange),
                ("the other plaintext modulus", Put(12, "01"), 21, "payload encoding", OutOfRange),
                ("fewest clients 1", Put(13, "01000000"), 0, "terms of a round", OutOfRange),
                ("most clients 1", Put(17, "01000000"), 0, "terms of a round", OutOfRange),
                ("most clients 301", Put(17, "2d010000"), 0, "terms of a round", OutOfRange),
                ("encoding 0", Put(21, "00"), 21, "payload encoding", OutOfRange),
                ("encoding 4", Put(21, "04"), 21, "payload encoding", OutOfRange),
                ("another encoding", Put(21, "03"), 21, "payload encoding", OutOfRange),
                ("no capacity", Put(22, "00000000"), 21, "payload encoding", OutOfRange),
                ("2^32 - 1 messages", Put(22, "ffffffff"), 21, "payload encoding", OutOfRange),
                ("no message bytes", Put(26, "00000000"), 21, "payload encoding", OutOfRange),
                (
                    "longer messages than the polynomials hold",
                    Put(26, "00200000"),
                    21,
                    "payload encoding",
                    OutOfRange,
                ),
                ("one byte short", Take(29), 26, "message bytes", Truncated(4, 3)),
                ("trailing byte", Append("00"), 30, "end of object", Trailing(1)),
            ],
        ),
        (
            "terms#3",
            vec![
                ("0 lanes needed", Put(13, "0000"), 0, "terms of a round", OutOfRange),
                ("4 of 3 lanes", Put(13, "0400"), 0, "terms of a round", OutOfRange),
                ("fewer lanes than servers", Put(13, "01000100"), 0, "terms of a round", OutOfRange),
            ],
        ),
        (
            "verifying_key",
            vec![
                ("short", Take(32), 0, "verifying key", Truncated(33, 32)),
                ("long", Append("00"), 33, "end of object", Trailing(1)),
                ("uncompressed tag", Put(0, "04"), 0, "verifying key", OutOfRange),
                ("compact tag", Put(0, "05"), 0, "verifying key", OutOfRange),
                ("x at the field's prime", Put(0, FIELD), 0, "verifying key", OutOfRange),
            ],
        ),
        (
            "signature",
            vec![
                ("short", Take(63), 0, "signature", Truncated(64, 63)),
                ("long", Append("00"), 64, "end of object", Trailing(1)),
                ("r = 0", Put(0, R_ZERO), 0, "signature", OutOfRange),
                ("s = 0", Put(32, R_ZERO), 0, "signature", OutOfRange),
                ("r = n", Put(0, ORDER), 0, "signature", OutOfRange),
                ("s = n", Put(32, ORDER), 0, "signature", OutOfRange),
                ("s in the upper half", Put(32, HIGH_S), 0, "signature", NotCanonical),
            ],
        ),
        (
            "public_key",
            vec![
                ("short", Take(1183), 0, "encapsulation key", Truncated(1184, 1183)),
                ("long", Append("00"), 1184, "end of object", Trailing(1)),
                ("coefficient 0 = 3329", Put(0, "010d"), 0, "encapsulation key", OutOfRange),
            ],
        ),
        (
            "post_statement",
            vec![
                ("nothing", Take(0), 0, "object type", Truncated(2, 0)),
                ("cut in the session", Take(90), 68, "SessionId", Truncated(32, 22)),
                ("one byte short", Take(STATEMENT - 1), STATEMENT - 32, "EnvelopeRoot", Truncated(32, 31)),
                ("trailing byte", Append("00"), STATEMENT, "end of object", Trailing(1)),
                ("an envelope's type", Put(0, "0301"), 0, "object type", Unexpected(0x0101, 0x0103)),
                ("version 2", Put(2, "0200"), 2, "object version", Unexpected(1, 2)),
                ("mode 0", Put(136, "00"), 136, "mode", OutOfRange),
                ("mode 4", Put(136, "04"), 136, "mode", OutOfRange),
                // A mode with two roots shifts all that follows, so the end is missing.
                ("another mode's length", Put(136, "03"), STATEMENT, "EnvelopeRoot", Truncated(32, 0)),
            ],
        ),
        (
            "signed_post",
            vec![
                ("no signature", Take(STATEMENT), STATEMENT, "signature", Truncated(64, 0)),
                ("trailing byte", Append("ff"), STATEMENT + 64, "end of object", Trailing(1)),
                ("s in the upper half", Put(STATEMENT + 32, HIGH_S), STATEMENT, "signature", NotCanonical),
            ],
        ),
        (
            "commitment",
            vec![
                ("short", Take(4351), 0, "commitment", OutOfRange),
                ("long", Append("00"), 0, "commitment", OutOfRange),
                ("coefficient 0 = q", Put(0, "0150fd"), 0, "commitment", OutOfRange),
            ],
        ),
        (
            "client_post",
            vec![
                ("a statement's type", Put(0, "0101"), 0, "object type", Unexpected(0x0102, 0x0101)),
                ("statement of version 2", Put(6, "0200"), 6, "object version", Unexpected(1, 2)),
                (
                    "root out of range",
                    Put(4 + STATEMENT + 64, "ffff01"),
                    4 + STATEMENT + 64,
                    "commitment root",
                    OutOfRange,
                ),
                ("no ciphertext", Take(POST - 10_752), POST - 10_752, "ciphertext", Truncated(10_752, 0)),
                ("one byte short", Take(POST - 1), POST - 10_752, "ciphertext", Truncated(10_752, 10_751)),
                ("trailing byte", Append("00"), POST, "end of object", Trailing(1)),
            ],
        ),
        (
            "envelope",
            vec![
                ("a post's type", Put(0, "0201"), 0, "object type", Unexpected(0x0103, 0x0102)),
                ("server 2 of 2", Put(8, "0200"), 8, "server id", OutOfRange),
                ("cut in the sealed bytes", Take(1000), 42, "sealed opening", Truncated(SEALED, 958)),
                ("no path", Take(ENVELOPE - 32), ENVELOPE - 32, "inclusion path", Truncated(32, 0)),
                ("a path too long", Append("0000"), ENVELOPE, "end of object", Trailing(2)),
            ],
        ),
        (
            "fresh_opening",
            vec![
                ("seed only", Take(32), 32, "key share", Truncated(4608, 0)),
                ("share coefficient 0 = q", Put(32, "f5ff03"), 32, "key share", OutOfRange),
                ("sibling out of range", Put(4640, "ffff01"), 4640, "sibling", OutOfRange),
                ("one byte short", Take(8991), 4640, "sibling", Truncated(4352, 4351)),
                ("trailing byte", Append("00"), 8992, "end of object", Trailing(1)),
            ],
        ),
        (
            "server_sum",
            vec![
                ("a set's type", Put(0, "0203"), 0, "object type", Unexpected(0x0201, 0x0302)),
                ("version 2", Put(2, "0200"), 2, "object version", Unexpected(1, 2)),
                ("server 2 of 2", Put(132, "0200"), 132, "server id", OutOfRange),
                ("no clients", Put(198, "00000000"), 198, "number of clients", OutOfRange),
                ("301 clients", Put(198, "2d010000"), 198, "number of clients", OutOfRange),
                ("randomness 433 of 432", Put(202, "b1ff"), 202, "randomness sum", OutOfRange),
                (
                    "leaf digit 129 of 128",
                    Put(202 + 11_520, "81"),
                    202 + 11_520,
                    "leaf digit sum",
                    OutOfRange,
                ),
                ("path digit 127 of 88", Put(202 + 23_808, "ff"), 202 + 23_808, "path digit sum", OutOfRange),
                ("s in the upper half", Put(SUM - 32, HIGH_S), SUM - 64, "signature", NotCanonical),
                ("cut in the signature", Take(SUM - 1), SUM - 64, "signature", Truncated(64, 63)),
                ("trailing byte", Append("00"), SUM, "end of object", Trailing(1)),
                // Read as a sum of three clients, r has ten bits: what was packed at nine runs out of range at once.
                ("another number of clients", Put(198, "03000000"), 202, "randomness sum", OutOfRange),
            ],
        ),
        (
            "epoch",
            vec![
                ("version 2", Put(2, "0200"), 2, "object version", Unexpected(1, 2)),
                ("no servers", Put(40, "0000"), 40, "number of servers", OutOfRange),
                (
                    "three servers of two",
                    Put(40, "0300"),
                    42,
                    "servers of the epoch",
                    Truncated(3 * SERVER, 2 * SERVER + 4),
                ),
                (
                    "65535 servers",
                    Put(40, "ffff"),
                    42,
                    "servers of the epoch",
                    Truncated(65_535 * SERVER, 2 * SERVER + 4),
                ),
                ("another epoch's key signatures", Put(36, "01"), 42, "servers of the epoch", OutOfRange),
                ("identity with tag 05", Put(42, "05"), 42, "verifying key", OutOfRange),
                ("envelope key out of range", Put(42 + 33, "ffff"), 42 + 33, "encapsulation key", OutOfRange),
                ("r = 0", Put(42 + 33 + 1184, R_ZERO), 42 + 33 + 1184, "signature", OutOfRange),
                (
                    "cut in the last server",
                    Take(EPOCH - 3),
                    42,
                    "servers of the epoch",
                    Truncated(2 * SERVER, 2 * SERVER - 1),
                ),
                (
                    "cut in the number of lanes",
                    Take(EPOCH - 1),
                    EPOCH - 2,
                    "number of lanes",
                    Truncated(2, 1),
                ),
                ("one byte short", Take(EPOCH + 1), EPOCH, "number of aggregators", Truncated(2, 1)),
                ("one lane of none", Put(EPOCH - 2, "0100"), EPOCH, "lanes of the epoch", Truncated(33, 2)),
                (
                    "65535 lanes",
                    Put(EPOCH - 2, "ffff"),
                    EPOCH,
                    "lanes of the epoch",
                    Truncated(65_535 * 33, 2),
                ),
                (
                    "one aggregator of none",
                    Put(EPOCH, "0100"),
                    EPOCH + 2,
                    "aggregators of the epoch",
                    Truncated(33, 0),
                ),
                (
                    "65535 aggregators",
                    Put(EPOCH, "ffff"),
                    EPOCH + 2,
                    "aggregators of the epoch",
                    Truncated(65_535 * 33, 0),
                ),
                ("trailing byte", Append("00"), EPOCH + 2, "end of object", Trailing(1)),
            ],
        ),
        (
            "epoch#2",
            vec![
                ("one aggregator of two", Put(EPOCH, "0100"), EPOCH + 35, "end of object", Trailing(33)),
                ("aggregator key with tag 05", Put(EPOCH + 2, "05"), EPOCH + 2, "verifying key", OutOfRange),
            ],
        ),
        (
            "group_sum",
            vec![
                ("a server's type", Put(0, "0102"), 0, "object type", Unexpected(0x0203, 0x0201)),
                ("version 2", Put(2, "0200"), 2, "object version", Unexpected(1, 2)),
                ("no members", Put(134, "00000000"), 134, "number of members", OutOfRange),
                ("301 members", Put(134, "2d010000"), 134, "number of members", OutOfRange),
                ("cut in the members", Take(MEMBERS + 71), MEMBERS, "members", Truncated(72, 71)),
                ("a member twice", Put(MEMBERS + 36, "00000000"), MEMBERS, "members", NotCanonical),
                ("members out of order", Put(MEMBERS, "05000000"), MEMBERS, "members", NotCanonical),
                ("root out of range", Put(MEMBERS + 72, "ffff01"), MEMBERS + 72, "root sum", OutOfRange),
                (
                    "no ciphertext",
                    Take(GROUP - 64 - 10_752),
                    GROUP - 64 - 10_752,
                    "ciphertext sum",
                    Truncated(10_752, 0),
                ),
                ("s in the upper half", Put(GROUP - 32, HIGH_S), GROUP - 64, "signature", NotCanonical),
                ("trailing byte", Append("00"), GROUP, "end of object", Trailing(1)),
            ],
        ),
        (
            "checked",
            vec![
                ("an answer's type", Put(0, "0601"), 0, "object type", Unexpected(0x0204, 0x0106)),
                ("version 0", Put(2, "0000"), 2, "object version", Unexpected(1, 0)),
                ("server 2 of 2", Put(132, "0200"), 132, "server id", OutOfRange),
                ("301 complaints", Put(134, "2d010000"), 134, "number of complaints", OutOfRange),
                ("two complaints of none", Put(134, "02000000"), CHECKED, "complaints", Truncated(72, 64)),
                ("s in the upper half", Put(CHECKED + 32, HIGH_S), CHECKED, "signature", NotCanonical),
                ("trailing byte", Append("00"), CHECKED + 64, "end of object", Trailing(1)),
            ],
        ),
        (
            "checked#2",
            vec![
                ("a client twice", Put(CHECKED + 36, "00000000"), CHECKED, "complaints", NotCanonical),
                ("out of order", Put(CHECKED, "07000000"), CHECKED, "complaints", NotCanonical),
                ("cut in a digest", Take(CHECKED + 71), CHECKED, "complaints", Truncated(72, 71)),
            ],
        ),
        (
            "answer",
            vec![
                ("a checked's type", Put(0, "0402"), 0, "object type", Unexpected(0x0106, 0x0204)),
                ("version 2", Put(2, "0200"), 2, "object version", Unexpected(1, 2)),
                ("server 2 of 2", Put(136, "0200"), 136, "server id", OutOfRange),
                ("share coefficient 0 = q", Put(138 + 32, "f5ff03"), 138, "opening", OutOfRange),
                ("sibling out of range", Put(138 + 4640, "ffff01"), 138, "opening", OutOfRange),
                ("cut in the opening", Take(138 + 8991), 138, "opening", Truncated(8992, 8991)),
                ("no signature", Take(ANSWER - 64), ANSWER - 64, "signature", Truncated(64, 0)),
                ("trailing byte", Append("00"), ANSWER, "end of object", Trailing(1)),
            ],
        ),
        (
            "epoch#1",
            vec![
                // What is read as the number of aggregators is the head of the third key: 0x03, 0x60.
                (
                    "two lanes of three",
                    Put(EPOCH - 2, "0200"),
                    EPOCH + 68,
                    "aggregators of the epoch",
                    Truncated(0x6003 * 33, 33),
                ),
                ("lane key with tag 05", Put(EPOCH, "05"), EPOCH, "verifying key", OutOfRange),
                ("cut in the last lane", Take(EPOCH + 98), EPOCH, "lanes of the epoch", Truncated(99, 98)),
            ],
        ),
        (
            "share_commitment",
            vec![
                ("short", Take(5375), 0, "commitment", OutOfRange),
                ("long", Append("00"), 0, "commitment", OutOfRange),
                // 2056193 in 21 bits.
                ("coefficient 0 = q", Put(0, "01601f"), 0, "commitment", OutOfRange),
            ],
        ),
        (
            "rs_client_post",
            vec![
                ("a direct post's type", Put(0, "0201"), 0, "object type", Unexpected(0x0105, 0x0102)),
                ("version 2", Put(2, "0200"), 2, "object version", Unexpected(1, 2)),
                (
                    "key root out of range",
                    Put(4 + RS_SIGNED, "ffff01"),
                    4 + RS_SIGNED,
                    "commitment root",
                    OutOfRange,
                ),
                (
                    "share root out of range",
                    Put(4 + RS_SIGNED + 4352, "ffff1f"),
                    4 + RS_SIGNED + 4352,
                    "share commitment root",
                    OutOfRange,
                ),
                (
                    "one byte short",
                    Take(RS_POST - 1),
                    RS_POST - 5376,
                    "share commitment root",
                    Truncated(5376, 5375),
                ),
                ("trailing byte", Append("00"), RS_POST, "end of object", Trailing(1)),
            ],
        ),
        (
            "lane_item",
            vec![
                ("an envelope's type", Put(0, "0301"), 0, "object type", Unexpected(0x0104, 0x0103)),
                ("version 0", Put(2, "0000"), 2, "object version", Unexpected(1, 0)),
                ("lane 3 of 3", Put(8, "0300"), 8, "lane id", OutOfRange),
                ("cut in the body", Take(1000), 10, "lane item body", Truncated(ITEM_BODY, 990)),
                ("no path", Take(ITEM - 96), ITEM - 96, "inclusion path", Truncated(96, 0)),
                // Lane 2 has one hash less in its path.
                ("another lane's length", Put(8, "0200"), ITEM - 32, "end of object", Trailing(32)),
                ("a path too long", Append("0000"), ITEM, "end of object", Trailing(2)),
            ],
        ),
        (
            "lane_sum",
            vec![
                ("a server's type", Put(0, "0102"), 0, "object type", Unexpected(0x0202, 0x0201)),
                ("version 2", Put(2, "0200"), 2, "object version", Unexpected(1, 2)),
                ("lane 3 of 3", Put(132, "0300"), 132, "lane id", OutOfRange),
                ("purpose 0", Put(134, "00"), 134, "purpose", OutOfRange),
                ("purpose 3", Put(134, "03"), 134, "purpose", OutOfRange),
                ("no clients", Put(199, "00000000"), 199, "number of clients", OutOfRange),
                ("301 clients", Put(199, "2d010000"), 199, "number of clients", OutOfRange),
                ("share digit 1449 of 1448", Put(203, "510b"), 203, "share digit sum", OutOfRange),
                (
                    "path digit 129 of 128",
                    Put(203 + 12_288, "01ff"),
                    203 + 12_288,
                    "path digit sum",
                    OutOfRange,
                ),
                ("s in the upper half", Put(LANE_SUM - 32, HIGH_S), LANE_SUM - 64, "signature", NotCanonical),
                ("cut in the signature", Take(LANE_SUM - 1), LANE_SUM - 64, "signature", Truncated(64, 63)),
                ("trailing byte", Append("00"), LANE_SUM, "end of object", Trailing(1)),
            ],
        ),
    ]
}

fn error(offset: usize, field: &str, kind: &Kind) -> Value {
    let (name, detail) = match kind {
        NotCanonical => ("not_canonical", json!({})),
        OutOfRange => ("out_of_range", json!({})),
        Trailing(extra) => ("trailing", json!({ "extra": extra })),
        Truncated(need, have) => ("truncated", json!({ "need": need, "have": have })),
        Unexpected(expected, found) => ("unexpected", json!({ "expected": expected, "found": found })),
    };
    json!({ "kind": name, "field": field, "offset": offset, "detail": detail })
}

/// `bad_<object>.json` for every table.
pub fn files(good: &BTreeMap<String, Value>) -> BTreeMap<String, Value> {
    let mut files: BTreeMap<String, Value> = BTreeMap::new();
    for (base, rows) in tables() {
        let (file, case) = base.split_once('#').unwrap_or((base, "0"));
        let object = &good[&format!("{file}.json")]["object"];
        let case: usize = case.parse().expect("a number");
        let cases = rows.into_iter().map(|(name, edit, offset, field, kind)| {
            let edit = match edit {
                Append(hex) => json!({ "append": hex }),
                Put(at, hex) => json!({ "at": at, "put": hex }),
                Take(len) => json!({ "take": len }),
            };
            json!({ "name": name, "case": case, "edit": edit, "error": error(offset, field, &kind) })
        });
        let bad = files
            .entry(format!("bad_{file}.json"))
            .or_insert_with(|| json!({ "object": object, "edits": format!("{file}.json"), "cases": [] }));
        bad["cases"].as_array_mut().expect("just made").extend(cases);
    }
    files.insert("bad_ciphertext.json".to_owned(), ciphertexts());
    files
}

/// A ciphertext that its client signed is parsed where it is added. These are edits of a whole post.
fn ciphertexts() -> Value {
    const AT: usize = POST - 10_752;
    let case = |name: &str, at: usize, put: &str| {
        let error = json!({ "code": "ciphertext_malformed", "poly": 0 });
        json!({ "name": name, "case": 0, "edit": { "at": at, "put": put }, "error": error })
    };
    let cases = [
        // 2097143 and 2097133 in 21 bits, least significant first; three bits of the next coefficient are set too.
        case("limb 0, coefficient 0 at its prime", AT, "f7ffff"),
        case("limb 1, coefficient 0 at its prime", AT + 5376, "edffff"),
        case("limb 1, coefficient 2047 is 2^21 - 1", POST - 3, "ffffff"),
    ];
    json!({ "object": "Ciphertext", "edits": "client_post.json", "cases": cases })
}
