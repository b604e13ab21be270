//! Elements of different rings do not mix, whatever their domain.

use chipmunk::ring::{Coeff, Cs, Hvc, Poly, RingContext};

fn sum(ring: &RingContext<Hvc>, a: &mut Poly<Hvc, Coeff>, b: &Poly<Cs, Coeff>) {
    ring.add_assign(a, b);
}

fn compare(a: &Poly<Hvc, Coeff>, b: &Poly<Cs, Coeff>) -> bool {
    a == b
}

fn main() {}
