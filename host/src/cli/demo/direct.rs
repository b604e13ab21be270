//! Direct mode: ciphertexts go to the bulletin, and the recipient adds them as they come.

use super::ingress::{Book, Delivered, Ingress, Named, Outcome, client_at_fault, phase_name};
use super::lie::{Lie, Party};
use super::spool::{Keep, Spool};
use crate::local::LocalRound;
use anyhow::Context;
use panetiere::bulletin::{CanonicalSet, PostView, ServerBulletinEntry};
use panetiere::ids::ClientId;
use panetiere::protocol::{
    Culprit, Phase, PostSum, RecipientError, Recovered, RejectReason, decrypt_aggregate,
};

pub(super) struct Direct<'a> {
    common: &'a LocalRound,
    /// The recipient's sum over all clients.
    posts: PostSum<'a>,
    /// The bulletin: the recipient reads there again if not all clients are in the set.
    bulletin: Option<Spool>,
}

impl<'a> Direct<'a> {
    pub fn new(common: &'a LocalRound, keep: Keep) -> anyhow::Result<Self> {
        let bulletin = (keep != Keep::Nothing).then(Spool::new).transpose()?;
        Ok(Self { common, posts: PostSum::new(&common.params, common.session, &common.canonical), bulletin })
    }

    /// The posts of this set, read from the bulletin.
    fn read<'s>(&'s self, canonical: &'s CanonicalSet) -> anyhow::Result<PostSum<'s>> {
        let bulletin = self.bulletin.as_ref().context("some client was refused although all are honest")?;
        let mut posts = PostSum::new(&self.common.params, self.common.session, canonical);
        for client in canonical.clients() {
            let post = bulletin.get(client.0, 0).context("a post is lost")?;
            posts.add(&self.common.admitted(*client)?, PostView::parse(&self.common.params, &post)?)?;
        }
        Ok(posts)
    }
}

impl Ingress for Direct<'_> {
    fn arrive(&mut self, delivered: &[Delivered<'_>], book: &mut Book) -> anyhow::Result<Vec<ClientId>> {
        let mut accused = Vec::new();
        for Delivered { sent, .. } in delivered {
            book.carry("clients to bulletin", sent.post.len());
            book.carry("bulletin to recipient", sent.post.len());
            if let Some(bulletin) = &self.bulletin {
                bulletin.put(sent.client.0, 0, &sent.post)?;
            }
            let key = self.common.admitted(sent.client)?;
            let added = book.time("recipient arrival", || {
                let post = PostView::parse(&self.common.params, &sent.post)?;
                anyhow::Ok(self.posts.add(&key, post))
            })?;
            if let Err(fault) = added {
                accused.push(client_at_fault(fault)?);
            }
        }
        Ok(accused)
    }

    fn close(&mut self, _: &CanonicalSet, _: &mut Book) -> anyhow::Result<Vec<Vec<u8>>> {
        Ok(Vec::new())
    }

    fn falsify(&mut self, _: Lie, _: Party, _: &CanonicalSet, _: &mut Vec<Vec<u8>>) -> anyhow::Result<()> {
        Ok(())
    }

    fn link(&self) -> &'static str {
        "bulletin to recipient"
    }

    fn steps(&self) -> u64 {
        3
    }

    fn recover(
        &self,
        canonical: &CanonicalSet,
        entries: &[ServerBulletinEntry],
        _: &[Vec<u8>],
        observe: &mut dyn FnMut(&'static str),
    ) -> anyhow::Result<Outcome> {
        let mut phases = |phase| observe(phase_name(phase));
        let outcome = if *canonical == self.common.canonical {
            decrypt_aggregate(&self.posts, &self.common.epoch, entries, &mut phases)
        } else {
            let posts = self.read(canonical)?;
            phases(Phase::SumPosts);
            decrypt_aggregate(&posts, &self.common.epoch, entries, &mut phases)
        };
        settle(outcome)
    }
}

/// What is left of a recovery that knows of servers only.
pub(super) fn settle(outcome: Result<Recovered, RecipientError>) -> anyhow::Result<Outcome> {
    let (plaintext, culprits) = match outcome {
        Ok(Recovered { plaintext, culprits, discarded, .. }) => {
            if let Some(discarded) = discarded.into_iter().next() {
                return Err(anyhow::Error::from(discarded).context("a sum of this very round was discarded"));
            }
            (Some(plaintext), culprits)
        }
        Err(RecipientError::Rejected(RejectReason::SharesExhausted { culprits, .. })) => (None, culprits),
        Err(error) => return Err(anyhow::Error::from(error).context("the round was not recovered")),
    };
    let named = |Culprit { server, evidence, .. }| Named { party: Party::Server(server), evidence };
    let named = culprits.into_iter().map(named).collect();
    Ok(Outcome { plaintext, delivery: None, named, absent: Vec::new() })
}
