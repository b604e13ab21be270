//! Measures the payload layer: one client's encoding and the recipient's decoding, on one thread.
//!
//! ```text
//! sketch SIMD prepare CLIENTS BYTES FILE          writes the sum of as many messages as there are clients
//! sketch SIMD encode  CLIENTS BYTES REPEATS       encodes one message, prints the best and the median time
//! sketch SIMD decode  CLIENTS BYTES REPEATS FILE  decodes the file
//! ```
//!
//! Instructions: `valgrind --tool=callgrind --toggle-collect=sketch::measured_decode sketch avx2 decode ...` with one
//! repeat.

use chipmunk::ring::backend::Simd;
use panetiere::channel::{self, ChannelParams};
use panetiere::ids::SessionId;
use panetiere::plaintext::PlainPoly;
use rand_chacha::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};
use std::hint::black_box;
use std::time::Instant;

/// Errors as text: an example needs no more.
type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

fn session() -> SessionId {
    SessionId::derive("sketch.example/log", 0, &[1; 32])
}

fn payload(rng: &mut ChaCha20Rng, bytes: usize) -> Vec<u8> {
    let mut payload = vec![0; bytes];
    rng.fill_bytes(&mut payload);
    payload
}

fn prepare(params: &ChannelParams, file: &str) -> Result<()> {
    let mut rng = ChaCha20Rng::seed_from_u64(1);
    let mut total = channel::cover(params);
    for _ in 0..params.capacity() {
        let payload = payload(&mut rng, params.max_message_bytes());
        let vector = channel::encode_message(&mut rng, params, &session(), &payload)?;
        for (total, poly) in total.iter_mut().zip(&vector) {
            for (cell, &value) in total.coefficients_mut().iter_mut().zip(poly.coefficients()) {
                *cell = (*cell + value) % params.plaintext_modulus();
            }
        }
    }
    let bytes: Vec<u8> = total.iter().flat_map(|p| p.coefficients()).flat_map(|c| c.to_le_bytes()).collect();
    Ok(std::fs::write(file, bytes)?)
}

#[inline(never)]
fn measured_encode(rng: &mut ChaCha20Rng, params: &ChannelParams, payload: &[u8]) -> Vec<PlainPoly> {
    channel::encode_message(rng, params, &session(), payload).expect("the payload fits")
}

#[inline(never)]
fn measured_decode(params: &ChannelParams, sum: &[PlainPoly]) -> Vec<Vec<u8>> {
    channel::decode_messages(params, &session(), sum, Some(params.capacity())).expect("a sum of messages")
}

/// Calls repeatedly and prints how long it took. Dropping the result is not part of it.
fn report<T>(name: &str, repeats: usize, mut call: impl FnMut() -> T) {
    let mut times: Vec<f64> = (0..repeats)
        .map(|_| {
            let start = Instant::now();
            let result = black_box(call());
            let elapsed = start.elapsed();
            drop(result);
            elapsed.as_secs_f64() * 1e3
        })
        .collect();
    times.sort_by(f64::total_cmp);
    println!("{name}: best {:.2} ms, median {:.2} ms of {repeats}", times[0], times[repeats / 2]);
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [simd, mode, clients, bytes, rest @ ..] = arguments.as_slice() else {
        return Err("see the head of this file".into());
    };
    let simd: Simd = simd.parse()?;
    let params =
        ChannelParams::prony_for_messages(clients.parse()?, bytes.parse()?)?.with_kernels(simd.kernels());
    // This thread is the pool, so that callgrind's collection state holds for all work.
    rayon::ThreadPoolBuilder::new().num_threads(1).use_current_thread().build_global()?;
    match (mode.as_str(), rest) {
        ("prepare", [file]) => prepare(&params, file)?,
        ("encode", [repeats]) => {
            let mut rng = ChaCha20Rng::seed_from_u64(2);
            let payload = payload(&mut rng, params.max_message_bytes());
            report("encode", repeats.parse()?, || measured_encode(&mut rng, &params, &payload));
        }
        ("decode", [repeats, file]) => {
            let bytes = std::fs::read(file)?;
            let scalars: Vec<u64> =
                bytes.as_chunks().0.iter().map(|&word| u64::from_le_bytes(word)).collect();
            let sum = PlainPoly::from_scalars(&scalars);
            report("decode", repeats.parse()?, || measured_decode(&params, &sum));
        }
        _ => return Err("see the head of this file".into()),
    }
    Ok(())
}
