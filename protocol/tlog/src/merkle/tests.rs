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
                assert!(verify(&root, &leaf, other, &path).is_err(), "leaf {index} passes as {other} of {n}");
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
    let entries: Vec<Vec<u8>> =
        ["", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f"]
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
        let checked = verify_inclusion(&hex(roots[size]), &leaves[index], index as u64, size as u64, &path);
        assert_eq!(checked, Ok(()), "leaf {index} of {size}");
    }
}
