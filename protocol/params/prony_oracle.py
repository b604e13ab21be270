#!/usr/bin/env python3
"""Small sketches and one channel message, computed from the written formats alone.

    python3 prony_oracle.py > prony_oracle.json

The tests of `prony` and `channel` read the result. Standard library only; BLAKE3 (inputs of one chunk, at most 1024
bytes) is written out below from its specification and checks itself against published test vectors.
"""

import hashlib
import json
import struct

P = 32788 * 2**20 + 1
SYMBOL_BITS = 35

# --- BLAKE3, one chunk -----------------------------------------------------------------------------------------------

IV = [0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A, 0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19]
PERMUTATION = [2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8]
CHUNK_START, CHUNK_END, ROOT, KEYED_HASH, DERIVE_CONTEXT, DERIVE_MATERIAL = 1, 2, 8, 16, 32, 64
MASK = 0xFFFFFFFF


def rotate(x, n):
    return (x >> n) | (x << (32 - n) & MASK)


def mix(v, a, b, c, d, x, y):
    for first, second, word in ((16, 12, x), (8, 7, y)):
        v[a] = (v[a] + v[b] + word) & MASK
        v[d] = rotate(v[d] ^ v[a], first)
        v[c] = (v[c] + v[d]) & MASK
        v[b] = rotate(v[b] ^ v[c], second)


def compress(chaining, block, block_len, flags):
    """The first eight output words; the chunk counter is 0."""
    words = list(struct.unpack("<16I", block))
    v = list(chaining) + IV[:4] + [0, 0, block_len, flags]
    for _ in range(7):
        for i in range(4):
            mix(v, i, 4 + i, 8 + i, 12 + i, words[2 * i], words[2 * i + 1])
        for i in range(4):
            mix(v, i, 4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4, words[8 + 2 * i], words[9 + 2 * i])
        words = [words[i] for i in PERMUTATION]
    return [v[i] ^ v[i + 8] for i in range(8)]


def blake3_chunk(data, key=None, mode=0):
    """32 bytes of BLAKE3 of at most one chunk."""
    assert len(data) <= 1024
    chaining = IV if key is None else list(struct.unpack("<8I", key))
    blocks = [data[i : i + 64] for i in range(0, len(data), 64)] or [b""]
    for i, block in enumerate(blocks):
        flags = mode | (CHUNK_START if i == 0 else 0) | (CHUNK_END | ROOT if i == len(blocks) - 1 else 0)
        chaining = compress(chaining, block.ljust(64, b"\0"), len(block), flags)
    return struct.pack("<8I", *chaining)


def keyed_hash(key, data):
    return blake3_chunk(data, key, KEYED_HASH)


def derive_key(context, material):
    return blake3_chunk(material, blake3_chunk(context.encode(), None, DERIVE_CONTEXT), DERIVE_MATERIAL)


assert blake3_chunk(b"").hex() == "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262"
assert blake3_chunk(b"abc").hex() == "6437b3ac38465133ffb63b75273a8db548c558465d79db03fd359c6cd5bd9d85"

# --- the sketch ------------------------------------------------------------------------------------------------------


def sketch(messages, capacity, symbols, slack):
    """messages: (z, symbols). S_0..S_cols, then cols entries for each symbol."""
    cols = capacity + slack
    assert all(len(x) == symbols for _, x in messages)
    sums = [sum(pow(z, j, P) for z, _ in messages) % P for j in range(cols + 1)]
    columns = [sum(x[s] * pow(z, j, P) for z, x in messages) % P for s in range(symbols) for j in range(cols)]
    return sums + columns


# --- the channel -----------------------------------------------------------------------------------------------------


def tagged_sha256(label, parts):
    hashed = hashlib.sha256()
    for part in [label.encode()] + parts:
        hashed.update(struct.pack("<Q", len(part)) + part)
    return hashed.digest()


def session_id(origin, index, leaf_hash):
    return tagged_sha256("panetiere/session/v1", [origin.encode(), struct.pack("<Q", index), leaf_hash])


def message_symbols(z, payload, data_symbols, session, encoding=1):
    """Length, data, check."""
    bits = int.from_bytes(payload, "little")
    assert bits < 2 ** (SYMBOL_BITS * data_symbols)
    data = [(bits >> (SYMBOL_BITS * i)) % 2**SYMBOL_BITS for i in range(data_symbols)]
    symbols = [len(payload)] + data
    key = derive_key("panetiere 2026-11 channel check v1", session)
    hashed = keyed_hash(key, bytes([encoding]) + b"".join(struct.pack("<Q", word) for word in [z] + symbols))
    return symbols + [int.from_bytes(hashed, "little") % 2**SYMBOL_BITS]


def main():
    shape = {"capacity": 3, "symbols": 4, "slack": 2}
    messages = [
        (1, [0, 1, P - 1, 2**35 - 1]),
        (P - 1, [5, P - 2, 17179869184, 123456789]),
        (31415926535, [2718281828, 0, 1, 34380709888]),
    ]
    data_symbols = 3
    session = session_id("log.example/a", 7, bytes([1] * 32))
    z, payload = 20000000011, b"bread"
    frame = message_symbols(z, payload, data_symbols, session)
    print(
        json.dumps(
            {
                "sketch": {
                    **shape,
                    "messages": [{"point": z, "symbols": x} for z, x in messages],
                    "scalars": sketch(messages, **shape),
                },
                "channel": {
                    "rho": 2,
                    "data_symbols": data_symbols,
                    "session": session.hex(),
                    "point": z,
                    "payload": payload.hex(),
                    "symbols": frame,
                    "scalars": sketch([(z, frame)], 2, data_symbols + 2, 2),
                },
            },
            indent=1,
        )
    )


if __name__ == "__main__":
    main()
