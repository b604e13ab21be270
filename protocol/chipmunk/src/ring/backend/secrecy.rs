//! Marks of what is secret, for valgrind's memcheck: memory that is marked "undefined" makes it report every branch and
//! every address that depends on it. Without the feature `valgrind` nothing of this is there.
//!
//! Outside valgrind a request is a sequence of instructions without effect.

/// Says that a fact about a secret may be acted on. Each use says why.
#[inline]
pub fn public(fact: bool) -> bool {
    #[cfg(all(feature = "valgrind", target_arch = "x86_64"))]
    {
        let mut byte = [u8::from(fact)];
        valgrind::mark_public(&mut byte);
        byte[0] != 0
    }
    #[cfg(not(all(feature = "valgrind", target_arch = "x86_64")))]
    fact
}

#[cfg(all(feature = "valgrind", target_arch = "x86_64"))]
pub use valgrind::{errors, mark_public, mark_secret};

#[cfg(all(feature = "valgrind", target_arch = "x86_64"))]
mod valgrind {
    use std::arch::asm;

    /// Number of a request to memcheck: its letters, then which.
    const MEMCHECK: u64 = 0x4D43_0000;
    const MAKE_UNDEFINED: u64 = MEMCHECK + 1;
    const MAKE_DEFINED: u64 = MEMCHECK + 2;
    const COUNT_ERRORS: u64 = 0x1201;

    /// Makes a request; 0 outside valgrind.
    ///
    /// Source: valgrind's manual, "the client request mechanism", and its header for amd64.
    #[allow(unsafe_code)]
    fn request(number: u64, first: u64, second: u64) -> u64 {
        let arguments = [number, first, second, 0, 0, 0];
        let mut result: u64 = 0;
        // SAFETY: the rotations are by 128 bits in all, so `rdi` is what it was, and a register is exchanged with
        // itself. Valgrind reads `arguments` and answers in `rdx`; marks change no memory.
        unsafe {
            asm!(
                "rol rdi, 3", "rol rdi, 13", "rol rdi, 61", "rol rdi, 51", "xchg rbx, rbx",
                in("rax") arguments.as_ptr(),
                inout("rdx") result,
                options(nostack),
            );
        }
        result
    }

    fn mark(number: u64, bytes: &mut [u8]) {
        request(number, bytes.as_mut_ptr().addr() as u64, bytes.len() as u64);
    }

    /// Marks bytes as secret.
    pub fn mark_secret(bytes: &mut [u8]) {
        mark(MAKE_UNDEFINED, bytes);
    }

    /// Marks bytes as public: what is published may be branched on.
    pub fn mark_public(bytes: &mut [u8]) {
        mark(MAKE_DEFINED, bytes);
    }

    /// How many errors memcheck has reported so far.
    pub fn errors() -> u64 {
        request(COUNT_ERRORS, 0, 0)
    }
}
