//! Merkle trees over byte leaves: RFC 6962 section 2.1, with SHA-256.
//!
//! A leaf hashes as `SHA-256(0x00 || bytes)` and a node as `SHA-256(0x01 || left || right)`, so no leaf passes for a
//! node. Of n > 1 leaves the left subtree holds the largest power of two below n; any number of leaves has a root.
//! That recursion, read level by level from the leaves: neighbours are paired from the left and an odd last node
//! moves up as it is. Everything here is public; nothing is constant time.
//!
//! The tree fixes neither its size nor what a leaf is: whoever checks an inclusion takes the size from a source it
//! trusts (the epoch's server list, a checkpoint), never from the prover.

use crate::fault::{Attribution, Fault};
use sha2::{Digest, Sha256};

/// Why a leaf is not shown to be in the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MerkleError {
    /// The index lies outside the tree.
    #[error("leaf {index} of a tree of {size} leaves")]
    IndexOutOfRange {
        /// The index asked for, from 0.
        index: u64,
        /// Leaves of the tree.
        size: u64,
    },
    /// The path has another length than this leaf's position demands.
    #[error("the inclusion path needs {expected} hashes, found {found}")]
    PathLength {
        /// Hashes that the position demands.
        expected: usize,
        /// Hashes given.
        found: usize,
    },
    /// Leaf and path lead to another root.
    #[error("the inclusion path of leaf {index} of {size} does not lead to the root")]
    RootMismatch {
        /// Index of the leaf, from 0.
        index: u64,
        /// Leaves of the tree.
        size: u64,
    },
}

impl Fault for MerkleError {
    fn code(&self) -> &'static str {
        match self {
            Self::IndexOutOfRange { .. } => "merkle_index_out_of_range",
            Self::PathLength { .. } => "merkle_path_length",
            Self::RootMismatch { .. } => "merkle_root_mismatch",
        }
    }

    /// Nobody: a path is not signed, so whoever relays it can spoil it.
    fn attribution(&self) -> Attribution {
        Attribution::Nobody
    }
}

/// Hash of a leaf: `SHA-256(0x00 || bytes)`.
pub fn leaf_hash(bytes: &[u8]) -> [u8; 32] {
    Sha256::new().chain_update([0x00]).chain_update(bytes).finalize().into()
}

/// Hash of a node: `SHA-256(0x01 || left || right)`.
fn node_hash(left: &[u8; 32], right: &[u8; 32]) -> [u8; 32] {
    Sha256::new().chain_update([0x01]).chain_update(left).chain_update(right).finalize().into()
}

/// The next level: pairs from the left, an odd last node unchanged.
fn parents(level: &[[u8; 32]]) -> Vec<[u8; 32]> {
    level
        .chunks(2)
        .map(|pair| match pair {
            [left, right] => node_hash(left, right),
            rest => rest[0],
        })
        .collect()
}

/// Root over leaf hashes, in leaf order. No leaves: `SHA-256("")`, as the RFC has it.
pub fn root(leaf_hashes: &[[u8; 32]]) -> [u8; 32] {
    if leaf_hashes.is_empty() {
        return Sha256::digest([]).into();
    }
    let mut level = leaf_hashes.to_vec();
    while level.len() > 1 {
        level = parents(&level);
    }
    level[0]
}

/// Number of hashes in the inclusion path of leaf `index` (from 0) in a tree of `size` leaves: at most 64.
///
/// Known before a single hash is read, so a parser bounds its allocation with it.
///
/// # Errors
/// `IndexOutOfRange` unless `index < size`.
pub fn path_len(index: u64, size: u64) -> Result<usize, MerkleError> {
    if index >= size {
        return Err(MerkleError::IndexOutOfRange { index, size });
    }
    Ok(Climb::new(index, size).filter(|step| *step != Step::Alone).count())
}

/// Inclusion path of leaf `index` (from 0): the sibling of each node from the leaf to below the root, where there is
/// one. [`path_len`] says how many.
///
/// # Panics
/// If `index` is not below the number of leaves.
pub fn inclusion_path(leaf_hashes: &[[u8; 32]], index: usize) -> Vec<[u8; 32]> {
    assert!(index < leaf_hashes.len(), "leaf {index} of a tree of {} leaves", leaf_hashes.len());
    let mut path = Vec::new();
    let mut level = leaf_hashes.to_vec();
    let mut position = index;
    while level.len() > 1 {
        path.extend(level.get(position ^ 1));
        level = parents(&level);
        position /= 2;
    }
    path
}

/// The inclusion paths of all leaves, in leaf order: each level is hashed once.
pub fn inclusion_paths(leaf_hashes: &[[u8; 32]]) -> Vec<Vec<[u8; 32]>> {
    let mut levels = vec![leaf_hashes.to_vec()];
    while let Some(level) = levels.last().filter(|level| level.len() > 1) {
        levels.push(parents(level));
    }
    let sibling =
        |(height, level): (usize, &Vec<[u8; 32]>), index: usize| level.get(index >> height ^ 1).copied();
    (0..leaf_hashes.len())
        .map(|index| levels.iter().enumerate().filter_map(|level| sibling(level, index)).collect())
        .collect()
}

/// Verifies that the leaf with hash `leaf` is number `index` (from 0) of the `size` leaves under `root`.
///
/// # Errors
/// `IndexOutOfRange` unless `index < size`; `PathLength` if the path is not [`path_len`] long; `RootMismatch` if it
/// leads elsewhere.
pub fn verify_inclusion(
    root: &[u8; 32],
    leaf: &[u8; 32],
    index: u64,
    size: u64,
    path: &[[u8; 32]],
) -> Result<(), MerkleError> {
    let reached = root_of_path(leaf, index, size, path)?;
    if reached == *root { Ok(()) } else { Err(MerkleError::RootMismatch { index, size }) }
}

/// The root that a path leads to from the leaf with hash `leaf`, number `index` (from 0) of `size` leaves.
///
/// # Errors
/// `IndexOutOfRange` unless `index < size`; `PathLength` if the path is not [`path_len`] long.
pub fn root_of_path(
    leaf: &[u8; 32],
    index: u64,
    size: u64,
    path: &[[u8; 32]],
) -> Result<[u8; 32], MerkleError> {
    let expected = path_len(index, size)?;
    if path.len() != expected {
        return Err(MerkleError::PathLength { expected, found: path.len() });
    }
    let mut siblings = path.iter();
    let mut hash = *leaf;
    for step in Climb::new(index, size).filter(|step| *step != Step::Alone) {
        let sibling = siblings.next().expect("the path has one hash per sibling, checked above");
        hash = if step == Step::SiblingLeft { node_hash(sibling, &hash) } else { node_hash(&hash, sibling) };
    }
    Ok(hash)
}

/// What a node meets on the way up one level.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    /// It is the odd last node of its level and moves up as it is.
    Alone,
    /// Its sibling is on the left.
    SiblingLeft,
    /// Its sibling is on the right.
    SiblingRight,
}

/// The steps from a leaf to the root.
struct Climb {
    position: u64,
    last: u64,
}

impl Climb {
    /// Starts at leaf `index < size`.
    const fn new(index: u64, size: u64) -> Self {
        Self { position: index, last: size - 1 }
    }
}

impl Iterator for Climb {
    type Item = Step;

    fn next(&mut self) -> Option<Step> {
        if self.last == 0 {
            return None;
        }
        let step = if self.position & 1 == 1 {
            Step::SiblingLeft
        } else if self.position < self.last {
            Step::SiblingRight
        } else {
            Step::Alone
        };
        self.position >>= 1;
        self.last >>= 1;
        Some(step)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use data_encoding::HEXLOWER;

    /// RFC 6962 section 2.1, word for word: split at the largest power of two below n. The oracle.
    fn mth(entries: &[Vec<u8>]) -> [u8; 32] {
        match entries.len() {
            0 => Sha256::digest(b"").into(),
            1 => Sha256::digest([&[0][..], &entries[0]].concat()).into(),
            n => {
                let k = split(n);
                Sha256::digest([&[1][..], &mth(&entries[..k]), &mth(&entries[k..])].concat()).into()
            }
        }
    }

    /// RFC 6962 section 2.1.1, word for word.
    fn audit_path(m: usize, entries: &[Vec<u8>]) -> Vec<[u8; 32]> {
        let n = entries.len();
        if n == 1 {
            return Vec::new();
        }
        let k = split(n);
        let (mut path, other) = if m < k {
            (audit_path(m, &entries[..k]), mth(&entries[k..]))
        } else {
            (audit_path(m - k, &entries[k..]), mth(&entries[..k]))
        };
        path.push(other);
        path
    }

    fn split(n: usize) -> usize {
        let mut k = 1;
        while 2 * k < n {
            k *= 2;
        }
        k
    }

    fn entries(n: usize) -> Vec<Vec<u8>> {
        (0..n).map(|i| vec![u8::try_from(i).unwrap(); i % 5]).collect()
    }

    fn hashes(entries: &[Vec<u8>]) -> Vec<[u8; 32]> {
        entries.iter().map(|entry| leaf_hash(entry)).collect()
    }

    fn hex(text: &str) -> [u8; 32] {
        HEXLOWER.decode(text.as_bytes()).unwrap().try_into().unwrap()
    }

    /// The largest size that the exhaustive tests go through: past 64, so that every shape of seven levels occurs.
    const MAX: usize = 70;

    #[test]
    fn root_and_path_follow_the_rfc_recursion() {
        for n in 0..=MAX {
            let entries = entries(n);
            let leaves = hashes(&entries);
            assert_eq!(root(&leaves), mth(&entries), "{n} leaves");
            for index in 0..n {
                let path = inclusion_path(&leaves, index);
                assert_eq!(path, audit_path(index, &entries), "leaf {index} of {n}");
                assert_eq!(path_len(index as u64, n as u64), Ok(path.len()), "leaf {index} of {n}");
            }
        }
    }

    #[test]
    fn every_leaf_verifies_and_no_mutation_does() {
        for n in 1..=MAX {
            let leaves = hashes(&entries(n));
            let root = root(&leaves);
            let size = n as u64;
            for index in 0..n {
                let path = inclusion_path(&leaves, index);
                let leaf = leaves[index];
                let at = index as u64;
                let verify =
                    |root: &_, leaf: &_, index, path: &[_]| verify_inclusion(root, leaf, index, size, path);
                assert_eq!(verify(&root, &leaf, at, &path), Ok(()));

                let mismatch = Err(MerkleError::RootMismatch { index: at, size });
                let byte = (7 * index + n) % 32;
                assert_eq!(verify(&flip(&root, byte), &leaf, at, &path), mismatch);
                assert_eq!(verify(&root, &flip(&leaf, byte), at, &path), mismatch);
                for level in 0..path.len() {
                    let mut changed = path.clone();
                    changed[level] = flip(&path[level], byte);
                    assert_eq!(verify(&root, &leaf, at, &changed), mismatch);
                }
                for level in 1..path.len() {
                    let mut swapped = path.clone();
                    swapped.swap(level - 1, level);
                    assert_eq!(verify(&root, &leaf, at, &swapped), mismatch);
                }
                for short in 0..path.len() {
                    let found = Err(MerkleError::PathLength { expected: path.len(), found: short });
                    assert_eq!(verify(&root, &leaf, at, &path[..short]), found);
                }
                let long = [&path[..], &[[0; 32]]].concat();
                let found = Err(MerkleError::PathLength { expected: path.len(), found: long.len() });
                assert_eq!(verify(&root, &leaf, at, &long), found);
                for other in (0..size + 2).filter(|other| *other != at) {
                    assert!(
                        verify(&root, &leaf, other, &path).is_err(),
                        "leaf {index} passes as {other} of {n}"
                    );
                }
            }
        }
    }

    fn flip(hash: &[u8; 32], byte: usize) -> [u8; 32] {
        let mut changed = *hash;
        changed[byte] ^= 0x10;
        changed
    }

    #[test]
    fn index_outside_the_tree_is_refused_at_every_size() {
        for (index, size) in [(0, 0), (1, 1), (8, 8), (u64::MAX, 0), (u64::MAX, u64::MAX)] {
            let refused = MerkleError::IndexOutOfRange { index, size };
            assert_eq!(path_len(index, size), Err(refused));
            assert_eq!(verify_inclusion(&[0; 32], &[0; 32], index, size, &[]), Err(refused));
        }
    }

    #[test]
    fn path_length_of_huge_trees() {
        // A perfect tree of 2^63 leaves has 63 levels; one leaf more hangs alone beside it.
        assert_eq!(path_len(5, 1 << 63), Ok(63));
        assert_eq!(path_len(5, (1 << 63) + 1), Ok(64));
        assert_eq!(path_len(1 << 63, (1 << 63) + 1), Ok(1));
        // The last leaf of 2^64 - 1: on the right edge each 1-bit of the index (all but the lowest) is a left sibling.
        assert_eq!(path_len(u64::MAX - 1, u64::MAX), Ok(63));
    }

    #[test]
    fn leaf_never_passes_for_a_node() {
        let (left, right) = (leaf_hash(b"l"), leaf_hash(b"r"));
        let forged = [left, right].concat();
        assert_ne!(leaf_hash(&forged), root(&[left, right]));
    }

    /// The reference tree of the Certificate Transparency log code (entries, roots and paths as published in
    /// google/certificate-transparency and transparency-dev/merkle). The empty root is the RFC's.
    #[test]
    fn certificate_transparency_reference_tree() {
        let entries: Vec<Vec<u8>> = [
            "",
            "00",
            "10",
            "2021",
            "3031",
            "40414243",
            "5051525354555657",
            "606162636465666768696a6b6c6d6e6f",
        ]
        .iter()
        .map(|text| HEXLOWER.decode(text.as_bytes()).unwrap())
        .collect();
        let leaves = hashes(&entries);
        let roots = [
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
            "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
            "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
            "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
            "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
            "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
            "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
            "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
            "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
        ];
        for (n, expected) in roots.iter().enumerate() {
            assert_eq!(root(&leaves[..n]), hex(expected), "{n} leaves");
        }

        let a = "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d";
        let b = "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e";
        let c = "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b";
        let paths: [(usize, usize, &[&str]); 6] = [
            (0, 1, &[]),
            (1, 2, &[a]),
            (2, 3, &["fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125"]),
            (1, 5, &[a, b, c]),
            (
                0,
                8,
                &[
                    "96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7",
                    b,
                    "6b47aaf29ee3c2af9af889bc1fb9254dabd31177f16232dd6aab035ca39bf6e4",
                ],
            ),
            (
                5,
                8,
                &[
                    c,
                    "ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0",
                    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
                ],
            ),
        ];
        for (index, size, path) in paths {
            let path: Vec<_> = path.iter().map(|text| hex(text)).collect();
            assert_eq!(inclusion_path(&leaves[..size], index), path, "leaf {index} of {size}");
            let checked =
                verify_inclusion(&hex(roots[size]), &leaves[index], index as u64, size as u64, &path);
            assert_eq!(checked, Ok(()), "leaf {index} of {size}");
        }
    }
}
