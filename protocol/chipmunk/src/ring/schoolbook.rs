//! The slow negacyclic product, by its definition: the oracle of the transform tests.

/// `a * b mod (X^n + 1, q)` in O(n^2), with plain remainders.
pub(crate) fn negacyclic(a: &[u32], b: &[u32], q: u32) -> Vec<u32> {
    let n = a.len();
    let mut out = vec![0i128; n];
    for (i, &x) in a.iter().enumerate() {
        for (j, &y) in b.iter().enumerate() {
            let term = i128::from(x) * i128::from(y);
            if i + j < n {
                out[i + j] += term;
            } else {
                out[i + j - n] -= term;
            }
        }
    }
    out.into_iter().map(|c| u32::try_from(c.rem_euclid(q.into())).expect("a remainder of a u32")).collect()
}
