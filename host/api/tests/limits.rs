//! The lengths that the HTTP interface takes are those of what an honest party makes.

use panetiere::bulletin::Answer;
use panetiere::ids::{ClientId, SessionId};
use panetiere::protocol::{ProtocolParams, round_wire_sizes};
use panetiere::wire::Encode;
use panetiere_api::limits::RoundLimits;
use panetiere_api::testing::Scene;

#[test]
fn limits_are_the_lengths_of_what_a_client_sends() {
    let scene = Scene::new(3, 4, 40, |shape| shape.servers(4));
    let params: &ProtocolParams = &scene.net.params;
    let limits = RoundLimits::from(params);
    let session = SessionId::derive("log.example", 0, &[0; 32]);
    let sent = scene.send(&session, ClientId(1), 0);
    let bytes = |len: usize| u64::try_from(len).unwrap();
    assert_eq!(limits.post, bytes(sent.post.to_bytes(params).len()));
    let openings: usize = sent.envelopes.iter().map(|envelope| envelope.to_bytes().len()).sum();
    assert_eq!(limits.openings, bytes(openings));
    assert_eq!(limits.answer, bytes(Answer::packed_len(params)));
    assert_eq!(limits.lane_items, None);
    // A client's bodies do not tell how many clients there are; a server's do.
    let sizes = |clients| round_wire_sizes(params.set(), params.dimensions(), params.mode(), clients);
    assert_eq!(sizes(2).post, sizes(4).post);
    assert_eq!(RoundLimits::server_sum(params, 3), bytes(sizes(3).server_sum));
}
