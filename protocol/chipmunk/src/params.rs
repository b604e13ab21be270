//! Parameter sets: one table entry gives every modulus, base, bound and width.
//!
//! Nothing here computes a parameter. Each field names the inequality it comes from; the tests below and
//! `protocol/params/derive.py` derive every value again from that inequality, each with a primality test of its own.
//! In all inequalities `rho` is [`ParameterSet::rho_max`] and a base `b` has balanced digits in
//! `-(b-1)/2 ..= (b-1)/2`. The factor 8 in a modulus (protocol.md, section 1): the difference of two accepted sums
//! is at most `2*rho*bound`, so that `q >= 8*rho*bound` keeps it within a quarter of the modulus, half of what a
//! random residue reaches.

/// Every constant of one parameter set. Public data; the same for all parties of a deployment.
#[derive(Debug, PartialEq, Eq)]
pub struct ParameterSet {
    /// Name in configuration, seeds and statements: lower case ASCII.
    pub name: &'static str,
    /// Most clients in one round. Input of the derivation.
    pub rho_max: u32,
    /// Modulus of leaf hash and commitment tree: the smallest prime `= 1 mod 4096` with
    /// `q >= 8*rho*cs_digit`.
    pub hvc: u32,
    /// Modulus of leaf commitments and key shares: the largest prime `= 5 mod 8` below `2^cs_bits`, where `cs_bits`
    /// is the least width for which it is `>= 8*rho*beta`. No transform exists for it; X^2048 + 1 splits into two
    /// factors.
    pub cs: u32,
    /// Limbs of the ciphertext modulus in computation: the two largest primes `= 1 mod 4096` below `2^24.5`, larger
    /// first, so that their product is below `2^49`.
    pub kahe: [u32; 2],
    /// Modulus of lane hash and lane tree: the largest prime `= 1 mod 4096` below `2^lane_bits`, where `lane_bits`
    /// is the least width for which it is `>= 8*rho*share_digit`.
    pub lane: u32,
    /// Limbs of the ciphertext modulus in transit: the two largest primes below `2^wire_limb_bits`, larger first.
    /// `rho*(limb - 1) < 2^32`, so that a sum of canonical residues needs no reduction in u32.
    pub wire: [u32; 2],
    /// Auxiliary pair for products in the CS ring: the two largest primes `= 1 mod 4096` below `2^30`, larger first.
    /// Half their product exceeds `kappa*2048*((cs-1)/2)^2`, so that an inner product lifts exactly.
    pub cs_aux: [u32; 2],
    /// Ring elements of commitment randomness in one leaf. Input of the derivation.
    pub kappa: usize,
    /// Ring elements committed to in one leaf. Input of the derivation.
    pub mu_cs: usize,
    /// Fresh commitment randomness is uniform in `-beta ..= beta`; `8*rho*beta <= cs`. Input of the derivation.
    pub beta: u32,
    /// Base of tree nodes: the smallest odd `b` with `b^3 >= hvc`.
    pub hvc_base: u32,
    /// Base of leaf vectors: the smallest odd `b` with `b^3 >= cs`.
    pub cs_base: u32,
    /// Base of lane tree nodes: the smallest odd `b` with `b^3 >= lane`.
    pub lane_base: u32,
    /// Base of lane shares: the smallest odd `b` with `b^4 >= wire[0]*wire[1]`.
    pub share_base: u32,
    /// Bits of a packed HVC coefficient: the width of `hvc - 1`.
    pub hvc_bits: u32,
    /// Bits of a packed CS coefficient: the width of `cs - 1`.
    pub cs_bits: u32,
    /// Bits of a packed LANE coefficient: the width of `lane - 1`.
    pub lane_bits: u32,
    /// Bits of a packed WIRE residue; the least width whose noise bound is `<= 2^-64` at `rho` clients and 16 KB
    /// messages (`protocol/params/noise.py`).
    pub wire_limb_bits: u32,
    /// Standard deviation of keys and errors in hundredths: 1572 is sigma = 15.72. Input of the derivation.
    pub sigma_centi: u32,
    /// Largest magnitude of a key coefficient: `ceil(8*sigma)`.
    pub key_bound: u32,
    /// Largest magnitude of an error coefficient: `floor(9.2*sigma)`.
    pub error_bound: u32,
    /// Payload bits of one coefficient, for both plaintext moduli: `floor(log2 t)`.
    pub plaintext_bits: u32,
    /// Plaintext modulus of peeling and slots: `2^plaintext_bits`.
    pub plaintext_power: u64,
    /// Plaintext modulus of the sketch: the smallest prime `= 1 mod 2^20` above `2^plaintext_bits`.
    pub plaintext_prime: u64,
}

impl ParameterSet {
    /// Balanced digits of one HVC, CS or LANE coefficient.
    pub const RING_DIGITS: usize = 3;
    /// Balanced digits of one WIRE coefficient (both limbs lifted).
    pub const SHARE_DIGITS: usize = 4;

    /// Largest magnitude of a digit of a tree node: `(hvc_base - 1)/2`.
    pub const fn hvc_digit(&self) -> u32 {
        (self.hvc_base - 1) / 2
    }

    /// Largest magnitude of a digit of a leaf vector: `(cs_base - 1)/2`.
    pub const fn cs_digit(&self) -> u32 {
        (self.cs_base - 1) / 2
    }

    /// Largest magnitude of a digit of a lane tree node: `(lane_base - 1)/2`.
    pub const fn lane_digit(&self) -> u32 {
        (self.lane_base - 1) / 2
    }

    /// Largest magnitude of a digit of a lane share: `(share_base - 1)/2`.
    pub const fn share_digit(&self) -> u32 {
        (self.share_base - 1) / 2
    }

    /// The ciphertext modulus in computation, q = `kahe[0]*kahe[1]`.
    pub const fn kahe_modulus(&self) -> u64 {
        widen(self.kahe[0]) * widen(self.kahe[1])
    }

    /// The ciphertext modulus in transit, Q = `wire[0]*wire[1]`.
    pub const fn wire_modulus(&self) -> u64 {
        widen(self.wire[0]) * widen(self.wire[1])
    }

    /// Most clients for which every digit and randomness bound holds.
    ///
    /// That is the largest `rho` with `8*rho*bound <= q` for leaf digits and node digits in HVC, randomness in CS,
    /// share digits and node digits in LANE, and with `rho*limb < 2^32` for both WIRE limbs.
    pub const fn max_clients_by_digits(&self) -> u32 {
        let hvc = min(self.hvc / (8 * self.cs_digit()), self.hvc / (8 * self.hvc_digit()));
        let cs = self.cs / (8 * self.beta);
        let lane = min(self.lane / (8 * self.share_digit()), self.lane / (8 * self.lane_digit()));
        let wire = min(u32::MAX / self.wire[0], u32::MAX / self.wire[1]);
        min(min(hvc, cs), min(lane, wire))
    }

    /// Most clients whose summed key lifts exactly from CS: the largest `rho` with `rho*key_bound <= (cs - 1)/2`.
    pub const fn max_clients_by_key_bridge(&self) -> u32 {
        (self.cs - 1) / 2 / self.key_bound
    }
}

/// 300 clients: the reference set.
pub static P300: ParameterSet = ParameterSet {
    name: "p300",
    rho_max: 300,
    hvc: 86017,
    cs: 262133,
    kahe: [23719937, 23715841],
    lane: 2056193,
    wire: [2097143, 2097133],
    cs_aux: [1073692673, 1073668097],
    kappa: 5,
    mu_cs: 1,
    beta: 108,
    hvc_base: 45,
    cs_base: 65,
    lane_base: 129,
    share_base: 1449,
    hvc_bits: 17,
    cs_bits: 18,
    lane_bits: 21,
    wire_limb_bits: 21,
    sigma_centi: 1572,
    key_bound: 126,
    error_bound: 144,
    plaintext_bits: 35,
    plaintext_power: 1 << 35,
    plaintext_prime: 34380709889,
};

/// 1000 clients. `beta = 127` has 255 values: one byte rejects 1 in 256.
pub static P1000: ParameterSet = ParameterSet {
    name: "p1000",
    rho_max: 1000,
    hvc: 417793,
    cs: 1048573,
    kahe: [23719937, 23715841],
    lane: 8380417,
    wire: [4194301, 4194287],
    cs_aux: [1073692673, 1073668097],
    kappa: 5,
    mu_cs: 1,
    beta: 127,
    hvc_base: 75,
    cs_base: 103,
    lane_base: 205,
    share_base: 2049,
    hvc_bits: 19,
    cs_bits: 20,
    lane_bits: 23,
    wire_limb_bits: 22,
    sigma_centi: 1572,
    key_bound: 126,
    error_bound: 144,
    plaintext_bits: 35,
    plaintext_power: 1 << 35,
    plaintext_prime: 34380709889,
};

/// The parameter set of this name, which must be written as in [`ParameterSet::name`].
pub fn by_name(name: &str) -> Option<&'static ParameterSet> {
    [&P300, &P1000].into_iter().find(|set| set.name == name)
}

const fn min(a: u32, b: u32) -> u32 {
    if a < b { a } else { b }
}

/// `u64::from`, which is not callable in a const fn.
const fn widen(x: u32) -> u64 {
    x as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::N;

    const SETS: [&ParameterSet; 2] = [&P300, &P1000];

    fn mul(a: u64, b: u64, n: u64) -> u64 {
        u64::try_from(u128::from(a) * u128::from(b) % u128::from(n)).unwrap()
    }

    fn pow(base: u64, exponent: u64, n: u64) -> u64 {
        (0..64).rev().fold(1, |acc, bit| {
            let square = mul(acc, acc, n);
            if exponent >> bit & 1 == 1 { mul(square, base, n) } else { square }
        })
    }

    /// Miller-Rabin with the first twelve primes as bases: exact below 3.3 * 10^24, so for every u64.
    fn is_prime(n: u64) -> bool {
        const BASES: [u64; 12] = [2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37];
        if n < 2 {
            return false;
        }
        if BASES.iter().any(|&p| n.is_multiple_of(p)) {
            return BASES.contains(&n);
        }
        let twos = (n - 1).trailing_zeros();
        BASES.iter().all(|&base| {
            let mut x = pow(base, (n - 1) >> twos, n);
            let mut probable = x == 1 || x == n - 1;
            for _ in 1..twos {
                x = mul(x, x, n);
                probable |= x == n - 1;
            }
            probable
        })
    }

    /// The largest primes `= residue mod step` below `limit`, descending.
    fn primes_below(limit: u64, step: u64, residue: u64) -> impl Iterator<Item = u64> {
        (1..limit).rev().filter(move |n| n % step == residue % step).filter(|&n| is_prime(n))
    }

    fn pair_below(limit: u64, step: u64, residue: u64) -> [u32; 2] {
        let mut primes = primes_below(limit, step, residue).map(|p| u32::try_from(p).unwrap());
        [primes.next().unwrap(), primes.next().unwrap()]
    }

    /// The smallest prime `= 1 mod step` that is at least `floor`.
    fn prime_from(floor: u64, step: u64) -> u64 {
        (floor..).filter(|n| n % step == 1).find(|&n| is_prime(n)).unwrap()
    }

    fn smallest_odd_base(modulus: u64, digits: u32) -> u32 {
        (1u32..).step_by(2).find(|&b| u128::from(b).pow(digits) >= u128::from(modulus)).unwrap()
    }

    /// The first width whose largest prime of the wanted form reaches `floor`, with that prime.
    fn narrowest(floor: u64, step: u64, residue: u64) -> (u32, u32) {
        (13..32)
            .filter_map(|bits| Some((bits, primes_below(1 << bits, step, residue).next()?)))
            .find(|&(_, prime)| prime >= floor)
            .map(|(bits, prime)| (bits, u32::try_from(prime).unwrap()))
            .unwrap()
    }

    fn bit_length(x: u32) -> u32 {
        u32::BITS - x.leading_zeros()
    }

    #[test]
    fn primality_test_agrees_with_trial_division() {
        for n in 0..5000u64 {
            let by_division = n >= 2 && (2..n).take_while(|d| d * d <= n).all(|d| n % d != 0);
            assert_eq!(is_prime(n), by_division, "{n}");
        }
        // Strong pseudoprimes to the bases 2; 2, 3, 5, 7; and 2 to 23 (OEIS A014233).
        for n in [2047, 3215031751, 3825123056546413051] {
            assert!(!is_prime(n), "{n}");
        }
        assert!(is_prime(u64::MAX - 58));
    }

    #[test]
    fn moduli_follow_from_their_inequalities() {
        for set in SETS {
            let rho = u64::from(set.rho_max);
            let (cs_bits, cs) = narrowest(8 * rho * u64::from(set.beta), 8, 5);
            assert_eq!((set.cs_bits, set.cs), (cs_bits, cs), "{}", set.name);
            let cs_digit = u64::from((smallest_odd_base(cs.into(), 3) - 1) / 2);
            assert_eq!(u64::from(set.hvc), prime_from(8 * rho * cs_digit, 4096), "{}", set.name);

            let wire = pair_below(1 << set.wire_limb_bits, 1, 0);
            assert_eq!(set.wire, wire, "{}", set.name);
            let share_base = smallest_odd_base(u64::from(wire[0]) * u64::from(wire[1]), 4);
            let (lane_bits, lane) = narrowest(8 * rho * u64::from((share_base - 1) / 2), 4096, 1);
            assert_eq!((set.lane_bits, set.lane), (lane_bits, lane), "{}", set.name);

            // Below 2^24.5 means a square below 2^49.
            let root = (1u64 << 49).isqrt() + 1;
            assert_eq!(set.kahe, pair_below(root, 4096, 1), "{}", set.name);
            assert_eq!(set.cs_aux, pair_below(1 << 30, 4096, 1), "{}", set.name);
            assert!(set.kahe_modulus() < 1 << 49, "{}", set.name);
            assert!(set.wire_modulus() < set.kahe_modulus(), "{}", set.name);
        }
    }

    #[test]
    fn bases_and_widths_follow_from_the_moduli() {
        for set in SETS {
            assert_eq!(set.hvc_base, smallest_odd_base(set.hvc.into(), 3), "{}", set.name);
            assert_eq!(set.cs_base, smallest_odd_base(set.cs.into(), 3), "{}", set.name);
            assert_eq!(set.lane_base, smallest_odd_base(set.lane.into(), 3), "{}", set.name);
            let wire = u64::from(set.wire[0]) * u64::from(set.wire[1]);
            assert_eq!(set.share_base, smallest_odd_base(wire, 4), "{}", set.name);
            assert_eq!(set.hvc_bits, bit_length(set.hvc - 1), "{}", set.name);
            assert_eq!(set.cs_bits, bit_length(set.cs - 1), "{}", set.name);
            assert_eq!(set.lane_bits, bit_length(set.lane - 1), "{}", set.name);
            assert!(set.wire.iter().all(|&limb| set.wire_limb_bits == bit_length(limb - 1)), "{}", set.name);
        }
    }

    #[test]
    fn products_in_cs_lift_exactly_from_the_auxiliary_pair() {
        for set in SETS {
            let half = u128::from((set.cs - 1) / 2);
            let largest = u128::try_from(set.kappa * N).unwrap() * half * half;
            let aux = u128::from(set.cs_aux[0]) * u128::from(set.cs_aux[1]);
            assert!(2 * largest < aux, "{}", set.name);
        }
    }

    #[test]
    fn cuts_follow_from_sigma() {
        for set in SETS {
            assert_eq!(set.key_bound, (8 * set.sigma_centi).div_ceil(100), "{}", set.name);
            assert_eq!(set.error_bound, 92 * set.sigma_centi / 1000, "{}", set.name);
        }
    }

    #[test]
    fn plaintext_moduli_carry_the_same_bits() {
        for set in SETS {
            assert_eq!(set.plaintext_power, 2u64.pow(set.plaintext_bits), "{}", set.name);
            assert_eq!(set.plaintext_prime, prime_from(set.plaintext_power, 1 << 20), "{}", set.name);
            assert_eq!(set.plaintext_prime.ilog2(), set.plaintext_bits, "{}", set.name);
            assert_eq!((set.plaintext_prime - 1) % (1 << 20), 0, "{}", set.name);
        }
    }

    /// Every digit inequality of the module's header, written out for one `rho`.
    fn digits_fit(set: &ParameterSet, rho: u64) -> bool {
        let half = |base: u32| u64::from(base) / 2;
        [
            (half(set.cs_base), set.hvc),
            (half(set.hvc_base), set.hvc),
            (u64::from(set.beta), set.cs),
            (half(set.share_base), set.lane),
            (half(set.lane_base), set.lane),
        ]
        .iter()
        .all(|&(bound, q)| 8 * rho * bound <= u64::from(q))
            && set.wire.iter().all(|&limb| rho * u64::from(limb) < 1 << 32)
    }

    #[test]
    fn client_limits_are_the_last_that_fit() {
        for set in SETS {
            let digits = (1..).take_while(|&rho| digits_fit(set, rho)).last();
            assert_eq!(Some(u64::from(set.max_clients_by_digits())), digits, "{}", set.name);
            let bridge = (1..).take_while(|rho| 2 * rho * set.key_bound < set.cs).last();
            assert_eq!(Some(set.max_clients_by_key_bridge()), bridge, "{}", set.name);
            assert!(set.rho_max <= set.max_clients_by_digits(), "{}", set.name);
            assert!(set.rho_max <= set.max_clients_by_key_bridge(), "{}", set.name);
        }
    }

    #[test]
    fn names_find_their_set_and_nothing_else_does() {
        for set in SETS {
            assert_eq!(by_name(set.name), Some(set));
        }
        for name in ["", "P300", "p30", "p3000", "p1000 "] {
            assert_eq!(by_name(name), None, "{name:?}");
        }
    }
}
