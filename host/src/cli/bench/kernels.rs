//! `panetiere bench kernels`: the time of each kernel, next to a chain of dependent additions.

use super::{KernelArgs, machine, print};
use crate::cli::Exit;
use chipmunk::N;
use chipmunk::digits::DigitBase;
use chipmunk::params::P300;
use chipmunk::ring::backend::Simd;
use chipmunk::ring::modulus::Prime;
use chipmunk::ring::pack::packed_len;
use chipmunk::ring::sample::Gaussian;
use serde_json::json;
use std::hint::black_box;
use std::time::{Duration, Instant};

const BATCHES: usize = 200;
const RUNS_PER_BATCH: u32 = 20;
/// Additions in the reference chain: long enough that the clock's own time does not count.
const CHAIN: u32 = 100_000;

pub(super) fn execute(args: &KernelArgs, simd: Simd) -> anyhow::Result<Exit> {
    let kernels = simd.kernels();
    let prime = Prime::new(P300.kahe[0]);
    let ramp = |factor: u32| -> Vec<u32> {
        (0..).take(N).map(|i: u32| i.wrapping_mul(factor) % prime.q()).collect()
    };
    let (mut a, b) = (ramp(2_654_435_761), ramp(40_503));
    let mut out = vec![0u32; N];
    let factor = b.clone();
    let terms = [[factor.as_slice(), b.as_slice()]; 6];
    let (node, base) = (Prime::new(P300.hvc), DigitBase::new(P300.hvc_base));
    let label: Vec<u32> = b.iter().map(|&x| x % P300.hvc).collect();
    let mut digits = [vec![0i32; N], vec![0i32; N], vec![0i32; N]];
    let narrow: Vec<u32> = b.iter().map(|&x| x >> 4).collect();
    let mut packed = vec![0u8; packed_len(21)];
    let packed_input = packed.clone();
    let signed: Vec<i32> = b.iter().map(|&x| prime.centred(x)).collect();
    let words: Vec<[u8; 8]> =
        (0..).take(N).map(|i: u64| i.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_le_bytes()).collect();
    let mut samples = vec![0i32; N];
    let add_ns = dependent_add_ns();
    let report = json!({
        "kernels_ns": {
            "ntt_forward": median_ns(|| (kernels.ntt_forward)(&prime, black_box(&mut a))),
            "ntt_inverse": median_ns(|| (kernels.ntt_inverse)(&prime, black_box(&mut a))),
            "add": median_ns(|| (kernels.add)(&prime, black_box(&mut a), &b)),
            "sub": median_ns(|| (kernels.sub)(&prime, black_box(&mut a), &b)),
            "mul": median_ns(|| (kernels.mul)(&prime, black_box(&mut out), &a, &b)),
            "dot_of_6": median_ns(|| (kernels.dot)(&prime, &terms, black_box(&mut out))),
            "decompose": median_ns(|| (kernels.decompose)(&node, &base, &label, black_box(&mut digits).each_mut().map(Vec::as_mut_slice))),
            "pack_21_bits": median_ns(|| (kernels.pack)(21, &narrow, black_box(&mut packed))),
            "add_packed_21_bits": median_ns(|| {
                black_box((kernels.add_packed)(21, &packed_input, black_box(&mut out)));
            }),
            "scale": median_ns(|| (kernels.scale)(&prime, black_box(&mut out), 12_345)),
            "from_signed": median_ns(|| (kernels.from_signed)(&prime, black_box(&mut out), &signed)),
            "gaussian": median_ns(|| (kernels.gaussian)(Gaussian::Error.table(), &words, black_box(&mut samples))),
        },
        "coefficients": N,
        "dependent_add_ns": add_ns,
        "simd": simd.to_string(),
        "cpu": machine::cpu(),
    });
    print(&report, args.json)?;
    Ok(Exit::Ok)
}

/// The time of one addition that waits for the one before it: a clock cycle, whatever the frequency is right now.
fn dependent_add_ns() -> f64 {
    // Fibonacci numbers modulo 2^64: each needs the one before it, and no compiler has a shortcut for them.
    let chain = || {
        let (mut a, mut b) = (black_box(0u64), black_box(1u64));
        for _ in 0..CHAIN {
            (a, b) = (b, a.wrapping_add(b));
        }
        black_box((a, b));
    };
    round(median(|| time(chain)).as_secs_f64() * 1e9 / f64::from(CHAIN))
}

fn median_ns(mut work: impl FnMut()) -> f64 {
    let batch = || time(|| (0..RUNS_PER_BATCH).for_each(|_| work()));
    round(median(batch).as_secs_f64() * 1e9 / f64::from(RUNS_PER_BATCH))
}

fn time(work: impl FnOnce()) -> Duration {
    let started = Instant::now();
    work();
    started.elapsed()
}

fn median(mut sample: impl FnMut() -> Duration) -> Duration {
    let mut samples: Vec<Duration> = (0..BATCHES).map(|_| sample()).collect();
    samples.sort_unstable();
    samples[BATCHES / 2]
}

fn round(nanoseconds: f64) -> f64 {
    (nanoseconds * 1e3).round() / 1e3
}
