//! The transform and the slot-by-slot kernels, written once for registers of any kind.

/// Defines `transform`, `transform_inverse`, `enter`, `leave`, `add`, `multiply` and `scale` for one back-end.
///
/// The caller has in scope: `LANES`; `load`, `store`, `splat` between words and registers; `enter_register`,
/// `leave_register`; `sum`, `product`, `scaled` (by a factor); `butterfly` (x, y) -> (x + wy, x - wy);
/// `butterfly_inverse` (x, y) -> (x + y, w(x - y)) with a bound of x and y, a register that doubles from stage to
/// stage; `first_bound`; `transpose` of `LANES` registers.
///
/// Two stages pass over memory at once. The stages within a register follow a transposition, so that they combine
/// whole registers too, each lane working on a block of its own.
macro_rules! field_transform {
    ($(#[$attribute:meta])* $register:ty) => {
        /// A factor in every lane.
        $(#[$attribute])*
        #[inline]
        fn everywhere(factor: $crate::ring::backend::field::Factor) -> [$register; 2] {
            [splat(factor[0]), splat(factor[1])]
        }

        $(#[$attribute])*
        pub(super) fn transform(tables: &$crate::ring::backend::field::Transform, a: &mut [u64]) {
            assert_eq!(a.len(), tables.len);
            let nodes = &tables.forward;
            let a = $crate::ring::backend::registers_mut::<LANES, _>(a);
            let depths = a.len().ilog2();
            let mut depth = 0;
            if depths % 2 == 1 {
                let w = everywhere(nodes.wide[1]);
                let (low, high) = a.split_at_mut(a.len() / 2);
                for (x, y) in low.iter_mut().zip(high) {
                    let (sum, difference) = butterfly(load(x), load(y), w);
                    store(x, sum);
                    store(y, difference);
                }
                depth = 1;
            }
            while depth < depths {
                let size = a.len() >> depth;
                for (block, part) in a.chunks_exact_mut(size).enumerate() {
                    let node = (1 << depth) + block;
                    let first = everywhere(nodes.wide[node]);
                    let [left, right] = [2 * node, 2 * node + 1].map(|node| everywhere(nodes.wide[node]));
                    let (low, high) = part.split_at_mut(size / 2);
                    let ((p0, p1), (p2, p3)) = (low.split_at_mut(size / 4), high.split_at_mut(size / 4));
                    for (((p0, p1), p2), p3) in p0.iter_mut().zip(p1).zip(p2).zip(p3) {
                        let (x0, x2) = butterfly(load(p0), load(p2), first);
                        let (x1, x3) = butterfly(load(p1), load(p3), first);
                        let (x0, x1) = butterfly(x0, x1, left);
                        let (x2, x3) = butterfly(x2, x3, right);
                        store(p0, x0);
                        store(p1, x1);
                        store(p2, x2);
                        store(p3, x3);
                    }
                }
                depth += 2;
            }
            if LANES == 1 {
                return;
            }
            let mut narrow = $crate::ring::backend::registers::<LANES, _>(&nodes.narrow).iter();
            for group in $crate::ring::backend::registers_mut::<LANES, _>(a) {
                let mut x: [_; LANES] = transpose(std::array::from_fn(|i| load(&group[i])));
                let mut half = LANES / 2;
                while half > 0 {
                    for start in (0..LANES).step_by(2 * half) {
                        let w = [next(&mut narrow), next(&mut narrow)];
                        for i in start..start + half {
                            (x[i], x[i + half]) = butterfly(x[i], x[i + half], w);
                        }
                    }
                    half /= 2;
                }
                group.iter_mut().zip(x).for_each(|(out, x)| store(out, x));
            }
        }

        $(#[$attribute])*
        pub(super) fn transform_inverse(tables: &$crate::ring::backend::field::Transform, a: &mut [u64]) {
            assert_eq!(a.len(), tables.len);
            let nodes = &tables.inverse;
            let a = $crate::ring::backend::registers_mut::<LANES, _>(a);
            let mut bound = first_bound();
            if LANES > 1 {
                let mut narrow = nodes.narrow.chunks_exact(2 * (LANES - 1) * LANES);
                for group in $crate::ring::backend::registers_mut::<LANES, _>(a) {
                    let factors = narrow.next().expect("as many factors as groups");
                    let factors = $crate::ring::backend::registers::<LANES, _>(factors);
                    let mut x: [_; LANES] = std::array::from_fn(|i| load(&group[i]));
                    let mut bound = bound;
                    let mut half = 1;
                    while half < LANES {
                        // The nodes of this depth follow those of all depths above.
                        let above = LANES / (2 * half) - 1;
                        for block in 0..LANES / (2 * half) {
                            let w = [0, 1].map(|part| load(&factors[2 * (above + block) + part]));
                            for i in 2 * half * block..2 * half * block + half {
                                (x[i], x[i + half]) = butterfly_inverse(x[i], x[i + half], w, bound);
                            }
                        }
                        bound = sum(bound, bound);
                        half *= 2;
                    }
                    group.iter_mut().zip(transpose(x)).for_each(|(out, x)| store(out, x));
                }
                (0..LANES.ilog2()).for_each(|_| bound = sum(bound, bound));
            }
            let mut depth = a.len().ilog2();
            // The last stage is apart: an odd number of stages is before it, or an even one.
            if depth % 2 == 0 {
                depth -= 1;
                for (block, part) in a.as_chunks_mut::<2>().0.iter_mut().enumerate() {
                    let w = everywhere(nodes.wide[(1 << depth) + block]);
                    let (x, y) = butterfly_inverse(load(&part[0]), load(&part[1]), w, bound);
                    store(&mut part[0], x);
                    store(&mut part[1], y);
                }
                bound = sum(bound, bound);
            }
            while depth > 1 {
                depth -= 2;
                let size = a.len() >> depth;
                let second = sum(bound, bound);
                for (block, part) in a.chunks_exact_mut(size).enumerate() {
                    let node = (1 << depth) + block;
                    let first = everywhere(nodes.wide[node]);
                    let [left, right] = [2 * node, 2 * node + 1].map(|node| everywhere(nodes.wide[node]));
                    let (low, high) = part.split_at_mut(size / 2);
                    let ((p0, p1), (p2, p3)) = (low.split_at_mut(size / 4), high.split_at_mut(size / 4));
                    for (((p0, p1), p2), p3) in p0.iter_mut().zip(p1).zip(p2).zip(p3) {
                        let (x0, x1) = butterfly_inverse(load(p0), load(p1), left, bound);
                        let (x2, x3) = butterfly_inverse(load(p2), load(p3), right, bound);
                        let (x0, x2) = butterfly_inverse(x0, x2, first, second);
                        let (x1, x3) = butterfly_inverse(x1, x3, first, second);
                        store(p0, x0);
                        store(p1, x1);
                        store(p2, x2);
                        store(p3, x3);
                    }
                }
                bound = sum(second, second);
            }
            let [scale, w] = tables.finish.map(|factor| everywhere(factor));
            let (low, high) = a.split_at_mut(a.len() / 2);
            for (p, q) in low.iter_mut().zip(high) {
                let (x, y) = butterfly_inverse(load(p), load(q), w, bound);
                store(p, scaled(x, scale));
                store(q, y);
            }
        }

        /// The next register of a sequence.
        $(#[$attribute])*
        #[inline]
        fn next<'a>(words: &mut impl Iterator<Item = &'a [u64; LANES]>) -> $register {
            load(words.next().expect("as many factors as there are nodes"))
        }

        $(#[$attribute])*
        pub(super) fn enter(a: &mut [u64]) {
            for a in $crate::ring::backend::registers_mut::<LANES, _>(a) {
                store(a, enter_register(load(a)));
            }
        }

        $(#[$attribute])*
        pub(super) fn leave(a: &mut [u64]) {
            for a in $crate::ring::backend::registers_mut::<LANES, _>(a) {
                store(a, leave_register(load(a)));
            }
        }

        $(#[$attribute])*
        pub(super) fn add(a: &mut [u64], b: &[u64]) {
            assert_eq!(a.len(), b.len());
            let b = $crate::ring::backend::registers::<LANES, _>(b);
            for (a, b) in $crate::ring::backend::registers_mut::<LANES, _>(a).iter_mut().zip(b) {
                store(a, sum(load(a), load(b)));
            }
        }

        $(#[$attribute])*
        pub(super) fn multiply(a: &mut [u64], b: &[u64]) {
            assert_eq!(a.len(), b.len());
            let b = $crate::ring::backend::registers::<LANES, _>(b);
            for (a, b) in $crate::ring::backend::registers_mut::<LANES, _>(a).iter_mut().zip(b) {
                store(a, product(load(a), load(b)));
            }
        }

        $(#[$attribute])*
        pub(super) fn scale(a: &mut [u64], factors: &$crate::ring::backend::field::Factors) {
            assert_eq!(a.len(), factors.words.len());
            let [words, companions] = [&factors.words, &factors.companions]
                .map(|part| $crate::ring::backend::registers::<LANES, _>(part));
            let a = $crate::ring::backend::registers_mut::<LANES, _>(a);
            for ((a, word), companion) in a.iter_mut().zip(words).zip(companions) {
                store(a, scaled(load(a), [load(word), load(companion)]));
            }
        }
    };
}

pub(in crate::ring::backend) use field_transform;
