//! RFC 6962 section 2.1 read word for word: the oracle of the tests here. Slow, recursive, by the book.

use sha2::{Digest, Sha256};
use std::cell::RefCell;
use std::collections::HashMap;

pub type Hash = [u8; 32];

/// The RFC's D\[n\], with the hashes of its sub-lists remembered.
pub struct Naive {
    entries: Vec<Vec<u8>>,
    known: RefCell<HashMap<(usize, usize), Hash>>,
}

/// The largest power of two smaller than n.
fn split(n: usize) -> usize {
    let mut k = 1;
    while 2 * k < n {
        k *= 2;
    }
    k
}

#[allow(dead_code, reason = "each test file uses its part")]
impl Naive {
    pub fn new(entries: Vec<Vec<u8>>) -> Self {
        Self { entries, known: RefCell::default() }
    }

    /// The tree that the Go program has too.
    pub fn numbered(n: usize) -> Self {
        Self::new((0..n).map(|i| format!("entry {i}").into_bytes()).collect())
    }

    pub fn entries(&self) -> &[Vec<u8>] {
        &self.entries
    }

    pub fn leaves(&self) -> Vec<Hash> {
        (0..self.entries.len()).map(|i| self.mth(i, i + 1)).collect()
    }

    /// MTH(D[start:end]).
    pub fn mth(&self, start: usize, end: usize) -> Hash {
        if let Some(hash) = self.known.borrow().get(&(start, end)) {
            return *hash;
        }
        let hash = match end - start {
            0 => Sha256::digest(b"").into(),
            1 => Sha256::digest([&[0][..], &self.entries[start]].concat()).into(),
            n => {
                let k = start + split(n);
                Sha256::digest([&[1][..], &self.mth(start, k), &self.mth(k, end)].concat()).into()
            }
        };
        self.known.borrow_mut().insert((start, end), hash);
        hash
    }

    /// PATH(m, D[start:end]), section 2.1.1; m counts from start.
    pub fn path(&self, m: usize, start: usize, end: usize) -> Vec<Hash> {
        let n = end - start;
        if n == 1 {
            return Vec::new();
        }
        let k = split(n);
        let (mut path, other) = if m < k {
            (self.path(m, start, start + k), self.mth(start + k, end))
        } else {
            (self.path(m - k, start + k, end), self.mth(start, start + k))
        };
        path.push(other);
        path
    }

    /// PROOF(m, D[0:n]), section 2.1.2, for 0 < m < n; empty for m = n.
    pub fn proof(&self, m: usize, n: usize) -> Vec<Hash> {
        self.subproof(m, 0, n, true)
    }

    fn subproof(&self, m: usize, start: usize, end: usize, complete: bool) -> Vec<Hash> {
        let n = end - start;
        if m == n {
            return if complete { Vec::new() } else { vec![self.mth(start, end)] };
        }
        let k = split(n);
        let (mut proof, other) = if m <= k {
            (self.subproof(m, start, start + k, complete), self.mth(start + k, end))
        } else {
            (self.subproof(m - k, start + k, end, false), self.mth(start, start + k))
        };
        proof.push(other);
        proof
    }
}
