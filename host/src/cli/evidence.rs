//! `panetiere evidence`: checks evidence of a fault, offline, with nothing but what is in the file.

use super::Exit;
use super::outcome::{self, finish};
use super::terminal::escape;
use crate::chain::chain;
use anyhow::Context as _;
use chipmunk::ring::backend::Simd;
use panetiere::evidence::{Evidence, Outcome, Verdict};
use panetiere::fault::{Attribution, Fault};
use panetiere::wire::{Decode, Encode};
use serde_json::{Value, json};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Longest file that is read, 1 GiB: a guard against a mistaken name. Evidence against a client of fourteen lanes of
/// 16 KiB messages has 6 MB.
const MAX_BYTES: u64 = 1 << 30;

/// Evidence of a fault: self-contained files that convict one party.
#[derive(clap::Subcommand)]
pub enum Command {
    /// Check a file of evidence: exit code 3 if it convicts somebody, 0 if it does not, 2 if it is no evidence
    Verify(Verify),
}

/// Arguments of `panetiere evidence verify`.
#[derive(clap::Args)]
pub struct Verify {
    /// The file
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// One object on stdout instead of text
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn execute(command: &Command, simd: Simd) -> Exit {
    let Command::Verify(Verify { file, json }) = command;
    finish(verify(file, *json, simd), &format!("{}: ", file.display()))
}

fn verify(file: &Path, json: bool, simd: Simd) -> outcome::Outcome {
    let report = Report::new(&read(file)?, simd)?;
    let exit = match report.verdict.convicted() {
        Attribution::Nobody => Exit::Ok,
        _ => Exit::Convicted,
    };
    Ok((if json { report.json().to_string() } else { report.text() }, exit))
}

fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    let file = File::open(path).context("cannot be opened")?;
    let mut bytes = Vec::new();
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes).context("cannot be read")?;
    anyhow::ensure!(
        u64::try_from(bytes.len()).is_ok_and(|len| len <= MAX_BYTES),
        "has more than {MAX_BYTES} bytes: no evidence is that long"
    );
    Ok(bytes)
}

struct Report {
    bytes: usize,
    evidence: Evidence,
    verdict: Verdict,
}

/// A party in words.
pub(super) fn party(attribution: Attribution) -> String {
    match attribution {
        Attribution::Aggregator(id) => format!("aggregator {id}"),
        Attribution::Client(id) => format!("client {id}"),
        Attribution::Lane(id) => format!("lane {id}"),
        Attribution::Server(id) => format!("server {id}"),
        _ => "nobody".to_owned(),
    }
}

impl Report {
    fn new(bytes: &[u8], simd: Simd) -> anyhow::Result<Self> {
        let evidence = Evidence::from_bytes(bytes).context("is no evidence")?;
        let verdict = evidence.verify(simd.kernels()).context("is no evidence")?;
        Ok(Self { bytes: evidence.encoded_len(), evidence, verdict })
    }

    /// What was found: code and words.
    fn finding(&self) -> (&'static str, String) {
        match &self.verdict.outcome {
            Outcome::Acquits(reason) => (reason.code(), chain(reason)),
            Outcome::Convicts(finding) => (finding.code(), chain(finding)),
        }
    }

    fn text(&self) -> String {
        let Verdict { kind, accused, session, outcome } = &self.verdict;
        let (_, finding) = self.finding();
        let first = match outcome {
            Outcome::Convicts(_) => format!("{} is convicted: {finding}", party(*accused)),
            Outcome::Acquits(_) => format!("nobody is convicted, {} is not: {finding}", party(*accused)),
        };
        let epoch = self.evidence.epoch();
        let mut lines = vec![
            first,
            format!("evidence    {kind}, {} bytes", self.bytes),
            format!("session     {session}"),
            format!("deployment  {}", epoch.deployment()),
            format!("epoch       {}, document {}", epoch.number(), epoch.digest()),
        ];
        if let Some((_, key)) = self.evidence.client_key() {
            lines.push(format!("key         {}", data_encoding::HEXLOWER.encode(&key.to_sec1())));
        }
        lines.push(format!("checked     {}", kind.checked()));
        lines.push(match self.evidence.client_key() {
            None => "not checked that the document is this deployment's".to_owned(),
            Some(_) => {
                "not checked that the document is this deployment's, and that the key was admitted as this client's".to_owned()
            }
        });
        lines.iter().map(|line| escape(line)).collect::<Vec<_>>().join("\n")
    }

    fn json(&self) -> Value {
        let Verdict { kind, accused, session, outcome } = &self.verdict;
        let (code, finding) = self.finding();
        let epoch = self.evidence.epoch();
        let convicts = matches!(outcome, Outcome::Convicts(_));
        let key = self.evidence.client_key();
        json!({
            "convicts": convicts.then(|| party(*accused)),
            "accused": party(*accused),
            "kind": kind.name(),
            "code": code,
            "finding": finding,
            "checked": kind.checked(),
            "session": session.to_string(),
            "deployment": epoch.deployment().to_string(),
            "epoch": epoch.number().0,
            "epoch_digest": epoch.digest().to_string(),
            "client_key": key.map(|(_, key)| data_encoding::HEXLOWER.encode(&key.to_sec1())),
            "bytes": self.bytes,
        })
    }
}
