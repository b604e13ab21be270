//! Every back-end against 128-bit remainders and the definitions.

use super::super::tests::Draw;
use super::*;
use crate::ring::backend::{Kernels, Simd};
use proptest::prelude::*;

const P: u64 = PRIME;

fn all() -> Vec<&'static Kernels> {
    Simd::available().map(Simd::kernels).collect()
}

fn times(a: u64, b: u64) -> u64 {
    u64::try_from(u128::from(a) * u128::from(b) % u128::from(P)).unwrap()
}

fn power(base: u64, exponent: usize) -> u64 {
    (0..exponent).fold(1, |power, _| times(power, base))
}

/// A canonical word: an edge of the range every other time.
fn canonical(draw: &mut Draw) -> u64 {
    let edges = [0, 1, 2, (1 << 20) - 1, P / 2, P / 2 + 1, 1 << 35, P - 2, P - 1];
    match draw.below(2) {
        0 => edges[usize::try_from(draw.below(edges.len() as u64)).unwrap()],
        _ => draw.below(P),
    }
}

fn words(draw: &mut Draw, len: usize) -> Vec<u64> {
    (0..len).map(|_| canonical(draw)).collect()
}

#[test]
fn the_prime_and_its_generator_are_as_documented() {
    let is_prime = |n: u64| (2..).take_while(|d| d * d <= n).all(|d| !n.is_multiple_of(d));
    assert!(is_prime(P));
    assert_eq!(P - 1, (1 << 22) * 7 * 1171);
    let generates = |base: u64| {
        [2, 7, 1171].iter().all(|factor| {
            let (mut result, mut square, mut exponent) = (1, base, (P - 1) / factor);
            while exponent > 0 {
                if exponent % 2 == 1 {
                    result = times(result, square);
                }
                square = times(square, square);
                exponent /= 2;
            }
            result != 1
        })
    };
    assert!(generates(GENERATOR) && (2..GENERATOR).all(|base| !generates(base)));
}

#[test]
fn parts_cover_everything_once() {
    for (total, max) in
        [(1, 1), (1, 320), (302, 320), (320, 320), (321, 320), (302, 104), (4100, 320), (0, 5)]
    {
        let parts: Vec<_> = parts(total, max).collect();
        assert_eq!(parts.iter().cloned().flatten().collect::<Vec<_>>(), (0..total).collect::<Vec<_>>());
        assert!(parts.iter().all(|part| part.len() <= max));
        assert_eq!(parts.len(), total.div_ceil(max));
    }
}

/// Coefficients of a product modulo X^n - c, from the definition.
fn product(a: &[u64], b: &[u64], c: u64) -> Vec<u64> {
    let n = a.len();
    let mut out = vec![0; n];
    for (i, &x) in a.iter().enumerate().filter(|(_, x)| **x != 0) {
        for (j, &y) in b.iter().enumerate() {
            let term = if i + j < n { times(x, y) } else { times(times(x, y), c) };
            out[(i + j) % n] = (out[(i + j) % n] + term) % P;
        }
    }
    out
}

#[test]
fn transforms_multiply_as_the_definition_does() {
    let mut draw = Draw(1);
    for len in [64, 128, 256, 512, 1024] {
        for coset in [1, 3, P - 1, draw.below(P - 1) + 1] {
            let [a, b, other] = [(); 3].map(|()| words(&mut draw, len));
            let expected = product(&a, &b, power(coset, len));
            for Kernels { field, simd, .. } in all() {
                let tables = Transform::new(field, len, coset);
                let enter = |words: &[u64]| {
                    let mut words = words.to_vec();
                    (field.enter)(&mut words);
                    (field.transform)(&tables, &mut words);
                    words
                };
                let leave = |mut words: Vec<u64>| {
                    (field.transform_inverse)(&tables, &mut words);
                    (field.leave)(&mut words);
                    words
                };
                let mut values = enter(&a);
                (field.multiply)(&mut values, &enter(&b));
                assert_eq!(leave(values.clone()), expected, "{simd}, {len} words");
                // Linear: b (a + other) by the distributive law, and factors do as words do.
                let mut values_b = enter(&b);
                (field.leave)(&mut values_b);
                let mut second = enter(&other);
                (field.scale)(&mut second, &Factors::new(field, &values_b));
                (field.add)(&mut second, &values);
                let sum: Vec<u64> = a.iter().zip(&other).map(|(&a, &o)| (a + o) % P).collect();
                assert_eq!(leave(second), product(&sum, &b, power(coset, len)), "{simd}, {len} words");
            }
        }
    }
}

#[test]
fn longest_transforms_of_extreme_words_come_back() {
    let len = MAX_TRANSFORM;
    for coset in [1, GENERATOR] {
        for word in [1, P / 2, P / 2 + 1, P - 1] {
            // Once more through a product, whose operands are then as large as lazy reduction lets them become.
            let mut constant = vec![0; len];
            constant[0] = P - 1;
            for Kernels { field, simd, .. } in all() {
                let tables = Transform::new(field, len, coset);
                let [mut a, mut b] = [vec![word; len], constant.clone()];
                for x in [&mut a, &mut b] {
                    (field.enter)(x);
                    (field.transform)(&tables, x);
                }
                (field.multiply)(&mut a, &b);
                let again = a.clone();
                (field.add)(&mut a, &again);
                (field.transform_inverse)(&tables, &mut a);
                (field.transform)(&tables, &mut a);
                (field.transform_inverse)(&tables, &mut a);
                (field.leave)(&mut a);
                assert_eq!(a, vec![times(P - 2, word); len], "{simd}");
            }
        }
    }
}

#[test]
fn no_transform_of_other_lengths() {
    for len in [0, 1, 32, 63, 65, 2 * MAX_TRANSFORM] {
        assert!(std::panic::catch_unwind(|| Transform::new(&scalar::KERNELS, len, 1)).is_err());
    }
}

/// Sums at the limit of what lazy reduction allows: every term of the same sign and of the largest magnitude.
#[test]
fn extreme_products_are_exact() {
    for width in [1, 319, 320, 321, 640, 1001, 4098] {
        for (a, b) in
            [(P - 1, P - 1), (P / 2, P / 2), (P / 2, P / 2 + 1), (P / 2 + 1, P / 2 + 1), (1 << 32, P / 2)]
        {
            let expected = times(times(a, b), width as u64);
            for Kernels { field, simd, .. } in all() {
                let rows = (field.pack_rows)(&vec![a; 2 * width], width);
                let mut out = vec![0; 2 * 3];
                (field.products)(&rows, &vec![b; 3 * width], width, &mut out);
                assert_eq!(out, [expected; 6], "{simd}, {width} terms");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn native_words_come_back(seed in any::<u64>()) {
        let words = words(&mut Draw(seed), 64);
        for Kernels { field, .. } in all() {
            let mut native = words.clone();
            (field.enter)(&mut native);
            (field.leave)(&mut native);
            prop_assert_eq!(&native, &words);
        }
    }

    #[test]
    fn slots_multiply_and_add_modulo_p(seed in any::<u64>()) {
        let mut draw = Draw(seed);
        let (a, b, c) = (words(&mut draw, 64), words(&mut draw, 64), words(&mut draw, 64));
        for Kernels { field, simd, .. } in all() {
            let [mut x, mut y, mut z] = [&a, &b, &c].map(|words| {
                let mut words = words.clone();
                (field.enter)(&mut words);
                words
            });
            // ab + bc, once by words and once by factors.
            (field.multiply)(&mut x, &y);
            (field.multiply)(&mut y, &z);
            (field.add)(&mut x, &y);
            (field.leave)(&mut x);
            (field.scale)(&mut z, &Factors::new(field, &b));
            (field.leave)(&mut z);
            for i in 0..64 {
                prop_assert_eq!(z[i], times(b[i], c[i]), "{}", simd);
                prop_assert_eq!(x[i], (times(a[i], b[i]) + times(b[i], c[i])) % P, "{}", simd);
            }
        }
    }

    #[test]
    fn multiply_add_matches_the_remainder(seed in any::<u64>(), len in 0usize..40) {
        let mut draw = Draw(seed);
        let (out, factors, scalar) = (words(&mut draw, len), words(&mut draw, len), canonical(&mut draw));
        let expected: Vec<u64> = out.iter().zip(&factors).map(|(&o, &f)| (o + times(f, scalar)) % P).collect();
        for Kernels { field, simd, .. } in all() {
            let scaled: Vec<u64> = factors.iter().map(|&f| times(f, field.radix)).collect();
            let mut got = out.clone();
            (field.multiply_add)(&mut got, &scaled, scalar);
            prop_assert_eq!(&got, &expected, "{}", simd);
        }
    }

    #[test]
    fn products_match_the_remainders(
        seed in any::<u64>(),
        count in 1usize..12,
        width in prop_oneof![1usize..20, 90usize..120, 310usize..330],
        gap in 0usize..3,
        n in 1usize..70,
    ) {
        let mut draw = Draw(seed);
        let rows = words(&mut draw, count * width);
        let stride = width + gap;
        let columns = words(&mut draw, (n - 1) * stride + width);
        let dot = |r: usize, s: usize| (0..width).fold(0, |sum, j| {
            (sum + times(rows[r * width + j], columns[s * stride + j])) % P
        });
        let expected: Vec<u64> = (0..count * n).map(|i| dot(i / n, i % n)).collect();
        for Kernels { field, simd, .. } in all() {
            let packed = (field.pack_rows)(&rows, width);
            prop_assert_eq!((packed.count(), packed.width()), (count, width));
            let mut out = vec![P; count * n];
            (field.products)(&packed, &columns, stride, &mut out);
            prop_assert_eq!(&out, &expected, "{}", simd);
        }
    }
}
