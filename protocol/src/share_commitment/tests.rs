use super::*;
use crate::ids::DeploymentId;
use crate::rs::RsParams;
use crate::wire::{DecodeWith, Reader};
use chipmunk::N;
use chipmunk::params::{P300, P1000};
use chipmunk::ring::pack::pack_words;
use chipmunk::ring::{Ntt, backend, sample};
use chipmunk::tree::PathError;
use rand_chacha::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};

fn seed(set: &ParameterSet) -> CrsSeed {
    CrsSeed::derive(&DeploymentId::from_name("lanes test"), set)
}

/// A (needed, lanes) code of `block` polynomials a share with its commitment.
fn setup(
    set: &'static ParameterSet,
    needed: u16,
    lanes: u16,
    block: usize,
) -> (RsParams, ShareCommitmentParams) {
    let lattice = Arc::new(Lattice::new(set, backend::under_test()));
    let code = RsParams::new(Arc::clone(&lattice), needed, lanes, block * usize::from(needed));
    (code, ShareCommitmentParams::new(lattice, &seed(set), lanes, block))
}

fn shares(set: &ParameterSet, code: &RsParams, rng: &mut ChaCha20Rng) -> Vec<Share> {
    let mut bytes = Vec::new();
    for at in 0..2 * code.block_polys() * usize::from(code.needed()) {
        let words: Vec<u32> = (0..N).map(|_| rng.next_u32() % set.wire[at % 2]).collect();
        pack_words(&words, set.wire_limb_bits, &mut bytes);
    }
    code.encode(&bytes).unwrap()
}

/// Several clients' commitments: sums of roots and shares by ring and code arithmetic, running sums per lane.
struct Summed {
    root: Poly<Lane, Coeff>,
    shares: Vec<Share>,
    sums: Vec<ShareSum>,
}

fn sum(
    set: &ParameterSet,
    (code, params): &(RsParams, ShareCommitmentParams),
    clients: u32,
    rng: &mut ChaCha20Rng,
) -> Summed {
    let lanes = usize::from(params.lanes());
    let mut out = Summed {
        root: Poly::zero(),
        shares: vec![Share::zero(code.block_polys()); lanes],
        sums: vec![ShareSum::new(params); lanes],
    };
    for _ in 0..clients {
        let shares = shares(set, code, rng);
        let (commitment, paths) = params.commit(&shares);
        params.lattice.lane.add_assign(&mut out.root, commitment.root());
        let digest = commitment.digest(&params.lattice);
        for (lane, (share, path)) in shares.iter().zip(&paths).enumerate() {
            let id = NodeId(u16::try_from(lane).unwrap());
            let verified = params.verify_share(id, share.clone(), path, &digest).unwrap();
            out.sums[lane].add(params, &verified);
            code.add_assign(&mut out.shares[lane], share);
        }
    }
    out
}

#[test]
fn sizes_of_the_reference_cell() {
    // 553 polynomials over 14 lanes are 40 a share.
    assert_eq!(553usize.div_ceil(14), 40);
    assert_eq!(40 * 2 * packed_len(P300.wire_limb_bits), 430_080);
    assert_eq!(fresh_path_packed_len(&P300, 16), 4 * 5376);
    // 160 digit polynomials of 19 bits, 4 * 5 path polynomials of 16.
    assert_eq!(lane_post_packed_len(&P300, 40, 16, 300), 160 * 4864 + 20 * 4096);
    let (_, params) = setup(&P300, 2, 3, 1);
    assert_eq!(params.path_len(), fresh_path_packed_len(&P300, 3));
    assert_eq!(params.summed_layout(7).packed_len(), lane_post_packed_len(&P300, 1, 3, 7));
}

/// The product in Z_q[X]/(X^N + 1) by its definition.
fn negacyclic(a: &[u32], b: &[i64], q: u32) -> Vec<i64> {
    let mut out = vec![0i64; N];
    for (i, &x) in a.iter().enumerate() {
        for (j, &y) in b.iter().enumerate() {
            let term = i64::from(x) * y % i64::from(q);
            let sign = if i + j < N { 1 } else { -1 };
            out[(i + j) % N] = (out[(i + j) % N] + sign * term) % i64::from(q);
        }
    }
    out.into_iter().map(|c| c.rem_euclid(q.into())).collect()
}

/// The row of the leaf hash, expanded again from the seed.
fn row(set: &'static ParameterSet, params: &ShareCommitmentParams, columns: u32) -> Vec<Poly<Lane, Coeff>> {
    let expander = seed(set).expander("panetiere/lanes/leaf-hash/v1");
    let ring = &params.lattice.lane;
    let column = |index| -> Poly<Lane, Ntt> { sample::uniform_ntt(ring, &expander, index) };
    (0..columns).map(|index| ring.inverse(column(index))).collect()
}

#[test]
fn a_label_is_the_inner_product_with_the_digits() {
    for set in [&P300, &P1000] {
        let (code, params) = setup(set, 1, 1, 1);
        let share = &shares(set, &code, &mut ChaCha20Rng::from_seed([1; 32]))[0];
        let row = row(set, &params, 4);
        let (q0, q1) = (i64::from(set.wire[0]), i64::from(set.wire[1]));
        let base = i64::from(set.share_base);
        let mut digits = vec![vec![0i64; N]; 4];
        for i in 0..N {
            // The lift by trying every multiple of the first prime, centred; the digits by remainders.
            let (r0, r1) = (i64::from(share.words()[i]), i64::from(share.words()[N + i]));
            // r0 + k q0 = r1 mod q1, and q0 - q1 is the small number that q0 is modulo q1.
            let step = (q0 - q1).rem_euclid(q1);
            let mut k = 0;
            let mut value = (r0 - r1).rem_euclid(q1);
            while value != 0 {
                let skip = ((q1 - value) / step).max(1);
                k += skip;
                value = (value + skip * step) % q1;
            }
            let lifted = r0 + k * q0;
            let mut rest = if lifted > q0 * q1 / 2 { lifted - q0 * q1 } else { lifted };
            for digit in &mut digits {
                digit[i] = (rest + base / 2).rem_euclid(base) - base / 2;
                rest = (rest - digit[i]) / base;
            }
            assert_eq!(rest, 0);
        }
        let mut expected = vec![0i64; N];
        for (g, digit) in row.iter().zip(&digits) {
            let product = negacyclic(g.limb(0), digit, set.lane);
            expected.iter_mut().zip(product).for_each(|(sum, p)| *sum = (*sum + p) % i64::from(set.lane));
        }
        let label = &params.labels(std::slice::from_ref(share))[0];
        let got: Vec<i64> = label.limb(0).iter().map(|&c| c.into()).collect();
        assert_eq!(got, expected, "{}", set.name);
    }
}

#[test]
fn every_lane_opens_its_own_leaf_and_no_other() {
    for (set, needed, lanes) in [(&P300, 1, 1), (&P300, 2, 2), (&P300, 2, 3), (&P1000, 3, 7)] {
        let (code, params) = setup(set, needed, lanes, 2);
        let shares = shares(set, &code, &mut ChaCha20Rng::from_seed([2; 32]));
        let (commitment, paths) = params.commit(&shares);
        let digest = commitment.digest(&params.lattice);
        let packed = commitment.to_bytes(&params.lattice);
        assert_eq!(ShareCommitment::from_bytes(&params.lattice, &packed), Ok(commitment.clone()));
        for (lane, (share, path)) in (0..).map(NodeId).zip(shares.iter().zip(&paths)) {
            let mut bytes = Vec::new();
            path.encode(&params, &mut bytes);
            assert_eq!(bytes.len(), params.path_len());
            let parsed = SharePath::from_bytes_with(&params, &bytes).unwrap();
            assert_eq!(&parsed, path);
            let verified = params.verify_share(lane, share.clone(), &parsed, &digest).unwrap();
            assert_eq!(verified.root(), commitment.root());
            let elsewhere = NodeId((lane.0 + 1) % lanes);
            if elsewhere != lane {
                let refused = params.verify_share(elsewhere, share.clone(), path, &digest).map(|_| ());
                assert_eq!(refused, Err(OpeningError::Root));
                let other = &shares[usize::from(elsewhere.0)];
                let refused = params.verify_share(lane, other.clone(), path, &digest).map(|_| ());
                assert_eq!(refused, Err(OpeningError::Root));
            }
        }
    }
}

#[test]
fn an_altered_share_or_sibling_is_refused() {
    let (code, params) = setup(&P300, 2, 4, 2);
    let shares = shares(&P300, &code, &mut ChaCha20Rng::from_seed([3; 32]));
    let (commitment, paths) = params.commit(&shares);
    let digest = commitment.digest(&params.lattice);
    let mut share = Vec::new();
    code.pack(&shares[2], &mut share);
    // One bit of each limb of each polynomial.
    for at in (0..share.len()).step_by(packed_len(21)) {
        let mut bad = share.clone();
        bad[at] ^= 1;
        let Ok(bad) = code.unpack_share(&bad) else { continue };
        let refused = params.verify_share(NodeId(2), bad, &paths[2], &digest).map(|_| ());
        assert_eq!(refused, Err(OpeningError::Root), "byte {at}");
    }
    let mut path = Vec::new();
    paths[2].encode(&params, &mut path);
    for at in (0..path.len()).step_by(path.len() / 2) {
        let mut bad = path.clone();
        bad[at] ^= 1;
        let bad = SharePath::from_bytes_with(&params, &bad).unwrap();
        let refused = params.verify_share(NodeId(2), shares[2].clone(), &bad, &digest).map(|_| ());
        assert_eq!(refused, Err(OpeningError::Root), "byte {at}");
    }
}

#[test]
fn summed_openings_open_to_the_sum_of_the_shares() {
    for (set, needed, lanes, clients) in [(&P300, 1, 1, 2), (&P300, 3, 5, 3), (&P1000, 2, 4, 2)] {
        let both = setup(set, needed, lanes, 2);
        let summed = sum(set, &both, clients, &mut ChaCha20Rng::from_seed([4; 32]));
        let params = &both.1;
        for (lane, running) in (0..).map(NodeId).zip(&summed.sums) {
            assert_eq!((running.count(), running.root()), (clients, &summed.root));
            let layout = params.summed_layout(clients);
            let opening = running.finish(lane);
            let mut bytes = Vec::new();
            opening.encode(layout, &mut bytes);
            assert_eq!(bytes.len(), layout.packed_len());
            let parsed = AggregatedShare::from_bytes_with(&layout, &bytes).unwrap();
            assert_eq!(parsed, opening);
            let share = params.verify_aggregated(lane, clients, &parsed, &summed.root);
            assert_eq!(share.as_ref(), Ok(&summed.shares[usize::from(lane.0)]));
            // The same label and share as from the digits one by one.
            let packed = parsed.packed_at(layout.digit_bound).unwrap();
            let opened = params.open_packed(packed, layout).unwrap();
            assert_eq!(opened, params.open_any(&parsed.digits(), layout).unwrap());
            assert!(params.takes(set.share_digit() * set.rho_max) && !params.takes(set.lane));
        }
    }
}

#[test]
fn subtracting_undoes_adding() {
    let both = setup(&P300, 2, 3, 1);
    let (code, params) = &both;
    let mut rng = ChaCha20Rng::from_seed([5; 32]);
    let mut summed = sum(&P300, &both, 2, &mut rng);
    let before = summed.sums[1].clone();
    let late = shares(&P300, code, &mut rng);
    let (commitment, paths) = params.commit(&late);
    let digest = commitment.digest(&params.lattice);
    let verified = params.verify_share(NodeId(1), late[1].clone(), &paths[1], &digest).unwrap();
    let sum = &mut summed.sums[1];
    sum.add(params, &verified);
    assert_ne!((sum.finish(NodeId(1)), sum.root()), (before.finish(NodeId(1)), before.root()));
    sum.subtract(params, &verified);
    assert_eq!((sum.finish(NodeId(1)), sum.root()), (before.finish(NodeId(1)), before.root()));
    assert_eq!(sum.count(), 2);
}

#[test]
fn every_altered_part_of_a_sum_is_refused() {
    let both = setup(&P300, 2, 4, 2);
    let mut rng = ChaCha20Rng::from_seed([6; 32]);
    let summed = sum(&P300, &both, 3, &mut rng);
    let honest = summed.sums[2].finish(NodeId(2));
    let parts = honest.clone().edit(|polys| polys.len());
    assert_eq!(parts, 4 * 2 + 2 * 5);
    for part in 0..parts {
        let mut lie = honest.clone();
        let at = usize::try_from(rng.next_u32() % 2048).unwrap();
        lie.edit(|mut polys| {
            // Towards zero, so that no norm gate can be what refuses it.
            let c = &mut polys[part].coefficients_mut()[at];
            *c -= if *c > 0 { 1 } else { -1 };
        });
        let verdict = both.1.verify_aggregated(NodeId(2), 3, &lie, &summed.root);
        assert!(verdict.is_err(), "part {part}");
    }
    let verify =
        |lane, clients, root: &_| both.1.verify_aggregated(NodeId(lane), clients, &honest, root).is_ok();
    assert!(!verify(1, 3, &summed.root), "the same sum at another lane");
    assert!(!verify(2, 3, &Poly::zero()), "against another root");
    assert!(verify(2, 3, &summed.root));
}

#[test]
fn gates_follow_the_number_of_clients() {
    // Shifting a digit by the modulus keeps every linear equation: only the gate at the actual roster sees it.
    let both = setup(&P300, 1, 2, 1);
    let summed = sum(&P300, &both, 2, &mut ChaCha20Rng::from_seed([7; 32]));
    let honest = summed.sums[0].finish(NodeId(0));
    let shift = i32::try_from(P300.lane).unwrap();
    for part in [0, 3, 4, 8] {
        let mut lie = honest.clone();
        lie.edit(|mut polys| polys[part].coefficients_mut()[9] += shift);
        let verdict = both.1.verify_aggregated(NodeId(0), 2, &lie, &summed.root);
        let refused = match part {
            0..4 => matches!(verdict, Err(OpeningError::Norm { part: "share digits", bound: 1448, .. })),
            _ => matches!(verdict, Err(OpeningError::Path(PathError::Norm { bound: 128, .. }))),
        };
        assert!(refused, "part {part}: {verdict:?}");
    }
    let too_few = both.1.verify_aggregated(NodeId(0), 1, &honest, &summed.root);
    assert!(matches!(too_few, Err(OpeningError::Norm { .. })), "{too_few:?}");
}

#[test]
fn a_kernel_vector_changes_the_share_and_not_the_hash_and_is_refused() {
    let both = setup(&P300, 1, 2, 1);
    let params = &both.1;
    let summed = sum(&P300, &both, 300, &mut ChaCha20Rng::from_seed([8; 32]));
    let honest = summed.sums[0].finish(NodeId(0));
    // <(g_0, g_1), (g_1, -g_0)> = 0: a vector of the kernel, read off the public row.
    let row = row(&P300, params, 2);
    let ring = &params.lattice.lane;
    let mut lie = honest.clone();
    lie.edit(|mut polys| {
        polys[0].add_assign(&ring.centred(&row[1]));
        polys[1].sub_assign(&ring.centred(&row[0]));
    });
    let hash = |opening: &AggregatedShare| params.leaf.hash(ring, opening.digits());
    assert_eq!(hash(&lie), hash(&honest), "the attack is real: the leaf hash does not see it");
    let verdict = params.verify_aggregated(NodeId(0), 300, &lie, &summed.root);
    assert!(matches!(verdict, Err(OpeningError::Norm { bound: 217_200, .. })), "{verdict:?}");
    // A gate that is wide enough lets it through, with another share sum: the gate is all that binds.
    let passed = params.verify_aggregated(NodeId(0), 3000, &lie, &summed.root).unwrap();
    assert_ne!(passed, summed.shares[0]);
    // Nor can it be sent: the field of a digit sum ends at the gate.
    let width = chipmunk::ring::pack::short_width(217_200);
    assert!(lie.digits()[0].norm() > 1 << (width - 1));
}

#[test]
fn out_of_range_fields_do_not_parse() {
    let (_, params) = setup(&P300, 1, 3, 1);
    let layout = params.summed_layout(3);
    let zero = vec![0u8; layout.packed_len()];
    assert!(AggregatedShare::from_bytes_with(&layout, &zero).is_ok(), "all at -bound");
    let ones = vec![0xFFu8; layout.packed_len()];
    let refused = AggregatedShare::from_bytes_with(&layout, &ones).unwrap_err();
    assert_eq!((refused.what, refused.offset), ("share digit sum", 0));
    assert!(AggregatedShare::from_bytes_with(&layout, &zero[1..]).is_err());
    let mut siblings = vec![0u8; params.path_len()];
    assert!(SharePath::from_bytes_with(&params, &siblings).is_ok());
    let last = siblings.len() - packed_len(P300.lane_bits);
    siblings[last..].fill(0xFF);
    let refused = SharePath::from_bytes_with(&params, &siblings).unwrap_err();
    assert_eq!((refused.what, refused.offset), ("sibling", last));
    // A huge declared roster cannot be declared at all: the layout is derived, so a short input is just truncated.
    assert!(AggregatedShare::decode_with(&params.summed_layout(300), &mut Reader::new(&zero)).is_err());
}

#[test]
fn commitments_do_not_depend_on_threads() {
    let run = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| {
            let (code, params) = setup(&P300, 3, 5, 2);
            let shares = shares(&P300, &code, &mut ChaCha20Rng::from_seed([9; 32]));
            params.commit(&shares)
        })
    };
    assert_eq!(run(1), run(4));
}
