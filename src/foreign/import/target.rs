//! A database of the store that rows are added to.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};

use super::make_private;
use crate::foreign::error::{Result, sql};
use crate::foreign::{Database, schema};

/// How long another program that writes is waited for.
const PATIENCE: Duration = Duration::from_secs(600);

/// An open target.
pub(super) struct Target {
    pub(super) conn: Connection,
    pub(super) path: PathBuf,
    pub(super) database: Database,
}

impl Target {
    /// Opens the database at `path`; makes an empty one (0600) if there is none. Its tables are
    /// made by the first transaction.
    pub(super) fn open(path: &Path, database: Database) -> Result<Target> {
        let failed = sql(path);
        let new = make_private(path)?;
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let conn = Connection::open_with_flags(path, flags).map_err(&failed)?;
        conn.busy_timeout(PATIENCE).map_err(&failed)?;
        // Triggers and views are the program's, but the file may be anybody's.
        conn.pragma_update(None, "trusted_schema", false).map_err(&failed)?;
        conn.pragma_update(None, "foreign_keys", false).map_err(&failed)?;
        if new {
            conn.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))
                .map_err(&failed)?;
        }
        conn.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(())).map_err(&failed)?;
        schema::check_version(&conn, path, database)?;
        Ok(Target { conn, path: path.to_owned(), database })
    }
}
