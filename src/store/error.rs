//! What can go wrong below the documents.

use std::path::PathBuf;

/// An error of the store.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Somebody else kept the database locked for longer than we wait (5 s).
    #[error("the database is locked by another program")]
    Busy,
    /// No room, or quota used up.
    #[error("no space left for the database")]
    Full,
    /// The quota of the store's owner is used up.
    #[error("the quota for the database is used up")]
    Quota,
    /// The database was made by a newer version of instancefs.
    #[error("{path}: made by a newer instancefs (schema {found}, this one knows {known})")]
    Newer {
        /// The database.
        path: PathBuf,
        /// Its schema number.
        found: u32,
        /// The newest that we know.
        known: u32,
    },
    /// Not a store, or not one that we can use.
    #[error("{path}: {reason}")]
    Unusable {
        /// What was looked at.
        path: PathBuf,
        /// Why not.
        reason: String,
    },
    /// The history holds something that we cannot read back.
    #[error("history of {doc}, revision {rev}: {reason}")]
    History {
        /// The document.
        doc: &'static str,
        /// The revision.
        rev: u64,
        /// What is wrong.
        reason: String,
    },
    /// Any other failure of SQLite.
    #[error("database: {0}")]
    Sqlite(#[source] rusqlite::Error),
    /// A failure of the file system.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// The failure.
        source: std::io::Error,
    },
}

impl From<rusqlite::Error> for StoreError {
    fn from(e: rusqlite::Error) -> StoreError {
        use rusqlite::ErrorCode;
        match e.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => StoreError::Busy,
            Some(ErrorCode::DiskFull) => StoreError::Full,
            _ => StoreError::Sqlite(e),
        }
    }
}
