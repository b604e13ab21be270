use super::*;
use crate::ids::DeploymentId;
use crate::wire::DecodeWith;
use chipmunk::params::{P300, P1000, ParameterSet};
use chipmunk::ring::backend;
use rand_chacha::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};

fn params(set: &'static ParameterSet, servers: u16) -> CsParams {
    let lattice = Arc::new(Lattice::new(set, backend::under_test()));
    CsParams::new(lattice, &CrsSeed::derive(&DeploymentId::from_name("cs test"), set), servers)
}

struct Dealt {
    shares: Vec<Secret<Poly<Cs, Coeff>>>,
    commitment: Commitment,
    openings: Vec<FreshOpening>,
}

fn deal(params: &CsParams, rng: &mut ChaCha20Rng) -> Dealt {
    let count = usize::from(params.servers());
    let shares: Vec<_> =
        (0..count).map(|_| Secret::new(sample::secret_uniform(params.lattice.cs(), rng))).collect();
    let seeds: Vec<_> = (0..count).map(|_| crate::kahe::fork(rng)).collect();
    let (commitment, openings) = params.commit(&shares, &seeds);
    Dealt { shares, commitment, openings }
}

#[test]
fn sizes_are_those_of_the_protocol_page() {
    let fresh = |servers| params(&P300, servers).fresh_opening_len() + 1104;
    assert_eq!((fresh(8), fresh(16)), (18_800, 23_152));
    assert_eq!(params(&P300, 8).summed_layout(300).packed_len(), 97_280);
}

#[test]
fn every_server_opens_its_own_leaf_and_no_other() {
    for (set, servers) in [(&P300, 1), (&P300, 2), (&P300, 3), (&P300, 7), (&P1000, 5)] {
        let params = params(set, servers);
        let dealt = deal(&params, &mut ChaCha20Rng::from_seed([1; 32]));
        let digest = dealt.commitment.digest(&params.lattice);
        for index in 0..servers {
            let opening = &dealt.openings[usize::from(index)];
            let bytes = opening.to_bytes(&params);
            assert_eq!(bytes.len(), params.fresh_opening_len());
            let parsed = FreshOpening::from_bytes_with(&params, &bytes).unwrap();
            assert!(params.verify_fresh(index, &parsed, &digest).is_ok());
            let elsewhere = (index + 1) % servers;
            if elsewhere != index {
                let refused = params.verify_fresh(elsewhere, &parsed, &digest).map(|_| ());
                assert_eq!(refused, Err(OpeningError::Root));
            }
        }
    }
}

#[test]
fn an_altered_fresh_opening_is_refused() {
    let params = params(&P300, 4);
    let dealt = deal(&params, &mut ChaCha20Rng::from_seed([2; 32]));
    let digest = dealt.commitment.digest(&params.lattice);
    let bytes = dealt.openings[2].to_bytes(&params);
    // One bit of the seed, of the share, of each sibling.
    for at in [0, 31, 32, 32 + 4607, 32 + 4608, bytes.len() - 1] {
        let mut bad = bytes.clone();
        bad[at] ^= 1;
        let verdict = FreshOpening::from_bytes_with(&params, &bad)
            .map(|opening| params.verify_fresh(2, &opening, &digest).map(|_| ()));
        assert!(!matches!(verdict, Ok(Ok(()))), "byte {at}");
    }
    for bad in [&bytes[..bytes.len() - 1], &[bytes.as_slice(), &[0]].concat()] {
        assert!(FreshOpening::from_bytes_with(&params, bad).is_err());
    }
}

/// Deals to `servers` for several clients and returns the root sum, the share sums and the running opening sums.
struct Summed {
    root: Poly<Hvc, Coeff>,
    shares: Vec<Poly<Cs, Coeff>>,
    sums: Vec<OpeningSum>,
}

fn sum(params: &CsParams, clients: u32, rng: &mut ChaCha20Rng) -> Summed {
    let servers = usize::from(params.servers());
    let mut out = Summed {
        root: Poly::zero(),
        shares: vec![Poly::zero(); servers],
        sums: (0..servers).map(|_| OpeningSum::new(params)).collect(),
    };
    for _ in 0..clients {
        let dealt = deal(params, rng);
        params.lattice.hvc.add_assign(&mut out.root, dealt.commitment.root());
        let digest = dealt.commitment.digest(&params.lattice);
        for (index, opening) in (0..params.servers()).zip(&dealt.openings) {
            let verified = params.verify_fresh(index, opening, &digest).unwrap();
            out.sums[usize::from(index)].add(&verified);
            params
                .lattice
                .cs()
                .add_assign(&mut out.shares[usize::from(index)], dealt.shares[usize::from(index)].expose());
        }
    }
    out
}

#[test]
fn sums_open_to_the_sum_of_the_shares() {
    for (set, servers, clients) in [(&P300, 1, 2), (&P300, 5, 3), (&P1000, 4, 2)] {
        let params = params(set, servers);
        let mut rng = ChaCha20Rng::from_seed([3; 32]);
        let summed = sum(&params, clients, &mut rng);
        for index in 0..servers {
            let opening = summed.sums[usize::from(index)].finish(index);
            let layout = params.summed_layout(clients);
            let mut bytes = Vec::new();
            opening.encode(layout, &mut bytes);
            assert_eq!(bytes.len(), layout.packed_len());
            let parsed = AggregatedOpening::from_bytes_with(&layout, &bytes).unwrap();
            assert_eq!(parsed, opening);
            let share = params.verify_aggregated(index, clients, &parsed, &summed.root);
            assert_eq!(share.as_ref(), Ok(&summed.shares[usize::from(index)]));
        }
    }
}

#[test]
fn subtracting_undoes_adding() {
    let params = params(&P300, 3);
    let mut rng = ChaCha20Rng::from_seed([4; 32]);
    let mut summed = sum(&params, 2, &mut rng);
    let before = summed.sums[1].finish(1);
    let late = deal(&params, &mut rng);
    let digest = late.commitment.digest(&params.lattice);
    let verified = params.verify_fresh(1, &late.openings[1], &digest).unwrap();
    summed.sums[1].add(&verified);
    assert_ne!(summed.sums[1].finish(1), before);
    summed.sums[1].subtract(&verified);
    assert_eq!((summed.sums[1].finish(1), summed.sums[1].count()), (before, 2));
}

#[test]
fn every_altered_part_of_a_sum_is_refused() {
    let params = params(&P300, 4);
    let mut rng = ChaCha20Rng::from_seed([5; 32]);
    let clients = 3;
    let summed = sum(&params, clients, &mut rng);
    let honest = summed.sums[2].finish(2);
    let parts = honest.clone().polys_mut().count();
    assert_eq!(parts, 5 + 6 + 2 * 5);
    for part in 0..parts {
        let mut lie = honest.clone();
        let poly = lie.polys_mut().nth(part).unwrap();
        let at = usize::try_from(rng.next_u32() % 2048).unwrap();
        // Towards zero, so that no norm gate can be what refuses it.
        let c = &mut poly.coefficients_mut()[at];
        *c -= if *c > 0 { 1 } else { -1 };
        let verdict = params.verify_aggregated(2, clients, &lie, &summed.root);
        assert!(verdict.is_err(), "part {part}");
    }
    // The same sum at another leaf, over another number of clients, against another root.
    assert!(params.verify_aggregated(1, clients, &honest, &summed.root).is_err());
    assert!(params.verify_aggregated(2, clients, &honest, &Poly::zero()).is_err());
    assert!(params.verify_aggregated(2, clients, &honest, &summed.root).is_ok());
}

#[test]
fn gates_follow_the_number_of_clients() {
    // Shifting a digit by its modulus keeps every linear equation: only the gate at the actual roster sees it.
    let params = params(&P300, 2);
    let mut rng = ChaCha20Rng::from_seed([6; 32]);
    let summed = sum(&params, 2, &mut rng);
    let honest = summed.sums[0].finish(0);
    let shifts = [(0, P300.cs, "randomness"), (5, P300.hvc, "leaf digits")];
    for (part, modulus, name) in shifts {
        let mut lie = honest.clone();
        lie.polys_mut().nth(part).unwrap().coefficients_mut()[7] += i32::try_from(modulus).unwrap();
        let verdict = params.verify_aggregated(0, 2, &lie, &summed.root);
        assert!(matches!(verdict, Err(OpeningError::Norm { part, .. }) if part == name), "{verdict:?}");
    }
    let mut lie = honest.clone();
    lie.polys_mut().nth(11).unwrap().coefficients_mut()[7] += i32::try_from(P300.hvc).unwrap();
    let verdict = params.verify_aggregated(0, 2, &lie, &summed.root);
    assert!(matches!(verdict, Err(OpeningError::Path(PathError::Norm { .. }))), "{verdict:?}");
    // A sum of two does not pass for a sum of one wherever it exceeds one client's bound.
    let too_few = params.verify_aggregated(0, 1, &honest, &summed.root);
    assert!(matches!(too_few, Err(OpeningError::Norm { .. })), "{too_few:?}");
}

#[test]
fn out_of_range_fields_do_not_parse() {
    let params = params(&P300, 2);
    let layout = params.summed_layout(3);
    let zero = vec![0u8; layout.packed_len()];
    assert!(AggregatedOpening::from_bytes_with(&layout, &zero).is_ok(), "all at -bound");
    let ones = vec![0xFFu8; layout.packed_len()];
    assert!(AggregatedOpening::from_bytes_with(&layout, &ones).is_err(), "2^width - 1 is above 2 * bound");
    assert!(AggregatedOpening::from_bytes_with(&layout, &zero[1..]).is_err());
}

#[test]
fn a_refused_field_is_reported_where_it_starts() {
    use crate::wire::{DecodeError, DecodeErrorKind::OutOfRange};
    let params = params(&P300, 2);
    let layout = params.summed_layout(3);
    // Three clients: ten bits for r, eight for u and for the path; five, six and five polynomials.
    let fields = [("randomness sum", 0, 2560, 5), ("leaf digit sum", 12_800, 2048, 6)];
    let path = ("path digit sum", 25_088, 2048, 5);
    for (what, start, len, count) in fields.into_iter().chain([path]) {
        for index in 0..count {
            let mut bytes = vec![0u8; layout.packed_len()];
            let offset = start + len * index;
            bytes[offset + len - 2..offset + len].fill(0xFF);
            let refused = AggregatedOpening::from_bytes_with(&layout, &bytes).unwrap_err();
            assert_eq!(refused, DecodeError { offset, what, kind: OutOfRange });
        }
    }
    let mut bytes = vec![0u8; params.fresh_opening_len()];
    for (what, offset, len) in [("sibling", 32 + 4608, 4352), ("key share", 32, 4608)] {
        bytes[offset + len - 4..offset + len].fill(0xFF);
        let refused = FreshOpening::from_bytes_with(&params, &bytes).unwrap_err();
        assert_eq!(refused, DecodeError { offset, what, kind: OutOfRange });
    }
}

#[test]
fn sums_of_nothing_or_of_several_leaves_are_refused() {
    let params = params(&P300, 4);
    let dealt = deal(&params, &mut ChaCha20Rng::from_seed([21; 32]));
    let digest = dealt.commitment.digest(&params.lattice);
    let verified =
        |index: u16| params.verify_fresh(index, &dealt.openings[usize::from(index)], &digest).unwrap();
    let refused =
        |run: &mut dyn FnMut()| std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).is_err();
    assert!(refused(&mut || drop(OpeningSum::new(&params).finish(0))), "an empty sum");
    let mut sum = OpeningSum::new(&params);
    sum.add(&verified(2));
    assert!(refused(&mut || drop(sum.finish(1))), "the sum of another leaf");
    assert!(refused(&mut || sum.add(&verified(3))), "two leaves");
    assert!(refused(&mut || sum.subtract(&verified(3))), "two leaves");
    let deeper = super::tests::params(&P300, 8);
    let deep = deal(&deeper, &mut ChaCha20Rng::from_seed([22; 32]));
    let root = deep.commitment.digest(&deeper.lattice);
    let other = deeper.verify_fresh(2, &deep.openings[2], &root).unwrap();
    assert!(refused(&mut || sum.add(&other)), "two shapes");
    let roots = dealt.commitment.root();
    assert!(params.verify_aggregated(2, 1, &sum.finish(2), roots).is_ok(), "refusals change nothing");
    sum.subtract(&verified(2));
    assert!(refused(&mut || drop(sum.finish(2))), "empty again");
}
