//! The noise budget of the encryption: how many clients a round may sum.
//!
//! In WIRE units each client adds a rounding error (variance 1/12) and an encryption error of deviation
//! sigma * Q / q, and shifts the message by at most (Q / q) / 2 because round(q m / t) is not exact. The sum decodes
//! while every coefficient's error stays inside half a message step, Q / (2t).

use crate::kahe::Plaintext;
use chipmunk::N;
use chipmunk::params::ParameterSet;

/// log2 of the largest failure probability a round may have.
pub const MAX_FAILURE_LOG2: f64 = -64.0;

/// The noise of one round, in WIRE units (multiples of 1/Q of the torus).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NoiseBudget {
    /// Standard deviation of the summed error of one coefficient.
    pub deviation: f64,
    /// Largest error that decodes, less the worst shift by message rounding.
    pub half_range: f64,
    /// log2 of the union bound over all coefficients that any error exceeds `half_range`.
    pub failure_log2: f64,
}

impl NoiseBudget {
    /// The budget of `clients` summed ciphertexts of `polys` polynomials with plaintext modulus t.
    pub fn new(set: &ParameterSet, clients: u32, polys: usize, plaintext: Plaintext) -> Self {
        let product = |pair: [u32; 2]| f64::from(pair[0]) * f64::from(pair[1]);
        let ratio = product(set.wire) / product(set.kahe);
        let sigma = f64::from(set.sigma_centi) / 100.0;
        let clients = f64::from(clients);
        let deviation = (clients * (1.0 / 12.0 + (sigma * ratio).powi(2))).sqrt();
        // Both plaintext moduli are below 2^36, exact in an f64.
        #[expect(clippy::cast_precision_loss, reason = "36 bits")]
        let t = plaintext.modulus(set) as f64;
        let half_range = product(set.wire) / (2.0 * t) - clients / 2.0 * ratio;
        let x = half_range / deviation;
        // Two-sided tail, by the Mills-ratio upper bound: 2 phi(x) / x.
        let tail_log2 =
            1.0 - x * x / (2.0 * std::f64::consts::LN_2) - (std::f64::consts::TAU.sqrt() * x).log2();
        #[expect(clippy::cast_precision_loss, reason = "a number of coefficients, far below 2^53")]
        let failure_log2 = if x > 0.0 { ((N * polys.max(1)) as f64).log2() + tail_log2 } else { 0.0 };
        Self { deviation, half_range, failure_log2 }
    }

    /// Whether the round decodes except with probability 2^-64.
    pub fn is_admissible(&self) -> bool {
        self.failure_log2 <= MAX_FAILURE_LOG2
    }
}

/// The largest roster that the noise admits, at most `rho_max`.
pub fn max_clients_by_noise(set: &ParameterSet, polys: usize, plaintext: Plaintext) -> u32 {
    // More clients only add noise, so the admissible rosters are an interval from 1.
    let (mut admitted, mut refused) = (0, set.rho_max + 1);
    while refused - admitted > 1 {
        let middle = admitted + (refused - admitted) / 2;
        if NoiseBudget::new(set, middle, polys, plaintext).is_admissible() {
            admitted = middle;
        } else {
            refused = middle;
        }
    }
    admitted
}

#[cfg(test)]
mod tests {
    use super::*;
    use chipmunk::params::{P300, P1000};

    #[test]
    fn p300_has_the_figures_of_the_protocol_page() {
        let budget = NoiseBudget::new(&P300, 300, 553, Plaintext::Prime);
        assert!((budget.deviation - 5.43).abs() < 0.005, "{budget:?}");
        assert!((-81.0..-79.0).contains(&budget.failure_log2), "{budget:?}");
        assert_eq!(max_clients_by_noise(&P300, 553, Plaintext::Prime), 300);
        assert_eq!(max_clients_by_noise(&P300, 553, Plaintext::PowerOfTwo), 300);
    }

    #[test]
    fn p1000_admits_a_thousand_clients_of_16_kilobytes() {
        // Symbols of a 16 KB message times capacity and slack, as the sketch sizes it.
        let polys = (3747usize * 1002 + 1003).div_ceil(N);
        assert_eq!(max_clients_by_noise(&P1000, polys, Plaintext::Prime), 1000);
    }

    #[test]
    fn refusal_at_63_of_64_keeps_the_bound() {
        // Decryption refuses a residual above 63/64 of the half-range, so honest rounds must stay below that too.
        for (set, clients, polys) in [(&P300, 300, 553), (&P1000, 1000, 1834)] {
            let budget = NoiseBudget::new(set, clients, polys, Plaintext::Prime);
            let half_step =
                f64::from(set.wire[0]) * f64::from(set.wire[1]) / (2.0 * set.plaintext_prime as f64);
            let x = (budget.half_range - half_step / 64.0) / budget.deviation;
            // The cruder tail bound 2 exp(-x^2 / 2) suffices.
            let failure_log2 =
                (2.0 * N as f64 * polys as f64).log2() - x * x / (2.0 * std::f64::consts::LN_2);
            assert!(failure_log2 < MAX_FAILURE_LOG2, "{failure_log2}");
        }
    }

    #[test]
    fn fewer_wire_bits_shrink_the_roster() {
        // Two bits less in transit, and 300 clients no longer fit: the bound is live, not decoration.
        let tight = ParameterSet { wire: [1_048_573, 1_048_571], ..P300 };
        assert!(max_clients_by_noise(&tight, 553, Plaintext::Prime) < 100);
    }
}
