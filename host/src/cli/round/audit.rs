//! `panetiere round audit`.

use super::{Audit as Args, Failure, Opened, Outcome, wrapped};
use crate::cli::Exit;
use crate::cli::evidence::party;
use crate::cli::terminal::escape;
use crate::round::audit::{self, Audit, Line, Outcome as Found, Place};
use anyhow::Context as _;
use chipmunk::ring::backend::Simd;
use panetiere::fault::Attribution;
use panetiere::wire::Encode as _;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::sync::Arc;

pub(super) fn run(args: &Args, simd: Simd) -> Outcome {
    let opened = Opened::new(&args.log)?;
    let anchor = opened.anchor.clone();
    let audit = opened.with(|bodies, blobs| {
        let (disk, directory) = (Arc::clone(&opened.disk), opened.directory);
        audit::audit(anchor, simd.kernels(), &Place { disk, directory, bodies, blobs }, args.round)
    });
    let files = match &args.evidence {
        Some(directory) => write_evidence(directory, &audit)
            .with_context(|| format!("{}: cannot be written", directory.display()))
            .map_err(|error| Failure { exit: Exit::Failed, error })?,
        None => vec![None; audit.lines.len()],
    };
    let exit = match audit.outcome() {
        Found::Ok | Found::Note => Exit::Ok,
        Found::Missing => Exit::Failed,
        Found::Fault => Exit::Convicted,
    };
    let report = Report { audit: &audit, files: &files, anchor_beside: opened.anchor_beside };
    let text = if args.log.json { report.json().to_string() } else { report.text() };
    Ok((text, exit))
}

/// A party as a command line has it: `server 2`, `the operator`.
fn name(attribution: Attribution) -> Option<String> {
    match attribution {
        Attribution::Nobody => None,
        Attribution::Operator => Some("operator".to_owned()),
        other => Some(party(other)),
    }
}

/// Writes what convicts somebody; the path of each line's, if it has any.
fn write_evidence(directory: &Path, audit: &Audit) -> anyhow::Result<Vec<Option<String>>> {
    fs::create_dir_all(directory)?;
    let mut paths = Vec::with_capacity(audit.lines.len());
    for (at, line) in audit.lines.iter().enumerate() {
        let (Some(evidence), Some(who)) = (&line.evidence, name(line.party)) else {
            paths.push(None);
            continue;
        };
        let name =
            format!("round-{}-{:02}-{}-{}.evidence", audit.round, at, who.replace(' ', "-"), line.code);
        let path = directory.join(name);
        fs::write(&path, evidence.to_bytes())?;
        paths.push(Some(path.display().to_string()));
    }
    Ok(paths)
}

struct Report<'a> {
    audit: &'a Audit,
    files: &'a [Option<String>],
    anchor_beside: bool,
}

impl Report<'_> {
    fn verdict(&self) -> &'static str {
        match self.audit.outcome() {
            Found::Ok | Found::Note => "ok",
            Found::Missing => "incomplete",
            Found::Fault => "fault",
        }
    }

    fn text(&self) -> String {
        let audit = self.audit;
        let mut lines = vec![format!("round     {}", audit.round)];
        lines.extend(audit.session.map(|session| format!("session   {session}")));
        lines.extend(audit.head.map(|head| {
            format!(
                "log       {} leaves\nroot      {}",
                head.size,
                data_encoding::HEXLOWER.encode(&head.root)
            )
        }));
        if self.anchor_beside {
            let text = "lies beside the log: nothing here says that this is the log you mean";
            lines.push(wrapped("anchor    ", text));
        }
        lines.push(String::new());
        for (line, file) in audit.lines.iter().zip(self.files) {
            lines.push(line_text(line));
            if let Some(who) = name(line.party) {
                let with = match (file, &line.evidence) {
                    (Some(path), _) => format!("named: {who}, evidence in {}", escape(path)),
                    (None, Some(_)) => format!("named: {who}; write the evidence with --evidence DIR"),
                    (None, None) => format!("named: {who}; the signed leaves are the evidence"),
                };
                lines.push(wrapped(&" ".repeat(20), &with));
            }
        }
        lines.push(String::new());
        let count = |outcome| audit.lines.iter().filter(|line| line.outcome == outcome).count();
        let (faults, missing) = (count(Found::Fault), count(Found::Missing));
        lines.push(match audit.outcome() {
            Found::Ok | Found::Note => "all right".to_owned(),
            Found::Missing => format!("not audited in full: {missing} things are missing"),
            Found::Fault => {
                let named: Vec<String> = audit.named().into_iter().filter_map(name).collect();
                let named = if named.is_empty() { "nobody".to_owned() } else { named.join(", ") };
                wrapped("", &format!("{faults} faults, {missing} things missing; named: {named}"))
            }
        });
        lines.join("\n")
    }

    fn json(&self) -> Value {
        let audit = self.audit;
        let lines = audit.lines.iter().zip(self.files).map(|(line, file)| {
            json!({
                "outcome": line.outcome.name(),
                "source": line.source.name(),
                "code": line.code,
                "text": line.text,
                "party": name(line.party),
                "convicts": line.evidence.is_some(),
                "evidence": file,
            })
        });
        let leaves = audit.leaves.iter().map(|leaf| {
            let void = leaf.void.as_ref();
            json!({
                "index": leaf.index,
                "kind": leaf.kind,
                "counts": void.is_none(),
                "code": void.map(|(code, _)| code),
                "reason": void.map(|(_, reason)| reason),
            })
        });
        json!({
            "round": audit.round.0,
            "session": audit.session.map(|session| session.to_string()),
            "log_size": audit.head.map(|head| head.size),
            "log_root": audit.head.map(|head| data_encoding::HEXLOWER.encode(&head.root)),
            "anchor_beside_log": self.anchor_beside,
            "verdict": self.verdict(),
            "named": audit.named().into_iter().filter_map(name).collect::<Vec<_>>(),
            "messages": audit.messages,
            "lines": lines.collect::<Vec<_>>(),
            "leaves": leaves.collect::<Vec<_>>(),
        })
    }
}

fn line_text(line: &Line) -> String {
    let outcome = match line.outcome {
        Found::Fault => "FAULT",
        Found::Missing => "MISSING",
        other => other.name(),
    };
    let code = match line.outcome {
        Found::Ok | Found::Note => String::new(),
        Found::Missing | Found::Fault => format!(" [{}]", line.code),
    };
    wrapped(&format!("{outcome:<7}  {:<10} ", line.source.name()), &format!("{}{code}", line.text))
}
