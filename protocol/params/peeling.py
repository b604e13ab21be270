#!/usr/bin/env python3
"""Rows and buckets of the peeling encoding, so that a round stalls with probability at most 2^-20.

A message goes into one bucket of each of `rows` rows, chosen uniformly and independently. Peeling stalls if and only if
some set of messages is a stopping set: no bucket of any row holds exactly one of them. With a(s, b) the number of ways to
put s distinct messages into b buckets, none of which gets exactly one, the expected number of stopping sets among n
messages is

    E(n, rows, b) = sum over s = 2 .. n of C(n, s) * (a(s, b) / b^s)^rows

which bounds the probability of a stall from above (union bound) and grows with n: a round with fewer messages than the
encoding is made for is safer. a(0, b) = 1, a(s, 0) = 0 for s > 0, and from the generating function (e^x - x)^b

    a(s+1, b) = b * (a(s, b) - a(s, b-1) + s * a(s-1, b-1))

For each capacity in CAPACITIES the search takes the fewest buckets over all rows, then the fewest rows. It compares in
floating point with a margin; whatever it finds is verified in exact integers, for every number of clients.

    peeling.py           print the table with the bound and the size of every entry
    peeling.py --write   write protocol/src/mse/table.rs
    peeling.py --check   compare that file with the table; verify the bound at every number of clients and the size
"""

import functools
import math
import pathlib
import sys

ROWS = range(4, 9)
LIMIT_BITS = 20  # a round stalls with probability at most 2^-LIMIT_BITS
MARGIN_BITS = 0.001  # what the search allows its floating point to err by

# An entry serves every number of clients up to its capacity and above the entry before.
CAPACITIES = [1, 2, 3, 5, 8, 12, 20, 24, 32, 40, 48, 56, 64, 72, 80, 90, 100, 110, 120, 135, 150, 165, 180, 200, 220,
              240, 260, 280, 300, 350, 400, 500, 600, 700, 800, 900, 1000]  # fmt: skip
CHECKED = [*range(1, 301), 1000]  # numbers of clients that --check verifies one by one

N = 2048
WIRE_POLY_BYTES = N * 42 // 8
SYMBOL_BITS = 35
LABEL_SYMBOLS, FRAME_SYMBOLS = 2, 2  # random label of a message; its length and check symbol
POST_CLIENTS, POST_MESSAGE_BYTES, POST_LIMIT = 300, 16 * 1024, 13_000_000

RUST = pathlib.Path(__file__).resolve().parent.parent / "src" / "mse" / "table.rs"


def columns(most):
    """Yields (b, [a(0, b), ..., a(most, b)]) for b = 1, 2, ..."""
    before = [1] + [0] * most
    b = 0
    while True:
        b += 1
        column = [1]
        for s in range(most):
            column.append(b * (column[s] - before[s] + (s * before[s - 1] if s else 0)))
        yield b, column
        before = column


@functools.cache
def column(b, most):
    """[a(0, b), ..., a(most, b)]."""
    return next(found for buckets, found in columns(most) if buckets == b)


def expected_stopping_sets(clients, rows, buckets):
    """E(clients, rows, buckets), exactly: numerator and denominator."""
    maps = column(buckets, clients)
    per_message = buckets**rows
    numerator, power = 0, 1  # power = per_message ^ (clients - s)
    for s in range(clients, 1, -1):
        numerator += math.comb(clients, s) * maps[s] ** rows * power
        power *= per_message
    return numerator, per_message**clients


def log2_of(x):
    """log2 of a positive integer of any size."""
    shift = max(0, x.bit_length() - 60)
    return math.log2(x >> shift) + shift


def log2_bound(clients, rows, buckets):
    """log2 of E, or None if no set can stall."""
    numerator, denominator = expected_stopping_sets(clients, rows, buckets)
    return log2_of(numerator) - log2_of(denominator) if numerator else None


def search():
    """The table: (capacity, rows, buckets), by capacity."""
    most = CAPACITIES[-1]
    log2_factorial = [0.0]
    for i in range(1, most + 1):
        log2_factorial.append(log2_factorial[-1] + math.log2(i))
    limit = 2.0 ** -(LIMIT_BITS + MARGIN_BITS)

    def admissible(clients, rows, log2_share):
        total = 0.0
        for s in range(2, clients + 1):
            sets = log2_factorial[clients] - log2_factorial[s] - log2_factorial[clients - s]
            exponent = sets + rows * log2_share[s]
            if exponent >= 0:
                return False
            total += 2.0**exponent
            if total > limit:
                return False
        return True

    best = {}
    for b, maps in columns(most):
        # No shape with at least b buckets in a row can be smaller than what every capacity has already.
        if len(best) == len(CAPACITIES) and all(b * ROWS[0] > cells for cells, *_ in best.values()):
            return [(capacity, rows, buckets) for capacity, (_, rows, buckets) in sorted(best.items())]
        log2_share = [log2_of(count) - s * math.log2(b) if count else -math.inf for s, count in enumerate(maps)]
        for rows in ROWS:
            for capacity in CAPACITIES:
                if not admissible(capacity, rows, log2_share):
                    break
                found = (b * rows, rows, b)
                best[capacity] = min(best.get(capacity, found), found)


def shape(table, clients):
    """Rows and buckets for this many clients."""
    return next((rows, buckets) for capacity, rows, buckets in table if capacity >= clients)


def polys(cells, message_bytes):
    """Plaintext polynomials of the encoding."""
    symbols = -(-8 * message_bytes // SYMBOL_BITS) + FRAME_SYMBOLS
    return -(-cells * (1 + LABEL_SYMBOLS + symbols) // N)


def source(table):
    """The generated Rust file."""
    lines = [
        "// @generated by protocol/params/peeling.py",
        "//! Shapes of the peeling encoding by capacity: the fewest cells whose union bound over stopping sets is at most",
        f"//! 2^-{LIMIT_BITS}. `protocol/params/check` computes them again.",
        "",
        "/// The shape of every encoding for up to `capacity` messages that no earlier entry serves.",
        "pub(super) struct Entry {",
        "    pub(super) capacity: usize,",
        "    pub(super) rows: usize,",
        "    pub(super) buckets: usize,",
        "}",
        "",
        "/// By capacity, ascending.",
        f"pub(super) const TABLE: [Entry; {len(table)}] = [",
        *(f"    Entry {{ capacity: {capacity}, rows: {rows}, buckets: {buckets} }}," for capacity, rows, buckets in table),
        "];",
    ]
    return "\n".join(lines) + "\n"


def main(arguments):
    if arguments not in ([], ["--check"], ["--write"]):
        print(__doc__, file=sys.stderr)
        return 2
    table = search()
    if arguments == ["--write"]:
        RUST.parent.mkdir(exist_ok=True)
        RUST.write_text(source(table))
        return 0
    if not arguments:
        print("capacity rows buckets cells  cells/message  log2 E   polys at 16 KB")
        for capacity, rows, buckets in table:
            bound, cells = log2_bound(capacity, rows, buckets), rows * buckets
            text = "none" if bound is None else f"{bound:.1f}"
            print(f"{capacity:8} {rows:4} {buckets:7} {cells:5} {cells / capacity:14.2f} {text:>7} {polys(cells, 16384):16}")
        return 0
    wrong = []
    for clients in CHECKED:
        numerator, denominator = expected_stopping_sets(clients, *shape(table, clients))
        if numerator << LIMIT_BITS > denominator:
            wrong.append(f"{clients} clients stall with probability above 2^-{LIMIT_BITS}")
    post = polys(math.prod(shape(table, POST_CLIENTS)), POST_MESSAGE_BYTES) * WIRE_POLY_BYTES
    if post > POST_LIMIT:
        wrong.append(f"{post} bytes of ciphertext at {POST_CLIENTS} clients with {POST_MESSAGE_BYTES} bytes")
    if not RUST.exists() or RUST.read_text() != source(table):
        wrong.append(f"{RUST.name} differs from the table: run peeling.py --write")
    print("\n".join(wrong) or f"peeling: {len(table)} shapes agree with {RUST.name}, {post} bytes at 300 x 16 KB")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
