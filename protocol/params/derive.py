#!/usr/bin/env python3
"""Derives every constant of the parameter sets from its inequality and compares the result with the Rust table.

Inputs of a set are its name, rho_max, beta, the width of a WIRE limb and sigma (INPUTS below); everything else follows.
The rules are those of protocol.md, section 1, and of the field comments in protocol/chipmunk/src/params.rs; nothing is
read from that file except for the comparison.

    derive.py           print every constant of both sets
    derive.py --psi     print the 4096th roots of unity of every modulus that has a transform, as JSON
    derive.py --check   compare with params.rs; print what differs and exit 1 if anything does
"""

import json
import pathlib
import re
import sys
from math import isqrt

N = 2048
RUST = pathlib.Path(__file__).resolve().parent.parent / "chipmunk" / "src" / "params.rs"

INPUTS = [
    {"name": "p300", "rho_max": 300, "beta": 108, "wire_limb_bits": 21},
    {"name": "p1000", "rho_max": 1000, "beta": 127, "wire_limb_bits": 22},
]
SIGMA_CENTI = 1572
KAPPA, MU_CS = 5, 1
PLAINTEXT_BITS = 35
SLACK_COLUMNS, EXTRA_SYMBOLS = 2, 2  # section 8: slack of the sketch; length field and check symbol of a message


def is_prime(n):
    """Miller-Rabin to the first thirteen prime bases, which is exact for every n below 3.3e24."""
    bases = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41)
    if n < 2:
        return False
    for p in bases:
        if n % p == 0:
            return n == p
    odd, twos = n - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    for base in bases:
        x = pow(base, odd, n)
        if x in (1, n - 1):
            continue
        for _ in range(twos - 1):
            x = x * x % n
            if x == n - 1:
                break
        else:
            return False
    return True


def primes_below(limit, step, residue, count):
    """The `count` largest primes below `limit` that are `residue` mod `step`, largest first."""
    n = limit - 1 - (limit - 1 - residue) % step
    found = []
    while len(found) < count:
        if n < 2:
            raise ValueError(f"fewer than {count} primes below {limit}")
        if is_prime(n):
            found.append(n)
        n -= step
    return found


def prime_from(floor, step):
    """The smallest prime that is 1 mod `step` and at least `floor`."""
    n = floor + (1 - floor) % step
    while not is_prime(n):
        n += step
    return n


def narrowest(floor, step, residue):
    """The least width whose largest prime (`residue` mod `step`) reaches `floor`, and that prime."""
    bits = floor.bit_length()
    while True:
        (prime,) = primes_below(1 << bits, step, residue, 1)
        if prime >= floor:
            return bits, prime
        bits += 1


def odd_base(modulus, digits):
    """The smallest odd base in which `digits` balanced digits cover every residue."""
    base = 1
    while base**digits < modulus:
        base += 2
    return base


def psi(q):
    """The 4096th root of unity of the transform: from the smallest base that gives a primitive one."""
    base = 2
    while True:
        root = pow(base, (q - 1) // (2 * N), q)
        if pow(root, N, q) == q - 1:
            return root
        base += 1


def derive(given):
    """All fields of one parameter set, in the order and with the names of the Rust struct."""
    rho, beta, limb_bits = given["rho_max"], given["beta"], given["wire_limb_bits"]
    cs_bits, cs = narrowest(8 * rho * beta, 8, 5)
    cs_base = odd_base(cs, 3)
    hvc = prime_from(8 * rho * (cs_base // 2), 2 * N)
    kahe = primes_below(isqrt(1 << 49) + 1, 2 * N, 1, 2)
    wire = primes_below(1 << limb_bits, 1, 0, 2)
    share_base = odd_base(wire[0] * wire[1], 4)
    lane_bits, lane = narrowest(8 * rho * (share_base // 2), 2 * N, 1)
    cs_aux = primes_below(1 << 30, 2 * N, 1, 2)

    assert 2 * KAPPA * N * (cs // 2) ** 2 < cs_aux[0] * cs_aux[1], "a CS inner product must lift exactly"
    assert rho * wire[0] < 1 << 32, "a sum of WIRE residues must fit u32"
    assert wire[0] * wire[1] < kahe[0] * kahe[1] < 1 << 49, "the wire only rounds"
    return {
        "name": given["name"],
        "rho_max": rho,
        "hvc": hvc,
        "cs": cs,
        "kahe": kahe,
        "lane": lane,
        "wire": wire,
        "cs_aux": cs_aux,
        "kappa": KAPPA,
        "mu_cs": MU_CS,
        "beta": beta,
        "hvc_base": odd_base(hvc, 3),
        "cs_base": cs_base,
        "lane_base": odd_base(lane, 3),
        "share_base": share_base,
        "hvc_bits": (hvc - 1).bit_length(),
        "cs_bits": cs_bits,
        "lane_bits": lane_bits,
        "wire_limb_bits": limb_bits,
        "sigma_centi": SIGMA_CENTI,
        "key_bound": -(-8 * SIGMA_CENTI // 100),
        "error_bound": 92 * SIGMA_CENTI // 1000,
        "plaintext_bits": PLAINTEXT_BITS,
        "plaintext_power": 1 << PLAINTEXT_BITS,
        "plaintext_prime": prime_from(1 << PLAINTEXT_BITS, 1 << 20),
    }


def limits(p):
    """Clients allowed by each inequality: (name, limit), the two limits of params.rs first."""
    digits = [p["hvc"] // (8 * (p[base] // 2)) for base in ("cs_base", "hvc_base")]
    digits += [p["cs"] // (8 * p["beta"])]
    digits += [p["lane"] // (8 * (p[base] // 2)) for base in ("share_base", "lane_base")]
    wire = min(((1 << 32) - 1) // limb for limb in p["wire"])
    names = ["leaf digits in HVC", "node digits in HVC", "randomness in CS", "share digits in LANE", "node digits in LANE"]
    bridge = (p["cs"] // 2) // p["key_bound"]
    return [("digits and sums", min(digits + [wire])), ("key bridge", bridge)] + list(zip(names, digits)) + [("WIRE sums in u32", wire)]


def sketch_polys(clients, message_bytes):
    """Polynomials of a power-sum sketch: one count, `clients` + slack columns of every symbol and of the locator."""
    columns = clients + SLACK_COLUMNS
    symbols = -(-8 * message_bytes // PLAINTEXT_BITS) + EXTRA_SYMBOLS
    return -(-(columns + 1 + symbols * columns) // N)


def sets():
    """Both sets, derived."""
    return [derive(given) for given in INPUTS]


def roots():
    """psi of every modulus with a transform, by set and ring."""
    as_list = lambda value: value if isinstance(value, list) else [value]
    rings = ("hvc", "kahe", "lane", "cs_aux")
    out = {p["name"]: {ring: {str(q): psi(q) for q in as_list(p[ring])} for ring in rings} for p in sets()}
    return out


def rust_table(text):
    """The `pub static` entries of params.rs as dictionaries."""
    entries = {}
    for name, body in re.findall(r"pub static (\w+): ParameterSet = ParameterSet \{(.*?)\n\};", text, re.S):
        fields = {}
        for key, value in re.findall(r"(\w+): (\[[^\]]*\]|\"[^\"]*\"|[^,\n]+),", body):
            if value.startswith('"'):
                fields[key] = value.strip('"')
            elif value.startswith("["):
                fields[key] = [int(x.replace("_", "")) for x in value.strip("[]").split(",") if x.strip()]
            elif shift := re.fullmatch(r"(\d+) << (\d+)", value):
                fields[key] = int(shift[1]) << int(shift[2])
            else:
                fields[key] = int(value.replace("_", ""))
        entries[name.lower()] = fields
    return entries


def check():
    """Differences between derivation and table, one line each."""
    table = rust_table(RUST.read_text())
    wrong = []
    for p in sets():
        row = table.pop(p["name"], {})
        for key in dict.fromkeys([*p, *row]):
            if p.get(key) != row.get(key):
                wrong.append(f"{p['name']}.{key}: derived {p.get(key)}, table {row.get(key)}")
        for what, limit in limits(p):
            if limit < p["rho_max"]:
                wrong.append(f"{p['name']}: {what} allow only {limit} clients")
    return wrong + [f"{name}: in the table, not derived" for name in table]


def main(arguments):
    if arguments == ["--check"]:
        wrong = check()
        print("\n".join(wrong) or f"derive: {sum(map(len, sets()))} constants of {len(INPUTS)} sets agree with params.rs")
        return 1 if wrong else 0
    if arguments == ["--psi"]:
        print(json.dumps(roots(), indent=2))
        return 0
    if arguments:
        print(__doc__, file=sys.stderr)
        return 2
    for p in sets():
        for key, value in p.items():
            print(f"{key:16} {value}")
        for what, limit in limits(p):
            print(f"clients by {what}: {limit}")
        print()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
