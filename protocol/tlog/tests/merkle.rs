//! Hashes, inclusion, consistency and the edge against RFC 6962 read word for word, for every size up to 300.

mod naive;

use naive::{Hash, Naive};
use proptest::prelude::*;
use tlog::MAX_SIZE;
use tlog::merkle::{
    ConsistencyError, Edge, EdgeError, MerkleError, consistency_len, consistency_proof, consistency_spans,
    empty_root, inclusion_path, inclusion_spans, root, verify_consistency, verify_inclusion,
};

const MAX: usize = 300;

#[test]
fn edge_and_root_follow_the_rfc_at_every_size() {
    let naive = Naive::numbered(MAX);
    let leaves = naive.leaves();
    let mut edge = Edge::new();
    for n in 0..=MAX {
        let expected = naive.mth(0, n);
        assert_eq!(root(&leaves[..n]), expected, "{n} leaves");
        assert_eq!(edge.root(), expected, "{n} leaves");
        assert_eq!(edge.size(), n as u64);
        let again = Edge::from_parts(edge.size(), edge.peaks().to_vec());
        assert_eq!(again.as_ref(), Ok(&edge));
        if n < MAX {
            assert_eq!(edge.append(leaves[n]), Ok(n as u64));
        }
    }
}

#[test]
fn inclusion_follows_the_rfc_and_verifies_for_every_leaf_of_every_size() {
    let naive = Naive::numbered(MAX);
    let leaves = naive.leaves();
    for n in 1..=MAX {
        let root = naive.mth(0, n);
        for (index, leaf) in leaves[..n].iter().enumerate() {
            let expected = naive.path(index, 0, n);
            assert_eq!(inclusion_path(&leaves[..n], index), expected, "leaf {index} of {n}");
            let (at, size) = (index as u64, n as u64);
            let spans = inclusion_spans(at, size).unwrap();
            let covered: Vec<Hash> = spans
                .iter()
                .map(|span| naive.mth(span.start.try_into().unwrap(), span.end.try_into().unwrap()))
                .collect();
            assert_eq!(covered, expected, "leaf {index} of {n}");
            assert_eq!(verify_inclusion(&root, leaf, at, size, &expected), Ok(()));
        }
    }
}

#[test]
fn consistency_follows_the_rfc_and_verifies_for_every_pair_of_sizes() {
    let naive = Naive::numbered(MAX);
    let leaves = naive.leaves();
    let roots: Vec<Hash> = (0..=MAX).map(|n| naive.mth(0, n)).collect();
    for new in 1..=MAX {
        for old in 1..=new {
            let expected = naive.proof(old, new);
            let (m, n) = (old as u64, new as u64);
            assert_eq!(consistency_proof(&leaves[..new], m).as_ref(), Ok(&expected), "{old} to {new}");
            assert_eq!(consistency_len(m, n), Ok(expected.len()), "{old} to {new}");
            assert_eq!(
                verify_consistency(m, &roots[old], n, &roots[new], &expected),
                Ok(()),
                "{old} to {new}"
            );
        }
    }
}

#[test]
fn consistency_with_nothing_and_with_itself_needs_no_proof() {
    let naive = Naive::numbered(9);
    let (nine, none) = (naive.mth(0, 9), empty_root());
    assert_eq!(verify_consistency(0, &none, 9, &nine, &[]), Ok(()));
    assert_eq!(verify_consistency(0, &none, 0, &none, &[]), Ok(()));
    assert_eq!(verify_consistency(9, &nine, 9, &nine, &[]), Ok(()));
    let long = Err(ConsistencyError::ProofLength { expected: 0, found: 1 });
    assert_eq!(verify_consistency(0, &none, 9, &nine, &[nine]), long);
    assert_eq!(verify_consistency(9, &nine, 9, &nine, &[nine]), long);
    let old = |old, new| Err(ConsistencyError::OldRootMismatch { old, new });
    assert_eq!(verify_consistency(0, &nine, 9, &nine, &[]), old(0, 9));
    assert_eq!(verify_consistency(0, &nine, 0, &nine, &[]), old(0, 0));
    let new = Err(ConsistencyError::NewRootMismatch { old: 9, new: 9 });
    assert_eq!(verify_consistency(9, &nine, 9, &none, &[]), new);
    let sizes = |old, new| Err(ConsistencyError::SizesOutOfRange { old, new });
    assert_eq!(verify_consistency(10, &nine, 9, &nine, &[]), sizes(10, 9));
    assert_eq!(verify_consistency(9, &nine, MAX_SIZE + 1, &nine, &[]), sizes(9, MAX_SIZE + 1));
    assert_eq!(consistency_len(u64::MAX, u64::MAX), sizes(u64::MAX, u64::MAX).map(|()| 0));
}

/// Every single bit of roots and proof, every wrong length, every other pair of sizes with the same length.
#[test]
fn no_changed_consistency_proof_verifies() {
    let naive = Naive::numbered(40);
    for new in 2..=40_usize {
        for old in 1..new {
            let (m, n) = (old as u64, new as u64);
            let (from, to) = (naive.mth(0, old), naive.mth(0, new));
            let proof = naive.proof(old, new);
            let stride = if new <= 13 { 1 } else { 37 };
            for bit in (0..256).step_by(stride) {
                assert!(verify_consistency(m, &flip(&from, bit), n, &to, &proof).is_err());
                assert!(verify_consistency(m, &from, n, &flip(&to, bit), &proof).is_err());
                for place in 0..proof.len() {
                    let mut changed = proof.clone();
                    changed[place] = flip(&proof[place], bit);
                    assert!(
                        verify_consistency(m, &from, n, &to, &changed).is_err(),
                        "{old} to {new} at {place}"
                    );
                }
            }
            for short in 0..proof.len() {
                assert!(verify_consistency(m, &from, n, &to, &proof[..short]).is_err());
            }
            assert!(verify_consistency(m, &from, n, &to, &[&proof[..], &[from]].concat()).is_err());
            for place in 1..proof.len() {
                let mut swapped = proof.clone();
                swapped.swap(place - 1, place);
                assert!(verify_consistency(m, &from, n, &to, &swapped).is_err());
            }
            for other in (0..=n).filter(|other| *other != m) {
                assert!(
                    verify_consistency(other, &from, n, &to, &proof).is_err(),
                    "{other} for {old} of {new}"
                );
            }
        }
    }
}

#[test]
fn every_bit_of_an_inclusion_path_counts() {
    let naive = Naive::numbered(13);
    for n in 1..=13_usize {
        let root = naive.mth(0, n);
        for index in 0..n {
            let (at, size) = (index as u64, n as u64);
            let (leaf, path) = (naive.mth(index, index + 1), naive.path(index, 0, n));
            for bit in 0..256 {
                assert!(verify_inclusion(&flip(&root, bit), &leaf, at, size, &path).is_err());
                assert!(verify_inclusion(&root, &flip(&leaf, bit), at, size, &path).is_err());
                for place in 0..path.len() {
                    let mut changed = path.clone();
                    changed[place] = flip(&path[place], bit);
                    assert!(verify_inclusion(&root, &leaf, at, size, &changed).is_err());
                }
            }
        }
    }
}

fn flip(hash: &Hash, bit: usize) -> Hash {
    let mut changed = *hash;
    changed[bit / 8] ^= 1 << (bit % 8);
    changed
}

#[test]
fn an_edge_takes_only_what_fits_its_size() {
    let count = |size, expected, found| Err(EdgeError::PeakCount { size, expected, found });
    assert_eq!(Edge::from_parts(5, vec![[0; 32]]), count(5, 2, 1));
    assert_eq!(Edge::from_parts(0, vec![[0; 32]]), count(0, 0, 1));
    let size = MAX_SIZE + 1;
    assert_eq!(Edge::from_parts(size, vec![[0; 32]]), Err(EdgeError::TooLarge { size }));
    let mut full = Edge::from_parts(MAX_SIZE, vec![[0; 32]; 63]).unwrap();
    let before = full.clone();
    assert_eq!(full.append([0; 32]), Err(EdgeError::TooLarge { size: MAX_SIZE }));
    assert_eq!(full, before);
}

proptest! {
    /// Spans of any log size: they cover the whole tree but for the leaf, without overlap, and their nodes cover them.
    #[test]
    fn spans_partition_the_tree(size in 1..=MAX_SIZE, pick in any::<u64>()) {
        let index = pick % size;
        let mut spans = inclusion_spans(index, size).unwrap();
        prop_assert!(spans.len() <= 63);
        for span in &spans {
            let mut at = span.start;
            for node in span.nodes() {
                prop_assert_eq!(node.index << node.height, at);
                at += 1 << node.height;
            }
            prop_assert_eq!(at, span.end);
        }
        spans.push(tlog::merkle::Span { start: index, end: index + 1 });
        spans.sort_by_key(|span| span.start);
        prop_assert_eq!(spans[0].start, 0);
        prop_assert_eq!(spans.last().unwrap().end, size);
        prop_assert!(spans.windows(2).all(|pair| pair[0].end == pair[1].start));
    }

    /// The same of a consistency proof; without a hash of its own, the whole old tree stands where that hash would.
    #[test]
    fn consistency_spans_partition_the_tree(new in 1..=MAX_SIZE, pick in any::<u64>()) {
        let old = 1 + pick % new;
        let mut spans = consistency_spans(old, new).unwrap();
        prop_assert_eq!(consistency_len(old, new), Ok(spans.len()));
        if old == new || old.is_power_of_two() {
            spans.push(tlog::merkle::Span { start: 0, end: old });
        }
        spans.sort_by_key(|span| span.start);
        prop_assert_eq!(spans[0].start, 0);
        prop_assert_eq!(spans.last().unwrap().end, new);
        prop_assert!(spans.windows(2).all(|pair| pair[0].end == pair[1].start));
        prop_assert!(old == new || spans.iter().any(|span| span.end == old));
    }

    /// Foreign sizes and proofs are refused or verified, never a panic.
    #[test]
    fn any_input_is_answered(
        a in any::<u64>(),
        b in any::<u64>(),
        proof in prop::collection::vec(any::<Hash>(), 0..70),
    ) {
        let (zero, other) = ([0; 32], [1; 32]);
        prop_assert!(verify_inclusion(&zero, &other, a, b, &proof).is_err());
        let done = verify_consistency(a, &zero, b, &other, &proof);
        prop_assert!(done.is_err());
        if a >= b || b > MAX_SIZE {
            let refused = MerkleError::IndexOutOfRange { index: a, size: b };
            prop_assert_eq!(inclusion_spans(a, b), Err(refused));
        }
    }
}
