//! A whole direct round, through every byte format: the executable specification.

use chipmunk::params::P300;
use chipmunk::ring::backend;
use panetiere::bulletin::{
    CanonicalSet, ClientBulletinEntry, Envelope, Epoch, EpochServer, ServerBulletinEntry,
};
use panetiere::ids::{ClientId, DeploymentId, EpochId, ServerId, SessionId};
use panetiere::kahe::Plaintext;
use panetiere::pke;
use panetiere::plaintext::PlainPoly;
use panetiere::protocol::*;
use panetiere::sig::SigningKey;
use panetiere::wire::{Decode, DecodeWith, Encode};
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng;
use std::sync::Arc;

#[test]
fn sum_recovered_through_bytes() {
    let mut rng = ChaCha20Rng::from_seed([1; 32]);
    let id = DeploymentId::from_name("round test");
    let servers: Vec<Arc<ServerIdentity>> = (0..4)
        .map(|i| {
            Arc::new(ServerIdentity {
                id: ServerId(i),
                envelope_key: pke::PrivateKey::generate(&mut rng),
                signing_key: SigningKey::generate(&mut rng),
            })
        })
        .collect();
    let entries = servers
        .iter()
        .map(|s| EpochServer::sign(&id, EpochId(0), s.id, s.envelope_key.public_key(), &s.signing_key))
        .collect();
    let epoch = Epoch::new(id, EpochId(0), entries).unwrap();
    assert_eq!(Epoch::from_bytes(&epoch.to_bytes()).as_ref(), Ok(&epoch));
    let deployment = Deployment {
        id,
        epoch: epoch.digest(),
        set: &P300,
        min_clients: 2,
        max_clients: 300,
        kernels: backend::scalar(),
    };
    let dimensions = Dimensions { servers: 4, threshold: 3, polys: 2, plaintext: Plaintext::Prime };
    let params = Arc::new(ProtocolParams::setup_with_kahe_dims_full(deployment, dimensions).unwrap());
    let session = SessionId::derive("test/log", 0, &[0; 32]);
    let keys: Vec<SigningKey> = (0..5).map(|_| SigningKey::generate(&mut rng)).collect();
    let mut rounds: Vec<ServerRound> =
        servers.iter().map(|s| ServerRound::new(Arc::clone(&params), session, Arc::clone(s))).collect();
    let mut posts = Vec::new();
    for (client, key) in (0u32..).zip(&keys) {
        let mut message = zero_message(&params);
        message[1].coefficients_mut()[7] = u64::from(client) + 10;
        let round = run_client_round(
            &mut rng,
            &params,
            &session,
            ClientId(client),
            &message,
            &epoch.envelope_keys(),
            key,
        )
        .unwrap();
        let bytes = round.post.to_bytes(&params);
        assert_eq!(bytes.len(), params.wire_sizes(5).post);
        let post = ClientBulletinEntry::from_bytes_with(&params, &bytes).unwrap();
        let verified = post.signed.check(&params, &session, &key.verifying_key()).unwrap();
        let sizes: usize = round.envelopes.iter().map(Encode::encoded_len).sum();
        assert_eq!(sizes, params.wire_sizes(5).envelopes);
        for (server, envelope) in rounds.iter_mut().zip(&round.envelopes) {
            let envelope = Envelope::from_bytes_with(&params, &envelope.to_bytes()).unwrap();
            server.receive(&verified, &envelope).unwrap();
        }
        posts.push((key.verifying_key(), post));
    }
    // Client 4 did not make the set.
    let canonical = CanonicalSet::new((0..4).map(ClientId)).unwrap();
    let sums: Vec<ServerBulletinEntry> = rounds
        .iter_mut()
        .map(|round| {
            let bytes = round.close(&canonical).unwrap().to_bytes(&params);
            assert_eq!(bytes.len(), params.wire_sizes(4).server_sum);
            ServerBulletinEntry::from_bytes_with(&params, &bytes).unwrap()
        })
        .collect();
    let mut expected = vec![PlainPoly::zero(), PlainPoly::zero()];
    expected[1].coefficients_mut()[7] = 10 + 11 + 12 + 13;
    let policy = SetPolicy::anchored(canonical.clone(), 2, 300);
    let fetch = |client: ClientId| posts.get(usize::try_from(client.0).unwrap()).cloned();
    for chosen in [&sums[..], &sums[..3], &sums[1..]] {
        let recovered = recover_direct(&params, &session, &epoch, &policy, fetch, chosen).unwrap();
        assert_eq!(recovered.plaintext, expected);
        assert!(recovered.culprits.is_empty() && recovered.discarded.is_empty());
    }
    let below = recover_direct(&params, &session, &epoch, &policy, fetch, &sums[..2]);
    assert_eq!(below, Err(RecipientError::BelowShareThreshold { have: 2, need: 3 }));
}
