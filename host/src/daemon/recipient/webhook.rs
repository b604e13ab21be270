//! Tells a web address of every message: `PUT PATH/ROUND/NUMBER`, in order, each until it is taken. What was taken is
//! remembered; the same message may come twice, under the same name, after a crash.

use super::outbox::Outbox;
use crate::config::Webhook;
use crate::daemon::party::Backoff;
use anyhow::Context as _;
use panetiere_api::client::{Client, Upload};
use panetiere_api::media::MediaType;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What was told: so many rounds whole, and so many messages of the next.
type Cursor = (usize, usize);

pub(super) struct Teller {
    client: Client,
    path: String,
    outbox: Arc<Outbox>,
    file: PathBuf,
    cursor: Cursor,
}

fn read(file: &Path) -> anyhow::Result<Cursor> {
    let text = match fs::read_to_string(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((0, 0)),
        text => text?,
    };
    let (rounds, messages) = text.trim_end().split_once(' ').context("it has two numbers")?;
    Ok((rounds.parse()?, messages.parse()?))
}

impl Teller {
    pub fn new(config: &Webhook, data_dir: &Path, outbox: Arc<Outbox>) -> anyhow::Result<Self> {
        let file = data_dir.join("webhook");
        let cursor = read(&file).with_context(|| format!("what {} was told", config.server))?;
        let client = Client::new(config.endpoint().data_client())?;
        Ok(Self { client, path: config.path.trim_end_matches('/').to_owned(), outbox, file, cursor })
    }

    fn remember(&mut self, cursor: Cursor) -> io::Result<()> {
        let unfinished = self.file.with_extension("new");
        fs::write(&unfinished, format!("{} {}\n", cursor.0, cursor.1))?;
        File::open(&unfinished)?.sync_all()?;
        fs::rename(unfinished, &self.file)?;
        self.cursor = cursor;
        Ok(())
    }

    /// Tells until it is dropped.
    ///
    /// # Errors
    /// If what was told cannot be remembered, or the messages not be read.
    pub async fn tell(mut self) -> anyhow::Result<()> {
        let mut grown = self.outbox.grown();
        loop {
            let (place, told) = self.cursor;
            let Some(round) = self.outbox.at(place) else {
                if grown.changed().await.is_err() {
                    return Ok(());
                }
                continue;
            };
            let messages = self.outbox.read(round)?;
            for (count, (name, message)) in (1..).zip(messages).skip(told) {
                let path = format!("{}/{round}/{name}", self.path);
                let upload = Upload::Bytes(message.into());
                let mut backoff = Backoff::default();
                while let Err(error) = self.client.put(&path, MediaType::Bytes, upload.clone()).await {
                    tracing::debug!(
                        error = crate::chain::chain(&error),
                        "the webhook does not take a message"
                    );
                    crate::safe_warn!("the webhook does not take a message", round = round);
                    backoff.wait().await;
                }
                self.remember((place, count))?;
            }
            self.remember((place + 1, 0))?;
        }
    }
}
