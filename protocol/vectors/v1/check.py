#!/usr/bin/env python3
"""Derives the vectors of this directory again, from protocol.md and the module headers, without the Rust code.

    python3 protocol/vectors/v1/check.py          one line; exit code 1 and what differs on a mismatch

Python 3.11 standard library only; AES, BLAKE3 and P-256 are written out below. Not covered here: ML-KEM and AES-GCM
(protocol/vectors/envelope/make.py) and the samplers of secrets, whose output is taken as it is and range-checked.
"""

import hashlib
import hmac
import json
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
N = 2048
# P300, from protocol.md section 1.
HVC, CS, LANE = 86017, 262133, 2056193
KAHE = (23719937, 23715841)
WIRE = (2097143, 2097133)
T = 34380709889
KAPPA, BETA, KEY_BOUND, ERROR_BOUND = 5, 108, 126, 144
BASE_HVC, BASE_CS, BASE_LANE, BASE_SHARE = 45, 65, 129, 1449
SHARE_DIGIT, LANE_DIGIT = 724, 64

checks = 0


def check(condition, what):
    global checks
    checks += 1
    if not condition:
        print(f"vectors/v1: MISMATCH: {what}")
        sys.exit(1)


def load(name):
    return json.loads((HERE / f"{name}.json").read_text())


def le(value, size):
    return value.to_bytes(size, "little")


def sha256(data):
    return hashlib.sha256(data).digest()


def tagged(label, *parts):
    """SHA-256 over the label and the parts, each behind its length as u64."""
    return sha256(b"".join(le(len(p), 8) + p for p in (label.encode(), *parts)))


class Reader:
    """Fields off a byte string; `done` insists that nothing is left."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, size):
        out = self.data[self.at : self.at + size]
        check(len(out) == size, "an object that ends too early")
        self.at += size
        return out

    def int(self, size):
        return int.from_bytes(self.take(size), "little")

    def header(self, kind):
        check((self.int(2), self.int(2)) == (kind, 1), f"type and version of {kind:#06x}")

    def done(self):
        check(self.at == len(self.data), "trailing bytes")


# ---- AES-256, FIPS 197 ----------------------------------------------------------------------------------------


def _xtime(x):
    return (x << 1) ^ (0x11B if x & 0x80 else 0)


def _sbox():
    box, p, q = [0] * 256, 1, 1
    while True:  # p runs over the powers of 3, q over their inverses
        p ^= _xtime(p)
        for shift in (1, 2, 4):
            q ^= q << shift
        q &= 0xFF
        q ^= 0x09 if q & 0x80 else 0
        rotated = q ^ _rotl(q, 1) ^ _rotl(q, 2) ^ _rotl(q, 3) ^ _rotl(q, 4)
        box[p & 0xFF] = rotated ^ 0x63
        if p == 1:
            box[0] = 0x63
            return box


def _rotl(x, n):
    return ((x << n) | (x >> (8 - n))) & 0xFF


SBOX = _sbox()


def _tables():
    """For a byte in row r of a column: its contribution to the mixed column, as a big-endian word."""
    first = []
    for x in range(256):
        s = SBOX[x]
        two = _xtime(s) & 0xFF
        first.append(two << 24 | s << 16 | s << 8 | (two ^ s))
    return [first] + [[(w >> 8 * r | w << 32 - 8 * r) & 0xFFFFFFFF for w in first] for r in (1, 2, 3)]


T0, T1, T2, T3 = _tables()


class Aes256:
    def __init__(self, key):
        words = [int.from_bytes(key[i : i + 4], "big") for i in range(0, 32, 4)]
        rcon = 1
        for i in range(8, 60):
            t = words[i - 1]
            if i % 8 == 0:
                t = ((t << 8) | (t >> 24)) & 0xFFFFFFFF
                t = self._sub(t) ^ (rcon << 24)
                rcon = _xtime(rcon)
            elif i % 8 == 4:
                t = self._sub(t)
            words.append(words[i - 8] ^ t)
        self.words = words

    @staticmethod
    def _sub(w):
        return SBOX[w >> 24] << 24 | SBOX[w >> 16 & 255] << 16 | SBOX[w >> 8 & 255] << 8 | SBOX[w & 255]

    def encrypt(self, block):
        k = self.words
        a, b, c, d = (int.from_bytes(block[4 * i : 4 * i + 4], "big") ^ k[i] for i in range(4))
        for i in range(4, 56, 4):
            a, b, c, d = (
                T0[a >> 24] ^ T1[b >> 16 & 255] ^ T2[c >> 8 & 255] ^ T3[d & 255] ^ k[i],
                T0[b >> 24] ^ T1[c >> 16 & 255] ^ T2[d >> 8 & 255] ^ T3[a & 255] ^ k[i + 1],
                T0[c >> 24] ^ T1[d >> 16 & 255] ^ T2[a >> 8 & 255] ^ T3[b & 255] ^ k[i + 2],
                T0[d >> 24] ^ T1[a >> 16 & 255] ^ T2[b >> 8 & 255] ^ T3[c & 255] ^ k[i + 3],
            )
        out = b""
        for i, (p, q, r, s) in enumerate(((a, b, c, d), (b, c, d, a), (c, d, a, b), (d, a, b, c))):
            w = SBOX[p >> 24] << 24 | SBOX[q >> 16 & 255] << 16 | SBOX[r >> 8 & 255] << 8 | SBOX[s & 255]
            out += (w ^ k[56 + i]).to_bytes(4, "big")
        return out


# ---- Expansion: protocol.md section 2 ---------------------------------------------------------------------------


def hkdf(seed, label):
    """HKDF-SHA-256 without salt, one block of output."""
    prk = hmac.new(bytes(32), seed, "sha256").digest()
    return hmac.new(prk, label + b"\x01", "sha256").digest()


class Expander:
    def __init__(self, seed, label):
        self.aes = Aes256(hkdf(seed, label))

    def stream(self, index, limb):
        counter = 0
        while True:
            yield from self.aes.encrypt(le(counter, 8) + le(index, 4) + le(limb, 4))
            counter += 1

    def uniform(self, q, index, limb=0):
        """u32 words, masked to the bit length of q, at or above q rejected."""
        stream, mask, out = self.stream(index, limb), (1 << q.bit_length()) - 1, []
        while len(out) < N:
            word = int.from_bytes(bytes(next(stream) for _ in range(4)), "little") & mask
            if word < q:
                out.append(word)
        return out

    def bounded(self, bound, index):
        """Bytes, above 2 * bound rejected."""
        out = []
        for byte in self.stream(index, 0):
            if byte <= 2 * bound:
                out.append(byte - bound)
                if len(out) == N:
                    return out


# ---- Rings: protocol.md section 1 -------------------------------------------------------------------------------


def centred(x, q):
    x %= q
    return x - q if x > q // 2 else x


def _dft(values, root, q):
    """Values of the polynomial at root^0, root^1, ..."""
    if len(values) == 1:
        return values
    square = root * root % q
    even, odd = _dft(values[::2], square, q), _dft(values[1::2], square, q)
    half, w, out = len(even), 1, [0] * len(values)
    for i in range(half):
        t = w * odd[i]
        out[i], out[i + half] = (even[i] + t) % q, (even[i] - t) % q
        w = w * root % q
    return out


def psi(q):
    return next(p for b in range(2, q) if pow(p := pow(b, (q - 1) // 4096, q), 2048, q) == q - 1)


def _slot(i):
    """The place of slot i among the values at psi^1, psi^3, psi^5, ...: its 11 bits reversed."""
    return int(f"{i:011b}"[::-1], 2)


def forward(poly, q):
    """Slot i is the value at psi^(2 * bitrev(i) + 1)."""
    root = psi(q)
    values = _dft([c * pow(root, i, q) % q for i, c in enumerate(poly)], root * root % q, q)
    return [values[_slot(i)] for i in range(N)]


def inverse(slots, q):
    root = psi(q)
    values = [0] * N
    for i, value in enumerate(slots):
        values[_slot(i)] = value
    back, scale = pow(root, -1, q), pow(N, -1, q)
    return [c * scale * pow(back, i, q) % q for i, c in enumerate(_dft(values, back * back % q, q))]


def product(a, b):
    """The product of two integer polynomials modulo X^N + 1, by way of one long integer product."""
    width = 64  # 2048 * 2^18 * 2^16 is far below 2^63

    def joined(poly):
        return sum(c << width * i for i, c in enumerate(poly))

    x, out, half = joined(a) * joined(b), [0] * (2 * N), 1 << width - 1
    for i in range(2 * N):
        low = x & ((1 << width) - 1)
        low -= (1 << width) if low >= half else 0
        out[i] = low
        x = (x - low) >> width
    return [out[i] - out[i + N] for i in range(N)]


def add(*polys):
    return [sum(column) for column in zip(*polys)]


def mod(poly, q):
    return [c % q for c in poly]


def unpack(data, width, count=N):
    check(len(data) * 8 == width * count, "length of a packed polynomial")
    bits, mask, out = int.from_bytes(data, "little"), (1 << width) - 1, []
    for _ in range(count):
        out.append(bits & mask)
        bits >>= width
    return out


def unpack_residues(data, q, what):
    out = unpack(data, (q - 1).bit_length())
    check(all(c < q for c in out), f"range of {what}")
    return out


def unpack_short(data, bound, what):
    out = unpack(data, (2 * bound).bit_length())
    check(all(c <= 2 * bound for c in out), f"range of {what}")
    return [c - bound for c in out]


def digits(poly, q, base, count=3):
    """The balanced digit polynomials of the centred coefficients, least significant first."""
    rest, out = [centred(c, q) for c in poly], []
    for _ in range(count):
        out.append([centred(c, base) for c in rest])
        rest = [(c - d) // base for c, d in zip(rest, out[-1])]
    check(not any(rest), f"{count} digits suffice")
    return out


def ring_hash(row, columns, q):
    """The inner product of a row in the transform domain with integer columns."""
    slots = [0] * N
    for g, column in zip(row, columns, strict=True):
        slots = [(s + x * y) % q for s, x, y in zip(slots, g, forward(mod(column, q), q))]
    return inverse(slots, q)


# ---- P-256 and BLAKE3 -------------------------------------------------------------------------------------------

P = 2**256 - 2**224 + 2**192 + 2**96 - 1
ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
B = 0x5AC635D8AA3A93E7B3EBBD55769886BC651D06B0CC53B0F63BCE3C3E27D2604B
G = (
    0x6B17D1F2E12C4247F8BCE6E563A440F277037D812DEB33A0F4A13945D898C296,
    0x4FE342E2FE1A7F9B8EE7EB4A7C0F9E162BCE33576B315ECECBB6406837BF51F5,
)


def point(sec1):
    check(len(sec1) == 33 and sec1[0] in (2, 3), "a compressed point")
    x = int.from_bytes(sec1[1:], "big")
    y = pow(x**3 - 3 * x + B, (P + 1) // 4, P)
    check((y * y - x**3 + 3 * x - B) % P == 0 and x < P, "a point of the curve")
    return (x, y if y % 2 == sec1[0] % 2 else P - y)


def plus(a, b):
    if a is None or b is None:
        return a or b
    if a[0] == b[0]:
        if (a[1] + b[1]) % P == 0:
            return None
        slope = (3 * a[0] ** 2 - 3) * pow(2 * a[1], -1, P)
    else:
        slope = (b[1] - a[1]) * pow(b[0] - a[0], -1, P)
    x = (slope**2 - a[0] - b[0]) % P
    return (x, (slope * (a[0] - x) - a[1]) % P)


def times(k, a):
    out = None
    while k:
        if k & 1:
            out = plus(out, a)
        a, k = plus(a, a), k >> 1
    return out


def verify(key, domain, message, signature, what):
    r, s = int.from_bytes(signature[:32], "big"), int.from_bytes(signature[32:], "big")
    check(0 < r < ORDER and 0 < s <= (ORDER - 1) // 2, f"low s of {what}")
    e, w = int.from_bytes(tagged(domain, message), "big"), pow(s, -1, ORDER)
    sum_ = plus(times(e * w % ORDER, G), times(r * w % ORDER, point(key)))
    check(sum_ is not None and sum_[0] % ORDER == r, f"signature of {what}")


IV = (0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A, 0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19)
ORDER_OF_WORDS = (2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8)


def _compress(chaining, words, counter, length, flags):
    v = list(chaining) + list(IV[:4]) + [counter & 0xFFFFFFFF, counter >> 32, length, flags]

    def g(a, b, c, d, x, y):
        for r, t, m in ((16, 12, x), (8, 7, y)):
            v[a] = (v[a] + v[b] + m) & 0xFFFFFFFF
            z = v[d] ^ v[a]
            v[d] = (z >> r | z << 32 - r) & 0xFFFFFFFF
            v[c] = (v[c] + v[d]) & 0xFFFFFFFF
            z = v[b] ^ v[c]
            v[b] = (z >> t | z << 32 - t) & 0xFFFFFFFF

    for _ in range(7):
        for i in range(4):
            g(i, 4 + i, 8 + i, 12 + i, words[2 * i], words[2 * i + 1])
        for i in range(4):
            g(i, 4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4, words[8 + 2 * i], words[9 + 2 * i])
        words = [words[i] for i in ORDER_OF_WORDS]
    return [v[i] ^ v[i + 8] for i in range(8)]


def blake3(data):
    def words(block):
        return [int.from_bytes(block.ljust(64, b"\0")[i : i + 4], "little") for i in range(0, 64, 4)]

    def tree(first, chunks, root):
        if len(chunks) == 1:
            chunk, cv = chunks[0], IV
            blocks = [chunk[i : i + 64] for i in range(0, len(chunk), 64)] or [b""]
            for i, block in enumerate(blocks):
                last = i == len(blocks) - 1
                flags = (i == 0) | (2 if last else 0) | (8 if last and root else 0)
                cv = _compress(cv, words(block), first, len(block), flags)
            return cv
        left = 1 << (len(chunks) - 1).bit_length() - 1
        both = tree(first, chunks[:left], False) + tree(first + left, chunks[left:], False)
        return _compress(IV, both, 0, 64, 4 | (8 if root else 0))

    chunks = [data[i : i + 1024] for i in range(0, len(data), 1024)] or [b""]
    return b"".join(le(w, 4) for w in tree(0, chunks, True))


def self_tests():
    """The primitives above against published values, so that a match below means something."""
    key = bytes(range(32))
    block = bytes.fromhex("00112233445566778899aabbccddeeff")
    check(Aes256(key).encrypt(block).hex() == "8ea2b7ca516745bfeafc49904b496089", "FIPS 197, C.3")
    empty = "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262"
    check(blake3(b"").hex() == empty, "BLAKE3 of nothing")
    check(times(ORDER, G) is None, "the order of P-256")
    x = [0, 1] + [0] * (N - 2)
    check(forward(x, HVC)[0] == psi(HVC) and inverse(forward(x, HVC), HVC) == x, "the transform of X")
    check(product(x, [0] * (N - 1) + [5]) == [-5] + [0] * (N - 1), "X * 5 X^2047 = -5")


# ---- The vectors ------------------------------------------------------------------------------------------------


def cases(name):
    return [(case, bytes.fromhex(case["hex"])) for case in load(name)["cases"]]


def read_epoch():
    ids = load("ids")
    (case, data), (coded, coded_data), (grouped, grouped_data) = cases("epoch")
    check(tagged("panetiere/epoch/v1", coded_data).hex() == coded["digest"], "digest of the epoch with lanes")
    follow = le(3, 2) + b"".join(bytes.fromhex(key) for key in coded["lanes"]) + le(0, 2)
    check(coded_data == data[:-4] + follow, "the lanes follow the servers")
    keys = [coded_data[len(data) - 2 + 33 * i :][:33] for i in range(3)]
    check([key.hex() for key in keys] == coded["lanes"] and len(set(keys)) == 3, "keys of the lanes")
    lanes = [(key, point(key)) for key in keys]
    check(tagged("panetiere/epoch/v1", grouped_data).hex() == grouped["digest"], "digest of the epoch with aggregators")
    aggregators = [bytes.fromhex(key) for key in grouped["aggregators"]]
    check(grouped_data == data[:-2] + le(2, 2) + b"".join(aggregators), "the aggregators follow the lanes")
    check(len(set(map(point, aggregators))) == 2, "keys of the aggregators")
    deployment = tagged("panetiere/deployment/v1", ids["deployment"]["name"].encode())
    check(deployment.hex() == ids["deployment"]["hex"] == case["deployment"], "deployment id")
    check(tagged("panetiere/epoch/v1", data).hex() == ids["epoch"]["hex"], "epoch digest")
    r = Reader(data)
    r.header(0x0301)
    check(r.take(32) == deployment and r.int(4) == case["number"] and r.int(2) == 2, "head of the epoch")
    servers = []
    for i, (listed, (stored, _)) in enumerate(zip(case["servers"], cases("public_key"))):
        identity, key, signature = r.take(33), r.take(1184), r.take(64)
        message = deployment + le(case["number"], 4) + le(i, 2) + key
        verify(identity, "panetiere/envelope-key/v1", message, signature, f"envelope key {i}")
        check(identity.hex() == listed["identity"] and signature.hex() == listed["signature"], "server entry")
        check(sha256(key).hex() == listed["envelope_key_digest"] == stored["digest"], "envelope key digest")
        check(key.hex() == stored["hex"], "public_key.json")
        coefficients = unpack(key[:1152], 12, 768)
        check(all(c < 3329 for c in coefficients), "range of an encapsulation key")
        servers.append((identity, sha256(key)))
    check(r.int(2) == 0 == len(case["lanes"]) and case["digest"] == ids["epoch"]["hex"], "no lanes")
    check(r.int(2) == 0 == len(case["aggregators"]), "no aggregators")
    r.done()
    coded = bytes.fromhex(coded["digest"]), [key for key, _ in lanes]
    grouped = bytes.fromhex(grouped["digest"]), aggregators
    return deployment, bytes.fromhex(ids["epoch"]["hex"]), servers, coded, grouped


def read_terms():
    """Every field, and that the payload's vectors have as many polynomials as the terms say: the sizes of protocol.md 8."""
    for case, data in cases("terms"):
        name = case["name"]
        r = Reader(data)
        check(r.int(1) == {"p300": 1, "p1000": 2}[case["set"]] and r.int(1) == case["mode"], f"set and mode of {name}")
        for field, size in (("servers", 2), ("threshold", 2), ("faulty", 2), ("polys", 4)):
            check(r.int(size) == case[field], f"{field} of {name}")
        check({1: 1 << 35, 2: T}[r.int(1)] == case["plaintext_modulus"], f"plaintext modulus of {name}")
        lanes = (r.int(2), r.int(2)) if case["mode"] == 3 else (0, 0)
        check(lanes == (case["lanes_needed"], case["lanes"]), f"lanes of {name}")
        check((r.int(4), r.int(4)) == (case["min_clients"], case["max_clients"]), f"clients of {name}")
        encoding = {1: "sketch", 2: "peeling", 3: "slots"}[r.int(1)]
        capacity, message_bytes = r.int(4), r.int(4)
        r.done()
        stored = case["encoding"], case["capacity"], case["message_bytes"]
        check((encoding, capacity, message_bytes) == stored, f"payload of {name}")
        # Length, check and the bytes at 35 bits a symbol.
        frame, columns = 2 + -(-8 * message_bytes // 35), capacity + 2
        scalars = {
            "sketch": columns + 1 + columns * frame,
            "slots": capacity * frame,
            # For two messages: eight rows of six cells, each a count and two label symbols besides.
            "peeling": 8 * 6 * (3 + frame),
        }[encoding]
        check(capacity == 2 and -(-scalars // N) == case["polys"], f"polynomials of {name}")
        check(case["plaintext_modulus"] == (T if encoding == "sketch" else 1 << 35), f"modulus of {name}")


def read_ids(deployment):
    ids = load("ids")
    s = ids["session"]
    session = tagged(
        "panetiere/session/v1", s["origin"].encode(), le(s["leaf_index"], 8), bytes.fromhex(s["leaf_hash"])
    )
    check(session.hex() == s["hex"], "session id")
    for name, size in (("client", 4), ("server", 2), ("epoch_number", 4)):
        check(le(ids[name]["id"], size).hex() == ids[name]["hex"], f"{name} id")
    check(set_digest(ids["set"]["clients"]).hex() == ids["set"]["hex"], "set digest")
    for case, data in cases("canonical_set"):
        r = Reader(data)
        r.header(0x0302)
        clients = [r.int(4) for _ in range(r.int(4))]
        r.done()
        check(clients == case["clients"] == sorted(set(clients)), "members of a set")
        check(set_digest(clients).hex() == case["digest"], "digest of a set")
    for case, data in cases("signature"):
        key, message = bytes.fromhex(case["key"]), bytes.fromhex(case["message"])
        verify(key, case["domain"], message, data, "signature.json")
    return session


def set_digest(clients):
    return tagged("panetiere/set/v1", b"".join(le(c, 4) for c in clients))


def read_crs(deployment, epoch):
    crs = load("crs")
    check((crs["deployment"], crs["epoch"]) == (deployment.hex(), epoch.hex()), "deployment and epoch of the crs")
    seed = tagged("panetiere/crs/v1", deployment, crs["set"].encode())
    names = ("servers", "threshold", "faulty", "polys", "plaintext_modulus", "lanes_needed", "lanes")
    described = b"".join(le(crs[name], 8) for name in names)
    digest = tagged("panetiere/crs-digest/v1", crs["set"].encode(), described, seed)
    check(digest.hex() == crs["digest"], "CRS digest")
    check([crs[n] for n in names] == [2, 2, 0, 1, T, 0, 0], "dimensions")
    expander, a = Expander(seed, b"panetiere/kahe/v1/" + epoch), []
    for limb, stored in enumerate(crs["a"]):
        words = expander.uniform(KAHE[limb], 0, limb)
        check(words[:8] == stored["first"], f"first coefficients of a, limb {limb}")
        whole = sha256(b"".join(le(w, 8) for w in words)).hex()
        check(whole == stored["sha256_of_u64_le"], f"a, limb {limb}")
        a.append(words)
    return seed, digest, a


class Commitments:
    """The key-share commitment of protocol.md section 4 for two servers."""

    def __init__(self, seed):
        rows = [Expander(seed, f"panetiere/cs/{name}/v1".encode()) for name in ("a", "b")]
        self.a, self.b = ([[centred(c, CS) for c in row.uniform(CS, k)] for k in range(KAPPA)] for row in rows)
        names = ("leaf-hash", "tree-hash")
        hashes = [Expander(seed, f"panetiere/cs/{name}/v1".encode()) for name in names]
        self.leaf_row, self.tree_row = ([row.uniform(HVC, k) for k in range(6)] for row in hashes)

    @staticmethod
    def inner(row, r):
        return add(*(product(x, y) for x, y in zip(row, r)))

    @staticmethod
    def hash(row, columns):
        return ring_hash(row, columns, HVC)

    def leaf(self, index, seed, share):
        expander = Expander(seed, b"panetiere/cs/randomness/v1/" + le(index, 2))
        r = [expander.bounded(BETA, k) for k in range(KAPPA)]
        v = (mod(self.inner(self.a, r), CS), mod(add(self.inner(self.b, r), share), CS))
        u = digits(v[0], CS, BASE_CS) + digits(v[1], CS, BASE_CS)
        return r, u, self.hash(self.leaf_row, u)

    def node(self, left, right):
        path = digits(left, HVC, BASE_HVC) + digits(right, HVC, BASE_HVC)
        return path, self.hash(self.tree_row, path)


def read_openings(scheme):
    """Recomputes every leaf; both openings of a client lead to one root, and each holds the other's label."""
    out = {}
    for case, data in cases("fresh_opening"):
        r = Reader(data)
        seed, share = r.take(32), unpack_residues(r.take(4608), CS, "a key share")
        sibling = unpack_residues(r.take(4352), HVC, "a sibling")
        r.done()
        index, client = case["server"], case["client"]
        leaf_r, u, label = scheme.leaf(index, seed, share)
        path, root = scheme.node(*((sibling, label) if index else (label, sibling)))
        out[client, index] = dict(share=share, r=leaf_r, u=u, label=label, sibling=sibling, path=path, root=root)
    for client in (0, 1):
        first, second = out[client, 0], out[client, 1]
        check(first["root"] == second["root"], f"root of client {client}")
        check(first["sibling"] == second["label"] and second["sibling"] == first["label"], "siblings")
    return out


def read_statement(r, fields):
    r.header(0x0101)
    for name in ("deployment", "epoch", "session"):
        check(r.take(32).hex() == fields[name], f"{name} of a statement")
    check(r.int(4) == fields["client"] and r.take(32).hex() == fields["crs"], "client and crs of a statement")
    mode = r.int(1)
    check(mode == fields["mode"] and len(fields["roots"]) == (2 if mode == 3 else 1), "mode of a statement")
    for root in fields["roots"]:
        check(r.take(32).hex() == root, "root of a statement")
    check(r.take(32).hex() == fields["ciphertext"], "ciphertext digest of a statement")
    check(r.int(8) == fields["ciphertext_len"], "ciphertext length of a statement")
    check(r.take(32).hex() == fields["envelopes"], "envelope root of a statement")


def read_posts(deployment, epoch, session, crs, openings):
    statements, keys = cases("post_statement"), cases("verifying_key")
    for fields, data in statements:
        r = Reader(data)
        read_statement(r, fields)
        r.done()
    posts = []
    for i, (case, data) in enumerate(cases("client_post")):
        fields, statement = statements[i]
        names = ("deployment", "epoch", "session", "crs")
        check([fields[n] for n in names] == [d.hex() for d in (deployment, epoch, session, crs)], "context")
        signed = cases("signed_post")[i][1]
        check(data[4 : 4 + len(signed)] == signed and signed[:-64] == statement, "a post holds its signed statement")
        check(cases("signed_post")[i][0]["key"] == keys[i][0]["hex"], "key of a signed post")
        verify(keys[i][1], "panetiere/post/v1", statement, signed[-64:], f"post {i}")
        r = Reader(data)
        r.header(0x0102)
        r.take(len(signed))
        packed_root, ciphertext = r.take(4352), r.take(10752)
        r.done()
        root = unpack_residues(packed_root, HVC, "a root")
        stored = cases("commitment")[i]
        check(packed_root == stored[1] and root[:8] == stored[0]["first"], "commitment.json")
        check(sha256(packed_root).hex() == fields["roots"][0] == stored[0]["digest"], "root digest")
        check(root == openings[i, 0]["root"], f"the openings of client {i} open its root")
        check(blake3(ciphertext).hex() == fields["ciphertext"], "ciphertext digest")
        check(sha256(ciphertext).hex() == case["ciphertext_sha256"], "ciphertext SHA-256")
        check(len(ciphertext) == fields["ciphertext_len"], "ciphertext length")
        limbs = [unpack_residues(ciphertext[5376 * l :][:5376], WIRE[l], "a ciphertext") for l in (0, 1)]
        posts.append((root, limbs, sha256(packed_root)))
    return posts


def read_envelopes(servers):
    """RFC 6962 over server id, key digest and sealed bytes."""
    leaves, paths = [], []
    for i, (case, data) in enumerate(cases("envelope")):
        r = Reader(data)
        r.header(0x0103)
        check((r.int(4), r.int(2)) == (case["client"], case["server"]) == (0, i), "addresses of an envelope")
        key, sealed, path = r.take(32), r.take(case["sealed_len"]), r.take(32)
        r.done()
        check(key == servers[i][1] and key.hex() == case["key"], "key of an envelope")
        check(len(sealed) == 32 + 4608 + 4352 + 1104, "length of sealed bytes")
        leaves.append(sha256(b"\0" + le(i, 2) + key + sealed))
        paths.append(path)
    check(paths == [leaves[1], leaves[0]], "inclusion paths")
    root = sha256(b"\1" + leaves[0] + leaves[1]).hex()
    check(root == cases("post_statement")[0][0]["envelopes"], "env_root")


def read_sums(scheme, context, servers, posts, openings):
    """Every linear equation of a summed opening, every coefficient, and the plain sum of the fresh openings."""
    root_sum = mod(add(posts[0][0], posts[1][0]), HVC)
    shares = []
    for i, (case, data) in enumerate(cases("server_sum")):
        r = Reader(data)
        r.header(0x0201)
        for expected in context:
            check(r.take(32) == expected, "context of a sum")
        check(r.int(2) == i == case["server"], "server of a sum")
        check(r.take(32) == set_digest([0, 1]) and case["set"] == set_digest([0, 1]).hex(), "set of a sum")
        summed = tagged("panetiere/posts/v1", b"".join(le(c, 4) + post[2] for c, post in enumerate(posts)))
        check(r.take(32) == summed and case["posts"] == summed.hex(), "posts of a sum")
        check(r.int(4) == case["clients"] == 2, "clients of a sum")
        start = r.at
        rs = [unpack_short(r.take(2304), 2 * BETA, "a randomness sum") for _ in range(KAPPA)]
        us = [unpack_short(r.take(2048), 2 * 32, "a leaf digit sum") for _ in range(6)]
        path = [unpack_short(r.take(1792), 2 * 22, "a path digit sum") for _ in range(5)]
        opening = data[start : r.at]
        message, signature = data[:start] + blake3(opening), r.take(64)
        r.done()
        verify(servers[i][0], "panetiere/server-sum/v1", message, signature, f"sum of server {i}")
        check(sha256(opening).hex() == case["aggregated_opening_sha256"], "aggregated opening")
        check(len(opening) == case["aggregated_opening_len"], "length of an aggregated opening")

        def recomposed(d):
            return [x + BASE_CS * (y + BASE_CS * z) for x, y, z in zip(*d)]

        check(mod(scheme.inner(scheme.a, rs), CS) == mod(recomposed(us[:3]), CS), "first equation")
        blinded = scheme.inner(scheme.b, rs)
        share = [(v - x) % CS for v, x in zip(recomposed(us[3:]), blinded)]
        label = scheme.hash(scheme.leaf_row, us)
        # The on-path child's last digit does not travel: (label - d0 - 45 d1) / 2025, centred.
        d0, d1 = (path[3], path[4]) if i else (path[0], path[1])
        scale = pow(BASE_HVC**2, -1, HVC)
        last = [centred((v - x - BASE_HVC * y) * scale, HVC) for v, x, y in zip(label, d0, d1)]
        check(max(map(abs, last)) <= 2 * 22, "recovered digit")
        whole = path + [last] if i else path[:2] + [last] + path[2:]
        check(scheme.hash(scheme.tree_row, whole) == root_sum, f"server {i} opens the sum of the roots")

        pair = [openings[client, i] for client in (0, 1)]
        for name, summed in (("r", rs), ("u", us), ("path", whole)):
            plain = [add(x, y) for x, y in zip(pair[0][name], pair[1][name])]
            check(plain == summed, f"{name} of server {i} is the sum over the clients")
        check(share == mod(add(pair[0]["share"], pair[1]["share"]), CS), f"share sum of server {i}")
        shares.append(share)
    return shares


def interpolate(first, second):
    """The value at 0 of the line through (1, first) and (2, second), centred."""
    return [centred(2 * x - y, CS) for x, y in zip(first, second)]


def rounded(x, numerator, denominator):
    """To nearest, ties up."""
    return (2 * x * numerator + denominator) // (2 * denominator)


def lift(limbs, primes):
    p, q = primes
    inverse_ = pow(p, -1, q)
    return [x + p * ((y - x) * inverse_ % q) for x, y in zip(*limbs)]


def decrypt(a, key, limbs):
    """Message and residuals, in units of q: protocol.md section 3."""
    q, wire = KAHE[0] * KAHE[1], WIRE[0] * WIRE[1]
    mask = []
    for limb, prime in enumerate(KAHE):
        slots = [x * y % prime for x, y in zip(a[limb], forward(mod(key, prime), prime))]
        mask.append(inverse(slots, prime))
    out, worst = [], 0
    for c, m in zip(lift(limbs, WIRE), lift(mask, KAHE)):
        x = (rounded(c, q, wire) - m) % q
        message = rounded(x, T, q)
        worst = max(worst, abs(x - rounded(message, q, T)))
        out.append(message % T)
    return out, worst


def read_kahe(a, posts, openings, shares):
    kahe = load("kahe")

    def same(values, stored, size, what):
        whole = b"".join((v % (1 << 64)).to_bytes(8, "little") for v in values)
        check(values[:8] == stored["first"] and sha256(whole).hex() == stored[size], what)

    # One ciphertext's error: Gaussian, plus at most one unit of WIRE and one of q for the three roundings.
    unit = KAHE[0] * KAHE[1] // (WIRE[0] * WIRE[1]) + 1
    total, keys = [0] * N, []
    for client, (_, limbs, _) in enumerate(posts):
        key = interpolate(openings[client, 0]["share"], openings[client, 1]["share"])
        check(max(map(abs, key)) <= KEY_BOUND, f"key of client {client}")
        message, worst = decrypt(a, key, limbs)
        check(worst <= ERROR_BOUND + unit + 2, f"error of client {client}: {worst}")
        same(message, kahe["messages"][client], "sha256_of_u64_le", f"message of client {client}")
        total, keys = [(x + y) % T for x, y in zip(total, message)], keys + [key]
    key = interpolate(*shares)
    check(key == add(*keys), "the summed key is the sum of the keys")
    same(key, kahe["summed_key"], "sha256_of_i64_le", "summed key")
    limbs = [mod(add(posts[0][1][limb], posts[1][1][limb]), WIRE[limb]) for limb in (0, 1)]
    message, worst = decrypt(a, key, limbs)
    check(worst <= 2 * (ERROR_BOUND + unit + 2), f"error of the sum: {worst}")
    check(message == total, "the sum decrypts to the sum of the messages")
    same(message, kahe["sum"], "sha256_of_u64_le", "sum of the messages")


class ShareCommitments:
    """The share commitment of protocol.md section 6 for three lanes and shares of one polynomial."""

    def __init__(self, seed):
        leaf, tree = (Expander(seed, f"panetiere/lanes/{name}-hash/v1".encode()) for name in ("leaf", "tree"))
        self.leaf_row = [leaf.uniform(LANE, k) for k in range(4)]
        self.tree_row = [tree.uniform(LANE, k) for k in range(6)]

    def label(self, columns):
        return ring_hash(self.leaf_row, columns, LANE)

    def digits(self, share):
        return digits(lift(share, WIRE), WIRE[0] * WIRE[1], BASE_SHARE, 4)

    def walk(self, lane, label, siblings):
        """The digits of each level, and the root."""
        path = []
        for height, sibling in enumerate(siblings):
            left, right = (sibling, label) if lane >> height & 1 else (label, sibling)
            path.append(digits(left, LANE, BASE_LANE) + digits(right, LANE, BASE_LANE))
            label = ring_hash(self.tree_row, path[-1], LANE)
        return path, label

    def walk_sum(self, lane, label, path, clients):
        """The digits of each level with the one that does not travel, and the root."""
        whole, scale = [], pow(BASE_LANE**2, -1, LANE)
        for height, sent in enumerate(path):
            right = lane >> height & 1
            d0, d1 = sent[3:] if right else sent[:2]
            last = [centred((v - x - BASE_LANE * y) * scale, LANE) for v, x, y in zip(label, d0, d1)]
            check(max(map(abs, last)) <= LANE_DIGIT * clients, "recovered digit of a lane")
            whole.append(sent + [last] if right else sent[:2] + [last] + sent[2:])
            label = ring_hash(self.tree_row, whole[-1], LANE)
        return whole, label


def read_lanes(seed, deployment, session, epoch, keys):
    """Shares on one line, each under the signed root of its client; sums that open the sum of the roots."""
    crs = load("crs_lanes")
    names = ("servers", "threshold", "faulty", "polys", "plaintext_modulus", "lanes_needed", "lanes")
    check([crs[n] for n in names] == [2, 2, 0, 1, T, 2, 3] and crs["epoch"] == epoch.hex(), "dimensions with lanes")
    digest = tagged("panetiere/crs-digest/v1", crs["set"].encode(), b"".join(le(crs[n], 8) for n in names), seed)
    check(digest.hex() == crs["digest"], "CRS digest with lanes")
    scheme, context = ShareCommitments(seed), (deployment, epoch, session, digest)

    posts = []
    for i, (case, data) in enumerate(cases("rs_client_post")):
        check([case[n] for n in ("deployment", "epoch", "session", "crs")] == [d.hex() for d in context], "context")
        r = Reader(data)
        r.header(0x0105)
        start = r.at
        read_statement(r, case)
        statement, signature = data[start : r.at], r.take(64)
        verify(bytes.fromhex(case["key"]), "panetiere/post/v1", statement, signature, f"post {i} with lanes")
        roots = r.take(4352), r.take(5376)
        r.done()
        check([sha256(root).hex() for root in roots] == case["roots"] and case["mode"] == 3, "root digests")
        stored = cases("share_commitment")[i]
        check(stored[1] == roots[1] and stored[0]["digest"] == case["roots"][1], "share_commitment.json")
        unpack_residues(roots[0], HVC, "a root")
        posts.append((case, unpack_residues(roots[1], LANE, "a share root"), sha256(roots[1])))

    items, leaves = {}, {}
    for case, data in cases("lane_item"):
        client, lane = case["client"], case["lane"]
        r = Reader(data)
        r.header(0x0104)
        check((r.int(4), r.int(2)) == (client, lane), "addresses of a lane item")
        body, path = r.take(case["body_len"]), [r.take(32) for _ in case["path"]]
        r.done()
        check([hash_.hex() for hash_ in path] == case["path"], "path of a lane item")
        share = [unpack_residues(body[5376 * l :][:5376], WIRE[l], "a share") for l in (0, 1)]
        siblings = [unpack_residues(body[5376 * (2 + h) :][:5376], LANE, "a sibling") for h in (0, 1)]
        check(len(body) == 4 * 5376, "length of a lane item")
        columns = scheme.digits(share)
        walked, root = scheme.walk(lane, scheme.label(columns), siblings)
        check(root == posts[client][1], f"the share of client {client} for lane {lane} opens its root")
        # RFC 6962 among three lanes, then the root over the envelopes on the left.
        leaf = sha256(b"\0" + le(lane, 2) + blake3(body))
        node = sha256(b"\1" + leaf + path[0]) if lane == 0 else sha256(b"\1" + path[0] + leaf)
        node = sha256(b"\1" + node + path[1]) if lane < 2 else node
        root = sha256(b"\1" + path[-1] + node)
        check(root.hex() == posts[client][0]["envelopes"], f"client {client} signed its item for lane {lane}")
        items[client, lane], leaves[client, lane] = (share, columns, walked), body
    check(len(items) == 4, "four lane items")
    check(blake3(leaves[0, 0][:10752]).hex() == posts[0][0]["ciphertext"], "lane 0 has the ciphertext")
    for limb, q in enumerate(WIRE):
        first, second, third = (items[0, lane][0][limb] for lane in range(3))
        check(not any(second), "the second block is padding")
        check(third == [(2 * y - x) % q for x, y in zip(first, second)], "the shares at 1, 2 and 3 are on a line")

    root_sum = mod(add(posts[0][1], posts[1][1]), LANE)
    for case, data in cases("lane_sum"):
        lane = case["lane"]
        r = Reader(data)
        r.header(0x0202)
        for expected in context:
            check(r.take(32) == expected, "context of a lane sum")
        check((r.int(2), r.int(1)) == (lane, 2) and case["purpose"] == 2, "lane and purpose of a sum")
        check(r.take(32) == set_digest([0, 1]) and case["set"] == set_digest([0, 1]).hex(), "set of a lane sum")
        summed = tagged("panetiere/posts/v1", b"".join(le(c, 4) + post[2] for c, post in enumerate(posts)))
        check(r.take(32) == summed and case["posts"] == summed.hex(), "posts of a lane sum")
        check(r.int(4) == case["clients"] == 2, "clients of a lane sum")
        start = r.at
        columns = [unpack_short(r.take(3072), 2 * SHARE_DIGIT, "a share digit sum") for _ in range(4)]
        sent = [[unpack_short(r.take(2304), 2 * LANE_DIGIT, "a lane digit sum") for _ in range(5)] for _ in (0, 1)]
        message, signature = data[:start] + blake3(data[start : r.at]), r.take(64)
        r.done()
        verify(keys[lane], "panetiere/lane-sum/v1", message, signature, f"sum of lane {lane}")
        whole, root = scheme.walk_sum(lane, scheme.label(columns), sent, 2)
        check(root == root_sum, f"lane {lane} opens the sum of the roots")
        if lane == 2:
            shares, plain, paths = zip(*(items[client, 2] for client in (0, 1)))
            check(columns == [add(x, y) for x, y in zip(*plain)], "digits of lane 2 are the sum over the clients")
            levels = [[add(x, y) for x, y in zip(*level)] for level in zip(*paths)]
            check(whole == levels, "the path of lane 2 is the sum over the clients")
            for limb, q in enumerate(WIRE):
                value = [sum(d * BASE_SHARE**k for k, d in enumerate(c)) % q for c in zip(*columns)]
                check(value == mod(add(shares[0][limb], shares[1][limb]), q), "share sum of lane 2")


def read_context(r, context, what):
    for expected in context:
        check(r.take(32) == expected, f"context of {what}")


def read_groups(context, keys):
    """A group's sum is that of the posts it names, residue by residue."""
    posts, signed_len = [], 4 + 6 * 32 + 4 + 1 + 8 + 32
    for i, (case, data) in enumerate(cases("group_post")):
        statement, root, ciphertext = data[4:][:signed_len], data[-15104:-10752], data[-10752:]
        r = Reader(statement)
        r.header(0x0101)
        read_context(r, context[:3], "a post to an aggregator")
        check(r.int(4) == i and r.take(32) == context[3] and r.int(1) == 2, "client, crs and mode of a post")
        check(r.take(32) == sha256(root) and r.take(32) == blake3(ciphertext), "digests of a post")
        digest = tagged("panetiere/statement/v1", statement)
        check(digest.hex() == case["statement_digest"], "statement digest")
        key = cases("verifying_key")[i][1]
        verify(key, "panetiere/post/v1", statement, data[4 + signed_len :][:64], f"post {i} to an aggregator")
        limbs = [unpack_residues(ciphertext[5376 * l :][:5376], WIRE[l], "a ciphertext") for l in (0, 1)]
        posts.append((digest, unpack_residues(root, HVC, "a root"), limbs))
    for case, data in cases("group_sum"):
        members, aggregator = case["members"], case["aggregator"]
        r = Reader(data)
        r.header(0x0203)
        read_context(r, context, "a group's sum")
        check((r.int(2), r.int(4)) == (aggregator, len(members)), "aggregator and size of a group")
        for client in members:
            check((r.int(4), r.take(32)) == (client, posts[client][0]), "member of a group")
        claim, root, ciphertext, signature = data[: r.at], r.take(4352), r.take(10752), r.take(64)
        r.done()
        message = claim + sha256(root) + blake3(ciphertext)
        verify(keys[aggregator], "panetiere/group-sum/v1", message, signature, f"sum of aggregator {aggregator}")
        total = mod(add(*(posts[client][1] for client in members)), HVC)
        check(unpack_residues(root, HVC, "a root sum") == total, "root sum of a group")
        for l, q in enumerate(WIRE):
            total = mod(add(*(posts[client][2][l] for client in members)), q)
            packed = unpack_residues(ciphertext[5376 * l :][:5376], q, "a ciphertext sum")
            check(packed == total, "ciphertext sum of a group")


def read_complaints(context, servers):
    """A complaint names a client's statement; an answer is the opening of the envelope complained about."""
    stated = [tagged("panetiere/statement/v1", data) for _, data in cases("post_statement")]
    for case, data in cases("checked"):
        server, clients = case["server"], case["clients"]
        r = Reader(data)
        r.header(0x0204)
        read_context(r, context, "a checked")
        check((r.int(2), r.int(4)) == (server, len(clients)), "server and complaints of a checked")
        for client in clients:
            check(r.int(4) == client, "client of a complaint")
            check(r.take(32) == stated[client], "statement of a complaint")
        signature = r.take(64)
        r.done()
        verify(servers[server][0], "panetiere/checked/v1", data[:-64], signature, f"checked of server {server}")
    for case, data in cases("answer"):
        r = Reader(data)
        r.header(0x0106)
        read_context(r, context, "an answer")
        place = case["client"], case["server"]
        check((r.int(4), r.int(2)) == place, "client and server of an answer")
        opening, signature = r.take(8992), r.take(64)
        r.done()
        opened = {(c["client"], c["server"]): data for c, data in cases("fresh_opening")}
        check(opening == opened[place], "opening of an answer")
        key = cases("verifying_key")[case["client"]][1]
        verify(key, "panetiere/answer/v1", data[:-64], signature, "answer")


def read_evidence(session, epochs, crs, keys):
    """Frames, signatures, digests; and that every two statements differ and every bad polynomial is bad.

    `epochs` and `crs` are by mode, `keys` by role. What convicts by a ring equation is left to the library's tests: the
    equations themselves are checked on honest sums above.
    """
    deployment = epochs[1][4:36]
    for case, data in cases("evidence"):
        kind, name = case["kind"], case["name"]
        r = Reader(data)
        r.header(0x0401)
        number = r.int(1)
        check(KINDS[number] == kind and r.int(1) == 1, f"kind and parameter set of {name}")
        mode = r.int(1)
        lanes = mode == 3
        check((r.int(2), r.int(2), r.int(2), r.int(4), r.int(1)) == (2, 2, 0, 1, 2), f"terms of {name}")
        check(not lanes or (r.int(2), r.int(2)) == (2, 3), f"lanes of {name}")
        document = epochs[mode]
        check(r.take(len(document)) == document, f"document of {name}")
        context = deployment, tagged("panetiere/epoch/v1", document), session, crs[mode]

        def claim(c, width):
            for expected in context:
                check(c.take(32) == expected, f"context of {name}")
            return c.int(width)

        def sum_claim():
            start = r.at
            server = claim(r, 2)
            set_, posts, clients, digest = r.take(32), r.take(32), r.int(4), r.take(32)
            message = le(0x0201, 2) + le(1, 2) + data[start : r.at]
            verify(keys["server"][server], "panetiere/server-sum/v1", message, r.take(64), name)
            check(set_ == set_digest([0, 1]) and clients == 2, f"claim of {name}")
            return {"server": server}, posts, digest

        def statement():
            start = r.at
            r.header(0x0101)
            for expected in context[:3]:
                check(r.take(32) == expected, f"context of {name}")
            client = r.int(4)
            check(r.take(32) == context[3] and r.int(1) == mode, f"crs and mode of {name}")
            roots = [r.take(32) for _ in range(2 if lanes else 1)]
            ciphertext = r.take(32)
            check(r.int(8) == 10752, f"ciphertext length of {name}")
            return client, roots, ciphertext, r.take(32), data[start : r.at]

        def post(key):
            client, roots, ciphertext, delivered, signed = statement()
            verify(key, "panetiere/post/v1", signed, r.take(64), name)
            return {"client": client}, roots, ciphertext, delivered, signed

        def body():
            return r.int(2), r.take(r.int(4))

        def excerpt(digest):
            """The whole of a body of 10752 bytes, or of which more is left out than these vectors have."""
            total, start, bytes_ = r.int(8), r.int(8), r.take(r.int(4))
            check((total, start) == (10752, 0) and blake3(bytes_) == digest, f"excerpt of {name}")
            return bytes_

        def lane_claim():
            start = r.at
            lane = claim(r, 2)
            purpose, set_, posts, clients = r.int(1), r.take(32), r.take(32), r.int(4)
            digest = r.take(32)
            message = le(0x0202, 2) + le(1, 2) + data[start : r.at]
            verify(keys["lane"][lane], "panetiere/lane-sum/v1", message, r.take(64), name)
            check(purpose in (1, 2) and set_ == set_digest([0, 1]) and clients == 2, f"claim of {name}")
            return {"lane": lane}, (purpose, posts), digest

        def group_claim():
            start = r.at
            aggregator = claim(r, 2)
            members = {r.int(4): r.take(32) for _ in range(r.int(4))}
            digests = r.take(32), r.take(32)
            message = le(0x0203, 2) + le(1, 2) + data[start : r.at]
            verify(keys["aggregator"][aggregator], "panetiere/group-sum/v1", message, r.take(64), name)
            return {"aggregator": aggregator}, members, digests

        def opened(accused, set_, posts, size):
            r.header(0x0302)
            clients = [r.int(4) for _ in range(r.int(4))]
            roots = [r.take(size) for _ in clients]
            listed = b"".join(le(c, 4) + sha256(root) for c, root in zip(clients, roots))
            check(set_digest(clients) == set_ and tagged("panetiere/posts/v1", listed) == posts, f"roots of {name}")
            return accused

        if kind == "bad-opening":
            sum_ = r.take(r.int(4))
            c = Reader(sum_)
            c.header(0x0201)
            server = claim(c, 2)
            set_, posts = c.take(32), c.take(32)
            message = sum_[:202] + blake3(sum_[202:-64])
            verify(keys["server"][server], "panetiere/server-sum/v1", message, sum_[-64:], name)
            accused = opened({"server": server}, set_, posts, 4352)
        elif kind == "double-server-sum":
            (accused, *first), (other, *second) = sum_claim(), sum_claim()
            check(accused == other and first != second, f"{name} differ")
        elif kind == "bad-lane":
            sum_ = r.take(r.int(4))
            c = Reader(sum_)
            c.header(0x0202)
            lane = claim(c, 2)
            c.take(1)
            set_, posts = c.take(32), c.take(32)
            message = sum_[:203] + blake3(sum_[203:-64])
            verify(keys["lane"][lane], "panetiere/lane-sum/v1", message, sum_[-64:], name)
            accused = opened({"lane": lane}, set_, posts, 5376)
        elif kind == "double-lane-sum":
            (accused, *first), (other, *second) = lane_claim(), lane_claim()
            check(accused == other and first != second, f"{name} differ")
        elif kind == "double-group-sum":
            (accused, *first), (other, *second) = group_claim(), group_claim()
            check(accused == other and first[0] == second[0] and first[1] != second[1], f"{name} differ")
        elif kind == "bad-group":
            accused, members, digests = group_claim()
            stated = [statement() for _ in members]
            named = {s[0]: tagged("panetiere/statement/v1", s[4]) for s in stated}
            check(named == members, f"members of {name}")
            part = r.int(1)
            if part == 1:
                claimed, roots = r.take(4352), [r.take(4352) for _ in stated]
                check(sha256(claimed) == digests[0], f"root of {name}")
                check([sha256(root) for root in roots] == [s[1][0] for s in stated], f"roots of {name}")
                total = mod(add(*(unpack_residues(root, HVC, "a root") for root in roots)), HVC)
                check(unpack_residues(claimed, HVC, "a root sum") != total, f"{name} is false")
            else:
                check(part == 3 and r.int(4) == 0, f"polynomial of {name}")
                claimed = excerpt(digests[1])
                bodies = [excerpt(s[2]) for s in stated]
                limbs = [
                    [unpack_residues(b[5376 * l :][:5376], WIRE[l], "a ciphertext") for b in [claimed] + bodies]
                    for l in (0, 1)
                ]
                right = [limb[0] == mod(add(*limb[1:]), q) for limb, q in zip(limbs, WIRE)]
                check(right != [True, True], f"{name} is false")
        else:
            key = r.take(33)
            accused, roots, ciphertext, delivered, signed = post(key)
            check(key == keys["client"][accused["client"]], f"key of {name}")
            if kind == "double-post":
                other = post(key)
                check(other[0] == accused and other[4] != signed, f"{name} differ")
            elif kind == "bad-ciphertext":
                check(r.int(1) == 1, f"excerpts of {name}")
                words = unpack(excerpt(ciphertext)[:5376], 21)
                check(max(words) >= WIRE[0], f"{name} is out of range")
            elif kind == "bad-share":
                lane, bytes_ = body()
                path = [r.take(32) for _ in range(r.int(1))]
                check((lane, len(path)) == (2, 2), f"place of {name}")
                leaf = sha256(b"\0" + le(lane, 2) + blake3(bytes_))
                items = sha256(b"\1" + path[0] + leaf)
                check(sha256(b"\1" + path[1] + items) == delivered, f"{name} is signed")
            else:
                items = [body() for _ in range(r.int(2))]
                check(kind == "not-a-codeword" and [lane for lane, _ in items] == [0, 1], f"items of {name}")
        r.done()
        check(case["convicts"] in (accused, None), f"accused of {name}")


KINDS = dict(
    enumerate(
        "bad-opening bad-lane bad-group double-server-sum double-lane-sum double-group-sum double-post bad-share "
        "not-a-codeword bad-ciphertext".split(),
        1,
    )
)


def read_bad():
    """Every bad case is an edit that fits its base and changes it."""
    count = 0
    for path in sorted(HERE.glob("bad_*.json")):
        bad = json.loads(path.read_text())
        base = cases(bad["edits"].removesuffix(".json"))
        for case in bad["cases"]:
            good, edit = base[case["case"]][1], case["edit"]
            if "take" in edit:
                check(edit["take"] < len(good), f"{path.name}: {case['name']}")
            elif "put" in edit:
                put = bytes.fromhex(edit["put"])
                inside = edit["at"] + len(put) <= len(good)
                changes = good[edit["at"] : edit["at"] + len(put)] != put
                check(inside and changes, f"{path.name}: {case['name']}")
            else:
                check(len(bytes.fromhex(edit["append"])) > 0, f"{path.name}: {case['name']}")
            count += 1
    return count


def main():
    self_tests()
    deployment, epoch, servers, coded, grouped = read_epoch()
    session = read_ids(deployment)
    read_terms()
    seed, crs, a = read_crs(deployment, epoch)
    scheme = Commitments(seed)
    openings = read_openings(scheme)
    posts = read_posts(deployment, epoch, session, crs, openings)
    read_envelopes(servers)
    shares = read_sums(scheme, (deployment, epoch, session, crs), servers, posts, openings)
    read_kahe(a, posts, openings, shares)
    read_lanes(seed, deployment, session, *coded)
    read_groups((deployment, grouped[0], session, crs), grouped[1])
    read_complaints((deployment, epoch, session, crs), servers)
    documents = dict(zip((1, 3, 2), (data for _, data in cases("epoch"))))
    keys = {
        "server": [key for key, _ in servers],
        "lane": coded[1],
        "aggregator": grouped[1],
        "client": [data for _, data in cases("verifying_key")],
    }
    crs_by_mode = {1: crs, 2: crs, 3: bytes.fromhex(load("crs_lanes")["digest"])}
    read_evidence(session, documents, crs_by_mode, keys)
    bad = read_bad()
    print(f"vectors/v1: {checks} checks, {bad} of them on bad cases: all as derived")


if __name__ == "__main__":
    try:
        main()
    except (ArithmeticError, LookupError, OSError, TypeError, ValueError) as error:
        print(f"vectors/v1: BROKEN: {error!r}")
        sys.exit(1)
