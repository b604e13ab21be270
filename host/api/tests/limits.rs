//! The lengths that the HTTP interface takes are those of what an honest party makes.

use panetiere::bulletin::{Answer, Envelope};
use panetiere::ids::{ClientId, NodeId, ServerId, SessionId};
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
    let sent = scene.send(&session, ClientId(1), 0).outgoing();
    let bytes = |len: usize| u64::try_from(len).unwrap();
    assert_eq!(limits.post, bytes(sent.bulletin_post(params).len()));
    assert_eq!(sent.bulletin_post(params), sent.post.to_bytes(params));
    assert_eq!(limits.openings, bytes(sent.openings_to_bytes().len()));
    for envelope in &sent.envelopes {
        assert_eq!(Envelope::packed_len(params, envelope.server).unwrap(), envelope.to_bytes().len());
    }
    assert!(Envelope::packed_len(params, ServerId(4)).is_err());
    assert_eq!(limits.answer, bytes(Answer::packed_len(params)));
    assert_eq!(limits.aggregated_post, None);
    assert_eq!(RoundLimits::lane_item(params, NodeId(0)), None);
    // A client's bodies do not tell how many clients there are; a server's do.
    let sizes = |clients| round_wire_sizes(params.set(), params.dimensions(), params.mode(), clients);
    assert_eq!(sizes(2).post, sizes(4).post);
    assert_eq!(RoundLimits::server_sum(params, 3), bytes(sizes(3).server_sum));
}

#[test]
fn the_other_modes_have_other_lengths() {
    let bytes = |len: usize| u64::try_from(len).unwrap();
    let session = SessionId::derive("log.example", 0, &[0; 32]);
    let scene = Scene::new(4, 4, 40, |shape| shape.servers(4).aggregators(2));
    let params: &ProtocolParams = &scene.net.params;
    let (limits, sent) = (RoundLimits::from(params), scene.send(&session, ClientId(1), 0).outgoing());
    assert_eq!(limits.post, bytes(sent.bulletin_post(params).len()));
    assert_eq!(limits.aggregated_post, Some(bytes(sent.post.to_bytes(params).len())));
    assert!(limits.post < limits.aggregated_post.unwrap());
    let scene = Scene::new(5, 4, 40, |shape| shape.servers(4).lanes(3, 5));
    let params: &ProtocolParams = &scene.net.params;
    let (limits, sent) = (RoundLimits::from(params), scene.send(&session, ClientId(1), 0).outgoing());
    assert_eq!(limits.post, bytes(sent.bulletin_post(params).len()));
    assert_eq!(limits.openings, bytes(sent.openings_to_bytes().len()));
    for item in &sent.items {
        assert_eq!(RoundLimits::lane_item(params, item.lane), Some(bytes(item.to_bytes().len())));
    }
}
