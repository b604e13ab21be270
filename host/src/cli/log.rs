//! `panetiere log`: a log on disk, looked at from outside.
//!
//! A directory is a bulletin's (it has `meta.redb`, `log/` and `rounds/`) or a published log alone, as a mirror has it
//! (`checkpoint` and `tile/`). Nothing in it is changed. A running bulletin has the database to itself, and is left
//! alone: then only its published files are read, and the output says so.

use super::Exit;
use super::outcome::{Failure, Outcome, finish};
use super::terminal::escape;
use crate::anchor;
use crate::round::mirror::{self, Exported};
use crate::store::Reader;
use crate::store::disk::{Access, Disk, DiskFile, LocalDisk};
use crate::store::fsck::{self, Report};
use crate::store::tiles::PublishedTiles;
use anyhow::Context as _;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tlog::checkpoint::{Checkpoint, TreeHead};
use tlog::key::VerifierKey;
use tlog::merkle::leaf_hash;
use tlog::note::Note;
use tlog::proof::Proof;
use tlog::prove::{self, ProveError, ReadTiles as _};
use tlog::tile::{Bundle, WIDTH};

/// The log of a bulletin or a mirror, on disk.
#[derive(clap::Subcommand)]
pub enum Command {
    /// Hash everything again: leaves, tree, checkpoints, published files, bodies. Exit code 3 if anything is wrong
    #[command(after_help = "Examples:\n  panetiere log fsck /var/lib/panetiere/bulletin\n  \
        panetiere log fsck /srv/mirror --key \"$(cat log.vkey)\" --json\n\n\
        A running bulletin is not disturbed: of its directory only the published files are checked then.")]
    Fsck(Box<Fsck>),
    /// Show the last entries
    #[command(after_help = "Examples:\n  panetiere log tail /var/lib/panetiere/bulletin\n  \
        panetiere log tail /srv/mirror -n 100 --json")]
    Tail(Tail),
    /// Print the receipt of an entry: a C2SP tlog-proof, which verifies offline
    #[command(after_help = "Example:\n  panetiere log prove /var/lib/panetiere/bulletin 42 > 42.tlog-proof")]
    Prove(Prove),
    /// Copy a bulletin's log and bodies to plain files that anybody can hold and audit
    #[command(after_help = "Example:\n  panetiere log export /var/lib/panetiere/bulletin /srv/mirror\n\n\
        The bulletin must not be running: give a snapshot of its directory. Nothing in it is changed.")]
    Export(Export),
}

/// Arguments of `panetiere log export`.
#[derive(clap::Args)]
pub struct Export {
    /// Directory of a bulletin
    #[arg(value_name = "DATA_DIR")]
    directory: PathBuf,

    /// Directory of the copy; made if it is not there, and brought up to date if it is
    #[arg(value_name = "OUT_DIR")]
    out: PathBuf,

    /// One object on stdout instead of text
    #[arg(long)]
    json: bool,
}

/// Arguments of `panetiere log fsck`.
#[derive(clap::Args)]
pub struct Fsck {
    /// Directory of a bulletin, or a published log
    #[arg(value_name = "DIR")]
    directory: PathBuf,

    /// Key of the log, NAME+ID+KEY, where no database says it
    #[arg(long, value_name = "VKEY")]
    key: Option<VerifierKey>,

    /// One object on stdout instead of text
    #[arg(long)]
    json: bool,
}

/// Arguments of `panetiere log tail`.
#[derive(clap::Args)]
pub struct Tail {
    /// Directory of a bulletin, or a published log
    #[arg(value_name = "DIR")]
    directory: PathBuf,

    /// How many entries
    #[arg(short = 'n', long = "entries", value_name = "N", default_value_t = 10)]
    entries: u64,

    /// One object on stdout instead of text
    #[arg(long)]
    json: bool,
}

/// Arguments of `panetiere log prove`.
#[derive(clap::Args)]
pub struct Prove {
    /// Directory of a bulletin, or a published log
    #[arg(value_name = "DIR")]
    directory: PathBuf,

    /// Number of the entry, from 0
    #[arg(value_name = "INDEX")]
    index: u64,
}

/// Runs the command.
pub fn execute(command: &Command) -> Exit {
    let (directory, outcome) = match command {
        Command::Fsck(args) => (&args.directory, fsck(args)),
        Command::Tail(args) => (&args.directory, tail(args)),
        Command::Prove(args) => (&args.directory, prove(args)),
        Command::Export(args) => (&args.directory, export(args)),
    };
    finish(outcome, &format!("{}: ", directory.display()))
}

/// A directory, and where in it the published files lie.
struct Place {
    disk: Arc<dyn Disk>,
    published: &'static str,
    has_database: bool,
}

impl Place {
    fn open(directory: &Path) -> anyhow::Result<Self> {
        let disk: Arc<dyn Disk> = Arc::new(LocalDisk::new(directory));
        let names = disk.list("").context("cannot be listed")?;
        let has = |wanted: &str| names.iter().any(|name| name.name == wanted);
        let published = if has("meta.redb") || has("log") { "log" } else { "" };
        anyhow::ensure!(
            !published.is_empty() || has("checkpoint"),
            "is no log: expected meta.redb and log/ of a bulletin, or checkpoint and tile/ of a published log"
        );
        Ok(Self { disk, published, has_database: has("meta.redb") })
    }

    /// The lock of the directory, if nobody has it. Kept from a bulletin that would start meanwhile.
    fn lock(&self) -> anyhow::Result<Option<Arc<dyn DiskFile>>> {
        let file = match self.disk.open("LOCK", Access::Read) {
            // A copy without its lock file is nobody's.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return self.disk.open("meta.redb", Access::Read).map(Some).context("cannot open meta.redb");
            }
            file => file.context("cannot open LOCK")?,
        };
        Ok(file.try_lock().context("cannot lock LOCK")?.then_some(file))
    }

    fn tiles(&self) -> PublishedTiles {
        PublishedTiles::new(Arc::clone(&self.disk), self.published)
    }

    fn note(&self) -> anyhow::Result<(Note, TreeHead)> {
        let bytes = self.tiles().checkpoint().context("cannot read the published checkpoint")?;
        let note = Note::parse(&bytes).context("the published checkpoint is no note")?;
        let checkpoint: Checkpoint = note.text().parse().context("the published checkpoint is none")?;
        Ok((note, checkpoint.head()))
    }
}

fn fsck(args: &Fsck) -> Outcome {
    let place = Place::open(&args.directory)?;
    let lock = if place.has_database { place.lock()? } else { None };
    let running = place.has_database && lock.is_none();
    let report = match lock {
        Some(_) => fsck::store(&place.disk)
            .context("the database cannot be read")
            .map_err(|error| Failure { exit: Exit::Convicted, error })?,
        None => fsck::published(&place.disk, place.published, args.key.as_ref()),
    };
    let exit = if report.findings.is_empty() { Exit::Ok } else { Exit::Convicted };
    let text = if args.json { fsck_json(&report, running).to_string() } else { fsck_text(&report, running) };
    Ok((text, exit))
}

fn fsck_text(report: &Report, running: bool) -> String {
    let size = |size: Option<u64>| size.map_or("unknown".to_owned(), |size| size.to_string());
    let mut lines = vec![format!("published   {} entries, {} files", size(report.published), report.files)];
    if running {
        lines.push("stored      not looked at: another process has the directory open".to_owned());
    } else if report.stored.is_some() {
        lines.push(format!("stored      {} leaves", size(report.stored)));
        lines.push(format!("bodies      {}, {} bytes", report.blobs, report.blob_bytes));
    }
    lines.push(match &report.key {
        Some(key) => format!("signatures  by {}", escape(key)),
        None => "signatures  not checked: give the log's key with --key".to_owned(),
    });
    lines.extend(report.findings.iter().map(|finding| {
        format!("FAULT       {}: {} [{}]", escape(&finding.place), escape(&finding.what), finding.code)
    }));
    lines.push(match report.findings.len() {
        0 => "ok".to_owned(),
        count => format!("{count} findings"),
    });
    lines.join("\n")
}

fn fsck_json(report: &Report, running: bool) -> Value {
    let findings: Vec<_> = report
        .findings
        .iter()
        .map(|finding| json!({"code": finding.code, "place": finding.place, "what": finding.what}))
        .collect();
    json!({
        "published": report.published,
        "stored": report.stored,
        "files": report.files,
        "bodies": report.blobs,
        "body_bytes": report.blob_bytes,
        "key": report.key,
        "running": running,
        "findings": findings,
    })
}

fn tail(args: &Tail) -> Outcome {
    let place = Place::open(&args.directory)?;
    let (note, head) = place.note()?;
    let first = head.size.saturating_sub(args.entries);
    let mut entries = Vec::new();
    let mut index = first;
    while index < head.size {
        let bundle = Bundle::of_entry(index, head.size).context("no such entry")?;
        let broken = |error: anyhow::Error| Failure { exit: Exit::Convicted, error };
        let bytes = place.tiles().bundle(bundle).context("the log is incomplete").map_err(broken)?;
        let parsed = bundle.parse(&bytes).context(bundle.to_string()).map_err(broken)?;
        let skipped = usize::try_from(index % u64::from(WIDTH)).expect("below 256");
        for entry in &parsed[skipped..] {
            entries.push((index, entry.to_vec()));
            index += 1;
        }
    }
    let text = if args.json {
        let entries: Vec<_> = entries
            .iter()
            .map(|(index, entry)| {
                json!({
                    "index": index,
                    "hash": data_encoding::HEXLOWER.encode(&leaf_hash(entry)),
                    "entry": data_encoding::BASE64.encode(entry),
                })
            })
            .collect();
        json!({"size": head.size, "checkpoint": note.to_string(), "entries": entries}).to_string()
    } else {
        let mut lines =
            vec![format!("{} entries, root {}", head.size, data_encoding::HEXLOWER.encode(&head.root))];
        lines.extend(entries.iter().map(|(index, entry)| {
            let hash = data_encoding::HEXLOWER.encode(&leaf_hash(entry));
            format!("{index:>10}  {:>5} bytes  {hash}", entry.len())
        }));
        lines.join("\n")
    };
    Ok((text, Exit::Ok))
}

fn prove(args: &Prove) -> Outcome {
    let place = Place::open(&args.directory)?;
    let (note, head) = place.note()?;
    if args.index >= head.size {
        return Err(anyhow::anyhow!(
            "has {} entries, expected an index below that, found {}",
            head.size,
            args.index
        )
        .into());
    }
    let inclusion = prove::inclusion(args.index, head.size, &head.root, &place.tiles()).map_err(|error| {
        let exit = match error {
            ProveError::Unreadable { .. } => Exit::Failed,
            _ => Exit::Convicted,
        };
        Failure {
            exit,
            error: anyhow::Error::new(error).context("no proof can be made: try `panetiere log fsck`"),
        }
    })?;
    let proof = Proof::new(args.index, inclusion.path, note).context("the path is none")?.to_string();
    // The last line break is the printer's.
    Ok((proof.strip_suffix('\n').unwrap_or(&proof).to_owned(), Exit::Ok))
}

fn export(args: &Export) -> Outcome {
    let failed = |error: anyhow::Error| Failure { exit: Exit::Failed, error };
    let place = Place::open(&args.directory)?;
    if !place.has_database {
        return Err(anyhow::anyhow!("is no directory of a bulletin: expected meta.redb").into());
    }
    let reader = Reader::open(Arc::clone(&place.disk)).context("the store cannot be read").map_err(failed)?;
    let running = || anyhow::anyhow!("another process has it open: stop it, or give a snapshot");
    let reader = reader.ok_or_else(running).map_err(failed)?;
    std::fs::create_dir_all(&args.out).with_context(|| format!("{}: cannot be made", args.out.display()))?;
    let beside = args.directory.join(anchor::FILE_NAME);
    if beside.exists() {
        std::fs::copy(&beside, args.out.join(anchor::FILE_NAME))
            .context("copying the anchor")
            .map_err(failed)?;
    }
    let exported =
        mirror::export(&reader, &LocalDisk::new(&args.out)).map_err(|error| failed(error.into()))?;
    let Exported { entries, bodies, bytes, deleted } = exported;
    let text = if args.json {
        json!({"entries": entries, "bodies": bodies, "body_bytes": bytes, "deleted": deleted}).to_string()
    } else {
        format!(
            "{entries} entries, {bodies} bodies of {bytes} bytes; {deleted} were deleted with their rounds"
        )
    };
    Ok((text, Exit::Ok))
}
