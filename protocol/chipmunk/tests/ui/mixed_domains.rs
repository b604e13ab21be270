//! Coefficients and transforms of one ring do not mix.

use chipmunk::ring::{Coeff, Hvc, Ntt, Poly, RingContext};

fn product(ring: &RingContext<Hvc>, a: &Poly<Hvc, Coeff>, b: &Poly<Hvc, Ntt>) -> Poly<Hvc, Ntt> {
    ring.mul(a, b)
}

fn sum(ring: &RingContext<Hvc>, a: &mut Poly<Hvc, Coeff>, b: &Poly<Hvc, Ntt>) {
    ring.add_assign(a, b);
}

fn main() {}
