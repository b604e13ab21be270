//! What must not compile, in this package and in `chipmunk`: one run for both, because it checks all dependencies once
//! more in a directory of its own (about 45 s of CPU time when cold, 1 s afterwards).
//!
//! The expected messages are those of the pinned toolchain. After a change of toolchain or of a signature they quote,
//! `TRYBUILD=overwrite cargo test -p panetiere --test compile_fail` writes them again: read what it wrote.

#[test]
fn misuse_does_not_compile() {
    let cases = trybuild::TestCases::new();
    cases.compile_fail("tests/ui/*.rs");
    cases.compile_fail("chipmunk/tests/ui/*.rs");
}
