//! What commands do to a database as a whole, without opening it as a store: copy it, take
//! our tables out of it. No daemon has it open in this process.

use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags, TransactionBehavior, backup};

use super::{Store, StoreError};

/// How long another program's lock is waited for.
const PATIENCE: Duration = Duration::from_secs(5);

/// Copies one state of the database `from` into the empty file `to`, page by page, as of one
/// read transaction. Other programs may go on writing to `from`.
///
/// Errors: [`StoreError::Busy`] when somebody keeps it locked; those of SQLite.
pub fn copy_database(from: &Path, to: &Path) -> Result<(), StoreError> {
    let source = open(from, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    let mut target = open(to, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    let copy = backup::Backup::new(&source, &mut target)?;
    match copy.step(-1)? {
        backup::StepResult::Done => Ok(()),
        _ => Err(StoreError::Busy),
    }
}

/// Drops all tables that are ours (`ifs_`): history, layout, what was seen. The rows of the
/// shared tables stay.
///
/// Errors: [`StoreError::Busy`] when somebody keeps it locked; those of SQLite.
pub fn drop_own_tables(database: &Path) -> Result<(), StoreError> {
    let mut conn = open(database, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let names: Vec<String> = tx
        .prepare("SELECT name FROM sqlite_schema WHERE type = 'table' AND name GLOB 'ifs_*'")?
        .query_map([], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    for name in names {
        tx.execute_batch(&format!("DROP TABLE \"{}\"", name.replace('"', "\"\"")))?;
    }
    tx.commit()?;
    conn.execute_batch("VACUUM")?;
    Ok(())
}

/// Rows of the shared tables.
#[derive(Debug, Default, Clone, PartialEq, Eq, serde::Serialize)]
pub struct RowCounts {
    /// Missions waiting.
    pub pending: u64,
    /// Missions being worked on.
    pub in_progress: u64,
    /// Missions done.
    pub done: u64,
    /// Missions failed.
    pub failed: u64,
    /// Lines of the section CI.
    pub ci: u64,
    /// Ideas.
    pub ideas: u64,
    /// What was set aside.
    pub quarantine: u64,
}

impl Store {
    /// What SQLite's integrity check complains about, at most 20 lines; empty: the database is
    /// sound. Reads every page.
    pub fn integrity(&self) -> Result<Vec<String>, StoreError> {
        self.read(|c| {
            let mut check = c.prepare("PRAGMA integrity_check(20)")?;
            let lines = check.query_map([], |r| r.get::<_, String>(0))?;
            let lines: Vec<String> = lines.collect::<Result<_, _>>()?;
            Ok(lines.into_iter().filter(|line| line != "ok").collect())
        })
    }

    /// How many rows the shared tables have, all counted at one moment.
    pub fn row_counts(&self) -> Result<RowCounts, StoreError> {
        self.read(|c| {
            let count = |sql: &str| -> Result<u64, StoreError> {
                let n: i64 = c.prepare_cached(sql)?.query_row([], |r| r.get(0))?;
                Ok(u64::try_from(n).unwrap_or(0))
            };
            Ok(RowCounts {
                pending: count("SELECT count(*) FROM missions WHERE state = 'pending'")?,
                in_progress: count("SELECT count(*) FROM missions WHERE state = 'in_progress'")?,
                done: count("SELECT count(*) FROM missions WHERE state = 'done'")?,
                failed: count("SELECT count(*) FROM missions WHERE state = 'failed'")?,
                ci: count("SELECT count(*) FROM ci_queue")?,
                ideas: count("SELECT count(*) FROM ideas")?,
                quarantine: count("SELECT count(*) FROM quarantine")?,
            })
        })
    }
}

fn open(path: &Path, mode: OpenFlags) -> Result<Connection, StoreError> {
    let conn = Connection::open_with_flags(path, mode | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    conn.busy_timeout(PATIENCE)?;
    Ok(conn)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(path: &Path, table: &str) -> Option<i64> {
        let conn = Connection::open(path).unwrap();
        conn.query_row(&format!("SELECT count(*) FROM {table}"), [], |r| r.get(0)).ok()
    }

    #[test]
    fn copies_what_is_still_in_the_wal() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("a.db"), dir.path().join("b.db"));
        let writer = Connection::open(&from).unwrap();
        writer
            .execute_batch(
                "PRAGMA journal_mode = WAL; CREATE TABLE t (x); INSERT INTO t VALUES (1)",
            )
            .unwrap();
        std::fs::write(&to, "").unwrap();
        copy_database(&from, &to).unwrap();
        writer.execute_batch("INSERT INTO t VALUES (2)").unwrap();
        assert_eq!(count(&to, "t"), Some(1));
    }

    #[test]
    fn takes_our_tables_out_and_leaves_the_others() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.db");
        let conn = Connection::open(&path).unwrap();
        conn.execute_batch(
            "CREATE TABLE missions (x); INSERT INTO missions VALUES (1);
             CREATE TABLE ifs_a (x); CREATE INDEX ifs_i ON ifs_a (x); CREATE TABLE ifsb (x);",
        )
        .unwrap();
        drop(conn);
        drop_own_tables(&path).unwrap();
        assert_eq!(count(&path, "missions"), Some(1));
        assert_eq!(count(&path, "ifsb"), Some(0));
        assert_eq!(count(&path, "ifs_a"), None);
    }
}
