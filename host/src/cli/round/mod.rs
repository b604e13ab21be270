//! `panetiere round`: published rounds, looked at offline by anybody who holds a copy of the log.

mod audit;
mod list;

use super::Exit;
use super::outcome::{Failure, Outcome, finish};
use super::terminal::escape;
use crate::anchor;
use crate::round::library::Library;
use crate::round::mirror::Mirror;
use crate::round::recover::Bodies;
use crate::round::{Anchor, Blobs};
use crate::store::Reader;
use crate::store::disk::{Disk, LocalDisk};
use anyhow::Context as _;
use chipmunk::ring::backend::Simd;
use panetiere_api::leaf::RoundId;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Columns of output for people.
const COLUMNS: usize = 80;

/// Rounds of a published log.
#[derive(clap::Subcommand)]
pub enum Command {
    /// Verify a whole round again, offline: log, set, openings, sums, messages, result
    #[command(after_help = "Exit code 0: all right. 3: a fault was found. 1: something is missing, so not \
        all could be audited. 2: the command line or the anchor has to change.\n\n\
        Examples:\n  panetiere round audit 7 --log /srv/mirror --anchor anchor.toml\n  \
        panetiere round audit 7 --log /srv/mirror --evidence found --json")]
    Audit(Audit),
    /// Show every round of a log in a line
    #[command(after_help = "Example:\n  panetiere round list --log /srv/mirror --anchor anchor.toml")]
    List(List),
    /// Show one round: how far it is, its leaves, complaints, who is out and why
    #[command(after_help = "Example:\n  panetiere round inspect 7 --log /srv/mirror --anchor anchor.toml")]
    Inspect(Inspect),
}

/// Where the log is.
#[derive(clap::Args)]
struct LogArgs {
    /// A copy of the log (checkpoint, tile/, rounds/), or the directory of a bulletin that is not running
    #[arg(long, value_name = "DIR")]
    log: PathBuf,

    /// What is known of the log beforehand: origin, log_key, deployment, operator_key. Without it DIR/anchor.toml, which
    /// proves nothing about where the log comes from
    #[arg(long, value_name = "FILE")]
    anchor: Option<PathBuf>,

    /// One object on stdout instead of text
    #[arg(long)]
    json: bool,
}

/// Arguments of `panetiere round audit`.
#[derive(clap::Args)]
pub struct Audit {
    /// Number of the round, from 1
    #[arg(value_name = "ROUND")]
    round: RoundId,

    #[command(flatten)]
    log: LogArgs,

    /// Directory for evidence of faults, one file each; made if it is not there
    #[arg(long, value_name = "DIR")]
    evidence: Option<PathBuf>,
}

/// Arguments of `panetiere round list`.
#[derive(clap::Args)]
pub struct List {
    #[command(flatten)]
    log: LogArgs,
}

/// Arguments of `panetiere round inspect`.
#[derive(clap::Args)]
pub struct Inspect {
    /// Number of the round, from 1
    #[arg(value_name = "ROUND")]
    round: RoundId,

    #[command(flatten)]
    log: LogArgs,
}

/// Runs the command.
pub fn execute(command: &Command, simd: Simd) -> Exit {
    let outcome = match command {
        Command::Audit(args) => audit::run(args, simd),
        Command::List(args) => list::list(args, simd),
        Command::Inspect(args) => list::inspect(args, simd),
    };
    finish(outcome, "")
}

/// A copy of a log, opened.
struct Opened {
    anchor: Anchor,
    /// Whether the anchor came with the log.
    anchor_beside: bool,
    disk: Arc<dyn Disk>,
    directory: &'static str,
    kept: Kept,
}

enum Kept {
    Mirror(Mirror),
    Store(Reader),
}

impl Opened {
    fn new(args: &LogArgs) -> Result<Self, Failure> {
        let shown = args.log.display();
        let disk: Arc<dyn Disk> = Arc::new(LocalDisk::new(&args.log));
        let names = disk.list("").with_context(|| format!("{shown}: cannot be listed"))?;
        let has = |wanted: &str| names.iter().any(|name| name.name == wanted);
        let beside = args.log.join(anchor::FILE_NAME);
        let path: &Path = args.anchor.as_deref().unwrap_or(&beside);
        let anchor = anchor::read(path).with_context(|| format!("{}", path.display()))?;
        let (directory, kept) = if has("meta.redb") {
            let failed = |error| Failure { exit: Exit::Failed, error };
            let reader =
                Reader::open(Arc::clone(&disk)).context("the store cannot be read").map_err(failed)?;
            let running = || {
                anyhow::anyhow!("{shown}: another process has it open; audit a copy: panetiere log export")
            };
            ("log", Kept::Store(reader.ok_or_else(running).map_err(failed)?))
        } else {
            ("", Kept::Mirror(Mirror::new(Arc::clone(&disk))))
        };
        Ok(Self { anchor, anchor_beside: args.anchor.is_none(), disk, directory, kept })
    }

    fn with<T>(&self, read: impl FnOnce(&dyn Bodies, &dyn Blobs) -> T) -> T {
        match &self.kept {
            Kept::Mirror(mirror) => read(mirror, mirror),
            Kept::Store(reader) => {
                let library = Library(reader);
                read(&library, &library)
            }
        }
    }
}

/// Text in lines of at most [`COLUMNS`], the first behind `head`, the others indented as far.
fn wrapped(head: &str, text: &str) -> String {
    let (indent, room) = (head.chars().count(), COLUMNS.saturating_sub(head.chars().count()).max(20));
    let (mut lines, mut line) = (Vec::new(), String::new());
    for word in escape(text).split(' ') {
        let mut word = word;
        let fits = line.is_empty() || line.chars().count() + 1 + word.chars().count() <= room;
        if !fits {
            lines.push(std::mem::take(&mut line));
        }
        if !line.is_empty() {
            line.push(' ');
        }
        // A word longer than a line is broken where the line ends.
        while word.chars().count() > room {
            let at = word.char_indices().nth(room).map_or(word.len(), |(at, _)| at);
            lines.push(word[..at].to_owned());
            word = &word[at..];
        }
        line.push_str(word);
    }
    lines.push(line);
    let blank = " ".repeat(indent);
    let lines = lines.iter().enumerate().map(|(at, line)| {
        let head = if at == 0 { head } else { &blank };
        format!("{head}{line}")
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_wrapped_at_80_columns_and_escaped() {
        let text = format!("{} {} \u{1b}[2J end", "word ".repeat(40), "x".repeat(150));
        let out = wrapped("ok     log         ", &text);
        assert!(out.lines().all(|line| line.chars().count() <= COLUMNS && !line.contains('\u{1b}')), "{out}");
        let joined: String = out.chars().filter(|c| !c.is_whitespace()).collect();
        assert_eq!(joined.matches('x').count(), 150);
        assert!(joined.starts_with("oklogword") && joined.ends_with("end"), "{joined}");
        assert_eq!(wrapped("a ", "b"), "a b");
    }
}
