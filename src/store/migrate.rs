//! Numbered migrations. The number of the last one is in `ifs_meta`, not in `user_version`,
//! which belongs to whoever else uses the database.

use std::path::Path;

use rusqlite::{Connection, OptionalExtension, TransactionBehavior};

use super::StoreError;

/// All migrations, in order; number 1 is the first. Never edited, only added to.
const MIGRATIONS: [&str; 2] =
    [include_str!("migrations/001_own.sql"), include_str!("migrations/002_observed.sql")];

/// The tables shared with other programs; run at every open, creates what is missing.
const SHARED: &str = include_str!("migrations/shared.sql");

/// Columns that we need of a table which another program may have made.
const NEEDED: [(&str, &[&str]); 4] = [
    (
        "missions",
        &[
            "id",
            "text",
            "state",
            "project",
            "sequence",
            "complexity",
            "queued_at",
            "started_at",
            "completed_at",
            "recovery_count",
        ],
    ),
    (
        "ci_queue",
        &[
            "id",
            "project",
            "pr_url",
            "branch",
            "full_repo",
            "queued",
            "attempt",
            "max_attempts",
            "sequence",
        ],
    ),
    ("ideas", &["id", "text", "project", "added_at", "sequence"]),
    ("quarantine", &["id", "text", "reason", "source", "added_at"]),
];

/// Brings the database up to date. Returns whether it is without our tables, which is only
/// possible when `read_only`, where nothing is changed.
pub(super) fn run(conn: &Connection, db: &Path, read_only: bool) -> Result<bool, StoreError> {
    let found = version(conn)?;
    let known = MIGRATIONS.len() as u32;
    if found > known {
        return Err(StoreError::Newer { path: db.to_owned(), found, known });
    }
    check_columns(conn, db)?;
    if read_only {
        if found != 0 && found != known {
            return Err(StoreError::Unusable {
                path: db.to_owned(),
                reason: format!(
                    "its tables are of schema {found}, this instancefs has {known}; \
                     open it once for writing"
                ),
            });
        }
        return Ok(found == 0);
    }
    let tx = rusqlite::Transaction::new_unchecked(conn, TransactionBehavior::Immediate)?;
    tx.execute_batch(SHARED)?;
    // Another process may have been faster.
    let found = version(&tx)?;
    for (number, sql) in (1u32..).zip(MIGRATIONS).filter(|(n, _)| *n > found) {
        tx.execute_batch(sql)?;
        tx.execute("INSERT OR REPLACE INTO ifs_meta (key, value) VALUES ('schema', ?1)", [number])?;
    }
    tx.execute(
        "INSERT OR IGNORE INTO ifs_meta (key, value)
         VALUES ('created', CAST(strftime('%s') AS INTEGER) * 1000000000)",
        [],
    )?;
    tx.commit()?;
    Ok(false)
}

/// The number of the last migration, 0 when our tables are not there.
fn version(conn: &Connection) -> Result<u32, StoreError> {
    let there = conn
        .query_row("SELECT 1 FROM sqlite_schema WHERE name = 'ifs_meta'", [], |_| Ok(()))
        .optional()?;
    if there.is_none() {
        return Ok(0);
    }
    let n: Option<u32> = conn
        .query_row("SELECT value FROM ifs_meta WHERE key = 'schema'", [], |r| r.get(0))
        .optional()?;
    Ok(n.unwrap_or(0))
}

/// A table of that name with other columns is somebody else's idea of it: not usable.
fn check_columns(conn: &Connection, db: &Path) -> Result<(), StoreError> {
    for (table, needed) in NEEDED {
        let mut stmt = conn.prepare("SELECT name FROM pragma_table_info(?1)")?;
        let have: Vec<String> = stmt.query_map([table], |r| r.get(0))?.collect::<Result<_, _>>()?;
        if have.is_empty() {
            continue;
        }
        if let Some(missing) = needed.iter().find(|c| !have.iter().any(|h| h == *c)) {
            return Err(StoreError::Unusable {
                path: db.to_owned(),
                reason: format!("its table {table} has no column {missing}"),
            });
        }
    }
    Ok(())
}
