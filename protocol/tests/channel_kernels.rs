//! The channel computes the same with the kernels of every back-end.

use chipmunk::ring::backend::Simd;
use panetiere::channel::{self, ChannelParams};
use panetiere::ids::SessionId;
use panetiere::plaintext::PlainPoly;
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng;

#[test]
fn every_back_end_writes_and_reads_the_same() {
    let session = SessionId::derive("kernels.example/log", 0, &[3; 32]);
    let portable = ChannelParams::prony_for_messages(30, 1000).unwrap();
    let payloads: Vec<Vec<u8>> = (0..30u8).map(|i| vec![i; usize::from(i) * 34]).collect();

    let vectors = |params: &ChannelParams| -> Vec<Vec<PlainPoly>> {
        let mut rng = ChaCha20Rng::seed_from_u64(4);
        let encode =
            |payload: &Vec<u8>| channel::encode_message(&mut rng, params, &session, payload).unwrap();
        payloads.iter().map(encode).chain([channel::cover(params)]).collect()
    };
    let expected = vectors(&portable);
    let mut sum = vec![PlainPoly::zero(); portable.n_polys()];
    for vector in &expected {
        for (total, poly) in sum.iter_mut().zip(vector) {
            for (cell, scalar) in total.coefficients_mut().iter_mut().zip(poly.coefficients()) {
                *cell = (*cell + scalar) % portable.plaintext_modulus();
            }
        }
    }

    assert!(Simd::available().count() >= 1);
    for simd in Simd::available() {
        let params = portable.clone().with_kernels(simd.kernels());
        assert_eq!(params, portable, "kernels are no part of equality");
        assert!(vectors(&params) == expected, "{simd}");
        assert_eq!(channel::decode_messages(&params, &session, &sum, Some(30)).unwrap(), payloads, "{simd}");
    }
}
