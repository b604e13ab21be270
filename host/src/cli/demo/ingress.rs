//! How ciphertexts get from the clients to the recipient: what the modes differ in.

use super::aggregated::Aggregated;
use super::client::Sent;
use super::direct::Direct;
use super::erasure::Erasure;
use super::lie::{Lie, Party};
use super::report::Measures;
use super::spool::Keep;
use crate::local::LocalRound;
use anyhow::bail;
use panetiere::bulletin::{CanonicalSet, Mode, ServerBulletinEntry, VerifiedPost};
use panetiere::channel::{ChannelError, Delivery};
use panetiere::evidence::Evidence;
use panetiere::fault::{Attribution, Fault};
use panetiere::ids::ClientId;
use panetiere::plaintext::PlainPoly;
use panetiere::protocol::Phase;
use std::time::{Duration, Instant};

/// Times and bytes of one pass.
#[derive(Default)]
pub(super) struct Book {
    pub phases: Measures<Duration>,
    pub links: Measures<u64>,
}

impl Book {
    /// Does the work, and counts its time as the phase's.
    pub fn time<T>(&mut self, phase: &'static str, work: impl FnOnce() -> T) -> T {
        let started = Instant::now();
        let result = work();
        self.phases.add(phase, started.elapsed());
        result
    }

    /// Counts bytes that crossed a link.
    pub fn carry(&mut self, link: &'static str, bytes: usize) {
        self.links.add(link, u64::try_from(bytes).expect("a length fits 64 bits"));
    }
}

/// One client's messages where they arrive: the statement checked, all else still bytes.
pub(super) struct Delivered<'a> {
    pub post: VerifiedPost,
    pub sent: &'a Sent,
}

/// A party that was named, with what convicts it before everybody.
pub(super) struct Named {
    pub party: Party,
    pub evidence: Option<Box<Evidence>>,
}

/// What the recipient has found.
pub(super) struct Outcome {
    /// The sum of the vectors; nothing if too few parties told the truth.
    pub plaintext: Option<Vec<PlainPoly>>,
    /// What the channel has made of it, if the recovery has asked it already.
    pub delivery: Option<Result<Delivery, ChannelError>>,
    /// Who signed something false.
    pub named: Vec<Named>,
    /// Whose answer has not come.
    pub absent: Vec<Party>,
}

/// The parties between clients and recipient in one mode, and the recipient's end of it.
pub(super) trait Ingress {
    /// Takes what these clients sent. Returns the clients that are proved to have sent something wrong.
    fn arrive(&mut self, delivered: &[Delivered<'_>], book: &mut Book) -> anyhow::Result<Vec<ClientId>>;

    /// Looks at the candidates as a whole before the set is closed. Returns the clients found to be at fault.
    fn examine(&mut self, _: &CanonicalSet, _: &mut Book) -> anyhow::Result<Vec<ClientId>> {
        Ok(Vec::new())
    }

    /// The bytes of what the parties of this mode publish over the set.
    fn close(&mut self, canonical: &CanonicalSet, book: &mut Book) -> anyhow::Result<Vec<Vec<u8>>>;

    /// Puts a lie in place of what the liar has published, if the liar is of this mode.
    fn falsify(
        &mut self,
        lie: Lie,
        liar: Party,
        canonical: &CanonicalSet,
        sums: &mut Vec<Vec<u8>>,
    ) -> anyhow::Result<()>;

    /// What the link is called on which their sums reach the recipient.
    fn link(&self) -> &'static str;

    /// Steps of [`recover`](Self::recover) that `observe` is told of.
    fn steps(&self) -> u64;

    /// The recipient's work, from what the servers and the parties of this mode have published.
    fn recover(
        &self,
        canonical: &CanonicalSet,
        entries: &[ServerBulletinEntry],
        sums: &[Vec<u8>],
        observe: &mut dyn FnMut(&'static str),
    ) -> anyhow::Result<Outcome>;
}

/// The client that a fault proves to be at fault; any other fault ends the demo.
pub(super) fn client_at_fault<F: Fault + Send + Sync + 'static>(fault: F) -> anyhow::Result<ClientId> {
    match fault.attribution() {
        Attribution::Client(client) => Ok(client),
        _ => Err(fault.into()),
    }
}

/// The ingress of a round in its mode; `liar` is who will lie in it.
pub(super) fn of<'a>(
    common: &'a LocalRound,
    keep: Keep,
    liar: Option<Party>,
) -> anyhow::Result<Box<dyn Ingress + 'a>> {
    Ok(match common.params.mode() {
        Mode::Direct => Box::new(Direct::new(common, keep)?),
        Mode::Aggregated => {
            let liar = match liar {
                Some(Party::Aggregator(aggregator)) => Some(aggregator),
                _ => None,
            };
            Box::new(Aggregated::new(common, keep, liar)?)
        }
        Mode::Erasure => Box::new(Erasure::new(common, keep)?),
        mode => bail!("no demo runs in {mode} mode"),
    })
}

/// What a phase of the recipient is called in the report.
pub(super) const fn phase_name(phase: Phase) -> &'static str {
    match phase {
        Phase::SumPosts => "recipient reads posts",
        Phase::VerifyLanes => "recipient verify lanes",
        Phase::Reconstruct => "recipient put together",
        Phase::VerifyOpenings => "recipient verify",
        Phase::Interpolate => "recipient interpolate",
        Phase::Decrypt => "recipient decrypt",
        _ => "recipient",
    }
}
