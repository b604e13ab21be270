#!/usr/bin/env python3
"""Decryption noise of the key-additive encryption: the bound, how many clients it admits, and an exact simulation.

The bound is that of protocol.md, section 3. With q the modulus in computation, Q the one in transit, t the plaintext
modulus, all in units of the latter: each client adds an error of deviation sigma*Q/q and the rounding to Q, uniform and so
of variance 1/12; the roundings of q*m/t are a bias of at most 1/2*Q/q each and are taken off the room there is:

    deviation  = sqrt(rho * (1/12 + (sigma*Q/q)^2))
    half-range = Q/(2t) - (rho/2)*(Q/q)
    P(some coefficient of a round fails) <= N * mu * erfc(half-range / (deviation * sqrt 2))

A cell is admissible when that is <= 2^-64. Two stricter readings are printed beside it. `gate` also counts a residual above
63/64 of Q/(2t) as a failure, since decryption refuses it (NoiseOverflow). `Chernoff` besides replaces erfc(x / sqrt 2) by
2*exp(-x^2/2), which needs no central limit: both summands are sub-Gaussian with their own variance as proxy.

    noise.py           print the admissible clients per cell and the simulation
    noise.py --check   assert that both sets carry what protocol.md says, that no narrower WIRE would, and the simulation
"""

import math
import random
import sys
from bisect import bisect_right

from derive import N, primes_below, sets, sketch_polys
from gaussian import cdt, folded_weights

TARGET = -64.0
GATE = 63 / 64


def log2_erfc(x):
    """log2 of the complementary error function, for x >= 0; continued fraction where math.erfc loses digits."""
    if x < 3:
        return math.log2(math.erfc(x))
    tail = x
    for k in range(200, 0, -1):
        tail = x + k / 2 / tail
    return (-x * x - math.log(math.sqrt(math.pi) * tail)) / math.log(2)


def deviation(p, rho):
    """Standard deviation of the summed noise of `rho` clients, in WIRE units."""
    q, big_q = math.prod(p["kahe"]), math.prod(p["wire"])
    return math.sqrt(rho * (1 / 12 + (p["sigma_centi"] / 100 * big_q / q) ** 2))


def log2_failure(p, t, rho, polys, reading="erfc"):
    """log2 of the union bound on a failing round."""
    q, big_q = math.prod(p["kahe"]), math.prod(p["wire"])
    room = big_q / (2 * t) * (1 if reading == "erfc" else GATE) - rho / 2 * big_q / q
    if room <= 0:
        return 0.0
    x = room / deviation(p, rho)
    tail = 1 - x * x / 2 / math.log(2) if reading == "Chernoff" else log2_erfc(x / math.sqrt(2))
    return min(0.0, math.log2(N * polys) + tail)


def max_clients(p, t, polys, reading="erfc"):
    """The largest admissible `rho` at a fixed number of polynomials. The bound grows with rho."""
    low, high = 0, 1 << 20
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if log2_failure(p, t, middle, polys, reading) <= TARGET else (low, middle)
    return low


def moduli(p):
    """The two plaintext moduli with their names."""
    return [("2^35", p["plaintext_power"]), ("prime", p["plaintext_prime"])]


CELLS = [(clients, kilobytes) for clients in (100, 300, 1000) for kilobytes in (4, 16)]
READINGS = ("erfc", "gate", "Chernoff")


def table():
    """Failure and admissible clients per set, plaintext modulus and message size."""
    print(f"{'':38}log2 P(round fails)           most clients, polys as given")
    heads = "".join(f"{r:>10}" for r in READINGS)
    print(f"{'set':6}{'t':7}{'clients':>8}{'KB':>4}{'polys':>7}{heads}{heads}")
    for p in sets():
        for name, t in moduli(p):
            for clients, kilobytes in CELLS:
                if clients > p["rho_max"]:
                    continue
                polys = sketch_polys(clients, kilobytes * 1024)
                failures = "".join(f"{log2_failure(p, t, clients, polys, r):10.1f}" for r in READINGS)
                most = "".join(f"{max_clients(p, t, polys, r):10}" for r in READINGS)
                print(f"{p['name']:6}{name:7}{clients:8}{kilobytes:4}{polys:7}{failures}{most}")


# --- exact simulation -------------------------------------------------------------------------------------------------


def rounded(numerator, denominator):
    """numerator/denominator to the nearest integer, ties up."""
    return (2 * numerator + denominator) // (2 * denominator)


def pack(poly, width):
    """A polynomial with non-negative coefficients as one integer, `width` bytes a coefficient."""
    return int.from_bytes(b"".join(c.to_bytes(width, "little") for c in poly), "little")


def multiplier(a, q, bound):
    """The map s -> a*s mod (X^N + 1, q) for |s| <= bound, by one product of big integers."""
    width = (2 * N * q * bound).bit_length() // 8 + 1  # bytes that hold any coefficient of the product, and its sign
    half = 1 << (8 * width - 1)
    a_packed = pack(a, width)
    shift = pack([bound] * N, width)  # makes the coefficients of s non-negative; taken off again below
    offset = pack([half] * (2 * N), width) - a_packed * shift

    def times(s):
        raw = (a_packed * pack([c + bound for c in s], width) + offset).to_bytes(2 * N * width, "little")
        c = [int.from_bytes(raw[i : i + width], "little") for i in range(0, len(raw), width)]
        return [(c[i] - c[i + N]) % q for i in range(N)]

    return times


def sampler(rng, cut):
    """The sampler of section 2 on its own table: one 64-bit word a sample."""
    thresholds = cdt(folded_weights(), cut)
    mask = (1 << 63) - 1

    def draw():
        word = rng.getrandbits(64)
        magnitude = bisect_right(thresholds, word & mask)
        return -magnitude if word >> 63 else magnitude

    return draw


def messages(rng, q, t):
    """Message patterns: name and what draws one coefficient. The third has the largest rounding of q*m/t, always up."""
    worst = (t // 2 + t % 2) * pow(q, -1, t) % t
    return [("t-1", lambda: t - 1), ("0", lambda: 0), ("worst", lambda: worst), ("random", lambda: rng.randrange(t))]


def simulate(p, t, rho, seed):
    """Encrypts one polynomial for each of `rho` clients, sums in WIRE, decrypts; coefficient i has message pattern i mod 4.

    Returns per pattern (name, residuals in WIRE units, wrong coefficients)."""
    rng = random.Random(seed)
    q, big_q = math.prod(p["kahe"]), math.prod(p["wire"])
    key, error = sampler(rng, p["key_bound"]), sampler(rng, p["error_bound"])
    a = [rng.randrange(q) for _ in range(N)]
    patterns = messages(rng, q, t)
    times_a = multiplier(a, q, p["key_bound"])
    wire, expected, summed_key = [0] * N, [0] * N, [0] * N
    for _ in range(rho):
        s = [key() for _ in range(N)]
        product = times_a(s)
        assert product[0] == (a[0] * s[0] - sum(a[j] * s[N - j] for j in range(1, N))) % q, "the product is negacyclic"
        for i in range(N):
            m = patterns[i % 4][1]()
            c = (product[i] + error() + rounded(q * m, t)) % q
            wire[i] += rounded(c * big_q, q)
            expected[i] += m
            summed_key[i] += s[i]
    mask = multiplier(a, q, rho * p["key_bound"])(summed_key)
    results = [(name, [], []) for name, _ in patterns]
    for i in range(N):
        x = (rounded(wire[i] % big_q * q, big_q) - mask[i]) % q
        _, residuals, wrong = results[i % 4]
        noise = (x - rounded(q * (expected[i] % t), t) + q // 2) % q - q // 2
        residuals.append(noise * big_q / q)
        if rounded(x * t, q) % t != expected[i] % t:
            wrong.append(i)
    return results


def spread(values):
    """Sample mean and standard deviation."""
    mean = sum(values) / len(values)
    return mean, math.sqrt(sum((v - mean) ** 2 for v in values) / (len(values) - 1))


def check_simulation(show):
    """Runs the simulation, line by line to `show`, and returns what contradicts the bound."""
    contradictions = []
    show(f"{'set':6}{'clients':>7} {'t':7}{'message':8}{'wrong':>6}{'mean':>8}{'allowed':>8}{'deviation':>11}{'predicted':>11}{'largest':>9}{'Q/(2t)':>8}")
    for p in sets():
        rho = p["rho_max"]
        q, big_q = math.prod(p["kahe"]), math.prod(p["wire"])
        predicted, bias = deviation(p, rho), rho / 2 * big_q / q
        for t_name, t in moduli(p)[: 2 if rho <= 300 else 1]:
            centred = []
            for name, residuals, wrong in simulate(p, t, rho, seed=1):
                mean, sd = spread(residuals)
                centred += [r - mean for r in residuals]
                show(f"{p['name']:6}{rho:7} {t_name:7}{name:8}{len(wrong):6}{mean:8.2f}{bias:8.2f}{sd:11.2f}{predicted:11.2f}"
                      f"{max(map(abs, residuals)):9.2f}{big_q / 2 / t:8.2f}")
                if abs(mean) > bias + 5 * predicted / math.sqrt(len(residuals)):
                    contradictions.append(f"{p['name']}, {t_name}, {name}: mean {mean:.2f} exceeds the bias allowed for")
                if wrong:
                    contradictions.append(f"{p['name']}, {t_name}, {name}: wrong coefficients {wrong}")
            _, sd = spread(centred)
            show(f"{p['name']:6}{rho:7} {t_name:7}{'all':8}{'':22}{sd:11.2f}{predicted:11.2f}")
            # The deviation of n samples strays by 1/sqrt(2n) of itself: 1.6 % here.
            if abs(sd / predicted - 1) > 5 / math.sqrt(2 * N):
                contradictions.append(f"{p['name']}, {t_name}: deviation {sd:.2f}, predicted {predicted:.2f}")
    return contradictions


def check_bound():
    """What protocol.md promises of the bound and does not hold."""
    wrong = []
    if [sketch_polys(*c) for c in ((300, 16384), (300, 4096), (100, 16384), (100, 4096))] != [553, 139, 187, 47]:
        wrong.append("the sketch sizes are not those of protocol.md, section 8")
    for p in sets():
        polys = sketch_polys(p["rho_max"], 16384)
        bits = p["wire_limb_bits"] - 1
        narrow = {**p, "wire": primes_below(1 << bits, 1, 0, 2)}
        for name, t in moduli(p):
            for reading in READINGS:
                if (log2 := log2_failure(p, t, p["rho_max"], polys, reading)) > TARGET:
                    wrong.append(f"{p['name']}, t = {name}, {reading}: 2^{log2:.1f} at {p['rho_max']} clients and {polys} polys")
            if log2_failure(narrow, t, p["rho_max"], polys) <= TARGET:
                wrong.append(f"{p['name']}, t = {name}: a WIRE limb of {bits} bits would do")
    return wrong


def main(arguments):
    if arguments not in ([], ["--check"]):
        print(__doc__, file=sys.stderr)
        return 2
    if not arguments:
        table()
        print()
    wrong = check_bound() + check_simulation(print if not arguments else lambda line: None)
    print("\n".join(wrong) or "noise: rho_max of both sets is admissible, no narrower WIRE is, and the simulation agrees")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
