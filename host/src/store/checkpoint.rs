//! The signed checkpoint that everything else hangs on, replaced by compare-and-swap only.

use super::StoreError;
use super::meta;
use super::tables::HEADS;
use redb::{Database, ReadableDatabase as _, ReadableTable as _, TableError, WriteTransaction};
use std::sync::Arc;
use tlog::note::Note;

/// Where one signed checkpoint is kept.
pub trait CheckpointStore: Send + Sync {
    /// The checkpoint. None: there was none yet.
    ///
    /// # Errors
    /// `Log` if what is stored is no note; `Meta`.
    fn load(&self) -> Result<Option<Note>, StoreError>;

    /// Puts `new` in the place of `old`, durably on return. Signatures count: `old` is what [`CheckpointStore::load`]
    /// gave.
    ///
    /// # Errors
    /// `CheckpointMoved` if another one is stored, which stays; `Meta`.
    fn compare_and_swap(&self, old: Option<&Note>, new: &Note) -> Result<(), StoreError>;
}

/// A checkpoint in a database, under a name.
#[derive(Clone, Debug)]
pub struct LocalCheckpoint {
    database: Arc<Database>,
    name: String,
}

impl LocalCheckpoint {
    /// The checkpoint of this name.
    pub const fn new(database: Arc<Database>, name: String) -> Self {
        Self { database, name }
    }
}

impl CheckpointStore for LocalCheckpoint {
    fn load(&self) -> Result<Option<Note>, StoreError> {
        let transaction = self.database.begin_read().map_err(StoreError::meta)?;
        let table = match transaction.open_table(HEADS) {
            Err(TableError::TableDoesNotExist(_)) => return Ok(None),
            table => table.map_err(StoreError::meta)?,
        };
        let Some(text) = table.get(self.name.as_str()).map_err(StoreError::meta)? else { return Ok(None) };
        let note = Note::parse(text.value().as_bytes());
        note.map(Some).map_err(|error| StoreError::Log { what: format!("the stored checkpoint: {error}") })
    }

    fn compare_and_swap(&self, old: Option<&Note>, new: &Note) -> Result<(), StoreError> {
        let transaction = meta::begin(&self.database).map_err(|error| StoreError::meta(*error))?;
        swap(&transaction, &self.name, old, new)?;
        transaction.commit().map_err(StoreError::meta)
    }
}

/// [`CheckpointStore::compare_and_swap`] as a part of a transaction, durable with it.
pub(super) fn swap(
    transaction: &WriteTransaction,
    name: &str,
    old: Option<&Note>,
    new: &Note,
) -> Result<(), StoreError> {
    let mut table = transaction.open_table(HEADS).map_err(StoreError::meta)?;
    let stored = table.get(name).map_err(StoreError::meta)?.map(|text| text.value().to_owned());
    if stored != old.map(ToString::to_string) {
        return Err(StoreError::CheckpointMoved);
    }
    table.insert(name, new.to_string().as_str()).map_err(StoreError::meta)?;
    Ok(())
}
