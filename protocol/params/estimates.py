#!/usr/bin/env python3
"""Security estimates of the lattice assumptions, in the core-SVP methodology.

Everything costs one call to a sieve in dimension b, the block size of BKZ: 0.292*b bits classically, 0.265*b with a quantum
computer; 0.257*b is printed too. Polynomial factors, memory and the number of BKZ tours are free for the attacker. The root
Hermite factor is delta(b) = ((pi*b)^(1/b) * b / (2*pi*e))^(1/(2(b-1))); the logarithms of a reduced basis fall by s = 2*ln
delta per index (geometric series assumption). Ring and module structure is taken to help nobody.

Primal attack on LWE (n secrets of width ss, m samples of width se): the lattice of dimension d = n+m+1 and volume
q^m * (se/ss)^n contains a vector of length about se*sqrt(d), found when se*sqrt(b) <= delta^(2b-d-1) * volume^(1/d). The
least b over all m. Where the vector is not shorter than the Gaussian heuristic predicts for any vector there is nothing
unique to find, and the attack is reported as "none".

Dual attack on LWE: a vector of length l in the dual lattice (dimension d = n+m, volume q^n) distinguishes with advantage
eps = 4*exp(-2*pi^2*(l*se/q)^2). A sieve yields 2^(0.2075*b) of them for the price of one, and 1/eps^2 are needed:
cost = sieve + max(0, -2*log2(eps) - 0.2075*b). The minimum over b and m.

SIS in the maximum norm (h equations mod q, coordinates at most B), as in the analysis of Dilithium: the basis of a lattice of
volume q^h is randomised, so that its reduced profile falls from l to 1 over k = ln(l)/s indices, where ln(l) =
sqrt(2*s*h*ln q), or over all the columns there are, if fewer. The 2^(0.2075*b) vectors of the last sieve have k coordinates
that behave like independent Gaussians of width l/sqrt(k), and zeros beyond. Such a vector is a solution with probability
erf(B*sqrt(k)/(l*sqrt 2))^k; the whole is repeated until the vectors suffice. The number of columns in use is k, so their
number is minimised over as far as the block size asks for; more columns than that do not help.
    One attack more, and cheaper here, where 2B/q is not small (the idea is that of Ducas, Espitau and Postlethwaite, "Finding
short integer solutions when the modulus is small", 2023): keep i of the q-vectors at the head of the basis and randomise the
other h-i equations. The i coordinates come out uniform mod q, each small enough with probability (2B+1)/q, and the others
become shorter. The figure "dilithium" is i = 0, "mixed" the minimum over i.

Calibration, part of --check: the same functions give the published block sizes of Dilithium (SIS, round 3, table 1) and of
Kyber-768 (the rough model of the lattice estimator: 624, 2^182.2).

    estimates.py           print all estimates
    estimates.py --write   store them in estimates.json
    estimates.py --check   compare with estimates.json
"""

import json
import math
import pathlib
import sys

from derive import N, sets, sketch_polys

STORED = pathlib.Path(__file__).resolve().with_name("estimates.json")
CLASSICAL, QUANTUM, QUANTUM_LATER = 0.292, 0.265, 0.257
VECTORS = 0.2075  # a sieve in dimension b ends with sqrt(4/3)^b vectors
LN2 = math.log(2)
LANES = 14  # data lanes of the reference cell


def ln_delta(b):
    """Logarithm of the root Hermite factor."""
    return (math.log(math.pi * b) / b + math.log(b / (2 * math.pi * math.e))) / (2 * (b - 1))


def coarse_to_fine(cost, low, high, step=32):
    """The integer in [low, high) that minimises `cost`, which has one valley: every `step`-th, then all around the best."""
    best = min(range(low, high, step), key=cost)
    return min(range(max(low, best - step), min(high, best + step + 1)), key=cost)


# --- LWE --------------------------------------------------------------------------------------------------------------


def primal(n, m_most, q, error, secret):
    """Least block size of the primal attack, with the samples it uses, or None."""
    ln_q, ln_scale = math.log(q), n * math.log(error / secret)

    def margin(b, m):
        d = n + m + 1
        return (2 * b - d - 1) * ln_delta(b) + (m * ln_q + ln_scale) / d - math.log(error * math.sqrt(b))

    def samples(b):
        # (m*ln q)/d - d*ln delta is largest at d = sqrt(((n+1)*ln q - ln_scale) / ln delta).
        d = math.sqrt(((n + 1) * ln_q - ln_scale) / ln_delta(b))
        return max((m for m in (int(d) - n - 1, int(d) - n, m_most) if 1 <= m <= m_most), key=lambda m: margin(b, m))

    low, high = 50, n + m_most  # infeasible, feasible
    high = min(high, 1 << 16)
    if margin(high, samples(high)) < 0:
        return None
    while high - low > 1:
        b = (low + high) // 2
        low, high = (low, b) if margin(b, samples(b)) >= 0 else (b, high)
    return high, samples(high)


def dual(n, m_most, q, error, factor):
    """(cost, block size) of the dual attack for equal widths of secret and error."""
    ln_q = math.log(q)

    def bits(b):
        d = min(n + m_most, max(n + 1, round(math.sqrt(n * ln_q / ln_delta(b)))))
        length = math.exp((d - 1) * ln_delta(b) + n * ln_q / d)
        log2_eps = 2 - 2 * (math.pi * length * error / q) ** 2 / LN2
        return factor * b + max(0.0, -2 * log2_eps - VECTORS * b)

    b = coarse_to_fine(bits, 50, min(n + m_most, 1 << 14))
    return bits(b), b


def lwe(n, m_most, q, error, secret=None):
    """One LWE row."""
    found = primal(n, m_most, q, error, secret or error)
    row = {"primal": None}
    if found:
        b, m = found
        row["primal"] = {"block": b, "samples": m, "classical": round(CLASSICAL * b), "quantum": round(QUANTUM * b), "0.257": round(QUANTUM_LATER * b)}
    if secret is None:
        (classical, b), (quantum, _) = (dual(n, m_most, q, error, factor) for factor in (CLASSICAL, QUANTUM))
        row["dual"] = {"block": b, "classical": round(classical), "quantum": round(quantum)}
    return row


# --- SIS --------------------------------------------------------------------------------------------------------------


def log2_erf(x):
    """log2 of the error function, also where it is next to 0 or 1."""
    if x < 1e-8:
        return math.log2(2 * x / math.sqrt(math.pi))
    return math.log1p(-math.erfc(x)) / LN2


def sis_bits(b, kept, h, columns, ln_q, log2_head, bound, factor):
    """Cost with block size b and `kept` q-vectors at the head."""
    s = 2 * ln_delta(b)
    ln_length = math.sqrt(2 * s * (h - kept) * ln_q)
    k = ln_length / s
    if k > columns - kept:
        k = columns - kept
        ln_length = (h - kept) * ln_q / k + s * (k - 1) / 2
    width = math.exp(ln_length) / math.sqrt(k)
    log2_p = k * log2_erf(bound / (width * math.sqrt(2))) + kept * log2_head
    return factor * b + max(0.0, -log2_p - VECTORS * b)


def sis(h, columns, q, bound, factor, mixed):
    """(cost, block size, kept q-vectors) for `h` equations with `columns` unknowns."""
    if 2 * bound + 1 >= q:
        return 0.0, 0, 0
    ln_q, log2_head = math.log(q), math.log2((2 * bound + 1) / q)
    best = None
    for kept in range(0, h // 2, 4) if mixed else (0,):
        bits = lambda b: sis_bits(b, kept, h, columns, ln_q, log2_head, bound, factor)
        b = coarse_to_fine(bits, 64, 6000)
        if best is None or bits(b) < best[0]:
            best = bits(b), b, kept
        elif kept > best[2] + 64:
            break
    return best


def sis_row(unknowns, q, bound):
    """One SIS row: one equation over the ring, `unknowns` ring elements."""
    (plain, plain_block, _) = sis(N, unknowns * N, q, bound, CLASSICAL, False)
    (bits, block, kept) = sis(N, unknowns * N, q, bound, CLASSICAL, True)
    (quantum, _, _) = sis(N, unknowns * N, q, bound, QUANTUM, True)
    return {
        "dilithium": round(plain),
        "block": plain_block,
        "mixed": round(bits),
        "mixed block": block,
        "kept": kept,
        "mixed quantum": round(quantum),
        "bound/q": round(bound / q, 4),
    }


# --- calibration ------------------------------------------------------------------------------------------------------

DILITHIUM = [(4, 4, 350209, 423), (6, 5, 724481, 638), (8, 7, 769537, 909)]  # k, l, bound, published block size


def calibration():
    """Published figures that the functions above do not reproduce."""
    wrong = []
    for k, l, bound, published in DILITHIUM:
        _, block, _ = sis(256 * k, 256 * (k + l + 1), 8380417, bound, CLASSICAL, False)
        if block != published:
            wrong.append(f"calibration: SIS of Dilithium ({k}, {l}) at block size {block}, published {published}")
    block, _ = primal(768, 768, 3329, 1.0, 1.0)
    if block != 624:
        wrong.append(f"calibration: Kyber-768 at block size {block}, published 624")
    return wrong


# --- the instances ----------------------------------------------------------------------------------------------------


def hiding_width(beta):
    """Standard deviation of a uniform value in [-beta, beta]."""
    return math.sqrt(((2 * beta + 1) ** 2 - 1) / 12)


def hints(width, honest):
    """Width that is left of one client's value when the sum over `honest` clients is public."""
    return width * math.sqrt(1 - 1 / honest)


def lwe_rows(p):
    """KAHE and commitment hiding, by number of honest clients; a large number means that the sum tells nothing."""
    q, sigma, wire = math.prod(p["kahe"]), p["sigma_centi"] / 100, math.prod(p["wire"])
    rows = {}
    for label, width in [("key, no sum known", sigma)] + [(f"key, sum of {h} honest known", hints(sigma, h)) for h in (2, 3, 10)]:
        rows[f"KAHE {label}"] = lwe(N, 1 << 30, q, width)
    rounding = math.sqrt(sigma**2 + (q / wire) ** 2 / 12)
    rows["KAHE key, WIRE rounding counted (not relied on)"] = lwe(N, 1 << 30, q, rounding, sigma)
    n, m = (p["kappa"] - 2) * N, 2 * N
    width = hiding_width(p["beta"])
    rows["commitment hiding, no sum known"] = lwe(n, m, p["cs"], width)
    rows["commitment hiding, sum of 2 honest known"] = lwe(n, m, p["cs"], hints(width, 2))
    return rows


def sis_instances(p):
    """Name, unknowns, modulus and bound per client of each binding argument. An instance at rho clients has twice
    rho times that bound: the difference of two accepted sums."""
    lane_polys = -(-sketch_polys(p["rho_max"], 16384) // LANES)
    return [
        ("leaf digits", 6, p["hvc"], p["cs_base"] // 2),
        ("path digits", 6, p["hvc"], p["hvc_base"] // 2),
        ("commitment randomness", p["kappa"], p["cs"], p["beta"]),
        ("lane share digits", 4 * lane_polys, p["lane"], p["share_base"] // 2),
        ("lane path digits", 6, p["lane"], p["lane_base"] // 2),
    ]


def entropies(p):
    """Bits of one leaf's randomness, alone and when the sum over two honest clients is public, and bits of the leaf vector.

    Given the sum s of two uniform values in [-beta, beta], one of them is uniform over 2*beta+1-|s| values."""
    values, coefficients = 2 * p["beta"] + 1, p["kappa"] * N
    given_sum = sum(c * math.log2(c) for c in (values - abs(s) for s in range(-values + 1, values))) / values**2
    return {
        "randomness": round(coefficients * math.log2(values)),
        "randomness, sum of 2 known": round(coefficients * given_sum),
        "leaf vector": round((1 + p["mu_cs"]) * N * math.log2(p["cs"])),
    }


def rosters(p):
    """Rounds to estimate: the gates follow the actual number of clients."""
    return [rho for rho in (2, 10, 30, 100, 300) if rho < p["rho_max"]] + [p["rho_max"]]


def estimates():
    """Every row of both sets."""
    out = {"comparison": {"lwe": {"ML-KEM-512": lwe(512, 512, 3329, math.sqrt(1.5)), "ML-KEM-768": lwe(768, 768, 3329, 1.0)}}}
    for p in sets():
        out[p["name"]] = {
            "lwe": lwe_rows(p),
            "entropy": entropies(p),
            "sis": {
                name: {str(rho): sis_row(unknowns, q, 2 * rho * bound) for rho in rosters(p)}
                for name, unknowns, q, bound in sis_instances(p)
            },
        }
    return out


def show(found):
    """Prints the tables of docs/security.md, in Markdown."""
    for name, rows in found.items():
        print(f"\n{name}, LWE\n\n| instance | primal: block | classical | quantum | 0.257 b | dual: classical | quantum |\n|---|---|---|---|---|---|---|")
        for label, row in rows["lwe"].items():
            primal_row, dual_row = row["primal"] or {}, row.get("dual", {})
            cells = [primal_row.get(key, "none") for key in ("block", "classical", "quantum", "0.257")]
            cells += [dual_row.get(key, "-") for key in ("classical", "quantum")]
            print("| " + " | ".join(map(str, [label, *cells])) + " |")
        if "sis" not in rows:
            continue
        print("\nentropy in bits: " + ", ".join(f"{label} {bits}" for label, bits in rows["entropy"].items()))
        some = next(iter(rows["sis"].values()))
        print(f"\n{name}, SIS: classical bits, mixed (dilithium), by clients in the round\n")
        print("| instance | " + " | ".join(some) + f" | quantum at {list(some)[-1]} | bound/q there |")
        print("|---" * (len(some) + 3) + "|")
        for label, by_roster in rows["sis"].items():
            last = list(by_roster.values())[-1]
            cells = [f"{row['mixed']} ({row['dilithium']})" for row in by_roster.values()]
            print("| " + " | ".join([label, *cells, str(last["mixed quantum"]), str(last["bound/q"])]) + " |")


def differences(found, stored, path=""):
    """Leaves of two nested dictionaries that differ."""
    if isinstance(found, dict) and isinstance(stored, dict):
        return [line for key in dict.fromkeys([*found, *stored]) for line in differences(found.get(key), stored.get(key), f"{path}/{key}")]
    return [] if found == stored else [f"{path}: computed {found}, stored {stored}"]


def main(arguments):
    if arguments not in ([], ["--check"], ["--write"]):
        print(__doc__, file=sys.stderr)
        return 2
    found = estimates()
    if arguments == ["--write"]:
        STORED.write_text(json.dumps(found, indent=1) + "\n")
        return 0
    if not arguments:
        show(found)
        return 0
    wrong = calibration() + differences(found, json.loads(STORED.read_text()))
    print("\n".join(wrong) or "estimates: every security estimate is the stored one")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
