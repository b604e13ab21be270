//! Times every kernel of every back-end of this CPU: nanoseconds a call, the best of many batches, next to the clock
//! that a chain of dependent additions shows in the same run. `cargo bench -p panetiere-chipmunk --bench kernels`.

use chipmunk::N;
use chipmunk::digits::DigitBase;
use chipmunk::params::P300;
use chipmunk::ring::backend::{Kernels, Simd};
use chipmunk::ring::crt::CsProducts;
use chipmunk::ring::modulus::Prime;
use chipmunk::ring::sample::Gaussian;
use chipmunk::ring::switch::ModulusSwitch;
use chipmunk::ring::{Cs, RingContext, ShortPoly};
use std::hint::black_box;
use std::time::{Duration, Instant};

/// Calls per timed batch.
const BATCH: u32 = 16;

/// Time spent on each kernel.
const BUDGET: Duration = Duration::from_millis(60);

/// The best time of one call, in nanoseconds.
fn best(mut call: impl FnMut()) -> f64 {
    let start = Instant::now();
    let mut best = f64::INFINITY;
    while start.elapsed() < BUDGET {
        let batch = Instant::now();
        (0..BATCH).for_each(|_| call());
        best = best.min(batch.elapsed().as_secs_f64() * 1e9 / f64::from(BATCH));
    }
    best
}

/// Clock rate in GHz: a chain of dependent one-cycle operations.
fn clock() -> f64 {
    const LINKS: u32 = 4096;
    let (a, b) = (black_box(0x9E37_79B9_7F4A_7C15u64), black_box(0x1234_5678_9ABC_DEF1u64));
    let mut x = a;
    let ns = best(|| {
        // Alternating, so that the compiler cannot shorten it: two links an iteration.
        for _ in 0..LINKS / 2 {
            x = (x ^ a).wrapping_add(b);
        }
        x = black_box(x);
    });
    f64::from(LINKS) / ns
}

struct Input {
    words: Vec<u64>,
    a: Vec<u32>,
    b: Vec<u32>,
    signed: Vec<i32>,
}

impl Input {
    fn new(q: u32) -> Self {
        let mut state = 1u64;
        let mut draw = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state ^ state >> 29
        };
        let mut residues =
            || (0..N).map(|_| u32::try_from((draw() >> 1) % u64::from(q)).expect("a residue")).collect();
        let (a, b): (Vec<u32>, Vec<u32>) = (residues(), residues());
        let signed = a.iter().map(|&a| (a % 289).cast_signed() - 144).collect();
        Self { words: (0..N).map(|_| draw()).collect(), a, b, signed }
    }
}

fn ring_kernels(kernels: &Kernels, report: &mut impl FnMut(&str, f64)) {
    for (name, q) in [("24 bit", P300.kahe[0]), ("30 bit", P300.cs_aux[0])] {
        let prime = Prime::new(q);
        let Input { a, b, signed, .. } = Input::new(q);
        let mut out = a.clone();
        let mut named = |kernel: &str, ns| report(&format!("{kernel} {name}"), ns);
        named("ntt_forward", best(|| (kernels.ntt_forward)(&prime, black_box(&mut out))));
        named("ntt_inverse", best(|| (kernels.ntt_inverse)(&prime, black_box(&mut out))));
        named("add", best(|| (kernels.add)(&prime, black_box(&mut out), black_box(&b))));
        named("sub", best(|| (kernels.sub)(&prime, black_box(&mut out), black_box(&b))));
        named("scale", best(|| (kernels.scale)(&prime, black_box(&mut out), 12345)));
        named("mul", best(|| (kernels.mul)(&prime, black_box(&mut out), black_box(&a), black_box(&b))));
        let terms = [[&a[..], &b]; 5];
        named("dot of 5", best(|| (kernels.dot)(&prime, black_box(&terms), black_box(&mut out))));
        named("from_signed", best(|| (kernels.from_signed)(&prime, black_box(&mut out), black_box(&signed))));
    }
    let words: Vec<_> = Input::new(3).words.into_iter().map(u64::to_le_bytes).collect();
    let mut out = vec![0i32; N];
    for which in [Gaussian::Error, Gaussian::Key] {
        let ns = best(|| (kernels.gaussian)(which.table(), black_box(&words), black_box(&mut out)));
        report(&format!("gaussian {which:?}"), ns);
    }
}

fn ciphertext_kernels(kernels: &'static Kernels, report: &mut impl FnMut(&str, f64)) {
    let kahe = RingContext::new(&P300.kahe, kernels);
    let wire = RingContext::new(&P300.wire, kernels);
    let switch = ModulusSwitch::new(&kahe, &wire, P300.plaintext_prime);
    let [mask_0, mask_1] = P300.kahe.map(|q| Input::new(q).a);
    let mask = [&mask_0[..], &mask_1];
    let error = Input::new(P300.kahe[0]).signed;
    let mut message: Vec<u64> = Input::new(3).words.iter().map(|word| word % P300.plaintext_prime).collect();
    let [mut out_0, mut out_1] = [vec![0; N], vec![0; N]];
    let ns = best(|| {
        let out = [&mut out_0[..], &mut out_1];
        (kernels.encrypt)(&switch, black_box(mask), black_box(&error), black_box(&message), out);
    });
    report("encrypt", ns);
    let ns = best(|| {
        let sum = [&out_0[..], &out_1];
        black_box((kernels.decrypt)(&switch, black_box(sum), black_box(mask), &mut message));
    });
    report("decrypt", ns);
}

fn packing_kernels(kernels: &Kernels, report: &mut impl FnMut(&str, f64)) {
    for width in [17, 21] {
        let mask = (1 << width) - 1;
        let words: Vec<u32> = Input::new(P300.kahe[0]).a.iter().map(|word| word & mask).collect();
        let mut bytes = vec![0; N * width as usize / 8];
        let mut out = words.clone();
        let mut named = |kernel: &str, ns| report(&format!("{kernel} {width} bit"), ns);
        named("pack", best(|| (kernels.pack)(width, black_box(&words), black_box(&mut bytes))));
        named(
            "unpack",
            best(|| {
                black_box((kernels.unpack)(width, black_box(&bytes), black_box(&mut out)));
            }),
        );
        named(
            "add_packed",
            best(|| {
                black_box((kernels.add_packed)(width, black_box(&bytes), black_box(&mut out)));
            }),
        );
    }
}

fn commitment_kernels(kernels: &'static Kernels, report: &mut impl FnMut(&str, f64)) {
    let cs = RingContext::<Cs>::new(&[P300.cs], kernels);
    let base = DigitBase::new(P300.cs_base);
    let poly = cs.from_short(&{
        let mut short = ShortPoly::zero();
        short.coefficients_mut().copy_from_slice(&Input::new(P300.cs).signed);
        short
    });
    report(
        "decompose",
        best(|| {
            black_box(base.decompose(&cs, black_box(&poly)));
        }),
    );
    let products = CsProducts::new(cs, RingContext::new(&P300.cs_aux, kernels));
    report(
        "factor",
        best(|| {
            black_box(products.factor(black_box(&poly)));
        }),
    );
    let row: Vec<_> = (0..P300.kappa).map(|_| products.factor(&poly)).collect();
    report(
        "CS dot of 5",
        best(|| {
            black_box(products.dot(black_box(&row), black_box(&row)));
        }),
    );
}

fn main() {
    for simd in Simd::available() {
        let ghz = clock();
        println!("{simd}, clock {ghz:.2} GHz: kernel, ns, ns at 4 GHz");
        let mut report = |name: &str, ns| println!("{name:24} {ns:9.0} {:9.0}", ns * ghz / 4.0);
        ring_kernels(simd.kernels(), &mut report);
        ciphertext_kernels(simd.kernels(), &mut report);
        packing_kernels(simd.kernels(), &mut report);
        commitment_kernels(simd.kernels(), &mut report);
    }
}
