//! A ring whose prime is not 1 mod 4096 has no transform.

use chipmunk::ring::{Coeff, Cs, Poly, RingContext};

fn transform(ring: &RingContext<Cs>, a: Poly<Cs, Coeff>) {
    ring.forward(a);
}

fn main() {}
