//! Erasure mode: ciphertexts go as coded shares to lanes, which add them; the recipient gets constant-size posts and the
//! lanes' sums.

use super::direct;
use super::ingress::{Book, Delivered, Ingress, Named, Outcome, client_at_fault, phase_name};
use super::lie::{Lie, Party};
use super::spool::{Keep, Spool};
use crate::local::LocalRound;
use anyhow::{Context, bail};
use panetiere::bulletin::{
    CanonicalSet, LaneBulletinEntry, LaneItem, RsClientBulletinEntry, ServerBulletinEntry,
};
use panetiere::ids::{ClientId, NodeId};
use panetiere::protocol::{
    Bisection, CodewordVerdict, ItemSource, LaneCode, LaneCulprit, LaneIdentity, LaneRound, NextStep,
    NotRecovered, RecipientError, RecoveredRs, RejectReason, RsPosts, decrypt_aggregate_rs,
};
use panetiere::wire::DecodeWith;
use rayon::prelude::*;
use std::sync::Arc;

pub(super) struct Erasure<'a> {
    common: &'a LocalRound,
    code: &'a LaneCode,
    lanes: Vec<LaneRound>,
    posts: RsPosts<'a>,
    keep: Keep,
    /// The lanes' disks, in one file.
    disk: Arc<Spool>,
}

impl<'a> Erasure<'a> {
    pub fn new(common: &'a LocalRound, keep: Keep) -> anyhow::Result<Self> {
        let code = common.params.lane_code().context("a round with lanes has a code")?;
        let disk = Arc::new(Spool::new()?);
        let lane = |identity: &Arc<LaneIdentity>| {
            let source = source(common, identity.id(), &disk);
            LaneRound::with_source(Arc::clone(&common.params), common.session, Arc::clone(identity), source)
        };
        let lanes = common.lanes.iter().map(lane).collect();
        let posts = RsPosts::new(&common.params, common.session);
        Ok(Self { common, code, lanes, posts, keep, disk })
    }

    /// The lanes' sums over a set before the close, each through its bytes.
    fn check_sums(&self, set: &CanonicalSet, book: &mut Book) -> anyhow::Result<Vec<LaneBulletinEntry>> {
        let sums: Vec<_> = self.lanes.par_iter().map(|lane| lane.check_sum(set)).collect();
        let mut entries = Vec::with_capacity(sums.len());
        for sum in sums {
            let bytes = sum.context("a lane could not sum for a check")?.to_bytes(self.code);
            book.carry("lanes to bulletin", bytes.len());
            entries.push(LaneBulletinEntry::from_bytes_with(&*self.common.params, &bytes)?);
        }
        Ok(entries)
    }

    /// A client among the candidates that committed to no codeword, if the lanes' sums say so.
    fn find(&self, candidates: &CanonicalSet, book: &mut Book) -> anyhow::Result<Option<ClientId>> {
        let sums = self.check_sums(candidates, book)?;
        let (verdict, culprits) = Bisection::start(&self.posts, &self.common.epoch, candidates, &sums)?;
        no_liar(&culprits)?;
        let CodewordVerdict::NotACodeword(mut search) = verdict else { return Ok(None) };
        loop {
            match search.next_step() {
                NextStep::Found(client) => return Ok(Some(client)),
                NextStep::Ask(set) => no_liar(&search.answer(&self.check_sums(&set, book)?)?)?,
            }
        }
    }
}

/// Where a lane finds an item again.
fn source(common: &LocalRound, lane: NodeId, disk: &Arc<Spool>) -> ItemSource {
    let (params, disk) = (Arc::clone(&common.params), Arc::clone(disk));
    Box::new(move |client| LaneItem::from_bytes_with(&*params, &disk.get(client.0, lane.0)?).ok())
}

/// No lane of a demo lies before the close.
fn no_liar(culprits: &[LaneCulprit]) -> anyhow::Result<()> {
    match culprits.first() {
        Some(LaneCulprit { lane, fault, .. }) => {
            Err(anyhow::Error::from(fault.clone()).context(format!("lane {lane} was named before the close")))
        }
        None => Ok(()),
    }
}

impl Ingress for Erasure<'_> {
    fn arrive(&mut self, delivered: &[Delivered<'_>], book: &mut Book) -> anyhow::Result<Vec<ClientId>> {
        let params = &*self.common.params;
        let (keep, disk) = (self.keep, &self.disk);
        let lanes = &mut self.lanes;
        let accused = book.time("lane arrival", || {
            let one = |(number, round): (usize, &mut LaneRound)| {
                let mut accused = Vec::new();
                for Delivered { post, sent } in delivered {
                    let bytes = &sent.items[number];
                    if keep.covers(sent.client.0) {
                        disk.put(sent.client.0, u16::try_from(number)?, bytes)?;
                    }
                    if let Err(fault) = round.receive(post, &LaneItem::from_bytes_with(params, bytes)?) {
                        accused.push(client_at_fault(fault)?);
                    }
                }
                anyhow::Ok(accused)
            };
            lanes.par_iter_mut().enumerate().map(one).collect::<anyhow::Result<Vec<_>>>()
        })?;
        for Delivered { sent, .. } in delivered {
            let key = self.common.admitted(sent.client)?;
            book.time("recipient arrival", || {
                anyhow::Ok(
                    self.posts.add(&key, &RsClientBulletinEntry::from_bytes_with(params, &sent.post)?)?,
                )
            })?;
            book.carry("clients to bulletin", sent.post.len());
            book.carry("clients to lanes", sent.items.iter().map(Vec::len).sum());
            book.carry("bulletin to lanes", sent.statement.len() * self.lanes.len());
            book.carry("bulletin to recipient", sent.post.len());
        }
        Ok(accused.concat())
    }

    fn examine(&mut self, candidates: &CanonicalSet, book: &mut Book) -> anyhow::Result<Vec<ClientId>> {
        let mut found = Vec::new();
        if self.code.shape().needed == self.code.shape().lanes {
            // Any shares are a codeword's.
            return Ok(found);
        }
        let started = std::time::Instant::now();
        let mut candidates = candidates.clone();
        while let Some(client) = self.find(&candidates, book)? {
            found.push(client);
            candidates = super::round::without(&candidates, &[client])?;
        }
        book.phases.add("codeword check", started.elapsed());
        Ok(found)
    }

    fn close(&mut self, canonical: &CanonicalSet, book: &mut Book) -> anyhow::Result<Vec<Vec<u8>>> {
        let (lanes, code) = (&mut self.lanes, self.code);
        book.time("lane close", || {
            let close = |lane: &mut LaneRound| {
                anyhow::Ok(lane.close(canonical).context("a lane could not close the round")?.to_bytes(code))
            };
            lanes.par_iter_mut().map(close).collect()
        })
    }

    fn falsify(
        &mut self,
        lie: Lie,
        liar: Party,
        canonical: &CanonicalSet,
        sums: &mut Vec<Vec<u8>>,
    ) -> anyhow::Result<()> {
        let Party::Lane(lane) = liar else { return Ok(()) };
        let place = usize::from(lane.0);
        match lie {
            Lie::LaneDown => {
                sums.remove(place);
            }
            Lie::LaneWrongSum => {
                let last = *canonical.clients().last().context("an empty set")?;
                let omitting = self.lanes[place].check_sum(&super::round::without(canonical, &[last])?)?;
                let honest = LaneBulletinEntry::from_bytes_with(&*self.common.params, &sums[place])?;
                let key = self.common.lanes[place].signing_key();
                let wrong =
                    LaneBulletinEntry::sign(*honest.claim(), omitting.opening().clone(), self.code, key);
                sums[place] = wrong.to_bytes(self.code);
            }
            _ => bail!("a lane does not tell the lie {lie}"),
        }
        Ok(())
    }

    fn link(&self) -> &'static str {
        "lanes to recipient"
    }

    fn steps(&self) -> u64 {
        5
    }

    fn recover(
        &self,
        canonical: &CanonicalSet,
        entries: &[ServerBulletinEntry],
        sums: &[Vec<u8>],
        observe: &mut dyn FnMut(&'static str),
    ) -> anyhow::Result<Outcome> {
        let params = &*self.common.params;
        let lanes = sums
            .par_iter()
            .map(|sum| LaneBulletinEntry::from_bytes_with(params, sum))
            .collect::<Result<Vec<_>, _>>()
            .context("a lane's sum does not parse")?;
        let answered = |lane: &NodeId| lanes.iter().any(|entry| entry.claim().lane == *lane);
        let silent = (0..self.code.shape().lanes).map(NodeId).filter(|lane| !answered(lane));
        let absent: Vec<Party> = silent.map(Party::Lane).collect();
        let epoch = &self.common.epoch;
        let one = |LaneCulprit { lane, evidence, .. }| Named { party: Party::Lane(lane), evidence };
        let named = |culprits: Vec<LaneCulprit>| culprits.into_iter().map(one);
        let with_servers = |lanes: Vec<LaneCulprit>, servers: Outcome, absent| Outcome {
            named: named(lanes).chain(servers.named).collect(),
            plaintext: servers.plaintext,
            delivery: None,
            absent,
        };
        let mut phases = |phase| observe(phase_name(phase));
        match decrypt_aggregate_rs(&self.posts, epoch, canonical, entries, &lanes, &mut phases) {
            Ok(RecoveredRs { recovered, lane_culprits, lanes_missing, lanes_discarded }) => {
                if let Some(discarded) = lanes_discarded.into_iter().next() {
                    return Err(anyhow::Error::from(discarded).context("a lane's sum was discarded"));
                }
                let absent = lanes_missing.into_iter().map(Party::Lane).collect();
                Ok(with_servers(lane_culprits, direct::settle(Ok(recovered))?, absent))
            }
            Err(NotRecovered { reason, lanes, .. }) => match reason {
                RecipientError::BelowLaneThreshold { .. }
                | RecipientError::Rejected(RejectReason::LanesExhausted { .. }) => {
                    Ok(Outcome { plaintext: None, delivery: None, named: named(lanes).collect(), absent })
                }
                reason => Ok(with_servers(lanes, direct::settle(Err(reason))?, absent)),
            },
        }
    }
}
