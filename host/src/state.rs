//! What a key server and a witness must never forget: one database, `state.redb`, and the epoch keys' files beside it.
//!
//! - [`ReleaseGuard`]: one answer a session, ever;
//! - [`WitnessState`]: the last head cosigned of each log;
//! - [`EpochKeys`]: the envelope keys, each until it is destroyed.
//!
//! After a failed access nobody knows what is on the disk. Then the whole [`State`] answers nothing more
//! ([`StateError::Broken`]) and the process has to end; what the next one reads is the truth.

mod credential;
mod guard;
mod keys;
#[cfg(test)]
mod testing;
mod witness;

pub use credential::{Credential, CredentialError};
pub use guard::{ImportError, Published, ReleaseGuard};
pub use keys::{EpochKeyError, EpochKeys, KeyState, Leftovers};
pub use witness::{SplitView, WitnessError, WitnessState};

use crate::chain::chain;
use crate::store::disk::Disk;
use crate::store::meta::{self, MetaError};
use panetiere::fault::{Attribution, Fault};
use panetiere::wire::{DecodeError, Reader};
use redb::{
    Database, ReadableDatabase as _, ReadableTable as _, TableDefinition, TableError, WriteTransaction,
};
use std::error::Error;
use std::fmt;
use std::sync::{Arc, OnceLock};

/// Name of the database on its disk.
pub const DATABASE: &str = "state.redb";

/// Layout of the tables.
const SCHEMA: u16 = 1;

/// A record with its key.
type Row = (Vec<u8>, Vec<u8>);

type Table = TableDefinition<'static, &'static [u8], &'static [u8]>;

const MARKS: Table = TableDefinition::new("marks");
const SCHEMA_MARK: &[u8] = b"schema";

/// The state cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StateError {
    /// An access has failed, now or before. This process must answer nothing more, and end.
    #[error("the durable state failed and is not used any more: {reason}")]
    Broken {
        /// What failed first.
        reason: String,
    },
    /// A record is not what this program writes.
    #[error("the recorded {what} cannot be read")]
    Malformed {
        /// What was to be read.
        what: &'static str,
        /// What is wrong with it.
        #[source]
        source: DecodeError,
    },
    /// The database cannot be opened; another process may have it.
    #[error("the durable state cannot be opened")]
    Open(#[source] MetaError),
    /// Another version of this program wrote it.
    #[error("the durable state has layout {found}, this program reads {expected}")]
    Schema {
        /// Layout that this program reads.
        expected: u16,
        /// Layout found.
        found: u16,
    },
}

impl Fault for StateError {
    fn code(&self) -> &'static str {
        match self {
            Self::Broken { .. } => "state_broken",
            Self::Malformed { .. } => "state_malformed",
            Self::Open(error) => error.code(),
            Self::Schema { .. } => "state_schema",
        }
    }

    fn attribution(&self) -> Attribution {
        Attribution::Operator
    }
}

/// The open database of one daemon. While it is open, no other process can open it.
pub struct State {
    database: Database,
    broken: OnceLock<String>,
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "State(broken: {:?})", self.broken.get())
    }
}

impl State {
    /// Opens the state on a disk, and makes an empty one if there is none. An empty one gives nothing away that it should
    /// remember: the guard releases nothing before it has read the log, the witness signs with no key that was not
    /// enrolled, and there are no keys.
    ///
    /// # Errors
    /// `Open` also if another process has it; `Schema`; `Broken`.
    pub fn open(disk: &dyn Disk) -> Result<Arc<Self>, StateError> {
        let database = meta::open(disk, DATABASE).map_err(StateError::Open)?;
        let state = Self { database, broken: OnceLock::new() };
        let found = state.update(|writer| match writer.get(MARKS, SCHEMA_MARK)? {
            None => {
                writer.put(MARKS, SCHEMA_MARK, &SCHEMA.to_le_bytes())?;
                Ok(Change::Commit(SCHEMA))
            }
            Some(bytes) => read("layout", &bytes, |reader| reader.u16("layout")).map(Change::Nothing),
        });
        match found? {
            SCHEMA => Ok(Arc::new(state)),
            found => Err(StateError::Schema { expected: SCHEMA, found }),
        }
    }

    /// Why the state is not used any more, if so: then the process has to end.
    pub fn broken(&self) -> Option<&str> {
        self.broken.get().map(String::as_str)
    }

    /// Remembers the first failure and returns it.
    fn break_for(&self, reason: String) -> StateError {
        StateError::Broken { reason: self.broken.get_or_init(|| reason).clone() }
    }

    fn failed(&self, error: &dyn Error) -> StateError {
        self.break_for(chain(error))
    }

    fn sound(&self) -> Result<(), StateError> {
        match self.broken.get() {
            None => Ok(()),
            Some(reason) => Err(StateError::Broken { reason: reason.clone() }),
        }
    }

    /// Runs one change: alone, whole or not at all, and durable on return.
    fn update<T, E: From<StateError>>(
        &self,
        change: impl FnOnce(&Writer<'_>) -> Result<Change<T>, E>,
    ) -> Result<T, E> {
        self.sound()?;
        let transaction = meta::begin(&self.database).map_err(|error| self.failed(&*error))?;
        let writer = Writer { state: self, transaction };
        // Waiting for the transaction, another one may have failed.
        self.sound()?;
        match change(&writer)? {
            Change::Commit(value) => {
                writer.transaction.commit().map_err(|error| self.failed(&error))?;
                Ok(value)
            }
            Change::Nothing(value) => {
                writer.transaction.abort().map_err(|error| self.failed(&error))?;
                Ok(value)
            }
        }
    }

    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, StateError> {
        self.sound()?;
        let transaction = self.database.begin_read().map_err(|error| self.failed(&error))?;
        let table = match transaction.open_table(table) {
            Ok(table) => table,
            Err(TableError::TableDoesNotExist(_)) => return Ok(None),
            Err(error) => return Err(self.failed(&error)),
        };
        let found = table.get(key).map_err(|error| self.failed(&error))?;
        Ok(found.map(|value| value.value().to_vec()))
    }

    /// All records of a table, by key.
    fn all(&self, table: Table) -> Result<Vec<Row>, StateError> {
        self.sound()?;
        let transaction = self.database.begin_read().map_err(|error| self.failed(&error))?;
        let table = match transaction.open_table(table) {
            Ok(table) => table,
            Err(TableError::TableDoesNotExist(_)) => return Ok(Vec::new()),
            Err(error) => return Err(self.failed(&error)),
        };
        let rows = table.iter().map_err(|error| self.failed(&error))?;
        rows.map(|row| {
            let (key, value) = row.map_err(|error| self.failed(&error))?;
            Ok((key.value().to_vec(), value.value().to_vec()))
        })
        .collect()
    }
}

/// What becomes of a transaction.
enum Change<T> {
    /// It is committed.
    Commit(T),
    /// There is nothing to commit.
    Nothing(T),
}

/// An open transaction.
struct Writer<'s> {
    state: &'s State,
    transaction: WriteTransaction,
}

impl Writer<'_> {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, StateError> {
        let table = self.transaction.open_table(table).map_err(|error| self.state.failed(&error))?;
        let found = table.get(key).map_err(|error| self.state.failed(&error))?;
        Ok(found.map(|value| value.value().to_vec()))
    }

    fn put(&self, table: Table, key: &[u8], value: &[u8]) -> Result<(), StateError> {
        let mut table = self.transaction.open_table(table).map_err(|error| self.state.failed(&error))?;
        table.insert(key, value).map_err(|error| self.state.failed(&error))?;
        Ok(())
    }

    /// Removes every record whose key begins so.
    fn remove_all(&self, table: Table, prefix: &[u8]) -> Result<(), StateError> {
        let mut table = self.transaction.open_table(table).map_err(|error| self.state.failed(&error))?;
        let rows = table.range(prefix..).map_err(|error| self.state.failed(&error))?;
        let mut keys = Vec::new();
        for row in rows {
            let key = row.map_err(|error| self.state.failed(&error))?.0.value().to_vec();
            if !key.starts_with(prefix) {
                break;
            }
            keys.push(key);
        }
        for key in keys {
            table.remove(&key[..]).map_err(|error| self.state.failed(&error))?;
        }
        Ok(())
    }
}

/// Reads a whole record.
fn read<T>(
    what: &'static str,
    bytes: &[u8],
    parse: impl FnOnce(&mut Reader<'_>) -> Result<T, DecodeError>,
) -> Result<T, StateError> {
    let mut reader = Reader::new(bytes);
    let value = parse(&mut reader).and_then(|value| reader.finish().map(|()| value));
    value.map_err(|source| StateError::Malformed { what, source })
}
