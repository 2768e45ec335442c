//! SQLite: connections, migrations, one transaction gate, history.
//!
//! One database, `missions.db`, holds the rows that other programs share with us and our own
//! tables (prefix `ifs_`), so that one transaction covers a save, its history and its layout.
//!
//! * **One writer.** Every change goes through [`Store::begin`] (or [`Store::gate`]): one
//!   mutex, `BEGIN IMMEDIATE`, the work, `COMMIT`; dropped without a commit it rolls back.
//!   While it waits for another program's lock it holds nothing of ours but that mutex.
//! * **Lock order**: `missions.lock`, then SQLite's write lock, then a document.
//!   `missions.lock` is only ever tried (R9), but for one thread that serves nobody and waits
//!   its [`Turn`] while rows wait.
//! * **Readers** have connections of their own and never hold a transaction longer than one
//!   call, so that the WAL can be reset.
//! * **Other writers** are equals: the writer connection's `data_version` moves with their
//!   commits and not with ours, which is how [`Store::look`] knows of them.
//! * **Compatibility**: a database of another program is taken over as it is; one of a newer
//!   instancefs is refused.

mod browse;
mod connect;
pub mod delta;
mod durable;
mod error;
mod files;
mod gate;
mod history;
pub mod leaves;
mod lockfile;
mod maintain;
mod migrate;
mod observed;
mod owned;
mod settings;
mod tables;
#[cfg(test)]
mod tests;
pub mod upkeep;
mod walindex;
mod whereabouts;

/// What a transaction on documents writes and reads inside the gate.
pub(crate) mod ledger {
    pub(crate) use super::files::{on_record, set_file};
    pub(crate) use super::history::{actor, archive, insert, last_outside, last_rev};
    pub(crate) use super::tables::{document, set_document};
}

pub use browse::{Cursor, Span};
pub use connect::{DB_NAME, LOCK_NAME, Options, Store};
pub use error::StoreError;
pub use files::{FileRow, OnRecord};
pub use gate::{Gate, Idle, Look, Wait};
pub use history::{NewRevision, Revision};
pub use lockfile::{MissionsLock, Turn};
pub use maintain::Retention;
pub use observed::ObservedRow;
pub use owned::{OwnedRow, ProcessRow, WaiterRow};
pub use tables::{DocumentRow, ExportRow, KeptRefusal, NameRow, RefusalRow};
pub use upkeep::RowCounts;
