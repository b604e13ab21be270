//! Every kernel of every back-end of this CPU, with criterion: `cargo bench -p panetiere-chipmunk --bench kernels`.
//! `panetiere bench kernels` is the short form, next to the clock that a chain of dependent additions shows.

use chipmunk::N;
use chipmunk::digits::DigitBase;
use chipmunk::params::P300;
use chipmunk::ring::backend::{Kernels, Simd};
use chipmunk::ring::crt::CsProducts;
use chipmunk::ring::modulus::Prime;
use chipmunk::ring::sample::Gaussian;
use chipmunk::ring::switch::ModulusSwitch;
use chipmunk::ring::{Cs, RingContext, ShortPoly};
use criterion::{Criterion, criterion_group, criterion_main};
use std::hint::black_box;
use std::time::Duration;

/// Takes a kernel's name and one call of it.
type Report<'a> = &'a mut dyn FnMut(&str, &mut dyn FnMut());

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

fn ring_kernels(kernels: &Kernels, report: Report<'_>) {
    for (name, q) in [("21 bit", P300.lane), ("24 bit", P300.kahe[0]), ("30 bit", P300.cs_aux[0])] {
        let prime = Prime::new(q);
        let Input { a, b, signed, .. } = Input::new(q);
        let mut out = a.clone();
        let mut named = |kernel: &str, call: &mut dyn FnMut()| report(&format!("{kernel}/{name}"), call);
        named("ntt_forward", &mut || (kernels.ntt_forward)(&prime, black_box(&mut out)));
        named("ntt_inverse", &mut || (kernels.ntt_inverse)(&prime, black_box(&mut out)));
        named("add", &mut || (kernels.add)(&prime, black_box(&mut out), black_box(&b)));
        named("sub", &mut || (kernels.sub)(&prime, black_box(&mut out), black_box(&b)));
        named("scale", &mut || (kernels.scale)(&prime, black_box(&mut out), 12345));
        named("mul", &mut || (kernels.mul)(&prime, black_box(&mut out), black_box(&a), black_box(&b)));
        let terms = [[&a[..], &b]; 5];
        named("dot of 5", &mut || (kernels.dot)(&prime, black_box(&terms), black_box(&mut out)));
        named("from_signed", &mut || (kernels.from_signed)(&prime, black_box(&mut out), black_box(&signed)));
    }
    let words: Vec<_> = Input::new(3).words.into_iter().map(u64::to_le_bytes).collect();
    let mut out = vec![0i32; N];
    for which in [Gaussian::Error, Gaussian::Key] {
        report(&format!("gaussian/{which:?}"), &mut || {
            (kernels.gaussian)(which.table(), black_box(&words), black_box(&mut out));
        });
    }
}

fn ciphertext_kernels(kernels: &'static Kernels, report: Report<'_>) {
    let kahe = RingContext::new(&P300.kahe, kernels);
    let wire = RingContext::new(&P300.wire, kernels);
    let switch = ModulusSwitch::new(&kahe, &wire, P300.plaintext_prime);
    let [mask_0, mask_1] = P300.kahe.map(|q| Input::new(q).a);
    let mask = [&mask_0[..], &mask_1];
    let error = Input::new(P300.kahe[0]).signed;
    let mut message: Vec<u64> = Input::new(3).words.iter().map(|word| word % P300.plaintext_prime).collect();
    let [mut out_0, mut out_1] = [vec![0; N], vec![0; N]];
    report("encrypt", &mut || {
        let out = [&mut out_0[..], &mut out_1];
        (kernels.encrypt)(&switch, black_box(mask), black_box(&error), black_box(&message), out);
    });
    report("decrypt", &mut || {
        let sum = [&out_0[..], &out_1];
        black_box((kernels.decrypt)(&switch, black_box(sum), black_box(mask), &mut message));
    });
}

fn packing_kernels(kernels: &Kernels, report: Report<'_>) {
    for width in [17, 21] {
        let mask = (1 << width) - 1;
        let words: Vec<u32> = Input::new(P300.kahe[0]).a.iter().map(|word| word & mask).collect();
        let mut bytes = vec![0; N * width as usize / 8];
        let mut out = words.clone();
        let mut named = |kernel: &str, call: &mut dyn FnMut()| report(&format!("{kernel}/{width} bit"), call);
        named("pack", &mut || (kernels.pack)(width, black_box(&words), black_box(&mut bytes)));
        named("unpack", &mut || {
            black_box((kernels.unpack)(width, black_box(&bytes), black_box(&mut out)));
        });
        named("add_packed", &mut || {
            black_box((kernels.add_packed)(width, black_box(&bytes), black_box(&mut out)));
        });
    }
}

fn commitment_kernels(kernels: &'static Kernels, report: Report<'_>) {
    let cs = RingContext::<Cs>::new(&[P300.cs], kernels);
    let base = DigitBase::new(P300.cs_base);
    let poly = cs.from_short(&{
        let mut short = ShortPoly::zero();
        short.coefficients_mut().copy_from_slice(&Input::new(P300.cs).signed);
        short
    });
    report("decompose", &mut || {
        black_box(base.decompose(&cs, black_box(&poly)));
    });
    let products = CsProducts::new(cs, RingContext::new(&P300.cs_aux, kernels));
    report("factor", &mut || {
        black_box(products.factor(black_box(&poly)));
    });
    let row: Vec<_> = (0..P300.kappa).map(|_| products.factor(&poly)).collect();
    report("CS dot of 5", &mut || {
        black_box(products.dot(black_box(&row), black_box(&row)));
    });
}

fn kernels(criterion: &mut Criterion) {
    for simd in Simd::available() {
        let mut group = criterion.benchmark_group(simd.to_string());
        group.warm_up_time(Duration::from_millis(100)).measurement_time(Duration::from_millis(400));
        let mut report = |name: &str, call: &mut dyn FnMut()| {
            group.bench_function(name, |bencher| bencher.iter(&mut *call));
        };
        ring_kernels(simd.kernels(), &mut report);
        ciphertext_kernels(simd.kernels(), &mut report);
        packing_kernels(simd.kernels(), &mut report);
        commitment_kernels(simd.kernels(), &mut report);
        group.finish();
    }
}

criterion_group!(benches, kernels);
criterion_main!(benches);
