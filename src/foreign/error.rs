//! What can go wrong with another program's database.

use std::path::{Path, PathBuf};

/// An error of this room: one line that says what and where.
#[derive(Debug, thiserror::Error)]
pub enum ForeignError {
    /// Somebody kept it locked for longer than we wait.
    #[error("{}: locked by another program", .path.display())]
    Busy {
        /// The database.
        path: PathBuf,
    },
    /// Its schema is newer than what is known here.
    #[error("{}: its schema version {found} is newer than {known}, the newest that is known", .path.display())]
    Newer {
        /// The database.
        path: PathBuf,
        /// Its version.
        found: i64,
        /// The newest known one.
        known: i64,
    },
    /// It is not what it should be.
    #[error("{}: {reason}", .path.display())]
    Unusable {
        /// The database.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// Any other failure of SQLite.
    #[error("{}: {source}", .path.display())]
    Sqlite {
        /// The database.
        path: PathBuf,
        /// The failure.
        source: rusqlite::Error,
    },
    /// A failure of the file system.
    #[error("{}: {source}", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The failure.
        source: std::io::Error,
    },
}

/// The result of this room.
pub type Result<T> = std::result::Result<T, ForeignError>;

/// Names the database in a failure of SQLite.
pub(super) fn sql(path: &Path) -> impl Fn(rusqlite::Error) -> ForeignError + '_ {
    use rusqlite::ErrorCode;
    move |source| match source.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            ForeignError::Busy { path: path.to_owned() }
        }
        Some(ErrorCode::NotADatabase) => unusable(path, "not an SQLite database"),
        Some(ErrorCode::DatabaseCorrupt) => unusable(path, "damaged"),
        _ => ForeignError::Sqlite { path: path.to_owned(), source },
    }
}

/// Names the file in a failure of the file system.
pub(super) fn io<E: Into<std::io::Error>>(path: &Path) -> impl Fn(E) -> ForeignError + '_ {
    move |e| ForeignError::Io { path: path.to_owned(), source: e.into() }
}

pub(super) fn unusable(path: &Path, reason: impl Into<String>) -> ForeignError {
    ForeignError::Unusable { path: path.to_owned(), reason: reason.into() }
}
