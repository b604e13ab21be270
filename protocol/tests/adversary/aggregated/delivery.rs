//! Sums that are off by whole message steps: they decrypt, and what the channel makes of them says when to add again.

use super::{HONEST, LIAR, discarded, found, servers};
use crate::matrix::Seen;
use chipmunk::N;
use chipmunk::ring::pack::{pack_words, packed_len, unpack_words};
use panetiere::bulletin::{CanonicalSet, GroupSum, ServerBulletinEntry};
use panetiere::channel::{self, ChannelParams, Delivery, Encoding, Missing};
use panetiere::evidence::Evidence;
use panetiere::fault::{Attribution, Fault};
use panetiere::ids::ClientId;
use panetiere::plaintext::PlainPoly;
use panetiere::protocol::{Audit, RecoveredAggregated, recover_aggregated};
use panetiere::testing::{Net, Round, RoundPosts, deployment};
use panetiere::wire::{Decode, Encode};
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng;

/// Sends nothing, in the group of the honest aggregator.
const COVER: ClientId = ClientId(2);

fn channel(encoding: Encoding) -> ChannelParams {
    ChannelParams::for_messages(encoding, 5, 40).unwrap()
}

fn net(channel: &ChannelParams) -> Net {
    let net = deployment(410).servers(4).threshold(3).clients(5).channel(channel);
    net.aggregators(2).build()
}

fn rng(of: u32) -> ChaCha20Rng {
    ChaCha20Rng::from_seed([u8::try_from(of).unwrap(); 32])
}

fn says(client: ClientId) -> Vec<u8> {
    format!("client {client} was here").into_bytes()
}

/// A round in which everybody but one says something; a client may post something else.
struct Talk<'n> {
    channel: &'n ChannelParams,
    round: Round<'n>,
    set: CanonicalSet,
    said: Vec<Vec<u8>>,
    sums: Vec<ServerBulletinEntry>,
    groups: [GroupSum; 2],
}

impl<'n> Talk<'n> {
    fn new(net: &'n Net, channel: &'n ChannelParams, garbage: Option<ClientId>) -> Self {
        let (mut round, set) = (net.open(0), net.all());
        let mut said = Vec::new();
        for client in net.ids() {
            let mut rng = rng(client.0);
            let vector = if garbage == Some(client) {
                // A uniform vector: no encoding of anything.
                net.party(client).message.clone()
            } else if client == COVER {
                channel::cover(channel)
            } else {
                said.push(says(client));
                channel::encode_message(&mut rng, channel, &round.session, &says(client)).unwrap()
            };
            round.submit(&round.client_with(client, &vector)).accepted();
        }
        let sums = round.sums(&set);
        let groups = [round.group(HONEST, [0, 2]), round.group(LIAR, [1, 3, 4])];
        Self { channel, round, set, said, sums, groups }
    }

    fn recover(&self, groups: &[GroupSum], posts: &mut RoundPosts<'_>) -> RecoveredAggregated {
        let (net, policy) = (self.round.net, self.round.policy(&self.set));
        let (session, audit) = (&self.round.session, Audit::UnlessDelivered(self.channel));
        let out =
            recover_aggregated(&net.params, session, &net.epoch, &policy, posts, groups, &self.sums, audit);
        out.unwrap()
    }

    /// The liar's sum, signed, with a vector added that no client has sent.
    fn adding(&self, vector: &[PlainPoly]) -> GroupSum {
        let (params, truth) = (&self.round.net.params, &self.groups[1]);
        let (set, mut ciphertext) = (params.set(), truth.ciphertext().to_vec());
        let t = self.channel.plaintext_modulus();
        let width = set.wire_limb_bits;
        let limbs = ciphertext.chunks_exact_mut(packed_len(width)).enumerate();
        for (limb, bytes) in limbs {
            let (prime, mut words) = (set.wire[limb % 2], [0; N]);
            unpack_words(bytes, width, u32::MAX >> (32 - width), &mut words).unwrap();
            for (word, step) in words.iter_mut().zip(vector[limb / 2].coefficients()) {
                // Message steps: round(step * Q / t), as in an encryption.
                let wire =
                    (u128::from(*step) * u128::from(set.wire_modulus()) + u128::from(t / 2)) / u128::from(t);
                *word = u32::try_from((u128::from(*word) + wire) % u128::from(prime)).unwrap();
            }
            let mut packed = Vec::new();
            pack_words(&words, width, &mut packed);
            bytes.copy_from_slice(&packed);
        }
        let key = self.round.net.aggregators[usize::from(LIAR.0)].signing_key();
        GroupSum::sign(truth.claim().clone(), truth.root().clone(), ciphertext, params, key)
    }

    /// One message step at one place.
    fn shifted(&self, poly: usize, coefficient: usize) -> GroupSum {
        let mut vector: Vec<_> = (0..self.channel.n_polys()).map(|_| PlainPoly::zero()).collect();
        vector[poly].coefficients_mut()[coefficient] = 1;
        self.adding(&vector)
    }

    /// An encoding of a message that no client has sent.
    fn stuffed(&self, messages: u32) -> GroupSum {
        let vectors = (0..messages).map(|at| {
            channel::encode_message(&mut rng(100 + at), self.channel, &self.round.session, b"stuffed")
                .unwrap()
        });
        let t = u128::from(self.channel.plaintext_modulus());
        let sum = vectors.reduce(|mut sum, vector| {
            for (sum, poly) in sum.iter_mut().zip(&vector) {
                for (sum, word) in sum.coefficients_mut().iter_mut().zip(poly.coefficients()) {
                    *sum = u64::try_from((u128::from(*sum) + u128::from(*word)) % t).unwrap();
                }
            }
            sum
        });
        self.adding(&sum.unwrap())
    }

    fn messages(&self, out: &RecoveredAggregated) -> Vec<Vec<u8>> {
        let delivery = out.delivery.as_ref().unwrap().as_ref().unwrap();
        assert_eq!(delivery.missing, Missing::Nothing);
        // What is delivered is what the sum holds.
        assert_eq!(Ok(delivery.clone()), out.recovered.deliver(self.channel, &self.round.session));
        delivery.messages.clone()
    }

    /// The liar, nobody else, by evidence that anybody can check; and the round as if it had not lied.
    fn caught(&self, lie: GroupSum, seen: &mut Seen) {
        let mut posts = self.round.posts();
        let out = self.recover(&[self.groups[0].clone(), lie], &mut posts);
        assert_eq!(found(&out), [(LIAR, "group_wrong_sum")]);
        assert!(servers(&out).is_empty() && discarded(&out).is_empty() && out.unjudged.is_empty());
        assert_eq!(out.unaudited, None);
        seen.fault(&out.aggregators[0].fault);
        let evidence = out.aggregators[0].evidence.as_ref().unwrap().to_bytes();
        let kernels = self.round.net.params.lattice().kernels();
        let verdict = Evidence::from_bytes(&evidence).unwrap().verify(kernels).unwrap();
        assert_eq!(verdict.convicted(), Attribution::Aggregator(LIAR));
        seen.delivers(&self.messages(&out), &self.said);
    }
}

/// A shift by one step, in the encodings that put a check on every message.
pub fn shifts() -> Seen {
    let mut seen = Seen::default();
    for encoding in [Encoding::Sketch, Encoding::Peeling] {
        let channel = channel(encoding);
        let net = net(&channel);
        let talk = Talk::new(&net, &channel, None);
        talk.caught(talk.shifted(0, 0), &mut seen);
    }
    seen
}

#[test]
fn an_honest_round_is_decoded_once_and_asks_for_no_body() {
    for encoding in [Encoding::Sketch, Encoding::Peeling] {
        let channel = channel(encoding);
        let net = net(&channel);
        let talk = Talk::new(&net, &channel, None);
        let mut posts = talk.round.posts();
        let out = talk.recover(&talk.groups, &mut posts);
        assert!(posts.commitments.is_empty() && posts.ciphertexts.is_empty());
        assert!(found(&out).is_empty() && servers(&out).is_empty() && discarded(&out).is_empty());
        assert_eq!((out.unaudited.as_ref(), talk.messages(&out)), (None, talk.said.clone()));
        // Who did not ask gets no delivery.
        for audit in [Audit::OnFailure, Audit::Always] {
            let out = talk.round.recover_groups(&talk.set, &talk.groups, &talk.sums, audit).unwrap();
            assert_eq!(out.delivery, None);
        }
    }
}

#[test]
fn messages_beyond_the_number_of_clients_are_looked_into() {
    let channel = channel(Encoding::Sketch);
    let net = net(&channel);
    let talk = Talk::new(&net, &channel, None);
    talk.caught(talk.stuffed(2), &mut Seen::default());
    // One in place of the cover is what a client of the aggregator's own could have sent, and passes; `Always` sees it.
    let groups = [talk.groups[0].clone(), talk.stuffed(1)];
    let out = talk.recover(&groups, &mut talk.round.posts());
    assert!(found(&out).is_empty());
    assert_eq!(talk.messages(&out).len(), talk.said.len() + 1);
    let out = talk.round.recover_groups(&talk.set, &groups, &talk.sums, Audit::Always).unwrap();
    assert_eq!(found(&out), [(LIAR, "group_wrong_sum")]);
}

#[test]
fn a_client_that_sends_no_encoding_gets_no_aggregator_named() {
    let channel = channel(Encoding::Sketch);
    let net = net(&channel);
    let talk = Talk::new(&net, &channel, Some(ClientId(3)));
    let mut posts = talk.round.posts();
    let out = talk.recover(&talk.groups, &mut posts);
    assert_eq!(out.delivery.as_ref().unwrap().as_ref().unwrap_err().code(), "sketch_check_failed");
    // Every post was added again, once, and there was nothing to find.
    let all: Vec<ClientId> = [0, 2, 1, 3, 4].map(ClientId).into();
    assert_eq!((&posts.commitments, &posts.ciphertexts), (&all, &all));
    assert!(found(&out).is_empty() && servers(&out).is_empty() && out.unaudited.is_none());
}

#[test]
fn without_the_posts_it_is_said_that_nothing_could_be_added_again() {
    let channel = channel(Encoding::Sketch);
    let net = net(&channel);
    let talk = Talk::new(&net, &channel, None);
    let groups = [talk.groups[0].clone(), talk.shifted(0, 0)];
    let missing = |client: u32| {
        let mut posts = talk.round.posts();
        posts.no_ciphertext.insert(ClientId(client));
        talk.recover(&groups, &mut posts)
    };
    // A post of the liar's group: nobody is named, and the sum stays as it was.
    let out = missing(3);
    assert!(found(&out).is_empty() && servers(&out).is_empty());
    assert_eq!(out.unaudited.as_ref().unwrap().code(), "post_missing");
    assert!(!matches!(out.delivery, Some(Ok(Delivery { missing: Missing::Nothing, .. }))));
    // A post of the other group: the liar's is added again all the same, and that was all that was wrong.
    let out = missing(0);
    assert_eq!(found(&out), [(LIAR, "group_wrong_sum")]);
    assert_eq!(out.unaudited.as_ref().unwrap().code(), "post_missing");
    assert_eq!(talk.messages(&out), talk.said);
}
