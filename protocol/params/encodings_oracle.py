#!/usr/bin/env python3
"""Small examples of the peeling and slot encodings, computed from the written formats alone.

    encodings_oracle.py           print them as JSON
    encodings_oracle.py --write   write encodings_oracle.json
    encodings_oracle.py --check   compare that file

The tests of `mse`, `codec` and `channel` read the file. Standard library only; BLAKE3 comes from prony_oracle.py, the
expected number of stopping sets from peeling.py.
"""

import json
import pathlib
import struct
import sys

import peeling
from prony_oracle import SYMBOL_BITS, derive_key, keyed_hash, session_id, tagged_sha256

T = 2**SYMBOL_BITS
FILE = pathlib.Path(__file__).resolve().with_suffix(".json")
PEELING, SLOTS = 2, 3  # bytes of the encodings in the check symbol

# Rounds in which stalls are frequent and nearly always come from few messages, so that their expected number is close to
# the probability of one; and small rounds so full that stopping sets of every size occur.
FREQUENT = [(4, 4, 3), (8, 4, 6), (5, 5, 3), (5, 6, 3), (4, 7, 2), (3, 8, 2)]
CROWDED = [(6, 4, 2), (8, 4, 3), (9, 5, 3), (9, 8, 3)]


def words(values):
    return b"".join(struct.pack("<Q", value) for value in values)


# --- peeling ---------------------------------------------------------------------------------------------------------


def buckets_of(label, session, rows, buckets):
    key = derive_key("panetiere 2026-11 peeling columns v1", session)
    hashes = [keyed_hash(key, words([row, *label])) for row in range(rows)]
    return [int.from_bytes(found[:8], "little") * buckets >> 64 for found in hashes]


def cells(messages, session, rows, buckets, symbols):
    """messages: (label, symbols). All cells, one after the other."""
    width = 3 + symbols
    scalars = [0] * (rows * buckets * width)
    for label, message in messages:
        assert len(message) == symbols
        for row, bucket in enumerate(buckets_of(label, session, rows, buckets)):
            for i, value in enumerate([1, *label, *message]):
                at = (row * buckets + bucket) * width + i
                scalars[at] = (scalars[at] + value) % T
    return scalars


# --- messages --------------------------------------------------------------------------------------------------------


def data_symbols(payload, count):
    bits = int.from_bytes(payload, "little")
    assert bits < T**count
    return [bits >> (SYMBOL_BITS * i) & (T - 1) for i in range(count)]


def check_symbol(encoding, label, message, session):
    key = derive_key("panetiere 2026-11 channel check v1", session)
    return int.from_bytes(keyed_hash(key, bytes([encoding]) + words([*label, *message])), "little") % T


# --- slots -----------------------------------------------------------------------------------------------------------


def beacon(tickets):
    return int.from_bytes(tagged_sha256("panetiere/slots/beacon/v1", [words(sorted(set(tickets)))])[:8], "little")


def slot_symbols(size):
    return 2 + -(-8 * size // SYMBOL_BITS)


def allocate(requests, max_bytes, capacity):
    """requests: (ticket, bytes). Slots (ticket, bytes, start), and the requests that get none."""
    tickets = [ticket for ticket, _ in requests]
    origin = beacon(tickets)
    slots, refused, free = [], [], 0
    for ticket, size in sorted(requests, key=lambda request: (request[0] - origin) % 2**64):
        if tickets.count(ticket) > 1 or size > max_bytes or free + slot_symbols(size) > capacity:
            refused.append((ticket, size))
        else:
            slots.append((ticket, size, free))
            free += slot_symbols(size)
    return slots, refused


def examples():
    session = session_id("log.example/a", 7, bytes([1] * 32))
    shape = {"rows": 4, "buckets": 3, "symbols": 2}
    messages = [((0, T - 1), [1, T - 1]), ((31415926535, 27182818284), [0, 17179869184]), ((5, 6), [T - 1, T - 1])]

    count, payload, label = 3, b"bread", (20000000011, 30000000017)
    message = [len(payload), *data_symbols(payload, count)]
    frame = [*message, check_symbol(PEELING, label, message, session)]

    requests = [(2**64 - 1, 10), (5, 0), (9, 4), (123456789123456789, 10), (9, 1), (2**63, 2**20), (77, 5)]
    clients, max_bytes = 3, 10
    capacity = clients * slot_symbols(max_bytes)
    slots, refused = allocate(requests, max_bytes, capacity)
    ticket, size, start = next(slot for slot in slots if slot[0] == 77)
    slot_message = [len(payload), *data_symbols(payload, slot_symbols(max_bytes) - 2)]
    slot_frame = [check_symbol(SLOTS, (start, size), slot_message, session), *slot_message][: slot_symbols(size)]

    def expected(clients, rows, buckets):
        numerator, denominator = peeling.expected_stopping_sets(clients, rows, buckets)
        load = {"clients": clients, "rows": rows, "buckets": buckets, "expected": numerator / denominator}
        # Enough to see a thousand of them: a deviation of about 3 %.
        return {**load, "rounds": 1000 * denominator // numerator}

    return {
        "session": session.hex(),
        "cells": {
            **shape,
            "messages": [
                {"label": label, "symbols": symbols, "buckets": buckets_of(label, session, shape["rows"], shape["buckets"])}
                for label, symbols in messages
            ],
            "scalars": cells(messages, session, **shape),
        },
        "peeling": {
            "rho": 2,
            "data_symbols": count,
            "label": label,
            "payload": payload.hex(),
            "symbols": frame,
            "rows": 8,
            "buckets": 6,
            "cells": buckets_of(label, session, 8, 6),
        },
        "slots": {
            "clients": clients,
            "max_bytes": max_bytes,
            "capacity": capacity,
            "requests": requests,
            "beacon": beacon([ticket for ticket, _ in requests]),
            "digest": tagged_sha256(
                "panetiere/slots/schedule/v1", [words([capacity, max_bytes, *(word for ticket, size, start in slots for word in (ticket, size, start))])]
            ).hex(),
            "slots": slots,
            "refused": refused,
            "payload": payload.hex(),
            "ticket": ticket,
            "start": start,
            "frame": slot_frame,
        },
        "stalls": {
            "frequent": [expected(*load) for load in FREQUENT],
            "crowded": [expected(*load) for load in CROWDED],
        },
    }


def main(arguments):
    text = json.dumps(examples(), indent=1) + "\n"
    if arguments == ["--write"]:
        FILE.write_text(text)
    elif arguments == ["--check"]:
        if not FILE.exists() or FILE.read_text() != text:
            print(f"{FILE.name} differs: run encodings_oracle.py --write")
            return 1
        print(f"encodings_oracle: {FILE.name} agrees")
    elif not arguments:
        print(text, end="")
    else:
        print(__doc__, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
