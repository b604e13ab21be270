//! Secret sharing over the CS ring: Shamir t-of-n with a consistency check, and additive n-of-n.
//!
//! `f(X) = secret + sum_k C_k X^k` with uniform ring coefficients; the share of server i is `f(i + 1)`, computed
//! coefficient-wise. Shares add, so the sum of one server's shares is its share of the sum of the secrets.

use crate::fault::{Attribution, Fault};
use crate::ids::ServerId;
use chipmunk::ring::modulus::Prime;
use chipmunk::ring::{Coeff, Cs, Poly, RingContext, sample};
use chipmunk::secret::Secret;
use rand_core::CryptoRng;

/// A secret was not recovered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ShareError {
    /// Two samples of one server.
    #[error("two samples of server {server}")]
    Duplicate {
        /// The server.
        server: ServerId,
    },
    /// The samples lie on no polynomial of degree t - 1: some client dealt inconsistent shares. Nobody can be named.
    #[error("the {samples} verified shares do not lie on one polynomial of degree {degree}")]
    Inconsistent {
        /// How many samples were given.
        samples: usize,
        /// The degree they should have.
        degree: u16,
    },
    /// A server that does not exist.
    #[error("server {server} is out of range: there are {servers}")]
    OutOfRange {
        /// The server.
        server: ServerId,
        /// Servers of the epoch.
        servers: u16,
    },
    /// Fewer samples than the threshold.
    #[error("{have} shares where {need} are needed")]
    TooFew {
        /// Samples given.
        have: usize,
        /// The threshold.
        need: u16,
    },
}

impl Fault for ShareError {
    fn code(&self) -> &'static str {
        match self {
            Self::Duplicate { .. } => "share_duplicate",
            Self::Inconsistent { .. } => "shares_inconsistent",
            Self::OutOfRange { .. } => "share_out_of_range",
            Self::TooFew { .. } => "shares_too_few",
        }
    }

    fn attribution(&self) -> Attribution {
        match self {
            Self::Duplicate { .. } | Self::OutOfRange { .. } => Attribution::Caller,
            Self::Inconsistent { .. } | Self::TooFew { .. } => Attribution::Nobody,
        }
    }
}

/// The threshold that a deployment gets unless it names one: `max(floor(S/2) + 1, S - 2)`.
pub const fn default_threshold(servers: u16) -> u16 {
    let majority = servers / 2 + 1;
    let all_but_two = servers.saturating_sub(2);
    if majority > all_but_two { majority } else { all_but_two }
}

/// t-of-n sharing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShamirSharing {
    threshold: u16,
    servers: u16,
}

/// The scalar point of a server.
fn point(server: ServerId) -> u32 {
    u32::from(server.0) + 1
}

impl ShamirSharing {
    /// Sharing among `servers`, any `threshold` of which recover.
    ///
    /// # Panics
    /// Unless `1 <= threshold <= servers`: setup has refused anything else.
    pub fn new(threshold: u16, servers: u16) -> Self {
        assert!((1..=servers).contains(&threshold), "a threshold between 1 and {servers}, got {threshold}");
        Self { threshold, servers }
    }

    /// The threshold t.
    pub const fn threshold(&self) -> u16 {
        self.threshold
    }

    /// The number of servers n.
    pub const fn servers(&self) -> u16 {
        self.servers
    }

    /// One share a server, in order. Constant time in the secret.
    pub fn share(
        &self,
        ring: &RingContext<Cs>,
        secret: &Secret<Poly<Cs, Coeff>>,
        rng: &mut (impl CryptoRng + ?Sized),
    ) -> Vec<Secret<Poly<Cs, Coeff>>> {
        let coefficients: Vec<Secret<Poly<Cs, Coeff>>> =
            (1..self.threshold).map(|_| Secret::new(sample::secret_uniform(ring, rng))).collect();
        let evaluate = |server| {
            // Horner, from the leading coefficient down to the secret.
            let mut share = Secret::new(Poly::zero());
            for coefficient in coefficients.iter().rev().chain([secret]) {
                ring.scale_assign(share.expose_mut(), point(server));
                ring.add_assign(share.expose_mut(), coefficient.expose());
            }
            share
        };
        (0..self.servers).map(|server| evaluate(ServerId(server))).collect()
    }

    /// The secret behind at least t samples; every sample beyond t is checked against the others.
    ///
    /// The result does not depend on the order of the samples.
    ///
    /// # Errors
    /// `OutOfRange`, `Duplicate` or `TooFew` for a bad selection; `Inconsistent` if the samples do not lie on one
    /// polynomial of degree t - 1.
    pub fn recover(
        &self,
        ring: &RingContext<Cs>,
        samples: &[(ServerId, &Poly<Cs, Coeff>)],
    ) -> Result<Poly<Cs, Coeff>, ShareError> {
        let mut samples = samples.to_vec();
        samples.sort_unstable_by_key(|(server, _)| *server);
        if let Some((server, _)) = samples.last().filter(|(server, _)| server.0 >= self.servers) {
            return Err(ShareError::OutOfRange { server: *server, servers: self.servers });
        }
        if let Some(pair) = samples.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            return Err(ShareError::Duplicate { server: pair[0].0 });
        }
        let Some((basis, surplus)) = samples.split_at_checked(self.threshold.into()) else {
            return Err(ShareError::TooFew { have: samples.len(), need: self.threshold });
        };
        for (server, share) in surplus {
            if interpolate(ring, basis, point(*server)) != **share {
                return Err(ShareError::Inconsistent { samples: samples.len(), degree: self.threshold - 1 });
            }
        }
        Ok(interpolate(ring, basis, 0))
    }
}

/// The value at `x` of the polynomial through the samples. Points are public.
fn interpolate(ring: &RingContext<Cs>, samples: &[(ServerId, &Poly<Cs, Coeff>)], x: u32) -> Poly<Cs, Coeff> {
    let prime = &ring.primes()[0];
    let mut value = Poly::zero();
    for (server, share) in samples {
        let mut term = (*share).clone();
        ring.scale_assign(&mut term, lagrange(prime, samples, *server, x));
        ring.add_assign(&mut value, &term);
    }
    value
}

fn lagrange(prime: &Prime, samples: &[(ServerId, &Poly<Cs, Coeff>)], server: ServerId, x: u32) -> u32 {
    let (mut numerator, mut denominator) = (1, 1);
    for (other, _) in samples.iter().filter(|(other, _)| *other != server) {
        numerator = prime.mul(numerator, prime.sub(x, point(*other)));
        denominator = prime.mul(denominator, prime.sub(point(server), point(*other)));
    }
    prime.mul(numerator, prime.inverse(denominator))
}

/// n-of-n sharing: all shares but the last are uniform, and they add up to the secret.
pub fn share_additively(
    ring: &RingContext<Cs>,
    secret: &Secret<Poly<Cs, Coeff>>,
    servers: u16,
    rng: &mut (impl CryptoRng + ?Sized),
) -> Vec<Secret<Poly<Cs, Coeff>>> {
    let mut last = Secret::new(secret.expose().clone());
    let mut shares = Vec::with_capacity(servers.into());
    for _ in 1..servers {
        let share = Secret::new(sample::secret_uniform(ring, rng));
        ring.sub_assign(last.expose_mut(), share.expose());
        shares.push(share);
    }
    shares.push(last);
    shares
}

#[cfg(test)]
mod tests {
    use super::*;
    use chipmunk::params::P300;
    use chipmunk::ring::backend;
    use proptest::prelude::*;
    use rand_chacha::ChaCha20Rng;
    use rand_core::SeedableRng;

    fn ring() -> RingContext<Cs> {
        RingContext::new(&[P300.cs], backend::under_test())
    }

    fn samples<'a>(
        shares: &'a [Secret<Poly<Cs, Coeff>>],
        servers: &[u16],
    ) -> Vec<(ServerId, &'a Poly<Cs, Coeff>)> {
        servers.iter().map(|&i| (ServerId(i), shares[usize::from(i)].expose())).collect()
    }

    #[test]
    fn default_thresholds() {
        let expected = [(1, 1), (2, 2), (3, 2), (4, 3), (5, 3), (8, 6), (16, 14), (64, 62)];
        for (servers, threshold) in expected {
            assert_eq!(default_threshold(servers), threshold, "{servers} servers");
        }
    }

    #[test]
    fn every_subset_of_five_recovers_and_checks() {
        let ring = ring();
        let mut rng = ChaCha20Rng::from_seed([1; 32]);
        let secret = Secret::new(sample::secret_uniform(&ring, &mut rng));
        let sharing = ShamirSharing::new(3, 5);
        let mut shares = sharing.share(&ring, &secret, &mut rng);
        for mask in 0u16..32 {
            let chosen: Vec<u16> = (0..5).filter(|i| mask >> i & 1 == 1).rev().collect();
            let recovered = sharing.recover(&ring, &samples(&shares, &chosen));
            if chosen.len() < 3 {
                assert_eq!(recovered, Err(ShareError::TooFew { have: chosen.len(), need: 3 }));
            } else {
                assert_eq!(recovered.as_ref(), Ok(secret.expose()));
            }
        }
        // A dealer that gives server 4 another polynomial: three shares cannot see it, four can.
        let one = secret.expose().clone();
        ring.add_assign(shares[4].expose_mut(), &one);
        assert!(sharing.recover(&ring, &samples(&shares, &[0, 1, 4])).is_ok_and(|key| key != one));
        let seen = sharing.recover(&ring, &samples(&shares, &[0, 1, 2, 4]));
        assert_eq!(seen, Err(ShareError::Inconsistent { samples: 4, degree: 2 }));
    }

    #[test]
    fn bad_selections_have_their_own_errors() {
        let ring = ring();
        let mut rng = ChaCha20Rng::from_seed([2; 32]);
        let secret = Secret::new(sample::secret_uniform(&ring, &mut rng));
        let shares = ShamirSharing::new(2, 3).share(&ring, &secret, &mut rng);
        let sharing = ShamirSharing::new(2, 2);
        let twice = sharing.recover(&ring, &samples(&shares, &[1, 1]));
        assert_eq!(twice, Err(ShareError::Duplicate { server: ServerId(1) }));
        let outside = sharing.recover(&ring, &samples(&shares, &[0, 2]));
        assert_eq!(outside, Err(ShareError::OutOfRange { server: ServerId(2), servers: 2 }));
    }

    #[test]
    fn fewer_than_t_shares_say_nothing_of_a_coefficient() {
        // With t - 1 fixed shares, every secret has exactly one completion: shares of two secrets under the same
        // coefficients differ by the same constant everywhere.
        let ring = ring();
        let share = |secret: &Poly<Cs, Coeff>| {
            let mut rng = ChaCha20Rng::from_seed([3; 32]);
            ShamirSharing::new(2, 2).share(&ring, &Secret::new(secret.clone()), &mut rng)
        };
        let secret = sample::secret_uniform(&ring, &mut ChaCha20Rng::from_seed([4; 32]));
        let (zero, other) = (share(&Poly::zero()), share(&secret));
        for (zero, other) in zero.iter().zip(&other) {
            let mut difference = other.expose().clone();
            ring.sub_assign(&mut difference, zero.expose());
            assert_eq!(difference, secret);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]
        #[test]
        fn shares_add(seed in any::<u64>(), servers in 1u16..9, extra in 0u16..9) {
            let ring = ring();
            let mut rng = ChaCha20Rng::seed_from_u64(seed);
            let threshold = (servers / 2 + 1 + extra).min(servers);
            let sharing = ShamirSharing::new(threshold, servers);
            let mut expected = vec![0u64; chipmunk::N];
            let mut sums = vec![Poly::zero(); servers.into()];
            let mut additive = Poly::zero();
            for _ in 0..4 {
                let secret = Secret::new(sample::secret_uniform(&ring, &mut rng));
                // Oracle: plain integers.
                for (e, &s) in expected.iter_mut().zip(secret.expose().limb(0)) {
                    *e = (*e + u64::from(s)) % u64::from(P300.cs);
                }
                for (sum, share) in sums.iter_mut().zip(sharing.share(&ring, &secret, &mut rng)) {
                    ring.add_assign(sum, share.expose());
                }
                for share in share_additively(&ring, &secret, servers, &mut rng) {
                    ring.add_assign(&mut additive, share.expose());
                }
            }
            let samples: Vec<_> = (0..servers).map(ServerId).zip(&sums).collect();
            let recovered = sharing.recover(&ring, &samples).expect("honest shares");
            for poly in [recovered, additive] {
                let got: Vec<u64> = poly.limb(0).iter().map(|&w| w.into()).collect();
                prop_assert_eq!(&got, &expected);
            }
        }
    }
}
