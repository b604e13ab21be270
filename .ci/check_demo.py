#!/usr/bin/env python3
"""Runs `panetiere demo` and checks what it prints. Python standard library only.

    python3 .ci/check_demo.py BINARY SUITE    one line per run: what, seconds, peak memory; exit code 1 on a deviation
    python3 .ci/check_demo.py --self-test     run the tests of the checks themselves

Suites: `small` (the configurations a change must not break, and bad input), `large` (the sizes), `reference` (300
clients x 16 KiB with 8 and 16 servers; minutes). The oracle is what was put in: message files written here, and sizes
that follow from the protocol's figures alone.
"""

import base64
import collections
import contextlib
import copy
import io
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import unittest

COUNTS = ("clients", "cover", "servers", "threshold", "sent", "recovered", "missing", "extra")
KEYS = {"mode", "encoding", "lanes", "aggregators", *COUNTS, "messages", "culprits", "absent", "phase_ms", "link_bytes", "crs_digest"}
MODES = ("direct", "aggregated", "erasure")
ENCODINGS = ("sketch", "peeling", "slots")
# The lies that each mode has: whose, and what.
LIES = {
    "direct": ("server:wrong-sum", "client:bad-opening", "client:bad-ciphertext"),
    "aggregated": ("server:wrong-sum", "client:bad-opening", "client:bad-ciphertext", "aggregator:wrong-sum", "aggregator:wrong-root",
                   "aggregator:shifted-sum"),
    "erasure": ("server:wrong-sum", "client:bad-opening", "lane:wrong-sum", "lane:down", "client:bad-share", "client:non-codeword"),
}

# 35 bits of message travel in 42 bits of ciphertext; each client seals a body of this size to each server
# (protocol.md sections 1 and 4).
SEALED_BODY_BYTES = {8: 18_800, 16: 23_152}
EXPANSION = (42, 35)


def is_integer(value):
    return isinstance(value, int) and not isinstance(value, bool)


def is_number(value):
    return is_integer(value) or isinstance(value, float)


def message_bytes(message):
    """The bytes of one entry of `messages`, or None if it is not of either form."""
    if isinstance(message, str):
        return message.encode()
    if isinstance(message, dict) and set(message) == {"base64"} and isinstance(message["base64"], str):
        try:
            decoded = base64.b64decode(message["base64"], validate=True)
        except ValueError:
            return None
        try:
            decoded.decode()
        except UnicodeDecodeError:
            return decoded
    return None  # UTF-8 must come as a string: one form per message


def check_shape(report, name):
    """Deviations of one round's object from its form: keys, types, ranges."""
    if set(report) != KEYS:
        yield f"{name}: keys missing {sorted(KEYS - set(report))}, unknown {sorted(set(report) - KEYS)}"
        return
    for key in COUNTS:
        if not is_integer(report[key]) or report[key] < 0:
            yield f"{name}: {key} is {report[key]!r}, not a count"
    if report["mode"] not in MODES:
        yield f"{name}: mode is {report['mode']!r}, not one of {MODES}"
    if report["encoding"] not in ENCODINGS:
        yield f"{name}: encoding is {report['encoding']!r}, not one of {ENCODINGS}"
    lanes, aggregators = report["lanes"], report["aggregators"]
    if (lanes is not None) != (report["mode"] == "erasure") or not re.fullmatch("[1-9][0-9]*x[1-9][0-9]*", lanes or "1x1"):
        yield f"{name}: lanes are {lanes!r} in {report['mode']} mode"
    if (aggregators is not None) != (report["mode"] == "aggregated") or not is_integer(aggregators or 1):
        yield f"{name}: aggregators are {aggregators!r} in {report['mode']} mode"
    if not isinstance(report["crs_digest"], str) or not re.fullmatch("[0-9a-f]{64}", report["crs_digest"]):
        yield f"{name}: crs_digest is {report['crs_digest']!r}, not 64 hex digits"
    for key in ("messages", "culprits", "absent"):
        if not isinstance(report[key], list):
            yield f"{name}: {key} is no array"
            return
    for message in report["messages"]:
        if message_bytes(message) is None:
            yield f"{name}: a message is neither a string nor base64 of something else: {message!r:.80}"
    for key, is_right in (("phase_ms", is_number), ("link_bytes", is_integer)):
        values = report[key]
        if not isinstance(values, dict) or not values or not all(is_right(v) and v >= 0 for v in values.values()):
            yield f"{name}: {key} is {values!r:.80}, not an object of numbers"


def check_round(report, name, expected, sent, excluded=0):
    """Deviations of one round's values. `sent` is the list of messages if known, else None; so many that sent one are
    out of the set."""
    for key, value in expected.items():
        if report[key] != value:
            yield f"{name}: {key} is {report[key]!r}, expected {value!r}"
    count = report["clients"] - report["cover"] - excluded
    for key, value in (("sent", count), ("recovered", count), ("missing", 0), ("extra", 0)):
        if report[key] != value:
            yield f"{name}: {key} is {report[key]}, expected {value}"
    recovered = collections.Counter(message_bytes(message) for message in report["messages"])
    if recovered.total() != count:
        yield f"{name}: {recovered.total()} messages listed, expected {count}"
    if sent is not None and (recovered - collections.Counter(sent) or len(sent) != count + excluded):
        yield f"{name}: the messages listed are not those given"


def parties(report, kind):
    """The names of all parties of a kind in one round."""
    count = {
        "client": report["clients"],
        "server": report["servers"],
        "lane": int(report["lanes"].split("x")[1]) if report["lanes"] else 0,
        "aggregator": report["aggregators"] or 0,
    }
    return [f"{kind} {index}" for index in range(count[kind])]


def check_report(report, expected, sent=None, lie="server:wrong-sum"):
    """All deviations of a demo's JSON object, a list of one line each."""
    if not isinstance(report, dict) or not isinstance(report.get("tamper"), dict):
        return ["report: no object with an object `tamper`"]
    rounds = {"round": {k: v for k, v in report.items() if k not in ("tamper", "lie", "liar")}, "tamper": report["tamper"]}
    deviations = [line for name, one in rounds.items() for line in check_shape(one, name)]
    if deviations:
        return deviations
    kind = lie.split(":")[0]
    excluded = int(kind == "client")
    deviations += check_round(rounds["round"], "round", expected, sent)
    deviations += check_round(rounds["tamper"], "tamper", expected, sent, excluded)
    for key in ("culprits", "absent"):
        if report[key]:
            deviations.append(f"round: nobody lied, {key} are {report[key]!r}")
    liar = report.get("liar")
    if report.get("lie") != lie or liar not in parties(report, kind):
        deviations.append(f"tamper: {liar!r} tells the lie {report.get('lie')!r}, expected a {kind} and {lie}")
    proved, silent = ([], [liar]) if lie == "lane:down" else ([liar], [])
    for key, names in (("culprits", proved), ("absent", silent)):
        if report["tamper"][key] != names:
            deviations.append(f"tamper: {key} are {report['tamper'][key]!r}, expected {names!r}")
    honest, tampered = (collections.Counter(map(str, one["messages"])) for one in rounds.values())
    if tampered - honest or (honest - tampered).total() != excluded:
        deviations.append("tamper: recovered other messages than the honest round")
    return deviations


def check_sizes(report, payload_bytes):
    """Deviations of the round's traffic from its contents: all links together carry at least every client's ciphertext
    and sealed bodies, and no link a quarter more than those."""
    clients, servers = report["clients"], report["servers"]
    up, down = EXPANSION
    ciphertext = clients * payload_bytes * up // down
    if report["lanes"]:
        needed, lanes = map(int, report["lanes"].split("x"))
        ciphertext = ciphertext * lanes // needed
    least = clients * (ciphertext + servers * SEALED_BODY_BYTES[servers])
    total, largest = sum(report["link_bytes"].values()), max(report["link_bytes"].values())
    deviations = []
    if total < least:
        deviations.append(f"round: {total} bytes crossed all links, but the contents alone are {least}")
    if largest > least * 5 // 4:
        deviations.append(f"round: one link carried {largest} bytes for contents of {least}")
    return deviations


Run = collections.namedtuple("Run", "code stdout stderr seconds peak_bytes")


def run(binary, arguments, directory):
    """Runs the program in `directory`, without a terminal.

    `peak_bytes` is the resident set at its largest; the system counts this script's own, from before the program
    replaced it, so small figures mean nothing.
    """
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        started = time.monotonic()
        child = subprocess.Popen([binary, *arguments], cwd=directory, stdin=subprocess.DEVNULL, stdout=out, stderr=err)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        seconds = time.monotonic() - started
        out.seek(0)
        err.seek(0)
        return Run(child.returncode, out.read(), err.read(), seconds, usage.ru_maxrss * 1024)


class Suite:
    def __init__(self, binary, directory):
        self.binary = pathlib.Path(binary).resolve()
        self.directory = directory
        self.deviations = 0

    def row(self, title, deviations, result):
        self.deviations += len(deviations)
        verdict = "FAILED" if deviations else "ok"
        title = re.sub("([0-9a-f]{4})[0-9a-f]{60}", r"\1...", title)
        print(f"  {title:<96} {result.seconds:8.1f} s {result.peak_bytes / 2**20:8.0f} MiB  {verdict}", flush=True)
        for deviation in deviations:
            print(f"    {deviation}", flush=True)

    def good(self, options, sent=None, payload_bytes=None, lie="server:wrong-sum", **expected):
        """One demo that must succeed. Returns its report, or None."""
        result = run(self.binary, ["demo", "--json", *map(str, options)], self.directory)
        report = None
        try:
            report = json.loads(result.stdout)
            deviations = check_report(report, expected, sent, lie)
        except ValueError as error:
            deviations = [f"stdout is not one JSON object: {error}"]
        if payload_bytes and not deviations:
            deviations += check_sizes(report, payload_bytes)
        if result.code != 0:
            deviations.append(f"exit code {result.code}")
        elif result.stderr:
            deviations.append("beside --json, without a terminal, stderr must stay empty")
        if deviations and result.stderr:
            deviations.append(f"stderr: {result.stderr.decode(errors='backslashreplace').strip()[:400]!r}")
        self.row("demo " + " ".join(map(str, options)), deviations, result)
        return None if deviations else report

    def every_mode(self, options, sent, **expected):
        """One demo of all modes that must succeed."""
        result = run(self.binary, ["demo", "--json", "--mode", "all", *map(str, options)], self.directory)
        self.row("demo --mode all " + " ".join(map(str, options)), check_every_mode(result, sent, expected), result)

    def bad(self, options, telling):
        """One demo that must be refused, with a short text that says `telling`."""
        result = run(self.binary, ["demo", *options], self.directory)
        self.row("refused: " + " ".join(options), check_refusal(result, telling), result)


def check_every_mode(result, sent, expected):
    deviations = [] if result.code == 0 else [f"exit code {result.code}"]
    try:
        report = json.loads(result.stdout)
    except ValueError as error:
        return [*deviations, f"stdout is not one JSON object: {error}"]
    if not isinstance(report, dict) or set(report) != {"rounds"} or len(report["rounds"]) != len(MODES):
        return [*deviations, "no object with an array `rounds`, one a mode"]
    for mode, one in zip(MODES, report["rounds"]):
        deviations += [f"{mode}: {line}" for line in check_report(one, {"mode": mode, **expected}, sent)]
    return deviations


def check_refusal(result, telling):
    text = result.stderr.decode(errors="replace")
    deviations = []
    if result.code != 2:
        deviations.append(f"exit code {result.code}, expected 2")
    if not 1 <= len(text.splitlines()) <= 3:
        deviations.append(f"{len(text.splitlines())} lines on stderr, expected 1 to 3")
    if telling not in text:
        deviations.append(f"stderr does not say {telling!r}: {text[:200]!r}")
    if result.stdout:
        deviations.append("something on stdout")
    return deviations


def small(suite):
    directory = suite.directory
    suite.good([], mode="direct", clients=16, cover=0, servers=4, threshold=3)
    suite.good(["--clients", 16, "--cover", 4], clients=16, cover=4)
    suite.good(["--servers", 5, "--threshold", 4], servers=5, threshold=4)
    suite.good(["--params", "p1000", "--bytes", 32], clients=16)

    for mode, lies in LIES.items():
        for lie in lies:
            suite.good(["--mode", mode, "--lie", lie, "--clients", 7, "--cover", 2, "--bytes", 40], lie=lie, mode=mode, clients=7)
        for encoding in ENCODINGS[1:]:
            options = ["--mode", mode, "--encoding", encoding, "--clients", 7, "--cover", 2, "--bytes", 40]
            suite.good(options, mode=mode, encoding=encoding, clients=7, cover=2)
    suite.good(["--encoding", "slots", "--lie", "client:bad-opening", "--bytes", 40], lie="client:bad-opening", encoding="slots")
    suite.good(
        ["--mode", "erasure", "--lanes", "3x7", "--clients", 20, "--bytes", 40, "--lie", "client:non-codeword"],
        lie="client:non-codeword", lanes="3x7", clients=20,
    )  # fmt: skip

    seed = ["--seed", "5e" * 32]
    first, again = suite.good(seed), suite.good(seed)
    other = suite.good(["--seed", "5f" * 32])
    if first and again and other:
        same = all(first[key] == again[key] for key in ("crs_digest", "link_bytes"))
        same = same and sorted(map(str, first["messages"])) == sorted(map(str, again["messages"]))
        if not same or sorted(map(str, first["messages"])) == sorted(map(str, other["messages"])):
            suite.deviations += 1
            print("    the seed alone must decide what a demo does")

    listed = [b"hello", b"", "Grüße".encode(), b"hello", b"\r", b"\x1b[2J"]
    (directory / "list").write_bytes(b"\n".join(listed))
    suite.good(["--messages", "list"], sent=listed, clients=16, cover=10)
    suite.good(["--messages", "list", "--clients", 6], sent=listed, clients=6, cover=0)
    for encoding in ENCODINGS:
        suite.every_mode(["--encoding", encoding, "--messages", "list", "--clients", 8], sent=listed, encoding=encoding, clients=8, cover=2)

    inbox = directory / "inbox"
    inbox.mkdir()
    files = [b"\xff\xfe", b"", b"line\n", bytes(range(256)), b"\x00"]
    for index, contents in enumerate(files):
        (inbox / f"{index}.bin").write_bytes(contents)
    suite.good(["--messages-dir", "inbox"], sent=files, clients=16, cover=11)

    (directory / "empty").write_bytes(b"")
    (directory / "none").mkdir()
    suite.bad(["--messages", "empty"], "no message")
    suite.bad(["--messages-dir", "none"], "no message")
    suite.bad(["--messages", "list", "--bytes", "4"], "line 1")
    suite.bad(["--messages", "list", "--clients", "5"], "--clients")
    suite.bad(["--messages", "absent"], "absent")
    suite.bad(["--messages-dir", "absent"], "absent")
    suite.bad(["--messages", "inbox"], "inbox")
    suite.bad(["--messages-dir", "list"], "list")
    for options, telling in (
        ("--clients 0", "--clients"),
        ("--servers 0", "--servers"),
        ("--bytes 0", "--bytes"),
        ("--threshold 0", "--threshold"),
        ("--servers 6 --threshold 3", "--threshold"),
        ("--servers 4 --threshold 5", "--threshold"),
        ("--clients 3 --min-clients 4", "--min-clients"),
        ("--clients 301", "300"),
        ("--params p1000 --clients 1001", "1000"),
        ("--clients sixteen", "--clients"),
        ("--lie lane:wrong-sum", "client:bad-ciphertext"),
        ("--mode all --lie aggregator:wrong-sum", "server:wrong-sum, client:bad-opening"),
        ("--mode erasure --lie aggregator:wrong-sum", "lane:down"),
        ("--mode erasure --lanes 4x4 --lie client:non-codeword", "--lanes"),
        ("--mode erasure --lanes 4x3", "--lanes"),
        ("--lanes 3x4", "--mode erasure"),
        ("--mode none", "direct, aggregated, erasure, all"),
        ("--encoding none", "sketch, peeling, slots"),
    ):
        suite.bad(options.split(), telling)


def large(suite):
    options = ["--clients", 60, "--bytes", 4096, "--servers", 8]
    suite.good(options, payload_bytes=4096, clients=60, servers=8, threshold=6)
    options += ["--mode", "erasure", "--lanes", "6x9", "--lie", "lane:wrong-sum"]
    suite.good(options, payload_bytes=4096, lie="lane:wrong-sum", clients=60, lanes="6x9")


def reference(suite):
    for servers in (8, 16):
        options = ["--clients", 300, "--bytes", 16384, "--servers", servers]
        report = suite.good(options, payload_bytes=16384, clients=300, servers=servers, threshold=servers - 2)
        if report:
            for title in ("phase_ms", "link_bytes"):
                print(f"    {title}: " + ", ".join(f"{k} {v:,}" for k, v in report[title].items()))
    options = ["--clients", 300, "--bytes", 16384, "--servers", 8, "--mode", "erasure", "--lanes", "14x16"]
    suite.good(options, payload_bytes=16384, clients=300, servers=8, lanes="14x16")


SUITES = {"small": small, "large": large, "reference": reference}

# ---- Tests of the checks ----------------------------------------------------------------------------------------


def sample():
    one = {
        "mode": "direct", "encoding": "sketch", "lanes": None, "aggregators": None, "absent": [], "clients": 3, "cover": 1, "servers": 8, "threshold": 6, "sent": 2, "recovered": 2,
        "missing": 0, "extra": 0, "messages": ["a", {"base64": "/w=="}], "culprits": [], "phase_ms": {"sum": 0.5},
        "link_bytes": {"posts": 3 * (3 * 12 + 8 * 18_800)}, "crs_digest": "0a" * 32,
    }  # fmt: skip
    return {**one, "tamper": {**copy.deepcopy(one), "culprits": ["server 7"]}, "lie": "server:wrong-sum", "liar": "server 7"}


class ReportTests(unittest.TestCase):
    def deviations(self, spoil=None, expected=None, sent=None, lie="server:wrong-sum"):
        report = sample()
        if spoil:
            spoil(report)
        return check_report(report, expected or {}, sent, lie)

    def test_a_right_report_passes(self):
        self.assertEqual(self.deviations(expected={"clients": 3}, sent=[b"\xff", b"a"]), [])

    def test_values_are_compared(self):
        self.assertTrue(self.deviations(expected={"clients": 4}))
        self.assertTrue(self.deviations(sent=[b"a", b"a"]))
        self.assertTrue(self.deviations(sent=[b"a", b"\xff", b""]))

    def test_each_spoiled_value_is_found(self):
        for where in ("round", "tamper"):
            for key, value in [
                ("mode", 1), ("mode", "none"), ("mode", "erasure"), ("mode", "aggregated"), ("encoding", "none"), ("lanes", "3x4"),
                ("aggregators", 2), ("absent", ["server 1"]), ("absent", None), ("clients", 4), ("clients", "3"), ("clients", True), ("cover", 0), ("sent", 1),
                ("recovered", 1), ("recovered", 2.0), ("missing", 1), ("extra", 1), ("messages", ["a"]),
                ("messages", ["a", "a", "a"]), ("messages", ["a", {"base64": "YQ=="}]), ("messages", ["a", {"base64": "/w"}]),
                ("messages", ["a", None]), ("messages", {}), ("culprits", ["client 1"]), ("culprits", "server 7"),
                ("phase_ms", {}), ("phase_ms", {"sum": "1"}), ("phase_ms", {"sum": -1}), ("link_bytes", {"posts": 1.5}),
                ("link_bytes", []), ("crs_digest", "0A" * 32), ("crs_digest", None), ("unknown", 1),
            ]:  # fmt: skip
                with self.subTest(where=where, key=key, value=value):
                    self.assertTrue(self.deviations(lambda r: (r if where == "round" else r["tamper"]).update({key: value})))
            for key in KEYS:
                with self.subTest(where=where, missing=key):
                    self.assertTrue(self.deviations(lambda r: (r if where == "round" else r["tamper"]).pop(key)))

    def test_culprits(self):
        self.assertTrue(self.deviations(lambda r: r["culprits"].append("server 7")))
        for culprits in ([], ["server 7", "server 6"], ["server 8"], ["server 07"], ["client 0"], [7]):
            with self.subTest(culprits=culprits):
                self.assertTrue(self.deviations(lambda r: r["tamper"].update(culprits=culprits)))

    def test_a_client_that_lies_is_out_with_its_message(self):
        def tell(report):
            report.update(lie="client:bad-opening", liar="client 1")
            report["tamper"].update(culprits=["client 1"], sent=1, recovered=1, messages=["a"])

        def of(spoil=lambda report: None, **options):
            return self.deviations(lambda report: (tell(report), spoil(report)), lie="client:bad-opening", **options)

        self.assertEqual(of(sent=[b"\xff", b"a"]), [])
        self.assertTrue(of(lambda r: r["tamper"].update(messages=["b"])))
        self.assertTrue(of(lambda r: r["tamper"].update(sent=2, recovered=2, messages=r["messages"])))
        self.assertTrue(of(lambda r: r["tamper"].update(culprits=["client 0"])))
        self.assertTrue(of(lambda r: r["tamper"].update(culprits=[])))
        self.assertTrue(of(lambda r: (r.update(liar="client 3"), r["tamper"].update(culprits=["client 3"]))))
        self.assertTrue(self.deviations(tell), "another lie than the one asked for")

    def test_a_lane_that_is_down_is_absent_and_no_culprit(self):
        def of(culprits, absent):
            def tell(report):
                for one in (report, report["tamper"]):
                    one.update(mode="erasure", lanes="6x8")
                report.update(lie="lane:down", liar="lane 3")
                report["tamper"].update(culprits=culprits, absent=absent)

            return self.deviations(tell, lie="lane:down")

        self.assertEqual(of([], ["lane 3"]), [])
        self.assertTrue(of(["lane 3"], ["lane 3"]))
        self.assertTrue(of([], []))
        self.assertTrue(of([], ["lane 4"]))

    def test_all_modes(self):
        def of(spoil=lambda rounds: None, code=0):
            rounds = [sample() for _ in MODES]
            for mode, report in zip(MODES, rounds):
                for one in (report, report["tamper"]):
                    one.update(mode=mode, lanes="6x8" if mode == "erasure" else None, aggregators=2 if mode == "aggregated" else None)
            spoil(rounds)
            return check_every_mode(Run(code, json.dumps({"rounds": rounds}).encode(), b"", 0, 0), None, {})

        self.assertEqual(of(), [])
        self.assertTrue(of(code=1))
        self.assertTrue(of(lambda rounds: rounds.pop()))
        self.assertTrue(of(lambda rounds: rounds.reverse()))
        self.assertTrue(of(lambda rounds: rounds[2]["tamper"].update(culprits=[])))
        self.assertTrue(check_every_mode(Run(0, b"[]", b"", 0, 0), None, {}))
        self.assertTrue(check_every_mode(Run(0, b"", b"", 0, 0), None, {}))

    def test_tamper_is_an_object_that_recovers_the_same(self):
        self.assertTrue(self.deviations(lambda r: r.pop("tamper")))
        self.assertTrue(self.deviations(lambda r: r.update(tamper=[])))
        self.assertTrue(self.deviations(lambda r: r["tamper"].update(tamper={})))
        self.assertTrue(self.deviations(lambda r: r["tamper"].update(messages=["a", "b"])))
        self.assertTrue(check_report([], {}))

    def test_sizes(self):
        report = sample()
        self.assertEqual(check_sizes(report, 10), [])
        report["link_bytes"]["posts"] -= 1
        self.assertTrue(check_sizes(report, 10))
        report["link_bytes"]["posts"] *= 2
        self.assertTrue(check_sizes(report, 10))

    def test_refusals(self):
        good = Run(2, b"", b"error: --x\n", 0, 0)
        self.assertEqual(check_refusal(good, "--x"), [])
        for change in ({"code": 1}, {"code": 101}, {"stdout": b"{}"}, {"stderr": b""}, {"stderr": b"--x\n\n\n\n"}, {"stderr": b"error\n"}):
            with self.subTest(change=change):
                self.assertTrue(check_refusal(good._replace(**change), "--x"))

    def test_a_program_that_prints_nonsense_or_fails_is_counted(self):
        right = f"echo '{json.dumps(sample())}'"
        for script, passes in {
            right: True,
            f"{right}; exit 1": False,
            f"{right}; echo noise >&2": False,
            "echo nonsense": False,
            "echo '{}'": False,
            "kill -9 $$": False,
        }.items():
            with self.subTest(script=script), tempfile.TemporaryDirectory() as directory:
                program = pathlib.Path(directory) / "program"
                program.write_text(f"#!/bin/sh\n{script}\n")
                program.chmod(0o755)
                suite = Suite(program, directory)
                with contextlib.redirect_stdout(io.StringIO()):
                    report = suite.good([], clients=3)
                self.assertEqual((report is not None, suite.deviations == 0), (passes, passes))


def main(arguments):
    if arguments == ["--self-test"]:
        unittest.main(argv=["check_demo.py"])
    if len(arguments) != 2 or arguments[1] not in SUITES:
        sys.exit(__doc__)
    with tempfile.TemporaryDirectory() as directory:
        suite = Suite(arguments[0], pathlib.Path(directory))
        SUITES[arguments[1]](suite)
    return 1 if suite.deviations else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
