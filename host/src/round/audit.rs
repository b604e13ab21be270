//! A published round, verified again from the first leaf of the log to the last message. No trust in whoever keeps the
//! copy, none in the bulletin, none in the recipient.
//!
//! Whatever does not hold becomes a line, and the audit goes on as far as what is left allows. A party is named only by
//! statements under its own signature; what a copy got wrong names nobody.

mod bodies;
mod leaves;

use super::reading::{self, Found, Reading, Wanted};
use super::recover::Bodies;
use super::{Anchor, Blobs, Phase};
use crate::chain::chain;
use crate::store::disk::Disk;
use crate::store::fsck;
use crate::store::head_of;
use crate::store::tiles::PublishedTiles;
use chipmunk::ring::backend::Kernels;
use panetiere::evidence::Evidence;
use panetiere::fault::{Attribution, Fault};
use panetiere::ids::SessionId;
use panetiere_api::leaf::RoundId;
use std::sync::Arc;
use tlog::note::Note;

/// What came of one thing that was looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is as it must be.
    Ok,
    /// Worth knowing, and nobody's fault.
    Note,
    /// It could not be looked at: something is not there.
    Missing,
    /// It is not as it must be.
    Fault,
}

/// Where a line comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// What the log says.
    Log,
    /// A body beside the log, held against it.
    Body,
    /// Computed again from both.
    Recomputed,
}

impl Source {
    /// A stable name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Log => "log",
            Self::Body => "body",
            Self::Recomputed => "recomputed",
        }
    }
}

impl Outcome {
    /// A stable name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Note => "note",
            Self::Missing => "missing",
            Self::Fault => "fault",
        }
    }
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// What came of it.
    pub outcome: Outcome,
    /// Where it comes from.
    pub source: Source,
    /// A stable snake_case name: of the step, or of what is wrong.
    pub code: &'static str,
    /// In words. May hold what strangers wrote.
    pub text: String,
    /// Who is at fault, if anybody can be named.
    pub party: Attribution,
    /// What convicts them before everybody, where it takes no log to tell.
    pub evidence: Option<Box<Evidence>>,
}

/// A leaf about the round.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeafLine {
    /// Where it stands.
    pub index: u64,
    /// What it is.
    pub kind: &'static str,
    /// Why it is void, as code and words; none for one that counts.
    pub void: Option<(&'static str, String)>,
}

/// The audit of a round.
#[derive(Clone, Debug)]
pub struct Audit {
    /// Which round.
    pub round: RoundId,
    /// Its session, if the log could be read and opened it.
    pub session: Option<SessionId>,
    /// Size and root of the log, if it could be read.
    pub head: Option<tlog::checkpoint::TreeHead>,
    /// Everything that was looked at, in order.
    pub lines: Vec<Line>,
    /// The leaves about the round, in the order of the log.
    pub leaves: Vec<LeafLine>,
    /// Messages that came out, if any could.
    pub messages: Option<usize>,
}

/// A published log and what lies beside it.
pub struct Place<'a> {
    /// Where the published files are.
    pub disk: Arc<dyn Disk>,
    /// In which directory of it; empty: in its root.
    pub directory: &'a str,
    /// What the parties published.
    pub bodies: &'a dyn Bodies,
    /// Evidence that the log names.
    pub blobs: &'a dyn Blobs,
}

/// Audits a round.
pub fn audit(anchor: Anchor, kernels: &'static Kernels, place: &Place<'_>, round: RoundId) -> Audit {
    let (session, head, messages) = (None, None, None);
    let mut audit = Audit { round, session, head, lines: Vec::new(), leaves: Vec::new(), messages };
    let closing = audit.closing_note(place.bodies);
    let sizes = closing.iter().filter_map(size_of).collect();
    let tiles = PublishedTiles::new(Arc::clone(&place.disk), place.directory);
    let reading = reading::read(anchor, kernels, &tiles, place.blobs, &Wanted { round: Some(round), sizes });
    audit.files(place);
    let reading = match reading {
        Ok(reading) => reading,
        Err(error) => {
            let outcome = if error.is_fault() { Outcome::Fault } else { Outcome::Missing };
            audit.say(outcome, Source::Log, error.code(), chain(&error));
            let text =
                "nothing else was audited: everything follows from the leaves, and these are not the log's";
            audit.say(Outcome::Missing, Source::Log, "audit_stopped", text);
            return audit;
        }
    };
    audit.log(&reading);
    let Some(found) = &reading.found else {
        let last = reading.rounds.last().map_or(0, |last| last.round.0);
        let text = format!("the log has no round {round}: it has {last}");
        audit.say(Outcome::Missing, Source::Log, "audit_no_round", text);
        return audit;
    };
    audit.session = Some(*found.session.id());
    audit.round_leaves(found);
    audit.set(found, place.blobs);
    match found.session.phase() {
        Phase::Closed(_) => {
            audit.closing(&reading, found, closing.as_ref());
            audit.published(found, place.bodies);
            audit.recovery(found, place.bodies);
        }
        Phase::Aborted(reason) => {
            audit.say(Outcome::Ok, Source::Log, "round_aborted", format!("called off: {reason}"));
        }
        Phase::Collecting | Phase::Checking => {
            let text = "the round is not closed: there is nothing to recover yet";
            audit.say(Outcome::Missing, Source::Log, "round_open", text);
        }
    }
    audit
}

/// Leaves of a checkpoint's tree, as it claims.
fn size_of(note: &Note) -> Option<u64> {
    head_of(note).ok().map(|head| head.size)
}

impl Audit {
    /// The worst of it.
    pub fn outcome(&self) -> Outcome {
        let has = |outcome| self.lines.iter().any(|line| line.outcome == outcome);
        if has(Outcome::Fault) {
            Outcome::Fault
        } else if has(Outcome::Missing) {
            Outcome::Missing
        } else {
            Outcome::Ok
        }
    }

    /// The parties that are named, each once.
    pub fn named(&self) -> Vec<Attribution> {
        let mut named: Vec<_> = self.lines.iter().map(|line| line.party).collect();
        named.sort_unstable();
        named.dedup();
        named.retain(|party| *party != Attribution::Nobody);
        named
    }

    fn say(&mut self, outcome: Outcome, source: Source, code: &'static str, text: impl Into<String>) {
        self.charge(outcome, source, code, text, Attribution::Nobody, None);
    }

    fn charge(
        &mut self,
        outcome: Outcome,
        source: Source,
        code: &'static str,
        text: impl Into<String>,
        party: Attribution,
        evidence: Option<Box<Evidence>>,
    ) {
        // Whose fault a reader's own arguments are is nothing to tell others.
        let named = !matches!(party, Attribution::Caller | Attribution::Bug);
        let party = if named { party } else { Attribution::Nobody };
        self.lines.push(Line { outcome, source, code, text: text.into(), party, evidence });
    }

    /// The published files, each against the others.
    fn files(&mut self, place: &Place<'_>) {
        let report = fsck::published(&place.disk, place.directory, None);
        // What the checkpoint itself has is told by the reading, which knows the keys.
        let ours = |code: &str| !["published_checkpoint", "published_root"].contains(&code);
        let mut fine = true;
        for finding in report.findings.iter().filter(|finding| ours(finding.code)) {
            fine = false;
            let outcome = match finding.code {
                "published_missing" => Outcome::Missing,
                _ => Outcome::Fault,
            };
            let text = format!("{}: {}", finding.place, finding.what);
            self.say(outcome, Source::Log, finding.code, text);
        }
        if fine && report.published.is_some() {
            let text = format!("{} files of the log agree with each other", report.files);
            self.say(Outcome::Ok, Source::Log, "log_files", text);
        }
    }

    fn log(&mut self, reading: &Reading) {
        let size = reading.head.size;
        self.head = Some(reading.head);
        let text = format!("{size} leaves hash to the root of the checkpoint that the log signed");
        self.say(Outcome::Ok, Source::Log, "log_root", text);
    }

    fn closing_note(&mut self, bodies: &dyn Bodies) -> Option<Note> {
        match bodies.closing(self.round) {
            Ok(None) => None,
            Ok(Some(bytes)) => match Note::parse(&bytes) {
                Ok(note) => Some(note),
                Err(error) => {
                    let text = format!("the closing checkpoint is no note: {}", chain(&error));
                    self.say(Outcome::Fault, Source::Body, "closing_malformed", text);
                    None
                }
            },
            Err(error) => {
                let text = format!("the closing checkpoint cannot be read: {error}");
                self.say(Outcome::Missing, Source::Body, "closing_unreadable", text);
                None
            }
        }
    }

    /// Whether a quorum of witnesses has seen this close and no other.
    fn closing(&mut self, reading: &Reading, found: &Found, closing: Option<&Note>) {
        let (Some(closed), Some(quorum)) = (found.session.closed(), &found.quorum) else { return };
        // The newest checkpoint does as well, if it has the cosignatures.
        let newest = quorum.open(&reading.note).is_ok();
        let (note, root) = match closing {
            Some(note) if !newest => (note, size_of(note).and_then(|size| reading.roots.get(&size).copied())),
            _ if newest => (&reading.note, Some(reading.head.root)),
            _ => {
                let text = "no checkpoint with cosignatures that covers the close is here, so it cannot be told whether servers might release";
                self.say(Outcome::Missing, Source::Log, "closing_missing", text);
                return;
            }
        };
        let source = if newest { Source::Log } else { Source::Body };
        let cosigned = match quorum.open(note) {
            Ok(cosigned) => cosigned,
            Err(error) => {
                let text = format!("the closing checkpoint has no quorum: {}", chain(&error));
                self.say(Outcome::Fault, source, "closing_quorum", text);
                return;
            }
        };
        let head = cosigned.checkpoint.head();
        if head.size <= closed.at {
            let text =
                format!("the closing checkpoint has {} leaves, the close is leaf {}", head.size, closed.at);
            self.say(Outcome::Fault, source, "closing_too_early", text);
        } else if root.is_some_and(|root| root != head.root) {
            // The log's own signature is under both roots.
            let text = format!(
                "the log signed two trees of {} leaves: this one and the closing checkpoint's",
                head.size
            );
            self.charge(Outcome::Fault, source, "follow_split_view", text, Attribution::Operator, None);
        } else if root.is_none() {
            let text =
                format!("the closing checkpoint has {} leaves, this copy of the log has fewer", head.size);
            self.say(Outcome::Missing, source, "closing_ahead", text);
        } else {
            let (have, need, of) = (cosigned.cosigners.len(), quorum.needed(), quorum.witnesses().len());
            let text = format!(
                "{have} of {of} witnesses cosigned the close at leaf {}; {need} are needed",
                closed.at
            );
            self.say(Outcome::Ok, source, "closing_quorum", text);
        }
    }
}
