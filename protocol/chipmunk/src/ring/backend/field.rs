//! Kernels of the payload layer's prime field: integers modulo p = 34380709889 = 32788 * 2^20 + 1.
//!
//! What the sketch encoder computes is constant time ([`FieldKernels::multiply_add`]). What its decoder computes is
//! not meant to be: it works on the sum that the round makes public.
//!
//! The decoder's transforms work on *native* words: field elements in a form of the back-end's own, reduced lazily.
//! [`FieldKernels::enter`] and [`FieldKernels::leave`] convert. The word 0 is the element 0 everywhere. Native words
//! of one back-end mean nothing to another.

pub(super) mod scalar;
#[cfg(test)]
mod tests;
mod transform;
pub mod word;

pub(super) use transform::field_transform;

/// Safe functions around kernels of a back-end.
macro_rules! field_dispatch {
    ($(fn $name:ident($($arg:ident: $kind:ty),*) = $kernel:path;)*) => {$(
        #[allow(unsafe_code)]
        pub(super) fn $name($($arg: $kind),*) {
            // SAFETY: `Simd::table` hands out the kernels that lead here, the only path to this function, after
            // `detected` found every feature that they enable.
            unsafe { $kernel($($arg),*) }
        }
    )*};
}
pub(super) use field_dispatch;

/// The table of a vector back-end, over the kernels that stand around it under these names.
macro_rules! field_kernels {
    () => {
        /// Reachable only through the back-end's table of kernels.
        pub(super) static KERNELS: $crate::ring::backend::field::FieldKernels =
            $crate::ring::backend::field::FieldKernels {
                lanes: LANES,
                radix: RADIX,
                multiply_add: dispatch::multiply_add,
                factor,
                enter: dispatch::enter,
                leave: dispatch::leave,
                transform: dispatch::transform,
                transform_inverse: dispatch::transform_inverse,
                add: dispatch::add,
                multiply: dispatch::multiply,
                scale: dispatch::scale,
                pack_rows: products::pack_rows,
                products: dispatch::products,
            };

        mod dispatch {
            use $crate::ring::backend::field::{Factors, Rows, Transform, field_dispatch};

            field_dispatch! {
                fn multiply_add(out: &mut [u64], words: &[u64], scalar: u64) = super::multiply_add;
                fn enter(a: &mut [u64]) = super::enter;
                fn leave(a: &mut [u64]) = super::leave;
                fn transform(tables: &Transform, a: &mut [u64]) = super::transform;
                fn transform_inverse(tables: &Transform, a: &mut [u64]) = super::transform_inverse;
                fn add(a: &mut [u64], b: &[u64]) = super::add;
                fn multiply(a: &mut [u64], b: &[u64]) = super::multiply;
                fn scale(a: &mut [u64], factors: &Factors) = super::scale;
                fn products(rows: &Rows, columns: &[u64], stride: usize, out: &mut [u64]) = super::products::products;
            }
        }
    };
}
pub(super) use field_kernels;

use std::fmt;

/// The prime p = 34380709889 = 32788 * 2^20 + 1, of 35.0009 bits. 2^22 divides p - 1.
pub const PRIME: u64 = 32_788 * (1 << 20) + 1;

/// Generates the multiplicative group: smallest base for which neither of (p-1)/2, (p-1)/7, (p-1)/1171 gives 1, and
/// p - 1 = 2^22 * 7 * 1171.
pub const GENERATOR: u64 = 3;

/// Shortest transform: the square of the most lanes that a back-end has.
pub const MIN_TRANSFORM: usize = 64;

/// Longest transform. Lazy reduction is sized for it.
pub const MAX_TRANSFORM: usize = 1 << 13;

/// A field element that multiplies many others: in the back-end's own form, with a companion that makes the
/// multiplication cheap.
pub type Factor = [u64; 2];

/// The arithmetic of one back-end. Canonical words are in `[0, p)`.
pub struct FieldKernels {
    /// Words that one register holds.
    pub lanes: usize,
    /// See [`multiply_add`](Self::multiply_add).
    pub radix: u64,
    /// `out += words * scalar / radix`, word by word, all canonical. Constant time in all of them.
    ///
    /// The division makes the kernel cheap: whoever multiplies many times scales `words` by the radix once.
    pub multiply_add: fn(out: &mut [u64], words: &[u64], scalar: u64),
    /// A canonical element as a factor.
    pub factor: fn(u64) -> Factor,
    /// Canonical words to native ones. The length is a multiple of the lanes, as in all that follow.
    pub enter: fn(&mut [u64]),
    /// Native words to canonical ones.
    pub leave: fn(&mut [u64]),
    /// Transform in place: coefficients of a polynomial (constant term first, degree below the length) to its values
    /// at the roots of X^length - coset^length, in an order of the back-end's own.
    pub transform: fn(&Transform, &mut [u64]),
    /// The polynomial from its values.
    pub transform_inverse: fn(&Transform, &mut [u64]),
    /// `a += b`. Takes products only, and what this makes is for [`multiply`](Self::multiply), `leave` and
    /// `transform_inverse` only.
    pub add: fn(a: &mut [u64], b: &[u64]),
    /// `a *= b`.
    pub multiply: fn(a: &mut [u64], b: &[u64]),
    /// `a *= factors`.
    pub scale: fn(a: &mut [u64], factors: &Factors),
    /// Canonical rows of the same width, one after the other, for [`products`](Self::products).
    pub pack_rows: fn(rows: &[u64], width: usize) -> Rows,
    /// `out[r * n + s]` = sum over j of `rows[r][j] * columns[s * stride + j]`, n = `out.len()` / rows. Canonical. The
    /// columns hold n - 1 strides and a width.
    pub products: fn(rows: &Rows, columns: &[u64], stride: usize, out: &mut [u64]),
}

impl fmt::Debug for FieldKernels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FieldKernels").field("lanes", &self.lanes).finish_non_exhaustive()
    }
}

/// A vector of factors.
#[derive(Clone, Debug)]
pub struct Factors {
    pub(super) words: Vec<u64>,
    pub(super) companions: Vec<u64>,
}

impl Factors {
    /// Factors from canonical elements.
    pub fn new(kernels: &FieldKernels, canonical: &[u64]) -> Self {
        let (words, companions) =
            canonical.iter().map(|&c| (kernels.factor)(c)).map(|[word, companion]| (word, companion)).unzip();
        Self { words, companions }
    }
}

/// The left factor of matrix products, in the back-end's own form.
#[derive(Clone, Debug)]
pub struct Rows {
    pub(super) width: usize,
    pub(super) count: usize,
    pub(super) words: Vec<u64>,
    /// Used by some back-ends only.
    pub(super) low: Vec<u32>,
}

impl Rows {
    /// Rows.
    pub const fn count(&self) -> usize {
        self.count
    }

    /// Entries of each row.
    pub const fn width(&self) -> usize {
        self.width
    }

    pub(super) fn row(&self, index: usize) -> &[u64] {
        &self.words[index * self.width..][..self.width]
    }
}

/// Cuts `total` columns into as few equal parts of at most `max` as possible; the last one may be shorter.
pub(super) fn parts(total: usize, max: usize) -> impl Iterator<Item = std::ops::Range<usize>> {
    let size = total.div_ceil(total.div_ceil(max).max(1)).max(1);
    (0..total).step_by(size).map(move |start| start..total.min(start + size))
}

/// The tables of a transform of one length on one coset.
///
/// X^n - c^n splits into X^(n/2) - s and X^(n/2) + s with s^2 = c^n, and so on down. The splits are the nodes of a
/// binary tree in heap order, each with its s: node 2^d + b has `c^(n / 2^(d+1)) * w^bitrev(b)`, w a primitive n-th
/// root of unity and the b reversed as a number of log2(n) - 1 bits.
#[derive(Clone)]
pub struct Transform {
    pub(super) len: usize,
    pub(super) forward: Nodes,
    pub(super) inverse: Nodes,
    /// 1 / n, and what the inverse's last stage multiplies differences with: its node times 1 / n.
    pub(super) finish: [Factor; 2],
}

impl fmt::Debug for Transform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transform").field("len", &self.len).finish_non_exhaustive()
    }
}

/// Factors of the nodes of one direction.
#[derive(Clone)]
pub(super) struct Nodes {
    /// Those of blocks of at least two registers, in heap order; index 0 is no node.
    pub(super) wide: Vec<Factor>,
    /// Those of smaller blocks, in the order of use: for each group of as many blocks of one register as there are
    /// lanes, depth by depth and node by node, one register of words (a lane for each block) and one of companions.
    pub(super) narrow: Vec<u64>,
}

impl Nodes {
    fn new(kernels: &FieldKernels, heap: &[u64]) -> Self {
        let (len, lanes) = (heap.len(), kernels.lanes);
        let blocks = len / lanes;
        let mut narrow = Vec::with_capacity(2 * (lanes - 1) * blocks);
        for group in (0..blocks).step_by(lanes) {
            let mut width = 1;
            while width < lanes {
                for child in 0..width {
                    let node = |lane| heap[width * (blocks + group + lane) + child];
                    let factors = (0..lanes).map(|lane| (kernels.factor)(node(lane)));
                    let (words, companions): (Vec<u64>, Vec<u64>) =
                        factors.map(|[word, companion]| (word, companion)).unzip();
                    narrow.extend(words.into_iter().chain(companions));
                }
                width *= 2;
            }
        }
        Self { wide: heap[..blocks].iter().map(|&w| (kernels.factor)(w)).collect(), narrow }
    }
}

impl Transform {
    /// The transform of `len` words on `coset` times the `len`-th roots of unity.
    ///
    /// Range: `len` a power of two in [`MIN_TRANSFORM`]..=[`MAX_TRANSFORM`], `coset` canonical, not 0.
    ///
    /// # Panics
    /// If the length is another.
    pub fn new(kernels: &FieldKernels, len: usize, coset: u64) -> Self {
        assert!(
            len.is_power_of_two() && (MIN_TRANSFORM..=MAX_TRANSFORM).contains(&len),
            "no transform of {len} words"
        );
        debug_assert!((1..PRIME).contains(&coset));
        let n = len as u64;
        let root = scalar::power(GENERATOR, (PRIME - 1) / n);
        let mut powers = vec![0; len / 2];
        powers.iter_mut().fold(1, |power, cell| {
            *cell = power;
            scalar::multiply_canonical(power, root)
        });
        let shift = usize::BITS + 1 - len.ilog2();
        let heap = |coset: u64, invert: bool| {
            let mut heap = vec![0; len];
            for depth in 0..len.ilog2() {
                let scale = scalar::power(coset, n >> (depth + 1));
                for b in 0..1usize << depth {
                    let at = b.reverse_bits() >> shift;
                    // w^-e = -w^(n/2 - e).
                    let power = match (invert, at) {
                        (true, 1..) => PRIME - powers[len / 2 - at],
                        _ => powers[at],
                    };
                    heap[(1 << depth) + b] = scalar::multiply_canonical(scale, power);
                }
            }
            heap
        };
        let inverse = heap(scalar::power(coset, PRIME - 2), true);
        let scale = scalar::power(n, PRIME - 2);
        let finish = [scale, scalar::multiply_canonical(scale, inverse[1])].map(kernels.factor);
        Self {
            len,
            forward: Nodes::new(kernels, &heap(coset, false)),
            inverse: Nodes::new(kernels, &inverse),
            finish,
        }
    }

    /// Words that are transformed.
    #[expect(clippy::len_without_is_empty, reason = "never empty")]
    pub const fn len(&self) -> usize {
        self.len
    }
}
