//! Aggregated mode: ciphertexts go to aggregators, each of which publishes the sum over its clients; the recipient gets
//! those, and looks at posts only where something does not fit.

use super::direct;
use super::ingress::{Book, Delivered, Ingress, Named, Outcome, client_at_fault};
use super::lie::{Lie, Party};
use super::spool::{Keep, Spool};
use crate::local::LocalRound;
use anyhow::{Context, bail};
use chipmunk::N;
use chipmunk::ring::pack::{pack_words, packed_len, unpack_words};
use panetiere::bulletin::{CanonicalSet, GroupSum, PostHead, PostView, ServerBulletinEntry, SignedPost};
use panetiere::cs::Commitment;
use panetiere::ids::{AggregatorId, ClientId};
use panetiere::protocol::{
    AggregatorCulprit, AggregatorRound, Audit, NotRecovered, PostSource, RecoveredAggregated, SetPolicy,
    recover_aggregated,
};
use panetiere::sig::VerifyingKey;
use panetiere::wire::DecodeWith;
use std::collections::BTreeMap;

pub(super) struct Aggregated<'a> {
    common: &'a LocalRound,
    rounds: Vec<AggregatorRound<'a>>,
    /// A sum of the liar's that leaves out the last of its clients.
    omitting: Option<(AggregatorId, AggregatorRound<'a>)>,
    /// What the log has of every post: its statement and the root that it speaks of.
    heads: BTreeMap<ClientId, PostHead>,
    /// The posts, where the aggregators keep them.
    posts: Option<Spool>,
}

impl<'a> Aggregated<'a> {
    pub fn new(common: &'a LocalRound, keep: Keep, liar: Option<AggregatorId>) -> anyhow::Result<Self> {
        let round = |place: usize| {
            let (identity, roster) = common.aggregators.get(place).context("no such aggregator")?;
            anyhow::Ok(AggregatorRound::new(&common.params, common.session, identity, roster)?)
        };
        let omitting = liar.map(|liar| anyhow::Ok((liar, round(liar.0.into())?))).transpose()?;
        Ok(Self {
            common,
            rounds: (0..common.aggregators.len()).map(round).collect::<anyhow::Result<_>>()?,
            omitting,
            heads: BTreeMap::new(),
            posts: (keep != Keep::Nothing).then(Spool::new).transpose()?,
        })
    }

    /// Whose post it is.
    fn place(&self, client: ClientId) -> anyhow::Result<usize> {
        let serves = |(_, roster): &(_, CanonicalSet)| roster.contains(client);
        self.common.aggregators.iter().position(serves).context("a client without an aggregator")
    }

    /// A packed sum with one message step added to every coefficient.
    fn shifted(&self, packed: &[u8]) -> anyhow::Result<Vec<u8>> {
        let set = self.common.params.set();
        let (width, step) =
            (set.wire_limb_bits, set.wire_modulus() / self.common.channel.plaintext_modulus());
        let (mut words, mut out) = ([0; N], Vec::with_capacity(packed.len()));
        for (limb, prime) in packed.chunks_exact(packed_len(width)).zip(set.wire.iter().cycle()) {
            unpack_words(limb, width, prime - 1, &mut words).context("an honest sum is in range")?;
            let sum = words.iter_mut();
            sum.for_each(|word| {
                *word = u32::try_from((u64::from(*word) + step) % u64::from(*prime))
                    .expect("below a prime of 32 bits")
            });
            pack_words(&words, width, &mut out);
        }
        Ok(out)
    }

    fn last_of(&self, place: usize) -> Option<ClientId> {
        self.common.aggregators[place].1.clients().last().copied()
    }
}

impl Ingress for Aggregated<'_> {
    fn arrive(&mut self, delivered: &[Delivered<'_>], book: &mut Book) -> anyhow::Result<Vec<ClientId>> {
        let params = &*self.common.params;
        let mut accused = Vec::new();
        for Delivered { sent, .. } in delivered {
            let place = self.place(sent.client)?;
            book.carry("clients to aggregators", sent.post.len());
            let key = self.common.admitted(sent.client)?;
            let post = PostView::parse(params, &sent.post)?;
            let head = post.head.clone();
            if let Err(fault) = book.time("aggregator arrival", || self.rounds[place].add(&key, post)) {
                accused.push(client_at_fault(fault)?);
                continue;
            }
            let is_last = self.last_of(place) == Some(sent.client);
            if let Some((liar, round)) = &mut self.omitting
                && usize::from(liar.0) == place
                && !is_last
            {
                round.add(&key, PostView::parse(params, &sent.post)?)?;
            }
            if let Some(posts) = &self.posts {
                posts.put(sent.client.0, 0, &sent.post)?;
            }
            self.heads.insert(sent.client, head);
            book.carry("bulletin to recipient", sent.statement.len());
        }
        Ok(accused)
    }

    fn close(&mut self, canonical: &CanonicalSet, book: &mut Book) -> anyhow::Result<Vec<Vec<u8>>> {
        let mut sums = Vec::new();
        for ((_, roster), round) in self.common.aggregators.iter().zip(&self.rounds) {
            let group = roster.clients().iter().copied().filter(|client| canonical.contains(*client));
            // Whose clients are all gone has nothing to publish.
            let Ok(group) = CanonicalSet::new(group) else { continue };
            let sum = book.time("aggregator close", || {
                round.close(&group).map(|sum| sum.to_bytes(&self.common.params))
            });
            sums.push(sum.context("an aggregator could not close the round")?);
        }
        Ok(sums)
    }

    fn falsify(
        &mut self,
        lie: Lie,
        liar: Party,
        _: &CanonicalSet,
        sums: &mut Vec<Vec<u8>>,
    ) -> anyhow::Result<()> {
        let Party::Aggregator(aggregator) = liar else { return Ok(()) };
        let (place, params) = (usize::from(aggregator.0), &*self.common.params);
        let (_, round) = self.omitting.as_ref().context("no sum to lie with was kept")?;
        let honest = GroupSum::from_bytes_with(params, &sums[place])?;
        let omitting = round.close(&CanonicalSet::new(round.added())?)?;
        let (root, ciphertext) = match lie {
            Lie::AggregatorWrongSum => (honest.root(), omitting.ciphertext().to_vec()),
            Lie::AggregatorWrongRoot => (omitting.root(), honest.ciphertext().to_vec()),
            Lie::AggregatorShiftedSum => (honest.root(), self.shifted(honest.ciphertext())?),
            _ => bail!("an aggregator does not tell the lie {lie}"),
        };
        let key = self.common.aggregators[place].0.signing_key();
        let wrong = GroupSum::sign(honest.claim().clone(), root.clone(), ciphertext, params, key);
        sums[place] = wrong.to_bytes(params);
        Ok(())
    }

    fn link(&self) -> &'static str {
        "aggregators to recipient"
    }

    fn steps(&self) -> u64 {
        1
    }

    fn recover(
        &self,
        canonical: &CanonicalSet,
        entries: &[ServerBulletinEntry],
        sums: &[Vec<u8>],
        observe: &mut dyn FnMut(&'static str),
    ) -> anyhow::Result<Outcome> {
        let (params, session, epoch) = (&*self.common.params, &self.common.session, &self.common.epoch);
        let groups = sums.iter().map(|sum| GroupSum::from_bytes_with(params, sum));
        let groups = groups.collect::<Result<Vec<_>, _>>().context("a group's sum does not parse")?;
        let policy = SetPolicy::anchored(canonical.clone(), params.min_clients(), params.max_clients());
        let (source, audit) = (&mut Source(self), Audit::UnlessDelivered(&self.common.channel));
        let outcome = recover_aggregated(params, session, epoch, &policy, source, &groups, entries, audit);
        observe("recipient add and open");
        let (aggregators, discarded, mut servers) = match outcome {
            Ok(RecoveredAggregated { recovered, aggregators, discarded, unjudged, delivery, unaudited }) => {
                if let Some(server) = unjudged.first() {
                    bail!("server {server} could not be judged although every commitment is at hand");
                }
                if let Some(reason) = unaudited {
                    return Err(anyhow::Error::from(reason).context("the groups could not be added again"));
                }
                (aggregators, discarded, Outcome { delivery, ..direct::settle(Ok(recovered))? })
            }
            Err(NotRecovered { reason, aggregators, discarded, .. }) => {
                (aggregators, discarded, direct::settle(Err(reason))?)
            }
        };
        if let Some(discarded) = discarded.into_iter().next() {
            return Err(anyhow::Error::from(discarded).context("a group's sum was discarded"));
        }
        let named = |AggregatorCulprit { aggregator, evidence, .. }| Named {
            party: Party::Aggregator(aggregator),
            evidence,
        };
        let named = aggregators.into_iter().map(named).chain(std::mem::take(&mut servers.named)).collect();
        Ok(Outcome { named, ..servers })
    }
}

/// Where the recipient finds posts.
struct Source<'s>(&'s Aggregated<'s>);

impl PostSource for Source<'_> {
    fn statement(&mut self, client: ClientId) -> Option<(VerifyingKey, SignedPost)> {
        Some((self.0.common.admitted(client).ok()?, self.0.heads.get(&client)?.signed.clone()))
    }

    fn commitment(&mut self, client: ClientId) -> Option<Commitment> {
        Some(self.0.heads.get(&client)?.commitment.clone())
    }

    fn ciphertext(&mut self, client: ClientId) -> Option<Vec<u8>> {
        let post = self.0.posts.as_ref()?.get(client.0, 0)?;
        Some(PostView::parse(&self.0.common.params, &post).ok()?.ciphertext.to_vec())
    }
}
