#!/usr/bin/env python3
"""Writes docs/performance.md and its plots from results.jsonl, icount.json and the figures of the published reference.

Standard library only. Figures of the reference and targets: design page "baseline", typed in here once.
"""

import json
from math import log10, sqrt
from pathlib import Path

HERE = Path(__file__).resolve().parent
PAGE = HERE.parent / "performance.md"
ICOUNT = HERE.parent.parent / "host/benches/icount.json"

# OpenSSL on one core at 16 KiB, GB/s, in the session in which the reference was timed.
REFERENCE_YARDSTICKS = {"sha256": 1.94, "aes256gcm": 4.85}
# The published reference on that machine, ms, one thread, 8 servers: client, server, recipient without parsing.
REFERENCE = {(100, 4096): (9.65, 23.7, 19.5), (300, 4096): (17.1, 97.0, 121.0), (300, 16384): (50.0, 93.0, 325.0)}
# Instructions of the reference at 300 x 16 KiB, millions, AVX2: encode 121.1 and the client's round 575.5 make 696.6.
REFERENCE_INSTRUCTIONS = {"avx2/client": 696.6, "avx2/encode": 121.1, "avx2/decode": 2122.0}


def load():
    rows = [json.loads(line) for line in (HERE / "results.jsonl").read_text().splitlines()]
    rounds = [r for r in rows if "client" in r]
    direct = [r for r in rounds if not r.get("lanes")]
    return direct, [r for r in rounds if r.get("lanes")], [r for r in rows if "kernels_ns" in r]


def factor(row):
    """What our milliseconds are multiplied with to stand beside the reference's."""
    y = row["yardsticks"]
    aes, sha = y.get("openssl_aes256gcm_gb_s"), y.get("openssl_sha256_gb_s")
    if not aes or not sha:
        raise SystemExit("a row without openssl's yardsticks: install openssl and measure again")
    return sqrt(aes / REFERENCE_YARDSTICKS["aes256gcm"] * sha / REFERENCE_YARDSTICKS["sha256"])


def find(rows, **wanted):
    hits = [r for r in rows if all(r[k] == v for k, v in wanted.items())]
    return hits[0] if hits else None


def roles(row):
    """Milliseconds of a round by role: client, server (all clients, then the close), recipient (the same)."""
    n = row["clients"]
    server = row["server"]["arrival_per_client_ms"] * n + row["server"]["close_ms"]
    recipient = row["recipient"]["arrival_per_post_ms"] * n + row["recipient"]["close_total_ms"]
    return row["client"]["total_ms"], server, recipient


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(str(c) for c in row) + " |" for row in rows])


def number(value, digits=3):
    return f"{value:.{max(0, digits - 1 - int(log10(abs(value))) if abs(value) >= 1 else digits - 1)}f}"


def plot(path, title, x_label, xs, series):
    """A log-log plot as SVG: series is a list of (name, colour, values)."""
    width, height, left, right, top, bottom = 640, 360, 70, 170, 40, 50
    values = [v for _, _, vs in series for v in vs if v]
    low, high = log10(min(values)) - 0.1, log10(max(values)) + 0.1
    x_low, x_high = log10(min(xs)), log10(max(xs))
    at_x = lambda x: left + (log10(x) - x_low) / (x_high - x_low) * (width - left - right)
    at_y = lambda y: height - bottom - (log10(y) - low) / (high - low) * (height - top - bottom)
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        f'<text x="{left}" y="22" font-size="14">{title}</text>',
    ]
    for exponent in range(int(low) - 1, int(high) + 2):
        for step in (1, 2, 5):
            y = step * 10.0**exponent
            if low <= log10(y) <= high:
                out.append(f'<line x1="{left}" x2="{width - right}" y1="{at_y(y):.1f}" y2="{at_y(y):.1f}" stroke="#ddd"/>')
                out.append(f'<text x="{left - 6}" y="{at_y(y) + 4:.1f}" text-anchor="end">{y:g} ms</text>')
    for x in xs:
        out.append(f'<line x1="{at_x(x):.1f}" x2="{at_x(x):.1f}" y1="{top}" y2="{height - bottom}" stroke="#eee"/>')
        out.append(f'<text x="{at_x(x):.1f}" y="{height - bottom + 18}" text-anchor="middle">{x}</text>')
    out.append(f'<text x="{(left + width - right) / 2}" y="{height - 10}" text-anchor="middle">{x_label}</text>')
    # Labels at the right end of each line, pushed apart where they would overlap.
    ends = sorted((at_y(vs[-1]), name, colour) for name, colour, vs in series)
    placed = -1e9
    for y, name, colour in ends:
        placed = max(y + 4, placed + 15)
        out.append(f'<text x="{width - right + 8}" y="{placed:.1f}" fill="{colour}">{name}</text>')
    for _, colour, vs in series:
        points = [(at_x(x), at_y(v)) for x, v in zip(xs, vs)]
        out.append('<polyline fill="none" stroke="%s" stroke-width="2" points="%s"/>' % (colour, " ".join(f"{x:.1f},{y:.1f}" for x, y in points)))
        out += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{colour}"/>' for x, y in points]
    path.write_text("\n".join(out + ["</svg>"]) + "\n")


def targets(best, avx2):
    """Rows of the targets table: work, reference, target, ours by ratio on the fastest back-end and on AVX2."""
    f, g = factor(best), factor(avx2)
    get = {
        "client, encoded to packed": (lambda r: r["client"]["total_ms"], "50", "12.5 (AVX-512), 20 (AVX2)"),
        "server, a client on arrival": (lambda r: r["server"]["arrival_per_client_ms"], "0.31, without verifying", "0.22"),
        "server, after the close": (lambda r: r["server"]["close_ms"], "93", "5"),
        "recipient, a post on arrival, digest included": (lambda r: r["recipient"]["arrival_per_post_ms"], "6.9, without a digest", "2.5 and one digest pass"),
        "recipient, after the close": (lambda r: r["recipient"]["close_total_ms"], "175", "45"),
    }
    return [
        [name, reference, target, f"{number(value(best) * f)} ({number(value(best))})", f"{number(value(avx2) * g)} ({number(value(avx2))})"]
        for name, (value, reference, target) in get.items()
    ]


def main():
    rounds, coded, kernels = load()
    reference = find(rounds, clients=300, message_bytes=16384, servers=8, threads=1)
    fastest = reference["simd"]
    avx2 = find(rounds, clients=300, message_bytes=16384, servers=8, threads=1, simd="avx2") or reference
    commit, cpu = reference["commit"], reference["cpu"]
    pick = lambda **w: find(rounds, threads=1, simd=fastest, **w)

    by_clients = [r for r in (pick(clients=n, message_bytes=16384, servers=8) for n in (100, 300, 1000)) if r]
    by_servers = [r for r in (pick(clients=300, message_bytes=16384, servers=n) for n in (3, 8, 16, 64)) if r]
    for name, rows, key, label in (
        ("clients", by_clients, "clients", "clients, 16 KiB each, 8 servers"),
        ("servers", by_servers, "servers", "servers, 300 clients of 16 KiB"),
    ):
        cost = [roles(r) for r in rows]
        plot(
            HERE / f"{name}.svg",
            f"CPU time of a round by role, one thread, {fastest}",
            label,
            [r[key] for r in rows],
            [
                ("one client", "#1f77b4", [c[0] for c in cost]),
                ("one server, all clients", "#d62728", [c[1] for c in cost]),
                ("recipient, arrival", "#2ca02c", [r["recipient"]["arrival_per_post_ms"] * r["clients"] for r in rows]),
                ("recipient, close", "#9467bd", [r["recipient"]["close_total_ms"] for r in rows]),
            ],
        )

    def cell(r):
        client, server, recipient = roles(r)
        known = REFERENCE.get((r["clients"], r["message_bytes"])) if r["servers"] == 8 and r["threads"] == 1 else None
        f = factor(r)
        beside = lambda i, ms: f"{number(ms)} → {number(ms * f)}" + (f" / {known[i]:g}" if known else "")
        return [
            f'{r["clients"]} x {r["message_bytes"] // 1024} KiB', r["servers"], r["simd"], r["threads"],
            beside(0, client), beside(1, server), beside(2, recipient),
            number(r["recipient"]["close_total_ms"]),
            *(f'{r["peak_rss_bytes"][role] / 1e6:.1f}' for role in ("client", "server", "recipient")),
        ]

    phases = [[k.removesuffix("_ms"), *(number(r["client"][k]) for r in (reference, avx2))] for k in ("encode_ms", "keygen_ms", "encrypt_ms", "share_ms", "commit_ms", "seal_ms", "pack_ms", "total_ms")]
    close = [[k.removesuffix("_ms"), *(number(r["recipient"]["close"][k]) for r in (reference, avx2))] for k in ("verify_ms", "interpolate_ms", "decrypt_ms", "decode_ms")]
    counts = json.loads(ICOUNT.read_text())
    instructions = [[name, f"{count / 1e6:.1f}", f"{REFERENCE_INSTRUCTIONS[name]:.1f}" if name in REFERENCE_INSTRUCTIONS else ""] for name, count in sorted(counts.items())]
    at_4_ghz = lambda k, ns: ns * 0.25 / k["dependent_add_ns"]
    ntt = [
        [k["simd"], number(k["kernels_ns"]["ntt_forward"], 4), number(k["kernels_ns"]["ntt_inverse"], 4),
         number(at_4_ghz(k, k["kernels_ns"]["ntt_forward"]), 4), number(at_4_ghz(k, k["kernels_ns"]["ntt_inverse"]), 4),
         {"avx512": "920, bound 1150", "avx2": "1670, bound 2088"}.get(k["simd"], "")]
        for k in kernels
    ]

    def lane_rows(r):
        f, close = factor(r), r["recipient"]["close"]
        beside = lambda ms: f"{number(ms * f)} ({number(ms)})"
        return [
            [r["simd"], "client, beyond a direct post", "14.6", "10", beside(r["client"]["lanes_ms"])],
            [r["simd"], "lane, an item on arrival: verified and added", "", "", beside(r["lane"]["arrival_per_client_ms"])],
            [r["simd"], "lane, after the close", "114", "5", beside(r["lane"]["close_ms"])],
            [r["simd"], "recipient, after the close", "250", "60", beside(r["recipient"]["close_total_ms"])],
            [r["simd"], "of it: parse, verify lanes, put together, verify servers, decrypt, decode", "", "",
             ", ".join(number(close[k]) for k in ("parse_lanes_ms", "verify_lanes_ms", "reconstruct_ms", "verify_ms", "decrypt_ms", "decode_ms"))],
        ]

    PAGE.write_text(TEMPLATE.format(
        lanes=table(["arithmetic", "work, 300 x 16 KiB, 8 servers, 14 of 16 lanes", "reference, ms", "target, ms", "ours, ms by ratio (as measured)"], [row for r in coded for row in lane_rows(r)]),
        lane_bytes=", ".join(f'{name} {coded[0]["bytes"][key]:,}' for name, key in (("lane item", "lane_item"), ("lane sum", "lane_sum"), ("post", "post"))) if coded else "",
        commit=commit, cpu=cpu, fastest=fastest, factor=f"{factor(reference):.3f}",
        yardsticks=", ".join(f"{k} {v}" for k, v in sorted(reference["yardsticks"].items())),
        statement=number(reference["server"]["statement_check_ms"]),
        targets=table(["work, 300 x 16 KiB, 8 servers, one thread", "reference, ms", "target, ms", f"ours on {fastest}, ms by ratio (as measured)", "ours on AVX2"], targets(reference, avx2)),
        cells=table(["cell", "servers", "arithmetic", "threads", "one client, ms", "one server, ms", "recipient, ms", "of it after the close", "client MB", "server MB", "recipient MB"], [cell(r) for r in rounds]),
        phases=table(["client, ms", reference["simd"], avx2["simd"]], phases),
        close=table(["recipient's close, ms", reference["simd"], avx2["simd"]], close),
        sizes=table(["object", "bytes", "reference"], [
            ["post", f'{reference["bytes"]["post"]:,}', "6,916,098"],
            ["envelopes, all 8", f'{reference["bytes"]["envelopes"]:,}', "473,984"],
            ["server's sum", f'{reference["bytes"]["server_entry"]:,}', "123,680"],
        ]),
        instructions=table(["case", "millions of instructions", "reference"], instructions),
        ntt=table(["arithmetic", "forward, ns", "inverse, ns", "forward at 4 GHz", "inverse at 4 GHz", "by hand at 4 GHz"], ntt),
        notes=(HERE / "notes.md").read_text().strip(),
    ))
    print(f"written: {PAGE}, {HERE}/clients.svg, {HERE}/servers.svg")


TEMPLATE = """# Performance

<!-- Written by docs/performance/page.py from docs/performance/results.jsonl; the last section is docs/performance/notes.md. -->

Measured at commit {commit} on "{cpu}", by `docs/performance/measure`. Every time is a median of one run of
`panetiere bench round`, in which each role is a process of its own and only one works at a time. The published
reference was timed on another machine, so milliseconds stand beside its only **by ratio**: multiplied with
sqrt(AES-256-GCM GB/s / 4.85 x SHA-256 GB/s / 1.94), both by `openssl speed` at 16 KiB in the same run, here {factor}.
(Yardsticks, GB/s: {yardsticks}.)

## Against the targets

{targets}

## Rounds

Milliseconds as measured → by ratio / the reference's. A server's time is that of all its clients' envelopes, each
opened, expanded, **verified** and added, and of its answer; the reference verifies nothing. Checking the signature of a
client's post is not in it: {statement} ms a client, in the first row, that the reference has no like of. The recipient's includes
parsing and a BLAKE3 digest of every post, which are not in the reference's. Memory is the peak of the role's process.

{cells}

![Cost by role against the number of clients](performance/clients.svg)

![Cost by role against the number of servers](performance/servers.svg)

{phases}

{close}

{sizes}

## Erasure-coded lanes

{lanes}

Bytes: {lane_bytes}.

## Instructions

One thread, 300 x 16 KiB, 8 servers; in the sums of both closes are two clients, in that of `decode` all.
`cargo bench -p panetiere-host --bench icount` counts them again, and `.ci/nightly icount` fails 3 % above. Valgrind hides AVX-512 and
the SHA instructions, so hashing counts for more here than it costs.

{instructions}

## The transform

2048 coefficients of 24 bits, next to a chain of dependent additions in the same run: one addition is a clock cycle.

{ntt}

{notes}
"""

if __name__ == "__main__":
    main()
