//! One prime: reduction constants and, where 4096 divides q - 1, the transform's tables.
//!
//! Everything here is public data; the constants are derived when a ring is made and re-derived by the tests.

#![expect(
    clippy::cast_possible_truncation,
    reason = "modular arithmetic: every narrowed value is below a 30-bit prime"
)]

#[cfg(target_arch = "x86_64")]
use super::backend::{Avx2Tables, Avx512Tables};
use crate::{LOG_N, N};
#[cfg(target_arch = "x86_64")]
use std::sync::OnceLock;

/// A prime below 2^30 with its reduction constant and transform tables.
#[derive(Debug)]
pub struct Prime {
    q: u32,
    /// floor(2^64 / q).
    barrett: u64,
    ntt: Option<NttTables>,
}

/// What the transform of one prime needs.
#[derive(Debug)]
pub struct NttTables {
    /// The primitive 4096-th root of unity that fixes the order of the slots.
    pub psi: u32,
    /// Powers of psi.
    pub forward: Twiddles,
    /// Powers of 1/psi.
    pub inverse: Twiddles,
    /// 2048^-1 mod q.
    pub n_inverse: u32,
    /// Companion of `n_inverse`.
    pub n_inverse_shoup: u32,
    /// Constants of the AVX2 back-end, made when it first needs them.
    #[cfg(target_arch = "x86_64")]
    pub(super) avx2: OnceLock<Avx2Tables>,
    /// Constants of the AVX-512 back-end, likewise.
    #[cfg(target_arch = "x86_64")]
    pub(super) avx512: OnceLock<Avx512Tables>,
}

/// Twiddle factors of one direction, each with its Shoup companion floor(w * 2^32 / q).
#[derive(Debug)]
pub struct Twiddles {
    /// `root^bitrev(i)`: the stage with `blocks` blocks takes entries `blocks..2*blocks`, one a block.
    pub w: Box<[u32]>,
    /// Companions of `w`, and one more word: vector code also reads them from the second word on, which brings the
    /// companions of odd lanes to even ones.
    pub companion: Box<[u32]>,
}

impl Prime {
    /// Derives all constants of the prime `q`.
    ///
    /// # Panics
    /// If `q` is even, below 3 or not below 2^30. Primality is the parameter table's promise; its tests prove it.
    pub fn new(q: u32) -> Self {
        let mut prime = Self::without_transform(q);
        if q % (2 * N as u32) == 1 {
            prime.ntt = Some(NttTables::new(&prime));
        }
        prime
    }

    /// Like [`new`](Self::new), without the transform's tables.
    ///
    /// # Panics
    /// As [`new`](Self::new).
    pub(crate) fn without_transform(q: u32) -> Self {
        assert!(q % 2 == 1 && (3..1 << 30).contains(&q), "a modulus is an odd prime below 2^30, got {q}");
        let barrett = ((1u128 << 64) / u128::from(q)) as u64;
        Self { q, barrett, ntt: None }
    }

    /// The prime.
    pub const fn q(&self) -> u32 {
        self.q
    }

    /// Largest magnitude of a centred representative, (q-1)/2.
    pub const fn half(&self) -> u32 {
        self.q >> 1
    }

    /// floor(2^64 / q), the constant of [`reduce`](Self::reduce).
    pub const fn barrett(&self) -> u64 {
        self.barrett
    }

    /// The transform's tables.
    ///
    /// # Panics
    /// If the prime has no transform of length 2048: `NttRing` keeps such a prime from getting here.
    pub fn ntt(&self) -> &NttTables {
        self.ntt.as_ref().expect("a prime of an NttRing is 1 mod 4096")
    }

    /// `x mod q` for any u64. Branch-free.
    #[inline]
    pub const fn reduce(&self, x: u64) -> u32 {
        let quotient = ((x as u128 * self.barrett as u128) >> 64) as u64;
        // The quotient is short by at most one, so one conditional subtraction is left.
        let r = x.wrapping_sub(quotient.wrapping_mul(self.q as u64)) as u32;
        min(r, r.wrapping_sub(self.q))
    }

    /// `a + b mod q` for a, b in `[0, q)`. Branch-free.
    #[inline]
    pub const fn add(&self, a: u32, b: u32) -> u32 {
        let sum = a + b;
        min(sum, sum.wrapping_sub(self.q))
    }

    /// `a - b mod q` for a, b in `[0, q)`. Branch-free.
    #[inline]
    pub const fn sub(&self, a: u32, b: u32) -> u32 {
        let difference = a.wrapping_sub(b);
        min(difference, difference.wrapping_add(self.q))
    }

    /// `a * b mod q`. Branch-free.
    #[inline]
    pub const fn mul(&self, a: u32, b: u32) -> u32 {
        self.reduce(a as u64 * b as u64)
    }

    /// `base^exponent mod q`. Branches on the exponent, which is public.
    pub const fn pow(&self, base: u32, mut exponent: u64) -> u32 {
        let mut square = self.reduce(base as u64);
        let mut result = 1;
        while exponent > 0 {
            if exponent & 1 == 1 {
                result = self.mul(result, square);
            }
            square = self.mul(square, square);
            exponent >>= 1;
        }
        result
    }

    /// `a^-1 mod q` for a nonzero modulo q, by Fermat.
    pub const fn inverse(&self, a: u32) -> u32 {
        self.pow(a, self.q as u64 - 2)
    }

    /// The residue of a signed integer of magnitude below q. Branch-free.
    #[inline]
    pub const fn from_signed(&self, x: i32) -> u32 {
        x.cast_unsigned().wrapping_add(self.q & (x >> 31).cast_unsigned())
    }

    /// The residue of any signed integer. Branch-free.
    #[inline]
    pub const fn from_i64(&self, x: i64) -> u32 {
        let sign = (x >> 63).cast_unsigned();
        let magnitude = (x.cast_unsigned() ^ sign).wrapping_sub(sign);
        let r = self.reduce(magnitude);
        // q - r when negative, folded back to 0 when r is 0.
        let negated = self.q - r;
        let negated = min(negated, negated.wrapping_sub(self.q));
        (r & !(sign as u32)) | (negated & sign as u32)
    }

    /// The representative in `[-(q-1)/2, (q-1)/2]` of a residue in `[0, q)`. Branch-free.
    #[inline]
    pub const fn centred(&self, residue: u32) -> i32 {
        // All-ones when residue > (q-1)/2: the subtraction borrows into the sign.
        let above = (self.half().cast_signed() - residue.cast_signed()) >> 31;
        residue.cast_signed() - (self.q.cast_signed() & above)
    }

    /// The companion of a constant factor `w < q` for Shoup multiplication: floor(w * 2^32 / q).
    pub const fn shoup(&self, w: u32) -> u32 {
        (((w as u64) << 32) / self.q as u64) as u32
    }
}

/// The smaller of two: compiles to a min instruction or a conditional move, never to a branch.
#[inline(always)]
pub(crate) const fn min(a: u32, b: u32) -> u32 {
    if a < b { a } else { b }
}

/// The larger of two, likewise.
#[inline(always)]
pub(crate) const fn max(a: u32, b: u32) -> u32 {
    if a < b { b } else { a }
}

impl NttTables {
    fn new(prime: &Prime) -> Self {
        let psi = (2..)
            .map(|base| prime.pow(base, u64::from(prime.q - 1) / (2 * N as u64)))
            .find(|&candidate| prime.pow(candidate, N as u64) == prime.q - 1)
            .expect("4096 divides q-1, so a primitive 4096-th root exists");
        let n_inverse = prime.inverse(N as u32);
        Self {
            psi,
            forward: Twiddles::new(prime, psi),
            inverse: Twiddles::new(prime, prime.inverse(psi)),
            n_inverse,
            n_inverse_shoup: prime.shoup(n_inverse),
            #[cfg(target_arch = "x86_64")]
            avx2: OnceLock::new(),
            #[cfg(target_arch = "x86_64")]
            avx512: OnceLock::new(),
        }
    }
}

impl Twiddles {
    fn new(prime: &Prime, root: u32) -> Self {
        let mut powers = vec![1u32; N];
        for i in 1..N {
            powers[i] = prime.mul(powers[i - 1], root);
        }
        let w: Box<[u32]> =
            (0..N as u32).map(|i| powers[(i.reverse_bits() >> (32 - LOG_N)) as usize]).collect();
        let companion = w.iter().map(|&w| prime.shoup(w)).chain([0]).collect();
        Self { w, companion }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PRIMES: [u32; 6] = [86_017, 262_133, 23_719_937, 2_056_193, 2_097_143, 1_073_692_673];

    fn edge_u64() -> impl Strategy<Value = u64> {
        prop_oneof![any::<u64>(), Just(0), Just(u64::MAX), 0u64..4, (0u64..64).prop_map(|s| 1 << s)]
    }

    proptest! {
        #[test]
        fn reduction_matches_the_remainder(x in edge_u64(), k in any::<u32>()) {
            for q in PRIMES {
                let p = Prime::new(q);
                prop_assert_eq!(u64::from(p.reduce(x)), x % u64::from(q));
                let multiple = u64::from(k) * u64::from(q);
                prop_assert_eq!(p.reduce(multiple), 0);
                prop_assert_eq!(u64::from(p.reduce(multiple.wrapping_sub(1))), multiple.wrapping_sub(1) % u64::from(q));
            }
        }

        #[test]
        fn signed_residues_match_the_euclidean_remainder(x in any::<i64>()) {
            for q in PRIMES {
                let p = Prime::new(q);
                prop_assert_eq!(i64::from(p.from_i64(x)), x.rem_euclid(i64::from(q)));
                let small = (x % i64::from(q)) as i32;
                prop_assert_eq!(i64::from(p.from_signed(small)), i64::from(small).rem_euclid(i64::from(q)));
            }
        }
    }

    #[test]
    fn centred_is_the_odd_representative_at_both_ends() {
        for q in PRIMES {
            let p = Prime::new(q);
            let half = i32::try_from(q / 2).unwrap();
            assert_eq!(p.centred(0), 0);
            assert_eq!(p.centred(q / 2), half);
            assert_eq!(p.centred(q / 2 + 1), -half);
            assert_eq!(p.centred(q - 1), -1);
            for residue in [0, 1, q / 2, q / 2 + 1, q - 1] {
                assert_eq!(p.from_signed(p.centred(residue)), residue);
            }
        }
    }

    #[test]
    fn psi_is_the_pinned_root() {
        // Restated in the published protocol for the auxiliary pair; derive.py prints the same values.
        assert_eq!(Prime::new(1_073_692_673).ntt().psi, 77_672_603);
        assert_eq!(Prime::new(1_073_668_097).ntt().psi, 742_249_336);
    }
}
